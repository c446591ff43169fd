//! The child processes for runs of an artifact on a fixture, and the communication with them.
//!
//! In this process, `keeper_client` asks for runs and keeps them within their limits, `run` holds their results,
//! and a `series` holds clients for runs of one artifact on one fixture. The `zygote` is this program,
//! started once more; it forks a `keeper` for each client. A keeper forks one `member` after the other, and
//! `child` runs in the member. If possible the member is a fork of a `template` with artifact and fixture loaded.
//! Only members and templates run replayed code. The keeper sees how a member really ended, and
//! ends all processes below it. When this process is gone, however it ended, the keepers end everything.

mod child;
mod deviations;
mod error;
mod evaluations;
#[doc(hidden)]
pub mod fuzz;
mod inputs;
mod keeper;
mod keeper_client;
mod limits;
mod memory;
mod path;
mod printed_text;
mod refusal;
mod replay_process;
mod run;
mod run_paths;
mod series;
mod socket;
mod template;
mod tensors;
mod zygote;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use replay_base::process::seccomp_filter::FileStates;
use replay_base::process::tracer::RefusedCall;
use replay_base::process::tree::End;
use replay_base::process::walls::{Connections, PROCESSES, Sandbox, Walls, list_driver_paths};
use replay_base::summary::Poison;
use replay_base::tensor::step::{LinePoint, Scales, Step};
use replay_base::tensor::{DType, parallel};
use replay_cuda::sanitizer::Tool;
use replay_fixture::fixture::InputElements;
use replay_frontend::Precision;
use replay_runtime::cpu::Rounding;

pub use self::error::WorkerError;
pub use self::keeper_client::ReplayWorkers;
pub use self::limits::Limits;
pub(crate) use self::memory::round_up_memory;
pub(crate) use self::printed_text::shorten_printed_text;
pub(crate) use self::refusal::{advise_on_refused_calls, tells_of_refusal};
pub use self::run::{Ending, Narrow, OutputTensor, Run, UnfitOutput};
pub(crate) use self::run::{NOTE, tensor_bytes};
use self::run_paths::list_run_paths;
pub use self::series::RunSeries;

/// The first argument of this program as a child; not for users.
pub const CHILD_ARGUMENT: &str = "--replay-worker";
/// The argument after it for a child with one replay. Its standard input describes the replay.
const ALONE: &str = "alone";

/// How long killed processes may take to go.
const GOING: Duration = Duration::from_secs(1);
/// How much rather than others replays are ended where memory runs out.
const GO_FIRST: u16 = 500;

/// The device of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceJob {
    /// The reference machine.
    Cpu {
        /// Operating-system threads for blocks.
        threads: usize,
        /// The order of blocks and threads; 0 is that of their indices.
        order: u64,
        /// How operations round.
        rounding: Rounding,
        /// The file with the record of roundings to integers; empty where `rounding` has none.
        #[serde(with = "path")]
        record: PathBuf,
    },
    Cuda {
        ordinal: usize,
        /// The file of the module for it.
        #[serde(with = "path")]
        module: PathBuf,
        /// The files of the modules for summaries, by dtype. Outputs with one of these dtypes stay
        /// on the device; if the list is empty, all outputs are fetched.
        #[serde(with = "path::by_dtype")]
        summaries: Vec<(DType, PathBuf)>,
        /// The folders with NVIDIA's libraries; none if the sources call none of them.
        #[serde(with = "path::all")]
        libraries: Vec<PathBuf>,
        /// Whether summarised outputs are written as well.
        fetched: bool,
        /// The tool around the child. It decides about the child's memory.
        sanitizer: Option<Tool>,
    },
}

impl DeviceJob {
    fn is_gpu(&self) -> bool {
        matches!(self, DeviceJob::Cuda { .. })
    }

    /// Whether outputs are written even if the device summarises them.
    fn fetches(&self) -> bool {
        matches!(self, DeviceJob::Cuda { fetched: true, .. })
    }

    /// How many threads may get the replay ready.
    fn threads(&self) -> usize {
        match self {
            DeviceJob::Cpu { threads, .. } => *threads,
            DeviceJob::Cuda { .. } => parallel::count_cores(),
        }
    }
}

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The shared object.
    #[serde(with = "path")]
    pub artifact: PathBuf,
    /// The fixture's folder.
    #[serde(with = "path")]
    pub fixture: PathBuf,
    /// The elements of its inputs.
    pub elements: InputElements,
    /// The meaning of `float` in the artifact.
    pub precision: Precision,
    pub device: DeviceJob,
    /// The pattern in memory before it is written.
    pub poison: Poison,
    /// Bytes of device memory.
    pub memory_limit_bytes: u64,
    /// The folder for outputs too large for memory.
    #[serde(with = "path")]
    pub folder: PathBuf,
    /// A change of one input, for directional derivatives; only in a shadow.
    pub step: Option<Stepped>,
    /// How much of the call is made.
    pub part: CallPart,
    /// The number and the inputs of its calls.
    pub calls: JobCalls,
}

