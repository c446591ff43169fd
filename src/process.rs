//! Processes that are started, watched and ended whole: whatever they start themselves ends with them.
//!
//! Knows the system's calls, nothing of what the processes do. [`shield`] keeps signals away from
//! the processes above.
#![allow(unsafe_code)]

pub mod shield;

use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::{Duration, Instant};

/// The number of a process.
pub type Pid = libc::pid_t;

/// How long processes that were killed may take to go.
const GOING: Duration = Duration::from_secs(1);
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
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }
}

/// Makes this process the parent of every descendant whose own parent is gone.
///
/// # Errors
/// Where the system does not know of that.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Kills this process when `parent` ends; false if that has happened already.
pub fn end_with(parent: Pid) -> bool {
    // SAFETY: asks for a signal. A parent that went before sends none.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 && libc::getppid() == parent }
}

/// Gives this process a group of its own, of the same number: signals of the terminal do not reach it.
pub fn lead_group() {
    // SAFETY: fails only for the leader of a session, which has a group of its own. The session stays:
    // some systems share the processor among sessions, whatever priority their processes have.
    unsafe { libc::setpgid(0, 0) };
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

/// Sends `signal` to `process`, which must be a child that was not waited for.
pub fn signal(process: Pid, signal: i32) {
    // SAFETY: the number is the child's for as long as nobody has waited for it.
    unsafe { libc::kill(process, signal) };
}

/// Sends `signal` to all of the group of `leader`, which must be a child that was not waited for.
pub fn signal_group(leader: Pid, signal: i32) {
    // SAFETY: as above.
    unsafe { libc::kill(-leader, signal) };
}

/// A child that has ended, and how; it is gone then. None if none has ended.
pub fn ended() -> Option<(Pid, End)> {
    let mut status = 0;
    // SAFETY: `status` is there to be written.
    let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
    if process <= 0 {
        return None;
    }
    let end = match libc::WIFSIGNALED(status) {
        true => End::Killed(libc::WTERMSIG(status)),
        false => End::Exited(libc::WEXITSTATUS(status)),
    };
    Some((process, end))
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
    // SAFETY: zeroed as the system wants it; nothing is waited for.
    let result = unsafe {
        let mut information: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &raw mut information, flags)
    };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
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
            checked(descriptor)?;
            Ok(Deaths(File::from_raw_fd(descriptor)))
        }
    }

    /// Makes it tell of later deaths alone.
    pub fn forget(&mut self) {
        while self.0.read(&mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok_and(|n| n > 0) {}
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
    files: [Option<RawFd>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut entries =
        files.map(|file| libc::pollfd { fd: file.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    let milliseconds =
        timeout.map_or(-1, |timeout| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1));
    // SAFETY: N entries, and the count says so.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, milliseconds) };
    match checked(ready) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
        Ok(()) => Ok(entries.map(|entry| entry.revents != 0)),
    }
}

/// Forbids this process to leave a core behind.
pub fn forbid_core() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a variable; a lower one is never refused.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
}

/// Limits the address space of this process to `bytes`.
///
/// # Errors
/// Where a lower limit was set for all that this process starts.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is a variable.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) })
}

/// The address space that this process may have.
pub fn memory_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a variable.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur
}

/// The bytes that a file may have which this process writes.
pub fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a variable.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
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

/// The error of a system call that gave `result`, if it failed.
fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_line_of_descent() {
        let line = line_of_descent();
        assert_eq!(line[0], this());
        // SAFETY: asks for a number.
        assert_eq!(line.get(1).copied(), Some(unsafe { libc::getppid() }));
        assert!(line.len() <= MOST_ANCESTORS);
    }

    #[test]
    fn waiting_ends_with_the_timeout_and_tells_what_can_be_read() {
        use std::io::Write;
        let (reader, mut writer) = io::pipe().unwrap();
        let wait =
            || wait_for([Some(reader.as_raw_fd()), None], Some(Duration::from_millis(1))).unwrap();
        assert_eq!(wait(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(wait(), [true, false]);
    }
}
