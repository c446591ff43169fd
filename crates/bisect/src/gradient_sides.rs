//! The gradients of the culprit and of its first parent, each held against its loss: evidence beside the comparison with
//! the good end, made once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::conclusion::Culprit;
use super::mended::list_wanted_outputs;
use super::plan::Plan;
use super::{BisectError, Bisection, Symptom};
use replay_engine::judge::{GradientCheck, GradientVerdict};

/// The most time for the gradients of one commit of a program, which runs for each value of the loss.
const PROGRAM_LIMIT: Duration = Duration::from_secs(3);

/// A declared gradient, held against its loss at the culprit and at its first parent.
#[derive(Clone, Debug)]
pub struct GradientSides {
    /// The fixture.
    pub fixture: String,
    /// Whether the search was for its output.
    pub is_wanted: bool,
    /// The check at the culprit.
    pub culprit: GradientCheck,
    /// The check at its first parent; none where that cannot be tested.
    pub parent: Option<GradientCheck>,
    /// Whether the culprit leaves the loss as it was.
    pub keeps_loss: bool,
}

impl GradientSides {
    /// Whether the culprit has the gradient of a loss that it leaves as it was, and its parent has not.
    pub(super) fn are_mended(&self) -> bool {
        self.keeps_loss
            && !self.culprit.of.is_empty()
            && self.culprit.story.verdict() == GradientVerdict::Matches
            && self.parent.as_ref().is_some_and(is_off)
    }

    /// Whether the culprit's gradient departs from its loss, and its parent's does not.
    pub fn are_broken(&self) -> bool {
        let holds = |check: &GradientCheck| !is_off(check) && !is_open(check);
        is_off(&self.culprit) && self.parent.as_ref().is_some_and(holds)
    }

    /// Whether the culprit's gradient departs from its loss.
    pub(super) fn is_culprit_off(&self) -> bool {
        is_off(&self.culprit)
    }
}

fn is_off(check: &GradientCheck) -> bool {
    check.story.verdict() >= GradientVerdict::Imprecise
}

fn is_open(check: &GradientCheck) -> bool {
    check.story.verdict() == GradientVerdict::Unknown
}

/// Checks all gradients at `culprit` and at its first parent, if one of them has a symptom of values among `wanted`.
pub(super) fn check_gradient_sides(
    bisection: &Bisection<'_>,
    plan: &Plan,
    wanted: &BTreeSet<Symptom>,
    culprit: &Culprit,
) -> Result<Vec<GradientSides>, BisectError> {
    let wanted_outputs = list_wanted_outputs(culprit, wanted);
    let is_wanted_gradient = bisection.targets.iter().any(|target| {
        let fixture = &target.subject.fixture;
        fixture.outputs.iter().filter(|output| output.gradient_of.is_some()).any(|output| {
            wanted_outputs.iter().any(|(f, o)| *f == fixture.name && o.name == output.name)
        })
    });
    if !is_wanted_gradient || !bisection.on.minds_values() {
        return Ok(Vec::new());
    }
    let limit = (!bisection.has_cheap_replays()).then_some(PROGRAM_LIMIT);
    let own_checks = bisection.gradients(plan.ids[culprit.commit as usize], limit)?;
    // A program that takes too long for one side takes too long for the other.
    let is_known =
        limit.is_none() || !own_checks.iter().flat_map(|(_, checks)| checks).all(is_open);
    let parent_checks = match culprit.parents.first() {
        Some(&parent) if is_known => bisection.gradients(plan.ids[parent as usize], limit)?,
        _ => Vec::new(),
    };
    let mut sides = Vec::new();
    for (fixture, checks) in own_checks {
        let parent_checks = parent_checks.iter().find(|(name, _)| *name == fixture);
        for check in checks {
            let mut parent_checks = parent_checks.iter().flat_map(|(_, checks)| checks);
            sides.push(GradientSides {
                is_wanted: wanted_outputs
                    .iter()
                    .any(|(f, output)| *f == fixture && output.name == check.output),
                parent: parent_checks.find(|parent| parent.output == check.output).cloned(),
                keeps_loss: check.of.iter().all(|term| keeps_output(culprit, &fixture, term)),
                fixture: fixture.clone(),
                culprit: check,
            });
        }
    }
    Ok(sides)
}

/// Whether `culprit` leaves the output `name` as it was. A gradient may match a loss that is another one.
fn keeps_output(culprit: &Culprit, fixture: &str, name: &str) -> bool {
    let of_fixture = culprit.seen.observations.iter().filter(|seen| *seen.fixture == *fixture);
    let outputs = of_fixture
        .filter_map(|seen| seen.judgement.as_ref())
        .flat_map(|judgement| &judgement.outputs);
    outputs.filter(|output| output.name == name).all(|output| output.story.verdict().agrees())
}
