//! Cuts one fixture: tests cuts by replays, and keeps the smallest one with the finding.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::judged::{Judged, find_worst, is_finding_kept, is_out_of_bounds, judge_findings};
use crate::value_needs::{EqualIndices, NewValues, ValueNeed, probe_value_needs};
use crate::values::{ElementHalves, list_simple_values};
use replay_base::cache::CacheError;
use replay_engine::backend::ReplayError;
use replay_engine::judge::{Finding, FindingKind};
use replay_engine::program::ProgramError;
use replay_engine::trial::{AccessCheck, Lab, Subject};
use replay_fixture::fixture::{
    CHOOSING_INPUT, CutInput, Cuttable, Fixture, FixtureError, InputCut, SimpleValues,
};
use replay_history::SourceSet;
use replay_search::{CutSize, Shrinker, SizeCut, SizeRule, TestAnswer, find_size_rule};

/// A fixture to be cut, and the revisions that show the finding on it.
pub struct FixtureShrinker<'a> {
    /// The whole fixture.
    pub fixture: &'a Fixture,
    pub sources: Arc<SourceSet>,
    /// The trusted revision; none where the finding is one of the revision alone.
    pub trusted: Option<Arc<SourceSet>>,
    /// The lab of the tries.
    pub lab: Arc<Lab>,
    /// A lab without the results of the cache: the smallest fixture is replayed there once more.
    pub fresh_lab: Arc<Lab>,
    /// The output whose finding is kept; the worst one by default.
    pub output: Option<String>,
    pub check: AccessCheck,
    pub most_tries: usize,
    /// Whether the user wants it to end.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// A cut that was tried. [`TestAnswer::Other`] means that the finding is there, and less than a tenth as far off.
pub struct TriedCut<'a> {
    /// The number of tries with it.
    pub tries: usize,
    /// The name and length of each size.
    pub sizes: Vec<(&'a str, usize)>,
    pub answer: TestAnswer,
    /// Why it says nothing, if so.
    pub untestable: Option<&'a str>,
}

/// Is told of each try.
pub type TryListener<'l> = dyn FnMut(&TriedCut<'_>) + 'l;

/// What became of a fixture.
#[derive(Debug)]
pub enum ShrinkAnswer {
    /// The whole fixture shows nothing, or nothing on the named output.
    NoFinding,
    /// The whole fixture cannot be tested.
    Untestable {
        reason: String,
    },
    /// Every cut loses the finding.
    NothingSmaller {
        finding: Finding,
        tries: usize,
        end: CutEnd,
    },
    /// The smallest fixture shows the finding in one replay, and not in the next.
    Unsteady {
        finding: Finding,
        tries: usize,
    },
    Cut(Box<CutReport>),
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutEnd {
    /// No try that was left could make the fixture smaller.
    Complete,
    OutOfTries,
    Interrupted,
}

/// The smallest fixture with the finding.
#[derive(Debug)]
pub struct CutReport {
    /// The finding on the whole fixture.
    pub finding: Finding,
    /// The same on the smallest one.
    pub kept: Finding,
    pub sizes: Vec<ShrunkSize>,
    /// The inputs with simple values.
    pub values: Vec<(String, SimpleValues)>,
    /// What the finding needs of the values that are left.
    pub needs: Vec<ValueNeed>,
    pub cut: InputCut,
    pub inputs: Vec<CutInput>,
    pub tries: usize,
    pub end: CutEnd,
}

/// A size before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct ShrunkSize {
    pub name: String,
    /// Slices, or the number, of the whole fixture.
    pub before: usize,
    /// The slices that are left; the first ones of a number.
    pub kept: Vec<usize>,
    pub has_slices: bool,
    /// The answers at other lengths, with all else as in the smallest fixture.
    pub tried: Vec<(usize, TestAnswer)>,
    /// The simplest rule that fits all tries; none where every length shows the finding.
    pub rule: Option<SizeRule>,
}

/// Why a fixture could not be cut.
#[derive(Debug, thiserror::Error)]
pub enum ShrinkError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Why a try has no answer.
enum TryError {
    Interrupted,
    Fault(Box<ShrinkError>),
}

