//! Runs two things at a time.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs both, `first_task` on a thread of its own. Must not be used for work of rayon's: each may wait for a
/// result of another thread.
pub fn run_both<A: Send, B>(
    first_task: impl FnOnce() -> A + Send,
    second_task: impl FnOnce() -> B,
) -> (A, B) {
    let first_cell = Mutex::new(Some(first_task));
    thread::scope(|scope| {
        let first_thread =
            thread::Builder::new().spawn_scoped(scope, || run_cell_task(&first_cell));
        let second_result = second_task();
        let first_result = match first_thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system has no thread for it.
            Err(_) => run_cell_task(&first_cell),
        };
        (first_result, second_result)
    })
}

/// Runs the task in `cell`, which is taken once.
fn run_cell_task<A>(cell: &Mutex<Option<impl FnOnce() -> A>>) -> A {
    let taken_task = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken_task.expect("it is done once")()
}
