//! Series whose truth is known: what was planted is found, and nothing else.

use std::path::Path;

use super::*;
use replay_base::summary::draw_splitmix64;
use replay_engine::judge::{GradientVerdict, Verdict};
use replay_engine::trial::Status;
use replay_fixture::harness::Harness;

/// A training of `layers` layers, with weights, gradients and Adam's moments of each, and the norm before clipping.
fn catalogue(layers: usize) -> TensorCatalogue {
    let norm = "[inputs.grad_norm]\ndtype = \"f32\"\nshape = []\n";
    catalogue_of(&(harness_text(layers) + norm))
}

fn catalogue_of(text: &str) -> TensorCatalogue {
    let harness = Harness::parse(text, Path::new("replay.toml")).expect("a harness");
    TensorCatalogue::from_harness(&harness)
}

/// The harness of a training of `layers` layers.
fn harness_text(layers: usize) -> String {
    let vector = "dtype = \"f32\"\nshape = [\"n\"]\n";
    let scalar = "dtype = \"f32\"\nshape = []\n";
    let words = "dtype = \"i32\"\nshape = [\"n\"]\n";
    let mut text = "sources = [\"a.cu\"]\ncall = \"f();\"\n".to_owned();
    for layer in 0..layers {
        for name in ["", "_exp_avg", "_exp_avg_sq", "_update"] {
            text += &format!("[inputs.layers_{layer}_w{name}]\n{vector}");
        }
    }
    text += &format!("[inputs.tokens]\n{words}[inputs.targets]\n{words}");
    text += &format!("[outputs.loss]\n{scalar}");
    for layer in 0..layers {
        text += &format!("[outputs.grad_layers_{layer}_w]\n{vector}");
    }
    text
}

/// Close to the standard normal distribution.
fn normal(seed: u64, at: usize) -> f64 {
    let unit =
        |k: usize| draw_splitmix64(seed << 32 | (12 * at + k) as u64) as f64 / u64::MAX as f64;
    (0..12).map(unit).sum::<f64>() - 6.0
}

fn numbers(norm: f64) -> TensorNumbers {
    TensorNumbers {
        count: 100,
        norm,
        max_abs: norm / 5.0,
        mean: Some(0.0),
        zeros: if norm == 0.0 { 100 } else { 0 },
        nan: 0,
        inf: 0,
        checksum: "0".repeat(32).parse().expect("a checksum"),
    }
}

/// A training that goes well, with `noise` on losses and gradients.
fn training(layers: usize, steps: usize, noise: f64, seed: u64) -> Series {
    let catalogue = catalogue(layers);
    let step = |at: usize| {
        let draw = |what: u64| (noise * normal(seed + what, at)).exp();
        let loss = (1.0 + 2.0 * (-(at as f64) / 30.0).exp()) * draw(1);
        let tensors = catalogue.tensors.iter().enumerate().map(|(place, tensor)| {
            let mut told = numbers(if tensor.name.starts_with("grad_") {
                0.3 * draw(100 + place as u64)
            } else {
                10.0
            });
            // Weights are other ones at each step.
            told.checksum = format!("{:032x}", at + 1).parse().expect("a checksum");
            Some(told)
        });
        let update = ParameterUpdate { norm: 0.01 * draw(2), weight: 10.0 };
        let adam = Adam { count: 100, step: 0.5 * draw(3), largest: 2.0, ..Adam::default() };
        SeriesStep {
            fixture: format!("step{at}"),
            number: Some(at as i64),
            measured: StepNumbers {
                scalars: Scalars { loss: Some(loss), lr: Some(1e-3), ..Scalars::default() },
                tensors: tensors.collect(),
                updates: vec![Some(update); catalogue.parameters.len()],
                adam: vec![Some(adam); catalogue.parameters.len()],
                alignment: Some(Alignment { shift: Some(1), of: 31, differ: 0, first: None }),
            },
            replay: None,
        }
    };
    let steps = (0..steps).map(step).collect();
    Series { steps, catalogue, numbering: Numbering::default(), clip: None }
}

