//! Memory for per-element numbers: this process's while there is enough, else unnamed mapped files. The system can write
//! out and reclaim their pages.
//!
//! A [`Budget`] counts the memory. The space in a file is reserved before use: a full disk is an
//! error here and not a signal later.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use memmap2::{Advice, MmapMut};

use crate::process;

/// A size for the memory of any machine.
const LEAST_MEMORY: usize = 128 << 20;
/// Numbers and outputs may take this part of the memory free at first.
const SHARE: usize = 2;
/// Memory of this size is mapped, in large pages where the system has them.
const LARGE: usize = 4 << 20;

/// The error for lack of memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {bytes} bytes for temporary numbers in {folder}")]
pub struct ScratchError {
    doing: &'static str,
    bytes: usize,
    folder: PathBuf,
    source: io::Error,
}

impl ScratchError {
    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        Some(match self.source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                "there is no room for it: free disk space, or set REPLAY_CACHE_DIR to a folder with more"
                    .to_owned()
            }
            _ => "set REPLAY_CACHE_DIR to a folder on a local disk".to_owned(),
        })
    }
}

/// The limit of bytes of memory, and those in use.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of `most` bytes.
    pub fn new(most: usize) -> Arc<Budget> {
        Arc::new(Budget { most, used: AtomicUsize::new(0) })
    }

    /// The budget of this process: half of the memory free at the first call.
    pub fn of_process() -> Arc<Budget> {
        static BUDGET: OnceLock<Arc<Budget>> = OnceLock::new();
        BUDGET
            .get_or_init(|| {
                let free_bytes = process::free_memory_bytes().unwrap_or_default() / SHARE as u64;
                Budget::new(usize::try_from(free_bytes).unwrap_or(usize::MAX).max(LEAST_MEMORY))
            })
            .clone()
    }

    /// Takes so many bytes, if they are left.
    pub fn reserve(self: &Arc<Budget>, bytes: usize) -> Option<Taken> {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&used| used <= self.most)
            })
            .ok()?;
        Some(Taken { bytes, budget: self.clone() })
    }

    /// All bytes.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The bytes left.
    pub fn left(&self) -> usize {
        self.most.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// A part of a [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Taken {
    bytes: usize,
    budget: Arc<Budget>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Where numbers are kept.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// None where all numbers lie in memory.
    folder: Option<Arc<Path>>,
    budget: Arc<Budget>,
}

impl Scratch {
    /// All numbers in memory, however many.
    pub fn heap() -> Scratch {
        Scratch { folder: None, budget: Budget::new(usize::MAX) }
    }

    /// Up to `most_bytes` in memory, the others in files in `folder`.
    pub fn in_folder(folder: &Path, most_bytes: usize) -> Scratch {
        Scratch { folder: Some(folder.into()), budget: Budget::new(most_bytes) }
    }

    /// As many in memory as this process may have, the others in files in `folder`.
    pub fn of_process(folder: &Path) -> Scratch {
        Scratch { folder: Some(folder.into()), budget: Budget::of_process() }
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// [`ScratchError`] if they need a file, and the folder has no room for it.
    pub fn zeros<T: ScratchNumber>(&self, len: usize) -> Result<ScratchNumbers<T>, ScratchError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = match (self.budget.reserve(bytes), &self.folder) {
            (None, Some(folder)) => ScratchMemory::File(map_unnamed_file(folder, bytes)?),
            (taken, _) => match (bytes >= LARGE).then(|| map_large_pages(bytes)).flatten() {
                Some(map) => ScratchMemory::Pages(map, taken),
                // SAFETY: all bits zero are a number.
                None => ScratchMemory::Heap(vec![unsafe { std::mem::zeroed() }; len], taken),
            },
        };
        Ok(ScratchNumbers { memory, len, of: PhantomData })
    }
}

/// Memory of so many bytes by itself, in large pages if the system has them; none if it has no room.
fn map_large_pages(bytes: usize) -> Option<MmapMut> {
    let map = MmapMut::map_anon(bytes).ok()?;
    // Without large pages it is as good, if slower to fill.
    let _ = map.advise(Advice::HugePage);
    Some(map)
}

/// Makes an unnamed file of so many bytes in `folder`, with the space reserved.
///
/// # Errors
/// [`ScratchError`] if the folder has no room for it.
pub fn create_unnamed_file(folder: &Path, bytes: usize) -> Result<File, ScratchError> {
    let file =
        tempfile::tempfile_in(folder).map_err(scratch_failure("make a file of", folder, bytes))?;
    reserve_file_space(&file, bytes.max(1)).map_err(scratch_failure("reserve", folder, bytes))?;
    Ok(file)
}

fn map_unnamed_file(folder: &Path, bytes: usize) -> Result<MmapMut, ScratchError> {
    let file = create_unnamed_file(folder, bytes)?;
    // SAFETY: nobody else can open a file without a name.
    unsafe { MmapMut::map_mut(&file) }.map_err(scratch_failure("map", folder, bytes))
}

fn scratch_failure(
    doing: &'static str,
    folder: &Path,
    bytes: usize,
) -> impl FnOnce(io::Error) -> ScratchError {
    let folder = folder.to_owned();
    move |source| ScratchError { doing, bytes, folder, source }
}

