//! Every form against the first, and every defect: what the judge says of thousands of outputs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use replay::judge::{OutputJudgement, judge_trial};
use replay::snapshot::{Snapshot, SnapshotComparison, compare_outcome};
use replay::tensor::DType;
use replay::trial::{Shadow, Trial};

use super::batch::{Batch, Bench, name_of};
use super::draw::Draw;
use super::matrix::{Matrix, Said, Shift};
use super::shares::extent;
use super::{Change, Extent, Family, Kind, ORDERS, Problem, Site, Sizes, families};

/// The shift, in units of roundoff, from which nearly every defect has to be found: all but those far
/// below the noise of an output, where they might be the rounding of a constant.
const FOUND_FROM: f64 = 16.0;

/// The share of them that has to be found, and that of all shifts of a unit and more.
const FOUND: [f64; 2] = [0.98, 0.95];

/// The families of the quick share.
pub const QUICK: [&str; 6] = ["softmax", "ratio", "layernorm", "quantised", "gated", "matmul_bias"];

/// Lines that are printed of what was missed.
const PRINTED: usize = 60;

/// How many problems are drawn, and what is compared on each.
#[derive(Clone, Copy)]
struct Effort {
    /// Sets of problems for each family.
    batches: u64,
    /// Problems of each kind in a set.
    copies: usize,
    /// Equal forms on each.
    forms: usize,
    /// Defects on each.
    defects: usize,
}

/// A quick share, or as much as `REPLAY_TEST_CORPUS=all` stands for; `REPLAY_TEST_CASES` says how many
/// sets of problems.
fn effort() -> Effort {
    if is_whole() {
        Effort { batches: cases().unwrap_or(6), copies: 2, forms: 3, defects: 5 }
    } else {
        Effort { batches: cases().unwrap_or(1), copies: 1, forms: 2, defects: 2 }
    }
}

/// How many sets of problems are asked for.
pub fn cases() -> Option<u64> {
    std::env::var("REPLAY_TEST_CASES").ok().and_then(|cases| cases.parse().ok())
}

/// Whether all is asked for, not only a quick share.
pub fn is_whole() -> bool {
    std::env::var_os("REPLAY_TEST_CORPUS").is_some_and(|value| value == "all")
}

