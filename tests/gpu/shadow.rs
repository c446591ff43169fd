//! The float64 shadow on a GPU beside that on the CPU.

use std::sync::Arc;

use replay::backend::{Backend, Mode, Variant};
use replay::frontend::Precision;
use replay::judge::{GradientVerdict, check_gradients, judge_trial};
use replay::summary::POISON_A;
use replay::tensor::TensorView;
use replay::tensor::step::{Scales, Step, StepClass, StepUnit};
use replay::trial::Lab;
use replay::worker::{CallPart, Ending, InputChange, Run, Stepped};

use crate::common::gpu_lab::*;
use crate::gpu::{Demo, WIDENED, variants};

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
            let x = view.get_f64(at);
            let y = there.get_f64(at);
            let apart = (x - y).abs() <= APART * (x.abs() + rms);
            assert!(apart || x.to_bits() == y.to_bits(), "{what} {}[{at}]: {x} {y}", output.name);
        }
    }
}

/// The shadows of a small fixture on the CPU and on the device; none where the sources do not fit its call.
fn both(
    subject: &Arc<replay::trial::Subject>,
    sources: &replay::history::SourceSet,
    cache: &replay::cache::Cache,
) -> Option<(Arc<dyn Variant>, Arc<dyn Variant>)> {
    let machine = cpu(cache, &program(), MINUTE);
    let gpu = cuda(cache, machine.clone()).with_evidence_from(0);
    let prepare = |backend: &dyn Backend| match backend.prepare(
        &subject.fixture,
        sources,
        Precision::Shadow,
        &|| (),
    ) {
        Ok(shadow) => Some(shadow),
        Err(error) if error.refusal().is_some() => None,
        Err(error) => panic!("{error}"),
    };
    Some((prepare(&machine)?, prepare(&gpu)?))
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
            let Some((host, device)) = both(&demo.subject, &sources, &cache) else { continue };
            on_device += usize::from(device.reference().is_some());
            let mode = Mode::plain(POISON_A);
            let one = host.run(&mode).unwrap();
            let other = device.run(&mode).unwrap();
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
    let (host, device) = both(&small.subject, &small.sources, &cache).unwrap();
    assert!(device.reference().is_some(), "it runs on the CPU");
    let mode = Mode::plain(POISON_A);
    let one = host.run(&mode).unwrap();
    let other = device.run(&mode).unwrap();
    assert_eq!(other.device.as_ref().map(|(_, class)| class.starts_with("sm_")), Some(true));
    assert_alike(&one, &other, "widened");
}

/// Steps of every class and unit, some elements left out.
fn steps(count: usize) -> Vec<Step> {
    let units = [StepUnit::Row, StepUnit::Own];
    let kinds = StepClass::ALL.into_iter().flat_map(|class| units.map(|unit| (class, unit)));
    let step = |(class, unit): (StepClass, StepUnit)| Step {
        seed: 7,
        class,
        among: 5..count - 3,
        without: vec![10..20, 40..41, 500..700],
        unit,
        length: -0.375,
        constraint: None,
    };
    kinds.map(step).collect()
}

fn stepped(subject: &replay::trial::Subject, step: Step) -> Mode {
    let input = &subject.fixture.inputs[0];
    let packed = input.packed().unwrap();
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let scales = Arc::new(Scales::measure(&view, 1));
    let stepped = Stepped { input: input.name.clone(), step, scales };
    let part = CallPart::Told("out".to_owned());
    Mode { change: InputChange::Step(stepped), part, ..Mode::plain(POISON_A) }
}

/// The first output of each of `modes` in bits, `at_once` or each by itself.
fn bits(shadow: &dyn Variant, modes: &[Mode], at_once: bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut take = |_, run: Run| {
        assert_eq!(run.ending, Ending::Completed);
        found.push(run.output("out").unwrap().bytes.to_vec());
        Ok(())
    };
    if at_once {
        shadow.run_each(modes, 1, &mut take).unwrap()
    } else {
        modes.iter().for_each(|mode| take(0, shadow.run(mode).unwrap()).unwrap())
    }
    found
}

#[test]
#[ignore = "needs a GPU"]
fn a_step_on_a_gpu_moves_every_element_to_the_bits_of_the_cpu() {
    let cache = shared_cache();
    let source = "__global__ void copy(const float* x, float* out, int n) {\n\
                  for (int i = threadIdx.x; i < n; i += 64) out[i] = x[i]; }";
    let mut values: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin() * 2.5).collect();
    let odd = [0.0, -0.0, -1e9, f32::INFINITY, 1e-40, f32::MAX, f32::MIN_POSITIVE];
    values[30..30 + odd.len()].copy_from_slice(&odd);
    let small = Small::floats_of(source, "copy<<<1, 64>>>(x, out, n);", &values);
    let (host, device) = both(&small.subject, &small.sources, &cache).unwrap();
    let modes: Vec<Mode> =
        steps(values.len()).into_iter().map(|step| stepped(&small.subject, step)).collect();
    let expected = bits(&*host, &modes, false);
    assert!(expected.iter().any(|one| *one != expected[0]));
    for at_once in [false, true] {
        assert_eq!(bits(&*device, &modes, at_once), expected, "{at_once}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn code_that_remembers_earlier_calls_has_a_process_for_each_evaluation() {
    let cache = shared_cache();
    let source = "__device__ float calls;\n\
                  __global__ void count(const float* x, float* out, int n) {\n\
                  if (threadIdx.x == 0) calls += 1.0f; __syncthreads();\n\
                  for (int i = threadIdx.x; i < n; i += 64) out[i] = x[i] * calls; }";
    let small = Small::floats(source, "count<<<1, 64>>>(x, out, n);");
    let (host, device) = both(&small.subject, &small.sources, &cache).unwrap();
    let modes: Vec<Mode> =
        steps(1000).into_iter().map(|step| stepped(&small.subject, step)).collect();
    assert_eq!(bits(&*device, &modes, true), bits(&*host, &modes, false));
}

#[test]
#[ignore = "needs a GPU"]
fn evidence_from_a_gpu_gives_the_verdicts_of_the_cpu() {
    let cache = shared_cache();
    let machine = cpu(&cache, &program(), MINUTE);
    let on_cpu = Lab::new(Arc::new(machine.clone()), cache.clone(), false);
    let gpu = cuda(&cache, machine).with_evidence_from(0);
    // What CPU evidence gave on a GPU is another backend's.
    let on_gpu = Lab::new(Arc::new(gpu), cache.clone(), true);
    let mut wrong = Vec::new();
    for fixture in ["step0", "step0-words"] {
        let demo = Demo::new(fixture, &cache);
        let base = Arc::new(demo.sources("534c0b0"));
        for id in variants(&demo) {
            let sources = Arc::new(demo.history.source_set(id, &demo.spec).unwrap());
            let told = |lab: &Arc<Lab>| {
                let base = lab.trial(&demo.subject, &base);
                let got = lab.trial(&demo.subject, &sources);
                let judged = judge_trial(&base, &got).unwrap();
                let checked: Vec<GradientVerdict> = check_gradients(&got)
                    .unwrap()
                    .iter()
                    .map(|check| check.story.verdict())
                    .collect();
                (crate::gpu::class(judged.verdict), checked)
            };
            let cpu = told(&on_cpu);
            let gpu = told(&on_gpu);
            eprintln!("{fixture} {id}: cpu {cpu:?}, gpu {gpu:?}");
            if cpu != gpu {
                wrong.push(format!("{fixture} {id}: cpu {cpu:?}, gpu {gpu:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
