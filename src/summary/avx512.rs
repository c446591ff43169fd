//! The inner loop for float32 with 512-bit vectors: one load of each element serves extremes,
//! moments and sketch.
//!
//! Every sum takes its terms in the order of the portable loops in `pass`, so the bits are theirs.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::sketch::{GROUP, LANES, Projector};

/// What a block of finite elements adds.
pub(super) struct Block {
    /// Sums over the elements `i` with `i % 16` equal to the place.
    pub(super) sums: [f64; 16],
    /// The same of their squares.
    pub(super) squares: [f64; 16],
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) zeros: u64,
}

/// Whether one of the elements is NaN or infinite.
#[target_feature(enable = "avx512f,avx512dq,avx2")]
pub(super) fn special(bytes: &[u8]) -> bool {
    let exponent = _mm512_set1_epi32(0x7F80_0000);
    let found = bytes.as_chunks::<64>().0.iter().fold(0u16, |found, chunk| {
        // SAFETY: the chunk has the 64 bytes that are read.
        let raw = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
        found | _mm512_cmpeq_epi32_mask(_mm512_and_si512(raw, exponent), exponent)
    });
    found != 0
}

/// Takes whole groups of finite elements, the first of them group `first_group` of the tensor, a
/// multiple of four.
#[target_feature(enable = "avx512f,avx512dq,avx2")]
pub(super) fn absorb(bytes: &[u8], projector: &mut Projector, first_group: u64) -> Block {
    let mut sums = [_mm512_setzero_pd(); 2];
    let mut squares = [_mm512_setzero_pd(); 2];
    let mut min = _mm256_set1_ps(f32::INFINITY);
    let mut max = _mm256_set1_ps(f32::NEG_INFINITY);
    let mut zeros = _mm256_setzero_si256();
    let mut words = [0u64; LANES];
    for (group_index, group) in (first_group..).zip(bytes.as_chunks::<{ GROUP * 4 }>().0) {
        Projector::next_words(&mut words, group_index);
        let mut rows = [_mm512_setzero_pd(); 16];
        for (place, bytes) in group.as_chunks::<{ LANES * 4 }>().0.iter().enumerate() {
            // SAFETY: the chunk has the 32 bytes that are read.
            let row = unsafe { _mm256_loadu_ps(bytes.as_ptr().cast()) };
            min = _mm256_min_ps(min, row);
            max = _mm256_max_ps(max, row);
            let zero = _mm256_cmp_ps::<_CMP_EQ_OQ>(row, _mm256_setzero_ps());
            zeros = _mm256_sub_epi32(zeros, _mm256_castps_si256(zero));
            let wide = _mm512_cvtps_pd(row);
            sums[place % 2] = _mm512_add_pd(sums[place % 2], wide);
            squares[place % 2] = _mm512_add_pd(squares[place % 2], _mm512_mul_pd(wide, wide));
            rows[place] = wide;
        }
        project(&mut rows, projector, &mut words);
    }
    let (mut least, mut greatest, mut counts) = ([0f32; 8], [0f32; 8], [0u32; 8]);
    // SAFETY: each array is as long as the vector that is written to it.
    unsafe {
        _mm256_storeu_ps(least.as_mut_ptr(), min);
        _mm256_storeu_ps(greatest.as_mut_ptr(), max);
        _mm256_storeu_si256(counts.as_mut_ptr().cast(), zeros);
    }
    Block {
        sums: lanes(sums),
        squares: lanes(squares),
        min: f64::from(least.into_iter().fold(f32::INFINITY, f32::min)),
        max: f64::from(greatest.into_iter().fold(f32::NEG_INFINITY, f32::max)),
        zeros: counts.into_iter().map(u64::from).sum(),
    }
}

/// Sixteen lanes as numbers.
#[target_feature(enable = "avx512f")]
fn lanes(halves: [__m512d; 2]) -> [f64; 16] {
    let mut out = [0f64; 16];
    // SAFETY: the array has room for both vectors.
    unsafe {
        _mm512_storeu_pd(out.as_mut_ptr(), halves[0]);
        _mm512_storeu_pd(out.as_mut_ptr().add(8), halves[1]);
    }
    out
}

/// The sixteen projections of one group, see `sketch`.
#[target_feature(enable = "avx512f,avx512dq")]
fn project(rows: &mut [__m512d; 16], projector: &mut Projector, words: &mut [u64; LANES]) {
    let sign = _mm512_set1_pd(-0.0);
    for bent in [3, 7, 11, 12, 13, 14] {
        rows[bent] = _mm512_xor_pd(rows[bent], sign);
    }
    macro_rules! stage {
        ($half:literal: $($upper:literal)*) => {$(
            (rows[$upper], rows[$upper + $half]) = (
                _mm512_add_pd(rows[$upper], rows[$upper + $half]),
                _mm512_sub_pd(rows[$upper], rows[$upper + $half]),
            );
        )*};
    }
    // Written out, so that the rows stay in registers.
    stage!(1: 0 2 4 6 8 10 12 14);
    stage!(2: 0 1 4 5 8 9 12 13);
    stage!(4: 0 1 2 3 8 9 10 11);
    stage!(8: 0 1 2 3 4 5 6 7);
    // SAFETY: the words and each row of sums are 64 bytes.
    unsafe {
        let all = _mm512_loadu_si512(words.as_ptr().cast());
        let mut bits = _mm512_slli_epi64::<63>(all);
        let sums = projector.sums_mut();
        for k in 0..16 {
            let signed = _mm512_xor_pd(rows[k], _mm512_and_pd(_mm512_castsi512_pd(bits), sign));
            let sum = _mm512_add_pd(_mm512_loadu_pd(sums[k].as_ptr()), signed);
            _mm512_storeu_pd(sums[k].as_mut_ptr(), sum);
            let places = _mm_cvtsi64_si128(62 - k as i64);
            bits = if k < 15 { _mm512_sll_epi64(all, places) } else { bits };
        }
        _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_srli_epi64::<16>(all));
    }
}
