// CUDA's mathematical functions and how the sources see them.
// CUDA C++ Programming Guide: "Mathematical Functions"; CUDA Math API: "Single/Double Precision
// Mathematical Functions". Values come from math_definitions.h; rounding intrinsics, conversions
// and integer intrinsics have headers of their own.
//
// The C++ library's <math.h> is included here, so every order of the sources' own includes gives
// one set of overloads, at global scope and in std, as nvcc has it.
#pragma once

#include "replay/real.h"

// Its special functions (std::beta and the like) are not on the reference machine, and make up
// most of the cost of <cmath>.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif

// The C++ library's functions of floats (`std::exp`, and `exp` of a float) are the compiler's builtins, calls in the end.
// Here they are those of fast_math.h, inlined. A constant expression still takes the builtin.
#ifndef REPLAY_SHADOW
#define REPLAY_FLOAT_FUNCTIONS(F)                                     \
  F(expf, (float x), (x))                                             \
  F(fmaf, (float x, float y, float z), (x, y, z))                     \
  F(fmaxf, (float x, float y), (x, y))                                \
  F(fminf, (float x, float y), (x, y))                                \
  F(powf, (float x, float y), (x, y))
#define REPLAY_DECLARE(name, parameters, arguments) constexpr float inlined_##name parameters;
namespace replay_rt {
REPLAY_FLOAT_FUNCTIONS(REPLAY_DECLARE)
}
#undef REPLAY_DECLARE
#define __builtin_expf ::replay_rt::inlined_expf
#define __builtin_fmaf ::replay_rt::inlined_fmaf
#define __builtin_fmaxf ::replay_rt::inlined_fmaxf
#define __builtin_fminf ::replay_rt::inlined_fminf
#define __builtin_powf ::replay_rt::inlined_powf
#endif
#include <math.h>
#undef __builtin_expf
#undef __builtin_fmaf
#undef __builtin_fmaxf
#undef __builtin_fminf
#undef __builtin_powf

// Functions of CUDA's that the C library may lack; the prototypes are those of C libraries with them.
extern "C" {
float exp10f(float x) noexcept;
double exp10(double x) noexcept;
float rsqrtf(float x) noexcept;
double rsqrt(double x) noexcept;
float rcbrtf(float x) noexcept;
double rcbrt(double x) noexcept;
float sinpif(float x) noexcept;
double sinpi(double x) noexcept;
float cospif(float x) noexcept;
double cospi(double x) noexcept;
void sincosf(float x, float* sine, float* cosine) noexcept;
void sincos(double x, double* sine, double* cosine) noexcept;
void sincospif(float x, float* sine, float* cosine) noexcept;
void sincospi(double x, double* sine, double* cosine) noexcept;
}
inline float exp10(float x) { return ::exp10f(x); }
inline float rsqrt(float x) { return ::rsqrtf(x); }
inline float rcbrt(float x) { return ::rcbrtf(x); }
inline float sinpi(float x) { return ::sinpif(x); }
inline float cospi(float x) { return ::cospif(x); }
inline void sincos(float x, float* sine, float* cosine) { ::sincosf(x, sine, cosine); }
inline void sincospi(float x, float* sine, float* cosine) { ::sincospif(x, sine, cosine); }

// Rounding to an integer in the current mode: compilers expand the C++ library's builtins in line,
// where a noise replay's rounding would move them. CUDA's go to the nearest in every mode.
#define REPLAY_NEAREST(R, name)                                                     \
  inline R replay_##name(float x) { return ::name##f(x); }                          \
  inline R replay_##name(double x) { return ::name(x); }                          \
  template <class I, class = decltype(I() % 1)>                                        \
  inline R replay_##name(I x) {                                                        \
    return ::name((double)x);                                                     \
  }                                                                                    \
  namespace std {                                                                      \
  using ::replay_##name;                                                               \
  }
#define REPLAY_NEAREST_SAME(name)                                                      \
  inline float replay_##name(float x) { return ::name##f(x); }                         \
  inline double replay_##name(double x) { return ::name(x); }                          \
  template <class I, class = decltype(I() % 1)>                                        \
  inline double replay_##name(I x) {                                                   \
    return ::name((double)x);                                                          \
  }                                                                                    \
  namespace std {                                                                      \
  using ::replay_##name;                                                               \
  }
REPLAY_NEAREST_SAME(rint)
REPLAY_NEAREST_SAME(nearbyint)
REPLAY_NEAREST(long, lrint)
REPLAY_NEAREST(long long, llrint)
#undef REPLAY_NEAREST
#undef REPLAY_NEAREST_SAME
// As names, not as calls: `using numext::rint;` of a library's own means the renamed function too.
#define rint replay_rint
#define nearbyint replay_nearbyint
#define lrint replay_lrint
#define llrint replay_llrint

