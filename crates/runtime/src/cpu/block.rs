//! Runs the threads of one thread block as coroutines on one operating-system thread.
//!
//! Threads run one after the other in a fixed order, each until it waits for others (a barrier or
//! a collective of its warp) or ends. A thread without a wait costs no switch: the next one
//! starts on the same stack. A kernel in thread-loop form runs all threads itself, in the same order, by
//! one call on the stack of the first. One without waits does so, too, as long as no thread lets others run.
#![allow(unsafe_code)]

pub(super) mod calls;
pub(super) mod coresident;
mod deadlock;
pub(super) mod running;
mod shuffle_reductions;
pub(super) mod turns;

use std::ffi::c_void;
use std::io;
use std::ops::Range;
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
use crate::abi::{BlockState, BlockThread, BlockThreads, CallSite, ThreadPointers, Thunk, WarpOp};
use crate::{end_replay, lack_of_memory};
use replay_base::summary::Poison;

/// The fewest stacks to make: a larger block after small ones then rarely needs new ones.
const LEAST_STACKS: usize = 256;

/// So many collectives of a warp may follow each other while other warps could run.
const MOST_COLLECTIVES: u32 = 1 << 16;

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

/// A context to continue, and where to save the current one.
struct Handover {
    save: *mut usize,
    to: usize,
}

/// Ends the replay because some threads of a block wait for others forever.
pub(super) type Deadlock = fn(&[WaitingGroup]) -> !;

/// One operating-system thread's machinery for running blocks.
pub(super) struct BlockRunner {
    // Hot: read and written at every barrier.
    /// The position of the current thread.
    position: usize,
    schedule: ThreadSchedule,
    barriers: BlockBarriers,
    /// By position in the order of the threads.
    threads: Box<[Thread; MAX_THREADS]>,
    pointers: ThreadPointers,

    warps: Box<[Lanes; WARPS]>,
    form: BlockForm,
    launch: BlockLaunch,
    stacks: ThreadStacks,
    frames: Frames,
    /// While other blocks are alive too.
    together: Option<CoresidentState>,
    /// The result of reading a lane outside of a shuffle.
    undefined: u64,
    deadlock: Deadlock,
    /// This runner's entry in `RUNNING`, if there was room.
    announced: Option<&'static AtomicPtr<BlockRunner>>,
}

/// The threads of the running block, by position: who can run, and who has ended.
#[derive(Default)]
struct ThreadSchedule {
    /// The threads able to run now.
    ready: Positions,
    /// The threads before their end.
    live: Positions,
    live_count: u32,
    /// The words of both sets in use by the block.
    words: usize,
    /// Threads freed by collectives that have not had their turn since. They come before all others, from the last: the
    /// lanes of the last collective in their order, then those of the one before.
    freed: Vec<u16>,
    /// The collectives since a thread outside of their warps had a turn.
    collectives: u32,
}

impl ThreadSchedule {
    /// The thread with the turn after that of the one at `position`: the first freed lane, else the next ready thread,
    /// cyclically.
    #[inline(always)]
    fn next_ready_after(&self, position: usize) -> Option<usize> {
        match self.freed.last() {
            Some(&freed) => Some(freed.into()),
            None => self.ready.next_after(position, self.words),
        }
    }

    /// The thread at `position` gets its turn.
    #[inline(always)]
    fn begin_turn(&mut self, position: usize) {
        if self.freed.last() == Some(&(position as u16)) {
            self.freed.pop();
        }
    }

    /// Counts so many collectives of one warp. After very many without a turn of another warp, whose threads the warp may
    /// be waiting for, its lanes no longer come first.
    fn count_collectives(&mut self, count: u32) {
        self.collectives += count;
        if self.collectives >= MOST_COLLECTIVES {
            self.collectives = 0;
            self.freed.clear();
        }
    }

    /// Lets every live thread run.
    fn make_all_ready(&mut self) {
        self.ready.0[..self.words].copy_from_slice(&self.live.0[..self.words]);
    }
}

