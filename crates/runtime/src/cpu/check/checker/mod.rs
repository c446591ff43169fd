//! Compares every access of a replay with earlier ones, and keeps the findings.
//!
//! Pure, except for one thing: it reads replayed memory to recognise racing writes that change nothing.

pub(super) mod findings;

mod coresident;
mod host_device;
mod swaps;

use std::ffi::CStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use self::coresident::CoresidentBlocks;
use self::findings::{Apart, At, CheckerFinding, CheckerFindingKind, CheckerFindings, CheckerSpot};
use self::swaps::{Doubt, Unsure};
use super::cells::{CheckedAccess, Race, Stamp, Touch};
use super::clocks::{Clocks, Moment};
use super::packed_cells::{CellOverflow, Origins, PackedCell, Past};
use super::regions::{CheckedRegion, RegionMatch, Regions};
use super::state::{HookState, Slot};
use super::streams::Streams;
use crate::cpu::shape::LaunchShape;
use crate::report::TouchedMemory;

/// A part of a block's shared memory.
#[derive(Clone, PartialEq)]
pub(super) struct SharedVariable {
    /// Its addresses.
    pub range: Range<usize>,
    /// Its name in the sources; none for the dynamic part, since each kernel names it differently.
    pub name: Option<&'static CStr>,
}

impl SharedVariable {
    /// The dynamic part, at `range`.
    fn dynamic(range: Range<usize>) -> SharedVariable {
        SharedVariable { range, name: None }
    }

    /// Its name in messages.
    fn label(&self) -> String {
        match self.name {
            None => "dynamic shared memory".to_owned(),
            Some(name) => format!("shared memory {}", name.to_string_lossy()),
        }
    }
}

/// An access with the details of a possible finding.
struct Accessed {
    spot: CheckerSpot,
    /// The place in the code, as an offset in the artifact.
    number: u32,
    /// The name of the memory.
    label: String,
    /// Where the named memory begins, as an offset in its region.
    origin: usize,
    address: usize,
    bytes: usize,
}

/// A racing write, and the bytes from before it.
struct PendingWrite {
    finding: usize,
    address: usize,
    before: Vec<u8>,
}

/// The running kernel.
#[derive(Clone, Copy)]
struct Running {
    kernel: &'static str,
    shape: LaunchShape,
    block: u32,
    block_index: [u32; 3],
}

/// The state of a checked replay.
pub(super) struct Checker {
    /// The file of the artifact.
    pub artifact: PathBuf,
    clocks: Clocks,
    regions: Regions,
    shared: CheckedRegion,
    /// The parts of the block's shared memory, the dynamic one first.
    variables: Vec<SharedVariable>,
    /// The order of launches, copies and fills.
    pub streams: Streams,
    operation: u32,
    /// By operation, from 1: its name, and the shape of a launch.
    operations: Vec<(&'static str, Option<LaunchShape>)>,
    running: Option<Running>,
    together: Option<CoresidentBlocks>,
    origins: Origins,
    elsewhere: CellOverflow,
    state: NonNull<HookState>,
    findings: CheckerFindings,
    pending: Option<PendingWrite>,
    unsure: Unsure,
    /// The most bytes for device memory and its cells.
    limit: usize,
    /// How many it takes now.
    held: usize,
    /// The bytes beyond `limit` that ended the checks, if any did.
    pub refused: Option<usize>,
}

impl Checker {
    /// A checker of the `artifact` at `base`, with the shared memory of blocks at `shared_range`. Cells and device memory
    /// together take at most `limit` bytes.
    pub(super) fn new(
        artifact: &Path,
        base: usize,
        shared_range: Range<usize>,
        limit: usize,
    ) -> Checker {
        Checker {
            artifact: artifact.to_owned(),
            clocks: Clocks::default(),
            regions: Regions::default(),
            variables: Vec::new(),
            shared: CheckedRegion::new_shared(shared_range.start, shared_range.len()),
            streams: Streams::default(),
            operation: 0,
            operations: Vec::new(),
            running: None,
            together: None,
            origins: Origins::default(),
            elsewhere: CellOverflow::default(),
            state: NonNull::from(Box::leak(HookState::new(base))),
            findings: CheckerFindings::default(),
            pending: None,
            unsure: Unsure::default(),
            limit,
            held: 0,
            refused: None,
        }
    }

