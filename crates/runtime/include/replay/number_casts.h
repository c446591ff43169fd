// Casts by which sources look at numbers as integers, in the float64 shadow. The type of the operand tells what is seen:
// integers stay as they are, a word that is a number is its bits (`number_bits.h`). Anything else ends the replay.
#pragma once

#include "replay/number_bits.h"
#include "replay/packs.h"

#ifdef REPLAY_SHADOW
namespace replay_rt {

/// The bytes of an integer; 0 of anything else.
template <class T, bool = std::is_integral<T>::value || std::is_enum<T>::value>
inline constexpr size_t integer_bytes = 0;
template <class T>
inline constexpr size_t integer_bytes<T, true> = sizeof(T);
template <class T>
inline constexpr bool holds_words = integer_bytes<T> == 4;
template <class T>
inline constexpr bool is_number = std::is_same<T, double>::value;
/// Vectors of integers by which sources move numbers.
template <class T>
inline constexpr bool is_integer_vector = false;
#define REPLAY_VECTOR(NAME)                                  \
  template <> inline constexpr bool is_integer_vector<NAME##1> = true; \
  template <> inline constexpr bool is_integer_vector<NAME##2> = true; \
  template <> inline constexpr bool is_integer_vector<NAME##3> = true; \
  template <> inline constexpr bool is_integer_vector<NAME##4> = true;
REPLAY_VECTOR(char) REPLAY_VECTOR(uchar) REPLAY_VECTOR(short) REPLAY_VECTOR(ushort)
REPLAY_VECTOR(int) REPLAY_VECTOR(uint) REPLAY_VECTOR(long) REPLAY_VECTOR(ulong)
REPLAY_VECTOR(longlong) REPLAY_VECTOR(ulonglong)
#undef REPLAY_VECTOR
/// Whether a pointer to `T` looks into what it points to.
template <class T>
inline constexpr bool looks_into = integer_bytes<T> > 1 || is_integer_vector<T>;

template <class T>
struct pointed_to { using type = void; };
template <class T>
struct pointed_to<T*> { using type = std::remove_cv_t<T>; };
template <class T>
struct pointed_to<T* __restrict__> { using type = std::remove_cv_t<T>; };
template <class T>
using pointed = typename pointed_to<std::decay_t<T>>::type;

/// `reinterpret_cast<To>` of anything, written as `what` at a place of the sources. Integers seen as integers stay as
/// they are, and words that are numbers become [`bits_place`]. Any other look into numbers ends the replay.
template <class To>
struct bits_cast {
  shadow_place at;
  bits_cast(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class From>
  auto operator()(From&& from) const {
    using Seen = pointed<To>;
    using Here = pointed<From>;
    if constexpr (is_pack<Seen>) {
      return pack_cast<To, true>(at.what, at.file, at.line)(from);
    } else if constexpr (is_number<Seen> && holds_words<Here>) {
      return number_pointer<Here>{(Here*)from, at};
    } else if constexpr (!looks_into<Seen>) {
      return (To)from;
    } else if constexpr (is_number<Here> && holds_words<Seen>) {
      return bits_pointer<Seen>{(double*)from, at};
    } else if constexpr (looks_into<Here>) {
      return (To)from;
    } else {
      at.end_shadow();
      return (To)from;
    }
  }
};
/// The same to a reference.
template <class To>
struct bits_cast<To&> {
  shadow_place at;
  bits_cast(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class From>
  decltype(auto) operator()(From&& from) const {
    using Seen = std::remove_cv_t<To>;
    using Here = std::remove_cv_t<std::remove_reference_t<From>>;
    if constexpr (is_number<Here> && holds_words<Seen>) {
      return bits_place<Seen>((double*)&from, at);
    } else if constexpr (is_number<Seen> && holds_words<Here>) {
      return number_place<Here>{(Here*)&from, at};
    } else if constexpr (!looks_into<Seen> || looks_into<Here>) {
      return reinterpret_cast<To&>(from);
    } else {
      at.end_shadow();
      return reinterpret_cast<To&>(from);
    }
  }
};

/// A cast to a pointer to bytes. Those of a number are its float's; those of other words that the headers widen have
/// no meaning.
template <class To>
struct byte_cast {
  shadow_place at;
  byte_cast(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class From>
  auto operator()(From&& from) const {
    using Here = pointed<From>;
    if constexpr (is_number<Here>) {
      return byte_pointer<pointed<To>>{(double*)from, at};
    } else {
      if constexpr (source_bytes<Here> != 0) at.end_shadow();
      return (To)from;
    }
  }
};

/// `bits_cast` in host code: memory without a type is not looked into there.
template <class To>
struct host_bits_cast : bits_cast<To> {
  using bits_cast<To>::bits_cast;
  template <class From>
  decltype(auto) operator()(From&& from) const {
    if constexpr (std::is_pointer<To>::value &&
                  (std::is_void<pointed<From>>::value || integer_bytes<pointed<From>> == 1)) {
      return (To)from;
    } else {
      return bits_cast<To>::operator()(static_cast<From&&>(from));
    }
  }
};

}  // namespace replay_rt
#endif
