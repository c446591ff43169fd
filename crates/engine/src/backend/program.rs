//! Programs of any framework. A replay is one process: a program of the user's own runs the files
//! of a revision. Replays of a twin with moved inputs share a process if no bit shows it.

mod series;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::series::{Begun, ProgramSeries};
use super::in_order::in_order;
use super::{Ability, Backend, DeviceName, Held, Host, Mode, NoRoom, ReplayError, Take, Variant};
use crate::environment::{Environment, place_fixture};
use crate::program::{
    self, HarnessProgram, OpenedFiles, ProgramDevice, ProgramError, ProgramImage, ProgramReplay,
    ProgramRequest, ProgramSurroundings, Runner,
};
use crate::worker::{Ending, Run, tensor_bytes};
use replay_base::process;
use replay_base::summary::POISON_A;
use replay_base::tensor::DType;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::Harness;
use replay_frontend::Precision;
use replay_history::SourceSet;
use replay_runtime::cpu::order::Order;

/// The most bytes of outputs at a time, over all replays.
const BYTES_AT_ONCE: usize = 128 << 20;
/// Replays at a time on a GPU: most of the time of one goes into setting the GPU up.
const GPU_AT_ONCE: usize = 4;
/// The most bytes of inputs and outputs of all replays at a time on a GPU.
const GPU_BYTES_AT_ONCE: usize = 32 << 20;

/// Programs on this machine.
#[derive(Clone, Debug)]
pub struct Programs {
    shared: Arc<ProgramShared>,
    /// Where it is not the session's own.
    environment: Option<Arc<Environment>>,
}

#[derive(Debug)]
struct ProgramShared {
    runner: Runner,
    host: Host,
    device: DeviceName,
    /// The memory of the GPU, if it is one.
    device_bytes: Option<u64>,
    /// How many replays there are at a time.
    at_once: usize,
}

impl Programs {
    /// Programs of `runner` on `device`, a GPU with `device_bytes` of memory or the CPU;
    /// replays on the CPU share `host`.
    pub fn new(
        runner: Runner,
        host: Host,
        device: DeviceName,
        device_bytes: Option<u64>,
    ) -> Programs {
        let at_once = match runner.device() {
            ProgramDevice::Cpu => host.threads.max(1),
            ProgramDevice::Cuda(_) => GPU_AT_ONCE,
        };
        let shared = ProgramShared { runner, host, device, device_bytes, at_once };
        Programs { shared: Arc::new(shared), environment: None }
    }

    /// The image that programs start in, if there is one.
    fn image(&self) -> Option<&ProgramImage> {
        self.environment.as_ref()?.image()
    }
}

impl Backend for Programs {
    fn device(&self) -> DeviceName {
        self.shared.device.clone()
    }

    fn compiler(&self) -> &str {
        "a program"
    }

    fn identity(&self) -> String {
        format!("{:?} {}", self.shared.device, self.shared.host.identity())
    }

    fn timeouts(&self) -> u64 {
        self.shared.host.timeouts()
    }

    fn identity_with(&self, harness: &Harness) -> Result<String, ReplayError> {
        let mut harness = harness.clone();
        if let Some(environment) = &self.environment {
            environment.change_harness(&mut harness);
        }
        Ok(self.shared.runner.project(&harness, self.image())?.identity().to_owned())
    }

    fn has_orders(&self) -> bool {
        false
    }

    fn in_environment(&self, environment: &Arc<Environment>) -> Arc<dyn Backend> {
        let shared = self.shared.clone();
        Arc::new(Programs { shared, environment: Some(environment.clone()) })
    }

    fn room(
        &self,
        fixture: &Fixture,
        precision: Precision,
        held_evidence: Held,
    ) -> Result<(), NoRoom> {
        let ProgramShared { host, device_bytes, .. } = &*self.shared;
        host.room_for_programs(fixture, precision, held_evidence, *device_bytes)
    }

