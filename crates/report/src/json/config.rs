//! `replay config --format json`.

use serde::Serialize;

use crate::RunRecord;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-config/1";

/// The document that `replay config --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay config --format json")]
struct ConfigDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    files: &'a ConfigFilePaths,
    settings: &'a [ConfigSetting],
}

/// The files of settings that were read.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ConfigFilePaths {
    /// The repository's file.
    pub repository: Option<String>,
    /// The user's file.
    pub user: Option<String>,
}

/// A setting in force.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ConfigSetting {
    /// The key, as `replay config` and a file have it.
    pub key: &'static str,
    /// The value, as a variable would have it; null where none is set.
    pub value: Option<String>,
    pub origin: ConfigOrigin,
    /// The option or the variable.
    pub name: Option<&'static str>,
    /// The file.
    pub path: Option<String>,
    /// The line of the file, from 1.
    pub line: Option<usize>,
}

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOrigin {
    Option,
    Variable,
    Repository,
    User,
    Default,
}

/// The document on `settings`.
pub fn render_config_json(
    files: &ConfigFilePaths,
    settings: &[ConfigSetting],
    run: &RunRecord,
) -> String {
    let document = ConfigDocument { schema: SCHEMA, run, files, settings };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

#[cfg(test)]
mod tests {
    use super::ConfigDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<ConfigDocument<'_>>("config-1");
    }
}
