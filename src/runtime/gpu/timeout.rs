//! Names the kernel that runs when the parent says that time is over.
//!
//! The handler neither allocates nor waits, and ends the process; with it goes the kernel.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use crate::runtime::REPORTED;

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static NAME: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static NAME_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler; its account goes to `descriptor`.
pub(super) fn install(descriptor: i32) {
    DESCRIPTOR.store(descriptor, Ordering::SeqCst);
    // SAFETY: `handle` keeps to what a signal handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

/// Remembers which kernel runs; none between launches.
pub(super) fn running(kernel: Option<&'static str>) {
    NAME_BYTES.store(0, Ordering::SeqCst);
    if let Some(name) = kernel {
        NAME.store(name.as_ptr().cast_mut(), Ordering::SeqCst);
        NAME_BYTES.store(name.len(), Ordering::SeqCst);
    }
}

extern "C" fn handle(_signal: i32) {
    let write = |text: &[u8]| {
        // SAFETY: writes to the pipe. What cannot be written has no reader.
        unsafe { libc::write(DESCRIPTOR.load(Ordering::SeqCst), text.as_ptr().cast(), text.len()) };
    };
    let bytes = NAME_BYTES.load(Ordering::SeqCst);
    write(b"{\"fault\":{\"what\":\"timeout\",\"detail\":\"\"");
    if bytes > 0 {
        // SAFETY: a name that lives as long as the process.
        let name = unsafe { std::slice::from_raw_parts(NAME.load(Ordering::SeqCst), bytes) };
        if !name.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..=31)) {
            write(b",\"kernel\":\"");
            write(name);
            write(b"\"");
        }
    }
    write(b"}}\n");
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(REPORTED) }
}
