//! Doubt about slopes of a loss behind integers: numbers that the sources take to integers keep no slope there, so slopes
//! between the jumps of the loss tell nothing of a gradient that goes straight through them.

use std::sync::Arc;

use super::{GradientChecker, LossTerm, MovedInput, UncheckedGradient, find_flat_element};
use crate::backend::ReplayError;
use crate::compile::source_integer_conversions;
use crate::judge::gradient_budget::SlopeError;
use crate::program::tree_integer_conversions;
use replay_base::tensor::step::{Scales, Step};
use replay_base::tensor::{TensorView, parallel};
use replay_numerics::derivative::{
    GradientAnswer, GradientFinding, Question, has_jump, is_staircase,
};

/// The most elements of a tensor that may show a staircase.
const MOST_ELEMENTS: usize = 8;

impl GradientChecker<'_> {
    /// Why `finding` on `question` may tell nothing of the gradient, for numbers go through integers; none if they do not.
    /// Where the harness does not mean a gradient straight through them, a mismatch alone is doubted.
    pub(super) fn doubt_by_integers(
        &self,
        question: &Question,
        finding: &GradientFinding,
        terms: &[LossTerm<'_>],
        ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, SlopeError>,
    ) -> Result<Option<UncheckedGradient>, SlopeError> {
        let is_meant = self.output.straight_through;
        let is_doubtful = match finding.answer {
            GradientAnswer::Differs => true,
            GradientAnswer::Agrees | GradientAnswer::Unknown => is_meant,
            GradientAnswer::NoLoss => false,
        };
        if !is_doubtful {
            return Ok(None);
        }
        if finding.answer == GradientAnswer::Differs {
            let is_stair = match find_flat_element(finding) {
                Some(element) => is_staircase(question, element, &mut *ask)?,
                None => is_mostly_staircase(question, &mut *ask)?,
            };
            if is_stair {
                let places = self.places().clone();
                return Ok(Some(UncheckedGradient::IntegerStaircase { places }));
            }
        }
        if self.places().is_empty() {
            return Ok(None);
        }
        let is_explained = has_jump(question, &mut *ask)?
            && (is_meant || self.is_staircase_elsewhere(question, terms)?);
        Ok(is_explained.then(|| UncheckedGradient::IntegerJump { places: self.places().clone() }))
    }

    /// Where the sources take numbers to integers.
    pub(super) fn places(&self) -> &Vec<String> {
        self.integer_places.get_or_init(|| {
            let sources = self.trial.sources();
            let harness = &self.trial.fixture().harness;
            match harness.program {
                Some(_) => tree_integer_conversions(sources),
                None => source_integer_conversions(sources, harness),
            }
        })
    }

    /// Whether the loss of `question` is a staircase in an element of another input. Otherwise integers choose between
    /// terms of the loss, and carry no numbers to it.
    fn is_staircase_elsewhere(
        &self,
        question: &Question,
        terms: &[LossTerm<'_>],
    ) -> Result<bool, SlopeError> {
        let fixture = self.trial.fixture();
        let own_input = self.output.gradient_of.as_ref();
        for input in &fixture.inputs {
            let is_other = own_input != Some(&input.name)
                && !self.output.upstream.contains(&input.name)
                && input.present
                && input.dtype.is_float();
            if !is_other {
                continue;
            }
            let packed = input.packed().map_err(ReplayError::from)?;
            let shape = input.shape();
            let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
            let scales = Arc::new(Scales::measure(&view, parallel::count_cores()));
            let other_question = Question { input: view, scales: &scales, ..*question };
            let moved_input =
                MovedInput { input: &input.name, scales: &scales, constraint: input.constraint };
            let mut trouble = None;
            for element in spread_elements(view.len()) {
                let is_stair = is_staircase(&other_question, element, |steps: &[Step]| {
                    self.budget.admit(steps.len())?;
                    Ok::<_, SlopeError>(self.losses(terms, &moved_input, steps, &mut trouble)?)
                })?;
                if is_stair {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Whether the loss of `question` is a staircase in most elements with a gradient. Among codes with a largest magnitude of
/// their own, the slopes of those magnitudes alone differ from a gradient that goes straight through.
fn is_mostly_staircase(
    question: &Question,
    ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, SlopeError>,
) -> Result<bool, SlopeError> {
    let gradient = &question.gradient;
    let with_gradient: Vec<usize> =
        (0..gradient.len()).filter(|&element| gradient.get_f64(element) != 0.0).collect();
    let elements: Vec<usize> =
        spread_elements(with_gradient.len()).map(|place| with_gradient[place]).collect();
    let most_others = elements.len().saturating_sub(1) / 2;
    let mut others = 0;
    for element in elements {
        others += usize::from(!is_staircase(question, element, &mut *ask)?);
        if others > most_others {
            return Ok(false);
        }
    }
    Ok(!with_gradient.is_empty())
}

/// Some indices of a tensor of `len` elements.
fn spread_elements(len: usize) -> impl Iterator<Item = usize> {
    let count = len.min(MOST_ELEMENTS);
    (0..count).map(move |number| number * len / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_spread_over_the_tensor() {
        assert_eq!(spread_elements(0).count(), 0);
        assert_eq!(spread_elements(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spread_elements(800).collect::<Vec<_>>()[6..], [600, 700]);
    }
}
