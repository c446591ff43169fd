//! Runs the threads of one thread block as coroutines on one operating-system thread.
//!
//! Threads run one after the other in a fixed order, each until it waits for others (a barrier or
//! a collective of its warp) or ends. A thread that never waits costs no switch: the next one
//! starts on the same stack. A kernel in thread-loop form runs all threads itself, in the same order, by
//! one call on the stack of the first.
#![allow(unsafe_code)]

pub(super) mod calls;
pub(super) mod coresident;
mod deadlock;
pub(super) mod running;
mod shuffle_reductions;
pub(super) mod turns;

use std::ffi::c_void;
use std::io;
use std::sync::atomic::AtomicPtr;

pub(super) use self::coresident::Pause;
use self::coresident::{AtCluster, CoresidentState};
use self::running::{current_place, current_runner};
use super::check;
use super::fiber::{self, STACK_BYTES, Stacks, switch};
use super::frames::{self, Frames};
use super::order::Order;
use super::positions::Positions;
use super::shape::{LaunchShape, MAX_THREADS};
use super::waiting::WaitingGroup;
use super::warp::{LANES, Lanes, Offer, bit_positions};
use crate::runtime::abi::{
    BlockState, BlockThread, BlockThreads, CallSite, ThreadPointers, Thunk, WarpOp,
};
use crate::runtime::{end_replay, lack_of_memory};
use crate::summary::Poison;

/// The fewest stacks to make: a larger block that follows small ones then rarely needs new ones.
const LEAST_STACKS: usize = 256;

/// The most warps of a block.
const WARPS: usize = MAX_THREADS / LANES;

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub(super) struct BlockKernel {
    /// Its name, a literal of the artifact.
    pub name: &'static str,
    /// Runs one thread of it.
    pub thunk: Thunk,
    /// A pointer to each argument.
    pub args: *mut *mut c_void,
}

/// The reason why a thread waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    Nothing,
    Barrier,
    Warp,
    Grid,
    Cluster,
}

/// One thread of the block, in a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Thread {
    /// Where it goes on; 0 before it has begun.
    context: usize,
    /// Where it waits.
    site: CallSite,
    /// `threadIdx`.
    index: [u32; 3],
    /// Its linear index.
    linear: u32,
    stack: u32,
    wait: Wait,
    at_cluster: AtCluster,
}

/// A context to continue, and where to save the one that is left.
struct Handover {
    save: *mut usize,
    to: usize,
}

/// Ends the replay because some threads of a block wait for others that never come.
pub(super) type Deadlock = fn(&[WaitingGroup]) -> !;

/// One operating-system thread's machinery for running blocks.
pub(super) struct BlockRunner {
    // Hot: read and written at every barrier.
    position: usize,
    words: usize,
    live_count: u32,
    barrier: BlockBarrier,
    ready: Positions,
    /// The positions whose thread has not ended.
    live: Positions,
    /// By position in the order of the threads.
    threads: Box<[Thread; MAX_THREADS]>,
    pointers: ThreadPointers,
    released: BlockBarrier,
    /// The threads inside a chain of shuffles that the machine does for them.
    in_folds: u32,

    kernel: Option<BlockKernel>,
    thread_count: usize,
    caller: usize,
    warps: Box<[Lanes; WARPS]>,
    stacks: Option<Stacks>,
    free_stacks: Vec<u32>,
    deadlock: Deadlock,
    /// The block shape and the order that `threads` and `position_of` are made for.
    tables_for: Option<([u32; 3], Order)>,
    /// Whether every thread stands at the position of its linear index.
    is_linear: bool,
    position_of: Vec<u16>,
    /// The threads in their order, as a kernel in thread-loop form sees them.
    block_threads: Vec<BlockThread>,
    frames: Frames,
    /// Whether the kernel that runs is in thread-loop form.
    whole: bool,
    /// Whether it also asks whose turn it is.
    turns: bool,
    /// While other blocks are alive too.
    together: Option<CoresidentState>,
    /// What a lane gets that reads one which takes no part.
    undefined: u64,
    /// This runner's entry among those that run, if there was room.
    running: Option<&'static AtomicPtr<BlockRunner>>,
}

