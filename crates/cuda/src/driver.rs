//! The CUDA driver, each call checked: devices, a context, memory, modules and launches.
//!
//! The only caller of libcuda. Knows nothing of replays.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};

use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute, CUresult};

use super::error::CudaError;

/// Why there is no GPU to replay on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// libcuda is missing.
    #[error("no CUDA driver: libcuda.so is not in the default search path")]
    NoDriver,
    /// The driver refused something.
    #[error("the CUDA driver refuses {doing}: {message}")]
    Refused {
        /// The request, in words.
        doing: &'static str,
        /// In its words.
        message: String,
    },
    /// There are fewer devices.
    #[error("no GPU {ordinal}: this machine has {count}")]
    NoDevice {
        /// The requested one.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
}

impl GpuError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            GpuError::NoDriver => "install NVIDIA's driver, or replay with --backend cpu; a \
                                   container needs the driver's libraries passed through"
                .to_owned(),
            GpuError::Refused { .. } => {
                "`nvidia-smi` tells whether the driver and the device work".to_owned()
            }
            GpuError::NoDevice { .. } => "`replay doctor` lists the devices".to_owned(),
        })
    }
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, as CUDA counts.
    pub ordinal: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// The architecture of its machine code, such as `sm_90`.
    pub architecture: String,
    /// The CUDA version of the driver, major and minor.
    pub driver: (i32, i32),
    pub memory_bytes: usize,
}

impl DeviceInfo {
    /// For people: name and driver.
    pub fn describe(&self) -> String {
        format!("{}, CUDA driver {}.{}", self.name, self.driver.0, self.driver.1)
    }
}

/// The runtime API's code for a result of the driver; both APIs number their errors alike.
pub fn check_driver_result(result: CUresult) -> Result<(), CudaError> {
    match result as i32 {
        0 => Ok(()),
        code => Err(CudaError(code)),
    }
}

/// The driver's own words for `error`; the driver may be newer than the table here.
pub fn driver_error_text(error: CudaError) -> String {
    if CudaError::KNOWN.iter().any(|(code, ..)| *code == error.0) {
        return error.to_string();
    }
    format!("error {} of the CUDA driver", error.0)
}

fn refuse_driver_call(doing: &'static str) -> impl Fn(CudaError) -> GpuError {
    move |error| GpuError::Refused { doing, message: driver_error_text(error) }
}

/// Every GPU of this machine.
///
/// # Errors
/// [`GpuError`] if there is no driver, or it does not work.
pub fn list_gpus() -> Result<Vec<DeviceInfo>, GpuError> {
    let mut version = 0;
    let mut count = 0;
    start_driver()?;
    // SAFETY: fill in integers.
    unsafe {
        check_driver_result(sys::cuDriverGetVersion(&raw mut version))
            .map_err(refuse_driver_call("its version"))?;
        check_driver_result(sys::cuDeviceGetCount(&raw mut count))
            .map_err(refuse_driver_call("a list of devices"))?;
    }
    let driver = (version / 1000, version % 1000 / 10);
    (0..usize::try_from(count).unwrap_or(0))
        .map(|ordinal| {
            query_device_info(ordinal, driver).map_err(refuse_driver_call("a device's properties"))
        })
        .collect()
}

/// The GPU called `ordinal`.
///
/// # Errors
/// [`GpuError`] if there is none.
pub fn find_gpu(ordinal: usize) -> Result<DeviceInfo, GpuError> {
    let mut devices = list_gpus()?;
    let count = devices.len();
    if ordinal < count {
        Ok(devices.swap_remove(ordinal))
    } else {
        Err(GpuError::NoDevice { ordinal, count })
    }
}

fn start_driver() -> Result<(), GpuError> {
    // SAFETY: loads libcuda, and starts it.
    unsafe {
        if !sys::is_culib_present() {
            return Err(GpuError::NoDriver);
        }
        check_driver_result(sys::cuInit(0)).map_err(refuse_driver_call("to start"))
    }
}

