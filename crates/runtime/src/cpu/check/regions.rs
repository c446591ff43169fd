//! The memory whose accesses are checked: allocations, variables, the shared memory of the block.
//!
//! Finds the cells of an address.

use std::collections::BTreeMap;

use super::super::host_memory;
use super::packed_cells::{CellOverflow, PackedCell};
use super::state::{GRAIN, Slot};
use crate::lack_of_memory;

/// The most bytes of a cell, as a power of two.
const WIDEST: u32 = 2;

/// One piece of memory.
pub(super) struct CheckedRegion {
    begin: usize,
    bytes: usize,
    /// Its name in messages.
    pub label: String,
    /// Whether all of it was written before the first kernel.
    written: bool,
    /// Whether each block has its own.
    pub shared: bool,
    /// Whether host code may touch it too.
    pub managed: bool,
    /// Bytes of a cell, as a power of two: as few as the narrowest access so far needed.
    shift: u32,
    cells: Cells,
}

impl CheckedRegion {
    /// `bytes` at `begin`; `written` says whether they hold something.
    pub(super) fn new(begin: usize, bytes: usize, label: String, written: bool) -> CheckedRegion {
        let cells = Cells::new(bytes.div_ceil(1 << WIDEST));
        let shift = WIDEST;
        CheckedRegion { begin, bytes, label, written, shared: false, managed: false, shift, cells }
    }

    /// Shared memory without variables.
    pub(super) fn new_shared(begin: usize, bytes: usize) -> CheckedRegion {
        let mut region = CheckedRegion::new(begin, bytes, "shared memory".to_owned(), false);
        region.shared = true;
        region.cells.as_mut_slice().fill(PackedCell::PADDING);
        region
    }

    /// All of it is written.
    pub(super) fn holds_input(&mut self) {
        self.written = true;
    }

    /// Its addresses.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.begin..self.begin + self.bytes
    }

    /// Its description for the hooks.
    pub(super) fn slot(&mut self) -> Slot {
        let cells = self.cells.as_mut_slice().as_mut_ptr();
        let flags = u32::from(self.written) | u32::from(self.shared) << 1;
        Slot { begin: self.begin, bytes: self.bytes, cells, shift: self.shift, flags }
    }

    /// The size of the cells of `bytes` at first.
    pub(super) fn cells_of(bytes: usize) -> usize {
        Cells::bytes(bytes.div_ceil(1 << WIDEST))
    }

    /// Bytes of its memory and its cells; 0 for shared memory, since it is not taken from the device's.
    pub(super) fn allocated_bytes(&self) -> usize {
        if self.shared { 0 } else { self.bytes + Cells::bytes(self.cells.count) }
    }

    /// Further bytes for its cells after an access of `bytes` at `offset`.
    pub(super) fn growth(&self, offset: usize, bytes: usize) -> usize {
        if self.shared || !self.splits(offset, bytes) {
            return 0;
        }
        let cells = self.bytes.div_ceil(1 << narrowest_cell_shift(offset, bytes));
        Cells::bytes(cells) - Cells::bytes(self.cells.count)
    }

    /// The offset of an access of `bytes` whose last byte lies `distance` behind the end, or whose first
    /// one before the begin if `distance` is negative.
    pub(super) fn outside(&self, distance: i64, bytes: usize) -> i64 {
        match distance {
            ..0 => distance,
            _ => self.bytes as i64 + distance - bytes as i64,
        }
    }

    /// The offset of `address`.
    pub(super) fn offset(&self, address: usize) -> usize {
        address - self.begin
    }

    /// Whether an address whose cell `is_written` or not holds something.
    pub(super) fn is_written(&self, is_written: bool) -> bool {
        self.written || is_written
    }

    /// The bytes up to the end of the last access; 0 if there was none.
    pub(super) fn touched_bytes(&mut self) -> usize {
        let mut cells = self.cells.as_mut_slice().iter();
        let last_touched = cells.rposition(|cell| *cell != PackedCell::default());
        last_touched.map_or(0, |last| ((last + 1) << self.shift).min(self.bytes))
    }

    /// Whether cells are made narrower for an access of `bytes` at `offset`.
    pub(super) fn splits(&self, offset: usize, bytes: usize) -> bool {
        narrowest_cell_shift(offset, bytes) < self.shift
    }

    /// The cells of `bytes` at `offset`, each with the offset of its first byte.
    pub(super) fn cells(
        &mut self,
        offset: usize,
        bytes: usize,
        elsewhere: &mut CellOverflow,
    ) -> impl Iterator<Item = usize> + use<> {
        if self.splits(offset, bytes) {
            self.refine(narrowest_cell_shift(offset, bytes), elsewhere);
        }
        let shift = self.shift;
        (offset >> shift..(offset + bytes).div_ceil(1 << shift)).map(move |cell| cell << shift)
    }

    /// The cells completely inside `bytes` at `offset`.
    pub(super) fn whole_cells(&mut self, offset: usize, bytes: usize) -> &mut [PackedCell] {
        let shift = self.shift;
        let range = offset.div_ceil(1 << shift)..(offset + bytes) >> shift;
        self.cells.as_mut_slice().get_mut(range).unwrap_or_default()
    }

    /// The cell of the byte at `offset`.
    pub(super) fn cell(&mut self, offset: usize) -> &mut PackedCell {
        let index = offset >> self.shift;
        &mut self.cells.as_mut_slice()[index]
    }

    /// Makes cells of fewer bytes; each gets the history of its old cell.
    fn refine(&mut self, shift: u32, elsewhere: &mut CellOverflow) {
        let parts = 1 << (self.shift - shift);
        let fine = Cells::new(self.bytes.div_ceil(1 << shift));
        let mut coarse = std::mem::replace(&mut self.cells, fine);
        self.shift = shift;
        let fine = self.cells.as_mut_slice();
        for (index, cell) in coarse.as_mut_slice().iter_mut().enumerate() {
            if *cell == PackedCell::default() {
                continue;
            }
            let end = ((index + 1) * parts).min(fine.len());
            for part in &mut fine[index * parts..end] {
                *part = cell.duplicate(elsewhere);
            }
            cell.clear(elsewhere);
        }
    }
}

