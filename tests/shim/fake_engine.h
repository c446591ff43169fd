// A stand-in for the engine: one thread of one block, a warp whose other lanes are played back,
// and mathematics that only shows which entry of the table was called.
// Included first by every test program; `check` counts, `finish` reports.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/abi.h"
#include "replay/atomics.h"
#include "replay/capture.h"
#include "replay/math.h"
#include "replay/memory_hints.h"
#include "replay/print.h"
#include "replay/thread.h"
#include "replay/warp.h"
#include "vector_functions.h"

static int failures = 0;
#define check(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      failures++;                                                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
    }                                                                         \
  } while (0)

inline uint32_t bits_of(float x) { return replay_rt::bits<uint32_t>(x); }
inline uint64_t bits_of(double x) { return replay_rt::bits<uint64_t>(x); }

namespace fake {

inline replay_abi table = {};
inline char printed[4096];
inline uint32_t turns = 0;

// The value that each lane passes to a collective; the lane under test is replay_rt::lane().
inline uint64_t lanes[32];
inline uint32_t last_mask = 0;

inline uint64_t collective(uint32_t op, uint32_t mask, uint64_t value, uint32_t argument,
                           replay_site) {
  last_mask = mask;
  lanes[replay_rt::lane()] = value;
  uint64_t result = 0;
  switch (op) {
    case REPLAY_WARP_SYNC: return 0;
    case REPLAY_WARP_SHUFFLE: return lanes[argument];
    case REPLAY_WARP_BALLOT:
      for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && lanes[i]) result |= 1u << i;
      return result;
    case REPLAY_WARP_MATCH_ANY:
      for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && lanes[i] == value) result |= 1u << i;
      return result;
    case REPLAY_WARP_MATCH_ALL:
      for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && lanes[i] != value) return 0;
      return mask;
    case REPLAY_WARP_REDUCE_ADD:
      for (int i = 0; i < 32; i++)
        if (mask >> i & 1) result += lanes[i];
      return (uint32_t)result;
    default: abort();
  }
}

// Numbers only this engine knows: a test sees whether a call came through the table.
inline float one_f(uint32_t function, float x) { return 1000.0f * function + x; }
inline double one_d(uint32_t function, double x) { return 2000.0 * function + x; }
inline float two_f(uint32_t function, float x, float y) { return 1000.0f * function + x + 2 * y; }
inline double two_d(uint32_t function, double x, double y) { return 2000.0 * function + x + 2 * y; }
inline float three_f(float x, float y, float z) { return x * y + z + 0.5f; }
inline double three_d(double x, double y, double z) { return x * y + z + 0.5; }

inline void print(const char* text, size_t bytes) { strncat(printed, text, bytes); }
__attribute__((noreturn)) inline void abort_device(const char* why, replay_site site) {
  fprintf(stderr, "aborted: %s at line %u\n", why, site.line);
  exit(failures == 0 ? 0 : 1);
}

inline void start() {
  table.warp_collective = collective;
  // No two lanes come with the same chain: each does it shuffle by shuffle.
  table.warp_fold = [](uint32_t mask, uint64_t value, uint32_t argument, uint64_t, replay_fold*,
                       replay_site site) {
    return replay_folded{collective(REPLAY_WARP_SHUFFLE, mask, value, argument, site), 0};
  };
  table.active_mask = [] { return 0xffffffffu; };
  table.atomic_turn = [] { turns++; };
  table.barrier = [](uint32_t, uint32_t predicate, replay_site) { return predicate; };
  table.device_print = print;
  table.device_abort = abort_device;
  table.math_f1 = one_f;
  table.math_d1 = one_d;
  table.math_f2 = two_f;
  table.math_d2 = two_d;
  table.math_f3 = three_f;
  table.math_d3 = three_d;
  replay_rt::abi = &table;
}

}  // namespace fake

namespace replay_rt {
const replay_abi* abi;
int rounding = 0;
int integer_rounding = 0;
REPLAY_TLS block_state block;
stream_capture* capture;
}  // namespace replay_rt
REPLAY_TLS uint3 threadIdx;
REPLAY_TLS uint3 blockIdx;
REPLAY_TLS dim3 blockDim;
REPLAY_TLS dim3 gridDim;

inline int finish() {
  if (failures) fprintf(stderr, "%d checks failed\n", failures);
  return failures ? 1 : 0;
}
