//! Asks for replays and enforces their time limits: from the request to the end of all processes of the replay.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::{WorkerError, system_error};
use super::inputs::{Common, Inputs};
use super::memory::{OutputMemory, Spares};
use super::printed_text::Printed;
use super::run::{Account, DeclaredTensors, Run, SharedLayout, finish_run};
use super::{ALONE, memory, socket, zygote};
use super::{
    CHILD_ARGUMENT, DeviceJob, Ending, Job, KeeperAnswer, KeeperRequest, Limits, ReplayOrder,
    Wrapping,
};
use replay_base::process::environment::is_kernel_variable;
use replay_base::process::{self, tracer::RefusedCall, tree::End, walls::Sandbox};
use replay_cuda::sanitizer::Wrapper;
use replay_fixture::fixture::Fixture;
use replay_runtime::journal;

/// How long a child may take to report its position after SIGTERM.
const GRACE: Duration = Duration::from_millis(300);
/// How long its keeper may take to end it.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// The most bytes to read after the end of a replay: another process may still print.
const LEFT_OVER: usize = 1 << 20;

/// The processes of replays.
pub struct ReplayWorkers {
    program: PathBuf,
    zygote: Mutex<Option<Zygote>>,
    sandbox: Sandbox,
    /// How many processes the system had ended for lack of memory.
    memory_kills: Option<u64>,
    spares: Arc<Spares>,
    pub(super) inputs: Inputs,
}

struct Zygote {
    child: Child,
    socket: OwnedFd,
}

/// A connection to a keeper. It makes one replay after the other.
pub(super) struct KeeperClient {
    socket: OwnedFd,
}

/// The conditions of a run.
#[derive(Clone, Copy)]
pub(super) struct RunTerms<'a> {
    pub layout: &'a SharedLayout,
    /// The memory of the inputs outside of the layout.
    pub inputs: Option<&'a OutputMemory>,
    pub limits: Limits,
    pub address_space: u64,
    pub series: bool,
    pub wrapper: Option<&'a Wrapper>,
    /// Whether a keeper looks on.
    pub is_traced: bool,
}

/// A replay that was made.
struct MadeRun {
    run: Run,
    /// Whether its lane can make another one.
    is_lane_idle: bool,
    /// Whether its code was behind walls.
    is_walled: bool,
    /// What the system refused to it, if it was traced.
    refused_calls: Vec<RefusedCall>,
}

impl ReplayWorkers {
    /// Processes of `program`: of this one. They are started on demand.
    pub fn new(program: PathBuf) -> ReplayWorkers {
        let memory_kills = process::memory_kills();
        let spares = Arc::default();
        let inputs = Inputs::default();
        let sandbox = Sandbox::default();
        ReplayWorkers { program, zygote: Mutex::default(), sandbox, memory_kills, spares, inputs }
    }

    /// The same with replayed code kept as `sandbox` says.
    pub fn with_sandbox(self, sandbox: Sandbox) -> ReplayWorkers {
        ReplayWorkers { sandbox, ..self }
    }

    /// How replayed code is kept.
    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    /// Makes the replay of `job`, under `wrapper` if there is one, and waits for its end.
    ///
    /// # Errors
    /// [`WorkerError`] if it cannot be made, or somebody else ends it. No action of the replayed code is an error: it
    /// gives a [`Run`].
    pub fn run(
        &self,
        job: &Job,
        fixture: &Fixture,
        limits: Limits,
        wrapper: Option<&Wrapper>,
    ) -> Result<Run, WorkerError> {
        let _span = job.span();
        let layout =
            DeclaredTensors::from_fixture(fixture, job, &Common::default()).layout(&job.part);
        let address_space = address_space(job, limits);
        let terms = RunTerms {
            layout: &layout,
            inputs: None,
            limits,
            address_space,
            series: false,
            wrapper,
            is_traced: false,
        };
        Ok(self.run_on(&self.lane()?, job, terms)?.0)
    }

    /// A new lane.
    pub(super) fn lane(&self) -> Result<KeeperClient, WorkerError> {
        let mut zygote = self.zygote.lock().unwrap_or_else(PoisonError::into_inner);
        let (own_end, other_end) =
            socket::create_socket_pair().map_err(system_error("make a socket"))?;
        if let Some(zygote) = &*zygote
            && zygote.request_keeper(&other_end).is_ok()
        {
            return Ok(KeeperClient { socket: own_end });
        }
        // There is none yet, or it has gone.
        let started = Zygote::start(&self.program).map_err(system_error("start a process"))?;
        started.request_keeper(&other_end).map_err(system_error("start a process"))?;
        *zygote = Some(started);
        Ok(KeeperClient { socket: own_end })
    }

