// CUDA's integer intrinsics. CUDA Math API: "Integer Mathematical Functions", "Integer Intrinsics", "SIMD Intrinsics".
#pragma once

#include <stdint.h>

#include "vector_types.h"

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

/// The place of the set bit number `offset`, counted from place `base` on, upwards or downwards; all bits if there is
/// none. PTX ISA: `fns`.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  const int step = offset < 0 ? -1 : 1;
  int left = offset < 0 ? -offset : offset == 0 ? 1 : offset;
  for (int place = (int)base; place >= 0 && place < 32; place += step) {
    if ((mask >> place & 1u) && --left == 0) return (unsigned)place;
    if (offset == 0) break;
  }
  return ~0u;
}

inline unsigned short __nv_bswap16(unsigned short x) { return __builtin_bswap16(x); }
inline unsigned __nv_bswap32(unsigned x) { return __builtin_bswap32(x); }
inline unsigned long long __nv_bswap64(unsigned long long x) { return __builtin_bswap64(x); }

// Dot products of four bytes, plus `c`.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c = (int)((unsigned)c + (unsigned)((int8_t)(a >> i) * (int8_t)(b >> i)));
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xffu) * (b >> i & 0xffu);
  return c;
}

inline int __dp4a(char4 a, char4 b, int c) {
  return __dp4a(replay_rt::bits<int>(a), replay_rt::bits<int>(b), c);
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return __dp4a(replay_rt::bits<unsigned>(a), replay_rt::bits<unsigned>(b), c);
}
// Dot products of two halfwords with the lower or upper two bytes, plus `c`.
#define REPLAY_DP2A(name, FIRST)                                                              \
  inline int name(int a, int b, int c) {                                                      \
    const int low = (int16_t)a * (int8_t)(b >> FIRST);                                        \
    const int high = (int16_t)(a >> 16) * (int8_t)(b >> (FIRST + 8));                         \
    return (int)((unsigned)c + (unsigned)low + (unsigned)high);                               \
  }                                                                                           \
  inline unsigned name(unsigned a, unsigned b, unsigned c) {                                  \
    return c + (a & 0xffffu) * (b >> FIRST & 0xffu) + (a >> 16) * (b >> (FIRST + 8) & 0xffu); \
  }                                                                                           \
  inline int name(short2 a, char4 b, int c) {                                                 \
    return name(replay_rt::bits<int>(a), replay_rt::bits<int>(b), c);                         \
  }                                                                                           \
  inline unsigned name(ushort2 a, uchar4 b, unsigned c) {                                     \
    return name(replay_rt::bits<unsigned>(a), replay_rt::bits<unsigned>(b), c);               \
  }
REPLAY_DP2A(__dp2a_lo, 0)
REPLAY_DP2A(__dp2a_hi, 16)
#undef REPLAY_DP2A

// SIMD instructions on the bytes or halfwords of a word, one by one and modulo their width.
#define REPLAY_EACH(name, BITS, T, result)                                            \
  inline unsigned name(unsigned words_of_a, unsigned words_of_b) {                    \
    const unsigned mask = (1u << BITS) - 1;                                           \
    unsigned all = 0;                                                                 \
    for (int i = 0; i < 32; i += BITS) {                                              \
      const int a = T(words_of_a >> i & mask), b = T(words_of_b >> i & mask);         \
      all |= (unsigned(result) & mask) << i;                                          \
    }                                                                                 \
    return all;                                                                       \
  }
#define REPLAY_EACH_ALONE(name, BITS, T, result)                                      \
  inline unsigned name(unsigned words) {                                              \
    const unsigned mask = (1u << BITS) - 1;                                           \
    unsigned all = 0;                                                                 \
    for (int i = 0; i < 32; i += BITS) {                                              \
      const int a = T(words >> i & mask);                                             \
      all |= (unsigned(result) & mask) << i;                                          \
    }                                                                                 \
    return all;                                                                       \
  }
#define REPLAY_EACH_OF_THREE(name, BITS, T, result)                                   \
  inline unsigned name(unsigned words_of_a, unsigned words_of_b, unsigned words_of_c) { \
    const unsigned mask = (1u << BITS) - 1;                                           \
    unsigned all = 0;                                                                 \
    for (int i = 0; i < 32; i += BITS) {                                              \
      const int a = T(words_of_a >> i & mask), b = T(words_of_b >> i & mask);         \
      const int c = T(words_of_c >> i & mask);                                        \
      all |= (unsigned(result) & mask) << i;                                          \
    }                                                                                 \
    return all;                                                                       \
  }
