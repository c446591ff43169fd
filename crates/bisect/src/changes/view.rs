//! The replays of one fixture over a range of commits, and the changes between them.

use std::collections::{BTreeSet, HashMap};

use super::{FailingCommit, LogChange, Repair, UntestedCommit};
use crate::captured;
use crate::probe::{Sources, describe_misfit};
use crate::range::Range;
use crate::replayed::{Attempt, VariantReplay, accesses_agree, is_unchanged_replay};
use crate::workers::TestThreads;
use crate::{BisectError, Bisection, SearchTarget};
use replay_engine::backend::ReplayError;
use replay_engine::judge::{
    Accesses, GradientVerdict, Judgement, OutputJudgement, OutputPicture, Story, Verdict,
    check_gradients, draw_output_pictures, judge_trial,
};
use replay_engine::trial::{AccessCheck, CheckedReplay, Status, Trial};
use replay_history::Commit;
use replay_numerics::oracle::Finding;

/// A diverged commit, and the commit before it.
type DivergenceEdge = (u32, u32);

/// One fixture in a range.
pub(super) struct FixtureSurvey<'a> {
    bisection: &'a Bisection<'a>,
    check: AccessCheck,
    target: &'a SearchTarget,
    range: &'a Range,
    sources: HashMap<u32, Sources>,
    /// By variant: its replay, or why it cannot be tested.
    replays: HashMap<u32, Result<VariantReplay, String>>,
    /// By variant: the error of one that imports what this machine lacks.
    lacking: HashMap<u32, ReplayError>,
    /// For each commit, the divergences on the way to it.
    trail: HashMap<u32, Vec<DivergenceEdge>>,
    /// Commits whose change is known to be a defect.
    defects: BTreeSet<u32>,
    /// Commits without a changed output.
    pub(super) acquitted: Vec<Commit>,
    /// Those of them that fail as the commits before them.
    pub(super) failing: Vec<FailingCommit>,
    /// The base of the last comparison: the next commit often needs it too.
    trusted: Option<Trial>,
}