    /// The state that hooks read and write.
    pub(super) fn state_for_hooks(&self) -> *mut HookState {
        self.state.as_ptr()
    }

    #[allow(unsafe_code)]
    fn state(&mut self) -> &mut HookState {
        // SAFETY: it lives as long as the process, and the hooks of this operating-system thread use it only
        // while this is not running.
        unsafe { self.state.as_mut() }
    }

    /// Checks accesses to `bytes` at `begin` from now on, and tells those of `reach` by it.
    pub(super) fn add(
        &mut self,
        begin: usize,
        bytes: usize,
        label: &str,
        is_written: bool,
        reach: Range<usize>,
    ) {
        if self.reserve_bytes(bytes + CheckedRegion::cells_of(bytes)) {
            self.regions.add(CheckedRegion::new(begin, bytes, label.to_owned(), is_written), reach);
            self.state().forget();
        }
    }

    /// The memory at `begin` is freed.
    pub(super) fn remove(&mut self, begin: usize) {
        self.held -= self.regions.remove(begin).map_or(0, |region| region.allocated_bytes());
        self.state().forget();
    }

    /// Takes `bytes` more; if there are not so many, nothing is checked from now on.
    fn reserve_bytes(&mut self, bytes: usize) -> bool {
        let wanted_bytes = self.held + self.elsewhere.allocated_bytes() + bytes;
        if wanted_bytes > self.limit && self.refused.is_none() {
            self.refused = Some(wanted_bytes);
            self.regions = Regions::default();
            self.state().forget();
        }
        self.held += bytes;
        self.refused.is_none()
    }

    /// An input of `bytes` lies at `address`.
    pub(super) fn input(&mut self, address: usize, bytes: usize) {
        if let RegionMatch::Inside(region) = self.regions.find(address, bytes) {
            region.holds_input();
        }
        self.state().forget();
    }

    /// A copy or a fill, called `name`, touches `bytes` at each address, in the order of `stream`.
    pub(super) fn transfer(
        &mut self,
        name: &'static str,
        stream: usize,
        bytes: usize,
        touched: &[(usize, Touch)],
    ) {
        self.settle_all();
        self.begin_operation(name, None, stream);
        if self.refused.is_some() {
            return;
        }
        let phase = self.clocks.begin_phase();
        self.origins.begin(phase, self.operation, 0);
        for &(address, touch) in touched {
            if !self.transfer_at(name, phase, address, bytes, touch) {
                return;
            }
        }
        if stream == 0 {
            self.streams.synchronize(Some(stream));
        }
    }

