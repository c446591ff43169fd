//! `--good snapshot`: the commit at which the outcome left what was recorded.

use std::fs;

use crate::bisect_cli::{DIVIDED, MULTIPLIED, WRONG, history, kernel};
use crate::common::env::{Run, TestEnv};

/// c0 and c1 as recorded between them, c2 rounded otherwise, c3 wrong; ids by number, the commit
/// of the snapshot last.
fn recorded() -> (TestEnv, Vec<String>) {
    recorded_in(TestEnv::new())
}

/// The same history in `env`.
fn recorded_in(env: TestEnv) -> (TestEnv, Vec<String>) {
    let (env, mut ids) = history(env, &[DIVIDED]);
    let mut command = env.command(&["fixtures/tiny"]);
    let accepted = env.finish(command.env("REPLAY_UPDATE", "always"));
    assert_eq!(accepted.code, Some(0), "{}", accepted.text());
    let snapshot = env.repo.commit("Accept a snapshot");
    let versions = [DIVIDED, MULTIPLIED, WRONG, WRONG];
    for (number, (factor, host)) in versions.into_iter().enumerate() {
        let text = kernel(factor, host, &format!("later {number}"));
        ids.push(env.repo.commit_file("k.cu", &text, &format!("c{}", number + 1)));
    }
    ids.push(snapshot);
    (env, ids)
}

fn masked(run: &Run, ids: &[String]) -> String {
    without_diff(&crate::bisect_cli::masked(&run.text(), ids))
}

/// What a search that found its commit says; which others it tested on the way depends on what was known.
fn told(run: &Run, ids: &[String]) -> String {
    assert_eq!(run.code, Some(0), "{}", run.text());
    without_diff(&crate::bisect_cli::masked(&run.stdout, ids))
}

/// The diff has a test of its own.
fn without_diff(text: &str) -> String {
    match (text.find("\n\ndiff "), text.find("\ngood is ")) {
        (Some(begin), Some(end)) => text[..begin].to_owned() + &text[end..],
        _ => text.to_owned(),
    }
}

