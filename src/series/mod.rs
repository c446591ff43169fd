//! A run as a series of steps: numbers of each, and what they show together.
//!
//! A step is a fixture. Its numbers come from its captured tensors, or from a replay at a revision; the
//! tensors are then dropped, so that memory does not grow with the number of steps but by their numbers.
//! [`findings`] says what the numbers show. docs/series.md has the formulas.

mod adam;
mod alignment;
mod findings;
mod measure;
mod numbers;
mod order;
mod path;
mod replayed;
mod robust;
mod roster;
#[cfg(test)]
mod tests;

pub use adam::Adam;
pub use alignment::{Alignment, Shift, shift};
pub use findings::{Finding, Gradients, Kind, Parted, Severity, Spell, findings};
pub use measure::{captured, captured_in};
pub use numbers::{Checked, Distance, Measured, Numbers, Other, Replay, Scalars, Step, Update};
pub use order::{Named, Numbering, by_name, number, ordered};
pub use path::{groups, lies_in};
pub use replayed::replayed;
pub use robust::median;
pub use roster::{Parameter, Roster, Tracked};

/// The steps of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which tensor is what; the same for all steps.
    pub roster: Roster,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What the numbers of the steps show.
    pub numbering: Numbering,
    /// The norm above which gradients are clipped, as the user says; captured ones count otherwise.
    pub clip: Option<f64>,
}

/// How one step clips its gradients.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Clipping {
    /// The norm of all gradients before.
    #[serde(with = "crate::summary::Number")]
    pub norm: f64,
    /// What it is multiplied by: 1 where nothing is clipped.
    #[serde(with = "crate::summary::Number")]
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
        let members = self.roster.gradients().into_iter();
        let places: Vec<usize> = members
            .filter(|(parameter, _)| path::lies_in(&parameter.path, group))
            .map(|(_, place)| place)
            .collect();
        self.steps.iter().map(|step| norm_of(&step.measured, &places)).collect()
    }

    /// How each step clips its gradients; none where that is not known.
    ///
    /// The norm is the captured one, or that of the gradients. A threshold comes from the user, or was
    /// captured; without one, gradients that were captured after they were clipped tell by how much.
    pub fn clipping(&self) -> Vec<Option<Clipping>> {
        let gradients = self.roster.gradients();
        let replayed = gradients.iter().any(|(_, place)| self.roster.tensors[*place].is_output);
        let norms = self.gradient_norms("");
        let one = |(step, computed): (&Step, Option<f64>)| {
            let scalars = &step.measured.scalars;
            let told = scalars.grad_norm.filter(|_| step.replay.is_none() || !replayed);
            let norm = told.or(computed).filter(|norm| norm.is_finite())?;
            let after = match self.clip.or(scalars.max_norm) {
                Some(threshold) => threshold,
                // Rounding alone brings two norms of the same gradients this far apart.
                None => computed.filter(|after| told.is_some() && *after < norm * (1.0 - 1e-3))?,
            };
            Some(Clipping { norm, factor: if norm > after { after / norm } else { 1.0 } })
        };
        self.steps.iter().zip(norms).map(one).collect()
    }

    /// The update-to-weight ratios of a parameter, by its place in the roster.
    pub fn update_ratios(&self, parameter: usize) -> Vec<Option<f64>> {
        let update = |step: &Step| step.measured.updates.get(parameter)?.as_ref()?.ratio();
        self.steps.iter().map(update).collect()
    }

    /// The root mean squares of Adam's steps of a parameter, in units of the learning rate.
    pub fn adam_steps(&self, parameter: usize) -> Vec<Option<f64>> {
        let told = |step: &Step| Some(step.measured.adam.get(parameter)?.as_ref()?.step);
        self.steps.iter().map(told).collect()
    }

    /// How far an output lies from `other`, at each step.
    pub fn distances(&self, other: Other, output: &str) -> Vec<Option<&Distance>> {
        let is = |one: &&Distance| one.from == other && one.output == output;
        self.steps.iter().map(|step| step.replay.as_ref()?.distances.iter().find(is)).collect()
    }
}

/// The norm of several tensors together.
fn norm_of(measured: &Measured, places: &[usize]) -> Option<f64> {
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
