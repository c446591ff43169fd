//! The checked replay: one run of a build with a report of every access to memory, and its findings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, Status, Trial, VariantBuild};
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::worker::{Ending, Run};
use replay_base::cache::CacheKind;
use replay_base::summary::POISON_A;
use replay_base::tensor::{DType, unravel_index};
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;
use replay_runtime::report::{AccessFinding, AccessFindings, FoundKind};

/// When accesses to memory are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessCheck {
    /// Where the call of a plain run takes no more processor time than [`AccessCheck::AUTO`].
    Auto,
    /// However long it takes, up to the limit of time.
    Always,
    Off,
}

impl AccessCheck {
    /// After so long a call a checked one takes a second or two.
    pub const AUTO: Duration = Duration::from_millis(100);

    /// The findings of a checked run of `trial`, if there is to be one and the call returns.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn check_trial(self, trial: &Trial) -> Result<Option<CheckedReplay>, ReplayError> {
        let time_limit = match self {
            AccessCheck::Off => return Ok(None),
            AccessCheck::Auto => Some(AccessCheck::AUTO),
            AccessCheck::Always => None,
        };
        let ends = trial.comes_to_its_end()?;
        if !ends && !trial.faults()? {
            return Ok(None);
        }
        let checked_replay = trial.checked(time_limit)?;
        Ok(Some(checked_replay.clone()).filter(|replay| ends || !replay.findings().is_empty()))
    }
}

/// The findings of a checked replay, or why there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckedReplay {
    /// It was made.
    Done {
        /// Faults, and habits of the same look; in order of appearance.
        findings: Vec<AccessFinding>,
        /// Findings beyond those.
        left_out: u64,
    },
    /// It was not made.
    Not { reason: String },
}

impl CheckedReplay {
    /// The findings.
    pub fn findings(&self) -> &[AccessFinding] {
        match self {
            CheckedReplay::Done { findings, .. } => findings,
            CheckedReplay::Not { .. } => &[],
        }
    }

    fn not(reason: impl Into<String>) -> CheckedReplay {
        CheckedReplay::Not { reason: reason.into() }
    }
}

/// How far two threads that touch an element without an order are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaceScope {
    /// In one block.
    Block,
    /// In two blocks.
    Grid,
}

/// What a checked replay that came to its end did with the tensors of its fixture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorTraces {
    /// By tensor, the elements up to the last one that was read or written.
    pub reach: BTreeMap<String, usize>,
    /// The tensors that were read where nobody had written.
    pub unset: BTreeSet<String>,
    /// The widest race; none where there is none.
    pub race: Option<RaceScope>,
    /// The processor time of the call, which the machine's load does not change.
    pub call_cpu: Duration,
}

/// How far a checked replay touched the tensors of its fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorReach {
    /// It came to its end.
    Measured(TensorTraces),
    /// A fault ended the replay, which other sizes may not have.
    Fault { reason: String },
    /// There was no such replay.
    Not { reason: String },
}

/// The name of remembered findings.
const CHECKED: &str = "checked";
/// The name of the remembered processor time of a plain call.
const CALL_TIME: &str = "processor time of the call";

