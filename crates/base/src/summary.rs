//! Checksum, statistics and sketch of one tensor, in one parallel pass.
//!
//! The result depends on dtype, shape and elements alone: not on the number of threads, the
//! processor or where parts begin. Pure: no files, devices or printing.

mod checksum;
pub mod device;
mod estimate;
mod moments;
mod number;
mod pass;
mod poison;
mod sketch;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use checksum::{Checksum, NotAChecksum};
pub use estimate::Estimate;
pub use estimate::estimate_distance;
pub use poison::{POISON_A, POISON_B, Poison, PoisonComparison, PoisonMismatch, compare_poisons};
pub use sketch::Sketch;
pub use sketch::{PROJECTIONS, draw_splitmix64};

pub use number::{Number, OptionalNumber};

use crate::tensor::{DType, TensorView};
use pass::SummaryPart;

/// Checksum, statistics and sketch of a tensor. Statistics are in float64, over finite elements only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// 128 bits over dtype, shape and elements, as `docs/checksum.md` specifies.
    pub checksum: Checksum,
    /// The number of elements.
    pub count: u64,
    /// The L2 norm.
    #[serde(with = "Number")]
    pub norm: f64,
    /// The least element, or none where no element is finite.
    #[serde(with = "OptionalNumber", default)]
    pub min: Option<f64>,
    /// The greatest element, or none where no element is finite.
    #[serde(with = "OptionalNumber", default)]
    pub max: Option<f64>,
    /// The mean, or none where no element is finite.
    #[serde(with = "OptionalNumber", default)]
    pub mean: Option<f64>,
    /// The greatest magnitude, 0 where no element is finite.
    #[serde(with = "Number")]
    pub max_abs: f64,
    /// Elements that are zero, of either sign.
    pub zeros: u64,
    /// Elements that are NaN.
    pub nan: u64,
    /// Elements that are infinite, of either sign.
    pub inf: u64,
    /// Elements that still hold the poison; 0 where none was given.
    pub unwritten: u64,
    /// Sixteen projections, from which [`Estimate`] tells how far two tensors lie apart.
    pub sketch: Sketch,
}

/// Sums of squares below this may have lost elements to underflow.
const LEAST_SAFE_SQUARE: f64 = 1e-280;

/// Summarises a tensor; `poison` is the initial content of its buffer.
pub fn summarize_tensor(view: &TensorView, poison: Option<&Poison>) -> Summary {
    let parts: Vec<SummaryPart> = (view.bytes.par_chunks(pass::PART_BYTES).enumerate())
        .map(|(index, bytes)| pass::summarise_part(view.dtype, bytes, index as u64, poison))
        .collect();
    let total = parts.into_iter().reduce(join_summary_parts);
    let total = total.unwrap_or_else(|| pass::summarise_part(view.dtype, &[], 0, None));
    let max_abs = if total.finite == 0 { 0.0 } else { total.max.max(-total.min) };
    let moments = norm_and_mean(view, &total, max_abs);
    close_summary(&total, view.dtype, view.shape, max_abs, moments)
}

/// The summary of a tensor whose parts add up to `total`, with its norm and mean.
fn close_summary(
    total: &SummaryPart,
    dtype: DType,
    shape: &[usize],
    max_abs: f64,
    (norm, mean): (f64, f64),
) -> Summary {
    // Adding 0 turns -0 into 0, so that the order of two zeros cannot be seen.
    let if_finite = |value: f64| (total.finite > 0).then_some(value + 0.0);
    Summary {
        checksum: total.sums.finish(dtype, shape),
        count: shape.iter().product::<usize>() as u64,
        norm,
        min: if_finite(total.min),
        max: if_finite(total.max),
        mean: if_finite(mean),
        max_abs: max_abs + 0.0,
        zeros: total.zeros,
        nan: total.nan,
        inf: total.inf,
        unwritten: total.unwritten,
        sketch: total.sketch,
    }
}

/// Joins two neighbouring parts, always from the first to the last.
fn join_summary_parts(mut left: SummaryPart, right: SummaryPart) -> SummaryPart {
    left.sums.merge(&right.sums);
    left.sketch.merge(&right.sketch);
    left.finite += right.finite;
    left.sum += right.sum;
    left.sum_of_squares += right.sum_of_squares;
    left.min = left.min.min(right.min);
    left.max = left.max.max(right.max);
    left.zeros += right.zeros;
    left.nan += right.nan;
    left.inf += right.inf;
    left.unwritten += right.unwritten;
    left
}

/// Whether the plain sums neither over- nor underflowed.
fn is_safe(total: &SummaryPart, max_abs: f64) -> bool {
    total.sum.is_finite()
        && total.sum_of_squares.is_finite()
        && (total.sum_of_squares >= LEAST_SAFE_SQUARE || max_abs == 0.0)
}

/// The L2 norm and the mean, from a second, scaled pass where the plain sums over- or underflow.
fn norm_and_mean(view: &TensorView, total: &SummaryPart, max_abs: f64) -> (f64, f64) {
    let count = total.finite as f64;
    if is_safe(total, max_abs) {
        return (total.sum_of_squares.sqrt(), total.sum / count);
    }
    // A power of two near max_abs, kept where its inverse is normal too.
    let scale = 2f64.powi((max_abs.log2().floor() as i32).clamp(-1000, 1000));
    let (sum, sum_of_squares) = pass::scaled_moments(view, 1.0 / scale);
    (sum_of_squares.sqrt() * scale, sum / count * scale)
}

/// The L2 norm of every slice along dimension `axis`: one number for each head, or each
/// microbatch. Finite elements only; empty where `axis` is not a dimension.
pub fn slice_norms(view: &TensorView, axis: usize) -> Vec<f64> {
    let Some(&size) = view.shape.get(axis) else { return Vec::new() };
    let inner: usize = view.shape[axis + 1..].iter().product();
    let mut sums = vec![0f64; size];
    let mut scale = vec![0f64; size];
    if view.is_empty() {
        return sums;
    }
    for index in 0..view.len() {
        let value = view.get_f64(index).abs();
        let slice = index / inner % size;
        if !value.is_finite() || value == 0.0 {
            continue;
        }
        // LAPACK's dnrm2: sums of squares relative to the greatest magnitude so far.
        if value > scale[slice] {
            let ratio = scale[slice] / value;
            sums[slice] = 1.0 + sums[slice] * ratio * ratio;
            scale[slice] = value;
        } else {
            let ratio = value / scale[slice];
            sums[slice] += ratio * ratio;
        }
    }
    sums.iter().zip(scale).map(|(sum, scale)| sum.sqrt() * scale).collect()
}
