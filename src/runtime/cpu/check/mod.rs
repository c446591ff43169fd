//! Checked replays: every access of device code is held against those before it, so that races, reads of
//! what nobody wrote and accesses beside allocations are told exactly, for this input.
//!
//! A checked build calls `access` before each access to memory that other threads may see; the
//! engine says what orders threads. Blocks run one after the other on one operating-system thread,
//! so the checker is that thread's. Without a checker everything here does nothing.
#![allow(unsafe_code)]

mod cells;
mod checker;
mod clocks;
mod image;
mod lines;
mod packed;
mod regions;
mod state;
mod streams;

use std::cell::RefCell;
use std::ffi::c_void;
use std::path::Path;

use self::cells::Touch;
use self::checker::Checker;
use self::checker::findings::{At, Finding, Kind, Spot};
use self::lines::Lines;
use super::block::running::{linear_thread, place};
use super::shape::Shape;
use crate::runtime::abi::Site;
use crate::runtime::report::{Findings, Found, FoundKind, FoundSpot, Report};

thread_local! {
    static CHECKER: RefCell<Option<Box<Checker>>> = const { RefCell::new(None) };
}

/// Does `work` with the checker, if this replay is a checked one.
#[inline]
fn with(work: impl FnOnce(&mut Checker)) {
    CHECKER.with_borrow_mut(|checker| {
        if let Some(checker) = checker {
            work(checker);
        }
    });
}

/// Checks what this operating-system thread runs from now on: the artifact at `path`, whose blocks
/// have the shared memory `shared`; device memory and what is remembered of it take at most `limit` bytes.
pub fn start(path: &Path, shared: std::ops::Range<usize>, limit: usize) {
    let base = image::base(path).unwrap_or(0);
    let mut checker = Checker::new(path, base, shared, limit);
    for (begin, end) in image::variables(path) {
        checker.add(begin, end - begin, "a variable of the sources", true, 0..0);
        // The host's own are among them.
        checker.managed(begin, end - begin);
    }
    CHECKER.set(Some(Box::new(checker)));
}

/// Whether this replay is a checked one.
pub fn runs() -> bool {
    CHECKER.with_borrow(Option::is_some)
}

/// Device memory of `bytes` at `begin` is there; accesses to `reach` around it belong to it.
pub fn allocated(begin: usize, bytes: usize, label: &str, reach: std::ops::Range<usize>) {
    with(|checker| checker.add(begin, bytes, label, false, reach));
}

/// The device memory at `begin` is freed.
pub fn freed(begin: usize) {
    with(|checker| checker.remove(begin));
}

/// Host code may touch the memory at `address` too, and nobody tells what it writes there.
pub fn managed(address: usize, bytes: usize) {
    with(|checker| checker.managed(address, bytes));
}

/// An input of `bytes` lies at `address`.
pub fn input(address: usize, bytes: usize) {
    with(|checker| checker.input(address, bytes));
}

/// `bytes` are copied in the order of `stream`.
pub fn copied(to: usize, from: usize, bytes: usize, stream: *mut c_void) {
    let touched = [(from, Touch::Read), (to, Touch::Write)];
    with(|checker| checker.transfer("a copy", stream as usize, bytes, &touched));
}

/// `bytes` at `to` are set in the order of `stream`.
pub fn filled(to: usize, bytes: usize, stream: *mut c_void) {
    let touched = [(to, Touch::Write)];
    with(|checker| checker.transfer("a fill", stream as usize, bytes, &touched));
}

/// A stream was made that neither waits for the default stream nor that for it.
pub fn made_non_blocking(stream: *mut c_void) {
    with(|checker| checker.streams.set_non_blocking(stream as usize));
}

/// The host has waited for `stream`, or for all if it is null.
pub fn synchronized(stream: *mut c_void) {
    let stream = (!stream.is_null()).then_some(stream as usize);
    with(|checker| checker.streams.synchronize(stream));
}

