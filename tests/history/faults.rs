//! Files that a commit has but that cannot be read as sources: the fault is the revision's.

use std::{fs, os::unix::fs::symlink};

use insta::assert_snapshot;
use replay::history::{HistoryError, SourceSpec};

use super::repo::TestRepo;
use super::{error_text, kernel_history, kernels, open, spec};

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
    assert_snapshot!(fault_of(pointer, &kernels()), @r"
    revision SHORT has only a Git LFS pointer at `src/loss.cu`, not the file
    hint: replay reads git's own objects only
    ");
}

#[test]
fn a_submodule_is_the_revisions_fault() {
    let add = |repo: &TestRepo| {
        let other = TestRepo::new();
        other.commit_file("x.h", "x", "Add");
        repo.git(&["submodule", "--quiet", "add", other.root().to_str().unwrap(), "include/other"]);
    };
    assert_snapshot!(fault_of(add, &kernels()), @r"
    revision SHORT has a submodule at `include/other`, whose files are not in this repository
    hint: name folders without submodules in `sources` and `include`
    ");
    assert_snapshot!(fault_of(add, &spec(&["include/other/x.h"], &[])), @r"
    revision SHORT has a submodule at `include/other`, whose files are not in this repository
    hint: name folders without submodules in `sources` and `include`
    ");
}

#[test]
fn a_file_name_that_is_not_utf8_is_the_revisions_fault() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let write = |repo: &TestRepo| {
        fs::write(repo.root().join("include").join(OsStr::from_bytes(b"\xff.h")), "x").unwrap();
    };
    assert_snapshot!(fault_of(write, &kernels()), @"revision SHORT has a file name that is not UTF-8: `include/\u{fffd}.h`");
}
