//! Finds the last launch that writes a tensor. The tensor's pages are read-only until a launch
//! writes them: the fault is noted, and the pages stay writable until the next launch begins.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The watched tensor.
struct TensorWatch {
    begin: usize,
    bytes: usize,
    open: AtomicBool,
    launches: AtomicU64,
    /// One more than the launches begun by the last write to the tensor.
    written: AtomicU64,
}

static WATCH: OnceLock<TensorWatch> = OnceLock::new();

impl TensorWatch {
    fn protect(&self, is_open: bool) {
        let access = if is_open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the pages belong to an allocation of this process, and stay mapped.
        unsafe { libc::mprotect(self.begin as *mut libc::c_void, self.bytes, access) };
        self.open.store(is_open, Ordering::SeqCst);
    }
}

/// Watches the pages of `bytes` at `begin` from here on; only the first call of a process counts.
pub(super) fn start_tensor_watch(begin: usize, bytes: usize) {
    let open = AtomicBool::new(true);
    let launches = AtomicU64::new(0);
    let written = AtomicU64::new(0);
    if WATCH.set(TensorWatch { begin, bytes, open, launches, written }).is_ok() {
        begin_launches(0);
    }
}

/// `launches` have begun, the last of them now.
pub(crate) fn begin_launches(launches: u64) {
    let Some(watch) = WATCH.get() else { return };
    watch.launches.store(launches, Ordering::SeqCst);
    if watch.open.load(Ordering::SeqCst) {
        watch.protect(false);
    }
}

/// Whether an access to `address` failed because the tensor is watched; it succeeds the next time.
/// Called from a signal handler.
pub(crate) fn let_in(address: usize) -> bool {
    let Some(watch) = WATCH.get() else { return false };
    let is_inside = (watch.begin..watch.begin + watch.bytes).contains(&address);
    if is_inside {
        watch.written.store(watch.launches.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
        watch.protect(true);
    }
    is_inside
}

/// The launches begun by the last write to the tensor; none without a write.
pub(super) fn last_write() -> Option<u64> {
    WATCH.get()?.written.load(Ordering::SeqCst).checked_sub(1)
}
