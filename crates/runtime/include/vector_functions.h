// `make_int2` and its family. CUDA C++ Programming Guide: "Built-in Vector Types".
#pragma once

#include "vector_types.h"

#define REPLAY_MAKE_VECTOR(NAME, TYPE)                                                      \
  inline constexpr NAME##1 make_##NAME##1(TYPE x) { return {x}; }                           \
  inline constexpr NAME##2 make_##NAME##2(TYPE x, TYPE y) { return {x, y}; }                \
  inline constexpr NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) { return {x, y, z}; }     \
  inline constexpr NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { return {x, y, z, w}; }

REPLAY_MAKE_VECTOR(char, signed char)
REPLAY_MAKE_VECTOR(uchar, unsigned char)
REPLAY_MAKE_VECTOR(short, short)
REPLAY_MAKE_VECTOR(ushort, unsigned short)
REPLAY_MAKE_VECTOR(int, int)
REPLAY_MAKE_VECTOR(uint, unsigned int)
REPLAY_MAKE_VECTOR(long, long)
REPLAY_MAKE_VECTOR(ulong, unsigned long)
REPLAY_MAKE_VECTOR(longlong, long long)
REPLAY_MAKE_VECTOR(ulonglong, unsigned long long)
REPLAY_MAKE_VECTOR(float, replay_rt::real)
REPLAY_MAKE_VECTOR(double, double)

#undef REPLAY_MAKE_VECTOR
