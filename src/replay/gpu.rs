//! Replays on GPUs: which one they run on, what their module lacks, and which outputs come back.

use super::pool::Lease;
use super::{Backend, Cuda, DeviceJob, Mode, ReplayError, Replayer, Subject};
use crate::compile::{Artifact, DeviceModule, DeviceToolchain};
use crate::frontend::Precision;
use crate::summary::{POISON_A, POISON_B, Summary};
use crate::worker::{Job, Run};

/// Outputs of a GPU that are larger than this in all are summarised there.
const SUMMARIZED_BYTES: usize = 64 << 20;

/// Replays of one artifact on one GPU.
struct Turn<'r> {
    replayer: &'r Replayer,
    subject: &'r Subject,
    artifact: &'r Artifact,
    cuda: &'r Cuda,
    device: Lease<'r>,
}

impl Turn<'_> {
    fn job(&self, module: &DeviceModule, mode: &Mode) -> Result<Job, ReplayError> {
        let fixture = &self.subject.fixture;
        let summaries = if mode.summarized { self.cuda.summaries(fixture)? } else { Vec::new() };
        let device = DeviceJob::Cuda {
            ordinal: self.device.ordinal(),
            module: module.path.clone(),
            summaries,
            sanitizer: None,
        };
        Ok(self.replayer.job(device, self.subject, self.artifact, Precision::Native, mode))
    }

    fn run(&self, module: &mut DeviceModule, mode: &Mode) -> Result<Run, ReplayError> {
        learning(&self.cuda.toolchain, module, |module| {
            let (settings, fixture) = (&self.replayer.settings, &self.subject.fixture);
            let job = self.job(module, mode)?;
            let run = self.replayer.workers.run(&job, fixture, settings.limits, None)?;
            Ok(self.replayer.counted(run))
        })
    }
}

/// What `run` gives; where it tells what the module lacks, it begins again with one that has it.
pub(super) fn learning(
    toolchain: &DeviceToolchain,
    module: &mut DeviceModule,
    run: impl Fn(&DeviceModule) -> Result<Run, ReplayError>,
) -> Result<Run, ReplayError> {
    loop {
        let run = run(module)?;
        match &run.unresolved {
            // What the module was built with and lacks all the same would be asked for again.
            Some(lacking) if !module.expressions.contains(lacking) => {
                *module = toolchain.extend(module, lacking).map_err(ReplayError::Compile)?;
            }
            _ => return Ok(run),
        }
    }
}

impl Replayer {
    fn turn<'r>(
        &'r self,
        subject: &'r Subject,
        artifact: &'r Artifact,
        cuda: &'r Cuda,
    ) -> Turn<'r> {
        Turn { replayer: self, subject, artifact, cuda, device: cuda.pool.take() }
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
        self.turn(subject, artifact, cuda).run(&mut module.clone(), mode)
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
                let (turn, mut module) = (self.turn(subject, artifact, cuda), module.clone());
                Ok((turn.run(&mut module, &modes[0])?, turn.run(&mut module, &modes[1])?))
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
