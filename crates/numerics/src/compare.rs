//! Compares two outputs element by element, in units of their noise.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bitmap::Bitmap;
use super::constants::{COARSE_ROUNDING, COARSEST_SHARE, NOISE_FACTOR};
use super::measure::{Squares, ulp, value_distance};
use super::noise::NoiseRef;
use super::{CompareError, NumericsError, check_shapes};
use replay_base::scratch::Scratch;
use replay_base::summary::Number;
use replay_base::tensor::{DType, TensorView};

/// Elements of one task. The number is fixed: sums do not depend on the number of threads.
const BLOCK: usize = 1 << 14;

/// Elements of one read.
const AT_A_TIME: usize = 1 << 10;

/// Blocks of one batch; each batch is added up in the order of its blocks.
const AT_ONCE: usize = 1 << 10;

/// How far two outputs agree.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The same bits, NaNs being all alike.
    Identical,
    /// Other bits, within noise.
    Equivalent,
    /// Beyond noise.
    Diverged,
}

/// How two outputs differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    #[serde(rename = "verdict")]
    pub agreement: Agreement,
    /// Elements of each side.
    pub count: u64,
    /// Elements whose bits differ.
    pub differing: u64,
    /// Elements beyond noise.
    pub beyond: u64,
    /// Differing elements with infinite noise: nothing can be said about them.
    pub undecided: u64,
    /// Elements with NaN on one side only.
    pub nan_mismatch: u64,
    /// Elements with infinity on one side only, or with infinities of opposite sign, and without NaN.
    pub inf_mismatch: u64,
    /// `||got - base|| / ||base||`; infinite where an element is finite on one side only.
    #[serde(with = "Number")]
    pub relative_l2: f64,
    /// The largest distance of an element.
    #[serde(with = "Number")]
    pub max_abs: f64,
    /// The element furthest off in units of its noise, if any differs.
    pub worst: Option<WorstElement>,
}

/// One element of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorstElement {
    /// Its row-major index.
    pub index: u64,
    /// The trusted value.
    #[serde(with = "Number")]
    pub base: f64,
    /// The other value.
    #[serde(with = "Number")]
    pub got: f64,
    /// The noise of both sides together.
    #[serde(with = "Number")]
    pub noise: f64,
    /// The distance, as a multiple of the noise; infinite for non-finite values, and integers without noise.
    #[serde(with = "Number")]
    pub ratio: f64,
    /// The distance in units in the last place of the dtype, at `base`.
    #[serde(with = "Number")]
    pub ulps: f64,
}

impl Comparison {
    /// That of two outputs of `count` elements with the same bits.
    pub fn identical(count: u64) -> Comparison {
        Comparison {
            agreement: Agreement::Identical,
            count,
            differing: 0,
            beyond: 0,
            undecided: 0,
            nan_mismatch: 0,
            inf_mismatch: 0,
            relative_l2: 0.0,
            max_abs: 0.0,
            worst: None,
        }
    }
}

/// Compares `got` with `base`, element by element, in units of the noise of both.
///
/// All are row-major with the same shape. An element is beyond noise when it lies more than
/// `NOISE_FACTOR` times the noise away. Two NaNs are equal, as are infinities of one sign; a
/// NaN or an infinity on one side only is infinitely far. Zeros of different sign differ in bits
/// and have distance 0. Integers have noise where roundings flip them, and are compared exactly elsewhere.
///
/// # Errors
/// [`CompareError::Shape`] if dtype or shape differ, [`CompareError::Noise`] if the noise belongs to
/// another tensor.
pub fn compare_outputs(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
) -> Result<Comparison, CompareError> {
    check_comparable(base, got, noise)?;
    let blocks = base.len().div_ceil(BLOCK);
    let mut total = ComparisonBlock::default();
    for first in (0..blocks).step_by(AT_ONCE) {
        let batch_range = (first..blocks.min(first + AT_ONCE)).into_par_iter();
        let batch: Vec<ComparisonBlock> =
            batch_range.map(|block| compare_block(base, got, noise, block * BLOCK)).collect();
        batch.iter().for_each(|block| total.merge(block));
    }
    let agreement = match (total.differing, total.beyond) {
        (0, _) => Agreement::Identical,
        (_, 0) => Agreement::Equivalent,
        _ => Agreement::Diverged,
    };
    let infinite = total.nan_mismatch + total.inf_mismatch > 0;
    Ok(Comparison {
        agreement,
        count: base.len() as u64,
        differing: total.differing,
        beyond: total.beyond,
        undecided: total.undecided,
        nan_mismatch: total.nan_mismatch,
        inf_mismatch: total.inf_mismatch,
        relative_l2: if infinite {
            f64::INFINITY
        } else {
            total.squares.relative_to(&total.base_squares)
        },
        max_abs: total.max_abs,
        worst: total.worst,
    })
}

