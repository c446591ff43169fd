//! The float64 shadow of an output in 32 words: they tell a later shadow from it.
//!
//! Each element is a position in units of roundoff of the output's dtype, on a scale that is linear up to
//! the magnitude of the element's row and nearly logarithmic beyond. The magnitude of each row has a
//! position as well, as otherwise what scales a row as a whole would not be seen. Two sets of sixteen sums
//! over all positions are kept, modulo 2^32: differences are what counts. `docs/snapshots.md` describes them. All
//! but the division by a row's scale is in integers, so the words do not depend on threads or machines.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::CompareError;
use super::constants::{
    HIDDEN_SHARE, LEAST_CHANGE, LEAST_ROW, LEAST_SCALE, LEAST_UNIT, SHADOW_ABSOLUTE, SHADOW_FACTOR,
    SHADOW_RELATIVE,
};
use super::measure::{root_mean_square, ulp};
use super::noise::NoiseRef;
use super::shadow::{median_row_magnitude, row_of};
use replay_base::summary::{Number, draw_splitmix64};
use replay_base::tensor::{DType, TensorView};

/// The sums of one kind.
pub(crate) const SUMS: usize = 16;

/// Positions are rounded to such parts of a unit. An odd number: a factor of two moves an element by a
/// power of two of units, and must not move it by 0 modulo 2^32.
const STEPS: f64 = 251.0;

/// The position of values other than finite ones, in steps: far from all others.
const INFINITE: i64 = (1 << 48) + 0x3333_3333;
const NAN: i64 = (1 << 48) + 0x5555_5555;

/// The place of the scale of the first row, behind all elements.
const SCALES: usize = 1 << 60;

/// A weight is `WEIGHT` over an equally distributed number of `1..=DRAWN`.
const WEIGHT: u64 = 1 << 24;
const DRAWN_BITS: u32 = 20;
/// The bits cut off a weighted sum.
const CUT: u32 = 8;
/// The median magnitude of a weighted sum over that of its terms: 2 for one element, `pi / 2` for
/// many.
const WEIGHTED_MEDIAN: f64 = 1.75;

/// A shadow, as far as another one can be told from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imprint {
    /// How far rounding may move it, in units of roundoff: the mean over moved elements, weighted with
    /// itself. Infinite where nothing can be told.
    #[serde(with = "Number")]
    pub rounding: f64,
    /// Sums of all positions, each with a sign, in steps.
    pub signed: [u32; SUMS],
    /// The same with weights of a heavy tail.
    pub weighted: [u32; SUMS],
}

/// What became of a shadow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShadowMove {
    /// It is the same, up to rounding in float64.
    Same,
    /// It changed by less than the output can hold. The change in units of roundoff.
    Changed(f64),
    /// It moved by more. The change in units of roundoff.
    Moved(f64),
}

/// The unit of positions for an output of dtype `native`, relative.
pub fn position_unit(native: DType) -> f64 {
    (ulp(native, 1.0) / 2.0).max(LEAST_UNIT)
}

impl Imprint {
    /// The imprint of `shadow`, the shadow of an output of dtype `native`. Rounding moves the output by
    /// `noise` and, in float64, the shadow by `own_noise`.
    ///
    /// # Errors
    /// [`CompareError::Noise`] if a noise belongs to another tensor.
    pub fn from_shadow(
        shadow: &TensorView,
        native: DType,
        noise: &NoiseRef,
        own_noise: &NoiseRef,
    ) -> Result<Imprint, CompareError> {
        noise.check_len(shadow.len())?;
        own_noise.check_len(shadow.len())?;
        let root_mean_square = root_mean_square(shadow);
        let row = row_of(shadow);
        let imprint_tensor =
            ImprintTensor { shadow, native, noise, own: own_noise, root_mean_square };
        let rows = (0..shadow.len().div_ceil(row)).into_par_iter();
        let sums =
            rows.map(|row_index| imprint_tensor.row(row_index, row)).collect::<Vec<ImprintSums>>();
        Ok(sums.into_iter().fold(ImprintSums::default(), ImprintSums::merge).finish())
    }

