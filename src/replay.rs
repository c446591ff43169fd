//! One replay: a fixture through one source set on one device, and what it gave.
//!
//! Owns the caches: sources that were compiled are not compiled again, a replay that was made is
//! not made again. Judges only what one revision alone can show; comparing is the business of
//! `verdict`.

mod backend;
mod gpu;
mod outcome;
mod pool;
mod sanitized;
mod series;
mod unsteady;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use crate::cache::{Cache, CacheError, Kind};
use crate::compile::{Artifact, CompileError, DeviceModule, Signature, Toolchain};
use crate::fixture::{Fixture, FixtureError};
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::judge::TrustedSides;
use crate::runtime::cpu::Rounding;
use crate::sanitizer::SanitizerError;
use crate::scratch::{HEAP_BYTES, Scratch, ScratchError};
use crate::summary::{POISON_A, POISON_B, Poison, summarize, written};
use crate::worker::{DeviceJob, Ending, Job, Limits, Part, Run, Step, WorkerError, Workers};

/// Why there is no outcome: the machine or the fixture is at fault, not the revision.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The fixture cannot be read.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The compiler or the cache cannot be used.
    #[error(transparent)]
    Compile(CompileError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The child process cannot be run.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// compute-sanitizer does not work here.
    #[error(transparent)]
    Sanitizer(#[from] SanitizerError),
    /// There is no room for what is measured of each element.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

impl ReplayError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReplayError::Fixture(error) => error.hint(),
            ReplayError::Compile(error) => error.hint(),
            ReplayError::Cache(error) => error.hint(),
            ReplayError::Worker(error) => error.hint(),
            ReplayError::Sanitizer(error) => error.hint(),
            ReplayError::Scratch(error) => error.hint(),
        }
    }
}

/// How replays are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This program, which is also the child's.
    pub program: PathBuf,
    /// Time and memory of a child.
    pub limits: Limits,
    /// Operating-system threads that run blocks.
    pub threads: usize,
    /// Whether outcomes in the cache are passed over.
    pub fresh: bool,
    /// The device.
    pub backend: Backend,
}

use self::outcome::{failure_of, first_non_finite, inputs_are_finite, memory_failures};

pub use self::backend::{Backend, BackendError, Cuda};
pub use self::outcome::{Failure, Outcome, OutputRecord, Slices, Status};
pub(crate) use self::series::Plain;

/// One way to run a variant; the plain one is [`Mode::plain`].
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// What memory holds before it is written.
    pub poison: Poison,
    /// How operations round.
    pub rounding: Rounding,
    /// The order of blocks and threads; 0 is that of their indices.
    pub order: u64,
    /// A change of one input.
    pub step: Option<Step>,
    /// How much of the call is made.
    pub part: Part,
    /// Whether outputs may stay on the device, summarised there.
    pub summarized: bool,
}

impl Mode {
    /// As the device does it, on memory that holds `poison`.
    pub fn plain(poison: Poison) -> Mode {
        let (rounding, part) = (Rounding::Nearest, Part::Whole);
        Mode { poison, rounding, order: 0, step: None, part, summarized: false }
    }

    fn suits_a_gpu(&self) -> bool {
        self.rounding == Rounding::Nearest
            && self.order == 0
            && self.step.is_none()
            && self.part == Part::Whole
    }
}

/// Makes replays.
pub struct Replayer {
    toolchain: Toolchain,
    cache: Cache,
    settings: Settings,
    program: String,
    trusted: TrustedSides,
    kept: series::Kept,
    workers: Arc<Workers>,
    timeouts: AtomicU64,
    scratch: Scratch,
}

/// A fixture with what is computed of it once.
pub struct Subject {
    /// The fixture.
    pub fixture: Fixture,
    signature: Signature,
    declaration: blake3::Hash,
    content: OnceLock<String>,
}

