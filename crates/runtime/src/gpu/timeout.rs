//! Names the running kernel at the parent's signal for the end of time.
//!
//! The handler neither allocates nor waits. It ends the process, and with it the kernel.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::report::LastWord;
use crate::signals::{self, end_if_from_outside, handle_by};

static NAME: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static NAME_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler.
pub(super) fn install_timeout_handler() {
    handle_by(libc::SIGTERM, handle_timeout);
}

/// Remembers the running kernel; none between launches.
pub(super) fn note_running_kernel(kernel: Option<&'static str>) {
    NAME_BYTES.store(0, Ordering::SeqCst);
    if let Some(name) = kernel {
        NAME.store(name.as_ptr().cast_mut(), Ordering::SeqCst);
        NAME_BYTES.store(name.len(), Ordering::SeqCst);
    }
}

extern "C" fn handle_timeout(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes the information about this signal.
    unsafe { end_if_from_outside(signal, info) };
    let bytes = NAME_BYTES.load(Ordering::SeqCst);
    // SAFETY: the name lives as long as the process.
    let name = (bytes > 0)
        .then(|| unsafe { std::slice::from_raw_parts(NAME.load(Ordering::SeqCst), bytes) });
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    signals::end_with_last_word(&LastWord::fault("timeout", name, None, |_| ()))
}
