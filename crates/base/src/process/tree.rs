//! A tree of processes below this one: kept together, watched, and ended as a whole.
//!
//! Its root adopts orphans, so it can end all of them without knowing who they are. The keepers of
//! replays and those of foreign programs are such roots.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process,
    kill_process_group, set_child_subreaper, set_parent_process_death_signal,
};
use serde::{Deserialize, Serialize};

use super::{Pid, all_processes, current_pid, parent_of, wait_for};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl End {
    /// The end of a process with this `status`.
    pub(super) fn from_status(status: WaitStatus) -> End {
        match status.terminating_signal() {
            Some(signal) => End::Killed(signal),
            None => End::Exited(status.exit_status().unwrap_or_default()),
        }
    }
}

/// Makes this process the root of a tree, out of reach of the terminal: it becomes the parent of
/// every descendant whose own parent is gone.
///
/// # Errors
/// If the system does not support it. Descendants whose parents end are then left behind.
pub fn take_root() -> io::Result<()> {
    super::lead_group();
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Kills this process when `parent` ends; false if `parent` has ended already. May be called between fork
/// and exec.
pub fn die_with_parent(parent: Pid) -> bool {
    // If the parent went before, no signal comes.
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && parent_id() as Pid == parent
}

/// Sends `signal` to `process`, a child. Nobody may have waited for it yet: its number cannot be reused before.
pub fn signal_process(process: Pid, signal: i32) {
    if let (Some(process), Some(signal)) = (rustix_pid(process), Signal::from_named_raw(signal)) {
        // An ended process needs none.
        let _ = kill_process(process, signal);
    }
}

/// Sends `signal` to the group of `leader`. The leader must be a child nobody has waited for, or its
/// group must have other members.
pub fn signal_group(leader: Pid, signal: i32) {
    if let (Some(leader), Some(signal)) = (rustix_pid(leader), Signal::from_named_raw(signal)) {
        // An empty group needs none.
        let _ = kill_process_group(leader, signal);
    }
}

fn rustix_pid(process: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(process)
}

/// Reaps an ended child, and returns how it ended; none if no child has ended.
pub fn reap_child() -> Option<(Pid, End)> {
    next_status().map(|(process, status)| (process, End::from_status(status)))
}

/// What has happened to a child, or to a process that this thread traces; none if nothing has.
pub(super) fn next_status() -> Option<(Pid, WaitStatus)> {
    let of_this_thread = WaitOptions::from_bits_retain((libc::__WALL | libc::__WNOTHREAD) as u32);
    let (process, status) = rustix::process::wait(WaitOptions::NOHANG | of_this_thread).ok()??;
    Some((process.as_raw_nonzero().get(), status))
}

/// Ends every child of this process but `kept_processes`, and everything below: this process
/// adopts their orphans, if it can, and ends them next. After `patience` it leaves the rest alone. Returns the
/// processes of `kept_processes` with an end of their own.
pub fn end_all_but(kept_processes: &[Pid], patience: Duration) -> Vec<Pid> {
    let started_at = Instant::now();
    let mut dead = Vec::new();
    loop {
        while let Some((process, _)) = reap_child() {
            if kept_processes.contains(&process) {
                dead.push(process);
            }
        }
        let mut left = false;
        for child in list_children().into_iter().filter(|child| !kept_processes.contains(child)) {
            signal_process(child, libc::SIGKILL);
            left = true;
        }
        if !left || started_at.elapsed() > patience {
            return dead;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Whether this process has no children, not even ended ones.
pub fn is_childless() -> bool {
    let asking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, asking), Err(Errno::CHILD))
}

/// The children of this process, including ended ones nobody has waited for.
fn list_children() -> Vec<Pid> {
    children_of(current_pid())
}

/// The children of all threads of `process`.
fn children_of(process: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists: Vec<io::Result<String>> =
        threads.map(|thread| fs::read_to_string(thread.path().join("children"))).collect();
    // Some systems do not tell. A thread may have ended meanwhile: it has no list.
    if lists.iter().all(Result::is_err) {
        return all_processes().filter(|&child| parent_of(child) == Some(process)).collect();
    }
    let text = lists.into_iter().flatten().collect::<String>();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The processes below `root`.
pub(crate) fn list_descendants(root: Pid) -> Vec<Pid> {
    let mut all = children_of(root);
    let mut next = 0;
    while let Some(&process) = all.get(next) {
        next += 1;
        // A process hands its children on when it ends, so one may be met twice.
        let children = children_of(process);
        all.extend(children.into_iter().filter(|child| !all.contains(child)).collect::<Vec<_>>());
    }
    all
}

/// Tells when a child of this process has ended.
pub struct Deaths(File);

impl Deaths {
    /// Begins to watch. From here on, deaths of children are reported only in this way. Children of this process have to
    /// unblock `SIGCHLD`.
    ///
    /// # Errors
    /// Where the system gives no descriptor.
    pub fn watch() -> io::Result<Deaths> {
        super::signals_of_children().map(Deaths)
    }

    /// Waits until `parent` writes or has gone, a child has ended, or `timeout` is over. Returns whether
    /// the parent can be read, and whether a child has ended; [`reap_child`] returns the child.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait(
        &mut self,
        parent: impl AsFd,
        timeout: Option<Duration>,
    ) -> io::Result<(bool, bool)> {
        let [called, died] = wait_for([Some(parent.as_fd()), Some(self.0.as_fd())], timeout)?;
        if died {
            self.forget();
        }
        Ok((called, died))
    }

    /// Clears the deaths so far. Only later ones are reported.
    fn forget(&mut self) {
        while self.0.read(&mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok_and(|n| n > 0) {}
    }
}

impl AsRawFd for Deaths {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
