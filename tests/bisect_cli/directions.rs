//! Defects that are made, defects that are repaired, ends of which nothing is claimed, and what lies
//! behind the first answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::bisect_cli::{
    DIVIDED, MULTIPLIED, RIGHT, WRONG, committed, history, masked, search, without_diff,
};
use crate::common::env::TestEnv;

#[test]
fn the_commit_that_repairs_a_defect_is_found_where_the_good_end_is_the_newer_one() {
    let (env, ids) = history(TestEnv::new(), &[WRONG, WRONG, RIGHT, RIGHT]);
    let run = search(&env, "--good main --bad main~3");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C2] repairs y: c2
      before it, compared with the good end:
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      [C1], its parent, was tested: diverged: y (wrong)
    ");
    let log = env.path("log");
    let words = format!("--good main --bad main~3 --log {}", log.display());
    search(&env, &words);
    let log = std::fs::read_to_string(log).expect("a log");
    let commands = log.lines().filter(|line| line.starts_with("git bisect "));
    let numbered = |line: &str| {
        ids.iter()
            .zip(0..)
            .fold(line.to_owned(), |text, (id, number)| text.replace(id, &format!("[C{number}]")))
    };
    // Several tests run at a time.
    let commands: BTreeSet<String> = commands.map(numbered).collect();
    insta::assert_snapshot!(commands.into_iter().collect::<Vec<_>>().join("\n"), @"
    git bisect broken [C0]
    git bisect broken [C1]
    git bisect fixed [C2]
    git bisect fixed [C3]
    git bisect start '--term-old=broken' '--term-new=fixed'
    ");
}

#[test]
fn the_replays_tell_which_of_two_ends_is_right() {
    let (env, ids) = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT, RIGHT]);
    let run = search(&env, "--old main~2 --new main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C1] repairs failed: fault: c1
      before it, compared with the good end:
      failed: aborted in host code: the code called abort()
      [C0], its parent, was tested: failed: aborted in host code: the code called abort()
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
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
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
    refused: [C1] is no worse than the other end: equivalent: y
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
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C1] is the first bad commit: c1
      y diverged: wrong, hidden by rounding on this fixture: the float64 shadow moves by 0.4 %
        100 % of bits differ, rel. 0.0039, 0 elements beyond noise
        worst at [0]: 1 -> 1.00390625, 4 x noise, 32768 ulp
        error against the trusted shadow: 0 -> 0.0039
        everywhere
        4 elements jump in one or two replays, over 1024 x as far as in the others
      [C0], its parent, was tested: identical
    ");
    let run = search(&env, "--good main~3 --bad main --jobs 1");
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C3] is the first bad commit: c3
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 2)
        100 % of bits differ, rel. 2, 4 elements beyond noise
        worst at [0]: 1 -> 3, 5592405 x noise, 1.68e7 ulp
        error against the trusted shadow: 0 -> 2
        everywhere
      [C2], its parent, was tested: diverged: y (wrong, hidden by rounding)
      [C1] was tested: diverged: y (wrong, hidden by rounding) (c1)
    ");
}