/// The barrier that threads gather at, or the one released last.
#[derive(Clone, Copy)]
struct BlockBarrier {
    arrived: u32,
    predicates: u32,
    site: CallSite,
    sites_differ: bool,
}

impl BlockBarrier {
    const EMPTY: BlockBarrier = BlockBarrier {
        arrived: 0,
        predicates: 0,
        site: CallSite { file: std::ptr::null(), line: 0 },
        sites_differ: false,
    };
}

/// Where every stack begins: runs threads until one of them waits; never returns.
extern "C" fn run_threads() -> ! {
    loop {
        // SAFETY: stacks are only switched to from `BlockRunner::run`; no reference lives on.
        unsafe {
            let kernel = current_runner().kernel.expect("begin_launch came first");
            (kernel.thunk)(kernel.args);
            if let Some(Handover { save, to }) = current_runner().end_thread() {
                switch(save, to);
            }
        }
    }
}

impl BlockRunner {
    /// A runner for the operating-system thread whose built-in variables are at `pointers`. Values that CUDA does not
    /// define are `poison`.
    pub(super) fn new(pointers: ThreadPointers, poison: Poison, deadlock: Deadlock) -> BlockRunner {
        const UNUSED: Thread = Thread {
            context: 0,
            site: CallSite { file: std::ptr::null(), line: 0 },
            index: [0; 3],
            linear: 0,
            stack: 0,
            wait: Wait::Nothing,
            at_cluster: AtCluster::Away,
        };
        BlockRunner {
            position: 0,
            words: 0,
            live_count: 0,
            barrier: BlockBarrier::EMPTY,
            ready: Positions::default(),
            live: Positions::default(),
            threads: Box::new([UNUSED; MAX_THREADS]),
            pointers,
            released: BlockBarrier::EMPTY,
            in_folds: 0,
            kernel: None,
            thread_count: 0,
            caller: 0,
            warps: Box::new([Lanes::default(); WARPS]),
            stacks: None,
            free_stacks: Vec::new(),
            deadlock,
            tables_for: None,
            is_linear: true,
            position_of: Vec::new(),
            block_threads: Vec::new(),
            frames: Frames::default(),
            whole: false,
            turns: false,
            together: None,
            undefined: u64::from_le_bytes(poison.pattern),
            running: None,
        }
    }

    /// The engine's state for device code on this operating-system thread.
    pub(super) fn state(&mut self) -> &mut BlockState {
        // SAFETY: thread-local storage of the artifact, alive as long as the process.
        unsafe { &mut *self.pointers.block }
    }

    /// Sets the launch whose blocks are run next.
    ///
    /// # Errors
    /// If no memory can be had for the stacks.
    pub(crate) fn begin_launch(
        &mut self,
        kernel: BlockKernel,
        shape: LaunchShape,
        order: Order,
    ) -> io::Result<()> {
        self.reserve_stacks(shape.threads())?;
        self.set_launch(kernel, shape, order);
        Ok(())
    }

    /// Makes stacks for so many threads, if there are fewer.
    fn reserve_stacks(&mut self, threads: usize) -> io::Result<()> {
        if self.stacks.as_ref().is_none_or(|stacks| stacks.count() < threads) {
            self.stacks = None;
            let stacks = Stacks::new(threads.max(LEAST_STACKS))?;
            // From the last to the first, so that they are popped in order.
            self.free_stacks = (0..stacks.count() as u32).rev().collect();
            self.stacks = Some(stacks);
        }
        Ok(())
    }

    fn set_launch(&mut self, kernel: BlockKernel, shape: LaunchShape, order: Order) {
        let threads = shape.threads();
        if self.tables_for != Some((shape.block, order)) {
            self.position_of = vec![0; threads];
            self.block_threads.clear();
            for (position, linear) in order.threads(threads).into_iter().enumerate() {
                self.position_of[usize::from(linear)] = position as u16;
                self.threads[position].linear = linear.into();
                let index = shape.thread_index(linear.into());
                self.threads[position].index = index;
                self.block_threads.push(BlockThread { index, linear: linear.into() });
            }
            self.is_linear = order == Order::LINEAR;
            self.tables_for = Some((shape.block, order));
        }
        self.thread_count = threads;
        self.words = threads.div_ceil(64);
        self.kernel = Some(kernel);
        // SAFETY: thread-local storage of the artifact.
        unsafe {
            *self.pointers.block_dim = shape.block;
            *self.pointers.grid_dim = shape.grid;
        }
    }

