// The 8-bit floating-point types. CUDA Math API: "FP8 Intrinsics". Conversions from float go to the
// nearest, ties to even, in every replay as long as it rounds to the nearest. In the float64 shadow both
// types are doubles, never rounded.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace replay_rt {

struct e4m3_format {
  static constexpr int fraction = 3, bias = 7, largest = 0x7e, nan = 0x7f, overflow = 0x7f;
};
struct e5m2_format {
  static constexpr int fraction = 2, bias = 15, largest = 0x7b, nan = 0x7f, overflow = 0x7c;
};

/// The bits of `x` rounded to the format; a value too large saturates, or overflows.
template <class F>
inline uint8_t narrow_8(double x, bool saturates, int mode) {
  const uint64_t b = bits<uint64_t>(x);
  const uint8_t sign = (uint8_t)(b >> 63 << 7);
  if (x != x) return F::nan;
  if ((b << 1) == 0) return sign;
  const int exponent = (int)(b >> 52 & 0x7ff) - 1023, lowest = 1 - F::bias;
  if (exponent > 100) return sign | (uint8_t)(saturates ? F::largest : F::overflow);
  const uint64_t significand = (b & 0xfffffffffffffULL) | 1ULL << 52;
  int dropped = 52 - F::fraction + (exponent < lowest ? lowest - exponent : 0);
  if (dropped > 54) dropped = 54;
  int64_t kept = (int64_t)(significand >> dropped);
  const uint64_t rest = significand & ((1ULL << dropped) - 1), tie = 1ULL << (dropped - 1);
  if (mode == narrow_nearest ? rest > tie || (rest == tie && (kept & 1))
                             : rest && mode == (sign ? narrow_down : narrow_up))
    kept++;
  if (exponent >= lowest) kept += (int64_t)(exponent + F::bias - 1) << F::fraction;
  if (kept > F::largest) kept = saturates ? F::largest : F::overflow;
  return sign | (uint8_t)kept;
}
template <class F>
inline float widen_8(uint8_t b) {
  const int magnitude = b & 0x7f, exponent = magnitude >> F::fraction;
  const int fraction = magnitude & ((1 << F::fraction) - 1);
  float value;
  if (magnitude > F::largest) {
    value = magnitude == F::overflow && F::overflow != F::nan ? __builtin_inff() : __builtin_nanf("");
  } else {
    const int scale = (exponent ? exponent : 1) - F::bias - F::fraction;
    const int whole = exponent ? fraction | 1 << F::fraction : fraction;
    value = (float)whole * bits<float>((uint32_t)(scale + 127) << 23);
  }
  return b & 0x80 ? -value : value;
}
inline uint8_t to_fp8(double x, __nv_saturation_t saturates, __nv_fp8_interpretation_t format) {
  const bool finite = saturates == __NV_SATFINITE;
  return format == __NV_E4M3 ? narrow_8<e4m3_format>(x, finite, rounding)
                             : narrow_8<e5m2_format>(x, finite, rounding);
}
inline float from_fp8(uint8_t x, __nv_fp8_interpretation_t format) {
  return format == __NV_E4M3 ? widen_8<e4m3_format>(x) : widen_8<e5m2_format>(x);
}
}  // namespace replay_rt

#ifdef REPLAY_SHADOW
#define REPLAY_FP8(T, format)                                                    \
  struct T {                                                                     \
    double replay_value;                                                         \
    T() = default;                                                               \
    explicit T(double x) : replay_value(x) {}                                    \
    explicit T(__half x) : replay_value((double)x) {}                            \
    explicit T(__nv_bfloat16 x) : replay_value((double)x) {}                     \
    explicit operator double() const { return replay_value; }                    \
    explicit operator __half() const { return __half(replay_value); }            \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(replay_value); } \
  };
#else
#define REPLAY_FP8(T, format)                                                    \
  struct T {                                                                     \
    __nv_fp8_storage_t __x;                                                      \
    T() = default;                                                               \
    explicit T(float x) : __x(replay_rt::to_fp8(x, __NV_SATFINITE, format)) {}   \
    explicit T(double x) : __x(replay_rt::to_fp8(x, __NV_SATFINITE, format)) {}  \
    explicit T(__half x) : T((float)x) {}                                        \
    explicit T(__nv_bfloat16 x) : T((float)x) {}                                 \
    explicit operator float() const { return replay_rt::from_fp8(__x, format); } \
    explicit operator double() const { return replay_rt::from_fp8(__x, format); } \
    explicit operator __half() const { return __half((float)*this); }            \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); } \
  };
