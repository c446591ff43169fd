// The results of calls in objects made in place, in checked builds (`frontend/in_place.rs`).
#pragma once

#ifdef __clang__
// clang reports the stores of a call's result.
#define REPLAY_BY_COPY(...) (__VA_ARGS__)
#else
#define REPLAY_BY_COPY(...) ::replay_rt::by_copy(__VA_ARGS__)
namespace replay_rt {
/// `value` itself. The result of a call becomes a temporary, and is copied to its place.
template <class T>
__attribute__((always_inline)) constexpr T&& by_copy(T&& value) {
  return static_cast<T&&>(value);
}
}  // namespace replay_rt
#endif
