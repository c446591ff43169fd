//! Does the gradient match the loss? Directional derivatives by central differences.
//!
//! On the float64 shadow, where a difference quotient is good to nine digits, the derivative of
//! the loss along a direction must be the inner product of the gradient with that direction. It
//! needs no reference. A gradient of the native sources is then held against its shadow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::backend::{Mode, ReplayError, Variant};
use crate::cache::Kind;
use crate::fixture::{Fixture, Output};
use crate::replay::{Measurement, Trial, both};
use crate::summary::{POISON_A, float};
use crate::tensor::{DType, TensorView};
use crate::verdict::constants::{ERROR_RATIO, NOISE_FACTOR};
use crate::verdict::noise::NoiseRef;
use crate::verdict::oracle::against_oracle;
use crate::worker::{Ending, Part, Run, Step, direction};

/// Directions along which the loss is differentiated.
const DIRECTIONS: u64 = 8;
/// What the directions are drawn from.
const SEED: u64 = 0x6772_6164;
/// Directions along an input of more than [`MANY_ELEMENTS`], where a replay takes long: enough to see
/// that a gradient is wrong.
const FEW_DIRECTIONS: u64 = 2;
/// Counted instead of time, so that a report does not depend on what else the machine does.
const MANY_ELEMENTS: usize = 1 << 20;
/// The larger of the two steps, relative to the root mean square of the input: small, so that few
/// steps cross a kink (a clamp, a rectifier); cancellation leaves 2^-53 over it, near 1e-11.
const RELATIVE_STEP: f64 = 1e-5;
/// Quotients of the two steps that differ by more than this have a kink between them.
const SMOOTH: f64 = 1e-6;
/// A mismatch must exceed the quotients' own error by this factor.
const ERROR_FACTOR: f64 = 64.0;
/// Why nothing was checked: nothing can be differentiated.
const NO_LOSS: &str = "the harness declares no loss to differentiate";
/// Why nothing was checked: a replay took too long.
const OUT_OF_TIME: &str = "a replay beside the captured inputs ran out of time";
/// Relative mismatches below this are alike: constants in sources have nine digits.
const FLOOR: f64 = 1e-7;

/// What the check of one gradient found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientVerdict {
    /// It is the gradient of the loss.
    Matches,
    /// It cannot be told.
    Unknown,
    /// The native gradient departs from a shadow that matches.
    Imprecise,
    /// It is not the gradient of the loss.
    Mismatch,
}

/// One gradient against its loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientCheck {
    /// The output that is declared to be a gradient.
    pub output: String,
    /// The input that it is the gradient with respect to.
    pub gradient_of: String,
    /// The output that is differentiated; none where the harness has no loss.
    pub of: Option<String>,
    /// What was found.
    pub verdict: GradientVerdict,
    /// Why it is unknown.
    pub reason: Option<String>,
    /// Directions that count: those along which the loss is smooth.
    pub directions: u64,
    /// The largest mismatch, relative to the gradient's norm.
    #[serde(with = "float")]
    pub worst: f64,
    /// The error of the difference quotients, relative to the gradient's norm.
    #[serde(with = "float")]
    pub error: f64,
    /// The native gradient's distance from the shadow's, relative in L2.
    #[serde(with = "float")]
    pub native_error: f64,
    /// The largest such distance of an element, as a multiple of its noise.
    #[serde(with = "float")]
    pub native_ratio: f64,
}

/// Checks every output of the harness with `gradient_of`, one check for each, also where none can be
/// made; empty where the sources cannot be tested.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn gradients(trial: &Trial) -> Result<Vec<GradientCheck>, ReplayError> {
    let (fixture, lab) = (trial.fixture(), trial.lab());
    if !fixture.outputs.iter().any(has_loss) {
        return Ok(unknown(fixture, NO_LOSS));
    }
    if trial.variant()?.is_none() {
        return Ok(Vec::new());
    }
    let key = trial.key_of("gradcheck")?;
    if let Some(found) = lab.recall(Kind::Judgement, &key) {
        return Ok(found);
    }
    let found = match trial.shadow()? {
        Ok(shadow) if shadow.abilities().step => check_all(trial, shadow)?,
        Ok(_) => Ok(unknown(fixture, "the inputs of its float64 shadow cannot be changed")),
        Err(reason) => Ok(unknown(fixture, reason)),
    };
    let found = match found {
        Ok(found) => found,
        Err(reason) => return Ok(unknown(fixture, &reason)),
    };
    // That the time was out says as much about the machine: it is tried again.
    if found.iter().all(|check| check.reason.as_deref() != Some(OUT_OF_TIME)) {
        lab.keep_judgement(&key, &found)?;
    }
    Ok(found)
}

