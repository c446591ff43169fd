// The PTX instructions written as calls by the front end; docs/cuda-support.md lists them.
// PTX ISA: "Instruction Set". A register of type f32 is a `real`: a double in the float64 shadow.
#pragma once

#include "replay/atomics.h"
#include "replay/cluster.h"
#include "replay/integer_intrinsics.h"
#include "replay/memory_hints.h"
#include "replay/rounding_intrinsics.h"
#include "replay/warp_matrix.h"

namespace replay_ptx {

using ptx_f32 = replay_rt::real;
using ptx_f64 = double;
using ptx_u8 = uint8_t;
using ptx_s8 = int8_t;
using ptx_b8 = uint8_t;
using ptx_u16 = uint16_t;
using ptx_s16 = int16_t;
using ptx_b16 = uint16_t;
using ptx_u32 = uint32_t;
using ptx_s32 = int32_t;
using ptx_b32 = uint32_t;
using ptx_u64 = uint64_t;
using ptx_s64 = int64_t;
using ptx_b64 = uint64_t;
using ptx_pred = bool;

template <class T> struct is_floating { static constexpr bool value = false; };
template <> struct is_floating<float> { static constexpr bool value = true; };
template <> struct is_floating<double> { static constexpr bool value = true; };

template <bool SameBits, class To> struct converted {
  template <class From> static To of(const From& from) { return (To)from; }
};
template <class To> struct converted<true, To> {
  template <class From> static To of(const From& from) { return replay_rt::bits<To>(from); }
};
/// The register `from` as a `To`: registers of the other kind by their bits.
template <class To, class From>
inline To ptx_as(const From& from) {
  return converted<is_floating<To>::value != is_floating<From>::value && sizeof(To) == sizeof(From),
                   To>::of(from);
}
template <class To, class From>
inline To ptx_as(From* from) {
  return (To) reinterpret_cast<uintptr_t>(from);
}
template <class D, class T>
inline void ptx_put(D& to, T value) {
  to = ptx_as<D>(value);
}
template <class D, class T>
inline void ptx_put(D*& to, T value) {
  to = reinterpret_cast<D*>((uintptr_t)value);
}

/// The meaning of an address in brackets.
enum ptx_space { ptx_generic, ptx_shared, ptx_cluster };
/// In the window of the cluster a block's own shared memory has the same addresses as in its own window; the memory of
/// rank r lies r + 1 times as many bytes further up.
constexpr uint64_t ptx_window = 1 << 24;
template <ptx_space Space, class A>
inline char* ptx_at(A address, long long offset, const char* file, uint32_t line) {
  const uint64_t value = ptx_as<uint64_t>(address) + (uint64_t)offset;
  if (Space == ptx_shared || (Space == ptx_cluster && value < ptx_window))
    return replay_rt::in_shared(value, file, line);
  if (Space == ptx_cluster) {
    const char* own = replay_rt::in_shared(value % ptx_window, file, line);
    return (char*)replay_rt::map_shared(own, (uint32_t)(value / ptx_window - 1), file, line);
  }
  return reinterpret_cast<char*>(value);
}

template <class A>
inline uint64_t ptx_mapa_window(A address, uint32_t rank, const char* file, uint32_t line) {
  const char* own = ptx_at<ptx_shared>(address, 0, file, line);
  replay_rt::map_shared(own, rank, file, line);
  return (rank + 1) * ptx_window + (uint64_t)(own - replay_rt::block.shared_begin);
}
template <class A>
inline uint64_t ptx_mapa(A address, uint32_t rank, const char* file, uint32_t line) {
  return (uint64_t)replay_rt::map_shared(ptx_at<ptx_generic>(address, 0, file, line), rank, file, line);
}

template <class T>
inline T* ptx_aligned(char* address, size_t count, const char* file, uint32_t line) {
  if (reinterpret_cast<uintptr_t>(address) % (count * sizeof(T)) != 0)
    replay_rt::abi->device_abort("misaligned access by inline PTX", replay_site{file, line});
  return reinterpret_cast<T*>(address);
}
template <class T, class... D>
inline void ptx_ld(char* address, const char* file, uint32_t line, D&... to) {
  const T* from = ptx_aligned<T>(address, sizeof...(D), file, line);
  int i = 0;
  (ptx_put(to, from[i++]), ...);
}
template <class T, class... V>
inline void ptx_st(char* address, const char* file, uint32_t line, V... values) {
  T* to = ptx_aligned<T>(address, sizeof...(V), file, line);
  int i = 0;
  ((to[i++] = ptx_as<T>(values)), ...);
}
/// Loads and stores other threads may wait for: `ld.volatile`, `ld.relaxed`, `ld.acquire`, ...
template <class T, bool Acquires, class D>
inline void ptx_ld_strong(char* address, const char* file, uint32_t line, D& to) {
  T value = *static_cast<volatile T*>(ptx_aligned<T>(address, 1, file, line));
  replay_rt::may_be_waiting(1);
  if (Acquires) __threadfence();
  ptx_put(to, value);
}
template <class T, bool Releases, class V>
inline void ptx_st_strong(char* address, const char* file, uint32_t line, V value) {
  if (Releases) __threadfence();
  *static_cast<volatile T*>(ptx_aligned<T>(address, 1, file, line)) = ptx_as<T>(value);
}
template <bool Fenced>
inline void ptx_fence() {
  if (Fenced) __threadfence();
}

// Types of the atomic functions' own overloads.
template <class T> struct atomic_type { using type = T; };
template <> struct atomic_type<uint64_t> { using type = unsigned long long; };
template <> struct atomic_type<int64_t> { using type = long long; };
template <class T>
inline typename atomic_type<T>::type* ptx_atomic(char* address) {
  return reinterpret_cast<typename atomic_type<T>::type*>(address);
}
#define REPLAY_PTX_ATOMIC(name, function)                                         \
  template <class T, bool Fenced>                                                 \
  inline T ptx_atom_##name(char* address, T value) {                              \
    ptx_fence<Fenced>();                                                          \
    T before = (T)function(ptx_atomic<T>(address), (typename atomic_type<T>::type)value); \
    ptx_fence<Fenced>();                                                          \
    return before;                                                                \
  }
