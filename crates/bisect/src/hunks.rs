//! The hunks of the culprit that carry the defect, and what becomes of the bad end without them.
//!
//! A set of hunks is tested on the culprit's parent as a commit is, for the symptoms of the search. The parent itself is
//! good, and the culprit bad, so these two are never tested again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::conclusion::SearchReport;
use super::direction::Direction;
use super::probe::{Seen, Sources};
use super::workers::{PlannedSearch, TestThreads};
use super::{BisectError, Bisection, Event, SearchListener, SearchTarget};
use replay_engine::judge::Verdict;
use replay_frontend::{SourceUnit, find_function_lines, is_same_code};
use replay_history::{Commit, Hunk, HunkConflict, HunkKind, HunkedChange, Merge, SourceSet};
use replay_search::{ChangeSet, Minimizer, Minimum, TestAnswer};

/// The most sets of hunks to name that carry the defect, each without the others.
const MOST_CARRIERS: usize = 3;

/// The endings of files of C++ among the files of a program.
const CODE_ENDINGS: [&str; 10] =
    [".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".inl"];

/// The tests that a brief search for hunks may take in any case.
const FEW_TESTS: usize = 12;

/// How the hunks of a culprit are searched.
#[derive(Clone, Debug)]
pub struct HunkSearch {
    /// Whether it may take about twice the tests that a search among the same commits takes, and no more.
    pub is_brief: bool,
    /// The revision from which the hunks are taken back; the bad end, if none is named.
    pub onto: Option<Commit>,
}

/// The culprit's hunks, in the numbers of their list.
pub struct HunkReport {
    pub hunks: Vec<Hunk>,
    /// Those of comments and white space.
    pub inert: ChangeSet,
    /// Those in files of a program that no replay opened.
    pub unopened: ChangeSet,
    /// How many more the commit has in files that are no sources.
    pub besides: usize,
    /// The smallest sets that carry the defect, each without the others.
    pub carriers: Vec<Carrier>,
    /// The answer of all hunks outside of `carriers` together; none where there are none, or the tests ran out.
    pub others: Option<TestAnswer>,
    /// The number of tests.
    pub tested: usize,
    /// The carriers, taken back from a later revision.
    pub way_back: Option<WayBack>,
}

/// Hunks that carry the defect.
pub struct Carrier {
    pub hunks: ChangeSet,
    /// Whether each of them is needed. Else the tests ran out.
    pub is_minimal: bool,
    /// The parent with these hunks.
    pub seen: Seen,
    /// Where there are several: the answer of the parent with one of them, and the result in detail; as far as it was tested.
    pub alone: Vec<(usize, TestAnswer, Seen)>,
}

/// The hunks that carry the defect, taken back from a revision.
pub struct WayBack {
    pub onto: Commit,
    pub result: WayBackResult,
    /// What was replayed, as a patch that `git apply` takes.
    pub patch: Vec<u8>,
}

/// What becomes of a revision without the hunks that carry the defect.
pub enum WayBackResult {
    /// They were taken back before.
    AlreadyBack,
    /// It lacks the sources.
    Missing { reason: String },
    /// It was changed in the same places.
    Conflicts(Vec<HunkConflict>),
    /// It was replayed.
    Replayed {
        answer: TestAnswer,
        seen: Box<Seen>,
        /// Whether it has the bits of the good side on every fixture.
        has_good_bits: bool,
    },
}

/// Why the hunks of a culprit cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkObstacle {
    /// It has no parent, or one without the sources.
    NoParent,
    /// Its parent cannot be tested.
    UntestableParent,
    /// Its verdict is not always the same.
    Unsteady,
}

/// The answer on the hunks of a culprit.
pub type HunkAnswer = Result<HunkReport, HunkObstacle>;

impl HunkReport {
    /// The hunks that may carry something.
    pub fn candidates(&self) -> ChangeSet {
        let all: ChangeSet = (0..self.hunks.len()).collect();
        &(&all - &self.inert) - &self.unopened
    }

    /// The hunks of all carriers.
    pub fn carried(&self) -> ChangeSet {
        self.carriers.iter().flat_map(|carrier| carrier.hunks.iter().copied()).collect()
    }
}

