//! Errors of programs, and whose fault they are.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::worker::{advise_on_refused_calls, tells_of_refusal};
use replay_base::process::tracer::RefusedCall;
use replay_history::HistoryError;

/// Lines of a program's output in an error.
const LINES: usize = 12;
/// Characters of a shown line.
const LINE_LENGTH: usize = 240;

/// What may keep a program from an image.
pub(crate) const ROOT_ADVICE: &str = "it takes user namespaces, which `sysctl user.max_user_namespaces`, AppArmor \
     (`kernel.apparmor_restrict_unprivileged_userns`) or the container around may forbid";

/// Why a program gave no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A file of the harness's program does not exist.
    #[error("the program's file `{}` does not exist", path.display())]
    NoFile { path: PathBuf },
    /// A file of the harness's program cannot be read.
    #[error("failed to read the program's file `{}`", path.display())]
    File {
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The program is neither a file nor found in the folders of `PATH`.
    #[error("there is no program `{program}`{}", where_looked(.looked))]
    NotFound {
        /// Its name or path.
        program: String,
        /// The searched folders; none for a path.
        looked: Option<String>,
    },
    /// The system refuses to start it.
    #[error("cannot start `{program}`")]
    Start {
        /// Its name or path.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refuses the image as its root.
    #[error("the program cannot be started in its image: {reason}")]
    Root { reason: String },
    /// The system refuses something besides.
    #[error("cannot {doing} for the program")]
    System {
        /// The failed action.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The revision's files can no longer be read.
    #[error("cannot lay out the revision's tree")]
    Tree(#[source] HistoryError),
    /// The revision's code cannot be run.
    #[error("{message}")]
    Revision {
        /// In a line.
        message: String,
        /// The program's own words.
        source: Option<PrintedTail>,
        /// The program's advice, or the files missing from the revision's tree.
        hint: Option<String>,
    },
    /// The revision cannot be built.
    #[error("`{command}` {how}")]
    Build {
        /// The command of the harness.
        command: String,
        /// How it ended.
        how: String,
        /// Its output.
        source: Option<PrintedTail>,
        /// The program's advice, or the files missing from the revision's tree.
        hint: Option<String>,
    },
    /// The program needs something and this machine lacks it.
    #[error("the program's environment: {message}")]
    Environment {
        /// In a line.
        message: String,
        /// The program's own words.
        source: Option<PrintedTail>,
        /// The program's advice.
        hint: Option<String>,
    },
    /// The revision's own code imports a module, and this machine lacks it.
    #[error("the program's environment: {message}")]
    MissingModule {
        /// In a line.
        message: String,
        /// The program's own words.
        source: Option<PrintedTail>,
        /// The program's advice.
        hint: Option<String>,
    },
    /// The time of a replay was over before the revision's code ran.
    #[error(
        "the program did not call the revision's code within {} s (--timeout): the time went to its start",
        .timeout.as_secs_f64()
    )]
    LateCall {
        timeout: Duration,
        /// Whether it stays, with its modules loaded.
        stays: bool,
    },
    /// The program itself is wrong.
    #[error("the program that the harness names fails by itself: {message}")]
    Mistake {
        /// In a line.
        message: String,
        /// The program's own words.
        source: Option<PrintedTail>,
        /// The program's advice.
        hint: Option<String>,
    },
}

/// The last lines of a program's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedTail(String);

impl PrintedTail {
    /// The last lines of `text`; none if it has no words.
    pub fn last(text: &str) -> Option<PrintedTail> {
        let lines: Vec<String> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(truncate_printed_line)
            .collect();
        let first_line = lines.len().saturating_sub(LINES);
        (!lines.is_empty()).then(|| PrintedTail(lines[first_line..].join("\n")))
    }

    /// The same; none if `message` says it all.
    pub fn beside(message: Option<&str>, text: &str) -> Option<PrintedTail> {
        PrintedTail::last(text).filter(|last_lines| Some(last_lines.0.trim()) != message)
    }
}

impl fmt::Display for PrintedTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PrintedTail {}

/// The last line of `text` with words, cut to the shown length.
pub(super) fn last_line(text: &str) -> Option<String> {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map(|line| truncate_printed_line(line.trim()))
}

fn truncate_printed_line(line: &str) -> String {
    match line.char_indices().nth(LINE_LENGTH) {
        Some((cut_offset, _)) => format!("{}...", &line[..cut_offset]),
        None => line.to_owned(),
    }
}

fn where_looked(looked: &Option<String>) -> String {
    looked.as_ref().map_or(String::new(), |folders| format!(" in {folders}"))
}

impl ProgramError {
    /// Whether the revision is at fault, rather than the machine or the user.
    pub fn is_revision_fault(&self) -> bool {
        matches!(self, ProgramError::Revision { .. } | ProgramError::Build { .. })
    }

    /// The same, with advice if its own words tell that something was refused, and not what else helps.
    /// `find_refused_calls` says what it was, as far as it can.
    pub(super) fn advise_on_refusal(
        mut self,
        find_refused_calls: impl FnOnce() -> Vec<RefusedCall>,
    ) -> ProgramError {
        if let ProgramError::Revision { message, source, hint }
        | ProgramError::Environment { message, source, hint }
        | ProgramError::MissingModule { message, source, hint }
        | ProgramError::Mistake { message, source, hint }
        | ProgramError::Build { how: message, source, hint, .. } = &mut self
            && hint.is_none()
        {
            let printed_lines = source.as_ref().map_or("", |lines| &lines.0);
            if [message.as_str(), printed_lines].into_iter().any(tells_of_refusal) {
                *hint = Some(advise_on_refused_calls(&find_refused_calls()));
            }
        }
        self
    }

    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            ProgramError::NoFile { .. } => {
                "files that replay.toml names for its program lie beside it, not in a revision"
            }
            ProgramError::NotFound { .. } => "install it, or name it by its path in replay.toml",
            ProgramError::Start { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                "make it executable: chmod +x"
            }
            ProgramError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "its first line names an interpreter that is not there, as in `#!/bin/sh`"
            }
            ProgramError::Root { .. } => ROOT_ADVICE,
            ProgramError::Revision { hint, .. } | ProgramError::Build { hint, .. } => {
                return hint.clone();
            }
            ProgramError::Environment { hint: Some(hint), .. }
            | ProgramError::MissingModule { hint: Some(hint), .. }
            | ProgramError::Mistake { hint: Some(hint), .. } => hint,
            ProgramError::Environment { .. } | ProgramError::MissingModule { .. } => {
                "this says nothing about the revision: install what is missing, and replay it again"
            }
            ProgramError::Mistake { .. } => {
                "it lies beside replay.toml and is not of the revision: mend it there"
            }
            ProgramError::LateCall { stays: false, .. } => {
                "this says nothing about the revision: allow more with --timeout, or name what it imports in \
                 `preload`, which loads it once and outside of this time"
            }
            ProgramError::LateCall { stays: true, .. } => {
                "this says nothing about the revision: allow more with --timeout, or name all that it imports in \
                 `preload`"
            }
            ProgramError::System { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "there is no room: `replay cache gc` frees what was not used for long"
            }
            ProgramError::Tree(error) => return error.hint(),
            ProgramError::File { .. }
            | ProgramError::Start { .. }
            | ProgramError::System { .. } => {
                return None;
            }
        };
        Some(advice.to_owned())
    }
}

/// Makes the error for `doing` from the system's reason.
pub(super) fn program_system_error(doing: &'static str) -> impl FnOnce(io::Error) -> ProgramError {
    move |source| ProgramError::System { doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_has_advice_where_nothing_else_helps() {
        let told = |message: &str, printed: &str, hint: Option<&str>| {
            let source = PrintedTail::last(printed);
            let hint = hint.map(str::to_owned);
            let error = ProgramError::Revision { message: message.to_owned(), source, hint };
            error.advise_on_refusal(Vec::new).hint()
        };
        let refused = "PermissionError: [Errno 13] Permission denied: '/home/me/.netrc'";
        let advice = told(refused, "", None);
        insta::assert_snapshot!(advice.as_deref().unwrap(), @"the sandbox keeps replayed code from most files and from all connections: see `replay help sandbox`");
        assert_eq!(told("it fails", &format!("{refused}\nit fails"), None), advice);
        assert_eq!(told(refused, "", Some("log in")).as_deref(), Some("log in"));
        assert_eq!(told("KeyError: 'x'", "KeyError: 'x'", None), None);
    }
}
