//! Starts, watches and ends processes, together with all processes below them.
//!
//! Deals with system calls, not with the work of the processes. A [`tree`] is ended as a whole, and its
//! [`memory`] watched; [`seccomp_filter`] keeps signals away from the processes above. A [`tracer`] tells what was
//! refused to them. A [`root`] is that of a container image.
#![allow(unsafe_code)]

mod container;
pub mod environment;
pub mod interruption;
pub mod memory;
pub mod root;
pub mod seccomp_filter;
pub mod tracer;
pub mod tree;
pub mod walls;

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Rlimit, getrlimit, setpgid, setrlimit};

pub use rustix::process::Resource;

use crate::tensor::parallel;

/// The number of a process.
pub type Pid = libc::pid_t;

/// A wait for something takes at least this long, unless it happens.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// So many processes and threads may come in any case.
const LEAST_NEW_TASKS: u64 = 4096;
/// So many more may come for each pair of cores: each may make a replay with a thread for each.
const NEW_TASKS_BY_CORES: u64 = 4;
/// Ancestors further up than this are not looked for.
const MOST_ANCESTORS: usize = 32;

/// Advice on `error`, if a limit of the system or of the shell is behind it.
pub fn advise_on_limit(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EMFILE => "raise the number of files that a process may have open (ulimit -n)",
        libc::ENFILE => "the system has too many files open: close some",
        libc::EAGAIN => {
            "raise the number of processes that a user may have (ulimit -u) or that the container may \
             have, or end some"
        }
        libc::ENOMEM => "free memory, or raise the limit of the address space (ulimit -v)",
        libc::EFBIG => "raise the size that files may have (ulimit -f)",
        libc::ENOSPC => "there is no room for it: free memory or disk space",
        _ => return None,
    })
}

/// This process.
pub fn current_pid() -> Pid {
    std::process::id() as Pid
}

/// Gives this process a group of its own, of the same number: signals of the terminal do not reach it.
pub fn lead_group() {
    // Fails only for the leader of a session: it has a group of its own. The session stays the
    // same: some systems share the processor among sessions, whatever the priority of their processes.
    let _ = setpgid(None, None);
}

/// Forks this process. It must have one thread. Returns the child, or none in the child.
///
/// # Errors
/// Where the system has no room for another process.
pub fn fork_process() -> io::Result<Option<Pid>> {
    // SAFETY: with one thread nothing is lacking in the copy.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        result if result < 0 => Err(io::Error::last_os_error()),
        child => Ok(Some(child)),
    }
}

/// Forks this process as a child of its parent. It must have one thread. Returns the new
/// process, or none in it.
///
/// # Errors
/// Where the system has no room for another process.
pub fn fork_for_parent() -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    let zero = libc::c_long::from(0);
    let number = place_of_thread_number();
    // SAFETY: with one thread nothing is missing in the copy. Without a stack of its own, the order
    // of the other arguments, which differs between architectures, does not matter: they are zero.
    match unsafe { libc::syscall(libc::SYS_clone, flags, zero, zero, zero, zero) } {
        0 => {
            if !number.is_null() {
                // SAFETY: the library's variable for this number, which it has no other use for now.
                unsafe { *number = libc::syscall(libc::SYS_set_tid_address, number) as Pid };
            }
            Ok(None)
        }
        result if result < 0 => Err(io::Error::last_os_error()),
        child => Ok(Some(child as Pid)),
    }
}

/// Where the C library keeps this thread's id; null where the system does not tell. The library's own `fork` renews the
/// id. A stale one matters only to calls on a thread from outside.
fn place_of_thread_number() -> *mut Pid {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut place: *mut Pid = std::ptr::null_mut();
    // SAFETY: `place` is there to be written.
    unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut place) };
    place
}

fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of `process`, as far as the system tells.
pub fn parent_of(process: Pid) -> Option<Pid> {
    let text = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may hold any byte.
    let text = String::from_utf8_lossy(&text);
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// This process and its ancestors, as far as the system tells.
pub fn line_of_descent() -> Vec<Pid> {
    std::iter::successors(Some(current_pid()), |&process| {
        parent_of(process).filter(|&parent| parent > 0)
    })
    .take(MOST_ANCESTORS)
    .collect()
}

/// A file, readable when a child of this process ends. Blocks `SIGCHLD` from here on.
fn signals_of_children() -> io::Result<File> {
    // SAFETY: the set is a variable; the descriptor is new, owned by the File.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let descriptor = libc::signalfd(-1, &raw const signals, flags);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(descriptor))
    }
}

