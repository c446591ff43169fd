//! Interruptions by the user that are noted: what was found is written before this process ends. Waiting for another
//! process ([`super::wait_for`]) ends at once.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

const SIGNALS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// The signal by which the user wants this process to end; 0 for none.
static NOTED_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The number of [`EVENT`] for the signal handler; -1 before there is one.
static EVENT_NUMBER: AtomicI32 = AtomicI32::new(-1);
static EVENT: OnceLock<OwnedFd> = OnceLock::new();

/// From now on the first Ctrl-C or SIGTERM is noted. The second one ends this process.
pub fn note_interruptions() {
    static ONE: u64 = 1;
    extern "C" fn note_signal(signal: i32) {
        NOTED_SIGNAL.store(signal, Ordering::Relaxed);
        let event = EVENT_NUMBER.load(Ordering::Relaxed);
        // SAFETY: signal and write may be called from a signal handler. The descriptor stays open.
        unsafe {
            for noted in SIGNALS {
                libc::signal(noted, libc::SIG_DFL);
            }
            libc::write(event, (&raw const ONE).cast(), size_of_val(&ONE));
        }
    }
    // Where the system gives no descriptor, the replay at hand is waited for.
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    if EVENT.get().is_none()
        && let Ok(event) = eventfd(0, flags)
    {
        let event = EVENT.get_or_init(|| event);
        EVENT_NUMBER.store(event.as_raw_fd(), Ordering::Relaxed);
    }
    for signal in SIGNALS {
        // SAFETY: the handler calls async-signal-safe functions alone.
        unsafe { libc::signal(signal, note_signal as *const () as libc::sighandler_t) };
    }
}

/// The signal of the noted interruption.
pub fn noted_signal() -> Option<i32> {
    Some(NOTED_SIGNAL.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Can be read once an interruption was noted; none where interruptions are not noted.
pub(super) fn interruption_event() -> Option<BorrowedFd<'static>> {
    EVENT.get().map(AsFd::as_fd)
}
