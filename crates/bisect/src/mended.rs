//! What the culprit mends, by the truth on both of its sides: a commit that was taken for a defect may be a repair.

use serde::Serialize;

use super::conclusion::Culprit;
use super::gradient_sides::GradientSides;
use super::{Bisection, Direction, Symptom};
use replay_base::summary::Number;
use replay_engine::judge::{OutputJudgement, Story, WrongBy};
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
    direction: Direction,
    wanted: &BTreeSet<Symptom>,
    culprit: &Culprit,
) -> Vec<Mended> {
    if direction == Direction::Repairs || !bisection.on.minds_values() {
        return Vec::new();
    }
    let wanted_outputs = list_wanted_outputs(culprit, wanted);
    let mended: Vec<Mended> = wanted_outputs
        .iter()
        .filter_map(|(fixture, output)| mended_by_accuracy(fixture, output))
        .collect();
    if !mended.is_empty() && mended.len() == wanted_outputs.len() {
        return mended;
    }
    let is_other = wanted_outputs.iter().any(|(_, output)| is_other_mathematics(output));
    if !is_other || culprit.gradients.iter().any(GradientSides::is_culprit_off) {
        return Vec::new();
    }
    let mended_sides = culprit.gradients.iter().filter(|sides| sides.are_mended());
    let mended = mended_sides.map(|sides| Mended {
        fixture: sides.fixture.clone(),
        output: sides.culprit.output.clone(),
        by: MendedBy::Loss,
    });
    mended.collect()
}

/// The outputs of `culprit` with a symptom of values among `wanted`, each with its fixture.
pub(super) fn list_wanted_outputs<'c>(
    culprit: &'c Culprit,
    wanted: &BTreeSet<Symptom>,
) -> Vec<(&'c str, &'c OutputJudgement)> {
    let mut wanted_outputs = Vec::new();
    for observation in &culprit.seen.observations {
        for output in observation.judgement.iter().flat_map(|judgement| &judgement.outputs) {
            let is_wanted = wanted.iter().any(|symptom| {
                symptom.is_of_values()
                    && symptom.fixture() == observation.fixture
                    && symptom.output() == Some(output.name.as_str())
            });
            if is_wanted {
                wanted_outputs.push((observation.fixture.as_str(), output));
            }
        }
    }
    wanted_outputs
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
