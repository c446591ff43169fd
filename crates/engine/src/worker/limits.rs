//! The limits of a replay's time and memory.

use std::time::Duration;

/// The limits of one child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall time.
    pub timeout: Duration,
    /// Bytes of device memory; the child itself may have more, for stacks and its own needs.
    pub memory_limit_bytes: u64,
}

impl Limits {
    /// The default limit of wall time.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// The default device memory. It is the same on every machine, since code can query it and
    /// decide by it.
    pub const MEMORY_LIMIT_BYTES: u64 = 16 << 30;

    /// The address space of a child with `threads`, for `RLIMIT_AS`.
    pub(crate) fn address_space_bytes(&self, threads: usize) -> u64 {
        /// Reserved for the stacks of the largest block, and for the system's own per thread.
        const PER_THREAD: u64 = 256 << 20;
        const BASE: u64 = 2 << 30;
        self.memory_limit_bytes
            .saturating_mul(2)
            .saturating_add(BASE)
            .saturating_add(PER_THREAD * threads as u64)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { timeout: Limits::TIMEOUT, memory_limit_bytes: Limits::MEMORY_LIMIT_BYTES }
    }
}
