//! Keeps a process from system calls that reach others, with a seccomp filter. The filter needs
//! no privilege, and all processes below inherit it.
//!
//! Signals to those above fail, and so do calls that no replayed code needs. Files are not its
//! matter: [`super::walls`] are around them. A `SIGKILL` from the process to itself becomes another signal. The process can handle it and know the
//! sender. System calls of other architectures end the process.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::os::raw::c_long;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, sock_filter,
};

use super::Pid;
use super::walls::Connections;

/// The value of `si_errno` in a handler of `SIGSYS` if the process sends `SIGKILL` to itself.
pub const KILLS_ITSELF: u16 = 0x5250;

/// A filter counts at most so many processes: the system takes 4096 instructions.
const MOST: usize = 25;

/// Calls with the process in the same argument. If they send a signal, it is in the same argument as well.
struct FilteredCalls {
    numbers: &'static [c_long],
    process: u8,
    signal: Option<u8>,
}

const CALLS: [FilteredCalls; 3] = [
    FilteredCalls {
        numbers: &[libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo],
        process: 0,
        signal: Some(1),
    },
    FilteredCalls {
        numbers: &[libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo],
        process: 0,
        signal: Some(2),
    },
    FilteredCalls {
        numbers: &[
            libc::SYS_pidfd_open,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setattr,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setscheduler,
        ],
        process: 0,
        signal: None,
    },
];

/// Calls that change limits and priorities, with the arguments by which they mean the thread that makes them. No code needs
/// to name another one: a limit lowered elsewhere ends a process, and priorities are those of all that a user runs.
const OWN_ALONE: [(c_long, &[(u8, i32)]); 3] = [
    (libc::SYS_prlimit64, &[(0, 0)]),
    (libc::SYS_setpriority, &[(0, libc::PRIO_PROCESS as i32), (1, 0)]),
    (libc::SYS_ioprio_set, &[(0, IOPRIO_WHO_PROCESS), (1, 0)]),
];

const IOPRIO_WHO_PROCESS: i32 = 1;

/// Calls that no replayed code needs: into other processes, the system's keys, what is mounted, and those by which others
/// get past a filter.
const NEEDLESS: [c_long; 27] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    // The call names a process by a descriptor, and the filter cannot see whose it is.
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_setns,
    // Files by numbers, which need no path, and all files of a mount.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // The system's messages.
    libc::SYS_syslog,
];

/// Calls that make what outlives all processes: memory, semaphores and queues that several may have. Other ways to share
/// them leave nothing behind. Those who compute on several machines have them with the network that they need.
const LASTING: [c_long; 4] =
    [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open];

/// Whether code may change modes, owners, times and attributes of files. No wall is around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStates {
    /// It writes files of its own.
    Free,
    /// It writes none.
    Fixed,
}

/// The calls that change them.
const STATE_CHANGES: [c_long; 12] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// The older ones among them, which later architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER_STATE_CHANGES: [c_long; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];

#[cfg(not(target_arch = "x86_64"))]
const OLDER_STATE_CHANGES: [c_long; 0] = [];

/// Requests to a terminal that type for its user, and those that say whom a socket sends signals to.
const REQUESTS: [i32; 4] = [libc::TIOCSTI as i32, libc::TIOCLINUX as i32, FIOSETOWN, SIOCSPGRP];

const FIOSETOWN: i32 = 0x8901;
const SIOCSPGRP: i32 = 0x8902;

/// Makes system calls on the processes `ancestors`, on their groups, or on all processes fail: in this
/// thread and in its later children. A `SIGKILL` to this process itself arrives
/// as `SIGSYS`. Calls fail that no replayed code needs, those that make a socket or what outlives the code, unless
/// `connections` go further, and those that change `states` of files if they are fixed.
///
/// # Errors
/// If the system has no such filters. At most `no_new_privs` has changed then.
pub fn install_seccomp_filter(
    ancestors: &[Pid],
    connections: Connections,
    states: FileStates,
) -> io::Result<()> {
    let this = super::current_pid();
    install_filter_programs(build_filter_programs(ancestors, this, connections, states))
}

/// Makes system calls on this process fail: in it and in its later children. It cannot signal itself any more, so it runs
/// no replayed code but in forks.
///
/// # Errors
/// As for [`install_seccomp_filter`].
pub fn shield_from_forks() -> io::Result<()> {
    let refused = refused_process_calls(&[super::current_pid()]).and_then(build_refusing_program);
    install_filter_programs(refused.map(|program| vec![program]))
}

/// As [`install_seccomp_filter`], in a fork of a process with that filter that is [shielded](shield_from_forks): what
/// both share is there already, and costs nothing again.
///
/// # Errors
/// As for [`install_seccomp_filter`].
pub fn install_filter_of_fork() -> io::Result<()> {
    let told = build_telling_program(super::current_pid());
    install_filter_programs(told.map(|program| vec![program]))
}

