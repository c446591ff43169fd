//! The search over commits whose replays always come out the same: each variant is tested once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::groups::{Grouped, Groups};
use super::probe::Seen;
use super::symptom::{Symptom, select_wanted};
use super::workers::{PlannedSearch, TestThreads};
use super::{BisectError, Event, SearchListener};
use replay_engine::backend::ReplayError;
use replay_engine::trial::Lab;
use replay_search::{Conclusion, EndsRefusal, Options, Phase, Search, TestAnswer};

/// The mark of a variant whose verdict is in the cache.
pub(super) const TESTED: &str = "tested";
/// The mark of a variant with two equal replays.
const STEADY: &str = "steady";
/// The mark of a variant with several equal replays.
const VERY_STEADY: &str = "very steady";
/// How often to repeat a replay where chance is likely: if the defect is a failure, or if an end is not as
/// claimed. A completed replay repeats its bits, unless the code asks the clock, the system or unwritten
/// memory. Quick replays are repeated more often, until [`REPEATING`] is over.
const REPETITIONS: Range<usize> = 4..20;
/// How long to go on repeating quick replays.
const REPEATING: Duration = Duration::from_secs(2);

/// The state of a search when it ends.
pub(super) struct Steady {
    pub search: Search,
    /// The tested commits, in the order of their answers.
    pub tested: Vec<(u32, TestAnswer)>,
    /// The result for each variant.
    pub seen: HashMap<u32, Seen>,
    /// The symptoms searched for.
    pub wanted: BTreeSet<Symptom>,
    /// Commits whose verdict was in the cache when their test began.
    pub recalled: BTreeSet<u32>,
    /// How many variants count as fewer, by what tests opened.
    pub grouped: Option<Grouped>,
}

/// How a search ends.
pub(super) enum SteadyOutcome {
    /// With a conclusion.
    Done(Box<Steady>),
    /// The verdict on this commit is not always the same.
    Flaky(u32),
}

/// A search under way.
struct SteadySearch<'a, 'l> {
    planned: &'a PlannedSearch<'a>,
    listener: &'l mut SearchListener<'l>,
    workers: TestThreads<(Seen, bool)>,
    steady: Steady,
    groups: Groups,
    ends_known: bool,
    /// Tests without an answer until the bad ends have shown their symptoms.
    held: Vec<(u32, Seen)>,
    /// Commits whose verdict an earlier search left in the cache.
    recalled: VecDeque<u32>,
    recalling: BTreeSet<u32>,
    recall_done: bool,
    /// Whether the groups of variants were made.
    is_grouped: bool,
    /// The culprit and its parents, where they are tested though others of their groups were.
    standing_in: BTreeSet<u32>,
}

/// Searches between the ends of `planned`'s plan. Where one run of a program did not repeat, it searches again with two.
pub(super) fn run_steady_search(
    planned: &PlannedSearch<'_>,
    listener: &mut SearchListener<'_>,
) -> Result<SteadyOutcome, BisectError> {
    let outcome = search_once(planned, listener)?;
    if matches!(outcome, SteadyOutcome::Flaky(_)) && planned.ask_for_two_runs() {
        return search_once(planned, listener);
    }
    Ok(outcome)
}

fn search_once<'a, 'l>(
    planned: &'a PlannedSearch<'a>,
    listener: &'l mut SearchListener<'l>,
) -> Result<SteadyOutcome, BisectError> {
    let plan = &planned.plan;
    let options = Options { first_parent: planned.bisection.first_parent, ..Options::default() };
    let search = Search::new(plan.graph.clone(), &plan.old, &plan.new, options)?;
    let mut run = SteadySearch {
        planned,
        listener,
        workers: TestThreads::new(),
        steady: Steady {
            search,
            tested: Vec::new(),
            seen: HashMap::new(),
            wanted: BTreeSet::new(),
            recalled: BTreeSet::new(),
            grouped: None,
        },
        groups: Groups::new(planned.bisection),
        ends_known: false,
        held: Vec::new(),
        recalled: VecDeque::new(),
        recalling: BTreeSet::new(),
        recall_done: false,
        is_grouped: false,
        standing_in: BTreeSet::new(),
    };
    if run.steady.search.outcome().is_none() {
        run.announce();
    }
    loop {
        let is_over = run.steady.search.outcome().is_some();
        if is_over && !run.test_stand_ins()? {
            break;
        }
        if !is_over {
            run.fill()?;
        }
        let Some((commit, (test_result, is_same))) = run.workers.wait()? else { break };
        if !is_same {
            return Ok(SteadyOutcome::Flaky(commit));
        }
        run.take_result(commit, test_result)?;
    }
    match run.unsteady()? {
        Some(commit) => Ok(SteadyOutcome::Flaky(commit)),
        None => Ok(SteadyOutcome::Done(Box::new(run.steady))),
    }
}

