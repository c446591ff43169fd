//! Writes the inputs of a replay for a program: those of the fixture, widened or stepped on request.

use std::borrow::Cow;
use std::path::Path;

use crate::worker::{InputChange, Stepped};
use replay_base::tensor::step::{self, LinePoint, draw_bits, draw_sign};
use replay_base::tensor::{DType, TensorView, parallel, unravel_index};
use replay_fixture::fixture::{self, Fixture, FixtureError, Input};

/// One of so many elements is nudged.
const NUDGED: u64 = 10;

/// The seed for the direction of each element along a line.
const LINE: u64 = 0x5eed_2001;

/// Writes the inputs of `fixture` to `path`, after `change`. Narrower floating-point inputs become `wide_dtype`.
pub(super) fn write_program_inputs(
    path: &Path,
    fixture: &Fixture,
    wide_dtype: Option<DType>,
    change: &InputChange,
) -> Result<(), FixtureError> {
    let present: Vec<&Input> = fixture.inputs.iter().filter(|input| input.present).collect();
    let mut tensors = Vec::new();
    for input in &present {
        let step = match change {
            InputChange::Step(stepped) if stepped.input == input.name => Some(stepped),
            _ => None,
        };
        let dtype = match wide_dtype {
            Some(wide) if input.dtype.is_float() && input.dtype.size() < wide.size() => wide,
            _ => input.dtype,
        };
        let along = match change {
            InputChange::Line(along) if input.dtype.is_float() => Some(*along),
            _ => None,
        };
        let mut elements = if dtype == input.dtype && step.is_none() && along.is_none() {
            input.packed()?
        } else {
            Cow::Owned(changed_input_elements(input, dtype, step, along)?)
        };
        if let InputChange::Nudge { seed } = change {
            nudge_elements(input, *seed, elements.to_mut());
        }
        tensors.push((input.name.as_str(), dtype, input.shape(), elements));
    }
    let mut metadata = Vec::new();
    for input in &present {
        if let Some(strides) = &input.strides {
            metadata.push((format!("{}.strides", input.name), format!("{strides:?}")));
            let storage = input.storage_elements().to_string();
            metadata.push((format!("{}.storage", input.name), storage));
            metadata.push((format!("{}.offset", input.name), input.offset.to_string()));
        }
    }
    metadata.extend(fixture.random.iter().cloned());
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, *dtype, &shape[..], &bytes[..]))
        .collect();
    let metadata: Vec<_> =
        metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    fixture::write_for_a_while(path, &tensors, &metadata)
}

/// The elements of `input` as `dtype`, after a step or a move along a line.
fn changed_input_elements(
    input: &Input,
    dtype: DType,
    step: Option<&Stepped>,
    along: Option<LinePoint>,
) -> Result<Vec<u8>, FixtureError> {
    let packed = input.packed()?;
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let mut wide_bytes = vec![0; view.len() * DType::F64.size()];
    let step = step.map(|stepped| (&stepped.step, &*stepped.scales));
    step::widen_tensor(&view, step, parallel::count_cores(), &mut wide_bytes);
    let seed = LINE ^ input_seed(input);
    let values = wide_bytes.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).enumerate();
    let values = values.map(|(index, x)| match along {
        None => x,
        Some(along) => {
            let share = f64::from(along.by) * (-f64::from(along.exponent)).exp2();
            x + x * draw_sign(seed, element_position(input, index) as u64) * share
        }
    });
    if dtype == DType::F64 && along.is_none() {
        return Ok(wide_bytes);
    }
    let mut elements = vec![0; view.len() * dtype.size()];
    let places = elements.chunks_exact_mut(dtype.size());
    places.zip(values).for_each(|(place, x)| dtype.write_nearest(x, place));
    Ok(elements)
}

/// Where element `index` of `input` lies in memory: elements in one place move alike.
fn element_position(input: &Input, index: usize) -> usize {
    let Some(strides) = &input.strides else { return index };
    unravel_index(index, &input.shape())
        .iter()
        .zip(strides)
        .map(|(coordinate, stride)| coordinate * stride)
        .sum()
}

/// The seed for the draws of `input`.
fn input_seed(input: &Input) -> u64 {
    let name = blake3::hash(input.name.as_bytes());
    u64::from_le_bytes(name.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// Moves a tenth of the floating-point elements of `input` in `packed`. Zeros stay, as they often mask something.
/// Numbers beyond the finite ones stay too.
fn nudge_elements(input: &Input, seed: u64, packed: &mut [u8]) {
    if !input.dtype.is_float() {
        return;
    }
    let size = input.dtype.size();
    let seed = seed ^ input_seed(input);
    for (index, element) in packed.chunks_exact_mut(size).enumerate() {
        let draw = draw_bits(seed, element_position(input, index) as u64);
        if draw.is_multiple_of(NUDGED) {
            step_to_neighbour(element, input.dtype, draw >> 63 == 0);
        }
    }
}

/// Replaces `element` by its neighbour of larger or smaller magnitude.
fn step_to_neighbour(element: &mut [u8], dtype: DType, larger: bool) {
    let (own_value, is_zero) = {
        let view = TensorView { dtype, shape: &[], bytes: element };
        (view.get_f64(0), view.get_f64(0) == 0.0)
    };
    if is_zero || !own_value.is_finite() {
        return;
    }
    let mut bits = [0; 8];
    bits[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(bits);
    let moved_bits = if larger { bits + 1 } else { bits - 1 };
    let mut moved_element = element.to_vec();
    moved_element.copy_from_slice(&moved_bits.to_le_bytes()[..element.len()]);
    if (TensorView { dtype, shape: &[], bytes: &moved_element }).get_f64(0).is_finite() {
        element.copy_from_slice(&moved_element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_moves_by_one_unit_in_the_last_place_and_leaves_what_has_none() {
        let beside = |x: f32, larger| {
            let mut bytes = x.to_le_bytes();
            super::step_to_neighbour(&mut bytes, DType::F32, larger);
            f32::from_le_bytes(bytes)
        };
        assert_eq!(beside(1.0, true), 1.0 + f32::EPSILON);
        assert_eq!(beside(1.0, false), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(beside(-1.0, true), -1.0 - f32::EPSILON);
        assert_eq!((beside(0.0, true), beside(f32::MAX, true)), (0.0, f32::MAX));
        assert!(beside(f32::NAN, true).is_nan());
    }
}