/// The calls of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobCalls {
    /// One call.
    Once,
    /// A call for each step, on inputs moved by it. Without a step they stay as they are. [`Job::step`] names
    /// the input, and [`Job::part`] the output of each call. Only on a GPU.
    AtSteps(Vec<Option<Step>>),
    /// A call in each direction of rounding. The outputs hold how far each element of a floating-point output moves;
    /// the sign is negative if one direction moves it more than `jump` times as far as another. Only on a GPU.
    InEachRounding {
        /// The least ratio of two moves for a negative sign.
        jump: f64,
    },
}

/// How much of the call is made, and how much of it is reported. Only the CPU can make less than all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum CallPart {
    #[default]
    Whole,
    /// All, but only the output of this name is reported.
    Told(String),
    /// All, watching when the output of this name is last written.
    Watched(String),
    /// The part before one launch. Only one output is reported. No later launch may write it, by the evidence of a watched
    /// run.
    Before {
        /// The launch, from 0.
        launch: u64,
        /// The output. Nothing is known of the others.
        output: String,
    },
}

impl CallPart {
    /// Whether the output called `name` is to be watched.
    fn watches(&self, name: &str) -> bool {
        matches!(self, CallPart::Watched(output) if output == name)
    }

    /// The launch at the end of the replay. It is not made.
    fn end(&self) -> Option<u64> {
        match self {
            CallPart::Before { launch, .. } => Some(*launch),
            _ => None,
        }
    }

    /// Whether the output called `name` is reported.
    fn tells_of(&self, name: &str) -> bool {
        !matches!(self, CallPart::Before { output, .. } | CallPart::Told(output) if output != name)
    }
}

/// A request to a keeper.
#[derive(Debug, Serialize, Deserialize)]
enum KeeperRequest {
    /// To make a replay. The files of its output, its journal and its outputs come with it; then memory for its large
    /// inputs, if it has any, and the memory of inputs common to several replays, if there is any.
    Run(Box<ReplayOrder>),
    /// To send a signal to the running replay, if there is one.
    Signal {
        /// The signal's number.
        signal: i32,
    },
}

/// One replay, as a member is asked for it.
#[derive(Debug, Serialize, Deserialize)]
struct ReplayOrder {
    job: Job,
    /// The limit of its address space.
    address_space: u64,
    /// Whether a template may make it. All such orders of a keeper load the same artifact and
    /// fixture.
    series: bool,
    /// Whether memory for its own inputs comes with it.
    has_inputs: bool,
    /// The program to run it under, if any.
    wrapper: Option<Wrapping>,
    /// How closely its code is kept.
    sandbox: Sandbox,
    /// Whether its keeper looks on, to tell what is refused. No template makes it.
    is_traced: bool,
}

impl ReplayOrder {
    /// The connections that its code may make.
    fn connections(&self) -> Connections {
        match (self.is_walled(), self.job.device.is_gpu()) {
            (false, _) => Connections::All,
            (true, true) => Connections::Local,
            (true, false) => Connections::None,
        }
    }

    /// Whether its code may change states of files: a kernel on the CPU writes none.
    fn file_states(&self) -> FileStates {
        match self.connections() {
            Connections::None => FileStates::Fixed,
            Connections::Local | Connections::All => FileStates::Free,
        }
    }

    /// Whether there are walls around its code: not without a sandbox, or under a tool, which reaches far.
    fn is_walled(&self) -> bool {
        self.sandbox == Sandbox::AsOffered && self.wrapper.is_none()
    }

    /// The walls around its code, if there are.
    fn walls(&self) -> Option<Walls> {
        if !self.is_walled() {
            return None;
        }
        let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let home = std::env::home_dir().unwrap_or_default();
        let run_paths = list_run_paths(&self.job.artifact, &home);
        let libraries = std::env::split_paths(&libraries).filter(|folder| folder.is_absolute());
        let libraries = libraries.chain(run_paths);
        // The artifact says which line is at fault, and this program where it failed itself.
        let own_files = std::env::current_exe().ok().into_iter().chain([self.job.artifact.clone()]);
        let mut readable: Vec<PathBuf> = libraries.chain(own_files).collect();
        readable.push(PROCESSES.into());
        let mut writable = Vec::new();
        if let DeviceJob::Cuda { module, summaries, libraries, .. } = &self.job.device {
            readable.push(module.clone());
            readable.extend(summaries.iter().map(|(_, module)| module.clone()));
            readable.extend(libraries.iter().cloned());
            writable = list_driver_paths();
        }
        Some(Walls { readable, writable, connections: self.connections(), ..Walls::default() })
    }
}

