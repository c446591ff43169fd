//! The process of replayed code. It is made ready, makes one replay and ends.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::Command;

use rustix::io::fcntl_dupfd_cloexec;

use super::child::{self, ReplayResources};
use super::{GO_FIRST, Job, ReplayOrder, Wrapping, memory};
use replay_base::process::{self, Pid, Resource, seccomp_filter, tracer, tree};
use replay_fixture::fixture::Fixture;
use replay_runtime::artifact::LoadedArtifact;
use replay_runtime::journal::Journal;
use replay_runtime::report::Reporter;
use replay_runtime::{cpu, journal, signals};

/// The descriptor of the journal in a process under a wrapper.
const JOURNAL: RawFd = 3;
/// Where it finds the memory for outputs.
const OUTPUTS: RawFd = 4;
/// The exit status of a process without a report of its failure.
const UNREADY: i32 = 1;

/// What a process for a replay was forked from.
pub(super) enum ForkedFrom<'a> {
    /// The keeper. Replayed code cannot send signals to it and those above it.
    Keeper { ancestors: &'a [Pid] },
    /// A template behind walls and filters that has loaded artifact and fixture.
    Template(&'a Fixture, LoadedArtifact),
}

/// Makes the replay of `order` in a process forked for it.
pub(super) fn run_forked_replay(
    order: &ReplayOrder,
    files: Vec<OwnedFd>,
    keeper: Pid,
    origin: ForkedFrom,
) -> ! {
    let status = run_in(order, files, keeper, origin).unwrap_or(UNREADY);
    std::process::exit(status)
}

/// None if the process cannot be made ready.
fn run_in(
    order: &ReplayOrder,
    files: Vec<OwnedFd>,
    keeper: Pid,
    origin: ForkedFrom,
) -> Option<i32> {
    let mut files = files.into_iter().map(File::from);
    let printed = files.next()?;
    let journal = files.next()?;
    let outputs = files.next()?;
    let record = if order.job.record().is_some() { Some(files.next()?) } else { None };
    let own_inputs = if order.has_inputs { Some(files.next()?) } else { None };
    let inputs = files.next();
    if !tree::die_with_parent(keeper) {
        return None;
    }
    process::lead_group();
    process::unblock_signals();
    if order.is_traced {
        tracer::await_tracer();
    }
    // A lower limit is never refused.
    let _ = process::lower_limit(Resource::Core, 0);
    place_descriptor(&printed, libc::STDOUT_FILENO).ok()?;
    place_descriptor(&printed, libc::STDERR_FILENO).ok()?;
    drop(printed);
    let reporter = report_to(&journal)?;
    if let Some(wrapper) = &order.wrapper {
        let error = execute_wrapper(order, wrapper, &journal, &outputs);
        let program = wrapper.program.display();
        replay_runtime::refuse_replay(format!("cannot start {program}: {error}"), None)
    }
    // On a system without such filters the code is not restrained.
    let (loaded, walls, above) = match origin {
        ForkedFrom::Template(fixture, artifact) => {
            let _ = seccomp_filter::install_filter_of_fork();
            (Some((fixture, artifact)), None, [].as_slice())
        }
        ForkedFrom::Keeper { ancestors } => {
            process::go_first(GO_FIRST);
            limit_replay_memory(order.address_space);
            signals::watch_signals(keeper);
            // NVIDIA's driver may start a program with more privileges: it comes before the filter.
            let above = if order.job.device.is_gpu() {
                ancestors
            } else {
                let _ = seccomp_filter::install_seccomp_filter(
                    ancestors,
                    order.connections(),
                    order.file_states(),
                );
                &[]
            };
            (None, order.walls(), above)
        }
    };
    journal::begin_journal(&journal).ok()?;
    drop(journal);
    let mut job = order.job.clone();
    let held_artifact = walls.as_ref().and_then(|_| hold_artifact(&job).ok());
    if let Some(held_artifact) = &held_artifact {
        job.artifact.clone_from(&held_artifact.path);
    }
    Some(child::run_replay_job(
        &job,
        loaded,
        ReplayResources { outputs, own_inputs, inputs, record, above, walls, reporter },
    ))
}

/// An artifact that this process holds open.
pub(super) struct HeldArtifact {
    _file: File,
    /// Where it finds the file, in a fork as well.
    pub path: PathBuf,
}

/// Opens the artifact of `job`. Its own path may lead through the process above, which is out of reach from behind walls.
pub(super) fn hold_artifact(job: &Job) -> io::Result<HeldArtifact> {
    let file = File::open(&job.artifact)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    Ok(HeldArtifact { _file: file, path })
}

/// Makes the replay described by the standard input, in a process under a wrapper. Returns the exit status.
pub(super) fn run_alone() -> i32 {
    // The wrapper ends with its keeper.
    let wrapper = parent_id() as Pid;
    tree::die_with_parent(wrapper);
    let mut text = Vec::new();
    let read_result = io::stdin().read_to_end(&mut text).ok();
    let Some(order) = read_result.and_then(|_| serde_json::from_slice::<ReplayOrder>(&text).ok())
    else {
        return UNREADY;
    };
    // SAFETY: the process that was forked for this replay put them there, and nobody else uses them.
    let (journal, outputs) = unsafe { (File::from_raw_fd(JOURNAL), File::from_raw_fd(OUTPUTS)) };
    let Some(reporter) = report_to(&journal) else { return UNREADY };
    if journal::begin_journal(&journal).is_err() {
        return UNREADY;
    }
    drop(journal);
    signals::watch_signals(process::parent_of(wrapper).unwrap_or(wrapper));
    let own_inputs = None;
    let inputs = None;
    // Wrappers are for GPUs.
    let record = None;
    let walls = order.walls();
    let surroundings =
        ReplayResources { outputs, own_inputs, inputs, record, above: &[], walls, reporter };
    child::run_replay_job(&order.job, None, surroundings)
}

/// Begins to write to `journal`.
fn report_to(journal: &File) -> Option<&'static Reporter> {
    let reporter = replay_runtime::set_reporter(Reporter::new(Journal::open(journal).ok()?));
    replay_runtime::own_up_to_panics();
    Some(reporter)
}