    /// Makes the replay of `job` by `lane`. Also returns whether the lane can make another one.
    pub(super) fn run_on(
        &self,
        lane: &KeeperClient,
        job: &Job,
        terms: RunTerms,
    ) -> Result<(Run, bool), WorkerError> {
        let MadeRun { mut run, mut is_lane_idle, is_walled, .. } =
            self.make_run(lane, job, terms)?;
        if !is_walled || !run.tells_of_refusal() {
            return Ok((run, is_lane_idle));
        }
        let mut refused_calls = Vec::new();
        let is_worth_it = !matches!(run.ending, Ending::TimedOut(..)) && !job.device.is_gpu();
        if is_lane_idle && is_worth_it {
            let traced = self.make_run(lane, job, RunTerms { is_traced: true, ..terms });
            is_lane_idle = traced.as_ref().is_ok_and(|traced| traced.is_lane_idle);
            let alike = traced.ok().filter(|traced| traced.run.ending == run.ending);
            refused_calls = alike.map(|traced| traced.refused_calls).unwrap_or_default();
        }
        run.note_refusal(&refused_calls);
        Ok((run, is_lane_idle))
    }

    /// Makes the replay of `job` by `lane`, without a note on what was refused.
    fn make_run(
        &self,
        lane: &KeeperClient,
        job: &Job,
        terms: RunTerms,
    ) -> Result<MadeRun, WorkerError> {
        let started_at = Instant::now();
        let scales = job.step.as_ref().map(|stepped| stepped.scales.bytes()).unwrap_or_default();
        let end = terms.layout.end();
        let input_bytes = terms.layout.input_bytes;
        self.inputs.make_room(end + scales.len() + input_bytes);
        let outputs = self.spares.acquire(end + scales.len(), job.is_shadow(), &job.folder)?;
        let own = (input_bytes > 0)
            .then(|| self.spares.acquire(input_bytes, job.is_shadow(), &job.folder));
        let own_memory = own.transpose()?;
        let scales_written = outputs.file().write_all_at(&scales, end as u64);
        scales_written.map_err(system_error("hand over the scales"))?;
        let record = job.record().map(|path| {
            File::options().read(true).write(true).create(true).truncate(false).open(path)
        });
        let record = record.transpose().map_err(system_error("open the record of roundings"))?;
        let journal = memory::for_journal()?;
        let (printed, printed_there) =
            memory::create_pipe().map_err(system_error("make a pipe"))?;
        let order = ReplayOrder {
            job: job.clone(),
            address_space: terms.address_space,
            series: terms.series,
            has_inputs: own_memory.is_some(),
            wrapper: terms.wrapper.map(|wrapper| self.wrapping(wrapper)),
            sandbox: self.sandbox,
            is_traced: terms.is_traced,
        };
        let is_walled = order.is_walled();
        let mut files = vec![printed_there.as_fd(), journal.as_fd(), outputs.file().as_fd()];
        files.extend(record.as_ref().map(AsFd::as_fd));
        let inputs = own_memory.as_ref().into_iter().chain(terms.inputs);
        files.extend(inputs.map(|inputs| inputs.file().as_fd()));
        let sent = lane.send(&KeeperRequest::Run(Box::new(order)), &files);
        if let Err(error) = sent {
            return Err(match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.lost(),
                _ => system_error("ask for a process")(error),
            });
        }
        drop(printed_there);
        let listening = lane.listen(&printed, started_at, terms.limits.timeout);
        let heard_output = listening.map_err(system_error("listen to the process"))?;
        let answer = match heard_output.answer {
            Some(KeeperAnswer::Failed { doing, error }) => {
                let source = io::Error::from_raw_os_error(error);
                return Err(WorkerError::System { doing: doing.into(), source });
            }
            None if !heard_output.timed_out => return Err(self.lost()),
            answer => answer,
        };
        let is_lane_idle = answer.is_some();
        let (end, refused_calls) = match answer {
            Some(KeeperAnswer::Ended { end, refused_calls }) => (end, refused_calls),
            _ => (End::Killed(libc::SIGKILL), Vec::new()),
        };
        let entries =
            journal::read_journal_file(&journal).map_err(system_error("read the account"))?;
        let account = Account {
            entries,
            has_begun: journal::has_begun(&journal),
            printed: heard_output.printed.text(),
            end,
            timed_out: heard_output.timed_out.then_some(terms.limits.timeout),
            is_wrapped: terms.wrapper.is_some(),
        };
        let run = finish_run(account, terms.layout, outputs, &self.spares);
        let run = run.map_err(|error| match error {
            WorkerError::KilledFromOutside { signal, .. } => {
                WorkerError::KilledFromOutside { signal, memory_ran_out: self.memory_ran_out() }
            }
            error => error,
        })?;
        // A process of the replay may still be there and write to them.
        if let Some(own_memory) = own_memory.filter(|_| run.ending == Ending::Completed) {
            self.spares.recycle(own_memory);
        }
        Ok(MadeRun { run, is_lane_idle, is_walled, refused_calls })
    }

    fn wrapping(&self, wrapper: &Wrapper) -> Wrapping {
        let program = self.program.clone().into_os_string();
        let ours = [program, CHILD_ARGUMENT.into(), ALONE.into()];
        let arguments = wrapper.arguments.iter().cloned().chain(ours).collect();
        Wrapping { program: wrapper.program.clone(), arguments }
    }

    fn lost(&self) -> WorkerError {
        WorkerError::Lost { memory_ran_out: self.memory_ran_out() }
    }

    /// Whether the system has ended a process for lack of memory since these were made.
    fn memory_ran_out(&self) -> bool {
        process::memory_kills() > self.memory_kills
    }
}

