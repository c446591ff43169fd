//! Tells unwritten memory from the order of atomics, on devices that choose the order, and outputs that are not
//! deterministic from those that rounding moves.

use super::outcome::Failure;
use super::{Shadow, Trial, convert_numerics_error};
use crate::backend::{Mode, ReplayError, Variant};
use crate::worker::Ending;
use replay_base::summary::{POISON_A, POISON_B, Poison, PoisonComparison};
use replay_base::tensor::{TensorView, unravel_index};
use replay_numerics::NumericsError;
use replay_numerics::constants::{POISON_FACTOR, POISON_SHARE, REORDERED_ULPS, TWIN_SHARE};
use replay_numerics::measure::ulp;
use replay_numerics::twin::find_non_finite;

impl Trial {
    /// The failure of output `name` if two identical replays of `variant` give elements otherwise, by more than
    /// rounding. Sums of many cancelling terms move far; the float64 shadow then tells.
    pub(super) fn unsteady(
        &self,
        variant: &dyn Variant,
        name: &str,
        [run_view, repeated_view]: [&TensorView; 2],
    ) -> Result<Option<Failure>, ReplayError> {
        let Some(failure) =
            not_deterministic(name, [run_view, repeated_view], variant.has_atomics())
        else {
            return Ok(None);
        };
        let steady =
            run_view.dtype.is_float() && self.shadow_is_steady(name, [run_view, repeated_view])?;
        Ok((!steady).then_some(failure))
    }

    /// Whether the float64 shadow of output `name` moves far less than the output, which two replays gave
    /// as `run_view` and `repeated_view`; false without a shadow.
    fn shadow_is_steady(
        &self,
        name: &str,
        [run_view, repeated_view]: [&TensorView; 2],
    ) -> Result<bool, ReplayError> {
        let Shadow::Present(shadow) = self.shadow()? else { return Ok(false) };
        if self.shadow_run()?.present().is_none() {
            return Ok(false);
        }
        let mode = Mode::plain(POISON_A);
        let (first, second) = shadow.run_pair([mode.clone(), mode])?;
        let endings = [&first.ending, &second.ending];
        if endings != [&Ending::Completed; 2] {
            return Ok(false);
        }
        let outputs = first.output(name).zip(second.output(name));
        let Some((first, second)) = outputs else { return Ok(false) };
        let non_finite =
            convert_numerics_error(find_non_finite(run_view, &first).map_err(NumericsError::from))?;
        if non_finite.is_some() {
            return Ok(false);
        }
        Ok(tensor_distance(&first, &second) < TWIN_SHARE * tensor_distance(run_view, repeated_view))
    }
}

/// The failure of output `name` if identical replays differ in it by more than rounding as its dtype has it.
fn not_deterministic(
    name: &str,
    [run_view, repeated_view]: [&TensorView; 2],
    atomics: bool,
) -> Option<Failure> {
    if run_view.bytes == repeated_view.bytes || atomics && !run_view.dtype.is_float() {
        // Threads append to lists in any order.
        return None;
    }
    let finite_count = list_finite_elements(run_view).count();
    let squares = list_finite_elements(run_view).map(|x| x * x).sum::<f64>();
    let rms = (squares / finite_count.max(1) as f64).sqrt();
    let largest = list_finite_elements(run_view).map(f64::abs).fold(0.0, f64::max);
    let mut count = 0;
    let mut first = None;
    let mut max_abs = 0.0f64;
    for index in 0..run_view.len() {
        let left = run_view.get_f64(index);
        let right = repeated_view.get_f64(index);
        let difference = element_distance(left, right);
        let size = left.abs().min(right.abs()).max(rms);
        let allowed = match (run_view.dtype.is_float(), atomics) {
            (false, _) => 0.0,
            (true, false) => REORDERED_ULPS * ulp(run_view.dtype, size),
            (true, true) => {
                (REORDERED_ULPS * ulp(run_view.dtype, size)).max(POISON_SHARE * largest)
            }
        };
        if difference > allowed {
            count += 1;
            first.get_or_insert(index);
            max_abs = max_abs.max(difference);
        }
    }
    let first = unravel_index(first?, run_view.shape);
    let output = name.to_owned();
    let of = run_view.len() as u64;
    Some(Failure::NotDeterministic { output, count, of, first, max_abs })
}

fn list_finite_elements(view: &TensorView) -> impl Iterator<Item = f64> {
    (0..view.len()).map(|index| view.get_f64(index)).filter(|x| x.is_finite())
}

