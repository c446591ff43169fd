//! The plain replay: two runs on different poison, and their outcome.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::digest_key_parts;
use super::outcome::{
    Failure, Outcome, OutputRecord, Slices, Status, failure_of, first_non_finite,
    inputs_are_finite, memory_failures,
};
use super::{Trial, nondeterminism};
use crate::backend::{Ability, Mode, Refusal, ReplayError, Variant};
use crate::worker::{Ending, OutputTransfer, Run, UnfitOutput};
use replay_base::cache::CacheKind;
use replay_base::scratch::Budget;
use replay_base::summary::{
    Checksum, POISON_A, POISON_B, Poison, PoisonComparison, Summary, compare_poisons,
    summarize_tensor,
};
use replay_base::tensor::TensorView;
use replay_cuda::sanitizer::{SanitizerFinding, Tool};
use replay_fixture::fixture::Output;
use replay_numerics::constants::{ENDING_REPETITIONS, POISON_REPETITIONS};

/// Outputs larger than this in all are summarised on their device, where it can.
const SUMMARIZED_BYTES: usize = 64 << 20;
/// Outputs up to this size in all are kept on any machine; larger ones are made again where memory is short.
const KEPT_BYTES: usize = 256 << 20;
/// Kept outputs may take this part of the free memory for numbers and outputs.
const SHARE_KEPT: usize = 4;

/// The plain run behind an outcome.
pub(super) struct Plain {
    pub run: Run,
    /// Whether a second one gave the same bits in every output.
    pub repeats: bool,
}

/// The runs behind an outcome.
struct Runs {
    first: Run,
    /// The same on other poison.
    second: Run,
    /// Repetitions, where elements differ.
    again: Option<Repetitions>,
    /// Why one of both completed and the other did not.
    parting: Option<Parting>,
    /// The first with other poison around the given tensors alone, where `first` and `second` differ.
    around: Option<Run>,
}

impl Runs {
    /// Whether what `first` and `second` differ in comes from around the given tensors: of output `name`, or of
    /// how they end.
    fn is_around(&self, name: Option<&str>) -> bool {
        let Some(around) = &self.around else { return false };
        match name {
            None => end_differently(&self.first, around),
            Some(name) => {
                let [first, around] = [&self.first, around].map(|run| run.output(name));
                first.map(|view| view.bytes) != around.map(|view| view.bytes)
            }
        }
    }
}

/// Why two runs on different poison end differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// Repetitions end as they did.
    Poison,
    /// They do not.
    Chance,
}

/// Repetitions of two runs on different poison.
struct Repetitions {
    /// One that gives other bits than its run, if any does.
    run: Run,
    /// Which of both it repeats.
    is_of_second: bool,
    /// How far elements of each output move by themselves, at most.
    spreads: HashMap<String, f64>,
}

impl Repetitions {
    /// The elements of output `name` that `first` and `second` give otherwise, and no repetition explains.
    fn compare_poisons(
        &self,
        name: &str,
        [first, second]: [&TensorView; 2],
        has_atomics: bool,
    ) -> PoisonComparison {
        let mut comparison = compare_poisons(first, second).expect("two runs of one variant");
        let spread = self.spreads.get(name).copied().unwrap_or_default();
        nondeterminism::excuse_unsteadiness(&mut comparison, [first, second], spread, has_atomics);
        comparison
    }

    /// Whether an output of `first` and `second` depends on their poison, as far as the repetitions tell.
    fn leave_poison_to_blame(&self, first: &Run, second: &Run, has_atomics: bool) -> bool {
        first.outputs().any(|(output, view)| {
            second.output(&output.name).is_some_and(|second_view| {
                let views = [&view, &second_view];
                self.compare_poisons(&output.name, views, has_atomics).poison_dependent > 0
            })
        })
    }
}

impl Trial {
    /// The outcome of `variant`, without the findings of a checker.
    pub(super) fn replayed(&self, variant: &dyn Variant) -> Result<Outcome, ReplayError> {
        self.replayed_from(variant, None)
    }

