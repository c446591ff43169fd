//! Dependencies of a compilation other than sources and this program's headers: the system's headers, files at absolute
//! paths, the compiler's own programs and the linked files.
//!
//! The compiler knows these files only at its end. So there are two keys. The first covers everything known beforehand;
//! under it the cache lists the files and their contents. While the contents are the same, the second key is valid. It
//! covers the files too, and leads to artifacts, refusals, modules and outcomes. A look at an unchanged file takes one
//! system call.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::key::KeyHasher;
use replay_base::cache::{Cache, CacheError, CacheKind};

/// The most compilations remembered for one first key. Machines with one cache have different states of the files
/// outside.
const VARIANTS: usize = 8;

/// A file outside of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OutsideFile {
    /// UTF-8 without a line break: the list is kept as lines of text.
    path: PathBuf,
    /// The file's state by the system: while it stays the same, so does the content.
    state: String,
    /// The hash of its content; none where only the state counts.
    hash: Option<String>,
}

/// One compilation: its files, and their key.
#[derive(Debug, PartialEq, Eq)]
struct RecordedCompilation {
    key: String,
    files: Vec<OutsideFile>,
}

/// This process's knowledge of files outside.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// By path and state.
    hashes: Mutex<HashMap<(PathBuf, String), String>>,
    /// States at the first look. A change while the process runs counts for the next process.
    states: Mutex<HashMap<PathBuf, Option<OutsideState>>>,
}

/// The system's metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OutsideState {
    /// Changes with any change of the file, and with its place on the disk.
    exact: String,
    /// The same in a copy with the same time.
    portable: String,
    /// The later one of the times of modification and of status change.
    changed: SystemTime,
}

/// The time of a file in seconds and nanoseconds since 1970.
fn system_time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    UNIX_EPOCH + seconds + Duration::from_nanos(nanoseconds.unsigned_abs())
}

/// The state of the file at `path`, unless its path cannot be stored.
fn read_storable_state(path: &Path) -> Option<OutsideState> {
    if is_storable_path(path) { OutsideState::read_from(path) } else { None }
}

impl OutsideState {
    fn read_from(path: &Path) -> Option<OutsideState> {
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let portable =
            format!("{}:{}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        Some(OutsideState {
            exact: format!(
                "{portable}:{}:{}:{}.{:09}",
                metadata.dev(),
                metadata.ino(),
                metadata.ctime(),
                metadata.ctime_nsec()
            ),
            portable,
            changed: system_time(metadata.mtime(), metadata.mtime_nsec())
                .max(system_time(metadata.ctime(), metadata.ctime_nsec())),
        })
    }
}

impl Outside {
    /// The second key for `first`, if a remembered compilation's files still have the same
    /// contents.
    pub(super) fn recall(&self, cache: &Cache, first: &str) -> Option<String> {
        self.recall_with_files(cache, first).map(|(key, _)| key)
    }

    /// The same, with the headers.
    pub(super) fn recall_with_files(
        &self,
        cache: &Cache,
        first: &str,
    ) -> Option<(String, Vec<PathBuf>)> {
        let mut known_variants = recall_compilations(cache, first);
        let mut has_moved = false;
        let place = known_variants.iter_mut().rposition(|variant| {
            variant.files.iter_mut().all(|file| self.is_unchanged(file, &mut has_moved))
        })?;
        if has_moved {
            // It only saves the look at their contents next time.
            let _ =
                cache.write(CacheKind::Dependencies, first, &encode_compilations(&known_variants));
        }
        let variant = known_variants.swap_remove(place);
        let headers = variant.files.into_iter().filter(|file| file.hash.is_some());
        Some((variant.key, headers.map(|file| file.path).collect()))
    }

    /// Whether `file` still has the same content. If only reading it could tell, sets `has_moved` and
    /// renews its state.
    fn is_unchanged(&self, file: &mut OutsideFile, has_moved: &mut bool) -> bool {
        let Some(state) = self.state(&file.path) else { return false };
        match &file.hash {
            None => file.state == state.portable,
            Some(_) if file.state == state.exact => true,
            Some(hash) => {
                let same_hash = self.hash(&file.path, &state).as_ref() == Some(hash);
                if same_hash {
                    file.state = state.exact;
                    *has_moved = true;
                }
                same_hash
            }
        }
    }

    /// Remembers the `headers` and `tools` of the compilation with the key `first`, begun at `start_time`. Returns the
    /// second key, or none if one of the files is gone or a header has changed since `start_time`: then its content is
    /// unknown.
    pub(super) fn remember(
        &self,
        cache: &Cache,
        first: &str,
        start_time: SystemTime,
        headers: &[PathBuf],
        tools: &[PathBuf],
    ) -> Result<Option<String>, CacheError> {
        let Some(files) = self.look(start_time, headers, tools) else { return Ok(None) };
        let mut hasher = KeyHasher::new("what was read");
        hasher.part(first);
        for OutsideFile { path, state, hash } in &files {
            hasher.part(path.as_os_str().as_encoded_bytes());
            hasher.part(hash.as_ref().unwrap_or(state));
        }
        let key = hasher.finish();
        let mut known_variants = recall_compilations(cache, first);
        known_variants.retain(|variant| variant.key != key);
        known_variants.push(RecordedCompilation { key: key.clone(), files });
        let surplus = known_variants.len().saturating_sub(VARIANTS);
        known_variants.drain(..surplus);
        cache.write(CacheKind::Dependencies, first, &encode_compilations(&known_variants))?;
        Ok(Some(key))
    }

