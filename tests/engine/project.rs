//! A throw-away kernel project: one source file full of cases, each of which is one replay.
//!
//! All cases of a file are one compilation, kept in a cache below `target`, so that a second run
//! of the tests compiles nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Host, Mode, ReplayError, Variant};
use replay::cache::Cache;
use replay::compile::{Artifact, Compiler, Signature, Toolchain};
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::frontend::{Precision, Threads};
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::process::walls::Sandbox;
use replay::runtime::cpu::Rounding;
use replay::summary::POISON_A;
use replay::tensor::{DType, TensorView};
use replay::trial::{Failure, Lab, Outcome, Status, Subject, Trial, VariantBuild};
use replay::worker::{Limits, Run};

/// A source file with functions `case_NAME`, and the fixtures that choose one of them.
pub struct Project {
    dir: tempfile::TempDir,
    cases: Vec<String>,
    sources: Arc<SourceSet>,
}

/// How replays of a project are made.
#[derive(Clone, Copy)]
pub struct Machine {
    pub threads: usize,
    pub timeout: Duration,
    pub memory_limit_bytes: u64,
    pub order: u64,
    pub rounding: Rounding,
    pub form: Threads,
    pub sandbox: Sandbox,
}

impl Machine {
    pub const PLAIN: Machine = Machine {
        threads: 2,
        timeout: Duration::from_secs(60),
        memory_limit_bytes: 1 << 30,
        order: 0,
        rounding: Rounding::Nearest,
        form: Threads::Lanes,
        sandbox: Sandbox::AsOffered,
    };
    pub const OPEN: Machine = Machine { sandbox: Sandbox::Off, ..Machine::PLAIN };
    pub const STACKS: Machine = Machine { form: Threads::Stacks, ..Machine::PLAIN };

    /// Its way to run.
    pub fn mode(&self) -> Mode {
        let Machine { order, rounding, .. } = *self;
        Mode { order, rounding, ..Mode::plain(POISON_A) }
    }
}

pub fn cache() -> Cache {
    Cache::open(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("engine-cache")).unwrap()
}

pub fn lab(compiler: &str, machine: Machine) -> Arc<Lab> {
    Lab::new(Arc::new(shared_cpu(compiler, machine)), cache(), true)
}

/// The reference machine of all tests that ask for the same: it translates the cases of a file once.
pub fn shared_cpu(compiler: &str, machine: Machine) -> CpuBackend {
    static MACHINES: Mutex<Vec<(String, CpuBackend)>> = Mutex::new(Vec::new());
    let Machine { threads, timeout, memory_limit_bytes, form, sandbox, .. } = machine;
    let wanted =
        format!("{compiler} {threads} {timeout:?} {memory_limit_bytes} {form:?} {sandbox:?}");
    let mut machines = MACHINES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = machines.iter().find(|(name, _)| *name == wanted) {
        return known.clone();
    }
    let cpu = cpu_with(&cache(), compiler, machine);
    machines.push((wanted, cpu.clone()));
    cpu
}

/// A reference machine with a cache of its own in `folder`.
pub fn cpu_in(folder: &Path, compiler: &str, machine: Machine) -> CpuBackend {
    cpu_with(&Cache::open(&folder.join("cache")).unwrap(), compiler, machine)
}

fn cpu_with(cache: &Cache, compiler: &str, machine: Machine) -> CpuBackend {
    let keeper = Keeper::new(Path::new(env!("CARGO_BIN_EXE_replay")));
    let keeper = keeper.with_sandbox(machine.sandbox);
    let of_environment = std::env::var("CXX").ok();
    let compiler = Some(compiler).filter(|name| !name.is_empty()).or(of_environment.as_deref());
    let compiler = Compiler::find(compiler, &keeper).unwrap();
    let limits =
        Limits { timeout: machine.timeout, memory_limit_bytes: machine.memory_limit_bytes };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let host = Host::new(program, limits, machine.threads, cache.temporary());
    let host = host.with_sandbox(machine.sandbox);
    CpuBackend::new(Toolchain::new(compiler, cache).with_threads(machine.form), host)
}

impl Project {
    /// The project of `text`; each case is called with `parameters`, which the tables declare.
    pub fn new(text: &str, parameters: &str, tables: &str, input: &[f32]) -> Project {
        let dir = tempfile::tempdir().unwrap();
        let names = text.split("static void case_").skip(1);
        let cases: Vec<String> =
            names.map(|rest| rest.split('(').next().unwrap().to_owned()).collect();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/cases.cu"), text).unwrap();
        let table: String = cases.iter().map(|name| format!("case_{name}, ")).collect();
        let first = &cases[0];
        let call = format!(
            "sources = [\"src/cases.cu\"]\ncall = \"\"\"\n\
             decltype(&case_{first}) cases[] = {{{table}}};\n\
             cases[which]({parameters});\n\"\"\"\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n{tables}"
        );
        fs::write(dir.path().join("replay.toml"), call).unwrap();
        let input: Vec<u8> = input.iter().flat_map(|x| x.to_le_bytes()).collect();
        for (index, name) in cases.iter().enumerate() {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
            let which = (index as i32).to_le_bytes();
            let shape = [input.len() / 4];
            let mut tensors: Vec<fixture::NewTensor> = vec![("which", DType::I32, &[], &which)];
            if !input.is_empty() {
                tensors.push(("x", DType::F32, &shape, &input));
            }
            fixture::write_safetensors(&folder, &tensors, &[]).unwrap();
        }
        let spec = SourceSpec { sources: vec!["src/cases.cu".into()], ..SourceSpec::default() };
        let sources = source_set_from_dir(dir.path(), &spec).unwrap().into();
        Project { dir, cases, sources }
    }