/// The elements beyond noise, by the rules of [`compare_outputs`].
///
/// # Errors
/// Those of [`compare_outputs`], and [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
pub fn beyond_noise(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    scratch: &Scratch,
) -> Result<Bitmap, NumericsError> {
    check_comparable(base, got, noise)?;
    Ok(Bitmap::in_scratch(scratch, base.len(), |index| is_beyond(base, got, noise, index))?)
}

/// Whether element `index` is beyond noise, by the rules of [`compare_outputs`].
pub(super) fn is_beyond(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    index: usize,
) -> bool {
    compare_element(base, got, noise, index).is_some_and(|element| element.is_beyond())
}

/// The share of the elements more than `factor` times the noise apart. Those of zero on both sides do not count.
///
/// # Errors
/// Those of [`compare_outputs`].
pub fn share_beyond(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    factor: f64,
) -> Result<f64, CompareError> {
    check_comparable(base, got, noise)?;
    let counts = (0..base.len()).into_par_iter().map(|index| {
        let is_zero = base.get_f64(index) == 0.0 && got.get_f64(index) == 0.0;
        let element = compare_element(base, got, noise, index);
        [usize::from(element.is_some_and(|element| element.ratio > factor)), usize::from(!is_zero)]
    });
    let [beyond_count, compared_count] =
        counts.reduce(|| [0, 0], |left, right| [left[0] + right[0], left[1] + right[1]]);
    Ok(beyond_count as f64 / compared_count.max(1) as f64)
}

/// The elements for [`is_unexplained`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexplained {
    Any,
    /// Those of zero on the trusted side alone, and those of another sign. Sums in a narrow format stop growing, and
    /// too small numbers become zero: an equal shadow vouches for both.
    NewOrReversed,
}

/// Whether an element lies further off than any rounding explains: by more than it would if all of the computation
/// rounded to bfloat16, and by more than a quarter of itself. Nothing is said of infinities, which may have
/// overflowed, and of integers.
///
/// # Errors
/// Those of [`compare_outputs`].
pub fn is_unexplained(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    unexplained_kind: Unexplained,
) -> Result<bool, CompareError> {
    check_comparable(base, got, noise)?;
    if !base.dtype.is_float() {
        return Ok(false);
    }
    let coarser = (COARSE_ROUNDING / (ulp(base.dtype, 1.0) / 2.0)).max(1.0);
    Ok((0..base.len()).into_par_iter().any(|index| {
        let element = compare_element(base, got, noise, index);
        element.is_some_and(|element| element.is_unexplained(coarser, unexplained_kind))
    }))
}

fn check_comparable(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
) -> Result<(), CompareError> {
    check_shapes(base, got, true)?;
    noise.check_len(base.len())
}

/// One element whose bits differ.
pub(super) struct DifferingElement {
    base: f64,
    got: f64,
    noise: f64,
    /// How far the two sides lie apart.
    pub(super) distance: f64,
    /// The same as a multiple of the noise.
    pub ratio: f64,
}

