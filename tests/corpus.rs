//! Replays a corpus of kernels whose truth is known, on the CPU and, where there is one, on a GPU.
//!
//! `cargo test` takes the third of the variants that `corpus.toml` calls quick, every kind of
//! defect among them; `REPLAY_TEST_CORPUS=all` takes all. Artifacts are kept in the target folder,
//! so a second run compiles nothing. `cargo test --test integration corpus:: -- --nocapture` shows how far every
//! variant lies from the truth, in the order of the indices and in others.

mod compilers;
mod families;
pub mod inputs;
mod matrix;
mod narrow;
mod public;
mod quantised;
mod races;
mod sized;
mod thread_loop;
mod truth;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use families::{Captured, Case, Corpus, Effect, FAMILIES, Family, Truth, Variant};
use replay::backend::{Cuda, Mode};
use replay::cuda::SearchPath;
use replay::frontend::Threads;
use replay::judge::{Verdict, judge_trial};
use replay::summary::POISON_A;
use replay::trial::{Lab, Status, Trial};

fn wanted(variant: &Variant) -> bool {
    variant.quick || std::env::var_os("REPLAY_TEST_CORPUS").is_some_and(|value| value == "all")
}

/// Orders of blocks and threads other than that of their indices in which variants are judged.
const OTHER_ORDERS: u64 = 2;

