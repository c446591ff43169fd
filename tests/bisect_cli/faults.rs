//! Searches that are killed, share a cache, lose a part of it, or meet kernels that misbehave.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::bisect_cli::{DIVIDED, MULTIPLIED, RIGHT, WRONG, history, isolated};
use crate::common::env::TestEnv;

const SEARCH: [&str; 6] = ["bisect", "fixtures/tiny", "--good", "main~8", "--bad", "main"];

fn nine(env: TestEnv) -> (TestEnv, Vec<String>) {
    history(env, &[RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, WRONG, WRONG, WRONG])
}

/// What was compiled, replayed and judged, and when.
fn made(env: &TestEnv) -> BTreeMap<PathBuf, SystemTime> {
    let kinds = ["artifacts", "refusals", "outcomes", "judgements"];
    let entries = kinds.iter().flat_map(|kind| env.cached(kind));
    entries.map(|path| (path.clone(), fs::metadata(path).unwrap().modified().unwrap())).collect()
}

#[test]
fn a_second_search_compiles_and_replays_nothing() {
    let (env, ids) = nine(isolated());
    let seed = env.cached("artifacts").len();
    let first = env.replay(&[SEARCH.as_slice(), &["--jobs", "1"]].concat());
    assert!(first.stdout.starts_with(&ids[6][..7]), "{}", first.text());
    // Two ends, three of the seven between them, and one that changed as much as the culprit; both
    // sides of a comparison by element are compiled for their float64 shadows too, and the culprit to be
    // checked.
    let artifacts = env.cached("artifacts").len() - seed;
    assert!(artifacts <= 6 + 3 + 1, "{artifacts} artifacts");
    let before = made(&env);
    assert_eq!(env.replay(&SEARCH).stdout, first.stdout);
    assert_eq!(made(&env), before);
}

#[test]
fn what_has_the_bits_of_a_commit_that_was_compared_is_not_compared_again() {
    // From c3 on the values are rounded otherwise, from c9 on they are wrong.
    let versions = [[DIVIDED; 3].as_slice(), &[MULTIPLIED; 6], &[WRONG; 6]].concat();
    let (env, ids) = history(isolated(), &versions);
    let seed = env.cached("artifacts").len();
    let ends = ["bisect", "fixtures/tiny", "--good", "main~14", "--bad", "main", "--jobs", "1"];
    let run = env.replay(&ends);
    assert!(run.stdout.starts_with(&ids[9][..7]), "{}", run.text());
    // Two ends and what divides 14 candidates, and the culprit's parent; the shadows of the good
    // end, of the bad one, of those three that are rounded otherwise and of the culprit, which is checked.
    let artifacts = env.cached("artifacts").len() - seed;
    assert!(artifacts <= 2 + 4 + 1 + 6 + 1, "{artifacts} artifacts");
    let judgements = env.cached("judgements").len();
    // The noise of these four, three comparisons, whether the bad end depends on the order, and of the culprit how
    // long its call takes and what the checked replay found.
    assert_eq!(judgements, 4 + 3 + 1 + 2, "the bad end, one rounded otherwise, the culprit");
}

#[test]
fn a_search_finds_what_a_replay_finds() {
    // A search precompiles headers, a replay does not.
    let (searched, _) = nine(TestEnv::with_own_replays());
    let run = searched.replay(&SEARCH);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let (replayed, _) = nine(TestEnv::without_cache());
    for rev in ["main", "main~8"] {
        let words = ["fixtures/tiny", "--rev", rev, "--format", "json"];
        let document = |env: &TestEnv| {
            let mut document: Value = serde_json::from_str(&env.replay(&words).stdout).unwrap();
            document["run"].take();
            document
        };
        assert_eq!(document(&searched), document(&replayed));
    }
}

