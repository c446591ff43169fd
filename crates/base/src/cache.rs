//! A folder of entries found by their key. An entry is written atomically, and checked when it is
//! read. If it is damaged, tampered with or stored under another key, it counts as absent.
//!
//! The cache does not interpret entries. It marks its folder as replay's; `cleaning` removes only
//! replay's own files.

mod cleaning;
mod folders;

pub use cleaning::{TREES, make_removable};
pub use folders::FolderKind;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};

use crate::files::open_unlinked_file;

/// The kinds of entries. Each has a folder of its own; `docs/cache.md` describes its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// A shared object. Its checksum lies behind the bytes for the loader.
    Artifact,
    /// The object file of one of several translation units.
    Object,
    /// The log of a failed compilation.
    Refusal,
    /// The first headers of every unit, as the compiler keeps them.
    Precompiled,
    /// The files a compilation read outside of the sources, and their contents.
    Dependencies,
    /// The outcome of a replay.
    Outcome,
    /// The result of a comparison.
    Judgement,
    /// A module for a GPU.
    Module,
    /// A fact about a file, valid while the file does not change.
    Fact,
}

impl CacheKind {
    /// Every kind.
    pub const ALL: [CacheKind; 9] = [
        CacheKind::Artifact,
        CacheKind::Object,
        CacheKind::Refusal,
        CacheKind::Precompiled,
        CacheKind::Dependencies,
        CacheKind::Outcome,
        CacheKind::Judgement,
        CacheKind::Module,
        CacheKind::Fact,
    ];

    /// Whether a compiler made it: its key says from what, and others read it by the name of its file.
    fn is_code(self) -> bool {
        matches!(
            self,
            CacheKind::Artifact | CacheKind::Object | CacheKind::Precompiled | CacheKind::Module
        )
    }

    /// Whether a shared cache has it, too. The compiler's headers are large, and made within seconds.
    fn is_shared(self) -> bool {
        self != CacheKind::Precompiled
    }

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            CacheKind::Artifact => "artifacts",
            CacheKind::Object => "objects",
            CacheKind::Refusal => "refusals",
            CacheKind::Precompiled => "precompiled",
            CacheKind::Dependencies => "dependencies",
            CacheKind::Outcome => "outcomes",
            CacheKind::Judgement => "judgements",
            CacheKind::Module => "modules",
            CacheKind::Fact => "facts",
        }
    }
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system refused something.
    #[error("cannot {doing} {path} in the cache")]
    Io {
        /// The failed action.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Somebody else's files lie in the cache's folder.
    #[error("{path} holds files and is no cache of replay")]
    Foreign { path: PathBuf },
}

impl CacheError {
    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            CacheError::Foreign { .. } => {
                "set REPLAY_CACHE_DIR to another folder: replay makes one of its own in it, named `replay`"
            }
            CacheError::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => {
                    "there is no room: `replay cache gc` frees what was not used for long, and \
                     REPLAY_CACHE_DIR names a folder on another disk"
                }
                io::ErrorKind::IsADirectory => "remove it: replay keeps a file of this name there",
                _ => "set REPLAY_CACHE_DIR to a folder that can be written",
            },
        };
        Some(advice.to_owned())
    }
}

/// The space of one kind of entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of entries.
    pub entries: u64,
    pub bytes: u64,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    swept: Arc<Once>,
    /// The kept folders in use, locked.
    used: Arc<Mutex<Vec<File>>>,
    /// Another cache. It has entries missing here, and gets new entries as well.
    shared: Option<Arc<Cache>>,
}

/// A folder for work in progress, removed when it is dropped.
#[derive(Debug)]
pub struct WorkFolder {
    folder: tempfile::TempDir,
    /// Held for as long as somebody works in it.
    _lock: Option<File>,
}

