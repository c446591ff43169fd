//! Measures on the device how far elements of outputs move in calls with other rounding.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

use super::Gpu;
use crate::{Deviating, DeviationPass};
use replay_base::tensor::DType;
use replay_cuda::driver::{Address, Context, Function, LaunchConfiguration, Loaded};
use replay_cuda::{CudaError, DirectedRounding};

/// Threads of a block, and the most blocks.
const THREADS: u32 = 256;
const BLOCKS: u64 = 1 << 14;
/// How many times as far as by rounding a repetition may move an element: atomic additions in another order do.
const UNSTEADY_FACTOR: f64 = 64.0;

/// The measurements of the outputs, by their places.
#[derive(Default)]
pub(super) struct DeviceDeviations {
    outputs: Mutex<Vec<Option<MeasuredOutput>>>,
    /// The inputs as they were first.
    inputs: Mutex<BTreeMap<usize, Address>>,
}

/// One output: its elements in the plain call, and their largest and least deviations.
#[derive(Clone, Copy)]
struct MeasuredOutput {
    plain: Address,
    largest: Address,
    least: Address,
    /// The output of another call, where it lies on the host.
    staging: Address,
    count: u64,
    dtype: DType,
    is_begun: bool,
}

impl MeasuredOutput {
    fn new(context: &Context, dtype: DType, count: usize) -> Result<MeasuredOutput, CudaError> {
        let element = dtype.size();
        let deviation = deviation_bytes(dtype);
        Ok(MeasuredOutput {
            plain: context.allocate(count * element)?,
            largest: context.allocate(count * deviation)?,
            least: context.allocate(count * deviation)?,
            staging: context.allocate(element)?,
            count: count as u64,
            dtype,
            is_begun: false,
        })
    }

    /// The elements at `tensor`, in host memory if it is a scalar.
    fn elements(
        &self,
        context: &Context,
        tensor: *const u8,
        is_scalar: bool,
    ) -> Result<Address, CudaError> {
        if !is_scalar {
            return Ok(tensor as Address);
        }
        // SAFETY: a scalar has that many bytes.
        unsafe { context.upload(self.staging, tensor, self.dtype.size())? };
        Ok(self.staging)
    }

    fn absorb_call(&mut self, loaded: &Loaded, moved_address: Address) -> Result<(), CudaError> {
        let function =
            loaded.function(&format!("replay_take_{}", dtype_kernel_name(self.dtype)))?;
        let mut moved_elements = moved_address;
        let mut first = i32::from(!self.is_begun);
        let MeasuredOutput { mut plain, mut largest, mut least, mut count, .. } = *self;
        self.is_begun = true;
        let mut args: [*mut c_void; 6] = [
            (&raw mut plain).cast(),
            (&raw mut moved_elements).cast(),
            (&raw mut largest).cast(),
            (&raw mut least).cast(),
            (&raw mut count).cast(),
            (&raw mut first).cast(),
        ];
        launch_deviation_kernel(function, count, &mut args)
    }

    /// Marks jumps, and returns how many elements `repeated_address` moves further than rounding does.
    fn finish(
        &self,
        context: &Context,
        loaded: &Loaded,
        repeated_address: Address,
        jump: f64,
    ) -> Result<u64, CudaError> {
        let function =
            loaded.function(&format!("replay_finish_{}", dtype_kernel_name(self.dtype)))?;
        let mut unsteady = context.allocate(8)?;
        context.set(unsteady, 0, 8)?;
        let mut repeated_elements = repeated_address;
        let mut jump = jump;
        let mut allowed = UNSTEADY_FACTOR;
        let MeasuredOutput { mut plain, mut largest, mut least, mut count, .. } = *self;
        let mut args: [*mut c_void; 8] = [
            (&raw mut plain).cast(),
            (&raw mut repeated_elements).cast(),
            (&raw mut largest).cast(),
            (&raw mut least).cast(),
            (&raw mut count).cast(),
            (&raw mut jump).cast(),
            (&raw mut allowed).cast(),
            (&raw mut unsteady).cast(),
        ];
        launch_deviation_kernel(function, count, &mut args)?;
        let mut unsteady_count = 0u64;
        // SAFETY: an integer of that size.
        unsafe { context.download((&raw mut unsteady_count).cast(), unsteady, 8)? };
        context.free(unsteady)?;
        Ok(unsteady_count)
    }
}

