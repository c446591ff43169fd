//! What speaks for the answer: the culprit's judgement, its parents, its change, and who is
//! acquitted.

use std::collections::{BTreeSet, HashMap};

use super::drive::Field;
use super::log::{LogReport, survey_between};
use super::plan::Plan;
use super::probe::Seen;
use super::steady::{self, Pass, Steady};
use super::symptom::{On, Symptom};
use super::{Event, Hunt, HuntError, Listener, Trusted, flaky};
use crate::history::{Commit, SourceSpec};
use crate::judge::{LaunchChange, Verdict, launch_changes};
use crate::search::{Answer, Conclusion, Refusal, Warning};

/// In a history of at most this many variants the acquitted commit that changed most is tested
/// even if the search needs no test of it: it is the one that people suspect.
const FEW_VARIANTS: usize = 12;

/// What a search found.
pub struct Report {
    /// The conclusion; commits are numbers, see [`Report::commit`].
    pub conclusion: Conclusion,
    /// What the user should know besides.
    pub warnings: Vec<Warning>,
    /// The commits that were tested, in the order of their answers.
    pub tested: Vec<Tested>,
    /// What makes a commit bad.
    pub on: On,
    /// What was searched for.
    pub wanted: BTreeSet<Symptom>,
    /// What speaks against the culprit, if there is one.
    pub culprit: Option<Culprit>,
    /// Where the outputs change, if they change more than once.
    pub log: Option<LogReport>,
    /// Whether commits were compared with recorded snapshots: the good ends are then no claim of
    /// the user's.
    pub recorded: bool,
    /// Whether tests were repeated because their verdicts differed.
    pub flaky: bool,
    commits: HashMap<u32, Commit>,
    seen: HashMap<u32, Seen>,
}

/// A test that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested {
    /// The commit.
    pub commit: u32,
    /// What it showed.
    pub answer: Answer,
}

/// What speaks against a commit.
pub struct Culprit {
    /// The commit.
    pub commit: u32,
    /// What it shows, compared with the good end.
    pub seen: Seen,
    /// The launches that it changed, since its first parent.
    pub launches: Vec<LaunchChange>,
    /// What it changed in the sources, since its first parent.
    pub diff: String,
    /// Its parents.
    pub parents: Vec<u32>,
    /// Commits that changed something too, and are innocent.
    pub acquitted: Vec<u32>,
}

/// How a search ends, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a culprit.
    Found,
    /// With several commits that may be the culprit.
    Hidden,
    /// The ends or the history do not allow an answer.
    Refused,
}

impl Report {
    /// What commit number `commit` is, for every number in this report.
    pub fn commit(&self, commit: u32) -> Option<&Commit> {
        self.commits.get(&commit)
    }

    /// What the test of `commit` showed.
    pub fn seen(&self, commit: u32) -> Option<&Seen> {
        self.seen.get(&commit)
    }

    /// How the search ended.
    pub fn ending(&self) -> Ending {
        match self.conclusion {
            Conclusion::Found { .. } | Conclusion::Probable { .. } => Ending::Found,
            Conclusion::Hidden { .. } => Ending::Hidden,
            Conclusion::NotMonotone { .. } | Conclusion::Refused(_) => Ending::Refused,
        }
    }
}

impl Hunt<'_> {
    /// Searches for the first bad commit between `good` and `bad` ends; neither may be empty.
    ///
    /// # Errors
    /// [`HuntError`] if the machine, the fixtures or the repository are at fault; what is wrong
    /// with commits or ends is in the report.
    pub fn search(
        &self,
        good: &[Commit],
        bad: &[Commit],
        listener: &mut Listener<'_>,
    ) -> Result<Report, HuntError> {
        self.lab.backend().expect_many();
        let plan = Plan::new(self.history, &self.targets, good, bad)?;
        let field = Field::new(self, plan)?;
        match steady::run(&field, listener)? {
            Pass::Done(steady) => conclude(&field, *steady, false, listener),
            Pass::Flaky(commit) => {
                listener(Event::Flaky { commit: &field.commit(commit)? });
                let plan = Plan::new(self.history, &self.targets, good, bad)?;
                let field = Field::new(self, plan)?;
                let found = flaky::run(&field, listener)?;
                conclude(&field, found, true, listener)
            }
        }
    }
}

