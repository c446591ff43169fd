//! The words of a program about a replay, besides its outputs.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;

use super::ProgramError;
use super::error::PrintedTail;
use replay_base::files;
use replay_runtime::report::{AccessFinding, AccessFindings};

/// The most bytes of an answer.
const MOST_BYTES: u64 = 4 << 20;

/// The content of `answer.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProgramAnswer {
    pub error: Option<Complaint>,
    /// Whether the function that runs the revision was called, where the program tells.
    pub call: Option<CallState>,
    /// Whether another rounding was in effect while the function ran.
    pub rounding: Option<Effect>,
    /// Whether it rounded other numbers to integers than those of the record.
    pub other_roundings: bool,
    /// Whether tensors were surrounded as asked.
    pub surroundings: Option<Effect>,
    /// Whether memory held the requested pattern before anybody wrote it.
    pub unwritten: Option<Effect>,
    /// Whether the programs of a grid could run in the wanted order.
    pub order: Option<Effect>,
    /// What a look at its accesses to memory has found.
    pub accesses: Option<AnsweredAccesses>,
    /// By output, whether wider inputs widened its computation.
    pub twins: HashMap<String, bool>,
    /// The flags of frameworks and the variables that it had.
    pub settings: BTreeMap<String, String>,
    pub notes: Vec<String>,
}

/// The findings of a checked replay, or why there are none.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum AnsweredAccesses {
    Unchecked {
        unchecked: String,
    },
    Checked {
        findings: Vec<AccessFinding>,
        #[serde(default)]
        left_out: u64,
    },
}

impl AnsweredAccesses {
    /// The findings of a replay that was asked for them; none if the program does not know the request.
    pub(super) fn findings_of(answered: Option<AnsweredAccesses>) -> AccessFindings {
        let not_checked = |reason: String| AccessFindings {
            not_checked: Some(reason),
            ..AccessFindings::default()
        };
        match answered {
            None => not_checked("the program does not look at its accesses".to_owned()),
            Some(AnsweredAccesses::Unchecked { unchecked }) => not_checked(unchecked),
            Some(AnsweredAccesses::Checked { findings, left_out }) => {
                AccessFindings { found: findings, left_out, ..AccessFindings::default() }
            }
        }
    }
}

/// How far a program has come that did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CallState {
    /// Its start was not over.
    Waiting,
    /// The revision's code ran.
    Begun,
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
    /// The module that the environment lacks and that the revision's own code leads to, if there is one.
    module: Option<String>,
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
        let bytes = files::read_foreign_file(path, MOST_BYTES)
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
            ComplaintFault::Environment if self.module.is_some() => {
                ProgramError::MissingModule { message, source, hint: self.hint }
            }
            ComplaintFault::Environment => {
                ProgramError::Environment { message, source, hint: self.hint }
            }
            ComplaintFault::Program => ProgramError::Mistake { message, source, hint: self.hint },
        }
    }
}
