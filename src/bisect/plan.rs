//! From revisions to the graph that is searched: commits as numbers, source sets as variants.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{BisectError, SearchTarget};
use crate::history::{Commit, CommitId, GraphNode, History, HistoryError, SourceKey, SourceSpec};
use crate::search::Graph;

/// A history made ready for a search.
#[derive(Debug)]
pub struct Plan {
    /// The commits behind the numbers of the graph.
    pub ids: Vec<CommitId>,
    /// The graph.
    pub graph: Graph,
    /// The good ends.
    pub good: Vec<u32>,
    /// The bad ends.
    pub bad: Vec<u32>,
    /// Commits between the ends.
    pub between: usize,
    /// The source keys of each testable variant, one for each fixture.
    keys: HashMap<u32, Vec<SourceKey>>,
}

impl Plan {
    /// Reads what lies between `good` and `bad`.
    ///
    /// # Errors
    /// [`BisectError::History`] if the repository is shallow between the ends, or damaged.
    pub fn new(
        history: &History,
        targets: &[SearchTarget],
        good: &[Commit],
        bad: &[Commit],
    ) -> Result<Plan, BisectError> {
        let between = history.commits_between(good, bad, false)?;
        let behind = behind(history, good, &between)?;
        let mut ids: Vec<CommitId> = behind.iter().map(|node| node.id).collect();
        let mut parents: Vec<Vec<u32>> = behind.iter().map(|node| numbers(&node.parents)).collect();
        let first = ids.len();
        let mut place: HashMap<CommitId, u32> = ids.iter().copied().zip(0..).collect();
        let mut relevant: HashSet<CommitId> =
            good.iter().chain(bad).map(|commit| commit.id).collect();
        for node in &between {
            place.insert(node.id, ids.len() as u32);
            ids.push(node.id);
            let inside = node.parents.iter().map(|parent| (parent + first) as u32);
            let outside = node.outside.iter().map(|parent| place[parent]);
            parents.push(inside.chain(outside).collect());
            relevant.insert(node.id);
            relevant.extend(&node.outside);
        }
        let end = |commit: &Commit| place[&commit.id];
        let (good, bad): (Vec<u32>, Vec<u32>) =
            (good.iter().map(end).collect(), bad.iter().map(end).collect());
        // Every commit a variant of its own, until it is known which of them matter.
        let shape = Graph::new(parents.clone(), (0..ids.len() as u32).collect())?;
        for &bad in &bad {
            let bases = shape.merge_bases(bad, &good);
            relevant.extend(bases.iter().map(|&base| ids[base as usize]));
        }
        let wanted: Vec<CommitId> =
            ids.iter().copied().filter(|id| relevant.contains(id)).collect();
        let specs: Vec<&SourceSpec> = targets.iter().map(|target| &target.spec).collect();
        let keys = history.source_keys(&wanted, &specs)?;
        let (variant, keys) = variants(&ids, keys);
        Ok(Plan {
            graph: Graph::new(parents, variant)?,
            good,
            bad,
            between: between.len(),
            ids,
            keys,
        })
    }

    /// The source keys of a commit that can be tested, one for each fixture.
    pub(super) fn keys(&self, commit: u32) -> Option<&[SourceKey]> {
        Some(self.keys.get(&self.graph.variant(commit)?)?.as_slice())
    }
}

/// The commits behind the good ends. In a shallow clone, only the commits that touch the search,
/// without their edges.
fn behind(
    history: &History,
    good: &[Commit],
    between: &[GraphNode],
) -> Result<Vec<GraphNode>, HistoryError> {
    match history.commits_between(&[], good, false) {
        Err(HistoryError::Shallow { .. }) => {
            let ends = good.iter().map(|commit| commit.id);
            let outside = between.iter().flat_map(|node| node.outside.iter().copied());
            let ids: BTreeSet<CommitId> = ends.chain(outside).collect();
            let node = |id| GraphNode { id, parents: Vec::new(), outside: Vec::new() };
            Ok(ids.into_iter().map(node).collect())
        }
        nodes => nodes,
    }
}

fn numbers(places: &[usize]) -> Vec<u32> {
    places.iter().map(|&place| place as u32).collect()
}

/// A number for each distinct list of keys. Commits without keys are never compared, so that each
/// gets a number of its own.
fn variants(
    ids: &[CommitId],
    mut keys: HashMap<CommitId, Vec<SourceKey>>,
) -> (Vec<u32>, HashMap<u32, Vec<SourceKey>>) {
    let mut known: HashMap<Vec<SourceKey>, u32> = HashMap::new();
    let variant = ids
        .iter()
        .zip(0u32..)
        .map(|(id, own)| match keys.remove(id) {
            Some(key) => *known.entry(key).or_insert(own),
            None => own,
        })
        .collect();
    (variant, known.into_iter().map(|(key, variant)| (variant, key)).collect())
}
