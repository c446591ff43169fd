//! Memory and pipes that two processes share.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

use super::error::{WorkerError, system};
use crate::process;
use crate::runtime::journal;
use crate::scratch;

/// Outputs of one replay that take this many bytes lie in a file, whose pages the system can write
/// out, not in memory.
const LARGE_OUTPUTS: usize = 64 << 20;

/// What the bytes of a journal are a multiple of.
const PAGE: usize = 64 << 10;

/// What the child writes its outputs to: memory, or a file where they are large.
pub(super) fn for_outputs(bytes: usize, folder: &Path) -> Result<File, WorkerError> {
    match bytes {
        LARGE_OUTPUTS.. => Ok(scratch::file(folder, bytes)?),
        _ => shared(bytes, libc::F_SEAL_SEAL).map_err(system("make shared memory")),
    }
}

/// The memory of a journal.
pub(super) fn for_journal() -> Result<File, WorkerError> {
    // Memory is a file to this limit; a journal that is smaller leaves more launches out.
    let allowed = process::file_limit().min(journal::BYTES as u64) as usize;
    let bytes = (allowed / PAGE * PAGE).max(journal::LEAST_BYTES);
    // Another seal tells that it was begun.
    shared(bytes, 0).map_err(system("make shared memory"))
}

/// Anonymous memory that one process writes and another reads. Nobody can change its size: a part that
/// one process took away would end the other one when it reads it.
fn shared(bytes: usize, seals: i32) -> io::Result<File> {
    // SAFETY: makes a new file descriptor, owned by the File.
    let file = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let descriptor = libc::memfd_create(c"replay".as_ptr(), flags);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.set_len(bytes.max(1) as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | seals;
    // SAFETY: changes what may be done with the descriptor's memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What is written to the second end can be read from the first.
pub(super) fn pipe() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((std::os::fd::OwnedFd::from(reader).into(), std::os::fd::OwnedFd::from(writer).into()))
}

/// A file without content that grows: what is printed to it shows that something was printed.
pub(super) fn growing() -> io::Result<File> {
    // SAFETY: makes a new file descriptor, owned by the File.
    match unsafe { libc::memfd_create(c"replay".as_ptr(), libc::MFD_CLOEXEC) } {
        failed if failed < 0 => Err(io::Error::last_os_error()),
        // SAFETY: as above.
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_shared_memory_is_nobody_s_to_change() {
        let memory = shared(100, libc::F_SEAL_SEAL).unwrap();
        for bytes in [0, 99, 101] {
            assert_eq!(memory.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
    }

    #[test]
    fn a_journal_that_was_begun_stays_so() {
        let memory = for_journal().unwrap();
        assert!(!journal::has_begun(&memory));
        journal::begin(&memory).unwrap();
        memory.set_len(0).unwrap_err();
        assert!(journal::has_begun(&memory));
    }
}
