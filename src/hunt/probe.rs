//! Tests one commit on every fixture, against the good side. Knows sources, not commits.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::recorded;
use super::symptom::{self, On, Symptom};
use crate::bisect::Answer;
use crate::history::SourceSet;
use crate::judge::{Judgement, OutputJudgement, Verdict};
use crate::replay::{Failure, Outcome, ReplayError, Replayer, Status, Subject};
use crate::snapshot::{Comparison, Snapshot};
use crate::summary::Checksum;

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
    /// The comparison with a recorded snapshot, where that is the good side and one was needed.
    #[serde(skip)]
    pub recorded: Option<Comparison>,
    /// Whether a comparison stands behind the verdict, of this commit or of one with its bits.
    #[serde(skip)]
    pub compared: bool,
    /// Whether it was replayed in other orders of blocks and threads, where that matters.
    #[serde(skip)]
    pub orders: bool,
    /// Outputs that depend on the order of blocks and threads, as they do at the good side.
    #[serde(skip)]
    pub ordered_alike: Vec<String>,
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

/// The good side on one fixture.
pub(super) enum Base {
    /// Sources that are replayed.
    Sources(Sources),
    /// What was recorded of a replay, and the sources of the first good end: a snapshot does not
    /// tell which outputs depended on the order of blocks and threads.
    Snapshot(Arc<Snapshot>, Sources),
}

/// Tests commits on one fixture.
pub(super) struct Probe {
    subject: Arc<Subject>,
    on: On,
    base: Base,
    /// What was found where the bits were these, so that a commit with the same ones needs no
    /// judgement. Two commits that come at once do not both take one.
    known: Mutex<HashMap<Bits, Arc<Mutex<Option<Known>>>>>,
}

/// The checksums of all outputs.
type Bits = Vec<(String, Checksum)>;

/// What a judgement found.
#[derive(Clone)]
struct Known {
    symptoms: BTreeSet<Symptom>,
    verdict: Verdict,
}

impl Probe {
    pub fn new(subject: Arc<Subject>, on: On, base: Base) -> Probe {
        Probe { subject, on, base, known: Mutex::default() }
    }

    /// Tests `sources`; compares elements only where the bits leave the verdict open, and replays
    /// in other orders of blocks and threads only if `orders` says so.
    pub fn test(
        &self,
        replayer: &Replayer,
        sources: &Sources,
        orders: bool,
    ) -> Result<Sight, ReplayError> {
        let sight = self.values(replayer, sources)?;
        match sources {
            Ok(sources) if orders && self.on.minds_orders() => {
                self.ordered(replayer, sources, sight)
            }
            _ => Ok(Sight { orders, ..sight }),
        }
    }

    /// Adds the outputs that depend on the order of blocks and threads.
    fn ordered(
        &self,
        replayer: &Replayer,
        sources: &SourceSet,
        sight: Sight,
    ) -> Result<Sight, ReplayError> {
        let completed = |outcome: &&Outcome| outcome.status == Status::Completed;
        let mut sight = Sight { orders: true, ..sight };
        let Some(outcome) = sight.outcome.as_ref().filter(completed) else { return Ok(sight) };
        let (Base::Sources(good) | Base::Snapshot(_, good)) = &self.base;
        // Whatever the good end depends on, it is no news there.
        if good.as_ref().is_ok_and(|good| good.id == sources.id) {
            return Ok(sight);
        }
        let found = match &sight.judgement {
            Some(judged) => judged.outputs.iter().filter_map(|o| o.order.clone()).collect(),
            None => replayer.orders(&self.subject, sources, outcome)?,
        };
        if found.is_empty() {
            return Ok(sight);
        }
        let known = match good {
            Ok(good) => {
                let trusted = replayer.replay(&self.subject, good)?;
                match trusted.status {
                    Status::Completed => replayer.orders(&self.subject, good, &trusted)?,
                    _ => Vec::new(),
                }
            }
            Err(_) => Vec::new(),
        };
        let alike = found.iter().filter(|one| known.iter().any(|k| k.output == one.output));
        sight.ordered_alike = alike.map(|one| one.output.clone()).collect();
        let symptoms = symptom::of_orders(self.name(), &found, &known);
        if !symptoms.is_empty() {
            sight.verdict = sight.verdict.max(Verdict::Diverged);
            sight.symptoms.extend(symptoms);
        }
        Ok(sight)
    }

