//! The conditions for the ends of a search.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::words::{Options, TestAnswer};

/// Why the ends do not allow a search; commits are indices of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndsRefusal {
    /// A good and a bad end have the same sources, so no commit between them can matter.
    SameVariant {
        /// The good end.
        good: u32,
        /// The bad end.
        bad: u32,
    },
    /// The bad end is an ancestor of the good one: the ends are the wrong way round, or the
    /// defect was fixed between them.
    Reversed {
        /// The good end.
        good: u32,
        /// The bad end.
        bad: u32,
    },
    /// Ends with another answer than claimed; if both lists are full, they are swapped.
    EndsDisagree {
        /// Good ends with a bad test.
        good_is_bad: Vec<u32>,
        /// Bad ends with a good test.
        bad_is_good: Vec<u32>,
    },
    /// Ends that are neither good nor bad.
    UnclearEnds {
        /// Those among the good ends.
        good: Vec<UnclearEnd>,
        /// Those among the bad ends.
        bad: Vec<UnclearEnd>,
    },
    /// The common ancestor of a good and a bad end is bad: the defect was fixed on the way to
    /// the good end, not introduced on the way to the bad one.
    BadMergeBase {
        /// The merge base.
        base: u32,
    },
    /// Repeated tests at the ends could not tell good from bad.
    Indistinguishable {
        /// Tests of good ends: how many turned bad, and how many there were.
        good: (u32, u32),
        /// Tests of the bad end: how many turned bad, and how many there were.
        bad: (u32, u32),
    },
}

/// An end that is neither good nor bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnclearEnd {
    pub commit: u32,
    /// Whether it cannot be tested. Else it fails in another way than the one searched for.
    pub is_untestable: bool,
}

/// The ends of a search and the merge bases between them.
#[derive(Clone, Debug)]
pub(super) struct SearchBounds {
    pub good: Vec<u32>,
    pub bad: Vec<u32>,
    pub merge_bases: Vec<u32>,
    /// A refusal without any test.
    refusal: Option<EndsRefusal>,
}

impl SearchBounds {
    pub(super) fn new(
        graph: &Graph,
        good_ends: &[u32],
        bad_ends: &[u32],
        options: &Options,
    ) -> Self {
        let mut bases = BTreeSet::new();
        for &end in bad_ends {
            bases.extend(graph.merge_bases(end, good_ends));
        }
        let refusal = find_reversed_ends(graph, good_ends, bad_ends).or_else(|| {
            if options.by_variant { find_equal_ends(graph, good_ends, bad_ends) } else { None }
        });
        let merge_bases = bases.into_iter().filter(|base| !good_ends.contains(base)).collect();
        Self { good: good_ends.to_vec(), bad: bad_ends.to_vec(), merge_bases, refusal }
    }

    /// Good and bad ends.
    pub(super) fn good_and_bad(&self) -> impl Iterator<Item = u32> {
        self.good.iter().chain(&self.bad).copied()
    }

    /// The refusal by the answers so far. Wrong ends are reported together, once all of them have an answer.
    pub(super) fn refusal(
        &self,
        known_answer: impl Fn(u32) -> Option<TestAnswer>,
    ) -> Option<EndsRefusal> {
        if self.refusal.is_some() {
            return self.refusal.clone();
        }
        if self.good_and_bad().any(|end| known_answer(end).is_none()) {
            return None;
        }
        let mut good_is_bad = self.good.clone();
        good_is_bad.retain(|&end| known_answer(end) == Some(TestAnswer::Bad));
        let mut bad_is_good = self.bad.clone();
        bad_is_good.retain(|&end| known_answer(end) == Some(TestAnswer::Good));
        if !good_is_bad.is_empty() || !bad_is_good.is_empty() {
            return Some(EndsRefusal::EndsDisagree { good_is_bad, bad_is_good });
        }
        let [good, bad] = [&self.good, &self.bad].map(|ends| {
            let ends = ends.iter().filter_map(|&commit| match known_answer(commit)? {
                TestAnswer::Good | TestAnswer::Bad => None,
                TestAnswer::Skip => Some(UnclearEnd { commit, is_untestable: true }),
                TestAnswer::Other => Some(UnclearEnd { commit, is_untestable: false }),
            });
            ends.collect::<Vec<UnclearEnd>>()
        });
        if !good.is_empty() || !bad.is_empty() {
            return Some(EndsRefusal::UnclearEnds { good, bad });
        }
        let base =
            self.merge_bases.iter().copied().find(|&b| known_answer(b) == Some(TestAnswer::Bad))?;
        Some(EndsRefusal::BadMergeBase { base })
    }
}

/// A bad end behind a good one, if there is one.
fn find_reversed_ends(graph: &Graph, good_ends: &[u32], bad_ends: &[u32]) -> Option<EndsRefusal> {
    let behind_good = graph.ancestors(good_ends, false);
    let bad = bad_ends.iter().copied().find(|&bad_end| behind_good[bad_end as usize])?;
    let mut good_ends = good_ends.iter().copied();
    let good = good_ends.find(|&good_end| graph.ancestors(&[good_end], false)[bad as usize])?;
    Some(EndsRefusal::Reversed { good, bad })
}

/// A good and a bad end with the same sources, if there are some.
fn find_equal_ends(graph: &Graph, good_ends: &[u32], bad_ends: &[u32]) -> Option<EndsRefusal> {
    for &good in good_ends {
        for &bad in bad_ends {
            if graph.variant(good) == graph.variant(bad) {
                return Some(EndsRefusal::SameVariant { good, bad });
            }
        }
    }
    None
}
