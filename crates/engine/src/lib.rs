//! From sources and a fixture to a verdict: compilers, workers, backends, trials, judgement.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod backend;
pub mod compile;
pub mod judge;
pub mod program;
pub mod trial;
pub mod worker;

use replay_base::{cache, files, foreign, process, scratch, summary, tensor};
use replay_cuda as cuda;
use replay_fixture::{fixture, harness};
use replay_frontend as frontend;
use replay_history as history;
use replay_numerics as numerics;
use replay_runtime as runtime;
