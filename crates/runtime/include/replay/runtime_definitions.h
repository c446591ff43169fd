// Definitions once in each artifact: its entry points and the parts of the runtime API without a table. Compiled on
// its own and linked to every artifact.
#pragma once

#include <stdio.h>

#include <exception>

#include "replay/launch.h"
#include "replay/memory.h"

// Itanium C++ ABI, section 3.4: part of every C++ program's library.
extern "C" char* __cxa_demangle(const char* mangled, char* buffer, size_t* length, int* status);

REPLAY_TLS uint3 threadIdx;
REPLAY_TLS uint3 blockIdx;
REPLAY_TLS dim3 blockDim;
REPLAY_TLS dim3 gridDim;

namespace replay_rt {
const replay_abi* abi;
int rounding;
int integer_rounding;
REPLAY_TLS block_state block;
stream_capture* capture;
bool has_host_algorithms;

// Filled while the artifact is loaded, before `abi` is there.
static const launch_bounds* all_bounds = nullptr;
launch_bounds::launch_bounds(const void* function, uint32_t threads, uint32_t x, uint32_t y,
                             uint32_t z)
    : function(function), threads(threads), cluster{x, y, z}, next(all_bounds) {
  all_bounds = this;
}
const launch_bounds* bounds_of(const void* function) {
  const launch_bounds* bounds = all_bounds;
  while (bounds && bounds->function != function) bounds = bounds->next;
  return bounds;
}

// Static tables of kernels fill it while the artifact is loaded, before `abi` is there.
static const untyped_kernel* all_untyped_kernels = nullptr;
const untyped_kernel* find_untyped_kernel(const void* function) {
  const untyped_kernel* kernel = all_untyped_kernels;
  while (kernel && kernel->function != function) kernel = kernel->next;
  return kernel;
}
void keep_untyped_kernel(const void* function, decltype(untyped_kernel::launch) launch) {
  if (find_untyped_kernel(function)) return;
  void* memory = __builtin_malloc(sizeof(untyped_kernel));
  if (!memory) return;
  *static_cast<untyped_kernel*>(memory) = {function, launch, all_untyped_kernels};
  all_untyped_kernels = static_cast<untyped_kernel*>(memory);
}

#ifdef REPLAY_SHADOW
// A construct without a meaning that has run while the artifact was loaded.
static const char* meaningless = nullptr;
static replay_site meaningless_site;
void no_shadow(const char* what, const char* file, uint32_t line) {
  replay_site site{file, line};
  if (abi) abi->no_shadow(what, site);
  if (!meaningless) meaningless = what, meaningless_site = site;
}
void begin_shadow() {
  has_read_rounded_bits = false;
  if (meaningless) abi->no_shadow(meaningless, meaningless_site);
}
#endif

// The text from `begin` to `end` as sources write it, for as long as the artifact is loaded.
static const char* kept_name(const char* begin, const char* end, const char* otherwise) {
  static char arena[1 << 16];
  static size_t used = 0;
  const size_t length = static_cast<size_t>(end - begin);
  if (used + length + 1 > sizeof arena) return otherwise;
  char* text = arena + used;
  size_t kept = 0;
  bool in_number = false;
  auto in_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  for (const char* c = begin; c < end; ++c) {
    // Old demanglers close nested lists with "> >"; numbers have a suffix.
    char previous = kept > 0 ? text[kept - 1] : 0;
    bool gap = *c == ' ' && c + 1 < end && (c[1] == '*' || (c[1] == '>' && previous == '>'));
    if (in_word(*c)) {
      if (!in_word(previous)) in_number = *c >= '0' && *c <= '9';
    } else {
      in_number = false;
    }
    bool suffix = in_number && (*c == 'u' || *c == 'l' || *c == 'U' || *c == 'L');
    if (!gap && !suffix) text[kept++] = *c;
  }
  text[kept] = 0;
  used += kept + 1;
  return text;
}

// `replay_1_f`, the name by which a source has its `f` apart from that of another one; `name` for any other.
// `spelled` is `replay::instance<&(ns::replay_1_f(float*))>`.
static const char* renamed_name(const char* spelled, const char* name) {
  auto in_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const char* end = spelled;
  while (*end && !(*end == '(' && end > spelled && in_word(end[-1]))) ++end;
  const char* begin = end;
  while (begin > spelled && in_word(begin[-1])) --begin;
  const char prefix[] = "replay_";
  size_t same = 0;
  while (prefix[same] && begin[same] == prefix[same]) ++same;
  const bool is_renamed = prefix[same] == 0 && begin[same] >= '0' && begin[same] <= '9';
  return *end && is_renamed ? kept_name(begin, end, name) : name;
}

// From `replay::instance<&(void ns::f<256, float>(float*))>` to `ns::f<256, float>`; a kernel other than a
// template keeps its name as written, or the one that it got. g++ and clang++ share a demangler, so the names are the same.
const char* instance_name(const char* name, const char* mangled) {
  int status = 0;
  const char* spelled = __cxa_demangle(mangled, nullptr, nullptr, &status);
  if (spelled == nullptr) return name;
  const char mark[] = "<&(void ";
  const char* begin = nullptr;
  const char* end = spelled;
  for (; *end; ++end) {
    size_t same = 0;
    while (begin == nullptr && mark[same] && end[same] == mark[same]) ++same;
    if (begin == nullptr && mark[same] == 0) begin = end + same;
  }
  if (begin == nullptr) return renamed_name(spelled, name);
  // Back over `)>` and over the parameters; they may hold parentheses of their own.
  end -= 2;
  int depth = 0;
  do {
    --end;
    if (*end == ')') ++depth;
    if (*end == '(') --depth;
  } while (depth > 0 && end > begin);
  bool is_template = end > begin && end[-1] == '>';
  return is_template ? kept_name(begin, end, name) : name;
}

// From `void ns::f<256, float>(float*)`, the name by its symbol, to `ns::f<256, float>`.
static const char* symbol_name(const void* function, const char* otherwise) {
  const char* symbol = abi->name_function(function);
  if (symbol == nullptr) return otherwise;
  int status = 0;
  const char* spelled = __cxa_demangle(symbol, nullptr, nullptr, &status);
  if (spelled == nullptr) return symbol;
  const char* end = spelled;
  while (*end) ++end;
  int depth = 0;
  do {
    --end;
    if (*end == ')') ++depth;
    if (*end == '(') --depth;
  } while (depth > 0 && end > spelled);
  const char prefix[] = "void ";
  size_t same = 0;
  while (prefix[same] && spelled[same] == prefix[same]) ++same;
  return kept_name(prefix[same] ? spelled : spelled + same, end, otherwise);
}
const char* kernel_name(const void* function, const char* otherwise) {
  struct named {
    const void* function;
    const char* name;
    const named* next;
  };
  static const named* all = nullptr;
  const named* known = all;
  while (known && known->function != function) known = known->next;
  if (!known) {
    // Symbols do not move while the artifact is loaded, so found names stay valid.
    void* memory = __builtin_malloc(sizeof(named));
    if (!memory) return otherwise;
    *static_cast<named*>(memory) = {function, symbol_name(function, nullptr), all};
    known = all = static_cast<named*>(memory);
  }
  return known->name ? known->name : otherwise;
}

void fill_properties(cudaDeviceProp* properties) {
  *properties = {};
  const char name[] = "replay";
  for (size_t i = 0; i < sizeof name; ++i) properties->name[i] = name[i];
  size_t free_bytes = 0;
  abi->mem_get_info(&free_bytes, &properties->totalGlobalMem);
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->memPitch = 0x7fffffff;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->clockRate = 1980000;
  properties->totalConstMem = 64 << 10;
  properties->major = 9;
  properties->multiProcessorCount = abi->multiprocessors();
  properties->concurrentKernels = properties->cooperativeLaunch = 1;
  properties->canMapHostMemory = 1;
  properties->memoryClockRate = 3201000;
  properties->memoryBusWidth = 6144;
  properties->l2CacheSize = 60 << 20;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->regsPerMultiprocessor = 65536;
  properties->managedMemory = 1;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->asyncEngineCount = 3;
  properties->unifiedAddressing = 1;
  properties->globalL1CacheSupported = properties->localL1CacheSupported = 1;
  properties->concurrentManagedAccess = properties->computePreemptionSupported = 1;
  properties->reservedSharedMemPerBlock = 1024;
  properties->textureAlignment = properties->surfaceAlignment = 512;
  properties->texturePitchAlignment = 32;
  properties->singleToDoublePrecisionPerfRatio = 2;
  properties->memoryPoolsSupported = properties->clusterLaunch = 1;
}

int device_attribute(cudaDeviceAttr attribute) {
  cudaDeviceProp properties;
  fill_properties(&properties);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return properties.maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock: return (int)properties.sharedMemPerBlock;
    case cudaDevAttrWarpSize: return properties.warpSize;
    case cudaDevAttrMultiProcessorCount: return properties.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return properties.maxThreadsPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor: return properties.major;
    case cudaDevAttrComputeCapabilityMinor: return properties.minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return (int)properties.sharedMemPerMultiprocessor;
    case cudaDevAttrMaxBlockDimX: return (int)properties.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY: return (int)properties.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ: return (int)properties.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX: return (int)properties.maxGridSize[0];
    case cudaDevAttrMaxGridDimY: return (int)properties.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ: return (int)properties.maxGridSize[2];
    case cudaDevAttrTotalConstantMemory: return (int)properties.totalConstMem;
    case cudaDevAttrMaxPitch: return (int)properties.memPitch;
    case cudaDevAttrMaxRegistersPerBlock: return (int)properties.regsPerBlock;
    case cudaDevAttrClockRate: return (int)properties.clockRate;
    case cudaDevAttrIntegrated: return (int)properties.integrated;
    case cudaDevAttrCanMapHostMemory: return (int)properties.canMapHostMemory;
    case cudaDevAttrComputeMode: return (int)properties.computeMode;
    case cudaDevAttrConcurrentKernels: return (int)properties.concurrentKernels;
    case cudaDevAttrEccEnabled: return (int)properties.ECCEnabled;
    case cudaDevAttrMemoryClockRate: return (int)properties.memoryClockRate;
    case cudaDevAttrGlobalMemoryBusWidth: return (int)properties.memoryBusWidth;
    case cudaDevAttrL2CacheSize: return (int)properties.l2CacheSize;
    case cudaDevAttrAsyncEngineCount: return (int)properties.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing: return (int)properties.unifiedAddressing;
    case cudaDevAttrStreamPrioritiesSupported: return (int)properties.streamPrioritiesSupported;
    case cudaDevAttrMaxRegistersPerMultiprocessor: return (int)properties.regsPerMultiprocessor;
    case cudaDevAttrManagedMemory: return (int)properties.managedMemory;
    case cudaDevAttrPageableMemoryAccess: return (int)properties.pageableMemoryAccess;
    case cudaDevAttrConcurrentManagedAccess: return (int)properties.concurrentManagedAccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return (int)properties.maxBlocksPerMultiProcessor;
    case cudaDevAttrReservedSharedMemoryPerBlock: return (int)properties.reservedSharedMemPerBlock;
    case cudaDevAttrMemoryPoolsSupported: return (int)properties.memoryPoolsSupported;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrClusterLaunch: return 1;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return (int)properties.sharedMemPerBlockOptin;
  }
  return 0;
}
}  // namespace replay_rt

