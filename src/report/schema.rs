//! The JSON Schemas of documents, made from the types that are written.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::json;

/// Forbids fields without a description, and null where a field is left out instead.
fn close(schema: &mut Schema) {
    transform_subschemas(&mut close, schema);
    let Some(object) = schema.as_object_mut() else { return };
    // The formats name types of Rust; `minimum` says as much of them as JSON can.
    object.remove("format");
    object.remove("default");
    let required = object.get("required").cloned().unwrap_or_default();
    let required = required.as_array().cloned().unwrap_or_default();
    let Some(fields) = object.get_mut("properties").and_then(|all| all.as_object_mut()) else {
        return;
    };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !required.contains(&json!(name))) {
        if let Some(types) = field.get_mut("type").and_then(|types| types.as_array_mut()) {
            types.retain(|name| name != "null");
        }
    }
    let named = ["oneOf", "anyOf"].into_iter().find(|name| object.contains_key(*name));
    match named.and_then(|name| object.get_mut(name)).and_then(|choices| choices.as_array_mut()) {
        // Each choice describes only some of the fields.
        Some(choices) => {
            for choice in choices.iter_mut().filter_map(|choice| choice.as_object_mut()) {
                choice.remove("additionalProperties");
                choice.remove("unevaluatedProperties");
            }
            object.insert("unevaluatedProperties".to_owned(), false.into());
        }
        None => {
            object.insert("additionalProperties".to_owned(), false.into());
        }
    }
}

/// Fails unless `docs/schema/NAME.json` is the schema of `T`; `REPLAY_UPDATE=1` writes the file.
pub(super) fn is_kept<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(close);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("urn:replay:{name}").into());
    let made = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    let path = folder.join(format!("{name}.json"));
    if std::env::var_os("REPLAY_UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let different = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert_eq!(different, None, "`REPLAY_UPDATE=1 cargo test --lib the_schema` writes the file");
    assert_eq!(made.len(), kept.len());
}
