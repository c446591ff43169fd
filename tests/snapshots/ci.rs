//! In CI a snapshot that is not there is no success, whoever took it away.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::env::{Run, TestEnv};
use crate::common::schema;

const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * 1.5f;
}
";

/// A project whose snapshot is accepted, and whose kernel is wrong since.
fn project() -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    let unseen = env.finish(env.command(&["fixtures/tiny"]).env("REPLAY_UPDATE", "unseen"));
    assert_eq!(unseen.code, Some(0), "{}", unseen.text());
    env.repo.write("k.cu", KERNEL.replace("1.5f", "1.6f"));
    env
}

fn snap(env: &TestEnv) -> PathBuf {
    env.path("snapshots/tiny.cpu.snap")
}

fn in_ci(env: &TestEnv, arguments: &[&str]) -> Run {
    env.finish(env.command(arguments).env("CI", "true"))
}

/// The fixture says that it has a snapshot.
fn say_so(env: &TestEnv) {
    let text = "harness = \"../../replay.toml\"\nsnapshot = true\n";
    fs::write(env.path("fixtures/tiny/fixture.toml"), text).expect("a file");
}

#[test]
fn a_deleted_snapshot_does_not_turn_a_check_green() {
    let env = project();
    assert_eq!(in_ci(&env, &["fixtures/tiny"]).code, Some(1));
    fs::remove_file(snap(&env)).expect("a snapshot");
    let run = in_ci(&env, &["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split("unwritten 0").last().unwrap_or_default(), @"


    snapshot
      snapshots/tiny.cpu.snap  missing: there is no accepted snapshot, so nothing was compared

    missing: there is no accepted snapshot, so nothing was compared
    hint: replay it where CI is not set, accept the snapshot with `replay review`, and commit it
    ");
    assert_eq!(fs::read_dir(env.path("snapshots")).expect("a folder").count(), 0);
    let json = in_ci(&env, &["fixtures/tiny", "--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["verdict"], "missing");
    let junit = in_ci(&env, &["fixtures/tiny", "--format", "junit"]).stdout;
    assert!(junit.contains("type=\"missing\""), "{junit}");
    // Elsewhere it is new, and waits for review.
    assert_eq!(env.replay(&["fixtures/tiny"]).code, Some(0));
    assert!(env.path("snapshots/tiny.cpu.snap.new").exists());
}

#[test]
fn what_is_accepted_without_review_is_asked_for() {
    let env = project();
    fs::remove_file(snap(&env)).expect("a snapshot");
    for (word, code) in [("no", 125), ("auto", 125), ("new", 125), ("unseen", 0), ("unseen", 0)] {
        let mut command = env.command(&["fixtures/tiny"]);
        let run = env.finish(command.env("CI", "true").env("REPLAY_UPDATE", word));
        assert_eq!(run.code, Some(code), "{word}: {}", run.text());
    }
    assert!(snap(&env).exists());
}

#[test]
fn a_fixture_that_says_it_has_a_snapshot_misses_it_without_any_folder() {
    let env = project();
    fs::remove_dir_all(env.path("snapshots")).expect("a folder");
    // Nobody has said that there are snapshots.
    assert_eq!(in_ci(&env, &["fixtures/tiny"]).code, Some(0));
    say_so(&env);
    assert_eq!(in_ci(&env, &["fixtures/tiny"]).code, Some(125));
    assert!(!env.path("snapshots").exists());
    assert_eq!(env.replay(&["fixtures/tiny"]).code, Some(0));
    assert!(env.path("snapshots/tiny.cpu.snap.new").exists());
}

#[test]
fn a_folder_that_was_named_must_be_there() {
    let env = project();
    insta::assert_snapshot!(in_ci(&env, &["fixtures/tiny", "--snapshots", "snapshosts"]).text(), @"
    exit code 128
    --- stderr
    error: there is no folder of snapshots snapshosts
    hint: did you mean snapshots?
    ");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--snapshots", "elsewhere"]).text(), @"
    exit code 128
    --- stderr
    error: there is no folder of snapshots elsewhere
    hint: `REPLAY_UPDATE=new replay FIXTURE --snapshots DIR` makes one
    ");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--snapshots", "k.cu"]).text(), @"
    exit code 128
    --- stderr
    error: k.cu is no folder of snapshots
    hint: `REPLAY_UPDATE=new replay FIXTURE --snapshots DIR` makes one
    ");
    for command in ["accept", "review", "reject"] {
        let run = env.replay(&[command, "--snapshots", "snapshot"]);
        assert_eq!(run.code, Some(128), "{}", run.text());
        assert!(run.stderr.contains("did you mean snapshots?"), "{}", run.text());
    }
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "HEAD"];
    let run = env.replay(&[&words[..], &["--snapshots", "snapshot"]].concat());
    assert_eq!(run.code, Some(128), "{}", run.text());
    assert!(run.stderr.contains("did you mean snapshots?"), "{}", run.text());
}

#[test]
fn a_revision_is_compared_where_snapshots_are_named() {
    let env = project();
    env.repo.commit("Break it");
    assert_eq!(in_ci(&env, &["fixtures/tiny", "--rev", "HEAD"]).code, Some(0));
    let named = ["fixtures/tiny", "--rev", "HEAD", "--snapshots", "snapshots"];
    assert_eq!(in_ci(&env, &named).code, Some(1));
}