impl Subject {
    /// Wraps a fixture that was loaded.
    pub fn new(fixture: Fixture) -> Subject {
        let signature = Signature::of(&fixture);
        let harness = &fixture.harness;
        let calls: Vec<&str> = harness.calls.iter().map(|call| call.text.as_str()).collect();
        let said = (calls, &harness.inputs, &harness.outputs, &fixture.sizes);
        let declaration = blake3::hash(format!("{said:?}").as_bytes());
        Subject { fixture, signature, declaration, content: OnceLock::new() }
    }
}

impl Replayer {
    /// A replayer that compiles with `toolchain` and remembers in `cache`.
    pub fn new(toolchain: Toolchain, cache: Cache, settings: Settings) -> Replayer {
        let scratch = Scratch::in_folder(&cache.temporary(), HEAP_BYTES);
        let (trusted, kept) = (TrustedSides::default(), series::Kept::default());
        let workers = Arc::new(Workers::new(settings.program.clone()));
        let timeouts = AtomicU64::new(0);
        let program = identity_of(&settings.program);
        Replayer { toolchain, cache, settings, program, trusted, kept, workers, timeouts, scratch }
    }

    /// What is known of the sides that were trusted last.
    pub(crate) fn trusted(&self) -> &TrustedSides {
        &self.trusted
    }

    /// Where what is measured of each element is kept.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// How replays are made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The class of the device, which snapshots are kept by: `cpu`, `sm_90`.
    pub fn device_class(&self) -> String {
        self.settings.backend.describe().0
    }

    /// The compiler and its cache.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Compiles `sources` for `subject`.
    ///
    /// # Errors
    /// [`CompileError`]; see there for whose fault it is.
    pub fn compile(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        precision: Precision,
    ) -> Result<Artifact, CompileError> {
        self.compile_while(subject, sources, precision, &|| ())
    }

    /// The same; `meanwhile` is done while the compiler runs, if it has to.
    pub(crate) fn compile_while(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Artifact, CompileError> {
        let (harness, toolchain) = (&subject.fixture.harness, &self.toolchain);
        let signature = &subject.signature;
        let mut artifact =
            toolchain.compile_while(harness, signature, sources, precision, meanwhile)?;
        if let (Backend::Cuda(cuda), Precision::Native) = (&self.settings.backend, precision) {
            artifact.module = Some(cuda.toolchain.compile(harness, sources)?);
        }
        Ok(artifact)
    }

    /// Runs `artifact` once: on the GPU if it has a module and `mode` is one that a GPU can do, on
    /// the CPU otherwise.
    ///
    /// # Errors
    /// [`ReplayError`] if no child process can be run, or the module cannot be had.
    pub fn run(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        precision: Precision,
        mode: &Mode,
    ) -> Result<Run, ReplayError> {
        if let (Backend::Cuda(cuda), Some(module)) = (&self.settings.backend, &artifact.module)
            && mode.suits_a_gpu()
        {
            return self.run_module(subject, artifact, cuda, module, mode);
        }
        let device = DeviceJob::Cpu {
            threads: self.settings.threads,
            order: mode.order,
            rounding: mode.rounding,
        };
        let job = self.job(device, subject, artifact, precision, mode);
        Ok(self.counted(self.series(subject, artifact, precision).run(&job)?))
    }

    /// `run`, after it was noted if it ran out of time.
    fn counted(&self, run: Run) -> Run {
        if matches!(run.ending, Ending::TimedOut(..)) {
            self.timeouts.fetch_add(1, Ordering::SeqCst);
        }
        run
    }

    /// How many runs were out of time so far: as much a matter of the machine as of the code. Nothing that
    /// rests on such a run is remembered.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::SeqCst)
    }

    fn job(
        &self,
        device: DeviceJob,
        subject: &Subject,
        artifact: &Artifact,
        precision: Precision,
        mode: &Mode,
    ) -> Job {
        let memory_bytes = match (&device, &self.settings.backend) {
            (DeviceJob::Cuda { .. }, Backend::Cuda(cuda)) => cuda.memory_bytes,
            _ => self.settings.limits.memory_bytes,
        };
        Job {
            artifact: artifact.path.clone(),
            fixture: subject.fixture.dir.clone(),
            shadow: precision == Precision::Shadow,
            device,
            poison: mode.poison,
            memory_bytes,
            folder: self.cache.temporary(),
            step: mode.step.clone(),
            part: mode.part.clone(),
        }
    }

