//! Keeps a process from sending signals to those above it, with a seccomp filter. The filter needs
//! no privilege, and everything that the process starts inherits it.
//!
//! It stops mistakes and simple attempts: `kill(getppid(), ...)`, `kill(-1, ...)`. It is not a
//! sandbox. A `SIGKILL` that the process sends to itself is turned into a signal that it can handle,
//! so that its sender is known.
#![allow(unsafe_code)]

use std::io;
use std::os::raw::c_long;

use super::Pid;

/// The value of `si_errno` in a handler of `SIGSYS` if the process sends `SIGKILL` to itself.
pub(crate) const KILLS_ITSELF: u16 = 0x5250;

/// A program counts at most so many processes, so that every jump is short.
const MOST: usize = 48;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The low half of the argument with this index.
const fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const TELL: u32 = libc::SECCOMP_RET_TRAP | KILLS_ITSELF as u32;

/// Calls that name a process in the same argument and, where they send a signal, the signal as well.
struct Calls {
    numbers: &'static [c_long],
    process: u32,
    signal: Option<u32>,
}

const CALLS: [Calls; 4] = [
    Calls {
        numbers: &[libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo],
        process: 0,
        signal: Some(1),
    },
    Calls {
        numbers: &[libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo],
        process: 0,
        signal: Some(2),
    },
    Calls {
        numbers: &[libc::SYS_pidfd_open, libc::SYS_prlimit64, libc::SYS_process_vm_writev],
        process: 0,
        signal: None,
    },
    Calls { numbers: &[libc::SYS_ptrace], process: 1, signal: None },
];

/// Makes system calls fail that reach the processes `above`, their groups, or all processes: in this
/// thread and in everything that it starts from here on. A `SIGKILL` to this process itself arrives
/// as `SIGSYS`.
///
/// # Errors
/// If the system has no such filters. At most `no_new_privs` has changed then.
pub(crate) fn raise(above: &[Pid]) -> io::Result<()> {
    let program = program(above, super::this());
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    // Without this flag older systems slow a process with a filter down.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    rustix::thread::set_no_new_privs(true)?;
    let set = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the program is read while the call lasts.
    match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// The filter for the process `this` below `above`.
fn program(above: &[Pid], this: Pid) -> Vec<libc::sock_filter> {
    let above = &above[..above.len().min(MOST)];
    let groups = above.iter().map(|&process| -process);
    // 1 is written as -1 in no group: it means all processes.
    let refused: Vec<u32> =
        above.iter().copied().chain(groups).chain([-1]).map(|p| p as u32).collect();
    let itself = [this as u32, -this as u32, 0];
    let mut program = vec![step(LOAD, ARCHITECTURE)];
    // Programs of other architectures are not restricted.
    program.push(libc::sock_filter { code: EQUAL, jt: 1, jf: 0, k: NATIVE });
    program.push(step(RETURN, ALLOW));
    program.push(step(LOAD, NUMBER));
    for Calls { numbers, process, signal } in CALLS {
        let mut body = vec![step(LOAD, argument(process))];
        for &process in &refused {
            when(&mut body, &[process], &[step(RETURN, REFUSE)]);
        }
        for process in itself {
            let Some(signal) = signal else { break };
            let mut told = vec![step(LOAD, argument(signal))];
            when(&mut told, &[libc::SIGKILL as u32], &[step(RETURN, TELL)]);
            told.push(step(RETURN, ALLOW));
            when(&mut body, &[process], &told);
        }
        body.push(step(RETURN, ALLOW));
        let numbers: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
        when(&mut program, &numbers, &body);
    }
    let mut owner = vec![step(LOAD, argument(1))];
    // Whom a descriptor sends signals to.
    when(&mut owner, &[libc::F_SETOWN as u32, F_SETOWN_EX], &[step(RETURN, REFUSE)]);
    owner.push(step(RETURN, ALLOW));
    when(&mut program, &[libc::SYS_fcntl as u32], &owner);
    // The call names a process by a descriptor, and the filter cannot see whose it is.
    when(&mut program, &[libc::SYS_pidfd_send_signal as u32], &[step(RETURN, REFUSE)]);
    program.push(step(RETURN, ALLOW));
    program
}

const F_SETOWN_EX: u32 = 15;

/// Adds `body`, to be executed if the value is one of `values`.
fn when(program: &mut Vec<libc::sock_filter>, values: &[u32], body: &[libc::sock_filter]) {
    let length = u8::try_from(body.len()).expect("bodies are short");
    for (index, &k) in values.iter().enumerate() {
        let others = (values.len() - 1 - index) as u8;
        let past = if others == 0 { length } else { 0 };
        program.push(libc::sock_filter { code: EQUAL, jt: others, jf: past, k });
    }
    program.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of the filter on a call, as the system's interpreter would compute it.
    fn verdict(program: &[libc::sock_filter], number: c_long, arguments: [i32; 3]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                RETURN => return k,
                EQUAL => at += usize::from(if value == k { jt } else { jf }),
                _ => {
                    value = match k {
                        NUMBER => number as u32,
                        ARCHITECTURE => NATIVE,
                        _ => arguments[(k as usize - 16) / 8] as u32,
                    }
                }
            }
        }
    }

    #[test]
    fn signals_to_those_above_and_to_all_are_refused() {
        let program = program(&[30, 20, 1], 31);
        let kill = |process, signal| verdict(&program, libc::SYS_kill, [process, signal, 0]);
        for process in [30, 20, 1, -30, -20, -1] {
            assert_eq!(kill(process, libc::SIGTERM), REFUSE, "{process}");
            assert_eq!(kill(process, libc::SIGKILL), REFUSE, "{process}");
        }
        for process in [31, 0, -31, 32, 2] {
            assert_eq!(kill(process, libc::SIGTERM), ALLOW, "{process}");
        }
        let queue = |process| verdict(&program, libc::SYS_rt_tgsigqueueinfo, [process, process, 9]);
        assert_eq!([queue(20), queue(31), queue(32)], [REFUSE, TELL, ALLOW]);
        assert_eq!(verdict(&program, libc::SYS_ptrace, [4, 30, 0]), REFUSE);
        assert_eq!(verdict(&program, libc::SYS_prlimit64, [30, 0, 0]), REFUSE);
        assert_eq!(verdict(&program, libc::SYS_fcntl, [1, libc::F_SETOWN, 30]), REFUSE);
        assert_eq!(verdict(&program, libc::SYS_fcntl, [1, libc::F_GETFL, 0]), ALLOW);
        assert_eq!(verdict(&program, libc::SYS_write, [30, 30, 30]), ALLOW);
    }

    #[test]
    fn a_process_that_kills_itself_is_told_of_it() {
        let program = program(&[1], 31);
        let kill = |process, signal| verdict(&program, libc::SYS_kill, [process, signal, 0]);
        assert_eq!([31, 0, -31].map(|process| kill(process, libc::SIGKILL)), [TELL; 3]);
        assert_eq!(kill(32, libc::SIGKILL), ALLOW);
    }

    #[test]
    fn a_long_line_of_descent_makes_no_jump_too_long() {
        let above: Vec<Pid> = (1..100).collect();
        let program = program(&above, 200);
        assert_eq!(verdict(&program, libc::SYS_kill, [MOST as i32, 15, 0]), REFUSE);
    }
}
