//! Inputs of a shadow: uploaded as they are stored, and widened and moved on the device.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use super::upload::{self, Uploader};
use crate::Widening;
use replay_base::tensor::DType;
use replay_base::tensor::step::{Scales, Step, StepClass, StepUnit};
use replay_cuda::CudaError;
use replay_cuda::driver::{Address, Context, Function, LaunchConfiguration, Loaded};

/// Threads of a block, and the most blocks.
const THREADS: u32 = 256;
const BLOCKS: u64 = 1 << 14;

/// A step, as the kernel takes it; the wanted class is its place in [`StepClass::ALL`].
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct DeviceStep {
    seed: u64,
    begin: u64,
    end: u64,
    columns: u64,
    ranges: u64,
    length: f64,
    moved: i32,
    wanted: i32,
    own: i32,
}

impl DeviceStep {
    fn from_step(step: &Step, scales: &Scales) -> DeviceStep {
        DeviceStep {
            seed: step.seed,
            begin: step.among.start as u64,
            end: step.among.end as u64,
            columns: scales.columns() as u64,
            ranges: step.without.len() as u64,
            length: step.length,
            moved: 1,
            wanted: match step.class {
                StepClass::Ordinary => 0,
                StepClass::Zero => 1,
                StepClass::Outlier => 2,
            },
            own: i32::from(step.unit == StepUnit::Own),
        }
    }
}

/// Inputs as stored, by name, to be widened again.
#[derive(Default)]
pub(super) struct StoredInputs {
    known: Mutex<HashMap<String, Address>>,
}

/// Memory of the device, freed with this.
struct Room<'c>(&'c Context, Address);

impl<'c> Room<'c> {
    fn from_bytes(context: &'c Context, bytes: &[u8]) -> Result<Room<'c>, CudaError> {
        let room = Room(context, context.allocate(bytes.len().max(8))?);
        // SAFETY: the bytes are those of a slice.
        unsafe { context.upload(room.1, bytes.as_ptr(), bytes.len())? };
        Ok(room)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let _ = self.0.free(self.1);
    }
}

impl StoredInputs {
    /// Writes the elements of `input` to `destination`, by a kernel of `module`; none where it has no kernel for them.
    pub(super) fn widen(
        &self,
        context: &Context,
        uploader: &Uploader,
        module: &Loaded,
        destination: Address,
        input: &Widening,
    ) -> Option<Result<(), CudaError>> {
        let kernel = match input.dtype {
            DType::F32 => "replay_widen_f32",
            DType::F64 => "replay_widen_f64",
            _ => return None,
        };
        let function = module.function(kernel).ok()?;
        let (stored_address, is_kept) = match self.upload(context, uploader, input) {
            Ok(stored_input) => stored_input,
            Err(error) => return Some(Err(error)),
        };
        let launch_result = launch_widening(context, function, stored_address, destination, input);
        if !is_kept {
            let _ = context.free(stored_address);
        }
        Some(launch_result)
    }

    /// The place of `input` as it is stored, and whether it stays there.
    fn upload(
        &self,
        context: &Context,
        uploader: &Uploader,
        input: &Widening,
    ) -> Result<(Address, bool), CudaError> {
        let mut kept_inputs = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(&kept_address) = kept_inputs.get(input.name) {
            return Ok((kept_address, true));
        }
        let stored_address = context.allocate(input.bytes.len())?;
        if input.bytes.len() >= upload::LARGE {
            uploader.upload(context, stored_address, input.bytes)?
        } else {
            // SAFETY: the bytes are those of a slice.
            unsafe { context.upload(stored_address, input.bytes.as_ptr(), input.bytes.len())? }
        }
        if input.is_kept {
            kept_inputs.insert(input.name.to_owned(), stored_address);
        }
        Ok((stored_address, input.is_kept))
    }
}

fn launch_widening(
    context: &Context,
    function: Function,
    mut source: Address,
    mut destination: Address,
    input: &Widening,
) -> Result<(), CudaError> {
    let mut count = (input.bytes.len() / input.dtype.size()) as u64;
    let mut step = DeviceStep::default();
    let mut rows = Vec::new();
    let mut without = Vec::new();
    if let Some((input_step, scales)) = input.step {
        step = DeviceStep::from_step(input_step, scales);
        rows = scales.bytes();
        let ends = input_step.without.iter().flat_map(|range| [range.start, range.end]);
        without = ends.flat_map(|end| (end as u64).to_le_bytes()).collect();
    }
    let rows = Room::from_bytes(context, &rows)?;
    let without = Room::from_bytes(context, &without)?;
    let mut rows_at = rows.1;
    let mut without_at = without.1;
    let mut args: [*mut c_void; 6] = [
        (&raw mut source).cast(),
        (&raw mut destination).cast(),
        (&raw mut count).cast(),
        (&raw mut step).cast(),
        (&raw mut rows_at).cast(),
        (&raw mut without_at).cast(),
    ];
    let blocks = count.div_ceil(THREADS.into()).clamp(1, BLOCKS) as u32;
    let shape = LaunchConfiguration::plain(blocks, THREADS, 0);
    // SAFETY: the arguments are those of the kernel, and the tensors as long as `count` says.
    unsafe { function.launch(shape, args.as_mut_ptr())? };
    context.synchronize()
}
