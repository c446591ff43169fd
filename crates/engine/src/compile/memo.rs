//! Common parts of artifacts, each made once, and the compilation and linking of each artifact.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use super::{
    Compiler, CompilerError, Excess, FLAGS, HEADERS, KeyHasher, LINK, PRELUDE, STANDARD, Toolchain,
    definitions_object, outside_prerequisites, owned_words, precision_flag, scratch_failed,
};
use replay_base::cache::CacheKind;
use replay_base::foreign::Finished;
use replay_frontend::Precision;
use replay_runtime::headers;

/// A linker for a third of the usual one's time, where it is installed.
const FAST_LINKER: &str = "-fuse-ld=gold";

/// The folder with the precompiled header, beside the sources.
const PRECOMPILED: &str = "precompiled";

/// Values made at most once in a process.
#[derive(Default)]
pub(super) struct CompileMemo {
    many: AtomicBool,
    /// The programs of the compiler.
    pub tools: OnceLock<Vec<PathBuf>>,
    /// By precision: the precompiled header, if there is one.
    preludes: [OnceLock<Option<Prelude>>; 3],
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

/// A precompiled header.
struct Prelude {
    /// The entry of the cache. Compilers ignore the trailer behind the header's bytes.
    entry: PathBuf,
    /// The files it was made from, outside of the sources.
    read: Vec<PathBuf>,
}

impl CompileMemo {
    fn lock_busy(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<()>>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Prepares for the compilation of many variants: the first compilation also precompiles the
    /// headers.
    pub fn expect_many(&self) {
        self.once.many.store(true, Ordering::Relaxed);
    }

    /// Compiles `unit.cpp` in `folder` to `unit.o`. Also returns the files read from outside, if the compiler lists them.
    /// A failed compilation with a precompiled header is repeated without one; the second result counts.
    pub(super) fn compile_object(
        &self,
        folder: &Path,
        flags: &[String],
        precision: Precision,
    ) -> Result<(Finished, Option<Vec<PathBuf>>), CompilerError> {
        let mut object = owned_words(["-c", "unit.cpp", "-o", "unit.o"]);
        if precision == Precision::Checked {
            // Places are told as the user names them, wherever they were compiled.
            object.push(format!("-fdebug-prefix-map={}=.", folder.display()));
        }
        let list = owned_words(["-MD", "-MT", "unit", "-MF", RULE]);
        let words = flags.iter().chain(&object).chain(&list);
        // It was compiled for one standard of C++.
        let fits_prelude = flags.iter().any(|flag| flag == STANDARD);
        if let Some(prelude) = self.prelude(precision).filter(|_| fits_prelude) {
            link_prelude(folder, &prelude.entry)?;
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

    /// Links `unit.o` and `definitions.o` to `artifact.so`. If the fast linker fails, the default
    /// one is used, and its result counts.
    pub(super) fn link(&self, folder: &Path) -> Result<Finished, CompilerError> {
        let mut words = owned_words(LINK);
        words.extend(owned_words(["unit.o", "definitions.o", "-o", "artifact.so"]));
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

    /// The precompiled [`PRELUDE`]; none if the compiler makes none, or if only a few units are compiled and the cache
    /// has none of an earlier command. g++ looks for it in the folders before those with headers, and checks that it
    /// fits; clang++ does neither.
    fn prelude(&self, precision: Precision) -> Option<&Prelude> {
        let is_clang = self.compiler.version().contains("clang");
        // Checked builds are few in any search.
        if is_clang || precision == Precision::Checked {
            return None;
        }
        // It only saves time: without it the headers are there.
        // Comparisons of native code take shadows; another core is free for their prelude.
        let preludes = &self.once.preludes;
        let optional_prelude = preludes[precision_slot(precision)].get_or_init(|| {
            if !self.once.many.load(Ordering::Relaxed) {
                return self.recall_prelude(&prelude_key(&self.compiler, precision));
            }
            std::thread::scope(|scope| {
                if precision == Precision::Native {
                    // Without a thread for it, it is made on demand.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, || {
                        preludes[precision_slot(Precision::Shadow)]
                            .get_or_init(|| self.make_prelude(Precision::Shadow));
                    });
                }
                self.make_prelude(precision)
            })
        });
        optional_prelude.as_ref()
    }

    /// The precompiled header with the key `first` in the cache.
    fn recall_prelude(&self, first: &str) -> Option<Prelude> {
        let (key, read) = self.outside.recall_with_files(&self.cache, first)?;
        let entry = self.cache.find(CacheKind::Precompiled, &key)?;
        Some(Prelude { entry, read })
    }

    fn make_prelude(&self, precision: Precision) -> Option<Prelude> {
        let [_, header] = PRELUDE;
        let flags = prelude_flags(precision);
        let first = prelude_key(&self.compiler, precision);
        if let Some(prelude) = self.recall_prelude(&first) {
            return Some(prelude);
        }
        let scratch = self.cache.scratch().ok()?;
        let folder = scratch.path();
        let start_time = SystemTime::now();
        headers::write_headers(&folder.join(HEADERS)).ok()?;
        let precompiled_path = folder.join("prelude.gch");
        let mut last =
            owned_words(["-c", "-x", "c++-header", "-MD", "-MT", "unit", "-MF", RULE, "-o"]);
        last.extend([precompiled_path.display().to_string(), format!("{HEADERS}/{header}")]);
        if !self.run(folder, &[HEADERS], flags.iter().chain(&last)).ok()?.success() {
            return None;
        }
        let bytes = std::fs::read(&precompiled_path).ok()?;
        let read = files_read(folder)?;
        let tools = self.tools().ok()?;
        let key = self.outside.remember(&self.cache, &first, start_time, &read, tools).ok()??;
        let entry = self.cache.write(CacheKind::Precompiled, &key, &bytes).ok()?;
        Some(Prelude { entry, read })
    }
}

fn prelude_flags(precision: Precision) -> Vec<String> {
    let mut flags = [owned_words([STANDARD]), owned_words(FLAGS)].concat();
    flags.extend(precision_flag(precision));
    flags
}

/// The key of everything known of a precompiled header before the compiler has run.
fn prelude_key(compiler: &Compiler, precision: Precision) -> String {
    let mut hasher = KeyHasher::new("prelude");
    hasher.part(compiler.identity());
    hasher.part(headers::hash_headers().as_bytes());
    hasher.list(prelude_flags(precision));
    hasher.finish()
}

/// The compiler's list of its files.
const RULE: &str = "unit.d";

/// The files the compiler has read from outside of `folder`; none if it does not list them.
fn files_read(folder: &Path) -> Option<Vec<PathBuf>> {
    Some(outside_prerequisites(folder, &std::fs::read(folder.join(RULE)).ok()?))
}

fn link_prelude(folder: &Path, entry: &Path) -> Result<(), CompilerError> {
    let [_, header] = PRELUDE;
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
