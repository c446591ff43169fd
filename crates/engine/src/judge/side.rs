//! One of two compared trials.

use crate::backend::ReplayError;
use crate::trial::{Measurement, Shadow, Trial};
use crate::worker::Run;
use replay_base::concurrent::run_both;
use replay_base::tensor::TensorView;

/// A trial with all its measurements.
pub(super) struct MeasuredTrial<'t> {
    pub trial: &'t Trial,
    /// Its plain run, with the noise around it.
    pub measured: &'t Measurement,
    /// The run of its float64 shadow, or why there is none.
    pub shadow: Shadow<&'t Run>,
}

impl<'t> MeasuredTrial<'t> {
    /// Measures everything about `trial`, the noise while the shadow runs; none where the sources
    /// cannot be run.
    pub(super) fn measure(trial: &'t Trial) -> Result<Option<MeasuredTrial<'t>>, ReplayError> {
        let (measured, shadow) = if trial.is_large() {
            (trial.measurement(), trial.shadow_run())
        } else {
            run_both(|| trial.measurement(), || trial.shadow_run())
        };
        let Some(measured) = measured? else { return Ok(None) };
        Ok(Some(MeasuredTrial { trial, measured, shadow: shadow? }))
    }

    /// The float64 shadow of output `name`.
    pub(super) fn shadow_of(&self, name: &str) -> Option<TensorView<'t>> {
        self.shadow.present()?.output(name)
    }
}
