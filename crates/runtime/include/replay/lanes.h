// Strided loops of a kernel in thread-loop form, run for many threads at once.
//
// `for (int i = threadIdx.x; i < n; i += blockDim.x)` is a pure function of a few values, of constant memory
// behind pointers, and of the thread's index. When the first of sixteen threads comes to
// such a loop, the loop is run for all sixteen, vectors at a time, on the guess of equal values in the
// others. Nothing else of theirs is run ahead. Each thread compares its values with
// the guess. If the guess is right, its results are there. If it is wrong, or a vector function was in
// doubt, the loop runs as written. Stores go to memory when their thread has come. So the results,
// and the order of all visible effects, are the same as for threads one after the other.
//
// All values have 32 bits: float, int, and masks (all bits of an int alike) for conditions.
#pragma once

#ifdef REPLAY_LANES

#include "replay/abi.h"
#include "replay/thread.h"

/// Functions on vectors: compiled for processors with them, whatever the target of the rest.
#define REPLAY_LANE inline __attribute__((always_inline, target(REPLAY_LANES)))

namespace replay_rt {

template <class To, class From>
__attribute__((always_inline)) inline To same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To to;
  __builtin_memcpy(&to, &x, sizeof to);
  return to;
}

namespace lanes {

constexpr unsigned width = 8;
/// The threads of one guess: two vectors of them, worked on side by side.
constexpr unsigned group = 2 * width;

typedef float f32 __attribute__((vector_size(32)));
typedef int32_t i32 __attribute__((vector_size(32)));

/// Bytes of doubles in one vector.
#ifdef REPLAY_LANES_512
constexpr int wide_bytes = 64;
#else
constexpr int wide_bytes = 32;
#endif
typedef double f64 __attribute__((vector_size(wide_bytes)));
typedef uint64_t u64 __attribute__((vector_size(wide_bytes)));
typedef float f32_of_f64 __attribute__((vector_size(wide_bytes / 2)));

/// Lanes whose results are not certain: those with the sign bit set.
struct doubts {
  i32 narrow;
  u64 wide;
  /// The offset for rounding to the nearest integer, by adding a large number, in this rounding mode.
  double half;
};

REPLAY_LANE doubts no_doubts() {
  return {i32{}, u64{}, rounding == 0 ? 0.0 : rounding == 2 ? -0.5 : 0.5};
}

REPLAY_LANE bool any(const doubts& doubt) {
  uint64_t words[4 + wide_bytes / 8], narrow = 0, wide = 0;
  __builtin_memcpy(words, &doubt.narrow, 32);
  __builtin_memcpy(words + 4, &doubt.wide, wide_bytes);
  for (int k = 0; k < 4; k++) narrow |= words[k];
  for (int k = 4; k < 4 + wide_bytes / 8; k++) wide |= words[k];
  return (narrow & 0x8000000080000000u) != 0 || wide >> 63 != 0;
}

REPLAY_LANE f32 floats(i32 bits) { return (f32)bits; }
REPLAY_LANE i32 bits(f32 x) { return (i32)x; }
REPLAY_LANE i32 bits(i32 x) { return x; }
REPLAY_LANE i32 all(uint32_t value) { return i32{} + (int32_t)value; }
REPLAY_LANE i32 lane_numbers() { return i32{0, 1, 2, 3, 4, 5, 6, 7}; }
REPLAY_LANE f32 to_f32(i32 x) { return __builtin_convertvector(x, f32); }
REPLAY_LANE i32 choose(i32 mask, i32 x, i32 y) { return (mask & x) | (~mask & y); }
REPLAY_LANE f32 choose(i32 mask, f32 x, f32 y) { return (f32)choose(mask, (i32)x, (i32)y); }
REPLAY_LANE f32 fabsf(f32 x, doubts&) { return (f32)((i32)x & 0x7fffffff); }

/// Elements `i` and following of `from`; of these `active` exist, and lanes beyond repeat the first.
REPLAY_LANE i32 load(const void* from, int64_t i, unsigned active) {
  const int32_t* first = static_cast<const int32_t*>(from) + i;
  i32 x;
  if (active == width) {
    __builtin_memcpy(&x, first, sizeof x);
    return x;
  }
  x = all(first[0]);
  for (unsigned lane = 1; lane < active; lane++) x[lane] = first[lane];
  return x;
}

/// Stores one vector of an iteration at `to` among the pending stores.
REPLAY_LANE void store(char* to, i32 x) { __builtin_memcpy(to, &x, sizeof x); }
REPLAY_LANE void store(char* to, f32 x) { __builtin_memcpy(to, &x, sizeof x); }

/// As fast_math.h's: two equal values differ in bits where they are zeros of two signs.
REPLAY_LANE f32 fmaxf(f32 x, f32 y, doubts& doubt) {
  i32 more = x > y, less = y > x, same = (i32)x == (i32)y;
  doubt.narrow |= ~(more | less | same) | (i32)(x != x);
  return choose(more, x, y);
}
REPLAY_LANE f32 fminf(f32 x, f32 y, doubts& doubt) {
  i32 more = x > y, less = y > x, same = (i32)x == (i32)y;
  doubt.narrow |= ~(more | less | same) | (i32)(x != x);
  return choose(less, x, y);
}

REPLAY_LANE f64 wide(double x) { return (f64)(u64{} + same_bits<uint64_t>(x)); }

/// x * y + z, rounded once or twice: a result dependent on it is in doubt.
REPLAY_LANE f64 multiply_add(f64 x, f64 y, f64 z) {
#if defined(__clang__)
  return x * y + z;
#elif defined(REPLAY_LANES_512)
  return __builtin_ia32_vfmaddpd512_mask(x, y, z, -1, 4);  // 4: in the current rounding mode
#else
  return __builtin_ia32_vfmaddpd256(x, y, z);
#endif
}

/// exp(x) = 2^k * exp(r) in double arithmetic, |r| at most ln(2)/2 but for its rounding. The
/// polynomial of degree 9 errs by less than 2^-43.6 of the value, everything else by less than
/// 2^-49. Where the result is farther than 2^10 units of a double from every float and from every
/// midpoint of two floats, the conversion to float rounds it correctly, in any rounding mode; the
/// other lanes are in doubt, but for the exact exp(0).
REPLAY_LANE f64 exp(f64 x, doubts& doubt) {
  constexpr double to_integer = 0x1.8p52;  // the sum's last bits are those of k
  f64 shifted = multiply_add(x, wide(0x1.71547652b82fep+0), wide(doubt.half)) + to_integer;
  f64 r = multiply_add(to_integer - shifted, wide(0x1.62e42fefa39efp-1), x);
  f64 r2 = r * r;
  // exp(r) = 1 + r + r^2 q(r); q interpolates at Chebyshev's nodes.
  f64 q01 = multiply_add(r, wide(0x1.5555555554f8cp-3), wide(0x1.fffffffffe028p-2));
  f64 q23 = multiply_add(r, wide(0x1.11111117140a3p-7), wide(0x1.55555565dead9p-5));
  f64 q45 = multiply_add(r, wide(0x1.a019c3324fe13p-13), wide(0x1.6c166b8f94446p-10));
  f64 q67 = multiply_add(r, wide(0x1.72ada50a7cd68p-19), wide(0x1.a137426f16cfcp-16));
  f64 q = multiply_add(r2 * r2, multiply_add(r2, q67, q45), multiply_add(r2, q23, q01));
  f64 y = multiply_add(r2, q, 1.0 + r);
  u64 result = (u64)y + ((u64)shifted << 52);
  // A double has 29 bits more than a float.
  constexpr uint64_t error = 1u << 10, half_float_mask = (1u << 28) - 1;
  u64 magnitude = (u64)x << 1;
  doubt.wide |= (((result + error) & half_float_mask) - 2 * error) & (magnitude | -magnitude);
  return (f64)result;
}

/// Correctly rounded, as fast_math.h's.
REPLAY_LANE f32 expf(f32 x, doubts& doubt) {
  doubt.narrow |= 0x42adffff - ((i32)x & 0x7fffffff);  // within 87 results are normal floats
  constexpr int parts = 64 / wide_bytes;
  f32_of_f64 part[parts];
  __builtin_memcpy(part, &x, sizeof x);
  for (int k = 0; k < parts; k++) {
    part[k] = __builtin_convertvector(exp(__builtin_convertvector(part[k], f64), doubt), f32_of_f64);
  }
  __builtin_memcpy(&x, part, sizeof x);
  return x;
}

}  // namespace lanes

