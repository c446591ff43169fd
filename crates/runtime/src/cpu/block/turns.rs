//! Kernels in thread-loop form with turns: besides at barriers, their threads wait for lanes of their warp, and let
//! others run in front of atomics.
//!
//! Such a kernel has one stack, and runs the threads of the block itself. It reports each wait, at once for several
//! neighbouring threads with the same wait. The order of turns is the same as for threads with stacks.
#![allow(unsafe_code)]

use std::slice;

use super::running::current_runner;
use super::{BlockForm, BlockRunner, Handover, Pause, ThreadSchedule, WARPS};
use crate::abi::{BlockThreads, CallSite, FoldWait, WarpTurn};
use crate::cpu::fiber::switch;
use crate::cpu::warp::{LANES, WarpReduction};

impl BlockRunner {
    fn begin_turns(&mut self, frame_bytes: usize, scratch_bytes: usize) -> BlockThreads {
        self.form = BlockForm::Turns;
        self.block_threads(frame_bytes, scratch_bytes)
    }

    /// The turn of the thread at `position` and of the ready threads behind it.
    #[inline(always)]
    fn turn_of(&mut self, position: usize) -> WarpTurn {
        self.position = position;
        let (warp, lane) = self.warp_and_lane();
        // A freed thread comes first until it reports where it has come.
        let ThreadSchedule { ready, freed, .. } = &self.schedule;
        let is_freed = freed.last() == Some(&(position as u16));
        let count = if is_freed && self.launch.tables.is_linear {
            let lanes = (position..position + LANES - lane).map(|position| position as u16);
            lanes.zip(freed.iter().rev()).take_while(|(next, freed)| next == *freed).count()
        } else if self.launch.tables.is_linear {
            (ready.lanes(warp) >> lane).trailing_ones() as usize
        } else {
            1
        };
        let lanes = &self.warps[warp];
        WarpTurn {
            position: position as u32,
            count: count as u32,
            results: lanes.results.as_ptr(),
            whole: lanes.whole,
            alone: u32::from(lanes.arrived == 0),
        }
    }

    /// The turn after the current thread's, now waiting.
    #[inline(always)]
    fn next_turn(&mut self) -> WarpTurn {
        self.turn_of(self.next_after(self.position))
    }

    /// All threads have ended: the kernel returns, on the stack of the first thread.
    fn no_turn(&mut self) -> WarpTurn {
        self.position = 0;
        WarpTurn { position: 0, count: 0, results: std::ptr::null(), whole: 0, alone: 0 }
    }

    /// Has the threads of `wait` come to their chain; the last of them is then the current one. Its warp and lane.
    #[inline(always)]
    fn come_to_fold(
        &mut self,
        wait: &FoldWait,
        values: &[u64],
        arguments: &[u32],
    ) -> (usize, usize) {
        self.position = wait.position as usize;
        let (warp, lane) = self.warp_and_lane();
        for index in 0..values.len() {
            self.position = wait.position as usize + index;
            self.schedule.begin_turn(self.position);
            self.come_to_collective(wait.site);
        }
        let fold = WarpReduction::new(wait.steps, wait.run);
        self.warps[warp % WARPS].arrive_in_turn(lane, wait.mask, values, arguments, fold);
        (warp, (lane + values.len() - 1) % LANES)
    }

    /// Lets others run in front of the thread at `position`: a way to another block if all of this one have had their
    /// turn, in a cooperative launch.
    fn yield_turn(&mut self, position: usize) -> Option<Handover> {
        self.position = position;
        self.schedule.begin_turn(position);
        let next = self.next_after(position);
        if self.together.is_some() && next <= position {
            let Handover { to, .. } = self.pause(Pause::Yielded, next);
            return Some(Handover { save: &raw mut self.threads[0].context, to });
        }
        self.position = next;
        None
    }
}

/// Lets the calling kernel run all threads of its block in turns; `next` receives the first.
///
/// # Safety
/// Must be called from the first thread of a running block, before it has waited for others.
pub(crate) unsafe extern "C" fn block_turns(
    frame_bytes: usize,
    scratch_bytes: usize,
    threads: *mut BlockThreads,
    next: *mut WarpTurn,
) {
    // SAFETY: passed on to the caller; both are variables of it.
    unsafe {
        *threads = current_runner().begin_turns(frame_bytes, scratch_bytes);
        *next = current_runner().turn_of(0);
    }
}

/// `count` threads from `position` on come to the barrier at `site`.
///
/// # Safety
/// Must be called from a kernel with turns; so must the functions below.
pub(crate) unsafe extern "C" fn turn_barrier(
    position: u32,
    count: u32,
    site: CallSite,
    next: *mut WarpTurn,
) {
    // SAFETY: passed on to the caller; `next` is a variable of it, or null.
    unsafe {
        let runner = current_runner();
        for position in position..position + count {
            runner.position = position as usize;
            runner.schedule.begin_turn(runner.position);
            runner.come_to_barrier(0, site);
        }
        if !next.is_null() {
            runner.release_full_barrier();
            *next = runner.next_turn();
        }
    }
}

/// Threads come to a chain of shuffles.
///
/// # Safety
/// As for [`turn_barrier`]; and `wait` must describe them.
pub(crate) unsafe extern "C" fn turn_fold(wait: *const FoldWait, next: *mut WarpTurn) {
    // SAFETY: passed on to the caller; `next` is a variable of it, or null.
    unsafe {
        let runner = current_runner();
        let wait = &*wait;
        let count = wait.count as usize;
        let values = slice::from_raw_parts(wait.values, count);
        let arguments = slice::from_raw_parts(wait.arguments, count);
        let (warp, lane) = runner.come_to_fold(wait, values, arguments);
        if next.is_null() {
            return;
        }
        let offer = runner.warps[warp % WARPS].offers[lane];
        if runner.warps[warp % WARPS].can_complete(&offer) {
            runner.complete(warp, offer);
        }
        *next = runner.next_turn();
    }
}

/// The thread at `position` lets others run.
///
/// # Safety
/// As for [`turn_barrier`].
pub(crate) unsafe extern "C" fn turn_yield(position: u32, next: *mut WarpTurn) {
    // SAFETY: passed on to the caller; no reference lives across the switch.
    unsafe {
        if let Some(Handover { save, to }) = current_runner().yield_turn(position as usize) {
            switch(save, to);
        }
        let runner = current_runner();
        *next = runner.turn_of(runner.position);
    }
}

/// `count` threads from `position` on end.
///
/// # Safety
/// As for [`turn_barrier`].
pub(crate) unsafe extern "C" fn turn_end(position: u32, count: u32, next: *mut WarpTurn) {
    // SAFETY: passed on to the caller; `next` is a variable of it, or null.
    unsafe {
        let runner = current_runner();
        if count == runner.schedule.live_count && !next.is_null() {
            // All threads of the block, and no other waits for one.
            runner.schedule.live_count = 0;
            *next = runner.no_turn();
            return;
        }
        for position in position..position + count {
            runner.schedule.begin_turn(position as usize);
            runner.leave(position as usize);
        }
        if next.is_null() {
            return;
        }
        runner.position = (position + count - 1) as usize;
        *next = match runner.schedule.live_count {
            0 => runner.no_turn(),
            _ => {
                runner.free_who_waited_for(runner.position);
                runner.next_turn()
            }
        };
    }
}
