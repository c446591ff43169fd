//! How far replays moved each element of an output: the largest deviations by rounding and by order, and those
//! that follow them.

use rayon::prelude::*;

use super::cells::Cell;
use super::measure::distance;
use super::noise::Moved;
use crate::scratch::{Numbers, Scratch, ScratchError};
use crate::tensor::TensorView;
use crate::tensor::vectors::widest;

/// Elements that are compared at a time.
pub(super) const BLOCK: usize = 1 << 10;

/// The largest deviations of each element. Each kind lies in memory of its own, which takes room once it is written.
#[derive(Debug)]
pub(super) struct Deviations<T: Cell> {
    /// By another direction of rounding.
    rounding: Numbers<T>,
    /// In another order.
    order: Numbers<T>,
    /// The second and third largest of all.
    second: Numbers<T>,
    third: Numbers<T>,
    /// Whether a replay in another rounding moved any element, and one in another order.
    moved: [bool; 2],
}

/// Which replays count.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Those in another direction of rounding.
    Rounding,
    /// All of them.
    All,
}

impl<T: Cell> Deviations<T> {
    /// Those of `len` elements that have not moved.
    pub(super) fn new(len: usize, scratch: &Scratch) -> Result<Deviations<T>, ScratchError> {
        let zeros = || scratch.zeros(len);
        let (rounding, order, second, third) = (zeros()?, zeros()?, zeros()?, zeros()?);
        Ok(Deviations { rounding, order, second, third, moved: [false; 2] })
    }

    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        self.rounding.len()
    }

    /// Whether a replay that differed so from the base moved any element.
    pub(super) fn has_moved(&self, moved: Moved) -> bool {
        self.moved[moved as usize]
    }

    /// How far another order moved element `index`.
    pub(super) fn order(&self, index: usize) -> f64 {
        self.order[index].get()
    }

    /// The third largest deviation of element `index`.
    pub(super) fn third(&self, index: usize) -> f64 {
        self.third[index].get()
    }

    /// Writes the largest deviations of `of` to `out`, those of the elements from `first` on.
    #[inline(always)]
    pub(super) fn largest(&self, of: Of, first: usize, out: &mut [T]) {
        let range = first..first + out.len();
        out.copy_from_slice(&self.rounding[range.clone()]);
        if matches!(of, Of::All) && self.has_moved(Moved::Order) {
            out.iter_mut()
                .zip(&self.order[range])
                .for_each(|(own, &other)| *own = larger(*own, other));
        }
    }

    /// The memory of the deviations by rounding, which hold the largest of `of` afterwards.
    pub(super) fn into_largest(mut self, of: Of) -> Numbers<T> {
        if matches!(of, Of::All) && self.has_moved(Moved::Order) {
            let blocks = self.rounding.par_chunks_mut(BLOCK).zip(self.order.par_chunks(BLOCK));
            blocks.for_each(|(own, other)| {
                own.iter_mut().zip(other).for_each(|(own, &other)| *own = larger(*own, other));
            });
        }
        self.rounding
    }

    /// Takes in how far `replay`, which `moved` so, lies from `base`.
    pub(super) fn add(&mut self, base: &TensorView, replay: &TensorView, moved: Moved) {
        let bytes = BLOCK * base.dtype.size();
        let pairs = base.bytes.par_chunks(bytes).zip(replay.bytes.par_chunks(bytes));
        let (own, other) = match moved {
            Moved::Rounding => (&mut self.rounding, &self.order),
            Moved::Order => (&mut self.order, &self.rounding),
        };
        // What nothing has moved is not even read: it would be given memory.
        let other_moved = self.moved[1 - moved as usize];
        let blocks = own.par_chunks_mut(BLOCK).zip(other.par_chunks(BLOCK));
        let blocks = blocks.zip(self.second.par_chunks_mut(BLOCK));
        let blocks = blocks.zip(self.third.par_chunks_mut(BLOCK)).zip(pairs).enumerate();
        let each = blocks.map(|(block, ((((own, other), second), third), (one, replayed)))| {
            // Most replays move few elements, and what did not move has no deviation.
            if one == replayed {
                return false;
            }
            let (mut values, mut others) = ([0.0; BLOCK], [0.0; BLOCK]);
            let (values, others) = (&mut values[..own.len()], &mut others[..own.len()]);
            let mut deviations = [T::default(); BLOCK];
            let deviations = &mut deviations[..own.len()];
            base.read(block * BLOCK, values);
            replay.read(block * BLOCK, others);
            widest!({
                let mut largest = T::default();
                for ((deviation, &value), &other) in
                    deviations.iter_mut().zip(&*values).zip(&*others)
                {
                    *deviation = T::of(distance(value, other));
                    largest = larger(largest, *deviation);
                }
                if largest.get() == 0.0 {
                    return false;
                }
                let other = other_moved.then_some(&*other);
                merge(Block { own, other, second, third }, deviations);
                true
            })
        });
        self.moved[moved as usize] |= each.reduce(|| false, |one, other| one | other);
    }
}

/// The deviations of a block of elements: those that a replay adds to, and those of the other kind, if there are any.
struct Block<'b, T> {
    own: &'b mut [T],
    other: Option<&'b [T]>,
    second: &'b mut [T],
    third: &'b mut [T],
}

/// Takes `deviations` in, which are those of another replay.
#[inline(always)]
fn merge<T: Cell>(block: Block<T>, deviations: &[T]) {
    let Block { own, other, second, third } = block;
    let (seconds, thirds) = (second.iter_mut(), third.iter_mut());
    let kept = own.iter_mut().zip(seconds).zip(thirds).zip(deviations);
    let add = |own: &mut T, other: T, second: &mut T, third: &mut T, new: T| {
        let first = larger(*own, other);
        (*own, *second, *third) = (
            larger(*own, new),
            larger(*second, smaller(new, first)),
            larger(*third, smaller(new, *second)),
        );
    };
    match other {
        Some(others) => kept.zip(others).for_each(|((((own, second), third), &new), &other)| {
            add(own, other, second, third, new);
        }),
        None => kept.for_each(|(((own, second), third), &new)| {
            add(own, T::default(), second, third, new);
        }),
    }
}

/// The larger of two, neither of which is a NaN.
#[inline(always)]
fn larger<T: Cell>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// The smaller of two, neither of which is a NaN.
#[inline(always)]
fn smaller<T: Cell>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tensor::DType;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()
    }

    /// The three largest of all deviations, and the largest of each kind, by sorting.
    fn sorted(base: f64, replays: &[(f64, bool)]) -> [f64; 4] {
        let far = |x: f64| f64::from(distance(f64::from(base as f32), f64::from(x as f32)) as f32);
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
            let mut deviations: Deviations<f32> = Deviations::new(len, &Scratch::heap()).unwrap();
            for (replay, is_order) in &replays {
                let moved = if *is_order { Moved::Order } else { Moved::Rounding };
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
    }
}
