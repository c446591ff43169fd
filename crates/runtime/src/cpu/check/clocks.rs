//! Which accesses of a launch are ordered before the one that happens now.
//!
//! CUDA orders accesses of different threads by barriers of the block, by `__syncwarp`, and by a
//! fence before an atomic that another thread reads (CUDA C++ Programming Guide, "Memory Fence
//! Functions", "Synchronization Functions", "Warp Vote Functions": votes and shuffles order
//! nothing). Pure: threads are numbers, and addresses of atomics are keys.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::super::warp::{LANES, bit_positions};

/// When a thread did something: enough to tell later whether another thread knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// The linear index of the block.
    pub block: u32,
    /// The linear index of the thread in its block.
    pub thread: u16,
    /// The phase, counted from 1 through a replay. Each block and each barrier begins a new one.
    pub epoch: u32,
    /// The warp synchronisations known to the thread's lane.
    pub tick: u32,
}

/// A lane knows of so many warp synchronisations in one phase.
pub(super) const MAX_TICK: u32 = (1 << 18) - 1;

/// The published progress of blocks, by linear index.
type PublishedClocks = HashMap<u32, Upto>;

/// The published progress of a block: everything before an epoch, and of some threads everything before a tick in it.
#[derive(Clone, Debug, Default)]
struct Upto {
    epoch: u32,
    /// By thread: the tick of its lane.
    ticks: HashMap<u16, u32>,
}

impl Upto {
    /// Everything before `epoch`.
    fn all_before(epoch: u32) -> Upto {
        Upto { epoch, ticks: HashMap::new() }
    }

    /// Adds the knowledge of `other` about the same block.
    fn join(&mut self, other: &Upto) {
        if other.epoch > self.epoch {
            *self = other.clone();
        } else if other.epoch == self.epoch {
            for (&thread, &tick) in &other.ticks {
                let known_tick = self.ticks.entry(thread).or_default();
                *known_tick = tick.max(*known_tick);
            }
        }
    }

    /// Whether the accesses of `lanes` in the warp of `then` are known; the last of them happened at `then`. The ticks of
    /// the others in this epoch are not stored, so their accesses count as known if any tick of theirs is.
    fn covers(&self, then: &Moment, lanes: u32) -> bool {
        if then.epoch != self.epoch {
            return then.epoch < self.epoch;
        }
        let first = then.thread - then.thread % LANES as u16;
        let other_lanes = lanes & !(1 << (then.thread - first));
        bit_positions(other_lanes).all(|lane| self.ticks.contains_key(&(first + lane as u16)))
            && self.ticks.get(&then.thread).is_some_and(|&tick| then.tick < tick)
    }

    /// Whether the accesses of several warps in the epoch of `then` are known. Their ticks are not stored.
    fn covers_warps(&self, then: &Moment) -> bool {
        then.epoch < self.epoch || then.epoch == self.epoch && !self.ticks.is_empty()
    }
}

/// The clocks of the running block, and of the atomics of the launch.
#[derive(Default)]
pub(super) struct Clocks {
    block: u32,
    epoch: u32,
    warps: Vec<Warp>,
    /// The block's knowledge of others since its last barrier.
    known: PublishedClocks,
    /// Its knowledge from the last barrier with other blocks.
    met: Option<Rc<Learned>>,
    /// The knowledge of single threads since then.
    learned: Vec<(u16, PublishedClocks)>,
    /// The threads with a fence in this epoch, each with the progress visible after its last fence.
    fenced: HashMap<u16, Upto>,
    /// A thread of an earlier epoch has fenced everything before this epoch.
    fenced_before: u32,
    /// By address: the progress published by atomic changes of it.
    published: HashMap<usize, PublishedClocks>,
    /// By thread: the tick of its own lane.
    ticks: Vec<u32>,
    /// Whether a thread has fenced in this launch.
    pub has_fenced: bool,
}

/// The knowledge of a block. It passes on to all others at a common barrier.
#[derive(Default)]
pub(super) struct Learned {
    known: PublishedClocks,
    /// Whether a thread has fenced.
    fenced: bool,
    /// Everything in these phases is known, whoever did it.
    phases: Range<u32>,
}

impl Learned {
    /// Adds everything in `phases`.
    pub(super) fn learn_all(&mut self, phases: Range<u32>) {
        self.phases = phases;
    }

    /// Adds the knowledge of another block.
    pub(super) fn join(&mut self, other: &Learned) {
        join_clocks(&mut self.known, &other.known);
        self.fenced |= other.fenced;
    }
}

