//! Small measures that the judges share: units in the last place, sums of squares.

use std::ops::Range;

use super::parts::measure_parts;
use replay_base::tensor::{DType, TensorView};

/// The distance between neighbouring numbers of `dtype` at the magnitude of `value`; 0 for
/// integers, and where `value` is not finite.
#[inline(always)]
pub fn ulp(dtype: DType, value: f64) -> f64 {
    let (digits, least_exponent) = match dtype {
        DType::F64 => (53, -1022),
        DType::F32 => (24, -126),
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        DType::F8E4M3 => (4, -6),
        DType::F8E5M2 => (3, -14),
        _ => return 0.0,
    };
    if !value.is_finite() {
        return 0.0;
    }
    let exponent = ((value.to_bits() >> 52) & 0x7FF) as i32 - 1023;
    exact_power_of_two(exponent.max(least_exponent) - (digits - 1))
}

/// 2 to the `exponent`, exact, denormals included.
#[inline(always)]
fn exact_power_of_two(exponent: i32) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1u64 << (exponent + 1074))
    }
}

/// A sum of squares that neither overflows nor underflows. It keeps three sums for three ranges of
/// magnitude (Blue, "A portable Fortran program to find the Euclidean norm of a vector", ACM Trans.
/// Math. Softw. 4, 1978).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Squares {
    big: f64,
    middle: f64,
    small: f64,
}

/// Elements that are read at a time.
const BLOCK: usize = 1 << 10;

/// The sums of squares that `sum` makes of each part of `count` elements, added up.
pub(super) fn sum_parts<const N: usize>(
    count: usize,
    sum: impl Fn(Range<usize>) -> [Squares; N] + Sync,
) -> [Squares; N] {
    let mut totals = [Squares::EMPTY; N];
    for part in measure_parts(count, sum) {
        totals.iter_mut().zip(&part).for_each(|(total, part)| total.merge(part));
    }
    totals
}

/// The root mean square of a tensor, in which elements that are not finite count as 0.
pub(super) fn root_mean_square(view: &TensorView) -> f64 {
    let [squares] = sum_parts(view.len(), |range| [sum_squares(view, range)]);
    squares.root() / (view.len().max(1) as f64).sqrt()
}

/// The squares of the finite elements in `range`.
fn sum_squares(view: &TensorView, range: Range<usize>) -> Squares {
    let mut squares = Squares::default();
    let mut values = [0.0; BLOCK];
    for first in range.clone().step_by(BLOCK) {
        let values = &mut values[..BLOCK.min(range.end - first)];
        view.read(first, values);
        values.iter().filter(|x| x.is_finite()).for_each(|&value| squares.add(value));
    }
    squares
}

/// The elements of `view` other than zero, NaN included.
pub fn count_nonzero(view: &TensorView) -> u64 {
    let parts = measure_parts(view.len(), |range| count_nonzero_in(view, range));
    parts.into_iter().sum()
}

/// Those of them in `range`.
fn count_nonzero_in(view: &TensorView, range: Range<usize>) -> u64 {
    let mut values = [0.0; BLOCK];
    let mut count = 0;
    for first in range.clone().step_by(BLOCK) {
        let values = &mut values[..BLOCK.min(range.end - first)];
        view.read(first, values);
        count += values.iter().filter(|value| **value != 0.0).count() as u64;
    }
    count
}

/// Half a unit in the last place of `view`, relative, in L2, over finite elements: the most by which rounding it once to
/// nearest errs.
pub fn relative_half_unit(view: &TensorView) -> f64 {
    let [units, values] = sum_parts(view.len(), |range| sum_half_units(view, range));
    units.relative_to(&values)
}

/// The squares of the half units in `range`, and those of the elements.
fn sum_half_units(view: &TensorView, range: Range<usize>) -> [Squares; 2] {
    let [mut units, mut squares] = [Squares::EMPTY; 2];
    let mut values = [0.0; BLOCK];
    for first in range.clone().step_by(BLOCK) {
        let values = &mut values[..BLOCK.min(range.end - first)];
        view.read(first, values);
        for &value in values.iter().filter(|value| value.is_finite()) {
            units.add(ulp(view.dtype, value) / 2.0);
            squares.add(value);
        }
    }
    [units, squares]
}

/// The scale of the outer sums, a power of two; their bounds are its square roots or so.
const SCALE: f64 = f64::from_bits((600 + 1023) << 52);

