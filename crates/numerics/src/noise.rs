//! How far rounding and scheduling alone move each element of an output.

use std::ops::{MulAssign, Range};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bitmap::Bitmap;
use super::cells::{DeviationFloat, raise_to_neighbours};
use super::constants::{FLIP_FACTOR, FLIP_REPLAYS, ORDER_FACTOR};
use super::deviations::{BLOCK, ElementDeviations, Of};
use super::measure::{Squares, sum_parts, ulp};
use super::parts::measure_parts;
use super::{CompareError, NumericsError, check_shapes};
use replay_base::scratch::{Scratch, ScratchError, ScratchNumber, ScratchNumbers};
use replay_base::tensor::vectors::widest;
use replay_base::tensor::{DType, TensorView};

/// The most listed indices of flips and of unstable elements.
const LISTED: usize = 8;

/// One number for each element of a tensor, non-negative or infinite. It is a float32, or a float64
/// for float64 tensors, whose deviations float32 cannot hold.
#[derive(Debug, PartialEq)]
pub enum Spread {
    /// Of tensors in float32 or narrower.
    Single(ScratchNumbers<f32>),
    /// Of tensors in float64.
    Double(ScratchNumbers<f64>),
}

impl Spread {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Spread::Single(spread) => spread.len(),
            Spread::Double(spread) => spread.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of element `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Spread::len`].
    pub fn value_at(&self, index: usize) -> f64 {
        match self {
            Spread::Single(spread) => spread[index].get(),
            Spread::Double(spread) => spread[index],
        }
    }

    /// The L2 norm.
    fn norm(&self) -> f64 {
        let [squares] = sum_parts(self.len(), |range| [self.sum_squares(range)]);
        squares.root()
    }

    /// The squares of the numbers in `range`.
    fn sum_squares(&self, range: Range<usize>) -> Squares {
        let mut squares = Squares::default();
        range.for_each(|index| squares.add(self.value_at(index)));
        squares
    }

    /// Adds the numbers from `first` on to `sums`.
    fn add_to(&self, first: usize, sums: &mut [f64]) {
        let range = first..first + sums.len();
        match self {
            Spread::Single(spread) => add_to(&spread[range], sums),
            Spread::Double(spread) => add_to(&spread[range], sums),
        }
    }
}

fn add_to<T: DeviationFloat>(numbers: &[T], sums: &mut [f64]) {
    widest!(sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number.get()));
}

/// How a replay differed from its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseSource {
    /// The direction of rounding.
    Rounding,
    /// The order of blocks and threads.
    Order,
}

/// Collects deviations from a base output, one replay after the other.
///
/// It holds 16 bytes an element in a scratch, 32 for a float64 tensor.
#[derive(Debug)]
pub struct NoiseAccumulator {
    deviations: All,
    replays: u32,
    scratch: Scratch,
}

#[derive(Debug)]
enum All {
    Single(ElementDeviations<f32>),
    Double(ElementDeviations<f64>),
}

/// Evaluates `$what` for the deviations `$all`, whatever they are kept in.
macro_rules! of_all {
    ($all:expr, $deviations:ident => $what:expr) => {
        match $all {
            All::Single($deviations) => $what,
            All::Double($deviations) => $what,
        }
    };
}

/// Elements far beyond their rounding in another order of blocks and threads.
#[derive(Debug, PartialEq)]
pub struct Ordered {
    pub elements: Bitmap,
    /// How far rounding alone moves each element of the output.
    pub rounding: Spread,
}

/// The noise of one output at one revision.
#[derive(Debug, PartialEq)]
pub struct Noise {
    /// The largest deviation of any replay, per element. It is at least one unit in the last place
    /// of the output's dtype (0 for integers without flips) and a share of the median of its neighbours. It is infinite
    /// where one replay is finite and another is not.
    pub per_element: Spread,
    /// The noise in a few numbers.
    pub summary: NoiseSummary,
}

