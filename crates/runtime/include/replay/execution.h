// The execution of kernels, and hints for its speed. CUDA Runtime API: "Execution Control",
// "Occupancy".
#pragma once

#include "replay/memory.h"

// Hints for speed do nothing.
enum cudaLimit {
  cudaLimitStackSize = 0,
  cudaLimitPrintfFifoSize = 1,
  cudaLimitMallocHeapSize = 2,
  cudaLimitPersistingL2CacheSize = 6,
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault = 0,
  cudaSharedMemBankSizeFourByte = 1,
  cudaSharedMemBankSizeEightByte = 2,
};
#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceMapHost 0x08
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  *value = limit == cudaLimitStackSize       ? 1 << 10
           : limit == cudaLimitPrintfFifoSize  ? 7 << 20
           : limit == cudaLimitMallocHeapSize  ? 8 << 20
                                               : 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  return *version = CUDART_VERSION, cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  return *version = CUDART_VERSION, cudaSuccess;
}

// Execution control and occupancy.
template <class... P>
cudaError_t cudaLaunchKernel(void (*function)(P...), dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                             REPLAY_SITE_PARAMS) {
  auto launch = replay_rt::kernel_at(function, "cudaLaunchKernel", file, line);
  replay_rt::launch_by_pointers(launch.on(grid, block, shared_bytes, stream), arguments,
                                typename replay_rt::make_indices<sizeof...(P)>::type{});
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}
/// All blocks run together. CUDA C++ Programming Guide: "Grid Synchronization".
template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*function)(P...), dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
  auto launch = replay_rt::kernel_at(function, "cudaLaunchCooperativeKernel", file, line);
  replay_rt::launch_by_pointers(launch.on(grid, block, shared_bytes, stream).cooperative(),
                                arguments,
                                typename replay_rt::make_indices<sizeof...(P)>::type{});
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}
template <class F>
cudaError_t cudaFuncSetAttribute(F* function, cudaFuncAttribute attribute, int value) {
  return replay_rt::as_error(replay_rt::abi->func_set_attribute(
      reinterpret_cast<const void*>(function), "", attribute, value));
}
template <class F>
cudaError_t cudaFuncSetCacheConfig(F*, cudaFuncCache) { return cudaSuccess; }
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = 48 << 10;
  attributes->binaryVersion = 90;
  attributes->ptxVersion = 90;
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F* function,
                                                          int block_size, size_t shared_bytes) {
  return replay_rt::as_error(replay_rt::abi->occupancy(
      blocks, reinterpret_cast<const void*>(function), block_size, shared_bytes));
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, F* function,
                                                                   int block_size,
                                                                   size_t shared_bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared_bytes);
}
template <class F>
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, F*, int blocks, int) {
  if (blocks < 1) return cudaErrorInvalidValue;
  const size_t share = (228 << 10) / (size_t)blocks - 1024;
  return *bytes = share < (227 << 10) ? share : (227 << 10), cudaSuccess;
}
template <class S, class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid_size, int* block_size,
                                                           F* function, S shared_bytes,
                                                           int limit = 0) {
  *block_size = limit > 0 && limit < 1024 ? limit : 1024;
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function, *block_size, (size_t)shared_bytes(*block_size));
  return *grid_size = replay_rt::abi->multiprocessors() * blocks, error;
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid_size, int* block_size, F* function,
                                               size_t shared_bytes = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      grid_size, block_size, function, [shared_bytes](int) { return shared_bytes; }, limit);
}
