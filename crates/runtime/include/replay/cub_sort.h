// Collectives for moving the items of a block. CUB: "BlockRadixSort", "BlockMergeSort", "BlockExchange",
// "BlockDiscontinuity", "BlockHistogram".
//
// A thread's items lie next to each other (blocked), or as many places apart as there are threads
// (striped). Sorts are stable, as CUB's are; one thread makes the order.
#pragma once

#include "replay/cub_block.h"
#include "replay/cub_keys.h"

namespace cub {

/// No values.
struct NullType {};

/// The place of item `i` of the current thread.
template <int Items>
inline int replay_blocked(int i) { return (int)replay_rt::block.linear_thread * Items + i; }
template <int Threads>
inline int replay_striped(int i) { return i * Threads + (int)replay_rt::block.linear_thread; }

template <class T, int X, int Items, bool = false, int Y = 1, int Z = 1, int = 0>
class BlockExchange {
  static constexpr int threads = X * Y * Z;

 public:
  struct alignas(replay_exchange_alignment) TempStorage {
    replay_values<T, threads * Items> values;
  };
  BlockExchange() {}
  explicit BlockExchange(TempStorage& storage) : storage_(storage) {}

#define REPLAY_EXCHANGE(name, from, to)                                                          \
  template <class Out>                                                                           \
  void name(const T (&items)[Items], Out (&out)[Items], REPLAY_SITE_PARAMS) {                    \
    T* values = storage_.storage->values.get();                                                  \
    for (int i = 0; i < Items; i++) new (values + from(i)) T(items[i]);                          \
    __syncthreads(file, line);                                                                   \
    for (int i = 0; i < Items; i++) out[i] = values[to(i)];                                      \
  }                                                                                              \
  void name(T (&items)[Items], REPLAY_SITE_PARAMS) { name(items, items, file, line); }
  REPLAY_EXCHANGE(StripedToBlocked, replay_striped<threads>, replay_blocked<Items>)
  REPLAY_EXCHANGE(BlockedToStriped, replay_blocked<Items>, replay_striped<threads>)
#undef REPLAY_EXCHANGE

#define REPLAY_SCATTER(name, to)                                                                 \
  template <class Out, class Rank>                                                               \
  void name(const T (&items)[Items], Out (&out)[Items], const Rank (&ranks)[Items],              \
            REPLAY_SITE_PARAMS) {                                                                \
    T* values = storage_.storage->values.get();                                                  \
    for (int i = 0; i < Items; i++) new (values + ranks[i]) T(items[i]);                         \
    __syncthreads(file, line);                                                                   \
    for (int i = 0; i < Items; i++) out[i] = values[to(i)];                                      \
  }                                                                                              \
  template <class Rank>                                                                          \
  void name(T (&items)[Items], const Rank (&ranks)[Items], REPLAY_SITE_PARAMS) {                 \
    name(items, items, ranks, file, line);                                                       \
  }
  REPLAY_SCATTER(ScatterToBlocked, replay_blocked<Items>)
  REPLAY_SCATTER(ScatterToStriped, replay_striped<threads>)
#undef REPLAY_SCATTER

 private:
  replay_storage<TempStorage> storage_;
};

/// Keys, values and the order of both, for the sorts of a block.
template <class K, class V, int Count>
struct replay_sorting {
  replay_values<K, Count> keys;
  replay_values<V, Count> values;
  unsigned short order[2][Count];

  /// Sorts the places of `count` keys: `before(a, b)` says whether a key must stand before another.
  template <class Before>
  const unsigned short* sort(int count, Before before) {
    unsigned short *from = order[0], *to = order[1];
    for (int i = 0; i < count; i++) from[i] = (unsigned short)i;
    K* key = keys.get();
    for (int width = 1; width < count; width *= 2) {
      for (int begin = 0; begin < count; begin += 2 * width) {
        const int middle = begin + width < count ? begin + width : count;
        const int end = begin + 2 * width < count ? begin + 2 * width : count;
        for (int left = begin, right = middle, at = begin; at < end; at++) {
          const bool takes_right =
              left == middle || (right < end && before(key[from[right]], key[from[left]]));
          to[at] = takes_right ? from[right++] : from[left++];
        }
      }
      unsigned short* swap = from;
      from = to, to = swap;
    }
    // Where every thread finds it.
    if (from != order[0])
      for (int i = 0; i < count; i++) order[0][i] = from[i];
    return order[0];
  }
};

/// The common part of both sorts: the items go to shared memory, one thread makes the order, all fetch.
template <class K, class V, int Threads, int Items>
class replay_block_sort {
  using storage_type = replay_sorting<K, V, Threads * Items>;

