//! Reads revisions, source sets and the commit graph from git repositories and bundles.
//!
//! Reading only: the user's repository, checkout and HEAD are never touched. A bundle is
//! unpacked into a bare repository of its own, in a temporary folder or in a cache.
//! No network, no user or system configuration of git.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod bundle;
mod bundle_header;
mod content;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod graph;
mod hunks;
mod keys;
mod libgit2;
mod lineage;
mod lineless;
mod memory;
mod objects;
mod opened;
mod other_revisions;
mod overlay;
mod renames;
mod revision;
mod source_set;
mod suggest;
mod tree;
mod walk;
mod whole_tree;

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use git2::{ErrorCode, Oid, Repository, RepositoryOpenFlags};
use replay_base::files;
use tempfile::TempDir;

pub use content::{FileKind, TreeFile, TreeReader};
pub use error::{
    CommitCandidate, GitCause, HistoryError, OtherNames, Rename, SourceFault, SourceOrigin,
};
pub use graph::{CommitGraph, GraphNode};
pub use hunks::{ConflictCause, Hunk, HunkConflict, HunkKind, HunkedChange, Merge, Reversal};
pub use lineless::LinelessChange;
pub use other_revisions::OtherRevisionPath;
pub use overlay::{OVERLAY, Overlay};
pub use source_set::{
    SourceFile, SourceKey, SourceRole, SourceSet, SourceSpec, source_set_from_dir,
};
pub use suggest::RevisionName;

/// The full id of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(Oid);

impl CommitId {
    /// The 20 bytes of the SHA-1.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl FromStr for CommitId {
    type Err = git2::Error;

    /// Reads the 40 digits of a commit's id.
    fn from_str(digits: &str) -> Result<CommitId, git2::Error> {
        match digits.len() {
            40 => Oid::from_str(digits).map(CommitId),
            _ => Err(git2::Error::from_str("not 40 digits")),
        }
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A commit as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The full id.
    pub id: CommitId,
    /// The shortest unique abbreviation of at least 7 digits.
    pub short: String,
    /// First paragraph of the message, in one line.
    pub subject: String,
    /// The author's name, as recorded.
    pub author_name: String,
    /// Committer's time, in seconds since 1970.
    pub time_s: i64,
    /// The recorded parents, even those missing from a shallow clone.
    pub parents: Vec<CommitId>,
}

impl From<&Commit> for CommitId {
    fn from(commit: &Commit) -> CommitId {
        commit.id
    }
}

/// A git repository or bundle, opened for reading.
///
/// `Send`, but not `Sync`: threads open one each.
pub struct History {
    repo: Repository,
    path: PathBuf,
    is_bundle: bool,
    /// Whether grafts or the end of a shallow clone change the recorded parents of commits.
    is_grafted: bool,
    /// The root trees of the commits met so far.
    trees: RefCell<HashMap<Oid, Oid>>,
    keys: RefCell<keys::Keys>,
    /// By tree and missing path: its place according to git, if there is one.
    renames: RefCell<HashMap<(Oid, String), Option<String>>>,
    /// Declared after `repo`: the files outlive their mappings.
    _unpacked: Option<TempDir>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("path", &self.path).finish_non_exhaustive()
    }
}

impl History {
    /// Opens a repository (its folder, a linked worktree, a bare one) or a bundle file.
    ///
    /// A bundle is unpacked into a temporary folder, removed when the value is dropped.
    ///
    /// # Errors
    /// [`HistoryError::NotARepository`], [`HistoryError::Sha256`], and the `Bundle` variants.
    pub fn open(path: &Path) -> Result<History, HistoryError> {
        Self::open_any(path, None)
    }

    /// Like [`History::open`], but unpacks a bundle below `cache`, where later calls find it.
    ///
    /// # Errors
    /// As [`History::open`], and [`HistoryError::Io`] if `cache` cannot be written.
    pub fn open_with_cache(path: &Path, cache: &Path) -> Result<History, HistoryError> {
        Self::open_any(path, Some(cache))
    }

