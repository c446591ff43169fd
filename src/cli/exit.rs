//! Exit codes as `git bisect run` understands them, and the ways to end the process early.

use std::sync::atomic::{AtomicBool, Ordering};

use super::out;

use ::replay::report::Standing;

/// Nothing diverged, nothing failed.
pub const SUCCESS: u8 = 0;
/// Something diverged or failed.
pub const FAILED: u8 = 1;
/// The revision cannot be tested: it does not build, or the call does not fit.
pub const UNTESTABLE: u8 = 125;
/// Not about the kernel: usage, a bad fixture, no repository, the machine.
pub const NOT_ABOUT_THE_KERNEL: u8 = 128;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

/// The exit code for a standing.
pub fn code_of(standing: Standing) -> u8 {
    match standing {
        standing if standing.is_wrong() => FAILED,
        standing if standing.is_untold() => UNTESTABLE,
        _ => SUCCESS,
    }
}

/// The worse of two codes, for several fixtures at once.
pub fn worse(one: u8, other: u8) -> u8 {
    let badness = |code: u8| match code {
        SUCCESS => 0,
        UNTESTABLE => 1,
        FAILED => 2,
        _ => 3,
    };
    if badness(other) > badness(one) { other } else { one }
}

/// Prints clap's message, and which command may be meant. Clap's exit code 2 would blame an
/// innocent commit in a bisection.
pub fn usage(error: &clap::Error, meant: Option<&str>) -> u8 {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        out::tell(format_args!("{text}"));
        if let Some(meant) = meant {
            out::eprintln!("hint: did you mean `replay {meant}`?");
        }
        NOT_ABOUT_THE_KERNEL
    } else {
        out::write(format_args!("{text}"));
        SUCCESS
    }
}

/// Ends with [`INTERRUPTED`] on Ctrl-C; child processes end with their parent. A file over its size
/// limit is an error, and does not end the process.
#[allow(unsafe_code)]
pub fn on_signals() {
    extern "C" fn interrupted(_: i32) {
        const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
        // SAFETY: isatty, write and _exit may be called from a signal handler.
        unsafe {
            if libc::isatty(libc::STDERR_FILENO) == 1 {
                libc::write(libc::STDERR_FILENO, SHOW_CURSOR.as_ptr().cast(), SHOW_CURSOR.len());
            }
            libc::_exit(INTERRUPTED.into());
        }
    }
    // SAFETY: the handler does only what a signal handler may do.
    unsafe {
        libc::signal(libc::SIGINT, interrupted as *const () as libc::sighandler_t);
        // A reader that closes the pipe ends the output, as for any command-line tool.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // A write beyond the size limit of a file fails, and does not end the process.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Whether the user wants this process to end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C and SIGTERM are noted, and end the process only the second time: what was started on other machines
/// has to be ended first.
#[allow(unsafe_code)]
pub fn note_interruptions() {
    extern "C" fn noted(_: i32) {
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            // SAFETY: _exit may be called from a signal handler.
            unsafe { libc::_exit(INTERRUPTED.into()) };
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does only what a signal handler may do.
        unsafe { libc::signal(signal, noted as *const () as libc::sighandler_t) };
    }
}

/// Whether an interruption was noted.
pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_fixtures_decides() {
        assert_eq!(worse(SUCCESS, UNTESTABLE), UNTESTABLE);
        assert_eq!(worse(FAILED, UNTESTABLE), FAILED);
        assert_eq!(worse(FAILED, NOT_ABOUT_THE_KERNEL), NOT_ABOUT_THE_KERNEL);
        assert_eq!(worse(SUCCESS, SUCCESS), SUCCESS);
    }
}
