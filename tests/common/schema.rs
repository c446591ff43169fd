//! The schema of `--format json`.

use serde_json::Value;

/// The departures of `document` from the schema, by place.
pub fn problems(document: &Value) -> Vec<String> {
    let schema = serde_json::from_str(include_str!("../../docs/schema/replay-1.json"));
    let schema = jsonschema::draft202012::new(&schema.expect("the schema is JSON"));
    let schema = schema.expect("it is a schema");
    let problems = schema.iter_errors(document);
    problems.map(|problem| format!("{}: {problem}", problem.instance_path())).collect()
}
