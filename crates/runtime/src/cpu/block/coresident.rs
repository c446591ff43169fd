//! A block alive together with others: it pauses when it waits for them, and goes on later.
//!
//! All of them run on the same stacks. The stack contents of a block are kept aside while others run.
#![allow(unsafe_code)]

use std::io;

use super::running::current_runner;
use super::{BlockForm, BlockKernel, BlockRunner, Handover, Wait};
use crate::abi::CallSite;
use crate::cpu::fiber::{Stacks, switch};
use crate::cpu::order::Order;
use crate::cpu::shape::LaunchShape;
use crate::{cpu, end_replay, lack_of_memory};

/// Why a block no longer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) enum Pause {
    /// A thread may wait for an action of another block.
    Yielded,
    /// All threads wait for the grid.
    AtGrid,
    /// No thread can go on, and at least one waits for the cluster.
    AtCluster,
    /// All threads have ended.
    Ended,
}

/// Where a thread stands with respect to the barrier of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtCluster {
    /// It has not come.
    Away,
    /// It has come, and does something else meanwhile.
    Arrived,
    /// It waits for the others.
    Waiting,
    /// It has come, and so have all others.
    Passed,
}

/// The state of a runner's block among others.
pub(super) struct CoresidentState {
    /// The threads waiting for the grid.
    arrived: u32,
    /// The live threads with an arrival at the cluster's barrier, and those of them waiting there.
    at_cluster: u32,
    waiting: u32,
    site: CallSite,
    /// The position of the thread to go on first.
    next: usize,
    pause: Pause,
    block: [u32; 3],
    /// The contents of the threads' stacks, in the order of their positions.
    kept: Vec<u8>,
    /// Whether all blocks of the grid run together.
    cooperative: bool,
}

impl BlockRunner {
    /// Gets ready to run the block with index `block` among others, in turns, on stacks of somebody else.
    pub(in crate::cpu) fn begin_together(
        &mut self,
        (kernel, shape, order): (BlockKernel, LaunchShape, Order),
        block: [u32; 3],
        cooperative: bool,
    ) {
        self.stacks.free = (0..shape.threads() as u32).rev().collect();
        self.set_launch(kernel, shape, order);
        self.begin_block();
        self.together = Some(CoresidentState {
            arrived: 0,
            at_cluster: 0,
            waiting: 0,
            site: CallSite { file: std::ptr::null(), line: 0 },
            next: 0,
            pause: Pause::Yielded,
            block,
            kept: Vec::new(),
            cooperative,
        });
    }

    /// Takes the stacks, enough for `threads`, for blocks that take turns.
    ///
    /// # Errors
    /// If no memory can be had for them.
    pub(in crate::cpu) fn lend_stacks(&mut self, threads: usize) -> io::Result<Option<Stacks>> {
        self.reserve_stacks(threads)?;
        Ok(self.stacks.all.take())
    }

    /// Takes back the stacks from `lend_stacks`.
    pub(in crate::cpu) fn take_back(&mut self, stacks: Option<Stacks>) {
        self.stacks.all = stacks;
    }

    /// Runs the block on `stacks` until it pauses.
    pub(in crate::cpu) fn run_on(&mut self, stacks: &mut Option<Stacks>) -> Pause {
        std::mem::swap(&mut self.stacks.all, stacks);
        self.restore_stacks();
        let pause = self.go_on();
        self.keep_stacks();
        std::mem::swap(&mut self.stacks.all, stacks);
        pause
    }

    fn go_on(&mut self) -> Pause {
        let Some(CoresidentState { next, block, .. }) = self.together else { return Pause::Ended };
        let state = self.state();
        state.in_kernel = 1;
        state.running = std::ptr::null();
        state.restless = 0;
        // SAFETY: thread-local storage of the artifact.
        unsafe { *self.pointers.block_idx = block };
        self.schedule.begin_turn(next);
        let context = match self.threads[next].context {
            _ if self.form == BlockForm::Turns => self.threads[0].context,
            0 => self.start(next),
            context => context,
        };
        self.enter(next);
        self.announce(true);
        // SAFETY: the context was saved or prepared; whoever pauses the block comes back here.
        unsafe { switch(&raw mut self.stacks.caller, context) };
        self.announce(false);
        self.state().in_kernel = 0;
        if self.schedule.live_count == 0 || self.form == BlockForm::WholeBlock {
            self.together = None;
            return Pause::Ended;
        }
        self.together.as_ref().map_or(Pause::Ended, |together| together.pause)
    }

