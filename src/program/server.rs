//! The form of the protocol in which a program stays: it loads once what all replays need, and copies
//! itself for each.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::answer::Complaint;
use super::error::{Told, last_line, system};
use super::request::{Places, Request};
use super::{ProgramError, Project};
use crate::foreign::{Bounds, Finished, Keeper, KeeperError, ProgramEnd, Served};
use crate::process::tree::End;

/// The variable that names the descriptor of the socket.
const SOCKET: &str = "REPLAY_SOCKET";
/// A server lives as long as this process; that a year is enough is all that is meant.
const LIFETIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// A line that is longer is no message.
const MOST_BYTES: usize = 1 << 20;
/// The bytes that are kept of each stream of a replay.
const KEPT_OUTPUT: usize = 1 << 20;

/// A message of the program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    hello: Option<u64>,
    identity: String,
    error: Option<Complaint>,
    notes: Vec<String>,
    done: Option<u64>,
    exit: Option<i32>,
    signal: Option<i32>,
    cannot_fork: Option<u64>,
}

/// The processes of one project that stay.
#[derive(Debug)]
pub(super) struct Servers {
    here: Mutex<Here>,
    freed: Condvar,
    /// How many there may be.
    most: usize,
    /// Whether they can only make a replay themselves, and end.
    alone: AtomicBool,
    last_id: AtomicU64,
}

#[derive(Debug, Default)]
struct Here {
    idle: Vec<Server>,
    /// Those that are idle or at work.
    count: usize,
}

/// The place of one process among those that there may be, given back when it is dropped.
struct Lease<'s> {
    servers: &'s Servers,
    is_kept: bool,
}

impl Lease<'_> {
    /// Keeps `server` for the next replay.
    fn keep(mut self, server: Server) {
        self.is_kept = true;
        self.servers.lock().idle.push(server);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.servers.lock().count -= 1;
        }
        self.servers.freed.notify_one();
    }
}

/// A process that has said hello.
#[derive(Debug)]
pub(super) struct Server {
    served: Served,
    received: Vec<u8>,
    identity: String,
    notes: Vec<String>,
}

/// What became of a request.
enum Reply {
    Done(ProgramEnd),
    CannotFork,
    /// The process went before it answered.
    Gone,
    Late,
}

impl Servers {
    /// None yet, and never more than `most`.
    pub(super) fn new(most: usize) -> Servers {
        let (here, freed, alone, last_id) = Default::default();
        Servers { here, freed, most: most.max(1), alone, last_id }
    }

