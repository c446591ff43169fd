// Regions: the code of a kernel between two waits, run for all threads of the block, or of a warp, one after the other.
//
// The front end writes them in front of a kernel in thread-loop form (replay/whole_block.h, replay/block_turns.h). What
// lives across a wait is an array with an element a thread, so a wait costs a store and a load. Where threads disagree
// about a condition around a wait, all go on in the other form.
#pragma once

#include "replay/folds.h"
#include "replay/thread.h"

namespace replay_rt {

/// `threadIdx` of each thread of a block.
class thread_indices {
 public:
  void fill(const replay_block_thread* threads, uint32_t count) {
    for (uint32_t t = 0; t < count; t++) {
      x_[t] = threads[t].index[0], y_[t] = threads[t].index[1], z_[t] = threads[t].index[2];
    }
  }
  uint3 at(uint32_t thread) const { return uint3{x_[thread], y_[thread], z_[thread]}; }

 private:
  uint32_t x_[1024], y_[1024], z_[1024];
};

/// Whether shuffles of the lanes in `mask` are those of a whole warp, in valid segments of `width` lanes.
inline bool is_whole_warp(uint32_t mask, int width) {
  return mask == 0xffffffffu && width > 0 && width <= 32 && (width & (width - 1)) == 0;
}

/// Does the steps of a chain of shuffles for a whole warp, each as it is added.
template <class Kind, class Combine, class T>
class warp_steps {
 public:
  warp_steps(T* values, int width) : values_(values), width_(width) {}
  template <class Distance>
  __attribute__((always_inline)) void add(Distance distance) {
    // A shuffle takes 32 bits of it. Each lane reads itself at distances from 32 on.
    const uint32_t by = (uint32_t)distance < 32 ? (uint32_t)distance : 32;
    T other[32];
    read_lanes_at<Kind>(values_, other, by, width_);
    for (int lane = 0; lane < 32; lane++) Combine::apply(values_[lane], other[lane]);
  }
  /// One shuffle, for which each lane has its own distance.
  __attribute__((always_inline)) void take(const uint32_t* distances) {
    T other[32];
    for (int lane = 0; lane < 32; lane++) other[lane] = values_[Kind::source(lane, distances[lane], width_) & 31];
    for (int lane = 0; lane < 32; lane++) Combine::apply(values_[lane], other[lane]);
  }

 private:
  T* values_;
  int width_;
};

}  // namespace replay_rt