fn query_device_info(ordinal: usize, driver: (i32, i32)) -> Result<DeviceInfo, CudaError> {
    let mut device = 0;
    let mut name = [0; 256];
    let mut memory_bytes = 0;
    // SAFETY: fill in a handle, a text of at most the given length, and a size.
    unsafe {
        check_driver_result(sys::cuDeviceGet(&raw mut device, ordinal as c_int))?;
        check_driver_result(sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device))?;
        check_driver_result(sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, device))?;
    }
    use CUdevice_attribute as Attribute;
    let major = query_attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = query_attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    // SAFETY: the driver ends the name with a null byte.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let architecture = format!("sm_{major}{minor}");
    Ok(DeviceInfo { ordinal, name, architecture, driver, memory_bytes })
}

fn query_attribute(
    device: sys::CUdevice,
    device_attribute: CUdevice_attribute,
) -> Result<i32, CudaError> {
    let mut value = 0;
    // SAFETY: fills in an integer.
    check_driver_result(unsafe {
        sys::cuDeviceGetAttribute(&raw mut value, device_attribute, device)
    })?;
    Ok(value)
}

/// An address in the memory of the device.
pub type Address = u64;

/// The primary context of a device, made current on the opening thread.
#[derive(Debug)]
pub struct Context(sys::CUcontext);

// SAFETY: a handle; the driver lets any thread use it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the context of `ordinal` current.
    pub fn open(ordinal: usize) -> Result<Context, GpuError> {
        start_driver()?;
        let mut context = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: fill in handles; they stay valid until the process ends.
        unsafe {
            check_driver_result(sys::cuDeviceGet(&raw mut device, ordinal as c_int))
                .and_then(|()| {
                    check_driver_result(sys::cuDevicePrimaryCtxRetain(&raw mut context, device))
                })
                .and_then(|()| check_driver_result(sys::cuCtxSetCurrent(context)))
                .map_err(refuse_driver_call("a context"))?;
        }
        Ok(Context(context))
    }

    /// Makes it current on the calling thread.
    pub fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context stays open until the process ends.
        check_driver_result(unsafe { sys::cuCtxSetCurrent(self.0) })
    }

    /// Makes room for `bytes`.
    pub fn allocate(&self, bytes: usize) -> Result<Address, CudaError> {
        let mut address = 0;
        // SAFETY: fills in an address.
        check_driver_result(unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) })?;
        Ok(address)
    }

    /// Makes room for `bytes`; the host can touch them too, while no kernel runs.
    pub fn allocate_managed(&self, bytes: usize) -> Result<Address, CudaError> {
        let mut address = 0;
        let global = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: fills in an address.
        check_driver_result(unsafe { sys::cuMemAllocManaged(&raw mut address, bytes, global) })?;
        Ok(address)
    }

    /// Gives back memory from `allocate` or `allocate_managed`.
    pub fn free(&self, address: Address) -> Result<(), CudaError> {
        // SAFETY: the driver refuses any other memory.
        check_driver_result(unsafe { sys::cuMemFree_v2(address) })
    }

    /// Copies between any two places; the driver finds out their kinds.
    ///
    /// # Safety
    /// A side in host memory must have `bytes` bytes.
    pub unsafe fn copy(
        &self,
        destination: Address,
        source: Address,
        n: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: the host's side is promised by the caller, the device's is checked by the driver.
        check_driver_result(unsafe { sys::cuMemcpy(destination, source, n) })
    }

    /// Copies from the host to the device.
    ///
    /// # Safety
    /// `source` must have `bytes` bytes.
    pub unsafe fn upload(
        &self,
        destination: Address,
        source: *const u8,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: as for `copy`.
        check_driver_result(unsafe { sys::cuMemcpyHtoD_v2(destination, source.cast(), bytes) })
    }

    /// Copies from the device to the host.
    ///
    /// # Safety
    /// `destination` must have room for `bytes` bytes.
    pub unsafe fn download(
        &self,
        destination: *mut u8,
        source: Address,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: as for `copy`.
        check_driver_result(unsafe { sys::cuMemcpyDtoH_v2(destination.cast(), source, bytes) })
    }

    /// Copies within the device.
    pub fn copy_within(
        &self,
        destination: Address,
        source: Address,
        n: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: both sides are checked by the driver.
        check_driver_result(unsafe { sys::cuMemcpyDtoD_v2(destination, source, n) })
    }

    /// Sets every byte to `value`.
    pub fn set(&self, destination: Address, value: u8, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: the driver checks the range.
        check_driver_result(unsafe { sys::cuMemsetD8_v2(destination, value, bytes) })
    }

    /// Repeats eight bytes over `count` times eight bytes.
    pub fn fill(
        &self,
        destination: Address,
        bytes: [u8; 8],
        count: usize,
    ) -> Result<(), CudaError> {
        let [low @ .., _, _, _, _] = bytes;
        let [_, _, _, _, high @ ..] = bytes;
        let low = u32::from_le_bytes(low);
        let high = u32::from_le_bytes(high);
        // SAFETY: the driver checks the range. One word of four bytes a row, rows eight apart.
        unsafe {
            if low == high {
                return check_driver_result(sys::cuMemsetD32_v2(destination, low, count * 2));
            }
            check_driver_result(sys::cuMemsetD2D32_v2(destination, 8, low, 1, count))?;
            check_driver_result(sys::cuMemsetD2D32_v2(destination + 4, 8, high, 1, count))
        }
    }

    /// The shared memory of device `ordinal`.
    pub fn shared_sizes(&self, ordinal: usize) -> Result<SharedSizes, CudaError> {
        use CUdevice_attribute as Attribute;
        let mut device = 0;
        // SAFETY: fills in a handle.
        check_driver_result(unsafe { sys::cuDeviceGet(&raw mut device, ordinal as c_int) })?;
        let size = |device_attribute| {
            u32::try_from(query_attribute(device, device_attribute)?)
                .map_err(|_| CudaError::INVALID_VALUE)
        };
        Ok(SharedSizes {
            bytes: size(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            multiprocessors: size(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        })
    }

    /// Waits for everything asked for.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: waits.
        check_driver_result(unsafe { sys::cuCtxSynchronize() })
    }

    /// Bytes free, and bytes in all.
    pub fn memory(&self) -> Result<(usize, usize), CudaError> {
        let mut free = 0;
        let mut total = 0;
        // SAFETY: fills in two sizes.
        check_driver_result(unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free, total))
    }
}

