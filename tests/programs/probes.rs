//! What moves an output, and what of it a judgement rests on.

use serde_json::Value;

use replay::fixture::{NewTensor, write};
use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};

/// The output `dx` of a comparison.
fn compared(run: &Run) -> Value {
    let document: Value = serde_json::from_str(&run.stdout).expect("JSON");
    document["diffs"][0]["outputs"][1].clone()
}

/// The comparison of kernels with these words.
fn diff(words: [&str; 2]) -> Value {
    let env = TestEnv::with_speaker();
    let [before, after] = words.map(|words| env.kernel(words));
    compared(&env.replay(&["diff", "fixtures/tiny", &before, &after, "--format", "json"]))
}

#[test]
fn a_rounding_that_reaches_the_code_is_its_noise() {
    let found = diff(["divide 3", "divide 3\nscale 1.0000001"]);
    assert_eq!(found["probes"], serde_json::json!(["rounding"]), "{found}");
    assert_eq!(found["comparison"]["verdict"], "equivalent", "{found}");
}

#[test]
fn where_rounding_is_set_back_inputs_are_nudged() {
    let found = diff(["divide 3\nreset", "divide 3\nreset\nscale 1.0000001"]);
    assert_eq!(found["probes"], serde_json::json!(["inputs"]), "{found}");
    assert_eq!(found["comparison"]["verdict"], "equivalent", "{found}");
    let wrong = diff(["divide 3\nreset", "divide 3\nreset\nscale 1.001"]);
    assert_eq!((&wrong["verdict"], &wrong["finding"]), (&"diverged".into(), &"wrong".into()));
}

#[test]
fn an_output_without_a_twin_is_not_said_to_be_wrong() {
    let found = diff(["divide 3\nfloat", "divide 3\nfloat\nscale 1.001"]);
    assert_eq!(found["verdict"], "diverged", "{found}");
    assert!(found["shadow"].is_null() && found["finding"] != "wrong", "{found}");
}

#[test]
fn what_is_another_each_time_is_neither_equivalent_nor_diverged() {
    let found = diff(["divide 3\nrandom", "divide 3\nrandom\nsay again"]);
    assert!(!found["nondeterminism"].is_null(), "{found}");
    assert_eq!((&found["verdict"], &found["finding"]), (&"unknown".into(), &Value::Null));
}

#[test]
fn the_states_of_random_generators_reach_the_program() {
    let env = TestEnv::with_speaker();
    let x: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors: &[NewTensor<'_>] = &[("x", DType::F32, &[2], &x)];
    env.write_fixture("drawn", tensors);
    write(&env.path("fixtures/drawn"), tensors, &[("random.torch", "AAEC")]).unwrap();
    env.kernel("divide 3\nstates");
    let run = env.replay(&["fixtures/drawn"]);
    assert!(run.stdout.contains("| 1"), "{}", run.text());
}
