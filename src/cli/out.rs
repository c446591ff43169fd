//! Prints: results to standard output, everything else to standard error.
//!
//! A lost result is an error of the machine: it ends the command, as [`OutputLost`]. Lost messages are dropped: nobody is
//! left to tell.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::panic::resume_unwind;

/// Standard output took no more.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the result to standard output")]
pub struct OutputLost(#[source] io::Error);

impl OutputLost {
    /// Whether the reader has left: it wants no more, and no message about it.
    pub fn is_unwanted(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }

    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        let is_full = matches!(
            self.0.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        is_full.then(|| "make room and run it again: what was replayed is in the cache".to_owned())
    }
}

/// Writes to standard output, with colours where it is a terminal.
///
/// # Panics
/// Unwinds with [`OutputLost`], unseen by the panic hook; `defect::guarded` catches it.
pub fn write_stdout(text: Arguments<'_>) {
    unwind_if_lost(anstream::stdout().lock().write_all(text.to_string().as_bytes()));
}

/// Writes out the buffer.
///
/// # Panics
/// As [`write_stdout`].
pub fn flush_stdout() {
    unwind_if_lost(io::stdout().flush());
}

/// Whether [`write_stdout`] keeps colours.
pub fn is_coloured() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Writes to standard error as far as possible.
pub fn write_stderr(text: Arguments<'_>) {
    let _ = anstream::stderr().lock().write_all(text.to_string().as_bytes());
}

fn unwind_if_lost(result: io::Result<()>) {
    if let Err(error) = result {
        resume_unwind(Box::new(OutputLost(error)));
    }
}

/// As the standard library's, by [`write_stdout`].
macro_rules! print {
    ($($text:tt)*) => { $crate::cli::out::write_stdout(format_args!($($text)*)) };
}

/// As the standard library's, by [`write_stdout`].
macro_rules! println {
    () => { $crate::cli::out::write_stdout(format_args!("\n")) };
    ($($text:tt)*) => {
        $crate::cli::out::write_stdout(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// As the standard library's, by [`write_stderr`].
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::cli::out::write_stderr(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use {eprintln, print, println};