    /// Calls `visit_stack` with the stack contents of every thread that has begun and not ended.
    fn each_stack(&mut self, mut visit_stack: impl FnMut(&mut Vec<u8>, &mut [u8])) {
        let BlockRunner { together, stacks, threads, schedule, form, .. } = self;
        let (Some(together), Some(stacks)) = (together, &mut stacks.all) else { return };
        let mut visit_thread = |position: usize| {
            let thread = &threads[position];
            if thread.context != 0 {
                // SAFETY: the thread was left there, and runs again only after `restore_stacks`.
                visit_stack(&mut together.kept, unsafe {
                    stacks.stack_contents(thread.stack as usize, thread.context)
                });
            }
        };
        // The first thread runs all others, and outlives them.
        if *form == BlockForm::Turns {
            return visit_thread(0);
        }
        for (word, &set) in schedule.live.0[..schedule.words].iter().enumerate() {
            let mut remaining_threads = set;
            while remaining_threads != 0 {
                visit_thread(word * 64 + remaining_threads.trailing_zeros() as usize);
                remaining_threads &= remaining_threads - 1;
            }
        }
    }

    fn keep_stacks(&mut self) {
        let mut bytes = 0;
        self.each_stack(|_, stack_bytes| bytes += stack_bytes.len());
        let Some(together) = &mut self.together else { return };
        together.kept.clear();
        if together.kept.try_reserve_exact(bytes).is_err() {
            let error = io::Error::from(io::ErrorKind::OutOfMemory);
            lack_of_memory("the local variables of blocks that wait", bytes, &error);
        }
        self.each_stack(|kept_bytes, stack_bytes| kept_bytes.extend_from_slice(stack_bytes));
    }

    fn restore_stacks(&mut self) {
        let mut copied_bytes = 0;
        self.each_stack(|kept_bytes, stack_bytes| {
            stack_bytes
                .copy_from_slice(&kept_bytes[copied_bytes..copied_bytes + stack_bytes.len()]);
            copied_bytes += stack_bytes.len();
        });
    }

    /// Lets the threads waiting for the grid go on.
    pub(in crate::cpu) fn release_grid(&mut self) {
        self.schedule.make_all_ready();
        let next = self.first_ready();
        if let Some(together) = &mut self.together {
            together.arrived = 0;
            together.next = next;
        }
    }

    fn first_ready(&self) -> usize {
        self.schedule.next_ready_after(super::MAX_THREADS - 1).unwrap_or(0)
    }

    /// Where a thread waits for the grid.
    pub(in crate::cpu) fn grid_site(&self) -> CallSite {
        self.together.as_ref().map_or(CallSite { file: std::ptr::null(), line: 0 }, |t| t.site)
    }

    /// Whether every live thread waits for the grid.
    pub(super) fn all_at_grid(&self) -> bool {
        self.together
            .as_ref()
            .is_some_and(|t| t.arrived > 0 && t.arrived == self.schedule.live_count)
    }

    /// Whether every live thread has come to the barrier of the cluster.
    pub(in crate::cpu) fn all_at_cluster(&self) -> bool {
        self.together.as_ref().is_none_or(|t| t.at_cluster == self.schedule.live_count)
    }

    /// Whether a live thread has come to the barrier of the cluster.
    pub(in crate::cpu) fn has_come_to_cluster(&self) -> bool {
        self.together.as_ref().is_some_and(|together| together.at_cluster > 0)
    }

    /// Lets the threads waiting for the cluster go on. Returns whether there are any.
    pub(in crate::cpu) fn release_cluster(&mut self) -> bool {
        let Some(CoresidentState { pause, waiting, .. }) = self.together else { return false };
        for position in 0..self.launch.thread_count {
            let thread = &mut self.threads[position];
            match thread.at_cluster {
                AtCluster::Waiting => {
                    thread.at_cluster = AtCluster::Away;
                    thread.wait = Wait::Nothing;
                    self.schedule.ready.insert(position);
                }
                AtCluster::Arrived => thread.at_cluster = AtCluster::Passed,
                AtCluster::Away | AtCluster::Passed => {}
            }
        }
        let next = self.first_ready();
        if let Some(together) = &mut self.together {
            (together.at_cluster, together.waiting) = (0, 0);
            if pause == Pause::AtCluster {
                together.next = next;
            }
        }
        waiting > 0
    }

    /// The thread at `position` has ended.
    pub(super) fn leave_cluster(&mut self, position: usize) {
        if let Some(together) = &mut self.together
            && self.threads[position].at_cluster == AtCluster::Arrived
        {
            self.threads[position].at_cluster = AtCluster::Away;
            together.at_cluster -= 1;
        }
    }

