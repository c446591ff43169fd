//! Work on many elements, divided among threads. They end with the work.

use std::sync::{Mutex, PoisonError};

/// About so many steps of a loop take as long as the start of a thread.
const LEAST: usize = 1 << 18;

/// The cores of this machine for this process.
pub fn count_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fills `out` by up to `threads` threads. Each calls `make` with the number of its first piece and with
/// the pieces themselves, of `piece` elements each, but for the last one. An element takes about `steps` steps
/// of a loop. The calling thread does small work alone, and also the work of threads refused by the system.
pub fn fill_in_parallel<T: Send>(
    threads: usize,
    out: &mut [T],
    piece: usize,
    steps: usize,
    make: impl Fn(usize, &mut [T]) + Sync,
) {
    let useful = (out.len().saturating_mul(steps) / LEAST).clamp(1, threads.max(1));
    let pieces = out.len().div_ceil(piece).div_ceil(useful).max(1);
    let parts = Mutex::new(out.chunks_mut(pieces * piece).enumerate());
    let work = || {
        loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((part, out)) = next else { break };
            make(part * pieces, out);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..useful {
            // Its work is done below.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_made_once_with_its_number() {
        for (len, piece, threads) in [(0, 3, 2), (1, 3, 2), (10, 3, 4), (1_000_003, 7, 3)] {
            let mut out = vec![0usize; len];
            fill_in_parallel(threads, &mut out, piece, 1, |first, out| {
                for (number, piece_out) in out.chunks_mut(piece).enumerate() {
                    piece_out.iter_mut().for_each(|x| *x += first + number + 1);
                }
            });
            assert!(out.iter().enumerate().all(|(index, &x)| x == index / piece + 1));
        }
    }
}
