//! Checked replays beside compute-sanitizer: who finds what of the cases that `engine/checked.rs` tests.

use crate::common::checked_cases;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use replay::cache::Cache;
use replay::cuda::sanitizer::{Sanitizer, Tool};
use replay::fixture::{self, Fixture};
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::runtime::report::{AccessFinding as Access, FoundKind};
use replay::tensor::DType;
use replay::trial::{AccessCheck, Failure, Lab, Status, Subject};

use crate::common::gpu_lab::*;

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
        let spec = SourceSpec { sources: vec!["kernel.cu".into()], ..SourceSpec::default() };
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
            fixture::write_safetensors(&folder, &tensors, &[]).unwrap();
        }
        Subject::new(Fixture::load(&folder).unwrap()).into()
    }
}

/// Who found a case.
struct Found {
    kind: &'static str,
    name: String,
    checked: bool,
    /// Whether the checked replay says anything, if only a note.
    told: bool,
    /// None where the sanitizer has no result.
    sanitizer: Option<bool>,
    /// Why it has none, or how the case ends.
    note: String,
}

/// Cases that are run at a time: most of what one takes is the sanitizer's start.
const AT_ONCE: usize = 12;

/// How long a replay may take: some cases wait for ever on a GPU.
const LIMIT: Duration = Duration::from_secs(30);

/// The machines that look at the cases.
struct Machines {
    own: Arc<Lab>,
    gpus: Vec<(Tool, Arc<Lab>)>,
}

impl Machines {
    fn new(cache: &Cache) -> Machines {
        let path: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let with = |tool: Tool| {
            let sanitizer = Sanitizer::find(&path, &search(), tool).unwrap();
            let cuda = cuda(cache, cpu(cache, &program(), LIMIT)).sanitized(sanitizer);
            (tool, Lab::new(Arc::new(cuda), cache.clone(), false))
        };
        let tools = [Tool::Racecheck, Tool::Initcheck, Tool::Memcheck, Tool::Synccheck];
        Machines { own: remembering(cache, Device::Cpu, LIMIT), gpus: tools.map(with).to_vec() }
    }

    /// Looks at case `number` of `cases`, which is of `kind`.
    fn look(&self, cases: &Cases, kind: &'static str, tool: Tool, number: usize) -> Found {
        let name = cases.names[number].clone();
        let subject = cases.subject(number, &name);
        let own = self.own.trial(&subject, &cases.sources);
        let found = AccessCheck::Always.check_trial(&own).unwrap();
        let found = found.as_ref().map_or(&[][..], |found| found.findings());
        let checked = found.iter().any(Access::is_failure);
        let told = found.iter().any(|found| found.kind != FoundKind::Flag);
        let (_, gpu) = self.gpus.iter().find(|(of, _)| *of == tool).expect("every tool has a lab");
        let outcome = gpu.trial(&subject, &cases.sources).outcome().cloned();
        let by_tool = |failure: &Failure| matches!(failure, Failure::Sanitizer { .. });
        let (sanitizer, note) = match outcome.map(|outcome| outcome.status) {
            Ok(Status::Failed(failures)) => {
                let kinds: Vec<&str> = failures.iter().map(Failure::kind).collect();
                (Some(failures.iter().any(by_tool)), kinds.join(", "))
            }
            Ok(status) => (Some(false), format!("{status:?}")),
            Err(error) => (None, error.to_string()),
        };
        Found { kind, name, checked, told, sanitizer, note }
    }
}

/// Looks at every case. What waits for ever comes first, and one case is looked at alone, so that
/// everything is compiled once.
fn look_at_all(cases: &Cases, machines: &Machines) -> Vec<Found> {
    let of = |&(kind, tool): &(&'static str, Tool)| {
        cases.of(kind).map(|(number, _)| (kind, tool, number)).collect::<Vec<_>>()
    };
    let mut jobs: Vec<(&str, Tool, usize)> = KINDS.iter().rev().flat_map(of).collect();
    let first = jobs.pop().expect("there are cases");
    let look = |(kind, tool, number)| machines.look(cases, kind, tool, number);
    let seen = Mutex::new(vec![look(first)]);
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = look(job);
            println!("{}: {} {:?} {}", found.name, found.checked, found.sanitizer, found.note);
            seen.lock().unwrap().push(found);
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(take))));
    seen.into_inner().unwrap()
}

/// The names in `found` that are `wanted`.
fn names(found: &[&Found], wanted: impl Fn(&Found) -> bool) -> String {
    let names = found.iter().filter(|found| wanted(found)).map(|found| &found.name[..]);
    names.collect::<Vec<_>>().join(", ")
}

#[test]
#[ignore = "needs a GPU and compute-sanitizer"]
fn a_checked_replay_finds_what_a_sanitizer_finds_of_races_and_more() {
    let (_folder, cache) = cache();
    let cases = Cases::new();
    let mut all = look_at_all(&cases, &Machines::new(&cache));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let of = |kind: &str| all.iter().filter(|found| found.kind == kind).collect::<Vec<_>>();
    println!("| kind | cases | checked replay | compute-sanitizer | no result | tool |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for (kind, tool) in KINDS {
        let found = of(kind);
        let count = |wanted: fn(&&&Found) -> bool| found.iter().filter(wanted).count();
        println!(
            "| {kind} | {} | {} | {} | {} | {tool:?} |",
            found.len(),
            count(|found| found.checked),
            count(|found| found.sanitizer == Some(true)),
            count(|found| found.sanitizer.is_none()),
        );
    }
    for (kind, _) in KINDS {
        let found = of(kind);
        let alone = names(&found, |found| found.checked && found.sanitizer == Some(false));
        println!("{kind}: the checked replay alone: {alone}");
        let alone = names(&found, |found| !found.checked && found.sanitizer == Some(true));
        println!("{kind}: the sanitizer alone: {alone}");
        println!("{kind}: neither: {}", names(&found, |f| !f.checked && f.sanitizer != Some(true)));
    }
    for kind in ["race", "unwritten", "bounds"] {
        assert_eq!(names(&of(kind), |found| !found.checked), "", "{kind}");
    }
    // A note says that all write the same value, or that nobody uses what a lane read.
    for kind in ["stray", "same"] {
        assert_eq!(names(&of(kind), |found| !found.told), "", "{kind}");
    }
    for kind in ["good", "same"] {
        assert_eq!(names(&of(kind), |found| found.checked), "", "{kind}");
    }
}
