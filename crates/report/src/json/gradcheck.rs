//! `replay gradcheck FIXTURE... --format json`.

use serde::Serialize;

use super::gradients::{CheckedGradient, checked_gradients};
use crate::{GradcheckEntry, RefusedFixture, Revision, RunRecord, Standing};
use replay_engine::trial::Status;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-gradcheck/1";

/// The document that `replay gradcheck --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay gradcheck --format json")]
struct GradcheckDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    gradchecks: Vec<Gradcheck<'a>>,
    errors: &'a [RefusedFixture],
}

#[derive(Serialize, schemars::JsonSchema)]
struct Gradcheck<'a> {
    fixture: &'a str,
    revision: Option<&'a Revision>,
    verdict: Standing,
    status: &'a Status,
    gradients: Vec<CheckedGradient<'a>>,
}

/// The document for `entries`, and for the fixtures whose gradients could not be checked.
pub fn render_gradcheck_json(
    entries: &[GradcheckEntry],
    errors: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let gradchecks = entries.iter().map(build_json_gradcheck).collect();
    let document = GradcheckDocument { schema: SCHEMA, run, gradchecks, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_gradcheck(entry: &GradcheckEntry) -> Gradcheck<'_> {
    let GradcheckEntry { fixture, revision, outcome, gradients, .. } = entry;
    Gradcheck {
        fixture,
        revision: revision.as_ref(),
        verdict: entry.standing(),
        status: &outcome.status,
        gradients: checked_gradients(gradients),
    }
}

#[cfg(test)]
mod tests {
    use super::GradcheckDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<GradcheckDocument<'_>>("gradcheck-1");
    }
}
