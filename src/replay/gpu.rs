//! Replays on GPUs: which one they run on, what their module lacks, and which outputs come back.

use super::pool::Lease;
use super::{Backend, Cuda, DeviceJob, Mode, ReplayError, Replayer, Subject};
use crate::compile::{Artifact, DeviceModule};
use crate::frontend::Precision;
use crate::summary::{POISON_A, POISON_B, Summary};
use crate::worker::{self, Job, Run};

/// Outputs of a GPU that are larger than this in all are summarised there.
const SUMMARIZED_BYTES: usize = 64 << 20;

/// Replays of one artifact on one GPU.
struct Turn<'r> {
    replayer: &'r Replayer,
    subject: &'r Subject,
    artifact: &'r Artifact,
    cuda: &'r Cuda,
    device: Lease<'r>,
    module: DeviceModule,
}

impl Turn<'_> {
    fn job(&self, mode: &Mode) -> Result<Job, ReplayError> {
        let fixture = &self.subject.fixture;
        let summaries = if mode.summarized { self.cuda.summaries(fixture)? } else { Vec::new() };
        let device = DeviceJob::Cuda {
            ordinal: self.device.ordinal(),
            module: self.module.path.clone(),
            summaries,
            sanitizer: None,
        };
        Ok(self.replayer.job(device, self.subject, self.artifact, Precision::Native, mode))
    }

    /// Runs once; learns what the module lacks, and begins again with one that has it.
    fn run(&mut self, mode: &Mode) -> Result<Run, ReplayError> {
        let (settings, fixture) = (&self.replayer.settings, &self.subject.fixture);
        loop {
            let job = self.job(mode)?;
            let run = worker::start(&settings.program, &job, fixture, settings.limits, None)?;
            match &run.unresolved {
                // What the module was built with and lacks all the same would be asked for again.
                Some(lacking) if !self.module.expressions.contains(lacking) => {
                    let extended = self.cuda.toolchain.extend(&self.module, lacking);
                    self.module = extended.map_err(ReplayError::Compile)?;
                }
                _ => return Ok(run),
            }
        }
    }
}

impl Replayer {
    fn turn<'r>(
        &'r self,
        subject: &'r Subject,
        artifact: &'r Artifact,
        cuda: &'r Cuda,
        module: &DeviceModule,
    ) -> Turn<'r> {
        let (device, module) = (cuda.pool.take(), module.clone());
        Turn { replayer: self, subject, artifact, cuda, device, module }
    }

    /// Runs `module` on the GPU that has the least to do.
    pub(super) fn run_module(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        cuda: &Cuda,
        module: &DeviceModule,
        mode: &Mode,
    ) -> Result<Run, ReplayError> {
        self.turn(subject, artifact, cuda, module).run(mode)
    }

    /// Two plain runs on a GPU, one after the other: the second knows what the first learned, and
    /// has all the memory. Where two GPUs are idle each has one of them.
    pub(crate) fn run_on_gpus(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        modes: &[Mode; 2],
    ) -> Result<(Run, Run), ReplayError> {
        match (&self.settings.backend, &artifact.module) {
            (Backend::Cuda(cuda), Some(module)) if cuda.pool.idle() < 2 => {
                let mut turn = self.turn(subject, artifact, cuda, module);
                Ok((turn.run(&modes[0])?, turn.run(&modes[1])?))
            }
            _ => {
                let run = |mode| self.run(subject, artifact, Precision::Native, mode);
                let (one, other) = rayon::join(|| run(&modes[0]), || run(&modes[1]));
                Ok((one?, other?))
            }
        }
    }

    /// Two plain runs on a GPU that differ in their poison. Large outputs come back only if their
    /// summaries leave questions.
    pub(super) fn run_twice(
        &self,
        subject: &Subject,
        artifact: &Artifact,
    ) -> Result<(Run, Run), ReplayError> {
        let both = |summarized| {
            let modes =
                [POISON_A, POISON_B].map(|poison| Mode { summarized, ..Mode::plain(poison) });
            self.run_on_gpus(subject, artifact, &modes)
        };
        let bytes: usize = subject.fixture.outputs.iter().map(|output| output.bytes()).sum();
        if bytes >= SUMMARIZED_BYTES {
            let (first, second) = both(true)?;
            let pairs = first.summaries.iter().zip(&second.summaries);
            let alike = first.summaries.len() == second.summaries.len();
            if alike && pairs.into_iter().all(unquestioned) {
                return Ok((first, second));
            }
        }
        both(false)
    }
}

/// Whether two runs that differ in their poison wrote the same finite elements, all of them.
fn unquestioned(((_, one), (_, other)): (&(String, Summary), &(String, Summary))) -> bool {
    let clean = |summary: &Summary| summary.unwritten + summary.nan + summary.inf == 0;
    one.checksum == other.checksum && clean(one) && clean(other)
}
