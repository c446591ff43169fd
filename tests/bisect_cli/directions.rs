//! Defects that are made, defects that are repaired, ends of which nothing is claimed, and what lies
//! behind the first answer.

use serde_json::Value;

use crate::bisect_cli::{DIVIDED, MULTIPLIED, RIGHT, WRONG, committed, history, masked, search};
use crate::common::env::TestEnv;

/// The answer without the diff of the commit.
fn answer(text: &str, ids: &[String]) -> String {
    let text = masked(text, ids);
    text.split("\n\ndiff --git").next().unwrap_or_default().to_owned()
}

#[test]
fn the_commit_that_repairs_a_defect_is_found_where_the_good_end_is_the_newer_one() {
    let (env, ids) = history(TestEnv::new(), &[WRONG, WRONG, RIGHT, RIGHT]);
    let run = search(&env, "--good main --bad main~3");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(answer(&run.stdout, &ids), @"
    [C2] repairs y: c2
      before it, compared with the good end:
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      [C1], its parent, was tested: y diverged
    ");
    let log = env.path("log");
    let words = format!("--good main --bad main~3 --log {}", log.display());
    search(&env, &words);
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("git bisect start '--term-old=broken' '--term-new=fixed'"), "{log}");
    assert!(log.contains(&format!("git bisect fixed {}", ids[2])), "{log}");
    assert!(log.contains(&format!("git bisect broken {}", ids[1])), "{log}");
}

#[test]
fn the_replays_tell_which_of_two_ends_is_right() {
    let (env, ids) = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT, RIGHT]);
    let run = search(&env, "--old main~2 --new main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(answer(&run.stdout, &ids), @"
    [C1] repairs failed: fault: c1
      before it, compared with the good end:
      failed: aborted in host code: the code called abort(), or an exception was not caught
      [C0], its parent, was tested: failed: aborted in host code: the code called abort(), or an exception was not caught
      launch new:  k<<<1, 4>>>
    ");
    let run = search(&env, "--old main~2 --new main --format json");
    let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).expect("JSON");
    assert_eq!(last["direction"], "repairs");
    assert_eq!(last["culprit"]["commit"]["id"], ids[1].as_str());
}

#[test]
fn where_nothing_tells_which_end_is_right_the_change_is_found_and_nobody_is_accused() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, WRONG]);
    let run = search(&env, "--old main~2 --new main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(answer(&run.stdout, &ids), @"
    [C2] changes y: c2
      which side is right is not known; compared with the old end:
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      [C1], its parent, was tested: identical
    ");
}

#[test]
fn ends_that_differ_within_noise_only_are_refused_whatever_is_claimed() {
    let (env, ids) = history(TestEnv::new(), &[DIVIDED, MULTIPLIED]);
    let run = search(&env, "--old main~1 --new main");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: equivalent: y
    hint: they differ within noise only: --on bits finds where the bits change
    ");
}

#[test]
fn without_a_good_end_only_what_needs_no_values_is_searched_for() {
    let (env, _) = history(TestEnv::new(), &[RIGHT]);
    let run = search(&env, "--on wrong --bad main");
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: there is no good end to compare with
    hint: name one with --good; `--on gradient` needs none, and `--old A --new B` makes no claim
    ");
}

#[test]
fn a_harmless_change_that_rounding_hides_does_not_take_the_place_of_the_culprit() {
    let sum = |constant: &str| format!("(x[i] * 12345.678f + {constant}) - x[i] * 12345.678f");
    let [base, harmless, defect] = ["1.0f", "1.004f", "3.0f"].map(sum);
    let versions = [(base.as_str(), ""), (&harmless, ""), (&harmless, ";"), (&defect, "")];
    let (env, ids) = history(TestEnv::new(), &versions);
    let run = search(&env, "--good main~3 --bad main~1");
    let first = masked(&run.stdout, &ids);
    assert!(first.starts_with("[C1] is the first bad commit"), "{first}");
    assert!(first.contains("hidden by rounding"), "{first}");
    let run = search(&env, "--good main~3 --bad main --jobs 1");
    insta::assert_snapshot!(answer(&run.stdout, &ids), @"
    [C3] is the first bad commit: c3
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 2)
        100 % of bits differ, rel. 2, 4 elements beyond noise
        worst at [0]: 1 -> 3, 5592405 x noise, 1.68e7 ulp
        error against the trusted shadow: 0 -> 2
        everywhere
      [C2], its parent, was tested: the mathematics of y changed, hidden by rounding
      [C1] was tested: diverged: y (wrong, hidden by rounding) (c1)
    ");
}

