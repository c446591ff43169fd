//! Repeats a run under compute-sanitizer, with a module with line information.

use super::variant::{CudaVariant, run_and_extend_module};
use crate::backend::{Mode, ReplayError};
use crate::worker::{DeviceJob, Ending, Run};
use replay_base::summary::POISON_A;
use replay_cuda::sanitizer::{self, Sanitizer, SanitizerError, SanitizerFinding, Tool, Transcript};
use replay_frontend::Precision;

impl CudaVariant {
    /// The findings of the sanitizer; empty without one.
    pub(super) fn sanitized(&self) -> Result<Vec<(Tool, SanitizerFinding)>, ReplayError> {
        let Some(sanitizer) = &self.sanitizer else { return Ok(Vec::new()) };
        let (run, transcript) = self.run_under(sanitizer)?;
        let tool_findings = collect_sanitizer_findings(&run.ending, &run.printed, transcript)?;
        Ok(tool_findings.into_iter().map(|finding| (sanitizer.tool(), finding)).collect())
    }

    fn run_under(&self, sanitizer: &Sanitizer) -> Result<(Run, Transcript), ReplayError> {
        let cuda = &self.cuda;
        let fixture = &self.fixture;
        let toolchain = cuda.toolchain.clone().with_lines();
        let mut module =
            toolchain.compile(&fixture.harness, &self.sources, Some(&self.host.artifact))?;
        let scratch = cuda.cache.scratch()?;
        let log = scratch.path().join("compute-sanitizer.txt");
        let device = cuda.pool.lease();
        let run = run_and_extend_module(&toolchain, &mut module, |module| {
            let device = DeviceJob::Cuda {
                ordinal: device.ordinal(),
                module: module.path.clone(),
                summaries: Vec::new(),
                libraries: self.libraries.clone(),
                fetched: true,
                sanitizer: Some(sanitizer.tool()),
            };
            let machine = cuda.cpu.host();
            let native = (&self.host.artifact, Precision::Native);
            let mode = Mode::plain(POISON_A);
            let job = machine.job(device, cuda.memory_limit_bytes, fixture, native, &mode);
            let wrapper = sanitizer.wrapper(&log);
            Ok(machine.run(&job, fixture, Some(&wrapper))?)
        })?;
        let text = std::fs::read(&log).unwrap_or_default();
        Ok((run, sanitizer::parse_transcript(&String::from_utf8_lossy(&text))))
    }
}

/// The findings in `transcript`, if the run under the sanitizer came to its end.
fn collect_sanitizer_findings(
    ending: &Ending,
    printed: &str,
    transcript: Transcript,
) -> Result<Vec<SanitizerFinding>, SanitizerError> {
    if let Ending::TimedOut(limit, _) = ending {
        return Err(SanitizerError::TimedOut { seconds: limit.as_secs_f64() });
    }
    if !transcript.complete {
        let first_complaint = transcript.complaints.first().cloned();
        let message = first_complaint
            .or_else(|| printed.lines().last().map(str::to_owned))
            .unwrap_or_else(|| format!("{ending:?}"));
        return Err(SanitizerError::without_result(message));
    }
    Ok(transcript.findings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FOUND: &str = "========= COMPUTE-SANITIZER\n\
        ========= Invalid __global__ write of size 4 bytes\n\
        =========     at f(int *)+0x60 in k.cu:6\n\
        =========     by thread (4,0,0) in block (0,0,0)\n\
        ========= ERROR SUMMARY: 1 error\n";

    fn found(ending: Ending, printed: &str, log: &str) -> Result<Vec<String>, String> {
        let found = collect_sanitizer_findings(&ending, printed, sanitizer::parse_transcript(log));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|finding| finding.what).collect())
    }

    #[test]
    fn a_log_that_is_complete_tells_its_findings() {
        let write = "Invalid __global__ write of size 4 bytes".to_owned();
        assert_eq!(found(Ending::Completed, "", FOUND), Ok(vec![write]));
        let clean = "========= ERROR SUMMARY: 0 errors\n";
        assert_eq!(found(Ending::Completed, "", clean), Ok(Vec::new()));
    }

    #[test]
    fn a_log_that_ends_early_and_a_timeout_are_errors_and_no_verdict() {
        let error = |ending, printed, log| found(ending, printed, log).unwrap_err();
        let refused = "========= Error: Device not supported\n";
        insta::assert_snapshot!(error(Ending::Exited(255), "x\n", refused), @"compute-sanitizer gives no result: Error: Device not supported");
        insta::assert_snapshot!(error(Ending::Exited(255), "one\ncannot start\n", ""), @"compute-sanitizer gives no result: cannot start");
        let late = Ending::TimedOut(Duration::from_secs(2), None);
        insta::assert_snapshot!(error(late, "", FOUND), @"compute-sanitizer was still at work after 2 s");
    }
}
