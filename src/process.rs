//! Processes that are started, watched and ended whole: whatever they start themselves ends with them.
//!
//! Knows the system's calls, nothing of what the processes do. [`shield`] keeps signals away from
//! the processes above.
#![allow(unsafe_code)]

pub mod shield;

use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getrlimit, kill_process,
    kill_process_group, set_child_subreaper, set_parent_process_death_signal, setpgid, setrlimit,
};

/// The number of a process.
pub type Pid = libc::pid_t;

/// How long processes that were killed may take to go.
const GOING: Duration = Duration::from_secs(1);
/// A wait for something takes at least this long, unless it happens.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Ancestors further up than this are not looked for.
const MOST_ANCESTORS: usize = 32;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// This process.
pub fn this() -> Pid {
    std::process::id() as Pid
}

/// Makes this process the parent of every descendant whose own parent is gone.
///
/// # Errors
/// Where the system does not know of that.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Kills this process when `parent` ends; false if that has happened already.
pub fn end_with(parent: Pid) -> bool {
    // A parent that went before sends no signal.
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && parent_id() as Pid == parent
}

/// Gives this process a group of its own, of the same number: signals of the terminal do not reach it.
pub fn lead_group() {
    // Fails only for the leader of a session, which has a group of its own. The session stays: some
    // systems share the processor among sessions, whatever priority their processes have.
    let _ = setpgid(None, None);
}

/// A copy of this process, which must have one thread; none in the copy.
///
/// # Errors
/// Where the system has no room for another process.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: with one thread nothing is lacking in the copy.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        failed if failed < 0 => Err(io::Error::last_os_error()),
        child => Ok(Some(child)),
    }
}

/// A copy of this process, which must have one thread, as a child of this one's parent; none in the
/// copy.
///
/// # Errors
/// Where the system has no room for another process.
pub fn fork_for_parent() -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    let (none, number) = (libc::c_long::from(0), place_of_thread_number());
    // SAFETY: with one thread nothing is lacking in the copy. Without a stack of its own the order of
    // the other arguments, which differs between architectures, does not matter: they are zero.
    match unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) } {
        0 => {
            if !number.is_null() {
                // SAFETY: the library's variable for this number, which it has no other use for now.
                unsafe { *number = libc::syscall(libc::SYS_set_tid_address, number) as Pid };
            }
            Ok(None)
        }
        failed if failed < 0 => Err(io::Error::last_os_error()),
        child => Ok(Some(child as Pid)),
    }
}

/// Where the C library keeps the number of this thread, which its own `fork` renews; null where the system
/// does not tell. An old number matters only to calls that look at a thread from outside.
fn place_of_thread_number() -> *mut Pid {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut place: *mut Pid = std::ptr::null_mut();
    // SAFETY: `place` is there to be written.
    unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut place) };
    place
}

/// Sends `signal` to `process`, which must be a child that was not waited for: the number is its own for
/// as long.
pub fn signal(process: Pid, signal: i32) {
    if let (Some(process), Some(signal)) = (number(process), Signal::from_named_raw(signal)) {
        // One that has ended needs none.
        let _ = kill_process(process, signal);
    }
}

/// Sends `signal` to all of the group of `leader`, which must be a child that was not waited for.
pub fn signal_group(leader: Pid, signal: i32) {
    if let (Some(leader), Some(signal)) = (number(leader), Signal::from_named_raw(signal)) {
        // A group that is empty needs none.
        let _ = kill_process_group(leader, signal);
    }
}

fn number(process: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(process)
}

/// A child that has ended, and how; it is gone then. None if none has ended.
pub fn ended() -> Option<(Pid, End)> {
    let of_any_kind = WaitOptions::from_bits_retain(libc::__WALL as u32);
    let (process, status) = rustix::process::wait(WaitOptions::NOHANG | of_any_kind).ok()??;
    let end = match status.terminating_signal() {
        Some(signal) => End::Killed(signal),
        None => End::Exited(status.exit_status().unwrap_or_default()),
    };
    Some((process.as_raw_nonzero().get(), end))
}