    fn prepare(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        _meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Arc<dyn Variant>, ReplayError> {
        let fixture = place_fixture(self.environment.as_deref(), fixture);
        let project = self.shared.runner.project(&fixture.harness, self.image())?;
        let shared = self.shared.clone();
        let sources = sources.clone();
        let checks_accesses = precision == Precision::Checked;
        let wide = (precision == Precision::Shadow).then_some(project.spec.precision);
        let series = project.name_series();
        let series = series.map(|name| ProgramSeries::new(name, wide.is_none()));
        let obeys_roundings =
            shared.runner.device() == ProgramDevice::Cpu && !project.ignores_roundings();
        let is_settled = wide != Some(DType::F64) || !project.spec.widen_casts;
        let widens = Mutex::new(is_settled.then_some(false));
        let why_kept = OnceLock::new();
        Ok(Arc::new(ProgramVariant {
            shared,
            project,
            fixture,
            sources,
            wide,
            checks_accesses,
            obeys_roundings,
            widens,
            why_kept,
            lacks_orders: AtomicBool::new(false),
            series,
            opened: OpenedFiles::default(),
        }))
    }
}

/// A revision's files, their program, and the fixture.
struct ProgramVariant {
    shared: Arc<ProgramShared>,
    project: Arc<HarnessProgram>,
    fixture: Arc<Fixture>,
    sources: SourceSet,
    /// The precision of a twin: float64 or float32. None for the precision of the harness.
    wide: Option<DType>,
    /// Whether the program looks at its accesses to memory.
    checks_accesses: bool,
    /// Whether its arithmetic may round in other directions: a GPU rounds as its instructions say, and another variant
    /// may have shown before that the framework does not.
    obeys_roundings: bool,
    /// Whether the twin widens explicit casts. Its first replay settles it.
    widens: Mutex<Option<bool>>,
    /// Why it does not, where it failed so.
    why_kept: OnceLock<String>,
    /// Whether a replay has shown that it has no grid to run in another order, or cannot.
    lacks_orders: AtomicBool,
    /// The replays with moved inputs, if one process may make several.
    series: Option<ProgramSeries>,
    /// What all replays opened of the tree.
    opened: OpenedFiles,
}

impl Drop for ProgramVariant {
    fn drop(&mut self) {
        if let Some(series) = &self.series {
            self.project.end_series(series.name());
        }
    }
}

impl ProgramVariant {
    /// Whether the revision is answerable for `mode`. A failure in another mode says only that the program does not
    /// support it.
    fn is_plain(&self, mode: &Mode) -> bool {
        self.wide.is_none() && *mode == Mode { around: mode.around, ..Mode::plain(mode.poison) }
    }

    /// How many programs with the tensors in memory leave half of the machine's memory to others.
    fn most_at_once(&self) -> usize {
        let (inputs, outputs) = tensor_bytes(&self.fixture, self.wide == Some(DType::F64));
        let bytes_each = inputs.saturating_add(outputs);
        if self.shared.device_bytes.is_some() || bytes_each <= BYTES_AT_ONCE as u64 {
            return self.shared.at_once;
        }
        let free_bytes = process::free_memory_bytes().unwrap_or(u64::MAX) / 2;
        (free_bytes / bytes_each).clamp(1, self.shared.at_once as u64) as usize
    }

    fn input_bytes(&self) -> usize {
        let present = self.fixture.inputs.iter().filter(|input| input.present);
        present.map(|input| input.storage_elements() * input.dtype.size()).sum()
    }

    /// The run under `mode`, in a process of its own or in one of `series`. A tensor widened by the framework may meet code
    /// for float32 alone: after such a failure the twin runs without wider casts.
    fn run_mode(&self, mode: &Mode, series: Option<u64>) -> Result<Run, program::ProgramFault> {
        let mut widens = self.widens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(widens) = *widens {
            return self.made_with(mode, series, widens);
        }
        let failure = match self.made_with(mode, None, true) {
            Ok(run) if run.ending == Ending::Completed => {
                *widens = Some(true);
                return Ok(run);
            }
            Ok(_) => "it does not run to its end".to_owned(),
            // Without wider casts it starts no faster.
            Err(fault @ program::ProgramFault::Program(ProgramError::LateCall { .. })) => {
                return Err(fault);
            }
            Err(program::ProgramFault::Program(error)) => error.to_string(),
            Err(fault) => return Err(fault),
        };
        *widens = Some(false);
        let _ = self.why_kept.set(failure);
        self.made_with(mode, None, false)
    }

    /// The same; a twin widens explicit casts if it `widens` any.
    fn made_with(
        &self,
        mode: &Mode,
        series: Option<u64>,
        widens: bool,
    ) -> Result<Run, program::ProgramFault> {
        let request = ProgramRequest {
            wide: self.wide,
            widen_casts: widens,
            rounding: mode.rounding,
            record: mode.record.clone(),
            device: self.shared.runner.device(),
            checks_accesses: self.checks_accesses,
            order: Order(mode.order),
            unwritten: mode.poison,
            surroundings: if mode.around == POISON_A {
                ProgramSurroundings::Zero
            } else {
                ProgramSurroundings::Nan
            },
        };
        self.shared.runner.run(&ProgramReplay {
            project: &self.project,
            fixture: &self.fixture,
            sources: &self.sources,
            request: &request,
            change: &mode.change,
            series,
            opened: &self.opened,
        })
    }

    /// The run under `mode`, in a process of `series` if it completes there. Any other ending may come from the replays
    /// before it.
    fn run_in(&self, mode: &Mode, series: Option<u64>) -> Result<Run, ReplayError> {
        let Some(series) = series else { return self.run(mode) };
        match self.run_mode(mode, Some(series)) {
            Ok(run) if run.ending == Ending::Completed => Ok(self.finished(run)),
            _ => {
                self.project.end_series(series);
                self.run(mode)
            }
        }
    }

