// Chains of shuffles with a combination of each lane's value with another lane's, such as the butterfly
// `for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(mask, x, d);`, as one call (docs/frontend.md, "Folds").
// The results are those of the shuffles one after the other, and threads run in the same order.
#pragma once

#include "replay/math.h"
#include "replay/warp.h"

namespace replay_rt {

/// The distances of a chain's shuffles, in order.
class fold_steps {
 public:
  void add(long long distance) {
    fits_ = fits_ && distance >= 0 && distance < 64 && count_ < REPLAY_FOLD_MOST;
    if (fits_) distances_ |= (uint64_t)distance << REPLAY_FOLD_DISTANCE_BITS * count_++;
  }
  /// Whether the chain may be done for all lanes at once on variables of type `T`, where a shuffle of segments of
  /// `width` lanes returns a `Passed`. In a checked build each shuffle is done by itself.
  template <class T, class Passed>
  bool suit(int width = 32) const {
#ifdef REPLAY_CHECKED
    return false;
#else
    bool segments = width > 0 && width <= 32 && (width & (width - 1)) == 0;
    return fits_ && count_ > 1 && segments && same<T, Passed>::value && sizeof(T) <= 8;
#endif
  }
  uint32_t count() const { return count_; }
  /// The distance of step `k`.
  uint32_t distance(uint32_t k) const { return (uint32_t)(distances_ >> REPLAY_FOLD_DISTANCE_BITS * k & 63); }
  /// The steps from `k` on, and the width, as a `replay_fold` gets them.
  uint64_t word(uint32_t k, int width) const {
    return distances_ >> REPLAY_FOLD_DISTANCE_BITS * k | (uint64_t)(count_ - k) << REPLAY_FOLD_COUNT_AT |
           (uint64_t)(width - 1) << width_at;
  }
  static constexpr uint32_t width_at = REPLAY_FOLD_COUNT_AT + 4;

 private:
  template <class A, class B> struct same { static constexpr bool value = false; };
  template <class A> struct same<A, A> { static constexpr bool value = true; };
  uint64_t distances_ = 0;
  uint32_t count_ = 0;
  bool fits_ = true;
};

/// Whether variables of these types hold values of the thread's own: no references, nothing volatile.
template <class... T> struct by_value { static constexpr bool value = true; };
template <class T, class... Rest> struct by_value<T&, Rest...> { static constexpr bool value = false; };
template <class T, class... Rest> struct by_value<T&&, Rest...> { static constexpr bool value = false; };
template <class T, class... Rest> struct by_value<volatile T, Rest...> { static constexpr bool value = false; };
template <class T, class... Rest> struct by_value<T, Rest...> : by_value<Rest...> {};

// The lane read by `lane`.
struct fold_xor {
  static uint32_t source(uint32_t lane, uint32_t by, int width) { return shuffle_xor(lane, (int)by, width); }
};
struct fold_down {
  static uint32_t source(uint32_t lane, uint32_t by, int width) { return shuffle_down(lane, by, width); }
};
struct fold_up {
  static uint32_t source(uint32_t lane, uint32_t by, int width) { return shuffle_up(lane, by, width); }
};

/// From the lane of a number.
struct fold_indexed {
  static uint32_t source(uint32_t lane, uint32_t from, int width) { return shuffle_indexed(lane, (int)from, width); }
};

// How a lane combines its value with the one it reads: `x OP= y`, `x = x OP y`, `x = F(x, y)`.
#define REPLAY_COMBINE(name, statement)                      \
  struct by_##name {                                         \
    template <class T>                                       \
    static void apply(T& x, const T& y) { statement; }       \
  };
REPLAY_COMBINE(add_to, x += y)
REPLAY_COMBINE(multiply_to, x *= y)
REPLAY_COMBINE(and_to, x &= y)
REPLAY_COMBINE(or_to, x |= y)
REPLAY_COMBINE(xor_to, x ^= y)
REPLAY_COMBINE(take, x = y)
REPLAY_COMBINE(add, x = x + y)
REPLAY_COMBINE(multiply, x = x * y)
REPLAY_COMBINE(fmaxf, x = ::fmaxf(x, y))
REPLAY_COMBINE(fminf, x = ::fminf(x, y))
REPLAY_COMBINE(fmax, x = ::fmax(x, y))
REPLAY_COMBINE(fmin, x = ::fmin(x, y))
REPLAY_COMBINE(max, x = ::max(x, y))
REPLAY_COMBINE(min, x = ::min(x, y))
// cg::greater and cg::less of a reduction that the front end puts into a kernel.
REPLAY_COMBINE(greater_replay, x = x < y ? y : x)
REPLAY_COMBINE(less_replay, x = y < x ? y : x)
#undef REPLAY_COMBINE
/// `x = y OP x`, `x = F(y, x)`.
template <class Combine>
struct swapped {
  template <class T>
  static void apply(T& x, const T& y) {
    T result = y;
    Combine::apply(result, x);
    x = result;
  }
};
/// `x = f(x, y)` with a new function object.
template <class Function>
struct by_call {
  template <class T>
  static void apply(T& x, const T& y) { x = Function()(x, y); }
};

