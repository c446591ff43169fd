//! Searches a graph of variants for the first bad commit. Pure: indices in, indices out; no git,
//! files, devices, clocks or randomness.
//!
//! A [`Graph`] holds commits in topological order and the variant (source set) of each. A
//! [`Search`] says which commits to test next and takes the answers in any order. It never tests
//! a variant twice, never reports a commit whose parent is known to be bad, and when untestable
//! commits hide the answer it reports every candidate instead of a guess. `docs/bisect.md`
//! explains the rules.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod belief;
mod candidates;
mod ends;
mod engine;
mod forecast;
mod graph;
mod log_text;
mod minimize;
mod pick;
mod reach;
mod shrink;
mod survey;
mod words;

pub use belief::Rate;
pub use candidates::bisection_distances;
pub use ends::{EndsRefusal, UnclearEnd};
pub use engine::Search;
pub use graph::{Graph, GraphError};
pub use log_text::{BisectTerms, LogEntry, LogMark, git_bisect_log};
pub use minimize::{ChangeSet, Minimizer, Minimum, SetTester};
pub use shrink::{CutSize, CutTester, Shrinker, SizeCut, SizeRule, find_size_rule};
pub use survey::Survey;
pub use survey::survey_graph;
pub use words::{Conclusion, Options, Phase, SearchError, SearchState, TestAnswer, Warning};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
