//! Shared memory of an operating-system thread's block: dynamic and static.
//!
//! Both are poisoned for every block. Before static and behind dynamic shared memory there is none. A variable lies at
//! the same distance from the begin in all blocks of a cluster. The memory of an ended block cannot be touched.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::clusters::MOST_BLOCKS;
use super::fiber::page_bytes;
use super::pages::{fill_with_poison, reserve_guarded_pages};
use super::space::AddressSpace;
use super::{check, host_memory};
use crate::abi::BlockState;
use crate::{end_replay, lack_of_memory};
use replay_base::summary::Poison;

/// A block's default limit of shared memory (CUDA C++ Programming Guide, "Compute Capabilities").
pub(crate) const DEFAULT_BYTES: usize = 48 << 10;
/// A block's limit on request, on a device of compute capability 9.0.
pub(crate) const MAX_BYTES: usize = 227 << 10;

/// Bytes for the static variables of a block, and as many for its dynamic shared memory.
const AREA_BYTES: usize = 256 << 10;
/// The greatest width of an element of one byte in a float64 shadow.
pub(crate) const WIDENING: usize = 8;
const ALIGNMENT: usize = 128;
const MAX_SLOTS: usize = 2048;

static SLOTS: AtomicU32 = AtomicU32::new(0);

/// A new number for a static `__shared__` variable.
pub(crate) extern "C" fn new_slot() -> u32 {
    let slot = SLOTS.fetch_add(1, Ordering::Relaxed);
    if slot as usize >= MAX_SLOTS {
        let detail = format!("the code has more than {MAX_SLOTS} __shared__ variables");
        end_replay("too many variables", detail, None);
    }
    slot
}

/// The shared memory of one operating-system thread.
pub(super) struct SharedMemory {
    /// The addresses for the shared memory of all blocks.
    space: &'static AddressSpace,
    map: *mut u8,
    /// Bytes of the static and of the dynamic area, each.
    area: usize,
    slots: Box<[*mut c_void; MAX_SLOTS]>,
    poison: Poison,
    limit: usize,
    dynamic_bytes: usize,
    static_bytes: usize,
    /// The begin of each block's shared memory, by its rank in the cluster.
    begins: [*mut u8; MOST_BLOCKS],
    /// The blocks of the cluster, this one among them; none where there is no other.
    peers: Vec<*mut SharedMemory>,
    /// Whether its block has ended while others of its cluster run.
    closed: bool,
    /// Ends the replay because the kernel needs more than a block can have.
    too_large: fn(usize, usize) -> !,
}

thread_local! {
    static CURRENT: Cell<*mut SharedMemory> = const { Cell::new(std::ptr::null_mut()) };
}

