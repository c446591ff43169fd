//! Tests of changes cut into hunks, on source sets without a repository.

use super::*;
use crate::SourceRole;

fn sources(files: &[(&str, &str)]) -> SourceSet {
    let files = files.iter().map(|(path, text)| SourceFile {
        path: (*path).to_owned(),
        role: SourceRole::Source,
        content: text.as_bytes().into(),
    });
    SourceSet::new(files.collect(), Vec::new())
}

fn tree(files: &[(&str, FileKind, &[u8])]) -> SourceSet {
    let files = files.iter().map(|(path, kind, content)| {
        TreeFile::with_content((*path).to_owned(), *kind, content.to_vec())
    });
    SourceSet::new(Vec::new(), files.collect())
}

fn cut(before: &SourceSet, after: &SourceSet) -> HunkedChange {
    HunkedChange::between(&[before], &[after]).unwrap()
}

fn text(set: &SourceSet, path: &str) -> String {
    let file = set.files.iter().find(|file| file.path == path);
    String::from_utf8(file.expect("it is there").content.to_vec()).unwrap()
}

/// The kinds of all hunks, with their files.
fn list_kinds(change: &HunkedChange) -> Vec<(&str, &HunkKind)> {
    change.hunks().iter().map(|hunk| (hunk.path.as_str(), &hunk.kind)).collect()
}

fn reverse_cleanly(change: &HunkedChange, onto: &SourceSet, taken: &BTreeSet<usize>) -> Reversal {
    match change.reverse(&[onto], taken).unwrap() {
        Merge::Clean(reversal) => reversal,
        Merge::Conflict(conflicts) => panic!("{conflicts:?}"),
    }
}

fn assert_ends_and_counts(before: &SourceSet, after: &SourceSet) {
    let change = cut(before, after);
    let all: BTreeSet<usize> = (0..change.hunks().len()).collect();
    assert_eq!(change.apply(before, after, &BTreeSet::new()).id, before.id, "without any hunk");
    assert_eq!(change.apply(before, after, &all).id, after.id, "with all of them");
    let reversal = reverse_cleanly(&change, after, &all);
    assert_eq!(reversal.apply(after, before).id, before.id, "taken back");
    for hunk in 0..all.len() {
        // What a hunk adds to the others, taking it back removes.
        let one = BTreeSet::from([hunk]);
        let reversal = reverse_cleanly(&change, after, &one);
        let others = change.apply(before, after, &(&all - &one));
        assert_eq!(reversal.apply(after, before).id, others.id, "{:?}", change.hunks()[hunk]);
    }
}

/// `line` with a number, for each of those.
fn numbered(numbers: std::ops::RangeInclusive<usize>) -> String {
    numbers.map(|number| format!("line {number}\n")).collect()
}

#[test]
fn hunks_without_context_are_made_one_by_one() {
    let before = sources(&[("a.cu", &numbered(1..=20))]);
    let changed = numbered(1..=20)
        .replace("line 5\n", "five\nand\n")
        .replace("line 9\n", "nine\n")
        .replace("line 14\n", "");
    let after = sources(&[("a.cu", &format!("0\n{changed}end"))]);
    let change = cut(&before, &after);
    let told: Vec<_> = change
        .hunks()
        .iter()
        .map(|hunk| (hunk.old.clone(), hunk.new.clone(), hunk.text.as_str()))
        .collect();
    let joined = "-line 5\n+five\n+and\n line 6\n line 7\n line 8\n-line 9\n+nine\n";
    let expected = [
        (1..1, 1..2, "+0\n"),
        (5..10, 6..12, joined),
        (14..15, 16..16, "-line 14\n"),
        (21..21, 22..23, "+end\n"),
    ];
    assert_eq!(told, expected);
    let kept = change.apply(&before, &after, &BTreeSet::from([1, 3]));
    let numbers_kept =
        numbered(1..=20).replace("line 5\n", "five\nand\n").replace("line 9\n", "nine\n");
    assert_eq!(text(&kept, "a.cu"), numbers_kept + "end");
    assert_ends_and_counts(&before, &after);
}

