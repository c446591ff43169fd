//! Whether one tensor of integers is another, shifted along its last dimension: the relation between
//! the inputs and the targets of a language model.

use serde::{Deserialize, Serialize};

use replay_base::tensor::{TensorView, unravel_index};

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
    if (0..tokens.len()).all(|place| tokens.get_f64(place) == tokens.get_f64(place / row * row)) {
        return None;
    }
    let mut shift = Shift { of: 0, differ: 0, first: None };
    for place in 0..tokens.len() {
        let Some(shifted_place) = shift_place(place, row, distance) else { continue };
        if !counts(place) || !counts(shifted_place) {
            continue;
        }
        shift.of += 1;
        if next.get_f64(place) != tokens.get_f64(shifted_place) {
            shift.differ += 1;
            shift.first.get_or_insert_with(|| unravel_index(place, next.shape));
        }
    }
    (shift.of > 0).then_some(shift)
}

/// The place `distance` behind `place`; none beyond its row of `row` places.
fn shift_place(place: usize, row: usize, distance: isize) -> Option<usize> {
    let column = place % row;
    let shifted_column = column.checked_add_signed(distance).filter(|shifted| *shifted < row)?;
    Some(place - column + shifted_column)
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
    /// The shifts to try. The first is the one of a language model.
    const SHIFTS: [isize; 4] = [1, 0, 2, -1];
    let mask = mask.filter(|mask| mask.shape == targets.shape);
    let compared_shifts = SHIFTS.map(|distance| {
        shifted_by(tokens, targets, distance, &|place| is_counted(targets, mask, place))
    });
    let mut best: Option<(isize, f64)> = None;
    for (distance, compared_shift) in SHIFTS.into_iter().zip(&compared_shifts) {
        let Some(Shift { of, differ, .. }) = compared_shift else { continue };
        let agreement = (of - differ) as f64 / *of as f64;
        // The first of several with the same agreement.
        if best.is_none_or(|(_, best_agreement)| agreement > best_agreement) {
            best = Some((distance, agreement));
        }
    }
    let shift = best.filter(|(_, agreement)| *agreement >= 0.5);
    let shift = shift.map(|(distance, _)| distance as i64);
    let [next, ..] = compared_shifts;
    let Shift { of, differ, first } = next?;
    Some(Alignment { shift, of, differ, first })
}

/// Whether the target at `place` counts.
fn is_counted(targets: &TensorView, mask: Option<&TensorView>, place: usize) -> bool {
    targets.get_f64(place) >= 0.0 && mask.is_none_or(|mask| mask.get_f64(place) != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

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