// What each of 32 lanes reads at the distance `By` in segments that are wider: copies of whole pieces, where
// `source` would be asked for each lane.
template <uint32_t By, class T>
inline void read_lanes(fold_xor, const T* own, T* other, int) {
  for (uint32_t lane = 0; lane < 32; lane += 2 * By) {
    __builtin_memcpy(other + lane, own + lane + By, By * sizeof(T));
    __builtin_memcpy(other + lane + By, own + lane, By * sizeof(T));
  }
}
template <uint32_t By, class T>
inline void read_lanes(fold_down, const T* own, T* other, int width) {
  __builtin_memcpy(other, own + By, (32 - By) * sizeof(T));
  for (uint32_t last = width; last <= 32; last += width)
    __builtin_memcpy(other + last - By, own + last - By, By * sizeof(T));
}
template <uint32_t By, class T>
inline void read_lanes(fold_up, const T* own, T* other, int width) {
  __builtin_memcpy(other + By, own, (32 - By) * sizeof(T));
  for (uint32_t first = 0; first < 32; first += width) __builtin_memcpy(other + first, own + first, By * sizeof(T));
}
template <uint32_t From, class T>
inline void read_lanes(fold_indexed, const T* own, T* other, int width) {
  for (uint32_t lane = 0; lane < 32; lane++) other[lane] = own[shuffle_indexed(lane, (int)From, width)];
}
template <class Kind, class T>
inline void read_lanes_at(const T* own, T* other, uint32_t by, int width) {
  const bool fits = width > 0 && width <= 32 && (width & (width - 1)) == 0 && by < (uint32_t)width;
  switch (fits ? by : 0) {
    case 1: return read_lanes<1>(Kind(), own, other, width);
    case 2: return read_lanes<2>(Kind(), own, other, width);
    case 4: return read_lanes<4>(Kind(), own, other, width);
    case 8: return read_lanes<8>(Kind(), own, other, width);
    case 16: return read_lanes<16>(Kind(), own, other, width);
  }
  for (uint32_t lane = 0; lane < 32; lane++) other[lane] = own[Kind::source(lane, by, width) & 31];
}

/// A `replay_fold` for values of type `T`. Readers of lanes outside of it get the words of these.
template <class Kind, class Combine, class T>
inline void fold_lanes(uint64_t* words, uint64_t steps, uint32_t members) {
  T own[32], other[32];
  for (int lane = 0; lane < 32; lane++) __builtin_memcpy(&own[lane], &words[lane], sizeof(T));
  // Not defined by CUDA, but the same as step by step: an invalid width.
  const int width = (int)((int64_t)steps >> fold_steps::width_at) + 1;
  const uint32_t count = (uint32_t)(steps >> REPLAY_FOLD_COUNT_AT & 15);
  for (uint32_t k = 0; k < count; k++) {
    const uint32_t by = (uint32_t)(steps >> REPLAY_FOLD_DISTANCE_BITS * k & 63);
    read_lanes_at<Kind>(own, other, by, width);
    for (int lane = 0; lane < 32; lane++) Combine::apply(own[lane], other[lane]);
    for (uint32_t lane = 0; members != 0xffffffffu && lane < 32; lane++) {
      // A lane outside of the chain passes the same at each step.
      if (!(members >> lane & 1)) __builtin_memcpy(&own[lane], &words[lane], sizeof(T));
    }
  }
  for (int lane = 0; lane < 32; lane++) {
    words[lane] = 0;
    __builtin_memcpy(&words[lane], &own[lane], sizeof(T));
  }
}

template <class Kind, class Combine, class T, bool Fits>
struct folding {
  static T run(uint32_t mask, T value, const fold_steps& steps, int width, const char* file, uint32_t line) {
    for (uint32_t k = 0; k < steps.count(); k++) {
      uint64_t word = 0;
      __builtin_memcpy(&word, &value, sizeof(T));
      const uint32_t source = Kind::source(lane(), steps.distance(k), width);
      const replay_folded done = abi->warp_fold(mask, word, source, steps.word(k, width),
                                                fold_lanes<Kind, Combine, T>, replay_site{file, line});
      T result;
      __builtin_memcpy(&result, &done.value, sizeof(T));
      if (done.whole) return result;
      // Another lane came with something else: step by step.
      Combine::apply(value, result);
    }
    return value;
  }
};
/// Never run: `fold_steps::suit` is false for these.
template <class Kind, class Combine, class T>
struct folding<Kind, Combine, T, false> {
  static T run(uint32_t, T value, const fold_steps&, int, const char*, uint32_t) { return value; }
};

/// The value of this lane after all steps, each a shuffle of `value` combined with it by `Combine`; for
/// suitable steps.
template <class Kind, class Combine, class T>
inline T fold(uint32_t mask, T value, const fold_steps& steps, int width, const char* file, uint32_t line) {
  return folding<Kind, Combine, T, sizeof(T) <= 8>::run(mask, value, steps, width, file, line);
}

}  // namespace replay_rt
