//! The CUDA runtime API as CUDA documents it. It checks arguments, remembers errors and records
//! launches; the device does the work.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use super::abi::{Abi, CallSite, RawLaunch};
use super::function_symbols::name_function;
use super::limits::{MULTIPROCESSORS, check_bounds, check_limits, resident_blocks};
use super::renamed::restore_kernel_name;
use super::report::{CALL_MISFIT, HOST_STOP, LaunchRecord, NO_SHADOW};
use super::{CopyKind, Launch, cpu, end_replay, math, runtime_of_process};
use replay_cuda::CudaError;

/// The runtime API's state of the process.
#[derive(Default)]
pub struct ApiState {
    last_error: AtomicI32,
    /// By kernel: the dynamic shared memory allowed by `cudaFuncSetAttribute`.
    shared_limits: Mutex<HashMap<usize, usize>>,
    /// The kernels with permission for clusters beyond the portable size.
    wide_clusters: Mutex<HashSet<usize>>,
    /// By handle: how much work had been asked for when an event was recorded.
    events: Mutex<HashMap<usize, Option<u64>>>,
    /// The number of launches, copies and fills so far. It is the time of events: a real clock
    /// could not be replayed.
    work: AtomicU64,
    handles: AtomicUsize,
}

impl ApiState {
    /// Counts a launch, a copy or a fill.
    fn count_work(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
    }

    /// The most blocks of a cluster of the kernel.
    fn most_in_cluster(&self, function: *const c_void) -> u32 {
        let wide_kernels = self.wide_clusters.lock().expect("no code panics while it holds this");
        if wide_kernels.contains(&(function as usize)) {
            cpu::MOST_CLUSTER_BLOCKS as u32
        } else {
            cpu::PORTABLE_CLUSTER_BLOCKS
        }
    }

    /// A new handle; small numbers are names of the default streams.
    fn new_handle(&self) -> usize {
        self.handles.fetch_add(1, Ordering::Relaxed) + 0x10
    }
}

/// The table for artifacts. Its device side serves the CPU only; kernels on a GPU
/// bring their own.
pub static TABLE: Abi = Abi {
    barrier: cpu::wait_at_barrier,
    warp_collective: cpu::warp_collective,
    warp_fold: cpu::warp_fold,
    active_mask: cpu::active_mask,
    atomic_turn: cpu::atomic_turn,
    yield_thread: cpu::yield_thread,
    grid_barrier: cpu::grid_barrier,
    cluster_arrive: cpu::cluster_arrive,
    cluster_wait: cpu::cluster_wait,
    is_cooperative: cpu::is_cooperative,
    whole_block: cpu::whole_block,
    rest_of_block: cpu::rest_of_block,
    block_turns: cpu::block_turns,
    turn_barrier: cpu::turn_barrier,
    turn_fold: cpu::turn_fold,
    turn_yield: cpu::turn_yield,
    turn_end: cpu::turn_end,
    is_device_memory,
    barriers_differ: cpu::barriers_differ,
    check_state: cpu::check_state,
    access: cpu::check_access,
    fence: cpu::note_fence,
    all_arrived: cpu::all_arrived,
    shared_alloc: cpu::shared_alloc,
    shared_slot: cpu::shared_slot,
    device_print,
    device_abort,
    call_misfit,
    no_shadow,
    launch: launch_kernel,
    name_function,
    malloc: malloc_device,
    malloc_host,
    malloc_managed,
    free: free_device,
    free_host,
    memcpy: copy_memory,
    memset: set_memory,
    memcpy_symbol,
    symbol_address,
    synchronize: synchronize_stream,
    get_last_error,
    func_set_attribute,
    occupancy: count_resident_blocks,
    multiprocessors: count_multiprocessors,
    mem_get_info,
    device_is_host,
    stream_create,
    stream_destroy: destroy_stream,
    event_create,
    event_destroy,
    event_record,
    event_wait,
    event_synchronize,
    event_elapsed,
    math_f1: math::call_unary_f32,
    math_d1: math::call_unary_f64,
    math_f2: math::call_binary_f32,
    math_d2: math::call_binary_f64,
    math_f3: math::multiply_add_f32,
    math_d3: math::multiply_add_f64,
    round_as_recorded: cpu::roundings::round_as_recorded,
};

