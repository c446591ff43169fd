// Bits of numbers in the float64 shadow: those of the number rounded to its native type. Sources move numbers as
// integers; then the number itself comes along. A number made of bits is the one that they denote. Bits of a number
// that is no float do not tell it, so from then on the shadow ends where bits become a number.
#pragma once

#include "replay/real.h"

#ifdef REPLAY_SHADOW
#include <type_traits>

namespace replay_rt {

/// Whether the call has read the bits of a number that is no float.
inline bool has_read_rounded_bits = false;
inline void note_rounded_bits() { __atomic_store_n(&has_read_rounded_bits, true, __ATOMIC_RELAXED); }
inline bool has_noted_rounded_bits() {
  return __atomic_load_n(&has_read_rounded_bits, __ATOMIC_RELAXED);
}

/// The bits of the float nearest to `number`.
template <class I>
inline I read_bits(double number) {
  const float rounded = (float)number;
  if ((double)rounded != number && number == number) note_rounded_bits();
  return bits<I>(rounded);
}
/// The number with these bits, made at a place of the sources.
template <class I>
inline double number_of_bits(I from, const shadow_place& at) {
  if (has_noted_rounded_bits()) at.end_shadow();
  return bits<float>(from);
}

/// The bits of a number, as an `I`.
template <class I>
struct number_bits {
  double number;
  operator I() const { return read_bits<I>(number); }
};

// Changes of an integer by arithmetic, for a class `T` that reads and takes an `I`.
#define REPLAY_CHANGE(T, OP) \
  T& operator OP##=(I by) { return *this = (I)((I)*this OP by); }
#define REPLAY_CHANGES(T)                                                               \
  REPLAY_CHANGE(T, +) REPLAY_CHANGE(T, -) REPLAY_CHANGE(T, *) REPLAY_CHANGE(T, &)       \
  REPLAY_CHANGE(T, |) REPLAY_CHANGE(T, ^) REPLAY_CHANGE(T, <<) REPLAY_CHANGE(T, >>)
/// An integer of the sources that may be the bits of a number.
template <class I>
struct bits_word {
  I integer = 0;
  double number = 0;
  bool is_number = false;
  bits_word() = default;
  bits_word(I from) : integer(from) {}
  bits_word(number_bits<I> from) : number(from.number), is_number(true) {}
  operator I() const { return is_number ? read_bits<I>(number) : integer; }
  friend bool operator==(const bits_word& a, const bits_word& b) {
    return a.is_number && b.is_number ? bits<long long>(a.number) == bits<long long>(b.number)
                                      : (I)a == (I)b;
  }
  friend bool operator!=(const bits_word& a, const bits_word& b) { return !(a == b); }
  double as_number(const shadow_place& at) const {
    return is_number ? number : number_of_bits(integer, at);
  }
  REPLAY_CHANGES(bits_word)
};

/// A number seen as an `I`.
template <class I>
struct bits_place {
  double* number;
  shadow_place at;
  operator number_bits<I>() const { return {*number}; }
  operator bits_word<I>() const { return number_bits<I>{*number}; }
  operator I() const { return read_bits<I>(*number); }
  bits_place& operator=(const bits_word<I>& from) {
    *number = from.as_number(at);
    return *this;
  }
  bits_place& operator=(I from) { return *this = bits_word<I>(from); }
  bits_place& operator=(number_bits<I> from) { return *this = bits_word<I>(from); }
  bits_place& operator=(const bits_place& from) { return *this = number_bits<I>{*from.number}; }
  bits_place(const bits_place&) = default;
  bits_place(double* number, const shadow_place& at) : number(number), at(at) {}
  REPLAY_CHANGES(bits_place)
};

/// A pointer to numbers seen as `I`.
template <class I>
struct bits_pointer {
  double* number;
  shadow_place at;
  bits_place<I> operator*() const { return {number, at}; }
  template <class Index>
  bits_place<I> operator[](Index index) const { return {number + index, at}; }
  template <class Index>
  bits_pointer operator+(Index by) const { return {number + by, at}; }
  bits_pointer& operator++() { return ++number, *this; }
  bits_pointer operator++(int) { bits_pointer old = *this; ++number; return old; }
  /// Sources that keep it as a pointer to integers look into the number.
  operator I*() const { return at.end_shadow(), (I*)number; }
  operator const I*() const { return at.end_shadow(), (const I*)number; }
  explicit operator double*() const { return number; }
};

/// A pointer to the bytes of a number, seen as `B`. They can be read; whoever gets the pointer may only move the number.
template <class B>
struct byte_pointer {
  double* number;
  shadow_place at;
  size_t offset = 0;
  B operator*() const { return (*this)[0]; }
  template <class Index>
  B operator[](Index index) const {
    const size_t place = offset + index;
    if (place >= sizeof(float)) at.end_shadow();
    return (B)(read_bits<uint32_t>(*number) >> 8 * place);
  }
  template <class Index>
  byte_pointer operator+(Index by) const { return {number, at, offset + by}; }
  byte_pointer& operator++() { return ++offset, *this; }
  byte_pointer operator++(int) { byte_pointer old = *this; ++offset; return old; }
  double* whole() const {
    if (offset != 0) at.end_shadow();
    return number;
  }
  operator void*() const { return whole(); }
  operator const void*() const { return whole(); }
  operator B*() const { return at.end_shadow(), (B*)number; }
  operator const B*() const { return at.end_shadow(), (const B*)number; }
};

/// A word seen as a number.
template <class I>
struct number_place {
  I* word;
  shadow_place at;
  operator double() const { return number_of_bits(*word, at); }
  number_place& operator=(double from) { return *word = read_bits<I>(from), *this; }
};
template <class I>
struct number_pointer {
  I* word;
  shadow_place at;
  number_place<I> operator*() const { return {word, at}; }
  number_place<I> operator[](int) const { return **this; }
  operator double*() const { return at.end_shadow(), (double*)word; }
  operator const double*() const { return at.end_shadow(), (const double*)word; }
};

/// The integer of a union that shares its place with a number.
template <class I>
class bits_member {
  double number;

