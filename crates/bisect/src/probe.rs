//! Tests one commit on every fixture, against the good side. Knows sources, not commits.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::recorded;
use super::symptom::{self, On, Symptom};
use replay_base::summary::{Checksum, summarize_tensor};
use replay_engine::backend::ReplayError;
use replay_engine::environment::Environment;
use replay_engine::judge::{
    AccessStory, Accesses, Equivalence, GradientCheck, GradientVerdict, Judgement, OutputPicture,
    Story, Verdict, WrongBy, check_gradients, check_orders, check_trial_accesses,
    draw_output_pictures, judge_trial,
};
use replay_engine::trial::{
    AccessCheck, Failure, Lab, Outcome, PlacedSources, Shadow, Status, Subject, Trial,
};
use replay_history::{CommitId, History, HistoryError, SourceSpec};
use replay_numerics::compare::Agreement;
use replay_runtime::report::AccessFinding;
use replay_search::TestAnswer;
use replay_snapshot::{Snapshot, SnapshotComparison};

/// The sources of a commit for one fixture.
#[derive(Clone, Debug)]
pub(super) enum Sources {
    /// The commit has them.
    Found(PlacedSources),
    /// The commit lacks them.
    Missing {
        /// The reason, in a sentence.
        reason: String,
        /// Advice, if there is some.
        hint: Option<String>,
    },
}

impl Sources {
    /// Reads the files of `spec` at `commit`. Through a fault of the commit they are missing.
    pub(super) fn read(
        history: &History,
        commit: CommitId,
        spec: &SourceSpec,
    ) -> Result<Sources, HistoryError> {
        match history.source_set(commit, spec) {
            Ok(source_set) => Ok(Sources::Found(Arc::new(source_set).into())),
            Err(error) if error.is_revision_fault() => {
                Ok(Sources::Missing { reason: error.to_string(), hint: error.hint() })
            }
            Err(error) => Err(error),
        }
    }

    /// The same in `environment`; none stands for the session's own.
    pub(super) fn in_environment(self, environment: Option<&Arc<Environment>>) -> Sources {
        match self {
            Sources::Found(placed) => {
                Sources::Found(PlacedSources { environment: environment.cloned(), ..placed })
            }
            Sources::Missing { .. } => self,
        }
    }
}

/// The result of testing a commit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// One for each fixture, in their order.
    pub observations: Vec<Observation>,
}

/// The result on one fixture.
#[derive(Clone, Debug, Serialize)]
pub struct Observation {
    /// The fixture's name.
    pub fixture: String,
    /// The outcome of the replay; none if the commit lacks the sources.
    pub outcome: Option<Outcome>,
    /// The comparison with the good side, where one was needed.
    pub judgement: Option<Judgement>,
    /// The comparison with a recorded snapshot, if the good side is one and its bits differ.
    #[serde(skip)]
    pub recorded: Option<SnapshotComparison>,
    /// Whether the verdict rests on a comparison, of this commit or of one with its bits.
    #[serde(skip)]
    pub compared: bool,
    /// Whether the test included other orders of blocks and threads.
    #[serde(skip)]
    pub orders: bool,
    /// Outputs with the same dependence on the order of blocks and threads as at the good side.
    #[serde(skip)]
    pub ordered_alike: Vec<String>,
    /// The good side in words: `the good end`.
    #[serde(skip)]
    pub good_side: Arc<str>,
    /// Its wrong accesses to memory beside those of the good side, in a search for these.
    #[serde(skip)]
    pub accesses: Option<Accesses>,
    /// Its gradients beside their loss, in a search for these.
    #[serde(skip)]
    pub gradients: Vec<GradientCheck>,
    /// Whether it rests on one run of a program.
    #[serde(skip)]
    pub(super) rests_on_one_run: bool,
    /// The files of the program's tree that its replays opened; none where that is not known.
    #[serde(skip)]
    pub(super) opened: Option<BTreeSet<String>>,
    pub symptoms: BTreeSet<Symptom>,
    /// Symptoms left unchecked.
    #[serde(skip)]
    pub unknown: BTreeSet<Symptom>,
    /// Why it could not be tested.
    pub untestable: Option<String>,
    /// Advice where the commit lacks the sources, or this machine a module of them, if there is some.
    #[serde(skip)]
    pub hint: Option<String>,
    pub verdict: Verdict,
}

