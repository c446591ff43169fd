//! The float64 shadow on a GPU. What does not run there to its end, or goes beside its memory, runs on the CPU
//! instead: there it is told what is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Shared;
use super::variant::learning;
use crate::backend::cpu::CpuVariant;
use crate::backend::in_order::in_order;
use crate::backend::{Abilities, Mode, ReplayError, Take, Variant};
use crate::compile::DeviceModule;
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::worker::{DeviceJob, Ending, Run};

/// A shadow's host code, the module with its kernels, and the fixture that they run on.
pub(super) struct CudaShadow {
    cuda: Arc<Shared>,
    fixture: Arc<Fixture>,
    host: CpuVariant,
    module: DeviceModule,
    /// Whether a run has failed on the device: none is made there any more.
    has_failed: AtomicBool,
}

impl CudaShadow {
    /// The shadow of `host`, with `module` for the device.
    pub(super) fn new(
        cuda: Arc<Shared>,
        fixture: Arc<Fixture>,
        host: CpuVariant,
        module: DeviceModule,
    ) -> CudaShadow {
        CudaShadow { cuda, fixture, host, module, has_failed: AtomicBool::new(false) }
    }

    fn run_on_device(&self, mode: &Mode) -> Result<Run, ReplayError> {
        debug_assert!(self.abilities().allow(mode), "{mode:?}");
        let (cuda, fixture) = (&self.cuda, &self.fixture);
        let device = cuda.pool.take();
        learning(&cuda.toolchain, &mut self.module.clone(), |module| {
            let device = DeviceJob::Cuda {
                ordinal: device.ordinal(),
                module: module.path.clone(),
                summaries: Vec::new(),
                // Sources that call a library have their shadow on the CPU.
                libraries: Vec::new(),
                sanitizer: None,
            };
            let machine = cuda.cpu.host();
            let shadow = (&self.host.artifact, Precision::Shadow);
            let job = machine.job(device, cuda.memory_bytes, fixture, shadow, mode);
            Ok(machine.run(&job, fixture, None)?)
        })
    }
}

/// Whether `run` shows no fault: what the shadow does wrong may be the device's limits, not the sources'.
fn is_sound(run: &Run) -> bool {
    let is_refused = run.launches.iter().any(|launch| launch.error.is_some());
    run.ending == Ending::Completed && !is_refused && run.overruns.is_empty()
}

impl Variant for CudaShadow {
    fn key(&self) -> String {
        format!("{} {}", self.host.key(), self.module.key)
    }

    fn call(&self) -> usize {
        self.host.call()
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            poison: true,
            surroundings: false,
            rounding: false,
            order: false,
            step: true,
            nudge: false,
            along: false,
            part: false,
            summary: false,
            check: false,
            repeats: false,
        }
    }

    fn reference(&self) -> Option<&dyn Variant> {
        Some(&self.host)
    }

    fn run(&self, mode: &Mode) -> Result<Run, ReplayError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            match self.run_on_device(mode) {
                Ok(run) if is_sound(&run) => return Ok(run),
                Ok(run) => tracing::info!("the float64 shadow goes to the CPU: {:?}", run.ending),
                Err(error) => tracing::info!("the float64 shadow goes to the CPU: {error}"),
            }
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.host.run(mode)
    }

    fn at_once(&self, like: Option<&Run>) -> usize {
        match self.has_failed.load(Ordering::Relaxed) {
            true => self.host.at_once(like),
            false => self.cuda.pool.len(),
        }
    }

    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError> {
        if self.has_failed.load(Ordering::Relaxed) {
            return self.host.run_each(modes, at_once, take);
        }
        in_order(modes.len(), at_once, |index| self.run(&modes[index]), take)
    }
}