impl WorkFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The cache's own folder.
const OWN: &str = "replay";
/// The folder in it for temporary files.
const TEMPORARY: &str = "tmp";
/// The mark of the folder as replay's.
const MARKER: &str = "replay-cache";
const MARKER_TEXT: &str = "The cache of replay. `replay cache clear` empties it.\n";
/// The mark for backup and search programs to skip the folder (Cache Directory Tagging
/// Specification 0.6, https://bford.info/cachedir/).
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # This folder was made by replay; all of it can be made again.\n\
                        # For information about cache directory tags, see https://bford.info/cachedir/\n";
/// Keeps git from taking a cache within a working tree for sources, the cache's own layouts of that tree among them.
const IGNORE: &str = ".gitignore";
const IGNORE_TEXT: &str = "# Made by replay.\n*\n";

/// The prefixes of temporary files and folders.
const ENTRY_PREFIX: &str = "entry-";
const WORK_PREFIX: &str = "work-";

const MARK: &[u8] = b"\nreplay-cache-2 ";
const TRAILER: usize = MARK.len() + 64 + 1;
/// No entry is larger.
const LARGEST: u64 = 4 << 30;

/// Notes why a shared cache does not get new entries.
fn note_unshared(error: &CacheError) {
    let cause_words =
        std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    tracing::info!("not shared: {error}{cause_words}");
}

impl Cache {
    /// The cache's own folder in `parent`, whether or not it exists.
    pub fn place(parent: &Path) -> PathBuf {
        parent.join(OWN)
    }

    /// Uses the folder `replay` in `parent`, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`CacheError::Foreign`] if there is one with other files than replay's;
    /// [`CacheError::Io`] if the folder can be neither made nor written.
    pub fn open(parent: &Path) -> Result<Cache, CacheError> {
        let cache = Cache::at(parent);
        cache.claim()?;
        cache.make_folders()?;
        Ok(cache)
    }

    /// The same with the cache in `parent` behind it, shared with other machines. Entries missing here
    /// are taken from there, and new entries are written there as well, as far as it takes them.
    ///
    /// # Errors
    /// [`CacheError::Foreign`] as [`Cache::open`]. If it cannot be written, it is only read.
    pub fn sharing(self, parent: &Path) -> Result<Cache, CacheError> {
        let shared_cache = match Cache::open(parent) {
            Err(error @ CacheError::Io { .. }) => {
                note_unshared(&error);
                Cache::at(parent)
            }
            opened => opened?,
        };
        Ok(Cache { shared: Some(Arc::new(shared_cache)), ..self })
    }

    fn at(parent: &Path) -> Cache {
        let root = Cache::place(parent);
        Cache { root, swept: Arc::new(Once::new()), used: Arc::default(), shared: None }
    }

    /// Marks the folder as replay's, unless it is.
    fn claim(&self) -> Result<(), CacheError> {
        let marker = self.root.join(MARKER);
        if !is_marker(&marker) {
            let root = &self.root;
            fs::create_dir_all(root).map_err(|source| cache_io_error("make", root, source))?;
            let mut entries =
                fs::read_dir(root).map_err(|source| cache_io_error("read", root, source))?;
            // Another process may have marked it meanwhile.
            if entries.next().is_some() && !is_marker(&marker) {
                return Err(CacheError::Foreign { path: root.clone() });
            }
            self.write_once(MARKER, MARKER_TEXT)?;
        }
        self.write_once(TAG, TAG_TEXT)?;
        self.write_once(IGNORE, IGNORE_TEXT)
    }

