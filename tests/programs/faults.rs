//! Programs that do what they should not: each is an outcome, or an error that says whose fault it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::env::{Run, TestEnv};

/// The exit code and the lines that say what is wrong.
fn told(run: &Run) -> String {
    let says = |line: &&str| {
        let line = line.trim_start();
        let beginnings = ["error:", "caused by:", "hint:", "untestable:", "failed", "completed"];
        beginnings.iter().any(|beginning| line.starts_with(beginning)) || line.starts_with("  ")
    };
    let all = format!("{}{}", run.stdout, run.stderr);
    let lines: Vec<&str> = all.lines().filter(says).collect();
    let code = run.code.map_or("a signal".to_owned(), |code| code.to_string());
    format!("{code}: {}", lines.join("\n   "))
}

/// What replays of kernels with these words tell, each in a paragraph.
fn all_told(env: &TestEnv, kernels: &[&str], more: &[&str]) -> String {
    let one = |words: &&str| {
        env.kernel(words);
        let run = env.replay(&[&["fixtures/tiny"], more].concat());
        format!("[{}]\n{}\n", words.replace('\n', ", "), told(&run))
    };
    kernels.iter().map(one).collect()
}

#[test]
fn outputs_that_are_not_as_declared_are_failures_that_name_them() {
    let env = TestEnv::with_speaker();
    let kernels = ["nothing", "omit", "extra", "double", "flat", "half", "nan"];
    insta::assert_snapshot!(all_told(&env, &kernels, &[]), @"
    [nothing]
    1: failed: outputs: it ended without an error and wrote no outputs
    [omit]
    1: failed: outputs: output `dx` is missing
    [extra]
    1: failed: outputs: output `more` is not one of the harness's
    [double]
    1: failed: outputs: output `dx` has the dtype f64 instead of f32
    [flat]
    1: failed: outputs: output `dx` has the shape [4, 1] instead of [4]
    [half]
    1: failed: outputs: the file with its outputs is truncated: tensor `dx` ends at byte 139, the file at byte 129
    [nan]
    1: failed: non-finite: dx has 1 NaN and 0 Inf from finite inputs, first at [1]
    ");
}

#[test]
fn a_program_that_takes_more_memory_than_it_may_fails() {
    for keys in ["program = [\"./speaker\"]", "program = [\"./speaker\"]\npreload = []"] {
        let env = TestEnv::isolated().with_program(keys, "");
        let kernels = [
            "take 100000000\ndivide 3",
            "take 1000000000\ndivide 3",
            "share 100000000\ndivide 3",
            "spread 100000000\ndivide 3",
        ];
        let told = all_told(&env, &kernels, &["--memory", "200M"]);
        insta::allow_duplicates! {
            insta::with_settings!({filters => vec![(r"took \d+\.\d [MG]B", "took [N]")]}, {
                insta::assert_snapshot!(told, @"
                [take 100000000, divide 3]
                0: completed: every output is finite; unwritten elements do not show
                [take 1000000000, divide 3]
                1: failed: memory: the program took [N] of memory, and a replay may have 209.7 MB (--memory)
                [share 100000000, divide 3]
                0: completed: every output is finite; unwritten elements do not show
                [spread 100000000, divide 3]
                1: failed: memory: the program took [N] of memory, and a replay may have 209.7 MB (--memory)
                ");
            });
        }
    }
}

#[test]
fn tensors_that_a_program_has_no_room_for_are_told_of_before_it_is_started() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]", "");
    let run = env.replay_kernel("divide 3", &["--memory", "4"]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    assert!(
        run.stderr.contains("of device memory, and a replay may have 4 bytes"),
        "{}",
        run.text()
    );
}

#[test]
fn endings_of_the_program_are_failures_of_the_revision() {
    let env = TestEnv::with_speaker();
    insta::assert_snapshot!(all_told(&env, &["exit 3", "signal 6", "signal 11"], &[]), @"
    [exit 3]
    1: failed: exit: the program ended with exit status 3
    [signal 6]
    1: failed: killed: signal 6 (SIGABRT)
    [signal 11]
    1: failed: killed: signal 11 (SIGSEGV)
    ");
    insta::assert_snapshot!(all_told(&env, &["hang"], &["--timeout", "1"]), @"
    [hang]
    1: failed: timeout: still running in the program after 1 s
    ");
}

#[test]
fn time_that_went_to_the_start_of_a_program_is_not_the_revisions() {
    let keys = ["", "\npreload = []"].map(|key| format!("program = [\"./speaker\"]{key}"));
    let told = keys.map(|keys| {
        let env = TestEnv::isolated().with_program(&keys, "");
        all_told(&env, &["call waiting\nhang", "call begun\nhang"], &["--timeout", "1"])
    });
    insta::assert_snapshot!(told.concat(), @"
    [call waiting, hang]
    128: error: the program did not call the revision's code within 1 s (--timeout): the time went to its start
       hint: this says nothing about the revision: allow more with --timeout, or name what it imports in `preload`, which loads it once and outside of this time
    [call begun, hang]
    1: failed: timeout: still running in the program after 1 s
    [call waiting, hang]
    128: error: the program did not call the revision's code within 1 s (--timeout): the time went to its start
       hint: this says nothing about the revision: allow more with --timeout, or name all that it imports in `preload`
    [call begun, hang]
    1: failed: timeout: still running in the program after 1 s
    ");
    // What a program in time says of its call is nothing to anybody.
    let run = TestEnv::with_speaker().replay_kernel("divide 3\ncall waiting", &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn whoever_is_at_fault_is_blamed() {
    let env = TestEnv::with_speaker();
    let kernels = [
        "fault revision",
        "fault environment",
        "fault program",
        "garbage",
        "exit 125\nsay the last words",
        "exit 126\nsay a module is missing",
        "exit 127",
    ];
    insta::assert_snapshot!(all_told(&env, &kernels, &[]), @"
    [fault revision]
    125: untestable: it says so
       caused by: line 1
    [fault environment]
    128: error: the program's environment: it says so
       caused by: line 1
       hint: this says nothing about the revision: install what is missing, and replay it again
    [fault program]
    128: error: the program that the harness names fails by itself: it says so
       caused by: line 1
       hint: it lies beside replay.toml and is not of the revision: mend it there
    [garbage]
    128: error: the program that the harness names fails by itself: its answer is not as the protocol says: invalid type: integer `3`, expected struct Complaint at line 1 column 11
       hint: it lies beside replay.toml and is not of the revision: mend it there
    [exit 125, say the last words]
    125: untestable: the last words
    [exit 126, say a module is missing]
    128: error: the program's environment: a module is missing
       hint: this says nothing about the revision: install what is missing, and replay it again
    [exit 127]
    128: error: the program's environment: the program ended with exit status 127
       hint: this says nothing about the revision: install what is missing, and replay it again
    ");
    insta::assert_snapshot!(all_told(&env, &["signal 9", "strike 9", "strike 19"], &[]), @"
    [signal 9]
    1: failed: killed: signal 9 (SIGKILL, which the code sent to itself)
    [strike 9]
    1: failed: exit: the program ended with exit status 3
    [strike 19]
    1: failed: exit: the program ended with exit status 3
    ");
}

#[test]
fn what_a_program_does_besides_changes_nothing() {
    let env = TestEnv::with_speaker();
    let plain = env.replay_kernel("divide 3", &["--format", "json"]);
    let bits = |run: &Run| {
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        document["entries"][0]["outputs"].to_string()
    };
    for words in ["read", "spoil", "print 3000000", "note beware"] {
        let run = env.replay_kernel(words, &["--format", "json"]);
        assert_eq!(run.code, Some(0), "{words}: {}", run.text());
        assert_eq!(bits(&run), bits(&plain), "{words}");
        assert!(run.stdout.len() < 300_000, "{words}: {}", run.stdout.len());
    }
    let noted = env.replay_kernel("note beware\nsay hello", &[]);
    assert!(noted.stdout.contains("note: beware"), "{}", noted.text());
}

#[test]
fn a_process_that_is_left_behind_ends_with_the_replay() {
    let env = TestEnv::with_speaker();
    let left = env.repo.beside("left");
    let run = env.replay_kernel(&format!("leave {}", left.display()), &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let process = fs::read_to_string(left).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{process}/stat")).exists(), "{process}");
}

#[test]
fn an_output_that_moves_with_what_lies_around_tensors_was_read_outside_of_them() {
    let env = TestEnv::with_speaker();
    insta::assert_snapshot!(all_told(&env, &["outside 2"], &[]), @"
    [outside 2]
    1: failed: reads outside its tensors: 1 of 4 elements of dx, first at [2]
    ");
    insta::assert_snapshot!(all_told(&env, &["divide 3\naway"], &[]), @"
    [divide 3, away]
    1: failed: reads outside its tensors: 1 of 4 elements of dx, first at [0]
    ");
}

#[test]
fn a_choice_that_the_clock_makes_is_not_taken_for_what_lies_around_tensors() {
    let env = TestEnv::with_speaker();
    let mark = env.repo.beside("mark");
    // Zeros around tensors give the same each time, and the first NaN around them another.
    let run = env.replay_kernel(&format!("divide 3\nby-chance {}", mark.display()), &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(mark.exists());
}

#[test]
fn a_program_that_surrounds_nothing_reads_nothing_outside() {
    let env = TestEnv::with_speaker();
    let run = env.replay_kernel("divide 3\naway\nunsurrounded", &[]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn code_that_fails_on_what_lies_around_tensors_has_read_it() {
    let env = TestEnv::with_speaker();
    insta::assert_snapshot!(all_told(&env, &["stumble", "exit-among-nan 3"], &[]), @"
    [stumble]
    1: failed: reads outside its tensors: with NaN around them it fails: raised: IndexError: index 2147483647 is out of bounds
    [exit-among-nan 3]
    1: failed: reads outside its tensors: with NaN around them it fails: exit: the program ended with exit status 3
    ");
}

#[test]
fn code_that_fails_now_and_then_is_not_deterministic() {
    let env = TestEnv::with_speaker();
    let mark = env.repo.beside("mark");
    let run = env.replay_kernel(&format!("divide 3\nwaver {}", mark.display()), &[]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"failed: not deterministic: an identical replay fails: raised: IndexError: index 2147483647 is out of bounds");
}

#[test]
fn outputs_that_are_others_each_time_are_not_deterministic() {
    let env = TestEnv::with_speaker();
    let run = env.replay_kernel("clock", &[]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let line = run.last_line();
    let begin =
        "failed: not deterministic: identical replays differ in 1 of 4 elements of dx, by at most ";
    assert!(line.starts_with(begin) && line.ends_with(", first at [0]"), "{line}");
}

#[test]
fn a_program_that_removes_its_tree_fails_whatever_it_says_then() {
    let env = TestEnv::with_speaker();
    insta::assert_snapshot!(all_told(&env, &["remove 0", "remove 125"], &[]), @"
    [remove 0]
    1: failed: outputs: it changed the revision's tree, at `kernel.txt`
    [remove 125]
    1: failed: outputs: it changed the revision's tree, at `kernel.txt`
    ");
}

#[test]
fn a_program_that_is_not_there_is_nobody_s_fault_but_the_machine_s() {
    let replayed = |program: &str| {
        let env = TestEnv::isolated().with_program(program, "");
        env.kernel("divide 3");
        env.replay(&["fixtures/tiny"]).text()
    };
    insta::assert_snapshot!(replayed("program = [\"no-such-program\"]").replace(
        &std::env::var("PATH").unwrap(), "[PATH]"), @"
    exit code 128
    --- stderr
    error: there is no program `no-such-program` in [PATH]
    hint: install it, or name it by its path in replay.toml
    ");
    insta::assert_snapshot!(replayed("program = [\"./absent\"]"), @"
    exit code 128
    --- stderr
    error: there is no program `./absent`
    hint: install it, or name it by its path in replay.toml
    ");
    insta::assert_snapshot!(replayed("program = [\"sh\", \"absent.sh\"]"), @"
    exit code 128
    --- stderr
    error: the program's file `[ROOT]/absent.sh` does not exist
    hint: files that replay.toml names for its program lie beside it, not in a revision
    ");
    insta::assert_snapshot!(replayed("program = [\"./replay.toml\"]"), @"
    exit code 128
    --- stderr
    error: cannot start `[ROOT]/./replay.toml`
    caused by: Permission denied (os error 13)
    hint: make it executable: chmod +x
    ");
    let lost = TestEnv::isolated().with_program("program = [\"./lost.sh\"]", "");
    lost.repo.write("lost.sh", "#!/no/such/shell\n");
    fs::set_permissions(lost.path("lost.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    lost.kernel("divide 3");
    insta::assert_snapshot!(lost.replay(&["fixtures/tiny"]).text(), @"
    exit code 128
    --- stderr
    error: cannot start `[ROOT]/./lost.sh`
    caused by: No such file or directory (os error 2)
    hint: its first line names an interpreter that is not there, as in `#!/bin/sh`
    ");
}

/// A shell plays a Python that ends with `error`, at the top level of a script with these words.
fn ended_python(words: &str, keys: &str, error: &str) -> Run {
    let keys = format!("program = [\"./python\", \"step.py\"]{keys}");
    let env = TestEnv::isolated().with_program(&keys, "");
    env.repo.write(".gitignore", "fixtures\nspeaker\nreplay.toml\npython\nstep.py\n");
    symlink("/bin/sh", env.path("python")).expect("a link");
    let script = format!(
        ": {words}\ncat >&2 <<END\nTraceback (most recent call last):\n  File \"step.py\", line 1, in <module>\n    \
         {words}\n{error}\nEND\nexit 1\n"
    );
    env.repo.write("step.py", script);
    env.kernel("divide 3");
    env.replay(&["fixtures/tiny"])
}

#[test]
fn a_python_that_ends_before_the_package_could_speak_is_no_fault_of_the_revision() {
    let missing = "ModuleNotFoundError: No module named 'gradreplay'";
    for keys in ["", "\npreload = []"] {
        let told = ended_python("import gradreplay", keys, missing);
        insta::allow_duplicates! { insta::assert_snapshot!(told.text(), @"
        exit code 128
        --- stderr
        error: the program's environment: ModuleNotFoundError: No module named 'gradreplay'
        caused by: Traceback (most recent call last):
            File \"step.py\", line 1, in <module>
              import gradreplay
          ModuleNotFoundError: No module named 'gradreplay'
        hint: install it for [ROOT]/./python: `pip install .` in replay's sources
        ") }
    }
    let told = ended_python("import gradreplay", "", "NameError: name 'x' is not defined");
    assert_eq!(told.code, Some(128), "{}", told.text());
    // Another program may fail so because of the revision.
    let told = ended_python("import numpy", "", "ModuleNotFoundError: No module named 'model'");
    assert_eq!(told.code, Some(1), "{}", told.text());
}

#[test]
fn what_identifies_a_program_is_part_of_what_is_known() {
    let env = TestEnv::isolated();
    let keys = "program = [\"./speaker\"]\nidentity = [\"cat\", \"version\"]";
    let env = env.with_program(keys, "");
    env.repo.write(".gitignore", "fixtures\nspeaker\nreplay.toml\nversion\n");
    fs::write(env.path("version"), "1").unwrap();
    let commit = env.kernel("divide 3");
    let replay = || env.replay(&["fixtures/tiny", "--rev", &commit]);
    assert_eq!(replay().code, Some(0));
    assert_eq!(env.cached("outcomes").len(), 1);
    fs::write(env.path("version"), "2").unwrap();
    assert_eq!(replay().code, Some(0));
    assert_eq!(env.cached("outcomes").len(), 2);
    fs::remove_file(env.path("version")).unwrap();
    insta::assert_snapshot!(replay().text(), @"
    exit code 128
    --- stderr
    error: the program's environment: `identity` fails: /usr/bin/cat: version: No such file or directory
    hint: this says nothing about the revision: install what is missing, and replay it again
    ");
}
