// Thrust's algorithms over ranges in an order: partitions, merges, searches, comparisons, scans of parts. Thrust:
// "Partitioning", "Merging", "Binary Search", "Set Operations", "Comparisons", "Segmented Prefix Sums". Each goes from
// first to last.
#pragma once

#include "replay/thrust_selection.h"

namespace thrust {

/// Moves the items whose stencil holds before the others. The others keep their order if `stable`, and are reversed
/// otherwise, as by cub::DevicePartition.
template <class I, class S, class F>
I replay_partition_by(bool on, cudaStream_t stream, I first, I last, S stencil, F holds, bool stable) {
  auto items = replay_raw(first);
  auto by = replay_raw(stencil);
  const ptrdiff_t count = last - first;
  replay_room<replay_value<I>> room(on, count);
  auto* others = room.at;
  return first + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("partition"), [=]() mutable {
    ptrdiff_t kept = 0, left = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = items[i];
      if (holds(by[i])) items[kept++] = item;
      else others[left++] = item;
    }
    for (ptrdiff_t i = 0; i < left; i++) items[kept + i] = others[stable ? i : left - 1 - i];
    return kept;
  });
}
template <class I, class F>
I replay_partition(bool on, cudaStream_t stream, I first, I last, F holds) {
  return replay_partition_by(on, stream, first, last, first, holds, false);
}
template <class I, class S, class F>
I replay_partition(bool on, cudaStream_t stream, I first, I last, S stencil, F holds) {
  return replay_partition_by(on, stream, first, last, stencil, holds, false);
}
REPLAY_POLICIES(partition)
template <class I, class F>
I replay_stable_partition(bool on, cudaStream_t stream, I first, I last, F holds) {
  return replay_partition_by(on, stream, first, last, first, holds, true);
}
template <class I, class S, class F>
I replay_stable_partition(bool on, cudaStream_t stream, I first, I last, S stencil, F holds) {
  return replay_partition_by(on, stream, first, last, stencil, holds, true);
}
REPLAY_POLICIES(stable_partition)
template <class I, class A, class B, class F>
pair<A, B> replay_partition_copy(bool on, cudaStream_t stream, I first, I last, A chosen, B others, F holds) {
  const A chosen_end = replay_copy_if(on, stream, first, last, chosen, holds);
  const B others_end = replay_copy_if(on, stream, first, last, others,
                                      [=](const auto& item) mutable { return !holds(item); });
  return {chosen_end, others_end};
}
REPLAY_POLICIES(partition_copy)
template <class I, class A, class B, class F>
pair<A, B> replay_stable_partition_copy(bool on, cudaStream_t stream, I first, I last, A chosen, B others,
                                        F holds) {
  return replay_partition_copy(on, stream, first, last, chosen, others, holds);
}
REPLAY_POLICIES(stable_partition_copy)
template <class I, class F>
I replay_find_if_not(bool on, cudaStream_t stream, I first, I last, F holds) {
  return replay_find_if(on, stream, first, last, [=](const auto& item) mutable { return !holds(item); });
}
REPLAY_POLICIES(find_if_not)
template <class I, class F>
I replay_partition_point(bool on, cudaStream_t stream, I first, I last, F holds) {
  return replay_find_if_not(on, stream, first, last, holds);
}
REPLAY_POLICIES(partition_point)
template <class I, class F>
bool replay_is_partitioned(bool on, cudaStream_t stream, I first, I last, F holds) {
  const I point = replay_partition_point(on, stream, first, last, holds);
  return replay_none_of(on, stream, point, last, holds);
}
REPLAY_POLICIES(is_partitioned)

/// Which items of two sorted ranges an operation on sets keeps.
enum class replay_set { both, either, first_alone, one_alone, all };