    /// Replays `sources` on `subject`.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault; what is wrong with the revision
    /// is in the outcome.
    pub fn replay(&self, subject: &Subject, sources: &SourceSet) -> Result<Outcome, ReplayError> {
        let compiled = self.compile(subject, sources, Precision::Native);
        Ok(self.replay_compiled(subject, sources, compiled)?.0)
    }

    /// Replays what `sources` were compiled to, and gives the artifact back if there is one.
    pub(crate) fn replay_compiled(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        compiled: Result<Artifact, CompileError>,
    ) -> Result<(Outcome, Option<Artifact>), ReplayError> {
        match compiled {
            Ok(artifact) => {
                Ok((self.replay_artifact(subject, sources, &artifact)?, Some(artifact)))
            }
            Err(error) if error.is_revision_fault() => Ok((self.untestable(&error), None)),
            Err(error) => Err(ReplayError::Compile(error)),
        }
    }

    fn replay_artifact(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        artifact: &Artifact,
    ) -> Result<Outcome, ReplayError> {
        let outcome = self.plain(subject, artifact)?;
        match &self.settings.backend {
            Backend::Cuda(cuda) => match &cuda.sanitizer {
                Some(tool) => self.sanitized(subject, sources, artifact, tool, outcome),
                None => Ok(outcome),
            },
            Backend::Cpu => Ok(outcome),
        }
    }

    /// The outcome of `artifact` as the device gives it.
    fn plain(&self, subject: &Subject, artifact: &Artifact) -> Result<Outcome, ReplayError> {
        let key = self.outcome_key(subject, artifact)?;
        if !self.settings.fresh
            && let Some(outcome) = self.remembered(&key)
        {
            return Ok(outcome);
        }
        let _span = tracing::info_span!("replay", message = subject.fixture.name);
        let run = |poison| self.run(subject, artifact, Precision::Native, &Mode::plain(poison));
        let runs = match artifact.module {
            None => self.run_pair(subject, artifact, [POISON_A, POISON_B]),
            Some(_) => self.run_twice(subject, artifact),
        };
        let (first, second) = match runs {
            Err(ReplayError::Compile(error)) if error.is_revision_fault() => {
                return Ok(self.untestable(&error));
            }
            runs => runs?,
        };
        let again = match (&artifact.module, poison_shows(&first, &second)) {
            (Some(_), true) => Some(run(POISON_A)?),
            _ => None,
        };
        let outcome = self.outcome_of(subject, artifact, &first, &second, again.as_ref())?;
        self.keep_outcome(&key, &outcome)?;
        if artifact.module.is_none() {
            let repeats = first.gives_the_bits_of(&second);
            self.kept.keep(&key, Plain { run: first, repeats });
        }
        Ok(outcome)
    }

    /// Two plain runs on the CPU, at a time: each has half of the cores.
    pub(crate) fn run_pair(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        poisons: [Poison; 2],
    ) -> Result<(Run, Run), ReplayError> {
        let modes = poisons.map(Mode::plain);
        let mut runs = Vec::new();
        self.run_each(subject, artifact, Precision::Native, &modes, modes.len(), |_, run| {
            runs.push(run);
            Ok(())
        })?;
        let second = runs.pop().expect("each mode gives a run");
        Ok((runs.pop().expect("each mode gives a run"), second))
    }

    /// Remembers `outcome`, unless it was out of time: that may have been a slow machine.
    fn keep_outcome(&self, key: &str, outcome: &Outcome) -> Result<(), ReplayError> {
        let is_late = |failure: &Failure| matches!(failure, Failure::Timeout { .. });
        if !matches!(&outcome.status, Status::Failed(failures) if failures.iter().any(is_late)) {
            let text = serde_json::to_vec(outcome).expect("outcomes are plain data");
            self.cache.write(Kind::Outcome, key, &text)?;
        }
        Ok(())
    }

