//! A change of source sets, cut into hunks: what it is with some of them, and a later source set without some of them.
//!
//! Everything happens in memory. Paths are those of source sets, relative to the project's folder.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use git2::{DiffOptions, Patch};

use super::memory::{
    FileEdit, FileState, LineEdit, cut_lines, diff_lines, format_patch, pair_renames,
};
use super::source_set::from_root;
use super::{
    Commit, FileKind, History, HistoryError, SourceFile, SourceSet, TreeReader, content::TreeFile,
};

/// The bytes in which git looks for a zero to call a file binary (`FIRST_FEW_BYTES`, xdiff-interface.c).
const FIRST_BYTES: usize = 8000;

/// The most lines between changed ones within one hunk. Code that is rewritten keeps such lines by chance; without them each
/// part of it would be a hunk that does not compile alone.
const LINES_WITHIN: u32 = 3;

/// A part of a change that can be made without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Its file: by the name behind the change, or before it if the change removes the file.
    pub path: String,
    pub kind: HunkKind,
    /// Its lines before the change, counted from one; those of the whole file where it is added or removed.
    pub old: Range<usize>,
    /// Its lines behind the change.
    pub new: Range<usize>,
    /// Its lines as in a diff, each with its sign.
    pub text: String,
}

/// What a hunk does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkKind {
    /// Changes lines.
    Lines,
    AddsFile,
    RemovesFile,
    /// Renames the file; changed lines are hunks of their own.
    RenamesFile {
        /// The name before.
        from: String,
    },
    /// Makes the file executable, or no longer so.
    ChangesMode,
    /// Changes a file without lines, such as a symlink, as a whole.
    ChangesFile,
}

/// A changed file.
#[derive(Debug)]
struct ChangedFile {
    edit: FileEdit,
    /// The number of the hunk that changes more than lines.
    whole: Option<usize>,
    /// The changed lines, with the number of the hunk.
    lines: Vec<(usize, LineEdit)>,
}

/// The change between two revisions, in the files that replays read.
#[derive(Debug)]
pub struct HunkedChange {
    files: Vec<ChangedFile>,
    hunks: Vec<Hunk>,
}

/// Why hunks cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkConflict {
    pub path: String,
    pub cause: ConflictCause,
}

/// What stands in the way of taking a hunk back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictCause {
    /// These lines, counted from one, were changed since; no lines are removed ones, before the first.
    Lines(Range<usize>),
    /// The file was changed since, and has to go as a whole.
    Changed,
    Gone,
    /// The removed file is there again.
    ThereAgain,
}

impl fmt::Display for HunkConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HunkConflict { path, cause } = self;
        match cause {
            ConflictCause::Lines(lines) if lines.is_empty() => {
                write!(f, "{path}: lines before line {} were removed since", lines.start)
            }
            ConflictCause::Lines(lines) if lines.len() == 1 => {
                write!(f, "{path}:{} was changed since", lines.start)
            }
            ConflictCause::Lines(lines) => {
                write!(f, "{path}:{}-{} were changed since", lines.start, lines.end - 1)
            }
            ConflictCause::Changed => write!(f, "{path} was changed since"),
            ConflictCause::Gone => write!(f, "{path} is not there any more"),
            ConflictCause::ThereAgain => write!(f, "{path} is there again"),
        }
    }
}

/// What a merge of three sides gives.
#[derive(Clone, Debug)]
pub enum Merge<T, C> {
    /// Both sides' edits together.
    Clean(T),
    /// Edits of one side are in the way of the other's.
    Conflict(C),
}

/// Hunks taken back from a revision.
#[derive(Debug)]
pub struct Reversal {
    edits: Vec<FileEdit>,
}

