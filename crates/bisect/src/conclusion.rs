//! The evidence for the answer: the culprit's judgement, its parents, its change, and the acquitted
//! commits.

use std::collections::{BTreeSet, HashMap};

use super::captured::{CapturedBy, ReplayedCommit, find_captured};
use super::changes::{LogReport, survey_between};
use super::direction::{BisectEnds, Direction};
use super::gradient_sides::{GradientSides, check_gradient_sides};
use super::groups::Grouped;
use super::hunks::HunkAnswer;
use super::lineage::{Lineage, LineageFacts};
use super::mended::{Mended, find_mended};
use super::probe::{Seen, Sources};
use super::shared_defect::{SharedDefect, find_shared_defect};
use super::steady::{self, Steady, SteadyOutcome};
use super::symptom::{On, Symptom, are_slight, same_bits, select_wanted};
use super::workers::PlannedSearch;
use super::{BisectError, Bisection, Event, GoodEnds, SearchListener, Trusted, flaky};
use replay_engine::judge::{
    Accesses, LaunchChange, OutputPicture, Verdict, check_trial_accesses, diff_launches,
};
use replay_history::{Commit, LinelessChange};
use replay_search::{Conclusion, EndsRefusal, TestAnswer, Warning};

/// The search tests the acquitted commit with the largest diff, needed or not, in a history of at most this
/// many variants. People suspect that commit.
const FEW_VARIANTS: usize = 12;

/// The most commits behind the culprit to search for. Each costs a search.
const MOST_BEHIND: usize = 3;

/// The result of a search.
pub struct SearchReport {
    /// The conclusion; commits are numbers, see [`SearchReport::commit`].
    pub conclusion: Conclusion,
    /// The warnings besides the conclusion.
    pub warnings: Vec<Warning>,
    /// The tested commits, in the order of their answers.
    pub tested: Vec<Tested>,
    /// The condition for a bad commit.
    pub on: On,
    /// The fate of the defect between the older and the newer ends.
    pub direction: Direction,
    /// The symptoms searched for.
    pub wanted: BTreeSet<Symptom>,
    /// The evidence against the culprit, if there is one.
    pub culprit: Option<Culprit>,
    /// What the culprit mends, though the search took it for a defect.
    pub mended: Vec<Mended>,
    /// The search between the good end and the culprit's parent. It finds an earlier change with other symptoms.
    pub before: Option<Box<SearchReport>>,
    /// The symptoms of the bad end beyond those of the culprit.
    pub behind: Behind,
    /// By fixture: the new wrong accesses of a bad end without other symptoms.
    pub accesses: Vec<(String, Accesses)>,
    /// The defect of both ends, if the bad end is no worse than the good one.
    pub shared: Option<SharedDefect>,
    /// Where the outputs change, if they change more than once.
    pub log: Option<LogReport>,
    /// What the good ends are. None where commits were compared with recorded snapshots.
    pub good_ends: Option<GoodEnds>,
    /// The commits between the ends as a graph, if it was asked for.
    pub lineage: Option<Lineage>,
    /// For each fixture with captured outputs: the tested commits with the same outputs.
    pub captured: Vec<CapturedBy>,
    /// Whether tests were repeated because their verdicts differed.
    pub flaky: bool,
    /// How many variants count as fewer, by what the tests opened.
    pub grouped: Option<Grouped>,
    /// The axis of environments that it went along; none for a history.
    pub axis: Option<String>,
    /// Which of the culprit's hunks carry the defect, if it was asked for.
    pub hunks: Option<HunkAnswer>,
    /// What a commit changes that is no worse than its parent, if that is no line.
    pub lineless: Option<LinelessChange>,
    commits: HashMap<u32, Commit>,
    seen: HashMap<u32, Seen>,
}

/// The symptoms of the bad end beyond those of the culprit.
#[derive(Default)]
pub enum Behind {
    /// Nothing, or it was not asked.
    #[default]
    Nothing,
    /// The change of another commit: the search between the culprit and the bad end.
    Another(Box<SearchReport>),
    /// A change of a commit unknown to the search.
    Unclear {
        /// The bad end.
        bad: Commit,
    },
}

/// An answered test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested {
    pub commit: u32,
    pub answer: TestAnswer,
}

