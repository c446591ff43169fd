//! How far replays moved each element of an output: the largest deviations by rounding and by order, and those
//! that follow them.

use rayon::prelude::*;

use super::bitmap::Bitmap;
use super::cells::DeviationFloat;
use super::measure::value_distance;
use super::noise::NoiseSource;
use replay_base::scratch::{Scratch, ScratchError, ScratchNumbers};
use replay_base::tensor::TensorView;
use replay_base::tensor::vectors::widest;

/// Elements of one comparison.
pub(super) const BLOCK: usize = 1 << 10;

/// The largest deviations of each element. Each kind lies in memory of its own, and takes room once it is written.
#[derive(Debug)]
pub(super) struct ElementDeviations<T: DeviationFloat> {
    /// By another direction of rounding.
    rounding: ScratchNumbers<T>,
    /// In another order.
    order: ScratchNumbers<T>,
    /// The second and third largest of all.
    second: ScratchNumbers<T>,
    third: ScratchNumbers<T>,
    /// Where a device told the deviations by rounding, those that are far beyond the ones that follow: these are
    /// taken for equal everywhere else, and lie nowhere.
    told: Option<Bitmap>,
    /// Whether a replay in another rounding moved any element, and one in another order.
    moved: [bool; 2],
}

/// Which replays count.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Those in another direction of rounding.
    Rounding,
    All,
}

impl<T: DeviationFloat> ElementDeviations<T> {
    /// Those of `len` elements at rest.
    pub(super) fn new(len: usize, scratch: &Scratch) -> Result<ElementDeviations<T>, ScratchError> {
        let rounding = scratch.zeros(len)?;
        let order = scratch.zeros(len)?;
        let second = scratch.zeros(len)?;
        let third = scratch.zeros(len)?;
        Ok(ElementDeviations { rounding, order, second, third, told: None, moved: [false; 2] })
    }

    /// Those by rounding from a device: `deviations`, negative where the element jumps.
    pub(super) fn from_device(
        deviations: &TensorView,
        scratch: &Scratch,
    ) -> Result<ElementDeviations<T>, ScratchError> {
        let mut all_deviations = ElementDeviations::new(deviations.len(), scratch)?;
        let blocks = all_deviations.rounding.par_chunks_mut(BLOCK).enumerate().map(
            |(block, block_deviations)| {
                let mut values = [0.0; BLOCK];
                let values = &mut values[..block_deviations.len()];
                deviations.read(block * BLOCK, values);
                block_deviations
                    .iter_mut()
                    .zip(&*values)
                    .for_each(|(deviation, value)| *deviation = T::from_deviation(value.abs()));
                [values.iter().any(|&x| x != 0.0), values.iter().any(|&x| x < 0.0)]
            },
        );
        let [any_moved, jumps] = blocks.reduce(|| [false; 2], |a, b| [a[0] | b[0], a[1] | b[1]]);
        all_deviations.moved[NoiseSource::Rounding as usize] = any_moved;
        let told = Bitmap::in_scratch(scratch, deviations.len(), |index| {
            jumps && deviations.get_f64(index) < 0.0
        })?;
        all_deviations.told = Some(told);
        Ok(all_deviations)
    }

    /// Writes down the deviations after the largest ones, where a device did not tell them.
    fn write_down(&mut self) {
        let Some(jumps) = self.told.take() else { return };
        let rounding = self.rounding.par_chunks(BLOCK).enumerate();
        let following = self.second.par_chunks_mut(BLOCK).zip(self.third.par_chunks_mut(BLOCK));
        rounding.zip(following).for_each(|((block, rounding), (second, third))| {
            let following = second.iter_mut().zip(third);
            for ((offset, &largest), (second, third)) in rounding.iter().enumerate().zip(following)
            {
                (*second, *third) = if jumps.contains(block * BLOCK + offset) {
                    (largest, T::default())
                } else {
                    (largest, largest)
                };
            }
        });
    }