/// The distance of two elements; infinite where one of them alone is not finite.
fn element_distance(first_value: f64, second_value: f64) -> f64 {
    if first_value == second_value || first_value.is_nan() && second_value.is_nan() {
        return 0.0;
    }
    let distance = (first_value - second_value).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// The distance of two tensors, in L2.
fn tensor_distance(first_tensor: &TensorView, second_tensor: &TensorView) -> f64 {
    let elements = (0..first_tensor.len())
        .map(|index| element_distance(first_tensor.get_f64(index), second_tensor.get_f64(index)));
    elements.map(|distance| distance * distance).sum::<f64>().sqrt()
}

/// The farthest that a finite element moves between two replays with one poison.
pub(super) fn measure_spread(view: &TensorView, repeated_view: &TensorView) -> f64 {
    let unsteady = (0..view.len()).filter(|&index| has_other_bits(view, repeated_view, index));
    let moves = unsteady.map(|index| measure_move_of(view, repeated_view, index));
    moves.filter(|moved_by| moved_by.is_finite()).fold(0.0, f64::max)
}

/// Takes back the poison dependence that `write_summary` reports for elements that differ between `first`
/// and `second`, where the device causes such differences by itself. Repetitions moved elements by up to `spread`, and code
/// with `atomics` has such differences anyway.
pub(super) fn excuse_unsteadiness(
    write_summary: &mut PoisonComparison,
    [first, second]: [&TensorView; 2],
    spread: f64,
    atomics: bool,
) {
    let mut allowed = POISON_FACTOR * spread;
    if atomics && first.dtype.is_float() {
        let written_elements =
            (0..first.len()).filter(|&index| !is_left_unwritten(first, second, index));
        let sizes = written_elements
            .map(|index| first.get_f64(index).abs())
            .filter(|size| size.is_finite());
        allowed = allowed.max(POISON_SHARE * sizes.fold(0.0, f64::max));
    }
    if allowed == 0.0 {
        return;
    }
    let dependent = (0..first.len()).filter(|&index| {
        has_other_bits(first, second, index)
            && !is_left_unwritten(first, second, index)
            && measure_move_of(first, second, index) > allowed
    });
    (write_summary.poison_dependent, write_summary.first_poison_dependent) = (0, Vec::new());
    for index in dependent {
        write_summary.poison_dependent += 1;
        if write_summary.first_poison_dependent.len() < 8 {
            write_summary.first_poison_dependent.push(index as u64);
        }
    }
}

/// The distance of element `index` in two replays; infinite where it is NaN.
fn measure_move_of(first: &TensorView, other_view: &TensorView, index: usize) -> f64 {
    let distance = (first.get_f64(index) - other_view.get_f64(index)).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

fn has_other_bits(first: &TensorView, other_view: &TensorView, index: usize) -> bool {
    let size = first.dtype.size();
    let element = index * size..(index + 1) * size;
    first.bytes[element.clone()] != other_view.bytes[element]
}

/// Whether element `index` holds the poison of both replays.
fn is_left_unwritten(first: &TensorView, second: &TensorView, index: usize) -> bool {
    holds_poison(&POISON_A, first, index) && holds_poison(&POISON_B, second, index)
}

/// Whether element `index` still holds `poison`.
fn holds_poison(poison: &Poison, view: &TensorView, index: usize) -> bool {
    let size = view.dtype.size();
    let phase = index * size % 8;
    poison.pattern[phase..phase + size] == view.bytes[index * size..(index + 1) * size]
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::summary::compare_poisons;
    use replay_base::tensor::DType;

    fn unsteady(one: &[f32], other: &[f32], atomics: bool) -> Option<(u64, Vec<usize>)> {
        let bytes = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let all = [one, other].map(bytes);
        let shape = [one.len()];
        let [one, other] = &all;
        let view = |bytes| TensorView { dtype: DType::F32, shape: &shape, bytes };
        match not_deterministic("y", [&view(one), &view(other)], atomics)? {
            Failure::NotDeterministic { count, first, .. } => Some((count, first)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn identical_replays_that_differ_by_more_than_rounding_are_not_deterministic() {
        let base = [1.0, 2.0, 3.0];
        assert_eq!(unsteady(&base, &base, false), None);
        assert_eq!(unsteady(&base, &[1.0, 2.000_001, 3.0], false), None);
        assert_eq!(unsteady(&base, &[1.0, 2.001, 3.1], false), Some((2, vec![1])));
        assert_eq!(unsteady(&base, &[1.0, 2.001, 3.1], true), Some((1, vec![2])));
        assert_eq!(unsteady(&base, &[f32::NAN, 2.0, 3.0], true), Some((1, vec![0])));
        assert_eq!(unsteady(&[f32::NAN, 2.0], &[f32::NAN, 2.0], false), None);
        // A cancelling sum moves by the roundings of its terms.
        assert_eq!(unsteady(&[1e-9, 2.0], &[-3e-8, 2.0], false), None);
    }

    fn judged(first: &[f32], second: &[f32], again: &[f32], atomics: bool) -> (u64, Vec<u64>) {
        let bytes = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let all = [first, second, again].map(bytes);
        let shape = [first.len()];
        let view = |bytes| TensorView { dtype: DType::F32, shape: &shape, bytes };
        let [first, second, again] = [view(&all[0]), view(&all[1]), view(&all[2])];
        let mut found = compare_poisons(&first, &second).unwrap();
        let spread = measure_spread(&first, &again);
        excuse_unsteadiness(&mut found, [&first, &second], spread, atomics);
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
