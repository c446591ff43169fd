//! What a comparison with a recorded snapshot means to a search. There is no float64 truth in a
//! snapshot, so that what is closer to the truth counts as changed.

use std::collections::BTreeSet;

use super::symptom::{On, Symptom};
use crate::judge::Verdict;
use crate::snapshot::{Comparison, SnapshotVerdict};
use crate::trial::Outcome;

/// The verdict in the words of a comparison of two revisions.
pub(super) fn verdict(comparison: &Comparison) -> Verdict {
    match comparison.verdict {
        SnapshotVerdict::Matches => Verdict::Identical,
        SnapshotVerdict::Equivalent => Verdict::Equivalent,
        SnapshotVerdict::New | SnapshotVerdict::Missing | SnapshotVerdict::Stale => {
            Verdict::Untestable
        }
        SnapshotVerdict::Diverged => Verdict::Diverged,
    }
}

/// The outputs of a completed replay that are not as they were recorded.
pub(super) fn symptoms(
    fixture: &str,
    on: On,
    comparison: &Comparison,
    outcome: &Outcome,
) -> BTreeSet<Symptom> {
    let symptom = |output: &str| {
        let (fixture, output) = (fixture.to_owned(), output.to_owned());
        match on {
            On::Bits => Symptom::Bits { fixture, output },
            _ => Symptom::Diverged { fixture, output },
        }
    };
    // What was recorded is a failure: every output is new.
    if comparison.ending.is_some() {
        return outcome.outputs.iter().map(|output| symptom(&output.name)).collect();
    }
    let counts = |verdict| on == On::Bits || verdict == SnapshotVerdict::Diverged;
    let changes = comparison.changes.iter().filter(|change| counts(change.verdict));
    changes.map(|change| symptom(&change.name)).collect()
}
