//! Memory and pipes shared by two processes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use memmap2::{Advice, Mmap, MmapOptions};
use rayon::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::error::{WorkerError, system_error};
use replay_base::process;
use replay_base::scratch::{self, Budget, Taken};
use replay_runtime::journal;

/// From this size on, the inputs or the outputs of one replay count as memory. If memory is short, they lie in a file:
/// the system can write out its pages.
pub(super) const LARGE_OUTPUTS: usize = 64 << 20;
/// Such memory is kept for another replay from this size on: to have it anew takes time.
pub(super) const REUSED: usize = 4 << 20;
/// How many such one process keeps at most: those of concurrent replays.
const SPARES: usize = 8;
/// All kept memory may take this part of the free memory for numbers and outputs.
const SHARE_SPARE: usize = 4;
/// The size of large memory is a multiple of this, so it also serves replays of nearly the same size.
const UNIT: usize = 32 << 20;

/// The size of the memory for inputs or outputs of so many bytes.
pub(crate) fn round_up_memory(bytes: u64) -> u64 {
    if bytes >= LARGE_OUTPUTS as u64 {
        bytes.checked_next_multiple_of(UNIT as u64).unwrap_or(u64::MAX)
    } else {
        bytes
    }
}

/// The size of a journal is a multiple of this.
const PAGE: usize = 64 << 10;

/// Memory for the outputs of one replay, for its large inputs, or for inputs of several replays.
#[derive(Debug)]
pub(super) struct OutputMemory {
    file: File,
    bytes: usize,
    taken: Option<Taken>,
    /// Whether it is for replays in float64.
    is_wide: bool,
    /// The mapping of this process, once it reads the memory.
    map: Option<Mmap>,
}

impl OutputMemory {
    /// New memory of so many bytes, or a file in `folder` if memory is short.
    pub(super) fn new(bytes: usize, folder: &Path) -> Result<OutputMemory, WorkerError> {
        OutputMemory::with(bytes, folder, SealFlags::SEAL)
    }

