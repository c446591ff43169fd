//! Follows paths and symlinks through a [`Tree`], and lists files below folders.
//!
//! No path leaves the tree and no walk is endless, whatever the symlinks say.

use std::{cell::Cell, collections::VecDeque};

use git2::Oid;

use super::{
    SourceFault, SourceRole,
    source_set::{NamedPath, Resolved},
    tree::{Node, Stop, Tree, join_tree_path},
};

/// As many as Linux follows in one path.
const MAX_LINKS: usize = 40;
/// No kernel project has more files; a web of symlinks could make any number of them.
pub(super) const MAX_FILES: usize = 100_000;
/// No project has deeper folders; a handmade tree can have any depth.
pub(super) const MAX_DEPTH: usize = 128;
/// `include/project -> .` is customary; a second turn through it shows nothing new.
const MAX_VISITS: usize = 2;

/// The endings of the names of sources and headers.
const CODE: [&str; 12] =
    ["cu", "cuh", "h", "hh", "hpp", "hxx", "inl", "inc", "c", "cc", "cpp", "cxx"];

/// A file below a named path.
#[derive(Debug)]
pub(super) struct WalkedFile {
    /// As the sources would include it, symlinks and all.
    pub path: String,
    /// Where it really lies.
    pub real: String,
    pub id: Oid,
}

/// What lies below the named paths.
#[derive(Default)]
pub(super) struct Walked {
    pub files: Vec<WalkedFile>,
    /// The submodules among headers, under the names that the sources would include them by.
    pub submodules: Vec<String>,
}

pub(super) struct TreeWalk<'t, T> {
    tree: &'t T,
    entries: Cell<usize>,
    met_link: Cell<bool>,
}

impl<'t, T: Tree> TreeWalk<'t, T> {
    pub(super) fn new(tree: &'t T) -> Self {
        TreeWalk { tree, entries: Cell::new(0), met_link: Cell::new(false) }
    }

    /// Whether a symlink was met so far.
    pub(crate) fn met_link(&self) -> bool {
        self.met_link.get()
    }

