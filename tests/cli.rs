//! The program as a user meets it: standard output, standard error and exit code together.
//!
//! What can be tested below the command line is tested there; here is one test for each class of
//! answer. Compiled kernels are shared between tests, and with the next run, in target/tmp.

mod byte_counts;
mod captured;
mod checkouts;
mod commands;
mod compiling;
mod culprit;
mod demonstration;
mod documents;
mod dump;
mod explain;
mod filled;
mod fixtures;
mod foreign;
mod front_door;
mod gradients;
mod helping;
mod interruptions;
mod json;
mod kept;
mod literals;
mod machine;
mod mathematics;
mod measured;
mod new_sources;
mod non_finite;
mod odd;
mod orders;
mod overlays;
mod pages;
mod races;
mod revisions;
mod series;
mod settings;
mod shrink;
mod step;
mod strangers;
mod streams;
mod system_headers;
mod tensor_calls;
mod verdicts;