REPLAY_PTX_ATOMIC(add, atomicAdd)
REPLAY_PTX_ATOMIC(min, atomicMin)
REPLAY_PTX_ATOMIC(max, atomicMax)
REPLAY_PTX_ATOMIC(and, atomicAnd)
REPLAY_PTX_ATOMIC(or, atomicOr)
REPLAY_PTX_ATOMIC(xor, atomicXor)
REPLAY_PTX_ATOMIC(exch, atomicExch)
REPLAY_PTX_ATOMIC(inc, atomicInc)
REPLAY_PTX_ATOMIC(dec, atomicDec)
#undef REPLAY_PTX_ATOMIC
template <class T, bool Fenced>
inline T ptx_atom_cas(char* address, T compare, T value) {
  using U = typename atomic_type<T>::type;
  ptx_fence<Fenced>();
  T before = (T)atomicCAS(ptx_atomic<T>(address), (U)compare, (U)value);
  ptx_fence<Fenced>();
  return before;
}

/// `cp.async`, done at once: the copy is there before the wait for it. Bytes beyond `from_bytes`
/// become 0.
inline void ptx_cp_async(char* to, const char* from, long long bytes, long long from_bytes,
                         const char* file, uint32_t line) {
  const bool fits = bytes == 4 || bytes == 8 || bytes == 16;
  if (!fits || from_bytes < 0 || from_bytes > bytes)
    replay_rt::abi->device_abort("cp.async copies 4, 8 or 16 bytes", replay_site{file, line});
  if (reinterpret_cast<uintptr_t>(to) % bytes || (from_bytes && reinterpret_cast<uintptr_t>(from) % bytes))
    replay_rt::abi->device_abort("misaligned access by cp.async", replay_site{file, line});
  for (long long i = 0; i < bytes; i += 4) {
    uint32_t word = 0;
    if (i + 4 <= from_bytes) word = *reinterpret_cast<const uint32_t*>(from + i);
    else for (long long j = i; j < from_bytes; j++) word |= (uint32_t)(uint8_t)from[j] << 8 * (j - i);
    *reinterpret_cast<uint32_t*>(to + i) = word;
  }
}
inline void ptx_cp_async_wait(long long = 0) {}