    /// The copy or fill of `phase` touches `bytes` at `address`. Returns whether there is room to remember it.
    fn transfer_at(
        &mut self,
        name: &'static str,
        phase: u32,
        address: usize,
        bytes: usize,
        touch: Touch,
    ) -> bool {
        let before = self.before(phase);
        let RegionMatch::Inside(region) = self.regions.find(address, bytes) else { return true };
        let access = CheckedAccess {
            touch,
            operation: self.operation,
            moment: Moment { epoch: phase, ..Moment::default() },
            site: 0,
            ordered: &|_, _| true,
            ordered_by_block: &|_| true,
            met: &|_, _| true,
            follows: &|earlier| self.streams.follows(earlier),
        };
        let past = Past { origins: &self.origins, floor: 0, before };
        let first = region.offset(address);
        let is_split = region.splits(first, bytes);
        let growth = region.growth(first, bytes);
        if self.held + growth > self.limit {
            return self.reserve_bytes(growth);
        }
        self.held += growth;
        if !is_split {
            let cells = region.whole_cells(first, bytes);
            let is_done = if touch.writes() {
                cells.iter_mut().all(|cell| cell.write_alone(phase, before))
            } else {
                cells.iter_mut().all(|cell| cell.read_alone(phase, before))
            };
            if is_done {
                return true;
            }
        }
        let mut race = None;
        for offset in region.cells(first, bytes, &mut self.elsewhere) {
            let packed = region.cell(offset);
            let mut cell = packed.unpack(&self.elsewhere, &past);
            let cell_race = cell.touch(&access);
            packed.pack(&cell, touch, &mut self.elsewhere, &past);
            race = race.or(cell_race.map(|race| (offset, race)));
        }
        let label = region.label.clone();
        if let Some((offset, race)) = race {
            let spot = CheckerSpot { touch, site: At::Code(0), name, place: None };
            self.race(
                &race,
                &Accessed { spot, number: 0, label, origin: 0, address, bytes },
                offset,
            );
        }
        if is_split {
            self.state().forget();
        }
        true
    }

    fn begin_operation(&mut self, name: &'static str, shape: Option<LaunchShape>, stream: usize) {
        self.operation = self.streams.begin(stream);
        self.operations.push((name, shape));
    }

    /// The first phase not ordered before the running operation, whose own first phase is `first`.
    fn before(&self, first: u32) -> u32 {
        if self.streams.follows_all() { first } else { 0 }
    }

    /// A launch begins.
    pub(super) fn begin_launch(&mut self, kernel: &'static str, shape: LaunchShape, stream: usize) {
        self.begin_operation(kernel, Some(shape), stream);
        self.clocks.begin_launch();
        self.running = Some(Running { kernel, shape, block: 0, block_index: [0; 3] });
        let first = self.clocks.phase() + 1;
        let before = self.before(first);
        (self.state().launch_first, self.state().before) = (first, before);
    }

    /// The block with linear index `block` begins.
    pub(super) fn begin_block(&mut self, block: u32, index: [u32; 3], dynamic: Range<usize>) {
        self.settle_all();
        self.enter_block(block, index);
        // Most blocks of a launch have the same dynamic part: its cells then stay valid.
        let dynamic = SharedVariable::dynamic(dynamic);
        let is_new = self.variables.first() != Some(&dynamic);
        if is_new {
            self.set_shared(0, PackedCell::PADDING);
        }
        (1..self.variables.len()).for_each(|index| self.set_shared(index, PackedCell::PADDING));
        self.variables.truncate(if is_new { 0 } else { 1 });
        if is_new {
            self.share(dynamic, 0..0);
        }
        self.follow_clocks();
    }

    /// Makes the block with linear index `block` the running one.
    fn enter_block(&mut self, block: u32, index: [u32; 3]) {
        let Some(running) = &mut self.running else { return };
        (running.block, running.block_index) = (block, index);
        let threads = running.shape.threads();
        self.clocks.begin_block(block, threads);
        let phase = self.clocks.phase();
        self.origins.begin(phase, self.operation, block);
        let ticks = self.clocks.ticks().as_ptr();
        let warps = self.clocks.warps().as_ptr();
        let state = self.state();
        (state.block_first, state.ticks, state.warps) = (phase, ticks, warps);
    }

    /// The running block may use `variable` of its shared memory, whose surroundings are `reach`.
    pub(super) fn share(&mut self, variable: SharedVariable, reach: Range<usize>) {
        if self.together.is_some() {
            return self.share_among(variable, reach);
        }
        self.variables.push(variable);
        self.set_shared(self.variables.len() - 1, PackedCell::default());
    }

    /// Makes all cells of variable number `variable` equal to `value`.
    fn set_shared(&mut self, variable: usize, value: PackedCell) {
        let Some(SharedVariable { range, .. }) = self.variables.get(variable) else { return };
        let offset = self.shared.offset(range.start);
        for cell in self.shared.whole_cells(offset, range.len()) {
            cell.clear(&mut self.elsewhere);
            *cell = value;
        }
    }

