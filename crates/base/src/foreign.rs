//! Runs foreign programs. None of their processes outlives its time limit or this process.
//!
//! A keeper starts the program. It is this program again, run as a child, and waits for the other one.
//! The keeper is the subreaper of all processes below, so it can end them: when the
//! program has ended, when its time is over, and when this process has ended for whatever reason.
//! Output of the program is kept up to a limit.

mod bounded_text;
mod keeper;
mod server;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::process::memory::MemoryExcess;
use crate::process::root::Root;
use crate::process::tracer::RefusedCall;
use crate::process::tree::{self, End};
use crate::process::walls::{Sandbox, Walls};
use crate::process::{self, Pid};

pub use self::bounded_text::{Bounded, omission_note};
pub use self::keeper::run_program_keeper;
pub use self::server::Served;

/// The first argument of this program as a keeper; not for users.
pub const KEEPER_ARGUMENT: &str = "--replay-keeper";

/// The beginning of the word before those that describe the walls; their number is its end.
const WALLS: &str = "walls ";
/// The word before it if the program is traced.
const TRACED: &str = "traced";
/// The word before that if the program is trusted.
const TRUSTED: &str = "trusted";
/// The beginning of the word before those that describe the root; their number is its end.
const ROOT: &str = "root ";

/// How long a keeper may take to end processes whose time is over.
const GRACE: Duration = Duration::from_secs(10);

/// How long a program may take, and how much it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramBounds {
    /// Wall time.
    pub timeout: Duration,
    /// Bytes of address space of each process.
    pub address_space_bytes: u64,
    /// Bytes of memory of all processes together, with shared pages counted once.
    pub tree_memory_bytes: u64,
    /// Bytes of each written file.
    pub file_bytes: u64,
}

/// A program to be run.
#[derive(Clone, Debug)]
pub struct ForeignProgram {
    /// Its name or path, and its arguments.
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory; by default this process's.
    pub folder: Option<PathBuf>,
    /// Folders that are removed if this process ends before the program does.
    pub temporary_folders: Vec<PathBuf>,
    /// What it may reach; all that the user may if there are none.
    pub walls: Option<Walls>,
    /// The root of its file system; that of this process if there is none.
    pub root: Option<Root>,
    /// Whether the user starts it by its name and trusts it: no system call is refused to it. Container runtimes mount.
    pub is_trusted: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    /// By itself, or by a signal.
    Ended(End),
    /// It was ended when its time was over.
    TimedOut,
    /// It was ended when its processes had more memory together than they may have.
    TookMemory(MemoryExcess),
}

/// The result of an ended program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: ProgramEnd,
    /// Its standard output; a note replaces the part beyond the limit.
    pub stdout: Vec<u8>,
    /// The same of its standard error.
    pub stderr: Vec<u8>,
    /// The bytes behind the notes in both.
    pub left_out: [u64; 2],
    /// What the system refused to it, if it was traced.
    pub refused_calls: Vec<RefusedCall>,
}

impl Finished {
    /// The result of a program with this ending and output.
    pub fn new(ending: ProgramEnd, printed: [Bounded; 2]) -> Finished {
        let [(stdout, out), (stderr, err)] = printed.map(Bounded::finish);
        Finished { ending, stdout, stderr, left_out: [out, err], refused_calls: Vec::new() }
    }

    /// Whether it ended with success.
    pub fn success(&self) -> bool {
        self.ending == ProgramEnd::Ended(End::Exited(0))
    }
}

/// Why a program has no ending.
#[derive(Debug)]
pub enum KeeperError {
    /// The system refused the keeper, or a pipe to it, or ended it; or the user did.
    Keeper(io::Error),
    /// The system refused the program.
    Program(io::Error),
    /// The system refused the program's root, in words.
    Root(String),
}

impl KeeperReport {
    /// Whether no other follows.
    fn is_last(&self) -> bool {
        matches!(
            self,
            KeeperReport::Ended(_) | KeeperReport::Refused(_) | KeeperReport::RootRefused(_)
        )
    }

    /// How a program ended, or why there is none; none if it says neither.
    fn into_ending(self) -> Option<Result<ProgramEnd, KeeperError>> {
        match self {
            KeeperReport::Ended(ending) => Some(Ok(ending)),
            KeeperReport::Refused(number) => {
                Some(Err(KeeperError::Program(io::Error::from_raw_os_error(number))))
            }
            KeeperReport::RootRefused(words) => Some(Err(KeeperError::Root(words))),
            _ => None,
        }
    }
}

/// A keeper's message.
#[derive(Debug, Serialize, Deserialize)]
enum KeeperReport {
    /// The program's process has this number, and so has its group.
    Started(Pid),
    /// The system refused it, with this error number.
    Refused(i32),
    /// The system refused its root, in words.
    RootRefused(String),
    /// So much was refused to it.
    RefusedCalls(Vec<RefusedCall>),
    /// It ended, and so did all processes below it.
    Ended(ProgramEnd),
    /// The program stays, and the processes below it have ended.
    Swept,
}

/// Starts programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    program: PathBuf,
    sandbox: Sandbox,
    is_tracing: bool,
}

impl Keeper {
    /// A keeper from `program`, the file of this program.
    pub fn new(program: &Path) -> Keeper {
        let sandbox = Sandbox::default();
        Keeper { program: program.to_owned(), sandbox, is_tracing: false }
    }

    /// The same with programs kept as `sandbox` says.
    pub fn with_sandbox(self, sandbox: Sandbox) -> Keeper {
        Keeper { sandbox, ..self }
    }

