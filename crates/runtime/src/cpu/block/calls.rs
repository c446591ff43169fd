//! Calls of device code that wait for other threads of its block, or run all of them.
//!
//! Each tells its runner the reason for the wait, and switches to the next ready thread.
#![allow(unsafe_code)]

use super::running::current_runner;
use super::{BlockBarrier, Handover};
use crate::abi::{BlockThreads, CallSite, FoldFn, Folded, WarpOp, barrier_op};
use crate::cpu::fiber::switch;
use crate::cpu::warp::{Offer, WarpReduction};

/// `__syncthreads` and its forms: returns the combined predicate once every thread has come.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn wait_at_barrier(op: u32, predicate: u32, site: CallSite) -> u32 {
    // SAFETY: passed on to the caller; the two references do not live across the switch.
    unsafe {
        if let Some(Handover { save, to }) = current_runner().arrive_at_barrier(predicate, site) {
            switch(save, to);
        }
        if op == barrier_op::PLAIN {
            return 0;
        }
        let BlockBarrier { arrived, predicates, .. } = current_runner().barriers.released;
        match op {
            barrier_op::COUNT => predicates,
            barrier_op::AND => u32::from(predicates == arrived),
            _ => u32::from(predicates != 0),
        }
    }
}

/// A collective of the lanes in `mask`: returns this lane's result once all of them have come.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn warp_collective(
    op: u32,
    mask: u32,
    value: u64,
    argument: u32,
    site: CallSite,
) -> u64 {
    // SAFETY: as in `barrier`.
    unsafe {
        let offer = Offer { op, mask, value, argument };
        if let Some(Handover { save, to }) = current_runner().arrive_at_collective(offer, site) {
            switch(save, to);
        }
        current_runner().collective_result()
    }
}

/// A chain of shuffles of the lanes in `mask`.
///
/// # Safety
/// Must be called from a thread of a running kernel; `run` must do `steps` on the values of 32 lanes.
pub(crate) unsafe extern "C" fn warp_fold(
    mask: u32,
    value: u64,
    argument: u32,
    steps: u64,
    run: FoldFn,
    site: CallSite,
) -> Folded {
    // SAFETY: as in `barrier`.
    unsafe {
        let offer = Offer { op: WarpOp::Shuffle as u32, mask, value, argument };
        let fold = WarpReduction::new(steps, run);
        if let Some(Handover { save, to }) = current_runner().arrive_at_fold(offer, fold, site) {
            switch(save, to);
        }
        let (value, is_whole) = current_runner().fold_result();
        Folded { value, whole: is_whole.into() }
    }
}

/// The lanes of the current warp whose threads have not ended.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn active_mask() -> u32 {
    // SAFETY: passed on to the caller.
    let runner = unsafe { current_runner() };
    runner.warps[runner.warp_and_lane().0].live
}

/// Lets the other threads of the block run, as far as they can.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn yield_thread() {
    // SAFETY: as in `barrier`.
    unsafe {
        if let Some(Handover { save, to }) = current_runner().yield_thread() {
            switch(save, to);
            current_runner().return_to_loop();
        }
    }
}

/// Lets the calling kernel run all threads of its block; `threads` receives them.
///
/// # Safety
/// Must be called from a thread of a running kernel, before it has waited for others.
pub(crate) unsafe extern "C" fn whole_block(
    frame_bytes: usize,
    scratch_bytes: usize,
    threads: *mut BlockThreads,
) {
    // SAFETY: passed on to the caller; `threads` is a variable of it.
    unsafe { *threads = current_runner().run_whole(frame_bytes, scratch_bytes) };
}

/// Lets the calling kernel run the running thread and those behind it, each to its end; `threads` receives them.
///
/// # Safety
/// As for [`whole_block`].
pub(crate) unsafe extern "C" fn rest_of_block(threads: *mut BlockThreads) {
    // SAFETY: passed on to the caller; `threads` is a variable of it.
    unsafe { *threads = current_runner().run_rest() };
}

/// Ends the replay because threads of a kernel in thread-loop form wait at different barriers. `sites`
/// has one site for each thread, in their order, without a file if the thread has ended.
///
/// # Safety
/// Must be called from a running kernel in thread-loop form.
pub(crate) unsafe extern "C" fn barriers_differ(sites: *const CallSite) -> ! {
    // SAFETY: passed on to the caller.
    unsafe { current_runner().report_sites(sites) }
}
