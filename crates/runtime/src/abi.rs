//! The Rust side of the table of functions for compiled host and device code. It mirrors
//! `include/replay/abi.h`: same fields, same order, same types.
//!
//! Only declarations: the functions are in the runtime API (`api.rs`) and in the device.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

/// Where in the user's sources a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CallSite {
    /// A C string with the lifetime of the artifact, or null.
    pub file: *const c_char,
    /// The line, from 1.
    pub line: u32,
}

impl CallSite {
    /// `file:line`, or an empty text where the site is not known.
    pub fn describe(&self) -> String {
        if self.file.is_null() {
            return String::new();
        }
        // SAFETY: a site's file is a string literal of the artifact.
        let file = unsafe { CStr::from_ptr(self.file) };
        format!("{}:{}", file.to_string_lossy(), self.line)
    }
}

/// Runs one CUDA thread of a kernel, compiled for the host.
pub type Thunk = unsafe extern "C" fn(args: *mut *mut c_void);

/// One `kernel<<<grid, block, shared, stream>>>(args)`.
#[repr(C)]
pub struct RawLaunch {
    /// The kernel's name.
    pub kernel: *const c_char,
    /// The kernel for the host.
    pub thunk: Thunk,
    /// A pointer to each argument.
    pub args: *mut *mut c_void,
    /// Bytes of each argument.
    pub arg_sizes: *const usize,
    /// The [`ArgumentKind`] of each argument; null if unknown.
    pub arg_kinds: *const u8,
    /// The number of arguments.
    pub arg_count: u32,
    /// The limit on threads per block from `__launch_bounds__`; 0 if there is none.
    pub max_threads: u32,
    /// The cluster dimensions from `__cluster_dims__` or the launch's attribute; 0 if there are none.
    pub cluster: [u32; 3],
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// 1 if all blocks run together, else 0.
    pub cooperative: u32,
    /// 1 if the launch names the cluster, 2 if the kernel has another one; else 0.
    pub names_cluster: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// The stream, null for the default one.
    pub stream: *mut c_void,
    /// Identifies the kernel for `cudaFuncSetAttribute`.
    pub function: *const c_void,
    /// Where the launch stands.
    pub site: CallSite,
}

/// The kind of a kernel argument; numbered as in `replay_argument`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ArgumentKind {
    /// A number, or a pointer to a function.
    Value = 0,
    /// A pointer to an object.
    Pointer,
    /// A reference: its address is the object's.
    Reference,
    /// A class, copied byte by byte.
    Class,
}

impl ArgumentKind {
    /// The kind with this number of `replay_argument`.
    pub(crate) fn from_number(number: u8) -> ArgumentKind {
        match number {
            1 => ArgumentKind::Pointer,
            2 => ArgumentKind::Reference,
            3 => ArgumentKind::Class,
            _ => ArgumentKind::Value,
        }
    }
}

/// A collective operation of a warp; numbered as in `replay_warp_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WarpOp {
    Sync = 0,
    Shuffle,
    Ballot,
    MatchAny,
    MatchAll,
    ReduceAdd,
    ReduceMinU,
    ReduceMaxU,
    ReduceMinS,
    ReduceMaxS,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}

impl WarpOp {
    const ALL: [WarpOp; 13] = [
        WarpOp::Sync,
        WarpOp::Shuffle,
        WarpOp::Ballot,
        WarpOp::MatchAny,
        WarpOp::MatchAll,
        WarpOp::ReduceAdd,
        WarpOp::ReduceMinU,
        WarpOp::ReduceMaxU,
        WarpOp::ReduceMinS,
        WarpOp::ReduceMaxS,
        WarpOp::ReduceAnd,
        WarpOp::ReduceOr,
        WarpOp::ReduceXor,
    ];

    /// The operation with this number of `replay_warp_op`.
    pub(crate) fn from_number(number: u32) -> WarpOp {
        WarpOp::ALL[number as usize]
    }
}

/// Does all steps of a chain of shuffles on the values of the 32 lanes of a warp; the second argument holds the
/// steps, the third the participating lanes.
pub type FoldFn = unsafe extern "C" fn(*mut u64, u64, u32);

/// A lane's result of a chain of shuffles.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Folded {
    /// The lane's value after the whole chain, else the value from the first step.
    pub value: u64,
    /// Whether all lanes came with the same chain.
    pub whole: u64,
}

/// How a barrier combines the predicates; numbered as in `replay_barrier_op`.
pub mod barrier_op {
    /// No predicate.
    pub const PLAIN: u32 = 0;
    /// The number of threads whose predicate is not 0.
    pub(crate) const COUNT: u32 = 1;
    /// Whether all predicates are not 0.
    pub(crate) const AND: u32 = 2;
}

/// One thread of a block, as a kernel in thread-loop form sees it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockThread {
    /// Its `threadIdx`.
    pub index: [u32; 3],
    /// Its linear index.
    pub linear: u32,
}

