//! Measures the tensors of a drafted harness: checked replays with more memory than the kernels need show how far each is
//! touched, and a plain one with the shapes found shows what is read before it is written.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::replay::cache::Cache;
use ::replay::files;
use ::replay::fixture::{RandomInput, RandomInputsError};
use ::replay::harness::Harness;
use ::replay::report::describe_failure;
use ::replay::summary::summarize_tensor;
use ::replay::tensor::TensorView;
use ::replay::trial::{Failure, Lab, RaceScope, Status, TensorReach, TensorTraces, Trial};

use super::draft::{
    AcceptedCall, Attempt, BuildMacro, Draft, DraftedBuild, OutputTrait, ShapeFault, ShapeProbe,
    SizeOrder, TiedSizes, choose_size_sets, find_number_macros, find_supposition, list_size_orders,
    quote_toml, split_words, tie_sizes,
};
use super::error::{CliResult, ErrorContext};
use super::progress::Progress;
use super::project::Project;
use super::random_fixture::RandomSizes;
use super::session::Session;

/// The elements of each tensor in a measurement.
const ROOM: usize = 1 << 20;
/// The elements of a product in a search for shapes: a kernel may have as much to do as it has elements.
const SEARCH_ROOM: usize = 1 << 17;
/// A tensor of several sizes with more elements is not tried in a search for shapes: it takes seconds, and a larger result
/// would have no room.
const MOST_ELEMENTS: usize = SEARCH_ROOM;
/// A tensor has so many times as many elements where two of its dimensions are twice as large.
const FOURFOLD: usize = 4;
/// The name of its harness.
const HARNESS: &str = "replay.toml";
/// A check may stretch over so many lines above and below the one that it is told with.
const LINES_AROUND: usize = 3;
/// The calls of a measurement take no more processor time, so that one slow kernel keeps nobody from the drafts of the others.
const LONGEST_CALLS: Duration = Duration::from_secs(60);
/// A measurement takes no longer behind its compilation on a machine with much other work: its load decides what is found there.
const LONGEST_MEASUREMENT: Duration = Duration::from_secs(120);
/// Where the call of a try takes more processor time, smaller sizes are tried.
const LONG_CALL: Duration = Duration::from_millis(300);
/// Why it found nothing, or not all, then.
const TOO_LONG: &str =
    "its sizes were not told apart within a minute of processor time, or two minutes in all";
/// Why there was no measurement at all.
const TOO_MANY_SIZES: &str = "it has too many sizes";
/// With so many replays a product of sizes is told from others.
const ENOUGH: usize = 2;

/// Where more than this part of all results is zeros, other inputs are tried.
const MOSTLY_ZEROS: (u64, u64) = (3, 4);
/// So many orders of two sizes are tried where threads meet.
const MOST_ORDERS: usize = 4;

/// What replays told of the tensors of a draft.
pub enum DraftMeasurement {
    /// The draft has their shapes now.
    Measured {
        /// With these sizes a replay came to its end.
        sizes: RandomSizes,
        /// Why they are not told apart, if they are not.
        shortage: Option<String>,
    },
    /// None came to its end; why.
    Not { reason: String },
}

/// Which sizes of tensors have to be equal.
enum SizeTie {
    Found(TiedSizes),
    Not { reason: String },
}

/// A trial of a draft on random inputs.
enum ProbeTrial {
    Ready(Box<Trial>),
    /// There are no inputs of these sizes.
    NoInputs(RandomInputsError),
}

/// What replays with several sets of sizes show.
#[derive(Default)]
struct ProbedShapes {
    probes: Vec<ShapeProbe>,
    /// The tensors that were read where nobody had written.
    unset_tensors: BTreeSet<String>,
    /// The widest race.
    race: Option<RaceScope>,
    /// The order of two sizes without which rows overlap.
    size_order: Option<SizeOrder>,
    /// Why the first replay that failed did.
    first_reason: Option<String>,
}

/// A draft with its trial on random inputs of `sizes`.
struct TriedDraft {
    draft: Draft,
    sizes: RandomSizes,
    trial: Box<Trial>,
}

/// What a measurement may still take.
struct MeasurementBudget {
    /// Of the processor time of calls.
    calls: Cell<Duration>,
    /// None until the first call has been made, and compiled before.
    end: Cell<Option<Instant>>,
}

