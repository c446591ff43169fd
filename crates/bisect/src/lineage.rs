//! The commits of a search or a log as a graph: the knowledge of each, its source, and the diff.

use std::collections::{BTreeSet, HashMap};

use super::changes::{LogChange, UntestedCommit};
use super::probe::Seen;
use super::range::Range;
use super::{BisectError, Bisection, Direction};
use replay_history::{Commit, CommitId};
use replay_search::{Graph, TestAnswer};

/// The most commits of one graph. The newest stay.
const SHOWN: usize = 600;
/// Bytes of all diffs together.
const DIFFS: usize = 1 << 20;

/// The commits between the ends, parents before their children.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    pub commits: Vec<LineageCommit>,
    /// The number of older commits left out.
    pub left_out: usize,
}

/// One commit of a lineage.
#[derive(Clone, Debug)]
pub struct LineageCommit {
    pub commit: Commit,
    /// The places of its parents in the lineage, as far as they are there.
    pub parents: Vec<usize>,
    /// The source of the knowledge about the commit.
    pub knowledge: Knowledge,
    /// Its answer in a search, tested or inferred.
    pub answer: Option<TestAnswer>,
    /// The result of its test.
    pub seen: Option<Seen>,
    /// The diff of its sources since its first parent; empty without a change.
    pub diff: String,
}

/// The source of the knowledge about a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// It was tested.
    Tested,
    /// It was tested by an earlier search.
    Recalled,
    /// Tests of other commits tell.
    Inferred,
    /// Its sources are those of its parent.
    Skipped,
    /// It could not be tested.
    Untestable,
    /// Nothing tells.
    Open,
}

/// The knowledge about the commits of a graph.
pub(super) struct LineageFacts<'a> {
    pub bisection: &'a Bisection<'a>,
    pub ids: &'a [CommitId],
    pub graph: &'a Graph,
    /// The first commit of the lineage.
    pub first: u32,
    /// Earlier commits of the lineage.
    pub ends: Vec<u32>,
    /// The fate of the defect on the way.
    pub direction: Direction,
    /// The answers, by commit.
    pub answers: HashMap<u32, TestAnswer>,
    /// The tests, by variant.
    pub seen: &'a HashMap<u32, Seen>,
    /// Commits whose answer an earlier search left in the cache.
    pub recalled: &'a BTreeSet<u32>,
    /// Whether a test tells of the commits before and after it: there is one defect.
    pub infer: bool,
}

/// The commits of `range` as a graph. A commit is bad if an output gets worse at it; later commits inherit nothing.
pub(super) fn build_range_lineage(
    bisection: &Bisection<'_>,
    range: &Range,
    changes: &[LogChange],
    acquitted: &[Commit],
    untestable: &[UntestedCommit],
) -> Result<Lineage, BisectError> {
    let mut answers = HashMap::new();
    for number in range.first..range.ids.len() as u32 {
        let id = range.ids[number as usize];
        let mut own_changes = changes.iter().filter(|change| change.commit.id == id).peekable();
        if untestable.iter().any(|untested| untested.commit.id == id) {
            answers.insert(number, TestAnswer::Skip);
        } else if own_changes.peek().is_some() {
            let is_worse = own_changes.any(LogChange::is_worse);
            answers.insert(number, TestAnswer::for_commit(is_worse));
        } else if acquitted.iter().any(|commit| commit.id == id) {
            answers.insert(number, TestAnswer::Good);
        }
    }
    let range_facts = LineageFacts {
        bisection,
        ids: &range.ids,
        graph: &range.graph,
        first: range.first,
        ends: Vec::new(),
        direction: Direction::Breaks,
        answers,
        seen: &HashMap::new(),
        recalled: &BTreeSet::new(),
        infer: false,
    };
    range_facts.lineage()
}

