//! The addresses of device memory: reservations without memory, away from libraries and the heap. Allocations lie far
//! apart there: a pointer astray by gigabytes leads to no memory at all.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fiber::page_bytes;

/// The distance between allocations is this share of the remaining room: 16 GiB of 16 TiB at first, half as far after
/// 700 of them. An index of 32 bits into numbers of four bytes does not step over 16 GiB.
const SHARE: usize = 1024;
/// Where addresses repeat in the tables of the hooks of checked builds, and in the sets of caches.
const PERIOD: usize = 256 << 20;
/// The next allocation lies this part of a period further on. By the golden section no two of many are close.
const STEP: f64 = 0.618_033_988_749_895;
/// The least distance; below it the room is full.
const LEAST_DISTANCE: usize = 1 << 20;
/// A smaller reservation is of no use.
const LEAST_BYTES: usize = 1 << 30;

/// The reservations of a process.
pub(super) struct Spaces {
    /// For global memory.
    pub global: AddressSpace,
    /// For the shared memory of blocks.
    pub shared: AddressSpace,
}

static SPACES: OnceLock<Spaces> = OnceLock::new();

/// Reserves the addresses for device memory, at most so many bytes: how many there are. Only the first call of a process
/// counts.
pub fn reserve_device_space(most_bytes: u64) -> u64 {
    let bytes =
        AddressSpace::WISHED_BYTES.min(usize::try_from(most_bytes / 2).unwrap_or(usize::MAX));
    let spaces = SPACES.get_or_init(|| Spaces {
        global: AddressSpace::reserve(bytes),
        shared: AddressSpace::reserve(bytes),
    });
    (spaces.global.range.len() + spaces.shared.range.len()) as u64
}

impl Spaces {
    /// Those of this process; empty ones, if nothing was reserved.
    pub(super) fn of_process() -> &'static Spaces {
        SPACES.get_or_init(|| Spaces {
            global: AddressSpace::from_range(0..0),
            shared: AddressSpace::from_range(0..0),
        })
    }
}

/// One reservation.
pub(super) struct AddressSpace {
    range: Range<usize>,
    next: AtomicUsize,
    placed: AtomicUsize,
}

impl AddressSpace {
    /// Bytes of a reservation where the system grants as many. A process has 128 TiB of addresses on x86-64 (Linux,
    /// `Documentation/arch/x86/x86_64/mm.rst`).
    const WISHED_BYTES: usize = 16 << 40;

    /// Reserves at most `wished` bytes: half as many as often as the system refuses. None, where it refuses all.
    pub(super) fn reserve(wished: usize) -> AddressSpace {
        let mut bytes = wished;
        while bytes >= LEAST_BYTES {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: addresses without memory, at a place of the system's choice.
            let map =
                unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
            if map != libc::MAP_FAILED {
                return AddressSpace::from_range(map as usize..map as usize + bytes);
            }
            bytes /= 2;
        }
        AddressSpace::from_range(0..0)
    }

    fn from_range(range: Range<usize>) -> AddressSpace {
        let next = AtomicUsize::new(range.start);
        let placed = AtomicUsize::new(0);
        AddressSpace { range, next, placed }
    }

    /// Its addresses.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Whether `address` belongs to it. May be called from a signal handler.
    pub(super) fn contains(&self, address: usize) -> bool {
        self.range.contains(&address)
    }

    /// An address for `bytes`, at a multiple of `alignment`, far from all earlier ones; none without room. Nobody else
    /// gets these addresses.
    pub(super) fn place(&self, bytes: usize, alignment: usize) -> Option<usize> {
        let placed = self.placed.fetch_add(1, Ordering::Relaxed);
        let mut begin = 0;
        let place = |next: usize| {
            begin = next.checked_add(self.distance(next, placed))?;
            begin = begin.checked_next_multiple_of(alignment)?;
            let end = begin.checked_add(bytes)?.checked_next_multiple_of(page_bytes())?;
            (end.checked_add(LEAST_DISTANCE)? <= self.range.end).then_some(end)
        };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place).ok()?;
        Some(begin)
    }

    /// The distance from `next` to the place of the allocation after `placed` others.
    fn distance(&self, next: usize, placed: usize) -> usize {
        let distance = (self.range.end - next) / SHARE;
        let whole_periods = distance - distance % PERIOD;
        let place_in_period = (placed as f64 * STEP).fract() * PERIOD as f64;
        let begin = match whole_periods {
            0 => next + distance.max(LEAST_DISTANCE),
            _ => (next + whole_periods).next_multiple_of(PERIOD) + place_in_period as usize,
        };
        begin.next_multiple_of(page_bytes()) - next
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        if !self.range.is_empty() {
            // SAFETY: reserved by `reserve`; whoever placed something here no longer uses it.
            unsafe { libc::munmap(self.range.start as *mut libc::c_void, self.range.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    #[test]
    fn what_is_placed_first_lies_further_apart_than_an_index_of_32_bits_leads() {
        let space = AddressSpace::reserve(AddressSpace::WISHED_BYTES);
        let mut end = space.range().start;
        for bytes in [100, 4096, 3 * GIB, 1].into_iter().cycle().take(256) {
            let begin = space.place(bytes, 2 << 20).unwrap();
            assert!(begin >= end + 8 * GIB && begin.is_multiple_of(2 << 20));
            end = begin + bytes;
        }
        assert!(end + 8 * GIB < space.range().end);
    }

    #[test]
    fn what_is_placed_shares_no_place_in_the_tables_of_checked_builds() {
        let space = AddressSpace::reserve(AddressSpace::WISHED_BYTES);
        let mut places: Vec<usize> =
            (0..100).map(|_| (space.place(100, 4096).unwrap() % PERIOD) >> 16).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 100);
    }

    #[test]
    fn a_space_that_is_full_places_nothing_more() {
        let space = AddressSpace::from_range(GIB..2 * GIB);
        let count = std::iter::from_fn(|| space.place(4096, 4096)).count();
        assert!((900..1100).contains(&count), "{count}");
        assert_eq!(AddressSpace::from_range(0..0).place(1, 1), None);
        assert_eq!(space.place(GIB, 1), None);
        assert_eq!(space.place(usize::MAX, 1), None);
        std::mem::forget(space);
    }

    #[test]
    fn less_is_reserved_where_the_system_refuses_more() {
        let space = AddressSpace::reserve(1 << 60);
        assert!(!space.range().is_empty() && space.range().len() < 1 << 48);
    }
}