/// Every gradient against its loss, or why a run that this takes does not come to its end.
fn check_all(
    trial: &Trial,
    shadow: &dyn Variant,
) -> Result<Result<Vec<GradientCheck>, String>, ReplayError> {
    let fixture = trial.fixture();
    let _span = tracing::info_span!("gradcheck", message = fixture.name);
    let watched = declared(fixture).find_map(|output| output.of.clone());
    let part = match &watched {
        Some(watched) if shadow.abilities().part => Part::Watched(watched.clone()),
        _ => Part::Whole,
    };
    let mode = Mode { part, ..Mode::plain(POISON_A) };
    let (native, base) = both(|| trial.measurement(), || shadow.run(&mode));
    let (native, base) = (native?, base?);
    let Some(native) = native else { return Ok(Ok(Vec::new())) };
    let unfinished =
        unfinished(&native.run, "the replay").or(unfinished(&base, "the float64 shadow"));
    if let Some(reason) = unfinished {
        return Ok(Err(reason));
    }
    let mut found = Vec::new();
    for output in declared(fixture) {
        let part = match output.of == watched {
            true => part_enough(&base, output),
            false => Part::Whole,
        };
        let mut check = Check { trial, shadow, base: &base, output, part }.made()?;
        hold_native(&mut check, native, &base);
        found.push(check);
    }
    Ok(Ok(found))
}

/// The check of one gradient.
struct Check<'c> {
    trial: &'c Trial,
    shadow: &'c dyn Variant,
    /// The shadow's run on the inputs as they are.
    base: &'c Run,
    /// The gradient.
    output: &'c Output,
    /// How much of the call the loss takes.
    part: Part,
}

/// The loss at each step; none where its run does not come to its end.
struct Losses {
    values: Vec<Option<f64>>,
    /// Whether a run was out of time.
    timed_out: bool,
}

impl Check<'_> {
    fn made(&self) -> Result<GradientCheck, ReplayError> {
        let (fixture, base) = (self.trial.fixture(), self.base);
        let mut check = blank(self.output);
        let Some(of) = &self.output.of else { return Ok(check.cannot(NO_LOSS)) };
        check.directions = directions(fixture, &check.gradient_of);
        let (Some(gradient), Some(scale)) =
            (elements(base, &self.output.name), step_scale(fixture, &check.gradient_of)?)
        else {
            return Ok(check.cannot("the input is absent"));
        };
        if gradient.is_empty() {
            return Ok(check.cannot("it has no elements"));
        }
        let weights = upstream(fixture, self.output)?;
        let weights = weights.as_ref().map(Upstream::elements);
        let losses = self.losses(of, &check, scale, weights.as_ref())?;
        let Some(quotients) = quotients(&losses.values, scale, &gradient) else {
            return Ok(check.cannot(match losses.timed_out {
                true => OUT_OF_TIME,
                false => "the loss cannot be computed beside the captured inputs",
            }));
        };
        let loss =
            elements(base, of).map_or(0.0, |values| weighted(&values, weights.as_ref()).abs());
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        Ok(check.compare(&quotients, norm, loss * f64::EPSILON / scale))
    }

    /// The loss `of` at four steps along each direction.
    fn losses(
        &self,
        of: &str,
        check: &GradientCheck,
        scale: f64,
        weights: Option<&Elements>,
    ) -> Result<Losses, ReplayError> {
        let steps = (0..check.directions).flat_map(|number| {
            [scale, -scale, scale / 2.0, -scale / 2.0].map(|length| (SEED + number, length))
        });
        let modes: Vec<Mode> = steps
            .map(|(seed, length)| Step { input: check.gradient_of.clone(), seed, length })
            .map(|step| Mode { step: Some(step), part: self.part.clone(), ..Mode::plain(POISON_A) })
            .collect();
        let mut losses = Losses { values: Vec::new(), timed_out: false };
        let at_once = self.shadow.at_once(Some(self.base));
        self.shadow.run_each(&modes, at_once, &mut |_, run| {
            losses.timed_out |= matches!(run.ending, Ending::TimedOut(..));
            let loss = elements(&run, of);
            losses.values.push(loss.map(|values| weighted(&values, weights)));
            Ok(())
        })?;
        Ok(losses)
    }
}

