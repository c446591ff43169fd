//! Searches between ends that differ in their commit and in their environment.

use super::isolated;
use crate::common::env::{Run, TestEnv};

const STEPS: &str = "\n[axes.step]\ndefine = \"STEP\"\nvalues = [\"1\", \"2\", \"3\", \"4\"]\n\n\
                     [axes.block]\ndefine = \"BLOCK\"\nvalues = [\"1\", \"2\"]\n";

/// A kernel that multiplies by `factor`; `guard` is a condition on the macro under which it does not compile.
fn kernel(factor: &str, guard: &str) -> String {
    format!(
        "#if {guard}\n#error no such step\n#endif\n\
         __global__ void k(const float* x, float* y) {{\n    int i = threadIdx.x;\n    y[i] = x[i] * ({factor});\n}}\n\
         void run(const float* x, float* y, int n) {{ k<<<1, n>>>(x, y); }}\n"
    )
}

/// Four commits tagged c1 to c4: the first two with one kernel and the last two with another. The first of each pair differs
/// from the second in a comment.
fn between(env: TestEnv, before: &str, after: &str) -> TestEnv {
    let env = env.with_kernel(before, "run(x, y, n);");
    let harness = std::fs::read_to_string(env.path("replay.toml")).expect("a harness");
    env.repo.write("replay.toml", format!("{harness}{STEPS}"));
    for (number, text) in [before, before, after, after].into_iter().enumerate() {
        env.repo.write("k.cu", format!("{text}// {number}\n"));
        env.repo.commit(&format!("Change {}", number + 1));
        env.repo.git(&["tag", &format!("c{}", number + 1)]);
    }
    env
}

const ENDS: [&str; 6] = ["bisect", "fixtures/tiny", "--good", "c1@step=1", "--bad", "c4@step=4"];

/// What it prints, with the tags in the place of the ids.
fn search(env: &TestEnv, more: &[&str]) -> Run {
    let mut run = env.replay(&[&ENDS, more].concat());
    for tag in ["c1", "c2", "c3", "c4"] {
        let id = env.repo.git(&["rev-parse", "--short", tag]);
        run.stdout = run.stdout.replace(id.trim(), tag);
    }
    run
}

const DOUBLE: &str = "2.0f";
const WRONG: &str = "2.5f";
const WRONG_FROM_STEP_3: &str = "STEP >= 3 ? 2.5f : 2.0f";

/// What the culprit of these searches shows.
const EVIDENCE: &str =
    "  y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
    100 % of bits differ, rel. 0.25, 4 elements beyond noise
    worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
    error against the trusted shadow: 0 -> 0.25
    everywhere
";

