//! Errors of replays by the machine, or by whoever ended the replay. The revision is not to blame.

use std::borrow::Cow;
use std::io;

use replay_base::process;
use replay_base::scratch::ScratchError;

/// Why no replay could be made.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The system refused a process, a pipe or memory.
    #[error("cannot {doing} for the replay")]
    System {
        /// The failed action.
        doing: Cow<'static, str>,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no room for large outputs.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The child refused the job.
    #[error("{message}")]
    Refused {
        /// In the child's words.
        message: String,
        /// Advice to the user.
        hint: Option<String>,
    },
    /// Somebody else ended the replay.
    #[error("the replay was killed from outside (signal {signal})")]
    KilledFromOutside {
        /// The signal's number.
        signal: i32,
        /// Whether the system has ended processes for lack of memory since this program began.
        memory_ran_out: bool,
    },
    /// The process that watches over the replay went.
    #[error("the process that watches over the replay was killed")]
    Lost {
        /// As above.
        memory_ran_out: bool,
    },
    /// The child ended before replayed code could run.
    #[error("the process for the replay ended before it was ready ({how})")]
    Unready { how: String },
}

impl WorkerError {
    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            WorkerError::System { source, .. } => hint_of(source).map(str::to_owned),
            WorkerError::Scratch(error) => error.hint(),
            WorkerError::Refused { hint, .. } => hint.clone(),
            WorkerError::KilledFromOutside { memory_ran_out: true, .. }
            | WorkerError::Lost { memory_ran_out: true } => Some(
                "the system ran out of memory meanwhile: free some, or lower --threads or the \
                 fixture's size"
                    .to_owned(),
            ),
            WorkerError::KilledFromOutside { .. } | WorkerError::Lost { .. } => Some(
                "this says nothing about the code, and nothing of it is remembered: replay it again"
                    .to_owned(),
            ),
            WorkerError::Unready { .. } => Some(
                "the limits that the shell or the container sets may be too low (ulimit -a)"
                    .to_owned(),
            ),
        }
    }
}

/// Advice for a system call after `error`.
fn hint_of(error: &io::Error) -> Option<&'static str> {
    process::advise_on_limit(error).or(match error.raw_os_error()? {
        libc::EPERM | libc::EACCES | libc::ENOSYS => Some(
            "the system or the container forbids it: memfd_create, socketpair and fork must be allowed",
        ),
        _ => None,
    })
}

/// Makes the error for `doing` from the system's reason.
pub(super) fn system_error(doing: &'static str) -> impl FnOnce(io::Error) -> WorkerError {
    move |source| WorkerError::System { doing: doing.into(), source }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_error_says_what_happened_and_what_helps() {
        let told = |error: &WorkerError| {
            let cause = error.source().map_or(String::new(), |cause| format!("\n  {cause}"));
            format!("{error}{cause}\n  {}", error.hint().unwrap_or_default())
        };
        let killed = |memory_ran_out| WorkerError::KilledFromOutside { signal: 9, memory_ran_out };
        let refused =
            |doing, number| told(&system_error(doing)(io::Error::from_raw_os_error(number)));
        let all = [
            told(&killed(false)),
            told(&killed(true)),
            told(&WorkerError::Lost { memory_ran_out: false }),
            told(&WorkerError::Unready { how: "exit status 1".into() }),
            refused("make a pipe", libc::EMFILE),
            refused("make a pipe", libc::ENFILE),
            refused("start a process", libc::EAGAIN),
            refused("start a process", libc::ENOMEM),
            refused("make shared memory", libc::EFBIG),
            refused("make shared memory", libc::ENOSPC),
            refused("make shared memory", libc::EPERM),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        the replay was killed from outside (signal 9)
          this says nothing about the code, and nothing of it is remembered: replay it again
        the replay was killed from outside (signal 9)
          the system ran out of memory meanwhile: free some, or lower --threads or the fixture's size
        the process that watches over the replay was killed
          this says nothing about the code, and nothing of it is remembered: replay it again
        the process for the replay ended before it was ready (exit status 1)
          the limits that the shell or the container sets may be too low (ulimit -a)
        cannot make a pipe for the replay
          Too many open files (os error 24)
          raise the number of files that a process may have open (ulimit -n)
        cannot make a pipe for the replay
          Too many open files in system (os error 23)
          the system has too many files open: close some
        cannot start a process for the replay
          Resource temporarily unavailable (os error 11)
          raise the number of processes that a user may have (ulimit -u) or that the container may have, or end some
        cannot start a process for the replay
          Cannot allocate memory (os error 12)
          free memory, or raise the limit of the address space (ulimit -v)
        cannot make shared memory for the replay
          File too large (os error 27)
          raise the size that files may have (ulimit -f)
        cannot make shared memory for the replay
          No space left on device (os error 28)
          there is no room for it: free memory or disk space
        cannot make shared memory for the replay
          Operation not permitted (os error 1)
          the system or the container forbids it: memfd_create, socketpair and fork must be allowed
        ");
    }
}