#[test]
fn ends_of_files_and_lines_are_kept_to_the_byte() {
    for [before, after] in [
        ["a\nb", "a\nb\n"],
        ["a\nb\n", "a\nb"],
        ["a", "b\na"],
        ["", "a"],
        ["a\n", ""],
        ["a\r\nb\r\nc\r\n", "a\nb\r\nc"],
        ["a\nb\nc\nd\ne", "x\nb\nc\nd\ne\nf\n"],
    ] {
        let [before, after] = [before, after].map(|text| sources(&[("a.cu", text)]));
        assert_ends_and_counts(&before, &after);
    }
}

#[test]
fn added_removed_and_renamed_files_are_hunks() {
    let body = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    let before = sources(&[("gone.h", "x\ny\n"), ("old.cu", body), ("same.cu", "same\n")]);
    let renamed = body.replace("seven", "7");
    let after = sources(&[("more.h", "m\n"), ("new.cu", &renamed), ("same.cu", "same\n")]);
    let change = cut(&before, &after);
    let from = "old.cu".to_owned();
    let expected = [
        ("gone.h", &HunkKind::RemovesFile),
        ("more.h", &HunkKind::AddsFile),
        ("new.cu", &HunkKind::RenamesFile { from }),
        ("new.cu", &HunkKind::Lines),
    ];
    assert_eq!(list_kinds(&change), expected);
    assert_eq!(change.hunks()[0].text, "-x\n-y\n");
    assert_ends_and_counts(&before, &after);
    let lines_alone = change.apply(&before, &after, &BTreeSet::from([3]));
    assert_eq!(text(&lines_alone, "old.cu"), renamed, "lines do not wait for the new name");
}

#[test]
fn modes_binary_files_and_symlinks_change_as_a_whole() {
    let run = |kind| ("run.sh", kind, b"echo\n".as_slice());
    let before = tree(&[
        run(FileKind::Plain),
        ("w.bin", FileKind::Plain, b"\0one"),
        ("link", FileKind::Link, b"run.sh"),
        ("turns", FileKind::Plain, b"text\n"),
    ]);
    let after = tree(&[
        run(FileKind::Executable),
        ("w.bin", FileKind::Plain, b"\0two"),
        ("link", FileKind::Link, b"w.bin"),
        ("turns", FileKind::Link, b"link"),
    ]);
    let change = cut(&before, &after);
    let expected = [
        ("link", &HunkKind::ChangesFile),
        ("run.sh", &HunkKind::ChangesMode),
        ("turns", &HunkKind::ChangesFile),
        ("w.bin", &HunkKind::ChangesFile),
    ];
    assert_eq!(list_kinds(&change), expected);
    assert_ends_and_counts(&before, &after);
}

#[test]
fn files_of_several_fixtures_are_changed_where_they_are_read() {
    let [loss, kernel] = ["loss.cu", "kernel.cu"];
    let before = [sources(&[(loss, "a\n")]), sources(&[(loss, "a\n"), (kernel, "k\n")])];
    let after = [sources(&[(loss, "b\n")]), sources(&[(loss, "b\n"), (kernel, "l\n")])];
    let change = HunkedChange::between(&before.each_ref(), &after.each_ref()).unwrap();
    assert_eq!(list_kinds(&change), [(kernel, &HunkKind::Lines), (loss, &HunkKind::Lines)]);
    let kernel_alone = BTreeSet::from([0]);
    assert_eq!(change.apply(&before[0], &after[0], &kernel_alone).id, before[0].id);
    let second = change.apply(&before[1], &after[1], &kernel_alone);
    assert_eq!([text(&second, loss), text(&second, kernel)], ["a\n", "l\n"]);
}

const BEFORE: &str = "1\n2\n3\n4\n5\n-\n6\n7\n8\n";
const AFTER: &str = "1\n2\nthree\n4\n5\n-\n6\nseven\n8\n";