    /// Takes in the deviations of `order_deviations` in other orders, and nothing else of it.
    pub(super) fn take_orders(&mut self, order_deviations: &ElementDeviations<T>) {
        if !order_deviations.has_moved(NoiseSource::Order) {
            return;
        }
        self.write_down();
        self.moved[NoiseSource::Order as usize] = true;
        let own_blocks = self.order.par_chunks_mut(BLOCK).zip(self.rounding.par_chunks(BLOCK));
        let own_blocks =
            own_blocks.zip(self.second.par_chunks_mut(BLOCK).zip(self.third.par_chunks_mut(BLOCK)));
        let taken_blocks = order_deviations.order.par_chunks(BLOCK);
        let taken_blocks = taken_blocks.zip(
            order_deviations.second.par_chunks(BLOCK).zip(order_deviations.third.par_chunks(BLOCK)),
        );
        own_blocks.zip(taken_blocks).for_each(|(((own, other), (second, third)), (a, (b, c)))| {
            for deviations in [a, b, c] {
                let other = Some(other);
                merge_deviations(
                    DeviationBlock {
                        own: &mut *own,
                        other,
                        second: &mut *second,
                        third: &mut *third,
                    },
                    deviations,
                );
            }
        });
    }

    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        self.rounding.len()
    }

    /// Whether a replay of this source moved any element.
    pub(super) fn has_moved(&self, noise_source: NoiseSource) -> bool {
        self.moved[noise_source as usize]
    }

    /// How far another order moved element `index`.
    pub(super) fn order(&self, index: usize) -> f64 {
        self.order[index].get()
    }

    /// The third largest deviation of element `index`.
    pub(super) fn third(&self, index: usize) -> f64 {
        match &self.told {
            Some(jumps) if jumps.contains(index) => 0.0,
            Some(_) => self.rounding[index].get(),
            None => self.third[index].get(),
        }
    }

    /// Writes the largest deviations of `included_sources` to `out`, those of the elements from `first` on.
    #[inline(always)]
    pub(super) fn largest(&self, included_sources: Of, first: usize, out: &mut [T]) {
        let range = first..first + out.len();
        out.copy_from_slice(&self.rounding[range.clone()]);
        if matches!(included_sources, Of::All) && self.has_moved(NoiseSource::Order) {
            out.iter_mut().zip(&self.order[range]).for_each(|(deviation, &order_deviation)| {
                *deviation = larger_deviation(*deviation, order_deviation)
            });
        }
    }

    /// The memory of the deviations by rounding. It holds the largest of `included_sources` afterwards.
    pub(super) fn into_largest(mut self, included_sources: Of) -> ScratchNumbers<T> {
        if matches!(included_sources, Of::All) && self.has_moved(NoiseSource::Order) {
            let blocks = self.rounding.par_chunks_mut(BLOCK).zip(self.order.par_chunks(BLOCK));
            blocks.for_each(|(rounding_block, order_block)| {
                rounding_block.iter_mut().zip(order_block).for_each(
                    |(deviation, &order_deviation)| {
                        *deviation = larger_deviation(*deviation, order_deviation)
                    },
                );
            });
        }
        self.rounding
    }

    /// Takes in the distances of `replay` from `base`; `noise_source` says how they differ.
    pub(super) fn add(
        &mut self,
        base: &TensorView,
        replay: &TensorView,
        noise_source: NoiseSource,
    ) {
        self.write_down();
        let bytes = BLOCK * base.dtype.size();
        let pairs = base.bytes.par_chunks(bytes).zip(replay.bytes.par_chunks(bytes));
        let (own_deviations, other_deviations) = match noise_source {
            NoiseSource::Rounding => (&mut self.rounding, &self.order),
            NoiseSource::Order => (&mut self.order, &self.rounding),
        };
        // What nothing has moved is not even read: it would be given memory.
        let other_moved = self.moved[1 - noise_source as usize];
        let blocks = own_deviations.par_chunks_mut(BLOCK).zip(other_deviations.par_chunks(BLOCK));
        let blocks = blocks.zip(self.second.par_chunks_mut(BLOCK));
        let blocks = blocks.zip(self.third.par_chunks_mut(BLOCK)).zip(pairs).enumerate();
        let block_moves =
            blocks.map(|(block, ((((own, other), second), third), (base_bytes, replayed)))| {
                // Most replays move few elements, and the others have no deviation.
                if base_bytes == replayed {
                    return false;
                }
                let mut values = [0.0; BLOCK];
                let mut replay_values = [0.0; BLOCK];
                let values = &mut values[..own.len()];
                let replay_values = &mut replay_values[..own.len()];
                let mut deviations = [T::default(); BLOCK];
                let deviations = &mut deviations[..own.len()];
                base.read(block * BLOCK, values);
                replay.read(block * BLOCK, replay_values);
                widest!({
                    let mut largest = T::default();
                    for ((deviation, &value), &other) in
                        deviations.iter_mut().zip(&*values).zip(&*replay_values)
                    {
                        *deviation = T::from_deviation(value_distance(value, other));
                        largest = larger_deviation(largest, *deviation);
                    }
                    if largest.get() == 0.0 {
                        return false;
                    }
                    let other = other_moved.then_some(&*other);
                    merge_deviations(DeviationBlock { own, other, second, third }, deviations);
                    true
                })
            });
        self.moved[noise_source as usize] |=
            block_moves.reduce(|| false, |left, right| left | right);
    }
}