#[test]
fn what_the_bad_end_shows_beyond_the_culprit_is_followed_to_its_commit() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG, WRONG, ("x[i] * 7.0f", "")]);
    let run = search(&env, "--good main~3 --bad main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(answer(&run.stdout, &ids), @"
    [C1] is the first bad commit: c1
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      [C0], its parent, was tested: identical
      behind it [C3] changes y too: c3
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 1.8)
        100 % of bits differ, rel. 1.8, 4 elements beyond noise
        worst at [0]: 2.5 -> 7, 6291456 x noise, 1.89e7 ulp
        error against the trusted shadow: 0 -> 1.8
        everywhere
    ");
}

#[test]
fn a_change_that_makes_an_output_more_accurate_is_said_to() {
    let exact = ("x[i] * 0.0f + 0.3f", "");
    let cancels = ("(x[i] * 12345.678f + 0.3f) - x[i] * 12345.678f", "");
    let (env, ids) = history(TestEnv::new(), &[cancels, exact]);
    let run = env.replay(&["diff", "fixtures/tiny", "main~1", "main"]);
    assert!(
        masked(&run.stdout, &ids).contains("y  equivalent: more accurate: within noise"),
        "{}",
        run.text()
    );
    let run = env.replay(&["log", "fixtures/tiny", "main~1..main"]);
    assert!(masked(&run.stdout, &ids).contains("equivalent: y (more accurate)"), "{}", run.text());
}

/// Kernels of the loss `sum of x squared`, whose gradient is `factor` times x.
fn losses(factors: &[&str]) -> (TestEnv, Vec<String>) {
    let kernel = |(number, factor): (usize, &&str)| {
        format!(
            "__global__ void k(const float* x, float* loss, float* dx, int n) {{\n\
             float sum = 0.0f;\nfor (int i = 0; i < n; i++) sum += x[i] * x[i];\n*loss = sum;\n\
             for (int i = 0; i < n; i++) dx[i] = {factor} * x[i];\n}}\n// {number}\n\
             float run(const float* x, float* dx, int n) {{\n\
             float *device, loss;\ncudaMalloc(&device, sizeof(float));\n\
             k<<<1, 1>>>(x, device, dx, n);\n\
             cudaMemcpy(&loss, device, sizeof(float), cudaMemcpyDeviceToHost);\n\
             cudaFree(device);\nreturn loss;\n}}\n"
        )
    };
    let kernels: Vec<String> = factors.iter().enumerate().map(kernel).collect();
    let (env, ids) = committed(TestEnv::new(), "loss = run(x, dx, n);", &kernels);
    env.repo.write(
        "replay.toml",
        "sources = [\"k.cu\"]\ncall = \"loss = run(x, dx, n);\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.loss]\ndtype = \"f32\"\nshape = []\n\
         [outputs.dx]\ndtype = \"f32\"\nshape = [\"n\"]\ngradient_of = \"x\"\nof = \"loss\"\n",
    );
    (env, ids)
}

#[test]
fn a_good_end_that_has_the_defect_already_is_told_with_an_older_revision_to_try() {
    let (env, ids) = losses(&["2.0f", "2.5f", "2.5f", "2.5f"]);
    let run = search(&env, "--good main~2 --bad main");
    assert_eq!(run.code, Some(1), "{}", run.text());
    assert!(
        masked(&run.stdout, &ids).contains("[C1], the good end, has a defect already"),
        "{}",
        run.text()
    );
    let run = search(&env, "--good main~2 --bad main~1 --on gradient");
    assert!(
        masked(&run.stdout, &ids).contains("[C1] was said to be good: dx does not match its loss"),
        "{}",
        run.text()
    );
}

#[test]
fn a_gradient_that_was_never_right_is_told_to_be_so() {
    let (env, ids) = losses(&["2.5f", "2.5f", "2.5f"]);
    let run = search(&env, "--good main~1 --bad main");
    assert!(
        masked(&run.stdout, &ids).contains("the good end, has a defect already"),
        "{}",
        run.text()
    );
    let run = search(&env, "--good main~2 --bad main");
    assert!(
        masked(&run.stdout, &ids).contains("the good end, has a defect already"),
        "{}",
        run.text()
    );
}

#[test]
fn the_first_commit_whose_gradient_does_not_match_its_loss_is_found_without_a_good_end() {
    let (env, ids) = losses(&["2.0f", "2.0f", "2.5f", "2.5f"]);
    let run = search(&env, "--on gradient --bad main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(
        masked(&run.stdout, &ids).contains("[C2] is the first bad commit: c2"),
        "{}",
        run.text()
    );
    let run = search(&env, "--on gradient --bad main~1 --good main --old main");
    assert_eq!(run.code, Some(128), "{}", run.text());
}

#[test]
fn the_commit_that_repairs_a_gradient_is_found_without_a_claim() {
    let (env, ids) = losses(&["2.5f", "2.0f"]);
    let run = search(&env, "--old main~1 --new main");
    let text = masked(&run.stdout, &ids);
    assert!(text.starts_with("[C1] repairs dx: c1\n"), "{text}");
}
