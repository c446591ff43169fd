//! Turns signals into a last report: those of a crash, and those of the parent.
//!
//! The handlers run on a stack of their own. They do not allocate, and wait for nothing but earlier
//! blocks. They end the process, unless the fault is a write to a watched tensor (`watch`).
#![allow(unsafe_code)]

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::block::running;
use super::memory::CpuMemory;
use super::shared::Stray;
use super::{grid, host_stack, misaligned, protection, shared, traps, watch};
use crate::KernelPlace;
use crate::report::{DEVICE_ACCESS, HOST_ACCESS, LastWord};
use crate::signals::{self, Sender, end_if_from_outside, handle_by};

static MEMORY: OnceLock<&'static CpuMemory> = OnceLock::new();

/// Whether replayed code has begun to run.
static CODE_RUNS: AtomicBool = AtomicBool::new(false);

/// Installs the handlers for the whole process; each operating-system thread with device
/// code calls [`signals::use_own_stack`] as well.
pub(super) fn install_fault_handlers(memory: &'static CpuMemory) {
    if MEMORY.set(memory).is_err() {
        return;
    }
    host_stack::note_host_stack();
    let signals =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTERM];
    signals.into_iter().for_each(|signal| handle_by(signal, handle_fault));
}

/// Replayed code runs from here on: later faults are its own.
pub fn code_runs() {
    CODE_RUNS.store(true, Ordering::SeqCst);
}

extern "C" fn handle_fault(signal: i32, info: *mut libc::siginfo_t, machine: *mut libc::c_void) {
    let Some(memory) = MEMORY.get() else { return };
    // SAFETY: the system passes the information about this signal.
    let (address, code, sender) =
        unsafe { ((*info).si_addr() as usize, (*info).si_code, Sender::from_siginfo(info)) };
    // SAFETY: as above.
    unsafe { end_if_from_outside(signal, info) };
    let is_access = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && code > 0;
    if is_access && watch::let_in(address) {
        return;
    }
    if signal == libc::SIGTERM && sender == Sender::Keeper {
        signals::end_with_last_word(&compose_fault_word(
            "timeout",
            running::place_anywhere(),
            |_| (),
        ));
    }
    let is_lack = signal == libc::SIGBUS && code == libc::BUS_ADRERR;
    let ours = !CODE_RUNS.load(Ordering::SeqCst);
    if is_lack && (ours || memory.is_accessible(address)) {
        signals::end_with_last_word(&no_pages());
    }
    if is_access && ours {
        signals::end_with_last_word(&LastWord::refused(
            |word| {
                let _ = write!(word, "replay itself crashed before the call (signal {signal})");
            },
            crate::REPORT_IT,
        ));
    }
    grid::wait_for_blocks_before();
    if is_access {
        // SAFETY: the system passes the state of the processor.
        let access = unsafe { AccessFault::classify(address, code, machine) };
        signals::end_with_last_word(&compose_fault_word(
            access.fault_name(),
            running::current_place(),
            |word| access.write_detail(address, memory, word),
        ));
    }
    let (fault_name, text) = match signal {
        libc::SIGSEGV | libc::SIGBUS => ("out-of-bounds access", "the code sent itself the signal"),
        libc::SIGFPE => ("integer division by zero", ""),
        libc::SIGILL => ("illegal instruction", ""),
        libc::SIGABRT => ("aborted", "the code called abort()"),
        _ => ("aborted", "the code sent itself the signal to end"),
    };
    signals::end_with_last_word(&compose_fault_word(
        fault_name,
        running::current_place(),
        |word| word.write_str(text).unwrap_or_default(),
    ));
}

/// Ends the replay: host code waits for the threads of a block, or talks to them, and there is no block.
#[cold]
pub(super) fn end_in_host_code() -> ! {
    let text = "it calls a function of kernels, such as __syncthreads(), which CUDA refuses";
    signals::end_with_last_word(&compose_fault_word("device function in host code", None, |word| {
        let _ = word.write_str(text);
    }))
}

