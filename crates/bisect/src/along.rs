//! What lies between the ends of a search: commits, environments at one revision, or pairs of both.

use std::sync::Arc;

use super::axis::AxisAtRevision;
use super::both::Pair;
use super::plan::Plan;
use super::probe::Sources;
use super::{BisectError, Bisection, Direction, SearchTarget};
use replay_engine::environment::Environment;
use replay_history::{Commit, CommitId};

/// What a search goes along.
pub enum Along<'a> {
    /// The history, in this environment; none for the session's own.
    History(Option<Arc<Environment>>),
    /// Environments, at one revision.
    Environments(AxisAtRevision<'a>),
    /// Pairs of a commit and an environment, each after the one before it.
    Pairs(Vec<Pair>),
}

impl Along<'_> {
    /// Whether this is the history.
    pub(super) fn is_history(&self) -> bool {
        matches!(self, Along::History(_))
    }

    /// Whether this is the history in the session's own environment.
    pub(super) fn is_plain_history(&self) -> bool {
        matches!(self, Along::History(None))
    }

    /// The environment of all commits; none for the session's own, and where they have different ones.
    pub(super) fn environment(&self) -> Option<&Arc<Environment>> {
        match self {
            Along::History(environment) => environment.as_ref(),
            Along::Environments(_) | Along::Pairs(_) => None,
        }
    }

    /// The axis of environments, if this is one.
    pub(super) fn axis_name(&self) -> Option<&str> {
        match self {
            Along::Environments(environments) => Some(&environments.axis.name),
            Along::History(_) | Along::Pairs(_) => None,
        }
    }
}

/// The place of the pair behind `id` among `pairs`.
fn find_pair(pairs: &[Pair], id: CommitId) -> Result<usize, BisectError> {
    let index = pairs.iter().position(|pair| pair.commit.id == id);
    index.ok_or_else(|| BisectError::Outside { commit: id.to_string() })
}

impl Bisection<'_> {
    /// What lies between `old` and `new`, as a graph.
    pub(super) fn plan_between(
        &self,
        old: &[Commit],
        new: &[Commit],
        direction: Direction,
    ) -> Result<Plan, BisectError> {
        match &self.along {
            Along::History(_) => Plan::new(self.history, &self.targets, old, new, direction),
            Along::Environments(environments) => {
                let [old, new] = [old, new].map(|ends| environments.index_of(ends[0].id));
                environments.plan(old?, new?, direction)
            }
            Along::Pairs(pairs) => {
                let [old, new] = [old, new].map(|ends| find_pair(pairs, ends[0].id));
                let between = &pairs[old?..=new?];
                let ids = between.iter().map(|pair| pair.commit.id).collect();
                let keys = between.iter().filter_map(|pair| Some((pair.commit.id, pair.keys()?)));
                Plan::in_line(ids, keys.collect(), direction)
            }
        }
    }

    /// The same between `good` and `bad`. If the bad ends come before the good ones, the search is for the repair.
    pub(super) fn plan_claimed(
        &self,
        good: &[Commit],
        bad: &[Commit],
    ) -> Result<Plan, BisectError> {
        match &self.along {
            Along::History(_) => Plan::claimed(self.history, &self.targets, good, bad),
            Along::Environments(environments) => {
                let [good, bad] = [good, bad].map(|ends| environments.index_of(ends[0].id));
                let (good, bad) = (good?, bad?);
                if bad < good {
                    environments.plan(bad, good, Direction::Repairs)
                } else {
                    environments.plan(good, bad, Direction::Breaks)
                }
            }
            Along::Pairs(_) => self.plan_between(good, bad, Direction::Breaks),
        }
    }

    /// The commit with this id, as reports show it.
    pub(super) fn commit(&self, id: CommitId) -> Result<Commit, BisectError> {
        match &self.along {
            Along::History(_) => Ok(self.history.commit(id)?),
            Along::Environments(environments) => {
                Ok(environments.commit(environments.index_of(id)?))
            }
            Along::Pairs(pairs) => Ok(pairs[find_pair(pairs, id)?].commit.clone()),
        }
    }

    /// The sources of `commit` for the fixture at `target`.
    pub(super) fn sources(&self, commit: CommitId, target: usize) -> Result<Sources, BisectError> {
        match &self.along {
            Along::History(environment) => {
                let sources = Sources::read(self.history, commit, &self.targets[target].spec)?;
                Ok(sources.in_environment(environment.as_ref()))
            }
            Along::Environments(environments) => environments.sources(commit, target),
            Along::Pairs(pairs) => Ok(pairs[find_pair(pairs, commit)?].sources[target].clone()),
        }
    }

    /// What `commit` changes.
    pub(super) fn diff(&self, commit: &Commit) -> Result<String, BisectError> {
        match &self.along {
            Along::History(_) => {
                let parent = commit.parents.first();
                let parent = parent.and_then(|&parent| self.history.commit(parent).ok());
                let sources = SearchTarget::join_specs(&self.targets);
                Ok(self.history.diff(parent.as_ref(), commit, &sources)?)
            }
            Along::Environments(environments) => environments.diff(commit.id),
            Along::Pairs(_) => Ok(String::new()),
        }
    }
}