    /// Updates the hooks' state.
    fn follow_clocks(&mut self) {
        let phase = self.clocks.phase();
        let learned = self.clocks.has_learned();
        let fenced = self.clocks.has_fenced;
        let slow = self.pending.is_some();
        let state = self.state();
        state.phase = phase;
        state.learned = learned.into();
        state.fenced = fenced.into();
        state.slow = slow.into();
    }

    /// The launch has ended.
    pub(super) fn end_launch(&mut self) {
        self.settle_all();
        self.running = None;
    }

    /// Every thread of the block has come to a barrier.
    pub(super) fn barrier(&mut self) {
        self.clocks.barrier();
        self.follow_clocks();
    }

    /// The lanes `members` of `warp` have synchronised.
    pub(super) fn warp_sync(&mut self, warp: usize, members: u32) {
        self.clocks.warp_sync(warp, members);
        self.follow_clocks();
    }

    /// `thread` has fenced.
    pub(super) fn fence(&mut self, thread: u16) {
        self.clocks.fence(thread);
        self.follow_clocks();
    }

    /// How far the memory that is there was touched.
    pub(super) fn touched(&mut self) -> Vec<TouchedMemory> {
        let regions = self.regions.iter_mut();
        let touched = regions.map(|region| TouchedMemory {
            memory: region.label.clone(),
            bytes: region.touched_bytes() as u64,
        });
        touched.collect()
    }

    /// All findings; pending ones are settled.
    pub(super) fn findings(&mut self) -> &CheckerFindings {
        self.settle_all();
        &self.findings
    }

    /// `thread` of the running block touches `bytes` at `address` from the code at `site`. Returns whether this finding may
    /// be the last: what follows is an access to memory that no kernel has.
    pub(super) fn access(
        &mut self,
        thread: u16,
        address: usize,
        bytes: usize,
        touch: Touch,
        site: usize,
    ) -> bool {
        let Some(running) = self.checked(thread, address, bytes, touch) else { return false };
        let number = site.wrapping_sub(self.state().base) as u32;
        let spot = spot_of(&running, thread, touch, At::Code(site));
        let (in_shared, floor, before) = self.horizon(address);
        let variable = self.find_variable(address, bytes);
        let region_lookup = match (in_shared, variable) {
            (true, Some(_)) => RegionMatch::Inside(&mut self.shared),
            (true, None) => RegionMatch::Beside(&self.shared, 0),
            (false, _) => self.regions.find(address, bytes),
        };
        let region = match region_lookup {
            RegionMatch::Inside(region) => region,
            RegionMatch::Elsewhere => return self.elsewhere(address, bytes, spot, number),
            RegionMatch::Beside(region, distance) => {
                let offset = if in_shared { 0 } else { region.outside(distance, bytes) };
                let finding = CheckerFinding::new(
                    CheckerFindingKind::OutOfBounds,
                    spot,
                    region.label.clone(),
                    offset,
                    bytes,
                );
                return self.findings.note_first(finding, [number, 0]);
            }
        };
        let first = region.offset(address);
        let clocks = &self.clocks;
        let access = CheckedAccess {
            touch,
            operation: self.operation,
            moment: clocks.now(thread),
            site: number,
            ordered: &|then, lanes| clocks.ordered(then, lanes, thread),
            ordered_by_block: &|then| clocks.ordered_by_block(then, thread),
            met: &|first, last| clocks.has_met(first, last),
            follows: &|earlier| self.streams.follows(earlier),
        };
        let past = Past { origins: &self.origins, floor, before };
        let is_split = region.splits(first, bytes);
        let growth = region.growth(first, bytes);
        if self.held + growth + self.elsewhere.allocated_bytes() > self.limit {
            self.reserve_bytes(growth);
            return false;
        }
        self.held += growth;
        let cells = region.cells(first, bytes, &mut self.elsewhere);
        let shown = touch_cells(region, cells, &access, &mut self.elsewhere, &past);
        let slot = region.slot();
        if shown.is_something() {
            let (label, origin) = match variable.map(|index| &self.variables[index]) {
                Some(variable) => (variable.label(), region.offset(variable.range.start)),
                None => (region.label.clone(), 0),
            };
            let accessed = Accessed { spot, number, label, origin, address, bytes };
            self.record_findings(accessed, shown, thread);
        }
        if is_split {
            self.state().forget();
        }
        self.state().learn(address, slot);
        false
    }