    /// The same; `first_run` is its first run, if it was made.
    pub(super) fn replayed_from(
        &self,
        variant: &dyn Variant,
        first_run: Option<Run>,
    ) -> Result<Outcome, ReplayError> {
        if let Some(outcome) = self.recall_outcome(self.key()?) {
            return Ok(outcome);
        }
        let _span = tracing::info_span!("replay", message = self.fixture().name);
        let runs = match self.runs(variant, first_run) {
            Ok(runs) => runs,
            Err(error) => return self.untestable_for(error),
        };
        if variant.reference().is_none() {
            self.call.get(|| Ok::<_, ReplayError>(runs.first.call_cpu))?;
        }
        let outcome = self.outcome_of(variant, &runs)?;
        self.keep_outcome(self.key()?, &outcome)?;
        self.note_opened(variant)?;
        // A device that gives other bits by itself is measured by runs of its own, unless it has just repeated
        // them.
        let repeats = has_same_outputs(&runs.first, &runs.second);
        let can_stand =
            repeats || variant.can(Ability::Repetition) || variant.reference().is_none();
        if can_stand {
            self.keep_plain(runs.first, repeats);
        }
        Ok(outcome)
    }

    /// The outcome that the cache holds by `key`.
    pub(super) fn recall_outcome(&self, key: &str) -> Option<Outcome> {
        let outcome = self.lab.recall(CacheKind::Outcome, key)?;
        self.is_recalled.store(true, Ordering::Relaxed);
        Some(outcome)
    }

    /// The outcome of a revision that is refused by `error`.
    ///
    /// # Errors
    /// `error`, if it is none of the revision's.
    pub(super) fn untestable_for(&self, error: ReplayError) -> Result<Outcome, ReplayError> {
        error.refusal().map(|refusal| self.untestable(refusal)).ok_or(error)
    }

    /// Keeps `run` for a measurement, if it has all outputs and there is room; `repeats` says whether a second one gave the
    /// same bits.
    pub(super) fn keep_plain(&self, run: Run, repeats: bool) {
        let most_bytes = KEPT_BYTES.max(Budget::of_process().left() / SHARE_KEPT);
        let mut declared_outputs = self.fixture().outputs.iter();
        let is_whole = declared_outputs.all(|output| run.output(&output.name).is_some());
        if is_whole && run.output_bytes() <= most_bytes {
            let plain_replay = Plain { run, repeats };
            *self.plain.lock().unwrap_or_else(PoisonError::into_inner) = Some(plain_replay);
        }
    }

    fn runs(&self, variant: &dyn Variant, first_run: Option<Run>) -> Result<Runs, ReplayError> {
        let (first, second) = match first_run {
            Some(first) => (first, variant.run(&Mode::plain(choose_second_poison(variant)))?),
            None => self.run_twice(variant)?,
        };
        let again = if poison_shows(&first, &second) {
            Some(repeat_runs(variant, &first, &second)?)
        } else {
            None
        };
        let parting = if end_differently(&first, &second) {
            Some(classify_parting(variant, &first)?)
        } else {
            None
        };
        let differ = again.is_some() || parting.is_some();
        let around = if differ && variant.can(Ability::PoisonAround) {
            Some(variant.run(&Mode { around: POISON_B, ..Mode::plain(POISON_A) })?)
        } else {
            None
        };
        Ok(Runs { first, second, again, parting, around })
    }

    /// Two plain runs on different poison. Large outputs are summarised on the device where
    /// it can do so; they are fetched only if their summaries leave questions.
    fn run_twice(&self, variant: &dyn Variant) -> Result<(Run, Run), ReplayError> {
        let second_poison = choose_second_poison(variant);
        let bytes: usize = self.fixture().outputs.iter().map(Output::bytes).sum();
        if variant.can(Ability::Summary) && bytes >= SUMMARIZED_BYTES {
            let first_transfer = if self.is_to_be_measured.load(Ordering::Relaxed) {
                OutputTransfer::SummariesAndElements
            } else {
                OutputTransfer::Summaries
            };
            let second_transfer = OutputTransfer::Summaries;
            let (first, second) = variant.run_pair([
                Mode { outputs: first_transfer, ..Mode::plain(POISON_A) },
                Mode { outputs: second_transfer, ..Mode::plain(second_poison) },
            ])?;
            let pairs = first.summaries.iter().zip(&second.summaries);
            let have_same_count = first.summaries.len() == second.summaries.len();
            if have_same_count && pairs.into_iter().all(is_unquestioned) {
                return Ok((first, second));
            }
        }
        variant.run_pair([POISON_A, second_poison].map(Mode::plain))
    }

