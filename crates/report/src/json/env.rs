//! `replay env FIXTURE... --format json`.

use serde::Serialize;

use crate::RunRecord;
use replay_engine::environment::{RecordedSetting, RecordedVersion};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-env/1";

/// The document that `replay env --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay env --format json")]
struct EnvDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixtures: &'a [RecordedFacts],
}

/// What a fixture was captured with.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RecordedFacts {
    /// The folder's name.
    pub fixture: String,
    /// The folder, as it was named.
    pub folder: String,
    /// How many of the packages and tools are others here.
    pub others: usize,
    /// How many of the settings are others here.
    pub other_settings: usize,
    /// The recorded packages and tools; empty if it records none.
    pub versions: Vec<RecordedVersion>,
    /// The recorded settings, and the variables that are set here alone; empty if it records none.
    pub settings: Vec<RecordedSetting>,
}

/// The document on what `fixtures` have recorded.
pub fn render_env_json(fixtures: &[RecordedFacts], run: &RunRecord) -> String {
    let document = EnvDocument { schema: SCHEMA, run, fixtures };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

#[cfg(test)]
mod tests {
    use super::EnvDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<EnvDocument<'_>>("env-1");
    }
}
