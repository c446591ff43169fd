//! Code from strangers: what replayed code may reach. One kernel and one program try many ways out, and say which were
//! open.

use std::fs;
use std::process::Command;

use crate::common::env::{Run, TestEnv};

/// Host code of the kernel below, that prints what it finds.
const HEAD: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }
static void look_for_variables() {
  for (const char* name : {"PATH", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "CUDA_SECRET"})
    if (getenv(name)) printf("variable %s\n", name);
}
static void look_for_descriptors() {
  for (int file = 3; file < 4096; ++file)
    if (fcntl(file, F_GETFD) != -1) printf("descriptor %d\n", file);
  printf("looked\n");
}
"#;

/// The lines that the replayed code of the newest commit printed, where a descriptor of a file comes with the program.
fn printed_with_descriptor(env: &TestEnv) -> String {
    let inherited = env.repo.beside("inherited");
    let line = format!(
        "exec 7> '{}'; exec '{}' fixtures/tiny --rev HEAD",
        inherited.display(),
        env!("CARGO_BIN_EXE_replay")
    );
    let mut shell = Command::new("sh");
    env.settle(shell.args(["-c", &line]));
    let run = env.finish(&mut shell);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert_eq!(fs::read(&inherited).expect("a file"), b"");
    printed_lines(&run)
}

fn printed_lines(run: &Run) -> String {
    let (_, printed) = run.stdout.split_once("\nprinted\n").expect("it printed something");
    let (printed, _) = printed.split_once("\n\n").expect("an end");
    printed.lines().map(|line| line.trim_start_matches([' ', '|'])).collect::<Vec<_>>().join("\n")
}

#[test]
fn replayed_code_has_no_descriptors_but_its_own() {
    let call = "look_for_descriptors(); k<<<1, n>>>(x, y, n);";
    let env = TestEnv::with_own_replays().with_kernel(HEAD, call);
    assert_eq!(printed_with_descriptor(&env), "looked");
    for preload in ["", "preload = []"] {
        let keys = format!("program = [\"./speaker\"]\n{preload}");
        let env = TestEnv::isolated().with_program(&keys, "");
        env.kernel("look-for-descriptors");
        assert_eq!(printed_with_descriptor(&env), "looked", "{preload}");
    }
}

#[test]
fn replayed_code_sees_no_secrets_in_its_environment() {
    let printed = |env: &TestEnv| {
        let mut command = env.command(&["fixtures/tiny", "--rev", "HEAD"]);
        for name in ["GITHUB_TOKEN", "SSH_AUTH_SOCK", "CUDA_SECRET"] {
            command.env(name, "a secret");
        }
        let run = env.finish(&mut command);
        assert_eq!(run.code, Some(0), "{}", run.text());
        printed_lines(&run)
    };
    let call = "look_for_variables(); k<<<1, n>>>(x, y, n);";
    let env = TestEnv::with_own_replays().with_kernel(HEAD, call);
    assert_eq!(printed(&env), "variable PATH");
    let keys = "program = [\"./speaker\"]\nsandbox = { env = [\"SSH_AUTH_SOCK\"] }";
    let env = TestEnv::isolated().with_program(keys, "");
    env.kernel(
        "variable PATH\nvariable GITHUB_TOKEN\nvariable SSH_AUTH_SOCK\nvariable CUDA_SECRET",
    );
    assert_eq!(printed(&env), "variable PATH\nvariable SSH_AUTH_SOCK");
}