template <int Count, bool Transposed, class... D>
inline void ptx_ldmatrix(char* row, const char* file, uint32_t line, D&... to) {
  uint32_t words[Count];
  replay_rt::load_matrices<Count, Transposed>(words, row, file, line);
  int i = 0;
  (ptx_put(to, words[i++]), ...);
}
template <int Count, bool Transposed, class... V>
inline void ptx_stmatrix(char* row, const char* file, uint32_t line, V... values) {
  const uint32_t words[Count] = {ptx_as<uint32_t>(values)...};
  replay_rt::store_matrices<Count, Transposed>(words, row, file, line);
}
/// Its row's address where the lane gives one: others may pass anything.
template <int Count, class A>
inline char* ptx_row(A address, long long offset, const char* file, uint32_t line) {
  return replay_rt::lane() < 8 * Count ? ptx_at<ptx_shared>(address, offset, file, line) : nullptr;
}

/// Registers of `mma.sync` by their number: results, then A, B and C.
template <int K, class PackA, class PackB, class Acc, int CountA, int CountB>
inline void ptx_mma(const char* file, uint32_t line, Acc (&result)[4],
                    const uint32_t (&a)[CountA], const uint32_t (&b)[CountB], const Acc (&c)[4]) {
  constexpr int steps = K / (4 * PackA::count);
  static_assert(CountA == 2 * steps && CountB == steps, "mma.sync with another number of registers");
  replay_rt::mma_16x8<K, PackA, PackB>(result, a, b, c, file, line);
}
/// The same with accumulators in half: the sums are float32, rounded once at the end.
template <int K, class PackA, class PackB, int CountA, int CountB>
inline void ptx_mma_half(const char* file, uint32_t line, uint32_t (&result)[2],
                         const uint32_t (&a)[CountA], const uint32_t (&b)[CountB],
                         const uint32_t (&c)[2]) {
  float old[4], sums[4];
  for (int i = 0; i < 4; i++) old[i] = replay_rt::packed_half::at(c[i / 2], i % 2);
  ptx_mma<K, PackA, PackB>(file, line, sums, a, b, old);
  uint16_t halves[4];
  for (int i = 0; i < 4; i++) halves[i] = replay_rt::narrow_float(replay_rt::half_format(), sums[i]);
  for (int i = 0; i < 2; i++) result[i] = halves[2 * i] | (uint32_t)halves[2 * i + 1] << 16;
}

// Arithmetic in float32. `Flush` is `.ftz`: numbers below the smallest normal one count as zero.
template <bool Flush>
inline ptx_f32 ptx_flushed(ptx_f32 x) {
#ifndef REPLAY_SHADOW
  const uint32_t b = replay_rt::bits<uint32_t>(x);
  if (Flush && (b & 0x7f800000u) == 0) return replay_rt::bits<float>(b & 0x80000000u);
#endif
  return x;
}
#define REPLAY_PTX_1(name, expression)                            \
  template <bool Flush>                                           \
  inline ptx_f32 ptx_##name(ptx_f32 x) {                          \
    x = ptx_flushed<Flush>(x);                                    \
    return ptx_flushed<Flush>(expression);                        \
  }
