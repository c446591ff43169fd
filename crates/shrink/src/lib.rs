//! The work of `replay shrink`: a captured fixture cut to the smallest one with its finding.
//!
//! Each try is a fixture of its own in a temporary folder, replayed like any other. [`search`](replay_search) names the
//! cuts, [`fixture`](replay_fixture::fixture) makes them, and a [`Finding`](replay_engine::judge::Finding) says
//! whether a try still shows the defect.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod judged;
mod shrink;
mod value_needs;
mod values;

pub use shrink::{
    CutEnd, CutReport, FixtureShrinker, ShrinkAnswer, ShrinkError, ShrunkSize, TriedCut,
    TryListener,
};
pub use value_needs::{ValueNeed, ValueRule};
