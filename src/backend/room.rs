//! Whether there is room for the tensors of a replay: asked before anything is compiled.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::scratch::Budget;
use crate::worker;

/// Why the tensors of a fixture cannot be replayed on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// They take more device memory than a replay may have.
    #[error(
        "the tensors of {fixture} take {needed} of device memory, and a replay may have {limit}"
    )]
    Limit {
        /// The fixture, and how its tensors are taken.
        fixture: Subject,
        /// What they take.
        needed: Bytes,
        /// What a replay may have.
        limit: Bytes,
        /// Whether that is all that the device has.
        is_all: bool,
    },
    /// They fit neither in memory nor on the disk for what does not fit in memory.
    #[error(
        "the tensors of {fixture} take {needed}, and for large tensors there are {memory} of memory and \
         {disk} in {}",
        folder.display()
    )]
    Machine {
        /// The fixture, and how its tensors are taken.
        fixture: Subject,
        /// What they take, those of all replays that are held at a time.
        needed: Bytes,
        /// The memory for large tensors.
        memory: Bytes,
        /// What the disk has free.
        disk: Bytes,
        /// A folder on that disk.
        folder: PathBuf,
    },
}

impl NoRoom {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            NoRoom::Limit { is_all: true, .. } => {
                "capture fewer rows, or replay on a device with more memory".to_owned()
            }
            NoRoom::Limit { needed, .. } => {
                format!("--memory {}G allows as much", needed.0.div_ceil(1 << 30))
            }
            NoRoom::Machine { .. } => {
                "free memory or disk space, or set REPLAY_CACHE_DIR to a folder with more"
                    .to_owned()
            }
        })
    }
}

/// A fixture in a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    name: String,
    is_wide: bool,
}

impl Subject {
    fn new(fixture: &Fixture, precision: Precision) -> Subject {
        Subject { name: fixture.name.clone(), is_wide: precision == Precision::Shadow }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_wide { " in float64" } else { "" })
    }
}

/// A number of bytes, in the largest decimal unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        match units.into_iter().find(|(unit, _)| self.0 as f64 >= *unit) {
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / unit),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// Whether a device of which a replay may have `limit` bytes holds the tensors of `fixture`.
pub(super) fn on_device(
    fixture: &Fixture,
    precision: Precision,
    limit: u64,
    is_all: bool,
) -> Result<(), NoRoom> {
    let (inputs, outputs) = worker::tensor_bytes(fixture, precision == Precision::Shadow);
    let (needed, limit) = (Bytes(inputs.saturating_add(outputs)), Bytes(limit));
    match needed <= limit {
        true => Ok(()),
        false => {
            let fixture = Subject::new(fixture, precision);
            Err(NoRoom::Limit { fixture, needed, limit, is_all })
        }
    }
}

/// Whether this machine holds the tensors of a run of `fixture`, and the outputs of another one beside them:
/// in memory, or on the disk of `folder`.
pub(super) fn on_host(
    fixture: &Fixture,
    precision: Precision,
    folder: &Path,
) -> Result<(), NoRoom> {
    let (inputs, outputs) = worker::tensor_bytes(fixture, precision == Precision::Shadow);
    let needed = inputs.saturating_add(outputs.saturating_mul(2));
    let memory = Budget::of_process().most() as u64;
    if needed <= memory {
        return Ok(());
    }
    // A folder whose disk does not tell is tried.
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let disk = disk.f_bavail.saturating_mul(disk.f_frsize);
    match needed <= memory.saturating_add(disk) {
        true => Ok(()),
        false => Err(NoRoom::Machine {
            fixture: Subject::new(fixture, precision),
            needed: Bytes(needed),
            memory: Bytes(memory),
            disk: Bytes(disk),
            folder: folder.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_how_much_it_takes_and_what_to_do() {
        let fixture = |is_wide| Subject { name: "step0".to_owned(), is_wide };
        let told = |error: NoRoom| format!("{error}\nhint: {}", error.hint().unwrap());
        let (needed, limit) = (Bytes(33_000_000_000), Bytes(16 << 30));
        insta::assert_snapshot!(told(NoRoom::Limit { fixture: fixture(true), needed, limit, is_all: false }), @r"
        the tensors of step0 in float64 take 33.0 GB of device memory, and a replay may have 17.2 GB
        hint: --memory 31G allows as much
        ");
        insta::assert_snapshot!(told(NoRoom::Limit { fixture: fixture(false), needed: Bytes(2_500), limit: Bytes(999), is_all: true }), @r"
        the tensors of step0 take 2.5 kB of device memory, and a replay may have 999 bytes
        hint: capture fewer rows, or replay on a device with more memory
        ");
        let (memory, disk, folder) = (Bytes(10_000_000), Bytes(5_000), "/cache/tmp".into());
        insta::assert_snapshot!(told(NoRoom::Machine { fixture: fixture(false), needed, memory, disk, folder }), @r"
        the tensors of step0 take 33.0 GB, and for large tensors there are 10.0 MB of memory and 5.0 kB in /cache/tmp
        hint: free memory or disk space, or set REPLAY_CACHE_DIR to a folder with more
        ");
    }
}
