//! The files of a harness, at a revision or on disk.

use std::{path::Path, sync::Arc};

use git2::{DiffFormat, DiffLine, DiffOptions, Oid};

use super::{
    Commit, CommitId, History, HistoryError, OVERLAY, OtherNames, Overlay, SourceFault,
    SourceOrigin,
    content::TreeFile,
    suggest,
    tree::{DiskTree, GitTree, Node, Stop, Tree},
    walk::{TreeWalk, WalkedFile},
    whole_tree,
};
use replay_base::files;
use replay_fixture::harness::SourcePath;

/// Selects the files of a kernel project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSpec {
    /// Files or folders with the sources, relative to `prefix`.
    pub sources: Vec<SourcePath>,
    /// Files or folders with headers, relative to `prefix`.
    pub include: Vec<SourcePath>,
    /// Files or folders to keep as they are, with their modes, and with symlinks not followed; relative to
    /// `prefix`.
    pub tree: Vec<SourcePath>,
    /// The project's folder, relative to the repository's root; empty for the root itself.
    pub prefix: String,
    /// Headers outside of every revision, added to each.
    pub overlay: Overlay,
}

/// The purpose of a file in a harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceRole {
    /// Below `sources`; a file below `include` too counts as a source.
    Source,
    /// Below `include` only.
    Include,
    /// Below `tree`.
    Tree,
}

/// One file of a source set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Relative to the project's folder, with `/`.
    ///
    /// Begins with `../` where the harness names a folder beside its own, but with no more of them
    /// than the project's folder is deep: written below `DIR/PREFIX`, it stays in `DIR`.
    pub path: String,
    /// Its purpose in the harness.
    pub role: SourceRole,
    /// Its bytes; for a followed symlink, those of its target.
    pub content: Arc<[u8]>,
}

/// The files of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSet {
    /// Those below `sources` and `include`, sorted by path, each path once.
    pub files: Vec<SourceFile>,
    /// Those below `tree`, likewise.
    pub tree: Vec<TreeFile>,
    /// The submodules below `include`, in the names of folders: their headers are absent.
    pub submodules: Vec<String>,
    /// blake3 over role, path and content of all files, and over their kinds below `tree`.
    pub id: [u8; 32],
}

/// A key of a source set. Equal keys at two commits mean equal source sets, or the same fault at
/// both.
///
/// Different keys do not imply different source sets: a file's mode may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey([u8; 32]);

impl SourceKey {
    /// The key with these bytes, a hash of all that it stands for.
    pub fn new(key: [u8; 32]) -> SourceKey {
        SourceKey(key)
    }

    /// The bytes of the key, for the keys of dependent things.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// One path of a spec under its names, relative to the repository's root.
pub(super) struct NamedPath {
    pub role: SourceRole,
    /// Never empty; the first existing one is meant.
    pub names: Vec<String>,
    /// Whether a tree may lack it.
    pub optional: bool,
}

/// A named path of a tree.
pub(super) struct Resolved<'n> {
    /// The existing name.
    pub path: &'n str,
    /// Where it really lies.
    pub real: String,
    pub node: Node,
}