    fn lock(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process that has nothing to do, or a new one; waits for either if there are as many as may be.
    fn take(
        &self,
        project: &Project,
        keeper: &Keeper,
        bounds: &Bounds,
    ) -> Result<(Lease<'_>, Server), ProgramError> {
        let mut here = self.lock();
        let idle = loop {
            let idle = here.idle.pop();
            if idle.is_some() || here.count < self.most {
                here.count += usize::from(idle.is_none());
                break idle;
            }
            here = self.freed.wait(here).unwrap_or_else(PoisonError::into_inner);
        };
        drop(here);
        // The place is given back if no process can be started.
        let lease = Lease { servers: self, is_kept: false };
        let server = match idle {
            Some(server) => server,
            None => Server::start(project, keeper, bounds)?,
        };
        Ok((lease, server))
    }

    /// What a process says of itself, which is kept for the first replay.
    pub(super) fn identity(
        &self,
        project: &Project,
        keeper: &Keeper,
        bounds: &Bounds,
    ) -> Result<String, ProgramError> {
        let (lease, server) = self.take(project, keeper, bounds)?;
        let identity = server.identity.clone();
        lease.keep(server);
        Ok(identity)
    }

    /// Makes one replay, in a copy of a process that is ready, or in one of its own.
    pub(super) fn run(
        &self,
        project: &Project,
        (keeper, bounds): (&Keeper, &Bounds),
        request: &Request,
        places: &Places,
    ) -> Result<(Finished, Vec<String>), ProgramError> {
        loop {
            let (lease, mut server) = self.take(project, keeper, bounds)?;
            let fork = !self.alone.load(Ordering::SeqCst);
            let id = self.last_id.fetch_add(1, Ordering::SeqCst) + 1;
            let mut streams = [
                Stream::new(&places.temporary, "stdout")?,
                Stream::new(&places.temporary, "stderr")?,
            ];
            let message = message(id, fork, request, places);
            // One that has gone meanwhile says so when it is listened to.
            let _ = server.served.send(message.as_bytes());
            let reply = server.reply(id, &mut streams, bounds.timeout)?;
            let notes = server.notes.clone();
            let ending = match reply {
                Reply::CannotFork => {
                    self.alone.store(true, Ordering::SeqCst);
                    lease.keep(server);
                    continue;
                }
                Reply::Late => ProgramEnd::TimedOut,
                Reply::Done(end) => {
                    if fork && server.served.sweep() {
                        lease.keep(server);
                    }
                    end
                }
                Reply::Gone => match server.served.ended() {
                    // In a process of its own the replay itself has ended so.
                    Ok((end, _)) if !fork => end,
                    Ok((end, said)) => return Err(gone(end, &String::from_utf8_lossy(&said))),
                    Err(error) => return Err(refused(project, error)),
                },
            };
            let [stdout, stderr] = streams.map(Stream::text);
            return Ok((Finished { ending, stdout, stderr }, notes));
        }
    }
}

impl Server {
    /// Starts a process, and waits until it has loaded what `preload` names.
    pub(super) fn start(
        project: &Project,
        keeper: &Keeper,
        bounds: &Bounds,
    ) -> Result<Server, ProgramError> {
        let preload = project.spec.preload.clone().unwrap_or_default().join(",");
        let _span = tracing::info_span!("preload", message = preload);
        let more: [(OsString, OsString); 2] = [
            ("REPLAY_PROTOCOL".into(), super::request::PROTOCOL.into()),
            ("REPLAY_PRELOAD".into(), preload.into()),
        ];
        let program = project.command(project.words.clone(), None, &more);
        let lasting = Bounds { timeout: LIFETIME, ..*bounds };
        let served = keeper.serve(&program, &lasting, SOCKET);
        let served = served.map_err(system("start a process that watches over it"))?;
        let (received, identity, notes) = Default::default();
        let mut server = Server { served, received, identity, notes };
        let deadline = Instant::now() + bounds.timeout;
        let hello = server.next(deadline, &mut [])?;
        match hello {
            Some(Message { error: Some(complaint), .. }) => Err(complaint.error(None)),
            Some(Message { hello: Some(1), identity, notes, .. }) => {
                Ok(Server { identity, notes, ..server })
            }
            Some(_) => Err(mistake("it does not begin with `hello`", "")),
            None if Instant::now() >= deadline => {
                Err(mistake("it did not say `hello` in time", ""))
            }
            None => match server.served.ended() {
                Ok((end, said)) => Err(gone(end, &String::from_utf8_lossy(&said))),
                Err(error) => Err(refused(project, error)),
            },
        }
    }

    /// The reply to request `id`; copies what the replay prints from `streams` meanwhile.
    fn reply(
        &mut self,
        id: u64,
        streams: &mut [Stream; 2],
        timeout: Duration,
    ) -> Result<Reply, ProgramError> {
        let deadline = Instant::now() + timeout;
        loop {
            let Some(message) = self.next(deadline, streams)? else {
                return Ok(if Instant::now() >= deadline { Reply::Late } else { Reply::Gone });
            };
            let end = match message {
                Message { done: Some(of), exit: Some(code), .. } if of == id => End::Exited(code),
                Message { done: Some(of), signal: Some(signal), .. } if of == id => {
                    End::Killed(signal)
                }
                Message { cannot_fork: Some(of), .. } if of == id => return Ok(Reply::CannotFork),
                _ => continue,
            };
            return Ok(Reply::Done(ProgramEnd::Ended(end)));
        }
    }

    /// The next message, or none once the time is over or the process has gone; copies what `streams`
    /// hold meanwhile.
    fn next(
        &mut self,
        deadline: Instant,
        streams: &mut [Stream],
    ) -> Result<Option<Message>, ProgramError> {
        loop {
            let pipe = |at: usize| streams.get(at).map(|stream| stream.pipe.as_fd());
            let found = self.step(deadline, [pipe(0), pipe(1)])?;
            streams.iter_mut().for_each(Stream::drain);
            match found {
                Step::Message(message) => return Ok(Some(*message)),
                Step::Nothing => {}
                Step::Over => return Ok(None),
            }
        }
    }

