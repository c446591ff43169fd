//! Common parts of artifacts, each made once, and the compilation and linking of each artifact.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use super::header_folder::HeaderFolder;
use super::{
    CompileError, CompilerError, Excess, HEADERS, KeyHasher, LINK, Toolchain, UnitKind,
    definitions_object, outside_prerequisites, owned_words, scratch_failed,
};
use replay_base::cache::CacheKind;
use replay_base::foreign::Finished;
use replay_frontend::Precision;
use replay_runtime::flags::PRELUDE;
use replay_runtime::headers;

/// A linker for a third of the usual one's time, where it is installed.
const FAST_LINKER: &str = "-fuse-ld=gold";

/// After this many units the precompiled header is made: it takes as long as these do without.
const UNITS_FOR_PRELUDE: usize = 3;

/// The folder with the precompiled header, beside the sources.
const PRECOMPILED: &str = "precompiled";

/// Values made at most once in a process.
#[derive(Default)]
pub(super) struct CompileMemo {
    many: AtomicBool,
    /// The programs of the compiler.
    pub tools: OnceLock<Vec<PathBuf>>,
    /// The folder with this program's headers.
    headers: Mutex<Option<HeaderFolder>>,
    /// The precompiled headers, where there is one.
    preludes: Mutex<HashMap<UnitKind, Arc<PreludeSlot>>>,
    /// By precision: the hash of every artifact's common object.
    definitions: [OnceLock<blake3::Hash>; 3],
    fast_linker_fails: AtomicBool,
    /// By key: the compilations in progress.
    busy: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// By first key: the results of this process.
    known: Mutex<HashMap<String, MemoEntry>>,
}

/// The result of a compilation.
#[derive(Clone)]
pub(super) enum MemoEntry {
    /// The key of an artifact, or of a refusal.
    Key(String),
    /// It was given up.
    Excess(Excess),
}

/// What this process knows of the precompiled header of a kind of units.
#[derive(Default)]
pub(super) struct PreludeSlot {
    /// The units compiled without it.
    units: AtomicUsize,
    /// None if the compiler makes none.
    made: OnceLock<Option<Prelude>>,
}

/// A precompiled header.
pub(super) struct Prelude {
    /// The entry of the cache. Compilers ignore the trailer behind the header's bytes.
    entry: PathBuf,
    /// The files it was made from, outside of the sources.
    read: Vec<PathBuf>,
}

