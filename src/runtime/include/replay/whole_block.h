// Kernels in block form: one call runs all threads of a block, each from barrier to barrier.
//
// The front end writes such a kernel as a loop over `whole_block::next`, with a jump to where the
// thread waits. Threads run in the order in which the engine runs threads that have stacks of their
// own, and every thread's values between two barriers lie in its frame.
#pragma once

#include "replay/abi.h"
#include "replay/thread.h"
#include "vector_types.h"

namespace replay_rt {

/// Storage for one variable of a frame.
struct storage {
  void* address;
};

/// The threads of the block that runs. Made by a kernel at its start, on the stack of the first
/// thread; when the kernel returns, the block has ended.
template <class Frame>
class whole_block {
 public:
  explicit whole_block(const replay_site* barriers) : barriers_(barriers) {
    abi->whole_block(sizeof(Frame), &threads_);
    frames_ = static_cast<Frame*>(threads_.frames);
    for (uint32_t thread = 0; thread < threads_.count; thread++) frames_[thread].replay_at = 0;
  }

  /// The thread that runs next, made the one whose built-in variables are seen; null at the end.
  __attribute__((always_inline)) Frame* next() {
    for (;;) {
      if (position_ == threads_.count && !all_have_come()) return nullptr;
      Frame* frame = &frames_[position_];
      const replay_block_thread& thread = threads_.threads[position_];
      position_++;
      if (frame->replay_at == ended) continue;
      threadIdx = uint3{thread.index[0], thread.index[1], thread.index[2]};
      block.linear_thread = thread.linear;
      return frame;
    }
  }

  /// The thread of `frame` waits at barrier `at`, from 1, until all that have not ended do.
  __attribute__((always_inline)) void wait(Frame& frame, uint32_t at) {
    frame.replay_at = at;
    highest_ = at > highest_ ? at : highest_;
    lowest_ = at < lowest_ ? at : lowest_;
  }

  /// The thread of `frame` has ended.
  __attribute__((always_inline)) void end(Frame& frame) { frame.replay_at = ended; }

 private:
  static constexpr uint32_t ended = 0xffffffffu;

  /// Whether threads are left once each has come as far as it can alone; then they go on.
  bool all_have_come() {
    if (highest_ == 0) return false;
    if (lowest_ != highest_) check_barriers();
    highest_ = 0, lowest_ = ended, position_ = 0;
    return true;
  }

  /// Ends the replay unless all threads wait at one place; barriers of one line are one place.
  __attribute__((noinline)) void check_barriers() {
    bool differ = false;
    for (uint32_t thread = 0; thread < threads_.count; thread++) {
      uint32_t at = frames_[thread].replay_at;
      differ |= at != ended && barriers_[at - 1].line != barriers_[highest_ - 1].line;
    }
    if (!differ) return;
    replay_site sites[1024];
    for (uint32_t position = 0; position < threads_.count; position++) {
      uint32_t at = frames_[position].replay_at;
      sites[position] = at == ended ? replay_site{nullptr, 0} : barriers_[at - 1];
    }
    abi->barriers_differ(sites);
  }

  const replay_site* barriers_;
  replay_block_threads threads_;
  Frame* frames_;
  uint32_t position_ = 0;
  uint32_t highest_ = 0;
  uint32_t lowest_ = ended;
};

}  // namespace replay_rt

/// Makes an object in a frame; its end is that of the block.
inline void* operator new(size_t, replay_rt::storage at) noexcept { return at.address; }