impl Bisection<'_> {
    /// Finds the hunks behind the culprit of `report`; none if there is none, or nobody asked.
    pub(super) fn search_hunks(
        &self,
        planned: &PlannedSearch<'_>,
        report: &SearchReport,
        listener: &mut SearchListener<'_>,
    ) -> Result<Option<HunkAnswer>, BisectError> {
        let (Some(options), Some(culprit)) = (&self.hunk_search, &report.culprit) else {
            return Ok(None);
        };
        if !self.along.is_history() {
            return Ok(None);
        }
        if report.flaky {
            return Ok(Some(Err(HunkObstacle::Unsteady)));
        }
        let Some(&parent) = culprit.parents.first() else {
            return Ok(Some(Err(HunkObstacle::NoParent)));
        };
        let after = found_sources(planned.sources(culprit.commit)?);
        let before = found_sources(planned.sources(parent)?);
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(Some(Err(HunkObstacle::NoParent)));
        };
        let results = [parent, culprit.commit].map(|commit| report.test_result(commit));
        let [Some(parent_result), Some(culprit_result)] = results else {
            return Ok(Some(Err(HunkObstacle::UntestableParent)));
        };
        let parent_answer = parent_result.answer(&report.wanted);
        if report.direction.swapped(parent_answer) != TestAnswer::Good {
            return Ok(Some(Err(HunkObstacle::UntestableParent)));
        }
        let tests = HunkTests {
            planned,
            report,
            change: HunkedChange::between(&set_references(&before), &set_references(&after))?,
            before,
            after,
        };
        let mut hunk_report =
            tests.find_carriers(options, listener, [parent_result, culprit_result])?;
        let commits = [planned.commit(parent)?, planned.commit(culprit.commit)?];
        hunk_report.besides = tests.count_besides(&commits)?;
        if report.direction != Direction::Repairs {
            let bad_end = planned.commit(planned.plan.defective()[0])?;
            let onto = options.onto.clone().unwrap_or(bad_end);
            hunk_report.way_back = Some(tests.take_back(onto, &hunk_report.carried())?);
        }
        Ok(Some(Ok(hunk_report)))
    }
}

/// The sources of all fixtures, if there are.
fn found_sources(sources: Vec<Sources>) -> Option<Vec<Arc<SourceSet>>> {
    let sources = sources.into_iter().map(|sources| match sources {
        Sources::Found(sources) => Some(sources.set),
        Sources::Missing { .. } => None,
    });
    sources.collect()
}

fn set_references(sets: &[Arc<SourceSet>]) -> Vec<&SourceSet> {
    sets.iter().map(|set| &**set).collect()
}

/// The tests of the culprit's hunks.
struct HunkTests<'a> {
    planned: &'a PlannedSearch<'a>,
    report: &'a SearchReport,
    change: HunkedChange,
    /// The sources of the culprit's parent, one set for each fixture.
    before: Vec<Arc<SourceSet>>,
    /// Those of the culprit.
    after: Vec<Arc<SourceSet>>,
}

