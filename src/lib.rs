//! A bisect-and-replay regression tester for GPU loss and gradient kernels.
//!
//! The library neither prints nor reads user configuration; everything a terminal sees is made
//! in the `cli` module. `docs/architecture.md` shows how the parts depend on each other.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;

pub use replay_base::{cache, files, foreign, process, scratch, summary, tensor};
pub use replay_bisect as bisect;
pub use replay_cluster as cluster;
pub use replay_cuda as cuda;
pub use replay_engine::{backend, compile, environment, judge, program, trial, worker};
pub use replay_fixture::{fixture, harness};
pub use replay_frontend as frontend;
pub use replay_history as history;
pub use replay_numerics as numerics;
pub use replay_report as report;
pub use replay_runtime as runtime;
pub use replay_search as search;
pub use replay_series as series;
pub use replay_shrink as shrink;
pub use replay_snapshot as snapshot;
pub use replay_step as step;
