//! Findings on the numbers of a series, ranked: wrong ones, unusual ones, notes.
//!
//! Each finding has its figures; **report** puts them into words. Pure.

mod adam;
mod flow;
mod loss;
mod replays;
mod spikes;
mod values;

use serde::Serialize;

use super::Series;
use super::numbers::{Other, SeriesStep};
use replay_base::summary::{Number, OptionalNumber};
use replay_engine::trial::Failure;
use replay_numerics::oracle;

/// How bad it is; ordered from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No correct training shows it.
    Wrong,
    /// It can, and is worth a look.
    Unusual,
    /// It is no fault; it tells how far the rest can be trusted.
    Note,
}

/// The steps of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Spell {
    /// At how many.
    pub steps: usize,
    /// Of how many steps with the numbers for it.
    pub of: usize,
    /// The first, by its place in the series.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// Whether the gradients of a series are those of its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gradients {
    /// They match at all checked steps.
    Match,
    /// They do not, at one step at least.
    Mismatch,
    /// It was not checked.
    Unchecked,
}

/// How an output parts from another, over the steps.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Parted {
    /// The other side.
    pub from: Other,
    /// The output.
    pub output: String,
    /// The steps beyond noise.
    pub spell: Spell,
    /// The relative distance at the first of them.
    #[serde(with = "Number")]
    pub first: f64,
    /// At the last of them.
    #[serde(with = "Number")]
    pub last: f64,
    /// The greatest.
    #[serde(with = "Number")]
    pub largest: f64,
    /// The factor of the distance from step to step; none where it stays within its own scatter.
    #[serde(with = "OptionalNumber")]
    pub growth: Option<f64>,
    /// The meaning of the change at the first of them, where an oracle tells.
    pub meaning: Option<oracle::Finding>,
}

/// A finding on a series, with its figures. Steps are given by their places.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SeriesFinding {
    /// Replays failed.
    Failed {
        /// The steps.
        spell: Spell,
        /// The first failure of the first of them.
        failure: Failure,
    },
    /// NaN or infinity.
    NotFinite {
        /// The steps.
        spell: Spell,
        /// The affected tensors at the first of them, in the order of the harness.
        tensors: Vec<String>,
        /// How many tensors are so at any step.
        affected: usize,
    },
    /// An output declared a gradient does not match its loss.
    GradientWrong {
        /// The output.
        output: String,
        /// The steps.
        spell: Spell,
        /// The largest mismatch, relative to the gradient's norm.
        #[serde(with = "Number")]
        worst: f64,
        /// The error of the slopes there, relative to the same.
        #[serde(with = "Number")]
        error: f64,
    },
    /// An output lies beyond noise.
    Parted {
        /// How, over the steps.
        parted: Parted,
    },
    /// A second moment of Adam is negative.
    AdamNegative {
        /// The parameters.
        parameters: Vec<String>,
        /// The steps.
        spell: Spell,
    },
    /// Targets are not the tokens shifted by one.
    Misaligned {
        #[serde(flatten)]
        misalignment: Misalignment,
    },
    /// Gradients are zero in all elements.
    NoGradient {
        /// The parameters.
        parameters: Vec<String>,
        /// The steps.
        spell: Spell,
    },
    /// Parameters stay as they are although they have gradients.
    Frozen {
        /// The parameters.
        parameters: Vec<String>,
        /// The steps.
        spell: Spell,
    },
    /// Something leaves the range of the steps before.
    Spike {
        #[serde(flatten)]
        spike: SeriesSpike,
    },
    /// Gradients are clipped at half of the steps, or more.
    Clipped {
        #[serde(flatten)]
        clipping: FrequentClipping,
    },
    /// Gradients shrink or grow from layer to layer, on their way back.
    Flow {
        /// The path before the layers' numbers.
        group: String,
        /// How many layers.
        layers: usize,
        /// The root mean square of the gradient in the first layer, the median over steps.
        #[serde(with = "Number")]
        first: f64,
        /// In the last layer, where the gradient comes from.
        #[serde(with = "Number")]
        last: f64,
        /// Its factor from a layer to the one before.
        #[serde(with = "Number")]
        factor: f64,
    },
    /// Steps large or small beside their parameters.
    Updates {
        /// The parameters.
        parameters: Vec<String>,
        /// The update-to-weight ratio of the first of them, the median over steps.
        #[serde(with = "Number")]
        ratio: f64,
        /// Whether it is large.
        large: bool,
        /// The steps.
        of: usize,
    },
    /// The loss ends higher than it begins.
    LossRises {
        /// The median of the first quarter.
        #[serde(with = "Number")]
        from: f64,
        /// The median of the last quarter.
        #[serde(with = "Number")]
        to: f64,
        /// How far noise moves the loss of a step, as a part of the loss.
        #[serde(with = "Number")]
        noise: f64,
    },
    /// Epsilon is larger than the root of the second moment in most elements.
    AdamDamped {
        /// The parameters.
        parameters: Vec<String>,
        /// The steps.
        spell: Spell,
        /// The part of the elements, of the first parameter at the first step.
        #[serde(with = "Number")]
        part: f64,
    },
    /// First moments beyond those of any gradients with these second ones.
    AdamUnrelated {
        /// The parameters.
        parameters: Vec<String>,
        /// The steps.
        spell: Spell,
        /// Elements of the first parameter at the first step.
        elements: u64,
        /// Of how many.
        of: u64,
    },
    /// The revision could not be replayed.
    Untestable {
        /// The steps.
        spell: Spell,
        /// Why, at the first of them.
        reason: String,
    },
    /// Left-out numbers of steps.
    Missing {
        /// The numbers.
        numbers: Vec<i64>,
    },
    /// Numbers shared by several steps.
    Repeated {
        /// The numbers.
        numbers: Vec<i64>,
    },
    /// Steps without a number, where others have one.
    WithoutNumber {
        /// The fixtures.
        fixtures: Vec<String>,
    },
}

