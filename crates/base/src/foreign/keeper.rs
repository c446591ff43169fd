//! The work of a keeper: runs one program, and ends everything below it.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{KeeperReport, ProgramBounds, ProgramEnd, ROOT, TRACED, TRUSTED, WALLS};
use crate::process::memory::{MemoryExcess, MemoryWatch};
use crate::process::root::Root;
use crate::process::seccomp_filter::FileStates;
use crate::process::tracer::{self, Tracer};
use crate::process::tree::{self, Deaths, End};
use crate::process::walls::{Connections, Walls};
use crate::process::{self, Pid, Resource, seccomp_filter};

/// How long killed processes may take to go. A process blocked on a device cannot be killed.
const GOING: Duration = Duration::from_secs(5);
/// If memory runs out, the system ends the program rather than the process in wait for it.
const GO_FIRST: u16 = 1000;

/// Keeps the program named by the arguments of this process. The other end of its standard input
/// belongs to its parent.
pub fn run_program_keeper() -> u8 {
    let Ok(parent) = io::stdin().as_fd().try_clone_to_owned() else { return 1 };
    let parent = UnixStream::from(parent);
    let mut words = std::env::args_os().skip(2).peekable();
    let bounds = words.next().and_then(|text| serde_json::from_str(text.to_str()?).ok());
    let manner = words.next().unwrap_or_default().to_string_lossy().into_owned();
    let served = manner.strip_prefix("serving ");
    let removed = manner.strip_prefix("removing ").and_then(|count| count.parse().ok());
    let temporary_folders = words.by_ref().take(removed.unwrap_or(0)).map(PathBuf::from).collect();
    let is_trusted = words.next_if(|word| word == TRUSTED).is_some();
    let tracer = words.next_if(|word| word == TRACED).map(|_| Tracer::default());
    let Ok(walls) = take_part(&mut words, WALLS, Walls::from_words) else { return 1 };
    let Ok(root) = take_part(&mut words, ROOT, Root::from_words) else { return 1 };
    let words: Vec<OsString> = words.collect();
    let (Some(bounds), Some(_)) = (bounds, words.first()) else { return 1 };
    // If orphans cannot be adopted, those whose parents end are left behind.
    let _ = tree::take_root();
    let _ = rustix::thread::set_name(c"keeper");
    process::go_first(GO_FIRST);
    // On a system that does not count them they are as many as the user may have.
    let _ = process::limit_new_tasks();
    let manner = Manner { is_traced: tracer.is_some(), is_trusted };
    let started = Deaths::watch().and_then(|deaths| {
        Ok((start_kept_program(&words, &bounds, (root, walls), manner, served)?, deaths))
    });
    match started {
        Ok((child, deaths)) => {
            Keeping { parent, child, deaths, bounds, temporary_folders, tracer }.keep();
        }
        Err(error) => {
            let report = match error.raw_os_error() {
                Some(number) => KeeperReport::Refused(number),
                None => KeeperReport::RootRefused(error.to_string()),
            };
            send_keeper_report(&parent, &report);
        }
    }
    0
}

/// The part of `words` behind a word of `beginning` and their number, as `parse` reads them; none if the number is 0.
fn take_part<P>(
    words: &mut impl Iterator<Item = OsString>,
    beginning: &str,
    parse: impl FnOnce(Vec<OsString>) -> Option<P>,
) -> Result<Option<P>, ()> {
    let count = words.next().and_then(|word| word.to_str()?.strip_prefix(beginning)?.parse().ok());
    let count = count.ok_or(())?;
    let part_words: Vec<OsString> = words.take(count).collect();
    if count == 0 { Ok(None) } else { parse(part_words).map(Some).ok_or(()) }
}

/// How a program is started.
#[derive(Clone, Copy)]
struct Manner {
    /// Whether its keeper looks on.
    is_traced: bool,
    /// Whether no system call is refused to it.
    is_trusted: bool,
}

