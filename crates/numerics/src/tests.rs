//! Claims about noise, comparison and oracle, on outputs made for the purpose.

use half::bf16;

use super::bitmap::Bitmap;
use super::compare::{Agreement, Comparison, beyond_noise, compare_outputs};
use super::noise::{Noise, NoiseAccumulator, NoiseRef, NoiseSource, Spread};
use super::oracle::against_oracle;
use super::shadow::{Errors, ShadowChange, Shadows};
use super::*;
use replay_base::scratch::{Scratch, ScratchNumbers};
use replay_base::tensor::DType;

struct Owned {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Owned {
    fn f32(values: &[f32]) -> Owned {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Owned { dtype: DType::F32, shape: vec![values.len()], bytes }
    }

    fn f64(values: &[f64]) -> Owned {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Owned { dtype: DType::F64, shape: vec![values.len()], bytes }
    }

    fn i64(values: &[i64]) -> Owned {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Owned { dtype: DType::I64, shape: vec![values.len()], bytes }
    }

    fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }
}

fn compared(base: &Owned, got: &Owned) -> Comparison {
    compare_outputs(&base.view(), &got.view(), &NoiseRef::default()).unwrap()
}

fn noise(base: &Owned, replays: &[Owned]) -> Noise {
    let mut accumulator = NoiseAccumulator::new(&base.view(), &Scratch::heap()).unwrap();
    for replay in replays {
        accumulator.add(&base.view(), &replay.view(), NoiseSource::Rounding).unwrap();
    }
    accumulator.finish(&base.view(), None).unwrap()
}

#[test]
fn equal_bits_and_equal_nans_are_identical() {
    let a = Owned::f32(&[1.0, f32::NAN, f32::INFINITY, -0.0]);
    let b = Owned::f32(&[1.0, -f32::NAN, f32::INFINITY, -0.0]);
    assert_eq!(compared(&a, &b).agreement, Agreement::Identical);
    let empty = compared(&Owned::f32(&[]), &Owned::f32(&[]));
    assert_eq!((empty.agreement, empty.differing), (Agreement::Identical, 0));
}

#[test]
fn zeros_of_different_sign_are_equivalent() {
    let result = compared(&Owned::f32(&[0.0]), &Owned::f32(&[-0.0]));
    assert_eq!((result.agreement, result.differing), (Agreement::Equivalent, 1));
    assert_eq!((result.max_abs, result.relative_l2), (0.0, 0.0));
}

#[test]
fn one_ulp_is_equivalent_and_a_hundred_are_not() {
    for base in [1.0f32, 1e-42, 3e38, f32::MIN_POSITIVE] {
        let step = |ulps: u32| Owned::f32(&[f32::from_bits(base.to_bits() + ulps)]);
        let near = compared(&Owned::f32(&[base]), &step(1));
        assert_eq!(near.agreement, Agreement::Equivalent, "{base:e}");
        assert_eq!(near.worst.unwrap().ulps, 1.0);
        assert_eq!(compared(&Owned::f32(&[base]), &step(100)).agreement, Agreement::Diverged);
    }
}

#[test]
fn a_nan_or_an_infinity_on_one_side_is_infinitely_far() {
    for (base, got, nan, inf) in [
        (1.0, f32::NAN, 1, 0),
        (f32::NAN, 1.0, 1, 0),
        (1.0, f32::INFINITY, 0, 1),
        (f32::INFINITY, f32::NEG_INFINITY, 0, 1),
        (f32::NAN, f32::INFINITY, 1, 0),
    ] {
        let result = compared(&Owned::f32(&[2.0, base]), &Owned::f32(&[2.0, got]));
        assert_eq!(result.agreement, Agreement::Diverged, "{base} {got}");
        assert_eq!((result.nan_mismatch, result.inf_mismatch), (nan, inf), "{base} {got}");
        assert!(result.relative_l2.is_infinite() && result.max_abs.is_infinite());
        assert_eq!(result.worst.unwrap().index, 1);
    }
}