/// A program to start this one for a replay.
#[derive(Debug, Serialize, Deserialize)]
struct Wrapping {
    #[serde(with = "path")]
    program: PathBuf,
    #[serde(with = "path::all")]
    arguments: Vec<OsString>,
}

/// A keeper's answer.
#[derive(Debug, Serialize, Deserialize)]
enum KeeperAnswer {
    /// The replay has ended, with all its processes.
    Ended {
        end: End,
        /// What the system refused to it, if it was traced.
        refused_calls: Vec<RefusedCall>,
    },
    /// It could not be begun.
    Failed {
        /// The failed action.
        doing: String,
        /// The system's number of the reason.
        error: i32,
    },
}

/// Does the work of a child process, instead of the user's program. The process must exit with the
/// returned status.
pub fn run_child() -> i32 {
    match std::env::args_os().nth(2) {
        Some(argument) if argument == ALONE => replay_process::run_alone(),
        _ => zygote::serve_zygote(),
    }
}

/// A step away from the captured values of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    pub input: String,
    /// How its elements move.
    pub step: Step,
    /// The scales of its rows. They have a way of their own to the child.
    #[serde(skip)]
    pub scales: Arc<Scales>,
}

/// A move of the inputs of a replay away from their captured values.
#[derive(Clone, Debug, PartialEq)]
pub enum InputChange {
    None,
    /// A step of one input.
    Step(Stepped),
    /// A tenth of the elements of all inputs move by a unit in the last place.
    Nudge {
        /// Draws the elements.
        seed: u64,
    },
    /// All inputs move to one point of a line.
    Line(LinePoint),
}

impl InputChange {
    /// The step of one input, if the change is one.
    pub fn step(&self) -> Option<&Stepped> {
        match self {
            InputChange::Step(stepped) => Some(stepped),
            InputChange::None | InputChange::Nudge { .. } | InputChange::Line(_) => None,
        }
    }
}

/// How outputs come back from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTransfer {
    /// Their elements are copied.
    Elements,
    /// The device summarises them, and keeps their elements.
    Summaries,
    /// The device summarises them, and their elements are copied as well.
    SummariesAndElements,
}

impl OutputTransfer {
    /// Whether the device summarises outputs.
    pub(crate) fn summarizes(self) -> bool {
        self != OutputTransfer::Elements
    }

    /// Whether elements are copied.
    pub(crate) fn fetches(self) -> bool {
        self != OutputTransfer::Summaries
    }
}

impl Job {
    /// Whether the artifact computes in float64.
    fn is_shadow(&self) -> bool {
        self.precision == Precision::Shadow
    }

    /// The file with the record of roundings to integers, where it has one.
    fn record(&self) -> Option<&Path> {
        match &self.device {
            DeviceJob::Cpu { rounding, record, .. } if rounding.has_record() => Some(record),
            _ => None,
        }
    }

    /// The tracing span of the replay.
    fn span(&self) -> tracing::Span {
        tracing::debug_span!("run", message = %JobLine(self))
    }
}

/// A job in one line, with its differences from its neighbours.
struct JobLine<'a>(&'a Job);

impl fmt::Display for JobLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { device, poison, step, part, .. } = self.0;
        write!(f, "{:?}, ", self.0.precision)?;
        match device {
            DeviceJob::Cpu { threads, order, rounding, .. } => {
                write!(f, "cpu, {threads} threads, {rounding:?}")?;
                if *order != 0 {
                    write!(f, ", order {order:x}")?;
                }
            }
            DeviceJob::Cuda { ordinal, .. } => write!(f, "cuda:{ordinal}")?,
        }
        write!(f, ", poison {:02x}", poison.pattern[0])?;
        if let JobCalls::InEachRounding { .. } = self.0.calls {
            write!(f, ", each rounding")?;
        }
        if let Some(Stepped { input, step, .. }) = step {
            match &self.0.calls {
                JobCalls::AtSteps(steps) => write!(f, ", {input} moved {} times", steps.len())?,
                _ => write!(f, ", {input} moved by {:.1e}", step.length)?,
            }
        }
        part.end().map_or(Ok(()), |launch| write!(f, ", up to launch {launch}"))
    }
}