    /// What became of the shadow of an output of dtype `native` where `got` is its imprint now.
    pub fn compare(&self, got: &Imprint, native: DType) -> ShadowMove {
        let rounding = self.rounding + got.rounding;
        let movement = self.reach(got);
        // What rounding in float64 moves, and constants of nine digits.
        let precision = ulp(DType::F64, 1.0) / ulp(DType::F32, 1.0);
        let same_limit = (rounding / HIDDEN_SHARE * SHADOW_FACTOR * precision)
            .max(LEAST_CHANGE)
            .max(SHADOW_RELATIVE / position_unit(native) * 4.0);
        match movement {
            _ if movement > rounding.max(1.0) => ShadowMove::Moved(movement),
            _ if movement > same_limit => ShadowMove::Changed(movement),
            _ => ShadowMove::Same,
        }
    }

    /// The distances of the moved elements, in units: the mean, weighted with itself. It is no more
    /// than the furthest. It is the sum of squares over the sum of magnitudes.
    ///
    /// The signed sums have the variance of the sum of squares. Weighted ones approach a Cauchy
    /// distribution, whose median is the sum of magnitudes (Indyk, "Stable distributions, pseudorandom
    /// generators, embeddings, and data stream computation", J. ACM 53, 2006).
    fn reach(&self, got: &Imprint) -> f64 {
        let signed = measure_sum_distances(&self.signed, &got.signed);
        let squares = signed.iter().map(|x| x * x).sum::<f64>() / SUMS as f64;
        let mut weighted = measure_sum_distances(&self.weighted, &got.weighted);
        weighted.sort_by(f64::total_cmp);
        let middle = (weighted[SUMS / 2 - 1] + weighted[SUMS / 2]) / 2.0;
        let kept_scale = (1u64 << CUT) as f64 * (1u64 << DRAWN_BITS) as f64 / WEIGHT as f64;
        let magnitudes = middle * kept_scale / WEIGHTED_MEDIAN;
        // A root of squares is never above a sum of magnitudes.
        let root_of_squares = squares.sqrt();
        if root_of_squares == 0.0 { 0.0 } else { squares / magnitudes.max(root_of_squares) / STEPS }
    }
}

/// The distance of each sum, modulo 2^32.
fn measure_sum_distances(a: &[u32; SUMS], b: &[u32; SUMS]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| f64::from(a.wrapping_sub(*b) as i32).abs()).collect()
}

/// A shadow with its scales.
struct ImprintTensor<'a> {
    shadow: &'a TensorView<'a>,
    native: DType,
    noise: &'a NoiseRef<'a>,
    own: &'a NoiseRef<'a>,
    root_mean_square: f64,
}

impl ImprintTensor<'_> {
    /// The sums over the `row` elements of row `row_index`.
    fn row(&self, row_index: usize, row: usize) -> ImprintSums {
        let typical =
            if row >= LEAST_ROW { median_row_magnitude(self.shadow, row_index, row) } else { 0.0 };
        let unit = position_unit(self.native);
        let least_scale = ulp(self.native, 0.0) / ulp(self.native, 1.0);
        let scale = typical.max(self.root_mean_square * LEAST_SCALE).max(least_scale);
        let mut sums = ImprintSums::default();
        sums.add(SCALES + row_index, in_steps(piecewise_logarithm(scale), unit));
        for index in row_index * row..((row_index + 1) * row).min(self.shadow.len()) {
            let value = self.shadow.get_f64(index);
            sums.add(index, position_in_steps(value, scale, unit));
            let rounding = self.rounding(index, value) / (value.abs().max(scale) * unit);
            if value.is_finite() {
                sums.squares += rounding * rounding;
                sums.magnitudes += rounding;
            }
        }
        sums
    }

    /// How far an element may move though the mathematics is the same.
    fn rounding(&self, index: usize, value: f64) -> f64 {
        let noise = self.noise.sum_at(self.native, index, value, value);
        let own_noise = self.own.sum_at(DType::F64, index, value, value);
        let constants = SHADOW_RELATIVE * value.abs() + SHADOW_ABSOLUTE * self.root_mean_square;
        (noise * HIDDEN_SHARE).max(own_noise * SHADOW_FACTOR).max(constants)
    }
}

/// The position of `value` in a row of magnitude `scale`, in steps.
fn position_in_steps(value: f64, scale: f64, unit: f64) -> i64 {
    if value.is_nan() {
        return NAN;
    }
    let scaled_value = value.abs() / scale;
    let steps = match scaled_value {
        f64::INFINITY => INFINITE,
        ..1.0 => in_steps(scaled_value, unit),
        _ => in_steps(piecewise_logarithm(scaled_value), unit),
    };
    if value < 0.0 { -steps } else { steps }
}

fn in_steps(position: f64, unit: f64) -> i64 {
    (position / unit * STEPS).round() as i64
}

