//! The system's C++ compiler: finds it, asks its version, and runs it within bounds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::KeyHasher;
use super::{environment, outside_files, tools, walls};
use replay_base::cache::{Cache, CacheKind};
use replay_base::foreign::{
    self, Finished, ForeignProgram, Keeper, KeeperError, ProgramBounds, ProgramEnd,
};
use replay_base::process::{self, tree::End, walls::Sandbox};

/// Advice where `CXX` may be wrong.
const NAME_A_COMPILER: &str = "CXX must name g++ or clang++, or a command that behaves like one";

/// Why the compiler cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// None of the usual compilers is installed.
    #[error("no C++ compiler: neither g++ nor clang++ is in PATH")]
    Missing,
    /// `CXX` cannot be cut into words.
    #[error("`{command}` is no command: a quote is not closed")]
    Quote {
        /// The value of `CXX`.
        command: String,
    },
    /// The compiler in `CXX` does not run.
    #[error("cannot run the C++ compiler `{command}`")]
    Run {
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The process to keep it within its bounds does not run.
    #[error("cannot start a process for the C++ compiler")]
    Keeper {
        /// The system's reason.
        source: io::Error,
    },
    /// `CXX` names something else.
    #[error("`{command} {question}` failed: {message}")]
    NotACompiler {
        command: String,
        /// The option of the question.
        question: String,
        message: String,
    },
    /// It does not compile code of every artifact.
    #[error("the C++ compiler `{command}` is not suitable: {first_error}")]
    Unsuitable { command: String, first_error: String },
    /// It failed because of the machine, not because of the code.
    #[error("the C++ compiler `{command}` cannot work here: {message}")]
    Exhausted {
        command: String,
        /// Its message, or how it ended.
        message: String,
    },
    /// Its work took more than the bounds allow.
    #[error("the C++ compiler `{command}` {excess}")]
    Excess { command: String, excess: Excess },
    /// The folder for its work cannot be used.
    #[error("cannot use {path} for compiling")]
    Scratch {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A bound of a compiler's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Wall time.
    Time(Duration),
    /// Bytes of memory.
    Memory(u64),
    /// Bytes of a file.
    File(u64),
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Excess::Time(limit) => write!(f, "was still at work after {} s", limit.as_secs_f64()),
            Excess::Memory(limit) => write!(f, "needs more memory than {} MiB", limit >> 20),
            Excess::File(limit) => write!(f, "writes a file of more than {} MiB", limit >> 20),
        }
    }
}

impl CompilerError {
    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            CompilerError::Missing => {
                "install one: `apt install g++`, `dnf install gcc-c++` or `conda install gxx`; or set CXX"
            }
            CompilerError::Unsuitable { .. } => {
                "g++ 9 or later and clang++ 11 or later are known to work"
            }
            CompilerError::Run { source, .. } => {
                process::advise_on_limit(source).unwrap_or(NAME_A_COMPILER)
            }
            CompilerError::Quote { .. } | CompilerError::NotACompiler { .. } => NAME_A_COMPILER,
            CompilerError::Exhausted { .. } => {
                "free disk space (the cache) or memory, lift limits (`ulimit -a`), and try again"
            }
            CompilerError::Excess { excess: Excess::Time(_), .. } => {
                "it may take five times as long as a replay: raise --timeout if this machine is slow"
            }
            CompilerError::Excess { .. } => {
                "look for templates without an end, and for includes of devices; nothing of this is \
                 remembered"
            }
            CompilerError::Keeper { .. } => {
                "too many processes, or too little memory for another: see `ulimit -a`"
            }
            CompilerError::Scratch { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => {
                    "there is no room: free disk space, or set REPLAY_CACHE_DIR to a folder with more"
                }
                _ => "set REPLAY_CACHE_DIR to a folder on a local disk that can be written",
            },
        };
        Some(advice.to_owned())
    }
}

/// A C++ compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    words: Vec<String>,
    version: String,
    keeper: Keeper,
    bounds: ProgramBounds,
}