/// What it prints, without the evidence against culprits and without what commits changed.
fn searched(env: &TestEnv) -> String {
    let run = search(env, &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let without_evidence = run.stdout.replace(EVIDENCE, "");
    let mut is_diff = false;
    let lines = without_evidence.lines().filter(|line| {
        is_diff = (is_diff || line.starts_with("diff --git")) && !line.starts_with("at c");
        !is_diff
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_change_of_the_code_is_found_in_the_good_environment() {
    let env = between(isolated(), &kernel(DOUBLE, "0"), &kernel(WRONG, "0"));
    insta::assert_snapshot!(searched(&env), @r#"
    the change lies in the code
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 bad: diverged: y (wrong)
      c1@step=4 good: identical

    with step 1:
    c3 is the first bad commit: Change 3
      c2, its parent, was tested: identical
    "#);
    let whole = search(&env, &["--hunks"]);
    assert!(whole.stdout.contains(EVIDENCE), "{}", whole.text());
    assert!(whole.stdout.contains("\n  k.cu:6-9 is its only hunk\n"), "{}", whole.text());
    assert!(whole.stderr.contains("2 pairs, "), "{}", whole.text());
    assert!(
        whole.stderr.contains("with step 1\n3 of 3 commits change a kernel"),
        "{}",
        whole.text()
    );
}

#[test]
fn a_change_of_the_environment_is_found_at_the_good_commit() {
    let text = kernel(WRONG_FROM_STEP_3, "0");
    let env = between(isolated(), &text, &text);
    insta::assert_snapshot!(searched(&env), @r#"
    the change lies in step
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 good: identical
      c1@step=4 bad: diverged: y (wrong)

    at c1:
    step 3 is the first bad one: at c1 Change 1
      step 2, the one before it, was tested: identical

    -STEP=2
    +STEP=3
    "#);
}

#[test]
fn where_either_alone_does_it_both_are_found() {
    let env = between(isolated(), &kernel(WRONG_FROM_STEP_3, "0"), &kernel(WRONG, "0"));
    insta::assert_snapshot!(searched(&env), @r#"
    either alone does it: the code, and step
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 bad: diverged: y (wrong)
      c1@step=4 bad: diverged: y (wrong)

    with step 1:
    c3 is the first bad commit: Change 3
      c2, its parent, was tested: identical

    at c1:
    step 3 is the first bad one: at c1 Change 1
      step 2, the one before it, was tested: identical

    -STEP=2
    +STEP=3
    "#);
    let pages = search(&env, &["--format", "html"]);
    assert!(pages.stdout.contains("Where it lies"), "{}", pages.stdout);
    for place in ["id=\"s0-f0\"", "id=\"s1-f0\"", "id=\"s0-t", "id=\"s1-t"] {
        assert!(pages.stdout.contains(place), "{place}");
    }
}

#[test]
fn where_only_both_together_do_it_each_is_found_beside_the_bad_other() {
    let env = between(isolated(), &kernel(DOUBLE, "0"), &kernel(WRONG_FROM_STEP_3, "0"));
    insta::assert_snapshot!(searched(&env), @r#"
    only both together do it: the code and step
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 good: identical
      c1@step=4 good: identical

    with step 4:
    c3 is the first bad commit: Change 3
      c2, its parent, was tested: identical

    at c4:
    step 3 is the first bad one: at c4 Change 4
      step 2, the one before it, was tested: identical

    -STEP=2
    +STEP=3
    "#);
    let markdown = search(&env, &["--format", "markdown"]);
    let headings: Vec<&str> =
        markdown.stdout.lines().filter(|line| line.starts_with('#')).collect();
    insta::assert_snapshot!(headings.join("\n"), @r#"
    ## replay bisect: only both together do it: the code and step
    ### with step 4: c3 is the first bad commit: Change 3
    ### at c4: step 3 is the first bad one: at c4 Change 4
    "#);
    let json = search(&env, &["--format", "json"]);
    let events: Vec<serde_json::Value> =
        json.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<String> = events
        .iter()
        .filter_map(|event| match event["event"].as_str()? {
            "cornered" => Some(format!("{} {}", event["lies_in"], event["code"]["answer"])),
            "along" => Some(format!("{} {}", event["axis"], event["place"])),
            "concluded" => Some(event["culprit"]["commit"]["short"].to_string()),
            _ => None,
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    "together" "good"
    null "with step 4"
    "c3"
    "step" "at c4"
    "step 3"
    "#);
}

#[test]
fn a_pair_that_cannot_be_tested_leaves_what_the_other_decides() {
    let needs_step_3 = between(isolated(), &kernel(DOUBLE, "0"), &kernel(WRONG, "STEP < 3"));
    insta::assert_snapshot!(searched(&needs_step_3), @r#"
    the code takes part; whether it does it without step is not known
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 untestable: the sources do not compile: k.cu:2:2: error: #error no such step
      c1@step=4 good: identical

    with step 4:
    c3 is the first bad commit: Change 3
      c2, its parent, was tested: identical
    "#);
    let needs_step_2 = between(isolated(), &kernel(DOUBLE, "STEP >= 3"), &kernel(WRONG, "0"));
    insta::assert_snapshot!(searched(&needs_step_2), @r#"
    the code alone does it; whether step does is not known
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 bad: diverged: y (wrong)
      c1@step=4 untestable: the sources do not compile: k.cu:2:2: error: #error no such step

    with step 1:
    c3 is the first bad commit: Change 3
      c2, its parent, was tested: identical
    "#);
}

#[test]
fn the_environment_is_searched_where_a_pair_of_the_code_cannot_be_tested() {
    let guarded = "STEP == 1";
    let alone = between(isolated(), &kernel(WRONG_FROM_STEP_3, "0"), &kernel(WRONG, guarded));
    let run = searched(&alone);
    assert!(run.starts_with("step alone does it; whether the code does is not known\n"), "{run}");
    assert!(run.contains("\nat c1:\nstep 3 is the first bad one"), "{run}");
    let part = between(isolated(), &kernel(DOUBLE, "STEP == 4"), &kernel(WRONG_FROM_STEP_3, "0"));
    let run = searched(&part);
    let told = "step takes part; whether it does it without the code is not known\n";
    assert!(run.starts_with(told), "{run}");
    assert!(run.contains("\nat c4:\nstep 3 is the first bad one"), "{run}");
}

#[test]
fn where_neither_pair_can_be_tested_nothing_is_searched() {
    let before = kernel(DOUBLE, "STEP >= 3");
    let env = between(isolated(), &before, &kernel(WRONG, "STEP < 3"));
    let run = search(&env, &[]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    insta::assert_snapshot!(run.stdout, @r#"
    whether the change lies in the code or in step is not known
      c1@step=1 good: identical
      c4@step=4 bad: diverged: y (wrong)
      c4@step=1 untestable: the sources do not compile: k.cu:2:2: error: #error no such step
      c1@step=4 untestable: the sources do not compile: k.cu:2:2: error: #error no such step
    hint: name ends nearer to each other, or a revision that runs with both: `--over step --rev REV`
    "#);
}

#[test]
fn ends_that_share_one_of_the_two_are_searched_along_the_other() {
    let env = between(isolated(), &kernel(WRONG_FROM_STEP_3, "0"), &kernel(WRONG, "0"));
    let ends = |good, bad| {
        let run = env.replay(&["bisect", "fixtures/tiny", "--good", good, "--bad", bad]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        run.stdout
    };
    let commits = ends("c1@step=2", "c4@step=2");
    assert!(commits.starts_with("with step 2:\n"), "{commits}");
    assert!(commits.contains(" is the first bad commit: Change 3"), "{commits}");
    let steps = ends("@~3@step=1", "c1@step=4");
    assert!(steps.contains("\nstep 3 is the first bad one: at "), "{steps}");
}

#[test]
fn ends_that_are_not_as_they_are_said_to_be_are_refused() {
    let text = kernel(DOUBLE, "0");
    let env = between(isolated(), &text, &text);
    let run = search(&env, &[]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stdout, @r#"
    refused: c4@step=4 was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race
    "#);
    let json = search(&env, &["--format", "json"]);
    assert!(json.last_line().contains("\"conclusion\":\"refused\""), "{}", json.text());
}

#[test]
fn a_revision_of_gits_is_one_whatever_it_looks_like() {
    let env = between(isolated(), &kernel(DOUBLE, "0"), &kernel(WRONG, "0"));
    env.repo.git(&["tag", "old@step=9", "c1"]);
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", "old@step=9", "--bad", "c4"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains(" is the first bad commit: Change 3"), "{}", run.text());
}

#[test]
fn ends_that_name_no_pair_are_refused_with_the_reason() {
    let env = between(isolated(), &kernel(DOUBLE, "0"), &kernel(WRONG, "0"));
    let told = |good: &str, bad: &str| {
        env.replay(&["bisect", "fixtures/tiny", "--good", good, "--bad", bad]).text()
    };
    let many =
        ["bisect", "fixtures/tiny", "--good", "c1@step=1", "c2@step=1", "--bad", "c4@step=4"];
    let messages = [
        told("c1@stop=1", "c4@stop=4"),
        told("c1@step=1", "c4@step=9"),
        told("c1@step=1", "c4"),
        told("c1", "c4@step=4"),
        told("c1@step=1", "c4@block=2"),
        told("@step=1", "c4@step=4"),
        told("c4@step=4", "c4@step=4")
            .replace(&env.repo.git(&["rev-parse", "--short", "c4"]), "c4"),
        told("nowhere@step=1", "c4@step=4"),
        env.replay(&many).text(),
        env.replay(&["bisect", "fixtures/tiny", "--old", "c1@step=1", "--new", "c4"]).text(),
        search(&env, &["--patch", "back.patch"]).text(),
        search(&env, &["--snapshots", "snapshots"]).text(),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    exit code 128
    --- stderr
    error: replay.toml has no axis `stop`, did you mean `step`?
    hint: an axis is a line below [axes] there, such as cxx = ["g++", "clang++"]: `replay help environments`

    exit code 128
    --- stderr
    error: `9` is no value of the axis `step`
    hint: it has 1, 2, 3, 4

    exit code 128
    --- stderr
    error: `c1@step=1` is in an environment, and the other end is in none
    hint: name one at each end: REV@step=VALUE

    exit code 128
    --- stderr
    error: `c4@step=4` is in an environment, and the other end is in none
    hint: name one at each end: REV@step=VALUE

    exit code 128
    --- stderr
    error: the ends are on two axes, `step` and `block`
    hint: a search changes one axis besides the revision

    exit code 128
    --- stderr
    error: `@step=1` names no revision
    hint: `HEAD@step=1`, or --over step for the working tree

    exit code 128
    --- stderr
    error: both ends are c4 with step 4
    hint: the axis has 1, 2, 3, 4

    exit code 128
    --- stderr
    error: unknown revision `nowhere`

    exit code 128
    --- stderr
    error: ends in environments are one good and one bad revision
    hint: `--good REV@AXIS=VALUE --bad REV@AXIS=VALUE`

    exit code 128
    --- stderr
    error: --old and --new take no environments
    hint: claim the ends: `--good REV@step=VALUE --bad REV@step=VALUE`

    exit code 128
    --- stderr
    error: --patch does not go with ends in environments
    hint: leave it out; or search in the session's own environment

    exit code 128
    --- stderr
    error: --snapshots does not go with ends in environments
    hint: leave it out; or search in the session's own environment
    "#);
}
