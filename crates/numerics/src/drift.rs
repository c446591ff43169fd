//! Shifts of many elements at once, each within its noise, in outputs that are stored in a narrower
//! format than they are computed in.
//!
//! The error of such an element is that of its last rounding. Elements of different values round
//! independently of each other, so a common factor or offset of many stands out from their errors
//! long before any of them does.

use serde::{Deserialize, Serialize};

use super::constants::{LEAST_SLICE, NARROW_ROUNDING, NOISE_FACTOR, WIDER_NOISE};
use super::measure::{Squares, ulp};
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
    let mut values = Values::default();
    let whole_drift = values.drift_of(base, got, slice_indices(base.shape, None));
    if whole_drift.is_some() {
        return whole_drift;
    }
    let slices = (0..base.shape.len())
        .flat_map(|axis| (0..base.shape[axis]).map(move |slice_index| (axis, slice_index)));
    let of_slices = slices.filter(|&(axis, _)| base.len() / base.shape[axis].max(1) >= LEAST_SLICE);
    let drifts = of_slices.filter_map(|(axis, slice_index)| {
        let indices = slice_indices(base.shape, Some((axis, slice_index)));
        let drift = values.drift_of(base, got, indices)?;
        Some(Drift { slice: Some((axis_name(dims, axis), slice_index)), ..drift })
    });
    drifts.max_by(|left_drift, right_drift| left_drift.ratio.total_cmp(&right_drift.ratio))
}

fn axis_name(dims: &[Dim], axis: usize) -> String {
    let dimension_name = dims.get(axis).and_then(|dim| dim.name.clone());
    dimension_name.unwrap_or_else(|| format!("dim {axis}"))
}

/// Whether the noise of both sides is no more than that of their last roundings.
fn is_computed_wider(base: &TensorView, got: &TensorView, noise: &NoiseRef) -> bool {
    let mut units = Squares::default();
    let mut noises = Squares::default();
    for index in 0..base.len() {
        let left = base.get_f64(index);
        let right = got.get_f64(index);
        units.add(ulp(base.dtype, left).max(ulp(base.dtype, right)));
        noises.add(noise.sum_at(base.dtype, index, left, right));
    }
    noises.root() <= WIDER_NOISE * units.root()
}

/// The row-major indices of `slice`, an axis and an index along it, or of all elements.
fn slice_indices(
    shape: &[usize],
    slice: Option<(usize, usize)>,
) -> Box<dyn Iterator<Item = usize> + '_> {
    let count: usize = shape.iter().product();
    let Some((axis, slice_index)) = slice else { return Box::new(0..count) };
    let inner: usize = shape[axis + 1..].iter().product();
    let step = inner * shape[axis];
    let outer = (0..count / step.max(1)).map(move |outer| outer * step + slice_index * inner);
    Box::new(outer.flat_map(move |first| first..first + inner))
}

/// Weights of the elements of each value, by the bits of the value.
struct Values {
    offset: Vec<f64>,
    scale: Vec<f64>,
}

impl Default for Values {
    fn default() -> Values {
        Values { offset: vec![0.0; 1 << 16], scale: vec![0.0; 1 << 16] }
    }
}

impl Values {
    /// The drift of the elements at `indices`, if rounding does not explain it.
    fn drift_of(
        &mut self,
        base: &TensorView,
        got: &TensorView,
        indices: impl Iterator<Item = usize>,
    ) -> Option<Drift> {
        let mut elements = 0u64;
        let mut differences = 0.0;
        let mut products = 0.0;
        let mut squares = 0.0;
        let mut seen_bits: Vec<usize> = Vec::new();
        for index in indices {
            let left = base.get_f64(index);
            let right = got.get_f64(index);
            if !left.is_finite() || !right.is_finite() {
                continue;
            }
            elements += 1;
            differences += right - left;
            products += (right - left) * left;
            squares += left * left;
            let bits =
                usize::from(u16::from_le_bytes([base.bytes[2 * index], base.bytes[2 * index + 1]]));
            if self.offset[bits] == 0.0 {
                seen_bits.push(bits);
            }
            // Both sides round once, by half a unit at most.
            let error = ulp(base.dtype, left).max(ulp(base.dtype, right));
            self.offset[bits] += error;
            self.scale[bits] += error * left.abs();
        }
        // Elements of one value round alike.
        let by_offset = norm_of_weights(&self.offset, &seen_bits);
        let by_scale = norm_of_weights(&self.scale, &seen_bits);
        for &bits in &seen_bits {
            (self.offset[bits], self.scale[bits]) = (0.0, 0.0);
        }
        if elements < LEAST_SLICE as u64 || squares == 0.0 {
            return None;
        }
        let count = elements as f64;
        let size = (squares / count).sqrt();
        let scale = products / squares;
        let offset = differences / count / size;
        let of_scale = scale.abs() / find_least_drift(by_scale / squares);
        let of_offset = offset.abs() / find_least_drift(by_offset / count / size);
        let ratio = of_scale.max(of_offset);
        (ratio > 1.0).then_some(Drift { slice: None, elements, scale, offset, ratio })
    }
}

/// The L2 norm of the weights at `seen_bits`.
fn norm_of_weights(weights: &[f64], seen_bits: &[usize]) -> f64 {
    seen_bits.iter().map(|&bits| weights[bits] * weights[bits]).sum::<f64>().sqrt()
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
