//! The history of each address: as few of its last writes and reads as find every race.
//!
//! Pure: the caller says whether accesses are ordered. The rules are those of FastTrack (Flanagan and Freund,
//! PLDI 2009). The threads of a warp, a block and a grid take the place of a vector clock, so the state of an address
//! has a constant size (as in HiRace, Jacobson et al., 2024).

use super::clocks::Moment;

/// How an access touches memory. Atomics and volatiles are the same here: two of them never race. An atomic with
/// both a read and a write counts as a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// A plain load.
    Read,
    /// A plain store.
    Write,
    /// An atomic or volatile load.
    AtomicRead,
    /// An atomic or volatile store, or an atomic with a read and a write.
    AtomicWrite,
}

impl Touch {
    /// Every way.
    const ALL: [Touch; 4] = [Touch::Read, Touch::Write, Touch::AtomicRead, Touch::AtomicWrite];

    /// Whether it changes memory.
    pub(super) fn writes(self) -> bool {
        matches!(self, Touch::Write | Touch::AtomicWrite)
    }

    /// Whether it is an atomic or a volatile.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Touch::AtomicRead | Touch::AtomicWrite)
    }

    /// Whether two of them race where nothing orders them.
    fn conflicts_with(self, other_touch: Touch) -> bool {
        (self.writes() || other_touch.writes()) && !(self.is_atomic() && other_touch.is_atomic())
    }
}

/// The threads of a [`Stamp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StampScope {
    /// None: the address was not touched so.
    #[default]
    Nobody,
    /// Lanes of one warp.
    Warp,
    /// Several warps of one block, in one epoch.
    Block,
    /// Several blocks.
    Grid,
}

/// One or more accesses of one kind to an address, without an order among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The threads.
    pub(super) scope: StampScope,
    /// The operation, from 1: a launch, a copy, a fill; 0 for nobody.
    pub operation: u32,
    /// The last of them.
    pub moment: Moment,
    /// The participating lanes of its warp; of several blocks, the phase of the first.
    pub(super) lanes: u32,
    /// Where in the code the last of them stands.
    pub site: u32,
}

impl Stamp {
    fn from_access(access: &CheckedAccess<'_>) -> Stamp {
        Stamp {
            scope: StampScope::Warp,
            operation: access.operation,
            moment: access.moment,
            lanes: 1 << (access.moment.thread % 32),
            site: access.site,
        }
    }

    /// Whether anybody touched it.
    pub(super) fn is_there(&self) -> bool {
        self.scope != StampScope::Nobody
    }

    /// One of its threads besides the last one, if another is known.
    pub(super) fn another_lane(&self) -> Option<u16> {
        let Moment { thread, .. } = self.moment;
        let other_lanes = self.lanes & !(1 << (thread % 32));
        (self.scope == StampScope::Warp && other_lanes != 0)
            .then(|| thread / 32 * 32 + other_lanes.trailing_zeros() as u16)
    }

    /// Whether all of it is ordered before `access`.
    pub(super) fn is_before(&self, access: &CheckedAccess<'_>) -> bool {
        match self.scope {
            StampScope::Nobody => true,
            _ if self.operation != access.operation => (access.follows)(self.operation),
            StampScope::Warp => (access.ordered)(&self.moment, self.lanes),
            StampScope::Block if self.moment.block == access.moment.block => {
                self.moment.epoch < access.moment.epoch
            }
            StampScope::Block => (access.ordered_by_block)(&self.moment),
            StampScope::Grid => (access.met)(self.lanes, self.moment.epoch),
        }
    }

    /// This one together with `access`; the two are not ordered.
    fn widened(self, access: &CheckedAccess<'_>) -> Stamp {
        let next = Stamp::from_access(access);
        if self.operation != next.operation {
            return next;
        }
        let then = self.moment;
        let now = next.moment;
        let scope = match self.scope {
            StampScope::Grid => StampScope::Grid,
            _ if then.block != now.block => StampScope::Grid,
            StampScope::Warp if then.thread / 32 == now.thread / 32 => StampScope::Warp,
            _ => StampScope::Block,
        };
        let lanes = match (self.scope, scope) {
            (StampScope::Grid, _) => self.lanes,
            (_, StampScope::Grid) => then.epoch,
            _ => self.lanes | next.lanes,
        };
        Stamp { scope, lanes, ..next }
    }
}

