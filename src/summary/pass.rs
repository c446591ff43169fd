//! The inner loops: one part of a tensor, read once, gives its share of a summary.
//!
//! The loops are plain Rust over arrays of fixed width, compiled once for any machine and again
//! for wider vector units. Nothing is reordered or contracted, so all give the same bits.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::checksum::{CHUNK_BYTES, Sums};
use super::poison::Poison;
use super::sketch::{GROUP, Projector, Sketch};
use crate::tensor::{DType, TensorView};

/// Elements of one part; a multiple of four groups of the sketch.
pub(super) const PART: usize = 1 << 16;
/// Elements that are decoded at a time: their float64 values stay in the first-level cache.
const BLOCK: usize = 1024;
/// Sums that run side by side.
const LANES: usize = 16;

/// What one part adds to a summary.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) sums: Sums,
    pub(super) sketch: Sketch,
    pub(super) finite: u64,
    pub(super) sum: f64,
    pub(super) sum_of_squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) zeros: u64,
    pub(super) nan: u64,
    pub(super) inf: u64,
    pub(super) unwritten: u64,
}

/// Summarises part `index` of a tensor, whose bytes are `bytes`.
pub(super) fn part(dtype: DType, bytes: &[u8], index: u64, poison: Option<&Poison>) -> Part {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has these features, as was just asked.
            return unsafe { part_avx512(dtype, bytes, index, poison) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has this feature, as was just asked.
            return unsafe { part_avx2(dtype, bytes, index, poison) };
        }
    }
    part_baseline(dtype, bytes, index, poison)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn part_avx512(dtype: DType, bytes: &[u8], index: u64, poison: Option<&Poison>) -> Part {
    if dtype != DType::F32 {
        return part_body(dtype, bytes, index, poison);
    }
    let (blocks, rest) = bytes.as_chunks::<{ BLOCK * 4 }>();
    let mut work = Work::new(index);
    for (number, block) in blocks.iter().enumerate() {
        if avx512::special(block) {
            work.block(dtype, block, &[]);
        } else {
            let later = &bytes[(number + 1) * block.len()..];
            prefetch(&later[..later.len().min(block.len())]);
            work.absorb(block, dtype);
            let found = avx512::absorb(block, &mut work.projector, work.group);
            work.group += (BLOCK / GROUP) as u64;
            work.part.sum += pairwise(found.sums);
            work.part.sum_of_squares += pairwise(found.squares);
            work.part.min = lesser(work.part.min, found.min);
            work.part.max = greater(work.part.max, found.max);
            work.part.zeros += found.zeros;
            work.part.finite += BLOCK as u64;
        }
        work.count_unwritten(block, dtype, poison);
    }
    if !rest.is_empty() {
        work.block(dtype, rest, &[]);
        work.count_unwritten(rest, dtype, poison);
    }
    work.finish()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn part_avx2(dtype: DType, bytes: &[u8], index: u64, poison: Option<&Poison>) -> Part {
    part_body(dtype, bytes, index, poison)
}

pub(super) fn part_baseline(
    dtype: DType,
    bytes: &[u8],
    index: u64,
    poison: Option<&Poison>,
) -> Part {
    part_body(dtype, bytes, index, poison)
}

#[inline(always)]
fn part_body(dtype: DType, bytes: &[u8], index: u64, poison: Option<&Poison>) -> Part {
    let mut work = Work::new(index);
    let block_bytes = BLOCK * dtype.size();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (block, later) = rest.split_at(rest.len().min(block_bytes));
        rest = later;
        work.block(dtype, block, &later[..later.len().min(block_bytes)]);
        work.count_unwritten(block, dtype, poison);
    }
    work.finish()
}

/// Starts where a cache line does: a vector that straddles two lines takes twice as long.
#[repr(align(64))]
struct Aligned<T>(T);

/// Asks for these bytes, without waiting for them.
#[inline(always)]
fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has this instruction; it reads nothing, and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// The state of a part while its blocks go by.
struct Work {
    part: Part,
    projector: Projector,
    /// The number of the block's first group of the sketch.
    group: u64,
    /// The number of the block's first element.
    element: u64,
}

impl Work {
    #[inline(always)]
    fn new(index: u64) -> Work {
        let element = index * PART as u64;
        let part = Part {
            sums: Sums::default(),
            sketch: Sketch::default(),
            finite: 0,
            sum: 0.0,
            sum_of_squares: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            zeros: 0,
            nan: 0,
            inf: 0,
            unwritten: 0,
        };
        Work { part, projector: Projector::default(), group: element / GROUP as u64, element }
    }

