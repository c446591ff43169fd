//! The reference machine: a CUDA device whose kernels run on this CPU.
//!
//! The same sources and inputs give the same bits on any machine and any number of cores.

mod block;
pub mod check;
mod clusters;
mod coresident;
mod fault;
mod fiber;
mod frames;
mod grid;
mod host_memory;
mod host_stack;
mod memory;
mod misaligned;
pub mod order;
mod pages;
mod pool;
mod positions;
mod protection;
pub mod roundings;
mod shape;
mod shared;
mod space;
mod traps;
mod waiting;
mod warp;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::block::calls::{
    active_mask, barriers_differ, rest_of_block, wait_at_barrier, warp_collective, warp_fold,
    whole_block, yield_thread,
};
pub(crate) use self::block::coresident::{
    cluster_arrive, cluster_wait, grid_barrier, is_cooperative,
};
pub(crate) use self::block::running::current_place;
pub(crate) use self::block::turns::{block_turns, turn_barrier, turn_end, turn_fold, turn_yield};
pub(crate) use self::check::{
    all_arrived, check_access, check_state, note_fence, report_findings_so_far,
};
pub(crate) use self::clusters::{
    MOST_BLOCKS as MOST_CLUSTER_BLOCKS, PORTABLE_BLOCKS as PORTABLE_CLUSTER_BLOCKS,
};
pub use self::fault::code_runs;
pub(crate) use self::fiber::page_bytes;
pub(crate) use self::grid::{atomic_turn, wait_for_blocks_before};
pub use self::host_memory::{lift_host_limit, limit_host_memory};
pub use self::pages::pages_of;
pub(crate) use self::shape::MAX_THREADS;
pub(crate) use self::shared::{
    DEFAULT_BYTES as DEFAULT_SHARED_BYTES, MAX_BYTES as MAX_SHARED_BYTES,
    allocate_static_shared as shared_alloc, new_slot as shared_slot,
};
pub use self::space::reserve_device_space;

use self::block::{BlockKernel, BlockRunner};
use self::clusters::Clusters;
use self::coresident::BlockResources;
use self::grid::{Core, CorePool, GridJob};
use self::memory::CpuMemory;
use self::order::Order;
use self::pages::PageBody;
use self::protection::Protection;
use self::shape::LaunchShape;
use self::shared::SharedMemory;
use self::space::Spaces;
use self::traps::LaunchArgument;
use self::waiting::WaitingGroup;
use super::abi::{ArgumentKind, CallSite, ThreadPointers};
use super::report::AccessFindings;
use super::{CopyKind, Device, Launch, end_replay, finish_early, lack_of_memory, signals};
use replay_base::summary::Poison;
use replay_cuda::CudaError;

/// The differences of this replay from the plain one, and its limits.
#[derive(Clone, Debug)]
pub struct CpuSettings {
    /// The initial content of memory.
    pub poison: Poison,
    /// The order of blocks and threads.
    pub order: Order,
    /// Operating-system threads for blocks.
    pub threads: usize,
    /// Bytes of device memory.
    pub memory_limit_bytes: usize,
    /// How operations round.
    pub rounding: Rounding,
    /// The artifact, if its accesses are checked.
    pub checked: Option<PathBuf>,
    /// Whether elements are as wide as in a float64 shadow, and blocks have the shared memory for them.
    pub shadow: bool,
    /// The launch, from 0, at which the replay ends instead; none to perform all.
    pub end_before: Option<u64>,
}

impl CpuSettings {
    /// How many times the shared memory of a device blocks have.
    fn shared_scale(&self) -> usize {
        if self.shadow { shared::WIDENING } else { 1 }
    }
}

/// The rounding mode of a replay, as IEEE 754-2019 section 4.3 names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// roundTiesToEven.
    Nearest,
    /// roundTowardNegative.
    Down,
    /// roundTowardPositive.
    Up,
    /// roundTowardZero.
    TowardZero,
    /// roundTiesToEven, and the float64 shadow's functions that round to an integer pass their argument unchanged.
    Passed,
    /// roundTiesToEven, and these functions record their arguments and results.
    Recorded,
    /// The same with results a thousandth nearer to zero, so that they lie on no bound of a range of integers.
    RecordedInside,
    /// roundTiesToEven, and these functions give the result of the record plus the change of their argument: a slope of
    /// one.
    Straight,
    /// roundTiesToEven, and these functions give the result of the record.
    Held,
}