#[test]
fn a_full_disk_ends_a_search_without_an_answer_and_is_not_remembered() {
    // No file may grow beyond 200 KiB: the object of the commit in the middle does.
    let table = "static volatile char table[400000] = {1}; if (table[n] == 77) abort();";
    let (env, ids) = history(isolated(), &[RIGHT, (RIGHT.0, table), WRONG]);
    let words = ["bisect", "fixtures/tiny", "--good", "main~2", "--bad", "main", "--jobs", "1"];
    let program = env!("CARGO_BIN_EXE_replay");
    let script = format!("trap '' XFSZ; ulimit -f 200; exec {program:?} {}", words.join(" "));
    let mut command = Command::new("bash");
    let full = env.finish({
        env.settle(command.args(["-c", &script]));
        &mut command
    });
    assert_eq!((full.code, full.stdout.as_str()), (Some(128), ""), "{}", full.text());
    assert!(full.stderr.contains("File too large"), "{}", full.text());
    assert!(full.stderr.contains("hint: free disk space"), "{}", full.text());
    let run = env.replay(&words);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with(&ids[2][..7]), "{}", run.text());
    let tested = format!("{} good: identical", &ids[1][..7]);
    assert!(run.stderr.contains(&tested), "it is no fault of the commit: {}", run.text());
}

#[test]
fn a_search_that_is_killed_repeats_nothing_when_it_is_started_again() {
    let (env, ids) = nine(isolated());
    let mut done = BTreeMap::new();
    for pause_ms in [700, 1100, 600] {
        let mut command = env.command(&SEARCH);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(pause_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = made(&env);
        assert!(done.iter().all(|(path, at)| now.get(path) == Some(at)), "nothing is made twice");
        done = now;
    }
    let run = env.replay(&SEARCH);
    assert!(run.stdout.starts_with(&ids[6][..7]), "{}", run.text());
    let now = made(&env);
    assert!(done.iter().all(|(path, at)| now.get(path) == Some(at)), "nothing is made twice");
}

#[test]
fn entries_that_are_lost_or_damaged_are_made_again() {
    let (env, _) = history(isolated(), &[RIGHT, RIGHT, WRONG]);
    let search = ["bisect", "fixtures/tiny", "--good", "main~2", "--bad", "main"];
    let whole = env.replay(&search).stdout;
    for (number, path) in made(&env).keys().enumerate() {
        match number % 3 {
            0 => fs::remove_file(path).unwrap(),
            1 => fs::write(path, b"damaged").unwrap(),
            _ => {}
        }
    }
    assert_eq!(env.replay(&search).stdout, whole);
}

#[test]
fn two_searches_at_once_share_a_cache() {
    let (env, ids) = nine(isolated());
    let start = || env.command(&SEARCH).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let one = start().unwrap();
    let other = start().unwrap();
    for child in [one, other] {
        let run = env.read(&child.wait_with_output().unwrap());
        assert!(run.stdout.starts_with(&ids[6][..7]), "{}", run.text());
    }
}

#[test]
fn kernels_that_hang_crash_or_eat_memory_are_stepped_around() {
    let hang = (RIGHT.0, "for (volatile int on = 1; on;) {}");
    let crash = (RIGHT.0, "*(volatile int*)nullptr = 1;");
    let greedy = (
        RIGHT.0,
        "for (;;) { volatile char* p = (volatile char*)malloc(1 << 24); if (!p) abort(); \
         for (int i = 0; i < 1 << 24; i += 4096) p[i] = 1; }",
    );
    let versions = [RIGHT, RIGHT, hang, crash, greedy, RIGHT, WRONG, WRONG];
    let (env, ids) = history(TestEnv::new(), &versions);
    let limits = ["--timeout", "1", "--memory", "512M"];
    let ends = ["bisect", "fixtures/tiny", "--good", "main~7", "--bad", "main"];
    let run = env.replay(&[ends.as_slice(), &limits].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with(&ids[6][..7]), "{}", run.text());
    let failed = |good: &str, bad: &str| {
        let ends = ["bisect", "fixtures/tiny", "--on", "failed", "--good", good, "--bad", bad];
        env.replay(&[ends.as_slice(), &limits].concat())
    };
    let run = failed(&ids[1], &ids[2]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("timeout: still running in host code"), "{}", run.text());
    // What fails in another way is neither good nor bad.
    let run = failed(&ids[1], &ids[3]);
    assert_eq!(run.code, Some(125), "{}", run.text());
}
