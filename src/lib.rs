//! A bisect-and-replay regression tester for GPU loss and gradient kernels.
//!
//! The library neither prints nor reads user configuration; everything a terminal sees is made
//! in the `cli` module. `docs/architecture.md` shows how the parts depend on each other.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod backend;
pub mod bisect;
pub mod cache;
pub mod cluster;
pub mod compile;
pub mod cuda;
pub mod files;
pub mod fixture;
pub mod foreign;
pub mod frontend;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod harness;
pub mod history;
pub mod judge;
pub mod numerics;
mod process;
pub mod program;
pub mod report;
pub mod runtime;
pub mod scratch;
pub mod search;
pub mod series;
pub mod snapshot;
pub mod summary;
mod syntax;
pub mod tensor;
mod thread_loop;
pub mod trial;
pub mod worker;