#[test]
fn integers_are_compared_exactly_beyond_what_float64_holds() {
    let big = 1i64 << 60;
    let result = compared(&Owned::i64(&[1, big]), &Owned::i64(&[1, big + 1]));
    assert_eq!((result.agreement, result.beyond), (Agreement::Diverged, 1));
}

#[test]
fn the_noise_of_both_sides_counts() {
    let base = Owned::f32(&[1.0, 1.0]);
    let got = Owned::f32(&[1.5, 1.5]);
    let spread = Spread::Single(vec![0.07, 0.0].into());
    let both = NoiseRef { base: Some(&spread), got: Some(&spread) };
    let one = NoiseRef { base: Some(&spread), got: None };
    let beyond = |n| {
        beyond_noise(&base.view(), &got.view(), n, &Scratch::heap())
            .unwrap()
            .ones()
            .collect::<Vec<_>>()
    };
    assert_eq!(beyond(&both), [1]);
    assert_eq!(beyond(&one), [1]);
    let far = Owned::f32(&[2.0, 1.0]);
    let verdict = |n| compare_outputs(&base.view(), &far.view(), n).unwrap().agreement;
    assert_eq!(verdict(&both), Agreement::Equivalent);
    assert_eq!(verdict(&one), Agreement::Diverged);
}

#[test]
fn noise_is_the_largest_deviation_and_at_least_an_ulp() {
    let base = Owned::f32(&[1.0, 4.0, 0.0]);
    let noise = noise(&base, &[Owned::f32(&[1.25, 4.0, 0.0]), Owned::f32(&[0.5, 4.0, 0.0])]);
    let expected = Spread::Single(vec![0.5, 2f32.powi(-21), f32::from_bits(1)].into());
    assert_eq!(noise.per_element, expected);
    assert_eq!(noise.summary.replays, 2);
    let expected = (0.25 + 2f64.powi(-42)).sqrt() / 17f64.sqrt();
    assert!((noise.summary.relative_l2 - expected).abs() < 1e-15);
}

#[test]
fn an_element_that_is_finite_in_some_replays_only_is_unstable() {
    let base = Owned::f32(&[1.0, f32::INFINITY, f32::NAN, 1.0]);
    let replay = Owned::f32(&[f32::NAN, f32::INFINITY, f32::NAN, 1.0]);
    let noise = noise(&base, &[replay]);
    assert_eq!((noise.summary.unstable, &noise.summary.first_unstable[..]), (1, &[0][..]));
    assert_eq!(noise.per_element.value_at(1), 0.0);
    let got = Owned::f32(&[7.0, f32::INFINITY, f32::NAN, 1.0]);
    let both = NoiseRef { base: Some(&noise.per_element), got: None };
    let result = compare_outputs(&base.view(), &got.view(), &both).unwrap();
    assert_eq!((result.agreement, result.undecided), (Agreement::Equivalent, 1));
}

#[test]
fn a_branch_that_flips_in_one_replay_is_told_from_noise_of_all() {
    let base = Owned::f32(&[1.0, 1.0]);
    let replay = |a: f32, b: f32| Owned::f32(&[a, b]);
    let replays = [replay(1.0, 1.1), replay(2.0, 0.9), replay(1.0, 1.2), replay(1.0, 1.1)];
    let noise = noise(&base, &replays);
    assert_eq!((noise.summary.flips, &noise.summary.first_flips[..]), (1, &[0][..]));
}

/// An accumulator with one replay of each kind.
fn moved(base: &Owned, rounded: &Owned, ordered: &Owned) -> NoiseAccumulator {
    let mut accumulator = NoiseAccumulator::new(&base.view(), &Scratch::heap()).unwrap();
    accumulator.add(&base.view(), &rounded.view(), NoiseSource::Rounding).unwrap();
    accumulator.add(&base.view(), &ordered.view(), NoiseSource::Order).unwrap();
    accumulator
}