    /// The running kernel, if its access has to be checked. Settles the pending write, and publishes the thread's
    /// progress by an atomic.
    fn checked(
        &mut self,
        thread: u16,
        address: usize,
        bytes: usize,
        touch: Touch,
    ) -> Option<Running> {
        self.settle();
        let running = self.running?;
        if self.refused.is_some() {
            self.state().learn(address, Slot::unchecked(address));
            return None;
        }
        if bytes > 0 && touch.is_atomic() {
            // A volatile load publishes nothing, and a store learns nothing.
            self.clocks.atomic(thread, address, true, touch.writes());
            self.follow_clocks();
        }
        (bytes > 0).then_some(running)
    }

    /// Whether `address` is in shared memory; the first phase remembered there; and the first phase not ordered before
    /// the running one.
    fn horizon(&mut self, address: usize) -> (bool, u32, u32) {
        let in_shared = self.shared.range().contains(&address);
        let phase = self.clocks.phase();
        let state = self.state();
        if in_shared { (true, state.block_first, phase) } else { (false, 0, state.before) }
    }

    /// The number of the shared variable around all of the bytes.
    fn find_variable(&self, address: usize, bytes: usize) -> Option<usize> {
        self.variables.iter().position(|SharedVariable { range, .. }| {
            range.start <= address && address + bytes <= range.end
        })
    }

    /// Notes the findings of an access of `thread`, at offsets of its region.
    fn record_findings(&mut self, access: Accessed, shown: Shown, thread: u16) {
        if let Some((offset, flag)) = shown.flag {
            let (finding, key) = self.finding(CheckerFindingKind::Flag, &flag, &access, offset);
            self.findings.note(finding, key);
        }
        if let Some(offset) = shown.unwritten {
            let Accessed { spot, number, label, origin, bytes, .. } = &access;
            let label = label.clone();
            let offset = (offset - origin) as i64;
            let finding =
                CheckerFinding::new(CheckerFindingKind::Unwritten, *spot, label, offset, *bytes);
            self.findings.note(finding, [*number, 0]);
        }
        if let Some((offset, race)) = shown.race {
            if access.spot.touch == Touch::Read && race.touch == Touch::AtomicWrite {
                self.doubt(Doubt::new(race, access, offset, thread))
            } else {
                self.race(&race, &access, offset)
            }
            self.follow_clocks();
        }
    }

    /// The finding for `access` after the access in `race`, at an offset of its region, and its places as a key.
    fn finding(
        &mut self,
        kind: CheckerFindingKind,
        race: &Race,
        access: &Accessed,
        offset: usize,
    ) -> (CheckerFinding, [u32; 2]) {
        let &Accessed { spot: second, number, ref label, origin, bytes, .. } = access;
        let Stamp { operation, moment, site, .. } = race.by;
        let (name, shape) = self.operations[operation as usize - 1];
        let place_of_thread = |thread: u16| {
            shape.map(|shape| {
                let block = shape.block_index(u64::from(moment.block));
                (block, shape.thread_index(thread.into()))
            })
        };
        let mut place = place_of_thread(moment.thread);
        if operation == self.operation && place == second.place {
            // The last of several was this thread itself: it races with another of them.
            place = race.by.another_lane().and_then(place_of_thread);
        }
        let first = CheckerSpot { touch: race.touch, site: self.site(site), name, place };
        let apart = match (shape, place, second.place) {
            (Some(shape), Some((block_before, thread_before)), Some((block, thread)))
                if operation == self.operation && block_before == block =>
            {
                let is_one_warp = shape.warp(thread_before) == shape.warp(thread);
                if is_one_warp { Apart::InWarp } else { Apart::InBlock }
            }
            _ => Apart::Beyond,
        };
        let key = [number, site.wrapping_add(1)];
        let offset = (offset - origin) as i64;
        let finding = CheckerFinding::new(kind, second, label.clone(), offset, bytes);
        let between_streams = operation != self.operation;
        (CheckerFinding { first: Some(first), between_streams, apart, ..finding }, key)
    }

