//! The work of the child: loads artifact and fixture, makes the call on its tensors, writes the outputs.
#![allow(unsafe_code)]

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::inputs::Common;
use super::run::{DeclaredTensors, OutputTensor};
use super::tensors::{CallTensors, TensorFiles, lay_out_tensors};
use super::{CallPart, DeviceJob, Job, JobCalls};
use super::{deviations, evaluations};
use replay_base::process::seccomp_filter::FileStates;
use replay_base::process::walls::{Connections, WALLS_HINT, Walls};
use replay_base::process::{Pid, seccomp_filter};
use replay_base::summary::Poison;
use replay_cuda::CudaError;
use replay_cuda::sanitizer::Tool;
use replay_fixture::fixture::{Fixture, FixtureError};
use replay_frontend::Precision;
use replay_runtime::artifact::{LoadError, LoadedArtifact};
use replay_runtime::cpu::{CpuDevice, CpuSettings, Rounding, roundings};
use replay_runtime::gpu::{self, Gpu, StartError};
use replay_runtime::report::{AccessFindings, ChildReport, Reporter};
use replay_runtime::{Runtime, api};

/// Why the call cannot be made. The parent shows it to the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Gpu(#[from] StartError),
    #[error("no device memory for {tensor} ({bytes} bytes): {error}")]
    Memory { tensor: String, bytes: usize, error: CudaError },
    #[error("cannot copy {tensor}: {error}")]
    Copy { tensor: String, error: CudaError },
    #[error("deviations cannot be measured on the device: {0}")]
    Deviations(String),
    #[error("cannot map the outputs: {0}")]
    Map(std::io::Error),
    #[error("cannot keep the record of roundings: {0}")]
    Record(std::io::Error),
    #[error("cannot put replayed code behind walls: {0}")]
    Walls(std::io::Error),
}

/// The error of copying the elements of `tensor`.
pub(super) fn copy_error(tensor: &str) -> impl FnOnce(CudaError) -> ChildError {
    |error| ChildError::Copy { tensor: tensor.to_owned(), error }
}

/// The resources of a replay.
pub(super) struct ReplayResources<'a> {
    /// Where outputs are written.
    pub outputs: File,
    /// Where this replay lays out large inputs of its own.
    pub own_inputs: Option<File>,
    /// Holds the inputs common to several replays, if there are any.
    pub inputs: Option<File>,
    /// The record of roundings, where the job has one.
    pub record: Option<File>,
    /// Processes out of reach of replayed code. Empty if they are so already.
    pub above: &'a [Pid],
    /// The walls to raise before replayed code is loaded.
    pub walls: Option<Walls>,
    /// The way back.
    pub reporter: &'static Reporter,
}

/// Makes the replay of `job`, with artifact and fixture from `loaded` if they are there. Tells the
/// parent if it is refused. Returns the process's exit status.
pub(super) fn run_replay_job(
    job: &Job,
    loaded: Option<(&Fixture, LoadedArtifact)>,
    surroundings: ReplayResources,
) -> i32 {
    let reporter = surroundings.reporter;
    let replayed = match loaded {
        Some((fixture, artifact)) => replay_job(job, fixture, artifact, surroundings),
        None => load_replay_job(job, surroundings.walls.as_ref())
            .and_then(|(fixture, artifact)| replay_job(job, &fixture, artifact, surroundings)),
    };
    match replayed {
        Ok(()) => 0,
        Err(error) => {
            send_refusal(reporter, &error);
            1
        }
    }
}

fn load_replay_job(
    job: &Job,
    walls: Option<&Walls>,
) -> Result<(Fixture, LoadedArtifact), ChildError> {
    let fixture = Fixture::load_trusted_with(&job.fixture, job.elements)?;
    walls.map_or(Ok(()), Walls::enter).map_err(ChildError::Walls)?;
    Ok((fixture, LoadedArtifact::load(&job.artifact)?))
}

fn send_refusal(reporter: &Reporter, error: &ChildError) {
    let hint = match error {
        ChildError::Fixture(error) => error.hint(),
        ChildError::Gpu(error) => error.hint(),
        ChildError::Memory { .. } => Some("raise --memory, or use a smaller fixture".into()),
        ChildError::Walls(_) => Some(WALLS_HINT.to_owned()),
        ChildError::Map(_) => Some("free memory, or use a smaller fixture".into()),
        _ => None,
    };
    reporter.send(&ChildReport::Refused { message: error.to_string(), hint });
}