impl Observation {
    /// The wrong accesses to memory of both this commit and the good side.
    pub fn accesses_alike(&self) -> impl Iterator<Item = &AccessFinding> {
        let findings = self.accesses.iter().flat_map(|accesses| &accesses.findings);
        findings.filter_map(|judged| match judged.story {
            AccessStory::Known => Some(&judged.finding),
            AccessStory::New
            | AccessStory::Alone
            | AccessStory::NotCompared
            | AccessStory::Habit { .. } => None,
        })
    }
}

impl Observation {
    /// Whether `failure` leaves outputs to compare that `wanted_symptoms` names.
    fn fails_beside(&self, failure: &Symptom, wanted_symptoms: &BTreeSet<Symptom>) -> bool {
        let (Symptom::Failed { kind, .. }, Some(Outcome { status: Status::Failed(failures), .. })) =
            (failure, &self.outcome)
        else {
            return false;
        };
        let wanted_outputs: Vec<&str> = wanted_symptoms
            .iter()
            .filter(|symptom| symptom.fixture() == self.fixture)
            .filter_map(Symptom::output)
            .collect();
        let mut of_kind = failures.iter().filter(|failure| failure.kind() == kind);
        of_kind.all(|failure| leaves_outputs_to_compare(failure, &wanted_outputs))
    }
}

impl Seen {
    /// The symptoms on all fixtures.
    pub fn symptoms(&self) -> BTreeSet<Symptom> {
        self.observations
            .iter()
            .flat_map(|observation| observation.symptoms.iter().cloned())
            .collect()
    }

    /// Why it could not be tested, if so.
    pub fn untestable(&self) -> Option<&str> {
        self.observations.iter().find_map(|observation| observation.untestable.as_deref())
    }

    /// Advice where the commit lacks the sources, if there is some.
    pub fn hint(&self) -> Option<&str> {
        self.observations.iter().find_map(|observation| observation.hint.as_deref())
    }

    /// The worst verdict of any fixture.
    pub fn verdict(&self) -> Verdict {
        self.observations
            .iter()
            .map(|observation| observation.verdict)
            .max()
            .unwrap_or(Verdict::Identical)
    }

    /// The unchecked symptoms on all fixtures.
    pub(super) fn unknown(&self) -> BTreeSet<Symptom> {
        let observations = self.observations.iter();
        observations.flat_map(|observation| observation.unknown.iter().cloned()).collect()
    }

    /// The answer to a search for `wanted_symptoms`: whether the commit has the defect.
    pub fn answer(&self, wanted_symptoms: &BTreeSet<Symptom>) -> TestAnswer {
        let is_unclear =
            self.untestable().is_some() || !self.unknown().is_disjoint(wanted_symptoms);
        // What was written was compared, and shows the wanted values or does not; so do the outputs beside a failing one.
        let minds_values = wanted_symptoms.iter().any(Symptom::is_of_values);
        let symptoms = self.observations.iter().flat_map(|observation| {
            let says_nothing = |symptom: &&Symptom| {
                minds_values
                    && observation.compared
                    && (symptom.is_unwritten()
                        || observation.fails_beside(symptom, wanted_symptoms))
                    && !wanted_symptoms.contains(*symptom)
            };
            observation.symptoms.iter().filter(move |symptom| !says_nothing(symptom)).cloned()
        });
        symptom::answer_from_symptoms(&symptoms.collect(), is_unclear, wanted_symptoms)
    }

    /// Whether a replay ran out of time. The machine may be at fault as well as the code.
    pub(super) fn timed_out(&self) -> bool {
        let outcomes =
            self.observations.iter().filter_map(|observation| observation.outcome.as_ref());
        outcomes.into_iter().any(|outcome| match &outcome.status {
            Status::Failed(failures) => {
                failures.iter().any(|failure| matches!(failure, Failure::Timeout { .. }))
            }
            Status::Completed | Status::Untestable { .. } => false,
        })
    }

