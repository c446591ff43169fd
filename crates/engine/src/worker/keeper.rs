//! Watches over one replay after the other. It forks a process for each, sees how the process ends, and ends
//! everything below it before it reports the end.
//!
//! It runs no replayed code, and replayed code cannot send it signals. When its parent has gone, it ends
//! everything below itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::replay_process::{self, ForkedFrom};
use super::template::{self, Template};
use super::{GOING, KeeperAnswer, KeeperRequest, ReplayOrder, socket};
use replay_base::process::tracer::{self, Tracer};
use replay_base::process::tree::{self, Deaths, End};
use replay_base::process::{self, Pid};

/// Why no replay was begun.
enum KeeperFailure {
    /// There is nobody to make it for.
    Alone,
    /// The time was over before the template was ready.
    TimeOver,
    /// The system refused.
    System(&'static str, io::Error),
}

fn start_error(error: io::Error) -> KeeperFailure {
    KeeperFailure::System("start a process", error)
}

/// Serves the program at the other end of `parent` until it is gone.
pub(super) fn serve_replays(parent: OwnedFd) -> ! {
    let watching = tree::take_root().and_then(|()| Deaths::watch());
    let above = process::line_of_descent();
    process::detect_processor_features();
    // On a system that does not count them they are as many as the user may have.
    let _ = process::limit_new_tasks();
    match watching {
        Ok(deaths) => {
            let mut keeper = ReplayKeeper { parent, deaths, above, template: None, fit: true };
            while keeper.serve_one().is_some() {}
            tree::end_all_but(&[], GOING);
        }
        Err(error) => {
            send_keeper_answer(
                &parent,
                &failure_answer(&KeeperFailure::System("watch over a process", error)),
            );
        }
    }
    process::exit_immediately(0)
}

/// Tells the program at the other end of `parent`. If the program is gone, nobody has to be told.
pub(super) fn send_keeper_answer(parent: &OwnedFd, answer: &KeeperAnswer) {
    let text = serde_json::to_vec(answer).expect("answers are plain data");
    let _ = socket::send_message(parent, &text, &[]);
}

fn failure_answer(failure: &KeeperFailure) -> KeeperAnswer {
    match failure {
        KeeperFailure::System(doing, error) => KeeperAnswer::Failed {
            doing: (*doing).to_owned(),
            error: error.raw_os_error().unwrap_or_default(),
        },
        KeeperFailure::Alone | KeeperFailure::TimeOver => {
            let end = End::Killed(libc::SIGKILL);
            KeeperAnswer::Ended { end, refused_calls: Vec::new() }
        }
    }
}

struct ReplayKeeper {
    parent: OwnedFd,
    deaths: Deaths,
    /// The processes out of reach of replayed code: those above, and this one.
    above: Vec<Pid>,
    template: Option<Template>,
    /// Whether a template may do.
    fit: bool,
}

impl ReplayKeeper {
    /// Makes the next requested replay; none once the program is gone.
    fn serve_one(&mut self) -> Option<()> {
        let (text, files) = match socket::receive_message(&self.parent) {
            Ok(received) => received?,
            Err(error) => {
                send_keeper_answer(
                    &self.parent,
                    &failure_answer(&KeeperFailure::System("hand over files", error)),
                );
                return Some(());
            }
        };
        let Ok(KeeperRequest::Run(order)) = serde_json::from_slice(&text) else {
            // Its replay has ended.
            return Some(());
        };
        let mut tracer = order.is_traced.then(Tracer::default);
        let end = match self.begin(&order, files) {
            Ok(member) => self.await_end(member, order.wrapper.is_some(), tracer.as_mut())?,
            Err(KeeperFailure::Alone) => return None,
            Err(failure) => {
                self.leave_template_alone();
                send_keeper_answer(&self.parent, &failure_answer(&failure));
                return Some(());
            }
        };
        self.leave_template_alone();
        let refused_calls = tracer.map(Tracer::into_refused_calls).unwrap_or_default();
        send_keeper_answer(&self.parent, &KeeperAnswer::Ended { end, refused_calls });
        Some(())
    }

    /// Ends everything below but the template.
    fn leave_template_alone(&mut self) {
        let kept_process = self.template.as_ref().map(|template| template.process);
        let dead = tree::end_all_but(kept_process.as_slice(), GOING);
        if kept_process.is_some_and(|process| dead.contains(&process)) {
            self.template = None;
        }
    }

    /// Starts the process of the replay.
    fn begin(&mut self, order: &ReplayOrder, files: Vec<OwnedFd>) -> Result<Pid, KeeperFailure> {
        if order.series && self.fit && !order.is_traced {
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
        match process::fork_process().map_err(start_error)? {
            Some(member) => Ok(member),
            None => {
                let keeper = self.above[0];
                let files_of_replay: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                process::close_descriptors_but(&files_of_replay);
                let origin = ForkedFrom::Keeper { ancestors: &self.above };
                replay_process::run_forked_replay(order, files, keeper, origin)
            }
        }
    }

    /// Has the template fork a member; none if the template is not fit, or gone.
    fn begin_by_template(
        &mut self,
        order: &ReplayOrder,
        files: &[OwnedFd],
    ) -> Result<Option<Pid>, KeeperFailure> {
        if self.template.is_none() {
            self.template = Some(self.start_template(order)?);
        }
        let Some(template) = &self.template else { return Ok(None) };
        if template.request_fork(order, files).is_err() {
            return Ok(None);
        }
        loop {
            let parent = self.parent.as_fd();
            let ready = process::wait_for([Some(parent), Some(template.socket.as_fd())], None);
            let [called, has_answered] =
                ready.map_err(|error| KeeperFailure::System("wait for a process", error))?;
            if has_answered {
                return template.answer().map_err(|e| KeeperFailure::System("start a process", e));
            }
            if called {
                return Err(match self.next_signal() {
                    None => KeeperFailure::Alone,
                    Some(_) => {
                        tree::signal_process(template.process, libc::SIGKILL);
                        self.template = None;
                        KeeperFailure::TimeOver
                    }
                });
            }
        }
    }

    fn start_template(&self, order: &ReplayOrder) -> Result<Template, KeeperFailure> {
        let (own_end, other_end) = socket::create_socket_pair().map_err(start_error)?;
        match process::fork_process().map_err(start_error)? {
            Some(process) => Ok(Template { process, socket: own_end }),
            None => {
                process::close_descriptors_but(&[other_end.as_fd()]);
                template::serve_template(other_end, order, &self.above)
            }
        }
    }

    /// The next signal to send; none once the program is gone.
    fn next_signal(&self) -> Option<i32> {
        let (text, _) = socket::receive_message(&self.parent).ok()??;
        match serde_json::from_slice(&text).ok()? {
            KeeperRequest::Signal { signal } => Some(signal),
            KeeperRequest::Run(_) => None,
        }
    }

    /// The end of `member`, which `tracer` looks at; none once the program is gone.
    fn await_end(
        &mut self,
        member: Pid,
        with_group: bool,
        mut tracer: Option<&mut Tracer>,
    ) -> Option<End> {
        loop {
            let (called, _) = self.deaths.wait(&self.parent, None).ok()?;
            // Before a signal is sent: one who has ended has no number any more.
            while let Some((process, end)) = tracer::reap_child(tracer.as_deref_mut()) {
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
                        tree::signal_process(member, signal);
                    }
                    signal => tree::signal_process(member, signal),
                }
            }
        }
    }
}
