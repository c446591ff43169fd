//! A GPU as the device of a replay: host code is the same, launches run kernels compiled by NVRTC.
//!
//! Every call is finished before the next begins, so an error belongs to its kernel. A sticky error, in CUDA's sense,
//! ends the process with a report.
#![allow(unsafe_code)]

mod blas;
mod deviations;
mod host;
mod library;
mod memory;
mod random;
mod shared;
mod summary;
mod timeout;
mod upload;
mod widen;

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

pub use self::upload::pinned_copy_seconds;

use self::blas::BlasCalls;
use self::deviations::DeviceDeviations;
use self::library::{Library, nameless_kernel_refusal};
use self::memory::GpuMemory;
use self::random::RandomCalls;
use self::shared::SharedFill;
use self::summary::Summarizer;
use self::upload::Uploader;
use self::widen::StoredInputs;
use super::abi::ThreadPointers;
use super::function_symbols::external_symbol_at;
use super::report::{ChildReport, ReplayFault};
use super::{CopyKind, Deviating, Device, Launch, Widening, cpu, end_with_report};
use replay_base::summary::{Poison, Summary};
use replay_base::tensor::DType;
use replay_cuda::driver::{
    Address, Context, Function, LaunchConfiguration, Loaded, driver_error_text,
};
use replay_cuda::{CudaError, DeviceInfo, DirectedRounding, GpuError, Module, find_gpu, round_ptx};

/// Why a replay on the GPU cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no usable device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The module cannot be read.
    #[error("cannot read the module {path}")]
    Module { path: String },
    /// The driver refused the module.
    #[error("the CUDA driver refuses the module of {architecture}: {message}")]
    Load {
        /// The device's architecture.
        architecture: String,
        /// In its words.
        message: String,
    },
}

impl StartError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            StartError::Gpu(error) => error.hint(),
            StartError::Module { .. } => Some("`replay cache clear` removes it".to_owned()),
            StartError::Load { .. } => {
                Some("a libnvrtc that is newer than the driver may be the reason".to_owned())
            }
        }
    }
}

/// How this replay uses the device.
#[derive(Clone, Copy, Debug)]
pub struct GpuSettings {
    /// The device's number.
    pub ordinal: usize,
    /// The initial content of memory.
    pub poison: Poison,
    /// The most bytes of device memory.
    pub memory_limit_bytes: usize,
    /// Whether allocations lie between margins, to show writes past their ends.
    pub margins: bool,
    /// Whether memory is filled with the poison.
    pub filled: bool,
    /// Whether host code can touch memory too, while no kernel runs.
    pub managed: bool,
}

/// The device.
pub struct Gpu {
    info: DeviceInfo,
    context: Context,
    uploader: Uploader,
    stored: StoredInputs,
    memory: GpuMemory,
    module: Module,
    loaded: Loaded,
    /// The module for each direction of rounding, after its first use.
    rounded: [OnceLock<Loaded>; 3],
    /// Held while one of them is loaded.
    rounding: Mutex<()>,
    /// The number of the running one of them, from 1; 0 for the module itself.
    running: AtomicUsize,
    deviations: DeviceDeviations,
    /// None where memory is left as it is.
    shared: Option<SharedFill>,
    summaries: Vec<(DType, Summarizer)>,
    blas: BlasCalls,
    random: RandomCalls,
    /// Where the built-in variables of the calling thread are.
    pointers: Box<dyn Fn() -> ThreadPointers + Send + Sync>,
    /// The launched ones, by module, host function and name.
    functions: Mutex<HashMap<(usize, usize, &'static str), Function>>,
}

impl Gpu {
    /// Opens the device and loads the module of the file `module`. NVIDIA's libraries lie in `libraries`;
    /// kernels on the host find their built-in variables by `pointers`.
    ///
    /// # Errors
    /// [`StartError`] if there is no such device, or it refuses the module.
    pub fn new(
        settings: GpuSettings,
        module: &Path,
        summaries: &[(DType, PathBuf)],
        libraries: Vec<PathBuf>,
        pointers: impl Fn() -> ThreadPointers + Send + Sync + 'static,
    ) -> Result<Gpu, StartError> {
        one_connection();
        let info = find_gpu(settings.ordinal)?;
        let context = Context::open(settings.ordinal)?;
        let module = read_device_module(module)?;
        let load_error = |error| StartError::Load {
            architecture: info.architecture.clone(),
            message: driver_error_text(error),
        };
        let loaded = Loaded::new(&module.code).map_err(load_error)?;
        let shared = if settings.filled {
            let sizes = context.shared_sizes(settings.ordinal).map_err(load_error)?;
            let poison = cpu::scratch_poison(settings.poison);
            Some(SharedFill::new(&loaded, sizes, poison).map_err(load_error)?)
        } else {
            None
        };
        let mut summarizers = Vec::new();
        for (dtype, path) in summaries {
            let module = read_device_module(path)?;
            summarizers.push((*dtype, Summarizer::new(&module.code).map_err(load_error)?));
        }
        let summaries = summarizers.into_iter().collect();
        let limit = settings.memory_limit_bytes.min(info.memory_bytes);
        let memory = GpuMemory::new(settings, limit);
        timeout::install_timeout_handler();
        let functions = Mutex::default();
        let uploader = Uploader::default();
        let stored = StoredInputs::default();
        let random = RandomCalls::new(libraries.clone());
        let blas = BlasCalls::new(libraries);
        let pointers = Box::new(pointers);
        Ok(Gpu {
            info,
            context,
            uploader,
            stored,
            memory,
            module,
            loaded,
            rounded: Default::default(),
            rounding: Mutex::default(),
            running: AtomicUsize::new(0),
            deviations: DeviceDeviations::default(),
            shared,
            summaries,
            blas,
            random,
            pointers,
            functions,
        })
    }

