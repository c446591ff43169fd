//! Checks gradients against their loss. The gradient's float64 shadow is compared with slopes of
//! the loss, which need no reference and are good to nine digits (`numerics/derivative`). The
//! gradient of the native sources is then compared with its shadow.

mod integers;
mod straight_through;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::convert::identity;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::straight_through::ScaleDoubt;
use super::gradient_budget::{GradientBudget, SlopeError};
use super::gradient_story::{GradientStory, SpoiltInput, UncheckedGradient};
use super::native_gradients::check_native_gradients;
use super::twins::describe_far;
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::trial::{
    GradientEffort, Measurement, Probe, Shadow, SlopeEffort, StepReach, Trial,
    convert_numerics_error, why_unfinished,
};
use crate::worker::{CallPart, Ending, InputChange, Run, Stepped};
use replay_base::cache::CacheKind;
use replay_base::concurrent::run_both;
use replay_base::summary::{Number, POISON_A};
use replay_base::tensor::constraint::Constraint;
use replay_base::tensor::step::{Scales, Step};
use replay_base::tensor::{DType, TensorView, parallel, unravel_index};
use replay_fixture::fixture::{Fixture, Output};
use replay_numerics::NumericsError;
use replay_numerics::constants::{ERROR_RATIO_BEYOND_NOISE, NARROW_ROUNDING, NOISE_FACTOR};
use replay_numerics::derivative::{
    self, GradientAnswer, GradientFinding, GradientMismatch, Question,
};
use replay_numerics::noise::{NoiseRef, Spread};
use replay_numerics::oracle::{Accuracy, against_oracle};
use replay_numerics::twin::find_unexplained;
use replay_runtime::cpu::Rounding;

/// How many runs the measurement of a program has at least: two plain ones, and three in other roundings.
const RUNS_OF_MEASUREMENT: usize = 5;

/// The verdict on one gradient.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GradientVerdict {
    /// It is the gradient of the loss.
    Matches,
    /// It agrees with differences of the native loss: a weaker check, where there is no float64 shadow. Small errors are
    /// open.
    Agrees,
    /// The check has no answer.
    Unknown,
    /// The native gradient departs from a matching shadow, or the shadow departs from its loss by no more
    /// than its rounding on the way to a format of fewer digits.
    Imprecise,
    /// It is not the gradient of the loss: by the shadow, or far off by differences of the native loss.
    Mismatch,
}

/// What rounding to integers is in the loss of a straight-through gradient.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StraightThrough {
    /// A rounded number keeps its value, and moves as its argument does.
    Slope,
    /// The same, and what scales numbers before they are rounded is constant.
    SlopeOfHeldScale,
    /// It passes numbers unchanged: a weaker check. Factors of the rounding error are open.
    Unrounded,
}

/// One gradient against its loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientCheck {
    /// The output: a declared gradient.
    pub output: String,
    /// The input of the differentiation.
    pub gradient_of: String,
    /// The differentiated outputs; empty where the harness has no loss.
    pub of: Vec<String>,
    /// The declared constraint of the input: the check moves it along this alone.
    pub constraint: Option<Constraint>,
    /// For a mismatch, the constraint that the input lies on and along which the gradient matches.
    pub matches_along: Option<Constraint>,
    /// What rounding to integers was in loss and gradient, where the harness declares a straight-through gradient.
    pub straight_through: Option<StraightThrough>,
    /// Why it stands as it does: its verdict and the reason.
    pub story: GradientStory,
    /// Directions with a smooth loss: only these count.
    pub directions: u64,
    /// The directions of a full check.
    pub of_directions: u64,
    /// The elements of the input.
    pub elements: usize,
    /// The elements of these directions: the others lie on kinks, or cannot be moved.
    pub checked: usize,
    /// The largest mismatch, relative to the gradient's norm.
    #[serde(with = "Number")]
    pub worst: f64,
    /// The error of the slopes, relative to the gradient's norm.
    #[serde(with = "Number")]
    pub error: f64,
    /// A place where the gradient does not match the loss, if there is one.
    pub place: Option<GradientPlace>,
    /// The native gradient's distance from the shadow's, relative in L2.
    #[serde(with = "Number")]
    pub native_error: f64,
    /// The largest such distance of an element, as a multiple of its noise.
    #[serde(with = "Number")]
    pub native_ratio: f64,
}

/// Elements whose gradient is not the slope of the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GradientPlace {
    /// The index of the first along each dimension.
    pub index: Vec<usize>,
    /// The number of elements, consecutive in row-major order; more than one if the check cannot tell
    /// them apart.
    pub elements: usize,
    /// The gradient, or its sum along a direction if there are several.
    #[serde(with = "Number")]
    pub gradient: f64,
    /// The slope of the loss.
    #[serde(with = "Number")]
    pub slope: f64,
}

impl GradientPlace {
    /// That of `mismatch` in an input of `shape`.
    fn of_mismatch(mismatch: &GradientMismatch, shape: &[usize]) -> GradientPlace {
        GradientPlace {
            index: unravel_index(mismatch.elements.start, shape),
            elements: mismatch.elements.len(),
            gradient: mismatch.gradient,
            slope: mismatch.slope,
        }
    }
}

