//! A search along an axis of environments, at one revision. Each value has a [`Commit`] of its own, whose names are those of
//! the environment: the search, its answer and its reports treat it like any other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::plan::Plan;
use super::probe::Sources;
use super::{BisectError, Bisection, Direction, SearchTarget};
use replay_engine::environment::{Environment, EnvironmentError, hash_environment};
use replay_engine::trial::PlacedSources;
use replay_history::{Commit, CommitId, SourceKey, SourceSet};

/// Makes the environment with a value of the axis.
pub type MakeEnvironment<'a> = dyn Fn(&str) -> Result<Environment, EnvironmentError> + 'a;

/// An axis of environments to search along.
pub struct EnvironmentAxis<'a> {
    /// Its name, such as `triton`.
    pub name: String,
    /// The values, in their order.
    values: Vec<String>,
    /// Where the sources come from: `at 37707d4`.
    pub place: String,
    /// The sources, one set for each fixture.
    sources: Vec<Arc<SourceSet>>,
    make: Box<MakeEnvironment<'a>>,
    /// The environments so far, or why there is none, by the places of their values.
    made: RefCell<HashMap<usize, Made>>,
}

/// An environment, or the reason and the advice where its value cannot be tested.
type Made = Result<Arc<Environment>, (String, Option<String>)>;

impl<'a> EnvironmentAxis<'a> {
    /// The axis `name` with `values`, over `sources` of one revision, which lies at `place`.
    pub fn new(
        name: String,
        values: Vec<String>,
        (place, sources): (String, Vec<Arc<SourceSet>>),
        make: Box<MakeEnvironment<'a>>,
    ) -> EnvironmentAxis<'a> {
        EnvironmentAxis { name, values, place, sources, make, made: RefCell::default() }
    }

    /// The commit that stands for the value at `index`.
    pub fn commit(&self, index: usize) -> Commit {
        Commit {
            id: self.id(index),
            short: format!("{} {}", self.name, self.values[index]),
            subject: self.place.clone(),
            author_name: String::new(),
            time_s: 0,
            parents: index.checked_sub(1).map(|before| self.id(before)).into_iter().collect(),
        }
    }

    fn id(&self, index: usize) -> CommitId {
        let digits = hash_environment(&self.name, &self.values[index]);
        digits.parse().expect("40 digits are an id")
    }

    /// The place of the value behind `id`.
    fn index_of(&self, id: CommitId) -> Result<usize, BisectError> {
        let index = (0..self.values.len()).find(|&index| self.id(index) == id);
        index.ok_or_else(|| BisectError::Outside { commit: id.to_string() })
    }

    /// Makes the environment with the value at `index` before it is needed.
    ///
    /// # Errors
    /// [`EnvironmentError`], whatever is at fault.
    pub fn prepare(&self, index: usize) -> Result<(), EnvironmentError> {
        let environment = (self.make)(&self.values[index])?;
        self.made.borrow_mut().insert(index, Ok(Arc::new(environment)));
        Ok(())
    }

    /// The environment with the value at `index`, made at its first use.
    ///
    /// # Errors
    /// [`BisectError`] if something else than the value is at fault.
    fn environment(&self, index: usize) -> Result<Made, BisectError> {
        if let Some(made) = self.made.borrow().get(&index) {
            return Ok(made.clone());
        }
        let made = match (self.make)(&self.values[index]) {
            Ok(environment) => Ok(Arc::new(environment)),
            Err(error) if error.is_value_fault() => Err((error.in_a_line(), error.hint())),
            Err(error) => return Err(error.into()),
        };
        self.made.borrow_mut().insert(index, made.clone());
        Ok(made)
    }

    /// The sources for the fixture at `target`, in the environment behind `id`.
    pub(super) fn sources(&self, id: CommitId, target: usize) -> Result<Sources, BisectError> {
        Ok(match self.environment(self.index_of(id)?)? {
            Ok(environment) => Sources::Found(PlacedSources {
                set: self.sources[target].clone(),
                environment: Some(environment),
            }),
            Err((reason, hint)) => Sources::Missing { reason, hint },
        })
    }

    /// What differs between the environments behind `id` and its parent, in the form of a diff.
    pub(super) fn diff(&self, id: CommitId) -> Result<String, BisectError> {
        let index = self.index_of(id)?;
        let Some(before) = index.checked_sub(1) else { return Ok(String::new()) };
        let (Ok(before), Ok(after)) = (self.environment(before)?, self.environment(index)?) else {
            return Ok(String::new());
        };
        Ok(diff_lines(&before.lines(), &after.lines()))
    }

    /// The values between `old` and `new` as a graph: each follows the one before it.
    fn plan(&self, old: usize, new: usize, direction: Direction) -> Result<Plan, BisectError> {
        let ids: Vec<CommitId> = (old..=new).map(|index| self.id(index)).collect();
        let keys = ids.iter().map(|&id| {
            let keys = self.sources.iter().map(|set| key_in_environment(set, id));
            (id, keys.collect())
        });
        Plan::in_line(ids.clone(), keys.collect(), direction)
    }
}