impl MeasurementBudget {
    fn start() -> MeasurementBudget {
        MeasurementBudget { calls: Cell::new(LONGEST_CALLS), end: Cell::new(None) }
    }

    /// Notes that a call has been made.
    fn note_call(&self) {
        if self.end.get().is_none() {
            self.end.set(Some(Instant::now() + LONGEST_MEASUREMENT));
        }
    }

    /// Takes the processor time of a call off.
    fn charge(&self, call: Duration) {
        self.calls.set(self.calls.get().saturating_sub(call));
    }

    fn is_spent(&self) -> bool {
        self.calls.get().is_zero() || self.end.get().is_some_and(|end| Instant::now() > end)
    }
}

/// A folder for the harnesses and fixtures of measurements.
struct ProbeFolder<'a> {
    cache: &'a Cache,
    lab: Arc<Lab>,
    folder: tempfile::TempDir,
    root: &'a Path,
    build: &'a DraftedBuild,
    budget: MeasurementBudget,
}

/// Measures the tensors of `draft` with the sources of `build`, which lie below `root`.
pub fn measure_draft(
    session: &Session,
    draft: &mut Draft,
    build: &DraftedBuild,
    root: &Path,
) -> CliResult<DraftMeasurement> {
    if draft.guesses_grids() {
        let reason = "its grid has to be edited first".to_owned();
        return Ok(DraftMeasurement::Not { reason });
    }
    let find_problem = |draft: &Draft| Harness::parse(&draft.text(build), Path::new(HARNESS)).err();
    if let Some(problem) = find_problem(draft) {
        return Ok(DraftMeasurement::Not { reason: problem.to_string() });
    }
    let progress = Progress::start();
    let work = format!("measuring the tensors of {}", draft.functions.join(", "));
    progress.say(&work);
    let folder = tempfile::tempdir().context(|| "cannot make a temporary folder".to_owned())?;
    let lab = session.make_cpu_lab()?;
    let budget = MeasurementBudget::start();
    let probe_folder = ProbeFolder { cache: session.cache(), lab, folder, root, build, budget };
    let tied = if draft.calls_with_tensors() {
        let say_try = |number: usize| progress.say(format!("{work}: {number} shapes tried"));
        match probe_folder.tie_sizes(draft, say_try)? {
            SizeTie::Found(tied) => tied,
            SizeTie::Not { reason } => return Ok(DraftMeasurement::Not { reason }),
        }
    } else {
        draft.parameter_sizes()
    };
    let shortage = probe_folder.budget.is_spent().then(|| TOO_LONG.to_owned());
    let roomy_draft = draft.with_room(ROOM);
    draft.take_tied_sizes(&tied);
    let mut probed = probe_folder.probe_shapes(&roomy_draft, &tied)?;
    if probed.probes.is_empty()
        && let Some(distinct) = draft.with_distinct_indices()
        && let Some(roomy_distinct) = roomy_draft.with_distinct_indices()
    {
        let of_distinct = probe_folder.probe_shapes(&roomy_distinct, &tied)?;
        if !of_distinct.probes.is_empty() {
            *draft = distinct;
            probed = of_distinct;
        }
    }
    let ProbedShapes { probes, unset_tensors, race, size_order, first_reason } = probed;
    draft.take_size_order(size_order);
    let Some(first_probe) = probes.first() else {
        let reason = first_reason.unwrap_or_else(|| TOO_MANY_SIZES.to_owned());
        return Ok(DraftMeasurement::Not { reason });
    };
    let own_sizes = draft.take_measured_shapes(&tied, &probes);
    if let Some(problem) = find_problem(draft) {
        return Ok(DraftMeasurement::Not { reason: problem.to_string() });
    }
    let mut numbers = tied.expand(&first_probe.sizes, ROOM);
    numbers.extend(own_sizes);
    let sizes = choose_named_sizes(draft, &numbers);
    let mut tried = match probe_folder.open_trial(draft, &sizes)? {
        ProbeTrial::Ready(trial) => TriedDraft { draft: draft.clone(), sizes, trial },
        ProbeTrial::NoInputs(error) => {
            return Ok(DraftMeasurement::Not { reason: error.to_string() });
        }
    };
    if let Some(narrow) = probe_folder.try_narrow_draft(&tried, &numbers)? {
        tried = narrow;
    }
    if let Some(aligned) = probe_folder.try_aligned_upstreams(&tried, &numbers)? {
        tried = aligned;
    }
    if gives_nan(&tried.trial)?
        && let Some(small) = probe_folder.try_small_inputs(&tried)?
    {
        tried = small;
    }
    if let Some(fuller) = probe_folder.try_fuller_results(&tried)? {
        tried = fuller;
    }
    if race.is_some() {
        match probe_folder.try_distinct_indices(&tried)? {
            Some(distinct) => tried = distinct,
            None => tried.draft.note_meeting_threads(),
        }
    }
    if let Some(reason) = find_fault(&tried.trial)? {
        match probe_folder.try_other_inputs(&tried)? {
            Some(other) => tried = other,
            None => return Ok(DraftMeasurement::Not { reason }),
        }
    }
    let unchanged = list_unchanged_copies(&tried)?;
    *draft = tried.draft;
    draft.leave_out_copies(&unchanged);
    let mut traits = list_read_before(&unset_tensors);
    traits.extend(list_output_traits(&tried.trial)?);
    draft.add_output_traits(&traits);
    if let Some(begun) = probe_folder.try_beginnings(draft, &tried.sizes)? {
        *draft = begun.draft;
    }
    Ok(DraftMeasurement::Measured { sizes: tried.sizes, shortage })
}

