//! Errors of reading history, with advice to the user.
//!
//! [`HistoryError::is_revision_fault`] separates "this revision cannot be tested" from "the request
//! itself is wrong".

use std::{fmt, io, path::PathBuf};

/// Why a repository, bundle, revision or source set could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The path is neither a git repository nor a bundle, or no repository surrounds it.
    #[error("`{}` is neither a git repository nor a git bundle", path.display())]
    NotARepository {
        /// The path as given.
        path: PathBuf,
    },
    /// No repository surrounds the path.
    #[error("no git repository around `{}`", path.display())]
    NoRepositoryAround {
        /// The path where the search began.
        path: PathBuf,
    },
    /// The repository or bundle names its objects by SHA-256.
    #[error("`{}` names its objects by SHA-256, only SHA-1 is supported", path.display())]
    Sha256 {
        /// The repository or bundle.
        path: PathBuf,
    },
    /// The repository or bundle cannot be opened.
    #[error("failed to open `{}`", path.display())]
    Open {
        /// The repository or bundle.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("failed to {doing} `{}`", path.display())]
    Io {
        /// The failed action, such as `read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// git itself failed in a way without a variant of its own.
    #[error("failed to {doing}")]
    Git {
        /// The failed action.
        doing: String,
        /// libgit2's error.
        source: GitCause,
    },
    /// The repository has no commits.
    #[error("`{}` has no commits yet", path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// Nothing has this name.
    #[error("unknown revision `{rev}`")]
    UnknownRevision {
        /// The revision as given.
        rev: String,
        /// Branches and tags with a similar name, nearest first.
        similar: Vec<String>,
        /// Whether the clone is shallow, and may lack it.
        shallow: bool,
    },
    /// The ids of several commits begin alike.
    #[error("ambiguous revision `{prefix}`: {}", candidate_list(candidates, *total))]
    AmbiguousRevision {
        /// The abbreviated id as given.
        prefix: String,
        /// At most ten of the commits, by id.
        candidates: Vec<CommitCandidate>,
        /// How many commits there are.
        total: usize,
    },
    /// The revision exists, but is not a commit.
    #[error("revision `{rev}` is a {kind}, not a commit")]
    NotACommit {
        /// The revision as given.
        rev: String,
        /// `tree`, `blob` or `tag`.
        kind: &'static str,
    },
    /// A range without a meaning, or without a positive end.
    #[error("`{range}` is no range of commits")]
    BadRange {
        /// The range as given.
        range: String,
    },
    /// A shallow clone ends before the needed history.
    #[error("shallow clone: commit {commit} is here, its parent {parent} is not")]
    Shallow {
        /// The last commit in the repository, abbreviated.
        commit: String,
        /// The full id of the missing parent.
        parent: String,
    },
    /// The bundle is a Git LFS pointer.
    #[error("`{}` is a Git LFS pointer, not the bundle", path.display())]
    LfsPointer { path: PathBuf },
    /// A bundle's header cannot be parsed or contradicts its pack.
    #[error("corrupt bundle `{}`: {what}", path.display())]
    BundleHeader {
        path: PathBuf,
        /// The damage, with the line where it is known.
        what: String,
    },
    /// A bundle's pack is damaged or cut short.
    #[error("corrupt bundle `{}`: its pack cannot be read", path.display())]
    BundlePack {
        path: PathBuf,
        /// libgit2's error.
        source: GitCause,
    },
    /// A bundle with an unknown version or capability.
    #[error("bundle `{}` needs {what}, which is not supported", path.display())]
    BundleUnsupported {
        path: PathBuf,
        /// The version or capability.
        what: String,
    },
    /// A bundle with only a part of the history.
    #[error("bundle `{}` builds on commits that it does not hold: {}", path.display(), missing.join(", "))]
    BundlePrerequisites {
        path: PathBuf,
        /// Full ids, with the comment left by `git bundle create`.
        missing: Vec<String>,
    },
    /// The working tree was asked for where there is none.
    #[error("`{}` has no working tree", path.display())]
    NoWorkingTree {
        /// The bundle or bare repository.
        path: PathBuf,
    },
    /// A path of the harness leads out of the repository.
    #[error("source path `{path}` leads out of the repository")]
    PathOutside {
        /// The path as given.
        path: String,
    },
    /// The harness's overlay is missing, or no folder.
    #[error("the overlay `{}` is no folder", path.display())]
    NoOverlay {
        /// The path, as the harness leads to it.
        path: PathBuf,
        /// The system's error, if there was one.
        source: Option<io::Error>,
    },
    /// The named folders hold more files than a kernel project has.
    #[error("{place} holds more than {limit} files below the source paths")]
    TooManyFiles {
        /// Where it was found.
        place: SourceOrigin,
        /// How many are allowed.
        limit: usize,
    },
    /// The revision exists, but its sources cannot be read.
    #[error("{place} {fault}")]
    Unusable {
        /// Where it was found.
        place: SourceOrigin,
        /// The fault in it.
        fault: SourceFault,
    },
}

/// An error of libgit2, shown without its codes.
#[derive(Debug, PartialEq)]
pub struct GitCause(git2::Error);

impl From<git2::Error> for GitCause {
    fn from(error: git2::Error) -> GitCause {
        GitCause(error)
    }
}

impl GitCause {
    /// Whether an object is damaged or missing.
    fn is_damage(&self) -> bool {
        use git2::ErrorClass::{Indexer, Object, Odb, Tree, Zlib};
        matches!(self.0.class(), Odb | Zlib | Object | Tree | Indexer)
    }

    /// Whether libgit2 cannot read the format of the references; only the message tells.
    fn is_about_references(&self) -> bool {
        self.0.message().contains("refstorage")
    }

    /// Whether libgit2 does not know the object format of the repository; only the message tells.
    pub(super) fn is_about_object_names(&self) -> bool {
        let text = self.0.message().to_lowercase();
        text.contains("objectformat") || text.contains("object format")
    }

    /// Whether something was not found.
    pub fn is_absence(&self) -> bool {
        self.0.code() == git2::ErrorCode::NotFound
    }
}

impl fmt::Display for GitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for GitCause {}

/// A revision or the working tree, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceOrigin {
    /// A commit, by its abbreviated id.
    Revision(String),
    /// Files on disk.
    WorkingTree(PathBuf),
    /// A harness's folder of headers beside the revisions.
    Overlay(PathBuf),
}

