//! The float64 shadow on a GPU beside that on the CPU.

use std::sync::Arc;

use replay::backend::{Backend, Mode, Variant};
use replay::frontend::Precision;
use replay::judge::{GradientVerdict, gradients, judge};
use replay::summary::POISON_A;
use replay::trial::Lab;
use replay::worker::{Ending, Run};

use crate::lab::*;
use crate::{Demo, WIDENED, variants};

/// How far the shadows of two devices may lie apart, relative to an element or to the root mean square of
/// all: their mathematical functions err by a few units in the last place of float64.
const APART: f64 = 1e-12;

fn assert_alike(one: &Run, other: &Run, what: &str) {
    assert_eq!((&one.ending, &other.ending), (&Ending::Completed, &Ending::Completed), "{what}");
    for (output, view) in one.outputs() {
        let there = other.output(&output.name).unwrap();
        let squares: f64 = (0..view.len()).map(|at| view.get_f64(at).powi(2)).sum();
        let rms = (squares / view.len().max(1) as f64).sqrt();
        for at in 0..view.len() {
            let (x, y) = (view.get_f64(at), there.get_f64(at));
            let apart = (x - y).abs() <= APART * (x.abs() + rms);
            assert!(apart || x.to_bits() == y.to_bits(), "{what} {}[{at}]: {x} {y}", output.name);
        }
    }
}

/// The shadows of a small fixture on the CPU and on the device.
fn both(
    subject: &Arc<replay::trial::Subject>,
    sources: &replay::history::SourceSet,
    cache: &replay::cache::Cache,
) -> (Arc<dyn Variant>, Arc<dyn Variant>) {
    let machine = cpu(cache, &program(), MINUTE);
    let gpu = cuda(cache, machine.clone()).with_shadows_from(0);
    let prepare = |backend: &dyn Backend| {
        backend.prepare(&subject.fixture, sources, Precision::Shadow, &|| ()).unwrap()
    };
    (prepare(&machine), prepare(&gpu))
}

#[test]
#[ignore = "needs a GPU"]
fn a_shadow_on_a_gpu_is_that_of_the_cpu_up_to_the_rounding_of_float64() {
    let cache = shared_cache();
    let mut on_device = 0;
    for fixture in ["step0", "step0-words"] {
        let demo = Demo::new(fixture, &cache);
        for id in variants(&demo) {
            let sources = demo.history.source_set(id, &demo.spec).unwrap();
            let (host, device) = both(&demo.subject, &sources, &cache);
            on_device += usize::from(device.reference().is_some());
            let mode = Mode::plain(POISON_A);
            let (one, other) = (host.run(&mode).unwrap(), device.run(&mode).unwrap());
            // What does not run to its end there is the CPU's.
            if one.ending == Ending::Completed {
                assert_alike(&one, &other, &format!("{fixture} {id}"));
            }
        }
    }
    assert!(on_device > 10, "{on_device}");
}

#[test]
#[ignore = "needs a GPU"]
fn functions_vectors_shuffles_and_atomics_of_float_are_those_of_double_in_a_shadow_on_a_gpu() {
    let cache = shared_cache();
    let small = Small::floats(WIDENED, "all_of_them(x, out, n);");
    let (host, device) = both(&small.subject, &small.sources, &cache);
    assert!(device.reference().is_some(), "it runs on the CPU");
    let mode = Mode::plain(POISON_A);
    let (one, other) = (host.run(&mode).unwrap(), device.run(&mode).unwrap());
    assert_eq!(other.device.as_ref().map(|(_, class)| class.starts_with("sm_")), Some(true));
    assert_alike(&one, &other, "widened");
}

#[test]
#[ignore = "needs a GPU"]
fn evidence_from_a_gpu_gives_the_verdicts_of_the_cpu() {
    let cache = shared_cache();
    let machine = cpu(&cache, &program(), MINUTE);
    let on_cpu = Lab::new(Arc::new(machine.clone()), cache.clone(), false);
    let gpu = cuda(&cache, machine).with_shadows_from(0);
    // What CPU evidence gave on a GPU is another backend's.
    let on_gpu = Lab::new(Arc::new(gpu), cache.clone(), true);
    let mut wrong = Vec::new();
    for fixture in ["step0", "step0-words"] {
        let demo = Demo::new(fixture, &cache);
        let base = Arc::new(demo.sources("534c0b0"));
        for id in variants(&demo) {
            let sources = Arc::new(demo.history.source_set(id, &demo.spec).unwrap());
            let told = |lab: &Arc<Lab>| {
                let (base, got) =
                    (lab.trial(&demo.subject, &base), lab.trial(&demo.subject, &sources));
                let judged = judge(&base, &got).unwrap();
                let checked: Vec<GradientVerdict> =
                    gradients(&got).unwrap().iter().map(|check| check.verdict).collect();
                (crate::class(judged.verdict), checked)
            };
            let (cpu, gpu) = (told(&on_cpu), told(&on_gpu));
            eprintln!("{fixture} {id}: cpu {cpu:?}, gpu {gpu:?}");
            if cpu != gpu {
                wrong.push(format!("{fixture} {id}: cpu {cpu:?}, gpu {gpu:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