/// The evidence against a commit.
pub struct Culprit {
    pub commit: u32,
    /// The result of its test, compared with the good end. For a repair it is the result of its parent.
    pub seen: Seen,
    /// By fixture: pictures of its outputs, beside those of the good end, if they were asked for.
    pub pictures: Vec<(String, Vec<OutputPicture>)>,
    /// By fixture: its wrong accesses to memory, beside those of its first parent.
    pub accesses: Vec<(String, Accesses)>,
    /// Its gradients and those of its first parent beside their losses, if the search was for one of them.
    pub gradients: Vec<GradientSides>,
    /// The launches changed since its first parent.
    pub launches: Vec<LaunchChange>,
    /// The diff of its sources against its first parent.
    pub diff: String,
    pub parents: Vec<u32>,
    /// Commits with another change than the one searched for.
    pub acquitted: Vec<u32>,
}

/// How a search ends, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// With a culprit.
    Found,
    /// With several candidates for the culprit.
    Ambiguous,
    /// The ends or the history do not allow an answer.
    Refused,
}

impl SearchReport {
    /// The commit with number `commit` in this report.
    pub fn commit(&self, commit: u32) -> Option<&Commit> {
        self.commits.get(&commit)
    }

    /// The result of the test of `commit`.
    pub fn test_result(&self, commit: u32) -> Option<&Seen> {
        self.seen.get(&commit)
    }

    /// Whether the culprit changes `output`, as far as the search tells.
    pub fn changes(&self, output: &str) -> bool {
        let observations = self.culprit.iter().flat_map(|culprit| &culprit.seen.observations);
        let mut symptoms = observations.flat_map(|observation| &observation.symptoms);
        symptoms.any(|symptom| symptom.output() == Some(output))
    }

    /// The patch that reverses the hunks behind the defect, if they can be reversed.
    pub fn patch(&self) -> Option<&[u8]> {
        let Some(Ok(answer)) = &self.hunks else { return None };
        let way_back = answer.way_back.as_ref()?;
        Some(way_back.patch.as_slice()).filter(|patch| !patch.is_empty())
    }

    /// How the search ended.
    pub fn ending(&self) -> SearchEnd {
        match self.conclusion {
            Conclusion::Found { .. } | Conclusion::Probable { .. } => SearchEnd::Found,
            Conclusion::Ambiguous { .. } => SearchEnd::Ambiguous,
            Conclusion::NotMonotone { .. } | Conclusion::Refused(_) => SearchEnd::Refused,
        }
    }
}