/// `event` was recorded in `stream`.
pub fn recorded(event: *mut c_void, stream: *mut c_void) {
    with(|checker| checker.streams.record(event as usize, stream as usize));
}

/// `stream` waits for `event`.
pub fn waits(stream: *mut c_void, event: *mut c_void) {
    with(|checker| checker.streams.wait(stream as usize, event as usize));
}

/// The host has waited for `event`.
pub fn waited(event: *mut c_void) {
    with(|checker| checker.streams.wait_on_host(event as usize));
}

/// A launch of `kernel` in `stream` begins.
pub fn begin_launch(kernel: &'static str, shape: Shape, stream: *mut c_void) {
    with(|checker| checker.begin_launch(kernel, shape, stream as usize));
}

/// The launch has ended.
pub fn end_launch() {
    with(Checker::end_launch);
}

/// The block with linear index `block` begins, with dynamic shared memory at `dynamic`.
pub fn begin_block(block: u64, index: [u32; 3], dynamic: std::ops::Range<usize>) {
    with(|checker| checker.begin_block(block as u32, index, dynamic));
}

/// The block that runs has a static variable at `range`, in shared memory that is all its own.
pub fn shared(range: std::ops::Range<usize>, all: std::ops::Range<usize>) {
    with(|checker| checker.share(range, all));
}

/// Blocks that are alive at once begin.
pub fn begin_together() {
    with(Checker::begin_together);
}

/// One of them begins: see [`begin_block`].
pub fn begin_block_among(
    block: u32,
    index: [u32; 3],
    dynamic: std::ops::Range<usize>,
    all: std::ops::Range<usize>,
) {
    with(|checker| checker.begin_block_among(block, index, dynamic, all));
}

/// The one that runs has paused.
pub fn pause_block(block: u32) {
    with(|checker| checker.pause_block(block));
}

/// These have all come to a barrier of the grid or of their cluster.
pub fn meet(blocks: impl Iterator<Item = u32>) {
    with(|checker| checker.meet(blocks));
}

/// One of them goes on behind the barrier.
pub fn resume_block(block: u32, index: [u32; 3]) {
    with(|checker| checker.resume_block(block, index));
}

/// All of them have ended.
pub fn end_together() {
    with(Checker::end_together);
}

/// Every thread of the block that runs has come to a barrier.
pub fn barrier() {
    with(Checker::barrier);
}

/// The lanes `members` of `warp` have synchronised their memory.
pub fn warp_sync(warp: usize, members: u32) {
    with(|checker| checker.warp_sync(warp, members));
}

/// `thread` of the block that runs reads by the shuffle at `site` what no lane passes: `lane` says why.
/// False where nothing is checked.
pub fn stray_lane(thread: u16, lane: &str, site: Site) -> bool {
    let mut runs = false;
    with(|checker| {
        checker.stray_lane(thread, lane, site);
        runs = true;
    });
    runs
}

/// What the hooks of a checked build look at for themselves; null where nothing is checked.
pub extern "C" fn check_state() -> *mut c_void {
    CHECKER.with_borrow(|checker| {
        checker.as_ref().map_or(std::ptr::null_mut(), |checker| checker.state_for_hooks().cast())
    })
}

/// Told by a checked build of every access that its hooks cannot tell to be in order.
///
/// # Safety
/// Must be called before the access, from host code or a thread of a kernel that runs.
pub unsafe extern "C" fn access(
    address: *const c_void,
    bytes: usize,
    touch: u32,
    site: *const c_void,
) {
    const TOUCHES: [Touch; 4] = [Touch::Read, Touch::Write, Touch::AtomicRead, Touch::AtomicWrite];
    let (address, site) = (address as usize, site as usize);
    let mut crosses = false;
    let Some(&touch) = TOUCHES.get(touch as usize) else {
        // SAFETY: only kernels tell of what is no access.
        let thread = unsafe { linear_thread() };
        return with(|checker| checker.before_swap(thread, address, bytes, site as u64));
    };
    if place().is_none() {
        with(|checker| crosses = checker.host_access(address, bytes, touch, site));
    } else {
        // SAFETY: a kernel runs.
        let thread = unsafe { linear_thread() };
        with(|checker| crosses = checker.access(thread, address, bytes, touch, site));
    }
    if crosses {
        tell_now();
    }
}

