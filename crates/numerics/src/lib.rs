//! Judges outputs: noise, oracle, comparison, slices, derivatives. Pure numerics: no files, devices or printing.
//! Per-element results lie in a [`Scratch`](replay_base::scratch::Scratch) that the caller provides, so that the heap
//! does not grow with the tensors.
//!
//! `docs/verdicts.md` describes the method and justifies its constants.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod bitmap;
mod cells;
pub mod compare;
pub mod constants;
pub mod derivative;
mod deviations;
pub mod drift;
pub mod imprint;
pub mod measure;
pub mod noise;
pub mod oracle;
mod parts;
pub mod picture;
pub mod shadow;
pub mod slices;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod twin;
pub mod zeros;

use replay_base::scratch::ScratchError;
use replay_base::tensor::TensorView;

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

/// Why nothing can be said about a tensor.
#[derive(Debug, thiserror::Error)]
pub enum NumericsError {
    /// The tensors do not belong together.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// There is no room for per-element results.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// Refuses tensors of different shape, and of different dtype where `same_dtype`.
fn check_shapes(base: &TensorView, got: &TensorView, same_dtype: bool) -> Result<(), CompareError> {
    let dtype_differs = same_dtype && base.dtype != got.dtype;
    if dtype_differs || base.shape != got.shape || base.len() != got.len() {
        return Err(CompareError::Shape { base: describe_kind(base), got: describe_kind(got) });
    }
    Ok(())
}

/// The dtype and the shape of `tensor` in words.
fn describe_kind(tensor: &TensorView) -> String {
    format!("{} {:?}", tensor.dtype, tensor.shape)
}
