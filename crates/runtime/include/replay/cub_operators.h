// The operators of CUB's reductions and scans. CUB: "Thread and thread block operators".
#pragma once

#include "replay/launch.h"

namespace cub {

struct Sum {
  template <class T> T operator()(const T& a, const T& b) const { return a + b; }
};
struct Difference {
  template <class T> T operator()(const T& a, const T& b) const { return a - b; }
};
struct Max {
  template <class T> T operator()(const T& a, const T& b) const { return b > a ? b : a; }
};
struct Min {
  template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
struct Equality {
  template <class T> bool operator()(const T& a, const T& b) const { return a == b; }
};
struct Inequality {
  template <class T> bool operator()(const T& a, const T& b) const { return a != b; }
};

template <class Key_, class Value_>
struct KeyValuePair {
  using Key = Key_;
  using Value = Value_;
  Key key;
  Value value;
  KeyValuePair() = default;
  KeyValuePair(const Key& key, const Value& value) : key(key), value(value) {}
  bool operator!=(const KeyValuePair& other) const {
    return key != other.key || value != other.value;
  }
};
/// The larger value, of equal ones the one with the smaller key; and the same for the smaller value.
struct ArgMax {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

/// Combines `count` values: neighbours first, then neighbours of those, as a warp does by shuffles at
/// distances of 1, 2, 4, 8 and 16.
template <class T, class Op>
inline T replay_tree(T* values, int count, Op& op) {
  for (int distance = 1; distance < count; distance *= 2)
    for (int i = 0; i + distance < count; i += 2 * distance)
      values[i] = op(values[i], values[i + distance]);
  return values[0];
}
/// The same for each 32 values, and those of the warps in their order.
template <class T, class Op>
inline T replay_block_tree(T* values, int count, Op& op) {
  T result = replay_tree(values, count < 32 ? count : 32, op);
  for (int first = 32; first < count; first += 32)
    result = op(result, replay_tree(values + first, count - first < 32 ? count - first : 32, op));
  return result;
}

constexpr int replay_tile_threads = 256;
constexpr long long replay_tile = 4096;

/// Items `begin` to `end`, at least one.
template <class T, class I, class Op>
inline T replay_reduce_tile(I items, long long begin, long long end, Op& op) {
  T sums[replay_tile_threads];
  const int threads = end - begin < replay_tile_threads ? (int)(end - begin) : replay_tile_threads;
  for (int t = 0; t < threads; t++) {
    sums[t] = items[begin + t];
    for (long long i = begin + t + replay_tile_threads; i < end; i += replay_tile_threads)
      sums[t] = op(sums[t], T(items[i]));
  }
  return replay_block_tree(sums, threads, op);
}

/// All `count` items, at least one: tiles, and those in pairs of neighbours.
template <class T, class I, class Op>
inline T replay_reduce_pairs(I items, long long count, Op& op) {
  T open[48];
  int used = 0;
  long long tiles = 0;
  for (long long begin = 0; begin < count; begin += replay_tile) {
    const long long end = count - begin < replay_tile ? count : begin + replay_tile;
    T sum = replay_reduce_tile<T>(items, begin, end, op);
    for (long long n = ++tiles; n % 2 == 0; n /= 2) sum = op(open[--used], sum);
    open[used++] = sum;
  }
  T result = open[--used];
  while (used > 0) result = op(open[--used], result);
  return result;
}

}  // namespace cub
