//! Turns the signals that a crash or the parent raises into a last report.
//!
//! The handlers run on a stack of their own, neither allocate nor wait, and end the process.
#![allow(unsafe_code)]

use std::fmt::Write;
use std::sync::OnceLock;

use super::block::running;
use super::memory::Memory;
use super::{host_stack, misaligned, protection, shared, traps, watch};
use crate::runtime::REPORTED;
use crate::runtime::report::Reporter;

const STACK_BYTES: usize = 64 << 10;

struct Context {
    memory: &'static Memory,
    descriptor: i32,
}

static CONTEXT: OnceLock<Context> = OnceLock::new();

/// Installs the handlers for the whole process; each operating-system thread that runs device
/// code calls [`use_own_stack`] as well.
pub fn install(memory: &'static Memory, reporter: &Reporter) {
    let context = Context { memory, descriptor: reporter.descriptor() };
    if CONTEXT.set(context).is_err() {
        return;
    }
    host_stack::note();
    let signals =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTERM];
    signals.into_iter().for_each(await_signal);
}

/// Lets `handle` have every `signal`, on several threads at a time: two may write what is watched. One
/// that the handler itself raises ends the process, for it is blocked there.
fn await_signal(signal: i32) {
    // SAFETY: `handle` keeps to what a signal handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Gives signal handlers of this operating-system thread a stack of their own: the stack of a
/// CUDA thread may be what overflowed.
pub fn use_own_stack() {
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    // SAFETY: the memory is leaked, so it outlives the thread.
    unsafe {
        let alternative =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
        libc::sigaltstack(&alternative, std::ptr::null_mut());
    }
}

/// A line of text without allocation; what does not fit is dropped.
struct Line {
    bytes: [u8; 2048],
    len: usize,
}

impl Line {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for &byte in text.as_bytes() {
            // The line is JSON, its strings hold names and paths: what would need an escape in
            // them is replaced, and quotes are only written by `handle` itself, as \u{1}.
            let byte = match byte {
                b'"' | b'\\' => b'\'',
                1 => b'"',
                b'\n' => b'\n',
                0..=31 => b' ',
                other => other,
            };
            if self.len < self.bytes.len() {
                self.bytes[self.len] = byte;
                self.len += 1;
            }
        }
        Ok(())
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, machine: *mut libc::c_void) {
    let Some(context) = CONTEXT.get() else { return };
    // SAFETY: the system passes the information about this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    if matches!(signal, libc::SIGSEGV | libc::SIGBUS) && watch::let_in(address) {
        return;
    }
    let mut line = Line { bytes: [0; 2048], len: 0 };
    let place = if signal == libc::SIGTERM { running::place_anywhere() } else { running::place() };
    let in_kernel = running::place().is_some();
    let by_host = !in_kernel && protection::is_shut(address);
    let mut trap = Line { bytes: [0; 2048], len: 0 };
    let is_trap = in_kernel && traps::describe(address, &mut trap);
    let host_stack = host_stack::overflowed_at(address).filter(|_| !in_kernel);
    // SAFETY: the system passes the state of the processor. It tells no address where it refused one.
    let crooked = (signal == libc::SIGSEGV && address == 0)
        .then(|| unsafe { misaligned::address(machine) })
        .flatten();
    let what = match signal {
        libc::SIGSEGV | libc::SIGBUS if running::stack_overflowed_at(address) => "stack overflow",
        libc::SIGSEGV | libc::SIGBUS if host_stack.is_some() => "stack overflow",
        libc::SIGSEGV | libc::SIGBUS if crooked.is_some() => "misaligned access",
        libc::SIGSEGV | libc::SIGBUS if by_host => "host access to device memory",
        libc::SIGSEGV | libc::SIGBUS if is_trap => "device access to host memory",
        libc::SIGSEGV | libc::SIGBUS => "out-of-bounds access",
        libc::SIGFPE => "integer division by zero",
        libc::SIGILL => "illegal instruction",
        libc::SIGTERM => "timeout",
        _ => "aborted",
    };
    let _ = write!(line, "{{\x01fault\x01:{{\x01what\x01:\x01{what}\x01,\x01detail\x01:\x01");
    match signal {
        libc::SIGSEGV | libc::SIGBUS => {
            let _ = write!(line, "address {address:#x}: ");
            if let Some(bytes) = host_stack {
                let _ = write!(
                    line,
                    "the {} MiB of host code's stack are used up",
                    bytes.div_ceil(1 << 20)
                );
            } else if let Some((address, alignment)) = crooked {
                context.memory.describe_inside(address, &mut line);
                let _ = write!(line, "the address is no multiple of {alignment}");
            } else if by_host {
                context.memory.describe_inside(address, &mut line);
                let _ = line.write_str("host code cannot touch it on a GPU; copy it by cudaMemcpy");
            } else if is_trap {
                let _ = line.write_str(trap.text());
            } else if shared::overrun_at(address) {
                let _ = line.write_str("past the end of dynamic shared memory");
            } else if running::stack_overflowed_at(address) {
                let _ = line.write_str("the local variables of a thread need more than 128 KiB");
            } else {
                context.memory.describe(address, &mut line);
            }
        }
        libc::SIGABRT => {
            let _ = line.write_str("the code called abort(), or an exception was not caught");
        }
        _ => {}
    }
    let _ = line.write_str("\x01");
    if let Some((kernel, block, thread)) = place {
        let _ = write!(line, ",\x01kernel\x01:\x01{kernel}\x01");
        let _ = write!(line, ",\x01block\x01:{block:?},\x01thread\x01:{thread:?}");
    }
    let _ = line.write_str("}}\n");
    // SAFETY: writes to the pipe and ends the process, as signal handlers may.
    unsafe {
        libc::write(context.descriptor, line.bytes.as_ptr().cast(), line.len);
        libc::_exit(REPORTED);
    }
}
