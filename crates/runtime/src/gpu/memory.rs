//! Device memory of a GPU: poisoned allocations between margins, to show writes past the ends.
//!
//! Only writes close to an allocation are found. Those further out hit other memory, or none: the device
//! itself reports the latter.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::GpuSettings;
use replay_base::summary::Poison;
use replay_cuda::CudaError;
use replay_cuda::driver::{Address, Context};

/// Poisoned bytes before and behind each allocation; CUDA aligns allocations to as many.
const MARGIN: usize = 256;

struct GpuAllocation {
    bytes: usize,
    label: String,
    /// The poisoned bytes before and behind it.
    margin: usize,
}

impl GpuAllocation {
    /// The body, up to where the margin behind it begins.
    fn body(&self) -> usize {
        self.bytes.next_multiple_of(8)
    }
}

/// All allocations of one replay.
pub(super) struct GpuMemory {
    poison: Poison,
    margin: usize,
    filled: bool,
    /// Whether the host can touch all of it.
    managed: bool,
    limit: usize,
    state: Mutex<GpuMemoryState>,
}

#[derive(Default)]
struct GpuMemoryState {
    /// By the user's address.
    live: BTreeMap<Address, GpuAllocation>,
    used: usize,
    /// The overruns found when memory was freed.
    overruns: Vec<String>,
}

impl GpuMemory {
    /// Memory of at most `limit` bytes.
    pub(super) fn new(settings: GpuSettings, limit: usize) -> GpuMemory {
        let GpuSettings { poison, filled, managed, .. } = settings;
        let margin = if settings.margins && filled { MARGIN } else { 0 };
        GpuMemory { poison, margin, filled, managed, limit, state: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GpuMemoryState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether host code can touch all of it, while no kernel runs.
    pub(super) fn managed(&self) -> bool {
        self.managed
    }

    /// Allocates `bytes`, called `label` in messages; the host can touch them too if `managed`. Address 0 for
    /// no bytes.
    pub(super) fn allocate(
        &self,
        context: &Context,
        bytes: usize,
        label: String,
        managed: bool,
    ) -> Result<Address, CudaError> {
        if bytes == 0 {
            return Ok(0);
        }
        let mut state = self.lock();
        if bytes > self.limit.saturating_sub(state.used) {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        let margin = self.margin;
        let allocation = GpuAllocation { bytes, label, margin };
        // Without margins it is as long as the code wants it, to the byte.
        let map_bytes = if margin > 0 { allocation.body() + 2 * margin } else { bytes };
        let map = if managed || self.managed {
            context.allocate_managed(map_bytes)?
        } else {
            context.allocate(map_bytes)?
        };
        if self.filled {
            context.fill(map, self.poison.pattern, map_bytes / 8)?;
        }
        let address = map + margin as Address;
        state.used += bytes;
        state.live.insert(address, allocation);
        Ok(address)
    }

    /// Frees the allocation at `address`.
    pub(super) fn free(&self, context: &Context, address: Address) -> Result<(), CudaError> {
        let mut state = self.lock();
        let allocation = state.live.remove(&address).ok_or(CudaError::INVALID_VALUE)?;
        let overrun = self.overrun(context, address, &allocation);
        state.overruns.extend(overrun);
        state.used -= allocation.bytes;
        context.free(address - allocation.margin as Address)
    }

    /// Refuses a range from an allocation to beyond its end. Other addresses (of
    /// variables, of the host) are the driver's to judge.
    pub(super) fn check(&self, address: Address, bytes: usize) -> Result<(), CudaError> {
        let state = self.lock();
        let Some((allocation_begin, allocation)) = state.live.range(..=address).next_back() else {
            return Ok(());
        };
        let offset = (address - allocation_begin) as usize;
        let ours = offset < allocation.body() + allocation.margin;
        if ours && offset + bytes > allocation.bytes {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(())
    }

    /// The bytes still available, and their limit.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.limit - self.lock().used, self.limit)
    }

    /// The overruns of all allocations, in words.
    pub(super) fn overruns(&self, context: &Context) -> Vec<String> {
        let state = self.lock();
        let live = state.live.iter();
        let live =
            live.filter_map(|(&address, allocation)| self.overrun(context, address, allocation));
        state.overruns.iter().cloned().chain(live).collect()
    }

    fn overrun(
        &self,
        context: &Context,
        address: Address,
        allocation: &GpuAllocation,
    ) -> Option<String> {
        if allocation.margin == 0 {
            return None;
        }
        let tail = allocation.body() - allocation.bytes;
        let mut bytes_before = vec![0u8; MARGIN];
        let mut bytes_behind = vec![0u8; tail + MARGIN];
        // SAFETY: both buffers have enough room. An error here was one before.
        unsafe {
            context
                .download(
                    bytes_before.as_mut_ptr(),
                    address - MARGIN as Address,
                    bytes_before.len(),
                )
                .ok()?;
            let end = address + allocation.bytes as Address;
            context.download(bytes_behind.as_mut_ptr(), end, bytes_behind.len()).ok()?;
        }
        describe_margin_damage(allocation, &self.poison, &bytes_before, &bytes_behind)
    }
}

/// Names the first byte around `allocation` without the poison.
fn describe_margin_damage(
    allocation: &GpuAllocation,
    poison: &Poison,
    bytes_before: &[u8],
    bytes_behind: &[u8],
) -> Option<String> {
    let GpuAllocation { bytes, label, .. } = allocation;
    if let Some(offset) = find_other_byte(bytes_behind, poison, *bytes) {
        return Some(format!("{label} has {bytes} bytes, byte {} was written", bytes + offset));
    }
    let offset = find_other_byte(bytes_before, poison, 0)?;
    Some(format!("{label}: {} bytes before its begin were written", bytes_before.len() - offset))
}

/// The first of `bytes` unlike `poison`, from byte `phase` of its pattern on.
fn find_other_byte(bytes: &[u8], poison: &Poison, phase: usize) -> Option<usize> {
    bytes.iter().enumerate().position(|(k, &byte)| byte != poison.pattern[(phase + k) % 8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::summary::POISON_A;

    fn found(bytes: usize, spoil: Option<(bool, usize)>) -> Option<String> {
        let allocation = GpuAllocation { bytes, label: "x".into(), margin: MARGIN };
        let mut before = vec![0; MARGIN];
        let mut all = vec![0; allocation.body() + MARGIN];
        POISON_A.fill(&mut before);
        POISON_A.fill(&mut all);
        let mut behind = all.split_off(bytes);
        match spoil {
            Some((true, at)) => behind[at] ^= 1,
            Some((false, at)) => before[at] ^= 1,
            None => {}
        }
        describe_margin_damage(&allocation, &POISON_A, &before, &behind)
    }

    #[test]
    fn margins_that_hold_the_poison_tell_nothing() {
        for bytes in 1..20 {
            assert_eq!(found(bytes, None), None, "{bytes} bytes");
        }
    }

    #[test]
    fn a_write_beside_an_allocation_is_named() {
        insta::assert_snapshot!(found(10, Some((true, 2))).unwrap(), @"x has 10 bytes, byte 12 was written");
        insta::assert_snapshot!(found(8, Some((false, 252))).unwrap(), @"x: 4 bytes before its begin were written");
    }
}
