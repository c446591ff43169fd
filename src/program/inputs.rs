//! Writes the inputs of a replay for a program: those of the fixture, widened or stepped where that is
//! asked for.

use std::borrow::Cow;
use std::path::Path;

use crate::fixture::{self, Fixture, FixtureError, Input};
use crate::tensor::step::{Scales, Step, drawn};
use crate::tensor::{DType, TensorView, unravel};

/// A change of the inputs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'c> {
    /// One of them, which has this name, is moved so.
    Step(&'c str, &'c Step),
    /// A tenth of the elements of each is moved by a unit in the last place; the seed draws them.
    Nudge(u64),
}

/// One of so many elements is nudged.
const NUDGED: u64 = 10;

/// Writes the inputs of `fixture` to `path`; floating-point ones as float64 if `is_wide`, after
/// `change`.
pub(super) fn write(
    path: &Path,
    fixture: &Fixture,
    is_wide: bool,
    change: Option<Change<'_>>,
) -> Result<(), FixtureError> {
    let present: Vec<&Input> = fixture.inputs.iter().filter(|input| input.present).collect();
    let mut tensors = Vec::new();
    for input in &present {
        let step = match change {
            Some(Change::Step(of, step)) if of == input.name => Some(step),
            _ => None,
        };
        let wide = is_wide && input.dtype.is_float();
        let dtype = if wide { DType::F64 } else { input.dtype };
        let mut elements = elements(input, wide, step)?;
        if let Some(Change::Nudge(seed)) = change {
            nudge(input, seed, elements.to_mut());
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
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, *dtype, &shape[..], &bytes[..]))
        .collect();
    let metadata: Vec<_> =
        metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    fixture::write_for_a_while(path, &tensors, &metadata)
}

fn elements<'i>(
    input: &'i Input,
    is_wide: bool,
    step: Option<&Step>,
) -> Result<Cow<'i, [u8]>, FixtureError> {
    let packed = input.packed()?;
    if !is_wide {
        return Ok(packed);
    }
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let step = step.map(|step| (step, Scales::of(&view)));
    let element = |index: usize| {
        let x = view.get_f64(index);
        let moved = step.as_ref().map_or(0.0, |(step, scales)| step.of(scales, index, x));
        (x + moved).to_le_bytes()
    };
    Ok(Cow::Owned((0..view.len()).flat_map(element).collect()))
}

/// Moves a tenth of the floating-point elements of `input`, which are `packed`. Elements in one place move
/// alike. Zeros, which often mean that something is left out, and numbers that are not finite stay.
fn nudge(input: &Input, seed: u64, packed: &mut [u8]) {
    if !input.dtype.is_float() {
        return;
    }
    let size = input.dtype.size();
    let shape = input.shape();
    let name = blake3::hash(input.name.as_bytes());
    let name = u64::from_le_bytes(name.as_bytes()[..8].try_into().expect("eight bytes"));
    for (index, element) in packed.chunks_exact_mut(size).enumerate() {
        let place = match &input.strides {
            None => index,
            Some(strides) => {
                unravel(index, &shape).iter().zip(strides).map(|(at, stride)| at * stride).sum()
            }
        };
        let draw = drawn(seed ^ name, place as u64);
        if draw.is_multiple_of(NUDGED) {
            beside(element, input.dtype, draw >> 63 == 0);
        }
    }
}

/// Replaces `element` by its neighbour that is larger or smaller in magnitude.
fn beside(element: &mut [u8], dtype: DType, larger: bool) {
    let (own, is_zero) = {
        let view = TensorView { dtype, shape: &[], bytes: element };
        (view.get_f64(0), view.get_f64(0) == 0.0)
    };
    if is_zero || !own.is_finite() {
        return;
    }
    let mut bits = [0; 8];
    bits[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(bits);
    let moved = if larger { bits + 1 } else { bits - 1 };
    let mut new = element.to_vec();
    new.copy_from_slice(&moved.to_le_bytes()[..element.len()]);
    if (TensorView { dtype, shape: &[], bytes: &new }).get_f64(0).is_finite() {
        element.copy_from_slice(&new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_moves_by_one_unit_in_the_last_place_and_leaves_what_has_none() {
        let beside = |x: f32, larger| {
            let mut bytes = x.to_le_bytes();
            super::beside(&mut bytes, DType::F32, larger);
            f32::from_le_bytes(bytes)
        };
        assert_eq!(beside(1.0, true), 1.0 + f32::EPSILON);
        assert_eq!(beside(1.0, false), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(beside(-1.0, true), -1.0 - f32::EPSILON);
        assert_eq!((beside(0.0, true), beside(f32::MAX, true)), (0.0, f32::MAX));
        assert!(beside(f32::NAN, true).is_nan());
    }
}