    /// Whether one of its replays is one run of a program.
    pub(super) fn rests_on_one_run(&self) -> bool {
        self.observations.iter().any(|observation| observation.rests_on_one_run)
    }

    /// Whether two identical replays differed in an output.
    pub(super) fn is_unsteady(&self) -> bool {
        let judgements =
            self.observations.iter().filter_map(|observation| observation.judgement.as_ref());
        judgements.flat_map(|judgement| &judgement.outputs).any(|o| o.nondeterminism.is_some())
    }
}

/// The good side on one fixture.
pub(super) enum Base {
    /// Sources to replay.
    Sources(Sources),
    /// A recorded replay, and the sources of the first good end: snapshots do not hold dependences on the order
    /// of blocks and threads.
    Snapshot(Arc<Snapshot>, Sources),
}

/// The good side on one fixture, and its name in reports.
pub(super) struct GoodSide {
    pub base: Base,
    pub name: Arc<str>,
}

/// How much a test does.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestEffort {
    /// Whether it replays in other orders of blocks and threads.
    pub orders: bool,
    /// Whether one run does for a program where its bits are known.
    pub accepts_one_run: bool,
}

/// Tests commits on one fixture.
pub(super) struct CommitProbe {
    subject: Arc<Subject>,
    on: On,
    good_side: GoodSide,
    /// The only output whose symptoms count, if there is one.
    output: Option<String>,
    /// The trial of the good side's sources, or why there is none: it is measured once.
    trusted: Result<Arc<Trial>, String>,
    /// The judgements by set of bits: commits with the same bits share one. The inner lock keeps two of them
    /// from being judged at once.
    known: Mutex<HashMap<OutputChecksums, Arc<Mutex<Vec<SharedJudgement>>>>>,
}

/// The checksums of all outputs.
pub(super) type OutputChecksums = Vec<(String, Checksum)>;

/// A judgement for all commits with the same bits.
struct SharedJudgement {
    judgement: Judgement,
    /// The bits of its float64 shadow, if there is one.
    shadow: Option<OutputChecksums>,
}

impl SharedJudgement {
    /// Whether the values tell all of it, without the shadow: each output has the bits of the good side or is
    /// beyond noise.
    fn is_settled_by_values(&self) -> bool {
        self.judgement.outputs.iter().all(|output| match output.story {
            Story::Agrees(Equivalence::Identical) => true,
            Story::Agrees(Equivalence::WithinNoise { .. } | Equivalence::ErrsAlike { .. })
            | Story::OrderDependent(_)
            | Story::Unsteady
            | Story::Drifted { .. }
            | Story::Wrong(WrongBy::HiddenShadow) => false,
            Story::Wrong(WrongBy::Shadow | WrongBy::Distance) | Story::BeyondNoise { .. } => true,
            Story::Imprecise(_) | Story::LessAccurate | Story::MoreAccurate | Story::AsAccurate => {
                output.comparison.agreement == Agreement::Diverged
            }
        })
    }
}

impl CommitProbe {
    /// Tests against `good_side`, whose trial `lab` makes; symptoms of `output` alone count, if it is named.
    pub(super) fn new(
        lab: &Arc<Lab>,
        subject: Arc<Subject>,
        on: On,
        good_side: GoodSide,
        output: Option<String>,
    ) -> CommitProbe {
        let trusted = trusted_trial(lab, &subject, &good_side.base);
        CommitProbe { subject, on, good_side, output, trusted, known: Mutex::default() }
    }

    /// Tests `sources` as `effort` says; compares elements only where the bits leave the verdict open.
    pub(super) fn test(
        &self,
        lab: &Arc<Lab>,
        sources: &Sources,
        effort: TestEffort,
    ) -> Result<Observation, ReplayError> {
        match sources {
            Sources::Found(sources) => {
                let test = self.begin(lab, sources, true);
                let observation = test.observation(effort)?;
                let rests_on_one_run = test.trial.rests_on_one_run();
                Ok(Observation { opened: test.trial.opened()?, rests_on_one_run, ..observation })
            }
            Sources::Missing { reason, hint } => {
                let untestable = self.untestable(None, reason.clone());
                let opened = Some(BTreeSet::new());
                let orders = effort.orders;
                Ok(Observation { orders, opened, hint: hint.clone(), ..untestable })
            }
        }
    }

