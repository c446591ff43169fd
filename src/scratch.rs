//! Memory for per-element numbers: on the heap while they are few, else in unnamed mapped files,
//! whose pages the system can write out and reclaim.
//!
//! The space in a file is reserved before use, so that a full disk is an error here and not a
//! signal later.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::MmapMut;

/// The most heap bytes for the numbers of one scratch.
pub(crate) const HEAP_BYTES: usize = 128 << 20;

/// The error for memory that the machine lacks.
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

/// Where numbers are kept.
#[derive(Clone, Debug)]
pub struct Scratch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// None where all numbers lie on the heap.
    folder: Option<PathBuf>,
    heap_bytes: usize,
    used: AtomicUsize,
}

impl Scratch {
    /// All numbers on the heap, however many.
    pub fn heap() -> Scratch {
        Scratch::new(None, usize::MAX)
    }

    /// Up to `heap_bytes` on the heap, the others in files in `folder`.
    pub fn in_folder(folder: &Path, heap_bytes: usize) -> Scratch {
        Scratch::new(Some(folder.to_owned()), heap_bytes)
    }

    fn new(folder: Option<PathBuf>, heap_bytes: usize) -> Scratch {
        Scratch { shared: Arc::new(Shared { folder, heap_bytes, used: AtomicUsize::new(0) }) }
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// [`ScratchError`] if they need a file, and the folder has no room for it.
    pub fn zeros<T: Number>(&self, len: usize) -> Result<Numbers<T>, ScratchError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = match &self.shared.folder {
            Some(folder) if !self.shared.take(bytes) => Memory::File(mapped(folder, bytes)?),
            // SAFETY: all bits zero are a number.
            Some(_) => Memory::Heap(vec![unsafe { std::mem::zeroed() }; len], self.shared.clone()),
            // SAFETY: as above.
            None => Memory::Free(vec![unsafe { std::mem::zeroed() }; len]),
        };
        Ok(Numbers { memory, len, of: PhantomData })
    }
}

impl Shared {
    /// Whether that many more bytes may lie on the heap; if so, counts them.
    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|&used| used <= self.heap_bytes);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// Makes an unnamed file of that many bytes in `folder`, with the space reserved.
///
/// # Errors
/// [`ScratchError`] if the folder has no room for it.
pub fn file(folder: &Path, bytes: usize) -> Result<File, ScratchError> {
    let file = tempfile::tempfile_in(folder).map_err(failed("make a file of", folder, bytes))?;
    reserve(&file, bytes.max(1)).map_err(failed("reserve", folder, bytes))?;
    Ok(file)
}

fn mapped(folder: &Path, bytes: usize) -> Result<MmapMut, ScratchError> {
    let file = file(folder, bytes)?;
    // SAFETY: nobody else can open a file without a name.
    unsafe { MmapMut::map_mut(&file) }.map_err(failed("map", folder, bytes))
}

fn failed(
    doing: &'static str,
    folder: &Path,
    bytes: usize,
) -> impl FnOnce(io::Error) -> ScratchError {
    let folder = folder.to_owned();
    move |source| ScratchError { doing, bytes, folder, source }
}

/// Gives `file` that many bytes of its own.
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A type that a scratch can hold.
///
/// # Safety
/// All bits zero are a value of the type, and it holds no references.
pub unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: plain numbers.
unsafe impl Number for f32 {}
// SAFETY: plain numbers.
unsafe impl Number for f64 {}
// SAFETY: plain numbers.
unsafe impl Number for u64 {}
// SAFETY: an array of numbers, for which the same holds.
unsafe impl<T: Number, const N: usize> Number for [T; N] {}

/// Numbers in a [`Scratch`], as a slice.
pub struct Numbers<T: Number> {
    memory: Memory<T>,
    len: usize,
    of: PhantomData<T>,
}

enum Memory<T> {
    /// On the heap, and nobody counts.
    Free(Vec<T>),
    /// On the heap, counted there.
    Heap(Vec<T>, Arc<Shared>),
    File(MmapMut),
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        if let Memory::Heap(numbers, shared) = self {
            shared.used.fetch_sub(numbers.len() * size_of::<T>(), Ordering::Relaxed);
        }
    }
}

impl<T: Number> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Free(numbers) | Memory::Heap(numbers, _) => numbers,
            // SAFETY: the map begins at a page, holds that many, and all its bits were zero or
            // were written as numbers.
            Memory::File(map) => unsafe {
                std::slice::from_raw_parts(map.as_ptr().cast(), self.len)
            },
        }
    }
}

impl<T: Number> DerefMut for Numbers<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Free(numbers) | Memory::Heap(numbers, _) => numbers,
            // SAFETY: as above, and the map is borrowed mutably.
            Memory::File(map) => unsafe {
                std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), self.len)
            },
        }
    }
}

impl<T: Number> From<Vec<T>> for Numbers<T> {
    fn from(numbers: Vec<T>) -> Numbers<T> {
        Numbers { len: numbers.len(), memory: Memory::Free(numbers), of: PhantomData }
    }
}

impl<T: Number + PartialEq> PartialEq for Numbers<T> {
    fn eq(&self, other: &Numbers<T>) -> bool {
        **self == **other
    }
}

impl<T: Number + fmt::Debug> fmt::Debug for Numbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn what_does_not_fit_on_the_heap_lies_in_a_file_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path(), 64);
        let few = scratch.zeros::<u64>(8).unwrap();
        assert!(matches!(few.memory, Memory::Heap(..)));
        let mut more = scratch.zeros::<u64>(1000).unwrap();
        assert!(matches!(more.memory, Memory::File(_)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(more.iter().all(|&number| number == 0));
        more.iter_mut().enumerate().for_each(|(at, number)| *number = at as u64);
        assert!(more.iter().enumerate().all(|(at, &number)| number == at as u64));
        assert!(matches!(scratch.zeros::<f32>(1).unwrap().memory, Memory::File(_)));
        drop(few);
        assert!(matches!(scratch.zeros::<[f32; 4]>(4).unwrap().memory, Memory::Heap(..)));
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