impl SteadySearch<'_, '_> {
    fn announce(&mut self) {
        let candidates = self.steady.search.state().candidates;
        let commits = self.planned.plan.between;
        let jobs = self.planned.bisection.jobs.get();
        (self.listener)(Event::Planned { commits, candidates, jobs });
    }

    /// Starts as many tests as there are free jobs.
    fn fill(&mut self) -> Result<(), BisectError> {
        let jobs = self.planned.bisection.jobs.get();
        while !self.recalled.is_empty() && self.recalling.len() < jobs {
            let commit = self.recalled.pop_front().expect("it is not empty");
            if self.steady.search.known_answer(commit).is_none() {
                self.recalling.insert(commit);
                self.start(commit)?;
            }
        }
        if !self.recalling.is_empty() {
            return Ok(());
        }
        // A needless test goes on, but no longer takes a job.
        for commit in self.steady.search.obsolete() {
            self.steady.search.cancel(commit);
        }
        let held_count = self.held.len();
        let busy = self.steady.search.state().in_flight.len() - held_count;
        let free_jobs = jobs.saturating_sub(busy);
        let planned = self.planned;
        let picks = self.steady.search.next(free_jobs, &|commit| planned.is_marked(TESTED, commit));
        for commit in picks {
            self.start(commit)?;
        }
        Ok(())
    }

    fn start(&mut self, commit: u32) -> Result<(), BisectError> {
        let state = self.steady.search.state();
        (self.listener)(Event::Started { commit: &self.planned.commit(commit)?, state: &state });
        let bisection = self.planned.bisection;
        let test = self.planned.test(commit, &bisection.lab)?;
        let probes = self.planned.probes.clone();
        let repeater = bisection.repeater.clone();
        let sources = self.planned.sources(commit)?;
        if self.planned.is_marked(TESTED, commit) {
            self.steady.recalled.insert(commit);
        }
        let is_checked = self.planned.is_marked(STEADY, commit);
        self.workers.start(commit, move || {
            let test_result = test()?;
            // Moving bits may move the verdict: it is repeated now, others at the end.
            if is_checked || !test_result.is_unsteady() {
                return Ok((test_result, true));
            }
            let is_same = all_the_same(&probes, &repeater, &sources, &test_result)?;
            Ok((test_result, is_same))
        });
        Ok(())
    }

    fn take_result(&mut self, commit: u32, test_result: Seen) -> Result<(), BisectError> {
        if !test_result.timed_out() {
            self.planned.mark(TESTED, commit)?;
        }
        self.recalling.remove(&commit);
        self.held.push((commit, test_result));
        if !self.ends_known {
            self.learn();
        }
        if self.ends_known {
            for (commit, held_result) in std::mem::take(&mut self.held) {
                self.answer(commit, held_result)?;
            }
            let phase = self.steady.search.state().phase;
            if !self.recall_done && !matches!(phase, Phase::Ends | Phase::Done) {
                self.recall();
            }
        }
        Ok(())
    }

    /// Takes the symptoms to search for from the bad ends, once all of them were tested.
    fn learn(&mut self) {
        let plan = &self.planned.plan;
        let mut shown_symptoms = BTreeSet::new();
        for &end in plan.defective() {
            let variant = plan.variant(end);
            let held_test = self.held.iter().find(|(commit, _)| plan.variant(*commit) == variant);
            let Some((_, test_result)) = held_test else { return };
            shown_symptoms.extend(test_result.symptoms());
        }
        self.steady.wanted = select_wanted(shown_symptoms);
        self.planned.learn(&self.steady.wanted);
        self.ends_known = true;
    }

    fn answer(&mut self, commit: u32, test_result: Seen) -> Result<(), BisectError> {
        let answer = test_result.answer(&self.steady.wanted);
        self.steady.search.answer(commit, self.planned.plan.direction.swapped(answer));
        self.steady.tested.push((commit, answer));
        let state = self.steady.search.state();
        let commit_shown = self.planned.commit(commit)?;
        (self.listener)(Event::Tested {
            commit: &commit_shown,
            answer,
            seen: &test_result,
            state: &state,
        });
        let has_news = self.groups.learn(&test_result);
        self.steady.seen.insert(self.planned.variant(commit), test_result);
        let is_stand_in = self.standing_in.contains(&commit);
        let phase = self.steady.search.state().phase;
        let is_open = !matches!(phase, Phase::Ends | Phase::Done);
        if is_stand_in || is_open && (has_news || !self.is_grouped) {
            self.is_grouped = true;
            self.regroup()?;
        }
        Ok(())
    }

