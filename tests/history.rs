//! History read through git2, compared with what the git command line says.

mod faults;
mod graphs;
mod repositories;
mod revisions;
mod sources;

use std::error::Error;
use std::fs;

use crate::common::repo::TestRepo;
use replay::history::{History, HistoryError, SourceSpec};

fn spec(sources: &[&str], include: &[&str]) -> SourceSpec {
    let owned = |paths: &[&str]| paths.iter().map(|&path| path.into()).collect();
    SourceSpec { sources: owned(sources), include: owned(include), ..SourceSpec::default() }
}

fn kernels() -> SourceSpec {
    spec(&["src/loss.cu"], &["include"])
}

fn open(repo: &TestRepo) -> History {
    History::open(&repo.root()).expect("a repository")
}

/// Three commits of a kernel, a merged side branch, tags.
fn kernel_history() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("include/loss.h", "#pragma once\n");
    repo.commit_file("src/loss.cu", "one\n", "Add the kernel\n\nWith a body.");
    repo.git(&["tag", "-a", "v1", "-m", "first"]);
    repo.commit_file("README.md", "text\n", "Explain");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit_file("include/loss.h", "#pragma once\n// more\n", "Say more");
    repo.git(&["checkout", "-q", "main"]);
    repo.commit_file("src/loss.cu", "two\n", "Rewrite the kernel");
    repo.merge(&["side"], "Merge side");
    repo.git(&["tag", "light"]);
    repo.commit_file("notes.txt", "text\n", "Take notes");
    repo
}

/// Adds what `stream`, in the words of `git fast-import`, says.
fn import(repo: &TestRepo, stream: &str) {
    fs::write(repo.beside("stream"), stream).unwrap();
    let mut import = repo.command(&repo.root());
    import.args(["fast-import", "--quiet"]);
    import.stdin(fs::File::open(repo.beside("stream")).unwrap());
    assert!(import.status().unwrap().success());
}

fn error_text(error: &HistoryError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!("\ncaused by: {cause}");
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text += &format!("\nhint: {hint}");
    }
    text
}

/// The text of an error, with the temporary folder's name taken out.
fn shown<T: std::fmt::Debug>(repo: &TestRepo, result: Result<T, HistoryError>) -> String {
    let folder = repo.beside("");
    error_text(&result.expect_err("an error")).replace(folder.to_str().expect("UTF-8"), "/tmp/")
}
