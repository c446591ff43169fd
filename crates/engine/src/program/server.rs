//! The protocol of staying programs: such a program loads its libraries once, and copies itself for each replay.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::answer::Complaint;
use super::error::{PrintedTail, last_line, program_system_error};
use super::request::{Places, ProgramRequest};
use super::startup;
use super::stream::Stream;
use super::{HarnessProgram, ProgramError};
use replay_base::foreign::{Finished, Keeper, KeeperError, ProgramBounds, ProgramEnd, Served};
use replay_base::process::tree::End;
use replay_base::process::walls::Sandbox;

/// The variable with the number of the socket.
const SOCKET: &str = "REPLAY_SOCKET";
/// A server lives as long as this process: a year is long enough.
const LIFETIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most bytes of a message.
const MOST_BYTES: usize = 1 << 20;
/// How long a staying copy may take to leave.
const LEAVING: Duration = Duration::from_secs(10);

/// A message of the program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    hello: Option<u64>,
    identity: String,
    error: Option<Complaint>,
    notes: Vec<String>,
    made: Option<u64>,
    done: Option<u64>,
    exit: Option<i32>,
    signal: Option<i32>,
    cannot_fork: Option<u64>,
}

/// The staying processes of one project.
#[derive(Debug)]
pub(super) struct Servers {
    here: Mutex<Here>,
    freed: Condvar,
    /// How many there may be.
    most: usize,
    /// Whether they can only make a replay themselves, and end.
    alone: AtomicBool,
    last_id: AtomicU64,
    /// Makes numbers of requests that nobody can guess: a copy has the socket while its series lasts, and could answer the
    /// requests after it.
    id_keys: RandomState,
}

#[derive(Debug, Default)]
struct Here {
    idle: Vec<Server>,
    /// Those idle or at work.
    count: usize,
}

/// The place of one process among the allowed ones; given back when dropped.
struct ServerLease<'s> {
    servers: &'s Servers,
    is_kept: bool,
}

impl Here {
    /// An idle process: best one at work on `series` already, worst one at work on another.
    fn pick(&mut self, series: Option<u64>) -> Option<Server> {
        let best = (0..self.idle.len()).min_by_key(|&index| match &self.idle[index].copy {
            Some(copy) if Some(copy.series) == series => 0,
            None => 1,
            Some(_) => 2,
        })?;
        Some(self.idle.swap_remove(best))
    }
}

impl ServerLease<'_> {
    /// Keeps `server` for the next replay.
    fn keep(mut self, server: Server) {
        self.is_kept = true;
        self.servers.lock().idle.push(server);
    }
}

impl Drop for ServerLease<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.servers.lock().count -= 1;
        }
        self.servers.freed.notify_one();
    }
}

/// A process after its hello.
#[derive(Debug)]
pub(super) struct Server {
    served: Served,
    received: Vec<u8>,
    identity: String,
    notes: Vec<String>,
    /// The copy with its socket.
    copy: Option<Copy>,
}

/// The process for the replays of a series: a copy of a staying one, or this one itself.
#[derive(Clone, Debug)]
struct Copy {
    series: u64,
    /// The request behind it.
    begun: u64,
    is_fork: bool,
}

/// A replay that a process has made.
pub(super) struct ServedReplay {
    pub finished: Finished,
    /// The process's own words.
    pub notes: Vec<String>,
    /// Whether the process had made others of its series before.
    pub continues: bool,
}

/// The end of a request.
enum Reply {
    /// The replay has ended, and its process with it.
    Done(ProgramEnd),
    /// The replay has ended, and its process waits for another.
    Made(ProgramEnd),
    CannotFork,
    /// The process went before it answered.
    Gone,
    Late,
}

impl Servers {
    /// None yet, and never more than `most_servers`.
    pub(super) fn new(most_servers: usize) -> Servers {
        let (here, freed, alone, last_id, id_keys) = Default::default();
        Servers { here, freed, most: most_servers.max(1), alone, last_id, id_keys }
    }

    /// The number of a new request: every reader of JSON has it whole.
    fn draw_id(&self) -> u64 {
        let count = self.last_id.fetch_add(1, Ordering::SeqCst) + 1;
        self.id_keys.hash_one(count) >> 11
    }