fn conclude(
    field: &Field<'_>,
    mut steady: Steady,
    flaky: bool,
    listener: &mut Listener<'_>,
) -> Result<Report, HuntError> {
    let conclusion = match steady.search.outcome() {
        Some(conclusion) => conclusion,
        // Nothing is left to test and nothing was found: whatever is between the ends may be it.
        None => Conclusion::Hidden { candidates: field.plan.bad.clone() },
    };
    let culprit = match conclusion {
        Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. } => {
            Some(accuse(field, &mut steady, culprit, flaky, listener)?)
        }
        _ => None,
    };
    let log = match &conclusion {
        Conclusion::NotMonotone { .. } => Some(survey_between(field)?),
        _ => None,
    };
    let warnings = steady.search.warnings();
    let tested: Vec<Tested> =
        steady.tested.iter().map(|&(commit, answer)| Tested { commit, answer }).collect();
    let mut numbers: BTreeSet<u32> = tested.iter().map(|tested| tested.commit).collect();
    numbers.extend(mentioned(&conclusion));
    numbers.extend(warnings.iter().map(warned_of));
    numbers.extend(field.plan.good.iter().chain(&field.plan.bad));
    if let Some(culprit) = &culprit {
        numbers.extend(culprit.parents.iter().chain(&culprit.acquitted));
    }
    let commit = |&number: &u32| Ok((number, field.commit(number)?));
    let commits = numbers.iter().map(commit).collect::<Result<_, HuntError>>()?;
    let shown = |&number: &u32| Some((number, steady.seen.get(&field.variant(number))?.clone()));
    let seen = numbers.iter().filter_map(shown).collect();
    Ok(Report {
        on: field.hunt.on,
        conclusion,
        warnings,
        tested,
        wanted: steady.wanted,
        culprit,
        log,
        recorded: matches!(field.hunt.trusted, Trusted::Snapshots(_)),
        flaky,
        commits,
        seen,
    })
}

/// The commit that a warning is about.
fn warned_of(warning: &Warning) -> u32 {
    match *warning {
        Warning::UntestableMergeBase { base } => base,
        Warning::Contradiction { commit } => commit,
        Warning::Unexplained { bad } => bad,
    }
}

/// The commits that a conclusion names.
fn mentioned(conclusion: &Conclusion) -> Vec<u32> {
    match conclusion {
        Conclusion::Found { culprit, unconfirmed_parents } => {
            [&[*culprit], unconfirmed_parents.as_slice()].concat()
        }
        Conclusion::Probable { culprit, .. } => vec![*culprit],
        Conclusion::Hidden { candidates } => candidates.clone(),
        Conclusion::NotMonotone { commit, bad_parents } => {
            [&[*commit], bad_parents.as_slice()].concat()
        }
        Conclusion::Refused(refusal) => match refusal {
            Refusal::SameVariant { good, bad } | Refusal::Reversed { good, bad } => {
                vec![*good, *bad]
            }
            Refusal::EndsDisagree { good_is_bad, bad_is_good } => {
                [good_is_bad.as_slice(), bad_is_good].concat()
            }
            Refusal::UntestableEnds { ends } => ends.clone(),
            Refusal::BadMergeBase { base } => vec![*base],
            Refusal::Indistinguishable { .. } => Vec::new(),
        },
    }
}

fn accuse(
    field: &Field<'_>,
    steady: &mut Steady,
    culprit: u32,
    flaky: bool,
    listener: &mut Listener<'_>,
) -> Result<Culprit, HuntError> {
    let hunt = field.hunt;
    let seen = match flaky {
        true => steady.seen.get(&field.variant(culprit)).cloned().unwrap_or_default(),
        false => judged(field, culprit)?,
    };
    let parents = field.plan.graph.followed(culprit, hunt.first_parent).to_vec();
    let first = parents.first().copied();
    let before = first.and_then(|parent| steady.seen.get(&field.variant(parent)));
    let launches = match before {
        Some(before) => before.sights.iter().zip(&seen.sights).flat_map(|(b, g)| {
            let both = b.outcome.as_ref().zip(g.outcome.as_ref());
            both.map(|(b, g)| launch_changes(&b.launches, &g.launches)).unwrap_or_default()
        }),
        None => return accuse_root(field, culprit, seen),
    };
    let launches = launches.collect();
    let diff = diff(field, culprit)?;
    if !flaky {
        test_the_suspect(field, steady, culprit, listener)?;
    }
    let ends: Vec<u32> =
        field.plan.good.iter().chain(&field.plan.bad).map(|&end| field.variant(end)).collect();
    let mut acquitted: Vec<u32> = steady
        .tested
        .iter()
        .filter(|&&(commit, answer)| {
            answer == Answer::Good
                && !ends.contains(&field.variant(commit))
                && changes_bits(steady.seen.get(&field.variant(commit)))
        })
        .map(|&(commit, _)| commit)
        .collect();
    acquitted.sort_unstable();
    acquitted.dedup();
    Ok(Culprit { commit: culprit, seen, launches, diff, parents, acquitted })
}

