// __half and __nv_bfloat16. With the argument `table`, prints the bits that conversions give, for
// the Rust side to compare with an implementation of its own; else checks what has one answer.
#include "fake_engine.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

/// The floats of the comparison: a stride through all of them, and around every half-way point.
template <class Visit>
static void for_each_sample(Visit visit) {
  for (uint64_t i = 0; i < (1ull << 32); i += 32771) visit((uint32_t)i);
  for (uint32_t i = 0; i < (1u << 16); i++)
    for (int32_t away = -1; away <= 1; away++) {
      visit((i << 16) + 0x8000u + (uint32_t)away);
      visit((i << 13) + 0x38000000u + 0x1000u + (uint32_t)away);
      visit((i << 13) + 0xb8000000u + 0x1000u + (uint32_t)away);
    }
}

static void print_table() {
  for_each_sample([](uint32_t bits) {
    float x = replay_rt::bits<float>(bits);
    uint16_t row[] = {
        __half_as_ushort(__float2half_rn(x)),         __half_as_ushort(__float2half_rd(x)),
        __half_as_ushort(__float2half_ru(x)),         __half_as_ushort(__float2half_rz(x)),
        __bfloat16_as_ushort(__float2bfloat16_rn(x)), __bfloat16_as_ushort(__float2bfloat16_rd(x)),
        __bfloat16_as_ushort(__float2bfloat16_ru(x)), __bfloat16_as_ushort(__float2bfloat16_rz(x))};
    fwrite(&bits, sizeof bits, 1, stdout);
    fwrite(row, sizeof row, 1, stdout);
  });
}

static void every_value_survives_the_way_to_float_and_back() {
  for (uint32_t i = 0; i < 0x10000; i++) {
    unsigned short bits = (unsigned short)i;
    __half h = __ushort_as_half(bits);
    if (__hisnan(h))
      check(__half_as_ushort(__float2half(__half2float(h))) == 0x7fff);
    else
      check(__half_as_ushort(__float2half(__half2float(h))) == bits);
    __nv_bfloat16 b = __ushort_as_bfloat16(bits);
    if (!__hisnan(b)) check(__bfloat16_as_ushort(__float2bfloat16(__bfloat162float(b))) == bits);
  }
  check(__half2float(__ushort_as_half(1)) == 0x1p-24f);
  check(__half2float(__ushort_as_half(0x7bff)) == 65504.0f);
}

static void rn_follows_the_rounding_of_the_replay_and_named_roundings_do_not() {
  const float x = 1.0f + 0x1p-20f;
  const unsigned short positive[4] = {0x3c00, 0x3c00, 0x3c01, 0x3c00};
  const unsigned short negative[4] = {0xbc00, 0xbc01, 0xbc00, 0xbc00};
  for (int mode = 0; mode < 4; mode++) {
    replay_rt::rounding = mode;
    check(__half_as_ushort(__float2half_rn(x)) == positive[mode]);
    check(__half_as_ushort(__float2half(-x)) == negative[mode]);
    check(__half_as_ushort(__half(x)) == positive[mode]);
    check(__bfloat16_as_ushort(__float2bfloat16(x)) == (mode == 2 ? 0x3f81 : 0x3f80));
    check(__bfloat16_as_ushort(__float2bfloat16(-x)) == (mode == 1 ? 0xbf81 : 0xbf80));
    check(__half_as_ushort(__float2half_ru(x)) == 0x3c01);
    check(__half_as_ushort(__float2half_rz(x)) == 0x3c00);
    check(__half_as_ushort(__int2half_ru(2049)) == 0x6801);
    check(__half2int_rn(__float2half_rz(2.5f)) == 2);
  }
  replay_rt::rounding = 0;
}

