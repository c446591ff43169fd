//! Tells which calls of a process the system refused, by ptrace: of the process and of all that it starts.
//!
//! This is a diagnosis of code that has failed already, and no more: walls and filters refuse, whoever looks on. What a
//! process names may change while it is read, and a system may forbid the tracing, so nothing may rest on it.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::Pid;
use super::tree::{self, End, next_status};

/// So many refused calls are kept: the first ones.
const MOST_CALLS: usize = 3;
/// So many bytes of a path are read.
const PATH_BYTES: usize = 1024;
/// The stop of a traced process at a call, rather than by a signal.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
/// The number in an argument that stands for the working directory.
const HERE: i32 = libc::AT_FDCWD;

/// A call that the system refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Its name in C.
    pub call: String,
    /// What it would have reached.
    pub target: CallTarget,
}

/// What a call reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallTarget {
    /// The file at this path.
    File(String),
    /// Something with this name: an address, a process.
    Named(String),
}

impl RefusedCall {
    /// The call with its target, as in C. Files below `home` begin with `~`.
    pub fn display(&self, home: &Path) -> impl fmt::Display {
        let target = match &self.target {
            CallTarget::Named(name) => name.clone(),
            CallTarget::File(path) => match Path::new(path).strip_prefix(home) {
                Ok(below) if home.parent().is_some() => {
                    format!("{:?}", Path::new("~").join(below))
                }
                _ => format!("{path:?}"),
            },
        };
        format!("{}({target})", self.call)
    }
}

/// Where a call names what it reaches, by the number of the argument.
#[derive(Clone, Copy)]
enum Naming {
    /// A path from the working directory.
    Path(usize),
    /// A path from the folder in the argument before.
    PathBelow(usize),
    /// The address of a socket; its length is the next argument.
    Address(usize),
    /// A process.
    Process(usize),
    /// The family of a socket.
    Family(usize),
    Nowhere,
}

/// Calls that reach something outside of a process, with their names in C.
const CALLS: [(libc::c_long, &str, Naming); 33] = [
    (libc::SYS_openat, "open", Naming::PathBelow(1)),
    (libc::SYS_openat2, "open", Naming::PathBelow(1)),
    (libc::SYS_truncate, "truncate", Naming::Path(0)),
    (libc::SYS_execve, "execve", Naming::Path(0)),
    (libc::SYS_execveat, "execve", Naming::PathBelow(1)),
    (libc::SYS_unlinkat, "unlink", Naming::PathBelow(1)),
    (libc::SYS_mkdirat, "mkdir", Naming::PathBelow(1)),
    (libc::SYS_mknodat, "mknod", Naming::PathBelow(1)),
    (libc::SYS_symlinkat, "symlink", Naming::PathBelow(2)),
    (libc::SYS_linkat, "link", Naming::PathBelow(1)),
    (libc::SYS_renameat2, "rename", Naming::PathBelow(1)),
    (libc::SYS_connect, "connect", Naming::Address(1)),
    (libc::SYS_bind, "bind", Naming::Address(1)),
    (libc::SYS_sendto, "sendto", Naming::Address(4)),
    (libc::SYS_socket, "socket", Naming::Family(0)),
    (libc::SYS_kill, "kill", Naming::Process(0)),
    (libc::SYS_tkill, "tkill", Naming::Process(0)),
    (libc::SYS_tgkill, "tgkill", Naming::Process(0)),
    (libc::SYS_pidfd_open, "pidfd_open", Naming::Process(0)),
    (libc::SYS_process_vm_readv, "process_vm_readv", Naming::Process(0)),
    (libc::SYS_process_vm_writev, "process_vm_writev", Naming::Process(0)),
    (libc::SYS_ptrace, "ptrace", Naming::Nowhere),
    (libc::SYS_bpf, "bpf", Naming::Nowhere),
    (libc::SYS_io_uring_setup, "io_uring_setup", Naming::Nowhere),
    (libc::SYS_keyctl, "keyctl", Naming::Nowhere),
    (libc::SYS_mount, "mount", Naming::Nowhere),
    (libc::SYS_mq_open, "mq_open", Naming::Nowhere),
    (libc::SYS_msgget, "msgget", Naming::Nowhere),
    (libc::SYS_perf_event_open, "perf_event_open", Naming::Nowhere),
    (libc::SYS_semget, "semget", Naming::Nowhere),
    (libc::SYS_setns, "setns", Naming::Nowhere),
    (libc::SYS_shmget, "shmget", Naming::Nowhere),
    (libc::SYS_userfaultfd, "userfaultfd", Naming::Nowhere),
];

