//! How an error looks to a user: message, causes, hint.

use std::fmt::Write;

use ::replay::cache::CacheError;
use ::replay::compile::{CompileError, CompilerError};
use ::replay::fixture::FixtureError;
use ::replay::history::HistoryError;
use ::replay::replay::{BackendError, ReplayError};
use ::replay::sanitizer::SanitizerError;
use ::replay::snapshot::SnapshotError;
use ::replay::worker::WorkerError;
use anstyle::{AnsiColor, Style};

use super::exit;

/// What a command gives: its exit code, or an error to be shown.
pub type CliResult = anyhow::Result<u8>;

/// An error of the command line itself, with a hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Complaint {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Prints `error` to standard error.
pub fn print(error: &anyhow::Error) {
    anstream::eprint!("{}", render(error));
}

fn render(error: &anyhow::Error) -> String {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let bold = Style::new().bold();
    let mut text = format!("{red}error:{red:#} {error}\n");
    for cause in error.chain().skip(1) {
        let _ = writeln!(text, "{bold}caused by:{bold:#} {cause}");
    }
    if let Some(hint) = hint(error) {
        let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let _ = writeln!(text, "{cyan}hint:{cyan:#} {hint}");
    }
    text
}

/// The first hint along the chain of causes.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        None.or_else(|| cause.downcast_ref::<Complaint>().and_then(|e| e.hint.clone()))
            .or_else(|| cause.downcast_ref::<FixtureError>().and_then(FixtureError::hint))
            .or_else(|| cause.downcast_ref::<HistoryError>().and_then(HistoryError::hint))
            .or_else(|| cause.downcast_ref::<CompileError>().and_then(CompileError::hint))
            .or_else(|| cause.downcast_ref::<CompilerError>().and_then(CompilerError::hint))
            .or_else(|| cause.downcast_ref::<CacheError>().and_then(CacheError::hint))
            .or_else(|| cause.downcast_ref::<WorkerError>().and_then(WorkerError::hint))
            .or_else(|| cause.downcast_ref::<BackendError>().and_then(BackendError::hint))
            .or_else(|| cause.downcast_ref::<SanitizerError>().and_then(SanitizerError::hint))
            .or_else(|| cause.downcast_ref::<SnapshotError>().and_then(SnapshotError::hint))
            .or_else(|| cause.downcast_ref::<ReplayError>().and_then(ReplayError::hint))
    })
}

/// 125 where the revision is at fault, 128 for everything else.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let revision = error.chain().any(|cause| {
        cause.downcast_ref::<HistoryError>().is_some_and(HistoryError::is_revision_fault)
            || cause.downcast_ref::<CompileError>().is_some_and(CompileError::is_revision_fault)
    });
    if revision { exit::UNTESTABLE } else { exit::NOT_ABOUT_THE_KERNEL }
}
