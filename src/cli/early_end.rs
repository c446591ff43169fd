//! Early ends of a command without an error: lost output, and defects of this program.
//!
//! Rust ends with code 101 after a panic. `git bisect run` would take this for a bad commit.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::Mutex;

use super::error::CommandError;
use super::exit;
use super::out::{self, OutputLost};

/// The first panic of this process.
static FIRST: Mutex<Option<Defect>> = Mutex::new(None);

/// A panic.
#[derive(Default)]
struct Defect {
    /// Its message and its place.
    said: String,
    /// Whether the system has refused this process a thread: libraries panic then.
    lacks_threads: bool,
}

/// Runs `command` and prints everything. Returns its exit code, or the code of an early end.
pub fn catch_early_end(command: impl FnOnce() -> u8) -> u8 {
    set_hook(Box::new(record_panic));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let code = command();
        out::flush_stdout();
        code
    }));
    ended.unwrap_or_else(|payload| {
        print_early_end(payload);
        exit::NOT_ABOUT_THE_KERNEL
    })
}

/// Keeps the message of a panic. With `RUST_BACKTRACE` it is shown at once, with a backtrace.
fn record_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let panic_message = payload.downcast_ref::<&str>().copied();
    let panic_message =
        panic_message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let panic_message = panic_message.unwrap_or("a panic without words");
    let place = panic.location().map_or(String::new(), |place| format!(", at {place}"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        out::eprintln!("{panic_message}{place}\n{backtrace}");
    }
    let mut first = FIRST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    first.get_or_insert_with(|| Defect {
        said: format!("{panic_message}{place}"),
        lacks_threads: std::thread::Builder::new().spawn(|| ()).is_err(),
    });
}

fn print_early_end(payload: Box<dyn Any + Send>) {
    match payload.downcast::<OutputLost>() {
        Ok(lost) if lost.is_unwanted() => {}
        Ok(lost) => CommandError::from(*lost).print(),
        Err(_) => {
            let first = FIRST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            CommandError::from(first.unwrap_or_default()).print();
        }
    }
}

impl From<Defect> for CommandError {
    fn from(Defect { said, lacks_threads }: Defect) -> CommandError {
        if lacks_threads {
            return CommandError::new("the system gives this process no more threads")
                .with_hint("raise the limit (ulimit -u), or wait for other programs to end");
        }
        let version = env!("CARGO_PKG_VERSION");
        CommandError::new(format!("a defect of replay itself: {}", join_panic_lines(&said)))
            .with_hint(format!(
                "please report it, with the command and what it read; RUST_BACKTRACE=1 shows more \
                 (version {version})"
            ))
    }
}

fn join_panic_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::panic::{resume_unwind, take_hook};

    use super::*;

    #[test]
    fn neither_a_panic_nor_lost_output_gives_a_code_that_blames_a_commit() {
        let before = take_hook();
        let panicked = catch_early_end(|| panic!("out of range"));
        let other = catch_early_end(|| resume_unwind(Box::new(3)));
        set_hook(before);
        assert_eq!((panicked, other), (exit::NOT_ABOUT_THE_KERNEL, exit::NOT_ABOUT_THE_KERNEL));
    }

    #[test]
    fn a_defect_asks_for_a_report_and_a_lack_of_threads_does_not() {
        let shown = |lacks_threads| {
            let said = "index out\nof range, at src/x.rs:3:4".to_owned();
            let error = CommandError::from(Defect { said, lacks_threads });
            format!("{}\nhint: {}", error.message(), error.hints().join("; "))
        };
        insta::assert_snapshot!(shown(false), @"
        a defect of replay itself: index out of range, at src/x.rs:3:4
        hint: please report it, with the command and what it read; RUST_BACKTRACE=1 shows more (version 0.2.0)
        ");
        insta::assert_snapshot!(shown(true), @"
        the system gives this process no more threads
        hint: raise the limit (ulimit -u), or wait for other programs to end
        ");
    }
}
