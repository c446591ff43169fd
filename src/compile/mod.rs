//! Turns a source set and a harness's call into an artifact that can be loaded.
//!
//! Artifacts are found by content: equal sources, headers, compiler and flags are compiled once,
//! whichever commit they belong to. A compilation that failed is remembered with its log.

mod compiler;
mod flags;
mod lanes;
mod nvrtc;
mod once;
mod place;
mod unit;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use self::compiler::{Compiler, CompilerError};
pub use self::nvrtc::{DeviceModule, DeviceToolchain};
pub use self::place::Place;
pub use self::unit::Signature;

use self::flags::{FLAGS, PRELUDE, SHADOW};
use crate::cache::{Cache, CacheError, Kind};
use crate::frontend::{self, FrontendError, Precision, Threads, Unit};
use crate::harness::Harness;
use crate::history::{Role, SourceSet};
use crate::runtime::gpu::NvrtcError;
use crate::runtime::headers;

use self::once::Once;

/// A compiled variant.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The shared object.
    pub path: PathBuf,
    /// Identifies its content: sources, headers, compiler, flags and call.
    pub key: String,
    /// Which of the harness's calls fits, from 0.
    pub call: usize,
    /// Why `float` meaning `double` may not mean the same; empty unless it is a shadow.
    pub shadow_obstacles: Vec<String>,
    /// Whether this run compiled it.
    pub fresh: bool,
    /// The device code for a GPU; none where kernels run on the CPU.
    pub module: Option<DeviceModule>,
}

impl Artifact {
    /// The same for the CPU.
    pub fn without_module(&self) -> Artifact {
        Artifact { module: None, ..self.clone() }
    }
}

/// Why a revision has no artifact.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The front end refused a file.
    #[error("the sources cannot be translated")]
    Frontend(#[from] FrontendError),
    /// None of the sources is compiled by itself.
    #[error("nothing to compile: no source ends in {}: {}", UNITS.join(", "), .files.join(", "))]
    NoUnit {
        /// At most three of the sources.
        files: Vec<String>,
    },
    /// The compiler refused the sources, or every call of the harness.
    #[error("{what} not compile: {first_error}")]
    Refused {
        /// `the sources do`, `the call does` or `the device code does`.
        what: &'static str,
        /// The compiler's first error, with file and line.
        first_error: String,
        /// The whole log.
        log: String,
        /// Where the log is kept.
        log_path: PathBuf,
        /// The line of the harness that it is about, if it is about one.
        #[source]
        place: Option<Box<Place>>,
    },
    /// The compiler cannot be run.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// NVRTC cannot be used.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl CompileError {
    /// Whether the revision is at fault, as opposed to the machine.
    pub fn is_revision_fault(&self) -> bool {
        matches!(
            self,
            CompileError::Frontend(_) | CompileError::Refused { .. } | CompileError::NoUnit { .. }
        )
    }

    /// With its place in the harness, if it is about call number `call`, compiled as part of `unit`.
    fn placed(mut self, harness: &Harness, call: usize, unit: &str) -> CompileError {
        if let CompileError::Refused { first_error, place, .. } = &mut self
            && let Some(statements) = unit::statements(unit, harness)
        {
            let (origin, file) = (unit::origin(harness), unit::file_name(harness));
            let call = &harness.calls[call];
            if let Some(found) = place::place(first_error, &origin, &file, call, statements) {
                (*first_error, *place) = (found.0, Some(found.1.into()));
            }
        }
        self
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CompileError::Frontend(error) => error.hint(),
            CompileError::NoUnit { .. } => Some(
                "name the .cu files in `sources` of the harness, and folders of headers in `include`"
                    .to_owned(),
            ),
            CompileError::Refused { log_path, first_error, .. } => {
                let log = format!("the whole log: {}", log_path.display());
                Some(if first_error.contains("instance of function template") {
                    "write all template arguments at the launch: here the host cannot deduce them for NVRTC"
                        .to_owned()
                } else if first_error.contains("No such file") || first_error.contains("not found")
                {
                    format!("name the folder of the header in `include` of the harness; {log}")
                } else {
                    log
                })
            }
            CompileError::Compiler(error) => error.hint(),
            CompileError::Nvrtc(error) => error.hint(),
            CompileError::Cache(error) => error.hint(),
        }
    }
}

