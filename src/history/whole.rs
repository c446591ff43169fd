//! Everything below a path as it is, for a tree that a program sees: modes and symlinks are kept, a
//! submodule is a folder without its files.

use super::{
    Fault, FileKind, Role, SourceFile,
    source_set::from_prefix,
    tree::{Node, Stop, Tree, join},
    walk::{MAX_DEPTH, MAX_FILES, Walk},
};

/// All files at or below `real`, under the names they have below `path`.
pub(super) fn files(
    tree: &impl Tree,
    path: &str,
    real: &str,
    node: Node,
    prefix: &str,
) -> Result<Vec<SourceFile>, Stop> {
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
            Node::Submodule => self.put(path, FileKind::Submodule, Vec::new()),
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
        let content = self.tree.read(real, node)?;
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
        self.put(path, FileKind::Link, target)
    }

    fn put(&mut self, path: &str, kind: FileKind, content: Vec<u8>) -> Result<(), Stop> {
        let path = from_prefix(self.prefix, path);
        self.files.push(SourceFile { path, role: Role::Tree, kind, content: content.into() });
        Ok(())
    }
}
