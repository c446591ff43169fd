//! Sixteen fixed +-1 projections of a tensor: the bucket and the sign of each element.
//!
//! The Hadamard transform of a count sketch, specified in `docs/checksum.md`. Non-finite elements
//! count as zero here.

use serde::{Deserialize, Serialize};

use super::number::Numbers;

/// Projections in a sketch, and buckets behind them.
pub const PROJECTIONS: usize = 16;
/// Units of 16 bytes in one run: four for each bucket.
pub(super) const RUN_UNITS: usize = 64;
/// Bytes of a run.
pub(super) const RUN_BYTES: usize = RUN_UNITS * 16;
/// Runs with one draw.
const RUNS_OF_DRAW: u64 = 16;
/// The step from the sign key of one unit to the next one's, and the mixing factor of a key.
const SIGN_STEP: u32 = 0x9E37_79B9;
const SIGN_MIX: u32 = 0x846C_A68B;

/// Sixteen sums of all finite elements, each element taken with a fixed pseudo-random sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sketch(#[serde(with = "Numbers::<PROJECTIONS>")] pub [f64; PROJECTIONS]);

impl Sketch {
    /// Adds the projections of other elements of the same tensor.
    pub(super) fn merge(&mut self, other: &Sketch) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, value)| *sum += value);
    }

    /// The projections: the Hadamard transform of the buckets. All are infinite if a bucket overflowed.
    pub(super) fn of_buckets(mut buckets: [f64; PROJECTIONS]) -> Sketch {
        if buckets.iter().any(|bucket| !bucket.is_finite()) {
            return Sketch([f64::INFINITY; PROJECTIONS]);
        }
        let mut half = 1;
        while half < PROJECTIONS {
            for index in (0..PROJECTIONS).filter(|index| index & half == 0) {
                let upper = buckets[index];
                let lower = buckets[index + half];
                (buckets[index], buckets[index + half]) = (upper + lower, upper - lower);
            }
            half *= 2;
        }
        Sketch(buckets)
    }
}

/// Where the elements of one run go.
#[derive(Clone, Copy, Debug)]
pub(super) struct SketchDraw {
    /// The bytes of unit `u` from `4 * w` on go to bucket `u % 16 ^ turn ^ 4 * w`.
    pub(super) turn: usize,
    /// The key of the first unit's signs.
    pub(super) key: u32,
}

impl SketchDraw {
    /// The draw of run `run`, counted from the start of the tensor.
    #[inline(always)]
    pub(super) fn from_run(run: u64) -> SketchDraw {
        let word = draw_splitmix64(run / RUNS_OF_DRAW);
        let place = run % RUNS_OF_DRAW;
        let first = (place * RUN_UNITS as u64) as u32;
        SketchDraw {
            turn: ((place * 5 % 16) ^ (word >> 60)) as usize,
            key: (word as u32).wrapping_add(first.wrapping_mul(SIGN_STEP)),
        }
    }

    /// A word for unit `unit` of the run; its highest bits are the signs of the unit's elements.
    #[inline(always)]
    pub(super) fn signs(&self, unit: u32) -> u32 {
        let key = self.key.wrapping_add(unit.wrapping_mul(SIGN_STEP));
        (key ^ (key >> 15)).wrapping_mul(SIGN_MIX)
    }
}

/// Output `n`, from 0, of SplitMix64 with seed 0 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014, figure 17).
#[inline(always)]
pub fn draw_splitmix64(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