#[test]
fn what_is_said_of_commits_with_the_same_bits_does_not_depend_on_which_was_tested_first() {
    let sum = |constant: &str| format!("(x[i] * 12345.678f + {constant}) - x[i] * 12345.678f");
    let [base, harmless, defect] = ["1.0f", "1.004f", "3.0f"].map(sum);
    let versions = [
        (base.as_str(), ""),
        (&harmless, ""),
        (&harmless, ";"),
        (&harmless, ";;"),
        (&harmless, ";;;"),
        (&defect, ""),
        (&defect, ";"),
    ];
    let (env, ids) = history(TestEnv::with_own_replays(), &versions);
    let said = ["1", "2", "4"].map(|jobs| {
        env.forget_results();
        let run = search(&env, &format!("--good main~6 --bad main --jobs {jobs} --format json"));
        let events = masked(&run.stdout, &ids);
        let events = events.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let events: Vec<Value> = events.collect();
        let tested = events.iter().filter(|event| event["event"] == "tested");
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        let texts: BTreeMap<String, String> =
            tested.map(|event| (word(&event["commit"]["short"]), word(&event["text"]))).collect();
        let culprit = events.last().expect("an answer")["culprit"].clone();
        (texts, [culprit["commit"].clone(), culprit["fixtures"].clone()])
    });
    // With more jobs more commits are tested.
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (texts, culprit) in &said {
        assert_eq!(*culprit, said[0].1);
        for (commit, text) in texts {
            assert_eq!(all.entry(commit.clone()).or_insert(text.clone()), text);
        }
    }
    let texts: BTreeSet<String> = all.into_values().collect();
    insta::assert_snapshot!(texts.into_iter().collect::<Vec<_>>().join("\n"), @"
    diverged: y (wrong)
    diverged: y (wrong, hidden by rounding)
    identical
    ");
}

#[test]
fn a_harmless_commit_with_the_bits_of_a_defect_that_rounding_hides_is_not_taken_for_it() {
    let sum =
        |factor: &str, constant: &str| format!("(x[i] * {factor} + {constant}) - x[i] * {factor}");
    // The second rounds otherwise; the fourth computes something else, which is rounded to the same.
    let [base, harmless, defect] =
        [("12345.5f", "1.0005f"), ("24691.0f", "1.0005f"), ("24691.0f", "1.0009f")]
            .map(|(factor, constant)| sum(factor, constant));
    let versions = [(base.as_str(), ""), (&harmless, ""), (&harmless, ";"), (&defect, "")];
    let (env, ids) = history(TestEnv::new(), &versions);
    let run = search(&env, "--good main~3 --bad main --jobs 1");
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
    [C3] is the first bad commit: c3
      y diverged: wrong, hidden by rounding on this fixture: the float64 shadow moves by 0.04 %
        25 % of bits differ, rel. 0.00049, 0 elements beyond noise
        worst at [0]: 1.00097656 -> 1, 0.33 x noise, 8192 ulp
        error against the trusted shadow: 0.00049 -> 0.0005
        everywhere
        8 elements jump in one or two replays, over 1024 x as far as in the others
      [C2], its parent, was tested: equivalent
      [C1] was tested: equivalent (c1)
    ");
}

#[test]
fn what_the_bad_end_shows_beyond_the_culprit_is_followed_to_its_commit() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG, WRONG, ("x[i] * 7.0f", "")]);
    let run = search(&env, "--good main~3 --bad main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(without_diff(&run.stdout, &ids), @"
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
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    tiny at [C0] A kernel
    tiny at [C1] c1

    outputs
      y  equivalent: more accurate: within noise, at most 0.4 x
         100 % of bits differ, rel. 0.0023, 0 elements beyond noise
         worst at [1]: 0.30078125 -> 0.300000012, 0.4 x noise, 26214 ulp
         error against the trusted shadow: 0.0023 -> 4e-8
         4 elements jump in one or two replays, over 1024 x as far as in the others

    equivalent: y (more accurate)
    ");
    let run = env.replay(&["log", "fixtures/tiny", "main~1..main"]);
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C1] c1
      equivalent: y (more accurate)
      y: 100 % of bits differ, rel. 0.0023, 0 elements beyond noise
      against [C0]

    races were not looked for: `--check auto` looks for them
    1 change at 1 commit of 1 commit, 2 variants replayed
    ");
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

/// What a search on a history of these factors of the gradient says, and how it ends; 2 is right.
fn answer_on_losses(factors: &[&str], words: &str) -> String {
    let (env, ids) = losses(factors);
    let run = search(&env, &format!("{words} --jobs 1"));
    let code = run.code.expect("an exit code");
    format!("exit code {code}\n{}", without_diff(&run.stdout, &ids))
}

