//! The shadows of one output at two revisions, in float64 or, of programs, in float32: whether the mathematics changed, and whether
//! each side errs as far as the other.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bitmap::Bitmap;
use super::cells::sorted_median;
use super::compare::{compare_element, is_beyond};
use super::constants::{
    COARSEST_SHARE, ERROR_RATIO_BEYOND_NOISE, EXPLAINED_SHARE, FACTOR_SHARE, HIDDEN_SHARE,
    LEAST_CLASS, LEAST_ROW, LEFT_OVER, LEFT_SHARE, NOISE_FACTOR, ROUNDOFF_UNITS, SAMPLED_ROW,
    SHADOW_ABSOLUTE, SHADOW_FACTOR, SHADOW_RELATIVE,
};
use super::measure::{Squares, root_mean_square, sum_parts, ulp, value_distance};
use super::noise::{NoiseRef, Spread};
use super::parts::measure_parts;
use super::{CompareError, NumericsError, check_shapes};
use replay_base::scratch::{Scratch, ScratchNumbers};
use replay_base::summary::Number;
use replay_base::tensor::{DType, TensorView};

/// How two shadows of one output differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShadowChange {
    /// `||got - base|| / ||base||`.
    #[serde(with = "Number")]
    pub relative_l2: f64,
    /// Elements further apart than rounding in their own format explains.
    pub changed: u64,
    /// `||got - base|| / ||base||` over the changed elements.
    #[serde(with = "Number")]
    pub changed_by: f64,
    /// The first of them by row-major index.
    pub first: Option<u64>,
    /// Elements further apart than one unit roundoff of the output's dtype, at their own scale
    /// or that of their row: the mathematics is another one.
    pub moved: u64,
    /// `||got - base|| / ||base||` over the moved elements.
    #[serde(with = "Number")]
    pub moved_by: f64,
    /// The dtype of the shadows.
    pub dtype: DType,
    /// Whether elements would have moved, if a shadow were not rounded on the way to a format of fewer
    /// digits by itself.
    pub rounded: bool,
}

/// The shadows of one output at two revisions.
pub struct Shadows<'a> {
    base: TensorView<'a>,
    got: TensorView<'a>,
    /// The dtype of the output.
    native: DType,
    /// How far rounding moves the native outputs.
    noise: NoiseRef<'a>,
    /// How far rounding moves the shadows, where it was measured.
    own: Option<NoiseRef<'a>>,
    /// How far the shadows step as their inputs move, where it was measured.
    steps: Option<NoiseRef<'a>>,
    /// The outputs of both sides, where these are known.
    outputs: Option<[TensorView<'a>; 2]>,
    /// The common growth of all changed elements, as a share of each, where one factor explains them all.
    growth: Option<f64>,
    /// The scale of each row.
    rows: ScratchNumbers<f64>,
    root_mean_square: f64,
}

/// Elements of one read.
const BLOCK: usize = 1 << 10;

/// How some elements of two shadows differ.
#[derive(Default)]
struct Changed {
    differences: Squares,
    truth: Squares,
    changed: u64,
    changed_by: Squares,
    changed_from: Squares,
    first: Option<u64>,
    moved: u64,
    moved_by: Squares,
    moved_from: Squares,
}

/// The differences of some elements, and those that steps do not explain.
#[derive(Default)]
struct LeftOver {
    all_squares: f64,
    squares: f64,
    count: u64,
}

impl Changed {
    fn followed_by(mut self, next: Changed) -> Changed {
        self.differences.merge(&next.differences);
        self.truth.merge(&next.truth);
        self.changed += next.changed;
        self.changed_by.merge(&next.changed_by);
        self.changed_from.merge(&next.changed_from);
        self.first = self.first.or(next.first);
        self.moved += next.moved;
        self.moved_by.merge(&next.moved_by);
        self.moved_from.merge(&next.moved_from);
        self
    }
}