 public:
  bits_member() = default;
  bits_member(I from, const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE())
      : number(number_of_bits(from, {"union", file, line})) {}
  bits_member(number_bits<I> from) : number(from.number) {}
  operator I() const { return read_bits<I>(number); }
  operator bits_word<I>() const { return number_bits<I>{number}; }
  friend bool operator==(const bits_member& a, const bits_member& b) {
    return bits<long long>(a.number) == bits<long long>(b.number);
  }
  friend bool operator!=(const bits_member& a, const bits_member& b) { return !(a == b); }
  REPLAY_CHANGES(bits_member)
#undef REPLAY_CHANGES
#undef REPLAY_CHANGE
};

}  // namespace replay_rt

inline replay_rt::number_bits<int> __float_as_int(double x) { return {x}; }
inline replay_rt::number_bits<unsigned> __float_as_uint(double x) { return {x}; }
#define REPLAY_OF_BITS(I, name)                                                          \
  inline double name(replay_rt::number_bits<I> from) { return from.number; }             \
  inline double name(const replay_rt::bits_word<I>& from, const char* file = __builtin_FILE(), \
                     uint32_t line = __builtin_LINE()) {                                 \
    return from.as_number({#name, file, line});                                          \
  }                                                                                      \
  template <class T>                                                                     \
  inline std::enable_if_t<std::is_integral<T>::value, double> name(                      \
      T from, const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {   \
    return replay_rt::number_of_bits((I)from, {#name, file, line});                      \
  }                                                                                      \
  template <class T>                                                                     \
  inline double name(const replay_rt::bits_place<T>& from) { return *from.number; }
REPLAY_OF_BITS(int, __int_as_float)
REPLAY_OF_BITS(unsigned, __uint_as_float)
#undef REPLAY_OF_BITS

// Copies between a number and a word, a part of it or its bytes. Other copies are of one type, or of memory in bytes.
#define REPLAY_COPY(I)                                                                          \
  inline void* memcpy(I* to, const double* from, size_t bytes, const char* file = __builtin_FILE(), \
                      uint32_t line = __builtin_LINE()) {                                       \
    if (bytes != 4 && bytes != 8) replay_rt::no_shadow("memcpy", file, line);                   \
    *to = replay_rt::read_bits<I>(*from);                                                       \
    return to;                                                                                  \
  }                                                                                             \
  inline void* memcpy(double* to, const I* from, size_t bytes, const char* file = __builtin_FILE(), \
                      uint32_t line = __builtin_LINE()) {                                       \
    if (bytes != 4 && bytes != 8) replay_rt::no_shadow("memcpy", file, line);                   \
    *to = replay_rt::number_of_bits(*from, {"memcpy", file, line});                             \
    return to;                                                                                  \
  }
REPLAY_COPY(int)
REPLAY_COPY(unsigned)
#undef REPLAY_COPY

namespace replay_rt {
/// Half a word; an array of bytes with room for no more than one number.
template <class I>
using part_of_word = std::enable_if_t<std::is_integral<I>::value && sizeof(I) == 2>;
template <class B, size_t N>
using bytes_of_one = std::enable_if_t<sizeof(B) == 1 && N <= sizeof(double)>;
}  // namespace replay_rt
#define REPLAY_NO_COPY(PARAMETERS, TO, FROM)                                                \
  PARAMETERS inline void* memcpy(TO, FROM, size_t, const char* file = __builtin_FILE(),      \
                                 uint32_t line = __builtin_LINE()) {                        \
    replay_rt::no_shadow("memcpy", file, line);                                             \
    return nullptr;                                                                         \
  }
#define REPLAY_PART template <class I, class = replay_rt::part_of_word<I>>
#define REPLAY_BYTES template <class B, size_t N, class = replay_rt::bytes_of_one<B, N>>
REPLAY_NO_COPY(REPLAY_PART, I*, const double*)
REPLAY_NO_COPY(REPLAY_PART, double*, const I*)
REPLAY_NO_COPY(REPLAY_BYTES, B (&)[N], const double*)
REPLAY_NO_COPY(REPLAY_BYTES, double*, const B (&)[N])
#undef REPLAY_BYTES
#undef REPLAY_PART
#undef REPLAY_NO_COPY
template <class T, class B>
inline void* memcpy(T* to, const replay_rt::byte_pointer<B>& from, size_t bytes,
                    const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
  const double* number = from.whole();
  if (bytes % sizeof(double) != 0 && !(std::is_integral<T>::value && sizeof(T) == 4))
    replay_rt::no_shadow("memcpy", file, line);
  return memcpy(to, number, bytes);
}
template <class T, class B>
inline void* memcpy(const replay_rt::byte_pointer<B>& to, const T* from, size_t bytes,
                    const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
  double* number = to.whole();
  if (bytes % sizeof(double) != 0 && !(std::is_integral<T>::value && sizeof(T) == 4))
    replay_rt::no_shadow("memcpy", file, line);
  return memcpy(number, from, bytes);
}
namespace std {
using ::memcpy;
}  // namespace std
#endif
