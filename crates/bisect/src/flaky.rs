//! The search over commits whose replays do not always come out the same. Each test is one
//! observation, and commits are tested again until one is the culprit with a probability of 99 %.

use std::collections::{BTreeSet, HashMap};

use super::probe::Seen;
use super::steady::Steady;
use super::symptom::{ask_for_orders, select_wanted};
use super::workers::{PlannedSearch, TestThreads};
use super::{BisectError, Event, SearchListener};
use replay_search::{Options, Rate, Search, TestAnswer};

/// How often to test a bad end before it counts as one without symptoms.
const PATIENCE: usize = 20;
/// How often to test a bad end before others, as it may show something else each time.
const FIRST_TESTS: usize = 8;

/// Searches between the ends of `planned`'s plan, and repeats tests.
pub(super) fn run_flaky_search(
    planned: &PlannedSearch<'_>,
    listener: &mut SearchListener<'_>,
) -> Result<Steady, BisectError> {
    let plan = &planned.plan;
    let options = Options { first_parent: planned.bisection.first_parent, ..Options::default() };
    let rates = (Rate::unknown(), Rate::unknown());
    let search = Search::with_flakiness(plan.graph.clone(), &plan.old, &plan.new, options, rates)?;
    let bad_end = plan.defective()[0];
    let first_results = test_bad_end(planned, bad_end)?;
    let shown_symptoms = first_results.iter().flat_map(Seen::symptoms).collect();
    let mut flaky_search = Steady {
        search,
        tested: Vec::new(),
        seen: HashMap::new(),
        wanted: select_wanted(shown_symptoms),
        recalled: BTreeSet::new(),
        grouped: None,
    };
    planned.orders.set(ask_for_orders(&flaky_search.wanted));
    for test_result in first_results {
        take_observation(planned, &mut flaky_search, bad_end, test_result, listener)?;
    }
    let mut workers = TestThreads::new();
    while flaky_search.search.outcome().is_none() {
        let free_jobs = planned.bisection.jobs.get().saturating_sub(workers.running());
        for commit in flaky_search.search.next(free_jobs, &|_| false) {
            let state = flaky_search.search.state();
            listener(Event::Started { commit: &planned.commit(commit)?, state: &state });
            workers.start(commit, planned.test(commit, &planned.bisection.repeater)?);
        }
        let Some((commit, test_result)) = workers.wait()? else { break };
        take_observation(planned, &mut flaky_search, commit, test_result, listener)?;
    }
    Ok(flaky_search)
}

/// The first tests of a bad end, until it has shown a symptom.
fn test_bad_end(planned: &PlannedSearch<'_>, bad_end: u32) -> Result<Vec<Seen>, BisectError> {
    let mut results: Vec<Seen> = Vec::new();
    let mut has_symptom = false;
    while results.len() < FIRST_TESTS || !has_symptom && results.len() < PATIENCE {
        let test = planned.test(bad_end, &planned.bisection.repeater)?;
        let test_result = test().map_err(BisectError::Replay)?;
        has_symptom |= !test_result.symptoms().is_empty();
        results.push(test_result);
    }
    Ok(results)
}

fn take_observation(
    planned: &PlannedSearch<'_>,
    flaky_search: &mut Steady,
    commit: u32,
    test_result: Seen,
    listener: &mut SearchListener<'_>,
) -> Result<(), BisectError> {
    let plan = &planned.plan;
    let mut answer = test_result.answer(&flaky_search.wanted);
    if answer == TestAnswer::Other && plan.defective().contains(&commit) {
        // What the bad ends show is the defect, whatever they showed before.
        flaky_search.wanted.extend(select_wanted(test_result.symptoms()));
        answer = TestAnswer::Bad;
    }
    flaky_search.search.answer(commit, plan.direction.swapped(answer));
    flaky_search.tested.push((commit, answer));
    let state = flaky_search.search.state();
    listener(Event::Tested {
        commit: &planned.commit(commit)?,
        answer,
        seen: &test_result,
        state: &state,
    });
    // An observation of the defect, or of an obstacle, tells more than one of its absence.
    if answer != TestAnswer::Good || !flaky_search.seen.contains_key(&planned.variant(commit)) {
        flaky_search.seen.insert(planned.variant(commit), test_result);
    }
    Ok(())
}
