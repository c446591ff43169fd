//! The reference machine: host code and kernels run on this CPU, one child process a run.
//!
//! Runs of one artifact on one fixture share the cores and a child with both loaded.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::in_order::in_order;
use super::{Ability, Backend, DeviceName, Held, Host, Mode, NoRoom, ReplayError, Take, Variant};
use crate::compile::{Artifact, Signature, Toolchain};
use crate::environment::{Environment, place_fixture};
use crate::worker::{self, DeviceJob, Job, Run, RunSeries};
use replay_base::scratch::Budget;
use replay_base::summary::POISON_A;
use replay_fixture::fixture::{Fixture, InputElements};
use replay_frontend::Precision;
use replay_history::SourceSet;

/// Templates to keep for further runs: those of two revisions with their shadows.
const TEMPLATES: usize = 4;
/// Replays whose tensors together take no more bytes than this run at a time on any machine.
const BYTES_AT_ONCE: usize = 128 << 20;
/// Concurrent replays may take this part of the free memory for numbers and outputs.
const SHARE_AT_ONCE: usize = 2;
/// So many replays at a time share a core where their tensors take [`LARGE`] bytes: some lay out inputs by fewer
/// threads, and some end before others.
const SHARES: usize = 2;
/// Threads take no time to start beside tensors of this size.
const LARGE: usize = 16 << 20;
/// The least number of replays at a time: on one core, the next one is prepared meanwhile.
const LEAST_AT_ONCE: usize = 2;

/// The reference machine.
#[derive(Clone)]
pub struct CpuBackend {
    shared: Arc<CpuShared>,
}

/// The identity of a series of runs: the artifact, the folder of the fixture, and the elements in it.
type SeriesKey = (PathBuf, PathBuf, InputElements);

struct CpuShared {
    toolchain: Toolchain,
    host: Arc<Host>,
    /// Where it is not the session's own.
    environment: Option<Arc<Environment>>,
    /// By artifact and fixture, the last used last.
    series: Mutex<Vec<(SeriesKey, Arc<RunSeries>)>>,
}

impl std::fmt::Debug for CpuBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cpu").field(&self.shared.host).finish()
    }
}

impl CpuBackend {
    /// The machine `host`, with `toolchain` as its compiler.
    pub fn new(toolchain: Toolchain, host: Host) -> CpuBackend {
        CpuBackend::with_environment(toolchain, Arc::new(host), None)
    }

    fn with_environment(
        toolchain: Toolchain,
        host: Arc<Host>,
        environment: Option<Arc<Environment>>,
    ) -> CpuBackend {
        let series = Mutex::default();
        CpuBackend { shared: Arc::new(CpuShared { toolchain, host, environment, series }) }
    }

    /// The same machine with variants in `environment`.
    pub(super) fn changed(&self, environment: &Arc<Environment>) -> CpuBackend {
        let CpuShared { toolchain, host, .. } = &*self.shared;
        let toolchain = toolchain.with_compiler(environment.compiler());
        CpuBackend::with_environment(toolchain, host.clone(), Some(environment.clone()))
    }

    /// The compiler and its cache.
    pub fn toolchain(&self) -> &Toolchain {
        &self.shared.toolchain
    }

