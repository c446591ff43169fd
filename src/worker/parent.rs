//! Starts a child, keeps it within its limits, and collects what it says.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use memmap2::Mmap;

use super::{CHILD_ARGUMENT, DeviceJob, Job, Limits};
use crate::fixture::Fixture;
use crate::runtime::report::{Fault, LaunchRecord, Report};
use crate::sanitizer::Wrapper;
use crate::summary::Summary;
use crate::tensor::{DType, TensorView};

/// Where the child finds its end of the pipe for reports.
pub(super) const REPORT_FD: RawFd = 3;
/// Where the child finds the memory for outputs.
pub(super) const OUTPUT_FD: RawFd = 4;

/// The head and the tail of what the child prints are kept, each up to this many bytes.
const KEPT_OUTPUT: usize = 32 << 10;
/// How long a child that was told to end may take to say where it is.
const GRACE: Duration = Duration::from_millis(300);
/// Outputs begin at multiples of this in the shared memory.
pub(super) const OUTPUT_ALIGNMENT: usize = 256;

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
            WorkerError::Refused { hint, .. } => hint.clone(),
        }
    }
}

/// How a child ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ending {
    /// The call returned.
    #[default]
    Completed,
    /// It reported what stopped it.
    Fault(Fault),
    /// The code called `exit`.
    Exited(i32),
    /// A signal ended it without a report.
    Killed(i32),
    /// It was still running when its time was over.
    TimedOut(Duration, Option<Fault>),
}

/// One output of a completed run.
#[derive(Clone, Debug)]
pub struct OutputTensor {
    /// Its name.
    pub name: String,
    /// The element type in memory: float64 for floating-point outputs of a shadow.
    pub dtype: DType,
    /// The sizes of the dimensions.
    pub shape: Vec<usize>,
    begin: usize,
    bytes: usize,
}

/// What one run gave.
#[derive(Debug, Default)]
pub struct Run {
    /// How it ended.
    pub ending: Ending,
    /// The launches, in order, as far as they were reported.
    pub launches: Vec<LaunchRecord>,
    /// All launches.
    pub launch_count: u64,
    /// What was written outside of allocations.
    pub overruns: Vec<String>,
    /// Summaries of the outputs that stayed on the device.
    pub summaries: Vec<(String, Summary)>,
    /// What the module for a GPU lacks; the run means nothing then.
    pub unresolved: Option<String>,
    /// The device's description and class.
    pub device: Option<(String, String)>,
    /// What the code printed.
    pub printed: String,
    /// Time until the inputs lay on the device, from when it was ready.
    pub inputs_time: Duration,
    /// Time spent in the call.
    pub call: Duration,
    /// Time until the outputs were written, or summarised.
    pub outputs_time: Duration,
    outputs: Vec<OutputTensor>,
    memory: Option<Mmap>,
}

impl Run {
    /// The outputs; empty unless the run completed.
    pub fn outputs(&self) -> impl Iterator<Item = (&OutputTensor, TensorView<'_>)> {
        self.outputs.iter().map(|output| (output, self.view(output)))
    }

    /// The output called `name`, if the run completed.
    pub fn output(&self, name: &str) -> Option<TensorView<'_>> {
        self.outputs.iter().find(|output| output.name == name).map(|output| self.view(output))
    }

    fn view<'a>(&'a self, output: &'a OutputTensor) -> TensorView<'a> {
        let memory: &[u8] = self.memory.as_deref().unwrap_or(&[]);
        TensorView {
            dtype: output.dtype,
            shape: &output.shape,
            bytes: &memory[output.begin..output.begin + output.bytes],
        }
    }
}

/// The dtype that an output has in memory.
pub(super) fn memory_dtype(dtype: DType, shadow: bool) -> DType {
    if shadow && dtype.is_float() { DType::F64 } else { dtype }
}

