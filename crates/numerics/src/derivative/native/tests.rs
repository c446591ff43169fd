use std::convert::Infallible;

use super::super::tests::{Case, Random, bytes, cases, seeds};
use super::*;
use crate::constants::NATIVE_SLOPE_BUDGET;
use replay_base::tensor::{DType, TensorView};

/// Checks `case` along 8 directions.
fn check(case: &Case, dtype: DType) -> NativeFinding {
    check_along(8, case, dtype)
}

/// Checks `case` with a loss whose error is up to 2^-22 of the terms that it is summed from, in an input of `dtype`.
fn check_along(directions: u64, case: &Case, dtype: DType) -> NativeFinding {
    let shape = [case.x.len() / case.columns, case.columns];
    let wide = TensorView { dtype: DType::F64, shape: &shape, bytes: &bytes(&case.x) };
    let x = wide.round_to(dtype, 1);
    let gradient = bytes(&case.gradient);
    let input = TensorView { dtype, shape: &shape, bytes: &x };
    let values: Vec<f64> = (0..input.len()).map(|index| input.get_f64(index)).collect();
    let products = values.iter().zip(&case.gradient).map(|(x, g)| (x * g).abs());
    let terms = products.filter(|product| product.is_finite());
    let magnitude = (case.loss)(&values).abs() + terms.sum::<f64>();
    let rounding = magnitude * 2f64.powi(-22);
    let mut random = Random(77);
    let mut native_loss = |values: &[f64]| {
        let loss = (case.loss)(values) + rounding * (2.0 * random.unit() - 1.0);
        f64::from(loss as f32)
    };
    let scales = Scales::measure(&input, 2);
    let question = NativeQuestion {
        input,
        scales: &scales,
        constraint: None,
        gradient: TensorView { dtype: DType::F64, shape: &shape, bytes: &gradient },
        gradient_rounding: 1e-6,
        loss: native_loss(&values),
        rounding,
        directions,
        budget: NATIVE_SLOPE_BUDGET,
    };
    let ask = |steps: &[Step]| -> Result<_, Infallible> {
        let after = |step: &Step| {
            let moved = move_tensor(&input, step, &scales, 1);
            let moved = TensorView { bytes: &moved, ..input };
            let values: Vec<f64> = (0..moved.len()).map(|index| moved.get_f64(index)).collect();
            Some(native_loss(&values)).filter(|loss| loss.is_finite())
        };
        Ok(steps.iter().map(after).collect())
    };
    let Ok(finding) = check_by_native_differences(&question, ask);
    finding
}

/// Whether the input of `case` keeps its meaning in fewer digits.
fn is_fit_for(case: &Case, dtype: DType) -> bool {
    // The gradient of the others belongs to the input of more digits.
    dtype == DType::F32 || ["gate", "rectifier"].contains(&case.name)
}

#[test]
fn a_right_gradient_is_never_convicted_by_native_differences() {
    let mut agreed = 0;
    let mut all = 0;
    for case in seeds().flat_map(|seed| cases(4000 + seed)) {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            if !is_fit_for(&case, dtype) {
                continue;
            }
            let found = check(&case, dtype);
            println!("{} {dtype}: {found:?}", case.name);
            assert_ne!(found.answer, NativeAnswer::Differs, "{} {dtype}: {found:?}", case.name);
            all += 1;
            agreed += usize::from(found.answer == NativeAnswer::Agrees);
        }
    }
    println!("{agreed} of {all} right gradients agree");
    assert!(agreed * 2 >= all, "{agreed} of {all}");
}

#[test]
fn a_gradient_off_by_tens_of_percent_is_convicted_where_a_right_one_agrees() {
    let mut convicted = 0;
    let mut all = 0;
    for mut case in seeds().flat_map(|seed| cases(4000 + seed)) {
        if check(&case, DType::F32).answer != NativeAnswer::Agrees {
            continue;
        }
        let gradient = case.gradient.clone();
        if gradient.iter().all(|g| *g == 0.0) {
            // A multiple of it is as right.
            continue;
        }
        for by in [0.7, -0.6, -2.0] {
            case.gradient = gradient.iter().map(|g| g * (1.0 + by)).collect();
            let found = check(&case, DType::F32);
            println!("{} by {by}: {found:?}", case.name);
            assert_ne!(found.answer, NativeAnswer::Agrees, "{} by {by}: {found:?}", case.name);
            all += 1;
            convicted += usize::from(found.answer == NativeAnswer::Differs);
        }
    }
    println!("{convicted} of {all} wrong gradients are convicted");
    assert!(convicted * 4 >= all * 3, "{convicted} of {all}");
}

/// A loss of one row, with its gradient.
fn row(x: Vec<f64>, gradient: Vec<f64>, loss: impl Fn(&[f64]) -> f64 + 'static) -> Case {
    Case { name: "", columns: x.len(), x, gradient, loss: Box::new(loss) }
}

fn grid() -> Vec<f64> {
    Random(3).normals(40)
}

#[test]
fn steps_across_a_pole_convict_nobody() {
    for seed in 0..40 {
        let mut x = Random(seed).normals(300);
        // One element lies nearer to the pole than any step of the others is long.
        x[7] = 3e-4;
        let inverse = |x: &[f64]| x.iter().map(|x| 1.0 / x).sum();
        let gradient = x.iter().map(|x| -1.0 / (x * x)).collect();
        let found = check(&row(x.clone(), gradient, inverse), DType::F32);
        assert_ne!(found.answer, NativeAnswer::Differs, "{seed}: {found:?}");
        let logarithm = |x: &[f64]| x.iter().map(|x| (x.abs() + 1e-12).ln()).sum();
        x[9] = 0.0;
        x[11] = 0.0;
        for at_zero in [0.0, 1e12, -1e12] {
            let slope = |x: &f64| if *x == 0.0 { at_zero } else { 1.0 / x };
            let found =
                check(&row(x.clone(), x.iter().map(slope).collect(), logarithm), DType::F32);
            assert_ne!(found.answer, NativeAnswer::Differs, "{seed} {at_zero}: {found:?}");
        }
    }
}

