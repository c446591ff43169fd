//! One of two trials that are compared.

use crate::backend::ReplayError;
use crate::tensor::TensorView;
use crate::trial::{Measurement, Trial, both};
use crate::worker::Run;

/// A trial with all that was measured of it.
pub(super) struct Side<'t> {
    pub trial: &'t Trial,
    /// Its plain run, with the noise around it.
    pub measured: &'t Measurement,
    /// The run of its float64 shadow, or why there is none.
    pub shadow: Result<&'t Run, &'t str>,
}

impl<'t> Side<'t> {
    /// Measures everything about `trial`, the noise while the shadow runs; none where the sources
    /// cannot be run.
    pub(super) fn of(trial: &'t Trial) -> Result<Option<Side<'t>>, ReplayError> {
        let (measured, shadow) = match trial.is_large() {
            true => (trial.measurement(), trial.shadow_run()),
            false => both(|| trial.measurement(), || trial.shadow_run()),
        };
        let Some(measured) = measured? else { return Ok(None) };
        Ok(Some(Side { trial, measured, shadow: shadow? }))
    }

    /// The float64 shadow of output `name`.
    pub(super) fn shadow_of(&self, name: &str) -> Option<TensorView<'t>> {
        self.shadow.ok()?.output(name)
    }
}
