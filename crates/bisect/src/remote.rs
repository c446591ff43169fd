//! Searches on other machines: picks commits to test, and cancels needless tests.
//!
//! All machines share a cache of results by content. A search here sees the findings alone and decides on the
//! tests. A second search, on one machine, finds all of them in the cache and gives the answer with its
//! evidence.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::changes::{LogWork, judge_commit, log_work};
use super::plan::Plan;
use super::probe::Seen;
use super::replayed::VariantReplay;
use super::steady::TESTED;
use super::symptom::{self, Symptom, ask_for_orders, select_wanted};
use super::workers::PlannedSearch;
use super::{BisectEnds, BisectError, Bisection, SearchTarget};
use replay_history::{Commit, CommitId, History};
use replay_search::{Options, Search, SearchState, TestAnswer};

/// The part of a test's result for the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestFindings {
    /// The symptoms on all fixtures.
    pub symptoms: BTreeSet<Symptom>,
    /// Symptoms left unchecked.
    #[serde(default)]
    pub unknown: BTreeSet<Symptom>,
    /// Whether it could not be tested on some fixture.
    pub untestable: bool,
}

impl TestFindings {
    fn from_seen(test_result: &Seen) -> TestFindings {
        TestFindings {
            symptoms: test_result.symptoms(),
            unknown: test_result.unknown(),
            untestable: test_result.untestable().is_some(),
        }
    }
}

/// A test to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    pub commit: CommitId,
    /// Whether the test includes other orders of blocks and threads.
    pub orders: bool,
}

/// Machines to test commits on.
pub trait RemoteTester {
    /// Why a test cannot be made at all.
    type Error: From<BisectError>;

    /// Starts these tests, all at once.
    ///
    /// # Errors
    /// If they cannot be started.
    fn start(&mut self, looks: &[Look]) -> Result<(), Self::Error>;

    /// How many commits may be compiled ahead now, besides the tests under way.
    fn room(&self) -> usize;

    /// Has `commits` compiled as far as there is room, the first ones first: the next tests may be theirs. Nobody
    /// waits for it.
    fn compile_ahead(&mut self, commits: &[CommitId]);

    /// Waits for the findings of one of the tests under way.
    ///
    /// # Errors
    /// If there will be none.
    fn wait(&mut self) -> Result<(CommitId, TestFindings), Self::Error>;

    /// Ends these tests: nobody needs them any more.
    fn cancel(&mut self, commits: &[CommitId]);

    /// Hears of an answer.
    fn report_answer(&mut self, commit: &Commit, answer: TestAnswer, state: &SearchState);
}

/// How a search is made.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether only first parents are followed.
    pub first_parent: bool,
    /// The number of tests at a time.
    pub width: usize,
}

/// Has `elsewhere` test commits until the search of `plan` has its answer. Each round tests the commits with
/// the best joint division of the candidates. Returns the number of rounds.
///
/// # Errors
/// Those of the history, of the ends and of `elsewhere`.
pub fn search_remotely<E: RemoteTester>(
    history: &History,
    targets: &[SearchTarget],
    plan: Plan,
    manner: Manner,
    elsewhere: &mut E,
) -> Result<usize, E::Error> {
    let options = Options { first_parent: manner.first_parent, ..Options::default() };
    let search = Search::new(plan.graph.clone(), &plan.old, &plan.new, options)
        .map_err(BisectError::from)?;
    let mut rounds = Rounds {
        history,
        plan,
        search,
        width: manner.width,
        are_compiled: targets.iter().any(|target| target.subject.fixture.harness.program.is_none()),
        wanted: None,
        held: Vec::new(),
    };
    let mut round_count = 0;
    while rounds.search.outcome().is_none() {
        let picks = rounds.search.next(manner.width, &|_| false);
        if picks.is_empty() {
            break;
        }
        round_count += 1;
        rounds.test_picks(&picks, elsewhere)?;
    }
    Ok(round_count)
}

/// A search under way.
struct Rounds<'h> {
    history: &'h History,
    plan: Plan,
    search: Search,
    width: usize,
    /// Whether there is something to compile: programs run as they are.
    are_compiled: bool,
    /// The symptoms of the bad ends, once all of these were tested.
    wanted: Option<BTreeSet<Symptom>>,
    /// Findings of tests before that.
    held: Vec<(u32, TestFindings)>,
}

