//! `replay log FIXTURE... RANGE --format json`.

use serde::Serialize;

use super::outputs::{JudgedOutput, judged_outputs};
use super::{
    AccessesCompared, CapturedOutputs, captured_outputs, compare_accesses, revisions_from_commits,
};
use crate::{LogRequest, Revision, RunRecord};
use replay_bisect::{LogChange, LogReport, Repair};
use replay_engine::judge::{LaunchChange, Verdict};
use replay_engine::trial::{Failure, Status};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-log/1";

/// The document that `replay log --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay log --format json")]
struct LogDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixtures: &'a [String],
    range: &'a str,
    #[serde(flatten)]
    log: LogTold<'a>,
}

/// The changes of a range, as a document of its own or within the answer of a search.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct LogTold<'a> {
    commits: usize,
    variants: usize,
    variants_untestable: usize,
    variants_not_checked: usize,
    races_looked_for: bool,
    untestable: Vec<UntestableCommit<'a>>,
    changes: Vec<ChangeTold<'a>>,
    captured: Vec<CapturedOutputs<'a>>,
    changed_nothing: Vec<Revision>,
    failed_as_before: Vec<FailedAsBefore<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FailedAsBefore<'a> {
    fixture: &'a str,
    commit: Revision,
    failure: &'a Failure,
}

#[derive(Serialize, schemars::JsonSchema)]
struct UntestableCommit<'a> {
    fixture: &'a str,
    commit: Revision,
    reason: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ChangeTold<'a> {
    fixture: &'a str,
    commit: Revision,
    base: Revision,
    untestable_parent: Option<Revision>,
    verdict: Verdict,
    untestable: bool,
    reason: Option<&'a str>,
    outputs: Vec<JudgedOutput<'a>>,
    launches_changed: &'a [LaunchChange],
    accesses: Option<AccessesCompared<'a>>,
    no_longer_order_dependent: &'a [String],
    broken: &'a [String],
    mended: &'a [String],
    status: &'a Status,
    repairs: Option<RepairTold>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct RepairTold {
    commit: Revision,
    like: Revision,
    verdict: Verdict,
    of_defect: bool,
}

/// The log as one document.
pub fn render_log_json(report: &LogReport, request: &LogRequest<'_>, run: &RunRecord) -> String {
    let LogRequest { fixtures, range, .. } = request;
    let log = build_json_log(report);
    let document = LogDocument { schema: SCHEMA, run, fixtures, range, log };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

pub(super) fn build_json_log(report: &LogReport) -> LogTold<'_> {
    let untestable = report.untestable.iter().map(|untested| UntestableCommit {
        fixture: &untested.fixture,
        commit: untested.commit.clone().into(),
        reason: &untested.reason,
    });
    let failing = report.failing.iter().map(|failing| FailedAsBefore {
        fixture: &failing.fixture,
        commit: failing.commit.clone().into(),
        failure: &failing.failure,
    });
    LogTold {
        commits: report.commits,
        variants: report.variants,
        variants_untestable: report.untested,
        variants_not_checked: report.unchecked.as_ref().map_or(0, |(number, _)| *number),
        races_looked_for: !report.without_races,
        untestable: untestable.collect(),
        changes: report.changes.iter().map(build_json_change).collect(),
        captured: captured_outputs(&report.captured),
        changed_nothing: revisions_from_commits(&report.acquitted),
        failed_as_before: failing.collect(),
    }
}

fn build_json_change(change: &LogChange) -> ChangeTold<'_> {
    let judgement = &change.judgement;
    let reason = match &judgement.got.status {
        Status::Untestable { reason, .. } => Some(reason.as_str()),
        _ => None,
    };
    ChangeTold {
        fixture: &change.fixture,
        commit: change.commit.clone().into(),
        base: change.base.clone().into(),
        untestable_parent: change.skipped.clone().map(Revision::from),
        verdict: change.verdict(),
        untestable: reason.is_some(),
        reason,
        outputs: judged_outputs(judgement),
        launches_changed: &judgement.launches,
        accesses: change.accesses.as_ref().map(compare_accesses),
        no_longer_order_dependent: &change.settled,
        broken: &change.broken,
        mended: &change.mended,
        status: &judgement.got.status,
        repairs: change.repair.as_ref().map(build_json_repair),
    }
}

fn build_json_repair(repair: &Repair) -> RepairTold {
    RepairTold {
        commit: repair.of.clone().into(),
        like: repair.like.clone().into(),
        verdict: repair.verdict,
        of_defect: repair.of_defect,
    }
}

#[cfg(test)]
mod tests {
    use super::LogDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<LogDocument<'_>>("log-1");
    }
}
