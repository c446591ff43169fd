//! The checksum of a tensor: 128 bits, position dependent, a sum over 16-byte units.
//!
//! The complete specification, with test vectors, is `docs/checksum.md`; a change here is a change
//! of every recorded snapshot. It is no defence against somebody who wants a collision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tensor::DType;

/// Bytes that are mixed together: eight units of two words.
pub(super) const CHUNK_BYTES: usize = 128;
/// Units side by side in a chunk.
pub(super) const LANES: usize = 8;

/// Added to the first and to the second word of every unit.
const START: [u64; 2] = [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344];
/// Added once more for every unit before it; odd, so that no two units have the same key.
const STEP: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// 128 bits over dtype, shape and elements of a tensor; shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum(pub [u8; 16]);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> String {
        checksum.to_string()
    }
}

/// A text that is not a checksum.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a checksum: 32 hexadecimal digits are expected")]
pub struct NotAChecksum(String);

impl FromStr for Checksum {
    type Err = NotAChecksum;

    fn from_str(text: &str) -> Result<Self, NotAChecksum> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let value = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        value.map(|v| Checksum(v.to_be_bytes())).ok_or_else(|| NotAChecksum(text.to_owned()))
    }
}

impl TryFrom<String> for Checksum {
    type Error = NotAChecksum;

    fn try_from(text: String) -> Result<Self, NotAChecksum> {
        text.parse()
    }
}

/// The running sums, one pair for each lane; lanes, chunks and workers are added up in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    x: [u64; LANES],
    y: [u64; LANES],
}

impl Sums {
    /// Adds the units of `bytes`, whole chunks of canonical elements from chunk `first_chunk` on.
    #[inline(always)]
    pub(super) fn absorb(&mut self, bytes: &[u8], first_chunk: u64) {
        let mut key_x = [0u64; LANES];
        let mut key_y = [0u64; LANES];
        for lane in 0..LANES {
            let unit = first_chunk.wrapping_mul(LANES as u64).wrapping_add(lane as u64);
            key_x[lane] = START[0].wrapping_add(unit.wrapping_mul(STEP[0]));
            key_y[lane] = START[1].wrapping_add(unit.wrapping_mul(STEP[1]));
        }
        for chunk in bytes.as_chunks::<CHUNK_BYTES>().0 {
            let words = chunk.as_chunks::<8>().0;
            let mut x = key_x;
            let mut y = key_y;
            for lane in 0..LANES {
                x[lane] = x[lane].wrapping_add(u64::from_le_bytes(words[lane]));
                y[lane] = y[lane].wrapping_add(u64::from_le_bytes(words[LANES + lane]));
            }
            for lane in 0..LANES {
                let (mixed_x, mixed_y) = permute(x[lane], y[lane]);
                self.x[lane] = self.x[lane].wrapping_add(mixed_x);
                self.y[lane] = self.y[lane].wrapping_add(mixed_y);
                key_x[lane] = key_x[lane].wrapping_add(STEP[0].wrapping_mul(LANES as u64));
                key_y[lane] = key_y[lane].wrapping_add(STEP[1].wrapping_mul(LANES as u64));
            }
        }
    }

    /// Sums that somebody else added up.
    pub(super) fn of(x: u64, y: u64) -> Sums {
        let mut sums = Sums::default();
        (sums.x[0], sums.y[0]) = (x, y);
        sums
    }

    /// Adds the sums of other chunks of the same tensor.
    pub(super) fn merge(&mut self, other: &Sums) {
        for lane in 0..LANES {
            self.x[lane] = self.x[lane].wrapping_add(other.x[lane]);
            self.y[lane] = self.y[lane].wrapping_add(other.y[lane]);
        }
    }

    /// Mixes in what the elements are and closes the checksum.
    pub(super) fn finish(&self, dtype: DType, shape: &[usize]) -> Checksum {
        let sum = |lanes: &[u64; LANES]| lanes.iter().fold(0u64, |a, &b| a.wrapping_add(b));
        let (mut x, mut y) = (sum(&self.x), sum(&self.y));
        let mut stir = |word: u64| {
            x = x.wrapping_add(START[0]) ^ word;
            y = y.wrapping_add(START[1]);
            (x, y) = permute(x, y);
        };
        stir((dtype_code(dtype) << 32) | shape.len() as u64);
        shape.iter().for_each(|&size| stir(size as u64));
        Checksum(((u128::from(x) << 64) | u128::from(y)).to_be_bytes())
    }
}

/// A Feistel network of four rounds over two words: a bijection, so no unit loses a bit.
#[inline(always)]
fn permute(mut x: u64, mut y: u64) -> (u64, u64) {
    x = x.wrapping_add(fold(y));
    y = y.wrapping_add(fold(x));
    x = x.wrapping_add(fold(y));
    y = y.wrapping_add(fold(x));
    (x, y)
}

/// The product of the two halves of a word, its own halves swapped.
#[inline(always)]
fn fold(word: u64) -> u64 {
    (word & 0xFFFF_FFFF).wrapping_mul(word >> 32).rotate_left(32)
}

/// The number that stands for a dtype in a checksum; never reassigned.
const fn dtype_code(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 1,
        DType::F32 => 2,
        DType::F16 => 3,
        DType::BF16 => 4,
        DType::I64 => 5,
        DType::I32 => 6,
        DType::I16 => 7,
        DType::I8 => 8,
        DType::U64 => 9,
        DType::U32 => 10,
        DType::U16 => 11,
        DType::U8 => 12,
        DType::Bool => 13,
    }
}
