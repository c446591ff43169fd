//! The reference machine: a CUDA device whose kernels run on this CPU.
//!
//! The same sources and inputs give the same bits on any machine and any number of cores.

mod block;
mod fault;
mod fiber;
mod frames;
mod grid;
mod memory;
pub mod order;
mod positions;
mod shape;
mod shared;
mod waiting;
mod warp;
mod watch;

use std::cell::RefCell;
use std::ffi::c_void;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::block::calls::{
    active_mask, barrier, barriers_differ, warp_collective, whole_block, yield_thread,
};
pub use self::block::running::place;
pub use self::grid::atomic_turn;
pub use self::memory::pages_of;
pub use self::shape::MAX_THREADS;
pub use self::shared::{
    DEFAULT_BYTES as DEFAULT_SHARED_BYTES, MAX_BYTES as MAX_SHARED_BYTES, allocate as shared_alloc,
    new_slot as shared_slot,
};

use self::block::{BlockRunner, Kernel};
use self::grid::{Core, Job, Pool};
use self::memory::Memory;
use self::order::Order;
use self::shape::Shape;
use self::shared::SharedMemory;
use self::waiting::WaitingGroup;
use super::abi::{Site, ThreadPointers};
use super::error::CudaError;
use super::report::Reporter;
use super::{CopyKind, Device, Launch, end, finish_early};
use crate::summary::Poison;

/// How this replay differs from the plain one, and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What memory holds before it is written.
    pub poison: Poison,
    /// The order of blocks and threads.
    pub order: Order,
    /// Operating-system threads that run blocks.
    pub threads: usize,
    /// Bytes of device memory.
    pub memory_bytes: usize,
    /// How operations round.
    pub rounding: Rounding,
    /// The launch, from 0, at which the replay ends instead; none to perform all.
    pub end_before: Option<u64>,
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
}

impl Rounding {
    /// The number that `replay_rt::rounding` has for it.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Makes the calling operating-system thread round so.
    pub fn use_on_this_thread(self) {
        super::math::set_rounding(self);
    }
}

/// The device.
pub struct Cpu {
    memory: &'static Memory,
    settings: Settings,
    pool: Pool,
    launches: AtomicU64,
}

thread_local! {
    static CORE: RefCell<Option<Core>> = const { RefCell::new(None) };
}

impl Cpu {
    /// A device whose threads find their built-in variables through `pointers`, which is called
    /// on each operating-system thread that runs blocks.
    pub fn new(
        settings: Settings,
        reporter: &Reporter,
        pointers: impl Fn() -> ThreadPointers + Copy + Send + Sync + 'static,
    ) -> Cpu {
        let memory: &'static Memory =
            Box::leak(Box::new(Memory::new(settings.poison, settings.memory_bytes)));
        fault::install(memory, reporter);
        let core = move || {
            fault::use_own_stack();
            settings.rounding.use_on_this_thread();
            let shared = SharedMemory::new(scratch_poison(settings.poison), too_much_shared_memory);
            let shared = shared.unwrap_or_else(|error| {
                end("out of memory", format!("no memory for shared memory: {error}"), None)
            });
            Core { runner: BlockRunner::new(pointers(), deadlock), shared }
        };
        CORE.set(Some(core()));
        let (pool, launches) = (Pool::new(settings.threads, core), AtomicU64::new(0));
        Cpu { memory, settings, pool, launches }
    }
}

fn deadlock(groups: &[WaitingGroup]) -> ! {
    let groups: Vec<String> =
        groups.iter().map(|group| format!("threads {} {}", group.threads, group.place)).collect();
    end("barrier never reached", groups.join("; "), place())
}

/// What scratch and shared memory hold: near to `poison`, but told from it, so that an output that
/// was copied from there does not look unwritten.
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
    end("too much shared memory", detail, place())
}

impl Device for Cpu {
    fn describe(&self) -> (String, String) {
        ("CPU".to_owned(), "cpu".to_owned())
    }

    fn is_host(&self) -> bool {
        true
    }

    fn holds(&self, pointer: *const u8, bytes: usize) -> bool {
        self.memory.contains(pointer as usize, bytes)
    }

    fn malloc(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        self.memory.allocate(bytes, label)
    }

    fn malloc_in(
        &self,
        file: &File,
        offset: usize,
        bytes: usize,
        label: String,
    ) -> Result<*mut u8, CudaError> {
        self.memory.allocate_in(Some((file, offset)), bytes, label)
    }

    #[allow(unsafe_code)]
    fn malloc_scratch(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let pointer = self.memory.allocate(bytes, label)?;
        // SAFETY: allocated just now, and nobody else knows of it.
        unsafe { memory::fill(scratch_poison(self.settings.poison), pointer as usize, bytes) };
        Ok(pointer)
    }

    fn free(&self, pointer: *mut u8) -> Result<(), CudaError> {
        self.memory.free(pointer)
    }

    #[allow(unsafe_code)]
    unsafe fn copy(
        &self,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        kind: CopyKind,
        _stream: *mut c_void,
    ) -> Result<(), CudaError> {
        let on_device = |pointer: *const u8| self.memory.contains(pointer as usize, bytes);
        let (to_device, from_device) = match kind {
            CopyKind::HostToHost | CopyKind::Default => (false, false),
            CopyKind::HostToDevice => (true, false),
            CopyKind::DeviceToHost => (false, true),
            CopyKind::DeviceToDevice => (true, true),
        };
        if to_device && !on_device(to) || from_device && !on_device(from) {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the device's side was checked; the host's side is the caller's word, as in CUDA.
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(())
    }

    #[allow(unsafe_code, clippy::not_unsafe_ptr_arg_deref)]
    fn set(
        &self,
        to: *mut u8,
        value: u8,
        bytes: usize,
        _stream: *mut c_void,
    ) -> Result<(), CudaError> {
        if !self.memory.contains(to as usize, bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: checked above.
        unsafe { std::ptr::write_bytes(to, value, bytes) };
        Ok(())
    }

    fn symbol(&self, host: *mut u8, _name: &str, bytes: usize) -> Result<*mut u8, CudaError> {
        self.memory.add_symbol(host as usize, bytes);
        Ok(host)
    }

    fn launch(&self, launch: &Launch) -> Result<(), CudaError> {
        let earlier = self.launches.fetch_add(1, Ordering::SeqCst);
        if self.settings.end_before == Some(earlier) {
            finish_early();
        }
        watch::begin_launches(earlier + 1);
        let Launch { kernel: name, thunk, args, grid, block, shared_bytes, shared_limit, .. } =
            *launch;
        let job = Job {
            shape: Shape { grid, block },
            order: self.settings.order,
            shared_bytes,
            shared_limit,
            kernel: Kernel { name, thunk, args },
        };
        CORE.with_borrow_mut(|core| {
            let core = core.as_mut().ok_or(CudaError::INITIALIZATION)?;
            self.pool.run(core, &job);
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

    fn watch(&self, tensor: *mut u8) {
        if let Some((begin, bytes)) = self.memory.pages(tensor as usize) {
            watch::start(begin, bytes);
        }
    }

    fn last_write(&self) -> Option<u64> {
        watch::last_write()
    }
}

/// `file:line` of a call for the label of what it allocates.
pub(super) fn label(function: &str, site: Site) -> String {
    match site.describe() {
        place if place.is_empty() => function.to_owned(),
        place => format!("{function} at {place}"),
    }
}