    /// How child processes are run.
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    /// As [`Backend::prepare`].
    pub(super) fn variant(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<CpuVariant, ReplayError> {
        let fixture = &place_fixture(self.shared.environment.as_deref(), fixture);
        let harness = &fixture.harness;
        let signature = Signature::from_fixture(fixture);
        let toolchain = &self.shared.toolchain;
        let artifact =
            toolchain.compile_while(harness, &signature, sources, precision, meanwhile)?;
        let shared = self.shared.clone();
        let fixture = fixture.clone();
        Ok(CpuVariant { shared, fixture, artifact, precision })
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> DeviceName {
        DeviceName { class: "cpu".to_owned(), description: "CPU".to_owned() }
    }

    fn compiler(&self) -> &str {
        self.toolchain().compiler().version()
    }

    fn identity(&self) -> String {
        format!("{} {}", self.toolchain().compiler().identity(), self.host().identity())
    }

    fn has_given_up(&self) -> bool {
        self.toolchain().has_given_up()
    }

    fn timeouts(&self) -> u64 {
        self.host().timeouts()
    }

    fn room(
        &self,
        fixture: &Fixture,
        precision: Precision,
        held_evidence: Held,
    ) -> Result<(), NoRoom> {
        self.host().room(fixture, precision, held_evidence)
    }

    fn expect_many(&self) {
        self.toolchain().expect_many();
    }

    fn in_environment(&self, environment: &Arc<Environment>) -> Arc<dyn Backend> {
        Arc::new(self.changed(environment))
    }

    fn prepare(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Arc<dyn Variant>, ReplayError> {
        Ok(Arc::new(self.variant(fixture, sources, precision, meanwhile)?))
    }
}

/// An artifact and its fixture.
pub(super) struct CpuVariant {
    shared: Arc<CpuShared>,
    fixture: Arc<Fixture>,
    pub(super) artifact: Artifact,
    precision: Precision,
}

impl CpuVariant {
    fn job(&self, threads: usize, mode: &Mode) -> Job {
        let host = &self.shared.host;
        let Mode { order, rounding, .. } = *mode;
        let record = mode.record.clone().unwrap_or_default();
        let device = DeviceJob::Cpu { threads, order, rounding, record };
        let variant = (&self.artifact, self.precision);
        host.job(device, host.limits.memory_limit_bytes, &self.fixture, variant, mode)
    }

    /// The bytes of inputs and outputs in a run.
    fn tensor_bytes(&self) -> usize {
        let is_wide = self.precision == Precision::Shadow;
        let (inputs, outputs) = worker::tensor_bytes(&self.fixture, is_wide);
        usize::try_from(inputs.saturating_add(outputs)).unwrap_or(usize::MAX)
    }

    /// A series of runs, made anew if it has not been used for long.
    fn series(&self) -> Arc<RunSeries> {
        let host = &self.shared.host;
        let artifact = &self.artifact;
        let fixture = &self.fixture;
        let mut all_series = self.shared.series.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (artifact.path.clone(), fixture.dir.clone(), fixture.elements);
        let known_index = all_series.iter().position(|(known_key, _)| *known_key == key);
        let entry = match known_index {
            Some(index) => all_series.remove(index),
            None => {
                let job = self.job(host.threads, &Mode::plain(POISON_A));
                let series = Arc::new(host.series(&job, fixture));
                (key, series)
            }
        };
        let series = entry.1.clone();
        all_series.push(entry);
        let first = all_series.len().saturating_sub(TEMPLATES);
        all_series.drain(..first);
        series
    }
}

impl Variant for CpuVariant {
    fn key(&self) -> String {
        self.artifact.key.clone()
    }

    fn call(&self) -> usize {
        self.artifact.call
    }

    fn can(&self, ability: Ability) -> bool {
        match ability {
            Ability::Poison
            | Ability::Rounding
            | Ability::Order
            | Ability::CallPart
            | Ability::SingleOutput
            | Ability::Repetition => true,
            Ability::Step => self.precision != Precision::Checked,
            Ability::AccessCheck => self.precision == Precision::Checked,
            Ability::PassedRounding => self.precision == Precision::Shadow,
            Ability::PoisonAround
            | Ability::Nudge
            | Ability::Line
            | Ability::Summary
            | Ability::Deviations
            | Ability::SharedDevice => false,
        }
    }

    fn obstacles(&self) -> &[String] {
        &self.artifact.shadow_obstacles
    }

    fn run(&self, mode: &Mode) -> Result<Run, ReplayError> {
        debug_assert!((self as &dyn Variant).allows(mode), "{mode:?}");
        let host = &self.shared.host;
        Ok(host.run_in(&self.series(), &self.job(host.threads, mode))?)
    }

    fn at_once(&self, like: Option<&Run>) -> usize {
        let Host { threads, limits, .. } = *self.shared.host;
        let most_runs = threads.max(LEAST_AT_ONCE);
        // On one core instead of all of them it may take so many times longer.
        if like.is_some_and(|run| run.call.saturating_mul(2 * threads as u32) > limits.timeout) {
            return 1;
        }
        let bytes = BYTES_AT_ONCE.max(Budget::of_process().left() / SHARE_AT_ONCE);
        (bytes / self.tensor_bytes().max(1)).clamp(1, most_runs)
    }

    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError> {
        let at_once = at_once.min(modes.len());
        let cores = self.shared.host.threads;
        let shares = if self.tensor_bytes() >= LARGE { SHARES } else { 1 };
        let threads = (shares * cores / at_once.max(1)).min(cores).max(1);
        let series = self.series();
        in_order(
            modes.len(),
            at_once,
            |index| {
                let mode: &Mode = &modes[index];
                debug_assert!((self as &dyn Variant).allows(mode), "{mode:?}");
                Ok(self.shared.host.run_in(&series, &self.job(threads, mode))?)
            },
            take,
        )
    }
}
