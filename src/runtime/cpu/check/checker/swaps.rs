//! A read before a compare-and-swap, which does no harm without an atomic.

use super::super::cells::Touch;
use super::super::packed::Past;
use super::super::regions::Found;
use super::super::state::State;
use super::{Accessed, Checker, Unsure};

impl Checker {
    /// `thread` is about to compare what it has read at `address` with what is there, and to change it only
    /// if that is the same: that it was read without an atomic does no harm (CUDA C++ Programming Guide,
    /// "Atomic Functions", makes atomics so).
    pub(crate) fn before_swap(&mut self, thread: u16, address: usize, bytes: usize) {
        let is_it = |unsure: &Unsure| {
            let Accessed { address: at, bytes: read, .. } = unsure.access;
            (unsure.thread, at, read) == (thread, address, bytes)
        };
        if self.unsure.as_ref().is_some_and(is_it) {
            self.unsure = None;
            self.follow_clocks();
        }
        self.settle();
        let in_shared = self.shared.range().contains(&address);
        let found = match in_shared {
            true if !self.in_variable(address, bytes) => return,
            true => Found::Inside(&mut self.shared),
            false => self.regions.find(address, bytes),
        };
        let Found::Inside(region) = found else { return };
        let first = region.offset(address);
        if region.splits(first, bytes) || self.refused.is_some() {
            return;
        }
        // SAFETY: as in `state`.
        #[allow(unsafe_code)]
        let State { block_first, before, .. } = *unsafe { self.state.as_ref() };
        let past = match region.shared {
            true => {
                Past { origins: &self.origins, floor: block_first, before: self.clocks.phase() }
            }
            false => Past { origins: &self.origins, floor: 0, before },
        };
        let moment = self.clocks.now(thread);
        for offset in region.cells(first, bytes, &mut self.elsewhere) {
            let mut cell = region.cell(offset).unpack(&self.elsewhere, &past);
            cell.forget_read(self.operation, &moment);
            region.cell(offset).pack(&cell, Touch::AtomicWrite, &mut self.elsewhere, &past);
        }
    }
}
