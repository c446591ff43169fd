//! Tests one commit on every fixture, against the good side. Knows sources, not commits.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::symptom::{self, On, Symptom};
use crate::bisect::Answer;
use crate::history::SourceSet;
use crate::judge::{Judgement, Verdict};
use crate::replay::{Failure, Outcome, ReplayError, Replayer, Status, Subject};

/// The sources of a commit for one fixture, or why it has none.
pub(super) type Sources = Result<Arc<SourceSet>, String>;

/// What the test of a commit showed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// One for each fixture, in their order.
    pub sights: Vec<Sight>,
}

/// What one fixture showed.
#[derive(Clone, Debug, Serialize)]
pub struct Sight {
    /// The fixture's name.
    pub fixture: String,
    /// What the replay gave; none if the commit lacks the sources.
    pub outcome: Option<Outcome>,
    /// The comparison with the good side, where one was needed.
    pub judgement: Option<Judgement>,
    /// What is wrong.
    pub symptoms: BTreeSet<Symptom>,
    /// Why it could not be tested.
    pub untestable: Option<String>,
    /// In a word.
    pub verdict: Verdict,
}

impl Seen {
    /// Everything that is wrong.
    pub fn symptoms(&self) -> BTreeSet<Symptom> {
        self.sights.iter().flat_map(|sight| sight.symptoms.iter().cloned()).collect()
    }

    /// Why it could not be tested, if so.
    pub fn untestable(&self) -> Option<&str> {
        self.sights.iter().find_map(|sight| sight.untestable.as_deref())
    }

    /// The worst verdict of any fixture.
    pub fn verdict(&self) -> Verdict {
        self.sights.iter().map(|sight| sight.verdict).max().unwrap_or(Verdict::Identical)
    }

    /// What this means to a search for `wanted`.
    pub fn answer(&self, wanted: &BTreeSet<Symptom>) -> Answer {
        symptom::answer(&self.symptoms(), self.untestable().is_some(), wanted)
    }

    /// Whether a replay ran out of time, which says as much about the machine as about the code.
    pub(super) fn timed_out(&self) -> bool {
        let timeout = |failure: &Failure| matches!(failure, Failure::Timeout { .. });
        let outcomes = self.sights.iter().filter_map(|sight| sight.outcome.as_ref());
        outcomes.into_iter().any(|outcome| {
            matches!(&outcome.status, Status::Failed(failures) if failures.iter().any(timeout))
        })
    }

    /// Whether two identical replays differed in an output.
    pub(super) fn is_unsteady(&self) -> bool {
        let judged = self.sights.iter().filter_map(|sight| sight.judgement.as_ref());
        judged.flat_map(|judgement| &judgement.outputs).any(|o| o.nondeterminism.is_some())
    }
}

/// Tests commits on one fixture.
pub(super) struct Probe {
    subject: Arc<Subject>,
    on: On,
    base: Sources,
    /// A commit whose symptoms are known, so that one with the same bits needs no judgement.
    known: OnceLock<(Outcome, BTreeSet<Symptom>)>,
}

impl Probe {
    pub fn new(subject: Arc<Subject>, on: On, base: Sources) -> Probe {
        Probe { subject, on, base, known: OnceLock::new() }
    }

    /// Remembers what the bad end showed.
    pub fn learn(&self, sight: &Sight) {
        if let Some(outcome) = &sight.outcome {
            // Of several bad ends the first will do.
            let _ = self.known.set((outcome.clone(), sight.symptoms.clone()));
        }
    }

    /// Tests `sources`; compares elements only where the bits leave the verdict open.
    pub fn test(&self, replayer: &Replayer, sources: &Sources) -> Result<Sight, ReplayError> {
        let sources = match sources {
            Ok(sources) => sources,
            Err(reason) => return Ok(self.untestable(None, reason.clone())),
        };
        let outcome = replayer.replay(&self.subject, sources)?;
        match &outcome.status {
            Status::Untestable { reason, causes, .. } => {
                let reason = causes.iter().fold(reason.clone(), |text, cause| text + ": " + cause);
                Ok(self.untestable(Some(outcome.clone()), reason))
            }
            Status::Failed(_) => {
                let symptoms = symptom::of_failures(self.name(), &outcome);
                Ok(self.sight(outcome, None, symptoms, Verdict::Failed))
            }
            Status::Completed => self.completed(replayer, sources, outcome),
        }
    }