    /// Joins variants that no test so far can tell apart, once all ends have answers.
    fn regroup(&mut self) -> Result<(), BisectError> {
        let planned = self.planned;
        let tested = &self.steady.tested;
        let groups = self.groups.assign_groups(planned.bisection, &planned.plan, tested)?;
        self.steady.grouped = Grouped::count(&planned.plan, &groups);
        Ok(self.steady.search.regroup(groups)?)
    }

    /// Tests the culprit and its parents where another commit of their group stood in for them. Returns whether the search
    /// waits for such a test.
    fn test_stand_ins(&mut self) -> Result<bool, BisectError> {
        let Some(Conclusion::Found { culprit, .. }) = self.steady.search.outcome() else {
            return Ok(false);
        };
        let graph = &self.planned.plan.graph;
        let parents = graph.followed(culprit, self.planned.bisection.first_parent);
        let mut open_commits = [&[culprit], parents].concat();
        open_commits.retain(|&commit| {
            self.steady.search.known_answer(commit).is_some()
                && !self.steady.seen.contains_key(&self.planned.variant(commit))
        });
        for &commit in &open_commits {
            if self.standing_in.insert(commit) {
                self.start(commit)?;
            }
        }
        Ok(!open_commits.is_empty())
    }

    /// Lists, once, the commits tested by an earlier search: their answers cost nothing.
    fn recall(&mut self) {
        let first = self.planned.plan.ids.len() - self.planned.plan.between;
        let mut variants = BTreeSet::new();
        self.recall_done = true;
        for commit in first as u32..self.planned.plan.ids.len() as u32 {
            if self.steady.search.known_answer(commit).is_none()
                && variants.insert(self.planned.variant(commit))
                && self.planned.is_marked(TESTED, commit)
            {
                self.recalled.push_back(commit);
            }
        }
    }

    /// Repeats the replays behind the conclusion. Returns a commit with a changed verdict, if there is one.
    fn unsteady(&mut self) -> Result<Option<u32>, BisectError> {
        let (suspects, mark, times) = match self.steady.search.outcome() {
            Some(Conclusion::Found { culprit, .. }) => {
                let graph = &self.planned.plan.graph;
                let parents = graph.followed(culprit, self.planned.bisection.first_parent);
                let fails = self.steady.wanted.iter().any(|s| matches!(s, Symptom::Failed { .. }));
                let (mark, times) = if fails { (VERY_STEADY, REPETITIONS) } else { (STEADY, 1..1) };
                let mut suspects = [&[culprit], parents].concat();
                // Two runs of a program have given the bits, unless one was enough.
                if !fails && !self.planned.bisection.has_cheap_replays() {
                    suspects.retain(|&suspect| {
                        let test_result = self.steady.seen.get(&self.planned.variant(suspect));
                        test_result.is_some_and(Seen::rests_on_one_run)
                    });
                }
                (suspects, mark, times)
            }
            Some(Conclusion::Refused(
                EndsRefusal::EndsDisagree { .. } | EndsRefusal::UnclearEnds { .. },
            )) => {
                let plan = &self.planned.plan;
                ([plan.old.as_slice(), &plan.new].concat(), VERY_STEADY, REPETITIONS)
            }
            _ => return Ok(None),
        };
        let mut workers = TestThreads::new();
        let mut variants = BTreeSet::new();
        for commit in suspects {
            let variant = self.planned.variant(commit);
            let Some(known_result) = self.steady.seen.get(&variant) else { continue };
            // To wait for a timeout again would tell as little as the first time.
            if known_result.timed_out()
                || !variants.insert(variant)
                || self.planned.is_marked(mark, commit)
            {
                continue;
            }
            let sources = self.planned.sources(commit)?;
            let test_result = known_result.clone();
            let probes = Arc::clone(&self.planned.probes);
            let repeater = self.planned.bisection.repeater.clone();
            let times = times.clone();
            workers.start(commit, move || {
                let begun = Instant::now();
                for repetition in 0..times.end {
                    if repetition >= times.start && begun.elapsed() > REPEATING {
                        break;
                    }
                    if !all_the_same(&probes, &repeater, &sources, &test_result)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
        }
        let mut unsteady = None;
        while let Some((commit, is_same)) = workers.wait()? {
            if is_same { self.planned.mark(mark, commit)? } else { unsteady = Some(commit) }
        }
        Ok(unsteady)
    }
}

/// Whether `sources` come out as `test_result` on every fixture.
fn all_the_same(
    probes: &[super::probe::CommitProbe],
    repeater: &Arc<Lab>,
    sources: &[super::probe::Sources],
    test_result: &Seen,
) -> Result<bool, ReplayError> {
    for ((probe, sources), observation) in probes.iter().zip(sources).zip(&test_result.observations)
    {
        if !probe.comes_out_the_same(repeater, sources, observation)? {
            return Ok(false);
        }
    }
    Ok(true)
}