/// The lanes' knowledge of each other in a warp: `replay_rt::check_warp` of
/// `include/replay/check_definitions.h`.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Warp {
    tick: u32,
    /// By lane: for each other lane, the first tick unknown to it.
    of: [[u32; LANES]; LANES],
}

impl Clocks {
    /// A launch begins: nothing of an earlier one matters.
    pub(super) fn begin_launch(&mut self) {
        self.published.clear();
        self.has_fenced = false;
    }

    /// Begins another phase, and returns its number.
    pub(super) fn begin_phase(&mut self) -> u32 {
        self.epoch += 1;
        self.epoch
    }

    /// The latest phase.
    pub(super) fn phase(&self) -> u32 {
        self.epoch
    }

    /// By thread: the synchronisations of its warp known to it. The memory does not move while a
    /// block runs.
    pub(super) fn ticks(&self) -> &[u32] {
        &self.ticks
    }

    /// By warp: the lanes' knowledge of each other. The memory does not move while a block runs.
    pub(super) fn warps(&self) -> &[Warp] {
        &self.warps
    }

    /// Whether the running block knows of accesses of other blocks in this launch.
    pub(super) fn has_learned(&self) -> bool {
        !self.known.is_empty() || !self.learned.is_empty() || self.met.is_some()
    }

    /// The knowledge of the running block at its end or at a barrier, its own accesses included.
    pub(super) fn learned_so_far(&self) -> Learned {
        let mut known = self.known.clone();
        for (_, learned) in &self.learned {
            join_clocks(&mut known, learned);
        }
        if let Some(met) = &self.met {
            join_clocks(&mut known, &met.known);
        }
        known.insert(self.block, Upto::all_before(self.epoch + 1));
        let fenced = !self.fenced.is_empty() || self.fenced_before > 0;
        Learned { known, fenced, phases: 0..0 }
    }

    /// Whether the running block knows everything of several blocks from phase `first` to phase `last`.
    pub(super) fn has_met(&self, first: u32, last: u32) -> bool {
        self.met.as_ref().is_some_and(|met| met.phases.start <= first && last < met.phases.end)
    }

    /// Gives the block that has just begun or resumed the knowledge of the blocks it met.
    pub(super) fn adopt_knowledge(&mut self, met: Rc<Learned>) {
        if met.fenced {
            self.fenced_before = self.epoch;
        }
        self.met = Some(met);
    }

    /// Block `block` of `threads` threads begins.
    pub(super) fn begin_block(&mut self, block: u32, threads: usize) {
        self.block = block;
        self.begin_phase();
        self.forget_ticks();
        let warps = threads.div_ceil(LANES);
        if self.warps.len() < warps {
            self.warps.resize(warps, Warp { tick: 0, of: [[0; LANES]; LANES] });
            self.ticks.resize(warps * LANES, 0);
        }
        self.known.clear();
        self.met = None;
        self.learned.clear();
        self.fenced.clear();
        self.fenced_before = 0;
    }

    /// All live threads of the block have come to a barrier.
    pub(super) fn barrier(&mut self) {
        if !self.fenced.is_empty() {
            self.fenced.clear();
            self.fenced_before = self.epoch + 1;
        }
        self.begin_phase();
        self.forget_ticks();
        for (_, learned) in std::mem::take(&mut self.learned) {
            join_clocks(&mut self.known, &learned);
        }
    }

    fn forget_ticks(&mut self) {
        for (warp, ticks) in self.warps.iter_mut().zip(self.ticks.chunks_mut(LANES)) {
            if warp.tick > 0 {
                *warp = Warp { tick: 0, of: [[0; LANES]; LANES] };
                ticks.fill(0);
            }
        }
    }

    /// The lanes `members` of `warp` have synchronised their memory.
    pub(super) fn warp_sync(&mut self, number: usize, members: u32) {
        if self.warps[number].tick == MAX_TICK {
            // The counter is full: the whole block counts as in order, so no false race is reported.
            self.barrier();
        }
        let warp = &mut self.warps[number];
        warp.tick += 1;
        let mut together = [0; LANES];
        for lane in bit_positions(members) {
            for (latest_tick, &lane_tick) in together.iter_mut().zip(&warp.of[lane]) {
                *latest_tick = lane_tick.max(*latest_tick);
            }
        }
        for lane in bit_positions(members) {
            together[lane] = warp.tick;
        }
        for lane in bit_positions(members) {
            warp.of[lane] = together;
            self.ticks[number * LANES + lane] = warp.tick;
        }
    }

