//! Outputs that a fixture holds: a replay is as captured or not, and is right or wrong by an oracle alone.

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
      y  as captured
      captured at a commit that the fixture does not name

    completed: every output is written and finite; y is as captured
    [0]
    ");
}

#[test]
fn a_capture_that_was_rounded_elsewhere_is_within_noise() {
    let moved = [1.6, 3.1, f32::from_bits(4.6f32.to_bits() + 1), 6.1];
    let run = project(&moved).replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  within noise of what was captured
         25 % of bits differ, rel. 5.7e-8, 0 elements beyond noise
         worst at [2]: 4.60000038 -> 4.5999999, 0.5 x noise, 1 ulp
      captured at a commit that the fixture does not name

    completed: every output is written and finite; y is within noise of what was captured
    [0]
    ");
}

#[test]
fn a_capture_in_a_wider_float_is_rounded_first() {
    let env = project(&RIGHT);
    let wide: Vec<u8> = [1.6f64, 3.1, 4.6, 6.1].iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F64, &wide);
    let run = env.replay(&["fixtures/tiny"]);
    assert!(run.stdout.contains("y  as captured"), "{}", run.text());
}

#[test]
fn a_replay_that_is_not_as_captured_is_no_worse_for_it_in_any_format() {
    let env = project(&[1.6, 3.1, 4.6, 6.2]);
    let run = env.replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  not as captured
         25 % of bits differ, rel. 0.012, 1 element beyond noise
         worst at [3]: 6.19999981 -> 6.0999999, 104858 x noise, 209715 ulp
         at n 3
      captured at a commit that the fixture does not name

    completed: every output is written and finite; y is not as captured
    [0]
    ");

    let json = env.replay(&["fixtures/tiny", "--format", "json"]);
    assert_eq!(json.code, Some(0));
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["verdict"], "completed");
    assert_eq!(document["replays"][0]["captured"][0]["verdict"], "diverged");

    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout, @"
    <!-- replay -->
    ## replay: 1 completed

    <details><summary>1 completed</summary>

    - tiny at working tree on cpu

    </details>

    [RUN]
    ");
}

#[test]
fn the_oracle_that_a_fixture_declares_decides_in_every_format() {
    let env = project(&[1.6, 3.1, 4.6, 6.2]);
    declare_oracle(&env);
    let run = env.replay(&["fixtures/tiny"]);
    let (_, told) = run.stdout.split_once("oracle\n").expect("a comparison");
    insta::assert_snapshot!(format!("{told}[{}]", run.code.unwrap_or(-1)), @"
      y  diverged
         25 % of bits differ, rel. 0.012, 1 element beyond noise
         worst at [3]: 6.19999981 -> 6.0999999, 104858 x noise, 209715 ulp
         at n 3

    diverged: y is beyond noise of the oracle
    [1]
    ");
    let json = env.replay(&["fixtures/tiny", "--format", "json"]);
    assert_eq!(json.code, Some(1));
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["verdict"], "diverged");
    assert_eq!(document["replays"][0]["oracle"][0]["verdict"], "diverged");

    let junit = env.replay(&["fixtures/tiny", "--format", "junit"]);
    assert!(junit.stdout.contains("type=\"diverged\""), "{}", junit.text());
    let markdown = env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout;
    assert!(markdown.contains("| y (oracle) | diverged |"), "{markdown}");
    assert!(markdown.contains("- diverged: y is beyond noise of the oracle"), "{markdown}");
}

/// Declares the captured outputs to be true.
fn declare_oracle(env: &TestEnv) {
    let path = env.path("fixtures/tiny/fixture.toml");
    let text = std::fs::read_to_string(&path).expect("a text");
    std::fs::write(&path, format!("oracle = \"expected.safetensors\"\n{text}")).expect("a file");
}

/// A capture at `HEAD`, which multiplies by 1.6 where the commit before it multiplies by 1.5.
fn captured_at_the_defect() -> TestEnv {
    let env = project(&[1.7, 3.3, 4.9, 6.5]);
    env.repo.commit_file("k.cu", &KERNEL.replace("1.5f", "1.6f"), "Break it");
    let path = env.path("fixtures/tiny/fixture.toml");
    let text = std::fs::read_to_string(&path).expect("a text");
    let commit = env.repo.git(&["rev-parse", "HEAD"]);
    let provenance =
        format!("{text}\n[provenance]\ncommit = \"{}\"\ndirty = false\n", commit.trim());
    std::fs::write(&path, provenance).expect("a file");
    env
}

#[test]
fn outputs_that_the_bad_revision_gave_are_not_the_truth_that_it_is_judged_by() {
    let env = captured_at_the_defect();
    let diff = env.replay(&["diff", "fixtures/tiny", "main~1", "main"]);
    assert_eq!(diff.code, Some(1), "{}", diff.text());
    let (_, outputs) = diff.stdout.split_once("outputs\n").expect("outputs");
    insta::assert_snapshot!(outputs, @"
      y  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.065)
         100 % of bits differ, rel. 0.065, 4 elements beyond noise
         worst at [0]: 1.60000002 -> 1.70000005, 419430 x noise, 838861 ulp
         error against the trusted shadow: 2e-8 -> 0.065
         everywhere

    diverged: y (wrong)
    ");
    // Declared to be true, the same values are.
    declare_oracle(&env);
    let diff = env.replay(&["diff", "fixtures/tiny", "main~1", "main"]).stdout;
    assert!(diff.contains("y  diverged: more accurate, no regression"), "{diff}");
    assert!(diff.contains("error against the oracle: 0.061 -> 0"), "{diff}");
}