    fn race(&mut self, race: &Race, access: &Accessed, offset: usize) {
        let (finding, key) = self.finding(CheckerFindingKind::Race, race, access, offset);
        let finding_index = self.findings.note(finding, key);
        let &Accessed { spot: second, address, bytes, .. } = access;
        let both_write = race.touch.writes() && second.touch == Touch::Write;
        if let Some(finding) = finding_index.filter(|_| both_write && second.place.is_some()) {
            // SAFETY: the running code is about to access these bytes.
            #[allow(unsafe_code)]
            let bytes_before = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
            self.pending = Some(PendingWrite { finding, address, before: bytes_before.to_vec() });
        }
    }

    /// Looks at the bytes after the last racing write: an unchanged value is benign.
    fn settle(&mut self) {
        let Some(PendingWrite { finding, address, before }) = self.pending.take() else { return };
        self.state().slow = 0;
        // SAFETY: the pending access has written the bytes since.
        #[allow(unsafe_code)]
        let now = unsafe { std::slice::from_raw_parts(address as *const u8, before.len()) };
        let pending_finding = &mut self.findings.kept[finding];
        if now == before.as_slice() {
            if pending_finding.count == 1 {
                pending_finding.kind = CheckerFindingKind::SameValue;
            }
        } else {
            pending_finding.kind = CheckerFindingKind::Race;
        }
    }

    /// The address of the code at `offset` in the artifact.
    fn site(&mut self, offset: u32) -> At {
        At::Code(if offset == 0 { 0 } else { self.state().base + offset as usize })
    }
}

/// The problems of an access, each with the first offset in its region.
#[derive(Default)]
struct Shown {
    /// It reads memory nobody wrote.
    unwritten: Option<usize>,
    /// It races with an earlier access.
    race: Option<(usize, Race)>,
    /// It reads a flag from this write.
    flag: Option<(usize, Race)>,
}

impl Shown {
    fn is_something(&self) -> bool {
        self.unwritten.is_some() || self.race.is_some() || self.flag.is_some()
    }
}

/// Lets `access` touch cells of a region.
fn touch_cells(
    region: &mut CheckedRegion,
    cells: impl Iterator<Item = usize>,
    access: &CheckedAccess,
    elsewhere: &mut CellOverflow,
    past: &Past,
) -> Shown {
    let reads = matches!(access.touch, Touch::Read | Touch::AtomicRead);
    let mut shown = Shown::default();
    for offset in cells {
        let mut cell = region.cell(offset).unpack(elsewhere, past);
        let flag = cell.flag(access);
        let cell_race = cell.touch(access);
        if reads && !region.is_written(cell.is_written()) {
            shown.unwritten.get_or_insert(offset);
        }
        region.cell(offset).pack(&cell, access.touch, elsewhere, past);
        shown.race = shown.race.or(cell_race.map(|race| (offset, race)));
        shown.flag = shown.flag.or(flag.map(|flag| (offset, flag)));
    }
    shown
}

fn spot_of(running: &Running, thread: u16, touch: Touch, site: At) -> CheckerSpot {
    let thread = running.shape.thread_index(thread.into());
    CheckerSpot { touch, site, name: running.kernel, place: Some((running.block_index, thread)) }
}