    fn function(&self, launch: &Launch) -> Result<Function, CudaError> {
        let running = self.running.load(Ordering::Relaxed);
        let key = (running, launch.function as usize, launch.unit_name);
        let mut known_functions =
            self.functions.lock().expect("no code panics while it holds this");
        if let Some(&function) = known_functions.get(&key) {
            return Ok(function);
        }
        let host = external_symbol_at(launch.function);
        let Some(symbol) = self.module.kernel(launch.unit_name, host.as_deref()) else {
            if launch.kernel.starts_with("cudaLaunch") {
                end_with_report(&nameless_kernel_refusal(launch.kernel));
            }
            request_instance(launch.unit_name.to_owned());
        };
        let function = self.running().function(&symbol)?;
        known_functions.insert(key, function);
        Ok(function)
    }

    /// The module whose kernels run.
    fn running(&self) -> &Loaded {
        let rounded_index = self.running.load(Ordering::Relaxed).checked_sub(1);
        rounded_index.and_then(|index| self.rounded[index].get()).unwrap_or(&self.loaded)
    }

    /// The module for rounding in `direction`.
    fn rounded(&self, direction: DirectedRounding) -> Result<&Loaded, String> {
        let place = &self.rounded[direction as usize];
        let _held = self.rounding.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(loaded) = place.get() {
            return Ok(loaded);
        }
        let mut text = round_ptx(&self.module.ptx, direction)?;
        text.push('\0');
        let loaded = Loaded::new(text.as_bytes()).map_err(driver_error_text)?;
        Ok(place.get_or_init(|| loaded))
    }

    /// Runs the module for rounding in `direction` from here on; the module itself without one.
    fn round(&self, direction: Option<DirectedRounding>) -> Result<(), String> {
        let running = match direction {
            Some(direction) => {
                self.rounded(direction)?;
                direction as usize + 1
            }
            None => 0,
        };
        self.running.store(running, Ordering::Relaxed);
        Ok(())
    }

    /// Copies from the device, large tensors through pinned memory.
    ///
    /// # Safety
    /// `destination` must have room for `bytes` bytes.
    unsafe fn download(
        &self,
        destination: *mut u8,
        source: Address,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: promised by the caller.
        unsafe {
            if bytes >= upload::LARGE {
                self.uploader.download(&self.context, destination, source, bytes)
            } else {
                self.context.download(destination, source, bytes)
            }
        }
    }

