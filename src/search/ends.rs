//! The conditions that the ends of a search must meet.

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
    /// Ends that did not show what was claimed; if both lists are full, they are swapped.
    EndsDisagree {
        /// Good ends that tested bad.
        good_is_bad: Vec<u32>,
        /// Bad ends that tested good.
        bad_is_good: Vec<u32>,
    },
    /// Ends that could not be tested, or failed in another way than the one searched for.
    UntestableEnds {
        /// Which ends.
        ends: Vec<u32>,
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

/// The ends of a search and the merge bases between them.
#[derive(Clone, Debug)]
pub(super) struct SearchBounds {
    pub good: Vec<u32>,
    pub bad: Vec<u32>,
    pub merge_bases: Vec<u32>,
    /// The refusal that needs no test.
    refusal: Option<EndsRefusal>,
}

impl SearchBounds {
    pub(super) fn new(
        graph: &Graph,
        good_ends: &[u32],
        bad_ends: &[u32],
        options: &Options,
    ) -> Self {
        let behind_good = graph.ancestors(good_ends, false);
        let mut bases = BTreeSet::new();
        for &end in bad_ends {
            bases.extend(graph.merge_bases(end, good_ends));
        }
        let reversed = || {
            let bad = bad_ends.iter().copied().find(|&bad_end| behind_good[bad_end as usize])?;
            let descends_from_bad =
                |good_end: &u32| graph.ancestors(&[*good_end], false)[bad as usize];
            let good = good_ends.iter().copied().find(descends_from_bad)?;
            Some(EndsRefusal::Reversed { good, bad })
        };
        let same_variant = || {
            let pairs = good_ends
                .iter()
                .flat_map(|&good_end| bad_ends.iter().map(move |&bad_end| (good_end, bad_end)));
            let mut pairs = pairs.filter(|_| options.by_variant);
            let (good, bad) = pairs.find(|&(g, b)| graph.variant(g) == graph.variant(b))?;
            Some(EndsRefusal::SameVariant { good, bad })
        };
        let refusal = reversed().or_else(same_variant);
        let merge_bases = bases.into_iter().filter(|base| !good_ends.contains(base)).collect();
        Self { good: good_ends.to_vec(), bad: bad_ends.to_vec(), merge_bases, refusal }
    }

    /// Good and bad ends.
    pub(super) fn good_and_bad(&self) -> impl Iterator<Item = u32> {
        self.good.iter().chain(&self.bad).copied()
    }

    /// The refusal that follows from what is known so far. Wrong ends are reported together, once
    /// all of them have an answer.
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
        let ends_answered = |ends: &[u32], answer: TestAnswer| -> Vec<u32> {
            ends.iter().copied().filter(|&end| known_answer(end) == Some(answer)).collect()
        };
        let good_is_bad = ends_answered(&self.good, TestAnswer::Bad);
        let bad_is_good = ends_answered(&self.bad, TestAnswer::Good);
        if !good_is_bad.is_empty() || !bad_is_good.is_empty() {
            return Some(EndsRefusal::EndsDisagree { good_is_bad, bad_is_good });
        }
        let unclear =
            |end: &u32| matches!(known_answer(*end), Some(TestAnswer::Skip | TestAnswer::Other));
        let ends: Vec<u32> = self.good_and_bad().filter(unclear).collect();
        if !ends.is_empty() {
            return Some(EndsRefusal::UntestableEnds { ends });
        }
        let base =
            self.merge_bases.iter().copied().find(|&b| known_answer(b) == Some(TestAnswer::Bad))?;
        Some(EndsRefusal::BadMergeBase { base })
    }
}
