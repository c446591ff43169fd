// Kernels in thread-loop form: one call runs all threads of a block, each from barrier to barrier.
//
// The front end writes such a kernel as a loop over `whole_block::next`, with a jump to the place of the
// thread's wait. Threads run in the engine's order for threads with stacks of their
// own, and every thread's values between two barriers lie in its frame.
#pragma once

#include "replay/abi.h"
#include "replay/regions.h"
#include "replay/thread.h"
#include "vector_types.h"

namespace replay_rt {

/// Storage for one variable of a frame.
struct storage {
  void* address;
};

/// The alignment of a thread's own variable, at least that of a vector as large, up to 16: kernels read and write their
/// arrays of float as float4, which device compilers keep in registers.
template <class Variable>
struct local_alignment {
  static constexpr size_t size = sizeof(Variable);
  static constexpr size_t of_vector = size >= 16 ? 16 : size >= 8 ? 8 : size >= 4 ? 4 : 1;
  static constexpr size_t value = alignof(Variable) < of_vector ? of_vector : alignof(Variable);
};

/// The threads of the running block. Made by a kernel at its start, on the stack of the first
/// thread; when the kernel returns, the block has ended.
/// `Indexed`: whether threads may ask for `threadIdx` after they have waited.
template <class Frame, bool Indexed>
class whole_block {
 public:
  whole_block(const replay_site* barriers, size_t scratch_bytes) : barriers_(barriers) {
    replay_block_threads threads;
    abi->whole_block(sizeof(Frame), scratch_bytes, &threads);
    scratch_ = threads.scratch;
    in_order_ = threads.in_order;
    thread_ = threads_ = threads.threads;
    frames_ = frame_ = static_cast<Frame*>(threads.frames);
    end_ = frames_ + threads.count;
    for (Frame* frame = frames_; frame != end_; frame++) frame->replay_at = 0;
  }

  /// The next thread, with its built-in variables set; null at the end.
  /// When all threads have come as far as they can alone, `at_barrier` is called.
  template <class AtBarrier>
  __attribute__((always_inline)) Frame* next(AtBarrier at_barrier) {
    for (;;) {
      if (frame_ == end_) {
        at_barrier();
        if (!all_have_come()) return nullptr;
      }
      Frame* frame = frame_++;
      const replay_block_thread& thread = *thread_++;
      at_ = frame->replay_at;
      if (__builtin_expect(at_ == ended, 0)) continue;
      block.running = &thread;
      if (Indexed || __builtin_expect(at_ == 0, 0)) threadIdx = uint3{thread.index[0], thread.index[1], thread.index[2]};
      return frame;
    }
  }

  /// Where the running thread goes on: its barrier's number, or 0 at the start.
  uint32_t at() const { return at_; }

  // A reduction by halves, `for (...; level > 0; level >>= 1) { if (index < level) branch; wait }`,
  // from its barrier on: the leading thread runs the branch, level by level, for the threads in it.

  /// Whether the running thread leads, all have its `level`, and the `index` of each is its place
  /// among the threads of the block.
  template <class Level, class Index>
  __attribute__((always_inline)) bool halves(Level level, Level Frame::*level_of,
                                             Index Frame::*index_of) const {
    return halves_by(level, level_of, [&](uint32_t t) { return (unsigned)(frames_[t].*index_of); });
  }
  /// The same where the index is `threadIdx.x`.
  template <class Level>
  __attribute__((always_inline)) bool halves(Level level, Level Frame::*level_of) const {
    return halves_by(level, level_of, [&](uint32_t t) { return threads_[t].index[0]; });
  }

  /// Whether the thread at `position` takes the branch at `level`.
  __attribute__((always_inline)) bool takes(uint32_t position, uint32_t level) const {
    return position < level && position < count();
  }

  /// Makes the thread at `position` the running one, with its `threadIdx` if `indexed`. Returns its frame.
  __attribute__((always_inline)) Frame& show(uint32_t position, bool indexed) const {
    const replay_block_thread& thread = threads_[position];
    block.running = &thread;
    if (indexed) threadIdx = uint3{thread.index[0], thread.index[1], thread.index[2]};
    return frames_[position];
  }

