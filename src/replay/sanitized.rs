//! A replay repeated under compute-sanitizer: its findings become failures of the outcome.

use super::gpu::learning;
use super::{Backend, Cuda, Failure, Mode, Outcome, ReplayError, Replayer, Status, Subject};
use crate::compile::Artifact;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::sanitizer::{self, Log, Sanitizer, SanitizerError, Tool};
use crate::summary::POISON_A;
use crate::worker::{DeviceJob, Ending, Run};

impl Replayer {
    /// `outcome`, with what `sanitizer` finds in a replay of its own. Remembered apart from what
    /// replays without it gave.
    pub(super) fn sanitized(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        artifact: &Artifact,
        sanitizer: &Sanitizer,
        outcome: Outcome,
    ) -> Result<Outcome, ReplayError> {
        let Backend::Cuda(cuda) = &self.settings.backend else { return Ok(outcome) };
        if matches!(outcome.status, Status::Untestable { .. }) {
            return Ok(outcome);
        }
        let version = sanitizer.version().unwrap_or_default();
        let plain = self.outcome_key(subject, artifact)?;
        let key = blake3::hash(format!("{plain} {} {version}", sanitizer.tool().name()).as_bytes());
        let key = key.to_hex()[..40].to_owned();
        if !self.settings.fresh
            && let Some(outcome) = self.remembered(&key)
        {
            return Ok(outcome);
        }
        let (run, log) = self.run_under(subject, sources, artifact, cuda, sanitizer)?;
        let outcome = with_findings(outcome, &run.ending, &run.printed, log, sanitizer.tool())?;
        self.keep_outcome(&key, &outcome)?;
        Ok(outcome)
    }

    /// Runs once under `sanitizer`, with a module that knows the lines of its source.
    fn run_under(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        artifact: &Artifact,
        cuda: &Cuda,
        sanitizer: &Sanitizer,
    ) -> Result<(Run, Log), ReplayError> {
        let toolchain = cuda.toolchain.clone().with_lines();
        let compiled = toolchain.compile(&subject.fixture.harness, sources);
        let mut module = compiled.map_err(ReplayError::Compile)?;
        let scratch = self.cache.scratch()?;
        let log = scratch.path().join("compute-sanitizer.txt");
        let device = cuda.pool.take();
        let run = learning(&toolchain, &mut module, |module| {
            let device = DeviceJob::Cuda {
                ordinal: device.ordinal(),
                module: module.path.clone(),
                summaries: Vec::new(),
                sanitizer: Some(sanitizer.tool()),
            };
            let mode = Mode::plain(POISON_A);
            let job = self.job(device, subject, artifact, Precision::Native, &mode);
            let (fixture, limits) = (&subject.fixture, self.settings.limits);
            let wrapper = sanitizer.wrapper(&log);
            Ok(self.workers.run(&job, fixture, limits, Some(&wrapper))?)
        })?;
        let text = std::fs::read(&log).unwrap_or_default();
        Ok((run, sanitizer::read(&String::from_utf8_lossy(&text))))
    }
}

/// Puts what `log` tells before what is known of `outcome`.
fn with_findings(
    mut outcome: Outcome,
    ending: &Ending,
    printed: &str,
    log: Log,
    tool: Tool,
) -> Result<Outcome, SanitizerError> {
    if let Ending::TimedOut(limit, _) = ending {
        return Err(SanitizerError::TimedOut { seconds: limit.as_secs_f64() });
    }
    if !log.complete {
        let said = log.complaints.first().cloned();
        let last = || printed.lines().last().map(str::to_owned);
        let message = said.or_else(last).unwrap_or_else(|| format!("{ending:?}"));
        return Err(SanitizerError::Failed { message });
    }
    let mut failures: Vec<Failure> =
        log.findings.into_iter().map(|finding| Failure::Sanitizer { tool, finding }).collect();
    if failures.is_empty() {
        return Ok(outcome);
    }
    if let Status::Failed(known) = &mut outcome.status {
        failures.append(known);
    }
    outcome.status = Status::Failed(failures);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(status: Status) -> Outcome {
        Outcome {
            device: "sm_90".to_owned(),
            device_description: "NVIDIA H200".to_owned(),
            compiler: String::new(),
            call: Some(0),
            status,
            launches: Vec::new(),
            launch_count: 0,
            outputs: Vec::new(),
            printed: String::new(),
        }
    }

    const FOUND: &str = "========= COMPUTE-SANITIZER\n\
        ========= Invalid __global__ write of size 4 bytes\n\
        =========     at f(int *)+0x60 in k.cu:6\n\
        =========     by thread (4,0,0) in block (0,0,0)\n\
        ========= ERROR SUMMARY: 1 error\n";

    fn folded(status: Status, ending: Ending, printed: &str, log: &str) -> Result<Outcome, String> {
        let log = sanitizer::read(log);
        let folded = with_findings(outcome(status), &ending, printed, log, Tool::Memcheck);
        folded.map_err(|error| error.to_string())
    }

    #[test]
    fn findings_come_before_what_the_replay_itself_showed() {
        let kinds = |status| {
            let found = folded(status, Ending::Completed, "", FOUND).unwrap();
            let Status::Failed(failures) = found.status else { panic!("{found:?}") };
            failures.iter().map(Failure::kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(Status::Completed), ["memcheck"]);
        let exit = Status::Failed(vec![Failure::Exit { code: 1 }]);
        assert_eq!(kinds(exit), ["memcheck", "exit"]);
    }

    #[test]
    fn a_clean_log_leaves_the_outcome_alone() {
        let clean = "========= ERROR SUMMARY: 0 errors\n";
        let found = folded(Status::Completed, Ending::Completed, "", clean).unwrap();
        assert_eq!(found, outcome(Status::Completed));
    }

    #[test]
    fn a_log_that_ends_early_and_a_timeout_are_errors_and_no_verdict() {
        let error =
            |ending, printed, log| folded(Status::Completed, ending, printed, log).unwrap_err();
        let refused = "========= Error: Device not supported\n";
        insta::assert_snapshot!(error(Ending::Exited(255), "x\n", refused), @"compute-sanitizer gives no result: Error: Device not supported");
        insta::assert_snapshot!(error(Ending::Exited(255), "one\ncannot start\n", ""), @"compute-sanitizer gives no result: cannot start");
        let late = Ending::TimedOut(Duration::from_secs(2), None);
        insta::assert_snapshot!(error(late, "", FOUND), @"compute-sanitizer was still at work after 2 s");
    }
}
