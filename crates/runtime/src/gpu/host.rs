//! Algorithms of libraries over device memory, computed on the host: CUB's device-wide ones and Thrust's.
//!
//! They are templates of types known to the host's compiler alone, so no module for the device has them.
//! The host runs the same code as a CPU replay, in the same order, on memory of both sides.
#![allow(unsafe_code)]

use crate::Launch;
use crate::abi::ThreadPointers;

/// Runs all threads of `launch` on the calling thread; they never wait for each other.
///
/// # Safety
/// The host must be able to touch whatever memory the launch uses, and `pointers` be those of this thread.
pub(super) unsafe fn run_host_threads(launch: &Launch, pointers: &ThreadPointers) {
    // SAFETY: thread-local storage of the artifact, whose code this is.
    unsafe {
        *pointers.grid_dim = launch.grid;
        *pointers.block_dim = launch.block;
        for block in grid_indices(launch.grid) {
            *pointers.block_idx = block;
            for thread in grid_indices(launch.block) {
                *pointers.thread_idx = thread;
                (launch.thunk)(launch.args);
            }
        }
    }
}

/// The indices of a grid or block of these sides, x first.
fn grid_indices([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])))
}
