// Kernels in thread-loop form with turns: threads also wait for lanes of their warp, or let others run before atomics.
//
// The front end writes them like other kernels in thread-loop form (replay/whole_block.h), but the engine gives the
// turns: threads run in exactly the same order as with stacks of their own. Neighbouring threads of a warp at the same
// place are reported to the engine at once. Only the last of them can let others go, since those others, or the
// engine, wait for it too.
#pragma once

#include "replay/folds.h"
#include "replay/regions.h"
#include "replay/thread.h"

namespace replay_rt {

/// Where a thread is in a chain of shuffles; a member of its frame.
struct fold_place {
  uint16_t done;   // steps
  uint8_t count;   // steps of the wait that it is at
  bool more;       // whether there are steps behind these
};

/// Up to `Most` steps of a chain, behind the finished ones.
template <uint32_t Most>
class fold_part {
 public:
  explicit fold_part(uint32_t done) : done_(done) {}
  template <class Distance>
  __attribute__((always_inline)) void add(Distance distance) {
    // A shuffle takes 32 bits of it. Each lane reads itself at distances from 32 on.
    const uint32_t by = (uint32_t)distance < 32 ? (uint32_t)distance : 32;
    const uint32_t at = total_++ - done_;
    if (at < Most) word_ |= (uint64_t)by << REPLAY_FOLD_DISTANCE_BITS * at;
  }
  uint32_t count() const { return total_ - done_ < Most ? total_ - done_ : Most; }
  bool any() const { return total_ != done_; }
  bool more() const { return total_ - done_ > Most; }
  /// As a `replay_fold` gets it.
  uint64_t word(int width) const {
    return word_ | (uint64_t)count() << REPLAY_FOLD_COUNT_AT | (uint64_t)(width - 1) << fold_steps::width_at;
  }

 private:
  uint32_t done_;
  uint32_t total_ = 0;
  uint64_t word_ = 0;
};

/// The threads of the running block. Made by a kernel at its start, on the stack of the first thread; when the
/// kernel returns, the block has ended.
template <class Frame>
class block_turns {
 public:
  block_turns(const replay_site* barriers, size_t scratch_bytes) : barriers_(barriers) {
    replay_block_threads threads;
    abi->block_turns(sizeof(Frame) + sizeof(arguments), scratch_bytes, &threads, &turn_);
    threads_ = threads.threads;
    count_of_threads_ = threads.count;
    in_order_ = threads.in_order;
    scratch_ = threads.scratch;
    frames_ = static_cast<Frame*>(threads.frames);
    arguments_ = reinterpret_cast<char*>(frames_ + threads.count);
    for (uint32_t t = 0; t < threads.count; t++) frames_[t].replay_at = 0;
    begin_turn();
  }

  /// The next thread, with its built-in variables set; null at the end. `between` is the kernel's work between turns, if
  /// it has any.
  template <class Between>
  __attribute__((always_inline)) Frame* next(Between) {
    if (at_position_ == end_position_) return nullptr;
    const replay_block_thread& thread = threads_[at_position_];
    threadIdx = uint3{thread.index[0], thread.index[1], thread.index[2]};
    block.linear_thread = thread.linear;
    return frames_ + at_position_;
  }

  // For regions, see replay/regions.h.
  /// Whether threads stand in the order of their indices; with `warps`, in whole warps.
  bool is_in_order(bool warps) const { return in_order_ && !(warps && count_of_threads_ % 32 != 0); }
  uint32_t count() const { return count_of_threads_; }
  const replay_block_thread* threads() const { return threads_; }
  Frame* frames() const { return frames_; }
  char* scratch() const { return scratch_; }
  /// All threads have ended.
  void finish() {
    block.running = nullptr;
    abi->turn_end(0, count_of_threads_, &turn_);
  }

  /// Where the running thread goes on: its wait's number, or 0 at the start.
  uint32_t at() const { return frames_[at_position_].replay_at; }

  /// The thread of `frame` waits at barrier `at`.
  __attribute__((always_inline)) void wait(Frame& frame, uint32_t at) {
    frame.replay_at = at;
    if (!joins(at)) settle();
    if (follows()) return defer(at);
    come_to_barrier(at);
  }

  /// The thread of `frame` has ended.
  __attribute__((always_inline)) void end(Frame&) {
    if (!joins(ended)) settle();
    if (follows() && turn_.alone) return defer(ended);
    come_to_end();
  }

  /// Whether the running thread lets others run in front of its next atomic; then `yield` does.
  __attribute__((always_inline)) static bool yields() { return block.restless + 1 >= restless_enough; }
  __attribute__((noinline)) void yield(Frame& frame, uint32_t at) {
    frame.replay_at = at;
    block.restless = 0;
    settle();
    abi->turn_yield(at_position_, &turn_);
    begin_turn();
  }
  /// Behind it: the atomic counts itself once more.
  static void yielded() { block.restless -= 1; }

