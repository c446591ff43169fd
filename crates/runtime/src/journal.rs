//! The memory of a child's account, shared with the later reader's process.
//!
//! The account survives any end of the child. It needs no descriptor, so replayed code can neither close it nor write
//! to it, and it cannot grow. Each entry carries its length and a checksum over its number and its text: stray stores
//! of replayed code are not taken for entries. An adversary in the same address space can forge entries: this is
//! against accidents.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The bytes of a journal, unless files must be smaller.
pub const BYTES: usize = 4 << 20;
/// The fewest bytes of a journal.
pub const LEAST_BYTES: usize = 64 << 10;

/// The offset of the first entry, behind the head.
const FIRST: usize = 4096;
/// The most bytes of a last word.
const LAST_WORD: usize = FIRST - size_of::<JournalHead>();
/// One part in this many, the last, is reserved for entries about the end of the replay.
const FOR_THE_END: usize = 16;
/// One part in this many, before it, is reserved for failed launches.
const FOR_FAILURES: usize = 8;

const CHECKSUM: usize = 16;
/// The length of an entry, then its checksum.
const ENTRY_HEAD: usize = 4 + CHECKSUM;
/// The number of the last word.
const LAST_NUMBER: u64 = u64::MAX;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const WRITTEN: u32 = 2;

/// The start of the memory.
#[repr(C)]
struct JournalHead {
    /// Bytes of all complete entries.
    entries: AtomicU32,
    last_state: AtomicU32,
    last_length: AtomicU32,
    last_checksum: [u8; CHECKSUM],
}

/// The importance of an entry; when room becomes scarce, the less important are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It only adds detail.
    Ordinary,
    /// Something went wrong.
    Failure,
    /// How it ended.
    Ending,
}

impl Weight {
    /// Where entries of this weight must end in a journal of `bytes` bytes.
    fn room(self, bytes: usize) -> usize {
        match self {
            Weight::Ordinary => bytes - bytes / FOR_THE_END - bytes / FOR_FAILURES,
            Weight::Failure => bytes - bytes / FOR_THE_END,
            Weight::Ending => bytes,
        }
    }
}

/// The child's side.
pub struct Journal {
    map: *mut u8,
    bytes: usize,
    /// The writing process: its forks do not have the memory.
    owner: libc::pid_t,
    next: Mutex<Next>,
}

// SAFETY: the memory stays mapped; shared parts of it are written under the lock, or once.
unsafe impl Send for Journal {}
// SAFETY: as above.
unsafe impl Sync for Journal {}

struct Next {
    end: usize,
    number: u64,
}

impl Journal {
    /// The journal in `file`, all of it.
    ///
    /// # Errors
    /// If the system has no room for it in this process.
    pub fn open(file: &File) -> io::Result<Journal> {
        let bytes = file.metadata()?.len() as usize;
        if bytes < LEAST_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = map_unforked_memory(file, bytes)?;
        let next = Mutex::new(Next { end: FIRST, number: 0 });
        Ok(Journal { map, bytes, owner: std::process::id() as libc::pid_t, next })
    }

    fn is_owner(&self) -> bool {
        // SAFETY: asks for a number.
        unsafe { libc::getpid() == self.owner }
    }

    fn head(&self) -> &JournalHead {
        // SAFETY: the mapping begins with it, at a page, and stays.
        unsafe { &*self.map.cast::<JournalHead>() }
    }

    /// Adds an entry; false where there is no room for it.
    pub fn write(&self, text: &[u8], weight: Weight) -> bool {
        if !self.is_owner() {
            return true;
        }
        let mut next = self.next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let end = next.end + ENTRY_HEAD + text.len();
        if end > weight.room(self.bytes) {
            return false;
        }
        let checksum = entry_checksum(next.number, text);
        // SAFETY: the entry lies within the mapping, behind all others, and the lock is held.
        unsafe {
            let entry_pointer = self.map.add(next.end);
            entry_pointer.cast::<[u8; 4]>().write((text.len() as u32).to_le_bytes());
            entry_pointer.add(4).cast::<[u8; CHECKSUM]>().write(checksum);
            entry_pointer.add(ENTRY_HEAD).copy_from(text.as_ptr(), text.len());
        }
        *next = Next { end, number: next.number + 1 };
        self.head().entries.store((end - FIRST) as u32, Ordering::Release);
        true
    }

    /// Writes why the process ends now, if nobody has. May be called from a signal handler. If
    /// another thread is writing its own, waits for the process to end.
    pub(crate) fn write_last(&self, text: &[u8]) {
        if !self.is_owner() {
            return;
        }
        let head = self.head();
        let claim =
            head.last_state.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Acquire);
        if claim.is_err() {
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
        let text = &text[..text.len().min(LAST_WORD)];
        let checksum = entry_checksum(LAST_NUMBER, text);
        // SAFETY: the head and the room behind it are this thread's, since it was the first to claim them.
        unsafe {
            (&raw mut (*self.map.cast::<JournalHead>()).last_checksum).write(checksum);
            self.map.add(size_of::<JournalHead>()).copy_from(text.as_ptr(), text.len());
        }
        head.last_length.store(text.len() as u32, Ordering::Release);
        head.last_state.store(WRITTEN, Ordering::Release);
    }
}