REPLAY_PTX_1(ex2, ::exp2(x))
REPLAY_PTX_1(lg2, ::log2(x))
REPLAY_PTX_1(rsqrt, ::rsqrt(x))
REPLAY_PTX_1(sqrt, ::sqrt(x))
REPLAY_PTX_1(sin, ::sin(x))
REPLAY_PTX_1(cos, ::cos(x))
REPLAY_PTX_1(tanh, ::tanh(x))
REPLAY_PTX_1(rcp, 1 / x)
REPLAY_PTX_1(neg, -x)
REPLAY_PTX_1(abs, ::fabs(x))
#undef REPLAY_PTX_1
#define REPLAY_PTX_2(name, expression)                            \
  template <bool Flush>                                           \
  inline ptx_f32 ptx_##name(ptx_f32 x, ptx_f32 y) {               \
    x = ptx_flushed<Flush>(x), y = ptx_flushed<Flush>(y);         \
    return ptx_flushed<Flush>(expression);                        \
  }
REPLAY_PTX_2(add, x + y)
REPLAY_PTX_2(sub, x - y)
REPLAY_PTX_2(mul, x * y)
REPLAY_PTX_2(div, x / y)
REPLAY_PTX_2(min, replay_rt::exact<ptx_f32>::fmin(x, y))
REPLAY_PTX_2(max, replay_rt::exact<ptx_f32>::fmax(x, y))
#undef REPLAY_PTX_2
template <bool Flush>
inline ptx_f32 ptx_fma(ptx_f32 x, ptx_f32 y, ptx_f32 z) {
  x = ptx_flushed<Flush>(x), y = ptx_flushed<Flush>(y), z = ptx_flushed<Flush>(z);
  return ptx_flushed<Flush>(::fma(x, y, z));
}

inline uint32_t ptx_to_tf32(ptx_f32 x) { return replay_rt::round_to_tf32((float)x); }
inline uint16_t ptx_to_f16(ptx_f32 x) {
  return replay_rt::narrow_float(replay_rt::half_format(), (float)x);
}
inline uint16_t ptx_to_bf16(ptx_f32 x) {
  return replay_rt::narrow_float(replay_rt::bfloat16_format(), (float)x);
}
inline uint32_t ptx_to_f16x2(ptx_f32 high, ptx_f32 low) {
  return (uint32_t)ptx_to_f16(high) << 16 | ptx_to_f16(low);
}
inline uint32_t ptx_to_bf16x2(ptx_f32 high, ptx_f32 low) {
  return (uint32_t)ptx_to_bf16(high) << 16 | ptx_to_bf16(low);
}
inline ptx_f32 ptx_from_f16(uint16_t x) { return replay_rt::widen(replay_rt::half_format(), x); }
inline ptx_f32 ptx_from_bf16(uint16_t x) { return replay_rt::widen(replay_rt::bfloat16_format(), x); }

// Pairs of 16-bit numbers in a register, each half by itself and rounded once.
#define REPLAY_PTX_PAIR(suffix, format)                                                           \
  inline float ptx_half_of_##suffix(uint32_t word, int i) {                                       \
    return replay_rt::widen(replay_rt::format(), (uint16_t)(word >> 16 * i));                     \
  }                                                                                               \
  inline uint32_t ptx_add_##suffix(uint32_t x, uint32_t y) {                                      \
    uint32_t word = 0;                                                                            \
    for (int i = 0; i < 2; i++)                                                                   \
      word |= (uint32_t)replay_rt::narrow_float(replay_rt::format(), ptx_half_of_##suffix(x, i) + \
                                                ptx_half_of_##suffix(y, i)) << 16 * i;            \
    return word;                                                                                  \
  }                                                                                               \
  inline uint32_t ptx_mul_##suffix(uint32_t x, uint32_t y) {                                      \
    uint32_t word = 0;                                                                            \
    for (int i = 0; i < 2; i++)                                                                   \
      word |= (uint32_t)replay_rt::narrow_float(replay_rt::format(), ptx_half_of_##suffix(x, i) * \
                                                ptx_half_of_##suffix(y, i)) << 16 * i;            \
    return word;                                                                                  \
  }                                                                                               \
  inline uint32_t ptx_sub_##suffix(uint32_t x, uint32_t y) {                                      \
    return ptx_add_##suffix(x, y ^ 0x80008000u);                                                  \
  }                                                                                               \
  inline uint32_t ptx_fma_##suffix(uint32_t x, uint32_t y, uint32_t z) {                          \
    uint32_t word = 0;                                                                            \
    for (int i = 0; i < 2; i++) {                                                                 \
      const double exact = replay_rt::fused_to_odd(                                               \
          ptx_half_of_##suffix(x, i), ptx_half_of_##suffix(y, i), ptx_half_of_##suffix(z, i));    \
      word |= (uint32_t)replay_rt::narrow<replay_rt::format>(exact, replay_rt::rounding) << 16 * i; \
    }                                                                                             \
    return word;                                                                                  \
  }