/// Remembers the error of a call for `cudaGetLastError`, and returns its code.
fn record_cuda_result(result: Result<(), CudaError>) -> c_int {
    let code = result.err().unwrap_or(CudaError::SUCCESS).0;
    if code != 0 {
        runtime_of_process().api.last_error.store(code, Ordering::SeqCst);
    }
    code
}

unsafe extern "C" fn is_device_memory(pointer: *const c_void, bytes: usize) -> c_int {
    runtime_of_process().device.can_host_read(pointer.cast(), bytes).into()
}

unsafe extern "C" fn get_last_error(clear: c_int) -> c_int {
    let last = &runtime_of_process().api.last_error;
    if clear != 0 { last.swap(0, Ordering::SeqCst) } else { last.load(Ordering::SeqCst) }
}

unsafe extern "C" {
    /// The C library's stream; the artifact prints to it.
    static stdout: *mut libc::FILE;
}

/// Makes stdout line-buffered: the output of replayed code then keeps its order with other
/// streams and survives a crash.
pub fn buffer_output_by_line() {
    // SAFETY: nothing was printed yet.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 1 << 12) };
}

unsafe extern "C" fn device_print(text: *const c_char, bytes: usize) {
    // SAFETY: the artifact passes a text of `bytes` bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes) };
    // In the order of the blocks, whatever the number of cores.
    if cpu::current_place().is_some() {
        // SAFETY: a thread of a kernel calls.
        unsafe { cpu::atomic_turn() };
    }
    // SAFETY: the stream of host code as well, so both keep their order.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout) };
}

unsafe extern "C" fn device_abort(reason_pointer: *const c_char, site: CallSite) -> ! {
    let place = cpu::current_place();
    let what = if place.is_some() { "device code stopped itself" } else { HOST_STOP };
    // SAFETY: the artifact passes a C string.
    end_replay(what, unsafe { describe_reason(reason_pointer, site) }, place)
}

unsafe extern "C" fn call_misfit(reason_pointer: *const c_char, site: CallSite) -> ! {
    // SAFETY: the artifact passes a C string.
    end_replay(CALL_MISFIT, unsafe { describe_reason(reason_pointer, site) }, None)
}

/// The reason of an artifact, with its place.
///
/// # Safety
/// `reason` must be a C string.
unsafe fn describe_reason(reason: *const c_char, site: CallSite) -> String {
    // SAFETY: the caller's promise.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    match site.describe() {
        place if place.is_empty() => reason.into_owned(),
        place => format!("{reason} at {place}"),
    }
}

unsafe extern "C" fn no_shadow(obstacle_pointer: *const c_char, site: CallSite) -> ! {
    // SAFETY: the artifact passes a C string.
    let obstacle = unsafe { CStr::from_ptr(obstacle_pointer) }.to_string_lossy();
    let detail = match site.describe() {
        place if place.is_empty() => obstacle.into_owned(),
        place => format!("{place}: {obstacle}"),
    };
    end_replay(NO_SHADOW, detail, cpu::current_place())
}

