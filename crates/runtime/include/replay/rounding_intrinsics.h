// Arithmetic and conversions with the rounding in their name.
// CUDA Math API: "Single/Double Precision Intrinsics", "Type Casting Intrinsics".
//
// `_rn` arithmetic is the plain operation, so noise replays move it; `_rz`, `_ru` and `_rd` keep
// their direction in every replay. Conversions to integers never follow the replay's rounding.
// In the float64 shadow the single-precision forms are plain double arithmetic.
#pragma once

#include "replay/exact.h"
#include "replay/number_bits.h"

namespace replay_rt {

/// The rounding-control bits of the processor: MXCSR on x86-64, FPCR on AArch64.
#if defined(__x86_64__)
enum rounding_mode : uint32_t { round_down = 0x2000, round_up = 0x4000, round_zero = 0x6000 };
struct float_control {
  uint32_t before, now;
  explicit float_control(rounding_mode mode) {
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    now = (before & ~0x6000u) | mode;
  }
  void enter() const { __asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory"); }
  void leave() const { __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory"); }
};
// One instruction between two changes of the mode, in one piece of assembly: no compiler can
// move or fold it.
#define REPLAY_DIRECTED(R, x86, arm, x, y)                                    \
  __asm__ volatile("ldmxcsr %2\n\t" x86 "\n\tldmxcsr %3"                      \
                   : "+x"(x)                                                  \
                   : "x"(y), "m"(control.now), "m"(control.before))
#else
enum rounding_mode : uint32_t { round_down = 2u << 22, round_up = 1u << 22, round_zero = 3u << 22 };
struct float_control {
  uint64_t before, now;
  explicit float_control(rounding_mode mode) {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    now = (before & ~(uint64_t)(3u << 22)) | mode;
  }
  void enter() const { __asm__ volatile("msr fpcr, %0" : : "r"(now) : "memory"); }
  void leave() const { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
};
#define REPLAY_DIRECTED(R, x86, arm, x, y)                                    \
  __asm__ volatile("msr fpcr, %2\n\t" arm "\n\tmsr fpcr, %3"                  \
                   : "+w"(x)                                                  \
                   : "w"(y), "r"(control.now), "r"(control.before))
#endif

#define REPLAY_DIRECTED_2(T, name, x86, arm)                \
  inline T name(rounding_mode mode, T x, T y) {             \
    float_control control(mode);                            \
    REPLAY_DIRECTED(T, x86 " %1, %0", arm, x, y);           \
    return x;                                               \
  }
REPLAY_DIRECTED_2(float, directed_add, "addss", "fadd %s0, %s0, %s1")
REPLAY_DIRECTED_2(float, directed_sub, "subss", "fsub %s0, %s0, %s1")
REPLAY_DIRECTED_2(float, directed_mul, "mulss", "fmul %s0, %s0, %s1")
REPLAY_DIRECTED_2(float, directed_div, "divss", "fdiv %s0, %s0, %s1")
REPLAY_DIRECTED_2(double, directed_add, "addsd", "fadd %d0, %d0, %d1")
REPLAY_DIRECTED_2(double, directed_sub, "subsd", "fsub %d0, %d0, %d1")
REPLAY_DIRECTED_2(double, directed_mul, "mulsd", "fmul %d0, %d0, %d1")
REPLAY_DIRECTED_2(double, directed_div, "divsd", "fdiv %d0, %d0, %d1")
#undef REPLAY_DIRECTED_2

inline float directed_sqrt(rounding_mode mode, float x) {
  float_control control(mode);
  REPLAY_DIRECTED(float, "sqrtss %1, %0", "fsqrt %s0, %s1", x, x);
  return x;
}
inline double directed_sqrt(rounding_mode mode, double x) {
  float_control control(mode);
  REPLAY_DIRECTED(double, "sqrtsd %1, %0", "fsqrt %d0, %d1", x, x);
  return x;
}
inline float directed_float(rounding_mode mode, double x) {
  float_control control(mode);
  float result = 0;
  REPLAY_DIRECTED(float, "cvtsd2ss %1, %0", "fcvt %s0, %d1", result, x);
  return result;
}
#undef REPLAY_DIRECTED
inline float directed_fma(rounding_mode mode, float x, float y, float z) {
  float_control control(mode);
  control.enter();
  float result = abi->math_f3(x, y, z);
  control.leave();
  return result;
}
inline double directed_fma(rounding_mode mode, double x, double y, double z) {
  float_control control(mode);
  control.enter();
  double result = abi->math_d3(x, y, z);
  control.leave();
  return result;
}

/// An integer as a floating-point number, rounded once.
template <class T, class I>
inline T directed_from_integer(rounding_mode mode, I x) {
  constexpr bool is_signed = I(-1) < I(1);
  constexpr int precision = exact<T>::fraction + 1;
  bool negative = is_signed && (int64_t)x < 0;
  uint64_t magnitude = negative ? 0 - (uint64_t)x : (uint64_t)x;
  int width = magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
  int dropped = width > precision ? width - precision : 0;
  uint64_t kept = magnitude >> dropped;
  bool inexact = kept << dropped != magnitude;
  if (inexact && mode == (negative ? round_down : round_up)) kept++;
  T value = (T)(int64_t)kept * exact<T>::power_of_two(dropped);
  return negative ? -value : value;
}

}  // namespace replay_rt

// The four roundings of one operation.
#define REPLAY_ROUNDED_2(T, intrinsic, directed, op)                                              \
  inline T intrinsic##_rn(T x, T y) { return x op y; }                                            \
  inline T intrinsic##_rz(T x, T y) { return replay_rt::directed(replay_rt::round_zero, x, y); }  \
  inline T intrinsic##_ru(T x, T y) { return replay_rt::directed(replay_rt::round_up, x, y); }    \
  inline T intrinsic##_rd(T x, T y) { return replay_rt::directed(replay_rt::round_down, x, y); }
#define REPLAY_ROUNDED_ALL(T, add, sub, mul, div, rcp, sqrt, fma)                                 \
  REPLAY_ROUNDED_2(T, add, directed_add, +)                                                       \
  REPLAY_ROUNDED_2(T, sub, directed_sub, -)                                                       \
  REPLAY_ROUNDED_2(T, mul, directed_mul, *)                                                       \
  REPLAY_ROUNDED_2(T, div, directed_div, /)                                                       \
  inline T rcp##_rn(T x) { return 1 / x; }                                                        \
  inline T rcp##_rz(T x) { return div##_rz(1, x); }                                               \
  inline T rcp##_ru(T x) { return div##_ru(1, x); }                                               \
  inline T rcp##_rd(T x) { return div##_rd(1, x); }                                               \
  inline T sqrt##_rn(T x) { return replay_rt::square_root(x); }                                   \
  inline T sqrt##_rz(T x) { return replay_rt::directed_sqrt(replay_rt::round_zero, x); }          \
  inline T sqrt##_ru(T x) { return replay_rt::directed_sqrt(replay_rt::round_up, x); }            \
  inline T sqrt##_rd(T x) { return replay_rt::directed_sqrt(replay_rt::round_down, x); }          \
  inline T fma##_rn(T x, T y, T z) { return ::fma(x, y, z); }                                     \
  inline T fma##_rz(T x, T y, T z) {                                                              \
    return replay_rt::directed_fma(replay_rt::round_zero, x, y, z);                               \
  }                                                                                               \
  inline T fma##_ru(T x, T y, T z) {                                                              \
    return replay_rt::directed_fma(replay_rt::round_up, x, y, z);                                 \
  }                                                                                               \
  inline T fma##_rd(T x, T y, T z) {                                                              \
    return replay_rt::directed_fma(replay_rt::round_down, x, y, z);                               \
  }