impl<'a> Shadows<'a> {
    /// The shadows `base` and `got` of an output of dtype `native`, whose values rounding moves by
    /// `noise`. Scales of rows lie in `scratch`.
    ///
    /// # Errors
    /// [`CompareError::Shape`] if the shapes differ, [`CompareError::Noise`] if the noise belongs to
    /// another tensor; [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn new(
        base: TensorView<'a>,
        got: TensorView<'a>,
        native: DType,
        noise: NoiseRef<'a>,
        scratch: &Scratch,
    ) -> Result<Shadows<'a>, NumericsError> {
        check_shapes(&base, &got, false)?;
        noise.check_len(base.len())?;
        let root_mean_square = root_mean_square(&base);
        let row = row_of(&base);
        let mut rows: ScratchNumbers<f64> = scratch.zeros(base.len().div_ceil(row))?;
        if row >= LEAST_ROW {
            rows.par_iter_mut().enumerate().for_each(|(row_index, scale)| {
                *scale = median_row_magnitude(&base, row_index, row)
            });
        }
        Ok(Shadows {
            base,
            got,
            native,
            noise,
            own: None,
            steps: None,
            outputs: None,
            growth: None,
            rows,
            root_mean_square,
        })
    }

    /// The same, where the outputs are `base` and `got`: a value in them is no remainder of cancelling terms.
    ///
    /// # Errors
    /// [`CompareError::Shape`] if the shapes differ.
    pub fn with_outputs(
        self,
        base: TensorView<'a>,
        got: TensorView<'a>,
    ) -> Result<Shadows<'a>, CompareError> {
        check_shapes(&self.base, &base, false)?;
        check_shapes(&self.got, &got, false)?;
        Ok(Shadows { outputs: Some([base, got]), ..self })
    }

    /// The same, where rounding in float64 moves the shadows by `own_noise`: a tie is no change if such rounding
    /// decides it.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if the noise belongs to another tensor.
    pub fn with_noise(self, own_noise: NoiseRef<'a>) -> Result<Shadows<'a>, CompareError> {
        own_noise.check_len(self.base.len())?;
        Ok(Shadows { own: Some(own_noise), ..self })
    }

    /// The same, where the shadows move by `steps` as their inputs move along a line. Rounding on the way to a format
    /// of fewer digits makes such steps, and hides smaller changes.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if the steps belong to another tensor.
    pub fn with_steps(self, steps: NoiseRef<'a>) -> Result<Shadows<'a>, CompareError> {
        steps.check_len(self.base.len())?;
        Ok(Shadows { steps: Some(steps), ..self })
    }

    /// The same, with the common growth of all elements of `change`, if there is one: these have moved, whatever their
    /// noise. One factor is exact in float64, and rounding draws another for each element.
    pub fn with_growth(self, change: &ShadowChange) -> Shadows<'a> {
        Shadows { growth: self.common_growth(change), ..self }
    }

    /// The growth of all changed elements, as a share of each, if they share one beyond the product of constants rounded
    /// to float32.
    fn common_growth(&self, change: &ShadowChange) -> Option<f64> {
        let first = change.first.filter(|_| self.is_wide() && self.native.is_float())? as usize;
        let before = self.base.get_f64(first);
        let growth = (self.got.get_f64(first) - before) / before;
        let roundoff = ulp(self.native, 1.0).max(ulp(DType::F32, 1.0)) / 2.0;
        let is_larger = growth.is_finite() && growth.abs() > ROUNDOFF_UNITS * roundoff;
        if !is_larger || change.changed < LEAST_ROW as u64 {
            return None;
        }
        let all_fit = (0..self.base.len()).into_par_iter().all(|index| {
            let left = self.base.get_f64(index);
            let right = self.got.get_f64(index);
            let apart = value_distance(left, right);
            apart == 0.0
                || is_larger_by(growth, left, right)
                || !self.is_unexplained(apart, index, left, right)
        });
        all_fit.then_some(growth)
    }

    /// Whether one factor explains all changed elements.
    pub fn has_growth(&self) -> bool {
        self.growth.is_some()
    }

    /// The growth of the element at `index`, as a share of it, where one factor explains all changes; else 0.
    pub fn growth_of(&self, index: usize) -> f64 {
        let left = self.base.get_f64(index);
        let right = self.got.get_f64(index);
        self.growth.filter(|growth| is_larger_by(*growth, left, right)).unwrap_or(0.0)
    }

    /// Whether steps explain a shift of `moved_count` elements: few are left, and they carry
    /// three quarters of it at most. Where a narrow format holds nothing of an element, it does not step.
    pub fn mostly_step(&self, moved_count: u64) -> bool {
        let mut all_squares = 0.0;
        let mut left = 0.0;
        let mut count = 0;
        for part in measure_parts(self.base.len(), |range| self.sum_left_over(range)) {
            all_squares += part.all_squares;
            left += part.squares;
            count += part.count;
        }
        all_squares.is_finite()
            && LEFT_OVER * count as f64 <= moved_count as f64
            && left <= LEFT_SHARE * all_squares
    }

    /// The squares of all differences in `range`, and of those that have moved all the same.
    fn sum_left_over(&self, range: Range<usize>) -> LeftOver {
        let mut left_over = LeftOver::default();
        for index in range {
            let difference = value_distance(self.base.get_f64(index), self.got.get_f64(index));
            left_over.all_squares += difference * difference;
            if self.has_moved(index) {
                left_over.squares += difference * difference;
                left_over.count += 1;
            }
        }
        left_over
    }

    /// Whether steps by themselves explain a quarter of the change at least, in squares.
    pub fn steps_explain(&self) -> bool {
        let Some(steps) = self.steps else { return false };
        let [mut all_squares, mut explained] = [0.0; 2];
        for [part_squares, part_explained] in
            measure_parts(self.base.len(), |range| self.sum_explained(steps, range))
        {
            all_squares += part_squares;
            explained += part_explained;
        }
        all_squares.is_finite() && all_squares > 0.0 && explained >= EXPLAINED_SHARE * all_squares
    }

    /// The squares of all differences in `range`, and those that `steps` explain.
    fn sum_explained(&self, steps: NoiseRef, range: Range<usize>) -> [f64; 2] {
        let [mut all_squares, mut explained] = [0.0; 2];
        for index in range {
            let left = self.base.get_f64(index);
            let right = self.got.get_f64(index);
            let difference = value_distance(left, right);
            let step_difference = NOISE_FACTOR * steps.sum_at(self.base.dtype, index, left, right);
            all_squares += difference * difference;
            explained += difference.min(step_difference).powi(2);
        }
        [all_squares, explained]
    }

    /// Whether they are in float64, and not in float32.
    pub fn is_wide(&self) -> bool {
        self.base.dtype == DType::F64
    }

    /// Whether an element moved by more than `roundoff`, the distance by which the trusted shadow moves where its
    /// inputs move by a unit in the last place of float32. That is 2^-24 of an input at least, and rounding a constant
    /// to float32 changes it by 2^-24 at most.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if `roundoff` belongs to another tensor.
    pub fn move_beyond(&self, roundoff: &Spread) -> Result<bool, CompareError> {
        NoiseRef { base: Some(roundoff), got: None }.check_len(self.base.len())?;
        Ok((0..self.base.len()).into_par_iter().any(|index| {
            let left = self.base.get_f64(index);
            let right = self.got.get_f64(index);
            let difference = value_distance(left, right);
            let unit = ulp(self.native, 1.0) / 2.0 * self.scale(index, left, right);
            let explained = roundoff.value_at(index).min(ROUNDOFF_UNITS * unit);
            difference > explained && self.has_moved(index)
        }))
    }

    /// Compares the two element by element.
    pub fn change(&self) -> ShadowChange {
        let parts = measure_parts(self.base.len(), |range| self.changed(range));
        let total_change = parts.into_iter().fold(Changed::default(), Changed::followed_by);
        ShadowChange {
            relative_l2: total_change.differences.relative_to(&total_change.truth),
            changed: total_change.changed,
            changed_by: total_change.changed_by.relative_to(&total_change.changed_from),
            first: total_change.first,
            moved: total_change.moved,
            moved_by: total_change.moved_by.relative_to(&total_change.moved_from),
            dtype: self.base.dtype,
            rounded: false,
        }
    }

    fn changed(&self, range: Range<usize>) -> Changed {
        let mut changed_part = Changed::default();
        let mut lefts = [0.0; BLOCK];
        let mut rights = [0.0; BLOCK];
        for first in range.clone().step_by(BLOCK) {
            let count = BLOCK.min(range.end - first);
            let lefts = &mut lefts[..count];
            let rights = &mut rights[..count];
            self.base.read(first, lefts);
            self.got.read(first, rights);
            for ((index, &left), &right) in (first..).zip(&*lefts).zip(&*rights) {
                if left.is_finite() {
                    changed_part.truth.add(left);
                }
                let difference = value_distance(left, right);
                changed_part.differences.add(difference);
                if difference == 0.0 {
                    continue;
                }
                if self.is_unexplained(difference, index, left, right) {
                    changed_part.changed += 1;
                    changed_part.changed_by.add(difference);
                    changed_part.changed_from.add(if left.is_finite() { left } else { 0.0 });
                    changed_part.first.get_or_insert(index as u64);
                }
                if self.have_moved(index, left, right) {
                    changed_part.moved += 1;
                    changed_part.moved_by.add(difference);
                    changed_part.moved_from.add(if left.is_finite() { left } else { 0.0 });
                }
            }
        }
        changed_part
    }

    /// Whether the values of an element lie further apart than [`explained`](Shadows::explained).
    fn is_unexplained(&self, difference: f64, index: usize, left: f64, right: f64) -> bool {
        // Most are explained by this alone, and their noise lies in other memory.
        let is_near = self.is_wide() && difference <= SHADOW_RELATIVE * left.abs().max(right.abs());
        difference.is_infinite()
            || !is_near && difference > self.explained(difference, index, left, right)
    }

    /// The moved elements.
    ///
    /// # Errors
    /// [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn moved(&self, scratch: &Scratch) -> Result<Bitmap, NumericsError> {
        Ok(Bitmap::in_scratch(scratch, self.base.len(), |index| self.has_moved(index))?)
    }

    /// How far rounding in the shadows' own format moves an element, and rounding to narrower ones on the way.
    ///
    /// The condition of the computation is the same in both precisions, so rounding in float64 moves
    /// an element by as much as native rounding, scaled by the ratio of the precisions of float64 and
    /// float32. Noise is measured in float32 arithmetic at best, whatever the outputs are stored in.
    fn explained(&self, difference: f64, index: usize, left: f64, right: f64) -> f64 {
        let steps =
            self.steps.map_or(0.0, |steps| steps.sum_at(self.base.dtype, index, left, right));
        let steps = NOISE_FACTOR * steps;
        if self.base.dtype != DType::F64 {
            return steps.max(NOISE_FACTOR * ulp(self.base.dtype, left.abs().max(right.abs())));
        }
        let precision = ulp(DType::F64, 1.0) / ulp(DType::F32, 1.0);
        let noise = self.noise.sum_at(self.native, index, left, right);
        let noise = if noise.is_finite() { noise } else { 0.0 };
        let accounted_difference = SHADOW_FACTOR * precision * noise
            + SHADOW_RELATIVE * left.abs().max(right.abs())
            + steps;
        let cancelled = SHADOW_ABSOLUTE * self.root_mean_square;
        if difference > accounted_difference
            && difference <= accounted_difference + cancelled
            && self.is_held(index, left, right)
        {
            return accounted_difference;
        }
        accounted_difference + cancelled
    }

    /// Whether the outputs hold the larger of the values of an element as well, to the digits of the narrowest of formats: it
    /// is no remainder of cancelling terms.
    fn is_held(&self, index: usize, left: f64, right: f64) -> bool {
        self.outputs.is_some_and(|[base, got]| {
            let larger = if left.abs() > right.abs() { left } else { right };
            let output = if left.abs() > right.abs() { base } else { got };
            value_distance(output.get_f64(index), larger) <= COARSEST_SHARE * larger.abs()
        })
    }

    /// The magnitude of an element in whose units it is known: its own, or the median of its row so far as rounding moves it by as much.
    fn scale(&self, index: usize, left: f64, right: f64) -> f64 {
        let row = self.rows[index / row_of(&self.base)];
        let own_magnitude = left.abs().max(right.abs());
        if row <= own_magnitude {
            return own_magnitude;
        }
        let noise = self.noise.sum_at(self.native, index, left, right);
        own_magnitude.max(row.min(noise / ulp(self.native, 1.0)))
    }

    /// Whether an element moved by more than one unit roundoff of the output's dtype at its
    /// [`scale`](Shadows::scale), and by more than a share of its noise: constants are written to a
    /// precision, too. One factor for all is none of these.
    fn has_moved(&self, index: usize) -> bool {
        self.have_moved(index, self.base.get_f64(index), self.got.get_f64(index))
    }

    /// The same of an element with these values.
    fn have_moved(&self, index: usize, left: f64, right: f64) -> bool {
        let difference = value_distance(left, right);
        let roundoff = ulp(self.native, 1.0) / 2.0;
        let own_rounding = roundoff * left.abs().max(right.abs());
        // What comes now lies in other memory.
        if difference == 0.0 || difference <= own_rounding && difference.is_finite() {
            return false;
        }
        let scale = self.scale(index, left, right);
        let least_difference = (roundoff * scale).max(ulp(self.native, 0.0) / 2.0);
        if difference <= least_difference && difference.is_finite() {
            return false;
        }
        let own_noise =
            self.own.map_or(0.0, |noise_ref| noise_ref.sum_at(DType::F64, index, left, right));
        let noise = self.noise.sum_at(self.native, index, left, right);
        if own_noise.is_infinite() || noise.is_infinite() {
            return false;
        }
        if difference.is_infinite() {
            return true;
        }
        let hidden = if self.growth.is_some() { 0.0 } else { noise * HIDDEN_SHARE };
        difference > least_difference.max(hidden)
            && difference > self.explained(difference, index, left, right)
            && difference > SHADOW_FACTOR * own_noise
    }
}