impl HunkTests<'_> {
    fn find_carriers(
        &self,
        options: &HunkSearch,
        listener: &mut SearchListener<'_>,
        sides: [&Seen; 2],
    ) -> Result<HunkReport, BisectError> {
        let code_hunks = self.list_code_hunks();
        let hunks = self.change.hunks().to_vec();
        let mut hunk_report = HunkReport {
            inert: find_inert_hunks(&self.change, &code_hunks),
            unopened: self.find_unopened_hunks(sides),
            hunks,
            besides: 0,
            carriers: Vec::new(),
            others: None,
            tested: 0,
            way_back: None,
        };
        if hunk_report.candidates().is_empty() {
            // Something counts lines, or acts by unopened files.
            hunk_report.inert.clear();
            hunk_report.unopened.clear();
        }
        let mut left = hunk_report.candidates();
        let groups = group_by_function(&self.change, &code_hunks);
        let mut results: HashMap<ChangeSet, Seen> = HashMap::new();
        let mut tester = |sets: &[ChangeSet]| self.test_sets(sets, &mut results, listener);
        let jobs = self.planned.bisection.jobs.get();
        let mut minimizer = Minimizer::new(&mut tester, jobs, self.most_tests(options));
        let mut minima: Vec<Minimum> = Vec::new();
        while !left.is_empty() && minima.len() < MOST_CARRIERS {
            if !minima.is_empty() {
                hunk_report.others = minimizer.test(&left)?;
                if hunk_report.others != Some(TestAnswer::Bad) {
                    break;
                }
            }
            let own_groups = groups.iter().map(|group| group & &left);
            let own_groups: Vec<ChangeSet> = own_groups.filter(|group| !group.is_empty()).collect();
            let minimum = minimizer.minimize(&own_groups)?;
            left = &left - &minimum.changes;
            hunk_report.others = None;
            minima.push(minimum);
        }
        if minima.len() == MOST_CARRIERS && !left.is_empty() {
            hunk_report.others = minimizer.test(&left)?;
        }
        let answers: HashMap<usize, TestAnswer> = hunk_report
            .candidates()
            .into_iter()
            .filter_map(|hunk| Some((hunk, minimizer.known_answer(&ChangeSet::from([hunk]))?)))
            .collect();
        hunk_report.tested = minimizer.tested();
        let all = hunk_report.candidates();
        for Minimum { changes, is_minimal } in minima {
            let seen = if changes == all { Some(self.shown_by_culprit()) } else { None };
            let seen = seen.or_else(|| results.get(&changes).cloned()).unwrap_or_default();
            let alone = changes.iter().filter(|_| changes.len() > 1).filter_map(|&hunk| {
                let result = results.get(&ChangeSet::from([hunk]))?;
                Some((hunk, *answers.get(&hunk)?, result.clone()))
            });
            let alone = alone.collect();
            hunk_report.carriers.push(Carrier { hunks: changes, is_minimal, seen, alone });
        }
        Ok(hunk_report)
    }

    /// The most tests. They depend on the commits alone, not on what an earlier search left in the cache.
    fn most_tests(&self, options: &HunkSearch) -> usize {
        let rounds = usize::BITS - self.planned.plan.between.leading_zeros();
        // The ends, the parents and the suspect are tested as well.
        let of_search = rounds as usize + 4;
        if options.is_brief { FEW_TESTS.max(2 * of_search) } else { usize::MAX }
    }

    /// What the culprit itself shows.
    fn shown_by_culprit(&self) -> Seen {
        let culprit = self.report.culprit.as_ref();
        culprit.map(|culprit| culprit.seen.clone()).unwrap_or_default()
    }

    /// Tests the parent with each of `sets`, side by side.
    fn test_sets(
        &self,
        sets: &[ChangeSet],
        results: &mut HashMap<ChangeSet, Seen>,
        listener: &mut SearchListener<'_>,
    ) -> Result<Vec<TestAnswer>, BisectError> {
        let mut workers = TestThreads::new();
        for (number, set) in sets.iter().enumerate() {
            listener(Event::StartedHunks { hunks: set.len(), of: self.change.hunks().len() });
            let sources =
                self.before.iter().zip(&self.after).map(|(before, after)| {
                    self.place_sources(self.change.apply(before, after, set))
                });
            let lab = &self.planned.bisection.lab;
            let test = self.planned.test_sources(sources.collect(), lab, false);
            workers.start(number as u32, test);
        }
        let mut answers = vec![TestAnswer::Skip; sets.len()];
        while let Some((number, seen)) = workers.wait()? {
            let number = number as usize;
            let answer = seen.answer(&self.report.wanted);
            let hunks: Vec<&Hunk> =
                sets[number].iter().map(|&hunk| &self.change.hunks()[hunk]).collect();
            listener(Event::TestedHunks { hunks: &hunks, answer, seen: &seen });
            answers[number] = self.report.direction.swapped(answer);
            results.insert(sets[number].clone(), seen);
        }
        Ok(answers)
    }

    /// Takes `hunks` back from `onto`, and replays the result.
    fn take_back(&self, onto: Commit, hunks: &ChangeSet) -> Result<WayBack, BisectError> {
        let bisection = self.planned.bisection;
        let mut sets = Vec::new();
        for target in &bisection.targets {
            match Sources::read(bisection.history, onto.id, &target.spec)? {
                Sources::Found(sources) => sets.push(sources.set),
                Sources::Missing { reason, .. } => {
                    let result = WayBackResult::Missing { reason };
                    return Ok(WayBack { onto, result, patch: Vec::new() });
                }
            }
        }
        let reversal = match self.change.reverse(&set_references(&sets), hunks)? {
            Merge::Clean(reversal) if reversal.is_empty() => {
                let result = WayBackResult::AlreadyBack;
                return Ok(WayBack { onto, result, patch: Vec::new() });
            }
            Merge::Clean(reversal) => reversal,
            Merge::Conflict(conflicts) => {
                let result = WayBackResult::Conflicts(conflicts);
                return Ok(WayBack { onto, result, patch: Vec::new() });
            }
        };
        let sources = sets
            .iter()
            .zip(&self.before)
            .map(|(onto, before)| self.place_sources(reversal.apply(onto, before)));
        let test = self.planned.test_sources(sources.collect(), &bisection.lab, false);
        let seen = Box::new(test()?);
        let answer = seen.answer(&self.report.wanted);
        let has_good_bits = seen.untestable().is_none() && seen.verdict() == Verdict::Identical;
        let patch = reversal.format_patch(self.prefix())?;
        let result = WayBackResult::Replayed { answer, seen, has_good_bits };
        Ok(WayBack { onto, result, patch })
    }

    /// `set` in the environment of the search.
    fn place_sources(&self, set: SourceSet) -> Sources {
        let sources = Sources::Found(Arc::new(set).into());
        sources.in_environment(self.planned.bisection.along.environment())
    }

    /// The folder of the project in the repository.
    fn prefix(&self) -> &str {
        let targets = &self.planned.bisection.targets;
        targets.first().map_or("", |target| target.spec.prefix.as_str())
    }

    fn count_besides(&self, [parent, culprit]: &[Commit; 2]) -> Result<usize, BisectError> {
        let read: Vec<&SourceSet> =
            self.before.iter().chain(&self.after).map(|set| &**set).collect();
        let history = self.planned.bisection.history;
        Ok(history.count_hunks_besides([parent, culprit], &read, self.prefix())?)
    }

    /// The hunks in files of C++.
    fn list_code_hunks(&self) -> ChangeSet {
        let is_code: fn(&SearchTarget) -> bool =
            |target| target.subject.fixture.harness.program.is_none();
        let are_kernels = self.planned.bisection.targets.iter().any(is_code);
        let hunks = self.change.hunks().iter().enumerate();
        let code_hunks = hunks.filter(|(_, hunk)| {
            are_kernels || CODE_ENDINGS.iter().any(|ending| hunk.path.ends_with(ending))
        });
        code_hunks.map(|(number, _)| number).collect()
    }

    /// The hunks in files that neither the parent's nor the culprit's replays opened, if these tell. New names show without
    /// being opened.
    fn find_unopened_hunks(&self, sides: [&Seen; 2]) -> ChangeSet {
        let mut opened: BTreeSet<&str> = BTreeSet::new();
        for observation in sides.iter().flat_map(|seen| &seen.observations) {
            match &observation.opened {
                Some(files) => opened.extend(files.iter().map(String::as_str)),
                None => return ChangeSet::new(),
            }
        }
        let hunks = self.change.hunks().iter().enumerate();
        let unopened = hunks.filter(|(_, hunk)| {
            hunk.kind == HunkKind::Lines && !opened.contains(hunk.path.as_str())
        });
        unopened.map(|(number, _)| number).collect()
    }
}