/// Checks every output of the harness with `gradient_of`. Each has a check, even where none could
/// be made; the list is empty if the sources cannot be tested.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn check_gradients(trial: &Trial) -> Result<Vec<GradientCheck>, ReplayError> {
    check_gradients_with(trial, trial.lab().gradient_effort())
}

/// The same within `limit`, unless the user has named an effort or a result is known.
///
/// # Errors
/// As [`check_gradients`].
pub fn check_gradients_within(
    trial: &Trial,
    limit: Duration,
) -> Result<Vec<GradientCheck>, ReplayError> {
    check_gradients_with(trial, trial.lab().gradient_effort().or_within(limit))
}

fn check_gradients_with(
    trial: &Trial,
    effort: GradientEffort,
) -> Result<Vec<GradientCheck>, ReplayError> {
    let fixture = trial.fixture();
    let lab = trial.lab();
    if !fixture.outputs.iter().any(has_differentiable_loss) {
        return Ok(create_unknown_checks(fixture, &UncheckedGradient::NoLoss));
    }
    if trial.variant()?.is_none() {
        return Ok(Vec::new());
    }
    if effort == GradientEffort::Off {
        return Ok(create_unknown_checks(fixture, &UncheckedGradient::LeftOut));
    }
    let key = trial.key_of(&format!("gradcheck {effort}"))?;
    let full_key = trial.key_of(&format!("gradcheck {}", GradientEffort::Full))?;
    // A full check does for any limit in time, and so does that of a longer one.
    let usual_key = trial.key_of(&format!("gradcheck {}", lab.gradient_effort()))?;
    let keys = match effort {
        GradientEffort::Within(_) | GradientEffort::Usual => &[&full_key, &usual_key, &key][..],
        _ => &[&key],
    };
    for key in keys {
        if let Some(known_checks) = lab.recall(CacheKind::Judgement, key) {
            return Ok(known_checks);
        }
    }
    let timeouts = lab.backend().timeouts();
    let budget = GradientBudget::new(effort, list_declared_gradients(fixture).count());
    let check_result = match trial.shadow()? {
        Shadow::Present(shadow) if shadow.can(Ability::Step) => check_all(trial, shadow, &budget)?,
        Shadow::Present(_) => {
            ChecksMade::All(create_unknown_checks(fixture, &UncheckedGradient::FixedShadow))
        }
        Shadow::Missing { reason } => {
            ChecksMade::All(create_unknown_checks(fixture, &UncheckedGradient::NoShadow(reason)))
        }
    };
    let checks = match check_result {
        ChecksMade::All(checks) => checks,
        ChecksMade::None { why } => create_unknown_checks(fixture, &why),
    };
    let (checks, had_time) = check_native_gradients(trial, checks, effort)?;
    let is_timely = lab.backend().timeouts() == timeouts;
    if is_timely && !checks.iter().any(|check| check.story.rests_on_time()) {
        let is_full = effort != GradientEffort::Quick && !budget.was_short() && had_time;
        lab.keep_judgement(if is_full { &full_key } else { &key }, &checks)?;
    }
    Ok(checks)
}

/// The checks of all gradients of a trial.
enum ChecksMade {
    /// Of every gradient.
    All(Vec<GradientCheck>),
    /// Of none: a run did not complete.
    None {
        /// The reason.
        why: UncheckedGradient,
    },
}

/// The plain run of a shadow, or the reason that it means nothing.
enum ShadowStart {
    /// The run, and the checks where they were made at once.
    Ready(Box<Run>, Option<Vec<GradientCheck>>),
    /// In words.
    Meaningless(String),
}

/// Every gradient against its loss.
fn check_all(
    trial: &Trial,
    shadow: &dyn Variant,
    budget: &GradientBudget,
) -> Result<ChecksMade, ReplayError> {
    let fixture = trial.fixture();
    let _span = tracing::info_span!("gradcheck", message = fixture.name);
    let watched = list_declared_gradients(fixture).find_map(single_loss).cloned();
    let part = match &watched {
        Some(watched) if shadow.can(Ability::CallPart) => CallPart::Watched(watched.clone()),
        _ => CallPart::Whole,
    };
    let mode = Mode { part, ..Mode::plain(POISON_A) };
    let mut first_run = None;
    if budget.is_timed() && !trial.lab().backend().has_orders() {
        // A program may take too long for any answer: one run tells before others are made.
        let run = shadow.run(&mode)?;
        let each = run.call / shadow.at_once(Some(&run)).max(1) as u32;
        let stays =
            fixture.harness.program.as_ref().is_some_and(|program| program.preload.is_some());
        budget.begin_program(each, RUNS_OF_MEASUREMENT, stays);
        if let Some(why) = find_shortage(fixture, budget) {
            return Ok(ChecksMade::None { why });
        }
        first_run = Some(run);
    }
    let (native, slopes) = run_both(
        || trial.measurement(),
        || {
            let base = match first_run {
                Some(run) => run,
                None => shadow.run(&mode)?,
            };
            if let Some(reason) = trial.why_no_shadow(shadow, &base)? {
                return Ok(ShadowStart::Meaningless(reason));
            }
            // Elsewhere slopes and noise would want the same cores, and memory for both.
            let reference_checks = shadow
                .reference()
                .map(|_| check_shadow_gradients(trial, shadow, &base, &watched, budget))
                .transpose()?;
            Ok::<_, ReplayError>(ShadowStart::Ready(Box::new(base), reference_checks))
        },
    );
    budget.end_runs_before();
    let Some(native) = native? else { return Ok(ChecksMade::All(Vec::new())) };
    if let Some(reason) = why_unfinished(&native.run, "the replay") {
        return Ok(ChecksMade::None { why: UncheckedGradient::Unfinished(reason) });
    }
    let (base, slopes) = match slopes? {
        ShadowStart::Ready(base, checks) => (base, checks),
        ShadowStart::Meaningless(reason) => {
            return Ok(ChecksMade::None { why: UncheckedGradient::Unfinished(reason) });
        }
    };
    let mut gradient_checks = match slopes {
        Some(checks) => checks,
        None => check_shadow_gradients(trial, shadow, &base, &watched, budget)?,
    };
    for check in &mut gradient_checks {
        let departs = hold_native(check, native, &base);
        if departs && !is_ill_conditioned(trial, shadow, native, &base, &check.output)? {
            check.story = GradientStory::ImpreciseOutput;
        }
        if let Some(far_shadow) = find_far_shadow(check, native, &base)? {
            *check = create_unlocated_check(check).cannot(far_shadow);
        }
    }
    Ok(ChecksMade::All(gradient_checks))
}