/// Tells what was found so far: the access that is about to be made may end the replay.
#[cold]
fn tell_now() {
    let mut artifact = None;
    with(|checker| artifact = Some(checker.artifact.clone()));
    if let (Some(artifact), Some(reporter)) = (artifact, crate::runtime::reporter()) {
        reporter.send(&Report::Found(found(&artifact)));
    }
}

/// Told of every memory fence by a checked build.
///
/// # Safety
/// Must be called from a thread of a kernel that runs.
pub unsafe extern "C" fn fence() {
    // SAFETY: passed on to the caller.
    let thread = unsafe { linear_thread() };
    with(|checker| checker.fence(thread));
}

/// Told by a checked build when all threads have come that a barrier in memory (`cuda::barrier`) expects.
/// What any thread of the block did before counts as in order with what any does behind it.
///
/// # Safety
/// Must be called from a thread of a kernel that runs.
pub unsafe extern "C" fn all_arrived() {
    with(Checker::barrier);
}

/// What was found in the artifact at `path`, with places in its sources.
pub fn found(path: &Path) -> Findings {
    let mut all = Findings::default();
    with(|checker| {
        let lines = Lines::of(path);
        let findings = checker.findings();
        let found = findings.kept.iter().map(|finding| told(finding, lines.as_ref()));
        all.found = joined(found.filter(|found| !is_own_flag(found)));
        all.left_out = findings.left_out;
        all.refused = checker.refused.map(|bytes| bytes as u64);
    });
    all
}

/// Whether it is about the guard of a variable in shared memory, which the headers of this program keep.
fn is_own_flag(found: &Found) -> bool {
    found.kind == FoundKind::Flag && found.second.site.starts_with("headers/replay/launch.h:")
}

/// Findings of the same lines as one: a compiler that unrolls a loop makes several places of a line.
fn joined(findings: impl Iterator<Item = Found>) -> Vec<Found> {
    let line = |spot: &FoundSpot| (spot.site.clone(), spot.name.clone(), spot.writes, spot.atomic);
    let lines = |found: &Found| (found.kind, found.first.as_ref().map(line), line(&found.second));
    let mut all: Vec<Found> = Vec::new();
    for found in findings {
        let same = |known: &&mut Found| {
            !found.second.site.is_empty()
                && known.memory == found.memory
                && lines(known) == lines(&found)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.count += found.count,
            None => all.push(found),
        }
    }
    all
}

fn told(finding: &Finding, lines: Option<&Lines>) -> Found {
    let spot = |spot: &Spot| FoundSpot {
        writes: spot.touch.writes(),
        atomic: spot.touch.is_atomic(),
        site: match spot.site {
            At::Code(address) => lines.and_then(|lines| lines.site(address)).unwrap_or_default(),
            At::Line(site) => site.describe(),
        },
        name: spot.name.to_owned(),
        block: spot.place.map(|(block, _)| block),
        thread: spot.place.map(|(_, thread)| thread),
    };
    Found {
        kind: match finding.kind {
            Kind::Race => FoundKind::Race,
            Kind::SameValue => FoundKind::SameValue,
            Kind::Flag => FoundKind::Flag,
            Kind::Unwritten => FoundKind::Unwritten,
            Kind::OutOfBounds => FoundKind::OutOfBounds,
            Kind::StrayLane => FoundKind::UndefinedLane,
            Kind::HostAccess => FoundKind::HostAccess,
            Kind::DeviceAccess => FoundKind::DeviceAccess,
        },
        between_streams: finding.between_streams,
        first: finding.first.as_ref().map(spot),
        second: spot(&finding.second),
        memory: finding.memory.clone(),
        offset: finding.offset,
        index: None,
        bytes: finding.bytes as u64,
        count: finding.count,
    }
}
