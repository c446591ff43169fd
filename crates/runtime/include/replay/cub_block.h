// Collectives of a block and of a warp. CUB: "BlockReduce", "BlockScan", "BlockLoad", "BlockStore",
// "WarpReduce", "WarpScan".
//
// Orders are those of CUB's default algorithms, whatever algorithm is named. A thread combines its own
// items from first to last. A reduction combines the lanes of a warp at distances of 1, 2, 4, 8 and 16,
// then the warps in their order. A scan combines threads in their order.
#pragma once

#include <algorithm>

#include "replay/cub_operators.h"
#include "replay/warp.h"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

/// The storage of a collective: its users' shared variable, or its own.
template <class Storage>
struct replay_storage {
  Storage* storage;
  replay_storage() {
    static replay_rt::shared_slot slot;
    storage = &slot.template get<Storage>(0, "TempStorage");
  }
  explicit replay_storage(Storage& given) : storage(&given) {}
};
/// Memory for values before their construction.
template <class T, int Count>
struct replay_values {
  alignas(T) unsigned char bytes[sizeof(T) * Count];
  T* get() { return reinterpret_cast<T*>(bytes); }
};

/// Own items from first to last.
template <class T, int Items, class Op>
inline T replay_thread_reduce(T (&items)[Items], Op& op) {
  T result = items[0];
  for (int i = 1; i < Items; i++) result = op(result, items[i]);
  return result;
}

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1,
          int = 0>
class BlockReduce {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage {
    replay_values<T, threads> values;
  };
  BlockReduce() {}
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  /// The result counts in thread 0 alone.
  template <class Op>
  T Reduce(T input, Op op, REPLAY_SITE_PARAMS) {
    return reduce(input, op, threads, file, line);
  }
  template <class Op>
  T Reduce(T input, Op op, int valid, REPLAY_SITE_PARAMS) {
    return reduce(input, op, valid < threads ? valid : threads, file, line);
  }
  template <int Items, class Op>
  T Reduce(T (&inputs)[Items], Op op, REPLAY_SITE_PARAMS) {
    return reduce(replay_thread_reduce(inputs, op), op, threads, file, line);
  }
  T Sum(T input, REPLAY_SITE_PARAMS) { return Reduce(input, cub::Sum(), file, line); }
  T Sum(T input, int valid, REPLAY_SITE_PARAMS) {
    return Reduce(input, cub::Sum(), valid, file, line);
  }
  template <int Items>
  T Sum(T (&inputs)[Items], REPLAY_SITE_PARAMS) {
    return Reduce(inputs, cub::Sum(), file, line);
  }

 private:
  template <class Op>
  T reduce(const T& input, Op& op, int valid, const char* file, uint32_t line) {
    const int rank = (int)replay_rt::block.linear_thread;
    T* values = storage_.storage->values.get();
    new (values + rank) T(input);
    __syncthreads(file, line);
    if (rank != 0 || valid < 1) return input;
    return replay_block_tree(values, valid, op);
  }
  replay_storage<TempStorage> storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan {
  static constexpr int threads = X * Y * Z;
  /// Not a first value.
  template <class Op>
  using is_operation = std::enable_if_t<!std::is_convertible<Op, T>::value>;

 public:
  /// The value of each thread, the combination before it, and the combination of all.
  struct TempStorage {
    replay_values<T, threads> values, before;
    replay_values<T, 1> all;
  };
  BlockScan() {}
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

#define REPLAY_SCAN_SUMS(name, first)                                                             \
  void name##Sum(T input, T& output, REPLAY_SITE_PARAMS) {                                        \
    T inputs[1] = {input}, outputs[1];                                                            \
    scan(inputs, outputs, first, cub::Sum(), file, line);                                         \
    output = outputs[0];                                                                          \
  }                                                                                               \
  void name##Sum(T input, T& output, T& aggregate, REPLAY_SITE_PARAMS) {                          \
    T inputs[1] = {input}, outputs[1];                                                            \
    aggregate = scan(inputs, outputs, first, cub::Sum(), file, line);                             \
    output = outputs[0];                                                                          \
  }                                                                                               \
  template <int Items>                                                                            \
  void name##Sum(T (&inputs)[Items], T (&outputs)[Items], REPLAY_SITE_PARAMS) {                   \
    scan(inputs, outputs, first, cub::Sum(), file, line);                                         \
  }                                                                                               \
  template <int Items>                                                                            \
  void name##Sum(T (&inputs)[Items], T (&outputs)[Items], T& aggregate, REPLAY_SITE_PARAMS) {     \
    aggregate = scan(inputs, outputs, first, cub::Sum(), file, line);                             \
  }
  REPLAY_SCAN_SUMS(Inclusive, inclusive())
  REPLAY_SCAN_SUMS(Exclusive, exclusive{T(0)})