/// Whether `right` is larger than `left` by the share `growth` of it.
fn is_larger_by(growth: f64, left: f64, right: f64) -> bool {
    let grown = growth * left;
    value_distance(right - left, grown) <= FACTOR_SHARE * grown.abs()
}

/// The elements of one row of `tensor`: those along its last dimension.
pub(super) fn row_of(tensor: &TensorView) -> usize {
    tensor.shape.last().copied().unwrap_or(1).max(1)
}

/// The median magnitude of row `row_index` of `tensor`, over finite elements.
pub(super) fn median_row_magnitude(tensor: &TensorView, row_index: usize, row: usize) -> f64 {
    let every = row.div_ceil(SAMPLED_ROW);
    let indices = (row_index * row..(row_index + 1) * row).step_by(every);
    let magnitudes = indices.map(|index| tensor.get_f64(index).abs());
    let magnitudes: Vec<f64> = magnitudes.filter(|magnitude| magnitude.is_finite()).collect();
    if magnitudes.is_empty() { 0.0 } else { sorted_median(&magnitudes) }
}

/// The error of an output against its shadow, relative, in L2, over the elements that rounding in
/// float64 does not move as far itself by `own_noise`: a tie says nothing of the precision of the rest.
///
/// # Errors
/// [`CompareError::Shape`] if the shapes differ, [`CompareError::Noise`] if the noise belongs to
/// another tensor.
pub fn error_without_ties(
    output: &TensorView,
    shadow: &TensorView,
    own_noise: &NoiseRef,
) -> Result<f64, CompareError> {
    check_shapes(shadow, output, false)?;
    own_noise.check_len(shadow.len())?;
    let [errors, truth] =
        sum_parts(shadow.len(), |range| sum_errors_without_ties(output, shadow, own_noise, range));
    Ok(errors.relative_to(&truth))
}

