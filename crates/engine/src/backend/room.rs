//! Whether there is room for the tensors of a replay: asked before anything is compiled.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::worker;
use replay_base::process;
use replay_base::process::memory::Bytes;
use replay_base::scratch::Budget;
use replay_base::tensor::DType;
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;

/// More than any machine has: `--memory` takes no more.
const MOST: u64 = 1 << 47;

/// Why the tensors of a fixture cannot be replayed on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// They take more device memory than a replay may have.
    #[error(
        "the tensors of {fixture} take {needed} of device memory, and a replay may have {limit}"
    )]
    Limit {
        /// The fixture, and how its tensors are taken.
        fixture: RoomSubject,
        /// Their bytes.
        needed: Bytes,
        /// The limit of a replay.
        limit: Bytes,
        /// Whether the limit is all of the device's memory.
        is_all: bool,
    },
    /// They fit neither in memory nor on the disk for large tensors.
    #[error(
        "the tensors of {fixture} take {needed}, and for large tensors there are {memory} of memory and \
         {disk} in {}",
        folder.display()
    )]
    Machine {
        /// The fixture, and how its tensors are taken.
        fixture: RoomSubject,
        /// Their bytes, with the tensors of all replays at a time and their measurements.
        needed: Bytes,
        /// The memory for large tensors.
        memory: Bytes,
        /// The free bytes of the disk.
        disk: Bytes,
        /// A folder on the disk.
        folder: PathBuf,
    },
    /// A program has no memory for them.
    #[error(
        "the tensors of {fixture} take {needed} of memory, {in_program} of it in a program, and {memory} are free"
    )]
    Program {
        /// The fixture, and how its tensors are taken.
        fixture: RoomSubject,
        /// Their bytes in the program and in this process.
        needed: Bytes,
        /// Their bytes in the program. It holds each of them once.
        in_program: Bytes,
        /// The free bytes of the machine.
        memory: Bytes,
    },
}

impl NoRoom {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            NoRoom::Limit { is_all: true, .. } => {
                "capture fewer rows, or replay on a device with more memory".to_owned()
            }
            NoRoom::Limit { needed, .. } if needed.0 > MOST => "capture fewer rows".to_owned(),
            NoRoom::Limit { needed, .. } => {
                format!("--memory {}G allows as much", needed.0.div_ceil(1 << 30))
            }
            NoRoom::Program { .. } => {
                "capture fewer rows, or replay on a machine with more memory".to_owned()
            }
            NoRoom::Machine { .. } => {
                "free memory or disk space, or set REPLAY_CACHE_DIR to a folder with more"
                    .to_owned()
            }
        })
    }
}

/// The evidence of a fixture's replays at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The two plain replays of an outcome.
    Outcome,
    /// The noise of so many revisions, each with its plain replay, and the replays for its measurement.
    Noise {
        /// How many.
        revisions: usize,
    },
    /// The noise of one revision beside the float64 shadow for the check of its gradient.
    Gradient,
}

/// A fixture in a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomSubject {
    name: String,
    is_wide: bool,
    is_measured: bool,
}

impl RoomSubject {
    fn new(fixture: &Fixture, precision: Precision, held_evidence: Held) -> RoomSubject {
        RoomSubject {
            name: fixture.name.clone(),
            is_wide: precision == Precision::Shadow,
            is_measured: held_evidence != Held::Outcome,
        }
    }
}

impl fmt::Display for RoomSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = if self.is_wide { " in float64" } else { "" };
        let noise = if self.is_measured { " and their noise" } else { "" };
        write!(f, "{}{precision}{noise}", self.name)
    }
}

/// Whether the tensors of `fixture` fit into the `limit` bytes of a device for a replay.
pub(super) fn on_device(
    fixture: &Fixture,
    precision: Precision,
    limit: u64,
    is_all: bool,
) -> Result<(), NoRoom> {
    let (inputs, outputs) = worker::tensor_bytes(fixture, precision == Precision::Shadow);
    let needed = Bytes(inputs.saturating_add(outputs));
    let limit = Bytes(limit);
    if needed <= limit {
        Ok(())
    } else {
        let fixture = RoomSubject::new(fixture, precision, Held::Outcome);
        Err(NoRoom::Limit { fixture, needed, limit, is_all })
    }
}