/// Whether the first `N` of `x` and of `y` are the same.
template <unsigned N, class T>
__attribute__((always_inline)) inline bool same(const T* x, const T* y) {
  if constexpr (N == 0) {
    return true;
  } else {
    return x[0] == y[0] && same<N - 1>(x + 1, y + 1);
  }
}

/// The inputs of a thread to a loop over `i`: the values common to all iterations, the memory for their
/// reads and writes at `i`, and the variables changed by them.
template <unsigned Values, unsigned Reads, unsigned Writes, unsigned Changes>
struct strided_loop {
  static constexpr unsigned reads = Reads, writes = Writes, changes = Changes;
  int32_t i, end, step;
  uint32_t value[Values + 1];
  const void* read[Reads + 1];
  void* write[Writes + 1];
  uint32_t change[Changes + 1];

  /// Whether `other` brings the same, start, end and step left out.
  __attribute__((always_inline)) bool brings_what(const strided_loop& other) const {
    return same<Values>(value, other.value) && same<Reads>(read, other.read) &&
           same<Writes>(write, other.write) && same<Changes>(change, other.change);
  }
};

/// The head of the function `body` of the class `Loop`: one iteration of the loop for eight threads,
/// the first at `replay_i`; of these `replay_active` exist. The front end writes the block behind it
/// in these names.
#define REPLAY_LANE_BODY(Loop)                                                                   \
  REPLAY_LANE static void body(const Loop& replay_in, int64_t replay_i, unsigned replay_active,  \
                               ::replay_rt::lanes::i32* replay_change, char* replay_stores,      \
                               ::replay_rt::lanes::doubts& replay_doubt)