impl Trial {
    pub(super) fn check_accesses(
        &self,
        time_limit: Option<Duration>,
    ) -> Result<CheckedReplay, ReplayError> {
        let Some(variant) = self.variant()? else {
            return Ok(CheckedReplay::not("the sources cannot be run"));
        };
        if !self.comes_to_its_end()? && !self.faults()? {
            return Ok(CheckedReplay::not("the replay does not run to its end"));
        }
        let key = self.key_of(CHECKED)?;
        if let Some(known_replay) = self.lab.recall(CacheKind::Judgement, &key) {
            return Ok(known_replay);
        }
        if let Some(call_limit) = time_limit {
            let call = self.remembered_call(variant)?;
            if call > call_limit {
                let [taken, most] = [call, call_limit].map(|time| time.as_secs_f64() * 1e3);
                return Ok(CheckedReplay::not(format!(
                    "the call takes {taken:.0} ms of processor time, more than {most:.0} ms"
                )));
            }
        }
        let checked_variant = match self.prepare(Precision::Checked, &|| ())? {
            VariantBuild::Ready(variant) if variant.can(Ability::AccessCheck) => variant,
            VariantBuild::Ready(_) => return Ok(CheckedReplay::not("the backend cannot")),
            VariantBuild::Refused(refusal) => {
                let build_error = refusal.first_error.unwrap_or(refusal.reason);
                return Ok(CheckedReplay::not(format!(
                    "the checked build does not compile: {build_error}"
                )));
            }
        };
        let _span = tracing::info_span!("check", message = self.fixture().name);
        let run = checked_variant.run(&Mode::plain(POISON_A))?;
        // The size of memory is no property of the code, and not remembered.
        if let Some(bytes) = run.findings.refused {
            return Ok(CheckedReplay::not(format!(
                "a check takes {} MiB of device memory, more than --memory allows",
                bytes.div_ceil(1 << 20)
            )));
        }
        if let Some(reason) = run.findings.not_checked {
            return Ok(CheckedReplay::not(reason));
        }
        let checked_result = match run.ending {
            Ending::Completed => self.conclude_check(run, variant)?,
            // Earlier findings hold all the same.
            Ending::Fault(..) if !run.findings.found.is_empty() => {
                self.conclude_check(run, variant)?
            }
            Ending::TimedOut(..) => {
                return Ok(CheckedReplay::not("the checked replay was out of time"));
            }
            _ => CheckedReplay::not("the checked replay does not run to its end"),
        };
        self.lab.keep_judgement(&key, &checked_result)?;
        Ok(checked_result)
    }

    /// Measures how far a checked replay touches the tensors, whatever it finds.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn measure_reach(&self) -> Result<TensorReach, ReplayError> {
        let not = |reason: String| Ok(TensorReach::Not { reason });
        let variant = match self.prepare(Precision::Checked, &|| ())? {
            VariantBuild::Ready(variant) => variant,
            VariantBuild::Refused(refusal) => {
                return not(refusal.first_error.unwrap_or(refusal.reason));
            }
        };
        let run = variant.run(&Mode::plain(POISON_A))?;
        // What was read beside a tensor may be the index of a later access far away, which ends the replay.
        let mut found = run.findings.found.iter();
        if let Some(beside) = found.find(|finding| finding.kind == FoundKind::OutOfBounds) {
            return Ok(TensorReach::Fault { reason: beside.kind.words(&beside.memory) });
        }
        match run.ending {
            Ending::Completed if run.findings.refused.is_none() => {
                let touched = run.findings.touched.into_iter().filter_map(|touched| {
                    let dtype = find_tensor_dtype(self.fixture(), &touched.memory)?;
                    Some((touched.memory, touched.bytes as usize / dtype.size()))
                });
                let found = run.findings.found;
                let races = found.iter().filter(|finding| finding.kind == FoundKind::Race);
                let unset = found.iter().filter(|finding| finding.kind == FoundKind::Unwritten);
                Ok(TensorReach::Measured(TensorTraces {
                    reach: touched.collect(),
                    unset: unset.map(|finding| finding.memory.clone()).collect(),
                    race: races.map(find_race_scope).max(),
                    call_cpu: run.call_cpu,
                }))
            }
            Ending::Fault(fault) => {
                Ok(TensorReach::Fault { reason: format!("{}: {}", fault.what, fault.detail) })
            }
            Ending::TimedOut(..) => not("the checked replay was out of time".to_owned()),
            _ => not("the checked replay does not run to its end".to_owned()),
        }
    }

    /// The processor time of a plain call as it was measured first, so that whether accesses are checked
    /// depends on the machine's load once at most.
    fn remembered_call(&self, variant: &dyn Variant) -> Result<Duration, ReplayError> {
        let key = self.key_of(CALL_TIME)?;
        if let Some(known_time) = self.lab.recall(CacheKind::Judgement, &key) {
            return Ok(known_time);
        }
        let call = *self.call.get(|| measure_call(variant))?;
        self.lab.keep_judgement(&key, &call)?;
        Ok(call)
    }

    /// Whether the sources can be run and the call returns.
    fn comes_to_its_end(&self) -> Result<bool, ReplayError> {
        Ok(match &self.outcome()?.status {
            Status::Completed => true,
            Status::Failed(failures) => !failures.iter().any(ends_the_call),
            Status::Untestable { .. } => false,
        })
    }

    /// Whether a fault ended the call: a checked replay may tell its line, and what was wrong before it.
    fn faults(&self) -> Result<bool, ReplayError> {
        let Status::Failed(failures) = &self.outcome()?.status else { return Ok(false) };
        Ok(failures.iter().any(|failure| matches!(failure, Failure::Fault { .. })))
    }

    fn conclude_check(
        &self,
        mut run: Run,
        plain_variant: &dyn Variant,
    ) -> Result<CheckedReplay, ReplayError> {
        let AccessFindings { found: mut findings, left_out, .. } =
            std::mem::take(&mut run.findings);
        // Lanes with a source outside of the shuffle have got something else than in a plain replay.
        let is_unused = findings.iter().any(is_of_undefined_lane)
            && run.gives_the_bits_of(&plain_variant.for_noise().run(&Mode::plain(POISON_A))?);
        for finding in &mut findings {
            // A program knows how its tensors lie in memory.
            if finding.index.is_none() {
                finding.index = find_element_index(self.fixture(), finding);
            }
            if is_unused && is_of_undefined_lane(finding) {
                finding.kind = FoundKind::UnusedLane;
            }
        }
        Ok(CheckedReplay::Done { findings, left_out })
    }
}

