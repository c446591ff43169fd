//! Wrong accesses to memory, and which of them are new.

use crate::backend::ReplayError;
use crate::runtime::report::Found;
use crate::trial::{Check, Checked, Trial};

/// A checked replay, and that of the trusted side.
#[derive(Clone, Debug, PartialEq)]
pub struct Accesses {
    /// The replay under test.
    pub checked: Checked,
    /// The replay of the trusted side; none if there is no such side, or nothing to compare.
    pub base: Option<Checked>,
}

impl Accesses {
    /// The findings, each with whether the trusted side has it as well.
    pub fn findings(&self) -> impl Iterator<Item = (&Found, bool)> {
        let base = self.base.as_ref().map_or(&[][..], Checked::findings);
        let is_known = |found: &Found| base.iter().any(|other| found.is_like(other));
        self.checked.findings().iter().map(move |found| (found, is_known(found)))
    }

    /// The findings that are failures and that the trusted side does not have.
    pub fn failures(&self) -> impl Iterator<Item = &Found> {
        self.findings()
            .filter(|(found, known)| found.is_failure() && !known)
            .map(|(found, _)| found)
    }

    /// What speaks against the trusted side alone.
    pub fn gone(&self) -> impl Iterator<Item = &Found> {
        let own = self.checked.findings();
        let base = self.base.iter().flat_map(Checked::findings);
        let is_gone =
            |found: &&Found| found.is_failure() && !own.iter().any(|other| other.is_like(found));
        base.filter(is_gone)
    }

    /// Whether something speaks against the code.
    pub fn has_new(&self) -> bool {
        self.failures().next().is_some()
    }

    /// Whether something speaks against the trusted side alone.
    pub fn has_gone(&self) -> bool {
        self.gone().next().is_some()
    }

    /// Why accesses were not checked, if so.
    pub fn reason(&self) -> Option<String> {
        let not = |checked: &Checked| match checked {
            Checked::Not { reason } => Some(reason.clone()),
            Checked::Done { .. } => None,
        };
        let base = || not(self.base.as_ref()?).map(|why| format!("at the trusted side {why}"));
        not(&self.checked).or_else(base)
    }

    /// How many findings were left out.
    pub fn left_out(&self) -> u64 {
        match self.checked {
            Checked::Done { left_out, .. } => left_out,
            Checked::Not { .. } => 0,
        }
    }
}

/// The wrong accesses of `trial` beside those of `base`, which is trusted. None if accesses are not to
/// be checked, if there are no threads whose accesses could be told, or if the call does not return.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn accesses(
    trial: &Trial,
    base: Option<&Trial>,
    check: Check,
) -> Result<Option<Accesses>, ReplayError> {
    // Where nothing was found there is nothing to hold beside.
    beside(trial, base, check, |checked| !checked.findings().is_empty())
}

/// The same, with what the trusted side does even where `trial` does nothing wrong: to see what is gone.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn accesses_of_both(
    trial: &Trial,
    base: &Trial,
    check: Check,
) -> Result<Option<Accesses>, ReplayError> {
    beside(trial, Some(base), check, |_| true)
}

/// The wrong accesses of `trial`, beside those of `base` if what was found wants them.
fn beside(
    trial: &Trial,
    base: Option<&Trial>,
    check: Check,
    wants_base: impl Fn(&Checked) -> bool,
) -> Result<Option<Accesses>, ReplayError> {
    // Without threads there are no accesses that could be told.
    if trial.variant()?.is_some_and(|variant| !variant.for_noise().abilities().order) {
        return Ok(None);
    }
    let Some(checked) = check.of(trial)? else { return Ok(None) };
    let base = match base.filter(|_| wants_base(&checked)) {
        Some(base) => check.of(base)?,
        None => None,
    };
    Ok(Some(Accesses { checked, base }))
}