/// Goes through two sorted ranges together. `take(i, j)` gets the places of equal items, or one place and -1. Equal items
/// of one range are paired with those of the other one by one.
template <class A, class B, class Less, class Take>
void replay_zip_sorted(A a, ptrdiff_t a_count, B b, ptrdiff_t b_count, Less less, Take take) {
  ptrdiff_t i = 0, j = 0;
  while (i < a_count || j < b_count) {
    const bool a_first = j == b_count || (i < a_count && less(a[i], b[j]));
    const bool b_first = i == a_count || (j < b_count && less(b[j], a[i]));
    if (a_first) take(i++, (ptrdiff_t)-1);
    else if (b_first) take((ptrdiff_t)-1, j++);
    else take(i++, j++);
  }
}
template <class A, class B, class O, class Less>
O replay_set_operation(bool on, cudaStream_t stream, const char* name, replay_set kept, A first, A last, B second,
                       B second_last, O out, Less less) {
  auto a = replay_raw(first);
  auto b = replay_raw(second);
  auto to = replay_raw(out);
  const ptrdiff_t a_count = last - first, b_count = second_last - second;
  return out + replay_result<ptrdiff_t>(on, stream, name, replay_site{nullptr, 0}, [=]() mutable {
    ptrdiff_t written = 0;
    // A merge puts equal items of the first range before those of the second.
    if (kept == replay_set::all) {
      ptrdiff_t i = 0, j = 0;
      while (i < a_count || j < b_count) {
        const bool is_second = i == a_count || (j < b_count && less(b[j], a[i]));
        const replay_value<A> item = is_second ? (replay_value<A>)b[j++] : (replay_value<A>)a[i++];
        to[written++] = item;
      }
      return written;
    }
    replay_zip_sorted(a, a_count, b, b_count, less, [&](ptrdiff_t i, ptrdiff_t j) {
      const bool is_paired = i >= 0 && j >= 0;
      const bool is_wanted = kept == replay_set::either || (kept == replay_set::both && is_paired) ||
                             (kept == replay_set::first_alone && j < 0) ||
                             (kept == replay_set::one_alone && !is_paired);
      if (!is_wanted) return;
      const replay_value<A> item = i >= 0 ? (replay_value<A>)a[i] : (replay_value<A>)b[j];
      to[written++] = item;
    });
    return written;
  });
}
#define REPLAY_SET_OPERATION(name, kept)                                                                      \
  template <class A, class B, class O, class Less = ::std::less<void>>                                        \
  O replay_##name(bool on, cudaStream_t stream, A first, A last, B second, B second_last, O out,              \
                  Less less = Less()) {                                                                       \
    return replay_set_operation(on, stream, "thrust::" #name, kept, first, last, second, second_last, out,   \
                                less);                                                                        \
  }                                                                                                           \
  REPLAY_POLICIES(name)
REPLAY_SET_OPERATION(merge, replay_set::all)
REPLAY_SET_OPERATION(set_union, replay_set::either)
REPLAY_SET_OPERATION(set_intersection, replay_set::both)
REPLAY_SET_OPERATION(set_difference, replay_set::first_alone)
REPLAY_SET_OPERATION(set_symmetric_difference, replay_set::one_alone)
#undef REPLAY_SET_OPERATION

/// Merges two sorted ranges of keys, and the values that belong to them.
template <class A, class B, class V, class W, class O, class P, class Less = ::std::less<void>>
pair<O, P> replay_merge_by_key(bool on, cudaStream_t stream, A first, A last, B second, B second_last, V values,
                               W second_values, O keys_out, P values_out, Less less = Less()) {
  auto a = replay_raw(first);
  auto b = replay_raw(second);
  auto a_values = replay_raw(values);
  auto b_values = replay_raw(second_values);
  auto to_keys = replay_raw(keys_out);
  auto to_values = replay_raw(values_out);
  const ptrdiff_t a_count = last - first, b_count = second_last - second;
  replay_run(on, stream, REPLAY_THRUST_SITE("merge_by_key"), [=]() mutable {
    ptrdiff_t i = 0, j = 0;
    for (ptrdiff_t k = 0; k < a_count + b_count; k++) {
      const bool is_second = i == a_count || (j < b_count && less(b[j], a[i]));
      const replay_value<A> key = is_second ? (replay_value<A>)b[j] : (replay_value<A>)a[i];
      const replay_value<V> value = is_second ? (replay_value<V>)b_values[j++] : (replay_value<V>)a_values[i++];
      to_keys[k] = key;
      to_values[k] = value;
    }
  });
  return {keys_out + (a_count + b_count), values_out + (a_count + b_count)};
}
REPLAY_POLICIES(merge_by_key)