/// What every compilation of a run shares.
pub struct Toolchain {
    compiler: Compiler,
    headers: PathBuf,
    headers_identity: String,
    cache: Cache,
    once: Once,
    /// How threads are run; if nothing was said, as the size of the fixture suggests.
    threads: Option<Threads>,
}

impl Toolchain {
    /// Makes the headers available in the cache.
    ///
    /// # Errors
    /// [`CacheError`] if they cannot be written.
    pub fn new(compiler: Compiler, cache: &Cache) -> Result<Toolchain, CacheError> {
        let identity = headers::identity().to_hex()[..32].to_owned();
        let headers = cache.folder(&format!("headers-{identity}"), headers::write)?;
        let (headers_identity, cache) = (identity, cache.clone());
        let once = Once::default();
        Ok(Toolchain { compiler, headers, headers_identity, cache, once, threads: None })
    }

    /// The same with the threads of a block run as `threads` says; otherwise as [`Threads::Lanes`]
    /// for large fixtures and as [`Threads::Blocks`] for small ones. Where the processor has no
    /// vectors for lanes, they are blocks. No bit depends on it.
    pub fn with_threads(self, threads: Threads) -> Toolchain {
        Toolchain { threads: Some(threads), ..self }
    }

    /// The compiler in use.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Compiles `sources` with the first call of `harness` that fits.
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

    /// The same; `meanwhile` is done while the compiler runs, if it has to.
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
        let by_size = if signature.large { Threads::Lanes } else { Threads::Blocks };
        let threads = self.threads.unwrap_or(by_size);
        let translated = translate(sources, &harness.defines, precision, threads)?;
        let mut refusal = None;
        for call in 0..harness.calls.len() {
            let unit = unit::text(harness, signature, &translated.symbols, call, precision)?;
            match self.compile_unit(harness, &translated, &unit, precision, meanwhile) {
                Ok((path, key, fresh)) => {
                    let shadow_obstacles = translated.shadow_obstacles;
                    return Ok(Artifact { path, key, call, shadow_obstacles, fresh, module: None });
                }
                // Another call cannot mend what is wrong outside of this one.
                Err(error) if !blames_call(&error) => return Err(error),
                Err(error) => refusal = Some(error.placed(harness, call, &unit)),
            }
        }
        Err(refusal.expect("a harness has at least one call"))
    }

    fn compile_unit(
        &self,
        harness: &Harness,
        translated: &Translation,
        unit: &str,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<(PathBuf, String, bool), CompileError> {
        let flags = flags(harness, translated, precision);
        let key = self.key(&flags, &translated.files, unit);
        if let Some(known) = self.known(&key) {
            return known;
        }
        std::thread::scope(|scope| {
            // It only saves time: where the system has no thread for it, it is not done.
            let _ = std::thread::Builder::new().spawn_scoped(scope, meanwhile);
            // Another thread may have compiled it meanwhile.
            let anew = || self.compile_anew(translated, unit, &flags, precision, &key);
            self.once.by_one(&key, || self.known(&key).unwrap_or_else(anew))
        })
    }

    /// What was compiled before, if it was, with its key and that it is not fresh.
    fn known(&self, key: &str) -> Option<Result<(PathBuf, String, bool), CompileError>> {
        if let Some(path) = self.cache.find(Kind::Artifact, key) {
            return Some(Ok((path, key.to_owned(), false)));
        }
        let log = self.cache.read(Kind::Refusal, key)?;
        Some(Err(self.refused(key, String::from_utf8_lossy(&log).into_owned())))
    }

    fn compile_anew(
        &self,
        translated: &Translation,
        unit: &str,
        flags: &[String],
        precision: Precision,
        key: &str,
    ) -> Result<(PathBuf, String, bool), CompileError> {
        let scratch = self.cache.scratch()?;
        let folder = scratch.path();
        lay_out(folder, translated, unit).map_err(scratch_failed(folder))?;
        let definitions = folder.join("definitions.o");
        std::fs::write(&definitions, self::definitions(precision))
            .map_err(scratch_failed(&definitions))?;
        let mut output = self.compile_object(folder, flags, precision)?;
        if output.status.success() {
            output = self.link(folder)?;
        } else {
            self.probe(folder, precision)?;
        }
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            self.cache.write(Kind::Refusal, key, log.as_bytes())?;
            return Err(self.refused(key, log));
        }
        let object = folder.join("artifact.so");
        let bytes = std::fs::read(&object).map_err(scratch_failed(&object))?;
        let path = self.cache.write(Kind::Artifact, key, &bytes)?;
        Ok((path, key.to_owned(), true))
    }

    /// Whether the compiler takes the headers alone: if not, no sources are to blame.
    fn probe(&self, folder: &Path, precision: Precision) -> Result<(), CompilerError> {
        let source = folder.join("probe.cpp");
        std::fs::write(&source, "").map_err(scratch_failed(&source))?;
        let flags =
            strings(FLAGS).into_iter().chain(strings(PRELUDE)).chain(shadow_flag(precision));
        let probe = strings(["-fsyntax-only", "probe.cpp"]);
        let output = self.run(folder, flags.chain(probe))?;
        if output.status.success() {
            return Ok(());
        }
        let first_error = first_error(&String::from_utf8_lossy(&output.stderr));
        Err(CompilerError::Unsuitable { command: self.compiler.name(), first_error })
    }

    fn run(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    ) -> Result<Output, CompilerError> {
        self.run_with(&[&self.headers], folder, arguments)
    }

    /// Runs the compiler in `folder`; `headers` come before the folders of the sources.
    fn run_with(
        &self,
        headers: &[&Path],
        folder: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    ) -> Result<Output, CompilerError> {
        let mut command = self.compiler.command();
        command.current_dir(folder);
        for headers in headers {
            command.arg("-I").arg(headers);
        }
        self.compiler.run(command.args(arguments))
    }

    fn refused(&self, key: &str, log: String) -> CompileError {
        let first_error = first_error(&log);
        let what =
            if first_error.starts_with(unit::CALL) { "the call does" } else { "the sources do" };
        CompileError::Refused {
            what,
            first_error,
            log,
            log_path: self.cache.path(Kind::Refusal, key),
            place: None,
        }
    }

    fn key(&self, flags: &[String], files: &[(String, Vec<u8>)], unit: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut feed = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        feed(self.headers_identity.as_bytes());
        feed(self.compiler.identity().as_bytes());
        flags.iter().for_each(|flag| feed(flag.as_bytes()));
        feed(unit.as_bytes());
        for (path, text) in files {
            feed(path.as_bytes());
            feed(text);
        }
        hasher.finalize().to_hex()[..40].to_owned()
    }
}