/// Starts a program. If it is `served`, it gets this process's standard output, a socket, under
/// another number. The variable of this name holds the number. An error without a number tells in words of the root.
fn start_kept_program(
    words: &[OsString],
    bounds: &ProgramBounds,
    (root, walls): (Option<Root>, Option<Walls>),
    Manner { is_traced, is_trusted }: Manner,
    served: Option<&str>,
) -> io::Result<Pid> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
    let served_socket =
        served.map(|variable| Ok::<_, io::Error>((variable, rustix::io::dup(io::stdout())?)));
    let served_socket = served_socket.transpose()?;
    if let Some((variable, socket)) = &served_socket {
        command.env(variable, socket.as_raw_fd().to_string());
        command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        // Only the program keeps it, so this process notices its end.
        rustix::stdio::dup2_stdout(io::stderr())?;
    }
    let limits = [
        (Resource::As, bounds.address_space_bytes),
        (Resource::Fsize, bounds.file_bytes),
        (Resource::Core, 0),
    ];
    let connections = walls.as_ref().map_or(Connections::All, |walls| walls.connections);
    let keeper = process::current_pid();
    let ancestors = process::line_of_descent();
    let (mut refusals, refused_root) = io::pipe()?;
    // SAFETY: this process has one thread, so that what is called between fork and exec may allocate.
    unsafe {
        command.pre_exec(move || {
            process::unblock_signals();
            if let Some(root) = &root {
                root.enter().map_err(|refusal| {
                    // The parent gets no more of this error than a number.
                    let _ = write!(&refused_root, "{refusal}");
                    io::ErrorKind::Unsupported
                })?;
            }
            if is_traced {
                // Where the system forbids it nothing is told.
                let _ = tracer::offer_tracing();
            }
            if !is_trusted {
                // Where the system has no such filters the program can reach those above it.
                let _ = seccomp_filter::install_seccomp_filter(
                    &ancestors,
                    connections,
                    FileStates::Free,
                );
            }
            limits
                .into_iter()
                .try_for_each(|(resource, limit)| process::lower_limit(resource, limit))?;
            if !tree::die_with_parent(keeper) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            walls.as_ref().map_or(Ok(()), Walls::enter)
        })
    };
    let spawned = command.spawn();
    drop(command);
    let mut refusal = String::new();
    if spawned.is_err() && refusals.read_to_string(&mut refusal).is_ok() && !refusal.is_empty() {
        return Err(io::Error::other(refusal));
    }
    Ok(spawned?.id() as Pid)
}

struct Keeping {
    parent: UnixStream,
    child: Pid,
    deaths: Deaths,
    bounds: ProgramBounds,
    temporary_folders: Vec<PathBuf>,
    /// Looks on, if it is wanted.
    tracer: Option<Tracer>,
}

/// Why a keeper waits no longer.
enum Reason {
    Ended(End),
    TimedOut,
    TookMemory(MemoryExcess),
    ParentGone,
}

impl Keeping {
    fn keep(mut self) {
        send_keeper_report(&self.parent, &KeeperReport::Started(self.child));
        let reason = self.wait();
        // After its leader was waited for, the group keeps its number only while it has other members,
        // and only the search for children shows whether it has any.
        if !matches!(reason, Reason::Ended(_)) {
            tree::signal_group(self.child, libc::SIGKILL);
        }
        tree::end_all_but(&[], GOING);
        if let Some(tracer) = self.tracer.take() {
            let refused_calls = tracer.into_refused_calls();
            send_keeper_report(&self.parent, &KeeperReport::RefusedCalls(refused_calls));
        }
        match reason {
            Reason::Ended(end) => {
                send_keeper_report(&self.parent, &KeeperReport::Ended(ProgramEnd::Ended(end)))
            }
            Reason::TimedOut => {
                send_keeper_report(&self.parent, &KeeperReport::Ended(ProgramEnd::TimedOut))
            }
            Reason::TookMemory(excess) => {
                send_keeper_report(
                    &self.parent,
                    &KeeperReport::Ended(ProgramEnd::TookMemory(excess)),
                );
            }
            Reason::ParentGone => {
                for folder in self.temporary_folders {
                    // If files cannot be removed, they stay for `cache gc`.
                    let _ = std::fs::remove_dir_all(folder);
                }
            }
        }
    }

    fn wait(&mut self) -> Reason {
        let started = Instant::now();
        let mut memory = MemoryWatch::new(self.bounds.tree_memory_bytes);
        loop {
            while let Some((process, end)) = tracer::reap_child(self.tracer.as_mut()) {
                if process == self.child {
                    return Reason::Ended(end);
                }
            }
            if let Some(excess) = memory.excess() {
                return Reason::TookMemory(excess);
            }
            let left = self.bounds.timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Reason::TimedOut;
            }
            let left = memory.pause().map_or(left, |pause| pause.min(left));
            let waited = self.deaths.wait(&self.parent, Some(left));
            // The parent writes to have leftover processes ended; otherwise it has gone.
            match waited {
                Ok((true, _)) if matches!((&self.parent).read(&mut [0]), Ok(1..)) => {
                    // The program stays, and its task has ended: the task's other processes go.
                    if tree::end_all_but(&[self.child], GOING).contains(&self.child) {
                        return Reason::Ended(End::Killed(libc::SIGKILL));
                    }
                    send_keeper_report(&self.parent, &KeeperReport::Swept);
                }
                Ok((false, _)) => {}
                Ok((true, _)) | Err(_) => return Reason::ParentGone,
            }
        }
    }
}

fn send_keeper_report(parent: &UnixStream, report: &KeeperReport) {
    let mut text = serde_json::to_vec(report).expect("reports are plain data");
    text.push(b'\n');
    // If the parent has ended, it asks no more.
    let _ = (&*parent).write_all(&text);
}
