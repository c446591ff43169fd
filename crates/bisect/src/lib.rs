//! Finds the commit at fault for a broken kernel: plans the search, replays its picks, and collects the
//! evidence for its answer.
//!
//! Joins the pure search of [`search`](replay_search) with histories and replays. Prints nothing:
//! it reports to a callback, in [`Event`]s.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod along;
mod axis;
mod both;
mod captured;
mod changes;
mod conclusion;
mod direction;
mod flaky;
mod gradient_sides;
mod groups;
mod hunks;
mod lineage;
mod mended;
mod oldest;
mod plan;
mod probe;
mod range;
mod recorded;
mod remote;
mod replayed;
mod shared_defect;
mod steady;
mod symptom;
mod workers;

use std::num::NonZeroUsize;
use std::sync::Arc;

use replay_engine::backend::{Held, ReplayError};
use replay_engine::environment::EnvironmentError;
use replay_engine::trial::{AccessCheck, Lab, Subject};
use replay_history::{Commit, CommitId, History, HistoryError, Hunk, SourceSpec};
use replay_search::{GraphError, SearchError, SearchState, TestAnswer};
use replay_snapshot::Snapshot;

pub use along::Along;
pub use axis::{AxisAtRevision, EnvironmentAxis, MakeEnvironment};
pub use both::{BothEnds, BothReport, Corners, Pair, Side, TestedPair, WaySearch, Whereabouts};
pub use captured::CapturedBy;
pub use changes::{
    FailingCommit, LogChange, LogReport, LogStep, LogWork, Repair, UntestedCommit, survey_range,
};
pub use conclusion::{Behind, Culprit, SearchEnd, SearchReport, Tested};
pub use direction::{BisectEnds, Direction};
pub use gradient_sides::GradientSides;
pub use groups::Grouped;
pub use hunks::{
    Carrier, HunkAnswer, HunkObstacle, HunkReport, HunkSearch, WayBack, WayBackResult,
};
pub use lineage::{Knowledge, Lineage, LineageCommit};
pub use mended::{Mended, MendedBy};
pub use plan::Plan;
pub use probe::{Observation, Seen};
pub use remote::{Look, Manner, RemoteTester, TestFindings, list_log_work, search_remotely};
pub use shared_defect::{Oldest, SharedDefect};
pub use symptom::{On, Symptom};

/// A fixture, and the files of a commit for its harness.
#[derive(Clone)]
pub struct SearchTarget {
    pub subject: Arc<Subject>,
    /// Selects the sources among the files of a commit.
    pub spec: SourceSpec,
}

impl SearchTarget {
    /// The names of the fixtures of `targets`.
    pub fn names(targets: &[SearchTarget]) -> Vec<String> {
        targets.iter().map(|target| target.subject.fixture.name.clone()).collect()
    }

    /// The sources of all `targets` together.
    fn join_specs(targets: &[SearchTarget]) -> SourceSpec {
        let mut merged_spec = SourceSpec::default();
        for target in targets {
            merged_spec.prefix.clone_from(&target.spec.prefix);
            for (from, to) in [
                (&target.spec.sources, &mut merged_spec.sources),
                (&target.spec.include, &mut merged_spec.include),
                (&target.spec.tree, &mut merged_spec.tree),
            ] {
                for path in
                    from.iter().filter(|path| !to.contains(path)).cloned().collect::<Vec<_>>()
                {
                    to.push(path);
                }
            }
        }
        merged_spec
    }
}

/// The settings of a search.
pub struct Bisection<'h> {
    /// The history of the kernels; one for all fixtures.
    pub history: &'h History,
    /// What lies between the ends.
    pub along: Along<'h>,
    /// The fixtures; a commit is bad if it is bad on any of them.
    pub targets: Vec<SearchTarget>,
    /// The lab for trials.
    pub lab: Arc<Lab>,
    /// The lab for repeated trials, to find flaky ones.
    pub repeater: Arc<Lab>,
    /// The condition for a bad commit.
    pub on: On,
    /// The good side: the base of comparisons.
    pub trusted: Trusted,
    /// The only output whose symptoms count, if the search is for one.
    pub output: Option<String>,
    /// The number of tests at a time.
    pub jobs: NonZeroUsize,
    /// Follow first parents only.
    pub first_parent: bool,
    /// Whether to check the accesses to memory of the culprit and of its parent or, in a log, of all commits. A
    /// search on [`On::Race`] checks every tested commit.
    pub check: AccessCheck,
    /// Whether reports hold the extras of pages: the history as a graph, pictures of outputs.
    pub illustrated: bool,
    /// Whether and how the culprit's hunks are searched for those that carry the defect.
    pub hunk_search: Option<HunkSearch>,
}

