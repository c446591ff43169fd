//! Whether a set of hunks moves the outputs as the whole commit does. Half of a change may make another error.

use std::cell::RefCell;
use std::collections::HashMap;

use super::super::BisectError;
use super::super::probe::{Base, CommitProbe, GoodSide, Observation, Seen, TestEffort};
use super::super::symptom::{On, Symptom};
use super::HunkTests;
use replay_base::summary::Checksum;
use replay_numerics::compare::{Agreement, Comparison};
use replay_search::ChangeSet;

/// The part of the commit's move by which a set may miss its outputs, beyond noise, and still make the same change.
const MOST_MISSED: f64 = 0.1;

/// The outputs of the commit that the search is for.
pub(super) struct WholeChange<'a> {
    tests: &'a HunkTests<'a>,
    /// What the commit itself shows.
    commit: Seen,
    /// For each fixture: compares with the commit, not with the good side.
    probes: Vec<CommitProbe>,
    /// By fixture: the parent beside the commit. Few commits need it.
    parents: RefCell<HashMap<usize, Observation>>,
}

impl<'a> WholeChange<'a> {
    pub(super) fn of_commit(tests: &'a HunkTests<'a>) -> WholeChange<'a> {
        let bisection = tests.planned.bisection;
        let probes = bisection.targets.iter().zip(&tests.after).map(|(target, after)| {
            let base = Base::Sources(tests.place_sources((**after).clone()));
            let good_side = GoodSide { base, name: "the commit".into() };
            CommitProbe::new(&bisection.lab, target.subject.clone(), On::Changed, good_side, None)
        });
        WholeChange {
            tests,
            commit: tests.shown_by_culprit(),
            probes: probes.collect(),
            parents: RefCell::default(),
        }
    }

    /// Whether the parent with the hunks of `set`, whose test is `seen`, gives the commit's outputs: the same bits, within
    /// noise, or off by a small part of the commit's move.
    pub(super) fn is_made_by(&self, set: &ChangeSet, seen: &Seen) -> Result<bool, BisectError> {
        for target in 0..self.probes.len() {
            let mut outputs = self.list_wanted_outputs(target);
            outputs.retain(|output| {
                let checksum = find_checksum(seen, target, output);
                checksum.is_none() || checksum != find_checksum(&self.commit, target, output)
            });
            if outputs.is_empty() {
                continue;
            }
            let observation = self.compare_with_commit(target, set)?;
            for output in outputs {
                let Some(comparison) = find_comparison(&observation, output) else {
                    return Ok(false);
                };
                let is_within_noise = comparison.agreement != Agreement::Diverged;
                if !is_within_noise && !self.is_slight(target, output, comparison)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether `comparison` with the commit is a small part of what the commit moves `output` from its parent.
    fn is_slight(
        &self,
        target: usize,
        output: &str,
        comparison: &Comparison,
    ) -> Result<bool, BisectError> {
        if !self.parents.borrow().contains_key(&target) {
            let parent = self.compare_with_commit(target, &ChangeSet::new())?;
            self.parents.borrow_mut().insert(target, parent);
        }
        let parents = self.parents.borrow();
        let moved = parents.get(&target).and_then(|parent| find_comparison(parent, output));
        // Both are relative to the commit's norm.
        Ok(moved.is_some_and(|moved| comparison.relative_l2 <= MOST_MISSED * moved.relative_l2))
    }

    /// The outputs of fixture number `target` whose values the search is for.
    fn list_wanted_outputs(&self, target: usize) -> Vec<&str> {
        let fixture = &self.tests.planned.bisection.targets[target].subject.fixture.name;
        let mut outputs = Vec::new();
        for symptom in &self.tests.report.wanted {
            if let Symptom::Diverged { output, .. }
            | Symptom::Mismatch { output, .. }
            | Symptom::Imprecise { output, .. } = symptom
                && symptom.fixture() == fixture
                && !outputs.contains(&output.as_str())
            {
                outputs.push(output.as_str());
            }
        }
        outputs
    }

    /// The parent with the hunks of `set`, beside the commit.
    fn compare_with_commit(
        &self,
        target: usize,
        set: &ChangeSet,
    ) -> Result<Observation, BisectError> {
        let planned = self.tests.planned;
        let effort = TestEffort { orders: false, ..planned.effort() };
        let sources = self.tests.set_sources(set);
        self.probes[target]
            .judge(&planned.bisection.lab, &sources[target], effort)
            .map_err(BisectError::Replay)
    }
}

fn find_comparison<'o>(observation: &'o Observation, output: &str) -> Option<&'o Comparison> {
    let outputs = &observation.judgement.as_ref()?.outputs;
    Some(&outputs.iter().find(|judged| judged.name == output)?.comparison)
}

fn find_checksum(seen: &Seen, target: usize, output: &str) -> Option<Checksum> {
    let outcome = seen.observations.get(target)?.outcome.as_ref()?;
    let output = outcome.outputs.iter().find(|candidate| candidate.name == output)?;
    Some(output.summary.checksum)
}
