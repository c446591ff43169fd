//! A project with one kernel and one fixture, whose snapshot the tests compare, damage and review.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::env::{Run, TestEnv};

/// The kernel of the project, as it was accepted.
pub const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * 1.5f + 0.1f;
    }
}
";

/// A statement for [`rewrite`]: the same mathematics, rounded elsewhere.
pub const BENIGN: &str = "y[i] = (x[i] + 0.1f / 1.5f) * 1.5f;";
/// A statement that computes something else.
pub const DEFECT: &str = "y[i] = x[i] * 1.5f + 0.1001f;";
/// The statement of [`KERNEL`].
pub const ORIGINAL: &str = "y[i] = x[i] * 1.5f + 0.1f;";

/// A project with a folder for snapshots, and none in it.
pub fn project() -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    fs::create_dir(env.path("snapshots")).expect("a folder");
    env
}

/// A project whose snapshot is accepted.
pub fn accepted() -> TestEnv {
    let env = project();
    replay(&env);
    let run = env.replay(&["accept"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    env
}

/// Replays the working tree.
pub fn replay(env: &TestEnv) -> Run {
    env.replay(&["fixtures/tiny"])
}

/// The same with environment variables.
pub fn replay_with(env: &TestEnv, variables: &[(&str, &str)]) -> Run {
    env.finish(env.command(&["fixtures/tiny"]).envs(variables.iter().copied()))
}

/// Replaces the statement of the kernel.
pub fn rewrite(env: &TestEnv, statement: &str) {
    env.repo.write("k.cu", KERNEL.replace(ORIGINAL, statement));
}

/// The accepted snapshot.
pub fn snap(env: &TestEnv) -> PathBuf {
    env.path("snapshots/tiny.cpu.snap")
}

/// The pending snapshot.
pub fn pending(env: &TestEnv) -> PathBuf {
    env.path("snapshots/tiny.cpu.snap.new")
}

/// The content of a file.
pub fn text(path: PathBuf) -> String {
    fs::read_to_string(path).expect("a file")
}

/// Runs `replay review` with `answers` on standard input.
pub fn review(env: &TestEnv, answers: &str) -> Run {
    let mut command = env.command(&["review"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    child.stdin.take().unwrap().write_all(answers.as_bytes()).expect("answers are read");
    env.read(&child.wait_with_output().expect("the program ends"))
}
