// The artifact's own C library mathematics: included once, at the end of the one translation
// unit, and bound with -Bsymbolic: every call of `expf`, from the sources, from the C++
// library or from a compiler's builtin, lands here and never in the platform's libm.
//
// The functions are defined under private names with the C names as assembler labels: they meet
// no prototype, whatever headers the sources include.
#pragma once

#include "replay/abi.h"
#include "replay/exact.h"
#include "replay/fast_math.h"
#include "replay/math.h"

#define REPLAY_EXPORT(result, name, parameters)               \
  extern "C" result replay_define_##name parameters __asm__(#name); \
  extern "C" result replay_define_##name parameters

// From the engine's table of correctly rounded functions.
#define REPLAY_TABLE_1(name, NUMBER)                                                        \
  REPLAY_EXPORT(float, name##f, (float x)) { return replay_rt::abi->math_f1(NUMBER, x); }   \
  REPLAY_EXPORT(double, name, (double x)) { return replay_rt::abi->math_d1(NUMBER, x); }
#define REPLAY_TABLE_2(name, NUMBER)                        \
  REPLAY_EXPORT(float, name##f, (float x, float y)) {       \
    return replay_rt::abi->math_f2(NUMBER, x, y);           \
  }                                                         \
  REPLAY_EXPORT(double, name, (double x, double y)) {       \
    return replay_rt::abi->math_d2(NUMBER, x, y);           \
  }

REPLAY_TABLE_1(acos, REPLAY_ACOS)
REPLAY_TABLE_1(acosh, REPLAY_ACOSH)
REPLAY_TABLE_1(asin, REPLAY_ASIN)
REPLAY_TABLE_1(asinh, REPLAY_ASINH)
REPLAY_TABLE_1(atan, REPLAY_ATAN)
REPLAY_TABLE_1(atanh, REPLAY_ATANH)
REPLAY_TABLE_1(cbrt, REPLAY_CBRT)
REPLAY_TABLE_1(cos, REPLAY_COS)
REPLAY_TABLE_1(cosh, REPLAY_COSH)
REPLAY_TABLE_1(cospi, REPLAY_COSPI)
REPLAY_TABLE_1(erf, REPLAY_ERF)
REPLAY_TABLE_1(erfc, REPLAY_ERFC)
REPLAY_TABLE_1(exp10, REPLAY_EXP10)
REPLAY_TABLE_1(exp2, REPLAY_EXP2)
REPLAY_TABLE_1(expm1, REPLAY_EXPM1)
REPLAY_TABLE_1(lgamma, REPLAY_LGAMMA)
REPLAY_TABLE_1(log, REPLAY_LOG)
REPLAY_TABLE_1(log10, REPLAY_LOG10)
REPLAY_TABLE_1(log1p, REPLAY_LOG1P)
REPLAY_TABLE_1(log2, REPLAY_LOG2)
REPLAY_TABLE_1(rsqrt, REPLAY_RSQRT)
REPLAY_TABLE_1(sin, REPLAY_SIN)
REPLAY_TABLE_1(sinh, REPLAY_SINH)
REPLAY_TABLE_1(sinpi, REPLAY_SINPI)
REPLAY_TABLE_1(tan, REPLAY_TAN)
REPLAY_TABLE_1(tanh, REPLAY_TANH)
REPLAY_TABLE_1(tgamma, REPLAY_TGAMMA)
REPLAY_TABLE_2(atan2, REPLAY_ATAN2)
REPLAY_TABLE_2(hypot, REPLAY_HYPOT)

REPLAY_EXPORT(float, powf, (float x, float y)) { return replay_rt::fast_powf(x, y); }
REPLAY_EXPORT(double, pow, (double x, double y)) { return replay_rt::abi->math_d2(REPLAY_POW, x, y); }
REPLAY_EXPORT(float, expf, (float x)) { return replay_rt::fast_expf(x); }
REPLAY_EXPORT(double, exp, (double x)) { return replay_rt::exp_of_precision(x); }

// Sine and cosine at once.
#define REPLAY_SINE_COSINE(name, SINE, COSINE)                          \
  REPLAY_EXPORT(void, name##f, (float x, float* s, float* c)) {         \
    float sine = replay_rt::abi->math_f1(SINE, x);                      \
    *c = replay_rt::abi->math_f1(COSINE, x);                            \
    *s = sine;                                                          \
  }                                                                     \
  REPLAY_EXPORT(void, name, (double x, double* s, double* c)) {         \
    double sine = replay_rt::abi->math_d1(SINE, x);                     \
    *c = replay_rt::abi->math_d1(COSINE, x);                            \
    *s = sine;                                                          \
  }
REPLAY_SINE_COSINE(sincos, REPLAY_SIN, REPLAY_COS)
REPLAY_SINE_COSINE(sincospi, REPLAY_SINPI, REPLAY_COSPI)

// One over the cube root: two roundings, the first of them in double for floats too.
REPLAY_EXPORT(double, rcbrt, (double x)) { return 1.0 / replay_rt::abi->math_d1(REPLAY_CBRT, x); }
REPLAY_EXPORT(float, rcbrtf, (float x)) {
  return (float)(1.0 / replay_rt::abi->math_d1(REPLAY_CBRT, x));
}

REPLAY_EXPORT(float, fmaf, (float x, float y, float z)) { return replay_rt::fast_fmaf(x, y, z); }
REPLAY_EXPORT(double, fma, (double x, double y, double z)) { return replay_rt::abi->math_d3(x, y, z); }
REPLAY_EXPORT(float, sqrtf, (float x)) { return replay_rt::square_root(x); }
REPLAY_EXPORT(double, sqrt, (double x)) { return replay_rt::square_root(x); }

// Exact results. The first group is hot, or must know the format.
#define REPLAY_EXACT(T, suffix)                                                                  \
  REPLAY_EXPORT(T, fabs##suffix, (T x)) { return replay_rt::exact<T>::abs(x); }                  \
  REPLAY_EXPORT(T, floor##suffix, (T x)) { return replay_rt::exact<T>::floor(x); }               \
  REPLAY_EXPORT(T, ceil##suffix, (T x)) { return replay_rt::exact<T>::ceil(x); }                 \
  REPLAY_EXPORT(T, trunc##suffix, (T x)) { return replay_rt::exact<T>::trunc(x); }               \
  REPLAY_EXPORT(T, round##suffix, (T x)) {                                                       \
    return (T)replay_rt::round_to_integer(x, replay_rt::exact<T>::round(x));                     \
  }                                                                                              \
  REPLAY_EXPORT(T, rint##suffix, (T x)) {                                                        \
    return (T)replay_rt::round_to_integer(x, replay_rt::exact<T>::to_even(x));                   \
  }                                                                                              \
  REPLAY_EXPORT(T, nearbyint##suffix, (T x)) { return rint##suffix(x); }                         \
  REPLAY_EXPORT(T, copysign##suffix, (T x, T y)) { return replay_rt::exact<T>::copysign(x, y); } \
  REPLAY_EXPORT(T, fdim##suffix, (T x, T y)) { return replay_rt::exact<T>::fdim(x, y); }         \
  REPLAY_EXPORT(T, fmax##suffix, (T x, T y)) { return replay_rt::exact<T>::fmax(x, y); }         \
  REPLAY_EXPORT(T, fmin##suffix, (T x, T y)) { return replay_rt::exact<T>::fmin(x, y); }         \
  REPLAY_EXPORT(T, nextafter##suffix, (T x, T y)) {                                              \
    return replay_rt::exact<T>::nextafter(x, y);                                                 \
  }
REPLAY_EXACT(float, f)
REPLAY_EXACT(double, )

// The others are the same for float as for double: their results are exact in both, and
// scaling rounds once, at the end.
#define REPLAY_EXACT_IN_DOUBLE(T, suffix)                                                       \
  REPLAY_EXPORT(T, logb##suffix, (T x)) { return (T)replay_rt::exact<double>::logb(x); }        \
  REPLAY_EXPORT(int, ilogb##suffix, (T x)) { return replay_rt::exact<double>::ilogb(x); }       \
  REPLAY_EXPORT(T, fmod##suffix, (T x, T y)) { return (T)replay_rt::exact<double>::fmod(x, y); } \
  REPLAY_EXPORT(T, remquo##suffix, (T x, T y, int* quotient)) {                                 \
    return (T)replay_rt::exact<double>::remquo(x, y, quotient);                                 \
  }                                                                                             \
  REPLAY_EXPORT(T, remainder##suffix, (T x, T y)) {                                             \
    int quotient;                                                                               \
    return (T)replay_rt::exact<double>::remquo(x, y, &quotient);                                \
  }                                                                                             \
  REPLAY_EXPORT(T, ldexp##suffix, (T x, int n)) {                                               \
    return (T)replay_rt::exact<double>::ldexp(x, n);                                            \
  }                                                                                             \
  REPLAY_EXPORT(T, scalbn##suffix, (T x, int n)) {                                              \
    return (T)replay_rt::exact<double>::ldexp(x, n);                                            \
  }                                                                                             \
  REPLAY_EXPORT(T, scalbln##suffix, (T x, long n)) {                                            \
    return (T)replay_rt::exact<double>::ldexp(x, n > 5000 ? 5000 : n < -5000 ? -5000 : (int)n); \
  }                                                                                             \
  REPLAY_EXPORT(T, frexp##suffix, (T x, int* n)) {                                              \
    return (T)replay_rt::exact<double>::frexp(x, n);                                            \
  }                                                                                             \
  REPLAY_EXPORT(T, modf##suffix, (T x, T* integer)) {                                           \
    double whole, rest = replay_rt::exact<double>::modf(x, &whole);                             \
    *integer = (T)whole;                                                                        \
    return (T)rest;                                                                             \
  }                                                                                             \
  REPLAY_EXPORT(long, lrint##suffix, (T x)) {                                                   \
    return replay_rt::to_integer<long>(replay_rt::exact<T>::to_even(x), sizeof(T) == 4);                                \
  }                                                                                             \
  REPLAY_EXPORT(long, lround##suffix, (T x)) {                                                  \
    return replay_rt::to_integer<long>(replay_rt::exact<T>::round(x), sizeof(T) == 4);                               \
  }                                                                                             \
  REPLAY_EXPORT(long long, llrint##suffix, (T x)) { return lrint##suffix(x); }                  \
  REPLAY_EXPORT(long long, llround##suffix, (T x)) { return lround##suffix(x); }
REPLAY_EXACT_IN_DOUBLE(float, f)
REPLAY_EXACT_IN_DOUBLE(double, )

#undef REPLAY_EXACT_IN_DOUBLE
#undef REPLAY_EXACT
#undef REPLAY_SINE_COSINE
#undef REPLAY_TABLE_1
#undef REPLAY_TABLE_2