/// A culprit without tested parents: all of it is new.
fn accuse_root(field: &Field<'_>, culprit: u32, seen: Seen) -> Result<Culprit, HuntError> {
    let diff = diff(field, culprit)?;
    let parents = field.plan.graph.followed(culprit, field.hunt.first_parent).to_vec();
    Ok(Culprit {
        commit: culprit,
        seen,
        launches: Vec::new(),
        diff,
        parents,
        acquitted: Vec::new(),
    })
}

/// The culprit against the good end, element by element, also where its bits said enough.
fn judged(field: &Field<'_>, commit: u32) -> Result<Seen, HuntError> {
    let sources = field.sources(commit)?;
    let sights = field.probes.iter().zip(&sources).map(|(probe, sources)| {
        let orders = field.orders.get();
        let sight = probe.test(&field.hunt.lab, sources, orders)?;
        match sight.verdict {
            Verdict::Diverged => probe.judge(&field.hunt.lab, sources, orders),
            _ => Ok(sight),
        }
    });
    Ok(Seen { sights: sights.collect::<Result<_, _>>().map_err(HuntError::Replay)? })
}

fn changes_bits(seen: Option<&Seen>) -> bool {
    let verdicts = seen.iter().flat_map(|seen| &seen.sights).map(|sight| sight.verdict);
    verdicts.max().is_some_and(|verdict| verdict > Verdict::Identical)
}

fn diff(field: &Field<'_>, commit: u32) -> Result<String, HuntError> {
    let commit = field.commit(commit)?;
    let history = field.hunt.history;
    let parent = commit.parents.first().and_then(|&parent| history.commit(parent).ok());
    Ok(history.diff(parent.as_ref(), &commit, &all_sources(field))?)
}

/// The sources of all fixtures together.
fn all_sources(field: &Field<'_>) -> SourceSpec {
    let mut all = SourceSpec::default();
    for target in &field.hunt.targets {
        all.prefix.clone_from(&target.spec.prefix);
        for (from, to) in
            [(&target.spec.sources, &mut all.sources), (&target.spec.include, &mut all.include)]
        {
            for path in from.iter().filter(|path| !to.contains(path)).cloned().collect::<Vec<_>>() {
                to.push(path);
            }
        }
    }
    all
}

/// Tests the commit before the culprit that changed most, unless it was tested or there are many.
fn test_the_suspect(
    field: &Field<'_>,
    steady: &mut Steady,
    culprit: u32,
    listener: &mut Listener<'_>,
) -> Result<(), HuntError> {
    let graph = &field.plan.graph;
    let first = (field.plan.ids.len() - field.plan.between) as u32;
    let before = graph.ancestors(&[culprit], field.hunt.first_parent);
    let changes = |commit: u32| {
        let parents = graph.followed(commit, field.hunt.first_parent);
        parents.iter().all(|&parent| field.variant(parent) != field.variant(commit))
    };
    let suspects: Vec<u32> =
        (first..culprit).filter(|&commit| before[commit as usize] && changes(commit)).collect();
    if suspects.len() > FEW_VARIANTS {
        return Ok(());
    }
    let mut sizes = Vec::new();
    for commit in suspects {
        let diff = diff(field, commit)?;
        let lines = diff.lines().filter(|line| line.starts_with(['+', '-'])).count();
        sizes.push((lines, std::cmp::Reverse(commit)));
    }
    let Some((_, std::cmp::Reverse(suspect))) = sizes.into_iter().max() else { return Ok(()) };
    if steady.seen.contains_key(&field.variant(suspect)) {
        return Ok(());
    }
    let (commit, state) = (field.commit(suspect)?, steady.search.state());
    listener(Event::Started { commit: &commit, state: &state });
    let seen = field.test(suspect, &field.hunt.lab)?().map_err(HuntError::Replay)?;
    let answer = seen.answer(&steady.wanted);
    listener(Event::Tested { commit: &commit, answer, seen: &seen, state: &state });
    steady.tested.push((suspect, answer));
    steady.seen.insert(field.variant(suspect), seen);
    Ok(())
}
