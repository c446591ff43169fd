//! Decides over the `#include` lines of device code.

/// The treatment of an `#include` line in device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Removed,
    /// A header of this name in `runtime/nvrtc` takes its place.
    Replaced(&'static str),
}

/// Standard headers for kernels, by either name, and their replacements on the device.
const REPLACED: [(&str, &str); 24] = [
    ("replay/torch.h", "torch_kernels.h"),
    ("cmath", "cmath"),
    ("math.h", "cmath"),
    ("cfloat", "cfloat"),
    ("float.h", "cfloat"),
    ("climits", "climits"),
    ("limits.h", "climits"),
    ("cstdint", "cstdint"),
    ("stdint.h", "cstdint"),
    ("inttypes.h", "cstdint"),
    ("cinttypes", "cstdint"),
    ("cstddef", "cstddef"),
    ("stddef.h", "cstddef"),
    ("cassert", "cassert"),
    ("assert.h", "cassert"),
    ("limits", "limits"),
    ("type_traits", "type_traits"),
    ("utility", "utility"),
    ("algorithm", "algorithm"),
    ("cstring", "cstring"),
    ("string.h", "cstring"),
    ("cstdio", "cstdio"),
    ("stdio.h", "cstdio"),
    ("cub/cub.cuh", "cub"),
];

/// Host headers with an extension; those without one are the C++ standard library's.
const HOST: [&str; 47] = [
    "complex.h",
    "ctype.h",
    "cublas.h",
    "cublasLt.h",
    "cublas_v2.h",
    "cuda.h",
    "cudaProfiler.h",
    "cuda_profiler_api.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "cudnn.h",
    "cudnn_frontend.h",
    "curand.h",
    "cusolverDn.h",
    "cusparse.h",
    "device_launch_parameters.h",
    "dirent.h",
    "driver_types.h",
    "errno.h",
    "fcntl.h",
    "getopt.h",
    "host_defines.h",
    "locale.h",
    "malloc.h",
    "mpi.h",
    "nccl.h",
    "nvToolsExt.h",
    "nvToolsExtCudaRt.h",
    "nvml.h",
    "nvrtc.h",
    "omp.h",
    "pthread.h",
    "setjmp.h",
    "signal.h",
    "stdarg.h",
    "stdbool.h",
    "stdlib.h",
    "strings.h",
    "time.h",
    "unistd.h",
    "wchar.h",
    "windows.h",
    "immintrin.h",
    "x86intrin.h",
    "helper_cuda.h",
    "helper_functions.h",
    "vector_types.h",
];

/// Folders of headers for the host.
const HOST_FOLDERS: [&str; 10] = [
    "sys/",
    "bits/",
    "nvtx3/",
    "thrust/",
    "torch/",
    "ATen/",
    "c10/",
    "pybind11/",
    "arpa/",
    "netinet/",
];

/// Folders of headers without an extension for device code.
const DEVICE_FOLDERS: [&str; 5] = ["cuda/", "cub/", "nv/", "cute/", "cutlass/"];

/// The treatment of `#include <name>`, or of `#include "name"` if `quoted`.
pub(super) fn decide_include_fate(name: &str, quoted: bool) -> Fate {
    if let Some((_, replacement)) = REPLACED.iter().find(|(header, _)| *header == name) {
        return Fate::Replaced(replacement);
    }
    // For host code. `cub/cub.cuh` has the rest of their contents.
    if name.starts_with("cub/device/") {
        return Fate::Replaced("cub");
    }
    let host = HOST.contains(&name) || HOST_FOLDERS.iter().any(|folder| name.starts_with(folder));
    let standard = !quoted && !name.contains('.');
    let device = DEVICE_FOLDERS.iter().any(|folder| name.starts_with(folder));
    if host || (standard && !device) { Fate::Removed } else { Fate::Kept }
}
