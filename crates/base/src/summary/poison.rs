//! Poison: the content of buffers before a replay. It shows unwritten elements.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::tensor::{DType, TensorView};

/// Eight bytes, repeated over a buffer before a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Poison {
    /// The bytes, the first one at the start of the buffer.
    pub pattern: [u8; 8],
}

/// 0x7FA5 in every 16 bits: a signalling NaN as f32 and bf16. Arithmetic on it shows.
pub const POISON_A: Poison = Poison { pattern: [0xA5, 0x7F, 0xA5, 0x7F, 0xA5, 0x7F, 0xA5, 0x7F] };
/// 0x7149 in every 16 bits: finite and large as any float. A maximum or a clamp shows.
pub const POISON_B: Poison = Poison { pattern: [0x49, 0x71, 0x49, 0x71, 0x49, 0x71, 0x49, 0x71] };

/// Indices of each kind in the lists of [`compare_poisons`].
pub(crate) const LISTED: usize = 8;
/// Bytes of one task of [`compare_poisons`]; a multiple of eight.
const TASK_BYTES: usize = 1 << 18;

/// The comparison of two replays of one output with different poison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonComparison {
    /// Elements with the poison still in them, in both replays.
    pub unwritten: u64,
    /// The first of them, at most `LISTED`, by row-major index.
    pub first_unwritten: Vec<u64>,
    /// Written elements with a difference: they depend on memory nobody wrote.
    pub poison_dependent: u64,
    /// The first of them, at most `LISTED`, by row-major index.
    pub first_poison_dependent: Vec<u64>,
}

/// Two tensors of different dtype or shape: not two replays of one output.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("outputs of the two poison patterns differ in kind: {a} and {b}")]
pub struct PoisonMismatch {
    a: String,
    b: String,
}

impl Poison {
    /// Fills `buffer` with the pattern.
    pub fn fill(&self, buffer: &mut [u8]) {
        let (words, rest) = buffer.as_chunks_mut::<8>();
        words.fill(self.pattern);
        rest.copy_from_slice(&self.pattern[..rest.len()]);
    }

    /// Whether element `index` of `view` still holds the pattern.
    pub fn is_in(&self, view: &TensorView, index: usize) -> bool {
        let size = view.dtype.size();
        self.covers(&view.bytes[index * size..(index + 1) * size], index)
    }

    /// Whether element `index` of size `size`, with these bytes, still holds the pattern.
    fn covers(&self, bytes: &[u8], index: usize) -> bool {
        let phase = (index * bytes.len()) % 8;
        self.pattern[phase..phase + bytes.len()] == *bytes
    }

    /// Counts the elements still equal to the pattern; `bytes` starts at a multiple of eight.
    #[inline(always)]
    pub(super) fn count(&self, bytes: &[u8], dtype: DType) -> u64 {
        macro_rules! count {
            ($t:ty) => {{
                const SIZE: usize = size_of::<$t>();
                let mut total = 0u64;
                let (words, rest) = bytes.as_chunks::<8>();
                for word in words {
                    for (got, want) in
                        word.as_chunks::<SIZE>().0.iter().zip(self.pattern.as_chunks::<SIZE>().0)
                    {
                        total += u64::from(<$t>::from_le_bytes(*got) == <$t>::from_le_bytes(*want));
                    }
                }
                for (got, want) in
                    rest.as_chunks::<SIZE>().0.iter().zip(self.pattern.as_chunks::<SIZE>().0)
                {
                    total += u64::from(got == want);
                }
                total
            }};
        }
        match dtype.size() {
            8 => count!(u64),
            4 => count!(u32),
            2 => count!(u16),
            _ => count!(u8),
        }
    }
}

/// Finds the unwritten and the poison-dependent elements, from a replay `a` begun with
/// [`POISON_A`] and a replay `b` begun with [`POISON_B`], all else being equal.
///
/// Two NaNs count as the same value.
///
/// # Errors
/// [`PoisonMismatch`] if dtype or shape differ.
pub fn compare_poisons(a: &TensorView, b: &TensorView) -> Result<PoisonComparison, PoisonMismatch> {
    if a.dtype != b.dtype || a.shape != b.shape || a.bytes.len() != b.bytes.len() {
        return Err(PoisonMismatch {
            a: format!("{} {:?}", a.dtype, a.shape),
            b: format!("{} {:?}", b.dtype, b.shape),
        });
    }
    let per_task = TASK_BYTES / a.dtype.size();
    let parts: Vec<PoisonComparison> = (a.bytes.par_chunks(TASK_BYTES))
        .zip(b.bytes.par_chunks(TASK_BYTES))
        .enumerate()
        .map(|(task, (left, right))| written_part(a.dtype, task * per_task, left, right))
        .collect();
    Ok(parts.into_iter().fold(PoisonComparison::default(), PoisonComparison::followed_by))
}

/// [`compare_poisons`] for elements `first..`, whose bytes are `a` and `b`.
fn written_part(dtype: DType, first: usize, a: &[u8], b: &[u8]) -> PoisonComparison {
    let mut part = PoisonComparison::default();
    if a == b {
        return part;
    }
    for (offset, (left, right)) in
        a.chunks_exact(dtype.size()).zip(b.chunks_exact(dtype.size())).enumerate()
    {
        let index = first + offset;
        if left == right {
            continue;
        }
        if POISON_A.covers(left, index) && POISON_B.covers(right, index) {
            part.unwritten += 1;
            push_listed_index(&mut part.first_unwritten, index);
        } else if !(is_nan(dtype, left) && is_nan(dtype, right)) {
            part.poison_dependent += 1;
            push_listed_index(&mut part.first_poison_dependent, index);
        }
    }
    part
}

fn push_listed_index(indices: &mut Vec<u64>, index: usize) {
    if indices.len() < LISTED {
        indices.push(index as u64);
    }
}

fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    dtype.is_float() && TensorView { dtype, shape: &[], bytes }.get_f64(0).is_nan()
}

impl PoisonComparison {
    /// Joins the results for elements behind those of `self`.
    fn followed_by(mut self, next: PoisonComparison) -> PoisonComparison {
        self.unwritten += next.unwritten;
        self.poison_dependent += next.poison_dependent;
        let join = |own_places: &mut Vec<u64>, further_places: Vec<u64>| {
            own_places.extend(further_places);
            own_places.truncate(LISTED);
        };
        join(&mut self.first_unwritten, next.first_unwritten);
        join(&mut self.first_poison_dependent, next.first_poison_dependent);
        self
    }
}
