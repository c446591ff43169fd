//! Files that a commit has but that cannot be read as sources: the fault is the revision's.

use std::{fs, os::unix::fs::symlink};

use insta::assert_snapshot;
use replay::history::{History, HistoryError, SourceSet, SourceSpec};

use super::{error_text, kernel_history, kernels, open, spec};
use crate::common::repo::TestRepo;

/// The error for `spec` after `change` was committed; the same fault must show on disk.
fn fault_of(change: impl Fn(&TestRepo), spec: &SourceSpec) -> String {
    let repo = kernel_history();
    change(&repo);
    repo.commit("Break it");
    let history = open(&repo);
    let head = history.head().unwrap();
    let error = history.source_set(&head, spec).unwrap_err();
    assert!(error.is_revision_fault());
    history.source_key(&head, spec).expect("a key nevertheless");
    let HistoryError::Unusable { fault, .. } = &error else { panic!("{error}") };
    let on_disk = history.working_tree(spec).unwrap_err();
    assert!(matches!(on_disk, HistoryError::Unusable { fault: same, .. } if same == *fault));
    error_text(&error).replace(&head.short, "SHORT")
}

fn link(path: &'static str, target: &'static str) -> impl Fn(&TestRepo) {
    move |repo| symlink(target, repo.root().join(path)).unwrap()
}

#[test]
fn a_symlink_that_leads_nowhere_good_is_the_revisions_fault() {
    let headers = spec(&[], &["include"]);
    assert_snapshot!(fault_of(link("include/abs.h", "/etc/passwd"), &headers), @"revision SHORT has a symlink `include/abs.h` that leads outside, to `/etc/passwd`");
    assert_snapshot!(fault_of(link("include/up.h", "../../x.h"), &headers), @"revision SHORT has a symlink `include/up.h` that leads outside, to `../../x.h`");
    assert_snapshot!(fault_of(link("include/gone.h", "none.h"), &headers), @"revision SHORT has a symlink `include/gone.h` to `none.h`, which does not exist");
    assert_snapshot!(fault_of(link("include/self.h", "self.h"), &headers), @"revision SHORT has a symlink `include/self.h` that leads back to itself");
    assert_snapshot!(fault_of(link("main.cu", "src/loss.cu/x"), &spec(&["main.cu"], &[])), @"revision SHORT has a symlink `main.cu` to `src/loss.cu/x`, which does not exist");
}

#[test]
fn an_lfs_pointer_is_the_revisions_fault() {
    let pointer = |repo: &TestRepo| {
        repo.write(
            "src/loss.cu",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        );
    };
    assert_snapshot!(fault_of(pointer, &kernels()), @"
    revision SHORT has only a Git LFS pointer at `src/loss.cu`, not the file
    hint: git's own objects are read, not those of LFS: check the revision out, and replay the working tree, without --rev
    ");
}

#[test]
fn a_submodule_among_the_sources_is_the_revisions_fault() {
    let add = |repo: &TestRepo| {
        let other = TestRepo::new();
        other.commit_file("x.h", "x", "Add");
        repo.git(&["submodule", "--quiet", "add", other.root().to_str().unwrap(), "include/other"]);
    };
    let told = fault_of(add, &spec(&["include/other/x.h"], &[]));
    assert_eq!(told, fault_of(add, &spec(&["include"], &[])));
    assert_snapshot!(told, @r"
    revision SHORT has a submodule at `include/other`, whose files are not in this repository
    hint: name folders without submodules in `sources`; a copy of its files outside of the repository serves as headers for every revision: `system_include`, or `overlay` for device code
    ");
}

#[test]
fn a_submodule_among_the_headers_is_absent_like_any_header() {
    let repo = kernel_history();
    let other = TestRepo::new();
    other.commit_file("x.h", "x", "Add");
    let before = open(&repo);
    let before = before.source_set(&before.head().unwrap(), &kernels()).unwrap();
    repo.git(&["submodule", "--quiet", "add", other.root().to_str().unwrap(), "include/other"]);
    symlink("other/x.h", repo.root().join("include/linked.h")).unwrap();
    repo.commit("Add a submodule");
    let history = open(&repo);
    let head = history.head().unwrap();
    for named in
        [kernels(), spec(&["src"], &["include/other"]), spec(&["src"], &["include/other/deep"])]
    {
        let set = history.source_set(&head, &named).unwrap();
        let paths =
            |set: &SourceSet| set.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        assert!(paths(&set).iter().all(|path| paths(&before).contains(path)), "{:?}", paths(&set));
        assert!(set.submodules.contains(&"include/other".to_owned()), "{:?}", set.submodules);
        assert_eq!(set, history.working_tree(&named).unwrap());
        history.source_key(&head, &named).unwrap();
    }
}

#[test]
fn a_file_name_that_is_not_utf8_is_the_revisions_fault() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let write = |repo: &TestRepo| {
        fs::write(repo.root().join("include").join(OsStr::from_bytes(b"\xff.h")), "x").unwrap();
    };
    assert_snapshot!(fault_of(write, &kernels()), @"revision SHORT has a file name that is not UTF-8: `include/\u{fffd}.h`");
}

#[test]
fn a_file_that_no_source_can_need_may_have_any_name() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let repo = kernel_history();
    let whole = SourceSpec { tree: vec!["".into()], ..kernels() };
    let history = open(&repo);
    let before = history.source_set(&history.head().unwrap(), &kernels()).unwrap();
    for name in [b"\xff.txt".as_slice(), b"\xff", b"a\\b.txt", b"two\nlines"] {
        fs::write(repo.root().join("include").join(OsStr::from_bytes(name)), "x").unwrap();
    }
    fs::create_dir(repo.root().join(OsStr::from_bytes(b"include/\xfe"))).unwrap();
    fs::write(repo.root().join(OsStr::from_bytes(b"include/\xfe/x.h")), "x").unwrap();
    repo.commit("Odd names");
    let history = open(&repo);
    let head = history.head().unwrap();
    assert_eq!(history.source_set(&head, &kernels()).unwrap(), before);
    assert_eq!(history.working_tree(&kernels()).unwrap(), before);
    history.source_key(&head, &kernels()).unwrap();
    let seen = history.source_set(&head, &whole).unwrap();
    let odd = |name: &str| seen.tree.iter().any(|file| file.path == name);
    assert!(odd("include/two\nlines") && odd("include/a\\b.txt"), "{:?}", seen.tree);
}