impl fmt::Display for SourceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceOrigin::Revision(short_id) => write!(f, "revision {short_id}"),
            SourceOrigin::WorkingTree(root) => write!(f, "working tree `{}`", root.display()),
            SourceOrigin::Overlay(root) => write!(f, "overlay `{}`", root.display()),
        }
    }
}

/// Reasons why the sources of an existing revision cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceFault {
    /// A named path does not exist.
    #[error("has no file or folder {}{}", quoted_names(path, &names.tried), at_other_place(names))]
    Missing {
        /// The path, relative to the repository's root.
        path: String,
        /// Its other names.
        names: Box<OtherNames>,
        /// Similar paths of the same revision, nearest first.
        similar: Vec<String>,
    },
    /// A symlink whose target does not exist.
    #[error("has a symlink `{link}` to `{target}`, which does not exist")]
    Dangling { link: String, target: String },
    /// A symlink out of the tree.
    #[error("has a symlink `{link}` that leads outside, to `{target}`")]
    SymlinkOutside { link: String, target: String },
    /// Symlinks in a circle.
    #[error("has a symlink `{link}` that leads back to itself")]
    SymlinkLoop {
        /// One of the symlinks.
        link: String,
    },
    /// A submodule, whose files are in another repository.
    #[error("has a submodule at `{path}`, whose files are not in this repository")]
    Submodule {
        /// Where the submodule is mounted.
        path: String,
    },
    /// A pipe, a socket or a device where a file or folder is named.
    #[error("has {kind} at `{path}`, not a file")]
    NotAFile {
        path: String,
        /// The type of the file.
        kind: &'static str,
    },
    /// A file kept elsewhere by Git LFS.
    #[error("has only a Git LFS pointer at `{path}`, not the file")]
    LfsPointer { path: String },
    /// A file too large for a source.
    #[error("has a file of {bytes} bytes at `{path}`, more than the {limit} that are read")]
    TooLarge {
        path: String,
        bytes: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// A name impossible for a file or in an `#include`.
    #[error("has a name that no source can have: `{}`", path.escape_debug())]
    BadName { path: String },
    /// Folders in folders without end.
    #[error("has folders in more than {limit} folders at `{}...`", path.chars().take(60).collect::<String>())]
    TooDeep {
        /// The path of the last folder looked into.
        path: String,
        /// How many are allowed.
        limit: usize,
    },
    /// A file name impossible in `replay.toml` or in a report.
    #[error("has a file name that is not UTF-8: `{path}`")]
    NameNotUtf8 {
        /// The path, with the undecodable bytes replaced.
        path: String,
    },
}

/// Further names of a missing path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherNames {
    /// The names tried.
    pub tried: Vec<String>,
    /// Where the revision has it, if git sees it renamed.
    pub moved: Option<Rename>,
}

/// The place of a path under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The place, relative to the repository's root.
    pub place: String,
    /// The line of `replay.toml` with this place in it.
    pub line: String,
}

/// One of several commits with the same abbreviated id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitCandidate {
    /// The shortest unique abbreviation of at least 7 digits.
    pub short: String,
    /// First line of the message.
    pub subject: String,
}

fn candidate_list(candidates: &[CommitCandidate], total: usize) -> String {
    let mut shown_candidates: Vec<String> =
        candidates.iter().map(|c| format!("{} ({})", c.short, c.subject)).collect();
    if total > shown_candidates.len() {
        shown_candidates.push(format!("and {} more", total - shown_candidates.len()));
    }
    shown_candidates.join(", ")
}

