//! Reduces a history to the candidates for the culprit: the commits with a changed variant.
//!
//! The reduction is git's own history simplification under a pathspec (`try_to_simplify_commit`
//! in git's revision.c), with "same variant" for "same tree under the pathspec".

use super::graph::Graph;
use super::reach::{Measure, ReachGraph};
use super::words::Options;

/// The place of a commit in the reduced history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReducedPlace {
    /// Reachable from a good end, or from no bad end.
    Outside,
    /// Behaves as this node.
    Node(u32),
    /// Changes nothing since a commit outside; the commit named is the last one inside.
    Leaves(u32),
}

impl ReducedPlace {
    /// The commit's node, if it has one.
    pub(super) fn node(self) -> Option<u32> {
        match self {
            ReducedPlace::Node(node) => Some(node),
            ReducedPlace::Outside | ReducedPlace::Leaves(_) => None,
        }
    }
}

/// The candidates for the culprit ("nodes", numbered in topological order).
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// The commit of each node.
    pub commits: Vec<u32>,
    /// The parents of each node, as nodes.
    pub parents: Vec<Vec<u32>>,
    /// Where each commit of the graph went.
    pub place: Vec<ReducedPlace>,
}

impl Candidates {
    /// Keeps the commits reachable from `bad_ends` and not from `good_ends`.
    pub(super) fn new(
        graph: &Graph,
        good_ends: &[u32],
        bad_ends: &[u32],
        options: &Options,
    ) -> Self {
        let mut simplify = Simplify {
            graph,
            excluded: graph.ancestors(good_ends, false),
            is_good_end: vec![false; graph.len()],
            options,
        };
        good_ends.iter().for_each(|&commit| simplify.is_good_end[commit as usize] = true);
        let followed = simplify.walk(bad_ends);
        simplify.contract(&followed)
    }
}

/// The relevant parents of a commit, and whether it changes nothing against them.
struct Followed {
    parents: Vec<u32>,
    unchanged: bool,
}

struct Simplify<'a> {
    graph: &'a Graph,
    excluded: Vec<bool>,
    is_good_end: Vec<bool>,
    options: &'a Options,
}

impl Simplify<'_> {
    /// Simplifies the commits still reachable after their children were simplified.
    fn walk(&self, bad_ends: &[u32]) -> Vec<Option<Followed>> {
        let mut is_wanted = vec![false; self.graph.len()];
        bad_ends.iter().for_each(|&commit| is_wanted[commit as usize] = true);
        let mut followed_commits: Vec<Option<Followed>> =
            (0..self.graph.len()).map(|_| None).collect();
        for commit in (0..self.graph.len()).rev() {
            if is_wanted[commit] && !self.excluded[commit] {
                let followed = self.followed(commit as u32);
                followed.parents.iter().for_each(|&parent| is_wanted[parent as usize] = true);
                followed_commits[commit] = Some(followed);
            }
        }
        followed_commits
    }

    /// A parent with the same variant stands for the whole commit: the same defect is bad in both.
    fn followed(&self, commit: u32) -> Followed {
        let parents = self.graph.followed(commit, self.options.first_parent);
        if !self.options.by_variant || parents.is_empty() {
            return Followed { parents: parents.to_vec(), unchanged: false };
        }
        let mut has_relevant_parent = false;
        let mut equals_all_parents = true;
        for &parent in parents {
            let is_relevant = self.is_relevant(parent);
            let is_same_variant = self.graph.variant(parent) == self.graph.variant(commit);
            if is_relevant && is_same_variant {
                return Followed { parents: vec![parent], unchanged: true };
            }
            has_relevant_parent |= is_relevant;
            equals_all_parents &= is_same_variant;
        }
        // No relevant parent is the same: then it is unchanged only if all parents lie behind
        // the good ends and equal it.
        let unchanged = !has_relevant_parent && equals_all_parents;
        Followed { parents: parents.to_vec(), unchanged }
    }

    fn is_relevant(&self, parent: u32) -> bool {
        !self.excluded[parent as usize] || self.is_good_end[parent as usize]
    }

    fn contract(&self, followed_commits: &[Option<Followed>]) -> Candidates {
        let mut out = Candidates {
            commits: Vec::new(),
            parents: Vec::new(),
            place: vec![ReducedPlace::Outside; followed_commits.len()],
        };
        for (commit, followed) in (0u32..).zip(followed_commits) {
            let Some(followed) = followed else { continue };
            let mut places = followed.parents.iter().map(|&parent| out.place[parent as usize]);
            out.place[commit as usize] = if followed.unchanged {
                match places.next() {
                    Some(ReducedPlace::Outside) | None => ReducedPlace::Leaves(commit),
                    Some(place) => place,
                }
            } else {
                let mut nodes: Vec<u32> = places.filter_map(ReducedPlace::node).collect();
                nodes.sort_unstable();
                nodes.dedup();
                out.commits.push(commit);
                out.parents.push(nodes);
                ReducedPlace::Node(out.commits.len() as u32 - 1)
            };
        }
        out
    }
}

/// For each candidate, the distance `git rev-list --bisect-all BAD... --not GOOD...` prints:
/// `min(reach, all - reach)`, where `reach` counts the candidates reachable from it, itself
/// included.
///
/// With `options.by_variant` it is the distance under a pathspec for the source set: commits without a change
/// are neither counted nor listed. Ends outside the graph are ignored.
pub fn bisection_distances(
    graph: &Graph,
    good_ends: &[u32],
    bad_ends: &[u32],
    options: &Options,
) -> Vec<(u32, u32)> {
    let good_ends = select_ends_inside(graph, good_ends);
    let bad_ends = select_ends_inside(graph, bad_ends);
    let candidates = Candidates::new(graph, &good_ends, &bad_ends, options);
    let count = candidates.commits.len();
    let reach = ReachGraph::new(&candidates.parents, &vec![true; count]);
    let everything: Vec<u32> = (0..count as u32).collect();
    let sums = reach.sums(&everything, Measure::Count);
    let distances = sums.into_iter().map(|sum| sum.min(count as f64 - sum) as u32);
    candidates.commits.iter().copied().zip(distances).collect()
}

fn select_ends_inside(graph: &Graph, ends: &[u32]) -> Vec<u32> {
    ends.iter().copied().filter(|&end| (end as usize) < graph.len()).collect()
}
