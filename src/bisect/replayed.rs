//! The replay of a variant, as a log needs it, and whether two of them are alike.

use std::collections::BTreeSet;

use super::symptom::same_bits;
use crate::backend::ReplayError;
use crate::judge::{Accesses, orders};
use crate::trial::{Check, Checked, Failure, Outcome, Status, Trial};

/// The replay of a variant.
#[derive(Clone)]
pub(super) struct Replayed {
    pub outcome: Outcome,
    /// The outputs that depend on the order of blocks and threads.
    pub ordered: Vec<String>,
    /// What its accesses to memory do, if they are to be checked.
    pub checked: Option<Checked>,
}

impl Replayed {
    /// Replays `trial`, in other orders too, and checks its accesses if `check` says so.
    pub(super) fn of(trial: &Trial, check: Check) -> Result<Replayed, ReplayError> {
        let ordered = orders(trial)?.into_iter().map(|found| found.output).collect();
        Ok(Replayed { outcome: trial.outcome()?.clone(), ordered, checked: check.of(trial)? })
    }

    /// Names all that two replays must have in common to count as unchanged.
    pub(super) fn fingerprint(&self) -> String {
        let outputs: Vec<_> =
            self.outcome.outputs.iter().map(|o| (&o.name, o.summary.checksum)).collect();
        let all = format!("{:?}", (&self.ordered, &self.outcome.status, outputs, &self.checked));
        blake3::hash(all.as_bytes()).to_hex()[..40].to_owned()
    }

    /// What its accesses do beside those of `base`, if both were checked.
    pub(super) fn accesses(&self, base: &Replayed) -> Option<Accesses> {
        let found = Accesses { checked: self.checked.clone()?, base: Some(base.checked.clone()?) };
        found.reason().is_none().then_some(found)
    }

    pub(super) fn has_output(&self, name: &str) -> bool {
        self.outcome.outputs.iter().any(|output| output.name == name)
    }

    /// Itself, or why it could not be tested.
    pub(super) fn if_testable(self) -> Result<Replayed, String> {
        match &self.outcome.status {
            Status::Untestable { reason, .. } => Err(reason.clone()),
            _ => Ok(self),
        }
    }
}

/// Whether two replays end alike, have the same bits, depend on the order in the same outputs, and do the
/// same wrong with memory.
pub(super) fn unchanged(before: &Replayed, after: &Replayed) -> bool {
    before.ordered == after.ordered
        && same_ending(&before.outcome, &after.outcome)
        && accesses_agree(before, after)
}

/// Whether nothing is known to be wrong with the accesses of one replay alone.
pub(super) fn accesses_agree(before: &Replayed, after: &Replayed) -> bool {
    let found = after.accesses(before);
    found.is_none_or(|found| !found.has_new() && !found.has_gone())
}

fn same_ending(before: &Outcome, after: &Outcome) -> bool {
    let kinds = |outcome: &Outcome| -> BTreeSet<&'static str> {
        match &outcome.status {
            Status::Failed(failures) => failures.iter().map(Failure::kind).collect(),
            _ => BTreeSet::new(),
        }
    };
    let checksums = |outcome: &Outcome| -> Vec<_> {
        outcome.outputs.iter().map(|o| (o.name.clone(), o.summary.checksum)).collect()
    };
    same_bits(before, after)
        || (before.status != Status::Completed
            && kinds(before) == kinds(after)
            && checksums(before) == checksums(after))
}
