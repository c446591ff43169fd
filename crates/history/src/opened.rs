//! Keys of the trees of programs by what replays opened: names, kinds and targets of symlinks count everywhere, contents
//! only of opened files. A program that runs the same on the same files runs the same on trees of one key.

use std::collections::{BTreeSet, HashMap};

use git2::Oid;

use super::{
    CommitId, History, HistoryError, SourceKey, SourceRole, SourceSpec,
    keys::hash_walk_end,
    source_set::{NamedPath, Resolved, from_prefix, hash_bytes},
    tree::{GitTree, Node, Stop, join_tree_path, node_from_entry},
    walk::{MAX_DEPTH, TreeWalk},
};

impl History {
    /// The key of the files of `spec` at each of `commits`, for replays that opened the files `opened` of its tree and no
    /// other.
    ///
    /// # Errors
    /// As [`History::source_key`].
    pub fn opened_keys(
        &self,
        commits: &[CommitId],
        spec: &SourceSpec,
        opened: &BTreeSet<String>,
    ) -> Result<HashMap<CommitId, SourceKey>, HistoryError> {
        let named_paths = spec.named()?;
        let mut digests = OpenedDigests { history: self, spec, opened, by_folder: HashMap::new() };
        let mut key_by_tree: HashMap<Oid, SourceKey> = HashMap::new();
        let mut keys = HashMap::new();
        for &commit in commits {
            let root = self.tree_of(commit.0)?;
            let key = match key_by_tree.get(&root) {
                Some(key) => *key,
                None => spec.overlay.with(digests.key_of(root, &named_paths)?),
            };
            key_by_tree.insert(root, key);
            keys.insert(commit, key);
        }
        Ok(keys)
    }
}

/// The digests of folders, for one set of opened files.
struct OpenedDigests<'h> {
    history: &'h History,
    spec: &'h SourceSpec,
    opened: &'h BTreeSet<String>,
    /// By git's id, and by the path of a folder with opened files.
    by_folder: HashMap<(Option<String>, Oid), blake3::Hash>,
}

