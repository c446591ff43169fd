//! Drafts of `replay init` for the functions of `tests/engine/shipped`, replayed without an edit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use replay::fixture::{self, Fixture};
use replay::harness::{Extent, Harness, InputSpec};
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::tensor::DType;
use replay::trial::{Lab, Status, Subject};

use super::project::{Machine, lab};

/// A repository with the sources, and the drafts for them.
struct Drafts {
    dir: tempfile::TempDir,
    /// Each with the source that it calls.
    harnesses: Vec<PathBuf>,
}

/// A function that a draft calls, and the number by which the draft chooses it.
struct Function {
    harness: PathBuf,
    name: String,
    number: Option<i32>,
}

impl Drafts {
    /// Drafts for each of `sources`, which lie in the folder `from`.
    fn new(from: &str, sources: &[&str]) -> Drafts {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
        let git = |words: &[&str]| {
            let done = Command::new("git").current_dir(dir.path()).args(words).output().unwrap();
            assert!(done.status.success(), "{words:?}");
        };
        git(&["init", "-q"]);
        fs::create_dir(dir.path().join("csrc")).unwrap();
        for entry in folder.read_dir().unwrap().flatten() {
            fs::copy(entry.path(), dir.path().join("csrc").join(entry.file_name())).unwrap();
        }
        let mut harnesses = Vec::new();
        for source in sources {
            let output = format!("{}.toml", source.trim_end_matches(".cu"));
            let done = Command::new(env!("CARGO_BIN_EXE_replay"))
                .current_dir(dir.path())
                .args(["init", &format!("csrc/{source}"), "--output", &output])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
            let written = told.lines().filter_map(|line| line.strip_prefix("wrote "));
            harnesses.extend(written.map(|line| dir.path().join(line.split(',').next().unwrap())));
        }
        Drafts { dir, harnesses }
    }

    /// The functions that the drafts call.
    fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for harness in &self.harnesses {
            let text = fs::read_to_string(harness).unwrap();
            let (_, rest) = text.split_once("call = \"\"\"\n").unwrap();
            let (calls, _) = rest.split_once("\"\"\"").unwrap();
            for call in calls.lines().filter(|line| line.contains(");")) {
                let chosen = call.strip_prefix("case ").and_then(|rest| rest.split_once(": "));
                let number = chosen.map(|(number, _)| number.parse().unwrap());
                let text = chosen.map_or(call, |(_, text)| text);
                let text = text.split(" = ").last().unwrap();
                let name = text.split(['(', '<']).next().unwrap().to_owned();
                found.push(Function { harness: harness.clone(), name, number });
            }
        }
        found
    }

    fn sources(&self, harness: &Harness) -> Arc<SourceSet> {
        let spec = SourceSpec {
            sources: harness.sources.clone(),
            include: harness.include.clone(),
            ..SourceSpec::default()
        };
        source_set_from_dir(self.dir.path(), &spec).unwrap().into()
    }

    /// Replays `function` with the sizes of [`size`]; why that fails, if it does.
    fn run(&self, function: &Function, lab: &Arc<Lab>) -> Result<(), String> {
        let harness = Harness::load(&function.harness).map_err(|error| error.to_string())?;
        let fixture = self.fixture(function, &harness)?;
        let sources = self.sources(&harness);
        let trial = lab.trial(&Subject::new(fixture).into(), &sources);
        let outcome = trial.outcome().map_err(|error| format!("{error:?}"))?;
        match &outcome.status {
            Status::Completed => Ok(()),
            other => Err(format!("{other:?}").chars().take(600).collect()),
        }
    }

    fn fixture(&self, function: &Function, harness: &Harness) -> Result<Fixture, String> {
        let name = function.harness.file_stem().unwrap().to_string_lossy().into_owned();
        let at = self.dir.path().join(format!("{name}-{}", function.name));
        fs::create_dir_all(&at).unwrap();
        let file = function.harness.file_name().unwrap().to_string_lossy().into_owned();
        let mut scalars = String::new();
        let mut stored: Vec<(String, DType, Vec<usize>, Vec<u8>)> = Vec::new();
        for (name, spec) in &harness.inputs {
            if spec.shape.is_empty() {
                let value = match (name.as_str(), function.number) {
                    ("kernel", Some(number)) => number.to_string(),
                    _ if spec.dtype.is_float() => "0.125".to_owned(),
                    _ if spec.dtype == DType::Bool => "false".to_owned(),
                    _ => "1".to_owned(),
                };
                scalars += &format!("{name} = {value}\n");
                continue;
            }
            let shape = shape(spec);
            stored.push((name.clone(), spec.dtype, shape.clone(), bytes(spec.dtype, &shape)));
        }
        let sizes: String =
            harness.sizes.iter().map(|name| format!("{name} = {}\n", size(name))).collect();
        let manifest = format!("harness = \"../{file}\"\n[scalars]\n{scalars}[sizes]\n{sizes}");
        fs::write(at.join("fixture.toml"), manifest).unwrap();
        if !stored.is_empty() {
            let tensors = stored
                .iter()
                .map(|(name, dtype, shape, bytes)| (name.as_str(), *dtype, &shape[..], &bytes[..]));
            fixture::write(&at, &tensors.collect::<Vec<_>>(), &[]).unwrap();
        }
        Fixture::load(&at).map_err(|error| error.to_string())
    }
}