#[test]
fn a_good_end_that_has_the_defect_already_is_told_with_an_older_revision_to_try() {
    let said = answer_on_losses(&["2.0f", "2.5f", "2.5f", "2.5f"], "--good main~2 --bad main");
    insta::assert_snapshot!(said, @"
    exit code 1
    refused: [C3] was said to be bad: identical
             [C1], the good end, has a defect already: on tiny dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
    hint: name an older good revision: at [C0], the oldest that can be tested, it matches; `--on gradient --good [C0]` finds the commit
    ");
}

#[test]
fn a_parent_that_has_the_defect_already_is_told_with_the_search_that_finds_it() {
    let (env, ids) = losses(&["2.0f", "2.5f", "2.5f"]);
    let run = env.replay(&["blame", "fixtures/tiny", "main"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C2] is no worse than its parent: identical
             [C1], the parent, has a defect already: on tiny dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
    hint: at [C0], the oldest revision that can be tested, it matches: `replay bisect FIXTURE --on gradient --good [C0] --bad [C1]` finds the commit
    ");
    let found = search(&env, "--on gradient --good main~2 --bad main~1");
    assert!(
        masked(&found.stdout, &ids).contains("[C1] is the first bad commit"),
        "{}",
        found.text()
    );
}

#[test]
fn a_good_end_whose_gradient_does_not_match_its_loss_is_refused_in_a_search_for_gradients() {
    let factors = ["2.0f", "2.5f", "2.5f", "2.5f"];
    let said = answer_on_losses(&factors, "--good main~2 --bad main~1 --on gradient");
    insta::assert_snapshot!(said, @"
    exit code 1
    refused: [C1] was said to be good: dx does not match its loss
    hint: name a good commit that does not show what the bad one shows
    ");
}

#[test]
fn a_gradient_that_was_never_right_is_told_to_be_so() {
    let said = answer_on_losses(&["2.5f", "2.5f", "2.5f"], "--good main~2 --bad main");
    insta::assert_snapshot!(said, @"
    exit code 1
    refused: [C2] was said to be bad: identical
             [C0], the good end, has a defect already: on tiny dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
    hint: [C0] has the sources of the oldest revision that can be tested: the defect was there from the start
    ");
}

#[test]
fn a_gradient_that_is_wrong_at_the_first_revision_in_another_way_is_told_to_be_so() {
    let said = answer_on_losses(&["3.0f", "2.5f", "2.5f"], "--good main~1 --bad main");
    insta::assert_snapshot!(said, @"
    exit code 1
    refused: [C2] was said to be bad: identical
             [C1], the good end, has a defect already: on tiny dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
    hint: [C0], the oldest revision that can be tested, does not show a gradient that matches either: name a revision between them at which `replay gradcheck` is content, for `--on gradient`
    ");
}

#[test]
fn the_first_commit_whose_gradient_does_not_match_its_loss_is_found_without_a_good_end() {
    let said = answer_on_losses(&["2.0f", "2.0f", "2.5f", "2.5f"], "--on gradient --bad main");
    insta::assert_snapshot!(said, @"
    exit code 0
    [C2] is the first bad commit: c2
      dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
      [C1], its parent, was tested: dx matches its loss
    ");
}

#[test]
fn the_good_end_that_nobody_named_is_the_oldest_commit_that_can_be_tested() {
    let factors = ["not C++", "no C++ yet", "2.0f", "2.0f", "2.5f"];
    let said = answer_on_losses(&factors, "--on gradient --bad main");
    insta::assert_snapshot!(said, @"
    exit code 0
    [C4] is the first bad commit: c4
      dx does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [3] 10 instead of 8
      [C3], its parent, was tested: dx matches its loss
    ");
}

#[test]
fn the_commit_that_repairs_a_gradient_is_found_without_a_claim() {
    let said = answer_on_losses(&["2.5f", "2.0f"], "--old main~1 --new main");
    insta::assert_snapshot!(said, @"
    exit code 0
    [C1] repairs dx: c1
      dx matches its loss, and does not before it (rel. 0.25)
      before it, compared with the good end:
      dx diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
         100 % of bits differ, rel. 0.25, 4 elements beyond noise
         worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
         error against the trusted shadow: 0 -> 0.25
         everywhere
      [C0], its parent, was tested: diverged: dx (wrong)
    ");
}

#[test]
fn a_repair_that_was_claimed_to_be_a_defect_is_called_a_repair() {
    let said = answer_on_losses(&["2.5f", "2.5f", "2.0f", "2.0f"], "--good main~3 --bad main");
    insta::assert_snapshot!(said, @"
    exit code 0
    [C2] repairs dx: c2
      dx matches its loss, and does not before it
      compared with the good end:
      dx diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.2)
         100 % of bits differ, rel. 0.2, 4 elements beyond noise
         worst at [2]: 7.5 -> 6, 1572864 x noise, 3145728 ulp
         error against the trusted shadow: 0 -> 0.2
         everywhere
      [C1], its parent, was tested: identical
    ");
}

#[test]
fn a_gradient_that_matches_another_loss_than_before_is_no_repair() {
    let (env, mut ids) = losses(&["2.0f"]);
    let kernel = std::fs::read_to_string(env.path("k.cu")).expect("a file");
    let weighed = kernel.replace("sum += x[i]", "sum += 1.25f * x[i]");
    for (number, text) in [&weighed, &weighed, &kernel].into_iter().enumerate() {
        env.repo.commit_file("k.cu", &format!("{text}// again {number}\n"), "Again");
        ids.push(env.repo.git(&["rev-parse", "HEAD"]));
    }
    let run = search(&env, "--good main~2 --bad main --jobs 1");
    let said = without_diff(&run.stdout, &ids);
    assert!(said.starts_with("[C3] is the first bad commit: Again"), "{said}");
}

#[test]
fn a_commit_at_which_another_output_differs_too_is_judged_by_the_wanted_one() {
    let kernel = |(number, (first, second)): (usize, &(&str, &str))| {
        format!(
            "__global__ void k(const float* x, float* y, float* z) {{\n\
             int i = threadIdx.x;\ny[i] = {first};\nz[i] = {second};\n}}\n// {number}\n"
        )
    };
    let right = "x[i] * 2.0f";
    let wrong = "x[i] * 2.5f";
    let not_a_number = "(x[i] - x[i]) / 0.0f";
    // The second output is wrong for a while, and no number after that: the end shows none of it.
    let versions = [
        (right, right),
        (right, wrong),
        (right, wrong),
        (right, not_a_number),
        (right, not_a_number),
        (wrong, not_a_number),
        (wrong, not_a_number),
        (wrong, right),
    ];
    let kernels: Vec<String> = versions.iter().enumerate().map(kernel).collect();
    let (env, ids) = committed(TestEnv::new(), "k<<<1, n>>>(x, y, z);", &kernels);
    env.repo.write(
        "replay.toml",
        "sources = [\"k.cu\"]\ncall = \"k<<<1, n>>>(x, y, z);\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.z]\ndtype = \"f32\"\nshape = [\"n\"]\n",
    );
    let run = search(&env, "--good main~7 --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let said = without_diff(&run.stdout, &ids);
    assert!(said.starts_with("[C5] is the first bad commit: c5\n"), "{said}");
}

#[test]
fn ends_that_nothing_is_claimed_of_may_be_named_in_either_order() {
    let said = answer_on_losses(&["2.5f", "2.0f"], "--old main --new main~1");
    assert_eq!(said, answer_on_losses(&["2.5f", "2.0f"], "--old main~1 --new main"));
}

#[test]
fn claims_and_their_absence_do_not_go_together() {
    let (env, _) = history(TestEnv::new(), &[RIGHT]);
    let run = search(&env, "--bad main~1 --good main --old main");
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the argument '--bad <REV>...' cannot be used with '--old <REV>...'

    Usage: replay bisect --bad <REV>... --good <REV>... <FIXTURE>...

    For more information, try '--help'.
    ");
}

#[test]
fn a_first_commit_that_is_bad_already_is_not_said_to_have_been_called_good() {
    let said = answer_on_losses(&["2.5f", "2.5f", "2.5f"], "--on gradient --bad main");
    insta::assert_snapshot!(said, @"
    exit code 1
    refused: [C0] is the oldest commit that can be tested, and bad already: dx does not match its loss
    hint: no older commit can be tested: name a later one that is good with --good, if there is one; else the defect was there from the start
    ");
}