/// Ends every child of this process but `kept`, and what they have started: their orphans are this
/// process's children next, if it adopts them. Gives those of `kept` that have ended by themselves.
pub fn end_all_but(kept: &[Pid]) -> Vec<Pid> {
    let (begun, mut dead) = (Instant::now(), Vec::new());
    loop {
        while let Some((process, _)) = ended() {
            if kept.contains(&process) {
                dead.push(process);
            }
        }
        let mut left = false;
        for child in children().into_iter().filter(|child| !kept.contains(child)) {
            signal(child, libc::SIGKILL);
            left = true;
        }
        if !left || begun.elapsed() > GOING {
            return dead;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Whether this process has no children, not even such as have ended.
pub fn is_childless() -> bool {
    let asking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, asking), Err(Errno::CHILD))
}

/// The children of this process, those that have ended and were not waited for included.
fn children() -> Vec<Pid> {
    let this = this();
    let numbers = |text: String| text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match fs::read_to_string(format!("/proc/self/task/{this}/children")) {
        Ok(text) => numbers(text),
        Err(_) => all_processes().filter(|&process| parent_of(process) == Some(this)).collect(),
    }
}

fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of `process`, as far as the system tells.
pub fn parent_of(process: Pid) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// This process and those above it, as far as the system tells.
pub fn line_of_descent() -> Vec<Pid> {
    let above = |&process: &Pid| parent_of(process).filter(|&parent| parent > 0);
    std::iter::successors(Some(this()), above).take(MOST_ANCESTORS).collect()
}

/// Tells when a child of this process has ended.
pub struct Deaths(File);

impl Deaths {
    /// Begins to watch; signals of dead children come by this way alone from here on.
    ///
    /// # Errors
    /// Where the system gives no descriptor.
    pub fn watch() -> io::Result<Deaths> {
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
            Ok(Deaths(File::from_raw_fd(descriptor)))
        }
    }

    /// Makes it tell of later deaths alone.
    pub fn forget(&mut self) {
        while self.0.read(&mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok_and(|n| n > 0) {}
    }
}

impl AsFd for Deaths {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Deaths {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Lets every signal through, as a process that was started by itself would.
pub fn unblock_signals() {
    // SAFETY: the set is a variable.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Waits until one of `files` can be read or has lost its other end, or `timeout` is over, and says
/// which; a file that is none is passed over.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_for<const N: usize>(
    files: [Option<BorrowedFd<'_>>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let entry = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
    let mut entries: Vec<PollFd<'_>> = files.into_iter().flatten().map(entry).collect();
    let timeout = timeout.map(|timeout| timeout.max(LEAST_WAIT));
    // What is longer than the system can count has no end.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut entries, timeout.as_ref()) {
        Err(Errno::INTR) => return Ok([false; N]),
        waited => waited?,
    };
    let mut ready = entries.into_iter().map(|entry| !entry.revents().is_empty());
    Ok(files.map(|file| file.is_some() && ready.next() == Some(true)))
}

/// Forbids this process to leave a core behind.
pub fn forbid_core() {
    // A lower limit is never refused.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Limits the address space of this process to `bytes`.
///
/// # Errors
/// Where a lower limit was set for all that this process starts.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) })?)
}

/// The address space that this process may have.
pub fn memory_limit() -> u64 {
    getrlimit(Resource::As).current.unwrap_or(libc::RLIM_INFINITY)
}

/// The bytes that a file may have which this process writes.
pub fn file_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(libc::RLIM_INFINITY)
}

/// Makes the system end this process before others where memory runs out.
pub fn go_first() {
    // A system that has no such preference ends whom it likes.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
}

/// How often the system has ended a process for lack of memory, where it tells.
pub fn memory_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

/// Ends this process at once: nothing is written out, and no handler of its exit is called.
pub fn leave(status: i32) -> ! {
    // SAFETY: the process is gone with it.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_line_of_descent() {
        let line = line_of_descent();
        assert_eq!(line[0], this());
        assert_eq!(line.get(1).copied(), Some(parent_id() as Pid));
        assert!(line.len() <= MOST_ANCESTORS);
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
