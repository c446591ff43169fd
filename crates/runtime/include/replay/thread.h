// The built-in variables of device code and its barriers.
// CUDA C++ Programming Guide: "Built-in Variables", "Synchronization Functions".
#pragma once

#include "replay/abi.h"
#include "vector_types.h"

// Initial-exec: one load from the thread pointer. The engine writes them before it runs a thread.
#define REPLAY_TLS __thread __attribute__((tls_model("initial-exec")))
extern REPLAY_TLS uint3 threadIdx;
extern REPLAY_TLS uint3 blockIdx;
extern REPLAY_TLS dim3 blockDim;
extern REPLAY_TLS dim3 gridDim;
static constexpr int warpSize = 32;

namespace replay_rt {

/// The engine's other state for a block's operating-system thread.
struct block_state {
  char* dynamic_shared;   // the launch's dynamic shared memory
  char* shared_begin;     // all shared memory of the block: addresses in [begin, end)
  char* shared_end;
  void** shared_slots;    // the address of each static __shared__ variable, null before first use
  char* const* cluster_shared;  // by rank in the cluster: `shared_begin` of the block
  uint32_t cluster[3];    // blocks of the cluster along x, y, z; 1 each where the launch has none
  uint32_t cluster_rank;  // the block's rank in its cluster
  const replay_block_thread* running;  // in a loop over threads: the current thread
  uint32_t linear_thread;  // in other kernels: index of the current thread in its block
  uint32_t has_turn;      // every earlier block has ended: order-dependent atomics may proceed
  uint32_t in_kernel;     // 0 while host code runs
  uint32_t restless;      // see `may_be_waiting`
  uint32_t yields;        // how often a thread in a loop over the rest of its block has let others run
};
extern REPLAY_TLS block_state block;

#ifdef REPLAY_CHECKED
/// Reports an atomic change of `bytes` at `address` to the engine.
void tell_atomic(const volatile void* address, size_t bytes);
/// Announces a compare-and-swap of `bytes` at `address`.
void before_swap(const volatile void* address, size_t bytes, const void* compare);
#endif

/// The lane of the current thread in its warp, 0 to 31.
inline uint32_t lane() { return block.linear_thread & 31u; }

/// Counts a possible operation of a waiting loop. Threads of a block run one after the other, so after enough of them
/// the others get their turn. The count depends on the block alone, so the order is the same on any number of
/// cores.
constexpr uint32_t restless_enough = 256;
inline void may_be_waiting(uint32_t weight) {
  block.restless += weight;
  if (block.restless < restless_enough || !block.in_kernel) return;
  block.restless = 0;
  abi->yield_thread();
}

/// Waits until every earlier block of the grid has ended, unless `address` is shared memory.
/// Called before every atomic: they happen in the order of blocks on any number of cores.
inline void atomic_turn(const volatile void* address) {
  may_be_waiting(1);
  const char* byte = const_cast<const char*>(static_cast<const volatile char*>(address));
  if (block.has_turn || !block.in_kernel) return;
  if (byte >= block.shared_begin && byte < block.shared_end) return;
  abi->atomic_turn();
}

/// See `replay_warp_op`.
inline uint64_t warp_collective(replay_warp_op op, uint32_t mask, uint64_t value,
                                uint32_t argument, const char* file, uint32_t line) {
  return abi->warp_collective(op, mask, value, argument, replay_site{file, line});
}

}  // namespace replay_rt

// A caller's place in the user's file: default arguments are evaluated where the call stands.
#define REPLAY_SITE_PARAMS const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()

inline void __syncthreads(REPLAY_SITE_PARAMS) {
  replay_rt::abi->barrier(REPLAY_BARRIER_PLAIN, 0, replay_site{file, line});
}
inline int __syncthreads_count(int predicate, REPLAY_SITE_PARAMS) {
  return (int)replay_rt::abi->barrier(REPLAY_BARRIER_COUNT, predicate != 0, {file, line});
}
inline int __syncthreads_and(int predicate, REPLAY_SITE_PARAMS) {
  return (int)replay_rt::abi->barrier(REPLAY_BARRIER_AND, predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, REPLAY_SITE_PARAMS) {
  return (int)replay_rt::abi->barrier(REPLAY_BARRIER_OR, predicate != 0, {file, line});
}
