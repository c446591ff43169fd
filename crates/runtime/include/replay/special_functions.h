// CUDA's mathematical functions that the C library lacks, made of correctly rounded ones: a few roundings each, in double
// for floats too. CUDA Math API: "Single/Double Precision Mathematical Functions". Included by math.h only.
//
// They are templates: a source's own function with one of these names comes before them.
#pragma once

#include "replay/exact.h"

namespace replay_rt {

constexpr double two_over_root_pi = 1.1283791670955126;

/// exp(x * x) * erfc(x). DLMF 7.9.1: a continued fraction where erfc becomes small.
inline double scaled_erfc(double x) {
  if (x < -27) return exact<double>::infinity();
  if (x < 10) {
    const double square = x * x;
    return ::exp(square) * (1 + ::fma(x, x, -square)) * ::erfc(x);
  }
  double fraction = x;
  for (int k = 12; k > 0; k--) fraction = x + 0.5 * k / fraction;
  return 0.5 * two_over_root_pi / fraction;
}

/// A y with erfc(y) near x in (0, 2). Winitzki, "A handy approximation for the error function and its inverse", 2008.
inline double guess_inverse_erfc(double x) {
  const double a = 0.147, log = ::log(x * (2 - x));
  const double half_sum = 2 * 0.31830988618379067 / a + log / 2;
  const double guess = ::sqrt(::sqrt(half_sum * half_sum - log / a) - half_sum);
  return x < 1 ? guess : -guess;
}
/// The y with erf(y) = x, for x in [-0.5, 0.5], by Halley's method.
inline double inverse_erf_of_small(double x) {
  if (x == 0) return x;
  double y = guess_inverse_erfc(1 - x);
  for (int i = 0; i < 3; i++) {
    const double step = (::erf(y) - x) / (two_over_root_pi * ::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}
/// The y with erfc(y) = x, for x in (0, 0.5], by Newton's method on the logarithm, which is nearly a parabola.
inline double inverse_erfc_of_small(double x) {
  const double log = ::log(x);
  double y = guess_inverse_erfc(x);
  for (int i = 0; i < 5; i++) {
    const double scaled = scaled_erfc(y);
    y += (::log(scaled) - y * y - log) * scaled / two_over_root_pi;
  }
  return y;
}
inline double inverse_erfc(double x) {
  if (!(x >= 0 && x <= 2)) return exact<double>::nan();
  if (x == 0) return exact<double>::infinity();
  if (x == 2) return -exact<double>::infinity();
  // Both differences are exact.
  if (x < 0.5) return inverse_erfc_of_small(x);
  return x > 1.5 ? -inverse_erfc_of_small(2 - x) : inverse_erf_of_small(1 - x);
}
inline double inverse_erf(double x) {
  if (exact<double>::abs(x) <= 0.5) return inverse_erf_of_small(x);
  return x < 0 ? -inverse_erfc(1 + x) : inverse_erfc(1 - x);
}

/// The cumulative distribution function of the standard normal distribution, with the rounding of x / sqrt(2) undone.
inline double normal_distribution(double x) {
  if (x > 40 || x < -40) return x > 0 ? 1 : 0;
  const double root = 0.7071067811865476, root_rest = -4.833646656726457e-17;
  const double z = -x * root;
  const double rest = ::fma(-x, root, -z) - x * root_rest;
  return 0.5 * (::erfc(z) - two_over_root_pi * ::exp(-z * z) * rest);
}

/// The square root of a sum of squares that does not overflow on the way.
template <class T>
double vector_norm(int count, const T* values) {
  double largest = 0;
  bool has_nan = false;
  for (int i = 0; i < count; i++) {
    const double size = exact<double>::abs((double)values[i]);
    if (exact<double>::is_infinite(size)) return size;
    has_nan |= exact<double>::is_nan(size);
    if (size > largest) largest = size;
  }
  if (has_nan) return exact<double>::nan();
  if (largest == 0) return 0;
  const int exponent = exact<double>::ilogb(largest);
  double sum = 0;
  for (int i = 0; i < count; i++) {
    const double value = exact<double>::ldexp((double)values[i], -exponent);
    sum = ::fma(value, value, sum);
  }
  return exact<double>::ldexp(square_root(sum), exponent);
}

/// The modified Bessel function of the first kind of order 0 or 1. DLMF 10.25.2: a series of positive terms;
/// DLMF 10.40.1: an expansion for large x.
inline double bessel_i(int order, double x) {
  const double size = exact<double>::abs(x);
  double result = 1;
  if (size < 24) {
    const double square = size * size / 4, rest = ::fma(size / 2, size / 2, -square);
    double term = order == 0 ? 1 : size / 2, weighted = 0;
    result = term;
    for (int k = 1; term > result * 1e-18; k++) {
      term *= square / ((double)k * (k + order));
      result += term;
      weighted += k * term;
    }
    // What the rounding of the square takes from each term.
    if (square > 0) result += weighted * (rest / square);
  } else if (!exact<double>::is_infinite(size)) {
    double term = 1;
    for (int k = 1; k < 30; k++) {
      term *= ((2.0 * k - 1) * (2.0 * k - 1) - 4.0 * order * order) / (8.0 * k * size);
      result += term;
    }
    // In two halves: their product overflows where the result does.
    const double half = ::exp(size / 2);
    result = half / square_root(6.283185307179586 * size) * result * half;
  } else {
    result = size;
  }
  return x < 0 && order == 1 ? -result : result;
}

/// What `name(x)` gives for an `x` of type `T`: float for a float, else double.
template <class T>
struct result_of_number {
  using type = double;
};
template <>
struct result_of_number<float> {
  using type = real;
};

}  // namespace replay_rt

#define REPLAY_SPECIAL_1(name, value)                                          \
  template <class T, class = decltype(double(*(T*)0))>                         \
  inline replay_rt::real name##f(T number) {                                   \
    const double x = (double)number;                                           \
    return (replay_rt::real)(value);                                           \
  }                                                                            \
  template <class T, class = decltype(double(*(T*)0))>                         \
  inline typename replay_rt::result_of_number<T>::type name(T number) {        \
    const double x = (double)number;                                           \
    return (typename replay_rt::result_of_number<T>::type)(value);             \
  }
REPLAY_SPECIAL_1(erfcx, replay_rt::scaled_erfc(x))
REPLAY_SPECIAL_1(erfinv, replay_rt::inverse_erf(x))
REPLAY_SPECIAL_1(erfcinv, replay_rt::inverse_erfc(x))
REPLAY_SPECIAL_1(normcdf, replay_rt::normal_distribution(x))
REPLAY_SPECIAL_1(normcdfinv, -1.4142135623730951 * replay_rt::inverse_erfc(2 * x))
REPLAY_SPECIAL_1(cyl_bessel_i0, replay_rt::bessel_i(0, x))
REPLAY_SPECIAL_1(cyl_bessel_i1, replay_rt::bessel_i(1, x))
#undef REPLAY_SPECIAL_1

// Lengths of vectors, and one over them.
#define REPLAY_NORM(name, COUNT, parameters, ...)                              \
  template <class T, class U = T, class V = T, class W = T>                    \
  inline replay_rt::real name##f parameters {                                  \
    const double values[] = {__VA_ARGS__};                                     \
    return (replay_rt::real)replay_rt::vector_norm(COUNT, values);             \
  }                                                                            \
  template <class T, class U = T, class V = T, class W = T>                    \
  inline decltype(T() + U() + V() + W()) name parameters {                     \
    const double values[] = {__VA_ARGS__};                                     \
    return (decltype(T() + U() + V() + W()))replay_rt::vector_norm(COUNT, values); \
  }                                                                            \
  template <class T, class U = T, class V = T, class W = T>                    \
  inline replay_rt::real r##name##f parameters {                               \
    const double values[] = {__VA_ARGS__};                                     \
    return (replay_rt::real)(1 / replay_rt::vector_norm(COUNT, values));       \
  }                                                                            \
  template <class T, class U = T, class V = T, class W = T>                    \
  inline decltype(T() + U() + V() + W()) r##name parameters {                  \
    const double values[] = {__VA_ARGS__};                                     \
    return (decltype(T() + U() + V() + W()))(1 / replay_rt::vector_norm(COUNT, values)); \
  }
REPLAY_NORM(norm3d, 3, (T a, U b, V c), (double)a, (double)b, (double)c)
REPLAY_NORM(norm4d, 4, (T a, U b, V c, W d), (double)a, (double)b, (double)c, (double)d)
#undef REPLAY_NORM
#define REPLAY_NORM(name, result)                                              \
  template <class T>                                                           \
  inline result name(int count, const T* values) {                             \
    return (result)replay_rt::vector_norm(count < 1 ? 1 : count, values);      \
  }                                                                            \
  template <class T>                                                           \
  inline result r##name(int count, const T* values) {                          \
    return (result)(1 / replay_rt::vector_norm(count < 1 ? 1 : count, values)); \
  }
// Without a dimension it is that of the first number, as on a device (measured on an H100).
REPLAY_NORM(normf, replay_rt::real)
REPLAY_NORM(norm, typename replay_rt::result_of_number<T>::type)
#undef REPLAY_NORM
template <class T, class U>
inline replay_rt::real rhypotf(T x, U y) {
  return (replay_rt::real)(1 / ::hypot((double)x, (double)y));
}
template <class T, class U>
inline decltype(T() + U()) rhypot(T x, U y) {
  return (decltype(T() + U()))(1 / ::hypot((double)x, (double)y));
}
