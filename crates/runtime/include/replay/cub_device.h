// Algorithms over device memory. CUB: "DeviceReduce", "DeviceScan", "DeviceRadixSort",
// "DeviceSegmentedReduce". Each is kernels of one thread a block.
//
// A reduction takes tiles of 4096 items: item i belongs to thread i % 256 of its tile, and a thread combines its
// 16 items in their order; then come the threads of a tile as in BlockReduce, and the tiles in the same
// manner. Scans go from first to last. Sorts are stable.
#pragma once

#include <algorithm>

#include "replay/cub_keys.h"
#include "replay/cub_operators.h"
#include "replay/memory.h"

namespace cub {

template <class T> struct replay_bare { using type = T; };
template <class T> struct replay_bare<const T> { using type = T; };
template <class I>
using replay_item = typename replay_bare<typename replay_rt::plain<decltype(*static_cast<I*>(nullptr)[0])>::type>::type;

template <class T, class I, class Op>
void replay_reduce_tiles(I items, T* sums, long long count, Op op) {
  const long long begin = blockIdx.x * replay_tile;
  const long long end = count - begin < replay_tile ? count : begin + replay_tile;
  // Not stored from the call: checked builds of g++ do not see stores of returned classes.
  const T sum = replay_reduce_tile<T>(items, begin, end, op);
  sums[blockIdx.x] = sum;
}
/// The last step: the rest, and the initial value before it if there is one.
template <class T, class I, class O, class Op>
void replay_reduce_last(I items, O out, long long count, Op op, T initial, bool has_initial) {
  if (count == 0) {
    out[0] = initial;
    return;
  }
  T sum = replay_reduce_tile<T>(items, 0, count, op);
  if (has_initial) sum = op(initial, sum);
  out[0] = sum;
}

template <class... P>
inline cudaError_t replay_launch(void (*kernel)(P...), const char* name, unsigned blocks,
                                 cudaStream_t stream, replay_site site, P... arguments) {
  (void)&replay_rt::host_algorithm<void (*)(P...)>::known;
  replay_rt::library_kernel(kernel, name, site.file, site.line)
      .on(dim3(blocks), dim3(1), 0, stream)
      .run(arguments...);
  return replay_rt::as_error(replay_rt::abi->get_last_error(0));
}

/// Work without temporary memory, by one block.
template <class F>
void replay_run_work(F work) {
  work(blockIdx.x);
}
template <class F>
inline cudaError_t replay_device_work(void* temp, size_t& bytes, unsigned blocks, cudaStream_t stream, const char* name,
                                      replay_site site, F work) {
  if (temp == nullptr) return bytes = 1, cudaSuccess;
  if (blocks == 0) return cudaSuccess;
  return replay_launch(&replay_run_work<F>, name, blocks, stream, site, work);
}

template <class T, class I, class O, class Op>
inline cudaError_t replay_reduce(void* temp, size_t& bytes, I in, O out, long long count, Op op,
                                 T initial, bool has_initial, cudaStream_t stream, const char* name,
                                 replay_site site) {
  const long long tiles = (count + replay_tile - 1) / replay_tile;
  const long long more = (tiles + replay_tile - 1) / replay_tile;
  if (temp == nullptr) {
    bytes = (size_t)(tiles + more + 1) * sizeof(T);
    return cudaSuccess;
  }
  if (bytes < (size_t)(tiles + more + 1) * sizeof(T)) return cudaErrorInvalidValue;
  T *sums = static_cast<T*>(temp), *rest = sums + tiles;
  if (count <= replay_tile)
    return replay_launch(&replay_reduce_last<T, I, O, Op>, name, 1, stream, site, in, out, count,
                         op, initial, has_initial);
  replay_launch(&replay_reduce_tiles<T, I, Op>, name, (unsigned)tiles, stream, site, in, sums,
                count, op);
  if (tiles > replay_tile) {
    replay_launch(&replay_reduce_tiles<T, T*, Op>, name, (unsigned)more, stream, site, sums, rest,
                  tiles, op);
    return replay_launch(&replay_reduce_last<T, T*, O, Op>, name, 1, stream, site, rest, out, more,
                         op, initial, has_initial);
  }
  return replay_launch(&replay_reduce_last<T, T*, O, Op>, name, 1, stream, site, sums, out, tiles,
                       op, initial, has_initial);
}

/// An index and the item there.
template <class I, class T>
struct replay_indexed {
  I items;
  KeyValuePair<int, T> operator[](long long i) const { return {(int)i, items[i]}; }
};

struct DeviceReduce {
  template <class I, class O, class Op, class T>
  static cudaError_t Reduce(void* temp, size_t& bytes, I in, O out, long long count, Op op,
                            T initial, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_reduce<T>(temp, bytes, in, out, count, op, initial, true, stream,
                            "cub::DeviceReduce::Reduce", {file, line});
  }
#define REPLAY_DEVICE_REDUCE(name, T, in_expression, OP)                                         \
  template <class I, class O>                                                                    \
  static cudaError_t name(void* temp, size_t& bytes, I in, O out, long long count,               \
                          cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {                   \
    using item = replay_item<I>;                                                                 \
    return replay_reduce<T>(temp, bytes, in_expression, out, count, OP(), T(), false, stream,    \
                            "cub::DeviceReduce::" #name, {file, line});                          \
  }
  REPLAY_DEVICE_REDUCE(Sum, item, in, cub::Sum)
  REPLAY_DEVICE_REDUCE(Max, item, in, cub::Max)
  REPLAY_DEVICE_REDUCE(Min, item, in, cub::Min)
#undef REPLAY_DEVICE_REDUCE
  /// The sum of each run of equal keys, from its first item to its last.
  template <class K, class U, class V, class A, class N, class Op>
  static cudaError_t ReduceByKey(void* temp, size_t& bytes, K keys, U unique, V values, A sums, N run_count, Op op,
                                 long long count, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(temp, bytes, 1, stream, "cub::DeviceReduce::ReduceByKey", {file, line},
                              [=](unsigned) mutable {
                                long long runs = 0;
                                for (long long i = 0; i < count;) {
                                  replay_item<V> sum = values[i];
                                  const replay_item<K> key = keys[i];
                                  for (i++; i < count && keys[i] == key; i++) sum = op(sum, replay_item<V>(values[i]));
                                  unique[runs] = key;
                                  sums[runs++] = sum;
                                }
                                *run_count = runs;
                              });
  }
  template <class I, class O>
  static cudaError_t ArgMax(void* temp, size_t& bytes, I in, O out, long long count,
                            cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    using pair = KeyValuePair<int, replay_item<I>>;
    return replay_reduce<pair>(temp, bytes, replay_indexed<I, replay_item<I>>{in}, out, count,
                               cub::ArgMax(), pair(), false, stream, "cub::DeviceReduce::ArgMax",
                               {file, line});
  }
  template <class I, class O>
  static cudaError_t ArgMin(void* temp, size_t& bytes, I in, O out, long long count,
                            cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    using pair = KeyValuePair<int, replay_item<I>>;
    return replay_reduce<pair>(temp, bytes, replay_indexed<I, replay_item<I>>{in}, out, count,
                               cub::ArgMin(), pair(), false, stream, "cub::DeviceReduce::ArgMin",
                               {file, line});
  }
};

template <class I, class O, class B, class E, class Op, class T>
void replay_reduce_segment(I in, O out, B begins, E ends, Op op, T initial) {
  const long long begin = (long long)begins[blockIdx.x], end = (long long)ends[blockIdx.x];
  T sum = initial;
  if (begin < end) sum = op(initial, replay_reduce_tile<T>(in, begin, end, op));
  out[blockIdx.x] = sum;
}
struct DeviceSegmentedReduce {
  template <class I, class O, class B, class E, class Op, class T>
  static cudaError_t Reduce(void* temp, size_t& bytes, I in, O out, int segments, B begins, E ends,
                            Op op, T initial, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    if (temp == nullptr) return bytes = 1, cudaSuccess;
    if (segments == 0) return cudaSuccess;
    return replay_launch(&replay_reduce_segment<I, O, B, E, Op, T>,
                         "cub::DeviceSegmentedReduce::Reduce", (unsigned)segments, stream,
                         {file, line}, in, out, begins, ends, op, initial);
  }
  template <class I, class O, class B, class E>
  static cudaError_t Sum(void* temp, size_t& bytes, I in, O out, int segments, B begins, E ends,
                         cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return Reduce(temp, bytes, in, out, segments, begins, ends, cub::Sum(), replay_item<I>(0),
                  stream, file, line);
  }
};

template <class T, class I, class O, class Op>
void replay_scan_all(I in, O out, long long count, Op op, T initial, bool exclusive,
                     bool has_initial) {
  if (count == 0) return;
  T sum = has_initial ? initial : T(in[0]);
  for (long long i = has_initial ? 0 : 1; i < count; i++) {
    const T item = in[i];
    if (exclusive) out[i] = sum;
    if (i == 1 && !has_initial && !exclusive) out[0] = sum;
    sum = op(sum, item);
    if (!exclusive) out[i] = sum;
  }
  if (count == 1 && !has_initial) out[0] = sum;
}
struct DeviceScan {
  template <class I, class O, class Op>
  static cudaError_t InclusiveScan(void* temp, size_t& bytes, I in, O out, Op op, long long count,
                                   cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    using T = replay_item<I>;
    return scan<T>(temp, bytes, in, out, op, T(), false, false, count, stream,
                   "cub::DeviceScan::InclusiveScan", {file, line});
  }
  template <class I, class O, class Op, class T>
  static cudaError_t ExclusiveScan(void* temp, size_t& bytes, I in, O out, Op op, T initial,
                                   long long count, cudaStream_t stream = nullptr,
                                   REPLAY_SITE_PARAMS) {
    return scan<T>(temp, bytes, in, out, op, initial, true, true, count, stream,
                   "cub::DeviceScan::ExclusiveScan", {file, line});
  }
  template <class I, class O>
  static cudaError_t InclusiveSum(void* temp, size_t& bytes, I in, O out, long long count,
                                  cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    using T = replay_item<I>;
    return scan<T>(temp, bytes, in, out, cub::Sum(), T(), false, false, count, stream,
                   "cub::DeviceScan::InclusiveSum", {file, line});
  }
  template <class I, class O>
  static cudaError_t ExclusiveSum(void* temp, size_t& bytes, I in, O out, long long count,
                                  cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    using T = replay_item<I>;
    return scan<T>(temp, bytes, in, out, cub::Sum(), T(0), true, true, count, stream,
                   "cub::DeviceScan::ExclusiveSum", {file, line});
  }

 private:
  template <class T, class I, class O, class Op>
  static cudaError_t scan(void* temp, size_t& bytes, I in, O out, Op op, T initial, bool exclusive,
                          bool has_initial, long long count, cudaStream_t stream, const char* name,
                          replay_site site) {
    if (temp == nullptr) return bytes = 1, cudaSuccess;
    return replay_launch(&replay_scan_all<T, I, O, Op>, name, 1, stream, site, in, out, count, op,
                         initial, exclusive, has_initial);
  }
};

/// Sorts places 0 to `count` - 1 by bits `begin` to `end` of their keys, a byte at a time.
template <class K, class V>
void replay_sort_all(const K* keys, K* sorted, const V* values, V* moved, uint32_t* order,
                     long long count, bool descending, int begin, int end) {
  uint32_t* next = order + count;
  for (long long i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (int shift = begin; shift < end; shift += 8) {
    const int width = end - shift < 8 ? end - shift : 8;
    auto digit = [&](uint32_t at) {
      const uint32_t bits = (uint32_t)(replay_key<K>::of(keys[at]) >> shift) & ((1u << width) - 1);
      return descending ? ((1u << width) - 1) - bits : bits;
    };
    long long starts[257] = {};
    for (long long i = 0; i < count; i++) starts[digit(order[i]) + 1]++;
    for (int i = 0; i < 256; i++) starts[i + 1] += starts[i];
    for (long long i = 0; i < count; i++) next[starts[digit(order[i])]++] = order[i];
    uint32_t* swap = order;
    order = next, next = swap;
  }
  for (long long i = 0; i < count; i++) {
    sorted[i] = keys[order[i]];
    if (moved != nullptr) moved[i] = values[order[i]];
  }
}

template <class T>
struct DoubleBuffer {
  T* d_buffers[2] = {nullptr, nullptr};
  int selector = 0;
  DoubleBuffer() = default;
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() { return d_buffers[selector]; }
  T* Alternate() { return d_buffers[selector ^ 1]; }
};

struct DeviceRadixSort {
#define REPLAY_SORT(suffix, descending)                                                          \
  template <class K>                                                                             \
  static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, const K* in, K* out,            \
                                      long long count, int begin = 0, int end = sizeof(K) * 8,   \
                                      cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {       \
    return sort<K, char>(temp, bytes, in, out, nullptr, nullptr, count, descending, begin, end,  \
                         stream, "cub::DeviceRadixSort::SortKeys" #suffix, {file, line});        \
  }                                                                                              \
  template <class K, class V>                                                                    \
  static cudaError_t SortPairs##suffix(                                                          \
      void* temp, size_t& bytes, const K* in, K* out, const V* values, V* moved,                 \
      long long count, int begin = 0, int end = sizeof(K) * 8, cudaStream_t stream = nullptr,    \
      REPLAY_SITE_PARAMS) {                                                                      \
    return sort<K, V>(temp, bytes, in, out, values, moved, count, descending, begin, end,        \
                      stream, "cub::DeviceRadixSort::SortPairs" #suffix, {file, line});          \
  }                                                                                              \
  template <class K>                                                                             \
  static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, DoubleBuffer<K>& keys,          \
                                      long long count, int begin = 0, int end = sizeof(K) * 8,   \
                                      cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {       \
    cudaError_t error = SortKeys##suffix(temp, bytes, keys.Current(), keys.Alternate(), count,   \
                                         begin, end, stream, file, line);                        \
    if (temp != nullptr) keys.selector ^= 1;                                                     \
    return error;                                                                                \
  }                                                                                              \
  template <class K, class V>                                                                    \
  static cudaError_t SortPairs##suffix(                                                          \
      void* temp, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values,                 \
      long long count, int begin = 0, int end = sizeof(K) * 8, cudaStream_t stream = nullptr,    \
      REPLAY_SITE_PARAMS) {                                                                      \
    cudaError_t error =                                                                          \
        SortPairs##suffix(temp, bytes, keys.Current(), keys.Alternate(), values.Current(),       \
                          values.Alternate(), count, begin, end, stream, file, line);            \
    if (temp != nullptr) keys.selector ^= 1, values.selector ^= 1;                               \
    return error;                                                                                \
  }
  REPLAY_SORT(, false)
  REPLAY_SORT(Descending, true)
#undef REPLAY_SORT

 private:
  template <class K, class V>
  static cudaError_t sort(void* temp, size_t& bytes, const K* in, K* out, const V* values, V* moved,
                          long long count, bool descending, int begin, int end,
                          cudaStream_t stream, const char* name, replay_site site) {
    const size_t needed = (size_t)count * 2 * sizeof(uint32_t) + 1;
    if (temp == nullptr) return bytes = needed, cudaSuccess;
    if (bytes < needed || begin < 0 || end > (int)sizeof(K) * 8 || begin > end)
      return cudaErrorInvalidValue;
    end = replay_key_end<K>(begin, end);
    if (count == 0) return cudaSuccess;
    return replay_launch(&replay_sort_all<K, V>, name, 1, stream, site, in, out, values, moved,
                         static_cast<uint32_t*>(temp), count, descending, begin, end);
  }
};

}  // namespace cub
