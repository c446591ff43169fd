// Functions of the C library with exact results, independent of rounding mode, compiler
// and platform: rounding to integers, remainders, exponents, neighbours.
// A double square root and fused multiply-add come from the processor and the engine's table.
#pragma once

#include "replay/abi.h"
#include "replay/real.h"

/// Not worth unrolling or inlining: keeps the definitions cheap to compile.
#define REPLAY_RARE __attribute__((noinline, cold))

namespace replay_rt {

/// The fields of a binary floating-point format.
template <class T>
struct format;
template <>
struct format<float> {
  using bits_type = uint32_t;
  using integer = int32_t;
  static constexpr int fraction = 23, bias = 127;
};
template <>
struct format<double> {
  using bits_type = uint64_t;
  using integer = int64_t;
  static constexpr int fraction = 52, bias = 1023;
};

template <class T>
struct exact {
  using bits_type = typename format<T>::bits_type;
  using integer = typename format<T>::integer;
  static constexpr int fraction = format<T>::fraction;
  static constexpr int bias = format<T>::bias;
  static constexpr int width = 8 * sizeof(T);
  static constexpr bits_type one = 1;
  static constexpr bits_type sign_mask = one << (width - 1);
  static constexpr bits_type exponent_field = 2 * bias + 1;
  static constexpr bits_type hidden = one << fraction;
  static constexpr bits_type infinity_bits = exponent_field << fraction;

  static bits_type of(T x) { return replay_rt::bits<bits_type>(x); }
  static T from(bits_type b) { return replay_rt::bits<T>(b); }
  static int biased_exponent(T x) { return (int)((of(x) >> fraction) & exponent_field); }
  static bool is_nan(T x) { return (of(x) & ~sign_mask) > infinity_bits; }
  static bool is_infinite(T x) { return (of(x) & ~sign_mask) == infinity_bits; }
  static T infinity() { return from(infinity_bits); }
  static T nan() { return from(infinity_bits | (hidden >> 1)); }
  static T abs(T x) { return from(of(x) & ~sign_mask); }
  static T copysign(T x, T y) { return from((of(x) & ~sign_mask) | (of(y) & sign_mask)); }
  /// 2 to the power `n`, for `n` of a normal number.
  static T power_of_two(int n) { return from((bits_type)(n + bias) << fraction); }

  /// Whether it is an integer by its size alone, or no number.
  static bool is_whole(T x) { return !(abs(x) < T(hidden)); }
  static T trunc(T x) { return is_whole(x) ? x : copysign((T)(integer)x, x); }
  static T floor(T x) {
    T t = trunc(x);
    return t > x ? t - 1 : t;
  }
  static T ceil(T x) {
    T t = trunc(x);
    return t < x ? t + 1 : t;
  }
  /// To the nearest integer, halves away from zero.
  static T round(T x) {
    if (is_whole(x)) return x;
    const integer whole = (integer)x;
    return next_integer(x, whole, abs(x - (T)whole) >= T(0.5));
  }
  /// To the nearest integer, halves to even, in every rounding mode: CUDA's `rint` has no mode.
  static T to_even(T x) {
    if (is_whole(x)) return x;
    const integer whole = (integer)x;
    const T distance = abs(x - (T)whole);
    return next_integer(x, whole, (distance > T(0.5)) | ((distance == T(0.5)) & whole & 1));
  }

  /// A NaN counts as missing; +0 is larger than -0. CUDA Math API: `fmax`.
  static T fmax(T x, T y) {
    if (is_nan(x)) return y;
    if (is_nan(y)) return x;
    if (x == y) return (of(x) & sign_mask) ? y : x;
    return x > y ? x : y;
  }
  static T fmin(T x, T y) {
    if (is_nan(x)) return y;
    if (is_nan(y)) return x;
    if (x == y) return (of(x) & sign_mask) ? x : y;
    return x < y ? x : y;
  }
  static T fdim(T x, T y) {
    if (is_nan(x) || is_nan(y)) return nan();
    return x > y ? x - y : T(0);
  }

  /// x times 2 to the power `n`, rounded once.
  REPLAY_RARE static T ldexp(T x, int n) {
    constexpr int lowest = 1 - bias, precision = fraction + 1;
    T y = x;
    for (int i = 0; i < 2 && n > bias; i++) {
      y *= power_of_two(bias);
      n -= bias;
    }
    // Steps down stay clear of the subnormal numbers: only the last product rounds.
    for (int i = 0; i < 2 && n < lowest; i++) {
      y *= power_of_two(lowest + precision);
      n -= lowest + precision;
    }
    if (n > bias) n = bias;
    if (n < lowest) n = lowest;
    return y * power_of_two(n);
  }
  REPLAY_RARE static T frexp(T x, int* exponent) {
    *exponent = 0;
    if (x == 0 || is_nan(x) || is_infinite(x)) return x;
    int shift = 0;
    if (biased_exponent(x) == 0) {
      x *= power_of_two(fraction + 1);
      shift = -(fraction + 1);
    }
    *exponent = biased_exponent(x) - bias + 1 + shift;
    return from((of(x) & ~infinity_bits) | ((bits_type)(bias - 1) << fraction));
  }
  REPLAY_RARE static T modf(T x, T* integer) {
    *integer = trunc(x);
    if (is_nan(x)) return x;
    return copysign(is_infinite(x) ? T(0) : x - *integer, x);
  }
  REPLAY_RARE static int ilogb(T x) {
    if (x == 0 || is_nan(x)) return -2147483647 - 1;
    if (is_infinite(x)) return 2147483647;
    int exponent;
    frexp(x, &exponent);
    return exponent - 1;
  }
  REPLAY_RARE static T logb(T x) {
    if (x == 0) return -infinity();
    if (is_nan(x)) return x;
    return is_infinite(x) ? infinity() : T(ilogb(x));
  }
  REPLAY_RARE static T nextafter(T x, T y) {
    if (is_nan(x) || is_nan(y)) return nan();
    if (x == y) return y;
    if (x == 0) return copysign(from(1), y);
    bool away = (x < y) == (x > 0);
    return from(away ? of(x) + 1 : of(x) - 1);
  }