/// The threads of a block, for one call of a kernel.
#[derive(Debug)]
#[repr(C)]
pub struct BlockThreads {
    /// Memory for a frame of each thread, aligned to 256 bytes.
    pub frames: *mut c_void,
    /// Memory for the kernel's own use, aligned to 256 bytes.
    pub scratch: *mut c_void,
    /// The threads in their running order.
    pub threads: *const BlockThread,
    pub count: u32,
    /// Whether each stands at the position of its linear index.
    pub in_order: u32,
}

/// The threads of one warp with the turn, in a kernel that runs a block in turns.
#[derive(Debug)]
#[repr(C)]
pub struct WarpTurn {
    /// The first of them, by its place in the order of the threads.
    pub position: u32,
    /// Their number; 0 if all threads have ended.
    pub count: u32,
    /// The result of each lane's last chain of shuffles.
    pub results: *const u64,
    /// The lanes with the result of a whole chain.
    pub whole: u32,
    /// Whether no lane of the warp waits for others of it.
    pub alone: u32,
}

/// The arrival of threads of one warp at a chain of shuffles.
#[derive(Debug)]
#[repr(C)]
pub struct FoldWait {
    /// The first of them, by its place in the order of the threads.
    pub position: u32,
    pub count: u32,
    /// The participating lanes.
    pub mask: u32,
    /// The value of each thread.
    pub values: *const u64,
    /// The first lane each reads.
    pub arguments: *const u32,
    /// The steps of the chain.
    pub steps: u64,
    /// Does them.
    pub run: FoldFn,
    /// Where the chain stands.
    pub site: CallSite,
}

type CudaStatus = c_int;

/// The table; the header describes each function.
#[repr(C)]
pub struct Abi {
    pub barrier: unsafe extern "C" fn(u32, u32, CallSite) -> u32,
    pub warp_collective: unsafe extern "C" fn(u32, u32, u64, u32, CallSite) -> u64,
    pub warp_fold: unsafe extern "C" fn(u32, u64, u32, u64, FoldFn, CallSite) -> Folded,
    pub active_mask: unsafe extern "C" fn() -> u32,
    pub atomic_turn: unsafe extern "C" fn(),
    pub yield_thread: unsafe extern "C" fn(),
    pub grid_barrier: unsafe extern "C" fn(CallSite),
    pub cluster_arrive: unsafe extern "C" fn(CallSite),
    pub cluster_wait: unsafe extern "C" fn(CallSite),
    pub is_cooperative: unsafe extern "C" fn() -> u32,
    pub whole_block: unsafe extern "C" fn(usize, usize, *mut BlockThreads),
    pub rest_of_block: unsafe extern "C" fn(*mut BlockThreads),
    pub block_turns: unsafe extern "C" fn(usize, usize, *mut BlockThreads, *mut WarpTurn),
    pub turn_barrier: unsafe extern "C" fn(u32, u32, CallSite, *mut WarpTurn),
    pub turn_fold: unsafe extern "C" fn(*const FoldWait, *mut WarpTurn),
    pub turn_yield: unsafe extern "C" fn(u32, *mut WarpTurn),
    pub turn_end: unsafe extern "C" fn(u32, u32, *mut WarpTurn),
    pub is_device_memory: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    pub barriers_differ: unsafe extern "C" fn(*const CallSite) -> !,
    pub check_state: extern "C" fn() -> *mut c_void,
    pub access: unsafe extern "C" fn(*const c_void, usize, u32, *const c_void),
    pub fence: unsafe extern "C" fn(),
    pub all_arrived: unsafe extern "C" fn(),
    pub shared_alloc: unsafe extern "C" fn(u32, usize, usize, *const c_char) -> *mut c_void,
    pub shared_slot: unsafe extern "C" fn() -> u32,
    pub device_print: unsafe extern "C" fn(*const c_char, usize),
    pub device_abort: unsafe extern "C" fn(*const c_char, CallSite) -> !,
    pub call_misfit: unsafe extern "C" fn(*const c_char, CallSite) -> !,
    pub no_shadow: unsafe extern "C" fn(*const c_char, CallSite) -> !,

