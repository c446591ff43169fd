//! Gradients of the families, right ones and wrong ones, on data of every kind.

use std::collections::BTreeMap;
use std::sync::Mutex;

use replay::judge::{GradientCheck, GradientVerdict, check_gradients};
use replay::tensor::DType;

use super::batch::{Batch, Bench, name_of};
use super::comparisons::{QUICK, cases, defect, first_seed, in_parallel, is_whole};
use super::draw::Draw;
use super::{Change, Family, Kind, Problem, Sizes, families};

/// The upper ends of the classes of errors, relative to the gradient's norm.
const ENDS: [(f64, &str); 6] = [
    (f64::MIN_POSITIVE, "right"),
    (1e-7, "below 1e-7"),
    (1e-5, "to 1e-5"),
    (1e-3, "to 1e-3"),
    (1e-1, "to 1e-1"),
    (f64::INFINITY, "above"),
];

const COLUMNS: [GradientVerdict; 4] = [
    GradientVerdict::Matches,
    GradientVerdict::Unknown,
    GradientVerdict::Imprecise,
    GradientVerdict::Mismatch,
];

/// The relative size from which a wrong gradient must not match.
const FOUND_FROM: f64 = 1e-5;

#[derive(Default)]
struct Seen {
    counts: BTreeMap<usize, [usize; COLUMNS.len()]>,
    convicted: Vec<String>,
    missed: Vec<String>,
    unknown: Vec<String>,
}

impl Seen {
    fn note(&mut self, relative: f64, check: &GradientCheck, what: &str) {
        let class = ENDS.iter().position(|(end, _)| relative < *end).unwrap_or(ENDS.len() - 1);
        let column = COLUMNS.iter().position(|verdict| *verdict == check.story.verdict());
        let column = column.expect("every verdict has a column");
        self.counts.entry(class).or_default()[column] += 1;
        let line = format!(
            "{relative:.1e} {:?} {what}: worst {:.1e}, error {:.1e}, native {:.1e} {:.1e}, checked {} of {}, {:?} {:?}",
            check.story.verdict(),
            check.worst,
            check.error,
            check.native_error,
            check.native_ratio,
            check.checked,
            check.elements,
            check.place,
            check.story.reason(),
        );
        match check.story.verdict() {
            GradientVerdict::Mismatch | GradientVerdict::Imprecise if relative == 0.0 => {
                self.convicted.push(line);
            }
            GradientVerdict::Unknown if relative == 0.0 => self.unknown.push(line),
            GradientVerdict::Matches if relative >= FOUND_FROM => self.missed.push(line),
            _ => {}
        }
    }

    fn print(&self) {
        print!("{:<12}", "");
        COLUMNS.iter().for_each(|verdict| print!("{:>11}", format!("{verdict:?}").to_lowercase()));
        for (class, row) in &self.counts {
            print!("\n{:<12}", ENDS[*class].1);
            row.iter().for_each(|count| print!("{count:>11}"));
        }
        println!();
        self.convicted.iter().for_each(|line| println!("right, convicted: {line}"));
        self.missed.iter().for_each(|line| println!("wrong, matches: {line}"));
        self.unknown.iter().for_each(|line| println!("right, unknown: {line}"));
    }
}

/// One problem of a family, and the defects that are made in its gradients.
struct Job {
    family: &'static Family,
    kind: Kind,
    seed: u64,
    defects: usize,
}

impl Job {
    fn run(&self, bench: &Bench, seen: &Mutex<Seen>) {
        let seed = self.family.seed(self.seed) ^ self.kind as u64;
        let mut draw = Draw::new(Kind::Ordinary, seed);
        let sizes = Sizes::draw(self.family, &mut draw);
        let problem = Problem::of(self.family, self.kind, &sizes, seed ^ 0x5eed);
        let id = format!("{}-{:?}", self.seed, self.kind);
        let batch = Batch::with_gradients(bench, self.family, problem, &id);
        let sites: Vec<_> = self.family.sites.iter().filter(|site| site.backward).collect();
        let mut changes = vec![Change::NONE];
        changes.extend((0..self.defects).map(|_| {
            let site = draw.one_of(&sites);
            defect(site, &sizes, &mut draw)
        }));
        for (id, change) in changes.iter().enumerate() {
            let trial = batch.trial(change, id);
            let checks = check_gradients(&trial).expect("the machine can replay");
            let mut seen = seen.lock().expect("no check panics");
            self.note(&batch.problems[0], change, &checks, &mut seen);
        }
        batch.clear();
    }

    fn note(&self, problem: &Problem, change: &Change, checks: &[GradientCheck], seen: &mut Seen) {
        let truth = |change: &Change| (self.family.truth)(problem, change);
        let right = truth(&Change::NONE);
        let wrong = truth(change);
        let declared = self.family.outputs.iter().enumerate();
        let declared = declared.filter(|(_, output)| output.gradient.is_some());
        for (at, output) in declared {
            let name = name_of(output, DType::F32, 0);
            let check = checks.iter().find(|check| check.output == name);
            let check = check.expect("every gradient is checked");
            let norm =
                |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
            let off = norm(&mut right[at].iter().zip(&wrong[at]).map(|(a, b)| b - a));
            let of = norm(&mut right[at].iter().copied());
            let relative = if off == 0.0 { 0.0 } else { off / of };
            let what = format!(
                "{} seed {} {:?} {name} {change:?}",
                self.family.name, self.seed, self.kind
            );
            seen.note(relative, check, &what);
        }
    }
}

#[test]
fn no_right_gradient_is_convicted_and_no_wrong_one_matches() {
    let bench = Bench::new();
    let mut seen = Mutex::new(Seen::default());
    let wanted =
        |family: &&Family| family.has_gradients() && (is_whole() || QUICK.contains(&family.name));
    for seed in first_seed()..first_seed() + cases().unwrap_or(if is_whole() { 3 } else { 1 }) {
        let mut jobs = Vec::new();
        for family in families().into_iter().filter(wanted) {
            // A quick share: one kind of data for each family.
            let one = (seed as usize + family.name.len()) % Kind::ALL.len();
            let kinds = if is_whole() { &Kind::ALL[..] } else { &Kind::ALL[one..=one] };
            let defects = if is_whole() { 2 } else { 1 };
            jobs.extend(kinds.iter().map(|&kind| Job { family, kind, seed, defects }));
        }
        in_parallel(&jobs, |job| job.run(&bench, &seen));
        let seen = seen.get_mut().expect("no check panics");
        println!("\ngradients up to seed {seed}");
        seen.print();
    }
    let seen = seen.into_inner().expect("no check panics");
    assert!(seen.convicted.is_empty(), "{}", seen.convicted.join("\n"));
    assert!(seen.missed.is_empty(), "{}", seen.missed.join("\n"));
}
