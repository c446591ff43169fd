//! Checked replays beside compute-sanitizer: who finds what of the cases that `engine/checked.rs` tests.

#[path = "../common/checked_cases.rs"]
mod checked_cases;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use replay::cuda::sanitizer::{Sanitizer, Tool};
use replay::fixture::{self, Fixture};
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::runtime::report::Found;
use replay::tensor::DType;
use replay::trial::{Check, Failure, Lab, Status, Subject};

use super::lab::*;

/// What a case is called by its first word, and the tool that looks for it. What host code does is not a
/// sanitizer's matter.
const KINDS: [(&str, Tool); 6] = [
    ("race", Tool::Racecheck),
    ("good", Tool::Racecheck),
    ("same", Tool::Racecheck),
    ("unwritten", Tool::Initcheck),
    ("bounds", Tool::Memcheck),
    ("stray", Tool::Synccheck),
];

/// The elements of `x` and of `out`.
const COUNT: usize = 4096;

/// The cases as one source file, with a fixture for each.
struct Cases {
    folder: tempfile::TempDir,
    names: Vec<String>,
    sources: Arc<SourceSet>,
}

impl Cases {
    fn new() -> Cases {
        let folder = tempfile::tempdir().unwrap();
        let text = checked_cases::source();
        let parts = text.split("static void case_").skip(1);
        let names: Vec<String> =
            parts.map(|part| part.split('(').next().unwrap().to_owned()).collect();
        std::fs::write(folder.path().join("kernel.cu"), text).unwrap();
        let table: String = names.iter().map(|name| format!("case_{name}, ")).collect();
        let harness = format!(
            "sources = [\"kernel.cu\"]\ncall = \"\"\"\n\
             decltype(&case_{}) cases[] = {{{table}}};\ncases[which](x, out);\n\"\"\"\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
             [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n",
            names[0]
        );
        std::fs::write(folder.path().join("replay.toml"), harness).unwrap();
        let spec = SourceSpec { sources: vec!["kernel.cu".to_owned()], ..SourceSpec::default() };
        let sources = source_set_from_dir(folder.path(), &spec).unwrap().into();
        Cases { folder, names, sources }
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = (usize, &String)> {
        let is_of = move |name: &str| name.split('_').next() == Some(kind);
        self.names.iter().enumerate().filter(move |(_, name)| is_of(name))
    }

    fn subject(&self, number: usize, name: &str) -> Arc<Subject> {
        let folder = self.folder.path().join(name);
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
            let x: Vec<u8> = (0..COUNT).flat_map(|n| (n as f32).to_le_bytes()).collect();
            let which = (number as i32).to_le_bytes();
            let tensors =
                [("which", DType::I32, &[][..], &which[..]), ("x", DType::F32, &[COUNT], &x)];
            fixture::write(&folder, &tensors, &[]).unwrap();
        }
        Subject::new(Fixture::load(&folder).unwrap()).into()
    }
}

/// Who found a case.
#[derive(Default)]
struct Tally {
    cases: usize,
    checked: Vec<String>,
    sanitizer: Vec<String>,
    /// Cases of which the sanitizer has no result, with the reason.
    silent: Vec<String>,
}

#[test]
#[ignore = "needs a GPU and compute-sanitizer"]
fn a_checked_replay_finds_what_a_sanitizer_finds_of_races_and_more() {
    let (_folder, cache) = cache();
    let cases = Cases::new();
    let own = remembering(&cache, Device::Cpu, MINUTE);
    let path: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let mut table: BTreeMap<&str, Tally> = BTreeMap::new();
    for (kind, tool) in KINDS {
        let sanitizer = Sanitizer::find(&path, &search(), tool).unwrap();
        let cuda = cuda(&cache, cpu(&cache, &program(), MINUTE)).sanitized(sanitizer);
        let gpu = Lab::new(Arc::new(cuda), cache.clone(), false);
        let tally = table.entry(kind).or_default();
        for (number, name) in cases.of(kind) {
            let subject = cases.subject(number, name);
            tally.cases += 1;
            let checked = Check::Always.of(&own.trial(&subject, &cases.sources)).unwrap();
            if checked.is_some_and(|checked| checked.findings().iter().any(Found::is_failure)) {
                tally.checked.push(name.clone());
            }
            match gpu.trial(&subject, &cases.sources).outcome() {
                Ok(outcome) => {
                    let Status::Failed(failures) = &outcome.status else { continue };
                    let by_tool = |failure: &Failure| matches!(failure, Failure::Sanitizer { .. });
                    if failures.iter().any(by_tool) {
                        tally.sanitizer.push(name.clone());
                    }
                }
                Err(error) => tally.silent.push(format!("{name}: {error}")),
            }
        }
    }
    println!("| kind | cases | checked replay | compute-sanitizer | tool |");
    println!("| --- | ---: | ---: | ---: | --- |");
    for (kind, tool) in KINDS {
        let Tally { cases, checked, sanitizer, .. } = &table[kind];
        println!("| {kind} | {cases} | {} | {} | {tool:?} |", checked.len(), sanitizer.len());
    }
    for (kind, Tally { checked, sanitizer, silent, .. }) in &table {
        let missing = |of: &Vec<String>, from: &Vec<String>| {
            from.iter().filter(|name| !of.contains(name)).cloned().collect::<Vec<_>>().join(", ")
        };
        println!("{kind}: the checked replay alone: {}", missing(sanitizer, checked));
        println!("{kind}: the sanitizer alone: {}", missing(checked, sanitizer));
        println!("{kind}: no result of the sanitizer: {}", silent.join(", "));
    }
    for kind in ["race", "unwritten", "bounds"] {
        assert_eq!(table[kind].checked.len(), table[kind].cases, "{kind}");
    }
    for kind in ["good", "same"] {
        assert_eq!(table[kind].checked, [""; 0], "{kind}");
    }
}