    /// Takes one block; `next` is the one that follows, to be asked for in time.
    #[inline(always)]
    fn block(&mut self, dtype: DType, block: &[u8], next: &[u8]) {
        let mut aligned = Aligned([0f64; BLOCK]);
        let values = &mut aligned.0;
        let count = block.len() / dtype.size();
        // The next block comes from memory while this one is worked on.
        let mut next = next.chunks(BLOCK * dtype.size() / 4);
        let special = decode(dtype, block, values);
        if special {
            self.special_block(dtype, block, values);
        } else {
            next.next().into_iter().for_each(prefetch);
            self.absorb(block, dtype);
            self.extremes(&values[..count]);
        }
        next.next().into_iter().for_each(prefetch);
        self.moments(values);
        next.for_each(prefetch);
        let padded = count.next_multiple_of(GROUP);
        self.projector.absorb(&values[..padded], self.group);
        self.group += (BLOCK / GROUP) as u64;
    }

    #[inline(always)]
    fn count_unwritten(&mut self, block: &[u8], dtype: DType, poison: Option<&Poison>) {
        if let Some(poison) = poison {
            self.part.unwritten += poison.count(block, dtype);
        }
    }

    #[inline(always)]
    fn finish(mut self) -> Part {
        self.part.sketch = self.projector.finish();
        self.part
    }

    /// Adds a block of canonical elements to the checksum, padded by zeros to whole chunks.
    #[inline(always)]
    fn absorb(&mut self, block: &[u8], dtype: DType) {
        let first_chunk = self.element * dtype.size() as u64 / CHUNK_BYTES as u64;
        let (whole, rest) = block.split_at(block.len() / CHUNK_BYTES * CHUNK_BYTES);
        self.part.sums.absorb(whole, first_chunk);
        if !rest.is_empty() {
            let mut padded = [0u8; CHUNK_BYTES];
            padded[..rest.len()].copy_from_slice(rest);
            self.part.sums.absorb(&padded, first_chunk + (whole.len() / CHUNK_BYTES) as u64);
        }
        self.element += (block.len() / dtype.size()) as u64;
    }

    /// Takes a block that holds NaN or infinity: these leave `values` and are counted.
    #[inline(never)]
    fn special_block(&mut self, dtype: DType, block: &[u8], values: &mut [f64; BLOCK]) {
        let size = dtype.size();
        let mut canonical = [0u8; BLOCK * 8];
        canonical[..block.len()].copy_from_slice(block);
        let mut finite = Vec::with_capacity(BLOCK);
        let count = block.len() / size;
        for (value, bytes) in values[..count].iter_mut().zip(canonical.chunks_exact_mut(size)) {
            if value.is_finite() {
                finite.push(*value);
                continue;
            }
            if value.is_nan() {
                self.part.nan += 1;
                bytes.copy_from_slice(canonical_nan(dtype));
            } else {
                self.part.inf += 1;
            }
            *value = 0.0;
        }
        self.absorb(&canonical[..block.len()], dtype);
        self.extremes(&finite);
    }

    /// Adds the values, padded by zeros, to the sums.
    #[inline(always)]
    fn moments(&mut self, values: &[f64; BLOCK]) {
        // Two loops: in one, the two kinds of sums are put into vectors together.
        let mut sums = [0f64; LANES];
        for row in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                sums[lane] += row[lane];
            }
        }
        let mut squares = [0f64; LANES];
        for row in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                squares[lane] += row[lane] * row[lane];
            }
        }
        self.part.sum += pairwise(sums);
        self.part.sum_of_squares += pairwise(squares);
    }

    /// Counts finite values and zeros, and takes the extremes.
    #[inline(always)]
    fn extremes(&mut self, values: &[f64]) {
        // A loop for each, as in `moments`.
        let (rows, rest) = values.as_chunks::<LANES>();
        let mut min = [f64::INFINITY; LANES];
        for row in rows {
            for lane in 0..LANES {
                min[lane] = lesser(min[lane], row[lane]);
            }
        }
        let mut max = [f64::NEG_INFINITY; LANES];
        for row in rows {
            for lane in 0..LANES {
                max[lane] = greater(max[lane], row[lane]);
            }
        }
        let mut zeros = 0u64;
        for value in values {
            zeros += u64::from(value.to_bits() << 1 == 0);
        }
        self.part.min = min.iter().chain(rest).fold(self.part.min, |a, &b| lesser(a, b));
        self.part.max = max.iter().chain(rest).fold(self.part.max, |a, &b| greater(a, b));
        self.part.zeros += zeros;
        self.part.finite += values.len() as u64;
    }
}

