//! Sets of packages for Python, images and this program's headers: folders that come and go as a whole.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::SystemTime;

use super::cleaning::make_removable;
use super::{Cache, CacheError, cache_io_error};

/// What a kept folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// Packages for Python, installed beside the user's.
    Packages,
    /// The files of a container image.
    Image,
    /// This program's headers, for compilers.
    Headers,
}

impl FolderKind {
    /// Every kind.
    pub const ALL: [FolderKind; 3] = [FolderKind::Packages, FolderKind::Image, FolderKind::Headers];

    /// The name of the folder around those of this kind.
    pub fn name(self) -> &'static str {
        match self {
            FolderKind::Packages => "packages",
            FolderKind::Image => "images",
            FolderKind::Headers => "headers",
        }
    }
}

impl Cache {
    /// The folder of `kind` behind `key`, if it is there. Cleaning leaves it alone for as long as this cache is open.
    pub fn use_folder(&self, kind: FolderKind, key: &str) -> Option<PathBuf> {
        let folder = self.root.join(kind.name()).join(key);
        let file = File::open(&folder).ok()?;
        // What is used is young.
        let _ = file.set_modified(SystemTime::now());
        let is_locked = file.lock_shared().is_ok();
        // Cleaning may have been faster.
        if !folder.is_dir() {
            return None;
        }
        if is_locked {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        }
        Some(folder)
    }

    /// Keeps the folder `made` as that of `kind` behind `key`, unless another process was faster.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn keep_folder(
        &self,
        kind: FolderKind,
        made: &Path,
        key: &str,
    ) -> Result<PathBuf, CacheError> {
        let around = self.root.join(kind.name());
        let folder = around.join(key);
        let moved = fs::create_dir_all(&around).and_then(|()| fs::rename(made, &folder));
        match (moved, self.use_folder(kind, key)) {
            (_, Some(folder)) => Ok(folder),
            (Ok(()), None) => Ok(folder),
            (Err(source), None) => Err(cache_io_error("keep files in", &folder, source)),
        }
    }

    /// Removes the kept `folder`, and says whether it did: one in use stays. It goes out of sight first, so that nobody finds
    /// the rest of a half removed one.
    pub(super) fn remove_folder(&self, folder: &Path) -> Result<bool, CacheError> {
        let lock = File::open(folder);
        if let Ok(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
            return Ok(false);
        }
        let work = self.scratch()?;
        match fs::rename(folder, work.path().join("removed")) {
            // Another process was faster.
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(cache_io_error("remove", folder, source)),
            Ok(()) => {
                make_removable(work.path());
                Ok(true)
            }
        }
    }
}