    /// A message that is there, or whatever comes first.
    fn step(
        &mut self,
        deadline: Instant,
        files: [Option<std::os::fd::BorrowedFd<'_>>; 2],
    ) -> Result<Step, ProgramError> {
        if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let message = serde_json::from_slice(&line).map_err(|error| {
                mistake(&format!("its message is not as the protocol says: {error}"), "")
            })?;
            return Ok(Step::Message(Box::new(message)));
        }
        if self.received.len() > MOST_BYTES {
            return Err(mistake("its message does not end", ""));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Step::Over);
        }
        let open = self.served.receive(&mut self.received, files, left);
        match open.map_err(system("listen"))? {
            true => Ok(Step::Nothing),
            false => Ok(Step::Over),
        }
    }
}

enum Step {
    Message(Box<Message>),
    Nothing,
    /// The time is over, or the process has gone.
    Over,
}

/// What a replay prints: a pipe with a name, which nothing can fill.
struct Stream {
    pipe: File,
    kept: Vec<u8>,
}

impl Stream {
    fn new(folder: &Path, name: &str) -> Result<Stream, ProgramError> {
        let made = || -> io::Result<Stream> {
            let path = folder.join(name);
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
            match rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // Open for writing too, so that nobody who opens it waits, and that it never ends.
            let mut options = OpenOptions::new();
            let pipe = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            Ok(Stream { pipe, kept: Vec::new() })
        };
        made().map_err(system("make a pipe"))
    }

    /// Takes what is there.
    fn drain(&mut self) {
        let mut buffer = [0; 16 << 10];
        while let Ok(count) = self.pipe.read(&mut buffer) {
            if count == 0 {
                return;
            }
            self.kept.extend_from_slice(&buffer[..count]);
            if self.kept.len() > 2 * KEPT_OUTPUT {
                // The head and the tail are shown.
                self.kept.drain(KEPT_OUTPUT..self.kept.len() - KEPT_OUTPUT / 2);
            }
        }
    }

    fn text(mut self) -> Vec<u8> {
        self.drain();
        self.kept
    }
}

/// The line that asks for one replay.
fn message(id: u64, fork: bool, request: &Request, places: &Places) -> String {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let message = json!({"run": {
        "id": id,
        "inputs": path(&places.inputs),
        "outputs": path(&places.outputs),
        "answer": path(&places.answer),
        "tree": path(&places.tree),
        "precision": request.precision(),
        "rounding": request.rounding(),
        "surroundings": request.surroundings(),
        "device": request.device.name(),
        "tmp": path(&places.temporary),
        "stdout": path(&places.temporary.join("stdout")),
        "stderr": path(&places.temporary.join("stderr")),
        "fork": fork,
    }});
    format!("{message}\n")
}

fn mistake(what: &str, said: &str) -> ProgramError {
    let source = Told::last(said);
    ProgramError::Mistake { message: what.to_owned(), source, hint: None }
}

/// A process that went without a word.
fn gone(end: ProgramEnd, said: &str) -> ProgramError {
    let how = match end {
        ProgramEnd::TimedOut => "in time".to_owned(),
        ProgramEnd::Ended(End::Exited(code)) => format!("with exit status {code}"),
        ProgramEnd::Ended(End::Killed(signal)) => format!("by signal {signal}"),
    };
    let lacking = matches!(end, ProgramEnd::Ended(end) if super::project::is_lacking(end));
    match (lacking, last_line(said)) {
        (true, Some(message)) => {
            let source = Told::beside(Some(&message), said);
            ProgramError::Environment { message, source, hint: None }
        }
        _ => mistake(&format!("it ended {how} instead of answering"), said),
    }
}

fn refused(project: &Project, error: KeeperError) -> ProgramError {
    match error {
        KeeperError::Keeper(source) => {
            ProgramError::System { doing: "start a process that watches over it", source }
        }
        KeeperError::Program(source) => {
            let program = project.words[0].to_string_lossy().into_owned();
            ProgramError::Start { program, source }
        }
    }
}