/// The seed of the first set of problems: `REPLAY_TEST_SEED`, so that another run sees other data.
pub fn first_seed() -> u64 {
    std::env::var("REPLAY_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// What was seen.
#[derive(Default)]
struct Seen {
    /// Comparisons of equal forms, by what was said.
    benign: BTreeMap<String, usize>,
    /// Comparisons in which a defect changes nothing that can be seen.
    without_effect: usize,
    /// False alarms, by family.
    alarms: Vec<(&'static str, String)>,
    by_row: Matrix,
    by_element: Matrix,
    /// What snapshots of the first form say, by the scale of the row.
    by_snapshot: Matrix,
    /// False alarms of snapshots.
    snapshot_alarms: Vec<String>,
    missed: Vec<String>,
}

impl Seen {
    fn benign(&mut self, dtype: DType, said: Said) {
        *self.benign.entry(format!("{} {:?}", dtype.name(), said.verdict)).or_default() += 1;
    }

    fn defect(&mut self, dtype: DType, shift: Shift, said: Said, what: impl Fn() -> String) {
        self.by_row.count(dtype, shift.by_row, said);
        self.by_element.count(dtype, shift.by_element, said);
        if !said.found() && shift.by_row >= FOUND_FROM && shift.by_row.is_finite() {
            self.missed.push(format!("{:.1e} units, {said:?} {}", shift.by_row, what()));
        }
    }

    fn compared(&self) -> usize {
        self.benign.values().sum()
    }
}

/// One set of problems of a family, of each kind as many.
struct Job {
    family: &'static Family,
    seed: u64,
    effort: Effort,
}

impl Job {
    fn run(&self, bench: &Bench, seen: &Mutex<Seen>) {
        let seed = self.family.seed(self.seed);
        let mut draw = Draw::new(Kind::Ordinary, seed);
        let sizes = Sizes::draw(self.family, &mut draw);
        let problem = |number: usize| {
            let kind = Kind::ALL[number % Kind::ALL.len()];
            Problem::of(self.family, kind, &sizes, seed ^ (1 + number as u64))
        };
        let problems = (0..self.effort.copies * Kind::ALL.len()).map(problem).collect();
        let batch = Batch::new(bench, self.family, problems, &self.seed.to_string());
        let base = batch.trial(&Change::NONE, 0);
        self.hold_against_truth(&batch, &base, &Change::NONE);
        let accepted = is_whole().then(|| snapshot(&base));
        for (id, change) in self.changes(&sizes, &mut draw).iter().enumerate() {
            let got = batch.trial(change, id + 1);
            self.hold_against_truth(&batch, &got, change);
            let judgement = judge_trial(&base, &got).expect("the machine can replay");
            let outputs = &judgement.outputs;
            assert_eq!(outputs.len(), batch.outputs().count(), "{}: {change:?}", self.family.name);
            let compared = accepted.as_ref().map(|accepted| beside(accepted, &got));
            let mut seen = seen.lock().expect("no comparison panics");
            self.note(&batch, change, (outputs, compared.as_ref()), &mut seen);
        }
        batch.clear();
    }

    /// The changes that are made: forms without a defect, and defects in the first form.
    fn changes(&self, sizes: &Sizes, draw: &mut Draw) -> Vec<Change> {
        let forms = (self.family.ways * ORDERS) as usize;
        let form =
            |draw: &mut Draw| Change { form: 1 + draw.below(forms - 1) as i32, ..Change::NONE };
        let mut changes: Vec<Change> = (0..self.effort.forms).map(|_| form(draw)).collect();
        for _ in 0..self.effort.defects {
            let site = draw.one_of(self.family.sites);
            changes.push(defect(&site, sizes, draw));
        }
        changes
    }

    fn note(
        &self,
        batch: &Batch,
        change: &Change,
        (outputs, compared): (&[OutputJudgement], Option<&SnapshotComparison>),
        seen: &mut Seen,
    ) {
        for (problem, of) in batch.problems.iter().enumerate() {
            let truth = |change: &Change| (self.family.truth)(of, change);
            let base = truth(&Change::NONE);
            let got = truth(change);
            // Any change at all decides a tie.
            let decides_ties = self.family.jumps && of.kind == Kind::Tie;
            for (at, output) in self.family.outputs.iter().enumerate() {
                let columns = output.shape.last().map_or(1, |size| of.size(size));
                for dtype in super::batch::DTYPES {
                    let name = name_of(output, dtype, problem);
                    let judged = outputs.iter().find(|judged| judged.name == name);
                    let judged = judged.expect("every output is judged");
                    let shift = Shift::of(&base[at], &got[at], columns, dtype);
                    let said = Said::of(judged);
                    let what = || self.told(of, change, judged);
                    let no_effect = shift.by_element == 0.0;
                    if let Some(compared) = compared {
                        let said = Said::of_snapshot(compared, &name);
                        if !no_effect && !decides_ties {
                            seen.by_snapshot.count(dtype, shift.by_row, said);
                        } else if no_effect && said.found() {
                            let told = compared.reason().unwrap_or_default();
                            seen.snapshot_alarms.push(format!("{} {told}", what()));
                        }
                    }
                    match change.site {
                        0 => seen.benign(dtype, said),
                        _ if no_effect => seen.without_effect += 1,
                        _ if decides_ties => {}
                        _ => seen.defect(dtype, shift, said, what),
                    }
                    if no_effect && said.found() {
                        seen.alarms.push((self.family.name, format!("{said:?} {}", what())));
                    }
                }
            }
        }
    }

    fn told(&self, problem: &Problem, change: &Change, judged: &OutputJudgement) -> String {
        let worst = judged.comparison.worst.map(|worst| (worst.ratio, worst.base, worst.got));
        let shadow = judged.shadow.map(|shadow| (shadow.relative_l2, shadow.changed));
        let error = |accuracy: &Option<replay::numerics::oracle::Accuracy>| {
            accuracy.as_ref().map(|accuracy| accuracy.relative_l2)
        };
        format!(
            "{} seed {} {:?} {}: {change:?}, worst {worst:?}, shadow {shadow:?}, errors {:?} {:?}, {}",
            self.family.name,
            self.seed,
            problem.kind,
            judged.name,
            error(&judged.base_accuracy),
            error(&judged.got_accuracy),
            judged.place.as_deref().unwrap_or("no place"),
        )
    }

    /// The float64 shadow of `trial` computes what the truth does.
    fn hold_against_truth(&self, batch: &Batch, trial: &Trial, change: &Change) {
        let run = trial.shadow_run().expect("the machine can replay");
        let Shadow::Present(run) = run else { panic!("{}: {run:?}", self.family.name) };
        for (problem, of) in batch.problems.iter().enumerate() {
            if self.family.jumps && of.kind == Kind::Tie {
                continue;
            }
            let truth = (self.family.truth)(of, change);
            for (output, truth) in self.family.outputs.iter().zip(&truth) {
                let name = name_of(output, DType::F32, problem);
                let shadow = run.output(&name).expect("the shadow has every output");
                let finite = truth.iter().filter(|x| x.is_finite());
                let scale = finite.fold(0.0, |most, x| f64::max(most, x.abs()));
                for (index, &truth) in truth.iter().enumerate() {
                    let got = shadow.get_f64(index);
                    let same = got == truth || got.is_nan() && truth.is_nan();
                    assert!(
                        same || (got - truth).abs() <= 1e-7 * scale,
                        "{} {:?} {name}[{index}]: {got} is not {truth}, {change:?}, seed {}",
                        self.family.name,
                        of.kind,
                        self.seed
                    );
                }
            }
        }
    }
}

/// What is accepted of `trial`.
fn snapshot(trial: &Trial) -> Snapshot {
    let outcome = trial.outcome();
    let noise = trial.noise();
    let imprints = trial.imprints().expect("the machine can replay");
    let outcome = outcome.expect("the machine can replay");
    let noise = noise.expect("the machine can replay");
    Snapshot::from_outcome(outcome, "sized", &"0".repeat(64), &noise, &imprints, None)
}

/// What a snapshot says of `trial`.
fn beside(accepted: &Snapshot, trial: &Trial) -> SnapshotComparison {
    let outcome = trial.outcome();
    let noise = trial.noise();
    let imprints = trial.imprints().expect("the machine can replay");
    let noise = noise.expect("the machine can replay");
    compare_outcome(accepted, outcome.expect("the machine can replay"), &noise, &imprints)
}

/// A defect at `site`, somewhere: of a relative size between 1e-7 and 0.3, of either sign, or a value
/// that is left out or counted twice.
pub fn defect(site: &Site, sizes: &Sizes, draw: &mut Draw) -> Change {
    let size = 10f64.powf(-7.0 + 6.5 * draw.unit());
    let sign = draw.one_of(&[1.0, -1.0]);
    let factor = match draw.below(20) {
        0 => 0.0,
        1 => 2.0,
        _ => 1.0 + sign * size,
    };
    let row = draw.below(extent(sizes, site.rows)) as i32;
    let column = draw.below(extent(sizes, site.columns)) as i32;
    let places = match site.extent {
        Extent::Scalar => &[(-1, -1)][..],
        Extent::Rows => &[(-1, -1), (row, -1)],
        Extent::Columns => &[(-1, -1), (-1, column)],
        Extent::Elements => &[(-1, -1), (row, -1), (-1, column), (row, column)],
    };
    let (row, column) = draw.one_of(places);
    Change { form: 0, site: site.number, factor, row, column }
}

/// Runs `run` on every job, on all of the machine's processors.
pub fn in_parallel<J: Sync>(jobs: &[J], run: impl Fn(&J) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(job);
        }
    };
    // Threads of their own: a judge may not be called by work that rayon schedules. Twice as many as
    // there are processors: most of the time they wait for workers.
    std::thread::scope(|scope| {
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(take)));
    });
}