#[test]
fn another_order_that_moves_an_element_beyond_rounding_is_no_noise() {
    let base = Owned::f32(&[1.0, 1.0, 1.0]);
    let rounded = Owned::f32(&[1.0, 1.0001, 1.0]);
    let ordered = Owned::f32(&[1.5, 1.005, 1.0]);
    let accumulator = moved(&base, &rounded, &ordered);
    let found = accumulator.ordered(&base.view()).unwrap().expect("an element");
    assert_eq!(found.elements.ones().collect::<Vec<_>>(), [0]);
    let noise = accumulator.finish(&base.view(), Some(found)).unwrap();
    assert_eq!(noise.per_element.value_at(0), 2f64.powi(-23));
    let noise = moved(&base, &rounded, &ordered).finish(&base.view(), None).unwrap();
    assert_eq!(noise.per_element.value_at(0), 0.5);
}

#[test]
fn sums_in_another_order_and_integers_are_not_called_dependent_on_it() {
    let base = Owned::f32(&[1.0, 1.0]);
    let sums = moved(&base, &Owned::f32(&[1.00001, 1.001]), &Owned::f32(&[1.0001, 0.98]));
    assert!(sums.ordered(&base.view()).unwrap().is_none());
    let base = Owned::i64(&[1, 2]);
    let integers = moved(&base, &base, &Owned::i64(&[2, 1]));
    assert!(integers.ordered(&base.view()).unwrap().is_none());
}

#[test]
fn deviations_are_kept_in_the_range_of_their_dtype() {
    let tiny = Owned::f64(&[1e-300, -1.7e308]);
    let noise = noise(&tiny, &[Owned::f64(&[2e-300, -1.6e308])]);
    assert_eq!(noise.per_element, Spread::Double(vec![1e-300, 1.7e308 - 1.6e308].into()));
    let large = Owned::f32(&[f32::MAX, 1e-45]);
    let noise = self::noise(&large, &[Owned::f32(&[f32::MIN, 0.0])]);
    assert_eq!(noise.per_element, Spread::Single(vec![f32::MAX, 1e-45].into()));
    assert_eq!(noise.summary.unstable, 0);
}

#[test]
fn sums_of_squares_that_leave_float64_are_still_compared() {
    let base = Owned::f64(&[3e200, 4e200]);
    let result = compared(&base, &Owned::f64(&[3e200, 5e200]));
    assert!((result.relative_l2 - 0.2).abs() < 1e-12);
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let base = Owned::f32(&[1.0]);
    let error = |got: &Owned, noise: &NoiseRef| {
        compare_outputs(&base.view(), &got.view(), noise).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(&Owned::f32(&[1.0, 2.0]), &NoiseRef::default()),
        @"cannot compare f32 [1] with f32 [2]");
    insta::assert_snapshot!(error(&Owned::f64(&[1.0]), &NoiseRef::default()),
        @"cannot compare f32 [1] with f64 [1]");
    let noise = NoiseRef { base: Some(&Spread::Single(vec![0.0; 3].into())), got: None };
    insta::assert_snapshot!(error(&Owned::f32(&[1.0]), &noise),
        @"the noise of 3 elements does not belong to a tensor of 1 elements");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let values = |seed: f32| (0..40_000).map(|i| (i as f32 * seed).sin()).collect::<Vec<_>>();
    let a = Owned::f32(&values(0.1));
    let b = Owned::f32(&values(0.100_001));
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| compared(&a, &b))
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn a_comparison_survives_json_with_its_infinities() {
    let result = compared(&Owned::f32(&[1.0]), &Owned::f32(&[f32::INFINITY]));
    let text = serde_json::to_string(&result).unwrap();
    assert!(text.contains(r#""max_abs":"inf""#), "{text}");
    assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), result);
}