impl Rounding {
    /// Whether functions that round to an integer write or read a record.
    pub fn has_record(self) -> bool {
        self.is_recorded() || matches!(self, Rounding::Straight | Rounding::Held)
    }

    /// Whether they write one.
    pub fn is_recorded(self) -> bool {
        matches!(self, Rounding::Recorded | Rounding::RecordedInside)
    }

    /// Its number in `replay_rt::rounding`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Sets this rounding mode on the calling operating-system thread.
    pub fn use_on_this_thread(self) {
        super::math::set_rounding(self);
    }
}

/// The device.
pub struct CpuDevice {
    memory: &'static CpuMemory,
    protection: &'static Protection,
    /// Host memory accessible to kernels: its bytes, by its first address.
    shared_host: Mutex<BTreeMap<usize, usize>>,
    settings: CpuSettings,
    pool: CorePool,
    launches: AtomicU64,
}

thread_local! {
    static CORE: RefCell<Option<Core>> = const { RefCell::new(None) };
}

impl CpuDevice {
    /// A device. `pointers` gives the built-in variables of an operating-system thread, and is called
    /// on each one with blocks.
    pub fn new(
        settings: CpuSettings,
        pointers: impl Fn() -> ThreadPointers + Copy + Send + Sync + 'static,
    ) -> CpuDevice {
        let Spaces { global, shared: shared_space } = Spaces::of_process();
        let memory =
            CpuMemory::new(settings.poison, settings.memory_limit_bytes, settings.threads, global);
        let memory: &'static CpuMemory = Box::leak(Box::new(memory));
        fault::install_fault_handlers(memory);
        let scale = settings.shared_scale();
        let core = move || {
            signals::use_own_stack();
            settings.rounding.use_on_this_thread();
            let make = move || {
                let poison = scratch_poison(settings.poison);
                let shared_result =
                    SharedMemory::new(shared_space, poison, scale, too_much_shared_memory);
                let shared = shared_result.unwrap_or_else(|error| {
                    lack_of_memory("shared memory", shared::MAX_BYTES * scale, &error)
                });
                BlockResources {
                    runner: BlockRunner::new(pointers(), poison, report_block_deadlock),
                    shared,
                }
            };
            let BlockResources { runner, shared } = make();
            Core { runner, shared, together: Vec::new(), make: Box::new(make) }
        };
        let own_core = core();
        let mut threads = settings.threads;
        if let Some(artifact) = &settings.checked {
            check::start_checking(artifact, own_core.shared.range(), settings.memory_limit_bytes);
            threads = 1;
        }
        CORE.set(Some(own_core));
        let pool = CorePool::new(threads, core);
        let launches = AtomicU64::new(0);
        let [managed, end] = pointers().managed.map(|pointer| pointer as usize);
        let shared_host = Mutex::new(BTreeMap::from([(managed, end - managed)]));
        let protection = Protection::of_process();
        CpuDevice { memory, protection, shared_host, settings, pool, launches }
    }

    /// Allocates memory for a request of the code itself.
    fn scratch(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let fill = scratch_poison(self.settings.poison);
        self.memory.allocate_scratch(fill, bytes, label)
    }

    /// Keeps host code off the allocation at `pointer`, unless `is_shared`.
    fn protect(&self, pointer: *mut u8, is_shared: bool) -> *mut u8 {
        if let Some((begin, bytes)) = self.memory.pages(pointer as usize) {
            self.protection.add(begin, bytes, is_shared);
        }
        pointer
    }

    /// Whether kernels may use the memory at `address`.
    fn is_device(&self, address: usize) -> bool {
        let is_reserved = self.memory.reserved().contains(&address);
        is_reserved
            || self.protection.covers(address)
            || self.memory.contains(address, 1)
            || self.is_shared_with_host(address)
    }

    /// Whether the memory at `address` is the host's, and kernels may use it too.
    fn is_shared_with_host(&self, address: usize) -> bool {
        let ranges = self.shared_host.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let range_before = ranges.range(..=address).next_back();
        range_before.is_some_and(|(begin, bytes)| address <= begin + bytes)
    }

