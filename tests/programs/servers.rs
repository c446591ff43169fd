//! Programs that stay and copy themselves for each replay.

use std::fs;

use crate::common::env::TestEnv;
use crate::programs::GRADIENT;

/// With a program that stays, does what `behaviour` says, and notes each of its processes in a file.
fn serving(behaviour: &str, gradient: &str) -> TestEnv {
    let env = TestEnv::isolated();
    let log = env.repo.beside("log");
    let keys = format!(
        "program = [\"./speaker\"]\npreload = [\"a\", \"b\"]\n\
         env = {{ SPEAKER = \"{behaviour}\", SPEAKER_LOG = {log:?} }}"
    );
    env.with_program(&keys, gradient)
}

/// How many processes have said hello.
fn started(env: &TestEnv) -> usize {
    fs::read_to_string(env.repo.beside("log")).unwrap_or_default().lines().count()
}

#[test]
fn copies_of_one_process_make_all_replays() {
    let staying = serving("", GRADIENT);
    let alone = TestEnv::isolated();
    let alone = alone.with_program("program = [\"./speaker\"]", GRADIENT);
    let one = staying.replay_kernel("divide 3", &[]);
    let other = alone.replay_kernel("divide 3", &[]);
    assert_eq!(one.text(), other.text());
    let lanes = std::thread::available_parallelism().unwrap().get();
    assert!((1..=lanes).contains(&started(&staying)), "{} of {lanes}", started(&staying));
}

#[test]
fn a_copy_ends_as_a_program_of_its_own_does() {
    let env = serving("", "");
    for (words, code, told) in [
        ("exit 3", 1, "failed: exit: the program ended with exit status 3"),
        ("signal 6", 1, "failed: killed: signal 6 (SIGABRT)"),
        ("half", 1, "truncated"),
        ("fault revision", 125, "untestable: it says so"),
        ("fault environment", 128, "the program's environment: it says so"),
        ("exit 125\nsay last words", 125, "untestable: last words"),
        ("print 3000000", 0, "completed"),
        ("read", 0, "read nothing"),
        ("outside 1", 1, "reads outside its tensors"),
        ("signal 9", 128, "killed from outside"),
    ] {
        let run = env.replay_kernel(words, &[]);
        assert_eq!(run.code, Some(code), "{words}: {}", run.text());
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(all.contains(told), "{words}: {}", run.text());
    }
}

#[test]
fn a_copy_that_does_not_end_takes_its_process_along() {
    let env = serving("", "");
    let run = env.replay_kernel("hang", &["--timeout", "1"]);
    assert_eq!(run.last_line(), "failed: timeout: still running in the program after 1 s");
    for process in fs::read_to_string(env.repo.beside("log")).unwrap().lines() {
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "{process}");
    }
}

