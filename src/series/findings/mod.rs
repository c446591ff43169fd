//! What the numbers of a series show, ranked: what is wrong, what is unusual, what should be known.
//!
//! Each finding has the figures that it rests on; **report** puts them into words. Pure.

mod adam;
mod flow;
mod loss;
mod replays;
mod spikes;
mod values;

use serde::Serialize;

use super::Series;
use super::numbers::{Other, SeriesStep};
use crate::numerics::oracle;
use crate::summary::{Number, OptionalNumber};
use crate::trial::Failure;

/// How bad it is; ordered from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It cannot be so in a training that is right.
    Wrong,
    /// It can, and is worth a look.
    Unusual,
    /// It is no fault; it tells how far the rest can be trusted.
    Note,
}

/// At which steps something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spell {
    /// At how many.
    pub steps: usize,
    /// Of how many that could show it.
    pub of: usize,
    /// The first, by its place in the series.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// Whether the gradients of a series are those of its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gradients {
    /// They match, wherever that was checked.
    Match,
    /// They do not, at one step at least.
    Mismatch,
    /// It was not checked.
    Unchecked,
}

/// How an output parts from another, over the steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parted {
    /// What it parts from.
    pub from: Other,
    /// The output.
    pub output: String,
    /// The steps at which it lies beyond noise.
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
    /// By what the distance is multiplied from step to step; none where it neither grows nor shrinks
    /// beyond its own scatter.
    #[serde(with = "OptionalNumber")]
    pub growth: Option<f64>,
    /// What the change means at the first of them, where an oracle says so.
    pub meaning: Option<oracle::Finding>,
}

/// Something that a series shows, with the figures it rests on. Steps are told by their places.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
        /// The tensors that are so at the first of them, in the order of the harness.
        tensors: Vec<String>,
        /// How many tensors are so at any step.
        affected: usize,
    },
    /// An output that is declared a gradient does not match its loss.
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
        /// By what it is multiplied from a layer to the one before.
        #[serde(with = "Number")]
        factor: f64,
    },
    /// Steps that are large or small beside the parameters that they move.
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
    /// First moments that no gradients give beside their second ones.
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
    /// Numbers of steps that are left out.
    Missing {
        /// The numbers.
        numbers: Vec<i64>,
    },
    /// Numbers that several steps have.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Misalignment {
    /// The steps.
    pub spell: Spell,
    /// How many places later the tokens are that agree, at the first of them.
    pub shift: Option<i64>,
    /// Places at which the targets are not the next token, at the first of them.
    pub differ: usize,
    /// Places that count.
    pub of: usize,
    /// The first such place.
    pub place: Option<Vec<usize>>,
}

/// A value far above those of the steps before.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// What the steps before it make one expect.
    #[serde(with = "Number")]
    pub expected: f64,
    /// How many deviations it lies above.
    #[serde(with = "Number")]
    pub deviations: f64,
    /// How many parameters spike besides, where it is one.
    pub others: usize,
}

/// How gradients are clipped, over the steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FrequentClipping {
    /// The steps.
    pub spell: Spell,
    /// The median norm before.
    #[serde(with = "Number")]
    pub norm: f64,
    /// The part of the norm that clipping removes: the median over the clipped steps.
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
                // What one revision gave on one machine makes no other wrong.
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

/// What `series` shows, the worst first.
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
    // The order above ranks those that are equally bad.
    findings.sort_by_key(SeriesFinding::severity);
    findings
}

impl Spell {
    /// The steps of which `predicate` says that it is so; those of which it says none do not count. None if
    /// there is no such step.
    fn find<T>(values: &[T], predicate: impl Fn(&T) -> Option<bool>) -> Option<Spell> {
        let known_places: Vec<(usize, bool)> = values
            .iter()
            .enumerate()
            .filter_map(|(place, value)| Some((place, predicate(value)?)))
            .collect();
        let such = || known_places.iter().filter(|(_, holds)| *holds).map(|(place, _)| *place);
        let first = such().next()?;
        let last = such().next_back()?;
        Some(Spell { steps: such().count(), of: known_places.len(), first, last })
    }

    /// Whether it is so at every step that could show it.
    pub fn is_always(&self) -> bool {
        self.steps == self.of
    }
}

/// The parameters of which `spell` tells at which steps something is so, brought together where these are
/// the same.
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
