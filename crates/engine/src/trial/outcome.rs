//! The outcome of a replay: its ending, its outputs, and the failures of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::worker::{Ending, NOTE};
use replay_base::process::memory::MemoryExcess;
use replay_base::summary::{Number, Summary, slice_norms, summarize_tensor};
use replay_base::tensor::{DType, Dim, TensorView, unravel_index};
use replay_cuda::sanitizer::{SanitizerFinding, Tool};
use replay_fixture::fixture::{Fixture, FixtureError};
use replay_runtime::report::{CALL_MISFIT, LaunchRecord, ReplayFault};

/// The outcome of one revision, as far as it shows without another revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The device's class: `cpu`, `sm_90`.
    pub device: String,
    /// The device, for people.
    pub device_description: String,
    /// The compiler's version.
    pub compiler: String,
    /// The number of the fitting call of the harness, from 0; none if the sources do not compile.
    pub call: Option<usize>,
    /// How it ended.
    pub status: Status,
    /// The launches, in order.
    pub launches: Vec<LaunchRecord>,
    /// The number of all launches; more than `launches` has if there were very many.
    pub launch_count: u64,
    /// The outputs, in the order of the harness; empty unless the call returned.
    pub outputs: Vec<OutputRecord>,
    /// The flags of frameworks and the variables that a program had, as far as it has told them.
    pub settings: BTreeMap<String, String>,
    /// The text printed by the code.
    pub printed: String,
}

impl Outcome {
    /// The notes of a program, a line each.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.printed.lines().filter_map(|line| line.strip_prefix(NOTE))
    }

    /// Whether its replay was out of time.
    pub(crate) fn is_late(&self) -> bool {
        let Status::Failed(failures) = &self.status else { return false };
        failures.iter().any(|failure| matches!(failure, Failure::Timeout { .. }))
    }

    /// Whether output `name` is written, and finite.
    pub(crate) fn is_finite(&self, name: &str) -> bool {
        let records = self.outputs.iter().filter(|record| record.name == name);
        records.into_iter().all(|record| record.summary.nan + record.summary.inf == 0)
    }

    /// Whether identical replays give other values in output `name`, by more than rounding.
    pub fn is_unsteady(&self, name: &str) -> bool {
        let Status::Failed(failures) = &self.status else { return false };
        failures.iter().any(|failure| match failure {
            Failure::NotDeterministic { output, .. } => output == name,
            _ => false,
        })
    }

    /// How the harness's call differs from the functions that it calls, in words; none if the call fits.
    pub fn call_misfit(&self) -> Option<&str> {
        let Status::Failed(failures) = &self.status else { return None };
        failures.iter().find_map(|failure| match failure {
            Failure::Fault { fault } if fault.what == CALL_MISFIT => Some(fault.detail.as_str()),
            _ => None,
        })
    }

    /// Whether it completed, or failed only by NaN or infinity, in outputs where `base`
    /// failed by such values too: elements then tell whether they lie in the same places.
    pub fn can_be_compared_with(&self, base: &Outcome) -> bool {
        let Status::Failed(failures) = &self.status else {
            return self.status == Status::Completed;
        };
        let known_outputs: Vec<&str> = match &base.status {
            Status::Failed(failures) => {
                failures.iter().filter_map(Failure::non_finite_output).collect()
            }
            _ => Vec::new(),
        };
        failures.iter().all(|failure| {
            failure.non_finite_output().is_some_and(|name| known_outputs.contains(&name))
        })
    }
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every output was written, from inputs alone, and is finite where the inputs are.
    Completed,
    /// It was run and something is wrong; at least one failure.
    Failed(Vec<Failure>),
    /// It could not be run: the revision does not build, or the call does not fit.
    Untestable {
        /// Why, in a sentence.
        reason: String,
        /// The causes of the reason, outermost first.
        causes: Vec<String>,
        /// Advice to the user.
        hint: Option<String>,
    },
}

