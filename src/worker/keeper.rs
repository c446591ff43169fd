//! Watches over one replay after the other. It forks the process that makes the replay, sees how it ends,
//! and ends all that it has started before it reports the end.
//!
//! It runs no replayed code, and replayed code cannot send it signals. When its parent has gone, it ends
//! everything below itself.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::template::{self, Template};
use super::{Answer, GOING, Order, Request, member, socket};
use crate::process::tree::{self, Deaths, End};
use crate::process::{self, Pid};

/// Why no replay was begun.
enum Failure {
    /// There is nobody to make it for.
    Alone,
    /// The time was over before the template was ready.
    TimeOver,
    /// The system refused.
    System(&'static str, io::Error),
}

/// Serves the program at the other end of `parent` until it is gone.
pub(super) fn serve(parent: OwnedFd) -> ! {
    let watching = tree::take_root().and_then(|()| Deaths::watch());
    let above = process::line_of_descent();
    match watching {
        Ok(deaths) => {
            let mut keeper = Keeper { parent, deaths, above, template: None, fit: true };
            while keeper.serve_one().is_some() {}
            tree::end_all_but(&[], GOING);
        }
        Err(error) => {
            answer(&parent, &failed(&Failure::System("watch over a process", error)));
        }
    }
    process::leave(0)
}

/// Tells the program at the other end of `parent`; one that is gone needs no word.
pub(super) fn answer(parent: &OwnedFd, answer: &Answer) {
    let text = serde_json::to_vec(answer).expect("answers are plain data");
    let _ = socket::send(parent, &text, &[]);
}

fn failed(failure: &Failure) -> Answer {
    match failure {
        Failure::System(doing, error) => Answer::Failed {
            doing: (*doing).to_owned(),
            error: error.raw_os_error().unwrap_or_default(),
        },
        Failure::Alone | Failure::TimeOver => Answer::Ended(End::Killed(libc::SIGKILL)),
    }
}

struct Keeper {
    parent: OwnedFd,
    deaths: Deaths,
    /// The processes that replayed code must not reach: those above, and this one.
    above: Vec<Pid>,
    template: Option<Template>,
    /// Whether a template may do.
    fit: bool,
}

impl Keeper {
    /// Makes the next requested replay; none once the program is gone.
    fn serve_one(&mut self) -> Option<()> {
        let (text, files) = match socket::receive(&self.parent) {
            Ok(received) => received?,
            Err(error) => {
                answer(&self.parent, &failed(&Failure::System("hand over files", error)));
                return Some(());
            }
        };
        let Ok(Request::Run(order)) = serde_json::from_slice(&text) else {
            // A signal for a replay that has ended.
            return Some(());
        };
        let ended = match self.begin(&order, files) {
            Ok(member) => self.await_end(member, order.wrapper.is_some())?,
            Err(Failure::Alone) => return None,
            Err(failure) => {
                self.leave_template_alone();
                answer(&self.parent, &failed(&failure));
                return Some(());
            }
        };
        self.leave_template_alone();
        answer(&self.parent, &Answer::Ended(ended));
        Some(())
    }

    /// Ends everything below but the template.
    fn leave_template_alone(&mut self) {
        let kept = self.template.as_ref().map(|template| template.process);
        let dead = tree::end_all_but(kept.as_slice(), GOING);
        if kept.is_some_and(|kept| dead.contains(&kept)) {
            self.template = None;
        }
    }

    /// Starts the process that makes the replay.
    fn begin(&mut self, order: &Order, files: Vec<OwnedFd>) -> Result<Pid, Failure> {
        if order.series && self.fit {
            match self.begin_by_template(order, &files) {
                Ok(Some(member)) => return Ok(member),
                Ok(None) => {
                    // The replay is made without a template.
                    self.fit = false;
                    self.template = None;
                    tree::end_all_but(&[], GOING);
                }
                Err(failure) => return Err(failure),
            }
        }
        let refused = |error| Failure::System("start a process", error);
        match process::fork().map_err(refused)? {
            Some(member) => Ok(member),
            None => {
                let keeper = self.above[0];
                self.forget_parent();
                member::run(order, files, &self.above, keeper, None)
            }
        }
    }

    /// Has the template fork a member; none if the template is not fit, or gone.
    fn begin_by_template(
        &mut self,
        order: &Order,
        files: &[OwnedFd],
    ) -> Result<Option<Pid>, Failure> {
        if self.template.is_none() {
            self.template = Some(self.start_template(order)?);
        }
        let Some(template) = &self.template else { return Ok(None) };
        if template.ask(order, files).is_err() {
            return Ok(None);
        }
        loop {
            let parent = self.parent.as_fd();
            let ready = process::wait_for([Some(parent), Some(template.socket.as_fd())], None);
            let [called, answered] =
                ready.map_err(|error| Failure::System("wait for a process", error))?;
            if answered {
                return template.answer().map_err(|e| Failure::System("start a process", e));
            }
            if called {
                return Err(match self.next_signal() {
                    None => Failure::Alone,
                    Some(_) => {
                        tree::signal(template.process, libc::SIGKILL);
                        self.template = None;
                        Failure::TimeOver
                    }
                });
            }
        }
    }

    fn start_template(&self, order: &Order) -> Result<Template, Failure> {
        let refused = |error| Failure::System("start a process", error);
        let (here, there) = socket::pair().map_err(refused)?;
        match process::fork().map_err(refused)? {
            Some(process) => Ok(Template { process, socket: here }),
            None => {
                drop(here);
                self.forget_parent();
                template::serve(there, order, &self.above)
            }
        }
    }

    /// Closes descriptors that a process forked to run replayed code must not have.
    fn forget_parent(&self) {
        // SAFETY: the process never returns to where they are used.
        unsafe {
            libc::close(self.parent.as_raw_fd());
            libc::close(self.deaths.as_raw_fd());
            if let Some(template) = &self.template {
                libc::close(template.socket.as_raw_fd());
            }
        }
    }

    /// The next signal to send; none once the program is gone.
    fn next_signal(&self) -> Option<i32> {
        let (text, _) = socket::receive(&self.parent).ok()??;
        match serde_json::from_slice(&text).ok()? {
            Request::Signal { signal } => Some(signal),
            Request::Run(_) => None,
        }
    }

    /// The end of `member`; none once the program is gone.
    fn await_end(&mut self, member: Pid, with_group: bool) -> Option<End> {
        loop {
            let (called, _) = self.deaths.wait(&self.parent, None).ok()?;
            // Before a signal is sent: one who has ended has no number any more.
            while let Some((process, end)) = tree::ended() {
                if process == member {
                    return Some(end);
                }
                if self.template.as_ref().is_some_and(|template| template.process == process) {
                    self.template = None;
                }
            }
            if called {
                match self.next_signal()? {
                    signal if signal == libc::SIGKILL || with_group => {
                        tree::signal_group(member, signal);
                        tree::signal(member, signal);
                    }
                    signal => tree::signal(member, signal),
                }
            }
        }
    }
}
