//! One bit for each element of a tensor: which elements belong to a class.

use rayon::prelude::*;

use crate::tensor::TensorView;

/// The elements of a tensor that belong to a class, by row-major index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// The elements below `len` for which `belongs` holds.
    pub fn from_fn(len: usize, belongs: impl Fn(usize) -> bool + Sync) -> Bitmap {
        let words = (0..len.div_ceil(64)).into_par_iter().with_min_len(64).map(|word| {
            let bits = (64 * word..len.min(64 * word + 64)).enumerate();
            bits.fold(0u64, |bits, (bit, index)| bits | (u64::from(belongs(index)) << bit))
        });
        Bitmap { words: words.collect(), len }
    }

    /// The elements that are zero in `got`, but not in `base`.
    pub fn zeroed(base: &TensorView, got: &TensorView) -> Bitmap {
        Bitmap::from_fn(base.len().min(got.len()), |i| {
            got.get_f64(i) == 0.0 && base.get_f64(i) != 0.0
        })
    }

    /// The elements that are NaN or infinite.
    pub fn non_finite(view: &TensorView) -> Bitmap {
        Bitmap::from_fn(view.len(), |i| !view.get_f64(i).is_finite())
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
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(64 * at + bit)
            })
        })
    }
}
