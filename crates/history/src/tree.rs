//! Files by path, with one interface for a commit's tree and a folder on disk.
//!
//! Nothing here follows symlinks: a [`Tree`] reports a symlink and its target.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use git2::{ErrorClass, ErrorCode, ObjectType, Oid, Repository};

use super::{HistoryError, SourceFault};
use replay_base::files;

/// As long as Linux lets a name be, in bytes.
const LONGEST_NAME: usize = 255;

/// The node at a path. Ids are git's, and zero on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    File(Oid),
    /// A file with permission to run.
    Executable(Oid),
    Folder(Oid),
    Link(Oid),
    Submodule,
    /// On disk only: a pipe, a socket or a device.
    Other(&'static str),
}

/// Why a walk ended early: a fault of the tree, its size, or an error of the machine.
pub(super) enum Stop {
    Fault(SourceFault),
    TooManyFiles(usize),
    Error(HistoryError),
}

impl From<SourceFault> for Stop {
    fn from(fault: SourceFault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<HistoryError> for Stop {
    fn from(error: HistoryError) -> Stop {
        Stop::Error(error)
    }
}

/// An entry of a folder: its name, and the node.
pub(super) type Child = (Result<String, SourceFault>, Node);

/// Paths are relative to the root, with `/`, without `.` and `..`; the root is the empty path.
pub(super) trait Tree {
    fn root(&self) -> Node;
    /// The node at `folder/name`; `folder` is a real folder.
    fn child(&self, folder: &str, name: &str) -> Result<Option<Node>, Stop>;
    /// Names and nodes in `folder`, in the order of the names' bytes; a fault for a name impossible in a path.
    fn children(&self, folder: &str) -> Result<Vec<Child>, Stop>;
    /// The folder of the repository with its files as objects; none for files on disk.
    fn repository(&self) -> Option<&Path>;
    /// The bytes of a file, or the text of a symlink.
    fn read(&self, path: &str, node: Node) -> Result<Vec<u8>, Stop>;
}

/// `folder/name`, or `name` at the root.
pub(super) fn join_tree_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The tree of a commit.
pub(super) struct GitTree<'r> {
    repo: &'r Repository,
    root: Oid,
    /// Folders looked up before; they are asked for again for every child.
    folders: RefCell<HashMap<String, Oid>>,
}

impl<'r> GitTree<'r> {
    pub(super) fn new(repo: &'r Repository, root: Oid) -> Self {
        let folders = RefCell::new(HashMap::from([(String::new(), root)]));
        GitTree { repo, root, folders }
    }

    fn folder(&self, path: &str) -> Result<git2::Tree<'r>, HistoryError> {
        let known_id = self.folders.borrow().get(path).copied();
        let id = match known_id {
            Some(id) => id,
            None => {
                let root = self.repo.find_tree(self.root).map_err(read_error(path))?;
                let entry = root.get_path(Path::new(path)).map_err(read_error(path))?;
                self.folders.borrow_mut().insert(path.to_owned(), entry.id());
                entry.id()
            }
        };
        self.repo.find_tree(id).map_err(read_error(path))
    }
}

impl Tree for GitTree<'_> {
    fn root(&self) -> Node {
        Node::Folder(self.root)
    }

    fn repository(&self) -> Option<&Path> {
        Some(self.repo.path())
    }

    fn child(&self, folder: &str, name: &str) -> Result<Option<Node>, Stop> {
        Ok(self.folder(folder)?.get_name(name).map(|entry| node_from_entry(&entry)))
    }

    fn children(&self, folder: &str) -> Result<Vec<Child>, Stop> {
        let tree = self.folder(folder)?;
        let children = tree
            .iter()
            .map(|entry| (check_file_name(folder, entry.name_bytes()), node_from_entry(&entry)));
        Ok(children.collect())
    }

    fn read(&self, path: &str, node: Node) -> Result<Vec<u8>, Stop> {
        let (Node::File(id) | Node::Executable(id) | Node::Link(id) | Node::Folder(id)) = node
        else {
            return Err(SourceFault::Submodule { path: path.to_owned() }.into());
        };
        // Its header tells the size: a few bytes can stand for gigabytes.
        let database = self.repo.odb().map_err(read_error(path))?;
        let (bytes, _) = database.read_header(id).map_err(read_error(path))?;
        check_size(path, bytes as u64)?;
        let blob = self.repo.find_blob(id).map_err(read_error(path))?;
        let actual_id =
            Oid::hash_object(ObjectType::Blob, blob.content()).map_err(read_error(path))?;
        if actual_id != id {
            let complaint = format!("its object {id} is damaged");
            let error = git2::Error::new(ErrorCode::Invalid, ErrorClass::Odb, complaint);
            return Err(read_error(path)(error).into());
        }
        Ok(blob.content().to_vec())
    }
}

/// Refuses a file at `path` larger than any source, before it is read.
fn check_size(path: &str, bytes: u64) -> Result<(), SourceFault> {
    let limit = files::SOURCE_BYTES;
    if bytes > limit {
        return Err(SourceFault::TooLarge { path: path.to_owned(), bytes, limit });
    }
    Ok(())
}

pub(super) fn node_from_entry(entry: &git2::TreeEntry<'_>) -> Node {
    const LINK: i32 = 0o120000;
    const RUN_BY_OWNER: i32 = 0o100;
    match entry.kind() {
        Some(ObjectType::Tree) => Node::Folder(entry.id()),
        Some(ObjectType::Commit) => Node::Submodule,
        _ if entry.filemode() == LINK => Node::Link(entry.id()),
        _ if entry.filemode() & RUN_BY_OWNER != 0 => Node::Executable(entry.id()),
        _ => Node::File(entry.id()),
    }
}

