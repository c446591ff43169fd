// Thrust's algorithms for choosing, moving and finding items. Thrust: "Stream Compaction",
// "Gathering", "Scattering", "Searching", "Reductions". Each goes from first to last.
#pragma once

#include "replay/thrust_algorithms.h"

namespace thrust {

template <class I, class T>
ptrdiff_t replay_count(bool on, cudaStream_t stream, I first, I last, T value) {
  return replay_count_if(on, stream, first, last, [=](const auto& item) { return item == value; });
}
REPLAY_POLICIES(count)

template <class I, class Less = ::std::less<void>>
pair<I, I> replay_minmax_element(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  const I least = replay_extreme(on, stream, first, last, less, false);
  return {least, replay_extreme(on, stream, first, last, less, true)};
}
REPLAY_POLICIES(minmax_element)

/// The items whose `stencil` holds, one behind the other.
template <class I, class S, class O, class F>
O replay_copy_if(bool on, cudaStream_t stream, I first, I last, S stencil, O out, F holds) {
  auto from = replay_raw(first);
  auto by = replay_raw(stencil);
  auto to = replay_raw(out);
  const auto count = last - first;
  return out + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("copy_if"), [=]() mutable {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
      if (!holds(by[i])) continue;
      const replay_value<I> item = from[i];
      to[kept++] = item;
    }
    return kept;
  });
}
template <class I, class O, class F>
O replay_copy_if(bool on, cudaStream_t stream, I first, I last, O out, F holds) {
  return replay_copy_if(on, stream, first, last, first, out, holds);
}
REPLAY_POLICIES(copy_if)
template <class I, class F>
I replay_remove_if(bool on, cudaStream_t stream, I first, I last, F goes) {
  return replay_copy_if(on, stream, first, last, first, first,
                        [=](const auto& item) mutable { return !goes(item); });
}
REPLAY_POLICIES(remove_if)
template <class I, class T>
I replay_remove(bool on, cudaStream_t stream, I first, I last, T value) {
  return replay_remove_if(on, stream, first, last, [=](const auto& item) { return item == value; });
}
REPLAY_POLICIES(remove)

/// The first of each run of equal items.
template <class I, class O, class Equal = ::std::equal_to<void>>
O replay_unique_copy(bool on, cudaStream_t stream, I first, I last, O out, Equal equal = Equal()) {
  auto from = replay_raw(first);
  auto to = replay_raw(out);
  const auto count = last - first;
  return out + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("unique"), [=]() mutable {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = from[i];
      if (kept > 0 && equal(to[kept - 1], item)) continue;
      to[kept++] = item;
    }
    return kept;
  });
}
REPLAY_POLICIES(unique_copy)
template <class I, class Equal = ::std::equal_to<void>>
I replay_unique(bool on, cudaStream_t stream, I first, I last, Equal equal = Equal()) {
  return replay_unique_copy(on, stream, first, last, first, equal);
}
REPLAY_POLICIES(unique)

/// The sum of each run of equal keys, from its first item to its last.
template <class K, class V, class A, class B, class Equal = ::std::equal_to<void>,
          class Op = ::std::plus<void>>
pair<A, B> replay_reduce_by_key(bool on, cudaStream_t stream, K first, K last, V values, A keys_out,
                                B sums_out, Equal equal = Equal(), Op op = Op()) {
  auto keys = replay_raw(first);
  auto items = replay_raw(values);
  auto to_keys = replay_raw(keys_out);
  auto to_sums = replay_raw(sums_out);
  const auto count = last - first;
  const ptrdiff_t runs =
      replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("reduce_by_key"), [=]() mutable {
        ptrdiff_t run = 0;
        for (ptrdiff_t i = 0; i < count; run++) {
          const replay_value<K> key = keys[i];
          replay_value<V> sum = items[i];
          for (i++; i < count && equal(key, keys[i]); i++) sum = op(sum, items[i]);
          to_keys[run] = key;
          to_sums[run] = sum;
        }
        return run;
      });
  return {keys_out + runs, sums_out + runs};
}
REPLAY_POLICIES(reduce_by_key)