/// The lesser of two finite numbers; the first of two zeros.
#[inline(always)]
fn lesser(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// The greater of two finite numbers; the first of two zeros.
#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// The sum of the lanes, halves on halves.
#[inline(always)]
fn pairwise(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Writes the elements as float64 and says whether one of them is NaN or infinite.
#[inline(always)]
fn decode(dtype: DType, bytes: &[u8], values: &mut [f64; BLOCK]) -> bool {
    macro_rules! convert {
        ($raw:ty, $exponent:expr, $value:expr) => {{
            let mut special: $raw = 0;
            for (slot, bytes) in values.iter_mut().zip(bytes.as_chunks::<{ size_of::<$raw>() }>().0)
            {
                let raw = <$raw>::from_le_bytes(*bytes);
                special |= <$raw>::from((raw & $exponent) == $exponent);
                *slot = $value(raw);
            }
            special != 0
        }};
        ($raw:ty) => {{
            for (slot, bytes) in values.iter_mut().zip(bytes.as_chunks::<{ size_of::<$raw>() }>().0)
            {
                *slot = <$raw>::from_le_bytes(*bytes) as f64;
            }
            false
        }};
    }
    match dtype {
        DType::F64 => convert!(u64, 0x7FF0_0000_0000_0000, f64::from_bits),
        DType::F32 => convert!(u32, 0x7F80_0000, |raw| f64::from(f32::from_bits(raw))),
        DType::F16 => convert!(u16, 0x7C00, f16_value),
        DType::BF16 => {
            convert!(u16, 0x7F80, |raw| f64::from(f32::from_bits(u32::from(raw) << 16)))
        }
        DType::I64 => convert!(i64),
        DType::I32 => convert!(i32),
        DType::I16 => convert!(i16),
        DType::I8 => convert!(i8),
        DType::U64 => convert!(u64),
        DType::U32 => convert!(u32),
        DType::U16 => convert!(u16),
        DType::U8 | DType::Bool => convert!(u8),
    }
}

/// The value of a binary16: its bits moved into a binary32 and the exponent's bias made right,
/// which is exact for denormals too.
#[inline(always)]
fn f16_value(raw: u16) -> f64 {
    let magnitude = if raw & 0x7C00 == 0x7C00 {
        f32::from_bits(0x7F80_0000 | (u32::from(raw & 0x03FF) << 13))
    } else {
        f32::from_bits(u32::from(raw & 0x7FFF) << 13) * f32::from_bits(0x7780_0000)
    };
    f64::from(f32::from_bits(magnitude.to_bits() | (u32::from(raw & 0x8000) << 16)))
}

/// The one NaN that stands for all of a dtype: quiet, positive, no payload.
fn canonical_nan(dtype: DType) -> &'static [u8] {
    match dtype {
        DType::F64 => &[0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
        DType::F32 => &[0, 0, 0xC0, 0x7F],
        DType::F16 => &[0x00, 0x7E],
        _ => &[0xC0, 0x7F],
    }
}

/// Sum and sum of squares of the finite elements, each divided by a power of two first: for
/// tensors whose plain sums leave the range of float64.
pub(super) fn scaled_moments(view: &TensorView, inverse_scale: f64) -> (f64, f64) {
    let mut values = [0f64; BLOCK];
    let (mut sum, mut sum_of_squares) = (0.0, 0.0);
    for block in view.bytes.chunks(BLOCK * view.dtype.size()) {
        decode(view.dtype, block, &mut values);
        for value in &values[..block.len() / view.dtype.size()] {
            if value.is_finite() {
                let scaled = value * inverse_scale;
                sum += scaled;
                sum_of_squares += scaled * scaled;
            }
        }
    }
    (sum, sum_of_squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_precision_value_is_decoded_exactly() {
        for dtype in [DType::F16, DType::BF16] {
            let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let mut values = [0f64; BLOCK];
            for block in bytes.chunks(2 * BLOCK) {
                let special = decode(dtype, block, &mut values);
                assert_eq!(special, values.iter().any(|value| !value.is_finite()));
                let view = TensorView { dtype, shape: &[BLOCK], bytes: block };
                for (i, value) in values.iter().enumerate() {
                    let expected = view.get_f64(i);
                    let same = value.to_bits() == expected.to_bits();
                    assert!(same || (value.is_nan() && expected.is_nan()), "{value} {expected}");
                }
            }
        }
    }
}