impl DifferingElement {
    /// The element with these values on the two sides, whose bits differ; none if both are NaN.
    pub(super) fn from_values(
        dtype: DType,
        base: f64,
        got: f64,
        noise: f64,
    ) -> Option<DifferingElement> {
        if base.is_nan() && got.is_nan() {
            return None;
        }
        let distance = value_distance(base, got);
        // Large integers are alike as floats before their bits are.
        let is_near = noise.is_infinite() || distance == 0.0 && (dtype.is_float() || noise > 0.0);
        let ratio = match (is_near, noise > 0.0) {
            (true, _) => 0.0,
            (false, true) => distance / noise,
            (false, false) => f64::INFINITY,
        };
        Some(DifferingElement { base, got, noise, distance, ratio })
    }

    /// Whether no rounding explains it, be it `coarser` by this factor than the output's.
    pub(super) fn is_unexplained(&self, coarser: f64, unexplained_kind: Unexplained) -> bool {
        self.ratio > NOISE_FACTOR * coarser && self.is_far(unexplained_kind)
    }

    /// Whether both sides are finite, and too far apart for one rounding in the coarsest format.
    fn is_far(&self, unexplained_kind: Unexplained) -> bool {
        let larger = self.base.abs().max(self.got.abs());
        let least_distance = match unexplained_kind {
            Unexplained::Any => COARSEST_SHARE * larger,
            Unexplained::NewOrReversed => larger,
        };
        let counts = unexplained_kind == Unexplained::Any || self.got != 0.0;
        self.distance.is_finite() && counts && self.distance >= least_distance
    }

    /// Whether it is beyond noise.
    pub(super) fn is_beyond(&self) -> bool {
        self.ratio > NOISE_FACTOR
    }
}

/// Compares element `index`; none if both sides are the same.
pub(super) fn compare_element(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    index: usize,
) -> Option<DifferingElement> {
    let size = base.dtype.size();
    let range = index * size..(index + 1) * size;
    if base.bytes[range.clone()] == got.bytes[range] {
        return None;
    }
    let left = base.get_f64(index);
    let right = got.get_f64(index);
    DifferingElement::from_values(
        base.dtype,
        left,
        right,
        noise.sum_at(base.dtype, index, left, right),
    )
}

#[derive(Default)]
struct ComparisonBlock {
    differing: u64,
    beyond: u64,
    undecided: u64,
    nan_mismatch: u64,
    inf_mismatch: u64,
    squares: Squares,
    base_squares: Squares,
    max_abs: f64,
    worst: Option<WorstElement>,
}

fn compare_block(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    first: usize,
) -> ComparisonBlock {
    let mut block = ComparisonBlock::default();
    let size = base.dtype.size();
    let end = base.len().min(first + BLOCK);
    let [mut values, mut got_values, mut noises] = [[0.0; AT_A_TIME]; 3];
    for first in (first..end).step_by(AT_A_TIME) {
        let count = AT_A_TIME.min(end - first);
        let values = &mut values[..count];
        base.read(first, values);
        values.iter().filter(|value| value.is_finite()).for_each(|&x| block.base_squares.add(x));
        let [base_bytes, got_bytes] =
            [base, got].map(|side| &side.bytes[first * size..][..count * size]);
        if base_bytes == got_bytes {
            continue;
        }
        let got_values = &mut got_values[..count];
        let noises = &mut noises[..count];
        got.read(first, got_values);
        noise.read(first, noises);
        for offset in 0..count {
            // Large integers are alike as floats before their bits are.
            if base_bytes[offset * size..][..size] == got_bytes[offset * size..][..size] {
                continue;
            }
            let left = values[offset];
            let right = got_values[offset];
            let noise = NoiseRef::raised(noises[offset], base.dtype, left, right);
            if let Some(element) = DifferingElement::from_values(base.dtype, left, right, noise) {
                block.add(first + offset, &element, ulp(base.dtype, left));
            }
        }
    }
    block
}

