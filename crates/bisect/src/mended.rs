//! What the culprit mends, by the truth on both of its sides: a commit that was taken for a defect may be a repair.

use serde::Serialize;

use super::conclusion::Culprit;
use super::plan::Plan;
use super::{BisectError, Bisection, Direction, Symptom};
use replay_base::summary::Number;
use replay_engine::judge::{
    GradientCheck, GradientVerdict, Judgement, OutputJudgement, Story, WrongBy,
};
use std::collections::BTreeSet;

/// An output that is right since the culprit, and was not before.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Mended {
    /// The fixture.
    pub fixture: String,
    /// The output.
    pub output: String,
    /// The truth behind it.
    pub by: MendedBy,
}

/// The truth by which an output is mended.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MendedBy {
    /// Its loss, which is the same: the gradient matches it, and did not before.
    Loss,
    /// The float64 shadow, which is the same on both sides, or the declared oracle.
    Accuracy {
        /// The error before, relative, in L2.
        #[serde(with = "Number")]
        before: f64,
        /// The error since.
        #[serde(with = "Number")]
        after: f64,
    },
}

/// What `culprit` mends of the outputs with `wanted` symptoms; nothing where the search is for a repair anyway, or where it
/// breaks something too.
pub(super) fn find_mended(
    bisection: &Bisection<'_>,
    plan: &Plan,
    wanted: &BTreeSet<Symptom>,
    culprit: &Culprit,
) -> Result<Vec<Mended>, BisectError> {
    if plan.direction == Direction::Repairs || !bisection.on.minds_values() {
        return Ok(Vec::new());
    }
    let wanted_outputs: Vec<(&str, &OutputJudgement)> = culprit
        .seen
        .observations
        .iter()
        .filter_map(|observation| Some((&*observation.fixture, observation.judgement.as_ref()?)))
        .flat_map(|(fixture, judgement)| list_wanted_outputs(fixture, judgement, wanted))
        .collect();
    let mended: Vec<Mended> = wanted_outputs
        .iter()
        .filter_map(|(fixture, output)| mended_by_accuracy(fixture, output))
        .collect();
    if !mended.is_empty() && mended.len() == wanted_outputs.len() {
        return Ok(mended);
    }
    // A program is run many times for its gradients: a claim about it is not questioned at this price.
    let has_cheap_gradients = bisection.lab.backend().has_orders();
    let may_be_mended = has_cheap_gradients
        && wanted_outputs.iter().any(|(_, output)| is_other_mathematics(output));
    let (true, Some(&parent)) = (may_be_mended, culprit.parents.first()) else {
        return Ok(Vec::new());
    };
    let after = bisection.gradients(plan.ids[culprit.commit as usize])?;
    if after.iter().flat_map(|(_, checks)| checks).any(is_off) {
        return Ok(Vec::new());
    }
    let before = bisection.wrong_gradients(plan.ids[parent as usize])?;
    let mut mended = Vec::new();
    for (fixture, checks) in before {
        let of_fixture = after.iter().filter(|(name, _)| *name == fixture);
        let matching: Vec<&str> = of_fixture
            .flat_map(|(_, checks)| checks)
            .filter(|check| check.story.verdict() == GradientVerdict::Matches)
            .map(|check| check.output.as_str())
            .collect();
        for GradientCheck { output, of, .. } in checks {
            let keeps_loss =
                !of.is_empty() && of.iter().all(|term| keeps_output(culprit, &fixture, term));
            if keeps_loss && matching.contains(&output.as_str()) {
                mended.push(Mended { fixture: fixture.clone(), output, by: MendedBy::Loss });
            }
        }
    }
    Ok(mended)
}

/// Whether `culprit` leaves the output `name` as it was. A gradient may match a loss that is another one.
fn keeps_output(culprit: &Culprit, fixture: &str, name: &str) -> bool {
    let of_fixture = culprit.seen.observations.iter().filter(|seen| *seen.fixture == *fixture);
    let outputs = of_fixture
        .filter_map(|seen| seen.judgement.as_ref())
        .flat_map(|judgement| &judgement.outputs);
    outputs.filter(|output| output.name == name).all(|output| output.story.verdict().agrees())
}

/// The outputs of `judgement` with a symptom among `wanted`.
fn list_wanted_outputs<'j>(
    fixture: &'j str,
    judgement: &'j Judgement,
    wanted: &BTreeSet<Symptom>,
) -> Vec<(&'j str, &'j OutputJudgement)> {
    let is_wanted = |output: &&OutputJudgement| {
        wanted.iter().any(|symptom| {
            symptom.is_of_values()
                && symptom.fixture() == fixture
                && symptom.output() == Some(output.name.as_str())
        })
    };
    judgement.outputs.iter().filter(is_wanted).map(|output| (fixture, output)).collect()
}

fn mended_by_accuracy(fixture: &str, output: &OutputJudgement) -> Option<Mended> {
    let (Story::MoreAccurate, Some(before), Some(after)) =
        (&output.story, &output.base_accuracy, &output.got_accuracy)
    else {
        return None;
    };
    let by = MendedBy::Accuracy { before: before.relative_l2, after: after.relative_l2 };
    Some(Mended { fixture: fixture.to_owned(), output: output.name.clone(), by })
}

/// Whether the mathematics of `output` may be another one, be it a wrong one or one that was mended.
fn is_other_mathematics(output: &OutputJudgement) -> bool {
    match &output.story {
        Story::Wrong(WrongBy::Shadow | WrongBy::HiddenShadow | WrongBy::Distance)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::Drifted { .. }
        | Story::BeyondNoise { .. } => true,
        Story::Agrees(_) | Story::OrderDependent(_) | Story::Unsteady | Story::Imprecise(_) => {
            false
        }
    }
}

fn is_off(check: &GradientCheck) -> bool {
    check.story.verdict() >= GradientVerdict::Imprecise
}
