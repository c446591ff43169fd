//! The tensors of a call, in the memory of its device.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::c_void;
use std::fs::File;

use memmap2::{MmapOptions, MmapRaw};

use super::child::{ChildError, copy_error};
use super::inputs::Common;
use super::run::{DeclaredTensors, OutputTensor, bytes_of};
use super::{CallPart, Job, JobCalls};
use replay_base::tensor::step::{self, Scales, Step};
use replay_base::tensor::{DType, TensorView};
use replay_fixture::fixture::{Fixture, Input};
use replay_runtime::{CopyKind, Device, Widening};

/// The files of the host's tensors.
#[derive(Clone, Copy)]
pub(super) struct TensorFiles<'f> {
    /// Reported outputs.
    pub outputs: &'f File,
    /// Large inputs of this replay alone.
    pub own_inputs: Option<&'f File>,
    /// Inputs laid out before.
    pub inputs: Option<&'f File>,
}

/// The tensors of the call; and the reported outputs, with their places among the tensors.
pub(super) fn lay_out_tensors(
    job: &Job,
    fixture: &Fixture,
    device: &dyn Device,
    files: TensorFiles,
) -> Result<(CallTensors, Vec<(OutputTensor, usize)>), ChildError> {
    let TensorFiles { outputs: memory, own_inputs, inputs: laid_out } = files;
    let common = laid_out.map(|_| Common::from_fixture(fixture, job)).unwrap_or_default();
    let declared_tensors = DeclaredTensors::from_fixture(fixture, job, &common);
    let all_outputs = declared_tensors.layout(&CallPart::Whole).outputs;
    let part_layout = declared_tensors.layout(&job.part);
    let scales = load_step_scales(job, fixture, memory, part_layout.end())?;
    let mut tensors = CallTensors::new(memory, part_layout.bytes)?;
    for input in &fixture.inputs {
        if let Some((file, pages)) = laid_out.zip(common.place(&input.name)) {
            tensors.add_laid_out(device, input, (file, pages), job, scales.as_ref())?;
            continue;
        }
        let place = part_layout.inputs.iter().find(|(name, _)| *name == input.name);
        let place = own_inputs.zip(place.map(|(_, pages)| *pages));
        tensors.add_input(device, input, place, job, scales.as_ref())?;
    }
    let mut outputs = Vec::new();
    // Outputs without a report have a place, too.
    for output in all_outputs {
        let part_output =
            part_layout.outputs.iter().find(|candidate| candidate.name == output.name);
        let place = part_output.map(|tensor| (memory, tensor.pages()));
        tensors.add_output(device, &output, place, job)?;
        outputs.extend(part_output.map(|tensor| (tensor.clone(), tensors.pointers.len() - 1)));
    }
    Ok((tensors, outputs))
}

/// The arguments of the call, in the order of the signature.
pub(super) struct CallTensors {
    /// The shared memory for outputs.
    memory: MmapRaw,
    pub(super) pointers: Vec<*mut c_void>,
    pub(super) strides: Vec<Vec<i64>>,
    /// Keeps scalars in host memory alive and aligned.
    #[allow(clippy::vec_box)] // The call holds their addresses: they may not move.
    scalars: Vec<Box<u64>>,
}

// SAFETY: the pointers are to memory that is there until the process ends.
unsafe impl Send for CallTensors {}
// SAFETY: as above; nothing changes once the call is made.
unsafe impl Sync for CallTensors {}

impl CallTensors {
    pub(super) fn new(memory: &File, bytes: usize) -> Result<CallTensors, ChildError> {
        let memory =
            MmapOptions::new().len(bytes.max(1)).map_raw(memory).map_err(ChildError::Map)?;
        Ok(CallTensors { memory, pointers: Vec::new(), strides: Vec::new(), scalars: Vec::new() })
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
        let widen = job.is_shadow() && input.dtype.is_float();
        let is_packed = input.strides.is_none();
        let bytes = bytes_of(input, job.is_shadow());
        if input.dims.is_empty() {
            let mut value = [0u8; 8];
            write_input_elements(input, job, scales, &mut value[..bytes])?;
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
            write_input_elements(input, job, scales, memory)?;
            device.input(pointer, bytes);
            return Ok(());
        }
        if widen && is_packed && widen_on_device(device, pointer, input, job, scales)? {
            return Ok(());
        }
        let staging = if widen || !is_packed {
            let mut staging = vec![0u8; bytes];
            job.poison.fill(&mut staging);
            write_input_elements(input, job, scales, &mut staging)?;
            Cow::Owned(staging)
        } else {
            input.packed()?
        };
        let source = staging.as_ptr();
        let stream = std::ptr::null_mut();
        // SAFETY: the elements have that many bytes: without strides, those that are packed.
        unsafe { device.copy(pointer, source, bytes, CopyKind::HostToDevice, stream) }
            .map_err(copy_error(&input.name))
    }