/// The noise of an output in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NoiseSummary {
    /// Replays beside the base.
    pub replays: u32,
    /// The L2 norm of the noise over the L2 norm of the output, over finite elements.
    #[serde(with = "replay_base::summary::Number")]
    pub relative_l2: f64,
    /// Elements with a jump in at most two replays, far beyond all the others.
    pub flips: u64,
    /// The first of them by row-major index.
    pub first_flips: Vec<u64>,
    /// Elements with a finite value in one replay and none in another.
    pub unstable: u64,
    /// The first of them by row-major index.
    pub first_unstable: Vec<u64>,
}

impl NoiseSummary {
    /// How many decimal digits of an output of `dtype` hold, as far as its replays tell: those in which the furthest of them
    /// agrees with the output, in L2. It is an estimate (the largest deviation of Verrou's `verrou_plot_stat`; Sohier et al.,
    /// "Confidence Intervals for Stochastic Arithmetic", ACM TOMS 47(2), 2021). None without replays, or of integers.
    pub fn significant_digits(&self, dtype: DType) -> Option<f64> {
        let bits = match dtype {
            DType::F64 => 53.0,
            DType::F32 => 24.0,
            DType::F16 => 11.0,
            DType::BF16 => 8.0,
            DType::F8E4M3 => 4.0,
            DType::F8E5M2 => 3.0,
            _ => return None,
        };
        let is_known = self.replays > 0 && !self.relative_l2.is_nan();
        let most = bits * std::f64::consts::LOG10_2;
        is_known.then(|| (-self.relative_l2.log10()).clamp(0.0, most))
    }
}

impl Noise {
    /// The noise of a machine whose operations err up to `factor` times as much as those of the
    /// measured machine. To first order, errors add up linearly.
    pub fn scaled(mut self, factor: f64) -> Noise {
        if factor == 1.0 {
            return self;
        }
        match &mut self.per_element {
            Spread::Single(spread) => scale_numbers(spread, factor as f32),
            Spread::Double(spread) => scale_numbers(spread, factor),
        }
        self.summary.relative_l2 *= factor;
        self
    }

    /// A copy of it, in `scratch`.
    ///
    /// # Errors
    /// [`ScratchError`] if there is no room.
    pub fn copy(&self, scratch: &Scratch) -> Result<Noise, ScratchError> {
        let per_element = match &self.per_element {
            Spread::Single(spread) => Spread::Single(copy_numbers(spread, scratch)?),
            Spread::Double(spread) => Spread::Double(copy_numbers(spread, scratch)?),
        };
        Ok(Noise { per_element, summary: self.summary.clone() })
    }
}

fn scale_numbers<T: ScratchNumber + MulAssign>(numbers: &mut [T], factor: T) {
    let blocks = numbers.par_chunks_mut(BLOCK);
    blocks.for_each(|block| block.iter_mut().for_each(|number| *number *= factor));
}

fn copy_numbers<T: ScratchNumber>(
    numbers: &ScratchNumbers<T>,
    scratch: &Scratch,
) -> Result<ScratchNumbers<T>, ScratchError> {
    let mut copy: ScratchNumbers<T> = scratch.zeros(numbers.len())?;
    let blocks = copy.par_chunks_mut(BLOCK).zip(numbers.par_chunks(BLOCK));
    blocks.for_each(|(copy, numbers)| copy.copy_from_slice(numbers));
    Ok(copy)
}

impl NoiseAccumulator {
    /// An accumulator for the replays of `base`; it stores deviations in `scratch`.
    ///
    /// # Errors
    /// [`ScratchError`] if there is no room.
    pub fn new(base: &TensorView, scratch: &Scratch) -> Result<NoiseAccumulator, ScratchError> {
        let deviations = match base.dtype {
            DType::F64 => All::Double(ElementDeviations::new(base.len(), scratch)?),
            _ => All::Single(ElementDeviations::new(base.len(), scratch)?),
        };
        Ok(NoiseAccumulator { deviations, replays: 0, scratch: scratch.clone() })
    }

