//! One bit for each element of a tensor, set if the element belongs to a class.

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
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The elements in the class, in order.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(word_index, &word)| {
            let mut remaining_bits = word;
            std::iter::from_fn(move || {
                let bit =
                    (remaining_bits != 0).then(|| remaining_bits.trailing_zeros() as usize)?;
                remaining_bits &= remaining_bits - 1;
                Some(64 * word_index + bit)
            })
        })
    }
}
