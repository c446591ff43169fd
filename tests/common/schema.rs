//! Checks a JSON document against the part of JSON Schema that `docs/schema` uses: type, enum,
//! const, properties, required, additionalProperties, items, anyOf, $ref to $defs.

use serde_json::Value;

/// The schema of `--format json`.
pub fn load() -> Value {
    let text = include_str!("../../docs/schema/replay-1.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

/// What in `document` departs from `schema`, by place.
pub fn check(schema: &Value, document: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    Checker { root: schema, problems: &mut problems }.value(schema, document, "$");
    problems
}

struct Checker<'a> {
    root: &'a Value,
    problems: &'a mut Vec<String>,
}

impl Checker<'_> {
    fn value(&mut self, schema: &Value, value: &Value, place: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").expect("references name a definition");
            let definition = self.root["$defs"].get(name).expect("a definition").clone();
            return self.value(&definition, value, place);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let fits = |choice| {
                let mut problems = Vec::new();
                Checker { root: self.root, problems: &mut problems }.value(choice, value, place);
                problems.is_empty()
            };
            if !choices.iter().any(fits) {
                self.problems.push(format!("{place} fits no choice"));
            }
            return;
        }
        if schema.get("const").is_some_and(|only| only != value) {
            self.problems.push(format!("{place} is not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|choices| !choices.contains(value)) {
            self.problems.push(format!("{place} is {value}, which is not listed"));
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is(name, value)) {
            self.problems.push(format!("{place} is no {}", types.join(" or ")));
        }
        self.object(schema, value, place);
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(items) = schema.get("items") {
                self.value(items, item, &format!("{place}[{index}]"));
            }
        }
    }

    fn object(&mut self, schema: &Value, value: &Value, place: &str) {
        let Some(object) = value.as_object() else { return };
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                self.problems.push(format!("{place} lacks {name}"));
            }
        }
        for (name, field) in object {
            match schema["properties"].get(name) {
                Some(property) => self.value(property, field, &format!("{place}.{name}")),
                None if schema["additionalProperties"] == Value::Bool(false) => {
                    self.problems.push(format!("{place} has {name}, which is not described"));
                }
                None => {}
            }
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema names the type {other}"),
    }
}
