//! What ends a command early, other than an error: output that is lost, and defects of this program.
//!
//! Code 101, with which Rust ends after a panic, would be a bad commit to `git bisect run`.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::Mutex;

use super::error::{self, Complaint};
use super::exit;
use super::out::{self, OutputLost};

/// The first panic of this process: what it said, and where.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// The exit code of `command`, with everything printed; or what ended it.
pub fn guarded(command: impl FnOnce() -> u8) -> u8 {
    set_hook(Box::new(note));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let code = command();
        out::finish();
        code
    }));
    ended.unwrap_or_else(|payload| {
        explain(payload);
        exit::NOT_ABOUT_THE_KERNEL
    })
}

/// Keeps what a panic says; `RUST_BACKTRACE` shows it at once, with the way that led there.
fn note(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let said = payload.downcast_ref::<&str>().copied();
    let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let said = said.unwrap_or("a panic without words");
    let place = panic.location().map_or(String::new(), |place| format!(", at {place}"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        out::eprintln!("{said}{place}\n{backtrace}");
    }
    let mut first = FIRST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    first.get_or_insert_with(|| format!("{said}{place}"));
}

fn explain(payload: Box<dyn Any + Send>) {
    match payload.downcast::<OutputLost>() {
        Ok(lost) if lost.is_unwanted() => {}
        Ok(lost) => error::print(&(*lost).into()),
        Err(_) => {
            let first = FIRST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            error::print(&complaint(&first.unwrap_or_default()).into());
        }
    }
}

/// What is said of a panic with the words `said`.
fn complaint(said: &str) -> Complaint {
    // The standard library and rayon panic where the system refuses them a thread.
    if said.contains("failed to spawn thread") || said.contains("ThreadPoolBuildError") {
        return Complaint {
            message: "the system gives this process no more threads".to_owned(),
            hint: Some("raise the limit (ulimit -u), or wait for other programs to end".to_owned()),
        };
    }
    Complaint {
        message: format!("a defect of replay itself: {}", one_line(said)),
        hint: Some(format!(
            "please report it, with the command and what it read; RUST_BACKTRACE=1 shows more \
             (version {})",
            env!("CARGO_PKG_VERSION")
        )),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::panic::{resume_unwind, take_hook};

    use super::*;

    #[test]
    fn neither_a_panic_nor_lost_output_gives_a_code_that_blames_a_commit() {
        let before = take_hook();
        let panicked = guarded(|| panic!("out of range"));
        let other = guarded(|| resume_unwind(Box::new(3)));
        set_hook(before);
        assert_eq!((panicked, other), (exit::NOT_ABOUT_THE_KERNEL, exit::NOT_ABOUT_THE_KERNEL));
    }

    #[test]
    fn a_defect_asks_for_a_report_and_a_lack_of_threads_does_not() {
        let shown = |said| {
            let Complaint { message, hint } = complaint(said);
            format!("{message}\nhint: {}", hint.unwrap_or_default())
        };
        insta::assert_snapshot!(shown("index out\nof range, at src/x.rs:3:4"), @"
        a defect of replay itself: index out of range, at src/x.rs:3:4
        hint: please report it, with the command and what it read; RUST_BACKTRACE=1 shows more (version 0.1.0)
        ");
        let said = "failed to spawn thread: Os { code: 11, kind: WouldBlock }, at library/std";
        insta::assert_snapshot!(shown(said), @"
        the system gives this process no more threads
        hint: raise the limit (ulimit -u), or wait for other programs to end
        ");
    }
}
