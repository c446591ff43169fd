//! The search where a commit does not always show the same: each test is one observation, and
//! commits are tested again until one is the culprit with a probability of 99 %.

use std::collections::{BTreeSet, HashMap};

use super::drive::{Crew, Field};
use super::steady::Steady;
use super::symptom::ask_for_orders;
use super::{Event, HuntError, Listener};
use crate::search::{Answer, Options, Rate, Search};

/// How often a bad end is tested before it counts as one that shows nothing.
const PATIENCE: usize = 20;

/// Searches between the ends of `field`'s plan, and repeats tests.
pub(super) fn run<'l>(
    field: &Field<'_>,
    listener: &'l mut Listener<'l>,
) -> Result<Steady, HuntError> {
    let plan = &field.plan;
    let options = Options { first_parent: field.hunt.first_parent, ..Options::default() };
    let rates = (Rate::unknown(), Rate::unknown());
    let search = Search::with_flakiness(plan.graph.clone(), &plan.good, &plan.bad, options, rates)?;
    let mut found =
        Steady { search, tested: Vec::new(), seen: HashMap::new(), wanted: BTreeSet::new() };
    let bad = plan.bad[0];
    for _ in 0..PATIENCE {
        let seen = field.test(bad, &field.hunt.repeater)?().map_err(HuntError::Replay)?;
        found.wanted = seen.symptoms();
        found.seen.insert(field.variant(bad), seen);
        if !found.wanted.is_empty() {
            break;
        }
    }
    field.orders.set(ask_for_orders(&found.wanted));
    let mut crew = Crew::new();
    while found.search.outcome().is_none() {
        let free = field.hunt.jobs.get().saturating_sub(crew.running());
        for commit in found.search.next(free, &|_| false) {
            let state = found.search.state();
            listener(Event::Started { commit: &field.commit(commit)?, state: &state });
            crew.start(commit, field.test(commit, &field.hunt.repeater)?);
        }
        let Some((commit, seen)) = crew.wait()? else { break };
        let answer = seen.answer(&found.wanted);
        found.search.answer(commit, answer);
        found.tested.push((commit, answer));
        let state = found.search.state();
        listener(Event::Tested {
            commit: &field.commit(commit)?,
            answer,
            seen: &seen,
            state: &state,
        });
        // A sight of the defect tells more than one of its absence.
        if answer == Answer::Bad || !found.seen.contains_key(&field.variant(commit)) {
            found.seen.insert(field.variant(commit), seen);
        }
    }
    Ok(found)
}