impl ComparisonBlock {
    fn add(&mut self, index: usize, element: &DifferingElement, ulp: f64) {
        self.differing += 1;
        self.beyond += u64::from(element.is_beyond());
        self.undecided += u64::from(element.noise.is_infinite());
        self.max_abs = self.max_abs.max(element.distance);
        if element.distance.is_finite() {
            self.squares.add(element.distance);
        } else if element.base.is_nan() || element.got.is_nan() {
            self.nan_mismatch += 1;
        } else {
            self.inf_mismatch += 1;
        }
        self.challenge(WorstElement {
            index: index as u64,
            base: element.base,
            got: element.got,
            noise: element.noise,
            ratio: element.ratio,
            ulps: if ulp > 0.0 { element.distance / ulp } else { element.distance },
        });
    }

    /// Keeps the worse of the worst so far and `candidate`; the earlier one where they are equal.
    fn challenge(&mut self, candidate: WorstElement) {
        if self.worst.is_none_or(|worst| candidate.ratio > worst.ratio) {
            self.worst = Some(candidate);
        }
    }

    fn merge(&mut self, next: &ComparisonBlock) {
        self.differing += next.differing;
        self.beyond += next.beyond;
        self.undecided += next.undecided;
        self.nan_mismatch += next.nan_mismatch;
        self.inf_mismatch += next.inf_mismatch;
        self.squares.merge(&next.squares);
        self.base_squares.merge(&next.base_squares);
        self.max_abs = self.max_abs.max(next.max_abs);
        if let Some(worst) = next.worst {
            self.challenge(worst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Spread;
    use replay_base::tensor::step::draw_bits;

    /// Values of which some are none or infinite, and others that differ from some of them.
    fn sides(count: u64) -> [Vec<f32>; 2] {
        let value = |index: u64| match draw_bits(1, index) % 50 {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => -0.0,
            _ => (draw_bits(2, index) % 1000) as f32 - 500.0,
        };
        let other = |index: u64| match draw_bits(3, index) % 4 {
            0 => value(index) * (1.0 + (draw_bits(4, index) % 9) as f32 * 1e-7),
            1 => value(index + 1),
            _ => value(index),
        };
        [(0..count).map(value).collect(), (0..count).map(other).collect()]
    }

    #[test]
    fn all_elements_are_compared_as_each_is() {
        for count in [1, 1023, 1024, 1025, 40_000] {
            let [base, got] = sides(count)
                .map(|side| side.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
            let shape = [count as usize];
            let view = |bytes| TensorView { dtype: DType::F32, shape: &shape, bytes };
            let base = view(&base);
            let got = view(&got);
            let noise = (0..count).map(|index| (draw_bits(5, index) % 100) as f32 * 1e-6);
            let spread = Spread::Single(noise.collect::<Vec<f32>>().into());
            for noise in [
                NoiseRef { base: None, got: None },
                NoiseRef { base: Some(&spread), got: None },
                NoiseRef { base: Some(&spread), got: Some(&spread) },
            ] {
                let mut each = ComparisonBlock::default();
                for index in 0..base.len() {
                    if let Some(element) = compare_element(&base, &got, &noise, index) {
                        each.add(index, &element, ulp(DType::F32, element.base));
                    }
                }
                let all = compare_outputs(&base, &got, &noise).unwrap();
                let counts = (all.differing, all.beyond, all.nan_mismatch, all.inf_mismatch);
                assert_eq!(
                    counts,
                    (each.differing, each.beyond, each.nan_mismatch, each.inf_mismatch)
                );
                // As text: two NaN are not equal.
                let told = |max_abs, worst| format!("{max_abs:?} {worst:?}");
                assert_eq!(told(all.max_abs, all.worst), told(each.max_abs, each.worst));
                let beyond = beyond_noise(&base, &got, &noise, &Scratch::heap()).unwrap();
                assert_eq!(beyond.count(), all.beyond);
            }
        }
    }
}
