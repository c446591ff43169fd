//! Checks the numbers of a snapshot against its checksums. Pure.
//!
//! This takes an outcome with the same bits: a checksum alone says nothing about a norm.

use super::number::format_snapshot_number;
use super::{OutputSnapshot, Snapshot};
use replay_engine::trial::{Outcome, OutputRecord};

/// A number in a snapshot at odds with the bits beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub output: String,
    /// The name of the number.
    pub what: String,
    /// The number in the snapshot.
    pub recorded: String,
    /// The number of the bits.
    pub computed: String,
}

/// The error of rounding to a power of ten of 16 to 160 times the noise, in units of the noise.
const ROUNDED: f64 = 80.0;
/// The relative error of sums in another order, of tensors without noise.
const SUMMED: f64 = 1e-9;
/// The relative error of a norm of three digits, the least.
const NORM: f64 = 5e-3;

/// The first number of `accepted` at odds with `outcome`. Both must have the same bits.
pub fn find_contradiction(accepted: &Snapshot, outcome: &Outcome) -> Option<Contradiction> {
    accepted.outputs.iter().zip(&outcome.outputs).find_map(|(old, got)| in_output(old, got))
}

fn in_output(old: &OutputSnapshot, got: &OutputRecord) -> Option<Contradiction> {
    let recorded = &old.summary;
    let computed = &got.summary;
    let noise = old.noise * computed.norm;
    let element = old.noise * computed.max_abs;
    let mut pairs = vec![
        ("norm".to_owned(), Some(recorded.norm), Some(computed.norm), noise),
        ("min".to_owned(), recorded.min, computed.min, element),
        ("max".to_owned(), recorded.max, computed.max, element),
        ("mean".to_owned(), recorded.mean, computed.mean, noise),
    ];
    let counts = [
        ("zeros", recorded.zeros, computed.zeros),
        ("NaN", recorded.nan, computed.nan),
        ("Inf", recorded.inf, computed.inf),
        ("unwritten", recorded.unwritten, computed.unwritten),
    ];
    pairs.extend(
        counts.map(|(quantity, a, b)| (quantity.into(), Some(a as f64), Some(b as f64), 0.0)),
    );
    for (slices, got_slices) in old.slices.iter().zip(&got.slices) {
        let norms = slices.norms.iter().zip(&got_slices.norms);
        let quantity = format!("norm by {}", slices.dim);
        pairs.extend(norms.map(|(a, b)| (quantity.clone(), Some(*a), Some(*b), noise)));
    }
    let projections = recorded.sketch.0.iter().zip(&computed.sketch.0);
    pairs.extend(projections.map(|(a, b)| ("sketch".to_owned(), Some(*a), Some(*b), noise)));
    let (what, recorded, computed, _) = pairs.into_iter().find(|(quantity, a, b, noise)| {
        let tolerance = if quantity == "norm" { NORM } else { SUMMED };
        !are_within_noise(*a, *b, ROUNDED * noise, tolerance)
    })?;
    let recorded = format_audited_number(recorded);
    let computed = format_audited_number(computed);
    Some(Contradiction { output: old.name.clone(), what, recorded, computed })
}

fn format_audited_number(x: Option<f64>) -> String {
    x.map_or("none".to_owned(), |x| format_snapshot_number(x, 9))
}

fn are_within_noise(a: Option<f64>, b: Option<f64>, noise: f64, tolerance: f64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a - b).abs() <= noise.max(tolerance * b.abs()),
        (a, b) => a.is_none() && b.is_none(),
    }
}
