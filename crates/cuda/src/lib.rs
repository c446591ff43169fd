//! NVIDIA's software on this machine: the driver and its devices, NVRTC, cuBLAS, cuRAND, compute-sanitizer.
//!
//! Finds, loads and calls it, checks each call, and reads its messages. Knows nothing of replays:
//! `compile` gives NVRTC its input, `runtime::gpu` a device its launches.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

pub mod blas;
pub mod driver;
pub mod error;
mod library;
mod math_errors;
mod module;
mod nvrtc;
mod object;
pub mod random;
mod rounding;
pub mod sanitizer;

pub use self::driver::{DeviceInfo, GpuError, find_gpu, list_gpus};
pub use self::error::CudaError;
pub use self::library::identify_library;
pub use self::library::{Called, LibraryError, SearchPath};
pub use self::math_errors::math_error_ulps;
pub use self::module::Module;
pub use self::module::{DEVIATIONS_SOURCE, FILL_KERNEL, FILL_SOURCE, WIDEN_SOURCE};
pub use self::nvrtc::{Image, Nvrtc, NvrtcAnswer, NvrtcError};
pub use self::rounding::{DirectedRounding, round_ptx};
