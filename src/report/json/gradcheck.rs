//! `replay gradcheck FIXTURE... --format json`.

use serde::Serialize;

use super::gradients::{CheckedGradient, checked_gradients};
use crate::report::{Checked, Refused, Revision, RunRecord, Standing};
use crate::trial::Status;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-gradcheck/1";

/// The document that `replay gradcheck --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "replay gradcheck --format json"))]
struct GradcheckDocument<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'a str,
    run: &'a RunRecord,
    gradchecks: Vec<Gradcheck<'a>>,
    errors: &'a [Refused],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Gradcheck<'a> {
    fixture: &'a str,
    revision: Option<&'a Revision>,
    verdict: Standing,
    status: &'a Status,
    gradients: Vec<CheckedGradient<'a>>,
}

/// The document for `checked`, and for the fixtures whose gradients could not be checked.
pub fn gradcheck(checked: &[Checked], errors: &[Refused], run: &RunRecord) -> String {
    let gradchecks = checked.iter().map(gradcheck_of_fixture).collect();
    let document = GradcheckDocument { schema: SCHEMA, run, gradchecks, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn gradcheck_of_fixture(checked: &Checked) -> Gradcheck<'_> {
    let Checked { fixture, revision, outcome, gradients, .. } = checked;
    Gradcheck {
        fixture,
        revision: revision.as_ref(),
        verdict: checked.standing(),
        status: &outcome.status,
        gradients: checked_gradients(gradients),
    }
}

#[cfg(test)]
mod tests {
    use super::GradcheckDocument;
    use crate::report::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::is_kept::<GradcheckDocument<'_>>("gradcheck-1");
    }
}
