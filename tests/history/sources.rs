//! The files that a specification names, at a commit or on disk, their keys and their differences.

use std::{fs, os::unix::fs::symlink};

use insta::assert_snapshot;
use replay::harness::SourcePath;
use replay::history::{CommitId, SourceSet, SourceSpec, source_set_from_dir};

use super::{error_text, kernel_history, kernels, open, shown, spec};
use crate::common::repo::TestRepo;

fn paths(set: &SourceSet) -> Vec<String> {
    set.files.iter().map(|file| format!("{:?} {}", file.role, file.path)).collect()
}

#[test]
fn a_source_set_is_the_named_blobs() {
    let repo = kernel_history();
    let history = open(&repo);
    let head = history.head().unwrap();
    let set = history.source_set(&head, &kernels()).unwrap();
    assert_eq!(paths(&set), ["Include include/loss.h", "Source src/loss.cu"]);
    assert_eq!(&*set.files[1].content, b"two\n");
    let both = history.source_set(&head, &spec(&["src"], &["./src/", "include/../src"])).unwrap();
    assert_eq!(paths(&both), ["Source src/loss.cu"]);
}

#[test]
fn equal_files_are_the_same_set_in_any_commit_tree_or_folder() {
    let repo = kernel_history();
    let history = open(&repo);
    let set = |rev: &str| history.source_set(&history.resolve(rev).unwrap(), &kernels()).unwrap();
    assert_eq!(set("HEAD").id, set("HEAD~1").id);
    assert_ne!(set("v1").id, set("HEAD").id);
    assert_eq!(history.working_tree(&kernels()).unwrap(), set("HEAD"));
    assert_eq!(source_set_from_dir(&repo.root(), &kernels()).unwrap(), set("HEAD"));
    repo.git(&["update-index", "--chmod=+x", "src/loss.cu"]);
    repo.tick();
    repo.git(&["commit", "-q", "-m", "Make executable"]);
    assert_eq!(set("main").id, set("main~1").id);
}

#[test]
fn a_prefix_moves_the_whole_project() {
    let repo = TestRepo::new();
    repo.write("kernels/loss/src/loss.cu", "one\n");
    repo.write("common/a.h", "a\n");
    repo.commit("Add");
    let spec = SourceSpec { prefix: "kernels/loss".into(), ..spec(&["src"], &["../../common"]) };
    let history = open(&repo);
    let set = history.source_set(&history.head().unwrap(), &spec).unwrap();
    assert_eq!(paths(&set), ["Include ../../common/a.h", "Source src/loss.cu"]);
    let alone = SourceSpec { include: vec![], ..spec.clone() };
    let here = source_set_from_dir(&repo.root().join("kernels/loss"), &self::spec(&["src"], &[]));
    assert_eq!(history.working_tree(&alone).unwrap().id, here.unwrap().id);
    let outside = SourceSpec { include: vec!["../../../x".into()], ..spec };
    assert_snapshot!(shown(&repo, history.working_tree(&outside)), @"source path `../../../x` leads out of the repository");
    assert_snapshot!(shown(&repo, history.working_tree(&self::spec(&["/etc/passwd"], &[]))), @"source path `/etc/passwd` leads out of the repository");
}

#[test]
fn ignored_files_are_no_part_of_the_working_tree() {
    let repo = TestRepo::new();
    repo.write(".gitignore", "*.o\nbuild/\n");
    repo.write("src/loss.cu", "one\n");
    repo.commit("Add");
    repo.write("src/loss.o", "object");
    repo.write("src/build/x.h", "generated");
    repo.write("src/new.cu", "new");
    let set = open(&repo).working_tree(&spec(&["src"], &[])).unwrap();
    assert_eq!(paths(&set), ["Source src/loss.cu", "Source src/new.cu"]);
}