impl<E: Into<ShrinkError>> From<E> for TryError {
    fn from(error: E) -> TryError {
        TryError::Fault(Box::new(error.into()))
    }
}

impl FixtureShrinker<'_> {
    /// Finds the smallest fixture.
    ///
    /// # Errors
    /// [`ShrinkError`] if the machine is at fault.
    pub fn shrink(&self, listener: &mut TryListener<'_>) -> Result<ShrinkAnswer, ShrinkError> {
        // Outputs of the whole fixture say nothing about those of a part.
        let whole = self.fixture.without_known_outputs();
        let judged = self.judge(Arc::new(Subject::new(whole)), &self.lab, None, false)?;
        let findings = match judged {
            Judged::Findings(findings) => findings,
            Judged::Untestable { reason } => return Ok(ShrinkAnswer::Untestable { reason }),
        };
        let is_asked_for =
            |finding: &Finding| self.output.is_none() || finding.output == self.output;
        let Some(finding) = find_worst(findings.into_iter().filter(is_asked_for).collect()) else {
            return Ok(ShrinkAnswer::NoFinding);
        };
        let search = CutSearch {
            shrinker: self,
            cuttable: self.fixture.list_cuttable()?,
            indexed: self.fixture.find_indexed_sizes()?,
            finding,
            listener,
            tries: 0,
            last_answer: None,
            answers: HashMap::new(),
            kept: HashMap::new(),
            best: None,
        };
        search.run()
    }

    fn judge(
        &self,
        subject: Arc<Subject>,
        lab: &Arc<Lab>,
        wanted: Option<&Finding>,
        probably_untestable: bool,
    ) -> Result<Judged, ReplayError> {
        let trial = lab.trial(&subject, &self.sources);
        let base = self.trusted.as_ref().map(|trusted| lab.trial(&subject, trusted));
        judge_findings(&trial, base.as_ref(), self.check, wanted, probably_untestable)
    }
}

/// The state of a search.
struct CutSearch<'s, 'l, 'f> {
    shrinker: &'s FixtureShrinker<'s>,
    cuttable: Vec<Cuttable>,
    indexed: IndexMap<String, Vec<String>>,
    finding: Finding,
    listener: &'l mut TryListener<'f>,
    tries: usize,
    /// Cuts that cannot be tested come in rows.
    last_answer: Option<TestAnswer>,
    answers: HashMap<InputCut, TestAnswer>,
    /// The finding on each cut that shows it.
    kept: HashMap<InputCut, Finding>,
    /// The cut to be written.
    best: Option<BestCut>,
}

/// What tries say of the smallest cut.
#[derive(Default)]
struct FoundNeeds {
    /// The tries around each size.
    sizes: Vec<Vec<(usize, TestAnswer)>>,
    values: Vec<ValueNeed>,
}

struct BestCut {
    cut: InputCut,
    lengths: Vec<Vec<usize>>,
    finding: Finding,
    /// Its elements, and the sum of its numbers.
    weight: [usize; 2],
}

