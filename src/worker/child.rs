//! The work of the child: loads artifact and fixture, makes the call, writes the outputs.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::c_void;
use std::fs::File;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use super::evaluations;
use super::inputs::Common;
use super::run::{Declared, OutputTensor, bytes_of};
use super::{DeviceJob, Job, Part};
use crate::cuda::CudaError;
use crate::cuda::sanitizer::Tool;
use crate::fixture::{Fixture, FixtureError, Input};
use crate::process::{Pid, shield};
use crate::runtime::artifact::{LoadError, LoadedArtifact};
use crate::runtime::cpu::{Cpu, CpuSettings, Rounding};
use crate::runtime::gpu::{self, Gpu, StartError};
use crate::runtime::report::{Findings, Report, Reporter};
use crate::runtime::{self, CopyKind, Device, Runtime, Widening, api};
use crate::summary::Poison;
use crate::tensor::step::{self, Scales};
use crate::tensor::{DType, TensorView};

/// Errors that keep the call from being made; the parent shows them to the user.
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
    #[error("cannot map the outputs: {0}")]
    Map(std::io::Error),
}

/// The resources of a replay.
pub(super) struct Surroundings<'a> {
    /// Where outputs are written.
    pub outputs: File,
    /// Holds the inputs that are common to several replays, if any are.
    pub inputs: Option<File>,
    /// Processes that replayed code is to be kept from, where that was not done yet.
    pub above: &'a [Pid],
    /// The way back.
    pub reporter: &'static Reporter,
}

/// Makes the replay of `job`, with artifact and fixture from `loaded` if they are there. Tells the
/// parent if it is refused. Returns the process's exit status.
pub(super) fn run(
    job: &Job,
    loaded: Option<(&Fixture, LoadedArtifact)>,
    surroundings: Surroundings,
) -> i32 {
    let reporter = surroundings.reporter;
    let replayed = match loaded {
        Some((fixture, artifact)) => replay(job, fixture, artifact, surroundings),
        None => {
            load(job).and_then(|(fixture, artifact)| replay(job, &fixture, artifact, surroundings))
        }
    };
    match replayed {
        Ok(()) => 0,
        Err(error) => {
            refuse(reporter, &error);
            1
        }
    }
}

fn load(job: &Job) -> Result<(Fixture, LoadedArtifact), ChildError> {
    Ok((Fixture::load_trusted(&job.fixture)?, LoadedArtifact::load(&job.artifact)?))
}

fn refuse(reporter: &Reporter, error: &ChildError) {
    let hint = match error {
        ChildError::Fixture(error) => error.hint(),
        ChildError::Gpu(error) => error.hint(),
        ChildError::Memory { .. } => Some("raise --memory, or use a smaller fixture".into()),
        ChildError::Map(_) => Some("free memory, or use a smaller fixture".into()),
        _ => None,
    };
    reporter.send(&Report::Refused { message: error.to_string(), hint });
}

/// Runs `job`, whose artifact and fixture were loaded, in this process.
fn replay(
    job: &Job,
    fixture: &Fixture,
    artifact: LoadedArtifact,
    Surroundings { outputs: memory, inputs: laid_out, above, reporter }: Surroundings,
) -> Result<(), ChildError> {
    let runtime = std::thread::scope(|scope| {
        ask_for_pages(job, fixture, &memory, scope);
        start_device(job, artifact, reporter)
    })?;
    let (description, class) = runtime.device.describe();
    reporter.send(&Report::Device { description, class });
    if !above.is_empty() {
        let _ = shield::raise(above);
    }

    let begun = Instant::now();
    if !job.evaluations.is_empty() {
        return evaluations::make(job, fixture, &artifact, runtime, memory);
    }
    let (tensors, outputs) = lay_out(job, fixture, &*runtime.device, (&memory, laid_out.as_ref()))?;
    // Replayed code finds no descriptor to change its size by.
    drop((memory, laid_out));
    let sizes: Vec<i64> = fixture.sizes.values().map(|&size| size as i64).collect();
    let tensors: &'static Tensors = Box::leak(Box::new(tensors));
    let strides: Vec<*const i64> = tensors.strides.iter().map(|s| s.as_ptr()).collect();
    let inputs_us = microseconds(begun);

    let begun = Instant::now();
    let begun_cpu = processor_time();
    let (poison, is_fetched) = (job.poison, job.device.fetches());
    let end =
        Closing { runtime, tensors, outputs, poison, is_fetched, inputs_us, begun, begun_cpu };
    if let Part::Before { .. } = job.part {
        let end = end.clone();
        runtime::on_early_end(move || {
            if let Err(error) = end.reach() {
                refuse(reporter, &error);
            }
        });
    }
    runtime.device.run_host(true);
    runtime::cpu::code_runs();
    // SAFETY: the artifact was compiled for this fixture's signature, in this order.
    unsafe { artifact.call(&tensors.pointers, &sizes, &strides) };
    runtime.device.run_host(false);
    end.reach()
}

