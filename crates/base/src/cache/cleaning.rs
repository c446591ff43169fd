//! Measures the cache and shrinks it. Replay's own files are recognised by their place, their name and
//! their type (file or folder). Links are not followed.

use std::fs::{self, Metadata, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{
    Cache, CacheError, CacheKind, ENTRY_PREFIX, FolderKind, Usage, WORK_PREFIX, cache_io_error,
};

/// The least age of unlocked work to count as left behind: a run may have made it and not locked
/// it yet.
const UNLOCKED: Duration = Duration::from_secs(60);
/// The same where the file system has no locks: a run may still be at work.
const WITHOUT_LOCKS: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder with unpacked bundles.
const BUNDLES: &str = "bundles";
/// The folder with the trees for programs.
pub const TREES: &str = "trees";

impl Cache {
    /// The space of each kind of entry.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn usage(&self) -> Result<Vec<(CacheKind, Usage)>, CacheError> {
        CacheKind::ALL
            .into_iter()
            .map(|kind| {
                let files = self.entries(kind)?;
                let bytes = files.iter().map(|(_, metadata)| metadata.len()).sum();
                Ok((kind, Usage { entries: files.len() as u64, bytes }))
            })
            .collect()
    }

    /// The space of the kept folders of `kind`, each of them an entry.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn folder_usage(&self, kind: FolderKind) -> Result<Usage, CacheError> {
        let folders = self.folders_of(kind)?;
        let bytes = folders.iter().map(|(path, _)| count_folder_bytes(path)).sum();
        Ok(Usage { entries: folders.len() as u64, bytes })
    }

    /// The kept folders of `kind`.
    fn folders_of(&self, kind: FolderKind) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
        own_files(&self.root.join(kind.name()), is_tree)
    }

    /// The kept folders of all kinds.
    fn kept_folders(&self) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
        let mut folders = Vec::new();
        for kind in FolderKind::ALL {
            folders.extend(self.folders_of(kind)?);
        }
        Ok(folders)
    }

    /// Removes entries older than `age`, and the leftovers of killed runs.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn collect(&self, age: Duration) -> Result<Usage, CacheError> {
        let mut removed = Usage::default();
        for kind in CacheKind::ALL {
            for (path, metadata) in self.entries(kind)? {
                if is_old(&metadata, age) {
                    remove_cached_path(&path, &metadata)?;
                    removed.entries += 1;
                    removed.bytes += metadata.len();
                }
            }
        }
        for (path, metadata) in own_files(&self.root.join(TREES), is_tree)? {
            if is_old(&metadata, age) {
                remove_cached_path(&path, &metadata)?;
                removed.entries += 1;
            }
        }
        for (path, metadata) in self.kept_folders()? {
            let bytes = count_folder_bytes(&path);
            if is_old(&metadata, age) && self.remove_folder(&path)? {
                removed.entries += 1;
                removed.bytes += bytes;
            }
        }
        for (path, metadata) in self.left_behind()? {
            remove_cached_path(&path, &metadata)?;
        }
        Ok(removed)
    }

    /// Removes entries, the oldest first, until the others have at most `most_bytes`.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn shrink(&self, most_bytes: u64) -> Result<Usage, CacheError> {
        let mut entries = Vec::new();
        for kind in CacheKind::ALL {
            let files = self.entries(kind)?.into_iter();
            entries.extend(files.map(|(path, metadata)| (metadata.len(), path, metadata)));
        }
        for (path, metadata) in self.kept_folders()? {
            entries.push((count_folder_bytes(&path), path, metadata));
        }
        entries.sort_by_cached_key(|(_, path, metadata)| (metadata.modified().ok(), path.clone()));
        let mut bytes: u64 = entries.iter().map(|(bytes, ..)| bytes).sum();
        let mut removed = Usage::default();
        for (entry_bytes, path, metadata) in entries {
            if bytes <= most_bytes {
                break;
            }
            if metadata.is_file() {
                remove_cached_path(&path, &metadata)?;
            } else if !self.remove_folder(&path)? {
                continue;
            }
            bytes -= entry_bytes;
            removed.entries += 1;
            removed.bytes += entry_bytes;
        }
        Ok(removed)
    }

    /// Removes the leftovers of killed runs, once for each process.
    pub(super) fn sweep_once(&self) {
        self.swept.call_once(|| {
            for (path, metadata) in self.left_behind().unwrap_or_default() {
                // A leftover does no harm if it cannot be removed; `cache gc` says why.
                let _ = remove_cached_path(&path, &metadata);
            }
        });
    }

    /// Removes replay's own files from the folder, and nothing else. It stays marked as
    /// replay's.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn clear(&self) -> Result<(), CacheError> {
        let mut own_entries = self.left_behind()?;
        own_entries.extend(own_files(&self.root.join(BUNDLES), is_unpacked_bundle)?);
        own_entries.extend(own_files(&self.root.join(TREES), is_tree)?);
        own_entries.extend(self.kept_folders()?);
        for kind in CacheKind::ALL {
            own_entries.extend(self.entries(kind)?);
        }
        for (path, metadata) in own_entries {
            remove_cached_path(&path, &metadata)?;
        }
        let folders = CacheKind::ALL.iter().map(|kind| kind.name());
        let folders = folders.chain(FolderKind::ALL.iter().map(|kind| kind.name()));
        let folders = folders.chain([super::TEMPORARY, BUNDLES, TREES]);
        for folder in folders {
            // A folder with somebody else's files stays, as does a link.
            let _ = fs::remove_dir(self.root.join(folder));
        }
        Ok(())
    }

    /// The entries of `kind`.
    fn entries(&self, kind: CacheKind) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
        own_files(&self.root.join(kind.name()), |name, metadata| metadata.is_file() && is_key(name))
    }

    /// The leftovers of runs: unfinished files and folders.
    fn left_behind(&self) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
        let mut leftovers = own_files(&self.temporary(), |name, metadata| {
            (name.starts_with(ENTRY_PREFIX) && metadata.is_file())
                || (name.starts_with(WORK_PREFIX) && metadata.is_dir())
        })?;
        leftovers.retain(|(path, metadata)| is_old(metadata, removal_age(path, metadata)));
        Ok(leftovers)
    }
}