impl SharedMemory {
    /// Both areas, in `space`. They hold `scale` times as much as a device's.
    ///
    /// # Errors
    /// If the system has no memory.
    pub(super) fn new(
        space: &'static AddressSpace,
        poison: Poison,
        scale: usize,
        too_large: fn(usize, usize) -> !,
    ) -> io::Result<SharedMemory> {
        let page = page_bytes();
        let area = AREA_BYTES * scale;
        host_memory::reserve_machine_memory(2 * area);
        let map = match space.place(2 * area, page) {
            Some(place) => place,
            None => reserve_guarded_pages(2 * area + 2 * page, page, 2 * area)? + page,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let map = map as *mut u8;
        // SAFETY: these addresses were reserved for it.
        if unsafe { libc::mprotect(map.cast(), 2 * area, access) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let slots = Box::new([std::ptr::null_mut(); MAX_SLOTS]);
        let limit = DEFAULT_BYTES;
        let mut begins = [std::ptr::null_mut(); MOST_BLOCKS];
        begins[0] = map;
        Ok(SharedMemory {
            space,
            map,
            area,
            slots,
            poison,
            limit,
            dynamic_bytes: 0,
            static_bytes: 0,
            begins,
            peers: Vec::new(),
            closed: false,
            too_large,
        })
    }

    /// Puts it among those of its cluster's blocks, in the order of their ranks.
    pub(super) fn join(&mut self, peers: &[*mut SharedMemory]) {
        self.begins = [std::ptr::null_mut(); MOST_BLOCKS];
        for (block_begin, &peer) in self.begins.iter_mut().zip(peers) {
            // SAFETY: the blocks of a cluster lie in one place while they run.
            *block_begin = unsafe { (*peer).map };
        }
        self.peers = peers.to_vec();
    }

    /// Makes all of it inaccessible, as its block has ended, or accessible again.
    pub(super) fn close(&mut self, closed: bool) {
        if self.closed == closed {
            return;
        }
        self.closed = closed;
        let access = if closed { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        // SAFETY: the pages from `new`, without the guard behind them.
        if unsafe { libc::mprotect(self.map.cast(), 2 * self.area, access) } != 0 {
            lack_of_memory("shared memory", 2 * self.area, &io::Error::last_os_error());
        }
    }

    /// Tells device code where the shared memory of the next blocks is; a block may have `limit`
    /// bytes, static and dynamic together.
    pub(crate) fn begin_launch(
        &mut self,
        dynamic_bytes: usize,
        limit: usize,
        state: &mut BlockState,
    ) {
        self.dynamic_bytes = dynamic_bytes;
        self.limit = limit;
        state.shared_begin = self.map;
        state.shared_end = self.map.wrapping_add(2 * self.area);
        let body = dynamic_bytes.next_multiple_of(ALIGNMENT);
        state.dynamic_shared = state.shared_end.wrapping_sub(body);
        state.shared_slots = self.slots.as_mut_ptr();
        state.cluster_shared = self.begins.as_ptr();
        CURRENT.set(self);
    }

    /// Poisons the dynamic part and forgets the static variables, for the next block.
    pub(crate) fn begin_block(&mut self) {
        let used = SLOTS.load(Ordering::Relaxed) as usize;
        self.slots[..used].fill(std::ptr::null_mut());
        self.static_bytes = 0;
        let body = self.dynamic_bytes.next_multiple_of(ALIGNMENT);
        let dynamic_begin = self.map as usize + 2 * self.area - body;
        // SAFETY: the area is mapped and belongs to this thread.
        unsafe { fill_with_poison(self.poison, dynamic_begin, body) };
    }

    /// Where the dynamic part lies.
    pub(super) fn dynamic(&self) -> std::ops::Range<usize> {
        let dynamic_begin =
            self.map as usize + 2 * self.area - self.dynamic_bytes.next_multiple_of(ALIGNMENT);
        dynamic_begin..dynamic_begin + self.dynamic_bytes
    }

    /// Both areas.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.map as usize..self.map as usize + 2 * self.area
    }

    fn allocate(
        &mut self,
        slot: u32,
        bytes: usize,
        align: usize,
        name: &'static CStr,
    ) -> *mut c_void {
        let variable_offset = self.static_bytes.next_multiple_of(align.max(16));
        let needed = variable_offset + bytes;
        if needed + self.dynamic_bytes > self.limit {
            (self.too_large)(needed + self.dynamic_bytes, self.limit);
        }
        if self.peers.is_empty() {
            return self.place(slot, variable_offset, bytes, name);
        }
        for peer in self.peers.clone() {
            // SAFETY: as in `join`; `self` is one of them, and not used meanwhile.
            unsafe { (*peer).place(slot, variable_offset, bytes, name) };
        }
        self.slots[slot as usize]
    }

    fn place(
        &mut self,
        slot: u32,
        variable_offset: usize,
        bytes: usize,
        name: &'static CStr,
    ) -> *mut c_void {
        self.static_bytes = variable_offset + bytes;
        if self.closed {
            return std::ptr::null_mut();
        }
        let address = self.map as usize + variable_offset;
        // SAFETY: the area is larger than any limit and belongs to this thread.
        unsafe { fill_with_poison(self.poison, address, bytes) };
        self.slots[slot as usize] = address as *mut c_void;
        check::note_shared_variable(address..address + bytes, name, self.range());
        address as *mut c_void
    }
}

/// An address further away is told as any other.
const NEAR_BYTES: usize = 8 << 30;

/// How `address` lies beside the shared memory of this operating-system thread, if it does: before it, or behind it.
pub(crate) fn stray_at(address: usize) -> Option<Stray> {
    let current_memory = CURRENT.get();
    if current_memory.is_null() {
        return None;
    }
    // SAFETY: set by `begin_launch`; the memory lives as long as the thread.
    let (range, space) = unsafe { ((*current_memory).range(), (*current_memory).space) };
    let near_bytes = if space.contains(address) { NEAR_BYTES } else { page_bytes() };
    let is_near =
        (range.start.saturating_sub(near_bytes)..range.end + near_bytes).contains(&address);
    if !is_near || range.contains(&address) {
        return None;
    }
    Some(if address < range.start { Stray::Before } else { Stray::Behind })
}

/// An address beside shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    Before,
    Behind,
}

/// Whether `address` is shared memory of an ended block in the running block's cluster, on this operating-system
/// thread.
pub(crate) fn ended_at(address: usize) -> bool {
    let current_memory = CURRENT.get();
    if current_memory.is_null() {
        return false;
    }
    // SAFETY: as in `overrun_at`; the blocks of a cluster lie in one place while they run.
    unsafe {
        let peers = &(*current_memory).peers;
        peers.iter().any(|&peer| (*peer).closed && (*peer).range().contains(&address))
    }
}

/// Gives the static variable `slot`, called `name` in the sources, its memory in the current block.
///
/// # Safety
/// Must be called from a thread of a running kernel; `name` is a literal of the artifact.
pub(crate) unsafe extern "C" fn allocate_static_shared(
    slot: u32,
    bytes: usize,
    align: usize,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: `begin_launch` set the memory on this operating-system thread; the artifact stays loaded.
    unsafe { (*CURRENT.get()).allocate(slot, bytes, align, CStr::from_ptr(name)) }
}