REPLAY_ROUNDED_ALL(double, __dadd, __dsub, __dmul, __ddiv, __drcp, __dsqrt, __fma)
REPLAY_ROUNDED_ALL(replay_rt::real, __fadd, __fsub, __fmul, __fdiv, __frcp, __fsqrt, __fmaf)
// The names for code that is compiled with subnormal numbers cut to zero.
inline replay_rt::real __fmaf_ieee_rn(replay_rt::real x, replay_rt::real y, replay_rt::real z) {
  return __fmaf_rn(x, y, z);
}
inline replay_rt::real __fmaf_ieee_rz(replay_rt::real x, replay_rt::real y, replay_rt::real z) {
  return __fmaf_rz(x, y, z);
}
inline replay_rt::real __fmaf_ieee_ru(replay_rt::real x, replay_rt::real y, replay_rt::real z) {
  return __fmaf_ru(x, y, z);
}
inline replay_rt::real __fmaf_ieee_rd(replay_rt::real x, replay_rt::real y, replay_rt::real z) {
  return __fmaf_rd(x, y, z);
}
#undef REPLAY_ROUNDED_ALL
#undef REPLAY_ROUNDED_2
inline replay_rt::real __frsqrt_rn(replay_rt::real x) { return ::rsqrt(x); }

// To integers: the rounding of the name, then the range of the type (replay_rt::to_integer).
#define REPLAY_TO_INTEGER(F, from, I, to)                                                       \
  inline I from##2##to##_rn(F x) {                                                              \
    return replay_rt::to_integer<I>(replay_rt::exact<F>::to_even(x), REPLAY_FROM_FLOAT);           \
  }                                                                                             \
  inline I from##2##to##_rz(F x) {                                                              \
    return replay_rt::to_integer<I>(replay_rt::exact<F>::trunc(x), REPLAY_FROM_FLOAT);          \
  }                                                                                             \
  inline I from##2##to##_ru(F x) {                                                              \
    return replay_rt::to_integer<I>(replay_rt::exact<F>::ceil(x), REPLAY_FROM_FLOAT);           \
  }                                                                                             \
  inline I from##2##to##_rd(F x) {                                                              \
    return replay_rt::to_integer<I>(replay_rt::exact<F>::floor(x), REPLAY_FROM_FLOAT);          \
  }