/// Why there is no time for a few directions of each gradient, if there is none.
fn find_shortage(fixture: &Fixture, budget: &GradientBudget) -> Option<UncheckedGradient> {
    let mut inputs = fixture.inputs.iter().filter(|input| {
        list_declared_gradients(fixture)
            .any(|output| output.gradient_of.as_deref() == Some(input.name.as_str()))
    });
    let elements = inputs.next()?.storage_elements();
    let full = SlopeEffort::full(elements);
    match budget.choose_first(full, SlopeEffort::quick(elements)) {
        Some(_) => None,
        None => Some(budget.explain_shortage(full)),
    }
}

/// Every gradient of the shadow, whose run is `base`, against its loss; `watched` is the output whose writes were
/// watched.
fn check_shadow_gradients(
    trial: &Trial,
    shadow: &dyn Variant,
    base: &Run,
    watched: &Option<String>,
    budget: &GradientBudget,
) -> Result<Vec<GradientCheck>, ReplayError> {
    budget.begin(base.call / shadow.at_once(Some(base)).max(1) as u32);
    let neighbour = Neighbour { trial, checks: OnceCell::new() };
    let integer_places = OnceCell::new();
    let mut checks = Vec::new();
    for output in list_declared_gradients(trial.fixture()) {
        let part = if single_loss(output) == watched.as_ref() {
            part_enough(base, output, shadow)
        } else {
            CallPart::Whole
        };
        let neighbour = &neighbour;
        let integer_places = &integer_places;
        let (rounding, record) = (Rounding::Nearest, None);
        let checker = GradientChecker {
            trial,
            shadow,
            base,
            rounding,
            record,
            output,
            part,
            neighbour,
            integer_places,
            budget,
        };
        checks.push(checker.check()?);
        budget.end_gradient();
    }
    Ok(checks)
}

/// The moved input.
struct MovedInput<'m> {
    input: &'m str,
    scales: &'m Arc<Scales>,
    /// The steps go along it.
    constraint: Option<Constraint>,
}

/// The check of one gradient.
struct GradientChecker<'c> {
    trial: &'c Trial,
    shadow: &'c dyn Variant,
    /// The shadow's run on the inputs as they are.
    base: &'c Run,
    /// The rounding of the runs beside it.
    rounding: Rounding,
    /// The record of roundings to integers, where `rounding` has one.
    record: Option<&'c Path>,
    output: &'c Output,
    /// The part of the call behind the loss.
    part: CallPart,
    /// The point to check at where inputs are not finite.
    neighbour: &'c Neighbour<'c>,
    /// Where the sources take numbers to integers, once a check has asked.
    integer_places: &'c OnceCell<Vec<String>>,
    /// The work that the check may be.
    budget: &'c GradientBudget,
}

/// A point beside the captured one, with finite neighbours in the place of NaN and infinities. It is made
/// when the first gradient asks, for all of them.
struct Neighbour<'t> {
    trial: &'t Trial,
    checks: OnceCell<Option<NeighbourChecks>>,
}

/// The checks of all gradients at a neighbour.
struct NeighbourChecks {
    /// The other inputs of that point.
    inputs: Vec<SpoiltInput>,
    checks: Vec<GradientCheck>,
}

impl Neighbour<'_> {
    /// The check of gradient `output`; none where all inputs are finite.
    fn check(&self, output: &str) -> Result<Option<GradientCheck>, ReplayError> {
        let known = match self.checks.get() {
            Some(known) => known,
            None => {
                let made = self.make_checks()?;
                self.checks.get_or_init(|| made)
            }
        };
        let Some(NeighbourChecks { inputs, checks }) = known else { return Ok(None) };
        let check = checks.iter().find(|check| check.output == output).cloned();
        Ok(check.map(|check| GradientCheck {
            story: GradientStory::Beside { inputs: inputs.clone(), story: Box::new(check.story) },
            ..check
        }))
    }

    fn make_checks(&self) -> Result<Option<NeighbourChecks>, ReplayError> {
        let Some((fixture, inputs)) = self.trial.fixture().with_finite_inputs()? else {
            return Ok(None);
        };
        let inputs = inputs.into_iter().map(SpoiltInput::from).collect();
        Ok(Some(NeighbourChecks {
            inputs,
            checks: check_gradients(&self.trial.with_fixture(fixture))?,
        }))
    }
}