/// The exponent of `x` and the rest of `x` without it: 1 at 1, continuous, with a slope between `1 / x`
/// and `2 / x`.
fn piecewise_logarithm(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    f64::from(exponent) + x / 2f64.powi(exponent)
}

/// Sums over elements, modulo 2^64.
#[derive(Default)]
struct ImprintSums {
    signed: [u64; SUMS],
    weighted: [u64; SUMS],
    squares: f64,
    magnitudes: f64,
}

/// `steps` or its negative, modulo 2^64.
fn give_sign(steps: i64, is_negative: bool) -> u64 {
    if is_negative { steps.wrapping_neg() as u64 } else { steps as u64 }
}

impl ImprintSums {
    fn add(&mut self, index: usize, steps: i64) {
        /// Random words for an element: one of signs, six of three weights each.
        const WORDS: u64 = 7;
        const MASK: u64 = (1 << DRAWN_BITS) - 1;
        if steps == 0 {
            return;
        }
        let first_word = (index as u64).wrapping_mul(WORDS);
        let signs = draw_splitmix64(first_word);
        for (sum_index, sum) in self.signed.iter_mut().enumerate() {
            *sum = sum.wrapping_add(give_sign(steps, signs >> sum_index & 1 == 1));
        }
        for (three, sums) in self.weighted.chunks_mut(3).enumerate() {
            let mut drawn = draw_splitmix64(first_word + 1 + three as u64);
            for sum in sums {
                let weight = WEIGHT / ((drawn & MASK) + 1);
                let negative = drawn >> DRAWN_BITS & 1 == 1;
                *sum = sum.wrapping_add(give_sign(steps, negative).wrapping_mul(weight));
                drawn >>= DRAWN_BITS + 1;
            }
        }
    }

    fn merge(mut self, other: ImprintSums) -> ImprintSums {
        let sums = self.signed.iter_mut().chain(&mut self.weighted);
        for (sum, addend) in sums.zip(other.signed.into_iter().chain(other.weighted)) {
            *sum = sum.wrapping_add(addend);
        }
        self.squares += other.squares;
        self.magnitudes += other.magnitudes;
        self
    }

