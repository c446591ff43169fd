//! The conditions that the ends of a search must meet.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::words::{Answer, Options};

/// Why the ends do not allow a search; commits are indices of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
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
pub(super) struct Ends {
    pub good: Vec<u32>,
    pub bad: Vec<u32>,
    pub merge_bases: Vec<u32>,
    /// The refusal that needs no test.
    refusal: Option<Refusal>,
}

impl Ends {
    pub(super) fn new(graph: &Graph, good: &[u32], bad: &[u32], options: &Options) -> Self {
        let behind_good = graph.ancestors(good, false);
        let mut bases = BTreeSet::new();
        for &end in bad {
            bases.extend(graph.merge_bases(end, good));
        }
        let reversed = || {
            let bad = bad.iter().copied().find(|&bad| behind_good[bad as usize])?;
            let above = |good: &u32| graph.ancestors(&[*good], false)[bad as usize];
            let good = good.iter().copied().find(above)?;
            Some(Refusal::Reversed { good, bad })
        };
        let same = || {
            let pairs = good.iter().flat_map(|&good| bad.iter().map(move |&bad| (good, bad)));
            let mut pairs = pairs.filter(|_| options.by_variant);
            let (good, bad) = pairs.find(|&(g, b)| graph.variant(g) == graph.variant(b))?;
            Some(Refusal::SameVariant { good, bad })
        };
        let refusal = reversed().or_else(same);
        let merge_bases = bases.into_iter().filter(|base| !good.contains(base)).collect();
        Self { good: good.to_vec(), bad: bad.to_vec(), merge_bases, refusal }
    }

    /// Good and bad ends.
    pub(super) fn both(&self) -> impl Iterator<Item = u32> {
        self.good.iter().chain(&self.bad).copied()
    }

    /// The refusal that follows from what is known so far. Wrong ends are reported together, once
    /// all of them have an answer.
    pub(super) fn refusal(&self, known: impl Fn(u32) -> Option<Answer>) -> Option<Refusal> {
        if self.refusal.is_some() {
            return self.refusal.clone();
        }
        if self.both().any(|end| known(end).is_none()) {
            return None;
        }
        let are = |ends: &[u32], answer: Answer| -> Vec<u32> {
            ends.iter().copied().filter(|&end| known(end) == Some(answer)).collect()
        };
        let good_is_bad = are(&self.good, Answer::Bad);
        let bad_is_good = are(&self.bad, Answer::Good);
        if !good_is_bad.is_empty() || !bad_is_good.is_empty() {
            return Some(Refusal::EndsDisagree { good_is_bad, bad_is_good });
        }
        let unclear = |end: &u32| matches!(known(*end), Some(Answer::Skip | Answer::Other));
        let ends: Vec<u32> = self.both().filter(unclear).collect();
        if !ends.is_empty() {
            return Some(Refusal::UntestableEnds { ends });
        }
        let base = self.merge_bases.iter().copied().find(|&b| known(b) == Some(Answer::Bad))?;
        Some(Refusal::BadMergeBase { base })
    }
}
