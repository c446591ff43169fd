//! Requests to a program, and their variables.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use replay_base::summary::Poison;
use replay_base::tensor::DType;
use replay_runtime::cpu::Rounding;
use replay_runtime::cpu::order::Order;

/// The version of the protocol.
pub(super) const PROTOCOL: &str = "1";
/// Where a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramDevice {
    Cpu,
    /// A GPU: the one with this number, or the first.
    Cuda(Option<usize>),
}

impl ProgramDevice {
    pub(super) fn name(self) -> &'static str {
        match self {
            ProgramDevice::Cpu => "cpu",
            ProgramDevice::Cuda(_) => "cuda",
        }
    }
}

/// The memory around each tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramSurroundings {
    Zero,
    Nan,
}

impl ProgramSurroundings {
    fn name(self) -> &'static str {
        match self {
            ProgramSurroundings::Zero => "zero",
            ProgramSurroundings::Nan => "nan",
        }
    }
}

/// One replay.
#[derive(Clone, Debug)]
pub struct ProgramRequest {
    /// The dtype of narrower floating-point inputs and of the computation: float64 or float32.
    pub wide: Option<DType>,
    /// Whether a twin widens explicit casts to float32.
    pub widen_casts: bool,
    /// How operations round.
    pub rounding: Rounding,
    /// The file with the record of roundings to integers, where `rounding` has one.
    pub record: Option<PathBuf>,
    /// The memory around each tensor.
    pub surroundings: ProgramSurroundings,
    /// Where it computes.
    pub device: ProgramDevice,
    /// Whether the program looks at its accesses to memory.
    pub checks_accesses: bool,
    /// The order of the programs of a grid.
    pub order: Order,
    /// The pattern in memory before anybody writes it.
    pub unwritten: Poison,
}

impl ProgramRequest {
    pub(super) fn precision(&self) -> &'static str {
        match self.wide {
            None => "native",
            Some(DType::F32) => "float32",
            Some(_) => "float64",
        }
    }

    pub(super) fn rounding(&self) -> &'static str {
        match self.rounding {
            Rounding::Nearest => "nearest",
            Rounding::Down => "down",
            Rounding::Up => "up",
            Rounding::TowardZero => "zero",
            Rounding::Passed => "passed",
            Rounding::Recorded => "recorded",
            Rounding::RecordedInside => "recorded_inside",
            Rounding::Straight => "straight",
            Rounding::Held => "held",
        }
    }

    pub(super) fn casts(&self) -> &'static str {
        if self.widen_casts { "wide" } else { "kept" }
    }

    pub(super) fn check(&self) -> &'static str {
        if self.checks_accesses { "accesses" } else { "off" }
    }

    pub(super) fn order(&self) -> String {
        match self.order {
            Order::LINEAR => "indices".to_owned(),
            Order::REVERSED => "reversed".to_owned(),
            Order(seed) => format!("{seed:x}"),
        }
    }

    /// The pattern's bytes, in hexadecimal.
    pub(super) fn unwritten(&self) -> String {
        self.unwritten.pattern.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn surroundings(&self) -> &'static str {
        self.surroundings.name()
    }
}

/// The files of one replay.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub inputs: PathBuf,
    pub tree: PathBuf,
    pub outputs: PathBuf,
    pub answer: PathBuf,
    pub temporary: PathBuf,
    /// The folder that the replay's process may write. It holds outputs, answer and temporary files.
    pub own: PathBuf,
}

impl Places {
    /// Those of a replay of `tree` that reads in `handed` and writes in `work`, with the folder of temporary files made.
    pub(super) fn make(tree: PathBuf, handed: &Path, work: &Path) -> std::io::Result<Places> {
        let temporary = work.join("tmp");
        std::fs::create_dir(&temporary)?;
        Ok(Places {
            inputs: handed.join("inputs.safetensors"),
            tree,
            outputs: work.join("outputs.safetensors"),
            answer: work.join("answer.json"),
            temporary,
            own: work.to_owned(),
        })
    }
}

/// The variables of a program with one replay to make.
pub(super) fn request_variables(
    request: &ProgramRequest,
    places: &Places,
) -> Vec<(OsString, OsString)> {
    let replay_variables: [(&str, OsString); 14] = [
        ("REPLAY_PROTOCOL", PROTOCOL.into()),
        ("REPLAY_INPUTS", places.inputs.clone().into()),
        ("REPLAY_OUTPUTS", places.outputs.clone().into()),
        ("REPLAY_ANSWER", places.answer.clone().into()),
        ("REPLAY_TREE", places.tree.clone().into()),
        ("REPLAY_PRECISION", request.precision().into()),
        ("REPLAY_ROUNDING", request.rounding().into()),
        ("REPLAY_RECORD", request.record.clone().unwrap_or_default().into()),
        ("REPLAY_CASTS", request.casts().into()),
        ("REPLAY_SURROUNDINGS", request.surroundings().into()),
        ("REPLAY_CHECK", request.check().into()),
        ("REPLAY_ORDER", request.order().into()),
        ("REPLAY_UNWRITTEN", request.unwritten().into()),
        ("TMPDIR", places.temporary.clone().into()),
    ];
    replay_variables.into_iter().map(|(name, value)| (OsString::from(name), value)).collect()
}