#[test]
fn an_oracle_of_another_dtype_tells_the_error_in_ulps_of_the_output() {
    let bytes: Vec<u8> =
        [1.0f32, 2.0].iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
    let got = Owned { dtype: DType::BF16, shape: vec![2], bytes };
    let oracle = Owned::f64(&[1.0, 2.0 + 2f64.powi(-7)]);
    let accuracy = against_oracle(&got.view(), &oracle.view(), &NoiseRef::default()).unwrap();
    let worst = accuracy.worst.unwrap();
    assert_eq!((worst.index, worst.ulps, worst.ratio), (1, 0.5, 0.5));
    assert!((accuracy.relative_l2 - 2f64.powi(-7) / 5f64.sqrt()).abs() < 1e-4);
    let nan = Owned::f64(&[f64::NAN, 2.0]);
    let accuracy = against_oracle(&got.view(), &nan.view(), &NoiseRef::default()).unwrap();
    assert!(accuracy.relative_l2.is_infinite());
}

fn change_of(base: &Owned, got: &Owned, native: DType, noise: NoiseRef) -> ShadowChange {
    Shadows::new(base.view(), got.view(), native, noise, &Scratch::heap()).unwrap().change()
}

#[test]
fn a_shadow_moves_where_it_shifts_by_a_unit_roundoff_of_the_output() {
    let base: Vec<f64> = (1..=32).map(|n| 0.25 * f64::from(n)).collect();
    let scaled = |by: f64| Owned::f64(&base.iter().map(|x| x * by).collect::<Vec<_>>());
    let base = Owned::f64(&base);
    for (dtype, roundoff) in [(DType::F32, 2f64.powi(-24)), (DType::BF16, 2f64.powi(-8))] {
        let more = change_of(&base, &scaled(1.0 + 3.0 * roundoff), dtype, NoiseRef::default());
        assert!(more.moved > 16 && (more.moved_by / roundoff - 3.0).abs() < 0.1, "{more:?}");
        let less = change_of(&base, &scaled(1.0 + 0.5 * roundoff), dtype, NoiseRef::default());
        assert_eq!((less.moved, less.changed), (0, 32), "{dtype}");
    }
}

/// How the shadows `base` and `got` change, where rounding moves each native element by a twentieth of itself.
fn change_in_noise(base: &[f64], got: &[f64]) -> ShadowChange {
    let mut noise = Scratch::heap().zeros(base.len()).unwrap();
    noise.iter_mut().zip(base).for_each(|(noise, x): (&mut f64, _)| *noise = 0.05 * x.abs());
    let base = Owned::f64(base);
    let got = Owned::f64(got);
    let noise = Spread::Double(noise);
    let noise = NoiseRef { base: Some(&noise), got: None };
    let scratch = Scratch::heap();
    let shadows = Shadows::new(base.view(), got.view(), DType::F32, noise, &scratch).unwrap();
    let change = shadows.change();
    shadows.with_growth(&change).change()
}

#[test]
fn one_factor_on_all_that_changed_moves_a_shadow_whatever_the_noise() {
    let base: Vec<f64> = (1..=64).map(|n| f64::from(n).sqrt()).collect();
    let scaled = |every: usize, by: f64| -> Vec<f64> {
        let grown = |(at, x): (usize, &f64)| if at % every == 0 { by * x } else { *x };
        base.iter().enumerate().map(grown).collect()
    };
    let column = change_in_noise(&base, &scaled(4, 1.00001));
    assert_eq!((column.changed, column.moved), (16, 16), "{column:?}");
    assert!((column.changed_by / 1e-5 - 1.0).abs() < 1e-6, "{column:?}");
    // Constants that are rounded to float32 multiply to as much.
    let constants = change_in_noise(&base, &scaled(4, 1.000001));
    assert_eq!((constants.changed, constants.moved), (16, 0), "{constants:?}");
    // Few may agree by chance, and rounding draws another factor for each.
    assert_eq!(change_in_noise(&base, &scaled(16, 1.00001)).moved, 0);
    let rounded: Vec<f64> = base.iter().map(|&x| f64::from(half::f16::from_f64(x))).collect();
    let rounded = change_in_noise(&base, &rounded);
    assert!(rounded.changed > 48 && rounded.moved == 0, "{rounded:?}");
}

