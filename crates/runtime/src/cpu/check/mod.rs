//! Checked replays: every access of device code is compared with earlier ones. Races, reads of unwritten memory and
//! accesses beside allocations are found exactly, for this input.
//!
//! A checked build calls `access` before each access to memory other threads may see. The engine reports
//! synchronisation. Blocks run one after the other on one operating-system thread, and the checker belongs to it.
//! Without a checker everything here does nothing.
#![allow(unsafe_code)]

mod cells;
mod checker;
mod clocks;
mod image;
mod lines;
mod packed_cells;
mod regions;
mod state;
mod streams;

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::path::Path;

use self::cells::Touch;
use self::checker::findings::{At, CheckerFinding, CheckerFindingKind, CheckerSpot};
use self::checker::{Checker, SharedVariable};
use self::lines::LineTable;
use super::block::running::{current_place, linear_thread};
use super::shape::LaunchShape;
use crate::abi::CallSite;
use crate::report::{
    AccessFinding, AccessFindings, ChildReport, FoundKind, FoundSpot, TouchedMemory,
};

thread_local! {
    // Never dropped: destructors of the code's static variables still access memory at the very end.
    static CHECKER: RefCell<Option<&'static mut Checker>> = const { RefCell::new(None) };
}

/// Does `work` with the checker, if this replay is a checked one.
#[inline]
fn with_checker(work: impl FnOnce(&mut Checker)) {
    CHECKER.with_borrow_mut(|checker| {
        if let Some(checker) = checker {
            work(checker);
        }
    });
}

/// Checks this operating-system thread from now on, for the artifact at `path` with the shared memory of blocks at
/// `shared_range`. Device memory and its cells take at most `limit` bytes.
pub fn start_checking(path: &Path, shared_range: std::ops::Range<usize>, limit: usize) {
    let base = image::find_load_bias(path).unwrap_or(0);
    let mut checker = Checker::new(path, base, shared_range, limit);
    for (begin, end) in image::find_writable_segments(path) {
        checker.add(begin, end - begin, "a variable of the sources", true, 0..0);
        // The host's own are among them.
        checker.managed(begin, end - begin);
    }
    CHECKER.set(Some(Box::leak(Box::new(checker))));
}

/// Whether this replay is a checked one.
pub fn is_checking() -> bool {
    CHECKER.with_borrow(Option::is_some)
}

/// Device memory of `bytes` at `begin` is there; accesses to `reach` around it belong to it.
pub fn note_allocation(begin: usize, bytes: usize, label: &str, reach: std::ops::Range<usize>) {
    with_checker(|checker| checker.add(begin, bytes, label, false, reach));
}

/// The device memory at `begin` is freed.
pub fn note_deallocation(begin: usize) {
    with_checker(|checker| checker.remove(begin));
}

/// Host code may touch the memory at `address` too, and its writes there are not reported.
pub fn note_managed_memory(address: usize, bytes: usize) {
    with_checker(|checker| checker.managed(address, bytes));
}

/// An input of `bytes` lies at `address`.
pub fn note_input(address: usize, bytes: usize) {
    with_checker(|checker| checker.input(address, bytes));
}

/// `bytes` are copied in the order of `stream`.
pub fn note_copy(destination: usize, source: usize, bytes: usize, stream: *mut c_void) {
    let touched = [(source, Touch::Read), (destination, Touch::Write)];
    with_checker(|checker| checker.transfer("a copy", stream as usize, bytes, &touched));
}

/// `bytes` at `destination` are set in the order of `stream`.
pub fn note_fill(destination: usize, bytes: usize, stream: *mut c_void) {
    let touched = [(destination, Touch::Write)];
    with_checker(|checker| checker.transfer("a fill", stream as usize, bytes, &touched));
}

/// A non-blocking stream was made: it and the default stream do not wait for each other.
pub fn made_non_blocking(stream: *mut c_void) {
    with_checker(|checker| checker.streams.set_non_blocking(stream as usize));
}

/// The host has waited for `stream`, or for all if it is null.
pub fn note_synchronisation(stream: *mut c_void) {
    let stream = (!stream.is_null()).then_some(stream as usize);
    with_checker(|checker| checker.streams.synchronize(stream));
}

/// `event` was recorded in `stream`.
pub fn note_event_record(event: *mut c_void, stream: *mut c_void) {
    with_checker(|checker| checker.streams.record(event as usize, stream as usize));
}

/// `stream` waits for `event`.
pub fn note_stream_wait(stream: *mut c_void, event: *mut c_void) {
    with_checker(|checker| checker.streams.wait(stream as usize, event as usize));
}

/// The host has waited for `event`.
pub fn note_host_wait(event: *mut c_void) {
    with_checker(|checker| checker.streams.wait_on_host(event as usize));
}