/// Unblocks every signal, as after a normal start. May be called between fork and exec.
pub fn unblock_signals() {
    // SAFETY: the set is a variable.
    unsafe {
        let mut no_signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut no_signals);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const no_signals, std::ptr::null_mut());
    }
}

/// Keeps every descriptor but standard input, output and error from the programs that this process starts.
pub fn withhold_inherited_descriptors() {
    let first = libc::STDERR_FILENO + 1;
    if !close_descriptor_range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC) {
        for descriptor in list_descriptors().into_iter().filter(|&descriptor| descriptor >= first) {
            // SAFETY: the file stays open. A number of no file is refused.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Closes every descriptor of this process but standard input, output and error, and those of `kept_files`. For a fork
/// that never returns to the code that owns them.
pub fn close_descriptors_but(kept_files: &[BorrowedFd<'_>]) {
    let mut kept_descriptors: Vec<RawFd> = kept_files.iter().map(AsRawFd::as_raw_fd).collect();
    kept_descriptors.push(libc::STDERR_FILENO);
    kept_descriptors.sort_unstable();
    let nexts = kept_descriptors.iter().skip(1).copied().chain([RawFd::MAX]);
    for (&kept, next) in kept_descriptors.iter().zip(nexts) {
        // Between two neighbours there is none.
        if kept >= libc::STDERR_FILENO
            && kept + 1 < next
            && !close_descriptor_range(kept + 1, next - 1, 0)
        {
            let between = kept + 1..next;
            for descriptor in list_descriptors().into_iter().filter(|open| between.contains(open)) {
                // SAFETY: nobody uses it in this process any more.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// Closes the descriptors from `first` to `last`, or does with them what `flags` says. False on a system without this
/// call.
fn close_descriptor_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> bool {
    // SAFETY: the caller knows that nobody uses them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
}

/// The open descriptors of this process.
fn list_descriptors() -> Vec<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until one of `files` can be read or has lost its other end, or until `timeout` is over.
/// Returns for each whether it is ready; a missing file never is.
///
/// # Errors
/// Where the system refuses to wait; [`io::ErrorKind::Interrupted`] once an interruption is noted.
pub fn wait_for<const N: usize>(
    files: [Option<BorrowedFd<'_>>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let event = interruption::interruption_event();
    let present_files = event.into_iter().chain(files.into_iter().flatten());
    let mut entries: Vec<PollFd<'_>> =
        present_files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    let timeout = timeout.map(|timeout| timeout.max(LEAST_WAIT));
    // A timeout beyond the system's range means none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut entries, timeout.as_ref()) {
        Err(Errno::INTR) => return Ok([false; N]),
        waited => waited?,
    };
    let mut ready = entries.into_iter().map(|entry| !entry.revents().is_empty());
    if event.is_some() && ready.next() == Some(true) {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
    }
    Ok(files.map(|file| file.is_some() && ready.next() == Some(true)))
}

/// Lowers this process's limits for `resource` to `new_limit`, where they are higher. May be called between fork
/// and exec.
///
/// # Errors
/// Where the system refuses.
pub fn lower_limit(resource: Resource, new_limit: u64) -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(resource);
    let [current, maximum] =
        [current, maximum].map(|limit| Some(limit.map_or(new_limit, |limit| limit.min(new_limit))));
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Limits `resource` for this process to `new_limit`, or to its hard limit if there is none. The limit may be raised
/// again.
///
/// # Errors
/// Where the system refuses.
pub fn set_limit(resource: Resource, new_limit: Option<u64>) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = new_limit.map_or(maximum, |wanted_limit| {
        Some(maximum.map_or(wanted_limit, |limit| limit.min(wanted_limit)))
    });
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Asks the processor for its features, as std, blake3 and the compiler's own arithmetic do before they use them. Forks of
/// this process know the answers. In a virtual machine each question takes tens of microseconds.
pub fn detect_processor_features() {
    #[cfg(target_arch = "x86_64")]
    std::hint::black_box(is_x86_feature_detected!("avx512f"));
    std::hint::black_box(blake3::hash(&[]));
    let factor = std::hint::black_box(1.0_f64);
    std::hint::black_box(factor.mul_add(factor, factor));
}

/// Limits how many processes and threads come from this process and all below it. The system counts those of a user, and
/// none of root's: the limit is far beyond what there is now and what replays need.
///
/// # Errors
/// Where the system does not tell how many there are, or refuses.
pub fn limit_new_tasks() -> io::Result<()> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let task_count = parse_task_count(&text).ok_or(io::ErrorKind::InvalidData)?;
    let cores = parallel::count_cores() as u64;
    let new_tasks = LEAST_NEW_TASKS + NEW_TASKS_BY_CORES * cores * cores;
    lower_limit(Resource::Nproc, task_count + new_tasks)
}

/// The processes and threads of this system by the text of `/proc/loadavg` (proc_loadavg(5)).
fn parse_task_count(text: &str) -> Option<u64> {
    let (_, task_count) = text.split_whitespace().nth(3)?.split_once('/')?;
    task_count.parse().ok()
}

/// Limits the address space of this process to `bytes`.
///
/// # Errors
/// Where a lower limit was set for this process and those below it.
pub fn limit_address_space(bytes: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) })?)
}

/// The limit of this process's address space.
pub fn memory_limit() -> u64 {
    getrlimit(Resource::As).current.unwrap_or(libc::RLIM_INFINITY)
}

/// The bytes of memory left to processes before the system has to take pages from others, or before the
/// container's limit is reached; none if the system does not tell.
pub fn free_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let field = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = field.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024);
    Some(container::free_container_memory().map_or(machine, |left| left.min(machine)))
}