/// Asks for the pages of inputs and outputs while a context is made: nothing else happens then. What has no thread
/// for it comes on first use.
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
    if job.device.fetches() && job.evaluations.is_empty() {
        let bytes = Declared::of(fixture, job, &Common::default()).layout(&job.part).bytes;
        let pages = move || super::memory::populate(memory, bytes);
        let _ = std::thread::Builder::new().spawn_scoped(scope, pages);
    }
}

/// The tensors of the call, with inputs that are `laid_out` already taken from there and what is told written to
/// `memory`; and those of the outputs that are told, with their places among the tensors.
fn lay_out(
    job: &Job,
    fixture: &Fixture,
    device: &dyn Device,
    (memory, laid_out): (&File, Option<&File>),
) -> Result<(Tensors, Vec<(OutputTensor, usize)>), ChildError> {
    let common = laid_out.map(|_| Common::of(fixture, job)).unwrap_or_default();
    let declared = Declared::of(fixture, job, &common);
    let all = declared.layout(&Part::Whole).outputs;
    let told = declared.layout(&job.part);
    let scales = scales(job, fixture, memory, told.end())?;
    let mut tensors = Tensors::new(memory, told.bytes)?;
    for input in &fixture.inputs {
        if let Some((file, pages)) = laid_out.zip(common.place(&input.name)) {
            tensors.add_laid_out(device, input, (file, pages), job)?;
            continue;
        }
        let place = told.inputs.iter().find(|(name, _)| *name == input.name);
        let place = place.map(|(_, pages)| (memory, *pages));
        tensors.add_input(device, input, place, job, scales.as_ref())?;
    }
    let mut outputs = Vec::new();
    // Those that nobody hears of have a place to be written to, too.
    for output in all {
        let told = told.outputs.iter().find(|told| told.name == output.name);
        let place = told.map(|told| (memory, told.pages()));
        tensors.add_output(device, &output, place, job)?;
        outputs.extend(told.map(|told| (told.clone(), tensors.pointers.len() - 1)));
    }
    Ok((tensors, outputs))
}

/// The most writes out of bounds that are reported.
const MOST_OVERRUNS: usize = 64;

/// The work left once the call has returned or was left early.
#[derive(Clone)]
struct Closing {
    runtime: &'static Runtime,
    tensors: &'static Tensors,
    /// The outputs that are told of, each with its number among the arguments.
    outputs: Vec<(OutputTensor, usize)>,
    poison: Poison,
    /// Whether outputs that are summarised are written as well.
    is_fetched: bool,
    inputs_us: u64,
    /// When the call was made.
    begun: Instant,
    /// The processor time that had passed then.
    begun_cpu: Duration,
}

impl Closing {
    /// Waits for the device, writes the outputs and says so.
    fn reach(&self) -> Result<(), ChildError> {
        let Closing { runtime, inputs_us, .. } = *self;
        let (device, reporter) = (&*runtime.device, runtime.reporter);
        let synchronized = device.synchronize();
        let call_us = microseconds(self.begun);
        let cpu_us = (processor_time() - self.begun_cpu).as_micros() as u64;
        if let Err(error) = synchronized {
            runtime::end("device error", error.to_string(), None);
        }
        let begun = Instant::now();
        let last_write = device.last_write();
        for detail in device.overruns().into_iter().take(MOST_OVERRUNS) {
            reporter.send(&Report::Overrun { detail });
        }
        let findings = device.found();
        if findings != Findings::default() {
            reporter.send(&Report::Found(findings));
        }
        self.write_outputs()?;
        let (launches, outputs_us) = (reporter.launches(), microseconds(begun));
        reporter.send(&Report::Done {
            launches,
            last_write,
            inputs_us,
            call_us,
            cpu_us,
            outputs_us,
        });
        Ok(())
    }

