//! Runs on GPUs: chooses the device, and extends the module when it lacks an instance.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::CudaShared;
use super::pool::DeviceLease;
use crate::backend::cpu::CpuVariant;
use crate::backend::in_order::in_order;
use crate::backend::{Ability, Mode, ReplayError, Take, Variant};
use crate::compile::{DeviceModule, DeviceToolchain};
use crate::worker::{DeviceJob, Ending, Job, JobCalls, Run};
use replay_base::summary::POISON_A;
use replay_cuda::blas::BlasFiles;
use replay_cuda::sanitizer::{Sanitizer, SanitizerFinding, Tool};
use replay_cuda::{identify_library, random};
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;
use replay_history::SourceSet;

/// Host code, the module with its kernels, and their fixture.
pub(super) struct CudaVariant {
    pub cuda: Arc<CudaShared>,
    pub sanitizer: Option<Sanitizer>,
    pub fixture: Arc<Fixture>,
    pub sources: SourceSet,
    pub host: CpuVariant,
    pub module: DeviceModule,
    /// The folders with the libraries of the sources.
    pub libraries: Vec<PathBuf>,
    /// Whether the device measures how far directed rounding moves outputs; not any more once it has failed to.
    pub deviates: AtomicBool,
}

/// Runs of one variant on one GPU.
struct DeviceRuns<'v> {
    variant: &'v CudaVariant,
    device: DeviceLease<'v>,
}

impl DeviceRuns<'_> {
    /// Makes `calls` in `mode`.
    fn run(
        &self,
        module: &mut DeviceModule,
        mode: &Mode,
        calls: &JobCalls,
    ) -> Result<Run, ReplayError> {
        debug_assert!((self.variant as &dyn Variant).allows(mode), "{mode:?}");
        let CudaVariant { cuda, fixture, host, .. } = self.variant;
        run_and_extend_module(&cuda.toolchain, module, |module| {
            let summaries =
                if mode.outputs.summarizes() { cuda.summaries(fixture)? } else { Vec::new() };
            let device = DeviceJob::Cuda {
                ordinal: self.device.ordinal(),
                module: module.path.clone(),
                summaries,
                libraries: self.variant.libraries.clone(),
                fetched: mode.outputs.fetches(),
                sanitizer: None,
            };
            let machine = cuda.cpu.host();
            let native = (&host.artifact, Precision::Native);
            let job = machine.job(device, cuda.memory_limit_bytes, fixture, native, mode);
            Ok(machine.run(&Job { calls: calls.clone(), ..job }, fixture, None)?)
        })
    }
}

/// The result of `run`. While a run reports a missing expression, extends the module and runs again.
pub(super) fn run_and_extend_module(
    toolchain: &DeviceToolchain,
    module: &mut DeviceModule,
    run: impl Fn(&DeviceModule) -> Result<Run, ReplayError>,
) -> Result<Run, ReplayError> {
    loop {
        let run = run(module)?;
        match &run.unresolved {
            // If the module was built with the expression and still lacks it, each run would report it.
            Some(lacking) if !module.expressions.contains(lacking) => {
                *module = toolchain.extend(module, lacking)?;
            }
            _ => return Ok(run),
        }
    }
}

impl CudaVariant {
    /// The least busy GPU.
    fn turn(&self) -> DeviceRuns<'_> {
        DeviceRuns { variant: self, device: self.cuda.pool.lease() }
    }
}

impl Variant for CudaVariant {
    fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.host.artifact.key, &self.module.key] {
            hasher.update(part.as_bytes());
        }
        if let Ok(files) = BlasFiles::find(&self.libraries) {
            hasher.update(files.identity().as_bytes());
        }
        if let Ok(file) = random::find_curand(&self.libraries) {
            hasher.update(identify_library(&file).as_bytes());
        }
        hasher.finalize().to_hex()[..40].to_owned()
    }

    fn call(&self) -> usize {
        self.host.call()
    }

    fn can(&self, ability: Ability) -> bool {
        match ability {
            Ability::Poison | Ability::SingleOutput | Ability::Summary => true,
            Ability::Deviations => self.deviates.load(Ordering::Relaxed),
            Ability::SharedDevice => self.cuda.has_room_for_both(&self.fixture),
            Ability::PoisonAround
            | Ability::Rounding
            | Ability::PassedRounding
            | Ability::Order
            | Ability::Step
            | Ability::Nudge
            | Ability::Line
            | Ability::CallPart
            | Ability::AccessCheck
            | Ability::Repetition => false,
        }
    }

    fn reference(&self) -> Option<&dyn Variant> {
        Some(&self.host)
    }

    fn math_ulps(&self) -> f64 {
        self.module.math_ulps()
    }

    fn has_atomics(&self) -> bool {
        self.module.has_atomics()
    }

    fn run(&self, mode: &Mode) -> Result<Run, ReplayError> {
        self.turn().run(&mut self.module.clone(), mode, &JobCalls::Once)
    }

    fn at_once(&self, _like: Option<&Run>) -> usize {
        self.cuda.pool.len()
    }

    /// If several GPUs are idle, each makes one run at a time. Otherwise runs follow one another:
    /// each then has the extended module of the first, and all the memory.
    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError> {
        let at_once = at_once.min(self.cuda.pool.idle());
        if at_once >= 2 {
            return in_order(modes.len(), at_once, |index| self.run(&modes[index]), take);
        }
        let turn = self.turn();
        let mut module = self.module.clone();
        let mut modes = modes.iter().enumerate();
        modes.try_for_each(|(index, mode)| {
            take(index, turn.run(&mut module, mode, &JobCalls::Once)?)
        })
    }

    fn deviations(&self, jump: f64) -> Result<Option<Run>, ReplayError> {
        if !self.can(Ability::Deviations) {
            return Ok(None);
        }
        let mode = Mode::plain(POISON_A);
        let calls = JobCalls::InEachRounding { jump };
        match self.turn().run(&mut self.module.clone(), &mode, &calls) {
            Ok(run) if run.ending == Ending::Completed => return Ok(Some(run)),
            Ok(run) => tracing::info!("rounding is the CPU's: {:?}", run.ending),
            Err(error) => tracing::info!("rounding is the CPU's: {error}"),
        }
        self.deviates.store(false, Ordering::Relaxed);
        Ok(None)
    }

    fn check(&self) -> Result<Vec<(Tool, SanitizerFinding)>, ReplayError> {
        self.sanitized()
    }
}