impl LineageFacts<'_> {
    /// The lineage.
    pub(super) fn lineage(&self) -> Result<Lineage, BisectError> {
        let ends = self.ends.iter().copied().filter(|&end| end < self.first);
        let mut numbers: Vec<u32> = ends.chain(self.first..self.graph.len() as u32).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let left_out = numbers.len().saturating_sub(SHOWN);
        numbers.drain(..left_out);
        let place: HashMap<u32, usize> = numbers.iter().copied().zip(0..).collect();
        let inferred = self.inferred();
        let mut commits = Vec::new();
        let mut room = DIFFS;
        for &number in &numbers {
            let commit = self.bisection.commit(self.ids[number as usize])?;
            let parents = self.graph.parents(number);
            let skipped =
                parents.iter().any(|&parent| self.variant(parent) == self.variant(number));
            let knowledge = self.knowledge(number, skipped, &inferred);
            let own_answer = self.answers.get(&number).copied();
            let diff = if skipped || number < self.first {
                String::new()
            } else {
                self.diff(&commit, &mut room)?
            };
            commits.push(LineageCommit {
                parents: parents.iter().filter_map(|parent| place.get(parent).copied()).collect(),
                knowledge,
                answer: own_answer.or(inferred[number as usize]),
                seen: own_answer.and_then(|_| self.seen.get(&self.variant(number)).cloned()),
                commit,
                diff,
            });
        }
        Ok(Lineage { commits, left_out })
    }

    fn variant(&self, commit: u32) -> u32 {
        self.graph.variant(commit).unwrap_or(commit)
    }

    fn knowledge(&self, number: u32, skipped: bool, inferred: &[Option<TestAnswer>]) -> Knowledge {
        match (self.answers.get(&number), inferred[number as usize]) {
            (Some(TestAnswer::Skip), _) => Knowledge::Untestable,
            (Some(_), _) if self.recalled.contains(&number) => Knowledge::Recalled,
            (Some(_), _) => Knowledge::Tested,
            (None, _) if skipped => Knowledge::Skipped,
            (None, Some(_)) => Knowledge::Inferred,
            (None, None) => Knowledge::Open,
        }
    }

    /// Infers answers from tests of other commits. Commits with the same sources share an answer. Descendants
    /// of a bad commit are bad, ancestors of a good one good; for a repair the other way round.
    fn inferred(&self) -> Vec<Option<TestAnswer>> {
        let answer_after = self.direction.swapped(TestAnswer::Bad);
        let answer_before = self.direction.swapped(TestAnswer::Good);
        let by_variant: HashMap<u32, TestAnswer> =
            self.answers.iter().map(|(&commit, &answer)| (self.variant(commit), answer)).collect();
        let before_good = self.graph.ancestors(&self.commits_answering(answer_before), false);
        let bad_commits = self.commits_answering(answer_after);
        let mut after_bad = vec![false; self.graph.len()];
        let mut inferred = Vec::with_capacity(self.graph.len());
        for commit in 0..self.graph.len() as u32 {
            let inherits = self.graph.parents(commit).iter().any(|&p| after_bad[p as usize]);
            after_bad[commit as usize] = inherits || bad_commits.contains(&commit);
            inferred.push(match by_variant.get(&self.variant(commit)) {
                _ if !self.infer => None,
                Some(answer) => Some(*answer),
                None if after_bad[commit as usize] => Some(answer_after),
                None => before_good[commit as usize].then_some(answer_before),
            });
        }
        inferred
    }

    fn commits_answering(&self, sought_answer: TestAnswer) -> Vec<u32> {
        let such = self.answers.iter().filter(|(_, answer)| **answer == sought_answer);
        such.map(|(commit, _)| *commit).collect()
    }

    /// The diff of `commit`, while there is room.
    fn diff(&self, commit: &Commit, room: &mut usize) -> Result<String, BisectError> {
        let diff = self.bisection.diff(commit)?;
        match room.checked_sub(diff.len()) {
            Some(left) => {
                *room = left;
                Ok(diff)
            }
            None => Ok(String::new()),
        }
    }
}
