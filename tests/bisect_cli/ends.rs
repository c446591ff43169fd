//! Ends that allow no search are refused, with what was seen there and what to do.

use crate::env::TestEnv;
use crate::{BROKEN, RIGHT, WRONG, history};

/// A history in which c2 goes wrong and c4 is right again.
fn wrong_and_right_again() -> (TestEnv, Vec<String>) {
    history(TestEnv::new(), &[RIGHT, RIGHT, WRONG, WRONG, RIGHT, BROKEN])
}

fn refusal((env, ids): &(TestEnv, Vec<String>), good: usize, bad: usize) -> String {
    let ends = ["bisect", "fixtures/tiny", "--good", &ids[good], "--bad", &ids[bad]];
    let run = env.replay(&ends).without_compilers_words();
    assert_eq!(run.code, Some(1), "{}", run.text());
    let mut text = run.stdout;
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..7], &format!("[C{number}]"));
    }
    text
}

#[test]
fn reversed_ends_are_refused_without_a_test() {
    insta::assert_snapshot!(refusal(&wrong_and_right_again(), 3, 1), @r"
    refused: bad [C1] is an ancestor of good [C3]
    hint: swap --good and --bad, or see with `replay log` where the defect was fixed
    ");
}

#[test]
fn a_good_end_that_shows_what_the_bad_one_shows_is_refused() {
    let history = history(TestEnv::new(), &[(RIGHT.0, "abort();"), RIGHT, (RIGHT.0, "abort( );")]);
    insta::assert_snapshot!(refusal(&history, 0, 2), @r"
    refused: [C0] was said to be good: failed: aborted in host code: the code called abort(), or an exception was not caught
    hint: name a good commit that does not show what the bad one shows
    ");
}

#[test]
fn a_bad_end_that_is_like_the_good_one_is_refused() {
    insta::assert_snapshot!(refusal(&wrong_and_right_again(), 1, 4), @r"
    refused: [C4] was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows
    ");
}

#[test]
fn ends_with_the_same_sources_are_refused() {
    let (env, mut ids) = wrong_and_right_again();
    ids.push(env.repo.commit_file("README", "words\n", "Only words"));
    insta::assert_snapshot!(refusal(&(env, ids), 5, 6), @r"
    refused: good [C5] and bad [C6] have the same sources
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
fn a_bad_merge_base_is_refused() {
    let (env, mut ids) = history(TestEnv::new(), &[WRONG, WRONG]);
    env.repo.git(&["checkout", "-q", "-b", "fixed", "main~1"]);
    ids.push(env.repo.commit_file("k.cu", &crate::kernel(RIGHT.0, "", "fixed"), "Fix"));
    insta::assert_snapshot!(refusal(&(env, ids), 2, 1), @r"
    refused: [C0] is the common ancestor of the ends, and bad: y diverged
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
