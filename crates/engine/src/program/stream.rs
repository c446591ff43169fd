//! The output of a replay: named pipes. Only their ends are kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
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

/// Opens the named pipe at `path`, and makes it first if it is missing. Code of the replay's series may have put something
/// else there meanwhile, such as a link to what it may not read.
fn open_named_pipe(path: &Path) -> io::Result<File> {
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    match rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Open for writing too: nobody waits to open it, and it never ends.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    if pipe.metadata()?.file_type().is_fifo() {
        return Ok(pipe);
    }
    Err(io::Error::other("it is no pipe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pipe_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let [secret, file, link, pipe_link] =
            ["secret", "file", "link", "pipe-link"].map(|name| folder.path().join(name));
        for path in [&secret, &file] {
            std::fs::write(path, "a secret").unwrap();
        }
        open_named_pipe(&folder.path().join("pipe")).unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        std::os::unix::fs::symlink(folder.path().join("pipe"), &pipe_link).unwrap();
        for path in [file, link, pipe_link] {
            assert!(open_named_pipe(&path).is_err(), "{}", path.display());
        }
        assert!(open_named_pipe(&folder.path().join("pipe")).is_ok());
        assert_eq!(std::fs::read(secret).unwrap(), b"a secret");
    }
}
