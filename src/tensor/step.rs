//! A step away from a tensor: the elements that move, how far, and in which direction.
//!
//! One length for all elements is wrong for tensors with a mask of -1e9, an outlier or a padding row: a
//! step that suits the mask jumps over all features of the loss in the ordinary elements. So each element
//! moves in proportion to a scale of its own.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::TensorView;

/// An element beyond this many times the scale of its row is an outlier.
const OUTLIER: f64 = 64.0;

/// Elements that are stepped together, since their derivatives are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Neither of the others.
    Ordinary,
    /// Exactly zero: padding, initial biases, values that a rectifier cut off. The loss often has a
    /// kink here.
    Zero,
    /// Far larger than the rest of its row: masks, outliers.
    Outlier,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 3] = [Class::Ordinary, Class::Zero, Class::Outlier];
}

/// The unit of a step's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// The element's own magnitude or that of its row, whichever is larger.
    Row,
    /// The element's own magnitude, so that no step changes a sign; for a zero, that of its row.
    Own,
}

/// `x * (1 + by * 2^-exponent * sign)` for all floating-point elements of all inputs, whose signs are
/// drawn once: points of one line, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// Which point of the line; 0 is the input itself.
    pub by: i8,
    /// How near they lie.
    pub exponent: u8,
}

/// `x + length * scale(x) * sign` for the elements of one class in a range, where each sign is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The seed of the signs.
    pub seed: u64,
    /// The elements that move.
    pub class: Class,
    /// The row-major indices among which they lie.
    pub among: Range<usize>,
    /// Those among them that stay, in order and apart.
    pub without: Vec<Range<usize>>,
    /// The scale of each.
    pub unit: Unit,
    /// How far they move, in their scales. Negative is the other way.
    pub length: f64,
}

impl Step {
    /// How far element `index` of `scales` moves, with the value `x`.
    pub fn of(&self, scales: &Scales, index: usize, x: f64) -> f64 {
        if !self.moves(index) || scales.class(index, x) != Some(self.class) {
            return 0.0;
        }
        self.length * scales.scale(index, x, self.unit) * sign(self.seed, index as u64)
    }

    /// Whether `index` is one of those that the step may move.
    pub fn moves(&self, index: usize) -> bool {
        let after = self.without.partition_point(|range| range.end <= index);
        self.among.contains(&index)
            && !self.without.get(after).is_some_and(|range| range.contains(&index))
    }
}

/// The scale of each row of a tensor.
#[derive(Clone, Debug)]
pub struct Scales {
    /// Powers of two.
    rows: Vec<f64>,
    /// The elements of a row.
    columns: usize,
}

impl Scales {
    /// The scales of the rows of `tensor`, along its last dimension. A row's scale is the median of its
    /// distinct magnitudes other than zero, so that a mask that fills most of it counts once. A row of zeros
    /// has the median of all rows, or 1 if there is none.
    pub fn of(tensor: &TensorView) -> Scales {
        let columns = tensor.shape.last().copied().unwrap_or(1).max(1);
        let mut magnitudes = Vec::new();
        let mut rows: Vec<f64> = (0..tensor.len())
            .step_by(columns)
            .map(|start| {
                let row =
                    (start..tensor.len().min(start + columns)).map(|i| tensor.get_f64(i).abs());
                magnitudes.clear();
                magnitudes.extend(row.filter(|&x| x > 0.0 && x.is_finite()));
                median_of_distinct(&mut magnitudes)
            })
            .collect();
        let mut scaled: Vec<f64> = rows.iter().copied().filter(|&scale| scale > 0.0).collect();
        scaled.sort_unstable_by(f64::total_cmp);
        let common = if scaled.is_empty() { 1.0 } else { scaled[(scaled.len() - 1) / 2] };
        for scale in &mut rows {
            *scale = power_of_two(if *scale > 0.0 { *scale } else { common });
        }
        Scales { rows, columns }
    }

    /// The class of element `index` with the value `x`; none if it cannot be moved.
    pub fn class(&self, index: usize, x: f64) -> Option<Class> {
        match x {
            _ if !x.is_finite() => None,
            0.0 => Some(Class::Zero),
            _ if x.abs() > OUTLIER * self.row(index) => Some(Class::Outlier),
            _ => Some(Class::Ordinary),
        }
    }

