//! Whether a straight-through gradient holds constant what its numbers are scaled by before they are rounded, such as a
//! largest magnitude. Its author may mean either.
//!
//! With a scale `s` that all elements of a group share, such a gradient misses `k ds/dx`, with one number `k` for the
//! group. A loss whose rounded numbers stay as they are moves by `c ds/dx` alone. So its slopes and the mismatches along
//! several directions are in proportion.

use std::ops::Range;

use super::slope::{self, Slope, SlopeProbe};
use super::{Question, SEED};
use crate::constants::{SLOPE_ERROR_FACTOR, SLOPE_FLOOR};
use replay_base::tensor::step::{Step, StepClass};

/// Directions for each group: one of them gives the number of the group.
const DIRECTIONS: u64 = 4;
/// Directions of their own, beside those of the check.
const SEEDS: u64 = 1 << 16;

/// A loss of a source that rounds to integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundedLoss {
    /// A rounded number moves with its argument.
    Straight,
    /// A rounded number stays.
    Held,
}

/// What a gradient that does not match its straight-through loss does with scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleAnswer {
    /// Somewhere it does not match though no scale moves with the input, or nothing of the input is rounded.
    NoScale,
    /// It holds the scale of each group constant.
    Held {
        /// The largest mismatch that is left, relative to the norm of the gradient in its group.
        worst: f64,
    },
    /// Its mismatches are others, or lie on kinks or outside of the groups.
    Other,
}

