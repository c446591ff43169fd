//! A step away from a tensor: the moved elements, their distances and directions.
//!
//! One length for all elements is wrong for tensors with a mask of -1e9, an outlier or a padding row: a
//! step for the mask jumps over all features of the loss in the ordinary elements. So each element
//! moves in proportion to a scale of its own.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::constraint::Constraint;
use super::vectors::widest;
use super::{DType, TensorView, parallel};

/// An element beyond this many times the scale of its row is an outlier.
const OUTLIER: f64 = 64.0;

/// Elements with one kind of derivative. A step moves them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepClass {
    /// Neither of the others.
    Ordinary,
    /// Exactly zero: padding, initial biases, values cut off by a rectifier. The loss often has a
    /// kink here.
    Zero,
    /// Far larger than the rest of its row: masks, outliers.
    Outlier,
}

impl StepClass {
    /// All classes.
    pub const ALL: [StepClass; 3] = [StepClass::Ordinary, StepClass::Zero, StepClass::Outlier];
}

/// The unit of a step's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepUnit {
    /// The larger of the magnitudes of the element and of its row.
    Row,
    /// The element's own magnitude: no step changes a sign. For a zero, the magnitude of its row.
    Own,
}

/// `x * (1 + by * 2^-exponent * sign)` for all floating-point elements of all inputs, whose signs are
/// drawn once: points of one line, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePoint {
    /// The number of the point; 0 is the input itself.
    pub by: i8,
    /// How near they lie.
    pub exponent: u8,
}

/// `x + length * scale(x) * sign` for the elements of one class in a range, where each sign is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The seed of the signs.
    pub seed: u64,
    /// The class of the moved elements.
    pub class: StepClass,
    /// The range of their row-major indices.
    pub among: Range<usize>,
    /// The unmoved ones in this range, in order and apart.
    pub without: Vec<Range<usize>>,
    /// The scale of each.
    pub unit: StepUnit,
    /// How far they move, in their scales. Negative is the other way.
    pub length: f64,
    /// The constraint onto whose tangent space the displacement of the whole tensor is projected.
    pub constraint: Option<Constraint>,
}

impl Step {
    /// How far element `index` of `scales` moves, with the value `x`.
    pub fn displacement(&self, scales: &Scales, index: usize, x: f64) -> f64 {
        if !self.moves(index) || scales.class(index, x) != Some(self.class) {
            return 0.0;
        }
        self.length * scales.scale(index, x, self.unit) * draw_sign(self.seed, index as u64)
    }

    /// Moves `values`, the elements of `scales` from `first` on.
    pub fn add_to(&self, scales: &Scales, first: usize, values: &mut [f64]) {
        widest!(self.each(scales, first, values, |x, distance| *x += distance));
    }

    /// Replaces `values`, the elements of `scales` from `first` on, by how far they move.
    pub fn distances(&self, scales: &Scales, first: usize, values: &mut [f64]) {
        widest!(self.each(scales, first, values, |x, distance| *x = distance));
    }

    /// Gives each of `values` to `take`, with how far it moves.
    #[inline(always)]
    fn each(
        &self,
        scales: &Scales,
        first: usize,
        values: &mut [f64],
        take: impl Fn(&mut f64, f64),
    ) {
        let end = first + values.len();
        let mut position = first;
        while position < end {
            // Elements of one row. Either all of them may move, or all stay.
            let until = end.min(self.next_border(position)).min(scales.row_end(position));
            let part = &mut values[position - first..until - first];
            let row = scales.row(position);
            match (self.class, self.unit) {
                _ if !self.moves(position) => part.iter_mut().for_each(|x| take(x, 0.0)),
                // The most frequent case, without a branch on an element.
                (StepClass::Ordinary, StepUnit::Row) => {
                    for (index, x) in (position as u64..).zip(part) {
                        let own_power = f64::from_bits(x.to_bits() & EXPONENT);
                        let moves =
                            (*x != 0.0) & (x.abs() <= OUTLIER * row) & (x.abs() < f64::INFINITY);
                        let distance = self.length * if own_power > row { own_power } else { row };
                        let distance = distance.to_bits() ^ (draw_bits(self.seed, index) & SIGN);
                        let mask = u64::from(moves).wrapping_neg();
                        take(x, f64::from_bits(distance & mask));
                    }
                }
                _ => {
                    for (index, x) in (position as u64..).zip(part) {
                        let moves = classify_element(*x, row) == Some(self.class);
                        let distance =
                            element_scale(*x, row, self.unit) * draw_sign(self.seed, index);
                        take(x, if moves { self.length * distance } else { 0.0 });
                    }
                }
            }
            position = until;
        }
    }

