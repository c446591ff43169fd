//! An error as the user sees it: message, place, causes, hints, and whose fault it is.
//!
//! A `From` makes a [`CommandError`] of each error of the library and keeps all its knowledge. Later code never looks into
//! the original.

use std::error::Error;
use std::io;
use std::path::Path;

use ::replay::backend::ReplayError;
use ::replay::backend::cuda::DeviceError;
use ::replay::bisect::BisectError;
use ::replay::cache::CacheError;
use ::replay::cluster::ClusterError;
use ::replay::compile::CompilerError;
use ::replay::cuda::sanitizer::SanitizerError;
use ::replay::environment::EnvironmentError;
use ::replay::fixture::FixtureError;
use ::replay::harness::{HarnessError, TextSpot, TomlError};
use ::replay::history::HistoryError;
use ::replay::process::interruption;
use ::replay::report::{ReportLine, Text};
use ::replay::shrink::ShrinkError;
use ::replay::snapshot::SnapshotError;
use anstyle::{AnsiColor, Style};

use super::exit;
use super::out::{self, OutputLost};

/// The result of a command, or an error to show.
pub type CliResult<T> = Result<T, CommandError>;

/// Whose fault an error is, as the exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOwner {
    /// The revision's: it cannot be tested.
    Revision,
    /// The user's, who wants it to end.
    User,
    /// Not the kernel's: usage, a bad fixture, no repository, the machine, a defect of this program.
    Elsewhere,
}

/// The error at the end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    kind: ErrorOwner,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    spot: Option<Box<TextSpot>>,
}

impl CommandError {
    /// An error of the command line itself.
    pub fn new(message: impl Into<String>) -> CommandError {
        CommandError {
            kind: ErrorOwner::Elsewhere,
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            spot: None,
        }
    }

    /// An error with the message and the causes of `error`.
    pub fn from_error(error: &dyn Error) -> CommandError {
        let mut causes = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        CommandError { causes, ..CommandError::new(error.to_string()) }
    }

    /// Adds a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> CommandError {
        self.with_hints([hint.into()])
    }

    /// Adds hints, if there are any.
    pub fn with_hints(mut self, hints: impl IntoIterator<Item = String>) -> CommandError {
        self.hints.extend(hints);
        self
    }

    /// Sets whose fault it is.
    pub fn of_kind(self, kind: ErrorOwner) -> CommandError {
        CommandError { kind, ..self }
    }

    /// Sets its place in a file, if it has one.
    pub fn with_spot(self, spot: Option<&TextSpot>) -> CommandError {
        CommandError { spot: spot.cloned().map(Box::new), ..self }
    }

    /// The same error as the cause of `message`.
    pub fn context(mut self, message: impl Into<String>) -> CommandError {
        let cause = std::mem::replace(&mut self.message, message.into());
        self.causes.insert(0, cause);
        self
    }

    /// The same error, naming the fixture at `path` unless its message does.
    pub fn about_fixture(mut self, path: &Path) -> CommandError {
        let fixture = path.display().to_string();
        if !self.message.contains(&fixture) {
            self.message = format!("{fixture}: {}", self.message);
        }
        self
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Why, the nearest cause first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// Advice to the user.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// 125 where the revision is at fault, 130 where the user ended it, 128 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorOwner::Revision => exit::UNTESTABLE,
            ErrorOwner::User => exit::INTERRUPTED,
            ErrorOwner::Elsewhere => exit::NOT_ABOUT_THE_KERNEL,
        }
    }

    /// Message and causes in one line.
    pub fn in_a_line(&self) -> String {
        let causes = self.causes.iter().map(String::as_str);
        std::iter::once(self.message.as_str()).chain(causes).collect::<Vec<_>>().join(": ")
    }

    /// Prints it to standard error.
    pub fn print(&self) {
        out::write_stderr(format_args!("{}", self.text()));
    }

    /// The text of [`CommandError::print`].
    pub fn text(&self) -> Text {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let bold = Style::new().bold();
        let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let mut text = Text::new();
        append_labelled_words(&mut text, red, "error:", &self.message);
        let excerpt = self.spot.as_ref().map_or("", |spot| spot.excerpt());
        excerpt.lines().for_each(|line| text.line(ReportLine::from(line)));
        self.causes
            .iter()
            .for_each(|cause| append_labelled_words(&mut text, bold, "caused by:", cause));
        self.hints.iter().for_each(|hint| append_labelled_words(&mut text, cyan, "hint:", hint));
        text
    }
}

/// Adds `words` behind `label`, on one line or several.
fn append_labelled_words(text: &mut Text, style: Style, label: &str, words: &str) {
    for (number, words) in shorten_middle(words).lines().enumerate() {
        let line = match number {
            0 => ReportLine::with_style(style, label).and(" "),
            _ => ReportLine::with_style(style, "").and("  "),
        };
        text.line(line.and(words));
    }
}

/// `text`, cut in its middle where it is too long to be read.
fn shorten_middle(text: &str) -> String {
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

/// Adds the failed action to an error.
pub trait ErrorContext<T> {
    /// Makes an error the cause of `message`. Its kind, its hints and its place stay.
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> CliResult<T>;
}

impl<T, E: Into<CommandError>> ErrorContext<T> for Result<T, E> {
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> CliResult<T> {
        self.map_err(|error| error.into().context(message()))
    }
}

/// Errors with hints at most.
macro_rules! with_hints {
    ($($error:ty),*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> CommandError {
                CommandError::from_error(&error).with_hints(error.hint())
            }
        })*
    };
}

with_hints!(DeviceError, CacheError, CompilerError, OutputLost, SanitizerError, SnapshotError);

