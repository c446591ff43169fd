//! How far the shadow of a trial steps as its inputs move along a line.

use super::Trial;
use super::measurement::room;
use crate::backend::{Mode, ReplayError};
use crate::numerics::noise::Spread;
use crate::numerics::steps::{POINTS, Steps};
use crate::summary::POISON_A;
use crate::tensor::step::Along;
use crate::worker::Ending;

/// How far inputs are moved to find steps: several times a unit in the last place of the format whose
/// rounding is looked for, and little for the mathematics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// For those of float32.
    Single,
    /// For those of narrower formats.
    Narrow,
}

/// Shifts of the shadow below this, relative, are none of a narrow format: bfloat16 and float16 round by
/// 2^-12 and more, and few elements may carry it.
const NARROW_SHIFT: f64 = 1.0 / 131_072.0;

impl Reach {
    /// The one that explains a shift by `relative`.
    pub(crate) fn of(relative: f64) -> Reach {
        if relative < NARROW_SHIFT { Reach::Single } else { Reach::Narrow }
    }

    /// The distance of two points: 2 to this power, negated.
    fn exponent(self) -> u8 {
        match self {
            Reach::Single => 20,
            Reach::Narrow => 9,
        }
    }
}

impl Trial {
    /// How far each element of the shadow of output `name` steps; none without a shadow, or where its
    /// inputs cannot be moved so.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub(crate) fn shadow_steps(
        &self,
        name: &str,
        reach: Reach,
    ) -> Result<Option<&Spread>, ReplayError> {
        let steps = self.shadow_steps[reach as usize].get(|| self.measure_steps(reach))?;
        Ok(steps.iter().find(|(of, _)| of == name).map(|(_, steps)| steps))
    }

    fn measure_steps(&self, reach: Reach) -> Result<Vec<(String, Spread)>, ReplayError> {
        let Ok(shadow) = self.shadow()? else { return Ok(Vec::new()) };
        if !shadow.abilities().along {
            return Ok(Vec::new());
        }
        let Ok(middle) = self.shadow_run()? else { return Ok(Vec::new()) };
        let _span = tracing::info_span!("steps", message = self.fixture().name);
        let scratch = self.lab.scratch();
        let outputs = middle.outputs().filter(|(_, view)| view.dtype.is_float());
        let mut all = outputs
            .map(|(output, view)| {
                Ok((output.name.clone(), view, room(Steps::new(&view, scratch))?))
            })
            .collect::<Result<Vec<_>, ReplayError>>()?;
        let exponent = reach.exponent();
        let along = |by| Mode { along: Some(Along { by, exponent }), ..Mode::plain(POISON_A) };
        let modes = POINTS.map(along);
        let mut whole = true;
        shadow.run_each(&modes, shadow.at_once(Some(middle)), &mut |index, run| {
            whole &= run.ending == Ending::Completed;
            for (name, middle, steps) in &mut all {
                if let Some(view) = run.output(name) {
                    steps.add(middle, &view, POINTS[index]).expect("two runs of one variant");
                }
            }
            Ok(())
        })?;
        if !whole {
            return Ok(Vec::new());
        }
        let finished = |(name, middle, steps): (String, _, Steps)| {
            room(steps.finish(&middle)).map(|steps| (name, steps))
        };
        all.into_iter().map(finished).collect()
    }
}
