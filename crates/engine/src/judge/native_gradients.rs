//! Gradients of sources without a float64 shadow, against differences of the loss that the native sources compute. It is
//! a weaker check: `numerics/derivative` has its rules, and every report names it.

use std::convert::identity;
use std::sync::Arc;
use std::time::Instant;

use super::gradcheck::{
    GradientCheck, LossTerm, find_non_finite_element, list_loss_terms, sum_loss,
};
use super::gradient_budget::{GradientBudget, SlopeError};
use super::gradient_story::{GradientStory, UncheckedGradient};
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::trial::{GradientEffort, Measurement, SlopeEffort, Trial, list_noise_modes};
use crate::worker::{Ending, InputChange, Run, Stepped};
use replay_base::summary::POISON_A;
use replay_base::tensor::step::{Scales, Step};
use replay_base::tensor::{DType, TensorView, parallel};
use replay_fixture::fixture::{Input, Output};
use replay_numerics::derivative::{
    NativeAnswer, NativeDoubt, NativeFinding, NativeQuestion, check_by_native_differences,
};

/// Holds those of `checks` that failed for lack of a shadow against native differences, and says whether there was time
/// for all directions.
pub(super) fn check_native_gradients(
    trial: &Trial,
    checks: Vec<GradientCheck>,
    effort: GradientEffort,
) -> Result<(Vec<GradientCheck>, bool), ReplayError> {
    let open = checks.iter().filter(|check| check.story.lacks_shadow()).count();
    let Some(variant) = trial.variant()?.filter(|_| open > 0) else { return Ok((checks, true)) };
    let variant = variant.for_noise();
    if !variant.can(Ability::Step) {
        return Ok((checks, true));
    }
    let Some(native) = trial.measurement()? else { return Ok((checks, true)) };
    let centre = variant.run(&Mode::plain(POISON_A))?;
    if centre.ending != Ending::Completed || native.run.ending != Ending::Completed {
        return Ok((checks, true));
    }
    let budget = GradientBudget::new(effort, open);
    budget.begin(centre.call / variant.at_once(Some(&centre)).max(1) as u32);
    let mut answered = Vec::new();
    for check in checks {
        if !check.story.lacks_shadow() {
            answered.push(check);
            continue;
        }
        let checker = NativeChecker { trial, variant, native, centre: &centre, budget: &budget };
        answered.push(checker.answer(check)?);
        budget.end_gradient();
    }
    Ok((answered, !budget.was_short()))
}

/// The check of gradients by native differences.
struct NativeChecker<'c> {
    trial: &'c Trial,
    /// What computes the losses: the sources on the reference machine.
    variant: &'c dyn Variant,
    /// The measurements around the gradients.
    native: &'c Measurement,
    /// The run of the variant on the inputs as they are.
    centre: &'c Run,
    budget: &'c GradientBudget,
}

