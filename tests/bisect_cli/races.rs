//! Searches for races that move no number in any order, by what checked replays find.

use serde_json::Value;

use crate::bisect_cli::{committed, masked, search};
use crate::common::env::TestEnv;

/// A sum over the block. Plain adds lose nothing on a CPU, whose threads run one after the other.
fn sum(add: &str, note: &str) -> String {
    format!(
        "\
__global__ void total(const float* x, float* y, int n)
{{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    if (threadIdx.x < n) {add};
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] / sum;
}}
// {note}
"
    )
}

const ATOMIC: &str = "atomicAdd(&sum, x[threadIdx.x])";
const PLAIN: &str = "sum += x[threadIdx.x]";
const CALL: &str = "total<<<1, 32>>>(x, y, n);";

/// Each of `adds` in a commit of its own; in the order of the indices all of them have the same bits.
fn adds(env: TestEnv, adds: &[&str]) -> (TestEnv, Vec<String>) {
    let text = |(number, add): (usize, &&str)| sum(add, &format!("{number}"));
    committed(env, CALL, &adds.iter().enumerate().map(text).collect::<Vec<_>>())
}

#[test]
fn a_plain_sum_that_was_atomic_is_found_by_its_race() {
    let (env, ids) = adds(crate::bisect_cli::isolated(), &[ATOMIC, ATOMIC, ATOMIC, PLAIN, PLAIN]);
    let run = search(&env, "--good main~4 --bad main --on race --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let (told, diff) = run.stdout.split_once("\n\n").expect("a diff");
    insta::assert_snapshot!(masked(told, &ids), @"
    [C3] is the first bad commit: c3
      race on shared memory sum
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)
      [C2], its parent, was tested: completed, without a new race
      [C1] was tested: completed, without a new race (c1)
    ");
    assert!(diff.contains("+    if (threadIdx.x < n) sum += x[threadIdx.x];"), "{diff}");
    insta::assert_snapshot!(masked(&run.stderr, &ids), @"
    4 of 4 commits change a kernel, 1 tested at a time
    [C0] good: completed, without a new race
    [C4] bad: race on shared memory sum
    [C2] good: completed, without a new race
    [C3] bad: race on shared memory sum
    [C1] good: completed, without a new race
    ");
    // A second search replays and compiles nothing.
    let made =
        |env: &TestEnv| ["outcomes", "judgements", "artifacts"].map(|kind| env.cached(kind).len());
    let before = made(&env);
    assert_eq!(search(&env, "--good main~4 --bad main --on race --jobs 1").stdout, run.stdout);
    assert_eq!(made(&env), before);
    let markdown = search(&env, "--good main~4 --bad main --on race --format markdown");
    assert!(
        markdown.stdout.contains("race on 4 bytes at byte 0 of shared memory sum"),
        "{}",
        markdown.stdout
    );

    let events = search(&env, "--good main~4 --bad main --on race --format json").stdout;
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let wanted = serde_json::json!([{
        "symptom": "access", "fixture": "tiny", "finding": "race", "memory": "shared memory sum"
    }]);
    assert_eq!(last["wanted"], wanted);
    assert_eq!(last["culprit"]["commit"]["id"], ids[3].as_str());
    assert_eq!(last["culprit"]["fixtures"][0]["symptoms"], wanted);
    assert_eq!(last["culprit"]["accesses"][0]["accesses"]["findings"][0]["kind"], "race");
}

#[test]
fn a_race_of_the_good_end_is_passed_over_wherever_its_lines_and_kernels_go() {
    // All of them hand a value over without a barrier; c2 begins to read what nobody wrote.
    let share = |written: &str, note: &str| {
        let text = sum(PLAIN, note).replace("sum = 0.0f;", written);
        format!("{}{text}", "// moved\n".repeat(note.len()))
    };
    let zero = "sum = 0.0f;";
    let versions = [share(zero, "0"), share(zero, "one"), share(";", "three"), share(";", "3")];
    let (env, ids) = committed(TestEnv::new(), CALL, &versions);
    let run = search(&env, "--good main~3 --bad main --on race");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let told = run.stdout.split_once("\n\n").expect("a diff").0;
    insta::assert_snapshot!(masked(told, &ids), @"
    [C2] is the first bad commit: c2
      failed: depends on unwritten memory: 4 of 4 elements of y, first at [0]
      nobody has written 4 bytes at byte 0 of shared memory sum: k.cu:11 reads in total, block (0, 0, 0), thread (0, 0, 0)
      on both sides: race on 4 bytes at byte 0 of shared memory sum: k.cu:11 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:11 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      on both sides: race on 4 bytes at byte 0 of shared memory sum: k.cu:11 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:11 writes in total, block (0, 0, 0), thread (1, 0, 0)
      note: the same value is written by several to 4 bytes at byte 0 of shared memory sum: k.cu:11 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:11 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)
      [C1], its parent, was tested: completed, without a new race
    ");
    let run = search(&env, "--good main~3 --bad main~2 --on race");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: completed, without a new race; race on shared memory sum, as at the good end
    hint: the good end has the same race or lacks the same barrier: name a good end that does not
    ");
}

#[test]
fn a_bad_end_whose_accesses_are_in_order_is_refused() {
    let (env, ids) = adds(TestEnv::new(), &[ATOMIC, ATOMIC]);
    let run = search(&env, "--good main~1 --bad main --on race");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: completed, without a new race
    hint: its accesses to memory are in order: capture inputs on which the race shows
    ");
    let run = search(&env, "--good main~1 --bad main --on race --check off");
    assert_eq!(run.code, Some(128), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"
    error: --on race checks accesses to memory, and --check=off does not
    hint: leave --check out
    ");
}

#[test]
fn a_race_that_moves_no_number_is_told_where_a_search_for_values_is_refused() {
    let (env, ids) = adds(TestEnv::new(), &[ATOMIC, PLAIN]);
    let run = search(&env, "--good main~1 --bad main");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: identical
    hint: a check of the bad end finds race on shared memory sum: --on race names the commit
    ");
    let run = search(&env, "--good main~1 --bad main --check off");
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race
    ");
}

#[test]
fn a_comparison_names_the_commit_that_made_a_race() {
    let (env, ids) = adds(TestEnv::new(), &[ATOMIC, ATOMIC, PLAIN, PLAIN]);
    let words = ["fixtures/tiny", "--rev", "main", "--against", "main~3", "--culprit"];
    let run = env.replay(&words);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let told = masked(&run.stdout, &ids);
    assert!(told.contains("[C2] is the first bad commit: c2"), "{told}");
}

#[test]
fn the_log_marks_where_a_race_begins_and_where_it_ends() {
    let (env, ids) = adds(TestEnv::new(), &[ATOMIC, PLAIN, PLAIN, ATOMIC]);
    let log =
        |words: &[&str]| env.replay(&[&["log", "fixtures/tiny", "main~3..main"], words].concat());
    let run = log(&["--check", "always"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C1] c1
      failed: race on shared memory sum
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)
      against [C0]

    [C3] c3
      repaired: identical to [C0], as before [C1]
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0)
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)
      against [C2]

    changed sources and no output:
      [C2] c2

    2 changes at 2 commits of 3 commits, 4 variants replayed
    ");
    let told: Value =
        serde_json::from_str(&log(&["--check", "auto", "--format", "json"]).stdout).unwrap();
    assert_eq!(told["changes"][0]["verdict"], "failed");
    assert_eq!(told["changes"][0]["accesses"]["findings"][0]["known"], false);
    assert_eq!(told["changes"][1]["accesses"]["gone"][0]["finding"]["kind"], "race");
    assert_eq!(told["variants_not_checked"], 0);
    assert_eq!(told["races_looked_for"], true);
    let unchecked = log(&[]).stdout;
    insta::assert_snapshot!(masked(&unchecked, &ids), @"
    changed sources and no output:
      [C1] c1
      [C2] c2
      [C3] c3

    races were not looked for: `--check auto` looks for them
    0 changes at 0 commits of 3 commits, 4 variants replayed
    ");
    let told: Value = serde_json::from_str(&log(&["--format", "json"]).stdout).unwrap();
    assert_eq!(told["races_looked_for"], false);
}

#[test]
fn a_comparison_of_two_revisions_tells_what_is_new_and_what_is_gone() {
    let (env, ids) = adds(TestEnv::new(), &[ATOMIC, PLAIN]);
    let diff = |from: &str, to: &str, words: &[&str]| {
        env.replay(&[&["diff", "fixtures/tiny", from, to], words].concat())
    };
    let new = diff("main~1", "main", &[]);
    assert_eq!(new.code, Some(1), "{}", new.text());
    insta::assert_snapshot!(masked(&new.stdout, &ids), @"
    tiny at [C0] A kernel
    tiny at [C1] c1

    outputs
      y  identical

    accesses
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0)
      race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)

    failed: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
    ");
    let gone = diff("main", "main~1", &[]);
    assert_eq!(gone.code, Some(0), "{}", gone.text());
    insta::assert_snapshot!(masked(&gone.stdout, &ids), @"
    tiny at [C1] c1
    tiny at [C0] A kernel

    outputs
      y  identical

    accesses
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in total, block (0, 0, 0), thread (1, 0, 0) (3 times)
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in total, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0)
      no longer: race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in total, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in total, block (0, 0, 0), thread (2, 0, 0) (2 times)

    identical: y
    ");
    let told: Value =
        serde_json::from_str(&diff("main~1", "main", &["--format", "json"]).stdout).unwrap();
    assert_eq!(told["diffs"][0]["verdict"], "failed");
    assert_eq!(told["diffs"][0]["accesses"]["findings"][0]["known"], false);
    assert_eq!(diff("main~1", "main", &["--check", "off"]).code, Some(0));
}
