//! `expected.safetensors`: a plain replay is held against the outputs that were captured.

use serde_json::Value;

use crate::common::env::{Run, TestEnv};
use crate::common::schema;
use replay::fixture;
use replay::tensor::DType;

const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * 1.5f + 0.1f;
}
";
/// What the kernel gives for 1, 2, 3, 4.
const RIGHT: [f32; 4] = [1.6, 3.1, 4.6, 6.1];

fn project(captured: &[f32]) -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    let bytes: Vec<u8> = captured.iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F32, &bytes);
    env
}

fn capture(env: &TestEnv, dtype: DType, bytes: &[u8]) {
    let path = env.path("fixtures/tiny/expected.safetensors");
    fixture::write_file(&path, &[("y", dtype, &[4], bytes)], &[]).expect("a file");
}

fn told(run: &Run) -> String {
    let (_, told) = run.stdout.split_once("captured outputs\n").expect("a comparison");
    format!("{told}[{}]", run.code.unwrap_or(-1))
}

#[test]
fn the_captured_bits_are_identical() {
    let run = project(&RIGHT).replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  identical

    identical: y is as captured
    [0]
    ");
}

#[test]
fn a_capture_that_was_rounded_elsewhere_is_equivalent() {
    let moved = [1.6, 3.1, f32::from_bits(4.6f32.to_bits() + 1), 6.1];
    let run = project(&moved).replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  equivalent
         25 % of bits differ, rel. 5.7e-8, 0 elements beyond noise
         worst at [2]: 4.60000038 -> 4.5999999, 0.5 x noise, 1 ulp

    equivalent: y is within noise of what was captured
    [0]
    ");
}

#[test]
fn a_capture_in_a_wider_float_is_rounded_first() {
    let env = project(&RIGHT);
    let wide: Vec<u8> = [1.6f64, 3.1, 4.6, 6.1].iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F64, &wide);
    let run = env.replay(&["fixtures/tiny"]);
    assert!(run.stdout.contains("y  identical"), "{}", run.text());
}

#[test]
fn a_replay_that_is_not_as_captured_diverges_in_every_format() {
    let env = project(&[1.6, 3.1, 4.6, 6.2]);
    let run = env.replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  diverged
         25 % of bits differ, rel. 0.012, 1 element beyond noise
         worst at [3]: 6.19999981 -> 6.0999999, 104858 x noise, 209715 ulp
         at n 3

    diverged: y is not as captured
    [1]
    ");

    let json = env.replay(&["fixtures/tiny", "--format", "json"]);
    assert_eq!(json.code, Some(1));
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["verdict"], "diverged");
    assert_eq!(document["replays"][0]["captured"][0]["verdict"], "diverged");

    let junit = env.replay(&["fixtures/tiny", "--format", "junit"]);
    assert!(junit.stdout.contains("type=\"diverged\""), "{}", junit.text());
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout, @"
    <!-- replay -->
    ## replay: 1 diverged

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y (captured) | diverged | 941000ed → b3073c7b | rel. 0.012 | 1 of 4 | &#91;3&#93;: 6.19999981 → 6.0999999 |

    **diverged** tiny at working tree on cpu
    - diverged: y is not as captured
    - y at n 3
    ");
}

#[test]
fn the_commit_that_left_the_captured_outputs_fails_a_bisection() {
    let env = project(&RIGHT);
    env.repo.commit_file("k.cu", &KERNEL.replace("1.5f", "1.6f"), "Break it");
    assert_eq!(env.replay(&["fixtures/tiny", "--rev", "HEAD~1"]).code, Some(0));
    assert_eq!(env.replay(&["fixtures/tiny", "--rev", "HEAD"]).code, Some(1));
}
