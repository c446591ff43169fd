//! The object files of an artifact: each translation unit is compiled by itself, and kept by its content where an artifact
//! has several.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::key::KeyHasher;
use super::options::{UnitKind, owned_words};
use super::refused_lines::begins_with_source_error;
use super::translation::{TranslationUnit, write_source_tree};
use super::{
    CompileError, CompilerError, HEADERS, Toolchain, definitions_object, elf_symbols, first_error,
    scratch_failed,
};
use replay_base::cache::CacheKind;
use replay_base::foreign::Finished;
use replay_fixture::harness::CppStandard;
use replay_frontend::Precision;
use replay_runtime::headers;

/// From this many units on it pays to precompile the headers before the first of them.
const MANY_UNITS: usize = 6;

/// The object file of the unit in a folder.
const OBJECT: &str = "unit.o";

/// A compiled translation unit.
pub(super) struct ObjectFile {
    /// The object file, unless it is refused.
    pub path: PathBuf,
    /// The compiler's log, if it refuses the unit.
    pub refusal: Option<String>,
    /// The files read from outside; none if the compiler does not list them.
    pub read: Option<Vec<PathBuf>>,
}

/// The files that the compiler has read for `objects`; none if a list is missing.
pub(super) fn join_read_files(objects: &[ObjectFile]) -> Option<Vec<PathBuf>> {
    let mut read_files = BTreeSet::new();
    for object in objects {
        read_files.extend(object.read.as_ref()?.iter().cloned());
    }
    Some(read_files.into_iter().collect())
}