    /// The result for sources that import what this machine lacks, by the error of their replay.
    pub(super) fn without_module(&self, error: &ReplayError) -> Observation {
        Observation { hint: error.hint(), ..self.untestable(None, error.to_string()) }
    }

    /// Tests `sources` and compares elements in any case.
    pub(super) fn judge(
        &self,
        lab: &Arc<Lab>,
        sources: &Sources,
        effort: TestEffort,
    ) -> Result<Observation, ReplayError> {
        match sources {
            Sources::Found(sources) => self.begin(lab, sources, false).judged_observation(effort),
            Sources::Missing { .. } => self.test(lab, sources, effort),
        }
    }

    /// Pictures of the outputs of `sources` beside those of the good side's sources.
    pub(super) fn pictures(
        &self,
        lab: &Arc<Lab>,
        sources: &Sources,
    ) -> Result<Vec<OutputPicture>, ReplayError> {
        match (&self.trusted, sources) {
            (Ok(trusted), Sources::Found(sources)) => {
                draw_output_pictures(Some(trusted), &lab.placed_trial(&self.subject, sources))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether another replay of `sources`, by `repeater`, gives the result in `observation`.
    pub(super) fn comes_out_the_same(
        &self,
        repeater: &Arc<Lab>,
        sources: &Sources,
        observation: &Observation,
    ) -> Result<bool, ReplayError> {
        let (Sources::Found(known_sources), Some(earlier_outcome)) =
            (sources, &observation.outcome)
        else {
            return Ok(true);
        };
        if observation.untestable.is_some() {
            return Ok(true);
        }
        let trial = repeater.placed_trial(&self.subject, known_sources);
        if observation.rests_on_one_run && trial.repeats_elsewhere(earlier_outcome)? {
            return Ok(true);
        }
        let repeated_outcome = trial.outcome()?;
        if symptom::symptoms_from_failures("", earlier_outcome)
            != symptom::symptoms_from_failures("", repeated_outcome)
        {
            return Ok(false);
        }
        if earlier_outcome.status != Status::Completed
            || symptom::same_bits(earlier_outcome, repeated_outcome)
        {
            return Ok(true);
        }
        let effort = TestEffort { orders: observation.orders, accepts_one_run: false };
        let repeated_observation = self.test(repeater, sources, effort)?;
        Ok(repeated_observation.symptoms == observation.symptoms)
    }

    pub(super) fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    fn name(&self) -> &str {
        &self.subject.fixture.name
    }

    fn begin(&self, lab: &Arc<Lab>, sources: &PlacedSources, shares: bool) -> Test<'_> {
        // A repeated test repeats the good side as well.
        let trusted = match (&self.trusted, trusted_trial(lab, &self.subject, &self.good_side.base))
        {
            (Ok(known), Ok(own)) if known.is_of_same_sources(&own) => Ok(known.clone()),
            (_, own) => own,
        };
        let trial = lab.placed_trial(&self.subject, sources);
        let trial = match &trusted {
            Ok(trusted) if trusted.is_of_same_sources(&trial) => trusted.clone(),
            _ => Arc::new(trial),
        };
        Test { probe: self, trial, trusted, shares }
    }

    /// The observation of a replay, without a comparison.
    fn observation(
        &self,
        outcome: Outcome,
        symptoms: BTreeSet<Symptom>,
        verdict: Verdict,
    ) -> Observation {
        Observation { outcome: Some(outcome), symptoms, ..self.bare(verdict) }
    }

    fn untestable(&self, outcome: Option<Outcome>, reason: String) -> Observation {
        let untestable = Some(reason);
        Observation { outcome, untestable, ..self.bare(Verdict::Untestable) }
    }

    /// An observation of nothing but `verdict`.
    fn bare(&self, verdict: Verdict) -> Observation {
        Observation {
            fixture: self.name().to_owned(),
            outcome: None,
            judgement: None,
            recorded: None,
            compared: false,
            orders: false,
            ordered_alike: Vec::new(),
            good_side: self.good_side.name.clone(),
            accesses: None,
            gradients: Vec::new(),
            rests_on_one_run: false,
            opened: None,
            symptoms: BTreeSet::new(),
            unknown: BTreeSet::new(),
            untestable: None,
            hint: None,
            verdict,
        }
    }
}

/// The trial of the good side's sources, or why there is none.
fn trusted_trial(
    lab: &Arc<Lab>,
    subject: &Arc<Subject>,
    base: &Base,
) -> Result<Arc<Trial>, String> {
    let (Base::Sources(good_sources) | Base::Snapshot(_, good_sources)) = base;
    match good_sources {
        Sources::Found(sources) => Ok(Arc::new(lab.placed_trial(subject, sources))),
        Sources::Missing { reason, .. } => Err(reason.clone()),
    }
}

/// The test of one source set.
struct Test<'p> {
    probe: &'p CommitProbe,
    /// That of the good side itself for its sources.
    trial: Arc<Trial>,
    /// The good side, or why there is none.
    trusted: Result<Arc<Trial>, String>,
    /// Whether the judgement on another commit with the same bits may be taken.
    shares: bool,
}

impl Test<'_> {
    fn observation(&self, effort: TestEffort) -> Result<Observation, ReplayError> {
        let TestEffort { orders, accepts_one_run } = effort;
        let observation = Observation { orders, ..self.values(accepts_one_run)? };
        let mut observation = match self.probe.on {
            On::Race => self.accessed(observation)?,
            On::Gradient => self.differentiated(observation)?,
            on if orders && on.minds_orders() => self.ordered(observation)?,
            _ => observation,
        };
        if let Some(only) = &self.probe.output {
            let symptoms = &mut observation.symptoms;
            symptoms.retain(|symptom| symptom.output().is_none_or(|output| output == only));
        }
        Ok(observation)
    }