template <class M, class I, class O>
O replay_gather(bool on, cudaStream_t stream, M first, M last, I items, O out) {
  auto map = replay_raw(first);
  auto from = replay_raw(items);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("gather"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = from[(ptrdiff_t)map[i]];
      to[i] = item;
    }
  });
  return out + count;
}
REPLAY_POLICIES(gather)
template <class I, class M, class O>
void replay_scatter(bool on, cudaStream_t stream, I first, I last, M places, O out) {
  auto from = replay_raw(first);
  auto map = replay_raw(places);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("scatter"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = from[i];
      to[(ptrdiff_t)map[i]] = item;
    }
  });
}
REPLAY_POLICIES(scatter)

template <class I, class F>
void replay_tabulate(bool on, cudaStream_t stream, I first, I last, F function) {
  auto to = replay_raw(first);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("tabulate"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> made = function(i);
      to[i] = made;
    }
  });
}
REPLAY_POLICIES(tabulate)
template <class I, class F>
void replay_generate(bool on, cudaStream_t stream, I first, I last, F function) {
  replay_tabulate(on, stream, first, last, [=](ptrdiff_t) mutable { return function(); });
}
REPLAY_POLICIES(generate)
template <class I, class F, class T>
void replay_replace_if(bool on, cudaStream_t stream, I first, I last, F holds, T value) {
  auto to = replay_raw(first);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("replace_if"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++)
      if (holds(to[i])) to[i] = value;
  });
}
REPLAY_POLICIES(replace_if)
template <class I, class T>
void replay_replace(bool on, cudaStream_t stream, I first, I last, T old, T value) {
  replay_replace_if(on, stream, first, last, [=](const auto& item) { return item == old; }, value);
}
REPLAY_POLICIES(replace)
template <class I>
void replay_reverse(bool on, cudaStream_t stream, I first, I last) {
  auto to = replay_raw(first);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("reverse"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count / 2; i++) {
      const replay_value<I> item = to[i], other = to[count - 1 - i];
      to[i] = other;
      to[count - 1 - i] = item;
    }
  });
}
REPLAY_POLICIES(reverse)

template <class I, class O, class Op = ::std::minus<void>>
O replay_adjacent_difference(bool on, cudaStream_t stream, I first, I last, O out, Op op = Op()) {
  auto from = replay_raw(first);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("adjacent_difference"), [=]() mutable {
    replay_value<I> before = replay_value<I>();
    for (ptrdiff_t i = 0; i < count; i++) {
      const replay_value<I> item = from[i];
      const replay_value<O> made = i == 0 ? item : op(item, before);
      to[i] = made;
      before = item;
    }
  });
  return out + count;
}
REPLAY_POLICIES(adjacent_difference)

/// The first item with the property, or the end.
template <class I, class F>
I replay_find_if(bool on, cudaStream_t stream, I first, I last, F holds) {
  auto from = replay_raw(first);
  const auto count = last - first;
  return first + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("find_if"), [=]() mutable {
    ptrdiff_t i = 0;
    while (i < count && !holds(from[i])) i++;
    return i;
  });
}
REPLAY_POLICIES(find_if)
template <class I, class T>
I replay_find(bool on, cudaStream_t stream, I first, I last, T value) {
  return replay_find_if(on, stream, first, last, [=](const auto& item) { return item == value; });
}
REPLAY_POLICIES(find)
template <class I, class F>
bool replay_any_of(bool on, cudaStream_t stream, I first, I last, F holds) {
  return replay_find_if(on, stream, first, last, holds) != last;
}
REPLAY_POLICIES(any_of)
template <class I, class F>
bool replay_none_of(bool on, cudaStream_t stream, I first, I last, F holds) {
  return !replay_any_of(on, stream, first, last, holds);
}
REPLAY_POLICIES(none_of)
template <class I, class F>
bool replay_all_of(bool on, cudaStream_t stream, I first, I last, F holds) {
  return !replay_any_of(on, stream, first, last, [=](const auto& item) mutable { return !holds(item); });
}
REPLAY_POLICIES(all_of)

}  // namespace thrust