    /// Writes `text` to the file `name`, unless there is one.
    fn write_once(&self, name: &str, text: &str) -> Result<(), CacheError> {
        let path = self.root.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        let created_file = OpenOptions::new().write(true).create_new(true).open(&path);
        match created_file.and_then(|mut file| file.write_all(text.as_bytes())) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(cache_io_error("write", &path, source))
            }
            _ => Ok(()),
        }
    }

    fn make_folders(&self) -> Result<(), CacheError> {
        for folder in CacheKind::ALL.iter().map(|kind| kind.name()).chain([TEMPORARY]) {
            let path = self.root.join(folder);
            if !path.is_dir() {
                fs::create_dir_all(&path)
                    .map_err(|source| cache_io_error("make", &path, source))?;
            }
        }
        Ok(())
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.root.join(TEMPORARY)
    }

    /// Where the entry `key` is, whether or not it exists.
    pub fn path(&self, kind: CacheKind, key: &str) -> PathBuf {
        self.root.join(kind.name()).join(key)
    }

    /// The entry `key`, if it exists and is whole. A damaged one is removed.
    pub fn read(&self, kind: CacheKind, key: &str) -> Option<Vec<u8>> {
        let payload = self.content(kind, key).or_else(|| self.fetch(kind, key))?;
        tracing::info!(name: "cached", message = %format_args!("{}/{key}", kind.name()));
        Some(payload)
    }

    /// The entry of the shared cache. It is copied to this one.
    fn fetch(&self, kind: CacheKind, key: &str) -> Option<Vec<u8>> {
        let shared_cache = self.shared.as_ref().filter(|_| kind.is_shared())?;
        let payload = shared_cache.content(kind, key)?;
        // Readers may want its file: without a file it counts as absent.
        self.write_entry(kind, key, &payload).ok()?;
        Some(payload)
    }

    fn content(&self, kind: CacheKind, key: &str) -> Option<Vec<u8>> {
        let path = self.path(kind, key);
        let mut bytes = read_regular(&path)?;
        match payload_len(kind, key, &bytes) {
            Some(len) => {
                bytes.truncate(len);
                Some(bytes)
            }
            None => {
                // If it cannot be removed, the next `write` overwrites it.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// The path of the entry `key` if it exists and is whole, for those who read it themselves.
    pub fn find(&self, kind: CacheKind, key: &str) -> Option<PathBuf> {
        self.read(kind, key).map(|_| self.path(kind, key))
    }

    /// Writes the entry `key` atomically: other processes see all of it or nothing. An equal entry
    /// is left alone.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn write(&self, kind: CacheKind, key: &str, payload: &[u8]) -> Result<PathBuf, CacheError> {
        let path = self.write_entry(kind, key, payload)?;
        if let Some(shared_cache) = self.shared.as_ref().filter(|_| kind.is_shared()) {
            // The entry is here, and others can make it again.
            let _ = shared_cache.write_entry(kind, key, payload).inspect_err(note_unshared);
        }
        Ok(path)
    }

    fn write_entry(
        &self,
        kind: CacheKind,
        key: &str,
        payload: &[u8],
    ) -> Result<PathBuf, CacheError> {
        let path = self.path(kind, key);
        if self.content(kind, key).as_deref() == Some(payload) {
            return Ok(path);
        }
        let written = self.in_folders(|| {
            let file = self.write_entry_file(kind, key, payload)?;
            self.place_entry(file, kind, key, payload)
        });
        written.map_err(|source| cache_io_error("write", &path, source))?;
        Ok(path)
    }

    /// The whole file of the entry `key`, without its name.
    fn write_entry_file(
        &self,
        kind: CacheKind,
        key: &str,
        payload: &[u8],
    ) -> io::Result<tempfile::NamedTempFile> {
        let digest = digest_cache_entry(kind, key, payload).to_hex();
        let mut file =
            tempfile::Builder::new().prefix(ENTRY_PREFIX).tempfile_in(self.temporary())?;
        // What a crash of the system leaves of it does not have its digest.
        for part in [payload, MARK, digest.as_bytes(), b"\n"] {
            file.write_all(part)?;
        }
        Ok(file)
    }

    /// Gives the whole `file` of the entry `key` its name, unless another process has written an equal one meanwhile, or other
    /// code of the same sources: a replay may run in walls that let it read that file and no other in its place.
    fn place_entry(
        &self,
        file: tempfile::NamedTempFile,
        kind: CacheKind,
        key: &str,
        payload: &[u8],
    ) -> io::Result<()> {
        let path = self.path(kind, key);
        let Err(unplaced) = file.persist_noclobber(&path) else { return Ok(()) };
        let exists = unplaced.error.kind() == io::ErrorKind::AlreadyExists;
        let content = if exists { self.content(kind, key) } else { None };
        // Compilers put names of scratch folders into code.
        let is_kept = content.is_some_and(|content| kind.is_code() || content == payload);
        if !is_kept {
            unplaced.file.persist(&path)?;
        }
        Ok(())
    }

    /// Makes a folder for work in progress, removed when it is dropped. The first call of a process
    /// removes the folders of killed runs.
    ///
    /// # Errors
    /// [`CacheError`], with the system's reason.
    pub fn scratch(&self) -> Result<WorkFolder, CacheError> {
        self.sweep_once();
        let tmp = self.temporary();
        let folder =
            self.in_folders(|| tempfile::Builder::new().prefix(WORK_PREFIX).tempdir_in(&tmp));
        let folder = folder.map_err(|source| cache_io_error("make a folder in", &tmp, source))?;
        // Without file locks, cleaning goes by the folder's age.
        let lock = File::open(folder.path()).ok().filter(|file| file.lock_shared().is_ok());
        Ok(WorkFolder { folder, _lock: lock })
    }

    /// Does `work`; once more, with all folders made, if somebody has removed one.
    fn in_folders<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // If they cannot be made, `work` says so.
                let _ = self.make_folders();
                work()
            }
            result => result,
        }
    }
}