    fn look(
        &self,
        start_time: SystemTime,
        headers: &[PathBuf],
        tools: &[PathBuf],
    ) -> Option<Vec<OutsideFile>> {
        let mut files = Vec::new();
        for path in headers {
            let state = read_storable_state(path)?;
            if state.changed >= start_time {
                return None;
            }
            let hash = Some(self.hash(path, &state)?);
            files.push(OutsideFile { path: path.clone(), state: state.exact, hash });
        }
        for path in tools {
            let state = read_storable_state(path)?.portable;
            files.push(OutsideFile { path: path.clone(), state, hash: None });
        }
        files.sort_by(|left_file, right_file| {
            (&left_file.path, &left_file.hash).cmp(&(&right_file.path, &right_file.hash))
        });
        files.dedup();
        Some(files)
    }

    fn state(&self, path: &Path) -> Option<OutsideState> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known_state) = states.get(path) {
            return known_state.clone();
        }
        let state = OutsideState::read_from(path);
        states.insert(path.to_owned(), state.clone());
        state
    }

    fn lock_hashes(&self) -> MutexGuard<'_, HashMap<(PathBuf, String), String>> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, path: &Path, state: &OutsideState) -> Option<String> {
        let name = (path.to_owned(), state.exact.clone());
        if let Some(known_hash) = self.lock_hashes().get(&name) {
            return Some(known_hash.clone());
        }
        let hash = blake3::hash(&std::fs::read(path).ok()?).to_hex().to_string();
        self.lock_hashes().insert(name, hash.clone());
        Some(hash)
    }
}

/// Whether `path` can be written in a line of text.
fn is_storable_path(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains('\n'))
}

fn recall_compilations(cache: &Cache, first: &str) -> Vec<RecordedCompilation> {
    let cached_text = cache.read(CacheKind::Dependencies, first);
    cached_text
        .and_then(|text| decode_compilations(std::str::from_utf8(&text).ok()?))
        .unwrap_or_default()
}

/// Encodes `variants` as lines: for each one its key and its number of files, then for each file the
/// hash or `-`, the state and the path.
fn encode_compilations(variants: &[RecordedCompilation]) -> Vec<u8> {
    let mut text = String::new();
    for RecordedCompilation { key, files } in variants {
        text.push_str(&format!("{key} {}\n", files.len()));
        for OutsideFile { path, state, hash } in files {
            let hash = hash.as_deref().unwrap_or("-");
            text.push_str(&format!("{hash} {state} {}\n", path.display()));
        }
    }
    text.into_bytes()
}

fn decode_compilations(text: &str) -> Option<Vec<RecordedCompilation>> {
    let mut lines = text.lines();
    let mut variants = Vec::new();
    while let Some(line) = lines.next() {
        let (key, count) = line.split_once(' ')?;
        let mut files = Vec::new();
        for _ in 0..count.parse::<usize>().ok()? {
            let (hash, state_and_path) = lines.next()?.split_once(' ')?;
            let (state, path) = state_and_path.split_once(' ')?;
            let hash = Some(hash.to_owned()).filter(|hash| hash != "-");
            files.push(OutsideFile { path: path.into(), state: state.to_owned(), hash });
        }
        variants.push(RecordedCompilation { key: key.to_owned(), files });
    }
    Some(variants)
}

/// The state of the file at `path` by the system: while it stays the same, so does the content.
pub(super) fn outside_file_state(path: &Path) -> Option<String> {
    OutsideState::read_from(path).map(|state| state.exact)
}

/// The files outside of `folder` in `rule`, a compiler's rule for `make`. The compiler ran in `folder`.
pub(super) fn outside_prerequisites(folder: &Path, rule: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut files = Vec::new();
    for name in parse_make_prerequisites(rule) {
        let name = Path::new(std::ffi::OsStr::from_bytes(&name));
        let path = if name.is_absolute() {
            name.to_owned()
        } else {
            normalise_lexically(&folder.join(name))
        };
        if !path.starts_with(folder) {
            files.push(path);
        }
    }
    files
}