/// The pending stores of a loop.
struct stores {
  char* buffer;
  size_t bytes;
  /// The loop whose stores the buffer holds.
  void* loop = nullptr;
  /// Writes the stores of the arrived threads to memory; null if nothing is pending.
  void (*write)(void* loop) = nullptr;

  /// Writes all pending stores to memory.
  __attribute__((always_inline)) void flush() {
    if (write != nullptr) write(loop);
  }
};

/// One loop of a kernel, for one block. `Loop` is a `strided_loop` with a function `body` for
/// one iteration of eight threads.
template <class Loop>
class spread {
 public:
  /// The lane of the running thread of `block`, with inputs `now`, if the loop is done for it;
  /// `lanes::group` if the loop must be run as written.
  template <class Block>
  __attribute__((always_inline)) uint32_t enter(Loop now, const Block& block, stores& pending) {
    const replay_block_thread* thread = block.thread();
    uint32_t lane = thread->linear - first_;
    bool holds = Loop::writes == 0 || pending.loop == this;
    bool foreseen = in_.i + (int32_t)lane == now.i && in_.end == now.end && in_.step == now.step;
    if (!(holds && foreseen && lane < lanes::group && in_.brings_what(now))) {
      // The address of this copy is taken, so `now` can live in registers.
      const Loop brought = now;
      if (!runs(brought, thread, block.threads_end(), pending)) return lanes::group;
      lane = 0;
    }
    // The stores of the thread count.
    if (Loop::writes > 0) come_ |= 1u << lane;
    return lane;
  }

  /// Gives `variable`, number `k`, its value after the loop of the thread at `lane`.
  template <class T>
  __attribute__((always_inline)) void change(T& variable, unsigned k, uint32_t lane) const {
    variable = same_bits<T>(changed_[k][lane]);
  }

 private:
  static constexpr unsigned parts = lanes::group / lanes::width;
  /// Bytes of one vector, of the stores in one iteration of a part, and of all parts.
  static constexpr size_t vector_bytes = sizeof(lanes::i32);
  static constexpr size_t part_bytes = vector_bytes * Loop::writes;
  static constexpr size_t row_bytes = part_bytes * parts;
  /// After this many wrong guesses, no more are made in this block.
  static constexpr uint32_t most_misses = 4;
  /// The first number of a group without threads.
  static constexpr uint32_t nobody = 0u - lanes::group;

  /// Runs the loop for `thread`, with inputs `now`, and the next ones, and makes `thread` the first of
  /// them; false if the loop must be run as written.
  __attribute__((noinline)) bool runs(const Loop& now, const replay_block_thread* thread,
                                      const replay_block_thread* end, stores& pending) {
    // From here on stores may be made as they are written, or by others.
    if (Loop::writes > 0) pending.flush();
    misses_ += thread->linear - first_ - 1 < lanes::group - 1;
    first_ = nobody;
    if (misses_ >= most_misses || thread->linear - in_doubt_ < lanes::group) return false;
    if (end - thread < (ptrdiff_t)lanes::group) return false;
    if (thread[lanes::group - 1].linear != thread->linear + lanes::group - 1) return false;
    if (now.step < (int32_t)lanes::group || now.i < 0) return false;
    if ((int64_t)now.end + now.step > INT32_MAX) return false;
    count_ = ((int64_t)now.end - now.i + now.step - 1) / now.step;
    if (row_bytes * count_ > pending.bytes) return false;
    for (unsigned k = 0; k < Loop::reads; k++) {
      uintptr_t from = (uintptr_t)now.read[k] + 4u * (uint32_t)now.i;
      uintptr_t to = (uintptr_t)now.read[k] + 4u * (uint32_t)now.end;
      if (from >= from_[k] && to <= to_[k]) continue;
      if (!abi->is_device_memory((void*)from, to - from)) return false;
      from_[k] = from;
      to_[k] = to;
    }
    in_ = now;
    buffer_ = pending.buffer;
    bool certain = compute(in_, count_, changed_, buffer_);
    (certain ? first_ : in_doubt_) = thread->linear;
    if (Loop::writes > 0) {
      pending.loop = this;
      pending.write = certain ? write : nullptr;
    }
    return certain;
  }

