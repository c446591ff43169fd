// Integer vectors of 16 bytes by which sources move numbers, in the float64 shadow: `int4` and its kin
// have room for as many doubles there as floats natively. A cast to them tells what it packs by the type
// of its operand; where that would not be as many numbers, it ends the replay.
#pragma once

#include "vector_types.h"

#ifdef REPLAY_SHADOW
namespace replay_rt {

/// Whether `T` is a pack.
template <class T> inline constexpr bool is_pack = false;
template <class T> inline constexpr bool is_pack<const T> = is_pack<T>;
/// The integers that a pack is natively.
template <class T> struct plain_of_pack;
template <class T> struct plain_of_pack<const T> { using type = const typename plain_of_pack<T>::type; };

/// Stand behind integers in a pack, where numbers have none: a NaN that no arithmetic makes.
inline constexpr long long pack_mark = 0x7ff47061636b6564;

#define REPLAY_PACK(NAME)                                                          \
  struct alignas(16) pack_##NAME {                                                 \
    NAME integers;                                                                 \
    long long more[2];                                                             \
    pack_##NAME() = default;                                                       \
    pack_##NAME(const NAME& integers) : integers(integers), more{} {               \
      if (!is_zero(integers)) more[0] = more[1] = pack_mark;                       \
    }                                                                              \
    template <class A, class B, class... R>                                        \
    pack_##NAME(A a, B b, R... rest)                                               \
        : pack_##NAME(NAME{(decltype(NAME::x))a, (decltype(NAME::x))b, (decltype(NAME::x))rest...}) {} \
    operator NAME() const {                                                        \
      if (!holds_integers()) no_shadow("numbers taken as " #NAME, nullptr, 0);     \
      return integers;                                                             \
    }                                                                              \
    static bool is_zero(const NAME& integers) {                                    \
      const NAME zero{};                                                           \
      return __builtin_memcmp(&integers, &zero, sizeof zero) == 0;                 \
    }                                                                              \
    /* All bits of zeros are those of integers, too. */                            \
    bool holds_integers() const {                                                  \
      const bool are_marked = more[0] == pack_mark && more[1] == pack_mark;        \
      return are_marked || (more[0] == 0 && more[1] == 0 && is_zero(integers));    \
    }                                                                              \
  };                                                                               \
  template <> inline constexpr size_t source_bytes<pack_##NAME> = 16;              \
  template <> inline constexpr bool is_pack<pack_##NAME> = true;                   \
  template <> struct plain_of_pack<pack_##NAME> { using type = NAME; };
REPLAY_PACK(int4)
REPLAY_PACK(uint4)
REPLAY_PACK(longlong2)
REPLAY_PACK(ulonglong2)
#undef REPLAY_PACK

enum pack_content { packs_as_many, packs_narrow, packs_integers, packs_unknown };
/// The content packed behind a pointer to `T`. Classes of the sources hold numbers of theirs.
template <class T> struct packed { static constexpr pack_content value =
    __is_class(T) || __is_union(T) ? packs_as_many : packs_unknown; };
template <class T> struct packed<const T> : packed<T> {};
template <class T> struct packed<volatile T> : packed<T> {};
template <class T> struct packed<const volatile T> : packed<T> {};
template <> struct packed<double> { static constexpr pack_content value = packs_as_many; };
#define REPLAY_INTEGERS(T) \
  template <> struct packed<T> { static constexpr pack_content value = packs_integers; };
REPLAY_INTEGERS(int) REPLAY_INTEGERS(unsigned)
REPLAY_INTEGERS(long) REPLAY_INTEGERS(unsigned long)
REPLAY_INTEGERS(long long) REPLAY_INTEGERS(unsigned long long)
REPLAY_INTEGERS(int1) REPLAY_INTEGERS(int2) REPLAY_INTEGERS(int3) REPLAY_INTEGERS(int4)
REPLAY_INTEGERS(uint1) REPLAY_INTEGERS(uint2) REPLAY_INTEGERS(uint3) REPLAY_INTEGERS(uint4)
REPLAY_INTEGERS(char4) REPLAY_INTEGERS(uchar4) REPLAY_INTEGERS(short4) REPLAY_INTEGERS(ushort4)
REPLAY_INTEGERS(longlong2) REPLAY_INTEGERS(ulonglong2)
#undef REPLAY_INTEGERS

/// A variable whose member the sources name as `what` at a place of theirs. It ends the replay if it is a pack of
/// numbers.
struct pack_look {
  shadow_place at;
  pack_look(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class Variable>
  auto& operator()(Variable& variable) const {
    if constexpr (is_pack<Variable>) {
      if (!variable.holds_integers()) at.end_shadow();
      return variable.integers;
    } else {
      return variable;
    }
  }
  template <class Variable>
  auto operator()(Variable* variable) const {
    if constexpr (is_pack<Variable>) {
      return &(*this)(*variable);
    } else {
      return variable;
    }
  }
};

/// Integers in memory, cast to `Pack*`: as many bytes as natively. It ends the replay where packs of numbers are asked for.
template <class Pack>
class integers_as_packs {
 public:
  using Plain = typename plain_of_pack<Pack>::type;
  integers_as_packs(Plain* address, shadow_place at) : address_(address), at_(at) {}
  operator Plain*() const { return address_; }
  operator Pack*() const {
    at_.end_shadow();
    return nullptr;
  }
  Plain& operator*() const { return *address_; }
  Plain* operator->() const { return address_; }
  template <class Index> Plain& operator[](Index index) const { return address_[index]; }
  template <class Count> integers_as_packs operator+(Count count) const {
    return {address_ + count, at_};
  }

 private:
  Plain* address_;
  shadow_place at_;
};

/// `reinterpret_cast<To>`, written as `what` at a place of the sources. It ends the replay if it is not known to
/// pack as many numbers here as natively. `Generic` says that it stands in a template: there sources count narrow
/// numbers by their size, so that they fit.
template <class T> struct pack_pointee;
template <class T> struct pack_pointee<T*> { using type = T; };
template <class T> struct pack_pointee<T* __restrict__> { using type = T; };
template <class To, bool Generic>
struct pack_cast {
  shadow_place at;
  pack_cast(const char* what, const char* file, uint32_t line) : at{what, file, line} {}
  template <class From>
  auto operator()(From* from) const {
    constexpr pack_content content = packed<From>::value;
    if constexpr (content == packs_integers) {
      using Pack = typename pack_pointee<To>::type;
      using Plain = typename plain_of_pack<Pack>::type;
      return integers_as_packs<Pack>((Plain*)from, at);
    } else {
      if constexpr (content == packs_unknown || (content == packs_narrow && !Generic))
        at.end_shadow();
      return reinterpret_cast<To>(from);
    }
  }
  template <class Address>
  To operator()(const Address& address) const {
    at.end_shadow();
    return (To)address;
  }
};

/// The same written as in C: the operand of `->*` reaches as far as a cast's.
template <class To, bool Generic>
struct pack_caster {
  pack_cast<To, Generic> cast;
  struct dereferenced {
    pack_cast<To, Generic> cast;
    template <class From> auto& operator->*(From&& from) const { return *cast(from); }
  };
  pack_caster(const char* what, const char* file, uint32_t line) : cast(what, file, line) {}
  dereferenced operator*() const { return {cast}; }
  template <class From> auto operator->*(From&& from) const { return cast(from); }
};
}  // namespace replay_rt
#endif