    /// New memory of so many bytes, or a file, with the content from `write`. Nobody writes to it afterwards.
    pub(super) fn written(
        bytes: usize,
        folder: &Path,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<OutputMemory, WorkerError> {
        let memory = OutputMemory::with(bytes, folder, SealFlags::empty())?;
        write(&memory.file).map_err(system_error("lay out the inputs"))?;
        // A file on a disk has no seals, and replayed code no descriptor of it.
        let _ = fcntl_add_seals(&memory.file, SealFlags::WRITE | SealFlags::SEAL);
        Ok(memory)
    }

    fn with(bytes: usize, folder: &Path, seals: SealFlags) -> Result<OutputMemory, WorkerError> {
        let budget = (bytes >= LARGE_OUTPUTS).then(Budget::of_process);
        let taken = budget.as_ref().and_then(|budget| budget.reserve(bytes));
        let file = if budget.is_some() && taken.is_none() {
            scratch::create_unnamed_file(folder, bytes)?
        } else {
            create_shared_memory(bytes, seals).map_err(system_error("make shared memory"))?
        };
        Ok(OutputMemory { file, bytes, taken, is_wide: false, map: None })
    }

    /// The file for a child to map.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Makes the child's content readable here. `is_whole` says whether it is most of the memory.
    ///
    /// # Safety
    /// Every process with write access to the memory must have ended.
    pub(super) unsafe fn open(&mut self, is_whole: bool) -> Result<(), WorkerError> {
        if self.map.is_none() && self.bytes > 0 {
            let mut options = MmapOptions::new();
            if is_whole && self.taken.is_some() {
                options.populate();
            }
            // SAFETY: as the caller promises; no process can shorten it.
            let map = unsafe { options.map(&self.file) };
            self.map = Some(map.map_err(system_error("map the outputs"))?);
        }
        Ok(())
    }

    /// The bytes; none before they were opened.
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

/// Gives the first `bytes` of `memory` their pages, on all cores. Outputs are copied by one thread, and the system would
/// make the pages one by one.
pub(super) fn populate_memory_file(memory: &File, bytes: usize) {
    const STRETCH: usize = 16 << 20;
    if bytes < STRETCH {
        return;
    }
    // Without this, pages come when they are written.
    let Ok(map) = MmapOptions::new().len(bytes).map_raw(memory) else { return };
    (0..bytes.div_ceil(STRETCH)).into_par_iter().for_each(|stretch_index| {
        let stretch_begin = stretch_index * STRETCH;
        // Kernels before 5.14 do not know it.
        let _ = map.advise_range(
            Advice::PopulateWrite,
            stretch_begin,
            STRETCH.min(bytes - stretch_begin),
        );
    });
}

/// Unused memory for outputs or inputs of replays.
#[derive(Debug)]
pub(super) struct Spares {
    memory: Mutex<Vec<Spare>>,
    /// The limit of all of it together.
    budget: Arc<Budget>,
}

/// Kept memory, and its part of the budget.
type Spare = (OutputMemory, Taken);

impl Default for Spares {
    fn default() -> Spares {
        /// The one of this process, for all its makers of replays.
        static BUDGET: LazyLock<Arc<Budget>> =
            LazyLock::new(|| Budget::new(Budget::of_process().most() / SHARE_SPARE));
        Spares::within(BUDGET.clone())
    }
}

impl Spares {
    /// None yet, and never more than `budget` allows.
    fn within(budget: Arc<Budget>) -> Spares {
        Spares { memory: Mutex::default(), budget }
    }

    /// Memory of so many bytes with any content, for a replay in float64 if `is_wide`. To make a large one, it first gives
    /// back the memory of replays in the other precision: those come to their end first.
    pub(super) fn acquire(
        &self,
        bytes: usize,
        is_wide: bool,
        folder: &Path,
    ) -> Result<OutputMemory, WorkerError> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded_bytes = bytes.next_multiple_of(UNIT);
        let is_rounded = bytes >= LARGE_OUTPUTS && rounded_bytes as u64 <= process::file_limit();
        let bytes = if is_rounded { rounded_bytes } else { bytes };
        if let Some(place) = memory.iter().position(|(spare, _)| spare.bytes == bytes) {
            return Ok(OutputMemory { is_wide, ..memory.remove(place).0 });
        }
        let is_large = bytes >= LARGE_OUTPUTS;
        let is_short = is_large && Budget::of_process().left() < bytes;
        let unused = memory
            .extract_if(.., |(spare, _)| is_short || is_large && spare.is_wide != is_wide)
            .map(|(spare, _)| spare)
            .collect();
        drop(memory);
        release_memory(unused);
        Ok(OutputMemory { is_wide, ..OutputMemory::new(bytes, folder)? })
    }

    /// Keeps `memory` for another replay. No process may write to it any more.
    pub(super) fn recycle(&self, memory: OutputMemory) {
        if memory.bytes < REUSED || memory.bytes > self.budget.most() {
            return;
        }
        let mut spares = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut oldest = Vec::new();
        if spares.len() >= SPARES {
            oldest.push(spares.remove(0).0);
        }
        // The least recently used make room.
        let taken = loop {
            match self.budget.reserve(memory.bytes) {
                Some(taken) => break Some(taken),
                None if spares.is_empty() => break None,
                None => oldest.push(spares.remove(0).0),
            }
        };
        spares.extend(taken.map(|taken| (memory, taken)));
        drop(spares);
        release_memory(oldest);
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let memory = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner);
        release_memory(std::mem::take(memory).into_iter().map(|(spare, _)| spare).collect());
    }
}

/// Gives `memory` back to the system, on all cores: a core takes a second for some 10 GB.
fn release_memory(memory: Vec<OutputMemory>) {
    memory.into_par_iter().for_each(drop);
}

/// The outputs of an ended replay. Their memory serves another one afterwards.
#[derive(Debug)]
pub(super) struct RunOutputs {
    memory: Option<OutputMemory>,
    spares: Arc<Spares>,
}

impl RunOutputs {
    /// The outputs in `memory`.
    ///
    /// # Safety
    /// As [`OutputMemory::open`].
    pub(super) unsafe fn open(
        mut memory: OutputMemory,
        spares: &Arc<Spares>,
        is_whole: bool,
    ) -> Result<RunOutputs, WorkerError> {
        // SAFETY: as the caller promises.
        unsafe { memory.open(is_whole)? };
        Ok(RunOutputs { memory: Some(memory), spares: spares.clone() })
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], OutputMemory::bytes)
    }
}

