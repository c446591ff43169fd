//! `replay diff FIXTURE... REV REV --format json`.

use serde::Serialize;

use super::outputs::{JudgedOutput, judged_outputs};
use super::{AccessesCompared, JsonReplay, build_json_replay, compare_accesses};
use crate::{Compared, RefusedFixture, ReportEntry, Revision, RunRecord};
use replay_engine::judge::{LaunchChange, Verdict};
use replay_engine::trial::Status;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-diff/1";

/// The document that `replay diff --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay diff --format json")]
struct DiffDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    diffs: Vec<Diff<'a>>,
    /// Where the trusted revision has no such sources, the other one by itself.
    new: Vec<NewSources<'a>>,
    errors: &'a [RefusedFixture],
}

#[derive(Serialize, schemars::JsonSchema)]
struct NewSources<'a> {
    /// The trusted revision, which lacks the sources.
    base: Option<&'a Revision>,
    #[serde(flatten)]
    replay: JsonReplay<'a>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Diff<'a> {
    fixture: &'a str,
    base: Option<&'a Revision>,
    got: Option<&'a Revision>,
    verdict: Verdict,
    outputs: Vec<JudgedOutput<'a>>,
    launches_changed: &'a [LaunchChange],
    without_shadow: Option<&'a str>,
    base_status: &'a Status,
    got_status: &'a Status,
    accesses: Option<AccessesCompared<'a>>,
}

/// The document for `compared`, for the fixtures whose sources are `new_entries`, and for those on which nothing could be
/// compared.
pub fn render_diff_json(
    compared: &[Compared],
    new_entries: &[ReportEntry],
    errors: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let diffs = compared.iter().map(build_json_diff).collect();
    let new = new_entries
        .iter()
        .map(|entry| NewSources { base: entry.trusted.as_ref(), replay: build_json_replay(entry) });
    let new = new.collect();
    let document = DiffDocument { schema: SCHEMA, run, diffs, new, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_diff(compared: &Compared) -> Diff<'_> {
    let Compared { fixture, base, got, judgement, accesses, .. } = compared;
    Diff {
        fixture,
        base: base.as_ref(),
        got: got.as_ref(),
        verdict: compared.verdict(),
        outputs: judged_outputs(judgement),
        launches_changed: &judgement.launches,
        without_shadow: judgement.without_shadow.as_deref(),
        base_status: &judgement.base.status,
        got_status: &judgement.got.status,
        accesses: accesses.as_ref().map(compare_accesses),
    }
}

#[cfg(test)]
mod tests {
    use super::DiffDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<DiffDocument<'_>>("diff-1");
    }
}