/// What the hunks of a group have in common.
#[derive(PartialEq, Eq)]
enum GroupKey<'h> {
    File(&'h str),
    /// The file of a function, and its first line.
    Function(&'h str, usize),
    Alone(usize),
}

/// All hunks: those of a function together, others of C++ by themselves; else those of a file together.
fn group_by_function(change: &HunkedChange, code_hunks: &ChangeSet) -> Vec<ChangeSet> {
    let hunks = change.hunks();
    let mut groups: Vec<(GroupKey<'_>, ChangeSet)> = Vec::new();
    let all: ChangeSet = (0..hunks.len()).collect();
    let mut functions: Option<(&str, Vec<std::ops::Range<usize>>)> = None;
    for (number, hunk) in hunks.iter().enumerate() {
        let key = if !code_hunks.contains(&number) {
            GroupKey::File(&hunk.path)
        } else {
            if functions.as_ref().is_none_or(|(path, _)| *path != hunk.path) {
                let text = change.file_text(number, &all).unwrap_or_default();
                let unit = SourceUnit { path: &hunk.path, text: &text };
                functions = Some((hunk.path.as_str(), find_function_lines(&unit)));
            }
            let known_functions = functions.iter().flat_map(|(_, ranges)| ranges);
            let mut around = known_functions.filter(|lines| {
                lines.start < hunk.new.end.max(hunk.new.start + 1) && hunk.new.start < lines.end
            });
            match around.next() {
                Some(lines) => GroupKey::Function(&hunk.path, lines.start),
                None => GroupKey::Alone(number),
            }
        };
        match groups.iter_mut().find(|(known_key, _)| *known_key == key) {
            Some((_, group)) => _ = group.insert(number),
            None => groups.push((key, ChangeSet::from([number]))),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The hunks among `code_hunks` that change nothing but comments and white space: neither on the way from the parent, nor
/// on the way to the culprit, nor together.
fn find_inert_hunks(change: &HunkedChange, code_hunks: &ChangeSet) -> ChangeSet {
    let all: ChangeSet = (0..change.hunks().len()).collect();
    let are_inert = |hunks: &ChangeSet, kept: &ChangeSet| {
        let number = hunks.first().copied().unwrap_or_default();
        let texts = [change.file_text(number, kept), change.file_text(number, &(kept | hunks))];
        let [Some(without), Some(with)] = texts else { return false };
        is_same_code(&without, &with)
    };
    let mut inert_by_file: HashMap<&str, ChangeSet> = HashMap::new();
    for &number in code_hunks {
        let hunk = &change.hunks()[number];
        let own = ChangeSet::from([number]);
        let is_inert = hunk.kind == HunkKind::Lines
            && are_inert(&own, &ChangeSet::new())
            && are_inert(&own, &(&all - &own));
        if is_inert {
            inert_by_file.entry(&hunk.path).or_default().insert(number);
        }
    }
    let proven = inert_by_file.into_values().filter(|hunks| are_inert(hunks, &(&all - hunks)));
    proven.flatten().collect()
}

#[cfg(test)]
mod tests;