 public:
  struct alignas(replay_exchange_alignment) TempStorage {
    storage_type sorting;
  };

 protected:
  replay_block_sort() {}
  explicit replay_block_sort(TempStorage& storage) : storage_(storage) {}

  template <class Before>
  void run(K (&keys)[Items], V* values, bool striped, int count, Before before, const char* file,
           uint32_t line) {
    storage_type& s = storage_.storage->sorting;
    for (int i = 0; i < Items; i++) {
      new (s.keys.get() + replay_blocked<Items>(i)) K(keys[i]);
      if (values) new (s.values.get() + replay_blocked<Items>(i)) V(values[i]);
    }
    __syncthreads(file, line);
    if (replay_rt::block.linear_thread == 0) s.sort(count, before);
    __syncthreads(file, line);
    for (int i = 0; i < Items; i++) {
      const int place = striped ? replay_striped<Threads>(i) : replay_blocked<Items>(i);
      if (place >= count) continue;
      const int at = s.order[0][place];
      keys[i] = s.keys.get()[at];
      if (values) values[i] = s.values.get()[at];
    }
  }
  replay_storage<TempStorage> storage_;
};

/// The digit of a key's bits that a radix sort ranks by.
template <class Bits>
struct BFEDigitExtractor {
  uint32_t bit_start, num_bits;
  explicit BFEDigitExtractor(uint32_t bit_start = 0, uint32_t num_bits = 0)
      : bit_start(bit_start), num_bits(num_bits) {}
  uint32_t Digit(Bits key) const { return (uint32_t)(key >> bit_start) & ((1u << num_bits) - 1); }
};

template <int X, int Bits, bool Descending, bool = false, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0,
          int Y = 1, int Z = 1>
class BlockRadixRank {
  static constexpr int digits = 1 << Bits, threads = X * Y * Z;

 public:
  static constexpr int BINS_TRACKED_PER_THREAD = (digits + threads - 1) / threads;
  struct alignas(replay_exchange_alignment) TempStorage {
    // By thread, then by digit: the keys before those of the thread.
    int before[threads + 1][digits];
    int first[digits];
  };
  BlockRadixRank() {}
  explicit BlockRadixRank(TempStorage& storage) : storage_(storage) {}

  /// The place of each key among those of the block, ordered by the digit and then by the place before.
  template <class Unsigned, int Items, class Extractor>
  void RankKeys(Unsigned (&keys)[Items], int (&ranks)[Items], Extractor extractor, REPLAY_SITE_PARAMS) {
    TempStorage& s = *storage_.storage;
    const int me = (int)replay_rt::block.linear_thread;
    for (int digit = 0; digit < digits; digit++) s.before[me + 1][digit] = 0;
    for (int i = 0; i < Items; i++) s.before[me + 1][digit_of(extractor, keys[i])]++;
    __syncthreads(file, line);
    if (me == 0) {
      int all = 0;
      for (int place = 0; place < digits; place++) {
        const int digit = Descending ? digits - 1 - place : place;
        s.first[digit] = all;
        s.before[0][digit] = 0;
        for (int thread = 0; thread < threads; thread++) s.before[thread + 1][digit] += s.before[thread][digit];
        all += s.before[threads][digit];
      }
    }
    __syncthreads(file, line);
    for (int i = 0; i < Items; i++) {
      const int digit = digit_of(extractor, keys[i]);
      ranks[i] = s.first[digit] + s.before[me][digit];
      for (int j = 0; j < i; j++) ranks[i] += digit_of(extractor, keys[j]) == digit;
    }
  }
  /// The same, with the keys of smaller digits for the digits of this thread.
  template <class Unsigned, int Items, class Extractor>
  void RankKeys(Unsigned (&keys)[Items], int (&ranks)[Items], Extractor extractor,
                int (&exclusive_digit_prefix)[BINS_TRACKED_PER_THREAD], REPLAY_SITE_PARAMS) {
    RankKeys(keys, ranks, extractor, file, line);
    for (int i = 0; i < BINS_TRACKED_PER_THREAD; i++) {
      const int bin = (int)replay_rt::block.linear_thread * BINS_TRACKED_PER_THREAD + i;
      if (bin < digits) exclusive_digit_prefix[i] = storage_.storage->first[Descending ? digits - 1 - bin : bin];
    }
  }

