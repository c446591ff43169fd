//! Tells signals caused by replayed code from those of the machine or a user: these say nothing about the code.
//!
//! The handlers neither allocate nor wait, and end the process.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use super::report::{LastWord, Reporter};
use super::{REPORTED, process_reporter};
use replay_base::process::Pid;
use replay_base::process::seccomp_filter::KILLS_ITSELF;

/// The bytes of a stack for handlers.
const STACK_BYTES: usize = 64 << 10;

/// Signals that end a process, can be handled, and do not come from a fault in the code.
const ENDING: [i32; 16] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
];

/// The watching process of the replay.
static KEEPER: AtomicI32 = AtomicI32::new(-1);

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The system, the process itself, or a descendant.
    Inside,
    /// The watching process of the replay.
    Keeper,
    /// Anybody else.
    Outside,
}

impl Sender {
    /// The sender of the signal described by `info`.
    ///
    /// # Safety
    /// `info` must be the argument of a signal handler.
    pub unsafe fn from_siginfo(info: *const libc::siginfo_t) -> Sender {
        // SAFETY: promised by the caller; a signal of these codes has a sender.
        unsafe {
            match (*info).si_code {
                libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => {
                    Sender::from_process((*info).si_pid())
                }
                _ => Sender::Inside,
            }
        }
    }

    fn from_process(process: Pid) -> Sender {
        // SAFETY: asks for numbers. Descendants belong to the process's group.
        let (own_process, group, sender_group) =
            unsafe { (libc::getpid(), libc::getpgrp(), libc::getpgid(process)) };
        match process {
            _ if process == own_process => Sender::Inside,
            _ if process == KEEPER.load(Ordering::SeqCst) => Sender::Keeper,
            // One in another namespace of processes has no number here.
            0 => Sender::Outside,
            _ if sender_group == group => Sender::Inside,
            _ => Sender::Outside,
        }
    }
}

/// Installs handlers: this process then reports who ended it by a signal. The process `keeper`
/// has good reason to. Replayed code runs later and may install others.
pub fn watch_signals(keeper: Pid) {
    KEEPER.store(keeper, Ordering::SeqCst);
    use_own_stack();
    ENDING.into_iter().for_each(|signal| handle_by(signal, handle_signal));
}

/// Installs `handler` for `signal`; several threads may run it at a time. The handler's own signals end the process,
/// since they are blocked there.
pub(crate) fn handle_by(
    signal: i32,
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
) {
    // SAFETY: handlers use async-signal-safe functions alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Gives signal handlers of this operating-system thread a stack of their own: the stack of a
/// CUDA thread may have overflowed.
pub(crate) fn use_own_stack() {
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    // SAFETY: the memory is leaked, so it outlives the thread.
    unsafe {
        let alternative =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
        libc::sigaltstack(&alternative, std::ptr::null_mut());
    }
}

/// Ends the process with `word` as its last one. For signal handlers.
pub fn end_with_last_word(word: &LastWord) -> ! {
    if let Some(reporter) = process_reporter() {
        Reporter::send_last(reporter, word);
    }
    // SAFETY: ends the process, as signal handlers may.
    unsafe { libc::_exit(REPORTED) }
}

/// Ends the process if somebody outside sent the signal.
///
/// # Safety
/// As [`Sender::from_siginfo`].
pub(crate) unsafe fn end_if_from_outside(signal: i32, info: *const libc::siginfo_t) {
    // SAFETY: promised by the caller.
    if unsafe { Sender::from_siginfo(info) } == Sender::Outside {
        end_with_last_word(&LastWord::outside(signal));
    }
}

extern "C" fn handle_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes the information about this signal.
    unsafe {
        end_if_from_outside(signal, info);
        let is_ours = (*info).si_errno == i32::from(KILLS_ITSELF);
        if signal == libc::SIGSYS && is_ours {
            end_with_last_word(&LastWord::raised(libc::SIGKILL));
        }
        if signal == libc::SIGXCPU {
            end_with_last_word(&LastWord::refused(
                |word| {
                    let message = "the time of the processor is limited, and the replay used it up";
                    let _ = std::fmt::Write::write_str(word, message);
                },
                "raise the limit (ulimit -t), or lower --timeout",
            ));
        }
        // As if there were no handler: it waits until this one returns.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
