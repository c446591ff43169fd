//! Replays for programs: versioned documents, one a command. `docs/schema.md` describes them field by
//! field, `docs/schema` holds their JSON Schemas, made from these types.

mod bisect;
mod diff;
mod explain;
mod gradcheck;
mod gradients;
mod inspect;
mod log;
mod outputs;

use serde::Serialize;

use self::gradients::{CheckedGradient, checked_gradients};
use self::outputs::{JudgedOutput, judged_outputs};
use super::accesses::sentence;
use super::text::failure;
use super::{Blame, CaptureRevision, Entry, Refused, Revision, RunRecord, SnapshotCheck, Standing};
use crate::bisect::CapturedBy;
use crate::history::Commit;
use crate::judge::{Accesses, Judgement, KnownCheck, LaunchChange, Verdict};
use crate::runtime::report::{Found, LaunchRecord};
use crate::summary::Summary;
use crate::tensor::{DType, Dim};
use crate::trial::{Failure, OrderDependence, Outcome, OutputRecord, Status};

pub use bisect::{
    begun as begun_json, bisect as bisect_json, event as event_json, recorded as recorded_json,
};
pub use diff::diff as diff_json;
pub use explain::explain as explain_json;
pub use gradcheck::gradcheck as gradcheck_json;
pub use inspect::{Inspected, inspect as inspect_json};
pub use log::log as log_json;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay/1";

/// The document that `replay FIXTURE... --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "replay --format json"))]
struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'a str,
    run: &'a RunRecord,
    replays: Vec<Replay<'a>>,
    errors: &'a [Refused],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Replay<'a> {
    fixture: &'a str,
    revision: Option<&'a Revision>,
    device: Device<'a>,
    compiler: &'a str,
    verdict: Standing,
    failures: Vec<Failed<'a>>,
    untestable: Option<Untestable<'a>>,
    call: Option<usize>,
    launches: &'a [LaunchRecord],
    launch_count: u64,
    outputs: Vec<Output<'a>>,
    captured: &'a [KnownCheck],
    captured_at: Option<&'a CaptureRevision>,
    oracle: &'a [KnownCheck],
    gradients: Vec<CheckedGradient<'a>>,
    orders: &'a [OrderDependence],
    accesses: Option<AccessesTold<'a>>,
    against: Option<Against<'a>>,
    base_lacks: Option<&'a str>,
    culprit: Option<&'a Blame>,
    snapshot: Option<&'a SnapshotCheck>,
    printed: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Device<'a> {
    class: &'a str,
    description: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Failed<'a> {
    text: String,
    #[serde(flatten)]
    failure: &'a Failure,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Untestable<'a> {
    reason: &'a str,
    causes: &'a [String],
    hint: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Output<'a> {
    name: &'a str,
    dtype: DType,
    dims: &'a [Dim],
    #[serde(flatten)]
    summary: &'a Summary,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AccessesTold<'a> {
    reason: Option<String>,
    findings: Vec<FindingTold<'a>>,
    left_out: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingTold<'a> {
    text: String,
    known: bool,
    #[serde(flatten)]
    finding: &'a Found,
}

/// What is wrong with accesses on one side and not on the trusted one, and the other way round.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AccessesCompared<'a> {
    #[serde(flatten)]
    accesses: AccessesTold<'a>,
    gone: Vec<FindingGone<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingGone<'a> {
    text: String,
    finding: &'a Found,
}

/// Which commits give the outputs that a fixture holds as captured.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CapturedOutputs<'a> {
    fixture: &'a str,
    given_by: Vec<Revision>,
    not_by: Vec<Revision>,
    lost_at: Option<Revision>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Against<'a> {
    revision: Option<&'a Revision>,
    verdict: Verdict,
    outputs: Vec<JudgedOutput<'a>>,
    launches_changed: &'a [LaunchChange],
    without_shadow: Option<&'a str>,
}

/// The document for `entries`, and for the fixtures that could not be replayed.
pub fn json(entries: &[Entry], errors: &[Refused], run: &RunRecord) -> String {
    let replays = entries.iter().map(replay).collect();
    let document = Document { schema: SCHEMA, run, replays, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn replay(entry: &Entry) -> Replay<'_> {
    let Outcome { device, device_description, compiler, call, status, .. } = &entry.outcome;
    let (failures, untestable) = match status {
        Status::Completed => (Vec::new(), None),
        Status::Failed(failures) => (failures.iter().map(failed).collect(), None),
        Status::Untestable { reason, causes, hint } => {
            (Vec::new(), Some(Untestable { reason, causes, hint: hint.as_deref() }))
        }
    };
    Replay {
        fixture: &entry.fixture,
        revision: entry.revision.as_ref(),
        device: Device { class: device, description: device_description },
        compiler,
        verdict: Standing::of(entry),
        failures,
        untestable,
        call: *call,
        launches: &entry.outcome.launches,
        launch_count: entry.outcome.launch_count,
        outputs: entry.outcome.outputs.iter().map(output).collect(),
        captured: &entry.captured,
        captured_at: entry.captured_at.as_ref(),
        oracle: &entry.oracle,
        gradients: checked_gradients(&entry.gradients),
        orders: &entry.orders,
        accesses: entry.accesses.as_ref().map(accesses),
        against: entry.judgement.as_ref().map(|judgement| against(entry, judgement)),
        base_lacks: entry.base_lacks.as_deref(),
        culprit: entry.culprit.as_ref(),
        snapshot: entry.snapshot.as_ref(),
        printed: &entry.outcome.printed,
    }
}

fn against<'a>(entry: &'a Entry, judgement: &'a Judgement) -> Against<'a> {
    Against {
        revision: entry.trusted.as_ref(),
        verdict: judgement.verdict,
        outputs: judged_outputs(judgement),
        launches_changed: &judgement.launches,
        without_shadow: judgement.without_shadow.as_deref(),
    }
}

fn accesses(found: &Accesses) -> AccessesTold<'_> {
    let findings = found.findings().map(|(finding, known)| FindingTold {
        text: sentence(finding),
        known,
        finding,
    });
    AccessesTold {
        reason: found.reason(),
        findings: findings.collect(),
        left_out: found.left_out(),
    }
}

fn compare_accesses(found: &Accesses) -> AccessesCompared<'_> {
    let gone = found.gone().map(|finding| FindingGone { text: sentence(finding), finding });
    AccessesCompared { accesses: accesses(found), gone: gone.collect() }
}

fn revisions(commits: &[Commit]) -> Vec<Revision> {
    commits.iter().cloned().map(Revision::from).collect()
}

fn captured_outputs(found: &[CapturedBy]) -> Vec<CapturedOutputs<'_>> {
    let outputs = found.iter().map(|found| CapturedOutputs {
        fixture: &found.fixture,
        given_by: revisions(&found.given_by),
        not_by: revisions(&found.not_by),
        lost_at: found.lost_at.clone().map(Revision::from),
    });
    outputs.collect()
}

fn failed(found: &Failure) -> Failed<'_> {
    Failed { text: failure(found), failure: found }
}

fn output(output: &OutputRecord) -> Output<'_> {
    Output { name: &output.name, dtype: output.dtype, dims: &output.dims, summary: &output.summary }
}

#[cfg(test)]
mod tests {
    use super::Document;
    use crate::report::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::is_kept::<Document<'_>>("replay-1");
    }
}