    /// The accumulator of so many `replays` of `base` in other roundings, with the largest deviations from a device:
    /// negative where the element jumps.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if `deviations` has another number of elements; [`ScratchError`] if there is no room.
    pub fn from_device(
        base: &TensorView,
        deviations: &TensorView,
        replays: u32,
        scratch: &Scratch,
    ) -> Result<NoiseAccumulator, NumericsError> {
        let reported_deviations = match base.dtype {
            DType::F64 => All::Double(ElementDeviations::from_device(deviations, scratch)?),
            _ => All::Single(ElementDeviations::from_device(deviations, scratch)?),
        };
        let accumulator =
            NoiseAccumulator { deviations: reported_deviations, replays, scratch: scratch.clone() };
        accumulator.check_len(base)?;
        Ok(accumulator)
    }

    /// Takes the deviations in other orders from `order_accumulator`. It measured nothing else.
    pub fn take_orders(&mut self, order_accumulator: &NoiseAccumulator) {
        match (&mut self.deviations, &order_accumulator.deviations) {
            (All::Single(own_deviations), All::Single(order_deviations)) => {
                own_deviations.take_orders(order_deviations)
            }
            (All::Double(own_deviations), All::Double(order_deviations)) => {
                own_deviations.take_orders(order_deviations)
            }
            _ => return,
        }
        self.replays += order_accumulator.replays;
    }

    /// Takes the output of another replay of the same inputs. `noise_source` says how it differed from
    /// `base`.
    ///
    /// # Errors
    /// [`CompareError::Shape`] if dtype or shape differ from the base's.
    pub fn add(
        &mut self,
        base: &TensorView,
        replay: &TensorView,
        noise_source: NoiseSource,
    ) -> Result<(), CompareError> {
        check_shapes(base, replay, true)?;
        self.check_len(base)?;
        of_all!(&mut self.deviations, all => all.add(base, replay, noise_source));
        self.replays += 1;
        Ok(())
    }

    /// Whether a replay of this source moved any element.
    pub fn has_moved(&self, noise_source: NoiseSource) -> bool {
        of_all!(&self.deviations, all => all.has_moved(noise_source))
    }

    /// How far rounding alone moves each element, at least one unit in the last place and a share
    /// of the median of its row.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if `base` has another number of elements than before;
    /// [`ScratchError`] if there is no room.
    pub fn rounding(&self, base: &TensorView) -> Result<Spread, NumericsError> {
        self.check_len(base)?;
        let included_sources = Of::Rounding;
        let scratch = &self.scratch;
        Ok(match &self.deviations {
            All::Single(single_deviations) => Spread::Single(raise_to_floor(
                copy_largest(single_deviations, included_sources, scratch)?,
                base,
            )),
            All::Double(double_deviations) => Spread::Double(raise_to_floor(
                copy_largest(double_deviations, included_sources, scratch)?,
                base,
            )),
        })
    }

    /// The elements beyond `ORDER_FACTOR` times their rounding in another order. None
    /// for integers: they do not round.
    ///
    /// # Errors
    /// As [`NoiseAccumulator::rounding`].
    pub fn ordered(&self, base: &TensorView) -> Result<Option<Ordered>, NumericsError> {
        self.check_len(base)?;
        if !base.dtype.is_float() || !self.has_moved(NoiseSource::Order) {
            return Ok(None);
        }
        let rounding = self.rounding(base)?;
        let elements = Bitmap::in_scratch(&self.scratch, base.len(), |index| {
            let order = of_all!(&self.deviations, all => all.order(index));
            order > ORDER_FACTOR * rounding.value_at(index)
        })?;
        Ok((elements.count() > 0).then_some(Ordered { elements, rounding }))
    }