unsafe extern "C" fn launch_kernel(raw: *const RawLaunch) -> c_int {
    let runtime = runtime_of_process();
    runtime.api.count_work();
    // SAFETY: the artifact passes a launch, and it outlives the call; its name is a literal.
    let (raw, kernel) = unsafe { (&*raw, CStr::from_ptr((*raw).kernel)) };
    let unit_name: &'static str = kernel.to_str().unwrap_or("kernel");
    let kernel = restore_kernel_name(unit_name);
    let limits = runtime.api.shared_limits.lock().expect("no code panics while it holds this");
    let dynamic_limit = limits.get(&(raw.function as usize)).copied();
    drop(limits);
    let (default, opt_in_limit) = shared_limits();
    let dynamic_limit = dynamic_limit.unwrap_or(default);
    // A kernel with permission for more may have its static shared memory on top.
    let shared_limit = if dynamic_limit > default { opt_in_limit } else { default };
    let launch = Launch {
        kernel,
        unit_name,
        thunk: raw.thunk,
        function: raw.function,
        args: raw.args,
        arg_sizes: raw.arg_sizes,
        arg_kinds: raw.arg_kinds,
        arg_count: raw.arg_count as usize,
        grid: raw.grid,
        block: raw.block,
        shared_bytes: raw.shared_bytes,
        shared_limit,
        cooperative: raw.cooperative != 0,
        cluster: (raw.cluster != [0; 3]).then_some(raw.cluster),
        names_cluster: raw.names_cluster != 0,
        stream: raw.stream,
    };
    let limit_check = check_limits(raw, dynamic_limit)
        .and_then(|()| check_bounds(raw, runtime.api.most_in_cluster(raw.function), opt_in_limit));
    let bounds = match limit_check {
        Err(CudaError::INVALID_VALUE) => format!(": __launch_bounds__({})", raw.max_threads),
        Err(CudaError::INVALID_CLUSTER_SIZE) => {
            let [x, y, z] = raw.cluster;
            match raw.names_cluster {
                0 => format!(": __cluster_dims__({x}, {y}, {z})"),
                _ => format!(": clusters of ({x}, {y}, {z}) blocks"),
            }
        }
        _ => String::new(),
    };
    let record = |error: Option<CudaError>| LaunchRecord {
        kernel: kernel.to_owned(),
        grid: raw.grid,
        block: raw.block,
        shared_bytes: raw.shared_bytes as u64,
        site: raw.site.describe(),
        error: error.map(|error| format!("{error}{bounds}")),
    };
    if limit_check.is_ok() {
        runtime.reporter.launch(record(None));
    }
    let result = limit_check.and_then(|()| runtime.device.launch(&launch));
    if let Err(error) = result {
        runtime.reporter.launch(record(Some(error)));
    }
    record_cuda_result(result)
}

unsafe extern "C" fn malloc_device(
    pointer: *mut *mut c_void,
    bytes: usize,
    site: CallSite,
) -> c_int {
    let device = &runtime_of_process().device;
    let result = device.malloc_scratch(bytes, cpu::allocation_label("cudaMalloc", site));
    // SAFETY: the artifact passes the address of a pointer.
    record_cuda_result(result.map(|address| unsafe { *pointer = address.cast() }))
}

unsafe extern "C" fn malloc_managed(
    pointer: *mut *mut c_void,
    bytes: usize,
    site: CallSite,
) -> c_int {
    let device = &runtime_of_process().device;
    let result = device.malloc_managed(bytes, cpu::allocation_label("cudaMallocManaged", site));
    // SAFETY: the artifact passes the address of a pointer.
    record_cuda_result(result.map(|address| unsafe { *pointer = address.cast() }))
}

unsafe extern "C" fn free_device(pointer: *mut c_void) -> c_int {
    if pointer.is_null() {
        return 0;
    }
    record_cuda_result(runtime_of_process().device.free(pointer.cast()))
}

unsafe extern "C" fn malloc_host(pointer: *mut *mut c_void, bytes: usize) -> c_int {
    // SAFETY: plain memory of the process, freed by `free_host`; poisoned like device memory
    // would hide nothing, so it is zeroed to be the same in every replay.
    let address = unsafe { libc::calloc(bytes.max(1), 1) };
    if address.is_null() {
        return record_cuda_result(Err(CudaError::MEMORY_ALLOCATION));
    }
    // SAFETY: the artifact passes the address of a pointer.
    unsafe { *pointer = address };
    runtime_of_process().device.share_host(address.cast(), bytes.max(1));
    0
}

unsafe extern "C" fn free_host(pointer: *mut c_void) -> c_int {
    runtime_of_process().device.share_host(pointer.cast(), 0);
    // SAFETY: memory of `malloc_host`.
    unsafe { libc::free(pointer) };
    0
}

