//! What moves an output, and what of it a judgement rests on.

use serde_json::Value;

use replay::fixture::{NewTensor, write_safetensors};
use replay::tensor::DType;

use super::GRADIENT;
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
fn a_grid_in_another_order_is_noise_or_a_dependence_and_without_one_no_order_is_asked_for() {
    let found = diff(["divide 3\ngrid 1e-6", "divide 3\ngrid 1e-6\nscale 1.0000001"]);
    assert_eq!(found["probes"], serde_json::json!(["rounding", "order"]), "{found}");
    assert_eq!(found["comparison"]["verdict"], "equivalent", "{found}");

    let env = TestEnv::with_speaker();
    let told = env.replay_kernel("divide 3\ngrid 1", &[]).text();
    let expected = "dx  depends on the order of blocks and threads: a race or a missing barrier";
    assert!(told.starts_with("exit code 1") && told.contains(expected), "{told}");

    let asked = env.path("asked");
    let words = format!("divide 3\norders {}", asked.display());
    env.kernel(&words);
    env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    let orders = std::fs::read_to_string(asked).unwrap();
    assert!(!orders.is_empty() && !orders.contains("reversed"), "{orders}");
}

#[test]
fn an_output_without_a_twin_is_not_said_to_be_wrong() {
    let found = diff(["divide 3\nfloat", "divide 3\nfloat\nscale 1.001"]);
    assert_eq!(found["verdict"], "diverged", "{found}");
    assert!(found["shadow"].is_null() && found["finding"] != "wrong", "{found}");
    assert_eq!(found["without_shadow"], "the program returns it in f32", "{found}");
}

#[test]
fn what_is_another_each_time_is_neither_equivalent_nor_diverged() {
    let found = diff(["divide 3\nrandom", "divide 3\nrandom\nsay again"]);
    assert!(!found["nondeterminism"].is_null(), "{found}");
    assert_eq!((&found["verdict"], &found["finding"]), (&"unknown".into(), &Value::Null));
}

#[test]
fn a_gradient_with_the_weaker_check_alone_says_why_there_is_no_twin() {
    let checked = |keys: &str, words: &str| {
        let keys = format!("program = [\"./speaker\"]\npreload = []{keys}");
        let env = TestEnv::isolated().with_program(&keys, GRADIENT);
        env.kernel(words);
        let run = env.replay(&["gradcheck", "fixtures/tiny"]);
        let line = run.stdout.lines().find(|line| line.trim().starts_with("dx"));
        line.expect("a line on the gradient").trim().to_owned()
    };
    let all = [
        checked("", "divide 3\nfloat"),
        checked("\nwiden_casts = false", "divide 3\nnarrow"),
        checked("", "divide 3\nnarrow\ncasts-kept"),
        checked("", "divide 3\nnative-alone"),
        // Its casts cannot be widened, and it has a twin without that.
        checked("", "divide 3\ncasts-kept"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    dx  agrees with float32 differences of loss to within 1 %; small errors do not show: dx has no float64 shadow: the program returns it in f32
    dx  agrees with float32 differences of loss to within 1 %; small errors do not show: dx has no float64 shadow: all its numbers fit f32: they were rounded to it on the way (`widen_casts` is false)
    dx  agrees with float32 differences of loss to within 1 %; small errors do not show: dx has no float64 shadow: all its numbers fit f32: they were rounded to it on the way; with casts to float32 widened: IndexError: index 2147483647 is out of bounds
    dx  agrees with float32 differences of loss to within 1 %; small errors do not show: the float64 shadow does not run to its end: IndexError: index 2147483647 is out of bounds
    dx  matches d loss / d x: 8 directional derivatives, worst rel. 1.5e-11 (noise 1.8e-11)
    ");
}

#[test]
fn the_states_of_random_generators_reach_the_program() {
    let env = TestEnv::with_speaker();
    let x: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors: &[NewTensor<'_>] = &[("x", DType::F32, &[2], &x)];
    env.write_fixture("drawn", tensors);
    write_safetensors(&env.path("fixtures/drawn"), tensors, &[("random.torch", "AAEC")]).unwrap();
    env.kernel("divide 3\nstates");
    let run = env.replay(&["fixtures/drawn"]);
    assert!(run.stdout.contains("| 1"), "{}", run.text());
}