impl Toolchain {
    /// The object files of `units`, in order: those in the cache, and the others compiled side by side.
    pub(super) fn compile_objects(
        &self,
        units: &[TranslationUnit],
        flags: &[String],
        kind: UnitKind,
    ) -> Result<Vec<ObjectFile>, CompileError> {
        if units.len() >= MANY_UNITS {
            self.prelude(kind, true);
        }
        let next = AtomicUsize::new(0);
        let compiled: Mutex<BTreeMap<usize, Result<ObjectFile, CompileError>>> = Mutex::default();
        let compile_rest = || {
            while let Some((number, unit)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                units.get(number).map(|unit| (number, unit))
            } {
                let object = self.compile_cached_unit(unit, flags, kind);
                compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(number, object);
            }
        };
        std::thread::scope(|scope| {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            for _ in 1..cores.min(units.len()) {
                // It only saves time: where the system has no thread for it, this one does all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, compile_rest);
            }
            compile_rest();
        });
        compiled.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    /// The object file of `unit` in the cache, compiled if it is not there.
    fn compile_cached_unit(
        &self,
        unit: &TranslationUnit,
        flags: &[String],
        kind: UnitKind,
    ) -> Result<ObjectFile, CompileError> {
        let first = self.object_key(unit, flags);
        self.once.by_one(&first, || {
            if let Some(known_object) = self.recall_object(&first) {
                return Ok(known_object);
            }
            let start_time = SystemTime::now();
            let scratch = self.cache.scratch()?;
            let object = self.compile_unit(scratch.path(), unit, flags, kind)?;
            let tools = self.tools()?;
            let key = self.second_key(&first, start_time, object.read.as_deref(), tools)?;
            let path = match &object.refusal {
                Some(log) => self.cache.write(CacheKind::Refusal, &key, log.as_bytes())?,
                None => {
                    let bytes =
                        std::fs::read(&object.path).map_err(scratch_failed(&object.path))?;
                    self.cache.write(CacheKind::Object, &key, &bytes)?
                }
            };
            Ok(ObjectFile { path, ..object })
        })
    }

    /// The object file with the key `first` in the cache.
    fn recall_object(&self, first: &str) -> Option<ObjectFile> {
        let (key, read) = self.outside.recall_with_files(&self.cache, first)?;
        let read = Some(read);
        if let Some(path) = self.cache.find(CacheKind::Object, &key) {
            return Some(ObjectFile { path, refusal: None, read });
        }
        let log = self.cache.read(CacheKind::Refusal, &key)?;
        let refusal = Some(String::from_utf8_lossy(&log).into_owned());
        Some(ObjectFile { path: self.cache.path(CacheKind::Refusal, &key), refusal, read })
    }

    /// Compiles `unit` in `folder`.
    pub(super) fn compile_unit(
        &self,
        folder: &Path,
        unit: &TranslationUnit,
        flags: &[String],
        kind: UnitKind,
    ) -> Result<ObjectFile, CompileError> {
        let _span = tracing::info_span!(
            "compile",
            message = unit.sources.join(" "),
            precision = ?kind.precision,
            compiler = self.compiler.name()
        );
        self.link_headers(folder)?;
        write_source_tree(folder, unit.files.iter().copied())
            .and_then(|()| std::fs::write(folder.join("unit.cpp"), &unit.text))
            .map_err(scratch_failed(folder))?;
        let (finished, read) = self.compile_object(folder, flags, kind)?;
        let refusal = if finished.success() {
            None
        } else {
            let log = String::from_utf8_lossy(&finished.stderr).into_owned();
            // The headers come first: if an error of the sources does, the compiler has taken them.
            if !begins_with_source_error(&log) {
                self.probe(folder, kind)?;
            }
            Some(log)
        };
        Ok(ObjectFile { path: folder.join(OBJECT), refusal, read })
    }

    /// Links `objects` in `folder`.
    pub(super) fn link_objects(
        &self,
        folder: &Path,
        objects: &[ObjectFile],
        precision: Precision,
    ) -> Result<Finished, CompileError> {
        let definitions = folder.join("definitions.o");
        std::fs::write(&definitions, definitions_object(precision))
            .map_err(scratch_failed(&definitions))?;
        if objects.len() == 1 {
            return Ok(self.link(folder, &[OBJECT.to_owned()])?);
        }
        let mut contents = Vec::new();
        for object in objects {
            contents.push(std::fs::read(&object.path).map_err(scratch_failed(&object.path))?);
        }
        elf_symbols::keep_functions_apart(&mut contents).map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidData, error);
            CompilerError::Scratch { path: folder.to_owned(), source }
        })?;
        let mut names = Vec::new();
        for (number, content) in contents.into_iter().enumerate() {
            let name = format!("unit{number}.o");
            let path = folder.join(&name);
            std::fs::write(&path, content).map_err(scratch_failed(&path))?;
            names.push(name);
        }
        Ok(self.link(folder, &names)?)
    }

    /// Compiles the headers alone. If the compiler refuses them, the sources are not to blame.
    fn probe(&self, folder: &Path, kind: UnitKind) -> Result<(), CompilerError> {
        let source = folder.join("probe.cpp");
        std::fs::write(&source, "").map_err(scratch_failed(&source))?;
        let kind = UnitKind { standard: CppStandard::default(), ..kind };
        let flags = kind
            .options(&self.compiler)
            .into_iter()
            .chain(owned_words(["-include", kind.prelude_header()]));
        let probe = owned_words(["-fsyntax-only", "probe.cpp"]);
        let finished_run = self.run(folder, &[HEADERS], flags.chain(probe))?;
        if finished_run.success() {
            return Ok(());
        }
        let first_error = first_error(&String::from_utf8_lossy(&finished_run.stderr));
        Err(CompilerError::Unsuitable { command: self.compiler.name(), first_error })
    }

    /// The same of an object file.
    pub(super) fn object_key(&self, unit: &TranslationUnit, flags: &[String]) -> String {
        let mut hasher = KeyHasher::new("unit");
        hasher.part(self.compiler.identity());
        hasher.part(headers::hash_headers().as_bytes());
        hasher.list(flags);
        hasher.part(&unit.text);
        for (path, text) in &unit.files {
            hasher.part(path);
            hasher.part(text);
        }
        hasher.finish()
    }
}