    fn remembered(&self, key: &str) -> Option<Outcome> {
        serde_json::from_slice(&self.cache.read(Kind::Outcome, key)?).ok()
    }

    /// The key of a plain replay: artifact, tensors, what the harness says of them, the device, and
    /// this program's own meaning of all that.
    pub(crate) fn outcome_key(
        &self,
        subject: &Subject,
        artifact: &Artifact,
    ) -> Result<String, ReplayError> {
        let mut hasher = blake3::Hasher::new();
        for part in [&artifact.key, &self.subject_identity(subject)?] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        if let Some(module) = &artifact.module {
            hasher.update(module.key.as_bytes());
            hasher.update(self.settings.backend.describe().1.as_bytes());
        }
        if let Backend::Cuda(cuda) = &self.settings.backend {
            hasher.update(&cuda.memory_bytes.to_le_bytes());
        }
        hasher.update(&self.settings.limits.memory_bytes.to_le_bytes());
        hasher.update(self.program_identity().as_bytes());
        Ok(hasher.finalize().to_hex()[..40].to_owned())
    }

    /// Tells builds of this program apart: another one may judge otherwise.
    pub(crate) fn program_identity(&self) -> &str {
        &self.program
    }

    /// Tells subjects apart: by their tensors, and by what their harnesses say of them.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub(crate) fn subject_identity(&self, subject: &Subject) -> Result<String, ReplayError> {
        Ok(format!("{} {}", self.content(subject)?, subject.declaration.to_hex()))
    }

    /// Tells devices apart, and what replays are repeated under.
    pub(crate) fn device_identity(&self) -> String {
        let tool = match &self.settings.backend {
            Backend::Cuda(cuda) => cuda.sanitizer.as_ref().map_or("", |found| found.tool().name()),
            Backend::Cpu => "",
        };
        format!("{} {tool}", self.settings.backend.describe().1)
    }

    /// The hash of the fixture's content, remembered for as long as its files do not change.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content<'a>(&self, subject: &'a Subject) -> Result<&'a str, ReplayError> {
        if let Some(content) = subject.content.get() {
            return Ok(content);
        }
        let states = subject.fixture.stat_identity();
        let identity = format!("content, {}\n{states}", env!("CARGO_PKG_VERSION"));
        let identity = blake3::hash(identity.as_bytes()).to_hex();
        let known = self.cache.read(Kind::Fact, &identity);
        let known = known.and_then(|bytes| String::from_utf8(bytes).ok());
        let content = match known {
            Some(content) => content,
            None => {
                let content = subject.fixture.content_hash()?.to_hex().to_string();
                self.cache.write(Kind::Fact, &identity, content.as_bytes())?;
                content
            }
        };
        Ok(subject.content.get_or_init(|| content))
    }

    fn untestable(&self, error: &CompileError) -> Outcome {
        let causes =
            std::iter::successors(std::error::Error::source(error), |cause| cause.source());
        let (device, device_description) = self.settings.backend.describe();
        Outcome {
            device,
            device_description,
            compiler: self.toolchain.compiler().version().to_owned(),
            call: None,
            status: Status::Untestable {
                reason: error.to_string(),
                causes: causes.map(ToString::to_string).collect(),
                hint: error.hint(),
            },
            launches: Vec::new(),
            launch_count: 0,
            outputs: Vec::new(),
            printed: String::new(),
        }
    }

    /// What two runs that differ only in their poison tell; `again` is the first repeated, where a
    /// device may give other bits by itself.
    fn outcome_of(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        run: &Run,
        other: &Run,
        again: Option<&Run>,
    ) -> Result<Outcome, ReplayError> {
        let mut failures = Vec::new();
        let refused = run.launches.iter().filter(|launch| launch.error.is_some());
        failures.extend(refused.map(|launch| Failure::Launch { launch: launch.clone() }));
        failures
            .extend(run.overruns.iter().map(|detail| Failure::Overrun { detail: detail.clone() }));
        // A crash that shows with one poison only is one all the same.
        for ending in [&run.ending, &other.ending] {
            if let Some(failure) = failure_of(ending)
                && !failures.contains(&failure)
            {
                failures.push(failure);
                break;
            }
        }
        let mut outputs = Vec::new();
        for (output, view) in run.outputs() {
            let Some(declared) = subject.fixture.outputs.iter().find(|d| d.name == output.name)
            else {
                continue;
            };
            let mut summary = summarize(&view, None);
            if let Some(second) = other.output(&output.name) {
                let mut written = written(&view, &second).expect("two runs of one variant");
                if let Some(again) = again.and_then(|again| again.output(&output.name)) {
                    let atomics = artifact.module.as_ref().is_some_and(DeviceModule::has_atomics);
                    unsteady::excuse(&mut written, [&view, &second, &again], atomics);
                }
                summary.unwritten = written.unwritten;
                // The poison of the first run reads as NaN; nobody computed it.
                if view.dtype.is_float() {
                    summary.nan = summary.nan.saturating_sub(written.unwritten);
                }
                failures.extend(memory_failures(&output.name, &view, &written));
            }
            if summary.nan + summary.inf > 0
                && summary.unwritten == 0
                && !failures.iter().any(|f| matches!(f, Failure::PoisonDependent { output: o, .. } if *o == output.name))
                && inputs_are_finite(&subject.fixture)?
            {
                failures.push(Failure::NonFinite {
                    output: output.name.clone(),
                    nan: summary.nan,
                    inf: summary.inf,
                    first: first_non_finite(&view),
                });
            }
            outputs.push(OutputRecord {
                name: output.name.clone(),
                dtype: declared.dtype,
                dims: declared.dims.clone(),
                summary,
                slices: Slices::of(&view, &declared.dims),
            });
        }
        outputs.extend(run.summaries.iter().filter_map(|(name, summary)| {
            let declared = subject.fixture.outputs.iter().find(|output| output.name == *name)?;
            Some(OutputRecord {
                name: name.clone(),
                dtype: declared.dtype,
                dims: declared.dims.clone(),
                summary: summary.clone(),
                // They take the elements, which stay on the device.
                slices: Vec::new(),
            })
        }));
        let place = |name: &str| subject.fixture.outputs.iter().position(|o| o.name == name);
        outputs.sort_by_key(|output| place(&output.name));
        let (description, class) = run.device.clone().unwrap_or_default();
        Ok(Outcome {
            device: class,
            device_description: description,
            compiler: self.toolchain.compiler().version().to_owned(),
            call: Some(artifact.call),
            status: if failures.is_empty() { Status::Completed } else { Status::Failed(failures) },
            launches: run.launches.clone(),
            launch_count: run.launch_count,
            outputs,
            printed: run.printed.clone(),
        })
    }
}

/// Tells builds of this program apart, by the version and the state of the file `program`. One whose
/// state is not known is like no other.
fn identity_of(program: &Path) -> String {
    let metadata = std::fs::metadata(program);
    let stamp = metadata.and_then(|file| Ok((file.len(), file.modified()?)));
    let version = env!("CARGO_PKG_VERSION");
    match stamp {
        Ok(stamp) => format!("{version} {stamp:?}"),
        Err(_) => format!("{version} {} {:?}", std::process::id(), SystemTime::now()),
    }
}

/// Whether an output depends on memory that nobody wrote, or on chance.
fn poison_shows(run: &Run, other: &Run) -> bool {
    run.outputs().any(|(output, view)| {
        let second = other.output(&output.name);
        let told = second.and_then(|second| written(&view, &second).ok());
        told.is_some_and(|told| told.poison_dependent > 0)
    })
}
