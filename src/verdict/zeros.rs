//! Whole slices that became zero: a head without a gradient, a row that nobody filled.

use super::slices::{describe_term, term};
use crate::tensor::{Dim, TensorView};

/// The indices along each dimension at which all of `got` is zero and some of `base` is not, in
/// words: `heads 1..3`. Nothing is said of a dimension along which all indices are so, unless
/// all of `got` is zero.
///
/// # Panics
/// If the tensors have other sizes than `dims`.
pub fn zero_slices(base: &TensorView, got: &TensorView, dims: &[Dim]) -> Vec<String> {
    let count = got.len();
    assert_eq!(base.len(), count, "two tensors of one shape");
    let filled = |view: &TensorView, index: usize| view.get_f64(index) != 0.0;
    if count == 0 || !(0..count).any(|index| filled(base, index)) {
        return Vec::new();
    }
    if !(0..count).any(|index| filled(got, index)) {
        return vec!["everything".to_owned()];
    }
    let mut inner = count;
    let slices = dims.iter().enumerate().filter_map(|(place, dim)| {
        inner /= dim.size;
        let (mut in_base, mut in_got) = (vec![false; dim.size], vec![false; dim.size]);
        for index in 0..count {
            let along = index / inner % dim.size;
            in_base[along] |= filled(base, index);
            in_got[along] |= filled(got, index);
        }
        let zero: Vec<bool> =
            in_base.iter().zip(&in_got).map(|(base, got)| *base && !got).collect();
        let found = term((place, (dim, &zero)));
        // A selection that had to be widened would claim slices that are not zero.
        let exact = (0..dim.size).all(|index| found.selection.contains(index) == zero[index]);
        (exact && zero.contains(&true)).then(|| describe_term(&found)).flatten()
    });
    slices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn found(base: [f32; 12], got: [f32; 12]) -> Vec<String> {
        let bytes = |values: [f32; 12]| values.map(f32::to_le_bytes).concat();
        let (base, got) = (bytes(base), bytes(got));
        let view = |bytes| TensorView { dtype: DType::F32, shape: &[4, 3], bytes };
        let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
        zero_slices(&view(&base), &view(&got), &[dim("head", 4), dim("window", 3)])
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
