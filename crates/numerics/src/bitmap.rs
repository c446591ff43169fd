//! One bit for each element of a tensor, set if the element belongs to a class.

use std::ops::Range;

use rayon::prelude::*;

use replay_base::scratch::{Scratch, ScratchError, ScratchNumbers};
use replay_base::tensor::TensorView;

/// The elements of a tensor that belong to a class, by row-major index.
#[derive(Debug, PartialEq)]
pub struct Bitmap {
    words: ScratchNumbers<u64>,
    len: usize,
}

impl Bitmap {
    /// The elements below `len` for which `belongs` holds.
    pub fn from_fn(len: usize, belongs: impl Fn(usize) -> bool + Sync) -> Bitmap {
        Bitmap::in_scratch(&Scratch::heap(), len, belongs).expect("the heap refuses nothing")
    }

    /// The same in `scratch`.
    ///
    /// # Errors
    /// [`ScratchError`] if there is no room.
    pub fn in_scratch(
        scratch: &Scratch,
        len: usize,
        belongs: impl Fn(usize) -> bool + Sync,
    ) -> Result<Bitmap, ScratchError> {
        let mut words: ScratchNumbers<u64> = scratch.zeros(len.div_ceil(64))?;
        words.par_iter_mut().with_min_len(64).enumerate().for_each(|(word_index, word)| {
            let bits = (64 * word_index..len.min(64 * word_index + 64)).enumerate();
            *word = bits.fold(0, |word, (bit, index)| word | (u64::from(belongs(index)) << bit));
        });
        Ok(Bitmap { words, len })
    }

    /// Adds element `index` to the class.
    ///
    /// # Panics
    /// If `index` is not below [`Bitmap::len`].
    pub fn insert(&mut self, index: usize) {
        assert!(index < self.len, "{index} is not below {}", self.len);
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// The elements that are zero in `got`, but not in `base`.
    pub fn zeroed(base: &TensorView, got: &TensorView) -> Bitmap {
        Bitmap::from_fn(base.len().min(got.len()), |i| {
            got.get_f64(i) == 0.0 && base.get_f64(i) != 0.0
        })
    }

    /// The number of elements of the tensor.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the tensor has no elements at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether element `index` belongs to the class.
    ///
    /// # Panics
    /// If `index` is not below [`Bitmap::len`].
    pub fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// The number of elements in the class.
    pub fn count(&self) -> u64 {
        self.words.par_iter().with_min_len(1 << 12).map(|word| u64::from(word.count_ones())).sum()
    }

    /// The number of elements of the class in `range`.
    pub(super) fn count_in(&self, range: Range<usize>) -> u64 {
        self.words_of(range).map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether an element of the class lies in `range`.
    pub(super) fn has_any_in(&self, range: Range<usize>) -> bool {
        self.words_of(range).any(|word| word != 0)
    }

    /// Adds the elements of `other` in `range`, counted from its start.
    pub(super) fn insert_all(&mut self, other: &Bitmap, range: Range<usize>) {
        self.words.iter_mut().zip(other.words_of(range)).for_each(|(own, word)| *own |= word);
    }

    /// The last element in the class.
    pub(super) fn last(&self) -> Option<usize> {
        let word_index = self.words.iter().rposition(|&word| word != 0)?;
        Some(64 * word_index + self.words[word_index].ilog2() as usize)
    }

    /// The bits of `range`, 64 at a time.
    fn words_of(&self, range: Range<usize>) -> impl Iterator<Item = u64> + '_ {
        let end = range.end;
        range.step_by(64).map(move |start| {
            let rest = end - start;
            let mask = if rest < 64 { (1 << rest) - 1 } else { u64::MAX };
            self.word_from(start) & mask
        })
    }

    /// The 64 bits from element `start` on; those beyond the end are zeros.
    fn word_from(&self, start: usize) -> u64 {
        let word_index = start / 64;
        let shift = start % 64;
        let low = self.words.get(word_index).map_or(0, |word| word >> shift);
        let next = self.words.get(word_index + 1).filter(|_| shift > 0);
        low | next.map_or(0, |word| word << (64 - shift))
    }

    /// The elements in the class, in order.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.ones_in(0..self.len)
    }

    /// The elements of the class in `range`, in order.
    pub(super) fn ones_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let starts = range.clone().step_by(64);
        starts.zip(self.words_of(range)).flat_map(|(start, word)| {
            let mut remaining_bits = word;
            std::iter::from_fn(move || {
                let bit =
                    (remaining_bits != 0).then(|| remaining_bits.trailing_zeros() as usize)?;
                remaining_bits &= remaining_bits - 1;
                Some(start + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::step::draw_bits;

    #[test]
    fn a_range_has_the_elements_of_the_class_in_it() {
        for (len, sparsity) in [(1, 2), (63, 2), (64, 3), (200, 2), (1000, 40)] {
            let class = Bitmap::from_fn(len, |index| {
                draw_bits(len as u64, index as u64).is_multiple_of(sparsity)
            });
            assert_eq!(class.last(), (0..len).rfind(|&index| class.contains(index)));
            for draw in 0..100 {
                let first = draw_bits(1, draw) as usize % (len + 1);
                let end = first + draw_bits(2, draw) as usize % (len + 1 - first);
                let inside: Vec<usize> = (first..end).filter(|&i| class.contains(i)).collect();
                assert_eq!(class.ones_in(first..end).collect::<Vec<_>>(), inside);
                assert_eq!(class.count_in(first..end), inside.len() as u64);
                assert_eq!(class.has_any_in(first..end), !inside.is_empty());
                let mut moved = Bitmap::from_fn(len, |index| index == 0);
                moved.insert_all(&class, first..end);
                let expected = Bitmap::from_fn(len, |i| {
                    i == 0 || i < end - first && class.contains(first + i)
                });
                assert_eq!(moved, expected);
            }
        }
    }
}
