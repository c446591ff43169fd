// Streams, guards and properties of the one device.
// PyTorch: ATen/cuda/CUDAContext.h, c10/cuda/CUDAGuard.h, c10/cuda/CUDAStream.h.
#pragma once

#include "replay/streams.h"
#include "replay/torch_tensor.h"

namespace c10 {
namespace cuda {
class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { (void)cudaStreamSynchronize(stream_); }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(kCUDA, 0); }
  CUDAStream unwrap() const { return *this; }

 private:
  cudaStream_t stream_;
};
inline CUDAStream& replay_current_stream() {
  static CUDAStream stream;
  return stream;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return replay_current_stream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline void setCurrentCUDAStream(CUDAStream stream) { replay_current_stream() = stream; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
  cudaStream_t stream = nullptr;
  (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return CUDAStream(stream);
}
inline DeviceIndex device_count() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { (void)cudaDeviceSynchronize(); }

/// There is one device, so a guard has nothing to do.
struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
  void reset_device(Device) {}
  Device current_device() const { return Device(kCUDA, 0); }
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  explicit OptionalCUDAGuard(Device) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
};
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }

 private:
  CUDAStream before_;
};
inline void MaybeSetDevice(int) {}
}  // namespace cuda
struct DeviceGuard {
  explicit DeviceGuard(Device) {}
};
struct OptionalDeviceGuard {
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<Device>) {}
};
}  // namespace c10

/// What sources for PyTorch before 1.11 take from THC/THC.h and THC/THCDeviceUtils.cuh.
struct THCState;
template <class T>
constexpr T THCCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T THCRoundUp(T a, T b) {
  return THCCeilDiv(a, b) * b;
}
inline void* THCudaMalloc(THCState*, size_t bytes) {
  void* memory = nullptr;
  (void)cudaMalloc(&memory, bytes);
  return memory;
}
inline void THCudaFree(THCState*, void* memory) { (void)cudaFree(memory); }

namespace at {
using DeviceGuard = c10::DeviceGuard;
using OptionalDeviceGuard = c10::OptionalDeviceGuard;
struct NoGradGuard {};
struct Context {
  void alertNotDeterministic(const char*) const {}
  bool deterministicAlgorithms() const { return false; }
  THCState* lazyInitCUDA() { return nullptr; }
};
inline Context& globalContext() {
  static Context context;
  return context;
}
struct AutoDispatchBelowADInplaceOrView {};
struct AutoDispatchBelowAutograd {};
namespace cuda {
using namespace c10::cuda;
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::OptionalCUDAGuard;
inline cudaDeviceProp* getDeviceProperties(int64_t) {
  static cudaDeviceProp properties;
  (void)cudaGetDeviceProperties(&properties, 0);
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }
template <class T>
constexpr T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
namespace detail {
template <class T, class Index>
TensorInfo<T, Index> getTensorInfo(const Tensor& tensor) {
  TensorInfo<T, Index> info;
  info.data = tensor.data_ptr<std::remove_const_t<T>>();
  info.dims = static_cast<int>(tensor.dim());
  if (info.dims > MAX_TENSORINFO_DIMS) replay_torch::fail("CUDA Tensors cannot have more than 25 dimensions");
  for (int i = 0; i < info.dims; i++) {
    info.sizes[i] = static_cast<Index>(tensor.size(i));
    info.strides[i] = static_cast<Index>(tensor.stride(i));
  }
  return info;
}
inline bool canUse32BitIndexMath(const Tensor& tensor, int64_t most = std::numeric_limits<int32_t>::max()) {
  return tensor.numel() <= most;
}
}  // namespace detail
}  // namespace cuda
namespace native {
using at::cuda::detail::canUse32BitIndexMath;
}

// ATen/TensorUtils.h: arguments that name themselves when a check fails.
using CheckedFrom = const char*;
struct TensorArg {
  TensorArg(const Tensor& tensor, const char* name, int position) : tensor(tensor), name(name), pos(position) {}
  const Tensor* operator->() const { return &tensor; }
  const Tensor& operator*() const { return tensor; }
  const Tensor& tensor;
  const char* name;
  int pos;
};
inline void checkAllSameGPU(CheckedFrom from, ArrayRef<TensorArg> tensors, call_site = {}) {
  for (const TensorArg& argument : tensors)
    if (argument->defined() && !argument->is_cuda())
      replay_torch::fail(c10::str("Expected tensor for argument #", argument.pos, " '", argument.name,
                                  "' to be on the GPU (while checking arguments for ", from, ")"));
}
inline void checkAllSameType(CheckedFrom from, ArrayRef<TensorArg> tensors, call_site = {}) {
  for (const TensorArg& argument : tensors)
    if (argument->scalar_type() != tensors[0]->scalar_type())
      replay_torch::fail(c10::str("Expected tensor for argument #", argument.pos, " '", argument.name, "' to have the type ",
                                  tensors[0]->scalar_type(), "; but got ", argument->scalar_type(),
                                  " (while checking arguments for ", from, ")"));
}
}  // namespace at

namespace torch {
namespace cuda {
inline bool is_available() { return true; }
inline size_t device_count() { return 1; }
inline void synchronize(int64_t = -1) { (void)cudaDeviceSynchronize(); }
}  // namespace cuda
}  // namespace torch

namespace pybind11 {
struct gil_scoped_release {};
struct gil_scoped_acquire {};
}  // namespace pybind11