    pub launch: unsafe extern "C" fn(*const RawLaunch) -> CudaStatus,
    pub name_function: extern "C" fn(*const c_void) -> *const c_char,
    pub malloc: unsafe extern "C" fn(*mut *mut c_void, usize, CallSite) -> CudaStatus,
    pub malloc_host: unsafe extern "C" fn(*mut *mut c_void, usize) -> CudaStatus,
    pub malloc_managed: unsafe extern "C" fn(*mut *mut c_void, usize, CallSite) -> CudaStatus,
    pub free: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub free_host: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub memcpy:
        unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, *mut c_void) -> CudaStatus,
    pub memset: unsafe extern "C" fn(*mut c_void, c_int, usize, *mut c_void) -> CudaStatus,
    pub memcpy_symbol: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *mut c_void,
        usize,
        usize,
        c_int,
        *mut c_void,
    ) -> CudaStatus,
    pub symbol_address:
        unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char, usize) -> CudaStatus,
    pub synchronize: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub get_last_error: unsafe extern "C" fn(c_int) -> CudaStatus,
    pub func_set_attribute:
        unsafe extern "C" fn(*const c_void, *const c_char, c_int, c_int) -> CudaStatus,
    pub occupancy: unsafe extern "C" fn(*mut c_int, *const c_void, c_int, usize) -> CudaStatus,
    pub multiprocessors: unsafe extern "C" fn() -> c_int,
    pub mem_get_info: unsafe extern "C" fn(*mut usize, *mut usize) -> CudaStatus,
    pub device_is_host: unsafe extern "C" fn() -> c_int,
    pub stream_create: unsafe extern "C" fn(*mut *mut c_void, u32) -> CudaStatus,
    pub stream_destroy: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub event_create: unsafe extern "C" fn(*mut *mut c_void) -> CudaStatus,
    pub event_destroy: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub event_record: unsafe extern "C" fn(*mut c_void, *mut c_void) -> CudaStatus,
    pub event_wait: unsafe extern "C" fn(*mut c_void, *mut c_void) -> CudaStatus,
    pub event_synchronize: unsafe extern "C" fn(*mut c_void) -> CudaStatus,
    pub event_elapsed: unsafe extern "C" fn(*mut f32, *mut c_void, *mut c_void) -> CudaStatus,

    pub math_f1: unsafe extern "C" fn(u32, f32) -> f32,
    pub math_d1: unsafe extern "C" fn(u32, f64) -> f64,
    pub math_f2: unsafe extern "C" fn(u32, f32, f32) -> f32,
    pub math_d2: unsafe extern "C" fn(u32, f64, f64) -> f64,
    pub math_f3: unsafe extern "C" fn(f32, f32, f32) -> f32,
    pub math_d3: unsafe extern "C" fn(f64, f64, f64) -> f64,
    pub round_as_recorded: unsafe extern "C" fn(f64, f64) -> f64,
}

/// The built-in variables of one operating-system thread, in the artifact's thread-local storage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThreadPointers {
    /// `threadIdx`.
    pub thread_idx: *mut [u32; 3],
    /// `blockIdx`.
    pub block_idx: *mut [u32; 3],
    /// `blockDim`.
    pub block_dim: *mut [u32; 3],
    /// `gridDim`.
    pub grid_dim: *mut [u32; 3],
    /// `replay_rt::block`.
    pub block: *mut BlockState,
    /// The artifact's `__managed__` variables: the first byte, and one past the last.
    pub managed: [*mut u8; 2],
    /// Whether the host computes algorithms of libraries where kernels run on a GPU.
    pub has_host_algorithms: bool,
}

/// `replay_rt::block_state` of `include/replay/thread.h`.
#[repr(C)]
#[derive(Debug)]
pub struct BlockState {
    /// The launch's dynamic shared memory.
    pub dynamic_shared: *mut u8,
    /// The first byte of the block's shared memory.
    pub shared_begin: *mut u8,
    /// One past its last byte.
    pub shared_end: *mut u8,
    /// The address of each static `__shared__` variable, null before its first use.
    pub shared_slots: *mut *mut c_void,
    /// By rank in the cluster: the first byte of the block's shared memory.
    pub cluster_shared: *const *mut u8,
    /// Blocks of the cluster along x, y, z; 1 each where the launch has none.
    pub cluster: [u32; 3],
    /// The block's rank in its cluster.
    pub cluster_rank: u32,
    /// The running thread, in a kernel that runs several by one call; null in other kernels, where `threadIdx` tells it.
    pub running: *const BlockThread,
    /// The linear index of the current thread in its block; not kept up in thread-loop form.
    pub linear_thread: u32,
    /// Whether every earlier block has ended.
    pub has_turn: u32,
    /// Whether a kernel runs, as opposed to host code.
    pub in_kernel: u32,
    /// The weight of possibly waiting operations since the last yield; see
    /// `may_be_waiting` in `include/replay/thread.h`.
    pub restless: u32,
    /// How often a thread in a loop over the rest of its block has let others run.
    pub yields: u32,
}

/// `replay_bind(abi, bytes of it, rounding)`: returns 0 unless the sizes disagree.
pub type BindFn = unsafe extern "C" fn(*const Abi, usize, c_int) -> c_int;
/// `replay_thread(pointers)`: where this operating-system thread's built-in variables are.
pub type ThreadFn = unsafe extern "C" fn(*mut ThreadPointers);
/// `replay_call(tensors, sizes, strides)`: the harness's statements.
pub type CallFn = unsafe extern "C" fn(*const *mut c_void, *const i64, *const *const i64);