#endif
REPLAY_FP8(__nv_fp8_e4m3, __NV_E4M3)
REPLAY_FP8(__nv_fp8_e5m2, __NV_E5M2)
#undef REPLAY_FP8
#ifdef REPLAY_SHADOW
template <> inline constexpr size_t replay_rt::source_bytes<__nv_fp8_e4m3> = 1;
template <> inline constexpr size_t replay_rt::source_bytes<__nv_fp8_e5m2> = 1;
#endif

// Two and four of them.
#ifdef REPLAY_SHADOW
#define REPLAY_FP8_PACK(T, format, V, storage, one, all)         \
  struct T {                                                     \
    V replay_value;                                              \
    T() = default;                                               \
    explicit T(V x) : replay_value(x) {}                         \
    explicit operator V() const { return replay_value; }         \
  };
#else
#define REPLAY_FP8_PACK(T, format, V, storage, one, all)                                  \
  struct T {                                                                              \
    storage __x;                                                                          \
    T() = default;                                                                        \
    explicit T(V x) : __x((storage)(all)) {}                                              \
    explicit operator V() const { return one; }                                           \
                                                                                          \
   private:                                                                               \
    static storage put(float x, int at) {                                                 \
      return (storage)((storage)replay_rt::to_fp8(x, __NV_SATFINITE, format) << 8 * at);  \
    }                                                                                     \
    float get(int at) const { return replay_rt::from_fp8((uint8_t)(__x >> 8 * at), format); } \
  };
#endif
#define REPLAY_FP8_PACKS(format, name)                                                              \
  REPLAY_FP8_PACK(__nv_fp8x2_##name, format, float2, __nv_fp8x2_storage_t,                          \
                  make_float2(get(0), get(1)), put(x.x, 0) | put(x.y, 1))                           \
  REPLAY_FP8_PACK(__nv_fp8x4_##name, format, float4, __nv_fp8x4_storage_t,                          \
                  make_float4(get(0), get(1), get(2), get(3)),                                      \
                  put(x.x, 0) | put(x.y, 1) | put(x.z, 2) | put(x.w, 3))
REPLAY_FP8_PACKS(__NV_E4M3, e4m3)
REPLAY_FP8_PACKS(__NV_E5M2, e5m2)
#undef REPLAY_FP8_PACK
#undef REPLAY_FP8_PACKS

#ifdef REPLAY_SHADOW
// Their bits have no meaning there.
#define REPLAY_TO_BITS(result, name, argument)                                             \
  inline result name(argument, __nv_saturation_t, __nv_fp8_interpretation_t,               \
                     const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) { \
    replay_rt::no_shadow(#name, file, line);                                               \
    return 0;                                                                              \
  }
#define REPLAY_OF_BITS(result, name, argument)                                             \
  inline result name(argument, __nv_fp8_interpretation_t,                                  \
                     const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) { \
    replay_rt::no_shadow(#name, file, line);                                               \
    return result();                                                                       \
  }
REPLAY_TO_BITS(__nv_fp8_storage_t, __nv_cvt_float_to_fp8, double)
REPLAY_TO_BITS(__nv_fp8_storage_t, __nv_cvt_double_to_fp8, double)
REPLAY_TO_BITS(__nv_fp8_storage_t, __nv_cvt_halfraw_to_fp8, __half_raw)
REPLAY_TO_BITS(__nv_fp8_storage_t, __nv_cvt_bfloat16raw_to_fp8, __nv_bfloat16_raw)
REPLAY_TO_BITS(__nv_fp8x2_storage_t, __nv_cvt_float2_to_fp8x2, float2)
REPLAY_OF_BITS(__half_raw, __nv_cvt_fp8_to_halfraw, __nv_fp8_storage_t)
#undef REPLAY_TO_BITS
#undef REPLAY_OF_BITS
#else
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturates,
                                                __nv_fp8_interpretation_t format) {
  return replay_rt::to_fp8(x, saturates, format);
}
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturates,
                                                 __nv_fp8_interpretation_t format) {
  return replay_rt::to_fp8(x, saturates, format);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturates,
                                                  __nv_fp8_interpretation_t format) {
  return replay_rt::to_fp8((float)__half(x), saturates, format);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x,
                                                      __nv_saturation_t saturates,
                                                      __nv_fp8_interpretation_t format) {
  return replay_rt::to_fp8((float)__nv_bfloat16(x), saturates, format);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturates,
                                                     __nv_fp8_interpretation_t format) {
  return (__nv_fp8x2_storage_t)(replay_rt::to_fp8(x.x, saturates, format) |
                                replay_rt::to_fp8(x.y, saturates, format) << 8);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t format) {
  return __half(replay_rt::from_fp8(x, format));
}
inline __half2 __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x,
                                          __nv_fp8_interpretation_t format) {
  return __half2(__half(replay_rt::from_fp8((uint8_t)x, format)),
                 __half(replay_rt::from_fp8((uint8_t)(x >> 8), format)));
}
#endif