#[test]
fn a_shadow_in_float32_moves_by_more_than_its_own_rounding() {
    let base: Vec<f64> = (1..=32).map(|n| 0.25 * f64::from(n)).collect();
    let single = |by: f64| {
        let bytes = base.iter().flat_map(|x| ((x * by) as f32).to_le_bytes()).collect();
        Owned { dtype: DType::F32, shape: vec![32], bytes }
    };
    let steps = |by: f64| {
        let mut spread = Scratch::heap().zeros(32).unwrap();
        spread.iter_mut().zip(&base).for_each(|(step, x): (&mut f64, _)| *step = by * x);
        Spread::Double(spread)
    };
    let change = |by, native, step: Option<f64>| {
        let base = single(1.0);
        let got = single(by);
        let scratch = Scratch::heap();
        let noise = NoiseRef::default();
        let shadows = Shadows::new(base.view(), got.view(), native, noise, &scratch).unwrap();
        assert!(!shadows.is_wide());
        let Some(step) = step else { return shadows.change() };
        let steps = steps(step);
        shadows.with_steps(NoiseRef { base: Some(&steps), got: None }).unwrap().change()
    };
    let same = change(1.0 + 2f64.powi(-22), DType::BF16, None);
    assert_eq!((same.moved, same.changed, same.dtype), (0, 0, DType::F32));
    let shifted = change(1.0 + 2f64.powi(-16), DType::BF16, None);
    assert_eq!((shifted.moved, shifted.changed), (0, 32));
    let excused = change(1.0 + 2f64.powi(-16), DType::BF16, Some(2f64.powi(-18)));
    assert_eq!((excused.moved, excused.changed), (0, 0));
    let wrong = change(1.02, DType::BF16, Some(2f64.powi(-18)));
    assert!(wrong.moved > 16 && wrong.changed == 32, "{wrong:?}");
    let narrow = change(1.02, DType::BF16, Some(2f64.powi(-8)));
    assert_eq!(narrow.moved, 0, "it is rounded on the way");
}

#[test]
fn a_small_element_moves_at_the_scale_of_its_row_where_it_rounds_as_that_does() {
    let mut base: Vec<f64> = (1..=32).map(f64::from).collect();
    base[7] = 1e-9;
    let mut got = base.clone();
    got[7] = 1.1e-9;
    let base = Owned::f64(&base);
    let got = Owned::f64(&got);
    // It is what is left of terms as large as the row.
    let mut noise = vec![2f32.powi(-20); 32];
    let spread = Spread::Single(noise.clone().into());
    let change = change_of(&base, &got, DType::F32, NoiseRef { base: Some(&spread), got: None });
    assert_eq!((change.changed, change.moved), (1, 0));
    // It is small by itself.
    noise[7] = 1e-16;
    let spread = Spread::Single(noise.into());
    let change = change_of(&base, &got, DType::F32, NoiseRef { base: Some(&spread), got: None });
    assert_eq!((change.changed, change.moved), (1, 1));
}

#[test]
fn what_the_outputs_hold_as_well_is_not_left_of_terms_that_cancel() {
    let base = Owned::f64(&[1.0, 1e-13]);
    let got = Owned::f64(&[1.0, 0.0]);
    let scratch = Scratch::heap();
    let moved = |native: f32| {
        let base_output = Owned::f32(&[1.0, native]);
        let got_output = Owned::f32(&[1.0, 0.0]);
        let noise = NoiseRef::default();
        let shadows = Shadows::new(base.view(), got.view(), DType::F32, noise, &scratch).unwrap();
        shadows.with_outputs(base_output.view(), got_output.view()).unwrap().change().moved
    };
    assert_eq!((moved(1e-13), moved(0.0), moved(3e-8)), (1, 0, 0));
}