#[test]
fn a_gradient_that_few_elements_carry_does_not_agree_because_their_signs_cancel() {
    let mut unseen = 0;
    for seed in 0..200 {
        let mut x = Random(seed).normals(60);
        (x[20], x[40]) = (5e-3, -5e-3);
        let logarithm = |x: &[f64]| x.iter().map(|x| x.abs().ln()).sum();
        let doubled = x.iter().map(|x| 2.0 / x).collect();
        let found = check_along(2, &row(x, doubled, logarithm), DType::F32);
        assert_ne!(found.answer, NativeAnswer::Agrees, "{seed}: {found:?}");
        unseen += usize::from(found.answer == NativeAnswer::Unknown(NativeDoubt::Unseen));
    }
    assert!(unseen > 0);
}

#[test]
fn zeros_that_agree_say_nothing_of_the_rest_of_a_gradient() {
    let class = |answer, elements, norm, off| ClassFinding {
        answer,
        elements,
        directions: 8,
        length: 0.1,
        norm,
        size: norm,
        off,
        error: 0.0,
    };
    let rough = NativeAnswer::Unknown(NativeDoubt::Rough);
    let zeros = class(NativeAnswer::Agrees, 10, 0.0, 0.0);
    let rest = class(rough, 5, 1.0, 0.5);
    assert_eq!(combine_classes(&[zeros, rest]).answer, rough);
    assert_eq!(combine_classes(&[zeros]).answer, NativeAnswer::Agrees);
}

#[test]
fn small_errors_are_not_told_and_never_called_wrong() {
    let gradient = |by: f64| grid().iter().map(|x| 2.0 * x * by).collect();
    let square = |x: &[f64]| x.iter().map(|x| x * x).sum();
    let answer = |by: f64| check(&row(grid(), gradient(by), square), DType::F32);
    assert_eq!(answer(1.0).answer, NativeAnswer::Agrees);
    assert!(answer(1.0).off + answer(1.0).error < 0.01, "{:?}", answer(1.0));
    assert_eq!(answer(1.02).answer, NativeAnswer::Agrees);
    assert!((0.01..0.04).contains(&answer(1.02).off), "{:?}", answer(1.02));
    assert_eq!(answer(1.2).answer, NativeAnswer::Unknown(NativeDoubt::Near));
    assert_eq!(answer(1.5).answer, NativeAnswer::Differs);
}

#[test]
fn a_loss_that_stays_within_its_rounding_convicts_nobody() {
    let found = check(&row(grid(), vec![1.0; 40], |_| 0.0), DType::F32);
    assert_eq!(found.answer, NativeAnswer::Unknown(NativeDoubt::Flat));
    // Numbers that are rounded to steps of a quarter, with the slope of those that are not.
    let stairs = |x: &[f64]| x.iter().map(|x| (4.0 * x).round() / 4.0).sum();
    for x in [vec![0.3, 0.8, -0.7], grid()] {
        let count = x.len();
        let found = check(&row(x, vec![1.0; count], stairs), DType::F32);
        assert!(matches!(found.answer, NativeAnswer::Unknown(_)), "{found:?}");
    }
}

#[test]
fn jumps_and_rounding_convict_nobody() {
    let sign = |x: &[f64]| x.iter().map(|x| x.signum()).sum();
    for x in [vec![1e-3; 40], vec![0.0; 40], grid()] {
        let found = check(&row(x, vec![0.0; 40], sign), DType::F32);
        assert_ne!(found.answer, NativeAnswer::Differs, "{found:?}");
    }
    // The slopes lie far below the rounding of a large constant.
    let large = |x: &[f64]| 1e9 + x.iter().sum::<f64>();
    let found = check(&row(grid(), vec![-1.0; 40], large), DType::F32);
    assert!(matches!(found.answer, NativeAnswer::Unknown(_)), "{found:?}");
    let nothing = |_: &[f64]| f64::NAN;
    let found = check(&row(grid(), vec![1.0; 40], nothing), DType::F32);
    assert_eq!(found.answer, NativeAnswer::Unknown(NativeDoubt::NoLoss));
}

#[test]
fn kinks_whose_sides_cancel_convict_nobody() {
    // Rows of a loss whose gradient by the logits sums to zero, on the kink of a rectifier.
    let columns = 16;
    let weights: Vec<f64> = Random(21).normals(32 * columns);
    let weights = weights.chunks(columns).flat_map(|row| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter().map(move |w| w - mean)
    });
    let weights: Vec<f64> = weights.collect();
    let loss = move |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| w * x.max(0.0)).sum();
    let x = vec![0.0; 32 * columns];
    let gradient = x.clone();
    let case = Case { name: "", columns, x, gradient, loss: Box::new(loss) };
    let found = check(&case, DType::F32);
    assert!(matches!(found.answer, NativeAnswer::Unknown(_)), "{found:?}");
}

#[test]
fn steps_of_a_narrow_input_are_taken_as_they_end() {
    // Numbers just below a power of two: their upper neighbours lie twice as far as the lower ones.
    let x = vec![1.9921875; 64];
    let weights = Random(9).normals(64);
    let loss = move |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| w * x).sum();
    let right = row(x.clone(), Random(9).normals(64), loss);
    let found = check(&right, DType::BF16);
    assert!(found.answer == NativeAnswer::Agrees && found.off < 1e-3, "{found:?}");
}
