//! Judgements on trials: free functions over measurements and `numerics`.
//!
//! [`judge_trial`] compares two trials, [`check_captured`] one with its fixture's outputs, [`check_gradients`] holds
//! declared gradients against their loss, [`check_orders`] looks for races. Results are remembered by
//! content, like the trials themselves. The functions ask a variant for its abilities, and do not know
//! the machine below it.

mod accesses;
mod finding;
mod gradcheck;
mod gradient_budget;
mod gradient_story;
mod known;
mod launches;
mod masks;
mod native_gradients;
mod orders;
mod pair;
mod pictures;
mod runs;
mod side;
mod story;
mod twins;
mod values;
mod written;

use serde::{Deserialize, Serialize};

use std::sync::OnceLock;

use crate::backend::{Ability, Held, ReplayError, Variant};
use crate::trial::{
    Failure, Nondeterminism, OrderDependence, Outcome, OutputRecord, Probe, Status, Trial,
    convert_numerics_error, digest_key_parts, measured_ahead,
};
use replay_base::concurrent::run_both;
use replay_base::summary::Checksum;
use replay_base::tensor::{DType, Dim};
use replay_fixture::fixture::Fixture;
use replay_numerics::NumericsError;
use replay_numerics::compare::Comparison;
use replay_numerics::noise::NoiseSummary;
use replay_numerics::oracle::Accuracy;
use replay_numerics::shadow::ShadowChange;
use replay_numerics::slices::Location;

pub use self::accesses::{
    AccessStory, Accesses, JudgedAccess, TrustedReplay, UncheckedSide, check_accesses_on_both,
    check_trial_accesses,
};
pub use self::finding::{Finding, FindingKind};
pub use self::gradcheck::{
    GradientCheck, GradientPlace, GradientVerdict, StraightThrough, check_gradients,
    check_gradients_within,
};
pub use self::gradient_story::{GradientStory, SpoiltInput, UncheckedGradient, format_long_name};
pub use self::known::{Imprecision, KnownCheck, check_captured, check_oracle, has_captured_bits};
pub use self::launches::{LaunchChange, diff_launches};
pub use self::orders::{OrderCheck, check_orders};
use self::pair::Pair;
pub use self::pictures::{OutputPicture, draw_output_pictures};
pub use self::runs::{
    CapturedRun, RunsCheck, RunsDistance, RunsEvidence, RunsVerdict, compare_runs,
};
use self::side::MeasuredTrial;
pub use self::story::{Equivalence, ImpreciseBy, ShadowShift, Story, WrongBy};
use self::written::{WrittenTensor, WrittenTensors};

/// The verdict on one revision, or on one against another; ordered from best to worst.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The same bits.
    Identical,
    /// Other bits, within noise.
    Equivalent,
    /// Other bits, within noise, and no float64 shadow tells whether the mathematics is the same.
    Unchecked,
    /// Identical replays of one side differ by more than rounding: nothing can be compared.
    Unknown,
    /// It could not be run.
    Untestable,
    /// Beyond noise.
    Diverged,
    /// It ran and failed, whatever a comparison says.
    Failed,
}

impl Verdict {
    /// Whether nothing is known to have changed.
    pub fn agrees(self) -> bool {
        self <= Verdict::Unchecked
    }
}

/// One revision against a trusted one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst verdict.
    pub verdict: Verdict,
    /// The outputs, in the order of the harness; empty unless both sides have them.
    pub outputs: Vec<OutputJudgement>,
    /// The changes of launches.
    pub launches: Vec<LaunchChange>,
    /// The outcome of the trusted side.
    pub base: Outcome,
    /// The outcome of the other side.
    pub got: Outcome,
    /// Why there is no float64 shadow to judge by, if so.
    pub without_shadow: Option<String>,
}