    fn lock(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle process, or a new one. Waits for an idle one when no more may start.
    fn lease_server(
        &self,
        project: &HarnessProgram,
        (keeper, bounds): (&Keeper, &ProgramBounds),
        series: Option<u64>,
    ) -> Result<(ServerLease<'_>, Server), ProgramError> {
        let mut pool_state = self.lock();
        let idle = loop {
            let idle = pool_state.pick(series);
            if idle.is_some() || pool_state.count < self.most {
                pool_state.count += usize::from(idle.is_none());
                break idle;
            }
            pool_state = self.freed.wait(pool_state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(pool_state);
        // The place is given back if no process can be started.
        let lease = ServerLease { servers: self, is_kept: false };
        let server = match idle {
            Some(server) => server,
            None => Server::start(project, keeper, bounds)?,
        };
        Ok((lease, server))
    }

    /// The words of a process about itself. The process is kept for the first replay.
    pub(super) fn identity(
        &self,
        project: &HarnessProgram,
        keeper: &Keeper,
        bounds: &ProgramBounds,
    ) -> Result<String, ProgramError> {
        let (lease, server) = self.lease_server(project, (keeper, bounds), None)?;
        let identity = server.identity.clone();
        lease.keep(server);
        Ok(identity)
    }

    /// A name for a series of replays of one revision on one fixture.
    pub(super) fn name_series(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Makes one replay, in a copy of an idle process or of a new one. The copy stays for others of the same
    /// `series`.
    pub(super) fn run(
        &self,
        project: &HarnessProgram,
        terms: (&Keeper, &ProgramBounds),
        (request, series): (&ProgramRequest, Option<u64>),
        places: &Places,
    ) -> Result<ServedReplay, ProgramError> {
        loop {
            let (lease, mut server) = self.lease_server(project, terms, series)?;
            let is_at_other = server.copy.as_ref().is_some_and(|copy| Some(copy.series) != series);
            if is_at_other && !server.end_copy() {
                continue;
            }
            let continues = server.copy.is_some();
            let id = self.draw_id();
            let fork = match &server.copy {
                Some(copy) => copy.is_fork,
                None => !self.alone.load(Ordering::SeqCst),
            };
            let mut streams = [
                Stream::new(&places.temporary, "stdout")?,
                Stream::new(&places.temporary, "stderr")?,
            ];
            let writable = (terms.0.sandbox() == Sandbox::AsOffered)
                .then(|| project.list_writable_paths(&places.own));
            let message =
                format_run_message(id, (fork, series.is_some()), request, places, writable);
            // A process gone meanwhile shows when its answer is read.
            let _ = server.served.send(message.as_bytes());
            let reply = server.reply(id, &mut streams, terms.1.timeout)?;
            let notes = server.notes.clone();
            let ending = match reply {
                Reply::CannotFork => {
                    self.alone.store(true, Ordering::SeqCst);
                    lease.keep(server);
                    continue;
                }
                Reply::Late => ProgramEnd::TimedOut,
                Reply::Made(end) => {
                    let series = series.unwrap_or_default();
                    server.copy.get_or_insert(Copy { series, begun: id, is_fork: fork });
                    lease.keep(server);
                    end
                }
                Reply::Done(end) => {
                    if fork && server.served.sweep() {
                        lease.keep(server);
                    }
                    end
                }
                Reply::Gone => match server.served.ended() {
                    // In a process of its own the replay itself has ended so.
                    Ok((end, _)) if !fork => end,
                    // The replay took the memory beyond the earlier amount.
                    Ok((end @ ProgramEnd::TookMemory(_), _)) => end,
                    Ok((end, error_output)) => {
                        return Err(server_exit_error(
                            project,
                            end,
                            &String::from_utf8_lossy(&error_output),
                        ));
                    }
                    Err(error) => return Err(server_start_error(project, error)),
                },
            };
            let finished = Finished::new(ending, streams.map(Stream::text));
            return Ok(ServedReplay { finished, notes, continues });
        }
    }

    /// Ends the staying copies of `series`.
    pub(super) fn end_series(&self, series: u64) {
        let series_servers: Vec<Server> = self
            .lock()
            .idle
            .extract_if(.., |server| server.copy.as_ref().is_some_and(|copy| copy.series == series))
            .collect();
        for mut server in series_servers {
            let lease = ServerLease { servers: self, is_kept: false };
            if server.end_copy() {
                lease.keep(server);
            }
        }
    }
}

impl Server {
    /// Starts a process, and waits until it has loaded the modules of `preload`.
    pub(super) fn start(
        project: &HarnessProgram,
        keeper: &Keeper,
        bounds: &ProgramBounds,
    ) -> Result<Server, ProgramError> {
        let preload = project.spec.preload.clone().unwrap_or_default().join(",");
        let _span = tracing::info_span!("preload", message = preload);
        let preload_variables: [(OsString, OsString); 2] = [
            ("REPLAY_PROTOCOL".into(), super::request::PROTOCOL.into()),
            ("REPLAY_PRELOAD".into(), preload.into()),
        ];
        let program = project.command(project.words.clone(), &preload_variables, None);
        let lasting = ProgramBounds { timeout: LIFETIME, ..*bounds };
        let served = keeper.serve(&program, &lasting, SOCKET);
        let served =
            served.map_err(program_system_error("start a process that watches over it"))?;
        let (received, identity, notes, copy) = Default::default();
        let mut server = Server { served, received, identity, notes, copy };
        let deadline = Instant::now() + bounds.timeout;
        let hello = server.next(deadline, &mut [])?;
        match hello {
            Some(Message { error: Some(complaint), .. }) => Err(complaint.error(None)),
            Some(Message { hello: Some(1), identity, notes, .. }) => {
                Ok(Server { identity, notes, ..server })
            }
            Some(_) => Err(server_mistake_error("it does not begin with `hello`", "")),
            None if Instant::now() >= deadline => Err(late_start_error(project, bounds.timeout)),
            None => match server.served.ended() {
                Ok((end, error_output)) => {
                    Err(server_exit_error(project, end, &String::from_utf8_lossy(&error_output)))
                }
                Err(error) => Err(server_start_error(project, error)),
            },
        }
    }

    /// The reply to request `id`. Copies the replay's output from `streams` meanwhile.
    fn reply(
        &mut self,
        id: u64,
        streams: &mut [Stream],
        timeout: Duration,
    ) -> Result<Reply, ProgramError> {
        let deadline = Instant::now() + timeout;
        // The end of a copy bears the number of its first request.
        let call_id = self.copy.as_ref().map_or(id, |copy| copy.begun);
        loop {
            let Some(message) = self.next(deadline, streams)? else {
                return Ok(if Instant::now() >= deadline { Reply::Late } else { Reply::Gone });
            };
            if message.cannot_fork == Some(id) {
                return Ok(Reply::CannotFork);
            }
            let end = match message {
                Message { exit: Some(code), .. } => End::Exited(code),
                Message { signal: Some(signal), .. } => End::Killed(signal),
                _ => continue,
            };
            let end = ProgramEnd::Ended(end);
            if message.made == Some(id) {
                return Ok(Reply::Made(end));
            }
            if message.done == Some(call_id) {
                self.copy = None;
                return Ok(Reply::Done(end));
            }
        }
    }

    /// Ends the staying copy and the leftovers of its replays. False if the process cannot serve any more.
    fn end_copy(&mut self) -> bool {
        let Some(copy) = self.copy.clone() else { return true };
        let message = format!("{}\n", json!({ "end": copy.begun }));
        let _ = self.served.send(message.as_bytes());
        let reply = copy.is_fork.then(|| self.reply(copy.begun, &mut [], LEAVING));
        matches!(reply, Some(Ok(Reply::Done(_)))) && self.served.sweep()
    }

    /// The next message; none once the time is over or the process has gone. Drains `streams` meanwhile.
    fn next(
        &mut self,
        deadline: Instant,
        streams: &mut [Stream],
    ) -> Result<Option<Message>, ProgramError> {
        loop {
            let pipes = [0, 1].map(|index| streams.get(index).map(|stream| stream.pipe.as_fd()));
            let next_step = self.step(deadline, pipes)?;
            streams.iter_mut().for_each(Stream::drain);
            match next_step {
                ServerEvent::Message(message) => return Ok(Some(*message)),
                ServerEvent::Nothing => {}
                ServerEvent::Over => return Ok(None),
            }
        }
    }

    /// A message already here, or the first event.
    fn step(
        &mut self,
        deadline: Instant,
        files: [Option<std::os::fd::BorrowedFd<'_>>; 2],
    ) -> Result<ServerEvent, ProgramError> {
        if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let message = serde_json::from_slice(&line).map_err(|error| {
                server_mistake_error(
                    &format!("its message is not as the protocol says: {error}"),
                    "",
                )
            })?;
            return Ok(ServerEvent::Message(Box::new(message)));
        }
        if self.received.len() > MOST_BYTES {
            return Err(server_mistake_error("its message does not end", ""));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(ServerEvent::Over);
        }
        let still_open = self.served.receive(&mut self.received, files, left);
        if still_open.map_err(program_system_error("listen"))? {
            Ok(ServerEvent::Nothing)
        } else {
            Ok(ServerEvent::Over)
        }
    }
}

enum ServerEvent {
    Message(Box<Message>),
    Nothing,
    /// The time is over, or the process has gone.
    Over,
}

/// The line with the request for one replay.
fn format_run_message(
    id: u64,
    (fork, series): (bool, bool),
    request: &ProgramRequest,
    places: &Places,
    writable: Option<Vec<PathBuf>>,
) -> String {
    let writable = writable.map(|paths| {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    });
    let message = json!({"run": {
        "id": id,
        "inputs": places.inputs.to_string_lossy(),
        "outputs": places.outputs.to_string_lossy(),
        "answer": places.answer.to_string_lossy(),
        "tree": places.tree.to_string_lossy(),
        "precision": request.precision(),
        "casts": request.casts(),
        "rounding": request.rounding(),
        "record": request.record.as_ref().map(|record| record.to_string_lossy()),
        "surroundings": request.surroundings(),
        "check": request.check(),
        "order": request.order(),
        "unwritten": request.unwritten(),
        "device": request.device.name(),
        "tmp": places.temporary.to_string_lossy(),
        "stdout": places.temporary.join("stdout").to_string_lossy(),
        "stderr": places.temporary.join("stderr").to_string_lossy(),
        "fork": fork,
        "series": series,
        "writable": writable,
    }});
    format!("{message}\n")
}

fn server_mistake_error(mistake_text: &str, error_output: &str) -> ProgramError {
    let source = PrintedTail::last(error_output);
    ProgramError::Mistake { message: mistake_text.to_owned(), source, hint: None }
}

/// The error for a process still on its way to `hello` after `timeout`.
fn late_start_error(project: &HarnessProgram, timeout: Duration) -> ProgramError {
    let seconds = timeout.as_secs_f64();
    let preload = project.spec.preload.clone().unwrap_or_default();
    let (doing, advice) = match preload.as_slice() {
        [] => ("starting".to_owned(), "allow more with --timeout"),
        modules => (
            format!("loading {}", modules.join(", ")),
            "modules come from the disk at first, and slowly: replay it again, allow more with --timeout, or \
             name fewer modules in `preload`",
        ),
    };
    ProgramError::Environment {
        message: format!("it was still {doing} after {seconds} s (--timeout)"),
        source: None,
        hint: Some(advice.to_owned()),
    }
}

/// The error for a process gone without a word.
fn server_exit_error(
    project: &HarnessProgram,
    end: ProgramEnd,
    error_output: &str,
) -> ProgramError {
    if let ProgramEnd::Ended(End::Exited(code)) = end
        && let Some(error) = startup::diagnose_startup_failure(project, code, error_output)
    {
        return error;
    }
    let ending_text = match end {
        ProgramEnd::TimedOut => "in time".to_owned(),
        ProgramEnd::TookMemory(excess) => {
            let message = format!("it {excess} before it answered");
            let hint = Some("allow more with --memory".to_owned());
            return ProgramError::Environment {
                message,
                source: PrintedTail::last(error_output),
                hint,
            };
        }
        ProgramEnd::Ended(End::Exited(code)) => format!("with exit status {code}"),
        ProgramEnd::Ended(End::Killed(signal)) => format!("by signal {signal}"),
    };
    let lacking = matches!(end, ProgramEnd::Ended(end) if super::project::is_lacking(end));
    match (lacking, last_line(error_output)) {
        (true, Some(message)) => {
            let source = PrintedTail::beside(Some(&message), error_output);
            ProgramError::Environment { message, source, hint: None }
        }
        _ => server_mistake_error(
            &format!("it ended {ending_text} instead of answering"),
            error_output,
        ),
    }
}

fn server_start_error(project: &HarnessProgram, error: KeeperError) -> ProgramError {
    match error {
        KeeperError::Keeper(source) => {
            ProgramError::System { doing: "start a process that watches over it", source }
        }
        KeeperError::Program(source) => {
            let program = project.words[0].to_string_lossy().into_owned();
            ProgramError::Start { program, source }
        }
        KeeperError::Root(reason) => ProgramError::Root { reason },
    }
}