/// The shared memory of a device.
#[derive(Clone, Copy, Debug)]
pub struct SharedSizes {
    /// The most of a block: all of a multiprocessor's.
    pub bytes: u32,
    pub multiprocessors: u32,
}

/// Machine code in the context.
#[derive(Debug)]
pub struct Loaded(sys::CUmodule);

// SAFETY: a handle; the driver lets any thread use it.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// A kernel of a loaded module.
#[derive(Clone, Copy, Debug)]
pub struct Function(sys::CUfunction);

// SAFETY: a handle; the driver lets any thread use it.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfiguration {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    /// Whether all blocks run together.
    pub cooperative: bool,
    /// Blocks of a cluster, where the launch names them.
    pub cluster: Option<[u32; 3]>,
}

impl LaunchConfiguration {
    /// So many blocks of so many threads in a row.
    pub fn plain(blocks: u32, threads: u32, shared_bytes: u32) -> LaunchConfiguration {
        let grid = [blocks, 1, 1];
        let block = [threads, 1, 1];
        LaunchConfiguration { grid, block, shared_bytes, cooperative: false, cluster: None }
    }
}

impl Loaded {
    /// Loads a cubin into the current context.
    pub fn new(code: &[u8]) -> Result<Loaded, CudaError> {
        let mut module = std::ptr::null_mut();
        // SAFETY: a cubin of NVRTC's; it holds its own size.
        check_driver_result(unsafe {
            sys::cuModuleLoadData(&raw mut module, code.as_ptr().cast())
        })?;
        Ok(Loaded(module))
    }