/// Calls that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: [(libc::c_long, &str, Naming); 10] = [
    (libc::SYS_open, "open", Naming::Path(0)),
    (libc::SYS_creat, "open", Naming::Path(0)),
    (libc::SYS_unlink, "unlink", Naming::Path(0)),
    (libc::SYS_mkdir, "mkdir", Naming::Path(0)),
    (libc::SYS_rmdir, "rmdir", Naming::Path(0)),
    (libc::SYS_mknod, "mknod", Naming::Path(0)),
    (libc::SYS_symlink, "symlink", Naming::Path(1)),
    (libc::SYS_link, "link", Naming::Path(0)),
    (libc::SYS_rename, "rename", Naming::Path(0)),
    (libc::SYS_renameat, "rename", Naming::PathBelow(1)),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: [(libc::c_long, &str, Naming); 0] = [];

/// A call as a process makes it.
#[derive(Clone, Copy)]
struct BegunCall {
    number: libc::c_long,
    arguments: [u64; 6],
}

/// Looks on while processes make calls. It belongs to the parent of the first of them.
#[derive(Default)]
pub struct Tracer {
    /// The traced threads, with the calls that they are in.
    threads: HashMap<Pid, Option<BegunCall>>,
    /// Whether foreign code may run: its filter is there, or its program has begun.
    is_begun: bool,
    refused_calls: Vec<RefusedCall>,
}

impl Tracer {
    /// The first refused calls.
    pub fn into_refused_calls(self) -> Vec<RefusedCall> {
        self.refused_calls
    }

    /// As [`tree::reap_child`]. Traced processes that have stopped go on.
    fn reap(&mut self) -> Option<(Pid, End)> {
        loop {
            let (process, status) = next_status()?;
            if !status.stopped() {
                self.threads.remove(&process);
                return Some((process, End::from_status(status)));
            }
            let status = status.as_raw();
            let passed_signal = self.look_at(process, (status >> 8) & 0xff, status >> 16);
            trace(libc::PTRACE_SYSCALL, process, 0, passed_signal as usize);
        }
    }

    /// Looks at the stop of `thread` by `signal` or by an `event`. Returns the signal that it is to get.
    fn look_at(&mut self, thread: Pid, signal: i32, event: i32) -> i32 {
        if let Entry::Vacant(place) = self.threads.entry(thread) {
            place.insert(None);
            let options = libc::PTRACE_O_TRACESYSGOOD
                | libc::PTRACE_O_TRACECLONE
                | libc::PTRACE_O_TRACEFORK
                | libc::PTRACE_O_TRACEVFORK
                | libc::PTRACE_O_TRACEEXEC
                | libc::PTRACE_O_EXITKILL;
            trace(libc::PTRACE_SETOPTIONS, thread, 0, options as usize);
            // A traced process stops by the first when it begins to be traced, and by the second when it starts a program.
            self.is_begun |= signal == libc::SIGTRAP;
            return if matches!(signal, libc::SIGSTOP | libc::SIGTRAP) { 0 } else { signal };
        }
        match (event, signal) {
            (0, CALL_STOP) => {
                self.look_at_call(thread);
                0
            }
            (0, signal) => signal,
            _ => 0,
        }
    }