/// The squares of the errors in `range`, without ties, and those of the truth.
fn sum_errors_without_ties(
    output: &TensorView,
    shadow: &TensorView,
    own_noise: &NoiseRef,
    range: Range<usize>,
) -> [Squares; 2] {
    let [mut errors, mut truth] = [Squares::EMPTY; 2];
    for index in range {
        let target = shadow.get_f64(index);
        let value = output.get_f64(index);
        let error = value_distance(target, value);
        if target.is_finite() {
            truth.add(target);
        }
        if error > SHADOW_FACTOR * own_noise.sum_at(DType::F64, index, target, value) {
            errors.add(error);
        }
    }
    [errors, truth]
}

/// One output at two revisions, both with their shadows.
pub struct Errors<'a> {
    /// The trusted output.
    pub base: TensorView<'a>,
    /// The other output.
    pub got: TensorView<'a>,
    /// The shadow of the trusted side.
    pub base_shadow: TensorView<'a>,
    /// The shadow of the other side.
    pub got_shadow: TensorView<'a>,
    /// How far rounding moves the outputs.
    pub noise: NoiseRef<'a>,
}

/// The errors of the trusted side in elements of about one magnitude.
#[derive(Clone, Default)]
struct MagnitudeClass {
    errors: Squares,
    elements: u64,
}