    /// Runs the block with index `block` to its end.
    pub(super) fn run(&mut self, block: [u32; 3]) {
        // SAFETY: thread-local storage of the artifact.
        unsafe { *self.pointers.block_idx = block };
        self.begin_block();
        self.state().in_kernel = 1;
        self.state().running = std::ptr::null();
        let first = self.start(0);
        self.enter(0);
        self.announce(true);
        // SAFETY: `first` was prepared just now; the last thread to end comes back here.
        unsafe { switch(&raw mut self.caller, first) };
        self.announce(false);
        // The last thread to end could not give its stack back: it ran on it.
        let last = self.threads[self.position].stack;
        self.free_stacks.push(last);
        self.state().in_kernel = 0;
    }

    /// Makes all threads of the next block ready to begin.
    fn begin_block(&mut self) {
        self.live.fill(self.thread_count);
        self.ready.fill(self.thread_count);
        self.barrier = BlockBarrier::EMPTY;
        self.whole = false;
        self.turns = false;
        self.in_folds = 0;
        self.live_count = self.thread_count as u32;
        for thread in &mut self.threads[..self.thread_count] {
            thread.context = 0;
            thread.wait = Wait::Nothing;
            thread.at_cluster = AtCluster::Away;
        }
        for warp in 0..self.thread_count.div_ceil(LANES) {
            self.warps[warp].reset(self.thread_count - warp * LANES);
        }
    }

    /// The warp of the current thread, and its lane.
    fn warp_and_lane(&self) -> (usize, usize) {
        let linear = self.threads[self.position].linear as usize;
        (linear / LANES, linear % LANES)
    }

    /// Gives the thread at `position`, which has not begun, a stack to begin on.
    fn start(&mut self, position: usize) -> usize {
        let stack = self.free_stacks.pop().expect("there is a stack for every thread");
        self.threads[position].stack = stack;
        let stacks = self.stacks.as_mut().expect("begin_launch came first");
        stacks
            .prepare(stack as usize, run_threads)
            .unwrap_or_else(|error| lack_of_memory("the stack of a thread", STACK_BYTES, &error))
    }

    /// Makes the thread at `position` the one whose built-in variables are seen.
    #[inline(always)]
    fn enter(&mut self, position: usize) {
        self.position = position;
        let thread = &self.threads[position % MAX_THREADS];
        // SAFETY: thread-local storage of the artifact.
        unsafe {
            *self.pointers.thread_idx = thread.index;
            (*self.pointers.block).linear_thread = thread.linear;
        }
    }

    /// From the current thread, which cannot go on now, to the next that can.
    #[inline(always)]
    fn hand_over(&mut self) -> Option<Handover> {
        let Some(next) = self.ready.next_after(self.position, self.words) else {
            return Some(self.wait_for_cluster());
        };
        let next_position = self.advance(next);
        self.hand_over_to(next_position)
    }

    /// The thread whose turn follows that of the one at `position`.
    #[inline(always)]
    fn next_after(&self, position: usize) -> usize {
        self.ready.next_after(position, self.words).unwrap_or_else(|| self.report_deadlock())
    }

    /// From the current thread to the one at `next_position`.
    #[inline(always)]
    fn hand_over_to(&mut self, next_position: usize) -> Option<Handover> {
        let current_position = self.position;
        if next_position == current_position {
            return None;
        }
        let mut context = self.threads[next_position % MAX_THREADS].context;
        if context == 0 {
            context = self.start(next_position);
        }
        self.enter(next_position);
        self.fetch(next_position);
        Some(Handover {
            save: &raw mut self.threads[current_position % MAX_THREADS].context,
            to: context,
        })
    }