#undef REPLAY_SCAN_SUMS

  /// The first warp calls `before` with the combination of all; what its first thread gets comes before the block's items.
#define REPLAY_PREFIXED_SCANS(name, is_inclusive)                                                 \
  template <class Before>                                                                         \
  void name##Sum(T input, T& output, Before& before, REPLAY_SITE_PARAMS) {                        \
    name##Scan(input, output, cub::Sum(), before, file, line);                                    \
  }                                                                                               \
  template <int Items, class Before>                                                              \
  void name##Sum(T (&inputs)[Items], T (&outputs)[Items], Before& before, REPLAY_SITE_PARAMS) {   \
    prefixed_scan<is_inclusive>(inputs, outputs, cub::Sum(), before, file, line);                 \
  }                                                                                               \
  template <class Op, class Before, class = is_operation<Op>>                                     \
  void name##Scan(T input, T& output, Op op, Before& before, REPLAY_SITE_PARAMS) {                \
    T inputs[1] = {input}, outputs[1];                                                            \
    prefixed_scan<is_inclusive>(inputs, outputs, op, before, file, line);                         \
    output = outputs[0];                                                                          \
  }                                                                                               \
  template <int Items, class Op, class Before, class = is_operation<Op>>                          \
  void name##Scan(T (&inputs)[Items], T (&outputs)[Items], Op op, Before& before,                 \
                  REPLAY_SITE_PARAMS) {                                                           \
    prefixed_scan<is_inclusive>(inputs, outputs, op, before, file, line);                         \
  }
  REPLAY_PREFIXED_SCANS(Inclusive, true)
  REPLAY_PREFIXED_SCANS(Exclusive, false)
#undef REPLAY_PREFIXED_SCANS

  template <class Op>
  void InclusiveScan(T input, T& output, Op op, REPLAY_SITE_PARAMS) {
    T inputs[1] = {input}, outputs[1];
    scan(inputs, outputs, inclusive(), op, file, line);
    output = outputs[0];
  }
  template <class Op>
  void InclusiveScan(T input, T& output, Op op, T& aggregate, REPLAY_SITE_PARAMS) {
    T inputs[1] = {input}, outputs[1];
    aggregate = scan(inputs, outputs, inclusive(), op, file, line);
    output = outputs[0];
  }
  template <int Items, class Op>
  void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Op op, REPLAY_SITE_PARAMS) {
    scan(inputs, outputs, inclusive(), op, file, line);
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, REPLAY_SITE_PARAMS) {
    T inputs[1] = {input}, outputs[1];
    scan(inputs, outputs, exclusive{initial}, op, file, line);
    output = outputs[0];
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate, REPLAY_SITE_PARAMS) {
    T inputs[1] = {input}, outputs[1];
    aggregate = scan(inputs, outputs, exclusive{initial}, op, file, line);
    output = outputs[0];
  }
  template <int Items, class Op>
  void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], T initial, Op op, REPLAY_SITE_PARAMS) {
    scan(inputs, outputs, exclusive{initial}, op, file, line);
  }

 private:
  struct inclusive {
    static constexpr bool has_initial = false;
    T initial = T();
  };
  struct exclusive {
    T initial;
    static constexpr bool has_initial = true;
  };

  template <int Items, class First, class Op>
  T scan(T (&inputs)[Items], T (&outputs)[Items], const First& first, Op op, const char* file,
         uint32_t line) {
    const int rank = (int)replay_rt::block.linear_thread;
    TempStorage& storage = *storage_.storage;
    T *values = storage.values.get(), *before = storage.before.get();
    new (values + rank) T(replay_thread_reduce(inputs, op));
    __syncthreads(file, line);
    if (rank == 0) {
      T all = values[0];
      T prefix = First::has_initial ? first.initial : values[0];
      new (before) T(prefix);
      if (First::has_initial) prefix = op(prefix, values[0]);
      for (int i = 1; i < threads; i++) {
        new (before + i) T(prefix);
        prefix = op(prefix, values[i]);
        all = op(all, values[i]);
      }
      new (storage.all.get()) T(all);
    }
    __syncthreads(file, line);
    scan_items<!First::has_initial>(inputs, outputs, op, before[rank], !First::has_initial && rank == 0);
    return *storage.all.get();
  }

  template <bool IsInclusive, int Items, class Op, class Before>
  void prefixed_scan(T (&inputs)[Items], T (&outputs)[Items], Op op, Before& before_block,
                     const char* file, uint32_t line) {
    const int rank = (int)replay_rt::block.linear_thread;
    TempStorage& storage = *storage_.storage;
    T *values = storage.values.get(), *before = storage.before.get();
    new (values + rank) T(replay_thread_reduce(inputs, op));
    __syncthreads(file, line);
    if (rank == 0) {
      T all = values[0];
      for (int i = 1; i < threads; i++) all = op(all, values[i]);
      new (storage.all.get()) T(all);
    }
    __syncthreads(file, line);
    if (rank < 32) {
      T prefix = before_block(*storage.all.get());
      for (int i = 0; rank == 0 && i < threads; i++) {
        new (before + i) T(prefix);
        prefix = op(prefix, values[i]);
      }
    }
    __syncthreads(file, line);
    scan_items<IsInclusive>(inputs, outputs, op, before[rank], false);
  }

  /// The items of a thread behind `prefix`, which counts unless the first of them `begins` the scan.
  template <bool IsInclusive, int Items, class Op>
  static void scan_items(T (&inputs)[Items], T (&outputs)[Items], Op op, T prefix, bool begins) {
    for (int i = 0; i < Items; i++) {
      const T next = begins && i == 0 ? inputs[0] : op(prefix, inputs[i]);
      outputs[i] = IsInclusive ? next : prefix;
      prefix = next;
    }
  }
  replay_storage<TempStorage> storage_;
};