/// The text on which both hunks of the change, or one, are taken back.
fn take_back(onto: &str, taken: &[usize]) -> Result<String, String> {
    let [before, after, onto] = [BEFORE, AFTER, onto].map(|text| sources(&[("a.cu", text)]));
    let taken = taken.iter().copied().collect();
    match cut(&before, &after).reverse(&[&onto], &taken).unwrap() {
        Merge::Clean(reversal) => Ok(text(&reversal.apply(&onto, &before), "a.cu")),
        Merge::Conflict(conflicts) => Err(conflicts.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn a_hunk_is_taken_back_around_later_changes() {
    let later = "new\n1\n2\nthree\n4\n5\n-\n6\nseven\n8\nend\n";
    assert_eq!(take_back(later, &[0]).unwrap(), "new\n1\n2\n3\n4\n5\n-\n6\nseven\n8\nend\n");
    assert_eq!(take_back(later, &[0, 1]).unwrap(), "new\n1\n2\n3\n4\n5\n-\n6\n7\n8\nend\n");
    // One of them was taken back already.
    let half = "1\n2\n3\n4\n5\n-\n6\nseven\n8\n";
    assert_eq!(take_back(half, &[0, 1]).unwrap(), BEFORE);
    assert_eq!(take_back(half, &[0]).unwrap(), half);
}

#[test]
fn later_changes_of_the_lines_or_beside_them_are_in_the_way() {
    let told = |onto| take_back(onto, &[0]).unwrap_err();
    insta::assert_snapshot!(told("0\n1\n2\nTHREE\n4\n5\n-\n6\nseven\n8\n"), @"a.cu:4 was changed since");
    insta::assert_snapshot!(told("1\nii\niii\nthree\n4\n5\n-\n6\nseven\n8\n"), @"a.cu:2-3 were changed since");
    insta::assert_snapshot!(told("1\n4\n5\n-\n6\nseven\n8\n"), @"a.cu: lines before line 2 were removed since");
}

#[test]
fn later_changes_of_whole_files_are_in_the_way() {
    let before = sources(&[("gone.h", "x\n"), ("a.cu", "a\n")]);
    let after = sources(&[("a.cu", "b\n"), ("more.h", "m\n")]);
    let onto = sources(&[("gone.h", "y\n"), ("more.h", "n\n")]);
    let change = cut(&before, &after);
    let all = (0..change.hunks().len()).collect();
    let Merge::Conflict(conflicts) = change.reverse(&[&onto], &all).unwrap() else {
        panic!("it merges");
    };
    let told: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    a.cu is not there any more
    gone.h is there again
    more.h was changed since
    ");
}

#[test]
fn a_patch_names_files_from_the_root() {
    let before = sources(&[("src/a.cu", BEFORE), ("../gone.h", "x\n")]);
    let after = sources(&[("src/a.cu", AFTER), ("more.h", "m")]);
    let change = cut(&before, &after);
    let all = (0..change.hunks().len()).collect();
    let reversal = reverse_cleanly(&change, &after, &all);
    let patch = String::from_utf8(reversal.format_patch("kernels/loss").unwrap()).unwrap();
    insta::assert_snapshot!(patch);
}

#[test]
fn the_file_of_a_hunk_has_a_text_with_any_others() {
    let before = sources(&[("a.cu", BEFORE), ("b.cu", "b\n")]);
    let after = sources(&[("a.cu", AFTER), ("c.cu", "other\n")]);
    let change = cut(&before, &after);
    let text = |number, kept: &[usize]| change.file_text(number, &kept.iter().copied().collect());
    assert_eq!(text(1, &[]).unwrap(), BEFORE);
    assert_eq!(text(0, &[1, 3]).unwrap(), BEFORE.replace('7', "seven"));
    assert_eq!(text(3, &[]), None, "c.cu is not there");
    assert_eq!(text(3, &[3]).unwrap(), "other\n");
}
