//! The files of a tree, as a program sees them. Those of a commit stay in the repository until they are wanted,
//! one at a time: a revision may hold more than fits in memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use git2::{Oid, Repository, RepositoryOpenFlags};

use super::HistoryError;
use super::tree::{GitTree, Node, Stop, Tree};
use replay_base::files;

/// The digests of git's objects read so far: revisions share most of their files.
static KNOWN: LazyLock<Mutex<HashMap<Oid, Digest>>> = LazyLock::new(Mutex::default);

fn lock_known_digests() -> MutexGuard<'static, HashMap<Oid, Digest>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kind of a path of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    Plain,
    /// A file with permission to run.
    Executable,
    /// A symlink; the content is its target.
    Link,
    /// A submodule, whose files are in another repository: an empty folder.
    Submodule,
}

/// One file of a tree, with its mode; a symlink is one.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// As the path of a [`SourceFile`](super::SourceFile).
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    digest: Digest,
    content: Content,
}

/// Identifies a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest {
    hash: blake3::Hash,
    is_pointer: bool,
}

impl Digest {
    fn from_content(content: &[u8]) -> Digest {
        Digest {
            hash: blake3::hash(content),
            is_pointer: content.starts_with(files::LFS_SIGNATURE),
        }
    }
}

#[derive(Clone, Debug)]
enum Content {
    /// The bytes themselves.
    Held(Arc<[u8]>),
    /// An object of the repository at a path.
    Object(Arc<Path>, Oid),
}

impl PartialEq for TreeFile {
    fn eq(&self, other: &TreeFile) -> bool {
        (&self.path, self.kind, self.digest) == (&other.path, other.kind, other.digest)
    }
}

impl Eq for TreeFile {}

impl TreeFile {
    pub(super) fn with_content(path: String, kind: FileKind, content: Vec<u8>) -> TreeFile {
        let digest = Digest::from_content(&content);
        TreeFile { path, kind, digest, content: Content::Held(content.into()) }
    }

    /// The object `id` of `repository`. `read_content` reads it if its digest is unknown.
    pub(super) fn object(
        path: String,
        kind: FileKind,
        (repository, id): (&Arc<Path>, Oid),
        read_content: impl FnOnce() -> Result<Vec<u8>, Stop>,
    ) -> Result<TreeFile, Stop> {
        let known_digest = lock_known_digests().get(&id).copied();
        let digest = match known_digest {
            Some(digest) => digest,
            None => {
                let digest = Digest::from_content(&read_content()?);
                lock_known_digests().insert(id, digest);
                digest
            }
        };
        Ok(TreeFile { path, kind, digest, content: Content::Object(repository.clone(), id) })
    }

    /// Identifies its content.
    pub(super) fn hash(&self) -> &[u8; 32] {
        self.digest.hash.as_bytes()
    }

    /// Whether Git LFS keeps its content elsewhere.
    pub fn is_pointer(&self) -> bool {
        self.digest.is_pointer
    }
}

/// Reads files of trees, one after the other.
#[derive(Default)]
pub struct TreeReader {
    /// The repository of the last.
    open: Option<(Arc<Path>, Repository)>,
}

impl TreeReader {
    /// The bytes of `file`; for a symlink its target.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if the repository no longer has them.
    pub fn read(&mut self, file: &TreeFile) -> Result<Arc<[u8]>, HistoryError> {
        let (path, id) = match &file.content {
            Content::Held(content) => return Ok(content.clone()),
            Content::Object(path, id) => (path, *id),
        };
        let opened_repository = match self.open.take().filter(|(last, _)| last == path) {
            Some(opened_repository) => opened_repository,
            None => (path.clone(), open_again(path)?),
        };
        let (_, repository) = self.open.insert(opened_repository);
        match GitTree::new(repository, Oid::ZERO_SHA1).read(&file.path, Node::File(id)) {
            Ok(content) => Ok(content.into()),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Fault(_) | Stop::TooManyFiles(_)) => unreachable!("it was read before"),
        }
    }
}

fn open_again(path: &Path) -> Result<Repository, HistoryError> {
    let no_ceilings = std::iter::empty::<&Path>();
    Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, no_ceilings).map_err(|source| {
        HistoryError::Git { doing: format!("open {}", path.display()), source: source.into() }
    })
}
