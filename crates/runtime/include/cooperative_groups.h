// Cooperative groups: thread_block, tiled partitions, coalesced threads, clusters, and the grid of a
// cooperative launch. CUDA C++ Programming Guide: "Cooperative Groups". Groups of several devices do not
// compile.
#pragma once

#include "replay/cluster.h"
#include "replay/folds.h"

namespace cooperative_groups {

/// All threads of the block. Guide: "Thread Block Group".
class thread_block {
 public:
  void sync(REPLAY_SITE_PARAMS) const { __syncthreads(file, line); }
  static unsigned thread_rank() { return replay_rt::block.linear_thread; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return thread_block(); }

/// A group of lanes of one warp, given as a mask; the base of tiles and coalesced groups.
/// `first` is the lane of rank 0 where the lanes are consecutive.
class thread_group {
 public:
  unsigned size() const { return (unsigned)__builtin_popcount(mask_); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    return (unsigned)__builtin_popcount(mask_ & ((1u << replay_rt::lane()) - 1u));
  }
  /// The position of this group among its parent's groups, and their number.
  unsigned meta_group_rank() const { return meta_rank_; }
  unsigned meta_group_size() const { return meta_size_; }
  void sync(REPLAY_SITE_PARAMS) const { __syncwarp(mask_, file, line); }

  template <class T>
  T shfl(T value, unsigned rank, REPLAY_SITE_PARAMS) const {
    return read(value, rank % size(), file, line);
  }
  /// A rank beyond the group gives the caller's own value.
  template <class T>
  T shfl_up(T value, unsigned delta, REPLAY_SITE_PARAMS) const {
    unsigned rank = thread_rank();
    return read(value, delta > rank ? rank : rank - delta, file, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, REPLAY_SITE_PARAMS) const {
    unsigned rank = thread_rank();
    return read(value, delta >= size() - rank ? rank : rank + delta, file, line);
  }
  int any(int predicate, REPLAY_SITE_PARAMS) const {
    return __any_sync(mask_, predicate, file, line);
  }
  int all(int predicate, REPLAY_SITE_PARAMS) const {
    return __all_sync(mask_, predicate, file, line);
  }
  /// Bit i of the result is the predicate of rank i.
  unsigned ballot(int predicate, REPLAY_SITE_PARAMS) const {
    return pack(__ballot_sync(mask_, predicate, file, line));
  }
  /// The lanes of the threads with the same value.
  template <class T>
  unsigned lanes_with(T value, REPLAY_SITE_PARAMS) const {
    return __match_any_sync(mask_, value, file, line);
  }
  template <class T>
  unsigned match_any(T value, REPLAY_SITE_PARAMS) const {
    return pack(__match_any_sync(mask_, value, file, line));
  }
  template <class T>
  unsigned match_all(T value, int& predicate, REPLAY_SITE_PARAMS) const {
    return pack(__match_all_sync(mask_, value, &predicate, file, line));
  }

 protected:
  unsigned mask() const { return mask_; }
  thread_group(unsigned mask, unsigned meta_rank, unsigned meta_size)
      : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}

  /// The value of the thread of this rank.
  template <class T>
  T read(T value, unsigned rank, const char* file, uint32_t line) const {
    return replay_rt::shuffle(mask_, value, lane_of(rank), file, line);
  }

 private:
  uint32_t lane_of(unsigned rank) const {
    unsigned lanes = mask_;
    for (; rank > 0; rank--) lanes &= lanes - 1;
    return lanes ? (uint32_t)__builtin_ctz(lanes) : replay_rt::lane();
  }
  unsigned pack(unsigned lanes) const {
    unsigned packed = 0, rank = 0;
    for (unsigned rest = mask_; rest; rest &= rest - 1, rank++)
      if (lanes & rest & (0 - rest)) packed |= 1u << rank;
    return packed;
  }

  unsigned mask_, meta_rank_, meta_size_;

  template <class Group>
  friend thread_group tile_of(const Group&, unsigned size);
};

/// The lanes of the caller's tile of `size` consecutive ranks, within `parent`.
template <class Group>
inline thread_group tile_of(const Group& parent, unsigned size) {
  unsigned rank = parent.thread_rank();
  unsigned first = replay_rt::lane() - rank % size;
  unsigned lanes = size >= 32 ? 0xffffffffu : ((1u << size) - 1u) << first;
  // The last tile may be incomplete: it holds the rest of the threads.
  unsigned after_first = parent.size() - (rank - rank % size);
  if (after_first < size) lanes = (after_first >= 32 ? 0xffffffffu : (1u << after_first) - 1u) << first;
  return thread_group(lanes, rank / size, (parent.size() + size - 1) / size);
}

/// A tile whose size is known to the compiler. Guide: "Tiled Partition", "Thread Block Tile".
template <unsigned Size, class Parent = void>
class thread_block_tile : public thread_group {
  static_assert(Size >= 1 && (Size & (Size - 1)) == 0, "a tile's size is a power of two");
  static_assert(Size <= 32, "tiles of more than 32 threads are not on the CPU reference machine");

