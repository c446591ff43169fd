//! How far rounding and scheduling alone move each element of an output.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::constants::{FLIP_FACTOR, FLIP_REPLAYS, LEAST_ROW, ROW_SHARE};
use super::measure::{Squares, distance, ulp};
use super::{CompareError, check_shapes};
use crate::summary::float;
use crate::tensor::{DType, TensorView};

/// Indices that are listed of flips and of unstable elements.
const LISTED: usize = 8;

/// Collects deviations from a base output, one replay after the other.
///
/// It holds 24 bytes an element. Elements do not depend on each other, so for tensors too large for
/// that every block of elements can have an accumulator of its own, compared block by block.
#[derive(Clone, Debug)]
pub struct NoiseAccumulator {
    /// Per element, the three largest deviations, the largest first.
    deviations: Vec<[f64; 3]>,
    replays: u32,
}

/// The noise of one output at one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Per element the largest deviation of any replay, at least one unit in the last place of
    /// the output's dtype (0 for integers) and a share of the median of its row; infinite where a
    /// replay is non-finite and another not.
    pub per_element: Vec<f64>,
    /// What is told of it.
    pub summary: NoiseSummary,
}

/// The noise of an output in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseSummary {
    /// Replays that were compared with the base.
    pub replays: u32,
    /// The L2 norm of the noise over the L2 norm of the output, over finite elements.
    #[serde(with = "float")]
    pub relative_l2: f64,
    /// Elements of which at most two replays jump, far beyond all the others.
    pub flips: u64,
    /// The first of them by row-major index.
    pub first_flips: Vec<u64>,
    /// Elements that are finite in one replay and not in another.
    pub unstable: u64,
    /// The first of them by row-major index.
    pub first_unstable: Vec<u64>,
}

impl Noise {
    /// The noise of a machine whose operations err up to `factor` times as far as those of the
    /// machine that was measured: to first order errors add up linearly.
    pub fn scaled(mut self, factor: f64) -> Noise {
        self.per_element.iter_mut().for_each(|noise| *noise *= factor);
        self.summary.relative_l2 *= factor;
        self
    }
}

impl NoiseAccumulator {
    /// An accumulator for the replays of `base`.
    pub fn new(base: &TensorView) -> NoiseAccumulator {
        NoiseAccumulator { deviations: vec![[0.0; 3]; base.len()], replays: 0 }
    }

    /// Takes the output of another replay of the same inputs.
    ///
    /// # Errors
    /// [`CompareError::Shape`] if dtype or shape differ from the base's.
    pub fn add(&mut self, base: &TensorView, replay: &TensorView) -> Result<(), CompareError> {
        check_shapes(base, replay, true)?;
        self.check_len(base)?;
        self.deviations.par_iter_mut().with_min_len(4096).enumerate().for_each(|(i, top)| {
            let new = distance(base.get_f64(i), replay.get_f64(i));
            *top = match new {
                _ if new > top[0] => [new, top[0], top[1]],
                _ if new > top[1] => [top[0], new, top[1]],
                _ if new > top[2] => [top[0], top[1], new],
                _ => *top,
            };
        });
        self.replays += 1;
        Ok(())
    }

    /// The noise that the replays showed.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if `base` has another number of elements than before.
    pub fn finish(self, base: &TensorView) -> Result<Noise, CompareError> {
        self.check_len(base)?;
        let mut summary = NoiseSummary { replays: self.replays, ..NoiseSummary::default() };
        let (mut noise_squares, mut base_squares) = (Squares::default(), Squares::default());
        let mut per_element = Vec::with_capacity(self.deviations.len());
        for (i, [first, _, third]) in self.deviations.into_iter().enumerate() {
            let value = base.get_f64(i);
            let floor = ulp(base.dtype, value);
            let noise = first.max(floor);
            if first.is_infinite() {
                count(&mut summary.unstable, &mut summary.first_unstable, i);
            } else {
                let jumps = first > FLIP_FACTOR * third.max(floor);
                if base.dtype.is_float() && self.replays >= FLIP_REPLAYS && jumps {
                    count(&mut summary.flips, &mut summary.first_flips, i);
                }
                if value.is_finite() {
                    noise_squares.add(noise);
                    base_squares.add(value);
                }
            }
            per_element.push(noise);
        }
        summary.relative_l2 = noise_squares.relative_to(&base_squares);
        if base.dtype.is_float() {
            raise_to_neighbours(&mut per_element, base.shape.last().copied().unwrap_or(1));
        }
        Ok(Noise { per_element, summary })
    }

    fn check_len(&self, base: &TensorView) -> Result<(), CompareError> {
        let (noise, tensor) = (self.deviations.len(), base.len());
        if noise == tensor { Ok(()) } else { Err(CompareError::Noise { noise, tensor }) }
    }
}

/// Raises the noise of each element to a share of the median of its row: a sum that cancels ends
/// on a coarse grid, where a few replays may meet the base by chance.
fn raise_to_neighbours(noise: &mut [f64], row: usize) {
    if row < LEAST_ROW {
        return;
    }
    noise.par_chunks_mut(row).for_each(|row| {
        let mut sorted = row.to_vec();
        let middle = sorted.len() / 2;
        let (_, &mut median, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
        if median.is_finite() {
            row.iter_mut().for_each(|noise| *noise = noise.max(ROW_SHARE * median));
        }
    });
}

fn count(total: &mut u64, first: &mut Vec<u64>, index: usize) {
    *total += 1;
    if first.len() < LISTED {
        first.push(index as u64);
    }
}

/// The noise of one or both sides of a comparison; a side without counts as noiseless.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoiseRef<'a> {
    /// The noise of the side that is trusted.
    pub base: Option<&'a [f64]>,
    /// The noise of the other side.
    pub got: Option<&'a [f64]>,
}

impl NoiseRef<'_> {
    /// The noise of both sides together at `index`, at least one unit in the last place of
    /// `dtype` at the larger magnitude.
    ///
    /// Each side is the truth and an error of its own, so the errors add up.
    pub(super) fn at(&self, dtype: DType, index: usize, base: f64, got: f64) -> f64 {
        let side = |noise: Option<&[f64]>| noise.map_or(0.0, |noise| noise[index]);
        let floor = ulp(dtype, base).max(ulp(dtype, got));
        (side(self.base) + side(self.got)).max(floor)
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