  /// Ends the loop: all threads have done level 1, and the first runs again, by `show`.
  template <class Level>
  __attribute__((always_inline)) void halved(Level& level, Level Frame::*level_of,
                                             bool indexed) const {
    for (uint32_t t = 0; t < count(); t++) frames_[t].*level_of = 1;
    show(0, indexed);
    level = 1;
  }

  /// The running thread, and the end of its list.
  const replay_block_thread* thread() const { return thread_ - 1; }
  const replay_block_thread* threads_end() const { return threads_ + (end_ - frames_); }

  /// Memory for the kernel's own use.
  char* scratch() const { return scratch_; }

  // For regions, see replay/regions.h.
  /// Whether threads stand in the order of their indices; with `warps`, in whole warps.
  bool is_in_order(bool warps) const { return in_order_ && !(warps && count() % 32 != 0); }
  /// The threads of the block.
  uint32_t count() const { return end_ - frames_; }
  const replay_block_thread* threads() const { return threads_; }
  Frame* frames() const { return frames_; }
  /// All threads have ended.
  static void finish() { block.running = nullptr; }

  /// The thread of `frame` waits at barrier `at`, from 1, until all live threads do.
  __attribute__((always_inline)) void wait(Frame& frame, uint32_t at) {
    frame.replay_at = at;
    any_ |= at;
    all_ &= at;
  }

  /// The thread of `frame` has ended.
  __attribute__((always_inline)) void end(Frame& frame) {
    frame.replay_at = ended;
    some_ended_ = true;
  }

 private:
  static constexpr uint32_t ended = 0xffffffffu;

  /// Whether the running thread is the first of the block, and all threads of it wait together.
  __attribute__((always_inline)) bool leads() const { return together_ && frame_ == frames_ + 1; }

  /// See `halves`; `index_of` gives the index of the thread at a place.
  template <class Level, class IndexOf>
  __attribute__((always_inline)) bool halves_by(Level level, Level Frame::*level_of,
                                                IndexOf index_of) const {
    if (!leads()) return false;
    bool agree = true;
    for (uint32_t t = 0; t < count(); t++) {
      agree &= frames_[t].*level_of == level && index_of(t) == t && threads_[t].linear == t;
    }
    return agree;
  }

  /// Whether threads are left once each has come as far as it can alone; then they go on.
  __attribute__((always_inline)) bool all_have_come() {
    if (any_ == 0) return false;
    if (all_ != any_) check_barriers(barriers_, frames_, end_);
    together_ = all_ == any_ && !some_ended_;
    any_ = 0, all_ = ended, frame_ = frames_, thread_ = threads_;
    return true;
  }

  /// Ends the replay unless all threads wait at one place; barriers of one line are one place.
  /// Static: the members can then live in registers.
  static __attribute__((noinline)) void check_barriers(const replay_site* barriers,
                                                       const Frame* frames, const Frame* end) {
    replay_site sites[1024];
    uint32_t line = 0;
    bool differ = false;
    for (const Frame* frame = frames; frame != end; frame++) {
      bool waits = frame->replay_at != ended;
      replay_site site = waits ? barriers[frame->replay_at - 1] : replay_site{nullptr, 0};
      sites[frame - frames] = site;
      if (!waits) continue;
      differ |= line != 0 && site.line != line;
      line = site.line;
    }
    if (differ) abi->barriers_differ(sites);
  }

  const replay_site* barriers_;
  char* scratch_;
  bool in_order_;
  const replay_block_thread* threads_;
  Frame* frames_;
  Frame* end_;
  // Whose turn is next.
  const replay_block_thread* thread_;
  Frame* frame_;
  uint32_t at_ = 0;
  // Whether all threads of the block waited at one barrier when the thread at the front went on.
  bool together_ = false;
  // The numbers of the barriers of waiting threads: their bits combined by or, and by and.
  uint32_t any_ = 0;
  uint32_t all_ = ended;
  bool some_ended_ = false;
};

}  // namespace replay_rt

/// Makes an object in a frame; it ends with the block.
inline void* operator new(size_t, replay_rt::storage at) noexcept { return at.address; }
