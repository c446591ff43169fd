//! The floats that noise is stored in, and the medians of their rows.

use rayon::prelude::*;

use super::constants::{LEAST_ROW, ROW_SHARE};
use crate::scratch::Number;
use crate::tensor::vectors::widest;

/// A float that deviations are kept in.
pub(super) trait Cell: Number + Default + PartialOrd {
    fn of(deviation: f64) -> Self;
    fn get(self) -> f64;
    /// A number that is ordered as the cell is, of cells that are 0 or more, or infinite.
    fn rank(self) -> u64;
    /// The bytes of that number.
    const BYTES: u32 = size_of::<Self>() as u32;
}

impl Cell for f32 {
    /// The difference of two finite numbers is kept finite.
    #[inline(always)]
    fn of(deviation: f64) -> f32 {
        if deviation.is_finite() {
            deviation.min(f64::from(f32::MAX)) as f32
        } else {
            f32::INFINITY
        }
    }

    #[inline(always)]
    fn get(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn rank(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Cell for f64 {
    #[inline(always)]
    fn of(deviation: f64) -> f64 {
        deviation
    }

    #[inline(always)]
    fn get(self) -> f64 {
        self
    }

    #[inline(always)]
    fn rank(self) -> u64 {
        self.to_bits()
    }
}

/// Longer rows are not copied to find their median.
const SORTED: usize = 1 << 16;

/// Raises the noise of each element to a share of the median of its row. A sum that cancels ends on
/// a coarse grid, where a few replays may meet the base by chance.
pub(super) fn raise_to_neighbours<T: Cell>(noise: &mut [T], row: usize) {
    raise(noise, row, SORTED);
}

/// Copies and sorts rows of up to `sorted` elements.
fn raise<T: Cell>(noise: &mut [T], row: usize, sorted: usize) {
    if row < LEAST_ROW {
        return;
    }
    noise.par_chunks_mut(row).for_each(|row| {
        let least = ROW_SHARE * median(row, sorted).get();
        if least.is_finite() {
            widest!(row.iter_mut().for_each(|noise| *noise = T::of(noise.get().max(least))));
        }
    });
}

/// The upper median of `row`, which is not empty.
pub(super) fn median_of<T: Cell>(row: &[T]) -> T {
    median(row, SORTED)
}

fn median<T: Cell>(row: &[T], sorted: usize) -> T {
    if row.len() <= sorted { sorted_median(row) } else { counted_median(row) }
}

/// The upper median of `row`, by sorting a copy.
pub(super) fn sorted_median<T: Cell>(row: &[T]) -> T {
    let mut sorted = row.to_vec();
    let middle = sorted.len() / 2;
    let (_, &mut median, _) = sorted.select_nth_unstable_by_key(middle, |noise| noise.rank());
    median
}

/// The upper median of `row`, by counting: digit after digit of its rank, the highest first.
fn counted_median<T: Cell>(row: &[T]) -> T {
    const DIGIT: u32 = u16::BITS;
    let mut below = row.len() / 2;
    let (mut known, mut shift) = (0, 8 * T::BYTES);
    while shift > 0 {
        shift -= DIGIT;
        let mut counts = vec![0usize; 1 << DIGIT];
        let like = |noise: &&T| noise.rank() >> shift >> DIGIT == known;
        for noise in row.iter().filter(like) {
            counts[usize::from((noise.rank() >> shift) as u16)] += 1;
        }
        let mut digit = 0;
        while counts[digit] <= below {
            below -= counts[digit];
            digit += 1;
        }
        known = known << DIGIT | digit as u64;
    }
    *row.iter().find(|noise| noise.rank() == known).expect("it was counted")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raised<T: Cell>(noise: &[T], row: usize, sorted: usize) -> Vec<u64> {
        let mut noise = noise.to_vec();
        raise(&mut noise, row, sorted);
        noise.iter().map(|noise| noise.rank()).collect()
    }

    /// Deviations of all magnitudes, many of them alike, some infinite.
    fn deviations() -> impl Strategy<Value = Vec<f64>> {
        let one = prop_oneof![
            Just(0.0),
            Just(f64::INFINITY),
            (0u8..4).prop_map(f64::from),
            any::<f64>().prop_map(f64::abs).prop_filter("a number", |x| !x.is_nan()),
        ];
        prop::collection::vec(one, 1..600)
    }

    proptest! {
        #[test]
        fn a_median_is_the_same_however_it_is_found(all in deviations(), row in 1usize..600) {
            let single: Vec<f32> = all.iter().map(|&noise| f32::of(noise)).collect();
            // By counting in rows of any length, in those longer than 13, in none.
            for sorted in [0, 13] {
                let whole = usize::MAX;
                prop_assert_eq!(raised(&all, row, sorted), raised(&all, row, whole));
                prop_assert_eq!(raised(&single, row, sorted), raised(&single, row, whole));
            }
            let mut ordered = all.clone();
            ordered.sort_by(f64::total_cmp);
            prop_assert_eq!(counted_median(&all), ordered[all.len() / 2]);
        }
    }
}