/// A fault of a replay, visible without another revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Failure {
    /// A launch was refused.
    Launch {
        /// The launch, with CUDA's words.
        launch: LaunchRecord,
    },
    /// Device or host code ended the replay by an error.
    Fault {
        /// The error and its place.
        fault: ReplayFault,
    },
    /// The code called `exit`.
    Exit {
        /// The exit status.
        code: i32,
    },
    /// The revision's program ended with this status.
    Status {
        /// The exit status.
        code: i32,
    },
    /// A signal caused by the code ended the process.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// The replay did not end within the limit.
    Timeout {
        /// The limit in seconds.
        seconds: f64,
        /// The place reached by then, if it is known.
        place: Option<ReplayFault>,
    },
    /// The program took more memory than a replay may have, with its child processes.
    Memory {
        /// Its memory by then, in bytes.
        taken: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Memory outside of an allocation was written.
    Overrun {
        /// The allocation or tensor, and where the write lies.
        detail: String,
    },
    /// An output has NaN or infinity, from finite inputs.
    NonFinite {
        /// The output.
        output: String,
        /// The number of NaN.
        nan: u64,
        /// The number of infinities.
        inf: u64,
        /// The index of the first of them, along each dimension.
        first: Vec<usize>,
    },
    /// Elements of an output were never written.
    Unwritten {
        /// The output.
        output: String,
        /// The number of these elements.
        count: u64,
        /// The number of all elements of the output.
        of: u64,
        /// The index of the first of them, along each dimension.
        first: Vec<usize>,
    },
    /// Elements of an output depend on unwritten memory.
    PoisonDependent {
        /// The output.
        output: String,
        /// The number of these elements.
        count: u64,
        /// The number of all elements of the output.
        of: u64,
        /// The index of the first of them, along each dimension.
        first: Vec<usize>,
    },
    /// Elements depend on memory around the given tensors.
    OutsideRead {
        /// The output.
        output: String,
        /// The number of these elements.
        count: u64,
        /// The number of all elements of the output.
        of: u64,
        /// The index of the first of them, along each dimension.
        first: Vec<usize>,
    },
    /// The program reports a failure of the revision's code.
    Raised {
        /// The program's words.
        message: String,
    },
    /// It completes, and fails with other content of memory beyond its inputs.
    EndsByPoison {
        /// Whether this memory lies around the given tensors, and not in them.
        outside: bool,
        /// How it fails.
        failure: Box<Failure>,
    },
    /// It completes, and a repetition fails.
    EndsByChance {
        /// How it fails.
        failure: Box<Failure>,
    },
    /// Elements differ in another replay of the same, by more than rounding.
    NotDeterministic {
        /// The output.
        output: String,
        /// The number of these elements.
        count: u64,
        /// The number of all elements of the output.
        of: u64,
        /// The index of the first of them, along each dimension.
        first: Vec<usize>,
        /// The largest difference.
        #[serde(with = "Number")]
        max_abs: f64,
    },
    /// It left something else than the declared outputs.
    Outputs {
        /// The fault, in words.
        problem: String,
        /// The outputs that are missing, otherwise or too much; none if there are no others.
        outputs: Vec<String>,
    },
    /// compute-sanitizer found an error.
    Sanitizer {
        /// The tool of compute-sanitizer.
        tool: Tool,
        /// The finding.
        finding: SanitizerFinding,
    },
}

impl Failure {
    /// The output with NaN or infinity, if these are the failure.
    fn non_finite_output(&self) -> Option<&str> {
        match self {
            Failure::NonFinite { output, .. } => Some(output),
            _ => None,
        }
    }

    /// The outputs that are the failure; none for a failure of the whole replay.
    pub fn outputs(&self) -> Vec<&str> {
        match self {
            Failure::NonFinite { output, .. }
            | Failure::Unwritten { output, .. }
            | Failure::PoisonDependent { output, .. }
            | Failure::OutsideRead { output, .. }
            | Failure::NotDeterministic { output, .. } => vec![output],
            Failure::Outputs { outputs, .. } => outputs.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The kind of failure: a search finds its first commit.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Launch { .. } => "launch error",
            Failure::Fault { .. } => "fault",
            Failure::Exit { .. } | Failure::Status { .. } => "exit",
            Failure::Killed { .. } => "killed",
            Failure::Timeout { .. } => "timeout",
            Failure::Memory { .. } => "memory",
            Failure::Overrun { .. } => "overrun",
            Failure::NonFinite { .. } => "non-finite",
            Failure::Unwritten { .. } => "unwritten",
            Failure::PoisonDependent { .. } => "depends on unwritten memory",
            Failure::OutsideRead { .. } | Failure::EndsByPoison { outside: true, .. } => {
                "reads outside its tensors"
            }
            Failure::EndsByPoison { outside: false, .. } => "depends on unwritten memory",
            Failure::Raised { .. } => "raised",
            // The next replay may fail so at once.
            Failure::EndsByChance { failure } => failure.kind(),
            Failure::NotDeterministic { .. } => "not deterministic",
            Failure::Outputs { .. } => "outputs",
            Failure::Sanitizer { tool, .. } => tool.name(),
        }
    }
}