/// The derivatives that `losses` tell, four for each direction; none if one of them is missing.
fn quotients(losses: &[Option<f64>], scale: f64, gradient: &Elements) -> Option<Vec<Quotient>> {
    let quotients = losses.chunks_exact(4).zip(SEED..).map(|(losses, seed)| {
        let difference = |at: usize| Some(losses[at]? - losses[at + 1]?);
        let (coarse, fine) = (difference(0)? / (2.0 * scale), difference(2)? / scale);
        Some(Quotient {
            // Richardson's extrapolation of the central difference (Press et al., Numerical
            // Recipes, section 5.7): the error term of h^2 cancels.
            derivative: (4.0 * fine - coarse) / 3.0,
            error: (fine - coarse).abs() / 3.0,
            expected: inner_product(gradient, seed),
        })
    });
    let quotients: Vec<Option<Quotient>> = quotients.collect();
    quotients.into_iter().collect()
}

/// Whether `output` is declared to be a gradient of something that can be differentiated.
pub(super) fn has_loss(output: &Output) -> bool {
    output.gradient_of.is_some() && output.of.is_some()
}

/// The outputs that are declared to be gradients.
fn declared(fixture: &Fixture) -> impl Iterator<Item = &Output> {
    fixture.outputs.iter().filter(|output| output.gradient_of.is_some())
}

/// How `run` of `what` ended, if not by itself.
fn unfinished(run: &Run, what: &str) -> Option<String> {
    match run.ending {
        Ending::Completed => None,
        Ending::TimedOut(..) => Some(format!("{what} ran out of time")),
        _ => Some(format!("{what} does not run to its end")),
    }
}

/// The directions along which the loss is differentiated by `input`.
fn directions(fixture: &Fixture, input: &str) -> u64 {
    let input = fixture.inputs.iter().find(|candidate| candidate.name == input);
    let elements = input.map_or(0, |input| input.shape().iter().product());
    if elements > MANY_ELEMENTS { FEW_DIRECTIONS } else { DIRECTIONS }
}

/// How much of the call decides about what is differentiated: what comes after it was last written in
/// `base` need not be done, which is the computation of the gradient as a rule.
fn part_enough(base: &Run, output: &Output) -> Part {
    match (base.last_write, output.of.clone()) {
        (Some(launch), Some(output)) => Part::Before { launch, output },
        _ => Part::Whole,
    }
}

/// One directional derivative, by differences and by the gradient.
struct Quotient {
    derivative: f64,
    /// What the extrapolation changed.
    error: f64,
    expected: f64,
}

/// The larger of two, NaN if either is: a NaN never passes.
fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn blank(output: &Output) -> GradientCheck {
    GradientCheck {
        output: output.name.clone(),
        gradient_of: output.gradient_of.clone().unwrap_or_default(),
        of: output.of.clone(),
        verdict: GradientVerdict::Unknown,
        reason: None,
        directions: DIRECTIONS,
        worst: 0.0,
        error: 0.0,
        native_error: 0.0,
        native_ratio: 0.0,
    }
}

/// A check of every gradient that could not be made, because of `reason`.
pub(super) fn unknown(fixture: &Fixture, reason: &str) -> Vec<GradientCheck> {
    declared(fixture).map(|output| blank(output).cannot(reason)).collect()
}

impl GradientCheck {
    fn cannot(mut self, reason: &str) -> GradientCheck {
        self.verdict = GradientVerdict::Unknown;
        self.reason = Some(reason.to_owned());
        self
    }

