//! Keys of source sets, computed from git's ids alone. They find the commits without changed sources in a
//! history of many thousand commits, without reading a file.
//!
//! A key depends on the entries of the root tree at the beginnings of the named paths, unless a symlink is met.
//! Commits with equal entries share a key, and only their root trees are read.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    thread,
};

use git2::Oid;

use super::{
    CommitId, History, HistoryError, SourceKey, SourceRole, SourceSpec,
    objects::RootTreeEntry,
    source_set::{NamedPath, Resolved, hash_bytes},
    tree::{GitTree, Node, Stop, node_from_entry},
    walk::{MAX_DEPTH, TreeWalk},
};
use replay_base::tensor::parallel;

/// One thread computes the keys of fewer trees than these: opening a repository has its price.
const TREES_PER_THREAD: usize = 500;

/// The known keys.
#[derive(Default)]
pub(super) struct Keys {
    specs: Vec<SpecKeys>,
    /// Whether there is a symlink anywhere below a tree.
    links_below: HashMap<Oid, bool>,
}

/// The keys for one spec.
struct SpecKeys {
    spec: SourceSpec,
    /// The first components of its paths; none if one of them is the root itself.
    beginnings: Option<Arc<[String]>>,
    by_tree: HashMap<Oid, SourceKey>,
    /// By the entries of the root tree with these names.
    by_entries: HashMap<Vec<RootTreeEntry>, SourceKey>,
}

impl Keys {
    /// The place of the keys for `spec`.
    fn place(&mut self, spec: &SourceSpec) -> Result<usize, HistoryError> {
        if let Some(place) = self.specs.iter().position(|keys| keys.spec == *spec) {
            return Ok(place);
        }
        let beginnings = leading_path_components(&spec.named()?);
        let (by_tree, by_entries) = Default::default();
        self.specs.push(SpecKeys { spec: spec.clone(), beginnings, by_tree, by_entries });
        Ok(self.specs.len() - 1)
    }
}

impl History {
    /// A key of the files of `spec` at `commit`, from git's ids alone.
    ///
    /// Remembered for each tree: commits with equal trees cost nothing.
    ///
    /// # Errors
    /// [`HistoryError::PathOutside`], and [`HistoryError::Git`] for a damaged repository. A
    /// revision without the sources has a key as well: equal faults are one variant.
    pub fn source_key(
        &self,
        commit: impl Into<CommitId>,
        spec: &SourceSpec,
    ) -> Result<SourceKey, HistoryError> {
        self.key_of(self.tree_of(commit.into().0)?, spec)
    }

    /// The keys of many commits, one for each of `specs`. Uses several threads for many trees.
    ///
    /// # Errors
    /// As [`History::source_key`].
    pub fn source_keys(
        &self,
        commits: &[CommitId],
        specs: &[&SourceSpec],
    ) -> Result<HashMap<CommitId, Vec<SourceKey>>, HistoryError> {
        let trees =
            commits.iter().map(|commit| self.tree_of(commit.0)).collect::<Result<Vec<_>, _>>()?;
        let mut met = HashSet::new();
        // In the order of the history: neighbours are stored as differences from each other.
        let distinct: Vec<Oid> = trees.iter().copied().filter(|tree| met.insert(*tree)).collect();
        let threads = (distinct.len() / TREES_PER_THREAD).clamp(1, parallel::count_cores());
        let keys = match threads {
            1 => self.keys_of(&distinct, specs)?,
            _ => self.keys_by_threads(&distinct, specs, threads)?,
        };
        let by_tree: HashMap<Oid, Vec<SourceKey>> = distinct.into_iter().zip(keys).collect();
        Ok(commits.iter().zip(trees).map(|(id, tree)| (*id, by_tree[&tree].clone())).collect())
    }

