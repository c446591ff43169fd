//! The meaning of a comparison with a recorded snapshot to a search. A snapshot tells whether the float64
//! shadow moved, but not whether an output came closer to it: that counts as changed.

use std::collections::BTreeSet;

use super::symptom::{On, Symptom};
use crate::judge::Verdict;
use crate::snapshot::{OutputChange, SnapshotComparison, SnapshotVerdict};
use crate::trial::Outcome;

/// The verdict, in the terms of a comparison of two revisions.
pub(super) fn verdict_from_snapshot(comparison: &SnapshotComparison) -> Verdict {
    match comparison.verdict {
        SnapshotVerdict::Matches => Verdict::Identical,
        SnapshotVerdict::Equivalent => Verdict::Equivalent,
        SnapshotVerdict::New | SnapshotVerdict::Missing | SnapshotVerdict::Stale => {
            Verdict::Untestable
        }
        SnapshotVerdict::Diverged => Verdict::Diverged,
    }
}

/// The outputs of a completed replay that differ from the recorded ones.
pub(super) fn symptoms_from_snapshot(
    fixture: &str,
    on: On,
    comparison: &SnapshotComparison,
    outcome: &Outcome,
) -> BTreeSet<Symptom> {
    let symptom = |output: &str| {
        let fixture = fixture.to_owned();
        let output = output.to_owned();
        match on {
            On::Bits => Symptom::Bits { fixture, output },
            _ => Symptom::Diverged { fixture, output },
        }
    };
    // The recorded replay failed: every output is new.
    if comparison.ending.is_some() {
        return outcome.outputs.iter().map(|output| symptom(&output.name)).collect();
    }
    let shifted = |change: &&OutputChange| {
        let is_less = change.verdict == SnapshotVerdict::Equivalent;
        on == On::Changed && is_less && change.shadow.is_some_and(|shadow| shadow.changed)
    };
    let counts = |verdict| on == On::Bits || verdict == SnapshotVerdict::Diverged;
    let changes = comparison.changes.iter().filter(|change| counts(change.verdict));
    let shifts = comparison.changes.iter().filter(shifted).map(|change| Symptom::Shifted {
        fixture: fixture.to_owned(),
        output: change.name.clone(),
    });
    changes.map(|change| symptom(&change.name)).chain(shifts).collect()
}