#[test]
fn the_commit_that_left_the_snapshot_is_found() {
    // What an earlier search has left in a shared cache is listed, and changes which commits are tested.
    let (env, ids) = recorded_in(TestEnv::with_own_replays());
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main", "--jobs", "1"];
    let run = env.replay(&words);
    insta::assert_snapshot!(masked(&run, &ids), @"
    exit code 0
    --- stdout
    [C3] is the first bad commit: c3
      diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
      [C2], its parent, was tested: equivalent
    good is snapshots/tiny.cpu.snap; searched back to [C5], which last touched snapshots/tiny.cpu.snap
    --- stderr
    4 of 4 commits change a kernel, 1 tested at a time
    [C5] good: identical
    [C4] bad: diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
    [C2] good: equivalent: y moved by rel. 3.6e-8 (noise 1.9e-7), the float64 shadow is the same
    [C3] bad: diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
    ");
    let json = env.replay(&[words.as_slice(), &["--format", "json"]].concat());
    let second: serde_json::Value =
        serde_json::from_str(json.stdout.lines().nth(1).unwrap()).unwrap();
    assert_eq!(second["event"], "recorded");
    assert_eq!(second["back_to"][0]["id"], ids[5]);
    let again = env.replay(&words);
    assert_eq!(again.stdout, run.stdout);
    let bits = env.replay(&[words.as_slice(), &["--on", "bits"]].concat());
    assert!(bits.stdout.starts_with(&ids[2][..7]), "{}", bits.text());
}

#[test]
fn a_commit_whose_change_rounding_hides_has_left_the_snapshot_and_a_smaller_one_has_changed() {
    let (env, mut ids) = recorded();
    env.repo.git(&["reset", "-q", "--hard", &ids[2]]);
    for factor in ["(1.0f / (float)6.9999998)", "(1.0f / 6.999996f)"] {
        let text = kernel(&format!("x[i] * {factor}"), "", factor);
        ids.push(env.repo.commit_file("k.cu", &text, &format!("By {factor}")));
    }
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main", "--jobs", "1"];
    insta::assert_snapshot!(told(&env.replay(&words), &ids), @"
    [C7] is the first bad commit: By (1.0f / 6.999996f)
      diverged: y moved by rel. 5.3e-7 (noise 1.9e-7), hidden by rounding on this fixture: the float64 shadow moves by about rel. 6.1e-7
      [C6], its parent, was tested: equivalent
      [C2] was tested: equivalent (c2)
    good is snapshots/tiny.cpu.snap; searched back to [C5], which last touched snapshots/tiny.cpu.snap
    ");
    let less =
        ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main~1", "--on", "changed"];
    let changed = env.replay(&[less.as_slice(), &["--jobs", "1"]].concat());
    insta::assert_snapshot!(told(&changed, &ids), @"
    [C6] is the first bad commit: By (1.0f / (float)6.9999998)
      equivalent: y moved by rel. 3.6e-8 (noise 1.9e-7), the float64 shadow changed by about rel. 3.3e-8, less than the output can hold
      [C2], its parent, was tested: equivalent
    good is snapshots/tiny.cpu.snap; searched back to [C5], which last touched snapshots/tiny.cpu.snap
    ");
}

#[test]
fn a_snapshot_outside_of_the_history_is_sought_among_all_commits() {
    let (env, ids) = recorded();
    let outside = env.repo.beside("kept");
    // Its name is the fixture's path below the folder beside which it lies.
    fs::create_dir_all(outside.join("fixtures")).unwrap();
    let copy = outside.join("fixtures/tiny.cpu.snap");
    fs::copy(env.path("snapshots/tiny.cpu.snap"), copy).unwrap();
    let folder = outside.display().to_string();
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main"];
    let run = env.replay(&[words.as_slice(), &["--snapshots", &folder]].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with(&ids[3][..7]), "{}", run.text());
    let line = format!("searched back to {}, the first with the sources\n", &ids[0][..7]);
    assert!(run.stdout.ends_with(&line), "{}", run.text());
    let named = env.replay(&[&words[..4], &["main~2", "--bad", "main"]].concat());
    assert!(named.stdout.starts_with(&ids[3][..7]), "{}", named.text());
    assert!(named.stdout.ends_with(&format!("back to {}\n", &ids[2][..7])), "{}", named.text());
}

#[test]
fn a_snapshot_that_its_own_commit_does_not_match_is_refused() {
    let (env, mut ids) = recorded();
    let path = env.path("snapshots/tiny.cpu.snap");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n")).unwrap();
    ids.push(env.repo.commit("Touch the snapshot while it is wrong"));
    let text = kernel(WRONG.0, "", "last");
    ids.push(env.repo.commit_file("k.cu", &text, "c6"));
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main", "--jobs", "1"];
    insta::assert_snapshot!(masked(&env.replay(&words), &ids), @"
    exit code 1
    --- stdout
    refused: [C6] does not agree with the snapshot: diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
    hint: accept the snapshot anew if it is out of date, or go back to a commit that agrees with it: `--good snapshot REV`
    good is snapshots/tiny.cpu.snap; searched back to [C6], which last touched snapshots/tiny.cpu.snap
    --- stderr
    1 of 1 commits change a kernel, 1 tested at a time
    [C6] bad: diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
    [C7] bad: diverged: y moved by rel. 17 (noise 1.9e-7), the float64 shadow moves too
    ");
}

#[test]
fn a_snapshot_that_is_missing_or_stale_is_no_good_side() {
    let (env, _) = recorded();
    let words = ["bisect", "fixtures/tiny", "--good", "snapshot", "--bad", "main"];
    let bytes: Vec<u8> = [1f32, 2.0, 3.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("tiny", &[("x", replay::tensor::DType::F32, &[4], &bytes)]);
    insta::assert_snapshot!(env.replay(&words).text(), @r"
    exit code 128
    --- stderr
    error: snapshots/tiny.cpu.snap is of another content of tiny
    hint: name a good revision: a stale snapshot tells nothing
    ");
    fs::remove_dir_all(env.path("snapshots")).unwrap();
    insta::assert_snapshot!(env.replay(&words).text(), @r"
    exit code 128
    --- stderr
    error: there is no accepted snapshot snapshots/tiny.cpu.snap
    hint: name a good revision, or accept a snapshot: `REPLAY_UPDATE=new replay FIXTURE`, then `replay accept`
    ");
}
