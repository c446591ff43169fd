// Clusters of blocks and their shared memory. CUDA C++ Programming Guide: "Thread Block Clusters",
// "Distributed Shared Memory"; the names are those of CUDA's `sm_90_rt.h`.
#pragma once

#include "replay/thread.h"

namespace replay_rt {
inline uint32_t cluster_blocks() { return block.cluster[0] * block.cluster[1] * block.cluster[2]; }

/// Whether an address lies in the shared memory of the block of this rank.
inline bool is_shared_of(const void* address, uint32_t rank) {
  const char* begin = block.cluster_shared[rank];
  const char* byte = static_cast<const char*>(address);
  return byte >= begin && byte - begin < block.shared_end - block.shared_begin;
}
/// The address in the shared memory of the block of this rank for this block's `address`.
inline void* map_shared(const void* address, uint32_t rank, const char* file, uint32_t line) {
  if (rank >= cluster_blocks())
    abi->device_abort("map_shared_rank of a rank that no block of the cluster has", {file, line});
  if (!is_shared_of(address, block.cluster_rank))
    abi->device_abort("map_shared_rank of an address that is not in the block's shared memory", {file, line});
  return block.cluster_shared[rank] + (static_cast<const char*>(address) - block.shared_begin);
}
/// The rank of the block whose shared memory `address` is.
inline uint32_t shared_rank(const void* address, const char* file, uint32_t line) {
  for (uint32_t rank = 0; rank < cluster_blocks(); rank++)
    if (is_shared_of(address, rank)) return rank;
  abi->device_abort("query_shared_rank of an address that is no shared memory of the cluster", {file, line});
}
}  // namespace replay_rt

inline dim3 __clusterDim() {
  return dim3(replay_rt::block.cluster[0], replay_rt::block.cluster[1], replay_rt::block.cluster[2]);
}
inline dim3 __clusterGridDimInClusters() {
  const dim3 sides = __clusterDim();
  return dim3(gridDim.x / sides.x, gridDim.y / sides.y, gridDim.z / sides.z);
}
inline dim3 __clusterIdx() {
  const dim3 sides = __clusterDim();
  return dim3(blockIdx.x / sides.x, blockIdx.y / sides.y, blockIdx.z / sides.z);
}
inline dim3 __clusterRelativeBlockIdx() {
  const dim3 sides = __clusterDim();
  return dim3(blockIdx.x % sides.x, blockIdx.y % sides.y, blockIdx.z % sides.z);
}
inline unsigned __clusterRelativeBlockRank() { return replay_rt::block.cluster_rank; }
inline unsigned __clusterSizeInBlocks() { return replay_rt::cluster_blocks(); }
inline void __cluster_barrier_arrive(REPLAY_SITE_PARAMS) {
  replay_rt::abi->cluster_arrive({file, line});
}
inline void __cluster_barrier_arrive_relaxed(REPLAY_SITE_PARAMS) {
  replay_rt::abi->cluster_arrive({file, line});
}
inline void __cluster_barrier_wait(REPLAY_SITE_PARAMS) {
  replay_rt::abi->cluster_wait({file, line});
}
inline void* __cluster_map_shared_rank(const void* address, unsigned rank, REPLAY_SITE_PARAMS) {
  return replay_rt::map_shared(address, rank, file, line);
}
inline unsigned __cluster_query_shared_rank(const void* address, REPLAY_SITE_PARAMS) {
  return replay_rt::shared_rank(address, file, line);
}
