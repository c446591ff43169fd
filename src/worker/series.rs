//! A series of runs of one artifact on one fixture, the parent's side: a child that has loaded both,
//! the template, forks a process for each run.
//!
//! Each run is as alone as one that was started by itself: a process, limits, pipes and memory of its
//! own, and no state of another run. Whatever the template cannot do (the artifact's initialisers
//! print, start threads, crash) is done without it, one child after the other.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::account::Ears;
use super::parent::{
    OUTPUT_FD, REPORT_FD, WorkerError, address_space, output_memory, pipe, prepare, shared_memory,
    start_with, system,
};
use super::run::{Expected, Layout, Run, finish};
use super::{CHILD_ARGUMENT, Job, Limits, Request, SERIES, socket};
use crate::fixture::Fixture;

/// Runs of one artifact on one fixture on the CPU.
///
/// The template lives until the series is dropped, or the thread that made it ends; from then on each
/// run has a child of its own.
pub struct Series {
    program: PathBuf,
    limits: Limits,
    layout: Layout,
    template: Option<Template>,
    broken: AtomicBool,
    next: AtomicU64,
}

struct Template {
    child: Child,
    socket: OwnedFd,
}

impl Series {
    /// A series of runs that differ from `job` in device, poison and step alone.
    pub fn new(program: &PathBuf, job: &Job, fixture: &Fixture, limits: Limits) -> Series {
        let template = Template::start(program, job, limits).ok();
        Series {
            program: program.clone(),
            limits,
            layout: Layout::of(fixture, job.shadow),
            broken: AtomicBool::new(template.is_none()),
            template,
            next: AtomicU64::new(0),
        }
    }

    /// Runs `job` and waits for its end; several threads may do so at once.
    ///
    /// # Errors
    /// As [`super::start`].
    pub fn run(&self, job: &Job) -> Result<Run, WorkerError> {
        if let Some(template) = self.template.as_ref().filter(|_| !self.broken())
            && let Some(run) = self.run_by(template, job)?
        {
            return Ok(run);
        }
        start_with(&self.program, job, self.layout.clone(), self.limits, None)
    }

    fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// The run, or none if the template fails.
    fn run_by(&self, template: &Template, job: &Job) -> Result<Option<Run>, WorkerError> {
        let memory = output_memory(self.layout.bytes, &job.folder)?;
        let pipe = || pipe().map_err(system("make a pipe"));
        let ((reports, reports_child), (printed, printed_child)) = (pipe()?, pipe()?);
        let (ending, ending_child) = pipe()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let files = [&reports_child, &printed_child, &memory, &ending_child];
        let sent = template.send(&Request::Run { number, job: Box::new(job.clone()) }, files);
        drop((reports_child, printed_child, ending_child));
        if sent.is_err() {
            self.broken.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        // A template that is gone leaves nobody to signal.
        let signal = |signal| drop(template.send(&Request::Signal { number, signal }, []));
        let ears = Ears { reports: &reports, printed: &printed, ending: Some(&ending) };
        let heard = ears.listen(self.limits.timeout, signal);
        let (account, ending) = heard.map_err(system("listen to the process"))?;
        let status = <[u8; 4]>::try_from(ending.as_slice()).ok().map(i32::from_ne_bytes);
        if status.is_none() {
            // It is gone, or as stuck as the run.
            self.broken.store(true, Ordering::Relaxed);
            if !account.timed_out {
                return Ok(None);
            }
        }
        let status = ExitStatus::from_raw(status.unwrap_or_default());
        let expected = Expected { layout: self.layout.clone(), memory };
        finish(account, status, expected, self.limits.timeout).map(Some)
    }
}

impl Template {
    fn start(program: &PathBuf, job: &Job, limits: Limits) -> io::Result<Template> {
        let (here, there) = socket::pair()?;
        // What the artifact's initialisers print cannot be told apart by run: it shows that there are
        // any, and is not kept.
        let printed = shared_memory(0)?;
        let places = [(printed.as_raw_fd(), REPORT_FD), (printed.as_raw_fd(), OUTPUT_FD)];
        let mut command = Command::new(program);
        command.args([CHILD_ARGUMENT, SERIES]).stdin(Stdio::from(there));
        command.stdout(printed.try_clone()?).stderr(printed);
        prepare(&mut command, places, address_space(job, limits));
        Ok(Template { child: command.spawn()?, socket: here })
    }

    fn send<const N: usize>(&self, request: &Request, files: [&File; N]) -> io::Result<()> {
        let text = serde_json::to_vec(request).expect("requests are plain data");
        socket::send(&self.socket, &text, &files.map(AsRawFd::as_raw_fd))
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        // It may have ended already; if not, it does now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