/// Runs `job`, whose artifact and fixture were loaded, in this process.
fn replay_job(
    job: &Job,
    fixture: &Fixture,
    artifact: LoadedArtifact,
    ReplayResources {
        outputs: memory,
        own_inputs,
        inputs: laid_out,
        record,
        above,
        walls,
        reporter,
    }: ReplayResources,
) -> Result<(), ChildError> {
    let runtime = std::thread::scope(|scope| {
        ask_for_pages(job, fixture, &memory, scope);
        start_device(job, artifact, reporter, record.as_ref())
    })?;
    let (description, class) = runtime.device.describe();
    reporter.send(&ChildReport::Device { description, class });
    if !above.is_empty() {
        let connections = walls.map_or(Connections::All, |walls| walls.connections);
        let _ = seccomp_filter::install_seccomp_filter(above, connections, FileStates::Free);
    }

    let started_at = Instant::now();
    match &job.calls {
        JobCalls::Once => {}
        JobCalls::AtSteps(steps) => {
            return evaluations::evaluate_job(job, steps, fixture, &artifact, runtime, memory);
        }
        JobCalls::InEachRounding { jump } => {
            return deviations::measure_job_deviations(
                job, *jump, fixture, &artifact, runtime, memory,
            );
        }
    }
    let files = TensorFiles {
        outputs: &memory,
        own_inputs: own_inputs.as_ref(),
        inputs: laid_out.as_ref(),
    };
    let (tensors, outputs) = lay_out_tensors(job, fixture, &*runtime.device, files)?;
    // Replayed code finds no descriptor to change its size by.
    drop((memory, own_inputs, laid_out));
    let sizes: Vec<i64> = fixture.sizes.values().map(|&size| size as i64).collect();
    let tensors: &'static CallTensors = Box::leak(Box::new(tensors));
    let strides: Vec<*const i64> = tensors.strides.iter().map(|s| s.as_ptr()).collect();
    let inputs_us = elapsed_microseconds(started_at);

    let begun = Instant::now();
    let begun_cpu = process_cpu_time();
    let poison = job.poison;
    let is_fetched = job.device.fetches();
    let end = Closing {
        runtime,
        tensors,
        outputs,
        poison,
        is_fetched,
        inputs_us,
        begun,
        begun_cpu,
        record: record.map(Arc::new),
    };
    if let CallPart::Before { .. } = job.part {
        let end = end.clone();
        replay_runtime::on_early_end(move || {
            if let Err(error) = end.reach() {
                send_refusal(reporter, &error);
            }
        });
    }
    runtime.device.run_host(true);
    if let DeviceJob::Cpu { .. } = job.device {
        replay_runtime::cpu::limit_host_memory(job.memory_limit_bytes);
    }
    replay_runtime::cpu::code_runs();
    // SAFETY: the artifact was compiled for this fixture's signature, in this order.
    unsafe { artifact.call(&tensors.pointers, &sizes, &strides) };
    runtime.device.run_host(false);
    end.reach()
}

/// Asks for the pages of inputs and outputs while a context is made: nothing else happens then. Without a thread for
/// it, pages come on first use.
fn ask_for_pages<'s>(
    job: &'s Job,
    fixture: &'s Fixture,
    memory: &'s File,
    scope: &'s std::thread::Scope<'s, '_>,
) {
    if !matches!(job.device, DeviceJob::Cuda { .. }) {
        return;
    }
    for input in &fixture.inputs {
        let _ = std::thread::Builder::new().spawn_scoped(scope, || input.prefetch());
    }
    if job.device.fetches() && !matches!(job.calls, JobCalls::AtSteps(_)) {
        let bytes =
            DeclaredTensors::from_fixture(fixture, job, &Common::default()).layout(&job.part).bytes;
        let _ = std::thread::Builder::new()
            .spawn_scoped(scope, move || super::memory::populate_memory_file(memory, bytes));
    }
}

/// The most writes out of bounds in a report.
const MOST_OVERRUNS: usize = 64;

/// The work left once the call has returned or was left early.
#[derive(Clone)]
struct Closing {
    runtime: &'static Runtime,
    tensors: &'static CallTensors,
    /// The reported outputs, each with its number among the arguments.
    outputs: Vec<(OutputTensor, usize)>,
    poison: Poison,
    /// Whether summarised outputs are written as well.
    is_fetched: bool,
    inputs_us: u64,
    /// When the call was made.
    begun: Instant,
    /// The processor time at that moment.
    begun_cpu: Duration,
    /// The record of roundings, where the job has one.
    record: Option<Arc<File>>,
}