#[test]
fn a_revision_without_the_source_names_paths_like_it() {
    let repo = kernel_history();
    let history = open(&repo);
    let error =
        history.source_set(&history.head().unwrap(), &spec(&["kernels/loss.cu"], &[])).unwrap_err();
    assert!(error.is_revision_fault());
    assert_snapshot!(error_text(&error), @r"
    revision d74ee25 has no file or folder `kernels/loss.cu`
    hint: did you mean `src/loss.cu`?
    ");
    let error = history.working_tree(&spec(&["nothing.cu"], &[])).unwrap_err();
    assert!(error.is_revision_fault());
    assert_snapshot!(shown::<()>(&repo, Err(error)), @"working tree `/tmp/repo` has no file or folder `nothing.cu`");
}

/// A kernel, a header and a text, all of which have moved since their first commit.
fn moved_history() -> (TestRepo, CommitId) {
    let repo = TestRepo::new();
    repo.write("k.cu", "a kernel that is long enough\nto be seen again\n");
    repo.write("include/k.h", "a header that is long enough\nto be seen again\n");
    repo.write("other.cu", "stays\n");
    let first = repo.commit("Begin");
    fs::create_dir(repo.root().join("kernels")).unwrap();
    repo.git(&["mv", "k.cu", "kernels/k\u{e9}.cu"]);
    repo.git(&["mv", "include", "headers"]);
    repo.commit("Move");
    (repo, first.parse().unwrap())
}

#[test]
fn a_path_that_git_sees_renamed_is_told_with_the_line_that_names_both() {
    let (repo, first) = moved_history();
    let history = open(&repo);
    let told = |spec: &SourceSpec| error_text(&history.source_set(first, spec).unwrap_err());
    assert_snapshot!(told(&spec(&["other.cu", "kernels/k\u{e9}.cu"], &[])), @r#"
    revision 888fab5 has no file or folder `kernels/ké.cu`: git sees it at `k.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = ["other.cu", ["kernels/ké.cu", "k.cu"]]
    "#);
    assert_snapshot!(told(&spec(&["other.cu"], &["headers"])), @r#"
    revision 888fab5 has no file or folder `headers`: git sees it at `include` there
    hint: of several names the first that is there is taken; in replay.toml: include = [["headers", "include"]]
    "#);
    let tree = SourceSpec { tree: vec!["headers".into()], ..SourceSpec::default() };
    assert_snapshot!(told(&tree), @r#"
    revision 888fab5 has no file or folder `headers`: git sees it at `include` there
    hint: of several names the first that is there is taken; in replay.toml: tree = [["headers", "include"]]
    "#);
    let two = SourcePath::from("kernel/loss.cu").or("kernels/k\u{e9}.cu".to_owned());
    let several = SourceSpec { sources: vec![two, "other.cu".into()], ..SourceSpec::default() };
    assert_snapshot!(told(&several), @r#"
    revision 888fab5 has no file or folder `kernel/loss.cu` or `kernels/ké.cu`: git sees it at `k.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["kernel/loss.cu", "kernels/ké.cu", "k.cu"], "other.cu"]
    "#);
}

#[test]
fn a_path_that_was_renamed_twice_and_changed_between_is_followed_through_both_commits() {
    let repo = TestRepo::new();
    repo.write("a.cu", "first line\nsecond line\nthird line\n");
    let first: CommitId = repo.commit("Begin").parse().unwrap();
    for (from, to) in [("a.cu", "b.cu"), ("b.cu", "c.cu")] {
        repo.git(&["mv", from, to]);
        repo.commit("Move");
        repo.commit_file(to, &format!("{to} is written\nfrom nothing\n"), "Rewrite");
    }
    let history = open(&repo);
    let told = |commit: CommitId, name: &str| {
        error_text(&history.source_set(commit, &spec(&[name], &[])).unwrap_err())
    };
    assert_snapshot!(told(first, "c.cu"), @r#"
    revision 608b073 has no file or folder `c.cu`: git sees it at `a.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["c.cu", "a.cu"]]
    "#);
    assert_snapshot!(told(history.head().unwrap().id, "b.cu"), @r#"
    revision ea898f3 has no file or folder `b.cu`: git sees it at `c.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["b.cu", "c.cu"]]
    "#);
}

#[test]
fn a_path_that_was_moved_in_the_working_tree_is_told_with_the_line_that_names_both() {
    let repo = TestRepo::new();
    repo.write("k.cu", "a kernel that is long enough\nto be seen again\n");
    repo.write("include/k.h", "a header that is long enough\nto be seen again\n");
    repo.write("staged.cu", "another kernel that is long enough\nto be told from the first\n");
    repo.commit("Begin");
    let root = repo.root();
    fs::create_dir(root.join("src")).unwrap();
    fs::rename(root.join("k.cu"), root.join("src/k.cu")).unwrap();
    fs::rename(root.join("include"), root.join("headers")).unwrap();
    repo.git(&["mv", "staged.cu", "src/staged.cu"]);
    let history = open(&repo);
    let told = |spec: &SourceSpec| shown(&repo, history.working_tree(spec));
    assert_snapshot!(told(&spec(&["k.cu", "src/staged.cu"], &[])), @r#"
    working tree `/tmp/repo` has no file or folder `k.cu`: git sees it at `src/k.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["k.cu", "src/k.cu"], "src/staged.cu"]
    "#);
    assert_snapshot!(told(&spec(&["staged.cu"], &[])), @r#"
    working tree `/tmp/repo` has no file or folder `staged.cu`: git sees it at `src/staged.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["staged.cu", "src/staged.cu"]]
    "#);
    assert_snapshot!(told(&spec(&["src"], &["include"])), @r#"
    working tree `/tmp/repo` has no file or folder `include`: git sees it at `headers` there
    hint: of several names the first that is there is taken; in replay.toml: include = [["include", "headers"]]
    "#);
    repo.commit("Move");
    assert_snapshot!(told(&spec(&["k.cu"], &[])), @r#"
    working tree `/tmp/repo` has no file or folder `k.cu`: git sees it at `src/k.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["k.cu", "src/k.cu"]]
    "#);
}

#[test]
fn a_folder_of_a_prefix_that_moved_is_told_relative_to_it() {
    let (repo, first) = moved_history();
    let below = SourceSpec { prefix: "headers".to_owned(), ..spec(&["."], &[]) };
    let error = open(&repo).source_set(first, &below).unwrap_err();
    assert_snapshot!(error_text(&error), @r#"
    revision 888fab5 has no file or folder `headers`: git sees it at `include` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [[".", "../include"]]
    "#);
}

#[test]
fn symlinks_within_the_tree_are_followed() {
    let repo = kernel_history();
    fs::create_dir_all(repo.root().join("lib/deep")).unwrap();
    symlink("../../src", repo.root().join("lib/deep/kernels")).unwrap();
    symlink("..", repo.root().join("lib/deep/up")).unwrap();
    symlink("lib/deep/kernels/loss.cu", repo.root().join("main.cu")).unwrap();
    symlink(".", repo.root().join("include/project")).unwrap();
    repo.commit("Add symlinks");
    let history = open(&repo);
    let head = history.head().unwrap();
    let spec = spec(&["main.cu", "lib/deep/kernels"], &["include"]);
    let set = history.source_set(&head, &spec).unwrap();
    assert_eq!(
        paths(&set),
        [
            "Include include/loss.h",
            "Include include/project/loss.h",
            "Source lib/deep/kernels/loss.cu",
            "Source main.cu",
        ]
    );
    assert!(set.files[2..].iter().all(|file| &*file.content == b"two\n"));
    assert_eq!(history.working_tree(&spec).unwrap(), set);
    let up =
        history.source_set(&head, &self::spec(&["lib/deep/up/deep/kernels/loss.cu"], &[])).unwrap();
    assert_eq!(&*up.files[0].content, b"two\n");
}

#[test]
fn a_key_sees_what_changes_behind_a_symlink() {
    let repo = kernel_history();
    symlink("../src/loss.cu", repo.root().join("include/loss.cu")).unwrap();
    repo.commit("Add a symlink");
    repo.commit_file("src/loss.cu", "three\n", "Change its target");
    let history = open(&repo);
    let key = |rev: &str| {
        history.source_key(&history.resolve(rev).unwrap(), &spec(&["include"], &[])).unwrap()
    };
    assert_ne!(key("HEAD"), key("HEAD~1"));
    assert_ne!(key("HEAD~1"), key("HEAD~2"));
    assert_eq!(key("HEAD~2"), key("HEAD~3"));
}

#[test]
fn equal_keys_are_equal_source_sets() {
    let repo = kernel_history();
    let history = open(&repo);
    let commits = history.range("main").unwrap();
    for spec in [kernels(), spec(&["src"], &[]), spec(&["notes.txt"], &[]), spec(&["."], &[])] {
        for a in &commits {
            for b in &commits {
                let equal_keys =
                    history.source_key(a, &spec).unwrap() == history.source_key(b, &spec).unwrap();
                match (history.source_set(a, &spec), history.source_set(b, &spec)) {
                    (Ok(a), Ok(b)) => assert_eq!(equal_keys, a == b),
                    (a, b) => assert_eq!(equal_keys, a.is_err() && b.is_err()),
                }
            }
        }
    }
}

#[test]
fn files_need_not_be_utf8() {
    let repo = kernel_history();
    repo.write("src/loss.cu", b"// \xff\n");
    repo.commit("Write Latin-1");
    let history = open(&repo);
    let set = history.source_set(&history.head().unwrap(), &kernels()).unwrap();
    assert_eq!(&*set.files[1].content, b"// \xff\n");
}

#[test]
fn a_diff_shows_the_source_set_alone() {
    let repo = kernel_history();
    repo.write("other.txt", "x");
    repo.commit_file("src/loss.cu", "three\n", "Change two files");
    let history = open(&repo);
    let parent = history.resolve("HEAD^").unwrap();
    let head = history.head().unwrap();
    let diff = history.diff(Some(&parent), &head, &kernels()).unwrap();
    assert_eq!(
        diff.trim_end(),
        repo.git(&["diff", "HEAD^", "HEAD", "--", "src/loss.cu", "include"])
    );
    assert!(diff.contains("-two\n+three\n"));
    let first = history.resolve("v1").unwrap();
    let new = history.diff(None, &first, &spec(&["."], &[])).unwrap();
    assert!(new.contains("+++ b/include/loss.h") && new.contains("+one"), "{new}");
}
