//! Launches the kernel of `summary::device` on a tensor in device memory.
#![allow(unsafe_code)]

use std::ffi::c_void;

use replay_base::summary::device::{DevicePart, combine_device_parts};
use replay_base::summary::{Poison, Summary};
use replay_base::tensor::{DType, element_count};
use replay_cuda::CudaError;
use replay_cuda::driver::{Address, Context, Function, LaunchConfiguration, Loaded};

/// Threads of a block, as the kernel is compiled for.
const THREADS: u32 = 128;
/// Blocks: four at a time on each of an H200's multiprocessors.
const BLOCKS: u32 = 528;

/// The kernel for one dtype.
pub(super) struct Summarizer {
    _module: Loaded,
    function: Function,
}

impl Summarizer {
    /// Loads the module of `compile::DeviceToolchain::summary`.
    pub(super) fn new(code: &[u8]) -> Result<Summarizer, CudaError> {
        let module = Loaded::new(code)?;
        Ok(Summarizer { function: module.function("summarize")?, _module: module })
    }

    /// The summary of the tensor at `address`; none if it takes a second pass over the elements.
    pub(super) fn run(
        &self,
        context: &Context,
        address: Address,
        dtype: DType,
        shape: &[usize],
        poison: &Poison,
    ) -> Result<Option<Summary>, CudaError> {
        let count = element_count(shape).ok_or(CudaError::INVALID_VALUE)? as u64;
        let mut parts = vec![DevicePart::default(); BLOCKS as usize];
        let bytes = size_of_val(parts.as_slice());
        let room = context.allocate(bytes)?;
        let mut tensor = address;
        let mut count = count;
        let mut out = room;
        let mut pattern = u64::from_le_bytes(poison.pattern);
        let mut poisoned = 1i32;
        let mut args: [*mut c_void; 5] = [
            (&raw mut tensor).cast(),
            (&raw mut count).cast(),
            (&raw mut pattern).cast(),
            (&raw mut poisoned).cast(),
            (&raw mut out).cast(),
        ];
        let shape_of_launch = LaunchConfiguration::plain(BLOCKS, THREADS, 0);
        // SAFETY: the arguments are those of the kernel; the parts have room for the copy.
        let launch_result = unsafe {
            self.function
                .launch(shape_of_launch, args.as_mut_ptr())
                .and_then(|()| context.download(parts.as_mut_ptr().cast(), room, bytes))
        };
        context.free(room)?;
        launch_result.map(|()| combine_device_parts(&parts, dtype, shape))
    }
}