static void arithmetic_rounds_once() {
  // 2048 + 1 is a tie in half and goes to even; 2050 + 1 goes up.
  check(float(__float2half(2048) + __float2half(1)) == 2048.0f);
  check(float(__float2half(2050) + __float2half(1)) == 2052.0f);
  check(float(__float2half(1) / __float2half(3)) == 0x1.554p-2f);
  check(float(__float2bfloat16(1) / __float2bfloat16(3)) == 0x1.56p-2f);
  check(float(__float2bfloat16(256) + __float2bfloat16(1)) == 256.0f);
  check(float(hsqrt(__float2half(2))) == 0x1.6ap+0f);
  check(float(__float2half(65504) + __float2half(16)) == __builtin_inff());
  // 1.0078125^2 = 1 + 2^-6 + 2^-14, and the addend takes the last bit away.
  __nv_bfloat16 a = __float2bfloat16(0x1.02p0f), tiny = __float2bfloat16(0x1p-133f);
  check(float(__hfma(a, a, __float2bfloat16(-0x1p-14f))) == 0x1.04p0f);
  // Ties that only the addend breaks, however small it is: 259 = 7 * 37 lies between 258 and 260.
  __nv_bfloat16 seven = __float2bfloat16(7), odd = __float2bfloat16(37);
  check(float(__hmul(seven, odd)) == 260.0f);
  check(float(__hfma(seven, odd, __float2bfloat16(0.0f))) == 260.0f);
  check(float(__hfma(seven, odd, __hneg(tiny))) == 258.0f);
  // 261 = 9 * 29 is a tie between 260 and 262, 260 being even.
  __nv_bfloat16 nine = __float2bfloat16(9), prime = __float2bfloat16(29);
  check(float(__hfma(nine, prime, __float2bfloat16(0.0f))) == 260.0f);
  check(float(__hfma(nine, prime, tiny)) == 262.0f);
  check(float(__hfma(__hneg(nine), prime, __hneg(tiny))) == -262.0f);
  // Straight from double: through float this would be a tie.
  check(__half_as_ushort(__double2half(1.0 + 0x1p-11 + 0x1p-40)) == 0x3c01);
  check(__bfloat16_as_ushort(__double2bfloat16(1.0 + 0x1p-8 + 0x1p-40)) == 0x3f81);
  check(__half_as_ushort(__ll2half_rn(2049ll)) == 0x6800);
  check(__bfloat16_as_ushort(__ull2bfloat16_rn((257ull << 40) + 1)) == 0x5781);
}

static void comparisons_know_nan_and_zero() {
  __half nan = __ushort_as_half(0x7e00), one = __float2half(1), zero = __float2half(0);
  __half minus_zero = __ushort_as_half(0x8000);
  check(!(nan == nan) && nan != nan && !__hne(nan, one) && __hneu(nan, one) && __hequ(nan, one));
  check(!__hlt(nan, one) && __hltu(nan, one) && zero == minus_zero && !(zero < minus_zero));
  check(__half_as_ushort(__hmax(nan, one)) == 0x3c00);
  check(__half_as_ushort(__hmax_nan(nan, one)) == 0x7fff);
  check(__half_as_ushort(__hmax(minus_zero, zero)) == 0 && __hisinf(__float2half(-1e6f)) == -1);
  __half2 pair = __floats2half2_rn(1, 2), other = __floats2half2_rn(1, 3);
  check(__heq2_mask(pair, other) == 0xffffu && !__hbeq2(pair, other) && !(pair == other));
  check(__low2float(__heq2(pair, other)) == 1.0f && __high2float(__heq2(pair, other)) == 0.0f);
  check(__high2float(__lowhigh2highlow(pair)) == 1.0f);
  check(__bfloat1622float2(__float22bfloat162_rn(make_float2(1, 2))).y == 2.0f);
}

static void saturation_and_integers() {
  check(float(__hadd_sat(__float2half(0.75f), __float2half(0.75f))) == 1.0f);
  check(float(__hfma_relu(__float2half(-1), __float2half(1), __float2half(0.5f))) == 0.0f);
  check(__half2ushort_rz(__float2half(-3)) == 0 && __half2short_rd(__float2half(-2.5f)) == -3);
  check((int)__float2half(-2.75f) == -2 && (unsigned char)__float2half(300) == 255);
  __half h = 3;
  h *= __half(2);
  check(++h == __half(7) && h-- == __half(7) && -h == __half(-6));
  float widened = h;
  check(widened == 6.0f);
}

int main(int count, char**) {
  fake::start();
  if (count > 1) {
    print_table();
    return 0;
  }
  every_value_survives_the_way_to_float_and_back();
  rn_follows_the_rounding_of_the_replay_and_named_roundings_do_not();
  arithmetic_rounds_once();
  comparisons_know_nan_and_zero();
  saturation_and_integers();
  return finish();
}

#include "replay/print_definitions.h"