    /// The same that looks on while programs run, slowly, and tells of [`Finished::refused_calls`].
    pub fn tracing(&self) -> Keeper {
        Keeper { is_tracing: true, ..self.clone() }
    }

    /// How programs are kept.
    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    /// Runs `program` to its end within `bounds`.
    ///
    /// # Errors
    /// [`KeeperError`] if it cannot be started, the system ends its keeper, or the user interrupts it.
    pub fn run(
        &self,
        program: &ForeignProgram,
        bounds: &ProgramBounds,
    ) -> Result<Finished, KeeperError> {
        self.start(program, bounds).map_err(KeeperError::Keeper)?.listen()
    }

    /// The command of a keeper of `program`, told its `manner`.
    fn command(
        &self,
        program: &ForeignProgram,
        bounds: &ProgramBounds,
        manner: impl Iterator<Item = OsString>,
    ) -> Command {
        let mut command = Command::new(&self.program);
        let bounds_text = serde_json::to_string(bounds).expect("bounds are plain data");
        command.arg(KEEPER_ARGUMENT).arg(bounds_text).args(manner);
        let walls = match &program.walls {
            Some(walls) if self.sandbox == Sandbox::AsOffered => walls.to_words(),
            _ => Vec::new(),
        };
        command.args(program.is_trusted.then_some(TRUSTED));
        command.args(self.is_tracing.then_some(TRACED));
        command.arg(format!("{WALLS}{}", walls.len())).args(walls);
        let root = program.root.as_ref().map_or(Vec::new(), Root::to_words);
        command.arg(format!("{ROOT}{}", root.len())).args(root);
        command.args(&program.words).env_clear().envs(program.environment.iter().cloned());
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        command
    }

    fn start(&self, program: &ForeignProgram, bounds: &ProgramBounds) -> io::Result<Kept> {
        let (own_socket, keeper_socket) = UnixStream::pair()?;
        let removed_count = program.temporary_folders.len();
        let manner = [format!("removing {removed_count}").into()];
        let temporary_folders = program.temporary_folders.iter().cloned().map(PathBuf::into);
        let manner = manner.into_iter().chain(temporary_folders);
        let mut command = self.command(program, bounds, manner);
        command.stdin(Stdio::from(OwnedFd::from(keeper_socket)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let out = child.stdout.take().expect("stdout is piped");
        let err = child.stderr.take().expect("stderr is piped");
        let streams = [
            OwnedFd::from(own_socket).into(),
            OwnedFd::from(out).into(),
            OwnedFd::from(err).into(),
        ];
        Ok(Kept { child, streams, deadline: bounds.timeout.saturating_add(GRACE), group: None })
    }
}

/// A keeper at work.
struct Kept {
    child: Child,
    /// The keeper's messages, then the program's standard output and error.
    streams: [File; 3],
    /// When it must have ended at the latest.
    deadline: Duration,
    /// The program's process group, once it is known.
    group: Option<Pid>,
}

impl Kept {
    fn listen(mut self) -> Result<Finished, KeeperError> {
        let started = Instant::now();
        let mut text = [const { Bounded::new() }; 3];
        let mut is_open = [true; 3];
        let mut late = false;
        while is_open.contains(&true) {
            let left = self.deadline.saturating_sub(started.elapsed());
            if left.is_zero() {
                late = true;
                break;
            }
            let files = [0, 1, 2].map(|index| is_open[index].then(|| self.streams[index].as_fd()));
            let ready = process::wait_for(files, Some(left)).map_err(|error| {
                self.end();
                KeeperError::Keeper(error)
            })?;
            for (index, file) in self.streams.iter_mut().enumerate().filter(|(i, _)| ready[*i]) {
                let mut buffer = [0; 16 << 10];
                match file.read(&mut buffer) {
                    Ok(0) => is_open[index] = false,
                    Ok(count) => text[index].push(&buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // The keeper's end was reset: there is no more.
                    Err(_) => is_open[index] = false,
                }
            }
            if self.group.is_none() {
                self.group = parse_keeper_reports(text[0].head()).find_map(|report| match report {
                    KeeperReport::Started(group) => Some(group),
                    _ => None,
                });
            }
        }
        let [keeper_output, stdout, stderr] = text;
        let report_bytes = keeper_output.finish().0;
        let last = parse_keeper_reports(&report_bytes).last();
        let ending = match last.and_then(KeeperReport::into_ending) {
            Some(ending) => ending,
            None => {
                self.end();
                if late {
                    Ok(ProgramEnd::TimedOut)
                } else {
                    Err(KeeperError::Keeper(io::Error::other("it was ended from outside")))
                }
            }
        };
        self.child.wait().map_err(KeeperError::Keeper)?;
        let refused_calls = parse_keeper_reports(&report_bytes).find_map(|report| match report {
            KeeperReport::RefusedCalls(refused_calls) => Some(refused_calls),
            _ => None,
        });
        let finished = Finished::new(ending?, [stdout, stderr]);
        Ok(Finished { refused_calls: refused_calls.unwrap_or_default(), ..finished })
    }

    /// Ends a keeper without an answer, and its program.
    fn end(&mut self) {
        if let Some(group) = self.group {
            // The number belongs to the program's group while one of its members lives.
            tree::signal_group(group, libc::SIGKILL);
        }
        // It may have ended already.
        let _ = self.child.kill();
    }
}

/// The reports in the whole lines of `text`.
fn parse_keeper_reports(text: &[u8]) -> impl Iterator<Item = KeeperReport> {
    text.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

/// Bytes of this machine's memory.
pub fn machine_memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(machine.mem_unit.into())
}