impl Rounds<'_> {
    /// Has `picks` tested, and takes their answers as they come.
    fn test_picks<E: RemoteTester>(
        &mut self,
        picks: &[u32],
        elsewhere: &mut E,
    ) -> Result<(), E::Error> {
        let orders = self.wanted.as_ref().is_none_or(ask_for_orders);
        let looks: Vec<Look> = picks
            .iter()
            .map(|&pick| Look { commit: self.plan.ids[pick as usize], orders })
            .collect();
        let numbers: HashMap<CommitId, u32> =
            looks.iter().map(|look| look.commit).zip(picks.iter().copied()).collect();
        let mut open_picks: BTreeSet<u32> = picks.iter().copied().collect();
        elsewhere.start(&looks)?;
        self.look_ahead(elsewhere);
        while !open_picks.is_empty() {
            let (commit, findings) = elsewhere.wait()?;
            let Some(&number) = numbers.get(&commit) else { continue };
            if !open_picks.remove(&number) {
                continue;
            }
            self.held.push((number, findings));
            self.apply_findings(elsewhere)?;
            let needless: Vec<u32> = self
                .search
                .obsolete()
                .into_iter()
                .filter(|commit| open_picks.remove(commit))
                .collect();
            if !needless.is_empty() {
                let ids = needless.iter().map(|&commit| self.plan.ids[commit as usize]);
                elsewhere.cancel(&ids.collect::<Vec<_>>());
                needless.iter().for_each(|&commit| self.search.cancel(commit));
            }
            self.look_ahead(elsewhere);
        }
        Ok(())
    }

    /// Has likely commits of the next round compiled, where this one leaves room.
    fn look_ahead<E: RemoteTester>(&self, elsewhere: &mut E) {
        if self.are_compiled && elsewhere.room() > 0 {
            let likely = self.search.forecast(self.width).into_iter();
            let ids: Vec<CommitId> = likely.map(|pick| self.plan.ids[pick as usize]).collect();
            elsewhere.compile_ahead(&ids);
        }
    }

    /// The symptoms of the bad ends in the held tests; none while a test of one is missing.
    fn symptoms_of_bad_ends(&self) -> Option<BTreeSet<Symptom>> {
        let mut symptoms = BTreeSet::new();
        for &end in self.plan.defective() {
            let mut held_tests = self.held.iter();
            let (_, findings) = held_tests
                .find(|(commit, _)| self.plan.variant(*commit) == self.plan.variant(end))?;
            symptoms.extend(findings.symptoms.iter().cloned());
        }
        Some(symptoms)
    }

    /// Gives the held findings to the search, once the bad ends have shown their symptoms.
    fn apply_findings<E: RemoteTester>(&mut self, elsewhere: &mut E) -> Result<(), E::Error> {
        if self.wanted.is_none() {
            self.wanted = self.symptoms_of_bad_ends().map(select_wanted);
        }
        let Some(wanted_symptoms) = &self.wanted else { return Ok(()) };
        for (commit, findings) in std::mem::take(&mut self.held) {
            let is_unclear = findings.untestable || !findings.unknown.is_disjoint(wanted_symptoms);
            let answer =
                symptom::answer_from_symptoms(&findings.symptoms, is_unclear, wanted_symptoms);
            self.search.answer(commit, self.plan.direction.swapped(answer));
            let id = self.plan.ids[commit as usize];
            let tested_commit = self.history.commit(id).map_err(BisectError::from)?;
            elsewhere.report_answer(&tested_commit, answer, &self.search.state());
        }
        Ok(())
    }
}

impl Bisection<'_> {
    /// Tests one commit of a search between two ends, and leaves the result in the cache.
    ///
    /// # Errors
    /// As [`Bisection::search`].
    pub fn look(&self, ends: &BisectEnds, look: Look) -> Result<TestFindings, BisectError> {
        let planned = PlannedSearch::new(self, self.plan(ends)?)?;
        let number = planned.plan.ids.iter().position(|id| *id == look.commit);
        let Some(number) = number else {
            return Err(BisectError::Outside { commit: look.commit.to_string() });
        };
        planned.orders.set(look.orders);
        let test_result = planned.test(number as u32, &self.lab)?()?;
        if !test_result.timed_out() {
            planned.mark(TESTED, number as u32)?;
        }
        Ok(TestFindings::from_seen(&test_result))
    }

    /// Compiles the kernels of one commit into the cache.
    ///
    /// # Errors
    /// As [`Bisection::search`].
    pub fn compile(&self, commit: CommitId) -> Result<(), BisectError> {
        for target in &self.targets {
            match self.history.source_set(commit, &target.spec) {
                Ok(sources) => {
                    // A revision's own fault is in the cache, too.
                    self.lab.trial(&target.subject, &sources.into()).native()?;
                }
                Err(error) if error.is_revision_fault() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Replays one commit on one fixture as a log does, and leaves the result in the cache. Returns a
    /// fingerprint: equal ones mean like replays. A commit without the sources, or with code that imports what the
    /// machine lacks, has none.
    ///
    /// # Errors
    /// As [`survey_range`](super::survey_range).
    pub fn replay_for_log(
        &self,
        target: &SearchTarget,
        commit: CommitId,
    ) -> Result<Option<String>, BisectError> {
        self.has_room()?;
        match self.history.source_set(commit, &target.spec) {
            Ok(sources) => {
                let trial = self.lab.trial(&target.subject, &sources.into());
                match VariantReplay::from_trial(&trial, self.check) {
                    Err(error) if error.lacks_module() => Ok(None),
                    replayed => Ok(Some(replayed?.fingerprint())),
                }
            }
            Err(error) if error.is_revision_fault() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Judges the changes of one commit of `range` on one fixture as a log does, and leaves the judgements in
    /// the cache.
    ///
    /// # Errors
    /// As [`survey_range`](super::survey_range).
    pub fn judge_for_log(
        &self,
        target: &SearchTarget,
        range: &str,
        commit: CommitId,
    ) -> Result<(), BisectError> {
        self.has_room()?;
        judge_commit(self, target, &list_range_commits(self.history, range)?, commit)
    }
}

/// Lists the replays and comparisons for a log of `range`.
///
/// # Errors
/// [`BisectError::History`] if the range cannot be read.
pub fn list_log_work(
    history: &History,
    targets: &[SearchTarget],
    range: &str,
    first_parent: bool,
) -> Result<LogWork, BisectError> {
    log_work(history, targets, &list_range_commits(history, range)?, first_parent)
}

fn list_range_commits(
    history: &History,
    range: &str,
) -> Result<Vec<(CommitId, Vec<CommitId>)>, BisectError> {
    let commits = history.range(range)?;
    Ok(commits.into_iter().map(|commit| (commit.id, commit.parents)).collect())
}
