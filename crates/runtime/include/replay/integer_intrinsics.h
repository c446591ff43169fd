// CUDA's integer intrinsics. CUDA Math API: "Integer Intrinsics", "SIMD Intrinsics" (dp4a, dp2a
// and a few byte and halfword forms only).
#pragma once

#include <stdint.h>

inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
/// The position of the lowest set bit, counted from 1; 0 if there is none.
inline int __ffs(int x) { return x == 0 ? 0 : __builtin_ctz((unsigned)x) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : __builtin_ctzll((unsigned long long)x) + 1;
}

inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

/// Four bytes chosen from the eight of `y:x` by the low three bits of each nibble of `selector`.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t bytes = (uint64_t)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    unsigned from = selector >> (4 * i) & 7u;
    result |= (unsigned)(bytes >> (8 * from) & 0xff) << (8 * i);
  }
  return result;
}

inline int __mulhi(int a, int b) { return (int)(((int64_t)a * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline long long __mul64hi(long long a, long long b) {
  return (long long)(((__int128)a * b) >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
/// The low 32 bits of the product of the low 24 bits.
inline int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
inline unsigned __sad(int a, int b, unsigned c) {
  return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c;
}

// Averages: `h` rounds down, `rh` up.
inline int __hadd(int a, int b) { return (int)(((int64_t)a + b) >> 1); }
inline int __rhadd(int a, int b) { return (int)(((int64_t)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b + 1) >> 1); }

// The 64 bits of `high:low`, shifted; `_l` and `_r` take the distance modulo 32, `_lc` and `_rc`
// cut it at 32. Left shifts give the upper half of the result, right shifts the lower.
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned distance) {
  return (unsigned)(((uint64_t)high << 32 | low) << (distance > 32 ? 32 : distance) >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned distance) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (distance > 32 ? 32 : distance));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned distance) {
  return __funnelshift_lc(low, high, distance & 31u);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned distance) {
  return __funnelshift_rc(low, high, distance & 31u);
}

// Dot products of four bytes, plus `c`.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c = (int)((unsigned)c + (unsigned)((int8_t)(a >> i) * (int8_t)(b >> i)));
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xffu) * (b >> i & 0xffu);
  return c;
}

// Bytes and halfwords, each on its own, modulo their width.
inline unsigned __vadd4(unsigned a, unsigned b) {
  return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u);
}
inline unsigned __vadd2(unsigned a, unsigned b) {
  return ((a & 0x7fff7fffu) + (b & 0x7fff7fffu)) ^ ((a ^ b) & 0x80008000u);
}

// SIMD instructions on the bytes or halfwords of a word, one by one. CUDA Math API: "SIMD Intrinsics".
#define REPLAY_EACH(name, BITS, T, result)                      \
  inline unsigned name(unsigned words_of_a, unsigned words_of_b) {  \
    const unsigned mask = (1u << BITS) - 1;                     \
    unsigned all = 0;                                           \
    for (int i = 0; i < 32; i += BITS) {                        \
      const T a = T(words_of_a >> i & mask), b = T(words_of_b >> i & mask); \
      all |= (unsigned(result) & mask) << i;                    \
    }                                                           \
    return all;                                                 \
  }
#define REPLAY_EACH_OF_SIGN(name, s, WIDTH, BITS, T)              \
  REPLAY_EACH(name##max##s##WIDTH, BITS, T, a > b ? a : b)        \
  REPLAY_EACH(name##min##s##WIDTH, BITS, T, a < b ? a : b)        \
  REPLAY_EACH(name##absdiff##s##WIDTH, BITS, T, a > b ? a - b : b - a) \
  REPLAY_EACH(name##cmpgt##s##WIDTH, BITS, T, a > b ? ~0u : 0u)   \
  REPLAY_EACH(name##cmpge##s##WIDTH, BITS, T, a >= b ? ~0u : 0u)  \
  REPLAY_EACH(name##cmplt##s##WIDTH, BITS, T, a < b ? ~0u : 0u)   \
  REPLAY_EACH(name##cmple##s##WIDTH, BITS, T, a <= b ? ~0u : 0u)
#define REPLAY_EACH_OF_WIDTH(WIDTH, BITS, S, U)        \
  REPLAY_EACH_OF_SIGN(__v, s, WIDTH, BITS, S)          \
  REPLAY_EACH_OF_SIGN(__v, u, WIDTH, BITS, U)          \
  REPLAY_EACH(__vsub##WIDTH, BITS, U, a - b)           \
  REPLAY_EACH(__vavgu##WIDTH, BITS, U, (a + b + 1) / 2) \
  REPLAY_EACH(__vhaddu##WIDTH, BITS, U, (a + b) / 2)   \
  REPLAY_EACH(__vcmpeq##WIDTH, BITS, U, a == b ? ~0u : 0u) \
  REPLAY_EACH(__vcmpne##WIDTH, BITS, U, a != b ? ~0u : 0u)
REPLAY_EACH_OF_WIDTH(4, 8, int8_t, uint8_t)
REPLAY_EACH_OF_WIDTH(2, 16, int16_t, uint16_t)
#undef REPLAY_EACH_OF_WIDTH
#undef REPLAY_EACH_OF_SIGN
#undef REPLAY_EACH
