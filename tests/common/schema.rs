//! The schemas of `--format json`.

use std::path::Path;

use serde_json::Value;

/// The documents in `output`: one, or one a line.
///
/// # Panics
/// If it is no JSON.
pub fn documents(output: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(output).into_iter::<Value>();
    values.map(|value| value.unwrap_or_else(|error| panic!("{error}: {output}"))).collect()
}

/// The departures of `document` from the schema that it names, by place.
///
/// # Panics
/// If it names no schema in docs/schema.
pub fn problems(document: &Value) -> Vec<String> {
    let named = document["schema"].as_str().unwrap_or_else(|| panic!("no schema: {document:#}"));
    let file = match named.strip_prefix("replay-") {
        Some(rest) => format!("{}.json", rest.replace('/', "-")),
        None => format!("{}.json", named.replace('/', "-")),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(&file);
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    assert_eq!(schema["$id"], format!("urn:replay:{}", file.trim_end_matches(".json")));
    let schema = jsonschema::draft202012::new(&schema).expect("it is a schema");
    let problems = schema.iter_errors(document);
    problems.map(|problem| format!("{}: {problem}", problem.instance_path())).collect()
}