/// `path` without `.` and `..`, as if no folder in it were a link. Keeps cyclic includes from making
/// ever longer paths.
pub(super) fn normalise_lexically(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

/// The prerequisites of a rule, with the escapes for `make` undone.
fn parse_make_prerequisites(rule: &[u8]) -> Vec<Vec<u8>> {
    let start = rule.windows(2).position(|pair| pair[0] == b':' && pair[1].is_ascii_whitespace());
    let text = start.map_or(&[][..], |start| &rule[start + 1..]);
    let mut names = Vec::new();
    let mut name = Vec::new();
    let mut byte_offset = 0;
    while byte_offset < text.len() {
        let next = text.get(byte_offset + 1).copied();
        match (text[byte_offset], next) {
            (b'\\', Some(b'\n')) => {
                names.push(std::mem::take(&mut name));
                byte_offset += 1;
            }
            (b'\\', Some(escaped @ (b' ' | b'#' | b'\t' | b':'))) => {
                name.push(escaped);
                byte_offset += 1;
            }
            (b'$', Some(b'$')) => {
                name.push(b'$');
                byte_offset += 1;
            }
            (byte, _) if byte.is_ascii_whitespace() => names.push(std::mem::take(&mut name)),
            (byte, _) => name.push(byte),
        }
        byte_offset += 1;
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        cache: Cache,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::open(&folder.path().join("cache")).unwrap();
            Place { folder, cache }
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }

        /// The key that another process would find.
        fn recall(&self) -> Option<String> {
            Outside::default().recall(&self.cache, "first")
        }

        fn remember(&self, headers: &[PathBuf], tools: &[PathBuf]) -> Option<String> {
            let later = SystemTime::now() + Duration::from_secs(60);
            Outside::default().remember(&self.cache, "first", later, headers, tools).unwrap()
        }
    }

    #[test]
    fn a_header_that_changed_is_another_compilation_and_one_that_came_back_is_the_first_again() {
        let place = Place::new();
        assert_eq!(place.recall(), None);
        let header = place.write("x.h", "one");
        let one = place.remember(std::slice::from_ref(&header), &[]);
        assert!(one.is_some());
        assert_eq!(place.recall(), one);
        place.write("x.h", "two");
        assert_eq!(place.recall(), None);
        let two = place.remember(&[header], &[]);
        assert!(two.is_some() && two != one);
        assert_eq!(place.recall(), two);
        place.write("x.h", "one");
        assert_eq!(place.recall(), one);
        fs::remove_file(place.folder.path().join("x.h")).unwrap();
        assert_eq!(place.recall(), None);
    }

    #[test]
    fn a_header_that_was_only_touched_is_the_same_and_its_new_state_is_remembered() {
        let place = Place::new();
        let header = place.write("x.h", "one");
        let key = place.remember(std::slice::from_ref(&header), &[]);
        let before = place.cache.read(CacheKind::Dependencies, "first");
        place.write("x.h", "one");
        fs::File::open(&header).unwrap().set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(place.recall(), key);
        assert_ne!(place.cache.read(CacheKind::Dependencies, "first"), before);
    }

    #[test]
    fn of_a_tool_the_state_counts() {
        let place = Place::new();
        let tool = place.write("as", "one");
        let key = place.remember(&[], std::slice::from_ref(&tool));
        assert_eq!(place.recall(), key);
        fs::File::open(&tool).unwrap().set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(place.recall(), None);
    }

    #[test]
    fn what_changes_while_it_is_compiled_is_not_remembered() {
        let place = Place::new();
        let header = place.write("x.h", "one");
        let begun = SystemTime::now() - Duration::from_secs(1);
        let outside = Outside::default();
        let headers = [header.clone()];
        assert_eq!(outside.remember(&place.cache, "first", begun, &headers, &[]).unwrap(), None);
        fs::remove_file(header).unwrap();
        assert_eq!(place.remember(&headers, &[]), None);
        assert_eq!(place.recall(), None);
    }

    #[test]
    fn what_is_kept_is_read_as_it_was_written() {
        let file = |path: &str, hash: Option<&str>| OutsideFile {
            path: path.into(),
            state: "1:2.000000003".to_owned(),
            hash: hash.map(str::to_owned),
        };
        let variants = [
            RecordedCompilation {
                key: "a".to_owned(),
                files: vec![file("/x y.h", Some("f")), file("/z", None)],
            },
            RecordedCompilation { key: "b".to_owned(), files: Vec::new() },
        ];
        let text = encode_compilations(&variants);
        let text = std::str::from_utf8(&text).unwrap();
        assert_eq!(decode_compilations(text).as_deref(), Some(&variants[..]));
        for end in 1..text.len() {
            // A truncated list gives fewer variants, or none.
            assert!(decode_compilations(&text[..end]).is_none_or(|found| found.len() <= 2));
        }
        assert_eq!(decode_compilations("a 99999999999999\n"), None);
    }

    #[test]
    fn a_path_with_a_line_break_is_not_remembered() {
        let place = Place::new();
        let header = place.write("two\nlines.h", "one");
        assert_eq!(place.remember(&[header], &[]), None);
    }

    #[test]
    fn a_rule_for_make_is_read_with_its_escapes() {
        let rule = b"unit: unit.cpp /usr/include/a.h \\\n tree/b.h \\\n  /opt/my\\ own/c$$d\\#.h\n\
                     headers/replay/../replay/x.h ../../up.h /usr/include/../include/e.h";
        let files = outside_prerequisites(Path::new("/cache/tmp/work"), rule);
        let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(
            files,
            [
                "/usr/include/a.h",
                "/opt/my own/c$d#.h",
                "/cache/up.h",
                "/usr/include/../include/e.h"
            ]
        );
        assert_eq!(outside_prerequisites(Path::new("/w"), b""), [] as [PathBuf; 0]);
    }
}