impl GradientChecker<'_> {
    fn check_as_it_rounds(&self) -> Result<GradientCheck, ReplayError> {
        let fixture = self.trial.fixture();
        let base = self.base;
        let check = create_blank_check(self.output);
        let losses = &self.output.of;
        if losses.is_empty() {
            return Ok(check.cannot(UncheckedGradient::NoLoss));
        }
        let input = fixture.inputs.iter().find(|i| i.name == check.gradient_of && i.present);
        let Some(input) = input else { return Ok(check.cannot(UncheckedGradient::NoInput)) };
        let watched_names: Vec<&String> = losses.iter().chain([&self.output.name]).collect();
        let watched: Vec<TensorView> =
            watched_names.iter().filter_map(|name| base.output(name)).collect();
        let Some(gradient) =
            watched.last().copied().filter(|_| watched.len() == watched_names.len())
        else {
            return Ok(check.cannot(explain_missing_shadow(base, &watched_names)));
        };
        if gradient.is_empty() {
            return Ok(check.cannot(UncheckedGradient::NoElements));
        }
        let non_finite = watched_names
            .iter()
            .zip(&watched)
            .find_map(|(&name, view)| Some((name, view, find_non_finite_element(view)?)));
        if let Some((name, view, index)) = non_finite {
            if let Some(found) = self.neighbour.check(&self.output.name)? {
                return Ok(found);
            }
            let is_output_finite = self.trial.outcome()?.is_finite(name);
            // An infinite gradient of a finite loss is wrong by itself.
            if losses.contains(name) || is_output_finite {
                let value = view.get_f64(index);
                let element = match unravel_index(index, view.shape).as_slice() {
                    [] => value.to_string(),
                    place => format!("{value} at {place:?}"),
                };
                let output = name.clone();
                let why = UncheckedGradient::NotFinite { output, element, is_output_finite };
                return Ok(check.cannot(why));
            }
        }
        let constraint = input.constraint;
        let packed = input.packed()?;
        let shape = input.shape();
        let input = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
        if input.len() != gradient.len() {
            return Ok(check.cannot(UncheckedGradient::OtherSize));
        }
        let terms = list_loss_terms(fixture, self.output)?;
        let projected =
            constraint.map(|constraint| project_gradient(constraint, &input, &gradient));
        let raw_gradient = gradient;
        let gradient = view_projected(&projected, raw_gradient);
        let (full, quick) = (SlopeEffort::full(input.len()), SlopeEffort::quick(input.len()));
        let check = GradientCheck { of_directions: full.directions, ..check };
        let scales = Arc::new(Scales::measure(&input, parallel::count_cores()));
        let question = Question {
            input,
            scales: &scales,
            gradient,
            loss: sum_loss(&terms, base, identity).unwrap_or(f64::NAN),
            magnitude: sum_loss(&terms, base, f64::abs).unwrap_or(f64::NAN),
            rounding: 0.0,
            directions: full.directions,
            budget: full.budget,
            rounded: None,
        };
        let mut trouble = None;
        let mut known_losses = Vec::new();
        let moved_input = MovedInput { input: &check.gradient_of, scales: &scales, constraint };
        let mut ask = |steps: &[Step]| {
            look_up_losses(&mut known_losses, steps, |new_steps| {
                self.budget.admit(new_steps.len())?;
                Ok(self.losses(&terms, &moved_input, new_steps, &mut trouble)?)
            })
        };
        let Some((effort, first_finding)) =
            self.answer_as_time_allows(&question, [full, quick], &mut ask)?
        else {
            return Ok(check.cannot(self.budget.explain_shortage(full)));
        };
        let rounding = match first_finding.answer {
            GradientAnswer::Differs | GradientAnswer::Unknown => self.measure_rounding(&terms)?,
            GradientAnswer::Agrees | GradientAnswer::NoLoss => 0.0,
        };
        // Terms inside of the loss that cancel round by more than the loss.
        let question = if question.may_explain(rounding, &first_finding) {
            Question { rounding, ..question }
        } else {
            question
        };
        let gradient_finding = if question.rounding > 0.0 {
            match answer_question(&question, effort, &mut ask)? {
                Some(finding) => finding,
                None => return Ok(check.cannot(self.budget.explain_shortage(full))),
            }
        } else {
            first_finding
        };
        // The steps of a staircase are no fewer digits: the shadow that passes them has none.
        let is_rounded = gradient_finding.answer == GradientAnswer::Differs
            && self.rounding == Rounding::Nearest
            && match self
                .trial
                .shadow_steps(&self.output.name, StepReach::from_shift(gradient_finding.worst))?
            {
                Some(steps) if steps.len() == gradient.len() => {
                    let question = Question { rounded: Some(steps), ..question };
                    match answer_question(&question, effort, &mut ask)? {
                        Some(finding) => finding.answer == GradientAnswer::Agrees,
                        None => return Ok(check.cannot(self.budget.explain_shortage(full))),
                    }
                }
                _ => false,
            };
        let differs = gradient_finding.answer == GradientAnswer::Differs && !is_rounded;
        if !is_rounded {
            match self.doubt_by_integers(&question, &gradient_finding, &terms, &mut ask) {
                Ok(Some(why)) => return Ok(check.cannot(why)),
                Ok(None) => {}
                Err(SlopeError::BudgetSpent) => {
                    return Ok(check.cannot(self.budget.explain_shortage(full)));
                }
                Err(SlopeError::Replay(error)) => return Err(error),
            }
        }
        let scale_doubt = if differs && self.rounding == Rounding::Straight {
            match self.doubt_by_scales(&question, &terms, &moved_input) {
                Ok(doubt) => doubt,
                Err(SlopeError::BudgetSpent) => {
                    return Ok(check.cannot(self.budget.explain_shortage(full)));
                }
                Err(SlopeError::Replay(error)) => return Err(error),
            }
        } else {
            None
        };
        let matches_along = if differs && constraint.is_none() && scale_doubt.is_none() {
            self.find_matching_constraint(
                &Question { gradient: raw_gradient, ..question },
                &terms,
                &moved_input,
                effort,
            )?
        } else {
            None
        };
        let check = check.with_answer(&gradient_finding, &question, trouble);
        let check = GradientCheck { constraint, matches_along, ..check };
        Ok(match scale_doubt {
            Some(ScaleDoubt { why, worst }) => {
                GradientCheck { worst: worst.unwrap_or(check.worst), ..check }.cannot(why)
            }
            None if is_rounded => GradientCheck { story: GradientStory::RoundedShadow, ..check },
            None => check,
        })
    }

    /// The constraint that the input of `question` lies on, and along which its gradient matches the loss.
    fn find_matching_constraint(
        &self,
        question: &Question,
        terms: &[LossTerm<'_>],
        moved_input: &MovedInput,
        effort: SlopeEffort,
    ) -> Result<Option<Constraint>, ReplayError> {
        for constraint in Constraint::ALL {
            if !lies_on(constraint, &question.input) {
                continue;
            }
            let projected = Some(project_gradient(constraint, &question.input, &question.gradient));
            let question = Question {
                gradient: view_projected(&projected, question.gradient),
                rounded: None,
                ..*question
            };
            let moved_input = MovedInput { constraint: Some(constraint), ..*moved_input };
            let mut trouble = None;
            let finding = answer_question(&question, effort, &mut |steps: &[Step]| {
                self.budget.admit(steps.len())?;
                Ok(self.losses(terms, &moved_input, steps, &mut trouble)?)
            })?;
            if finding.is_some_and(|finding| finding.answer == GradientAnswer::Agrees) {
                return Ok(Some(constraint));
            }
        }
        Ok(None)
    }

    /// The answer to `question` by as much as there is time for of the `full` effort, or else of the `quick` one, and by
    /// which of them; none if there is too little for either.
    fn answer_as_time_allows(
        &self,
        question: &Question,
        [full, quick]: [SlopeEffort; 2],
        ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, SlopeError>,
    ) -> Result<Option<(SlopeEffort, GradientFinding)>, ReplayError> {
        let Some(first) = self.budget.choose_first(full, quick) else { return Ok(None) };
        self.budget.tell(self.trial, &self.output.name);
        let first_finding = answer_question(question, first, ask)?;
        if first == full || !self.budget.is_timed() {
            return Ok(first_finding.map(|finding| (first, finding)));
        }
        if self.budget.allows_all(full)
            && let Some(finding) = answer_question(question, full, ask)?
        {
            return Ok(Some((full, finding)));
        }
        self.budget.note_shortage();
        // A full check might know more.
        let answered = first_finding.filter(|finding| match finding.answer {
            GradientAnswer::Agrees | GradientAnswer::Differs => true,
            GradientAnswer::Unknown | GradientAnswer::NoLoss => false,
        });
        Ok(answered.map(|finding| (first, finding)))
    }

    /// How far rounding in float64 moves the loss of `terms`; 0 where nothing rounds otherwise.
    fn measure_rounding(&self, terms: &[LossTerm<'_>]) -> Result<f64, ReplayError> {
        let mut squares = 0.0;
        for term in terms {
            let Some(noise) = self.trial.shadow_noise(term.output())? else { continue };
            squares += term.noise_squares(noise);
        }
        Ok(squares.sqrt())
    }

    /// The loss of `terms` after each of `steps`.
    fn losses(
        &self,
        terms: &[LossTerm<'_>],
        moved_input: &MovedInput,
        steps: &[Step],
        trouble: &mut Option<UncheckedGradient>,
    ) -> Result<Vec<Option<f64>>, ReplayError> {
        let modes = steps.iter().map(|step| Mode {
            change: InputChange::Step(Stepped {
                input: moved_input.input.to_owned(),
                step: Step { constraint: moved_input.constraint, ..step.clone() },
                scales: moved_input.scales.clone(),
            }),
            part: self.part.clone(),
            rounding: self.rounding,
            record: self.record.map(Path::to_owned),
            ..Mode::plain(POISON_A)
        });
        let modes: Vec<Mode> = modes.collect();
        let mut losses = Vec::new();
        let at_once = self.shadow.at_once(Some(self.base));
        let begun_at = Instant::now();
        self.shadow.run_each(&modes, at_once, &mut |_, run| {
            self.budget.count_evaluation(self.trial, &self.output.name);
            *trouble = trouble.take().or_else(|| find_trouble(&run));
            losses.push(sum_loss(terms, &run, identity));
            Ok(())
        })?;
        self.budget.add_time(begun_at.elapsed());
        Ok(losses)
    }
}

/// Why the loss of `run` may not be that of the captured inputs' neighbour, if it says so.
fn find_trouble(run: &Run) -> Option<UncheckedGradient> {
    match &run.ending {
        Ending::TimedOut(..) => Some(UncheckedGradient::OutOfTime),
        _ => run.has_other_roundings.then_some(UncheckedGradient::OtherRoundings),
    }
}

/// The single element where the gradient differs from a slope of zero.
fn find_flat_element(gradient_finding: &GradientFinding) -> Option<usize> {
    let mismatch = gradient_finding.place.as_ref()?;
    (mismatch.elements.len() == 1 && mismatch.slope == 0.0).then_some(mismatch.elements.start)
}

/// The answer to `question` by `effort`; none if its time is over.
fn answer_question(
    question: &Question,
    effort: SlopeEffort,
    ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, SlopeError>,
) -> Result<Option<GradientFinding>, ReplayError> {
    let SlopeEffort { directions, budget } = effort;
    match derivative::check_derivative(&Question { directions, budget, ..*question }, ask) {
        Ok(finding) => Ok(Some(finding)),
        Err(SlopeError::BudgetSpent) => Ok(None),
        Err(SlopeError::Replay(error)) => Err(error),
    }
}

/// The index of the first NaN or infinity.
pub(super) fn find_non_finite_element(tensor: &TensorView) -> Option<usize> {
    (0..tensor.len()).into_par_iter().find_first(|&index| !tensor.get_f64(index).is_finite())
}

/// The losses after `steps`; `ask` tells those beyond `known_losses`.
fn look_up_losses<E>(
    known_losses: &mut Vec<(Step, Option<f64>)>,
    steps: &[Step],
    ask: impl FnOnce(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<Vec<Option<f64>>, E> {
    let new_steps =
        steps.iter().filter(|step| known_losses.iter().all(|(known_step, _)| known_step != *step));
    let new_steps: Vec<Step> = new_steps.cloned().collect();
    if !new_steps.is_empty() {
        let losses = ask(&new_steps)?;
        known_losses.extend(new_steps.into_iter().zip(losses));
    }
    let losses = steps.iter().map(|step| {
        known_losses.iter().find(|(known_step, _)| known_step == step).and_then(|entry| entry.1)
    });
    Ok(losses.collect())
}

/// Whether `output` is the declared gradient of a differentiable output.
pub(super) fn has_differentiable_loss(output: &Output) -> bool {
    output.gradient_of.is_some() && !output.of.is_empty()
}

/// The differentiated output of the gradient `output`, if it is one alone.
fn single_loss(output: &Output) -> Option<&String> {
    match output.of.as_slice() {
        [loss] => Some(loss),
        _ => None,
    }
}

/// The declared gradients.
fn list_declared_gradients(fixture: &Fixture) -> impl Iterator<Item = &Output> {
    fixture.outputs.iter().filter(|output| output.gradient_of.is_some())
}

/// Why `base`, a shadow's run, has not all of `outputs`.
fn explain_missing_shadow(base: &Run, outputs: &[&String]) -> UncheckedGradient {
    let missing = outputs.iter().copied().find(|name| base.output(name).is_none());
    match missing.and_then(|name| Some((name, base.why_narrow(name)?))) {
        Some((name, reason)) => UncheckedGradient::NoShadowOf(name.clone(), reason.to_owned()),
        None => UncheckedGradient::NotInShadow,
    }
}

/// The part of the call behind the differentiated output. Launches after its last write
/// in `base` can be skipped; as a rule they compute the gradient.
fn part_enough(base: &Run, output: &Output, shadow: &dyn Variant) -> CallPart {
    match (base.last_write, single_loss(output).cloned()) {
        (Some(launch), Some(output)) => CallPart::Before { launch, output },
        (None, Some(output)) if shadow.can(Ability::SingleOutput) => CallPart::Told(output),
        _ => CallPart::Whole,
    }
}

fn create_blank_check(output: &Output) -> GradientCheck {
    GradientCheck {
        output: output.name.clone(),
        gradient_of: output.gradient_of.clone().unwrap_or_default(),
        of: output.of.clone(),
        constraint: None,
        matches_along: None,
        straight_through: None,
        story: GradientStory::Unchecked(UncheckedGradient::NoLoss),
        directions: 0,
        of_directions: 0,
        elements: 0,
        checked: 0,
        worst: 0.0,
        error: 0.0,
        place: None,
        native_error: 0.0,
        native_ratio: 0.0,
    }
}

/// An unanswered check of every gradient, and `why`.
pub(super) fn create_unknown_checks(
    fixture: &Fixture,
    why: &UncheckedGradient,
) -> Vec<GradientCheck> {
    list_declared_gradients(fixture)
        .map(|output| create_blank_check(output).cannot(why.clone()))
        .collect()
}

impl GradientCheck {
    /// The loss for people: its output, or the outputs whose weighted sum it is.
    pub fn loss_name(&self) -> String {
        match self.of.as_slice() {
            [] => "loss".to_owned(),
            [output] => output.clone(),
            outputs => format!("({})", outputs.join(", ")),
        }
    }

    pub(super) fn cannot(self, why: UncheckedGradient) -> GradientCheck {
        GradientCheck { story: GradientStory::Unchecked(why), ..self }
    }

    /// The check with the result `gradient_finding` for `question`.
    fn with_answer(
        self,
        gradient_finding: &GradientFinding,
        question: &Question,
        trouble: Option<UncheckedGradient>,
    ) -> GradientCheck {
        let input = &question.input;
        let story = match gradient_finding.answer {
            GradientAnswer::Agrees => GradientStory::Matches,
            GradientAnswer::Differs => GradientStory::Mismatch,
            GradientAnswer::Unknown | GradientAnswer::NoLoss if trouble.is_some() => {
                return self.cannot(trouble.unwrap_or(UncheckedGradient::NoLossBeside));
            }
            GradientAnswer::NoLoss => return self.cannot(UncheckedGradient::NoLossBeside),
            GradientAnswer::Unknown => {
                let why = match gradient_finding.hidden {
                    Some(hidden) => UncheckedGradient::hidden_by_rounding(question.loss, hidden),
                    None => UncheckedGradient::NotSmooth,
                };
                return self.cannot(why);
            }
        };
        GradientCheck {
            story,
            directions: gradient_finding.directions,
            elements: input.len(),
            checked: gradient_finding.checked,
            worst: gradient_finding.worst,
            error: gradient_finding.error,
            place: gradient_finding
                .place
                .as_ref()
                .map(|mismatch| GradientPlace::of_mismatch(mismatch, input.shape)),
            ..self
        }
    }
}

/// Why the shadow says nothing of the native gradient, though its own does not match the loss: no rounding explains how
/// far the gradient or the loss lies off in it.
fn find_far_shadow(
    check: &GradientCheck,
    native: &Measurement,
    shadow: &Run,
) -> Result<Option<UncheckedGradient>, ReplayError> {
    if check.story != GradientStory::Mismatch {
        return Ok(None);
    }
    for name in [&check.output].into_iter().chain(&check.of) {
        let Some((output, shadow)) = native.run.output(name).zip(shadow.output(name)) else {
            continue;
        };
        let noise = NoiseRef { base: native.noise_of(name), got: None };
        let rounding = native.noise_summary(name).relative_l2;
        let fault = find_unexplained(&output, &shadow, &noise, rounding);
        if let Some(fault) = convert_numerics_error(fault.map_err(NumericsError::from))? {
            let words = describe_far(name, &fault, output.shape);
            return Ok(Some(UncheckedGradient::FarShadow(words)));
        }
    }
    Ok(None)
}

/// `check` without a place.
fn create_unlocated_check(check: &GradientCheck) -> GradientCheck {
    GradientCheck { place: None, ..check.clone() }
}

/// Compares the native gradient with the shadow's. Returns whether it departs from a matching one.
fn hold_native(check: &mut GradientCheck, native: &Measurement, shadow: &Run) -> bool {
    let name = check.output.as_str();
    let noise = native.noise_of(name);
    let least = least_departure(native.probes_of(name), native.noise_summary(name).relative_l2);
    let Some((accuracy, departs)) = measure_departure(native, shadow, name, noise, least) else {
        return false;
    };
    check.native_error = accuracy.relative_l2;
    check.native_ratio = accuracy.worst.map_or(0.0, |worst| worst.ratio);
    departs && check.story == GradientStory::Matches
}

/// The least error in L2 by which an output with this noise in L2, seen by `probes`, departs from its shadow. Inputs
/// moved by a unit in the last place tell how the output follows them, and not what the roundings between cost.
fn least_departure(probes: &[Probe], noise: f64) -> f64 {
    let least = ERROR_RATIO_BEYOND_NOISE * noise;
    if probes == [Probe::Inputs] { least.max(NARROW_ROUNDING) } else { least }
}

/// The error of output `name` against its shadow, and whether it is beyond `noise`, and beyond `least` in L2.
fn measure_departure(
    native: &Measurement,
    shadow: &Run,
    name: &str,
    noise: Option<&Spread>,
    least: f64,
) -> Option<(Accuracy, bool)> {
    let got = native.run.output(name)?;
    let oracle = shadow.output(name)?;
    let noise = NoiseRef { base: noise, got: None };
    let accuracy = against_oracle(&got, &oracle, &noise).ok()?;
    let is_beyond = accuracy.worst.is_some_and(|worst| worst.ratio > NOISE_FACTOR);
    // One element may lie far off by chance; a loss of precision shows in the norm as well.
    let in_norm = accuracy.relative_l2 > least;
    Some((accuracy, is_beyond && in_norm))
}

/// Whether inputs that are moved by a unit in the last place of float32 move output `name` as far as it lies
/// from its shadow. Directed rounding does not tell: it moves both terms of a difference alike.
fn is_ill_conditioned(
    trial: &Trial,
    shadow: &dyn Variant,
    native: &Measurement,
    base: &Run,
    name: &str,
) -> Result<bool, ReplayError> {
    let Some(noise) = trial.condition(shadow, base, name)? else { return Ok(false) };
    let least = ERROR_RATIO_BEYOND_NOISE * noise.summary.relative_l2;
    let departure = measure_departure(native, base, name, Some(&noise.per_element), least);
    Ok(departure.is_some_and(|(_, departs)| !departs))
}

/// Whether every group of `input` lies on `constraint`.
fn lies_on(constraint: Constraint, input: &TensorView) -> bool {
    let group_len = constraint.group_len(input.shape).filter(|length| *length > 1);
    let Some(group_len) = group_len else { return false };
    let mut point = vec![0.0; group_len];
    (0..input.len() / group_len).all(|group| {
        input.read(group * group_len, &mut point);
        constraint.holds(&point)
    })
}

/// The elements of `gradient` as float64, projected onto the tangent space of `constraint` at `input`.
fn project_gradient(constraint: Constraint, input: &TensorView, gradient: &TensorView) -> Vec<u8> {
    let mut values = vec![0.0; gradient.len()];
    gradient.read(0, &mut values);
    if let Some(group_len) = constraint.group_len(input.shape).filter(|length| *length > 0) {
        let mut point = vec![0.0; group_len];
        for (group, values) in values.chunks_mut(group_len).enumerate() {
            input.read(group * group_len, &mut point);
            constraint.project(&point, values);
        }
    }
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The `projected` gradient; where there is none, `gradient` itself.
fn view_projected<'t>(projected: &'t Option<Vec<u8>>, gradient: TensorView<'t>) -> TensorView<'t> {
    match projected {
        Some(bytes) => TensorView { dtype: DType::F64, shape: gradient.shape, bytes },
        None => gradient,
    }
}

/// A differentiated output, and the gradient flowing into it.
pub(super) struct LossTerm<'f> {
    output: &'f str,
    /// None means one.
    upstream: Option<Upstream<'f>>,
}

/// The gradient flowing into a differentiated output.
struct Upstream<'f> {
    dtype: DType,
    bytes: Cow<'f, [u8]>,
}

impl LossTerm<'_> {
    /// The differentiated output.
    pub(super) fn output(&self) -> &str {
        self.output
    }

    /// What flows into each of `elements`.
    pub(super) fn weights(&self, elements: usize) -> impl Iterator<Item = f64> + '_ {
        let weights = self.upstream.as_ref().map(|upstream| TensorView {
            dtype: upstream.dtype,
            shape: &[],
            bytes: &upstream.bytes,
        });
        let count = weights.map_or(elements, |weights| elements.min(weights.len()));
        (0..count).map(move |index| weights.map_or(1.0, |weights| weights.get_f64(index)))
    }

    /// The squares of `noise` of each element, times what flows into it, added up.
    pub(super) fn noise_squares(&self, noise: &Spread) -> f64 {
        let weights = self.weights(noise.len()).enumerate();
        let products = weights.map(|(index, weight)| weight * noise.value_at(index));
        products.map(|product| product * product).sum()
    }

    /// Each element of `values` times what flows into it.
    fn products<'t>(&'t self, values: TensorView<'t>) -> impl Iterator<Item = f64> + 't {
        let weights = self.weights(values.len()).enumerate();
        weights.map(move |(index, weight)| values.get_f64(index) * weight)
    }
}

/// The differentiated outputs of the gradient `output`.
pub(super) fn list_loss_terms<'f>(
    fixture: &'f Fixture,
    output: &'f Output,
) -> Result<Vec<LossTerm<'f>>, ReplayError> {
    let mut terms = Vec::new();
    for (index, name) in output.of.iter().enumerate() {
        let input = output.upstream.get(index).and_then(|upstream| {
            fixture.inputs.iter().find(|input| input.name == *upstream && input.present)
        });
        let upstream = match input {
            Some(input) => Some(Upstream { dtype: input.dtype, bytes: input.packed()? }),
            None => None,
        };
        terms.push(LossTerm { output: name, upstream });
    }
    Ok(terms)
}

/// The sum of `measure` over the products of all `terms` in `run`; none without one of the outputs.
pub(super) fn sum_loss(terms: &[LossTerm<'_>], run: &Run, measure: fn(f64) -> f64) -> Option<f64> {
    let mut sum = 0.0;
    for term in terms {
        sum += term.products(run.output(term.output)?).map(measure).sum::<f64>();
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings_that_moved_inputs_do_not_show_are_no_loss_of_precision() {
        let of_a_long_scan = 7.7e-7;
        assert!(of_a_long_scan < least_departure(&[Probe::Inputs], 2.4e-8));
        assert!(of_a_long_scan > least_departure(&[Probe::Rounding], 2.4e-8));
        assert!(of_a_long_scan > least_departure(&[Probe::Rounding, Probe::Inputs], 2.4e-8));
        let of_bfloat16 = 1.6e-3;
        assert!(of_bfloat16 > least_departure(&[Probe::Inputs], 2.4e-8));
        assert!(of_bfloat16 < least_departure(&[Probe::Inputs], 1e-3));
    }
}