/// Whether a regular file lies at `path`: the mark of a cache.
fn is_marker(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn cache_io_error(doing: &'static str, path: &Path, source: io::Error) -> CacheError {
    CacheError::Io { doing, path: path.to_owned(), source }
}

/// The bytes of the regular file at `path`, if there is one; links are not followed.
fn read_regular(path: &Path) -> Option<Vec<u8>> {
    let (mut file, metadata) = open_unlinked_file(path)?;
    if metadata.len() > LARGEST {
        return None;
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The digest in the trailer of an entry. It covers the entry's kind, key and payload.
fn digest_cache_entry(kind: CacheKind, key: &str, payload: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for name in [kind.name(), key] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.update(payload).finalize()
}

/// The length of the payload, if the trailer is right.
fn payload_len(kind: CacheKind, key: &str, bytes: &[u8]) -> Option<usize> {
    let len = bytes.len().checked_sub(TRAILER)?;
    let (payload, trailer) = bytes.split_at(len);
    let stored_digest = trailer.strip_prefix(MARK)?.strip_suffix(b"\n")?;
    (digest_cache_entry(kind, key, payload).to_hex().as_bytes() == stored_digest).then_some(len)
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
        cache.write(CacheKind::Outcome, "k", b"payload").unwrap();
        assert_eq!(cache.read(CacheKind::Outcome, "k").as_deref(), Some(&b"payload"[..]));
        assert_eq!(cache.read(CacheKind::Artifact, "k"), None);
    }

    #[test]
    fn caches_of_two_machines_have_in_common_what_either_writes() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| Cache::open(&folder.path().join(name)).unwrap();
        let shared = folder.path().join("shared");
        let [one, two] = ["one", "two"].map(|name| of(name).sharing(&shared).unwrap());
        one.write(CacheKind::Outcome, "k", b"payload").unwrap();
        one.write(CacheKind::Precompiled, "k", b"headers").unwrap();
        assert_eq!(two.read(CacheKind::Precompiled, "k"), None);
        let path = two.find(CacheKind::Outcome, "k").unwrap();
        assert!(path.starts_with(two.root()));
        fs::remove_dir_all(&shared).unwrap();
        assert_eq!(two.read(CacheKind::Outcome, "k").as_deref(), Some(&b"payload"[..]));
    }

    #[test]
    fn a_shared_cache_that_takes_nothing_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let own = Cache::open(&folder.path().join("own")).unwrap();
        let own = own.sharing(&file.join("shared")).unwrap();
        own.write(CacheKind::Outcome, "k", b"payload").unwrap();
        assert_eq!(own.read(CacheKind::Outcome, "k").as_deref(), Some(&b"payload"[..]));

        let parent = folder.path().join("full");
        let full = Cache::open(&parent).unwrap();
        full.write(CacheKind::Outcome, "known", b"payload").unwrap();
        fs::remove_dir(full.temporary()).unwrap();
        fs::write(full.temporary(), "nothing can be written").unwrap();
        let own = Cache::open(&folder.path().join("other")).unwrap().sharing(&parent).unwrap();
        own.write(CacheKind::Outcome, "k", b"payload").unwrap();
        assert!(own.read(CacheKind::Outcome, "known").is_some(), "it is still read");
    }

    #[test]
    fn a_damaged_entry_of_a_shared_cache_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Cache::open(&folder.path().join("shared")).unwrap();
        damage(&shared.write(CacheKind::Outcome, "k", b"payload").unwrap());
        let own = Cache::open(&folder.path().join("own")).unwrap();
        let own = own.sharing(&folder.path().join("shared")).unwrap();
        assert_eq!(own.read(CacheKind::Outcome, "k"), None);
        own.write(CacheKind::Outcome, "k", b"payload").unwrap();
        assert!(shared.read(CacheKind::Outcome, "k").is_some());
    }

    #[test]
    fn an_entry_that_is_there_is_left_alone() {
        let (_folder, cache) = cache();
        let path = cache.write(CacheKind::Outcome, "k", b"payload").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        cache.write(CacheKind::Outcome, "k", b"payload").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        cache.write(CacheKind::Outcome, "k", b"other").unwrap();
        assert_eq!(cache.read(CacheKind::Outcome, "k").as_deref(), Some(&b"other"[..]));
    }

    #[test]
    fn a_damaged_or_truncated_entry_counts_as_absent_and_is_removed() {
        let (_folder, cache) = cache();
        let path = cache.write(CacheKind::Outcome, "k", b"payload").unwrap();
        damage(&path);
        assert_eq!(cache.read(CacheKind::Outcome, "k"), None);
        assert!(!path.exists());

        let path = cache.write(CacheKind::Outcome, "k", b"payload").unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(cache.read(CacheKind::Outcome, "k"), None, "{len} bytes");
        }
    }

    #[test]
    fn an_equal_entry_or_code_that_was_written_meanwhile_keeps_its_file() {
        use std::os::unix::fs::MetadataExt;
        let (_folder, cache) = cache();
        let write_late = |kind, payload: &[u8]| {
            let file = cache.write_entry_file(kind, "k", payload).unwrap();
            cache.place_entry(file, kind, "k", payload).unwrap();
            fs::metadata(cache.path(kind, "k")).unwrap().ino()
        };
        for kind in [CacheKind::Module, CacheKind::Outcome] {
            let path = cache.write(kind, "k", b"payload").unwrap();
            let first = fs::metadata(&path).unwrap().ino();
            assert_eq!(write_late(kind, b"payload"), first);
            let is_code = kind == CacheKind::Module;
            assert_eq!(write_late(kind, b"other") == first, is_code);
            let kept: &[u8] = if is_code { b"payload" } else { b"other" };
            assert_eq!(cache.read(kind, "k").as_deref(), Some(kept));
            damage(&path);
            write_late(kind, b"mended");
            assert_eq!(cache.read(kind, "k").as_deref(), Some(&b"mended"[..]));
        }
    }

    #[test]
    fn an_entry_in_the_place_of_another_is_not_believed() {
        let (_folder, cache) = cache();
        let one = cache.write(CacheKind::Artifact, "one", b"payload").unwrap();
        for (kind, key) in [(CacheKind::Artifact, "two"), (CacheKind::Module, "one")] {
            fs::copy(&one, cache.path(kind, key)).unwrap();
            assert_eq!(cache.find(kind, key), None, "{kind:?} {key}");
        }
        assert!(cache.find(CacheKind::Artifact, "one").is_some());
    }

    #[test]
    fn what_is_no_file_is_no_entry_and_is_not_waited_for() {
        let (_folder, cache) = cache();
        let pipe = cache.path(CacheKind::Outcome, "pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(cache.read(CacheKind::Outcome, "pipe"), None);
        cache.write(CacheKind::Outcome, "pipe", b"payload").unwrap();
        assert!(cache.read(CacheKind::Outcome, "pipe").is_some());

        let other = cache.write(CacheKind::Outcome, "other", b"payload").unwrap();
        std::os::unix::fs::symlink(&other, cache.path(CacheKind::Outcome, "link")).unwrap();
        assert_eq!(cache.read(CacheKind::Outcome, "link"), None);

        fs::create_dir(cache.path(CacheKind::Outcome, "folder")).unwrap();
        assert_eq!(cache.read(CacheKind::Outcome, "folder"), None);
        let error = cache.write(CacheKind::Outcome, "folder", b"payload").unwrap_err();
        assert!(error.to_string().contains("outcomes/folder in the cache"), "{error}");
        insta::assert_snapshot!(error.hint().unwrap(), @"remove it: replay keeps a file of this name there");
    }

    #[test]
    fn a_folder_of_the_cache_that_was_removed_is_made_again() {
        let (_folder, cache) = cache();
        for name in ["outcomes", "tmp"] {
            fs::remove_dir(cache.root().join(name)).unwrap();
            cache.write(CacheKind::Outcome, name, b"payload").unwrap();
            assert!(cache.read(CacheKind::Outcome, name).is_some());
        }
        fs::remove_dir(cache.temporary()).unwrap();
        cache.scratch().unwrap();
    }

    #[test]
    fn the_folder_is_marked_as_a_cache_and_lies_beside_what_else_is_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("artifacts")).unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let tag = fs::read_to_string(cache.root().join("CACHEDIR.TAG")).unwrap();
        assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"), "{tag}");
        let ignored = fs::read_to_string(cache.root().join(".gitignore")).unwrap();
        assert!(ignored.ends_with("\n*\n"), "{ignored}");
        assert_eq!(fs::read_dir(folder.path().join("artifacts")).unwrap().count(), 0);
        Cache::open(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_with_files_of_others_is_not_adopted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("replay/artifacts")).unwrap();
        let error = Cache::open(folder.path()).unwrap_err();
        let told = error.to_string().replace(&folder.path().display().to_string(), "[CACHE]");
        insta::assert_snapshot!(told, @"[CACHE]/replay holds files and is no cache of replay");
        insta::assert_snapshot!(error.hint().unwrap(), @"set REPLAY_CACHE_DIR to another folder: replay makes one of its own in it, named `replay`");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Cache::open(&file.join("cache")).unwrap_err();
        assert!(error.to_string().ends_with("file/cache/replay in the cache"), "{error}");
        insta::assert_snapshot!(error.hint().unwrap(), @"set REPLAY_CACHE_DIR to a folder that can be written");
    }

    #[test]
    fn a_full_disk_has_advice_of_its_own() {
        for number in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            let error =
                cache_io_error("write", Path::new("/x"), io::Error::from_raw_os_error(number));
            insta::allow_duplicates! {
                insta::assert_snapshot!(error.hint().unwrap(), @"there is no room: `replay cache gc` frees what was not used for long, and REPLAY_CACHE_DIR names a folder on another disk");
            }
        }
    }
}
