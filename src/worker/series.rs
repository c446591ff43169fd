//! A series of runs of one artifact on one fixture. It holds lanes; each has a template that has loaded
//! both and forks a process for each run.
//!
//! Each run is as isolated as one that is started by itself: it has a process, limits, pipe and
//! memory of its own, and no state of another run. If a template cannot be used (the artifact's
//! initialisers print, start threads or crash), the runs are made without one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::WorkerError;
use super::inputs::{Captured, Common};
use super::lane::{Lane, Terms, Workers, address_space};
use super::run::{Declared, Run};
use super::{Job, Limits};
use crate::fixture::Fixture;

/// Runs of one artifact on one fixture on the CPU.
pub struct Series {
    workers: Arc<Workers>,
    limits: Limits,
    address_space: u64,
    /// The inputs that lie in memory once.
    captured: Captured,
    /// What else lies in the memory of a run, and what does where they have no room.
    declared: [Declared; 2],
    /// Those that make no replay at the moment.
    idle: Mutex<Vec<Lane>>,
}

impl Series {
    /// A series of runs that differ from `job` only in device, poison, step and part.
    pub fn new(workers: Arc<Workers>, job: &Job, fixture: &Fixture, limits: Limits) -> Series {
        let captured = Captured::of(fixture, job);
        let declared = [&captured.common, &Common::default()];
        Series {
            workers,
            limits,
            address_space: address_space(job, limits),
            declared: declared.map(|common| Declared::of(fixture, job, common)),
            captured,
            idle: Mutex::default(),
        }
    }

    /// Runs `job` and waits for its end; several threads may do so at once.
    ///
    /// # Errors
    /// As [`Workers::run`].
    pub fn run(&self, job: &Job) -> Result<Run, WorkerError> {
        let _span = job.span();
        let inputs = self.workers.inputs.of(&self.captured, &job.folder);
        let layout = self.declared[usize::from(inputs.is_none())].layout(&job.part);
        let terms = Terms {
            layout: &layout,
            inputs: inputs.as_deref(),
            limits: self.limits,
            address_space: self.address_space,
            series: true,
            wrapper: None,
        };
        let idle = self.idle().pop();
        let lane = idle.map_or_else(|| self.workers.lane(), Ok)?;
        let (run, is_idle) = self.workers.run_on(&lane, job, terms)?;
        if is_idle {
            self.idle().push(lane);
        }
        Ok(run)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
