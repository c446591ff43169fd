//! The replay of a variant, as a log needs it, and whether two of them are alike.

use std::collections::BTreeSet;

use super::probe::{collect_checksums, describe_misfit};
use super::symptom::same_bits;
use replay_engine::backend::ReplayError;
use replay_engine::judge::{Accesses, TrustedReplay, check_orders};
use replay_engine::trial::{AccessCheck, CheckedReplay, Failure, Outcome, Status, Trial};

/// The replay of a variant.
#[derive(Clone)]
pub(super) struct VariantReplay {
    pub outcome: Outcome,
    /// The outputs with a dependence on the order of blocks and threads.
    pub ordered: Vec<String>,
    /// Its checked replay, if accesses are to be checked.
    pub checked: Option<CheckedReplay>,
}

impl VariantReplay {
    /// Replays `trial`, in other orders too, and checks its accesses if `check` says so.
    pub(super) fn from_trial(
        trial: &Trial,
        check: AccessCheck,
    ) -> Result<VariantReplay, ReplayError> {
        let ordered = check_orders(trial)?
            .dependences
            .into_iter()
            .map(|dependence| dependence.output)
            .collect();
        Ok(VariantReplay {
            outcome: trial.outcome()?.clone(),
            ordered,
            checked: check.check_trial(trial)?,
        })
    }

    /// The replay of `trial`, or why it cannot be tested.
    pub(super) fn attempt(trial: &Trial, check: AccessCheck) -> Result<Attempt, ReplayError> {
        match VariantReplay::from_trial(trial, check) {
            Err(error) if error.lacks_module() => Ok(Attempt::LacksModule(error)),
            replayed => Ok(Attempt::Replayed(replayed?.if_testable())),
        }
    }

    /// A hash of the replay. Equal ones count as unchanged.
    pub(super) fn fingerprint(&self) -> String {
        let outputs: Vec<_> =
            self.outcome.outputs.iter().map(|o| (&o.name, o.summary.checksum)).collect();
        let described =
            format!("{:?}", (&self.ordered, &self.outcome.status, outputs, &self.checked));
        blake3::hash(described.as_bytes()).to_hex()[..40].to_owned()
    }

    /// Its accesses beside those of `base`, if both were checked.
    pub(super) fn accesses(&self, base: &VariantReplay) -> Option<Accesses> {
        let trusted = TrustedReplay::Checked(base.checked.clone()?);
        let accesses = Accesses::new(self.checked.clone()?, trusted);
        accesses.unchecked.is_none().then_some(accesses)
    }

    pub(super) fn has_output(&self, name: &str) -> bool {
        self.outcome.outputs.iter().any(|output| output.name == name)
    }

    /// Itself, or why it could not be tested.
    fn if_testable(self) -> Result<VariantReplay, String> {
        match (&self.outcome.status, self.outcome.call_misfit()) {
            (Status::Untestable { reason, .. }, _) => Err(reason.clone()),
            (_, Some(misfit)) => Err(describe_misfit(misfit)),
            _ => Ok(self),
        }
    }
}

/// What became of the replay of a variant.
pub(super) enum Attempt {
    /// Itself, or why it could not be tested.
    Replayed(Result<VariantReplay, String>),
    /// It imports what this machine lacks: it cannot be tested if another one can.
    LacksModule(ReplayError),
}

/// Whether two replays end alike, have the same bits, depend on the order in the same outputs, and do the
/// same wrong with memory.
pub(super) fn is_unchanged_replay(before: &VariantReplay, after: &VariantReplay) -> bool {
    before.ordered == after.ordered
        && same_ending(&before.outcome, &after.outcome)
        && accesses_agree(before, after)
}

/// Whether nothing is known to be wrong with the accesses of one replay alone.
pub(super) fn accesses_agree(before: &VariantReplay, after: &VariantReplay) -> bool {
    match after.accesses(before) {
        Some(accesses) => !accesses.has_failures() && accesses.gone.is_empty(),
        None => true,
    }
}

fn same_ending(before: &Outcome, after: &Outcome) -> bool {
    same_bits(before, after)
        || (before.status != Status::Completed
            && failure_kinds(before) == failure_kinds(after)
            && collect_checksums(before) == collect_checksums(after))
}

fn failure_kinds(outcome: &Outcome) -> BTreeSet<&'static str> {
    match &outcome.status {
        Status::Failed(failures) => failures.iter().map(Failure::kind).collect(),
        Status::Completed | Status::Untestable { .. } => BTreeSet::new(),
    }
}