/// The numbers of exponents of a float64.
const EXPONENTS: usize = 1 << 11;

/// The errors of some elements on both sides.
struct ErrorSums {
    base: Squares,
    got: Squares,
    /// The largest error of an element of zero in the trusted output.
    largest_lost: f64,
    /// The errors of the trusted side by the exponent of the truth.
    classes: Vec<MagnitudeClass>,
}

impl Default for ErrorSums {
    fn default() -> ErrorSums {
        ErrorSums {
            base: Squares::EMPTY,
            got: Squares::EMPTY,
            largest_lost: 0.0,
            classes: vec![MagnitudeClass::default(); EXPONENTS],
        }
    }
}

impl ErrorSums {
    fn merge(&mut self, next: ErrorSums) {
        self.base.merge(&next.base);
        self.got.merge(&next.got);
        self.largest_lost = self.largest_lost.max(next.largest_lost);
        for (class, next_class) in self.classes.iter_mut().zip(next.classes) {
            class.errors.merge(&next_class.errors);
            class.elements += next_class.elements;
        }
    }
}

impl Errors<'_> {
    /// Whether the other output errs no further against its shadow than the trusted one does: all in
    /// all, and in each element beyond noise, compared with the trusted side's elements of its
    /// magnitude.
    ///
    /// Where a sum cancels, all replays of a side may meet one value by chance, and its neighbours
    /// still tell how far it errs. Where it vanishes on the trusted side and in its shadow, the elements
    /// of zero in the output alone tell the size of a lost remainder: `1 + tanh(x)` is 0 from
    /// -9 down in float32, and from -19 down in float64.
    pub fn are_alike(&self) -> bool {
        let count = self.base.len();
        let mut sums = ErrorSums::default();
        for part in measure_parts(count, |range| self.sum_errors(range)) {
            let Some(part) = part else { return false };
            sums.merge(part);
        }
        if sums.got.root() > ERROR_RATIO_BEYOND_NOISE * sums.base.root() {
            return false;
        }
        let largest_lost = sums.largest_lost;
        let typical = typical_errors(&sums.classes);
        (0..count).into_par_iter().all(|index| {
            let error = self.got_error(index);
            error <= NOISE_FACTOR * typical[self.class(index)]
                || self.vanishes(index) && error <= largest_lost
                || !is_beyond(&self.base, &self.got, &self.noise, index)
        })
    }

    /// The errors of the elements in `range`; none where one is not finite.
    fn sum_errors(&self, range: Range<usize>) -> Option<ErrorSums> {
        let mut sums = ErrorSums::default();
        for index in range {
            let error_before = self.base_error(index);
            let error_after = self.got_error(index);
            if !error_before.is_finite() || !error_after.is_finite() {
                return None;
            }
            sums.base.add(error_before);
            sums.got.add(error_after);
            if self.base.get_f64(index) == 0.0 {
                sums.largest_lost = sums.largest_lost.max(error_before);
            }
            let class = &mut sums.classes[self.class(index)];
            class.errors.add(error_before);
            class.elements += 1;
        }
        Some(sums)
    }

    /// Whether the trusted output and its shadow are zero at `index`.
    fn vanishes(&self, index: usize) -> bool {
        self.base.get_f64(index) == 0.0 && self.base_shadow.get_f64(index) == 0.0
    }

    /// The same of integers: both shadows hold one integer wherever the outputs differ beyond noise, roundings flip
    /// more of those that differ, and the other output has no more than `ERROR_RATIO_BEYOND_NOISE` times as many that are not its
    /// shadow's. Each replay flips a tie by chance, so a few are flipped by none.
    pub fn are_alike_in_integers(&self) -> bool {
        let mut flipped = 0u64;
        let mut kept = 0u64;
        let mut base = 0u64;
        let mut got = 0u64;
        for index in 0..self.base.len() {
            if let Some(element) = compare_element(&self.base, &self.got, &self.noise, index) {
                if element.is_beyond() && !self.is_shadow_the_same(index) {
                    return false;
                }
                *if element.is_beyond() { &mut kept } else { &mut flipped } += 1;
            }
            base += u64::from(self.base_error(index) != 0.0);
            got += u64::from(self.got_error(index) != 0.0);
        }
        kept <= flipped && got as f64 <= ERROR_RATIO_BEYOND_NOISE * base as f64
    }

    /// Whether the shadows hold one value at `index`.
    fn is_shadow_the_same(&self, index: usize) -> bool {
        value_distance(self.base_shadow.get_f64(index), self.got_shadow.get_f64(index)) == 0.0
    }

    fn base_error(&self, index: usize) -> f64 {
        value_distance(self.base.get_f64(index), self.base_shadow.get_f64(index))
    }

    fn got_error(&self, index: usize) -> f64 {
        value_distance(self.got.get_f64(index), self.got_shadow.get_f64(index))
    }

    /// The exponent of the truth.
    fn class(&self, index: usize) -> usize {
        (self.base_shadow.get_f64(index).to_bits() >> 52) as usize % EXPONENTS
    }
}

/// The root mean square of the errors of each class. One with few elements takes in those of the
/// next larger magnitudes.
fn typical_errors(classes: &[MagnitudeClass]) -> Vec<f64> {
    let mut typical = vec![0.0; classes.len()];
    let mut first_waiting = 0;
    let mut sum = MagnitudeClass::default();
    let mut last = 0.0;
    for (exponent, class) in classes.iter().enumerate() {
        sum.errors.merge(&class.errors);
        sum.elements += class.elements;
        if sum.elements >= LEAST_CLASS {
            last = sum.errors.root() / (sum.elements as f64).sqrt();
            typical[first_waiting..=exponent].fill(last);
            first_waiting = exponent + 1;
            sum = MagnitudeClass::default();
        }
    }
    // The largest elements may be few: they err at least as far as those below them.
    let rest_error = sum.errors.root() / (sum.elements.max(1) as f64).sqrt();
    typical[first_waiting..].fill(rest_error.max(last));
    typical
}
