//! How far outputs lie from the float64 truth, and the meaning of a change in that distance.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::measure::{Squares, ulp, value_distance};
use super::noise::NoiseRef;
use super::parts::measure_parts;
use super::{CompareError, check_shapes};
use replay_base::summary::Number;
use replay_base::tensor::TensorView;
use replay_base::tensor::vectors::widest;

/// How far an output lies from its oracle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Accuracy {
    /// `||got - oracle|| / ||oracle||`; infinite where an element is finite on one side only.
    #[serde(with = "Number")]
    pub relative_l2: f64,
    /// The element that lies furthest off in units of its noise, if any is off at all.
    pub worst: Option<WorstError>,
}

/// One element that is off the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorstError {
    /// Its row-major index.
    pub index: u64,
    /// The oracle's value.
    #[serde(with = "Number")]
    pub oracle: f64,
    /// The output's value.
    #[serde(with = "Number")]
    pub got: f64,
    /// The error in units in the last place of the output's dtype, at the oracle's magnitude.
    #[serde(with = "Number")]
    pub ulps: f64,
    /// The error as a multiple of the noise.
    #[serde(with = "Number")]
    pub ratio: f64,
}

/// Measures `got` against an oracle of any floating-point dtype and the same shape.
///
/// # Errors
/// [`CompareError::Shape`] if the shapes differ, [`CompareError::Noise`] if the noise belongs to
/// another tensor.
pub fn against_oracle(
    got: &TensorView,
    oracle: &TensorView,
    noise: &NoiseRef,
) -> Result<Accuracy, CompareError> {
    let [accuracy] = measure_accuracies([got], oracle, noise)?;
    Ok(accuracy)
}

/// Measures each of `outputs` as [`against_oracle`] does, in one pass over the oracle and the noise.
///
/// # Errors
/// As [`against_oracle`].
pub fn measure_accuracies<const N: usize>(
    outputs: [&TensorView; N],
    oracle: &TensorView,
    noise: &NoiseRef,
) -> Result<[Accuracy; N], CompareError> {
    for output in outputs {
        check_shapes(oracle, output, false)?;
    }
    noise.check_len(oracle.len())?;
    let parts = measure_parts(oracle.len(), |range| measure_range(outputs, oracle, noise, range));
    let mut wholes = [const { None }; N];
    for part in parts {
        for (whole, next) in wholes.iter_mut().zip(part) {
            *whole = Some(match whole.take() {
                Some(before) => AccuracyPart::followed_by(before, next),
                None => next,
            });
        }
    }
    Ok(wholes.map(|whole| whole.unwrap_or_default().finish()))
}

/// Elements that are read at a time.
const BLOCK: usize = 1 << 10;

/// What an [`Accuracy`] says of some elements.
#[derive(Default)]
struct AccuracyPart {
    errors: Squares,
    truth: Squares,
    infinite: bool,
    worst: Option<WorstError>,
}

/// How far the elements in `range` of each of `outputs` lie off.
fn measure_range<const N: usize>(
    outputs: [&TensorView; N],
    oracle: &TensorView,
    noise: &NoiseRef,
    range: Range<usize>,
) -> [AccuracyPart; N] {
    let mut parts = [const { AccuracyPart::EMPTY }; N];
    let mut targets = [0.0; BLOCK];
    let mut noises = [0.0; BLOCK];
    for first in range.clone().step_by(BLOCK) {
        let count = BLOCK.min(range.end - first);
        oracle.read(first, &mut targets[..count]);
        noise.read(first, &mut noises[..count]);
        for (part, output) in parts.iter_mut().zip(outputs) {
            part.add(output, first, &targets[..count], &noises[..count]);
        }
    }
    parts
}

impl AccuracyPart {
    const EMPTY: AccuracyPart = AccuracyPart {
        errors: Squares::EMPTY,
        truth: Squares::EMPTY,
        infinite: false,
        worst: None,
    };

