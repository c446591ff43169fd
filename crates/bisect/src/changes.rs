//! The changes of outputs over a range of commits. Each commit is compared with the one before it.

mod view;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::captured::{CapturedBy, find_captured};
use super::lineage::{Lineage, build_range_lineage};
use super::range::Range;
use super::workers::PlannedSearch;
use super::{BisectError, Bisection, On, SearchTarget};
use replay_engine::judge::{Accesses, Judgement, OutputPicture, Verdict};
use replay_engine::trial::{AccessCheck, Failure, Status};
use replay_history::{Commit, CommitId, History};
use replay_search::survey_graph;
use view::FixtureSurvey;

/// Where the outputs change in a range of commits.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// Commits in the range.
    pub commits: usize,
    /// Variants in the range, testable or not.
    pub variants: usize,
    /// A commit of each untestable variant, in topological order.
    #[serde(skip)]
    pub untestable: Vec<UntestedCommit>,
    /// The changes, in topological order of their commits.
    #[serde(skip)]
    pub changes: Vec<LogChange>,
    /// Commits with changed sources and the same outputs on all fixtures, whatever their messages announce.
    #[serde(skip)]
    pub acquitted: Vec<Commit>,
    /// The failures of those, in topological order: they fail as the commits before them.
    #[serde(skip)]
    pub failing: Vec<FailingCommit>,
    /// Variants untestable on all fixtures.
    pub untested: usize,
    /// For each fixture with captured outputs: the commits with the same outputs.
    #[serde(skip)]
    pub captured: Vec<CapturedBy>,
    /// The commits of the range as a graph, if it was asked for.
    #[serde(skip)]
    pub lineage: Option<Lineage>,
    /// Variants whose accesses to memory could not be checked, on each fixture, and why the first of them
    /// could not.
    pub unchecked: Option<(usize, String)>,
    /// Whether races were left out, since accesses to memory were not to be checked.
    pub without_races: bool,
}

/// An untestable commit.
#[derive(Clone, Debug)]
pub struct UntestedCommit {
    /// The fixture's name.
    pub fixture: String,
    pub commit: Commit,
    pub reason: String,
}

/// A commit that fails as the one before it.
#[derive(Clone, Debug)]
pub struct FailingCommit {
    /// The fixture's name.
    pub fixture: String,
    pub commit: Commit,
    pub failure: Failure,
}

/// A change of the outputs of a fixture.
#[derive(Clone, Debug)]
pub struct LogChange {
    /// The fixture's name.
    pub fixture: String,
    pub commit: Commit,
    /// The base of the comparison: its parent, or the last testable commit before that.
    pub base: Commit,
    /// The parent itself, if it is untestable.
    pub skipped: Option<Commit>,
    /// The judgement on the change.
    pub judgement: Judgement,
    /// Pictures of its outputs beside those of `base`, if they were asked for and it is worse.
    pub pictures: Vec<OutputPicture>,
    /// The wrong accesses to memory on both sides, if both were checked.
    pub accesses: Option<Accesses>,
    /// Outputs with a new dependence on the order of blocks and threads.
    pub ordered: Vec<String>,
    /// Outputs without their former dependence on the order of blocks and threads.
    pub settled: Vec<String>,
    /// Outputs made wrong, by measures without trust in `base`: a gradient leaves its loss, an output moves
    /// away from the oracle.
    pub broken: Vec<String>,
    /// Gradients in agreement with their loss for the first time.
    pub mended: Vec<String>,
    /// The earlier change taken back, if there is one.
    pub repair: Option<Repair>,
}

impl LogChange {
    /// The verdict on outputs and accesses together.
    pub fn verdict(&self) -> Verdict {
        let has_new = self.accesses.as_ref().is_some_and(Accesses::has_failures);
        self.judgement.verdict.max(if has_new { Verdict::Failed } else { Verdict::Identical })
    }