    /// Writes the outputs, except those that lie in the shared memory already and those that
    /// the device summarises.
    fn write_outputs(&self) -> Result<(), ChildError> {
        let wanted = self.outputs.iter().filter(|(output, _)| !output.range().is_empty());
        wanted
            .map(|(output, place)| (output, self.tensors.pointers[*place]))
            .try_for_each(|(output, pointer)| self.write(output, pointer.cast()))
    }

    fn write(&self, output: &OutputTensor, pointer: *mut u8) -> Result<(), ChildError> {
        let device = &*self.runtime.device;
        let range = output.range();
        // A scalar lies in memory of the host, whatever the device.
        let is_scalar = output.shape.is_empty();
        if !is_scalar && device.holds(pointer, range.len()) {
            return Ok(());
        }
        let summarize = || device.summarize(pointer, output.dtype, &output.shape, &self.poison);
        if let Some(summary) = (!is_scalar).then(summarize).flatten() {
            let (output, summary) = (output.name.clone(), Box::new(summary));
            let is_fetched = self.is_fetched;
            self.runtime.reporter.send(&Report::Summary { output, summary, is_fetched });
            if !is_fetched {
                return Ok(());
            }
        }
        self.tensors.copy_out(device, output, pointer);
        Ok(())
    }
}

/// The processor time of this process.
pub(super) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a time to where it is told.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(super) fn microseconds(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

fn start_device(
    job: &Job,
    artifact: LoadedArtifact,
    reporter: &'static Reporter,
) -> Result<&'static Runtime, ChildError> {
    let memory_bytes = usize::try_from(job.memory_bytes).unwrap_or(usize::MAX);
    match job.device {
        DeviceJob::Cpu { threads, order, rounding, checked } => {
            artifact.bind(&api::TABLE, rounding.number(), &job.artifact)?;
            let settings = CpuSettings {
                poison: job.poison,
                order: runtime::cpu::order::Order(order),
                threads,
                memory_bytes,
                rounding,
                checked: checked.then(|| job.artifact.clone()),
                end_before: job.part.end(),
            };
            let cpu = Cpu::new(settings, move || artifact.thread_pointers());
            Ok(runtime::start(Box::new(cpu), reporter))
        }
        DeviceJob::Cuda {
            ordinal, ref module, ref summaries, ref libraries, sanitizer, ..
        } => {
            artifact.bind(&api::TABLE, Rounding::Nearest.number(), &job.artifact)?;
            let settings = gpu::GpuSettings {
                ordinal,
                poison: job.poison,
                memory_bytes,
                margins: !sanitizer.is_some_and(Tool::forbids_margins),
                filled: !sanitizer.is_some_and(Tool::forbids_filling),
                managed: artifact.thread_pointers().has_host_algorithms,
            };
            let pointers = move || artifact.thread_pointers();
            let gpu = Gpu::new(settings, module, summaries, libraries.clone(), pointers)?;
            Ok(runtime::start(Box::new(gpu), reporter))
        }
    }
}

/// The arguments of the call, in the order of the signature.
pub(super) struct Tensors {
    /// The shared memory for outputs.
    memory: MmapRaw,
    pub(super) pointers: Vec<*mut c_void>,
    pub(super) strides: Vec<Vec<i64>>,
    /// Keeps scalars, which live in host memory, alive and aligned.
    #[allow(clippy::vec_box)] // The call holds their addresses: they may not move.
    scalars: Vec<Box<u64>>,
}

// SAFETY: the pointers are to memory that is there until the process ends.
unsafe impl Send for Tensors {}
// SAFETY: as above; nothing changes once the call is made.
unsafe impl Sync for Tensors {}

