//! The running blocks of the operating-system threads. Device code finds its runner here; the
//! report of a fault or a timeout finds the kernel, block and thread.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::BlockRunner;
use crate::KernelPlace;
use crate::cpu::fault;

thread_local! {
    static CURRENT: Cell<*mut BlockRunner> = const { Cell::new(std::ptr::null_mut()) };
}

/// The runners with a running block, for reports from other operating-system threads.
static RUNNING: [AtomicPtr<BlockRunner>; 256] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 256];

/// The runner of the calling thread's block. A call from host code ends the replay: compilers for the host do not
/// refuse host code that calls functions of kernels.
///
/// A switch runs other threads, and they change the runner: no reference may live across one.
///
/// # Safety
/// Must be called by replayed code.
#[inline(always)]
pub(super) unsafe fn current_runner<'a>() -> &'a mut BlockRunner {
    let runner = CURRENT.get();
    if runner.is_null() {
        fault::end_in_host_code();
    }
    // SAFETY: `run` set it for as long as a kernel's threads run on this OS thread.
    unsafe { &mut *runner }
}

/// The linear index of the running thread, in its block.
///
/// # Safety
/// Must be called from a thread of a running kernel, on a stack of its own.
pub(crate) unsafe fn linear_thread() -> u16 {
    // SAFETY: passed on to the caller.
    let runner = unsafe { current_runner() };
    runner.threads[runner.position].linear as u16
}

/// The running kernel, block and thread of this operating-system thread, if there is one.
pub(crate) fn current_place() -> Option<KernelPlace> {
    place_of(CURRENT.get())
}

/// The same of this operating-system thread, else of any other.
pub(crate) fn place_anywhere() -> Option<KernelPlace> {
    current_place()
        .or_else(|| RUNNING.iter().find_map(|entry| place_of(entry.load(Ordering::Acquire))))
}

fn place_of(runner: *const BlockRunner) -> Option<KernelPlace> {
    if runner.is_null() {
        return None;
    }
    // SAFETY: a running runner lives, and so does its artifact; both are only read.
    unsafe {
        let pointers = &(*runner).pointers;
        let kernel = (*runner).launch.kernel?;
        let running = (*pointers.block).running;
        let thread = if running.is_null() { *pointers.thread_idx } else { (*running).index };
        Some((kernel.name, *pointers.block_idx, thread))
    }
}

/// Whether `address` is the guard page of a stack of the block running here.
pub(crate) fn stack_overflowed_at(address: usize) -> bool {
    let runner = CURRENT.get();
    // SAFETY: the current runner lives; its stacks are only read.
    let stacks = (!runner.is_null()).then(|| unsafe { &(*runner).stacks.all });
    stacks.and_then(Option::as_ref).is_some_and(|stacks| stacks.overflowed_at(address))
}

impl BlockRunner {
    /// Records whether a block runs on this operating-system thread, for this thread and all others.
    pub(super) fn announce(&mut self, runs: bool) {
        let announced_runner: *mut BlockRunner = if runs { self } else { std::ptr::null_mut() };
        CURRENT.set(announced_runner);
        if self.announced.is_none() {
            let null = std::ptr::null_mut();
            self.announced = RUNNING.iter().find(|entry| {
                entry
                    .compare_exchange(null, announced_runner, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            });
        }
        if let Some(entry) = self.announced {
            entry.store(announced_runner, Ordering::Release);
        }
    }
}
