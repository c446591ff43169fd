//! The search over commits whose replays do not always come out the same. Each test is one
//! observation, and commits are tested again until one is the culprit with a probability of 99 %.

use std::collections::{BTreeSet, HashMap};

use super::steady::Steady;
use super::symptom::{ask_for_orders, select_wanted};
use super::workers::{Planned, Workers};
use super::{BisectError, Event, Listener};
use crate::search::{Answer, Options, Rate, Search};

/// How often a bad end is tested before it counts as one that shows nothing.
const PATIENCE: usize = 20;

/// Searches between the ends of `planned`'s plan, and repeats tests.
pub(super) fn run<'l>(
    planned: &Planned<'_>,
    listener: &'l mut Listener<'l>,
) -> Result<Steady, BisectError> {
    let plan = &planned.plan;
    let options = Options { first_parent: planned.bisection.first_parent, ..Options::default() };
    let rates = (Rate::unknown(), Rate::unknown());
    let search = Search::with_flakiness(plan.graph.clone(), &plan.old, &plan.new, options, rates)?;
    let mut found = Steady {
        search,
        tested: Vec::new(),
        seen: HashMap::new(),
        wanted: BTreeSet::new(),
        recalled: BTreeSet::new(),
    };
    let bad = plan.defective()[0];
    for _ in 0..PATIENCE {
        let seen =
            planned.test(bad, &planned.bisection.repeater)?().map_err(BisectError::Replay)?;
        found.wanted = select_wanted(seen.symptoms());
        found.seen.insert(planned.variant(bad), seen);
        if !found.wanted.is_empty() {
            break;
        }
    }
    planned.orders.set(ask_for_orders(&found.wanted));
    let mut workers = Workers::new();
    while found.search.outcome().is_none() {
        let free = planned.bisection.jobs.get().saturating_sub(workers.running());
        for commit in found.search.next(free, &|_| false) {
            let state = found.search.state();
            listener(Event::Started { commit: &planned.commit(commit)?, state: &state });
            workers.start(commit, planned.test(commit, &planned.bisection.repeater)?);
        }
        let Some((commit, seen)) = workers.wait()? else { break };
        let answer = seen.answer(&found.wanted);
        found.search.answer(commit, plan.direction.swapped(answer));
        found.tested.push((commit, answer));
        let state = found.search.state();
        listener(Event::Tested {
            commit: &planned.commit(commit)?,
            answer,
            seen: &seen,
            state: &state,
        });
        // An observation of the defect tells more than one of its absence.
        if answer == Answer::Bad || !found.seen.contains_key(&planned.variant(commit)) {
            found.seen.insert(planned.variant(commit), seen);
        }
    }
    Ok(found)
}