    fn finished(&self, mut run: Run) -> Run {
        if run.ending == Ending::Completed && !run.is_ordered {
            self.lacks_orders.store(true, Ordering::Relaxed);
        }
        let DeviceName { class, description } = self.shared.device.clone();
        run.device = Some((description, class));
        if let Some(failure) = self.why_kept.get() {
            for narrow in &mut run.narrow {
                narrow.reason.push_str(&format!("; with casts to float32 widened: {failure}"));
            }
        }
        self.shared.host.counted(run)
    }
}

impl Variant for ProgramVariant {
    fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("replay program variant 2");
        hasher.update(self.project.identity().as_bytes());
        hasher.update(&self.sources.id);
        hasher.update(self.wide.map_or("", DType::name).as_bytes());
        hasher.update(&[u8::from(self.checks_accesses)]);
        hasher.finalize().to_hex()[..40].to_owned()
    }

    fn opened(&self) -> Option<BTreeSet<String>> {
        self.opened.paths()
    }

    fn call(&self) -> usize {
        0
    }

    fn can(&self, ability: Ability) -> bool {
        match ability {
            Ability::Poison | Ability::PoisonAround => true,
            Ability::Rounding => self.obeys_roundings,
            // Slopes of a twin need more digits than float32 has.
            Ability::Step => self.wide != Some(DType::F32),
            Ability::Nudge => self.wide.is_none(),
            Ability::Line => self.wide.is_some(),
            Ability::PassedRounding => self.wide == Some(DType::F64),
            Ability::AccessCheck => self.checks_accesses,
            Ability::Order => {
                let is_native = self.wide.is_none() && !self.checks_accesses;
                is_native
                    && self.shared.runner.device() == ProgramDevice::Cpu
                    && !self.lacks_orders.load(Ordering::Relaxed)
            }
            // Tensors in memory leave half of it to others.
            Ability::SharedDevice => {
                self.shared.runner.device() == ProgramDevice::Cpu && self.most_at_once() > 1
            }
            Ability::CallPart
            | Ability::SingleOutput
            | Ability::Summary
            | Ability::Deviations
            | Ability::Repetition => false,
        }
    }

    fn has_atomics(&self) -> bool {
        // Frameworks add by atomics on a GPU.
        matches!(self.shared.runner.device(), ProgramDevice::Cuda(_))
    }

    fn run(&self, mode: &Mode) -> Result<Run, ReplayError> {
        debug_assert!((self as &dyn Variant).allows(mode), "{mode:?}");
        let run = match self.run_mode(mode, None) {
            Err(program::ProgramFault::Program(ProgramError::LateCall { timeout, .. }))
                if !self.is_plain(mode) =>
            {
                Run::without_outputs(Ending::TimedOut(timeout, None))
            }
            Err(program::ProgramFault::Program(error)) if !self.is_plain(mode) => {
                Run::without_outputs(Ending::Unable(error.to_string()))
            }
            // If it fails among zeros too, the replay with zeros reports it.
            Err(program::ProgramFault::Program(error))
                if error.is_revision_fault() && *mode != Mode::plain(POISON_A) =>
            {
                Run::without_outputs(Ending::Unable(error.to_string()))
            }
            run_result => run_result?,
        };
        Ok(self.finished(run))
    }

    fn at_once(&self, like: Option<&Run>) -> usize {
        let outputs = like.map_or(1, |run| run.output_bytes().max(1));
        match self.shared.runner.device() {
            ProgramDevice::Cpu => (BYTES_AT_ONCE / outputs).clamp(1, self.shared.at_once),
            ProgramDevice::Cuda(_) => {
                (GPU_BYTES_AT_ONCE / (outputs + self.input_bytes())).clamp(1, self.shared.at_once)
            }
        }
    }

    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError> {
        let at_once = at_once.min(modes.len()).min(self.most_at_once());
        let begun_series = match &self.series {
            Some(series) => series.begin(modes, |mode, series| Ok(self.run_mode(mode, series)?)),
            None => Begun::default(),
        };
        let count = begun_series.runs.len();
        let is_one_enough = begun_series.is_faster_than_start(modes.len() - count);
        let at_once = if is_one_enough { 1 } else { at_once };
        let mut ready = begun_series.runs.into_iter().enumerate();
        ready.try_for_each(|(index, run)| take(index, self.finished(run)))?;
        let remaining_modes = &modes[count..];
        in_order(
            remaining_modes.len(),
            at_once,
            |index| self.run_in(&remaining_modes[index], begun_series.series),
            |index, run| take(count + index, run),
        )
    }
}
