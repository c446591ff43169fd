//! What is made once for many artifacts, and how each of them is compiled and linked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{CompilerError, FLAGS, LINK, PRELUDE, Toolchain, shadow_flag, strings};
use crate::frontend::Precision;

/// A linker that takes a third of the usual one's time, where it is installed.
const FAST_LINKER: &str = "-fuse-ld=gold";

/// What is made at most once in a process.
#[derive(Default)]
pub(super) struct Once {
    many: AtomicBool,
    /// By precision: a folder with the precompiled header, if there is one.
    preludes: [OnceLock<Option<PathBuf>>; 2],
    fast_linker_fails: AtomicBool,
    /// By key: what is compiled now.
    busy: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Once {
    /// Does `work` when nobody else in this process does what has the same `key`.
    pub(super) fn by_one<T>(&self, key: &str, work: impl FnOnce() -> T) -> T {
        let lock = || self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = lock().entry(key.to_owned()).or_default().clone();
        let held = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work();
        drop(held);
        let mut busy = lock();
        // Nobody else waits for it: this one and the map hold it.
        if Arc::strong_count(&turn) == 2 {
            busy.remove(key);
        }
        done
    }
}

impl Toolchain {
    /// Prepares for the compilation of many variants: headers are precompiled when the first of
    /// them is.
    pub fn expect_many(&self) {
        self.once.many.store(true, Ordering::Relaxed);
    }

    /// Compiles `unit.cpp` in `folder` to `unit.o`. What is refused with a precompiled header is
    /// compiled without, whose word counts.
    pub(super) fn compile_object(
        &self,
        folder: &Path,
        flags: &[String],
        precision: Precision,
    ) -> Result<Output, CompilerError> {
        let object = strings(["-c", "unit.cpp", "-o", "unit.o"]);
        let words = || flags.iter().chain(&object);
        if let Some(prelude) = self.prelude(precision) {
            let output = self.run_with(&[prelude, &self.headers], folder, words())?;
            if output.status.success() {
                return Ok(output);
            }
        }
        self.run(folder, words())
    }

    /// Links `unit.o` and `definitions.o` to `artifact.so`. What the fast linker refuses is linked
    /// by the usual one, whose word counts.
    pub(super) fn link(&self, folder: &Path) -> Result<Output, CompilerError> {
        let mut words = strings(LINK);
        words.extend(strings(["unit.o", "definitions.o", "-o", "artifact.so"]));
        let fails = &self.once.fast_linker_fails;
        if !fails.load(Ordering::Relaxed) {
            let output = self.run(folder, [FAST_LINKER.to_owned()].iter().chain(&words))?;
            if output.status.success() {
                return Ok(output);
            }
        }
        let output = self.run(folder, &words)?;
        if output.status.success() {
            fails.store(true, Ordering::Relaxed);
        }
        Ok(output)
    }

    /// A folder that, before those with headers, holds a precompiled [`PRELUDE`]; none if only a
    /// few units are compiled or the compiler makes none. g++ looks for it there and checks that it
    /// fits; clang++ does neither.
    fn prelude(&self, precision: Precision) -> Option<&Path> {
        let is_clang = self.compiler.version().contains("clang");
        if is_clang || !self.once.many.load(Ordering::Relaxed) {
            return None;
        }
        let slot = |precision| &self.once.preludes[index(precision)];
        let make = |precision| slot(precision).get_or_init(|| self.make_prelude(precision));
        // What is compiled natively is compared, which takes shadows; and there is another core.
        let made = slot(precision).get_or_init(|| {
            std::thread::scope(|scope| {
                if precision == Precision::Native {
                    let shadow = || make(Precision::Shadow).is_some();
                    // Where the system has no thread for it, it is made when it is needed.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, shadow);
                }
                self.make_prelude(precision)
            })
        });
        made.as_deref()
    }

    /// It only saves time: whatever goes wrong, the headers are there.
    fn make_prelude(&self, precision: Precision) -> Option<PathBuf> {
        let [_, header] = PRELUDE;
        let mut flags = strings(FLAGS);
        flags.extend(shadow_flag(precision));
        let name = format!("headers-{}", self.key(&flags, &[], header));
        let source = self.headers.join(header).display().to_string();
        let made = self.cache.folder(&name, |folder| {
            let object = format!("{header}.gch");
            std::fs::create_dir_all(folder.join(&object).parent().unwrap_or(folder))?;
            let mut last = strings(["-c", "-x", "c++-header", "-o"]);
            last.extend([object, source]);
            let output = self.run(folder, flags.iter().chain(&last));
            match output.map_err(std::io::Error::other)?.status.success() {
                true => Ok(()),
                false => Err(std::io::Error::other("the header cannot be precompiled")),
            }
        });
        made.ok()
    }
}

fn index(precision: Precision) -> usize {
    usize::from(precision == Precision::Shadow)
}