/// The time limit for a compiler to tell its version.
const ANSWER: Duration = Duration::from_secs(20);
/// The most address space for each process of a compiler; less if the machine has little memory.
const MEMORY_BYTES: u64 = 8 << 30;
/// The size limit of a file written by a compiler.
const FILE_BYTES: u64 = 4 << 30;

impl Compiler {
    /// The default wall time of one run; see [`Compiler::with_timeout`].
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// The compiler `cxx` (the value of `CXX`), else g++ or clang++ in PATH; run by `keeper`.
    ///
    /// # Errors
    /// [`CompilerError`] if there is none, or it does not report its version.
    pub fn find(cxx: Option<&str>, keeper: &Keeper) -> Result<Compiler, CompilerError> {
        Compiler::find_known(cxx, keeper, None)
    }

    /// The same. It uses an answer in `cache` again while the compiler has not changed.
    ///
    /// # Errors
    /// As [`Compiler::find`].
    pub fn find_known(
        cxx: Option<&str>,
        keeper: &Keeper,
        cache: Option<&Cache>,
    ) -> Result<Compiler, CompilerError> {
        if let Some(cxx) = cxx.filter(|cxx| !cxx.trim().is_empty()) {
            let Some(words) = shlex::split(cxx) else {
                return Err(CompilerError::Quote { command: cxx.to_owned() });
            };
            return Compiler::from_command(words, keeper, cache);
        }
        for name in ["g++", "clang++"] {
            match Compiler::from_command(vec![name.to_owned()], keeper, cache) {
                Err(CompilerError::Run { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                asked_compiler => return asked_compiler,
            }
        }
        Err(CompilerError::Missing)
    }

    fn from_command(
        mut words: Vec<String>,
        keeper: &Keeper,
        cache: Option<&Cache>,
    ) -> Result<Compiler, CompilerError> {
        // It is run in folders of its own, where a relative path leads nowhere.
        if let Some(first) = words.first_mut().filter(|word| word.contains('/'))
            && let Some(path) = std::path::absolute(&*first)
                .ok()
                .and_then(|path| path.into_os_string().into_string().ok())
        {
            *first = path;
        }
        let memory = foreign::machine_memory_bytes() / 4 * 3;
        let bounds = ProgramBounds {
            timeout: ANSWER,
            address_space_bytes: memory.min(MEMORY_BYTES),
            tree_memory_bytes: u64::MAX,
            file_bytes: FILE_BYTES,
        };
        let compiler = Compiler { words, version: String::new(), keeper: keeper.clone(), bounds };
        let answer = compiler.answer("--version", cache)?;
        let version = answer.lines().next().unwrap_or_default().trim().to_owned();
        Ok(Compiler { version, ..compiler }.with_timeout(Compiler::TIMEOUT))
    }

    /// Its answer to the option `question`.
    pub(super) fn answer(
        &self,
        question: &str,
        cache: Option<&Cache>,
    ) -> Result<String, CompilerError> {
        let place = cache.zip(self.answer_key(question));
        if let Some((cache, key)) = &place
            && let Some(cached_bytes) = cache.read(CacheKind::Fact, key)
            && let Ok(cached_answer) = String::from_utf8(cached_bytes)
        {
            return Ok(cached_answer);
        }
        let finished_run = self.run(None, Vec::new(), &[], [question])?;
        let compiler_answer = String::from_utf8_lossy(&finished_run.stdout).trim().to_owned();
        if !finished_run.success() || compiler_answer.is_empty() {
            let complaint = String::from_utf8_lossy(&finished_run.stderr).trim().to_owned();
            let message =
                if complaint.is_empty() { "it says nothing".to_owned() } else { complaint };
            return Err(CompilerError::NotACompiler {
                command: self.name(),
                question: question.to_owned(),
                message,
            });
        }
        if let Some((cache, key)) = &place {
            // It only saves the question the next time.
            let _ = cache.write(CacheKind::Fact, key, compiler_answer.as_bytes());
        }
        Ok(compiler_answer)
    }

    /// The key of such an answer. None if the started program delegates to another one: the state
    /// of its file would then not show whether the compiler changed.
    fn answer_key(&self, question: &str) -> Option<String> {
        let path = tools::in_path(&self.words[0])?.canonicalize().ok()?;
        let name = path.file_name()?.to_str()?;
        let is_known_name =
            ["g++", "gcc", "clang"].iter().any(|compiler_name| name.contains(compiler_name));
        let mut start = [0; 4];
        let is_program = std::fs::File::open(&path)
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start))
            .is_ok_and(|()| start == *b"\x7fELF");
        if !is_known_name || !is_program {
            return None;
        }
        let mut hasher = KeyHasher::new("compiler's answer");
        hasher.part(question);
        hasher.part(path.as_os_str().as_encoded_bytes());
        hasher.part(outside_files::outside_file_state(&path)?);
        hasher.list(&self.words);
        Some(hasher.finish())
    }

