//! The pass with 512-bit vectors: one load of each element serves extremes, moments and sketch.
//!
//! Every sum takes its terms in the order of `moments`, so the bits are the same. Runs that may
//! hold NaN or infinity, and short ones, go the portable way.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::checksum::{START, STEP, Sums};
use super::moments::{Moments, RUN_ELEMENTS};
use super::pass::{Part, Work};
use super::poison::Poison;
use super::sketch::{Draw, PROJECTIONS, RUN_BYTES, RUN_UNITS, SIGN_MIX, SIGN_STEP};
use crate::tensor::DType;
use crate::tensor::float8::{E4M3, E5M2};

/// Elements of a vector.
const LANES: usize = 8;
/// Vectors whose sums are kept in registers at a time.
const VECTORS: usize = 8;
/// Bytes that the checksum mixes side by side.
const CHUNK_BYTES: usize = LANES * 16;
/// Bytes from the chunk in work to the one that is prefetched.
const AHEAD: usize = 4096;

/// Whether this processor has the features that the functions here are compiled for.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("f16c")
}

/// `pass::part`, for a processor that [`is_supported`].
#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
pub(super) fn part(dtype: DType, bytes: &[u8], index: u64, poison: Option<&Poison>) -> Part {
    macro_rules! of {
        ($($dtype:ident)*) => {
            match dtype {
                $(DType::$dtype => part_of::<{ DType::$dtype as u8 }>(dtype, bytes, index, poison),)*
            }
        };
    }
    of!(F64 F32 F16 BF16 F8E4M3 F8E5M2 I64 I32 I16 I8 U64 U32 U16 U8 Bool)
}

#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
fn part_of<const DTYPE: u8>(
    dtype: DType,
    bytes: &[u8],
    index: u64,
    poison: Option<&Poison>,
) -> Part {
    let mut work = Work::new(dtype, index);
    let mut tally = Tally::new();
    let (runs, rest) = bytes.as_chunks::<RUN_BYTES>();
    for run in runs {
        if absorb::<DTYPE>(run, work.number, &mut work.moments, &mut tally) {
            work.part.finite += (RUN_BYTES / dtype.size()) as u64;
            work.number += 1;
        } else {
            portable(&mut work, run);
        }
    }
    if !rest.is_empty() {
        portable(&mut work, rest);
    }
    tally.add_to(&mut work.part);
    work.finish(bytes, poison)
}

/// Takes a run the portable way.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
fn portable(work: &mut Work, run: &[u8]) {
    work.run(run, &mut [0.0; RUN_ELEMENTS]);
}

/// The sums of the runs so far beside their moments: extremes, zeros and checksum.
struct Tally {
    min: __m512d,
    max: __m512d,
    zeros: u64,
    /// The sums of the checksum.
    x: __m512i,
    y: __m512i,
}

impl Tally {
    #[target_feature(enable = "avx512f")]
    fn new() -> Tally {
        Tally {
            min: _mm512_set1_pd(f64::INFINITY),
            max: _mm512_set1_pd(f64::NEG_INFINITY),
            zeros: 0,
            x: _mm512_setzero_si512(),
            y: _mm512_setzero_si512(),
        }
    }

    #[target_feature(enable = "avx512f")]
    fn add_to(&self, part: &mut Part) {
        part.min = part.min.min(_mm512_reduce_min_pd(self.min));
        part.max = part.max.max(_mm512_reduce_max_pd(self.max));
        part.zeros += self.zeros;
        let (x, y) = (_mm512_reduce_add_epi64(self.x), _mm512_reduce_add_epi64(self.y));
        part.sums.merge(&Sums { x: x as u64, y: y as u64 });
    }
}

/// Elements of type `DTYPE` in a unit of 16 bytes.
const fn per_unit(dtype: u8) -> usize {
    let mut at = 0;
    while DType::ALL[at] as u8 != dtype {
        at += 1;
    }
    16 / DType::ALL[at].size()
}

/// Whether the square of an element is exact in float64, so that adding it rounds once anyway.
const fn squares_are_exact(dtype: u8) -> bool {
    dtype == DType::F32 as u8 || per_unit(dtype) >= 8
}

