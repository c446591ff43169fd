//! Which accesses of a launch are ordered before the one that happens now.
//!
//! CUDA orders accesses of different threads by barriers of the block, by `__syncwarp`, and by a
//! fence before an atomic that another thread reads (CUDA C++ Programming Guide, "Memory Fence
//! Functions", "Synchronization Functions", "Warp Vote Functions": votes and shuffles order
//! nothing). Pure: knows threads by number and no addresses but those of atomics, as keys.

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
    /// The phase: a number that each block and each barrier begins anew, from 1 and upwards through all of a
    /// replay.
    pub epoch: u32,
    /// The warp synchronisations that the thread's lane knew of.
    pub tick: u32,
}

/// A lane knows of so many warp synchronisations in one phase.
pub(super) const MAX_TICK: u32 = (1 << 18) - 1;

/// What blocks have made known of themselves, by their linear index.
type PublishedClocks = HashMap<u32, Upto>;

/// What a block has made known of itself: everything before an epoch, and of the epoch what threads did before a tick.
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

    /// Adds what `other` knows of the same block.
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

    /// Whether what `lanes` of the warp of `then` did is known, the last of them at `then`. When the others did it in the
    /// same epoch is not told apart: it counts as known if anything of theirs is.
    fn covers(&self, then: &Moment, lanes: u32) -> bool {
        if then.epoch != self.epoch {
            return then.epoch < self.epoch;
        }
        let first = then.thread - then.thread % LANES as u16;
        let other_lanes = lanes & !(1 << (then.thread - first));
        bit_positions(other_lanes).all(|lane| self.ticks.contains_key(&(first + lane as u16)))
            && self.ticks.get(&then.thread).is_some_and(|&tick| then.tick < tick)
    }

    /// Whether what several warps did in the epoch of `then` is known, as far as it is told apart.
    fn covers_warps(&self, then: &Moment) -> bool {
        then.epoch < self.epoch || then.epoch == self.epoch && !self.ticks.is_empty()
    }
}

/// The clocks of the block that runs, and of the atomics of the launch.
#[derive(Default)]
pub(super) struct Clocks {
    block: u32,
    epoch: u32,
    warps: Vec<Warp>,
    /// What the block knows of others since its last barrier.
    known: PublishedClocks,
    /// What it knows by the barrier at which it met others.
    met: Option<Rc<Learned>>,
    /// What single threads have learned since.
    learned: Vec<(u16, PublishedClocks)>,
    /// The threads that have fenced in this epoch, each with what was there to be seen after its last fence.
    fenced: HashMap<u16, Upto>,
    /// The epoch before which everything was fenced by a thread of an earlier epoch.
    fenced_before: u32,
    /// By address: what the threads that changed it atomically have made known.
    published: HashMap<usize, PublishedClocks>,
    /// By thread: the tick of its own lane.
    ticks: Vec<u32>,
    /// Whether a thread has fenced in this launch.
    pub has_fenced: bool,
}

/// What a block passes on to those that it meets at a barrier.
#[derive(Default)]
pub(super) struct Learned {
    known: PublishedClocks,
    /// Whether a thread has fenced.
    fenced: bool,
    /// What was done in these phases, by whomever, is known.
    phases: Range<u32>,
}

impl Learned {
    /// Adds all that was done in `phases`.
    pub(super) fn learn_all(&mut self, phases: Range<u32>) {
        self.phases = phases;
    }

    /// Adds what another block passes on.
    pub(super) fn join(&mut self, other: &Learned) {
        join_clocks(&mut self.known, &other.known);
        self.fenced |= other.fenced;
    }
}

/// What the lanes of a warp know of each other: `replay_rt::check_warp` of
/// `include/replay/check_definitions.h`.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Warp {
    tick: u32,
    /// By lane: up to which tick it knows of each other lane.
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

    /// The phase that has begun last.
    pub(super) fn phase(&self) -> u32 {
        self.epoch
    }

    /// By thread: the synchronisations of its warp that it knows of. The memory stays where it is while a
    /// block runs.
    pub(super) fn ticks(&self) -> &[u32] {
        &self.ticks
    }

    /// What the lanes of each warp know of each other. The memory stays where it is, as that of the ticks.
    pub(super) fn warps(&self) -> &[Warp] {
        &self.warps
    }

    /// Whether the block that runs knows of what others did in this launch.
    pub(super) fn has_learned(&self) -> bool {
        !self.known.is_empty() || !self.learned.is_empty() || self.met.is_some()
    }

    /// What the block that runs passes on, at its end or at a barrier: what it did, and what it knows of others.
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

    /// Whether the block that runs knows all that several blocks did from phase `first` to phase `last`.
    pub(super) fn has_met(&self, first: u32, last: u32) -> bool {
        self.met.as_ref().is_some_and(|met| met.phases.start <= first && last < met.phases.end)
    }

    /// The block that has just begun, or goes on, met others, who knew this.
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

    /// Every thread of the block that has not ended has come to a barrier.
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
            // Beyond what is counted the whole block counts as in order: nothing is told that is not so.
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

    /// `thread` has fenced: what it did so far is there to be seen, what it knows of other lanes of its warp, and all that
    /// its block did before the last barrier.
    pub(super) fn fence(&mut self, thread: u16) {
        self.has_fenced = true;
        let warp = usize::from(thread) / LANES;
        let lane = usize::from(thread) % LANES;
        // What comes behind the fence has another tick.
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

    /// The moment at which `thread` is.
    pub(super) fn now(&self, thread: u16) -> Moment {
        let warp = usize::from(thread) / LANES;
        let lane = usize::from(thread) % LANES;
        let tick = self.warps[warp].of[lane][lane];
        Moment { block: self.block, thread, epoch: self.epoch, tick }
    }

    /// What `thread` of the block that runs knows of `block`.
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

    /// Whether what several warps of another block did in the epoch of `then` is ordered before what `thread` does now.
    pub(super) fn ordered_by_block(&self, then: &Moment, thread: u16) -> bool {
        self.known_of(then.block, thread).any(|upto| upto.covers_warps(then))
    }

    /// Whether what `lanes` of the warp of `then` did at `then` is ordered before what `thread` of
    /// the block that runs does now.
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
