//! The sums over elements, run by run: total, squares, and the buckets of the sketch.
//!
//! Every sum takes its terms in one order, whatever the width of the vectors.

use super::sketch::{PROJECTIONS, RUN_UNITS, Sketch, SketchDraw};

/// Lanes of the sums of elements.
const SUMS: usize = 8;
/// Lanes of the sums of squares.
const SQUARES: usize = 16;
/// The most elements of a run: of one byte each.
pub(super) const RUN_ELEMENTS: usize = RUN_UNITS * 16;

/// The sums of one part of a tensor.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Moments {
    /// Where a unit holds `K` elements, lane `place * K + element` has the signed sum of element
    /// `element` of all units `u` with `u % 16 ^ turn == place`.
    signed: [f64; PROJECTIONS * 16],
    sum: [f64; SUMS],
    squares: [f64; SQUARES],
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { signed: [0.0; _], sum: [0.0; _], squares: [0.0; _] }
    }
}

impl Moments {
    /// Adds a run of elements of `size` bytes; elements beyond the tensor's end are zero.
    #[inline(always)]
    pub(super) fn absorb(&mut self, size: usize, values: &[f64; RUN_ELEMENTS], draw: SketchDraw) {
        match size {
            8 => self.run::<2, 32>(values, draw),
            4 => self.run::<4, 64>(values, draw),
            2 => self.run::<8, 64>(values, draw),
            _ => self.run::<16, 64>(values, draw),
        }
    }

    /// A run of units of `K` elements: four rows of sixteen units, `W` elements of each row at a
    /// time.
    #[inline(always)]
    fn run<const K: usize, const W: usize>(
        &mut self,
        values: &[f64; RUN_ELEMENTS],
        draw: SketchDraw,
    ) {
        let signs: [u32; RUN_UNITS] = std::array::from_fn(|unit| draw.signs(unit as u32));
        let quads: [u8; RUN_ELEMENTS / 4] = std::array::from_fn(|quad| {
            if quad < RUN_UNITS * K / 4 { signs_of_quad::<K>(&signs, quad) } else { 0 }
        });
        let mut squares = [0f64; SQUARES];
        for first in (0..PROJECTIONS * K).step_by(W) {
            let mut total = [0f64; W];
            let mut negative = [0f64; W];
            for row in 0..RUN_UNITS / PROJECTIONS {
                let values = &values[row * PROJECTIONS * K + first..][..W];
                let quads = &quads[(row * PROJECTIONS * K + first) / 4..][..W / 4];
                for quad in 0..W / 4 {
                    let masks = &MASKS[quads[quad] as usize];
                    for (lane, mask) in (4 * quad..).zip(masks) {
                        total[lane] += values[lane];
                        negative[lane] += f64::from_bits(values[lane].to_bits() & mask);
                    }
                }
                for lane in 0..W {
                    squares[lane % SQUARES] += values[lane] * values[lane];
                }
            }
            for lane in 0..W {
                let place = ((first + lane) / K) ^ draw.turn;
                self.signed[place * K + lane % K] += total[lane] - 2.0 * negative[lane];
            }
            let mut half = W / 2;
            while half >= SUMS {
                for lane in 0..half {
                    total[lane] += total[lane + half];
                }
                half /= 2;
            }
            self.sum.iter_mut().zip(total).for_each(|(sum, total)| *sum += total);
        }
        self.squares.iter_mut().zip(squares).for_each(|(sum, squares)| *sum += squares);
    }

    /// The sum of all elements, the sum of their squares, and the sketch, of elements of `size` bytes.
    pub(super) fn finish(&self, size: usize) -> (f64, f64, Sketch) {
        let per_unit = 16 / size;
        let mut buckets = [0f64; PROJECTIONS];
        for (place, lanes) in self.signed.chunks_exact(per_unit).take(PROJECTIONS).enumerate() {
            for (element, lane) in lanes.iter().enumerate() {
                buckets[place ^ ((element * size) & 12)] += lane;
            }
        }
        (sum_pairwise(&self.sum), sum_pairwise(&self.squares), Sketch::of_buckets(buckets))
    }
}

/// The signs of elements `4 * quad..` of a run, one bit each, where units have `K` elements.
#[inline(always)]
fn signs_of_quad<const K: usize>(signs: &[u32; RUN_UNITS], quad: usize) -> u8 {
    // The lowest of the K highest bits belongs to the first element of a unit.
    let first = 4 * quad;
    if K >= 4 {
        signs_from::<K>(signs, first) as u8 & 15
    } else {
        signs_from::<K>(signs, first) as u8 & 3 | (signs_from::<K>(signs, first + 2) as u8 & 3) << 2
    }
}

/// The signs of `element` and of those behind it in its unit, from the lowest bit on.
#[inline(always)]
fn signs_from<const K: usize>(signs: &[u32; RUN_UNITS], element: usize) -> u32 {
    signs[element / K] >> (32 - K + element % K)
}

/// All bits of number `i` of a mask are those of bit `i` of its index.
const MASKS: [[u64; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut bit = 0;
    while bit < 64 {
        masks[bit / 4][bit % 4] = if (bit / 4) >> (bit % 4) & 1 == 1 { u64::MAX } else { 0 };
        bit += 1;
    }
    masks
};

/// The sum of a power of two of numbers, halves on halves.
fn sum_pairwise(numbers: &[f64]) -> f64 {
    let (left, right) = numbers.split_at(numbers.len() / 2);
    if left.is_empty() { right[0] } else { sum_pairwise(left) + sum_pairwise(right) }
}