fn install_filter_programs(programs: Result<Vec<BpfProgram>, BackendError>) -> io::Result<()> {
    let programs = programs.map_err(io::Error::other)?;
    rustix::thread::set_no_new_privs(true)?;
    programs.iter().try_for_each(|program| install_filter_program(program))
}

/// Puts `program` in front of the system calls of this thread.
fn install_filter_program(program: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // seccompiler does not set this flag. Without it, older systems slow a process with a filter down.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let set = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the program is read while the call lasts; both crates have the system's layout of an instruction.
    match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The filters for the process `this` below `above`: one refuses calls, one reports a process's SIGKILL to itself, and
/// one refuses other numbers. A filter has one action. If the first two match, the system takes the action of the second.
fn build_filter_programs(
    above: &[Pid],
    this: Pid,
    connections: Connections,
    states: FileStates,
) -> Result<Vec<BpfProgram>, BackendError> {
    let mut refused_rules = refused_calls(above)?;
    if states == FileStates::Fixed {
        let state_changes = STATE_CHANGES.into_iter().chain(OLDER_STATE_CHANGES);
        refused_rules.extend(state_changes.map(|number| (number, Vec::new())));
    }
    match connections {
        Connections::None => {
            refused_rules.insert(libc::SYS_socket, Vec::new());
            refused_rules.extend(LASTING.map(|number| (number, Vec::new())));
        }
        Connections::Local => {
            let mut conditions = Vec::new();
            for family in LOCAL_FAMILIES {
                conditions.push(argument_is(SeccompCmpOp::Ne, 0, family)?);
            }
            refused_rules.insert(libc::SYS_socket, vec![SeccompRule::new(conditions)?]);
        }
        Connections::All => {}
    }
    let refused = build_refusing_program(refused_rules)?;
    let told = build_telling_program(this)?;
    Ok([refused, told].into_iter().chain(build_number_filter()).collect())
}

fn build_refusing_program(rules: Rules) -> Result<BpfProgram, BackendError> {
    compile_filter_rules(rules, SeccompAction::Errno(libc::EPERM as u32))
}

fn build_telling_program(this: Pid) -> Result<BpfProgram, BackendError> {
    let mut told = compile_filter_rules(self_killing_calls(this)?, SeccompAction::Trap)?;
    for instruction in told.iter_mut().filter(|step| step.k == libc::SECCOMP_RET_TRAP) {
        instruction.k |= u32::from(KILLS_ITSELF);
    }
    Ok(told)
}

/// A filter of calls with numbers of their own for pointers of 32 bits: those above name none of them. The system answers
/// as one without such calls. seccompiler compares whole numbers alone.
#[cfg(target_arch = "x86_64")]
fn build_number_filter() -> Option<BpfProgram> {
    const X32_CALL: u32 = 0x4000_0000;
    let step = |code: u32, k, jt| sock_filter { code: code as u16, jt, jf: 0, k };
    Some(vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, X32_CALL, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn build_number_filter() -> Option<BpfProgram> {
    None
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn compile_filter_rules(rules: Rules, action: SeccompAction) -> Result<BpfProgram, BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)?.try_into()
}

/// Calls on `processes` and on their groups.
fn refused_process_calls(processes: &[Pid]) -> Result<Rules, BackendError> {
    let groups = processes.iter().map(|&process| -process);
    // 1 is written as -1 in no group: it means all processes.
    let refused: Vec<Pid> = processes.iter().copied().chain(groups).chain([-1]).collect();
    let mut rules = Rules::new();
    for FilteredCalls { numbers, process, .. } in CALLS {
        for &number in numbers {
            let mut process_rules = Vec::new();
            for &pid in &refused {
                process_rules.push(SeccompRule::new(vec![argument_equals(process, pid)?])?);
            }
            rules.insert(number, process_rules);
        }
    }
    Ok(rules)
}

fn refused_calls(above: &[Pid]) -> Result<Rules, BackendError> {
    let mut rules = refused_process_calls(&above[..above.len().min(MOST)])?;
    // Whom a descriptor sends signals to.
    let mut owner_rules = Vec::new();
    for operation in [libc::F_SETOWN, F_SETOWN_EX] {
        owner_rules.push(SeccompRule::new(vec![argument_equals(1, operation)?])?);
    }
    rules.insert(libc::SYS_fcntl, owner_rules);
    let mut request_rules = Vec::new();
    for request in REQUESTS {
        request_rules.push(SeccompRule::new(vec![argument_equals(1, request)?])?);
    }
    rules.insert(libc::SYS_ioctl, request_rules);
    for (number, own_arguments) in OWN_ALONE {
        let mut other_rules = Vec::new();
        for &(argument, value) in own_arguments {
            let is_other = argument_is(SeccompCmpOp::Ne, argument, value)?;
            other_rules.push(SeccompRule::new(vec![is_other])?);
        }
        rules.insert(number, other_rules);
    }
    rules.extend(NEEDLESS.map(|number| (number, Vec::new())));
    Ok(rules)
}

const F_SETOWN_EX: i32 = 15;

/// Sockets that lead nowhere beyond this machine.
const LOCAL_FAMILIES: [i32; 2] = [libc::AF_UNIX, libc::AF_NETLINK];

fn self_killing_calls(this: Pid) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for FilteredCalls { numbers, process, signal } in CALLS {
        let Some(signal) = signal else { continue };
        for &number in numbers {
            let mut process_rules = Vec::new();
            for pid in [this, -this, 0] {
                process_rules.push(SeccompRule::new(vec![
                    argument_equals(process, pid)?,
                    argument_equals(signal, libc::SIGKILL)?,
                ])?);
            }
            rules.insert(number, process_rules);
        }
    }
    Ok(rules)
}

/// The argument with this index is `value`.
fn argument_equals(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    argument_is(SeccompCmpOp::Eq, argument, value)
}

/// The argument with this index compares with `value` as `operator` says.
fn argument_is(
    operator: SeccompCmpOp,
    argument: u8,
    value: i32,
) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value as u32);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const TELL: u32 = libc::SECCOMP_RET_TRAP | KILLS_ITSELF as u32;

    /// The verdict on a call of this architecture, as the system's interpreter would compute it.
    fn verdict(programs: &[BpfProgram], number: c_long, arguments: [i32; 3]) -> u32 {
        let verdicts = programs.iter().map(|program| interpret(program, number, arguments));
        verdicts.min().expect("filters")
    }

    fn interpret(program: &BpfProgram, number: c_long, arguments: [i32; 3]) -> u32 {
        let mut at = 0;
        let mut value = 0;
        loop {
            let step = &program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                code if code == libc::BPF_JMP | libc::BPF_JA => at += step.k as usize,
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => {
                    at += usize::from(if value & step.k != 0 { step.jt } else { step.jf });
                }
                // The first comparison is of the architecture.
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    let jump = if at == 2 || value == step.k { step.jt } else { step.jf };
                    at += usize::from(jump);
                }
                code => {
                    assert_eq!(code, libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
                    value = match step.k {
                        0 => number as u32,
                        4 => 0,
                        offset => arguments[(offset as usize - 16) / 8] as u32,
                    }
                }
            }
        }
    }

    #[test]
    fn signals_to_those_above_and_to_all_are_refused() {
        let programs =
            build_filter_programs(&[30, 20, 1], 31, Connections::All, FileStates::Free).unwrap();
        let kill = |process, signal| verdict(&programs, libc::SYS_kill, [process, signal, 0]);
        for process in [30, 20, 1, -30, -20, -1] {
            assert_eq!(kill(process, libc::SIGTERM), REFUSE, "{process}");
            assert_eq!(kill(process, libc::SIGKILL), REFUSE, "{process}");
        }
        for process in [31, 0, -31, 32, 2] {
            assert_eq!(kill(process, libc::SIGTERM), ALLOW, "{process}");
        }
        let queue =
            |process| verdict(&programs, libc::SYS_rt_tgsigqueueinfo, [process, process, 9]);
        assert_eq!([queue(20), queue(31), queue(32)], [REFUSE, TELL, ALLOW]);
        assert_eq!(verdict(&programs, libc::SYS_ptrace, [4, 30, 0]), REFUSE);
        assert_eq!(verdict(&programs, libc::SYS_sched_setaffinity, [0, 8, 0]), ALLOW);
        assert_eq!(verdict(&programs, libc::SYS_fcntl, [1, libc::F_SETOWN, 30]), REFUSE);
        assert_eq!(verdict(&programs, libc::SYS_fcntl, [1, libc::F_GETFL, 0]), ALLOW);
        assert_eq!(verdict(&programs, libc::SYS_write, [30, 30, 30]), ALLOW);
    }

    #[test]
    fn needless_calls_and_requests_are_refused_and_sockets_unless_there_is_a_network() {
        let call = |connections, number, arguments| {
            let programs = build_filter_programs(&[30], 31, connections, FileStates::Free).unwrap();
            verdict(&programs, number, arguments)
        };
        let needless = |number| call(Connections::All, number, [4, 32, 0]);
        assert_eq!(NEEDLESS.map(needless), [REFUSE; NEEDLESS.len()]);
        let request = |number| call(Connections::All, libc::SYS_ioctl, [0, number, 0]);
        assert_eq!(REQUESTS.map(request), [REFUSE; REQUESTS.len()]);
        assert_eq!(request(libc::TIOCGWINSZ as i32), ALLOW);
        let socket = |family| {
            Connections::ALL.map(|connections| call(connections, libc::SYS_socket, [family, 1, 0]))
        };
        assert_eq!(Connections::ALL, [Connections::None, Connections::Local, Connections::All]);
        for family in [libc::AF_UNIX, libc::AF_NETLINK] {
            assert_eq!(socket(family), [REFUSE, ALLOW, ALLOW], "{family}");
        }
        for family in [libc::AF_INET, libc::AF_INET6, libc::AF_PACKET, libc::AF_VSOCK] {
            assert_eq!(socket(family), [REFUSE, REFUSE, ALLOW], "{family}");
        }
        for number in LASTING {
            let lasting = Connections::ALL.map(|connections| call(connections, number, [0; 3]));
            assert_eq!(lasting, [REFUSE, ALLOW, ALLOW], "{number}");
        }
        assert_eq!(call(Connections::None, libc::SYS_socketpair, [1, 1, 0]), ALLOW);
    }

    #[test]
    fn states_of_files_are_changed_by_those_who_write_some() {
        for (states, expected) in [(FileStates::Free, ALLOW), (FileStates::Fixed, REFUSE)] {
            let programs = build_filter_programs(&[30], 31, Connections::None, states).unwrap();
            for number in STATE_CHANGES.into_iter().chain(OLDER_STATE_CHANGES) {
                assert_eq!(verdict(&programs, number, [3, 0, 0]), expected, "{number}");
            }
        }
    }

    #[test]
    fn limits_and_priorities_are_changed_by_their_own_thread_alone() {
        let programs =
            build_filter_programs(&[30], 31, Connections::All, FileStates::Free).unwrap();
        let call = |number, first, second| verdict(&programs, number, [first, second, 0]);
        assert_eq!(
            [0, 30, 31, 32].map(|process| call(libc::SYS_prlimit64, process, 7)),
            [ALLOW, REFUSE, REFUSE, REFUSE]
        );
        // Processes, groups and users, by their numbers or as the caller's.
        let setpriority = |which, who| call(libc::SYS_setpriority, which, who);
        assert_eq!(
            [(0, 0), (0, 31), (1, 0), (2, 0), (2, 1000)]
                .map(|(which, who)| setpriority(which, who)),
            [ALLOW, REFUSE, REFUSE, REFUSE, REFUSE]
        );
        let ioprio_set = |which, who| call(libc::SYS_ioprio_set, which, who);
        assert_eq!(
            [(1, 0), (1, 31), (2, 0), (3, 0)].map(|(which, who)| ioprio_set(which, who)),
            [ALLOW, REFUSE, REFUSE, REFUSE]
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_by_other_numbers_are_unknown() {
        let programs =
            build_filter_programs(&[30], 31, Connections::All, FileStates::Free).unwrap();
        let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        for number in [libc::SYS_kill, 514, 521] {
            assert_eq!(verdict(&programs, number | 0x4000_0000, [32, 0, 0]), unknown, "{number}");
        }
    }

    #[test]
    fn a_process_that_kills_itself_is_told_of_it() {
        let programs = build_filter_programs(&[1], 31, Connections::All, FileStates::Free).unwrap();
        let kill = |process, signal| verdict(&programs, libc::SYS_kill, [process, signal, 0]);
        assert_eq!([31, 0, -31].map(|process| kill(process, libc::SIGKILL)), [TELL; 3]);
        assert_eq!(kill(32, libc::SIGKILL), ALLOW);
    }

    #[test]
    fn a_fork_of_a_shielded_process_cannot_reach_it_and_is_told_if_it_kills_itself() {
        let mut programs =
            build_filter_programs(&[30], 31, Connections::None, FileStates::Free).unwrap();
        programs.push(refused_process_calls(&[31]).and_then(build_refusing_program).unwrap());
        programs.push(build_telling_program(32).unwrap());
        let kill = |process, signal| verdict(&programs, libc::SYS_kill, [process, signal, 0]);
        assert_eq!([30, -30, 31, -31, -1].map(|process| kill(process, libc::SIGTERM)), [REFUSE; 5]);
        assert_eq!([32, -32, 0].map(|process| kill(process, libc::SIGKILL)), [TELL; 3]);
        assert_eq!([32, 33].map(|process| kill(process, libc::SIGTERM)), [ALLOW; 2]);
        assert_eq!(verdict(&programs, libc::SYS_socket, [libc::AF_INET, 1, 0]), REFUSE);
    }

    #[test]
    fn a_long_line_of_descent_is_filtered_as_far_as_a_filter_goes() {
        let above: Vec<Pid> = (1..100).collect();
        let programs =
            build_filter_programs(&above, 200, Connections::All, FileStates::Free).unwrap();
        assert_eq!(verdict(&programs, libc::SYS_kill, [MOST as i32, 15, 0]), REFUSE);
    }
}
