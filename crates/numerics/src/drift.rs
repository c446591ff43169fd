//! Shifts of many elements at once, each within its noise, in outputs that are stored in a narrower
//! format than they are computed in.
//!
//! The error of such an element is that of its last rounding. Elements of different values round
//! independently of each other, so a common factor or offset of many stands out from their errors
//! long before any of them does.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::constants::{LEAST_SLICE, NARROW_ROUNDING, NOISE_FACTOR, WIDER_NOISE};
use super::measure::{Squares, sum_parts, ulp};
use super::noise::NoiseRef;
use replay_base::summary::Number;
use replay_base::tensor::{DType, Dim, TensorView};

/// A common shift of the elements of one slice, or of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Drift {
    /// The slice, as a dimension and an index along it; none if it is the whole output.
    pub slice: Option<(String, usize)>,
    /// The number of elements.
    pub elements: u64,
    /// The factor, less one, by which the elements are scaled.
    #[serde(with = "Number")]
    pub scale: f64,
    /// The mean of the differences, relative to the root mean square of the elements.
    #[serde(with = "Number")]
    pub offset: f64,
    /// The larger of both, as a multiple of the shift that rounding explains.
    #[serde(with = "Number")]
    pub ratio: f64,
}

/// The parts of a whole output whose sums are made side by side. The number is fixed: sums do not depend on the number
/// of threads, and each part has a weight for each value.
const WHOLE_PARTS: usize = 16;

/// The largest drift of `got` from `base`, of dimensions `dims`, if rounding does not explain it: of
/// the whole output, else of a slice. None for outputs in float32 and wider, and where arithmetic is
/// as narrow as the output.
pub fn find_drift(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    dims: &[Dim],
) -> Option<Drift> {
    let narrow = matches!(base.dtype, DType::BF16 | DType::F16);
    if !narrow || base.shape != got.shape || !is_computed_wider(base, got, noise) {
        return None;
    }
    let whole_drift = sum_whole_shift(base, got).take_drift();
    if whole_drift.is_some() {
        return whole_drift;
    }
    let axes = 0..base.shape.len();
    let long_axes = axes.filter(|&axis| base.len() / base.shape[axis].max(1) >= LEAST_SLICE);
    let slices = long_axes.flat_map(|axis| (0..base.shape[axis]).map(move |index| (axis, index)));
    let slices: Vec<(usize, usize)> = slices.collect();
    let drifts =
        slices.into_par_iter().map_init(ShiftSums::default, |sums, (axis, slice_index)| {
            sums.add(base, got, slice_indices(base.shape, axis, slice_index));
            let drift = sums.take_drift()?;
            Some(Drift { slice: Some((axis_name(dims, axis), slice_index)), ..drift })
        });
    // In order: the last of equal ones is told.
    let drifts: Vec<Drift> = drifts.flatten_iter().collect();
    drifts
        .into_iter()
        .max_by(|left_drift, right_drift| left_drift.ratio.total_cmp(&right_drift.ratio))
}

/// The shift of all elements, summed up in a fixed number of parts.
fn sum_whole_shift(base: &TensorView, got: &TensorView) -> ShiftSums {
    let part_len = base.len().div_ceil(WHOLE_PARTS).max(1);
    let starts: Vec<usize> = (0..base.len()).step_by(part_len).collect();
    let parts = starts.into_par_iter().map(|start| {
        let mut sums = ShiftSums::default();
        sums.add(base, got, start..base.len().min(start + part_len));
        sums
    });
    let mut whole_sums = ShiftSums::default();
    parts.collect::<Vec<ShiftSums>>().iter().for_each(|part| whole_sums.merge(part));
    whole_sums
}

fn axis_name(dims: &[Dim], axis: usize) -> String {
    let dimension_name = dims.get(axis).and_then(|dim| dim.name.clone());
    dimension_name.unwrap_or_else(|| format!("dim {axis}"))
}

/// Whether the noise of both sides is no more than that of their last roundings.
fn is_computed_wider(base: &TensorView, got: &TensorView, noise: &NoiseRef) -> bool {
    let [units, noises] =
        sum_parts(base.len(), |range| sum_units_and_noise(base, got, noise, range));
    noises.root() <= WIDER_NOISE * units.root()
}

/// The squares of the units in the last place in `range`, and those of the noise.
fn sum_units_and_noise(
    base: &TensorView,
    got: &TensorView,
    noise: &NoiseRef,
    range: Range<usize>,
) -> [Squares; 2] {
    let [mut units, mut noises] = [Squares::EMPTY; 2];
    for index in range {
        let left = base.get_f64(index);
        let right = got.get_f64(index);
        units.add(ulp(base.dtype, left).max(ulp(base.dtype, right)));
        noises.add(noise.sum_at(base.dtype, index, left, right));
    }
    [units, noises]
}

/// The row-major indices of the slice at `slice_index` along `axis`.
fn slice_indices(
    shape: &[usize],
    axis: usize,
    slice_index: usize,
) -> impl Iterator<Item = usize> + use<> {
    let outer_count: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let step = inner * shape[axis];
    let starts = (0..outer_count).map(move |outer| outer * step + slice_index * inner);
    starts.flat_map(move |start| start..start + inner)
}

/// Sums over some elements of both sides.
struct ShiftSums {
    elements: u64,
    differences: f64,
    products: f64,
    squares: f64,
    /// How far the elements of each value, by its bits, shift all by rounding: by an offset, and by a factor.
    weights: Vec<[f64; 2]>,
    /// The values with a weight.
    seen_bits: Vec<usize>,
}