    fn look_at_call(&mut self, thread: Pid) {
        // SAFETY: zeros are numbers.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        trace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, &raw mut info as usize);
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: this part of the union belongs to an entry.
                let entry = unsafe { info.u.entry };
                let number = entry.nr as libc::c_long;
                self.threads.insert(thread, Some(BegunCall { number, arguments: entry.args }));
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                // SAFETY: as above.
                let result = unsafe { info.u.exit.sval };
                if let Some(call) = self.threads.insert(thread, None).flatten() {
                    self.look_at_result(thread, call, result);
                }
            }
            _ => {}
        }
    }

    fn look_at_result(&mut self, thread: Pid, call: BegunCall, result: i64) {
        self.is_begun |= call.number == libc::SYS_seccomp && result == 0;
        let is_refused =
            [libc::EACCES, libc::EPERM].iter().any(|&error| result == -i64::from(error));
        if !self.is_begun || !is_refused || self.refused_calls.len() >= MOST_CALLS {
            return;
        }
        let mut known_calls = CALLS.iter().chain(&OLDER_CALLS);
        let Some((_, name, naming)) = known_calls.find(|(number, ..)| *number == call.number)
        else {
            return;
        };
        let Some(target) = call.target(thread, *naming) else { return };
        let refused_call = RefusedCall { call: (*name).to_owned(), target };
        if !self.refused_calls.contains(&refused_call) {
            self.refused_calls.push(refused_call);
        }
    }
}

impl BegunCall {
    /// What the call of `thread` reaches; none if the system refuses it to this process as well.
    fn target(&self, thread: Pid, naming: Naming) -> Option<CallTarget> {
        let number = |argument: usize| self.arguments[argument] as i32;
        Some(match naming {
            Naming::Path(argument) => {
                return self.file(thread, argument, HERE);
            }
            Naming::PathBelow(argument) => {
                return self.file(thread, argument, number(argument - 1));
            }
            Naming::Address(argument) => CallTarget::Named(
                read_memory(thread, self.arguments[argument], number(argument + 1) as usize)
                    .and_then(|address| parse_address(&address))
                    .unwrap_or_default(),
            ),
            Naming::Process(argument) => CallTarget::Named(number(argument).to_string()),
            Naming::Family(argument) => CallTarget::Named(match number(argument) {
                libc::AF_UNIX => "AF_UNIX".to_owned(),
                libc::AF_INET => "AF_INET".to_owned(),
                libc::AF_INET6 => "AF_INET6".to_owned(),
                libc::AF_NETLINK => "AF_NETLINK".to_owned(),
                family => family.to_string(),
            }),
            Naming::Nowhere => CallTarget::Named(String::new()),
        })
    }

    fn file(&self, thread: Pid, argument: usize, folder: i32) -> Option<CallTarget> {
        let bytes = read_memory(thread, self.arguments[argument], PATH_BYTES)?;
        let path = OsStr::from_bytes(bytes.split(|&byte| byte == 0).next()?);
        let folder = match folder {
            HERE => format!("/proc/{thread}/cwd"),
            number => format!("/proc/{thread}/fd/{number}"),
        };
        let folder = fs::read_link(folder).unwrap_or_default();
        let path: PathBuf = folder.join(path);
        let is_closed_to_all = access(&path, Access::EXISTS) == Err(Errno::ACCESS)
            || access(&path, Access::READ_OK) == Err(Errno::ACCESS);
        (!is_closed_to_all).then(|| CallTarget::File(path.to_string_lossy().into_owned()))
    }
}

/// At most `most` bytes of the memory of `process` from `address` on: as many as there are.
fn read_memory(process: Pid, address: u64, most: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most.min(PATH_BYTES)];
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let count = memory.read_at(&mut bytes, address).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// The `address` of a socket, as users write it; none if it is of another kind.
fn parse_address(address: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(address.get(..2)?.try_into().ok()?);
    let port = || Some(u16::from_be_bytes(address.get(2..4)?.try_into().ok()?));
    let part = |from: usize, bytes: usize| address.get(from..from + bytes);
    let host: IpAddr = match i32::from(family) {
        libc::AF_INET => <[u8; 4]>::try_from(part(4, 4)?).ok()?.into(),
        libc::AF_INET6 => <[u8; 16]>::try_from(part(8, 16)?).ok()?.into(),
        libc::AF_UNIX => {
            let name = address.get(2..)?;
            // A name that begins with a zero is no file's.
            let name = match name.split_first()? {
                (0, rest) => [b"@", rest].concat(),
                _ => name.split(|&byte| byte == 0).next()?.to_owned(),
            };
            return Some(format!("{:?}", String::from_utf8_lossy(&name)));
        }
        _ => return None,
    };
    Some(SocketAddr::new(host, port()?).to_string())
}

