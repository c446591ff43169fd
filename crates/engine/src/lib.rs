//! From sources and a fixture to a verdict: compilers, workers, backends, trials, judgement.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod backend;
pub mod compile;
pub mod environment;
pub mod judge;
pub mod program;
pub mod trial;
pub mod worker;
