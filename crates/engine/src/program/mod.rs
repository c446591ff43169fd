//! Programs of any framework run a revision's files: their protocol, their trees, and their answers.
//! `docs/programs.md` describes the protocol.
//!
//! A [`Runner`] starts programs within limits. A [`HarnessProgram`] is the program of a harness, resolved on this
//! machine. A [`ProgramRequest`] goes out as files and variables. Outputs come back as a file: each is checked before
//! anybody believes it. Nothing here judges numbers.

mod answer;
mod environment;
mod error;
mod find;
mod image;
mod inputs;
mod integer_conversions;
mod opened;
mod outputs;
mod project;
mod request;
mod runner;
mod server;
mod startup;
mod stream;
mod tree;
mod walls;

pub(crate) use self::environment::program_environment;
pub use self::error::ProgramError;
pub(crate) use self::error::ROOT_ADVICE;
pub use self::image::ProgramImage;
pub use self::integer_conversions::tree_integer_conversions;
pub use self::opened::OpenedFiles;
pub use self::project::HarnessProgram;
pub use self::request::{ProgramDevice, ProgramRequest, ProgramSurroundings};
pub use self::runner::{ProgramFault, ProgramReplay, ProgramSettings, Runner};