/// Replay's files in `folder`, by their name and type; none if `folder` is a link or
/// missing.
fn own_files(
    folder: &Path,
    is_own: impl Fn(&str, &Metadata) -> bool,
) -> Result<Vec<(PathBuf, Metadata)>, CacheError> {
    if !fs::symlink_metadata(folder).is_ok_and(|folder_metadata| folder_metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(|source| cache_io_error("read", folder, source))?;
    let own_entries = entries.flatten().filter_map(|entry| {
        // Of a link it is the link's own.
        let metadata = entry.metadata().ok()?;
        is_own(entry.file_name().to_str()?, &metadata).then(|| (entry.path(), metadata))
    });
    Ok(own_entries.collect())
}

/// How old `path` must be before it counts as left behind.
fn removal_age(path: &Path, metadata: &Metadata) -> Duration {
    if metadata.is_file() {
        // Files are written within moments.
        return UNLOCKED;
    }
    match fs::File::open(path).map(|folder| folder.try_lock()) {
        Ok(Ok(())) => UNLOCKED,
        Ok(Err(TryLockError::WouldBlock)) => Duration::MAX,
        _ => WITHOUT_LOCKS,
    }
}

/// Whether an entry may have this name: a hash in hex.
fn is_key(name: &str) -> bool {
    matches!(name.len(), 40 | 64)
        && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a bundle, unpacked or at work, may have this name.
fn is_unpacked_bundle(name: &str, metadata: &Metadata) -> bool {
    metadata.is_dir() && (is_key(name) || name.starts_with(".new-") || name.starts_with(".old-"))
}

/// Whether a tree may have this name.
fn is_tree(name: &str, metadata: &Metadata) -> bool {
    metadata.is_dir() && is_key(name)
}

fn is_old(metadata: &Metadata, age: Duration) -> bool {
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    SystemTime::now().duration_since(modified).is_ok_and(|since| since >= age)
}

fn remove_cached_path(path: &Path, metadata: &Metadata) -> Result<(), CacheError> {
    let removed = if metadata.is_dir() {
        make_removable(path);
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        // Another process was faster.
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(cache_io_error("remove", path, source))
        }
        _ => Ok(()),
    }
}

/// The bytes of the files in `folder` and below. Links are not followed.
fn count_folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => count_folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Gives back the permission to remove the content of the folders at and below `path`: trees are
/// read-only.
pub fn make_removable(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if !metadata.is_dir() {
        return;
    }
    // The removal itself reports the remaining obstacles.
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        make_removable(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.write(CacheKind::Outcome, KEY, b"payload").unwrap();
        (folder, cache)
    }

    /// Makes files and folders that are not replay's: in the cache, beside it, and outside, where
    /// links in the cache lead.
    fn strangers(folder: &Path, cache: &Cache) -> Vec<PathBuf> {
        let outside = folder.join("outside");
        let own = cache.root();
        let files = [
            folder.join("artifacts/libmine.so"),
            folder.join(format!("artifacts/{KEY}")),
            folder.join("tmp/letter.txt"),
            folder.join("bundles/x"),
            folder.join("headers-mine/x.h"),
            own.join("notes.txt"),
            own.join("headers-mine/x.h"),
            own.join("artifacts/notes.txt"),
            own.join(format!("artifacts/{}", KEY.to_uppercase())),
            own.join(format!("outcomes/{}/x", &KEY.replace('0', "1"))),
            own.join("tmp/letter.txt"),
            own.join("tmp/letters/letter.txt"),
            own.join("bundles/mine/x"),
            own.join(format!("bundles/{KEY}")),
            outside.join(KEY),
            outside.join("work-/letter.txt"),
        ];
        for file in &files {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "mine").unwrap();
        }
        fs::remove_dir(own.join("facts")).unwrap();
        symlink(&outside, own.join("facts")).unwrap();
        symlink(outside.join("work-"), own.join("tmp/work-link")).unwrap();
        symlink(outside.join(KEY), own.join(format!("outcomes/{}", KEY.replace('0', "2"))))
            .unwrap();
        files.into()
    }

    #[test]
    fn clearing_and_collecting_leave_what_replay_did_not_make() {
        let (folder, cache) = cache();
        let files = strangers(folder.path(), &cache);
        let abandoned = cache.root().join("tmp/work-abc");
        fs::create_dir(&abandoned).unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(&abandoned).unwrap().set_modified(hour_ago).unwrap();
        fs::create_dir_all(cache.root().join(format!("bundles/{}", "0".repeat(64)))).unwrap();
        assert_eq!(cache.collect(Duration::ZERO).unwrap().entries, 1);
        assert_eq!(cache.read(CacheKind::Outcome, KEY), None);
        assert!(!abandoned.exists());
        cache.write(CacheKind::Outcome, KEY, b"payload").unwrap();
        cache.clear().unwrap();
        assert_eq!(cache.read(CacheKind::Outcome, KEY), None);
        assert!(!cache.root().join(format!("bundles/{}", "0".repeat(64))).exists());
        for file in files {
            assert!(file.exists(), "{}", file.display());
        }
    }

    #[test]
    fn a_cleared_cache_holds_its_marks_alone_and_can_be_used_again() {
        let (folder, cache) = cache();
        cache.clear().unwrap();
        let mut left: Vec<_> =
            fs::read_dir(cache.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".gitignore", "CACHEDIR.TAG", "replay-cache"]);
        let again = Cache::open(folder.path()).unwrap();
        again.write(CacheKind::Outcome, KEY, b"payload").unwrap();
        let usage = again.usage().unwrap();
        let kept = usage.iter().filter(|(_, kept)| kept.entries > 0);
        assert_eq!(kept.count(), 1);
    }

    #[test]
    fn the_work_of_a_killed_run_goes_with_the_next_and_that_of_a_living_one_stays() {
        let (folder, cache) = cache();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        let age = |path: &Path| fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
        let living = cache.scratch().unwrap();
        let killed = cache.temporary().join("work-killed");
        fs::create_dir(&killed).unwrap();
        age(living.path());
        age(&killed);
        let next = Cache::open(folder.path()).unwrap().scratch().unwrap();
        assert!(living.path().exists() && next.path().exists() && !killed.exists());
        cache.clear().unwrap();
        assert!(living.path().exists());
    }

    #[test]
    fn packages_count_as_entries_and_are_cleaned_with_them() {
        let (_folder, cache) = cache();
        let set = cache.root().join(FolderKind::Packages.name()).join("2".repeat(40));
        let make = || {
            fs::create_dir_all(set.join("numpy/core")).unwrap();
            fs::write(set.join("numpy/core/loops.py"), "0123456789").unwrap();
        };
        make();
        assert_eq!(
            cache.folder_usage(FolderKind::Packages).unwrap(),
            Usage { entries: 1, bytes: 10 }
        );
        assert_eq!(cache.collect(Duration::from_secs(60)).unwrap().entries, 0);
        let removed = cache.collect(Duration::ZERO).unwrap();
        assert!(removed.entries == 2 && removed.bytes > 10 && !set.exists(), "{removed:?}");
        make();
        let user = cache.use_folder(FolderKind::Packages, &"2".repeat(40));
        assert_eq!(user.as_ref(), Some(&set));
        let next = Cache { used: std::sync::Arc::default(), ..cache.clone() };
        assert_eq!(next.collect(Duration::ZERO).unwrap(), Usage::default());
        assert_eq!(next.shrink(0).unwrap(), Usage::default());
        assert!(set.join("numpy/core/loops.py").is_file(), "it is in use");
        cache.used.lock().unwrap().clear();
        assert_eq!(cache.shrink(9).unwrap(), Usage { entries: 1, bytes: 10 });
        make();
        cache.clear().unwrap();
        assert!(!set.exists());
    }

    #[test]
    fn collecting_keeps_what_is_young() {
        let (_folder, cache) = cache();
        assert_eq!(cache.collect(Duration::from_secs(60)).unwrap().entries, 0);
        assert_eq!(cache.collect(Duration::ZERO).unwrap().entries, 1);
        assert_eq!(cache.read(CacheKind::Outcome, KEY), None);
    }

    #[test]
    fn shrinking_removes_the_oldest_entries_until_the_others_fit() {
        let (_folder, cache) = cache();
        cache.clear().unwrap();
        let keys = ["1", "2", "3"].map(|digit| digit.repeat(64));
        let now = SystemTime::now();
        for (age, key) in keys.iter().enumerate() {
            cache.write(CacheKind::Outcome, key, b"the same size").unwrap();
            let path = cache.root().join(CacheKind::Outcome.name()).join(key);
            let written = now - Duration::from_secs(age as u64);
            fs::File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
        }
        let usage = cache.usage().unwrap();
        let (_, whole) = usage.iter().find(|(kind, _)| *kind == CacheKind::Outcome).unwrap();
        assert_eq!(cache.shrink(whole.bytes).unwrap(), Usage::default());
        let removed = cache.shrink(whole.bytes - 1).unwrap();
        assert_eq!(removed, Usage { entries: 1, bytes: whole.bytes / 3 });
        let kept = keys.each_ref().map(|key| cache.read(CacheKind::Outcome, key).is_some());
        assert_eq!(kept, [true, true, false]);
        assert_eq!(cache.shrink(0).unwrap().entries, 2);
    }
}
