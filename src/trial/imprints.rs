//! Imprints of the float64 shadow of a trial's outputs.

use serde::{Deserialize, Serialize};

use super::{Status, Trial, room};
use crate::backend::ReplayError;
use crate::cache::Kind;
use crate::numerics::imprint::Imprint;
use crate::numerics::noise::NoiseRef;

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
        if let Some(known) = self.lab.recall(Kind::Judgement, &key) {
            return Ok(known);
        }
        let timeouts = self.lab.backend().timeouts();
        let made = self.make_imprints()?;
        if self.lab.backend().timeouts() == timeouts {
            self.lab.keep_judgement(&key, &made)?;
        }
        Ok(made)
    }

    fn make_imprints(&self) -> Result<Vec<OutputImprint>, ReplayError> {
        let Ok((_, shadow)) = self.shadow_on_reference()? else { return Ok(Vec::new()) };
        let Some(measured) = self.measurement()? else { return Ok(Vec::new()) };
        let outputs = self.outcome()?.outputs.iter().filter(|output| output.dtype.is_float());
        let mut imprints = Vec::new();
        for output in outputs {
            let Some(view) = shadow.output(&output.name) else { continue };
            let noise = NoiseRef { base: measured.noise_of(&output.name), got: None };
            let own = NoiseRef { base: self.shadow_noise(&output.name)?, got: None };
            let imprint = Imprint::of(&view, output.dtype, &noise, &own);
            let imprint = room(imprint.map_err(Into::into))?;
            imprints.push(OutputImprint { name: output.name.clone(), imprint });
        }
        Ok(imprints)
    }
}
