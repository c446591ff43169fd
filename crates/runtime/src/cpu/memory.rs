//! Device memory of the CPU: allocations far apart in a reservation, poisoned when they are made.
//!
//! Untouchable memory begins at the end of an allocation, except for the bytes of its alignment. Those bytes, and the
//! ones before the allocation on its first page, are checked for the poison when it is freed or at the end. Freed
//! memory stays reserved: a late access is caught. Small allocations beyond thousands share a pool, with poison
//! between them.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Mutex;

use super::pages::{
    PageBody, fill_from, first_change, lay_nothing, map_file_privately, pages_of, place_for,
    repeat_poison, reserve_guarded_pages,
};
use super::pool::{self, SlotPool};
use super::space::AddressSpace;
use super::{check, host_memory};
use crate::{lack_of_memory, limit_is_reached};
use replay_base::summary::Poison;
use replay_cuda::CudaError;

/// Untouchable bytes before and after an allocation outside of the reservation; a multiple of every
/// system's page.
const GUARD_BYTES: usize = 1 << 20;

/// Freed allocations whose addresses are kept reserved.
const MAX_FREED: usize = 4096;

/// Where an allocation lies.
enum AllocationHome {
    /// The reservation.
    Space,
    /// A mapping of its own, guards included.
    Mapping(Range<usize>),
    Pool,
}

struct CpuAllocation {
    /// The user's first byte.
    begin: usize,
    bytes: usize,
    /// Its pages, or its slot of the pool.
    pages: Range<usize>,
    home: AllocationHome,
    /// Counts the allocations.
    number: usize,
    label: String,
    freed: bool,
}

impl CpuAllocation {
    fn end(&self) -> usize {
        self.begin + self.bytes
    }

    /// The first write on the allocation's pages outside of it, in words; none if there was none.
    fn overrun(&self, poison: Poison) -> Option<String> {
        let label = &self.label;
        let bytes = self.bytes;
        if let Some(offset) = first_change(poison, self.end(), self.pages.end, bytes) {
            let byte = bytes + offset;
            return Some(format!("{label} has {bytes} bytes, byte {byte} was written"));
        }
        // Pages are poisoned from their begin, a multiple of eight.
        let offset = first_change(poison, self.pages.start, self.begin, 0)?;
        let bytes_before = self.begin - self.pages.start - offset;
        Some(format!(
            "{label} has {bytes} bytes, a byte {bytes_before} before its begin was written"
        ))
    }

    /// How far `address` lies from its bytes.
    fn distance(&self, address: usize) -> usize {
        self.begin.saturating_sub(address).max(address.saturating_sub(self.end()))
    }
}

/// All allocations of one replay.
pub(super) struct CpuMemory {
    poison: Poison,
    limit: usize,
    /// How many threads may fill an allocation.
    threads: usize,
    space: &'static AddressSpace,
    state: Mutex<CpuMemoryState>,
}

#[derive(Default)]
struct CpuMemoryState {
    /// By where their pages begin.
    allocations: BTreeMap<usize, CpuAllocation>,
    pool: SlotPool,
    /// Live allocations outside of the pool.
    apart: usize,
    /// Begin and end of the artifact's variables, once host code has asked for them.
    symbols: Vec<(usize, usize)>,
    used: usize,
    freed: usize,
    /// The number of all allocations so far.
    made: usize,
    /// The overruns found when allocations were freed.
    overruns: Vec<String>,
}

impl CpuMemory {
    /// Memory of `limit` bytes in `space`. It starts as `poison`, written by up to `threads` threads.
    pub(super) fn new(
        poison: Poison,
        limit: usize,
        threads: usize,
        space: &'static AddressSpace,
    ) -> CpuMemory {
        CpuMemory { poison, limit, threads, space, state: Mutex::default() }
    }