    fn finish(self) -> Imprint {
        let rounding = self.squares / self.magnitudes;
        Imprint {
            rounding: match self.magnitudes {
                0.0 => 0.0,
                _ if rounding.is_nan() => f64::INFINITY,
                _ => rounding,
            },
            signed: self.signed.map(|sum| sum as u32),
            weighted: self.weighted.map(|sum| (sum >> CUT) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 64;
    const COLUMNS: usize = 256;

    /// Values of several magnitudes, without a pattern.
    fn values() -> Vec<f64> {
        let value = |i: usize| {
            let word = draw_splitmix64(i as u64 + 77);
            let mantissa = (word >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
            mantissa * 10f64.powi((i / COLUMNS % 5) as i32 - 2)
        };
        (0..ROWS * COLUMNS).map(value).collect()
    }

    fn imprint(values: &[f64], native: DType) -> Imprint {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = [values.len() / COLUMNS, COLUMNS];
        let shadow = TensorView { dtype: DType::F64, shape: &shape, bytes: &bytes };
        let none = NoiseRef { base: None, got: None };
        Imprint::from_shadow(&shadow, native, &none, &none).expect("there is no noise")
    }

    /// What became of the values where `chosen` are moved by `units` of float32.
    fn moved(units: f64, chosen: impl Fn(usize) -> bool) -> ShadowMove {
        let values = values();
        let row = |i: usize| {
            let mut row: Vec<f64> =
                values[i / COLUMNS * COLUMNS..][..COLUMNS].iter().map(|x| x.abs()).collect();
            row.sort_by(f64::total_cmp);
            row[COLUMNS / 2]
        };
        let scales: Vec<f64> = (0..ROWS).map(|at| row(at * COLUMNS)).collect();
        let by = |i: usize| values[i].abs().max(scales[i / COLUMNS]) * units * 2f64.powi(-24);
        let one = |i: usize| if chosen(i) { values[i] + by(i) } else { values[i] };
        let got: Vec<f64> = (0..values.len()).map(one).collect();
        imprint(&values, DType::F32).compare(&imprint(&got, DType::F32), DType::F32)
    }

    #[test]
    fn what_moves_by_several_units_has_moved_whatever_share_of_the_tensor_it_is() {
        type Share = fn(usize) -> bool;
        let shares: [(&str, Share); 6] = [
            ("one", |i| i == 4711),
            ("a row", |i| i / COLUMNS == 17),
            ("a column", |i| i % COLUMNS == 5),
            ("every seventh", |i| i.is_multiple_of(7)),
            ("half", |i| i < ROWS * COLUMNS / 2),
            ("all", |_| true),
        ];
        for (name, share) in shares {
            for units in [6.0, 100.0, 1e4, 1e6] {
                let found = moved(units, share);
                let ShadowMove::Moved(by) = found else { panic!("{name} {units}: {found:?}") };
                // After an overflow, sums tell a large distance alone.
                let told = units.min(1e5) / 6.0..units * 8.0;
                assert!(told.contains(&by), "{name} {units}: {by}");
            }
            for units in [0.25, 0.3] {
                assert!(
                    matches!(moved(units, share), ShadowMove::Changed(_)),
                    "{name} {units}: {:?}",
                    moved(units, share)
                );
            }
            for units in [0.0, 1e-9 * 2f64.powi(24) / 2.0, 2f64.powi(-12)] {
                assert_eq!(moved(units, share), ShadowMove::Same, "{name} {units}");
            }
        }
    }

    #[test]
    fn a_change_of_sign_or_of_what_is_finite_is_a_move() {
        let base = values();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -base[9], 2.0 * base[9]] {
            let mut got = base.clone();
            got[9] = value;
            let found =
                imprint(&base, DType::BF16).compare(&imprint(&got, DType::BF16), DType::BF16);
            assert!(matches!(found, ShadowMove::Moved(_)), "{value}: {found:?}");
            assert_eq!(imprint(&got, DType::BF16), imprint(&got, DType::BF16));
        }
    }

    #[test]
    fn two_percent_are_more_than_bfloat16_holds_and_a_thousandth_is_not() {
        let scaled = |by: f64| -> Vec<f64> { values().iter().map(|x| x * by).collect() };
        let of = |by| {
            imprint(&values(), DType::BF16).compare(&imprint(&scaled(by), DType::BF16), DType::BF16)
        };
        assert!(matches!(of(1.02), ShadowMove::Moved(_)), "{:?}", of(1.02));
        assert!(matches!(of(1.001), ShadowMove::Changed(_)), "{:?}", of(1.001));
        assert_eq!(of(1.0 + 1e-9), ShadowMove::Same);
    }

    #[test]
    fn rounding_that_reaches_as_far_excuses_a_change() {
        let base = imprint(&values(), DType::F32);
        let all: Vec<f64> = values().iter().map(|x| x * (1.0 + 6.0 * 2f64.powi(-24))).collect();
        let got = imprint(&all, DType::F32);
        let found = base.compare(&got, DType::F32);
        assert!(matches!(found, ShadowMove::Moved(_)), "{found:?} {}", base.rounding);
        for rounding in [1e3, f64::INFINITY] {
            let noisy = Imprint { rounding, ..base.clone() };
            assert!(!matches!(noisy.compare(&got, DType::F32), ShadowMove::Moved(_)));
        }
        assert!(base.rounding > 1.0 / 64.0 && base.rounding < 0.1, "{}", base.rounding);
    }

    #[test]
    fn scalars_rows_of_a_few_and_empty_tensors_have_imprints() {
        let of = |values: &[f64], shape: &[usize]| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let shadow = TensorView { dtype: DType::F64, shape, bytes: &bytes };
            let none = NoiseRef { base: None, got: None };
            Imprint::from_shadow(&shadow, DType::F32, &none, &none).expect("there is no noise")
        };
        let apart = |a: &Imprint, b: &Imprint| a.compare(b, DType::F32);
        assert_eq!(apart(&of(&[], &[0, 4]), &of(&[], &[0, 4])), ShadowMove::Same);
        let one = of(&[2.5], &[]);
        let other = of(&[2.500002], &[]);
        assert!(matches!(apart(&one, &other), ShadowMove::Moved(_)), "{one:?} {other:?}");
        assert_eq!(apart(&of(&[2.5], &[]), &of(&[2.5 + 1e-12], &[])), ShadowMove::Same);
        let one = of(&[1.0, 1e-3, 0.0], &[3]);
        let other = of(&[1.0, 1.001e-3, 0.0], &[3]);
        assert!(matches!(apart(&one, &other), ShadowMove::Moved(_)));
        assert!(matches!(apart(&of(&[0.0; 4], &[4]), &of(&[1e-3; 4], &[4])), ShadowMove::Moved(_)));
    }
}