    /// The noise of the replays. With `ordered`, and for integers, only replays in other roundings count:
    /// dependence on the order is not noise.
    ///
    /// # Errors
    /// As [`NoiseAccumulator::rounding`].
    pub fn finish(
        self,
        base: &TensorView,
        ordered: Option<Ordered>,
    ) -> Result<Noise, NumericsError> {
        self.check_len(base)?;
        // Threads append integers to lists in any order: that is no noise of any of them.
        let (replays, included_sources) = match ordered {
            None if base.dtype.is_float() => (self.replays, Of::All),
            _ => (self.replays, Of::Rounding),
        };
        let summary =
            of_all!(&self.deviations, all => summarize_noise(all, base, included_sources, replays));
        let per_element = match (ordered, self.deviations) {
            (Some(ordered), _) => ordered.rounding,
            (None, All::Single(single_deviations)) => Spread::Single(raise_to_floor(
                single_deviations.into_largest(included_sources),
                base,
            )),
            (None, All::Double(double_deviations)) => Spread::Double(raise_to_floor(
                double_deviations.into_largest(included_sources),
                base,
            )),
        };
        Ok(Noise { per_element, summary })
    }

    fn check_len(&self, base: &TensorView) -> Result<(), CompareError> {
        let noise = of_all!(&self.deviations, all => all.len());
        let tensor = base.len();
        if noise == tensor { Ok(()) } else { Err(CompareError::Noise { noise, tensor }) }
    }
}

/// A copy of the deviations `included_sources` selects, in `scratch`.
fn copy_largest<T: DeviationFloat>(
    element_deviations: &ElementDeviations<T>,
    included_sources: Of,
    scratch: &Scratch,
) -> Result<ScratchNumbers<T>, ScratchError> {
    let mut copy: ScratchNumbers<T> = scratch.zeros(element_deviations.len())?;
    let blocks = copy.par_chunks_mut(BLOCK).enumerate();
    blocks.for_each(|(block, copy)| {
        element_deviations.largest(included_sources, block * BLOCK, copy)
    });
    Ok(copy)
}

/// `deviations`, raised to one unit in the last place of `base` and to a share of the median of the row.
fn raise_to_floor<T: DeviationFloat>(
    mut deviations: ScratchNumbers<T>,
    base: &TensorView,
) -> ScratchNumbers<T> {
    let blocks = deviations.par_chunks_mut(BLOCK).enumerate();
    blocks.for_each(|(block, noise)| {
        let mut values = [0.0; BLOCK];
        let values = &mut values[..noise.len()];
        base.read(block * BLOCK, values);
        widest!({
            for (noise, &value) in noise.iter_mut().zip(&*values) {
                *noise = T::from_deviation(noise.get().max(ulp(base.dtype, value)));
            }
        });
    });
    if base.dtype.is_float() {
        raise_to_neighbours(&mut deviations, base);
    }
    deviations
}

/// Sums the noise up, before its neighbours raise it.
fn summarize_noise<T: DeviationFloat>(
    element_deviations: &ElementDeviations<T>,
    base: &TensorView,
    included_sources: Of,
    replays: u32,
) -> NoiseSummary {
    let parts = measure_parts(element_deviations.len(), |range| {
        NoisePart::measure(element_deviations, base, range, included_sources, replays)
    });
    let whole_part = parts.into_iter().reduce(NoisePart::followed_by).unwrap_or_default();
    NoiseSummary {
        replays,
        relative_l2: whole_part.noise.relative_to(&whole_part.base),
        flips: whole_part.flips.0,
        first_flips: whole_part.flips.1,
        unstable: whole_part.unstable.0,
        first_unstable: whole_part.unstable.1,
    }
}

/// What a [`NoiseSummary`] says of some elements.
#[derive(Default)]
struct NoisePart {
    noise: Squares,
    base: Squares,
    /// How many there are, and the first of them.
    flips: (u64, Vec<u64>),
    unstable: (u64, Vec<u64>),
}

