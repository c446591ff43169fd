//! The hunks of the culprit that carry the defect, and what becomes of the bad end without them.
//!
//! A set of hunks is tested on the culprit's parent as a commit is, for the symptoms of the search. The parent itself is
//! good, and the culprit bad, so these two are never tested again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::whole_change::WholeChange;
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
    /// The smallest set that moves the outputs as the whole commit does, where no carrier does.
    pub as_commit: Option<Carrier>,
    /// The answer of all hunks outside of these sets together; none where there are none, or the tests ran out.
    pub others: Option<TestAnswer>,
    /// The number of tests.
    pub tested: usize,
    /// These sets, taken back from a later revision.
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

    /// The hunks of all sets that carry the defect.
    pub fn carried(&self) -> ChangeSet {
        let sets = self.carriers.iter().chain(&self.as_commit);
        sets.flat_map(|carrier| carrier.hunks.iter().copied()).collect()
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

/// Sets of hunks with their answers; none is tested twice.
struct TestedSets<'a, 'l> {
    tests: &'a HunkTests<'a>,
    listener: &'a mut SearchListener<'l>,
    most_tests: usize,
    results: HashMap<ChangeSet, (TestAnswer, Seen)>,
}

impl TestedSets<'_, '_> {
    /// The answers of `sets`, in their order.
    fn answer(&mut self, sets: &[ChangeSet]) -> Result<Vec<TestAnswer>, BisectError> {
        let mut open_sets = sets.to_vec();
        open_sets.retain(|set| !self.results.contains_key(set));
        let results = self.tests.test_sets(&open_sets, self.listener)?;
        self.results.extend(open_sets.into_iter().zip(results));
        Ok(sets.iter().map(|set| self.results[set].0).collect())
    }

    /// The answer of `set`; none if it is empty, or the tests ran out.
    fn answer_one(&mut self, set: &ChangeSet) -> Result<Option<TestAnswer>, BisectError> {
        let is_open = !self.results.contains_key(set);
        if set.is_empty() || is_open && self.tests_left() == 0 {
            return Ok(None);
        }
        Ok(self.answer(std::slice::from_ref(set))?.pop())
    }

    fn tests_left(&self) -> usize {
        self.most_tests - self.results.len()
    }

    /// The answers of `sets` to the question whether they move the outputs as the whole commit does.
    fn compare(
        &mut self,
        sets: &[ChangeSet],
        whole: &WholeChange<'_>,
    ) -> Result<Vec<TestAnswer>, BisectError> {
        let mut answers = self.answer(sets)?;
        for (set, answer) in sets.iter().zip(&mut answers) {
            if *answer == TestAnswer::Bad && !whole.is_made_by(set, &self.results[set].1)? {
                *answer = TestAnswer::Good;
            }
        }
        Ok(answers)
    }

    fn describe(&self, minimum: Minimum, candidates: &ChangeSet) -> Carrier {
        let Minimum { changes, is_minimal } = minimum;
        let seen = match self.results.get(&changes) {
            Some((_, seen)) => seen.clone(),
            None if changes == *candidates => self.tests.shown_by_culprit(),
            None => Seen::default(),
        };
        let alone = changes.iter().filter(|_| changes.len() > 1).filter_map(|&hunk| {
            let (answer, seen) = self.results.get(&ChangeSet::from([hunk]))?;
            Some((hunk, *answer, seen.clone()))
        });
        let alone = alone.collect();
        Carrier { hunks: changes, is_minimal, seen, alone }
    }
}

impl HunkTests<'_> {
    fn find_carriers(
        &self,
        options: &HunkSearch,
        listener: &mut SearchListener<'_>,
        sides: [&Seen; 2],
    ) -> Result<HunkReport, BisectError> {
        let code_hunks = self.list_code_hunks();
        let mut hunk_report = HunkReport {
            inert: find_inert_hunks(&self.change, &code_hunks),
            unopened: self.find_unopened_hunks(sides),
            hunks: self.change.hunks().to_vec(),
            besides: 0,
            carriers: Vec::new(),
            as_commit: None,
            others: None,
            tested: 0,
            way_back: None,
        };
        if hunk_report.candidates().is_empty() {
            // Something counts lines, or acts by unopened files.
            hunk_report.inert.clear();
            hunk_report.unopened.clear();
        }
        let candidates = hunk_report.candidates();
        let groups = group_by_function(&self.change, &code_hunks);
        let most_tests = self.most_tests(options);
        let results = HashMap::new();
        let mut sets = TestedSets { tests: self, listener, most_tests, results };
        let mut minima = self.find_smallest_sets(&mut sets, &groups, &candidates)?;
        let as_commit = self.find_set_like_commit(&mut sets, &groups, &candidates, &mut minima)?;
        hunk_report.carriers =
            minima.into_iter().map(|minimum| sets.describe(minimum, &candidates)).collect();
        hunk_report.as_commit = as_commit.map(|minimum| sets.describe(minimum, &candidates));
        hunk_report.others = sets.answer_one(&(&candidates - &hunk_report.carried()))?;
        hunk_report.tested = sets.results.len();
        Ok(hunk_report)
    }

    /// The smallest sets among `candidates` that carry the defect, each without those before it.
    fn find_smallest_sets(
        &self,
        sets: &mut TestedSets<'_, '_>,
        groups: &[ChangeSet],
        candidates: &ChangeSet,
    ) -> Result<Vec<Minimum>, BisectError> {
        let mut left = candidates.clone();
        let most_tests = sets.most_tests;
        let mut tester = |tested: &[ChangeSet]| sets.answer(tested);
        let jobs = self.planned.bisection.jobs.get();
        let mut minimizer = Minimizer::new(&mut tester, jobs, most_tests);
        let mut minima: Vec<Minimum> = Vec::new();
        while !left.is_empty() && minima.len() < MOST_CARRIERS {
            if !minima.is_empty() && minimizer.test(&left)? != Some(TestAnswer::Bad) {
                break;
            }
            let minimum = minimizer.minimize(&restrict_groups(groups, &left))?;
            left = &left - &minimum.changes;
            minima.push(minimum);
        }
        Ok(minima)
    }

    /// The smallest set among `candidates` that moves the outputs as the whole commit does; none where the tests ran out before
    /// anything could be left out, or where one of `minima` does, which is put before the others.
    fn find_set_like_commit(
        &self,
        sets: &mut TestedSets<'_, '_>,
        groups: &[ChangeSet],
        candidates: &ChangeSet,
        minima: &mut [Minimum],
    ) -> Result<Option<Minimum>, BisectError> {
        let is_whole = |minimum: &Minimum| minimum.changes == *candidates;
        if self.report.direction == Direction::Repairs || minima.iter().any(is_whole) {
            return Ok(None);
        }
        let whole = WholeChange::of_commit(self);
        let smallest_sets: Vec<ChangeSet> =
            minima.iter().map(|minimum| minimum.changes.clone()).collect();
        let are_alike = sets.compare(&smallest_sets, &whole)?;
        if let Some(place) = are_alike.iter().position(|answer| *answer == TestAnswer::Bad) {
            minima[..=place].rotate_right(1);
            return Ok(None);
        }
        let Some(core) = smallest_sets.first() else { return Ok(None) };
        let known_sets: Vec<ChangeSet> = sets.results.keys().cloned().collect();
        let known_answers = sets.compare(&known_sets, &whole)?;
        let tests_left = sets.tests_left();
        let mut tester = |tested: &[ChangeSet]| sets.compare(tested, &whole);
        let jobs = self.planned.bisection.jobs.get();
        let mut minimizer = Minimizer::new(&mut tester, jobs, tests_left);
        for (set, answer) in known_sets.into_iter().zip(known_answers) {
            minimizer.learn(set, answer);
        }
        // Several defects are in each other's numbers.
        let all_minima: ChangeSet = smallest_sets.iter().flatten().copied().collect();
        let start = match minimizer.test(&all_minima)? {
            Some(TestAnswer::Bad) => &all_minima,
            _ => candidates,
        };
        let others = restrict_groups(groups, &(start - core));
        let minimum = minimizer.minimize_around(core, &others)?;
        let is_of_use = minimum.is_minimal || !is_whole(&minimum);
        Ok(is_of_use.then_some(minimum))
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

    /// The sources of the parent with the hunks of `set`, one for each fixture.
    fn set_sources(&self, set: &ChangeSet) -> Vec<Sources> {
        let sides = self.before.iter().zip(&self.after);
        let sources =
            sides.map(|(before, after)| self.place_sources(self.change.apply(before, after, set)));
        sources.collect()
    }

    /// Tests the parent with each of `sets`, side by side.
    fn test_sets(
        &self,
        sets: &[ChangeSet],
        listener: &mut SearchListener<'_>,
    ) -> Result<Vec<(TestAnswer, Seen)>, BisectError> {
        let mut workers = TestThreads::new();
        for (number, set) in sets.iter().enumerate() {
            listener(Event::StartedHunks { hunks: set.len(), of: self.change.hunks().len() });
            let lab = &self.planned.bisection.lab;
            let test = self.planned.test_sources(self.set_sources(set), lab, false);
            workers.start(number as u32, test);
        }
        let mut results = vec![(TestAnswer::Skip, Seen::default()); sets.len()];
        while let Some((number, seen)) = workers.wait()? {
            let number = number as usize;
            let answer = seen.answer(&self.report.wanted);
            let hunks: Vec<&Hunk> =
                sets[number].iter().map(|&hunk| &self.change.hunks()[hunk]).collect();
            listener(Event::TestedHunks { hunks: &hunks, answer, seen: &seen });
            results[number] = (self.report.direction.swapped(answer), seen);
        }
        Ok(results)
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

/// The parts of `groups` in `hunks`.
fn restrict_groups(groups: &[ChangeSet], hunks: &ChangeSet) -> Vec<ChangeSet> {
    let parts = groups.iter().map(|group| group & hunks);
    parts.filter(|part| !part.is_empty()).collect()
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

mod whole_change;

#[cfg(test)]
mod tests;
