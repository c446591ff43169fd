//! Makes several things at a time and hands them over in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

/// Makes `count` things, `at_once` of them at a time, and hands them over in order. A thing waits for its turn.
pub(super) fn in_order<T: Send, E: Send>(
    count: usize,
    at_once: usize,
    make: impl Fn(usize) -> Result<T, E> + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    if at_once <= 1 {
        return (0..count).try_for_each(|index| take(index, make(index)?));
    }
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let taken_count = Mutex::new(0usize);
    let turn = Condvar::new();
    let work = |ready: mpsc::Sender<(usize, Result<T, E>)>| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let mut taken_guard = lock_count(&taken_count);
            while index >= *taken_guard + at_once && !stopped.load(Ordering::Relaxed) {
                taken_guard = turn.wait(taken_guard).unwrap_or_else(PoisonError::into_inner);
            }
            drop(taken_guard);
            if index >= count || stopped.load(Ordering::Relaxed) {
                return;
            }
            let _ = ready.send((index, make(index)));
        }
    };
    std::thread::scope(|scope| {
        let (sender, ready) = mpsc::channel();
        let started = (0..at_once).take_while(|_| {
            let work = &work;
            let sender = sender.clone();
            std::thread::Builder::new().spawn_scoped(scope, move || work(sender)).is_ok()
        });
        if started.count() == 0 {
            // The system has no thread for it.
            return (0..count).try_for_each(|index| take(index, make(index)?));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut result = Ok(());
        for (index, item_result) in ready {
            early.insert(index, item_result);
            while result.is_ok() {
                let mut taken_guard = lock_count(&taken_count);
                let Some(item_result) = early.remove(&*taken_guard) else { break };
                let index = *taken_guard;
                drop(taken_guard);
                result = item_result.and_then(|item| take(index, item));
                taken_guard = lock_count(&taken_count);
                *taken_guard += 1;
                stopped.store(result.is_err() || *taken_guard == count, Ordering::Relaxed);
                turn.notify_all();
            }
        }
        result
    })
}

fn lock_count(count: &Mutex<usize>) -> MutexGuard<'_, usize> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_made_out_of_order_is_handed_over_in_order() {
        for at_once in [1, 2, 3, 50] {
            let running = AtomicUsize::new(0);
            let make = |index: usize| {
                let others = running.fetch_add(1, Ordering::SeqCst);
                assert!(others < at_once);
                std::thread::sleep(Duration::from_millis((index as u64 * 7) % 5));
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<usize, ()>(index * index)
            };
            let mut seen = Vec::new();
            in_order(20, at_once, make, |index, made| {
                seen.push((index, made));
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, (0..20).map(|index| (index, index * index)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_in_order_ends_it() {
        for at_once in [1, 4] {
            let make = |index| if index == 3 || index == 7 { Err(index) } else { Ok(index) };
            let mut seen = 0;
            let result = in_order(1_000, at_once, make, |_, _| {
                seen += 1;
                Ok(())
            });
            assert_eq!((result, seen), (Err(3), 3));
            let refused = in_order(1_000, at_once, Ok::<usize, usize>, |index, _| match index {
                5 => Err(5),
                _ => Ok(()),
            });
            assert_eq!(refused, Err(5));
        }
        assert_eq!(in_order(0, 4, Ok::<usize, ()>, |_, _| Ok(())), Ok(()));
    }
}
