// CUDA's mathematics: every call reaches the table, exact functions are exact in every rounding
// mode, directed intrinsics round as named, integer intrinsics do as documented.
#include "fake_engine.h"

#include "math_constants.h"

static const double inf = __builtin_inf(), nan_value = __builtin_nan("");

static void set_rounding(int mode) {
#if defined(__x86_64__)
  const uint32_t control[4] = {0, 0x2000, 0x4000, 0x6000};
  uint32_t now = 0x1f80 | control[mode];
  __asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory");
#else
  const uint64_t control[4] = {0, 2, 1, 3};
  __asm__ volatile("msr fpcr, %0" : : "r"(control[mode] << 22) : "memory");
#endif
}

static void every_spelling_of_a_function_reaches_the_table() {
  volatile float x = 0.5f;
  volatile double y = 0.5;
  // These are computed where they are called, unless rounding is in doubt.
  const double root_of_e = 1.6487212707001282;
  const float single = (float)root_of_e;
  check(expf(x) == single);
  check(std::exp(x) == single);
  check(exp(x) == single);
  check(::exp((float)x) == single);
  check(__expf(x) == single);
  check(exp(y) == root_of_e);
  check(std::exp(y) == root_of_e);
  check(std::exp(1) == 2.718281828459045);
  check(exp(710 * y * 2) == 2000.0 * REPLAY_EXP + 710);  // beyond what is computed in line
  check(std::exp(0.5f) == single);  // a constant must not be folded by the compiler
  check(logf(0.5f) == 1000.0f * REPLAY_LOG + 0.5f);
  check(tanh(0.5f) == 1000.0f * REPLAY_TANH + 0.5f);
  check(std::tanh(0.5) == 2000.0 * REPLAY_TANH + 0.5);
  check(rsqrtf(x) == 1000.0f * REPLAY_RSQRT + 0.5f);
  check(rsqrt(y) == 2000.0 * REPLAY_RSQRT + 0.5);
  check(powf(x - 0.2f, 3) == 0x1.ba5e38p-6f);
  check(std::pow(9.0f * x, 1.5f) == 9.54594155f);
  check(powf(x, 3) == 1000.0f * REPLAY_POW + 6.5f);  // exact
  check(powf(-x, 2.5f) == 1000.0f * REPLAY_POW + 4.5f);
  check(std::pow(-x, 2.5f) == 1000.0f * REPLAY_POW + 4.5f);
  check(std::pow(y, 2.0) == 2000.0 * REPLAY_POW + 4.5);
  check(__powf(x, 3) == 1000.0f * REPLAY_POW + 6.5f);
  check(erff(x) == 1000.0f * REPLAY_ERF + 0.5f);
  check(exp10(x) == 1000.0f * REPLAY_EXP10 + 0.5f);
  check(fmaf(2, 3, 4) == 10);
  check(std::fma(4 * x, 3.0f, 4.0f) == 10);
  check(fmaf(0x1p-70f, 0x1p-70f, 0) == 0.5f);
#ifndef __clang__
  constexpr float ten = std::fmax(10.0f, 4.0f);
  check(ten == 10);
#endif
  check(fma(2.0, 3.0, 4.0) == 10.5);
  float sine, cosine;
  sincosf(x, &sine, &cosine);
  check(sine == 1000.0f * REPLAY_SIN + 0.5f && cosine == 1000.0f * REPLAY_COS + 0.5f);
  float (*function)(float) = expf;
  check(function(0.5f) == single);
}