/// Takes a run of finite elements. Returns false, and changes nothing, if the sum of their squares
/// is not finite.
#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
fn absorb<const DTYPE: u8>(
    run: &[u8; RUN_BYTES],
    number: u64,
    moments: &mut Moments,
    tally: &mut Tally,
) -> bool {
    let per_unit = const { per_unit(DTYPE) };
    let size = 16 / per_unit;
    // Vectors of a row of sixteen units, and how many of them are taken at a time.
    let row_vectors = PROJECTIONS * per_unit / LANES;
    let width = row_vectors.min(VECTORS);
    let draw = Draw::of(number);
    let masks = masks(per_unit, draw);
    let zero = _mm512_setzero_pd();
    let (mut min, mut max) = (tally.min, tally.max);
    let mut least = _mm512_set1_pd(f64::INFINITY);
    let mut mixer = Mixer::new(number * RUN_UNITS as u64, tally.x, tally.y);
    let mut squares = [zero; 2];
    let mut totals = [[zero; VECTORS]; 4];
    let mut negatives = [[zero; VECTORS]; 4];
    for (group, first) in (0..row_vectors).step_by(width).enumerate() {
        let mut total = [zero; VECTORS];
        let mut negative = [zero; VECTORS];
        for row in 0..RUN_UNITS / PROJECTIONS {
            for vector in 0..width {
                let place = row * row_vectors + first + vector;
                // SAFETY: the vector lies in the run, as `place` is less than the run's vectors.
                let value = unsafe { load::<DTYPE>(run.as_ptr().add(place * LANES * size)) };
                min = _mm512_min_pd(min, value);
                max = _mm512_max_pd(max, value);
                least = _mm512_range_pd::<LESSER_MAGNITUDE>(least, value);
                squares[vector % 2] = add_square::<DTYPE>(value, squares[vector % 2]);
                total[vector] = _mm512_add_pd(total[vector], value);
                let (sum, mask) = (negative[vector], masks[place]);
                negative[vector] = _mm512_mask_add_pd(sum, mask, sum, value);
            }
            if group == 0 {
                let row = &run.as_chunks::<{ PROJECTIONS * 16 }>().0[row];
                for chunk in row.as_chunks::<CHUNK_BYTES>().0 {
                    prefetch(chunk);
                    mixer.absorb(chunk);
                }
            }
        }
        (totals[group], negatives[group]) = (total, negative);
    }
    if _mm512_fpclass_pd_mask::<NOT_FINITE>(_mm512_add_pd(squares[0], squares[1])) != 0 {
        return false;
    }
    (tally.min, tally.max, tally.x, tally.y) = (min, max, mixer.x, mixer.y);
    if _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(least, zero) != 0 {
        tally.zeros += zeros::<DTYPE>(run);
    }
    for (group, first) in (0..row_vectors).step_by(width).enumerate() {
        spread(per_unit, first, width, &totals[group], &negatives[group], draw, moments);
    }
    add_squares(moments, squares);
    true
}

/// Adds the sums of squares to their lanes.
#[target_feature(enable = "avx512f")]
fn add_squares(moments: &mut Moments, squares: [__m512d; 2]) {
    for (lanes, squares) in moments.squares.as_chunks_mut::<LANES>().0.iter_mut().zip(squares) {
        add(lanes, squares);
    }
}

/// The square of a vector of elements, added to `sum`.
#[target_feature(enable = "avx512f")]
fn add_square<const DTYPE: u8>(value: __m512d, sum: __m512d) -> __m512d {
    if const { squares_are_exact(DTYPE) } {
        _mm512_fmadd_pd(value, value, sum)
    } else {
        _mm512_add_pd(sum, _mm512_mul_pd(value, value))
    }
}

/// The zeros of a run.
#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
fn zeros<const DTYPE: u8>(run: &[u8; RUN_BYTES]) -> u64 {
    let size = 16 / const { per_unit(DTYPE) };
    let of_vector = |vector: &[u8]| {
        // SAFETY: the chunk holds the elements.
        let value = unsafe { load::<DTYPE>(vector.as_ptr()) };
        let zeros = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(value, _mm512_setzero_pd());
        u64::from(zeros.count_ones())
    };
    run.chunks_exact(LANES * size).map(of_vector).sum()
}

/// Prefetches the bytes that lie [`AHEAD`] of a chunk.
#[target_feature(enable = "avx512f")]
fn prefetch(chunk: &[u8; CHUNK_BYTES]) {
    // Reads nothing, and so does no harm behind the end of the tensor.
    let from = chunk.as_ptr().wrapping_add(AHEAD);
    _mm_prefetch::<_MM_HINT_T0>(from.cast());
    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(64).cast());
}

/// `vrangepd`: the lesser magnitude, without its sign.
const LESSER_MAGNITUDE: i32 = 0b1010;
/// `vfpclasspd`: quiet and signalling NaN, and both infinities.
const NOT_FINITE: i32 = 0x99;