 public:
  explicit thread_block_tile(const thread_group& group) : thread_group(group) {}
  /// A tile of any parent is a `thread_block_tile<Size>`.
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& tile) : thread_group(tile) {}
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  unsigned thread_rank() const { return replay_rt::lane() & (Size - 1); }
  template <class T>
  T shfl_xor(T value, unsigned lane_mask, REPLAY_SITE_PARAMS) const {
    unsigned rank = thread_rank() ^ lane_mask;
    return read(value, rank < Size ? rank : thread_rank(), file, line);
  }
  /// The caller's value after `steps` of `shfl_xor`, each followed by `Operation`.
  template <class Operation, class T>
  T fold(T value, const replay_rt::fold_steps& steps, const char* file, uint32_t line) const {
    typedef replay_rt::by_call<Operation> combine;
    return replay_rt::fold<replay_rt::fold_xor, combine>(mask(), value, steps, Size, file, line);
  }
  /// Whether ranks are lanes, counted from the first of `Size` lanes.
  bool is_segment() const {
    const uint64_t first = (uint64_t)mask() & (0 - (uint64_t)mask()), after = mask() + first;
    return mask() != 0 && (after & (after - 1)) == 0 && __builtin_ctz(mask()) % Size == 0;
  }
};

/// The threads of a warp running together. Guide: "Coalesced Groups".
class coalesced_group : public thread_group {
 public:
  explicit coalesced_group(unsigned mask) : thread_group(mask, 0, 1) {}
  explicit coalesced_group(const thread_group& group) : thread_group(group) {}
};
inline coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  return thread_block_tile<Size, Parent>(tile_of(parent, Size));
}
/// With a size known at run time: a power of two up to 32.
inline thread_group tiled_partition(const thread_block& parent, unsigned size) {
  return tile_of(parent, size);
}

/// The threads of a tile with the same label. Guide: "Labeled Partition", "Binary Partition".
template <class Group, class T>
inline coalesced_group labeled_partition(const Group& parent, T label, REPLAY_SITE_PARAMS) {
  return coalesced_group(parent.lanes_with(label, file, line));
}
template <class Group>
inline coalesced_group binary_partition(const Group& parent, bool predicate, REPLAY_SITE_PARAMS) {
  return labeled_partition(parent, (int)predicate, file, line);
}

template <class Group>
inline void sync(const Group& group, REPLAY_SITE_PARAMS) {
  group.sync(file, line);
}
template <class Group>
inline auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
inline auto group_size(const Group& group) {
  return group.size();
}
/// True in exactly one thread of the group: here the one of rank 0.
template <class Group, class Function>
inline void invoke_one(const Group& group, Function&& function) {
  if (group.thread_rank() == 0) function();
}

/// All threads of a cooperative launch. Guide: "Grid Group".
class grid_group {
 public:
  void sync(REPLAY_SITE_PARAMS) const { replay_rt::abi->grid_barrier({file, line}); }
  bool is_valid() const { return replay_rt::abi->is_cooperative(); }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static dim3 block_index() { return dim3(blockIdx); }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 group_dim() { return gridDim; }
  static dim3 cluster_index() { return __clusterIdx(); }
  static dim3 dim_clusters() { return __clusterGridDimInClusters(); }
  static unsigned long long num_clusters() {
    return num_blocks() / __clusterSizeInBlocks();
  }
  static unsigned long long cluster_rank() {
    const dim3 at = cluster_index(), counts = dim_clusters();
    return ((unsigned long long)at.z * counts.y + at.y) * counts.x + at.x;
  }
};
inline grid_group this_grid() { return grid_group(); }

/// The threads of the blocks of a cluster. Guide: "Cluster Group".
class cluster_group {
 public:
  /// The proof of the caller's arrival at the barrier.
  struct arrival_token {};

  static void sync(REPLAY_SITE_PARAMS) {
    __cluster_barrier_arrive(file, line);
    __cluster_barrier_wait(file, line);
  }
  static arrival_token barrier_arrive(REPLAY_SITE_PARAMS) {
    __cluster_barrier_arrive(file, line);
    return arrival_token();
  }
  static void barrier_wait(REPLAY_SITE_PARAMS) { __cluster_barrier_wait(file, line); }
  static void barrier_wait(arrival_token&&, REPLAY_SITE_PARAMS) {
    __cluster_barrier_wait(file, line);
  }
  static unsigned query_shared_rank(const void* address, REPLAY_SITE_PARAMS) {
    return replay_rt::shared_rank(address, file, line);
  }
  /// The address in the block of this rank for the caller's `address`.
  template <class T>
  static T* map_shared_rank(T* address, int rank, REPLAY_SITE_PARAMS) {
    return static_cast<T*>(replay_rt::map_shared((const void*)address, (uint32_t)rank, file, line));
  }
  static dim3 block_index() { return __clusterRelativeBlockIdx(); }
  static unsigned block_rank() { return __clusterRelativeBlockRank(); }
  static dim3 thread_index() {
    const dim3 at = block_index();
    return dim3(at.x * blockDim.x + threadIdx.x, at.y * blockDim.y + threadIdx.y,
                at.z * blockDim.z + threadIdx.z);
  }
  static unsigned thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static dim3 dim_blocks() { return __clusterDim(); }
  static unsigned num_blocks() { return __clusterSizeInBlocks(); }
  static dim3 dim_threads() {
    const dim3 sides = dim_blocks();
    return dim3(sides.x * blockDim.x, sides.y * blockDim.y, sides.z * blockDim.z);
  }
  static unsigned num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned size() { return num_threads(); }
};
inline cluster_group this_cluster() { return cluster_group(); }

}  // namespace cooperative_groups