    /// Opens the repository around `start_path`, a file or a folder.
    ///
    /// # Errors
    /// [`HistoryError::NoRepositoryAround`] if there is none.
    pub fn discover(start_path: &Path) -> Result<History, HistoryError> {
        libgit2::configure_libgit2();
        let start = if start_path.is_file() {
            start_path.parent().unwrap_or(start_path)
        } else {
            start_path
        };
        let start = if start.as_os_str().is_empty() { Path::new(".") } else { start };
        let repository_path = Repository::discover_path(start, std::iter::empty::<&Path>())
            .map_err(|_| HistoryError::NoRepositoryAround { path: start_path.to_owned() })?;
        Self::open_repository(&repository_path)
    }

    fn open_any(path: &Path, cache: Option<&Path>) -> Result<History, HistoryError> {
        libgit2::configure_libgit2();
        let metadata = fs::metadata(path)
            .map_err(|source| HistoryError::Open { path: path.to_owned(), source })?;
        if metadata.is_file() && bundle::is_bundle_file(path)? {
            Self::open_bundle(path, cache)
        } else {
            Self::open_repository(path)
        }
    }

    fn open_repository(path: &Path) -> Result<History, HistoryError> {
        refuse_endless(path)?;
        let repo =
            Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, std::iter::empty::<&Path>())
                .map_err(|source| repository_open_error(path, source))?;
        // libgit2 ends its folders with a slash; collecting the components takes it off.
        let path = repo.workdir().unwrap_or(repo.path()).components().collect();
        Ok(Self::new(repo, path, false, None))
    }

    fn open_bundle(path: &Path, cache: Option<&Path>) -> Result<History, HistoryError> {
        let (repo, unpacked) = match cache {
            Some(cache) => (bundle::open_cached(path, cache)?, None),
            None => {
                let (repo, folder) = bundle::open_temporary(path)?;
                (repo, Some(folder))
            }
        };
        Ok(Self::new(repo, path.to_owned(), true, unpacked))
    }

    fn new(repo: Repository, path: PathBuf, is_bundle: bool, unpacked: Option<TempDir>) -> Self {
        let is_grafted = repo.is_shallow() || repo.commondir().join("info/grafts").exists();
        let (trees, keys, renames) = Default::default();
        History { repo, path, is_bundle, is_grafted, trees, keys, renames, _unpacked: unpacked }
    }

    /// Opens the same repository once more, for another thread.
    ///
    /// A temporary folder of a bundle stays with this value.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if it cannot be opened any more.
    pub(crate) fn reopen(&self) -> Result<History, HistoryError> {
        let repo = Repository::open_ext(
            self.repo.path(),
            RepositoryOpenFlags::NO_SEARCH,
            std::iter::empty::<&Path>(),
        )
        .map_err(|source| repository_open_error(&self.path, source))?;
        Ok(Self::new(repo, self.path.clone(), self.is_bundle, None))
    }

    /// How many objects the repository replaces by others (`git replace`). They are read as they are recorded, as by
    /// `git --no-replace-objects`.
    pub fn replaced(&self) -> usize {
        self.repo
            .references_glob("refs/replace/*")
            .map_or(0, |references| references.flatten().count())
    }

    /// The working tree's root, else the repository's folder or the bundle's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this was opened from a bundle file.
    pub fn is_bundle(&self) -> bool {
        self.is_bundle
    }

    /// The folder of the checked-out files; none for a bundle or a bare repository.
    pub fn working_tree_root(&self) -> Option<&Path> {
        self.repo.workdir().is_some().then_some(&self.path)
    }

    /// The commit at HEAD: the checked-out one, or the tip of a bundle's default branch.
    ///
    /// # Errors
    /// [`HistoryError::NoCommits`] in a repository without commits.
    pub fn head(&self) -> Result<Commit, HistoryError> {
        match self.repo.head().and_then(|head| head.peel_to_commit()) {
            Ok(commit) => self.describe(&commit),
            Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
                let lost_head = self.lost("HEAD");
                Err(lost_head
                    .unwrap_or_else(|| HistoryError::NoCommits { path: self.path.clone() }))
            }
            Err(source) => {
                Err(HistoryError::Git { doing: "read HEAD".into(), source: source.into() })
            }
        }
    }

    /// The commit `id`, as reports show it.
    ///
    /// # Errors
    /// [`HistoryError::Git`] if the repository lacks it.
    pub fn commit(&self, id: CommitId) -> Result<Commit, HistoryError> {
        self.describe(&self.find_commit(id)?)
    }

    fn find_commit(&self, id: CommitId) -> Result<git2::Commit<'_>, HistoryError> {
        self.repo.find_commit(id.0).map_err(|source| HistoryError::Git {
            doing: format!("read commit {id}"),
            source: source.into(),
        })
    }

    fn describe(&self, commit: &git2::Commit<'_>) -> Result<Commit, HistoryError> {
        let subject = commit.summary_bytes().unwrap_or_default();
        Ok(Commit {
            id: CommitId(commit.id()),
            short: self.short(commit.id()),
            subject: String::from_utf8_lossy(subject).into_owned(),
            author_name: String::from_utf8_lossy(commit.author().name_bytes()).into_owned(),
            time_s: commit.time().seconds(),
            parents: recorded_parents(commit),
        })
    }

    /// The shortest unique abbreviation of at least 7 digits.
    fn short(&self, id: Oid) -> String {
        let full_id = id.to_string();
        let mut digits = 7;
        while digits < full_id.len()
            && self.repo.odb().and_then(|odb| odb.exists_prefix(id, digits)).is_err()
        {
            digits += 1;
        }
        full_id[..digits].to_owned()
    }
}

