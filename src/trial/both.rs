//! Runs two things at a time.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs both, `one` on a thread of its own. Must not be used for work of rayon's: each may wait for a
/// result of another thread.
pub(crate) fn both<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    let one = Mutex::new(Some(one));
    let begin = || {
        let one = one.lock().unwrap_or_else(PoisonError::into_inner).take();
        one.expect("it is done once")()
    };
    thread::scope(|scope| {
        let begun = thread::Builder::new().spawn_scoped(scope, begin);
        let other = other();
        let one = match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system has no thread for it.
            Err(_) => begin(),
        };
        (one, other)
    })
}