impl CutSearch<'_, '_, '_> {
    fn run(mut self) -> Result<ShrinkAnswer, ShrinkError> {
        let mut needs = FoundNeeds::default();
        let mut end = CutEnd::Complete;
        match self.search(&mut needs) {
            Ok(is_out_of_tries) if is_out_of_tries => end = CutEnd::OutOfTries,
            Ok(_) => {}
            Err(TryError::Interrupted) => end = CutEnd::Interrupted,
            Err(TryError::Fault(error)) => return Err(*error),
        }
        let CutSearch { finding, tries, .. } = &self;
        let tries = *tries;
        let Some(best) = &self.best else {
            let finding = finding.clone();
            return Ok(ShrinkAnswer::NothingSmaller { finding, tries, end });
        };
        let inputs = self.cut_inputs(&best.cut)?;
        let confirmed = match end {
            CutEnd::Interrupted => Some(best.finding.clone()),
            CutEnd::Complete | CutEnd::OutOfTries => {
                match self.judge_cut(&best.cut, &inputs, &self.shrinker.fresh_lab) {
                    Err(_) if (self.shrinker.is_interrupted)() => {
                        end = CutEnd::Interrupted;
                        Some(best.finding.clone())
                    }
                    judged => match judged? {
                        CutJudgement::Kept(finding) => Some(finding),
                        CutJudgement::Gone | CutJudgement::Weaker | CutJudgement::Untestable(_) => {
                            None
                        }
                    },
                }
            }
        };
        let Some(kept) = confirmed else {
            return Ok(ShrinkAnswer::Unsteady { finding: finding.clone(), tries });
        };
        let sizes = self.cuttable.iter().enumerate().map(|(number, size)| {
            let tried: Vec<(usize, TestAnswer)> =
                needs.sizes.get(number).cloned().unwrap_or_default();
            let number_left = best.cut.numbers.iter().find(|(name, _)| *name == size.name);
            let kept = match number_left {
                Some((_, number)) => (0..*number).collect(),
                None => best.lengths[number].clone(),
            };
            ShrunkSize {
                name: size.name.clone(),
                before: size.count,
                rule: find_size_rule(kept.len(), &tried),
                kept,
                has_slices: size.has_slices,
                tried,
            }
        });
        Ok(ShrinkAnswer::Cut(Box::new(CutReport {
            finding: finding.clone(),
            kept,
            sizes: sizes.collect(),
            values: best.cut.values.clone(),
            needs: needs.values.clone(),
            cut: best.cut.clone(),
            inputs,
            tries,
            end,
        })))
    }

    /// Cuts sizes, then values, and fills `needs`. Whether the tries ran out.
    fn search(&mut self, needs: &mut FoundNeeds) -> Result<bool, TryError> {
        let sizes: Vec<CutSize> = self
            .cuttable
            .iter()
            .map(|size| {
                let first = self.find_first_slices(&size.name)?;
                Ok(CutSize { count: size.count, first, is_number: !size.has_slices })
            })
            .collect::<Result<_, FixtureError>>()?;
        let most_tries = self.shrinker.most_tries;
        let mut tester = |cut: &SizeCut| self.test(cut, &[]);
        let mut shrinker = Shrinker::new(&sizes, &mut tester, most_tries);
        let cut = shrinker.shrink()?;
        for size in 0..sizes.len() {
            needs.sizes.push(shrinker.probe_need(&cut, size)?);
        }
        let is_out_of_tries = shrinker.is_out_of_tries();
        self.settle(&cut, &[]);
        if is_out_of_tries {
            return Ok(true);
        }
        let mut values = Vec::new();
        if self.simplify_values(&cut, &mut values)? {
            return Ok(true);
        }
        needs.values = self.probe_values(&cut, &values)?;
        Ok(false)
    }

    /// The slices of `size` at the worst place; or, where that says nothing, those whose indices name it.
    fn find_first_slices(&self, size: &str) -> Result<Vec<usize>, FixtureError> {
        let place = &self.finding.place;
        if let Some((_, index)) = place.iter().find(|(name, _)| name == size) {
            return Ok(vec![*index]);
        }
        for (input, indexed) in &self.indexed {
            let named = place.iter().find(|(name, _)| indexed.contains(name));
            let Some((_, index)) = named else { continue };
            let slices = self.shrinker.fixture.slices_with_index(input, size, *index)?;
            if !slices.is_empty() {
                return Ok(slices);
            }
        }
        Ok(Vec::new())
    }

    /// Gives inputs simple values as far as the finding stays, and adds them to `values`. Whether the tries ran out.
    fn simplify_values(
        &mut self,
        sizes: &SizeCut,
        values: &mut Vec<NewValues>,
    ) -> Result<bool, TryError> {
        let harness = self.shrinker.fixture.harness.clone();
        let inputs = self.cut_inputs(&self.input_cut(sizes, &[]))?;
        for input in &inputs {
            let mut is_simple = false;
            for simple in list_simple_values(input, &harness) {
                if self.tries >= self.shrinker.most_tries {
                    return Ok(true);
                }
                let is_whole = simple == SimpleValues::Whole;
                values.push((input.name.clone(), simple));
                if self.test(sizes, values)? == TestAnswer::Bad {
                    self.settle(sizes, values);
                    is_simple = !is_whole;
                    break;
                }
                values.pop();
            }
            let spec = harness.inputs.get(&input.name);
            let is_free = spec.is_some_and(|spec| spec.constraint.is_none());
            if is_simple || !is_free {
                continue;
            }
            let mut halves = ElementHalves::new(input.shape.iter().product());
            let mut kept = None;
            while let Some(ranges) = halves.next_ranges() {
                let zeros = SimpleValues::ZerosAt(ranges);
                if self.tries >= self.shrinker.most_tries {
                    return Ok(true);
                }
                values.push((input.name.clone(), zeros.clone()));
                let is_kept = self.test(sizes, values)? == TestAnswer::Bad;
                if is_kept {
                    self.settle(sizes, values);
                }
                values.pop();
                halves.note(is_kept);
                if is_kept {
                    kept = Some(zeros);
                }
            }
            values.extend(kept.map(|zeros| (input.name.clone(), zeros)));
        }
        Ok(false)
    }

    /// What the finding needs of the values of the cut that is to be written: that of `sizes` and `values`.
    fn probe_values(
        &mut self,
        sizes: &SizeCut,
        values: &[NewValues],
    ) -> Result<Vec<ValueNeed>, TryError> {
        let cut = self.input_cut(sizes, values);
        if !self.kept.contains_key(&cut) {
            return Ok(Vec::new());
        }
        let harness = self.shrinker.fixture.harness.clone();
        let inputs = self.cut_inputs(&cut)?;
        // A run of a program takes a second: simple real numbers say too little for that.
        let is_slow = harness.program.is_some();
        let is_simple = |name: &str| {
            let simple = [SimpleValues::Zeros, SimpleValues::Ones];
            values.iter().any(|(known, new)| known == name && simple.contains(new))
        };
        let is_free = |input: &CutInput| {
            let is_number = input.name == CHOOSING_INPUT
                || cut.numbers.iter().any(|(name, _)| *name == input.name);
            let is_left = is_slow && input.dtype.is_float() && is_simple(&input.name);
            let spec = harness.inputs.get(&input.name);
            !is_number && !is_left && spec.is_some_and(|spec| spec.constraint.is_none())
        };
        let mut tester = |new_values: &[NewValues]| {
            if self.tries >= self.shrinker.most_tries {
                return Ok(None);
            }
            self.test(sizes, &[values, new_values].concat()).map(Some)
        };
        let mut needs = probe_value_needs(&inputs, &is_free, &mut tester)?;
        for input in inputs.iter().filter(|input| is_free(input)) {
            let is_told = needs.iter().any(|need| need.input == input.name);
            if !is_told && let Some(need) = self.probe_equal_indices(sizes, values, input)? {
                needs.push(need);
            }
        }
        Ok(needs)
    }

    /// Indices that are all the same, as a single slice is left of what they count along: whether the finding needs that,
    /// beside one slice more.
    fn probe_equal_indices(
        &mut self,
        sizes: &SizeCut,
        values: &[NewValues],
        input: &CutInput,
    ) -> Result<Option<ValueNeed>, TryError> {
        let Some(same) = EqualIndices::of(input) else { return Ok(None) };
        let indexed = self.indexed.get(&input.name).cloned().unwrap_or_default();
        let is_single = |(number, size): &(usize, &Cuttable)| {
            sizes[*number].len() == 1 && size.has_slices && indexed.contains(&size.name)
        };
        let single = self.cuttable.iter().enumerate().find(is_single);
        let Some((number, count)) = single.map(|(number, size)| (number, size.count)) else {
            return Ok(None);
        };
        let mut wider = sizes.clone();
        let left = sizes[number][0];
        wider[number] = if left + 1 < count { vec![left, left + 1] } else { vec![left - 1, left] };
        let all = |place: u8| [values, &[same.with_index(place)]].concat();
        for place in [0, 1] {
            let is_left = self.tries < self.shrinker.most_tries;
            if !is_left || self.test(&wider, &all(place))? != TestAnswer::Bad {
                return Ok(None);
            }
        }
        let last = [values, &[same.with_index(0), same.with_last_index(1)]].concat();
        let is_left = self.tries < self.shrinker.most_tries;
        let is_lost = is_left && self.test(&wider, &last)? == TestAnswer::Good;
        Ok(is_lost.then(|| same.need()))
    }

    /// What `sizes` and `values` mean for the inputs. A scalar near to a size never exceeds it.
    fn input_cut(&self, sizes: &SizeCut, values: &[NewValues]) -> InputCut {
        let mut cut = InputCut { values: values.to_vec(), ..InputCut::default() };
        for (size, slices) in self.cuttable.iter().zip(sizes) {
            if size.has_slices {
                cut.slices.push((size.name.clone(), slices.clone()));
                continue;
            }
            let limits = self.cuttable.iter().zip(sizes).filter_map(|(other, slices)| {
                size.below.contains(&other.name).then_some(slices.len())
            });
            let number = limits.chain([slices.len()]).min().unwrap_or(1);
            cut.numbers.push((size.name.clone(), number));
        }
        cut
    }

    fn cut_inputs(&self, cut: &InputCut) -> Result<Vec<CutInput>, FixtureError> {
        self.shrinker.fixture.cut_inputs(cut, &self.indexed)
    }

    fn test(&mut self, sizes: &SizeCut, values: &[NewValues]) -> Result<TestAnswer, TryError> {
        let cut = self.input_cut(sizes, values);
        if let Some(&answer) = self.answers.get(&cut) {
            return Ok(answer);
        }
        let inputs = self.cut_inputs(&cut)?;
        let result = self.judge_cut(&cut, &inputs, &self.shrinker.lab);
        let (answer, untestable) = match result {
            Ok(CutJudgement::Kept(finding)) => {
                self.note_kept(cut.clone(), sizes, &inputs, finding);
                (TestAnswer::Bad, None)
            }
            Ok(CutJudgement::Weaker) => (TestAnswer::Other, None),
            Ok(CutJudgement::Gone) => (TestAnswer::Good, None),
            Ok(CutJudgement::Untestable(reason)) => (TestAnswer::Skip, Some(reason)),
            // An interruption ends replays, too.
            Err(_) if (self.shrinker.is_interrupted)() => return Err(TryError::Interrupted),
            Err(error) => return Err(error.into()),
        };
        self.tries += 1;
        self.last_answer = Some(answer);
        self.answers.insert(cut, answer);
        let names = self.cuttable.iter().map(|size| size.name.as_str());
        let tried = TriedCut {
            tries: self.tries,
            sizes: names.zip(sizes.iter().map(Vec::len)).collect(),
            answer,
            untestable: untestable.as_deref(),
        };
        (self.listener)(&tried);
        if (self.shrinker.is_interrupted)() {
            return Err(TryError::Interrupted);
        }
        Ok(answer)
    }

    /// Notes a cut with the finding. Until the search ends the smallest one is to be written.
    fn note_kept(&mut self, cut: InputCut, sizes: &SizeCut, inputs: &[CutInput], finding: Finding) {
        let elements = inputs.iter().map(|input| input.shape.iter().product::<usize>()).sum();
        let weight = [elements, cut.numbers.iter().map(|(_, number)| number).sum()];
        self.kept.insert(cut.clone(), finding.clone());
        if self.best.as_ref().is_none_or(|best| weight < best.weight) {
            self.best = Some(BestCut { cut, lengths: sizes.clone(), finding, weight });
        }
    }

    /// Takes the cut of `sizes` and `values` for the one to be written, if it shows the finding.
    fn settle(&mut self, sizes: &SizeCut, values: &[NewValues]) {
        let cut = self.input_cut(sizes, values);
        if let Some(finding) = self.kept.get(&cut).cloned() {
            self.best = Some(BestCut { cut, lengths: sizes.clone(), finding, weight: [0, 0] });
        }
    }

    /// Replays the fixture of `cut`.
    fn judge_cut(
        &self,
        cut: &InputCut,
        inputs: &[CutInput],
        lab: &Arc<Lab>,
    ) -> Result<CutJudgement, ShrinkError> {
        let folder = lab.cache().scratch()?;
        let fixture = match self.write_try(folder.path(), cut, inputs) {
            Ok(fixture) => fixture,
            // A size that no tensor is left to show, or one that the harness refuses.
            Err(ShrinkError::Fixture(error)) => {
                return Ok(CutJudgement::Untestable(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let subject = Arc::new(Subject::new(fixture));
        let probably_untestable = self.last_answer == Some(TestAnswer::Skip);
        let judged =
            self.shrinker.judge(subject.clone(), lab, Some(&self.finding), probably_untestable);
        let findings = match judged {
            Ok(Judged::Findings(findings)) => findings,
            Ok(Judged::Untestable { reason }) => return Ok(CutJudgement::Untestable(reason)),
            // It called the revision with the whole fixture.
            Err(ReplayError::Program(error @ ProgramError::Mistake { .. })) => {
                return Ok(CutJudgement::Untestable(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let mut alike = findings.iter().filter(|finding| self.finding.is_like(finding));
        let Some(kept) = alike.find(|finding| is_finding_kept(&self.finding, finding)).cloned()
        else {
            let failure = findings.iter().find_map(|finding| match &finding.kind {
                FindingKind::Failed(kind) => Some(format!("the replay fails: {kind}")),
                _ => None,
            });
            let is_weaker = findings.iter().any(|finding| self.finding.is_like(finding));
            return Ok(match failure {
                Some(reason) => CutJudgement::Untestable(reason),
                None if is_weaker => CutJudgement::Weaker,
                None => CutJudgement::Gone,
            });
        };
        if self.reads_beside(&subject, lab)? {
            let reason = "the trusted kernels touch memory beside the smaller tensors".to_owned();
            return Ok(CutJudgement::Untestable(reason));
        }
        Ok(CutJudgement::Kept(kept))
    }

    /// Whether the trusted revision, or the only one, touches memory out of bounds: the cut is none that its kernels allow.
    fn reads_beside(&self, subject: &Arc<Subject>, lab: &Arc<Lab>) -> Result<bool, ReplayError> {
        let alone =
            matches!(self.finding.kind, FindingKind::Failed(_) | FindingKind::Access { .. });
        let sources = match &self.shrinker.trusted {
            Some(trusted) => trusted,
            None if alone => return Ok(false),
            None => &self.shrinker.sources,
        };
        let check = self.shrinker.check;
        if !is_out_of_bounds(&lab.trial(subject, sources), check)? {
            return Ok(false);
        }
        // What it does on the whole fixture, too, is allowed.
        let whole = Arc::new(Subject::new(self.shrinker.fixture.clone()));
        Ok(!is_out_of_bounds(&lab.trial(&whole, sources), check)?)
    }

    /// The fixture of `cut`, in a folder of its name below `folder`.
    fn write_try(
        &self,
        folder: &Path,
        cut: &InputCut,
        inputs: &[CutInput],
    ) -> Result<Fixture, ShrinkError> {
        let whole = self.shrinker.fixture;
        let dir = folder.join(&whole.name);
        fs::create_dir(&dir).map_err(write_error(&dir))?;
        let harness = &whole.harness.path;
        let harness = harness.canonicalize().map_err(write_error(harness))?;
        let tables = whole.write_cut(&dir, inputs, cut)?;
        let manifest = dir.join("fixture.toml");
        let text = format!("harness = {:?}\n{tables}", harness.display().to_string());
        fs::write(&manifest, text).map_err(write_error(&manifest))?;
        let mut fixture = Fixture::load(&dir)?;
        // Paths in it are resolved as on the command line.
        fixture.harness.path.clone_from(&whole.harness.path);
        Ok(fixture)
    }
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> ShrinkError {
    let path = path.to_owned();
    |source| ShrinkError::Write { path, source }
}

/// What a try shows of the finding.
enum CutJudgement {
    /// It is there.
    Kept(Finding),
    /// It is there, and less than a tenth as far off.
    Weaker,
    Gone,
    Untestable(String),
}
