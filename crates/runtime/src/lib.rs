//! The CUDA runtime API of compiled host code, and the devices behind it.
//!
//! Runs in the child process only: one replay, one device, one process. `api` keeps CUDA's state of a process (last
//! error, function attributes) and calls the [`Device`].
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod abi;
pub mod api;
pub mod artifact;
pub mod cpu;
pub mod definitions;
pub mod flags;
mod function_symbols;
pub mod gpu;
pub mod headers;
pub mod journal;
mod limits;
mod math;
pub mod renamed;
pub mod report;
pub mod signals;

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::sync::OnceLock;

use self::abi::Thunk;
use self::report::{AccessFindings, ChildReport, ReplayFault, Reporter};
use replay_base::process;
use replay_base::summary::{Poison, Summary};
use replay_base::tensor::DType;
use replay_base::tensor::step::{Scales, Step};
use replay_cuda::{CudaError, DirectedRounding};

/// Where copies go, as `cudaMemcpyKind` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// As the pointers say.
    Default,
}

impl CopyKind {
    /// The kind with CUDA's number, if there is one.
    pub fn from_number(number: i32) -> Option<CopyKind> {
        use CopyKind::*;
        [HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default]
            .get(usize::try_from(number).ok()?)
            .copied()
    }
}

/// A launch within the limits of every device.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel's name in the sources.
    pub kernel: &'static str,
    /// Its name in host and device code.
    pub unit_name: &'static str,
    /// One CUDA thread of it, compiled for the host.
    pub thunk: Thunk,
    /// The kernel's function for the host, null where only the compiler knows it.
    pub function: *const c_void,
    /// A pointer to each argument.
    pub args: *mut *mut c_void,
    /// Bytes of each argument.
    pub arg_sizes: *const usize,
    /// The number of each argument's [`abi::ArgumentKind`], null if unknown.
    pub arg_kinds: *const u8,
    /// The number of arguments.
    pub arg_count: usize,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// The limit of shared memory for a block of the kernel, static and dynamic.
    pub shared_limit: usize,
    /// Whether all its blocks run together.
    pub cooperative: bool,
    /// Blocks of a cluster along x, y, z, if it has clusters.
    pub cluster: Option<[u32; 3]>,
    /// Whether the launch names them, and not the kernel.
    pub names_cluster: bool,
    /// The stream, null for the default one.
    pub stream: *mut c_void,
}

/// An input of a shadow, packed.
#[derive(Clone, Copy, Debug)]
pub struct Widening<'i> {
    pub name: &'i str,
    /// Its stored element type.
    pub dtype: DType,
    pub bytes: &'i [u8],
    /// How they are moved, if they are.
    pub step: Option<(&'i Step, &'i Scales)>,
    /// Whether it will be written again: the device then keeps its stored bytes.
    pub is_kept: bool,
}

/// One of the calls for a measurement of deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviationPass {
    /// The yardstick of the others.
    Plain,
    /// One with another direction of rounding.
    Rounded(DirectedRounding),
    /// The plain call once more, at the end of the measurement. An element jumps if its largest deviation is more than
    /// so many times its least one.
    Again {
        /// How many times.
        jump: f64,
    },
}

impl DeviationPass {
    /// How it rounds; none to nearest.
    pub fn direction(self) -> Option<DirectedRounding> {
        match self {
            DeviationPass::Rounded(direction) => Some(direction),
            DeviationPass::Plain | DeviationPass::Again { .. } => None,
        }
    }
}

/// A device able to measure how far directed rounding moves outputs.
#[allow(unsafe_code)]
pub trait Deviating: Sync {
    /// Rounds as `pass` does from here on; or why it cannot.
    ///
    /// # Errors
    /// The reason, in words.
    fn begin(&self, pass: DeviationPass) -> Result<(), String>;

    /// Gets ready for every pass, so that none of them has to wait. A failure here shows there.
    fn prepare(&self);

    /// Keeps the `bytes` of an input at a `place`, for the passes to come.
    ///
    /// # Errors
    /// CUDA's error.
    fn keep(&self, place: usize, tensor: *const u8, bytes: usize) -> Result<(), CudaError>;

    /// Writes the kept bytes of the input at `place` to `tensor`.
    ///
    /// # Errors
    /// CUDA's error.
    fn restore(&self, place: usize, tensor: *mut u8, bytes: usize) -> Result<(), CudaError>;

    /// Takes in the output at a `place` after `pass`: `count` elements, in memory of the host if it is a scalar. Returns
    /// how many of them the repetition moved by more than rounding explains.
    ///
    /// # Errors
    /// CUDA's error.
    fn absorb_output(
        &self,
        place: usize,
        tensor: (*const u8, bool),
        dtype: DType,
        count: usize,
        pass: DeviationPass,
    ) -> Result<u64, CudaError>;

