//! A folder of entries found by their key. An entry is written at once or not at all, and checked
//! when it is read: what was damaged or tampered with counts as absent.
//!
//! Knows nothing of what the entries mean.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What an entry is; each kind has a folder of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shared object, its checksum behind the bytes that a loader reads.
    Artifact,
    /// The log of a compilation that failed.
    Refusal,
    /// What a replay gave.
    Outcome,
    /// What a comparison found.
    Judgement,
    /// A module for a GPU.
    Module,
    /// What is known about a file as long as it does not change.
    Fact,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] =
        [Kind::Artifact, Kind::Refusal, Kind::Outcome, Kind::Judgement, Kind::Module, Kind::Fact];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Artifact => "artifacts",
            Kind::Refusal => "refusals",
            Kind::Outcome => "outcomes",
            Kind::Judgement => "judgements",
            Kind::Module => "modules",
            Kind::Fact => "facts",
        }
    }
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path} in the cache")]
pub struct CacheError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self.source.kind() {
            io::ErrorKind::StorageFull => {
                "the disk is full: `replay cache gc` frees what was not used for long".to_owned()
            }
            _ => "set REPLAY_CACHE_DIR to a folder that can be written".to_owned(),
        })
    }
}

/// What one kind of entry takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of entries.
    pub entries: u64,
    /// Their size.
    pub bytes: u64,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

const MARK: &[u8] = b"\nreplay-cache-1 ";
const TRAILER: usize = MARK.len() + 64 + 1;

impl Cache {
    /// Uses `root`, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`CacheError`] if the folder can be neither made nor written.
    pub fn open(root: &Path) -> Result<Cache, CacheError> {
        let cache = Cache { root: root.to_owned() };
        let folders = Kind::ALL.iter().map(|kind| kind.name()).chain(["tmp"]);
        for folder in folders {
            let path = root.join(folder);
            if !path.is_dir() {
                fs::create_dir_all(&path).map_err(|source| failed("make", &path, source))?;
            }
        }
        Ok(cache)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for what is not kept.
    pub fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Where the entry `key` is, whether or not it exists.
    pub fn path(&self, kind: Kind, key: &str) -> PathBuf {
        self.root.join(kind.name()).join(key)
    }

    /// The entry `key`, if it exists and is whole. One that is not is removed.
    pub fn read(&self, kind: Kind, key: &str) -> Option<Vec<u8>> {
        let path = self.path(kind, key);
        let mut bytes = fs::read(&path).ok()?;
        match payload_len(&bytes) {
            Some(len) => {
                bytes.truncate(len);
                Some(bytes)
            }
            None => {
                // What cannot be removed is written over by the next `write`.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// The path of the entry `key` if it exists and is whole, for those who read it themselves.
    pub fn find(&self, kind: Kind, key: &str) -> Option<PathBuf> {
        self.read(kind, key).map(|_| self.path(kind, key))
    }

    /// Writes the entry `key`: other processes see all of it or nothing. An entry that is there
    /// already is left alone.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn write(&self, kind: Kind, key: &str, payload: &[u8]) -> Result<PathBuf, CacheError> {
        let path = self.path(kind, key);
        if self.read(kind, key).as_deref() == Some(payload) {
            return Ok(path);
        }
        let digest = blake3::hash(payload).to_hex();
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(self.temporary())?;
            for part in [payload, MARK, digest.as_bytes(), b"\n"] {
                file.write_all(part)?;
            }
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|source| failed("write", &path, source))?;
        Ok(path)
    }

    /// A folder for work in progress, removed when it is dropped.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn scratch(&self) -> Result<tempfile::TempDir, CacheError> {
        let tmp = self.temporary();
        tempfile::TempDir::new_in(&tmp).map_err(|source| failed("make a folder in", &tmp, source))
    }

    /// A folder with what `fill` puts into it, made once for `name`.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn folder(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, CacheError> {
        let path = self.root.join(name);
        if path.is_dir() {
            return Ok(path);
        }
        let scratch = self.scratch()?;
        fill(scratch.path()).map_err(|source| failed("write", &path, source))?;
        let finished = scratch.keep();
        match fs::rename(&finished, &path) {
            Ok(()) => Ok(path),
            // Somebody else was faster; theirs is as good.
            Err(_) if path.is_dir() => {
                let _ = fs::remove_dir_all(&finished);
                Ok(path)
            }
            Err(source) => Err(failed("write", &path, source)),
        }
    }

