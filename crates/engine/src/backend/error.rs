//! Errors of runs, by the machine or by the sources.

use std::error::Error;

use super::NoRoom;
use crate::compile::CompileError;
use crate::program::{ProgramError, ProgramFault};
use crate::worker::WorkerError;
use replay_base::cache::CacheError;
use replay_base::scratch::ScratchError;
use replay_cuda::sanitizer::SanitizerError;
use replay_fixture::fixture::FixtureError;

/// The reason for a missing outcome. The machine or the fixture is at fault, unless there is a
/// [`ReplayError::refusal`].
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The fixture cannot be read.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The sources, the compiler or the cache cannot be used.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The child process cannot be run.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// compute-sanitizer does not work here.
    #[error(transparent)]
    Sanitizer(#[from] SanitizerError),
    /// A program cannot be run, or a revision by it.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// There is no room for the tensors.
    #[error(transparent)]
    Room(#[from] NoRoom),
    /// There is no room for per-element results.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// Why sources cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In a sentence.
    pub reason: String,
    /// The causes of the reason, outermost first.
    pub causes: Vec<String>,
    /// Advice to the user.
    pub hint: Option<String>,
    /// The compiler's first error, if the compiler refused them.
    pub first_error: Option<String>,
}

impl ReplayError {
    /// The fault of the sources, if they are to blame.
    pub fn refusal(&self) -> Option<Refusal> {
        let (is_revision_fault, hint, first_error) = match self {
            ReplayError::Compile(error) => {
                let first_error = match error {
                    CompileError::Refused { first_error, .. } => Some(first_error.clone()),
                    _ => None,
                };
                (error.is_revision_fault(), error.hint(), first_error)
            }
            ReplayError::Program(error) => (error.is_revision_fault(), error.hint(), None),
            _ => return None,
        };
        // The text of the error has the content of its variant.
        let causes = std::iter::successors(Error::source(self), |cause| Error::source(*cause));
        is_revision_fault.then(|| Refusal {
            reason: self.to_string(),
            causes: causes.map(ToString::to_string).collect(),
            hint,
            first_error,
        })
    }

    /// Whether the sources' own code imports what this machine lacks. Where other sources of the same history can be
    /// run here, these cannot be tested.
    pub fn lacks_module(&self) -> bool {
        matches!(self, ReplayError::Program(ProgramError::MissingModule { .. }))
    }

    /// Whether a program fails before a revision's code has begun. Where it runs in other environments, it cannot be tested
    /// in this one.
    pub fn blames_environment(&self) -> bool {
        let ReplayError::Program(error) = self else { return false };
        matches!(
            error,
            ProgramError::MissingModule { .. }
                | ProgramError::Environment { .. }
                | ProgramError::Mistake { .. }
        )
    }

    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReplayError::Fixture(error) => error.hint(),
            ReplayError::Compile(error) => error.hint(),
            ReplayError::Cache(error) => error.hint(),
            ReplayError::Worker(error) => error.hint(),
            ReplayError::Sanitizer(error) => error.hint(),
            ReplayError::Program(error) => error.hint(),
            ReplayError::Room(error) => error.hint(),
            ReplayError::Scratch(error) => error.hint(),
        }
    }
}

impl From<ProgramFault> for ReplayError {
    fn from(fault: ProgramFault) -> ReplayError {
        match fault {
            ProgramFault::Program(error) => error.into(),
            ProgramFault::Fixture(error) => error.into(),
            ProgramFault::Cache(error) => error.into(),
            ProgramFault::Worker(error) => error.into(),
        }
    }
}