impl Bisection<'_> {
    /// Searches for the commit between `ends` with the defect, or with its repair. Neither side may be empty.
    ///
    /// # Errors
    /// [`BisectError`] if the machine, the fixtures or the repository are at fault. Defects of
    /// commits or ends are in the report.
    pub fn search(
        &self,
        ends: &BisectEnds,
        listener: &mut SearchListener<'_>,
    ) -> Result<SearchReport, BisectError> {
        let (planned, mut report) = self.search_once(ends, listener)?;
        if !report.flaky {
            report.before = self.search_before(&planned, &report)?;
            report.behind = self.search_behind(&planned, &report, MOST_BEHIND)?;
        }
        report.hunks = self.search_hunks(&planned, &report, listener)?;
        report.lineless = self.find_lineless_change(ends, &report)?;
        Ok(report)
    }

    /// What the commit that is no worse than its parent changes, where that is no line of a file.
    fn find_lineless_change(
        &self,
        ends: &BisectEnds,
        report: &SearchReport,
    ) -> Result<Option<LinelessChange>, BisectError> {
        let is_refused = report.ending() == SearchEnd::Refused;
        match (ends, report.good_ends) {
            (BisectEnds::Claimed { good, bad }, Some(GoodEnds::Parent)) if is_refused => {
                let ([parent], [commit]) = (good.as_slice(), bad.as_slice()) else {
                    return Ok(None);
                };
                Ok(self.history.find_lineless_change(parent, commit)?)
            }
            _ => Ok(None),
        }
    }

    /// The same without a search for further changes.
    pub(super) fn search_alone(
        &self,
        ends: &BisectEnds,
        listener: &mut SearchListener<'_>,
    ) -> Result<SearchReport, BisectError> {
        Ok(self.search_once(ends, listener)?.1)
    }

    fn search_once(
        &self,
        ends: &BisectEnds,
        listener: &mut SearchListener<'_>,
    ) -> Result<(PlannedSearch<'_>, SearchReport), BisectError> {
        self.lab.backend().expect_many();
        let planned = PlannedSearch::new(self, self.plan(ends)?)?;
        match steady::run_steady_search(&planned, listener)? {
            SteadyOutcome::Done(steady) => {
                let report = conclude_search(&planned, *steady, false, listener)?;
                Ok((planned, report))
            }
            SteadyOutcome::Flaky(commit) => {
                listener(Event::Flaky { commit: &planned.commit(commit)? });
                let planned = PlannedSearch::new(self, self.plan(ends)?)?;
                let flaky_search = flaky::run_flaky_search(&planned, listener)?;
                let report = conclude_search(&planned, flaky_search, true, listener)?;
                Ok((planned, report))
            }
        }
    }

    /// Searches between the good end and the culprit's parent, if the parent shows symptoms outside of the search.
    fn search_before(
        &self,
        planned: &PlannedSearch<'_>,
        report: &SearchReport,
    ) -> Result<Option<Box<SearchReport>>, BisectError> {
        let (Some(culprit), Trusted::GoodEnd(_)) = (&report.culprit, &self.trusted) else {
            return Ok(None);
        };
        let (&[good], &[parent]) = (planned.plan.old.as_slice(), culprit.parents.as_slice()) else {
            return Ok(None);
        };
        let shown = report.test_result(parent).map(Seen::symptoms).unwrap_or_default();
        let shows = !are_slight(&shown) && shown.is_disjoint(&report.wanted);
        if !shows || !self.compares_values() || planned.plan.direction == Direction::Repairs {
            return Ok(None);
        }
        let good = planned.commit(good)?;
        let parent = planned.commit(parent)?;
        let plan = self.plan_between(&[good], &[parent], Direction::Breaks)?;
        let planned = PlannedSearch::new(self, plan)?;
        let SteadyOutcome::Done(steady) = steady::run_steady_search(&planned, &mut |_| {})? else {
            return Ok(None);
        };
        if !matches!(steady.search.outcome(), Some(Conclusion::Found { .. })) {
            return Ok(None);
        }
        let mut report = conclude_search(&planned, *steady, false, &mut |_| {})?;
        report.behind = self.search_behind(&planned, &report, MOST_BEHIND - 1)?;
        Ok(Some(Box::new(report)))
    }

    /// Whether the values of a commit are compared with those of the good end.
    fn compares_values(&self) -> bool {
        self.on.minds_values() && self.on != On::Bits
    }

    /// Searches between the culprit of `report` and the bad end for further changes: the culprit may be
    /// harmless, or one of several. Names at most `left` commits.
    fn search_behind(
        &self,
        planned: &PlannedSearch<'_>,
        report: &SearchReport,
        left: usize,
    ) -> Result<Behind, BisectError> {
        let (Some(culprit), Trusted::GoodEnd(_)) = (&report.culprit, &self.trusted) else {
            return Ok(Behind::Nothing);
        };
        let &[bad_end] = planned.plan.new.as_slice() else { return Ok(Behind::Nothing) };
        let is_last = planned.variant(culprit.commit) == planned.variant(bad_end)
            || report.test_result(bad_end).is_some_and(|end| have_same_bits(&culprit.seen, end));
        if is_last || !self.compares_values() || planned.plan.direction == Direction::Repairs {
            return Ok(Behind::Nothing);
        }
        let culprit = planned.commit(culprit.commit)?;
        let bad = planned.commit(bad_end)?;
        let plan = self.plan_between(&[culprit], std::slice::from_ref(&bad), Direction::Breaks)?;
        let planned = PlannedSearch::new(self, plan)?;
        let end = planned.plan.new[0];
        let end_result = planned.test(end, &self.lab)?().map_err(BisectError::Replay)?;
        let wanted_symptoms = select_wanted(end_result.symptoms());
        // Beside a visible defect, invisible changes count for nothing.
        if wanted_symptoms.is_empty() || are_slight(&wanted_symptoms) && !are_slight(&report.wanted)
        {
            return Ok(Behind::Nothing);
        }
        let Some(left) = left.checked_sub(1) else { return Ok(Behind::Unclear { bad }) };
        let silent: &mut SearchListener<'_> = &mut |_| {};
        let SteadyOutcome::Done(steady) = steady::run_steady_search(&planned, silent)? else {
            return Ok(Behind::Unclear { bad });
        };
        if !matches!(steady.search.outcome(), Some(Conclusion::Found { .. })) {
            return Ok(Behind::Unclear { bad });
        }
        let mut report = conclude_search(&planned, *steady, false, &mut |_| {})?;
        report.behind = self.search_behind(&planned, &report, left)?;
        Ok(Behind::Another(Box::new(report)))
    }
}

