//! Tests of what is known of hunks before any replay.

use super::*;
use replay_history::{SourceFile, SourceRole};

fn sources(text: &str) -> SourceSet {
    let file = SourceFile {
        path: "a.cu".to_owned(),
        role: SourceRole::Source,
        content: text.as_bytes().into(),
    };
    SourceSet { files: vec![file], tree: Vec::new(), submodules: Vec::new(), id: [0; 32] }
}

fn change(before: &str, after: &str) -> HunkedChange {
    HunkedChange::between(&[&sources(before)], &[&sources(after)]).unwrap()
}

fn all_hunks(change: &HunkedChange) -> ChangeSet {
    (0..change.hunks().len()).collect()
}

fn inert_hunks(before: &str, after: &str) -> Vec<usize> {
    let change = change(before, after);
    find_inert_hunks(&change, &all_hunks(&change)).into_iter().collect()
}

/// `text` with lines in the place of `~`, enough to part two hunks.
fn spread(text: &str) -> String {
    text.replace('~', &"int z;\n".repeat(4))
}

#[test]
fn comments_and_white_space_are_inert() {
    let before = spread("// one\n~  int a;\n~int b;\n~int c;\n");
    let after = spread("// two\n~int a;\n~int b = 2;\n~int c; /* d */\n");
    assert_eq!(inert_hunks(&before, &after), [0, 1, 3]);
}

#[test]
fn a_comment_whose_border_moves_is_not_inert() {
    // The text within is code as soon as the comment begins elsewhere.
    let before = spread("/*\n~int a = 1;\n~*/\nint c;\n");
    let after = spread("\n~int a = 2;\n~\nint c;\n");
    let told = inert_hunks(&before, &after);
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn hunks_that_open_and_close_a_comment_around_code_are_not_inert() {
    let before = spread("/* a */\n~/* b */\n");
    let after = spread("/* a\n~b */\n");
    assert_eq!(change(&before, &after).hunks().len(), 2);
    assert!(inert_hunks(&before, &after).is_empty());
}

#[test]
fn hunks_of_a_function_are_tried_together_first() {
    let before =
        spread("int n;\n~void f() {\n  a();\n~  c();\n}\nvoid g() {\n~  d();\n}\n~int m;\n");
    let after = before
        .replace("int n;", "int nn;")
        .replace("a()", "aa()")
        .replace("c()", "cc()")
        .replace("  d();\n", "")
        .replace("int m;", "int mm;");
    let change = change(&before, &after);
    let sets = |groups: &[&[usize]]| -> Vec<ChangeSet> {
        groups.iter().map(|group| group.iter().copied().collect()).collect()
    };
    let all = all_hunks(&change);
    assert_eq!(group_by_function(&change, &all), sets(&[&[0], &[1, 2], &[3], &[4]]));
    assert_eq!(group_by_function(&change, &ChangeSet::new()), sets(&[&[0, 1, 2, 3, 4]]));
}
