//! Paths that a revision has under another name, as git sees renames.

use std::path::Path;

use git2::{Commit, Delta, Diff, DiffFindOptions, DiffOptions, Oid, Tree};

use super::source_set::{from_prefix, from_root};
use super::{History, HistoryError, Rename, SourceFault, SourceSpec};
use replay_fixture::harness::SourcePath;

/// As many commits behind a revision are asked for a path that it lacks.
const MOST_COMMITS: usize = 4096;
/// A hint is not worth comparing more files that came or went.
const MOST_FILES: usize = 512;

impl History {
    /// Adds to a path of `spec` that `commit` lacks the place where git sees it.
    pub(super) fn trace_rename(
        &self,
        commit: &Commit<'_>,
        spec: &SourceSpec,
        error: HistoryError,
    ) -> HistoryError {
        with_rename(spec, error, |name| self.remembered_rename(commit, name))
    }

    /// Adds to a path of `spec` that the working tree lacks the place where git sees it.
    pub(super) fn trace_move_in_working_tree(
        &self,
        spec: &SourceSpec,
        error: HistoryError,
    ) -> HistoryError {
        // What git cannot tell has no hint.
        with_rename(spec, error, |name| self.find_move_in_working_tree(name).ok().flatten())
    }

    /// The path of the working tree that HEAD has, or had, as `path`.
    fn find_move_in_working_tree(&self, path: &str) -> Result<Option<String>, git2::Error> {
        let Some(root) = self.working_tree_root() else { return Ok(None) };
        let head = self.repo.head()?.peel_to_commit()?;
        let tree = head.tree()?;
        if !has_path(&tree, path) {
            let place = self.find_rename(&head, path)?;
            return Ok(place.filter(|place| root.join(place).exists()));
        }
        let mut options = DiffOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true).ignore_submodules(true);
        let mut diff =
            self.repo.diff_tree_to_workdir_with_index(Some(&tree), Some(&mut options))?;
        if diff.deltas().len() > MOST_FILES {
            return Ok(None);
        }
        diff.find_similar(Some(DiffFindOptions::new().renames(true).for_untracked(true)))?;
        let place = renames_in(&diff).find_map(|(before, after)| moved_with(path, before, after));
        Ok(place)
    }

    fn remembered_rename(&self, commit: &Commit<'_>, path: &str) -> Option<String> {
        let key = (commit.tree_id(), path.to_owned());
        if let Some(known_place) = self.renames.borrow().get(&key) {
            return known_place.clone();
        }
        // What git cannot tell has no hint.
        let moved_place = self.find_rename(commit, path).ok().flatten();
        self.renames.borrow_mut().insert(key, moved_place.clone());
        moved_place
    }

    /// The path of `commit` that becomes `path` at HEAD, or was `path` before.
    fn find_rename(&self, commit: &Commit<'_>, path: &str) -> Result<Option<String>, git2::Error> {
        let own_tree = commit.tree()?;
        if let Some(place) = self.follow_back(&own_tree, path)? {
            return Ok(Some(place));
        }
        let Some([with, without]) = self.last_with(commit, path)? else { return Ok(None) };
        for tree in [&own_tree, &without] {
            let place = self.renamed_between(tree, &with, path)?;
            if let Some(place) = place.filter(|place| has_path(&own_tree, place)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The path of `own_tree` that becomes `path` at HEAD, by one rename or by several.
    fn follow_back(&self, own_tree: &Tree<'_>, path: &str) -> Result<Option<String>, git2::Error> {
        let Ok(mut current_commit) = self.repo.head().and_then(|head| head.peel_to_commit()) else {
            return Ok(None);
        };
        let mut tree = current_commit.tree()?;
        let mut name = path.to_owned();
        if !has_path(&tree, path) {
            return Ok(None);
        }
        if let Some(place) = self.renamed_between(own_tree, &tree, path)? {
            return Ok(Some(place));
        }
        for _ in 0..MOST_COMMITS {
            let Ok(parent) = current_commit.parent(0) else { return Ok(None) };
            let tree_before = parent.tree()?;
            if !has_path(&tree_before, &name) {
                let Some(place) = self.renamed_between(&tree_before, &tree, &name)? else {
                    return Ok(None);
                };
                if has_path(own_tree, &place) {
                    return Ok(Some(place));
                }
                name = place;
            }
            (current_commit, tree) = (parent, tree_before);
        }
        Ok(None)
    }

    /// The trees of the last commit behind `commit`, along first parents, that has `path`, and of the one after it.
    fn last_with(
        &self,
        commit: &Commit<'_>,
        path: &str,
    ) -> Result<Option<[Tree<'_>; 2]>, git2::Error> {
        let mut current_id: Oid = commit.id();
        for _ in 0..MOST_COMMITS {
            let child = self.repo.find_commit(current_id)?;
            let Ok(parent) = child.parent_id(0) else { return Ok(None) };
            let tree = self.repo.find_commit(parent)?.tree()?;
            if has_path(&tree, path) {
                let child = self.repo.find_tree(child.tree_id())?;
                return Ok(Some([tree, child]));
            }
            current_id = parent;
        }
        Ok(None)
    }

    /// The path of `own_tree` that git sees as `path` of `other_tree`.
    fn renamed_between(
        &self,
        own_tree: &Tree<'_>,
        other_tree: &Tree<'_>,
        path: &str,
    ) -> Result<Option<String>, git2::Error> {
        let mut diff = self.repo.diff_tree_to_tree(Some(own_tree), Some(other_tree), None)?;
        if diff.deltas().len() > MOST_FILES {
            return Ok(None);
        }
        diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
        let place = renames_in(&diff).find_map(|(before, after)| moved_with(path, after, before));
        Ok(place)
    }
}

/// Adds to a path of `spec` that a revision lacks the place that `find_place` tells for one of its names.
fn with_rename(
    spec: &SourceSpec,
    error: HistoryError,
    find_place: impl Fn(&str) -> Option<String>,
) -> HistoryError {
    match error {
        HistoryError::Unusable {
            place,
            fault: SourceFault::Missing { path, mut names, similar },
        } => {
            let mut tried = std::iter::once(&path).chain(&names.tried);
            let found_place = tried.find_map(|name| find_place(name));
            names.moved = found_place.and_then(|found_place| {
                let line = line_with(spec, &path, &found_place)?;
                Some(Rename { place: found_place, line })
            });
            HistoryError::Unusable { place, fault: SourceFault::Missing { path, names, similar } }
        }
        other_error => other_error,
    }
}

/// The files that `diff` shows as renamed: their paths before and after.
fn renames_in<'d>(diff: &'d Diff<'_>) -> impl Iterator<Item = (&'d str, &'d str)> {
    let renamed = diff.deltas().filter(|delta| delta.status() == Delta::Renamed);
    renamed.filter_map(|delta| {
        Some((delta.old_file().path()?.to_str()?, delta.new_file().path()?.to_str()?))
    })
}

/// Where `path` went when the file `from` went to `to`. A folder moves with the files in it.
fn moved_with(path: &str, from: &str, to: &str) -> Option<String> {
    let path_below = Path::new(from).strip_prefix(path).ok()?.to_str()?;
    match path_below {
        "" => Some(to.to_owned()),
        path_below => to.strip_suffix(path_below)?.strip_suffix('/').map(str::to_owned),
    }
}

/// The line of a harness in which the list that names `path` also names `place`; both are relative to the
/// repository's root.
fn line_with(spec: &SourceSpec, path: &str, place: &str) -> Option<String> {
    let is_meant = |source_path: &SourcePath| {
        let first = source_path.names().next();
        first.and_then(|name| from_root(&spec.prefix, name).ok()).is_some_and(|name| name == path)
    };
    let lists = [("sources", &spec.sources), ("include", &spec.include), ("tree", &spec.tree)];
    let (key, list) = lists.into_iter().find(|(_, list)| list.iter().any(is_meant))?;
    let in_list = |source_path: &SourcePath| {
        if is_meant(source_path) {
            source_path.clone().or(from_prefix(&spec.prefix, place)).to_toml()
        } else {
            source_path.to_toml()
        }
    };
    Some(format!("{key} = [{}]", list.iter().map(in_list).collect::<Vec<_>>().join(", ")))
}

fn has_path(tree: &Tree<'_>, path: &str) -> bool {
    tree.get_path(Path::new(path)).is_ok()
}