/// Whether two tests have the same bits on every fixture.
fn have_same_bits(one: &Seen, other: &Seen) -> bool {
    let mut pairs = one.observations.iter().zip(&other.observations);
    pairs.all(|(one, other)| {
        let outcomes = one.outcome.as_ref().zip(other.outcome.as_ref());
        outcomes.is_some_and(|(one, other)| same_bits(one, other))
    })
}

fn conclude_search(
    planned: &PlannedSearch<'_>,
    mut steady: Steady,
    flaky: bool,
    listener: &mut SearchListener<'_>,
) -> Result<SearchReport, BisectError> {
    let conclusion = match steady.search.outcome() {
        Some(conclusion) => conclusion,
        // Nothing is left to test and nothing was found: whatever is between the ends may be it.
        None => Conclusion::Ambiguous { candidates: planned.plan.new.clone() },
    };
    let mut culprit = match conclusion {
        Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. } => {
            Some(collect_culprit_evidence(planned, &mut steady, culprit, flaky, listener)?)
        }
        _ => None,
    };
    let mut mended = Vec::new();
    if let Some(culprit) = &mut culprit {
        let bisection = planned.bisection;
        culprit.gradients =
            check_gradient_sides(bisection, &planned.plan, &steady.wanted, culprit)?;
        mended = find_mended(bisection, planned.plan.direction, &steady.wanted, culprit);
    }
    let log = match &conclusion {
        Conclusion::NotMonotone { .. } if planned.bisection.along.is_plain_history() => {
            Some(survey_between(planned)?)
        }
        _ => None,
    };
    let shared = find_shared_defect(planned, &conclusion)?;
    let accesses = match &conclusion {
        Conclusion::Refused(EndsRefusal::EndsDisagree { .. }) => accesses_of_bad_end(planned)?,
        _ => Vec::new(),
    };
    let lineage = if planned.bisection.illustrated {
        Some(build_search_lineage(planned, &steady, culprit.as_ref())?)
    } else {
        None
    };
    let warnings = steady.search.warnings();
    let tested: Vec<Tested> =
        steady.tested.iter().map(|&(commit, answer)| Tested { commit, answer }).collect();
    let mut numbers: BTreeSet<u32> = tested.iter().map(|tested| tested.commit).collect();
    numbers.extend(list_conclusion_commits(&conclusion));
    numbers.extend(warnings.iter().map(commit_in_warning));
    numbers.extend(planned.plan.old.iter().chain(&planned.plan.new));
    if let Some(culprit) = &culprit {
        numbers.extend(culprit.parents.iter().chain(&culprit.acquitted));
    }
    let captured = captured_by(planned, &steady, &tested, culprit.as_ref())?;
    let mut commits = HashMap::new();
    let mut seen = HashMap::new();
    for number in numbers {
        commits.insert(number, planned.commit(number)?);
        if let Some(test_result) = steady.seen.get(&planned.variant(number)) {
            seen.insert(number, test_result.clone());
        }
    }
    Ok(SearchReport {
        on: planned.bisection.on,
        direction: planned.plan.direction,
        conclusion,
        mended,
        before: None,
        behind: Behind::Nothing,
        accesses,
        shared,
        warnings,
        tested,
        wanted: steady.wanted,
        culprit,
        log,
        good_ends: match planned.bisection.trusted {
            Trusted::GoodEnd(good_ends) => Some(good_ends),
            Trusted::Snapshots(_) => None,
        },
        lineage,
        captured,
        flaky,
        grouped: steady.grouped,
        axis: planned.bisection.along.axis_name().map(str::to_owned),
        hunks: None,
        lineless: None,
        commits,
        seen,
    })
}