    /// Copies the deviations of the output at `place` to the host, those of jumps with a negative sign.
    ///
    /// # Safety
    /// There must be room for them: four bytes each, or eight for float64.
    ///
    /// # Errors
    /// CUDA's error.
    unsafe fn read(&self, place: usize, destination: *mut u8) -> Result<(), CudaError>;
}

/// A device, as the runtime API sees it.
#[allow(unsafe_code)]
pub trait Device: Send + Sync {
    /// A description for people and the device's class, `cpu` or `sm_90`.
    fn describe(&self) -> (String, String);
    /// Whether host code can touch the device's memory.
    fn is_host(&self) -> bool;
    /// Whether host code can read all of `bytes` at `pointer`, as memory of the device.
    fn can_host_read(&self, _pointer: *const u8, _bytes: usize) -> bool {
        false
    }
    /// How many times the shared memory of a device a block has: more in a float64 shadow on the CPU.
    fn shared_scale(&self) -> usize {
        1
    }
    /// Memory for a tensor.
    fn malloc(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError>;
    /// Memory for a tensor: in a file, from `offset` on, if the device's memory is this process's.
    fn malloc_in(
        &self,
        _file: &File,
        _offset: usize,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.malloc(bytes, label)
    }
    /// Memory for an input: in a file, from an offset on, if there is a place and the device's memory is
    /// this process's. With `all` every byte of it is written next, so it may hold anything.
    fn malloc_input(
        &self,
        bytes: usize,
        _place: Option<(&File, usize)>,
        _all: bool,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.malloc(bytes, label)
    }
    /// Memory for an input in a file, from `offset` on; writes do not reach the file. Only if the device's memory is this
    /// process's.
    fn malloc_from(
        &self,
        _file: &File,
        _offset: usize,
        _bytes: usize,
        _label: String,
    ) -> Result<*mut u8, CudaError> {
        Err(CudaError::NOT_SUPPORTED)
    }
    /// Memory for an output without a later reader.
    fn malloc_unread(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        self.malloc(bytes, label)
    }
    /// Memory for a request of the code itself.
    fn malloc_scratch(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        self.malloc(bytes, label)
    }
    /// How many blocks of a kernel a multiprocessor holds, if the device knows.
    fn occupancy(&self, _: *const c_void, _threads: usize, _bytes: usize) -> Option<usize> {
        None
    }
    /// Its multiprocessors, if it has any.
    fn multiprocessors(&self) -> Option<u32> {
        None
    }
    /// The same, for host code to touch as well.
    fn malloc_managed(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        self.malloc_scratch(bytes, label)
    }
    fn free(&self, pointer: *mut u8) -> Result<(), CudaError>;
    /// Writes `input` to `to` as float64, if the device can do so itself.
    fn widen(&self, _to: *mut u8, _input: &Widening) -> Option<Result<(), CudaError>> {
        None
    }
    /// The device as one that measures deviations, if it can.
    fn deviating(&self) -> Option<&dyn Deviating> {
        None
    }
    /// Lets kernels use `bytes` of host memory at `pointer`; 0 bytes revoke it.
    fn share_host(&self, _pointer: *mut u8, _bytes: usize) {}
    /// Sets whether the code under test runs from here on. Its host code cannot touch the device's memory.
    fn run_host(&self, _runs: bool) {}
    /// # Safety
    /// A host side, by `kind`, must be memory of this process, `bytes` long.
    unsafe fn copy(
        &self,
        destination: *mut u8,
        source: *const u8,
        bytes: usize,
        kind: CopyKind,
        stream: *mut c_void,
    ) -> Result<(), CudaError>;
    fn set(
        &self,
        destination: *mut u8,
        value: u8,
        bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), CudaError>;
    /// The address and size in bytes of a `__device__` or `__constant__` variable.
    fn symbol(&self, host: *mut u8, name: &str, bytes: usize) -> Result<*mut u8, CudaError>;
    fn launch(&self, launch: &Launch) -> Result<(), CudaError>;
    fn synchronize(&self) -> Result<(), CudaError>;
    /// Bytes free, and bytes in all.
    fn memory(&self) -> (usize, usize);
    /// The summary of a tensor in the device's memory, if the device makes summaries.
    fn summarize(
        &self,
        _tensor: *const u8,
        _dtype: DType,
        _shape: &[usize],
        _poison: &Poison,
    ) -> Option<Summary> {
        None
    }
    /// The writes outside of allocations, in words; called once, at the end.
    fn overruns(&self) -> Vec<String>;
    /// The findings of a checked replay; called once, at the end.
    fn take_access_findings(&self) -> AccessFindings {
        AccessFindings::default()
    }
    /// An input of `bytes` was written to `tensor`.
    fn input(&self, _tensor: *const u8, _bytes: usize) {}
    /// Begins to watch who writes `tensor`, where the device can.
    fn watch(&self, _tensor: *mut u8) {}
    /// The launches begun by the last write to the watched tensor, if there was one.
    fn last_write(&self) -> Option<u64> {
        None
    }
}

/// The one replay of this process.
pub struct Runtime {
    /// The device of the kernels.
    pub device: Box<dyn Device>,
    /// The way back to the parent.
    pub reporter: &'static Reporter,
    api: api::ApiState,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static REPORTER: OnceLock<Reporter> = OnceLock::new();
static FINISH: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Makes `reporter` the process's way back to its parent.
///
/// # Panics
/// If there is one already.
pub fn set_reporter(reporter: Reporter) -> &'static Reporter {
    assert!(REPORTER.set(reporter).is_ok(), "one replay a process");
    REPORTER.get().expect("set just now")
}

/// The process's way back to its parent, once there is one.
pub fn process_reporter() -> Option<&'static Reporter> {
    REPORTER.get()
}