#[test]
fn a_name_that_leads_elsewhere_is_the_revisions_fault() {
    // git's own commands make no such trees; others do.
    let hidden = |name: &'static str| {
        move |repo: &TestRepo| {
            let blob = repo.git(&["rev-parse", "HEAD:src/loss.cu"]);
            let inner = tree(repo, &format!("100644 blob {blob}\t{name}\n"));
            let outer = tree(repo, &format!("040000 tree {inner}\tsrc\n"));
            let commit = repo.git(&["commit-tree", &outer, "-p", "HEAD", "-m", "Odd"]);
            repo.git(&["reset", "-q", "--soft", &commit]);
        }
    };
    let sources = spec(&["src"], &[]);
    let quoted = "\"a\\\"b.cu\"";
    for name in ["..", ".git", quoted] {
        let fault = revision_fault(hidden(name), &sources);
        let found = if name == quoted { "a\\\"b.cu" } else { name };
        assert_eq!(
            fault,
            format!("revision SHORT has a name that no source can have: `src/{found}`")
        );
    }
}

/// `git mktree`, which checks no names.
fn tree(repo: &TestRepo, entries: &str) -> String {
    use std::io::Write;
    let mut command = repo.command(&repo.root());
    command.arg("mktree").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(entries.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The fault of the commit at HEAD after `change`, which has committed.
fn revision_fault(change: impl Fn(&TestRepo), spec: &SourceSpec) -> String {
    let repo = kernel_history();
    change(&repo);
    let history = open(&repo);
    let head = history.head().unwrap();
    let error = history.source_set(&head, spec).unwrap_err();
    assert!(error.is_revision_fault());
    error_text(&error).replace(&head.short, "SHORT")
}

#[test]
fn a_file_of_gigabytes_is_refused_before_it_is_read() {
    // Only the first bytes of the object are there: a loose object of 3 GiB, whose content is missing.
    let grow = |repo: &TestRepo| {
        let head = b"blob 3221225472\0";
        let mut object = vec![0x78, 0x01, 0x00];
        object.extend(1000_u16.to_le_bytes());
        object.extend((!1000_u16).to_le_bytes());
        object.extend(head);
        object.resize(7 + 1000, b'x');
        let id = "aa00000000000000000000000000000000000000";
        let folder = repo.root().join(".git/objects").join(&id[..2]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(&id[2..]), object).unwrap();
        let inner = tree(repo, &format!("100644 blob {id}\tloss.cu\n"));
        let outer = tree(repo, &format!("040000 tree {inner}\tsrc\n"));
        let commit = repo.git(&["commit-tree", &outer, "-p", "HEAD", "-m", "Large"]);
        repo.git(&["reset", "-q", "--soft", &commit]);
    };
    let fault = revision_fault(grow, &spec(&["src"], &[]));
    assert_snapshot!(fault, @"
    revision SHORT has a file of 3221225472 bytes at `src/loss.cu`, more than the 268435456 that are read
    hint: name the files that the kernels need in `sources` and `include`, or in `tree`
    ");
    let repo = kernel_history();
    fs::File::create(repo.root().join("src/loss.cu")).unwrap().set_len(3 << 30).unwrap();
    let error = open(&repo).working_tree(&kernels()).unwrap_err();
    assert!(error.is_revision_fault());
}

#[test]
fn folders_without_end_are_the_revisions_fault() {
    let repo = kernel_history();
    let blob = repo.git(&["rev-parse", "HEAD:src/loss.cu"]);
    let mut inner = tree(&repo, &format!("100644 blob {blob}\tk.cu\n"));
    for _ in 0..200 {
        inner = tree(&repo, &format!("040000 tree {inner}\ta\n"));
    }
    let commit = repo.git(&["commit-tree", &inner, "-m", "Deep"]);
    let history = open(&repo);
    let commit = history.resolve(&commit).unwrap();
    let error = history.source_set(&commit, &spec(&["a"], &[])).unwrap_err();
    assert!(error.is_revision_fault());
    assert_snapshot!(error_text(&error).replace(&commit.short, "SHORT"), @"revision SHORT has folders in more than 128 folders at `a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/...`");
    history.source_key(&commit, &spec(&["a"], &[])).unwrap();
}

#[test]
fn the_working_tree_is_a_revision_that_was_checked_out() {
    let repo = kernel_history();
    let history = open(&repo);
    let fault = |spec: &SourceSpec| {
        let error = history.working_tree(spec).unwrap_err();
        assert!(error.is_revision_fault());
        error_text(&error).replace(repo.root().to_str().unwrap(), "ROOT")
    };
    assert_snapshot!(fault(&spec(&["src/los.cu"], &[])), @"
    working tree `ROOT` has no file or folder `src/los.cu`
    hint: did you mean `src/loss.cu` or `src`?
    ");
    repo.write("src/loss.cu", "version https://git-lfs.github.com/spec/v1\n");
    assert_snapshot!(fault(&kernels()), @"
    working tree `ROOT` has only a Git LFS pointer at `src/loss.cu`, not the file
    hint: fetch the files: git lfs pull
    ");
    std::fs::remove_file(repo.root().join("src/loss.cu")).unwrap();
    pipe(&repo.root().join("src/loss.cu"));
    assert_snapshot!(fault(&kernels()), @"working tree `ROOT` has a pipe at `src/loss.cu`, not a file");
}

fn pipe(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_that_gits_library_would_wait_for_are_refused() {
    for name in ["config", "shallow", "info/grafts", "index"] {
        let repo = kernel_history();
        let path = repo.root().join(".git").join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        pipe(&path);
        let error = History::discover(&repo.root()).map(drop).unwrap_err();
        assert!(error_text(&error).ends_with("caused by: it is a pipe, not a file"), "{error}");
    }
    let repo = kernel_history();
    pipe(&repo.root().join(".gitignore"));
    let error = open(&repo).working_tree(&spec(&["src"], &[])).unwrap_err();
    assert!(error_text(&error).ends_with("caused by: it is a pipe, not a file"), "{error}");
}

#[test]
fn an_object_that_is_gone_is_not_an_unknown_revision() {
    let repo = kernel_history();
    let gone = repo.git(&["rev-parse", "HEAD~1"]);
    let path = repo.root().join(".git/objects").join(&gone[..2]).join(&gone[2..]);
    std::fs::remove_file(path).unwrap();
    let history = open(&repo);
    let told = |rev: &str| {
        let text = error_text(&history.resolve(rev).unwrap_err());
        text.replace(&gone, "GONE")
    };
    assert_snapshot!(told("main~1"), @"
    failed to read GONE, which `main~1` leads to
    caused by: object not found - no match for id (GONE)
    hint: the repository is damaged or incomplete; look at it with: git fsck
    ");
    let head = repo.git(&["rev-parse", "HEAD"]);
    std::fs::remove_file(repo.root().join(".git/objects").join(&head[..2]).join(&head[2..]))
        .unwrap();
    let history = open(&repo);
    assert_snapshot!(error_text(&history.head().unwrap_err()).replace(&head, "HEAD-ID"), @"
    failed to read HEAD-ID, which `HEAD` leads to
    caused by: object not found - no match for id (HEAD-ID)
    hint: the repository is damaged or incomplete; look at it with: git fsck
    ");
}
