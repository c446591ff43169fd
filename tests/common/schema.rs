//! The schema of `--format json`.

use serde_json::Value;

/// The departures of `document` from the schema that it names, by place.
pub fn problems(document: &Value) -> Vec<String> {
    let schema = match document["schema"].as_str() {
        Some("replay-series/1") => include_str!("../../docs/schema/series-1.json"),
        _ => include_str!("../../docs/schema/replay-1.json"),
    };
    let schema = serde_json::from_str(schema);
    let schema = jsonschema::draft202012::new(&schema.expect("the schema is JSON"));
    let schema = schema.expect("it is a schema");
    let problems = schema.iter_errors(document);
    problems.map(|problem| format!("{}: {problem}", problem.instance_path())).collect()
}
