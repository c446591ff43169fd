//! Options, help, version, and what is told besides results.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::env::{Run, TestEnv};

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

/// Every command, as its own help names them.
fn commands(env: &TestEnv) -> Vec<String> {
    let help = env.replay(&["--help"]).stdout;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).map(ToOwned::to_owned).collect()
}

fn tiny() -> TestEnv {
    TestEnv::isolated().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);")
}

#[test]
fn the_version_names_the_commit_and_the_compiler() {
    let run = TestEnv::new().replay(&["--version"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let begins = format!("replay {} (", env!("CARGO_PKG_VERSION"));
    let about = run.stdout.trim_end().strip_prefix(&begins).expect("the version").to_owned();
    let about = about.strip_suffix(')').expect("a bracket");
    let (before, rustc) = about.rsplit_once("rustc ").expect("the compiler");
    assert!(rustc.starts_with("1."), "{about}");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let commit = before.trim_end_matches(", ").trim_end_matches(" with changes");
    if here.join(".git").exists() {
        let known = ["cat-file", "-e", &format!("{commit}^{{commit}}")];
        let known = Command::new("git").current_dir(here).args(known).status();
        assert!(known.expect("git runs").success(), "{about}");
    } else {
        assert_eq!(commit, "", "{about}");
    }
}

#[test]
fn an_option_of_replays_is_none_of_a_command_that_makes_none() {
    let env = TestEnv::new();
    for words in [
        ["doctor", "--sanitize=memcheck"].as_slice(),
        &["doctor", "--fresh"],
        &["cache", "gc", "--timeout=5"],
        &["cache", "--verbose"],
        &["accept", "--backend=cuda"],
        &["inspect", "x", "--memory=1G"],
        &["explain", "x", "--threads=2"],
    ] {
        let run = env.replay(words);
        assert_eq!(run.code, Some(128), "{words:?}: {}", run.text());
        assert!(run.stderr.starts_with("error: unexpected argument '--"), "{}", run.text());
    }
}

#[test]
fn options_stand_under_headings() {
    let env = TestEnv::new();
    for command in ["bisect", "log", "diff", "gradcheck"] {
        let help = env.replay(&[command, "--help"]).stdout;
        for heading in ["\nArguments:", "\nOptions:", "\nReplays:", "\nMessages:"] {
            assert!(help.contains(heading), "{command}: {help}");
        }
    }
    let help = env.replay(&["doctor", "--help"]).stdout;
    assert!(!help.contains("Replays:") && !help.contains("Messages:"), "{help}");
}

#[test]
fn short_forms_mean_what_the_long_ones_do() {
    let env = tiny();
    let long = env.replay(&["fixtures/tiny", "--rev", "HEAD", "--format", "json", "--quiet"]);
    let short = env.replay(&["fixtures/tiny", "-rHEAD", "-fjson", "-bcpu", "-q"]);
    assert_eq!(long.code, Some(0), "{}", long.text());
    let [long, short] = [long, short].map(|run| {
        let mut document: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        document.as_object_mut().expect("an object").remove("run");
        (run.code, document, run.stderr)
    });
    assert_eq!(long, short);
    let long = env.replay(&["fixtures/tiny", "--against", "HEAD"]);
    assert_eq!(long.text(), env.replay(&["fixtures/tiny", "-a", "HEAD"]).text());
}

#[test]
fn help_shows_a_page_of_the_documentation() {
    let env = TestEnv::new();
    for (topic, page) in [
        (&["verdicts"][..], "verdicts"),
        (&["harness"], "harness"),
        (&["fixture"], "fixture"),
        (&["exit-codes"], "exit-codes"),
        (&["exit", "codes"], "exit-codes"),
    ] {
        let run = env.replay(&[&["help"], topic].concat());
        assert_eq!(run.code, Some(0), "{}", run.text());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/{page}.md"));
        let text = fs::read_to_string(path).expect("a page");
        let title = text.lines().next().expect("a title").trim_start_matches("# ");
        assert_eq!(run.stdout.lines().next(), Some(title), "{topic:?}");
        // Every word of it is there, no mark of Markdown is left.
        let prose = run.stdout.lines().filter(|line| !line.starts_with("    "));
        for line in prose {
            assert!(!line.starts_with(['#', '|']) && !line.contains("]("), "{topic:?}: {line}");
            assert!(line.chars().count() <= 100, "{topic:?}: {line}");
        }
        for word in text.split_whitespace().filter(|word| word.chars().all(char::is_alphanumeric)) {
            assert!(run.stdout.contains(word), "{topic:?} lacks {word}");
        }
    }
}

#[test]
fn help_with_exit_codes_fits_a_narrow_terminal() {
    let env = TestEnv::new();
    let mut command = env.command(&["help", "exit-codes"]);
    let text = env.finish(command.env("COLUMNS", "60")).stdout;
    insta::assert_snapshot!(text.lines().take(9).collect::<Vec<_>>().join("\n"), @"
    Exit codes

    Made for `git bisect run`: git counts 1 to 127 except 125 as
    bad, 125 as untestable, and stops at 128 and above. A usage
    error must not blame a commit, so it is never 2.

      code  meaning
      0     nothing diverged, nothing failed; `unchecked` as
            well, in `gradcheck` only where every gradient had a
    ");
}

#[test]
fn help_for_a_command_is_its_own_help() {
    let env = TestEnv::new();
    assert_eq!(env.replay(&["help"]).text(), env.replay(&["--help"]).text());
    for command in [&["bisect"][..], &["cache", "gc"], &["help"]] {
        let asked = env.replay(&[&["help"], command].concat());
        assert_eq!(asked.text(), env.replay(&[command, &["--help"]].concat()).text());
    }
}

#[test]
fn help_for_what_is_not_there_names_what_is() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.replay(&["help", "bisct"]).text(), @"
    exit code 128
    --- stderr
    error: there is neither a command nor a topic `bisct`
    hint: did you mean `replay help bisect`?
    ");
    insta::assert_snapshot!(env.replay(&["help", "tolerances"]).text(), @"
    exit code 128
    --- stderr
    error: there is neither a command nor a topic `tolerances`
    hint: `replay help topics` names the pages of the documentation
    ");
}

/// What bash completes the last of `words` to, by the script that `replay completions` prints.
fn complete_in_bash(env: &TestEnv, words: &[&str]) -> Vec<String> {
    let script = env.path("completions");
    fs::write(&script, env.replay(&["completions", "bash"]).stdout).expect("a file");
    let complete = "source completions; COMP_WORDS=(replay \"$@\"); COMP_CWORD=$#; \
                    _clap_complete_replay replay \"${!#}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", complete, "bash"]).args(words);
    env.settle(&mut bash);
    let program = Path::new(env!("CARGO_BIN_EXE_replay")).parent().expect("a folder");
    let inherited = std::env::var("PATH").unwrap_or_default();
    bash.env("PATH", format!("{}:{inherited}", program.display()));
    let run = env.finish(&mut bash);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{words:?}");
    run.stdout.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

#[test]
fn shells_complete_every_command() {
    let env = TestEnv::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = env.replay(&["completions", shell]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(run.stdout.contains("REPLAY_COMPLETE"), "{shell}: {}", run.stdout);
    }
    let completed = complete_in_bash(&env, &[""]);
    for command in commands(&env) {
        assert!(completed.contains(&command), "{command}: {completed:?}");
    }
    assert_eq!(complete_in_bash(&env, &["bisect", "--fir"]), ["--first-parent"]);
    assert_eq!(complete_in_bash(&env, &["bisect", "--on", "cha"]), ["changed"]);
}

#[test]
fn shells_complete_fixtures_and_the_revisions_of_their_repository() {
    let env = TestEnv::new().with_demonstration();
    assert_eq!(
        complete_in_bash(&env, &["fixtures/st"]),
        ["fixtures/step0-words/", "fixtures/step0/"]
    );
    // The commits of the demonstration lie in a bundle, and those of the folder elsewhere.
    assert_eq!(complete_in_bash(&env, &["fixtures/step0", "--rev", "396"]), ["396b00e"]);
    assert_eq!(complete_in_bash(&env, &["fixtures/step0", "--rev=mai"]), ["--rev=main"]);
    assert_eq!(complete_in_bash(&env, &["diff", "fixtures/step0", "37707d4", "396"]), ["396b00e"]);
    assert_eq!(
        complete_in_bash(&env, &["log", "fixtures/step0", "37707d4..396"]),
        ["37707d4..396b00e"]
    );
    let ends = complete_in_bash(&env, &["bisect", "fixtures/step0", "--good", ""]);
    assert_eq!(ends, ["HEAD", "main"], "ids come with their first digit");
}

#[test]
fn completions_of_what_cannot_be_read_are_empty() {
    let env = TestEnv::new().with_demonstration();
    fs::write(env.path("fixtures/step0/fixture.toml"), "harness = [\n").expect("a file");
    assert_eq!(complete_in_bash(&env, &["fixtures/step0", "--rev", "396"]), [""; 0]);
    let mut request = env.command(&["--", "replay", ""]);
    let run = env.finish(request.env("REPLAY_COMPLETE", "tcsh"));
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: unknown shell `tcsh`, expected one of `bash`, `elvish`, `fish`, `powershell`, `zsh`
    ");
}

#[test]
fn every_command_has_a_manual_page() {
    let env = TestEnv::new();
    let run = env.replay(&["man", "pages/man1"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let main = fs::read_to_string(env.path("pages/man1/replay.1")).expect("a page");
    assert!(main.contains(".TH replay 1"), "{main}");
    for command in commands(&env) {
        let path = env.path(&format!("pages/man1/replay-{command}.1"));
        assert!(path.is_file(), "{}", path.display());
    }
    fs::write(env.path("file"), "").expect("a file");
    insta::assert_snapshot!(env.replay(&["man", "file"]).text(), @"
    exit code 128
    --- stderr
    error: cannot write manual pages to file
    caused by: File exists (os error 17)
    ");
}

/// The words behind the time of each line, without places in the cache and how long it took.
fn told(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once(" s  "));
    let lines = lines.map(|(_, told)| {
        let words = told.split_whitespace().take_while(|word| *word != "compiler");
        let words = words.filter(|word| !word.parse::<f64>().is_ok_and(|_| word.contains('.')));
        let words = words.map(|word| word.split_once('/').map_or(word, |(kind, _)| kind));
        let words = words.collect::<Vec<_>>().join(" ");
        words.trim_end_matches(" s").trim_end_matches(',').to_owned()
    });
    lines.collect()
}

fn contains_all(run: &Run, lines: &[&str]) {
    let told = told(&run.stderr);
    for line in lines {
        assert!(told.iter().any(|told| told == line), "no `{line}` in {told:#?}");
    }
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    let run = tiny().replay(&["fixtures/tiny"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.text());
}

#[test]
fn verbose_tells_what_was_done_and_then_what_was_found_in_the_cache() {
    let env = tiny();
    let run = env.replay(&["fixtures/tiny", "-v"]);
    let silent = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.stdout, silent.stdout);
    let done = ["load fixtures", "translate k.cu, precision Native"];
    contains_all(&run, &done);
    contains_all(&run, &["compile k.cu, precision Native", "replay tiny", "orders tiny"]);
    contains_all(&run, &["compile k.cu, precision Checked", "check tiny", "compile in all, 2 x"]);
    let run = env.replay(&["fixtures/tiny", "-v"]);
    contains_all(&run, &["cached artifacts", "cached outcomes", "cached judgements"]);
    assert!(!run.stderr.contains("compile"), "{}", run.stderr);
    let run = env.replay(&["fixtures/tiny", "-vv", "--fresh", "--threads", "1"]);
    contains_all(&run, &["run Native, cpu, 1 threads, Nearest, poison a5"]);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let env = tiny();
    env.repo.write("k.cu", DOUBLE.replace("2 *", "3 *"));
    env.repo.commit("Triple");
    let ends = ["bisect", "fixtures/tiny", "--good", "HEAD~1", "--bad", "HEAD"];
    let notes = env.replay(&ends);
    assert!(notes.stderr.contains("commits change a kernel"), "{}", notes.text());
    let quiet = env.replay(&[&ends[..], &["--quiet"]].concat());
    assert_eq!((quiet.stderr.as_str(), quiet.stdout), ("", notes.stdout));
    let wrong = env.replay(&["fixtures/none", "-q"]);
    assert!(wrong.stderr.starts_with("error: "), "{}", wrong.text());
    let both = env.replay(&["fixtures/tiny", "-qv"]);
    assert_eq!(both.code, Some(128), "{}", both.text());
}

#[test]
fn a_log_holds_all_and_is_written_over() {
    let env = tiny();
    for _ in 0..2 {
        let run = env.replay(&["fixtures/tiny", "--fresh", "--log", "run.log"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.text());
    }
    let log = fs::read_to_string(env.path("run.log")).expect("a log");
    let first = log.lines().next().expect("a line");
    assert!(first.starts_with(&format!("# replay {} (", env!("CARGO_PKG_VERSION"))), "{first}");
    assert!(first.ends_with("): fixtures/tiny --fresh --log run.log"), "{first}");
    assert_eq!(log.matches("  load ").count(), 2, "the fixture and the sum: {log}");
    assert!(log.contains("  run        Native, cpu, "), "{log}");
    assert!(log.lines().all(|line| line.starts_with("# ")), "{log}");
}

#[test]
fn a_log_never_takes_the_place_of_another_file() {
    let env = tiny();
    let before = fs::read(env.path("k.cu")).expect("a source");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--log", "k.cu"]).text(), @"
    exit code 128
    --- stderr
    error: k.cu is no log of replay and is left as it is
    hint: name another file with --log
    ");
    let search = ["bisect", "fixtures/tiny", "--good", "HEAD", "--bad", "HEAD", "--log", "k.cu"];
    assert_eq!(env.replay(&search).code, Some(128));
    assert_eq!(fs::read(env.path("k.cu")).expect("a source"), before);
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let env = tiny();
    let run = env.replay(&["fixtures/tiny", "--log", "/dev/full"]);
    insta::assert_snapshot!(run.stderr, @"
    error: cannot write the log to /dev/full
    caused by: No space left on device (os error 28)
    ");
    assert_eq!(run.code, Some(128));
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--log", "no/folder"]).text(), @"
    exit code 128
    --- stderr
    error: there is no folder no for the log
    hint: make it, or name another file with --log
    ");
}

#[test]
fn a_trace_holds_when_all_work_began_and_ended() {
    let env = tiny();
    for _ in 0..2 {
        let run = env.replay(&["fixtures/tiny", "--fresh", "--trace", "run.json"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.text());
    }
    let trace = fs::read_to_string(env.path("run.json")).expect("a trace");
    let events: Vec<serde_json::Value> = serde_json::from_str(&trace).expect("an array");
    let invocation = events[0]["args"]["name"].as_str().expect("a name");
    assert!(invocation.ends_with("): fixtures/tiny --fresh --trace run.json"), "{invocation}");
    let spans = |name: &str| {
        let named = events.iter().filter(|event| event["ph"] == "X" && event["name"] == name);
        named.map(|span| (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap())).collect()
    };
    let (loads, compiles): (Vec<_>, Vec<_>) = (spans("load"), spans("compile"));
    assert_eq!(loads.len(), 1, "{trace}");
    for (begin, duration) in compiles {
        assert!(begin >= loads[0].0 + loads[0].1 && duration > 1e3, "in microseconds: {trace}");
    }
}

#[test]
fn a_trace_takes_the_place_of_a_trace_alone() {
    let env = tiny();
    let before = fs::read(env.path("k.cu")).expect("a source");
    let traces = ["k.cu", "no/folder", "/dev/full"]
        .map(|path| env.replay(&["fixtures/tiny", "--trace", path]).stderr);
    insta::assert_snapshot!(traces.join(""), @"
    error: k.cu is no trace of replay and is left as it is
    hint: name another file with --trace
    error: there is no folder no for the trace
    hint: make it, or name another file with --trace
    error: cannot write the trace to /dev/full
    caused by: No space left on device (os error 28)
    ");
    assert_eq!(fs::read(env.path("k.cu")).expect("a source"), before);
}
