//! Judges outputs: noise, oracle, comparison, slices. Pure numerics: no files, devices or printing.
//!
//! The method, and why its constants are what they are, is in `docs/verdicts.md`.

pub mod bitmap;
pub mod compare;
pub mod constants;
mod measure;
pub mod noise;
pub mod oracle;
pub mod slices;
#[cfg(test)]
mod tests;
pub mod zeros;

use crate::tensor::TensorView;

/// Two tensors that cannot be compared element by element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Dtype or shape differ.
    #[error("cannot compare {base} with {got}")]
    Shape {
        /// Dtype and shape of the side that is trusted.
        base: String,
        /// Dtype and shape of the other side.
        got: String,
    },
    /// The noise was measured on another tensor.
    #[error("the noise of {noise} elements does not belong to a tensor of {tensor} elements")]
    Noise {
        /// Elements of the noise.
        noise: usize,
        /// Elements of the tensor.
        tensor: usize,
    },
}

/// Refuses tensors of different shape, and of different dtype where `same_dtype`.
fn check_shapes(base: &TensorView, got: &TensorView, same_dtype: bool) -> Result<(), CompareError> {
    let dtype_differs = same_dtype && base.dtype != got.dtype;
    if dtype_differs || base.shape != got.shape || base.len() != got.len() {
        let kind = |t: &TensorView| format!("{} {:?}", t.dtype, t.shape);
        return Err(CompareError::Shape { base: kind(base), got: kind(got) });
    }
    Ok(())
}
