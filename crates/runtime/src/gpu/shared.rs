//! Poisons the shared memory of every multiprocessor. Without it the contents are those of the last kernel.
//!
//! The first blocks of a launch find the poison; later blocks find the contents of earlier ones.
#![allow(unsafe_code)]

use std::ffi::c_void;

use replay_base::summary::Poison;
use replay_cuda::driver::{Function, LaunchConfiguration, Loaded, SharedSizes};
use replay_cuda::{CudaError, FILL_KERNEL};

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
        let function = module.function(FILL_KERNEL)?;
        function.allow_shared(sizes.bytes as usize)?;
        Ok(SharedFill { function, sizes, pattern: poison.pattern })
    }

    /// One block for each multiprocessor; it takes all of the shared memory.
    pub(super) fn run(&self) -> Result<(), CudaError> {
        let half =
            |offset: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| self.pattern[offset + k]));
        let mut low = half(0);
        let mut high = half(4);
        let mut bytes = self.sizes.bytes;
        let mut args: [*mut c_void; 3] =
            [(&raw mut low).cast(), (&raw mut high).cast(), (&raw mut bytes).cast()];
        let shape = LaunchConfiguration::plain(self.sizes.multiprocessors, THREADS, bytes);
        // SAFETY: the arguments are those of the kernel.
        unsafe { self.function.launch(shape, args.as_mut_ptr()) }
    }
}
