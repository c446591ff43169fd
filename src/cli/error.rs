//! How an error looks to a user: message, causes, hint.

use std::fmt::Write;

use ::replay::cache::CacheError;
use ::replay::compile::{CompileError, CompilerError};
use ::replay::fixture::FixtureError;
use ::replay::harness::{HarnessError, Spot};
use ::replay::history::HistoryError;
use ::replay::replay::{BackendError, ReplayError};
use ::replay::sanitizer::SanitizerError;
use ::replay::snapshot::SnapshotError;
use ::replay::worker::WorkerError;
use anstyle::{AnsiColor, Style};

use super::checkout::Younger;
use super::exit;
use super::out::{self, OutputLost};

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
    out::tell(format_args!("{}", render(error)));
}

fn render(error: &anyhow::Error) -> String {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let bold = Style::new().bold();
    let mut text = format!("{red}error:{red:#} {}\n", plain(&error.to_string(), false));
    if let Some(spot) = spot(error) {
        let _ = writeln!(text, "{}", spot.excerpt());
    }
    for cause in error.chain().skip(1) {
        let cause = plain(&cause.to_string(), true);
        let _ = writeln!(text, "{bold}caused by:{bold:#} {cause}");
    }
    if let Some(hint) = hint(error) {
        let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let _ = writeln!(text, "{cyan}hint:{cyan:#} {}", plain(&hint, false));
    }
    text
}

/// `text` with control characters escaped: names come from files, and must move no cursor and make
/// no line that looks like one of ours. What is too long to be read is cut in its middle.
fn plain(text: &str, lines: bool) -> String {
    const HEAD: usize = 1500;
    const TAIL: usize = 500;
    const GAP: &str = " ... ";
    let length = text.chars().count();
    if length > HEAD + GAP.len() + TAIL {
        let head: String = text.chars().take(HEAD).collect();
        let tail: String = text.chars().skip(length - TAIL).collect();
        return plain(&format!("{head}{GAP}{tail}"), lines);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' if lines => out.push(c),
            '\t' => out.push(' '),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// The place in a file that the error is about.
fn spot(error: &anyhow::Error) -> Option<&Spot> {
    error.chain().find_map(|cause| {
        None.or_else(|| cause.downcast_ref::<FixtureError>().and_then(FixtureError::spot))
            .or_else(|| cause.downcast_ref::<HarnessError>().and_then(HarnessError::spot))
    })
}

/// The first hint along the chain of causes.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        None.or_else(|| cause.downcast_ref::<Complaint>().and_then(|e| e.hint.clone()))
            .or_else(|| cause.downcast_ref::<OutputLost>().and_then(OutputLost::hint))
            .or_else(|| cause.downcast_ref::<Younger>().map(Younger::hint))
            .or_else(|| cause.downcast_ref::<FixtureError>().and_then(FixtureError::hint))
            .or_else(|| cause.downcast_ref::<HarnessError>().and_then(HarnessError::hint))
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
        cause.is::<Younger>()
            || cause.downcast_ref::<HistoryError>().is_some_and(HistoryError::is_revision_fault)
            || cause.downcast_ref::<CompileError>().is_some_and(CompileError::is_revision_fault)
    });
    if revision { exit::UNTESTABLE } else { exit::NOT_ABOUT_THE_KERNEL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_moves_no_cursor_and_makes_no_line() {
        let message = "no tensor `a\u{1b}[2J\nhint: delete it\t`".to_owned();
        let error = Complaint { message, hint: None }.into();
        let text = anstream::adapter::strip_str(&render(&error)).to_string();
        insta::assert_snapshot!(text, @r"error: no tensor `a\u{1b}[2J\nhint: delete it `");
    }

    #[test]
    fn a_message_of_a_megabyte_keeps_its_beginning_and_its_end() {
        let message = plain(&format!("tensor `{}` is not an input", "é".repeat(1 << 20)), false);
        assert!(message.starts_with("tensor `éé") && message.ends_with("é` is not an input"));
        assert!(message.chars().count() < 2100);
    }
}