 private:
  template <class Extractor, class Unsigned>
  static int digit_of(const Extractor& extractor, Unsigned key) { return (int)extractor.Digit(key); }
  replay_storage<TempStorage> storage_;
};

template <class K, int X, int Items, class V = NullType, int = 4, bool = true,
          BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int Y = 1, int Z = 1, int = 0>
class BlockRadixSort : public replay_block_sort<K, V, X * Y * Z, Items> {
  using base = replay_block_sort<K, V, X * Y * Z, Items>;

 public:
  using typename base::TempStorage;
  BlockRadixSort() {}
  explicit BlockRadixSort(TempStorage& storage) : base(storage) {}

#define REPLAY_BLOCK_SORT(name, descending, striped)                                             \
  void name(K (&keys)[Items], int begin = 0, int end = sizeof(K) * 8, REPLAY_SITE_PARAMS) {      \
    sort(keys, nullptr, striped, descending, begin, end, file, line);                            \
  }                                                                                              \
  void name(K (&keys)[Items], V (&values)[Items], int begin = 0, int end = sizeof(K) * 8,        \
            REPLAY_SITE_PARAMS) {                                                                \
    sort(keys, values, striped, descending, begin, end, file, line);                             \
  }
  REPLAY_BLOCK_SORT(Sort, false, false)
  REPLAY_BLOCK_SORT(SortDescending, true, false)
  REPLAY_BLOCK_SORT(SortBlockedToStriped, false, true)
  REPLAY_BLOCK_SORT(SortDescendingBlockedToStriped, true, true)
#undef REPLAY_BLOCK_SORT

 private:
  void sort(K (&keys)[Items], V* values, bool striped, bool descending, int begin, int end,
            const char* file, uint32_t line) {
    const int last = replay_key_end<K>(begin, end), width = last - begin;
    auto part = [=](const K& key) {
      const uint64_t bits = width > 0 ? replay_key<K>::of(key) >> begin : 0;
      return width >= 64 ? bits : bits & ((1ull << width) - 1);
    };
    this->run(keys, values, striped, X * Y * Z * Items,
              [=](const K& a, const K& b) {
                return descending ? part(a) > part(b) : part(a) < part(b);
              },
              file, line);
  }
};

template <class K, int X, int Items, class V = NullType, int Y = 1, int Z = 1>
class BlockMergeSort : public replay_block_sort<K, V, X * Y * Z, Items> {
  using base = replay_block_sort<K, V, X * Y * Z, Items>;

 public:
  using typename base::TempStorage;
  BlockMergeSort() {}
  explicit BlockMergeSort(TempStorage& storage) : base(storage) {}

  // Items from `valid` on stand behind all others: they are as large as `beyond`, the largest.
#define REPLAY_BLOCK_SORT(name)                                                                  \
  template <class Less>                                                                          \
  void name(K (&keys)[Items], Less less, REPLAY_SITE_PARAMS) {                                   \
    this->run(keys, nullptr, false, X * Y * Z * Items, less, file, line);                        \
  }                                                                                              \
  template <class Less>                                                                          \
  void name(K (&keys)[Items], Less less, int valid, K beyond, REPLAY_SITE_PARAMS) {              \
    sort_some(keys, nullptr, less, valid, beyond, file, line);                                   \
  }                                                                                              \
  template <class Less>                                                                          \
  void name(K (&keys)[Items], V (&values)[Items], Less less, REPLAY_SITE_PARAMS) {               \
    this->run(keys, values, false, X * Y * Z * Items, less, file, line);                         \
  }                                                                                              \
  template <class Less>                                                                          \
  void name(K (&keys)[Items], V (&values)[Items], Less less, int valid, K beyond,                \
            REPLAY_SITE_PARAMS) {                                                                \
    sort_some(keys, values, less, valid, beyond, file, line);                                    \
  }
  REPLAY_BLOCK_SORT(Sort)
  REPLAY_BLOCK_SORT(StableSort)
#undef REPLAY_BLOCK_SORT

