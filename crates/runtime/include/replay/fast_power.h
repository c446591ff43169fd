// powf, inlined into kernels and correctly rounded.
//
// x^y = 2^(y * log2(x)) in double arithmetic, for positive normal x: log2(x) is that of a power of two, of a number c
// from a table near the rest z, and of z / c. 1 / c has 24 bits, so z / c - 1 is exact and at most 2^-8; the
// polynomial of degree 6 errs by less than 2^-50 of the value, and everything by less than 2^-48. Where the exponent
// is within 125, the power errs by less than 2^-40, and 2^ of it as exp in fast_math.h: the same test decides whether
// its float is certain. The square and the cube are products.
// After Szabolcs Nagy's powf in glibc 2.27 (sysdeps/ieee754/flt-32/e_powf.c).
#pragma once

#include "replay/fast_math.h"

namespace replay_rt {

/// 1 / c and log2(c) for a number c of each 128th of the range.
struct logarithm_step {
  double inverse, logarithm;
};
alignas(64) static const logarithm_step logarithm_steps[128] = {
    {0x1.6c16c2p+0, -0x1.042bd5e5bc697p-1}, {0x1.6a13cep+0, -0x1.0014350ad98c0p-1}, {0x1.681682p+0, -0x1.f804b0fc4b574p-2}, {0x1.661ec8p+0, -0x1.efec674739402p-2},
    {0x1.642c86p+0, -0x1.e7df61b2e23edp-2}, {0x1.623fa8p+0, -0x1.dfdd8c2db0228p-2}, {0x1.605816p+0, -0x1.d7e6c094ae102p-2}, {0x1.5e75bcp+0, -0x1.cffae7f66bedbp-2},
    {0x1.5c9884p+0, -0x1.c819e19642b77p-2}, {0x1.5ac058p+0, -0x1.c0438b3557230p-2}, {0x1.58ed24p+0, -0x1.b877c9a0edd9bp-2}, {0x1.571ed4p+0, -0x1.b0b6804d30924p-2},
    {0x1.555556p+0, -0x1.a8ff99fab991dp-2}, {0x1.539096p+0, -0x1.a152f786def9dp-2}, {0x1.51d080p+0, -0x1.99b0786ebe419p-2}, {0x1.501502p+0, -0x1.9218039796aabp-2},
    {0x1.4e5e0cp+0, -0x1.8a8987864d012p-2}, {0x1.4cab8ap+0, -0x1.8304dff1edcedp-2}, {0x1.4afd6ap+0, -0x1.7b89f015dd637p-2}, {0x1.4953a0p+0, -0x1.7418b4db0f9e4p-2},
    {0x1.47ae16p+0, -0x1.6cb0fd60adbc9p-2}, {0x1.460cbep+0, -0x1.6552bb684cb1dp-2}, {0x1.446f88p+0, -0x1.5dfdd6b1e6492p-2}, {0x1.42d664p+0, -0x1.56b235e73daf4p-2},
    {0x1.414142p+0, -0x1.4f6fbe9a14f18p-2}, {0x1.3fb014p+0, -0x1.48365e8072c0dp-2}, {0x1.3e22ccp+0, -0x1.4106026313941p-2}, {0x1.3c995cp+0, -0x1.39de961bbfc39p-2},
    {0x1.3b13b2p+0, -0x1.32bff1d2620d3p-2}, {0x1.3991c4p+0, -0x1.2baa1211253c7p-2}, {0x1.381382p+0, -0x1.249cd663a544dp-2}, {0x1.3698e0p+0, -0x1.1d983038a5973p-2},
    {0x1.3521d0p+0, -0x1.169c06a7938bbp-2}, {0x1.33ae46p+0, -0x1.0fa8496a15078p-2}, {0x1.323e36p+0, -0x1.08bce76e70fb9p-2}, {0x1.30d190p+0, -0x1.01d9bb7350ffbp-2},
    {0x1.2f684cp+0, -0x1.f5fd8c01b8598p-3}, {0x1.2e025cp+0, -0x1.e857d3a536a7bp-3}, {0x1.2c9fb6p+0, -0x1.dac2389abd3b6p-3}, {0x1.2b404cp+0, -0x1.cd3c7ce5ff4c0p-3},
    {0x1.29e414p+0, -0x1.bfc68834a1a8bp-3}, {0x1.288b02p+0, -0x1.b2602cfa90211p-3}, {0x1.27350cp+0, -0x1.a509500525022p-3}, {0x1.25e228p+0, -0x1.97c1d4d0c206ap-3},
    {0x1.24924ap+0, -0x1.8a898953f695dp-3}, {0x1.234568p+0, -0x1.7d604e1d4e346p-3}, {0x1.21fb78p+0, -0x1.70460263cfbd2p-3}, {0x1.20b472p+0, -0x1.633a987cc58b3p-3},
    {0x1.1f7048p+0, -0x1.563dc4114f416p-3}, {0x1.1e2ef4p+0, -0x1.494f894c616e5p-3}, {0x1.1cf06cp+0, -0x1.3c6fc237c6af1p-3}, {0x1.1bb4a4p+0, -0x1.2f9e32a7954e4p-3},
    {0x1.1a7b96p+0, -0x1.22dadb72090e4p-3}, {0x1.194538p+0, -0x1.162592bc18896p-3}, {0x1.181182p+0, -0x1.097e425d2ff08p-3}, {0x1.16e06ap+0, -0x1.f9c97bdf9428ap-4},
    {0x1.15b1e6p+0, -0x1.e0b1af47da109p-4}, {0x1.1485f2p+0, -0x1.c7b540b32b3f0p-4}, {0x1.135c82p+0, -0x1.aed3a581afc75p-4}, {0x1.123590p+0, -0x1.960cd0c952063p-4},
    {0x1.111112p+0, -0x1.7d605d9f9a247p-4}, {0x1.0fef02p+0, -0x1.64ce3b213013cp-4}, {0x1.0ecf58p+0, -0x1.4c562b4fcfb06p-4}, {0x1.0db20cp+0, -0x1.33f7edfae4280p-4},
    {0x1.0c9716p+0, -0x1.1bb340bca2690p-4}, {0x1.0b7e70p+0, -0x1.03880b25ed21bp-4}, {0x1.0a6812p+0, -0x1.d6ec0dd12fc77p-5}, {0x1.0953f4p+0, -0x1.a6f9d6f1d16afp-5},
    {0x1.084212p+0, -0x1.77398efac2a08p-5}, {0x1.073262p+0, -0x1.47aa4429a763ep-5}, {0x1.0624dep+0, -0x1.184bb316406a1p-5}, {0x1.051980p+0, -0x1.d23b2a73a25e5p-6},
    {0x1.041042p+0, -0x1.743f41d467d22p-6}, {0x1.03091cp+0, -0x1.16a25c29d06f6p-6}, {0x1.020408p+0, -0x1.72c7ae96537f8p-7}, {0x1.010102p+0, -0x1.720f0a7874e63p-8},
    {0x1.000000p+0, 0x0.0p+0}, {0x1.fc07f2p-1, 0x1.6fe45cde04ea8p-7}, {0x1.f81f84p-1, 0x1.6e79092466d26p-6}, {0x1.f4465cp-1, 0x1.11cceb8b5169ep-5},
    {0x1.f07c20p-1, 0x1.6bad2043a8791p-5}, {0x1.ecc07ep-1, 0x1.c4df681e7e4bap-5}, {0x1.e9131cp-1, 0x1.0eb37ad433244p-4}, {0x1.e573aep-1, 0x1.3aa2ec545f082p-4},
    {0x1.e1e1e4p-1, 0x1.663f55b4a0ee3p-4}, {0x1.de5d70p-1, 0x1.918a01407050fp-4}, {0x1.dae60ap-1, 0x1.bc8403f143894p-4}, {0x1.d77b66p-1, 0x1.e72eb841d5082p-4},
    {0x1.d41d44p-1, 0x1.08c57b1905425p-3}, {0x1.d0cb5ap-1, 0x1.1dcd12e0415dcp-3}, {0x1.cd856ap-1, 0x1.32ae94f510730p-3}, {0x1.ca4b32p-1, 0x1.476a94dd5b49dp-3},
    {0x1.c71c74p-1, 0x1.5c01953270d24p-3}, {0x1.c3f8f2p-1, 0x1.707420f48cf97p-3}, {0x1.c0e072p-1, 0x1.84c2b14a21ffcp-3}, {0x1.bdd2bap-1, 0x1.98edc72e57580p-3},
    {0x1.bacf92p-1, 0x1.acf5de2afc49ap-3}, {0x1.b7d6c6p-1, 0x1.c0db5e875d8ffp-3}, {0x1.b4e81cp-1, 0x1.d49ee012d3176p-3}, {0x1.b20366p-1, 0x1.e840b105841ecp-3},
    {0x1.af286ep-1, 0x1.fbc15c6a2fb03p-3}, {0x1.ac5704p-1, 0x1.0790a5b49d340p-2}, {0x1.a98ef8p-1, 0x1.113076d2df896p-2}, {0x1.a6d01cp-1, 0x1.1ac055a90d069p-2},
    {0x1.a41a42p-1, 0x1.2440796db68c3p-2}, {0x1.a16d40p-1, 0x1.2db10e538534dp-2}, {0x1.9ec8eap-1, 0x1.37124a7b0e57ap-2}, {0x1.9c2d16p-1, 0x1.40645fdca7eb9p-2},
    {0x1.99999ap-1, 0x1.49a7834b7d429p-2}, {0x1.970e50p-1, 0x1.52dbddf71fd7ap-2}, {0x1.948b12p-1, 0x1.5c019b99579bep-2}, {0x1.920fb6p-1, 0x1.6518f92e457aep-2},
    {0x1.8f9c1ap-1, 0x1.6e22191053189p-2}, {0x1.8d301ap-1, 0x1.771d274867aecp-2}, {0x1.8acb92p-1, 0x1.800a5250cec89p-2}, {0x1.886e60p-1, 0x1.88e9c392b7fbbp-2},
    {0x1.861862p-1, 0x1.91bba6c447dcfp-2}, {0x1.83c978p-1, 0x1.9a80224eb84b9p-2}, {0x1.818182p-1, 0x1.a3375ec3372a1p-2}, {0x1.7f4060p-1, 0x1.abe186df47b97p-2},
    {0x1.7d05f6p-1, 0x1.b47eb80eb7506p-2}, {0x1.7ad222p-1, 0x1.bd0f28fbc717ap-2}, {0x1.78a4cap-1, 0x1.c592f356af947p-2}, {0x1.767dd0p-1, 0x1.ce0a42495459dp-2},
    {0x1.745d18p-1, 0x1.d6753b2085b50p-2}, {0x1.72428ap-1, 0x1.ded3f51b1dad4p-2}, {0x1.702e06p-1, 0x1.e726a9208b3bep-2}, {0x1.6e1f78p-1, 0x1.ef6d61f7bbf78p-2},
};

/// x^y within 2^-34 of its size, or 0 where that may be no normal float.
inline __attribute__((always_inline)) double near_power(float x, float y) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const bool is_positive_normal = bits - 0x00800000u < 0x7f800000u - 0x00800000u;
  constexpr uint32_t least_rest = 0x3f338000u;  // of z; 1 lies in the middle of a range
  const uint32_t above = bits - least_rest, exponent_bits = above & 0xff800000u, rest_bits = bits - exponent_bits;
  float z;
  __builtin_memcpy(&z, &rest_bits, sizeof z);
  const logarithm_step& step = logarithm_steps[above >> 16 & 127];
  const double r = z * step.inverse - 1;
  const double r2 = r * r;
  const double rest = r * ((0x1.71547652b82fep+0 + r * -0x1.71547652b82fep-1) +
                           r2 * ((0x1.ec709dc3a03fdp-2 + r * -0x1.71547652b82fep-2) +
                                 r2 * (0x1.2776c50ef9bfep-2 + r * -0x1.ec709dc3a03fdp-3)));
  const double exponent = y * (((int32_t)exponent_bits >> 23) + step.logarithm + rest);
  if (!__builtin_expect(is_positive_normal && exponent > -125 && exponent < 125, 1)) return 0;
  constexpr double steps_per_unit = 128, unit_of_exp = 0x1.62e42fefa39efp-1;
  const double shifted = exponent * steps_per_unit + integer_shift;
  return step_times_exp(shifted, (exponent - (shifted - integer_shift) / steps_per_unit) * unit_of_exp);
}

inline __attribute__((always_inline)) float fast_powf(float x, float y) {
  const double square = (double)x * x;
  if (y == 2 && (square > 0x1p-126 || x == 0)) return (float)square;
  const double power = y == 3 ? square * x : near_power(x, y);
  const double size = power < 0 ? -power : power;
  if (__builtin_expect(size > 0x1p-126 && size < 0x1p127 && rounds_surely(power), 1)) return (float)power;
  return abi->math_f2(REPLAY_POW, x, y);
}

}  // namespace replay_rt
