//! Outputs that are not finite although the inputs are.

use crate::common::env::TestEnv;

/// The first element is infinite, as the log-sum of an empty row.
fn kernel(rest: &str) -> String {
    format!(
        "__global__ void sums(const float* x, float* y, int n)\n\
         {{\n    int i = threadIdx.x;\n    if (i < n) y[i] = i == 0 ? logf(x[i] - x[i]) : {rest};\n}}\n"
    )
}

const CALL: &str = "sums<<<1, 32>>>(x, y, n);";

#[test]
fn what_the_trusted_side_holds_in_the_same_place_is_no_failure() {
    let env = TestEnv::new().with_kernel(&kernel("x[i] * 3.0f"), CALL);
    env.repo.commit_file("k.cu", &kernel("x[i] + x[i] + x[i]"), "Add");
    let alone = env.replay(&["fixtures/tiny"]);
    assert_eq!(alone.code, Some(1), "{}", alone.text());
    let run = env.replay(&["fixtures/tiny", "--against", "HEAD~1"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"identical: y, not finite where the trusted side is not either");
    env.repo.commit_file("k.cu", &kernel("x[i] * 4.0f"), "Count one twice");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("outputs\n").unwrap().1, @"
      y  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.33)
         75 % of bits differ, rel. 0.33, 3 elements beyond noise
         worst at [2]: 9 -> 12, 1572864 x noise, 3145728 ulp
         error against the trusted shadow: 0 -> 0.33
         at n 1..3

    diverged: y (wrong)
    ");
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", "HEAD~2", "--bad", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("is the first bad commit: Count one twice"), "{}", run.text());
}

#[test]
fn another_place_that_is_not_finite_diverges() {
    let env = TestEnv::new().with_kernel(&kernel("x[i] * 3.0f"), CALL);
    env.repo.commit_file("k.cu", &kernel("i == 3 ? -logf(0.0f) : x[i] * 3.0f"), "Divide by zero");
    let run = env.replay(&["fixtures/tiny", "--against", "HEAD~1"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"diverged: y (wrong)");
}

#[test]
fn an_output_that_the_harness_lets_be_infinite_completes() {
    let env = TestEnv::new().with_kernel(&kernel("x[i]"), CALL);
    let path = env.path("replay.toml");
    let harness = std::fs::read_to_string(&path).unwrap();
    let (before, output) = harness.split_once("[outputs.y]\n").expect("an output");
    std::fs::write(&path, format!("{before}[outputs.y]\nnon_finite = true\n{output}")).unwrap();
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"completed: every output is written, not all finite, as inputs or harness allow");
}
