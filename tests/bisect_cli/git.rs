//! Together with the real git: its `bisect run` on a checkout, and its reading of our log.

use std::process::Command;

use crate::env::TestEnv;
use crate::{RIGHT, history};

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
fn a_search_leaves_the_checkout_alone() {
    let (env, _) = eight();
    env.repo.write("k.cu", "work in progress\n");
    let state = || git(&env, &["status", "--porcelain=v2", "--branch"]);
    let before = state();
    env.replay(&["bisect", "fixtures/tiny", "--good", "main~7", "--bad", "main"]);
    assert_eq!(state(), before);
}