    /// How far element `index` with the finite value `x` moves in a step of length 1. The distance is a
    /// power of two, so adding it to an element of few bits does not round.
    pub fn scale(&self, index: usize, x: f64, unit: Unit) -> f64 {
        match unit {
            _ if x == 0.0 => self.row(index),
            Unit::Row => power_of_two(x.abs()).max(self.row(index)),
            Unit::Own => power_of_two(x.abs()),
        }
    }

    fn row(&self, index: usize) -> f64 {
        self.rows[index / self.columns]
    }
}

/// The lower median of the distinct values, 0 if there is none.
fn median_of_distinct(values: &mut Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    match values.len() {
        0 => 0.0,
        count => values[(count - 1) / 2],
    }
}

/// The largest power of two that `x`, which is positive, is not below.
fn power_of_two(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let power = f64::from_bits(x.to_bits() & !MANTISSA);
    if power > 0.0 { power } else { f64::MIN_POSITIVE }
}

/// The sign, +1 or -1, of element `index` in the direction drawn from `seed`.
pub fn sign(seed: u64, index: u64) -> f64 {
    if (drawn(seed, index) >> 63) == 0 { 1.0 } else { -1.0 }
}

/// A number drawn from `seed` for `index`.
pub(crate) fn drawn(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn scales(shape: &[usize], values: &[f64]) -> Scales {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Scales::of(&TensorView { dtype: DType::F64, shape, bytes: &bytes })
    }

    #[test]
    fn a_mask_moves_no_ordinary_element_far() {
        let values = [0.5, -1e9, -1e9, -1e9, -1e9, 3.0, -0.7, 0.0, f64::NEG_INFINITY, 1.1];
        let scales = scales(&[2, 5], &values);
        assert_eq!(scales.class(0, 0.5), Some(Class::Ordinary));
        assert_eq!(scales.scale(0, 0.5, Unit::Row), 0.5);
        assert_eq!(scales.class(1, -1e9), Some(Class::Outlier));
        assert_eq!(scales.class(7, 0.0), Some(Class::Zero));
        assert_eq!(scales.scale(7, 0.0, Unit::Own), 1.0);
        assert_eq!(scales.class(8, f64::NEG_INFINITY), None);
        assert_eq!(scales.scale(6, -0.7, Unit::Row), 1.0);
        assert_eq!(scales.scale(6, -0.7, Unit::Own), 0.5);
    }

    #[test]
    fn rows_without_a_magnitude_have_that_of_the_others() {
        let values = [0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 16.0, 17.0];
        let scales = scales(&[4, 2], &values);
        assert_eq!(scales.scale(0, 0.0, Unit::Row), 4.0);
        assert_eq!(self::scales(&[3], &[0.0; 3]).scale(2, 0.0, Unit::Row), 1.0);
        assert_eq!(self::scales(&[], &[1e-310]).scale(0, 1e-310, Unit::Own), f64::MIN_POSITIVE);
        assert!(self::scales(&[0, 3], &[]).rows.is_empty());
    }

    #[test]
    fn a_step_moves_its_class_within_its_range_alone() {
        let values = [1.0, 0.0, 1.0, 1.0, 1e3, 1.0];
        let scales = scales(&[6], &values);
        let out = 2..3;
        let step = |class| Step {
            seed: 7,
            class,
            among: 0..5,
            without: Vec::from_iter([out.clone()]),
            unit: Unit::Row,
            length: 0.25,
        };
        let moved = |class| -> Vec<f64> {
            let step = step(class);
            values.iter().enumerate().map(|(i, &x)| step.of(&scales, i, x).abs()).collect()
        };
        assert_eq!(moved(Class::Ordinary), [0.25, 0.0, 0.0, 0.25, 0.0, 0.0]);
        assert_eq!(moved(Class::Zero), [0.0, 0.25, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(moved(Class::Outlier), [0.0, 0.0, 0.0, 0.0, 128.0, 0.0]);
    }
}