/// The sums of the checksum while units go by, eight at a time.
struct Mixer {
    x: __m512i,
    y: __m512i,
    key_x: __m512i,
    key_y: __m512i,
}

impl Mixer {
    /// Goes on with sums `x` and `y` at unit `unit`.
    #[target_feature(enable = "avx512f,avx512dq")]
    fn new(unit: u64, x: __m512i, y: __m512i) -> Mixer {
        // The order in which `absorb` finds the units.
        const ORDER: [u64; LANES] = [0, 4, 1, 5, 2, 6, 3, 7];
        let key = |word: usize| {
            let first = START[word].wrapping_add(unit.wrapping_mul(STEP[word]));
            let lanes = ORDER.map(|lane| lane.wrapping_mul(STEP[word]).cast_signed());
            let [a, b, c, d, e, f, g, h] = lanes;
            let lanes = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
            _mm512_add_epi64(_mm512_set1_epi64(first.cast_signed()), lanes)
        };
        Mixer { x, y, key_x: key(0), key_y: key(1) }
    }

    #[target_feature(enable = "avx512f")]
    fn absorb(&mut self, chunk: &[u8; CHUNK_BYTES]) {
        // SAFETY: the chunk holds both vectors.
        let (left, right) = unsafe {
            let from = chunk.as_ptr();
            (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast()))
        };
        let mut x = _mm512_add_epi64(_mm512_unpacklo_epi64(left, right), self.key_x);
        let mut y = _mm512_add_epi64(_mm512_unpackhi_epi64(left, right), self.key_y);
        x = round(x, y);
        y = round(y, x);
        x = round(x, y);
        y = round(y, x);
        self.x = _mm512_add_epi64(self.x, x);
        self.y = _mm512_add_epi64(self.y, y);
        let step =
            |word: usize| _mm512_set1_epi64(STEP[word].wrapping_mul(LANES as u64).cast_signed());
        self.key_x = _mm512_add_epi64(self.key_x, step(0));
        self.key_y = _mm512_add_epi64(self.key_y, step(1));
    }
}

/// `checksum::round`. Halves are swapped by shuffles: shifts and rotations would wait for the unit
/// that multiplies.
#[target_feature(enable = "avx512f")]
fn round(word: __m512i, other: __m512i) -> __m512i {
    const SWAP: i32 = 0b10_11_00_01;
    let product = _mm512_mul_epu32(other, _mm512_shuffle_epi32::<SWAP>(other));
    _mm512_add_epi64(_mm512_shuffle_epi32::<SWAP>(word), product)
}

/// Adds the sums of some vectors of a row, the first of them vector `first`, to their lanes.
#[target_feature(enable = "avx512f,avx512dq")]
fn spread(
    per_unit: usize,
    first: usize,
    width: usize,
    total: &[__m512d; VECTORS],
    negative: &[__m512d; VECTORS],
    draw: Draw,
    moments: &mut Moments,
) {
    // Lane l of a row goes to lane l ^ (turn * per_unit).
    let turn = draw.turn * per_unit;
    let places = _mm512_xor_si512(
        _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
        _mm512_set1_epi64((turn % LANES) as i64),
    );
    let two = _mm512_set1_pd(2.0);
    let lanes = moments.signed.as_chunks_mut::<LANES>().0;
    for vector in 0..width {
        let mut signed = _mm512_fnmadd_pd(two, negative[vector], total[vector]);
        if per_unit < LANES {
            signed = _mm512_permutexvar_pd(places, signed);
        }
        add(&mut lanes[(first + vector) ^ (turn / LANES)], signed);
    }
    let mut total = *total;
    let mut half = width / 2;
    while half > 0 {
        for vector in 0..half {
            total[vector] = _mm512_add_pd(total[vector], total[vector + half]);
        }
        half /= 2;
    }
    add(&mut moments.sum, total[0]);
}

/// Adds a vector to lanes in memory.
#[target_feature(enable = "avx512f")]
fn add(lanes: &mut [f64; LANES], vector: __m512d) {
    // SAFETY: the array is as long as the vector.
    unsafe {
        let sum = _mm512_add_pd(_mm512_loadu_pd(lanes.as_ptr()), vector);
        _mm512_storeu_pd(lanes.as_mut_ptr(), sum);
    }
}

