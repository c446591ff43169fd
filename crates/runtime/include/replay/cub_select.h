// Algorithms over device memory that choose and count items. CUB: "DeviceSelect", "DevicePartition",
// "DeviceRunLengthEncode", "DeviceHistogram", "DeviceSegmentedRadixSort". Each goes from first
// to last, in a kernel of one thread a block.
#pragma once

#include "replay/cub_device.h"

namespace cub {

/// The chosen items one behind the other; the others, if they count, from the end on.
template <class I, class O, class N, class Chosen>
inline cudaError_t replay_choose(void* temp, size_t& bytes, I in, O out, N chosen_count, long long count, Chosen is_chosen,
                                 bool keeps_others, cudaStream_t stream, const char* name, replay_site site) {
  return replay_device_work(temp, bytes, 1, stream, name, site, [=](unsigned) mutable {
    long long kept = 0, left = 0;
    for (long long i = 0; i < count; i++) {
      const replay_item<I> item = in[i];
      if (is_chosen(i, item))
        out[kept++] = item;
      else if (keeps_others)
        out[count - ++left] = item;
    }
    *chosen_count = kept;
  });
}

#define REPLAY_CHOICES(Device, keeps_others)                                                            \
  template <class I, class F, class O, class N>                                                         \
  static cudaError_t Flagged(void* temp, size_t& bytes, I in, F flags, O out, N chosen_count,           \
                             long long count, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {      \
    auto is_flagged = [=](long long i, const replay_item<I>&) { return (bool)flags[i]; };               \
    return replay_choose(temp, bytes, in, out, chosen_count, count, is_flagged, keeps_others, stream,   \
                         "cub::" #Device "::Flagged", {file, line});                                    \
  }                                                                                                     \
  template <class I, class O, class N, class Op>                                                        \
  static cudaError_t If(void* temp, size_t& bytes, I in, O out, N chosen_count, long long count,        \
                        Op holds, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {                  \
    auto is_chosen = [=](long long, const replay_item<I>& item) mutable { return (bool)holds(item); };  \
    return replay_choose(temp, bytes, in, out, chosen_count, count, is_chosen, keeps_others, stream,    \
                         "cub::" #Device "::If", {file, line});                                         \
  }

struct DevicePartition {
  REPLAY_CHOICES(DevicePartition, true)
};

struct DeviceSelect {
  REPLAY_CHOICES(DeviceSelect, false)
  // In place.
  template <class I, class F, class N>
  static cudaError_t Flagged(void* temp, size_t& bytes, I items, F flags, N chosen_count, long long count,
                             cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return Flagged(temp, bytes, items, flags, items, chosen_count, count, stream, file, line);
  }
  template <class I, class N, class Op>
  static cudaError_t If(void* temp, size_t& bytes, I items, N chosen_count, long long count, Op holds,
                        cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return If(temp, bytes, items, items, chosen_count, count, holds, stream, file, line);
  }
  template <class I, class O, class N>
  static cudaError_t Unique(void* temp, size_t& bytes, I in, O out, N chosen_count, long long count,
                            cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    auto begins_run = [=](long long i, const replay_item<I>& item) { return i == 0 || !(in[i - 1] == item); };
    return replay_choose(temp, bytes, in, out, chosen_count, count, begins_run, false, stream, "cub::DeviceSelect::Unique",
                         {file, line});
  }
  template <class K, class V, class A, class B, class N>
  static cudaError_t UniqueByKey(void* temp, size_t& bytes, K keys, V values, A unique_keys, B unique_values, N run_count,
                                 long long count, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(temp, bytes, 1, stream, "cub::DeviceSelect::UniqueByKey", {file, line}, [=](unsigned) mutable {
      long long kept = 0;
      for (long long i = 0; i < count; i++) {
        if (i > 0 && keys[i - 1] == keys[i]) continue;
        unique_keys[kept] = keys[i];
        unique_values[kept++] = values[i];
      }
      *run_count = kept;
    });
  }
};
#undef REPLAY_CHOICES

/// Calls `visit` with the begin and the length of each run of equal items.
template <class I, class F>
inline void replay_each_run(I in, long long count, F visit) {
  for (long long i = 0, begin = 0; i < count; i++) {
    if (i + 1 < count && in[i + 1] == in[i]) continue;
    visit(begin, i + 1 - begin);
    begin = i + 1;
  }
}

struct DeviceRunLengthEncode {
  template <class I, class U, class L, class N>
  static cudaError_t Encode(void* temp, size_t& bytes, I in, U unique, L lengths, N run_count, long long count,
                            cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(temp, bytes, 1, stream, "cub::DeviceRunLengthEncode::Encode", {file, line},
                              [=](unsigned) mutable {
                                long long runs = 0;
                                replay_each_run(in, count, [&](long long begin, long long length) {
                                  unique[runs] = in[begin];
                                  lengths[runs++] = length;
                                });
                                *run_count = runs;
                              });
  }
  /// The runs of two items and more.
  template <class I, class B, class L, class N>
  static cudaError_t NonTrivialRuns(void* temp, size_t& bytes, I in, B begins, L lengths, N run_count, long long count,
                                    cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(temp, bytes, 1, stream, "cub::DeviceRunLengthEncode::NonTrivialRuns", {file, line},
                              [=](unsigned) mutable {
                                long long runs = 0;
                                replay_each_run(in, count, [&](long long begin, long long length) {
                                  if (length < 2) return;
                                  begins[runs] = begin;
                                  lengths[runs++] = length;
                                });
                                *run_count = runs;
                              });
  }
};

struct DeviceHistogram {
  /// The `levels` - 1 bins of one width between `lower` and `upper`, which is in none.
  template <class I, class C, class T>
  static cudaError_t HistogramEven(void* temp, size_t& bytes, I samples, C* bins, int levels, T lower, T upper,
                                   long long count, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(
        temp, bytes, 1, stream, "cub::DeviceHistogram::HistogramEven", {file, line}, [=](unsigned) mutable {
          for (int bin = 0; bin + 1 < levels; bin++) bins[bin] = 0;
          for (long long i = 0; i < count; i++) {
            const T sample = (T)samples[i];
            if (!(sample >= lower && sample < upper)) continue;
            // Of integers the quotient is exact, of numbers it is a product with the scale, as in CUB.
            const bool is_integer = T(1) / T(2) == T(0);
            const long long bin = is_integer
                                      ? (long long)(sample - lower) * (levels - 1) / (long long)(upper - lower)
                                      : (long long)((sample - lower) * (T(levels - 1) / (upper - lower)));
            bins[bin]++;
          }
        });
  }
  template <class I, class C, class T>
  static cudaError_t HistogramRange(void* temp, size_t& bytes, I samples, C* bins, int levels, const T* borders,
                                    long long count, cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {
    return replay_device_work(temp, bytes, 1, stream, "cub::DeviceHistogram::HistogramRange", {file, line},
                              [=](unsigned) mutable {
                                for (int bin = 0; bin + 1 < levels; bin++) bins[bin] = 0;
                                for (long long i = 0; i < count; i++) {
                                  const T sample = (T)samples[i];
                                  const long long bin = ::std::upper_bound(borders, borders + levels, sample) - borders - 1;
                                  if (bin >= 0 && bin + 1 < levels) bins[bin]++;
                                }
                              });
  }
};

struct DeviceSegmentedRadixSort {
#define REPLAY_SORT(suffix, descending)                                                                   \
  template <class K, class B, class E>                                                                    \
  static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, const K* in, K* out, long long count,    \
                                      int segments, B begins, E ends, int begin = 0,                      \
                                      int end = sizeof(K) * 8, cudaStream_t stream = nullptr,             \
                                      REPLAY_SITE_PARAMS) {                                               \
    return sort<K, char>(temp, bytes, in, out, nullptr, nullptr, count, segments, begins, ends,           \
                         descending, begin, end, stream,                                                  \
                         "cub::DeviceSegmentedRadixSort::SortKeys" #suffix, {file, line});                \
  }                                                                                                       \
  template <class K, class V, class B, class E>                                                           \
  static cudaError_t SortPairs##suffix(void* temp, size_t& bytes, const K* in, K* out, const V* values,   \
                                       V* moved, long long count, int segments, B begins, E ends,         \
                                       int begin = 0, int end = sizeof(K) * 8,                            \
                                       cudaStream_t stream = nullptr, REPLAY_SITE_PARAMS) {               \
    return sort<K, V>(temp, bytes, in, out, values, moved, count, segments, begins, ends, descending,     \
                      begin, end, stream, "cub::DeviceSegmentedRadixSort::SortPairs" #suffix,             \
                      {file, line});                                                                      \
  }
  REPLAY_SORT(, false)
  REPLAY_SORT(Descending, true)
#undef REPLAY_SORT

 private:
  template <class K, class V, class B, class E>
  static cudaError_t sort(void* temp, size_t& bytes, const K* in, K* out, const V* values, V* moved, long long count,
                          int segments, B begins, E ends, bool descending, int begin, int end, cudaStream_t stream,
                          const char* name, replay_site site) {
    const size_t needed = (size_t)count * 2 * sizeof(uint32_t) + 1;
    if (temp == nullptr) return bytes = needed, cudaSuccess;
    if (bytes < needed || begin < 0 || end > (int)sizeof(K) * 8 || begin > end) return cudaErrorInvalidValue;
    end = replay_key_end<K>(begin, end);
    uint32_t* order = static_cast<uint32_t*>(temp);
    return replay_device_work(temp, bytes, (unsigned)segments, stream, name, site, [=](unsigned segment) mutable {
      const long long first = (long long)begins[segment], length = (long long)ends[segment] - first;
      if (length <= 0) return;
      replay_sort_all<K, V>(in + first, out + first, values == nullptr ? nullptr : values + first,
                            moved == nullptr ? nullptr : moved + first, order + 2 * first, length, descending, begin, end);
    });
  }
};

}  // namespace cub
