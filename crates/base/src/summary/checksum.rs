//! The checksum of a tensor: 128 bits, position dependent, a sum over 16-byte units.
//!
//! The complete specification, with test vectors, is `docs/checksum.md`. A change here changes
//! every recorded snapshot. The checksum is no defence against somebody who wants a collision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tensor::DType;

/// Bytes of a unit: two words.
pub(super) const UNIT_BYTES: usize = 16;
/// Units mixed side by side.
const LANES: usize = 8;
/// Bytes mixed side by side.
const CHUNK_BYTES: usize = LANES * UNIT_BYTES;

/// Added to the first and to the second word of every unit.
const START: [u64; 2] = [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344];
/// Added once more for every unit before it. It is odd: no two units have the same key.
const STEP: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// 128 bits over dtype, shape and elements of a tensor; shown as 32 hexadecimal digits.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
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

/// A text other than a checksum.
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

/// The running sums; units, lanes and workers are added up in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChecksumSums {
    pub(super) x: u64,
    pub(super) y: u64,
}

impl ChecksumSums {
    /// Adds the units of `bytes`, canonical elements, from unit `first_unit` on; the last unit is
    /// padded by zeros.
    #[inline(always)]
    pub(super) fn absorb(&mut self, bytes: &[u8], first_unit: u64) {
        let (chunks, rest) = bytes.as_chunks::<CHUNK_BYTES>();
        let mut sum_x = [0u64; LANES];
        let mut sum_y = [0u64; LANES];
        let mut key_x: [u64; LANES] =
            std::array::from_fn(|lane| unit_word_key(0, first_unit, lane));
        let mut key_y: [u64; LANES] =
            std::array::from_fn(|lane| unit_word_key(1, first_unit, lane));
        for chunk in chunks {
            let words = chunk.as_chunks::<8>().0;
            let mut x = key_x;
            let mut y = key_y;
            for lane in 0..LANES {
                x[lane] = x[lane].wrapping_add(u64::from_le_bytes(words[2 * lane]));
                y[lane] = y[lane].wrapping_add(u64::from_le_bytes(words[2 * lane + 1]));
            }
            for lane in 0..LANES {
                let (mixed_x, mixed_y) = permute_words(x[lane], y[lane]);
                sum_x[lane] = sum_x[lane].wrapping_add(mixed_x);
                sum_y[lane] = sum_y[lane].wrapping_add(mixed_y);
                key_x[lane] = key_x[lane].wrapping_add(STEP[0].wrapping_mul(LANES as u64));
                key_y[lane] = key_y[lane].wrapping_add(STEP[1].wrapping_mul(LANES as u64));
            }
        }
        for (lane, unit) in rest.chunks(UNIT_BYTES).enumerate() {
            let mut padded = [0u8; UNIT_BYTES];
            padded[..unit.len()].copy_from_slice(unit);
            let words = padded.as_chunks::<8>().0;
            let x = key_x[lane].wrapping_add(u64::from_le_bytes(words[0]));
            let y = key_y[lane].wrapping_add(u64::from_le_bytes(words[1]));
            let (mixed_x, mixed_y) = permute_words(x, y);
            sum_x[lane] = sum_x[lane].wrapping_add(mixed_x);
            sum_y[lane] = sum_y[lane].wrapping_add(mixed_y);
        }
        self.x = sum_x.into_iter().fold(self.x, u64::wrapping_add);
        self.y = sum_y.into_iter().fold(self.y, u64::wrapping_add);
    }

    /// Adds the sums of other units of the same tensor.
    pub(super) fn merge(&mut self, other: &ChecksumSums) {
        self.x = self.x.wrapping_add(other.x);
        self.y = self.y.wrapping_add(other.y);
    }

    /// Mixes in dtype and shape, and closes the checksum.
    pub(super) fn finish(&self, dtype: DType, shape: &[usize]) -> Checksum {
        let ChecksumSums { mut x, mut y } = *self;
        let mut stir = |word: u64| {
            x = x.wrapping_add(START[0]) ^ word;
            y = y.wrapping_add(START[1]);
            (x, y) = permute_words(x, y);
        };
        stir((dtype_code(dtype) << 32) | shape.len() as u64);
        shape.iter().for_each(|&size| stir(size as u64));
        Checksum(((u128::from(x) << 64) | u128::from(y)).to_be_bytes())
    }
}

/// The key of word `word` of unit `first_unit + lane`, an addend of the word.
#[inline(always)]
fn unit_word_key(word: usize, first_unit: u64, lane: usize) -> u64 {
    let unit = first_unit.wrapping_add(lane as u64);
    START[word].wrapping_add(unit.wrapping_mul(STEP[word]))
}

/// A Feistel network of four rounds over two words: a bijection, so no unit loses a bit.
#[inline(always)]
fn permute_words(mut x: u64, mut y: u64) -> (u64, u64) {
    x = feistel_round(x, y);
    y = feistel_round(y, x);
    x = feistel_round(x, y);
    y = feistel_round(y, x);
    (x, y)
}

/// One word with its halves swapped, plus the product of the halves of the other.
#[inline(always)]
fn feistel_round(word: u64, other: u64) -> u64 {
    word.rotate_left(32).wrapping_add((other & 0xFFFF_FFFF).wrapping_mul(other >> 32))
}

/// The number of a dtype in a checksum; never reassigned.
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
        DType::F8E4M3 => 14,
        DType::F8E5M2 => 15,
    }
}