    /// Has the processor fetch the stack of the thread that runs after the one at `position`: those of a block
    /// do not fit into its nearest cache.
    #[inline(always)]
    fn fetch(&self, position: usize) {
        if let Some(next) = self.ready.next_after(position, self.words) {
            fiber::prefetch_context(self.threads[next % MAX_THREADS].context);
        }
    }

    #[inline(always)]
    fn arrive_at_barrier(&mut self, predicate: u32, site: CallSite) -> Option<Handover> {
        if self.whole {
            self.report_deadlock();
        }
        self.come_to_barrier(predicate, site);
        self.release_full_barrier();
        self.hand_over()
    }

    /// Has the current thread wait at the barrier.
    #[inline(always)]
    fn come_to_barrier(&mut self, predicate: u32, site: CallSite) {
        let thread = &mut self.threads[self.position % MAX_THREADS];
        thread.site = site;
        thread.wait = Wait::Barrier;
        if self.barrier.arrived == 0 {
            self.barrier.site = site;
        }
        self.barrier.sites_differ |= self.barrier.site != site;
        self.barrier.predicates += predicate;
        self.barrier.arrived += 1;
        self.ready.remove(self.position);
    }

    /// Lets the threads at the barrier go if all have come.
    #[inline(always)]
    fn release_full_barrier(&mut self) {
        if self.barrier.arrived == self.live_count {
            self.release_barrier();
        }
    }

    /// Lets the threads at the barrier go: every thread that has not ended is there.
    #[inline(never)]
    fn release_barrier(&mut self) {
        if self.barrier.sites_differ {
            self.report_deadlock();
        }
        let words = self.words;
        self.ready.0[..words].copy_from_slice(&self.live.0[..words]);
        self.released = std::mem::replace(&mut self.barrier, BlockBarrier::EMPTY);
        check::note_block_barrier();
    }

    fn arrive_at_collective(&mut self, offer: Offer, site: CallSite) -> Option<Handover> {
        let (warp, lane) = self.wait_for_warp(site);
        let lanes = &mut self.warps[warp % WARPS];
        lanes.arrive(lane, offer);
        let freed = if lanes.can_complete(&offer) { self.complete(warp, offer) } else { 0 };
        if freed >> lane & 1 == 1 { None } else { self.hand_over() }
    }

    /// Has the current thread wait for its warp; which that is, and its lane.
    #[inline(always)]
    fn wait_for_warp(&mut self, site: CallSite) -> (usize, usize) {
        if self.whole {
            self.report_deadlock();
        }
        self.come_to_collective(site)
    }

    /// The same in every form of kernel.
    #[inline(always)]
    fn come_to_collective(&mut self, site: CallSite) -> (usize, usize) {
        let thread = &mut self.threads[self.position];
        thread.site = site;
        thread.wait = Wait::Warp;
        self.ready.remove(self.position);
        self.warp_and_lane()
    }

    /// Lets the lanes go on whose collective `offer` completes, and returns them.
    #[inline(never)]
    fn complete(&mut self, warp: usize, offer: Offer) -> u32 {
        let freed = self.warps[warp].complete(&offer, self.undefined);
        if freed != 0 {
            match WarpOp::from_number(offer.op) {
                WarpOp::Sync => check::warp_sync(warp, freed),
                WarpOp::Shuffle if self.warps[warp].strays != 0 => self.tell_strays(warp, freed),
                _ => {}
            }
            self.in_folds += self.warps[warp].in_fold(freed);
        }
        self.make_ready(warp, freed);
        freed
    }

    /// Lets `lanes` of `warp` run.
    fn make_ready(&mut self, warp: usize, lanes: u32) {
        if self.is_linear {
            self.ready.insert_lanes(warp, lanes);
        } else {
            for lane in bit_positions(lanes) {
                self.ready.insert(usize::from(self.position_of[warp * LANES + lane]));
            }
        }
    }

