//! Writes the inputs of a replay for a program: those of the fixture, widened or stepped where that is
//! asked for.

use std::borrow::Cow;
use std::path::Path;

use crate::fixture::{self, Fixture, FixtureError, Input};
use crate::tensor::step::{Scales, Step};
use crate::tensor::{DType, TensorView};

/// A change of the inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'c> {
    /// The input.
    pub input: &'c str,
    /// How it is moved.
    pub step: &'c Step,
}

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
        let step = change.filter(|change| change.input == input.name).map(|change| change.step);
        let wide = is_wide && input.dtype.is_float();
        let dtype = if wide { DType::F64 } else { input.dtype };
        tensors.push((input.name.as_str(), dtype, input.shape(), elements(input, wide, step)?));
    }
    let mut metadata = Vec::new();
    for input in &present {
        if let Some(strides) = &input.strides {
            metadata.push((format!("{}.strides", input.name), format!("{strides:?}")));
            let storage = input.storage_elements().to_string();
            metadata.push((format!("{}.storage", input.name), storage));
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