    /// From the current thread to whoever runs the blocks, as no other can go on before the cluster has come.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_for_cluster(&mut self) -> Handover {
        if self.together.as_ref().is_none_or(|together| together.waiting == 0) {
            self.report_deadlock();
        }
        self.pause(Pause::AtCluster, self.position)
    }

    /// Ends the replay, as some threads of the block never come to the barrier of the cluster.
    pub(in crate::cpu) fn report_stuck(&mut self) -> ! {
        if let Some(together) = &self.together {
            // SAFETY: thread-local storage of the artifact.
            unsafe { *self.pointers.block_idx = together.block };
        }
        self.announce(true);
        self.report_deadlock()
    }

    /// From the current thread to whoever runs the blocks. The thread at `next` goes on first.
    pub(super) fn pause(&mut self, pause: Pause, next: usize) -> Handover {
        if let Some(together) = &mut self.together {
            together.pause = pause;
            together.next = next;
        }
        Handover { save: &raw mut self.threads[self.position].context, to: self.stacks.caller }
    }

    fn arrive_at_grid(&mut self, site: CallSite) -> Option<Handover> {
        if self.form != BlockForm::Stacks {
            self.report_deadlock();
        }
        let position = self.position;
        let Some(together) = self.together.as_mut().filter(|together| together.cooperative) else {
            let detail = match site.describe() {
                place if place.is_empty() => "grid.sync()".to_owned(),
                place => format!("grid.sync() at {place}"),
            };
            end_replay("launch is not cooperative", detail, cpu::current_place());
        };
        together.arrived += 1;
        together.site = site;
        self.threads[position].site = site;
        self.threads[position].wait = Wait::Grid;
        self.schedule.ready.remove(position);
        if self.all_at_grid() {
            return Some(self.pause(Pause::AtGrid, position));
        }
        self.hand_over()
    }

    fn arrive_at_cluster(&mut self, site: CallSite) {
        let position = self.position;
        let Some(together) = &mut self.together else { return };
        if self.threads[position].at_cluster != AtCluster::Away {
            refuse_barrier_misuse("a thread arrives again before it has waited", site);
        }
        self.threads[position].at_cluster = AtCluster::Arrived;
        together.at_cluster += 1;
    }

    fn wait_at_cluster(&mut self, site: CallSite) -> Option<Handover> {
        let position = self.position;
        let Some(together) = &mut self.together else {
            // A block alone is a cluster of its own.
            return self.arrive_at_barrier(0, site);
        };
        let thread = &mut self.threads[position];
        match thread.at_cluster {
            AtCluster::Passed => {
                thread.at_cluster = AtCluster::Away;
                return None;
            }
            AtCluster::Arrived => thread.at_cluster = AtCluster::Waiting,
            AtCluster::Away | AtCluster::Waiting => {
                refuse_barrier_misuse("a thread waits that has not arrived", site);
            }
        }
        thread.site = site;
        thread.wait = Wait::Cluster;
        together.waiting += 1;
        self.schedule.ready.remove(position);
        self.hand_over()
    }

    /// From a thread that may wait for another one to the next of its block, or to another block once all of this one
    /// have had their turn.
    pub(super) fn yield_thread(&mut self) -> Option<Handover> {
        match self.form {
            BlockForm::Turns => return None,
            BlockForm::RestOfBlock => {
                self.catch_up();
                self.state().yields += 1;
            }
            BlockForm::Stacks | BlockForm::WholeBlock => {}
        }
        if self.together.is_none() || self.form == BlockForm::WholeBlock {
            return self.hand_over();
        }
        let next = self.schedule.next_ready_after(self.position)?;
        if next > self.position { self.hand_over() } else { Some(self.pause(Pause::Yielded, next)) }
    }
}

/// Ends the replay: CUDA does not define such a use of the cluster's barrier.
fn refuse_barrier_misuse(misuse: &str, site: CallSite) -> ! {
    let detail = match site.describe() {
        place if place.is_empty() => misuse.to_owned(),
        place => format!("{misuse} at {place}"),
    };
    end_replay("barrier of the cluster misused", detail, cpu::current_place())
}

/// `grid.sync()`: returns once every thread of the grid has come.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn grid_barrier(site: CallSite) {
    // SAFETY: passed on to the caller; no reference lives across the switch.
    unsafe {
        if let Some(Handover { save, to }) = current_runner().arrive_at_grid(site) {
            switch(save, to);
        }
    }
}

/// Reports the thread's arrival to the cluster.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn cluster_arrive(site: CallSite) {
    // SAFETY: passed on to the caller.
    unsafe { current_runner() }.arrive_at_cluster(site);
}

/// Returns once every thread of the cluster has come.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn cluster_wait(site: CallSite) {
    // SAFETY: as in `grid_barrier`.
    unsafe {
        if let Some(Handover { save, to }) = current_runner().wait_at_cluster(site) {
            switch(save, to);
        }
    }
}

/// Whether the running launch is a cooperative one.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn is_cooperative() -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { current_runner() }
        .together
        .as_ref()
        .is_some_and(|together| together.cooperative)
        .into()
}
