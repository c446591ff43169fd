//! Imprints of the float64 shadow of a trial's outputs.

use serde::{Deserialize, Serialize};

use super::{Shadow, Status, Trial, convert_numerics_error};
use crate::backend::ReplayError;
use replay_base::cache::CacheKind;
use replay_numerics::imprint::Imprint;
use replay_numerics::noise::NoiseRef;
use replay_numerics::twin::find_non_finite;

/// The imprint of the shadow of one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputImprint {
    pub name: String,
    pub imprint: Imprint,
}

/// The name of imprints in keys of the cache.
const IMPRINTS: &str = "imprints of the shadow";

impl Trial {
    /// The imprint of the shadow of every output of floating-point numbers; none where there is no shadow,
    /// or where the sources cannot be run to their end.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn imprints(&self) -> Result<Vec<OutputImprint>, ReplayError> {
        if self.variant()?.is_none() || self.outcome()?.status != Status::Completed {
            return Ok(Vec::new());
        }
        let key = self.key_of(IMPRINTS)?;
        if let Some(known_imprints) = self.lab.recall(CacheKind::Judgement, &key) {
            return Ok(known_imprints);
        }
        let timeouts = self.lab.backend().timeouts();
        let new_imprints = self.make_imprints()?;
        if self.lab.backend().timeouts() == timeouts {
            self.lab.keep_judgement(&key, &new_imprints)?;
        }
        Ok(new_imprints)
    }

    fn make_imprints(&self) -> Result<Vec<OutputImprint>, ReplayError> {
        let Shadow::Present((_, shadow)) = self.shadow_on_reference()? else {
            return Ok(Vec::new());
        };
        let Some(measurement) = self.measurement()? else { return Ok(Vec::new()) };
        let outputs = self.outcome()?.outputs.iter().filter(|output| output.dtype.is_float());
        let mut imprints = Vec::new();
        for output in outputs {
            let Some(view) = shadow.output(&output.name) else { continue };
            let native = measurement.run.output(&output.name);
            let is_twin = native.is_none_or(|native| {
                find_non_finite(&native, &view).is_ok_and(|fault| fault.is_none())
            });
            if !is_twin {
                continue;
            }
            let noise = NoiseRef { base: measurement.noise_of(&output.name), got: None };
            let own_noise = NoiseRef { base: self.shadow_noise(&output.name)?, got: None };
            let imprint = Imprint::from_shadow(&view, output.dtype, &noise, &own_noise);
            let imprint = convert_numerics_error(imprint.map_err(Into::into))?;
            imprints.push(OutputImprint { name: output.name.clone(), imprint });
        }
        Ok(imprints)
    }
}