impl ProbeFolder<'_> {
    /// Finds what the functions of `draft` need of their tensors' shapes, by checked replays, and ties the sizes. `say_try` is
    /// told the number of each try.
    fn tie_sizes(&self, draft: &mut Draft, say_try: impl Fn(usize)) -> CliResult<SizeTie> {
        let mut first_reason = None;
        let mut tries = 0;
        let open_draft = draft.with_open_shapes().with_room(ROOM);
        let found = find_supposition(draft, SEARCH_ROOM, |draft, numbers| -> CliResult<Attempt> {
            tries += 1;
            say_try(tries);
            let attempt = self.attempt(&open_draft, draft, numbers)?;
            if let Attempt::Fault(ShapeFault { reason, .. }) | Attempt::Hopeless { reason } =
                &attempt
            {
                first_reason.get_or_insert(reason.clone());
            }
            Ok(attempt)
        })?;
        let Some(accepted) = found else {
            let shortage = self.budget.is_spent().then(|| TOO_LONG.to_owned());
            return Ok(SizeTie::Not { reason: first_reason.or(shortage).unwrap_or_default() });
        };
        draft.clone_from(&accepted.supposition.draft);
        let tied = tie_sizes(&accepted, SEARCH_ROOM, |numbers| -> CliResult<Attempt> {
            tries += 1;
            say_try(tries);
            self.attempt(&open_draft, draft, numbers)
        })?;
        Ok(SizeTie::Found(tied))
    }

    /// Tries a call of `open_draft` with the shapes of `draft`, whose sizes have these `numbers`.
    fn attempt(
        &self,
        open_draft: &Draft,
        draft: &Draft,
        numbers: &BTreeMap<String, usize>,
    ) -> CliResult<Attempt> {
        let elements = draft.largest_product(numbers);
        if self.budget.is_spent() || elements > MOST_ELEMENTS {
            return Ok(Attempt::Skipped);
        }
        let sizes = RandomSizes::from_sizes(draft.open_shape_sizes(numbers));
        Ok(match self.measure_reach(&open_draft.with_elements_of(draft), &sizes)? {
            TensorReach::Measured(traces) => {
                Attempt::Accepted(accept_call(draft, traces, elements))
            }
            TensorReach::Fault { reason } => Attempt::Fault(self.read_fault(reason)),
            TensorReach::Not { reason } => Attempt::Hopeless { reason },
        })
    }

    /// The fault with the words of its `reason`, and with those around the line of a check that failed.
    fn read_fault(&self, reason: String) -> ShapeFault {
        let place = reason.rsplit_once(" at ").and_then(|(_, place)| {
            let (file, line) = place.rsplit_once(':')?;
            Some((file.to_owned(), line.parse::<usize>().ok()?))
        });
        let mut words: BTreeSet<String> = split_words(&reason).map(str::to_owned).collect();
        let of_build = self.build.defines.iter().filter_map(BuildMacro::number);
        let of_build = of_build.filter(|(name, _)| words.contains(*name));
        let mut macro_numbers: BTreeSet<usize> = of_build.map(|(_, number)| number).collect();
        if let Some((file, line)) = &place
            && let Ok(text) = files::read_text(&self.root.join(file), files::TEXT_BYTES)
        {
            let of_file = find_number_macros(&text).filter(|(name, _)| words.contains(*name));
            macro_numbers.extend(of_file.map(|(_, number)| number));
            let first = line.saturating_sub(LINES_AROUND + 1);
            let lines = text.lines().skip(first).take(2 * LINES_AROUND + 1);
            words.extend(lines.flat_map(split_words).map(str::to_owned));
        }
        ShapeFault { reason, place, words, macro_numbers }
    }

    /// Replays `roomy_draft` with sets of sizes of their own for those that are `tied`, until there are enough replays.
    fn probe_shapes(&self, roomy_draft: &Draft, tied: &TiedSizes) -> CliResult<ProbedShapes> {
        let measure = |sizes: &BTreeMap<String, usize>| {
            self.measure_reach(roomy_draft, &RandomSizes::from_sizes(tied.expand(sizes, ROOM)))
        };
        let mut probed = ProbedShapes::default();
        for mut sizes in choose_size_sets(&tied.names(), tied.usual) {
            if let Some(order) = &probed.size_order {
                sizes = order.arrange(sizes);
            }
            let mut reach = measure(&sizes)?;
            if probed.size_order.is_none() {
                probed.size_order = self.find_size_order(roomy_draft, tied, &sizes, &reach)?;
                if let Some(order) = &probed.size_order {
                    sizes = order.arrange(sizes);
                    reach = measure(&sizes)?;
                }
            }
            match reach {
                TensorReach::Measured(traces) => {
                    let sizes = tied.add_following(&sizes);
                    probed.probes.push(ShapeProbe { sizes, reach: traces.reach });
                    probed.unset_tensors.extend(traces.unset);
                    probed.race = probed.race.max(traces.race);
                }
                TensorReach::Fault { reason } => {
                    probed.first_reason.get_or_insert(reason);
                }
                TensorReach::Not { reason } => {
                    probed.first_reason.get_or_insert(reason);
                    break;
                }
            }
            // One tells a shape, though with a doubt.
            let is_enough = probed.probes.len() == ENOUGH
                || !probed.probes.is_empty() && self.budget.is_spent();
            if is_enough {
                break;
            }
        }
        Ok(probed)
    }

    /// The order of two sizes without which blocks meet in rows that overlap, where `roomy_draft` with these `sizes` of those that are
    /// `tied` has this `reach`; none where they do not meet, or meet in any order.
    fn find_size_order(
        &self,
        roomy_draft: &Draft,
        tied: &TiedSizes,
        sizes: &BTreeMap<String, usize>,
        reach: &TensorReach,
    ) -> CliResult<Option<SizeOrder>> {
        let TensorReach::Measured(TensorTraces { reach, unset, .. }) = reach else {
            return Ok(None);
        };
        let mut orders = list_size_orders(sizes, reach);
        orders.truncate(MOST_ORDERS);
        if orders.is_empty() {
            return Ok(None);
        }
        // What blocks make of numbers that nobody wrote may be alike in all of them.
        let mut set_draft = roomy_draft.clone();
        set_draft.add_output_traits(&list_read_before(unset));
        let do_blocks_meet = |sizes: &BTreeMap<String, usize>| -> CliResult<Option<bool>> {
            let sizes = RandomSizes::from_sizes(tied.expand(sizes, ROOM));
            Ok(match self.measure_reach(&set_draft, &sizes)? {
                TensorReach::Measured(traces) => Some(traces.race == Some(RaceScope::Grid)),
                TensorReach::Fault { .. } | TensorReach::Not { .. } => None,
            })
        };
        if do_blocks_meet(sizes)? != Some(true) {
            return Ok(None);
        }
        for order in orders {
            if do_blocks_meet(&order.arrange(sizes.clone()))? == Some(false) {
                return Ok(Some(order));
            }
        }
        Ok(None)
    }

    /// How far a checked replay of `draft` touches the tensors, on random inputs of `sizes`.
    fn measure_reach(&self, draft: &Draft, sizes: &RandomSizes) -> CliResult<TensorReach> {
        match self.open_trial(draft, sizes)? {
            ProbeTrial::Ready(trial) => {
                let reach = trial.measure_reach()?;
                self.budget.note_call();
                if let TensorReach::Measured(traces) = &reach {
                    self.budget.charge(traces.call_cpu);
                }
                Ok(reach)
            }
            ProbeTrial::NoInputs(error) => Ok(TensorReach::Fault { reason: error.to_string() }),
        }
    }

    /// The draft without the columns of results that nothing writes in its trial, with those of `numbers` that it names; none where
    /// there are no such columns, or this is no cure.
    fn try_narrow_draft(
        &self,
        tried: &TriedDraft,
        numbers: &BTreeMap<String, usize>,
    ) -> CliResult<Option<TriedDraft>> {
        let unwritten = list_unwritten(&tried.trial)?;
        let Some(draft) = tried.draft.with_written_columns(&unwritten) else {
            return Ok(None);
        };
        let sizes = choose_named_sizes(&draft, numbers);
        let is_completed = |trial: &Trial| Ok(matches!(trial.outcome()?.status, Status::Completed));
        self.try_cure(draft, sizes, is_completed)
    }

    /// The draft with upstream gradients of their outputs' shapes, which the search could not know, and with those of `numbers` that
    /// it names; none where they have these, or this is no cure.
    fn try_aligned_upstreams(
        &self,
        tried: &TriedDraft,
        numbers: &BTreeMap<String, usize>,
    ) -> CliResult<Option<TriedDraft>> {
        let Some(draft) = tried.draft.with_aligned_upstreams() else { return Ok(None) };
        let sizes = choose_named_sizes(&draft, numbers);
        self.try_cure(draft, sizes, |trial| {
            Ok(matches!(trial.measure_reach()?, TensorReach::Measured(_)))
        })
    }

    /// The draft with inputs between 0 and 1, where a root or a logarithm is a number; none if that is no cure.
    fn try_small_inputs(&self, tried: &TriedDraft) -> CliResult<Option<TriedDraft>> {
        let Some(draft) = tried.draft.with_small_inputs() else { return Ok(None) };
        self.try_cure(draft, tried.sizes.clone(), |trial| Ok(!gives_nan(trial)?))
    }

    /// The draft with inputs between 0 and 1, where results are zeros but for a few, as they are of points outside of a grid; none if
    /// they are not, or that is no cure.
    fn try_fuller_results(&self, tried: &TriedDraft) -> CliResult<Option<TriedDraft>> {
        let usual = count_result_zeros(&tried.trial)?;
        if usual.zeros * MOSTLY_ZEROS.1 <= usual.elements * MOSTLY_ZEROS.0 {
            return Ok(None);
        }
        let Some(draft) = tried.draft.with_small_inputs() else { return Ok(None) };
        self.try_cure(draft, tried.sizes.clone(), |trial| {
            let other = count_result_zeros(trial)?;
            Ok(find_fault(trial)?.is_none() && 2 * other.zeros < usual.zeros)
        })
    }

    /// The draft with indices of which none comes twice, where two threads met at one element; none if that is no cure.
    fn try_distinct_indices(&self, tried: &TriedDraft) -> CliResult<Option<TriedDraft>> {
        let Some(draft) = tried.draft.with_distinct_indices() else { return Ok(None) };
        self.try_cure(draft, tried.sizes.clone(), |trial| {
            let reach = trial.measure_reach()?;
            Ok(matches!(reach, TensorReach::Measured(TensorTraces { race: None, .. })))
        })
    }

    /// The draft with indices of which none comes twice, or with small inputs, where usual ones end in a fault: no two offsets
    /// are equal then, and coordinates are in bounds; none if neither is a cure.
    fn try_other_inputs(&self, tried: &TriedDraft) -> CliResult<Option<TriedDraft>> {
        let others = [tried.draft.with_distinct_indices(), tried.draft.with_small_inputs()];
        for draft in others.into_iter().flatten() {
            let cured = self
                .try_cure(draft, tried.sizes.clone(), |trial| Ok(find_fault(trial)?.is_none()))?;
            if cured.is_some() {
                return Ok(cured);
            }
        }
        Ok(None)
    }

    /// The draft with inputs for what it changes in place, where zeros stay zeros; none if that is no cure.
    fn try_beginnings(&self, draft: &Draft, sizes: &RandomSizes) -> CliResult<Option<TriedDraft>> {
        let zero_beginnings = draft.list_zero_beginnings();
        if zero_beginnings.is_empty() {
            return Ok(None);
        }
        let ProbeTrial::Ready(trial) = self.open_trial(draft, sizes)? else { return Ok(None) };
        let outputs = trial.outcome()?.outputs.iter();
        let zeros = outputs.filter(|record| {
            let elements: u64 = record.dims.iter().map(|dim| dim.size as u64).product();
            record.summary.zeros == elements && zero_beginnings.contains(&record.name)
        });
        let zeros: Vec<String> = zeros.map(|record| record.name.clone()).collect();
        let Some(draft) = draft.with_beginnings(&zeros) else { return Ok(None) };
        self.try_cure(draft, sizes.clone(), |trial| {
            Ok(matches!(trial.outcome()?.status, Status::Completed))
        })
    }

    /// `draft` with its trial on random inputs of `sizes`, if `is_cure` says so of it.
    fn try_cure(
        &self,
        draft: Draft,
        sizes: RandomSizes,
        is_cure: impl Fn(&Trial) -> CliResult<bool>,
    ) -> CliResult<Option<TriedDraft>> {
        let ProbeTrial::Ready(trial) = self.open_trial(&draft, &sizes)? else { return Ok(None) };
        Ok(is_cure(&trial)?.then_some(TriedDraft { draft, sizes, trial }))
    }

    /// The trial of the working tree with the harness of `draft`, on random inputs of `sizes`.
    fn open_trial(&self, draft: &Draft, sizes: &RandomSizes) -> CliResult<ProbeTrial> {
        let folder = tempfile::tempdir_in(&self.folder)
            .context(|| "cannot make a temporary folder".to_owned())?
            .keep();
        let path = folder.join(HARNESS);
        let repository = quote_toml(&self.root.display().to_string());
        let text = format!("repository = {repository}\n{}", draft.text(self.build));
        std::fs::write(&path, &text).context(|| format!("cannot write {}", path.display()))?;
        let harness = Harness::parse(&text, &path)?;
        let draws = draft.input_draws();
        let inputs = match sizes.draw_inputs(&harness, &draws) {
            Ok(inputs) => inputs,
            Err(error) => return Ok(ProbeTrial::NoInputs(error)),
        };
        let fixture = sizes.place_fixture(&harness, &draws, inputs, "random");
        fixture.write()?;
        let project = Project::open(&fixture.folder, self.cache)?;
        let target = project.target(None)?;
        Ok(ProbeTrial::Ready(Box::new(self.lab.trial(&project.subject, &target.sources))))
    }
}

