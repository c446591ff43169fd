// The most frequent functions of kernels, inlined into them: fmaxf, fminf, fmaf, and expf, correctly rounded, and the
// first two and exp in double, for shadows: exp need not be rounded correctly there. powf is in fast_power.h.
//
// exp(x) = 2^(k/128) * exp(r) in double arithmetic, |r| at most ln(2)/128 in any rounding mode. The
// polynomial of degree 3 errs by less than 2^-34.6 of the value, everything else by less than
// 2^-45. If the result is farther away from every float and from every midpoint of two
// floats, one conversion rounds it correctly, whatever the rounding mode; otherwise, in one
// of 256 cases, and at the ends of the range, the engine's table decides.
// After Szabolcs Nagy's expf in glibc 2.27 (sysdeps/ieee754/flt-32/e_expf.c), and the rounding test
// of Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit",
// ACM TOMS 17 (1991).
#pragma once

#include "replay/abi.h"
#include "replay/exact.h"
#include "replay/math.h"

namespace replay_rt {

// 2^(i/128), its exponent lowered by i/128: adding k/128 gives 2^(k/128).
alignas(64) static const uint64_t exp2_steps[128] = {
    0x3ff0000000000000u, 0x3feff63da9fb3335u, 0x3fefec9a3e778061u, 0x3fefe315e86e7f85u,
    0x3fefd9b0d3158574u, 0x3fefd06b29ddf6deu, 0x3fefc74518759bc8u, 0x3fefbe3ecac6f383u,
    0x3fefb5586cf9890fu, 0x3fefac922b7247f7u, 0x3fefa3ec32d3d1a2u, 0x3fef9b66affed31bu,
    0x3fef9301d0125b51u, 0x3fef8abdc06c31ccu, 0x3fef829aaea92de0u, 0x3fef7a98c8a58e51u,
    0x3fef72b83c7d517bu, 0x3fef6af9388c8deau, 0x3fef635beb6fcb75u, 0x3fef5be084045cd4u,
    0x3fef54873168b9aau, 0x3fef4d5022fcd91du, 0x3fef463b88628cd6u, 0x3fef3f49917ddc96u,
    0x3fef387a6e756238u, 0x3fef31ce4fb2a63fu, 0x3fef2b4565e27cddu, 0x3fef24dfe1f56381u,
    0x3fef1e9df51fdee1u, 0x3fef187fd0dad990u, 0x3fef1285a6e4030bu, 0x3fef0cafa93e2f56u,
    0x3fef06fe0a31b715u, 0x3fef0170fc4cd831u, 0x3feefc08b26416ffu, 0x3feef6c55f929ff1u,
    0x3feef1a7373aa9cbu, 0x3feeecae6d05d866u, 0x3feee7db34e59ff7u, 0x3feee32dc313a8e5u,
    0x3feedea64c123422u, 0x3feeda4504ac801cu, 0x3feed60a21f72e2au, 0x3feed1f5d950a897u,
    0x3feece086061892du, 0x3feeca41ed1d0057u, 0x3feec6a2b5c13cd0u, 0x3feec32af0d7d3deu,
    0x3feebfdad5362a27u, 0x3feebcb299fddd0du, 0x3feeb9b2769d2ca7u, 0x3feeb6daa2cf6642u,
    0x3feeb42b569d4f82u, 0x3feeb1a4ca5d920fu, 0x3feeaf4736b527dau, 0x3feead12d497c7fdu,
    0x3feeab07dd485429u, 0x3feea9268a5946b7u, 0x3feea76f15ad2148u, 0x3feea5e1b976dc09u,
    0x3feea47eb03a5585u, 0x3feea34634ccc320u, 0x3feea23882552225u, 0x3feea155d44ca973u,
    0x3feea09e667f3bcdu, 0x3feea012750bdabfu, 0x3fee9fb23c651a2fu, 0x3fee9f7df9519484u,
    0x3fee9f75e8ec5f74u, 0x3fee9f9a48a58174u, 0x3fee9feb564267c9u, 0x3feea0694fde5d3fu,
    0x3feea11473eb0187u, 0x3feea1ed0130c132u, 0x3feea2f336cf4e62u, 0x3feea427543e1a12u,
    0x3feea589994cce13u, 0x3feea71a4623c7adu, 0x3feea8d99b4492edu, 0x3feeaac7d98a6699u,
    0x3feeace5422aa0dbu, 0x3feeaf3216b5448cu, 0x3feeb1ae99157736u, 0x3feeb45b0b91ffc6u,
    0x3feeb737b0cdc5e5u, 0x3feeba44cbc8520fu, 0x3feebd829fde4e50u, 0x3feec0f170ca07bau,
    0x3feec49182a3f090u, 0x3feec86319e32323u, 0x3feecc667b5de565u, 0x3feed09bec4a2d33u,
    0x3feed503b23e255du, 0x3feed99e1330b358u, 0x3feede6b5579fdbfu, 0x3feee36bbfd3f37au,
    0x3feee89f995ad3adu, 0x3feeee07298db666u, 0x3feef3a2b84f15fbu, 0x3feef9728de5593au,
    0x3feeff76f2fb5e47u, 0x3fef05b030a1064au, 0x3fef0c1e904bc1d2u, 0x3fef12c25bd71e09u,
    0x3fef199bdd85529cu, 0x3fef20ab5fffd07au, 0x3fef27f12e57d14bu, 0x3fef2f6d9406e7b5u,
    0x3fef3720dcef9069u, 0x3fef3f0b555dc3fau, 0x3fef472d4a07897cu, 0x3fef4f87080d89f2u,
    0x3fef5818dcfba487u, 0x3fef60e316c98398u, 0x3fef69e603db3285u, 0x3fef7321f301b460u,
    0x3fef7c97337b9b5fu, 0x3fef864614f5a129u, 0x3fef902ee78b3ff6u, 0x3fef9a51fbc74c83u,
    0x3fefa4afa2a490dau, 0x3fefaf482d8e67f1u, 0x3fefba1bee615a27u, 0x3fefc52b376bba97u,
    0x3fefd0765b6e4540u, 0x3fefdbfdad9cbe14u, 0x3fefe7c1819e90d8u, 0x3feff3c22b8f71f1u,
};

// 2^(k/128) * exp(r), where the last bits of `shifted` are those of k.
inline __attribute__((always_inline)) double step_times_exp(double shifted, double r) {
  uint64_t k, scale_bits;
  __builtin_memcpy(&k, &shifted, sizeof k);
  scale_bits = exp2_steps[k % 128] + (k << 45);
  double scale;
  __builtin_memcpy(&scale, &scale_bits, sizeof scale);
  return scale * ((1.0 + r) + r * r * (0.5 + r * 0x1.5555555555555p-3));
}

// Whether all numbers within 2^-34 of `y`, by its size, round to the same float; `y` is as large as a normal float.
inline __attribute__((always_inline)) bool rounds_surely(double y) {
  uint64_t bits;
  __builtin_memcpy(&bits, &y, sizeof bits);
  // A double has 29 bits more than a float; 2^19 of its units are 2^-34 of the value or more.
  constexpr uint64_t error = 1u << 19, half_float_mask = (1u << 28) - 1;
  return __builtin_expect(((bits + error) & half_float_mask) >= 2 * error, 1);
}

constexpr double integer_shift = 0x1.8p52;  // the last bits of a sum with it are those of an integer

inline __attribute__((always_inline)) float fast_expf(float x) {
  uint32_t magnitude;
  __builtin_memcpy(&magnitude, &x, sizeof magnitude);
  magnitude &= 0x7fffffffu;
  constexpr uint32_t bits_of_87 = 0x42ae0000u;  // results within it are normal floats
  if (__builtin_expect(magnitude < bits_of_87, 1)) {
    constexpr double steps_per_unit = 0x1.71547652b82fep+7, unit_per_step = 0x1.62e42fefa39efp-8;
    double wide = x;
    double shifted = wide * steps_per_unit + integer_shift;
    double y = step_times_exp(shifted, wide - (shifted - integer_shift) * unit_per_step);
    if (rounds_surely(y)) return (float)y;
  }
  return abi->math_f1(REPLAY_EXP, x);
}

// x * y + z, rounded once. The product is exact in double. Their sum, rounded to double and then to float, is wrong
// at most halfway between two floats, or where a float has fewer bits: below the least normal one.
inline __attribute__((always_inline)) float fast_fmaf(float x, float y, float z) {
  double sum = (double)x * y + z;
  uint64_t bits;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  constexpr uint64_t magnitude_mask = ~(uint64_t)0 >> 1, last_bits = (1u << 29) - 1, halfway = 1u << 28;
  constexpr uint64_t least_normal = (uint64_t)(1023 - 126) << 52, infinity = (uint64_t)2047 << 52;
  const bool is_normal = (bits & magnitude_mask) - least_normal <= infinity - least_normal;
  if (__builtin_expect((is_normal && (bits & last_bits) != halfway) || sum == 0, 1)) return (float)sum;
  return abi->math_f3(x, y, z);
}

// The difference of 2^(i/128) from the double nearest to it.
alignas(64) static const double exp2_rests[128] = {
    0, 0x1.b61299ab8cdb7p-54, -0x1.19083535b085dp-56, -0x1.0a31c1977c96ep-54,
    0x1.d73e2a475b465p-55, -0x1.c91dfe2b13c27p-55, 0x1.186be4bb284ffp-57, 0x1.1487818316136p-54,
    0x1.8a62e4adc610bp-54, 0x1.01edc16e24f71p-54, 0x1.03a1727c57b53p-59, -0x1.b9bedc44ebd7bp-57,
    -0x1.6c51039449b3ap-54, -0x1.1b514b36ca5c7p-58, -0x1.32fbf9af1369ep-54, 0x1.2406ab9eeab0ap-55,
    -0x1.19041b9d78a76p-55, -0x1.11023d1970f6cp-54, 0x1.e5b4c7b4968e4p-55, -0x1.95386352ef607p-54,
    0x1.e016e00a2643cp-54, -0x1.1df98027bb78cp-54, 0x1.dc775814a8495p-55, 0x1.2a97e9494a5eep-55,
    0x1.9b07eb6c70573p-54, 0x1.ac155bef4f4a4p-55, 0x1.2bd339940e9d9p-55, -0x1.a4c3a8c3f0d7ep-54,
    0x1.612e8afad1255p-55, -0x1.10adcd6381aa4p-59, 0x1.0024754db41d5p-54, 0x1.1ca0f45d52383p-56,
    0x1.6f46ad23182e4p-55, 0x1.a9ce78e18047cp-55, 0x1.32721843659a6p-54, -0x1.b5cee5c4e4628p-55,
    -0x1.63aeabf42eae2p-54, -0x1.e958d3c9904bdp-54, -0x1.5e436d661f5e3p-56, -0x1.efff8375d29c3p-54,
    0x1.ada0911f09ebcp-55, -0x1.7d023f956f9f3p-54, -0x1.ef3691c309278p-58, -0x1.1c7dde35f7999p-55,
    0x1.89b7a04ef80d0p-59, 0x1.c944bd1648a76p-54, 0x1.3c1a3b69062f0p-56, 0x1.9cb62f3d1be56p-54,
    0x1.d4397afec42e2p-56, 0x1.8ecdbbc6a7833p-54, -0x1.4b309d25957e3p-54, -0x1.f768569bd93efp-55,
    -0x1.07abe1db13cadp-55, -0x1.d689cefede59bp-55, 0x1.9bb2c011d93adp-54, 0x1.295e15b9a1de8p-55,
    0x1.6324c054647adp-54, 0x1.c4b1b816986a2p-60, 0x1.ba6f93080e65ep-54, -0x1.3e2429b56de47p-54,
    -0x1.383c17e40b497p-54, -0x1.c483c759d8933p-55, -0x1.bb60987591c34p-54, 0x1.038ae44f73e65p-57,
    -0x1.bdd3413b26456p-54, -0x1.2895667ff0b0dp-56, -0x1.bbe3a683c88abp-57, -0x1.83c0f25860ef6p-55,
    -0x1.16e4786887a99p-55, -0x1.0a8d96c65d53cp-54, -0x1.0245957316dd3p-54, 0x1.866b80a02162dp-54,
    -0x1.41577ee04992fp-55, 0x1.f124cd1164dd6p-54, 0x1.05d02ba15797ep-56, -0x1.27c86626d972bp-54,
    -0x1.d4c1dd41532d8p-54, -0x1.8d684a341cdfbp-55, -0x1.fc6f89bd4f6bap-54, 0x1.994c2f37cb53ap-54,
    0x1.6e9f156864b27p-54, -0x1.0d55e32e9e3aap-56, 0x1.5cc13a2e3976cp-55, -0x1.dd6792e582524p-54,
    -0x1.75fc781b57ebcp-57, -0x1.64b7c96a5f039p-56, -0x1.d185b7c1b85d1p-54, -0x1.173bd91cee632p-54,
    0x1.c7c46b071f2bep-56, 0x1.824ca78e64c6ep-56, -0x1.359495d1cd533p-54, 0x1.6305c7ddc36abp-54,
    -0x1.d2f6edb8d41e1p-54, 0x1.bcb7ecac563c7p-54, 0x1.0fac90ef7fd31p-54, -0x1.f9234cae76cd0p-55,
    0x1.7a1cd345dcc81p-54, -0x1.bdef54c80e425p-54, -0x1.2805e3084d708p-57, -0x1.c71dfbbba6de3p-54,
    -0x1.5584f7e54ac3bp-56, -0x1.efcd30e54292ep-54, 0x1.23dd07a2d9e84p-55, -0x1.efdca3f6b9c73p-54,
    0x1.11065895048ddp-55, 0x1.b4537e083c60ap-54, 0x1.2884dff483cadp-54, 0x1.1acbc48805c44p-56,
    0x1.503cbd1e949dbp-56, -0x1.dd83b53829d72p-55, -0x1.cbc3743797a9cp-54, -0x1.d487b719d8578p-54,
    0x1.2ed02d75b3707p-55, -0x1.11ec18beddfe8p-54, 0x1.c2300696db532p-54, 0x1.2da5778f018c3p-54,
    -0x1.1a5cd4f184b5cp-54, -0x1.7b627817a1496p-54, 0x1.39e8980a9cc8fp-55, 0x1.2d522ca0c8de2p-54,
    -0x1.e9c23179c2893p-54, -0x1.c93f3b411ad8cp-54, 0x1.dc7f486a4b6b0p-54, 0x1.3a1a5bf0d8e43p-54,
    0x1.9d3e12dd8a18bp-54, -0x1.dbb12d006350ap-54, 0x1.74853f3a5931ep-55, 0x1.2eb74966579e7p-57,
};

// exp(x) = (step + rest) * 2^whole, with a few more bits than a double has: a table of 2^(i/128) in two doubles,
// and a polynomial of degree 6. For x within 700, whose results are normal doubles. Rounding to nearest, |r| is at
// most ln(2)/256, and `rest` errs by less than 2^-59; in other modes by less than 2^-56.7.
struct parts_of_exp {
  double step, rest;
  uint64_t whole;

