// The built-in vector types.
// CUDA C++ Programming Guide: "Built-in Vector Types"; alignments as in its table (vectors of two
// and four are aligned to their size, up to 16 bytes).
#pragma once

#include "replay/real.h"

// One family: NAME1 to NAME4 with members of type TYPE, vectors of 2 and 4 aligned to A2 and A4.
#define REPLAY_VECTOR_TYPES(NAME, TYPE, A2, A4) \
  struct NAME##1 {                              \
    TYPE x;                                     \
  };                                            \
  struct alignas(A2) NAME##2 {                  \
    TYPE x, y;                                  \
  };                                            \
  struct NAME##3 {                              \
    TYPE x, y, z;                               \
  };                                            \
  struct alignas(A4) NAME##4 {                  \
    TYPE x, y, z, w;                            \
  };

REPLAY_VECTOR_TYPES(char, signed char, 2, 4)
REPLAY_VECTOR_TYPES(uchar, unsigned char, 2, 4)
REPLAY_VECTOR_TYPES(short, short, 4, 8)
REPLAY_VECTOR_TYPES(ushort, unsigned short, 4, 8)
REPLAY_VECTOR_TYPES(int, int, 8, 16)
REPLAY_VECTOR_TYPES(uint, unsigned int, 8, 16)
REPLAY_VECTOR_TYPES(long, long, 16, 16)
REPLAY_VECTOR_TYPES(ulong, unsigned long, 16, 16)
REPLAY_VECTOR_TYPES(longlong, long long, 16, 16)
REPLAY_VECTOR_TYPES(ulonglong, unsigned long long, 16, 16)
REPLAY_VECTOR_TYPES(float, replay_rt::real, 2 * sizeof(replay_rt::real), 16)
REPLAY_VECTOR_TYPES(double, double, 16, 16)

#undef REPLAY_VECTOR_TYPES

#ifdef REPLAY_SHADOW
namespace replay_rt {
template <> inline constexpr size_t source_bytes<float1> = 4;
template <> inline constexpr size_t source_bytes<float2> = 8;
template <> inline constexpr size_t source_bytes<float3> = 12;
template <> inline constexpr size_t source_bytes<float4> = 16;
}  // namespace replay_rt
#endif

/// Grid and block dimensions, 1 unless given. Programming Guide: "dim3".
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
