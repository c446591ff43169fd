//! The launch limits of a device of compute capability 9.0 (CUDA C++ Programming Guide, "Compute Capabilities"). Pure.

use super::abi::RawLaunch;
use super::cpu;
use replay_cuda::CudaError;

/// Multiprocessors of the device behind the CPU's limits.
pub(super) const MULTIPROCESSORS: u64 = 132;

/// How many blocks of so many threads and bytes of shared memory a multiprocessor holds. A block may ask for `shared_limit`
/// bytes: in a shadow more than a device has.
pub(super) fn resident_blocks(threads: usize, shared_bytes: usize, shared_limit: usize) -> usize {
    const THREADS_PER_SM: usize = 2048;
    const BLOCKS_PER_SM: usize = 32;
    let by_memory = cpu::MAX_SHARED_BYTES.checked_div(shared_bytes).unwrap_or(usize::MAX);
    // Wider elements make blocks fewer, but one stays if it fits.
    let by_memory = by_memory.max(usize::from(shared_bytes <= shared_limit));
    (THREADS_PER_SM / threads.next_multiple_of(32)).min(BLOCKS_PER_SM).min(by_memory)
}

/// Checks a launch against the limits of the device, as CUDA does before it begins (CUDA C++
/// Programming Guide, "Technical Specifications per Compute Capability").
pub(super) fn check_limits(raw: &RawLaunch, dynamic_limit: usize) -> Result<(), CudaError> {
    let threads: u64 = raw.block.iter().map(|&size| u64::from(size)).product();
    let grid_fits = raw.grid[0] <= i32::MAX as u32 && raw.grid[1..].iter().all(|&n| n <= 65_535);
    let block_fits = raw.block[2] <= 64 && threads <= cpu::MAX_THREADS as u64;
    let none_empty = raw.grid.iter().chain(&raw.block).all(|&size| size > 0);
    if grid_fits && block_fits && none_empty && raw.shared_bytes <= dynamic_limit {
        Ok(())
    } else {
        Err(CudaError::INVALID_CONFIGURATION)
    }
}

/// Checks a launch against the kernel's own bounds (CUDA C++ Programming Guide, "Launch Bounds",
/// "Thread Block Clusters", "Grid Synchronization"), with the most blocks of a cluster and the most bytes of shared memory
/// of a block. The codes are those of CUDA 13.
pub(super) fn check_bounds(
    raw: &RawLaunch,
    most_in_cluster: u32,
    most_shared: usize,
) -> Result<(), CudaError> {
    let threads: u32 = raw.block.iter().product();
    if raw.max_threads != 0 && threads > raw.max_threads {
        return Err(CudaError::INVALID_VALUE);
    }
    check_cluster(raw, most_in_cluster)?;
    let blocks: u64 = raw.grid.iter().map(|&size| u64::from(size)).product();
    let resident = resident_blocks(threads as usize, raw.shared_bytes, most_shared);
    let resident = MULTIPROCESSORS * resident as u64;
    if raw.cooperative != 0 && blocks > resident {
        Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE)
    } else {
        Ok(())
    }
}

/// Checks the clusters of a launch, of at most so many blocks each.
fn check_cluster(raw: &RawLaunch, most_blocks: u32) -> Result<(), CudaError> {
    let sides = raw.cluster;
    if raw.names_cluster == 0 && sides == [0; 3] {
        return Ok(());
    }
    let divides = raw.grid.iter().zip(sides).all(|(&blocks, side)| side != 0 && blocks % side == 0);
    let size = sides.iter().try_fold(1u32, |size, &side| size.checked_mul(side));
    let is_small_enough = size.is_some_and(|size| size <= most_blocks);
    if divides && is_small_enough && raw.names_cluster != 2 {
        Ok(())
    } else {
        Err(CudaError::INVALID_CLUSTER_SIZE)
    }
}