/// The limit of this process for the size of a file.
pub fn file_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(libc::RLIM_INFINITY)
}

/// Makes the system end this process before others where memory runs out: 1000 before all, 0 as others.
pub fn go_first(score: u16) {
    // A system without this setting chooses the process to end by itself.
    let _ = fs::write("/proc/self/oom_score_adj", score.to_string());
}

/// How many processes the system has ended for lack of memory, if it tells.
pub fn memory_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

/// Ends this process at once: nothing is written out, and no handler of its exit is called.
pub fn exit_immediately(status: i32) -> ! {
    // SAFETY: the process is gone with it.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::parent_id;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_has_a_parent_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"\xff) R 1"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        let parent = parent_of(child.id() as Pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(current_pid()));
    }

    #[test]
    fn a_process_has_a_line_of_descent() {
        let line = line_of_descent();
        assert_eq!(line[0], current_pid());
        assert_eq!(line.get(1).copied(), Some(parent_id() as Pid));
        assert!(line.len() <= MOST_ANCESTORS);
    }

    #[test]
    fn replayed_code_may_start_thousands_of_processes_and_no_more() {
        use std::os::unix::process::CommandExt;
        assert_eq!(parse_task_count("8.58 8.80 8.48 10/156 11437\n"), Some(156));
        assert_eq!(parse_task_count("8.58 8.80"), None);
        let mut shell = Command::new("sh");
        // SAFETY: glibc's memory may be taken in a fork of one of several threads.
        unsafe { shell.args(["-c", "ulimit -u || ulimit -p"]).pre_exec(limit_new_tasks) };
        let told = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let limit: u64 = told.trim().parse().unwrap();
        let cores = parallel::count_cores() as u64;
        let now = parse_task_count(&fs::read_to_string("/proc/loadavg").unwrap()).unwrap();
        // Others come and go meanwhile.
        let most = now + LEAST_NEW_TASKS + NEW_TASKS_BY_CORES * cores * cores + 1000;
        assert!(limit <= most, "{limit} of {most}");
    }

    #[test]
    fn waiting_ends_with_the_timeout_and_tells_what_can_be_read() {
        use std::io::Write;
        let (reader, mut writer) = io::pipe().unwrap();
        let wait =
            || wait_for([Some(reader.as_fd()), None], Some(Duration::from_millis(1))).unwrap();
        assert_eq!(wait(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(wait(), [true, false]);
    }
}
