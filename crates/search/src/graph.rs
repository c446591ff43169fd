//! The history as the search sees it: parents before children, each commit with a variant number.

/// A history whose commits are numbered in topological order, parents before children.
///
/// Any number of roots, merges and octopus merges is fine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    parents: Vec<Vec<u32>>,
    variant: Vec<u32>,
}

/// Why lists of parents and variants are not a [`Graph`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A parent does not come before its commit.
    #[error("commit #{commit} names #{parent} as a parent, which does not come before it")]
    ParentNotBefore {
        commit: u32,
        /// The parent of `commit`.
        parent: u32,
    },
    /// There must be one variant number for each commit.
    #[error("{commits} commits were given {variants} variants")]
    VariantCount {
        /// How many commits there are.
        commits: usize,
        /// How many variant numbers there are.
        variants: usize,
    },
    /// Commits are numbered with 32 bits.
    #[error("{commits} commits are more than a graph can number")]
    TooLarge {
        /// How many commits there are.
        commits: usize,
    },
}

impl Graph {
    /// Takes, for each commit, its parents in order and its variant; equal numbers are equal
    /// source sets.
    ///
    /// # Errors
    /// [`GraphError`] if a parent does not come before its child or the lengths differ.
    pub fn new(parents: Vec<Vec<u32>>, variant: Vec<u32>) -> Result<Self, GraphError> {
        if parents.len() != variant.len() {
            let commits = parents.len();
            let variants = variant.len();
            return Err(GraphError::VariantCount { commits, variants });
        }
        if u32::try_from(parents.len()).is_err() {
            return Err(GraphError::TooLarge { commits: parents.len() });
        }
        for (commit, list) in (0u32..).zip(&parents) {
            if let Some(&parent) = list.iter().find(|&&parent| parent >= commit) {
                return Err(GraphError::ParentNotBefore { commit, parent });
            }
        }
        Ok(Self { parents, variant })
    }

    /// The same commits with other variants.
    ///
    /// # Errors
    /// [`GraphError::VariantCount`] if there is not one for each commit.
    pub fn with_variants(&self, variant: Vec<u32>) -> Result<Graph, GraphError> {
        Graph::new(self.parents.clone(), variant)
    }

    /// How many commits there are.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there is no commit at all.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The parents of `commit`, in order; none for a commit the graph does not hold.
    pub fn parents(&self, commit: u32) -> &[u32] {
        self.parents.get(commit as usize).map_or(&[], Vec::as_slice)
    }

    /// The parents for a search to follow: all of them, or the first alone.
    pub fn followed(&self, commit: u32, first_parent: bool) -> &[u32] {
        let parents = self.parents(commit);
        if first_parent { &parents[..parents.len().min(1)] } else { parents }
    }

    /// The variant of `commit`, or `None` if the graph does not hold it.
    pub fn variant(&self, commit: u32) -> Option<u32> {
        self.variant.get(commit as usize).copied()
    }

    /// Marks every commit reachable from `tips`, the tips included.
    pub fn ancestors(&self, tips: &[u32], first_parent: bool) -> Vec<bool> {
        let mut marked = vec![false; self.len()];
        for &tip in tips {
            if let Some(mark) = marked.get_mut(tip as usize) {
                *mark = true;
            }
        }
        for commit in (0..self.len()).rev() {
            if marked[commit] {
                for &parent in self.followed(commit as u32, first_parent) {
                    marked[parent as usize] = true;
                }
            }
        }
        marked
    }

    /// The newest commits reachable both from `first_commit` and from any of `other_commits`, as
    /// `git merge-base --all one others...` lists them.
    pub fn merge_bases(&self, first_commit: u32, other_commits: &[u32]) -> Vec<u32> {
        let mine = self.ancestors(&[first_commit], false);
        let theirs = self.ancestors(other_commits, false);
        let mut newest: Vec<bool> = mine.iter().zip(&theirs).map(|(a, b)| *a && *b).collect();
        // Common ancestors are closed under parents, so a commit with a common descendant has a
        // common child.
        for commit in (0..self.len()).rev() {
            if mine[commit] && theirs[commit] {
                for &parent in &self.parents[commit] {
                    newest[parent as usize] = false;
                }
            }
        }
        (0u32..).zip(newest).filter_map(|(commit, is_newest)| is_newest.then_some(commit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_after_its_child_is_refused() {
        let err = Graph::new(vec![vec![], vec![1]], vec![0, 1]).unwrap_err();
        insta::assert_snapshot!(err, @"commit #1 names #1 as a parent, which does not come before it");
    }

    #[test]
    fn a_missing_variant_is_refused() {
        let err = Graph::new(vec![vec![], vec![0]], vec![0]).unwrap_err();
        insta::assert_snapshot!(err, @"2 commits were given 1 variants");
    }

    #[test]
    fn too_many_commits_read_as_such() {
        let err = GraphError::TooLarge { commits: 5_000_000_000 };
        insta::assert_snapshot!(err, @"5000000000 commits are more than a graph can number");
    }

    #[test]
    fn criss_cross_merges_have_two_merge_bases() {
        // 0 -> 1, 0 -> 2, then 3 and 4 both merge 1 and 2.
        let parents = vec![vec![], vec![0], vec![0], vec![1, 2], vec![2, 1]];
        let graph = Graph::new(parents, (0..5).collect()).unwrap();
        assert_eq!(graph.merge_bases(3, &[4]), [1, 2]);
        assert_eq!(graph.merge_bases(3, &[1]), [1]);
        assert_eq!(graph.merge_bases(0, &[4]), [0]);
    }

    #[test]
    fn unrelated_roots_have_no_merge_base() {
        let graph = Graph::new(vec![vec![], vec![]], vec![0, 1]).unwrap();
        assert!(graph.merge_bases(0, &[1]).is_empty());
    }
}
