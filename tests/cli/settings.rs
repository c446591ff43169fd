//! Settings of a repository, of a user and of a shell, as the program takes them.

use std::fs;

use crate::common::env::{Run, TestEnv};

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

fn tiny() -> TestEnv {
    TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);")
}

/// Writes the user's own file.
fn write_user_file(env: &TestEnv, text: &str) {
    let folder = env.repo.beside("home").join(".config/replay");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// The text of `run`, with the user's file by a name.
fn shorten(env: &TestEnv, run: &Run) -> String {
    let file = env.repo.beside("home").join(".config/replay/config.toml");
    run.text().replace(&file.display().to_string(), "[USER]")
}

#[test]
fn config_shows_what_is_in_force_and_where_it_comes_from() {
    let env = TestEnv::new();
    env.repo.write("replay.config.toml", "timeout = 120\nsandbox = 'strict'\n");
    write_user_file(&env, "threads = 4\ncache.size = '50G'\ntimeout = 240\n");
    let words = ["config", "--color", "never"];
    let mut command = env.command(&words);
    command.env("REPLAY_JOBS", "2").env("CXX", "clang++").env("REPLAY_CACHE_DIR", "/cache");
    let run = env.finish(&mut command);
    insta::assert_snapshot!(shorten(&env, &run), @"
    exit code 0
    --- stdout
    backend       cpu      default
    timeout       120      replay.config.toml:1
    memory        16G      default
    threads       4        [USER]:1
    jobs          2        REPLAY_JOBS
    gradients     120      default
    sandbox       strict   replay.config.toml:2
    color         never    --color
    cxx           clang++  CXX
    cache.dir     /cache   REPLAY_CACHE_DIR
    cache.shared  -        default
    cache.size    50G      [USER]:2
    ");
    let run = env.replay(&["config", "timeout"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "120\n"), "{}", run.text());
    let run = env.replay(&["--no-config", "config", "timeout"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "60\n"), "{}", run.text());
    insta::assert_snapshot!(env.replay(&["config", "cache"]).text(), @"
    exit code 128
    --- stderr
    error: there is no setting `cache`
    hint: the settings are backend, timeout, memory, threads, jobs, gradients, sandbox, color, cxx, cache.dir, cache.shared, cache.size
    ");
    insta::assert_snapshot!(env.replay(&["config", "timeot"]).text(), @"
    exit code 128
    --- stderr
    error: there is no setting `timeot`, did you mean `timeout`?
    hint: the settings are backend, timeout, memory, threads, jobs, gradients, sandbox, color, cxx, cache.dir, cache.shared, cache.size
    ");
}

#[test]
fn config_as_json_names_option_variable_and_line() {
    let env = TestEnv::new();
    fs::create_dir(env.path("deep")).unwrap();
    env.repo.write("pyproject.toml", "[tool.replay]\ntimeout = 120\n");
    let words = ["-C", "deep", "config", "--color", "never", "--format", "json"];
    let run = env.finish(env.command(&words).env("REPLAY_JOBS", "2").env_remove("CXX"));
    let document: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let told = |key: &str| {
        let settings = document["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key).unwrap();
        ["value", "origin", "name", "path", "line"].map(|name| found[name].to_string()).join(" ")
    };
    let all = ["timeout", "jobs", "color", "cxx"].map(told).join("\n");
    insta::assert_snapshot!(all, @r#"
    "120" "repository" null "[ROOT]/pyproject.toml" 2
    "2" "variable" "REPLAY_JOBS" null null
    "never" "option" "--color" null null
    null "default" null null null
    "#);
}

#[test]
fn a_hostile_file_of_a_checkout_ends_the_command_and_no_revisions_file_is_read() {
    let env = tiny();
    env.repo.write("replay.config.toml", "sandbox = \"off\"\n");
    env.repo.commit("Leave the sandbox");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny"]).text(), @r#"
    exit code 128
    --- stderr
    error: `sandbox` at replay.config.toml:1:11: a repository may ask for "strict" alone
      |
    1 | sandbox = "off"
      |           ^^^^^
    "#);
    fs::remove_file(env.path("replay.config.toml")).unwrap();
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn a_setting_that_does_not_fit_a_command_is_named_with_its_line() {
    let env = tiny();
    write_user_file(&env, "# Both.\nbackend = ['cpu', 'cpu']\n");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD", "HEAD"]);
    insta::assert_snapshot!(shorten(&env, &run), @"
    exit code 128
    --- stderr
    error: this command takes one --backend
    hint: `replay FIXTURE --backend cpu,cuda` compares devices
    hint: it is set by [USER]:2; an option has the last word
    ");
    let run = env.finish(
        env.command(&["fixtures/tiny", "--backend", "cuda"]).env("REPLAY_SANDBOX", "strict"),
    );
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: --sandbox=strict: a GPU's driver needs more
    hint: replay on the CPU, or with --sandbox=default
    hint: it is set by REPLAY_SANDBOX; an option has the last word
    ");
    write_user_file(&env, "gradients = 'off'\n");
    let words = ["bisect", "fixtures/tiny", "--good", "HEAD", "--bad", "HEAD", "--on", "gradient"];
    insta::assert_snapshot!(shorten(&env, &env.replay(&words)), @"
    exit code 128
    --- stderr
    error: `--on gradient` searches by gradients, and `--gradients off` leaves them out
    hint: leave out `--gradients off`, or search by outputs: `--on wrong`
    hint: it is set by [USER]:1; an option has the last word
    ");
    let words = ["blame", "fixtures/tiny", "HEAD", "--on", "gradient"];
    insta::assert_snapshot!(shorten(&env, &env.replay(&words)), @"
    exit code 128
    --- stderr
    error: `--on gradient` asks for gradients, and `--gradients off` leaves them out
    hint: leave out `--gradients off`, or ask for outputs: `--on wrong`
    hint: it is set by [USER]:1; an option has the last word
    ");
}

#[test]
fn the_cache_lies_where_the_users_file_says_and_keeps_to_its_size() {
    let env = tiny();
    let place = env.repo.beside("elsewhere");
    write_user_file(&env, &format!("cache.dir = {:?}\n", place.display().to_string()));
    let run = env.finish(env.command(&["cache", "path"]).env_remove("REPLAY_CACHE_DIR"));
    assert_eq!(run.stdout, format!("{}/replay\n", place.display()));
    let run = env.finish(env.command(&["fixtures/tiny"]).env_remove("REPLAY_CACHE_DIR"));
    assert_eq!(run.code, Some(0), "{}", run.text());
    let outcomes = || fs::read_dir(place.join("replay/outcomes")).unwrap().count();
    assert_eq!(outcomes(), 1);
    let gc = ["cache", "gc", "--size", "1"];
    let run = env.finish(env.command(&gc).env_remove("REPLAY_CACHE_DIR"));
    assert!(run.stdout.starts_with("removed "), "{}", run.text());
    assert_eq!(outcomes(), 0);
    let limited = ["fixtures/tiny", "--format", "json"];
    let run = env
        .finish(env.command(&limited).env_remove("REPLAY_CACHE_DIR").env("REPLAY_CACHE_SIZE", "1"));
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert_eq!(outcomes(), 0, "nothing is left beyond the size");
}

#[test]
fn doctor_names_the_files_and_helps_with_a_broken_one() {
    let env = TestEnv::new();
    let settings_lines = |run: &Run| {
        let lines = run.stdout.lines().skip_while(|line| !line.contains("settings  "));
        lines.take(1).collect::<String>()
    };
    let none = settings_lines(&env.replay(&["doctor"]));
    env.repo.write("replay.config.toml", "");
    let one = settings_lines(&env.replay(&["doctor"]));
    env.repo.write("replay.config.toml", "timeout = 0");
    let broken = env.replay(&["doctor"]);
    assert_eq!(broken.code, Some(128), "{}", broken.text());
    let broken = settings_lines(&broken);
    insta::assert_snapshot!([none, one, broken].join("\n"), @"
    ok      settings      no file is read
    ok      settings      replay.config.toml (replay config)
    missing settings      `timeout` at replay.config.toml:1:11: must be more than 0
    ");
    for words in [["help", "configuration"], ["completions", "bash"]] {
        assert_eq!(env.replay(&words).code, Some(0), "{words:?}");
    }
    assert_eq!(env.replay(&["config"]).code, Some(128));
    assert_eq!(env.replay(&["config", "--no-config"]).code, Some(0));
}

#[test]
fn colours_of_results_and_complaints_are_those_of_the_settings() {
    let env = TestEnv::new();
    let is_coloured = |words: &[&str]| {
        let output = env.command(words).output().unwrap();
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    assert!(!is_coloured(&["config"]) && !is_coloured(&["config", "--wrong"]));
    write_user_file(&env, "color = 'always'");
    assert!(is_coloured(&["config"]) && is_coloured(&["config", "--wrong"]));
    assert!(!is_coloured(&["config", "--color", "never"]));
    assert!(!is_coloured(&["config", "--wrong", "--color", "never"]));
    assert!(!is_coloured(&["config", "--wrong", "--no-config"]));
}