    /// Tells a checked replay of lanes that read one which takes no part. They get the value of another
    /// lane, and in a plain replay poison: whether it matters shows in the outputs.
    #[cold]
    fn tell_strays(&mut self, warp: usize, members: u32) {
        for lane in bit_positions(self.warps[warp].strays) {
            let linear = warp * LANES + lane;
            let Lanes { live, offers, .. } = &self.warps[warp];
            let source = offers[lane].argument as usize % LANES;
            let reason = match (warp * LANES + source < self.thread_count, live >> source & 1 == 1)
            {
                (false, _) => "which no thread is".to_owned(),
                (true, false) => "which has ended".to_owned(),
                (true, true) => format!("which is not in the mask {:#010x}", offers[lane].mask),
            };
            let next = (lane + 1..lane + LANES).map(|lane| lane % LANES);
            let other_lane = next.into_iter().find(|&lane| members >> lane & 1 == 1);
            let value = offers[other_lane.unwrap_or(lane)].value;
            let site = self.threads[usize::from(self.position_of[linear])].site;
            if check::stray_lane(linear as u16, &format!("lane {source}, {reason}"), site) {
                self.warps[warp].results[lane] = value;
            }
        }
    }

    fn collective_result(&self) -> u64 {
        let (warp, lane) = self.warp_and_lane();
        self.warps[warp].results[lane]
    }

    /// The current thread has ended: the next one runs on this stack (`None`) or on its own.
    fn end_thread(&mut self) -> Option<Handover> {
        let ended = self.position;
        if self.whole {
            let save = &raw mut self.threads[ended].context;
            return Some(Handover { save, to: self.caller });
        }
        self.leave(ended);
        self.leave_cluster(ended);
        let save = &raw mut self.threads[ended].context;
        if self.live_count == 0 {
            return Some(Handover { save, to: self.caller });
        }
        self.free_who_waited_for(ended);
        if self.all_at_grid() {
            self.free_stacks.push(self.threads[ended].stack);
            return Some(self.pause(Pause::AtGrid, ended));
        }
        let Some(next_ready) = self.ready.next_after(ended, self.words) else {
            self.free_stacks.push(self.threads[ended].stack);
            return Some(self.wait_for_cluster());
        };
        let next_position = self.advance(next_ready);
        self.enter(next_position);
        let stack = self.threads[ended].stack;
        if self.threads[next_position].context != 0 {
            self.free_stacks.push(stack);
            return Some(Handover { save, to: self.threads[next_position].context });
        }
        self.threads[next_position].stack = stack;
        None
    }

    /// Takes the thread at `position`, which has ended, out of its block.
    #[inline(always)]
    fn leave(&mut self, position: usize) {
        let linear = self.threads[position % MAX_THREADS].linear as usize;
        self.ready.remove(position);
        self.live.remove(position);
        self.live_count -= 1;
        self.warps[linear / LANES % WARPS].live &= !(1 << (linear % LANES));
    }

    /// Lets the threads go that need not wait any more, since the one at `position` has ended.
    #[inline(always)]
    fn free_who_waited_for(&mut self, position: usize) {
        self.release_full_barrier();
        let warp = self.threads[position % MAX_THREADS].linear as usize / LANES % WARPS;
        for waiting in bit_positions(self.warps[warp].arrived) {
            if self.warps[warp].arrived >> waiting & 1 == 1 {
                let offer = self.warps[warp].offers[waiting];
                self.complete(warp, offer);
            }
        }
    }

    /// Leaves the threads of the block to the kernel: one thread remains here, which no barrier
    /// releases, so that a kernel which waits after all is reported.
    fn run_whole(&mut self, frame_bytes: usize, scratch_bytes: usize) -> BlockThreads {
        self.whole = true;
        self.live_count = u32::MAX;
        self.ready.fill(1);
        self.block_threads(frame_bytes, scratch_bytes)
    }

    /// The threads of the block, with memory for the frame of each and for the kernel's own use.
    fn block_threads(&mut self, frame_bytes: usize, scratch_bytes: usize) -> BlockThreads {
        let bytes = (frame_bytes * self.thread_count).next_multiple_of(frames::ALIGNMENT);
        let Some(frames) = self.frames.reserve(bytes + scratch_bytes) else {
            let detail = format!("no memory for the variables of {} threads", self.thread_count);
            end_replay("out of memory", detail, current_place());
        };
        let count = self.thread_count as u32;
        let scratch = frames.wrapping_byte_add(bytes);
        BlockThreads { frames, scratch, threads: self.block_threads.as_ptr(), count }
    }
}