/// One output of one revision against another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputJudgement {
    /// Its name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Vec<Dim>,
    /// The elements that either side left unwritten. The verdict is on the others.
    pub unwritten: u64,
    /// Why it stands as it does: its verdict and its meaning.
    pub story: Story,
    /// The comparison, element by element.
    pub comparison: Comparison,
    /// The noise of the trusted side.
    pub base_noise: NoiseSummary,
    /// The noise of the other side.
    pub got_noise: NoiseSummary,
    /// The trusted side against the oracle, or the trusted shadow where none is declared.
    pub base_accuracy: Option<Accuracy>,
    /// The other side against the same.
    pub got_accuracy: Option<Accuracy>,
    /// Whether the accuracies are against a declared oracle.
    pub by_oracle: bool,
    /// How the float64 shadow changed.
    pub shadow: Option<ShadowChange>,
    /// Why one of both sides has no shadow of this output, if so and others have one.
    pub without_shadow: Option<String>,
    /// The location of the elements beyond noise; of those whose shadow moved, where rounding hides it.
    pub location: Option<Location>,
    /// The location in words.
    pub place: Option<String>,
    /// Whole slices of zeros where the trusted side has others, in words.
    pub zero_slices: Vec<String>,
    /// The location as a picture: rows are the leading dimensions, columns the last; none if the
    /// words say as much.
    pub map: Option<String>,
    /// How two identical replays of the other side differ, if they do.
    pub nondeterminism: Option<Nondeterminism>,
    /// The probes of its noise on either side.
    pub probes: Vec<Probe>,
    /// How the other side depends on the order of blocks and threads, if it does.
    pub order: Option<OrderDependence>,
}

impl OutputJudgement {
    /// That of an output with the bits of `record` on both sides.
    fn identical(record: &OutputRecord) -> OutputJudgement {
        let count = record.dims.iter().map(|dim| dim.size as u64).product();
        OutputJudgement {
            name: record.name.clone(),
            dtype: record.dtype,
            dims: record.dims.clone(),
            unwritten: record.summary.unwritten,
            story: Story::Agrees(Equivalence::Identical),
            comparison: Comparison::identical(count),
            base_noise: NoiseSummary::default(),
            got_noise: NoiseSummary::default(),
            base_accuracy: None,
            got_accuracy: None,
            by_oracle: false,
            shadow: None,
            without_shadow: None,
            location: None,
            place: None,
            zero_slices: Vec::new(),
            map: None,
            nondeterminism: None,
            probes: Vec::new(),
            order: None,
        }
    }
}

/// Judges `got` by the trusted `base`.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn judge_trial(base: &Trial, got: &Trial) -> Result<Judgement, ReplayError> {
    base.room_for(Held::Noise { revisions: 2 })?;
    // Whether they can be run is asked later.
    base.native_while(&|| drop(got.native()))?;
    measured_ahead(&[base, got], || judge_outcomes(base, got))?
}

/// Whether `output` has the same bits in `base` and `got`, where both complete. Nothing is measured for it.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn has_same_output_bits(base: &Trial, got: &Trial, output: &str) -> Result<bool, ReplayError> {
    base.native_while(&|| drop(got.native()))?;
    let outcomes = run_outcomes(base, got)?;
    let [ours, theirs] = outcomes.map(|outcome| {
        let is_completed = matches!(outcome.status, Status::Completed);
        let record = outcome.outputs.iter().find(|record| record.name == output)?;
        is_completed.then_some(record.summary.checksum)
    });
    Ok(ours.is_some() && ours == theirs)
}

/// The outcomes of `base` and `got`.
fn run_outcomes<'t>(base: &'t Trial, got: &'t Trial) -> Result<[&'t Outcome; 2], ReplayError> {
    let (ours, theirs) = if shares_device(base)? {
        run_both(|| base.outcome(), || got.outcome())
    } else {
        (base.outcome(), got.outcome())
    };
    Ok([ours?, theirs?])
}

fn judge_outcomes(base: &Trial, got: &Trial) -> Result<Judgement, ReplayError> {
    let [ours, theirs] = run_outcomes(base, got)?;
    let judgement = Judgement::of_outcomes(ours.clone(), theirs.clone());
    if base.variant()?.is_none() || got.variant()?.is_none() {
        return Ok(judgement);
    }
    // Without outputs on both sides there is nothing to compare.
    if judgement.base.outputs.is_empty() || judgement.got.outputs.is_empty() {
        return Ok(judgement);
    }
    // A judgement by time is made anew, like the outcomes themselves.
    if judgement.base.is_late() || judgement.got.is_late() {
        return add_output_judgements(judgement, base, got);
    }
    let key = digest_key_parts(["judged by shadows", base.key()?, got.key()?]);
    base.lab().remember(&key, || add_output_judgements(judgement, base, got))
}