/// The deviations of a block of elements: those of the replay's kind, and those of the other kind, if there are any.
struct DeviationBlock<'b, T> {
    own: &'b mut [T],
    other: Option<&'b [T]>,
    second: &'b mut [T],
    third: &'b mut [T],
}

/// Takes in `deviations`, those of another replay.
#[inline(always)]
fn merge_deviations<T: DeviationFloat>(block: DeviationBlock<T>, deviations: &[T]) {
    let DeviationBlock { own, other, second, third } = block;
    let seconds = second.iter_mut();
    let thirds = third.iter_mut();
    let element_slots = own.iter_mut().zip(seconds).zip(thirds).zip(deviations);
    match other {
        Some(other_elements) => element_slots.zip(other_elements).for_each(
            |((((own, second), third), &deviation), &other)| {
                add_deviation([own, second, third], other, deviation);
            },
        ),
        None => element_slots.for_each(|(((own, second), third), &deviation)| {
            add_deviation([own, second, third], T::default(), deviation);
        }),
    }
}

/// Takes in one `deviation` beside the largest one of its kind, the largest one of the other kind, and the next two.
#[inline(always)]
fn add_deviation<T: DeviationFloat>([own, second, third]: [&mut T; 3], other: T, deviation: T) {
    let first = larger_deviation(*own, other);
    (*own, *second, *third) = (
        larger_deviation(*own, deviation),
        larger_deviation(*second, smaller_deviation(deviation, first)),
        larger_deviation(*third, smaller_deviation(deviation, *second)),
    );
}