/// A source set as host C++.
struct Translation {
    files: Vec<(String, Vec<u8>)>,
    sources: Vec<String>,
    symbols: frontend::Symbols,
    shadow_obstacles: Vec<String>,
    /// The options for loops that run for several threads at once, if there are any.
    lanes: Vec<String>,
}

/// File names that the front end reads; others are laid out as they are.
fn is_code(path: &str) -> bool {
    let code = ["cu", "cuh", "h", "hh", "hpp", "hxx", "inl", "inc", "c", "cc", "cpp", "cxx"];
    Path::new(path).extension().and_then(|ext| ext.to_str()).is_some_and(|ext| code.contains(&ext))
}

/// The endings of files that are compiled by themselves.
const UNITS: [&str; 5] = [".cu", ".c", ".cc", ".cpp", ".cxx"];

fn is_unit(path: &str) -> bool {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| UNITS.iter().any(|unit| unit[1..] == *ending))
}

fn translate(
    sources: &SourceSet,
    defines: &[String],
    precision: Precision,
    threads: Threads,
) -> Result<Translation, CompileError> {
    let texts: Vec<(&str, String)> = sources
        .files
        .iter()
        .filter(|file| is_code(&file.path))
        .map(|file| (file.path.as_str(), String::from_utf8_lossy(&file.content).into_owned()))
        .collect();
    let units: Vec<Unit> = texts.iter().map(|(path, text)| Unit { path, text }).collect();
    let macros = as_directives(defines);
    let command_line = Unit { path: "defines", text: &macros };
    let symbols = frontend::scan(&[&units[..], &[command_line]].concat());
    let lanes = lanes::flags().filter(|_| threads == Threads::Lanes);
    let threads = match threads {
        Threads::Lanes if lanes.is_none() => Threads::Blocks,
        threads => threads,
    };
    let mut strided = false;
    let mut shadow_obstacles = Vec::new();
    let mut files = Vec::new();
    for unit in &units {
        let translated = frontend::host(unit, &symbols, precision, threads)?;
        strided |= translated.block_forms.iter().any(|form| form.loops > 0);
        let obstacles = translated.shadow_obstacles.iter();
        shadow_obstacles
            .extend(obstacles.map(|found| format!("{}:{}: {}", unit.path, found.line, found.what)));
        files.push((unit.path.to_owned(), translated.text.into_bytes()));
    }
    let others = sources.files.iter().filter(|file| !is_code(&file.path));
    files.extend(others.map(|file| (file.path.clone(), file.content.to_vec())));
    let named = || sources.files.iter().filter(|file| file.role == Role::Source);
    let sources: Vec<String> =
        named().filter(|file| is_unit(&file.path)).map(|file| file.path.clone()).collect();
    if sources.is_empty() {
        let files = named().take(3).map(|file| file.path.clone()).collect();
        return Err(CompileError::NoUnit { files });
    }
    let lanes = lanes.filter(|_| strided).unwrap_or_default();
    Ok(Translation { files, sources, symbols, shadow_obstacles, lanes })
}