  /// Keeps the running thread's argument of an atomic until its next turn.
  template <class T>
  __attribute__((noinline)) void keep(const volatile void* address, const T& value) {
    static_assert(sizeof(T) <= sizeof(arguments::value), "the value of an atomic has 16 bytes at most");
    arguments kept = {address, {}};
    __builtin_memcpy(kept.value, &value, sizeof(T));
    __builtin_memcpy(arguments_ + sizeof(arguments) * at_position_, &kept, sizeof kept);
  }
  template <class Pointer>
  Pointer kept_address() const {
    return (Pointer)kept().address;
  }
  template <class T>
  typename plain<T>::type kept_value() const {
    typename plain<T>::type value;
    const arguments all = kept();
    __builtin_memcpy(&value, all.value, sizeof value);
    return value;
  }

  /// The thread of `frame` comes to `part` of a chain of shuffles of `value`, as wait `at`.
  template <class Kind, class Combine, class Part, class T>
  __attribute__((always_inline)) void fold(Frame& frame, uint32_t at, const Part& part, uint32_t mask, const T& value,
                                           int width, const char* file, uint32_t line) {
    frame.replay_at = at;
    frame.replay_fold.count = part.count(), frame.replay_fold.more = part.more();
    const uint64_t steps = part.word(width);
    // Others with this wait go on alone, or differ in their arguments.
    if (!(joins(at) && (count_ == 0 || (steps == steps_ && mask == mask_)))) settle();
    if (count_ == 0) {
      steps_ = steps, mask_ = mask, fold_ = fold_lanes<Kind, Combine, T>, site_ = replay_site{file, line};
    }
    uint64_t word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    values_[count_] = word;
    sources_[count_] = Kind::source(lane(), (uint32_t)(steps & 63), width);
    if (follows() && mask >> (lane() + 1 & 31) & 1) return defer(at);
    come_to_fold(true);
  }

  /// Gives the thread of `frame` its value behind the wait; whether steps of the chain may be left.
  template <class Combine, class T>
  __attribute__((always_inline)) bool unfold(Frame& frame, T& value) {
    T result;
    __builtin_memcpy(&result, &turn_.results[lane()], sizeof(T));
    if (__builtin_expect(turn_.whole >> lane() & 1, 1)) {
      value = result;
      frame.replay_fold.done += frame.replay_fold.count;
      return frame.replay_fold.more;
    }
    Combine::apply(value, result);
    frame.replay_fold.done++;
    return true;
  }

 private:
  static constexpr uint32_t ended = 0xffffffffu;

  /// Of an atomic.
  struct arguments {
    const volatile void* address;
    unsigned char value[16];
  };
  arguments kept() const {
    arguments kept;
    __builtin_memcpy(&kept, arguments_ + sizeof(arguments) * at_position_, sizeof kept);
    return kept;
  }

  __attribute__((always_inline)) void begin_turn() {
    at_position_ = turn_.position;
    end_position_ = at_position_ + turn_.count;
  }

  /// Whether the unreported threads, if any, came to `at` too.
  __attribute__((always_inline)) bool joins(uint32_t at) const { return count_ == 0 || place_ == at; }
  /// Whether the next thread runs in any case.
  __attribute__((always_inline)) bool follows() const { return at_position_ + 1 != end_position_; }
  /// Leaves the report of the running thread to a later one.
  __attribute__((always_inline)) void defer(uint32_t at) {
    place_ = at;
    count_++;
    at_position_++;
  }

  /// Reports the threads before the running one.
  __attribute__((noinline)) void settle() {
    if (count_ == 0) return;
    const uint32_t first = at_position_ - count_;
    if (place_ == ended) {
      abi->turn_end(first, count_, nullptr);
    } else if (fold_ != nullptr) {
      count_--;
      at_position_--;
      come_to_fold(false);
      at_position_++;
      turn_.alone = 0;
    } else {
      abi->turn_barrier(first, count_, barriers_[place_ - 1], nullptr);
    }
    count_ = 0;
  }

  // Report that the running thread, and the unreported ones before it, come to a barrier, their end
  // or a chain of shuffles.
  __attribute__((noinline)) void come_to_barrier(uint32_t at) {
    abi->turn_barrier(at_position_ - count_, count_ + 1, barriers_[at - 1], &turn_);
    count_ = 0;
    begin_turn();
  }
  __attribute__((noinline)) void come_to_end() {
    abi->turn_end(at_position_ - count_, count_ + 1, &turn_);
    count_ = 0;
    begin_turn();
  }
  __attribute__((noinline)) void come_to_fold(bool last) {
    const replay_fold_wait wait = {at_position_ - count_, count_ + 1, mask_, values_, sources_, steps_, fold_, site_};
    fold_ = nullptr;
    count_ = 0;
    abi->turn_fold(&wait, last ? &turn_ : nullptr);
    if (last) begin_turn();
  }

  const replay_site* barriers_;
  const replay_block_thread* threads_;
  Frame* frames_;
  uint32_t count_of_threads_;
  bool in_order_;
  char* scratch_;
  // `arguments` of each thread.
  char* arguments_;
  // The running thread, and the end of its successors.
  uint32_t at_position_;
  uint32_t end_position_;
  // The unreported threads before it: their number, and their place.
  uint32_t count_ = 0;
  uint32_t place_ = 0;
  // Of these, if they came to a chain of shuffles.
  uint64_t steps_ = 0;
  uint32_t mask_ = 0;
  replay_fold* fold_ = nullptr;
  replay_site site_ = {};
  replay_turn turn_;
  uint64_t values_[32];
  uint32_t sources_[32];
};

}  // namespace replay_rt