/// Notes in `file`, for good, that the process is ready. If the process ends later without a word,
/// the code is the cause. A seal is never taken away.
///
/// # Errors
/// If the file is no memory, or cannot be sealed.
pub fn begin_journal(file: &File) -> io::Result<()> {
    // SAFETY: changes the seals of the descriptor's memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SEAL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the writer of `file` was ready.
pub fn has_begun(file: &File) -> bool {
    // SAFETY: asks for the seals of the descriptor's memory.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SEAL != 0
}

/// The entries of the journal in `file` whose checksums are right, in order, and the last word.
///
/// # Errors
/// If the file cannot be read.
pub fn read_journal_file(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut head = vec![0; FIRST];
    file.read_exact_at(&mut head, 0)?;
    let most_bytes = file.metadata()?.len().saturating_sub(FIRST as u64);
    let length = u64::from(head_word(&head, 0)).min(most_bytes) as usize;
    let mut text = vec![0; length];
    file.read_exact_at(&mut text, FIRST as u64)?;
    let mut entries = Vec::new();
    let mut remaining_text = text.as_slice();
    while let Some((entry, following_text)) = split_journal_entry(remaining_text) {
        let (entry_tag, entry) = entry;
        if entry_tag != entry_checksum(entries.len() as u64, entry) {
            break;
        }
        entries.push(entry.to_vec());
        remaining_text = following_text;
    }
    let last =
        head.get(size_of::<JournalHead>()..size_of::<JournalHead>() + head_word(&head, 8) as usize);
    if head_word(&head, 4) == WRITTEN
        && let Some(last) = last
        && head[12..12 + CHECKSUM] == entry_checksum(LAST_NUMBER, last)
    {
        entries.push(last.to_vec());
    }
    Ok(entries)
}

/// The word at `offset` of the bytes of a [`JournalHead`].
fn head_word(head: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(head[offset..offset + 4].try_into().expect("four bytes"))
}

type JournalEntry<'t> = (&'t [u8], &'t [u8]);

fn split_journal_entry(text: &[u8]) -> Option<(JournalEntry<'_>, &[u8])> {
    let (length, text) = text.split_first_chunk::<4>()?;
    let (checksum, text) = text.split_at_checked(CHECKSUM)?;
    let (entry, following_text) = text.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(((checksum, entry), following_text))
}

fn entry_checksum(number: u64, text: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(text);
    let hash = hasher.finalize();
    *hash.as_bytes().first_chunk().expect("a hash is longer")
}

/// The memory of `file`; forks of this process do not have it.
fn map_unforked_memory(file: &File, bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let descriptor = file.as_raw_fd();
    // SAFETY: a new mapping at an address of the kernel's choice, whose pages this process alone writes.
    unsafe {
        let null = std::ptr::null_mut();
        let map = libc::mmap(null, bytes, access, libc::MAP_SHARED, descriptor, 0);
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::madvise(map, bytes, libc::MADV_DONTFORK);
        Ok(map.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        file
    }

    fn texts(file: &File) -> Vec<String> {
        let entries = read_journal_file(file).unwrap();
        entries.into_iter().map(|entry| String::from_utf8(entry).unwrap()).collect()
    }

    #[test]
    fn what_was_written_is_read_in_order_and_the_last_word_last() {
        let file = memory();
        assert!(texts(&file).is_empty());
        let journal = Journal::open(&file).unwrap();
        journal.write_last(b"an end");
        assert!(journal.write(b"one", Weight::Ordinary));
        assert!(journal.write(b"", Weight::Ending));
        assert!(journal.write(b"two", Weight::Failure));
        assert_eq!(texts(&file), ["one", "", "two", "an end"]);
    }

    #[test]
    fn what_was_written_over_is_not_believed() {
        let file = memory();
        let journal = Journal::open(&file).unwrap();
        journal.write(b"true", Weight::Ordinary);
        journal.write(b"lost", Weight::Ordinary);
        journal.write_last(b"done");
        let end = ENTRY_HEAD + 4;
        file.write_all_at(b"x", (FIRST + end + ENTRY_HEAD) as u64).unwrap();
        assert_eq!(texts(&file), ["true", "done"]);
        // An entry that is repeated has another number.
        let mut entry = vec![0; end];
        file.read_exact_at(&mut entry, FIRST as u64).unwrap();
        file.write_all_at(&entry, (FIRST + end) as u64).unwrap();
        file.write_all_at(b"x", size_of::<JournalHead>() as u64).unwrap();
        assert_eq!(texts(&file), ["true"]);
    }

    #[test]
    fn lengths_that_make_no_sense_are_read_no_further() {
        let file = memory();
        Journal::open(&file).unwrap().write(b"true", Weight::Ordinary);
        let garbage = vec![0xff; FIRST];
        file.write_all_at(&garbage, 0).unwrap();
        assert_eq!(texts(&file), ["true"]);
        file.write_all_at(&vec![0xff; BYTES - FIRST], FIRST as u64).unwrap();
        assert!(texts(&file).is_empty());
    }

    #[test]
    fn the_end_has_room_however_much_was_written_before() {
        let file = memory();
        let journal = Journal::open(&file).unwrap();
        let text = vec![b'x'; 60_000];
        let count = |weight| (0..).take_while(|_| journal.write(&text, weight)).count();
        assert!(count(Weight::Ordinary) > 50);
        assert!(count(Weight::Failure) > 5);
        assert!(!journal.write(&text, Weight::Failure));
        assert!(journal.write(b"done", Weight::Ending));
        assert_eq!(texts(&file).last().unwrap(), "done");
    }

    #[test]
    fn of_several_last_words_the_first_counts() {
        let file = memory();
        let journal = Journal::open(&file).unwrap();
        journal.write_last(&[b'x'; 10_000]);
        journal.write_last(b"late");
        assert_eq!(texts(&file), ["x".repeat(LAST_WORD)]);
    }
}
