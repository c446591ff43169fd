//! The meaning of a comparison with a recorded snapshot to a search. A snapshot holds no float64
//! truth, so that an output that came closer to the truth counts as changed.

use std::collections::BTreeSet;

use super::symptom::{On, Symptom};
use crate::judge::Verdict;
use crate::snapshot::{SnapshotComparison, SnapshotVerdict};
use crate::trial::Outcome;

/// The verdict, in the terms of a comparison of two revisions.
pub(super) fn verdict(comparison: &SnapshotComparison) -> Verdict {
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
pub(super) fn symptoms(
    fixture: &str,
    on: On,
    comparison: &SnapshotComparison,
    outcome: &Outcome,
) -> BTreeSet<Symptom> {
    let symptom = |output: &str| {
        let (fixture, output) = (fixture.to_owned(), output.to_owned());
        match on {
            On::Bits => Symptom::Bits { fixture, output },
            _ => Symptom::Diverged { fixture, output },
        }
    };
    // The recorded replay failed: every output is new.
    if comparison.ending.is_some() {
        return outcome.outputs.iter().map(|output| symptom(&output.name)).collect();
    }
    let counts = |verdict| on == On::Bits || verdict == SnapshotVerdict::Diverged;
    let changes = comparison.changes.iter().filter(|change| counts(change.verdict));
    changes.map(|change| symptom(&change.name)).collect()
}
