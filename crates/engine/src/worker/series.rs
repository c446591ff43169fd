//! A series of runs of one artifact on one fixture. It holds lanes. Each has a template: a process with both
//! loaded, and it forks a process for each run.
//!
//! Each run is as isolated as a single one: it has a process, limits, pipe and
//! memory of its own, and no state of another run. If a template cannot be used (the artifact's
//! initialisers print, start threads or crash), the runs are made without one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::WorkerError;
use super::inputs::{Captured, Common};
use super::keeper_client::{KeeperClient, ReplayWorkers, RunTerms, address_space};
use super::run::{DeclaredTensors, Run};
use super::{Job, Limits};
use replay_fixture::fixture::Fixture;

/// Runs of one artifact on one fixture on the CPU.
pub struct RunSeries {
    workers: Arc<ReplayWorkers>,
    limits: Limits,
    address_space: u64,
    /// The inputs in memory common to all runs.
    captured: Captured,
    /// The other tensors of a run, and all tensors of a run without room for common inputs.
    declared: [DeclaredTensors; 2],
    /// Lanes without a replay at the moment.
    idle: Mutex<Vec<KeeperClient>>,
}

impl RunSeries {
    /// A series of runs like `job`. They differ only in device, poison, step and part.
    pub fn new(
        workers: Arc<ReplayWorkers>,
        job: &Job,
        fixture: &Fixture,
        limits: Limits,
    ) -> RunSeries {
        let captured = Captured::from_fixture(fixture, job);
        let common_inputs = [&captured.common, &Common::default()];
        RunSeries {
            workers,
            limits,
            address_space: address_space(job, limits),
            declared: common_inputs
                .map(|common| DeclaredTensors::from_fixture(fixture, job, common)),
            captured,
            idle: Mutex::default(),
        }
    }

    /// Runs `job` and waits for its end; several threads may do so at once.
    ///
    /// # Errors
    /// As [`ReplayWorkers::run`].
    pub fn run(&self, job: &Job) -> Result<Run, WorkerError> {
        let _span = job.span();
        let inputs = self.workers.inputs.lay_out(&self.captured, &job.folder);
        let layout = self.declared[usize::from(inputs.is_none())].layout(&job.part);
        let terms = RunTerms {
            layout: &layout,
            inputs: inputs.as_deref(),
            limits: self.limits,
            address_space: self.address_space,
            series: true,
            wrapper: None,
            is_traced: false,
        };
        let idle = self.idle().pop();
        let lane = idle.map_or_else(|| self.workers.lane(), Ok)?;
        let (run, is_idle) = self.workers.run_on(&lane, job, terms)?;
        if is_idle {
            self.idle().push(lane);
        }
        Ok(run)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<KeeperClient>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
