//! What one run gave: from a child's account to outputs that can be read.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use memmap2::Mmap;

use super::account::Account;
use super::parent::{WorkerError, system};
use crate::fixture::Fixture;
use crate::runtime::cpu::pages_of;
use crate::runtime::report::{Fault, LaunchRecord, Report};
use crate::summary::Summary;
use crate::tensor::{DType, TensorView};

/// The pages of outputs begin at multiples of this in the shared memory: of every system's page.
const OUTPUT_ALIGNMENT: usize = 64 << 10;

/// How a child ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ending {
    /// The call returned.
    #[default]
    Completed,
    /// It reported what stopped it.
    Fault(Fault),
    /// The code called `exit`.
    Exited(i32),
    /// A signal ended it without a report.
    Killed(i32),
    /// It was still running when its time was over.
    TimedOut(Duration, Option<Fault>),
}

/// One output of a completed run.
#[derive(Clone, Debug)]
pub struct OutputTensor {
    /// Its name.
    pub name: String,
    /// The element type in memory: float64 for floating-point outputs of a shadow.
    pub dtype: DType,
    /// The sizes of the dimensions.
    pub shape: Vec<usize>,
    /// Where its pages begin in the shared memory.
    pages: usize,
    begin: usize,
    bytes: usize,
}

/// What one run gave.
#[derive(Debug, Default)]
pub struct Run {
    /// How it ended.
    pub ending: Ending,
    /// The launches, in order, as far as they were reported.
    pub launches: Vec<LaunchRecord>,
    /// All launches.
    pub launch_count: u64,
    /// What was written outside of allocations.
    pub overruns: Vec<String>,
    /// Summaries of the outputs that stayed on the device.
    pub summaries: Vec<(String, Summary)>,
    /// The launches that had begun when the watched output was last written.
    pub last_write: Option<u64>,
    /// What the module for a GPU lacks; the run means nothing then.
    pub unresolved: Option<String>,
    /// The device's description and class.
    pub device: Option<(String, String)>,
    /// What the code printed.
    pub printed: String,
    /// Time until the inputs lay on the device, from when it was ready.
    pub inputs_time: Duration,
    /// Time spent in the call.
    pub call: Duration,
    /// Time until the outputs were written, or summarised.
    pub outputs_time: Duration,
    outputs: Vec<OutputTensor>,
    memory: Option<Mmap>,
}

impl Run {
    /// The outputs; empty unless the run completed.
    pub fn outputs(&self) -> impl Iterator<Item = (&OutputTensor, TensorView<'_>)> {
        self.outputs.iter().map(|output| (output, self.view(output)))
    }

    /// The output called `name`, if the run completed.
    pub fn output(&self, name: &str) -> Option<TensorView<'_>> {
        self.outputs.iter().find(|output| output.name == name).map(|output| self.view(output))
    }

    /// Whether both completed and wrote the same bytes, in every output.
    pub fn gives_the_bits_of(&self, other: &Run) -> bool {
        let same = |(output, view): (&OutputTensor, TensorView)| {
            other.output(&output.name).is_some_and(|other| other.bytes == view.bytes)
        };
        self.ending == Ending::Completed && other.ending == self.ending && self.outputs().all(same)
    }

    fn view<'a>(&'a self, output: &'a OutputTensor) -> TensorView<'a> {
        let memory: &[u8] = self.memory.as_deref().unwrap_or(&[]);
        TensorView {
            dtype: output.dtype,
            shape: &output.shape,
            bytes: &memory[output.begin..output.begin + output.bytes],
        }
    }
}

/// The dtype that an output has in memory.
fn memory_dtype(dtype: DType, shadow: bool) -> DType {
    if shadow && dtype.is_float() { DType::F64 } else { dtype }
}

/// Where each output lies in the shared memory, and how large that is.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub outputs: Vec<OutputTensor>,
    /// Bytes of all of them, with their pages.
    pub bytes: usize,
}

impl Layout {
    /// The outputs of `fixture`, of its float64 shadow if `shadow`.
    pub(super) fn of(fixture: &Fixture, shadow: bool) -> Layout {
        let mut bytes = 0usize;
        let outputs = fixture
            .outputs
            .iter()
            .map(|output| {
                let dtype = memory_dtype(output.dtype, shadow);
                let size = output.bytes() / output.dtype.size() * dtype.size();
                let pages = bytes.next_multiple_of(OUTPUT_ALIGNMENT);
                let (body, offset) = pages_of(size);
                bytes = pages + body;
                let (name, shape) = (output.name.clone(), output.shape());
                OutputTensor { name, dtype, shape, pages, begin: pages + offset, bytes: size }
            })
            .collect();
        Layout { outputs, bytes }
    }
}

impl OutputTensor {
    /// Where its pages begin in the shared memory: as those of an allocation of the CPU's.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.begin..self.begin + self.bytes
    }
}

/// What the outputs of a run are, and the memory that it leaves them in.
pub(super) struct Expected {
    pub layout: Layout,
    pub memory: File,
}

/// The run that a child's account tells of, which ended with `status`.
pub(super) fn finish(
    account: Account,
    status: ExitStatus,
    expected: Expected,
    timeout: Duration,
) -> Result<Run, WorkerError> {
    let Expected { layout: Layout { outputs, bytes }, memory } = expected;
    let mut run = Run { printed: account.printed, ..Run::default() };
    let mut done = false;
    let mut fault = None;
    for report in account.reports {
        match report {
            Report::Launch(launch) => {
                // A launch that was refused after all is reported a second time, with the reason.
                if launch.error.is_some()
                    && run.launches.last().is_some_and(|last| {
                        LaunchRecord { error: launch.error.clone(), ..last.clone() } == launch
                    })
                {
                    run.launches.pop();
                }
                run.launches.push(launch);
            }
            Report::Fault(found) => fault = fault.or(Some(found)),
            Report::Summary { output, summary } => run.summaries.push((output, *summary)),
            Report::Overrun { detail } => run.overruns.push(detail),
            Report::Device { description, class } => run.device = Some((description, class)),
            Report::Unresolved { expression } => run.unresolved = Some(expression),
            Report::Refused { message, hint } => {
                return Err(WorkerError::Refused { message, hint });
            }
            Report::Done { launches, last_write, inputs_us, call_us, outputs_us } => {
                done = true;
                run.last_write = last_write;
                run.launch_count = launches;
                run.inputs_time = Duration::from_micros(inputs_us);
                run.outputs_time = Duration::from_micros(outputs_us);
                run.call = Duration::from_micros(call_us);
            }
        }
    }
    run.launch_count = run.launch_count.max(run.launches.len() as u64);
    run.ending = match fault {
        _ if account.timed_out => Ending::TimedOut(timeout, fault),
        Some(fault) => Ending::Fault(fault),
        None if done && status.success() => Ending::Completed,
        None => match status.signal() {
            Some(signal) => Ending::Killed(signal),
            None => Ending::Exited(status.code().unwrap_or_default()),
        },
    };
    if run.ending == Ending::Completed && bytes > 0 {
        // SAFETY: the only other process that had the memory has ended.
        let map = unsafe { Mmap::map(&memory) }.map_err(system("map the outputs"))?;
        run.memory = Some(map);
    }
    if run.ending == Ending::Completed {
        let summarised = |output: &OutputTensor| {
            run.summaries.iter().any(|(summarised, _)| *summarised == output.name)
        };
        run.outputs = outputs.into_iter().filter(|output| !summarised(output)).collect();
    }
    Ok(run)
}
