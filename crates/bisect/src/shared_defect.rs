//! A defect of both ends of a search: gradients off their loss.

use std::time::Duration;

use super::direction::Direction;
use super::probe::Sources;
use super::workers::PlannedSearch;
use super::{BisectError, Bisection};
use replay_engine::judge::{
    GradientCheck, GradientVerdict, check_gradients, check_gradients_within,
};
use replay_history::{Commit, CommitId, SourceSpec};
use replay_search::{Conclusion, EndsRefusal};

/// A defect of both ends of a search. A comparison with the good end cannot show it.
#[derive(Clone, Debug)]
pub struct SharedDefect {
    /// The good end.
    pub good: Commit,
    /// By fixture: the gradients off their loss at both ends, as the bad end has them.
    pub gradients: Vec<(String, Vec<GradientCheck>)>,
    /// The oldest testable revision, if it is older than the good end and of another variant.
    pub oldest: Option<Oldest>,
}

/// The oldest testable revision.
#[derive(Clone, Debug)]
pub struct Oldest {
    pub commit: Commit,
    /// Whether its gradients match their loss.
    pub is_right: bool,
}

impl Bisection<'_> {
    /// By fixture: the gradients of `commit` beside their loss, made within `limit` if there is one; none where it cannot
    /// be tested.
    pub(super) fn gradients(
        &self,
        commit: CommitId,
        limit: Option<Duration>,
    ) -> Result<Vec<(String, Vec<GradientCheck>)>, BisectError> {
        let mut checks_by_fixture = Vec::new();
        for (index, target) in self.targets.iter().enumerate() {
            let Sources::Found(sources) = self.sources(commit, index)? else { continue };
            let trial = self.lab.placed_trial(&target.subject, &sources);
            let checks = match limit {
                Some(limit) => check_gradients_within(&trial, limit)?,
                None => check_gradients(&trial)?,
            };
            checks_by_fixture.push((target.subject.fixture.name.clone(), checks));
        }
        Ok(checks_by_fixture)
    }

    /// By fixture: the gradients of `commit` off their loss.
    pub(super) fn wrong_gradients(
        &self,
        commit: CommitId,
    ) -> Result<Vec<(String, Vec<GradientCheck>)>, BisectError> {
        let mut checks_by_fixture = self.gradients(commit, None)?;
        for (_, checks) in &mut checks_by_fixture {
            checks.retain(|check| check.story.verdict() >= GradientVerdict::Imprecise);
        }
        checks_by_fixture.retain(|(_, checks)| !checks.is_empty());
        Ok(checks_by_fixture)
    }
}

/// Finds the defect of both ends, if the bad end is no worse than the good one.
pub(super) fn find_shared_defect(
    planned: &PlannedSearch<'_>,
    conclusion: &Conclusion,
) -> Result<Option<SharedDefect>, BisectError> {
    let bisection = planned.bisection;
    let plan = &planned.plan;
    let Conclusion::Refused(EndsRefusal::EndsDisagree { good_is_bad, bad_is_good }) = conclusion
    else {
        return Ok(None);
    };
    let no_worse = match plan.direction {
        Direction::Repairs => good_is_bad.first(),
        Direction::Breaks | Direction::Changes => bad_is_good.first(),
    };
    let Some(&end) = no_worse.filter(|_| bisection.on.minds_values()) else { return Ok(None) };
    let good = planned.commit(plan.trusted())?;
    let good_defects = bisection.wrong_gradients(good.id)?;
    let mut shared_checks = bisection.wrong_gradients(plan.ids[end as usize])?;
    for (fixture, checks) in &mut shared_checks {
        checks.retain(|check| find_check(&good_defects, fixture, &check.output).is_some());
    }
    shared_checks.retain(|(_, checks)| !checks.is_empty());
    if shared_checks.is_empty() {
        return Ok(None);
    }
    let oldest = find_oldest(bisection, &good, &shared_checks)?;
    Ok(Some(SharedDefect { good, gradients: shared_checks, oldest }))
}

/// The oldest testable revision behind `good`, unless it is of the same variant.
fn find_oldest(
    bisection: &Bisection<'_>,
    good: &Commit,
    shared_checks: &[(String, Vec<GradientCheck>)],
) -> Result<Option<Oldest>, BisectError> {
    if !bisection.along.is_history() {
        return Ok(None);
    }
    let Some(commit) = bisection.find_oldest_testable(good)? else { return Ok(None) };
    let specs: Vec<&SourceSpec> = bisection.targets.iter().map(|target| &target.spec).collect();
    let keys = bisection.history.source_keys(&[commit.id, good.id], &specs)?;
    if keys[&commit.id] == keys[&good.id] {
        return Ok(None);
    }
    let checks = bisection.gradients(commit.id, None)?;
    let mut is_right = true;
    for (fixture, shared) in shared_checks {
        for GradientCheck { output, .. } in shared {
            let check = find_check(&checks, fixture, output);
            is_right &=
                check.is_some_and(|check| check.story.verdict() == GradientVerdict::Matches);
        }
    }
    Ok(Some(Oldest { commit, is_right }))
}

/// The check of `output` on `fixture`, if there is one.
fn find_check<'c>(
    checks_by_fixture: &'c [(String, Vec<GradientCheck>)],
    fixture: &str,
    output: &str,
) -> Option<&'c GradientCheck> {
    let of_fixture = checks_by_fixture.iter().filter(|(name, _)| name == fixture);
    of_fixture.flat_map(|(_, checks)| checks).find(|check| check.output == output)
}