    /// Adds the gradients off their loss. A failure is a symptom already.
    fn differentiated(&self, mut observation: Observation) -> Result<Observation, ReplayError> {
        if observation.untestable.is_some() || !observation.symptoms.is_empty() {
            return Ok(observation);
        }
        let checks = check_gradients(&self.trial)?;
        let unknown_checks: Vec<&GradientCheck> = checks
            .iter()
            .filter(|check| check.story.verdict() == GradientVerdict::Unknown)
            .collect();
        if unknown_checks.len() == checks.len() {
            let reason = checks.first().and_then(|check| check.story.reason());
            let reason = reason.unwrap_or_else(|| "the harness declares no gradient".to_owned());
            let reason = format!("its gradients cannot be checked: {reason}");
            let orders = observation.orders;
            let untestable = self.probe.untestable(observation.outcome, reason);
            return Ok(Observation { orders, ..untestable });
        }
        let fixture = self.probe.name();
        observation.symptoms = symptom::symptoms_from_gradients(fixture, &checks);
        for GradientCheck { output, .. } in unknown_checks {
            observation.unknown.insert(Symptom::mismatch(fixture, output));
            observation.unknown.insert(Symptom::imprecise(fixture, output));
        }
        if !observation.symptoms.is_empty() {
            observation.verdict = Verdict::Diverged;
        }
        observation.gradients = checks;
        Ok(observation)
    }

    /// Adds the wrong accesses to memory.
    fn accessed(&self, mut observation: Observation) -> Result<Observation, ReplayError> {
        let base = self.trusted.as_deref().ok();
        let checked_accesses = match observation.untestable {
            None => check_trial_accesses(&self.trial, base, AccessCheck::Always)?,
            Some(_) => None,
        };
        // A call without a return cannot be checked; its failure is a symptom already.
        let Some(checked_accesses) = checked_accesses else { return Ok(observation) };
        if let Some(reason) = &checked_accesses.unchecked {
            let reason = format!("its accesses cannot be checked: {reason}");
            let orders = observation.orders;
            let untestable = self.probe.untestable(observation.outcome, reason);
            return Ok(Observation { orders, ..untestable });
        }
        for finding in checked_accesses.failures() {
            observation.verdict = Verdict::Failed;
            let symptom = symptom::symptom_from_access(self.probe.name(), finding);
            observation.symptoms.insert(symptom);
        }
        observation.accesses = Some(checked_accesses);
        Ok(observation)
    }

