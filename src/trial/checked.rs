//! The checked replay: one run of a build that tells of every access to memory, and what it found.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, Status, Trial};
use crate::backend::{Mode, ReplayError, Variant};
use crate::cache::Kind;
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::runtime::report::{DEVICE_ACCESS, Findings, Found, FoundKind, HOST_ACCESS};
use crate::summary::POISON_A;
use crate::tensor::{DType, unravel};
use crate::worker::{Ending, Run};

/// When accesses to memory are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Where the call of a plain run takes no more processor time than [`Check::AUTO`].
    Auto,
    /// However long it takes, up to the limit of time.
    Always,
    Off,
}

impl Check {
    /// After so long a call a checked one takes a second or two.
    pub const AUTO: Duration = Duration::from_millis(100);

    /// What a checked run of `trial` finds, if there is to be one and the call returns.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn of(self, trial: &Trial) -> Result<Option<Checked>, ReplayError> {
        let most = match self {
            Check::Off => return Ok(None),
            Check::Auto => Some(Check::AUTO),
            Check::Always => None,
        };
        let ends = trial.comes_to_its_end()?;
        if !ends && !trial.crosses()? {
            return Ok(None);
        }
        let checked = trial.checked(most)?;
        Ok(Some(checked.clone()).filter(|checked| ends || !checked.findings().is_empty()))
    }
}

/// What a checked replay found, or why there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// It was made.
    Done {
        /// What is wrong, and habits that look so; in the order in which it showed.
        findings: Vec<Found>,
        /// Findings beyond those.
        left_out: u64,
    },
    /// It was not made.
    Not { reason: String },
}

impl Checked {
    /// What was found.
    pub fn findings(&self) -> &[Found] {
        match self {
            Checked::Done { findings, .. } => findings,
            Checked::Not { .. } => &[],
        }
    }

    fn not(reason: impl Into<String>) -> Checked {
        Checked::Not { reason: reason.into() }
    }
}

/// What findings are remembered as.
const CHECKED: &str = "checked";
/// What the processor time of a plain call is remembered as.
const CALL_TIME: &str = "processor time of the call";

impl Trial {
    pub(super) fn check_accesses(&self, most: Option<Duration>) -> Result<Checked, ReplayError> {
        let Some(variant) = self.variant()? else {
            return Ok(Checked::not("the sources cannot be run"));
        };
        if !self.comes_to_its_end()? && !self.crosses()? {
            return Ok(Checked::not("the replay does not run to its end"));
        }
        let key = self.key_of(CHECKED)?;
        if let Some(known) = self.lab.recall(Kind::Judgement, &key) {
            return Ok(known);
        }
        if let Some(most) = most {
            let call = self.remembered_call(variant)?;
            if call > most {
                let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
                return Ok(Checked::not(format!(
                    "the call takes {:.0} ms of processor time, more than {:.0} ms",
                    milliseconds(call),
                    milliseconds(most)
                )));
            }
        }
        let checked = match self.prepare(Precision::Checked, &|| ())? {
            Ok(checked) if checked.abilities().check => checked,
            Ok(_) => return Ok(Checked::not("the backend cannot")),
            Err(refusal) => {
                let why = refusal.first_error.unwrap_or(refusal.reason);
                return Ok(Checked::not(format!("the checked build does not compile: {why}")));
            }
        };
        let _span = tracing::info_span!("check", message = self.fixture().name);
        let run = checked.run(&Mode::plain(POISON_A))?;
        // What there is of memory is no property of the code, and not remembered.
        if let Some(bytes) = run.findings.refused {
            return Ok(Checked::not(format!(
                "a check takes {} MiB of device memory, more than --memory allows",
                bytes.div_ceil(1 << 20)
            )));
        }
        let found = match run.ending {
            Ending::Completed => self.found(run, variant)?,
            // What was found before is so all the same.
            Ending::Fault(..) if !run.findings.found.is_empty() => self.found(run, variant)?,
            Ending::TimedOut(..) => return Ok(Checked::not("the checked replay was out of time")),
            _ => Checked::not("the checked replay does not run to its end"),
        };
        self.lab.keep_judgement(&key, &found)?;
        Ok(found)
    }

    /// The processor time of a plain call as it was measured first, so that whether accesses are checked
    /// depends on the machine's load once at most.
    fn remembered_call(&self, variant: &dyn Variant) -> Result<Duration, ReplayError> {
        let key = self.key_of(CALL_TIME)?;
        if let Some(known) = self.lab.recall(Kind::Judgement, &key) {
            return Ok(known);
        }
        let call = *self.call.get(|| measure_call(variant))?;
        self.lab.keep_judgement(&key, &call)?;
        Ok(call)
    }

    /// Whether the sources can be run and the call returns.
    fn comes_to_its_end(&self) -> Result<bool, ReplayError> {
        let ends = |failure: &Failure| {
            !matches!(
                failure,
                Failure::Fault { .. }
                    | Failure::Exit { .. }
                    | Failure::Status { .. }
                    | Failure::Outputs { .. }
                    | Failure::Killed { .. }
                    | Failure::Timeout { .. }
                    | Failure::Memory { .. }
            )
        };
        Ok(match &self.outcome()?.status {
            Status::Completed => true,
            Status::Failed(failures) => failures.iter().all(ends),
            Status::Untestable { .. } => false,
        })
    }

    /// Whether what ended the call is an access of one side to the memory of the other, whose line a checked
    /// replay tells.
    fn crosses(&self) -> Result<bool, ReplayError> {
        let crosses = |failure: &Failure| {
            let Failure::Fault { fault } = failure else { return false };
            [HOST_ACCESS, DEVICE_ACCESS].contains(&fault.what.as_str())
        };
        let status = &self.outcome()?.status;
        Ok(matches!(status, Status::Failed(failures) if failures.iter().any(crosses)))
    }

    fn found(&self, mut run: Run, plain: &dyn Variant) -> Result<Checked, ReplayError> {
        let Findings { found: mut findings, left_out, .. } = std::mem::take(&mut run.findings);
        let is_stray = |found: &Found| found.kind == FoundKind::UndefinedLane;
        // Lanes that read one which takes no part have got something else than in a plain replay.
        let is_unused = findings.iter().any(is_stray)
            && run.gives_the_bits_of(&plain.for_noise().run(&Mode::plain(POISON_A))?);
        for found in &mut findings {
            found.index = element(self.fixture(), found);
            if is_unused && is_stray(found) {
                found.kind = FoundKind::UnusedLane;
            }
        }
        Ok(Checked::Done { findings, left_out })
    }
}

/// Measures the processor time that a plain call takes on the machine that checks.
fn measure_call(variant: &dyn Variant) -> Result<Duration, ReplayError> {
    Ok(variant.for_noise().run(&Mode::plain(POISON_A))?.call_cpu)
}

/// The element of a tensor that `found` is about; none in other memory, or beside it.
fn element(fixture: &Fixture, found: &Found) -> Option<Vec<usize>> {
    let inputs = fixture.inputs.iter().filter(|input| input.strides.is_none());
    let inputs = inputs.map(|input| (&input.name, input.dtype, input.shape()));
    let outputs = fixture.outputs.iter();
    let outputs = outputs.map(|output| (&output.name, output.dtype, output.shape()));
    let (_, dtype, shape): (_, DType, Vec<usize>) =
        inputs.chain(outputs).find(|(name, ..)| **name == found.memory)?;
    let linear = usize::try_from(found.offset).ok()? / dtype.size();
    (linear < shape.iter().product()).then(|| unravel(linear, &shape))
}
