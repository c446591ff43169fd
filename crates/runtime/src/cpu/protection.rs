//! Keeps host code off device memory. While host code runs, it may not touch the first and the last
//! pages of an allocation, nor any page of a small one.
//!
//! On a GPU such an access is a segmentation fault. Protecting all pages would cost too much: the
//! system changes them one after the other, twice at each launch. An access to device memory
//! usually begins at one end.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use super::fiber::page_bytes;

/// Allocations of at most this many pages are protected as a whole.
const SMALL_PAGES: usize = 16;

/// The pages of one allocation.
struct ProtectedRegion {
    bytes: usize,
    /// Whether host code may touch it.
    shared: bool,
    /// How many calls of the runtime API use it now.
    uses: usize,
}

#[derive(Default)]
struct ProtectionState {
    /// By where they begin.
    regions: BTreeMap<usize, ProtectedRegion>,
    /// Whether host code runs.
    host: bool,
    /// How many launches run now.
    launches: usize,
}

/// The accessible device memory.
#[derive(Default)]
pub(super) struct Protection {
    state: Mutex<ProtectionState>,
}

static OF_PROCESS: OnceLock<&'static Protection> = OnceLock::new();

/// Whether the device memory at `address` is closed to host code. Called from a signal handler:
/// neither waits nor allocates.
pub(crate) fn is_shut(address: usize) -> bool {
    let Some(state) = OF_PROCESS.get().and_then(|protection| protection.state.try_lock().ok())
    else {
        return false;
    };
    let region_before = state.regions.range(..=address).next_back();
    region_before.is_some_and(|(region_begin, region)| {
        address < region_begin + region.bytes && state.shuts(region)
    })
}

impl ProtectionState {
    fn shuts(&self, region: &ProtectedRegion) -> bool {
        self.host && self.launches == 0 && region.uses == 0 && !region.shared
    }

    /// The region around `address`, its end included.
    fn region_at(&mut self, address: usize) -> Option<(usize, &mut ProtectedRegion)> {
        let (&begin, region) = self.regions.range_mut(..=address).next_back()?;
        (address <= begin + region.bytes).then_some((begin, region))
    }

    /// Makes `change`, then sets the access to the pages of all regions accordingly.
    fn change_all(&mut self, change: impl FnOnce(&mut ProtectionState)) {
        let shut_before: Vec<bool> =
            self.regions.values().map(|region| self.shuts(region)).collect();
        change(self);
        for ((&begin, region), was_shut) in self.regions.iter().zip(shut_before) {
            let is_shut = self.shuts(region);
            if is_shut != was_shut {
                protect_ends(begin, region.bytes, is_shut);
            }
        }
    }

    fn change(&mut self, begin: usize, change: impl FnOnce(&mut ProtectedRegion)) {
        let Some(mut region) = self.regions.remove(&begin) else { return };
        let was_shut = self.shuts(&region);
        change(&mut region);
        let is_shut = self.shuts(&region);
        if is_shut != was_shut {
            protect_ends(begin, region.bytes, is_shut);
        }
        self.regions.insert(begin, region);
    }
}

