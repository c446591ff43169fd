//! The floats of stored noise, and how far their neighbours raise them.

use std::ops::Range;

use rayon::prelude::*;

use super::constants::{LEAST_ROW, ROW_SHARE};
use replay_base::scratch::ScratchNumber;
use replay_base::tensor::TensorView;

/// A float for deviations.
pub(super) trait DeviationFloat: ScratchNumber + Default + PartialOrd {
    fn from_deviation(deviation: f64) -> Self;
    fn get(self) -> f64;
    /// A number in the order of the cells: these are 0 or more, or infinite.
    fn rank(self) -> u64;
    /// The bytes of that number.
    const BYTES: u32 = size_of::<Self>() as u32;
}

impl DeviationFloat for f32 {
    /// The difference of two finite numbers is kept finite.
    #[inline(always)]
    fn from_deviation(deviation: f64) -> f32 {
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

impl DeviationFloat for f64 {
    #[inline(always)]
    fn from_deviation(deviation: f64) -> f64 {
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

/// Elements of one read.
const BLOCK: usize = 1 << 10;

/// Blocks of a row for one task.
const AT_ONCE: usize = 1 << 6;

/// Raises the noise of each element of `tensor` to a share of the median among elements of its row and magnitude. A
/// cancelling sum ends on a coarse grid, where a few replays may meet the base by chance, and so do the small elements
/// beside it. Where these have a fine grid of their own, they are small by themselves.
pub(super) fn raise_to_neighbours<T: DeviationFloat>(noise: &mut [T], tensor: &TensorView) {
    let row = tensor.shape.last().copied().unwrap_or(1);
    if row < LEAST_ROW {
        return;
    }
    noise.par_chunks_mut(row).enumerate().for_each(|(row_index, noise)| {
        let groups = Groups::from_elements(tensor, row_index * row..(row_index + 1) * row);
        let group_medians = groups.medians(tensor, row_index * row, noise);
        let group_floors: Vec<f64> =
            group_medians.into_iter().map(|median| ROW_SHARE * median).collect();
        noise.par_chunks_mut(BLOCK).with_min_len(AT_ONCE).enumerate().for_each(|(block, noise)| {
            let mut values = [0.0; BLOCK];
            let values = &mut values[..noise.len()];
            tensor.read(row_index * row + block * BLOCK, values);
            for (noise, &value) in noise.iter_mut().zip(&*values) {
                let floor = groups.of_value(value).map_or(0.0, |group| group_floors[group]);
                if noise.get() < floor && floor.is_finite() {
                    *noise = T::from_deviation(floor);
                }
            }
        });
    });
}

/// How often numbers occur, by the number.
#[derive(Clone, Default)]
struct ExponentCounts(Vec<(u16, usize)>);

impl ExponentCounts {
    fn add(&mut self, number: u16, count: usize) {
        match self.0.binary_search_by_key(&number, |&(known_number, _)| known_number) {
            Ok(position) => self.0[position].1 += count,
            Err(position) => self.0.insert(position, (number, count)),
        }
    }

    fn followed_by(mut self, other: ExponentCounts) -> ExponentCounts {
        other.0.into_iter().for_each(|(number, count)| self.add(number, count));
        self
    }

    /// The upper median; none of nothing.
    fn median(&self) -> Option<u16> {
        let mut elements_below = self.0.iter().map(|(_, count)| count).sum::<usize>() / 2;
        for &(number, count) in &self.0 {
            if elements_below < count {
                return Some(number);
            }
            elements_below -= count;
        }
        None
    }
}

/// The exponent of `value` as float64 stores it, 0 for zero; none unless it is finite.
fn biased_exponent(value: f64) -> Option<u16> {
    value.is_finite().then_some((value.to_bits() >> 52) as u16 & 0x7FF)
}

/// Bits of the mantissa in the median of deviations.
const KEPT: u32 = 3;

/// The elements of one row by their magnitude: groups of neighbouring powers of two, each with enough elements for a
/// median. Zeros are the smallest.
struct Groups {
    /// The greatest exponent of each.
    ends: Vec<u16>,
}

impl Groups {
    /// Those of the elements in `range`.
    fn from_elements(tensor: &TensorView, range: Range<usize>) -> Groups {
        let blocks = (0..range.len().div_ceil(BLOCK)).into_par_iter().with_min_len(AT_ONCE);
        let counts = blocks.fold(ExponentCounts::default, |mut counts, block| {
            let first = range.start + block * BLOCK;
            let mut values = [0.0; BLOCK];
            let values = &mut values[..BLOCK.min(range.end - first)];
            tensor.read(first, values);
            values
                .iter()
                .filter_map(|&value| biased_exponent(value))
                .for_each(|number| counts.add(number, 1));
            counts
        });
        let counts = counts.reduce(ExponentCounts::default, ExponentCounts::followed_by);
        let mut ends = Vec::new();
        let mut elements = 0;
        for &(exponent, count) in &counts.0 {
            elements += count;
            if elements >= LEAST_ROW {
                ends.push(exponent);
                elements = 0;
            }
        }
        // The largest may be too few: they belong to those below them.
        let greatest = counts.0.last().map_or(0, |&(exponent, _)| exponent);
        match ends.last_mut() {
            Some(last) => *last = greatest,
            None => ends.push(greatest),
        }
        Groups { ends }
    }

    /// The group of an element with this value; none if it is not finite.
    fn of_value(&self, value: f64) -> Option<usize> {
        let own_exponent = biased_exponent(value)?;
        Some(self.ends.partition_point(|&end| end < own_exponent))
    }

    /// The median of `noise` in each group of a row from element `first` on, rounded down to a few bits.
    fn medians<T: DeviationFloat>(
        &self,
        tensor: &TensorView,
        first: usize,
        noise: &[T],
    ) -> Vec<f64> {
        let blocks = noise.par_chunks(BLOCK).enumerate().with_min_len(AT_ONCE);
        let counts = blocks.fold(
            || self.no_counts(),
            |mut counts, (block, noise)| {
                let mut values = [0.0; BLOCK];
                let values = &mut values[..noise.len()];
                tensor.read(first + block * BLOCK, values);
                for (noise, &value) in noise.iter().zip(&*values) {
                    if let Some(group) = self.of_value(value) {
                        counts[group].add((noise.get().to_bits() >> (52 - KEPT)) as u16, 1);
                    }
                }
                counts
            },
        );
        let counts = counts.reduce(
            || self.no_counts(),
            |left_groups, right_groups| {
                left_groups
                    .into_iter()
                    .zip(right_groups)
                    .map(|(left_counts, right_counts)| left_counts.followed_by(right_counts))
                    .collect()
            },
        );
        let medians = counts.iter().map(ExponentCounts::median);
        medians
            .map(|median| f64::from_bits(u64::from(median.unwrap_or(0)) << (52 - KEPT)))
            .collect()
    }

    fn no_counts(&self) -> Vec<ExponentCounts> {
        vec![ExponentCounts::default(); self.ends.len()]
    }
}

/// The upper median of `row`; it has elements.
pub(super) fn median_of<T: DeviationFloat>(row: &[T]) -> T {
    row_median(row, SORTED)
}

fn row_median<T: DeviationFloat>(row: &[T], sorted: usize) -> T {
    if row.len() <= sorted { sorted_median(row) } else { counted_median(row) }
}

/// The upper median of `row`, by sorting a copy.
pub(super) fn sorted_median<T: DeviationFloat>(row: &[T]) -> T {
    let mut sorted = row.to_vec();
    let middle = sorted.len() / 2;
    let (_, &mut median, _) = sorted.select_nth_unstable_by_key(middle, |noise| noise.rank());
    median
}

/// The upper median of `row`, by counting: digit after digit of its rank, the highest first.
fn counted_median<T: DeviationFloat>(row: &[T]) -> T {
    const DIGIT: u32 = u16::BITS;
    let mut elements_below = row.len() / 2;
    let mut rank_prefix = 0;
    let mut shift = 8 * T::BYTES;
    while shift > 0 {
        shift -= DIGIT;
        let mut counts = vec![0usize; 1 << DIGIT];
        for noise in row {
            if noise.rank() >> shift >> DIGIT == rank_prefix {
                counts[usize::from((noise.rank() >> shift) as u16)] += 1;
            }
        }
        let mut digit = 0;
        while counts[digit] <= elements_below {
            elements_below -= counts[digit];
            digit += 1;
        }
        rank_prefix = rank_prefix << DIGIT | digit as u64;
    }
    *row.iter().find(|noise| noise.rank() == rank_prefix).expect("it was counted")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use replay_base::tensor::DType;

    /// What becomes of `noise` beside `values`, in rows of `row`.
    fn raised(values: &[f32], noise: &[f32], row: usize) -> Vec<f32> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = [values.len() / row, row];
        let mut noise = noise.to_vec();
        raise_to_neighbours(
            &mut noise,
            &TensorView { dtype: DType::F32, shape: &shape, bytes: &bytes },
        );
        noise
    }

    #[test]
    fn a_cancelled_element_has_the_noise_of_its_neighbours() {
        let mut values = [1.0; 32];
        let mut noise = [1e-6; 32];
        (values[5], noise[5]) = (1e-9, 1e-16);
        assert!((raised(&values, &noise, 32)[5] / 0.5e-6 - 1.0).abs() < 0.13);
        assert_eq!(raised(&values, &noise, 4), noise, "four have no median");
    }

    #[test]
    fn elements_that_are_small_by_themselves_keep_their_own_noise() {
        for small in [1e-13, 0.0] {
            let values: Vec<f32> = (0..48).map(|n| if n % 3 == 0 { small } else { 1.0 }).collect();
            let noise: Vec<f32> = values.iter().map(|value| value * 1e-7).collect();
            assert_eq!(raised(&values, &noise, 48), noise);
        }
    }

    #[test]
    fn what_is_not_finite_has_no_neighbours() {
        let values = [[f32::NAN; 8], [f32::INFINITY; 8], [2.0; 8]].concat();
        let noise = [[0.0; 8], [0.0; 8], [f32::INFINITY; 8]].concat();
        assert_eq!(raised(&values, &noise, 24), noise);
        assert_eq!(raised(&[], &[], 8), [0.0; 0]);
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
        fn a_median_is_the_same_however_it_is_found(all in deviations()) {
            let mut ordered = all.clone();
            ordered.sort_by(f64::total_cmp);
            prop_assert_eq!(counted_median(&all), ordered[all.len() / 2]);
        }
    }
}