// The C library's Bessel functions: no correctly rounded source, so no call compiles.
#define REPLAY_NO_FUNCTION(text, name, ...)                                                   \
  extern "C" double name(__VA_ARGS__ double x) noexcept REPLAY_UNSUPPORTED(text);             \
  extern "C" float name##f(__VA_ARGS__ float x) noexcept REPLAY_UNSUPPORTED(text);
#define REPLAY_NO_BESSEL(name, ...) \
  REPLAY_NO_FUNCTION(#name ": Bessel functions are not on the CPU reference machine", name, ##__VA_ARGS__)
REPLAY_NO_BESSEL(j0)
REPLAY_NO_BESSEL(j1)
REPLAY_NO_BESSEL(jn, int n, )
REPLAY_NO_BESSEL(y0)
REPLAY_NO_BESSEL(y1)
REPLAY_NO_BESSEL(yn, int n, )
#undef REPLAY_NO_BESSEL
#undef REPLAY_NO_FUNCTION

#ifdef REPLAY_SHADOW
#include "replay/math_shadow.h"
#else
inline float fdividef(float x, float y) { return x / y; }
// In constant expressions too, as nvcc's and as libraries for it call it.
constexpr float replay_fabsf(float x) { return __builtin_fabsf(x); }
namespace std {
using ::replay_fabsf;
}
#define fabsf(...) replay_fabsf(__VA_ARGS__)
#endif

// `min` and `max` of every pair of arithmetic types, by the usual conversions: of floating-point
// numbers as fmin and fmax, where a NaN counts as missing.
#define REPLAY_MIN_MAX(R, A, B)                                                     \
  inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }                      \
  inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
REPLAY_MIN_MAX(int, int, int)
REPLAY_MIN_MAX(unsigned, unsigned, unsigned)
REPLAY_MIN_MAX(unsigned, int, unsigned)
REPLAY_MIN_MAX(unsigned, unsigned, int)
REPLAY_MIN_MAX(long, long, long)
REPLAY_MIN_MAX(unsigned long, unsigned long, unsigned long)
REPLAY_MIN_MAX(unsigned long, long, unsigned long)
REPLAY_MIN_MAX(unsigned long, unsigned long, long)
REPLAY_MIN_MAX(long long, long long, long long)
REPLAY_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
REPLAY_MIN_MAX(unsigned long long, long long, unsigned long long)
REPLAY_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef REPLAY_MIN_MAX
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }
#ifndef REPLAY_SHADOW
inline float min(float a, float b) { return ::fminf(a, b); }
inline float max(float a, float b) { return ::fmaxf(a, b); }
inline double min(float a, double b) { return ::fmin((double)a, b); }
inline double max(float a, double b) { return ::fmax((double)a, b); }
inline double min(double a, float b) { return ::fmin(a, (double)b); }
inline double max(double a, float b) { return ::fmax(a, (double)b); }
#endif
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

// Fast intrinsics: CUDA bounds their error, here they are correctly rounded.
// CUDA C++ Programming Guide: "Intrinsic Functions".
inline replay_rt::real __expf(replay_rt::real x) { return ::exp(x); }
inline replay_rt::real __exp10f(replay_rt::real x) { return ::exp10(x); }
inline replay_rt::real __logf(replay_rt::real x) { return ::log(x); }
inline replay_rt::real __log2f(replay_rt::real x) { return ::log2(x); }
inline replay_rt::real __log10f(replay_rt::real x) { return ::log10(x); }
inline replay_rt::real __sinf(replay_rt::real x) { return ::sin(x); }
inline replay_rt::real __cosf(replay_rt::real x) { return ::cos(x); }
inline replay_rt::real __tanf(replay_rt::real x) { return ::tan(x); }
inline replay_rt::real __tanhf(replay_rt::real x) { return ::tanh(x); }
inline replay_rt::real __powf(replay_rt::real x, replay_rt::real y) { return ::powf(x, y); }
inline replay_rt::real __fdividef(replay_rt::real x, replay_rt::real y) { return x / y; }
inline void __sincosf(replay_rt::real x, replay_rt::real* sine, replay_rt::real* cosine) {
  ::sincos(x, sine, cosine);
}
/// Clamped to [0, 1]; NaN becomes +0.
inline replay_rt::real __saturatef(replay_rt::real x) {
  return x >= 1 ? replay_rt::real(1) : x > 0 ? x : replay_rt::real(0);
}

#include "replay/integer_intrinsics.h"
#include "replay/rounding_intrinsics.h"
#include "replay/special_functions.h"
#include "replay/fast_math.h"
