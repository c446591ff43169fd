// The CUDA runtime API for host code: devices, errors and memory. Streams and the execution of kernels
// have headers of their own.
// CUDA Runtime API: "Device Management", "Error Handling", "Memory Management".
#pragma once

#include "replay/abi.h"
#include "replay/launch.h"
#include "replay/thread.h"

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidSymbol = 13,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidPtx = 218,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorIllegalState = 401,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorGraphExecUpdateFailure = 910,
  cudaErrorInvalidClusterSize = 912,
  cudaErrorUnknown = 999,
};
typedef cudaError cudaError_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
};
enum cudaFuncCache {
  cudaFuncCachePreferNone = 0,
  cudaFuncCachePreferShared = 1,
  cudaFuncCachePreferL1 = 2,
  cudaFuncCachePreferEqual = 3,
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxPitch = 11,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrCanMapHostMemory = 19,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrEccEnabled = 32,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrStreamPrioritiesSupported = 78,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrPageableMemoryAccess = 88,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrMemoryPoolsSupported = 115,
  cudaDevAttrClusterLaunch = 120,
};

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaMemAttachSingle 0x04

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major;
  int minor;
  int multiProcessorCount;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int concurrentKernels;
  int ECCEnabled;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int maxThreadsPerMultiProcessor;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  size_t sharedMemPerBlockOptin;
  int cooperativeLaunch;
  int maxBlocksPerMultiProcessor;
  int deviceOverlap;
  int multiGpuBoardGroupID;
  int isMultiGpuBoard;
  int kernelExecTimeoutEnabled;
  int asyncEngineCount;
  int unifiedAddressing;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int persistingL2CacheMaxSize;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  size_t surfaceAlignment;
  int singleToDoublePrecisionPerfRatio;
  int hostNativeAtomicSupported;
  int directManagedMemAccessFromHost;
  int cooperativeMultiDeviceLaunch;
  int memoryPoolsSupported;
  int clusterLaunch;
};

struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion;
  int maxDynamicSharedSizeBytes;
};

namespace replay_rt {
inline cudaError_t as_error(int code) { return static_cast<cudaError_t>(code); }
/// A call forbidden in a capture, unless it is relaxed: the capture is invalid from then on.
inline bool breaks_capture(bool also_relaxed) {
  if (capture == nullptr || (capture->relaxed && !also_relaxed)) return false;
  return capture->broken = true;
}
void fill_properties(cudaDeviceProp* properties);
int device_attribute(cudaDeviceAttr attribute);
// The shadow's elements are wider, and a block on the CPU has the shared memory for them.
template <class... T>
inline void widen_shared([[maybe_unused]] T&... bytes) {
#ifdef REPLAY_SHADOW
  if (abi->device_is_host()) (void)std::initializer_list<int>{(bytes *= 8, 0)...};
#endif
}
}  // namespace replay_rt

const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);

inline cudaError_t cudaGetLastError() {
  return replay_rt::as_error(replay_rt::abi->get_last_error(1));
}
inline cudaError_t cudaPeekAtLastError() {
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}

// Device management: one device.
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  replay_rt::fill_properties(properties);
  replay_rt::widen_shared(properties->sharedMemPerBlock, properties->sharedMemPerBlockOptin);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *value = replay_rt::device_attribute(attribute);
  const bool shared = attribute == cudaDevAttrMaxSharedMemoryPerBlock ||
                      attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin;
  if (shared) replay_rt::widen_shared(*value);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  if (replay_rt::breaks_capture(true)) return cudaErrorStreamCaptureUnsupported;
  return replay_rt::as_error(replay_rt::abi->synchronize(nullptr));
}
inline cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return replay_rt::as_error(replay_rt::abi->mem_get_info(free_bytes, total_bytes));
}