/// Limits the address space of this process to `bytes`, besides the reservation for device memory.
///
/// # Errors
/// Where a lower limit was set for this process and those below it.
pub(super) fn limit_addresses(bytes: u64) -> io::Result<()> {
    if bytes == libc::RLIM_INFINITY {
        return Ok(());
    }
    let reserved = cpu::reserve_device_space(process::memory_limit().saturating_sub(bytes));
    process::limit_address_space(bytes + reserved)
}

fn limit_replay_memory(bytes: u64) {
    if let Err(error) = limit_addresses(bytes) {
        let message = format!(
            "a replay needs an address space of {} MiB, and {} MiB are allowed: {error}",
            bytes >> 20,
            process::memory_limit() >> 20
        );
        let hint = "lift the limit (ulimit -v unlimited), or lower --memory";
        replay_runtime::refuse_replay(message, Some(hint.to_owned()))
    }
}

/// Executes `wrapper`. It starts this program again. Returns only on failure.
fn execute_wrapper(
    order: &ReplayOrder,
    wrapper: &Wrapping,
    journal: &File,
    outputs: &File,
) -> io::Error {
    match place_wrapper_files(order, journal, outputs) {
        Ok(()) => Command::new(&wrapper.program).args(&wrapper.arguments).exec(),
        Err(error) => error,
    }
}

/// Puts the files for this program, once started again, at descriptors known to it.
fn place_wrapper_files(order: &ReplayOrder, journal: &File, outputs: &File) -> io::Result<()> {
    let mut input = memory::create_growing_file()?;
    input.write_all(&serde_json::to_vec(order).expect("orders are plain data"))?;
    input.rewind()?;
    // They may be in each other's way: first out of the low numbers, then into place.
    let order = fcntl_dupfd_cloexec(&input, 10)?;
    let journal = fcntl_dupfd_cloexec(journal, 10)?;
    let outputs = fcntl_dupfd_cloexec(outputs, 10)?;
    // Its descriptor may be 0, 3 or 4. Closed later, it would close another file placed there.
    drop(input);
    place_descriptor(&order, libc::STDIN_FILENO)?;
    place_descriptor(&journal, JOURNAL)?;
    place_descriptor(&outputs, OUTPUTS)
}

/// Makes `number` a descriptor of `file`.
pub(super) fn place_descriptor(file: &impl AsRawFd, number: RawFd) -> io::Result<()> {
    // SAFETY: nothing uses the descriptor's old file any more.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
