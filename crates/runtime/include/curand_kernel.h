// Random numbers in device code: the generators Philox4x32-10 and XORWOW of cuRAND, with its bits.
// cuRAND: "Device API". Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011; Marsaglia,
// "Xorshift RNGs", 2003. Uniform numbers have cuRAND's bits too; normal ones come from this machine's
// logarithm, sine and cosine.
#pragma once

#include "replay/fast_math.h"
#include "replay/thread.h"
#include "vector_functions.h"

struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned int STATE;
  int boxmuller_flag;
  replay_rt::real boxmuller_extra;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

struct curandStateXORWOW {
  unsigned int d, v[5];
  int boxmuller_flag;
  replay_rt::real boxmuller_extra;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

namespace replay_rt {

inline uint4 philox_4x32_10(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; round++) {
    const uint64_t x = 0xD2511F53ull * counter.x, z = 0xCD9E8D57ull * counter.z;
    counter = uint4{(uint32_t)(z >> 32) ^ counter.y ^ key.x, (uint32_t)z,
                    (uint32_t)(x >> 32) ^ counter.w ^ key.y, (uint32_t)x};
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

/// Adds `n` to the 64 bits in `low` and `high`; whether it carries.
inline bool add_to(unsigned int& low, unsigned int& high, unsigned long long n) {
  const unsigned long long old = (unsigned long long)high << 32 | low, sum = old + n;
  low = (unsigned int)sum;
  high = (unsigned int)(sum >> 32);
  return sum < old;
}
inline void philox_skip(curandStatePhilox4_32_10* state, unsigned long long blocks) {
  if (add_to(state->ctr.x, state->ctr.y, blocks)) add_to(state->ctr.z, state->ctr.w, 1);
}

/// A matrix over two elements: row i is the addend of bit i of the 160 in XORWOW's state.
struct xorwow_matrix {
  uint32_t rows[160][5];
};
inline void xorwow_apply(const xorwow_matrix& matrix, uint32_t (&v)[5]) {
  uint32_t result[5] = {};
  for (int bit = 0; bit < 160; bit++)
    if (v[bit / 32] >> bit % 32 & 1)
      for (int i = 0; i < 5; i++) result[i] ^= matrix.rows[bit][i];
  for (int i = 0; i < 5; i++) v[i] = result[i];
}
inline void xorwow_step(uint32_t (&v)[5]) {
  const uint32_t t = v[0] ^ (v[0] >> 2);
  v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
  v[4] = (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1));
}
/// Steps of 2^0 to 2^130: a subsequence is 2^67 of them.
struct xorwow_powers {
  static constexpr int count = 131;
  xorwow_matrix steps[count];
  xorwow_powers() {
    for (int bit = 0; bit < 160; bit++) {
      uint32_t v[5] = {};
      v[bit / 32] = 1u << bit % 32;
      xorwow_step(v);
      for (int i = 0; i < 5; i++) steps[0].rows[bit][i] = v[i];
    }
    for (int n = 1; n < count; n++) {
      steps[n] = steps[n - 1];
      for (int bit = 0; bit < 160; bit++) xorwow_apply(steps[n - 1], steps[n].rows[bit]);
    }
  }
};
inline void xorwow_skip(curandStateXORWOW* state, unsigned long long n, int first) {
  static const xorwow_powers* const powers = new xorwow_powers;
  for (int bit = 0; bit < 64; bit++)
    if (n >> bit & 1) xorwow_apply(powers->steps[first + bit], state->v);
}

/// Numbers above 0 and up to 1.
inline real random_uniform(unsigned int x) {
  return (real)x * (real)2.3283064365386963e-10 + (real)1.1641532182693481e-10;
}
/// Two independent normal numbers. Box and Muller, "A note on the generation of random normal
/// deviates", 1958.
inline void random_normals(unsigned int x, unsigned int y, real& first, real& second) {
#ifdef REPLAY_SHADOW
  const double turn = 2.3283064365386963e-10 * 6.283185307179586;
#else
  const float turn = 2.3283064e-10f * 6.2831855f;
#endif
  const real u = random_uniform(x), v = (real)y * turn + turn / 2;
  const real s = ::sqrt((real)-2 * ::log(u));
  first = s * ::sin(v);
  second = s * ::cos(v);
}

}  // namespace replay_rt

inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                        unsigned long long offset, curandStatePhilox4_32_10_t* state);
inline void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  state->STATE += (unsigned int)(n & 3);
  n /= 4;
  if (state->STATE > 3) n++, state->STATE -= 4;
  replay_rt::philox_skip(state, n);
  state->output = replay_rt::philox_4x32_10(state->ctr, state->key);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  replay_rt::add_to(state->ctr.z, state->ctr.w, n);
  state->output = replay_rt::philox_4x32_10(state->ctr, state->key);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                        unsigned long long offset, curandStatePhilox4_32_10_t* state) {
  *state = {};
  state->key = uint2{(unsigned int)seed, (unsigned int)(seed >> 32)};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}