/// Relative errors in L2 of each output, or why there is none.
type Errors = Result<Vec<(&'static str, f64)>, String>;

/// How `trial` fails, if it does.
fn failures(trial: &Trial) -> Result<(), String> {
    match &trial.outcome().expect("the machine can replay").status {
        Status::Completed => Ok(()),
        Status::Failed(failures) => {
            let kinds: BTreeSet<&str> = failures.iter().map(|failure| failure.kind()).collect();
            Err(kinds.into_iter().collect::<Vec<_>>().join(", "))
        }
        Status::Untestable { reason, .. } => panic!("{}: {reason}", trial.fixture().name),
    }
}

/// How far `trial` lies from the truth of `family` on `captured`, blocks and threads in `order`.
fn errors(trial: &Trial, family: &'static str, captured: &Captured, order: u64) -> Errors {
    failures(trial)?;
    let variant = trial.variant().expect("the machine can compile").expect("it did compile");
    let mode = Mode { order, ..Mode::plain(POISON_A) };
    let run = variant.run(&mode).expect("the machine can replay");
    let expected = truth::outputs(family, &captured.inputs);
    let error = |(name, expected): (&'static str, Vec<f64>)| {
        let got = run.output(name).ok_or_else(|| format!("{:?} in order {order}", run.ending))?;
        assert_eq!(got.len(), expected.len(), "{family}: {name}");
        let missed = (0..got.len()).map(|i| got.get_f64(i) - expected[i]);
        Ok((name, norm(missed) / norm(expected.iter().copied())))
    };
    expected.into_iter().map(error).collect()
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// The relative error that float32 rounding may cost where the base costs `base`: the base is one
/// order of operations of many, none of which is worse by more than a small factor.
fn rounding(base: f64) -> f64 {
    (16.0 * base).max(2e-6)
}

/// How far the bases lie from the truth, by family and fixture.
type Bases = HashMap<(&'static str, &'static str), Vec<f64>>;

fn bases(corpus: &Corpus) -> Bases {
    let fixtures = corpus.families.iter().flat_map(|f| f.fixtures.iter().map(move |c| (f, c)));
    let of = |(family, captured): (&Family, &Captured)| {
        let trial = corpus.lab.trial(&captured.subject, &family.base);
        let errors = errors(&trial, family.name, captured, 0);
        let errors = errors.unwrap_or_else(|why| panic!("{}: {why}", family.name));
        ((family.name, captured.inputs.name), errors.into_iter().map(|(_, e)| e).collect())
    };
    fixtures.map(of).collect()
}

/// Judges one order by the truth, and says by which figures.
fn judge_order(base: &[f64], trial: &Trial, case: &Case, order: u64) -> (Verdict, String) {
    match errors(trial, case.family.name, case.captured, order) {
        Err(failures) => (Verdict::Failed, format!(" {failures}")),
        Ok(errors) => {
            // Nothing may lie between rounding and a defect, or the truth would be in doubt.
            let gap = if case.effect() == Effect::Mathematics { 5.0 } else { 1.0 };
            let near = |(&(_, error), &base): (&(_, f64), &f64)| error <= rounding(base) * gap;
            let verdict = if errors.iter().zip(base).all(near) {
                Verdict::Equivalent
            } else {
                Verdict::Diverged
            };
            let figure = |(name, error): &(&str, f64)| format!(" {name} {error:.1e}");
            (verdict, errors.iter().map(figure).collect())
        }
    }
}

/// Judges by the truth, which a real judge does not know: whether a defect shows at all.
fn judge_by_truth(bases: &Bases, lab: &Arc<Lab>, case: &Case) -> Verdict {
    let base = &bases[&(case.family.name, case.captured.inputs.name)];
    let trial = case.trials(lab).1;
    let (plain, mut line) = judge_order(base, &trial, case, 0);
    let others: Vec<Verdict> = (1..=OTHER_ORDERS)
        .map(|order| judge_order(base, &trial, case, order))
        .map(|(verdict, figures)| {
            line += &format!(" |{figures}");
            verdict
        })
        .collect();
    println!("{case}:{line}");
    let shows = others.iter().any(|&other| other != Verdict::Equivalent);
    match case.effect() {
        Effect::Mathematics => plain,
        Effect::Rounding if plain == Verdict::Equivalent && shows => Verdict::Diverged,
        Effect::Rounding => plain,
        Effect::OtherOrders => {
            assert!(plain == Verdict::Equivalent && shows, "{case}: not what it is called");
            Verdict::Diverged
        }
    }
}

#[test]
fn every_file_of_the_corpus_is_listed_once_and_begins_with_its_truth() {
    for family in FAMILIES {
        let variants = families::variants(family);
        let listed: BTreeSet<String> = variants.iter().map(|v| v.file.clone()).collect();
        assert_eq!(listed, families::files(family), "{family}");
        assert_eq!(listed.len(), variants.len(), "{family}: a file is listed twice");
        for variant in &variants {
            let text = families::text(family, &variant.file);
            let comment = text.lines().map_while(|line| line.strip_prefix("// "));
            let words = comment.collect::<Vec<_>>().join(" ");
            let (label, truth) = match variant.truth {
                Truth::Benign => ("benign", "Benign"),
                Truth::Defect => ("defect", "Defect"),
            };
            assert!(variant.file.starts_with(label), "{family}/{}", variant.file);
            assert_eq!(words, format!("{truth}: {}", variant.why), "{family}/{}", variant.file);
        }
    }
}

#[test]
fn the_corpus_is_large_enough_and_every_defect_names_fixtures_that_exist() {
    let mut counts = [0; 2];
    for family in FAMILIES {
        let fixtures: BTreeSet<String> =
            inputs::fixtures(family).iter().map(|f| f.name.to_owned()).collect();
        assert!(fixtures.len() >= 3);
        for variant in families::variants(family) {
            counts[variant.truth as usize] += 1;
            let named: BTreeSet<String> = &variant.at | &variant.in_other_orders;
            assert!(named.is_subset(&fixtures), "{family}/{}", variant.file);
            assert!(
                variant.truth == Truth::Defect || named.is_empty(),
                "{family}/{}",
                variant.file
            );
        }
    }
    assert!(counts[0] >= 40 && counts[1] >= 40, "{counts:?}");
}

#[test]
fn benign_variants_stay_within_rounding_of_the_truth_and_defects_do_not() {
    let corpus = Corpus::new();
    let bases = bases(&corpus);
    let confusion = corpus.confusion(wanted, |lab, case| judge_by_truth(&bases, lab, case));
    println!("{confusion}");
    assert!(confusion.wrong.is_empty(), "{confusion}");
    assert!(confusion.given(Effect::Rounding, Verdict::Equivalent) > 0);
    assert!(confusion.given(Effect::OtherOrders, Verdict::Diverged) > 0);
    assert!(confusion.given(Effect::Mathematics, Verdict::Diverged) > 0);
    assert!(confusion.given(Effect::Mathematics, Verdict::Failed) > 0);
}

#[test]
fn replay_calls_no_benign_variant_diverged_and_no_defect_equivalent() {
    let confusion = Corpus::new().confusion(wanted, |lab, case| {
        let (base, got) = case.trials(lab);
        let judgement = judge_trial(&base, &got).expect("the machine can replay");
        let worst = judgement.outputs.iter().filter_map(|output| output.comparison.worst);
        let ratio = worst.map(|worst| worst.ratio).fold(0.0, f64::max);
        let verdict = judgement.verdict;
        let effect = case.effect();
        let orders = judgement.outputs.iter().filter_map(|output| output.order.as_ref());
        let far = orders.map(|o| (o.value - o.other).abs() / o.rounding).fold(0.0, f64::max);
        println!(
            "{case}: {verdict:?}, {ratio:.1e} x noise, {effect:?}, by order {far:.1e} x rounding"
        );
        verdict
    });
    println!("{confusion}");
    assert!(confusion.wrong.is_empty(), "{confusion}");
}

/// What matters of a verdict: equal bits on one device need not be equal on another.
fn class(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Identical => Verdict::Equivalent,
        other => other,
    }
}

/// How long a replay on a GPU may take: defects may hang there.
const GPU_SECONDS: Duration = Duration::from_secs(20);

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_gives_the_verdicts_that_the_cpu_gives() {
    let folders = |name: &str| -> Vec<PathBuf> {
        std::env::split_paths(&std::env::var_os(name).unwrap_or_default()).collect()
    };
    let libraries = folders("LD_LIBRARY_PATH");
    let roots = folders("CUDA_HOME");
    let search = SearchPath { libraries, roots, python: Some("python3".to_owned()) };
    let cpu = families::cpu(GPU_SECONDS, Threads::Lanes);
    let gpu = Cuda::new(cpu, None, None, &search, &families::cache());
    let gpu = gpu.unwrap_or_else(|error| panic!("needs a GPU: {error}"));
    // The corpus is small: its evidence is the CPU's, unless it is to be the device's.
    let gpu = families::lab(match std::env::var_os("REPLAY_TEST_EVIDENCE") {
        Some(value) if value == "device" => gpu.with_evidence_from(0),
        _ => gpu,
    });
    let others = Mutex::new(Vec::new());
    let confusion = Corpus::new().confusion(wanted, |cpu, case| {
        let judge = |lab: &Arc<Lab>| {
            let (base, got) = case.trials(lab);
            let judged = judge_trial(&base, &got);
            let judged = judged.unwrap_or_else(|error| panic!("{case}: {error}"));
            let worst = judged.outputs.iter().filter_map(|output| output.comparison.worst);
            (judged.verdict, worst.map(|worst| worst.ratio).fold(0.0, f64::max))
        };
        let (on_cpu, cpu_ratio) = judge(cpu);
        let (on_gpu, gpu_ratio) = judge(&gpu);
        let effect = case.effect();
        println!(
            "{case}: cpu {on_cpu:?} {cpu_ratio:.1e}, gpu {on_gpu:?} {gpu_ratio:.1e}, {effect:?}"
        );
        if !is_race(case) && class(on_cpu) != class(on_gpu) {
            let line = format!("{case}: {on_cpu:?} on the cpu, {on_gpu:?} on the gpu");
            others.lock().expect("no judge panics").push(line);
        }
        on_gpu
    });
    println!("{confusion}");
    let others = others.into_inner().expect("no judge panics");
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Defects of synchronisation: what they show is a matter of the schedule, which a device chooses;
/// `--sanitize racecheck` looks for them in shared memory. A lost update, which the CPU's order of
/// blocks makes a wrong sum, also depends on chance on a GPU, and a value that is read too soon may
/// be poison on the one and of an earlier round on the other.
const RACES: [&str; 9] = [
    "defect/first_block_sets.cu",
    "defect/first_half_stores.cu",
    "defect/no_barrier_after_broadcast.cu",
    "defect/no_barrier_after_load.cu",
    "defect/no_barrier_before_dot.cu",
    "defect/plain_store.cu",
    "defect/race_without_barrier.cu",
    "defect/stale_shared.cu",
    "defect/tau_stored.cu",
];

fn is_race(case: &Case) -> bool {
    RACES.contains(&case.variant.file.as_str())
}
