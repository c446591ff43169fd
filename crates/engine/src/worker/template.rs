//! A process with artifact and fixture loaded. The members of a series are its forks.
//!
//! It has one thread, and runs only the initialisers of the loaded code: calls happen in
//! members. If it is not safe to fork, it ends, and the keeper does without it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::replay_process::{self, ForkedFrom};
use super::{GO_FIRST, Job, ReplayOrder, memory, socket};
use replay_base::process::{self, Pid, seccomp_filter, tree};
use replay_fixture::fixture::Fixture;
use replay_runtime::artifact::LoadedArtifact;
use replay_runtime::signals;

/// A template, as its keeper knows it.
pub(super) struct Template {
    pub process: Pid,
    pub socket: OwnedFd,
}

impl Template {
    /// Asks for a member to do what `order` says.
    pub(super) fn request_fork(&self, order: &ReplayOrder, files: &[OwnedFd]) -> io::Result<()> {
        let text = serde_json::to_vec(order).expect("orders are plain data");
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        socket::send_message(&self.socket, &text, &files)
    }

    /// The member, or none if the template has gone.
    ///
    /// # Errors
    /// Where the system has no room for another process.
    pub(super) fn answer(&self) -> io::Result<Option<Pid>> {
        let Ok(Some((text, _))) = socket::receive_message(&self.socket) else { return Ok(None) };
        match serde_json::from_slice::<Result<Pid, i32>>(&text) {
            Ok(Ok(member)) => Ok(Some(member)),
            Ok(Err(number)) => Err(io::Error::from_raw_os_error(number)),
            Err(_) => Ok(None),
        }
    }
}

/// Loads artifact and fixture of `order` and forks members for the keeper at the other end of `keeper`,
/// until the keeper is gone.
pub(super) fn serve_template(keeper: OwnedFd, order: &ReplayOrder, ancestors: &[Pid]) -> ! {
    // The artifact's exit handlers must not run here: they belong to processes after a call.
    process::exit_immediately(i32::from(serve_orders(keeper, order, ancestors).is_none()))
}

/// None if this process is not fit to be a template.
fn serve_orders(keeper: OwnedFd, order: &ReplayOrder, ancestors: &[Pid]) -> Option<()> {
    let its_number = ancestors[0];
    if !tree::die_with_parent(its_number) {
        return None;
    }
    process::lead_group();
    process::unblock_signals();
    process::go_first(GO_FIRST);
    replay_process::limit_addresses(order.address_space).ok()?;
    // Output of initialisers belongs to no single run. It is only detected, not kept.
    let printed = memory::create_growing_file().ok()?;
    replay_process::place_descriptor(&printed, libc::STDOUT_FILENO).ok()?;
    replay_process::place_descriptor(&printed, libc::STDERR_FILENO).ok()?;
    signals::watch_signals(its_number);
    // As in a member: it may stay without.
    let _ =
        seccomp_filter::install_seccomp_filter(ancestors, order.connections(), order.file_states());
    let Job { fixture, elements, .. } = &order.job;
    let fixture = Fixture::load_trusted_with(fixture, *elements).ok()?;
    let held_artifact = replay_process::hold_artifact(&order.job).ok()?;
    // The fixture is mapped: replayed code finds the file no more.
    order.walls().map_or(Ok(()), |walls| walls.enter()).ok()?;
    let artifact = LoadedArtifact::load(&held_artifact.path).ok()?;
    if !is_alone() || has_printed(&printed) {
        return None;
    }
    drop(printed);
    let _ = seccomp_filter::shield_from_forks();
    loop {
        let Some((text, files)) = socket::receive_message(&keeper).ok()? else { return Some(()) };
        let mut order: ReplayOrder = serde_json::from_slice(&text).ok()?;
        order.job.artifact.clone_from(&held_artifact.path);
        let fork_result = match process::fork_for_parent() {
            Ok(Some(member)) => Ok(member),
            Ok(None) => {
                drop(keeper);
                replay_process::run_forked_replay(
                    &order,
                    files,
                    its_number,
                    ForkedFrom::Template(&fixture, artifact),
                )
            }
            Err(error) => Err(error.raw_os_error().unwrap_or_default()),
        };
        let answer = serde_json::to_vec::<Result<Pid, i32>>(&fork_result).expect("plain data");
        socket::send_message(&keeper, &answer, &[]).ok()?;
    }
}

/// Whether this process has no thread but this one and no child: they would be missing in a copy.
fn is_alone() -> bool {
    let one_thread = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    one_thread && tree::is_childless()
}

fn has_printed(printed: &File) -> bool {
    printed.metadata().is_ok_and(|printed| printed.len() > 0)
}
