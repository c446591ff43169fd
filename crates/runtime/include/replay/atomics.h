// Atomic functions and memory fences.
// CUDA C++ Programming Guide: "Atomic Functions", "Memory Fence Functions".
//
// Every atomic waits for its block's turn first (replay_rt::atomic_turn), so results do not
// depend on the number of cores. With the turn no other block modifies anything atomically, so a
// load and a store make one atomic step. Both are relaxed atomics: other blocks read whole values.
#pragma once

#include "replay/math.h"
#include "replay/thread.h"

namespace replay_rt {

#ifdef REPLAY_CHECKED
// The engine is told of an atomic as one access, and its parts are not told. Nothing else runs meanwhile.
// `noipa` is g++'s: it would move the load to the caller.
#define REPLAY_UNTOLD __attribute__((noinline, noipa, no_sanitize("thread")))

template <class T>
REPLAY_UNTOLD void load_untold(const T* address, T* value) {
  __builtin_memcpy(value, address, sizeof(T));
}
template <class T>
REPLAY_UNTOLD void store_untold(T* address, const T* value) {
  __builtin_memcpy(address, value, sizeof(T));
}
template <class T>
inline void store_relaxed(T* address, T value) {
  store_untold(address, &value);
}
template <class T>
inline T load_relaxed(const T* address) {
  T value;
  tell_atomic(address, sizeof(T));
  load_untold(address, &value);
  return value;
}
#else
inline void before_swap(const volatile void*, size_t, const void*) {}
template <class T>
inline T load_relaxed(const T* address) {
  T value;
  __atomic_load(address, &value, __ATOMIC_RELAXED);
  return value;
}
template <class T>
inline void store_relaxed(T* address, T value) {
  __atomic_store(address, &value, __ATOMIC_RELAXED);
}
#endif

/// Replaces `*address` by `change(*address)` and returns the old value.
template <class T, class Change>
inline T atomic_change(T* address, Change change) {
  atomic_turn(address);
  T before = load_relaxed(address);
  store_relaxed(address, change(before));
  return before;
}

/// The same for each member of a vector: CUDA promises atomicity per member only.
template <class V, class Change>
inline V atomic_change_each(V* address, Change change) {
  atomic_turn(address);
#ifdef REPLAY_CHECKED
  V before = load_relaxed(address);
  store_relaxed(address, change(before));
#else
  V before = *address;
  *address = change(before);
#endif
  return before;
}

#ifdef REPLAY_SHADOW
/// The old value of an atomic addition of a pair. A number with zero added to it is read on request.
template <class V>
struct found_pair {
  const V* address;
  V before;
  bool added_x, added_y;
  operator V() const {
    V found = before;
    if (!added_x) found.x = address->x;
    if (!added_y) found.y = address->y;
    return found;
  }
};

/// Adds a pair of narrow numbers. Sources add a single one as a pair with a zero as the other half of an aligned
/// word; here the zero lies behind the number, where a tensor may have ended.
template <class V>
inline found_pair<V> add_pair(V* address, V value) {
  atomic_turn(address);
  found_pair<V> found{address, value, double(value.x) != 0, double(value.y) != 0};
  if (found.added_x) {
    found.before.x = address->x;
    address->x = __hadd(address->x, value.x);
  }
  if (found.added_y) {
    found.before.y = address->y;
    address->y = __hadd(address->y, value.y);
  }
  return found;
}
#endif

}  // namespace replay_rt

// One atomic in its three scopes, equal here: device, block, system.
#define REPLAY_ATOMIC_1(T, name, expression)                                      \
  inline T name(T* address, T value) {                                            \
    return replay_rt::atomic_change(address, [=](T old) -> T { return expression; }); \
  }                                                                               \
  inline T name##_block(T* address, T value) { return name(address, value); }     \
  inline T name##_system(T* address, T value) { return name(address, value); }