    /// The same, with a judgement wherever one can be made.
    fn judged_observation(&self, effort: TestEffort) -> Result<Observation, ReplayError> {
        let mut observation = self.observation(effort)?;
        if let (None, Base::Sources(_), Ok(trusted)) =
            (&observation.judgement, &self.probe.good_side.base, &self.trusted)
            && observation.untestable.is_none()
        {
            let judgement = judge_trial(trusted, &self.trial)?;
            observation.verdict = judgement.verdict;
            observation.compared = true;
            observation.judgement = Some(judgement);
        }
        Ok(observation)
    }

    /// Adds dependences on the order of blocks and threads.
    fn ordered(&self, mut observation: Observation) -> Result<Observation, ReplayError> {
        let has_completed = match &observation.outcome {
            Some(outcome) => outcome.status == Status::Completed,
            None => false,
        };
        // A dependence of the good end itself is no news.
        let is_good_end = match &self.trusted {
            Ok(good_trial) => good_trial.is_of_same_sources(&self.trial),
            Err(_) => false,
        };
        if !has_completed || is_good_end {
            return Ok(observation);
        }
        let dependences = check_orders(&self.trial)?.dependences;
        if dependences.is_empty() {
            return Ok(observation);
        }
        let known_dependences = match &self.trusted {
            Ok(good_trial) => check_orders(good_trial)?.dependences,
            Err(_) => Vec::new(),
        };
        let shared_dependences = dependences
            .iter()
            .filter(|dependence| known_dependences.iter().any(|k| k.output == dependence.output));
        observation.ordered_alike =
            shared_dependences.map(|dependence| dependence.output.clone()).collect();
        let symptoms =
            symptom::symptoms_from_orders(self.probe.name(), &dependences, &known_dependences);
        if let Some(judgement) = &mut observation.judgement {
            judgement.add_orders(&dependences, &known_dependences);
        }
        if !symptoms.is_empty() {
            observation.verdict = observation.verdict.max(Verdict::Diverged);
            observation.symptoms.extend(symptoms);
        }
        Ok(observation)
    }

    /// The observation in the order of the indices.
    fn values(&self, accepts_one_run: bool) -> Result<Observation, ReplayError> {
        let probe = self.probe;
        let known_outcomes =
            if accepts_one_run && self.shares { self.list_known_outcomes()? } else { Vec::new() };
        let outcome = self.trial.outcome_beside(&known_outcomes)?.clone();
        if let Some(misfit) = outcome.call_misfit() {
            let reason = describe_misfit(misfit);
            return Ok(probe.untestable(Some(outcome), reason));
        }
        match (&outcome.status, &probe.good_side.base) {
            (Status::Untestable { reason, causes, .. }, _) => {
                // Those of many lines, such as tracebacks, are told with the outcome.
                let short_causes = causes.iter().filter(|cause| cause.lines().nth(1).is_none());
                let reason = short_causes.fold(reason.clone(), |text, cause| text + ": " + cause);
                Ok(probe.untestable(Some(outcome), reason))
            }
            (_, Base::Snapshot(snapshot, _)) => self.compared(outcome, snapshot),
            (Status::Completed, Base::Sources(_)) => self.completed(outcome),
            (Status::Failed(_), Base::Sources(_)) if self.fails_like_the_good_side(&outcome)? => {
                self.completed(outcome)
            }
            (Status::Failed(_), Base::Sources(_)) => {
                let symptoms = symptom::symptoms_from_failures(probe.name(), &outcome);
                if has_comparable_part(&outcome) && matches!(probe.on, On::Wrong | On::Changed) {
                    return self.compared_part(outcome, symptoms);
                }
                Ok(probe.observation(outcome, symptoms, Verdict::Failed))
            }
        }
    }

    /// The outcomes of the good side and of judged commits.
    fn list_known_outcomes(&self) -> Result<Vec<Outcome>, ReplayError> {
        let mut known_outcomes = Vec::new();
        if let (Base::Sources(_), Ok(trusted)) = (&self.probe.good_side.base, &self.trusted) {
            known_outcomes.push(trusted.outcome()?.clone());
        }
        let known_judgements = self.probe.known.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in known_judgements.values() {
            // One that is being judged is no known one.
            if let Ok(slot) = slot.try_lock() {
                known_outcomes.extend(slot.first().map(|known| known.judgement.got.clone()));
            }
        }
        Ok(known_outcomes)
    }