    /// Gives each of `values`, the elements of `scales` from `first` on, to `take`: its offset, its class, and the distance
    /// of its move by a step of its class. Elements of no class are left out.
    pub fn distances_of_all(
        &self,
        scales: &Scales,
        first: usize,
        values: &[f64],
        mut take: impl FnMut(usize, StepClass, f64),
    ) {
        let end = first + values.len();
        let mut position = first;
        while position < end {
            let until = end.min(self.next_border(position)).min(scales.row_end(position));
            if self.moves(position) {
                let row = scales.row(position);
                for index in position..until {
                    let x = values[index - first];
                    if let Some(class) = classify_element(x, row) {
                        let distance =
                            element_scale(x, row, self.unit) * draw_sign(self.seed, index as u64);
                        take(index - first, class, self.length * distance);
                    }
                }
            }
            position = until;
        }
    }

    /// The first index after `index` on the other side of a border between moved and unmoved elements.
    fn next_border(&self, index: usize) -> usize {
        let next_excluded = self.without.partition_point(|range| range.end <= index);
        let out =
            self.without.get(next_excluded).map_or([usize::MAX; 2], |out| [out.start, out.end]);
        let borders = [self.among.start, self.among.end].into_iter().chain(out);
        borders.filter(|&border| border > index).min().unwrap_or(usize::MAX)
    }

    /// Whether the step may move the element at `index`.
    pub fn moves(&self, index: usize) -> bool {
        let next_excluded = self.without.partition_point(|range| range.end <= index);
        self.among.contains(&index)
            && !self.without.get(next_excluded).is_some_and(|range| range.contains(&index))
    }
}

/// The scale of each row of a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scales {
    /// Powers of two.
    rows: Vec<f64>,
    /// The elements of a row.
    columns: usize,
}

impl Scales {
    /// The scales of the rows of `tensor`, along its last dimension, found by up to `threads` threads. A
    /// row's scale is the median of its distinct magnitudes other than zero: a mask over most
    /// of it counts once. A row of zeros has the median of all rows, or 1 if there is none.
    pub fn measure(tensor: &TensorView, threads: usize) -> Scales {
        let columns = tensor.shape.last().copied().unwrap_or(1).max(1);
        let mut rows = vec![0.0; tensor.len().div_ceil(columns)];
        let is_narrow = tensor.dtype.is_float() && tensor.dtype != DType::F64;
        parallel::fill_in_parallel(threads, &mut rows, 1, columns, |first, rows| {
            if is_narrow {
                Distinct::<u32>::default().powers(tensor, columns, first, rows)
            } else {
                Distinct::<u64>::default().powers(tensor, columns, first, rows)
            }
        });
        let mut scaled: Vec<f64> = rows.iter().copied().filter(|&scale| scale > 0.0).collect();
        scaled.sort_unstable_by(f64::total_cmp);
        let common = if scaled.is_empty() { 1.0 } else { scaled[(scaled.len() - 1) / 2] };
        rows.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = common);
        Scales { rows, columns }
    }

    /// The bytes of the scales of a tensor of this shape.
    pub fn bytes_of(shape: &[usize]) -> usize {
        let last = shape.last().copied().unwrap_or(1).max(1);
        let elements = shape.iter().product();
        usize::div_ceil(elements, last) * size_of::<f64>()
    }

    /// The scales in bytes, for another process.
    pub fn bytes(&self) -> Vec<u8> {
        self.rows.iter().flat_map(|scale| scale.to_le_bytes()).collect()
    }

    /// The scales of a tensor of this shape, from [`Scales::bytes`].
    pub fn read(shape: &[usize], bytes: &[u8]) -> Scales {
        let rows = bytes.as_chunks().0.iter().map(|scale| f64::from_le_bytes(*scale)).collect();
        Scales { rows, columns: shape.last().copied().unwrap_or(1).max(1) }
    }

    /// The elements of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The class of element `index` with the value `x`; none if it cannot be moved.
    pub fn class(&self, index: usize, x: f64) -> Option<StepClass> {
        classify_element(x, self.row(index))
    }

    /// How far element `index` with the finite value `x` moves in a step of length 1. The distance is a
    /// power of two, so adding it to an element of few bits does not round.
    pub fn scale(&self, index: usize, x: f64, unit: StepUnit) -> f64 {
        element_scale(x, self.row(index), unit)
    }

    /// The scale of the row of element `index`.
    fn row(&self, index: usize) -> f64 {
        self.rows[index / self.columns]
    }

    /// The index behind the last element of the row of element `index`.
    fn row_end(&self, index: usize) -> usize {
        (index / self.columns + 1) * self.columns
    }
}