/// The key of `set` in the environment behind `id`.
fn key_in_environment(set: &SourceSet, id: CommitId) -> SourceKey {
    let mut hasher = blake3::Hasher::new_derive_key("replay sources in an environment 1");
    hasher.update(&set.id);
    hasher.update(id.as_bytes());
    SourceKey::new(*hasher.finalize().as_bytes())
}

/// The lines of `before` that `after` lacks, and the other way round.
fn diff_lines(before: &[String], after: &[String]) -> String {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("-{line}\n"));
    let come = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+{line}\n"));
    gone.chain(come).collect()
}

impl Bisection<'_> {
    /// The commits or the environments between `old` and `new`.
    pub(super) fn plan_between(
        &self,
        old: &[Commit],
        new: &[Commit],
        direction: Direction,
    ) -> Result<Plan, BisectError> {
        let Some(axis) = &self.axis else {
            return Plan::new(self.history, &self.targets, old, new, direction);
        };
        let [old, new] = [old, new].map(|ends| axis.index_of(ends[0].id));
        axis.plan(old?, new?, direction)
    }

    /// The same between `good` and `bad`. If the bad ends come before the good ones, the search is for the repair.
    pub(super) fn plan_claimed(
        &self,
        good: &[Commit],
        bad: &[Commit],
    ) -> Result<Plan, BisectError> {
        let Some(axis) = &self.axis else {
            return Plan::claimed(self.history, &self.targets, good, bad);
        };
        let [good, bad] = [good, bad].map(|ends| axis.index_of(ends[0].id));
        let (good, bad) = (good?, bad?);
        if bad < good {
            axis.plan(bad, good, Direction::Repairs)
        } else {
            axis.plan(good, bad, Direction::Breaks)
        }
    }

    /// The commit with this id, as reports show it.
    pub(super) fn commit(&self, id: CommitId) -> Result<Commit, BisectError> {
        match &self.axis {
            Some(axis) => Ok(axis.commit(axis.index_of(id)?)),
            None => Ok(self.history.commit(id)?),
        }
    }

    /// The sources of `commit` for the fixture at `target`.
    pub(super) fn sources(&self, commit: CommitId, target: usize) -> Result<Sources, BisectError> {
        match &self.axis {
            Some(axis) => axis.sources(commit, target),
            None => Ok(Sources::read(self.history, commit, &self.targets[target].spec)?),
        }
    }

    /// What `commit` changes.
    pub(super) fn diff(&self, commit: &Commit) -> Result<String, BisectError> {
        if let Some(axis) = &self.axis {
            return axis.diff(commit.id);
        }
        let parent = commit.parents.first().and_then(|&parent| self.history.commit(parent).ok());
        let sources = SearchTarget::join_specs(&self.targets);
        Ok(self.history.diff(parent.as_ref(), commit, &sources)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_of_environments_has_the_lines_of_one_alone() {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let before = lines(&["ml_dtypes 0.4.1", "numpy 2.0.1"]);
        let after = lines(&["ml_dtypes 0.5.0", "numpy 2.0.1"]);
        assert_eq!(diff_lines(&before, &after), "-ml_dtypes 0.4.1\n+ml_dtypes 0.5.0\n");
        assert_eq!(diff_lines(&before, &before), "");
    }
}
