//! The child process in which an artifact meets a fixture, and how to talk to it.
//!
//! `parent` starts a child, `account` keeps it within its limits and collects what it says, `run` is
//! what that amounts to; `child` is what runs there. Of several runs of one artifact on one fixture
//! `series` asks a `template`, a child that loads both once and forks. One replay a process: nothing
//! that replayed code does reaches this one, or another run.

mod account;
mod child;
mod limits;
mod parent;
mod run;
mod series;
mod socket;
mod template;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::frontend::Precision;
use crate::runtime::cpu::Rounding;
use crate::sanitizer::Tool;
use crate::summary::Poison;
use crate::tensor::DType;

pub use self::child::run as run_child;
pub use self::limits::Limits;
pub use self::parent::{WorkerError, start};
pub use self::run::{Ending, OutputTensor, Run};
pub use self::series::Series;

/// The argument with which the program starts itself as a child; not for users.
pub const CHILD_ARGUMENT: &str = "--replay-worker";
/// The argument behind it with which that child serves a series.
const SERIES: &str = "series";

/// Which device a replay runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceJob {
    /// The reference machine.
    Cpu {
        /// Operating-system threads that run blocks.
        threads: usize,
        /// The order of blocks and threads; 0 is that of their indices.
        order: u64,
        /// How operations round.
        rounding: Rounding,
    },
    /// A GPU.
    Cuda {
        /// Its number.
        ordinal: usize,
        /// The file of the module that was built for it.
        module: PathBuf,
        /// The files of the modules that summarise, by dtype. Outputs with one of these dtypes
        /// stay on the device; empty where all are wanted.
        summaries: Vec<(DType, PathBuf)>,
        /// What the child runs under, which decides about its memory.
        sanitizer: Option<Tool>,
    },
}

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The shared object.
    pub artifact: PathBuf,
    /// The fixture's folder.
    pub fixture: PathBuf,
    /// Whether the artifact computes in float64.
    pub shadow: bool,
    /// The device.
    pub device: DeviceJob,
    /// What memory holds before it is written.
    pub poison: Poison,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Where outputs lie that are too large to be kept in memory.
    pub folder: PathBuf,
    /// A change of one input, for directional derivatives; only in a shadow.
    pub step: Option<Step>,
    /// How much of the call is made.
    pub part: Part,
}

/// How much of the call is made; the CPU alone can make less than all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// All.
    #[default]
    Whole,
    /// All, watching when the output of this name is last written.
    Watched(String),
    /// What comes before one launch. It tells of one output alone, which must have been seen to be
    /// written by none of the rest.
    Before {
        /// The launch, from 0.
        launch: u64,
        /// The output. Nothing is known of the others.
        output: String,
    },
}

impl Part {
    /// Whether the output called `name` is to be watched.
    fn watches(&self, name: &str) -> bool {
        matches!(self, Part::Watched(output) if output == name)
    }

    /// The launch that the replay ends at.
    fn end(&self) -> Option<u64> {
        match self {
            Part::Before { launch, .. } => Some(*launch),
            _ => None,
        }
    }

    /// Whether it tells of the output called `name`.
    fn tells_of(&self, name: &str) -> bool {
        !matches!(self, Part::Before { output, .. } if output != name)
    }
}

/// What the parent asks of the template of a series.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// To make a replay. The pipes for reports, for what is printed, the memory for outputs, and the
    /// pipe for how it ended come with it.
    Run {
        /// What it is called from here on.
        number: u64,
        /// The first one says what to load; all others load the same.
        job: Box<Job>,
    },
    /// To send a signal to a replay, if it has not ended.
    Signal {
        /// Which.
        number: u64,
        /// The signal's number.
        signal: i32,
    },
}

/// `input + length * direction`, with a direction of +1 and -1 drawn from `seed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The input.
    pub input: String,
    /// What the direction is drawn from.
    pub seed: u64,
    /// The length, in the units of the input.
    pub length: f64,
}

impl Job {
    /// What `float` means in the artifact.
    pub fn precision(&self) -> Precision {
        if self.shadow { Precision::Shadow } else { Precision::Native }
    }
}

/// The sign, +1 or -1, of element `index` in the direction drawn from `seed`.
pub fn direction(seed: u64, index: u64) -> f64 {
    let mut x = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    if (x >> 63) == 0 { 1.0 } else { -1.0 }
}