    fn keys_by_threads(
        &self,
        trees: &[Oid],
        specs: &[&SourceSpec],
        threads: usize,
    ) -> Result<Vec<Vec<SourceKey>>, HistoryError> {
        thread::scope(|scope| {
            let work = trees.chunks(trees.len().div_ceil(threads)).map(|part| {
                let own_history = self.reopen();
                thread::Builder::new()
                    .spawn_scoped(scope, move || own_history?.keys_of(part, specs))
                    .map_err(|_| part)
            });
            let work: Vec<_> = work.collect();
            let mut keys = Vec::with_capacity(trees.len());
            for handle in work {
                let part = match handle {
                    Ok(handle) => {
                        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                    // Where the system has no thread for it, this one does it.
                    Err(part) => self.keys_of(part, specs),
                };
                keys.extend(part?);
            }
            Ok(keys)
        })
    }

    fn keys_of(
        &self,
        trees: &[Oid],
        specs: &[&SourceSpec],
    ) -> Result<Vec<Vec<SourceKey>>, HistoryError> {
        let keys_by_tree =
            trees.iter().map(|&tree| specs.iter().map(|spec| self.key_of(tree, spec)).collect());
        keys_by_tree.collect()
    }

    fn key_of(&self, root: Oid, spec: &SourceSpec) -> Result<SourceKey, HistoryError> {
        let place = self.keys.borrow_mut().place(spec)?;
        let beginnings = {
            let keys = &self.keys.borrow().specs[place];
            if let Some(key) = keys.by_tree.get(&root) {
                return Ok(*key);
            }
            keys.beginnings.clone()
        };
        let entries = beginnings.map(|names| self.entries(root, &names)).transpose()?;
        let known_key = entries
            .as_ref()
            .and_then(|entries| self.keys.borrow().specs[place].by_entries.get(entries).copied());
        let key = match known_key {
            Some(key) => key,
            None => {
                let (key, met_link) = self.compute_key(root, &spec.named()?)?;
                let key = spec.overlay.with(key);
                if let Some(entries) = entries.filter(|_| !met_link) {
                    self.keys.borrow_mut().specs[place].by_entries.insert(entries, key);
                }
                key
            }
        };
        self.keys.borrow_mut().specs[place].by_tree.insert(root, key);
        Ok(key)
    }

    /// The key, and whether a symlink was met on the way.
    fn compute_key(
        &self,
        root: Oid,
        named_paths: &[NamedPath],
    ) -> Result<(SourceKey, bool), HistoryError> {
        let tree = GitTree::new(&self.repo, root);
        let mut hasher = blake3::Hasher::new();
        let mut met_link = false;
        for named_path in named_paths {
            hasher.update(&[named_path.role as u8]);
            let walk = TreeWalk::new(&tree);
            let digested = self.hash_ids(&walk, named_path, &mut hasher);
            hash_walk_end(digested, &mut hasher)?;
            met_link |= walk.met_link();
        }
        Ok((SourceKey::new(*hasher.finalize().as_bytes()), met_link))
    }

    pub(super) fn hash_ids(
        &self,
        walk: &TreeWalk<'_, GitTree<'_>>,
        named_path: &NamedPath,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), Stop> {
        let Resolved { path, node, .. } = named_path.resolve(walk)?;
        hash_bytes(hasher, path.as_bytes());
        match node {
            // As it is: symlinks are not followed, and git's ids cover modes.
            Node::Folder(id) | Node::File(id) if named_path.role == SourceRole::Tree => {
                hasher.update(id.as_bytes());
            }
            Node::Executable(id) if named_path.role == SourceRole::Tree => {
                hasher.update(b"executable").update(id.as_bytes());
            }
            Node::Folder(id) if !self.has_links(id, 0)? => {
                hasher.update(id.as_bytes());
            }
            // A symlink may lead out of the folder, whose id does not cover its target then.
            _ => {
                for walked_file in walk.files(named_path)?.files {
                    hash_bytes(hasher, walked_file.path.as_bytes());
                    hasher.update(walked_file.id.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Whether there is a symlink below `folder`; also where it is too deep to be looked through.
    fn has_links(&self, folder: Oid, depth: usize) -> Result<bool, HistoryError> {
        if depth > MAX_DEPTH {
            return Ok(true);
        }
        if let Some(known_answer) = self.keys.borrow().links_below.get(&folder) {
            return Ok(*known_answer);
        }
        let tree = self.repo.find_tree(folder).map_err(|source| HistoryError::Git {
            doing: format!("read tree {folder}"),
            source: source.into(),
        })?;
        let mut has_link = false;
        for entry in tree.iter() {
            has_link |= match node_from_entry(&entry) {
                Node::Link(_) => true,
                Node::Folder(id) => self.has_links(id, depth + 1)?,
                Node::File(_) | Node::Executable(_) | Node::Submodule | Node::Other(_) => false,
            };
        }
        self.keys.borrow_mut().links_below.insert(folder, has_link);
        Ok(has_link)
    }
}

/// Adds to `hasher` how a walk over a path `ended`, so that equal faults have equal keys.
///
/// # Errors
/// Where the repository cannot be read.
pub(super) fn hash_walk_end(
    ended: Result<(), Stop>,
    hasher: &mut blake3::Hasher,
) -> Result<(), HistoryError> {
    match ended {
        Ok(()) => {}
        Err(Stop::Fault(fault)) => hash_bytes(hasher, fault.to_string().as_bytes()),
        // All commits with too many files share one key: none can be tested.
        Err(Stop::TooManyFiles(limit)) => {
            hasher.update(&(limit as u64).to_le_bytes());
        }
        Err(Stop::Error(error)) => return Err(error),
    }
    Ok(())
}

/// The first components of the paths; none if one of them is the root itself.
fn leading_path_components(named_paths: &[NamedPath]) -> Option<Arc<[String]>> {
    let mut names = BTreeSet::new();
    for path in named_paths.iter().flat_map(|named_path| &named_path.names) {
        match path.split('/').next() {
            None | Some("") => return None,
            Some(name) => names.insert(name.to_owned()),
        };
    }
    Some(names.into_iter().collect())
}
