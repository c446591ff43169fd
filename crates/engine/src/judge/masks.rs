//! The inputs of a fixture that tell the rows of an output apart.

use std::borrow::Cow;

use replay_base::tensor::{DType, Dim, TensorView};
use replay_fixture::fixture::Fixture;
use replay_numerics::slices::Mask;

/// Narrow integer inputs whose dimensions an output shares: they tell its rows apart.
pub(super) struct Masks<'a> {
    found: Vec<MaskInput<'a>>,
}

struct MaskInput<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
    /// For each of its own dimensions, the dimension of the output.
    places: Vec<usize>,
}

impl<'a> Masks<'a> {
    /// The masks of `fixture` for an output of `dims`.
    pub(super) fn for_output(fixture: &'a Fixture, dims: &[Dim]) -> Masks<'a> {
        let narrow_inputs = fixture.inputs.iter().filter(|input| {
            let is_narrow = matches!(input.dtype, DType::Bool | DType::U8 | DType::I8);
            input.present && is_narrow && !input.dims.is_empty()
        });
        let found = narrow_inputs
            .filter_map(|input| {
                let places = input.dims.iter().map(|dim| {
                    dims.iter().position(|candidate| candidate.name.is_some() && candidate == dim)
                });
                let places: Vec<usize> = places.collect::<Option<_>>()?;
                let bytes = input.packed().ok()?;
                let name = input.name.as_str();
                let dtype = input.dtype;
                let shape = input.shape();
                Some(MaskInput { name, dtype, shape, bytes, places })
            })
            .collect();
        Masks { found }
    }

    /// The masks in the form for the search for a place.
    pub(super) fn as_masks(&self) -> Vec<Mask<'_>> {
        let masks = self.found.iter().map(|mask| Mask {
            name: mask.name,
            view: TensorView { dtype: mask.dtype, shape: &mask.shape, bytes: &mask.bytes },
            dims: &mask.places,
        });
        masks.collect()
    }
}