/// The macros of a command line, `NAME` or `NAME=VALUE`, as a source defines them.
fn as_directives(defines: &[String]) -> String {
    let directive = |define: &String| match define.split_once('=') {
        Some((name, value)) => format!("#define {name} {value}\n"),
        None => format!("#define {define} 1\n"),
    };
    defines.iter().map(directive).collect()
}

/// Calls of mathematical functions stay inside of the artifact, and none may be missing.
const LINK: [&str; 3] = ["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs"];

/// What every artifact holds once, compiled with this program.
fn definitions(precision: Precision) -> &'static [u8] {
    match precision {
        Precision::Native => include_bytes!(env!("REPLAY_DEFINITIONS_NATIVE")),
        Precision::Shadow => include_bytes!(env!("REPLAY_DEFINITIONS_SHADOW")),
    }
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn shadow_flag(precision: Precision) -> Option<String> {
    (precision == Precision::Shadow).then(|| SHADOW.to_owned())
}

fn flags(harness: &Harness, translated: &Translation, precision: Precision) -> Vec<String> {
    let mut flags = [strings(FLAGS), strings(PRELUDE)].concat();
    flags.extend(shadow_flag(precision));
    flags.extend(translated.lanes.clone());
    flags.extend(harness.defines.iter().map(|define| format!("-D{define}")));
    let folders: BTreeSet<String> = harness
        .include
        .iter()
        .map(|include| {
            let is_file = translated.files.iter().any(|(path, _)| path == include);
            let folder = if is_file { parent(include) } else { include.as_str() };
            format!("-Itree/{folder}")
        })
        .collect();
    flags.extend(folders);
    flags
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

fn lay_out(folder: &Path, translated: &Translation, unit: &str) -> io::Result<()> {
    for (path, text) in &translated.files {
        let path = folder.join("tree").join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        std::fs::write(path, text)?;
    }
    let includes: String =
        translated.sources.iter().map(|path| format!("#include \"tree/{path}\"\n")).collect();
    std::fs::write(folder.join("unit.cpp"), format!("{includes}{unit}"))
}

/// The first line that reports an error, of the compiler or of the linker.
fn first_error(log: &str) -> String {
    let error = |line: &&str| line.contains("error: ") || line.contains("undefined reference");
    let line = log.lines().find(error).or_else(|| log.lines().next()).unwrap_or("no message");
    line.trim().trim_start_matches("tree/").to_owned()
}

fn scratch_failed(path: &Path) -> impl FnOnce(io::Error) -> CompilerError {
    move |source| CompilerError::Scratch { path: path.to_owned(), source }
}

fn blames_call(error: &CompileError) -> bool {
    matches!(error, CompileError::Refused { what: "the call does", .. })
}

/// Runs `command` to its end.
fn output(command: &mut Command) -> io::Result<Output> {
    command.stdin(std::process::Stdio::null()).output()
}