    /// The arguments of `launch`, as far as it tells them.
    #[allow(unsafe_code)]
    fn arguments(launch: &Launch) -> Vec<LaunchArgument> {
        let count = if launch.arg_kinds.is_null() { 0 } else { launch.arg_count };
        let mut arguments = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the artifact passes a pointer, a size and a kind for each argument.
            arguments.push(unsafe {
                LaunchArgument {
                    place: launch.args.add(index),
                    bytes: *launch.arg_sizes.add(index),
                    kind: ArgumentKind::from_number(*launch.arg_kinds.add(index)),
                }
            });
        }
        arguments
    }
}

fn report_block_deadlock(groups: &[WaitingGroup]) -> ! {
    let groups: Vec<String> =
        groups.iter().map(|group| format!("threads {} {}", group.threads, group.place)).collect();
    end_replay("barrier never reached", groups.join("; "), current_place())
}

/// The poison of scratch and shared memory. It is close to `poison` but differs from it: an output copied from there
/// does not look unwritten.
pub(super) fn scratch_poison(poison: Poison) -> Poison {
    // The upper byte of each 16 bits makes it a NaN, or large; the lower one is free.
    let byte =
        |k: usize| if k.is_multiple_of(2) { poison.pattern[k] ^ 2 } else { poison.pattern[k] };
    Poison { pattern: std::array::from_fn(byte) }
}

fn too_much_shared_memory(bytes: usize, limit: usize) -> ! {
    let detail = format!(
        "{bytes} bytes of shared memory, static and dynamic, where a block of this kernel has \
         {limit} (cudaFuncSetAttribute raises it to at most {})",
        shared::MAX_BYTES
    );
    end_replay("too much shared memory", detail, current_place())
}

impl Device for CpuDevice {
    fn describe(&self) -> (String, String) {
        ("CPU".to_owned(), "cpu".to_owned())
    }

    fn is_host(&self) -> bool {
        true
    }

    fn shared_scale(&self) -> usize {
        self.settings.shared_scale()
    }

    fn can_host_read(&self, pointer: *const u8, bytes: usize) -> bool {
        self.memory.contains(pointer as usize, bytes)
    }

    fn malloc(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let body = PageBody::filled(self.settings.poison);
        Ok(self.protect(self.memory.allocate(body, bytes, label)?, false))
    }

    fn malloc_input(
        &self,
        bytes: usize,
        place: Option<(&File, usize)>,
        is_fully_written: bool,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        let fill = (!is_fully_written).then_some(self.settings.poison);
        Ok(self.protect(self.memory.allocate(PageBody { place, fill }, bytes, label)?, false))
    }

    fn malloc_from(
        &self,
        file: &File,
        offset: usize,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        Ok(self.protect(self.memory.allocate_from(file, offset, bytes, label)?, false))
    }

    fn malloc_unread(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        Ok(self.protect(self.memory.allocate_repeated(bytes, label)?, false))
    }

    fn malloc_in(
        &self,
        file: &File,
        offset: usize,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        let body = PageBody { place: Some((file, offset)), fill: Some(self.settings.poison) };
        let pointer = self.memory.allocate(body, bytes, label)?;
        Ok(self.protect(pointer, false))
    }

    fn malloc_scratch(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        Ok(self.protect(self.scratch(bytes, label)?, false))
    }

    fn malloc_managed(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let pointer = self.scratch(bytes, label)?;
        check::note_managed_memory(pointer as usize, bytes);
        Ok(self.protect(pointer, true))
    }

    fn free(&self, pointer: *mut u8) -> Result<(), CudaError> {
        let opened_region = self.protection.open([pointer as usize]);
        self.memory.free(pointer)?;
        self.protection.remove(pointer as usize);
        drop(opened_region);
        Ok(())
    }

    fn share_host(&self, pointer: *mut u8, bytes: usize) {
        let mut ranges = self.shared_host.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match bytes {
            0 => ranges.remove(&(pointer as usize)),
            bytes => ranges.insert(pointer as usize, bytes),
        };
    }

    fn run_host(&self, runs: bool) {
        self.protection.set_host(runs);
    }

