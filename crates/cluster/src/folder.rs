//! The folder of one command's tasks.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::ClusterError;

/// What a killed process has forked holds its lock until it has ended as well.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks at a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The folder of one command's tasks. A lock keeps other processes out.
pub struct Folder {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder at `path`.
    ///
    /// # Errors
    /// [`ClusterError::Watched`] if another process keeps it open; [`ClusterError::Folder`].
    pub fn open(path: &Path) -> Result<Folder, ClusterError> {
        let name = path.join("lock");
        let end = Instant::now() + LOCK_PATIENCE;
        loop {
            create_task_folder(&path.join("results"))?;
            let lock = File::create(&name).map_err(task_folder_error("open", &name))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    thread::sleep(LOCK_INTERVAL);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(ClusterError::Watched { path: name }),
                Err(TryLockError::Error(source)) => {
                    return Err(task_folder_error("lock", &name)(source));
                }
            }
            // Its last user may have removed the folder since: then this is the lock of nothing.
            if is_at(&lock, &name) {
                return Ok(Folder { path: path.to_owned(), _lock: lock });
            }
        }
    }

    pub(super) fn results(&self) -> PathBuf {
        self.path.join("results")
    }

    /// The folder of the array with this number.
    pub(super) fn array(&self, number: usize) -> PathBuf {
        self.path.join(format!("array-{number}"))
    }

    /// Makes the folder of the array with this number, and the folder of results.
    pub(super) fn make_array(&self, number: usize) -> Result<PathBuf, ClusterError> {
        create_task_folder(&self.results())?;
        let folder = self.array(number);
        create_task_folder(&folder)?;
        Ok(folder)
    }

    /// The keys of the results so far.
    pub(super) fn there(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.results()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
    }
}

fn create_task_folder(path: &Path) -> Result<(), ClusterError> {
    fs::create_dir_all(path).map_err(task_folder_error("make", path))
}

pub(super) fn task_folder_error(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> ClusterError {
    let path = path.to_owned();
    move |source| ClusterError::Folder { doing, path, source }
}

/// Whether `file` is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    own.dev() == there.dev() && own.ino() == there.ino()
}
