//! The results of making a variant ready to run. A result without a variant holds the reason.

use std::sync::Arc;

use crate::backend::{Refusal, Variant};

/// The result of making sources ready to run.
pub enum VariantBuild {
    /// They can be run.
    Ready(Arc<dyn Variant>),
    /// They cannot be run, and they are at fault.
    Refused(Refusal),
}

/// The float64 shadow of a trial, or a run of it.
#[derive(Clone, Debug)]
pub enum Shadow<T> {
    /// It is there.
    Present(T),
    /// There is none.
    Missing {
        /// In words.
        reason: String,
    },
}

impl<T> Shadow<T> {
    /// The shadow, if it is there.
    pub fn present(&self) -> Option<&T> {
        match self {
            Shadow::Present(value) => Some(value),
            Shadow::Missing { .. } => None,
        }
    }

    /// Why there is none.
    pub fn missing_reason(&self) -> Option<&str> {
        match self {
            Shadow::Present(_) => None,
            Shadow::Missing { reason } => Some(reason),
        }
    }

    /// A view of it.
    pub fn as_ref(&self) -> Shadow<&T> {
        match self {
            Shadow::Present(value) => Shadow::Present(value),
            Shadow::Missing { reason } => Shadow::Missing { reason: reason.clone() },
        }
    }
}
