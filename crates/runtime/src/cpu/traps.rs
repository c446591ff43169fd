//! Traps for launch arguments that point to host memory. Kernels get addresses whose use ends the replay, as the use
//! of host addresses would on a GPU. An unused argument does no harm.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::ArgumentKind;

/// One argument of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchArgument {
    /// Its entry in the launch's list of argument addresses.
    pub place: *mut *mut c_void,
    /// Its size in bytes.
    pub bytes: usize,
    pub kind: ArgumentKind,
}

/// Traps of one launch.
const COUNT: usize = 8;
/// Bytes around the address of a trap, as parts of it.
const BYTES: usize = 16 << 20;
/// The most inspected words of a class.
const MOST_WORDS: usize = 64;

/// Where a pointer of the host leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostSegment {
    Stack,
    Heap,
    Variable,
}

impl HostSegment {
    const ALL: [HostSegment; 3] = [HostSegment::Stack, HostSegment::Heap, HostSegment::Variable];

    fn describe(self) -> &'static str {
        match self {
            HostSegment::Stack => "a variable on the stack of host code",
            HostSegment::Heap => "memory that host code allocated",
            HostSegment::Variable => "a variable or constant of host code",
        }
    }
}

/// For each trap the argument from 1 and, from bit 8 up, the number of its home; 0 if it is unused.
static TRAPS: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// The address of the traps, from their first use on.
static BASE: OnceLock<Option<usize>> = OnceLock::new();

fn trap_base() -> Option<usize> {
    *BASE.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: addresses without memory, at a place of the system's choice.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), COUNT * BYTES, libc::PROT_NONE, flags, -1, 0)
        };
        (map != libc::MAP_FAILED).then_some(map as usize)
    })
}

/// Replaces pointers to host memory in `arguments` by traps; `is_device` knows the pointers that stay.
///
/// # Safety
/// The arguments must be as large as they say, and belong to this launch alone.
pub(super) unsafe fn set_traps(arguments: &[LaunchArgument], is_device: impl Fn(usize) -> bool) {
    TRAPS.iter().for_each(|trap| trap.store(0, Ordering::Relaxed));
    let mut maps = None;
    let mut used = 0;
    let mut trap = |number: usize, pointer: usize, only_stack: bool| {
        if pointer < 4096 || is_device(pointer) {
            return None;
        }
        let home = find_host_segment(maps.get_or_insert_with(read_maps), pointer)?;
        if used == COUNT || only_stack && home != HostSegment::Stack {
            return None;
        }
        let address = trap_base()? + used * BYTES + BYTES / 2 + pointer % 4096;
        let tag = (home as u32) << 8 | (number as u32 + 1).min(255);
        TRAPS[used].store(tag, Ordering::Relaxed);
        used += 1;
        Some(address)
    };
    for (number, argument) in arguments.iter().enumerate() {
        match argument.kind {
            ArgumentKind::Value => {}
            // SAFETY: promised by the caller.
            ArgumentKind::Reference => unsafe {
                if let Some(address) = trap(number, *argument.place as usize, false) {
                    *argument.place = address as *mut c_void;
                }
            },
            ArgumentKind::Pointer | ArgumentKind::Class => {
                let words = (argument.bytes / size_of::<usize>()).min(MOST_WORDS);
                for word in 0..words {
                    // A number in a class may look like an address of the heap.
                    let only_stack = argument.kind == ArgumentKind::Class;
                    // SAFETY: the argument has that many words; they need not be aligned.
                    unsafe {
                        let place = (*argument.place).cast::<usize>().add(word);
                        if let Some(address) = trap(number, place.read_unaligned(), only_stack) {
                            place.write_unaligned(address);
                        }
                    }
                }
            }
        }
    }
}

/// Names the argument of the trap at `address`, if there is one. Called from a signal handler: neither waits nor
/// allocates.
pub(super) fn describe_trap(address: usize, out: &mut dyn Write) -> bool {
    let Some(base) = BASE.get().copied().flatten() else { return false };
    let Some(trap) = address.checked_sub(base).and_then(|offset| TRAPS.get(offset / BYTES)) else {
        return false;
    };
    let tag = trap.load(Ordering::Relaxed);
    let Some(home) = HostSegment::ALL.get(tag as usize >> 8).filter(|_| tag != 0) else {
        return false;
    };
    let number = tag & 255;
    let home = home.describe();
    let _ = write!(out, "argument {number} points to {home}, which a GPU cannot reach");
    true
}

/// One line of the system's list of mappings.
struct Mapping {
    begin: usize,
    end: usize,
    home: HostSegment,
}

fn read_maps() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(parse_maps_line).collect()
}

/// The mapping of a line such as `7f..-7f.. rw-p 00000000 00:00 0 [heap]`, if it can be read.
fn parse_maps_line(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let readable = words.next()?.starts_with('r');
    let home = match words.nth(3) {
        Some("[stack]") => HostSegment::Stack,
        None | Some("[heap]") => HostSegment::Heap,
        Some(_) => HostSegment::Variable,
    };
    let begin = parse_hexadecimal(begin)?;
    let end = parse_hexadecimal(end)?;
    readable.then_some(Mapping { begin, end, home })
}

fn parse_hexadecimal(text: &str) -> Option<usize> {
    usize::from_str_radix(text, 16).ok()
}

fn find_host_segment(maps: &[Mapping], address: usize) -> Option<HostSegment> {
    maps.iter().find(|map| (map.begin..map.end).contains(&address)).map(|map| map.home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_tell_the_host_s_memory_apart() {
        let told = |line| parse_maps_line(line).map(|map| (map.begin, map.home));
        assert_eq!(
            told("1000-2000 rw-p 00000000 00:00 0   [stack]"),
            Some((0x1000, HostSegment::Stack))
        );
        assert_eq!(
            told("1000-2000 rw-p 00000000 00:00 0   [heap]"),
            Some((0x1000, HostSegment::Heap))
        );
        assert_eq!(told("1000-2000 rw-p 00000000 00:00 0"), Some((0x1000, HostSegment::Heap)));
        assert_eq!(
            told("1000-2000 r--p 00000000 00:00 7 /x/a.so"),
            Some((0x1000, HostSegment::Variable))
        );
        assert_eq!(told("1000-2000 ---p 00000000 00:00 0"), None);
    }

    #[test]
    fn a_pointer_to_the_host_s_memory_is_replaced_and_described() {
        let value = 7u32;
        let mut pointer: *const u32 = &raw const value;
        let mut place: *mut c_void = (&raw mut pointer).cast();
        let argument = |place: &mut *mut c_void| LaunchArgument {
            place,
            bytes: 8,
            kind: ArgumentKind::Pointer,
        };
        // SAFETY: the argument is a pointer, as it says.
        unsafe { set_traps(&[argument(&mut place)], |_| true) };
        assert_eq!(pointer, &raw const value);
        // SAFETY: as above.
        unsafe { set_traps(&[argument(&mut place)], |_| false) };
        assert_ne!(pointer, &raw const value);
        assert_eq!(pointer as usize % 4096, &raw const value as usize % 4096);
        let mut text = String::new();
        assert!(describe_trap(pointer as usize + 4, &mut text));
        assert!(text.starts_with("argument 1 points to "), "{text}");
        assert!(!describe_trap(&raw const value as usize, &mut text));
    }
}