  /// The remainder of x / y with the quotient cut to an integer; it has the sign of x. The low
  /// bits of the quotient's magnitude go to `quotient`.
  REPLAY_RARE static T fmod(T x, T y, uint32_t* quotient) {
    *quotient = 0;
    if (y == 0 || is_nan(x) || is_nan(y) || is_infinite(x)) return nan();
    if (abs(x) < abs(y)) return x;
    int ex, ey;
    bits_type mx = significand(x, &ex), my = significand(y, &ey);
    uint32_t q = 0;
    for (;; ex--) {
      q <<= 1;
      if (mx >= my) {
        mx -= my;
        q |= 1;
      }
      if (ex == ey) break;
      mx <<= 1;
    }
    *quotient = q;
    return copysign(mx == 0 ? T(0) : ldexp((T)mx, ey), x);
  }
  static T fmod(T x, T y) {
    uint32_t quotient;
    return fmod(x, y, &quotient);
  }
  /// The remainder of x / y with the quotient rounded to the nearest integer, halves to even.
  REPLAY_RARE static T remquo(T x, T y, int* quotient) {
    *quotient = 0;
    uint32_t q = 0;
    T r = fmod(x, y, &q);
    if (is_nan(r) || is_infinite(y)) return r;
    r = abs(r);
    T size = abs(y);
    // r against size - r is r against size / 2, and size - r is exact where they are close.
    T rest = size - r;
    if (r > rest || (r == rest && (q & 1))) {
      r = -rest;
      q++;
    }
    bool negative = ((of(x) ^ of(y)) & sign_mask) != 0;
    *quotient = negative ? -(int)(q & 0x7fffffffu) : (int)(q & 0x7fffffffu);
    if (r == 0) return copysign(0, x);
    return (of(x) & sign_mask) ? -r : r;
  }

 private:
  /// `whole`, the integer part of `x`, or the integer after it, away from zero. Without a branch: numbers lie on either
  /// side of a half as they like.
  static T next_integer(T x, integer whole, integer is_next) {
    return copysign((T)(whole + (x < 0 ? -is_next : is_next)), x);
  }

  /// x is the result times 2 to the power `exponent`; the result has its hidden bit set.
  static bits_type significand(T x, int* exponent) {
    T m = frexp(abs(x), exponent);
    *exponent -= fraction + 1;
    return (of(m) & (hidden - 1)) | hidden;
  }
};

/// The square root, rounded by the processor. Written out, because a compiler's own square root
/// calls `sqrt` for negative numbers.
inline float square_root(float x) {
#if defined(__x86_64__)
  __asm__ volatile("sqrtss %0, %0" : "+x"(x));
#elif defined(__aarch64__)
  __asm__ volatile("fsqrt %s0, %s0" : "+w"(x));
#else
#error "replay: the CPU reference machine knows x86-64 and AArch64 only"
#endif
  return x;
}
inline double square_root(double x) {
#if defined(__x86_64__)
  __asm__ volatile("sqrtsd %0, %0" : "+x"(x));
#else
  __asm__ volatile("fsqrt %d0, %d0" : "+w"(x));
#endif
  return x;
}

/// `x`, rounded already, as an integer of type `I`; values out of range saturate. PTX ISA, "cvt":
/// NaN becomes 0 from a float to at most 32 bits, else only the highest bit is set.
template <class I, class F>
inline I to_integer(F x, bool from_float) {
  constexpr int width = 8 * sizeof(I);
  constexpr bool is_signed = I(-1) < I(0);
  constexpr I lowest = is_signed ? (I)((uint64_t)1 << (width - 1)) : I(0);
  constexpr I highest = (I)(is_signed ? ((uint64_t)1 << (width - 1)) - 1 : ~(uint64_t)0);
  if (x != x) return from_float && width <= 32 ? I(0) : (I)((uint64_t)1 << (width - 1));
  const F end = exact<F>::power_of_two(is_signed ? width - 1 : width);
  if (x >= end) return highest;
  if (x <= (is_signed ? -end : F(0))) return lowest;
  return (I)x;
}

}  // namespace replay_rt
