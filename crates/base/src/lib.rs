//! What every part stands on: tensors, files, the cache, processes, memory for numbers, summaries.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod cache;
pub mod concurrent;
pub mod files;
pub mod foreign;
#[doc(hidden)]
pub mod fuzz;
pub mod process;
pub mod scratch;
pub mod summary;
pub mod tensor;
