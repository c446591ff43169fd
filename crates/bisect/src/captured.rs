//! Finds the commits with the captured outputs of a fixture. Captured outputs make no commit good or bad. If
//! even the captured commit does not give them, something besides the inputs is at work.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::probe::Sources;
use super::{BisectError, Bisection, SearchTarget};
use replay_engine::judge::{check_captured, has_captured_bits};
use replay_engine::trial::{Outcome, Status};
use replay_history::{Commit, CommitId};

/// The commits with the captured outputs of a fixture: to the bit or, if there are none, within noise.
#[derive(Clone, Debug)]
pub struct CapturedBy {
    /// The fixture's name.
    pub fixture: String,
    /// The commits with these outputs.
    pub given_by: Vec<Commit>,
    /// The commits with other outputs.
    pub not_by: Vec<Commit>,
    /// The commit of the capture, if it does not give them either: something besides sources and inputs is at work.
    pub lost_at: Option<Commit>,
}

/// A replayed commit.
pub(super) struct ReplayedCommit<'a> {
    pub(super) commit: Commit,
    /// Its variant; an answer holds for all commits of one variant.
    pub(super) variant: u32,
    /// The outcome of its replay.
    pub(super) outcome: &'a Outcome,
    /// Whether elements may be compared if no commit gives the captured bits.
    pub(super) compared: bool,
}

/// Sorts `replayed` by the captured outputs of `target`; none if it holds none.
pub(super) fn find_captured(
    bisection: &Bisection<'_>,
    target: &SearchTarget,
    replayed: &[ReplayedCommit<'_>],
) -> Result<Option<CapturedBy>, BisectError> {
    let fixture = &target.subject.fixture;
    if fixture.captured.is_empty() {
        return Ok(None);
    }
    let mut captured_by = CapturedBy {
        fixture: fixture.name.clone(),
        given_by: Vec::new(),
        not_by: Vec::new(),
        lost_at: None,
    };
    let completed: Vec<&ReplayedCommit> =
        replayed.iter().filter(|replay| replay.outcome.status == Status::Completed).collect();
    let exact: HashSet<u32> = completed
        .iter()
        .filter(|replay| has_captured_bits(fixture, replay.outcome))
        .map(|replay| replay.variant)
        .collect();
    let mut gives_by_variant: HashMap<u32, bool> = HashMap::new();
    for replay in completed {
        let gives_bits = match gives_by_variant.get(&replay.variant) {
            Some(gives) => *gives,
            None if !exact.is_empty() => exact.contains(&replay.variant),
            None if !replay.compared => continue,
            None => match gives_captured(bisection, target, replay.commit.id)? {
                Some(gives) => gives,
                None => continue,
            },
        };
        gives_by_variant.insert(replay.variant, gives_bits);
        let list = if gives_bits { &mut captured_by.given_by } else { &mut captured_by.not_by };
        list.push(replay.commit.clone());
    }
    if captured_by.given_by.is_empty() {
        captured_by.lost_at = captured_commit(bisection, target)?;
    }
    Ok(Some(captured_by))
}

/// The commit of the capture of `target`, if its sources do not give the captured outputs.
fn captured_commit(
    bisection: &Bisection<'_>,
    target: &SearchTarget,
) -> Result<Option<Commit>, BisectError> {
    let provenance = &target.subject.fixture.provenance;
    if !bisection.along.is_plain_history() {
        return Ok(None);
    }
    let is_clean = provenance.dirty.as_deref() != Some("true");
    let Some(named_commit) = provenance.commit.as_ref().filter(|_| is_clean) else {
        return Ok(None);
    };
    let Ok(commit) = bisection.history.resolve(named_commit) else { return Ok(None) };
    let gives_bits = gives_captured(bisection, target, CommitId::from(&commit))?;
    Ok((gives_bits == Some(false)).then_some(commit))
}

/// Whether the sources of `commit` give the captured outputs of `target` within noise; none if they cannot be
/// replayed to their end.
fn gives_captured(
    bisection: &Bisection<'_>,
    target: &SearchTarget,
    commit: CommitId,
) -> Result<Option<bool>, BisectError> {
    let index = bisection.targets.iter().position(|one| Arc::ptr_eq(&one.subject, &target.subject));
    let index = index.expect("the search has this target");
    let Sources::Found(sources) = bisection.sources(commit, index)? else {
        return Ok(None);
    };
    let checks = check_captured(&bisection.lab.placed_trial(&target.subject, &sources))?;
    let worst = checks.iter().map(|check| check.verdict).max();
    Ok(worst.map(|worst| worst.agrees()))
}