/// The parents in the commit's own header: libgit2 hides those missing from a shallow clone.
fn recorded_parents(commit: &git2::Commit<'_>) -> Vec<CommitId> {
    let header = String::from_utf8_lossy(commit.raw_header_bytes());
    header
        .lines()
        .skip_while(|line| line.starts_with("tree "))
        .map_while(|line| line.strip_prefix("parent "))
        .filter_map(|id| Oid::from_str(id.trim_end()).ok().map(CommitId))
        .collect()
}

/// Refuses pipes where git's library reads files of the repository at `path`: it would wait.
fn refuse_endless(path: &Path) -> Result<(), HistoryError> {
    const READ: [&str; 10] = [
        "HEAD",
        "commondir",
        "config",
        "config.worktree",
        "shallow",
        "packed-refs",
        "index",
        "info/grafts",
        "info/exclude",
        "objects/info/alternates",
    ];
    let own_folders = [path.to_owned(), path.join(".git")];
    let linked = own_folders.iter().filter_map(|folder| {
        let text = files::read_text(&folder.join("commondir"), files::TEXT_BYTES).ok()?;
        Some(folder.join(text.trim_end()))
    });
    for folder in own_folders.iter().cloned().chain(linked) {
        for file in READ.map(|name| folder.join(name)) {
            let file_type = fs::metadata(&file).map(|metadata| metadata.file_type());
            if let Ok(kind) = file_type.as_ref()
                && !kind.is_file()
                && !kind.is_dir()
            {
                let complaint = format!("it is {}, not a file", files::file_type_name(*kind));
                let source = io::Error::new(io::ErrorKind::InvalidInput, complaint);
                return Err(HistoryError::Io { doing: "read", path: file, source });
            }
        }
    }
    Ok(())
}

fn repository_open_error(path: &Path, source: git2::Error) -> HistoryError {
    let path = path.to_owned();
    let source = GitCause::from(source);
    if source.is_about_object_names() {
        HistoryError::Sha256 { path }
    } else if source.is_absence() {
        HistoryError::NotARepository { path }
    } else {
        HistoryError::Git { doing: format!("open repository `{}`", path.display()), source }
    }
}