/// The current barrier of a block, and the last one.
struct BlockBarriers {
    /// Threads gather at this barrier.
    gathering: BlockBarrier,
    /// This barrier was released last.
    released: BlockBarrier,
}

/// Who runs the threads of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockForm {
    /// The machine: each thread on a stack of its own.
    Stacks,
    /// The kernel, in thread-loop form, in one call on the stack of the first thread.
    WholeBlock,
    /// The same, and the kernel asks whose turn it is.
    Turns,
    /// The kernel, one thread after the other on one stack, until a thread lets others run: it keeps that stack, and
    /// another call of the kernel runs those behind it.
    RestOfBlock,
}

/// The launch whose blocks run.
struct BlockLaunch {
    kernel: Option<BlockKernel>,
    thread_count: usize,
    tables: ThreadTables,
}

/// The threads of a block in their order: the same for all launches of one block shape and order.
struct ThreadTables {
    /// These tables and the indices in `threads` are made for this block shape and order.
    made_for: Option<([u32; 3], Order)>,
    /// Whether every thread stands at the position of its linear index.
    is_linear: bool,
    /// By linear index.
    position_of: Vec<u16>,
    /// By position, as a kernel in thread-loop form sees them.
    block_threads: Vec<BlockThread>,
}

/// The stacks of threads, and of whoever runs the block.
struct ThreadStacks {
    /// None while blocks take turns on them.
    all: Option<Stacks>,
    /// The numbers of the unused ones.
    free: Vec<u32>,
    /// The context of the caller of `run`.
    caller: usize,
}

/// A barrier of the block, and who has come to it.
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
            let kernel = current_runner().launch.kernel.expect("begin_launch came first");
            (kernel.thunk)(kernel.args);
            if let Some(Handover { save, to }) = current_runner().end_thread() {
                switch(save, to);
            }
        }
    }
}

