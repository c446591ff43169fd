//! Whether one tensor of integers is another, shifted by one along its last dimension: the
//! relation between the inputs and the targets of a language model. Pure.

use ::replay::tensor::{TensorView, unravel};

/// `next[.., i] == tokens[.., i + 1]` for at least half of all places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Places that were compared: all but the last of each row.
    pub of: usize,
    /// Places where the two differ.
    pub differ: usize,
    /// The first of them, as an index of `next`.
    pub first: Option<Vec<usize>>,
}

/// Compares `tokens`, one place later, with `next`.
///
/// None where less than half of the places agree, where shapes differ or leave nothing to compare,
/// and where agreement means nothing as `tokens` is constant along its rows.
pub fn shift(tokens: &TensorView, next: &TensorView) -> Option<Shift> {
    let row = *tokens.shape.last().filter(|&&row| row > 1)?;
    if tokens.shape != next.shape || tokens.is_empty() {
        return None;
    }
    let places = (0..tokens.len()).filter(|place| place % row != row - 1);
    if places.clone().all(|place| tokens.get_f64(place) == tokens.get_f64(place + 1)) {
        return None;
    }
    let of = places.clone().count();
    let mut differing = places.filter(|&place| next.get_f64(place) != tokens.get_f64(place + 1));
    let first = differing.next();
    let differ = usize::from(first.is_some()) + differing.count();
    let first = first.map(|place| unravel(place, next.shape));
    (differ * 2 <= of).then_some(Shift { of, differ, first })
}

#[cfg(test)]
mod tests {
    use ::replay::tensor::DType;

    use super::*;

    fn view<'a>(shape: &'a [usize], bytes: &'a [u8]) -> TensorView<'a> {
        TensorView { dtype: DType::U8, shape, bytes }
    }

    #[test]
    fn targets_that_are_the_next_tokens_are_recognised() {
        let found = shift(
            &view(&[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]),
            &view(&[2, 4], &[2, 3, 4, 0, 6, 7, 8, 9]),
        );
        assert_eq!(found, Some(Shift { of: 6, differ: 0, first: None }));
    }

    #[test]
    fn a_target_that_is_not_the_next_token_is_located() {
        let found = shift(
            &view(&[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]),
            &view(&[2, 4], &[2, 3, 4, 0, 6, 9, 8, 9]),
        );
        assert_eq!(found, Some(Shift { of: 6, differ: 1, first: Some(vec![1, 1]) }));
    }

    #[test]
    fn unrelated_and_constant_tensors_are_no_shift() {
        let tokens = [1, 2, 3, 4];
        assert_eq!(shift(&view(&[4], &tokens), &view(&[4], &[9, 8, 7, 6])), None);
        assert_eq!(shift(&view(&[4], &[1; 4]), &view(&[4], &[1; 4])), None);
        assert_eq!(shift(&view(&[4], &tokens), &view(&[2, 2], &tokens)), None);
        assert_eq!(shift(&view(&[4, 1], &tokens), &view(&[4, 1], &tokens)), None);
        assert_eq!(shift(&view(&[], &[1]), &view(&[], &[1])), None);
    }
}
