//! Many replays of one artifact on one fixture: they share a child that has loaded both, and the
//! cores; and the plain ones are kept for whoever asks for them next.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

use super::{DeviceJob, Mode, ReplayError, Replayer, Subject};
use crate::compile::Artifact;
use crate::frontend::Precision;
use crate::worker::{Run, Series};

/// Templates that wait for further runs: those of two revisions with their shadows.
const TEMPLATES: usize = 4;
/// Plain runs that are kept: those of two revisions.
const KEPT: usize = 2;
/// Outputs that are larger than this in all are made again instead of kept.
const KEPT_BYTES: usize = 256 << 20;
/// Outputs of that many bytes, of all replays together, are held at a time.
const BYTES_AT_ONCE: usize = 128 << 20;
/// Even where each replay has one core, another one is prepared meanwhile.
const LEAST_AT_ONCE: usize = 2;

/// What is kept between replays.
#[derive(Default)]
pub(super) struct Kept {
    /// By artifact and fixture, the last used last.
    series: Mutex<Vec<(PathBuf, PathBuf, Arc<Series>)>>,
    /// By the key of the outcome.
    plain: Mutex<Vec<(String, Plain)>>,
    /// Keys of what was made though something like it was in the cache.
    made: Mutex<HashSet<String>>,
}

/// The plain replay that an outcome was made of.
pub(crate) struct Plain {
    pub run: Run,
    /// Whether a second replay gave the same bits in every output.
    pub repeats: bool,
}

impl Kept {
    pub(super) fn keep(&self, key: &str, plain: Plain) {
        if bytes_of(&plain.run) > KEPT_BYTES {
            return;
        }
        let mut kept = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _)| of != key);
        kept.push((key.to_owned(), plain));
        let first = kept.len().saturating_sub(KEPT);
        kept.drain(..first);
    }
}

/// Bytes of all outputs of `run`.
fn bytes_of(run: &Run) -> usize {
    run.outputs().map(|(_, view)| view.bytes.len()).sum()
}

impl Replayer {
    /// The plain replay behind the outcome with this key, if it was made just now; it is the caller's.
    pub(crate) fn take_plain(&self, key: &str) -> Option<Plain> {
        let mut kept = self.kept.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, _)| of == key)?;
        Some(kept.remove(at).1)
    }

    /// Remembers that what the cache has for `key` comes from this replayer.
    pub(crate) fn made_just_now(&self, key: String) {
        self.kept.made.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Whether what the cache has for `key` was said to come from this replayer.
    pub(crate) fn was_made_just_now(&self, key: &str) -> bool {
        self.kept.made.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// How many replays like `run` run at a time.
    pub(crate) fn at_once(&self, run: &Run) -> usize {
        let threads = self.settings.threads;
        // With a core instead of all of them it may take that much longer.
        if run.call.saturating_mul(2 * threads as u32) > self.settings.limits.timeout {
            return 1;
        }
        let by_bytes = BYTES_AT_ONCE / bytes_of(run).max(1);
        by_bytes.clamp(1, threads.max(LEAST_AT_ONCE))
    }

    /// Runs `artifact` on the CPU in each of `modes`, `at_once` of them at a time, which share the
    /// cores; `take` receives the runs in their order.
    ///
    /// # Errors
    /// [`ReplayError`] if a child process cannot be run, or `take` fails.
    pub(crate) fn run_each(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        precision: Precision,
        modes: &[Mode],
        at_once: usize,
        take: impl FnMut(usize, Run) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let at_once = at_once.min(modes.len());
        let threads = (self.settings.threads / at_once.max(1)).max(1);
        let series = self.series(subject, artifact, precision);
        let run = |index: usize| {
            let mode: &Mode = &modes[index];
            let device = DeviceJob::Cpu { threads, order: mode.order, rounding: mode.rounding };
            let job = self.job(device, subject, artifact, precision, mode);
            Ok(self.counted(series.run(&job)?))
        };
        in_order(modes.len(), at_once, run, take)
    }

    /// A series of runs of `artifact`, begun anew if it was not used for long.
    pub(super) fn series(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        precision: Precision,
    ) -> Arc<Series> {
        let fixture = &subject.fixture;
        let mut all = self.kept.series.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            all.iter().position(|(path, dir, _)| *path == artifact.path && *dir == fixture.dir);
        let entry = match known {
            Some(at) => all.remove(at),
            None => {
                let device = DeviceJob::Cpu {
                    threads: self.settings.threads,
                    order: 0,
                    rounding: crate::runtime::cpu::Rounding::Nearest,
                };
                let mode = Mode::plain(crate::summary::POISON_A);
                let job = self.job(device, subject, artifact, precision, &mode);
                let (workers, limits) = (self.workers.clone(), self.settings.limits);
                let series = Arc::new(Series::new(workers, &job, fixture, limits));
                (artifact.path.clone(), fixture.dir.clone(), series)
            }
        };
        let series = entry.2.clone();
        all.push(entry);
        let first = all.len().saturating_sub(TEMPLATES);
        all.drain(..first);
        series
    }
}

/// Makes `count` things, `at_once` of them at a time, and hands them over in their order. One that is
/// ready before its turn waits, and so do those after it.
fn in_order<T: Send, E: Send>(
    count: usize,
    at_once: usize,
    make: impl Fn(usize) -> Result<T, E> + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    if at_once <= 1 {
        return (0..count).try_for_each(|index| take(index, make(index)?));
    }
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (taken, turn) = (Mutex::new(0usize), Condvar::new());
    let lock = || taken.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |ready: mpsc::Sender<(usize, Result<T, E>)>| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let mut taken = lock();
            while index >= *taken + at_once && !stopped.load(Ordering::Relaxed) {
                taken = turn.wait(taken).unwrap_or_else(PoisonError::into_inner);
            }
            drop(taken);
            if index >= count || stopped.load(Ordering::Relaxed) {
                return;
            }
            let _ = ready.send((index, make(index)));
        }
    };
    std::thread::scope(|scope| {
        let (sender, ready) = mpsc::channel();
        let started = (0..at_once).take_while(|_| {
            let (work, sender) = (&work, sender.clone());
            std::thread::Builder::new().spawn_scoped(scope, move || work(sender)).is_ok()
        });
        if started.count() == 0 {
            // The system has no thread for it.
            return (0..count).try_for_each(|index| take(index, make(index)?));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut result = Ok(());
        for (index, made) in ready {
            early.insert(index, made);
            while result.is_ok() {
                let mut taken = lock();
                let Some(made) = early.remove(&*taken) else { break };
                let index = *taken;
                drop(taken);
                result = made.and_then(|made| take(index, made));
                taken = lock();
                *taken += 1;
                stopped.store(result.is_err() || *taken == count, Ordering::Relaxed);
                turn.notify_all();
            }
        }
        result
    })
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