#[test]
fn a_replay_says_whose_outputs_were_captured() {
    let env = captured_at_the_defect();
    insta::assert_snapshot!(told(&env.replay(&["fixtures/tiny", "--rev", "main"])), @"
      y  as captured
      captured at d285185, with the sources that were replayed

    completed: every output is written and finite; y is as captured
    [0]
    ");
    let before = told(&env.replay(&["fixtures/tiny", "--rev", "main~1"]));
    assert!(before.contains("  captured at d285185, with other sources\n"), "{before}");
    assert!(!before.contains("outside of the inputs"), "{before}");
    let inspected = || {
        let run = env.replay(&["inspect", "fixtures/tiny"]);
        let (_, told) = run.stdout.split_once("captured outputs\n").expect("captured outputs");
        told.split_once("\n\n").expect("a hash").0.to_owned()
    };
    let told = inspected();
    assert!(told.ends_with("\n  what d285185 gave, whose sources the working tree has"), "{told}");
    env.repo.write("k.cu", KERNEL);
    let told = inspected();
    assert!(told.ends_with("\n  what d285185 gave; the working tree has other sources"), "{told}");
}

#[test]
fn sources_that_do_not_give_what_they_gave_at_the_capture_depend_on_more_than_the_inputs() {
    let env = captured_at_the_defect();
    let bytes: Vec<u8> = [1.7f32, 3.3, 4.9, 7.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F32, &bytes);
    insta::assert_snapshot!(told(&env.replay(&["fixtures/tiny", "--rev", "main"])), @"
      y  not as captured
         25 % of bits differ, rel. 0.1, 1 element beyond noise
         worst at [3]: 7.5 -> 6.5, 1048576 x noise, 2097152 ulp
         at n 3
      captured at d285185, with the sources that were replayed
      something outside of the inputs is at work, such as a buffer kept between calls, random numbers, or another version of a package

    completed: every output is written and finite; y is not as captured
    [0]
    ");
}

#[test]
fn a_search_and_a_log_say_which_commits_give_the_captured_outputs_and_are_not_led_by_them() {
    let env = captured_at_the_defect();
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", "main~1", "--bad", "main"]);
    assert_eq!(found.code, Some(0), "{}", found.text());
    assert!(
        found.stdout.starts_with("d285185 is the first bad commit: Break it\n"),
        "{}",
        found.text()
    );
    let short = |rev: &str| env.repo.git(&["rev-parse", "--short=7", rev]).trim().to_owned();
    let good = short("main~1");
    let bad = short("main");
    let line = format!("note: captured outputs are given by {bad}, not by {good}\n");
    assert!(found.stdout.ends_with(&line), "{}", found.text());

    let log = env.replay(&["log", "fixtures/tiny", "main~1..main"]);
    assert!(
        log.stdout.contains(&format!("\ncaptured outputs are given by {bad}\n")),
        "{}",
        log.text()
    );
    let json = env.replay(&["log", "fixtures/tiny", "main~1..main", "--format", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    let captured = &document["captured"][0];
    assert_eq!(captured["given_by"][0]["short"], bad, "{captured}");
    assert_eq!(captured["lost_at"], Value::Null);

    // Rounded elsewhere they are no commit's bits, and within noise of the same end.
    let moved = [1.7, 3.3, f32::from_bits(4.9f32.to_bits() + 1), 6.5];
    let bytes: Vec<u8> = moved.iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F32, &bytes);
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", "main~1", "--bad", "main"]);
    assert!(found.stdout.ends_with(&line), "{}", found.text());
}

#[test]
fn a_search_says_that_more_than_the_inputs_is_at_work_where_the_captured_commit_does_not_give_its_outputs()
 {
    let env = captured_at_the_defect();
    // The kernel kept something between calls; on the captured inputs alone nothing is wrong.
    env.repo.commit_file("k.cu", &format!("{}// Again.\n", KERNEL), "Take it back");
    let bad = env.repo.git(&["rev-parse", "--short=7", "main"]).trim().to_owned();
    let path = env.path("fixtures/tiny/fixture.toml");
    let text = std::fs::read_to_string(&path).expect("a text");
    let (before, _) = text.split_once("commit").expect("provenance");
    std::fs::write(&path, format!("{before}commit = \"{bad}\"\n")).expect("a file");
    let bytes: Vec<u8> = [1.7f32, 3.3, 4.9, 7.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    capture(&env, DType::F32, &bytes);
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", "main~2", "--bad", "main"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let hint = format!(
        "hint: {bad} does not give what was captured at it: something outside of the inputs is at work, \
         such as a buffer kept between calls, random numbers, or another version of a package; make it \
         an input, and capture again\n"
    );
    assert!(run.stdout.contains(&hint), "{}", run.text());
    let note = format!(
        "note: captured outputs are given by none of these commits, nor by {bad}, at which they were \
         captured\n"
    );
    assert!(run.stdout.ends_with(&note), "{}", run.text());
}