impl Squares {
    /// The sum of nothing.
    pub(super) const EMPTY: Squares = Squares { big: 0.0, middle: 0.0, small: 0.0 };

    pub(super) fn add(&mut self, value: f64) {
        let magnitude = value.abs();
        if magnitude > 1e150 {
            self.big += (value / SCALE) * (value / SCALE);
        } else if magnitude < 1e-150 {
            self.small += (value * SCALE) * (value * SCALE);
        } else {
            self.middle += value * value;
        }
    }

    pub(super) fn merge(&mut self, other: &Squares) {
        self.big += other.big;
        self.middle += other.middle;
        self.small += other.small;
    }

    /// The root of the sum.
    pub(super) fn root(&self) -> f64 {
        if self.big > 0.0 {
            (self.big + self.middle / SCALE / SCALE).sqrt() * SCALE
        } else if self.middle > 0.0 {
            self.middle.sqrt()
        } else {
            self.small.sqrt() / SCALE
        }
    }

    /// The root of this sum over the root of another: 0 where both are 0.
    pub(super) fn relative_to(&self, base: &Squares) -> f64 {
        let own_root = self.root();
        let base_root = base.root();
        if own_root == 0.0 { 0.0 } else { own_root / base_root }
    }
}

/// The distance of two values: 0 for equal infinities and for two NaNs, infinite where only one is
/// finite or the infinities differ.
#[inline(always)]
pub(super) fn value_distance(a: f64, b: f64) -> f64 {
    // Without a jump: loops over many elements become vectors.
    let is_alike = (a == b) | (a.is_nan() & b.is_nan());
    let finite = (a.abs() < f64::INFINITY) & (b.abs() < f64::INFINITY);
    let difference = if finite { (a - b).abs() } else { f64::INFINITY };
    if is_alike { 0.0 } else { difference }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ulp_is_the_distance_to_the_next_number() {
        for value in [1.0f32, 1.5, 3e-40, 7e37, 0.1, f32::MIN_POSITIVE, 1e-45] {
            let next = f32::from_bits(value.to_bits() + 1);
            assert_eq!(ulp(DType::F32, value.into()), f64::from(next) - f64::from(value));
        }
        for value in [1.0f64, 5e-324, 1e300, 2.2250738585072014e-308] {
            assert_eq!(ulp(DType::F64, value), f64::from_bits(value.to_bits() + 1) - value);
        }
        assert_eq!(ulp(DType::BF16, 1.0), 2f64.powi(-7));
        assert_eq!(ulp(DType::F16, 0.0), 2f64.powi(-24));
        assert_eq!([1.0, -448.0, 0.0].map(|x| ulp(DType::F8E4M3, x)), [0.125, 32.0, 2f64.powi(-9)]);
        assert_eq!([1.0, 5e4, 0.0].map(|x| ulp(DType::F8E5M2, x)), [0.25, 8192.0, 2f64.powi(-16)]);
        assert_eq!(ulp(DType::I32, 5.0), 0.0);
    }

    #[test]
    fn half_a_unit_of_many_numbers_is_relative_to_their_norm() {
        let bytes: Vec<u8> = [3.0f32, -4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = TensorView { dtype: DType::F32, shape: &[2], bytes: &bytes };
        let units = [2f64.powi(-22), 2f64.powi(-21)].map(|unit| unit * unit);
        assert_eq!(relative_half_unit(&view), (units[0] + units[1]).sqrt() / 2.0 / 5.0);
    }

    #[test]
    fn numbers_other_than_zero_are_counted_in_every_part() {
        let count = 600_001;
        let number = |index: usize| if index.is_multiple_of(3) { 0.0f32 } else { f32::NAN };
        let bytes: Vec<u8> = (0..count).flat_map(|index| number(index).to_le_bytes()).collect();
        let view = TensorView { dtype: DType::F32, shape: &[count], bytes: &bytes };
        assert_eq!(count_nonzero(&view), 400_000);
    }

    #[test]
    fn squares_survive_the_whole_range() {
        for magnitude in [1e-300, 1e-160, 1.0, 1e160, 1e300] {
            let mut squares = Squares::default();
            squares.add(3.0 * magnitude);
            squares.add(-4.0 * magnitude);
            assert!((squares.root() / magnitude - 5.0).abs() < 1e-12, "{magnitude:e}");
        }
    }
}
