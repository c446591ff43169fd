//! Together with the real git: its `bisect run` on a checkout, and its reading of our log.

use std::process::Command;

use crate::bisect_cli::{RIGHT, WRONG, history};
use crate::common::env::TestEnv;

/// Eight commits; from c5 on the kernel forgets the last element.
fn eight() -> (TestEnv, Vec<String>) {
    let bad = (RIGHT.0, "n -= 1;");
    history(TestEnv::new(), &[RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, bad, bad, bad])
}

fn git(env: &TestEnv, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments);
    env.settle(&mut command);
    let output = command.output().expect("git runs");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn objects_that_git_replaces_are_told_by_every_command_that_reads_the_history() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, WRONG]);
    env.repo.git(&["replace", "--graft", "main~1"]);
    let range = format!("{}..{}", ids[0], ids[2]);
    let mut said = std::collections::BTreeSet::new();
    for words in [
        ["fixtures/tiny", "--rev", &ids[2]].as_slice(),
        &["diff", "fixtures/tiny", &ids[0], &ids[2]],
        &["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[2]],
        &["log", "fixtures/tiny", &range],
        &["doctor"],
    ] {
        let run = env.replay(words);
        let streams = [run.stdout, run.stderr].concat();
        let told: Vec<&str> =
            streams.lines().filter(|line| line.contains("refs/replace")).collect();
        assert!(!told.is_empty(), "{words:?}: {streams}");
        said.extend(told.into_iter().map(str::to_owned));
    }
    insta::assert_snapshot!(said.into_iter().collect::<Vec<_>>().join("\n"), @"
                          git for-each-ref refs/replace lists them
    [ROOT] replaces 1 object (refs/replace): replay reads what was recorded, as `git --no-replace-objects` does
    ok      history       [ROOT] replaces 1 object (refs/replace): replay reads what was recorded, as `git --no-replace-objects` does
    ");
}

#[test]
fn git_bisect_run_replay_finds_the_commit_on_a_checkout() {
    let (env, ids) = eight();
    git(&env, &["bisect", "start", "main", "main~7"]);
    let program = env!("CARGO_BIN_EXE_replay");
    let said = git(&env, &["bisect", "run", program, "fixtures/tiny"]);
    assert!(said.contains(&format!("{} is the first bad commit", ids[5])), "{said}");
}

#[test]
fn git_reads_our_log_and_comes_to_the_same_commit() {
    let (env, ids) = eight();
    let ends = ["--good", "main~7", "--bad", "main", "--log", "search.log"];
    let run = env.replay(&[&["bisect", "fixtures/tiny"], ends.as_slice()].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with(&ids[5][..7]), "{}", run.text());
    let said = git(&env, &["bisect", "replay", "search.log"]);
    assert!(said.contains(&format!("{} is the first bad commit", ids[5])), "{said}");
}

#[test]
fn a_log_takes_the_place_of_another_log_and_of_nothing_else() {
    let (env, _) = eight();
    let search = |log: &str| {
        let ends = ["--good", "main~7", "--bad", "main", "--log", log];
        env.replay(&[&["bisect", "fixtures/tiny"], ends.as_slice()].concat())
    };
    assert_eq!(search("search.log").code, Some(0));
    let first = std::fs::read_to_string(env.path("search.log")).unwrap();
    let last = first.lines().last().unwrap();
    std::fs::write(env.path("search.log"), first.replace("c5", "other")).unwrap();
    assert_eq!(search("search.log").code, Some(0));
    let second = std::fs::read_to_string(env.path("search.log")).unwrap();
    assert!(second.trim_end().ends_with(last), "{second}");

    let source = std::fs::read(env.path("k.cu")).unwrap();
    std::fs::create_dir(env.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(env.path("pipe")).status().unwrap().success());
    let told: Vec<String> =
        ["k.cu", "folder", "no/such.log", "pipe"].map(|log| search(log).text()).into();
    insta::assert_snapshot!(told.join(""), @"
    exit code 128
    --- stderr
    error: k.cu is no log of replay and is left as it is
    hint: name another file with --log
    exit code 128
    --- stderr
    error: cannot write the log to folder
    caused by: it is a folder, not a file
    exit code 128
    --- stderr
    error: there is no folder no for the log
    hint: make it, or name another file with --log
    exit code 128
    --- stderr
    error: nobody reads the pipe pipe
    ");
    assert_eq!(std::fs::read(env.path("k.cu")).unwrap(), source);
    let stream = search("/dev/stderr");
    assert!(stream.stderr.trim_end().ends_with(last), "{}", stream.text());
}

#[test]
fn a_log_that_cannot_be_written_takes_no_answer_with_it() {
    let (env, ids) = eight();
    let run = env.replay(&[
        "bisect",
        "fixtures/tiny",
        "--good",
        "main~7",
        "--bad",
        "main",
        "--log",
        "/dev/full",
    ]);
    assert!(run.stdout.starts_with(&ids[5][..7]), "{}", run.text());
    assert_eq!(run.code, Some(128));
    assert!(run.stderr.ends_with("caused by: No space left on device (os error 28)\n"));
}

#[test]
fn a_search_leaves_the_checkout_alone() {
    let (env, _) = eight();
    env.repo.write("k.cu", "work in progress\n");
    let state = || git(&env, &["status", "--porcelain=v2", "--branch"]);
    let before = state();
    env.replay(&["bisect", "fixtures/tiny", "--good", "main~7", "--bad", "main"]);
    assert_eq!(state(), before);
}
