//! Ends that allow no search are refused, with what was seen there and what to do.

use crate::bisect_cli::{BROKEN, RIGHT, WRONG, history, isolated, masked};
use crate::common::env::TestEnv;

/// A history in which c2 goes wrong and c4 is right again.
fn wrong_and_right_again() -> (TestEnv, Vec<String>) {
    history(TestEnv::new(), &[RIGHT, RIGHT, WRONG, WRONG, RIGHT, BROKEN])
}

fn refusal(history: &(TestEnv, Vec<String>), good: usize, bad: usize) -> String {
    refusal_on(history, good, bad, "wrong")
}

fn refusal_on((env, ids): &(TestEnv, Vec<String>), good: usize, bad: usize, on: &str) -> String {
    let ends = ["bisect", "fixtures/tiny", "--good", &ids[good], "--bad", &ids[bad], "--on", on];
    let run = env.replay(&ends).without_compilers_words();
    assert_eq!(run.code, Some(1), "{}", run.text());
    let mut text = run.stdout;
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..7], &format!("[C{number}]"));
    }
    text
}

#[test]
fn bad_ends_on_both_sides_of_the_good_one_are_refused_without_a_test() {
    let (env, ids) = wrong_and_right_again();
    let ends = ["bisect", "fixtures/tiny", "--good", &ids[1], "--bad", &ids[0], &ids[3]];
    let run = env.replay(&ends);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: bad [C0] is an ancestor of good [C1]
    hint: name ends of which all bad ones are older than the good ones, or all newer
    ");
}

#[test]
fn a_good_end_that_shows_what_the_bad_one_shows_is_refused() {
    let history = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT, (RIGHT.0, "abort( );")]);
    insta::assert_snapshot!(refusal(&history, 0, 2), @r"
    refused: [C0] was said to be good: failed: aborted in host code: the code called abort()
    hint: name a good commit that does not show what the bad one shows
    ");
}

