// Thrust's common algorithms. Thrust: "Algorithms". Each is a kernel of one thread, from first to
// last. Reductions take tiles of 4096 items as CUB's do (replay/cub_operators.h), and combine those in
// pairs. Algorithms over the host's iterators run on the host. replay/thrust_selection.h and
// replay/thrust_order.h have more.
#pragma once

#include "replay/cub_operators.h"
#include "replay/thrust_zip.h"

namespace thrust {

/// The products of the items of two ranges.
template <class I, class J>
struct replay_products {
  I first;
  J second;
  auto operator[](ptrdiff_t i) const { return first[i] * second[i]; }
};

/// Runs `work` in a kernel of one thread, or at once on the host.
template <class Work>
void replay_kernel(Work work) {
  work();
}
template <class Work>
void replay_run(bool on_device, cudaStream_t stream, const char* name, replay_site site, Work work) {
  if (!on_device) {
    work();
    return;
  }
  (void)&replay_rt::host_algorithm<Work>::known;
  replay_rt::library_kernel(&replay_kernel<Work>, name, site.file, site.line)
      .on(dim3(1), dim3(1), 0, stream)
      .run(work);
}
/// The same with a result; it comes back by a copy.
template <class R, class Work>
R replay_result(bool on_device, cudaStream_t stream, const char* name, replay_site site, Work work) {
  if (!on_device) return work();
  R* slot = nullptr;
  cudaMalloc(&slot, sizeof(R));
  replay_run(true, stream, name, site, [=]() mutable {
    const R made = work();
    *slot = made;
  });
  R result;
  cudaMemcpy(&result, slot, sizeof(R), cudaMemcpyDeviceToHost);
  cudaFree(slot);
  return result;
}

// Each algorithm: with a policy for the device, with one for the host, and with its iterators alone:
// their type tells the side.
#define REPLAY_POLICIES(name)                                                                       \
  template <class... A>                                                                             \
  auto name(const replay_device_policy& policy, A... arguments) {                                   \
    return replay_##name(true, policy.stream, arguments...);                                        \
  }                                                                                                 \
  template <class... A>                                                                             \
  auto name(const replay_host_policy&, A... arguments) {                                            \
    return replay_##name(false, nullptr, arguments...);                                             \
  }                                                                                                 \
  template <class I, class... A,                                                                    \
            class = typename ::std::enable_if<!::std::is_same<I, replay_device_policy>::value &&    \
                                              !::std::is_same<I, replay_host_policy>::value>::type> \
  auto name(I first, A... arguments) {                                                              \
    return replay_##name(replay_place<I>::on_device || replay_any_device<A...>(), nullptr, first,   \
                         arguments...);                                                             \
  }
template <class... A> constexpr bool replay_any_device() {
  return (replay_place<A>::on_device || ... || false);
}
#define REPLAY_THRUST_SITE(name) "thrust::" name, replay_site{nullptr, 0}

template <class I, class T>
void replay_fill(bool on, cudaStream_t stream, I first, I last, const T& value) {
  auto from = replay_raw(first);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("fill"), [=] {
    for (ptrdiff_t i = 0; i < count; i++) from[i] = value;
  });
}
REPLAY_POLICIES(fill)
template <class I, class N, class T>
I replay_fill_n(bool on, cudaStream_t stream, I first, N count, const T& value) {
  return replay_fill(on, stream, first, first + count, value), first + count;
}
REPLAY_POLICIES(fill_n)

template <class I, class T, class S>
void replay_sequence(bool on, cudaStream_t stream, I first, I last, T begin, S step) {
  auto from = replay_raw(first);
  const auto count = last - first;
  using V = replay_value<I>;
  replay_run(on, stream, REPLAY_THRUST_SITE("sequence"), [=] {
    for (ptrdiff_t i = 0; i < count; i++) from[i] = (V)(begin + step * (V)i);
  });
}
template <class I>
void replay_sequence(bool on, cudaStream_t stream, I first, I last) {
  replay_sequence(on, stream, first, last, replay_value<I>(0), replay_value<I>(1));
}
template <class I, class T>
void replay_sequence(bool on, cudaStream_t stream, I first, I last, T begin) {
  replay_sequence(on, stream, first, last, begin, replay_value<I>(1));
}
REPLAY_POLICIES(sequence)

template <class I, class F>
I replay_for_each(bool on, cudaStream_t stream, I first, I last, F function) {
  auto from = replay_raw(first);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("for_each"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) function(from[i]);
  });
  return last;
}
REPLAY_POLICIES(for_each)

template <class I, class O, class F>
O replay_transform(bool on, cudaStream_t stream, I first, I last, O out, F function) {
  auto from = replay_raw(first);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("transform"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const auto made = function(from[i]);
      to[i] = made;
    }
  });
  return out + count;
}
template <class I, class J, class O, class F>
O replay_transform(bool on, cudaStream_t stream, I first, I last, J second, O out, F function) {
  auto from = replay_raw(first);
  auto with = replay_raw(second);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("transform"), [=]() mutable {
    for (ptrdiff_t i = 0; i < count; i++) {
      const auto made = function(from[i], with[i]);
      to[i] = made;
    }
  });
  return out + count;
}
REPLAY_POLICIES(transform)