#define REPLAY_ATOMIC_CAS(T)                                                      \
  inline T atomicCAS(T* address, T compare, T value) {                            \
    replay_rt::before_swap(address, sizeof(T), &compare);                         \
    return replay_rt::atomic_change(address,                                      \
                                    [=](T old) -> T { return old == compare ? value : old; }); \
  }                                                                               \
  inline T atomicCAS_block(T* address, T compare, T value) {                      \
    return atomicCAS(address, compare, value);                                    \
  }                                                                               \
  inline T atomicCAS_system(T* address, T compare, T value) {                     \
    return atomicCAS(address, compare, value);                                    \
  }

#define REPLAY_ATOMIC_BITS(T)                        \
  REPLAY_ATOMIC_1(T, atomicAnd, old & value)         \
  REPLAY_ATOMIC_1(T, atomicOr, old | value)          \
  REPLAY_ATOMIC_1(T, atomicXor, old ^ value)
#define REPLAY_ATOMIC_ORDER(T)                              \
  REPLAY_ATOMIC_1(T, atomicMin, value < old ? value : old)  \
  REPLAY_ATOMIC_1(T, atomicMax, value > old ? value : old)

REPLAY_ATOMIC_1(int, atomicAdd, (int)((unsigned)old + (unsigned)value))
REPLAY_ATOMIC_1(unsigned, atomicAdd, old + value)
REPLAY_ATOMIC_1(unsigned long long, atomicAdd, old + value)
REPLAY_ATOMIC_1(double, atomicAdd, old + value)
REPLAY_ATOMIC_1(int, atomicSub, (int)((unsigned)old - (unsigned)value))
REPLAY_ATOMIC_1(unsigned, atomicSub, old - value)
REPLAY_ATOMIC_1(int, atomicExch, ((void)old, value))
REPLAY_ATOMIC_1(unsigned, atomicExch, ((void)old, value))
REPLAY_ATOMIC_1(unsigned long long, atomicExch, ((void)old, value))
#ifdef REPLAY_SHADOW
REPLAY_ATOMIC_1(double, atomicExch, ((void)old, value))
#else
REPLAY_ATOMIC_1(float, atomicAdd, old + value)
REPLAY_ATOMIC_1(float, atomicExch, ((void)old, value))
#endif
REPLAY_ATOMIC_ORDER(int)
REPLAY_ATOMIC_ORDER(unsigned)
REPLAY_ATOMIC_ORDER(long long)
REPLAY_ATOMIC_ORDER(unsigned long long)
REPLAY_ATOMIC_BITS(int)
REPLAY_ATOMIC_BITS(unsigned)
REPLAY_ATOMIC_BITS(unsigned long long)
REPLAY_ATOMIC_1(unsigned, atomicInc, old >= value ? 0u : old + 1)
REPLAY_ATOMIC_1(unsigned, atomicDec, old == 0 || old > value ? value : old - 1)
REPLAY_ATOMIC_CAS(int)
REPLAY_ATOMIC_CAS(unsigned)
REPLAY_ATOMIC_CAS(unsigned long long)
REPLAY_ATOMIC_CAS(unsigned short)

#undef REPLAY_ATOMIC_BITS
#undef REPLAY_ATOMIC_ORDER
#undef REPLAY_ATOMIC_CAS

#ifdef REPLAY_SHADOW
namespace replay_rt {
/// The bits of a double in the order in which sources compare those of a float as an `I`.
template <class I>
inline auto order_of_bits(double number) {
  using Wide = std::conditional_t<std::is_signed<I>::value, long long, unsigned long long>;
  return bits<Wide>(number);
}
/// Replaces the number at `place`, seen as an `I`, by `value` if `replaces` says so of the old number and the new one.
template <class I, class Replaces>
inline number_bits<I> atomic_bits(bits_pointer<I> place, const bits_word<I>& value, Replaces replaces) {
  const double number = value.as_number(place.at);
  return {atomic_change(place.number, [=](double old) { return replaces(old, number) ? number : old; })};
}
/// An integer, or the bits of a number, as a word.
template <class I, class From>
inline bits_word<I> as_word(const From& from) {
  if constexpr (std::is_integral<From>::value)
    return (I)from;
  else
    return from;
}
template <class... Values>
using one_is_integral = std::enable_if_t<(std::is_integral<Values>::value || ...)>;
}  // namespace replay_rt
// The same with an integer that is not known as the bits of a number.
#define REPLAY_ATOMIC_INTEGER(I, name)                                                              \
  template <class V, class = replay_rt::one_is_integral<V>>                                         \
  inline replay_rt::number_bits<I> name(replay_rt::bits_pointer<I> place, V value) {                \
    return name(place, replay_rt::bits_word<I>((I)value));                                          \
  }
