//! The ends of a search, and the fate of the defect between them.

use std::collections::BTreeSet;

use super::plan::Plan;
use super::probe::Seen;
use super::symptom::Symptom;
use super::workers::PlannedSearch;
use super::{BisectError, Bisection};
use replay_history::{Commit, History};
use replay_search::TestAnswer;

/// The ends of a search.
#[derive(Clone, Debug)]
pub enum BisectEnds {
    /// The end with the defect is known. If it is the older one, the search is for the repair.
    Claimed {
        /// Commits without the defect.
        good: Vec<Commit>,
        /// Commits with the defect.
        bad: Vec<Commit>,
    },
    /// The end with the defect is found by replays, if one has it.
    Unclaimed {
        /// The older commits.
        old: Vec<Commit>,
        /// The newer commits.
        new: Vec<Commit>,
    },
}

/// What happens to the defect on the way from the older ends to the newer ones.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It comes: the older ends are good.
    Breaks,
    /// It goes: the newer ends are good.
    Repairs,
    /// The ends differ, and which of them is right is not known. The older ones are compared with.
    Changes,
}

impl BisectEnds {
    /// Ends without a claim. An ancestor of the other side is the older one.
    ///
    /// # Errors
    /// [`BisectError::History`] if the repository is shallow between them, or damaged.
    pub fn unclaimed(
        history: &History,
        old: Vec<Commit>,
        new: Vec<Commit>,
    ) -> Result<BisectEnds, BisectError> {
        // The new side lies within the old one.
        let are_swapped = history.commits_between(&old, &new, false)?.is_empty();
        Ok(if are_swapped {
            BisectEnds::Unclaimed { old: new, new: old }
        } else {
            BisectEnds::Unclaimed { old, new }
        })
    }
}

impl Direction {
    /// Good and bad in terms of the search: there the older side is good. And back.
    pub(super) fn swapped(self, answer: TestAnswer) -> TestAnswer {
        match (self, answer) {
            (Direction::Repairs, TestAnswer::Good) => TestAnswer::Bad,
            (Direction::Repairs, TestAnswer::Bad) => TestAnswer::Good,
            (_, answer) => answer,
        }
    }
}

impl Bisection<'_> {
    /// Reads the history between `ends`. Replays ends without a claim.
    pub(super) fn plan(&self, ends: &BisectEnds) -> Result<Plan, BisectError> {
        match ends {
            BisectEnds::Claimed { good, bad } => self.plan_claimed(good, bad),
            BisectEnds::Unclaimed { old, new } => {
                let direction = self.find_direction(old, new)?;
                self.plan_between(old, new, direction)
            }
        }
    }

    /// Finds the end with the defect. Each is tested beside the other. Where both then seem wrong, failures
    /// decide, and gradients off their loss.
    ///
    /// # Errors
    /// As [`Bisection::search`].
    pub fn find_direction(&self, old: &[Commit], new: &[Commit]) -> Result<Direction, BisectError> {
        let appearing = self.test_defective_end(old, new, Direction::Breaks)?.symptoms();
        let vanishing = self.test_defective_end(old, new, Direction::Repairs)?.symptoms();
        Ok(match (appearing.is_empty(), vanishing.is_empty()) {
            (_, true) => Direction::Breaks,
            (true, false) => Direction::Repairs,
            (false, false) => self.tell_apart((&appearing, new), (&vanishing, old))?,
        })
    }

    /// Tests the end with the defect in `direction`, beside the other one.
    fn test_defective_end(
        &self,
        old: &[Commit],
        new: &[Commit],
        direction: Direction,
    ) -> Result<Seen, BisectError> {
        let plan = self.plan_between(old, new, direction)?;
        let planned = PlannedSearch::new(self, plan)?;
        let end = planned.plan.defective()[0];
        Ok(planned.test(end, &self.lab)?()?)
    }

    fn tell_apart(
        &self,
        (appearing, new): (&BTreeSet<Symptom>, &[Commit]),
        (vanishing, old): (&BTreeSet<Symptom>, &[Commit]),
    ) -> Result<Direction, BisectError> {
        let new_fails = appearing.iter().any(Symptom::is_failure);
        let old_fails = vanishing.iter().any(Symptom::is_failure);
        let (new_is_wrong, old_is_wrong) = match (new_fails, old_fails) {
            (false, false) => (self.has_wrong_gradient(new)?, self.has_wrong_gradient(old)?),
            failures => failures,
        };
        Ok(match (new_is_wrong, old_is_wrong) {
            (true, false) => Direction::Breaks,
            (false, true) => Direction::Repairs,
            _ => Direction::Changes,
        })
    }

    /// Whether a gradient of the first of `ends` does not match its loss.
    fn has_wrong_gradient(&self, ends: &[Commit]) -> Result<bool, BisectError> {
        let Some(end) = ends.first() else { return Ok(false) };
        Ok(!self.wrong_gradients(end.id)?.is_empty())
    }
}
