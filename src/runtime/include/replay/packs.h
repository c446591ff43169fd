// Integer vectors of 16 bytes by which sources move numbers, in the float64 shadow: `int4` and its kin
// have room for as many doubles there as floats natively. A cast to them tells what it packs by the type
// of its operand; what would not be as many numbers does not compile.
#pragma once

#include "vector_types.h"

#ifdef REPLAY_SHADOW
namespace replay_rt {

#define REPLAY_PACK(NAME)                                                          \
  struct alignas(16) pack_##NAME : NAME {                                          \
    long long replay_more[2];                                                      \
    pack_##NAME() = default;                                                       \
    pack_##NAME(const NAME& integers) : NAME(integers), replay_more{} {}           \
    template <class A, class B, class... R>                                        \
    pack_##NAME(A a, B b, R... rest)                                               \
        : NAME{(decltype(NAME::x))a, (decltype(NAME::x))b, (decltype(NAME::x))rest...}, \
          replay_more{} {}                                                         \
  };
REPLAY_PACK(int4)
REPLAY_PACK(uint4)
REPLAY_PACK(longlong2)
REPLAY_PACK(ulonglong2)
#undef REPLAY_PACK

enum pack_content { packs_as_many, packs_narrow, packs_unknown };
/// What is packed behind a pointer to `T`. Classes of the sources hold numbers of theirs.
template <class T> struct packed { static constexpr pack_content value =
    __is_class(T) || __is_union(T) ? packs_as_many : packs_unknown; };
template <class T> struct packed<const T> : packed<T> {};
template <class T> struct packed<volatile T> : packed<T> {};
template <class T> struct packed<const volatile T> : packed<T> {};
template <> struct packed<double> { static constexpr pack_content value = packs_as_many; };
#define REPLAY_NO_PACK(T) \
  template <> struct packed<T> { static constexpr pack_content value = packs_unknown; };
REPLAY_NO_PACK(int1) REPLAY_NO_PACK(int2) REPLAY_NO_PACK(int3) REPLAY_NO_PACK(int4)
REPLAY_NO_PACK(uint1) REPLAY_NO_PACK(uint2) REPLAY_NO_PACK(uint3) REPLAY_NO_PACK(uint4)
REPLAY_NO_PACK(char4) REPLAY_NO_PACK(uchar4) REPLAY_NO_PACK(short4) REPLAY_NO_PACK(ushort4)
REPLAY_NO_PACK(longlong2) REPLAY_NO_PACK(ulonglong2)
#undef REPLAY_NO_PACK

/// The cast `To(from)`. `Generic` says that it stands in a template, which counts numbers by their size.
template <class To, bool Generic, class From>
To pack_from(From* from) {
  static_assert(packed<From>::value != packs_unknown,
                "the float64 shadow does not know what is moved as integers of 16 bytes here");
  static_assert(Generic || packed<From>::value != packs_narrow,
                "the float64 shadow has no room for 8 narrow numbers in integers of 16 bytes");
  return reinterpret_cast<To>(from);
}
template <class To, bool Generic, class From>
To pack_cast(From* from) { return pack_from<To, Generic>(from); }

/// The same written as in C: the operand of `->*` reaches as far as that of a cast.
template <class T> struct pack_pointee;
template <class T> struct pack_pointee<T*> { using type = T; };
template <class To, bool Generic>
struct pack_caster {
  struct dereferenced {
    template <class From>
    typename pack_pointee<To>::type& operator->*(From* from) const {
      return *pack_from<To, Generic>(from);
    }
  };
  dereferenced operator*() const { return {}; }
  template <class From> To operator->*(From* from) const { return pack_from<To, Generic>(from); }
};
}  // namespace replay_rt
#endif
