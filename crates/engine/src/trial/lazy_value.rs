//! A value made on first demand.

use std::sync::{Mutex, OnceLock, PoisonError};

/// A value made once. An error is not kept: the next caller tries again.
///
/// A second caller waits while the first makes the value, so neither may be work that rayon
/// schedules: the thread that makes the value might be handed the second caller's work meanwhile.
pub(super) struct LazyValue<T> {
    value: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Default for LazyValue<T> {
    fn default() -> LazyValue<T> {
        LazyValue { value: OnceLock::new(), making: Mutex::new(()) }
    }
}

impl<T> LazyValue<T> {
    /// The value, if it was made.
    pub(super) fn peek(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value; `make` makes it if nobody did.
    pub(super) fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(known_value) = self.value.get() {
            return Ok(known_value);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known_value) = self.value.get() {
            return Ok(known_value);
        }
        let new_value = make()?;
        Ok(self.value.get_or_init(|| new_value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_value_that_several_threads_ask_for_is_made_once() {
        let once = LazyValue::default();
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| once.get(|| Ok::<_, ()>(made.fetch_add(1, Ordering::SeqCst))));
            }
        });
        assert_eq!((made.into_inner(), once.peek()), (1, Some(&0)));
    }

    #[test]
    fn an_error_is_tried_again() {
        let once = LazyValue::default();
        assert_eq!(once.get(|| Err("full")), Err("full"));
        assert_eq!((once.peek(), once.get(|| Ok::<_, &str>(7))), (None, Ok(&7)));
    }
}