    /// The real path of `path`, and its node: a file or a folder.
    pub(super) fn resolve(&self, path: &str) -> Result<(String, Node), Stop> {
        let mut left: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut passed: Vec<(String, Node)> = vec![(String::new(), self.tree.root())];
        let mut last_link = None;
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let (folder, node) = passed.last().map_or(("", self.tree.root()), |(p, n)| (p, *n));
            if !matches!(node, Node::Folder(_)) {
                return Err(missing_path_fault(last_link, path).into());
            } else if part == ".." {
                passed.pop();
                if passed.is_empty() {
                    return Err(outside_link_fault(last_link, path).into());
                }
            } else if !matches!(part.as_str(), "" | ".") {
                let entry_path = join_tree_path(folder, &part);
                match self.tree.child(folder, &part)? {
                    None => return Err(missing_path_fault(last_link, path).into()),
                    Some(Node::Submodule) => {
                        return Err(SourceFault::Submodule { path: entry_path }.into());
                    }
                    Some(Node::Other(kind)) => {
                        return Err(SourceFault::NotAFile { path: entry_path, kind }.into());
                    }
                    Some(link @ Node::Link(_)) => {
                        links += 1;
                        let target = self.read_link(&entry_path, link, links)?;
                        target.split('/').rev().for_each(|part| left.push_front(part.to_owned()));
                        last_link = Some((entry_path, target));
                    }
                    Some(entry_node) => passed.push((entry_path, entry_node)),
                }
            }
        }
        Ok(passed.pop().unwrap_or_else(|| (String::new(), self.tree.root())))
    }

    /// The relative target of the symlink, number `links` on this path.
    fn read_link(&self, entry_path: &str, link: Node, links: usize) -> Result<String, Stop> {
        let link_path = entry_path.to_owned();
        self.met_link.set(true);
        if links > MAX_LINKS {
            return Err(SourceFault::SymlinkLoop { link: link_path }.into());
        }
        let target = String::from_utf8_lossy(&self.tree.read(entry_path, link)?).into_owned();
        if target.starts_with('/') {
            return Err(SourceFault::SymlinkOutside { link: link_path, target }.into());
        }
        Ok(target)
    }

    /// All files at or below the first existing name of `named_path`, under the names they have below it. Headers in
    /// submodules are absent, like any header that a revision lacks; sources in submodules are a fault.
    pub(super) fn files(&self, named_path: &NamedPath) -> Result<Walked, Stop> {
        let mut walked = Walked::default();
        let is_passed = named_path.role == SourceRole::Include;
        match named_path.resolve(self) {
            Ok(Resolved { path, real, node }) => {
                let mut folders_above = Vec::new();
                self.collect(path.to_owned(), real, node, &mut folders_above, &mut walked)?;
            }
            Err(Stop::Fault(SourceFault::Submodule { path })) => walked.submodules.push(path),
            Err(Stop::Fault(SourceFault::Missing { .. })) if named_path.optional => {}
            Err(stop) => return Err(stop),
        }
        match walked.submodules.first() {
            Some(path) if !is_passed => Err(SourceFault::Submodule { path: path.clone() }.into()),
            _ => Ok(walked),
        }
    }

    fn collect(
        &self,
        path: String,
        real: String,
        node: Node,
        folders_above: &mut Vec<String>,
        walked: &mut Walked,
    ) -> Result<(), Stop> {
        self.entries.set(self.entries.get() + 1);
        if self.entries.get() > MAX_FILES {
            return Err(Stop::TooManyFiles(MAX_FILES));
        }
        match node {
            Node::File(id) | Node::Executable(id) => {
                walked.files.push(WalkedFile { path, real, id })
            }
            Node::Submodule => walked.submodules.push(path),
            Node::Other(kind) => return Err(SourceFault::NotAFile { path, kind }.into()),
            Node::Link(_) => match self.resolve(&real) {
                Ok((real, node)) => self.collect(path, real, node, folders_above, walked)?,
                Err(Stop::Fault(SourceFault::Submodule { .. })) => walked.submodules.push(path),
                Err(stop) => return Err(stop),
            },
            Node::Folder(_) => {
                if folders_above.iter().filter(|folder| **folder == real).count() >= MAX_VISITS {
                    return Ok(());
                }
                if folders_above.len() >= MAX_DEPTH {
                    return Err(SourceFault::TooDeep { path, limit: MAX_DEPTH }.into());
                }
                folders_above.push(real.clone());
                for (name, child) in self.tree.children(&real)? {
                    let Some(name) = includable_name(&real, name, child)? else { continue };
                    self.collect(
                        join_tree_path(&path, &name),
                        join_tree_path(&real, &name),
                        child,
                        folders_above,
                        walked,
                    )?;
                }
                folders_above.pop();
            }
        }
        Ok(())
    }
}

/// The name of an entry of `folder`, if `#include` can contain it; none for a file or folder without sources.
fn includable_name(
    folder: &str,
    name: Result<String, SourceFault>,
    node: Node,
) -> Result<Option<String>, SourceFault> {
    let fault = match name {
        Ok(name) if !name.contains(['"', '\\', '\n', '\r']) => return Ok(Some(name)),
        Ok(name) => SourceFault::BadName { path: join_tree_path(folder, &name) },
        Err(fault) => fault,
    };
    let (SourceFault::NameNotUtf8 { path } | SourceFault::BadName { path }) = &fault else {
        return Err(fault);
    };
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_of_no_file = matches!(name, "" | "." | "..") || name.eq_ignore_ascii_case(".git");
    let is_code = !matches!(node, Node::Folder(_)) && CODE.contains(&ending);
    if is_code || is_of_no_file { Err(fault) } else { Ok(None) }
}

fn missing_path_fault(last_link: Option<(String, String)>, path: &str) -> SourceFault {
    match last_link {
        Some((link, target)) => SourceFault::Dangling { link, target },
        None => SourceFault::Missing {
            path: path.to_owned(),
            names: Box::default(),
            similar: Vec::new(),
        },
    }
}

fn outside_link_fault(last_link: Option<(String, String)>, path: &str) -> SourceFault {
    let (link, target) = last_link.unwrap_or_else(|| (path.to_owned(), "..".to_owned()));
    SourceFault::SymlinkOutside { link, target }
}
