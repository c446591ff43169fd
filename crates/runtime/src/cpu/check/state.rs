//! The state for the hooks of a checked build: with it few accesses take a call of the engine.

use super::clocks::Warp;
use super::packed_cells::PackedCell;

/// All memory in so many bytes of addresses belongs to one region at most: guards are as wide.
pub(super) const GRAIN: usize = 1 << 16;

const SLOTS: usize = 4096;

/// `replay_rt::check_slot` of `include/replay/check_definitions.h`: a region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Its first address.
    pub begin: usize,
    pub bytes: usize,
    /// Its cells; null where nothing is checked.
    pub cells: *mut PackedCell,
    /// Bytes of a cell, as a power of two.
    pub shift: u32,
    /// 1: all of it was written before the first kernel. 2: each block has its own.
    pub flags: u32,
}

impl Slot {
    /// No memory at all.
    pub(super) const EMPTY: Slot =
        Slot { begin: 0, bytes: 0, cells: std::ptr::null_mut(), shift: 0, flags: 0 };

    /// The unchecked memory around `address`.
    pub(super) fn unchecked(address: usize) -> Slot {
        Slot { begin: address & !(GRAIN - 1), bytes: GRAIN, ..Slot::EMPTY }
    }
}

/// `replay_rt::check_state` of `include/replay/check_definitions.h`.
#[repr(C)]
pub(super) struct HookState {
    /// The running phase.
    pub phase: u32,
    /// The first one of the running block.
    pub block_first: u32,
    pub launch_first: u32,
    /// Those before this one are ordered before the launch.
    pub before: u32,
    /// Whether the block knows of accesses of other blocks in this launch.
    pub learned: u32,
    /// Whether a thread has fenced in this launch.
    pub fenced: u32,
    /// Whether every access takes a call.
    pub slow: u32,
    /// Where the artifact lies: places in the code are told from there.
    pub base: usize,
    /// By thread: its tick.
    pub ticks: *const u32,
    /// By warp: the lanes' knowledge of each other.
    pub warps: *const Warp,
    /// By [`GRAIN`] of the address: the memory there, if it is known.
    slots: [Slot; SLOTS],
    /// The indices of the known ones.
    known: Vec<usize>,
}

impl HookState {
    /// The state before the first launch of an artifact at `base`.
    pub(super) fn new(base: usize) -> Box<HookState> {
        Box::new(HookState {
            phase: 0,
            block_first: 0,
            launch_first: 0,
            before: 0,
            learned: 0,
            fenced: 0,
            slow: 0,
            base,
            ticks: std::ptr::null(),
            warps: std::ptr::null(),
            slots: [Slot::EMPTY; SLOTS],
            known: Vec::new(),
        })
    }

    /// Learns the slot around `address`.
    pub(super) fn learn(&mut self, address: usize, slot: Slot) {
        let index = address / GRAIN % SLOTS;
        if self.slots[index].bytes == 0 {
            self.known.push(index);
        }
        self.slots[index] = slot;
    }

    /// Forgets all slots.
    pub(super) fn forget(&mut self) {
        for index in self.known.drain(..) {
            self.slots[index] = Slot::EMPTY;
        }
    }
}
