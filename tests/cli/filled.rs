//! Outputs that `init` fills before the call: what the call leaves of them does not show.

use crate::common::env::TestEnv;

/// Writes all of `z` and the first half of `y`.
const KERNEL: &str = "\
__global__ void halves(const float* x, float* y, float* z, int n)
{
    int i = threadIdx.x;
    if (i < n) z[i] = x[i];
    if (i < n / 2) y[i] = 2.0f * x[i];
}
";

/// A project whose output `y` has `init`.
fn project(init: &str, more: &str) -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "halves<<<1, 32>>>(x, y, z, n);");
    let path = env.path("replay.toml");
    let harness = std::fs::read_to_string(&path).unwrap();
    let z = format!("\n[outputs.z]\n{more}dtype = \"f32\"\nshape = [\"n\"]\n");
    let harness = harness.replace("[outputs.y]\n", &format!("[outputs.y]\n{init}")) + &z;
    std::fs::write(&path, harness).unwrap();
    env
}

#[test]
fn an_output_that_is_filled_before_the_call_is_not_said_to_be_written() {
    let run = project("", "").replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(run.last_line(), @"failed: unwritten: 2 of 4 elements of y, first at [2]");
    let env = project("init = 0\n", "");
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("outputs\n").unwrap().1, @"
      y  f32 [n 4]  35878cb6c6715fe34930dea168a6227a
         norm 4.47214  min 0  max 4  mean 1.5  zeros 2  NaN 0  Inf 0  unwritten unknown
      z  f32 [n 4]  2d8fe22275c9fdbf673324848bcaa695
         norm 5.47723  min 1  max 4  mean 2.5  zeros 0  NaN 0  Inf 0  unwritten 0

    completed: every output but y, which `init` fills, is known to be written; all are finite
    ");
    let markdown = env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout;
    assert!(!markdown.contains("every output is written"), "{markdown}");
    let run = env.replay(&["fixtures/tiny", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let outputs = json["replays"][0]["outputs"].as_array().unwrap();
    let shown: Vec<bool> = outputs.iter().map(|y| y["shows_unwritten"] == true).collect();
    assert_eq!(shown, [false, true]);
    let run = project("init = \"x\"\n", "init = 0\n").replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(run.last_line(), @"completed: every output is finite; unwritten elements do not show");
}
