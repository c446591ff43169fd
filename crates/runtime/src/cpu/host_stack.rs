//! The extent of host code's stack.
#![allow(unsafe_code)]

use std::sync::OnceLock;

/// How near to the end of the stack an access counts as an overflow.
const NEAR_BYTES: usize = 1 << 20;

/// The lowest possible address of the stack, and its bytes.
static STACK: OnceLock<(usize, usize)> = OnceLock::new();

/// Notes the stack of the calling thread, of host code.
pub(super) fn note_host_stack() {
    // SAFETY: the attributes are a variable, initialised first and destroyed last.
    let stack = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return;
        }
        let mut low = std::ptr::null_mut();
        let mut bytes = 0;
        let status =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        (status == 0).then_some((low as usize, bytes))
    };
    if let Some(stack) = stack {
        let _ = STACK.set(stack);
    }
}

/// The bytes of the stack, if `address` lies just beyond it.
pub(crate) fn overflowed_at(address: usize) -> Option<usize> {
    let &(low, bytes) = STACK.get()?;
    let near_range = low.saturating_sub(NEAR_BYTES)..low + NEAR_BYTES.min(bytes);
    near_range.contains(&address).then_some(bytes)
}