REPLAY_PTX_PAIR(f16x2, half_format)
REPLAY_PTX_PAIR(bf16x2, bfloat16_format)
#undef REPLAY_PTX_PAIR

// Integers: arithmetic wraps, shifts beyond the width clamp.
template <class T> inline T ptx_iadd(T x, T y) { return (T)((uint64_t)x + (uint64_t)y); }
template <class T> inline T ptx_isub(T x, T y) { return (T)((uint64_t)x - (uint64_t)y); }
template <class T> inline T ptx_imul(T x, T y) { return (T)((uint64_t)x * (uint64_t)y); }
template <class T> inline T ptx_imad(T x, T y, T z) {
  return (T)((uint64_t)x * (uint64_t)y + (uint64_t)z);
}
inline uint32_t ptx_mul_hi(uint32_t x, uint32_t y) { return __umulhi(x, y); }
inline int32_t ptx_mul_hi_s(int32_t x, int32_t y) { return __mulhi(x, y); }
inline int32_t ptx_dp4a(uint32_t x, uint32_t y, int32_t z) { return __dp4a((int)x, (int)y, z); }
inline uint32_t ptx_dp4a_u(uint32_t x, uint32_t y, uint32_t z) { return __dp4a(x, y, z); }
inline int32_t ptx_nearest_s32(ptx_f32 x) { return __float2int_rn(x); }
inline int32_t ptx_cut_s32(ptx_f32 x) { return __float2int_rz(x); }
inline ptx_f32 ptx_from_s32(int32_t x) { return __int2float_rn(x); }
inline ptx_f32 ptx_from_u32(uint32_t x) { return __uint2float_rn(x); }
template <class T> inline T ptx_imin(T x, T y) { return y < x ? y : x; }
template <class T> inline T ptx_imax(T x, T y) { return x < y ? y : x; }
template <class T> inline T ptx_and(T x, T y) { return x & y; }
template <class T> inline T ptx_or(T x, T y) { return x | y; }
template <class T> inline T ptx_xor(T x, T y) { return x ^ y; }
template <class T> inline T ptx_not(T x) { return (T)~x; }
template <class T> inline T ptx_shl(T x, uint32_t n) {
  return n >= 8 * sizeof(T) ? 0 : (T)((uint64_t)x << n);
}
template <class T> inline T ptx_shr(T x, uint32_t n) {
  const uint32_t most = 8 * sizeof(T) - 1;
  if (n > most) return x < 0 ? (T)-1 : 0;
  return (T)(x >> n);
}
inline uint32_t ptx_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 8; i++) {
    if (table >> i & 1)
      result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return result;
}
template <class T> inline T ptx_bfe(T a, uint32_t begin, uint32_t count) {
  begin &= 0xff, count &= 0xff;
  if (count == 0) return 0;
  const uint32_t last = begin + count - 1 < 31 ? begin + count - 1 : 31;
  const uint32_t sign = (T)-1 < (T)0 ? (uint32_t)a >> last & 1 : 0;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 32; i++) {
    const uint32_t bit = i < count && begin + i <= 31 ? (uint32_t)a >> (begin + i) & 1 : sign;
    result |= bit << i;
  }
  return (T)result;
}
inline uint32_t ptx_bfi(uint32_t from, uint32_t into, uint32_t begin, uint32_t count) {
  begin &= 0xff, count &= 0xff;
  for (uint32_t i = 0; i < count && begin + i < 32; i++)
    into = (into & ~(1u << (begin + i))) | (from >> i & 1) << (begin + i);
  return into;
}
template <bool Left, bool Wraps>
inline uint32_t ptx_shf(uint32_t low, uint32_t high, uint32_t n) {
  n = Wraps ? n & 31 : n < 32 ? n : 32;
  const uint64_t both = (uint64_t)high << 32 | low;
  return Left ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
}
inline uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t choice = selector >> 4 * i & 0xf;
    uint32_t byte = (uint32_t)(both >> 8 * (choice & 7)) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