/// The larger of two numbers without NaN.
#[inline(always)]
fn larger_deviation<T: DeviationFloat>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// The smaller of two numbers without NaN.
#[inline(always)]
fn smaller_deviation<T: DeviationFloat>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use replay_base::tensor::DType;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()
    }

    /// The three largest of all deviations, and the largest of each kind, by sorting.
    fn sorted(base: f64, replays: &[(f64, bool)]) -> [f64; 4] {
        let far =
            |x: f64| f64::from(value_distance(f64::from(base as f32), f64::from(x as f32)) as f32);
        let mut all: Vec<f64> = replays.iter().map(|(x, _)| far(*x)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let of = |kind| {
            let own = replays.iter().filter(|(_, is_order)| *is_order == kind);
            own.map(|(x, _)| far(*x)).fold(0.0, f64::max)
        };
        let at = |place: usize| all.get(place).copied().unwrap_or(0.0);
        [of(false), of(true), at(1), at(2)]
    }

    proptest! {
        #[test]
        fn the_largest_deviations_are_kept(
            base in prop_oneof![Just(f64::INFINITY), Just(f64::NAN), -9.0..9.0f64],
            replays in prop::collection::vec(
                (
                    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), (-9i8..9).prop_map(f64::from)],
                    any::<bool>(),
                ),
                1..7,
            ),
        ) {
            let len = BLOCK + 5;
            fn view(bytes: &[u8]) -> TensorView<'_> {
                TensorView { dtype: DType::F32, shape: &[BLOCK + 5], bytes }
            }
            let at_base = bytes(&vec![base; len]);
            let mut deviations: ElementDeviations<f32> = ElementDeviations::new(len, &Scratch::heap()).unwrap();
            for (replay, is_order) in &replays {
                let moved = if *is_order { NoiseSource::Order } else { NoiseSource::Rounding };
                let replayed = bytes(&vec![*replay; len]);
                deviations.add(&view(&at_base), &view(&replayed), moved);
            }
            let [rounding, order, second, third] = sorted(base, &replays);
            for index in [0, BLOCK - 1, BLOCK, len - 1] {
                prop_assert_eq!(deviations.order(index), order);
                prop_assert_eq!(f64::from(deviations.second[index]), second);
                prop_assert_eq!(deviations.third(index), third);
                let mut largest = [0.0f32];
                deviations.largest(Of::Rounding, index, &mut largest);
                prop_assert_eq!(f64::from(largest[0]), rounding);
                deviations.largest(Of::All, index, &mut largest);
                prop_assert_eq!(f64::from(largest[0]), rounding.max(order));
            }
            let all = deviations.into_largest(Of::All);
            prop_assert_eq!(all[len - 1].get(), rounding.max(order));
        }

        #[test]
        fn told_deviations_and_orders_of_their_own_are_those_of_all_replays(
            roundings in prop::collection::vec(0u8..5, 3),
            orders in prop::collection::vec(0u8..5, 0..4),
        ) {
            let len = BLOCK + 5;
            fn view(bytes: &[u8]) -> TensorView<'_> {
                TensorView { dtype: DType::F32, shape: &[BLOCK + 5], bytes }
            }
            let at = |x: u8| bytes(&vec![f64::from(x); len]);
            let (base, scratch) = (at(0), Scratch::heap());
            let added = |replays: &[u8], moved| {
                let mut all: ElementDeviations<f32> = ElementDeviations::new(len, &scratch).unwrap();
                replays.iter().for_each(|&x| all.add(&view(&base), &view(&at(x)), moved));
                all
            };
            let (most, least) =
                (*roundings.iter().max().unwrap(), *roundings.iter().min().unwrap());
            // A device tells the least only by whether an element jumps from nothing.
            let jumps = least == 0 && most > 0;
            let sign = if jumps { -1.0 } else { 1.0 };
            let told = bytes(&vec![sign * f64::from(most); len]);
            let mut deviations: ElementDeviations<f32> = ElementDeviations::from_device(&view(&told), &scratch).unwrap();
            prop_assert_eq!(deviations.has_moved(NoiseSource::Rounding), most > 0);
            prop_assert_eq!(deviations.third(len - 1) == 0.0, jumps || most == 0);
            deviations.take_orders(&added(&orders, NoiseSource::Order));
            let order = orders.iter().max().copied().unwrap_or(0);
            for index in [0, BLOCK, len - 1] {
                prop_assert_eq!(deviations.order(index), f64::from(order));
                let mut largest = [0.0f32];
                deviations.largest(Of::All, index, &mut largest);
                prop_assert_eq!(f64::from(largest[0]), f64::from(most.max(order)));
                let mut all = [&[most, most, if jumps { 0 } else { most }], &orders[..]].concat();
                all.sort_unstable();
                prop_assert_eq!(deviations.third(index), f64::from(all[all.len() - 3]));
            }
        }
    }
}