  /// Runs the loop for all threads of a guess; false if a result is in doubt.
  __attribute__((noinline, target(REPLAY_LANES))) static bool compute(
      const Loop& in, int64_t count, uint32_t (*changed)[lanes::group], char* buffer) {
    lanes::i32 change[parts][Loop::changes + 1];
    for (unsigned part = 0; part < parts; part++) {
      for (unsigned k = 0; k < Loop::changes; k++) change[part][k] = lanes::all(in.change[k]);
    }
    lanes::doubts doubt = lanes::no_doubts();
    int64_t i = in.i;
    for (int64_t k = 0; k < count; k++, i += in.step, buffer += row_bytes) {
      if (in.end - i < (int64_t)lanes::group) break;
      for (unsigned part = 0; part < parts; part++) {
        Loop::body(in, i + part * lanes::width, lanes::width, change[part],
                   buffer + part * part_bytes, doubt);
      }
    }
    // The last iteration of some threads.
    for (unsigned part = 0; part < parts; part++) {
      int64_t first = i + part * lanes::width, left = in.end - first;
      if (left <= 0) break;
      unsigned active = left < (int64_t)lanes::width ? left : lanes::width;
      lanes::i32 last[Loop::changes + 1], counts = lanes::lane_numbers() < (int32_t)active;
      for (unsigned k = 0; k < Loop::changes; k++) last[k] = change[part][k];
      Loop::body(in, first, active, last, buffer + part * part_bytes, doubt);
      for (unsigned k = 0; k < Loop::changes; k++) {
        change[part][k] = lanes::choose(counts, last[k], change[part][k]);
      }
    }
    for (unsigned part = 0; part < parts; part++) {
      for (unsigned k = 0; k < Loop::changes; k++) {
        __builtin_memcpy(changed[k] + part * lanes::width, &change[part][k], vector_bytes);
      }
    }
    return !lanes::any(doubt);
  }

  /// Writes the stores of the arrived threads.
  __attribute__((noinline)) static void write(void* loop) {
    spread& self = *static_cast<spread*>(loop);
    if (self.come_ == 0) return;
    constexpr uint32_t all = (1u << lanes::width) - 1;
    const char* from = self.buffer_;
    for (int64_t k = 0; k < self.count_; k++) {
      for (unsigned part = 0; part < parts; part++) {
        int64_t i = self.in_.i + k * self.in_.step + part * lanes::width, left = self.in_.end - i;
        uint32_t come = self.come_ >> part * lanes::width & all;
        for (unsigned w = 0; w < Loop::writes; w++, from += vector_bytes) {
          char* to = static_cast<char*>(self.in_.write[w]) + 4 * i;
          if (come == all && left >= (int64_t)lanes::width) {
            __builtin_memcpy(to, from, vector_bytes);
            continue;
          }
          for (unsigned lane = 0; lane < lanes::width && (int64_t)lane < left; lane++) {
            if (come >> lane & 1) __builtin_memcpy(to + 4 * lane, from + 4 * lane, 4);
          }
        }
      }
    }
    self.come_ = 0;
  }

  /// The number in the block of the first thread with valid results.
  uint32_t first_ = nobody;
  /// The first of them with a vector function in doubt.
  uint32_t in_doubt_ = nobody;
  uint32_t misses_ = 0;
  /// The arrived threads with pending stores, as bits.
  uint32_t come_ = 0;
  int64_t count_ = 0;
  Loop in_ = {};
  char* buffer_ = nullptr;
  uint32_t changed_[Loop::changes + 1][lanes::group];
  /// Memory known to exist, for each pointer.
  uintptr_t from_[Loop::reads + 1] = {}, to_[Loop::reads + 1] = {};
};

}  // namespace replay_rt

#endif
