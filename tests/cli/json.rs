//! The document for programs keeps to its schema, and the schema describes nothing else.

use serde_json::{Value, json};

use crate::common::env::TestEnv;
use crate::common::schema;

fn document(env: &TestEnv, arguments: &[&str]) -> (Option<i32>, Value) {
    let run = env.replay(arguments);
    let value = serde_json::from_str(&run.stdout);
    (run.code, value.unwrap_or_else(|error| panic!("{error}: {}", run.text())))
}

#[test]
fn every_kind_of_result_keeps_to_the_schema() {
    let env = TestEnv::new().with_demonstration();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["fixtures/step0", "--rev", "396b00e"], 0, "completed"),
        (&["fixtures/step0", "--rev", "61b3d97"], 1, "diverged"),
        (&["fixtures/step0-words", "--rev", "37707d4"], 1, "failed"),
        (&["fixtures/step0", "--rev", "f37bce7"], 125, "untestable"),
        (&["fixtures/step0", "--rev", "396b00e", "--against", "37707d4"], 0, "equivalent"),
    ];
    for (arguments, code, verdict) in cases {
        let (got, document) = document(&env, &[arguments, &["--format", "json"]].concat());
        assert_eq!(got, Some(code), "{arguments:?}: {document:#}");
        assert_eq!(document["replays"][0]["verdict"], verdict, "{arguments:?}");
        let problems = schema::problems(&document);
        assert!(problems.is_empty(), "{arguments:?}: {problems:#?}");
    }
}

#[test]
fn a_fixture_that_cannot_be_replayed_is_in_the_document_beside_the_others() {
    let env = TestEnv::new().with_demonstration();
    let rev = ["--rev", "396b00e", "--format", "json"];
    let (code, document) =
        document(&env, &[&["fixtures/none", "fixtures/step0"], &rev[..]].concat());
    assert_eq!(code, Some(128));
    assert_eq!(document["replays"].as_array().map(Vec::len), Some(1));
    insta::assert_snapshot!(document["errors"].to_string(), @r#"[{"causes":[],"fixture":"fixtures/none","hint":"a fixture is a folder with fixture.toml and *.safetensors","message":"there is no fixture folder fixtures/none"}]"#);
    assert_eq!(schema::problems(&document), [""; 0]);
}

#[test]
fn what_the_schema_does_not_know_is_found() {
    let env = TestEnv::new().with_demonstration();
    let (_, mut document) =
        document(&env, &["fixtures/step0", "--rev", "396b00e", "--format", "json"]);
    document["replays"][0]["surprise"] = Value::Bool(true);
    document["replays"][0]["launch_count"] = Value::from("two");
    document["replays"][0]["failures"] =
        json!([{ "text": "exit", "kind": "exit", "code": 1, "signal": 2 }]);
    let object = document["replays"][0]["device"].as_object_mut().unwrap();
    object.remove("class");
    insta::assert_snapshot!(schema::problems(&document).join("\n"), @r#"
    /replays/0/device: "class" is a required property
    /replays/0/failures/0: Unevaluated properties are not allowed ('signal' was unexpected)
    /replays/0/launch_count: "two" is not of type "integer"
    /replays/0: Additional properties are not allowed ('surprise' was unexpected)
    "#);
}