impl NamedPath {
    /// The first existing name.
    pub(super) fn resolve<T: Tree>(&self, walk: &TreeWalk<'_, T>) -> Result<Resolved<'_>, Stop> {
        for path in &self.names {
            match walk.resolve(path) {
                Ok((real, node)) => return Ok(Resolved { path, real, node }),
                Err(Stop::Fault(SourceFault::Missing { .. })) => {}
                Err(stop) => return Err(stop),
            }
        }
        let mut names = self.names.iter().cloned();
        let path = names.next().unwrap_or_default();
        let names = Box::new(OtherNames { tried: names.collect(), moved: None });
        Err(SourceFault::Missing { path, names, similar: Vec::new() }.into())
    }
}

impl SourceSpec {
    pub(super) fn named(&self) -> Result<Vec<NamedPath>, HistoryError> {
        let sources = self.sources.iter().map(|path| (SourceRole::Source, path));
        let include = self.include.iter().map(|path| (SourceRole::Include, path));
        let tree = self.tree.iter().map(|path| (SourceRole::Tree, path));
        sources
            .chain(include)
            .chain(tree)
            .map(|(role, path)| {
                let names = path.names().map(|name| from_root(&self.prefix, name));
                let optional = path.is_optional();
                Ok(NamedPath { role, names: names.collect::<Result<_, _>>()?, optional })
            })
            .collect()
    }
}

/// `prefix/path` without `.` and `..`.
pub(super) fn from_root(prefix: &str, path: &str) -> Result<String, HistoryError> {
    let outside = || HistoryError::PathOutside { path: path.to_owned() };
    if path.starts_with('/') || prefix.starts_with('/') {
        return Err(outside());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in prefix.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// `path`, relative to the root, as seen from the folder `prefix`.
pub(super) fn from_prefix(prefix: &str, path: &str) -> String {
    let prefix: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
    let parts: Vec<&str> = path.split('/').collect();
    let common = prefix.iter().zip(&parts).take_while(|(a, b)| a == b).count();
    let ups = std::iter::repeat_n("..", prefix.len() - common);
    ups.chain(parts[common..].iter().copied()).collect::<Vec<_>>().join("/")
}

impl History {
    /// The files of `spec` at `commit`.
    ///
    /// Symlinks are followed within the tree.
    ///
    /// # Errors
    /// [`HistoryError::Unusable`] if the revision lacks a named path, or has a submodule among the sources, a Git
    /// LFS pointer or a symlink that leads outside among the files;
    /// [`HistoryError::PathOutside`] if `spec` itself leads outside.
    pub fn source_set(
        &self,
        commit: impl Into<CommitId>,
        spec: &SourceSpec,
    ) -> Result<SourceSet, HistoryError> {
        let commit = self.find_commit(commit.into())?;
        let tree = GitTree::new(&self.repo, commit.tree_id());
        let read_result = read_set(&tree, spec, || SourceOrigin::Revision(self.short(commit.id())));
        read_result.map_err(|error| self.trace_rename(&commit, spec, error))
    }

    /// The files of `spec` in the working tree, without those ignored by git.
    ///
    /// # Errors
    /// [`HistoryError::NoWorkingTree`] for a bundle or a bare repository, else as
    /// [`History::source_set`].
    pub fn working_tree(&self, spec: &SourceSpec) -> Result<SourceSet, HistoryError> {
        let root = self
            .working_tree_root()
            .ok_or_else(|| HistoryError::NoWorkingTree { path: self.path.clone() })?;
        let tree = DiskTree::new(root, Some(&self.repo));
        let read_result = read_set(&tree, spec, || SourceOrigin::WorkingTree(root.to_owned()));
        read_result.map_err(|error| self.trace_move_in_working_tree(spec, error))
    }

    /// The changes of `commit` to the files of `spec`, as a unified diff.
    ///
    /// Without a parent everything is new. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if the repository lacks one of the commits.
    pub fn diff(
        &self,
        parent: Option<&Commit>,
        commit: &Commit,
        spec: &SourceSpec,
    ) -> Result<String, HistoryError> {
        let new = self.find_commit(commit.id)?.tree_id();
        let old = parent.map(|parent| self.find_commit(parent.id)).transpose()?;
        let mut options = DiffOptions::new();
        options.disable_pathspec_match(true);
        let named_paths = spec.named()?;
        // The root as a pathspec would match nothing; no pathspec matches everything.
        let names: Vec<String> =
            named_paths.into_iter().flat_map(|named_path| named_path.names).collect();
        if names.iter().all(|name| !name.is_empty()) {
            names.into_iter().for_each(|name| _ = options.pathspec(name));
        }
        self.print_diff(old.map(|old| old.tree_id()), new, &mut options).map_err(|source| {
            HistoryError::Git {
                doing: format!("show what commit {} changed", commit.short),
                source: source.into(),
            }
        })
    }

    fn print_diff(
        &self,
        old: Option<Oid>,
        new: Oid,
        options: &mut DiffOptions,
    ) -> Result<String, git2::Error> {
        let old = old.map(|id| self.repo.find_tree(id)).transpose()?;
        let new = self.repo.find_tree(new)?;
        let mut diff = self.repo.diff_tree_to_tree(old.as_ref(), Some(&new), Some(options))?;
        diff.find_similar(None)?;
        let mut text = Vec::new();
        diff.print(DiffFormat::Patch, |_, _, line: DiffLine<'_>| {
            if matches!(line.origin(), '+' | '-' | ' ') {
                text.push(line.origin() as u8);
            }
            text.extend_from_slice(line.content());
            true
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The files of `spec` below `root`, without a repository.
///
/// # Errors
/// As [`History::source_set`]; symlinks may not lead out of `root`.
pub fn source_set_from_dir(root: &Path, spec: &SourceSpec) -> Result<SourceSet, HistoryError> {
    read_set(&DiskTree::new(root, None), spec, || SourceOrigin::WorkingTree(root.to_owned()))
}

fn read_set(
    tree: &impl Tree,
    spec: &SourceSpec,
    place: impl Fn() -> SourceOrigin,
) -> Result<SourceSet, HistoryError> {
    let named_paths = spec.named()?;
    let ReadFiles { mut files, whole_files, submodules } =
        read_files(tree, &named_paths, &spec.prefix)
            .map_err(|stop| unreadable_sources(tree, stop, &place))?;
    if let (false, Some(taken_path)) = (spec.overlay.files().is_empty(), taken_by_overlay(&files)) {
        return Err(HistoryError::Unusable {
            place: place(),
            fault: SourceFault::BadName { path: taken_path.to_owned() },
        });
    }
    files.extend_from_slice(spec.overlay.files());
    Ok(SourceSet { submodules, ..SourceSet::new(files, whole_files) })
}

/// The path of a file in the place of an overlay.
fn taken_by_overlay(files: &[SourceFile]) -> Option<&str> {
    let is_taken = |file: &&SourceFile| file.path.split('/').next() == Some(OVERLAY);
    files.iter().find(is_taken).map(|file| file.path.as_str())
}

/// Why the files of `tree` at `place` could not be read.
pub(super) fn unreadable_sources(
    tree: &impl Tree,
    stop: Stop,
    place: impl Fn() -> SourceOrigin,
) -> HistoryError {
    match stop {
        Stop::Fault(fault) => {
            HistoryError::Unusable { place: place(), fault: suggest::complete_fault(tree, fault) }
        }
        Stop::TooManyFiles(limit) => HistoryError::TooManyFiles { place: place(), limit },
        Stop::Error(error) => error,
    }
}

/// The files of a spec.
#[derive(Default)]
pub(super) struct ReadFiles {
    /// Below `sources` and `include`.
    pub files: Vec<SourceFile>,
    /// Below `tree`.
    pub whole_files: Vec<TreeFile>,
    /// Submodules below `include`.
    pub submodules: Vec<String>,
}

pub(super) fn read_files(
    tree: &impl Tree,
    named_paths: &[NamedPath],
    prefix: &str,
) -> Result<ReadFiles, Stop> {
    let walk = TreeWalk::new(tree);
    let mut read = ReadFiles::default();
    for named_path in named_paths {
        if named_path.role == SourceRole::Tree {
            let Resolved { path, real, node } = match named_path.resolve(&walk) {
                Ok(resolved) => resolved,
                Err(Stop::Fault(SourceFault::Missing { .. })) if named_path.optional => continue,
                Err(stop) => return Err(stop),
            };
            let whole_files = whole_tree::read_whole_tree(tree, path, &real, node, prefix)?;
            read.whole_files.extend(whole_files);
            continue;
        }
        let walked = walk.files(named_path)?;
        for walked_file in &walked.files {
            read.files.push(read_file(tree, named_path.role, prefix, walked_file)?);
        }
        let submodules = walked.submodules.iter().map(|path| from_prefix(prefix, path));
        read.submodules.extend(submodules);
    }
    Ok(read)
}

fn read_file(
    tree: &impl Tree,
    role: SourceRole,
    prefix: &str,
    walked_file: &WalkedFile,
) -> Result<SourceFile, Stop> {
    let content = tree.read(&walked_file.real, Node::File(walked_file.id))?;
    if content.starts_with(files::LFS_SIGNATURE) {
        return Err(SourceFault::LfsPointer { path: walked_file.path.clone() }.into());
    }
    Ok(SourceFile { path: from_prefix(prefix, &walked_file.path), role, content: content.into() })
}

impl SourceSet {
    pub(super) fn new(mut files: Vec<SourceFile>, mut tree: Vec<TreeFile>) -> SourceSet {
        // `Source` sorts before `Include`: it is the role to stay.
        files.sort_by(|a, b| (&a.path, a.role).cmp(&(&b.path, b.role)));
        files.dedup_by(|later, first| later.path == first.path);
        tree.sort_by(|a, b| a.path.cmp(&b.path));
        tree.dedup_by(|later, first| later.path == first.path);
        let mut hasher = blake3::Hasher::new();
        for file in &files {
            hasher.update(&[file.role as u8]);
            hash_bytes(&mut hasher, file.path.as_bytes());
            hash_bytes(&mut hasher, &file.content);
        }
        for file in &tree {
            hasher.update(&[SourceRole::Tree as u8, file.kind as u8]);
            hash_bytes(&mut hasher, file.path.as_bytes());
            hasher.update(file.hash());
        }
        SourceSet { files, tree, submodules: Vec::new(), id: *hasher.finalize().as_bytes() }
    }
}

/// With the length first: no two lists of fields hash alike.
pub(super) fn hash_bytes(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