    /// Whether the commit completes where the one before it failed.
    pub fn completes(&self) -> bool {
        let base = &self.judgement.base.status;
        let got = &self.judgement.got.status;
        matches!((base, got), (Status::Failed(_), Status::Completed))
    }

    /// Whether something is beyond noise or wrong, and nothing earlier explains it.
    pub fn is_worse(&self) -> bool {
        let repaired = self.repair.is_some() || !self.mended.is_empty() || self.completes();
        self.verdict() >= Verdict::Diverged && !repaired
    }
}

/// The reversal of an earlier change.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The commit of the earlier change.
    pub of: Commit,
    /// A commit before `of`; the outputs agree with it again.
    pub like: Commit,
    /// Whether they agree to the bit or within noise.
    pub verdict: Verdict,
    /// Whether the earlier change is known to be a defect.
    pub of_defect: bool,
}

/// Looks at the commits of `range`, in the syntax of `git log`. `progress` hears of every replayed variant, and
/// of the number of all.
///
/// # Errors
/// [`BisectError`], if the machine, the fixtures or the repository are at fault.
pub fn survey_range(
    bisection: &Bisection<'_>,
    range: &str,
    progress: &mut dyn FnMut(&Commit, usize, usize),
) -> Result<LogReport, BisectError> {
    bisection.has_room()?;
    bisection.lab.backend().expect_many();
    let commits = bisection.history.range(range)?;
    let commits: Vec<(CommitId, Vec<CommitId>)> =
        commits.into_iter().map(|commit| (commit.id, commit.parents)).collect();
    let report = survey_commits(bisection, bisection.check, &commits, progress)?;
    let without_races = bisection.check == AccessCheck::Off && bisection.lab.backend().has_orders();
    Ok(LogReport { without_races, ..report })
}

/// Looks at the commits between the ends of a search.
pub(super) fn survey_between(planned: &PlannedSearch<'_>) -> Result<LogReport, BisectError> {
    let plan = &planned.plan;
    let first = plan.ids.len() - plan.between;
    let mut commits: Vec<(CommitId, Vec<CommitId>)> = Vec::new();
    for index in first..plan.ids.len() {
        let parents = plan.graph.parents(index as u32).iter();
        let parents = parents.map(|&parent| plan.ids[parent as usize]).collect();
        commits.push((plan.ids[index], parents));
    }
    // Only a search for races has checked accesses already.
    let check =
        if planned.bisection.on == On::Race { AccessCheck::Always } else { AccessCheck::Off };
    survey_commits(planned.bisection, check, &commits, &mut |_, _, _| {})
}

