//! Changes of a commit without a changed line: of names, of modes, of submodules.

use git2::{Delta, DiffDelta, DiffFindOptions, DiffOptions, FileMode};

use super::{Commit, GitCause, History, HistoryError};

/// What a commit changes, where that is no line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinelessChange {
    /// No file differs from the parent's.
    Nothing,
    /// Names of files alone.
    Names,
    /// Modes of files, and maybe their names.
    Modes,
    /// A submodule; other files as well, maybe.
    Submodule {
        path: String,
        /// Its commit before, if it was there.
        old: Option<String>,
        /// Its commit after the change, if it is there still.
        new: Option<String>,
    },
}

impl History {
    /// What `commit` changes since `parent`, if it moves a submodule or changes no line.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if the trees cannot be compared.
    pub fn find_lineless_change(
        &self,
        parent: &Commit,
        commit: &Commit,
    ) -> Result<Option<LinelessChange>, HistoryError> {
        self.compare_trees(parent, commit).map_err(|source| HistoryError::Git {
            doing: format!("compare {} with {}", commit.short, parent.short),
            source: GitCause::from(source),
        })
    }

    fn compare_trees(
        &self,
        parent: &Commit,
        commit: &Commit,
    ) -> Result<Option<LinelessChange>, git2::Error> {
        let [before, after] =
            [parent, commit].map(|of| self.repo.find_commit(of.id.0).and_then(|of| of.tree()));
        let mut options = DiffOptions::new();
        let mut diff =
            self.repo.diff_tree_to_tree(Some(&before?), Some(&after?), Some(&mut options))?;
        diff.find_similar(Some(DiffFindOptions::new().renames(true).exact_match_only(true)))?;
        let deltas: Vec<DiffDelta<'_>> = diff.deltas().collect();
        if let Some(submodule) = deltas.iter().find_map(read_submodule) {
            return Ok(Some(submodule));
        }
        let keeps_lines = |delta: &DiffDelta<'_>| delta.old_file().id() == delta.new_file().id();
        let changes_mode =
            |delta: &DiffDelta<'_>| delta.old_file().mode() != delta.new_file().mode();
        Ok(match deltas.as_slice() {
            [] => Some(LinelessChange::Nothing),
            deltas if !deltas.iter().all(keeps_lines) => None,
            deltas if deltas.iter().any(changes_mode) => Some(LinelessChange::Modes),
            _ => Some(LinelessChange::Names),
        })
    }
}

/// The submodule that `delta` adds, moves or removes.
fn read_submodule(delta: &DiffDelta<'_>) -> Option<LinelessChange> {
    let [old, new] = [delta.old_file(), delta.new_file()].map(|file| {
        let is_submodule = file.mode() == FileMode::Commit && !file.id().is_zero();
        is_submodule.then(|| file.id().to_string()[..7].to_owned())
    });
    if old.is_none() && new.is_none() {
        return None;
    }
    let file = if delta.status() == Delta::Deleted { delta.old_file() } else { delta.new_file() };
    let path = String::from_utf8_lossy(file.path_bytes()?).into_owned();
    Some(LinelessChange::Submodule { path, old, new })
}