impl Zygote {
    fn start(program: &PathBuf) -> io::Result<Zygote> {
        let (own_end, other_end) = socket::create_socket_pair()?;
        let mut command = Command::new(program);
        command.arg(CHILD_ARGUMENT).stdin(Stdio::from(other_end));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let variables = std::env::vars_os();
        command.env_clear().envs(variables.filter(|(name, _)| is_kernel_variable(name)));
        Ok(Zygote { child: command.spawn()?, socket: own_end })
    }

    fn request_keeper(&self, socket: &OwnedFd) -> io::Result<()> {
        socket::send_message(&self.socket, zygote::KEEPER, &[socket.as_fd()])
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It ends by itself once nobody asks any more, and everything below it ends first.
        let (closed_end, _) = match socket::create_socket_pair() {
            Ok(pair) => pair,
            Err(_) => return,
        };
        drop(std::mem::replace(&mut self.socket, closed_end));
        let _ = self.child.wait();
    }
}

/// Everything received until a replay has ended.
struct Heard {
    printed: Printed,
    /// None if the keeper has gone or takes too long.
    answer: Option<KeeperAnswer>,
    timed_out: bool,
}

impl KeeperClient {
    fn send(&self, request: &KeeperRequest, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(request).expect("requests are plain data");
        socket::send_message(&self.socket, &text, files)
    }

    /// Reads the replay's output until the keeper answers. Once `timeout` has passed since `started_at`, sends
    /// the replay SIGTERM, and SIGKILL a little later. An interruption by the user ends the listening.
    fn listen(&self, printed: &File, started_at: Instant, timeout: Duration) -> io::Result<Heard> {
        let mut heard_output =
            Heard { printed: Printed::default(), answer: None, timed_out: false };
        let mut stages = [(libc::SIGTERM, GRACE), (libc::SIGKILL, LAST_GRACE)].into_iter();
        let mut deadline = started_at + timeout;
        let mut is_open = true;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let files = [is_open.then(|| printed.as_fd()), Some(self.socket.as_fd())];
            let [prints, has_answer] = process::wait_for(files, Some(left))?;
            // An answer counts though this process may have been stopped meanwhile.
            if left.is_zero() && !has_answer {
                let Some((signal, grace)) = stages.next() else { return Ok(heard_output) };
                // If the keeper has gone, the next message says so.
                let _ = self.send(&KeeperRequest::Signal { signal }, &[]);
                heard_output.timed_out = true;
                deadline = Instant::now() + grace;
                continue;
            }
            if prints {
                is_open = heard_output.hear(printed, &mut buffer)? > 0;
            }
            if has_answer {
                let answer = socket::receive_message(&self.socket)?;
                heard_output.answer =
                    answer.and_then(|(text, _)| serde_json::from_slice(&text).ok());
                break;
            }
        }
        let mut left_over = LEFT_OVER;
        while is_open && left_over > 0 {
            let [ready] = process::wait_for([Some(printed.as_fd())], Some(Duration::ZERO))?;
            let count = if ready { heard_output.hear(printed, &mut buffer)? } else { 0 };
            is_open = count > 0;
            left_over = left_over.saturating_sub(count);
        }
        Ok(heard_output)
    }
}

impl Heard {
    fn hear(&mut self, mut printed: &File, buffer: &mut [u8]) -> io::Result<usize> {
        let count = printed.read(buffer)?;
        self.printed.push(&buffer[..count]);
        Ok(count)
    }
}

/// The address space of a child for `job`.
pub(super) fn address_space(job: &Job, limits: Limits) -> u64 {
    match job.device {
        DeviceJob::Cpu { threads, .. } => limits.address_space_bytes(threads),
        // The driver reserves addresses for all memory it could ever map.
        DeviceJob::Cuda { .. } => libc::RLIM_INFINITY,
    }
}
