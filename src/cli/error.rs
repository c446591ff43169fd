//! How an error looks to a user: message, causes, hint.

use ::replay::backend::ReplayError;
use ::replay::backend::cuda::DeviceError;
use ::replay::cache::CacheError;
use ::replay::compile::{CompileError, CompilerError};
use ::replay::cuda::sanitizer::SanitizerError;
use ::replay::fixture::FixtureError;
use ::replay::harness::{HarnessError, Spot};
use ::replay::history::HistoryError;
use ::replay::report::{Line, Text};
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
    let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
    let mut text = Text::new();
    let told = |text: &mut Text, style: Style, what: &str, words: &str| {
        // What a program or a library says may have several lines.
        for (number, words) in words.lines().enumerate() {
            let what = if number == 0 { what } else { "" };
            text.line(Line::of(style, what).and(if number == 0 { " " } else { "  " }).and(words));
        }
    };
    told(&mut text, red, "error:", &shortened(&error.to_string()));
    if let Some(spot) = spot(error) {
        for line in spot.excerpt().lines() {
            text.line(Line::from(line));
        }
    }
    for cause in error.chain().skip(1) {
        told(&mut text, bold, "caused by:", &shortened(&cause.to_string()));
    }
    if let Some(hint) = hint(error) {
        told(&mut text, cyan, "hint:", &shortened(&hint));
    }
    text.to_string()
}

/// `text`, cut in its middle where it is too long to be read.
fn shortened(text: &str) -> String {
    const HEAD: usize = 1500;
    const TAIL: usize = 500;
    const GAP: &str = " ... ";
    let length = text.chars().count();
    if length <= HEAD + GAP.len() + TAIL {
        return text.to_owned();
    }
    let head: String = text.chars().take(HEAD).collect();
    let tail: String = text.chars().skip(length - TAIL).collect();
    format!("{head}{GAP}{tail}")
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
            .or_else(|| cause.downcast_ref::<DeviceError>().and_then(DeviceError::hint))
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
    fn a_name_moves_no_cursor_and_begins_no_line() {
        let message = "no tensor `a\u{1b}[2J\nhint: delete it`".to_owned();
        let error = Complaint { message, hint: None }.into();
        let text = anstream::adapter::strip_str(&render(&error)).to_string();
        insta::assert_snapshot!(text, @r"
        error: no tensor `a
          hint: delete it`
        ");
    }

    #[test]
    fn a_message_of_a_megabyte_keeps_its_beginning_and_its_end() {
        let message = shortened(&format!("tensor `{}` is not an input", "é".repeat(1 << 20)));
        assert!(message.starts_with("tensor `éé") && message.ends_with("é` is not an input"));
        assert!(message.chars().count() < 2100);
    }
}