/// The width of the cells for an access, as a power of two.
fn narrowest_cell_shift(offset: usize, bytes: usize) -> u32 {
    (offset | bytes | 1 << WIDEST).trailing_zeros()
}

/// Cells in a mapping of their own: untouched ones take no memory.
struct Cells {
    map: *mut PackedCell,
    count: usize,
}

#[allow(unsafe_code)]
impl Cells {
    fn bytes(count: usize) -> usize {
        count.max(1) * size_of::<PackedCell>()
    }

    fn new(count: usize) -> Cells {
        let bytes = Cells::bytes(count);
        host_memory::reserve_machine_memory(bytes);
        // SAFETY: a new mapping at an address of the system's choice.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            lack_of_memory("what is checked", bytes, &std::io::Error::last_os_error());
        }
        Cells { map: map.cast(), count }
    }

    fn as_mut_slice(&mut self) -> &mut [PackedCell] {
        // SAFETY: so many are mapped, and any bytes are one. Hooks change them only while device code runs, and it does
        // not run while the engine looks at them.
        unsafe { std::slice::from_raw_parts_mut(self.map, self.count) }
    }
}

#[allow(unsafe_code)]
impl Drop for Cells {
    fn drop(&mut self) {
        host_memory::release_machine_memory(Cells::bytes(self.count));
        // SAFETY: mapped by `new`, so many bytes; nobody else has it.
        unsafe { libc::munmap(self.map.cast(), Cells::bytes(self.count)) };
    }
}