// Numbers whose bits sources compare and swap, as there is no such atomic of floats.
#define REPLAY_ATOMIC_NUMBER(I)                                                                     \
  inline replay_rt::number_bits<I> atomicExch(replay_rt::bits_pointer<I> place,                     \
                                              const replay_rt::bits_word<I>& value) {               \
    return replay_rt::atomic_bits(place, value, [](double, double) { return true; });               \
  }                                                                                                 \
  inline replay_rt::number_bits<I> atomicMin(replay_rt::bits_pointer<I> place,                      \
                                             const replay_rt::bits_word<I>& value) {                \
    return replay_rt::atomic_bits(place, value, [](double old, double by) {                         \
      return replay_rt::order_of_bits<I>(by) < replay_rt::order_of_bits<I>(old);                    \
    });                                                                                             \
  }                                                                                                 \
  inline replay_rt::number_bits<I> atomicMax(replay_rt::bits_pointer<I> place,                      \
                                             const replay_rt::bits_word<I>& value) {                \
    return replay_rt::atomic_bits(place, value, [](double old, double by) {                         \
      return replay_rt::order_of_bits<I>(by) > replay_rt::order_of_bits<I>(old);                    \
    });                                                                                             \
  }                                                                                                 \
  inline replay_rt::number_bits<I> atomicCAS(replay_rt::bits_pointer<I> place,                      \
                                             const replay_rt::bits_word<I>& compare,                \
                                             const replay_rt::bits_word<I>& value) {                \
    return replay_rt::atomic_bits(place, value, [&](double old, double) {                           \
      return replay_rt::bits_word<I>(replay_rt::number_bits<I>{old}) == compare;                    \
    });                                                                                             \
  }                                                                                                 \
  REPLAY_ATOMIC_INTEGER(I, atomicExch)                                                              \
  REPLAY_ATOMIC_INTEGER(I, atomicMin)                                                               \
  REPLAY_ATOMIC_INTEGER(I, atomicMax)                                                               \
  template <class C, class V, class = replay_rt::one_is_integral<C, V>>                             \
  inline replay_rt::number_bits<I> atomicCAS(replay_rt::bits_pointer<I> place, const C& compare,    \
                                             const V& value) {                                      \
    return atomicCAS(place, replay_rt::as_word<I>(compare), replay_rt::as_word<I>(value));          \
  }
REPLAY_ATOMIC_NUMBER(int)
REPLAY_ATOMIC_NUMBER(unsigned)
#undef REPLAY_ATOMIC_NUMBER
#undef REPLAY_ATOMIC_INTEGER
#endif

// Compute capability 9.0: vectors of floats in global memory.
inline float2 atomicAdd(float2* address, float2 value) {
  return replay_rt::atomic_change_each(
      address, [=](float2 old) { return float2{old.x + value.x, old.y + value.y}; });
}
inline float4 atomicAdd(float4* address, float4 value) {
  return replay_rt::atomic_change_each(address, [=](float4 old) {
    return float4{old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w};
  });
}

namespace replay_rt {
inline void fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  may_be_waiting(16);
}
}  // namespace replay_rt
inline void __threadfence_block() { replay_rt::fence(); }
inline void __threadfence() { replay_rt::fence(); }
inline void __threadfence_system() { replay_rt::fence(); }
