//! The child behind a series of runs: loads artifact and fixture, then forks a process for each run.
//!
//! It has one thread, and nothing of what it runs: a call happens in a fork alone. What it cannot
//! vouch for makes it end, and the parent do without.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::parent::{OUTPUT_FD, REPORT_FD};
use super::{Job, Request, child, socket};
use crate::fixture::Fixture;
use crate::runtime::artifact::Artifact;

/// Where the parent's socket is.
const SOCKET: RawFd = libc::STDIN_FILENO;

/// Serves the parent at the other end of the standard input until it is gone.
pub(super) fn serve() -> ! {
    let status = i32::from(serve_requests().is_none());
    // SAFETY: ends the process; what the artifact left for its exit is for those who called it.
    unsafe { libc::_exit(status) }
}

/// None if this process is not fit to be a template.
fn serve_requests() -> Option<()> {
    let mut deaths = Deaths::watch().ok()?;
    let Some((request, files)) = next_request()? else { return Some(()) };
    let Request::Run { job, .. } = &request else { return None };
    let mut template = Template {
        fixture: Fixture::load_trusted(&job.fixture).ok()?,
        artifact: Artifact::load(&job.artifact).ok()?,
        members: Vec::new(),
    };
    if !is_alone() || has_printed() {
        return None;
    }
    template.obey(request, files)?;
    loop {
        let [asked, died] = wait_for([SOCKET, deaths.0.as_raw_fd()]);
        if died {
            deaths.forget();
            template.bury();
        }
        if asked {
            match next_request()? {
                Some((request, files)) => template.obey(request, files)?,
                None => return Some(()),
            }
        }
    }
}

/// The next request with its files: some none once the parent is gone, none if it makes no sense.
fn next_request() -> Option<Option<(Request, Vec<OwnedFd>)>> {
    let Some((text, files)) = socket::receive(&SOCKET).ok()? else { return Some(None) };
    Some(Some((serde_json::from_slice(&text).ok()?, files)))
}

/// Whether this process has no thread but this one: others would be missing in a fork.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Whether something was printed that every run would have to print.
fn has_printed() -> bool {
    // SAFETY: asks where the file is at.
    unsafe { libc::lseek(libc::STDOUT_FILENO, 0, libc::SEEK_CUR) != 0 }
}

struct Template {
    fixture: Fixture,
    artifact: Artifact,
    members: Vec<Member>,
}

/// A run that has not ended.
struct Member {
    number: u64,
    process: libc::pid_t,
    ending: File,
}

impl Template {
    fn obey(&mut self, request: Request, files: Vec<OwnedFd>) -> Option<()> {
        match request {
            Request::Run { number, job } => self.fork(number, &job, files),
            Request::Signal { number, signal } => {
                if let Some(member) = self.members.iter().find(|member| member.number == number) {
                    // SAFETY: the process has not been waited for, so the number is its own.
                    unsafe { libc::kill(member.process, signal) };
                }
                Some(())
            }
        }
    }

    fn fork(&mut self, number: u64, job: &Job, files: Vec<OwnedFd>) -> Option<()> {
        let [reports, printed, memory, ending] = <[OwnedFd; 4]>::try_from(files).ok()?;
        // SAFETY: this process has one thread, so the fork lacks nothing.
        let (this, process) = unsafe { (libc::getpid(), libc::fork()) };
        match process {
            0 => {
                drop(ending);
                self.members.clear();
                let placed = settle(this, [reports, printed, memory]);
                let status = placed.map_or(1, |()| {
                    child::report(|reporter| {
                        child::replay(job, &self.fixture, self.artifact, reporter)
                    })
                });
                std::process::exit(status)
            }
            // The parent runs it without a template: it finds no word of its ending.
            failed if failed < 0 => None,
            process => {
                self.members.push(Member { number, process, ending: ending.into() });
                Some(())
            }
        }
    }

    /// Tells of the members that have ended.
    fn bury(&mut self) {
        let mut status = 0;
        loop {
            // SAFETY: `status` is there to be written.
            let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if process <= 0 {
                return;
            }
            if let Some(at) = self.members.iter().position(|member| member.process == process) {
                // A parent that has gone needs no word.
                let _ = self.members.swap_remove(at).ending.write_all(&status.to_ne_bytes());
            }
        }
    }
}

/// Makes a fork of `template` like a child that was started by itself: its descriptors and signals.
fn settle(template: libc::pid_t, files: [OwnedFd; 3]) -> Option<()> {
    let [reports, printed, memory] = files.each_ref().map(AsRawFd::as_raw_fd);
    let null = File::open("/dev/null").ok()?;
    let places = [
        (null.as_raw_fd(), libc::STDIN_FILENO),
        (printed, libc::STDOUT_FILENO),
        (printed, libc::STDERR_FILENO),
        (reports, REPORT_FD),
        (memory, OUTPUT_FD),
    ];
    // SAFETY: the template holds these numbers, so none of `files` is among them; the set of signals
    // is a variable.
    unsafe {
        if places.iter().any(|&(from, to)| libc::dup2(from, to) < 0) {
            return None;
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // A template that went before the signal was asked for sends none.
        (libc::getppid() == template).then_some(())
    }
}

/// Tells when a child of this process has ended.
struct Deaths(File);

impl Deaths {
    fn watch() -> io::Result<Deaths> {
        // SAFETY: the set is a variable; the descriptor is new, owned by the File.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            match libc::signalfd(-1, &raw const signals, flags) {
                descriptor if descriptor < 0 => Err(io::Error::last_os_error()),
                descriptor => Ok(Deaths(File::from_raw_fd(descriptor))),
            }
        }
    }

    /// Makes it tell of later deaths alone.
    fn forget(&mut self) {
        while self.0.read(&mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok_and(|n| n > 0) {}
    }
}

/// Waits until one of the two can be read, and says which.
fn wait_for(files: [RawFd; 2]) -> [bool; 2] {
    let mut entries = files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: two entries, and the count says so.
    unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) };
    entries.map(|entry| entry.revents != 0)
}
