//! The result of one run: turns a child's account into readable outputs.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::error::{WorkerError, system_error};
use super::inputs::Common;
use super::memory::{self, OutputMemory, RunOutputs, Spares};
use super::refusal::{advise_on_refused_calls, tells_of_refusal};
use super::{CallPart, Job, JobCalls};
use replay_base::process;
use replay_base::process::memory::MemoryExcess;
use replay_base::process::tracer::RefusedCall;
use replay_base::process::tree::End;
use replay_base::summary::Summary;
use replay_base::tensor::{DType, TensorView};
use replay_fixture::fixture::{Fixture, Input, Output};
use replay_runtime::cpu::pages_of;
use replay_runtime::report::{AccessFindings, ChildReport, LaunchRecord, ReplayFault};

/// Lines of [`Run::printed`] with this beginning are a program's notes on a replay.
pub(crate) const NOTE: &str = "note: ";
/// The pages of tensors begin at multiples of this in the shared memory: of every system's page.
pub(super) const ALIGNMENT: usize = 64 << 10;

/// How a child ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ending {
    /// The call returned.
    #[default]
    Completed,
    /// A fault stopped it, and it reported the fault.
    Fault(ReplayFault),
    /// The code called `exit`.
    Exited(i32),
    /// A program of its own ended with this status.
    Status(i32),
    /// A signal ended it without a report.
    Killed(i32),
    /// It was still running when its time was over.
    TimedOut(Duration, Option<ReplayFault>),
    /// A program and the processes below it took more memory than they may have.
    TookMemory(MemoryExcess),
    /// Its outputs are not those of the harness; the difference, in words.
    Unfit(String),
    /// The program could not run the revision in this mode; why, in a line.
    Unable(String),
}

/// An output that is not in the requested wider format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrow {
    pub output: String,
    /// Why not, in words.
    pub reason: String,
}

/// An output that is not as the harness has it: missing, of another dtype or shape, or not declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitOutput {
    pub output: String,
    /// In words.
    pub problem: String,
}