// Memory management.
inline cudaError_t cudaMalloc(void** pointer, size_t bytes, REPLAY_SITE_PARAMS) {
  if (replay_rt::breaks_capture(false)) return cudaErrorStreamCaptureUnsupported;
  return replay_rt::as_error(replay_rt::abi->malloc(pointer, bytes, replay_site{file, line}));
}
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes, REPLAY_SITE_PARAMS) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes, file, line);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream, REPLAY_SITE_PARAMS) {
  if (replay_rt::is_captured(stream))
    replay_rt::abi->device_abort("memory of a graph (cudaMallocAsync while its stream is captured) is not supported", replay_site{file, line});
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes, file, line);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = cudaMemAttachGlobal,
                              REPLAY_SITE_PARAMS) {
  return replay_rt::as_error(replay_rt::abi->malloc_managed(reinterpret_cast<void**>(pointer),
                                                            bytes, replay_site{file, line}));
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0) {
  return replay_rt::as_error(
      replay_rt::abi->malloc_host(reinterpret_cast<void**>(pointer), bytes));
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned = 0) {
  return cudaMallocHost(pointer, bytes);
}
inline cudaError_t cudaFree(void* pointer) {
  if (replay_rt::breaks_capture(false)) return cudaErrorStreamCaptureUnsupported;
  return replay_rt::as_error(replay_rt::abi->free(pointer));
}
inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
inline cudaError_t cudaFreeHost(void* pointer) {
  return replay_rt::as_error(replay_rt::abi->free_host(pointer));
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
  if (replay_rt::is_captured(stream)) {
    replay_rt::graph_node node = {};
    node.kind = replay_rt::graph_node::is_copy;
    node.to = to, node.from = from, node.bytes = bytes, node.value = kind;
    return replay_rt::capture_node(node, stream), cudaSuccess;
  }
  return replay_rt::as_error(replay_rt::abi->memcpy(to, from, bytes, kind, stream));
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes,
                                   cudaStream_t stream = nullptr) {
  if (replay_rt::is_captured(stream)) {
    replay_rt::graph_node node = {};
    node.kind = replay_rt::graph_node::is_fill;
    node.to = pointer, node.bytes = bytes, node.value = value;
    return replay_rt::capture_node(node, stream), cudaSuccess;
  }
  return replay_rt::as_error(replay_rt::abi->memset(pointer, value, bytes, stream));
}
inline cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes);
}
// Two dimensions: row by row.
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream = nullptr) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  for (size_t row = 0; row < height; row++) {
    cudaError_t error = cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch,
                                        static_cast<const char*>(from) + row * from_pitch, width,
                                        kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                size_t width, size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind);
}
inline cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width,
                                     size_t height, cudaStream_t stream = nullptr) {
  if (width > pitch) return cudaErrorInvalidValue;
  for (size_t row = 0; row < height; row++) {
    cudaError_t error =
        cudaMemsetAsync(static_cast<char*>(pointer) + row * pitch, value, width, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width,
                                size_t height) {
  return cudaMemset2DAsync(pointer, pitch, value, width, height);
}
/// Rows begin at multiples of 512 bytes, as on a device.
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height,
                            REPLAY_SITE_PARAMS) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(reinterpret_cast<void**>(pointer), *pitch * height, file, line);
}

// Managed memory lies where both sides reach it: advice moves nothing.
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly = 2,
  cudaMemAdviseSetPreferredLocation = 3,
  cudaMemAdviseUnsetPreferredLocation = 4,
  cudaMemAdviseSetAccessedBy = 5,
  cudaMemAdviseUnsetAccessedBy = 6,
};
enum cudaMemLocationType {
  cudaMemLocationTypeInvalid = 0,
  cudaMemLocationTypeDevice = 1,
  cudaMemLocationTypeHost = 2,
};
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned,
                                        cudaStream_t = nullptr) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t = 0,
                                            unsigned = cudaMemAttachSingle) {
  return cudaSuccess;
}

namespace replay_rt {
template <class T>
cudaError_t copy_symbol(const T& symbol, const char* name, const void* other, size_t bytes,
                        size_t offset, bool to_symbol, cudaStream_t stream) {
  if (offset + bytes > sizeof(T)) return cudaErrorInvalidValue;
  if (is_captured(stream))
    abi->device_abort("a captured copy of a symbol is not supported", {});
  void* variable = const_cast<void*>(static_cast<const volatile void*>(&symbol));
  return as_error(abi->memcpy_symbol(variable, name, const_cast<void*>(other), bytes, offset,
                                     to_symbol, stream));
}
template <class T>
cudaError_t copy_to_symbol(const T& symbol, const char* name, const void* from, size_t bytes,
                           size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice,
                           cudaStream_t stream = nullptr) {
  return copy_symbol(symbol, name, from, bytes, offset, true, stream);
}
template <class T>
cudaError_t copy_from_symbol(void* to, const T& symbol, const char* name, size_t bytes,
                             size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost,
                             cudaStream_t stream = nullptr) {
  return copy_symbol(symbol, name, to, bytes, offset, false, stream);
}
template <class P, class T>
cudaError_t address_of_symbol(P** pointer, const T& symbol, const char* name) {
  void* variable = const_cast<void*>(static_cast<const volatile void*>(&symbol));
  return as_error(
      abi->symbol_address(reinterpret_cast<void**>(pointer), variable, name, sizeof(T)));
}
}  // namespace replay_rt

// A GPU knows a symbol by its name, and only a macro sees the name.
#define cudaMemcpyToSymbol(symbol, ...) ::replay_rt::copy_to_symbol(symbol, #symbol, __VA_ARGS__)
#define cudaMemcpyToSymbolAsync(symbol, ...) \
  ::replay_rt::copy_to_symbol(symbol, #symbol, __VA_ARGS__)
#define cudaMemcpyFromSymbol(to, symbol, ...) \
  ::replay_rt::copy_from_symbol(to, symbol, #symbol, __VA_ARGS__)
#define cudaMemcpyFromSymbolAsync(to, symbol, ...) \
  ::replay_rt::copy_from_symbol(to, symbol, #symbol, __VA_ARGS__)
#define cudaGetSymbolAddress(pointer, symbol) \
  ::replay_rt::address_of_symbol(pointer, symbol, #symbol)

#include "replay/streams.h"
#include "replay/execution.h"
