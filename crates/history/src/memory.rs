//! Diffs of files that are in no repository, by libgit2, on objects in memory.

use std::sync::Arc;

use git2::{
    Delta, DiffFile, DiffFormat, DiffOptions, Index, IndexEntry, IndexTime, Odb, Patch, Repository,
};

use super::FileKind;

/// A file as a diff sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    pub path: String,
    pub kind: FileKind,
    pub content: Arc<[u8]>,
}

/// Both sides of a changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileEdit {
    pub old: Option<FileState>,
    pub new: Option<FileState>,
}

/// Lines of two texts that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineEdit {
    /// Those of the old text, counted from zero.
    pub old: std::ops::Range<usize>,
    pub new: std::ops::Range<usize>,
    /// Both as in a diff, each with its sign.
    pub text: String,
}

/// The lines of `content` with their ends.
pub(super) fn cut_lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The lines that differ, without context; those with at most `joined` others between them are one edit.
pub(super) fn diff_lines(
    old: &[u8],
    new: &[u8],
    joined: u32,
) -> Result<Vec<LineEdit>, git2::Error> {
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(joined).indent_heuristic(true).force_text(true);
    let patch = Patch::from_buffers(old, None, new, None, Some(&mut options))?;
    let mut edits = Vec::new();
    for number in 0..patch.num_hunks() {
        let (hunk, line_count) = patch.hunk(number)?;
        let old = place_of_lines(hunk.old_start(), hunk.old_lines());
        let new = place_of_lines(hunk.new_start(), hunk.new_lines());
        let mut text = String::new();
        for place in 0..line_count {
            let line = patch.line_in_hunk(number, place)?;
            if matches!(line.origin(), '+' | '-' | ' ') {
                let content = String::from_utf8_lossy(line.content());
                text.push(line.origin());
                text.push_str(content.strip_suffix('\n').unwrap_or(&content));
                text.push('\n');
            }
        }
        edits.push(LineEdit { old, new, text });
    }
    Ok(edits)
}

/// Where lines are of which git counts the first from one; no lines are behind the one that it names.
fn place_of_lines(start: u32, count: u32) -> std::ops::Range<usize> {
    let start = if count == 0 { start as usize } else { start as usize - 1 };
    start..start + count as usize
}

/// `edits`, one for each path, with the files paired that were renamed.
pub(super) fn pair_renames(edits: &[FileEdit]) -> Result<Vec<FileEdit>, git2::Error> {
    // Numbers stand for the names: libgit2 refuses some of them, such as those that begin with `../`.
    let mut numbered_edits = edits.to_vec();
    for (number, edit) in numbered_edits.iter_mut().enumerate() {
        for state in [&mut edit.old, &mut edit.new].into_iter().flatten() {
            state.path = format!("{number:08}");
        }
    }
    with_diff(&numbered_edits, &mut DiffOptions::new(), |diff| {
        let paired = diff.deltas().map(|delta| {
            let old = find_numbered_edit(edits, &delta.old_file());
            let new = find_numbered_edit(edits, &delta.new_file());
            FileEdit {
                old: old
                    .filter(|_| delta.status() != Delta::Added)
                    .and_then(|edit| edit.old.clone()),
                new: new
                    .filter(|_| delta.status() != Delta::Deleted)
                    .and_then(|edit| edit.new.clone()),
            }
        });
        Ok(paired.collect())
    })
}

/// The edit whose number is the name of `file`.
fn find_numbered_edit<'e>(edits: &'e [FileEdit], file: &DiffFile<'_>) -> Option<&'e FileEdit> {
    edits.get(file.path()?.to_str()?.parse::<usize>().ok()?)
}

/// `edits` as a patch that `git apply` takes.
pub(super) fn format_patch(edits: &[FileEdit]) -> Result<Vec<u8>, git2::Error> {
    let mut options = DiffOptions::new();
    options.show_binary(true).indent_heuristic(true).id_abbrev(40);
    with_diff(edits, &mut options, |diff| {
        let mut text = Vec::new();
        diff.print(DiffFormat::Patch, |_, _, line| {
            if matches!(line.origin(), '+' | '-' | ' ') {
                text.push(line.origin() as u8);
            }
            text.extend_from_slice(line.content());
            true
        })?;
        Ok(text)
    })
}

fn with_diff<T>(
    edits: &[FileEdit],
    options: &mut DiffOptions,
    read: impl FnOnce(&git2::Diff<'_>) -> Result<T, git2::Error>,
) -> Result<T, git2::Error> {
    let objects = Odb::new()?;
    objects.add_new_mempack_backend(1)?;
    let repository = Repository::from_odb(objects)?;
    let old = write_tree(&repository, edits.iter().filter_map(|edit| edit.old.as_ref()))?;
    let new = write_tree(&repository, edits.iter().filter_map(|edit| edit.new.as_ref()))?;
    let old = repository.find_tree(old)?;
    let new = repository.find_tree(new)?;
    options.include_typechange(true);
    let mut diff = repository.diff_tree_to_tree(Some(&old), Some(&new), Some(options))?;
    diff.find_similar(None)?;
    read(&diff)
}

fn write_tree<'s>(
    repository: &Repository,
    files: impl Iterator<Item = &'s FileState>,
) -> Result<git2::Oid, git2::Error> {
    let mut index = Index::new()?;
    for file in files {
        let mode = match file.kind {
            FileKind::Plain | FileKind::Submodule => 0o100_644,
            FileKind::Executable => 0o100_755,
            FileKind::Link => 0o120_000,
        };
        index.add(&IndexEntry {
            ctime: IndexTime::new(0, 0),
            mtime: IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode,
            uid: 0,
            gid: 0,
            file_size: 0,
            id: repository.blob(&file.content)?,
            flags: 0,
            flags_extended: 0,
            path: file.path.as_bytes().to_vec(),
        })?;
    }
    index.write_tree_to(repository)
}