#[test]
fn a_bad_end_that_is_like_the_good_one_is_refused() {
    insta::assert_snapshot!(refusal(&wrong_and_right_again(), 1, 4), @r"
    refused: [C4] was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race
    ");
}

#[test]
fn ends_with_the_same_sources_are_refused() {
    let (env, mut ids) = wrong_and_right_again();
    ids.push(env.repo.commit_file("README", "words\n", "Only words"));
    insta::assert_snapshot!(refusal(&(env, ids), 5, 6), @r"
    refused: [C5] and [C6] have the same sources
    hint: what differs lies outside of the harness's `sources` and `include`: name it there, or look at the inputs
    ");
}

#[test]
fn an_end_that_cannot_be_tested_is_refused() {
    insta::assert_snapshot!(refusal(&wrong_and_right_again(), 1, 5), @r"
    refused: [C5] is neither good nor bad: untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
    hint: name other ends; `replay FIXTURE --rev REV` shows one commit in detail
    ");
}

#[test]
fn beside_a_good_end_that_cannot_be_tested_nothing_is_said_of_the_bad_one() {
    let history = history(TestEnv::new(), &[BROKEN, WRONG]);
    insta::assert_snapshot!(refusal(&history, 0, 1), @"
    refused: [C0] is neither good nor bad: untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
             [C1] is neither good nor bad: untestable: there is nothing to compare with: the sources do not compile: k.cu:3: error: [MESSAGE]
    hint: name other ends; `replay FIXTURE --rev REV` shows one commit in detail
    ");
}

#[test]
fn a_bad_merge_base_is_refused() {
    let (env, mut ids) = history(TestEnv::new(), &[WRONG, WRONG]);
    env.repo.git(&["checkout", "-q", "-b", "fixed", "main~1"]);
    ids.push(env.repo.commit_file("k.cu", &crate::bisect_cli::kernel(RIGHT.0, "", "fixed"), "Fix"));
    insta::assert_snapshot!(refusal(&(env, ids), 2, 1), @"
    refused: [C0] is the common ancestor of the ends, and bad: diverged: y (wrong)
    hint: the defect was fixed on the way to the good end: name a good commit before it, or swap the ends to find the fix
    ");
}

#[test]
fn an_unknown_revision_is_no_verdict() {
    let (env, _) = history(TestEnv::new(), &[RIGHT]);
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", "mian", "--bad", "main"]);
    insta::assert_snapshot!(run.text(), @r"
    exit code 128
    --- stderr
    error: unknown revision `mian`
    hint: did you mean `main`?
    ");
}

#[test]
fn a_search_for_a_failure_is_refused_where_the_bad_end_completes() {
    insta::assert_snapshot!(refusal_on(&wrong_and_right_again(), 1, 3, "failed"), @"
    refused: [C3] was said to be bad: completed
    hint: it does not fail: without `--on failed` its outputs are compared with those of the good end
    ");
}

#[test]
fn a_search_for_bits_is_refused_where_they_are_the_same() {
    insta::assert_snapshot!(refusal_on(&wrong_and_right_again(), 1, 4, "bits"), @"
    refused: [C4] was said to be bad: identical
    hint: its bits are those of the good end: capture inputs on which they differ
    ");
}

#[test]
fn one_revision_for_both_ends_is_refused() {
    insta::assert_snapshot!(refusal(&wrong_and_right_again(), 1, 1), @"
    refused: [C1] is at both ends
    hint: name two revisions
    ");
}

#[test]
fn a_good_end_that_fails_is_refused() {
    let history = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT]);
    insta::assert_snapshot!(refusal(&history, 0, 1), @"
    refused: [C0] was said to be good, and shows something else than the bad end: failed: aborted in host code: the code called abort()
    hint: name a good end that completes; the first commit at which it does is shown by `replay log`
    ");
    insta::assert_snapshot!(refusal_on(&history, 0, 1, "failed"), @"
    refused: [C1] was said to be bad: completed
    hint: the good end fails, and the bad one does not: swap --good and --bad
    ");
}

#[test]
fn a_good_end_that_fails_beside_a_bad_one_that_cannot_be_tested_is_refused() {
    let history = history(TestEnv::new(), &[(RIGHT.0, "abort();"), BROKEN]);
    insta::assert_snapshot!(refusal(&history, 0, 1), @"
    refused: [C0] was said to be good: failed: aborted in host code: the code called abort()
             [C1] is neither good nor bad: untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
    hint: name a good end that completes; the first commit at which it does is shown by `replay log`
    ");
}

#[test]
fn of_ends_that_nobody_called_good_or_bad_nothing_of_the_kind_is_said() {
    let versions =
        [RIGHT, RIGHT, (RIGHT.0, "abort();"), (RIGHT.0, "abort( );"), (RIGHT.0, "exit(3);")];
    let (env, ids) = history(TestEnv::new(), &versions);
    let refusals = [(0, 1), (1, 1), (2, 3), (2, 4)].map(|(old, new)| {
        let run = env.replay(&["bisect", "fixtures/tiny", "--old", &ids[old], "--new", &ids[new]]);
        assert_eq!(run.code, Some(1), "{}", run.text());
        masked(&run.stdout, &ids)
    });
    insta::assert_snapshot!(refusals.join("\n"), @"
    refused: [C1] is no worse than the other end: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race

    refused: [C1] is at both ends
    hint: name two revisions

    refused: [C2] shows the same as the other end: failed: aborted in host code: the code called abort()
    hint: name an end that does not show it

    refused: [C2] shows something else than the other end: failed: aborted in host code: the code called abort()
    hint: name ends that complete; `replay log` shows the first commit that does
    ");
}

#[test]
fn a_bad_end_that_fails_in_another_way_each_time_is_the_defect() {
    let failures = "struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
        switch (now.tv_nsec / 1000 % 5) {
            case 0: abort();
            case 1: exit(3);
            case 2: k<<<1, 4096>>>(x, y); return;
            case 3: *(volatile int*)nullptr = 1;
            default: return;
        }";
    let (env, ids) = history(isolated(), &[RIGHT, (RIGHT.0, failures)]);
    for words in ["bisect fixtures/tiny --good main~1 --bad main", "blame fixtures/tiny main"] {
        let run = env.replay(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, Some(0), "{}", run.text());
        let answer = masked(&run.stdout, &ids);
        assert!(answer.contains("[C1] is the first bad commit: c1"), "{answer}");
        let hunks = "its verdicts are not always the same: its hunks are not told apart";
        assert_eq!(answer.contains(hunks), words.starts_with("blame"), "{answer}");
    }
}

#[test]
fn a_range_without_commits_and_one_that_begins_with_a_failure_are_told() {
    let (env, ids) = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT, WRONG]);
    let log = |range: &str| {
        let mut text = env.replay(&["log", "fixtures/tiny", range]).stdout;
        for (number, id) in ids.iter().enumerate() {
            text = text.replace(&id[..7], &format!("[C{number}]"));
        }
        text
    };
    insta::assert_snapshot!(log("main..main"), @"the range has no commits");
    insta::assert_snapshot!(log("main~2..main"), @"
    [C1] c1
      completes, where [C0] failed: aborted in host code: the code called abort()
      launch new:  k<<<1, 4>>>
      against [C0]

    [C2] c2
      diverged: y (the mathematics changed)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C1]

    2 changes at 2 commits of 2 commits, 3 variants replayed
    ");
}