/// One access, and the knowledge of its thread.
pub(super) struct CheckedAccess<'a> {
    /// Whether it reads or writes, and how.
    pub touch: Touch,
    pub operation: u32,
    /// Block, thread and time.
    pub moment: Moment,
    /// Where in the code it stands.
    pub site: u32,
    /// Whether accesses of lanes of a warp at a moment of this launch are ordered before it.
    pub ordered: &'a dyn Fn(&Moment, u32) -> bool,
    /// Whether accesses of several warps of another block in the phase of a moment are.
    pub ordered_by_block: &'a dyn Fn(&Moment) -> bool,
    /// Whether accesses of several blocks, from one phase to another, are ordered before it.
    pub met: &'a dyn Fn(u32, u32) -> bool,
    /// Whether an earlier operation is ordered before this one.
    pub follows: &'a dyn Fn(u32) -> bool,
}

/// The state of one address: the last accesses of each [`Touch`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddressHistory {
    /// By [`Touch`].
    pub(super) last: [Stamp; 4],
}

/// The earlier one of two unordered accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Race {
    /// Whether it read or wrote, and how.
    pub touch: Touch,
    /// Its threads, and their time.
    pub by: Stamp,
}

impl AddressHistory {
    /// Whether anybody wrote here.
    pub(super) fn is_written(&self) -> bool {
        Touch::ALL.iter().any(|&touch| touch.writes() && self.last[touch as usize].is_there())
    }

    /// Forgets the last read, if it is of `moment`'s thread alone and no others have read since.
    pub(super) fn forget_read(&mut self, operation: u32, moment: &Moment) {
        let last_read = &mut self.last[Touch::Read as usize];
        let is_own = last_read.scope == StampScope::Warp
            && last_read.operation == operation
            && (last_read.moment.block, last_read.moment.thread) == (moment.block, moment.thread)
            && last_read.lanes == 1 << (moment.thread % 32);
        if is_own {
            *last_read = Stamp::default();
        }
    }

    /// The flag read by `access`: an atomic write of another thread, if `access` is an atomic read and nothing else
    /// orders the two.
    pub(super) fn flag(&self, access: &CheckedAccess<'_>) -> Option<Race> {
        let by = self.last[Touch::AtomicWrite as usize];
        let is_flag = access.touch == Touch::AtomicRead && by.operation == access.operation;
        (is_flag && !by.is_before(access)).then_some(Race { touch: Touch::AtomicWrite, by })
    }

    /// Remembers `access` and returns the earlier access of its race, if it has one.
    pub(super) fn touch(&mut self, access: &CheckedAccess<'_>) -> Option<Race> {
        let race = Touch::ALL
            .into_iter()
            .filter(|touch| touch.conflicts_with(access.touch))
            .map(|touch| Race { touch, by: self.last[touch as usize] })
            .find(|race| !race.by.is_before(access));
        if access.touch == Touch::Write {
            // An access racing with an earlier ordered atomic races with this one as well.
            for kind in [Touch::AtomicRead, Touch::AtomicWrite] {
                let atomic = &mut self.last[kind as usize];
                if atomic.is_before(access) {
                    *atomic = Stamp::default();
                }
            }
        }
        let last_stamp = &mut self.last[access.touch as usize];
        *last_stamp = if last_stamp.is_before(access) {
            Stamp::from_access(access)
        } else {
            last_stamp.widened(access)
        };
        if race.is_some() && access.touch == Touch::Write {
            // One finding for each write: earlier accesses need not be reported again.
            self.last = Default::default();
            self.last[Touch::Write as usize] = Stamp::from_access(access);
        }
        race
    }
}

#[cfg(test)]
mod tests {
    use super::super::clocks::Clocks;
    use super::*;

    struct Machine {
        clocks: Clocks,
        cell: AddressHistory,
        operation: u32,
    }

    impl Machine {
        fn new() -> Machine {
            let mut clocks = Clocks::default();
            clocks.begin_block(0, 64);
            Machine { clocks, cell: AddressHistory::default(), operation: 1 }
        }

        fn access<T>(
            &mut self,
            thread: u16,
            touch: Touch,
            work: impl FnOnce(&mut AddressHistory, &CheckedAccess<'_>) -> T,
        ) -> T {
            let clocks = &self.clocks;
            let access = CheckedAccess {
                touch,
                operation: self.operation,
                moment: clocks.now(thread),
                site: 0,
                ordered: &|then, lanes| clocks.ordered(then, lanes, thread),
                ordered_by_block: &|then| clocks.ordered_by_block(then, thread),
                met: &|first, last| clocks.has_met(first, last),
                follows: &|_| true,
            };
            work(&mut self.cell, &access)
        }

        fn touch(&mut self, thread: u16, touch: Touch) -> Option<Touch> {
            self.access(thread, touch, |cell, access| cell.touch(access).map(|race| race.touch))
        }

        fn flag(&mut self, thread: u16, touch: Touch) -> bool {
            self.access(thread, touch, |cell, access| cell.flag(access).is_some())
        }
    }