 private:
  template <class Less>
  void sort_some(K (&keys)[Items], V* values, Less less, int valid, const K& beyond,
                 const char* file, uint32_t line) {
    for (int i = 0; i < Items; i++)
      if (replay_blocked<Items>(i) >= valid) keys[i] = beyond;
    this->run(keys, values, false, X * Y * Z * Items, less, file, line);
  }
};

template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockDiscontinuity {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage {
    replay_values<T, threads> first, last;
  };
  BlockDiscontinuity() {}
  explicit BlockDiscontinuity(TempStorage& storage) : storage_(storage) {}

  /// Flags items unlike the one before; the first of all is flagged, or compared with `before`.
  template <int Items, class Flag, class Differs>
  void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differs differs, REPLAY_SITE_PARAMS) {
    share(items, file, line);
    flag_heads(heads, items, differs, nullptr);
  }
  template <int Items, class Flag, class Differs>
  void FlagHeads(Flag (&heads)[Items], T (&items)[Items], Differs differs, T before,
                 REPLAY_SITE_PARAMS) {
    share(items, file, line);
    flag_heads(heads, items, differs, &before);
  }
  /// The same for the one after.
  template <int Items, class Flag, class Differs>
  void FlagTails(Flag (&tails)[Items], T (&items)[Items], Differs differs, REPLAY_SITE_PARAMS) {
    share(items, file, line);
    flag_tails(tails, items, differs, nullptr);
  }
  template <int Items, class Flag, class Differs>
  void FlagTails(Flag (&tails)[Items], T (&items)[Items], Differs differs, T after,
                 REPLAY_SITE_PARAMS) {
    share(items, file, line);
    flag_tails(tails, items, differs, &after);
  }
  template <int Items, class Flag, class Differs>
  void FlagHeadsAndTails(Flag (&heads)[Items], Flag (&tails)[Items], T (&items)[Items],
                         Differs differs, REPLAY_SITE_PARAMS) {
    share(items, file, line);
    flag_heads(heads, items, differs, nullptr);
    flag_tails(tails, items, differs, nullptr);
  }

 private:
  template <int Items>
  void share(T (&items)[Items], const char* file, uint32_t line) {
    const int rank = (int)replay_rt::block.linear_thread;
    new (storage_.storage->first.get() + rank) T(items[0]);
    new (storage_.storage->last.get() + rank) T(items[Items - 1]);
    __syncthreads(file, line);
  }
  template <int Items, class Flag, class Differs>
  void flag_heads(Flag (&heads)[Items], T (&items)[Items], Differs differs, const T* before) {
    const int rank = (int)replay_rt::block.linear_thread;
    if (rank > 0) before = storage_.storage->last.get() + rank - 1;
    heads[0] = before ? Flag(differs(*before, items[0])) : Flag(1);
    for (int i = 1; i < Items; i++) heads[i] = Flag(differs(items[i - 1], items[i]));
  }
  template <int Items, class Flag, class Differs>
  void flag_tails(Flag (&tails)[Items], T (&items)[Items], Differs differs, const T* after) {
    const int rank = (int)replay_rt::block.linear_thread;
    if (rank < threads - 1) after = storage_.storage->first.get() + rank + 1;
    for (int i = 0; i + 1 < Items; i++) tails[i] = Flag(differs(items[i], items[i + 1]));
    tails[Items - 1] = after ? Flag(differs(items[Items - 1], *after)) : Flag(1);
  }
  replay_storage<TempStorage> storage_;
};

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };
/// Counts the items of each bin. Counts are whole numbers, so their order does not matter.
template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT,
          int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage {
    replay_values<T, threads * Items> values;
  };
  BlockHistogram() {}
  explicit BlockHistogram(TempStorage& storage) : storage_(storage) {}

  template <class Count>
  void InitHistogram(Count (&histogram)[Bins]) {
    for (int bin = (int)replay_rt::block.linear_thread; bin < Bins; bin += threads)
      histogram[bin] = Count(0);
  }
  template <class Count>
  void Histogram(T (&items)[Items], Count (&histogram)[Bins], REPLAY_SITE_PARAMS) {
    InitHistogram(histogram);
    __syncthreads(file, line);
    Composite(items, histogram, file, line);
  }
  template <class Count>
  void Composite(T (&items)[Items], Count (&histogram)[Bins], REPLAY_SITE_PARAMS) {
    T* values = storage_.storage->values.get();
    for (int i = 0; i < Items; i++) new (values + replay_blocked<Items>(i)) T(items[i]);
    __syncthreads(file, line);
    if (replay_rt::block.linear_thread != 0) return;
    for (int i = 0; i < threads * Items; i++) histogram[(long long)values[i]] += Count(1);
  }

 private:
  replay_storage<TempStorage> storage_;
};

}  // namespace cub