#[test]
fn a_tie_that_rounding_in_float64_decides_does_not_move_a_shadow() {
    let base = Owned::f64(&[1.0, 3.0]);
    let got = Owned::f64(&[1.0, 4.0]);
    let scratch = Scratch::heap();
    let shadows = || {
        let none = NoiseRef::default();
        Shadows::new(base.view(), got.view(), DType::F32, none, &scratch).unwrap()
    };
    assert_eq!(shadows().change().moved, 1);
    let mut spread: ScratchNumbers<f64> = scratch.zeros(2).unwrap();
    spread[1] = 1.0;
    let spread = Spread::Double(spread);
    let own = NoiseRef { base: None, got: Some(&spread) };
    assert_eq!(shadows().with_noise(own).unwrap().change().moved, 0);
}

/// Whether errors around a shadow of ones and a cancelled element are alike; the trusted side errs by
/// `base` there, the other one by `got`.
fn errors_are_alike(base: impl Fn(usize) -> f64, got: impl Fn(usize) -> f64) -> bool {
    let truth: Vec<f64> =
        (0..512usize).map(|n| if n.is_multiple_of(2) { 1.0 } else { 1e-4 }).collect();
    let off = |error: &dyn Fn(usize) -> f64| {
        let values = truth.iter().enumerate().map(|(n, x)| (x + error(n)) as f32);
        Owned::f32(&values.collect::<Vec<f32>>())
    };
    let base = off(&base);
    let got = off(&got);
    let truth = Owned::f64(&truth);
    let base_shadow = truth.view();
    let got_shadow = truth.view();
    let noise = NoiseRef::default();
    Errors { base: base.view(), got: got.view(), base_shadow, got_shadow, noise }.are_alike()
}

#[test]
fn a_cancelled_element_may_err_as_far_as_its_like() {
    let waves = |n: usize| 1e-7 * ((n * 7 % 11) as f64 / 5.0 - 1.0);
    let met = |n: usize| if n == 5 { 0.0 } else { waves(n) };
    assert!(errors_are_alike(met, waves));
    let far = |n: usize| if n == 5 { 3e-6 } else { waves(n) };
    assert!(!errors_are_alike(met, far));
}

#[test]
fn small_elements_that_become_zero_do_not_err_alike() {
    let exact = |n: usize| if n.is_multiple_of(2) { 6e-8 } else { 0.0 };
    let flushed = |n: usize| if n.is_multiple_of(2) { 6e-8 } else { -1e-4 };
    assert!(!errors_are_alike(exact, flushed));
}

/// Whether errors are alike where a third of the elements are `small` in the trusted output, 1e-10 in its shadow,
/// and another third vanish in both, and are `remainder` on the other side.
fn remainders_are_alike(small: f32, remainder: f32) -> bool {
    let third = |values: [f32; 3]| Owned::f32(&values.repeat(128));
    let base = third([1.0, small, -0.0]);
    let got = third([1.0, 1e-10, remainder]);
    let base_shadow = Owned::f64(&[1.0, f64::from(1e-10f32), -0.0].repeat(128));
    let noise = NoiseRef::default();
    let [base, got, base_shadow] = [&base, &got, &base_shadow].map(Owned::view);
    Errors { base, got, base_shadow, got_shadow: base_shadow, noise }.are_alike()
}

#[test]
fn what_vanishes_may_be_as_large_as_what_the_trusted_output_loses() {
    assert!(remainders_are_alike(-0.0, -2.8e-34));
    assert!(remainders_are_alike(0.0, 0.9e-10));
    assert!(!remainders_are_alike(0.0, 1.1e-10));
    assert!(!remainders_are_alike(1e-10, -2.8e-34), "the trusted output holds small elements");
}

#[test]
fn shadows_that_differ_by_rounding_are_the_same_mathematics() {
    let base = Owned::f64(&[1.0, 1e-3, 1e-17, f64::INFINITY]);
    let change = |values: [f64; 4]| {
        let got = Owned::f64(&values);
        change_of(&base, &got, DType::F32, NoiseRef::default())
    };
    assert_eq!(change([1.0 + 1e-15, 1e-3 + 1e-18, 0.0, f64::INFINITY]).changed, 0);
    let wrong = change([1.0, 1.001e-3, 1e-17, f64::INFINITY]);
    assert_eq!((wrong.changed, wrong.first), (1, Some(1)));
    assert_eq!(change([1.0, 1e-3, f64::NAN, f64::INFINITY]).first, Some(2));
}