inline unsigned int curand(curandStatePhilox4_32_10_t* state) {
  const unsigned int words[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
  const unsigned int word = words[state->STATE++];
  if (state->STATE == 4) {
    replay_rt::philox_skip(state, 1);
    state->output = replay_rt::philox_4x32_10(state->ctr, state->key);
    state->STATE = 0;
  }
  return word;
}
inline uint4 curand4(curandStatePhilox4_32_10_t* state) {
  uint4 four;
  four.x = curand(state), four.y = curand(state), four.z = curand(state), four.w = curand(state);
  return four;
}

inline void skipahead(unsigned long long n, curandStateXORWOW_t* state) {
  replay_rt::xorwow_skip(state, n, 0);
  state->d += 362437u * (unsigned int)n;
}
/// 2^67 numbers each: no change to `d`.
inline void skipahead_sequence(unsigned long long n, curandStateXORWOW_t* state) {
  replay_rt::xorwow_skip(state, n, 67);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                        unsigned long long offset, curandStateXORWOW_t* state) {
  const unsigned int low = (unsigned int)seed ^ 0xaad26b49u;
  const unsigned int high = (unsigned int)(seed >> 32) ^ 0xf7dcefddu;
  const unsigned int t0 = 1099087573u * low, t1 = 2591861531u * high;
  *state = {};
  state->d = 6615241u + t1 + t0;
  state->v[0] = 123456789u + t0;
  state->v[1] = 362436069u ^ t0;
  state->v[2] = 521288629u + t1;
  state->v[3] = 88675123u ^ t1;
  state->v[4] = 5783321u + t0;
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}
inline unsigned int curand(curandStateXORWOW_t* state) {
  replay_rt::xorwow_step(state->v);
  state->d += 362437;
  return state->v[4] + state->d;
}

// Distributions, the same for both generators.
#define REPLAY_DISTRIBUTIONS(State)                                                          \
  inline replay_rt::real curand_uniform(State* state) {                                      \
    return replay_rt::random_uniform(curand(state));                                         \
  }                                                                                          \
  inline float2 curand_normal2(State* state) {                                               \
    const unsigned int x = curand(state), y = curand(state);                                 \
    float2 both;                                                                             \
    replay_rt::random_normals(x, y, both.x, both.y);                                         \
    return both;                                                                             \
  }                                                                                          \
  inline replay_rt::real curand_normal(State* state) {                                       \
    if (state->boxmuller_flag) {                                                             \
      state->boxmuller_flag = 0;                                                             \
      return state->boxmuller_extra;                                                         \
    }                                                                                        \
    const float2 both = curand_normal2(state);                                               \
    state->boxmuller_extra = both.y;                                                         \
    state->boxmuller_flag = 1;                                                               \
    return both.x;                                                                           \
  }                                                                                          \
  inline replay_rt::real curand_log_normal(State* state, replay_rt::real mean,               \
                                           replay_rt::real deviation) {                      \
    return ::exp(mean + deviation * curand_normal(state));                                   \
  }
REPLAY_DISTRIBUTIONS(curandStatePhilox4_32_10_t)
REPLAY_DISTRIBUTIONS(curandStateXORWOW_t)
#undef REPLAY_DISTRIBUTIONS

inline float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return make_float4(replay_rt::random_uniform(x.x), replay_rt::random_uniform(x.y),
                     replay_rt::random_uniform(x.z), replay_rt::random_uniform(x.w));
}
inline float4 curand_normal4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  float4 four;
  replay_rt::random_normals(x.x, x.y, four.x, four.y);
  replay_rt::random_normals(x.z, x.w, four.z, four.w);
  return four;
}
/// One word of Philox, two of XORWOW.
inline double curand_uniform_double(curandStatePhilox4_32_10_t* state) {
  return (double)curand(state) * 2.3283064365386963e-10 + 2.3283064365386963e-10;
}
inline double curand_uniform_double(curandStateXORWOW_t* state) {
  const unsigned long long x = curand(state), y = curand(state);
  return (double)(x ^ y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