impl Closing {
    /// Waits for the device, writes the outputs and says so.
    fn reach(&self) -> Result<(), ChildError> {
        let Closing { runtime, inputs_us, ref record, .. } = *self;
        replay_runtime::cpu::lift_host_limit();
        let device = &*runtime.device;
        let reporter = runtime.reporter;
        let synchronized = device.synchronize();
        let call_us = elapsed_microseconds(self.begun);
        let cpu_us = (process_cpu_time() - self.begun_cpu).as_micros() as u64;
        if let Err(error) = synchronized {
            replay_runtime::end_replay("device error", error.to_string(), None);
        }
        if let Some(file) = record {
            roundings::write_roundings(file).map_err(ChildError::Record)?;
        }
        if roundings::met_other_roundings() {
            reporter.send(&ChildReport::OtherRoundings);
        }
        let started_at = Instant::now();
        let last_write = device.last_write();
        for detail in device.overruns().into_iter().take(MOST_OVERRUNS) {
            reporter.send(&ChildReport::Overrun { detail });
        }
        let findings = device.take_access_findings();
        if findings != AccessFindings::default() {
            reporter.send(&ChildReport::Found(findings));
        }
        self.write_outputs()?;
        let launches = reporter.launches();
        let outputs_us = elapsed_microseconds(started_at);
        reporter.send(&ChildReport::Done {
            launches,
            last_write,
            inputs_us,
            call_us,
            cpu_us,
            outputs_us,
        });
        Ok(())
    }

    /// Writes the outputs, unless they lie in the shared memory already or the device summarises them.
    fn write_outputs(&self) -> Result<(), ChildError> {
        let wanted_outputs = self.outputs.iter().filter(|(output, _)| !output.range().is_empty());
        wanted_outputs
            .map(|(output, place)| (output, self.tensors.pointers[*place]))
            .try_for_each(|(output, pointer)| self.write(output, pointer.cast()))
    }

    fn write(&self, output: &OutputTensor, pointer: *mut u8) -> Result<(), ChildError> {
        let device = &*self.runtime.device;
        let range = output.range();
        // A scalar lies in memory of the host, whatever the device.
        let is_scalar = output.shape.is_empty();
        if !is_scalar && device.can_host_read(pointer, range.len()) {
            return Ok(());
        }
        if let Some(summary) = (!is_scalar)
            .then(|| device.summarize(pointer, output.dtype, &output.shape, &self.poison))
            .flatten()
        {
            let output = output.name.clone();
            let summary = Box::new(summary);
            let is_fetched = self.is_fetched;
            self.runtime.reporter.send(&ChildReport::Summary { output, summary, is_fetched });
            if !is_fetched {
                return Ok(());
            }
        }
        self.tensors.copy_out(device, output, pointer);
        Ok(())
    }
}

/// The processor time of this process.
pub(super) fn process_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a time to where it is told.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(super) fn elapsed_microseconds(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

fn start_device(
    job: &Job,
    artifact: LoadedArtifact,
    reporter: &'static Reporter,
    record: Option<&File>,
) -> Result<&'static Runtime, ChildError> {
    let memory_limit_bytes = usize::try_from(job.memory_limit_bytes).unwrap_or(usize::MAX);
    match job.device {
        DeviceJob::Cpu { threads, order, rounding, .. } => {
            if let Some(record) = record {
                roundings::start_roundings(rounding, record).map_err(ChildError::Record)?;
            }
            artifact.bind(&api::TABLE, rounding.number(), &job.artifact)?;
            let settings = CpuSettings {
                poison: job.poison,
                order: replay_runtime::cpu::order::Order(order),
                threads,
                memory_limit_bytes,
                rounding,
                checked: (job.precision == Precision::Checked).then(|| job.artifact.clone()),
                shadow: job.is_shadow(),
                end_before: job.part.end(),
            };
            let cpu = CpuDevice::new(settings, move || artifact.thread_pointers());
            Ok(replay_runtime::start_runtime(Box::new(cpu), reporter))
        }
        DeviceJob::Cuda {
            ordinal, ref module, ref summaries, ref libraries, sanitizer, ..
        } => {
            artifact.bind(&api::TABLE, Rounding::Nearest.number(), &job.artifact)?;
            let settings = gpu::GpuSettings {
                ordinal,
                poison: job.poison,
                memory_limit_bytes,
                margins: !sanitizer.is_some_and(Tool::forbids_margins),
                filled: !sanitizer.is_some_and(Tool::forbids_filling),
                managed: artifact.thread_pointers().has_host_algorithms,
            };
            let gpu = Gpu::new(settings, module, summaries, libraries.clone(), move || {
                artifact.thread_pointers()
            })?;
            Ok(replay_runtime::start_runtime(Box::new(gpu), reporter))
        }
    }
}
