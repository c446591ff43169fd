//! The words of a program about a replay, besides its outputs.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::ProgramError;
use super::error::PrintedTail;
use replay_base::files;

/// The most bytes of an answer.
const MOST_BYTES: u64 = 4 << 20;

/// The content of `answer.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProgramAnswer {
    pub error: Option<Complaint>,
    /// Whether another rounding was in effect while the function ran.
    pub rounding: Option<Effect>,
    /// Whether tensors were surrounded as asked.
    pub surroundings: Option<Effect>,
    /// By output, whether wider inputs widened its computation.
    pub twins: HashMap<String, bool>,
    pub notes: Vec<String>,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effect {
    Applied,
    Reset,
    Unsupported,
}

/// Why there are no outputs.
#[derive(Debug, Deserialize)]
pub(super) struct Complaint {
    pub fault: ComplaintFault,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub traceback: String,
    pub hint: Option<String>,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ComplaintFault {
    Revision,
    Environment,
    Program,
}

impl ProgramAnswer {
    /// The answer at `path`; an empty one if the program wrote none.
    pub(super) fn read(path: &Path) -> Result<ProgramAnswer, ProgramError> {
        if std::fs::symlink_metadata(path).is_err() {
            return Ok(ProgramAnswer::default());
        }
        let bytes = files::read_regular_file(path, MOST_BYTES)
            .map_err(|error| wrong_answer_error(format!("its answer cannot be read: {error}")))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            wrong_answer_error(format!("its answer is not as the protocol says: {error}"))
        })
    }
}

fn wrong_answer_error(message: String) -> ProgramError {
    ProgramError::Mistake { message, source: None, hint: None }
}

impl Complaint {
    /// The error of this answer; `lacks` names missing files of the revision's tree.
    pub(super) fn error(self, lacks: Option<String>) -> ProgramError {
        let message = match self.message.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => line.to_owned(),
            _ => super::error::last_line(&self.traceback)
                .unwrap_or_else(|| "it does not say why".to_owned()),
        };
        let source = PrintedTail::beside(Some(&message), &self.traceback);
        match self.fault {
            ComplaintFault::Revision => {
                ProgramError::Revision { message, source, hint: self.hint.or(lacks) }
            }
            ComplaintFault::Environment => {
                ProgramError::Environment { message, source, hint: self.hint }
            }
            ComplaintFault::Program => ProgramError::Mistake { message, source, hint: self.hint },
        }
    }
}
