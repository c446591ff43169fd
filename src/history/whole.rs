//! Everything below a path as it is, for a tree that a program sees: modes and symlinks are kept, a
//! submodule is a folder without its files.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use git2::Oid;

use super::{
    Fault, FileKind, Role, SourceFile,
    source_set::from_prefix,
    tree::{Node, Stop, Tree, join},
    walk::{MAX_DEPTH, MAX_FILES, Walk},
};

/// The contents of git's objects that are held somewhere: revisions share most of their files.
static HELD: LazyLock<Mutex<HashMap<Oid, Weak<[u8]>>>> = LazyLock::new(Mutex::default);

/// All files at or below `real`, under the names they have below `path`.
pub(super) fn files(
    tree: &impl Tree,
    path: &str,
    real: &str,
    node: Node,
    prefix: &str,
) -> Result<Vec<SourceFile>, Stop> {
    HELD.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|_, content| content.strong_count() > 0);
    let mut reading = Reading { tree, prefix, files: Vec::new() };
    reading.collect(path, real, node, 0)?;
    Ok(reading.files)
}

struct Reading<'t, T> {
    tree: &'t T,
    prefix: &'t str,
    files: Vec<SourceFile>,
}

impl<T: Tree> Reading<'_, T> {
    fn collect(&mut self, path: &str, real: &str, node: Node, depth: usize) -> Result<(), Stop> {
        if self.files.len() >= MAX_FILES {
            return Err(Stop::TooManyFiles(MAX_FILES));
        }
        match node {
            Node::File(_) => self.read(path, real, node, FileKind::Plain),
            Node::Executable(_) => self.read(path, real, node, FileKind::Executable),
            Node::Link(_) => self.link(path, real, node),
            Node::Submodule => self.put(path, FileKind::Submodule, Vec::new().into()),
            Node::Other(kind) => Err(Fault::NotAFile { path: path.to_owned(), kind }.into()),
            Node::Folder(_) if depth >= MAX_DEPTH => {
                Err(Fault::TooDeep { path: path.to_owned(), limit: MAX_DEPTH }.into())
            }
            Node::Folder(_) => {
                for (name, child) in self.tree.children(real)? {
                    self.collect(&join(path, &name), &join(real, &name), child, depth + 1)?;
                }
                Ok(())
            }
        }
    }

    fn read(&mut self, path: &str, real: &str, node: Node, kind: FileKind) -> Result<(), Stop> {
        let id = match node {
            Node::File(id) | Node::Executable(id) if !id.is_zero() => Some(id),
            _ => None,
        };
        let held = || HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = id.and_then(|id| held().get(&id)?.upgrade()) {
            return self.put(path, kind, content);
        }
        let content: Arc<[u8]> = self.tree.read(real, node)?.into();
        if let Some(id) = id {
            held().insert(id, Arc::downgrade(&content));
        }
        self.put(path, kind, content)
    }

    fn link(&mut self, path: &str, real: &str, node: Node) -> Result<(), Stop> {
        let target = self.tree.read(real, node)?;
        match Walk::new(self.tree).resolve(real) {
            Err(Stop::Fault(Fault::SymlinkOutside { .. })) => {
                let target = String::from_utf8_lossy(&target).into_owned();
                return Err(Fault::SymlinkOutside { link: path.to_owned(), target }.into());
            }
            Err(stop @ Stop::Error(_)) => return Err(stop),
            // One that leads nowhere is kept, as git keeps it.
            Ok(_) | Err(Stop::Fault(_) | Stop::TooManyFiles(_)) => {}
        }
        self.put(path, FileKind::Link, target.into())
    }

    fn put(&mut self, path: &str, kind: FileKind, content: Arc<[u8]>) -> Result<(), Stop> {
        let path = from_prefix(self.prefix, path);
        self.files.push(SourceFile { path, role: Role::Tree, kind, content });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tree::GitTree;

    #[test]
    fn a_file_that_two_revisions_share_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init(folder.path()).unwrap();
        let read = |files: [(&str, &str); 2]| {
            let mut builder = repo.treebuilder(None).unwrap();
            for (name, text) in files {
                let blob = repo.blob(text.as_bytes()).unwrap();
                builder.insert(name, blob, 0o100_644).unwrap();
            }
            let root = builder.write().unwrap();
            let tree = GitTree::new(&repo, root);
            super::files(&tree, "", "", Node::Folder(root), "").ok().expect("a tree")
        };
        let one = read([("a", "the same"), ("b", "before")]);
        let other = read([("a", "the same"), ("b", "after")]);
        assert!(Arc::ptr_eq(&one[0].content, &other[0].content));
        assert_eq!((&*one[1].content, &*other[1].content), (&b"before"[..], &b"after"[..]));
    }
}