/// As [`tree::reap_child`], while `tracer` looks on if there is one.
pub fn reap_child(tracer: Option<&mut Tracer>) -> Option<(Pid, End)> {
    tracer.map_or_else(tree::reap_child, Tracer::reap)
}

/// Lets the parent of this process trace it. May be called between fork and exec.
///
/// # Errors
/// Where the system forbids it.
pub fn offer_tracing() -> io::Result<()> {
    match trace(libc::PTRACE_TRACEME, 0, 0, 0) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the parent of this process trace it, and waits for the parent's [`Tracer`]. Where the system forbids it this
/// process goes on without.
pub fn await_tracer() {
    if offer_tracing().is_ok() {
        // SAFETY: sends a signal.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

fn trace(request: libc::c_uint, thread: Pid, address: usize, data: usize) -> libc::c_long {
    // SAFETY: where the system writes, `data` is the address of a variable of `address` bytes. A thread that has gone is
    // refused.
    unsafe { libc::ptrace(request, thread, address, data) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::process::seccomp_filter::FileStates;
    use crate::process::{seccomp_filter, walls};

    /// What is refused to the shell line `line` behind walls, from the working directory `folder`.
    #[expect(clippy::zombie_processes, reason = "the tracer waits for it")]
    fn refused_to(line: &str, folder: &Path) -> Vec<String> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(folder).stderr(std::process::Stdio::null());
        let walls = walls::Walls { readable: vec!["/proc".into()], ..walls::Walls::default() };
        // SAFETY: glibc's memory may be taken in a fork of one of several threads.
        unsafe {
            command.pre_exec(move || {
                offer_tracing()?;
                seccomp_filter::install_seccomp_filter(&[1], walls.connections, FileStates::Free)?;
                walls.enter()
            })
        };
        let child = command.spawn().unwrap();
        let mut tracer = Tracer::default();
        while tracer.reap().is_none_or(|(process, _)| process != child.id() as Pid) {
            std::thread::yield_now();
        }
        let calls = tracer.into_refused_calls();
        calls.iter().map(|call| call.display(folder).to_string()).collect()
    }

    #[test]
    fn what_walls_and_filters_refuse_is_told_of_all_processes() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        fs::write(home.join("key"), "").unwrap();
        let files =
            "cat /none /bin/sh > /dev/null; (cat key); echo x > 'a\\tb'; cat key; mkdir made";
        let files = refused_to(files, &home);
        assert_eq!(files, [r#"open("~/key")"#, r#"open("~/a\\tb")"#, r#"mkdir("~/made")"#]);
        assert_eq!(refused_to("kill -9 1; sh -c 'kill -9 1'", &home), ["kill(1)"]);
        assert_eq!(refused_to("kill -0 $$; exit 3", &home), [""; 0]);
    }

    #[test]
    fn an_address_is_told_as_users_write_it() {
        let address = |family: i32, rest: &[u8]| {
            parse_address(&[&(family as u16).to_ne_bytes()[..], rest].concat())
        };
        let v4 = address(libc::AF_INET, &[1, 187, 192, 0, 2, 7, 0, 0]);
        assert_eq!(v4.as_deref(), Some("192.0.2.7:443"));
        let mut v6 = [0; 26];
        v6[1] = 80;
        v6[21] = 1;
        assert_eq!(address(libc::AF_INET6, &v6).as_deref(), Some("[::1]:80"));
        let named = address(libc::AF_UNIX, b"/run/x\0rest");
        assert_eq!(named.as_deref(), Some("\"/run/x\""));
        assert_eq!(address(libc::AF_UNIX, b"\0bus\n").as_deref(), Some(r#""@bus\n""#));
        assert_eq!(address(libc::AF_INET, &[1]), None);
        assert_eq!(address(libc::AF_PACKET, &[0; 26]), None);
    }
}