/// Where each output of `fixture` lies in the shared memory, and how large that is.
pub(super) fn layout(fixture: &Fixture, shadow: bool) -> (Vec<OutputTensor>, usize) {
    let mut end = 0usize;
    let outputs = fixture
        .outputs
        .iter()
        .map(|output| {
            let dtype = memory_dtype(output.dtype, shadow);
            let bytes = output.bytes() / output.dtype.size() * dtype.size();
            let begin = end.next_multiple_of(OUTPUT_ALIGNMENT);
            end = begin + bytes;
            OutputTensor { name: output.name.clone(), dtype, shape: output.shape(), begin, bytes }
        })
        .collect();
    (outputs, end)
}

impl OutputTensor {
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.begin..self.begin + self.bytes
    }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> WorkerError {
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
    let (outputs, bytes) = layout(fixture, job.shadow);
    let memory = shared_memory(bytes).map_err(system("make shared memory"))?;
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
    prepare(
        &mut command,
        reports_child.as_raw_fd(),
        memory.as_raw_fd(),
        address_space(job, limits),
    );
    let mut child = command.spawn().map_err(system("start a process"))?;
    drop((reports_child, command));
    let text = serde_json::to_vec(job).expect("jobs are plain data");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A child that dies before it has read its job says why itself, or by its exit status.
    let _ = stdin.write_all(&text);
    drop(stdin);
    let watched = Watched { child: &mut child, grouped: wrapper.is_some() };
    let account = watch(watched, &reports, &printed, limits.timeout)
        .map_err(system("wait for the process"))?;
    finish(account, outputs, memory, bytes, limits)
}

fn address_space(job: &Job, limits: Limits) -> u64 {
    match job.device {
        DeviceJob::Cpu { threads, .. } => limits.address_space_bytes(threads),
        // The driver reserves addresses for all memory that it could ever map.
        DeviceJob::Cuda { .. } => libc::RLIM_INFINITY,
    }
}

/// Anonymous memory that the child writes and this process maps.
fn shared_memory(bytes: usize) -> io::Result<File> {
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

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: fills in two new file descriptors, owned by the Files.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]).into(), OwnedFd::from_raw_fd(ends[1]).into()))
    }
}

/// Arranges descriptors and limits between fork and exec.
fn prepare(command: &mut Command, reports: RawFd, memory: RawFd, address_space: u64) {
    // SAFETY: calls only functions that may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // Both may be in each other's way: first out of the low numbers, then into place.
            let high_reports = libc::fcntl(reports, libc::F_DUPFD, 10);
            let high_memory = libc::fcntl(memory, libc::F_DUPFD, 10);
            if high_reports < 0
                || high_memory < 0
                || libc::dup2(high_reports, REPORT_FD) < 0
                || libc::dup2(high_memory, OUTPUT_FD) < 0
            {
                return Err(io::Error::last_os_error());
            }
            libc::close(high_reports);
            libc::close(high_memory);
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

/// What a child said until its end.
struct Account {
    reports: Vec<Report>,
    printed: String,
    status: ExitStatus,
    timed_out: bool,
}

/// A child, and whether it leads a group of processes.
struct Watched<'c> {
    child: &'c mut Child,
    grouped: bool,
}

impl Watched<'_> {
    fn signal(&self, signal: i32) {
        let number = self.child.id() as i32;
        // SAFETY: the child has not been waited for, so its number is its own, and its group's.
        unsafe { libc::kill(if self.grouped { -number } else { number }, signal) };
    }
}

/// Reads both pipes until the child has ended; tells it to end when its time is over.
fn watch(
    watched: Watched,
    reports: &File,
    printed: &File,
    timeout: Duration,
) -> io::Result<Account> {
    let begun = Instant::now();
    let mut report_text = Vec::new();
    let mut kept = Kept::default();
    let mut open = [true, true];
    let mut told_to_end = None;
    while open.iter().any(|&open| open) {
        let deadline = told_to_end.map_or(timeout, |since: Duration| since + GRACE);
        let left = deadline.saturating_sub(begun.elapsed());
        if left.is_zero() {
            match told_to_end {
                None => {
                    watched.signal(libc::SIGTERM);
                    told_to_end = Some(begun.elapsed());
                    continue;
                }
                Some(_) => {
                    watched.signal(libc::SIGKILL);
                    break;
                }
            }
        }
        let ready = poll([reports, printed], open, left)?;
        let mut buffer = [0u8; 16 << 10];
        for (index, mut file) in [reports, printed].into_iter().enumerate() {
            if !ready[index] {
                continue;
            }
            match file.read(&mut buffer)? {
                0 => open[index] = false,
                count if index == 0 => report_text.extend_from_slice(&buffer[..count]),
                count => kept.push(&buffer[..count]),
            }
        }
    }
    let status = watched.child.wait()?;
    let lines = report_text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    // A line that is cut short is that of a child killed while it wrote.
    let reports = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    Ok(Account { reports, printed: kept.text(), status, timed_out: told_to_end.is_some() })
}

