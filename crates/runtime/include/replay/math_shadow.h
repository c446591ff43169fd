// The float64 shadow's names of the single-precision functions: the sources say `expf`, their
// floats are doubles, and a call of the C library's `expf` would round. Included by math.h only.
#pragma once

#include "replay/abi.h"

#define REPLAY_SHADOW_1(name)                                         \
  inline double replay_##name##f(double x) { return ::name(x); }      \
  namespace std {                                                     \
  using ::replay_##name##f;                                           \
  }
#define REPLAY_SHADOW_2(name)                                                   \
  inline double replay_##name##f(double x, double y) { return ::name(x, y); }   \
  namespace std {                                                               \
  using ::replay_##name##f;                                                     \
  }
#define REPLAY_SHADOW_TO(result, name)                                \
  inline result replay_##name##f(double x) { return ::name(x); }      \
  namespace std {                                                     \
  using ::replay_##name##f;                                           \
  }

REPLAY_SHADOW_1(acos)
REPLAY_SHADOW_1(acosh)
REPLAY_SHADOW_1(asin)
REPLAY_SHADOW_1(asinh)
REPLAY_SHADOW_1(atan)
REPLAY_SHADOW_1(atanh)
REPLAY_SHADOW_1(cbrt)
REPLAY_SHADOW_1(cos)
REPLAY_SHADOW_1(cosh)
REPLAY_SHADOW_1(cospi)
REPLAY_SHADOW_1(erf)
REPLAY_SHADOW_1(erfc)
REPLAY_SHADOW_1(exp)
REPLAY_SHADOW_1(exp10)
REPLAY_SHADOW_1(exp2)
REPLAY_SHADOW_1(expm1)
REPLAY_SHADOW_1(lgamma)
REPLAY_SHADOW_1(log)
REPLAY_SHADOW_1(log10)
REPLAY_SHADOW_1(log1p)
REPLAY_SHADOW_1(log2)
REPLAY_SHADOW_1(rsqrt)
REPLAY_SHADOW_1(sin)
REPLAY_SHADOW_1(sinh)
REPLAY_SHADOW_1(sinpi)
REPLAY_SHADOW_1(tan)
REPLAY_SHADOW_1(tanh)
REPLAY_SHADOW_1(tgamma)
REPLAY_SHADOW_1(ceil)
REPLAY_SHADOW_1(floor)
REPLAY_SHADOW_1(trunc)
REPLAY_SHADOW_1(rint)
REPLAY_SHADOW_1(nearbyint)
REPLAY_SHADOW_1(round)
REPLAY_SHADOW_1(sqrt)
REPLAY_SHADOW_1(logb)
REPLAY_SHADOW_1(rcbrt)
REPLAY_SHADOW_2(atan2)
REPLAY_SHADOW_2(hypot)
REPLAY_SHADOW_2(pow)
REPLAY_SHADOW_2(copysign)
REPLAY_SHADOW_2(fdim)
REPLAY_SHADOW_2(fmax)
REPLAY_SHADOW_2(fmin)
REPLAY_SHADOW_2(fmod)
REPLAY_SHADOW_2(nextafter)
REPLAY_SHADOW_2(remainder)
REPLAY_SHADOW_TO(int, ilogb)
REPLAY_SHADOW_TO(long, lrint)
REPLAY_SHADOW_TO(long, lround)
REPLAY_SHADOW_TO(long long, llrint)
REPLAY_SHADOW_TO(long long, llround)

// `floor(x + 0.5)` and `ceil(x - 0.5)` of the sources: rounding to the nearest integer of `x`. Sources may have functions of their own for vectors.
namespace replay_rt {
inline double floor_of_half(double x) { return round_to_integer(x - 0.5, ::floor(x)); }
inline double ceil_of_half(double x) { return round_to_integer(x + 0.5, ::ceil(x)); }
inline double floor_of_half(float x) { return floor_of_half((double)x); }
inline double ceil_of_half(float x) { return ceil_of_half((double)x); }
template <class T>
auto floor_of_half(const T& x) -> decltype(floor(x)) {
  return floor(x);
}
template <class T>
auto ceil_of_half(const T& x) -> decltype(ceil(x)) {
  return ceil(x);
}
}  // namespace replay_rt

constexpr double replay_fabsf(double x) { return __builtin_fabs(x); }
inline double replay_fmaf(double x, double y, double z) { return ::fma(x, y, z); }
inline double replay_ldexpf(double x, int n) { return ::ldexp(x, n); }
inline double replay_scalbnf(double x, int n) { return ::scalbn(x, n); }
inline double replay_scalblnf(double x, long n) { return ::scalbln(x, n); }
inline double replay_frexpf(double x, int* n) { return ::frexp(x, n); }
inline double replay_modff(double x, double* integer) { return ::modf(x, integer); }
inline double replay_remquof(double x, double y, int* n) { return ::remquo(x, y, n); }
inline void replay_sincosf(double x, double* s, double* c) { ::sincos(x, s, c); }
inline void replay_sincospif(double x, double* s, double* c) { ::sincospi(x, s, c); }
inline double replay_fdividef(double x, double y) { return x / y; }
namespace std {
using ::replay_fabsf;
using ::replay_fmaf;
using ::replay_frexpf;
using ::replay_ldexpf;
using ::replay_modff;
using ::replay_remquof;
using ::replay_scalblnf;
using ::replay_scalbnf;
}  // namespace std

#undef REPLAY_SHADOW_1
#undef REPLAY_SHADOW_2
#undef REPLAY_SHADOW_TO

#define acosf replay_acosf
#define acoshf replay_acoshf
#define asinf replay_asinf
#define asinhf replay_asinhf
#define atanf replay_atanf
#define atanhf replay_atanhf
#define cbrtf replay_cbrtf
#define cosf replay_cosf
#define coshf replay_coshf
#define cospif replay_cospif
#define erff replay_erff
#define erfcf replay_erfcf
#define expf replay_expf
#define exp10f replay_exp10f
#define exp2f replay_exp2f
#define expm1f replay_expm1f
#define lgammaf replay_lgammaf
#define logf replay_logf
#define log10f replay_log10f
#define log1pf replay_log1pf
#define log2f replay_log2f
#define rsqrtf replay_rsqrtf
#define sinf replay_sinf
#define sinhf replay_sinhf
#define sinpif replay_sinpif
#define tanf replay_tanf
#define tanhf replay_tanhf
#define tgammaf replay_tgammaf
#define ceilf replay_ceilf
#define floorf replay_floorf
#define truncf replay_truncf
#define rintf replay_rintf
#define nearbyintf replay_nearbyintf
#define roundf replay_roundf
#define fabsf replay_fabsf
#define sqrtf replay_sqrtf
#define logbf replay_logbf
#define rcbrtf replay_rcbrtf
#define atan2f replay_atan2f
#define hypotf replay_hypotf
#define powf replay_powf
#define copysignf replay_copysignf
#define fdimf replay_fdimf
#define fmaxf replay_fmaxf
#define fminf replay_fminf
#define fmodf replay_fmodf
#define nextafterf replay_nextafterf
#define remainderf replay_remainderf
#define ilogbf replay_ilogbf
#define lrintf replay_lrintf
#define lroundf replay_lroundf
#define llrintf replay_llrintf
#define llroundf replay_llroundf
#define fmaf replay_fmaf
#define ldexpf replay_ldexpf
#define scalbnf replay_scalbnf
#define scalblnf replay_scalblnf
#define frexpf replay_frexpf
#define modff replay_modff
#define remquof replay_remquof
#define sincosf replay_sincosf
#define sincospif replay_sincospif
#define fdividef replay_fdividef
