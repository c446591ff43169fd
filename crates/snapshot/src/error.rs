//! The errors of snapshot files.

use std::io;
use std::path::{Path, PathBuf};

use super::Contradiction;

/// Why a snapshot cannot be read, written or compared.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file or its folder cannot be used.
    #[error("cannot {doing} {path}", path = path.display())]
    Io {
        /// The attempted action.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file was not written by this program.
    #[error("{path} is not a snapshot of a replay: {reason}", path = path.display())]
    Foreign { path: PathBuf, reason: String },
    /// A merge was not finished.
    #[error("{path}:{line}: a merge conflict is not resolved", path = path.display())]
    Conflict {
        path: PathBuf,
        /// The line of the first mark, from 1.
        line: usize,
    },
    /// The text is of another version of this program.
    #[error("{path}:{line}: format {found} is not known", path = path.display())]
    Version {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The version found.
        found: String,
    },
    /// A line differs from the expected form.
    #[error("{path}:{line}: {expected} is expected, not `{found}`", path = path.display())]
    Line {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The expected text.
        expected: String,
        /// The text found instead.
        found: String,
    },
    /// The file ends too early.
    #[error("{path}:{line}: the file ends where {expected} is expected", path = path.display())]
    Truncated {
        path: PathBuf,
        /// The line after the last, from 1.
        line: usize,
        /// The missing text.
        expected: String,
    },
    /// A number was changed beside its checksum.
    #[error(
        "{path}: {what} {recorded} of output {output} is not that of its checksum: {computed}",
        path = path.display(), what = found.what, recorded = found.recorded,
        output = found.output, computed = found.computed
    )]
    Edited { path: PathBuf, found: Contradiction },
    /// The snapshot is of another device than its name says.
    #[error("{path} holds a snapshot of device {found}, not {expected}", path = path.display())]
    Device {
        path: PathBuf,
        /// The device of the outcome, or of the file's name.
        expected: String,
        /// The device in the file.
        found: String,
    },
}

impl SnapshotError {
    fn path(&self) -> &Path {
        match self {
            SnapshotError::Io { path, .. }
            | SnapshotError::Foreign { path, .. }
            | SnapshotError::Conflict { path, .. }
            | SnapshotError::Version { path, .. }
            | SnapshotError::Line { path, .. }
            | SnapshotError::Truncated { path, .. }
            | SnapshotError::Edited { path, .. }
            | SnapshotError::Device { path, .. } => path,
        }
    }

    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        let pending = self.path().extension().is_some_and(|extension| extension == "new");
        if pending && !matches!(self, SnapshotError::Io { .. }) {
            return Some("`replay reject` removes it; the next replay makes it anew".to_owned());
        }
        let remake = "take the last committed version (`git checkout -- FILE`), or remove the \
                      file, replay and review the new one";
        Some(match self {
            SnapshotError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "REPLAY_UPDATE=no compares without writing".to_owned()
                }
                _ => return None,
            },
            SnapshotError::Foreign { .. } => {
                "name another folder with --snapshots, or rename the file".to_owned()
            }
            SnapshotError::Conflict { .. } => {
                "keep either side (`git checkout --ours FILE`), replay, and review what is pending"
                    .to_owned()
            }
            SnapshotError::Version { .. } => {
                "a newer replay wrote it; use that one, or remove the file, replay and review"
                    .to_owned()
            }
            SnapshotError::Line { .. } | SnapshotError::Edited { .. } => {
                format!("snapshots are not edited by hand: {remake}")
            }
            SnapshotError::Truncated { .. } => remake.to_owned(),
            SnapshotError::Device { .. } => {
                "the file was renamed or copied; remove it, replay on the device that its name \
                 says, and review"
                    .to_owned()
            }
        })
    }
}