fn launch_deviation_kernel(
    function: Function,
    count: u64,
    args: &mut [*mut c_void],
) -> Result<(), CudaError> {
    let blocks = count.div_ceil(THREADS.into()).clamp(1, BLOCKS) as u32;
    let shape = LaunchConfiguration::plain(blocks, THREADS, 0);
    // SAFETY: the arguments are those of the kernel, and the tensors as long as the count says.
    unsafe { function.launch(shape, args.as_mut_ptr()) }
}

/// The dtype in the names of kernels.
fn dtype_kernel_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        _ => "f32",
    }
}

/// Bytes of the deviation of an element of `dtype`.
fn deviation_bytes(dtype: DType) -> usize {
    if dtype == DType::F64 { 8 } else { 4 }
}

impl Deviating for Gpu {
    fn begin(&self, pass: DeviationPass) -> Result<(), String> {
        self.round(pass.direction())
    }

    fn prepare(&self) {
        if self.context.enter().is_ok() {
            for direction in
                [DirectedRounding::Down, DirectedRounding::Up, DirectedRounding::TowardZero]
            {
                let _ = self.rounded(direction);
            }
        }
    }

    fn keep(&self, place: usize, tensor: *const u8, bytes: usize) -> Result<(), CudaError> {
        let kept_copy = self.context.allocate(bytes)?;
        self.context.copy_within(kept_copy, tensor as Address, bytes)?;
        let mut inputs = self.deviations.inputs.lock().expect("no code panics while it holds this");
        inputs.insert(place, kept_copy);
        Ok(())
    }

    fn restore(&self, place: usize, tensor: *mut u8, bytes: usize) -> Result<(), CudaError> {
        let inputs = self.deviations.inputs.lock().expect("no code panics while it holds this");
        let kept_copy = *inputs.get(&place).ok_or(CudaError::INVALID_VALUE)?;
        self.context.copy_within(tensor as Address, kept_copy, bytes)
    }

    fn absorb_output(
        &self,
        place: usize,
        (tensor, is_scalar): (*const u8, bool),
        dtype: DType,
        count: usize,
        pass: DeviationPass,
    ) -> Result<u64, CudaError> {
        let Gpu { context, loaded, deviations, .. } = self;
        let mut outputs = deviations.outputs.lock().expect("no code panics while it holds this");
        if outputs.len() <= place {
            outputs.resize(place + 1, None);
        }
        if outputs[place].is_none() {
            outputs[place] = Some(MeasuredOutput::new(context, dtype, count)?);
        }
        let measured_output = outputs[place].as_mut().expect("made just now");
        let elements = measured_output.elements(context, tensor, is_scalar)?;
        let unsteady_count = match pass {
            DeviationPass::Plain => {
                context.copy_within(measured_output.plain, elements, count * dtype.size())?;
                0
            }
            DeviationPass::Rounded(_) => {
                measured_output.absorb_call(loaded, elements)?;
                0
            }
            DeviationPass::Again { jump } => {
                measured_output.finish(context, loaded, elements, jump)?
            }
        };
        context.synchronize()?;
        Ok(unsteady_count)
    }

    unsafe fn read(&self, place: usize, destination: *mut u8) -> Result<(), CudaError> {
        let outputs = self.deviations.outputs.lock().expect("no code panics while it holds this");
        let Some(&Some(measured_output)) = outputs.get(place) else {
            return Err(CudaError::INVALID_VALUE);
        };
        let bytes = measured_output.count as usize * deviation_bytes(measured_output.dtype);
        // SAFETY: promised by the caller.
        unsafe { self.download(destination, measured_output.largest, bytes) }
    }
}
