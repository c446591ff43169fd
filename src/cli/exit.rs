//! Exit codes as `git bisect run` understands them, and the ways to end the process early.

use std::os::unix::process::parent_id;
use std::process::ExitCode;

use ::replay::process::interruption;
use ::replay::report::Standing;
use rustix::process::Signal;

use super::out;

/// Nothing diverged, nothing failed.
pub const SUCCESS: u8 = 0;
/// Something diverged or failed.
pub const FAILED: u8 = 1;
/// The revision cannot be tested: it does not build, or the call does not fit.
pub const UNTESTABLE: u8 = 125;
/// Not about the kernel: usage, a bad fixture, no repository, the machine.
pub const NOT_ABOUT_THE_KERNEL: u8 = 128;
/// Interrupted by the user. The process then ends by the signal: a shell's loop goes on after an exit
/// code, whatever it is.
pub const INTERRUPTED: u8 = 130;

/// The exit code for a standing.
pub fn standing_exit_code(standing: Standing) -> u8 {
    match standing {
        standing if standing.is_wrong() => FAILED,
        standing if standing.is_untold() => UNTESTABLE,
        _ => SUCCESS,
    }
}

/// The worse of two codes, for several fixtures at once.
pub fn worse_exit_code(one: u8, other: u8) -> u8 {
    if rank_exit_code(other) > rank_exit_code(one) { other } else { one }
}

/// How bad a code is: more is worse.
fn rank_exit_code(code: u8) -> u8 {
    match code {
        SUCCESS => 0,
        UNTESTABLE => 1,
        FAILED => 2,
        _ => 3,
    }
}

/// Prints clap's message, and the likely command. Clap's exit code 2 would blame an innocent commit in a bisection.
pub fn print_usage_error(error: &clap::Error, meant: Option<&str>) -> u8 {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        out::write_stderr(format_args!("{text}"));
        if let Some(meant) = meant {
            out::eprintln!("hint: did you mean `replay {meant}`?");
        }
        NOT_ABOUT_THE_KERNEL
    } else {
        out::write_stdout(format_args!("{text}"));
        SUCCESS
    }
}

/// Ends this process by `signal`: its parent then knows about the user's wish. May be called from a signal handler.
#[allow(unsafe_code)]
fn end_by(signal: i32) -> ! {
    // SAFETY: all of these may be called from a signal handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
        // The first process of a container does not end by it.
        libc::_exit(128 + signal)
    }
}

/// The exit code `code`. An interrupted process ends by its signal instead.
pub fn leave_with(code: u8) -> ExitCode {
    match code {
        INTERRUPTED => end_by(interruption::noted_signal().unwrap_or(libc::SIGINT)),
        code => ExitCode::from(code),
    }
}

/// Ends by SIGINT on Ctrl-C; child processes end with their parent. A file over its size
/// limit is an error, and does not end the process.
#[allow(unsafe_code)]
pub fn on_signals() {
    extern "C" fn interrupted(signal: i32) {
        const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
        // SAFETY: isatty and write may be called from a signal handler.
        unsafe {
            if libc::isatty(libc::STDERR_FILENO) == 1 {
                libc::write(libc::STDERR_FILENO, SHOW_CURSOR.as_ptr().cast(), SHOW_CURSOR.len());
            }
        }
        end_by(signal)
    }
    /// Rust's abort, after its message on memory or stack.
    extern "C" fn aborted(_: i32) {
        const TOLD: &[u8] =
            b"error: replay had to end early\nhint: give it more memory (ulimit -d, -s, -v)\n";
        // SAFETY: write and _exit may be called from a signal handler.
        unsafe {
            libc::write(libc::STDERR_FILENO, TOLD.as_ptr().cast(), TOLD.len());
            libc::_exit(NOT_ABOUT_THE_KERNEL.into());
        }
    }
    // SAFETY: the handlers call async-signal-safe functions alone.
    unsafe {
        libc::signal(libc::SIGABRT, aborted as *const () as libc::sighandler_t);
        // Where a parent ignores it, the system forgets how a child ended, and nobody can ask.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGINT, interrupted as *const () as libc::sighandler_t);
        // A closed pipe ends the output, as for any command-line tool.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // A write beyond the size limit of a file fails, and does not end the process.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Ends this process with its parent, as by SIGTERM, where the parent asks for it by its number in `REPLAY_PARENT`: one
/// that dies can end nobody.
pub fn end_with_parent() {
    let Ok(parent) = std::env::var("REPLAY_PARENT") else { return };
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    if asked.is_ok() && parent_id().to_string() != parent {
        end_by(libc::SIGTERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_fixtures_decides() {
        assert_eq!(worse_exit_code(SUCCESS, UNTESTABLE), UNTESTABLE);
        assert_eq!(worse_exit_code(FAILED, UNTESTABLE), FAILED);
        assert_eq!(worse_exit_code(FAILED, NOT_ABOUT_THE_KERNEL), NOT_ABOUT_THE_KERNEL);
        assert_eq!(worse_exit_code(SUCCESS, SUCCESS), SUCCESS);
    }
}
