//! Finds missing paths of the checked-out commit in other revisions: `git bisect run` checks out commits older
//! than the fixtures.

use std::path::{Path, PathBuf};

use git2::Oid;

use super::History;

/// Where a path is other than in the checked-out commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRevisionPath {
    /// The checked-out commit, abbreviated.
    pub head: String,
    /// A branch or another name of the revision with the other content.
    pub name: String,
    /// Whether the checked-out commit has the path at all.
    pub here: bool,
    /// Whether `git bisect` is going on.
    pub bisecting: bool,
    /// The root of the working tree.
    pub root: PathBuf,
}

impl History {
    /// A revision with other content at `path` than the checked-out commit. Neither this commit nor the disk
    /// need have the path.
    ///
    /// The ends of a bisection are tried first, then the branches. Also none where the repository
    /// cannot tell: the result is only advice.
    pub fn elsewhere(&self, path: &Path) -> Option<OtherRevisionPath> {
        let root = self.working_tree_root()?.canonicalize().ok()?;
        let path_below = resolve_below_root(&root, path)?;
        let head = self.head().ok()?;
        let own_tree = self.repo.find_commit(head.id.0).ok()?.tree().ok()?;
        let own_entry = own_tree.get_path(&path_below).ok().map(|entry| entry.id());
        let bisecting = self.repo.path().join("BISECT_START").exists();
        let mut names = self.names("refs/bisect/*");
        // The commit under test is not one of the ends.
        names.retain(|(_, commit)| *commit != head.id.0);
        names.extend(self.names("refs/heads/*"));
        let (name, _) = names.into_iter().find(|(_, commit)| {
            let other_entry = self.find_entry(*commit, &path_below);
            other_entry.is_some() && other_entry != own_entry
        })?;
        Some(OtherRevisionPath {
            head: head.short,
            name,
            here: own_entry.is_some(),
            bisecting,
            root,
        })
    }

    fn find_entry(&self, commit: Oid, path: &Path) -> Option<Oid> {
        let tree = self.repo.find_commit(commit).ok()?.tree().ok()?;
        Some(tree.get_path(path).ok()?.id())
    }

    /// The references matching `pattern`: names without their folder, and their commits.
    fn names(&self, pattern: &str) -> Vec<(String, Oid)> {
        let Ok(references) = self.repo.references_glob(pattern) else { return Vec::new() };
        let named_commits = references.flatten().filter_map(|reference| {
            let name = reference.shorthand().ok()?.to_owned();
            Some((name, reference.peel_to_commit().ok()?.id()))
        });
        let mut names: Vec<(String, Oid)> = named_commits.collect();
        names.sort();
        names
    }
}

/// `path` from `root`, through its existing folders.
fn resolve_below_root(root: &Path, path: &Path) -> Option<PathBuf> {
    let full_path = std::path::absolute(path).ok()?;
    let existing_folder = full_path.ancestors().find(|folder| folder.exists())?;
    let missing_part = full_path.strip_prefix(existing_folder).ok()?;
    let real_path = existing_folder.canonicalize().ok()?.join(missing_part);
    Some(real_path.strip_prefix(root).ok()?.to_owned())
        .filter(|path_below| path_below.file_name().is_some())
}
