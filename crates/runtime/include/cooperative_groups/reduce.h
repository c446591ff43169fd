// cg::reduce over tiles and coalesced groups. CUDA C++ Programming Guide: "Reduce".
//
// A tile reduces by a butterfly over ranks: at distances 16, 8, 4, 2, 1 (from half its size down)
// every thread combines its value with the value of the thread across. A coalesced group combines the
// values in the order of ranks. Both orders are fixed, so sums of floats have one result.
#pragma once

#include "cooperative_groups.h"
#include "replay/folds.h"

namespace cooperative_groups {

template <class T = void>
struct plus {
  T operator()(const T& a, const T& b) const { return a + b; }
};
template <class T = void>
struct less {
  T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T = void>
struct greater {
  T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T = void>
struct bit_and {
  T operator()(const T& a, const T& b) const { return a & b; }
};
template <class T = void>
struct bit_or {
  T operator()(const T& a, const T& b) const { return a | b; }
};
template <class T = void>
struct bit_xor {
  T operator()(const T& a, const T& b) const { return a ^ b; }
};

/// Whether an operation on values of type `T` is one of those above, on numbers: it does nothing else, so it may be
/// done for all lanes at once.
template <class T, class Operation>
struct is_pure { static constexpr bool value = false; };
template <class T, class Operation>
struct is_pure<T, const Operation> : is_pure<T, Operation> {};
template <class T, class Operation>
struct is_pure<T, Operation&> : is_pure<T, Operation> {};
#define REPLAY_PURE(operation)                      \
  template <class T>                                \
  struct is_pure<T, operation<T>> {                 \
    typedef operation<T> type;                      \
    static constexpr bool value = !__is_class(T);   \
  };
REPLAY_PURE(plus)
REPLAY_PURE(less)
REPLAY_PURE(greater)
REPLAY_PURE(bit_and)
REPLAY_PURE(bit_or)
REPLAY_PURE(bit_xor)
#undef REPLAY_PURE

template <unsigned Size, class Parent, class T, class Operation>
inline T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operation&& operation,
                REPLAY_SITE_PARAMS) {
  if constexpr (is_pure<T, Operation>::value) {
    replay_rt::fold_steps steps;
    for (unsigned distance = Size / 2; distance > 0; distance /= 2) steps.add(distance);
    if (steps.suit<T, T>(Size) && tile.is_segment())
      return tile.template fold<typename is_pure<T, Operation>::type>(value, steps, file, line);
  }
  for (unsigned distance = Size / 2; distance > 0; distance /= 2)
    value = operation(value, tile.shfl_xor(value, distance, file, line));
  return value;
}

template <class T, class Operation>
inline T reduce(const coalesced_group& group, T value, Operation&& operation,
                REPLAY_SITE_PARAMS) {
  T result = group.shfl(value, 0, file, line);
  for (unsigned rank = 1; rank < group.size(); rank++)
    result = operation(result, group.shfl(value, rank, file, line));
  return result;
}

}  // namespace cooperative_groups
