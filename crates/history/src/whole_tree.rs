//! Everything below a path as it is, for the tree of a program: modes and symlinks are kept, a submodule is a
//! folder without its files.

use std::path::Path;
use std::sync::Arc;

use super::{
    FileKind, SourceFault,
    content::TreeFile,
    source_set::from_prefix,
    tree::{Node, Stop, Tree, join_tree_path},
    walk::{MAX_DEPTH, MAX_FILES, TreeWalk},
};

/// All files at or below `real`, under the names they have below `path`.
pub(super) fn read_whole_tree(
    tree: &impl Tree,
    path: &str,
    real: &str,
    node: Node,
    prefix: &str,
) -> Result<Vec<TreeFile>, Stop> {
    let repository = tree.repository().map(Arc::from);
    let mut reading = Reading { tree, repository, prefix, files: Vec::new() };
    reading.collect(path, real, node, 0)?;
    Ok(reading.files)
}

struct Reading<'t, T> {
    tree: &'t T,
    /// Where its objects are; none on disk.
    repository: Option<Arc<Path>>,
    prefix: &'t str,
    files: Vec<TreeFile>,
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
            Node::Submodule => self.add_file(path, FileKind::Submodule, Vec::new()),
            Node::Other(kind) => Err(SourceFault::NotAFile { path: path.to_owned(), kind }.into()),
            Node::Folder(_) if depth >= MAX_DEPTH => {
                Err(SourceFault::TooDeep { path: path.to_owned(), limit: MAX_DEPTH }.into())
            }
            Node::Folder(_) => {
                for (name, child) in self.tree.children(real)? {
                    let name = match name {
                        // Paths are text: programs do without such a file.
                        Err(SourceFault::NameNotUtf8 { .. }) => continue,
                        name => name?,
                    };
                    self.collect(
                        &join_tree_path(path, &name),
                        &join_tree_path(real, &name),
                        child,
                        depth + 1,
                    )?;
                }
                Ok(())
            }
        }
    }

    fn read(&mut self, path: &str, real: &str, node: Node, kind: FileKind) -> Result<(), Stop> {
        match (node, &self.repository) {
            (Node::File(id) | Node::Executable(id), Some(repository)) => {
                let path = from_prefix(self.prefix, path);
                let object = (repository, id);
                let file = TreeFile::object(path, kind, object, || self.tree.read(real, node))?;
                self.files.push(file);
                Ok(())
            }
            _ => self.add_file(path, kind, self.tree.read(real, node)?),
        }
    }

    fn link(&mut self, path: &str, real: &str, node: Node) -> Result<(), Stop> {
        let target = self.tree.read(real, node)?;
        match TreeWalk::new(self.tree).resolve(real) {
            Err(Stop::Fault(SourceFault::SymlinkOutside { .. })) => {
                let target = String::from_utf8_lossy(&target).into_owned();
                return Err(SourceFault::SymlinkOutside { link: path.to_owned(), target }.into());
            }
            Err(stop @ Stop::Error(_)) => return Err(stop),
            // A symlink to nowhere is kept, as git keeps it.
            Ok(_) | Err(Stop::Fault(_) | Stop::TooManyFiles(_)) => {}
        }
        self.add_file(path, FileKind::Link, target)
    }

    fn add_file(&mut self, path: &str, kind: FileKind, content: Vec<u8>) -> Result<(), Stop> {
        self.files.push(TreeFile::with_content(from_prefix(self.prefix, path), kind, content));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TreeReader;
    use crate::tree::GitTree;

    #[test]
    fn files_of_a_commit_are_read_when_they_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init(folder.path()).unwrap();
        let mut builder = repo.treebuilder(None).unwrap();
        for (name, text) in [("a", "first"), ("b", "second")] {
            builder.insert(name, repo.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
        }
        let root = builder.write().unwrap();
        let tree = GitTree::new(&repo, root);
        let files =
            super::read_whole_tree(&tree, "", "", Node::Folder(root), "").ok().expect("a tree");
        let mut reader = TreeReader::default();
        assert_eq!(&*reader.read(&files[1]).unwrap(), b"second");
        let same = TreeFile::with_content("a".to_owned(), FileKind::Plain, b"first".to_vec());
        assert_eq!(files[0], same, "wherever it is, it is the same file");
        for objects in std::fs::read_dir(repo.path().join("objects")).unwrap() {
            std::fs::remove_dir_all(objects.unwrap().path()).unwrap();
        }
        let gone = TreeReader::default().read(&files[0]).unwrap_err();
        insta::assert_snapshot!(gone, @"failed to read `a`: its object is not in the repository");
    }
}
