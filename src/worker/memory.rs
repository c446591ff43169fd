//! Memory and pipes that two processes share.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::error::{WorkerError, system};
use crate::process;
use crate::runtime::journal;
use crate::scratch;

/// Outputs of one replay that take this many bytes lie in a file, whose pages the system can write
/// out, rather than in memory.
const LARGE_OUTPUTS: usize = 64 << 20;

/// The size of a journal is a multiple of this.
const PAGE: usize = 64 << 10;

/// Returns the file for the child's outputs: memory, or a file on disk if they are large.
pub(super) fn for_outputs(bytes: usize, folder: &Path) -> Result<File, WorkerError> {
    match bytes {
        LARGE_OUTPUTS.. => Ok(scratch::file(folder, bytes)?),
        _ => shared(bytes, SealFlags::SEAL).map_err(system("make shared memory")),
    }
}

/// The memory of a journal.
pub(super) fn for_journal() -> Result<File, WorkerError> {
    // Memory is a file to this limit; a journal that is smaller leaves more launches out.
    let allowed = process::file_limit().min(journal::BYTES as u64) as usize;
    let bytes = (allowed / PAGE * PAGE).max(journal::LEAST_BYTES);
    // `journal::begin` adds `F_SEAL_SEAL`, which marks that code has begun.
    shared(bytes, SealFlags::empty()).map_err(system("make shared memory"))
}

/// Anonymous memory that one process writes and another reads. Its size is sealed: if one process
/// shrank it, the other would get SIGBUS on reading.
fn shared(bytes: usize, seals: SealFlags) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(c"replay", flags)?);
    file.set_len(bytes.max(1) as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | seals)?;
    Ok(file)
}

/// A pipe: its read end, then its write end.
pub(super) fn pipe() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((std::os::fd::OwnedFd::from(reader).into(), std::os::fd::OwnedFd::from(writer).into()))
}

/// An empty file in memory that grows with what is printed to it.
pub(super) fn growing() -> io::Result<File> {
    Ok(memfd_create(c"replay", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_shared_memory_is_nobody_s_to_change() {
        let memory = shared(100, SealFlags::SEAL).unwrap();
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