    /// The kernel with this symbol.
    pub fn function(&self, symbol: &str) -> Result<Function, CudaError> {
        let symbol = CString::new(symbol).map_err(|_| CudaError::INVALID_VALUE)?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module stays loaded; the symbol is a C string.
        check_driver_result(unsafe {
            sys::cuModuleGetFunction(&raw mut function, self.0, symbol.as_ptr())
        })?;
        Ok(Function(function))
    }

    /// Address and size of the variable with this symbol, if the module has it.
    pub fn variable(&self, symbol: &str) -> Option<(Address, usize)> {
        let symbol = CString::new(symbol).ok()?;
        let mut address = 0;
        let mut bytes = 0;
        // SAFETY: as above.
        let status = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, self.0, symbol.as_ptr())
        };
        check_driver_result(status).ok().map(|()| (address, bytes))
    }
}

impl Function {
    /// Lets launches have this much dynamic shared memory.
    pub fn allow_shared(self, bytes: usize) -> Result<(), CudaError> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = c_int::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        // SAFETY: the function's module stays loaded.
        check_driver_result(unsafe { sys::cuFuncSetAttribute(self.0, attribute, bytes) })
    }

    /// Lets launches have clusters of more blocks than every device has.
    pub fn allow_wide_clusters(self) -> Result<(), CudaError> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function's module stays loaded.
        check_driver_result(unsafe { sys::cuFuncSetAttribute(self.0, attribute, 1) })
    }

    /// How many blocks of so many threads and bytes of dynamic shared memory fit on a multiprocessor.
    pub fn occupancy(self, threads: c_int, shared_bytes: usize) -> Result<i32, CudaError> {
        let mut blocks = 0;
        // SAFETY: fills in an integer; the function's module stays loaded.
        check_driver_result(unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.0,
                threads,
                shared_bytes,
            )
        })?;
        Ok(blocks)
    }

    /// Whether it has static shared memory.
    pub fn has_shared(self) -> bool {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        let mut bytes = 0;
        // SAFETY: fills in an integer; the function's module stays loaded.
        let status = unsafe { sys::cuFuncGetAttribute(&raw mut bytes, attribute, self.0) };
        check_driver_result(status).is_ok() && bytes > 0
    }

    /// Launches the kernel in the default stream.
    ///
    /// # Safety
    /// `args` must hold a pointer to each argument of the kernel.
    pub unsafe fn launch(
        self,
        shape: LaunchConfiguration,
        args: *mut *mut c_void,
    ) -> Result<(), CudaError> {
        let ([gx, gy, gz], [bx, by, bz], shared_bytes) =
            (shape.grid, shape.block, shape.shared_bytes);
        let stream = std::ptr::null_mut();
        let no_extra = std::ptr::null_mut();
        let mut attributes = launch_attributes(&shape);
        if attributes.is_empty() {
            // SAFETY: promised by the caller; the driver checks the shape.
            return check_driver_result(unsafe {
                sys::cuLaunchKernel(
                    self.0,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    shared_bytes,
                    stream,
                    args,
                    no_extra,
                )
            });
        }
        let config = sys::CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: as above; the attributes outlive the call.
        check_driver_result(unsafe {
            sys::cuLaunchKernelEx(&raw const config, self.0, args, no_extra)
        })
    }
}

/// The attributes of a launch of this shape.
fn launch_attributes(shape: &LaunchConfiguration) -> Vec<sys::CUlaunchAttribute> {
    use sys::CUlaunchAttributeID_enum as Id;
    let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
    let cooperative = shape.cooperative.then(|| {
        let value = sys::CUlaunchAttributeValue { cooperative: 1 };
        attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value)
    });
    let cluster = shape.cluster.map(|[x, y, z]| {
        let sides = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        let value = sys::CUlaunchAttributeValue { clusterDim: sides };
        attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value)
    });
    cooperative.into_iter().chain(cluster).collect()
}