template <class T> inline uint32_t ptx_popc(T x) { return (uint32_t)__builtin_popcountll(x); }
inline uint32_t ptx_clz(uint32_t x) { return x ? (uint32_t)__builtin_clz(x) : 32; }
inline uint32_t ptx_brev(uint32_t x) { return __brev(x); }

template <class T> inline bool ptx_eq(T x, T y) { return x == y; }
template <class T> inline bool ptx_ne(T x, T y) { return x != y; }
template <class T> inline bool ptx_lt(T x, T y) { return x < y; }
template <class T> inline bool ptx_le(T x, T y) { return x <= y; }
template <class T> inline bool ptx_gt(T x, T y) { return x > y; }
template <class T> inline bool ptx_ge(T x, T y) { return x >= y; }
template <class T> inline T ptx_selp(T x, T y, bool first) { return first ? x : y; }
template <class T> inline T ptx_mov(T x) { return x; }

// Special registers.
inline uint32_t ptx_laneid() { return replay_rt::lane(); }
inline uint32_t ptx_warpid() { return replay_rt::block.linear_thread / 32; }
inline uint32_t ptx_nwarpid() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }
/// The blocks are dealt out to the 132 multiprocessors in turn.
inline uint32_t ptx_smid() {
  return (uint32_t)((blockIdx.x + (uint64_t)gridDim.x * (blockIdx.y + (uint64_t)gridDim.y * blockIdx.z)) % 132);
}
inline uint32_t ptx_nsmid() { return 132; }
inline uint32_t ptx_lanemask_eq() { return 1u << replay_rt::lane(); }
inline uint32_t ptx_lanemask_lt() { return ptx_lanemask_eq() - 1; }
inline uint32_t ptx_lanemask_le() { return ptx_lanemask_lt() | ptx_lanemask_eq(); }
inline uint32_t ptx_lanemask_gt() { return ~ptx_lanemask_le(); }
inline uint32_t ptx_lanemask_ge() { return ~ptx_lanemask_lt(); }
/// Time stands still, as for `clock64`.
inline uint64_t ptx_clock() { return 0; }

/// `shfl.sync`: the source of PTX's operands `b` and `c`, whether it lies in the lane's segment.
enum ptx_shuffle { ptx_up, ptx_down, ptx_bfly, ptx_idx };
template <ptx_shuffle How, class D, class T>
inline bool ptx_shfl(D& to, T value, uint32_t b, uint32_t c, uint32_t mask, const char* file,
                     uint32_t line) {
  const uint32_t lane = replay_rt::lane(), segment = c >> 8 & 31, most = (lane & segment) | (c & 31 & ~segment);
  const uint32_t least = lane & segment;
  b &= 31;
  uint32_t from = How == ptx_up ? lane - b : How == ptx_down ? lane + b
                  : How == ptx_bfly ? lane ^ b : least | (b & ~segment);
  const bool inside = How == ptx_up ? (int32_t)from >= (int32_t)most : from <= most;
  if (!inside) from = lane;
  ptx_put(to, replay_rt::shuffle(mask, value, from, file, line));
  return inside;
}

}  // namespace replay_ptx