    #[allow(unsafe_code)]
    unsafe fn copy(
        &self,
        destination: *mut u8,
        source: *const u8,
        bytes: usize,
        kind: CopyKind,
        stream: *mut c_void,
    ) -> Result<(), CudaError> {
        let (to_device, from_device) = match kind {
            CopyKind::HostToHost | CopyKind::Default => (false, false),
            CopyKind::HostToDevice => (true, false),
            CopyKind::DeviceToHost => (false, true),
            CopyKind::DeviceToDevice => (true, true),
        };
        if to_device && !self.memory.contains(destination as usize, bytes)
            || from_device && !self.memory.contains(source as usize, bytes)
        {
            return Err(CudaError::INVALID_VALUE);
        }
        let _opened = self.protection.open([destination as usize, source as usize]);
        // SAFETY: the device's side was checked; the host's side is the caller's word, as in CUDA.
        unsafe { std::ptr::copy(source, destination, bytes) };
        check::note_copy(destination as usize, source as usize, bytes, stream);
        Ok(())
    }

    #[allow(unsafe_code, clippy::not_unsafe_ptr_arg_deref)]
    fn set(
        &self,
        destination: *mut u8,
        value: u8,
        bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), CudaError> {
        if !self.memory.contains(destination as usize, bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        let _opened = self.protection.open([destination as usize]);
        // SAFETY: checked above.
        unsafe { std::ptr::write_bytes(destination, value, bytes) };
        check::note_fill(destination as usize, bytes, stream);
        Ok(())
    }

    fn symbol(&self, host: *mut u8, _name: &str, bytes: usize) -> Result<*mut u8, CudaError> {
        self.memory.add_symbol(host as usize, bytes);
        Ok(host)
    }

    #[allow(unsafe_code)]
    fn launch(&self, launch: &Launch) -> Result<(), CudaError> {
        let earlier = self.launches.fetch_add(1, Ordering::SeqCst);
        let _opened = self.protection.open_all();
        if self.settings.end_before == Some(earlier) {
            finish_early();
        }
        watch::begin_launches(earlier + 1);
        roundings::begin_launch(earlier + 1);
        // SAFETY: the artifact made copies of the arguments for this launch.
        unsafe { traps::set_traps(&Self::arguments(launch), |address| self.is_device(address)) };
        let Launch { kernel: name, thunk, args, grid, block, shared_bytes, shared_limit, .. } =
            *launch;
        let job = GridJob {
            shape: LaunchShape { grid, block },
            order: self.settings.order,
            shared_bytes,
            shared_limit,
            clusters: Clusters { grid, sides: launch.cluster.unwrap_or([1; 3]) },
            cooperative: launch.cooperative,
            kernel: BlockKernel { name, thunk, args },
        };
        CORE.with_borrow_mut(|core| {
            let core = core.as_mut().ok_or(CudaError::INITIALIZATION)?;
            check::begin_launch(name, job.shape, launch.stream);
            self.pool.run(core, &job);
            check::end_launch();
            roundings::end_launch();
            Ok(())
        })
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        let (used, limit) = self.memory.usage();
        (limit - used, limit)
    }

    fn overruns(&self) -> Vec<String> {
        self.memory.overruns()
    }

    fn take_access_findings(&self) -> AccessFindings {
        let Some(artifact) = self.settings.checked.as_deref() else {
            return AccessFindings::default();
        };
        let touched = check::list_touched_memory();
        AccessFindings { touched, ..check::collect_access_findings(artifact) }
    }

    fn input(&self, tensor: *const u8, bytes: usize) {
        check::note_input(tensor as usize, bytes);
    }

    fn watch(&self, tensor: *mut u8) {
        if let Some((begin, bytes)) = self.memory.pages(tensor as usize) {
            self.protection.share(begin);
            watch::start_tensor_watch(begin, bytes);
        }
    }

    fn last_write(&self) -> Option<u64> {
        watch::last_write()
    }
}

/// The label of an allocation: the allocating function, and the `file:line` of its call.
pub(super) fn allocation_label(function: &str, site: CallSite) -> String {
    match site.describe() {
        place if place.is_empty() => function.to_owned(),
        place => format!("{function} at {place}"),
    }
}