    /// The same with another bound of wall time for each run.
    pub fn with_timeout(mut self, timeout: Duration) -> Compiler {
        self.bounds.timeout = timeout;
        self
    }

    /// The first line of its answer to `--version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it is clang++, which has other options than g++.
    pub(super) fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }

    /// The command, as the user would type it.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Its part of keys, besides the states of its files.
    pub(crate) fn identity(&self) -> String {
        // Without walls it may read more, and refuse less.
        let walls = match self.keeper.sandbox() {
            Sandbox::AsOffered => "",
            Sandbox::Off => "\nwithout walls",
        };
        format!("{:?}\n{}\n{}{walls}", self.words, self.version, std::env::consts::ARCH)
    }

    /// The command's words.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    /// Runs it with `arguments` in `folder`, which also holds its temporary files, and lets it read `readable_folders`
    /// besides. The folders `temporary` go with this process.
    pub(super) fn run(
        &self,
        folder: Option<&Path>,
        temporary: Vec<PathBuf>,
        readable_folders: &[PathBuf],
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Finished, CompilerError> {
        let compiler_words = self.words.iter().map(OsString::from);
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_owned());
        let words: Vec<OsString> = compiler_words.chain(arguments).collect();
        let environment = environment::compiler_environment(std::env::vars_os(), folder);
        let mut walls = walls::compiler_walls(&words, self.words.len(), &environment);
        walls.readable.extend_from_slice(readable_folders);
        walls.writable.extend(folder.map(Path::to_owned));
        let program = ForeignProgram {
            words,
            environment,
            folder: folder.map(Path::to_owned),
            temporary_folders: temporary,
            walls: Some(walls),
            root: None,
            is_trusted: false,
        };
        let finished = self.keeper.run(&program, &self.bounds).map_err(|error| match error {
            KeeperError::Keeper(source) => CompilerError::Keeper { source },
            KeeperError::Program(source) => CompilerError::Run { command: self.name(), source },
            // A compiler has the root of this process.
            KeeperError::Root(reason) => CompilerError::Keeper { source: io::Error::other(reason) },
        })?;
        match diagnose_compiler_trouble(
            &finished,
            &self.bounds,
            (process::memory_limit(), process::file_limit()),
        ) {
            None => Ok(finished),
            Some(Trouble::Excess(excess)) => {
                Err(CompilerError::Excess { command: self.name(), excess })
            }
            Some(Trouble::Machine(message)) => {
                Err(CompilerError::Exhausted { command: self.name(), message })
            }
        }
    }
}

/// A reason for failure other than errors in the code.
#[derive(Debug, PartialEq)]
enum Trouble {
    /// The code wants more than a compilation may have.
    Excess(Excess),
    /// The machine is at fault, in these words.
    Machine(String),
}

/// Messages of compilers without enough memory.
const MEMORY_SIGNS: [&str; 5] = [
    "out of memory",
    "Cannot allocate memory",
    "virtual memory exhausted",
    "memory exhausted",
    "std::bad_alloc",
];

/// Messages of compilers whose file grows too large.
const FILE_SIGNS: [&str; 2] = ["File too large", "File size limit exceeded"];

