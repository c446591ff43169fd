//! Tells unwritten memory from the order of atomics, on devices that choose the order.

use crate::summary::{POISON_A, POISON_B, Poison, Written};
use crate::tensor::TensorView;

/// How much further than in a repetition an element must move with the poison to depend on it.
const MARGIN: f64 = 8.0;

/// The same as a share of the largest element, for floats that atomics sum. A repetition can come
/// out the same by chance, and poison reads as NaN or as about 1e30, which moves a float by more.
const SHARE: f64 = 1.0 / 1024.0;

/// Takes back the poison dependence that `written` reports for elements that differ between `first`
/// and `second`, where the device causes such differences by itself. `again`, a replay with the
/// poison of `first`, shows them, and code with `atomics` has them anyway.
pub(super) fn excuse(
    written: &mut Written,
    [first, second, again]: [&TensorView; 3],
    atomics: bool,
) {
    let moved = |other: &TensorView, index: usize| {
        let distance = (first.get_f64(index) - other.get_f64(index)).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    let size = first.dtype.size();
    let differs = |other: &TensorView, index: usize| {
        let element = index * size..(index + 1) * size;
        first.bytes[element.clone()] != other.bytes[element]
    };
    let unsteady = (0..first.len()).filter(|&index| differs(again, index));
    let spread = unsteady.map(|index| moved(again, index)).filter(|moved| moved.is_finite());
    let mut allowed = MARGIN * spread.fold(0.0, f64::max);
    let unwritten =
        |index: usize| holds(&POISON_A, first, index) && holds(&POISON_B, second, index);
    if atomics && first.dtype.is_float() {
        let written = (0..first.len()).filter(|&index| !unwritten(index));
        let sizes = written.map(|index| first.get_f64(index).abs()).filter(|size| size.is_finite());
        allowed = allowed.max(SHARE * sizes.fold(0.0, f64::max));
    }
    if allowed == 0.0 {
        return;
    }
    let dependent = (0..first.len()).filter(|&index| {
        differs(second, index) && !unwritten(index) && moved(second, index) > allowed
    });
    (written.poison_dependent, written.first_poison_dependent) = (0, Vec::new());
    for index in dependent {
        written.poison_dependent += 1;
        if written.first_poison_dependent.len() < 8 {
            written.first_poison_dependent.push(index as u64);
        }
    }
}

/// Whether element `index` still holds `poison`.
fn holds(poison: &Poison, view: &TensorView, index: usize) -> bool {
    let size = view.dtype.size();
    let phase = index * size % 8;
    poison.pattern[phase..phase + size] == view.bytes[index * size..(index + 1) * size]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::written;
    use crate::tensor::DType;

    fn judged(first: &[f32], second: &[f32], again: &[f32], atomics: bool) -> (u64, Vec<u64>) {
        let bytes = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let all = [first, second, again].map(bytes);
        let shape = [first.len()];
        let view = |bytes| TensorView { dtype: DType::F32, shape: &shape, bytes };
        let [first, second, again] = [view(&all[0]), view(&all[1]), view(&all[2])];
        let mut found = written(&first, &second).unwrap();
        excuse(&mut found, [&first, &second, &again], atomics);
        (found.poison_dependent, found.first_poison_dependent)
    }

    #[test]
    fn what_moves_by_itself_does_not_depend_on_poison() {
        let first = [1.0, 2.0, 3.0];
        assert_eq!(judged(&first, &[1.0, 2.000_001, 3.0], &[1.000_001, 2.0, 3.0], false).0, 0);
    }

    #[test]
    fn what_moves_with_the_poison_alone_depends_on_it() {
        let first = [1.0, 2.0, 3.0];
        let second = [1.0, 2.000_001, 3.0];
        assert_eq!(judged(&first, &second, &first, false), (1, vec![1]));
        assert_eq!(judged(&first, &[1.0, 1e30, 3.0], &first, true), (1, vec![1]));
    }

    #[test]
    fn sums_of_atomics_move_by_themselves_even_if_a_repetition_does_not() {
        let first = [1.0, 2.0, 3.0];
        assert_eq!(judged(&first, &[1.0, 2.000_001, 3.0], &first, true).0, 0);
    }

    #[test]
    fn poison_shows_among_elements_that_move_by_themselves() {
        let first = [1.0, f32::NAN, 3.0];
        let second = [1.000_001, 1e30, 3.0];
        assert_eq!(judged(&first, &second, &[1.0, f32::NAN, 3.000_001], true), (1, vec![1]));
    }

    #[test]
    fn elements_that_nobody_wrote_are_no_elements_that_depend_on_it() {
        let a = f32::from_le_bytes(POISON_A.pattern[..4].try_into().unwrap());
        let b = f32::from_le_bytes(POISON_B.pattern[..4].try_into().unwrap());
        assert_eq!(judged(&[a, 2.0], &[b, 2.000_001], &[a, 2.000_002], true).0, 0);
    }
}
