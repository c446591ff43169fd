//! Ancestors for the beginning of a search: the last change of a file, and the first commit with the sources.

use std::collections::HashSet;
use std::path::Path;

use git2::{ErrorCode, Oid};

use super::{Commit, History, HistoryError, SourceSpec};

impl History {
    /// The last commit with a change of the file or folder `path`, as seen from `start_commit`: follows parents
    /// with the same content, to the first commit without such a parent. None if `start_commit` has no such
    /// path.
    ///
    /// # Errors
    /// [`HistoryError::Git`] for a damaged repository.
    pub fn last_change(
        &self,
        start_commit: &Commit,
        path: &Path,
    ) -> Result<Option<Commit>, HistoryError> {
        let Some(now) = self.entry_at(start_commit, path)? else { return Ok(None) };
        let mut current_commit = start_commit.clone();
        'back: loop {
            for id in self.links(current_commit.id.0)?.parents {
                let parent = self.commit(super::CommitId(id))?;
                if self.entry_at(&parent, path)? == Some(now) {
                    current_commit = parent;
                    continue 'back;
                }
            }
            return Ok(Some(current_commit));
        }
    }

    fn entry_at(&self, commit: &Commit, path: &Path) -> Result<Option<Oid>, HistoryError> {
        let root = self.repo.find_tree(self.tree_of(commit.id.0)?);
        let root = root.map_err(|source| unreadable_entry(commit, path, source))?;
        match root.get_path(path) {
            Ok(entry) => Ok(Some(entry.id())),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(source) => Err(unreadable_entry(commit, path, source)),
        }
    }

    /// The first commit, parents before children, among `start_commit` and its ancestors with the files of all
    /// `specs`; none if there is none.
    ///
    /// # Errors
    /// As [`History::source_set`], and [`HistoryError::Shallow`] if the history ends early.
    pub fn first_with_sources(
        &self,
        start_commit: &Commit,
        specs: &[&SourceSpec],
    ) -> Result<Option<Commit>, HistoryError> {
        let mut without = HashSet::new();
        'forth: for node in self.commits_between(&[], std::slice::from_ref(start_commit), false)? {
            for spec in specs {
                let key = self.source_key(node.id, spec)?;
                if without.contains(&key) {
                    continue 'forth;
                }
                match self.source_set(node.id, spec) {
                    Ok(_) => {}
                    Err(error) if error.is_revision_fault() => {
                        without.insert(key);
                        continue 'forth;
                    }
                    Err(error) => return Err(error),
                }
            }
            return Ok(Some(self.commit(node.id)?));
        }
        Ok(None)
    }
}

fn unreadable_entry(commit: &Commit, path: &Path, source: git2::Error) -> HistoryError {
    HistoryError::Git {
        doing: format!("read `{}` at {}", path.display(), commit.short),
        source: source.into(),
    }
}