fn poll(files: [&File; 2], open: [bool; 2], timeout: Duration) -> io::Result<[bool; 2]> {
    let entry = |index: usize| libc::pollfd {
        fd: if open[index] { files[index].as_raw_fd() } else { -1 },
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries = [entry(0), entry(1)];
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: two entries, and the count says so.
    if unsafe { libc::poll(entries.as_mut_ptr(), 2, milliseconds) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(entries.map(|entry| entry.revents != 0))
}

/// The head and the tail of a text of any length.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_OUTPUT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        while self.tail.len() > KEPT_OUTPUT {
            self.tail.pop_front();
            self.dropped += 1;
        }
    }

    fn text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n[{} bytes left out]\n", self.dropped));
        }
        let tail: Vec<u8> = self.tail.into_iter().collect();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }
}

fn finish(
    account: Account,
    outputs: Vec<OutputTensor>,
    memory: File,
    bytes: usize,
    limits: Limits,
) -> Result<Run, WorkerError> {
    let mut run = Run { printed: account.printed, ..Run::default() };
    let mut done = false;
    let mut fault = None;
    for report in account.reports {
        match report {
            Report::Launch(launch) => {
                // A launch that was refused after all is reported a second time, with the reason.
                if launch.error.is_some()
                    && run.launches.last().is_some_and(|last| {
                        LaunchRecord { error: launch.error.clone(), ..last.clone() } == launch
                    })
                {
                    run.launches.pop();
                }
                run.launches.push(launch);
            }
            Report::Fault(found) => fault = fault.or(Some(found)),
            Report::Summary { output, summary } => run.summaries.push((output, *summary)),
            Report::Overrun { detail } => run.overruns.push(detail),
            Report::Device { description, class } => run.device = Some((description, class)),
            Report::Unresolved { expression } => run.unresolved = Some(expression),
            Report::Refused { message, hint } => {
                return Err(WorkerError::Refused { message, hint });
            }
            Report::Done { launches, inputs_us, call_us, outputs_us } => {
                done = true;
                run.launch_count = launches;
                run.inputs_time = Duration::from_micros(inputs_us);
                run.outputs_time = Duration::from_micros(outputs_us);
                run.call = Duration::from_micros(call_us);
            }
        }
    }
    run.launch_count = run.launch_count.max(run.launches.len() as u64);
    run.ending = match fault {
        _ if account.timed_out => Ending::TimedOut(limits.timeout, fault),
        Some(fault) => Ending::Fault(fault),
        None if done && account.status.success() => Ending::Completed,
        None => match account.status.signal() {
            Some(signal) => Ending::Killed(signal),
            None => Ending::Exited(account.status.code().unwrap_or_default()),
        },
    };
    if run.ending == Ending::Completed && bytes > 0 {
        // SAFETY: the only other process that had the memory has ended.
        let map = unsafe { Mmap::map(&memory) }.map_err(system("map the outputs"))?;
        run.memory = Some(map);
    }
    if run.ending == Ending::Completed {
        let summarised = |output: &OutputTensor| {
            run.summaries.iter().any(|(summarised, _)| *summarised == output.name)
        };
        run.outputs = outputs.into_iter().filter(|output| !summarised(output)).collect();
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_head_and_its_tail() {
        let mut kept = Kept::default();
        kept.push(b"begin ");
        for _ in 0..100_000 {
            kept.push(b"x");
        }
        kept.push(b" end");
        let text = kept.text();
        assert!(text.starts_with("begin x") && text.ends_with("x end"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 2 * KEPT_OUTPUT + 64);
    }
}
