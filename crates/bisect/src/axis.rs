//! An axis of environments: its values in their order, and the environments made of them. Each value has a [`Commit`] of its
//! own, whose names are those of the environment: a search, its answer and its reports treat it like any other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::plan::Plan;
use super::probe::Sources;
use super::{BisectError, Direction};
use replay_engine::environment::{Environment, EnvironmentError, hash_environment};
use replay_engine::trial::PlacedSources;
use replay_history::{Commit, CommitId, SourceKey, SourceSet};

/// Makes the environment with a value of the axis.
pub type MakeEnvironment<'a> = dyn Fn(&str) -> Result<Environment, EnvironmentError> + 'a;

/// An axis of environments.
pub struct EnvironmentAxis<'a> {
    /// Its name, such as `triton`.
    pub name: String,
    /// The values, in their order.
    values: Vec<String>,
    make: Box<MakeEnvironment<'a>>,
    /// The environments so far, or why there is none, by the places of their values.
    made: RefCell<HashMap<usize, Made>>,
}

/// An environment, or the reason and the advice where its value cannot be tested.
type Made = Result<Arc<Environment>, (String, Option<String>)>;

/// An axis of environments to search along, at one revision.
pub struct AxisAtRevision<'a> {
    pub axis: Rc<EnvironmentAxis<'a>>,
    /// Where the sources come from: `at 37707d4`.
    pub place: String,
    /// The sources, one set for each fixture.
    pub sources: Vec<Arc<SourceSet>>,
}

impl<'a> EnvironmentAxis<'a> {
    /// The axis `name` with `values`.
    pub fn new(
        name: String,
        values: Vec<String>,
        make: Box<MakeEnvironment<'a>>,
    ) -> EnvironmentAxis<'a> {
        EnvironmentAxis { name, values, make, made: RefCell::default() }
    }

    /// The value at `index`, as reports name it: `triton 3.4.0`.
    pub fn describe_value(&self, index: usize) -> String {
        format!("{} {}", self.name, self.values[index])
    }

    /// The values, separated by commas.
    pub fn list_values(&self) -> String {
        self.values.join(", ")
    }

    pub(super) fn id(&self, index: usize) -> CommitId {
        let digits = hash_environment(&self.name, &self.values[index]);
        digits.parse().expect("40 digits are an id")
    }

    /// The value at `index` beside `revision`, as the command line names them: `37707d4@triton=3.4.0`.
    pub(super) fn name_pair(&self, revision: &str, index: usize) -> String {
        format!("{revision}@{}={}", self.name, self.values[index])
    }

    /// Makes the environment with the value at `index` before it is needed.
    ///
    /// # Errors
    /// [`EnvironmentError`], whatever is at fault.
    pub fn prepare(&self, index: usize) -> Result<Arc<Environment>, EnvironmentError> {
        if let Some(Ok(environment)) = self.made.borrow().get(&index) {
            return Ok(environment.clone());
        }
        let environment = Arc::new((self.make)(&self.values[index])?);
        self.made.borrow_mut().insert(index, Ok(environment.clone()));
        Ok(environment)
    }

    /// The environment with the value at `index`, made at its first use.
    ///
    /// # Errors
    /// [`BisectError`] if something else than the value is at fault.
    pub(super) fn environment(&self, index: usize) -> Result<Made, BisectError> {
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

    /// What differs between the environments at `index` and before it, in the form of a diff.
    fn diff(&self, index: usize) -> Result<String, BisectError> {
        let Some(before) = index.checked_sub(1) else { return Ok(String::new()) };
        let (Ok(before), Ok(after)) = (self.environment(before)?, self.environment(index)?) else {
            return Ok(String::new());
        };
        Ok(diff_lines(&before.lines(), &after.lines()))
    }
}

impl AxisAtRevision<'_> {
    /// The commit that stands for the value at `index`.
    pub fn commit(&self, index: usize) -> Commit {
        let parent = index.checked_sub(1).map(|before| self.axis.id(before));
        Commit {
            id: self.axis.id(index),
            short: self.axis.describe_value(index),
            subject: self.place.clone(),
            author_name: String::new(),
            time_s: 0,
            parents: parent.into_iter().collect(),
        }
    }

    /// The place of the value behind `id`.
    pub(super) fn index_of(&self, id: CommitId) -> Result<usize, BisectError> {
        let index = (0..self.axis.values.len()).find(|&index| self.axis.id(index) == id);
        index.ok_or_else(|| BisectError::Outside { commit: id.to_string() })
    }

    /// The sources for the fixture at `target`, in the environment behind `id`.
    pub(super) fn sources(&self, id: CommitId, target: usize) -> Result<Sources, BisectError> {
        Ok(match self.axis.environment(self.index_of(id)?)? {
            Ok(environment) => Sources::Found(PlacedSources {
                set: self.sources[target].clone(),
                environment: Some(environment),
            }),
            Err((reason, hint)) => Sources::Missing { reason, hint },
        })
    }

    /// What differs between the environments behind `id` and its parent, in the form of a diff.
    pub(super) fn diff(&self, id: CommitId) -> Result<String, BisectError> {
        self.axis.diff(self.index_of(id)?)
    }

    /// The values between `old` and `new` as a graph: each follows the one before it.
    pub(super) fn plan(
        &self,
        old: usize,
        new: usize,
        direction: Direction,
    ) -> Result<Plan, BisectError> {
        let ids: Vec<CommitId> = (old..=new).map(|index| self.axis.id(index)).collect();
        let keys = ids.iter().map(|&id| {
            let keys = self.sources.iter().map(|set| key_in_environment(set, id));
            (id, keys.collect())
        });
        Plan::in_line(ids.clone(), keys.collect(), direction)
    }
}

/// The key of `set` in the environment behind `id`.
pub(super) fn key_in_environment(set: &SourceSet, id: CommitId) -> SourceKey {
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
