//! What a replay shows of one call of a module.

use std::time::Duration;

use super::order::StepPart;
use replay_engine::backend::ReplayError;
use replay_engine::judge::{
    CapturedRun, Finding, GradientCheck, GradientVerdict, KnownCheck, RunsEvidence, RunsVerdict,
    Verdict, check_captured, check_gradients_within, compare_runs, judge_trial,
};
use replay_engine::trial::{Failure, Status, Trial};
use replay_fixture::fixture::Fixture;
use replay_numerics::compare::Comparison;

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
    /// The captured output parts from that of the trusted run, further than the code makes of the inputs.
    PartsFromRun {
        output: String,
        /// As a multiple of the noise, at the worst element.
        distance: f64,
        /// The run whose output the code gives, if it is one alone.
        reproduced: Option<CapturedRun>,
    },
}

/// Whether a call could be replayed.
#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    Replayed,
    Untestable {
        reason: String,
    },
    /// The other run has no such call.
    Alone,
}

/// How the outputs of one pass stand: the worst of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassReading {
    pub verdict: PassVerdict,
    /// How far they lie from what they are compared with at most, as a multiple of the noise, as far as that is known.
    pub distance: Option<f64>,
}

/// What the outputs of a pass are compared with, and how they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassVerdict {
    /// A replay, beside the captured outputs or the trusted revision.
    Replayed(Verdict),
    /// The captured outputs, beside those of the trusted run.
    Runs(RunsVerdict),
}

/// One call of a module, as it was replayed.
#[derive(Clone, Debug)]
pub struct PartReading {
    pub state: PartState,
    pub findings: Vec<PartFinding>,
    /// None where there is nothing to compare.
    pub forward: Option<PassReading>,
    pub backward: Option<PassReading>,
    /// The gradients, where they were held against their own forward.
    pub gradients: Vec<GradientCheck>,
    /// The outputs that the runs have in other forms, in words.
    pub not_comparable: Vec<String>,
}

impl PartReading {
    /// A call that could not be replayed.
    pub fn untestable(reason: String) -> PartReading {
        PartReading::without_outputs(PartState::Untestable { reason })
    }

    /// A call that the trusted run does not have.
    pub fn alone() -> PartReading {
        PartReading::without_outputs(PartState::Alone)
    }

    fn without_outputs(state: PartState) -> PartReading {
        PartReading {
            state,
            findings: Vec::new(),
            forward: None,
            backward: None,
            gradients: Vec::new(),
            not_comparable: Vec::new(),
        }
    }

    fn replayed(findings: Vec<PartFinding>, passes: Passes) -> PartReading {
        let Passes { forward, backward } = passes;
        let reading = PartReading::without_outputs(PartState::Replayed);
        PartReading { findings, forward, backward, ..reading }
    }

    /// Whether the trusted run has the call, with all outputs in the same form.
    pub fn is_compared(&self) -> bool {
        self.state != PartState::Alone && self.not_comparable.is_empty()
    }

    /// The outputs of one pass.
    pub fn pass(&self, direction: Direction) -> Option<&PassReading> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Backward => self.backward.as_ref(),
        }
    }

    /// Whether outputs differ from those of the trusted run because the inputs do.
    pub fn follows_inputs(&self) -> bool {
        let mut passes = [self.forward, self.backward].into_iter().flatten();
        passes.any(|pass| pass.verdict == PassVerdict::Runs(RunsVerdict::FollowsInputs))
    }

    /// The findings of one pass.
    pub fn findings_of(&self, direction: Direction) -> impl Iterator<Item = &PartFinding> {
        self.findings.iter().filter(move |finding| finding.direction == direction)
    }
}

/// Both passes, as far as their outputs were noted.
#[derive(Default)]
struct Passes {
    forward: Option<PassReading>,
    backward: Option<PassReading>,
}

impl Passes {
    fn note(&mut self, direction: Direction, verdict: PassVerdict, distance: Option<f64>) {
        let pass = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        };
        let noted = pass.get_or_insert(PassReading { verdict, distance });
        noted.verdict = noted.verdict.worse(verdict);
        noted.distance = [noted.distance, distance].into_iter().flatten().reduce(f64::max);
    }
}