    /// Its reserved addresses.
    pub(super) fn reserved(&self) -> Range<usize> {
        self.space.range()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CpuMemoryState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Allocates `bytes`, aligned to 256, called `label` in messages; null for no bytes. The bytes around them
    /// hold the poison.
    ///
    /// # Errors
    /// [`CudaError::MEMORY_ALLOCATION`] beyond the limits of the replay. If the system has no
    /// memory, the replay ends.
    pub(super) fn allocate(
        &self,
        content: PageBody,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.allocate_by(&|pages, body| content.lay(pages, body, self.threads), bytes, label)
    }

    /// The same, filled with `fill`. Small allocations share pages once there are thousands, since the system limits the
    /// mappings of a process.
    ///
    /// # Errors
    /// As [`CpuMemory::allocate`].
    pub(super) fn allocate_scratch(
        &self,
        fill: Poison,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        if bytes == 0 || bytes > pool::MOST_BYTES || self.lock().apart < pool::LEAST_OTHERS {
            return self.allocate(PageBody::filled(fill), bytes, label);
        }
        let mut state = self.lock();
        if bytes > self.limit.saturating_sub(state.used) {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        let slot = state.pool.take_slot(self.space, bytes);
        let slot = slot.map_err(|error| refuse_allocation(&label, bytes, &error))?;
        let begin = slot.start + pool::GAP_BYTES;
        // SAFETY: nobody else has the memory of the slot.
        unsafe { fill_from(fill, begin, begin + bytes, 0) };
        Ok(self.enter(&mut state, begin, bytes, slot, AllocationHome::Pool, label))
    }

    /// The same, with the poison in pages made at their first write.
    ///
    /// # Errors
    /// As [`CpuMemory::allocate`].
    pub(super) fn allocate_repeated(
        &self,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.allocate_by(&|pages, body| repeat_poison(pages, body, self.poison), bytes, label)
    }

    /// The same, with the contents of `file` from `offset` on: all [`pages_of`] the bytes. Writes to it, the poison
    /// around it included, do not reach the file.
    ///
    /// # Errors
    /// As [`CpuMemory::allocate`].
    pub(super) fn allocate_from(
        &self,
        file: &File,
        offset: usize,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.allocate_by(&|pages, body| map_file_privately(pages, body, file, offset), bytes, label)
    }

    /// The same; `lay_pages` puts memory at the pages of the body.
    fn allocate_by(
        &self,
        lay_pages: &dyn Fn(usize, usize) -> io::Result<()>,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        if bytes == 0 {
            return Ok(std::ptr::null_mut());
        }
        let mut state = self.lock();
        if bytes > self.limit.saturating_sub(state.used) {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        let (body, offset) = pages_of(bytes);
        host_memory::reserve_machine_memory(body);
        let place = self.space.place(body, place_for(body));
        let laid_pages = match place {
            Some(pages) => {
                lay_pages(pages, body).map(|()| (pages, AllocationHome::Space)).inspect_err(|_| {
                    // Its pages so far are given back.
                    lay_nothing(pages, body);
                })
            }
            None => self.map(lay_pages, body),
        };
        let (pages, home) = laid_pages.map_err(|error| refuse_allocation(&label, bytes, &error))?;
        state.apart += 1;
        Ok(self.enter(&mut state, pages + offset, bytes, pages..pages + body, home, label))
    }

    /// A mapping between guards, with memory at the pages of the `body` by `lay_pages`.
    fn map(
        &self,
        lay_pages: &dyn Fn(usize, usize) -> io::Result<()>,
        body: usize,
    ) -> io::Result<(usize, AllocationHome)> {
        let map_bytes = body + 2 * GUARD_BYTES;
        let map = reserve_guarded_pages(map_bytes, GUARD_BYTES, body)?;
        let pages = map + GUARD_BYTES;
        lay_pages(pages, body).inspect_err(|_| {
            // SAFETY: mapped just now, and nobody else knows of it.
            unsafe { libc::munmap(map as *mut libc::c_void, map_bytes) };
        })?;
        Ok((pages, AllocationHome::Mapping(map..map + map_bytes)))
    }

    /// Enters an allocation with memory at `pages`, and poisons the rest of these pages.
    fn enter(
        &self,
        state: &mut CpuMemoryState,
        begin: usize,
        bytes: usize,
        pages: Range<usize>,
        home: AllocationHome,
        label: String,
    ) -> *mut u8 {
        // SAFETY: the pages were given memory just now.
        unsafe {
            fill_from(self.poison, pages.start, begin, 0);
            fill_from(self.poison, begin + bytes, pages.end, bytes);
        }
        let reach = match &home {
            AllocationHome::Mapping(map) => map.clone(),
            AllocationHome::Space | AllocationHome::Pool => self.space.range(),
        };
        check::note_allocation(begin, bytes, &label, reach);
        let key = pages.start;
        let number = state.made;
        let allocation = CpuAllocation { begin, bytes, pages, home, number, label, freed: false };
        state.used += bytes;
        state.made += 1;
        state.allocations.insert(key, allocation);
        begin as *mut u8
    }

    /// Frees the allocation at `pointer`.
    ///
    /// # Errors
    /// [`CudaError::INVALID_VALUE`] if there is none, or it was freed before.
    pub(super) fn free(&self, pointer: *mut u8) -> Result<(), CudaError> {
        let mut state = self.lock();
        let CpuMemoryState { allocations, pool, apart, used, freed, overruns, .. } = &mut *state;
        let allocation = allocations
            .range_mut(..=pointer as usize)
            .next_back()
            .map(|(_, allocation)| allocation)
            .filter(|allocation| allocation.begin == pointer as usize && !allocation.freed)
            .ok_or(CudaError::INVALID_VALUE)?;
        overruns.extend(allocation.overrun(self.poison));
        check::note_deallocation(allocation.begin);
        *used -= allocation.bytes;
        allocation.freed = true;
        *freed += 1;
        let key = allocation.pages.start;
        match allocation.home {
            AllocationHome::Space | AllocationHome::Mapping(_) => {
                lay_nothing(key, allocation.pages.len());
                host_memory::release_machine_memory(allocation.pages.len());
                *apart -= 1;
            }
            // SAFETY: nobody else has the slot; any later access by the code is its failure.
            AllocationHome::Pool => unsafe {
                fill_from(self.poison, allocation.begin, allocation.end(), 0);
            },
        }
        if *freed > MAX_FREED
            && let Some(allocation) = allocations.remove(&key)
        {
            *freed -= 1;
            match allocation.home {
                // Its addresses stay reserved, without a name.
                AllocationHome::Space => {}
                // SAFETY: the mapping was made by `map` and is forgotten here.
                AllocationHome::Mapping(map) => unsafe {
                    libc::munmap(map.start as *mut libc::c_void, map.len());
                },
                AllocationHome::Pool => pool.give_back(allocation.pages),
            }
        }
        Ok(())
    }

    /// Makes a `__device__` variable, in the artifact, count as device memory.
    pub(super) fn add_symbol(&self, address: usize, bytes: usize) {
        let symbol = (address, address + bytes);
        let symbols = &mut self.lock().symbols;
        if !symbols.contains(&symbol) {
            symbols.push(symbol);
        }
    }

    /// Whether all of `bytes` at `address` lie in one allocation or variable.
    pub(super) fn contains(&self, address: usize, bytes: usize) -> bool {
        let state = self.lock();
        let in_symbol = state
            .symbols
            .iter()
            .any(|&(begin, end)| address >= begin && bytes <= end.saturating_sub(address));
        in_symbol
            || state.allocations.range(..=address).next_back().is_some_and(|(_, allocation)| {
                !allocation.freed
                    && address >= allocation.begin
                    && bytes <= allocation.end().saturating_sub(address)
            })
    }

    /// The pages of the allocation at `address`, if it shares them with no other: where they begin, and
    /// their bytes.
    pub(super) fn pages(&self, address: usize) -> Option<(usize, usize)> {
        let state = self.lock();
        let (_, CpuAllocation { begin, pages, home, freed, .. }) =
            state.allocations.range(..=address).next_back()?;
        let is_alone = !matches!(home, AllocationHome::Pool);
        (*begin == address && !freed && is_alone).then_some((pages.start, pages.len()))
    }

    /// The allocated bytes, and their limit.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.lock().used, self.limit)
    }

    /// The overruns between the ends of allocations and their guard pages, in the order of
    /// allocation. Those found when memory was freed come first.
    pub(super) fn overruns(&self) -> Vec<String> {
        let state = self.lock();
        let live = state.allocations.values().filter(|allocation| !allocation.freed);
        let mut live: Vec<&CpuAllocation> = live.collect();
        live.sort_unstable_by_key(|allocation| allocation.number);
        let live_overruns =
            live.into_iter().filter_map(|allocation| allocation.overrun(self.poison));
        state.overruns.iter().cloned().chain(live_overruns).collect()
    }

    /// Names the byte and the allocation at `address`, followed by a colon; writes nothing if there is none. Called from
    /// a signal handler: neither waits nor allocates.
    pub(super) fn describe_inside(&self, address: usize, out: &mut dyn Write) {
        let Ok(state) = self.state.try_lock() else { return };
        let allocation_before = state.allocations.range(..=address).next_back();
        let Some((_, CpuAllocation { label, bytes, begin, .. })) = allocation_before else {
            return;
        };
        if let Some(byte) = address.checked_sub(*begin).filter(|offset| offset < bytes) {
            let _ = write!(out, "byte {byte} of {label} ({bytes} bytes): ");
        }
    }

    /// Whether `address` may be touched. Called from a signal handler: neither waits nor allocates.
    pub(super) fn is_accessible(&self, address: usize) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        let allocation_before = state.allocations.range(..=address).next_back();
        allocation_before
            .is_some_and(|(_, allocation)| !allocation.freed && allocation.pages.contains(&address))
    }

    /// Says in words where `address` lies relative to the nearest allocation, in the same words in
    /// every run. Called from a signal handler: neither waits nor allocates.
    pub(super) fn describe(&self, address: usize, out: &mut dyn Write) {
        let Ok(state) = self.state.try_lock() else {
            return;
        };
        let allocation_before = state.allocations.range(..=address).next_back();
        let allocation_behind = state.allocations.range(address..).next();
        let near_allocations = [allocation_before, allocation_behind]
            .into_iter()
            .flatten()
            .map(|(_, allocation)| allocation);
        let near_allocations = near_allocations.filter(|allocation| match &allocation.home {
            AllocationHome::Mapping(map) => map.contains(&address),
            AllocationHome::Space | AllocationHome::Pool => self.space.contains(address),
        });
        let _ = match near_allocations.min_by_key(|allocation| allocation.distance(address)) {
            _ if address == 0 => out.write_str("a null pointer"),
            _ if address < NULL_BYTES => write!(out, "{address} bytes past a null pointer"),
            None => out.write_str("no allocation is near"),
            Some(CpuAllocation { label, bytes, freed: true, pages, .. })
                if pages.contains(&address) =>
            {
                write!(out, "freed memory: {label} ({bytes} bytes)")
            }
            Some(CpuAllocation { label, bytes, begin, .. }) if address < *begin => {
                write!(out, "{} bytes before {label} ({bytes} bytes)", begin - address)
            }
            Some(nearest_allocation) => {
                let past = address.saturating_sub(nearest_allocation.end());
                let bytes = nearest_allocation.bytes;
                write!(
                    out,
                    "{past} bytes past the end of {} ({bytes} bytes)",
                    nearest_allocation.label
                )
            }
        };
    }
}

/// No system lets a process have memory at addresses below this.
const NULL_BYTES: usize = 4096;

/// The error of an allocation refused by the system with `error`, if the replay has used up its
/// limit. Otherwise the machine is at fault, and the replay ends.
fn refuse_allocation(label: &str, bytes: usize, error: &io::Error) -> CudaError {
    if !limit_is_reached(bytes) {
        lack_of_memory(label, bytes, error);
    }
    CudaError::MEMORY_ALLOCATION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::pages::ALIGNMENT;
    use replay_base::summary::{POISON_A, POISON_B};
    use std::os::unix::fs::FileExt;

    const FILLED: PageBody = PageBody { place: None, fill: Some(POISON_A) };

    fn space() -> &'static AddressSpace {
        Box::leak(Box::new(AddressSpace::reserve(1 << 40)))
    }