/// The tested commits with the captured outputs, for each fixture. Compares elements at the ends and at the
/// culprit alone.
fn captured_by(
    planned: &PlannedSearch<'_>,
    steady: &Steady,
    tested: &[Tested],
    culprit: Option<&Culprit>,
) -> Result<Vec<CapturedBy>, BisectError> {
    let ends = planned.plan.old.iter().chain(&planned.plan.new);
    let compared: BTreeSet<u32> =
        ends.copied().chain(culprit.map(|culprit| culprit.commit)).collect();
    let numbers: BTreeSet<u32> =
        tested.iter().map(|tested| tested.commit).chain(compared.iter().copied()).collect();
    let mut captures = Vec::new();
    for (index, target) in planned.bisection.targets.iter().enumerate() {
        let mut replayed = Vec::new();
        for &number in &numbers {
            let variant = planned.variant(number);
            let test_result = steady.seen.get(&variant);
            let outcome =
                test_result.and_then(|result| result.observations.get(index)?.outcome.as_ref());
            let Some(outcome) = outcome else { continue };
            let commit = planned.commit(number)?;
            let compared = compared.contains(&number);
            replayed.push(ReplayedCommit { commit, variant, outcome, compared });
        }
        captures.extend(find_captured(planned.bisection, target, &replayed)?);
    }
    Ok(captures)
}

/// The commits between the ends, and the good ends, as a graph.
fn build_search_lineage(
    planned: &PlannedSearch<'_>,
    steady: &Steady,
    culprit: Option<&Culprit>,
) -> Result<Lineage, BisectError> {
    let plan = &planned.plan;
    let lineage_facts = LineageFacts {
        bisection: planned.bisection,
        ids: &plan.ids,
        graph: &plan.graph,
        first: (plan.ids.len() - plan.between) as u32,
        ends: plan.old.clone(),
        direction: plan.direction,
        answers: steady.tested.iter().copied().collect(),
        seen: &steady.seen,
        recalled: &steady.recalled,
        infer: true,
    };
    let mut lineage = lineage_facts.lineage()?;
    if let Some(culprit) = culprit {
        // The evidence against the culprit replaces the result of its test.
        let id = plan.ids[culprit.commit as usize];
        let culprit_commits = lineage.commits.iter_mut().filter(|kin| kin.commit.id == id);
        culprit_commits.for_each(|kin| kin.seen = Some(culprit.seen.clone()));
    }
    Ok(lineage)
}

/// The commit named by a warning.
fn commit_in_warning(warning: &Warning) -> u32 {
    match *warning {
        Warning::UntestableMergeBase { base } => base,
        Warning::Contradiction { commit } => commit,
        Warning::Unexplained { bad } => bad,
    }
}

/// The commits named by a conclusion.
fn list_conclusion_commits(conclusion: &Conclusion) -> Vec<u32> {
    match conclusion {
        Conclusion::Found { culprit, unconfirmed_parents } => {
            [&[*culprit], unconfirmed_parents.as_slice()].concat()
        }
        Conclusion::Probable { culprit, .. } => vec![*culprit],
        Conclusion::Ambiguous { candidates } => candidates.clone(),
        Conclusion::NotMonotone { commit, bad_parents } => {
            [&[*commit], bad_parents.as_slice()].concat()
        }
        Conclusion::Refused(refusal) => match refusal {
            EndsRefusal::SameVariant { good, bad } | EndsRefusal::Reversed { good, bad } => {
                vec![*good, *bad]
            }
            EndsRefusal::EndsDisagree { good_is_bad, bad_is_good } => {
                [good_is_bad.as_slice(), bad_is_good].concat()
            }
            EndsRefusal::UnclearEnds { good, bad } => {
                good.iter().chain(bad).map(|end| end.commit).collect()
            }
            EndsRefusal::BadMergeBase { base } => vec![*base],
            EndsRefusal::Indistinguishable { .. } => Vec::new(),
        },
    }
}

