//! Wrong accesses to memory, each with how it stands beside the trusted side.

use std::fmt;

use crate::backend::{Ability, ReplayError, Variant};
use crate::trial::{AccessCheck, CheckedReplay, Trial};
use replay_runtime::report::AccessFinding;

/// A checked replay beside the trusted side's.
#[derive(Clone, Debug, PartialEq)]
pub struct Accesses {
    /// The findings, in the order of the replay.
    pub findings: Vec<JudgedAccess>,
    /// The number of findings beyond those.
    pub left_out: u64,
    /// The failures of the trusted side alone.
    pub gone: Vec<AccessFinding>,
    /// The side whose accesses were not checked, if there is one.
    pub unchecked: Option<UncheckedSide>,
}

/// A finding, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedAccess {
    /// The finding.
    pub finding: AccessFinding,
    /// How it stands.
    pub story: AccessStory,
}

/// How a finding of a checked replay stands. Made once, from the replays of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessStory {
    /// A failure of the side under test alone.
    New,
    /// A failure of both sides.
    Known,
    /// A failure, and there is no trusted side.
    Alone,
    /// A failure, and the accesses of the trusted side were not checked.
    NotCompared,
    /// A harmless habit.
    Habit {
        /// Whether the trusted side has it too.
        is_known: bool,
    },
}

impl AccessStory {
    fn new(finding: &AccessFinding, trusted: &TrustedReplay) -> AccessStory {
        let findings = trusted.findings();
        let is_known = findings.iter().any(|trusted_finding| finding.is_like(trusted_finding));
        if !finding.is_failure() {
            return AccessStory::Habit { is_known };
        }
        match trusted {
            TrustedReplay::Absent => AccessStory::Alone,
            TrustedReplay::Endless | TrustedReplay::Checked(CheckedReplay::Not { .. }) => {
                AccessStory::NotCompared
            }
            TrustedReplay::Checked(CheckedReplay::Done { .. }) if is_known => AccessStory::Known,
            TrustedReplay::Checked(CheckedReplay::Done { .. }) => AccessStory::New,
        }
    }

    /// Whether it speaks against the code under test.
    pub fn is_failure(self) -> bool {
        match self {
            AccessStory::New | AccessStory::Alone | AccessStory::NotCompared => true,
            AccessStory::Known | AccessStory::Habit { .. } => false,
        }
    }

    /// Whether the trusted side is known to have it too.
    pub fn is_on_both_sides(self) -> bool {
        match self {
            AccessStory::Known => true,
            AccessStory::Habit { is_known } => is_known,
            AccessStory::New | AccessStory::Alone | AccessStory::NotCompared => false,
        }
    }
}

/// The side whose accesses were not checked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UncheckedSide {
    /// The side under test.
    Own {
        /// Why they were not.
        reason: String,
    },
    /// The trusted side.
    Trusted {
        /// Why they were not.
        reason: String,
    },
}

impl fmt::Display for UncheckedSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UncheckedSide::Own { reason } => f.write_str(reason),
            UncheckedSide::Trusted { reason } => write!(f, "at the trusted side {reason}"),
        }
    }
}

/// The checked replay of the trusted side.
pub enum TrustedReplay {
    /// There is no trusted side, or nothing to hold beside it.
    Absent,
    /// The call of the trusted side does not return.
    Endless,
    /// The trusted side was to be checked.
    Checked(CheckedReplay),
}

impl TrustedReplay {
    fn findings(&self) -> &[AccessFinding] {
        match self {
            TrustedReplay::Checked(replay) => replay.findings(),
            TrustedReplay::Absent | TrustedReplay::Endless => &[],
        }
    }
}

impl Accesses {
    /// Judges the findings of `checked` by those of `trusted`.
    pub fn new(checked: CheckedReplay, trusted: TrustedReplay) -> Accesses {
        let (findings, left_out) = match checked {
            CheckedReplay::Done { findings, left_out } => (findings, left_out),
            CheckedReplay::Not { reason } => {
                let unchecked = Some(UncheckedSide::Own { reason });
                return Accesses { findings: Vec::new(), left_out: 0, gone: Vec::new(), unchecked };
            }
        };
        let gone = trusted.findings().iter().filter(|trusted_finding| {
            trusted_finding.is_failure()
                && !findings.iter().any(|finding| finding.is_like(trusted_finding))
        });
        let gone = gone.cloned().collect();
        let judged_findings = findings
            .into_iter()
            .map(|finding| JudgedAccess { story: AccessStory::new(&finding, &trusted), finding });
        let findings = judged_findings.collect();
        let unchecked = match trusted {
            TrustedReplay::Checked(CheckedReplay::Not { reason }) => {
                Some(UncheckedSide::Trusted { reason })
            }
            TrustedReplay::Checked(CheckedReplay::Done { .. })
            | TrustedReplay::Absent
            | TrustedReplay::Endless => None,
        };
        Accesses { findings, left_out, gone, unchecked }
    }

    /// The findings against the code under test.
    pub fn failures(&self) -> impl Iterator<Item = &AccessFinding> {
        let failures = self.findings.iter().filter(|judged| judged.story.is_failure());
        failures.map(|judged| &judged.finding)
    }

    /// Whether something speaks against the code under test.
    pub fn has_failures(&self) -> bool {
        self.failures().next().is_some()
    }
}

/// The wrong accesses of `trial` beside those of `base`, the trusted side. None if accesses are not to be
/// checked, if the call does not return, or for a program unless they are checked always.
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

/// The same, with the trusted side checked even where nothing is wrong with `trial`: this shows the findings gone.
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

/// The wrong accesses of `trial`, beside those of `base` if the replay of `trial` wants them.
fn check_accesses_beside(
    trial: &Trial,
    base: Option<&Trial>,
    check: AccessCheck,
    wants_base: impl Fn(&CheckedReplay) -> bool,
) -> Result<Option<Accesses>, ReplayError> {
    // A program is checked where this is asked for: its call takes longer than a check in passing may.
    let is_program = trial.fixture().harness.program.is_some();
    let has_threads = |variant: &dyn Variant| variant.for_noise().can(Ability::Order);
    let is_checked_in_passing = !is_program && trial.variant()?.is_none_or(has_threads);
    if check == AccessCheck::Auto && !is_checked_in_passing {
        return Ok(None);
    }
    let Some(checked) = check.check_trial(trial)? else { return Ok(None) };
    let trusted = match base.filter(|_| wants_base(&checked)) {
        Some(base) => match check.check_trial(base)? {
            Some(replay) => TrustedReplay::Checked(replay),
            None => TrustedReplay::Endless,
        },
        None => TrustedReplay::Absent,
    };
    Ok(Some(Accesses::new(checked, trusted)))
}