  explicit inline __attribute__((always_inline)) parts_of_exp(double x) {
    constexpr double steps_per_unit = 0x1.71547652b82fep+7;
    constexpr double unit_per_step = 0x1.62e42fefc0000p-8, unit_rest = -0x1.c610ca86c3899p-44;  // the first has 35 bits: products are exact
    double shifted = x * steps_per_unit + integer_shift;
    uint64_t k;
    __builtin_memcpy(&k, &shifted, sizeof k);
    double steps = shifted - integer_shift;
    double r = (x - steps * unit_per_step) - steps * unit_rest;
    double more = r * (0x1.5555555555555p-3 + r * (0x1.5555555555555p-5 +
                  r * (0x1.1111111111111p-7 + r * 0x1.6c16c16c16c17p-10)));
    double beyond_one = r + r * r * (0.5 + more);
    uint64_t i = k % 128, step_bits = exp2_steps[i] + (i << 45);
    __builtin_memcpy(&step, &step_bits, sizeof step);
    rest = exp2_rests[i] + step * beyond_one;
    whole = (k - i) << 45;
  }

  // `sum`, that is step + rest, times 2^whole.
  inline __attribute__((always_inline)) double scaled(double sum) const {
    uint64_t bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    bits += whole;
    __builtin_memcpy(&sum, &bits, sizeof sum);
    return sum;
  }
};

// Correctly rounded. Where the error of `rest` decides about the rounded sum, for one of 32 values, the engine's
// table does.
inline __attribute__((always_inline)) double fast_exp(double x) {
  if (__builtin_expect(x > -700 && x < 700, 1)) {
    parts_of_exp exp(x);
    double error = rounding == 0 ? 0x1p-58 : 0x1p-56;
    double least = exp.step + (exp.rest - error), most = exp.step + (exp.rest + error);
    if (__builtin_expect(least == most, 1)) return exp.scaled(least);
  }
  return abi->math_d1(REPLAY_EXP, x);
}

// Within 0.6 units in the last place rounding to nearest, 1.2 in other modes: for shadows, whose doubles stand for
// the numbers themselves. Takes two thirds of the time.
inline __attribute__((always_inline)) double near_exp(double x) {
  if (__builtin_expect(x > -700 && x < 700, 1)) {
    parts_of_exp exp(x);
    return exp.scaled(exp.step + exp.rest);
  }
  return abi->math_d1(REPLAY_EXP, x);
}

inline __attribute__((always_inline)) double exp_of_precision(double x) {
#ifdef REPLAY_SHADOW
  return near_exp(x);
#else
  return fast_exp(x);
#endif
}

}  // namespace replay_rt

