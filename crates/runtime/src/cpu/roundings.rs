//! Rounding to integers, as one replay of a float64 shadow met it, for others beside it. In these a rounded number is
//! the one of the record, and moves with its argument or stays.
//!
//! Host code and each block of a launch come to their roundings in an order of their own, whatever runs beside them. So
//! a rounding is known by its launch, its block and its number there.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Rounding, current_place};
use crate::end_replay;

/// The most roundings of a record, which takes 16 bytes for each of them in every replay.
const MOST: u64 = 1 << 23;
/// Many steps of a check, and far from the next integer.
const INSIDE: f64 = 1.0 / 1024.0;
/// The fault of a replay with more.
pub const TOO_MANY_ROUNDINGS: &str = "too many roundings to integers";

/// A launch, from 1, and a block of it; launch 0 is host code.
type Stretch = (u64, [u32; 3]);

/// The roundings of a stretch, and how many of them this replay has met.
#[derive(Debug, Default)]
struct Roundings {
    met: usize,
    /// Argument and result of each.
    pairs: Vec<[f64; 2]>,
}

/// The roundings of a replay.
struct RoundingRecord {
    mode: Rounding,
    /// Each in a place of its own, where one operating-system thread at a time uses it.
    #[allow(clippy::vec_box, clippy::box_collection)]
    stretches: Mutex<BTreeMap<Stretch, Box<Roundings>>>,
    launch: AtomicU64,
    count: AtomicU64,
    /// Whether this replay has met others than those of the record.
    are_others: AtomicBool,
}

static RECORD: OnceLock<RoundingRecord> = OnceLock::new();

thread_local! {
    /// The stretch that this thread was in last.
    static LAST: Cell<(Stretch, *mut Roundings)> =
        const { Cell::new(((u64::MAX, [0; 3]), std::ptr::null_mut())) };
}

/// Makes this process's roundings those of `mode`, with the record in `file` where it needs one.
///
/// # Errors
/// If the record cannot be read.
pub fn start_roundings(mode: Rounding, mut file: &File) -> io::Result<()> {
    let stretches = if mode.is_recorded() {
        BTreeMap::new()
    } else {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        read_record(&bytes).ok_or_else(|| io::Error::other("the record of roundings is cut off"))?
    };
    let _ = RECORD.set(RoundingRecord {
        mode,
        stretches: Mutex::new(stretches),
        launch: AtomicU64::new(0),
        count: AtomicU64::new(0),
        are_others: AtomicBool::new(false),
    });
    Ok(())
}

/// Writes what this process recorded to `file`, in place of what it holds.
///
/// # Errors
/// If that fails.
pub fn write_roundings(mut file: &File) -> io::Result<()> {
    let Some(record) = RECORD.get().filter(|record| record.mode.is_recorded()) else {
        return Ok(());
    };
    let stretches = record.stretches.lock().unwrap_or_else(PoisonError::into_inner);
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&format_record(&stretches))
}

/// The launch of this number, from 1, begins.
pub(super) fn begin_launch(number: u64) {
    if let Some(record) = RECORD.get() {
        record.launch.store(number, Ordering::SeqCst);
    }
}

/// Whether a block of an earlier launch, or host code, has met more roundings than the record has, or a block fewer. What
/// it computed since may be anything.
pub fn met_other_roundings() -> bool {
    RECORD.get().is_some_and(|record| record.are_others.load(Ordering::SeqCst))
}

/// The launch ends.
pub(super) fn end_launch() {
    let Some(record) = RECORD.get().filter(|record| !record.mode.is_recorded()) else {
        return;
    };
    let launch = record.launch.load(Ordering::SeqCst);
    let stretches = record.stretches.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_launch = stretches.range((launch, [0; 3])..=(launch, [u32::MAX; 3]));
    if of_launch.any(|(_, roundings)| roundings.met < roundings.pairs.len()) {
        record.are_others.store(true, Ordering::SeqCst);
    }
}

/// What `argument` becomes in this replay where it rounds to `rounded`.
///
/// # Safety
/// Must be called by replayed code.
pub(crate) unsafe extern "C" fn round_as_recorded(argument: f64, rounded: f64) -> f64 {
    let Some(record) = RECORD.get() else { return rounded };
    let place = current_place();
    let block = place.map_or([0; 3], |(_, block, _)| block);
    let launch = if place.is_some() { record.launch.load(Ordering::Relaxed) } else { 0 };
    let stretch = (launch, block);
    let (last, mut pointer) = LAST.get();
    if last != stretch {
        let mut stretches = record.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        pointer = &raw mut **stretches.entry(stretch).or_default();
        LAST.set((stretch, pointer));
    }
    if record.mode.is_recorded() && record.count.fetch_add(1, Ordering::Relaxed) >= MOST {
        end_replay(TOO_MANY_ROUNDINGS, format!("more than {MOST}"), place);
    }
    // SAFETY: boxes of the record stay where they are, and the threads of one block take turns on one thread.
    let roundings = unsafe { &mut *pointer };
    roundings.meet(record.mode, argument, rounded).unwrap_or_else(|| {
        record.are_others.store(true, Ordering::Relaxed);
        rounded
    })
}