/// The class of an element with the value `x` in a row of scale `row`.
fn classify_element(x: f64, row: f64) -> Option<StepClass> {
    match x {
        _ if !x.is_finite() => None,
        0.0 => Some(StepClass::Zero),
        _ if x.abs() > OUTLIER * row => Some(StepClass::Outlier),
        _ => Some(StepClass::Ordinary),
    }
}

/// How far an element with the value `x` in a row of scale `row` moves in a step of length 1.
fn element_scale(x: f64, row: f64, unit: StepUnit) -> f64 {
    match unit {
        _ if x == 0.0 => row,
        StepUnit::Row => floor_to_power(x.abs()).max(row),
        StepUnit::Own => floor_to_power(x.abs()),
    }
}

/// Elements to widen at a time.
const BLOCK: usize = 1 << 10;

/// Writes the elements of `tensor` as float64 to `out`, packed, moved by `step` if there is one, by up to
/// `threads` threads.
///
/// # Panics
/// If `out` has not eight bytes for each element.
pub fn widen_tensor(
    tensor: &TensorView,
    step: Option<(&Step, &Scales)>,
    threads: usize,
    out: &mut [u8],
) {
    const SIZE: usize = DType::F64.size();
    assert_eq!(out.len(), tensor.len() * SIZE, "eight bytes for each element");
    parallel::fill_in_parallel(threads, out, BLOCK * SIZE, 1, |block, out| {
        let mut values = [0.0; BLOCK];
        for (number, out) in out.chunks_mut(BLOCK * SIZE).enumerate() {
            let first = (block + number) * BLOCK;
            let values = &mut values[..out.len() / SIZE];
            tensor.read(first, values);
            match step {
                Some((step, scales)) => step.add_to(scales, first, values),
                None => values.iter_mut().for_each(|x| *x += 0.0),
            }
            let places = out.as_chunks_mut::<SIZE>().0;
            places.iter_mut().zip(values).for_each(|(place, x)| *place = x.to_le_bytes());
        }
    });
    if let Some(constraint) = step.and_then(|(step, _)| step.constraint) {
        project_moved(tensor, constraint, threads, out);
    }
}

/// The elements of `tensor`, floating-point numbers, moved by `step` by up to `threads` threads, in the tensor's own
/// format: each is the nearest to the moved one.
pub fn move_tensor(tensor: &TensorView, step: &Step, scales: &Scales, threads: usize) -> Vec<u8> {
    let mut wide = vec![0; tensor.len() * DType::F64.size()];
    widen_tensor(tensor, Some((step, scales)), threads, &mut wide);
    TensorView { dtype: DType::F64, bytes: &wide, ..*tensor }.round_to(tensor.dtype, threads)
}