/// A call of `draft` that left these `traces`, and whose largest product has so many `elements`.
fn accept_call(draft: &Draft, traces: TensorTraces, elements: usize) -> AcceptedCall {
    AcceptedCall {
        unwritten: draft.count_unwritten(&traces.reach),
        is_slow: traces.call_cpu > LONG_CALL,
        is_crowded: elements * FOURFOLD > MOST_ELEMENTS,
        traces,
    }
}

/// What the tensors that were read where nobody had written show.
fn list_read_before(unset: &BTreeSet<String>) -> Vec<(String, OutputTrait)> {
    unset.iter().map(|name| (name.clone(), OutputTrait::ReadBefore)).collect()
}

/// Those of `numbers` that are sizes of `draft`.
fn choose_named_sizes(draft: &Draft, numbers: &BTreeMap<String, usize>) -> RandomSizes {
    let named_sizes = draft.named_sizes();
    let mut sizes = numbers.clone();
    sizes.retain(|name, _| named_sizes.contains(&name.as_str()));
    RandomSizes::from_sizes(sizes)
}

/// The outputs that are copies of inputs which the functions leave as they are.
fn list_unchanged_copies(tried: &TriedDraft) -> CliResult<Vec<String>> {
    let copies = tried.draft.list_copies();
    let harness = &tried.trial.fixture().harness;
    let Ok(inputs) = tried.sizes.draw_inputs(harness, &tried.draft.input_draws()) else {
        return Ok(Vec::new());
    };
    let outputs = &tried.trial.outcome()?.outputs;
    let is_unchanged = |(input, output): &(String, String)| {
        let drawn = inputs.iter().find(|drawn| drawn.name == *input);
        let record = outputs.iter().find(|record| record.name == *output);
        let (Some(drawn), Some(record)) = (drawn, record) else { return false };
        let RandomInput { dtype, shape, bytes, .. } = drawn;
        let view = TensorView { dtype: *dtype, shape, bytes };
        summarize_tensor(&view, None).checksum == record.summary.checksum
    };
    let unchanged = copies.into_iter().filter(is_unchanged);
    Ok(unchanged.map(|(_, output)| output).collect())
}