fn collect_culprit_evidence(
    planned: &PlannedSearch<'_>,
    steady: &mut Steady,
    culprit: u32,
    flaky: bool,
    listener: &mut SearchListener<'_>,
) -> Result<Culprit, BisectError> {
    let bisection = planned.bisection;
    let parents = planned.plan.graph.followed(culprit, bisection.first_parent).to_vec();
    let first = parents.first().copied();
    let shown_by = match planned.plan.direction {
        Direction::Repairs => first.unwrap_or(culprit),
        Direction::Breaks | Direction::Changes => culprit,
    };
    let seen = if flaky {
        steady.seen.get(&planned.variant(shown_by)).cloned().unwrap_or_default()
    } else {
        judge_culprit(planned, shown_by)?
    };
    let before = first.and_then(|parent| steady.seen.get(&planned.variant(parent)));
    let after = steady.seen.get(&planned.variant(culprit));
    let (Some(before), Some(after)) = (before, after) else {
        return culprit_without_parents(planned, culprit, seen);
    };
    let pairs = before.observations.iter().zip(&after.observations);
    let launches = pairs.flat_map(|(before, after)| {
        let both_outcomes = before.outcome.as_ref().zip(after.outcome.as_ref());
        both_outcomes.map(|(b, a)| diff_launches(&b.launches, &a.launches)).unwrap_or_default()
    });
    let launches = launches.collect();
    let diff = diff_with_parent(planned, culprit)?;
    // A program takes too long for a test that the answer does without.
    if !flaky && bisection.has_cheap_replays() && bisection.along.is_history() {
        test_the_suspect(planned, steady, culprit, listener)?;
    }
    let ends: Vec<u32> =
        planned.plan.old.iter().chain(&planned.plan.new).map(|&end| planned.variant(end)).collect();
    let mut acquitted: Vec<u32> = steady
        .tested
        .iter()
        .filter(|&&(commit, answer)| {
            planned.plan.direction.swapped(answer) == TestAnswer::Good
                && !ends.contains(&planned.variant(commit))
                && changes_bits(steady.seen.get(&planned.variant(commit)))
        })
        .map(|&(commit, _)| commit)
        .collect();
    acquitted.sort_unstable();
    acquitted.dedup();
    let accesses = check_culprit_accesses(planned, culprit, first)?;
    let pictures = draw_culprit_pictures(planned, culprit)?;
    Ok(Culprit {
        commit: culprit,
        seen,
        pictures,
        accesses,
        gradients: Vec::new(),
        launches,
        diff,
        parents,
        acquitted,
    })
}

/// A culprit without tested parents: all of it is new.
fn culprit_without_parents(
    planned: &PlannedSearch<'_>,
    culprit: u32,
    seen: Seen,
) -> Result<Culprit, BisectError> {
    let diff = diff_with_parent(planned, culprit)?;
    let parents = planned.plan.graph.followed(culprit, planned.bisection.first_parent).to_vec();
    Ok(Culprit {
        commit: culprit,
        seen,
        pictures: draw_culprit_pictures(planned, culprit)?,
        accesses: check_culprit_accesses(planned, culprit, None)?,
        gradients: Vec::new(),
        launches: Vec::new(),
        diff,
        parents,
        acquitted: Vec::new(),
    })
}

/// Pictures of the outputs of `commit` on each fixture, if they were asked for.
fn draw_culprit_pictures(
    planned: &PlannedSearch<'_>,
    commit: u32,
) -> Result<Vec<(String, Vec<OutputPicture>)>, BisectError> {
    if !planned.bisection.illustrated {
        return Ok(Vec::new());
    }
    let sources = planned.sources(commit)?;
    let pictures_by_fixture = planned.probes.iter().zip(&sources).map(|(probe, sources)| {
        let pictures = probe.pictures(&planned.bisection.lab, sources)?;
        Ok((probe.subject().fixture.name.clone(), pictures))
    });
    pictures_by_fixture.collect::<Result<_, _>>().map_err(BisectError::Replay)
}

/// The new wrong accesses of the first bad end beside those of the good end, on each fixture with some. A
/// search for accesses has them already.
fn accesses_of_bad_end(
    planned: &PlannedSearch<'_>,
) -> Result<Vec<(String, Accesses)>, BisectError> {
    if matches!(planned.bisection.on, On::Race | On::Failed) {
        return Ok(Vec::new());
    }
    let mut found =
        check_culprit_accesses(planned, planned.plan.defective()[0], Some(planned.plan.trusted()))?;
    found.retain(|(_, accesses)| accesses.has_failures());
    Ok(found)
}