/// The numbers of the gradient of layer `layer` at one step.
fn gradient(series: &mut Series, layer: usize, at: usize) -> &mut TensorNumbers {
    let place = series.catalogue.place(&format!("grad_layers_{layer}_w")).expect("a gradient");
    series.steps[at].measured.tensors[place].as_mut().expect("numbers")
}

/// The one finding on `series`.
fn only(series: &Series) -> SeriesFinding {
    let mut found = analyse_series(series);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn a_training_that_goes_well_gives_no_finding_however_noisy() {
    for seed in 0..6 {
        for noise in [0.0, 0.01, 0.1, 0.4] {
            for steps in [1, 2, 9, 20, 100] {
                let found = analyse_series(&training(3, steps, noise, seed));
                assert_eq!(found, [], "seed {seed}, noise {noise}, {steps} steps");
            }
        }
    }
}

#[test]
fn no_steps_have_no_findings() {
    assert_eq!(analyse_series(&training(4, 0, 0.1, 0)), []);
}

#[test]
fn a_spike_of_the_loss_is_found_where_it_was_planted() {
    let mut series = training(2, 60, 0.05, 7);
    let loss = series.steps[41].measured.scalars.loss.as_mut().expect("a loss");
    *loss *= 3.0;
    let SeriesFinding::Spike {
        spike: SeriesSpike { quantity, spell, worst, value, expected, deviations, .. },
    } = only(&series)
    else {
        panic!("a spike");
    };
    assert_eq!((quantity.as_str(), spell.steps, spell.of, worst), ("loss", 1, 60, 41));
    assert_eq!(Some(value), series.steps[41].measured.scalars.loss);
    assert!(deviations > 6.0 && value > 2.0 * expected, "{value} {expected} {deviations}");
}

#[test]
fn a_spike_of_one_layer_is_told_where_the_whole_does_not_show_it() {
    let mut series = training(8, 60, 0.05, 3);
    for at in 0..60 {
        // One layer is so much larger that the sum shows it alone.
        gradient(&mut series, 0, at).norm *= 100.0;
    }
    gradient(&mut series, 5, 30).norm *= 8.0;
    let SeriesFinding::Spike { spike: SeriesSpike { quantity, worst, others, .. } } = only(&series)
    else {
        panic!("a spike");
    };
    assert_eq!((quantity.as_str(), worst, others), ("layers.5.w", 30, 0));
}

#[test]
fn clipping_is_told_with_its_rate_and_what_it_removes() {
    let mut series = training(1, 20, 0.0, 0);
    series.clip = Some(0.1);
    let SeriesFinding::Clipped {
        clipping: FrequentClipping { spell, norm, removed, most, gradients },
    } = only(&series)
    else {
        panic!("clipping");
    };
    assert_eq!((spell.steps, spell.of), (20, 20));
    assert!((norm - 0.3).abs() < 1e-12 && (removed - 2.0 / 3.0).abs() < 1e-12, "{norm} {removed}");
    assert!((most - removed).abs() < 1e-12);
    assert_eq!(gradients, Gradients::Unchecked);
    series.clip = Some(0.5);
    assert_eq!(analyse_series(&series), []);
}

#[test]
fn a_gradient_that_is_clipped_and_matches_its_loss_is_large_and_not_wrong() {
    let mut series = training(1, 20, 0.0, 0);
    series.clip = Some(0.1);
    let verdict = |series: &mut Series, at: usize, verdict| {
        let check = StepGradient { output: "g".to_owned(), verdict, worst: 0.5, error: 1e-9 };
        series.steps[at].replay = Some(StepReplay {
            status: Status::Completed,
            gradients: vec![check],
            against: None,
            distances: Vec::new(),
        });
    };
    for at in 0..20 {
        verdict(&mut series, at, GradientVerdict::Matches);
    }
    let SeriesFinding::Clipped { clipping: FrequentClipping { gradients, .. } } = only(&series)
    else {
        panic!("clipping")
    };
    assert_eq!(gradients, Gradients::Match);
    verdict(&mut series, 4, GradientVerdict::Mismatch);
    let [first, second] = &analyse_series(&series)[..] else { panic!("two findings") };
    assert!(
        matches!(&first, SeriesFinding::GradientWrong { spell, .. } if (spell.steps, spell.first) == (1, 4))
    );
    assert!(matches!(
        second,
        SeriesFinding::Clipped {
            clipping: FrequentClipping { gradients: Gradients::Mismatch, .. }
        }
    ));
}

#[test]
fn a_norm_that_is_a_metric_needs_a_threshold_to_tell_of_clipping() {
    let mut series = training(1, 20, 0.0, 0);
    // Of all parameters of the training, of which this function has a few.
    series.catalogue = catalogue_of(&harness_text(1));
    for step in &mut series.steps {
        step.measured.scalars.grad_norm = Some(1.2);
    }
    assert_eq!(analyse_series(&series), []);
    for step in &mut series.steps {
        step.measured.scalars.max_norm = Some(1.0);
    }
    let SeriesFinding::Clipped { clipping: FrequentClipping { spell, norm, .. } } = only(&series)
    else {
        panic!("clipping")
    };
    assert_eq!((spell.steps, norm), (20, 1.2));
}

#[test]
fn clipping_is_read_from_captured_norms() {
    let mut series = training(1, 20, 0.0, 0);
    for step in &mut series.steps {
        // Captured after clipping, to the norm of 0.3 that they have.
        step.measured.scalars.grad_norm = Some(1.2);
    }
    let SeriesFinding::Clipped { clipping: FrequentClipping { norm, removed, .. } } = only(&series)
    else {
        panic!("clipping")
    };
    assert!((norm - 1.2).abs() < 1e-12 && (removed - 0.75).abs() < 1e-12, "{norm} {removed}");
    for step in &mut series.steps {
        // Captured before: the norm is that of the gradients, but for rounding.
        step.measured.scalars.grad_norm = Some(0.300_000_1);
    }
    assert_eq!(analyse_series(&series), []);
    for step in &mut series.steps {
        step.measured.scalars.max_norm = Some(0.15);
    }
    let SeriesFinding::Clipped { clipping: FrequentClipping { removed, .. } } = only(&series)
    else {
        panic!("clipping")
    };
    assert!((removed - 0.5).abs() < 1e-6, "{removed}");
}

#[test]
fn a_layer_without_gradient_is_found_from_the_step_it_died_at() {
    let mut series = training(3, 20, 0.1, 1);
    for at in 12..20 {
        *gradient(&mut series, 1, at) = numbers(0.0);
    }
    let SeriesFinding::NoGradient { parameters, spell } = only(&series) else {
        panic!("a dead layer")
    };
    assert_eq!((parameters[0].as_str(), spell.first, spell.steps), ("layers.1.w", 12, 8));
    // A batch that does not reach it is no dead layer.
    for at in 12..20 {
        *gradient(&mut series, 1, at) = numbers(if at == 15 { 0.0 } else { 0.3 });
    }
    assert_eq!(analyse_series(&series), []);
}

#[test]
fn nan_is_told_from_its_first_step_and_tensor_on() {
    let mut series = training(3, 20, 0.1, 1);
    for at in 8..20 {
        gradient(&mut series, 2, at).nan = 4;
    }
    for at in 9..20 {
        gradient(&mut series, 0, at).inf = 1;
        series.steps[at].measured.scalars.loss = Some(f64::NAN);
    }
    let finding = only(&series);
    assert_eq!(finding.severity(), Severity::Wrong);
    let SeriesFinding::NotFinite { spell, tensors, affected } = finding else { panic!("NaN") };
    assert_eq!((spell.first, spell.steps, affected), (8, 12, 3));
    assert_eq!(tensors, ["grad_layers_2_w"]);
}

#[test]
fn targets_that_are_not_the_next_tokens_are_told() {
    let mut series = training(1, 20, 0.1, 1);
    let shifted = Alignment { shift: Some(0), of: 31, differ: 30, first: Some(vec![0, 0]) };
    for step in &mut series.steps {
        step.measured.alignment = Some(shifted.clone());
    }
    let SeriesFinding::Misaligned { misalignment: Misalignment { spell, shift, .. } } =
        only(&series)
    else {
        panic!("misaligned")
    };
    assert!(spell.is_always());
    assert_eq!(shift, Some(0));
}

#[test]
fn gradients_that_vanish_over_depth_are_told_with_their_factor() {
    let mut series = training(6, 20, 0.1, 1);
    for (at, layer) in (0..20).flat_map(|at| (0..6).map(move |layer| (at, layer))) {
        gradient(&mut series, layer, at).norm *= 10f64.powi(layer as i32 - 5);
    }
    let SeriesFinding::Flow { group, layers, factor, first, last } = only(&series) else {
        panic!("a flow");
    };
    assert_eq!((group.as_str(), layers), ("layers", 6));
    assert!((0.09..0.11).contains(&factor), "{factor}");
    assert!((1e-6..1e-4).contains(&(first / last)));
}

#[test]
fn parameters_that_do_not_move_and_those_that_jump_are_told() {
    let mut series = training(3, 20, 0.1, 1);
    for step in &mut series.steps {
        step.measured.updates[0] = Some(ParameterUpdate { norm: 0.0, weight: 10.0 });
        step.measured.updates[2] = Some(ParameterUpdate { norm: 5.0, weight: 10.0 });
    }
    let found = analyse_series(&series);
    let [frozen, jumps] = &found[..] else { panic!("{found:#?}") };
    assert!(
        matches!(&frozen, SeriesFinding::Frozen { parameters, .. } if parameters == &["layers.0.w"])
    );
    assert!(
        matches!(&jumps, SeriesFinding::Updates { parameters, large: true, .. } if parameters == &["layers.2.w"])
    );
    // Without a learning rate nothing has to move.
    for step in &mut series.steps {
        step.measured.scalars.lr = Some(0.0);
        step.measured.updates[2] = None;
    }
    assert_eq!(analyse_series(&series), []);
}

#[test]
fn a_loss_that_rises_is_told_and_noise_is_no_rise() {
    let mut series = training(1, 40, 0.05, 5);
    for (at, step) in series.steps.iter_mut().enumerate() {
        step.measured.scalars.loss = Some(1.0 + 0.05 * at as f64 + 0.02 * normal(9, at));
    }
    let SeriesFinding::LossRises { from, to, .. } = only(&series) else { panic!("a rise") };
    assert!(from < 1.4 && to > 2.5, "{from} {to}");
    for (at, step) in series.steps.iter_mut().enumerate() {
        step.measured.scalars.loss = Some(1.0 + 0.2 * normal(9, at));
    }
    assert_eq!(analyse_series(&series), []);
}

#[test]
fn moments_that_cannot_be_adams_are_told() {
    let mut series = training(2, 20, 0.1, 1);
    let told = |of: fn(&mut Adam)| {
        let mut series = series.clone();
        of(series.steps[3].measured.adam[1].as_mut().expect("moments"));
        only(&series)
    };
    let negative = told(|adam| adam.negative = 2);
    assert_eq!(negative.severity(), Severity::Wrong);
    assert!(matches!(negative, SeriesFinding::AdamNegative { .. }));
    assert!(matches!(
        told(|adam| adam.unrelated = 1),
        SeriesFinding::AdamUnrelated { elements: 1, .. }
    ));
    assert!(matches!(told(|adam| adam.damped = 80), SeriesFinding::AdamDamped { .. }));
    series.steps.clear();
}

#[test]
fn the_first_step_at_which_revisions_part_is_told_and_how_the_distance_grows() {
    let mut series = training(1, 20, 0.0, 1);
    for (at, step) in series.steps.iter_mut().enumerate() {
        let distance = Distance {
            from: Other::Trusted,
            output: "g".to_owned(),
            verdict: if at < 5 { Verdict::Equivalent } else { Verdict::Diverged },
            relative: 1e-7 * 2f64.powi(at as i32),
            beyond: 3,
            count: 100,
            finding: None,
        };
        step.replay = Some(StepReplay {
            status: Status::Completed,
            gradients: Vec::new(),
            against: Some(distance.verdict),
            distances: vec![distance],
        });
    }
    let finding = only(&series);
    assert_eq!(finding.severity(), Severity::Wrong);
    let SeriesFinding::Parted { parted } = finding else { panic!("revisions that part") };
    assert_eq!((parted.spell.first, parted.spell.steps, parted.spell.of), (5, 15, 20));
    assert_eq!(parted.first, 1e-7 * 32.0);
    assert!((parted.growth.expect("a trend") - 2.0).abs() < 1e-9);
}
