//! CUDA's error codes, names and texts (CUDA Runtime API, "Error Handling" and `cudaError_t`).

use std::fmt;

/// A `cudaError_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaError(pub i32);

macro_rules! errors {
    ($($constant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        impl CudaError {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")]
            pub const $constant: CudaError = CudaError($code);)*

            /// CUDA's name for it, such as `cudaErrorInvalidValue`.
            pub fn name(self) -> &'static str {
                match self.0 { $($code => $name,)* _ => "unrecognized error code" }
            }

            /// CUDA's text for it, such as `invalid argument`.
            pub fn text(self) -> &'static str {
                match self.0 { $($code => $text,)* _ => "unrecognized error code" }
            }

            /// The codes this table knows, with name and text.
            pub(crate) const KNOWN: &[(i32, &str, &str)] = &[$(($code, $name, $text),)*];
        }
    };
}

errors! {
    SUCCESS = 0, "cudaSuccess", "no error";
    INVALID_VALUE = 1, "cudaErrorInvalidValue", "invalid argument";
    MEMORY_ALLOCATION = 2, "cudaErrorMemoryAllocation", "out of memory";
    INITIALIZATION = 3, "cudaErrorInitializationError", "initialization error";
    INVALID_CONFIGURATION = 9, "cudaErrorInvalidConfiguration", "invalid configuration argument";
    INVALID_SYMBOL = 13, "cudaErrorInvalidSymbol", "invalid device symbol";
    INVALID_DEVICE_POINTER = 17, "cudaErrorInvalidDevicePointer", "invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy";
    INSUFFICIENT_DRIVER = 35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version";
    DEVICE_UNAVAILABLE = 46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable";
    INVALID_DEVICE_FUNCTION = 98, "cudaErrorInvalidDeviceFunction", "invalid device function";
    NO_DEVICE = 100, "cudaErrorNoDevice", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "cudaErrorInvalidDevice", "invalid device ordinal";
    NO_KERNEL_IMAGE = 209, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered";
    INVALID_PTX = 218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed";
    INVALID_RESOURCE_HANDLE = 400, "cudaErrorInvalidResourceHandle", "invalid resource handle";
    NOT_READY = 600, "cudaErrorNotReady", "device not ready";
    ILLEGAL_ADDRESS = 700, "cudaErrorIllegalAddress", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated";
    ASSERT = 710, "cudaErrorAssert", "device-side assert triggered";
    ILLEGAL_INSTRUCTION = 715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "cudaErrorMisalignedAddress", "misaligned address";
    LAUNCH_FAILURE = 719, "cudaErrorLaunchFailure", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, "cudaErrorNotSupported", "operation not supported";
    DRIVER_MISMATCH = 803, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination";
    INVALID_CLUSTER_SIZE = 912, "cudaErrorInvalidClusterSize", "invalid cluster size";
    UNKNOWN = 999, "cudaErrorUnknown", "unknown error";
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

impl std::error::Error for CudaError {}