unsafe extern "C" fn copy_memory(
    destination: *mut c_void,
    source: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    if bytes == 0 {
        return 0;
    }
    let kind = CopyKind::from_number(kind).ok_or(CudaError::INVALID_MEMCPY_DIRECTION);
    runtime_of_process().api.count_work();
    let device = &runtime_of_process().device;
    // SAFETY: the caller vouches for host memory, as in CUDA.
    let copy =
        |kind| unsafe { device.copy(destination.cast(), source.cast(), bytes, kind, stream) };
    record_cuda_result(kind.and_then(copy))
}

unsafe extern "C" fn set_memory(
    pointer: *mut c_void,
    value: c_int,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    if bytes == 0 {
        return 0;
    }
    runtime_of_process().api.count_work();
    record_cuda_result(runtime_of_process().device.set(pointer.cast(), value as u8, bytes, stream))
}

unsafe extern "C" fn memcpy_symbol(
    symbol: *mut c_void,
    name: *const c_char,
    buffer: *mut c_void,
    bytes: usize,
    offset: usize,
    to_symbol: c_int,
    stream: *mut c_void,
) -> c_int {
    let device = &runtime_of_process().device;
    // SAFETY: the artifact passes a literal.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let address = match device.symbol(symbol.cast(), &name, offset + bytes) {
        Ok(address) => address.wrapping_add(offset),
        Err(error) => return record_cuda_result(Err(error)),
    };
    let (destination, source) =
        if to_symbol != 0 { (address, buffer.cast()) } else { (buffer.cast(), address) };
    // The kind is not checked: a symbol on the CPU is a variable of the artifact.
    // SAFETY: the caller vouches for host memory, as in CUDA.
    record_cuda_result(unsafe {
        device.copy(destination, source, bytes, CopyKind::Default, stream)
    })
}

unsafe extern "C" fn symbol_address(
    pointer: *mut *mut c_void,
    symbol: *mut c_void,
    name: *const c_char,
    bytes: usize,
) -> c_int {
    // SAFETY: the artifact passes a literal and the address of a pointer.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let result = runtime_of_process().device.symbol(symbol.cast(), &name, bytes);
    // SAFETY: the address of a pointer, as above.
    record_cuda_result(result.map(|address| unsafe { *pointer = address.cast() }))
}

unsafe extern "C" fn synchronize_stream(stream: *mut c_void) -> c_int {
    cpu::check::note_synchronisation(stream);
    record_cuda_result(runtime_of_process().device.synchronize())
}

/// A block's default limit of shared memory in bytes, and its limit on request.
fn shared_limits() -> (usize, usize) {
    let scale = runtime_of_process().device.shared_scale();
    (cpu::DEFAULT_SHARED_BYTES * scale, cpu::MAX_SHARED_BYTES * scale)
}

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
const MAX_DYNAMIC_SHARED: c_int = 8;

/// `cudaFuncAttributeNonPortableClusterSizeAllowed`.
const WIDE_CLUSTERS: c_int = 14;

unsafe extern "C" fn func_set_attribute(
    function: *const c_void,
    _kernel: *const c_char,
    attribute: c_int,
    value: c_int,
) -> c_int {
    if attribute == WIDE_CLUSTERS {
        let kernels_mutex = &runtime_of_process().api.wide_clusters;
        let mut wide_kernels = kernels_mutex.lock().expect("no code panics while it holds this");
        match value {
            0 => wide_kernels.remove(&(function as usize)),
            _ => wide_kernels.insert(function as usize),
        };
        return 0;
    }
    if attribute != MAX_DYNAMIC_SHARED {
        return 0;
    }
    let (default, opt_in_limit) = shared_limits();
    let Some(bytes) = usize::try_from(value).ok().filter(|&bytes| bytes <= opt_in_limit) else {
        return record_cuda_result(Err(CudaError::INVALID_VALUE));
    };
    let state = &runtime_of_process().api;
    let mut limits = state.shared_limits.lock().expect("no code panics while it holds this");
    limits.insert(function as usize, bytes.max(default));
    0
}