#[test]
fn what_a_copy_leaves_behind_ends_with_its_replay() {
    let env = serving("", "");
    let left = env.repo.beside("left");
    let run = env.replay_kernel(&format!("leave {}", left.display()), &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let process = fs::read_to_string(left).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{process}/stat")).exists(), "{process}");
}

#[test]
fn a_program_that_cannot_copy_itself_is_started_for_each_replay() {
    let env = serving("alone", "");
    let run = env.replay_kernel("divide 3", &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(started(&env) >= 2, "{}", started(&env));
    let failed = env.replay_kernel("exit 3", &[]);
    assert_eq!(failed.last_line(), "failed: exit: the program ended with exit status 3");
    let killed = env.replay_kernel("signal 11", &[]);
    assert_eq!(killed.last_line(), "failed: killed: signal 11 (SIGSEGV)");
}

#[test]
fn a_preload_that_fails_is_told_with_its_advice() {
    let told = |behaviour: &str| serving(behaviour, "").replay_kernel("divide 3", &[]).text();
    insta::assert_snapshot!(told("broken"), @"
    exit code 128
    --- stderr
    error: the program's environment: no module named nompy
    hint: pip install nompy
    ");
    insta::assert_snapshot!(told("dies"), @"
    exit code 128
    --- stderr
    error: the program that the harness names fails by itself: it ended with exit status 3 instead of answering
    hint: it lies beside replay.toml and is not of the revision: mend it there
    ");
}

#[test]
fn modules_that_take_longer_to_load_than_a_replay_may_are_no_mistake_of_the_program() {
    let run = serving("slow", "").replay_kernel("divide 3", &["--timeout", "0.2"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the program's environment: it was still loading a, b after 0.2 s (--timeout)
    hint: modules come from the disk at first, and slowly: replay it again, allow more with --timeout, or name fewer modules in `preload`
    ");
}

#[test]
fn a_copy_cannot_answer_the_requests_to_come() {
    let (text, processes, replays) = checked("forges", "", &[]);
    assert_eq!(text, checked("", "", &[]).0);
    // None failed, so that it had to be made alone.
    assert!(processes < 12 && replays > 16, "{processes} of {replays}");
}

/// What a gradient check says of a program that does what `words` say, and by how many processes how many
/// replays were made.
fn checked(behaviour: &str, words: &str, more: &[&str]) -> (String, usize, usize) {
    let env = serving(behaviour, GRADIENT);
    let trace = env.repo.beside("trace");
    env.kernel(&format!("divide 3\ntrace {}\n{words}", trace.display()));
    let text = env.replay(&[&["gradcheck", "fixtures/tiny"], more].concat()).text();
    let traced = fs::read_to_string(trace).unwrap();
    let mut processes: Vec<&str> = traced.lines().collect();
    let replays = processes.len();
    processes.sort_unstable();
    processes.dedup();
    (text, processes.len(), replays)
}

#[test]
fn replays_with_moved_inputs_share_a_process_and_give_the_same() {
    let (alone, processes, replays) = checked("simple", "", &[]);
    assert!(alone.contains("dx  matches d loss / d x"), "{alone}");
    assert_eq!(processes, replays);
    for behaviour in ["", "alone"] {
        let (shared, processes, replays) = checked(behaviour, "", &[]);
        assert_eq!(shared, alone);
        assert!(processes < 12 && replays > 16, "{processes} of {replays}");
    }
}

#[test]
fn nudged_inputs_share_a_process_unless_it_keeps_something_of_a_replay() {
    let nudged = |behaviour: &str, words: &str| {
        let env = serving(behaviour, "");
        let trace = env.repo.beside("trace");
        let words = format!("divide 3\nreset\nnative-alone\ntrace {}\n{words}", trace.display());
        let base = env.kernel(&words);
        let got = env.kernel(&format!("{words}\nscale 1.0000001"));
        let text = env.replay(&["diff", "fixtures/tiny", &base, &got]).text();
        let outputs = text.split_once("\n\noutputs").expect("a comparison").1.to_owned();
        let traced = fs::read_to_string(trace).unwrap();
        let mut processes: Vec<&str> = traced.lines().collect();
        let replays = processes.len();
        processes.sort_unstable();
        processes.dedup();
        (outputs, replays - processes.len())
    };
    let (alone, saved) = nudged("simple", "");
    assert_eq!(saved, 0);
    let (shared, saved) = nudged("", "");
    assert_eq!(shared, alone);
    // Of two revisions four nudges and a repetition each.
    assert!((1..=8).contains(&saved), "{saved}");
    let (counted, saved) = nudged("", "count");
    assert_eq!(counted, nudged("simple", "count").0);
    // Two more in each process that has shown it.
    assert!(saved <= 4, "{saved}");
}

#[test]
fn other_roundings_are_asked_for_no_more_once_the_framework_ignores_them() {
    let env = serving("", "");
    let asked = env.repo.beside("asked");
    let kernel =
        |scale: &str| env.kernel(&format!("divide 3\ndeaf {}\nscale {scale}", asked.display()));
    let good = kernel("1");
    for number in 1..6 {
        kernel(&format!("1.000000{number}"));
    }
    let bad = kernel("1.5");
    let found =
        env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"]);
    assert!(found.stdout.contains("first bad commit: Make it divide 3"), "{}", found.text());
    let asked = fs::read_to_string(asked).unwrap();
    // Both revisions of the first comparison, and a twin; five are compared.
    assert!(asked.lines().count() <= 12, "{asked}");
}

#[test]
fn a_program_that_keeps_something_of_a_replay_has_a_process_for_each() {
    let (alone, ..) = checked("simple", "", &[]);
    let (counted, processes, replays) = checked("", "count", &[]);
    assert_eq!(counted, alone);
    // Three show what it keeps.
    assert!(processes + 2 == replays, "{processes} of {replays}");
}

#[test]
fn what_ends_a_process_that_made_other_replays_is_tried_alone() {
    let (alone, ..) = checked("simple", "", &[]);
    for (words, more) in
        [("last 2", &[][..]), ("last 4", &[]), ("refuse 4", &[]), ("stuck 12", &["--timeout", "1"])]
    {
        let (text, processes, replays) = checked("", words, more);
        assert_eq!(text, alone, "{words}");
        assert!(processes < replays, "{words}: {processes} of {replays}");
    }
}

#[test]
fn a_search_loads_once_for_each_commit_that_is_tested_at_a_time() {
    let env = serving("", "");
    let good = env.kernel("divide 3");
    for number in 0..6 {
        env.kernel(&format!("divide 3\nsay {number}"));
    }
    env.kernel("divide 4");
    let bad = env.kernel("divide 4\nsay more");
    let found =
        env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"]);
    assert!(found.stdout.contains("is the first bad commit: Make it divide 4"), "{}", found.text());
    let lanes = std::thread::available_parallelism().unwrap().get();
    assert!(started(&env) <= lanes, "{}", started(&env));
}