template <class I, class T, class Op>
T replay_reduce(bool on, cudaStream_t stream, I first, I last, T initial, Op op) {
  auto from = replay_raw(first);
  const auto count = last - first;
  return replay_result<T>(on, stream, REPLAY_THRUST_SITE("reduce"), [=]() mutable {
    if (count == 0) return initial;
    return (T)op(initial, cub::replay_reduce_pairs<T>(from, count, op));
  });
}
template <class I, class T>
T replay_reduce(bool on, cudaStream_t stream, I first, I last, T initial) {
  return replay_reduce(on, stream, first, last, initial, ::std::plus<T>());
}
template <class I>
replay_value<I> replay_reduce(bool on, cudaStream_t stream, I first, I last) {
  return replay_reduce(on, stream, first, last, replay_value<I>(0));
}
REPLAY_POLICIES(reduce)

template <class I, class F, class T, class Op>
T replay_transform_reduce(bool on, cudaStream_t stream, I first, I last, F function, T initial, Op op) {
  auto from = replay_raw(first);
  const auto count = last - first;
  return replay_result<T>(on, stream, REPLAY_THRUST_SITE("transform_reduce"), [=]() mutable {
    if (count == 0) return initial;
    const transform_iterator<F, decltype(from)> items(from, function);
    return (T)op(initial, cub::replay_reduce_pairs<T>(items, count, op));
  });
}
REPLAY_POLICIES(transform_reduce)

template <class I, class J, class T>
T replay_inner_product(bool on, cudaStream_t stream, I first, I last, J second, T initial) {
  auto from = replay_raw(first);
  auto with = replay_raw(second);
  const auto count = last - first;
  return replay_result<T>(on, stream, REPLAY_THRUST_SITE("inner_product"), [=] {
    if (count == 0) return initial;
    ::std::plus<T> op;
    const replay_products<decltype(from), decltype(with)> items = {from, with};
    return (T)(initial + cub::replay_reduce_pairs<T>(items, count, op));
  });
}
REPLAY_POLICIES(inner_product)

template <class I, class F>
ptrdiff_t replay_count_if(bool on, cudaStream_t stream, I first, I last, F holds) {
  auto from = replay_raw(first);
  const auto count = last - first;
  return replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("count_if"), [=]() mutable {
    ptrdiff_t found = 0;
    for (ptrdiff_t i = 0; i < count; i++) found += holds(from[i]) ? 1 : 0;
    return found;
  });
}
REPLAY_POLICIES(count_if)

/// The first of the largest, or of the smallest, elements.
template <class I, class Less>
I replay_extreme(bool on, cudaStream_t stream, I first, I last, Less less, bool largest) {
  auto from = replay_raw(first);
  const auto count = last - first;
  return first + replay_result<ptrdiff_t>(on, stream, REPLAY_THRUST_SITE("max_element"), [=]() mutable {
    ptrdiff_t best = 0;
    for (ptrdiff_t i = 1; i < count; i++)
      if (largest ? less(from[best], from[i]) : less(from[i], from[best])) best = i;
    return best;
  });
}
template <class I, class Less = ::std::less<void>>
I replay_max_element(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  return replay_extreme(on, stream, first, last, less, true);
}
template <class I, class Less = ::std::less<void>>
I replay_min_element(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  return replay_extreme(on, stream, first, last, less, false);
}
REPLAY_POLICIES(max_element)
REPLAY_POLICIES(min_element)

template <class I, class O, class Op>
O replay_inclusive_scan(bool on, cudaStream_t stream, I first, I last, O out, Op op) {
  auto from = replay_raw(first);
  auto to = replay_raw(out);
  const auto count = last - first;
  using V = replay_value<I>;
  replay_run(on, stream, REPLAY_THRUST_SITE("inclusive_scan"), [=]() mutable {
    if (count == 0) return;
    V sum = from[0];
    to[0] = sum;
    for (ptrdiff_t i = 1; i < count; i++) {
      sum = op(sum, from[i]);
      to[i] = sum;
    }
  });
  return out + count;
}
template <class I, class O>
O replay_inclusive_scan(bool on, cudaStream_t stream, I first, I last, O out) {
  return replay_inclusive_scan(on, stream, first, last, out, ::std::plus<replay_value<I>>());
}
REPLAY_POLICIES(inclusive_scan)
template <class I, class O, class T, class Op>
O replay_exclusive_scan(bool on, cudaStream_t stream, I first, I last, O out, T initial, Op op) {
  auto from = replay_raw(first);
  auto to = replay_raw(out);
  const auto count = last - first;
  replay_run(on, stream, REPLAY_THRUST_SITE("exclusive_scan"), [=]() mutable {
    T sum = initial;
    for (ptrdiff_t i = 0; i < count; i++) {
      const T next = op(sum, from[i]);
      to[i] = sum;
      sum = next;
    }
  });
  return out + count;
}
template <class I, class O, class T>
O replay_exclusive_scan(bool on, cudaStream_t stream, I first, I last, O out, T initial) {
  return replay_exclusive_scan(on, stream, first, last, out, initial, ::std::plus<T>());
}
template <class I, class O>
O replay_exclusive_scan(bool on, cudaStream_t stream, I first, I last, O out) {
  return replay_exclusive_scan(on, stream, first, last, out, replay_value<I>(0));
}
REPLAY_POLICIES(exclusive_scan)