/// By output the index of the first element that nothing writes, in a plain replay.
fn list_unwritten(trial: &Trial) -> CliResult<Vec<(String, Vec<usize>)>> {
    let Status::Failed(failures) = &trial.outcome()?.status else { return Ok(Vec::new()) };
    let unwritten = failures.iter().filter_map(|failure| match failure {
        Failure::PoisonDependent { output, first, .. } => Some((output.clone(), first.clone())),
        _ => None,
    });
    Ok(unwritten.collect())
}

/// The elements of results, and how many of them are zeros.
struct ResultZeros {
    elements: u64,
    zeros: u64,
}

/// Those of all results of a plain replay that are floating-point tensors.
fn count_result_zeros(trial: &Trial) -> CliResult<ResultZeros> {
    let outputs = trial.outcome()?.outputs.iter().filter(|record| record.dtype.is_float());
    let counts = outputs.map(|record| {
        let elements: u64 = record.dims.iter().map(|dim| dim.size as u64).product();
        (elements, record.summary.zeros)
    });
    let (elements, zeros) = counts
        .fold((0, 0), |(elements, zeros), (own, own_zeros)| (elements + own, zeros + own_zeros));
    Ok(ResultZeros { elements, zeros })
}

/// What ends a plain replay, or does not fit.
fn find_fault(trial: &Trial) -> CliResult<Option<String>> {
    let outcome = trial.outcome()?;
    if let Some(reason) = outcome.call_misfit() {
        return Ok(Some(reason.to_owned()));
    }
    let Status::Failed(failures) = &outcome.status else { return Ok(None) };
    Ok(failures.iter().find_map(|failure| match failure {
        Failure::Fault { .. } => Some(describe_failure(failure)),
        _ => None,
    }))
}

