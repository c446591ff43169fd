//! The state of each address, in a constant 32 bytes: the last plain read, and the last write or the last atomics.
//! Hooks in device code change it themselves (`include/replay/check_definitions.h`).
//!
//! A longer history is an [`AddressHistory`] elsewhere. A hook handles an access only if the order is certain, and
//! calls the engine for all others. Both do the same.

use super::cells::{AddressHistory, Stamp, StampScope, Touch};
use super::clocks::Moment;

/// `replay_rt::cell` of `include/replay/check_definitions.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PackedCell {
    write: u64,
    read: u64,
    write_site: u32,
    read_site: u32,
    write_lanes: u32,
    read_lanes: u32,
}

// From the highest bit: the phase (32), the thread (10), its tick (18), the scope (2), two marks.
const PHASE: u32 = 32;
const THREAD: u32 = 22;
const TICK: u32 = 4;
const SCOPE: u64 = 3 << 2;
const BLOCK: u64 = 1 << 2;
const GRID: u64 = 2 << 2;
/// Of a write: it is an atomic.
const ATOMIC: u64 = 2;
/// Of a write: the cell is elsewhere, its number above.
const ELSEWHERE: u64 = 1;
/// Of a read: a write came later.
const STALE: u64 = 2;
/// Of a read: the last write is not ordered before all who count as readers.
const CARE: u64 = 1;
/// Nobody may touch this memory.
const PADDING: u64 = u64::MAX;

/// The context of unpacking and packing.
#[derive(Clone, Copy)]
pub(super) struct Past<'o> {
    /// Where phases belong.
    pub origins: &'o Origins,
    /// Phases before this one count for nothing.
    pub floor: u32,
    /// Phases before this one are ordered before everything from now on.
    pub before: u32,
}

impl Past<'_> {
    fn is_over(&self, stamp: &Stamp) -> bool {
        !stamp.is_there() || stamp.moment.epoch < self.before
    }
}

/// The operation and block of each phase.
#[derive(Default)]
pub(super) struct Origins {
    /// The first phase of each, its operation and block.
    blocks: Vec<[u32; 3]>,
}

impl Origins {
    /// From `phase` on `block` of `operation` runs.
    pub(super) fn begin(&mut self, phase: u32, operation: u32, block: u32) {
        self.blocks.push([phase, operation, block]);
    }

    /// The operation and the block of `phase`.
    fn origin_at(&self, phase: u32) -> (u32, u32) {
        // Most often it is the running one.
        if let Some(&[first, operation, block]) = self.blocks.last()
            && first <= phase
        {
            return (operation, block);
        }
        let next = self.blocks.partition_point(|&[first, ..]| first <= phase);
        let block_entry = self.blocks.get(next.wrapping_sub(1)).copied();
        let [_, operation, block] = block_entry.unwrap_or_default();
        (operation, block)
    }
}

/// The histories too long for a cell.
#[derive(Default)]
pub(super) struct CellOverflow {
    cells: Vec<AddressHistory>,
    free: Vec<u32>,
}

impl PackedCell {
    /// Memory beside variables.
    pub(super) const PADDING: PackedCell = PackedCell {
        write: PADDING,
        read: 0,
        write_site: 0,
        read_site: 0,
        write_lanes: 0,
        read_lanes: 0,
    };

    /// A copy with a history of its own.
    pub(super) fn duplicate(&self, elsewhere: &mut CellOverflow) -> PackedCell {
        match self.number() {
            Some(number) => {
                let cell = elsewhere.cells[number];
                PackedCell { write: elsewhere.insert_cell(cell), ..PackedCell::default() }
            }
            None => *self,
        }
    }

    /// Forgets its history.
    pub(super) fn clear(&mut self, elsewhere: &mut CellOverflow) {
        if let Some(number) = self.number() {
            elsewhere.free.push(number as u32);
        }
        *self = PackedCell::default();
    }

    fn number(&self) -> Option<usize> {
        let is_number = self.write & ELSEWHERE != 0 && self.write != PADDING;
        is_number.then_some((self.write >> PHASE) as usize)
    }

    /// Its history.
    pub(super) fn unpack(&self, elsewhere: &CellOverflow, past: &Past<'_>) -> AddressHistory {
        let mut cell = AddressHistory::default();
        if self.write == PADDING {
            return cell;
        }
        if let Some(number) = self.number() {
            cell = elsewhere.cells[number];
            for stamp in &mut cell.last {
                if stamp.moment.epoch < past.floor {
                    *stamp = Stamp::default();
                }
            }
            return cell;
        }
        let kind = if self.write & ATOMIC != 0 { Touch::AtomicWrite } else { Touch::Write };
        cell.last[kind as usize] =
            unpack_stamp(self.write, self.write_lanes, self.write_site, past);
        cell.last[Touch::Read as usize] =
            unpack_stamp(self.read, self.read_lanes, self.read_site, past);
        cell
    }