/// Tells what the gradient of `question` does with scales, each shared by the elements of one of `groups`. `ask` returns
/// the losses of either kind after some steps, as in [`super::check_derivative`].
///
/// # Errors
/// Those of `ask`.
pub fn explain_by_held_scales<E>(
    question: &Question,
    groups: &[Range<usize>],
    mut ask: impl FnMut(RoundedLoss, &[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<ScaleAnswer, E> {
    let mut most_left = None;
    let mut is_rough = false;
    for group in groups {
        let probes: Vec<SlopeProbe> =
            (0..DIRECTIONS).map(|direction| probe_group(question, group, direction)).collect();
        let steps: Vec<Step> = probes.iter().flat_map(SlopeProbe::steps).collect();
        let mut slopes_of = |loss| {
            let losses = ask(loss, &steps)?;
            let values = losses.chunks_exact(slope::VALUES);
            let pairs = probes.iter().cloned().zip(values);
            Ok(pairs.map(|(probe, values)| Slope::from_losses(question, probe, values)).collect())
        };
        let straight: Vec<Slope> = slopes_of(RoundedLoss::Straight)?;
        if !straight.iter().all(Slope::is_smooth) {
            is_rough = true;
            continue;
        }
        if straight.iter().all(|slope| slope.mismatch() <= tolerate(slope, 0.0)) {
            continue;
        }
        let held: Vec<Slope> = slopes_of(RoundedLoss::Held)?;
        match explain_group(&straight, &held) {
            ScaleAnswer::Held { worst } if group.len() > 1 => {
                most_left = Some(most_left.map_or(worst, |most: f64| most.max(worst)));
            }
            ScaleAnswer::Held { .. } => return Ok(ScaleAnswer::Other),
            answer => return Ok(answer),
        }
    }
    Ok(match most_left {
        Some(worst) if !is_rough => ScaleAnswer::Held { worst },
        _ => ScaleAnswer::Other,
    })
}

fn probe_group(question: &Question, group: &Range<usize>, direction: u64) -> SlopeProbe {
    SlopeProbe {
        seed: SEED + SEEDS + direction,
        class: StepClass::Ordinary,
        among: group.clone(),
        without: Vec::new(),
        rung: 0,
        rounding: (f64::EPSILON * question.magnitude).max(question.rounding),
    }
}

/// The answer of one group, in which some of the slopes of the `straight` loss are not those of the gradient.
fn explain_group(straight: &[Slope], held: &[Slope]) -> ScaleAnswer {
    let is_told = |slope: &&Slope| slope.is_smooth_within(SLOPE_FLOOR * slope.norm);
    let pairs: Vec<(&Slope, &Slope)> = straight
        .iter()
        .zip(held)
        .filter(|(straight, held)| is_told(straight) && is_told(held))
        .collect();
    let is_beyond_error =
        |difference: f64, error: f64| difference.abs() > SLOPE_ERROR_FACTOR * error;
    let moves_otherwise = |(straight, held): &&(&Slope, &Slope)| {
        is_beyond_error(held.derivative, held.error)
            && is_beyond_error(held.derivative - straight.derivative, held.error + straight.error)
    };
    let largest = pairs
        .iter()
        .filter(moves_otherwise)
        .max_by(|(_, a), (_, b)| a.derivative.abs().total_cmp(&b.derivative.abs()));
    let Some((straight, held)) = largest else {
        let is_whole = pairs.len() == DIRECTIONS as usize;
        return if is_whole { ScaleAnswer::NoScale } else { ScaleAnswer::Other };
    };
    let share = (straight.derivative - straight.expected) / held.derivative;
    let missing = |straight: &Slope, held: &Slope| {
        (straight.derivative - straight.expected - share * held.derivative).abs()
    };
    let is_explained = pairs
        .iter()
        .all(|(straight, held)| missing(straight, held) <= tolerate(straight, share * held.error));
    if !is_explained || pairs.len() < 3 {
        return ScaleAnswer::Other;
    }
    let left = pairs.iter().map(|(straight, held)| missing(straight, held) / straight.size());
    ScaleAnswer::Held { worst: left.fold(0.0, f64::max) }
}

/// How far the gradient may be off `slope`, whose error is larger by `more`.
fn tolerate(slope: &Slope, more: f64) -> f64 {
    (SLOPE_ERROR_FACTOR * (slope.error + more.abs())).max(SLOPE_FLOOR * slope.size())
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;
    use replay_base::tensor::step::Scales;
    use replay_base::tensor::{DType, TensorView};
    use std::convert::Infallible;

    const ROW: usize = 6;

    /// Two rows of numbers.
    fn numbers() -> Vec<f64> {
        (0..2 * ROW).map(|index| ((index * 37 + 11) % 29) as f64 / 7.0 - 2.0).collect()
    }

    /// The scale of a row, by its largest magnitude.
    fn scale_of(row: &[f64]) -> f64 {
        row.iter().fold(0.0f64, |largest, x| largest.max(x.abs())) / 7.0
    }

    /// Numbers rounded in units of `scale`, of which each is `scale` times `integer` of its index and its quotient.
    fn loss(x: &[f64], scale: impl Fn(&[f64]) -> f64, integer: impl Fn(usize, f64) -> f64) -> f64 {
        let mut sum = 0.0;
        for (row_index, row) in x.chunks(ROW).enumerate() {
            let scale = scale(row);
            for (place, x) in row.iter().enumerate() {
                sum += (scale * integer(row_index * ROW + place, x / scale) - 0.3).powi(2);
            }
        }
        sum
    }

    /// The answer for a gradient that takes each row's scale as constant, and has `more` at each rounding error.
    fn answer(scale: fn(&[f64]) -> f64, groups: &[Range<usize>], more: f64) -> ScaleAnswer {
        answer_within(f64::INFINITY, scale, groups, more)
    }

    /// The same for integers that are cut off at `bound`, and a gradient that does not know of it.
    fn answer_within(
        bound: f64,
        scale: fn(&[f64]) -> f64,
        groups: &[Range<usize>],
        more: f64,
    ) -> ScaleAnswer {
        let x = numbers();
        let quotients: Vec<f64> =
            x.chunks(ROW).flat_map(|row| row.iter().map(|x| x / scale(row))).collect();
        let gradient = (0..x.len()).map(|index| {
            let (quotient, row) = (quotients[index], &x[index / ROW * ROW..][..ROW]);
            let quantised = quotient.round() * scale(row);
            2.0 * (quantised - 0.3) + more * (quantised - x[index])
        });
        let (data, gradient) = (bytes(&x), bytes(&gradient.collect::<Vec<f64>>()));
        let shape = [x.len()];
        let view = |bytes| TensorView { dtype: DType::F64, shape: &shape, bytes };
        let input = view(&data[..]);
        let scales = Scales::measure(&input, 1);
        let base = loss(&x, scale, |_, quotient| quotient.round().clamp(-bound, bound));
        let question = Question {
            input,
            scales: &scales,
            gradient: view(&gradient[..]),
            loss: base,
            magnitude: base,
            rounding: 0.0,
            directions: 8,
            budget: 1000,
            rounded: None,
        };
        let answer = explain_by_held_scales(&question, groups, |kind, steps: &[Step]| {
            let losses = steps.iter().map(|step| {
                let mut moved = x.to_vec();
                step.add_to(&scales, 0, &mut moved);
                let integer = |index: usize, quotient| match kind {
                    RoundedLoss::Held => quotients[index].round(),
                    RoundedLoss::Straight => {
                        quotients[index].round() + (quotient - quotients[index])
                    }
                };
                let cut = |index, quotient| integer(index, quotient).clamp(-bound, bound);
                Some(loss(&moved, scale, cut))
            });
            Ok::<_, Infallible>(losses.collect())
        });
        answer.unwrap()
    }

    /// Whether it holds scales, up to what slopes are off.
    fn is_held(scale: fn(&[f64]) -> f64, groups: &[Range<usize>]) -> bool {
        matches!(answer(scale, groups, 0.0), ScaleAnswer::Held { worst } if worst < 1e-8)
    }

    const ROWS: [Range<usize>; 2] = [0..ROW, ROW..2 * ROW];

    #[test]
    fn a_gradient_may_hold_the_scale_of_each_row_constant() {
        assert!(is_held(scale_of, &ROWS));
        let of_mean = |row: &[f64]| row.iter().map(|x| x.abs()).sum::<f64>() / 9.0;
        assert!(is_held(of_mean, &ROWS));
        #[allow(clippy::single_range_in_vec_init)]
        let whole = [0..2 * ROW];
        assert_eq!(answer(of_mean, &whole, 0.0), ScaleAnswer::Other, "two scales in one group");
    }

    #[test]
    fn a_wrong_factor_of_the_rounding_error_is_no_held_scale() {
        assert_eq!(answer(scale_of, &ROWS, 0.01), ScaleAnswer::Other);
        assert_eq!(answer(|_| 0.25, &ROWS, 0.01), ScaleAnswer::NoScale);
        assert_eq!(answer(|_| 0.25, &ROWS, 0.0), ScaleAnswer::Other, "nothing to explain");
    }

    #[test]
    fn kinks_of_numbers_on_their_bound_explain_nothing() {
        let whole = 0..2 * ROW;
        assert_eq!(answer_within(7.0, |_| 0.25, &[whole], 0.01), ScaleAnswer::Other);
        assert_eq!(answer_within(6.5, |_| 0.25, &ROWS, 0.01), ScaleAnswer::NoScale);
    }
}