namespace replay_rt {
/// The nearest value of `T`.
template <class T>
inline int saturated(int x) {
  const int lowest = T(-1) < T(0) ? -(1 << (8 * sizeof(T) - 1)) : 0;
  const int highest = lowest + (1 << 8 * sizeof(T)) - 1;
  return x < lowest ? lowest : x > highest ? highest : x;
}
template <class T>
inline T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
inline T smaller(T a, T b) {
  return a < b ? a : b;
}
}  // namespace replay_rt
#define REPLAY_EACH_OF_SIGN(name, s, WIDTH, BITS, T)                                       \
  REPLAY_EACH(name##max##s##WIDTH, BITS, T, a > b ? a : b)                                 \
  REPLAY_EACH(name##min##s##WIDTH, BITS, T, a < b ? a : b)                                 \
  REPLAY_EACH(name##absdiff##s##WIDTH, BITS, T, a > b ? a - b : b - a)                     \
  REPLAY_EACH(name##cmpgt##s##WIDTH, BITS, T, a > b ? ~0u : 0u)                            \
  REPLAY_EACH(name##cmpge##s##WIDTH, BITS, T, a >= b ? ~0u : 0u)                           \
  REPLAY_EACH(name##cmplt##s##WIDTH, BITS, T, a < b ? ~0u : 0u)                            \
  REPLAY_EACH(name##cmple##s##WIDTH, BITS, T, a <= b ? ~0u : 0u)                           \
  REPLAY_EACH(name##setgt##s##WIDTH, BITS, T, a > b)                                       \
  REPLAY_EACH(name##setge##s##WIDTH, BITS, T, a >= b)                                      \
  REPLAY_EACH(name##setlt##s##WIDTH, BITS, T, a < b)                                       \
  REPLAY_EACH(name##setle##s##WIDTH, BITS, T, a <= b)                                      \
  inline unsigned name##sad##s##WIDTH(unsigned words_of_a, unsigned words_of_b) {          \
    unsigned sum = 0;                                                                      \
    for (int i = 0; i < 32; i += BITS) {                                                   \
      const int a = T(words_of_a >> i), b = T(words_of_b >> i);                            \
      sum += (unsigned)(a > b ? a - b : b - a);                                            \
    }                                                                                      \
    return sum;                                                                            \
  }
#define REPLAY_EACH_OF_WIDTH(WIDTH, BITS, S, U)                                            \
  REPLAY_EACH(__vadd##WIDTH, BITS, U, a + b)                                               \
  REPLAY_EACH(__vsub##WIDTH, BITS, U, a - b)                                               \
  REPLAY_EACH(__vaddss##WIDTH, BITS, S, replay_rt::saturated<S>(a + b))                    \
  REPLAY_EACH(__vaddus##WIDTH, BITS, U, replay_rt::saturated<U>(a + b))                    \
  REPLAY_EACH(__vsubss##WIDTH, BITS, S, replay_rt::saturated<S>(a - b))                    \
  REPLAY_EACH(__vsubus##WIDTH, BITS, U, replay_rt::saturated<U>(a - b))                    \
  REPLAY_EACH_OF_SIGN(__v, s, WIDTH, BITS, S)                                              \
  REPLAY_EACH_OF_SIGN(__v, u, WIDTH, BITS, U)                                              \
  REPLAY_EACH(__vavgu##WIDTH, BITS, U, (a + b + 1) / 2)                                    \
  REPLAY_EACH(__vavgs##WIDTH, BITS, S, (a + b + (a + b >= 0)) >> 1)                        \
  REPLAY_EACH(__vhaddu##WIDTH, BITS, U, (a + b) / 2)                                       \
  REPLAY_EACH(__vcmpeq##WIDTH, BITS, U, a == b ? ~0u : 0u)                                 \
  REPLAY_EACH(__vcmpne##WIDTH, BITS, U, a != b ? ~0u : 0u)                                 \
  REPLAY_EACH(__vseteq##WIDTH, BITS, U, a == b)                                            \
  REPLAY_EACH(__vsetne##WIDTH, BITS, U, a != b)                                            \
  REPLAY_EACH_ALONE(__vabs##WIDTH, BITS, S, a < 0 ? -a : a)                                \
  REPLAY_EACH_ALONE(__vabsss##WIDTH, BITS, S, replay_rt::saturated<S>(a < 0 ? -a : a))     \
  REPLAY_EACH_ALONE(__vneg##WIDTH, BITS, S, -a)                                            \
  REPLAY_EACH_ALONE(__vnegss##WIDTH, BITS, S, replay_rt::saturated<S>(-a))
REPLAY_EACH_OF_WIDTH(4, 8, int8_t, uint8_t)
REPLAY_EACH_OF_WIDTH(2, 16, int16_t, uint16_t)
#undef REPLAY_EACH_OF_WIDTH
#undef REPLAY_EACH_OF_SIGN
#undef REPLAY_EACH_ALONE

// The larger or smaller one of a sum and a number, of three, and of two with whether it is the first; of words and of
// halfwords. A sum is modulo the width; `relu`: at least 0.
#define REPLAY_CHOICE_OF_SIGN(max, pick, ORDER, s, S, T16)                          \
  inline S __viadd##max##_##s##32(S a, S b, S c) {                                                    \
    return replay_rt::pick((S)((unsigned)a + (unsigned)b), c);                                        \
  }                                                                                                   \
  inline S __vi##max##3_##s##32(S a, S b, S c) { return replay_rt::pick(replay_rt::pick(a, b), c); }  \
  inline S __vib##max##_##s##32(S a, S b, bool* is_first) {                                           \
    *is_first = a ORDER b;                                                                            \
    return replay_rt::pick(a, b);                                                                     \
  }                                                                                                   \
  REPLAY_EACH_OF_THREE(__viadd##max##_##s##16x2, 16, T16, replay_rt::pick((int)T16(a + b), c))        \
  REPLAY_EACH_OF_THREE(__vi##max##3_##s##16x2, 16, T16, replay_rt::pick(replay_rt::pick(a, b), c))    \
  inline unsigned __vib##max##_##s##16x2(unsigned a, unsigned b, bool* is_high_first,                 \
                                         bool* is_low_first) {                                        \
    *is_high_first = T16(a >> 16) ORDER T16(b >> 16);                                                 \
    *is_low_first = T16(a) ORDER T16(b);                                                              \
    return (*is_high_first ? a : b) >> 16 << 16 | ((*is_low_first ? a : b) & 0xffffu);                \
  }
#define REPLAY_CHOICE(max, pick, ORDER)                                                               \
  REPLAY_CHOICE_OF_SIGN(max, pick, ORDER, s, int, int16_t)                                    \
  REPLAY_CHOICE_OF_SIGN(max, pick, ORDER, u, unsigned, uint16_t)                              \
  inline int __vi##max##_s32_relu(int a, int b) {                                                     \
    return replay_rt::larger(replay_rt::pick(a, b), 0);                                               \
  }                                                                                                   \
  inline int __viadd##max##_s32_relu(int a, int b, int c) {                                           \
    return replay_rt::larger(__viadd##max##_s32(a, b, c), 0);                                         \
  }                                                                                                   \
  inline int __vi##max##3_s32_relu(int a, int b, int c) {                                             \
    return replay_rt::larger(__vi##max##3_s32(a, b, c), 0);                                           \
  }                                                                                                   \
  REPLAY_EACH(__vi##max##_s16x2_relu, 16, int16_t, replay_rt::larger(replay_rt::pick(a, b), 0))       \
  inline unsigned __viadd##max##_s16x2_relu(unsigned a, unsigned b, unsigned c) {                     \
    return __vi##max##_s16x2_relu(__viadd##max##_s16x2(a, b, c), __viadd##max##_s16x2(a, b, c));      \
  }                                                                                                   \
  inline unsigned __vi##max##3_s16x2_relu(unsigned a, unsigned b, unsigned c) {                       \
    return __vi##max##_s16x2_relu(__vi##max##3_s16x2(a, b, c), __vi##max##3_s16x2(a, b, c));          \
  }
REPLAY_CHOICE(max, larger, >=)
REPLAY_CHOICE(min, smaller, <=)
#undef REPLAY_CHOICE
#undef REPLAY_CHOICE_OF_SIGN
#undef REPLAY_EACH_OF_THREE
#undef REPLAY_EACH
