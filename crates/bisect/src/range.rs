//! The commits of a log as a graph of numbers.

use std::collections::{BTreeSet, HashMap};

use super::{BisectError, SearchTarget};
use replay_history::{CommitId, History, SourceSpec};
use replay_search::Graph;

/// The commits of a range, as numbers.
pub(super) struct Range {
    /// Their ids, parents first.
    pub(super) ids: Vec<CommitId>,
    /// Their edges, and the variant of each.
    pub(super) graph: Graph,
    /// Numbers below this are parents outside of the range.
    pub(super) first: u32,
}

impl Range {
    /// `ids` with their parents, parents first.
    pub(super) fn new(
        history: &History,
        targets: &[SearchTarget],
        commits: &[(CommitId, Vec<CommitId>)],
    ) -> Result<Range, BisectError> {
        let commits_inside: BTreeSet<CommitId> = commits.iter().map(|(id, _)| *id).collect();
        let outside: BTreeSet<CommitId> = commits
            .iter()
            .flat_map(|(_, parents)| parents)
            .filter(|parent| !commits_inside.contains(*parent))
            .copied()
            .collect();
        let first = outside.len() as u32;
        let ids: Vec<CommitId> =
            outside.into_iter().chain(commits.iter().map(|(id, _)| *id)).collect();
        let place: HashMap<CommitId, u32> = ids.iter().copied().zip(0..).collect();
        let edges = commits.iter().map(|(_, parents)| parents.iter().map(|p| place[p]).collect());
        let parents: Vec<Vec<u32>> =
            std::iter::repeat_n(Vec::new(), first as usize).chain(edges).collect();
        let specs: Vec<&SourceSpec> = targets.iter().map(|target| &target.spec).collect();
        let mut keys = history.source_keys(&ids, &specs)?;
        let mut variant_of_key = HashMap::new();
        let mut variants = Vec::with_capacity(ids.len());
        for (id, own_number) in ids.iter().zip(0..) {
            let key = keys.remove(id).unwrap_or_default();
            variants.push(*variant_of_key.entry(key).or_insert(own_number));
        }
        Ok(Range { graph: Graph::new(parents, variants)?, ids, first })
    }

    /// The variant of `commit`.
    pub(super) fn variant(&self, commit: u32) -> u32 {
        self.graph.variant(commit).unwrap_or(commit)
    }

    /// The newest commits of the range, and the commits outside of it.
    pub(super) fn ends(&self) -> (Vec<u32>, Vec<u32>) {
        let range_numbers = self.first..self.ids.len() as u32;
        let inner: BTreeSet<u32> =
            range_numbers.clone().flat_map(|c| self.graph.parents(c).to_vec()).collect();
        (
            range_numbers.filter(|commit| !inner.contains(commit)).collect(),
            (0..self.first).collect(),
        )
    }
}
