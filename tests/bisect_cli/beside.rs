//! Histories with several defects: what a search and a log tell beside the one that hides the others.

use replay::tensor::DType;

use crate::bisect_cli::{
    DIVIDED, MULTIPLIED, RIGHT, WRONG, committed, history, kernel, masked, search, without_diff,
};
use crate::common::env::TestEnv;

const NOT_A_NUMBER: (&str, &str) = ("x[i] * 2.5f + (x[i] - x[i]) / 0.0f", "");
const CRASH: (&str, &str) = ("x[i] * 2.0f", "abort();");

#[test]
fn a_commit_that_diverges_does_not_hide_a_later_one_that_fails() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG, NOT_A_NUMBER, NOT_A_NUMBER]);
    let run = search(&env, "--good main~3 --bad main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C2] is the first bad commit: c2
      failed: non-finite: y has 4 NaN and 0 Inf from finite inputs, first at [0]
      [C1], its parent, was tested: diverged: y (wrong)
      before it [C1] changes y too: c1
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
    ");
    let markdown = search(&env, "--good main~3 --bad main --format markdown").stdout;
    let line = format!("before it {} changes y too", &ids[1][..7]);
    assert!(markdown.contains(&line), "{markdown}");
    let json = search(&env, "--good main~3 --bad main --format json").stdout;
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last["before"][0]["culprit"]["commit"]["id"], ids[1].as_str());
}

#[test]
fn several_fixtures_and_their_outputs_are_named_once_each() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG, ("x[i] * 7.0f", "")]);
    for (name, x) in [("again", [4.0f32, 3.0, 2.0, 1.0]), ("zero", [0.0; 4])] {
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        env.write_fixture(name, &[("x", DType::F32, &[4], &bytes)]);
    }
    let fixtures = ["fixtures/tiny", "fixtures/again", "fixtures/zero"];
    let ends = ["--good", "main~2", "--bad", "main"];
    let run = env.replay(&[&["bisect"], fixtures.as_slice(), &ends].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C1] is the first bad commit: c1
      tiny
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      again
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [1]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      zero
      identical
      [C0], its parent, was tested: tiny: identical; again: identical; zero: identical
      behind it [C2] changes y (tiny, again) too: c2
      tiny
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 1.8)
        100 % of bits differ, rel. 1.8, 4 elements beyond noise
        worst at [0]: 2.5 -> 7, 6291456 x noise, 1.89e7 ulp
        error against the trusted shadow: 0 -> 1.8
        everywhere
      again
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 1.8)
        100 % of bits differ, rel. 1.8, 4 elements beyond noise
        worst at [0]: 10 -> 28, 6291456 x noise, 1.89e7 ulp
        error against the trusted shadow: 0 -> 1.8
        everywhere
      zero
      identical
    ");
}

#[test]
fn a_log_compares_what_can_be_compared_behind_a_failure() {
    let partly = |(factor, host): (&str, &str), note: &str| {
        kernel(factor, host, note).replace("y[i] =", "if (i != 1) y[i] =")
    };
    let versions = [
        kernel(DIVIDED.0, "", "0"),
        partly(DIVIDED, "1"),
        partly(MULTIPLIED, "2"),
        partly(MULTIPLIED, "3"),
        partly(WRONG, "4"),
        kernel(WRONG.0, "", "5"),
    ];
    let (env, ids) = committed(TestEnv::new(), crate::bisect_cli::CALL, &versions);
    let run = env.replay(&["log", "fixtures/tiny", "main~5..main"]);
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C1] c1
      failed: unwritten: 1 of 4 elements of y, first at [1]
      against [C0]

    [C2] c2
      equivalent: y
      y: 25 % of bits differ, rel. 4.1e-8, 0 elements beyond noise
      failed as before it: unwritten: 1 of 4 elements of y, first at [1]
      against [C1]

    [C4] c4
      diverged: y (the mathematics changed)
      y: 75 % of bits differ, rel. 16, 3 elements beyond noise
      failed as before it: unwritten: 1 of 4 elements of y, first at [1]
      against [C3]

    [C5] c5
      completes, where [C4] failed: unwritten: 1 of 4 elements of y, first at [1]
      against [C4]

    changed sources and no output:
      [C3] c3
        failed as before it: unwritten: 1 of 4 elements of y, first at [1]

    races were not looked for: `--check auto` looks for them
    4 changes at 4 commits of 5 commits, 6 variants replayed
    ");
    let run = search(&env, "--good main~5 --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let answer = masked(&run.stdout, &ids);
    let (found, _) = answer.split_once("\ndiff --git").expect("a difference");
    insta::assert_snapshot!(found, @"
    [C4] is the first bad commit: c4
      failed: unwritten: 1 of 4 elements of y, first at [1]
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 17)
        75 % of bits differ, rel. 16, 3 elements beyond noise
        worst at [2]: 0.428571433 -> 7.5, 1.4e7 x noise, 2.37e8 ulp
        error against the trusted shadow: 3.7e-8 -> 17
        at n 0+2+3
      [C3], its parent, was tested: failed: unwritten: 1 of 4 elements of y, first at [1]
      [C1] was tested: failed: unwritten: 1 of 4 elements of y, first at [1] (c1)
      [C2] was tested: failed: unwritten: 1 of 4 elements of y, first at [1] (c2)
      before it [C1] changes the outcome too: c1
      failed: unwritten: 1 of 4 elements of y, first at [1]
    ");
}

#[test]
fn a_comparison_lists_the_commits_that_may_have_made_the_difference() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, CRASH, WRONG]);
    let words = ["fixtures/tiny", "--rev", "main", "--against", "main~2", "--culprit"];
    let run = env.replay(&words);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let text = masked(&run.stdout, &ids);
    let line = text.lines().find(|line| line.contains("one of these")).unwrap_or(&text);
    insta::assert_snapshot!(line.trim(), @"commits that are neither good nor bad hide the first bad commit; it is one of these 2: [C1], [C2]; the search was for what the bad end shows (y diverged); for the other, name [C1] as bad; `replay log FIXTURE [C1]^..[C2]` compares each of them with the commit before it");
}