impl NativeChecker<'_> {
    /// `check`, with what native differences tell.
    fn answer(&self, check: GradientCheck) -> Result<GradientCheck, ReplayError> {
        let fixture = self.trial.fixture();
        let output = fixture.outputs.iter().find(|output| output.name == check.output);
        let input = fixture.inputs.iter().find(|i| i.name == check.gradient_of && i.present);
        let (Some(output), Some(input)) = (output, input) else { return Ok(check) };
        let Some(gradient) = self.native.run.output(&output.name) else { return Ok(check) };
        let packed = input.packed()?;
        let shape = input.shape();
        let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
        if view.is_empty() || view.len() != gradient.len() {
            return Ok(check);
        }
        if input.storage_elements() < view.len() {
            return Ok(check.doubted(input.dtype, "elements of the input share memory".to_owned()));
        }
        let terms = list_loss_terms(fixture, output)?;
        let loss = sum_loss(&terms, self.centre, identity).filter(|loss| loss.is_finite());
        let Some(loss) = loss.filter(|_| find_non_finite_element(&gradient).is_none()) else {
            return Ok(
                check.doubted(input.dtype, "the loss or the gradient is not finite".to_owned())
            );
        };
        let scales = Arc::new(Scales::measure(&view, parallel::count_cores()));
        let (full, quick) = (SlopeEffort::native(view.len()), SlopeEffort::quick(view.len()));
        let Some(effort) = self.budget.choose_first(full, quick) else {
            return Ok(check.cannot(self.budget.explain_shortage(full)));
        };
        if effort != full && self.budget.is_timed() {
            self.budget.note_shortage();
        }
        self.budget.tell(self.trial, &output.name);
        let question = NativeQuestion {
            input: view,
            scales: &scales,
            constraint: input.constraint,
            gradient,
            gradient_rounding: self.native.noise_summary(&output.name).relative_l2,
            loss,
            rounding: self.measure_rounding(&terms, loss)?,
            directions: effort.directions,
            budget: effort.budget,
        };
        let answer = check_by_native_differences(&question, |steps| {
            self.budget.admit(steps.len())?;
            Ok(self.losses(output, &terms, (input, &scales), steps)?)
        });
        let finding = match answer {
            Ok(finding) => finding,
            Err(SlopeError::BudgetSpent) => {
                return Ok(check.cannot(self.budget.explain_shortage(full)));
            }
            Err(SlopeError::Replay(error)) => return Err(error),
        };
        let check = GradientCheck { of_directions: full.directions, ..check };
        Ok(check.with_differences(&finding, &view, input))
    }

    /// How far rounding moves the loss of `terms`: as far as in any replay of other roundings, orders or nudged inputs, or as
    /// the noise of its elements adds up.
    fn measure_rounding(&self, terms: &[LossTerm<'_>], loss: f64) -> Result<f64, ReplayError> {
        let mut squares = 0.0;
        for term in terms {
            let Some(noise) = self.native.noise_of(term.output()) else { continue };
            squares += term.noise_squares(noise);
        }
        let mut rounding = squares.sqrt();
        let modes = list_noise_modes(self.variant);
        let at_once = self.variant.at_once(Some(self.centre));
        self.variant.run_each(&modes, at_once, &mut |_, run| {
            // It may be unable to round otherwise.
            if let Some(other) = sum_loss(terms, &run, identity) {
                let distance = (other - loss).abs();
                rounding = if distance.is_nan() { f64::INFINITY } else { rounding.max(distance) };
            }
            Ok(())
        })?;
        Ok(rounding)
    }

    /// The loss of `terms`, whose gradient `output` is, after each of `steps` of the input.
    fn losses(
        &self,
        output: &Output,
        terms: &[LossTerm<'_>],
        (input, scales): (&Input, &Arc<Scales>),
        steps: &[Step],
    ) -> Result<Vec<Option<f64>>, ReplayError> {
        let modes = steps.iter().map(|step| {
            let (input, step, scales) = (input.name.clone(), step.clone(), scales.clone());
            let change = InputChange::Step(Stepped { input, step, scales });
            Mode { change, ..Mode::plain(POISON_A) }
        });
        let modes: Vec<Mode> = modes.collect();
        let mut losses = Vec::new();
        let begun_at = Instant::now();
        let at_once = self.variant.at_once(Some(self.centre));
        self.variant.run_each(&modes, at_once, &mut |_, run| {
            self.budget.count_evaluation(self.trial, &output.name);
            losses.push(sum_loss(terms, &run, identity).filter(|loss| loss.is_finite()));
            Ok(())
        })?;
        self.budget.add_time(begun_at.elapsed());
        Ok(losses)
    }
}

impl GradientCheck {
    /// It, with a doubt about differences of an input of `dtype`.
    fn doubted(self, dtype: DType, doubt: String) -> GradientCheck {
        let GradientStory::Unchecked(why) = &self.story else { return self };
        let why = Box::new(why.clone());
        self.cannot(UncheckedGradient::NoDifferences { why, dtype, doubt })
    }

    /// It, with the result `finding` of native differences.
    fn with_differences(
        self,
        finding: &NativeFinding,
        view: &TensorView,
        input: &Input,
    ) -> GradientCheck {
        let NativeFinding { answer, directions, checked, off, error } = *finding;
        let dtype = input.dtype;
        let doubt = match answer {
            NativeAnswer::Agrees | NativeAnswer::Differs => {
                let GradientStory::Unchecked(why) = self.story else { return self };
                let story = match answer {
                    NativeAnswer::Differs => GradientStory::FarFromDifferences { why, dtype },
                    _ => GradientStory::NearDifferences { why, dtype },
                };
                return GradientCheck {
                    story,
                    constraint: input.constraint,
                    directions,
                    elements: view.len(),
                    checked,
                    worst: off,
                    error,
                    place: None,
                    ..self
                };
            }
            NativeAnswer::Unknown(doubt) => doubt,
        };
        let words = match doubt {
            NativeDoubt::NoLoss => "the loss has no value beside the captured inputs".to_owned(),
            NativeDoubt::Flat => "the loss stays within its rounding".to_owned(),
            NativeDoubt::Rounded => "the rounding of the loss hides its slopes".to_owned(),
            NativeDoubt::Rough => "they change with the length of the step".to_owned(),
            NativeDoubt::Unseen => {
                "few elements carry the gradient, and cancel in all directions".to_owned()
            }
            NativeDoubt::Near => {
                format!("they lie off by {:.0} %, too little to tell", 100.0 * off)
            }
        };
        self.doubted(dtype, words)
    }
}