/// A size that a captured step may have, by its name.
fn size(name: &str) -> usize {
    match name {
        "B" | "batch" | "groups" => 2,
        "NH" | "heads" | "k" | "K_top" | "bags" => 4,
        "V" => 50,
        "OC" => 96,
        "C" | "P" | "cols" | "hidden" => 64,
        "N" | "n" | "num_parameters" | "count" => 512,
        "M" | "K" | "dim" | "bins" | "group" => 32,
        "H" | "W" | "HW" | "E" | "rows" => 8,
        _ => 16,
    }
}

fn shape(spec: &InputSpec) -> Vec<usize> {
    let extent = |extent: &Extent| match extent {
        Extent::Fixed(size) => *size,
        Extent::Named(name) => size(name),
    };
    spec.shape.iter().map(extent).collect()
}

/// Numbers between 0 and 1, but not these; integers are 0 and 1.
fn bytes(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let count: usize = shape.iter().product();
    let one = |index: usize| -> Vec<u8> {
        let x = (index * 37 % 101 + 1) as f32 / 102.0;
        match dtype {
            DType::F32 => x.to_le_bytes().into(),
            DType::F64 => f64::from(x).to_le_bytes().into(),
            DType::F16 => half::f16::from_f32(x).to_le_bytes().into(),
            DType::BF16 => half::bf16::from_f32(x).to_le_bytes().into(),
            _ => {
                let mut bytes = vec![0; dtype.size()];
                bytes[0] = (index % 2) as u8;
                bytes
            }
        }
    };
    (0..count).flat_map(one).collect()
}

const SOURCES: [&str; 9] = [
    "norms.cu",
    "losses.cu",
    "activations.cu",
    "attention.cu",
    "embedding.cu",
    "optimizers.cu",
    "matmul.cu",
    "moving.cu",
    "bare.cu",
];

/// The functions of `drafts` that run, of those that `wanted` chooses by their place.
fn share(drafts: &Drafts, wanted: impl Fn(usize) -> bool) -> (usize, usize) {
    let lab = lab("", Machine::PLAIN);
    let functions = drafts.functions();
    let chosen: Vec<&Function> =
        functions.iter().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, f)| f).collect();
    let failed: Vec<String> = chosen
        .iter()
        .filter_map(|function| {
            let why = drafts.run(function, &lab).err()?;
            Some(format!("{}: {}", function.name, why.lines().next().unwrap_or_default()))
        })
        .collect();
    for line in &failed {
        println!("{line}");
    }
    println!("{} of {} run as drafted", chosen.len() - failed.len(), chosen.len());
    (chosen.len() - failed.len(), chosen.len())
}

#[test]
fn three_quarters_of_a_sample_of_drafts_run_as_they_are() {
    let drafts = Drafts::new("tests/engine/shipped", &SOURCES);
    let functions = drafts.functions().len();
    assert!(functions >= 40, "{functions}");
    let (run, of) = share(&drafts, |at| at % 8 == 3);
    assert!(run * 4 >= of * 3, "{run} of {of}");
}

#[test]
#[ignore = "compiles as many harnesses as there are functions"]
fn three_quarters_of_all_drafts_run_as_they_are() {
    let drafts = Drafts::new("tests/engine/shipped", &SOURCES);
    let (run, of) = share(&drafts, |_| true);
    assert!(of >= 40 && run * 4 >= of * 3, "{run} of {of}");
}