#define REPLAY_ERRORS(each)                                                           \
  each(cudaSuccess, "no error")                                                       \
  each(cudaErrorInvalidValue, "invalid argument")                                     \
  each(cudaErrorMemoryAllocation, "out of memory")                                    \
  each(cudaErrorInitializationError, "initialization error")                          \
  each(cudaErrorInvalidConfiguration, "invalid configuration argument")               \
  each(cudaErrorInvalidSymbol, "invalid device symbol")                               \
  each(cudaErrorInvalidDevicePointer, "invalid device pointer")                       \
  each(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")          \
  each(cudaErrorInvalidDeviceFunction, "invalid device function")                     \
  each(cudaErrorNoDevice, "no CUDA-capable device is detected")                       \
  each(cudaErrorInvalidDevice, "invalid device ordinal")                              \
  each(cudaErrorInvalidPtx, "a PTX JIT compilation failed")                           \
  each(cudaErrorInvalidResourceHandle, "invalid resource handle")                     \
  each(cudaErrorNotReady, "device not ready")                                         \
  each(cudaErrorIllegalAddress, "an illegal memory access was encountered")           \
  each(cudaErrorLaunchOutOfResources, "too many resources requested for launch")      \
  each(cudaErrorLaunchTimeout, "the launch timed out and was terminated")             \
  each(cudaErrorAssert, "device-side assert triggered")                               \
  each(cudaErrorIllegalInstruction, "an illegal instruction was encountered")         \
  each(cudaErrorMisalignedAddress, "misaligned address")                              \
  each(cudaErrorLaunchFailure, "unspecified launch failure")                          \
  each(cudaErrorIllegalState, "the operation cannot be performed in the present state")  \
  each(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch")   \
  each(cudaErrorNotSupported, "operation not supported")                              \
  each(cudaErrorStreamCaptureUnsupported,                                             \
       "operation not permitted when stream is capturing")                            \
  each(cudaErrorStreamCaptureInvalidated,                                             \
       "operation failed due to a previous error during capture")                     \
  each(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences") \
  each(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began") \
  each(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")          \
  each(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream") \
  each(cudaErrorStreamCaptureImplicit,                                                \
       "operation would make the legacy stream depend on a capturing blocking stream") \
  each(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream") \
  each(cudaErrorStreamCaptureWrongThread,                                             \
       "attempt to terminate a thread-local capture sequence from another thread")    \
  each(cudaErrorGraphExecUpdateFailure,                                               \
       "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
  each(cudaErrorInvalidClusterSize, "invalid cluster size")                           \
  each(cudaErrorUnknown, "unknown error")

const char* cudaGetErrorString(cudaError_t error) {
#define REPLAY_TEXT(code, text) \
  if (error == code) return text;
  REPLAY_ERRORS(REPLAY_TEXT)
  return "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
#define REPLAY_NAME(code, text) \
  if (error == code) return #code;
  REPLAY_ERRORS(REPLAY_NAME)
  return "unrecognized error code";
}

extern "C" {
// The linker's names for the begin and the end of the section of `__managed__`, if there is one.
extern __attribute__((weak, visibility("hidden"))) char __start_replay_managed[];
extern __attribute__((weak, visibility("hidden"))) char __stop_replay_managed[];

// Ends the replay for an exception that nobody caught, by its message.
static void replay_end_uncaught() {
  char why[1024] = "an exception was not caught";
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& exception) {
    snprintf(why, sizeof why, "an exception was not caught: %s", exception.what());
  } catch (...) {
  }
  replay_rt::abi->device_abort(why, replay_site{nullptr, 0});
}

struct replay_thread_pointers {
  uint3* thread_idx;
  uint3* block_idx;
  dim3* block_dim;
  dim3* grid_dim;
  replay_rt::block_state* block;
  char* managed[2];
  bool has_host_algorithms;
};

__attribute__((visibility("default"))) int replay_bind(const replay_abi* table, size_t bytes,
                                                       int rounding) {
  if (bytes != sizeof(replay_abi)) return 1;
  replay_rt::abi = table;
  replay_rt::rounding = rounding < 4 ? rounding : 0;
  replay_rt::integer_rounding = rounding < 4 ? 0 : rounding;
  std::set_terminate(replay_end_uncaught);
  return 0;
}

__attribute__((visibility("default"))) void replay_thread(replay_thread_pointers* pointers) {
  *pointers = {&threadIdx, &blockIdx, &blockDim, &gridDim, &replay_rt::block,
               {__start_replay_managed, __stop_replay_managed},
               replay_rt::has_host_algorithms};
}
}
