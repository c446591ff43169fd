//! Replays for programs: versioned documents, one a command. `docs/schema.md` describes them field by
//! field, `docs/schema` holds their JSON Schemas, made from these types.

mod bisect;
mod config;
mod diff;
mod env;
mod explain;
mod gradcheck;
mod gradients;
mod hunks;
mod inspect;
mod log;
mod outputs;
mod shrink;
mod step;

use serde::Serialize;

use self::gradients::{CheckedGradient, checked_gradients};
use self::outputs::{JudgedOutput, judged_outputs};
use super::accesses::describe_access;
use super::text::describe_failure;
use super::{
    Blame, CaptureRevision, RefusedFixture, ReportEntry, Revision, RunRecord, SnapshotCheck,
    Standing,
};
use replay_base::summary::Summary;
use replay_base::tensor::{DType, Dim};
use replay_bisect::CapturedBy;
use replay_engine::environment::{RecordedSetting, RecordedVersion};
use replay_engine::judge::{Accesses, Judgement, KnownCheck, LaunchChange, Verdict};
use replay_engine::trial::{Failure, OrderDependence, Outcome, OutputRecord, Status};
use replay_history::Commit;
use replay_runtime::report::{AccessFinding, LaunchRecord};

pub use bisect::{render_begin_json, render_bisect_json, render_event_json, render_recorded_json};
pub use config::{ConfigFilePaths, ConfigOrigin, ConfigSetting, render_config_json};
pub use diff::render_diff_json;
pub use env::{RecordedFacts, render_env_json};
pub use explain::render_explanation_json;
pub use gradcheck::render_gradcheck_json;
pub use inspect::{Inspected, render_inspection_json};
pub use log::render_log_json;
pub use shrink::render_shrink_json;
pub use step::render_step_json;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay/1";

/// The document that `replay FIXTURE... --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay --format json")]
struct ReplayDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    replays: Vec<JsonReplay<'a>>,
    errors: &'a [RefusedFixture],
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonReplay<'a> {
    fixture: &'a str,
    revision: Option<&'a Revision>,
    device: JsonDevice<'a>,
    compiler: &'a str,
    verdict: Standing,
    failures: Vec<JsonFailure<'a>>,
    untestable: Option<JsonUntestable<'a>>,
    call: Option<usize>,
    launches: &'a [LaunchRecord],
    launch_count: u64,
    outputs: Vec<JsonOutput<'a>>,
    captured: &'a [KnownCheck],
    captured_at: Option<&'a CaptureRevision>,
    /// Where a captured output is missed: the versions of the capture that are others here.
    captured_with: &'a [RecordedVersion],
    /// Where a captured output is missed: the settings of the capture that are others here.
    captured_settings: &'a [RecordedSetting],
    oracle: &'a [KnownCheck],
    gradients: Vec<CheckedGradient<'a>>,
    orders: &'a [OrderDependence],
    /// The end of the call in another order, where it has no outputs to compare.
    order_failure: Option<JsonFailure<'a>>,
    accesses: Option<AccessesTold<'a>>,
    against: Option<Against<'a>>,
    base_lacks: Option<&'a str>,
    culprit: Option<&'a Blame>,
    snapshot: Option<&'a SnapshotCheck>,
    printed: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonDevice<'a> {
    class: &'a str,
    description: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonFailure<'a> {
    text: String,
    #[serde(flatten)]
    failure: &'a Failure,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonUntestable<'a> {
    reason: &'a str,
    causes: &'a [String],
    hint: Option<&'a str>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonOutput<'a> {
    name: &'a str,
    dtype: DType,
    dims: &'a [Dim],
    shows_unwritten: bool,
    #[serde(flatten)]
    summary: &'a Summary,
}

#[derive(Serialize, schemars::JsonSchema)]
struct AccessesTold<'a> {
    reason: Option<String>,
    findings: Vec<FindingTold<'a>>,
    left_out: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FindingTold<'a> {
    text: String,
    known: bool,
    #[serde(flatten)]
    finding: &'a AccessFinding,
}

/// What is wrong with accesses on one side and not on the trusted one, and the other way round.
#[derive(Serialize, schemars::JsonSchema)]
struct AccessesCompared<'a> {
    #[serde(flatten)]
    accesses: AccessesTold<'a>,
    gone: Vec<FindingGone<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FindingGone<'a> {
    text: String,
    finding: &'a AccessFinding,
}