impl Default for ShiftSums {
    fn default() -> ShiftSums {
        ShiftSums {
            elements: 0,
            differences: 0.0,
            products: 0.0,
            squares: 0.0,
            weights: vec![[0.0; 2]; 1 << 16],
            seen_bits: Vec::new(),
        }
    }
}

impl ShiftSums {
    /// Adds the finite elements at `indices`.
    fn add(&mut self, base: &TensorView, got: &TensorView, indices: impl Iterator<Item = usize>) {
        for index in indices {
            let left = base.get_f64(index);
            let right = got.get_f64(index);
            if !left.is_finite() || !right.is_finite() {
                continue;
            }
            self.elements += 1;
            self.differences += right - left;
            self.products += (right - left) * left;
            self.squares += left * left;
            let bits = u16::from_le_bytes([base.bytes[2 * index], base.bytes[2 * index + 1]]);
            // Both sides round once, by half a unit at most.
            let error = ulp(base.dtype, left).max(ulp(base.dtype, right));
            self.add_weight(usize::from(bits), [error, error * left.abs()]);
        }
    }

    fn add_weight(&mut self, bits: usize, [offset, scale]: [f64; 2]) {
        let weight = &mut self.weights[bits];
        if weight[0] == 0.0 {
            self.seen_bits.push(bits);
        }
        weight[0] += offset;
        weight[1] += scale;
    }

    fn merge(&mut self, next: &ShiftSums) {
        self.elements += next.elements;
        self.differences += next.differences;
        self.products += next.products;
        self.squares += next.squares;
        next.seen_bits.iter().for_each(|&bits| self.add_weight(bits, next.weights[bits]));
    }

    /// The drift of the elements, if rounding does not explain it. The sums begin anew.
    fn take_drift(&mut self) -> Option<Drift> {
        // Elements of one value round alike.
        let [by_offset, by_scale] = [0, 1].map(|kind| self.norm_of_weights(kind));
        let count = self.elements as f64;
        let elements = std::mem::take(&mut self.elements);
        let differences = std::mem::take(&mut self.differences);
        let products = std::mem::take(&mut self.products);
        let squares = std::mem::take(&mut self.squares);
        self.seen_bits.drain(..).for_each(|bits| self.weights[bits] = [0.0; 2]);
        if elements < LEAST_SLICE as u64 || squares == 0.0 {
            return None;
        }
        let size = (squares / count).sqrt();
        let scale = products / squares;
        let offset = differences / count / size;
        let of_scale = scale.abs() / find_least_drift(by_scale / squares);
        let of_offset = offset.abs() / find_least_drift(by_offset / count / size);
        let ratio = of_scale.max(of_offset);
        (ratio > 1.0).then_some(Drift { slice: None, elements, scale, offset, ratio })
    }

    /// The L2 norm of the weights of one kind.
    fn norm_of_weights(&self, kind: usize) -> f64 {
        let weights = self.seen_bits.iter().map(|&bits| self.weights[bits][kind]);
        weights.map(|weight| weight * weight).sum::<f64>().sqrt()
    }
}

/// The least shift beyond rounding, where independent roundings add up to `by_chance`.
fn find_least_drift(by_chance: f64) -> f64 {
    NOISE_FACTOR * by_chance + 4.0 * NARROW_ROUNDING
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    const SHAPE: [usize; 2] = [64, 512];

    /// Numbers of many magnitudes, as `of` makes them of their index and a random number.
    fn tensor(of: impl Fn(usize, f64) -> f64) -> Vec<u8> {
        let mut state = 7u64;
        let random = (0..SHAPE[0] * SHAPE[1]).map(|index| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let uniform = (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
            bf16::from_f64(of(index, 8.0 * uniform * uniform * uniform))
        });
        random.flat_map(|value| value.to_le_bytes()).collect()
    }

    fn drift_of(base: &[u8], got: &[u8]) -> Option<Drift> {
        let view = |bytes| TensorView { dtype: DType::BF16, shape: &SHAPE, bytes };
        let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
        let dims = [dim("rows", SHAPE[0]), dim("cols", SHAPE[1])];
        find_drift(&view(base), &view(got), &NoiseRef::default(), &dims)
    }

    #[test]
    fn a_factor_below_the_noise_of_every_element_is_a_drift() {
        let found = drift_of(&tensor(|_, x| x), &tensor(|_, x| 1.005 * x)).expect("a drift");
        assert!(found.slice.is_none() && (found.scale - 0.005).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn a_row_that_is_scaled_is_named() {
        let got = tensor(|index, x| if index / SHAPE[1] == 5 { 1.01 * x } else { x });
        let found = drift_of(&tensor(|_, x| x), &got).expect("a drift");
        assert_eq!(found.slice, Some(("rows".to_owned(), 5)));
    }

    #[test]
    fn an_offset_of_all_elements_is_a_drift() {
        let found = drift_of(&tensor(|_, x| x), &tensor(|_, x| x + 3e-3)).expect("a drift");
        assert!(found.offset > 0.0, "{found:?}");
    }

    #[test]
    fn errors_of_float32_before_the_last_rounding_are_none() {
        let got = tensor(|index, x| x * (1.0 + 1e-6 * (index % 7) as f64));
        assert_eq!(drift_of(&tensor(|_, x| x), &got), None);
    }

    #[test]
    fn elements_of_one_value_that_round_the_other_way_are_none() {
        let base = tensor(|_, _| 1.0);
        let got = tensor(|_, _| 1.0 + 2f64.powi(-7));
        assert_eq!(drift_of(&base, &got), None);
    }
}
