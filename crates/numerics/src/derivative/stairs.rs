//! Whether a loss jumps along a line, and whether it is a staircase in one element: flat, and flat again behind a jump. Numbers that
//! pass through integers make both, and the slope between jumps says nothing of the gradient that its author means.

use std::ops::Range;

use super::Question;
use replay_base::tensor::step::{Step, StepClass, StepUnit};

/// The longest and the shortest step, as powers of two of the element's scale.
const LENGTHS: [i32; 2] = [1, -20];
/// How often the place of the jump is halved.
const HALVINGS: usize = 12;
/// A jump is larger than this times the rounding of the loss: no slope looks flat beside it.
const JUMP: f64 = 1024.0;

/// How often the place of a jump is halved where the loss has slopes beside it.
const SLOPED_HALVINGS: i32 = 34;
/// The share of a change that is left at a jump. A slope leaves 2^-34 of it, a root 2^-17.
const LEFT_OVER: f64 = 1.0 / (1 << 10) as f64;
/// The steepest intervals that are halved.
const STEEPEST: usize = 2;

/// Whether the loss of `question` is a staircase in element `index`. `ask` is as in [`super::check_derivative`].
///
/// # Errors
/// Those of `ask`.
pub fn is_staircase<E>(
    question: &Question,
    index: usize,
    mut ask: impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<bool, E> {
    let Some(class) = question.scales.class(index, question.input.get_f64(index)) else {
        return Ok(false);
    };
    let mut losses_at = |lengths: &[f64]| ask(&list_steps(&(index..index + 1), class, lengths));
    for sign in [1.0, -1.0] {
        let lengths = list_lengths(sign);
        if losses_at(&lengths[..1])?.first() != Some(&Some(question.loss)) {
            continue;
        }
        let losses = losses_at(&lengths)?;
        let Some(first_change) = losses.iter().position(|loss| *loss != Some(question.loss)) else {
            continue;
        };
        let Some(before) = first_change.checked_sub(1) else { continue };
        let mut flat = lengths[before];
        let mut edge = lengths[first_change];
        let mut edge_loss = losses[first_change];
        for _ in 0..HALVINGS {
            let middle = (flat + edge) / 2.0;
            let middle_loss = losses_at(&[middle])?.first().copied().flatten();
            if middle_loss == Some(question.loss) {
                flat = middle;
            } else {
                edge = middle;
                edge_loss = middle_loss;
            }
        }
        let gap = edge - flat;
        let behind = losses_at(&[edge + gap, edge + 2.0 * gap])?;
        let Some(edge_loss) = edge_loss.filter(|loss| loss.is_finite()) else { continue };
        let is_jump = (edge_loss - question.loss).abs() > JUMP * f64::EPSILON * question.magnitude;
        if is_jump && behind.iter().all(|loss| *loss == Some(edge_loss)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the loss of `question` jumps along a line through the input, on which all ordinary elements move. `ask` is as in
/// [`super::check_derivative`].
///
/// # Errors
/// Those of `ask`.
pub fn has_jump<E>(
    question: &Question,
    mut ask: impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<bool, E> {
    let elements = 0..question.input.len();
    let mut losses_at = |lengths: &[f64]| ask(&list_steps(&elements, StepClass::Ordinary, lengths));
    for sign in [1.0, -1.0] {
        let lengths = list_lengths(sign);
        let losses = losses_at(&lengths)?;
        let known = lengths.iter().zip(losses);
        let known = known.filter_map(|(&length, loss)| Some((length, loss?)));
        let mut points = vec![(0.0, question.loss)];
        points.extend(known.filter(|(_, loss)| loss.is_finite()));
        let mut intervals: Vec<Interval> =
            points.windows(2).map(|pair| Interval { from: pair[0], to: pair[1] }).collect();
        intervals.sort_by(|one, other| other.steepness().total_cmp(&one.steepness()));
        for interval in intervals.into_iter().take(STEEPEST) {
            if holds_jump(interval, question.magnitude, &mut losses_at)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a share of the change over `interval` is left at one place of it. The terms of the loss are of size `magnitude`.
fn holds_jump<E>(
    interval: Interval,
    magnitude: f64,
    losses_at: &mut impl FnMut(&[f64]) -> Result<Vec<Option<f64>>, E>,
) -> Result<bool, E> {
    let least_change = LEFT_OVER * interval.change();
    let mut rest = interval;
    for _ in 0..SLOPED_HALVINGS {
        let middle = f64::midpoint(rest.from.0, rest.to.0);
        let loss = losses_at(&[middle])?.first().copied().flatten();
        let Some(loss) = loss.filter(|loss| loss.is_finite()) else { return Ok(false) };
        let first = Interval { to: (middle, loss), ..rest };
        let second = Interval { from: (middle, loss), ..rest };
        rest = if first.change() > second.change() { first } else { second };
        let is_rounding = rest.change() <= JUMP * f64::EPSILON * magnitude;
        if is_rounding || rest.change() < least_change {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Two lengths of a step, and the losses after it.
#[derive(Clone, Copy)]
struct Interval {
    from: (f64, f64),
    to: (f64, f64),
}

impl Interval {
    fn change(&self) -> f64 {
        (self.to.1 - self.from.1).abs()
    }

    fn steepness(&self) -> f64 {
        self.change() / (self.to.0 - self.from.0).abs()
    }
}

/// From the shortest to the longest.
fn list_lengths(sign: f64) -> Vec<f64> {
    let [longest, shortest] = LENGTHS;
    (shortest..=longest).map(|exponent| sign * 2f64.powi(exponent)).collect()
}

/// Steps of `elements`.
fn list_steps(elements: &Range<usize>, class: StepClass, lengths: &[f64]) -> Vec<Step> {
    let steps = lengths.iter().map(|&length| Step {
        seed: 0,
        class,
        among: elements.clone(),
        without: Vec::new(),
        unit: StepUnit::Row,
        length,
        constraint: None,
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;
    use replay_base::tensor::step::Scales;
    use replay_base::tensor::{DType, TensorView};
    use std::convert::Infallible;

    /// Whether the sum of `function` over four elements is a staircase in the second, and whether it jumps along it.
    fn stair_and_jump(function: impl Fn(f64) -> f64) -> [bool; 2] {
        let x = [0.3, -0.41, 1.7, 0.02];
        let data = bytes(&x);
        let input = TensorView { dtype: DType::F64, shape: &[4], bytes: &data };
        let scales = Scales::measure(&input, 1);
        let loss = |x: &[f64]| x.iter().map(|&x| function(x)).sum::<f64>();
        let question = Question {
            input,
            scales: &scales,
            gradient: input,
            loss: loss(&x),
            magnitude: x.iter().map(|&x| function(x).abs()).sum(),
            rounding: 0.0,
            directions: 8,
            budget: 1000,
            rounded: None,
        };
        let ask = |steps: &[Step]| {
            let losses = steps.iter().map(|step| {
                let mut moved = x.to_vec();
                step.add_to(&scales, 0, &mut moved);
                Some(loss(&moved))
            });
            Ok::<_, Infallible>(losses.collect())
        };
        [is_staircase(&question, 1, ask).unwrap(), has_jump(&question, ask).unwrap()]
    }

    fn is_stair(function: impl Fn(f64) -> f64) -> bool {
        stair_and_jump(function)[0]
    }

    fn is_jumping(function: impl Fn(f64) -> f64) -> bool {
        stair_and_jump(function)[1]
    }

    #[test]
    fn a_jump_shows_beside_any_slope() {
        assert!(is_jumping(|x| (x * 31.0).round() / 31.0), "a staircase");
        assert!(is_jumping(|x| x + (x * 31.0).round() / 31.0));
        assert!(is_jumping(|x| x * (0.7 / x).round()), "a scale");
        assert!(is_jumping(|x| if x > -0.4 { 1.0 + x.exp() } else { x.exp() }), "behind the base");
        assert!(is_jumping(|x| if x < -0.41 { 5.0 } else { 0.0 }), "at the base");
    }

    #[test]
    fn the_scale_of_many_rounded_numbers_jumps() {
        for count in [1, 8, 37, 1000] {
            let numbers: Vec<f64> = (1..=count).map(|k| (f64::from(k) * 12.9898).sin()).collect();
            let loss = |scale: f64| {
                let terms = numbers.iter().enumerate();
                let terms =
                    terms.map(|(k, x)| (k as f64 * 78.233).cos() * scale * (x / scale).round());
                terms.sum::<f64>()
            };
            assert!(is_jumping(loss), "{count}");
        }
    }

    #[test]
    fn no_slope_kink_or_root_is_a_jump() {
        assert!(!is_jumping(|_| 1.0));
        assert!(!is_jumping(|x| 1e6 + x * x), "beside large terms");
        assert!(!is_jumping(|x| x.max(-0.4)), "a kink");
        assert!(!is_jumping(|x| 1e4 * (x + 0.4).abs().sqrt()), "a root");
        assert!(!is_jumping(|x| (40.0 * x).tanh()), "steep");
        assert!(!is_jumping(|x| if x > 0.0 { f64::NAN } else { x }), "no value");
    }

    #[test]
    fn a_staircase_is_flat_on_both_sides_of_a_jump() {
        assert!(is_stair(|x| (x * 31.0).round() / 31.0));
        assert!(is_stair(|x| f64::from((x * 127.0) as i8)));
        assert!(is_stair(|x| 1e6 + (x * 31.0).floor()));
        assert!(is_stair(|x| if x > 0.0 { 1.0 } else { 0.0 }), "a threshold");
    }

    #[test]
    fn a_loss_that_bends_or_ignores_the_element_is_no_staircase() {
        assert!(!is_stair(|_| 1.0), "no jump");
        assert!(!is_stair(|x| x * x));
        assert!(!is_stair(|x| x.max(0.0)), "a rectifier");
        assert!(!is_stair(|x| 1e6 + x.max(0.0)), "beside large terms");
        assert!(!is_stair(|x| x.clamp(-0.2, 0.2)), "a slope between two flat parts");
        assert!(!is_stair(|x| if x > 0.0 { 1.0 + x } else { 0.0 }), "a slope behind the jump");
        assert!(!is_stair(|x| if x > 0.0 { f64::NAN } else { 0.0 }), "no value behind the jump");
    }
}
