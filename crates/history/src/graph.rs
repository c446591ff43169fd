//! The commits between revisions: ranges as `git log` takes them, and the graph of a search.
//!
//! Lists the commits of `git rev-list`, with the edges. Callers decide on the tests.

use std::collections::{HashMap, HashSet};

use git2::{ErrorCode, Oid};

use super::{Commit, CommitId, History, HistoryError};

/// The commits reachable from a bad revision and from no good one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitGraph {
    /// Parents before their children.
    pub nodes: Vec<GraphNode>,
    /// The best common ancestors of each bad revision with the good ones, sorted, as `git merge-base --all BAD
    /// GOOD...` gives them. One besides the good revisions must be tested: if it were bad, the search could not
    /// find the break. Empty for unrelated histories.
    pub merge_bases: Vec<CommitId>,
}

/// A commit of a [`CommitGraph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    pub id: CommitId,
    /// Positions of its parents among the nodes; all smaller than its own.
    pub parents: Vec<usize>,
    /// Its parents outside of the graph: good, or reachable from a good revision.
    pub outside: Vec<CommitId>,
}

/// The two sides of `git rev-list`.
#[derive(Default)]
struct RevListEnds {
    include: Vec<Oid>,
    exclude: Vec<Oid>,
}

impl History {
    /// The commits of `git log RANGE`, parents before their children.
    ///
    /// Understands `a..b`, `a...b`, `^a b`, `a^!`, `a^@`, `a^-` and several of them.
    ///
    /// # Errors
    /// Those of [`History::resolve`], and [`HistoryError::BadRange`] if no end is positive.
    pub fn range(&self, range: &str) -> Result<Vec<Commit>, HistoryError> {
        let mut ends = RevListEnds::default();
        for word in split_range_words(range) {
            self.add_word(word, &mut ends)?;
        }
        if ends.include.is_empty() {
            return Err(HistoryError::BadRange { range: range.to_owned() });
        }
        let commits = self.reachable(&ends, false)?;
        commits.into_iter().map(|(id, _)| self.commit(CommitId(id))).collect()
    }

    /// The graph for the search of the first bad commit.
    ///
    /// With `first_parent`, only the first parent of each commit is followed from the bad
    /// revisions, as `git rev-list --first-parent` does.
    ///
    /// # Errors
    /// [`HistoryError::Shallow`] if a shallow clone ends within the graph.
    pub fn graph(
        &self,
        good_commits: &[Commit],
        bad_commits: &[Commit],
        first_parent: bool,
    ) -> Result<CommitGraph, HistoryError> {
        let nodes = self.commits_between(good_commits, bad_commits, first_parent)?;
        let merge_bases = self.merge_bases(&create_rev_list_ends(good_commits, bad_commits))?;
        Ok(CommitGraph { nodes, merge_bases })
    }

    /// The nodes of [`History::graph`] alone. In a long history the merge bases take as long again.
    ///
    /// # Errors
    /// As [`History::graph`].
    pub fn commits_between(
        &self,
        good_commits: &[Commit],
        bad_commits: &[Commit],
        first_parent: bool,
    ) -> Result<Vec<GraphNode>, HistoryError> {
        Ok(link_graph_nodes(
            &self.reachable(&create_rev_list_ends(good_commits, bad_commits), first_parent)?,
        ))
    }

    fn add_word(&self, word: &str, ends: &mut RevListEnds) -> Result<(), HistoryError> {
        // `:/text` and `rev^{/text}` may hold dots and carets.
        let is_plain = !word.starts_with(":/") && !word.contains("^{/");
        if let Some((left, right)) = word.split_once("...").filter(|_| is_plain) {
            let left = self.end(left)?;
            let right = self.end(right)?;
            ends.include.extend([left, right]);
            ends.exclude.extend(self.common_ancestors(left, &[right])?);
        } else if let Some((left, right)) = word.split_once("..").filter(|_| is_plain) {
            ends.exclude.push(self.end(left)?);
            ends.include.push(self.end(right)?);
        } else if let Some(rev) = word.strip_prefix('^') {
            ends.exclude.push(self.end(rev)?);
        } else if let Some(rev) = word.strip_suffix("^!") {
            let commit = self.resolve(rev)?;
            ends.include.push(commit.id.0);
            ends.exclude.extend(commit.parents.iter().map(|parent| parent.0));
        } else if let Some(rev) = word.strip_suffix("^@") {
            ends.include.extend(self.resolve(rev)?.parents.iter().map(|parent| parent.0));
        } else if let Some((rev, number)) = word.rsplit_once("^-").filter(|_| is_plain) {
            let number = if number.is_empty() { "1" } else { number };
            ends.include.push(self.end(rev)?);
            ends.exclude.push(self.end(&format!("{rev}^{number}"))?);
        } else {
            ends.include.push(self.end(word)?);
        }
        Ok(())
    }