/// The first place in `count` sorted items that is not less than `value`, or with `after` the first behind it.
template <class I, class T, class Less>
ptrdiff_t replay_bound(I items, ptrdiff_t count, const T& value, Less less, bool after) {
  ptrdiff_t low = 0, high = count;
  while (low < high) {
    const ptrdiff_t middle = low + (high - low) / 2;
    const bool is_before = after ? !less(value, items[middle]) : less(items[middle], value);
    if (is_before) low = middle + 1;
    else high = middle;
  }
  return low;
}
template <class I, class T, class Less>
I replay_bound_of(bool on, cudaStream_t stream, I first, I last, T value, Less less, bool after) {
  auto items = replay_raw(first);
  const ptrdiff_t count = last - first;
  return first + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("lower_bound"),
                                          [=] { return replay_bound(items, count, value, less, after); });
}
/// The same for each value of a range.
template <class I, class V, class O, class Less>
O replay_bounds_of(bool on, cudaStream_t stream, I first, I last, V values, V values_last, O out, Less less,
                   bool after) {
  auto items = replay_raw(first);
  auto wanted = replay_raw(values);
  auto to = replay_raw(out);
  const ptrdiff_t count = last - first, value_count = values_last - values;
  replay_run(on, stream, REPLAY_THRUST_SITE("lower_bound"), [=]() mutable {
    for (ptrdiff_t i = 0; i < value_count; i++) {
      const replay_value<V> value = wanted[i];
      to[i] = (replay_value<O>)replay_bound(items, count, value, less, after);
    }
  });
  return out + value_count;
}
#define REPLAY_BOUND(name, after)                                                                          \
  template <class I, class T>                                                                              \
  I replay_##name(bool on, cudaStream_t stream, I first, I last, T value) {                                \
    return replay_bound_of(on, stream, first, last, value, ::std::less<void>(), after);                    \
  }                                                                                                        \
  template <class I, class T, class Less>                                                                  \
  I replay_##name(bool on, cudaStream_t stream, I first, I last, T value, Less less) {                     \
    return replay_bound_of(on, stream, first, last, value, less, after);                                   \
  }                                                                                                        \
  template <class I, class V, class O, class Less = ::std::less<void>>                                     \
  O replay_##name(bool on, cudaStream_t stream, I first, I last, V values, V values_last, O out,           \
                  Less less = Less()) {                                                                    \
    return replay_bounds_of(on, stream, first, last, values, values_last, out, less, after);               \
  }                                                                                                        \
  REPLAY_POLICIES(name)
REPLAY_BOUND(lower_bound, false)
REPLAY_BOUND(upper_bound, true)
#undef REPLAY_BOUND
template <class I, class T, class Less = ::std::less<void>>
pair<I, I> replay_equal_range(bool on, cudaStream_t stream, I first, I last, T value, Less less = Less()) {
  return {replay_lower_bound(on, stream, first, last, value, less),
          replay_upper_bound(on, stream, first, last, value, less)};
}
REPLAY_POLICIES(equal_range)
template <class I, class T, class Less>
bool replay_contains(I items, ptrdiff_t count, const T& value, Less less) {
  const ptrdiff_t at = replay_bound(items, count, value, less, false);
  return at < count && !less(value, items[at]);
}
template <class I, class T>
bool replay_binary_search(bool on, cudaStream_t stream, I first, I last, T value) {
  return replay_binary_search(on, stream, first, last, value, ::std::less<void>());
}
template <class I, class T, class Less>
bool replay_binary_search(bool on, cudaStream_t stream, I first, I last, T value, Less less) {
  auto items = replay_raw(first);
  const ptrdiff_t count = last - first;
  return replay_result<bool>(on, stream, REPLAY_THRUST_SITE("binary_search"),
                             [=] { return replay_contains(items, count, value, less); });
}
template <class I, class V, class O, class Less = ::std::less<void>>
O replay_binary_search(bool on, cudaStream_t stream, I first, I last, V values, V values_last, O out,
                       Less less = Less()) {
  auto items = replay_raw(first);
  auto wanted = replay_raw(values);
  auto to = replay_raw(out);
  const ptrdiff_t count = last - first, value_count = values_last - values;
  replay_run(on, stream, REPLAY_THRUST_SITE("binary_search"), [=]() mutable {
    for (ptrdiff_t i = 0; i < value_count; i++) {
      const replay_value<V> value = wanted[i];
      to[i] = replay_contains(items, count, value, less);
    }
  });
  return out + value_count;
}
REPLAY_POLICIES(binary_search)

/// The first pair of different items.
template <class I, class J, class Equal = ::std::equal_to<void>>
pair<I, J> replay_mismatch(bool on, cudaStream_t stream, I first, I last, J second, Equal equal = Equal()) {
  auto one = replay_raw(first);
  auto other = replay_raw(second);
  const ptrdiff_t count = last - first;
  const ptrdiff_t at = replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("mismatch"), [=]() mutable {
    ptrdiff_t i = 0;
    while (i < count && equal(one[i], other[i])) i++;
    return i;
  });
  return {first + at, second + at};
}
REPLAY_POLICIES(mismatch)
template <class I, class J, class Equal = ::std::equal_to<void>>
bool replay_equal(bool on, cudaStream_t stream, I first, I last, J second, Equal equal = Equal()) {
  return replay_mismatch(on, stream, first, last, second, equal).first == last;
}
REPLAY_POLICIES(equal)
template <class I, class Less = ::std::less<void>>
I replay_is_sorted_until(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  auto items = replay_raw(first);
  const ptrdiff_t count = last - first;
  return first + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("is_sorted"), [=]() mutable {
    ptrdiff_t i = 1;
    while (i < count && !less(items[i], items[i - 1])) i++;
    return i < count ? i : count;
  });
}
REPLAY_POLICIES(is_sorted_until)
template <class I, class Less = ::std::less<void>>
bool replay_is_sorted(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  return replay_is_sorted_until(on, stream, first, last, less) == last;
}
REPLAY_POLICIES(is_sorted)