template <class T>
static void exact_functions_do_not_depend_on_the_rounding_mode() {
  const T halves[] = {T(-2.5), T(-1.5), T(-0.5), T(-0.25), T(0.5), T(1.5), T(2.5), T(2.75)};
  const T rinted[] = {-2, -2, T(-0.0), T(-0.0), 0, 2, 2, 3};
  const T rounded[] = {-3, -2, -1, T(-0.0), 1, 2, 3, 3};
  const T floored[] = {-3, -2, -1, -1, 0, 1, 2, 2};
  const T ceiled[] = {-2, -1, T(-0.0), T(-0.0), 1, 2, 3, 3};
  for (int mode = 0; mode < 4; mode++) {
    set_rounding(mode);
    for (int i = 0; i < 8; i++) {
      volatile T v = halves[i];
      check(bits_of(std::rint(v)) == bits_of(rinted[i]));
      check(bits_of(std::nearbyint(v)) == bits_of(rinted[i]));
      check(bits_of(std::round(v)) == bits_of(rounded[i]));
      check(bits_of(std::floor(v)) == bits_of(floored[i]));
      check(bits_of(std::ceil(v)) == bits_of(ceiled[i]));
      check(std::lrint(v) == (long)rinted[i]);
      check(std::llround(v) == (long long)rounded[i]);
    }
    check(std::floor(T(inf)) == T(inf));
    check(std::rint(T(nan_value)) != std::rint(T(nan_value)));
    // CUDA Math API, fmax: a NaN counts as missing; zeros are ordered.
    check(std::fmax(T(nan_value), T(1)) == 1 && std::fmin(T(1), T(nan_value)) == 1);
    check(bits_of(std::fmax(T(-0.0), T(0))) == bits_of(T(0)));
    check(bits_of(std::fmin(T(0), T(-0.0))) == bits_of(T(-0.0)));
    check(std::fmod(T(5.5), T(2)) == T(1.5) && std::fmod(T(-5.5), T(2)) == T(-1.5));
    check(bits_of(std::fmod(T(-4), T(2))) == bits_of(T(-0.0)));
    check(bits_of(std::fmod(T(4), T(2))) == bits_of(T(0)));
    check(std::fmod(T(1), T(inf)) == 1 && std::fmod(T(1), T(0)) != std::fmod(T(1), T(0)));
    check(std::remainder(T(5), T(2)) == 1 && std::remainder(T(7), T(2)) == -1);
    check(std::remainder(T(3), T(2)) == -1 && std::remainder(T(-3), T(2)) == 1);
    check(bits_of(std::remainder(T(4), T(2))) == bits_of(T(0)));
    int quotient, exponent;
    check(std::remquo(T(-29), T(3), &quotient) == 1 && (quotient & 7) == (-10 & 7));
    check(std::frexp(T(12), &exponent) == T(0.75) && exponent == 4);
    check(std::frexp(T(0), &exponent) == 0 && exponent == 0);
    check(std::ldexp(T(0.75), 4) == 12 && std::scalbn(T(3), -1) == T(1.5));
    T whole;
    check(std::modf(T(-3.25), &whole) == T(-0.25) && whole == -3);
    check(bits_of(std::modf(T(-3), &whole)) == bits_of(T(-0.0)));
    check(std::ilogb(T(10)) == 3 && std::logb(T(0.25)) == -2);
    check(std::nextafter(T(1), T(2)) > 1 && std::nextafter(T(0), T(-1)) < 0);
    check(bits_of(std::nextafter(T(1), T(2))) == bits_of(T(1)) + 1);
    check(bits_of(std::nextafter(T(-1), T(0))) == bits_of(T(-1)) - 1);
    check(std::fdim(T(3), T(5)) == 0 && std::fdim(T(5), T(3)) == 2);
    check(std::sqrt(T(16)) == 4 && std::sqrt(T(-1)) != std::sqrt(T(-1)));
    check(std::isnan(T(nan_value)) && isinf(T(inf)) && !std::isfinite(T(inf)) && signbit(T(-0.0)));
    check(std::abs(T(-2)) == 2 && abs(T(-2)) == 2 && abs(-2) == 2);
  }
  set_rounding(0);
}

static void scaling_rounds_once() {
  // 2^-149 is the smallest float; halfway between it and 0 goes to even.
  check(ldexpf(1.0f, -150) == 0.0f);
  check(ldexpf(1.5f, -150) == 1.40129846e-45f);
  check(ldexp(1.0, -1075) == 0.0);
  check(ldexp(1.5, -1075) == 4.9406564584124654e-324);
  check(ldexp(4.9406564584124654e-324, 1074) == 1.0);
  check(ldexp(1.0, 5000) == inf && ldexp(1.0, -5000) == 0.0);
  check(fmodf(1e30f, 3.0f) == fmod((double)1e30f, 3.0));
  check(fmod(0x1p1000, 3.0) == 1.0);
  check(remainder(0x1p1000, 3.0) == 1.0);
  check(remainder(1.5 * 4.9406564584124654e-324, 4.9406564584124654e-324) == 0.0);
}

