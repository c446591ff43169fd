//! What runs in a keeper: one program, and the end of everything that it started.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};

use super::{Bounds, Ending, Report};
use crate::process;

/// How often a process is asked whether it has ended, where the system cannot say when it does.
const PATIENCE: Duration = Duration::from_millis(5);

/// Keeps the program that the arguments of this process name; the other end of its standard input is
/// its parent's.
pub fn run() -> u8 {
    let Ok(parent) = io::stdin().as_fd().try_clone_to_owned() else { return 1 };
    let parent = UnixStream::from(parent);
    let mut words = std::env::args_os().skip(2);
    let bounds = words.next().and_then(|text| serde_json::from_str(text.to_str()?).ok());
    let temporary = words.next().is_some_and(|word| word == "temporary");
    let words: Vec<OsString> = words.collect();
    let (Some(bounds), Some(_)) = (bounds, words.first()) else { return 1 };
    stand_apart();
    match start(&words, &bounds) {
        Ok(child) => Keeping { parent, child, bounds, temporary }.keep(),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(libc::EINVAL);
            tell(&parent, &Report::Refused(number));
        }
    }
    0
}

/// Takes this process out of the reach of its parent's terminal, and has it inherit what the program
/// leaves behind.
fn stand_apart() {
    process::lead_group();
    // Where one of these fails the keeper is as it was, and ends less than it could.
    let _ = process::adopt_orphans();
    let _ = rustix::thread::set_name(c"keeper");
    // The system rather ends a program that takes too much memory than the one that waits for it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

fn start(words: &[OsString], bounds: &Bounds) -> io::Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
    let limits = [
        (libc::RLIMIT_AS, bounds.memory_bytes),
        (libc::RLIMIT_FSIZE, bounds.file_bytes),
        (libc::RLIMIT_CORE, 0),
    ];
    // SAFETY: calls only functions that may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for (resource, most) in limits {
                let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                if libc::getrlimit(resource, &raw mut limit) != 0 {
                    return Err(io::Error::last_os_error());
                }
                limit.rlim_cur = limit.rlim_cur.min(most);
                limit.rlim_max = limit.rlim_max.min(most);
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    command.spawn()
}

struct Keeping {
    parent: UnixStream,
    child: Child,
    bounds: Bounds,
    temporary: bool,
}

/// Why a keeper waits no longer.
enum Reason {
    Ended(ExitStatus),
    TimedOut,
    ParentGone,
}

impl Keeping {
    fn keep(mut self) {
        tell(&self.parent, &Report::Started(self.child.id() as i32));
        let reason = self.wait();
        end_all(self.child.id() as i32, matches!(reason, Reason::Ended(_)));
        match reason {
            Reason::Ended(status) => tell(&self.parent, &Report::Ended(ending(status))),
            Reason::TimedOut => tell(&self.parent, &Report::Ended(Ending::TimedOut)),
            Reason::ParentGone if self.temporary => {
                if let Ok(folder) = std::env::current_dir() {
                    // What cannot be removed stays for `cache gc`.
                    let _ = std::fs::remove_dir_all(folder);
                }
            }
            Reason::ParentGone => {}
        }
    }

    fn wait(&mut self) -> Reason {
        let begun = Instant::now();
        let handle = handle_of(&self.child);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Reason::Ended(status);
            }
            let left = self.bounds.timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Reason::TimedOut;
            }
            let files = [Some(self.parent.as_fd()), handle.as_ref().map(AsFd::as_fd)];
            let patience = if handle.is_some() { left } else { left.min(PATIENCE) };
            let waited = process::wait_for(files, Some(patience));
            // The parent says nothing: what can be read is its end.
            let gone = || matches!((&self.parent).read(&mut [0]), Ok(0) | Err(_));
            if waited.map_or(true, |[called, _]| called && gone()) {
                return Reason::ParentGone;
            }
        }
    }
}

/// A descriptor that can be read once `child` has ended; none where the system has no such thing.
fn handle_of(child: &Child) -> Option<OwnedFd> {
    pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
}

fn tell(parent: &UnixStream, report: &Report) {
    let mut text = serde_json::to_vec(report).expect("reports are plain data");
    text.push(b'\n');
    // A parent that has ended asks no more.
    let _ = (&*parent).write_all(&text);
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(libc::SIGKILL)),
    }
}

/// Ends all that is left of the program whose process group is `group`, and of what it started; whether
/// its own process was waited for is `reaped`.
fn end_all(group: i32, reaped: bool) {
    let begun = Instant::now();
    // Once its leader was waited for, the group has its number only while others are in it: whether
    // there are, only the look for children tells.
    if !reaped {
        process::signal_group(group, libc::SIGKILL);
    }
    while left_behind() {
        for child in children() {
            process::signal(child, libc::SIGKILL);
        }
        // What waits for a device cannot be ended by anybody.
        if begun.elapsed() > Duration::from_secs(5) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this process has children, once those that have ended are waited for.
fn left_behind() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return false,
        }
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<i32> {
    let own = std::process::id();
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| parent_of(*number) == Some(own)).collect()
}

/// The fourth field of `/proc/PID/stat` (proc(5)); the second, in parentheses, may hold any byte.
fn parent_of(process: i32) -> Option<u32> {
    let text = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