/// The wrong accesses of `commit` beside those of `parent`, on each fixture.
fn check_culprit_accesses(
    planned: &PlannedSearch<'_>,
    commit: u32,
    parent: Option<u32>,
) -> Result<Vec<(String, Accesses)>, BisectError> {
    let lab = &planned.bisection.lab;
    let own_sources = planned.sources(commit)?;
    let parent_sources = parent.map(|parent| planned.sources(parent)).transpose()?;
    let mut accesses_by_fixture = Vec::new();
    for (index, (probe, sources)) in planned.probes.iter().zip(&own_sources).enumerate() {
        let Sources::Found(sources) = sources else { continue };
        let trial = lab.placed_trial(probe.subject(), sources);
        let base = match parent_sources.as_ref().map(|per_target| &per_target[index]) {
            Some(Sources::Found(sources)) => Some(lab.placed_trial(probe.subject(), sources)),
            Some(Sources::Missing { .. }) | None => None,
        };
        let accesses = check_trial_accesses(&trial, base.as_ref(), planned.bisection.check);
        if let Some(accesses) = accesses.map_err(BisectError::Replay)? {
            accesses_by_fixture.push((probe.subject().fixture.name.clone(), accesses));
        }
    }
    Ok(accesses_by_fixture)
}

/// The culprit against the good end, element by element, even if its bits gave the verdict.
fn judge_culprit(planned: &PlannedSearch<'_>, commit: u32) -> Result<Seen, BisectError> {
    let sources = planned.sources(commit)?;
    let observations = planned.probes.iter().zip(&sources).map(|(probe, sources)| {
        let effort = planned.effort();
        let observation = probe.test(&planned.bisection.lab, sources, effort)?;
        // That of a commit with the same bits does for a program: another takes many of its runs.
        let is_judged = observation.judgement.is_some() && !planned.bisection.has_cheap_replays();
        match observation.verdict {
            Verdict::Diverged if planned.bisection.on.minds_values() && !is_judged => {
                probe.judge(&planned.bisection.lab, sources, effort)
            }
            _ => Ok(observation),
        }
    });
    Ok(Seen { observations: observations.collect::<Result<_, _>>().map_err(BisectError::Replay)? })
}

fn changes_bits(test_result: Option<&Seen>) -> bool {
    let verdicts = test_result
        .iter()
        .flat_map(|result| &result.observations)
        .map(|observation| observation.verdict);
    verdicts.max().is_some_and(|verdict| verdict > Verdict::Identical)
}

fn diff_with_parent(planned: &PlannedSearch<'_>, commit: u32) -> Result<String, BisectError> {
    planned.bisection.diff(&planned.commit(commit)?)
}

/// Tests the commit before the culprit with the largest diff, unless it was tested or there are many.
fn test_the_suspect(
    planned: &PlannedSearch<'_>,
    steady: &mut Steady,
    culprit: u32,
    listener: &mut SearchListener<'_>,
) -> Result<(), BisectError> {
    let graph = &planned.plan.graph;
    let first = (planned.plan.ids.len() - planned.plan.between) as u32;
    let is_ancestor = graph.ancestors(&[culprit], planned.bisection.first_parent);
    let mut suspects = Vec::new();
    for commit in first..culprit {
        let parents = graph.followed(commit, planned.bisection.first_parent);
        let changes_sources =
            parents.iter().all(|&parent| planned.variant(parent) != planned.variant(commit));
        if is_ancestor[commit as usize] && changes_sources {
            suspects.push(commit);
        }
    }
    if suspects.len() > FEW_VARIANTS {
        return Ok(());
    }
    let mut sizes = Vec::new();
    for commit in suspects {
        let diff = diff_with_parent(planned, commit)?;
        let lines = diff.lines().filter(|line| line.starts_with(['+', '-'])).count();
        sizes.push((lines, std::cmp::Reverse(commit)));
    }
    let Some((_, std::cmp::Reverse(suspect))) = sizes.into_iter().max() else { return Ok(()) };
    if steady.seen.contains_key(&planned.variant(suspect)) {
        return Ok(());
    }
    let commit = planned.commit(suspect)?;
    let state = steady.search.state();
    listener(Event::Started { commit: &commit, state: &state });
    let test_result =
        planned.test(suspect, &planned.bisection.lab)?().map_err(BisectError::Replay)?;
    let answer = test_result.answer(&steady.wanted);
    listener(Event::Tested { commit: &commit, answer, seen: &test_result, state: &state });
    steady.tested.push((suspect, answer));
    steady.seen.insert(planned.variant(suspect), test_result);
    Ok(())
}