/// Messages of compilers about trouble with the machine.
const MACHINE_SIGNS: [&str; 12] = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Input/output error",
    "Resource temporarily unavailable",
    "Too many open files",
    "cannot execute",
    "error trying to exec",
    "Killed signal",
    "Terminated signal",
    "Hangup signal",
    "Interrupt signal",
];

/// The first line of a compiler's `log` with one of `signs`, unless it is about the code.
fn find_trouble_line(log: &str, signs: &[&str]) -> Option<String> {
    let mut lines = log.lines().filter(|line| !is_about_code(line));
    let line = lines.find(|line| signs.iter().any(|sign| line.contains(sign)))?;
    Some(line.trim().to_owned())
}

/// The trouble, if any, behind the end `finished` of a compiler within `bounds`. `machine_limits` are the limits of
/// this process: bytes of address space and of a file.
fn diagnose_compiler_trouble(
    finished: &Finished,
    bounds: &ProgramBounds,
    machine_limits: (u64, u64),
) -> Option<Trouble> {
    match finished.ending {
        ProgramEnd::Ended(End::Exited(0)) => return None,
        ProgramEnd::TimedOut => return Some(Trouble::Excess(Excess::Time(bounds.timeout))),
        ProgramEnd::Ended(_) | ProgramEnd::TookMemory(_) => {}
    }
    let log = String::from_utf8_lossy(&finished.stderr);
    if let Some(line) = find_trouble_line(&log, &MEMORY_SIGNS) {
        return Some(if bounds.address_space_bytes <= machine_limits.0 {
            Trouble::Excess(Excess::Memory(bounds.address_space_bytes))
        } else {
            Trouble::Machine(line)
        });
    }
    if let Some(line) = find_trouble_line(&log, &FILE_SIGNS) {
        return Some(if bounds.file_bytes <= machine_limits.1 {
            Trouble::Excess(Excess::File(bounds.file_bytes))
        } else {
            Trouble::Machine(line)
        });
    }
    find_trouble_line(&log, &MACHINE_SIGNS).map(Trouble::Machine).or(match finished.ending {
        ProgramEnd::Ended(End::Killed(signal)) => {
            Some(Trouble::Machine(format!("ended by signal {signal}")))
        }
        _ => None,
    })
}