impl NoisePart {
    /// The elements in `range`.
    fn measure<T: DeviationFloat>(
        element_deviations: &ElementDeviations<T>,
        base: &TensorView,
        range: Range<usize>,
        included_sources: Of,
        replays: u32,
    ) -> NoisePart {
        let mut part = NoisePart::default();
        let finds_flips = base.dtype.is_float() && replays >= FLIP_REPLAYS;
        let mut values = [0.0; BLOCK];
        let mut deviations = [T::default(); BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let count = BLOCK.min(range.end - start);
            let values = &mut values[..count];
            let deviations = &mut deviations[..count];
            base.read(start, values);
            widest!(element_deviations.largest(included_sources, start, deviations));
            for ((index, deviation), &value) in (start..).zip(&*deviations).zip(&*values) {
                let floor = ulp(base.dtype, value);
                let deviation = deviation.get();
                if deviation.is_infinite() {
                    count_flagged(&mut part.unstable, index);
                    continue;
                }
                if finds_flips
                    && deviation > FLIP_FACTOR * element_deviations.third(index).max(floor)
                {
                    count_flagged(&mut part.flips, index);
                }
                if value.is_finite() {
                    part.noise.add(deviation.max(floor));
                    part.base.add(value);
                }
            }
        }
        part
    }

    fn followed_by(mut self, next: NoisePart) -> NoisePart {
        self.noise.merge(&next.noise);
        self.base.merge(&next.base);
        for (own_list, next) in [(&mut self.flips, next.flips), (&mut self.unstable, next.unstable)]
        {
            own_list.0 += next.0;
            own_list.1.extend(next.1);
            own_list.1.truncate(LISTED);
        }
        self
    }
}

fn count_flagged((total, first): &mut (u64, Vec<u64>), index: usize) {
    *total += 1;
    if first.len() < LISTED {
        first.push(index as u64);
    }
}

/// The noise of one or both sides of a comparison; a missing side counts as noiseless.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoiseRef<'a> {
    /// The noise of the trusted side.
    pub base: Option<&'a Spread>,
    /// The noise of the other side.
    pub got: Option<&'a Spread>,
}

impl NoiseRef<'_> {
    /// The summed noise of both sides at `index`, at least one unit in the last place of `dtype` at
    /// the larger magnitude.
    ///
    /// Each side errs by itself, so the errors add up.
    pub(super) fn sum_at(&self, dtype: DType, index: usize, base: f64, got: f64) -> f64 {
        let base_noise = self.base.map_or(0.0, |noise| noise.value_at(index));
        let got_noise = self.got.map_or(0.0, |noise| noise.value_at(index));
        NoiseRef::raised(base_noise + got_noise, dtype, base, got)
    }

    /// Writes the summed noise of both sides to `out`, for the elements from `first` on, before it is
    /// [`raised`](NoiseRef::raised).
    pub(super) fn read(&self, first: usize, out: &mut [f64]) {
        out.fill(0.0);
        for side in [self.base, self.got].into_iter().flatten() {
            side.add_to(first, out);
        }
    }

    /// `noise`, at least one unit in the last place of `dtype` at the larger magnitude.
    #[inline(always)]
    pub(super) fn raised(noise: f64, dtype: DType, base: f64, got: f64) -> f64 {
        noise.max(ulp(dtype, base).max(ulp(dtype, got)))
    }

    /// Whether the trusted side has at least a quarter of the other side's, in L2.
    pub fn base_has_its_share(&self) -> bool {
        let base = self.base.map_or(0.0, Spread::norm);
        let got = self.got.map_or(0.0, Spread::norm);
        base > 0.0 && 4.0 * base >= got
    }

    pub(super) fn check_len(&self, tensor: usize) -> Result<(), CompareError> {
        for noise in [self.base, self.got].into_iter().flatten() {
            if noise.len() != tensor {
                return Err(CompareError::Noise { noise: noise.len(), tensor });
            }
        }
        Ok(())
    }
}
