//! Turns a source set and a harness's call into an artifact to be loaded.
//!
//! Artifacts are found by content: equal sources, headers, compiler and flags are compiled once, for all their commits.
//! A failed compilation is remembered with its log.

mod call_parts;
mod call_place;
mod compiler;
mod divided_headers;
mod elf_symbols;
mod encoding;
mod entry_point;
mod environment;
mod error;
mod explanation;
mod header_folder;
mod includes;
mod instances;
mod key;
mod launch_errors;
mod memo;
mod nvrtc;
mod object_files;
mod obstacles;
mod options;
mod outside_files;
mod recent_translations;
mod refused_lines;
mod source_units;
mod tools;
mod translation;
mod vectors;
mod walls;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use self::call_place::CallPlace;
pub use self::compiler::{Compiler, CompilerError, Excess};
pub use self::divided_headers::{Difference, DividedHeader, JoinReason};
pub use self::entry_point::Signature;
pub use self::error::{About, CompileError, RefusedCode, SourceFinding};
pub use self::explanation::{
    Build, ExplainedFile, Explanation, ObstacleEffect, ShadowObstacle, rewritten_sources,
};
pub use self::nvrtc::{DeviceModule, DeviceShadow, DeviceToolchain};
pub use self::obstacles::{CompileObstacle, CompileObstacles, LeftOutFunction};
pub use self::translation::{source_byte_counts, source_integer_conversions};

use self::call_parts::EntryPart;
use self::entry_point::EntryPoint;
use self::error::first_error;
use self::key::KeyHasher;
use self::memo::{CompileMemo, MemoEntry};
use self::object_files::join_read_files;
use self::options::{LINK, UnitKind, compiler_options, owned_words};
use self::outside_files::{Outside, outside_prerequisites};
use self::recent_translations::RecentTranslations;
use self::translation::{CodeScope, Translation, TranslationRequest, TranslationUnit, can_trap};
use replay_base::cache::{Cache, CacheKind};
use replay_base::foreign::Finished;
use replay_fixture::harness::Harness;
use replay_frontend::{Precision, Threads};
use replay_history::SourceSet;
use replay_runtime::definitions;
use replay_runtime::renamed::restore_source_names;

/// A compiled variant.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The shared object.
    pub path: PathBuf,
    /// Identifies its content: sources, call, flags, compiler, and the files from outside.
    pub key: String,
    /// The number of the fitting call of the harness, from 0.
    pub call: usize,
    /// Why `float` meaning `double` may not mean the same; empty unless it is a shadow.
    pub shadow_obstacles: Vec<String>,
    /// Whether it is a shadow with guarded obstacles, and so may end where one runs.
    pub may_end: bool,
    /// Whether this run compiled it.
    pub fresh: bool,
    /// The shared object, whoever removes it at its path.
    kept: Option<Arc<File>>,
}

impl Artifact {
    /// A lasting path of the shared object while this lives. Replayed code may remove the file itself.
    pub(crate) fn place(&self) -> PathBuf {
        match &self.kept {
            Some(kept_file) => {
                format!("/proc/{}/fd/{}", std::process::id(), kept_file.as_raw_fd()).into()
            }
            None => self.path.clone(),
        }
    }
}

/// The common state of all compilations of a run.
pub struct Toolchain {
    compiler: Compiler,
    cache: Cache,
    once: CompileMemo,
    recent_translations: RecentTranslations,
    outside: Outside,
    /// How threads are run; if nothing was said, as the size of the fixture suggests.
    threads: Option<Threads>,
}

/// Functions of a float64 shadow are made traps for at most so many lines that the compiler refuses.
const MOST_REFUSED_LINES: usize = 200;

/// A result: the path of the artifact, its key, and whether this run compiled it.
type Compiled = (PathBuf, String, bool);

impl Toolchain {
    /// Compiles with `compiler` and remembers in `cache`.
    pub fn new(compiler: Compiler, cache: &Cache) -> Toolchain {
        let once = CompileMemo::default();
        let outside = Outside::default();
        let cache = cache.clone();
        Toolchain {
            compiler,
            cache,
            once,
            recent_translations: RecentTranslations::default(),
            outside,
            threads: None,
        }
    }

    /// The same for other compilations, with `compiler` if there is one.
    pub(crate) fn with_compiler(&self, compiler: Option<&Compiler>) -> Toolchain {
        let compiler = compiler.unwrap_or(&self.compiler).clone();
        Toolchain { threads: self.threads, ..Toolchain::new(compiler, &self.cache) }
    }

    /// The same with the threads of a block run as `threads` says. The default is
    /// [`Threads::Lanes`] for large fixtures and [`Threads::Blocks`] for small ones. Where the
    /// processor has no vectors for lanes, blocks are used. No bit depends on it.
    pub fn with_threads(self, threads: Threads) -> Toolchain {
        Toolchain { threads: Some(threads), ..self }
    }

