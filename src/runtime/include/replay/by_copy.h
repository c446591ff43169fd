// The results of calls in objects that are made in place, in checked builds (`frontend/in_place.rs`).
#pragma once

#ifdef __clang__
// clang tells of what a call returns into memory.
#define REPLAY_BY_COPY(...) (__VA_ARGS__)
#else
#define REPLAY_BY_COPY(...) ::replay_rt::by_copy(__VA_ARGS__)
namespace replay_rt {
/// `value` itself, but if it is the result of a call: a temporary, which is copied to where it goes.
template <class T>
__attribute__((always_inline)) constexpr T&& by_copy(T&& value) {
  return static_cast<T&&>(value);
}
}  // namespace replay_rt
#endif
