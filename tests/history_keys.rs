//! Keys of source sets in a long history, and objects that were damaged.

use std::{collections::HashSet, error::Error, fs, io::Write, process::Stdio};

use crate::common::repo::TestRepo;
use insta::assert_snapshot;
use replay::history::{CommitId, History, SourceSpec};

fn spec(sources: &[&str]) -> SourceSpec {
    let sources = sources.iter().map(|&path| path.into()).collect();
    SourceSpec { sources, ..SourceSpec::default() }
}

fn open(repo: &TestRepo) -> History {
    History::open(&repo.root()).expect("a repository")
}

fn three_files() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("include/loss.h", "#pragma once\n");
    repo.write("notes.txt", "text\n");
    repo.commit_file("src/loss.cu", "one\n", "Add the kernel");
    repo
}

#[test]
fn keys_of_many_commits_are_those_of_each() {
    let repo = three_files();
    let mut stream = String::from("reset refs/heads/long\nfrom refs/heads/main\n\n");
    for number in 0..1_200 {
        let path = if number % 10 == 3 { "src/loss.cu" } else { "notes.txt" };
        stream += "commit refs/heads/long\ncommitter t <t@example.com> 1700000000 +0000\ndata 0\n";
        let text = format!("{number}\n");
        stream += &format!("M 644 inline {path}\ndata {}\n{text}\n", text.len());
    }
    let mut git = repo.command(&repo.root());
    let mut git = git.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(git.wait().unwrap().success());
    let history = open(&repo);
    let kernels = spec(&["src/loss.cu"]);
    let ids: Vec<CommitId> =
        history.range("main..long").unwrap().iter().map(|commit| commit.id).collect();
    let both = spec(&["src", "notes.txt"]);
    let keys = history.source_keys(&ids, &[&kernels, &both]).unwrap();
    let fresh = open(&repo);
    for id in &ids {
        let one = [&kernels, &both].map(|spec| fresh.source_key(*id, spec).unwrap());
        assert_eq!(keys[id], one);
    }
    let distinct = |at: usize| keys.values().map(|keys| keys[at]).collect::<HashSet<_>>().len();
    assert_eq!((distinct(0), distinct(1)), (121, 1_200));
}

#[test]
fn a_source_whose_object_was_damaged_is_not_taken_for_it() {
    let repo = three_files();
    let object = |path: &str| {
        let id = repo.git(&["rev-parse", &format!("HEAD:{path}")]);
        (repo.root().join(".git/objects").join(&id[..2]).join(&id[2..]), id)
    };
    let (damaged, id) = object("src/loss.cu");
    let (other, _) = object("notes.txt");
    fs::remove_file(&damaged).unwrap();
    fs::copy(other, damaged).unwrap();
    let history = open(&repo);
    let error = history.source_set(&history.head().unwrap(), &spec(&["src/loss.cu"])).unwrap_err();
    assert!(!error.is_revision_fault());
    assert_snapshot!(error, @"failed to read `src/loss.cu`");
    let cause = error.source().unwrap().to_string();
    assert_snapshot!(cause.replace(&id, "[ID]"), @"its object [ID] is damaged");
}