    /// Compares the derivatives with those that a gradient of this norm tells; `cancelled` is what
    /// cancellation in the loss leaves of a derivative.
    fn compare(mut self, quotients: &[Quotient], norm: f64, cancelled: f64) -> GradientCheck {
        let derivatives = quotients.iter().map(|q| q.derivative * q.derivative).sum::<f64>();
        let size = norm.max((derivatives / self.directions as f64).sqrt());
        let relative = |x: f64| if size > 0.0 { x / size } else { x };
        let smooth: Vec<&Quotient> =
            quotients.iter().filter(|quotient| relative(quotient.error) <= SMOOTH).collect();
        if smooth.len() as u64 * 2 < self.directions {
            return self.cannot("the loss is not smooth along most directions");
        }
        let worst = |of: fn(&Quotient) -> f64| smooth.iter().copied().map(of).fold(0.0, nan_max);
        self.directions = smooth.len() as u64;
        self.worst = relative(worst(|q| (q.derivative - q.expected).abs()));
        self.error = relative(worst(|q| q.error)).max(relative(cancelled));
        self.decide()
    }

    fn decide(mut self) -> GradientCheck {
        let allowed = (ERROR_FACTOR * self.error).max(FLOOR);
        self.verdict = if self.worst <= allowed {
            GradientVerdict::Matches
        } else {
            GradientVerdict::Mismatch
        };
        self
    }
}

/// Holds the native gradient against the shadow's, within its noise.
fn hold_native(check: &mut GradientCheck, native: &Measurement, shadow: &Run) {
    let name = check.output.as_str();
    let (Some(got), Some(oracle)) = (native.run.output(name), shadow.output(name)) else { return };
    let noise = NoiseRef { base: native.noise_of(name), got: None };
    let Ok(accuracy) = against_oracle(&got, &oracle, &noise) else { return };
    check.native_error = accuracy.relative_l2;
    check.native_ratio = accuracy.worst.map_or(0.0, |worst| worst.ratio);
    // One element may lie far off by chance; a loss of precision shows in the norm as well.
    let in_norm = accuracy.relative_l2 > ERROR_RATIO * native.noise_summary(name).relative_l2;
    if check.verdict == GradientVerdict::Matches && check.native_ratio > NOISE_FACTOR && in_norm {
        check.verdict = GradientVerdict::Imprecise;
    }
}

/// The length of a step along `input`; none if it is absent.
fn step_scale(fixture: &Fixture, input: &str) -> Result<Option<f64>, ReplayError> {
    let Some(input) = fixture.inputs.iter().find(|i| i.name == input && i.present) else {
        return Ok(None);
    };
    let packed = input.packed()?;
    let view = TensorView { dtype: input.dtype, shape: &input.shape(), bytes: &packed };
    let squares: f64 = (0..view.len()).map(|i| view.get_f64(i).powi(2)).sum();
    let rms = (squares / view.len().max(1) as f64).sqrt();
    Ok(Some(RELATIVE_STEP * if rms > 0.0 && rms.is_finite() { rms } else { 1.0 }))
}

/// The gradient that flows into the differentiated output.
struct Upstream<'f> {
    dtype: DType,
    bytes: Cow<'f, [u8]>,
}

impl Upstream<'_> {
    fn elements(&self) -> Elements<'_> {
        Elements(TensorView { dtype: self.dtype, shape: &[], bytes: &self.bytes })
    }
}

/// What flows into the differentiated output; none means one.
fn upstream<'f>(
    fixture: &'f Fixture,
    output: &Output,
) -> Result<Option<Upstream<'f>>, ReplayError> {
    let Some(name) = &output.upstream else { return Ok(None) };
    let Some(input) = fixture.inputs.iter().find(|i| i.name == *name && i.present) else {
        return Ok(None);
    };
    Ok(Some(Upstream { dtype: input.dtype, bytes: input.packed()? }))
}

fn weighted(values: &Elements, weights: Option<&Elements>) -> f64 {
    match weights {
        Some(weights) => values.iter().zip(weights.iter()).map(|(v, weight)| v * weight).sum(),
        None => values.iter().sum(),
    }
}

fn inner_product(gradient: &Elements, seed: u64) -> f64 {
    let terms = gradient.iter().enumerate();
    terms.map(|(index, g)| g * direction(seed, index as u64)).sum()
}

/// The elements of output `name`, for sums over them.
fn elements<'r>(run: &'r Run, name: &str) -> Option<Elements<'r>> {
    run.output(name).map(Elements)
}

/// The elements of a tensor as float64, each read when it is asked for.
#[derive(Clone, Copy)]
struct Elements<'t>(TensorView<'t>);

impl Elements<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = f64> {
        (0..self.0.len()).map(|index| self.0.get_f64(index))
    }
}