impl Roundings {
    /// What the next of them gives for `argument`, whose integer is `rounded`; none if the record has no more.
    fn meet(&mut self, mode: Rounding, argument: f64, rounded: f64) -> Option<f64> {
        if mode.is_recorded() {
            let is_inside = mode == Rounding::RecordedInside;
            let result = if is_inside { move_inside(rounded) } else { rounded };
            self.pairs.push([argument, result]);
        }
        let [recorded_argument, recorded_result] = *self.pairs.get(self.met)?;
        self.met += 1;
        // The same infinity has no difference.
        Some(if mode == Rounding::Straight && argument != recorded_argument {
            recorded_result + (argument - recorded_argument)
        } else {
            recorded_result
        })
    }
}

/// An integer a thousandth nearer to zero, and zero a thousandth above it.
fn move_inside(integer: f64) -> f64 {
    if integer == 0.0 { INSIDE } else { integer * (1.0 - INSIDE) }
}

/// For each stretch launch, block and count in words of 64 bits, then its pairs.
fn format_record(stretches: &BTreeMap<Stretch, Box<Roundings>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ((launch, block), roundings) in stretches {
        let [x, y, z] = block.map(u64::from);
        for number in [*launch, x, y, z, roundings.pairs.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        for number in roundings.pairs.as_flattened() {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

/// What [`format_record`] wrote; none if it was cut off.
fn read_record(bytes: &[u8]) -> Option<BTreeMap<Stretch, Box<Roundings>>> {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut stretches = BTreeMap::new();
    while let Some(launch) = words.next() {
        let mut block = [0; 3];
        for index in &mut block {
            *index = u32::try_from(words.next()?).ok()?;
        }
        let count = usize::try_from(words.next()?).ok()?;
        if count > words.len() / 2 {
            return None;
        }
        let pairs = (0..count)
            .map(|_| Some([f64::from_bits(words.next()?), f64::from_bits(words.next()?)]));
        let pairs = pairs.collect::<Option<Vec<[f64; 2]>>>()?;
        stretches.insert((launch, block), Box::new(Roundings { met: 0, pairs }));
    }
    Some(stretches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BTreeMap<Stretch, Box<Roundings>> {
        let pairs = |pairs: &[[f64; 2]]| Box::new(Roundings { met: 0, pairs: pairs.to_vec() });
        BTreeMap::from([
            ((0, [0; 3]), pairs(&[[0.3, 0.0]])),
            ((1, [4, 0, 7]), pairs(&[[1.5, 2.0], [f64::NAN, -0.0]])),
            ((2, [0; 3]), pairs(&[])),
        ])
    }

    /// The results of roundings in `mode` behind a record of three.
    fn results(mode: Rounding, arguments: &[f64]) -> Vec<Option<f64>> {
        let mut roundings = Roundings::default();
        for argument in [0.75, -2.5, f64::INFINITY] {
            roundings.meet(Rounding::Recorded, argument, argument.round_ties_even());
        }
        roundings.met = 0;
        let results = arguments.iter();
        results
            .map(|&argument| roundings.meet(mode, argument, argument.round_ties_even()))
            .collect()
    }

    #[test]
    fn a_rounded_number_beside_the_record_moves_with_its_argument_or_stays() {
        let beside = [0.25, -2.625, f64::INFINITY, 1.0];
        let moved = [Some(0.5), Some(-2.125), Some(f64::INFINITY), None];
        assert_eq!(results(Rounding::Straight, &beside), moved);
        let held = [Some(1.0), Some(-2.0), Some(f64::INFINITY), None];
        assert_eq!(results(Rounding::Held, &beside), held);
    }

    #[test]
    fn a_result_inside_lies_nearer_to_zero_than_its_integer_and_above_zero() {
        let results = [3.0, -1.0, 0.0].map(|integer| {
            Roundings::default().meet(Rounding::RecordedInside, integer + 0.25, integer)
        });
        assert_eq!(
            results,
            [Some(3.0 - 3.0 / 1024.0), Some(1.0 / 1024.0 - 1.0), Some(1.0 / 1024.0)]
        );
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = format_record(&sample());
        let read = read_record(&written).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", sample()));
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let written = format_record(&sample());
        // The first stretch takes seven words, the second nine.
        for words in 1..written.len() / 8 {
            let is_whole = [7, 16].contains(&words);
            assert_eq!(read_record(&written[..8 * words]).is_some(), is_whole, "{words}");
        }
    }
}
