//! The words a search and its caller use: options, answers, conclusions, progress.

use super::ends::EndsRefusal;

/// How to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Follow first parents only.
    pub first_parent: bool,
    /// Treat commits of one variant as one; otherwise each commit is a variant of its own.
    pub by_variant: bool,
    /// Trust the ends, as git does; otherwise they are tested first.
    pub trust_ends: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { first_parent: false, by_variant: true, trust_ends: false }
    }
}

/// The result of testing a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAnswer {
    /// The failure searched for is not there.
    Good,
    /// The failure searched for is there.
    Bad,
    /// The commit cannot be tested.
    Skip,
    /// It fails in another way than the one searched for: neither good nor bad.
    Other,
}

impl TestAnswer {
    /// The answer of a commit with or without the defect.
    pub fn for_commit(is_bad: bool) -> TestAnswer {
        if is_bad { TestAnswer::Bad } else { TestAnswer::Good }
    }

    /// Whether it says neither good nor bad.
    pub(crate) fn is_unclear(self) -> bool {
        match self {
            TestAnswer::Skip | TestAnswer::Other => true,
            TestAnswer::Good | TestAnswer::Bad => false,
        }
    }
}

/// The conclusion of a finished search; commits are indices of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Conclusion {
    /// The culprit is bad and its parents are good.
    Found {
        /// The first bad commit.
        culprit: u32,
        /// Untestable parents: good only because a descendant is.
        unconfirmed_parents: Vec<u32>,
    },
    /// One of several commits is the culprit. Untestable commits or flaky tests leave it open.
    Ambiguous {
        /// In topological order.
        candidates: Vec<u32>,
    },
    /// A commit where good turns bad has a bad parent: the history changes more than once.
    NotMonotone {
        /// The bad commit the search ended at.
        commit: u32,
        /// Its bad parents.
        bad_parents: Vec<u32>,
    },
    /// The ends do not allow a search.
    Refused(EndsRefusal),
    /// Repeated, flaky tests point to this commit.
    Probable {
        /// The most probable culprit.
        culprit: u32,
        /// Its posterior probability, at least 0.99.
        probability: f64,
    },
}

/// A warning to the user; the search goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// This merge base could not be tested; as in git, it is taken to be good.
    UntestableMergeBase {
        /// The merge base.
        base: u32,
    },
    /// The same variant was once good and once bad; the first answer stands.
    Contradiction {
        /// The commit whose answer differed.
        commit: u32,
    },
    /// The culprit is not in the history of this bad end. The end has a culprit of its own.
    Unexplained {
        /// The bad end.
        bad: u32,
    },
}

/// The phase of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Testing the good and the bad ends.
    Ends,
    /// Testing the merge bases between them.
    MergeBases,
    /// Narrowing the candidates.
    Narrowing,
    /// Testing the parents of the only candidate left.
    Confirming,
    /// [`outcome`](super::Search::outcome) has the conclusion.
    Done,
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchState {
    /// Its phase.
    pub phase: Phase,
    /// The number of candidates left.
    pub candidates: usize,
    /// Rounds of tests still expected, at the number of jobs last seen.
    pub rounds: u32,
    /// Tests answered so far.
    pub answered: usize,
    /// Commits given out by [`next`](super::Search::next) and not answered or cancelled.
    pub in_flight: Vec<u32>,
}

/// Why no search can start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// An end outside of the graph.
    #[error("end #{commit} is not among the {commits} commits of the graph")]
    UnknownEnd {
        commit: u32,
        /// How many commits the graph has.
        commits: usize,
    },
    /// Both sides need at least one end.
    #[error("a search needs at least one good and one bad commit")]
    MissingEnd,
}
