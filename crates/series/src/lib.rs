//! A run as a series of steps: numbers of each, and findings on all.
//!
//! A step is a fixture. Its numbers come from its captured tensors, or from a replay at a revision. The tensors are then
//! dropped: a step takes memory for its numbers alone. [`analyse_series`] lists the findings. docs/series.md has the
//! formulas.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod adam;
mod alignment;
mod catalogue;
mod findings;
mod measure;
mod numbers;
mod order;
mod path;
mod replayed;
mod robust;
#[cfg(test)]
mod tests;

pub use adam::Adam;
pub use alignment::{Alignment, Shift, find_token_shift};
pub use catalogue::{ParameterTensors, TensorCatalogue, Tracked};
pub use findings::{
    FrequentClipping, Gradients, Misalignment, Parted, SeriesFinding, SeriesSpike, Severity, Spell,
    analyse_series,
};
pub use measure::{captured_in, load_captured_numbers};
pub use numbers::{
    Distance, Other, ParameterUpdate, Scalars, SeriesStep, StepGradient, StepNumbers, StepReplay,
    TensorNumbers,
};
pub use order::{NamedStep, Numbering, natural_sort_key, order_steps, parse_step_number};
pub use path::{group_paths, is_in_group};
pub use replayed::replay_series_step;
pub use robust::finite_median;

use replay_fixture::harness::Role;

/// The steps of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which tensor is what; the same for all steps.
    pub catalogue: TensorCatalogue,
    /// The steps, in their order.
    pub steps: Vec<SeriesStep>,
    /// What the numbers of the steps show.
    pub numbering: Numbering,
    /// The norm above which gradients are clipped, as the user says; captured ones count otherwise.
    pub clip: Option<f64>,
}

/// How one step clips its gradients.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Clipping {
    /// The norm of all gradients before.
    #[serde(with = "replay_base::summary::Number")]
    pub norm: f64,
    /// What it is multiplied by: 1 where nothing is clipped.
    #[serde(with = "replay_base::summary::Number")]
    pub factor: f64,
}

impl Series {
    /// The losses; none where a step has no loss.
    pub fn losses(&self) -> Vec<Option<f64>> {
        self.steps.iter().map(|step| step.measured.scalars.loss).collect()
    }

    /// The norm of the gradients of the parameters in `group` together, at each step; none where one is
    /// not there, or not finite.
    pub fn gradient_norms(&self, group: &str) -> Vec<Option<f64>> {
        let members = self.catalogue.gradients().into_iter();
        let places: Vec<usize> = members
            .filter(|(parameter, _)| path::is_in_group(&parameter.path, group))
            .map(|(_, place)| place)
            .collect();
        self.steps.iter().map(|step| joint_norm(&step.measured, &places)).collect()
    }

    /// How each step clips its gradients; none where that is not known.
    ///
    /// The norm is the captured one, or that of the gradients. A threshold comes from the user, or was
    /// captured; without one, gradients that were captured after they were clipped tell by how much.
    pub fn clipping(&self) -> Vec<Option<Clipping>> {
        let gradients = self.catalogue.gradients();
        let replayed = gradients.iter().any(|(_, place)| self.catalogue.tensors[*place].is_output);
        let norms = self.gradient_norms("");
        let has_norm_tensor = self.catalogue.scalar(&Role::GradNorm).is_some();
        let step_clipping = |(step, computed): (&SeriesStep, Option<f64>)| {
            let scalars = &step.measured.scalars;
            let reported_norm = scalars.grad_norm.filter(|_| step.replay.is_none() || !replayed);
            let norm = reported_norm.or(computed).filter(|norm| norm.is_finite())?;
            let clipped_norm = match self.clip.or(scalars.max_norm) {
                Some(threshold) => threshold,
                // Rounding alone brings two norms of the same gradients this far apart. A metric may be of more
                // gradients than those of this function.
                None => computed.filter(|candidate| {
                    reported_norm.is_some() && has_norm_tensor && *candidate < norm * (1.0 - 1e-3)
                })?,
            };
            Some(Clipping {
                norm,
                factor: if norm > clipped_norm { clipped_norm / norm } else { 1.0 },
            })
        };
        self.steps.iter().zip(norms).map(step_clipping).collect()
    }

    /// The update-to-weight ratios of a parameter, by its place in the catalogue.
    pub fn update_ratios(&self, parameter: usize) -> Vec<Option<f64>> {
        let update = |step: &SeriesStep| step.measured.updates.get(parameter)?.as_ref()?.ratio();
        self.steps.iter().map(update).collect()
    }

    /// The root mean squares of Adam's steps of a parameter, in units of the learning rate.
    pub fn adam_steps(&self, parameter: usize) -> Vec<Option<f64>> {
        let adam_step = |step: &SeriesStep| Some(step.measured.adam.get(parameter)?.as_ref()?.step);
        self.steps.iter().map(adam_step).collect()
    }

    /// How far an output lies from `reference`, at each step.
    pub fn distances(&self, reference: Other, output: &str) -> Vec<Option<&Distance>> {
        let is_wanted =
            |distance: &&Distance| distance.from == reference && distance.output == output;
        self.steps
            .iter()
            .map(|step| step.replay.as_ref()?.distances.iter().find(is_wanted))
            .collect()
    }
}

/// The norm of several tensors together.
fn joint_norm(measured: &StepNumbers, places: &[usize]) -> Option<f64> {
    let mut norms = Vec::with_capacity(places.len());
    for &place in places {
        let numbers = measured.tensors.get(place)?.as_ref()?;
        if numbers.nan + numbers.inf > 0 {
            return None;
        }
        norms.push(numbers.norm);
    }
    // Relative to the largest, so that squares neither over- nor underflow.
    let largest = norms.iter().copied().fold(0.0, f64::max);
    if norms.is_empty() || largest == 0.0 {
        return (!norms.is_empty()).then_some(0.0);
    }
    Some(norms.iter().map(|norm| (norm / largest).powi(2)).sum::<f64>().sqrt() * largest)
}