/// Replaces the displacements of `moved`, the elements of `tensor` as float64 after a step, by those along `constraint`.
fn project_moved(tensor: &TensorView, constraint: Constraint, threads: usize, moved: &mut [u8]) {
    const SIZE: usize = DType::F64.size();
    let group_len = constraint.group_len(tensor.shape).filter(|length| *length > 0);
    let Some(group_len) = group_len else { return };
    parallel::fill_in_parallel(threads, moved, group_len * SIZE, 1, |group, moved| {
        for (number, moved) in moved.chunks_mut(group_len * SIZE).enumerate() {
            let mut point = vec![0.0; group_len];
            tensor.read((group + number) * group_len, &mut point);
            let places = moved.as_chunks_mut::<SIZE>().0;
            let displacements =
                places.iter().zip(&point).map(|(place, x)| f64::from_le_bytes(*place) - x);
            let mut displacements: Vec<f64> = displacements.collect();
            // A group that stays may hold infinities.
            if displacements.iter().all(|distance| *distance == 0.0) {
                continue;
            }
            constraint.project(&point, &mut displacements);
            for ((place, x), distance) in places.iter_mut().zip(&point).zip(&displacements) {
                *place = (x + distance).to_le_bytes();
            }
        }
    });
}

/// The bits of a positive number.
trait FloatBits: Copy + Default + PartialEq + Into<u64> {
    fn bits_from(x: f64) -> Self;
}

impl FloatBits for u64 {
    fn bits_from(x: f64) -> u64 {
        x.to_bits()
    }
}

/// Those of a float32, or of a number of a narrower format.
impl FloatBits for u32 {
    fn bits_from(x: f64) -> u32 {
        (x as f32).to_bits()
    }
}

/// Counts the distinct values of one row after the other.
#[derive(Default)]
struct Distinct<B> {
    /// The bits of the values seen so far, each at the first free place from its own on; 0 is free.
    seen: Vec<B>,
    /// How many distinct values have each exponent.
    exponents: Vec<u32>,
}

impl<B: FloatBits> Distinct<B> {
    /// Writes the powers of two of the medians of rows of `tensor` to `powers`, from row `first` on.
    fn powers(&mut self, tensor: &TensorView, columns: usize, first: usize, powers: &mut [f64]) {
        let mut values = vec![0.0; columns];
        for (number, power) in powers.iter_mut().enumerate() {
            let start = (first + number) * columns;
            let values = &mut values[..columns.min(tensor.len() - start)];
            tensor.read(start, values);
            *power = self.median_power(values.iter().map(|x| x.abs()));
        }
    }

    /// The power of two of the lower median of the distinct positive finite values; 0 if
    /// there is none. None is negative.
    fn median_power(&mut self, values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let places = (2 * values.len()).next_power_of_two();
        self.seen.clear();
        self.seen.resize(places, B::default());
        self.exponents.clear();
        self.exponents.resize(1 << 11, 0);
        let mut count = 0u32;
        for x in values.filter(|&x| x > 0.0 && x.is_finite()) {
            let bits = B::bits_from(x);
            let drawn = bits.into().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
            // The number of places is a power of two.
            let mut place = drawn as usize & (places - 1);
            while self.seen[place] != B::default() && self.seen[place] != bits {
                place = (place + 1) & (places - 1);
            }
            let is_new = u32::from(self.seen[place] == B::default());
            self.seen[place] = bits;
            self.exponents[(x.to_bits() >> 52) as usize] += is_new;
            count += is_new;
        }
        if count == 0 {
            return 0.0;
        }
        let mut remaining = (count - 1) / 2;
        let median_bin = self.exponents.iter().enumerate().find(|&(_, &among)| {
            let is_here = remaining < among;
            remaining = remaining.saturating_sub(among);
            is_here
        });
        let (exponent, _) = median_bin.expect("the exponents count all values");
        floor_to_power(f64::from_bits((exponent as u64) << 52))
    }
}