#[test]
fn classes_of_elements_are_what_their_names_say() {
    let base = Owned::f32(&[1.0, 0.0, 2.0, 3.0]);
    let got = Owned::f32(&[0.0, 0.0, f32::NAN, f32::INFINITY]);
    assert_eq!(Bitmap::zeroed(&base.view(), &got.view()).ones().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_machine_that_errs_twice_as_far_has_twice_the_noise() {
    let bytes: Vec<u8> = [1.0f32, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView { dtype: DType::F32, shape: &[2], bytes: &bytes };
    let noise =
        || NoiseAccumulator::new(&view, &Scratch::heap()).unwrap().finish(&view, None).unwrap();
    let once = noise();
    let twice = noise().scaled(2.0);
    assert_eq!(once.per_element, Spread::Single(vec![2f32.powi(-23), 2f32.powi(-22)].into()));
    assert_eq!(twice.per_element, Spread::Single(vec![2f32.powi(-22), 2f32.powi(-21)].into()));
    assert_eq!(twice.summary.relative_l2, 2.0 * once.summary.relative_l2);
    assert_eq!((twice.summary.flips, twice.summary.unstable), (0, 0));
}

/// All per-element results for two sides whose elements are made of `bits`.
fn measured(bits: &[(u32, u32, u32)], columns: usize, scratch: &Scratch) -> String {
    let rows = bits.len() / columns;
    let bits = &bits[..rows * columns];
    let tensor = |of: fn(&(u32, u32, u32)) -> u32| Owned {
        dtype: DType::F32,
        shape: vec![rows, columns],
        bytes: bits.iter().flat_map(|all| of(all).to_le_bytes()).collect(),
    };
    let base = tensor(|b| b.0);
    let rounded = tensor(|b| b.0 ^ (b.1 & 0xFF));
    let got = tensor(|b| b.2);
    let base = base.view();
    let rounded = rounded.view();
    let got = got.view();
    let mut accumulator = NoiseAccumulator::new(&base, scratch).unwrap();
    for replay in [&rounded, &base, &rounded, &rounded] {
        accumulator.add(&base, replay, NoiseSource::Rounding).unwrap();
    }
    accumulator.add(&base, &got, NoiseSource::Order).unwrap();
    let ordered = accumulator.ordered(&base).unwrap();
    let told = format!("{ordered:?}");
    let noise = accumulator.finish(&base, ordered).unwrap();
    let both = NoiseRef { base: Some(&noise.per_element), got: None };
    let compared = compare_outputs(&base, &got, &both).unwrap();
    let beyond = beyond_noise(&base, &got, &both, scratch).unwrap();
    let dims = [rows, columns].map(|size| replay_base::tensor::Dim { name: None, size });
    let place = super::slices::locate_elements(&beyond, &dims, &[], scratch).unwrap();
    let zeros = super::zeros::zero_slices(&base, &got, &dims, scratch).unwrap();
    format!("{told} {noise:?} {compared:?} {beyond:?} {place:?} {zeros:?}")
}

proptest::proptest! {
    #[test]
    fn what_lies_in_files_is_what_lies_on_the_heap(
        bits in proptest::collection::vec(proptest::prelude::any::<(u32, u32, u32)>(), 1..400),
        columns in 1usize..40,
        heap_bytes in proptest::prelude::prop_oneof![0usize..1, 1usize..5000],
    ) {
        let columns = columns.min(bits.len());
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path(), heap_bytes);
        let (files, heap) =
            (measured(&bits, columns, &scratch), measured(&bits, columns, &Scratch::heap()));
        proptest::prop_assert_eq!(files, heap);
    }
}
