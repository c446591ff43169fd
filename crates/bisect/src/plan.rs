//! From revisions to the graph of a search: commits as numbers, source sets as variants.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{BisectError, Direction, SearchTarget};
use replay_history::{Commit, CommitId, GraphNode, History, HistoryError, SourceKey, SourceSpec};
use replay_search::Graph;

/// A history made ready for a search.
#[derive(Debug)]
pub struct Plan {
    /// The commits behind the numbers of the graph.
    pub ids: Vec<CommitId>,
    pub graph: Graph,
    /// The older ends.
    pub old: Vec<u32>,
    /// The newer ends.
    pub new: Vec<u32>,
    /// The fate of the defect between them.
    pub direction: Direction,
    /// Commits between the ends.
    pub between: usize,
    /// The source keys of each testable variant, one for each fixture.
    keys: HashMap<u32, Vec<SourceKey>>,
}

impl Plan {
    /// Reads the history between `good` and `bad` ends. If all bad ends are older than good ones, the search is
    /// for the repair.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn claimed(
        history: &History,
        targets: &[SearchTarget],
        good: &[Commit],
        bad: &[Commit],
    ) -> Result<Plan, BisectError> {
        let plan = Plan::new(history, targets, good, bad, Direction::Breaks)?;
        let older = plan.graph.ancestors(&plan.old, false);
        if plan.new.iter().all(|end| older[*end as usize] && !plan.old.contains(end)) {
            Plan::new(history, targets, bad, good, Direction::Repairs)
        } else {
            Ok(plan)
        }
    }

    /// Reads the history between `old` and `new`.
    ///
    /// # Errors
    /// [`BisectError::History`] if the repository is shallow between the ends, or damaged.
    pub fn new(
        history: &History,
        targets: &[SearchTarget],
        old: &[Commit],
        new: &[Commit],
        direction: Direction,
    ) -> Result<Plan, BisectError> {
        let nodes_between = history.commits_between(old, new, false)?;
        let nodes_behind = find_commits_behind(history, old, &nodes_between)?;
        let mut ids: Vec<CommitId> = nodes_behind.iter().map(|node| node.id).collect();
        let mut parents: Vec<Vec<u32>> =
            nodes_behind.iter().map(|node| to_commit_numbers(&node.parents)).collect();
        let first = ids.len();
        let mut place: HashMap<CommitId, u32> = ids.iter().copied().zip(0..).collect();
        let mut relevant: HashSet<CommitId> =
            old.iter().chain(new).map(|commit| commit.id).collect();
        for node in &nodes_between {
            place.insert(node.id, ids.len() as u32);
            ids.push(node.id);
            let inner_parents = node.parents.iter().map(|parent| (parent + first) as u32);
            let outside = node.outside.iter().map(|parent| place[parent]);
            parents.push(inner_parents.chain(outside).collect());
            relevant.insert(node.id);
            relevant.extend(&node.outside);
        }
        let old: Vec<u32> = old.iter().map(|commit| place[&commit.id]).collect();
        let new: Vec<u32> = new.iter().map(|commit| place[&commit.id]).collect();
        // The relevant commits are not known yet: each is a variant of its own.
        let shape = Graph::new(parents.clone(), (0..ids.len() as u32).collect())?;
        for &end in &new {
            let bases = shape.merge_bases(end, &old);
            relevant.extend(bases.iter().map(|&base| ids[base as usize]));
        }
        let relevant_ids: Vec<CommitId> =
            ids.iter().copied().filter(|id| relevant.contains(id)).collect();
        let specs: Vec<&SourceSpec> = targets.iter().map(|target| &target.spec).collect();
        let keys = history.source_keys(&relevant_ids, &specs)?;
        let (variant, keys) = number_variants(&ids, keys);
        Ok(Plan {
            graph: Graph::new(parents, variant)?,
            old,
            new,
            direction,
            between: nodes_between.len(),
            ids,
            keys,
        })
    }

    /// A plan of `ids` with these keys, each the child of the one before it, between the first and the last.
    ///
    /// # Errors
    /// [`BisectError::Graph`] if the graph is none: a line always is one.
    pub(super) fn in_line(
        ids: Vec<CommitId>,
        keys: HashMap<CommitId, Vec<SourceKey>>,
        direction: Direction,
    ) -> Result<Plan, BisectError> {
        let last = ids.len() as u32 - 1;
        let parents = (0..=last).map(|number| number.checked_sub(1).into_iter().collect());
        let (variant, keys) = number_variants(&ids, keys);
        let graph = Graph::new(parents.collect(), variant)?;
        let between = ids.len() - 1;
        Ok(Plan { graph, old: vec![0], new: vec![last], direction, between, ids, keys })
    }

    /// The end on the good side: the base of comparisons.
    pub(super) fn trusted(&self) -> u32 {
        match self.direction {
            Direction::Breaks | Direction::Changes => self.old[0],
            Direction::Repairs => self.new[0],
        }
    }

    /// The ends with the symptoms searched for.
    pub(super) fn defective(&self) -> &[u32] {
        match self.direction {
            Direction::Breaks | Direction::Changes => &self.new,
            Direction::Repairs => &self.old,
        }
    }

    /// The variant of `commit`.
    pub(super) fn variant(&self, commit: u32) -> u32 {
        self.graph.variant(commit).unwrap_or(commit)
    }

    /// The source keys of a testable commit, one for each fixture.
    pub(super) fn keys(&self, commit: u32) -> Option<&[SourceKey]> {
        Some(self.keys.get(&self.graph.variant(commit)?)?.as_slice())
    }
}

/// The commits behind the `old` ends. In a shallow clone, only the neighbours of the search, without their edges.
fn find_commits_behind(
    history: &History,
    old: &[Commit],
    nodes_between: &[GraphNode],
) -> Result<Vec<GraphNode>, HistoryError> {
    match history.commits_between(&[], old, false) {
        Err(HistoryError::Shallow { .. }) => {
            let ends = old.iter().map(|commit| commit.id);
            let outside = nodes_between.iter().flat_map(|node| node.outside.iter().copied());
            let ids: BTreeSet<CommitId> = ends.chain(outside).collect();
            let nodes = ids.into_iter().map(|id| GraphNode {
                id,
                parents: Vec::new(),
                outside: Vec::new(),
            });
            Ok(nodes.collect())
        }
        nodes => nodes,
    }
}

fn to_commit_numbers(places: &[usize]) -> Vec<u32> {
    places.iter().map(|&place| place as u32).collect()
}

/// Numbers the distinct lists of keys. Commits without keys are never compared: each gets a number of its own.
fn number_variants(
    ids: &[CommitId],
    mut keys: HashMap<CommitId, Vec<SourceKey>>,
) -> (Vec<u32>, HashMap<u32, Vec<SourceKey>>) {
    let mut variant_of_key: HashMap<Vec<SourceKey>, u32> = HashMap::new();
    let variant = ids
        .iter()
        .zip(0u32..)
        .map(|(id, own_number)| match keys.remove(id) {
            Some(key) => *variant_of_key.entry(key).or_insert(own_number),
            None => own_number,
        })
        .collect();
    (variant, variant_of_key.into_iter().map(|(key, variant)| (variant, key)).collect())
}
