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

    /// The range of the last commits behind HEAD, at most `most`, that change the files of `specs`, along first parents; and
    /// how many these are.
    ///
    /// # Errors
    /// As [`History::source_keys`], and if there is no HEAD.
    pub fn last_changes(
        &self,
        specs: &[&SourceSpec],
        most: usize,
    ) -> Result<(String, usize), HistoryError> {
        let head = self.head()?;
        let mut newer = head.clone();
        let mut changes = 0;
        while let Some(&parent) = newer.parents.first() {
            let keys = self.source_keys(&[newer.id, parent], specs)?;
            let is_change = keys[&newer.id] != keys[&parent];
            if is_change && changes == most {
                return Ok((format!("{}..{}", newer.short, head.short), changes));
            }
            changes += usize::from(is_change);
            newer = self.commit(parent)?;
        }
        let has_sources = specs.iter().any(|spec| self.source_set(newer.id, spec).is_ok());
        Ok((head.short, changes + usize::from(has_sources)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use git2::{Repository, Signature};

    #[test]
    fn the_last_changes_of_sources_are_a_range_that_passes_over_other_commits() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init(folder.path()).unwrap();
        let author = Signature::now("A", "a@example.org").unwrap();
        let mut ids = Vec::new();
        for (number, path) in ["other", "k.cu", "k.cu", "other", "k.cu", "other"].iter().enumerate()
        {
            let parent = ids.last().map(|&id| repo.find_commit(id).unwrap());
            let before = parent.as_ref().map(|parent| parent.tree().unwrap());
            let mut builder = repo.treebuilder(before.as_ref()).unwrap();
            let blob = repo.blob(number.to_string().as_bytes()).unwrap();
            builder.insert(path, blob, 0o100_644).unwrap();
            let tree = repo.find_tree(builder.write().unwrap()).unwrap();
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            let commit = repo.commit(Some("HEAD"), &author, &author, "change", &tree, &parents);
            ids.push(commit.unwrap());
        }
        let history = History::open(folder.path()).unwrap();
        let spec = SourceSpec { sources: vec!["k.cu".into()], ..SourceSpec::default() };
        let short =
            |index: usize| history.commit(super::super::CommitId(ids[index])).unwrap().short;
        let last = |most: usize| history.last_changes(&[&spec], most).unwrap();
        assert_eq!(last(2), (format!("{}..{}", short(1), short(5)), 2));
        assert_eq!(last(1), (format!("{}..{}", short(2), short(5)), 1));
        assert_eq!(last(20), (short(5), 3), "all of them");
    }
}