    /// The observation of an `outcome` whose `failures` are those of outputs: what was written, and the outputs in order,
    /// are compared where the good side can be.
    fn compared_part(
        &self,
        outcome: Outcome,
        failures: BTreeSet<Symptom>,
    ) -> Result<Observation, ReplayError> {
        let mut observation = self.completed(outcome.clone())?;
        if observation.untestable.is_some() {
            return Ok(self.probe.observation(outcome, failures, Verdict::Failed));
        }
        let spoilt_outputs = list_spoilt_outputs(&outcome);
        observation
            .symptoms
            .retain(|symptom| symptom.output().is_none_or(|name| !spoilt_outputs.contains(&name)));
        observation.symptoms.extend(failures);
        observation.verdict = Verdict::Failed;
        observation.compared = true;
        Ok(observation)
    }

    /// Whether non-finite values are its only failure, and the good side has them too.
    fn fails_like_the_good_side(&self, outcome: &Outcome) -> Result<bool, ReplayError> {
        let Ok(trusted) = &self.trusted else { return Ok(false) };
        Ok(outcome.can_be_compared_with(trusted.outcome()?))
    }

    /// Compares `outcome` with the recorded one; measures noise only where bits differ.
    fn compared(&self, outcome: Outcome, snapshot: &Snapshot) -> Result<Observation, ReplayError> {
        let probe = self.probe;
        let (observation, compared) = if snapshot.has_bits_of(&outcome) {
            (probe.observation(outcome, BTreeSet::new(), Verdict::Identical), true)
        } else if matches!(outcome.status, Status::Failed(_)) {
            let symptoms = symptom::symptoms_from_failures(probe.name(), &outcome);
            (probe.observation(outcome, symptoms, Verdict::Failed), false)
        } else if !probe.on.minds_values() {
            (probe.observation(outcome, BTreeSet::new(), Verdict::Equivalent), false)
        } else {
            let noise = self.trial.noise()?;
            let shadows =
                if snapshot.knows_shadows() { self.trial.imprints()? } else { Vec::new() };
            let comparison = replay_snapshot::compare_outcome(snapshot, &outcome, &noise, &shadows);
            let symptoms =
                recorded::symptoms_from_snapshot(probe.name(), probe.on, &comparison, &outcome);
            let verdict = recorded::verdict_from_snapshot(&comparison);
            let observation = probe.observation(outcome, symptoms, verdict);
            (Observation { recorded: Some(comparison), ..observation }, true)
        };
        Ok(Observation { compared, ..observation })
    }

    fn completed(&self, outcome: Outcome) -> Result<Observation, ReplayError> {
        let probe = self.probe;
        if !probe.on.minds_values() {
            return Ok(probe.observation(outcome, BTreeSet::new(), Verdict::Equivalent));
        }
        let trusted = match &self.trusted {
            Ok(trusted) => trusted,
            Err(reason) => {
                let reason = format!("there is nothing to compare with: {reason}");
                return Ok(probe.untestable(Some(outcome), reason));
            }
        };
        if let Status::Untestable { reason, .. } = &trusted.outcome()?.status {
            let reason = format!("there is nothing to compare with: {reason}");
            return Ok(probe.untestable(Some(outcome), reason));
        }
        if symptom::same_bits(trusted.outcome()?, &outcome) {
            return Ok(probe.observation(outcome, BTreeSet::new(), Verdict::Identical));
        }
        if probe.on == On::Bits {
            let symptoms = symptom::symptoms_from_bits(probe.name(), trusted.outcome()?, &outcome);
            return Ok(probe.observation(outcome, symptoms, Verdict::Diverged));
        }
        self.judged(trusted, outcome)
    }

