// Integer vectors of 16 bytes by which sources move numbers, in the float64 shadow: `int4` and its kin
// have room for as many doubles there as floats natively. A cast to them tells what it packs by the type
// of its operand; where that would not be as many numbers, it ends the replay.
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
  };                                                                               \
  template <> inline constexpr size_t source_bytes<pack_##NAME> = 16;
REPLAY_PACK(int4)
REPLAY_PACK(uint4)
REPLAY_PACK(longlong2)
REPLAY_PACK(ulonglong2)
#undef REPLAY_PACK

enum pack_content { packs_as_many, packs_narrow, packs_unknown };
/// The content packed behind a pointer to `T`. Classes of the sources hold numbers of theirs.
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

/// `reinterpret_cast<To>`, written as `what` at a place of the sources. It ends the replay if it is not known to
/// pack as many numbers here as natively. `Generic` says that it stands in a template: there sources count narrow
/// numbers by their size, so that they fit.
template <class To, bool Generic>
struct pack_cast {
  shadow_place at;
  pack_cast(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class From>
  To operator()(From* from) const {
    constexpr pack_content content = packed<From>::value;
    if constexpr (content == packs_unknown || (content == packs_narrow && !Generic))
      at.end_shadow();
    return reinterpret_cast<To>(from);
  }
  template <class Address>
  To operator()(const Address& address) const {
    at.end_shadow();
    return (To)address;
  }
};

/// The same written as in C: the operand of `->*` reaches as far as a cast's.
template <class T> struct pack_pointee;
template <class T> struct pack_pointee<T*> { using type = T; };
template <class To, bool Generic>
struct pack_caster {
  pack_cast<To, Generic> cast;
  struct dereferenced {
    pack_cast<To, Generic> cast;
    template <class From>
    typename pack_pointee<To>::type& operator->*(From&& from) const {
      return *cast(from);
    }
  };
  pack_caster(const char* what, const char* file, uint32_t line) : cast(what, file, line) {}
  dereferenced operator*() const { return {cast}; }
  template <class From> To operator->*(From&& from) const { return cast(from); }
};
}  // namespace replay_rt
#endif
