//! Output that cannot be written: never a code that blames a commit, never a panic.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::common::env::TestEnv;

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

/// Where nothing can be written: the disk is full.
fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("the device").into()
}

#[test]
fn a_full_disk_behind_standard_output_is_the_machines_fault() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    let commands: [&[&str]; 9] = [
        &["fixtures/tiny"],
        &["fixtures/tiny", "--format", "json"],
        &["fixtures/tiny", "--format", "junit"],
        &["fixtures/tiny", "--format", "markdown"],
        &["inspect", "fixtures/tiny"],
        &["cache", "path"],
        &["--help"],
        &["help", "bisect"],
        &["--version"],
    ];
    for arguments in commands {
        let run = env.read(&env.command(arguments).stdout(full()).output().expect("it runs"));
        assert_eq!(run.code, Some(128), "{arguments:?}: {}", run.text());
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.stderr, @"
            error: failed to write the result to standard output
            caused by: No space left on device (os error 28)
            hint: make room and run it again: what was replayed is in the cache
            ");
        }
    }
}

#[test]
fn a_full_disk_behind_standard_error_changes_no_code() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    let code = |arguments: &[&str]| {
        let mut command = env.command(arguments);
        command.stdout(Stdio::null()).stderr(full()).status().expect("it runs").code()
    };
    assert_eq!(code(&["fixtures/tiny"]), Some(0));
    assert_eq!(code(&["fixtures/none"]), Some(128));
    assert_eq!(code(&["--nonsense"]), Some(128));
}

#[test]
fn a_reader_that_leaves_ends_the_output_without_a_word() {
    use std::os::unix::process::ExitStatusExt;
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    let mut command = env.command(&["fixtures/tiny"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(13), "as any command-line tool");
    assert!(output.stderr.is_empty(), "{}", env.read(&output).text());
}
