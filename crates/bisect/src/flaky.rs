//! The search over commits whose replays do not always come out the same. Each test is one
//! observation, and commits are tested again until one is the culprit with a probability of 99 %.

use std::collections::{BTreeSet, HashMap};

use super::steady::Steady;
use super::symptom::{ask_for_orders, select_wanted};
use super::workers::{PlannedSearch, TestThreads};
use super::{BisectError, Event, SearchListener};
use replay_search::{Options, Rate, Search, TestAnswer};

/// How often to test a bad end before it counts as one without symptoms.
const PATIENCE: usize = 20;

/// Searches between the ends of `planned`'s plan, and repeats tests.
pub(super) fn run_flaky_search<'l>(
    planned: &PlannedSearch<'_>,
    listener: &'l mut SearchListener<'l>,
) -> Result<Steady, BisectError> {
    let plan = &planned.plan;
    let options = Options { first_parent: planned.bisection.first_parent, ..Options::default() };
    let rates = (Rate::unknown(), Rate::unknown());
    let search = Search::with_flakiness(plan.graph.clone(), &plan.old, &plan.new, options, rates)?;
    let mut flaky_search = Steady {
        search,
        tested: Vec::new(),
        seen: HashMap::new(),
        wanted: BTreeSet::new(),
        recalled: BTreeSet::new(),
        grouped: None,
    };
    let bad_end = plan.defective()[0];
    for _ in 0..PATIENCE {
        let test_result =
            planned.test(bad_end, &planned.bisection.repeater)?().map_err(BisectError::Replay)?;
        flaky_search.wanted = select_wanted(test_result.symptoms());
        flaky_search.seen.insert(planned.variant(bad_end), test_result);
        if !flaky_search.wanted.is_empty() {
            break;
        }
    }
    planned.orders.set(ask_for_orders(&flaky_search.wanted));
    let mut workers = TestThreads::new();
    while flaky_search.search.outcome().is_none() {
        let free_jobs = planned.bisection.jobs.get().saturating_sub(workers.running());
        for commit in flaky_search.search.next(free_jobs, &|_| false) {
            let state = flaky_search.search.state();
            listener(Event::Started { commit: &planned.commit(commit)?, state: &state });
            workers.start(commit, planned.test(commit, &planned.bisection.repeater)?);
        }
        let Some((commit, test_result)) = workers.wait()? else { break };
        let answer = test_result.answer(&flaky_search.wanted);
        flaky_search.search.answer(commit, plan.direction.swapped(answer));
        flaky_search.tested.push((commit, answer));
        let state = flaky_search.search.state();
        listener(Event::Tested {
            commit: &planned.commit(commit)?,
            answer,
            seen: &test_result,
            state: &state,
        });
        // An observation of the defect tells more than one of its absence.
        if answer == TestAnswer::Bad || !flaky_search.seen.contains_key(&planned.variant(commit)) {
            flaky_search.seen.insert(planned.variant(commit), test_result);
        }
    }
    Ok(flaky_search)
}