    /// `outcome` with the findings of the backend's checker, from a run of its own. Cached apart
    /// from outcomes without the checker.
    pub(super) fn sanitized(
        &self,
        variant: &dyn Variant,
        outcome: Outcome,
    ) -> Result<Outcome, ReplayError> {
        let Some(checker) = self.lab.backend().checker() else { return Ok(outcome) };
        if matches!(outcome.status, Status::Untestable { .. }) {
            return Ok(outcome);
        }
        let key = digest_key_parts([self.key()?, &checker]);
        if let Some(outcome) = self.lab.recall(CacheKind::Outcome, &key) {
            return Ok(outcome);
        }
        let outcome = with_findings(outcome, variant.check()?);
        self.keep_outcome(&key, &outcome)?;
        Ok(outcome)
    }

    /// Remembers `outcome`, unless it was out of time: the machine may have been slow.
    fn keep_outcome(&self, key: &str, outcome: &Outcome) -> Result<(), ReplayError> {
        if outcome.is_late() {
            return Ok(());
        }
        self.lab.keep(CacheKind::Outcome, key, outcome)
    }

    pub(super) fn untestable(&self, refusal: Refusal) -> Outcome {
        let Refusal { reason, causes, hint, .. } = refusal;
        let device = self.lab.backend().device();
        Outcome {
            device: device.class,
            device_description: device.description,
            compiler: self.lab.backend().compiler().to_owned(),
            call: None,
            status: Status::Untestable { reason, causes, hint },
            launches: Vec::new(),
            launch_count: 0,
            outputs: Vec::new(),
            settings: Default::default(),
            printed: String::new(),
        }
    }

    /// The outcome of two runs on different poison.
    fn outcome_of(&self, variant: &dyn Variant, runs: &Runs) -> Result<Outcome, ReplayError> {
        let run = &runs.first;
        let mut failures = failures_of_the_call(runs);
        let fixture = self.fixture();
        let mut outputs = Vec::new();
        for (output, view) in run.outputs() {
            if run.summaries.iter().any(|(summarised, _)| *summarised == output.name) {
                continue;
            }
            let declared_output = fixture.outputs.iter().find(|d| d.name == output.name);
            let Some(declared_output) = declared_output else { continue };
            let (summary, new_failures) = self.judge_output(variant, runs, &output.name, &view)?;
            failures.extend(new_failures);
            let slices = Slices::measure(&view, &declared_output.dims);
            outputs.push(self.record_output(run, declared_output, summary, slices));
        }
        outputs.extend(run.summaries.iter().filter_map(|(name, summary)| {
            let declared_output = fixture.outputs.iter().find(|output| output.name == *name)?;
            // Slices take the elements, and these stay on the device.
            Some(self.record_output(run, declared_output, summary.clone(), Vec::new()))
        }));
        outputs.sort_by_key(|output| {
            fixture.outputs.iter().position(|declared| declared.name == output.name)
        });
        let (description, class) = run.device.clone().unwrap_or_default();
        Ok(Outcome {
            device: class,
            device_description: description,
            compiler: self.lab.backend().compiler().to_owned(),
            call: Some(variant.call()),
            status: if failures.is_empty() { Status::Completed } else { Status::Failed(failures) },
            launches: run.launches.clone(),
            launch_count: run.launch_count,
            outputs,
            settings: run.settings.clone(),
            printed: run.printed.clone(),
        })
    }

    /// The record of output `declared_output` of `run`.
    fn record_output(
        &self,
        run: &Run,
        declared_output: &Output,
        summary: Summary,
        slices: Vec<Slices>,
    ) -> OutputRecord {
        let name = declared_output.name.clone();
        let mut filled = self.fixture().harness.filled();
        let shows_unwritten = !run.is_unwritten_unknown && !filled.any(|output| output == name);
        let dims = declared_output.dims.clone();
        OutputRecord { name, dtype: declared_output.dtype, dims, summary, shows_unwritten, slices }
    }