#include "replay/fast_power.h"

// The definitions for callers elsewhere are in math_definitions.h.
#define REPLAY_INLINE extern inline __attribute__((gnu_inline, always_inline))
extern "C" {
REPLAY_INLINE double exp(double x) noexcept { return replay_rt::exp_of_precision(x); }
// The rest, where the two are equal or one is a NaN, is exact.h's.
REPLAY_INLINE double fmax(double x, double y) noexcept {
  return x > y ? x : y > x ? y : replay_rt::exact<double>::fmax(x, y);
}
REPLAY_INLINE double fmin(double x, double y) noexcept {
  return x < y ? x : y < x ? y : replay_rt::exact<double>::fmin(x, y);
}
#ifndef REPLAY_SHADOW
REPLAY_INLINE float expf(float x) noexcept { return replay_rt::fast_expf(x); }
REPLAY_INLINE float fmaf(float x, float y, float z) noexcept { return replay_rt::fast_fmaf(x, y, z); }
REPLAY_INLINE float powf(float x, float y) noexcept { return replay_rt::fast_powf(x, y); }
REPLAY_INLINE float sqrtf(float x) noexcept { return replay_rt::square_root(x); }
REPLAY_INLINE float fmaxf(float x, float y) noexcept {
  return x > y ? x : y > x ? y : replay_rt::exact<float>::fmax(x, y);
}
REPLAY_INLINE float fminf(float x, float y) noexcept {
  return x < y ? x : y < x ? y : replay_rt::exact<float>::fmin(x, y);
}
#endif
}
#undef REPLAY_INLINE

#ifndef REPLAY_SHADOW
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winvalid-constexpr"  // it evaluates few of the builtins
#endif
namespace replay_rt {
#define REPLAY_DEFINE(name, parameters, arguments)                                            \
  constexpr float inlined_##name parameters {                                                 \
    return __builtin_is_constant_evaluated() ? __builtin_##name arguments : ::name arguments; \
  }
REPLAY_FLOAT_FUNCTIONS(REPLAY_DEFINE)
#undef REPLAY_DEFINE
#undef REPLAY_FLOAT_FUNCTIONS
}  // namespace replay_rt
#ifdef __clang__
#pragma clang diagnostic pop
#endif
#endif
