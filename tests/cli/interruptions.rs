//! Runs that end before their time leave nothing behind that troubles the next one.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::env::TestEnv;

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_run_that_is_killed_at_any_moment_loses_nothing_that_the_next_needs() {
    let env = TestEnv::isolated().with_demonstration().without_gradients();
    let arguments = ["fixtures/step0", "--rev", "396b00e"];
    let whole = {
        let other = TestEnv::isolated().with_demonstration().without_gradients();
        let start = Instant::now();
        let run = other.replay(&arguments);
        assert_eq!(run.code, Some(0), "{}", run.text());
        (run, start.elapsed())
    };
    // Moments spread over the whole run, without a pattern that the run could share.
    for round in 0..8u32 {
        let moment = whole.1 * (round * 5 % 8 + 1) / 9;
        let mut command = env.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(env.replay(&arguments).text(), whole.0.text());
    assert_eq!(env.replay(&arguments).text(), whole.0.text());
}

#[test]
fn an_interrupt_ends_with_130() {
    let endless = "__global__ void endless(const float* x, float* y)\n\
                   { volatile int on = 1; while (on) {} y[0] = x[0]; }\n";
    let env = TestEnv::new().with_kernel(endless, "endless<<<1, 1>>>(x, y);");
    // Compiled and known, the next run is in the kernel almost at once.
    env.replay(&["fixtures/tiny", "--timeout", "0.1"]);
    let mut command = env.command(&["fixtures/tiny", "--timeout", "30"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    let start = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5));
}