    /// Compares elements, unless a commit with the same bits was judged. Where values leave something open, the
    /// shadows must have the same bits as well: a harmless commit and a defect below rounding can have equal
    /// values.
    fn judged(&self, trusted: &Trial, outcome: Outcome) -> Result<Observation, ReplayError> {
        if !self.shares {
            let judgement = judge_trial(trusted, &self.trial)?;
            return Ok(self.of_judgement(outcome, judgement));
        }
        let probe = self.probe;
        let slot = {
            let mut known_judgements = probe.known.lock().unwrap_or_else(PoisonError::into_inner);
            known_judgements.entry(collect_checksums(&outcome)).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        for known_judgement in slot.iter() {
            if known_judgement.is_settled_by_values()
                || known_judgement.shadow == shadow_bits(&self.trial)?
            {
                let judgement = known_judgement.judgement.of_same_values(outcome.clone());
                return Ok(self.of_judgement(outcome, judgement));
            }
        }
        let judgement = judge_trial(trusted, &self.trial)?;
        let steady = judgement.outputs.iter().all(|output| output.nondeterminism.is_none());
        // A dependence on the order belongs to one commit, and is not shared.
        let ordered = judgement.outputs.iter().any(|output| output.order.is_some());
        if steady && !ordered && symptom::same_bits(&judgement.got, &outcome) {
            slot.push(SharedJudgement {
                judgement: judgement.clone(),
                shadow: shadow_bits(&self.trial)?,
            });
        }
        Ok(self.of_judgement(outcome, judgement.without_orders()))
    }

    /// The observation of a compared replay.
    fn of_judgement(&self, outcome: Outcome, judgement: Judgement) -> Observation {
        let symptoms =
            symptom::symptoms_from_judgement(self.probe.name(), self.probe.on, &judgement);
        let unknown = symptom::unknown_symptoms(self.probe.name(), &judgement);
        let observation = self.probe.observation(outcome, symptoms, judgement.verdict);
        let observation = Observation { unknown, ..observation };
        Observation { judgement: Some(judgement), compared: true, ..observation }
    }
}

/// Why a commit with other functions than the harness's call cannot be tested.
pub(super) fn describe_misfit(misfit: &str) -> String {
    format!("the call of the harness does not fit: {misfit}")
}

/// Whether `failure` leaves outputs to compare among `wanted_outputs`. One of them may be missing, for the others show the
/// defect as well; but one that is no number has changed in a way of its own.
fn leaves_outputs_to_compare(failure: &Failure, wanted_outputs: &[&str]) -> bool {
    let spoilt_outputs = failure.outputs();
    let is_spoilt = |name: &&str| spoilt_outputs.contains(name);
    !spoilt_outputs.is_empty()
        && match failure {
            Failure::Outputs { .. } => !wanted_outputs.iter().all(is_spoilt),
            _ => !wanted_outputs.iter().any(is_spoilt),
        }
}

/// Whether the failures of `outcome` are those of outputs, and leave something to compare.
fn has_comparable_part(outcome: &Outcome) -> bool {
    let Status::Failed(failures) = &outcome.status else { return false };
    let spoilt_outputs = list_spoilt_outputs(outcome);
    failures.iter().all(|failure| !failure.outputs().is_empty())
        && outcome.outputs.iter().any(|output| !spoilt_outputs.contains(&output.name.as_str()))
}

/// The outputs without values to compare: their failure is more than elements that nobody wrote.
fn list_spoilt_outputs(outcome: &Outcome) -> Vec<&str> {
    let Status::Failed(failures) = &outcome.status else { return Vec::new() };
    let spoilt = failures.iter().filter(|failure| !matches!(failure, Failure::Unwritten { .. }));
    spoilt.flat_map(Failure::outputs).collect()
}

/// The checksums of the float64 shadow of `trial`; none where it has none.
fn shadow_bits(trial: &Trial) -> Result<Option<OutputChecksums>, ReplayError> {
    let Shadow::Present(run) = trial.shadow_run()? else { return Ok(None) };
    let checksums = run.outputs().map(|(output, view)| {
        let checksum = summarize_tensor(&view, None).checksum;
        (output.name.clone(), checksum)
    });
    Ok(Some(checksums.collect()))
}

/// The checksums of the outputs of `outcome`.
pub(super) fn collect_checksums(outcome: &Outcome) -> OutputChecksums {
    outcome.outputs.iter().map(|output| (output.name.clone(), output.summary.checksum)).collect()
}
