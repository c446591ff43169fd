//! Paths that a revision has under another name, as git sees renames.

use git2::{Commit, Delta, DiffFindOptions, Oid, Tree};

use super::{Fault, History, HistoryError};

/// As many commits behind a revision are asked for a path that it lacks.
const MOST_COMMITS: usize = 4096;
/// A hint is not worth comparing more files that came or went.
const MOST_FILES: usize = 512;

impl History {
    /// Adds to a path that `commit` lacks the place where git sees it.
    pub(super) fn trace_rename(&self, commit: &Commit<'_>, error: HistoryError) -> HistoryError {
        match error {
            HistoryError::Unusable {
                place,
                fault: Fault::Missing { path, mut names, similar },
            } => {
                names.moved = self.remembered_rename(commit, &path);
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
        let head = self.repo.head().and_then(|head| head.peel_to_tree());
        let at_head = head.ok().filter(|tree| has_path(tree, path));
        let other = match at_head {
            Some(tree) => Some(tree),
            None => self.last_with(commit, path)?,
        };
        other.map_or(Ok(None), |other| self.renamed_between(&own, &other, path))
    }

    /// The tree of the last commit behind `commit`, along first parents, that has `path`.
    fn last_with(&self, commit: &Commit<'_>, path: &str) -> Result<Option<Tree<'_>>, git2::Error> {
        let mut at: Oid = commit.id();
        for _ in 0..MOST_COMMITS {
            let Ok(parent) = self.repo.find_commit(at)?.parent_id(0) else { return Ok(None) };
            let tree = self.repo.find_commit(parent)?.tree()?;
            if has_path(&tree, path) {
                return Ok(Some(tree));
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

fn has_path(tree: &Tree<'_>, path: &str) -> bool {
    tree.get_path(std::path::Path::new(path)).is_ok()
}