impl Tensors {
    pub(super) fn new(memory: &File, bytes: usize) -> Result<Tensors, ChildError> {
        let memory =
            MmapOptions::new().len(bytes.max(1)).map_raw(memory).map_err(ChildError::Map)?;
        Ok(Tensors { memory, pointers: Vec::new(), strides: Vec::new(), scalars: Vec::new() })
    }

    pub(super) fn add_input(
        &mut self,
        device: &dyn Device,
        input: &Input,
        place: Option<(&File, usize)>,
        job: &Job,
        scales: Option<&Scales>,
    ) -> Result<(), ChildError> {
        let strides = input.strides.iter().flatten().map(|&stride| stride as i64).collect();
        self.strides.push(strides);
        if !input.present {
            self.pointers.push(std::ptr::null_mut());
            return Ok(());
        }
        let widen = job.shadow && input.dtype.is_float();
        let is_packed = input.strides.is_none();
        let bytes = bytes_of(input, job.shadow);
        if input.dims.is_empty() {
            let mut value = [0u8; 8];
            fill(input, job, scales, &mut value[..bytes])?;
            self.add_scalar(u64::from_ne_bytes(value));
            return Ok(());
        }
        let pointer = device
            .malloc_input(bytes, place, is_packed, input.name.clone())
            .map_err(|error| ChildError::Memory { tensor: input.name.clone(), bytes, error })?;
        self.pointers.push(pointer.cast());
        if bytes == 0 {
            return Ok(());
        }
        if device.is_host() {
            // SAFETY: the device's memory is this process's, and was allocated just now.
            let memory = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
            fill(input, job, scales, memory)?;
            device.input(pointer, bytes);
            return Ok(());
        }
        if widen
            && is_packed
            && let Some(done) = widened(device, pointer, input, job, scales)?
        {
            return done.map_err(|error| ChildError::Copy { tensor: input.name.clone(), error });
        }
        let staging = if widen || !is_packed {
            let mut staging = vec![0u8; bytes];
            job.poison.fill(&mut staging);
            fill(input, job, scales, &mut staging)?;
            Cow::Owned(staging)
        } else {
            input.packed()?
        };
        let (from, stream) = (staging.as_ptr(), std::ptr::null_mut());
        // SAFETY: the elements have that many bytes: without strides, those that are packed.
        unsafe { device.copy(pointer, from, bytes, CopyKind::HostToDevice, stream) }
            .map_err(|error| ChildError::Copy { tensor: input.name.clone(), error })
    }

    /// Adds `input`, whose pages lie in a file from an offset on and hold its elements.
    fn add_laid_out(
        &mut self,
        device: &dyn Device,
        input: &Input,
        (file, pages): (&File, usize),
        job: &Job,
    ) -> Result<(), ChildError> {
        let (bytes, tensor) = (bytes_of(input, job.shadow), input.name.clone());
        let pointer = device
            .malloc_from(file, pages, bytes, tensor.clone())
            .map_err(|error| ChildError::Memory { tensor, bytes, error })?;
        self.strides.push(Vec::new());
        self.pointers.push(pointer.cast());
        device.input(pointer, bytes);
        Ok(())
    }

    pub(super) fn add_output(
        &mut self,
        device: &dyn Device,
        output: &OutputTensor,
        place: Option<(&File, usize)>,
        job: &Job,
    ) -> Result<(), ChildError> {
        self.strides.push(Vec::new());
        let bytes = output.range().len();
        let is_watched = job.part.watches(&output.name);
        if output.shape.is_empty() && !is_watched {
            self.add_scalar(u64::from_le_bytes(job.poison.pattern));
            return Ok(());
        }
        let name = output.name.clone();
        let pointer = match place {
            _ if output.shape.is_empty() => device.malloc(bytes, name),
            Some((memory, pages)) => device.malloc_in(memory, pages, bytes, name),
            None => device.malloc_unread(bytes, name),
        };
        let pointer = pointer.map_err(|error| ChildError::Memory {
            tensor: output.name.clone(),
            bytes,
            error,
        })?;
        self.pointers.push(pointer.cast());
        if is_watched {
            device.watch(pointer);
        }
        Ok(())
    }

