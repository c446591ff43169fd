//! Poisons the shared memory of every multiprocessor, which a device leaves as the last kernel had it.
//!
//! What a launch finds there is what lies there when its first blocks begin; later blocks find what
//! earlier ones left.
#![allow(unsafe_code)]

use std::ffi::c_void;

use super::driver::{Function, Loaded, Shape, SharedSizes};
use crate::runtime::error::CudaError;
use crate::summary::Poison;

/// The kernel that fills, which every module holds.
pub(crate) const SOURCE: &str = r#"extern "C" __global__ void replay_fill_shared(unsigned low, unsigned high, unsigned bytes) {
    extern __shared__ unsigned replay_shared[];
    for (unsigned at = threadIdx.x; at < bytes / 4; at += blockDim.x) {
        ((volatile unsigned*)replay_shared)[at] = at % 2 == 0 ? low : high;
    }
}
"#;
const NAME: &str = "replay_fill_shared";
const THREADS: u32 = 1024;

/// Fills all shared memory.
pub(super) struct SharedFill {
    function: Function,
    sizes: SharedSizes,
    pattern: [u8; 8],
}

impl SharedFill {
    /// With the kernel of `module`.
    pub(super) fn new(
        module: &Loaded,
        sizes: SharedSizes,
        poison: Poison,
    ) -> Result<SharedFill, CudaError> {
        let function = module.function(NAME)?;
        function.allow_shared(sizes.bytes as usize)?;
        Ok(SharedFill { function, sizes, pattern: poison.pattern })
    }

    /// One block, which takes all of it, for each multiprocessor.
    pub(super) fn run(&self) -> Result<(), CudaError> {
        let half = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| self.pattern[at + k]));
        let (mut low, mut high, mut bytes) = (half(0), half(4), self.sizes.bytes);
        let mut args: [*mut c_void; 3] =
            [(&raw mut low).cast(), (&raw mut high).cast(), (&raw mut bytes).cast()];
        let shape = Shape {
            grid: [self.sizes.multiprocessors, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: bytes,
        };
        // SAFETY: the arguments are those of the kernel.
        unsafe { self.function.launch(shape, args.as_mut_ptr()) }
    }
}
