//! A plain read before a compare-and-swap of its value: it does no harm.

use super::super::cells::{Race, Touch};
use super::super::packed_cells::Past;
use super::super::regions::RegionMatch;
use super::super::state::HookState;
use super::{Accessed, Checker};

/// A read that raced with an atomic. It does no harm if a compare-and-swap of its thread then compares the value.
pub(super) struct Doubt {
    race: Race,
    access: Accessed,
    offset: usize,
    thread: u16,
    /// The bits it read.
    value: u64,
}

impl Doubt {
    /// The doubt about a read by `thread`; reads the value.
    pub(super) fn new(race: Race, access: Accessed, offset: usize, thread: u16) -> Doubt {
        let mut value = [0; 8];
        let bytes = access.bytes.min(value.len());
        // SAFETY: the running code is about to read these bytes.
        #[allow(unsafe_code)]
        let read_bytes = unsafe { std::slice::from_raw_parts(access.address as *const u8, bytes) };
        value[..bytes].copy_from_slice(read_bytes);
        Doubt { race, access, offset, thread, value: u64::from_le_bytes(value) }
    }

    fn place(&self) -> (u16, usize, usize, u32, u64) {
        let Accessed { address, bytes, number, .. } = self.access;
        (self.thread, address, bytes, number, self.value)
    }
}

/// Reads of the running block without a compare-and-swap so far.
#[derive(Default)]
pub(super) struct Unsure {
    reads: Vec<Doubt>,
}

/// The most reads kept in doubt. Beyond so many the first ones are races.
const MOST_READS: usize = 256;

impl Checker {
    /// Keeps `doubt` until its block ends, or a compare-and-swap dispels it.
    pub(super) fn doubt(&mut self, doubt: Doubt) {
        let reads = &mut self.unsure.reads;
        // Another one like it is found or dispelled with the first.
        if reads.iter().any(|known_doubt| known_doubt.place() == doubt.place()) {
            return;
        }
        let first = (reads.len() == MOST_READS).then(|| reads.remove(0));
        reads.push(doubt);
        if let Some(Doubt { race, access, offset, .. }) = first {
            self.race(&race, &access, offset);
        }
    }

    /// Settles everything pending: the running block has ended or paused.
    pub(super) fn settle_all(&mut self) {
        for Doubt { race, access, offset, .. } in std::mem::take(&mut self.unsure.reads) {
            self.race(&race, &access, offset);
        }
        self.settle();
    }

    /// `thread` is about to compare the memory at `address` with `compare`, and to change it only if they are equal. Its
    /// plain read of `compare` does no harm (CUDA C++ Programming Guide, "Atomic Functions", makes atomics so).
    pub(crate) fn before_swap(&mut self, thread: u16, address: usize, bytes: usize, compare: u64) {
        // Members of a pair are read by themselves and compared as one word.
        self.unsure.reads.retain(|doubt| {
            let Accessed { address: read_address, bytes: read_bytes, .. } = doubt.access;
            let is_inside = read_address >= address && read_address + read_bytes <= address + bytes;
            if doubt.thread != thread || !is_inside || read_bytes == 0 {
                return true;
            }
            let compared_bits = compare >> (8 * (read_address - address));
            doubt.value != compared_bits & (u64::MAX >> (64 - 8 * read_bytes))
        });
        self.settle();
        let in_shared = self.shared.range().contains(&address);
        let region_lookup = match in_shared {
            true if self.find_variable(address, bytes).is_none() => return,
            true => RegionMatch::Inside(&mut self.shared),
            false => self.regions.find(address, bytes),
        };
        let RegionMatch::Inside(region) = region_lookup else { return };
        let first = region.offset(address);
        if region.splits(first, bytes) || self.refused.is_some() {
            return;
        }
        // SAFETY: as in `state`.
        #[allow(unsafe_code)]
        let HookState { block_first, before, .. } = *unsafe { self.state.as_ref() };
        let past = if region.shared {
            Past { origins: &self.origins, floor: block_first, before: self.clocks.phase() }
        } else {
            Past { origins: &self.origins, floor: 0, before }
        };
        let moment = self.clocks.now(thread);
        for offset in region.cells(first, bytes, &mut self.elsewhere) {
            let mut cell = region.cell(offset).unpack(&self.elsewhere, &past);
            cell.forget_read(self.operation, &moment);
            region.cell(offset).pack(&cell, Touch::AtomicWrite, &mut self.elsewhere, &past);
        }
    }
}