template <class I, class J>
J replay_swap_ranges(bool on, cudaStream_t stream, I first, I last, J second) {
  auto one = replay_raw(first);
  auto other = replay_raw(second);
  const ptrdiff_t count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("swap_ranges"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = one[i];
      one[i] = (replay_value<I>)other[i];
      other[i] = item;
    }
  });
  return second + count;
}
REPLAY_POLICIES(swap_ranges)

/// Transforms the items whose stencil holds, and leaves the others as they are.
template <class I, class S, class O, class F, class H>
O replay_transform_if(bool on, cudaStream_t stream, I first, I last, S stencil, O out, F function, H holds) {
  auto from = replay_raw(first);
  auto by = replay_raw(stencil);
  auto to = replay_raw(out);
  const ptrdiff_t count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("transform_if"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      if (!holds(by[i])) continue;
      const auto made = function(from[i]);
      to[i] = made;
    }
  });
  return out + count;
}
template <class I, class O, class F, class H>
O replay_transform_if(bool on, cudaStream_t stream, I first, I last, O out, F function, H holds) {
  return replay_transform_if(on, stream, first, last, first, out, function, holds);
}
REPLAY_POLICIES(transform_if)
template <class I, class O, class F, class Op>
O replay_transform_inclusive_scan(bool on, cudaStream_t stream, I first, I last, O out, F function, Op op) {
  auto items = make_transform_iterator(first, function);
  return replay_inclusive_scan(on, stream, items, items + (last - first), out, op);
}
REPLAY_POLICIES(transform_inclusive_scan)
template <class I, class O, class F, class T, class Op>
O replay_transform_exclusive_scan(bool on, cudaStream_t stream, I first, I last, O out, F function, T initial,
                                  Op op) {
  auto items = make_transform_iterator(first, function);
  return replay_exclusive_scan(on, stream, items, items + (last - first), out, initial, op);
}
REPLAY_POLICIES(transform_exclusive_scan)

/// The sums within each run of equal keys.
template <class K, class V, class O, class Equal = ::std::equal_to<void>, class Op = ::std::plus<void>>
O replay_inclusive_scan_by_key(bool on, cudaStream_t stream, K first, K last, V values, O out,
                               Equal equal = Equal(), Op op = Op()) {
  auto keys = replay_raw(first);
  auto items = replay_raw(values);
  auto to = replay_raw(out);
  const ptrdiff_t count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("inclusive_scan_by_key"), [=]() mutable {
    replay_value<V> sum = replay_value<V>();
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<V> item = items[i];
      sum = i > 0 && equal(keys[i - 1], keys[i]) ? (replay_value<V>)op(sum, item) : item;
      to[i] = sum;
    }
  });
  return out + count;
}
REPLAY_POLICIES(inclusive_scan_by_key)
template <class K, class V, class O, class T, class Equal = ::std::equal_to<void>, class Op = ::std::plus<void>>
O replay_exclusive_scan_by_key(bool on, cudaStream_t stream, K first, K last, V values, O out, T initial,
                               Equal equal = Equal(), Op op = Op()) {
  auto keys = replay_raw(first);
  auto items = replay_raw(values);
  auto to = replay_raw(out);
  const ptrdiff_t count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("exclusive_scan_by_key"), [=]() mutable {
    T sum = initial;
    for (ptrdiff_t i = 0; i < count; i++) {
      if (i > 0 && !equal(keys[i - 1], keys[i])) sum = initial;
      const T next = op(sum, items[i]);
      to[i] = sum;
      sum = next;
    }
  });
  return out + count;
}
template <class K, class V, class O>
O replay_exclusive_scan_by_key(bool on, cudaStream_t stream, K first, K last, V values, O out) {
  return replay_exclusive_scan_by_key(on, stream, first, last, values, out, replay_value<V>(0));
}
REPLAY_POLICIES(exclusive_scan_by_key)
template <class I, class T>
void replay_uninitialized_fill(bool on, cudaStream_t stream, I first, I last, const T& value) {
  replay_fill(on, stream, first, last, value);
}
REPLAY_POLICIES(uninitialized_fill)
/// The first of each run of equal keys, with its value.
template <class K, class V, class Equal = ::std::equal_to<void>>
pair<K, V> replay_unique_by_key(bool on, cudaStream_t stream, K first, K last, V values, Equal equal = Equal()) {
  return replay_reduce_by_key(on, stream, first, last, values, first, values, equal,
                              [](const auto& sum, const auto&) { return sum; });
}
REPLAY_POLICIES(unique_by_key)

}  // namespace thrust
#undef REPLAY_POLICIES
#undef REPLAY_THRUST_SITE
