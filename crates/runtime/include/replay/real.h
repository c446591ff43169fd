// The type of the user's `float` in this artifact, and an artifact's refusal of unsupported
// constructs. Knows nothing else of the machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace replay_rt {
#ifdef REPLAY_SHADOW
/// The float64 shadow: the sources' `float` was rewritten to `double`, so the shim follows.
using real = double;
#else
using real = float;
#endif
}  // namespace replay_rt

// A function that exists by name only: a remaining call in the program does not compile, and
// the compiler shows this text. GCC: "Common Function Attributes", `error`; Clang: `diagnose_if`.
#ifdef __clang__
#define REPLAY_UNSUPPORTED(text) __attribute__((diagnose_if(1, text, "error")))
#else
#define REPLAY_UNSUPPORTED(text) __attribute__((error(text)))
#endif

#ifdef REPLAY_SHADOW
namespace replay_rt {
/// Ends the replay: `what`, at this place of the sources, has no meaning in the shadow. An initialiser, run while the
/// artifact is loaded, ends it at the begin of the call.
void no_shadow(const char* what, const char* file, uint32_t line);
/// Something at a place of the sources that may have no meaning in the shadow.
struct shadow_place {
  const char* what;
  const char* file;
  uint32_t line;
  /// Ends the replay for it.
  void end_shadow() const { no_shadow(what, file, line); }
};
/// The call begins.
void begin_shadow();

/// The factor from the sources' bytes to those here, for memory behind a pointer, or behind a pointer to one: the
/// sources' are 4 for each `float`.
template <class T>
inline constexpr int float_width = 1;
template <>
inline constexpr int float_width<double> = 2;
template <class T>
inline constexpr int float_width<const T> = float_width<T>;
template <class T>
inline constexpr int float_width<T&> = float_width<T>;
template <class T>
inline constexpr int float_width<T*> = float_width<T>;
template <class T, size_t N>
inline constexpr int float_width<T[N]> = float_width<T>;
template <class T, size_t N>
inline constexpr int float_width<const T[N]> = float_width<T>;

/// The class behind a pointer, or an empty one.
struct no_class {};
template <class T>
struct class_behind { using type = no_class; };
template <class T>
struct class_behind<T*> { using type = T; };
template <class T>
struct class_behind<T&> : class_behind<T> {};
template <class T, size_t N>
struct class_behind<T[N]> { using type = T; };
/// Whether `bytes` are those of whole objects, if classes are behind `Pointer`.
template <class Pointer>
inline bool holds_whole_classes(size_t bytes) {
  using T = typename class_behind<Pointer>::type;
  if constexpr (__is_class(T))
    return bytes % sizeof(T) == 0;
  else
    return true;
}
/// A number of bytes written as a literal, for a copy to `To` and from `From`: where that leads to numbers, there are more
/// bytes here. `Known` says that they are counted.
template <bool Known, class To, class From>
inline size_t literal_bytes(const char* what, const char* file, uint32_t line, size_t bytes) {
  const bool is_whole = holds_whole_classes<To>(bytes) && holds_whole_classes<From>(bytes);
  if (!is_whole || (!Known && float_width<To> != 1)) no_shadow(what, file, line);
  return bytes;
}

/// The size in the sources of a type that the headers widen; 0 of any other.
template <class T>
inline constexpr size_t source_bytes = 0;
/// `sizeof(T)` in the sources, if 1 / `Divisor` of a `double` or of a class was natively there.
template <class T, size_t Divisor>
inline constexpr size_t native_size =
    source_bytes<T> ? source_bytes<T>
                    : sizeof(T) / (__is_class(T) || __is_union(T) ? Divisor : 1);
template <size_t Divisor>
inline constexpr size_t native_size<double, Divisor> = sizeof(double) / (Divisor > 1 ? 2 : 1);
template <class T, size_t Divisor>
inline constexpr size_t native_size<const T, Divisor> = native_size<T, Divisor>;
template <class T, size_t Divisor>
inline constexpr size_t native_size<T&, Divisor> = native_size<T, Divisor>;
template <class T, size_t N, size_t Divisor>
inline constexpr size_t native_size<T[N], Divisor> = N * native_size<T, Divisor>;
template <class T, size_t N, size_t Divisor>
inline constexpr size_t native_size<const T[N], Divisor> = N * native_size<T, Divisor>;
/// `sizeof(T)` in the sources where it decides something: a `double` is a `float` there.
template <class T>
inline constexpr size_t deciding_size = source_bytes<T> ? source_bytes<T> : sizeof(T);
template <>
inline constexpr size_t deciding_size<double> = 4;
template <class T>
inline constexpr size_t deciding_size<const T> = deciding_size<T>;
template <class T>
inline constexpr size_t deciding_size<T&> = deciding_size<T>;
template <class T, size_t N>
inline constexpr size_t deciding_size<T[N]> = N * deciding_size<T>;

}  // namespace replay_rt

// A bit pattern of a type that is, or may be, wider in the shadow: there it has no meaning.
#define REPLAY_BIT_CAST(result, name, argument) REPLAY_BIT_CAST_NAMED(result, name, argument)
#define REPLAY_BIT_CAST_NAMED(result, name, argument)                        \
  inline result name(argument, const char* file = __builtin_FILE(),          \
                     uint32_t line = __builtin_LINE()) {                     \
    replay_rt::no_shadow(#name, file, line);                                 \
    result nothing{};                                                        \
    return nothing;                                                          \
  }
#endif

namespace replay_rt {
/// The bits of `from` as a `To` of the same size.
template <class To, class From>
inline To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace replay_rt