    /// Tests `sources` and compares elements in any case.
    pub fn judge(&self, replayer: &Replayer, sources: &Sources) -> Result<Sight, ReplayError> {
        let mut sight = self.test(replayer, sources)?;
        if let (None, Ok(sources), Ok(base)) = (&sight.judgement, sources, &self.base)
            && sight.untestable.is_none()
        {
            let judgement = replayer.judge(&self.subject, base, sources)?;
            sight.verdict = judgement.verdict;
            sight.judgement = Some(judgement);
        }
        Ok(sight)
    }

    fn completed(
        &self,
        replayer: &Replayer,
        sources: &SourceSet,
        outcome: Outcome,
    ) -> Result<Sight, ReplayError> {
        if self.on == On::Failed {
            return Ok(self.sight(outcome, None, BTreeSet::new(), Verdict::Equivalent));
        }
        let base = match &self.base {
            Ok(base) => base,
            Err(reason) => {
                let reason = format!("there is nothing to compare with: {reason}");
                return Ok(self.untestable(Some(outcome), reason));
            }
        };
        let trusted = replayer.replay(&self.subject, base)?;
        if symptom::same_bits(&trusted, &outcome) {
            return Ok(self.sight(outcome, None, BTreeSet::new(), Verdict::Identical));
        }
        if self.on == On::Bits {
            let symptoms = symptom::of_bits(self.name(), &trusted, &outcome);
            return Ok(self.sight(outcome, None, symptoms, Verdict::Diverged));
        }
        if let Some((bad, symptoms)) = self.known.get()
            && !symptoms.is_empty()
            && symptom::same_bits(bad, &outcome)
        {
            return Ok(self.sight(outcome, None, symptoms.clone(), Verdict::Diverged));
        }
        let judgement = replayer.judge(&self.subject, base, sources)?;
        let symptoms = symptom::of_judgement(self.name(), self.on, &judgement);
        let verdict = judgement.verdict;
        Ok(self.sight(outcome, Some(judgement), symptoms, verdict))
    }

    /// Whether replaying `sources` again gives what `sight` shows.
    pub fn comes_out_the_same(
        &self,
        repeater: &Replayer,
        sources: &Sources,
        sight: &Sight,
    ) -> Result<bool, ReplayError> {
        let (Ok(sources), Some(before)) = (sources, &sight.outcome) else { return Ok(true) };
        if sight.untestable.is_some() {
            return Ok(true);
        }
        let again = repeater.replay(&self.subject, sources)?;
        if symptom::of_failures("", before) != symptom::of_failures("", &again) {
            return Ok(false);
        }
        if before.status != Status::Completed || symptom::same_bits(before, &again) {
            return Ok(true);
        }
        Ok(self.test(repeater, &Ok(sources.clone()))?.symptoms == sight.symptoms)
    }

    pub fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    fn name(&self) -> &str {
        &self.subject.fixture.name
    }

    fn sight(
        &self,
        outcome: Outcome,
        judgement: Option<Judgement>,
        symptoms: BTreeSet<Symptom>,
        verdict: Verdict,
    ) -> Sight {
        let fixture = self.name().to_owned();
        let outcome = Some(outcome);
        Sight { fixture, outcome, judgement, symptoms, untestable: None, verdict }
    }

    fn untestable(&self, outcome: Option<Outcome>, reason: String) -> Sight {
        Sight {
            fixture: self.name().to_owned(),
            outcome,
            judgement: None,
            symptoms: BTreeSet::new(),
            untestable: Some(reason),
            verdict: Verdict::Untestable,
        }
    }
}