/// Whether `line` of a log is about code, or quotes it, and so may contain any words.
fn is_about_code(line: &str) -> bool {
    let mut parts = line.splitn(3, ':');
    let place = parts.nth(1).is_some_and(|number| number.parse::<u32>().is_ok());
    // A failure to write the output is reported with a position in the code.
    let writing = line.contains(" fatal error: error writing to ");
    line.starts_with(' ') || line.contains("undefined reference") || (place && !writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: ProgramBounds = ProgramBounds {
        timeout: Duration::from_secs(5),
        address_space_bytes: 1 << 30,
        tree_memory_bytes: u64::MAX,
        file_bytes: 1 << 20,
    };
    const UNBOUNDED: (u64, u64) = (u64::MAX, u64::MAX);

    #[test]
    fn a_compiler_that_a_limit_keeps_from_starting_is_not_taken_for_another_command() {
        let advise = |number| {
            let source = io::Error::from_raw_os_error(number);
            CompilerError::Run { command: "g++".to_owned(), source }.hint().unwrap()
        };
        let files = "raise the number of files that a process may have open (ulimit -n)";
        assert_eq!(advise(libc::EMFILE), files);
        assert_eq!([libc::ENOENT, libc::EACCES].map(advise), [NAME_A_COMPILER; 2]);
    }

    fn failed(stderr: &str, own: (u64, u64)) -> Option<Trouble> {
        let finished = Finished {
            ending: ProgramEnd::Ended(End::Exited(1)),
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
            left_out: [0; 2],
            refused_calls: Vec::new(),
        };
        diagnose_compiler_trouble(&finished, &BOUNDS, own)
    }

    #[test]
    fn a_full_disk_is_not_the_fault_of_the_code() {
        let full = "cc1plus: fatal error: error writing to t.s: No space left on device\n";
        assert_eq!(failed(full, UNBOUNDED), Some(Trouble::Machine(full.trim().to_owned())));
        let killed = Finished {
            ending: ProgramEnd::Ended(End::Killed(9)),
            stdout: Vec::new(),
            stderr: Vec::new(),
            left_out: [0; 2],
            refused_calls: Vec::new(),
        };
        let told = diagnose_compiler_trouble(&killed, &BOUNDS, UNBOUNDED);
        assert_eq!(told, Some(Trouble::Machine("ended by signal 9".to_owned())));
    }

    #[test]
    fn errors_of_the_code_are_no_trouble_even_where_they_quote_it() {
        let logs = [
            "k.cu:1:9: error: 'y' was not declared\n    1 | // No space left on device\n",
            "k.cu:1:2: error: #error out of memory\n",
            "k.cu:1:10: fatal error: Killed signal: No such file or directory\n",
            "unit.s:7: Error: File too large\n",
            "unit.o:(.text+0x5): undefined reference to `cannot execute'\n",
        ];
        for log in logs {
            assert_eq!(failed(log, UNBOUNDED), None, "{log}");
        }
        let full = "k.cu:9:1: fatal error: error writing to unit.s: No space left on device\n";
        assert_eq!(failed(full, UNBOUNDED), Some(Trouble::Machine(full.trim().to_owned())));
    }

    #[test]
    fn a_bound_of_a_compilation_is_the_fault_of_the_code_and_one_of_the_machine_is_not() {
        let log = "\ncc1plus: out of memory allocating 64 bytes after a total of 1 bytes\n";
        let excess = Trouble::Excess(Excess::Memory(1 << 30));
        assert_eq!(failed(log, UNBOUNDED), Some(excess));
        let machine = Trouble::Machine(log.trim().to_owned());
        assert_eq!(failed(log, (1 << 29, u64::MAX)), Some(machine));
        let large = "as: unit.o: File too large\n";
        assert_eq!(failed(large, UNBOUNDED), Some(Trouble::Excess(Excess::File(1 << 20))));
        let machine = Trouble::Machine(large.trim().to_owned());
        assert_eq!(failed(large, (u64::MAX, 1 << 10)), Some(machine));
    }

    #[test]
    fn each_bound_has_its_words() {
        let error = |excess| {
            let error = CompilerError::Excess { command: "g++".to_owned(), excess };
            format!("{error}\n{}", error.hint().unwrap_or_default())
        };
        insta::assert_snapshot!(error(Excess::Time(Duration::from_secs(300))), @"
        the C++ compiler `g++` was still at work after 300 s
        it may take five times as long as a replay: raise --timeout if this machine is slow
        ");
        insta::assert_snapshot!(error(Excess::Memory(8 << 30)), @"
        the C++ compiler `g++` needs more memory than 8192 MiB
        look for templates without an end, and for includes of devices; nothing of this is remembered
        ");
        insta::assert_snapshot!(error(Excess::File(4 << 30)), @"
        the C++ compiler `g++` writes a file of more than 4096 MiB
        look for templates without an end, and for includes of devices; nothing of this is remembered
        ");
    }

    #[test]
    fn a_command_with_an_open_quote_is_refused() {
        let error = Compiler::find(Some("g++ '-DX"), &Keeper::new(Path::new("/"))).unwrap_err();
        insta::assert_snapshot!(error, @"`g++ '-DX` is no command: a quote is not closed");
    }

    #[test]
    fn a_keeper_that_cannot_be_started_is_no_fault_of_the_compiler() {
        let keeper = Keeper::new(Path::new("/nonexistent"));
        let error = Compiler::find(Some("g++"), &keeper).unwrap_err();
        insta::assert_snapshot!(error, @"cannot start a process for the C++ compiler");
        insta::assert_snapshot!(error.hint().unwrap(), @"too many processes, or too little memory for another: see `ulimit -a`");
    }
}