/// The cause of a refused access.
enum AccessFault {
    /// It overflows the stack of a CUDA thread.
    Stack,
    /// It overflows the stack of host code, of this many bytes.
    HostStack(usize),
    /// The address is not a multiple of the instruction's alignment.
    Misaligned { address: usize, alignment: usize },
    /// Host code touches device memory.
    ByHost,
    /// A kernel uses a pointer argument to host memory.
    Trap,
    /// The system reports no address: the address is not canonical.
    Nowhere,
    /// It lies beside shared memory.
    Shared(Stray),
    /// It is shared memory of another block of the cluster, after that block's end.
    Ended,
    /// It lies outside of every allocation.
    Outside,
}

impl AccessFault {
    /// # Safety
    /// `machine` is a signal handler's argument: the state of the processor.
    unsafe fn classify(address: usize, code: i32, machine: *mut libc::c_void) -> AccessFault {
        let in_kernel = running::current_place().is_some();
        // SAFETY: passed on to the caller. Of such an access the system tells no address.
        let crooked =
            || unsafe { (address == 0).then(|| misaligned::misaligned_address(machine)).flatten() };
        if running::stack_overflowed_at(address) {
            AccessFault::Stack
        } else if let Some(bytes) = host_stack::overflowed_at(address).filter(|_| !in_kernel) {
            AccessFault::HostStack(bytes)
        } else if let Some((address, alignment)) = crooked() {
            AccessFault::Misaligned { address, alignment }
        } else if !in_kernel && protection::is_shut(address) {
            AccessFault::ByHost
        } else if in_kernel && traps::describe_trap(address, &mut Unsaid) {
            AccessFault::Trap
        } else if code == SI_KERNEL {
            AccessFault::Nowhere
        } else if shared::ended_at(address) {
            AccessFault::Ended
        } else if let Some(stray) = shared::stray_at(address) {
            AccessFault::Shared(stray)
        } else {
            AccessFault::Outside
        }
    }

    fn fault_name(&self) -> &'static str {
        match self {
            AccessFault::Stack | AccessFault::HostStack(_) => "stack overflow",
            AccessFault::Misaligned { .. } => "misaligned access",
            AccessFault::ByHost => HOST_ACCESS,
            AccessFault::Trap => DEVICE_ACCESS,
            AccessFault::Nowhere
            | AccessFault::Shared(_)
            | AccessFault::Ended
            | AccessFault::Outside => "out-of-bounds access",
        }
    }

    fn write_detail(&self, address: usize, memory: &CpuMemory, word: &mut LastWord) {
        let text = match *self {
            AccessFault::Stack => "the local variables of a thread need more than 128 KiB",
            AccessFault::HostStack(bytes) => {
                let mebibytes = bytes.div_ceil(1 << 20);
                let _ = write!(word, "the {mebibytes} MiB of host code's stack are used up");
                return;
            }
            AccessFault::Misaligned { address, alignment } => {
                memory.describe_inside(address, word);
                let _ = write!(word, "the address is no multiple of {alignment}");
                return;
            }
            AccessFault::ByHost => {
                memory.describe_inside(address, word);
                "host code cannot touch it on a GPU; copy it by cudaMemcpy"
            }
            AccessFault::Trap => {
                traps::describe_trap(address, word);
                return;
            }
            AccessFault::Nowhere => "an address that no memory can have",
            AccessFault::Shared(Stray::Before) => "before the begin of shared memory",
            AccessFault::Shared(Stray::Behind) => "past the end of dynamic shared memory",
            AccessFault::Ended => "shared memory of a block of the cluster that has ended",
            AccessFault::Outside => return memory.describe(address, word),
        };
        let _ = word.write_str(text);
    }
}

/// Discards its text.
struct Unsaid;

impl Write for Unsaid {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        Ok(())
    }
}

fn compose_fault_word(
    fault_name: &str,
    place: Option<KernelPlace>,
    detail: impl FnOnce(&mut LastWord),
) -> LastWord {
    let kernel = place.map(|(kernel, ..)| kernel);
    LastWord::fault(fault_name, kernel, place.map(|(_, block, thread)| (block, thread)), detail)
}

/// The code of a signal from the system without details.
const SI_KERNEL: i32 = 0x80;

/// The report if the system takes back pages, or cannot read those of a file.
fn no_pages() -> LastWord {
    LastWord::refused(
        |word| {
            let _ = word.write_str("the system could not provide the memory of a tensor");
        },
        "free memory or disk space, and leave the fixture's files alone meanwhile",
    )
}
