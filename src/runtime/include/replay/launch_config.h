// Launches with attributes. CUDA Runtime API: "cudaLaunchKernelEx"; CUDA C++ Programming Guide:
// "Programmatic Dependent Launch".
#pragma once

#include "replay/memory.h"

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

/// A kernel that may start early starts when the one before it has ended.
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...),
                               A&&... arguments) {
  bool together = false;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    const auto& cluster = attribute.val.clusterDim;
    if (attribute.id == cudaLaunchAttributeClusterDimension &&
        (cluster.x > 1 || cluster.y > 1 || cluster.z > 1))
      replay_rt::abi->device_abort("cudaLaunchKernelEx with clusters is not supported", {});
    together |= attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative;
  }
  auto launch =
      replay_rt::kernel_at(kernel, "cudaLaunchKernelEx", nullptr, 0)
          .on(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
  if (together) launch.cooperative();
  launch.run(static_cast<A&&>(arguments)...);
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
