//! Paths that a revision has under another name, as git sees renames.

use git2::{Commit, Delta, DiffFindOptions, Oid, Tree};

use super::source_set::{from_prefix, from_root};
use super::{Fault, History, HistoryError, Rename, SourceSpec};
use crate::harness::SourcePath;

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
        match error {
            HistoryError::Unusable {
                place,
                fault: Fault::Missing { path, mut names, similar },
            } => {
                let tried = std::iter::once(&path).chain(&names.tried);
                let found = tried.into_iter().find_map(|name| self.remembered_rename(commit, name));
                names.moved = found.and_then(|found| {
                    let line = line_with(spec, &path, &found)?;
                    Some(Rename { place: found, line })
                });
                HistoryError::Unusable { place, fault: Fault::Missing { path, names, similar } }
            }
            other => other,
        }
    }

    fn remembered_rename(&self, commit: &Commit<'_>, path: &str) -> Option<String> {
        let key = (commit.tree_id(), path.to_owned());
        if let Some(known) = self.renames.borrow().get(&key) {
            return known.clone();
        }
        // What git cannot tell has no hint.
        let moved = self.find_rename(commit, path).ok().flatten();
        self.renames.borrow_mut().insert(key, moved.clone());
        moved
    }

    /// The path of `commit` that becomes `path` at HEAD, or was `path` before.
    fn find_rename(&self, commit: &Commit<'_>, path: &str) -> Result<Option<String>, git2::Error> {
        let own = commit.tree()?;
        if let Some(place) = self.follow_back(&own, path)? {
            return Ok(Some(place));
        }
        let Some([with, without]) = self.last_with(commit, path)? else { return Ok(None) };
        for tree in [&own, &without] {
            let place = self.renamed_between(tree, &with, path)?;
            if let Some(place) = place.filter(|place| has_path(&own, place)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The path of `own` that becomes `path` at HEAD, by one rename or by several.
    fn follow_back(&self, own: &Tree<'_>, path: &str) -> Result<Option<String>, git2::Error> {
        let Ok(mut at) = self.repo.head().and_then(|head| head.peel_to_commit()) else {
            return Ok(None);
        };
        let (mut tree, mut name) = (at.tree()?, path.to_owned());
        if !has_path(&tree, path) {
            return Ok(None);
        }
        if let Some(place) = self.renamed_between(own, &tree, path)? {
            return Ok(Some(place));
        }
        for _ in 0..MOST_COMMITS {
            let Ok(parent) = at.parent(0) else { return Ok(None) };
            let before = parent.tree()?;
            if !has_path(&before, &name) {
                let Some(place) = self.renamed_between(&before, &tree, &name)? else {
                    return Ok(None);
                };
                if has_path(own, &place) {
                    return Ok(Some(place));
                }
                name = place;
            }
            (at, tree) = (parent, before);
        }
        Ok(None)
    }

    /// The trees of the last commit behind `commit`, along first parents, that has `path`, and of the one after it.
    fn last_with(
        &self,
        commit: &Commit<'_>,
        path: &str,
    ) -> Result<Option<[Tree<'_>; 2]>, git2::Error> {
        let mut at: Oid = commit.id();
        for _ in 0..MOST_COMMITS {
            let child = self.repo.find_commit(at)?;
            let Ok(parent) = child.parent_id(0) else { return Ok(None) };
            let tree = self.repo.find_commit(parent)?.tree()?;
            if has_path(&tree, path) {
                let child = self.repo.find_tree(child.tree_id())?;
                return Ok(Some([tree, child]));
            }
            at = parent;
        }
        Ok(None)
    }

    /// The path of `own` that git sees as `path` of `other`.
    fn renamed_between(
        &self,
        own: &Tree<'_>,
        other: &Tree<'_>,
        path: &str,
    ) -> Result<Option<String>, git2::Error> {
        let mut diff = self.repo.diff_tree_to_tree(Some(own), Some(other), None)?;
        if diff.deltas().len() > MOST_FILES {
            return Ok(None);
        }
        diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
        let place =
            diff.deltas().filter(|delta| delta.status() == Delta::Renamed).find_map(|delta| {
                let (before, after) = (delta.old_file().path()?, delta.new_file().path()?);
                // A folder moves with the files in it.
                let below = after.strip_prefix(path).ok()?;
                let moved = before.to_str()?;
                match below.to_str()? {
                    "" => Some(moved.to_owned()),
                    below => moved.strip_suffix(below)?.strip_suffix('/').map(str::to_owned),
                }
            });
        Ok(place)
    }
}

/// The line of a harness in which the list that names `path` also names `place`; both are relative to the
/// repository's root.
fn line_with(spec: &SourceSpec, path: &str, place: &str) -> Option<String> {
    let is_meant = |named: &SourcePath| {
        let first = named.names().next();
        first.and_then(|name| from_root(&spec.prefix, name).ok()).is_some_and(|name| name == path)
    };
    let lists = [("sources", &spec.sources), ("include", &spec.include), ("tree", &spec.tree)];
    let (key, list) = lists.into_iter().find(|(_, list)| list.iter().any(is_meant))?;
    let in_list = |named: &SourcePath| match is_meant(named) {
        true => named.clone().or(from_prefix(&spec.prefix, place)).to_toml(),
        false => named.to_toml(),
    };
    Some(format!("{key} = [{}]", list.iter().map(in_list).collect::<Vec<_>>().join(", ")))
}

fn has_path(tree: &Tree<'_>, path: &str) -> bool {
    tree.get_path(std::path::Path::new(path)).is_ok()
}