impl UnfitOutput {
    /// The problems of all of `unfit`.
    pub fn join_problems(unfit: &[UnfitOutput]) -> String {
        unfit.iter().map(|one| one.problem.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// One output of a completed run.
#[derive(Clone, Debug)]
pub struct OutputTensor {
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

/// The result of one run.
#[derive(Debug, Default)]
pub struct Run {
    /// How it ended.
    pub ending: Ending,
    /// The reported launches, in order.
    pub launches: Vec<LaunchRecord>,
    pub launch_count: u64,
    /// Descriptions of writes outside of allocations.
    pub overruns: Vec<String>,
    /// The findings of a checked replay.
    pub findings: AccessFindings,
    /// Summaries of the outputs left on the device.
    pub summaries: Vec<(String, Summary)>,
    /// The number of begun launches at the last write to the watched output.
    pub last_write: Option<u64>,
    /// An expression missing in the GPU's module. The rest of the run then means nothing.
    pub unresolved: Option<String>,
    /// The outputs missing in a wide computation, each with the reason.
    pub narrow: Vec<Narrow>,
    /// The outputs that are not as the harness has them; it has those that are.
    pub unfit: Vec<UnfitOutput>,
    /// The device's description and class.
    pub device: Option<(String, String)>,
    /// Whether memory did not hold the requested poison.
    pub is_unpoisoned: bool,
    /// Whether unwritten elements of its outputs do not show.
    pub is_unwritten_unknown: bool,
    /// Whether it rounded other numbers to integers than those of the record.
    pub has_other_roundings: bool,
    /// Whether a program's process had made others of its series before.
    pub continues_series: bool,
    /// Whether a program could run a grid in the wanted order.
    pub is_ordered: bool,
    /// The flags of frameworks and the variables that a program had, as far as it has told them.
    pub settings: BTreeMap<String, String>,
    /// The text printed by the code.
    pub printed: String,
    /// Time until the inputs lay on the device, from when it was ready.
    pub inputs_time: Duration,
    /// Time spent in the call.
    pub call: Duration,
    /// Processor time of the call, on all cores.
    pub call_cpu: Duration,
    /// Time until the outputs were written, or summarised.
    pub outputs_time: Duration,
    outputs: Vec<OutputTensor>,
    memory: Option<RunOutputs>,
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

    /// Why output `name` was not computed in the requested wider format, if it is known.
    pub fn why_narrow(&self, name: &str) -> Option<&str> {
        let narrow = self.narrow.iter().map(|narrow| (&narrow.output, &narrow.reason));
        let unfit = self.unfit.iter().map(|unfit| (&unfit.output, &unfit.problem));
        let found = narrow.chain(unfit).find(|(output, _)| *output == name);
        found.map(|(_, reason)| reason.as_str())
    }

    /// Bytes of all outputs.
    pub fn output_bytes(&self) -> usize {
        self.outputs.iter().map(|output| output.bytes).sum()
    }

    /// Whether both completed and wrote the same bytes, in every output.
    pub fn gives_the_bits_of(&self, other: &Run) -> bool {
        self.ending == Ending::Completed
            && other.ending == self.ending
            && self.outputs().all(|(output, view)| {
                other.output(&output.name).is_some_and(|other_view| other_view.bytes == view.bytes)
            })
    }

    /// A run with this ending and without outputs.
    pub(crate) fn without_outputs(ending: Ending) -> Run {
        Run { ending, ..Run::default() }
    }

    /// A completed run whose outputs lie in `bytes`, each with name, element type, shape and place.
    /// Floats that are narrower become `wide_dtype`. Large outputs are copied to a file in `folder`.
    pub(crate) fn of_bytes(
        bytes: &[u8],
        tensors: impl Iterator<Item = (String, DType, Vec<usize>, std::ops::Range<usize>)>,
        wide_dtype: Option<DType>,
        folder: &Path,
    ) -> Result<Run, WorkerError> {
        let mut outputs = Vec::new();
        let mut packed = Vec::new();
        for (name, stored_dtype, shape, range) in tensors {
            let dtype = wide_dtype
                .filter(|candidate| {
                    stored_dtype.is_float() && stored_dtype.size() < candidate.size()
                })
                .unwrap_or(stored_dtype);
            let begin = packed.len();
            let view = TensorView { dtype: stored_dtype, shape: &shape, bytes: &bytes[range] };
            match dtype == stored_dtype {
                true => packed.extend_from_slice(view.bytes),
                false if dtype == DType::F32 => packed.extend(
                    (0..view.len()).flat_map(|index| (view.get_f64(index) as f32).to_le_bytes()),
                ),
                false => packed
                    .extend((0..view.len()).flat_map(|index| view.get_f64(index).to_le_bytes())),
            }
            let bytes = packed.len() - begin;
            packed.resize(packed.len().next_multiple_of(DType::F64.size()), 0);
            outputs.push(OutputTensor { name, dtype, shape, pages: begin, begin, bytes });
        }
        let memory = OutputMemory::new(packed.len(), folder)?;
        memory.file().write_all(&packed).map_err(system_error("keep the outputs"))?;
        // SAFETY: nobody else has it.
        let memory = Some(unsafe { RunOutputs::open(memory, &Arc::default(), true) }?);
        Ok(Run { outputs, memory, ..Run::default() })
    }

    /// Takes the outputs back, because of `problem`.
    pub(crate) fn refuse(&mut self, problem: String) {
        self.outputs.clear();
        self.ending = match std::mem::take(&mut self.ending) {
            Ending::Completed | Ending::Unfit(_) => Ending::Unfit(problem),
            ending => ending,
        };
    }

    fn view<'a>(&'a self, output: &'a OutputTensor) -> TensorView<'a> {
        let memory = self.memory.as_ref().map_or(&[][..], RunOutputs::bytes);
        TensorView {
            dtype: output.dtype,
            shape: &output.shape,
            bytes: &memory[output.begin..output.begin + output.bytes],
        }
    }
}

/// The dtype of an output in memory.
fn memory_dtype(dtype: DType, shadow: bool) -> DType {
    if shadow && dtype.is_float() { DType::F64 } else { dtype }
}

/// The places of tensors in two shared memories, one for outputs and one for inputs, and their sizes.
#[derive(Clone, Debug)]
pub(super) struct SharedLayout {
    pub outputs: Vec<OutputTensor>,
    /// Bytes of the outputs, with their pages.
    pub bytes: usize,
    /// Inputs by name, with the offsets of their pages.
    pub inputs: Vec<(String, usize)>,
    /// Bytes of the inputs, with their pages.
    pub input_bytes: usize,
}

/// The tensors of a fixture, as far as shared memory is concerned.
#[derive(Clone, Debug)]
pub(super) struct DeclaredTensors {
    /// The large inputs in shared memory, with their sizes in bytes.
    inputs: Vec<(String, usize)>,
    outputs: Vec<Output>,
    shadow: bool,
    /// How often an output is written, one after the other, if it is the only one in the report.
    times: usize,
    /// Whether outputs are the deviations of floats.
    deviations: bool,
}

impl DeclaredTensors {
    /// The tensors of `fixture` as `job` has them, without the `common` inputs: they lie elsewhere. A GPU's
    /// inputs lie on the GPU alone.
    pub(super) fn from_fixture(fixture: &Fixture, job: &Job, common: &Common) -> DeclaredTensors {
        let inputs = fixture.inputs.iter().filter(|input| {
            let is_own = common.place(&input.name).is_none();
            input.present && !input.dims.is_empty() && !job.device.is_gpu() && is_own
        });
        let inputs = inputs.map(|input| (input.name.clone(), bytes_of(input, job.is_shadow())));
        let inputs = inputs.filter(|(_, bytes)| *bytes >= memory::REUSED).collect();
        let outputs = fixture.outputs.clone();
        let times = match &job.calls {
            JobCalls::AtSteps(steps) => steps.len().max(1),
            JobCalls::Once | JobCalls::InEachRounding { .. } => 1,
        };
        let shadow = job.is_shadow();
        let deviations = matches!(job.calls, JobCalls::InEachRounding { .. });
        let declared_tensors = DeclaredTensors { inputs, outputs, shadow, times, deviations };
        // Shared memory is a file to this limit.
        if declared_tensors.layout(&CallPart::Whole).input_bytes as u64 <= process::file_limit() {
            declared_tensors
        } else {
            DeclaredTensors { inputs: Vec::new(), ..declared_tensors }
        }
    }

    /// Those outputs alone.
    pub(super) fn outputs(outputs: Vec<Output>) -> DeclaredTensors {
        let shadow = false;
        let deviations = false;
        DeclaredTensors { inputs: Vec::new(), outputs, shadow, times: 1, deviations }
    }

    /// The places of the reported ones in a replay of `part` of the call.
    pub(super) fn layout(&self, part: &CallPart) -> SharedLayout {
        let mut bytes = 0usize;
        let mut input_bytes = 0usize;
        let times = if matches!(part, CallPart::Told(_)) { self.times } else { 1 };
        let outputs = self.outputs.iter().filter(|output| part.tells_of(&output.name));
        let outputs = outputs.filter(|output| !self.deviations || output.dtype.is_float());
        let outputs = outputs.flat_map(|output| std::iter::repeat_n(output, times));
        let outputs = outputs.map(|output| {
            let dtype = match self.deviations {
                true if output.dtype != DType::F64 => DType::F32,
                _ => memory_dtype(output.dtype, self.shadow),
            };
            let size = output.bytes() / output.dtype.size() * dtype.size();
            let (pages, begin) = append_tensor(&mut bytes, size);
            let name = output.name.clone();
            let shape = output.shape();
            OutputTensor { name, dtype, shape, pages, begin, bytes: size }
        });
        let outputs = outputs.collect();
        let inputs = self.inputs.iter();
        let inputs =
            inputs.map(|(name, size)| (name.clone(), append_tensor(&mut input_bytes, *size).0));
        let inputs = inputs.collect();
        SharedLayout { outputs, bytes, inputs, input_bytes }
    }
}

/// Appends a tensor of `size` bytes to a shared memory of so many `bytes`. Returns where its pages begin, and the tensor.
fn append_tensor(bytes: &mut usize, size: usize) -> (usize, usize) {
    let pages = bytes.next_multiple_of(ALIGNMENT);
    let (body, offset) = pages_of(size);
    *bytes = pages + body;
    (pages, pages + offset)
}

/// The bytes of all inputs of `fixture` in a replay, and of all outputs; in float64 if `shadow`.
pub(crate) fn tensor_bytes(fixture: &Fixture, shadow: bool) -> (u64, u64) {
    let inputs = fixture.inputs.iter().filter(|input| input.present);
    let inputs = inputs.map(|input| bytes_of(input, shadow) as u64);
    // Nothing has been made of the outputs yet, so they may be larger than any memory.
    let outputs = fixture.outputs.iter().map(|output| {
        let elements = (output.bytes() / output.dtype.size()) as u64;
        elements.saturating_mul(memory_dtype(output.dtype, shadow).size() as u64)
    });
    (inputs.fold(0, u64::saturating_add), outputs.fold(0, u64::saturating_add))
}

/// The bytes of `input` in a replay.
pub(super) fn bytes_of(input: &Input, shadow: bool) -> usize {
    memory_dtype(input.dtype, shadow).size() * input.storage_elements()
}

impl SharedLayout {
    /// The offset behind the outputs, for further data to the child.
    pub(super) fn end(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }
}

impl OutputTensor {
    /// The offset of its pages in the shared memory, laid out like an allocation of the CPU's.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.begin..self.begin + self.bytes
    }
}

/// The record of an ended child.
pub(super) struct Account {
    /// The entries of its journal.
    pub entries: Vec<Vec<u8>>,
    /// Whether it was ready for replayed code.
    pub has_begun: bool,
    pub printed: String,
    pub end: End,
    /// The time limit, if the child exceeded it.
    pub timed_out: Option<Duration>,
    /// Whether another program was started for it.
    pub is_wrapped: bool,
}

/// The child's own reports of how it ended.
#[derive(Default)]
struct EndReports {
    done: bool,
    fault: Option<ReplayFault>,
    raised: Option<i32>,
    /// The outputs written beside their summaries.
    fetched: Vec<String>,
}

/// Makes a run from a child's account and the outputs in `memory`, by their `layout`. `spares` may keep the memory for
/// another replay.
pub(super) fn finish_run(
    account: Account,
    layout: &SharedLayout,
    memory: OutputMemory,
    spares: &Arc<Spares>,
) -> Result<Run, WorkerError> {
    let mut run = Run { printed: account.printed, ..Run::default() };
    let mut reported_facts = EndReports::default();
    for entry in &account.entries {
        // A truncated entry is the last of a child whose report did not fit.
        match serde_json::from_slice(entry) {
            // By whoever it was sent: its time was over.
            Ok(ChildReport::Outside { .. }) if account.timed_out.is_some() => {}
            Ok(report) => run.add_report(report, &mut reported_facts)?,
            Err(_) => {}
        }
    }
    run.launch_count = run.launch_count.max(run.launches.len() as u64);
    let fetched = std::mem::take(&mut reported_facts.fetched);
    run.ending = match (account.timed_out, account.end) {
        (Some(timeout), _) => Ending::TimedOut(timeout, reported_facts.fault),
        (None, end) => {
            classify_ending(reported_facts, end, account.has_begun || account.is_wrapped)?
        }
    };
    if run.ending == Ending::Completed {
        run.outputs = layout
            .outputs
            .iter()
            .filter(|output| {
                fetched.contains(&output.name)
                    || !run.summaries.iter().any(|(summarised, _)| *summarised == output.name)
            })
            .cloned()
            .collect();
        // The system would make unwritten pages only to read zeros from them.
        let is_whole = run.outputs.len() == layout.outputs.len();
        // SAFETY: every process that could write to the memory has ended.
        run.memory = Some(unsafe { RunOutputs::open(memory, spares, is_whole) }?);
    }
    Ok(run)
}

/// How a replay ended within its time.
fn classify_ending(
    reported_facts: EndReports,
    end: End,
    has_begun: bool,
) -> Result<Ending, WorkerError> {
    Ok(match (reported_facts, end) {
        (EndReports { fault: Some(fault), .. }, _) => Ending::Fault(fault),
        (EndReports { raised: Some(signal), .. }, _) => Ending::Killed(signal),
        // The code would have been seen to send it.
        (_, End::Killed(libc::SIGKILL)) => {
            let memory_ran_out = false;
            return Err(WorkerError::KilledFromOutside { signal: libc::SIGKILL, memory_ran_out });
        }
        (_, end) if !has_begun => {
            let how = match end {
                End::Exited(status) => format!("exit status {status}"),
                End::Killed(signal) => format!("signal {signal}"),
            };
            return Err(WorkerError::Unready { how });
        }
        (EndReports { done: true, .. }, End::Exited(0)) => Ending::Completed,
        (_, End::Exited(status)) => Ending::Exited(status),
        (_, End::Killed(signal)) => Ending::Killed(signal),
    })
}

impl Run {
    /// Whether it failed by itself, and printed that something was refused.
    pub(crate) fn tells_of_refusal(&self) -> bool {
        self.ending != Ending::Completed && tells_of_refusal(&self.printed)
    }

    /// Adds a note on `calls`, refused to it by walls.
    pub(crate) fn note_refusal(&mut self, calls: &[RefusedCall]) {
        if !self.printed.ends_with('\n') {
            self.printed.push('\n');
        }
        self.printed.push_str(&format!("{NOTE}{}\n", advise_on_refused_calls(calls)));
    }

    /// Adds `report` to the run.
    fn add_report(
        &mut self,
        report: ChildReport,
        reported_facts: &mut EndReports,
    ) -> Result<(), WorkerError> {
        match report {
            ChildReport::Launch(launch) => {
                // A launch can be refused after its report. A second report then has the reason.
                if launch.error.is_some()
                    && self.launches.last().is_some_and(|last| {
                        LaunchRecord { error: launch.error.clone(), ..last.clone() } == launch
                    })
                {
                    self.launches.pop();
                }
                self.launches.push(launch);
            }
            ChildReport::Fault(new_fault) => {
                reported_facts.fault = reported_facts.fault.take().or(Some(new_fault))
            }
            ChildReport::Summary { output, summary, is_fetched } => {
                reported_facts.fetched.extend(is_fetched.then(|| output.clone()));
                self.summaries.push((output, *summary));
            }
            ChildReport::Overrun { detail } => self.overruns.push(detail),
            ChildReport::Found(findings) => self.findings = findings,
            ChildReport::OtherRoundings => self.has_other_roundings = true,
            ChildReport::Device { description, class } => self.device = Some((description, class)),
            ChildReport::Raised { signal } => reported_facts.raised = Some(signal),
            ChildReport::Outside { signal } => {
                return Err(WorkerError::KilledFromOutside { signal, memory_ran_out: false });
            }
            ChildReport::Unresolved { expression } => self.unresolved = Some(expression),
            ChildReport::Refused { message, hint } => {
                return Err(WorkerError::Refused { message, hint });
            }
            ChildReport::Done { launches, last_write, inputs_us, call_us, cpu_us, outputs_us } => {
                reported_facts.done = true;
                self.last_write = last_write;
                self.launch_count = launches;
                self.inputs_time = Duration::from_micros(inputs_us);
                self.outputs_time = Duration::from_micros(outputs_us);
                self.call = Duration::from_micros(call_us);
                self.call_cpu = Duration::from_micros(cpu_us);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reports: &[ChildReport], end: End, has_begun: bool) -> String {
        let entries = reports.iter().map(|report| serde_json::to_vec(report).unwrap()).collect();
        let account = Account {
            entries,
            has_begun,
            printed: String::new(),
            end,
            timed_out: None,
            is_wrapped: false,
        };
        let layout = DeclaredTensors::outputs(Vec::new()).layout(&CallPart::Whole);
        let memory = OutputMemory::new(0, Path::new("/nonexistent")).unwrap();
        match finish_run(account, &layout, memory, &Arc::default()) {
            Ok(run) => format!("{:?}", run.ending),
            Err(error) => error.to_string(),
        }
    }

    fn done() -> ChildReport {
        let launches = 0;
        let last_write = None;
        ChildReport::Done {
            launches,
            last_write,
            inputs_us: 0,
            call_us: 0,
            cpu_us: 0,
            outputs_us: 0,
        }
    }

    #[test]
    fn only_what_the_code_did_by_itself_is_a_run() {
        let begun = |reports: &[ChildReport], end| told(reports, end, true);
        assert_eq!(begun(&[done()], End::Exited(0)), "Completed");
        assert_eq!(begun(&[], End::Exited(0)), "Exited(0)");
        assert_eq!(begun(&[done()], End::Exited(3)), "Exited(3)");
        assert_eq!(begun(&[], End::Killed(11)), "Killed(11)");
        let raised = ChildReport::Raised { signal: 9 };
        assert_eq!(begun(&[raised], End::Exited(77)), "Killed(9)");
        let outside = "the replay was killed from outside (signal 9)";
        assert_eq!(begun(&[], End::Killed(9)), outside);
        assert_eq!(begun(&[done()], End::Killed(9)), outside);
        assert_eq!(told(&[], End::Killed(9), false), outside);
        assert_eq!(
            begun(&[ChildReport::Outside { signal: 15 }], End::Exited(77)),
            "the replay was killed from outside (signal 15)"
        );
        let unready = "the process for the replay ended before it was ready";
        assert_eq!(told(&[], End::Exited(1), false), format!("{unready} (exit status 1)"));
        assert_eq!(told(&[], End::Killed(6), false), format!("{unready} (signal 6)"));
        let refused = ChildReport::Refused { message: "no threads".into(), hint: None };
        assert_eq!(begun(&[refused], End::Exited(77)), "no threads");
    }
}