/// Makes `device` the one of this process's runtime API.
///
/// # Panics
/// If there is one already.
pub fn start_runtime(device: Box<dyn Device>, reporter: &'static Reporter) -> &'static Runtime {
    let runtime = Runtime { device, reporter, api: api::ApiState::default() };
    assert!(RUNTIME.set(runtime).is_ok(), "one replay a process");
    api::buffer_output_by_line();
    runtime_of_process()
}

fn runtime_of_process() -> &'static Runtime {
    RUNTIME.get().expect("the runtime is started before the artifact is called")
}

/// Sets the action to take if a replay ends before the call returns; only the first call counts.
pub fn on_early_end(finish: impl Fn() + Send + Sync + 'static) {
    let _ = FINISH.set(Box::new(finish));
}

/// Ends the replay before the call has returned; the replay is complete.
#[allow(unsafe_code)]
fn finish_early() -> ! {
    if let Some(finish) = FINISH.get() {
        finish();
    }
    // SAFETY: the output of the replayed code is kept; its exit handlers are not run.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(0)
    }
}

/// The advice for a defect of this program.
pub(crate) const REPORT_IT: &str = "this is a defect of replay: please report it";

/// Reports a panic of this program in a child as a defect of its own, not of the code.
pub fn own_up_to_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // Libraries panic where the system gives them no thread.
        if let Err(error) = std::thread::Builder::new().spawn(|| ()) {
            no_thread(&error);
        }
        let message = format!("replay itself failed: {panic}");
        refuse_replay(message.replace('\n', " "), Some(REPORT_IT.to_owned()))
    }));
}

/// Ends the process because the machine or this program is at fault, as `message` says.
pub fn refuse_replay(message: String, hint: Option<String>) -> ! {
    end_with_report(&ChildReport::Refused { message, hint })
}

/// Ends the process because `error` kept it from starting a thread.
pub fn no_thread(error: &io::Error) -> ! {
    let message = format!("cannot start a thread for the replay: {error}");
    let hint = "lower --threads, or raise the number of processes that a user (ulimit -u) or the \
                container may have";
    refuse_replay(message, Some(hint.to_owned()))
}

/// Ends the process because `error` kept it from having `bytes` for `purpose`. The code is at fault if
/// it has used up the replay's memory, else the machine.
pub fn lack_of_memory(purpose: &str, bytes: usize, error: &io::Error) -> ! {
    if limit_is_reached(bytes) {
        end_replay("out of memory", format!("no memory for {purpose}: {error}"), None)
    }
    let hint = "free memory, lower --threads, or raise what processes may have of it (sysctl \
                vm.max_map_count, vm.overcommit_memory)";
    refuse_replay(
        format!("the system has no memory for {purpose} ({bytes} bytes): {error}"),
        Some(hint.into()),
    )
}

/// Whether `bytes` more exceed this process's limit of address space.
pub(crate) fn limit_is_reached(bytes: usize) -> bool {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let used = pages.unwrap_or_default().saturating_mul(cpu::page_bytes() as u64);
    used.saturating_add(bytes as u64) > process::memory_limit()
}

/// Where device code was when something happened: kernel, block, thread.
pub type KernelPlace = (&'static str, [u32; 3], [u32; 3]);

/// Reports why the replay cannot go on and ends the process.
pub fn end_replay(fault_name: &str, detail: String, place: Option<KernelPlace>) -> ! {
    if place.is_some() {
        cpu::wait_for_blocks_before();
        cpu::report_findings_so_far();
    }
    end_with_report(&ChildReport::Fault(ReplayFault {
        what: fault_name.to_owned(),
        detail,
        kernel: place.map(|(kernel, ..)| kernel.to_owned()),
        block: place.map(|(_, block, _)| block),
        thread: place.map(|(.., thread)| thread),
    }))
}

/// Ends the process with `report` as its last word.
#[allow(unsafe_code)]
pub fn end_with_report(report: &ChildReport) -> ! {
    if let Some(reporter) = REPORTER.get() {
        reporter.send(report);
    }
    // SAFETY: the output of the replayed code is kept; its exit handlers are not run.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(REPORTED)
    }
}

/// The exit status of a child after it has reported the reason.
pub const REPORTED: i32 = 77;