/// Where an address lies.
pub(super) enum RegionMatch<'r> {
    /// All of the access in one region.
    Inside(&'r mut CheckedRegion),
    /// Not all of it, and this one is the nearest: a byte of it lies this far behind the end, or, if negative,
    /// before the begin.
    Beside(&'r CheckedRegion, i64),
    /// In unchecked memory.
    Elsewhere,
}

/// All regions but shared memory.
#[derive(Default)]
pub(super) struct Regions {
    by_begin: BTreeMap<usize, CheckedRegion>,
    /// By begin: the end of the guarded memory around a region. Every access in it belongs to the region.
    reach: BTreeMap<usize, usize>,
}

impl Regions {
    /// Adds a region, whose surroundings up to `reach` belong to it.
    pub(super) fn add(&mut self, region: CheckedRegion, reach: std::ops::Range<usize>) {
        self.reach.insert(reach.start, reach.end);
        self.by_begin.insert(region.begin, region);
    }

    /// All regions.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut CheckedRegion> {
        self.by_begin.values_mut()
    }

    /// Removes the region at `begin`.
    pub(super) fn remove(&mut self, begin: usize) -> Option<CheckedRegion> {
        self.by_begin.remove(&begin)
    }

    /// The slot of the [`GRAIN`] bytes around `address`, for the hooks.
    pub(super) fn slot(&mut self, address: usize) -> Option<Slot> {
        let grain_begin = address & !(GRAIN - 1);
        let region_before = self.by_begin.range_mut(..grain_begin + GRAIN).next_back();
        match region_before {
            Some((_, region)) if region.range().contains(&address) => Some(region.slot()),
            Some((_, region)) if region.range().end > grain_begin => None,
            _ => {
                let reach = self.reach.range(..grain_begin + GRAIN).next_back();
                let is_near = reach.is_some_and(|(_, &end)| end > grain_begin);
                (!is_near).then_some(Slot::unchecked(address))
            }
        }
    }

    /// Where `bytes` at `address` lie.
    pub(super) fn find(&mut self, address: usize, bytes: usize) -> RegionMatch<'_> {
        let region_before = self.by_begin.range(..=address).next_back();
        let past = region_before.map(|(region_begin, region)| {
            (address + bytes).saturating_sub(region_begin + region.bytes)
        });
        if past == Some(0) {
            let (_, region) = self.by_begin.range_mut(..=address).next_back().expect("found");
            return RegionMatch::Inside(region);
        }
        let reach = self.reach.range(..=address).next_back();
        if reach.is_none_or(|(_, &end)| address >= end) {
            return RegionMatch::Elsewhere;
        }
        let region_before = self.by_begin.range(..=address).next_back();
        let region_behind = self.by_begin.range(address..).next();
        let until = region_behind.map(|(region_begin, _)| region_begin - address);
        match (region_before.zip(past), region_behind.zip(until)) {
            (Some(((_, region), past)), until) if until.is_none_or(|(_, until)| past <= until) => {
                RegionMatch::Beside(region, past as i64)
            }
            (_, Some(((_, region), until))) => RegionMatch::Beside(region, -(until as i64)),
            _ => RegionMatch::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_written(region: &mut CheckedRegion, offset: usize) -> bool {
        *region.cell(offset) != PackedCell::default()
    }

    #[test]
    fn narrow_accesses_split_cells_and_keep_their_past() {
        let mut region = CheckedRegion::new(0x1000, 4096 * 4 + 2, "x".into(), false);
        let cells = &mut CellOverflow::default();
        region.cells(8, 4, cells).for_each(drop);
        assert!(region.cell(8).write_alone(1, 1));
        assert_eq!(region.cells(8, 4, cells).collect::<Vec<_>>(), [8]);
        assert_eq!(region.cells(10, 2, cells).collect::<Vec<_>>(), [10]);
        for (offset, written) in [(6, false), (8, true), (10, true), (12, false)] {
            assert_eq!(is_written(&mut region, offset), written, "{offset}");
        }
        assert_eq!(region.cells(9, 1, cells).collect::<Vec<_>>(), [9]);
        assert!(is_written(&mut region, 11) && !is_written(&mut region, 7));
        assert_eq!(region.cells(16384, 2, cells).collect::<Vec<_>>(), [16384, 16385]);
    }

    #[test]
    fn a_region_is_touched_up_to_the_end_of_its_last_access() {
        let mut region = CheckedRegion::new(0x1000, 4096 * 4 + 2, "x".into(), true);
        let cells = &mut CellOverflow::default();
        assert_eq!(region.touched_bytes(), 0);
        for (offset, bytes, touched) in [(8, 4, 12), (4, 4, 12), (14, 2, 16), (16384, 2, 16386)] {
            region.cells(offset, bytes, cells).for_each(drop);
            assert!(region.cell(offset).read_alone(1, 1));
            assert_eq!(region.touched_bytes(), touched);
        }
    }

    #[test]
    fn what_a_region_takes_is_known_before_it_is_taken() {
        let mut region = CheckedRegion::new(0x1000, 4096, "x".into(), false);
        assert_eq!(region.allocated_bytes(), 4096 + CheckedRegion::cells_of(4096));
        assert_eq!((CheckedRegion::cells_of(4096), region.growth(8, 4)), (8 * 4096, 0));
        for (offset, bytes, times) in [(2, 2, 16), (5, 1, 32)] {
            let growth = region.growth(offset, bytes);
            let before = region.allocated_bytes();
            region.cells(offset, bytes, &mut CellOverflow::default()).for_each(drop);
            assert_eq!(region.allocated_bytes(), before + growth);
            assert_eq!(region.allocated_bytes(), 4096 * (1 + times));
        }
        assert_eq!(CheckedRegion::new_shared(0x1000, 4096).growth(5, 1), 0);
    }

    #[test]
    fn an_access_is_inside_beside_or_elsewhere() {
        let mut regions = Regions::default();
        regions.add(CheckedRegion::new(0x1100, 0x80, "x".into(), true), 0x1000..0x2000);
        assert!(matches!(regions.find(0x1100, 4), RegionMatch::Inside(_)));
        assert!(matches!(regions.find(0x117c, 4), RegionMatch::Inside(_)));
        assert!(matches!(regions.find(0x117d, 4), RegionMatch::Beside(_, 1)));
        assert!(matches!(regions.find(0x1180, 4), RegionMatch::Beside(_, 4)));
        assert!(matches!(regions.find(0x10fc, 4), RegionMatch::Beside(_, -4)));
        assert!(matches!(regions.find(0x1f00, 4), RegionMatch::Beside(_, 0xd84)));
        assert!(matches!(regions.find(0x2000, 4), RegionMatch::Elsewhere));
        assert!(matches!(regions.find(0xfff, 1), RegionMatch::Elsewhere));
    }

    #[test]
    fn an_access_between_two_is_told_by_the_nearer_one() {
        let mut regions = Regions::default();
        for (begin, label) in [(0x1100, "x"), (0x9000_0000, "y")] {
            regions.add(CheckedRegion::new(begin, 0x80, label.into(), true), 0x1000..0xffff_0000);
        }
        let mut told = |address| match regions.find(address, 4) {
            RegionMatch::Beside(region, distance) => (region.label.clone(), distance),
            _ => ("none".to_owned(), 0),
        };
        assert_eq!(told(0x40_1180), ("x".to_owned(), (4 << 20) + 4));
        assert_eq!(told(0x8ff0_0000), ("y".to_owned(), -(1 << 20)));
        assert_eq!(told(0x9fff_0000), ("y".to_owned(), 0x0ffe_ff84));
    }
}