    /// Has `library` answer the call in `launch`.
    fn call(&self, library: Library, launch: &Launch) -> Result<(), CudaError> {
        timeout::note_running_kernel(Some(launch.kernel));
        match library {
            Library::Blas => self.blas.run(&self.context, launch),
            Library::Random => self.random.run(launch),
            // SAFETY: the memory of such an artifact is the host's too; every kernel was waited for.
            Library::Host => unsafe { host::run_host_threads(launch, &(self.pointers)()) },
        }
        let completion = self.context.synchronize();
        timeout::note_running_kernel(None);
        self.survive(completion, Some(launch.kernel))
    }

    /// Ends the process if `result` is an error and the device does nothing more after it.
    fn survive(
        &self,
        result: Result<(), CudaError>,
        kernel: Option<&str>,
    ) -> Result<(), CudaError> {
        let Err(error) = result else { return Ok(()) };
        if let Some(refusal) = lost_device_report(error, &self.info) {
            end_with_report(&refusal);
        }
        let Some(fault_name) = sticky_fault_name(error) else { return Err(error) };
        end_with_report(&ChildReport::Fault(ReplayFault {
            what: fault_name.to_owned(),
            detail: driver_error_text(error),
            kernel: kernel.map(str::to_owned),
            block: None,
            thread: None,
        }))
    }
}

/// Limits the context to one hardware queue: enough for streams in a fixed order. A context
/// with the usual eight takes twice as long to create, while no other process can create one.
fn one_connection() {
    const NAME: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(NAME).is_none() {
        // SAFETY: the threads there are so far only ask for pages of files.
        unsafe { std::env::set_var(NAME, "1") };
    }
}

fn read_device_module(module: &Path) -> Result<Module, StartError> {
    let decoded_module = std::fs::read(module).ok().and_then(|bytes| Module::decode(&bytes));
    decoded_module.ok_or_else(|| StartError::Module { path: module.display().to_string() })
}

/// Asks the parent for a module with `expression`.
fn request_instance(expression: String) -> ! {
    end_with_report(&ChildReport::Unresolved { expression })
}

/// The name of the fault, as on the CPU, if CUDA calls `error` sticky: "the context is in an
/// inconsistent state, the process must be terminated" (CUDA Runtime API, `cudaError_t`).
fn sticky_fault_name(error: CudaError) -> Option<&'static str> {
    match error.0 {
        700 => Some("out-of-bounds access"),
        702 => Some("launch timeout"),
        710 => Some("device code stopped itself"),
        715 => Some("illegal instruction"),
        716 => Some("misaligned access"),
        714 | 717..=721 => Some("device error"),
        _ => None,
    }
}

/// The report if `error` means the loss of the device itself: this is no fault of the kernel's.
fn lost_device_report(error: CudaError, info: &DeviceInfo) -> Option<ChildReport> {
    let lost_errors = [
        CudaError::DEVICE_UNAVAILABLE,
        CudaError::NO_DEVICE,
        CudaError::INVALID_DEVICE,
        CudaError::ECC_UNCORRECTABLE,
        CudaError::UNKNOWN,
    ];
    lost_errors.contains(&error).then(|| ChildReport::Refused {
        message: format!(
            "cuda:{} ({}) stopped working: {}",
            info.ordinal,
            info.name,
            driver_error_text(error)
        ),
        hint: Some("`nvidia-smi` tells whether it is there; replay again once it is".to_owned()),
    })
}

impl Device for Gpu {
    fn describe(&self) -> (String, String) {
        (self.info.describe(), self.info.architecture.clone())
    }

    fn is_host(&self) -> bool {
        false
    }

    fn malloc(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let address = self.memory.allocate(&self.context, bytes, label, false)?;
        Ok(address as *mut u8)
    }

    fn malloc_managed(&self, bytes: usize, label: String) -> Result<*mut u8, CudaError> {
        let address = self.memory.allocate(&self.context, bytes, label, true)?;
        Ok(address as *mut u8)
    }

    fn free(&self, pointer: *mut u8) -> Result<(), CudaError> {
        self.memory.free(&self.context, pointer as Address)
    }

    fn widen(&self, destination: *mut u8, input: &Widening) -> Option<Result<(), CudaError>> {
        let Gpu { context, uploader, loaded, .. } = self;
        let widening_result =
            self.stored.widen(context, uploader, loaded, destination as Address, input)?;
        Some(self.survive(widening_result, None))
    }

    fn deviating(&self) -> Option<&dyn Deviating> {
        // Library algorithms on the host round to nearest.
        (!self.memory.managed()).then_some(self as &dyn Deviating)
    }