    fn memory() -> CpuMemory {
        CpuMemory::new(POISON_A, 1 << 20, 1, space())
    }

    fn described(memory: &CpuMemory, address: usize) -> String {
        let mut text = String::new();
        memory.describe(address, &mut text);
        text
    }

    #[test]
    fn an_allocation_is_aligned_and_poisoned() {
        let memory = memory();
        for bytes in [1, 255, 256, 4095, 4096, 4097, 100_000] {
            let pointer = memory.allocate(FILLED, bytes, "x".into()).unwrap();
            assert_eq!(pointer as usize % ALIGNMENT, 0);
            // SAFETY: the allocation has that many bytes.
            let content = unsafe { std::slice::from_raw_parts(pointer, bytes) };
            assert!(content.iter().enumerate().all(|(k, &b)| b == POISON_A.pattern[k % 8]));
            assert!(memory.contains(pointer as usize, bytes));
            assert!(!memory.contains(pointer as usize, bytes + 1));
            memory.free(pointer).unwrap();
        }
    }

    #[test]
    fn an_allocation_can_lie_in_a_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * GUARD_BYTES as u64).unwrap();
        let memory = memory();
        let pointer = memory
            .allocate(
                PageBody { place: Some((&file, GUARD_BYTES)), fill: Some(POISON_A) },
                1000,
                "x".into(),
            )
            .unwrap();
        // SAFETY: the allocation has that many bytes.
        unsafe { pointer.add(999).write(42) };
        let (body, offset) = pages_of(1000);
        let mut content = vec![0; body];
        file.read_exact_at(&mut content, GUARD_BYTES as u64).unwrap();
        assert_eq!((content[offset + 999], content[offset]), (42, POISON_A.pattern[0]));
        assert!(memory.overruns().is_empty());
    }

    #[test]
    fn what_is_written_to_an_allocation_from_a_file_does_not_reach_the_file() {
        for bytes in [1000, (5 << 20) - 7] {
            let file = tempfile::tempfile().unwrap();
            let (body, offset) = pages_of(bytes);
            let content: Vec<u8> = (0..body).map(|k| (k % 251) as u8).collect();
            file.write_all_at(&content, GUARD_BYTES as u64).unwrap();
            let memory = CpuMemory::new(POISON_B, usize::MAX, 1, space());
            let from = |label: &str| {
                memory.allocate_from(&file, GUARD_BYTES, bytes, label.into()).unwrap()
            };
            // SAFETY: the allocations have that many bytes.
            let [first, second] = [from("x"), from("y")]
                .map(|pointer| unsafe { std::slice::from_raw_parts_mut(pointer, bytes) });
            assert_eq!(first.as_ptr() as usize % ALIGNMENT, 0);
            assert!(*first == content[offset..offset + bytes]);
            first.fill(1);
            assert!(*second == content[offset..offset + bytes]);
            let mut left = vec![0; body];
            file.read_exact_at(&mut left, GUARD_BYTES as u64).unwrap();
            assert!(left == content, "{bytes}");
            assert!(memory.overruns().is_empty());
            // SAFETY: the byte lies on the allocation's page, though outside of it.
            unsafe { second.as_mut_ptr().add(bytes).write(1) };
            assert_eq!(
                memory.overruns(),
                [format!("y has {bytes} bytes, byte {bytes} was written")]
            );
        }
    }

    #[test]
    fn what_lies_around_an_allocation_is_poisoned_whatever_it_holds() {
        let memory = CpuMemory::new(POISON_A, usize::MAX, 3, space());
        let file = tempfile::tempfile().unwrap();
        let (most, _) = pages_of(5 << 20);
        file.set_len(most as u64).unwrap();
        for bytes in [10, 4096, 100_001, (5 << 20) - 7] {
            let places = [None, Some((&file, 0))];
            let fills = [Some(POISON_A), Some(POISON_B), None];
            let bodies = places.into_iter().flat_map(|place| {
                fills.into_iter().map(move |fill| Some(PageBody { place, fill }))
            });
            for body in bodies.chain([None]) {
                let pointer = match body {
                    Some(body) => memory.allocate(body, bytes, "x".into()),
                    None => memory.allocate_repeated(bytes, "x".into()),
                };
                let pointer = pointer.unwrap();
                // SAFETY: the allocation has that many bytes.
                let content = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
                let holds = |poison: Poison| {
                    content.iter().enumerate().all(|(k, &byte)| byte == poison.pattern[k % 8])
                };
                assert!(body.map_or(Some(POISON_A), |body| body.fill).is_none_or(holds), "{bytes}");
                content.fill(1);
                memory.free(pointer).unwrap();
            }
        }
        assert!(memory.overruns().is_empty());
    }

    #[test]
    fn freeing_twice_is_an_invalid_value() {
        let memory = memory();
        let pointer = memory.allocate(FILLED, 8, "x".into()).unwrap();
        memory.free(pointer).unwrap();
        assert_eq!(memory.free(pointer), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn memory_beyond_the_limit_is_refused() {
        let memory = memory();
        assert_eq!(memory.allocate(FILLED, 2 << 20, "x".into()), Err(CudaError::MEMORY_ALLOCATION));
        let half = memory.allocate(FILLED, 1 << 19, "x".into()).unwrap();
        assert!(memory.allocate(FILLED, (1 << 19) + 1, "x".into()).is_err());
        memory.free(half).unwrap();
        assert!(memory.allocate(FILLED, (1 << 19) + 1, "x".into()).is_ok());
    }

    #[test]
    fn addresses_are_described_by_what_lies_there() {
        let memory = memory();
        let pointer = memory.allocate(FILLED, 1000, "scores".into()).unwrap() as usize;
        assert_eq!(
            described(&memory, pointer + 1024),
            "24 bytes past the end of scores (1000 bytes)"
        );
        assert_eq!(described(&memory, pointer - 4), "4 bytes before scores (1000 bytes)");
        assert_eq!(described(&memory, 0), "a null pointer");
        assert_eq!(described(&memory, 16), "16 bytes past a null pointer");
        assert_eq!(
            described(&memory, pointer + (8 << 20)),
            "8387608 bytes past the end of scores (1000 bytes)"
        );
        assert_eq!(described(&memory, memory.reserved().end), "no allocation is near");
        memory.free(pointer as *mut u8).unwrap();
        assert_eq!(described(&memory, pointer), "freed memory: scores (1000 bytes)");
    }

    #[test]
    fn writes_outside_are_told_in_the_order_of_the_allocations() {
        let memory = memory();
        let names = ["a", "b", "c", "d", "e", "f"];
        for name in names {
            let pointer = memory.allocate(FILLED, 1000, name.into()).unwrap();
            // SAFETY: the byte lies on the allocation's page, though outside of it.
            unsafe { pointer.sub(1).write(1) };
        }
        let told: Vec<String> = memory.overruns().iter().map(|text| text[..1].to_owned()).collect();
        assert_eq!(told, names);
    }

    #[test]
    fn a_write_outside_is_found_when_it_is_freed() {
        let memory = memory();
        let pointer = memory.allocate(FILLED, 1000, "x".into()).unwrap();
        // SAFETY: the byte lies on the allocation's page, though outside of it.
        unsafe { pointer.sub(7).write(1) };
        memory.free(pointer).unwrap();
        assert_eq!(memory.overruns(), ["x has 1000 bytes, a byte 7 before its begin was written"]);
    }

    #[test]
    fn a_write_into_the_slack_is_found() {
        let memory = memory();
        let pointer = memory.allocate(FILLED, 10, "x".into()).unwrap();
        assert!(memory.overruns().is_empty());
        // SAFETY: byte 12 is inside the mapping, though outside of the allocation.
        unsafe { pointer.add(12).write(1) };
        assert_eq!(memory.overruns(), ["x has 10 bytes, byte 12 was written"]);
    }
}
