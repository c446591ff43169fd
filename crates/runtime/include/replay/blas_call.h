// Calls of cuBLAS and cuBLASLt for NVIDIA's own libraries: those of a replay on a GPU.
//
// A call travels as a launch under the function's name: streams, graphs and reports treat it as any
// other work. Its structure is the one of src/gpu/blas.rs: same fields, same order, same types.
#pragma once

#include "cublas_api.h"
#include "replay/capture.h"

namespace replay_rt {

/// A factor, on the device or by its bits.
struct blas_factor {
  const void* device;  // null if the bits count
  uint64_t bits;

  template <class T>
  static blas_factor of(const T* from, bool on_device) {
    blas_factor factor = {on_device ? from : nullptr, 0};
    if (!on_device && from) __builtin_memcpy(&factor.bits, from, sizeof(T));
    return factor;
  }
};

/// A matrix, a vector, or a batch of matrices: by a stride, or as an array of pointers.
struct blas_operand {
  const void* data;
  int64_t ld, step;
  int32_t type;
};

/// A call of cuBLAS. A vector's step is the `ld` of its operand.
struct blas_call {
  int32_t* status;  // receives the library's
  blas_factor alpha, beta;
  blas_operand a, b, c;
  int32_t operation_a, operation_b;
  int32_t m, n, k, batches;
  int32_t compute, algorithm, math;
};

/// Whether calls go to NVIDIA's libraries.
inline bool has_libraries() { return !abi->device_is_host(); }

/// The library's last status.
inline int32_t blas_status = 0;

/// Has NVIDIA's library answer `call` to the function `name`.
template <class Call>
inline cublasStatus_t call_library(Call call, const char* name, void* stream, replay_site site) {
  call.status = &blas_status;
  blas_status = CUBLAS_STATUS_SUCCESS;
  void* arguments[2] = {&call, nullptr};
  const size_t sizes[1] = {sizeof(Call)};
  replay_launch launch = {};
  launch.kernel = name;
  launch.thunk = [](void**) {};
  launch.site = site;
  launch.args = arguments;
  launch.arg_sizes = sizes;
  launch.arg_count = 1;
  for (int i = 0; i < 3; i++) launch.grid[i] = launch.block[i] = 1;
  launch.stream = stream;
  submit(launch);
  return (cublasStatus_t)blas_status;
}
}  // namespace replay_rt