/// Compares all families on the set of problems number `seed`.
fn compare_all(bench: &Bench, effort: Effort, seed: u64, seen: &Mutex<Seen>) {
    let wanted = |family: &&Family| is_whole() || QUICK.contains(&family.name);
    let families = families().into_iter().filter(wanted);
    let jobs: Vec<Job> = families.map(|family| Job { family, seed, effort }).collect();
    in_parallel(&jobs, |job| job.run(bench, seen));
}

impl Seen {
    fn print(&self) {
        println!(
            "{} comparisons of equal forms, {} false alarms",
            self.compared(),
            self.alarms.len()
        );
        self.benign.iter().for_each(|(what, count)| println!("{what:<20}{count:>8}"));
        println!("\nby the scale of the element or its row\n{}", self.by_row);
        println!("\nby the scale of the element\n{}", self.by_element);
        println!("\nby snapshots, at the scale of the element or its row\n{}", self.by_snapshot);
        println!("{} false alarms of snapshots", self.snapshot_alarms.len());
        self.snapshot_alarms.iter().for_each(|alarm| println!("snapshot alarm: {alarm}"));
        println!("\n{} comparisons in which a defect has no effect", self.without_effect);
        self.alarms.iter().for_each(|(_, alarm)| println!("false alarm: {alarm}"));
        println!("{} shifts of {FOUND_FROM} units and more were missed", self.missed.len());
        self.missed.iter().take(PRINTED).for_each(|missed| println!("missed: {missed}"));
    }
}

#[test]
fn equal_forms_are_never_called_diverged_and_shifts_of_many_units_always_are() {
    let bench = Bench::new();
    let mut seen = Mutex::new(Seen::default());
    let effort = effort();
    for seed in first_seed()..first_seed() + effort.batches {
        compare_all(&bench, effort, seed, &seen);
        println!("\ncomparisons up to seed {seed}");
        seen.get_mut().expect("no comparison panics").print();
    }
    let seen = seen.into_inner().expect("no comparison panics");
    let alarms: Vec<&str> = seen.alarms.iter().map(|(_, alarm)| &alarm[..]).collect();
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
    assert!(seen.snapshot_alarms.is_empty(), "{}", seen.snapshot_alarms.join("\n"));
    for (least, share) in [FOUND_FROM, 1.0].into_iter().zip(FOUND) {
        let (found, all) = seen.by_row.found(least, f64::MAX);
        let missed = seen.missed.join("\n");
        assert!(found as f64 >= share * all as f64, "{found} of {all} were found\n{missed}");
    }
}