#define REPLAY_FROM_FLOAT true
REPLAY_TO_INTEGER(replay_rt::real, __float, int, int)
REPLAY_TO_INTEGER(replay_rt::real, __float, unsigned, uint)
REPLAY_TO_INTEGER(replay_rt::real, __float, long long, ll)
REPLAY_TO_INTEGER(replay_rt::real, __float, unsigned long long, ull)
#undef REPLAY_FROM_FLOAT
#define REPLAY_FROM_FLOAT false
REPLAY_TO_INTEGER(double, __double, int, int)
REPLAY_TO_INTEGER(double, __double, unsigned, uint)
REPLAY_TO_INTEGER(double, __double, long long, ll)
REPLAY_TO_INTEGER(double, __double, unsigned long long, ull)
#undef REPLAY_FROM_FLOAT
#undef REPLAY_TO_INTEGER

// From integers. `_rn` is the language's conversion; types exact in double have `_rn` alone.
#define REPLAY_FROM_INTEGER(I, from, F, to)                                                    \
  inline F from##2##to##_rn(I x) { return (F)x; }                                              \
  inline F from##2##to##_rz(I x) {                                                             \
    return replay_rt::directed_from_integer<F>(replay_rt::round_zero, x);                      \
  }                                                                                            \
  inline F from##2##to##_ru(I x) {                                                             \
    return replay_rt::directed_from_integer<F>(replay_rt::round_up, x);                        \
  }                                                                                            \
  inline F from##2##to##_rd(I x) {                                                             \
    return replay_rt::directed_from_integer<F>(replay_rt::round_down, x);                      \
  }
REPLAY_FROM_INTEGER(int, __int, replay_rt::real, float)
REPLAY_FROM_INTEGER(unsigned, __uint, replay_rt::real, float)
REPLAY_FROM_INTEGER(long long, __ll, replay_rt::real, float)
REPLAY_FROM_INTEGER(unsigned long long, __ull, replay_rt::real, float)
REPLAY_FROM_INTEGER(long long, __ll, double, double)
REPLAY_FROM_INTEGER(unsigned long long, __ull, double, double)
#undef REPLAY_FROM_INTEGER
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

#ifdef REPLAY_SHADOW
inline double __double2float_rn(double x) { return x; }
inline double __double2float_rz(double x) { return x; }
inline double __double2float_ru(double x) { return x; }
inline double __double2float_rd(double x) { return x; }
#else
inline float __double2float_rn(double x) { return (float)x; }
inline float __double2float_rz(double x) {
  return replay_rt::directed_float(replay_rt::round_zero, x);
}
inline float __double2float_ru(double x) {
  return replay_rt::directed_float(replay_rt::round_up, x);
}
inline float __double2float_rd(double x) {
  return replay_rt::directed_float(replay_rt::round_down, x);
}
#endif

// Bit patterns.
#ifdef REPLAY_SHADOW
REPLAY_BIT_CAST(long long, __double_as_longlong, double)
REPLAY_BIT_CAST(double, __longlong_as_double, long long)
REPLAY_BIT_CAST(int, __double2hiint, double)
REPLAY_BIT_CAST(int, __double2loint, double)
inline double __hiloint2double(int, int, const char* file = __builtin_FILE(),
                               uint32_t line = __builtin_LINE()) {
  replay_rt::no_shadow("__hiloint2double", file, line);
  return 0;
}
// With constant bits sources call these.
inline double replay_constant__int_as_float(int x) { return replay_rt::bits<float>(x); }
inline double replay_constant__uint_as_float(unsigned x) { return replay_rt::bits<float>(x); }
#else
inline int __float_as_int(float x) { return replay_rt::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return replay_rt::bits<unsigned>(x); }
inline float __int_as_float(int x) { return replay_rt::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return replay_rt::bits<float>(x); }
inline long long __double_as_longlong(double x) { return replay_rt::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return replay_rt::bits<double>(x); }
inline int __double2hiint(double x) { return (int)(replay_rt::bits<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return (int)replay_rt::bits<uint64_t>(x); }
inline double __hiloint2double(int high, int low) {
  return replay_rt::bits<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
#endif
