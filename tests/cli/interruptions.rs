//! Runs that end before their time leave nothing behind that troubles the next one.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::env::TestEnv;

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
fn an_interrupted_run_ends_by_the_signal_so_that_a_shells_loop_ends_too() {
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
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
#[allow(unsafe_code)]
fn a_parent_that_ignores_the_ends_of_its_children_changes_nothing() {
    let env = TestEnv::new().with_kernel(
        "__global__ void ignored(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n",
        "ignored<<<1, n>>>(x, y);",
    );
    let mut command = env.command(&["fixtures/tiny"]);
    // SAFETY: signal may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn code_that_removes_its_own_file_is_replayed_like_any_other() {
    let code = "#include <dlfcn.h>\n#include <unistd.h>\n\
        static void forget() {\n\
          Dl_info info;\n\
          if (!dladdr((void*)&forget, &info)) return;\n\
          char file[4096] = {};\n\
          if (readlink(info.dli_fname, file, sizeof file - 1) > 0) unlink(file);\n\
          unlink(info.dli_fname);\n\
        }\n\
        __global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\n";
    let env = TestEnv::new().with_kernel(code, "forget(); k<<<1, n>>>(x, y, n);");
    let run = env.replay(&["fixtures/tiny", "--fresh", "--check", "always"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

/// Whether any process was started with `env`'s home.
fn lives(env: &TestEnv) -> bool {
    let home = format!("HOME={}", env.repo.beside("home").display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == home.as_bytes())
    })
}

#[test]
fn nothing_is_left_a_second_after_a_run_was_ended_whatever_ended_it() {
    let code = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        static void linger() {\n\
          for (int s = 1; s < 32; ++s) signal(s, SIG_IGN);\n\
          if (fork() == 0) {\n\
            setsid();\n\
            if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); for (;;) pause(); }\n\
            _exit(0);\n\
          }\n\
          fclose(fopen(\"lingers\", \"w\"));\n\
          for (;;) pause();\n\
        }\n\
        __global__ void k(const float* x, float* y) { y[0] = x[0]; }\n";
    let loaded = "static int loaded = (linger(), 0);\n";
    for (code, call) in [
        (code.to_owned(), "linger(); k<<<1, 1>>>(x, y);"),
        (format!("{code}{loaded}"), "k<<<1, 1>>>(x, y);"),
    ] {
        for name in ["-KILL", "-TERM", "-INT", "-HUP"] {
            let env = TestEnv::with_own_replays().with_kernel(&code, call);
            let mut command = env.command(&["fixtures/tiny", "--sandbox=off"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let lingers = env.path("lingers");
            while !lingers.exists() {
                sleep(Duration::from_millis(20));
            }
            assert!(lives(&env));
            signal(&child, name);
            child.wait().unwrap();
            let end = Instant::now() + Duration::from_secs(1);
            while lives(&env) && Instant::now() < end {
                sleep(Duration::from_millis(20));
            }
            assert!(!lives(&env), "{name}");
        }
    }
}

#[test]
fn a_replay_that_somebody_kills_is_neither_a_verdict_nor_remembered() {
    let code = "#include <stdio.h>\n#include <unistd.h>\n\
        static void wait_for_it() {\n\
          FILE* file = fopen(\"victim\", \"r+\");\n\
          if (file) { fprintf(file, \"%d\\n\", getpid()); fclose(file); for (;;) pause(); }\n\
        }\n\
        __global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\n";
    let env = TestEnv::with_own_replays().with_kernel(code, "wait_for_it(); k<<<1, n>>>(x, y, n);");
    let victim = env.path("victim");
    std::fs::write(&victim, "").unwrap();
    let mut command =
        env.command(&["fixtures/tiny", "--threads", "1", "--timeout", "2", "--sandbox=off"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = loop {
        let text = std::fs::read_to_string(&victim).unwrap();
        if let Some((process, _)) = text.split_once('\n') {
            break process.to_owned();
        }
        sleep(Duration::from_millis(10));
    };
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    std::fs::remove_file(&victim).unwrap();
    let run = env.read(&child.wait_with_output().unwrap());
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the replay was killed from outside (signal 9)
    hint: this says nothing about the code, and nothing of it is remembered: replay it again
    ");
    assert!(env.cached("outcomes").is_empty());
    let again = env.replay(&["fixtures/tiny"]);
    assert_eq!(again.code, Some(0), "{}", again.text());
}

#[test]
fn code_that_kills_itself_fails_and_code_that_kills_its_parents_does_not() {
    let code = "#include <signal.h>\n#include <unistd.h>\n\
        __global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\n";
    let calls = |call: &str| {
        let env = TestEnv::new().with_kernel(code, &format!("{call} k<<<1, n>>>(x, y, n);"));
        env.replay(&["fixtures/tiny"])
    };
    let run = calls("kill(getpid(), SIGKILL);");
    assert_eq!(run.code, Some(1), "{}", run.text());
    assert_eq!(
        run.last_line(),
        "failed: killed: signal 9 (SIGKILL, which the code sent to itself)"
    );
    let run = calls("kill(getppid(), SIGKILL); kill(-1, SIGKILL);");
    assert_eq!(run.code, Some(0), "{}", run.text());
}