    /// `thread` has fenced. Its accesses so far become visible, as do the accesses of other lanes known to it, and
    /// those of its block before the last barrier.
    pub(super) fn fence(&mut self, thread: u16) {
        self.has_fenced = true;
        let warp = usize::from(thread) / LANES;
        let lane = usize::from(thread) % LANES;
        // Accesses behind the fence get another tick.
        self.warp_sync(warp, 1 << lane);
        let first = thread - lane as u16;
        let known_ticks =
            self.warps[warp].of[lane].iter().enumerate().filter(|&(_, &tick)| tick > 0);
        let ticks =
            known_ticks.map(|(other_lane, &tick)| (first + other_lane as u16, tick)).collect();
        self.fenced.insert(thread, Upto { epoch: self.epoch, ticks });
    }

    /// `thread` changes or reads the word at `address` atomically, or as a volatile.
    pub(super) fn atomic(&mut self, thread: u16, address: usize, reads: bool, writes: bool) {
        if !self.has_fenced {
            return;
        }
        if let Some(published) = self.published.get(&address)
            && reads
            && published.keys().any(|&block| block != self.block)
        {
            match self.learned.iter_mut().find(|(learning_thread, _)| *learning_thread == thread) {
                Some((_, learned)) => join_clocks(learned, published),
                None => self.learned.push((thread, published.clone())),
            }
        }
        if !writes {
            return;
        }
        let fenced = self.fenced.get(&thread).cloned();
        let upto = fenced.unwrap_or_else(|| Upto::all_before(self.fenced_before));
        if upto.epoch > 0 {
            let published = self.published.entry(address).or_default();
            published.entry(self.block).or_default().join(&upto);
            join_clocks(published, &self.known);
            if let Some(met) = &self.met {
                join_clocks(published, &met.known);
            }
            if let Some((_, learned)) =
                self.learned.iter().find(|(learning_thread, _)| *learning_thread == thread)
            {
                join_clocks(published, learned);
            }
        }
    }

    /// The current moment of `thread`.
    pub(super) fn now(&self, thread: u16) -> Moment {
        let warp = usize::from(thread) / LANES;
        let lane = usize::from(thread) % LANES;
        let tick = self.warps[warp].of[lane][lane];
        Moment { block: self.block, thread, epoch: self.epoch, tick }
    }

    /// The knowledge of `thread` in the running block about `block`.
    fn known_of(&self, block: u32, thread: u16) -> impl Iterator<Item = &Upto> {
        let learned = self
            .learned
            .iter()
            .find(|(learning_thread, _)| *learning_thread == thread)
            .map(|(_, learned)| learned);
        let met = self.met.as_ref().map(|met| &met.known);
        let known_sources = [Some(&self.known), learned, met].into_iter().flatten();
        known_sources.filter_map(move |known_source| known_source.get(&block))
    }

    /// Whether the accesses of several warps of another block in the epoch of `then` are ordered before `thread` now.
    pub(super) fn ordered_by_block(&self, then: &Moment, thread: u16) -> bool {
        self.known_of(then.block, thread).any(|upto| upto.covers_warps(then))
    }

    /// Whether the accesses of `lanes` in the warp of `then` are ordered before `thread` of the running block now; the
    /// last of them happened at `then`.
    pub(super) fn ordered(&self, then: &Moment, lanes: u32, thread: u16) -> bool {
        if then.block != self.block {
            return self.known_of(then.block, thread).any(|upto| upto.covers(then, lanes));
        }
        if then.epoch < self.epoch {
            return true;
        }
        let warp = usize::from(thread) / LANES;
        let lane = usize::from(thread) % LANES;
        if usize::from(then.thread) / LANES != warp {
            return false;
        }
        let other_lanes = lanes & !(1 << lane);
        bit_positions(other_lanes)
            .all(|other_lane| self.warps[warp].of[lane][other_lane] > then.tick)
    }
}

