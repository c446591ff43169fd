// Kernels in which no thread waits for another: one call runs all threads of a block, each to its end.
//
// The front end makes the body of such a kernel a function of the built-in variables, and calls it for each thread
// in the engine's order.
#pragma once

#include "replay/abi.h"
#include "replay/thread.h"
#include "vector_types.h"

// Behind the parameters of the lambda for a thread. Compilers do not agree where an attribute stands.
#ifdef __clang__
#define REPLAY_THREAD_BODY __attribute__((always_inline)) mutable
#else
#define REPLAY_THREAD_BODY mutable __attribute__((always_inline))
#endif

namespace replay_rt {

/// The threads of the running block. Made by a kernel at its start, on the stack of the first thread; when the kernel
/// returns, the block has ended.
/// `Indexed`: whether functions of the kernel may ask for `threadIdx`.
/// `Yields`: whether a thread may let others run, as atomics do now and then. It keeps the stack, and the engine calls
/// the kernel again for the threads behind it: when it goes on, it is the last one here.
template <bool Indexed, bool Yields>
class threads_in_turn {
 public:
  threads_in_turn()
      : yields_(block.yields), block_index_(blockIdx), block_shape_(blockDim), grid_shape_(gridDim) {
    replay_block_threads threads;
    if (Yields) abi->rest_of_block(&threads);
    else abi->whole_block(0, 0, &threads);
    thread_ = threads.threads;
    end_ = threads.threads + threads.count;
  }

  /// Makes the next thread the running one; false if none is left here.
  __attribute__((always_inline)) bool next() {
    if (thread_ == end_ || (Yields && __builtin_expect(block.yields != yields_, 0))) return false;
    block.running = thread_;
    index_ = uint3{thread_->index[0], thread_->index[1], thread_->index[2]};
    if (Indexed) threadIdx = index_;
    thread_++;
    return true;
  }

  // The built-in variables of the running thread: no store of a kernel can change these copies.
  uint3 thread_index() const { return index_; }
  uint3 block_index() const { return block_index_; }
  dim3 block_shape() const { return block_shape_; }
  dim3 grid_shape() const { return grid_shape_; }

 private:
  const replay_block_thread* thread_;
  const replay_block_thread* end_;
  uint32_t yields_;
  uint3 index_;
  uint3 block_index_;
  dim3 block_shape_;
  dim3 grid_shape_;
};

}  // namespace replay_rt