    /// Tests `sources` in the order of the indices.
    fn values(&self, replayer: &Replayer, sources: &Sources) -> Result<Sight, ReplayError> {
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
            status => match (&self.base, status) {
                (Base::Snapshot(snapshot, _), _) => {
                    self.compared(replayer, sources, outcome, snapshot)
                }
                (Base::Sources(base), Status::Completed) => {
                    self.completed(replayer, base, sources, outcome)
                }
                _ => {
                    let symptoms = symptom::of_failures(self.name(), &outcome);
                    Ok(self.sight(outcome, symptoms, Verdict::Failed))
                }
            },
        }
    }

    /// Compares `outcome` with what was recorded; measures noise only where bits differ.
    fn compared(
        &self,
        replayer: &Replayer,
        sources: &SourceSet,
        outcome: Outcome,
        snapshot: &Snapshot,
    ) -> Result<Sight, ReplayError> {
        let (sight, compared) = if snapshot.has_bits_of(&outcome) {
            (self.sight(outcome, BTreeSet::new(), Verdict::Identical), true)
        } else if matches!(outcome.status, Status::Failed(_)) {
            let symptoms = symptom::of_failures(self.name(), &outcome);
            (self.sight(outcome, symptoms, Verdict::Failed), false)
        } else if self.on == On::Failed {
            (self.sight(outcome, BTreeSet::new(), Verdict::Equivalent), false)
        } else {
            let noise = replayer.noise(&self.subject, sources)?;
            let comparison = crate::snapshot::matches(snapshot, &outcome, &noise);
            let symptoms = recorded::symptoms(self.name(), self.on, &comparison, &outcome);
            let verdict = recorded::verdict(&comparison);
            let sight = self.sight(outcome, symptoms, verdict);
            (Sight { recorded: Some(comparison), ..sight }, true)
        };
        Ok(Sight { compared, ..sight })
    }

    /// Tests `sources` and compares elements in any case.
    pub fn judge(
        &self,
        replayer: &Replayer,
        sources: &Sources,
        orders: bool,
    ) -> Result<Sight, ReplayError> {
        let mut sight = self.test(replayer, sources, orders)?;
        if let (None, Ok(sources), Base::Sources(Ok(base))) =
            (&sight.judgement, sources, &self.base)
            && sight.untestable.is_none()
        {
            let judgement = replayer.judge(&self.subject, base, sources)?;
            sight.verdict = judgement.verdict;
            sight.compared = true;
            sight.judgement = Some(judgement);
        }
        Ok(sight)
    }

    fn completed(
        &self,
        replayer: &Replayer,
        base: &Sources,
        sources: &SourceSet,
        outcome: Outcome,
    ) -> Result<Sight, ReplayError> {
        if self.on == On::Failed {
            return Ok(self.sight(outcome, BTreeSet::new(), Verdict::Equivalent));
        }
        let base = match base {
            Ok(base) => base,
            Err(reason) => {
                let reason = format!("there is nothing to compare with: {reason}");
                return Ok(self.untestable(Some(outcome), reason));
            }
        };
        let trusted = replayer.replay(&self.subject, base)?;
        if let Status::Untestable { reason, .. } = &trusted.status {
            let reason = format!("there is nothing to compare with: {reason}");
            return Ok(self.untestable(Some(outcome), reason));
        }
        if symptom::same_bits(&trusted, &outcome) {
            return Ok(self.sight(outcome, BTreeSet::new(), Verdict::Identical));
        }
        if self.on == On::Bits {
            let symptoms = symptom::of_bits(self.name(), &trusted, &outcome);
            return Ok(self.sight(outcome, symptoms, Verdict::Diverged));
        }
        self.judged(replayer, base, sources, outcome)
    }

    /// Compares elements, unless that was done for the same bits.
    fn judged(
        &self,
        replayer: &Replayer,
        base: &SourceSet,
        sources: &SourceSet,
        outcome: Outcome,
    ) -> Result<Sight, ReplayError> {
        let slot = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(bits(&outcome)).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Known { symptoms, verdict }) = slot.clone() {
            let sight = self.sight(outcome, symptoms, verdict);
            return Ok(Sight { compared: true, ..sight });
        }
        let judgement = replayer.judge(&self.subject, base, sources)?;
        let symptoms = symptom::of_judgement(self.name(), self.on, &judgement);
        let verdict = judgement.verdict;
        let steady = judgement.outputs.iter().all(|output| output.nondeterminism.is_none());
        if steady && symptom::same_bits(&judgement.got, &outcome) {
            // Another commit with these bits may depend on the order where this one does not.
            let by_value = judgement.outputs.iter().map(OutputJudgement::verdict_by_value).max();
            let verdict = by_value.unwrap_or(verdict);
            *slot = Some(Known { symptoms: symptoms.clone(), verdict });
        }
        let sight = self.sight(outcome, symptoms, verdict);
        Ok(Sight { judgement: Some(judgement), compared: true, ..sight })
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
        let again = self.test(repeater, &Ok(sources.clone()), sight.orders)?;
        Ok(again.symptoms == sight.symptoms)
    }

    pub fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    fn name(&self) -> &str {
        &self.subject.fixture.name
    }

    /// What a replay showed, without a comparison.
    fn sight(&self, outcome: Outcome, symptoms: BTreeSet<Symptom>, verdict: Verdict) -> Sight {
        Sight {
            fixture: self.name().to_owned(),
            outcome: Some(outcome),
            judgement: None,
            recorded: None,
            compared: false,
            orders: false,
            ordered_alike: Vec::new(),
            symptoms,
            untestable: None,
            verdict,
        }
    }

    fn untestable(&self, outcome: Option<Outcome>, reason: String) -> Sight {
        Sight {
            fixture: self.name().to_owned(),
            outcome,
            judgement: None,
            recorded: None,
            compared: false,
            orders: false,
            ordered_alike: Vec::new(),
            symptoms: BTreeSet::new(),
            untestable: Some(reason),
            verdict: Verdict::Untestable,
        }
    }
}

fn bits(outcome: &Outcome) -> Bits {
    outcome.outputs.iter().map(|output| (output.name.clone(), output.summary.checksum)).collect()
}