impl HunkedChange {
    /// Cuts the change from the source sets `before` to those of `after`, of the same specs.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if a file of a tree can no longer be read.
    pub fn between(
        before: &[&SourceSet],
        after: &[&SourceSet],
    ) -> Result<HunkedChange, HistoryError> {
        let mut reader = TreeReader::default();
        let mut paths: BTreeSet<&str> = BTreeSet::new();
        let before_files = index_files(before);
        let after_files = index_files(after);
        for (path, file) in before_files.iter().chain(&after_files) {
            let other_files = [before_files.get(path), after_files.get(path)];
            if other_files.iter().any(|other| other.is_none_or(|other| !other.is_same(file))) {
                paths.insert(path);
            }
        }
        let mut edits = Vec::new();
        for path in paths {
            let old = before_files.get(path).map(|file| file.load(&mut reader)).transpose()?;
            let new = after_files.get(path).map(|file| file.load(&mut reader)).transpose()?;
            edits.push(FileEdit { old, new });
        }
        let mut change = HunkedChange { files: Vec::new(), hunks: Vec::new() };
        let paired_edits = pair_renames(&edits).map_err(diff_error)?;
        paired_edits.into_iter().try_for_each(|edit| change.cut_file(edit)).map_err(diff_error)?;
        Ok(change)
    }

    /// The hunks by number: those of a file from its first line to its last.
    pub fn hunks(&self) -> &[Hunk] {
        &self.hunks
    }