/// Whether this machine has room for `held_evidence` of `fixture`: in memory, or on the disk of `folder`.
pub(super) fn on_host(
    fixture: &Fixture,
    precision: Precision,
    held_evidence: Held,
    folder: &Path,
) -> Result<(), NoRoom> {
    let pieces =
        held_pieces(fixture, precision, held_evidence, |(inputs, outputs)| [inputs, outputs]);
    check_room(&RoomSubject::new(fixture, precision, held_evidence), &pieces, 0, folder)
}

/// Whether this machine has room for `held_evidence` of `fixture` from programs. A program reads inputs from a file in
/// `folder` and writes outputs to another; only outputs are kept of a replay. If it computes on this machine, as
/// `is_here` says, it holds all of them in its own memory.
pub(super) fn for_programs(
    fixture: &Fixture,
    precision: Precision,
    held_evidence: Held,
    is_here: bool,
    folder: &Path,
) -> Result<(), NoRoom> {
    let subject = RoomSubject::new(fixture, precision, held_evidence);
    let pieces = held_pieces(fixture, precision, held_evidence, |(_, outputs)| [0, outputs]);
    let is_wide = precision == Precision::Shadow || held_evidence == Held::Gradient;
    let (inputs, outputs) = worker::tensor_bytes(fixture, is_wide);
    let in_program = inputs.saturating_add(outputs);
    check_room(&subject, &pieces, in_program, folder)?;
    let bytes_beyond = beyond_memory(&pieces, Budget::of_process().most() as u64);
    let needed = in_program.saturating_add(total_bytes(&pieces).saturating_sub(bytes_beyond));
    match process::free_memory_bytes().filter(|&free_bytes| is_here && free_bytes < needed) {
        None => Ok(()),
        Some(free_bytes) => {
            let needed = Bytes(needed);
            let in_program = Bytes(in_program);
            Err(NoRoom::Program { fixture: subject, needed, in_program, memory: Bytes(free_bytes) })
        }
    }
}

/// Whether `pieces` fit into memory or on the disk of `folder`. `files` bytes lie on the disk in any case.
fn check_room(
    subject: &RoomSubject,
    pieces: &[u64],
    files: u64,
    folder: &Path,
) -> Result<(), NoRoom> {
    let memory = Budget::of_process().most() as u64;
    let on_disk = beyond_memory(pieces, memory).saturating_add(files);
    if on_disk == 0 {
        return Ok(());
    }
    // A folder whose disk does not tell is tried.
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let disk = disk.f_bavail.saturating_mul(disk.f_frsize);
    if on_disk <= disk {
        Ok(())
    } else {
        Err(NoRoom::Machine {
            fixture: subject.clone(),
            needed: Bytes(total_bytes(pieces).saturating_add(files)),
            memory: Bytes(memory),
            disk: Bytes(disk),
            folder: folder.to_owned(),
        })
    }
}

/// The bytes of all evidence, in the order of their allocation. Each piece lies as a whole in memory or on the disk.
/// `kept_bytes` takes the bytes of inputs and outputs of a replay, and returns its kept pieces.
fn held_pieces(
    fixture: &Fixture,
    precision: Precision,
    held_evidence: Held,
    kept_bytes: impl Fn((u64, u64)) -> [u64; 2],
) -> Vec<u64> {
    let [replay, wide_pieces] = [precision == Precision::Shadow, true].map(|is_wide| {
        kept_bytes(worker::tensor_bytes(fixture, is_wide)).map(worker::round_up_memory)
    });
    let revisions = match held_evidence {
        Held::Outcome => return [replay; REPLAYS].concat(),
        Held::Noise { revisions } => revisions,
        Held::Gradient => 1,
    };
    let numbers = fixture.outputs.iter().map(|output| {
        let cell = if output.dtype == DType::F64 { 8 } else { 4 };
        (output.bytes() / output.dtype.size()) as u64 * cell
    });
    let numbers: Vec<u64> = numbers.collect();
    let mut pieces = Vec::new();
    for revision in 0..revisions {
        pieces.extend(replay);
        let kinds = if revision + 1 == revisions { KINDS } else { 1 };
        pieces.extend(numbers.iter().flat_map(|&bytes| std::iter::repeat_n(bytes, kinds)));
    }
    pieces.extend([replay; REPLAYS].concat());
    pieces.extend((held_evidence == Held::Gradient).then_some(wide_pieces).into_iter().flatten());
    pieces
}

