//! The workflows for pull requests: their own steps, run in a shell, with a server that only listens.

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

/// Stands in for GitHub's program: keeps what it was asked, knows the pull requests in `pulls` and the comments in
/// `comments`.
const GH: &str = "\
#!/bin/sh
echo \"$*\" >> \"$RUNNER_TEMP/asked\"
case \"$*\" in *--paginate*) cat \"$RUNNER_TEMP/comments\" ;; *' GET '*) cat \"$RUNNER_TEMP/pulls\" ;; esac
";

fn read_workflow(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    fs::read_to_string(path).expect("the workflow")
}

/// The shell script of the step `name`, of either workflow.
fn script(name: &str) -> String {
    let workflows = read_workflow("github-workflow.yml") + &read_workflow("github-comment.yml");
    let step = workflows.split("      - name: ").find(|step| step.lines().next() == Some(name));
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
    fs::create_dir_all(runner.join("replay")).expect("a folder");
    fs::write(runner.join("gh"), GH).expect("a file");
    fs::set_permissions(runner.join("gh"), fs::Permissions::from_mode(0o755)).expect("a program");
    fs::write(runner.join("comments"), "").expect("a file");
    fs::write(runner.join("pulls"), "7\n").expect("a file");
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
        .env("REPOSITORY", "o/r")
        .env("HEAD", "stranger:patch")
        .env("RUN", "https://server/o/r/runs/1")
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
    assert!(runner_file(&env, "replay/replay.xml").contains("failures=\"1\""));
    assert!(!env.path("snapshots/tiny.cpu.snap.new").exists());

    let run = step(&env, "Report what changed", &[("BASE", base.trim())]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    for file in ["replay/comment.md", "summary.md"] {
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
    assert!(runner_file(&env, "replay/replay.xml").contains("failures=\"0\""));
}

#[test]
fn the_comment_is_made_once_and_then_updated_in_place() {
    let env = pull_request("1.6f");
    step(&env, "Report what changed", &[("BASE", "HEAD")]);
    assert_eq!(step(&env, "Update the comment", &[]).code, Some(0));
    fs::write(env.repo.beside("runner").join("comments"), "42\n43\n").expect("a file");
    assert_eq!(step(&env, "Update the comment", &[]).code, Some(0));
    let asked = runner_file(&env, "asked");
    let body = env.repo.beside("runner").join("body.md");
    let asked = asked.replace(body.to_str().expect("UTF-8"), "[BODY]");
    insta::assert_snapshot!(asked, @r#"
    api --method GET repos/o/r/pulls --raw-field state=open --raw-field head=stranger:patch --jq .[0].number // empty
    api --paginate repos/o/r/issues/7/comments --jq .[] | select(.user.type == "Bot" and (.body | startswith("<!-- replay -->"))) | .id
    api --method POST repos/o/r/issues/7/comments --field body=@[BODY]
    api --method GET repos/o/r/pulls --raw-field state=open --raw-field head=stranger:patch --jq .[0].number // empty
    api --paginate repos/o/r/issues/7/comments --jq .[] | select(.user.type == "Bot" and (.body | startswith("<!-- replay -->"))) | .id
    api --method PATCH repos/o/r/issues/comments/42 --field body=@[BODY]
    "#);
    let body = runner_file(&env, "body.md");
    assert!(body.starts_with("<!-- replay -->\n## replay: 1 diverged"), "{body}");
    assert!(body.ends_with("(https://server/o/r/runs/1#artifacts)\n"), "{body}");
}

#[test]
fn a_comment_of_anybody_else_is_not_published() {
    let env = pull_request("1.6f");
    let report = env.repo.beside("runner").join("replay/comment.md");
    let secret = env.repo.beside("runner").join("secret");
    fs::write(&secret, "<!-- replay -->\n").expect("a file");
    std::os::unix::fs::symlink(&secret, &report).expect("a link");
    let linked = step(&env, "Update the comment", &[]);
    fs::remove_file(&report).expect("a file");
    fs::write(&report, "free money\n").expect("a file");
    let forged = step(&env, "Update the comment", &[]);
    for run in [linked, forged] {
        assert_eq!(run.code, Some(1), "{}", run.text());
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.stderr, @"there is no comment of replay among the reports");
        }
    }
    assert!(!env.repo.beside("runner").join("asked").exists());
}

#[test]
fn code_of_a_pull_request_runs_without_a_token_and_leaves_nothing_for_other_runs() {
    let workflow = read_workflow("github-workflow.yml");
    assert!(workflow.contains("permissions:\n  contents: read\n\n"));
    assert!(workflow.contains("persist-credentials: false"));
    assert!(!workflow.contains("github.token") && !workflow.contains("secrets."));
    let (_, save) = workflow.split_once("Keep replay and compiled kernels for").expect("a step");
    assert!(save.lines().nth(1).expect("a line").ends_with("if: github.event_name == 'push'"));
    assert_eq!(workflow.matches("actions/cache/save").count(), 1);
    // Who may write checks nothing out.
    let comment = read_workflow("github-comment.yml");
    assert!(!comment.contains("actions/checkout") && !comment.contains("replay fixtures"));
}

#[test]
fn nothing_is_installed_before_somebody_says_from_where() {
    let env = pull_request("1.5f");
    let run = step(&env, "Install replay", &[("REPLAY_GIT", "")]);
    assert_ne!(run.code, Some(0));
    insta::assert_snapshot!(run.stderr, @"bash: line 1: REPLAY_GIT: set the variable REPLAY_GIT to the URL of the repository of replay");
    let run = step(&env, "Install replay", &[("REPLAY_GIT", "a"), ("REPLAY_REV", "")]);
    assert_ne!(run.code, Some(0));
    insta::assert_snapshot!(run.stderr, @"bash: line 2: REPLAY_REV: set the variable REPLAY_REV to a commit of replay");
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
