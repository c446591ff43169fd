//! `replay review` at a terminal: single keys, and what is left where the terminal dies.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use crate::common::env::TestEnv;
use crate::common::terminal::Terminal;

const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * 1.5f;
}
";

fn snap(env: &TestEnv, name: &str) -> PathBuf {
    env.path(&format!("snapshots/{name}.cpu.snap"))
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).expect("a file")
}

/// Three fixtures whose accepted snapshots a defect leaves.
fn changed() -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    let all = ["fixtures/a", "fixtures/b", "fixtures/c"];
    for (name, first) in [("a", 1f32), ("b", 2.0), ("c", 3.0)] {
        let bytes: Vec<u8> = [first, 7.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        env.write_fixture(name, &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
    }
    assert_eq!(env.finish(env.command(&all).env("REPLAY_UPDATE", "unseen")).code, Some(0));
    env.repo.write("k.cu", KERNEL.replace("1.5f", "1.6f"));
    assert_eq!(env.replay(&all).code, Some(1));
    env
}

/// A review that shows its first question.
fn review(env: &TestEnv) -> Terminal {
    let mut terminal = Terminal::start(&mut env.command(&["review"]));
    terminal.expect("uit > ");
    terminal
}

/// Which of the three are still pending, and which are accepted anew.
fn state(env: &TestEnv) -> (String, String) {
    let all = ["a", "b", "c"];
    let pending = all.iter().filter(|name| snap(env, name).with_extension("snap.new").exists());
    let pending = pending.copied().collect();
    let replay = |name: &str| env.replay(&[&format!("fixtures/{name}")]).stdout;
    let is_new = |name: &&&str| replay(name).contains("snap  matches\n");
    (pending, all.iter().filter(is_new).copied().collect())
}

#[test]
fn one_key_decides_and_the_reason_is_a_line() {
    let env = changed();
    let before = text(snap(&env, "b"));
    let mut terminal = review(&env);
    terminal.press("a");
    terminal.expect("reason (none if empty): ");
    terminal.press("because it is\r");
    terminal.expect("b.cpu.snap");
    terminal.expect("uit > ");
    terminal.press("d");
    terminal.expect("format: 2");
    terminal.expect("uit > ");
    terminal.press("r");
    terminal.expect("c.cpu.snap");
    terminal.expect("uit > ");
    terminal.press("s");
    let (status, shown) = terminal.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(text(snap(&env, "a")).contains("\ndescription: because it is\n"));
    assert_eq!(text(snap(&env, "b")), before);
    assert_eq!(state(&env), ("c".to_owned(), "a".to_owned()));
}

#[test]
fn keys_without_a_meaning_ask_again_and_escape_and_the_end_of_input_leave() {
    let env = changed();
    for leave in ["\u{1b}", "\u{4}"] {
        let mut terminal = review(&env);
        for key in ["\u{1b}[A", "\u{e9}", "\r"] {
            terminal.press(key);
            terminal.expect("a, r, s, y, d or q");
            terminal.expect("uit > ");
        }
        terminal.press(leave);
        let (status, shown) = terminal.end();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert!(shown.contains("3 snapshots still pending"), "{shown}");
    }
}

#[test]
fn an_interrupt_keeps_what_was_decided_and_nothing_else() {
    let env = changed();
    let mut terminal = review(&env);
    terminal.press("a");
    terminal.expect("reason (none if empty): ");
    terminal.press("\r");
    terminal.expect("b.cpu.snap");
    terminal.expect("uit > ");
    terminal.press("\x03");
    let (status, shown) = terminal.end();
    assert_eq!(status.signal(), Some(libc::SIGINT), "{shown}");
    assert_eq!(state(&env), ("bc".to_owned(), "a".to_owned()));
}

#[test]
fn a_terminal_that_dies_at_a_question_decides_nothing() {
    let env = changed();
    review(&env).die();
    assert_eq!(state(&env).0, "abc");
}

#[test]
fn a_terminal_that_dies_before_the_reason_accepts_nothing() {
    let env = changed();
    let mut terminal = review(&env);
    terminal.press("a");
    terminal.expect("reason (none if empty): ");
    terminal.press("half a rea");
    terminal.die();
    assert_eq!(state(&env), ("abc".to_owned(), String::new()));
}

#[test]
fn a_program_that_outlives_its_terminal_accepts_nothing_either() {
    let env = changed();
    // The hang-up is ignored, as under nohup: the program sees the end of its input.
    let mut command = std::process::Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" review";
    command.args(["-c", script, env!("CARGO_BIN_EXE_replay")]);
    env.settle(&mut command);
    let mut terminal = Terminal::start(&mut command);
    terminal.expect("uit > ");
    terminal.press("a");
    terminal.expect("reason (none if empty): ");
    terminal.die();
    assert_eq!(state(&env), ("abc".to_owned(), String::new()));
}
