//! What a replay shows of one call of a module.

use std::time::Duration;

use super::order::StepPart;
use replay_engine::backend::ReplayError;
use replay_engine::judge::{
    Finding, GradientCheck, GradientVerdict, KnownCheck, Verdict, check_captured,
    check_gradients_within, judge_trial,
};
use replay_engine::trial::{Failure, Status, Trial};
use replay_fixture::fixture::Fixture;

/// How long the gradients of one call are checked, unless the user says otherwise.
const GRADIENT_TIME: Duration = Duration::from_secs(30);

/// The pass of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Forward,
    Backward,
}

/// Something that is not well with one call.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFinding {
    pub direction: Direction,
    pub kind: PartFindingKind,
}

/// What is not well.
#[derive(Clone, Debug, PartialEq)]
pub enum PartFindingKind {
    /// A finding as replays have it.
    Replayed(Finding),
    /// The code does not give the captured output, beyond noise.
    NotAsCaptured {
        output: String,
        /// As a multiple of the noise, at the worst element.
        distance: f64,
    },
}

/// Whether a call could be replayed.
#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    Replayed,
    Untestable { reason: String },
}

/// One call of a module, as it was replayed.
#[derive(Clone, Debug)]
pub struct PartReading {
    pub state: PartState,
    pub findings: Vec<PartFinding>,
    /// The worst verdict on the outputs of each pass: beside the captured ones, or beside the trusted revision. None
    /// where there is nothing to compare.
    pub forward: Option<Verdict>,
    pub backward: Option<Verdict>,
    /// The gradients, where they were held against their own forward.
    pub gradients: Vec<GradientCheck>,
}

impl PartReading {
    /// A call that could not be replayed.
    pub fn untestable(reason: String) -> PartReading {
        PartReading {
            state: PartState::Untestable { reason },
            findings: Vec::new(),
            forward: None,
            backward: None,
            gradients: Vec::new(),
        }
    }

    fn replayed(findings: Vec<PartFinding>, verdicts: Verdicts) -> PartReading {
        let Verdicts { forward, backward } = verdicts;
        let gradients = Vec::new();
        PartReading { state: PartState::Replayed, findings, forward, backward, gradients }
    }

    /// The findings of one pass.
    pub fn findings_of(&self, direction: Direction) -> impl Iterator<Item = &PartFinding> {
        self.findings.iter().filter(move |finding| finding.direction == direction)
    }
}

/// The worst verdicts of both passes.
#[derive(Default)]
struct Verdicts {
    forward: Option<Verdict>,
    backward: Option<Verdict>,
}

impl Verdicts {
    fn note(&mut self, direction: Direction, verdict: Verdict) {
        let worst = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        };
        *worst = (*worst).max(Some(verdict));
    }
}

fn direction_of(output: &str, part: &StepPart, fixture: &Fixture) -> Direction {
    let declared = fixture.outputs.iter().find(|declared| declared.name == output);
    let is_gradient = declared.is_some_and(|declared| declared.gradient_of.is_some())
        || part.gradients.iter().any(|gradient| gradient == output);
    if is_gradient { Direction::Backward } else { Direction::Forward }
}

/// Replays a call by itself: its outputs beside the captured ones, which count if the replayed code `is_captured_code`,
/// and its gradients beside its own forward.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn read_part(
    trial: &Trial,
    part: &StepPart,
    is_captured_code: bool,
) -> Result<PartReading, ReplayError> {
    let outcome = trial.outcome()?;
    match &outcome.status {
        Status::Untestable { reason, .. } => return Ok(PartReading::untestable(reason.clone())),
        Status::Failed(failures) => return Ok(read_failures(failures, part, trial)),
        Status::Completed => {}
    }
    let mut findings = Vec::new();
    let mut verdicts = Verdicts::default();
    for check in check_captured(trial)? {
        let direction = direction_of(&check.output, part, trial.fixture());
        verdicts.note(direction, check.verdict);
        if is_captured_code && check.verdict == Verdict::Diverged {
            let KnownCheck { output, comparison, .. } = check;
            let distance = comparison.worst.map_or(0.0, |worst| worst.ratio);
            let kind = PartFindingKind::NotAsCaptured { output, distance };
            findings.push(PartFinding { direction, kind });
        }
    }
    let gradients = check_gradients_within(trial, GRADIENT_TIME)?;
    for check in &gradients {
        if check.story.verdict() < GradientVerdict::Imprecise {
            continue;
        }
        if let Some(finding) = Finding::of_gradient(check, trial) {
            let kind = PartFindingKind::Replayed(finding);
            findings.push(PartFinding { direction: Direction::Backward, kind });
        }
    }
    Ok(PartReading { gradients, ..PartReading::replayed(findings, verdicts) })
}

/// Compares a call with that of a trusted revision, from the same captured inputs.
///
/// # Errors
/// As [`read_part`].
pub fn read_part_beside(
    base: &Trial,
    trial: &Trial,
    part: &StepPart,
) -> Result<PartReading, ReplayError> {
    let judgement = judge_trial(base, trial)?;
    for (side, outcome) in [("", &judgement.got), ("at the trusted revision ", &judgement.base)] {
        if let Status::Untestable { reason, .. } = &outcome.status {
            return Ok(PartReading::untestable(format!("{side}{reason}")));
        }
    }
    let failures = judgement.new_failures();
    if !failures.is_empty() {
        return Ok(read_failures(failures, part, trial));
    }
    let mut findings = Vec::new();
    let mut verdicts = Verdicts::default();
    for output in &judgement.outputs {
        let direction = direction_of(&output.name, part, trial.fixture());
        let verdict = output.story.verdict();
        verdicts.note(direction, verdict);
        if verdict == Verdict::Diverged
            && let Some(finding) = Finding::of_output(output)
        {
            findings.push(PartFinding { direction, kind: PartFindingKind::Replayed(finding) });
        }
    }
    Ok(PartReading::replayed(findings, verdicts))
}

/// A call that fails: in the forward, unless all that fails are gradients.
fn read_failures<'f>(
    failures: impl IntoIterator<Item = &'f Failure>,
    part: &StepPart,
    trial: &Trial,
) -> PartReading {
    let mut findings = Vec::new();
    let mut verdicts = Verdicts::default();
    for failure in failures {
        let outputs = failure.outputs();
        let is_backward = !outputs.is_empty()
            && outputs
                .iter()
                .all(|output| direction_of(output, part, trial.fixture()) == Direction::Backward);
        let direction = if is_backward { Direction::Backward } else { Direction::Forward };
        verdicts.note(direction, Verdict::Failed);
        let kind = PartFindingKind::Replayed(Finding::of_failure(failure));
        findings.push(PartFinding { direction, kind });
    }
    PartReading::replayed(findings, verdicts)
}
