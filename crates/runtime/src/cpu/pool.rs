//! Shared memory of many small allocations: slots in large pieces, each between gaps with the poison.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use super::host_memory;
use super::pages::ALIGNMENT;
use super::space::AddressSpace;

/// Allocations with pages of their own before any in the pool. Each takes two to five mappings; a process may have
/// 65,530 by default (Linux, `vm.max_map_count`).
pub(super) const LEAST_OTHERS: usize = 4096;
/// Larger allocations always have pages of their own: a device's memory holds few enough of them.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// Bytes before each allocation, and at least as many behind it.
pub(super) const GAP_BYTES: usize = 1024;
/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 20;

/// The pool. It never shrinks.
#[derive(Default)]
pub(super) struct SlotPool {
    /// The rest of the last piece.
    left: Range<usize>,
    /// Returned slots, by their bytes.
    unused: HashMap<usize, Vec<usize>>,
}

impl SlotPool {
    /// A slot for `bytes` with the gaps around them, in a piece in `space`. It may hold anything.
    ///
    /// # Errors
    /// If the system has no memory, or the space no room.
    pub(super) fn take_slot(
        &mut self,
        space: &AddressSpace,
        bytes: usize,
    ) -> io::Result<Range<usize>> {
        let slot_bytes = bytes.next_multiple_of(ALIGNMENT) + 2 * GAP_BYTES;
        if let Some(slot_begin) = self.unused.get_mut(&slot_bytes).and_then(Vec::pop) {
            return Ok(slot_begin..slot_begin + slot_bytes);
        }
        if self.left.len() < slot_bytes {
            self.left = map_pool_piece(space)?;
        }
        let slot_begin = self.left.start;
        self.left.start += slot_bytes;
        Ok(slot_begin..slot_begin + slot_bytes)
    }

    /// Takes back an unused slot.
    pub(super) fn give_back(&mut self, slot: Range<usize>) {
        self.unused.entry(slot.len()).or_default().push(slot.start);
    }
}

fn map_pool_piece(space: &AddressSpace) -> io::Result<Range<usize>> {
    let piece_begin = space
        .place(PIECE_BYTES, ALIGNMENT.max(super::page_bytes()))
        .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    host_memory::reserve_machine_memory(PIECE_BYTES);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the space has given these addresses to nobody else.
    match unsafe { libc::mprotect(piece_begin as *mut libc::c_void, PIECE_BYTES, access) } {
        0 => Ok(piece_begin..piece_begin + PIECE_BYTES),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_are_used_again() {
        let space = AddressSpace::reserve(1 << 40);
        let mut pool = SlotPool::default();
        let mut taken: Vec<Range<usize>> =
            (0..20_000).map(|n| pool.take_slot(&space, 1 + n % 5000).unwrap()).collect();
        taken.sort_by_key(|slot| slot.start);
        assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start));
        // SAFETY: nobody else has the slots.
        taken.iter().for_each(|slot| unsafe { (slot.start as *mut u8).write_bytes(1, slot.len()) });
        let given = taken.swap_remove(0);
        pool.give_back(given.clone());
        assert_ne!(pool.take_slot(&space, MOST_BYTES).unwrap(), given);
        assert_eq!(pool.take_slot(&space, given.len() - 2 * GAP_BYTES).unwrap(), given);
    }

    #[test]
    fn a_pool_needs_room_in_the_space() {
        let error = SlotPool::default().take_slot(&AddressSpace::reserve(0), 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