    /// Adds `input`, whose pages lie in a file from an offset on and hold its elements as captured.
    fn add_laid_out(
        &mut self,
        device: &dyn Device,
        input: &Input,
        (file, pages): (&File, usize),
        job: &Job,
        scales: Option<&Scales>,
    ) -> Result<(), ChildError> {
        let bytes = bytes_of(input, job.is_shadow());
        let tensor = input.name.clone();
        let pointer = device
            .malloc_from(file, pages, bytes, tensor.clone())
            .map_err(|error| ChildError::Memory { tensor, bytes, error })?;
        self.strides.push(Vec::new());
        self.pointers.push(pointer.cast());
        if find_step(input, job, scales).is_some() {
            // SAFETY: the mapping is this process's alone, and has as many bytes.
            let memory = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
            write_input_elements(input, job, scales, memory)?;
        }
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
        let held_pointers = self.pointers.drain(..);
        for pointer in
            held_pointers.filter(|pointer| !pointer.is_null() && !scalars.contains(pointer))
        {
            // The code may have freed it itself.
            let _ = device.free(pointer.cast());
        }
        self.scalars.clear();
        self.strides.clear();
    }

    /// The place of `output` in the shared memory.
    pub(super) fn place(&self, output: &OutputTensor) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(output.range().start)
    }

    /// Copies `output` from `pointer` to its place in the shared memory.
    pub(super) fn copy_out(&self, device: &dyn Device, output: &OutputTensor, pointer: *mut u8) {
        let range = output.range();
        let place = self.place(output);
        if output.shape.is_empty() {
            // SAFETY: a scalar lies in eight bytes, and its place in the mapping.
            unsafe { place.copy_from(pointer, range.len()) };
            return;
        }
        let stream = std::ptr::null_mut();
        let kind = CopyKind::DeviceToHost;
        // SAFETY: the target is a part of the mapping, and that long.
        let copied = unsafe { device.copy(place, pointer, range.len(), kind, stream) };
        if let Err(error) = copied {
            let detail = format!("{} cannot be read after the call: {error}", output.name);
            replay_runtime::end_replay("output is gone", detail, None);
        }
    }

    fn add_scalar(&mut self, bits: u64) {
        let mut scalar = Box::new(bits);
        self.pointers.push((&raw mut *scalar).cast());
        self.scalars.push(scalar);
    }
}

/// Has `device` write the elements of `input` to `destination` as `job` wants them, in float64. Returns whether the
/// device can do so.
fn widen_on_device(
    device: &dyn Device,
    destination: *mut u8,
    input: &Input,
    job: &Job,
    scales: Option<&Scales>,
) -> Result<bool, ChildError> {
    let step = find_step(input, job, scales);
    if step.is_some_and(|(step, _)| step.constraint.is_some()) {
        // The device moves each element by itself.
        return Ok(false);
    }
    let packed = input.packed()?;
    let is_kept = matches!(job.calls, JobCalls::AtSteps(_));
    let name = input.name.as_str();
    let dtype = input.dtype;
    let widening = Widening { name, dtype, bytes: &packed, step, is_kept };
    match device.widen(destination, &widening) {
        None => Ok(false),
        Some(Ok(())) => Ok(true),
        Some(Err(error)) => Err(copy_error(&input.name)(error)),
    }
}

/// The step by which `job` moves `input`, and the scales of its elements; none if it stays.
fn find_step<'s>(
    input: &Input,
    job: &'s Job,
    scales: Option<&'s Scales>,
) -> Option<(&'s Step, &'s Scales)> {
    let stepped = job.step.as_ref().filter(|stepped| stepped.input == input.name);
    stepped.map(|stepped| &stepped.step).zip(scales)
}

/// Writes the elements of `input` to `out` as `job` wants them: moved by a step, and as float64 in a shadow.
/// `scales` are those of the input that is moved.
fn write_input_elements(
    input: &Input,
    job: &Job,
    scales: Option<&Scales>,
    out: &mut [u8],
) -> Result<(), ChildError> {
    let step = find_step(input, job, scales);
    let is_wide = job.is_shadow() && input.dtype.is_float();
    if !is_wide && step.is_none() {
        return Ok(input.copy_to(out)?);
    }
    let threads = job.device.threads();
    let packed = input.packed()?;
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    if let Some((step, scales)) = step
        && !is_wide
    {
        let moved = step::move_tensor(&view, step, scales, threads);
        input.lay_out(input.dtype.size(), &moved, out);
        return Ok(());
    }
    if input.strides.is_none() {
        // Straight into place: a copy of all would be as large as the tensor.
        step::widen_tensor(&view, step, threads, out);
    } else {
        let mut widened = vec![0; view.len() * DType::F64.size()];
        step::widen_tensor(&view, step, threads, &mut widened);
        input.lay_out(DType::F64.size(), &widened, out);
    }
    Ok(())
}

/// The scales of the input of `fixture` that `job` moves, if it moves one. The parent has put them into
/// `memory`, from `scales_offset` on.
pub(super) fn load_step_scales(
    job: &Job,
    fixture: &Fixture,
    memory: &File,
    scales_offset: usize,
) -> Result<Option<Scales>, ChildError> {
    let Some(input) = fixture
        .inputs
        .iter()
        .find(|input| job.step.as_ref().is_some_and(|step| step.input == input.name))
    else {
        return Ok(None);
    };
    let shape = input.shape();
    let bytes = Scales::bytes_of(&input.shape());
    if bytes == 0 {
        return Ok(None);
    }
    // SAFETY: the parent wrote it before it asked for this process, and nobody has changed it.
    let map = unsafe { MmapOptions::new().offset(scales_offset as u64).len(bytes).map(memory) };
    Ok(Some(Scales::read(&shape, &map.map_err(ChildError::Map)?)))
}