impl OpenedDigests<'_> {
    fn key_of(&mut self, root: Oid, named_paths: &[NamedPath]) -> Result<SourceKey, HistoryError> {
        let tree = GitTree::new(&self.history.repo, root);
        let mut hasher = blake3::Hasher::new();
        for named_path in named_paths {
            hasher.update(&[named_path.role as u8]);
            let walk = TreeWalk::new(&tree);
            let digested = match named_path.role {
                SourceRole::Tree => self.hash_tree(&walk, named_path, &mut hasher),
                SourceRole::Source | SourceRole::Include => {
                    self.history.hash_ids(&walk, named_path, &mut hasher)
                }
            };
            hash_walk_end(digested, &mut hasher)?;
        }
        Ok(SourceKey::new(*hasher.finalize().as_bytes()))
    }

    fn hash_tree(
        &mut self,
        walk: &TreeWalk<'_, GitTree<'_>>,
        named_path: &NamedPath,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), Stop> {
        let Resolved { path, node, .. } = named_path.resolve(walk)?;
        hash_bytes(hasher, path.as_bytes());
        self.hash_node(&from_prefix(&self.spec.prefix, path), node, hasher, 0)
    }

    /// Hashes what `node` is, and what is at or below `path` of the laid-out tree as far as it counts.
    fn hash_node(
        &mut self,
        path: &str,
        node: Node,
        hasher: &mut blake3::Hasher,
        depth: usize,
    ) -> Result<(), Stop> {
        match node {
            Node::File(id) | Node::Executable(id) => {
                hasher.update(if matches!(node, Node::File(_)) { b"file" } else { b"exec" });
                let content = self.opened.contains(path).then_some(id);
                hash_bytes(hasher, content.as_ref().map_or(&[], |id| id.as_bytes()));
            }
            Node::Link(target) => {
                hasher.update(b"link").update(target.as_bytes());
            }
            Node::Folder(id) => {
                hasher.update(b"tree").update(self.digest_folder(path, id, depth)?.as_bytes());
            }
            Node::Submodule | Node::Other(_) => {
                hasher.update(b"else");
            }
        }
        Ok(())
    }

    fn digest_folder(&mut self, path: &str, id: Oid, depth: usize) -> Result<blake3::Hash, Stop> {
        let below = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut opened_from_here = self.opened.range(below.clone()..);
        let has_opened = opened_from_here.next().is_some_and(|first| first.starts_with(&below));
        let place = (has_opened.then(|| path.to_owned()), id);
        if let Some(digest) = self.by_folder.get(&place) {
            return Ok(*digest);
        }
        let mut hasher = blake3::Hasher::new();
        if depth > MAX_DEPTH {
            // Too deep to be laid out: all of it counts.
            hasher.update(id.as_bytes());
            return Ok(hasher.finalize());
        }
        let tree = self.history.repo.find_tree(id).map_err(|source| HistoryError::Git {
            doing: format!("read tree {id}"),
            source: source.into(),
        })?;
        for entry in tree.iter() {
            hash_bytes(&mut hasher, entry.name_bytes());
            let name = String::from_utf8_lossy(entry.name_bytes());
            let child_path = join_tree_path(path, &name);
            self.hash_node(&child_path, node_from_entry(&entry), &mut hasher, depth + 1)?;
        }
        let digest = hasher.finalize();
        self.by_folder.insert(place, digest);
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::{Repository, Signature};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// Whether trees before and after `change` have one key, for replays that opened `package/read` and `package/deep/read`.
    fn is_one_variant(change: impl FnOnce(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("package/deep")).unwrap();
        for path in ["package/read", "package/unread", "package/deep/read", "package/deep/unread"] {
            fs::write(folder.path().join(path), "text").unwrap();
        }
        fs::write(folder.path().join("outside"), "text").unwrap();
        symlink("read", folder.path().join("package/link")).unwrap();
        let before = commit_all(&repo);
        change(folder.path());
        let after = commit_all(&repo);
        let history = History::open(folder.path()).unwrap();
        let spec = SourceSpec { tree: vec!["package".into()], ..SourceSpec::default() };
        let opened = ["package/read", "package/deep/read"].map(str::to_owned).into();
        let keys = history.opened_keys(&[before, after], &spec, &opened).unwrap();
        keys[&before] == keys[&after]
    }

    fn commit_all(repo: &Repository) -> CommitId {
        let mut index = repo.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        let tree = repo.find_tree(index.write_tree().unwrap()).unwrap();
        let author = Signature::now("A", "a@example.org").unwrap();
        let parent = repo.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        CommitId(repo.commit(Some("HEAD"), &author, &author, "change", &tree, &parents).unwrap())
    }

    #[test]
    fn contents_count_where_they_were_opened_and_names_everywhere() {
        let write = |root: &Path, path: &str| fs::write(root.join(path), "other").unwrap();
        assert!(is_one_variant(|_| ()));
        assert!(is_one_variant(|root| write(root, "package/unread")));
        assert!(is_one_variant(|root| write(root, "package/deep/unread")));
        assert!(is_one_variant(|root| write(root, "outside")));
        assert!(!is_one_variant(|root| write(root, "package/read")));
        assert!(!is_one_variant(|root| write(root, "package/deep/read")));
        assert!(!is_one_variant(|root| write(root, "package/new")));
        assert!(!is_one_variant(|root| write(root, "package/deep/new")));
        assert!(!is_one_variant(|root| fs::remove_file(root.join("package/unread")).unwrap()));
        assert!(!is_one_variant(|root| {
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join("package/unread"), executable).unwrap();
        }));
        assert!(!is_one_variant(|root| {
            fs::remove_file(root.join("package/link")).unwrap();
            symlink("unread", root.join("package/link")).unwrap();
        }));
        assert!(!is_one_variant(|root| {
            fs::remove_file(root.join("package/unread")).unwrap();
            symlink("read", root.join("package/unread")).unwrap();
        }));
    }
}