    /// The summary of one output, and its failures.
    fn judge_output(
        &self,
        variant: &dyn Variant,
        runs: &Runs,
        name: &str,
        view: &TensorView,
    ) -> Result<(Summary, Vec<Failure>), ReplayError> {
        let mut summary = summarize_tensor(view, None);
        let mut failures = Vec::new();
        let is_poisoned = variant.can(Ability::Poison) && !runs.second.is_unpoisoned;
        let second = runs.second.output(name).filter(|_| is_poisoned);
        let mut poison_dependent = 0;
        if let Some(second) = second {
            let write_summary = match &runs.again {
                Some(repetitions) => {
                    repetitions.compare_poisons(name, [view, &second], variant.has_atomics())
                }
                None => compare_poisons(view, &second).expect("two runs of one variant"),
            };
            if write_summary.unwritten > 0 {
                summary = summarize_written(&summary, view, &second);
            }
            summary.unwritten = write_summary.unwritten;
            poison_dependent = write_summary.poison_dependent;
            failures = memory_failures(name, view, &write_summary, runs.is_around(Some(name)));
        }
        if let Some(repetition) = &runs.again
            && let Some(repeated) = repetition.run.output(name)
        {
            let same_poison_view =
                if repetition.is_of_second { runs.second.output(name) } else { Some(*view) };
            let unsteady = same_poison_view.map(|same_poison_view| {
                self.unsteady(variant, name, [&same_poison_view, &repeated])
            });
            failures.extend(unsteady.transpose()?.flatten());
        }
        if summary.nan + summary.inf > 0
            && summary.unwritten == 0
            && poison_dependent == 0
            && !self.may_be_non_finite(name)
            && inputs_are_finite(self.fixture())?
        {
            failures.push(Failure::NonFinite {
                output: name.to_owned(),
                nan: summary.nan,
                inf: summary.inf,
                first: first_non_finite(view),
            });
        }
        Ok((summary, failures))
    }

    /// Whether the harness allows NaN or infinity in output `name`.
    fn may_be_non_finite(&self, name: &str) -> bool {
        self.fixture().outputs.iter().any(|output| output.name == name && output.non_finite)
    }
}

/// The memory for the second of two plain runs.
fn choose_second_poison(variant: &dyn Variant) -> Poison {
    if variant.can(Ability::Poison) { POISON_B } else { POISON_A }
}

/// `whole`, the summary of `view`, with the statistics of its written elements. The others hold the poison, in `view` and
/// in `second`, a run on the other poison.
fn summarize_written(whole: &Summary, view: &TensorView, second: &TensorView) -> Summary {
    let size = view.dtype.size();
    let written_bytes: Vec<u8> = (0..view.len())
        .filter(|&index| !(POISON_A.is_in(view, index) && POISON_B.is_in(second, index)))
        .flat_map(|index| &view.bytes[index * size..(index + 1) * size])
        .copied()
        .collect();
    let shape = [written_bytes.len() / size];
    let written = TensorView { dtype: view.dtype, shape: &shape, bytes: &written_bytes };
    Summary {
        checksum: whole.checksum,
        count: whole.count,
        sketch: whole.sketch,
        ..summarize_tensor(&written, None)
    }
}

/// The failures of the call, whatever its outputs are.
fn failures_of_the_call(runs: &Runs) -> Vec<Failure> {
    let Runs { first, second, .. } = runs;
    let refused_launches = first.launches.iter().filter(|launch| launch.error.is_some());
    let launch_failures = refused_launches.map(|launch| Failure::Launch { launch: launch.clone() });
    let overruns = first.overruns.iter();
    let overruns = overruns.map(|detail| Failure::Overrun { detail: detail.clone() });
    let mut failures: Vec<Failure> = launch_failures.chain(overruns).collect();
    // A crash with only one poison is a crash too.
    let endings = [&first.ending, &second.ending];
    let ending =
        endings.into_iter().filter_map(failure_of).find(|candidate| !failures.contains(candidate));
    if !first.unfit.is_empty() {
        failures.push(Failure::Outputs {
            problem: UnfitOutput::join_problems(&first.unfit),
            outputs: first.unfit.iter().map(|unfit| unfit.output.clone()).collect(),
        });
    }
    failures.extend(ending.map(|failure| match (runs.parting, Box::new(failure)) {
        (None, failure) => *failure,
        (Some(Parting::Poison), failure) => {
            Failure::EndsByPoison { outside: runs.is_around(None), failure }
        }
        (Some(Parting::Chance), failure) => Failure::EndsByChance { failure },
    }));
    failures
}

/// Whether one of two runs completed and the other did not. Being late says as much about the machine.
fn end_differently(first: &Run, second: &Run) -> bool {
    let endings = [&first.ending, &second.ending];
    let is_late = endings.iter().any(|ending| matches!(ending, Ending::TimedOut(..)));
    (first.ending == Ending::Completed) != (second.ending == Ending::Completed) && !is_late
}

