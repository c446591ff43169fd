// Launches with attributes. CUDA Runtime API: "cudaLaunchKernelEx"; CUDA C++ Programming Guide:
// "Programmatic Dependent Launch".
#pragma once

#include "replay/execution.h"

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
struct cudaLaunchAttributeValue {
  struct {
    unsigned x, y, z;
  } clusterDim;
  int cooperative, priority, programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

/// `kernel` with the shape and the attributes of `config`. With permission to start early it starts
/// after the end of the kernel before it.
template <class... P>
replay_rt::configured<P...> replay_configure(const cudaLaunchConfig_t* config, void (*kernel)(P...),
                                             const char* otherwise) {
  auto launch =
      replay_rt::kernel_at(kernel, otherwise, nullptr, 0)
          .on(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    const auto& cluster = attribute.val.clusterDim;
    if (attribute.id == cudaLaunchAttributeClusterDimension && (cluster.x | cluster.y | cluster.z))
      launch.in_clusters(cluster.x, cluster.y, cluster.z);
    if (attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative)
      launch.cooperative();
  }
  return launch;
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...),
                               A&&... arguments) {
  replay_configure(config, kernel, "cudaLaunchKernelEx").run(static_cast<A&&>(arguments)...);
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}
template <class... P>
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, void (*kernel)(P...),
                                void** arguments) {
  replay_rt::launch_by_pointers(replay_configure(config, kernel, "cudaLaunchKernelExC"), arguments,
                                typename replay_rt::make_indices<sizeof...(P)>::type{});
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}

namespace replay_rt {
/// A kernel that sources cast to a pointer to void.
struct untyped_kernel {
  const void* function;
  void (*launch)(const cudaLaunchConfig_t* config, const void* function, void** arguments);
  const untyped_kernel* next;
};
void keep_untyped_kernel(const void* function, decltype(untyped_kernel::launch) launch);
const untyped_kernel* find_untyped_kernel(const void* function);

template <class... P>
void launch_untyped(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  auto kernel = reinterpret_cast<void (*)(P...)>(const_cast<void*>(function));
  launch_by_pointers(replay_configure(config, kernel, "a kernel behind a pointer to void"), arguments,
                     typename make_indices<sizeof...(P)>::type{});
}
/// `function` as a pointer to void, which launches take as well: its parameters are kept.
template <class... P>
void* untyped_pointer(void (*function)(P...)) {
  void* pointer = reinterpret_cast<void*>(function);
  keep_untyped_kernel(pointer, launch_untyped<P...>);
  return pointer;
}
}  // namespace replay_rt

inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** arguments, REPLAY_SITE_PARAMS) {
  const replay_rt::untyped_kernel* known = replay_rt::find_untyped_kernel(kernel);
  if (!known)
    replay_rt::abi->device_abort("a launch of a pointer to void that is no cast of a kernel's name: its "
                                 "parameters are not known", replay_site{file, line});
  known->launch(config, kernel, arguments);
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}
inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                                    REPLAY_SITE_PARAMS) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  return cudaLaunchKernelExC(&config, kernel, arguments, file, line);
}
inline cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block,
                                               void** arguments, size_t shared_bytes = 0,
                                               cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
  cudaLaunchAttribute cooperative{cudaLaunchAttributeCooperative, {}};
  cooperative.val.cooperative = 1;
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, &cooperative, 1};
  return cudaLaunchKernelExC(&config, kernel, arguments, file, line);
}
/// How many clusters fit the device at once, if each multiprocessor has blocks of one of them only.
template <class F>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, F* function,
                                           const cudaLaunchConfig_t* config) {
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const auto& sides = config->attrs[i].val.clusterDim;
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      size = sides.x * sides.y * sides.z;
  }
  const dim3 block = config->blockDim;
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function, (int)(block.x * block.y * block.z), config->dynamicSmemBytes);
  if (error != cudaSuccess || size == 0) return error != cudaSuccess ? error : cudaErrorInvalidValue;
  return *clusters = blocks * (replay_rt::abi->multiprocessors() / (int)size), cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, F*, const cudaLaunchConfig_t*) {
  return *size = 8, cudaSuccess;
}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
