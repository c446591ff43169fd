// Warp shuffles, votes, matches and reductions.
// CUDA C++ Programming Guide: "Warp Shuffle Functions", "Warp Vote Functions", "Warp Match
// Functions", "Warp Reduce Functions", "Synchronization Functions" (__syncwarp).
#pragma once

#include "replay/number_bits.h"
#include "replay/thread.h"

namespace replay_rt {

/// The value from lane `source` of the warp, in as many words as `T` needs.
template <class T>
inline T shuffle(uint32_t mask, T value, uint32_t source, const char* file, uint32_t line) {
  constexpr size_t words = (sizeof(T) + 7) / 8;
  uint64_t buffer[words] = {};
  __builtin_memcpy(buffer, &value, sizeof(T));
  for (size_t i = 0; i < words; i++)
    buffer[i] = warp_collective(REPLAY_WARP_SHUFFLE, mask, buffer[i], source, file, line);
  __builtin_memcpy(&value, buffer, sizeof(T));
  return value;
}

// The lane read by a shuffle of `lane`. `width` is a power of two up to 32; a segment is `width` lanes.
inline uint32_t shuffle_indexed(uint32_t lane, int from, int width) {
  return (lane & ~(uint32_t)(width - 1)) | ((uint32_t)from & (uint32_t)(width - 1));
}
inline uint32_t shuffle_up(uint32_t lane, unsigned delta, int width) {
  uint32_t offset = lane & (uint32_t)(width - 1);
  return delta > offset ? lane : lane - delta;
}
inline uint32_t shuffle_down(uint32_t lane, unsigned delta, int width) {
  uint32_t offset = lane & (uint32_t)(width - 1);
  return delta >= (uint32_t)width - offset ? lane : lane + delta;
}
/// Earlier segments can be read, later ones give the lane's own value.
inline uint32_t shuffle_xor(uint32_t lane, int lane_mask, int width) {
  uint32_t source = lane ^ (uint32_t)lane_mask;
  uint32_t last = lane | (uint32_t)(width - 1);
  return source > last ? lane : source;
}

}  // namespace replay_rt

/// The four shuffles of one type.
#define REPLAY_SHUFFLES(T)                                                                        \
  inline T __shfl_sync(unsigned mask, T var, int source, int width = 32, REPLAY_SITE_PARAMS) {    \
    return replay_rt::shuffle(mask, var, replay_rt::shuffle_indexed(replay_rt::lane(), source, width), \
                              file, line);                                                        \
  }                                                                                               \
  inline T __shfl_up_sync(unsigned mask, T var, unsigned delta, int width = 32,                   \
                          REPLAY_SITE_PARAMS) {                                                   \
    return replay_rt::shuffle(mask, var, replay_rt::shuffle_up(replay_rt::lane(), delta, width),  \
                              file, line);                                                        \
  }                                                                                               \
  inline T __shfl_down_sync(unsigned mask, T var, unsigned delta, int width = 32,                 \
                            REPLAY_SITE_PARAMS) {                                                 \
    return replay_rt::shuffle(mask, var, replay_rt::shuffle_down(replay_rt::lane(), delta, width), \
                              file, line);                                                        \
  }                                                                                               \
  inline T __shfl_xor_sync(unsigned mask, T var, int lane_mask, int width = 32,                   \
                           REPLAY_SITE_PARAMS) {                                                  \
    return replay_rt::shuffle(mask, var, replay_rt::shuffle_xor(replay_rt::lane(), lane_mask, width), \
                              file, line);                                                        \
  }
REPLAY_SHUFFLES(int)
REPLAY_SHUFFLES(unsigned)
REPLAY_SHUFFLES(long)
REPLAY_SHUFFLES(unsigned long)
REPLAY_SHUFFLES(long long)
REPLAY_SHUFFLES(unsigned long long)
REPLAY_SHUFFLES(double)
#ifdef REPLAY_SHADOW
REPLAY_SHUFFLES(replay_rt::number_bits<int>)
REPLAY_SHUFFLES(replay_rt::number_bits<unsigned>)
#else
REPLAY_SHUFFLES(float)
#endif

