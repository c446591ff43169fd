//! Starts a child, keeps it within its limits, and collects what it says.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Ears;
use super::run::{Expected, Layout, Run, finish};
use super::{CHILD_ARGUMENT, DeviceJob, Job, Limits};
use crate::fixture::Fixture;
use crate::sanitizer::Wrapper;
use crate::scratch::{self, ScratchError};

/// Where the child finds its end of the pipe for reports.
pub(super) const REPORT_FD: RawFd = 3;
/// Where the child finds the memory for outputs.
pub(super) const OUTPUT_FD: RawFd = 4;

/// Outputs of one replay that take this many bytes lie in a file, whose pages the system can write
/// out, not in memory.
const LARGE_OUTPUTS: usize = 64 << 20;

/// Why no child could be run: the machine is at fault, not the revision.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The system refused a process, a pipe or memory.
    #[error("cannot {doing} for the replay")]
    System {
        /// What was tried.
        doing: &'static str,
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
        /// What to do about it.
        hint: Option<String>,
    },
}

impl WorkerError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            WorkerError::System { .. } => None,
            WorkerError::Scratch(error) => error.hint(),
            WorkerError::Refused { hint, .. } => hint.clone(),
        }
    }
}

pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> WorkerError {
    move |source| WorkerError::System { doing, source }
}

/// Runs `job` in a child of `program` (this program), which `wrapper` starts if there is one, and
/// waits for its end.
///
/// # Errors
/// [`WorkerError`] if no child can be run, or it refuses the job. Whatever the replayed code does
/// is no error but a [`Run`].
pub fn start(
    program: &PathBuf,
    job: &Job,
    fixture: &Fixture,
    limits: Limits,
    wrapper: Option<&Wrapper>,
) -> Result<Run, WorkerError> {
    start_with(program, job, Layout::of(fixture, job.shadow), limits, wrapper)
}

/// The same for outputs that lie where `layout` says.
pub(super) fn start_with(
    program: &PathBuf,
    job: &Job,
    layout: Layout,
    limits: Limits,
    wrapper: Option<&Wrapper>,
) -> Result<Run, WorkerError> {
    let memory = output_memory(layout.bytes, &job.folder)?;
    let (reports, reports_child) = pipe().map_err(system("make a pipe"))?;
    let (printed, printed_child) = pipe().map_err(system("make a pipe"))?;
    let printed_copy = printed_child.try_clone().map_err(system("make a pipe"))?;
    let mut command = match wrapper {
        Some(wrapper) => {
            let mut command = Command::new(&wrapper.program);
            // Both end at once when they are told to.
            command.args(&wrapper.arguments).arg(program).process_group(0);
            command
        }
        None => Command::new(program),
    };
    command
        .arg(CHILD_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(printed_child))
        .stderr(Stdio::from(printed_copy));
    let places = [(reports_child.as_raw_fd(), REPORT_FD), (memory.as_raw_fd(), OUTPUT_FD)];
    prepare(&mut command, places, address_space(job, limits));
    let mut child = command.spawn().map_err(system("start a process"))?;
    drop((reports_child, command));
    let text = serde_json::to_vec(job).expect("jobs are plain data");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A child that dies before it has read its job says why itself, or by its exit status.
    let _ = stdin.write_all(&text);
    drop(stdin);
    let number = child.id() as i32;
    let signal = |signal: i32| {
        // SAFETY: the child has not been waited for, so its number is its own, and its group's.
        unsafe { libc::kill(if wrapper.is_some() { -number } else { number }, signal) };
    };
    let ears = Ears { reports: &reports, printed: &printed, ending: None };
    let heard = ears.listen(limits.timeout, signal).map_err(system("listen to the process"))?;
    let status = child.wait().map_err(system("wait for the process"))?;
    finish(heard.0, status, Expected { layout, memory }, limits.timeout)
}

pub(super) fn address_space(job: &Job, limits: Limits) -> u64 {
    match job.device {
        DeviceJob::Cpu { threads, .. } => limits.address_space_bytes(threads),
        // The driver reserves addresses for all memory that it could ever map.
        DeviceJob::Cuda { .. } => libc::RLIM_INFINITY,
    }
}

/// What the child writes its outputs to: memory, or a file where they are large.
pub(super) fn output_memory(bytes: usize, folder: &Path) -> Result<File, WorkerError> {
    match bytes {
        LARGE_OUTPUTS.. => Ok(scratch::file(folder, bytes)?),
        _ => shared_memory(bytes).map_err(system("make shared memory")),
    }
}

/// Anonymous memory that the child writes and this process maps.
pub(super) fn shared_memory(bytes: usize) -> io::Result<File> {
    // SAFETY: makes a new file descriptor, owned by the File.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"replay-outputs".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.set_len(bytes.max(1) as u64)?;
    Ok(file)
}

pub(super) fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: fills in two new file descriptors, owned by the Files.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]).into(), OwnedFd::from_raw_fd(ends[1]).into()))
    }
}

/// Arranges descriptors and limits between fork and exec: each of `places` is a descriptor and where
/// the child finds it.
pub(super) fn prepare(command: &mut Command, places: [(RawFd, RawFd); 2], address_space: u64) {
    // SAFETY: calls only functions that may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // They may be in each other's way: first out of the low numbers, then into place.
            let mut high = [0; 2];
            for (high, (from, _)) in high.iter_mut().zip(places) {
                *high = libc::fcntl(from, libc::F_DUPFD, 10);
            }
            for (high, (_, to)) in high.into_iter().zip(places) {
                if high < 0 || libc::dup2(high, to) < 0 {
                    return Err(io::Error::last_os_error());
                }
                libc::close(high);
            }
            let limit = libc::rlimit { rlim_cur: address_space, rlim_max: address_space };
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::setrlimit(libc::RLIMIT_AS, &limit) != 0
                || libc::setrlimit(libc::RLIMIT_CORE, &no_core) != 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}
