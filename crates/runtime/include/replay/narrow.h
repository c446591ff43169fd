// Rounding to the 16-bit floating-point formats, and back.
// One rounding from the exact result, as CUDA documents: sums, products, quotients and roots are
// computed in float, whose 24 bits make the second rounding harmless for 11 and 8 bits
// (Figueroa, "When is double rounding innocuous?", 1995); fused multiply-adds in double with
// rounding to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
#pragma once

#include "replay/math.h"

namespace replay_rt {

/// IEEE 754 binary16, and its upper half of binary32.
struct half_format {
  static constexpr int fraction = 10, bias = 15;
};
struct bfloat16_format {
  static constexpr int fraction = 7, bias = 127;
};

/// How a conversion rounds; the numbers are those of `replay_rt::rounding`.
enum narrow_mode : int { narrow_nearest = 0, narrow_down = 1, narrow_up = 2, narrow_zero = 3 };

/// The bits of `x` rounded to the format. NaN becomes 0x7fff, as CUDA's conversions have it.
template <class F>
inline uint16_t narrow(double x, int mode) {
  constexpr int lowest = 1 - F::bias;
  constexpr int64_t infinity = (int64_t)(2 * F::bias + 1) << F::fraction;
  const uint64_t b = bits<uint64_t>(x);
  const uint16_t sign = (uint16_t)(b >> 63 << 15);
  if (x != x) return 0x7fff;
  if ((b << 1) == 0) return sign;
  const int exponent = (int)(b >> 52 & 0x7ff) - 1023;
  if (exponent == 1024) return (uint16_t)(sign | infinity);

  const uint64_t significand = (b & 0xfffffffffffffULL) | 1ULL << 52;
  int dropped = 52 - F::fraction + (exponent < lowest ? lowest - exponent : 0);
  if (dropped > 54) dropped = 54;
  int64_t kept = (int64_t)(significand >> dropped);
  const uint64_t rest = significand & ((1ULL << dropped) - 1);
  const uint64_t tie = 1ULL << (dropped - 1);
  if (mode == narrow_nearest ? rest > tie || (rest == tie && (kept & 1))
                             : rest && mode == (sign ? narrow_down : narrow_up))
    kept++;
  // A carry out of the fraction runs into the exponent, as it should.
  if (exponent >= lowest) kept += (int64_t)(exponent + F::bias - 1) << F::fraction;
  if (kept >= infinity) {
    const bool to_infinity = mode == narrow_nearest || mode == (sign ? narrow_down : narrow_up);
    kept = to_infinity ? infinity : infinity - 1;
  }
  return (uint16_t)(sign | kept);
}

inline float widen(half_format, uint16_t b) {
  const uint32_t sign = (uint32_t)(b & 0x8000u) << 16;
  const uint32_t magnitude = b & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return bits<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  // Subnormal: a multiple of 2^-24.
  const float value = (float)(int)magnitude * 5.9604644775390625e-8f;
  return sign ? -value : value;
}
inline float widen(bfloat16_format, uint16_t b) { return bits<float>((uint32_t)b << 16); }

/// Rounds by the replay's rounding.
inline uint16_t narrow_float(half_format, float x) { return narrow<half_format>(x, rounding); }
inline uint16_t narrow_float(bfloat16_format, float x) {
  if (rounding != narrow_nearest || x != x) return narrow<bfloat16_format>(x, rounding);
  const uint32_t b = bits<uint32_t>(x);
  return (uint16_t)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

/// An integer as a double, for rounding to a narrow format like the integer itself: bits beyond 53
/// are gathered in the last place.
template <class I>
inline double integer_to_odd(I x) {
  const bool negative = I(-1) < I(1) && (int64_t)x < 0;
  uint64_t magnitude = negative ? 0 - (uint64_t)x : (uint64_t)x;
  if (magnitude >> 52) magnitude = (magnitude >> 12 | ((magnitude & 0xfffu) != 0)) << 12;
  const double value = (double)(int64_t)(magnitude >> 1) * 2 + (double)(int64_t)(magnitude & 1);
  return negative ? -value : value;
}

/// x * y + z of narrow numbers, for a single rounding to the narrow format.
inline double fused_to_odd(double x, double y, double z) {
  const double product = x * y;  // exact: at most 22 bits
  const double sum = product + z;
  if (rounding != narrow_nearest || !(sum - sum == 0)) return sum;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (z - part);
  const int64_t b = bits<int64_t>(sum);
  if (error == 0 || (b & 1)) return sum;
  return bits<double>((error > 0) == (sum > 0) ? b + 1 : b - 1);
}

}  // namespace replay_rt