    /// Adds the elements of `got` from `first` on, whose truth is `targets`.
    fn add(&mut self, got: &TensorView, first: usize, targets: &[f64], noises: &[f64]) {
        let mut values = [0.0; BLOCK];
        let mut errors = [0.0; BLOCK];
        let mut ratios = [0.0; BLOCK];
        let values = &mut values[..targets.len()];
        let errors = &mut errors[..targets.len()];
        let ratios = &mut ratios[..targets.len()];
        got.read(first, values);
        widest!({
            let sides = values.iter().zip(targets).zip(noises);
            for (((&value, &target), &noise), (error, ratio)) in
                sides.zip(errors.iter_mut().zip(ratios.iter_mut()))
            {
                let noise = NoiseRef::raised(noise, got.dtype, target, value);
                *error = value_distance(value, target);
                let off = if noise > 0.0 { *error / noise } else { f64::INFINITY };
                *ratio = if noise == f64::INFINITY { 0.0 } else { off };
            }
        });
        for (offset, (&target, &error)) in targets.iter().zip(&*errors).enumerate() {
            if target.is_finite() {
                self.truth.add(target);
            }
            if error == 0.0 {
                continue;
            }
            self.infinite |= error.is_infinite();
            if error.is_finite() {
                self.errors.add(error);
            }
            let ratio = ratios[offset];
            if self.worst.is_none_or(|worst| ratio > worst.ratio) {
                let unit = ulp(got.dtype, target);
                let ulps = if unit > 0.0 { error / unit } else { error };
                let index = (first + offset) as u64;
                let got = values[offset];
                self.worst = Some(WorstError { index, oracle: target, got, ulps, ratio });
            }
        }
    }

    fn finish(self) -> Accuracy {
        let relative_l2 =
            if self.infinite { f64::INFINITY } else { self.errors.relative_to(&self.truth) };
        Accuracy { relative_l2, worst: self.worst }
    }

    fn followed_by(mut self, next: AccuracyPart) -> AccuracyPart {
        self.errors.merge(&next.errors);
        self.truth.merge(&next.truth);
        self.infinite |= next.infinite;
        let own_ratio = self.worst.map_or(f64::NEG_INFINITY, |worst| worst.ratio);
        if next.worst.is_some_and(|worst| worst.ratio > own_ratio) {
            self.worst = next.worst;
        }
        self
    }
}

/// What a change of an output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The mathematics is another one: the float64 shadow changed too.
    Wrong,
    /// The same mathematics, rounded worse: only the native output moved away.
    Imprecise,
    /// Further from the oracle, with no shadow of both sides to tell whether it is wrong or imprecise.
    LessAccurate,
    /// The output came closer to the oracle.
    MoreAccurate,
    /// As far from the oracle as before.
    AsAccurate,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Spread;
    use replay_base::tensor::DType;
    use replay_base::tensor::step::draw_bits;

    #[test]
    fn the_worst_element_is_that_of_all_blocks() {
        let count = 3 * BLOCK as u64 + 5;
        let truth = |index: u64| (draw_bits(1, index) % 1000) as f64 / 7.0;
        let got =
            |index: u64| (truth(index) * (1.0 + (draw_bits(2, index) % 99) as f64 * 1e-6)) as f32;
        let noise = |index: u64| (draw_bits(3, index) % 7) as f32 * 1e-5;
        let truths: Vec<u8> = (0..count).flat_map(|index| truth(index).to_le_bytes()).collect();
        let gots: Vec<u8> = (0..count).flat_map(|index| got(index).to_le_bytes()).collect();
        let shape = [count as usize];
        let oracle = TensorView { dtype: DType::F64, shape: &shape, bytes: &truths };
        let view = TensorView { dtype: DType::F32, shape: &shape, bytes: &gots };
        let spread = Spread::Single((0..count).map(noise).collect::<Vec<f32>>().into());
        let told = against_oracle(&view, &oracle, &NoiseRef { base: Some(&spread), got: None });
        let told = told.unwrap();
        let mut errors = Squares::default();
        let mut truths = Squares::default();
        let mut worst = (f64::NEG_INFINITY, 0);
        for index in 0..count {
            let value = f64::from(got(index));
            let target = truth(index);
            truths.add(target);
            errors.add((value - target).abs());
            let unit = ulp(DType::F32, target).max(ulp(DType::F32, value));
            let ratio = (value - target).abs() / f64::from(noise(index)).max(unit);
            if value != target && ratio > worst.0 {
                worst = (ratio, index);
            }
        }
        assert_eq!(told.relative_l2, errors.relative_to(&truths));
        assert_eq!(told.worst.map(|worst| (worst.ratio, worst.index)), Some(worst));
    }
}
