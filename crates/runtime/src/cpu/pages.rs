//! The pages of an allocation: reserved between guards, and filled with memory of their own, with a file, or
//! with a poison until its first write.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, fcntl_get_seals, memfd_create};

use super::fiber::page_bytes;
use replay_base::summary::Poison;
use replay_base::tensor::parallel;

/// CUDA's alignment of an allocation.
pub(super) const ALIGNMENT: usize = 256;

/// The body of an allocation.
#[derive(Clone, Copy)]
pub(super) struct PageBody<'f> {
    /// Its file and the offset there, for all [`pages_of`] the bytes. None for memory of its own.
    pub place: Option<(&'f File, usize)>,
    /// Its first contents; none for anything.
    pub fill: Option<Poison>,
}

impl PageBody<'_> {
    /// Memory of its own, filled with `poison`.
    pub(super) fn filled(poison: Poison) -> PageBody<'static> {
        PageBody { place: None, fill: Some(poison) }
    }

    /// Puts `body` bytes of memory at the reserved `pages`, by up to `threads` threads.
    pub(super) fn lay(self, pages: usize, body: usize, threads: usize) -> io::Result<()> {
        let page_pointer = pages as *mut libc::c_void;
        match self.place {
            None => {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: the pages were reserved just now, and nobody else knows of them.
                if unsafe { libc::mprotect(page_pointer, body, access) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Some((file, offset)) => map_pages_at(pages, body, file, offset, libc::MAP_SHARED)?,
        }
        ask_for_large(pages, body);
        // All pages are written soon. Shared memory is writable where it is readable, and the system maps many pages
        // at a time for reading.
        let is_populated = body >= HUGE_PAGE && self.place.is_some_and(|(file, _)| is_memory(file));
        if !is_populated && self.fill.is_none() {
            return Ok(());
        }
        // SAFETY: the pages were mapped just now, and nobody else knows of them.
        let body_bytes = unsafe { std::slice::from_raw_parts_mut(pages as *mut u8, body) };
        parallel::fill_in_parallel(threads, body_bytes, HUGE_PAGE, 1, |_, part| {
            // The zeros of new pages are still in the processor's cache while the poison is written over them.
            for stretch in part.chunks_mut(HUGE_PAGE) {
                if is_populated {
                    populate_pages(stretch.as_mut_ptr() as usize, stretch.len());
                }
                if let Some(poison) = self.fill {
                    poison.fill(stretch);
                }
            }
        });
        Ok(())
    }
}

/// Makes `body` bytes at `pages` show those of `file` from `offset` on. Writes to them do not reach the file.
pub(super) fn map_file_privately(
    pages: usize,
    body: usize,
    file: &File,
    offset: usize,
) -> io::Result<()> {
    map_pages_at(pages, body, file, offset, libc::MAP_PRIVATE)?;
    ask_for_large(pages, body);
    if body >= HUGE_PAGE && is_memory(file) {
        populate_pages(pages, body);
    }
    Ok(())
}

/// Asks for large pages for `body` bytes at `pages`, if they are so many.
fn ask_for_large(pages: usize, body: usize) {
    if body >= HUGE_PAGE {
        // SAFETY: callers pass newly mapped pages, and nobody else knows of them. A system without
        // large pages takes small ones.
        unsafe { libc::madvise(pages as *mut libc::c_void, body, libc::MADV_HUGEPAGE) };
    }
}

/// Has all pages of `bytes` at `pages` there at once: one call for them takes less time than a fault for each.
fn populate_pages(pages: usize, bytes: usize) {
    // SAFETY: as above. Without this call the pages fault one by one.
    unsafe { libc::madvise(pages as *mut libc::c_void, bytes, libc::MADV_POPULATE_READ) };
}

/// Whether `file` lies in memory.
fn is_memory(file: &File) -> bool {
    // Memory has seals, files on a disk have none.
    fcntl_get_seals(file).is_ok()
}

/// The system's large pages, where it has them.
const HUGE_PAGE: usize = 2 << 20;

/// The alignment for pages of `body` bytes: content at the begin of a large page needs the fewest.
pub(super) fn place_for(body: usize) -> usize {
    if body >= HUGE_PAGE { HUGE_PAGE } else { page_bytes() }
}

/// Takes the memory of `body` bytes at `pages` away: they cannot be touched from here on.
pub(super) fn lay_nothing(pages: usize, body: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: replaces the pages of a dropped allocation, at the same place.
    unsafe { libc::mmap(pages as *mut libc::c_void, body, libc::PROT_NONE, flags, -1, 0) };
}

/// Reserves `map_bytes` of untouchable memory. The memory behind a `guard` of so many bytes begins at a
/// large page, if the `body` there is large.
pub(super) fn reserve_guarded_pages(
    map_bytes: usize,
    guard: usize,
    body: usize,
) -> io::Result<usize> {
    let spare = if body >= HUGE_PAGE { HUGE_PAGE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address of the system's choice, whose ends are given back.
    unsafe {
        let mapped_bytes = map_bytes + spare;
        let map = libc::mmap(std::ptr::null_mut(), mapped_bytes, libc::PROT_NONE, flags, -1, 0);
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let aligned_begin = match spare {
            0 => map as usize,
            _ => (map as usize + guard).next_multiple_of(HUGE_PAGE) - guard,
        };
        let bytes_before = aligned_begin - map as usize;
        let bytes_behind = map as usize + spare - aligned_begin;
        if bytes_before > 0 {
            libc::munmap(map, bytes_before);
        }
        if bytes_behind > 0 {
            libc::munmap((aligned_begin + map_bytes) as *mut libc::c_void, bytes_behind);
        }
        Ok(aligned_begin)
    }
}

/// Maps `bytes` of `file` from `offset` on at the reserved `pages`.
fn map_pages_at(
    pages: usize,
    bytes: usize,
    file: &File,
    offset: usize,
    sharing: i32,
) -> io::Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = sharing | libc::MAP_FIXED;
    let destination = pages as *mut libc::c_void;
    let file = file.as_raw_fd();
    // SAFETY: replaces pages reserved for it; nobody uses them yet.
    match unsafe { libc::mmap(destination, bytes, access, flags, file, offset as i64) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The most mappings of [`repeat_poison`].
const MOST_PARTS: usize = 256;

/// Makes `body` bytes at `pages` show `poison`, by mapping the same few pages over and over. Each write is seen in
/// its place alone.
pub(super) fn repeat_poison(pages: usize, body: usize, poison: Poison) -> io::Result<()> {
    let part = body.div_ceil(MOST_PARTS).next_multiple_of(HUGE_PAGE).min(body);
    let mut file = File::from(memfd_create(c"poison", MemfdFlags::CLOEXEC)?);
    let mut pattern = vec![0; part];
    poison.fill(&mut pattern);
    file.write_all(&pattern)?;
    (0..body).step_by(part).try_for_each(|part_begin| {
        map_pages_at(pages + part_begin, part.min(body - part_begin), &file, 0, libc::MAP_PRIVATE)
    })
}

/// The bytes of the pages of an allocation of `bytes`, and its offset in them.
pub fn pages_of(bytes: usize) -> (usize, usize) {
    let body = bytes.next_multiple_of(page_bytes());
    (body, body - bytes.next_multiple_of(ALIGNMENT).min(body))
}

/// The offset in `begin..end` of the first byte unlike the poison; `phase` is the position
/// in the pattern of the byte at `begin`.
pub(super) fn first_change(
    poison: Poison,
    begin: usize,
    end: usize,
    phase: usize,
) -> Option<usize> {
    // SAFETY: callers pass parts of the pages of a live allocation.
    let slack = unsafe { std::slice::from_raw_parts(begin as *const u8, end - begin) };
    let pattern = rotate_poison(poison, phase).pattern;
    let words = slack.chunks(pattern.len()).position(|word| *word != pattern[..word.len()])?;
    let place = words * pattern.len();
    let byte = slack[place..].iter().zip(pattern).position(|(&byte, value)| byte != value)?;
    Some(place + byte)
}

/// `poison` from byte number `phase` on.
fn rotate_poison(poison: Poison, phase: usize) -> Poison {
    let mut pattern = poison.pattern;
    pattern.rotate_left(phase % poison.pattern.len());
    Poison { pattern }
}

/// Repeats the pattern of `poison` over `bytes` at `address`.
///
/// # Safety
/// The memory must be mapped, and nobody else may use it.
pub(super) unsafe fn fill_with_poison(poison: Poison, address: usize, bytes: usize) {
    // SAFETY: promised by the caller.
    poison.fill(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) });
}

/// Writes the pattern of `poison` from `begin` to `end`, the byte at `begin` being number `phase` of it.
///
/// # Safety
/// As [`fill_with_poison`].
pub(super) unsafe fn fill_from(poison: Poison, begin: usize, end: usize, phase: usize) {
    // SAFETY: promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts_mut(begin as *mut u8, end - begin) };
    rotate_poison(poison, phase).fill(bytes);
}