fn survey_commits(
    bisection: &Bisection<'_>,
    check: AccessCheck,
    commits: &[(CommitId, Vec<CommitId>)],
    progress: &mut dyn FnMut(&Commit, usize, usize),
) -> Result<LogReport, BisectError> {
    let range = Range::new(bisection.history, &bisection.targets, commits)?;
    let (include, exclude) = range.ends();
    let work = survey_graph(&range.graph, &include, &exclude, bisection.first_parent);
    let mut changes = Vec::new();
    let mut acquitted = Vec::new();
    let mut failing = Vec::new();
    let mut untestable = Vec::new();
    let mut untested: BTreeSet<u32> = work.runs.iter().copied().collect();
    let mut unchecked = Vec::new();
    let mut captured = Vec::new();
    for target in &bisection.targets {
        let mut view = FixtureSurvey::new(bisection, check, target, &range);
        view.replay(&work.runs, progress)?;
        let untestable_runs = view.untestable_runs(&work.runs)?;
        untested.retain(|run| untestable_runs.iter().any(|(number, _)| number == run));
        // Commits outside of the range are only compared with.
        let runs_in_range =
            untestable_runs.into_iter().filter(|(number, _)| *number >= range.first);
        untestable.extend(runs_in_range.map(|(_, untestable_commit)| untestable_commit));
        changes.extend(view.changes(&work.edges)?);
        captured.extend(find_captured(bisection, target, &view.replayed()?)?);
        acquitted.append(&mut view.acquitted);
        failing.append(&mut view.failing);
        unchecked.extend(work.runs.iter().filter_map(|&run| view.unchecked(run)));
    }
    let place: HashMap<CommitId, usize> = range.ids.iter().copied().zip(0..).collect();
    changes.sort_by_key(|change| place[&change.commit.id]);
    acquitted.retain(|commit: &Commit| changes.iter().all(|change| change.commit.id != commit.id));
    acquitted.sort_by_key(|commit| place[&commit.id]);
    acquitted.dedup_by_key(|commit| commit.id);
    failing.retain(|failing: &FailingCommit| {
        acquitted.iter().any(|commit| commit.id == failing.commit.id)
    });
    failing.sort_by_key(|failing| place[&failing.commit.id]);
    untestable
        .sort_by_key(|untestable_commit: &UntestedCommit| place[&untestable_commit.commit.id]);
    let lineage = if bisection.illustrated {
        Some(build_range_lineage(bisection, &range, &changes, &acquitted, &untestable)?)
    } else {
        None
    };
    Ok(LogReport {
        lineage,
        commits: commits.len(),
        variants: work.runs.len(),
        untestable,
        changes,
        acquitted,
        failing,
        untested: untested.len(),
        captured,
        unchecked: unchecked.first().cloned().map(|reason| (unchecked.len(), reason)),
        without_races: false,
    })
}

/// Lists the replays and comparisons for a log of `commits`.
pub(super) fn log_work(
    history: &History,
    targets: &[SearchTarget],
    commits: &[(CommitId, Vec<CommitId>)],
    first_parent: bool,
) -> Result<LogWork, BisectError> {
    let range = Range::new(history, targets, commits)?;
    let (include, exclude) = range.ends();
    let work = survey_graph(&range.graph, &include, &exclude, first_parent);
    let mut run_of_variant: HashMap<u32, CommitId> = HashMap::new();
    for &run in &work.runs {
        run_of_variant.insert(range.variant(run), range.ids[run as usize]);
    }
    let mut steps = Vec::new();
    for (commit, parent) in work.edges {
        steps.push(LogStep {
            commit: range.ids[commit as usize],
            before: run_of_variant.get(&range.variant(parent)).copied(),
            after: run_of_variant.get(&range.variant(commit)).copied(),
        });
    }
    Ok(LogWork { runs: work.runs.iter().map(|&run| range.ids[run as usize]).collect(), steps })
}

/// Judges the changes of `commit` on one fixture, and leaves the judgements in the cache.
pub(super) fn judge_commit(
    bisection: &Bisection<'_>,
    target: &SearchTarget,
    commits: &[(CommitId, Vec<CommitId>)],
    commit: CommitId,
) -> Result<(), BisectError> {
    let range = Range::new(bisection.history, &bisection.targets, commits)?;
    let (include, exclude) = range.ends();
    let work = survey_graph(&range.graph, &include, &exclude, bisection.first_parent);
    let mut view = FixtureSurvey::new(bisection, bisection.check, target, &range);
    for &(child, parent) in work.edges.iter().filter(|edge| range.ids[edge.0 as usize] == commit) {
        // Whether it takes an earlier change back is for those who see all of them.
        view.change(child, parent, &mut Vec::new())?;
    }
    Ok(())
}

/// The work of a log.
pub struct LogWork {
    /// A commit of each replayed variant.
    pub runs: Vec<CommitId>,
    /// The pairs of commits to judge where their replays differ.
    pub steps: Vec<LogStep>,
}

/// A commit to compare with a parent.
pub struct LogStep {
    pub commit: CommitId,
    /// The run of the parent's variant; none if the log makes none.
    pub before: Option<CommitId>,
    /// The run of the commit's variant.
    pub after: Option<CommitId>,
}