/// `judgement`, with the outputs of both sides compared.
fn add_output_judgements(
    judgement: Judgement,
    base: &Trial,
    got: &Trial,
) -> Result<Judgement, ReplayError> {
    // Nothing is measured where the bits are the same each time and in every order.
    let is_steady = has_steady_bits(base)? && has_steady_bits(got)?;
    if is_steady && judgement.has_same_bits() && check_orders(got)?.dependences.is_empty() {
        return Ok(judgement.with_identical_outputs());
    }
    // Whether there are shadows is asked later.
    let _ = base.shadow_while(&|| drop(got.shadow()));
    // Another machine than the device measures.
    let has_reference = base.variant()?.and_then(Variant::reference).is_some();
    let (ours, theirs) = if has_reference || (shares_device(base)? && !base.is_large()) {
        run_both(|| MeasuredTrial::measure(base), || MeasuredTrial::measure(got))
    } else {
        if base.is_large() {
            // A shadow takes twice the memory, and would stay beside the numbers of noise.
            base.measurement()?;
            got.measurement()?;
        }
        (MeasuredTrial::measure(base), MeasuredTrial::measure(got))
    };
    let (Some(ours), Some(theirs)) = (ours?, theirs?) else { return Ok(judgement) };
    let _span = tracing::info_span!("compare", message = base.fixture().name);
    judgement.with_outputs(&ours, &theirs)
}

/// Whether another revision can run beside `trial`, no slower for it.
fn shares_device(trial: &Trial) -> Result<bool, ReplayError> {
    Ok(trial.variant()?.is_some_and(|variant| variant.can(Ability::SharedDevice)))
}

/// Whether identical replays of `trial` give the same bits, and its outcome tells them.
fn has_steady_bits(trial: &Trial) -> Result<bool, ReplayError> {
    let variant = trial.variant()?;
    Ok(variant
        .is_some_and(|variant| variant.can(Ability::Repetition) && variant.reference().is_none()))
}

/// Whether there is room for the evidence about `trial`: its outcome, what depends on the order of blocks, the check of
/// its gradients, the comparison with the outputs that the fixture holds, and with a trusted revision if it is held
/// `against` one. Asked before anything is compiled.
///
/// # Errors
/// [`ReplayError`] if there is too little.
pub fn ensure_evidence_room(trial: &Trial, against: bool) -> Result<(), ReplayError> {
    let fixture = trial.fixture();
    // The search for dependence on the order measures outputs.
    let has_known = !fixture.captured.is_empty() || !fixture.oracle.is_empty();
    if against || has_known || trial.lab().backend().has_orders() {
        trial.room_for(Held::Noise { revisions: 1 + usize::from(against) })?;
    }
    // Where there is no room for a shadow, no gradient is checked.
    if has_checkable_gradient(fixture) && trial.has_room_for_shadow() {
        trial.room_for(Held::Gradient)?;
    }
    trial.room_for(Held::Outcome)
}

/// Whether `fixture` has a checkable gradient.
fn has_checkable_gradient(fixture: &Fixture) -> bool {
    fixture.outputs.iter().any(gradcheck::has_differentiable_loss)
}

/// The outcome of `trial`, and the checks of its gradients; those of a failed replay say that none
/// was made. Compiles for both at a time.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn outcome_and_gradients(trial: &Trial) -> Result<(&Outcome, Vec<GradientCheck>), ReplayError> {
    let is_checked = has_checkable_gradient(trial.fixture());
    ensure_evidence_room(trial, false)?;
    trial.native_while(&|| {
        if is_checked {
            // Whether there is one is asked later.
            let _ = trial.shadow();
        }
    })?;
    if is_checked {
        measured_ahead(&[trial], || check_outcome(trial))?
    } else {
        check_outcome(trial)
    }
}

/// The outcome of `trial`, and the checks of its gradients.
fn check_outcome(trial: &Trial) -> Result<(&Outcome, Vec<GradientCheck>), ReplayError> {
    let outcome = trial.outcome()?;
    let gradients = match outcome.status {
        Status::Completed => check_gradients(trial)?,
        Status::Failed(_) => {
            gradcheck::create_unknown_checks(trial.fixture(), &UncheckedGradient::ReplayFailed)
        }
        Status::Untestable { .. } => Vec::new(),
    };
    Ok((outcome, gradients))
}

