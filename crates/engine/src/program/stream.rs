//! The output of a replay: named pipes. Only their ends are kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::ProgramError;
use super::error::program_system_error;
use replay_base::foreign::Bounded;

/// The output of a replay: a named pipe. It is drained, so nothing fills it.
pub(super) struct Stream {
    pub(super) pipe: File,
    kept: Bounded,
}

impl Stream {
    pub(super) fn new(folder: &Path, name: &str) -> Result<Stream, ProgramError> {
        let pipe = open_named_pipe(&folder.join(name));
        let pipe = pipe.map_err(program_system_error("make a pipe"))?;
        Ok(Stream { pipe, kept: Bounded::default() })
    }

    /// Takes all bytes in the pipe.
    pub(super) fn drain(&mut self) {
        let mut buffer = [0; 16 << 10];
        while let Ok(count) = self.pipe.read(&mut buffer) {
            if count == 0 {
                return;
            }
            self.kept.push(&buffer[..count]);
        }
    }

    pub(super) fn text(mut self) -> Bounded {
        self.drain();
        self.kept
    }
}

/// Opens the named pipe at `path`, and makes it first if it is missing.
fn open_named_pipe(path: &Path) -> io::Result<File> {
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    match rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Open for writing too: nobody waits to open it, and it never ends.
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)
}
