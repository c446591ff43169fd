//! Whole slices that became zero: a head without a gradient, a row that nobody filled.

use rayon::prelude::*;

use super::bitmap::Bitmap;
use super::slices::{describe_term, dimension_term};
use replay_base::scratch::{Scratch, ScratchError};
use replay_base::tensor::{Dim, TensorView};

/// The indices along each dimension at which all of `got` is zero and some of `base` is not, in
/// words: `heads 1..3`. A dimension is left out if all its indices are so, unless all of `got` is
/// zero.
///
/// # Errors
/// [`ScratchError`] if there is no room for a bit for each index of each dimension.
///
/// # Panics
/// If the tensors have other sizes than `dims`.
pub fn zero_slices(
    base: &TensorView,
    got: &TensorView,
    dims: &[Dim],
    scratch: &Scratch,
) -> Result<Vec<String>, ScratchError> {
    let count = got.len();
    assert_eq!(base.len(), count, "two tensors of one shape");
    // Most outputs have no element that became zero.
    if !(0..count).into_par_iter().any(|index| is_filled(base, index) && !is_filled(got, index)) {
        return Ok(Vec::new());
    }
    if !(0..count).into_par_iter().any(|index| is_filled(got, index)) {
        return Ok(vec!["everything".to_owned()]);
    }
    let mut inner = count;
    let mut slices = Vec::new();
    for (place, dim) in dims.iter().enumerate() {
        inner /= dim.size;
        let outer = count / inner / dim.size;
        let zero = Bitmap::in_scratch(scratch, dim.size, |along| {
            let starts = (0..outer).map(|outer| (outer * dim.size + along) * inner);
            is_any_filled(base, starts.clone(), inner) && !is_any_filled(got, starts, inner)
        })?;
        let zero_term = dimension_term((place, (dim, &zero)));
        // A widened selection would claim slices that are not zero.
        let exact = zero_term.selection.count_below(dim.size) == zero.count();
        if exact && zero.count() > 0 {
            slices.extend(describe_term(&zero_term));
        }
    }
    Ok(slices)
}

fn is_filled(view: &TensorView, index: usize) -> bool {
    view.get_f64(index) != 0.0
}

/// Whether an element of the runs of `inner` elements from `starts` on is filled.
fn is_any_filled(view: &TensorView, starts: impl Iterator<Item = usize>, inner: usize) -> bool {
    starts.into_iter().any(|start| (start..start + inner).any(|index| is_filled(view, index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

    fn found(base: [f32; 12], got: [f32; 12]) -> Vec<String> {
        let bytes = |values: [f32; 12]| values.map(f32::to_le_bytes).concat();
        let base = bytes(base);
        let got = bytes(got);
        let view = |bytes| TensorView { dtype: DType::F32, shape: &[4, 3], bytes };
        let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
        let dims = [dim("head", 4), dim("window", 3)];
        zero_slices(&view(&base), &view(&got), &dims, &Scratch::heap()).unwrap()
    }

    #[test]
    fn heads_that_lost_their_gradient_are_named() {
        let mut got = [1.0; 12];
        got[3..].fill(0.0);
        assert_eq!(found([1.0; 12], got), ["head 1..3"]);
    }

    #[test]
    fn what_was_zero_before_is_no_finding() {
        let mut base = [1.0; 12];
        base[3..].fill(0.0);
        assert_eq!(found(base, base), Vec::<String>::new());
        assert_eq!(found([1.0; 12], [0.0; 12]), ["everything"]);
    }
}