/// Memory in which items are exchanged begins at a multiple of 16, as CUB's does: kernels place what follows by its size.
/// The algorithms from the first transpose on exchange them.
constexpr size_t replay_exchange_alignment = 16;

/// A thread's items lie next to each other, or `threads` apart in a striped arrangement.
template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1,
          int Z = 1, int = 0>
class BlockLoad {
 public:
  struct alignas(Algorithm >= BLOCK_LOAD_TRANSPOSE ? replay_exchange_alignment : 1) TempStorage {};
  BlockLoad() {}
  explicit BlockLoad(TempStorage&) {}
  template <class From>
  void Load(From from, T (&items)[Items]) {
    for (int i = 0; i < Items; i++) items[i] = from[index(i)];
  }
  /// Items beyond `valid` stay as they are.
  template <class From>
  void Load(From from, T (&items)[Items], int valid) {
    for (int i = 0; i < Items; i++)
      if (index(i) < valid) items[i] = from[index(i)];
  }
  template <class From, class Default>
  void Load(From from, T (&items)[Items], int valid, Default beyond) {
    for (int i = 0; i < Items; i++) items[i] = index(i) < valid ? T(from[index(i)]) : T(beyond);
  }

 private:
  static int index(int i) {
    const int rank = (int)replay_rt::block.linear_thread;
    return Algorithm == BLOCK_LOAD_STRIPED ? i * X * Y * Z + rank : rank * Items + i;
  }
};
template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1,
          int Z = 1, int = 0>
class BlockStore {
 public:
  struct alignas(Algorithm >= BLOCK_STORE_TRANSPOSE ? replay_exchange_alignment : 1) TempStorage {};
  BlockStore() {}
  explicit BlockStore(TempStorage&) {}
  template <class To>
  void Store(To to, T (&items)[Items]) {
    for (int i = 0; i < Items; i++) to[index(i)] = items[i];
  }
  template <class To>
  void Store(To to, T (&items)[Items], int valid) {
    for (int i = 0; i < Items; i++)
      if (index(i) < valid) to[index(i)] = items[i];
  }

 private:
  static int index(int i) {
    const int rank = (int)replay_rt::block.linear_thread;
    return Algorithm == BLOCK_STORE_STRIPED ? i * X * Y * Z + rank : rank * Items + i;
  }
};