/// Why `first` and a run on other poison end differently.
fn classify_parting(variant: &dyn Variant, first: &Run) -> Result<Parting, ReplayError> {
    for _ in 0..ENDING_REPETITIONS {
        let (fresh_first, fresh_second) =
            variant.run_pair([POISON_A, POISON_B].map(Mode::plain))?;
        let parts_again = end_differently(&fresh_first, &fresh_second)
            && (fresh_first.ending == Ending::Completed) == (first.ending == Ending::Completed);
        if !parts_again {
            return Ok(Parting::Chance);
        }
    }
    Ok(Parting::Poison)
}

/// Repeats two runs that differ in their poison until the poison is not to blame for it, a limited number of times.
///
/// Code may choose among a few algorithms by the clock, and a device among orders of atomics: two runs may differ by chance, and
/// one repetition may be as one of them by chance, or nearly. NaN from the poison is no such chance.
fn repeat_runs(
    variant: &dyn Variant,
    first: &Run,
    second: &Run,
) -> Result<Repetitions, ReplayError> {
    if variant.can(Ability::Repetition) || is_nan_where_it_moves(first, second) {
        let run = variant.run(&Mode::plain(POISON_A))?;
        let mut spreads = HashMap::new();
        note_spreads(&mut spreads, first, &run);
        return Ok(Repetitions { run, is_of_second: false, spreads });
    }
    let mut round = 0;
    let mut spreads = HashMap::new();
    let mut unlike: Option<(Run, bool)> = None;
    loop {
        round += 1;
        let (fresh_first, fresh_second) =
            variant.run_pair([POISON_A, POISON_B].map(Mode::plain))?;
        note_spreads(&mut spreads, first, &fresh_first);
        note_spreads(&mut spreads, second, &fresh_second);
        let (run, is_of_second) = match unlike {
            Some(unlike) => unlike,
            None if !fresh_second.gives_the_bits_of(second) => (fresh_second, true),
            None => (fresh_first, false),
        };
        let is_unlike = !run.gives_the_bits_of(if is_of_second { second } else { first });
        let repetitions = Repetitions { run, is_of_second, spreads };
        let is_explained =
            is_unlike && !repetitions.leave_poison_to_blame(first, second, variant.has_atomics());
        if is_explained || round == POISON_REPETITIONS {
            return Ok(repetitions);
        }
        spreads = repetitions.spreads;
        unlike = is_unlike.then_some((repetitions.run, repetitions.is_of_second));
    }
}

/// Notes how far the outputs of `repeated` lie from those of `run`.
fn note_spreads(spreads: &mut HashMap<String, f64>, run: &Run, repeated: &Run) {
    for (output, view) in run.outputs() {
        let Some(repeated_view) = repeated.output(&output.name) else { continue };
        let spread = nondeterminism::measure_spread(&view, &repeated_view);
        let farthest = spreads.entry(output.name.clone()).or_default();
        *farthest = farthest.max(spread);
    }
}

/// Whether all elements of `second` other than in `first` are NaN.
fn is_nan_where_it_moves(first: &Run, second: &Run) -> bool {
    first.outputs().all(|(output, first_view)| {
        second.output(&output.name).is_some_and(|second_view| {
            (0..first_view.len()).all(|index| {
                let first_value = first_view.get_f64(index);
                let second_value = second_view.get_f64(index);
                second_value.is_nan() || first_value.to_bits() == second_value.to_bits()
            })
        })
    })
}

/// Whether an output moves between two runs that differ in their poison: it depends on memory that
/// nobody wrote, or the device moves it by itself.
fn poison_shows(run: &Run, other_run: &Run) -> bool {
    !other_run.is_unpoisoned
        && run.outputs().any(|(output, view)| {
            let second = other_run.output(&output.name);
            let write_summary = second.and_then(|second| compare_poisons(&view, &second).ok());
            write_summary.is_some_and(|write_summary| write_summary.poison_dependent > 0)
        })
}

/// Whether `first` and `second` wrote the same in every output on this machine, by its bits or by its summary.
fn has_same_outputs(first: &Run, second: &Run) -> bool {
    let completed = [first, second].map(|run| run.ending == Ending::Completed);
    completed == [true; 2]
        && first.outputs().all(|(output, view)| match second.output(&output.name) {
            Some(second_view) => second_view.bytes == view.bytes,
            None => {
                let checksum = find_checksum(first, &output.name);
                checksum.is_some() && find_checksum(second, &output.name) == checksum
            }
        })
}