/// The checksum of each output.
fn list_checksums(outcome: &Outcome) -> Vec<(&str, Checksum)> {
    let outputs = outcome.outputs.iter();
    outputs.map(|output| (output.name.as_str(), output.summary.checksum)).collect()
}

/// The kinds of the failures of `outcome`.
fn list_failure_kinds(outcome: &Outcome) -> Vec<&'static str> {
    match &outcome.status {
        Status::Failed(failures) => failures.iter().map(Failure::kind).collect(),
        Status::Completed | Status::Untestable { .. } => Vec::new(),
    }
}

impl Judgement {
    /// The verdict by two outcomes, without comparing elements.
    fn verdict_of(base: &Outcome, got: &Outcome) -> Verdict {
        match &got.status {
            _ if got.can_be_compared_with(base) && base.can_be_compared_with(got) => {
                Verdict::Identical
            }
            Status::Untestable { .. } => Verdict::Untestable,
            Status::Failed(_) => Verdict::Failed,
            Status::Completed => match &base.status {
                Status::Untestable { .. } => Verdict::Untestable,
                // Without outputs to compare, only the ending differs.
                _ => Verdict::Diverged,
            },
        }
    }

    /// The judgement by two outcomes, without comparing elements.
    fn of_outcomes(base: Outcome, got: Outcome) -> Judgement {
        let verdict = Judgement::verdict_of(&base, &got);
        let launches = launches::diff_launches(&base.launches, &got.launches);
        Judgement { verdict, outputs: Vec::new(), launches, base, got, without_shadow: None }
    }

    /// Whether both sides have the same outputs with the same bits, and can be compared.
    fn has_same_bits(&self) -> bool {
        self.verdict == Verdict::Identical
            && list_checksums(&self.base) == list_checksums(&self.got)
    }

    /// The judgement on outputs with the same bits, without measurements.
    fn with_identical_outputs(mut self) -> Judgement {
        let outputs = self.got.outputs.iter();
        self.outputs = outputs.map(OutputJudgement::identical).collect();
        self.settle();
        self
    }

    fn with_outputs(
        mut self,
        base: &MeasuredTrial,
        got: &MeasuredTrial,
    ) -> Result<Judgement, ReplayError> {
        let reason = base.shadow.missing_reason().or(got.shadow.missing_reason());
        self.without_shadow = reason.map(str::to_owned);
        let trial = base.trial;
        let fixture = trial.fixture();
        let scratch = trial.lab().scratch();
        for output in &fixture.outputs {
            let oracle = fixture.oracle.iter().find(|oracle| oracle.name == output.name);
            let Some(mut tensors) = WrittenTensors::collect(base, got, oracle, &output.name)?
            else {
                continue;
            };
            let false_twin = twins::drop_false_twins(&mut tensors, [base, got], &output.name);
            let false_twin = convert_numerics_error(false_twin.map_err(NumericsError::from))?;
            let pair = Pair {
                fixture,
                base,
                got,
                base_view: tensors.base.view(),
                got_view: tensors.got.view(),
                unwritten: tensors.unwritten,
                base_shadow: tensors.base_shadow.as_ref().map(WrittenTensor::view),
                got_shadow: tensors.got_shadow.as_ref().map(WrittenTensor::view),
                oracle: tensors.oracle.as_ref().map(WrittenTensor::view),
                scratch,
                false_twin,
                steps: OnceLock::new(),
            };
            self.outputs.push(pair.judge(&output.name, &output.dims)?);
        }
        self.settle();
        Ok(self)
    }

    /// Whether both sides fail by NaN or infinity, and are compared all the same.
    pub fn is_non_finite_on_both(&self) -> bool {
        self.verdict < Verdict::Failed && matches!(self.got.status, Status::Failed(_))
    }

    /// The failures of `got` whose kinds `base` does not have.
    pub fn new_failures(&self) -> Vec<&Failure> {
        let known_kinds = list_failure_kinds(&self.base);
        match &self.got.status {
            Status::Failed(failures) => {
                failures.iter().filter(|failure| !known_kinds.contains(&failure.kind())).collect()
            }
            _ => Vec::new(),
        }
    }
}