/// How targets differ from the tokens shifted by one.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Misalignment {
    /// The steps.
    pub spell: Spell,
    /// The shift of the agreeing tokens at the first of them.
    pub shift: Option<i64>,
    /// Places with a target other than the next token, at the first of them.
    pub differ: usize,
    /// Counting places.
    pub of: usize,
    /// The first such place.
    pub place: Option<Vec<usize>>,
}

/// A value far above those of the steps before.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SeriesSpike {
    /// `loss`, `gradients` (all of them), or a parameter.
    pub quantity: String,
    /// The steps.
    pub spell: Spell,
    /// The worst of them, by its place.
    pub worst: usize,
    /// The value there.
    #[serde(with = "Number")]
    pub value: f64,
    /// The expected value, from the steps before.
    #[serde(with = "Number")]
    pub expected: f64,
    /// How many deviations it lies above.
    #[serde(with = "Number")]
    pub deviations: f64,
    /// How many parameters spike besides, where it is one.
    pub others: usize,
}

/// How gradients are clipped, over the steps.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FrequentClipping {
    /// The steps.
    pub spell: Spell,
    /// The median norm before.
    #[serde(with = "Number")]
    pub norm: f64,
    /// The part of the norm removed by clipping: the median over the clipped steps.
    #[serde(with = "Number")]
    pub removed: f64,
    /// The same: the largest.
    #[serde(with = "Number")]
    pub most: f64,
    /// Whether the gradients are those of the loss.
    pub gradients: Gradients,
}

impl SeriesFinding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            SeriesFinding::Failed { .. }
            | SeriesFinding::NotFinite { .. }
            | SeriesFinding::GradientWrong { .. }
            | SeriesFinding::AdamNegative { .. } => Severity::Wrong,
            SeriesFinding::Parted { parted } => match parted.from {
                Other::Trusted | Other::Oracle => Severity::Wrong,
                // One revision's values on one machine make no other wrong.
                Other::Captured => Severity::Note,
            },
            SeriesFinding::Misaligned { .. }
            | SeriesFinding::NoGradient { .. }
            | SeriesFinding::Frozen { .. }
            | SeriesFinding::Spike { .. }
            | SeriesFinding::Clipped { .. }
            | SeriesFinding::Flow { .. }
            | SeriesFinding::Updates { .. }
            | SeriesFinding::LossRises { .. }
            | SeriesFinding::AdamDamped { .. }
            | SeriesFinding::AdamUnrelated { .. } => Severity::Unusual,
            SeriesFinding::Untestable { .. }
            | SeriesFinding::Missing { .. }
            | SeriesFinding::Repeated { .. }
            | SeriesFinding::WithoutNumber { .. } => Severity::Note,
        }
    }
}

/// The findings on `series`, the worst first.
pub fn analyse_series(series: &Series) -> Vec<SeriesFinding> {
    let mut findings: Vec<SeriesFinding> = [
        replays::list_replay_findings(series),
        values::list_value_findings(series),
        adam::list_adam_findings(series),
        spikes::list_spike_findings(series),
        loss::list_loss_findings(series),
        flow::list_flow_findings(series),
    ]
    .concat();
    // The order above ranks findings of one severity.
    findings.sort_by_key(SeriesFinding::severity);
    findings
}

impl Spell {
    /// The steps with a true `predicate`. Steps without a value of it do not count. None if no step has a true one.
    fn find<T>(values: &[T], predicate: impl Fn(&T) -> Option<bool>) -> Option<Spell> {
        let known_places: Vec<(usize, bool)> = values
            .iter()
            .enumerate()
            .filter_map(|(place, value)| Some((place, predicate(value)?)))
            .collect();
        let places: Vec<usize> =
            known_places.iter().filter(|(_, holds)| *holds).map(|(place, _)| *place).collect();
        let first = *places.first()?;
        let last = *places.last()?;
        Some(Spell { steps: places.len(), of: known_places.len(), first, last })
    }

    /// Whether it covers every step with the numbers for it.
    pub fn is_always(&self) -> bool {
        self.steps == self.of
    }
}

/// The parameters with a spell, grouped by equal spells.
fn group_by_spell(
    series: &Series,
    spell: impl Fn(usize) -> Option<Spell>,
) -> Vec<(Spell, Vec<usize>)> {
    let mut groups: Vec<(Spell, Vec<usize>)> = Vec::new();
    for parameter in 0..series.catalogue.parameters.len() {
        let Some(spell) = spell(parameter) else { continue };
        match groups.iter_mut().find(|(group_spell, _)| *group_spell == spell) {
            Some((_, parameters)) => parameters.push(parameter),
            None => groups.push((spell, vec![parameter])),
        }
    }
    groups
}

/// The names of parameters.
fn list_parameter_paths(series: &Series, parameters: &[usize]) -> Vec<String> {
    parameters
        .iter()
        .map(|&parameter| series.catalogue.parameters[parameter].path.clone())
        .collect()
}

/// The numbers of the gradient of a parameter at one step.
fn find_gradient_numbers<'s>(
    series: &Series,
    parameter: usize,
    step: &'s SeriesStep,
) -> Option<&'s super::TensorNumbers> {
    let place =
        series.catalogue.place(series.catalogue.parameters[parameter].gradient.as_ref()?)?;
    step.measured.tensors.get(place)?.as_ref()
}