/// The checksum of output `name`, where `run` was summarised on its device.
fn find_checksum(run: &Run, name: &str) -> Option<Checksum> {
    let found_summary = run.summaries.iter().find(|(output_name, _)| output_name == name);
    found_summary.map(|(_, summary)| summary.checksum)
}

/// Whether two runs on different poison wrote the same finite elements, all of them.
fn is_unquestioned(
    ((_, first_summary), (_, second_summary)): (&(String, Summary), &(String, Summary)),
) -> bool {
    let mut summaries = [first_summary, second_summary].into_iter();
    first_summary.checksum == second_summary.checksum
        && summaries.all(|summary| summary.unwritten + summary.nan + summary.inf == 0)
}

/// Puts the findings of a checker before the failures of `outcome`.
fn with_findings(mut outcome: Outcome, tool_findings: Vec<(Tool, SanitizerFinding)>) -> Outcome {
    if tool_findings.is_empty() {
        return outcome;
    }
    let tool_failures =
        tool_findings.into_iter().map(|(tool, finding)| Failure::Sanitizer { tool, finding });
    let mut failures: Vec<Failure> = tool_failures.collect();
    if let Status::Failed(known_failures) = &mut outcome.status {
        failures.append(known_failures);
    }
    outcome.status = Status::Failed(failures);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

    fn outcome(status: Status) -> Outcome {
        Outcome {
            device: "sm_90".to_owned(),
            device_description: "NVIDIA H200".to_owned(),
            compiler: String::new(),
            call: Some(0),
            status,
            launches: Vec::new(),
            launch_count: 0,
            outputs: Vec::new(),
            settings: Default::default(),
            printed: String::new(),
        }
    }

    #[test]
    fn a_run_repeats_another_by_its_bits_or_by_its_summary() {
        let run = |bytes: &[u8], summaries: &[u8]| {
            let tensor = ("out".to_owned(), DType::U8, vec![bytes.len()], 0..bytes.len());
            let folder = std::env::temp_dir();
            let tensors = (!bytes.is_empty()).then_some(tensor).into_iter();
            let mut run = Run::of_bytes(bytes, tensors, None, &folder).unwrap();
            let view = TensorView { dtype: DType::U8, shape: &[summaries.len()], bytes: summaries };
            if !summaries.is_empty() {
                run.summaries.push(("out".to_owned(), summarize_tensor(&view, None)));
            }
            run
        };
        assert!(has_same_outputs(&run(&[1, 2], &[]), &run(&[1, 2], &[])));
        assert!(!has_same_outputs(&run(&[1, 2], &[]), &run(&[1, 3], &[])));
        assert!(has_same_outputs(&run(&[1, 2], &[1, 2]), &run(&[], &[1, 2])));
        assert!(!has_same_outputs(&run(&[1, 2], &[1, 2]), &run(&[], &[1, 3])));
        assert!(!has_same_outputs(&run(&[1, 2], &[]), &run(&[], &[])));
        let mut exited = run(&[1], &[]);
        exited.ending = Ending::Exited(1);
        assert!(!has_same_outputs(&run(&[1], &[]), &exited));
    }

    #[test]
    fn findings_come_before_what_the_replay_itself_showed() {
        let log = "========= Invalid __global__ write of size 4 bytes\n\
                   =========     at f(int *)+0x60 in k.cu:6\n\
                   ========= ERROR SUMMARY: 1 error\n";
        let kinds = |status| {
            let findings = replay_cuda::sanitizer::parse_transcript(log).findings;
            let found = findings.into_iter().map(|finding| (Tool::Memcheck, finding)).collect();
            let Status::Failed(failures) = with_findings(outcome(status), found).status else {
                panic!("a finding is a failure")
            };
            failures.iter().map(Failure::kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(Status::Completed), ["memcheck"]);
        let exit = Status::Failed(vec![Failure::Exit { code: 1 }]);
        assert_eq!(kinds(exit), ["memcheck", "exit"]);
    }

    #[test]
    fn a_checker_that_finds_nothing_leaves_the_outcome_alone() {
        let found = with_findings(outcome(Status::Completed), Vec::new());
        assert_eq!(found, outcome(Status::Completed));
    }
}