impl CompileMemo {
    fn lock_busy(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<()>>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder with this program's headers, if it goes with this process.
    pub(super) fn work_folder_of_headers(&self) -> Option<PathBuf> {
        let headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        match headers.as_ref()? {
            HeaderFolder::Kept(_) => None,
            HeaderFolder::OfThisProcess(folder) => Some(folder.path().to_owned()),
        }
    }

    fn lock_preludes(&self) -> MutexGuard<'_, HashMap<UnitKind, Arc<PreludeSlot>>> {
        self.preludes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work`, but never at the same time as other work of this process with the same `key`.
    pub(super) fn by_one<T>(&self, key: &str, work: impl FnOnce() -> T) -> T {
        let turn = self.lock_busy().entry(key.to_owned()).or_default().clone();
        let turn_guard = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let work_result = work();
        drop(turn_guard);
        let mut busy = self.lock_busy();
        // If only this turn and the map refer to it, nobody waits.
        if Arc::strong_count(&turn) == 2 {
            busy.remove(key);
        }
        work_result
    }

    /// The hash of the common object file of every artifact with this precision.
    pub(super) fn definitions_hash(&self, precision: Precision) -> blake3::Hash {
        *self.definitions[precision_slot(precision)]
            .get_or_init(|| blake3::hash(definitions_object(precision)))
    }

    /// The result of the compilation with the key `first`, if this process knows it.
    pub(super) fn recall_entry(&self, first: &str) -> Option<MemoEntry> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(first).cloned()
    }

    /// Whether a compilation was given up in this process.
    pub(super) fn has_given_up(&self) -> bool {
        let known_results = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known_results.values().any(|known_result| matches!(known_result, MemoEntry::Excess(_)))
    }

    /// Keeps the result of the compilation with the key `first` for this process.
    pub(super) fn learn(&self, first: &str, known_result: MemoEntry) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(first.to_owned(), known_result);
    }
}

impl Toolchain {
    /// Prepares for the compilation of many variants: the first compilation already precompiles the headers.
    pub fn expect_many(&self) {
        self.once.many.store(true, Ordering::Relaxed);
    }

    /// Makes this program's headers appear as [`HEADERS`] in `folder`. They are looked for once in each process, and again if
    /// somebody has removed them.
    pub(super) fn link_headers(&self, folder: &Path) -> Result<(), CompileError> {
        let mut headers = self.once.headers.lock().unwrap_or_else(PoisonError::into_inner);
        let known_folder = headers.take().filter(|known| known.path().join(PRELUDE).exists());
        let header_folder = match known_folder {
            Some(known_folder) => known_folder,
            None => HeaderFolder::provide(&self.cache)?,
        };
        let link = folder.join(HEADERS);
        std::os::unix::fs::symlink(headers.insert(header_folder).path(), &link)
            .map_err(scratch_failed(&link))?;
        Ok(())
    }

    /// Compiles `unit.cpp` in `folder` to `unit.o`. Also returns the files read from outside, if the compiler lists them.
    /// A failed compilation with a precompiled header is repeated without one; the second result counts.
    pub(super) fn compile_object(
        &self,
        folder: &Path,
        flags: &[String],
        kind: UnitKind,
    ) -> Result<(Finished, Option<Vec<PathBuf>>), CompilerError> {
        let mut object = owned_words(["-c", "unit.cpp", "-o", "unit.o"]);
        if kind.precision == Precision::Checked {
            // Places are told as the user names them, wherever they were compiled.
            object.push(format!("-fdebug-prefix-map={}=.", folder.display()));
        }
        let list = owned_words(["-MD", "-MT", "unit", "-MF", RULE]);
        let words = flags.iter().chain(&object).chain(&list);
        let prelude = self.prelude(kind, false);
        if let Some(prelude) = prelude.made.get().and_then(Option::as_ref) {
            link_prelude(folder, kind.prelude_header(), &prelude.entry)?;
            let finished_run = self.run(folder, &[PRECOMPILED, HEADERS], words.clone())?;
            if finished_run.success() {
                let read_files =
                    files_read(folder).map(|own_files| [&own_files[..], &prelude.read].concat());
                return Ok((finished_run, read_files));
            }
            // Its list of files does not count either.
            let _ = std::fs::remove_file(folder.join(RULE));
        }
        let finished_run = self.run(folder, &[HEADERS], words)?;
        let read_files = files_read(folder);
        Ok((finished_run, read_files))
    }

    /// Links `objects` and `definitions.o` in `folder` to `artifact.so`. If the fast linker fails, the default one is used,
    /// and its result counts.
    pub(super) fn link(
        &self,
        folder: &Path,
        objects: &[String],
    ) -> Result<Finished, CompilerError> {
        let mut words = owned_words(LINK);
        words.extend(objects.iter().cloned());
        words.extend(owned_words(["definitions.o", "-o", "artifact.so"]));
        let fails = &self.once.fast_linker_fails;
        if !fails.load(Ordering::Relaxed) {
            let finished_run =
                self.run(folder, &[], [FAST_LINKER.to_owned()].iter().chain(&words))?;
            if finished_run.success() {
                return Ok(finished_run);
            }
        }
        let finished_run = self.run(folder, &[], &words)?;
        if finished_run.success() {
            fails.store(true, Ordering::Relaxed);
        }
        Ok(finished_run)
    }

    /// The precompiled [`UnitKind::prelude_header`], which is made if an earlier command has compiled units of this `kind`, or
    /// this one does as many as it takes to make the header. g++ looks for it in the folders before those with headers, and
    /// checks that it fits; clang++ does neither.
    pub(super) fn prelude(&self, kind: UnitKind, many: bool) -> Arc<PreludeSlot> {
        let slot = self.once.lock_preludes().entry(kind).or_default().clone();
        if slot.made.get().is_some() {
            return slot;
        }
        // It only saves time: without it the headers are there.
        if self.compiler.is_clang() {
            let _ = slot.made.set(None);
            return slot;
        }
        let units = slot.units.fetch_add(1, Ordering::Relaxed);
        // Checked builds are few in any search.
        let many = many
            || units >= UNITS_FOR_PRELUDE
            || kind.precision != Precision::Checked && self.once.many.load(Ordering::Relaxed);
        if many || units == 0 {
            let key = self.prelude_key(kind);
            let known = self.recall_prelude(&key);
            if many || known.is_some() || self.has_compiled_before(&key) {
                slot.made.get_or_init(|| known.or_else(|| self.make_prelude(kind, &key)));
            }
        }
        slot
    }

    /// Whether an earlier command found no precompiled header with the key `first` either; later ones find that this one
    /// did not.
    fn has_compiled_before(&self, first: &str) -> bool {
        let mut hasher = KeyHasher::new("compiled without a precompiled header");
        hasher.part(first);
        let key = hasher.finish();
        let is_known = self.cache.read(CacheKind::Fact, &key).is_some();
        if !is_known {
            // It only saves time.
            let _ = self.cache.write(CacheKind::Fact, &key, b"");
        }
        is_known
    }

    /// The key of everything known of a precompiled header before the compiler has run.
    fn prelude_key(&self, kind: UnitKind) -> String {
        let mut hasher = KeyHasher::new("prelude");
        hasher.part(self.compiler.identity());
        hasher.part(headers::hash_headers().as_bytes());
        hasher.part(kind.prelude_header());
        hasher.list(kind.options(&self.compiler));
        hasher.finish()
    }

    /// The precompiled header with the key `first` in the cache.
    fn recall_prelude(&self, first: &str) -> Option<Prelude> {
        let (key, read) = self.outside.recall_with_files(&self.cache, first)?;
        let entry = self.cache.find(CacheKind::Precompiled, &key)?;
        Some(Prelude { entry, read })
    }

    fn make_prelude(&self, kind: UnitKind, first: &str) -> Option<Prelude> {
        let header = kind.prelude_header();
        let scratch = self.cache.scratch().ok()?;
        let folder = scratch.path();
        let start_time = SystemTime::now();
        self.link_headers(folder).ok()?;
        let precompiled_path = folder.join("prelude.gch");
        let mut last =
            owned_words(["-c", "-x", "c++-header", "-MD", "-MT", "unit", "-MF", RULE, "-o"]);
        last.extend([precompiled_path.display().to_string(), format!("{HEADERS}/{header}")]);
        let flags = kind.options(&self.compiler);
        if !self.run(folder, &[HEADERS], flags.iter().chain(&last)).ok()?.success() {
            return None;
        }
        let bytes = std::fs::read(&precompiled_path).ok()?;
        let read = files_read(folder)?;
        let tools = self.tools().ok()?;
        let key = self.outside.remember(&self.cache, first, start_time, &read, tools).ok()??;
        let entry = self.cache.write(CacheKind::Precompiled, &key, &bytes).ok()?;
        Some(Prelude { entry, read })
    }
}

/// The compiler's list of its files.
const RULE: &str = "unit.d";

/// The files the compiler has read from outside of `folder`; none if it does not list them.
fn files_read(folder: &Path) -> Option<Vec<PathBuf>> {
    Some(outside_prerequisites(folder, &std::fs::read(folder.join(RULE)).ok()?))
}

fn link_prelude(folder: &Path, header: &str, entry: &Path) -> Result<(), CompilerError> {
    let path = folder.join(PRECOMPILED).join(format!("{header}.gch"));
    let link_folder = path.parent().expect("a file lies in a folder");
    std::fs::create_dir_all(link_folder)
        .and_then(|()| std::os::unix::fs::symlink(entry, &path))
        .map_err(scratch_failed(&path))
}

fn precision_slot(precision: Precision) -> usize {
    match precision {
        Precision::Native => 0,
        Precision::Shadow => 1,
        Precision::Checked => 2,
    }
}
