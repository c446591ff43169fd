//! What is taken for a repository, from where, and that reading leaves it as it was.

use std::{fs, path::Path};

use insta::assert_snapshot;
use replay::history::History;

use super::{kernel_history, kernels, open, shown};
use crate::common::repo::TestRepo;

#[test]
fn a_linked_worktree_and_a_bare_clone_are_repositories() {
    let repo = kernel_history();
    let linked = repo.beside("linked");
    let bare = repo.beside("bare.git");
    repo.git(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap(), "v1"]);
    repo.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let linked = History::open(&linked).expect("a worktree");
    assert_eq!(linked.head().unwrap().id, open(&repo).resolve("v1").unwrap().id);
    let bare = History::open(&bare).expect("a bare repository");
    assert_eq!(bare.head().unwrap(), open(&repo).head().unwrap());
    assert_snapshot!(shown(&repo, bare.working_tree(&kernels())), @r"
    `/tmp/bare.git` has no working tree
    hint: name a revision with --rev
    ");
}

#[test]
fn the_repository_around_a_file_is_found() {
    let repo = kernel_history();
    let found = History::discover(&repo.root().join("src/loss.cu")).expect("a repository");
    assert_eq!(found.path(), fs::canonicalize(repo.root()).unwrap());
    let missing = History::discover(&repo.beside("home"));
    assert_snapshot!(shown(&repo, missing), @"
    no git repository around `/tmp/home`
    hint: make one with `git init`, or name one, or a bundle, with `repository` in replay.toml
    ");
}

#[test]
fn what_is_no_repository_is_refused_by_name() {
    let repo = kernel_history();
    let open = |name: &str| History::open(&repo.beside(name));
    assert_snapshot!(shown(&repo, open("home")), @"`/tmp/home` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("repo/src")), @"`/tmp/repo/src` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("repo/README.md")), @"`/tmp/repo/README.md` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("nothing")), @"
    failed to open `/tmp/nothing`
    caused by: No such file or directory (os error 2)
    hint: `repository` in replay.toml is a folder or a bundle on this machine, relative to replay.toml
    ");
}

#[test]
fn a_repository_of_sha256_is_refused() {
    let repo = TestRepo::with_options(&["--object-format=sha256"]);
    repo.commit_file("a", "a", "a");
    assert_snapshot!(shown(&repo, History::open(&repo.root())), @"`/tmp/repo` names its objects by SHA-256, only SHA-1 is supported");
    let bundle = repo.beside("all.bundle");
    repo.git(&["bundle", "create", "-q", bundle.to_str().unwrap(), "--all"]);
    assert_snapshot!(shown(&repo, History::open(&bundle)), @"`/tmp/all.bundle` names its objects by SHA-256, only SHA-1 is supported");
}

#[test]
fn an_empty_repository_says_so() {
    let repo = TestRepo::new();
    assert_snapshot!(shown(&repo, open(&repo).head()), @"`/tmp/repo` has no commits yet");
    assert_snapshot!(shown(&repo, open(&repo).resolve("HEAD")), @"`/tmp/repo` has no commits yet");
}

#[test]
fn replaced_objects_are_read_as_recorded_and_counted() {
    let repo = kernel_history();
    let head = repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(open(&repo).replaced(), 0);
    repo.git(&["replace", "--graft", "HEAD"]);
    let history = open(&repo);
    assert_eq!(history.replaced(), 1);
    let commit = history.head().unwrap();
    assert_eq!((commit.id.to_string(), commit.parents.len()), (head, 1));
}

#[test]
fn reading_changes_nothing_in_the_repository() {
    fn listing(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                listing(&path, into);
            } else {
                into.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    let repo = kernel_history();
    let list = || {
        let mut files = Vec::new();
        listing(&repo.root(), &mut files);
        files.sort();
        files
    };
    let before = list();
    let history = open(&repo);
    let head = history.head().unwrap();
    history.source_set(&head, &kernels()).unwrap();
    history.working_tree(&kernels()).unwrap();
    history.range("v1..main").unwrap();
    assert_eq!(list(), before);
}
