//! The JSON Schemas of documents, made from their types.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::json;

/// Forbids fields without a description, and null where a field is left out instead.
fn close_schema(schema: &mut Schema) {
    transform_subschemas(&mut close_schema, schema);
    let Some(object) = schema.as_object_mut() else { return };
    // The formats name types of Rust; `minimum` says as much of them as JSON can.
    object.remove("format");
    object.remove("default");
    let required = object.get("required").cloned().unwrap_or_default();
    let required = required.as_array().cloned().unwrap_or_default();
    let Some(fields) =
        object.get_mut("properties").and_then(|properties| properties.as_object_mut())
    else {
        return;
    };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !required.contains(&json!(name))) {
        if let Some(types) = field.get_mut("type").and_then(|types| types.as_array_mut()) {
            types.retain(|name| name != "null");
        }
    }
    let choice_keyword = ["oneOf", "anyOf"].into_iter().find(|name| object.contains_key(*name));
    match choice_keyword
        .and_then(|name| object.get_mut(name))
        .and_then(|choices| choices.as_array_mut())
    {
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
pub(super) fn assert_schema_file<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(close_schema);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("urn:replay:{name}").into());
    let generated = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let path = folder.join(format!("{name}.json"));
    if std::env::var_os("REPLAY_UPDATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let different = generated
        .lines()
        .zip(committed.lines())
        .find(|(generated_line, committed_line)| generated_line != committed_line);
    assert_eq!(
        different, None,
        "`REPLAY_UPDATE=1 cargo test -p replay-report the_schema` writes the file"
    );
    assert_eq!(generated.len(), committed.len());
}