    /// The compiler in use.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Whether a compilation was given up in this process. A judgement without it may come out
    /// otherwise on a faster machine.
    pub(crate) fn has_given_up(&self) -> bool {
        self.once.has_given_up()
    }

    /// How often the front end has translated a source set.
    pub fn translations(&self) -> usize {
        self.recent_translations.made()
    }

    /// Compiles `sources` with the first fitting call of `harness`.
    ///
    /// # Errors
    /// [`CompileError`]; a refusal tells whether the sources or the calls are to blame.
    pub fn compile(
        &self,
        harness: &Harness,
        signature: &Signature,
        sources: &SourceSet,
        precision: Precision,
    ) -> Result<Artifact, CompileError> {
        self.compile_while(harness, signature, sources, precision, &|| ())
    }

    /// The same; calls `meanwhile` while the compiler runs, if it has to.
    ///
    /// # Errors
    /// As [`Toolchain::compile`].
    pub fn compile_while(
        &self,
        harness: &Harness,
        signature: &Signature,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Artifact, CompileError> {
        let by_default = threads_of(precision, signature.large);
        let threads = match precision {
            Precision::Checked => by_default,
            Precision::Native | Precision::Shadow => self.threads.unwrap_or(by_default),
        };
        let compile_as = |scope: CodeScope, threads: Threads| {
            self.compile_as(harness, signature, sources, (scope, threads), precision, meanwhile)
        };
        let compiled = compile_as(CodeScope::Reached, threads);
        let compiled = match compiled {
            // It may not stand in a loop over the threads.
            Err(looped) if looped.is_in_loop && precision == Precision::Native => {
                compile_as(CodeScope::Reached, Threads::Stacks).map_err(|_| looped)
            }
            compiled => compiled,
        };
        let compiled = match compiled {
            // Something in a form that nobody foresaw may need what was left out.
            Err(reached) if reached.leaves_out && reached.error.refused_log().is_some() => {
                let whole = compile_as(CodeScope::Whole, threads);
                whole.map_err(|whole| reached.error.unless_blamed_on(whole.error))
            }
            compiled => compiled.map_err(|refusal| refusal.error),
        };
        compiled.map_err(|error| error.with_finding(harness, sources))
    }

    /// Compiles the code of `sources` in a scope, its threads run in a way, with the first fitting call of `harness`.
    fn compile_as(
        &self,
        harness: &Harness,
        signature: &Signature,
        sources: &SourceSet,
        (scope, threads): (CodeScope, Threads),
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Artifact, ScopeError> {
        let mut refused = Vec::new();
        loop {
            let translated = self
                .recent_translations
                .translate(TranslationRequest {
                    sources,
                    harness,
                    scope,
                    precision,
                    threads,
                    refused: &refused,
                })
                .map_err(|error| ScopeError { error, leaves_out: false, is_in_loop: false })?;
            let compiled = self.compile_call(harness, signature, &translated, precision, meanwhile);
            let more = match &compiled {
                Err(CompileError::Refused { what: RefusedCode::Sources, log, .. })
                    if precision == Precision::Shadow && refused.len() < MOST_REFUSED_LINES =>
                {
                    refused_lines::find_refused_lines(log).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            let known = refused.len();
            refused.extend(
                more.into_iter().filter(|line| !refused.contains(line)).collect::<Vec<_>>(),
            );
            if refused.len() == known || !can_trap(sources, harness, &refused) {
                return compiled.map_err(|error| ScopeError {
                    leaves_out: translated.left_out.is_some(),
                    is_in_loop: error.refused_log().is_some_and(|log| translated.has_in_loops(log)),
                    error,
                });
            }
        }
    }

    /// Compiles `translated` with the first fitting call of `harness`.
    fn compile_call(
        &self,
        harness: &Harness,
        signature: &Signature,
        translated: &Translation,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Artifact, CompileError> {
        let mut refusal = None;
        for call in 0..harness.calls.len() {
            let entry = EntryPoint::new(harness, signature, translated, call, precision)?;
            let kind = UnitKind {
                standard: harness.standard,
                precision,
                is_large: signature.large,
                has_tensors: translated.changed_tensors.is_some(),
            };
            let flags = compiler_options(&self.compiler, harness, translated, kind);
            match self.compile_entry(translated, &entry, &flags, kind, meanwhile) {
                Ok((path, key, fresh)) => {
                    let statements = join_harness_statements(harness, call);
                    let (shadow_obstacles, may_end) = translated.shadow_obstacles(&statements);
                    let kept = File::open(&path).ok().map(Arc::new);
                    return Ok(Artifact {
                        path,
                        key,
                        call,
                        shadow_obstacles,
                        may_end,
                        fresh,
                        kept,
                    });
                }
                // Another call cannot mend an error outside of this one.
                Err(error) if !error.blames_call() => return Err(error),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.expect("a harness has at least one call"))
    }

    /// Compiles the sources of `translated`, each by itself, with `entry`.
    fn compile_entry(
        &self,
        translated: &Translation,
        entry: &EntryPoint,
        flags: &[String],
        kind: UnitKind,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Compiled, CompileError> {
        let compile = |parts: &[EntryPart]| {
            if let Some(divided) = translated.find_divided_part(parts) {
                return Err(CompileError::DividedHeader(divided));
            }
            self.compile_units(&translated.separate_units(parts), flags, kind, meanwhile).map_err(
                |error| {
                    let texts = parts.iter().map(|part| part.text.as_str());
                    error.placed(entry.harness, entry.call_number, texts)
                },
            )
        };
        let parts = call_parts::divide_call(translated, entry)?;
        compile(&parts).or_else(|error| {
            let is_whole = parts.len() == 1 && parts[0].sources.len() == translated.source_count();
            // The call may need more of the sources than its names tell.
            if is_whole || !error.blames_call() && !error.blames_linkage() {
                return Err(error);
            }
            match compile(&[EntryPart::whole(translated, entry)?]) {
                Err(joined) if !joined.blames_call() => Err(error),
                joined => joined,
            }
        })
    }

    /// Compiles and links `units`.
    fn compile_units(
        &self,
        units: &[TranslationUnit],
        flags: &[String],
        kind: UnitKind,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Compiled, CompileError> {
        let first = self.artifact_key(units, flags, kind.precision);
        if let Some(known_result) = self.recall_compilation(&first) {
            return known_result;
        }
        std::thread::scope(|scope| {
            // It only saves time: where the system has no thread for it, it is not done.
            let _ = std::thread::Builder::new().spawn_scoped(scope, meanwhile);
            // Another thread may have compiled it meanwhile.
            self.once.by_one(&first, || match self.recall_compilation(&first) {
                Some(compilation) => compilation,
                None => self.compile_anew(units, flags, kind, &first),
            })
        })
    }

    /// The result of an earlier compilation, if there was one.
    fn recall_compilation(&self, first: &str) -> Option<Result<Compiled, CompileError>> {
        let key = match self.once.recall_entry(first) {
            Some(MemoEntry::Key(key)) => key,
            Some(MemoEntry::Excess(excess)) => {
                let command = self.compiler.name();
                return Some(Err(CompilerError::Excess { command, excess }.into()));
            }
            None => {
                let key = self.outside.recall(&self.cache, first)?;
                self.once.learn(first, MemoEntry::Key(key.clone()));
                key
            }
        };
        if let Some(path) = self.cache.find(CacheKind::Artifact, &key) {
            return Some(Ok((path, key, false)));
        }
        let log = self.cache.read(CacheKind::Refusal, &key)?;
        Some(Err(self.refused(&key, String::from_utf8_lossy(&log).into_owned())))
    }

    fn compile_anew(
        &self,
        units: &[TranslationUnit],
        flags: &[String],
        kind: UnitKind,
        first: &str,
    ) -> Result<Compiled, CompileError> {
        let start_time = SystemTime::now();
        let scratch = self.cache.scratch()?;
        let folder = scratch.path();
        let compiled = match units {
            [unit] => self.compile_unit(folder, unit, flags, kind).map(|object| vec![object]),
            units => self.compile_objects(units, flags, kind),
        };
        let linked = compiled.and_then(|objects| {
            let mut tools = self.tools()?.to_vec();
            let read = join_read_files(&objects);
            let mut refusals: Vec<String> =
                objects.iter().filter_map(|object| object.refusal.clone()).collect();
            // Errors of the sources count before those of a call.
            refusals.sort_by_key(|log| first_error(log).starts_with(entry_point::CALL));
            if refusals.is_empty() {
                let last = self.link_objects(folder, &objects, kind.precision)?;
                tools.extend(tools::parse_linked_files(&last.stdout));
                if !last.success() {
                    refusals.push(String::from_utf8_lossy(&last.stderr).into_owned());
                }
            }
            Ok(Linked { refusals, read, tools })
        });
        if let Err(CompileError::Compiler(CompilerError::Excess { excess, .. })) = &linked {
            self.once.learn(first, MemoEntry::Excess(*excess));
        }
        let Linked { refusals, read, tools } = linked?;
        let key = self.second_key(first, start_time, read.as_deref(), &tools)?;
        self.once.learn(first, MemoEntry::Key(key.clone()));
        if !refusals.is_empty() {
            let log = refusals.join("\n");
            self.cache.write(CacheKind::Refusal, &key, log.as_bytes())?;
            return Err(self.refused(&key, log));
        }
        let artifact = folder.join("artifact.so");
        let bytes = std::fs::read(&artifact).map_err(scratch_failed(&artifact))?;
        let path = self.cache.write(CacheKind::Artifact, &key, &bytes)?;
        Ok((path, key, true))
    }

    /// The second key of a compilation; one for this run alone if the list of files is incomplete: the dependencies are
    /// unknown then.
    fn second_key(
        &self,
        first: &str,
        start_time: SystemTime,
        read: Option<&[PathBuf]>,
        tools: &[PathBuf],
    ) -> Result<String, CompileError> {
        let key = match read {
            Some(read) => self.outside.remember(&self.cache, first, start_time, read, tools)?,
            None => None,
        };
        Ok(key.unwrap_or_else(|| for_this_run(first)))
    }

    /// Runs the compiler in `folder`; `headers` in it come before the folders of the sources.
    fn run(
        &self,
        folder: &Path,
        headers: &[&str],
        arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    ) -> Result<Finished, CompilerError> {
        let header_options = headers.iter().map(|name| format!("-I{name}").into());
        let all_arguments =
            header_options.chain(arguments.into_iter().map(|word| word.as_ref().to_owned()));
        let own_headers = self.once.work_folder_of_headers();
        let temporary = own_headers.into_iter().chain([folder.to_owned()]).collect();
        let all_arguments = all_arguments.collect::<Vec<std::ffi::OsString>>();
        // Headers and precompiled ones lie in the cache, where the folder of precompiled ones may be a link.
        let root = self.cache.root();
        let own_folders = [root.to_owned(), root.join(CacheKind::Precompiled.name())];
        self.compiler.run(Some(folder), temporary, &own_folders, all_arguments)
    }

    fn refused(&self, key: &str, log: String) -> CompileError {
        let log = restore_source_names(&log).into_owned();
        let first_error = first_error(&log);
        let of_call = first_error.starts_with(entry_point::CALL);
        CompileError::Refused {
            what: if of_call { RefusedCode::Call } else { RefusedCode::Sources },
            about: About::from_message(&first_error),
            finding: None,
            first_error,
            log,
            log_path: self.cache.path(CacheKind::Refusal, key),
            place: None,
        }
    }

    /// The key of everything known of an artifact before the compiler has run.
    fn artifact_key(
        &self,
        units: &[TranslationUnit],
        flags: &[String],
        precision: Precision,
    ) -> String {
        let mut hasher = KeyHasher::new("artifact");
        hasher.part(self.once.definitions_hash(precision).as_bytes());
        hasher.list(LINK);
        hasher.list(units.iter().map(|unit| self.object_key(unit, flags)));
        hasher.finish()
    }
}

/// Why the code in a scope has no artifact.
struct ScopeError {
    error: CompileError,
    /// Whether code was left out.
    leaves_out: bool,
    /// Whether a line that the compiler refuses lies in a loop over the threads of a block.
    is_in_loop: bool,
}

/// The result of compiling and linking.
struct Linked {
    /// The logs of the compiler or of the linker, if one refuses its work.
    refusals: Vec<String>,
    /// The files read from outside; none if the compiler does not list them.
    read: Option<Vec<PathBuf>>,
    /// The programs and libraries behind the result.
    tools: Vec<PathBuf>,
}

/// A key for this run alone.
fn for_this_run(first: &str) -> String {
    let mut hasher = KeyHasher::new("not repeatable");
    hasher.part(first);
    hasher.part(std::process::id().to_le_bytes());
    hasher.part(format!("{:?}", SystemTime::now()));
    hasher.finish()
}

/// The folder with this program's headers, beside the sources.
const HEADERS: &str = "headers";

/// The object file in every artifact, compiled with this program.
fn definitions_object(precision: Precision) -> &'static [u8] {
    match precision {
        Precision::Native => definitions::NATIVE,
        Precision::Shadow => definitions::SHADOW,
        Precision::Checked => definitions::CHECKED,
    }
}

/// How threads are run where nothing else was said; `large` says whether the tensors are worth more of the compiler's
/// time.
fn threads_of(precision: Precision, large: bool) -> Threads {
    match precision {
        // Each thread is told apart by its stack.
        Precision::Checked => Threads::Stacks,
        Precision::Native | Precision::Shadow if large => Threads::Lanes,
        Precision::Native | Precision::Shadow => Threads::Blocks,
    }
}

/// The statements of the harness with call number `call`.
fn join_harness_statements(harness: &Harness, call: usize) -> String {
    let setup = harness.setup.iter().map(|setup| setup.text.as_str());
    let all_statements: Vec<&str> = setup.chain([harness.calls[call].text.as_str()]).collect();
    all_statements.join("\n")
}

fn scratch_failed(path: &Path) -> impl FnOnce(io::Error) -> CompilerError {
    move |source| CompilerError::Scratch { path: path.to_owned(), source }
}