impl BlockRunner {
    /// A runner for the operating-system thread with the built-in variables at `pointers`. Values undefined in CUDA are
    /// `poison`.
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
            schedule: ThreadSchedule::default(),
            barriers: BlockBarriers {
                gathering: BlockBarrier::EMPTY,
                released: BlockBarrier::EMPTY,
            },
            threads: Box::new([UNUSED; MAX_THREADS]),
            pointers,
            warps: Box::new([Lanes::default(); WARPS]),
            form: BlockForm::Stacks,
            launch: BlockLaunch {
                kernel: None,
                thread_count: 0,
                tables: ThreadTables {
                    made_for: None,
                    is_linear: true,
                    position_of: Vec::new(),
                    block_threads: Vec::new(),
                },
            },
            stacks: ThreadStacks { all: None, free: Vec::new(), caller: 0 },
            frames: Frames::default(),
            together: None,
            undefined: u64::from_le_bytes(poison.pattern),
            deadlock,
            announced: None,
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
        if self.stacks.all.as_ref().is_none_or(|stacks| stacks.count() < threads) {
            self.stacks.all = None;
            let stacks = Stacks::new(threads.max(LEAST_STACKS))?;
            // From the last to the first: they are then popped in order.
            self.stacks.free = (0..stacks.count() as u32).rev().collect();
            self.stacks.all = Some(stacks);
        }
        Ok(())
    }

    fn set_launch(&mut self, kernel: BlockKernel, shape: LaunchShape, order: Order) {
        let threads = shape.threads();
        let tables = &mut self.launch.tables;
        if tables.made_for != Some((shape.block, order)) {
            tables.position_of = vec![0; threads];
            tables.block_threads.clear();
            for (position, linear) in order.threads(threads).into_iter().enumerate() {
                tables.position_of[usize::from(linear)] = position as u16;
                self.threads[position].linear = linear.into();
                let index = shape.thread_index(linear.into());
                self.threads[position].index = index;
                tables.block_threads.push(BlockThread { index, linear: linear.into() });
            }
            tables.is_linear = order == Order::LINEAR;
            tables.made_for = Some((shape.block, order));
        }
        self.launch.thread_count = threads;
        self.schedule.words = threads.div_ceil(64);
        self.launch.kernel = Some(kernel);
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
        unsafe { switch(&raw mut self.stacks.caller, first) };
        self.announce(false);
        // The last thread to end could not give its stack back: it ran on it.
        let last = self.threads[self.position].stack;
        self.stacks.free.push(last);
        self.state().in_kernel = 0;
    }

    /// Makes all threads of the next block ready to begin.
    fn begin_block(&mut self) {
        let thread_count = self.launch.thread_count;
        self.schedule.live.fill(thread_count);
        self.schedule.ready.fill(thread_count);
        self.barriers.gathering = BlockBarrier::EMPTY;
        self.form = BlockForm::Stacks;
        self.schedule.freed.clear();
        self.schedule.collectives = 0;
        self.schedule.live_count = thread_count as u32;
        for thread in &mut self.threads[..thread_count] {
            thread.context = 0;
            thread.wait = Wait::Nothing;
            thread.at_cluster = AtCluster::Away;
        }
        for warp in 0..thread_count.div_ceil(LANES) {
            self.warps[warp].reset(thread_count - warp * LANES);
        }
    }

    /// The warp of the current thread, and its lane.
    fn warp_and_lane(&self) -> (usize, usize) {
        let linear = self.threads[self.position].linear as usize;
        (linear / LANES, linear % LANES)
    }

    /// Gives the thread at `position` a stack to begin on; it has not begun.
    fn start(&mut self, position: usize) -> usize {
        let stack = self.stacks.free.pop().expect("there is a stack for every thread");
        self.threads[position].stack = stack;
        let stacks = self.stacks.all.as_mut().expect("begin_launch came first");
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

    /// From the current thread, now waiting, to the next ready one.
    #[inline(always)]
    fn hand_over(&mut self) -> Option<Handover> {
        let Some(next) = self.schedule.next_ready_after(self.position) else {
            return Some(self.wait_for_cluster());
        };
        self.hand_over_to(next)
    }

    /// The thread with the turn after that of the one at `position`.
    #[inline(always)]
    fn next_after(&self, position: usize) -> usize {
        self.schedule.next_ready_after(position).unwrap_or_else(|| self.report_deadlock())
    }

    /// From the current thread to the one at `next_position`.
    #[inline(always)]
    fn hand_over_to(&mut self, next_position: usize) -> Option<Handover> {
        let current_position = self.position;
        self.schedule.begin_turn(next_position);
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

    /// Has the processor fetch the stack of the thread after the one at `position`: the stacks of a block
    /// do not fit into its nearest cache.
    #[inline(always)]
    fn fetch(&self, position: usize) {
        if let Some(next) = self.schedule.next_ready_after(position) {
            fiber::prefetch_context(self.threads[next % MAX_THREADS].context);
        }
    }

    #[inline(always)]
    fn arrive_at_barrier(&mut self, predicate: u32, site: CallSite) -> Option<Handover> {
        if self.form != BlockForm::Stacks {
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
        let gathering = &mut self.barriers.gathering;
        if gathering.arrived == 0 {
            gathering.site = site;
        }
        gathering.sites_differ |= gathering.site != site;
        gathering.predicates += predicate;
        gathering.arrived += 1;
        self.schedule.ready.remove(self.position);
    }

    /// Lets the threads at the barrier go if all have come.
    #[inline(always)]
    fn release_full_barrier(&mut self) {
        if self.barriers.gathering.arrived == self.schedule.live_count {
            self.release_barrier();
        }
    }

    /// Lets the threads at the barrier go: every live thread is there.
    #[inline(never)]
    fn release_barrier(&mut self) {
        if self.barriers.gathering.sites_differ {
            self.report_deadlock();
        }
        self.schedule.make_all_ready();
        self.schedule.collectives = 0;
        self.barriers.released =
            std::mem::replace(&mut self.barriers.gathering, BlockBarrier::EMPTY);
        check::note_block_barrier();
    }

    fn arrive_at_collective(&mut self, offer: Offer, site: CallSite) -> Option<Handover> {
        let (warp, lane) = self.wait_for_warp(site);
        let lanes = &mut self.warps[warp % WARPS];
        lanes.arrive(lane, offer);
        if lanes.can_complete(&offer) {
            self.complete(warp, offer);
        }
        self.hand_over()
    }

    /// Has the current thread wait for its warp. Returns the warp and the lane.
    #[inline(always)]
    fn wait_for_warp(&mut self, site: CallSite) -> (usize, usize) {
        if self.form != BlockForm::Stacks {
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
        self.schedule.ready.remove(self.position);
        self.warp_and_lane()
    }

    /// Lets the lanes go on whose collective `offer` completes, before all other threads.
    #[inline(never)]
    fn complete(&mut self, warp: usize, offer: Offer) {
        let freed = self.warps[warp].complete(&offer, self.undefined);
        if freed != 0 {
            match WarpOp::from_number(offer.op) {
                WarpOp::Sync => check::warp_sync(warp, freed),
                WarpOp::Shuffle if self.warps[warp].strays != 0 => self.tell_strays(warp, freed),
                _ => {}
            }
            self.make_ready(warp, freed);
            self.schedule.count_collectives(self.warps[warp].last_steps);
        }
    }

    /// Lets `lanes` of `warp` run, before all other threads.
    fn make_ready(&mut self, warp: usize, lanes: u32) {
        let ThreadSchedule { ready, freed, .. } = &mut self.schedule;
        let start = freed.len();
        if self.launch.tables.is_linear {
            ready.insert_lanes(warp, lanes);
            freed.extend(bit_positions(lanes).map(|lane| (warp * LANES + lane) as u16));
            freed[start..].reverse();
        } else {
            let positions = &self.launch.tables.position_of[warp * LANES..];
            freed.extend(bit_positions(lanes).map(|lane| positions[lane]));
            freed[start..].iter().for_each(|&position| ready.insert(position.into()));
            freed[start..].sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Reports lanes that read one outside of their shuffle to a checked replay. They get the value of another lane, and
    /// poison in a plain replay: the outputs show whether it matters.
    #[cold]
    fn tell_strays(&mut self, warp: usize, members: u32) {
        for lane in bit_positions(self.warps[warp].strays) {
            let linear = warp * LANES + lane;
            let Lanes { live, offers, .. } = &self.warps[warp];
            let source = offers[lane].argument as usize % LANES;
            let reason =
                match (warp * LANES + source < self.launch.thread_count, live >> source & 1 == 1) {
                    (false, _) => "which no thread is".to_owned(),
                    (true, false) => "which has ended".to_owned(),
                    (true, true) => format!("which is not in the mask {:#010x}", offers[lane].mask),
                };
            let next = (lane + 1..lane + LANES).map(|lane| lane % LANES);
            let other_lane = next.into_iter().find(|&lane| members >> lane & 1 == 1);
            let value = offers[other_lane.unwrap_or(lane)].value;
            let site = self.threads[usize::from(self.launch.tables.position_of[linear])].site;
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
        match self.form {
            BlockForm::Stacks => {}
            BlockForm::RestOfBlock => self.catch_up(),
            BlockForm::WholeBlock | BlockForm::Turns => {
                let save = &raw mut self.threads[self.position].context;
                return Some(Handover { save, to: self.stacks.caller });
            }
        }
        let ended = self.position;
        self.leave(ended);
        self.leave_cluster(ended);
        let save = &raw mut self.threads[ended].context;
        if self.schedule.live_count == 0 {
            return Some(Handover { save, to: self.stacks.caller });
        }
        self.free_who_waited_for(ended);
        if self.all_at_grid() {
            self.stacks.free.push(self.threads[ended].stack);
            return Some(self.pause(Pause::AtGrid, ended));
        }
        let Some(next_position) = self.schedule.next_ready_after(ended) else {
            self.stacks.free.push(self.threads[ended].stack);
            return Some(self.wait_for_cluster());
        };
        self.schedule.begin_turn(next_position);
        self.enter(next_position);
        let stack = self.threads[ended].stack;
        if self.threads[next_position].context != 0 {
            self.stacks.free.push(stack);
            return Some(Handover { save, to: self.threads[next_position].context });
        }
        self.threads[next_position].stack = stack;
        None
    }

    /// Takes the thread at `position` out of its block: it has ended.
    #[inline(always)]
    fn leave(&mut self, position: usize) {
        let linear = self.threads[position % MAX_THREADS].linear as usize;
        self.schedule.ready.remove(position);
        self.schedule.live.remove(position);
        self.schedule.live_count -= 1;
        self.warps[linear / LANES % WARPS].live &= !(1 << (linear % LANES));
    }

    /// The same of several.
    fn leave_all(&mut self, mut positions: Range<usize>) {
        while self.launch.tables.is_linear && !positions.is_empty() {
            let (warp, lane) = (positions.start / LANES, positions.start % LANES);
            let count = positions.len().min(LANES - lane);
            let lanes = (u32::MAX >> (LANES - count)) << lane;
            self.schedule.ready.remove_lanes(warp, lanes);
            self.schedule.live.remove_lanes(warp, lanes);
            self.schedule.live_count -= count as u32;
            self.warps[warp].live &= !lanes;
            positions.start += count;
        }
        for position in positions {
            self.leave(position);
        }
    }

    /// Lets threads go on that need not wait for the one at `position` any more: it has ended.
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

    /// Leaves the threads of the block to the kernel. One thread remains here, and no barrier releases it: a kernel
    /// waiting after all is reported.
    fn run_whole(&mut self, frame_bytes: usize, scratch_bytes: usize) -> BlockThreads {
        self.form = BlockForm::WholeBlock;
        self.schedule.live_count = u32::MAX;
        self.schedule.ready.fill(1);
        self.block_threads(frame_bytes, scratch_bytes)
    }

    /// Leaves the current thread and those behind it to the kernel: none of these has begun.
    fn run_rest(&mut self) -> BlockThreads {
        self.form = BlockForm::RestOfBlock;
        let threads = &self.launch.tables.block_threads[self.position..];
        BlockThreads {
            frames: std::ptr::null_mut(),
            scratch: std::ptr::null_mut(),
            threads: threads.as_ptr(),
            count: threads.len() as u32,
            in_order: 0,
        }
    }

    /// Makes the thread that the kernel runs the current one: those before it in the kernel's loop have ended, and it is
    /// on their stack.
    fn catch_up(&mut self) {
        let first = self.launch.tables.block_threads.as_ptr();
        let running = self.state().running;
        // SAFETY: a loop over the rest of the block set it to one of these threads.
        let position = unsafe { running.offset_from(first) } as usize;
        let stack = self.threads[self.position].stack;
        self.leave_all(self.position..position);
        self.threads[position].stack = stack;
        self.position = position;
    }

    /// The current thread goes on in its kernel's loop, after others had their turn.
    fn return_to_loop(&mut self) {
        if self.form == BlockForm::RestOfBlock {
            let running = &raw const self.launch.tables.block_threads[self.position];
            self.state().running = running;
        }
    }

    /// The threads of the block, with memory for the frame of each and for the kernel's own use.
    fn block_threads(&mut self, frame_bytes: usize, scratch_bytes: usize) -> BlockThreads {
        let bytes = (frame_bytes * self.launch.thread_count).next_multiple_of(frames::ALIGNMENT);
        let Some(frames) = self.frames.reserve(bytes + scratch_bytes) else {
            let detail =
                format!("no memory for the variables of {} threads", self.launch.thread_count);
            end_replay("out of memory", detail, current_place());
        };
        let count = self.launch.thread_count as u32;
        let scratch = frames.wrapping_byte_add(bytes);
        let tables = &self.launch.tables;
        let in_order = u32::from(tables.is_linear);
        BlockThreads { frames, scratch, threads: tables.block_threads.as_ptr(), count, in_order }
    }
}