/// A launch of `kernel` in `stream` begins.
pub fn begin_launch(kernel: &'static str, shape: LaunchShape, stream: *mut c_void) {
    with_checker(|checker| checker.begin_launch(kernel, shape, stream as usize));
}

/// The launch has ended.
pub fn end_launch() {
    with_checker(Checker::end_launch);
}

/// The block with linear index `block` begins, with dynamic shared memory at `dynamic`.
pub fn begin_block(block: u64, index: [u32; 3], dynamic: std::ops::Range<usize>) {
    with_checker(|checker| checker.begin_block(block as u32, index, dynamic));
}

/// The running block has the static variable `name` at `range`, in its shared memory at `shared_range`.
pub fn note_shared_variable(
    range: std::ops::Range<usize>,
    name: &'static CStr,
    shared_range: std::ops::Range<usize>,
) {
    let variable = SharedVariable { range, name: Some(name) };
    with_checker(|checker| checker.share(variable, shared_range));
}

/// Blocks alive at once begin.
pub fn begin_together() {
    with_checker(Checker::begin_together);
}

/// One of them begins: see [`begin_block`].
pub fn begin_block_among(
    block: u32,
    index: [u32; 3],
    dynamic: std::ops::Range<usize>,
    shared_range: std::ops::Range<usize>,
) {
    with_checker(|checker| checker.begin_block_among(block, index, dynamic, shared_range));
}

/// The running one has paused.
pub fn pause_block(block: u32) {
    with_checker(|checker| checker.pause_block(block));
}

/// These have all come to a barrier of the grid or of their cluster.
pub fn meet_blocks(blocks: impl Iterator<Item = u32>) {
    with_checker(|checker| checker.meet(blocks));
}

/// One of them goes on behind the barrier.
pub fn resume_block(block: u32, index: [u32; 3]) {
    with_checker(|checker| checker.resume_block(block, index));
}

/// All of them have ended.
pub fn end_together() {
    with_checker(Checker::end_together);
}

/// Every thread of the running block has come to a barrier.
pub fn note_block_barrier() {
    with_checker(Checker::barrier);
}

/// The lanes `members` of `warp` have synchronised their memory.
pub fn warp_sync(warp: usize, members: u32) {
    with_checker(|checker| checker.warp_sync(warp, members));
}

/// `thread` of the running block reads a lane without a value by the shuffle at `site`; `lane` says why it has none.
/// Returns false where nothing is checked.
pub fn stray_lane(thread: u16, lane: &str, site: CallSite) -> bool {
    let mut runs = false;
    with_checker(|checker| {
        checker.stray_lane(thread, lane, site);
        runs = true;
    });
    runs
}

/// The state for the hooks of a checked build; null where nothing is checked.
pub extern "C" fn check_state() -> *mut c_void {
    CHECKER.with_borrow(|checker| {
        checker.as_ref().map_or(std::ptr::null_mut(), |checker| checker.state_for_hooks().cast())
    })
}

/// As `replay_touch` in `replay/abi.h`: what comes next reads, or writes, an address that is no multiple of `bytes`.
const MISALIGNED_READ: u32 = 5;
const MISALIGNED_WRITE: u32 = 6;

/// A checked build reports every access here unless its hooks find it in order themselves.
///
/// # Safety
/// Must be called before the access, from host code or a thread of a running kernel.
pub unsafe extern "C" fn check_access(
    address: *const c_void,
    bytes: usize,
    touch: u32,
    site: *const c_void,
) {
    const TOUCHES: [Touch; 4] = [Touch::Read, Touch::Write, Touch::AtomicRead, Touch::AtomicWrite];
    let address = address as usize;
    let site = site as usize;
    let mut crosses = false;
    if let MISALIGNED_READ | MISALIGNED_WRITE = touch {
        let touch = if touch == MISALIGNED_READ { Touch::Read } else { Touch::Write };
        // SAFETY: only kernels report a misaligned address.
        let thread = unsafe { linear_thread() };
        with_checker(|checker| crosses = checker.misaligned(thread, address, bytes, touch, site));
        if crosses {
            report_findings_so_far();
        }
        return;
    }
    let Some(&touch) = TOUCHES.get(touch as usize) else {
        // SAFETY: only kernels report a compare-and-swap.
        let thread = unsafe { linear_thread() };
        return with_checker(|checker| checker.before_swap(thread, address, bytes, site as u64));
    };
    if current_place().is_none() {
        with_checker(|checker| crosses = checker.host_access(address, bytes, touch, site));
    } else {
        // SAFETY: a kernel runs.
        let thread = unsafe { linear_thread() };
        with_checker(|checker| crosses = checker.access(thread, address, bytes, touch, site));
    }
    if crosses {
        report_findings_so_far();
    }
}

