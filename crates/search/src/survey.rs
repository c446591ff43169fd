//! The work of `replay log`: every variant in a range, and the edges where it changes.

use std::collections::HashMap;

use super::graph::Graph;

/// The work for a range of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// One commit for each variant on some edge, in topological order.
    pub runs: Vec<u32>,
    /// Pairs (commit, parent) to compare, in topological order of the commits. A commit equal to any parent
    /// changes nothing itself and has no edge.
    pub edges: Vec<(u32, u32)>,
}

/// Lists the runs and comparisons for the commits reachable from `include` and not from `exclude`.
///
/// Parents may lie outside of the range: the first commits of a range are compared to them.
pub fn survey_graph(graph: &Graph, include: &[u32], exclude: &[u32], first_parent: bool) -> Survey {
    let excluded = graph.ancestors(exclude, false);
    let included = graph.ancestors(include, first_parent);
    let mut out = Survey::default();
    for commit in (0..graph.len() as u32).filter(|&c| included[c as usize] && !excluded[c as usize])
    {
        let parents = graph.followed(commit, first_parent);
        if parents.iter().all(|&parent| graph.variant(parent) != graph.variant(commit)) {
            out.edges.extend(parents.iter().map(|&parent| (commit, parent)));
        }
    }
    let mut first: HashMap<Option<u32>, u32> = HashMap::new();
    for commit in out.edges.iter().flat_map(|&(commit, parent)| [commit, parent]) {
        let lowest_commit = first.entry(graph.variant(commit)).or_insert(commit);
        *lowest_commit = commit.min(*lowest_commit);
    }
    out.runs = first.into_values().collect();
    out.runs.sort_unstable();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revert_is_an_edge_but_not_another_run() {
        let parents = vec![vec![], vec![0], vec![1], vec![2], vec![3]];
        let graph = Graph::new(parents, vec![7, 7, 8, 8, 7]).unwrap();
        let got = survey_graph(&graph, &[4], &[0], false);
        assert_eq!(got, Survey { runs: vec![1, 2], edges: vec![(2, 1), (4, 3)] });
    }

    #[test]
    fn a_merge_that_takes_one_side_changes_nothing() {
        // 0 -> 1, 0 -> 2; 3 merges both and equals 2; 4 merges 3 and 1 into something new.
        let parents = vec![vec![], vec![0], vec![0], vec![1, 2], vec![3, 1]];
        let graph = Graph::new(parents, vec![0, 1, 2, 2, 4]).unwrap();
        let edges = |first_parent| survey_graph(&graph, &[4], &[0], first_parent).edges;
        assert_eq!(edges(false), [(1, 0), (2, 0), (4, 3), (4, 1)]);
        assert_eq!(edges(true), [(1, 0), (3, 1), (4, 3)]);
    }
}