impl<'a> FixtureSurvey<'a> {
    pub(super) fn new(
        bisection: &'a Bisection<'a>,
        check: AccessCheck,
        target: &'a SearchTarget,
        range: &'a Range,
    ) -> FixtureSurvey<'a> {
        FixtureSurvey {
            bisection,
            check,
            target,
            range,
            sources: HashMap::new(),
            replays: HashMap::new(),
            lacking: HashMap::new(),
            trail: HashMap::new(),
            defects: BTreeSet::new(),
            acquitted: Vec::new(),
            failing: Vec::new(),
            trusted: None,
        }
    }

    fn variant(&self, commit: u32) -> u32 {
        self.range.variant(commit)
    }

    fn commit(&self, commit: u32) -> Result<Commit, BisectError> {
        Ok(self.bisection.history.commit(self.range.ids[commit as usize])?)
    }

    fn sources(&mut self, commit: u32) -> Result<Sources, BisectError> {
        let variant = self.variant(commit);
        if let Some(known_sources) = self.sources.get(&variant) {
            return Ok(known_sources.clone());
        }
        let id = self.range.ids[commit as usize];
        let sources = Sources::read(self.bisection.history, id, &self.target.spec)?;
        self.sources.insert(variant, sources.clone());
        Ok(sources)
    }

    /// Replays every variant of `runs`, several at a time.
    pub(super) fn replay(
        &mut self,
        runs: &[u32],
        progress: &mut dyn FnMut(&Commit, usize, usize),
    ) -> Result<(), BisectError> {
        let mut workers: TestThreads<Attempt> = TestThreads::new();
        for (done_count, &commit) in runs.iter().enumerate() {
            progress(&self.commit(commit)?, done_count, runs.len());
            while workers.running() >= self.bisection.jobs.get() {
                self.collect(&mut workers)?;
            }
            match self.sources(commit)? {
                Sources::Found(sources) => {
                    let trial = self.bisection.lab.placed_trial(&self.target.subject, &sources);
                    let check = self.check;
                    workers.start(commit, move || VariantReplay::attempt(&trial, check));
                }
                Sources::Missing { reason, .. } => self.keep(commit, Err(reason)),
            }
        }
        while workers.running() > 0 {
            self.collect(&mut workers)?;
        }
        if self.replays.values().any(Result::is_ok) {
            return Ok(());
        }
        let any_error = self.lacking.drain().next();
        any_error.map_or(Ok(()), |(_, error)| Err(error.into()))
    }

    fn collect(&mut self, workers: &mut TestThreads<Attempt>) -> Result<(), BisectError> {
        if let Some((commit, attempt)) = workers.wait()? {
            self.keep_attempt(commit, attempt);
        }
        Ok(())
    }

    fn keep_attempt(&mut self, commit: u32, attempt: Attempt) {
        match attempt {
            Attempt::Replayed(replayed) => self.keep(commit, replayed),
            Attempt::LacksModule(error) => {
                self.keep(commit, Err(error.to_string()));
                self.lacking.insert(self.variant(commit), error);
            }
        }
    }

    /// Remembers the replay of the variant of `commit`, or why there is none.
    fn keep(&mut self, commit: u32, replayed: Result<VariantReplay, String>) {
        self.replays.insert(self.variant(commit), replayed);
    }

    /// The replays of the commits of the range, in topological order.
    pub(super) fn replayed(&self) -> Result<Vec<captured::ReplayedCommit<'_>>, BisectError> {
        let mut replayed = Vec::new();
        for commit in self.range.first..self.range.ids.len() as u32 {
            let variant = self.variant(commit);
            let Some(Ok(replay)) = self.replays.get(&variant) else { continue };
            let commit = self.commit(commit)?;
            let outcome = &replay.outcome;
            replayed.push(captured::ReplayedCommit { commit, variant, outcome, compared: true });
        }
        Ok(replayed)
    }

    /// The untestable ones among `runs`.
    pub(super) fn untestable_runs(
        &self,
        runs: &[u32],
    ) -> Result<Vec<(u32, UntestedCommit)>, BisectError> {
        let mut untestable = Vec::new();
        for &run in runs {
            if let Some(Err(reason)) = self.replays.get(&self.variant(run)) {
                let untested_commit = UntestedCommit {
                    fixture: self.target.subject.fixture.name.clone(),
                    commit: self.commit(run)?,
                    reason: reason.clone(),
                };
                untestable.push((run, untested_commit));
            }
        }
        Ok(untestable)
    }

    /// Why the accesses of `run` could not be checked, though they were to be.
    pub(super) fn unchecked(&self, run: u32) -> Option<String> {
        let replay = self.replays.get(&self.variant(run))?.as_ref().ok()?;
        match replay.checked.as_ref()? {
            CheckedReplay::Not { reason } => Some(reason.clone()),
            CheckedReplay::Done { .. } => None,
        }
    }

    /// The outcome of `commit`, replayed if the survey did not.
    fn outcome(&mut self, commit: u32) -> Result<Option<VariantReplay>, BisectError> {
        let variant = self.variant(commit);
        if !self.replays.contains_key(&variant) {
            match self.sources(commit)? {
                Sources::Found(sources) => {
                    let trial = self.bisection.lab.placed_trial(&self.target.subject, &sources);
                    self.keep_attempt(commit, VariantReplay::attempt(&trial, self.check)?);
                }
                Sources::Missing { reason, .. } => self.keep(commit, Err(reason)),
            }
        }
        Ok(self.replays[&variant].as_ref().ok().cloned())
    }

    pub(super) fn changes(
        &mut self,
        edges: &[DivergenceEdge],
    ) -> Result<Vec<LogChange>, BisectError> {
        let mut changes = Vec::new();
        let mut edges = edges.iter().copied().peekable();
        for commit in self.range.first..self.range.ids.len() as u32 {
            let parents = self.range.graph.followed(commit, self.bisection.first_parent).to_vec();
            let inherited = parents.iter().filter_map(|parent| self.trail.get(parent)).flatten();
            let mut trail: Vec<DivergenceEdge> = Vec::new();
            for &step in inherited {
                if !trail.contains(&step) {
                    trail.push(step);
                }
            }
            let mut steps = Vec::new();
            while let Some((_, parent)) = edges.next_if(|edge| edge.0 == commit) {
                steps.push(parent);
            }
            for parent in steps {
                changes.extend(self.change(commit, parent, &mut trail)?);
            }
            self.trail.insert(commit, trail);
        }
        Ok(changes)
    }

    /// The change of `commit` since `parent`, if there is one.
    pub(super) fn change(
        &mut self,
        commit: u32,
        parent: u32,
        trail: &mut Vec<DivergenceEdge>,
    ) -> Result<Option<LogChange>, BisectError> {
        let base = self.last_testable(parent)?;
        let (Some(before), Some(after)) = (self.outcome(base)?, self.outcome(commit)?) else {
            return self.untestable(commit, parent);
        };
        if is_unchanged_replay(&before, &after) {
            self.acquitted.push(self.commit(commit)?);
            if let Status::Failed(failures) = after.outcome.status
                && let Some(failure) = failures.into_iter().next()
            {
                let fixture = self.target.subject.fixture.name.clone();
                let commit = self.commit(commit)?;
                self.failing.push(FailingCommit { fixture, commit, failure });
            }
            return Ok(None);
        }
        let (judgement, pictures) = self.judge(base, commit, self.bisection.illustrated)?;
        let accesses = after.accesses(&before);
        let has_new = accesses.as_ref().is_some_and(Accesses::has_failures);
        let is_mended = accesses.as_ref().is_some_and(|accesses| !accesses.gone.is_empty());
        let mut settled = before.ordered.clone();
        settled.retain(|name| after.has_output(name) && !after.ordered.contains(name));
        // Only completed replays are repeated in other orders.
        let mut ordered = after.ordered.clone();
        ordered.retain(|name| {
            before.outcome.status == Status::Completed && !before.ordered.contains(name)
        });
        let (broken, mended) = self.find_broken_and_mended(base, commit, &judgement)?;
        let fails = judgement.verdict == Verdict::Failed || has_new;
        if fails || !broken.is_empty() || new_order(&judgement) {
            self.defects.insert(commit);
        }
        let repair = match judgement.verdict {
            Verdict::Diverged | Verdict::Failed => self.repair(commit, trail)?,
            _ if !settled.is_empty() || is_mended => self.repair(commit, trail)?,
            _ => None,
        };
        // A later commit should not take back the mending of a gradient.
        let is_worse = judgement.verdict >= Verdict::Diverged || has_new;
        if repair.is_none() && is_worse && mended.is_empty() {
            trail.push((commit, base));
        }
        Ok(Some(LogChange {
            fixture: self.target.subject.fixture.name.clone(),
            commit: self.commit(commit)?,
            base: self.commit(base)?,
            skipped: if base == parent { None } else { Some(self.commit(parent)?) },
            judgement,
            pictures,
            accesses,
            ordered,
            settled,
            broken,
            mended,
            repair,
        }))
    }

    /// The outputs broken and mended by `commit`, by measures without trust in `base`: gradients against their
    /// loss on both sides, and the oracle.
    fn find_broken_and_mended(
        &self,
        base: u32,
        commit: u32,
        judgement: &Judgement,
    ) -> Result<(Vec<String>, Vec<String>), BisectError> {
        let fixture = &self.target.subject.fixture;
        let diverged = judgement.outputs.iter().filter(|o| o.story.verdict() == Verdict::Diverged);
        let diverged: Vec<&OutputJudgement> = diverged.collect();
        let wrong =
            diverged.iter().filter(|output| output.by_oracle && is_further_off(&output.story));
        let mut broken: Vec<String> = wrong.map(|output| output.name.clone()).collect();
        let mut mended = Vec::new();
        let mut gradients = fixture.outputs.iter().filter(|output| output.gradient_of.is_some());
        let has_diverged_gradient =
            gradients.any(|gradient| diverged.iter().any(|output| output.name == gradient.name));
        if has_diverged_gradient
            && let (Some(Sources::Found(before)), Some(Sources::Found(after))) =
                (self.sources.get(&self.variant(base)), self.sources.get(&self.variant(commit)))
        {
            let lab = &self.bisection.lab;
            let old_checks = check_gradients(&lab.placed_trial(&self.target.subject, before))?;
            let new_checks = check_gradients(&lab.placed_trial(&self.target.subject, after))?;
            for (old, new) in old_checks.iter().zip(&new_checks) {
                match (old.story.verdict(), new.story.verdict()) {
                    (GradientVerdict::Mismatch, GradientVerdict::Matches) => {
                        mended.push(new.output.clone());
                    }
                    (GradientVerdict::Matches, GradientVerdict::Mismatch)
                        if !broken.contains(&new.output) =>
                    {
                        broken.push(new.output.clone());
                    }
                    _ => {}
                }
            }
        }
        Ok((broken, mended))
    }

    /// The change from a testable `parent` to an untestable `commit`; a run of these is told once.
    fn untestable(&mut self, commit: u32, parent: u32) -> Result<Option<LogChange>, BisectError> {
        let is_listed_only = self.lacking.contains_key(&self.variant(commit));
        if is_listed_only || self.outcome(commit)?.is_some() || self.outcome(parent)?.is_none() {
            return Ok(None);
        }
        let (Sources::Found(_), Sources::Found(_)) = (self.sources(parent)?, self.sources(commit)?)
        else {
            return Ok(None);
        };
        let mut judgement = self.judge(parent, commit, false)?.0;
        if let Some(misfit) = judgement.got.call_misfit() {
            let reason = describe_misfit(misfit);
            judgement.verdict = Verdict::Untestable;
            judgement.got.status = Status::Untestable { reason, causes: Vec::new(), hint: None };
        }
        Ok(Some(LogChange {
            fixture: self.target.subject.fixture.name.clone(),
            commit: self.commit(commit)?,
            base: self.commit(parent)?,
            skipped: None,
            judgement,
            pictures: Vec::new(),
            accesses: None,
            ordered: Vec::new(),
            settled: Vec::new(),
            broken: Vec::new(),
            mended: Vec::new(),
            repair: None,
        }))
    }

    /// The first testable one of `commit` and its first parents; itself if there is none.
    fn last_testable(&mut self, commit: u32) -> Result<u32, BisectError> {
        let mut ancestor = commit;
        while self.outcome(ancestor)?.is_none() {
            match self.range.graph.parents(ancestor).first() {
                Some(&parent) => ancestor = parent,
                None => return Ok(commit),
            }
        }
        Ok(ancestor)
    }

    /// The judgement on `commit` by `base`, with pictures where it is worse and they are wanted.
    fn judge(
        &mut self,
        base: u32,
        commit: u32,
        illustrated: bool,
    ) -> Result<(Judgement, Vec<OutputPicture>), BisectError> {
        let (Sources::Found(before), Sources::Found(after)) =
            (self.sources(base)?, self.sources(commit)?)
        else {
            unreachable!("what was replayed has sources")
        };
        let lab = &self.bisection.lab;
        let subject = &self.target.subject;
        // Frees the memory of another trusted trial before the next one takes its own.
        self.trusted =
            self.trusted.take().filter(|trusted_trial| trusted_trial.sources().id == before.set.id);
        let trusted = self.trusted.get_or_insert_with(|| lab.placed_trial(subject, &before));
        let trial = lab.placed_trial(subject, &after);
        let judgement = judge_trial(trusted, &trial)?.without_inherited_failures();
        let needs_pictures = illustrated && judgement.verdict >= Verdict::Diverged;
        let pictures =
            if needs_pictures { draw_output_pictures(Some(trusted), &trial)? } else { Vec::new() };
        Ok((judgement, pictures))
    }

    /// The last divergence of `trail` taken back by `commit`; it and later ones leave the trail.
    fn repair(
        &mut self,
        commit: u32,
        trail: &mut Vec<DivergenceEdge>,
    ) -> Result<Option<Repair>, BisectError> {
        for index in (0..trail.len()).rev() {
            let (changed_commit, like) = trail[index];
            let verdict = match (self.outcome(like)?, self.outcome(commit)?) {
                (Some(before), Some(after)) if is_unchanged_replay(&before, &after) => {
                    Verdict::Identical
                }
                (Some(before), Some(after)) if !accesses_agree(&before, &after) => continue,
                (Some(_), Some(_)) => self.judge(like, commit, false)?.0.verdict,
                _ => continue,
            };
            if verdict.agrees() {
                trail.truncate(index);
                let of_defect = self.defects.contains(&changed_commit);
                let of = self.commit(changed_commit)?;
                let like = self.commit(like)?;
                return Ok(Some(Repair { of, like, verdict, of_defect }));
            }
        }
        Ok(None)
    }
}

/// Whether an output moved away from its oracle by more than rounding worse.
fn is_further_off(story: &Story) -> bool {
    match story.finding() {
        Some(Finding::Wrong | Finding::LessAccurate) => true,
        Some(Finding::Imprecise | Finding::MoreAccurate | Finding::AsAccurate) | None => false,
    }
}

/// Whether an output has a new dependence on the order of blocks and threads.
fn new_order(judgement: &Judgement) -> bool {
    judgement.outputs.iter().any(|output| matches!(output.story, Story::OrderDependent(_)))
}