    fn cut_file(&mut self, edit: FileEdit) -> Result<(), git2::Error> {
        let mut file = ChangedFile { edit, whole: None, lines: Vec::new() };
        let has_lines = file.edit.has_lines();
        if let Some(kind) = file.edit.whole_change() {
            file.whole = Some(self.hunks.len());
            self.hunks.push(file.edit.as_hunk(kind));
        }
        if let (true, Some(old), Some(new)) = (has_lines, &file.edit.old, &file.edit.new) {
            for edit in diff_lines(&old.content, &new.content, LINES_WITHIN)? {
                file.lines.push((self.hunks.len(), edit.clone()));
                self.hunks.push(Hunk {
                    path: new.path.clone(),
                    kind: HunkKind::Lines,
                    old: edit.old.start + 1..edit.old.end + 1,
                    new: edit.new.start + 1..edit.new.end + 1,
                    text: edit.text,
                });
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// The set `before` of a spec with the hunks `kept`; `after` is the spec's set with all of them.
    pub fn apply(
        &self,
        before: &SourceSet,
        after: &SourceSet,
        kept: &BTreeSet<usize>,
    ) -> SourceSet {
        let edits: Vec<FileEdit> = self
            .files
            .iter()
            .map(|file| FileEdit { old: file.edit.old.clone(), new: file.with_hunks(kept) })
            .collect();
        edit_source_set(before, after, &edits)
    }

    /// The text of the file of hunk `number` with the hunks `kept`; none if it is not there, or not a text.
    pub fn file_text(&self, number: usize, kept: &BTreeSet<usize>) -> Option<String> {
        let has_hunk = |file: &&ChangedFile| {
            file.whole == Some(number) || file.lines.iter().any(|(own, _)| *own == number)
        };
        let state = self.files.iter().find(has_hunk)?.with_hunks(kept)?;
        str::from_utf8(&state.content).ok().map(str::to_owned)
    }

    /// Takes the hunks `taken` back from the revision with the source sets `onto`: a merge of three sides, with the
    /// revision behind the change as their ancestor.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if a file of a tree can no longer be read. What stands in the way is within the result.
    pub fn reverse(
        &self,
        onto: &[&SourceSet],
        taken: &BTreeSet<usize>,
    ) -> Result<Merge<Reversal, Vec<HunkConflict>>, HistoryError> {
        let mut reader = TreeReader::default();
        let onto_files = index_files(onto);
        let all: BTreeSet<usize> = (0..self.hunks.len()).collect();
        let left = &all - taken;
        let mut edits = Vec::new();
        let mut conflicts = Vec::new();
        for file in &self.files {
            let [ancestor, theirs] = [&all, &left].map(|kept| file.with_hunks(kept));
            if ancestor == theirs {
                continue;
            }
            let path = ancestor.as_ref().or(theirs.as_ref()).map(|state| state.path.as_str());
            let own_file = path.and_then(|path| onto_files.get(path));
            let ours = own_file.map(|file| file.load(&mut reader)).transpose()?;
            match merge_file(ancestor, ours.clone(), theirs).map_err(diff_error)? {
                Merge::Clean(merged) => edits.push(FileEdit { old: ours, new: merged }),
                Merge::Conflict(conflict) => conflicts.push(conflict),
            }
        }
        edits.retain(|edit| edit.old != edit.new);
        Ok(if conflicts.is_empty() {
            Merge::Clean(Reversal { edits })
        } else {
            Merge::Conflict(conflicts)
        })
    }
}

impl Reversal {
    /// Whether nothing was left to be taken back.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The set `onto` of a spec without the hunks; `before` is the spec's set before the change.
    pub fn apply(&self, onto: &SourceSet, before: &SourceSet) -> SourceSet {
        edit_source_set(onto, before, &self.edits)
    }

    /// The same as a patch that `git apply` takes at the root of the repository; the project lies at `prefix`.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if libgit2 refuses a name.
    pub fn format_patch(&self, prefix: &str) -> Result<Vec<u8>, HistoryError> {
        let from_root_of = |state: &Option<FileState>| {
            let state = state.as_ref()?;
            let path = from_root(prefix, &state.path);
            Some(path.map(|path| FileState { path, ..state.clone() }))
        };
        let edits = self.edits.iter().map(|edit| {
            let old = from_root_of(&edit.old).transpose()?;
            Ok(FileEdit { old, new: from_root_of(&edit.new).transpose()? })
        });
        format_patch(&edits.collect::<Result<Vec<_>, HistoryError>>()?).map_err(diff_error)
    }
}

impl History {
    /// How many hunks `commit` has against `parent` in files that none of `read`, sets of the project at `prefix`, holds.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if the repository lacks one of the commits.
    pub fn count_hunks_besides(
        &self,
        [parent, commit]: [&Commit; 2],
        read: &[&SourceSet],
        prefix: &str,
    ) -> Result<usize, HistoryError> {
        let mut read_paths = HashSet::new();
        for path in index_files(read).keys() {
            read_paths.insert(from_root(prefix, path)?);
        }
        let old = self.find_commit(parent.id)?.tree_id();
        let new = self.find_commit(commit.id)?.tree_id();
        self.count_hunks([old, new], &read_paths).map_err(diff_error)
    }

    fn count_hunks(
        &self,
        [old, new]: [git2::Oid; 2],
        besides: &HashSet<String>,
    ) -> Result<usize, git2::Error> {
        let old = self.repo.find_tree(old)?;
        let new = self.repo.find_tree(new)?;
        let mut options = DiffOptions::new();
        options.context_lines(0).interhunk_lines(0);
        let diff = self.repo.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
        let mut count = 0;
        for (place, delta) in diff.deltas().enumerate() {
            let path = delta.new_file().path().and_then(|path| path.to_str());
            if path.is_some_and(|path| besides.contains(path)) {
                continue;
            }
            let patch = Patch::from_diff(&diff, place)?;
            count += patch.map_or(0, |patch| patch.num_hunks()).max(1);
        }
        Ok(count)
    }
}

fn diff_error(source: git2::Error) -> HistoryError {
    HistoryError::Git { doing: "cut a change into hunks".to_owned(), source: source.into() }
}

/// A file of a source set, whose content may not have been read yet.
enum AnyFile<'s> {
    Source(&'s SourceFile),
    Tree(&'s TreeFile),
}

impl AnyFile<'_> {
    fn is_same(&self, other: &AnyFile<'_>) -> bool {
        match (self, other) {
            (AnyFile::Source(own), AnyFile::Source(other)) => own.content == other.content,
            (AnyFile::Tree(own), AnyFile::Tree(other)) => own == other,
            _ => false,
        }
    }

    fn load(&self, reader: &mut TreeReader) -> Result<FileState, HistoryError> {
        Ok(match self {
            AnyFile::Source(file) => FileState {
                path: file.path.clone(),
                kind: FileKind::Plain,
                content: file.content.clone(),
            },
            AnyFile::Tree(file) => FileState {
                path: file.path.clone(),
                kind: file.kind,
                content: match file.kind {
                    FileKind::Submodule => Arc::new([]),
                    _ => reader.read(file)?,
                },
            },
        })
    }
}

/// The files of all `sets` by path.
fn index_files<'s>(sets: &[&'s SourceSet]) -> BTreeMap<&'s str, AnyFile<'s>> {
    let mut files = BTreeMap::new();
    for set in sets {
        for file in &set.tree {
            files.insert(file.path.as_str(), AnyFile::Tree(file));
        }
        for file in &set.files {
            files.insert(file.path.as_str(), AnyFile::Source(file));
        }
    }
    files
}

/// `set` with `edits`. A file that it lacks is added where `model` has one of this name, in the same role.
fn edit_source_set(set: &SourceSet, model: &SourceSet, edits: &[FileEdit]) -> SourceSet {
    let mut files = set.files.clone();
    let mut tree = set.tree.clone();
    for FileEdit { old, .. } in edits {
        let Some(old) = old else { continue };
        files.retain(|file| file.path != old.path);
        tree.retain(|file| file.path != old.path);
    }
    for FileEdit { new, .. } in edits {
        let Some(new) = new else { continue };
        let mut known_files = set.files.iter().chain(&model.files);
        if let Some(known) = known_files.find(|file| file.path == new.path) {
            let content = new.content.clone();
            files.push(SourceFile { path: new.path.clone(), role: known.role, content });
        }
        if set.tree.iter().chain(&model.tree).any(|file| file.path == new.path) {
            let content = new.content.to_vec();
            tree.push(TreeFile::with_content(new.path.clone(), new.kind, content));
        }
    }
    SourceSet { submodules: set.submodules.clone(), ..SourceSet::new(files, tree) }
}

impl FileEdit {
    /// What it does besides changing lines.
    fn whole_change(&self) -> Option<HunkKind> {
        let (old, new) = match (&self.old, &self.new) {
            (Some(old), Some(new)) => (old, new),
            (None, _) => return Some(HunkKind::AddsFile),
            (_, None) => return Some(HunkKind::RemovesFile),
        };
        if old.path != new.path {
            Some(HunkKind::RenamesFile { from: old.path.clone() })
        } else if !self.has_lines() {
            Some(HunkKind::ChangesFile)
        } else {
            (old.kind != new.kind).then_some(HunkKind::ChangesMode)
        }
    }