    use Touch::{AtomicRead, AtomicWrite, Read, Write};

    #[test]
    fn every_pair_of_touches_by_two_threads_races_or_not_as_cuda_says() {
        for (first, second, races) in [
            (Read, Read, false),
            (Read, Write, true),
            (Write, Read, true),
            (Write, Write, true),
            (AtomicWrite, AtomicWrite, false),
            (AtomicRead, AtomicWrite, false),
            (AtomicWrite, Read, true),
            (AtomicWrite, Write, true),
            (Read, AtomicWrite, true),
            (Read, AtomicRead, false),
            (Write, AtomicRead, true),
        ] {
            for other in [1, 40] {
                let mut machine = Machine::new();
                assert_eq!(machine.touch(0, first), None);
                let found = machine.touch(other, second);
                assert_eq!(found.is_some(), races, "{first:?} {second:?} by {other}");
            }
            let mut machine = Machine::new();
            machine.touch(0, first);
            machine.clocks.barrier();
            assert_eq!(machine.touch(40, second), None);
        }
    }

    #[test]
    fn an_atomic_read_of_what_another_thread_wrote_atomically_is_of_a_flag_until_a_barrier() {
        let flag = |write: Touch, read: Touch, reader: u16, is_behind_a_barrier: bool| {
            let mut machine = Machine::new();
            machine.touch(0, write);
            if is_behind_a_barrier {
                machine.clocks.barrier();
            }
            machine.flag(reader, read)
        };
        assert!(flag(AtomicWrite, AtomicRead, 40, false));
        assert!(flag(AtomicWrite, AtomicRead, 1, false));
        assert!(!flag(AtomicWrite, AtomicRead, 0, false));
        assert!(!flag(AtomicWrite, AtomicRead, 40, true));
        assert!(!flag(AtomicWrite, AtomicWrite, 40, false));
        assert!(!flag(Write, AtomicRead, 40, false));
    }

    #[test]
    fn a_reader_among_many_is_not_forgotten() {
        for readers in [vec![0, 1], vec![0, 40], vec![40, 0], vec![0, 1, 40, 41]] {
            let mut machine = Machine::new();
            for &reader in &readers {
                assert_eq!(machine.touch(reader, Read), None);
            }
            // The writer is the last reader, too: the others are not ordered before it.
            assert_eq!(machine.touch(*readers.last().unwrap(), Write), Some(Read), "{readers:?}");
        }
    }

    #[test]
    fn readers_before_a_barrier_do_not_race_with_a_writer_behind_it() {
        let mut machine = Machine::new();
        machine.touch(0, Read);
        machine.touch(40, Read);
        machine.clocks.barrier();
        assert_eq!(machine.touch(7, Write), None);
    }

    #[test]
    fn a_read_that_is_forgotten_races_with_nobody_and_those_of_others_do() {
        let mut machine = Machine::new();
        machine.touch(0, Read);
        machine.cell.forget_read(1, &machine.clocks.now(40));
        assert_eq!(machine.touch(40, AtomicWrite), Some(Read));
        let mut machine = Machine::new();
        machine.touch(0, Read);
        machine.cell.forget_read(1, &machine.clocks.now(0));
        assert_eq!(machine.touch(40, AtomicWrite), None);
        let mut machine = Machine::new();
        machine.touch(0, Read);
        machine.touch(1, Read);
        machine.cell.forget_read(1, &machine.clocks.now(1));
        assert_eq!(machine.touch(1, AtomicWrite), Some(Read));
    }

    #[test]
    fn a_plain_write_is_not_hidden_by_an_atomic_of_the_same_thread() {
        let mut machine = Machine::new();
        machine.touch(0, Write);
        machine.touch(0, AtomicWrite);
        assert_eq!(machine.touch(1, AtomicWrite), Some(Write));
    }

    #[test]
    fn blocks_that_touch_one_address_race() {
        let mut machine = Machine::new();
        machine.touch(0, Write);
        machine.clocks.barrier();
        machine.clocks.begin_block(1, 64);
        assert_eq!(machine.touch(0, Read), Some(Write));
    }

    #[test]
    fn a_later_launch_is_ordered_behind_all_of_an_earlier_one() {
        let mut machine = Machine::new();
        machine.touch(0, Write);
        machine.touch(40, AtomicWrite);
        machine.operation = 2;
        assert_eq!(machine.touch(3, Read), None);
        assert_eq!(machine.touch(3, Write), None);
    }
}
