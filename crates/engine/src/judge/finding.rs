//! What a replay shows of a defect, in a form that two fixtures can be compared by.

use replay_base::tensor::{Dim, unravel_index};
use replay_runtime::report::FoundKind;

use super::{Equivalence, GradientCheck, GradientVerdict, OutputJudgement, Story, WrongBy};
use crate::trial::{Failure, OrderDependence, Trial};

/// A defect as a replay shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The output; none for a failure or an access to memory.
    pub output: Option<String>,
    /// How far off it is, in the unit of the kind.
    pub distance: f64,
    /// The size and index of each named dimension at the worst place, as far as it is known.
    pub place: Vec<(String, usize)>,
}

/// The kind of a finding: two fixtures show the same where kind and output are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// The mathematics of an output is not the trusted one.
    Wrong,
    /// The same, and rounding hides it.
    Hidden,
    Imprecise,
    LessAccurate,
    MoreAccurate,
    AsAccurate,
    /// Beyond noise, and no truth is known.
    BeyondNoise,
    /// An output depends on the order of blocks and threads.
    OrderDependent,
    /// A gradient does not match its loss.
    GradientMismatch,
    GradientImprecise,
    /// The replay fails, by a failure of this kind.
    Failed(String),
    /// A wrong access to memory.
    Access {
        kind: FoundKind,
        memory: String,
    },
}

impl FindingKind {
    /// Whether [`Finding::distance`] is a multiple of the noise. Else it is relative to the norm, or means nothing.
    pub fn is_in_noise(&self) -> bool {
        match self {
            FindingKind::Wrong
            | FindingKind::Imprecise
            | FindingKind::LessAccurate
            | FindingKind::MoreAccurate
            | FindingKind::AsAccurate
            | FindingKind::BeyondNoise
            | FindingKind::GradientImprecise => true,
            FindingKind::Hidden
            | FindingKind::OrderDependent
            | FindingKind::GradientMismatch
            | FindingKind::Failed(_)
            | FindingKind::Access { .. } => false,
        }
    }

    /// Whether a commit is hardly judged by it where there is another one.
    pub fn is_slight(&self) -> bool {
        matches!(self, FindingKind::Hidden | FindingKind::MoreAccurate | FindingKind::AsAccurate)
    }
}

impl Finding {
    /// Whether `smaller` is the same, however far off.
    pub fn is_like(&self, smaller: &Finding) -> bool {
        self.kind == smaller.kind && self.output == smaller.output
    }

    /// The finding of a failed replay.
    pub fn of_failure(failure: &Failure) -> Finding {
        let kind = FindingKind::Failed(failure.kind().to_owned());
        Finding { kind, output: None, distance: 0.0, place: Vec::new() }
    }

    /// The finding of an output beside a trusted one, if there is one.
    pub fn of_output(output: &OutputJudgement) -> Option<Finding> {
        let kind = story_kind(&output.story)?;
        let worst = output.comparison.worst;
        let moved_by = output.shadow.as_ref().map_or(0.0, |shadow| shadow.moved_by);
        let (distance, index) = match kind {
            FindingKind::Hidden | FindingKind::OrderDependent => {
                (moved_by, output.shadow.as_ref().and_then(|shadow| shadow.first))
            }
            _ => (worst.map_or(0.0, |worst| worst.ratio), worst.map(|worst| worst.index)),
        };
        let shape: Vec<usize> = output.dims.iter().map(|dim| dim.size).collect();
        let index = index.map(|index| unravel_index(index as usize, &shape)).unwrap_or_default();
        let place = name_place(&output.dims, &index);
        Some(Finding { kind, output: Some(output.name.clone()), distance, place })
    }

    /// The finding of a gradient beside its loss, if there is one.
    pub fn of_gradient(check: &GradientCheck, trial: &Trial) -> Option<Finding> {
        let (kind, distance) = match check.story.verdict() {
            GradientVerdict::Mismatch => (FindingKind::GradientMismatch, check.worst),
            GradientVerdict::Imprecise => (FindingKind::GradientImprecise, check.native_ratio),
            GradientVerdict::Matches | GradientVerdict::Agrees | GradientVerdict::Unknown => {
                return None;
            }
        };
        let index = check.place.as_ref().map(|place| place.index.as_slice()).unwrap_or_default();
        let place = name_place(output_dims(trial, &check.output), index);
        Some(Finding { kind, output: Some(check.output.clone()), distance, place })
    }

    /// The finding of an output that depends on the order.
    pub fn of_order(order: &OrderDependence, trial: &Trial) -> Finding {
        let place = name_place(output_dims(trial, &order.output), &order.index);
        let kind = FindingKind::OrderDependent;
        Finding { kind, output: Some(order.output.clone()), distance: 0.0, place }
    }
}

fn output_dims<'t>(trial: &'t Trial, name: &str) -> &'t [Dim] {
    let output = trial.fixture().outputs.iter().find(|output| output.name == name);
    output.map(|output| output.dims.as_slice()).unwrap_or_default()
}

fn name_place(dims: &[Dim], index: &[usize]) -> Vec<(String, usize)> {
    let named = dims.iter().zip(index);
    named.filter_map(|(dim, &index)| Some((dim.name.clone()?, index))).collect()
}

/// The kind of a story that is a finding.
fn story_kind(story: &Story) -> Option<FindingKind> {
    Some(match story {
        Story::Agrees(
            Equivalence::Identical
            | Equivalence::WithinNoise { .. }
            | Equivalence::ErrsAlike { .. },
        )
        | Story::Unsteady => return None,
        Story::OrderDependent(_) => FindingKind::OrderDependent,
        Story::Drifted { .. } | Story::Wrong(WrongBy::HiddenShadow) => FindingKind::Hidden,
        Story::Wrong(WrongBy::Shadow | WrongBy::Distance) => FindingKind::Wrong,
        Story::Imprecise(_) => FindingKind::Imprecise,
        Story::LessAccurate => FindingKind::LessAccurate,
        Story::MoreAccurate => FindingKind::MoreAccurate,
        Story::AsAccurate => FindingKind::AsAccurate,
        Story::BeyondNoise { .. } => FindingKind::BeyondNoise,
    })
}
