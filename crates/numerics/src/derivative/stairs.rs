//! Whether a loss is a staircase in one element: flat, and flat again behind a jump. Numbers that pass through integers
//! make one, and its slope, zero, says nothing of the gradient that its author means.

use super::Question;
use replay_base::tensor::step::{Step, StepUnit};

/// The longest and the shortest step, as powers of two of the element's scale.
const LENGTHS: [i32; 2] = [1, -20];
/// How often the place of the jump is halved.
const HALVINGS: usize = 12;
/// A jump is larger than this times the rounding of the loss: no slope looks flat beside it.
const JUMP: f64 = 1024.0;

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
    let mut losses_at = |lengths: &[f64]| {
        let steps = lengths.iter().map(|&length| Step {
            seed: 0,
            class,
            among: index..index + 1,
            without: Vec::new(),
            unit: StepUnit::Row,
            length,
            constraint: None,
        });
        ask(&steps.collect::<Vec<Step>>())
    };
    let [longest, shortest] = LENGTHS;
    for sign in [1.0, -1.0] {
        let lengths: Vec<f64> =
            (shortest..=longest).map(|exponent| sign * 2f64.powi(exponent)).collect();
        let losses = losses_at(&lengths)?;
        let Some(first_change) = losses.iter().position(|loss| *loss != Some(question.loss)) else {
            continue;
        };
        let mut flat = if first_change == 0 { 0.0 } else { lengths[first_change - 1] };
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
        if is_jump && flat != 0.0 && behind.iter().all(|loss| *loss == Some(edge_loss)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;
    use replay_base::tensor::step::Scales;
    use replay_base::tensor::{DType, TensorView};
    use std::convert::Infallible;

    /// Whether the sum of `function` over four elements is a staircase in the second.
    fn is_stair(function: impl Fn(f64) -> f64) -> bool {
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
        let found = is_staircase(&question, 1, |steps: &[Step]| {
            let losses = steps.iter().map(|step| {
                let mut moved = x.to_vec();
                step.add_to(&scales, 0, &mut moved);
                Some(loss(&moved))
            });
            Ok::<_, Infallible>(losses.collect())
        });
        found.unwrap()
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
