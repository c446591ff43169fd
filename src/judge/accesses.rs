//! Wrong accesses to memory, and which of them are new.

use crate::backend::{Ability, ReplayError};
use crate::runtime::report::AccessFinding;
use crate::trial::{AccessCheck, CheckedReplay, Trial};

/// A checked replay, and that of the trusted side.
#[derive(Clone, Debug, PartialEq)]
pub struct Accesses {
    /// The replay under test.
    pub checked: CheckedReplay,
    /// The replay of the trusted side; none if there is no such side, or nothing to compare.
    pub base: Option<CheckedReplay>,
}

impl Accesses {
    /// The findings, each with whether the trusted side has it as well.
    pub fn findings(&self) -> impl Iterator<Item = (&AccessFinding, bool)> {
        let base = self.base.as_ref().map_or(&[][..], CheckedReplay::findings);
        let is_known =
            |finding: &AccessFinding| base.iter().any(|base_finding| finding.is_like(base_finding));
        self.checked.findings().iter().map(move |finding| (finding, is_known(finding)))
    }

    /// The findings that are failures and that the trusted side does not have.
    pub fn failures(&self) -> impl Iterator<Item = &AccessFinding> {
        self.findings()
            .filter(|(finding, is_known)| finding.is_failure() && !is_known)
            .map(|(finding, _)| finding)
    }

    /// What speaks against the trusted side alone.
    pub fn resolved_findings(&self) -> impl Iterator<Item = &AccessFinding> {
        let own_findings = self.checked.findings();
        let base = self.base.iter().flat_map(CheckedReplay::findings);
        let is_gone = |finding: &&AccessFinding| {
            finding.is_failure()
                && !own_findings.iter().any(|own_finding| own_finding.is_like(finding))
        };
        base.filter(is_gone)
    }

    /// Whether something speaks against the code.
    pub fn has_new(&self) -> bool {
        self.failures().next().is_some()
    }

    /// Whether something speaks against the trusted side alone.
    pub fn has_gone(&self) -> bool {
        self.resolved_findings().next().is_some()
    }

    /// Why accesses were not checked, if so.
    pub fn reason(&self) -> Option<String> {
        let not = |replay: &CheckedReplay| match replay {
            CheckedReplay::Not { reason } => Some(reason.clone()),
            CheckedReplay::Done { .. } => None,
        };
        let base = || {
            not(self.base.as_ref()?).map(|base_reason| format!("at the trusted side {base_reason}"))
        };
        not(&self.checked).or_else(base)
    }

    /// How many findings were left out.
    pub fn left_out(&self) -> u64 {
        match self.checked {
            CheckedReplay::Done { left_out, .. } => left_out,
            CheckedReplay::Not { .. } => 0,
        }
    }
}

/// The wrong accesses of `trial` beside those of `base`, which is trusted. None if accesses are not to
/// be checked, if there are no threads whose accesses could be told, or if the call does not return.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn check_trial_accesses(
    trial: &Trial,
    base: Option<&Trial>,
    check: AccessCheck,
) -> Result<Option<Accesses>, ReplayError> {
    // Where nothing was found there is nothing to hold beside.
    check_accesses_beside(trial, base, check, |replay| !replay.findings().is_empty())
}

/// The same, with what the trusted side does even where `trial` does nothing wrong: to see what is gone.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn check_accesses_on_both(
    trial: &Trial,
    base: &Trial,
    check: AccessCheck,
) -> Result<Option<Accesses>, ReplayError> {
    check_accesses_beside(trial, Some(base), check, |_| true)
}

/// The wrong accesses of `trial`, beside those of `base` if what was found wants them.
fn check_accesses_beside(
    trial: &Trial,
    base: Option<&Trial>,
    check: AccessCheck,
    wants_base: impl Fn(&CheckedReplay) -> bool,
) -> Result<Option<Accesses>, ReplayError> {
    // Without threads there are no accesses that could be told.
    if trial.variant()?.is_some_and(|variant| !variant.for_noise().can(Ability::Order)) {
        return Ok(None);
    }
    let Some(checked) = check.check_trial(trial)? else { return Ok(None) };
    let base = match base.filter(|_| wants_base(&checked)) {
        Some(base) => check.check_trial(base)?,
        None => None,
    };
    Ok(Some(Accesses { checked, base }))
}
