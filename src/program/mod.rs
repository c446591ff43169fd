//! Programs of any framework that run a revision's files: the protocol, the trees that they see, and
//! what they answer. `docs/programs.md` describes the protocol.
//!
//! A [`Runner`] starts programs within limits. A [`HarnessProgram`] is what a harness says of its program,
//! resolved on this machine. A [`ProgramRequest`] goes out as files and variables, and outputs come back as a
//! file that is doubted until it was checked. Nothing here judges numbers.

mod answer;
mod error;
mod find;
mod inputs;
mod outputs;
mod project;
mod request;
mod runner;
mod server;
mod startup;
mod stream;
mod tree;

pub use self::error::ProgramError;
pub use self::project::HarnessProgram;
pub use self::request::{ProgramDevice, ProgramRequest, ProgramSurroundings};
pub use self::runner::{ProgramFault, ProgramReplay, ProgramSettings, Runner};
