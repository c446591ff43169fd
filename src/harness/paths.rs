//! Paths in a harness: relative to the root of the repository, and inside it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A file or folder of a revision under its names at different revisions. The first existing name
/// is taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourcePath {
    name: String,
    others: Vec<String>,
}

impl SourcePath {
    /// The names, in the order of their trial; never none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.others).map(String::as_str)
    }

    /// As it stands in a list of `replay.toml`.
    pub fn to_toml(&self) -> String {
        let mut names = self.names().map(toml::Value::from);
        match (names.next(), self.others.is_empty()) {
            (Some(only), true) => only.to_string(),
            _ => toml::Value::Array(self.names().map(toml::Value::from).collect()).to_string(),
        }
    }

    /// With one name more, the last to try.
    pub fn or(mut self, name: String) -> SourcePath {
        self.others.push(name);
        self
    }
}

impl From<String> for SourcePath {
    fn from(name: String) -> SourcePath {
        SourcePath { name, others: Vec::new() }
    }
}

impl From<&str> for SourcePath {
    fn from(name: &str) -> SourcePath {
        SourcePath::from(name.to_owned())
    }
}

/// The fault of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// It has no characters.
    Empty,
    /// It holds a control character.
    Control,
    /// It begins at the root of the file system.
    Absolute,
    /// It leads out of the repository.
    Outside,
    /// It lies in `.git`.
    InGit,
    /// It holds `*` or `?`.
    Pattern,
    /// It is the root of the repository, where a file is wanted.
    Root,
    /// It stands in the list before.
    Twice,
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathFault::Empty => "is an empty path",
            PathFault::Control => "holds a control character",
            PathFault::Absolute => "is an absolute path",
            PathFault::Outside => "leads outside with `..`",
            PathFault::InGit => "lies in git's own folder, which no commit holds",
            PathFault::Pattern => "is a pattern, and patterns are not expanded",
            PathFault::Root => "is the repository itself, not a file",
            PathFault::Twice => "is listed twice",
        })
    }
}

/// `path` without `.` and doubled slashes.
pub(super) fn repository_path(path: &str, may_be_root: bool) -> Result<String, PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.contains(char::is_control) {
        return Err(PathFault::Control);
    }
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(PathFault::Outside);
    }
    if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(PathFault::InGit);
    }
    if path.contains(['*', '?']) {
        return Err(PathFault::Pattern);
    }
    match parts.is_empty() {
        false => Ok(parts.join("/")),
        true if may_be_root => Ok(".".to_owned()),
        true => Err(PathFault::Root),
    }
}

/// `path` from `folder`, for messages: without `..` if it is the same file.
pub(crate) fn join_lexically(folder: &Path, path: impl AsRef<Path>) -> PathBuf {
    let plain_path = folder.join(path);
    let mut tidy = PathBuf::new();
    for component in plain_path.components() {
        match component {
            Component::ParentDir if tidy.file_name().is_some() => _ = tidy.pop(),
            Component::CurDir => {}
            other_component => tidy.push(other_component),
        }
    }
    // Behind a symlink, `..` leads elsewhere.
    match (plain_path.canonicalize(), tidy.canonicalize()) {
        (Ok(meant), Ok(tidy_target)) if meant == tidy_target => tidy,
        _ => plain_path,
    }
}