    unsafe fn copy(
        &self,
        destination: *mut u8,
        source: *const u8,
        bytes: usize,
        kind: CopyKind,
        _stream: *mut c_void,
    ) -> Result<(), CudaError> {
        self.memory.check(destination as Address, bytes)?;
        self.memory.check(source as Address, bytes)?;
        // SAFETY: the host's side is promised by the caller.
        let copied = unsafe {
            match kind {
                CopyKind::HostToHost => {
                    std::ptr::copy(source, destination, bytes);
                    Ok(())
                }
                CopyKind::HostToDevice if bytes >= upload::LARGE => {
                    let bytes = std::slice::from_raw_parts(source, bytes);
                    self.uploader.upload(&self.context, destination as Address, bytes)
                }
                CopyKind::HostToDevice => {
                    self.context.upload(destination as Address, source, bytes)
                }
                CopyKind::DeviceToHost => self.download(destination, source as Address, bytes),
                CopyKind::DeviceToDevice => {
                    self.context.copy_within(destination as Address, source as Address, bytes)
                }
                CopyKind::Default => {
                    self.context.copy(destination as Address, source as Address, bytes)
                }
            }
        };
        self.survive(copied, None)
    }

    fn set(
        &self,
        destination: *mut u8,
        value: u8,
        bytes: usize,
        _stream: *mut c_void,
    ) -> Result<(), CudaError> {
        self.memory.check(destination as Address, bytes)?;
        self.survive(self.context.set(destination as Address, value, bytes), None)
    }

