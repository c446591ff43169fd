//! The workflow for pull requests: its own steps, run in a shell, with a server that only listens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::env::{Run, TestEnv};

const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * 1.5f;
}
";

/// Stands in for GitHub's program: keeps what it was asked, knows the comments in `comments`.
const GH: &str = "\
#!/bin/sh
echo \"$*\" >> \"$RUNNER_TEMP/asked\"
case \"$*\" in *--paginate*) cat \"$RUNNER_TEMP/comments\" ;; esac
";

fn workflow() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/github-workflow.yml");
    fs::read_to_string(path).expect("the workflow")
}

/// The shell script of the step `name`.
fn script(name: &str) -> String {
    let workflow = workflow();
    let step = workflow.split("      - name: ").find(|step| step.lines().next() == Some(name));
    let (_, run) = step.expect("a step").split_once("        run: ").expect("a script");
    match run.strip_prefix("|\n") {
        None => run.lines().next().expect("a line").to_owned(),
        Some(block) => {
            let lines = block.lines().map_while(|line| line.strip_prefix("          "));
            lines.map(|line| line.to_owned() + "\n").collect()
        }
    }
}

/// A pull request that changes the kernel to `now`, its base having been accepted.
fn pull_request(now: &str) -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    env.finish(env.command(&["fixtures/tiny"]).env("REPLAY_UPDATE", "unseen"));
    env.repo.commit("Accept");
    env.repo.write("k.cu", KERNEL.replace("1.5f", now));
    let runner = env.repo.beside("runner");
    fs::create_dir_all(&runner).expect("a folder");
    fs::write(runner.join("gh"), GH).expect("a file");
    fs::set_permissions(runner.join("gh"), fs::Permissions::from_mode(0o755)).expect("a program");
    fs::write(runner.join("comments"), "").expect("a file");
    env
}

/// Runs the step `name` as a server does.
fn step(env: &TestEnv, name: &str, variables: &[(&str, &str)]) -> Run {
    let runner = env.repo.beside("runner");
    let program = Path::new(env!("CARGO_BIN_EXE_replay")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.arg("-ec").arg(script(name));
    env.settle(&mut command);
    command
        .env("CI", "true")
        .env("PATH", format!("{}:{}:{path}", runner.display(), program.display()))
        .env("RUNNER_TEMP", &runner)
        .env("GITHUB_OUTPUT", runner.join("output"))
        .env("GITHUB_PATH", runner.join("path"))
        .env("GITHUB_STEP_SUMMARY", runner.join("summary.md"))
        .env("COMMENTS", "repos/o/r/issues/7/comments")
        .env("COMMENT", "repos/o/r/issues/comments")
        .envs(variables.iter().copied());
    env.finish(&mut command)
}

fn runner_file(env: &TestEnv, name: &str) -> String {
    fs::read_to_string(env.repo.beside("runner").join(name)).expect("a file")
}

#[test]
fn a_change_fails_the_check_and_is_told_in_a_comment_and_a_summary() {
    let env = pull_request("1.6f");
    let base = env.repo.git(&["rev-parse", "HEAD"]);
    let run = step(&env, "Compare with the accepted snapshots", &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert_eq!(runner_file(&env, "output"), "code=1\n");
    assert!(runner_file(&env, "replay.xml").contains("failures=\"1\""));
    assert!(!env.path("snapshots/tiny.cpu.snap.new").exists());

    let run = step(&env, "Report what changed", &[("BASE", base.trim())]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    for file in ["comment.md", "summary.md"] {
        let text = runner_file(&env, file);
        assert!(text.contains("## replay: 1 diverged"), "{text}");
        assert!(text.contains("| tiny | y | diverged |"), "{text}");
    }
    let last = script("Fail where something diverged, failed or could not be tested");
    assert_eq!(last, "exit \"${{ steps.snapshots.outputs.code }}\"");
}

#[test]
fn what_did_not_change_passes() {
    let env = pull_request("1.5f");
    step(&env, "Compare with the accepted snapshots", &[]);
    assert_eq!(runner_file(&env, "output"), "code=0\n");
    assert!(runner_file(&env, "replay.xml").contains("failures=\"0\""));
}

#[test]
fn the_comment_is_made_once_and_then_updated_in_place() {
    let env = pull_request("1.6f");
    step(&env, "Report what changed", &[("BASE", "HEAD")]);
    // It is found by how it begins.
    let update = script("Update the comment");
    let (_, begins) = update.split_once("startswith(\"").expect("a filter");
    let (mark, _) = begins.split_once("\")").expect("a mark");
    assert!(runner_file(&env, "comment.md").starts_with(mark));

    assert_eq!(step(&env, "Update the comment", &[]).code, Some(0));
    fs::write(env.repo.beside("runner").join("comments"), "42\n43\n").expect("a file");
    assert_eq!(step(&env, "Update the comment", &[]).code, Some(0));
    let asked = runner_file(&env, "asked");
    let asked: Vec<&str> = asked.lines().filter(|line| line.contains("--method")).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].starts_with("api --method POST repos/o/r/issues/7/comments --field body=@"));
    assert!(asked[1].starts_with("api --method PATCH repos/o/r/issues/comments/42 --field body=@"));
}

#[test]
fn nothing_is_installed_before_somebody_says_from_where() {
    let env = pull_request("1.5f");
    let run = step(&env, "Install replay", &[("REPLAY_GIT", "")]);
    assert_ne!(run.code, Some(0));
    insta::assert_snapshot!(run.stderr, @"bash: line 1: REPLAY_GIT: set the variable REPLAY_GIT to the URL of the repository of replay");
}

#[test]
fn who_takes_the_snapshots_away_does_not_turn_the_check_green() {
    let env = pull_request("1.6f");
    fs::remove_file(env.path("snapshots/tiny.cpu.snap")).expect("a snapshot");
    step(&env, "Compare with the accepted snapshots", &[]);
    assert_eq!(runner_file(&env, "output"), "code=125\n");
    fs::remove_dir(env.path("snapshots")).expect("a folder");
    fs::write(env.repo.beside("runner").join("output"), "").expect("a file");
    step(&env, "Compare with the accepted snapshots", &[]);
    assert_eq!(runner_file(&env, "output"), "code=128\n");
}