    /// Whether both sides are text in a file.
    fn has_lines(&self) -> bool {
        let sides = [&self.old, &self.new];
        sides.iter().all(|side| side.as_ref().is_some_and(FileState::has_lines))
    }

    fn as_hunk(&self, kind: HunkKind) -> Hunk {
        let is_one_sided = self.old.is_none() || self.new.is_none();
        let [(old, removed), (new, added)] =
            [(&self.old, '-'), (&self.new, '+')].map(|(side, sign)| {
                let told_side = side.as_ref().filter(|side| is_one_sided && side.has_lines());
                let lines = told_side.map(|side| cut_lines(&side.content)).unwrap_or_default();
                (1..lines.len() + 1, format_lines(sign, &lines))
            });
        let path = self.new.as_ref().or(self.old.as_ref()).map(|side| side.path.clone());
        Hunk { path: path.unwrap_or_default(), kind, old, new, text: removed + &added }
    }
}

impl FileState {
    fn has_lines(&self) -> bool {
        let first_bytes = &self.content[..self.content.len().min(FIRST_BYTES)];
        matches!(self.kind, FileKind::Plain | FileKind::Executable) && !first_bytes.contains(&0)
    }
}

impl ChangedFile {
    /// The file with the hunks `kept`.
    fn with_hunks(&self, kept: &BTreeSet<usize>) -> Option<FileState> {
        let is_whole_kept = self.whole.is_some_and(|number| kept.contains(&number));
        let shell = if is_whole_kept { &self.edit.new } else { &self.edit.old };
        let (Some(old), Some(new)) = (&self.edit.old, &self.edit.new) else { return shell.clone() };
        if !self.edit.has_lines() {
            return shell.clone();
        }
        let kept_edits = self.lines.iter().filter(|(number, _)| kept.contains(number));
        let new_lines = cut_lines(&new.content);
        let replaced = kept_edits.map(|(_, edit)| (edit.old.clone(), &new_lines[edit.new.clone()]));
        let content = replace_lines(&cut_lines(&old.content), replaced);
        shell.as_ref().map(|shell| FileState { content: content.into(), ..shell.clone() })
    }
}

/// `lines` with other lines in the place of some, in order.
fn replace_lines<'l>(
    lines: &[&[u8]],
    replaced: impl Iterator<Item = (Range<usize>, &'l [&'l [u8]])>,
) -> Vec<u8> {
    let mut content = Vec::new();
    let mut done = 0;
    for (place, others) in replaced {
        lines[done..place.start].iter().chain(others).for_each(|line| content.extend(*line));
        done = place.end;
    }
    lines[done..].iter().for_each(|line| content.extend(*line));
    content
}