inline void __syncwarp(unsigned mask = 0xffffffffu, REPLAY_SITE_PARAMS) {
  replay_rt::warp_collective(REPLAY_WARP_SYNC, mask, 0, 0, file, line);
}
inline unsigned __activemask() { return replay_rt::abi->active_mask(); }

inline unsigned __ballot_sync(unsigned mask, int predicate, REPLAY_SITE_PARAMS) {
  return (unsigned)replay_rt::warp_collective(REPLAY_WARP_BALLOT, mask, predicate != 0, 0, file,
                                              line);
}
inline int __any_sync(unsigned mask, int predicate, REPLAY_SITE_PARAMS) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, REPLAY_SITE_PARAMS) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}

/// Values are compared by their bits.
#define REPLAY_MATCH(T)                                                                           \
  inline unsigned __match_any_sync(unsigned mask, T value, REPLAY_SITE_PARAMS) {                  \
    uint64_t word = 0;                                                                            \
    __builtin_memcpy(&word, &value, sizeof value);                                                \
    return (unsigned)replay_rt::warp_collective(REPLAY_WARP_MATCH_ANY, mask, word, 0, file, line); \
  }                                                                                               \
  inline unsigned __match_all_sync(unsigned mask, T value, int* predicate, REPLAY_SITE_PARAMS) {  \
    uint64_t word = 0;                                                                            \
    __builtin_memcpy(&word, &value, sizeof value);                                                \
    unsigned lanes =                                                                              \
        (unsigned)replay_rt::warp_collective(REPLAY_WARP_MATCH_ALL, mask, word, 0, file, line);   \
    *predicate = lanes != 0;                                                                      \
    return lanes;                                                                                 \
  }
REPLAY_MATCH(int)
REPLAY_MATCH(unsigned)
REPLAY_MATCH(long)
REPLAY_MATCH(unsigned long)
REPLAY_MATCH(long long)
REPLAY_MATCH(unsigned long long)
REPLAY_MATCH(double)
#ifndef REPLAY_SHADOW
REPLAY_MATCH(float)
#endif
#undef REPLAY_MATCH

#define REPLAY_REDUCE(T, name, OP)                                                              \
  inline T __reduce_##name##_sync(unsigned mask, T value, REPLAY_SITE_PARAMS) {                 \
    return (T)(uint32_t)replay_rt::warp_collective(OP, mask, (uint32_t)value, 0, file, line);   \
  }
REPLAY_REDUCE(unsigned, add, REPLAY_WARP_REDUCE_ADD)
REPLAY_REDUCE(int, add, REPLAY_WARP_REDUCE_ADD)
REPLAY_REDUCE(unsigned, min, REPLAY_WARP_REDUCE_MIN_U)
REPLAY_REDUCE(int, min, REPLAY_WARP_REDUCE_MIN_S)
REPLAY_REDUCE(unsigned, max, REPLAY_WARP_REDUCE_MAX_U)
REPLAY_REDUCE(int, max, REPLAY_WARP_REDUCE_MAX_S)
REPLAY_REDUCE(unsigned, and, REPLAY_WARP_REDUCE_AND)
REPLAY_REDUCE(unsigned, or, REPLAY_WARP_REDUCE_OR)
REPLAY_REDUCE(unsigned, xor, REPLAY_WARP_REDUCE_XOR)
#undef REPLAY_REDUCE

// The forms without a mask were removed with compute capability 7.0.
#define REPLAY_REMOVED(name)                                                                    \
  template <class... T>                                                                         \
  int name(T...) REPLAY_UNSUPPORTED(#name ": removed from CUDA, use " #name "_sync");
REPLAY_REMOVED(__shfl)
REPLAY_REMOVED(__shfl_up)
REPLAY_REMOVED(__shfl_down)
REPLAY_REMOVED(__shfl_xor)
REPLAY_REMOVED(__any)
REPLAY_REMOVED(__all)
REPLAY_REMOVED(__ballot)
#undef REPLAY_REMOVED
