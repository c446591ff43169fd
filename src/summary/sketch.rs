//! Sixteen fixed +-1 projections of a tensor, and the distance that two of them betray.
//!
//! The signs are specified in `docs/checksum.md`. Non-finite elements count as zero here.

use serde::{Deserialize, Serialize};

use super::float;

/// Projections in a sketch, and the order of the Walsh-Hadamard transform behind them.
pub const PROJECTIONS: usize = 16;
/// Elements side by side in a row of a group.
pub(super) const LANES: usize = 8;
/// Elements that are transformed together: sixteen rows of eight.
pub(super) const GROUP: usize = PROJECTIONS * LANES;
/// Groups that share the words their signs come from.
const GROUPS_PER_WORD: u64 = 64 / PROJECTIONS as u64;

/// Sixteen sums of all finite elements, each element taken with a fixed pseudo-random sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sketch(#[serde(with = "float::array")] pub [f64; PROJECTIONS]);

/// The running projections, kept apart by lane.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Projector {
    sums: [[f64; LANES]; PROJECTIONS],
}

impl Projector {
    /// Adds `values`, whole groups from group `first_group` on, `first_group` a multiple of four.
    #[inline(always)]
    pub(super) fn absorb(&mut self, values: &[f64], first_group: u64) {
        let mut words = [0u64; LANES];
        for (group_index, group) in (first_group..).zip(values.as_chunks::<GROUP>().0) {
            Projector::next_words(&mut words, group_index);
            let mut group = *group;
            negate_bent_rows(&mut group);
            transform(&mut group);
            let rows = group.as_chunks::<LANES>().0;
            macro_rules! project {
                ($($k:literal)*) => {
                    $(add_row::<$k>(&mut self.sums[$k], &rows[$k], &words);)*
                };
            }
            // Written out, because a loop over rows is vectorised the wrong way round.
            project!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            for word in &mut words {
                *word >>= PROJECTIONS;
            }
        }
    }

    /// Draws the words for the signs of four groups, before the first of them.
    #[inline(always)]
    pub(super) fn next_words(words: &mut [u64; LANES], group_index: u64) {
        if group_index.is_multiple_of(GROUPS_PER_WORD) {
            for (lane, word) in words.iter_mut().enumerate() {
                *word = splitmix64((group_index / GROUPS_PER_WORD) * LANES as u64 + lane as u64);
            }
        }
    }

    /// The sums, for a loop that knows the processor.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn sums_mut(&mut self) -> &mut [[f64; LANES]; PROJECTIONS] {
        &mut self.sums
    }

    /// The projections, lanes added up in a fixed order.
    pub(super) fn finish(&self) -> Sketch {
        Sketch(self.sums.map(|s| ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))))
    }
}

impl Sketch {
    /// Adds the projections of other elements of the same tensor.
    pub(super) fn merge(&mut self, other: &Sketch) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, value)| *sum += value);
    }
}

/// Negates the rows `j` whose bits give an odd `j0 j1 + j2 j3`.
///
/// This function is bent: whatever is constant or alternates down the rows comes out of the
/// transform with the same magnitude in all sixteen projections, instead of in a single one
/// (Rothaus, "On bent functions", J. Comb. Theory A 20, 1976).
#[inline(always)]
fn negate_bent_rows(group: &mut [f64; GROUP]) {
    for j in [3, 7, 11, 12, 13, 14] {
        for value in &mut group[j * LANES..(j + 1) * LANES] {
            *value = -*value;
        }
    }
}

/// The Walsh-Hadamard transform of order 16 down the rows, in every lane, without scaling.
#[inline(always)]
fn transform(group: &mut [f64; GROUP]) {
    butterflies::<1>(group);
    butterflies::<2>(group);
    butterflies::<4>(group);
    butterflies::<8>(group);
}

/// One stage of the transform: sums and differences of the rows that lie `HALF` apart.
///
/// Rows that belong together lie side by side, so that this is one loop over memory.
#[inline(always)]
fn butterflies<const HALF: usize>(group: &mut [f64; GROUP]) {
    for block in group.chunks_exact_mut(2 * HALF * LANES) {
        let (upper, lower) = block.split_at_mut(HALF * LANES);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            (*upper, *lower) = (*upper + *lower, *upper - *lower);
        }
    }
}

/// Adds row `K` of a transformed group, each lane with the sign in bit `K` of its word.
#[inline(always)]
fn add_row<const K: usize>(sums: &mut [f64; LANES], row: &[f64; LANES], words: &[u64; LANES]) {
    for lane in 0..LANES {
        let sign = (words[lane] << (63 - K)) & (1 << 63);
        sums[lane] += f64::from_bits(row[lane].to_bits() ^ sign);
    }
}

/// Output `n`, from 0, of SplitMix64 with seed 0 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014, figure 17).
#[inline(always)]
fn splitmix64(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
