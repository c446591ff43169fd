//! The machine of the host code, as replays may use it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::{Held, Mode, NoRoom, room};
use crate::compile::Artifact;
use crate::worker::{
    DeviceJob, Ending, Job, JobCalls, Limits, ReplayWorkers, Run, RunSeries, WorkerError,
};
use replay_base::process::walls::Sandbox;
use replay_cuda::sanitizer::Wrapper;
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;

/// How child processes are run.
pub struct Host {
    /// Time and memory of a child.
    pub limits: Limits,
    /// Operating-system threads for blocks.
    pub threads: usize,
    /// The folder for outputs too large for memory.
    folder: PathBuf,
    /// The program of the children.
    program: String,
    workers: Arc<ReplayWorkers>,
    timeouts: AtomicU64,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug_output = f.debug_struct("Host");
        debug_output.field("limits", &self.limits).field("threads", &self.threads);
        debug_output.field("program", &self.program).finish_non_exhaustive()
    }
}

impl Host {
    /// Children of `program`, of this one, within `limits`; `threads` threads of the operating
    /// system run blocks. Outputs too large for memory lie in `folder`.
    pub fn new(program: PathBuf, limits: Limits, threads: usize, folder: PathBuf) -> Host {
        let timeouts = AtomicU64::new(0);
        let identity = identify_program(&program);
        let workers = Arc::new(ReplayWorkers::new(program));
        Host { limits, threads, folder, program: identity, workers, timeouts }
    }

    /// The same with replayed code kept as `sandbox` says. No replay has begun yet.
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Host {
        if sandbox == Sandbox::Off {
            // What such code reached is no outcome behind walls.
            self.program.push_str(" without walls");
        }
        let workers = Arc::into_inner(self.workers).expect("no replay has begun");
        self.workers = Arc::new(workers.with_sandbox(sandbox));
        self
    }

    /// How replayed code is kept.
    pub fn sandbox(&self) -> Sandbox {
        self.workers.sandbox()
    }

    /// Identifies this build of the program, since another may run otherwise, and the limits with an influence on
    /// outcomes.
    pub fn identity(&self) -> String {
        format!("{} {}", self.limits.memory_limit_bytes, self.program)
    }

    /// Whether this machine has room for `held_evidence` of `fixture`.
    pub(super) fn room(
        &self,
        fixture: &Fixture,
        precision: Precision,
        held_evidence: Held,
    ) -> Result<(), NoRoom> {
        room::on_device(fixture, precision, self.limits.memory_limit_bytes, false)?;
        room::on_host(fixture, precision, held_evidence, &self.folder)
    }

    /// Whether this machine has room for `held_evidence` of `fixture` from programs. They compute on a device with
    /// `device_bytes`, or on this machine.
    pub(super) fn room_for_programs(
        &self,
        fixture: &Fixture,
        precision: Precision,
        held_evidence: Held,
        device_bytes: Option<u64>,
    ) -> Result<(), NoRoom> {
        match device_bytes {
            Some(device_memory) => room::on_device(fixture, precision, device_memory, true)?,
            None => room::on_device(fixture, precision, self.limits.memory_limit_bytes, false)?,
        }
        room::for_programs(fixture, precision, held_evidence, device_bytes.is_none(), &self.folder)
    }

    /// How many runs were out of time so far.
    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::SeqCst)
    }

    /// The job of a child: to run `artifact` on `fixture` in `mode`, with `memory_limit_bytes` of device memory.
    pub(super) fn job(
        &self,
        device: DeviceJob,
        memory_limit_bytes: u64,
        fixture: &Fixture,
        (artifact, precision): (&Artifact, Precision),
        mode: &Mode,
    ) -> Job {
        Job {
            artifact: artifact.place(),
            fixture: fixture.dir.clone(),
            elements: fixture.elements,
            precision,
            device,
            poison: mode.poison,
            memory_limit_bytes,
            folder: self.folder.clone(),
            step: mode.change.step().cloned(),
            part: mode.part.clone(),
            calls: JobCalls::Once,
        }
    }

    /// Makes the run of `job`, under `wrapper` if there is one.
    pub(super) fn run(
        &self,
        job: &Job,
        fixture: &Fixture,
        wrapper: Option<&Wrapper>,
    ) -> Result<Run, WorkerError> {
        Ok(self.counted(self.workers.run(job, fixture, self.limits, wrapper)?))
    }

    /// A series of runs like `job`.
    pub(super) fn series(&self, job: &Job, fixture: &Fixture) -> RunSeries {
        RunSeries::new(self.workers.clone(), job, fixture, self.limits)
    }

    /// Makes the run of `job`, one of `series`.
    pub(super) fn run_in(&self, series: &RunSeries, job: &Job) -> Result<Run, WorkerError> {
        Ok(self.counted(series.run(job)?))
    }

    /// `run`, after it was noted if it ran out of time.
    pub(super) fn counted(&self, run: Run) -> Run {
        tracing::debug!(
            inputs = ?run.inputs_time,
            call = ?run.call,
            outputs = ?run.outputs_time,
            "the run told"
        );
        if matches!(run.ending, Ending::TimedOut(..)) {
            self.timeouts.fetch_add(1, Ordering::SeqCst);
        }
        run
    }
}

/// Identifies a build of this program by its version and the state of the file `program`. If the
/// state is unknown, the text is unique.
fn identify_program(program: &Path) -> String {
    let metadata = std::fs::metadata(program);
    let stamp = metadata.and_then(|file| Ok((file.len(), file.modified()?)));
    let version = env!("CARGO_PKG_VERSION");
    match stamp {
        Ok(stamp) => format!("{version} {stamp:?}"),
        Err(_) => format!("{version} {} {:?}", std::process::id(), SystemTime::now()),
    }
}