/// Sorts are stable: each element goes behind all smaller and equal ones.
template <class K, class V, class Less>
void replay_merge_sort(K* keys, V* values, ptrdiff_t count, K* more_keys, V* more_values, Less less) {
  for (ptrdiff_t width = 1; width < count; width *= 2) {
    for (ptrdiff_t begin = 0; begin < count; begin += 2 * width) {
      const ptrdiff_t middle = begin + width < count ? begin + width : count;
      const ptrdiff_t end = middle + width < count ? middle + width : count;
      ptrdiff_t a = begin, b = middle;
      for (ptrdiff_t to = begin; to < end; to++) {
        const bool second = a == middle || (b < end && less(keys[b], keys[a]));
        const ptrdiff_t from = second ? b++ : a++;
        more_keys[to] = keys[from];
        if (values) more_values[to] = values[from];
      }
    }
    for (ptrdiff_t i = 0; i < count; i++) {
      keys[i] = more_keys[i];
      if (values) values[i] = more_values[i];
    }
  }
}
/// Memory for `count` elements where the algorithm runs.
template <class T>
struct replay_room {
  T* at = nullptr;
  bool on;
  replay_room(bool on, ptrdiff_t count) : on(on) {
    if (on) cudaMalloc(&at, (size_t)count * sizeof(T) + 1);
    else at = static_cast<T*>(malloc((size_t)count * sizeof(T) + 1));
  }
  ~replay_room() {
    if (on) cudaFree(at); else free(at);
  }
};
template <class I, class J, class Less>
void replay_sort_by_key(bool on, cudaStream_t stream, I first, I last, J second, Less less) {
  auto* keys = &*replay_raw(first);
  auto* values = &*replay_raw(second);
  const ptrdiff_t count = last - first;
  replay_room<replay_value<I>> more_keys(on, count);
  replay_room<replay_value<J>> more_values(on, count);
  auto *k = more_keys.at;
  auto *v = more_values.at;
  replay_run(on, stream, REPLAY_THRUST_SITE("sort_by_key"),
             [=] { replay_merge_sort(keys, values, count, k, v, less); });
}
template <class I, class J>
void replay_sort_by_key(bool on, cudaStream_t stream, I first, I last, J second) {
  replay_sort_by_key(on, stream, first, last, second, ::std::less<void>());
}
REPLAY_POLICIES(sort_by_key)
template <class I, class Less = ::std::less<void>>
void replay_sort(bool on, cudaStream_t stream, I first, I last, Less less = Less()) {
  auto* keys = &*replay_raw(first);
  const ptrdiff_t count = last - first;
  replay_room<replay_value<I>> more(on, count);
  auto *k = more.at;
  replay_run(on, stream, REPLAY_THRUST_SITE("sort"),
             [=] { replay_merge_sort(keys, (char*)nullptr, count, k, (char*)nullptr, less); });
}
REPLAY_POLICIES(sort)
#define replay_stable_sort replay_sort
#define replay_stable_sort_by_key replay_sort_by_key
REPLAY_POLICIES(stable_sort)
REPLAY_POLICIES(stable_sort_by_key)
#undef replay_stable_sort
#undef replay_stable_sort_by_key

/// Between the host and the device, or on one side.
template <class I, class O>
O copy(I first, I last, O out) {
  const ptrdiff_t count = last - first;
  constexpr bool from_device = replay_place<I>::on_device, to_device = replay_place<O>::on_device;
  if constexpr (from_device == to_device || replay_place<I>::anywhere) {
    auto from = replay_raw(first);
    auto to = replay_raw(out);
    replay_run(to_device, nullptr, REPLAY_THRUST_SITE("copy"), [=]() mutable {
      for (ptrdiff_t i = 0; i < count; i++) to[i] = from[i];
    });
  } else if (count > 0) {
    static_assert(::std::is_same<replay_value<I>, replay_value<O>>::value,
                  "thrust: a copy between the host and the device keeps the type");
    cudaMemcpy(&*replay_raw(out), &*replay_raw(first), (size_t)count * sizeof(replay_value<I>),
               to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
  }
  return out + count;
}
template <class I, class N, class O>
O copy_n(I first, N count, O out) {
  return thrust::copy(first, first + count, out);
}

}  // namespace thrust