/// Whether the call does not return after `failure`.
fn ends_the_call(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Fault { .. }
            | Failure::Exit { .. }
            | Failure::Status { .. }
            | Failure::Outputs { .. }
            | Failure::Killed { .. }
            | Failure::Timeout { .. }
            | Failure::Memory { .. }
    )
}

/// Whether the accesses of `race` are of one block or of two.
fn find_race_scope(race: &AccessFinding) -> RaceScope {
    let is_between_blocks =
        race.first.as_ref().is_some_and(|first| first.block != race.second.block);
    if is_between_blocks { RaceScope::Grid } else { RaceScope::Block }
}

fn is_of_undefined_lane(finding: &AccessFinding) -> bool {
    finding.kind == FoundKind::UndefinedLane
}

/// Measures the processor time of a plain call on the checking machine.
fn measure_call(variant: &dyn Variant) -> Result<Duration, ReplayError> {
    Ok(variant.for_noise().run(&Mode::plain(POISON_A))?.call_cpu)
}

/// The element type of the tensor `name`; none of other memory.
fn find_tensor_dtype(fixture: &Fixture, name: &str) -> Option<DType> {
    let inputs = fixture.inputs.iter().map(|input| (&input.name, input.dtype));
    let outputs = fixture.outputs.iter().map(|output| (&output.name, output.dtype));
    inputs.chain(outputs).find(|(tensor, _)| *tensor == name).map(|(_, dtype)| dtype)
}

/// The element of a tensor behind `finding`; none in other memory, or beside it.
fn find_element_index(fixture: &Fixture, finding: &AccessFinding) -> Option<Vec<usize>> {
    let inputs = fixture.inputs.iter().filter(|input| input.strides.is_none());
    let inputs = inputs.map(|input| (&input.name, input.dtype, input.shape()));
    let outputs = fixture.outputs.iter();
    let outputs = outputs.map(|output| (&output.name, output.dtype, output.shape()));
    let (_, dtype, shape): (_, DType, Vec<usize>) =
        inputs.chain(outputs).find(|(name, ..)| **name == finding.memory)?;
    let linear = usize::try_from(finding.offset).ok()? / dtype.size();
    (linear < shape.iter().product()).then(|| unravel_index(linear, &shape))
}
