//! Histories that are no line: merges, first parents, clones that end early.

use crate::bisect_cli::{RIGHT, WRONG, history, kernel};
use crate::common::env::{Run, TestEnv};

fn search(env: &TestEnv, ends: &[&str]) -> Run {
    env.replay(&[&["bisect", "fixtures/tiny"], ends].concat())
}

/// The text with numbers in place of ids.
fn masked(run: &Run, ids: &[String]) -> String {
    let mut text = run.text();
    for (number, id) in ids.iter().enumerate() {
        let name = format!("[C{number}]");
        text = text.replace(id, &name).replace(&id[..7], &name);
    }
    text
}

/// A commit with these sources behind `parents`, on `main`.
fn merge(env: &TestEnv, parents: &[&str], text: &str) -> String {
    env.repo.write("k.cu", text);
    env.repo.tick();
    env.repo.git(&["add", "-A"]);
    let tree = env.repo.git(&["write-tree"]);
    let parents = parents.iter().flat_map(|parent| ["-p", parent]);
    let words: Vec<&str> =
        ["commit-tree", &tree, "-m", "Merge"].into_iter().chain(parents).collect();
    let id = env.repo.git(&words);
    env.repo.git(&["reset", "-q", "--hard", &id]);
    id
}

#[test]
fn first_parents_lead_to_the_merge_and_all_parents_to_the_commit_that_it_brought() {
    let (env, mut ids) = history(TestEnv::new(), &[RIGHT, RIGHT]);
    env.repo.git(&["checkout", "-q", "-b", "side", "main~1"]);
    ids.push(env.repo.commit_file("k.cu", &kernel(WRONG.0, "", "side"), "Side"));
    env.repo.git(&["checkout", "-q", "main"]);
    ids.push(merge(&env, &[&ids[1], &ids[2]], &kernel(WRONG.0, "", "merged")));
    let ends = ["--good", &ids[0], "--bad", "main"];
    let all = search(&env, &ends);
    assert_eq!(all.code, Some(0), "{}", all.text());
    assert!(
        all.stdout.starts_with(&format!("{} is the first bad", &ids[2][..7])),
        "{}",
        all.text()
    );
    let first = search(&env, &[ends.as_slice(), &["--first-parent"]].concat());
    assert_eq!(first.code, Some(0), "{}", first.text());
    let line = format!("{} is the first bad", &ids[3][..7]);
    assert!(first.stdout.starts_with(&line), "{}", first.text());
}

#[test]
fn good_that_turns_bad_twice_is_told_with_every_change() {
    let (env, mut ids) = history(TestEnv::new(), &[RIGHT, WRONG, RIGHT, RIGHT]);
    // The good end is the other parent, and the fix is behind it.
    ids.push(merge(&env, &[&ids[3], &ids[1]], &kernel(WRONG.0, "", "merged")));
    let run = search(&env, &["--good", &ids[3], "--bad", "main", "--jobs", "1"]);
    insta::assert_snapshot!(masked(&run, &ids), @"
    exit code 1
    --- stdout
    no single commit is to blame: good turns bad more than once between the ends
      the search ended at [C4], whose parent [C1] is bad too

    [C4] Merge
      diverged: y (the mathematics changed)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C3]

    1 change at 1 commit of 1 commit, 3 variants replayed
    --- stderr
    1 of 1 commits change a kernel, 1 tested at a time
    [C3] good: identical
    [C4] bad: diverged: y (wrong)
    [C1] bad: diverged: y (wrong)
    ");
}

#[test]
fn a_clone_that_ends_before_the_good_end_is_no_history_to_search() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, RIGHT, WRONG, WRONG]);
    let origin = env.repo.root();
    let shallow = env.repo.beside("shallow");
    let url = format!("file://{}", origin.display());
    let to = shallow.display().to_string();
    env.repo.git(&["clone", "-q", "--depth", "2", &url, &to]);
    // The harness names the clone; the fixture and the environment stay.
    let harness = env.path("replay.toml");
    let text = std::fs::read_to_string(&harness).unwrap();
    std::fs::write(&harness, format!("repository = {to:?}\n{text}")).unwrap();
    let missing = search(&env, &["--good", "main~3", "--bad", "main"]);
    insta::assert_snapshot!(masked(&missing, &ids), @r"
    exit code 128
    --- stderr
    error: shallow clone: commit [C3] is here, its parent [C2] is not
    hint: fetch the whole history: git fetch --unshallow
    ");
    let unknown = search(&env, &["--good", &ids[1], "--bad", "main"]);
    insta::assert_snapshot!(masked(&unknown, &ids), @r"
    exit code 128
    --- stderr
    error: unknown revision `[C1]`
    hint: this clone is shallow; fetch the whole history: git fetch --unshallow
    ");
    // The good end was fetched by itself: what lies between is missing.
    env.repo.git_in(&shallow, &["fetch", "-q", "--depth", "1", "origin", &ids[1]]);
    let gap = search(&env, &["--good", &ids[1], "--bad", "main"]);
    insta::assert_snapshot!(masked(&gap, &ids), @r"
    exit code 128
    --- stderr
    error: shallow clone: commit [C3] is here, its parent [C2] is not
    hint: fetch the whole history: git fetch --unshallow
    ");
}