static void min_and_max_follow_the_usual_conversions() {
  check(min(-1, 1) == -1 && max(-1, 1) == 1);
  check(min(-1, 1u) == 1u && max(1u, -1) == 0xffffffffu);
  check(min(1ull, 2ll) == 1ull && max(1l, 2l) == 2l);
  check(max(1.0f, 2.0) == 2.0 && min(1.0, 2.0f) == 1.0);
  check(max((float)nan_value, 3.0f) == 3.0f);
  check(__saturatef(-1.0f) == 0.0f && __saturatef(0.5f) == 0.5f && __saturatef(2.0f) == 1.0f);
  check(bits_of(__saturatef((float)nan_value)) == 0);
  check(fabsf(-2.0f) == 2.0f && copysignf(3.0f, -0.0f) == -3.0f);
}

static void directed_arithmetic_rounds_as_named_in_every_mode() {
  for (int mode = 0; mode < 4; mode++) {
    set_rounding(mode);
    // 1 + 2^-30 lies between two neighbours.
    volatile float one = 1.0f, tiny = 0x1p-30f, third = 3.0f;
    check(bits_of(__fadd_rd(one, tiny)) == 0x3f800000u);
    check(bits_of(__fadd_rz(one, tiny)) == 0x3f800000u);
    check(bits_of(__fadd_ru(one, tiny)) == 0x3f800001u);
    check(bits_of(__fadd_rd(-one, -tiny)) == 0xbf800001u);
    check(bits_of(__fsub_rd(one, tiny)) == 0x3f7fffffu);
    check(bits_of(__fdiv_rd(one, third)) == 0x3eaaaaaau);
    check(bits_of(__fdiv_ru(one, third)) == 0x3eaaaaabu);
    check(bits_of(__frcp_rz(third)) == 0x3eaaaaaau);
    check(bits_of(__fsqrt_rd(2.0f)) == 0x3fb504f3u && bits_of(__fsqrt_ru(2.0f)) == 0x3fb504f4u);
    check(__fmul_ru(0x1.000002p0f, 0x1.000002p0f) == 0x1.000006p0f);
    check(__fmul_rd(0x1.000002p0f, 0x1.000002p0f) == 0x1.000004p0f);
    volatile double wide = 1.0, small = 0x1p-80;
    check(__dadd_ru(wide, small) == 0x1.0000000000001p0 && __dadd_rd(wide, small) == 1.0);
    check(__ddiv_rd(1.0, 3.0) == 0x1.5555555555555p-2);
    check(__ddiv_ru(1.0, 3.0) == 0x1.5555555555556p-2);
    check(__dsqrt_rd(2.0) == 0x1.6a09e667f3bccp0 && __dsqrt_ru(2.0) == 0x1.6a09e667f3bcdp0);
    check(__double2float_rd(0x1.0000001p0) == 1.0f && __double2float_ru(0x1.0000001p0) > 1.0f);
    check(__int2float_rd(16777217) == 16777216.0f && __int2float_ru(16777217) == 16777218.0f);
    check(__int2float_rz(-16777217) == -16777216.0f && __int2float_rd(-16777217) == -16777218.0f);
    check(__ull2float_ru(~0ull) == 0x1p64f && __ull2float_rd(~0ull) == 0x1.fffffep63f);
    check(__ll2double_ru((1ll << 53) + 1) == 0x1.0000000000001p53);
    check(__ll2float_rz(-9223372036854775807ll - 1) == -0x1p63f);
  }
  set_rounding(0);
  check(__fadd_rn(1.0f, 0x1p-30f) == 1.0f);
  check(__frcp_rn(3.0f) == 1.0f / 3.0f);
}

