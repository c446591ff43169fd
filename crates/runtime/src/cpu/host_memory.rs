//! The memory limit of host code: as much as the device's. The system counts the private writable memory of a process
//! (`RLIMIT_DATA`, setrlimit(2)), so the machine's own memory is added to the limit.

use std::sync::Mutex;

use super::fiber::page_bytes;
use replay_base::process::{self, Resource};

/// The machine's uncounted memory, such as its heap.
const SPARE_BYTES: u64 = 64 << 20;

/// The limit while host code runs.
static LIMIT: Mutex<Option<u64>> = Mutex::new(None);

fn change_data_limit(change: impl FnOnce(Option<u64>) -> Option<u64>) {
    let mut limit = LIMIT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let next = change(*limit);
    if next != *limit {
        *limit = next;
        // If the system refuses, host code keeps its limit.
        let _ = process::set_limit(Resource::Data, next);
    }
}

/// From here on host code may take `bytes`, and no more.
pub fn limit_host_memory(bytes: u64) {
    let private_bytes = private_memory();
    change_data_limit(|_| {
        private_bytes
            .map(|taken_bytes| taken_bytes.saturating_add(bytes).saturating_add(SPARE_BYTES))
    });
}

/// The bytes of private writable memory of this process; none if the system does not tell (proc_pid_statm(5)).
fn private_memory() -> Option<u64> {
    let statistics = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = statistics.split(' ').nth(5)?.parse::<u64>().ok()?;
    Some(pages.saturating_mul(page_bytes() as u64))
}

/// Host code does not run any more.
pub fn lift_host_limit() {
    change_data_limit(|_| None);
}

/// The machine takes `bytes` for itself.
pub(super) fn reserve_machine_memory(bytes: usize) {
    change_data_limit(|limit| limit.map(|limit| limit.saturating_add(bytes as u64)));
}

/// The machine has given `bytes` back.
pub(super) fn release_machine_memory(bytes: usize) {
    change_data_limit(|limit| limit.map(|limit| limit.saturating_sub(bytes as u64)));
}
