//! Reads one part of a tensor, once, and computes its share of a summary.
//!
//! The loops are plain Rust over arrays of fixed width. Nothing is reordered or contracted, so vectors of
//! every width give the same bits.

use super::checksum::{ChecksumSums, UNIT_BYTES};
use super::moments::{Moments, RUN_ELEMENTS};
use super::poison::Poison;
use super::sketch::{RUN_BYTES, Sketch, SketchDraw};
use crate::tensor::float8::{E4M3, E5M2};
use crate::tensor::vectors::widest;
use crate::tensor::{DType, TensorView};

/// Bytes of one part; a multiple of a run's.
pub(super) const PART_BYTES: usize = 1 << 18;
/// Extremes found side by side.
const LANES: usize = 16;

/// The share of one part in a summary.
#[derive(Clone, Debug)]
pub(super) struct SummaryPart {
    pub(super) sums: ChecksumSums,
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

/// Summarises part `index` of a tensor, whose bytes are `bytes`, with the widest vectors of the processor.
pub(super) fn summarise_part(
    dtype: DType,
    bytes: &[u8],
    index: u64,
    poison: Option<&Poison>,
) -> SummaryPart {
    widest!(summarise_part_inlined(dtype, bytes, index, poison))
}

/// [`summarise_part`] with the vectors of whatever it is inlined into.
#[inline(always)]
pub(super) fn summarise_part_inlined(
    dtype: DType,
    bytes: &[u8],
    index: u64,
    poison: Option<&Poison>,
) -> SummaryPart {
    let mut work = PassState::new(dtype, index);
    let mut values = [0f64; RUN_ELEMENTS];
    for run in bytes.chunks(RUN_BYTES) {
        work.run(run, &mut values);
    }
    work.finish(bytes, poison)
}

/// The state of a part while its runs go by.
struct PassState {
    dtype: DType,
    /// The sums outside of `moments`.
    part: SummaryPart,
    moments: Moments,
    /// The number of the next run, from the start of the tensor.
    number: u64,
}

impl PassState {
    #[inline(always)]
    fn new(dtype: DType, index: u64) -> PassState {
        let part = SummaryPart {
            sums: ChecksumSums::default(),
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
        let number = index * (PART_BYTES / RUN_BYTES) as u64;
        PassState { dtype, part, moments: Moments::default(), number }
    }

    /// Takes the next run; it may be short only at the tensor's end. `values` is room for it.
    #[inline(always)]
    fn run(&mut self, run: &[u8], values: &mut [f64; RUN_ELEMENTS]) {
        let count = run.len() / self.dtype.size();
        if decode_elements(self.dtype, run, values) {
            self.special_run(run, values);
        } else {
            self.mix(run);
            self.extremes(&values[..count]);
        }
        if run.len() < RUN_BYTES {
            values[count..].fill(0.0);
        }
        self.moments.absorb(self.dtype.size(), values, SketchDraw::from_run(self.number));
        self.number += 1;
    }

    /// Adds a run of canonical elements to the checksum.
    #[inline(always)]
    fn mix(&mut self, run: &[u8]) {
        self.part.sums.absorb(run, self.number * (RUN_BYTES / UNIT_BYTES) as u64);
    }

    /// The part, whose bytes are `bytes`.
    #[inline(always)]
    fn finish(mut self, bytes: &[u8], poison: Option<&Poison>) -> SummaryPart {
        if let Some(poison) = poison {
            self.part.unwritten = poison.count(bytes, self.dtype);
        }
        let (sum, sum_of_squares, sketch) = self.moments.finish(self.dtype.size());
        // Adding 0 turns -0 into 0: the order of two zeros then leaves no trace.
        let min = self.part.min + 0.0;
        let max = self.part.max + 0.0;
        SummaryPart { sum, sum_of_squares, sketch, min, max, ..self.part }
    }

    /// Takes a run with NaN or infinity: these leave `values` and are counted.
    #[inline(never)]
    fn special_run(&mut self, run: &[u8], values: &mut [f64; RUN_ELEMENTS]) {
        let size = self.dtype.size();
        let mut canonical = [0u8; RUN_BYTES];
        canonical[..run.len()].copy_from_slice(run);
        let mut finite = Vec::with_capacity(RUN_ELEMENTS);
        let count = run.len() / size;
        for (value, bytes) in values[..count].iter_mut().zip(canonical.chunks_exact_mut(size)) {
            if value.is_finite() {
                finite.push(*value);
                continue;
            }
            if value.is_nan() {
                self.part.nan += 1;
                bytes.copy_from_slice(canonical_nan(self.dtype));
            } else {
                self.part.inf += 1;
            }
            *value = 0.0;
        }
        self.mix(&canonical[..run.len()]);
        self.extremes(&finite);
    }

    /// Counts finite values and zeros, and takes the extremes.
    #[inline(always)]
    fn extremes(&mut self, values: &[f64]) {
        // A loop for each: in one, the two extremes are put into vectors together.
        let (rows, rest) = values.as_chunks::<LANES>();
        let mut min = [f64::INFINITY; LANES];
        for row in rows {
            for lane in 0..LANES {
                min[lane] = lesser_finite(min[lane], row[lane]);
            }
        }
        let mut max = [f64::NEG_INFINITY; LANES];
        for row in rows {
            for lane in 0..LANES {
                max[lane] = greater_finite(max[lane], row[lane]);
            }
        }
        let mut zeros = 0u64;
        for value in values {
            zeros += u64::from(value.to_bits() << 1 == 0);
        }
        self.part.min = min.iter().chain(rest).fold(self.part.min, |a, &b| lesser_finite(a, b));
        self.part.max = max.iter().chain(rest).fold(self.part.max, |a, &b| greater_finite(a, b));
        self.part.zeros += zeros;
        self.part.finite += values.len() as u64;
    }
}

/// The lesser of two finite numbers; the first of two zeros.
#[inline(always)]
fn lesser_finite(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// The greater of two finite numbers; the first of two zeros.
#[inline(always)]
fn greater_finite(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// Writes the elements as float64 and says whether one of them is NaN or infinite.
#[inline(always)]
fn decode_elements(dtype: DType, bytes: &[u8], values: &mut [f64; RUN_ELEMENTS]) -> bool {
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
        DType::F8E4M3 => decode_float8(&E4M3, bytes, values),
        DType::F8E5M2 => decode_float8(&E5M2, bytes, values),
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

/// [`decode_elements`] for floats of 8 bits, whose numbers are `value_of_code`.
#[inline(always)]
fn decode_float8(
    value_of_code: &[f64; 256],
    bytes: &[u8],
    values: &mut [f64; RUN_ELEMENTS],
) -> bool {
    let mut special = false;
    for (slot, code) in values.iter_mut().zip(bytes) {
        *slot = value_of_code[usize::from(*code)];
        special |= !slot.is_finite();
    }
    special
}

/// The value of a binary16: its bits moved into a binary32, and the exponent's bias corrected. This is exact for
/// denormals too.
#[inline(always)]
fn f16_value(raw: u16) -> f64 {
    let magnitude = if raw & 0x7C00 == 0x7C00 {
        f32::from_bits(0x7F80_0000 | (u32::from(raw & 0x03FF) << 13))
    } else {
        f32::from_bits(u32::from(raw & 0x7FFF) << 13) * f32::from_bits(0x7780_0000)
    };
    f64::from(f32::from_bits(magnitude.to_bits() | (u32::from(raw & 0x8000) << 16)))
}

/// The canonical NaN of a dtype: quiet, positive, no payload.
fn canonical_nan(dtype: DType) -> &'static [u8] {
    match dtype {
        DType::F64 => &[0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
        DType::F32 => &[0, 0, 0xC0, 0x7F],
        DType::F16 => &[0x00, 0x7E],
        DType::F8E4M3 => &[0x7F],
        DType::F8E5M2 => &[0x7E],
        _ => &[0xC0, 0x7F],
    }
}

/// Sum and sum of squares of the finite elements, each divided by a power of two first: for
/// tensors whose plain sums leave the range of float64.
pub(super) fn scaled_moments(view: &TensorView, inverse_scale: f64) -> (f64, f64) {
    let mut values = [0f64; RUN_ELEMENTS];
    let mut sum = 0.0;
    let mut sum_of_squares = 0.0;
    for run in view.bytes.chunks(RUN_BYTES) {
        decode_elements(view.dtype, run, &mut values);
        for value in &values[..run.len() / view.dtype.size()] {
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
            let mut values = [0f64; RUN_ELEMENTS];
            for run in bytes.chunks(RUN_BYTES) {
                let special = decode_elements(dtype, run, &mut values);
                let view = TensorView { dtype, shape: &[RUN_BYTES / 2], bytes: run };
                let values = &values[..RUN_BYTES / 2];
                assert_eq!(special, values.iter().any(|value| !value.is_finite()));
                for (i, value) in values.iter().enumerate() {
                    let expected = view.get_f64(i);
                    let same = value.to_bits() == expected.to_bits();
                    assert!(same || (value.is_nan() && expected.is_nan()), "{value} {expected}");
                }
            }
        }
    }
}