    /// Frees all of them.
    pub(super) fn clear(&mut self, device: &dyn Device) {
        let scalars: Vec<*mut c_void> =
            self.scalars.iter_mut().map(|scalar| (&raw mut **scalar).cast()).collect();
        let held = self.pointers.drain(..);
        for pointer in held.filter(|pointer| !pointer.is_null() && !scalars.contains(pointer)) {
            // What the code has freed itself is gone.
            let _ = device.free(pointer.cast());
        }
        self.scalars.clear();
        self.strides.clear();
    }

    /// Copies `output`, which is at `pointer`, to its place in the shared memory.
    pub(super) fn copy_out(&self, device: &dyn Device, output: &OutputTensor, pointer: *mut u8) {
        let range = output.range();
        let place = self.memory.as_mut_ptr().wrapping_add(range.start);
        if output.shape.is_empty() {
            // SAFETY: a scalar lies in eight bytes, and its place in the mapping.
            unsafe { place.copy_from(pointer, range.len()) };
            return;
        }
        let (stream, kind) = (std::ptr::null_mut(), CopyKind::DeviceToHost);
        // SAFETY: the target is a part of the mapping, and that long.
        let copied = unsafe { device.copy(place, pointer, range.len(), kind, stream) };
        if let Err(error) = copied {
            let detail = format!("{} cannot be read after the call: {error}", output.name);
            runtime::end("output is gone", detail, None);
        }
    }

    fn add_scalar(&mut self, bits: u64) {
        let mut scalar = Box::new(bits);
        self.pointers.push((&raw mut *scalar).cast());
        self.scalars.push(scalar);
    }
}

/// Has `device` write the elements of `input` to `to` as `job` wants them, in float64, if it can.
fn widened(
    device: &dyn Device,
    to: *mut u8,
    input: &Input,
    job: &Job,
    scales: Option<&Scales>,
) -> Result<Option<Result<(), CudaError>>, ChildError> {
    let stepped = job.step.as_ref().filter(|stepped| stepped.input == input.name);
    let step = stepped.map(|stepped| &stepped.step).zip(scales);
    let (packed, is_kept) = (input.packed()?, !job.evaluations.is_empty());
    let (name, dtype) = (input.name.as_str(), input.dtype);
    Ok(device.widen(to, &Widening { name, dtype, bytes: &packed, step, is_kept }))
}

/// Writes the elements of `input` to `out` as `job` wants them: as float64 in a shadow, moved by a step.
/// `scales` are those of the input that is moved.
fn fill(
    input: &Input,
    job: &Job,
    scales: Option<&Scales>,
    out: &mut [u8],
) -> Result<(), ChildError> {
    if !(job.shadow && input.dtype.is_float()) {
        return Ok(input.copy_to(out)?);
    }
    let threads = job.device.threads();
    let packed = input.packed()?;
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let stepped = job.step.as_ref().filter(|stepped| stepped.input == input.name);
    let step = stepped.map(|stepped| &stepped.step).zip(scales);
    if input.strides.is_none() {
        // Straight into place: a copy of all would be as large as the tensor.
        step::widen(&view, step, threads, out);
    } else {
        let mut widened = vec![0; view.len() * DType::F64.size()];
        step::widen(&view, step, threads, &mut widened);
        input.lay_out(DType::F64.size(), &widened, out);
    }
    Ok(())
}

/// The scales of the input of `fixture` that `job` moves, if it moves one. The parent has put them into
/// `memory`, from `begin` on.
pub(super) fn scales(
    job: &Job,
    fixture: &Fixture,
    memory: &File,
    begin: usize,
) -> Result<Option<Scales>, ChildError> {
    let moved = |input: &&Input| job.step.as_ref().is_some_and(|step| step.input == input.name);
    let Some(input) = fixture.inputs.iter().find(moved) else { return Ok(None) };
    let (shape, bytes) = (input.shape(), Scales::bytes_of(&input.shape()));
    if bytes == 0 {
        return Ok(None);
    }
    // SAFETY: the parent wrote it before it asked for this process, and nobody has changed it.
    let map = unsafe { MmapOptions::new().offset(begin as u64).len(bytes).map(memory) };
    Ok(Some(Scales::read(&shape, &map.map_err(ChildError::Map)?)))
}