/// `cudaOccupancyMaxActiveBlocksPerMultiprocessor` for a device of compute capability 9.0, as far
/// as threads and shared memory limit it, where the device itself does not tell.
unsafe extern "C" fn count_resident_blocks(
    blocks: *mut c_int,
    function: *const c_void,
    block_size: c_int,
    shared_bytes: usize,
) -> c_int {
    if block_size <= 0 || block_size as usize > cpu::MAX_THREADS {
        return record_cuda_result(Err(CudaError::INVALID_VALUE));
    }
    let threads = block_size as usize;
    let device_occupancy = runtime_of_process().device.occupancy(function, threads, shared_bytes);
    let resident = device_occupancy
        .unwrap_or_else(|| resident_blocks(threads, shared_bytes, shared_limits().1));
    // SAFETY: the artifact passes the address of an int.
    unsafe { *blocks = resident as c_int };
    0
}

unsafe extern "C" fn count_multiprocessors() -> c_int {
    let device_multiprocessors = runtime_of_process().device.multiprocessors();
    device_multiprocessors.map_or(MULTIPROCESSORS as c_int, |count| count as c_int)
}

unsafe extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> c_int {
    let (free_bytes, total_bytes) = runtime_of_process().device.memory();
    // SAFETY: the artifact passes the addresses of two sizes.
    unsafe {
        *free = free_bytes;
        *total = total_bytes;
    }
    0
}

unsafe extern "C" fn device_is_host() -> c_int {
    runtime_of_process().device.is_host().into()
}

/// `cudaStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;

/// Streams are in order among themselves and with each other: a handle is all they need.
unsafe extern "C" fn stream_create(stream: *mut *mut c_void, flags: u32) -> c_int {
    let handle = runtime_of_process().api.new_handle() as *mut c_void;
    if flags & NON_BLOCKING != 0 {
        cpu::check::made_non_blocking(handle);
    }
    // SAFETY: the artifact passes the address of a handle.
    unsafe { *stream = handle };
    0
}

unsafe extern "C" fn destroy_stream(_stream: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn event_create(event: *mut *mut c_void) -> c_int {
    let state = &runtime_of_process().api;
    let handle = state.new_handle();
    state.events.lock().expect("no code panics while it holds this").insert(handle, None);
    // SAFETY: the artifact passes the address of a handle.
    unsafe { *event = handle as *mut c_void };
    0
}

unsafe extern "C" fn event_destroy(event: *mut c_void) -> c_int {
    let events = &runtime_of_process().api.events;
    let removed_event =
        events.lock().expect("no code panics while it holds this").remove(&(event as usize));
    record_cuda_result(removed_event.map(|_| ()).ok_or(CudaError::INVALID_RESOURCE_HANDLE))
}

unsafe extern "C" fn event_wait(stream: *mut c_void, event: *mut c_void) -> c_int {
    cpu::check::note_stream_wait(stream, event);
    0
}

unsafe extern "C" fn event_synchronize(event: *mut c_void) -> c_int {
    cpu::check::note_host_wait(event);
    record_cuda_result(runtime_of_process().device.synchronize())
}

unsafe extern "C" fn event_record(event: *mut c_void, stream: *mut c_void) -> c_int {
    cpu::check::note_event_record(event, stream);
    let runtime = runtime_of_process();
    if let Err(error) = runtime.device.synchronize() {
        return record_cuda_result(Err(error));
    }
    let mut events = runtime.api.events.lock().expect("no code panics while it holds this");
    match events.get_mut(&(event as usize)) {
        Some(time) => {
            *time = Some(runtime.api.work.load(Ordering::Relaxed));
            0
        }
        None => record_cuda_result(Err(CudaError::INVALID_RESOURCE_HANDLE)),
    }
}

unsafe extern "C" fn event_elapsed(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> c_int {
    let events = runtime_of_process().api.events.lock();
    let events = events.expect("no code panics while it holds this");
    let start_time = events.get(&(start as usize)).copied().flatten();
    let end_time = events.get(&(end as usize)).copied().flatten();
    match (start_time, end_time) {
        (Some(start), Some(end)) => {
            let elapsed = end as f32 - start as f32;
            // SAFETY: the artifact passes the address of a float.
            unsafe { *milliseconds = elapsed };
            0
        }
        _ => record_cuda_result(Err(CudaError::INVALID_RESOURCE_HANDLE)),
    }
}
