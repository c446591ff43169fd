//! Reads commits and trees of a long history no further than a search needs: a commit's links, and
//! a few entries of its root tree.
//!
//! Trusts the database: checksums of objects are not verified here.

use git2::{ErrorClass, ErrorCode, ObjectType, Oid};

use super::{CommitId, History, HistoryError};

/// A commit's links.
pub(super) struct Links {
    /// Its root tree.
    pub tree: Oid,
    /// Its parents, as far as a search can follow them.
    pub parents: Vec<Oid>,
}

/// An entry of a tree: mode and id; none where the tree has no such entry.
pub(super) type RootTreeEntry = Option<(u32, Oid)>;

impl History {
    /// The links of the commit `id`. The tree is remembered for [`History::tree_of`].
    pub(super) fn links(&self, id: Oid) -> Result<Links, HistoryError> {
        let links = if self.is_grafted {
            // Only libgit2 applies the user's grafts and the end of a shallow clone to the parents.
            let commit = self.find_commit(CommitId(id))?;
            Links { tree: commit.tree_id(), parents: commit.parent_ids().collect() }
        } else {
            self.object(id, ObjectType::Commit, parse_commit)?
        };
        self.trees.borrow_mut().insert(id, links.tree);
        Ok(links)
    }

    /// The root tree of the commit `id`.
    pub(super) fn tree_of(&self, id: Oid) -> Result<Oid, HistoryError> {
        let known_tree = self.trees.borrow().get(&id).copied();
        known_tree.map_or_else(|| Ok(self.links(id)?.tree), Ok)
    }

    /// The entries of the tree `id` with these names.
    pub(super) fn entries(
        &self,
        id: Oid,
        names: &[String],
    ) -> Result<Vec<RootTreeEntry>, HistoryError> {
        self.object(id, ObjectType::Tree, |bytes| find_entries(bytes, names))
    }

    /// Reads the object `id` and applies `parse` to it.
    fn object<T>(
        &self,
        id: Oid,
        kind: ObjectType,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, HistoryError> {
        let database = self.repo.odb().map_err(|source| unreadable_object(id, kind, source))?;
        let object = database.read(id).map_err(|source| unreadable_object(id, kind, source))?;
        let parsed = if object.kind() == kind { parse(object.data()) } else { None };
        parsed.ok_or_else(|| {
            let complaint = format!("the object is no {kind}");
            let source = git2::Error::new(ErrorCode::Invalid, ErrorClass::Object, complaint);
            unreadable_object(id, kind, source)
        })
    }
}

fn unreadable_object(id: Oid, kind: ObjectType, source: git2::Error) -> HistoryError {
    HistoryError::Git { doing: format!("read {kind} {id}"), source: source.into() }
}

/// `tree ID`, then a line `parent ID` for each parent.
fn parse_commit(text: &[u8]) -> Option<Links> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let tree = parse_link(lines.next()?, "tree ")?;
    let parents = lines
        .take_while(|line| line.starts_with(b"parent "))
        .map(|line| parse_link(line, "parent "))
        .collect::<Option<_>>()?;
    Some(Links { tree, parents })
}

/// The id behind `word` in `line`.
fn parse_link(line: &[u8], word: &str) -> Option<Oid> {
    let digits = line.strip_prefix(word.as_bytes())?;
    Oid::from_str(std::str::from_utf8(digits).ok()?).ok().filter(|_| digits.len() == 40)
}

fn find_entries(tree: &[u8], names: &[String]) -> Option<Vec<RootTreeEntry>> {
    let mut found_entries = vec![None; names.len()];
    let mut remaining_bytes = tree;
    while !remaining_bytes.is_empty() {
        let (entry, tail) = split_tree_entry(remaining_bytes)?;
        if let Some(name_index) =
            names.iter().position(|wanted_name| wanted_name.as_bytes() == entry.name)
        {
            found_entries[name_index] = Some((entry.mode, Oid::from_bytes(entry.id).ok()?));
        }
        remaining_bytes = tail;
    }
    Some(found_entries)
}

struct RawTreeEntry<'a> {
    mode: u32,
    name: &'a [u8],
    id: &'a [u8],
}

/// The first entry, `MODE NAME\0ID`, and the rest.
fn split_tree_entry(bytes: &[u8]) -> Option<(RawTreeEntry<'_>, &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
    let name_and_id = &bytes[space + 1..];
    let end = name_and_id.iter().position(|&byte| byte == 0)?;
    let (id, tail) = name_and_id[end + 1..].split_at_checked(20)?;
    Some((RawTreeEntry { mode, name: &name_and_id[..end], id }, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn a_commit_links_to_its_tree_and_its_parents_alone() {
        let text = format!("tree {A}\nparent {B}\nparent {A}\nauthor x\n\nparent {B}\n");
        let links = parse_commit(text.as_bytes()).unwrap();
        let id = |digits| Oid::from_str(digits).unwrap();
        assert_eq!((links.tree, links.parents), (id(A), vec![id(B), id(A)]));
    }

    #[test]
    fn text_that_is_no_commit_is_refused() {
        let short = format!("tree {A}\nparent {}\n", &B[..39]);
        for text in ["", "tree", "parent x\n", &format!("tree {A}x\n"), &short] {
            assert!(parse_commit(text.as_bytes()).is_none(), "{text:?}");
        }
    }

    #[test]
    fn an_entry_that_is_cut_short_is_refused() {
        let whole = [b"100644 a b\0".as_slice(), &[7; 20], b"rest"].concat();
        let (entry, rest) = split_tree_entry(&whole).unwrap();
        assert_eq!((entry.mode, entry.name), (0o100_644, b"a b".as_slice()));
        assert_eq!((entry.id, rest), ([7; 20].as_slice(), b"rest".as_slice()));
        for length in 0..31 {
            assert!(split_tree_entry(&whole[..length]).is_none(), "{length} bytes");
        }
    }
}