fn read_error(path: &str) -> impl Fn(git2::Error) -> HistoryError {
    move |source| {
        let doing = match source.code() {
            ErrorCode::NotFound => format!("read `{path}`: its object is not in the repository"),
            _ => format!("read `{path}`"),
        };
        HistoryError::Git { doing, source: source.into() }
    }
}

/// `name` as text, if it is text and a file can have it.
///
/// git does not check names in somebody else's tree, and `..` would lead out of the folder of the sources.
fn check_file_name(folder: &str, name: &[u8]) -> Result<String, SourceFault> {
    let Ok(text) = str::from_utf8(name) else {
        let path = join_tree_path(folder, &String::from_utf8_lossy(name));
        return Err(SourceFault::NameNotUtf8 { path });
    };
    let reserved = matches!(text, "" | "." | "..") || text.eq_ignore_ascii_case(".git");
    if reserved || text.len() > LONGEST_NAME || text.contains(['/', '\0']) {
        return Err(SourceFault::BadName { path: join_tree_path(folder, text) });
    }
    Ok(text.to_owned())
}

/// A folder on disk. With a repository, files ignored by git are left out.
pub(super) struct DiskTree<'r> {
    root: PathBuf,
    repo: Option<&'r Repository>,
}

impl<'r> DiskTree<'r> {
    pub(super) fn new(root: &Path, repo: Option<&'r Repository>) -> Self {
        DiskTree { root: root.to_owned(), repo }
    }

    fn io_error(
        &self,
        doing: &'static str,
        path: impl AsRef<Path>,
    ) -> impl Fn(io::Error) -> HistoryError {
        let path = self.root.join(path);
        move |source| HistoryError::Io { doing, path: path.clone(), source }
    }

    fn node(&self, path: &Path) -> Result<Option<Node>, HistoryError> {
        let full_path = self.root.join(path);
        let metadata = match fs::symlink_metadata(&full_path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.io_error("read", path)(error)),
        };
        Ok(if metadata.is_symlink() {
            Some(Node::Link(Oid::ZERO_SHA1))
        } else if metadata.is_dir() && full_path.join(".git").exists() {
            Some(Node::Submodule)
        } else if metadata.is_dir() {
            Some(Node::Folder(Oid::ZERO_SHA1))
        } else if metadata.is_file() && metadata.permissions().mode() & 0o100 != 0 {
            Some(Node::Executable(Oid::ZERO_SHA1))
        } else if metadata.is_file() {
            Some(Node::File(Oid::ZERO_SHA1))
        } else {
            Some(Node::Other(files::file_type_name(metadata.file_type())))
        })
    }

    /// Refuses a pipe in the place of a `.gitignore`: libgit2 would block on it.
    fn check_ignore_lists(&self, folder: &str) -> Result<(), HistoryError> {
        if self.repo.is_none() {
            return Ok(());
        }
        let mut current_folder = PathBuf::from(folder);
        loop {
            let list = current_folder.join(".gitignore");
            match fs::metadata(self.root.join(&list)) {
                Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
                    let complaint = format!(
                        "it is {}, not a file",
                        files::file_type_name(metadata.file_type())
                    );
                    let error = io::Error::new(io::ErrorKind::InvalidInput, complaint);
                    return Err(self.io_error("read", &list)(error));
                }
                _ if !current_folder.pop() => return Ok(()),
                _ => {}
            }
        }
    }

    /// Ignored files are build products; a tracked file counts even if a pattern matches it.
    fn is_ignored(&self, path: &Path) -> bool {
        let Some(repo) = self.repo else { return false };
        if !repo.is_path_ignored(path).unwrap_or(false) {
            return false;
        }
        let is_tracked = repo.index().is_ok_and(|index| {
            index.get_path(path, 0).is_some() || index.find_prefix(path.join("")).is_ok()
        });
        !is_tracked
    }
}

impl Tree for DiskTree<'_> {
    fn root(&self) -> Node {
        Node::Folder(Oid::ZERO_SHA1)
    }

    fn repository(&self) -> Option<&Path> {
        None
    }

    fn child(&self, folder: &str, name: &str) -> Result<Option<Node>, Stop> {
        Ok(self.node(Path::new(&join_tree_path(folder, name)))?)
    }

    fn children(&self, folder: &str) -> Result<Vec<Child>, Stop> {
        self.check_ignore_lists(folder)?;
        let entries =
            fs::read_dir(self.root.join(folder)).map_err(self.io_error("list", folder))?;
        let mut found_children = Vec::new();
        for entry in entries {
            let name = entry.map_err(self.io_error("list", folder))?.file_name();
            if name == ".git" {
                continue;
            }
            let path = Path::new(folder).join(&name);
            if self.is_ignored(&path) {
                continue;
            }
            // Sockets and pipes are not sources; naming one is an error.
            if let Some(node) = self.node(&path)?.filter(|node| !matches!(node, Node::Other(_))) {
                found_children.push((name, node));
            }
        }
        found_children.sort();
        let children = found_children
            .into_iter()
            .map(|(name, node)| (check_file_name(folder, name.as_encoded_bytes()), node));
        Ok(children.collect())
    }

    fn read(&self, path: &str, node: Node) -> Result<Vec<u8>, Stop> {
        let full_path = self.root.join(path);
        let read_result = match node {
            Node::Link(_) => {
                fs::read_link(&full_path).map(|target| target.into_os_string().into_encoded_bytes())
            }
            _ => {
                let bytes = fs::metadata(&full_path).map_err(self.io_error("read", path))?.len();
                check_size(path, bytes)?;
                files::read_regular_file(&full_path, files::SOURCE_BYTES)
            }
        };
        Ok(read_result.map_err(self.io_error("read", path))?)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