/// The signs of a run's elements: bit `i` of the bytes is set where element `i` is negated.
#[target_feature(enable = "avx512f,avx512dq,avx2")]
fn masks(per_unit: usize, draw: Draw) -> [u8; RUN_UNITS * 2] {
    let mut masks = [0u8; RUN_UNITS * 2];
    let units = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (row, masks) in masks.chunks_exact_mut(2 * per_unit).take(4).enumerate() {
        let first = _mm512_set1_epi32((row * PROJECTIONS) as i32);
        let key = _mm512_add_epi32(
            _mm512_set1_epi32(draw.key as i32),
            _mm512_mullo_epi32(_mm512_add_epi32(first, units), _mm512_set1_epi32(SIGN_STEP as i32)),
        );
        let mixed = _mm512_xor_si512(key, _mm512_srli_epi32::<15>(key));
        let signs = _mm512_mullo_epi32(mixed, _mm512_set1_epi32(SIGN_MIX as i32));
        // The highest bits of each word, side by side.
        match per_unit {
            2 => {
                let two = _mm512_srli_epi32::<30>(signs);
                let four = low_bytes(_mm512_or_si512(two, _mm512_srli_epi64::<30>(two)));
                let eight = (four | four >> 4) & 0x00FF_00FF_00FF_00FF;
                let sixteen = (eight | eight >> 8) & 0x0000_FFFF_0000_FFFF;
                masks.copy_from_slice(&((sixteen | sixteen >> 16) as u32).to_le_bytes());
            }
            4 => {
                let four = _mm512_srli_epi32::<28>(signs);
                let eight = low_bytes(_mm512_or_si512(four, _mm512_srli_epi64::<28>(four)));
                masks.copy_from_slice(&eight.to_le_bytes());
            }
            8 => {
                let eight = _mm512_cvtepi32_epi8(_mm512_srli_epi32::<24>(signs));
                // SAFETY: the array has the sixteen bytes.
                unsafe { _mm_storeu_si128(masks.as_mut_ptr().cast(), eight) };
            }
            _ => {
                let sixteen = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(signs));
                // SAFETY: the array has the thirty-two bytes.
                unsafe { _mm256_storeu_si256(masks.as_mut_ptr().cast(), sixteen) };
            }
        }
    }
    masks
}

/// The lowest byte of each word of 64 bits.
#[target_feature(enable = "avx512f")]
fn low_bytes(words: __m512i) -> u64 {
    _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(words)) as u64
}

/// Eight elements as float64.
///
/// # Safety
/// There are eight elements at `from`.
#[target_feature(enable = "avx512f,avx512dq,avx2,f16c")]
unsafe fn load<const DTYPE: u8>(from: *const u8) -> __m512d {
    const F64: u8 = DType::F64 as u8;
    const F32: u8 = DType::F32 as u8;
    const F16: u8 = DType::F16 as u8;
    const BF16: u8 = DType::BF16 as u8;
    const F8E4M3: u8 = DType::F8E4M3 as u8;
    const F8E5M2: u8 = DType::F8E5M2 as u8;
    const I64: u8 = DType::I64 as u8;
    const I32: u8 = DType::I32 as u8;
    const I16: u8 = DType::I16 as u8;
    const I8: u8 = DType::I8 as u8;
    const U64: u8 = DType::U64 as u8;
    const U32: u8 = DType::U32 as u8;
    const U16: u8 = DType::U16 as u8;
    // SAFETY: the caller has eight elements, and each load takes as many bytes as they have.
    unsafe {
        match DTYPE {
            F64 => _mm512_loadu_pd(from.cast()),
            F32 => _mm512_cvtps_pd(_mm256_loadu_ps(from.cast())),
            F16 => _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(from.cast()))),
            BF16 => {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits)))
            }
            F8E4M3 | F8E5M2 => {
                let known = if DTYPE == F8E4M3 { &E4M3 } else { &E5M2 };
                let codes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(from.cast()));
                _mm512_i64gather_pd::<8>(codes, known.as_ptr())
            }
            I64 => _mm512_cvtepi64_pd(_mm512_loadu_si512(from.cast())),
            U64 => _mm512_cvtepu64_pd(_mm512_loadu_si512(from.cast())),
            I32 => _mm512_cvtepi32_pd(_mm256_loadu_si256(from.cast())),
            U32 => _mm512_cvtepu32_pd(_mm256_loadu_si256(from.cast())),
            I16 => _mm512_cvtepi32_pd(_mm256_cvtepi16_epi32(_mm_loadu_si128(from.cast()))),
            U16 => _mm512_cvtepi32_pd(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))),
            I8 => _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))),
            _ => _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))),
        }
    }
}
