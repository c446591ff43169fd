//! How far two tensors lie apart, from their summaries alone.

use serde::{Deserialize, Serialize};

use super::sketch::PROJECTIONS;
use super::{Number, Summary};

/// The 0.5 % and 99.5 % quantiles of chi-square with 16 degrees of freedom.
const CHI_SQUARE_16: [f64; 2] = [5.142, 34.267];

/// Relative distances below this are rounding of the projections themselves.
pub(crate) const SKETCH_ROUNDING: f64 = 1e-12;

/// An estimated relative L2 distance, with a 99 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Estimate {
    /// The estimate; its standard error is 18 % of it.
    #[serde(with = "Number")]
    pub relative: f64,
    /// The lower end of the interval.
    #[serde(with = "Number")]
    pub low: f64,
    /// The upper end of the interval.
    #[serde(with = "Number")]
    pub high: f64,
}

/// Estimates `||a - b|| / ||b||` from the sketches of two tensors of one dtype and shape.
///
/// Each projection of `a - b` has mean 0 and variance `||a - b||^2`, so the root of the mean of the
/// sixteen squares estimates the distance (Achlioptas, "Database-friendly random projections",
/// J. Comput. Syst. Sci. 66, 2003). The interval is chi-square's with 16 degrees of freedom.
/// Equal checksums give exactly 0. It is infinite where numbers of elements, NaNs or infinities
/// differ, or where `b` is zero and `a` is not.
pub fn estimate_distance(a: &Summary, b: &Summary) -> Estimate {
    if a.checksum == b.checksum {
        return Estimate { relative: 0.0, low: 0.0, high: 0.0 };
    }
    let infinite = Estimate { relative: f64::INFINITY, low: f64::INFINITY, high: f64::INFINITY };
    if (a.count, a.nan, a.inf) != (b.count, b.nan, b.inf) {
        return infinite;
    }
    let differences = a.sketch.0.iter().zip(b.sketch.0).map(|(a, b)| a - b);
    if differences.clone().any(|d| !d.is_finite()) {
        // The projections themselves overflowed: only the difference itself is known.
        return Estimate { relative: f64::INFINITY, low: 0.0, high: f64::INFINITY };
    }
    let scale = differences.clone().fold(0f64, |scale, d| scale.max(d.abs()));
    if scale == 0.0 {
        return Estimate { relative: 0.0, low: 0.0, high: SKETCH_ROUNDING };
    }
    if b.norm == 0.0 {
        return infinite;
    }
    let squares: f64 = differences.map(|d| (d / scale) * (d / scale)).sum();
    let relative = (squares / PROJECTIONS as f64).sqrt() * (scale / b.norm);
    if !relative.is_finite() {
        return Estimate { relative: f64::INFINITY, low: 0.0, high: f64::INFINITY };
    }
    let end = |quantile: f64| relative * (PROJECTIONS as f64 / quantile).sqrt();
    Estimate {
        relative,
        low: end(CHI_SQUARE_16[1]),
        high: end(CHI_SQUARE_16[0]).max(SKETCH_ROUNDING),
    }
}