/// The bytes of all `pieces`.
fn total_bytes(pieces: &[u64]) -> u64 {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(*piece))
}

/// Replays at a time, besides the base of all comparisons.
const REPLAYS: usize = 2;
/// Kinds of deviations of each element while noise is measured; one is left of them.
const KINDS: usize = 4;

/// The bytes of `pieces` without room in `memory`.
fn beyond_memory(pieces: &[u64], memory: u64) -> u64 {
    let mut left = memory;
    let mut bytes_beyond = 0u64;
    for &piece in pieces {
        match left.checked_sub(piece) {
            Some(memory_left) => left = memory_left,
            None => bytes_beyond = bytes_beyond.saturating_add(piece),
        }
    }
    bytes_beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_how_much_it_takes_and_what_to_do() {
        let fixture =
            |is_wide| RoomSubject { name: "step0".to_owned(), is_wide, is_measured: false };
        let told = |error: NoRoom| format!("{error}\nhint: {}", error.hint().unwrap());
        let needed = Bytes(33_000_000_000);
        let limit = Bytes(16 << 30);
        insta::assert_snapshot!(told(NoRoom::Limit { fixture: fixture(true), needed, limit, is_all: false }), @r"
        the tensors of step0 in float64 take 33.0 GB of device memory, and a replay may have 17.2 GB
        hint: --memory 31G allows as much
        ");
        insta::assert_snapshot!(told(NoRoom::Limit { fixture: fixture(false), needed: Bytes(2_500), limit: Bytes(999), is_all: true }), @r"
        the tensors of step0 take 2.5 kB of device memory, and a replay may have 999 bytes
        hint: capture fewer rows, or replay on a device with more memory
        ");
        let needed = Bytes(562_958_500_000_000);
        insta::assert_snapshot!(told(NoRoom::Limit { fixture: fixture(false), needed, limit, is_all: false }), @r"
        the tensors of step0 take 563.0 TB of device memory, and a replay may have 17.2 GB
        hint: capture fewer rows
        ");
        let needed = Bytes(33_000_000_000);
        let memory = Bytes(10_000_000);
        let disk = Bytes(5_000);
        let folder = "/cache/tmp".into();
        insta::assert_snapshot!(told(NoRoom::Machine { fixture: fixture(false), needed, memory, disk, folder }), @r"
        the tensors of step0 take 33.0 GB, and for large tensors there are 10.0 MB of memory and 5.0 kB in /cache/tmp
        hint: free memory or disk space, or set REPLAY_CACHE_DIR to a folder with more
        ");
        let in_program = Bytes(16_000_000_000);
        let memory = Bytes(22_000_000_000);
        insta::assert_snapshot!(told(NoRoom::Program { fixture: fixture(false), needed, in_program, memory }), @r"
        the tensors of step0 take 33.0 GB of memory, 16.0 GB of it in a program, and 22.0 GB are free
        hint: capture fewer rows, or replay on a machine with more memory
        ");
        let measured = RoomSubject { is_measured: true, ..fixture(false) };
        insta::assert_snapshot!(measured, @"step0 and their noise");
    }

    #[test]
    fn each_piece_lies_as_a_whole_in_memory_or_on_the_disk() {
        assert_eq!(beyond_memory(&[16, 16], 40), 0);
        assert_eq!(beyond_memory(&[16, 16], 31), 16);
        // There is room for 24 in all, and still both need the disk.
        assert_eq!(beyond_memory(&[16, 16], 15), 32);
        assert_eq!(beyond_memory(&[16, 4, 16], 20), 16);
        assert_eq!(beyond_memory(&[u64::MAX, u64::MAX], 1), u64::MAX);
    }
}