/// The lanes of a logical warp, and this one's place among them.
template <int Width>
struct replay_lanes {
  static_assert(Width >= 1 && Width <= 32, "a logical warp has 1 to 32 threads");
  static constexpr bool is_power = (Width & (Width - 1)) == 0;
  uint32_t first, rank, mask;
  replay_lanes() {
    const uint32_t lane = replay_rt::lane();
    first = lane / Width * Width;
    rank = lane - first;
    mask = Width == 32 ? 0xffffffffu : ((1u << Width % 32) - 1) << first;
  }
  template <class T>
  T from(const T& value, uint32_t rank, const char* file, uint32_t line) const {
    return replay_rt::shuffle(mask, value, first + rank, file, line);
  }
};

/// The input of the lane `offset` before or behind in the logical warp; the lane's own beyond `first` and `last`.
template <int Width, class T>
T ShuffleUp(const T& input, int offset, int first, unsigned mask, REPLAY_SITE_PARAMS) {
  const replay_lanes<Width> lanes;
  const int rank = (int)lanes.rank - offset;
  return replay_rt::shuffle(mask, input, lanes.first + (rank >= first ? (uint32_t)rank : lanes.rank), file, line);
}
template <int Width, class T>
T ShuffleDown(const T& input, int offset, int last, unsigned mask, REPLAY_SITE_PARAMS) {
  const replay_lanes<Width> lanes;
  const int rank = (int)lanes.rank + offset;
  return replay_rt::shuffle(mask, input, lanes.first + (rank <= last ? (uint32_t)rank : lanes.rank), file, line);
}
/// The input of the lane `rank` of the logical warp.
template <int Width, class T>
T ShuffleIndex(const T& input, int rank, unsigned mask, REPLAY_SITE_PARAMS) {
  const replay_lanes<Width> lanes;
  return replay_rt::shuffle(mask, input, lanes.first + (uint32_t)rank % Width, file, line);
}

template <class T, int Width = 32, int = 0>
class WarpReduce {
 public:
  struct TempStorage {};
  WarpReduce() {}
  explicit WarpReduce(TempStorage&) {}
  /// The result counts in the first lane alone.
  template <class Op>
  T Reduce(T input, Op op, REPLAY_SITE_PARAMS) {
    return Reduce(input, op, Width, file, line);
  }
  template <class Op>
  T Reduce(T input, Op op, int valid, REPLAY_SITE_PARAMS) {
    const replay_lanes<Width> lanes;
    for (uint32_t distance = 1; distance < Width; distance *= 2) {
      const bool inside = lanes.rank + distance < (uint32_t)valid && lanes.rank + distance < Width;
      const T other = lanes.from(input, inside ? lanes.rank + distance : lanes.rank, file, line);
      if (inside) input = op(input, other);
    }
    return input;
  }
  T Sum(T input, REPLAY_SITE_PARAMS) { return Reduce(input, cub::Sum(), Width, file, line); }
  T Sum(T input, int valid, REPLAY_SITE_PARAMS) {
    return Reduce(input, cub::Sum(), valid, file, line);
  }

};

template <class T, int Width = 32, int = 0>
class WarpScan {
 public:
  struct TempStorage {};
  WarpScan() {}
  explicit WarpScan(TempStorage&) {}
  template <class Op>
  void InclusiveScan(T input, T& output, Op op, REPLAY_SITE_PARAMS) {
    const replay_lanes<Width> lanes;
    for (uint32_t distance = 1; distance < Width; distance *= 2) {
      const bool inside = lanes.rank >= distance;
      const T other = lanes.from(input, inside ? lanes.rank - distance : lanes.rank, file, line);
      if (inside) input = op(other, input);
    }
    output = input;
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, REPLAY_SITE_PARAMS) {
    const replay_lanes<Width> lanes;
    T inclusive;
    InclusiveScan(input, inclusive, op, file, line);
    const T before = lanes.from(inclusive, lanes.rank ? lanes.rank - 1 : 0, file, line);
    output = lanes.rank ? op(initial, before) : initial;
  }
  void InclusiveSum(T input, T& output, REPLAY_SITE_PARAMS) {
    InclusiveScan(input, output, cub::Sum(), file, line);
  }
  void ExclusiveSum(T input, T& output, REPLAY_SITE_PARAMS) {
    ExclusiveScan(input, output, T(0), cub::Sum(), file, line);
  }
};

inline unsigned LaneId() { return replay_rt::lane(); }
inline unsigned WarpId() { return replay_rt::block.linear_thread / 32; }

}  // namespace cub
