//! What words name which commit, and what is said where they name none.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use replay::history::HistoryError;

use super::{error_text, import, kernel_history, open, shown};
use crate::common::repo::TestRepo;

#[test]
fn revisions_mean_what_git_rev_parse_says() {
    let repo = kernel_history();
    let history = open(&repo);
    let full = repo.git(&["rev-parse", "HEAD~1"]);
    let described = repo.git(&["describe", "HEAD"]);
    let forms = [
        "HEAD",
        "@",
        "HEAD~2",
        "HEAD^",
        "HEAD~1^2",
        "HEAD^^2~1",
        "v1",
        "v1^{}",
        "v1^{commit}",
        "v1^0",
        "tags/v1",
        "light",
        "main",
        "heads/main",
        "refs/heads/side",
        "side@{0}",
        "main@{1}",
        "HEAD@{1}",
        "@{0}",
        ":/Rewrite",
        "HEAD^{/Explain}",
        "main~3",
        "@~1",
        &full,
        &full[..7],
        &full[..4],
        &described,
    ];
    for form in forms {
        let commit = history.resolve(form).unwrap_or_else(|e| panic!("{form}: {}", error_text(&e)));
        let expected = repo.git(&["log", "-1", "--format=%H", form]);
        assert_eq!(commit.id.to_string(), expected, "{form}");
    }
}

#[test]
fn a_commit_shows_what_git_log_shows() {
    let repo = kernel_history();
    let history = open(&repo);
    for rev in ["v1", "HEAD~1", "HEAD"] {
        let commit = history.resolve(rev).expect("a commit");
        let parents: Vec<String> = commit.parents.iter().map(|id| id.to_string()).collect();
        let shown = format!(
            "{}|{}|{}|{}|{}|{}",
            commit.id,
            commit.short,
            commit.subject,
            commit.author_name,
            commit.time_s,
            parents.join(" ")
        );
        assert_eq!(shown, repo.git(&["log", "-1", "--format=%H|%h|%s|%an|%ct|%P", rev]));
    }
    assert_eq!(history.head().expect("HEAD"), history.resolve("main").expect("main"));
}

#[test]
fn an_unknown_revision_names_branches_like_it() {
    let repo = kernel_history();
    repo.git(&["branch", "fix-gradient"]);
    let history = open(&repo);
    assert_snapshot!(shown(&repo, history.resolve("fix-gradeint~2")), @r"
    unknown revision `fix-gradeint~2`
    hint: did you mean `fix-gradient`?
    ");
    assert_snapshot!(shown(&repo, history.resolve("deadbeef")), @"unknown revision `deadbeef`");
    assert_snapshot!(shown(&repo, history.resolve("")), @"unknown revision ``");
    assert_snapshot!(shown(&repo, history.resolve("HEAD~99")), @"unknown revision `HEAD~99`");
    assert!(!history.resolve("deadbeef").unwrap_err().is_revision_fault());
}

#[test]
fn a_tree_or_a_blob_is_not_a_commit() {
    let repo = kernel_history();
    let history = open(&repo);
    assert_snapshot!(shown(&repo, history.resolve("HEAD:src")), @"revision `HEAD:src` is a tree, not a commit");
    assert_snapshot!(shown(&repo, history.resolve("HEAD:src/loss.cu")), @"revision `HEAD:src/loss.cu` is a blob, not a commit");
}

/// Commits until `enough` of them share their first four digits; returns the digits.
fn collide(repo: &TestRepo, enough: usize) -> String {
    let mut stream = String::new();
    for n in 0..3000 {
        stream += &format!(
            "commit refs/heads/many\ncommitter C <c@example.com> {} +0000\ndata <<END\nNumber {n}\nEND\n{}",
            1_700_000_000 + n,
            if n == 0 { "M 644 inline f\ndata 1\nx\n" } else { "" }
        );
    }
    import(repo, &stream);
    let ids = repo.git(&["rev-list", "many"]);
    let mut counts = BTreeMap::<&str, usize>::new();
    for id in ids.lines() {
        *counts.entry(&id[..4]).or_default() += 1;
    }
    counts.into_iter().find(|(_, count)| *count >= enough).expect("a collision").0.to_owned()
}

#[test]
fn an_ambiguous_prefix_lists_its_commits() {
    let repo = TestRepo::new();
    let prefix = collide(&repo, 2);
    let history = open(&repo);
    let error = history.resolve(&format!("{prefix}~1")).unwrap_err();
    let HistoryError::AmbiguousRevision { candidates, total, .. } = &error else {
        panic!("{error}");
    };
    let expected: Vec<String> = repo
        .git(&["rev-list", "many"])
        .lines()
        .filter(|id| id.starts_with(&prefix))
        .map(str::to_owned)
        .collect();
    assert_eq!(*total, expected.len());
    for candidate in candidates {
        let id = expected.iter().find(|id| id.starts_with(&candidate.short)).expect("its id");
        assert_eq!(candidate.subject, repo.git(&["log", "-1", "--format=%s", id]));
    }
    assert_snapshot!(error_text(&error), @r"
    ambiguous revision `0049`: 00490e2 (Number 2958), 004989c (Number 1443)
    hint: write more digits of the id
    ");
}