/// Shuts or opens the ends of the pages of `bytes` at `begin`.
fn protect_ends(begin: usize, bytes: usize, shut: bool) {
    let page = page_bytes();
    let access = if shut { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
    let ends: &[(usize, usize)] = if bytes <= SMALL_PAGES * page {
        &[(begin, bytes)]
    } else {
        &[(begin, page), (begin + bytes - page, page)]
    };
    for &(begin, bytes) in ends {
        // SAFETY: the pages belong to a live allocation, and any user of it has opened it.
        unsafe { libc::mprotect(begin as *mut libc::c_void, bytes, access) };
    }
}

impl Protection {
    /// The one of this process.
    pub(crate) fn of_process() -> &'static Protection {
        OF_PROCESS.get_or_init(|| Box::leak(Box::default()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ProtectionState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds the pages of `bytes` at `begin`; host code may touch them if `shared`.
    pub(super) fn add(&self, begin: usize, bytes: usize, shared: bool) {
        let mut state = self.lock();
        let region = ProtectedRegion { bytes, shared, uses: 0 };
        if state.shuts(&region) {
            protect_ends(begin, bytes, true);
        }
        state.regions.insert(begin, region);
    }

    /// Forgets the pages around `address`.
    pub(super) fn remove(&self, address: usize) {
        let mut state = self.lock();
        if let Some((begin, _)) = state.region_at(address) {
            state.regions.remove(&begin);
        }
    }

    /// Lets host code touch the pages around `address`.
    pub(super) fn share(&self, address: usize) {
        let mut state = self.lock();
        if let Some((begin, _)) = state.region_at(address) {
            state.change(begin, |region| region.shared = true);
        }
    }

    /// Whether `address` lies in device memory, or just behind it.
    pub(super) fn covers(&self, address: usize) -> bool {
        self.lock().region_at(address).is_some()
    }

    /// Sets whether host code runs from here on.
    pub(crate) fn set_host(&self, runs: bool) {
        self.lock().change_all(|state| state.host = runs);
    }

    /// Opens all device memory for a launch.
    pub(crate) fn open_all(&'static self) -> OpenedRegions {
        self.lock().change_all(|state| state.launches += 1);
        OpenedRegions { protection: self, regions: None }
    }

    /// Opens the allocations around `addresses`, for a call of the runtime API.
    pub(super) fn open<const N: usize>(&'static self, addresses: [usize; N]) -> OpenedRegions {
        let mut state = self.lock();
        let opened_begins = addresses
            .iter()
            .filter_map(|&address| state.region_at(address).map(|(begin, _)| begin))
            .collect();
        for &begin in &opened_begins {
            state.change(begin, |region: &mut ProtectedRegion| region.uses += 1);
        }
        OpenedRegions { protection: self, regions: Some(opened_begins) }
    }
}

/// Device memory accessible until this is dropped.
pub(super) struct OpenedRegions {
    protection: &'static Protection,
    /// The regions; none for all.
    regions: Option<Vec<usize>>,
}

impl Drop for OpenedRegions {
    fn drop(&mut self) {
        let mut state = self.protection.lock();
        match &self.regions {
            None => state.change_all(|state| state.launches -= 1),
            Some(regions) => {
                for &begin in regions {
                    state.change(begin, |region| region.uses -= 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which pages of `bytes` at `begin` may be read, according to the system.
    fn readable(begin: usize, bytes: usize) -> Vec<bool> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let can_read = |address: usize| {
            maps.lines().any(|line| {
                let (range, rest) = line.split_once(' ').unwrap();
                let (from, to) = range.split_once('-').unwrap();
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                (number(from)..number(to)).contains(&address) && rest.starts_with('r')
            })
        };
        (0..bytes / page_bytes()).map(|page| can_read(begin + page * page_bytes())).collect()
    }

    fn pages(count: usize) -> usize {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), count * page_bytes(), access, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        map as usize
    }

    #[test]
    fn host_code_cannot_touch_the_ends_of_device_memory() {
        let protection: &'static Protection = Box::leak(Box::default());
        let small = pages(2);
        let large = pages(20);
        let small_bytes = 2 * page_bytes();
        let large_bytes = 20 * page_bytes();
        protection.add(small, small_bytes, false);
        protection.set_host(true);
        protection.add(large, large_bytes, false);
        let ends = |open: bool| (0..20).map(|page| open || (1..19).contains(&page)).collect();
        let seen = || (readable(small, small_bytes), readable(large, large_bytes));
        assert_eq!(seen(), (vec![false; 2], ends(false)));
        {
            let _one = protection.open([large + 8, 0]);
            assert_eq!(seen(), (vec![false; 2], ends(true)));
            let _all = protection.open_all();
            assert_eq!(seen(), (vec![true; 2], ends(true)));
        }
        assert_eq!(seen(), (vec![false; 2], ends(false)));
        protection.share(small);
        assert_eq!(seen().0, [true; 2]);
        protection.set_host(false);
        assert_eq!(seen(), (vec![true; 2], ends(true)));
    }
}