/// One output of a completed replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputRecord {
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub dims: Vec<Dim>,
    /// Checksum and statistics.
    pub summary: Summary,
    /// Whether unwritten elements show: not where `init` or a program fills them first.
    pub shows_unwritten: bool,
    /// The norms of its slices along small named dimensions.
    pub slices: Vec<Slices>,
}

/// The L2 norms of the slices along one dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// The dimension's name.
    pub dim: String,
    /// One norm for each index, over finite elements.
    pub norms: Vec<f64>,
}

/// Slices are recorded along dimensions of at most so many indices.
const SLICES: usize = 16;

impl Slices {
    /// The slices of `view` along the named dimensions of 2 to 16 indices.
    pub(super) fn measure(view: &TensorView, dims: &[Dim]) -> Vec<Slices> {
        let sliced_dims = dims
            .iter()
            .enumerate()
            .filter(|(_, dim)| (2..=SLICES).contains(&dim.size) && dims.len() > 1);
        sliced_dims
            .filter_map(|(axis, dim)| {
                Some(Slices { dim: dim.name.clone()?, norms: slice_norms(view, axis) })
            })
            .collect()
    }
}

pub(crate) fn failure_of(ending: &Ending) -> Option<Failure> {
    match ending {
        Ending::Completed => None,
        Ending::Fault(fault) => Some(Failure::Fault { fault: fault.clone() }),
        Ending::Exited(code) => Some(Failure::Exit { code: *code }),
        Ending::Status(code) => Some(Failure::Status { code: *code }),
        Ending::Killed(signal) => Some(Failure::Killed { signal: *signal }),
        Ending::TookMemory(MemoryExcess { taken, limit }) => {
            Some(Failure::Memory { taken: *taken, limit: *limit })
        }
        Ending::Unfit(problem) => {
            Some(Failure::Outputs { problem: problem.clone(), outputs: Vec::new() })
        }
        Ending::Unable(message) => Some(Failure::Raised { message: message.clone() }),
        Ending::TimedOut(limit, place) => {
            Some(Failure::Timeout { seconds: limit.as_secs_f64(), place: place.clone() })
        }
    }
}

pub(super) fn memory_failures(
    name: &str,
    view: &TensorView,
    write_summary: &replay_base::summary::PoisonComparison,
    is_around: bool,
) -> Vec<Failure> {
    let of = view.len() as u64;
    let mut failures = Vec::new();
    if write_summary.unwritten > 0 {
        let first = unravel_first(&write_summary.first_unwritten, view.shape);
        failures.push(Failure::Unwritten {
            output: name.to_owned(),
            count: write_summary.unwritten,
            of,
            first,
        });
    }
    if write_summary.poison_dependent > 0 {
        let first = unravel_first(&write_summary.first_poison_dependent, view.shape);
        let output = name.to_owned();
        let count = write_summary.poison_dependent;
        failures.push(if is_around {
            Failure::OutsideRead { output, count, of, first }
        } else {
            Failure::PoisonDependent { output, count, of, first }
        });
    }
    failures
}

/// The first of the row-major `indices`, along each dimension of `shape`; empty if there is none.
fn unravel_first(indices: &[u64], shape: &[usize]) -> Vec<usize> {
    let first = indices.first();
    first.map(|&linear| unravel_index(linear as usize, shape)).unwrap_or_default()
}

pub(super) fn first_non_finite(view: &TensorView) -> Vec<usize> {
    let first = (0..view.len()).find(|&index| !view.get_f64(index).is_finite());
    first.map(|linear| unravel_index(linear, view.shape)).unwrap_or_default()
}

pub(super) fn inputs_are_finite(fixture: &Fixture) -> Result<bool, FixtureError> {
    for input in fixture.inputs.iter().filter(|input| input.dtype.is_float()) {
        let packed = input.packed()?;
        let view = TensorView { dtype: input.dtype, shape: &input.shape(), bytes: &packed };
        let summary = summarize_tensor(&view, None);
        if summary.nan + summary.inf > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