impl Drop for RunOutputs {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.spares.recycle(memory);
        }
    }
}

/// The memory of a journal.
pub(super) fn for_journal() -> Result<File, WorkerError> {
    // Memory is a file to this limit. A smaller journal leaves more launches out.
    let allowed = process::file_limit().min(journal::BYTES as u64) as usize;
    let bytes = (allowed / PAGE * PAGE).max(journal::LEAST_BYTES);
    // `journal::begin` adds `F_SEAL_SEAL`, the mark of begun code.
    create_shared_memory(bytes, SealFlags::empty()).map_err(system_error("make shared memory"))
}

/// Anonymous memory, written by one process and read by another. Its size is sealed: if one process
/// shrank it, the other would get SIGBUS on reading.
fn create_shared_memory(bytes: usize, seals: SealFlags) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(c"replay", flags)?);
    file.set_len(bytes.max(1) as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | seals)?;
    Ok(file)
}

/// A pipe: its read end, then its write end.
pub(super) fn create_pipe() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((std::os::fd::OwnedFd::from(reader).into(), std::os::fd::OwnedFd::from(writer).into()))
}

/// An empty file in memory. It grows with the output of whoever prints to it.
pub(super) fn create_growing_file() -> io::Result<File> {
    Ok(memfd_create(c"replay", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_shared_memory_is_nobody_s_to_change() {
        let memory = create_shared_memory(100, SealFlags::SEAL).unwrap();
        for bytes in [0, 99, 101] {
            assert_eq!(memory.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
    }

    #[test]
    fn memory_for_outputs_serves_one_replay_after_the_other() {
        use std::os::unix::fs::{FileExt, MetadataExt};
        let spares = Arc::new(Spares::default());
        let folder = tempfile::tempdir().unwrap();
        let take = |bytes| spares.acquire(bytes, false, folder.path()).unwrap();
        let number = |memory: &OutputMemory| memory.file().metadata().unwrap().ino();
        let first = take(REUSED);
        let known = number(&first);
        first.file().write_all_at(b"one", 0).unwrap();
        // SAFETY: nobody else has it.
        let outputs = unsafe { RunOutputs::open(first, &spares, true) }.unwrap();
        assert_eq!(outputs.bytes()[..3], *b"one");
        assert_ne!(number(&take(REUSED)), known);
        drop(outputs);
        let second = take(REUSED);
        assert_eq!(number(&second), known);
        second.file().write_all_at(b"two", 0).unwrap();
        // SAFETY: as above.
        let outputs = unsafe { RunOutputs::open(second, &spares, true) }.unwrap();
        assert_eq!(outputs.bytes()[..3], *b"two");
        drop(outputs);
        // Of another size it is of no use.
        assert_ne!(number(&take(REUSED + 1)), known);
        assert_eq!(number(&take(REUSED)), known);
    }

    #[test]
    fn all_that_is_kept_for_other_replays_is_bounded() {
        let budget = Budget::new(5 * REUSED);
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Spares::within(budget.clone()));
        let give = |spares: &Spares, bytes| {
            spares.recycle(OutputMemory::new(bytes, folder.path()).unwrap());
        };
        let kept = |spares: &Spares| -> Vec<usize> {
            spares.memory.lock().unwrap().iter().map(|(memory, _)| memory.bytes / REUSED).collect()
        };
        for count in [1, 2, 1, 3, 9] {
            give(&one, count * REUSED);
        }
        // What was used longest ago has made room, and what is more than all of it is not kept.
        assert_eq!((kept(&one), budget.left()), (vec![1, 3], REUSED));
        give(&other, 2 * REUSED);
        assert_eq!(kept(&other), Vec::<usize>::new());
        drop(one.acquire(3 * REUSED, false, folder.path()).unwrap());
        give(&other, 2 * REUSED);
        assert_eq!((kept(&one), kept(&other), budget.left()), (vec![1], vec![2], 2 * REUSED));
        drop((one, other));
        assert_eq!(budget.left(), 5 * REUSED);
    }

    #[test]
    fn a_journal_that_was_begun_stays_so() {
        let memory = for_journal().unwrap();
        assert!(!journal::has_begun(&memory));
        journal::begin_journal(&memory).unwrap();
        memory.set_len(0).unwrap_err();
        assert!(journal::has_begun(&memory));
    }
}
