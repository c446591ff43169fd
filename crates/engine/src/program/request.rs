//! Requests to a program, and their variables.

use std::ffi::OsString;
use std::path::PathBuf;

use replay_base::summary::Poison;
use replay_base::tensor::DType;
use replay_runtime::cpu::Rounding;
use replay_runtime::cpu::order::Order;

/// The version of the protocol.
pub(super) const PROTOCOL: &str = "1";
/// The number of threads for libraries. One thread for each replay gives the same bits on every machine, and replays
/// run side by side instead.
const THREADS: &str = "1";
/// The variables with the number of threads.
const THREAD_VARIABLES: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

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

/// The environment of every command of a harness: that of the user with the harness's own variables. Others keep the
/// machine and earlier runs out of the results.
pub(super) fn program_environment<'e>(
    user: &[(OsString, OsString)],
    own_variables: impl Iterator<Item = (&'e String, &'e String)>,
    device: ProgramDevice,
) -> Vec<(OsString, OsString)> {
    let mut all_variables: Vec<(OsString, OsString)> = user
        .iter()
        .filter(|(name, _)| {
            // Programs may keep a cache of their own beside.
            name == "REPLAY_CACHE_DIR" || !name.as_encoded_bytes().starts_with(b"REPLAY_")
        })
        .cloned()
        .collect();
    set_variable(&mut all_variables, "PYTHONDONTWRITEBYTECODE", "1");
    set_variable(&mut all_variables, "PYTHONHASHSEED", "0");
    if let ProgramDevice::Cuda(Some(number)) = device {
        set_variable(&mut all_variables, "CUDA_VISIBLE_DEVICES", &number.to_string());
    }
    for (name, value) in own_variables {
        set_variable(&mut all_variables, name, value);
    }
    for name in THREAD_VARIABLES {
        if !all_variables.iter().any(|(known_name, _)| known_name.as_os_str() == name) {
            all_variables.push((name.into(), THREADS.into()));
        }
    }
    set_variable(&mut all_variables, "REPLAY_THREADS", THREADS);
    set_variable(&mut all_variables, "REPLAY_DEVICE", device.name());
    all_variables
}

/// Gives the variable `name` this value, whether it is there or not.
fn set_variable(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    match variables.iter_mut().find(|(known_name, _)| known_name.as_os_str() == name) {
        Some((_, known_value)) => *known_value = value.into(),
        None => variables.push((name.into(), value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_has_the_last_word_on_its_environment() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let user = [pair("OMP_NUM_THREADS", "3"), pair("REPLAY_TREE", "/x"), pair("A", "user")];
        let own = [("A".to_owned(), "own".to_owned())];
        let own = own.iter().map(|(name, value)| (name, value));
        let all = program_environment(&user, own, ProgramDevice::Cuda(Some(2)));
        let value = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, v)| v);
        assert_eq!(value("A"), Some(&"own".into()));
        assert_eq!(value("OMP_NUM_THREADS"), Some(&"3".into()));
        assert_eq!(value("MKL_NUM_THREADS"), Some(&"1".into()));
        assert_eq!(value("CUDA_VISIBLE_DEVICES"), Some(&"2".into()));
        assert_eq!(value("REPLAY_TREE"), None);
    }
}