/// The sign of a number.
const SIGN: u64 = 1 << 63;
/// The exponent of a number.
const EXPONENT: u64 = 0x7ff << 52;

/// The largest power of two not above `x`, a positive number.
fn floor_to_power(x: f64) -> f64 {
    let power = f64::from_bits(x.to_bits() & EXPONENT);
    if power > 0.0 { power } else { f64::MIN_POSITIVE }
}

/// The sign, +1 or -1, of element `index` in the direction drawn from `seed`.
pub fn draw_sign(seed: u64, index: u64) -> f64 {
    if draw_bits(seed, index) & SIGN == 0 { 1.0 } else { -1.0 }
}

/// A number drawn for element `index` from `seed`; its highest bit decides about the sign.
#[inline(always)]
pub fn draw_bits(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scales(shape: &[usize], values: &[f64]) -> Scales {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Scales::measure(&TensorView { dtype: DType::F64, shape, bytes: &bytes }, 2)
    }

    #[test]
    fn a_mask_moves_no_ordinary_element_far() {
        let values = [0.5, -1e9, -1e9, -1e9, -1e9, 3.0, -0.7, 0.0, f64::NEG_INFINITY, 1.1];
        let scales = scales(&[2, 5], &values);
        assert_eq!(scales.class(0, 0.5), Some(StepClass::Ordinary));
        assert_eq!(scales.scale(0, 0.5, StepUnit::Row), 0.5);
        assert_eq!(scales.class(1, -1e9), Some(StepClass::Outlier));
        assert_eq!(scales.class(7, 0.0), Some(StepClass::Zero));
        assert_eq!(scales.scale(7, 0.0, StepUnit::Own), 1.0);
        assert_eq!(scales.class(8, f64::NEG_INFINITY), None);
        assert_eq!(scales.scale(6, -0.7, StepUnit::Row), 1.0);
        assert_eq!(scales.scale(6, -0.7, StepUnit::Own), 0.5);
    }

    #[test]
    fn a_step_in_a_narrow_format_ends_at_the_nearest_number_of_it() {
        let bytes: Vec<u8> = [1.0f32, 3.0, 0.0, 1000.0]
            .iter()
            .flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes())
            .collect();
        let tensor = TensorView { dtype: DType::BF16, shape: &[4], bytes: &bytes };
        let scales = Scales::measure(&tensor, 1);
        let moved_by = |length: f64| {
            let step = Step {
                seed: 1,
                class: StepClass::Ordinary,
                among: 0..4,
                without: Vec::new(),
                unit: StepUnit::Own,
                length,
                constraint: None,
            };
            let moved = move_tensor(&tensor, &step, &scales, 1);
            let moved = TensorView { bytes: &moved, ..tensor };
            [0, 1, 2, 3].map(|index| (moved.get_f64(index) - tensor.get_f64(index)).abs())
        };
        assert_eq!(moved_by(1.0 / 64.0), [1.0 / 64.0, 2.0 / 64.0, 0.0, 0.0]);
        // Half of a last place and less ends where it began, or one further.
        assert_eq!(moved_by(1.0 / 1024.0), [0.0; 4]);
    }

    #[test]
    fn rows_without_a_magnitude_have_that_of_the_others() {
        let values = [0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 16.0, 17.0];
        let scales = scales(&[4, 2], &values);
        assert_eq!(scales.scale(0, 0.0, StepUnit::Row), 4.0);
        assert_eq!(self::scales(&[3], &[0.0; 3]).scale(2, 0.0, StepUnit::Row), 1.0);
        assert_eq!(self::scales(&[], &[1e-310]).scale(0, 1e-310, StepUnit::Own), f64::MIN_POSITIVE);
        assert!(self::scales(&[0, 3], &[]).rows.is_empty());
    }

    #[test]
    fn scales_are_the_same_in_another_process() {
        for (shape, values) in
            [(&[2, 2][..], &[1.0, 3.0, 0.0, 9.0][..]), (&[], &[5.0]), (&[0, 3], &[])]
        {
            let scales = scales(shape, values);
            assert_eq!(scales.bytes().len(), Scales::bytes_of(shape));
            assert_eq!(Scales::read(shape, &scales.bytes()), scales);
        }
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
            unit: StepUnit::Row,
            length: 0.25,
            constraint: None,
        };
        let moved = |class| -> Vec<f64> {
            let step = step(class);
            values
                .iter()
                .enumerate()
                .map(|(i, &x)| step.displacement(&scales, i, x).abs())
                .collect()
        };
        assert_eq!(moved(StepClass::Ordinary), [0.25, 0.0, 0.0, 0.25, 0.0, 0.0]);
        assert_eq!(moved(StepClass::Zero), [0.0, 0.25, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(moved(StepClass::Outlier), [0.0, 0.0, 0.0, 0.0, 128.0, 0.0]);
    }

    /// The power of two of the lower median of the distinct positive numbers among `values`, by sorting.
    fn sorted(values: &[f64]) -> f64 {
        let mut known: Vec<f64> =
            values.iter().copied().filter(|x| *x > 0.0 && x.is_finite()).collect();
        known.sort_unstable_by(f64::total_cmp);
        known.dedup();
        known.get(known.len().saturating_sub(1) / 2).map_or(0.0, |&median| floor_to_power(median))
    }

    proptest! {
        #[test]
        fn a_median_counts_each_value_once(
            rows in prop::collection::vec(
                prop::collection::vec(prop_oneof![
                    Just(0.0),
                    Just(1e9),
                    Just(f64::INFINITY),
                    (0u8..5).prop_map(f64::from),
                    any::<f64>().prop_map(f64::abs),
                ], 0..60),
                1..4,
            ),
        ) {
            let (mut distinct, mut narrow) = (Distinct::<u64>::default(), Distinct::<u32>::default());
            for row in rows {
                prop_assert_eq!(distinct.median_power(row.iter().copied()), sorted(&row));
                let row: Vec<f64> = row.iter().map(|x| f64::from(*x as f32)).collect();
                prop_assert_eq!(narrow.median_power(row.iter().copied()), sorted(&row));
            }
        }

        #[test]
        fn all_elements_are_moved_as_each_is(
            values in prop::collection::vec(prop_oneof![
                Just(0.0), Just(-0.0), Just(-1e9), Just(f64::NAN), any::<f32>().prop_map(f64::from)
            ], 1..90),
            columns in 1usize..30,
            among in (0usize..90, 0usize..90),
            out in (0usize..90, 0usize..20, 0usize..9, 0usize..20),
            class in 0usize..3,
            is_own in any::<bool>(),
        ) {
            let rows = values.len().div_ceil(columns);
            let mut values = values;
            values.resize(rows * columns, 1.0);
            let scales = scales(&[rows, columns], &values);
            let between = out.0 + out.1 + 1 + out.2;
            let step = Step {
                seed: 3,
                class: StepClass::ALL[class],
                among: among.0.min(among.1)..among.0.max(among.1),
                without: vec![out.0..out.0 + out.1 + 1, between..between + out.3],
                unit: if is_own { StepUnit::Own } else { StepUnit::Row },
                length: 0.5,
                constraint: None,
            };
            let mut bytes = vec![0u8; values.len() * 8];
            let stored: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let shape = [rows, columns];
            let tensor = TensorView { dtype: DType::F64, shape: &shape, bytes: &stored };
            widen_tensor(&tensor, Some((&step, &scales)), 3, &mut bytes);
            for (index, (&x, got)) in values.iter().zip(bytes.as_chunks::<8>().0).enumerate() {
                let expected = x + step.displacement(&scales, index, x);
                let got = f64::from_le_bytes(*got);
                prop_assert!(
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                    "element {}: {} and {}", index, got, expected
                );
            }
        }
    }
}