/// Gives `file` so many bytes of its own.
fn reserve_file_space(file: &File, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A type for the numbers of a scratch.
///
/// # Safety
/// All bits zero are a value of the type, and it holds no references.
pub unsafe trait ScratchNumber: Copy + Send + Sync + 'static {}

// SAFETY: plain numbers.
unsafe impl ScratchNumber for f32 {}
// SAFETY: plain numbers.
unsafe impl ScratchNumber for f64 {}
// SAFETY: plain numbers.
unsafe impl ScratchNumber for u64 {}
// SAFETY: an array of numbers, for which the same holds.
unsafe impl<T: ScratchNumber, const N: usize> ScratchNumber for [T; N] {}

/// Numbers in a [`Scratch`], as a slice.
pub struct ScratchNumbers<T: ScratchNumber> {
    memory: ScratchMemory<T>,
    len: usize,
    of: PhantomData<T>,
}

enum ScratchMemory<T> {
    /// On the heap; none is counted where nobody counts.
    Heap(Vec<T>, #[expect(dead_code, reason = "held until the numbers go")] Option<Taken>),
    /// The same in pages of its own.
    Pages(MmapMut, #[expect(dead_code, reason = "held until the numbers go")] Option<Taken>),
    File(MmapMut),
}

impl<T: ScratchNumber> Deref for ScratchNumbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            ScratchMemory::Heap(numbers, _) => numbers,
            // SAFETY: the map begins at a page, holds that many, and all its bits were zero or
            // were written as numbers.
            ScratchMemory::File(map) | ScratchMemory::Pages(map, _) => unsafe {
                std::slice::from_raw_parts(map.as_ptr().cast(), self.len)
            },
        }
    }
}

impl<T: ScratchNumber> DerefMut for ScratchNumbers<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            ScratchMemory::Heap(numbers, _) => numbers,
            // SAFETY: as above, and the map is borrowed mutably.
            ScratchMemory::File(map) | ScratchMemory::Pages(map, _) => unsafe {
                std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), self.len)
            },
        }
    }
}

impl<T: ScratchNumber> From<Vec<T>> for ScratchNumbers<T> {
    fn from(numbers: Vec<T>) -> ScratchNumbers<T> {
        ScratchNumbers {
            len: numbers.len(),
            memory: ScratchMemory::Heap(numbers, None),
            of: PhantomData,
        }
    }
}

impl<T: ScratchNumber + PartialEq> PartialEq for ScratchNumbers<T> {
    fn eq(&self, other: &ScratchNumbers<T>) -> bool {
        **self == **other
    }
}

impl<T: ScratchNumber + fmt::Debug> fmt::Debug for ScratchNumbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn what_does_not_fit_in_memory_lies_in_a_file_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path(), 64);
        let few = scratch.zeros::<u64>(8).unwrap();
        assert!(matches!(few.memory, ScratchMemory::Heap(..)));
        let mut more = scratch.zeros::<u64>(1000).unwrap();
        assert!(matches!(more.memory, ScratchMemory::File(_)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(more.iter().all(|&number| number == 0));
        more.iter_mut().enumerate().for_each(|(at, number)| *number = at as u64);
        assert!(more.iter().enumerate().all(|(at, &number)| number == at as u64));
        assert!(matches!(scratch.zeros::<f32>(1).unwrap().memory, ScratchMemory::File(_)));
        drop(few);
        assert!(matches!(scratch.zeros::<[f32; 4]>(4).unwrap().memory, ScratchMemory::Heap(..)));
    }

    #[test]
    fn many_numbers_lie_in_pages_of_their_own_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path(), LARGE);
        let mut numbers = scratch.zeros::<f64>(LARGE / 8).unwrap();
        assert!(matches!(numbers.memory, ScratchMemory::Pages(..)));
        assert!(numbers.iter().all(|&number| number == 0.0));
        numbers[LARGE / 8 - 1] = 1.0;
        assert!(matches!(scratch.zeros::<f32>(1).unwrap().memory, ScratchMemory::File(_)));
        drop(numbers);
        assert!(matches!(scratch.zeros::<f32>(1).unwrap().memory, ScratchMemory::Heap(..)));
    }

    #[test]
    fn a_machine_has_some_memory_free() {
        assert!(Budget::of_process().left() > 0);
        assert!(Arc::ptr_eq(&Budget::of_process(), &Budget::of_process()));
    }

    #[test]
    fn nothing_needs_no_room() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Scratch::in_folder(folder.path(), 0).zeros::<f64>(0).unwrap().is_empty());
        assert!(Scratch::heap().zeros::<f64>(0).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_had_is_an_error_that_names_the_folder() {
        let scratch = Scratch::in_folder(Path::new("/nonexistent/tmp"), 0);
        let error = scratch.zeros::<f32>(8).unwrap_err();
        insta::assert_snapshot!(error, @"cannot make a file of 32 bytes for temporary numbers in /nonexistent/tmp");
        insta::assert_snapshot!(error.hint().unwrap(), @"set REPLAY_CACHE_DIR to a folder on a local disk");
        assert!(error.source().is_some());
    }

    #[test]
    fn a_disk_that_is_too_small_is_found_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        // More than any disk has.
        let error = Scratch::in_folder(folder.path(), 0).zeros::<u64>(1 << 56).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot reserve 576460752303423488 bytes"),
            "{error}"
        );
    }
}
