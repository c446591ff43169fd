//! Whether one tensor of integers is another, shifted along its last dimension: the relation between
//! the inputs and the targets of a language model.

use serde::{Deserialize, Serialize};

use crate::tensor::{TensorView, unravel_index};

/// `next[.., i] == tokens[.., i + 1]` for at least half of all places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Shift {
    /// Compared places: all but the last of each row.
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
pub fn find_token_shift(tokens: &TensorView, next: &TensorView) -> Option<Shift> {
    let token_shift = shifted_by(tokens, next, 1, &|_| true)?;
    (token_shift.differ * 2 <= token_shift.of).then_some(token_shift)
}

/// Compares `tokens`, `distance` places later, with `next`, where `counts` holds of both places: padding stands behind the
/// last counting one. None where there is nothing to compare, or the comparison tells nothing.
fn shifted_by(
    tokens: &TensorView,
    next: &TensorView,
    distance: isize,
    counts: &dyn Fn(usize) -> bool,
) -> Option<Shift> {
    let row = *tokens.shape.last().filter(|&&row| row > 1)?;
    if tokens.shape != next.shape || tokens.is_empty() {
        return None;
    }
    let shifted_place =
        |place: usize| place.checked_add_signed(distance).expect("it lies in the same row");
    let is_counted = |place: &usize| {
        let is_in_row =
            (place % row).checked_add_signed(distance).is_some_and(|shifted| shifted < row);
        is_in_row && counts(*place) && counts(shifted_place(*place))
    };
    let is_constant = |place| tokens.get_f64(place) == tokens.get_f64(place / row * row);
    if (0..tokens.len()).all(is_constant) {
        return None;
    }
    let places = || (0..tokens.len()).filter(is_counted);
    let mut differing =
        places().filter(|&place| next.get_f64(place) != tokens.get_f64(shifted_place(place)));
    let first = differing.next();
    let differ = usize::from(first.is_some()) + differing.count();
    let first = first.map(|place| unravel_index(place, next.shape));
    let of = places().count();
    (of > 0).then_some(Shift { of, differ, first })
}

/// How the targets of one step lie beside its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Alignment {
    /// The shift of the tokens with the best agreement with the targets; none where no shift agrees in half of the
    /// places.
    pub shift: Option<i64>,
    /// Counting places: neither they nor the place one later are masked.
    pub of: usize,
    /// Places with a target other than the next token.
    pub differ: usize,
    /// The first of them, as an index of the targets.
    pub first: Option<Vec<usize>>,
}

/// Compares `targets` with `tokens` at several shifts; `mask` is 0 where a place does not count, as are
/// negative targets, such as PyTorch's -100. None where nothing can be told.
pub(super) fn measure_alignment(
    tokens: &TensorView,
    targets: &TensorView,
    mask: Option<&TensorView>,
) -> Option<Alignment> {
    let mask = mask.filter(|mask| mask.shape == targets.shape);
    let counts = |place: usize| {
        targets.get_f64(place) >= 0.0 && mask.is_none_or(|mask| mask.get_f64(place) != 0.0)
    };
    let shift_by = |distance| shifted_by(tokens, targets, distance, &counts);
    let next = shift_by(1)?;
    let agree = |candidate: &Shift| (candidate.of - candidate.differ) as f64 / candidate.of as f64;
    // The first of several with the same agreement.
    let agreements =
        [1, 0, 2, -1].into_iter().filter_map(|shift| Some((shift, agree(&shift_by(shift)?))));
    let best = agreements.fold(None, |best: Option<(isize, f64)>, scored_shift| match best {
        Some(best_so_far) if best_so_far.1 >= scored_shift.1 => Some(best_so_far),
        _ => Some(scored_shift),
    });
    let shift = best.filter(|(_, agree)| *agree >= 0.5).map(|(shift, _)| shift as i64);
    Some(Alignment { shift, of: next.of, differ: next.differ, first: next.first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn view<'a>(shape: &'a [usize], bytes: &'a [u8]) -> TensorView<'a> {
        TensorView { dtype: DType::I8, shape, bytes }
    }

    #[test]
    fn targets_that_are_the_next_tokens_are_recognised() {
        let found = find_token_shift(
            &view(&[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]),
            &view(&[2, 4], &[2, 3, 4, 0, 6, 7, 8, 9]),
        );
        assert_eq!(found, Some(Shift { of: 6, differ: 0, first: None }));
    }

    #[test]
    fn a_target_that_is_not_the_next_token_is_located() {
        let found = find_token_shift(
            &view(&[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]),
            &view(&[2, 4], &[2, 3, 4, 0, 6, 9, 8, 9]),
        );
        assert_eq!(found, Some(Shift { of: 6, differ: 1, first: Some(vec![1, 1]) }));
    }

    #[test]
    fn unrelated_and_constant_tensors_are_no_shift() {
        let tokens = [1, 2, 3, 4];
        assert_eq!(find_token_shift(&view(&[4], &tokens), &view(&[4], &[9, 8, 7, 6])), None);
        assert_eq!(find_token_shift(&view(&[4], &[1; 4]), &view(&[4], &[1; 4])), None);
        assert_eq!(find_token_shift(&view(&[4], &tokens), &view(&[2, 2], &tokens)), None);
        assert_eq!(find_token_shift(&view(&[4, 1], &tokens), &view(&[4, 1], &tokens)), None);
        assert_eq!(find_token_shift(&view(&[], &[1]), &view(&[], &[1])), None);
    }

    #[test]
    fn targets_are_told_apart_by_how_far_they_are_shifted() {
        let tokens = [1, 2, 3, 4, 5, 6];
        let shift = |targets: &[u8]| {
            measure_alignment(&view(&[6], &tokens), &view(&[6], targets), None)
                .and_then(|a| a.shift)
        };
        assert_eq!(shift(&[2, 3, 4, 5, 6, 7]), Some(1));
        assert_eq!(shift(&[1, 2, 3, 4, 5, 6]), Some(0));
        assert_eq!(shift(&[3, 4, 5, 6, 7, 8]), Some(2));
        assert_eq!(shift(&[0, 1, 2, 3, 4, 5]), Some(-1));
        assert_eq!(shift(&[9, 9, 8, 8, 7, 7]), None);
    }

    #[test]
    fn places_that_do_not_count_are_not_compared() {
        let ignored = (-100i8) as u8;
        let tokens = [1, 2, 3, 4, 5, 6];
        let targets = [2, ignored, 4, 0, 6, 7];
        let mask = [1, 1, 1, 0, 1, 1];
        let found = measure_alignment(
            &view(&[6], &tokens),
            &view(&[6], &targets),
            Some(&view(&[6], &mask)),
        );
        assert_eq!(found, Some(Alignment { shift: Some(1), of: 1, differ: 0, first: None }));
    }
}