impl Bisection<'_> {
    /// Whether a replay is a run of compiled kernels, not the start of a program.
    fn has_cheap_replays(&self) -> bool {
        self.targets.iter().all(|target| target.subject.fixture.harness.program.is_none())
    }

    /// Whether there is room to compare commits on each of the fixtures by itself; asked before anything is
    /// compiled.
    fn has_room(&self) -> Result<(), ReplayError> {
        let revisions = match self.trusted {
            Trusted::GoodEnd(_) => 2,
            Trusted::Snapshots(_) => 1,
        };
        let mut fixtures = self.targets.iter().map(|target| &target.subject.fixture);
        fixtures.try_for_each(|fixture| self.lab.room_for(fixture, Held::Noise { revisions }))
    }
}

/// The good side of a search: the base of comparisons.
#[derive(Clone)]
pub enum Trusted {
    /// The first of the good ends.
    GoodEnd(GoodEnds),
    /// Recorded outcomes, one for each fixture, in their order; the good ends must agree with them.
    Snapshots(Vec<Arc<Snapshot>>),
}

/// What the good ends of a search are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoodEnds {
    /// Those that the user named.
    Named,
    /// The oldest commits that can be tested.
    Oldest,
    /// The parent of the only bad end.
    Parent,
    /// Those of a side of which nobody said whether it is good.
    Unclaimed,
}

/// An event of a search.
pub enum Event<'a> {
    /// The history was read.
    Planned {
        /// Commits between the ends.
        commits: usize,
        /// Candidates for the culprit: commits with a changed source set.
        candidates: usize,
        /// The number of tests at a time.
        jobs: usize,
    },
    /// A test begins.
    Started {
        /// The commit under test.
        commit: &'a Commit,
        /// How far the search is.
        state: &'a SearchState,
    },
    /// A test has an answer.
    Tested {
        /// The tested commit.
        commit: &'a Commit,
        answer: TestAnswer,
        /// The result in detail.
        seen: &'a Seen,
        /// How far the search is.
        state: &'a SearchState,
    },
    /// Replays of this commit do not always come out the same: the search starts again, and
    /// counts how often.
    Flaky { commit: &'a Commit },
    /// A test of the culprit's parent with some of the culprit's hunks begins.
    StartedHunks {
        hunks: usize,
        /// How many the culprit has.
        of: usize,
    },
    /// It has an answer.
    TestedHunks {
        hunks: &'a [&'a Hunk],
        answer: TestAnswer,
        /// The result in detail.
        seen: &'a Seen,
    },
    /// The pairs of two commits and two environments have their answers.
    Cornered { corners: &'a Corners },
    /// A search begins along one way between them.
    Along {
        /// The axis of environments; none for the history.
        axis: Option<&'a str>,
        /// What stays the same: `with triton 3.4.0`, or `at 37707d4`.
        place: &'a str,
    },
    /// It has its answer.
    Searched { report: &'a SearchReport },
}

impl Event<'_> {
    /// Whether it is the start or the answer of a test of one of `commits`.
    fn is_of(&self, commits: &[CommitId]) -> bool {
        match self {
            Event::Started { commit, .. } | Event::Tested { commit, .. } => {
                commits.contains(&commit.id)
            }
            _ => false,
        }
    }
}

/// Receives the events of a search.
pub type SearchListener<'l> = dyn FnMut(Event<'_>) + 'l;

/// Why a search has no answer, though neither commits nor ends are at fault.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A replay cannot be made.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// An environment cannot be made, through no fault of its value.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The history is no searchable graph.
    #[error("cannot search the history")]
    Graph(#[from] GraphError),
    /// The ends are not in the history.
    #[error("cannot search between these ends")]
    Ends(#[from] SearchError),
    /// A commit to test is not part of the search.
    #[error("commit {commit} does not lie between the ends of the search")]
    Outside { commit: String },
}