    fn end(&self, rev: &str) -> Result<Oid, HistoryError> {
        let rev = if rev.is_empty() { "HEAD" } else { rev };
        Ok(self.resolve(rev)?.id.0)
    }

    /// The commits between the ends with their parents; parents before their children.
    ///
    /// git and libgit2 stop early by the commits' dates, and list too many commits where clocks
    /// were wrong. A search must not, so everything behind the excluded ends is visited.
    fn reachable(
        &self,
        ends: &RevListEnds,
        first_parent: bool,
    ) -> Result<Vec<(Oid, Vec<Oid>)>, HistoryError> {
        let excluded = self.ancestors(&ends.exclude)?;
        let mut seen_ids = HashSet::new();
        let mut order = Vec::new();
        // A commit is listed when it is met again, below the entries of its parents.
        let mut stack: Vec<(Oid, Option<Vec<Oid>>)> =
            ends.include.iter().rev().map(|id| (*id, None)).collect();
        while let Some((id, visited)) = stack.pop() {
            if let Some(parents) = visited {
                order.push((id, parents));
            } else if !excluded.contains(&id) && seen_ids.insert(id) {
                let mut parents = self.present_parents(id)?;
                parents.truncate(if first_parent { 1 } else { usize::MAX });
                stack.push((id, Some(parents.clone())));
                stack.extend(parents.iter().rev().map(|parent| (*parent, None)));
            }
        }
        Ok(order)
    }

    /// The commits and their ancestors, as far as they exist.
    fn ancestors(&self, ids: &[Oid]) -> Result<HashSet<Oid>, HistoryError> {
        let mut found_ids = HashSet::new();
        let mut left = ids.to_vec();
        while let Some(id) = left.pop() {
            if found_ids.insert(id) {
                left.extend(self.links(id)?.parents);
            }
        }
        Ok(found_ids)
    }

    /// The commit's parents, or an error where a shallow clone ends.
    fn present_parents(&self, id: Oid) -> Result<Vec<Oid>, HistoryError> {
        if self.repo.is_shallow()
            && let Some(error) = self.missing_parent(&self.find_commit(CommitId(id))?)
        {
            return Err(error);
        }
        Ok(self.links(id)?.parents)
    }

    fn merge_bases(&self, ends: &RevListEnds) -> Result<Vec<CommitId>, HistoryError> {
        let mut bases = Vec::new();
        for included_id in &ends.include {
            bases.extend(
                self.common_ancestors(*included_id, &ends.exclude)?.into_iter().map(CommitId),
            );
        }
        bases.sort();
        bases.dedup();
        Ok(bases)
    }

    fn common_ancestors(&self, first_id: Oid, other_ids: &[Oid]) -> Result<Vec<Oid>, HistoryError> {
        if other_ids.is_empty() {
            return Ok(Vec::new());
        }
        let all_ids: Vec<Oid> =
            std::iter::once(first_id).chain(other_ids.iter().copied()).collect();
        match self.repo.merge_bases_many(&all_ids) {
            Ok(bases) => Ok(bases.to_vec()),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(Vec::new()),
            Err(source) => {
                Err(HistoryError::Git { doing: "find merge bases".into(), source: source.into() })
            }
        }
    }
}

fn create_rev_list_ends(good_commits: &[Commit], bad_commits: &[Commit]) -> RevListEnds {
    RevListEnds {
        include: bad_commits.iter().map(|commit| commit.id.0).collect(),
        exclude: good_commits.iter().map(|commit| commit.id.0).collect(),
    }
}

/// Splits at blanks, but not within braces nor after `:/`, where blanks belong to a pattern.
fn split_range_words(range: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut remaining_range = range.trim_start();
    while !remaining_range.is_empty() {
        let (word, tail) = remaining_range.split_at(find_word_end(remaining_range));
        words.push(word);
        remaining_range = tail.trim_start();
    }
    words
}

fn find_word_end(range: &str) -> usize {
    if range.starts_with(":/") {
        return range.len();
    }
    let mut depth = 0_usize;
    for (offset, c) in range.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if depth == 0 && c.is_whitespace() => return offset,
            _ => {}
        }
    }
    range.len()
}

fn link_graph_nodes(commits: &[(Oid, Vec<Oid>)]) -> Vec<GraphNode> {
    let position: HashMap<Oid, usize> = commits.iter().map(|(id, _)| *id).zip(0..).collect();
    commits
        .iter()
        .map(|(id, parents)| {
            let (parents_inside, outside): (Vec<Oid>, Vec<Oid>) =
                parents.iter().partition(|parent| position.contains_key(parent));
            GraphNode {
                id: CommitId(*id),
                parents: parents_inside.iter().map(|parent| position[parent]).collect(),
                outside: outside.into_iter().map(CommitId).collect(),
            }
        })
        .collect()
}
