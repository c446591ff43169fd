//! What is made once for many artifacts, and how each of them is compiled and linked.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{CompilerError, FLAGS, LINK, Toolchain, shadow_flag, strings};
use crate::frontend::Precision;

/// A linker that takes a third of the usual one's time, where it is installed.
const FAST_LINKER: &str = "-fuse-ld=gold";

/// The header that every unit begins with.
const PRELUDE: &str = "cuda_runtime.h";

/// What is made at most once in a process.
#[derive(Default)]
pub(super) struct Once {
    many: AtomicBool,
    /// By precision: a folder with the precompiled header, if there is one.
    preludes: [OnceLock<Option<PathBuf>>; 2],
    fast_linker_fails: AtomicBool,
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
        let slot = &self.once.preludes[index(precision)];
        slot.get_or_init(|| self.make_prelude(precision)).as_deref()
    }

    /// It only saves time: whatever goes wrong, the headers are there.
    fn make_prelude(&self, precision: Precision) -> Option<PathBuf> {
        let mut flags = strings(FLAGS);
        flags.truncate(flags.len() - 2);
        flags.extend(shadow_flag(precision));
        let name = format!("headers-{}", self.key(&flags, &[], PRELUDE));
        let source = self.headers.join(PRELUDE).display().to_string();
        let made = self.cache.folder(&name, |folder| {
            let object = format!("{PRELUDE}.gch");
            let last = ["-x".to_owned(), "c++-header".to_owned(), source, "-o".to_owned(), object];
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
