//! How far the shadow of a trial steps as its inputs move along a line.

use super::measurement::convert_numerics_error;
use super::{Shadow, Trial};
use crate::backend::{Ability, Mode, ReplayError};
use crate::worker::{Ending, InputChange};
use replay_base::summary::POISON_A;
use replay_base::tensor::step::LinePoint;
use replay_numerics::constants::NARROW_SHIFT;
use replay_numerics::noise::Spread;
use replay_numerics::steps::{POINTS, Steps};

/// How far inputs are moved to find steps: several times a unit in the last place of the format whose
/// rounding is looked for, and little for the mathematics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepReach {
    /// For those of float32.
    Single,
    /// For those of narrower formats.
    Narrow,
}

impl StepReach {
    /// The reach for a shift by `relative`.
    pub(crate) fn from_shift(relative: f64) -> StepReach {
        if relative < NARROW_SHIFT { StepReach::Single } else { StepReach::Narrow }
    }

    /// The distance of two points: 2 to this power, negated.
    fn exponent(self) -> u8 {
        match self {
            StepReach::Single => 20,
            StepReach::Narrow => 9,
        }
    }
}

/// How the shadow of one output moves along the line.
pub(super) struct OutputSteps {
    name: String,
    differences: Steps,
    spread: Spread,
}

/// How far what the shadow of output `name` of `got` has more than that of `base` steps, at each element; none
/// where either cannot be moved. A change of the mathematics moves along the curve that both share, and only rounding
/// on the way steps by itself. What is known to be larger by the share `growth` of an element is larger at each point.
///
/// # Errors
/// As [`Trial::measurement`].
pub(crate) fn steps_between(
    [base, got]: [&Trial; 2],
    name: &str,
    reach: StepReach,
    growth: impl Fn(usize) -> f64,
) -> Result<Option<Spread>, ReplayError> {
    let (Some(base_steps), Some(got_steps)) =
        (base.steps_of(name, reach)?, got.steps_of(name, reach)?)
    else {
        return Ok(None);
    };
    let Shadow::Present(run) = base.shadow_run()? else { return Ok(None) };
    let Some(middle) = run.output(name) else { return Ok(None) };
    let between = base_steps.differences.between(&got_steps.differences, growth);
    convert_numerics_error(between.and_then(|steps| steps.finish(&middle))).map(Some)
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
        reach: StepReach,
    ) -> Result<Option<&Spread>, ReplayError> {
        Ok(self.steps_of(name, reach)?.map(|steps| &steps.spread))
    }

    fn steps_of(&self, name: &str, reach: StepReach) -> Result<Option<&OutputSteps>, ReplayError> {
        let steps = self.shadow_steps[reach as usize].get(|| self.measure_steps(reach))?;
        Ok(steps.iter().find(|steps| steps.name == name))
    }

    fn measure_steps(&self, reach: StepReach) -> Result<Vec<OutputSteps>, ReplayError> {
        let Shadow::Present(shadow) = self.shadow()? else { return Ok(Vec::new()) };
        if !shadow.can(Ability::Line) {
            return Ok(Vec::new());
        }
        let Shadow::Present(middle) = self.shadow_run()? else { return Ok(Vec::new()) };
        let _span = tracing::info_span!("steps", message = self.fixture().name);
        let scratch = self.lab.scratch();
        let outputs = middle.outputs().filter(|(_, view)| view.dtype.is_float());
        let mut all_outputs = outputs
            .map(|(output, view)| {
                Ok((output.name.clone(), view, convert_numerics_error(Steps::new(&view, scratch))?))
            })
            .collect::<Result<Vec<_>, ReplayError>>()?;
        let exponent = reach.exponent();
        let modes = POINTS.map(|by| Mode {
            change: InputChange::Line(LinePoint { by, exponent }),
            ..Mode::plain(POISON_A)
        });
        let mut all_completed = true;
        shadow.run_each(&modes, shadow.at_once(Some(middle)), &mut |index, run| {
            all_completed &= run.ending == Ending::Completed;
            for (name, middle, steps) in &mut all_outputs {
                if let Some(view) = run.output(name) {
                    steps.add(middle, &view, POINTS[index]).expect("two runs of one variant");
                }
            }
            Ok(())
        })?;
        if !all_completed {
            return Ok(Vec::new());
        }
        let output_steps = all_outputs.into_iter().map(|(name, middle, differences)| {
            let spread = convert_numerics_error(
                differences.copied().and_then(|steps| steps.finish(&middle)),
            )?;
            Ok(OutputSteps { name, differences, spread })
        });
        output_steps.collect()
    }
}