    fn subject(&self, case: &str) -> Subject {
        assert!(self.cases.iter().any(|known| known == case), "no case {case}");
        Subject::new(Fixture::load(&self.dir.path().join(case)).unwrap())
    }

    /// The trial of `case` in `lab`.
    pub fn trial(&self, case: &str, lab: &Arc<Lab>) -> Trial {
        lab.trial(&self.subject(case).into(), &self.sources)
    }

    /// Compiles `case` for `cpu`.
    pub fn compiled(&self, case: &str, cpu: &CpuBackend, precision: Precision) -> Artifact {
        let fixture = &self.subject(case).fixture;
        let harness = &fixture.harness;
        let signature = Signature::from_fixture(fixture);
        cpu.toolchain().compile(harness, &signature, &self.sources, precision).unwrap()
    }

    /// The names of all cases.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// One run of `case`.
    pub fn run(&self, case: &str, machine: Machine) -> Run {
        self.run_in(case, &machine.mode(), machine)
    }

    /// One run of `case` in `mode`.
    pub fn run_in(&self, case: &str, mode: &Mode, machine: Machine) -> Run {
        self.try_run(case, mode, machine).unwrap()
    }

    /// The same, or why there is none.
    pub fn try_run(&self, case: &str, mode: &Mode, machine: Machine) -> Result<Run, ReplayError> {
        let trial = self.trial(case, &lab("", machine));
        variant(&trial).run(mode)
    }

    /// One run of `case` in `mode`, as compiled with `precision`.
    pub fn run_as(&self, precision: Precision, case: &str, mode: &Mode, machine: Machine) -> Run {
        let cpu = shared_cpu("", machine);
        let fixture = &self.subject(case).fixture;
        let variant = cpu.prepare(fixture, &self.sources, precision, &|| ());
        let variant = variant.unwrap_or_else(|error| {
            panic!("{error}: {:?} {:?}", std::error::Error::source(&error), error.hint())
        });
        variant.run(mode).unwrap()
    }

    /// One run of `case`, compiled by `compiler`.
    pub fn run_compiled(&self, compiler: &str, case: &str, machine: Machine) -> Run {
        let trial = self.trial(case, &lab(compiler, machine));
        variant(&trial).run(&machine.mode()).unwrap()
    }

    /// Several runs of one trial of `case`.
    pub fn runs(&self, case: &str, machine: Machine, count: usize) -> Vec<Run> {
        let trial = self.trial(case, &lab("", machine));
        let mode = Mode { order: machine.order, ..Mode::plain(POISON_A) };
        (0..count).map(|_| variant(&trial).run(&mode).unwrap()).collect()
    }

    /// What a replay of `case` gives.
    pub fn outcome(&self, case: &str, machine: Machine) -> Outcome {
        self.trial(case, &lab("", machine)).outcome().unwrap().clone()
    }

    /// What is wrong with `case`, a line each.
    pub fn failures(&self, case: &str, machine: Machine) -> String {
        match self.outcome(case, machine).status {
            Status::Failed(failures) => {
                let lines: Vec<String> = failures.iter().map(describe).collect();
                lines.join("\n")
            }
            status => format!("{status:?}"),
        }
    }
}

/// What `trial` was compiled to.
fn variant(trial: &Trial) -> &dyn Variant {
    match trial.native().unwrap() {
        VariantBuild::Ready(variant) => &**variant,
        VariantBuild::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// The first `count` elements of `output`.
pub fn elements(run: &Run, output: &str, count: usize) -> Vec<f64> {
    let view: TensorView = run.output(output).unwrap_or_else(|| panic!("{:?}", run.ending));
    (0..count).map(|index| view.get_f64(index)).collect()
}

fn describe(failure: &Failure) -> String {
    let fault = |fault: &replay::runtime::report::ReplayFault| {
        let mut text = fault.what.clone();
        if let Some(kernel) = &fault.kernel {
            text += &format!(" in {kernel}, block {:?}, thread {:?}", fault.block, fault.thread)
                .replace("Some(", "")
                .replace(')', "");
        }
        if fault.detail.is_empty() { text } else { text + ": " + &fault.detail }
    };
    match failure {
        Failure::Fault { fault: found } => fault(found),
        Failure::Timeout { place, .. } => match place {
            Some(found) => format!("timeout: {}", fault(found)),
            None => "timeout".to_owned(),
        },
        Failure::Overrun { detail } => format!("overrun: {detail}"),
        other => format!("{other:?}"),
    }
}