/// Whether an output has elements that are no numbers, in a plain replay.
fn gives_nan(trial: &Trial) -> CliResult<bool> {
    let Status::Failed(failures) = &trial.outcome()?.status else { return Ok(false) };
    Ok(failures.iter().any(|failure| matches!(failure, Failure::NonFinite { nan: 1.., .. })))
}

/// What the plain replay shows of outputs; what one holds before is read comes before what it lacks.
fn list_output_traits(trial: &Trial) -> CliResult<Vec<(String, OutputTrait)>> {
    let Status::Failed(failures) = &trial.outcome()?.status else { return Ok(Vec::new()) };
    let traits = failures.iter().filter_map(|failure| match failure {
        Failure::PoisonDependent { output, .. } => Some((output.clone(), OutputTrait::ReadBefore)),
        Failure::Unwritten { output, .. } => Some((output.clone(), OutputTrait::Partial)),
        Failure::NonFinite { output, nan: 0, .. } => Some((output.clone(), OutputTrait::Infinite)),
        _ => None,
    });
    let mut traits: Vec<(String, OutputTrait)> = traits.collect();
    traits.sort_by_key(|(_, output_trait)| *output_trait == OutputTrait::Partial);
    Ok(traits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_ends_by_the_processor_time_of_its_calls() {
        let budget = MeasurementBudget::start();
        budget.charge(LONGEST_CALLS / 2);
        assert!(!budget.is_spent());
        budget.charge(LONGEST_CALLS);
        assert!(budget.is_spent());
    }

    #[test]
    fn a_call_is_slow_by_its_processor_time() {
        let call = |call_cpu| {
            let traces = TensorTraces { call_cpu, ..TensorTraces::default() };
            accept_call(&Draft::default(), traces, 0)
        };
        assert!(!call(LONG_CALL).is_slow);
        assert!(call(LONG_CALL + Duration::from_millis(1)).is_slow);
    }
}
