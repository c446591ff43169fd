//! The oldest commit that can be tested: the good end of a search without a named one.

use std::collections::HashMap;

use super::probe::Sources;
use super::{BisectError, Bisection};
use replay_engine::trial::Status;
use replay_history::{Commit, CommitId, SourceKey, SourceSpec};

impl Bisection<'_> {
    /// The oldest commit among `newest` and its ancestors that can be tested on every fixture, parents before children;
    /// none if there is none. Commits are taken to be testable from it on, so few are replayed.
    ///
    /// # Errors
    /// As [`Bisection::search`], and if the history ends early.
    pub fn find_oldest_testable(&self, newest: &Commit) -> Result<Option<Commit>, BisectError> {
        let nodes =
            self.history.commits_between(&[], std::slice::from_ref(newest), self.first_parent)?;
        let ids: Vec<CommitId> = nodes.iter().map(|node| node.id).collect();
        let specs: Vec<&SourceSpec> = self.targets.iter().map(|target| &target.spec).collect();
        let keys = self.history.source_keys(&ids, &specs)?;
        let mut known: HashMap<&Vec<SourceKey>, bool> = HashMap::new();
        let place = find_first_place(ids.len(), |place| {
            // A commit without a key has a fault of its own.
            let Some(key) = keys.get(&ids[place]) else { return Ok(false) };
            if let Some(&is_testable) = known.get(key) {
                return Ok(is_testable);
            }
            let is_testable = self.is_testable(ids[place])?;
            known.insert(key, is_testable);
            Ok::<_, BisectError>(is_testable)
        })?;
        Ok(place.map(|place| self.history.commit(ids[place])).transpose()?)
    }

    fn is_testable(&self, commit: CommitId) -> Result<bool, BisectError> {
        for (index, target) in self.targets.iter().enumerate() {
            let Sources::Found(sources) = self.sources(commit, index)? else {
                return Ok(false);
            };
            let trial = self.lab.placed_trial(&target.subject, &sources);
            match trial.outcome() {
                Ok(outcome) => {
                    let is_untestable = matches!(outcome.status, Status::Untestable { .. });
                    if is_untestable || outcome.call_misfit().is_some() {
                        return Ok(false);
                    }
                }
                Err(error) if error.lacks_module() => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// The first of `count` places with `holds`, if it holds from there on; asks at most twice the logarithm of its place.
fn find_first_place<E>(
    count: usize,
    mut holds: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let mut first_open = 0;
    let mut step = 1;
    let mut holding = loop {
        let place = (first_open + step - 1).min(count.saturating_sub(1));
        if first_open >= count {
            return Ok(None);
        }
        if holds(place)? {
            break place;
        }
        first_open = place + 1;
        step *= 2;
    };
    while first_open < holding {
        let middle = first_open + (holding - first_open) / 2;
        if holds(middle)? {
            holding = middle;
        } else {
            first_open = middle + 1;
        }
    }
    Ok(Some(holding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_in_few_questions() {
        for count in 0..200 {
            for first in 0..=count {
                let mut asked = 0;
                let found = find_first_place(count, |place| {
                    asked += 1;
                    Ok::<_, ()>(place >= first)
                });
                assert_eq!(found, Ok((first < count).then_some(first)), "{first} of {count}");
                assert!(asked <= 2 * (first + 2).ilog2() + 1, "{asked} for {first} of {count}");
            }
        }
    }
}