impl HistoryError {
    /// Whether the revision is at fault (it cannot be tested), rather than the request.
    ///
    /// This holds for the working tree too: `git bisect run` has checked out some revision there.
    pub fn is_revision_fault(&self) -> bool {
        let HistoryError::Unusable { place, .. } = self else { return false };
        !matches!(place, SourceOrigin::Overlay(_))
    }

    /// Whether the revision lacks a named path under all names known to git: the path is newer, or was never there.
    pub fn is_absence(&self) -> bool {
        let HistoryError::Unusable { fault: SourceFault::Missing { names, .. }, .. } = self else {
            return false;
        };
        names.moved.is_none()
    }

    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            HistoryError::UnknownRevision { similar, shallow: true, .. } if similar.is_empty() => {
                Some("this clone is shallow; fetch the whole history: git fetch --unshallow".into())
            }
            HistoryError::UnknownRevision { similar, .. } => suggest_similar_names(similar),
            HistoryError::AmbiguousRevision { .. } => Some("write more digits of the id".into()),
            HistoryError::Shallow { .. } => {
                Some("fetch the whole history: git fetch --unshallow".into())
            }
            HistoryError::BundlePrerequisites { .. } => {
                Some("make a complete bundle: git bundle create FILE --all".into())
            }
            HistoryError::BundlePack { .. } | HistoryError::BundleHeader { .. } => {
                Some("copy the bundle again, and check it with: git bundle verify FILE".into())
            }
            HistoryError::LfsPointer { .. } => Some("fetch the bundle: git lfs pull".into()),
            HistoryError::NoOverlay { .. } => Some(
                "`overlay` in replay.toml is a folder of headers, relative to replay.toml".into(),
            ),
            HistoryError::TooManyFiles { place: SourceOrigin::Overlay(_), .. } => {
                Some("name a folder with the stand-in headers alone".into())
            }
            HistoryError::NoWorkingTree { .. } => Some("name a revision with --rev".into()),
            HistoryError::TooManyFiles { .. } => {
                Some("name the kernels' own folders in `sources` and `include`, or in `tree`".into())
            }
            HistoryError::Unusable { fault, place } => fault.hint(place),
            HistoryError::NoRepositoryAround { .. } => Some(
                "make one with `git init`, or name one, or a bundle, with `repository` in replay.toml"
                    .into(),
            ),
            HistoryError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "`repository` in replay.toml is a folder or a bundle on this machine, relative to \
                 replay.toml"
                    .into(),
            ),
            HistoryError::Git { source, .. } if source.is_about_references() => {
                Some("give the repository the usual form: git refs migrate --ref-format=files".into())
            }
            HistoryError::Open { source, .. } | HistoryError::Io { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("give yourself the permission to read it".into())
            }
            HistoryError::Git { source, .. } if source.is_damage() => {
                Some("the repository is damaged or incomplete; look at it with: git fsck".into())
            }
            _ => None,
        }
    }
}

impl SourceFault {
    fn hint(&self, place: &SourceOrigin) -> Option<String> {
        match self {
            SourceFault::Missing { names, .. } if let Some(found_rename) = &names.moved => Some(format!(
                "of several names the first that is there is taken; in replay.toml: {}",
                found_rename.line
            )),
            SourceFault::Missing { path, similar, .. }
                if similar.is_empty() && matches!(place, SourceOrigin::Revision(_)) =>
            {
                Some(format!(
                    "if only some revisions have it, write {{ path = \"{path}\", optional = true }} in replay.toml, or \
                     a list of its names: [\"{path}\", \"OTHER\"]"
                ))
            }
            SourceFault::Missing { similar, .. } => suggest_similar_names(similar),
            SourceFault::Submodule { .. } => {
                Some(
                    "name folders without submodules in `sources`; a copy of its files outside of the \
                     repository serves as headers for every revision: `system_include`, or `overlay` \
                     for device code"
                        .into(),
                )
            }
            SourceFault::TooLarge { .. } => Some(
                "name the files that the kernels need in `sources` and `include`, or in `tree`"
                    .into(),
            ),
            SourceFault::LfsPointer { .. } => Some(match place {
                SourceOrigin::WorkingTree(_) | SourceOrigin::Overlay(_) => "fetch the files: git lfs pull".into(),
                SourceOrigin::Revision(_) => "git's own objects are read, not those of LFS: check the \
                                       revision out, and replay the working tree, without --rev"
                    .into(),
            }),
            _ => None,
        }
    }
}

/// `a` or `b`, in quotes.
fn quoted_names(path: &str, other_names: &[String]) -> String {
    let names = std::iter::once(path).chain(other_names.iter().map(String::as_str));
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

fn at_other_place(names: &OtherNames) -> String {
    let found_rename = names.moved.as_ref();
    found_rename.map_or(String::new(), |found_rename| {
        format!(": git sees it at `{}` there", found_rename.place)
    })
}

fn suggest_similar_names(similar: &[String]) -> Option<String> {
    let quoted: Vec<String> = similar.iter().map(|name| format!("`{name}`")).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}
