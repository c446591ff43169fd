// The type that `float` of the user's sources has in this artifact, and how an artifact refuses
// what it cannot do. Knows nothing else of the machine.
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

// A function that exists by name only: a call that is left in the program does not compile, and
// the compiler shows this text. GCC: "Common Function Attributes", `error`; Clang: `diagnose_if`.
#ifdef __clang__
#define REPLAY_UNSUPPORTED(text) __attribute__((diagnose_if(1, text, "error")))
#else
#define REPLAY_UNSUPPORTED(text) __attribute__((error(text)))
#endif

// A bit pattern of a type that is wider in the shadow: there it has no meaning.
#ifdef REPLAY_SHADOW
#define REPLAY_BIT_CAST(result, name, argument) REPLAY_BIT_CAST_NAMED(result, name, argument)
#define REPLAY_BIT_CAST_NAMED(result, name, argument)                                           \
  REPLAY_UNSUPPORTED(#name ": the float64 shadow has no bit pattern of a narrower type")        \
  result name(argument)
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