    /// What each kind of entry takes.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn usage(&self) -> Result<Vec<(Kind, Usage)>, CacheError> {
        Kind::ALL
            .into_iter()
            .map(|kind| {
                let files = self.files(kind)?;
                let bytes = files.iter().map(|(_, metadata)| metadata.len()).sum();
                Ok((kind, Usage { entries: files.len() as u64, bytes }))
            })
            .collect()
    }

    /// Removes entries that were not written within `age`, and what killed runs left behind.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn collect(&self, age: Duration) -> Result<Usage, CacheError> {
        let mut removed = Usage::default();
        let old = |metadata: &fs::Metadata, age: Duration| {
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            SystemTime::now().duration_since(modified).is_ok_and(|since| since >= age)
        };
        for kind in Kind::ALL {
            for (path, metadata) in self.files(kind)? {
                if old(&metadata, age) {
                    fs::remove_file(&path).map_err(|source| failed("remove", &path, source))?;
                    removed.entries += 1;
                    removed.bytes += metadata.len();
                }
            }
        }
        let tmp = self.temporary();
        let left = fs::read_dir(&tmp).map_err(|source| failed("read", &tmp, source))?;
        for entry in left.flatten() {
            // A run that still works keeps what it has made within the last day.
            let day = Duration::from_secs(24 * 60 * 60);
            if entry.metadata().is_ok_and(|metadata| old(&metadata, age.min(day))) {
                let path = entry.path();
                let _ =
                    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            }
        }
        Ok(removed)
    }

    /// Removes everything that replay put into the folder, and nothing else.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn clear(&self) -> Result<(), CacheError> {
        let entries =
            fs::read_dir(&self.root).map_err(|source| failed("read", &self.root, source))?;
        let own = |name: &str| {
            Kind::ALL.iter().any(|kind| kind.name() == name)
                || name == "tmp"
                || name == "bundles"
                || name.starts_with("headers-")
        };
        for entry in entries.flatten() {
            if own(&entry.file_name().to_string_lossy()) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(|source| failed("remove", &path, source))?;
            }
        }
        Ok(())
    }

    fn files(&self, kind: Kind) -> Result<Vec<(PathBuf, fs::Metadata)>, CacheError> {
        let folder = self.root.join(kind.name());
        let entries = fs::read_dir(&folder).map_err(|source| failed("read", &folder, source))?;
        Ok(entries
            .flatten()
            .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
            .collect())
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> CacheError {
    CacheError { doing, path: path.to_owned(), source }
}

/// The bytes before the trailer, if the trailer is there and right.
fn payload_len(bytes: &[u8]) -> Option<usize> {
    let len = bytes.len().checked_sub(TRAILER)?;
    let (payload, trailer) = bytes.split_at(len);
    let digest = trailer.strip_prefix(MARK)?.strip_suffix(b"\n")?;
    (blake3::hash(payload).to_hex().as_bytes() == digest).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        bytes[0] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        (folder, cache)
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let (_folder, cache) = cache();
        cache.write(Kind::Outcome, "k", b"payload").unwrap();
        assert_eq!(cache.read(Kind::Outcome, "k").as_deref(), Some(&b"payload"[..]));
        assert_eq!(cache.read(Kind::Artifact, "k"), None);
    }

    #[test]
    fn an_entry_that_is_there_is_left_alone() {
        let (_folder, cache) = cache();
        let path = cache.write(Kind::Outcome, "k", b"payload").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        cache.write(Kind::Outcome, "k", b"payload").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        cache.write(Kind::Outcome, "k", b"other").unwrap();
        assert_eq!(cache.read(Kind::Outcome, "k").as_deref(), Some(&b"other"[..]));
    }

    #[test]
    fn a_damaged_or_truncated_entry_counts_as_absent_and_is_removed() {
        let (_folder, cache) = cache();
        let path = cache.write(Kind::Outcome, "k", b"payload").unwrap();
        damage(&path);
        assert_eq!(cache.read(Kind::Outcome, "k"), None);
        assert!(!path.exists());

        let path = cache.write(Kind::Outcome, "k", b"payload").unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(cache.read(Kind::Outcome, "k"), None, "{len} bytes");
        }
    }

    #[test]
    fn collecting_keeps_what_is_young() {
        let (_folder, cache) = cache();
        cache.write(Kind::Outcome, "k", b"payload").unwrap();
        assert_eq!(cache.collect(Duration::from_secs(60)).unwrap().entries, 0);
        assert_eq!(cache.collect(Duration::ZERO).unwrap().entries, 1);
        assert_eq!(cache.read(Kind::Outcome, "k"), None);
    }

    #[test]
    fn clearing_leaves_what_is_not_the_caches() {
        let (_folder, cache) = cache();
        let stranger = cache.root().join("notes.txt");
        fs::write(&stranger, "mine").unwrap();
        cache.write(Kind::Outcome, "k", b"payload").unwrap();
        cache.clear().unwrap();
        assert!(stranger.exists());
        assert!(!cache.path(Kind::Outcome, "k").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Cache::open(&file.join("cache")).unwrap_err();
        assert!(error.to_string().contains("artifacts in the cache"), "{error}");
        assert!(error.hint().unwrap().contains("REPLAY_CACHE_DIR"));
    }
}