impl PassVerdict {
    /// The worse of two verdicts, which are of one kind in a step.
    fn worse(self, other: PassVerdict) -> PassVerdict {
        match (self, other) {
            (PassVerdict::Replayed(one), PassVerdict::Replayed(other)) => {
                PassVerdict::Replayed(one.max(other))
            }
            (PassVerdict::Runs(one), PassVerdict::Runs(other)) => PassVerdict::Runs(one.max(other)),
            (_, other) => other,
        }
    }
}

fn worst_ratio(comparison: &Comparison) -> f64 {
    comparison.worst.map_or(0.0, |worst| worst.ratio)
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
    let mut passes = Passes::default();
    for check in check_captured(trial)? {
        let direction = direction_of(&check.output, part, trial.fixture());
        let distance = worst_ratio(&check.comparison);
        passes.note(direction, PassVerdict::Replayed(check.verdict), Some(distance));
        if is_captured_code && check.verdict == Verdict::Diverged {
            let KnownCheck { output, .. } = check;
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
    Ok(PartReading { gradients, ..PartReading::replayed(findings, passes) })
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
    let mut passes = Passes::default();
    for output in &judgement.outputs {
        let direction = direction_of(&output.name, part, trial.fixture());
        let verdict = output.story.verdict();
        let distance = worst_ratio(&output.comparison);
        passes.note(direction, PassVerdict::Replayed(verdict), Some(distance));
        if verdict == Verdict::Diverged
            && let Some(finding) = Finding::of_output(output)
        {
            findings.push(PartFinding { direction, kind: PartFindingKind::Replayed(finding) });
        }
    }
    Ok(PartReading::replayed(findings, passes))
}

/// Compares the captured outputs of a call with those of a trusted run. `base` and `trial` are the same code on the
/// inputs of both runs.
///
/// # Errors
/// As [`read_part`].
pub fn read_part_of_runs(
    base: &Trial,
    trial: &Trial,
    part: &StepPart,
) -> Result<PartReading, ReplayError> {
    let mut findings = Vec::new();
    let mut passes = Passes::default();
    let mut not_comparable = Vec::new();
    let mut state = PartState::Replayed;
    for check in compare_runs(base, trial)? {
        let direction = direction_of(&check.output, part, trial.fixture());
        let verdict = check.verdict();
        let output = check.output;
        let mut distance = None;
        match check.evidence {
            RunsEvidence::Identical => {}
            RunsEvidence::Unknown { reason } => state = PartState::Untestable { reason },
            RunsEvidence::NotComparable { reason } => {
                not_comparable.push(format!("{output}: {reason}"));
            }
            RunsEvidence::Measured(measured) => {
                distance = Some(measured.apart);
                if verdict == RunsVerdict::Parts {
                    let distance = measured.unexplained;
                    let reproduced = measured.reproduced;
                    let kind = PartFindingKind::PartsFromRun { output, distance, reproduced };
                    findings.push(PartFinding { direction, kind });
                }
            }
        }
        passes.note(direction, PassVerdict::Runs(verdict), distance);
    }
    Ok(PartReading { state, not_comparable, ..PartReading::replayed(findings, passes) })
}

/// A call that fails: in the forward, unless all that fails are gradients.
fn read_failures<'f>(
    failures: impl IntoIterator<Item = &'f Failure>,
    part: &StepPart,
    trial: &Trial,
) -> PartReading {
    let mut findings = Vec::new();
    let mut passes = Passes::default();
    for failure in failures {
        let outputs = failure.outputs();
        let is_backward = !outputs.is_empty()
            && outputs
                .iter()
                .all(|output| direction_of(output, part, trial.fixture()) == Direction::Backward);
        let direction = if is_backward { Direction::Backward } else { Direction::Forward };
        passes.note(direction, PassVerdict::Replayed(Verdict::Failed), None);
        let kind = PartFindingKind::Replayed(Finding::of_failure(failure));
        findings.push(PartFinding { direction, kind });
    }
    PartReading::replayed(findings, passes)
}