fn join_clocks(known_blocks: &mut PublishedClocks, other_blocks: &PublishedClocks) {
    for (&block, upto) in other_blocks {
        known_blocks.entry(block).or_default().join(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u32) -> Clocks {
        let mut clocks = Clocks::default();
        clocks.begin_block(number, 64);
        clocks
    }

    fn alone(moment: Moment) -> u32 {
        1 << (usize::from(moment.thread) % LANES)
    }

    #[test]
    fn a_barrier_orders_the_threads_of_a_block() {
        let mut clocks = block(0);
        let then = clocks.now(3);
        assert!(!clocks.ordered(&then, alone(then), 40));
        clocks.barrier();
        assert!(clocks.ordered(&then, alone(then), 40));
    }

    #[test]
    fn a_warp_synchronisation_orders_the_lanes_that_take_part() {
        let mut clocks = block(0);
        let then = clocks.now(3);
        clocks.warp_sync(0, 0x0f);
        assert!(clocks.ordered(&then, alone(then), 2));
        assert!(!clocks.ordered(&then, alone(then), 7));
        assert!(!clocks.ordered(&then, alone(then), 35));
        // Lane 7 learns it from lane 2.
        clocks.warp_sync(0, 1 << 2 | 1 << 7);
        assert!(clocks.ordered(&then, alone(then), 7));
        let later = clocks.now(3);
        assert!(!clocks.ordered(&later, alone(later), 7));
    }

    #[test]
    fn a_thread_is_ordered_after_itself() {
        let clocks = block(0);
        let then = clocks.now(3);
        assert!(clocks.ordered(&then, alone(then), 3));
    }

    #[test]
    fn a_fence_and_an_atomic_order_blocks() {
        let mut clocks = block(0);
        let then = clocks.now(5);
        clocks.barrier();
        clocks.fence(0);
        clocks.atomic(0, 0x100, true, true);
        clocks.begin_block(1, 64);
        assert!(!clocks.ordered(&then, alone(then), 0));
        clocks.atomic(0, 0x100, true, true);
        assert!(clocks.ordered(&then, alone(then), 0));
        assert!(!clocks.ordered(&then, alone(then), 1));
        clocks.barrier();
        assert!(clocks.ordered(&then, alone(then), 1));
    }

    #[test]
    fn blocks_that_meet_know_what_each_did_before_and_not_what_comes_later() {
        let mut clocks = block(0);
        let then = clocks.now(5);
        let mut all = clocks.learned_so_far();
        clocks.begin_block(1, 64);
        assert!(!clocks.ordered(&then, alone(then), 0));
        let of_the_other = clocks.now(7);
        all.join(&clocks.learned_so_far());
        let all = Rc::new(all);
        clocks.begin_block(0, 64);
        clocks.adopt_knowledge(Rc::clone(&all));
        assert!(clocks.ordered(&of_the_other, alone(of_the_other), 5));
        assert!(clocks.ordered(&then, alone(then), 6));
        let later = clocks.now(5);
        clocks.begin_block(1, 64);
        clocks.adopt_knowledge(all);
        assert!(clocks.ordered(&then, alone(then), 0));
        assert!(!clocks.ordered(&later, alone(later), 0));
    }

    #[test]
    fn a_thread_publishes_what_it_did_before_its_fence_and_nothing_behind_it() {
        let mut clocks = block(0);
        let before = clocks.now(0);
        let of_another = clocks.now(5);
        clocks.fence(0);
        let behind = clocks.now(0);
        clocks.atomic(0, 0x100, false, true);
        clocks.begin_block(1, 64);
        clocks.atomic(3, 0x100, true, false);
        assert!(clocks.ordered(&before, alone(before), 3));
        assert!(!clocks.ordered(&behind, alone(behind), 3));
        assert!(!clocks.ordered(&of_another, alone(of_another), 3));
    }

    #[test]
    fn a_fence_publishes_what_lanes_did_before_they_synchronised_with_its_thread() {
        let mut clocks = block(0);
        let then = clocks.now(5);
        clocks.warp_sync(0, 0xff);
        let later = clocks.now(5);
        clocks.fence(0);
        clocks.atomic(0, 0x100, false, true);
        clocks.begin_block(1, 64);
        clocks.atomic(3, 0x100, true, false);
        assert!(clocks.ordered(&then, alone(then), 3));
        assert!(!clocks.ordered(&later, alone(later), 3));
    }

    #[test]
    fn an_atomic_without_a_fence_orders_nothing() {
        let mut clocks = block(0);
        let then = clocks.now(0);
        clocks.atomic(0, 0x100, true, true);
        clocks.begin_block(1, 64);
        clocks.atomic(0, 0x100, true, true);
        assert!(!clocks.ordered(&then, alone(then), 0));
    }

    #[test]
    fn what_was_fenced_before_a_barrier_is_published_by_any_thread_behind_it() {
        let mut clocks = block(0);
        let then = clocks.now(9);
        clocks.fence(9);
        clocks.barrier();
        clocks.atomic(0, 0x100, true, true);
        clocks.begin_block(1, 64);
        clocks.atomic(0, 0x100, true, false);
        assert!(clocks.ordered(&then, alone(then), 0));
    }
}
