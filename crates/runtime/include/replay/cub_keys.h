// The keys of radix sorts, as numbers whose bits are sorted. CUB: "DeviceRadixSort".
#pragma once

#include "replay/launch.h"
#include "replay/real.h"

namespace cub {

/// The bits of a key as an unsigned number in the order of keys.
template <class K> struct replay_key {
  static uint64_t of(K key) {
    const uint64_t sign = K(-1) < K(1) ? 1ull << (8 * sizeof(K) - 1) : 0;
    const uint64_t all = sizeof(K) == 8 ? ~0ull : (1ull << 8 * sizeof(K) % 64) - 1;
    return ((uint64_t)key & all) ^ sign;
  }
};
inline uint64_t replay_float_key(uint64_t bits, uint64_t sign) {
  if (bits == sign) bits = 0;  // -0 is 0
  return bits & sign ? ~bits & (sign | (sign - 1)) : bits | sign;
}
template <> struct replay_key<float> {
  static uint64_t of(float key) {
    return replay_float_key(replay_rt::bits<uint32_t>(key), 1ull << 31);
  }
};
template <> struct replay_key<double> {
  static uint64_t of(double key) {
    return replay_float_key(replay_rt::bits<uint64_t>(key), 1ull << 63);
  }
};

/// The bit behind the last one to sort by, where `begin` and `end` are named for the key's own type.
template <class K>
inline int replay_key_end(int, int end) { return end; }
#ifdef REPLAY_SHADOW
/// All bits of a float's key are all bits of a double.
template <>
inline int replay_key_end<double>(int begin, int end) { return begin == 0 && end == 32 ? 64 : end; }
#endif

}  // namespace cub