    fn symbol(&self, _host: *mut u8, name: &str, bytes: usize) -> Result<*mut u8, CudaError> {
        let expression = format!("&{name}");
        let symbol_memory = match self.module.names.get(&expression) {
            Some(symbol) => self.running().variable(symbol).ok_or(CudaError::INVALID_SYMBOL)?,
            None => match self.running().variable(name) {
                Some(variable_memory) => variable_memory,
                None => request_instance(expression),
            },
        };
        let (address, available) = symbol_memory;
        if bytes > available {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(address as *mut u8)
    }

    fn launch(&self, launch: &Launch) -> Result<(), CudaError> {
        if let Some(library) = Library::from_kernel(launch.kernel) {
            return self.call(library, launch);
        }
        let function = self.function(launch)?;
        if launch.shared_bytes > cpu::DEFAULT_SHARED_BYTES {
            function.allow_shared(launch.shared_limit)?;
        }
        let shared_bytes =
            u32::try_from(launch.shared_bytes).map_err(|_| CudaError::INVALID_CONFIGURATION)?;
        let Launch { grid, block, cooperative, .. } = *launch;
        let cluster = launch.cluster.filter(|_| launch.names_cluster);
        let shape = LaunchConfiguration { grid, block, shared_bytes, cooperative, cluster };
        let size = launch.cluster.map_or(1, |sides| sides.iter().product());
        if size > cpu::PORTABLE_CLUSTER_BLOCKS {
            function.allow_wide_clusters()?;
        }
        if let Some(shared_filler) = &self.shared
            && (launch.shared_bytes > 0 || function.has_shared())
        {
            self.survive(shared_filler.run(), None)?;
        }
        timeout::note_running_kernel(Some(launch.kernel));
        // SAFETY: host and device code were made of the same declaration of the kernel.
        let launched = unsafe { function.launch(shape, launch.args) };
        let completion = launched.and_then(|()| self.context.synchronize());
        timeout::note_running_kernel(None);
        self.survive(completion, Some(launch.kernel))
    }

    fn occupancy(&self, function: *const c_void, threads: usize, bytes: usize) -> Option<usize> {
        let symbol = self.module.kernel("", external_symbol_at(function).as_deref())?;
        let function = self.loaded.function(&symbol).ok()?;
        if bytes > cpu::DEFAULT_SHARED_BYTES {
            function.allow_shared(bytes).ok()?;
        }
        let blocks = function.occupancy(threads as i32, bytes).ok()?;
        usize::try_from(blocks).ok()
    }

    fn multiprocessors(&self) -> Option<u32> {
        Some(self.context.shared_sizes(self.info.ordinal).ok()?.multiprocessors)
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        self.survive(self.context.synchronize(), None)
    }

    fn memory(&self) -> (usize, usize) {
        let (allowed, limit) = self.memory.usage();
        match self.context.memory() {
            Ok((free, total)) => (free.min(allowed), total.min(limit)),
            Err(_) => (allowed, limit),
        }
    }

    fn summarize(
        &self,
        tensor: *const u8,
        dtype: DType,
        shape: &[usize],
        poison: &Poison,
    ) -> Option<Summary> {
        let (_, summarizer) =
            self.summaries.iter().find(|(summarizer_dtype, _)| *summarizer_dtype == dtype)?;
        summarizer.run(&self.context, tensor as Address, dtype, shape, poison).ok().flatten()
    }

    fn overruns(&self) -> Vec<String> {
        self.memory.overruns(&self.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> DeviceInfo {
        DeviceInfo {
            ordinal: 1,
            name: "NVIDIA H200".to_owned(),
            architecture: "sm_90".to_owned(),
            driver: (13, 0),
            memory_bytes: 1 << 30,
        }
    }

    #[test]
    fn a_device_that_is_gone_is_no_fault_of_the_kernel() {
        let Some(ChildReport::Refused { message, hint }) =
            lost_device_report(CudaError::UNKNOWN, &info())
        else {
            panic!("an unknown error is one of the device");
        };
        insta::assert_snapshot!(message, @"cuda:1 (NVIDIA H200) stopped working: unknown error (cudaErrorUnknown)");
        insta::assert_snapshot!(hint.unwrap(), @"`nvidia-smi` tells whether it is there; replay again once it is");
        let busy = lost_device_report(CudaError::DEVICE_UNAVAILABLE, &info());
        assert!(matches!(busy, Some(ChildReport::Refused { .. })));
        for of_the_kernel in [CudaError::ILLEGAL_ADDRESS, CudaError::LAUNCH_FAILURE, CudaError(718)]
        {
            assert_eq!(lost_device_report(of_the_kernel, &info()), None);
            assert!(sticky_fault_name(of_the_kernel).is_some(), "{of_the_kernel}");
        }
    }

    #[test]
    fn what_the_driver_refuses_at_the_start_names_the_reason_and_the_way_out() {
        let told = |error: &StartError| format!("{error}\nhint: {}", error.hint().unwrap());
        let refused = |doing, error| {
            StartError::Gpu(GpuError::Refused { doing, message: driver_error_text(error) })
        };
        insta::assert_snapshot!(told(&refused("to start", CudaError::INSUFFICIENT_DRIVER)), @r"
        the CUDA driver refuses to start: CUDA driver version is insufficient for CUDA runtime version (cudaErrorInsufficientDriver)
        hint: `nvidia-smi` tells whether the driver and the device work
        ");
        insta::assert_snapshot!(told(&refused("a context", CudaError::DEVICE_UNAVAILABLE)), @r"
        the CUDA driver refuses a context: CUDA-capable device(s) is/are busy or unavailable (cudaErrorDevicesUnavailable)
        hint: `nvidia-smi` tells whether the driver and the device work
        ");
        insta::assert_snapshot!(told(&StartError::Gpu(GpuError::NoDriver)), @r"
        no CUDA driver: libcuda.so is not in the default search path
        hint: install NVIDIA's driver, or replay with --backend cpu; a container needs the driver's libraries passed through
        ");
        insta::assert_snapshot!(told(&StartError::Gpu(GpuError::NoDevice { ordinal: 9, count: 2 })), @r"
        no GPU 9: this machine has 2
        hint: `replay doctor` lists the devices
        ");
        let architecture = "sm_90".to_owned();
        let message = driver_error_text(CudaError::NO_KERNEL_IMAGE);
        insta::assert_snapshot!(told(&StartError::Load { architecture, message }), @r"
        the CUDA driver refuses the module of sm_90: no kernel image is available for execution on the device (cudaErrorNoKernelImageForDevice)
        hint: a libnvrtc that is newer than the driver may be the reason
        ");
        let path = "/cache/modules/0".to_owned();
        insta::assert_snapshot!(told(&StartError::Module { path }), @r"
        cannot read the module /cache/modules/0
        hint: `replay cache clear` removes it
        ");
    }
}