/// Reports the findings so far, where a replay is checked: what follows may end it.
#[cold]
pub fn report_findings_so_far() {
    let mut artifact = None;
    with_checker(|checker| artifact = Some(checker.artifact.clone()));
    if let (Some(artifact), Some(reporter)) = (artifact, crate::process_reporter()) {
        reporter.send(&ChildReport::Found(collect_access_findings(&artifact)));
    }
}

/// A checked build reports every memory fence here.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub unsafe extern "C" fn note_fence() {
    // SAFETY: passed on to the caller.
    let thread = unsafe { linear_thread() };
    with_checker(|checker| checker.fence(thread));
}

/// A checked build reports here that all threads have come to a barrier in memory (`cuda::barrier`). All accesses of
/// the block before it count as ordered before all accesses behind it.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub unsafe extern "C" fn all_arrived() {
    with_checker(Checker::barrier);
}

/// The findings in the artifact at `path`, with places in its sources.
pub fn collect_access_findings(path: &Path) -> AccessFindings {
    let mut all_findings = AccessFindings::default();
    with_checker(|checker| {
        let lines = LineTable::load(path);
        let findings = checker.findings();
        let found =
            findings.kept.iter().map(|finding| resolve_finding_sites(finding, lines.as_ref()));
        all_findings.found = merge_unrolled_findings(found);
        all_findings.left_out = findings.left_out;
        all_findings.refused = checker.refused.map(|bytes| bytes as u64);
    });
    all_findings
}

/// How far the memory that is there was touched. Looks at every cell behind the last touched one.
pub fn list_touched_memory() -> Vec<TouchedMemory> {
    let mut touched = Vec::new();
    with_checker(|checker| touched = checker.touched());
    touched
}

/// Merges findings of the same lines: an unrolled loop has several places for one line.
fn merge_unrolled_findings(findings: impl Iterator<Item = AccessFinding>) -> Vec<AccessFinding> {
    let mut merged_findings: Vec<AccessFinding> = Vec::new();
    for finding in findings {
        let known_finding =
            merged_findings.iter_mut().find(|known| are_of_same_lines(known, &finding));
        match known_finding {
            Some(known_finding) => known_finding.count += finding.count,
            None => merged_findings.push(finding),
        }
    }
    merged_findings
}

/// Whether both are of one kind, on one memory, at the same lines.
fn are_of_same_lines(left: &AccessFinding, right: &AccessFinding) -> bool {
    let has_same_first = match (&left.first, &right.first) {
        (None, None) => true,
        (Some(left), Some(right)) => are_on_same_line(left, right),
        _ => false,
    };
    !right.second.site.is_empty()
        && left.memory == right.memory
        && left.kind == right.kind
        && has_same_first
        && are_on_same_line(&left.second, &right.second)
}

fn are_on_same_line(left: &FoundSpot, right: &FoundSpot) -> bool {
    left.site == right.site
        && left.name == right.name
        && left.writes == right.writes
        && left.atomic == right.atomic
}

fn resolve_finding_sites(finding: &CheckerFinding, lines: Option<&LineTable>) -> AccessFinding {
    AccessFinding {
        kind: match finding.kind {
            CheckerFindingKind::Race => FoundKind::Race,
            CheckerFindingKind::SameValue => FoundKind::SameValue,
            CheckerFindingKind::Flag => FoundKind::Flag,
            CheckerFindingKind::Unwritten => FoundKind::Unwritten,
            CheckerFindingKind::OutOfBounds => FoundKind::OutOfBounds,
            CheckerFindingKind::Misaligned => FoundKind::Misaligned,
            CheckerFindingKind::StrayLane => FoundKind::UndefinedLane,
            CheckerFindingKind::HostAccess => FoundKind::HostAccess,
            CheckerFindingKind::DeviceAccess => FoundKind::DeviceAccess,
        },
        between_streams: finding.between_streams,
        first: finding.first.as_ref().map(|spot| resolve_spot_site(spot, lines)),
        second: resolve_spot_site(&finding.second, lines),
        memory: finding.memory.clone(),
        offset: finding.offset,
        index: None,
        bytes: finding.bytes as u64,
        count: finding.count,
    }
}

fn resolve_spot_site(spot: &CheckerSpot, lines: Option<&LineTable>) -> FoundSpot {
    FoundSpot {
        writes: spot.touch.writes(),
        atomic: spot.touch.is_atomic(),
        site: match spot.site {
            At::Code(address) => lines.and_then(|lines| lines.site(address)).unwrap_or_default(),
            At::Line(site) => site.describe(),
        },
        name: spot.name.to_owned(),
        block: spot.place.map(|(block, _)| block),
        thread: spot.place.map(|(_, thread)| thread),
    }
}
