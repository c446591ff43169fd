//! A program to stay and answer: it inherits one end of a socket. When this process lets it go, its keeper ends it and all
//! processes below it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{
    Bounded, ForeignProgram, Keeper, KeeperError, KeeperReport, ProgramBounds, ProgramEnd,
    parse_keeper_reports,
};
use crate::process;

/// How long a keeper may take to end the leftover processes of one request.
const SWEEPING: Duration = Duration::from_secs(10);

/// A program at work, with its keeper.
#[derive(Debug)]
pub struct Served {
    keeper: Child,
    /// The keeper's messages.
    control: UnixStream,
    told: Vec<u8>,
    /// The other end of the program's socket.
    socket: UnixStream,
    /// The program's own output.
    printing: File,
    printed: Bounded,
    /// Whether it may print more.
    prints: bool,
}

impl Keeper {
    /// Starts `program` with a connected socket: the variable `variable` tells it the number of the
    /// descriptor.
    pub fn serve(
        &self,
        program: &ForeignProgram,
        bounds: &ProgramBounds,
        variable: &str,
    ) -> io::Result<Served> {
        let (control, theirs) = UnixStream::pair()?;
        let (socket, program_socket) = UnixStream::pair()?;
        let manner = [format!("serving {variable}").into()];
        let mut command = self.command(program, bounds, manner.into_iter());
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::from(OwnedFd::from(program_socket))).stderr(Stdio::piped());
        let mut keeper = command.spawn()?;
        let printing = File::from(OwnedFd::from(keeper.stderr.take().expect("stderr is piped")));
        socket.set_nonblocking(true)?;
        let told = Vec::new();
        let printed = Bounded::new();
        Ok(Served { keeper, control, told, socket, printing, printed, prints: true })
    }
}

impl Served {
    /// Sends `bytes` to the program.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        let sent = self.socket.write_all(bytes);
        self.socket.set_nonblocking(true)?;
        sent
    }

    /// Waits until the program sends something, one of `extra_files` can be read, or `timeout` is over. Adds
    /// the bytes to `received`. False once it will send no more.
    ///
    /// # Errors
    /// Where the system refuses to wait, or the user interrupts.
    pub fn receive(
        &mut self,
        received: &mut Vec<u8>,
        extra_files: [Option<BorrowedFd<'_>>; 2],
        timeout: Duration,
    ) -> io::Result<bool> {
        let [first, second] = extra_files;
        let files =
            [Some(self.socket.as_fd()), self.prints.then(|| self.printing.as_fd()), first, second];
        let ready = process::wait_for(files, Some(timeout))?;
        let mut buffer = [0; 16 << 10];
        if ready[1] {
            match self.printing.read(&mut buffer) {
                Ok(count) if count > 0 => self.printed.push(&buffer[..count]),
                _ => self.prints = false,
            }
        }
        if !ready[0] {
            return Ok(true);
        }
        match self.socket.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                received.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(_) => Ok(false),
        }
    }

    /// Ends all processes below the program. False if the program has ended.
    pub fn sweep(&mut self) -> bool {
        (&self.control).write_all(b"s").is_ok()
            && self.hear(|report| matches!(report, KeeperReport::Swept)).is_some()
    }

    /// Waits for the program's end, which must be near.
    pub fn ended(mut self) -> Result<(ProgramEnd, Vec<u8>), KeeperError> {
        let last_report = self.hear(KeeperReport::is_last);
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let mut remaining_output = Vec::new();
        if self.prints && self.printing.read_to_end(&mut remaining_output).is_ok() {
            self.printed.push(&remaining_output);
        }
        let ending = last_report.and_then(KeeperReport::into_ending);
        let ending = ending
            .unwrap_or_else(|| Err(KeeperError::Keeper(io::Error::other("it does not answer"))))?;
        Ok((ending, std::mem::take(&mut self.printed).finish().0))
    }

    /// The keeper's next message that `is_wanted`, or its message of the program's end.
    fn hear(&mut self, is_wanted: impl Fn(&KeeperReport) -> bool) -> Option<KeeperReport> {
        let started = Instant::now();
        loop {
            if let Some(end) = self.told.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.told.drain(..=end).collect();
                match parse_keeper_reports(&line).next() {
                    Some(report) if is_wanted(&report) => return Some(report),
                    Some(report) if report.is_last() => return None,
                    _ => continue,
                }
            }
            let left = SWEEPING.saturating_sub(started.elapsed());
            let files = [Some(self.control.as_fd())];
            if left.is_zero() || !process::wait_for(files, Some(left)).is_ok_and(|ready| ready[0]) {
                return None;
            }
            let mut buffer = [0; 4096];
            match self.control.read(&mut buffer) {
                Ok(count) if count > 0 => self.told.extend_from_slice(&buffer[..count]),
                _ => return None,
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The keeper ends all when its socket closes; this process only has to collect it.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let _ = self.keeper.wait();
    }
}
