//! The meaning of a comparison with a recorded snapshot to a search. A snapshot shows a moved float64 shadow,
//! but not whether an output came closer to it: any move counts as a change.

use std::collections::BTreeSet;

use super::symptom::{On, Symptom};
use replay_engine::judge::Verdict;
use replay_engine::trial::Outcome;
use replay_snapshot::{SnapshotComparison, SnapshotVerdict};

/// The verdict, in the terms of a comparison of two revisions.
pub(super) fn verdict_from_snapshot(comparison: &SnapshotComparison) -> Verdict {
    match comparison.verdict {
        SnapshotVerdict::Matches => Verdict::Identical,
        SnapshotVerdict::Equivalent => Verdict::Equivalent,
        SnapshotVerdict::Unchecked => Verdict::Unchecked,
        SnapshotVerdict::New | SnapshotVerdict::Missing | SnapshotVerdict::Stale => {
            Verdict::Untestable
        }
        SnapshotVerdict::Diverged => Verdict::Diverged,
    }
}

/// The outputs of a completed replay with other values than recorded.
pub(super) fn symptoms_from_snapshot(
    fixture: &str,
    on: On,
    comparison: &SnapshotComparison,
    outcome: &Outcome,
) -> BTreeSet<Symptom> {
    // The recorded replay failed: every output is new.
    if comparison.ending.is_some() {
        let outputs = outcome.outputs.iter();
        return outputs.map(|output| symptom_of_moved_output(fixture, on, &output.name)).collect();
    }
    let mut symptoms = BTreeSet::new();
    for change in &comparison.changes {
        if on == On::Bits || change.verdict == SnapshotVerdict::Diverged {
            symptoms.insert(symptom_of_moved_output(fixture, on, &change.name));
        }
        let has_shifted = change.verdict == SnapshotVerdict::Equivalent
            && change.shadow.is_some_and(|shadow| shadow.changed);
        if on == On::Changed && has_shifted {
            symptoms.insert(Symptom::shifted(fixture, &change.name));
        }
    }
    symptoms
}

fn symptom_of_moved_output(fixture: &str, on: On, output: &str) -> Symptom {
    if on == On::Bits { Symptom::bits(fixture, output) } else { Symptom::diverged(fixture, output) }
}