    /// Keeps `cell` after `touch`.
    pub(super) fn pack(
        &mut self,
        cell: &AddressHistory,
        touch: Touch,
        elsewhere: &mut CellOverflow,
        past: &Past<'_>,
    ) {
        let [read, mut write, mut atomic_read, mut atomic] = cell.last;
        // Atomics from earlier phases need not be stored apart.
        if past.is_over(&atomic_read) && (atomic.is_there() || write.is_there()) {
            atomic_read = Stamp::default();
        }
        if write.is_there() && atomic.is_there() {
            if past.is_over(&write) {
                write = Stamp::default();
            } else if past.is_over(&atomic) {
                atomic = Stamp::default();
            }
        }
        let is_both = write.is_there() && atomic.is_there();
        let is_packable = !(atomic_read.is_there() || is_both);
        if !is_packable {
            match self.number() {
                Some(number) => elsewhere.cells[number] = *cell,
                None => {
                    *self =
                        PackedCell { write: elsewhere.insert_cell(*cell), ..PackedCell::default() }
                }
            }
            return;
        }
        if let Some(number) = self.number() {
            elsewhere.free.push(number as u32);
        }
        let (last, mark) = if atomic.is_there() { (atomic, ATOMIC) } else { (write, 0) };
        let is_careful = !past.is_over(&last);
        let stale = if touch.writes() { STALE } else { 0 };
        let care = if is_careful && read.scope != StampScope::Warp { CARE } else { 0 };
        *self = PackedCell {
            write: pack_stamp(&last, mark),
            read: pack_stamp(&read, stale | care),
            write_site: last.site,
            read_site: read.site,
            write_lanes: last.lanes,
            read_lanes: read.lanes,
        };
    }

    /// An operation without threads writes here, in a phase of its own. Returns false if earlier accesses have to be
    /// compared with it.
    pub(super) fn write_alone(&mut self, phase: u32, over_before: u32) -> bool {
        if !self.is_over(over_before) {
            return false;
        }
        let write = u64::from(phase) << PHASE;
        let write_lanes = 1;
        *self = PackedCell { write, write_lanes, ..PackedCell::default() };
        true
    }

    /// The same for a read.
    pub(super) fn read_alone(&mut self, phase: u32, over_before: u32) -> bool {
        if !self.is_over(over_before) {
            return false;
        }
        (self.read, self.read_lanes, self.read_site) = (u64::from(phase) << PHASE, 1, 0);
        true
    }

    /// Whether its whole history lies in phases before `over_before`.
    fn is_over(&self, over_before: u32) -> bool {
        self.write & ELSEWHERE == 0
            && [self.write, self.read]
                .iter()
                .all(|word| word >> PHASE == 0 || ((word >> PHASE) as u32) < over_before)
    }
}

impl CellOverflow {
    /// Its size in memory.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<AddressHistory>()
    }

    fn insert_cell(&mut self, cell: AddressHistory) -> u64 {
        let number = match self.free.pop() {
            Some(number) => {
                self.cells[number as usize] = cell;
                number as usize
            }
            None => {
                self.cells.push(cell);
                self.cells.len() - 1
            }
        };
        (number as u64) << PHASE | ELSEWHERE
    }
}

fn unpack_stamp(word: u64, lanes: u32, site: u32, past: &Past<'_>) -> Stamp {
    let epoch = (word >> PHASE) as u32;
    if epoch == 0 || epoch < past.floor {
        return Stamp::default();
    }
    let (operation, block) = past.origins.origin_at(epoch);
    let scope = match word & SCOPE {
        BLOCK => StampScope::Block,
        GRID => StampScope::Grid,
        _ => StampScope::Warp,
    };
    let thread = (word >> THREAD) as u16 & 0x3ff;
    let tick = (word >> TICK) as u32 & super::clocks::MAX_TICK;
    Stamp { scope, operation, moment: Moment { block, thread, epoch, tick }, lanes, site }
}

fn pack_stamp(stamp: &Stamp, marks: u64) -> u64 {
    let scope = match stamp.scope {
        StampScope::Nobody => return 0,
        StampScope::Warp => 0,
        StampScope::Block => BLOCK,
        StampScope::Grid => GRID,
    };
    let Moment { thread, epoch, tick, .. } = stamp.moment;
    u64::from(epoch) << PHASE
        | u64::from(thread) << THREAD
        | u64::from(tick) << TICK
        | scope
        | marks
}