static void conversions_to_integers_round_as_named_and_saturate() {
  for (int mode = 0; mode < 4; mode++) {
    set_rounding(mode);
    check(__float2int_rn(2.5f) == 2 && __float2int_rn(3.5f) == 4 && __float2int_rn(-2.5f) == -2);
    check(__float2int_rz(-2.7f) == -2 && __float2int_ru(2.1f) == 3 && __float2int_rd(-2.1f) == -3);
    check(__double2int_rn(0.5) == 0 && __double2uint_ru(0.25) == 1);
  }
  set_rounding(0);
  check(__float2int_rz(3e9f) == 2147483647 && __float2int_rz(-3e9f) == -2147483647 - 1);
  check(__float2uint_rz(-1.0f) == 0 && __float2uint_rz(5e9f) == 0xffffffffu);
  check(__float2uint_rz(3e9f) == 3000000000u);
  check(__float2ull_rz(1e30f) == ~0ull && __float2ll_rz(-1e30f) == -9223372036854775807ll - 1);
  check(__double2ull_rz(0x1p63) == 1ull << 63);
  // PTX ISA, cvt: the result for NaN depends on the types.
  check(__float2int_rn((float)nan_value) == 0 && __float2uint_rn((float)nan_value) == 0);
  check(__float2ll_rn((float)nan_value) == -9223372036854775807ll - 1);
  check(__double2int_rn(nan_value) == -2147483647 - 1);
  check(__float_as_int(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f);
  check(__double_as_longlong(1.0) == 0x3ff0000000000000ll);
  check(__hiloint2double(0x3ff00000, 0) == 1.0 && __double2hiint(2.0) == 0x40000000);
}

static void integer_intrinsics_do_as_documented() {
  check(__clz(0) == 32 && __clz(1) == 31 && __clz(-1) == 0 && __clzll(1) == 63 && __clzll(0) == 64);
  check(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64);
  check(__ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41);
  check(__brev(1u) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u && __brevll(1) == 1ull << 63);
  check(__byte_perm(0x33221100u, 0x77665544u, 0x7531u) == 0x77553311u);
  check(__byte_perm(0x33221100u, 0x77665544u, 0x0123u) == 0x00112233u);
  check(__mulhi(-2, 0x40000000) == -1 && __umulhi(0x80000000u, 6u) == 3u);
  check(__mul64hi(-1, 1) == -1 && __umul64hi(1ull << 63, 4) == 2);
  check(__mul24(0x01ffffff, 2) == -2 && __umul24(0x01000003u, 5u) == 15u);
  check(__sad(-5, 5, 3u) == 13u && __usad(2u, 10u, 1u) == 9u);
  check(__hadd(-3, 4) == 0 && __rhadd(-3, 4) == 1 && __uhadd(~0u, 1u) == 0x80000000u);
  check(__funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_l(5u, 9u, 32) == 9u);
  check(__funnelshift_lc(5u, 9u, 40) == 5u);
  check(__funnelshift_r(2u, 1u, 1) == 0x80000001u && __funnelshift_rc(5u, 9u, 40) == 9u);
  check(__dp4a((int)0xff02ff02, 0x01010101, 10) == 12);
  check(__dp4a(0xff02ff02u, 0x01010101u, 10u) == 524u);
  check(__vmaxs4(0x80ff7f01u, 0x00010203u) == 0x00017f03u && __vmaxu4(0x80ff7f01u, 0x00010203u) == 0x80ff7f03u);
  check(__vmins2(0x8000ffffu, 0x00010000u) == 0x8000ffffu && __vminu2(0x8000ffffu, 0x00010000u) == 0x00010000u);
  check(__vabsdiffu4(0x01ff0010u, 0x02010110u) == 0x01fe0100u && __vabsdiffs2(0xffff0003u, 0x00010005u) == 0x00020002u);
  check(__vcmpeq4(0x01020304u, 0x01000300u) == 0xff00ff00u && __vcmpgts2(0x00018000u, 0x0000ffffu) == 0xffff0000u);
  check(__vsub2(0x00010000u, 0x00020001u) == 0xffffffffu && __vsub4(0x10002000u, 0x01010101u) == 0x0fff1fffu);
  check(__vavgu4(0x01ff0003u, 0x02ff0104u) == 0x02ff0104u && __vhaddu4(0x01ff0003u, 0x02ff0104u) == 0x01ff0003u);
  check(__vadd4(0xff01ff01u, 0x01010101u) == 0x00020002u && __vadd2(0xffff0001u, 0x00010001u) == 2u);
}

int main() {
  fake::start();
  every_spelling_of_a_function_reaches_the_table();
  exact_functions_do_not_depend_on_the_rounding_mode<float>();
  exact_functions_do_not_depend_on_the_rounding_mode<double>();
  scaling_rounds_once();
  min_and_max_follow_the_usual_conversions();
  directed_arithmetic_rounds_as_named_in_every_mode();
  conversions_to_integers_round_as_named_and_saturate();
  integer_intrinsics_do_as_documented();
  check(CUDART_PI_F == 3.14159274f && CUDART_LN2_F == 0.693147182f);
  return finish();
}

#include "replay/print_definitions.h"