/// Errors with causes alone.
macro_rules! plain {
    ($($error:ty),*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> CommandError {
                CommandError::from_error(&error)
            }
        })*
    };
}

plain!(io::Error, serde_json::Error);

impl From<FixtureError> for CommandError {
    fn from(error: FixtureError) -> CommandError {
        CommandError::from_error(&error).with_hints(error.hint()).with_spot(error.spot())
    }
}

impl From<HarnessError> for CommandError {
    fn from(error: HarnessError) -> CommandError {
        CommandError::from_error(&error).with_hints(error.hint()).with_spot(error.spot())
    }
}

impl From<TomlError> for CommandError {
    fn from(error: TomlError) -> CommandError {
        CommandError::from_error(&error).with_hints(error.hint()).with_spot(error.spot())
    }
}

impl From<HistoryError> for CommandError {
    fn from(error: HistoryError) -> CommandError {
        let kind =
            if error.is_revision_fault() { ErrorOwner::Revision } else { ErrorOwner::Elsewhere };
        CommandError::from_error(&error).with_hints(error.hint()).of_kind(kind)
    }
}

impl From<EnvironmentError> for CommandError {
    fn from(error: EnvironmentError) -> CommandError {
        if interruption::noted_signal().is_some() {
            return CommandError::new("interrupted").of_kind(ErrorOwner::User);
        }
        let kind =
            if error.is_value_fault() { ErrorOwner::Revision } else { ErrorOwner::Elsewhere };
        CommandError::from_error(&error).with_hints(error.hint()).of_kind(kind)
    }
}

impl From<ReplayError> for CommandError {
    /// The fixture or the machine is at fault: a defect of the revision is an outcome.
    fn from(error: ReplayError) -> CommandError {
        match error {
            ReplayError::Fixture(error) => error.into(),
            _ if interruption::noted_signal().is_some() => {
                CommandError::new("interrupted").of_kind(ErrorOwner::User)
            }
            error => CommandError::from_error(&error).with_hints(error.hint()),
        }
    }
}

impl From<ShrinkError> for CommandError {
    fn from(error: ShrinkError) -> CommandError {
        match error {
            ShrinkError::Replay(error) => error.into(),
            ShrinkError::Fixture(error) => error.into(),
            ShrinkError::Cache(error) => error.into(),
            ShrinkError::Write { .. } => CommandError::from_error(&error),
        }
    }
}

impl From<ClusterError> for CommandError {
    fn from(error: ClusterError) -> CommandError {
        let kind = match error {
            ClusterError::Interrupted { .. } => ErrorOwner::User,
            _ => ErrorOwner::Elsewhere,
        };
        CommandError::from_error(&error).with_hints(error.hint()).of_kind(kind)
    }
}

impl From<BisectError> for CommandError {
    fn from(error: BisectError) -> CommandError {
        match error {
            BisectError::History(error) => error.into(),
            BisectError::Replay(error) => error.into(),
            BisectError::Environment(error) => error.into(),
            BisectError::Graph(_) | BisectError::Ends(_) | BisectError::Outside { .. } => {
                CommandError::from_error(&error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::replay::harness::Harness;
    use ::replay::history::{SourceFault, SourceOrigin};

    use super::*;

    fn shown(error: &CommandError) -> String {
        anstream::adapter::strip_str(&error.text().to_string()).to_string()
    }

    #[test]
    fn a_name_moves_no_cursor_and_begins_no_line() {
        let error = CommandError::new("no tensor `a\u{1b}[2J\nhint: delete it`");
        insta::assert_snapshot!(shown(&error), @r"
        error: no tensor `a
          hint: delete it`
        ");
    }

    #[test]
    fn a_message_of_a_megabyte_keeps_its_beginning_and_its_end() {
        let message = shorten_middle(&format!("tensor `{}` is not an input", "é".repeat(1 << 20)));
        assert!(message.starts_with("tensor `éé") && message.ends_with("é` is not an input"));
        assert!(message.chars().count() < 2100);
    }

    #[test]
    fn what_wraps_an_error_keeps_its_causes_its_place_and_its_hint() {
        let text = "sources = [\"k.cu\"]\ncall = \"run(x);\"\n[inputs.x]\ndtype = \"f31\"\n";
        let wrong = Harness::parse(text, Path::new("replay.toml")).map(drop);
        let error = wrong.context(|| "the draft has to be edited first").unwrap_err();
        insta::assert_snapshot!(shown(&error), @r#"
        error: the draft has to be edited first
          |
        4 | dtype = "f31"
          |         ^^^^^
        caused by: unknown dtype `f31` for `x` at replay.toml:4:9, did you mean `f32`?
        hint: the dtypes are f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool
        "#);
        let line = "the draft has to be edited first: \
                    unknown dtype `f31` for `x` at replay.toml:4:9, did you mean `f32`?";
        assert_eq!(error.in_a_line(), line);
    }

    #[test]
    fn what_wraps_an_error_leaves_the_blame_where_it_is() {
        let unusable = || HistoryError::Unusable {
            place: SourceOrigin::Revision("61b3d97".to_owned()),
            fault: SourceFault::Missing {
                path: "src".to_owned(),
                names: Box::default(),
                similar: vec!["source".to_owned()],
            },
        };
        let wrapped: CommandError = BisectError::from(unusable()).into();
        let wrapped = wrapped.context("cannot search");
        assert_eq!(CommandError::from(unusable()).exit_code(), exit::UNTESTABLE);
        assert_eq!(wrapped.exit_code(), exit::UNTESTABLE);
        assert_eq!(wrapped.hints(), ["did you mean `source`?"]);
        let machine = CommandError::from(io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(machine.exit_code(), exit::NOT_ABOUT_THE_KERNEL);
    }
}