/// Which commits give the outputs that a fixture holds as captured.
#[derive(Serialize, schemars::JsonSchema)]
struct CapturedOutputs<'a> {
    fixture: &'a str,
    given_by: Vec<Revision>,
    not_by: Vec<Revision>,
    lost_at: Option<Revision>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Against<'a> {
    revision: Option<&'a Revision>,
    verdict: Verdict,
    outputs: Vec<JudgedOutput<'a>>,
    launches_changed: &'a [LaunchChange],
    without_shadow: Option<&'a str>,
}

/// The document for `entries`, and for the fixtures that could not be replayed.
pub fn render_replay_json(
    entries: &[ReportEntry],
    errors: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let replays = entries.iter().map(build_json_replay).collect();
    let document = ReplayDocument { schema: SCHEMA, run, replays, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_replay(entry: &ReportEntry) -> JsonReplay<'_> {
    let Outcome { device, device_description, compiler, call, status, .. } = &entry.outcome;
    let (failures, untestable) = match status {
        Status::Completed => (Vec::new(), None),
        Status::Failed(failures) => (failures.iter().map(build_json_failure).collect(), None),
        Status::Untestable { reason, causes, hint } => {
            (Vec::new(), Some(JsonUntestable { reason, causes, hint: hint.as_deref() }))
        }
    };
    JsonReplay {
        fixture: &entry.fixture,
        revision: entry.revision.as_ref(),
        device: JsonDevice { class: device, description: device_description },
        compiler,
        verdict: Standing::from_entry(entry),
        failures,
        untestable,
        call: *call,
        launches: &entry.outcome.launches,
        launch_count: entry.outcome.launch_count,
        outputs: entry.outcome.outputs.iter().map(build_json_output).collect(),
        captured: &entry.captured,
        captured_at: entry.captured_at.as_ref(),
        captured_with: &entry.captured_with,
        captured_settings: &entry.captured_settings,
        oracle: &entry.oracle,
        gradients: checked_gradients(&entry.gradients),
        orders: &entry.orders.dependences,
        order_failure: entry.orders.failure.as_ref().map(build_json_failure),
        accesses: entry.accesses.as_ref().map(build_json_accesses),
        against: entry.judgement.as_ref().map(|judgement| build_json_against(entry, judgement)),
        base_lacks: entry.base_lacks.as_deref(),
        culprit: entry.culprit.as_ref(),
        snapshot: entry.snapshot.as_ref(),
        printed: &entry.outcome.printed,
    }
}

fn build_json_against<'a>(entry: &'a ReportEntry, judgement: &'a Judgement) -> Against<'a> {
    Against {
        revision: entry.trusted.as_ref(),
        verdict: judgement.verdict,
        outputs: judged_outputs(judgement),
        launches_changed: &judgement.launches,
        without_shadow: judgement.without_shadow.as_deref(),
    }
}

fn build_json_accesses(accesses: &Accesses) -> AccessesTold<'_> {
    let findings = accesses.findings.iter().map(|judged| FindingTold {
        text: describe_access(&judged.finding),
        known: judged.story.is_on_both_sides(),
        finding: &judged.finding,
    });
    AccessesTold {
        reason: accesses.unchecked.as_ref().map(ToString::to_string),
        findings: findings.collect(),
        left_out: accesses.left_out,
    }
}

fn compare_accesses(compared_accesses: &Accesses) -> AccessesCompared<'_> {
    let gone = compared_accesses.gone.iter();
    AccessesCompared {
        accesses: build_json_accesses(compared_accesses),
        gone: gone.map(|finding| FindingGone { text: describe_access(finding), finding }).collect(),
    }
}

fn revisions_from_commits(commits: &[Commit]) -> Vec<Revision> {
    commits.iter().cloned().map(Revision::from).collect()
}

fn captured_outputs(captures: &[CapturedBy]) -> Vec<CapturedOutputs<'_>> {
    let outputs = captures.iter().map(|capture| CapturedOutputs {
        fixture: &capture.fixture,
        given_by: revisions_from_commits(&capture.given_by),
        not_by: revisions_from_commits(&capture.not_by),
        lost_at: capture.lost_at.clone().map(Revision::from),
    });
    outputs.collect()
}

fn build_json_failure(run_failure: &Failure) -> JsonFailure<'_> {
    JsonFailure { text: describe_failure(run_failure), failure: run_failure }
}

fn build_json_output(output: &OutputRecord) -> JsonOutput<'_> {
    JsonOutput {
        name: &output.name,
        dtype: output.dtype,
        dims: &output.dims,
        shows_unwritten: output.shows_unwritten,
        summary: &output.summary,
    }
}

#[cfg(test)]
mod tests {
    use super::ReplayDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<ReplayDocument<'_>>("replay-1");
    }
}