/// Makes the step from `ancestor` to `theirs` in `ours`.
fn merge_file(
    ancestor: Option<FileState>,
    ours: Option<FileState>,
    theirs: Option<FileState>,
) -> Result<Merge<Option<FileState>, HunkConflict>, git2::Error> {
    if ours == ancestor || ours == theirs {
        return Ok(Merge::Clean(theirs));
    }
    let path = ancestor.as_ref().or(theirs.as_ref()).map(|state| state.path.clone());
    let path = path.unwrap_or_default();
    let conflict = |path, cause| Ok(Merge::Conflict(HunkConflict { path, cause }));
    let (ancestor, ours, theirs) = match (ancestor, ours, theirs) {
        (Some(ancestor), Some(ours), Some(theirs)) => (ancestor, ours, theirs),
        (None, _, _) => return conflict(path, ConflictCause::ThereAgain),
        (_, None, _) => return conflict(path, ConflictCause::Gone),
        (_, _, None) => return conflict(path, ConflictCause::Changed),
    };
    let content = if ancestor.content == theirs.content {
        ours.content
    } else if ours.content == ancestor.content {
        theirs.content
    } else if [&ancestor, &ours, &theirs].iter().all(|state| state.has_lines()) {
        match merge_lines(&ancestor.content, &ours.content, &theirs.content)? {
            Merge::Clean(content) => content.into(),
            Merge::Conflict(lines) => return conflict(path, ConflictCause::Lines(lines)),
        }
    } else {
        return conflict(path, ConflictCause::Changed);
    };
    let kind = if ancestor.kind == theirs.kind { ours.kind } else { theirs.kind };
    Ok(Merge::Clean(Some(FileState { path: theirs.path, kind, content })))
}

/// `ours` with the edits from `ancestor` to `theirs`, or the lines of `ours`, from one, that are in the way. Edits that
/// touch each other are in each other's way, as for git.
fn merge_lines(
    ancestor: &[u8],
    ours: &[u8],
    theirs: &[u8],
) -> Result<Merge<Vec<u8>, Range<usize>>, git2::Error> {
    let own_lines = cut_lines(ours);
    let their_lines = cut_lines(theirs);
    let own_edits = diff_lines(ancestor, ours, 0)?;
    let mut replaced: Vec<(Range<usize>, &[&[u8]])> = Vec::new();
    for edit in diff_lines(ancestor, theirs, 0)? {
        let lines = &their_lines[edit.new];
        let mut in_the_way = own_edits.iter().filter(|own| {
            let touches = own.old.start <= edit.old.end && edit.old.start <= own.old.end;
            touches && (own.old != edit.old || &own_lines[own.new.clone()] != lines)
        });
        if let Some(own) = in_the_way.next() {
            return Ok(Merge::Conflict(own.new.start + 1..own.new.end + 1));
        }
        replaced.push((edit.old, lines));
    }
    replaced.extend(own_edits.into_iter().map(|own| (own.old, &own_lines[own.new])));
    replaced.sort_by_key(|(place, _)| (place.start, place.end));
    replaced.dedup();
    Ok(Merge::Clean(replace_lines(&cut_lines(ancestor), replaced.into_iter())))
}

fn format_lines(sign: char, lines: &[&[u8]]) -> String {
    let mut text = String::new();
    for line in lines {
        let line = String::from_utf8_lossy(line);
        text.push(sign);
        text.push_str(line.strip_suffix('\n').unwrap_or(&line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
