// One 16-bit floating-point type with its pair, its conversions, arithmetic, comparisons and
// functions. CUDA Math API: "Half Precision Intrinsics", "Bfloat16 Precision Intrinsics".
//
// Included once for each type by its header (cuda_fp16.h, cuda_bf16.h) after definitions of
//   REPLAY_N        the type                     __half         __nv_bfloat16
//   REPLAY_N2       its pair                     __half2        __nv_bfloat162
//   REPLAY_RAW      its bits as a structure      __half_raw     __nv_bfloat16_raw
//   REPLAY_FORMAT   its format                   half_format    bfloat16_format
//   REPLAY_API(before, after)    before ## half ## after     before ## bfloat16 ## after
//   REPLAY_API2(before, after)   before ## half2 ## after    before ## bfloat162 ## after
// In the float64 shadow both are doubles, never rounded.

struct alignas(2) REPLAY_RAW {
  unsigned short x;
};

struct REPLAY_N {
#ifdef REPLAY_SHADOW
  double value;
  static REPLAY_N of(double x) {
    REPLAY_N result;
    result.value = x;
    return result;
  }
  static REPLAY_N rounded(double x, int) { return of(x); }
  double wide() const { return value; }
#else
  unsigned short __x;
  static REPLAY_N of_bits(unsigned short bits) {
    REPLAY_N result;
    result.__x = bits;
    return result;
  }
  static REPLAY_N of(float x) {
    return of_bits(replay_rt::narrow_float(replay_rt::REPLAY_FORMAT(), x));
  }
  static REPLAY_N of(double x) { return rounded(x, replay_rt::rounding); }
  static REPLAY_N rounded(double x, int mode) {
    return of_bits(replay_rt::narrow<replay_rt::REPLAY_FORMAT>(x, mode));
  }
  float wide() const { return replay_rt::widen(replay_rt::REPLAY_FORMAT(), __x); }
  REPLAY_N(const REPLAY_RAW& raw) : __x(raw.x) {}
  operator REPLAY_RAW() const { return REPLAY_RAW{__x}; }
#endif

  REPLAY_N() = default;
#ifndef REPLAY_SHADOW
  REPLAY_N(float x) : REPLAY_N(of(x)) {}
#endif
  REPLAY_N(double x) : REPLAY_N(of(x)) {}
#define REPLAY_FROM(I) \
  REPLAY_N(I x) : REPLAY_N(of(replay_rt::integer_to_odd(x))) {}
  REPLAY_FROM(short)
  REPLAY_FROM(unsigned short)
  REPLAY_FROM(int)
  REPLAY_FROM(unsigned)
  REPLAY_FROM(long)
  REPLAY_FROM(unsigned long)
  REPLAY_FROM(long long)
  REPLAY_FROM(unsigned long long)
#undef REPLAY_FROM

  operator replay_rt::real() const { return wide(); }
  operator bool() const { return wide() != 0; }
#define REPLAY_TO(I)                                                                     \
  operator I() const {                                                                   \
    return replay_rt::to_integer<I>(replay_rt::exact<replay_rt::real>::trunc(wide()), true); \
  }
  REPLAY_TO(char)
  REPLAY_TO(signed char)
  REPLAY_TO(unsigned char)
  REPLAY_TO(short)
  REPLAY_TO(unsigned short)
  REPLAY_TO(int)
  REPLAY_TO(unsigned)
  REPLAY_TO(long)
  REPLAY_TO(unsigned long)
  REPLAY_TO(long long)
  REPLAY_TO(unsigned long long)
#undef REPLAY_TO
};

struct alignas(2 * sizeof(REPLAY_N)) REPLAY_N2 {
  REPLAY_N x, y;
  REPLAY_N2() = default;
  REPLAY_N2(const REPLAY_N& x, const REPLAY_N& y) : x(x), y(y) {}
};

// Conversions from and to wider types.
inline REPLAY_N REPLAY_API(__float2, )(replay_rt::real x) { return REPLAY_N::of(x); }
inline REPLAY_N REPLAY_API(__float2, _rn)(replay_rt::real x) { return REPLAY_N::of(x); }
inline REPLAY_N REPLAY_API(__float2, _rz)(replay_rt::real x) {
  return REPLAY_N::rounded(x, replay_rt::narrow_zero);
}
inline REPLAY_N REPLAY_API(__float2, _ru)(replay_rt::real x) {
  return REPLAY_N::rounded(x, replay_rt::narrow_up);
}
inline REPLAY_N REPLAY_API(__float2, _rd)(replay_rt::real x) {
  return REPLAY_N::rounded(x, replay_rt::narrow_down);
}
inline REPLAY_N REPLAY_API(__double2, )(double x) { return REPLAY_N::of(x); }
inline replay_rt::real REPLAY_API(__, 2float)(REPLAY_N x) { return x.wide(); }

inline REPLAY_N2 REPLAY_API2(__float2, _rn)(replay_rt::real x) {
  return REPLAY_N2(REPLAY_N::of(x), REPLAY_N::of(x));
}
inline REPLAY_N2 REPLAY_API2(__floats2, _rn)(replay_rt::real x, replay_rt::real y) {
  return REPLAY_N2(REPLAY_N::of(x), REPLAY_N::of(y));
}
inline REPLAY_N2 REPLAY_API2(__float22, _rn)(float2 v) {
  return REPLAY_N2(REPLAY_N::of(v.x), REPLAY_N::of(v.y));
}
inline float2 REPLAY_API2(__, 2float2)(REPLAY_N2 v) { return float2{v.x.wide(), v.y.wide()}; }
inline replay_rt::real __low2float(REPLAY_N2 v) { return v.x.wide(); }
inline replay_rt::real __high2float(REPLAY_N2 v) { return v.y.wide(); }

#define REPLAY_INTEGER(I, name)                                                                   \
  inline REPLAY_N REPLAY_API(__##name##2, _rn)(I x) { return REPLAY_N(x); }                       \
  inline REPLAY_N REPLAY_API(__##name##2, _rz)(I x) {                                             \
    return REPLAY_N::rounded(replay_rt::integer_to_odd(x), replay_rt::narrow_zero);               \
  }                                                                                               \
  inline REPLAY_N REPLAY_API(__##name##2, _ru)(I x) {                                             \
    return REPLAY_N::rounded(replay_rt::integer_to_odd(x), replay_rt::narrow_up);                 \
  }                                                                                               \
  inline REPLAY_N REPLAY_API(__##name##2, _rd)(I x) {                                             \
    return REPLAY_N::rounded(replay_rt::integer_to_odd(x), replay_rt::narrow_down);               \
  }                                                                                               \
  inline I REPLAY_API(__, 2##name##_rn)(REPLAY_N x) {                                             \
    return replay_rt::to_integer<I>(replay_rt::exact<replay_rt::real>::to_even(x.wide()), true);     \
  }                                                                                               \
  inline I REPLAY_API(__, 2##name##_rz)(REPLAY_N x) {                                             \
    return replay_rt::to_integer<I>(replay_rt::exact<replay_rt::real>::trunc(x.wide()), true);    \
  }                                                                                               \
  inline I REPLAY_API(__, 2##name##_ru)(REPLAY_N x) {                                             \
    return replay_rt::to_integer<I>(replay_rt::exact<replay_rt::real>::ceil(x.wide()), true);     \
  }                                                                                               \
  inline I REPLAY_API(__, 2##name##_rd)(REPLAY_N x) {                                             \
    return replay_rt::to_integer<I>(replay_rt::exact<replay_rt::real>::floor(x.wide()), true);    \
  }
REPLAY_INTEGER(short, short)
REPLAY_INTEGER(unsigned short, ushort)
REPLAY_INTEGER(int, int)
REPLAY_INTEGER(unsigned, uint)
REPLAY_INTEGER(long long, ll)
REPLAY_INTEGER(unsigned long long, ull)
#undef REPLAY_INTEGER
inline signed char REPLAY_API(__, 2char_rz)(REPLAY_N x) { return (signed char)x; }
inline unsigned char REPLAY_API(__, 2uchar_rz)(REPLAY_N x) { return (unsigned char)x; }

// Bit patterns.
#ifdef REPLAY_SHADOW
inline unsigned short REPLAY_API(__, _as_ushort)(REPLAY_N x) {
  const unsigned short rounded = replay_rt::narrow<replay_rt::REPLAY_FORMAT>(x.value, 0);
  const double denoted = replay_rt::widen(replay_rt::REPLAY_FORMAT(), rounded);
  if (denoted != x.value && x.value == x.value) replay_rt::note_rounded_bits();
  return rounded;
}
inline short REPLAY_API(__, _as_short)(REPLAY_N x) { return (short)REPLAY_API(__, _as_ushort)(x); }
inline REPLAY_N REPLAY_API(__ushort_as_, )(unsigned short x, const char* file = __builtin_FILE(),
                                           uint32_t line = __builtin_LINE()) {
  if (replay_rt::has_noted_rounded_bits()) replay_rt::no_shadow("bits of a number", file, line);
  return REPLAY_N::of((double)replay_rt::widen(replay_rt::REPLAY_FORMAT(), x));
}
inline REPLAY_N REPLAY_API(__short_as_, )(short x, const char* file = __builtin_FILE(),
                                          uint32_t line = __builtin_LINE()) {
  return REPLAY_API(__ushort_as_, )((unsigned short)x, file, line);
}
// With constant bits sources call these.
inline REPLAY_N REPLAY_API(replay_constant__ushort_as_, )(unsigned short x) {
  return REPLAY_N::of((double)replay_rt::widen(replay_rt::REPLAY_FORMAT(), x));
}
inline REPLAY_N REPLAY_API(replay_constant__short_as_, )(short x) {
  return REPLAY_API(replay_constant__ushort_as_, )((unsigned short)x);
}
#else
inline unsigned short REPLAY_API(__, _as_ushort)(REPLAY_N x) { return x.__x; }
inline short REPLAY_API(__, _as_short)(REPLAY_N x) { return (short)x.__x; }
inline REPLAY_N REPLAY_API(__ushort_as_, )(unsigned short x) { return REPLAY_N::of_bits(x); }
inline REPLAY_N REPLAY_API(__short_as_, )(short x) {
  return REPLAY_N::of_bits((unsigned short)x);
}
#endif

// Pairs.
inline REPLAY_N2 REPLAY_API2(make_, )(REPLAY_N x, REPLAY_N y) { return REPLAY_N2(x, y); }
inline REPLAY_N2 REPLAY_HALVES(REPLAY_N x, REPLAY_N y) { return REPLAY_N2(x, y); }
inline REPLAY_N2 REPLAY_BOTH(REPLAY_N x) { return REPLAY_N2(x, x); }
inline REPLAY_N REPLAY_API(__low2, )(REPLAY_N2 v) { return v.x; }
inline REPLAY_N REPLAY_API(__high2, )(REPLAY_N2 v) { return v.y; }
inline REPLAY_N2 REPLAY_API2(__low2, )(REPLAY_N2 v) { return REPLAY_N2(v.x, v.x); }
inline REPLAY_N2 REPLAY_API2(__high2, )(REPLAY_N2 v) { return REPLAY_N2(v.y, v.y); }
inline REPLAY_N2 REPLAY_API2(__lows2, )(REPLAY_N2 a, REPLAY_N2 b) { return REPLAY_N2(a.x, b.x); }
inline REPLAY_N2 REPLAY_API2(__highs2, )(REPLAY_N2 a, REPLAY_N2 b) { return REPLAY_N2(a.y, b.y); }
inline REPLAY_N2 __lowhigh2highlow(REPLAY_N2 v) { return REPLAY_N2(v.y, v.x); }

// Arithmetic.
inline REPLAY_N __hneg(REPLAY_N a) {
#ifdef REPLAY_SHADOW
  return REPLAY_N::of(-a.value);
#else
  return REPLAY_N::of_bits(a.__x ^ 0x8000u);
#endif
}
inline REPLAY_N __habs(REPLAY_N a) {
#ifdef REPLAY_SHADOW
  return REPLAY_N::of(::fabs(a.value));
#else
  return REPLAY_N::of_bits(a.__x & 0x7fffu);
#endif
}
inline REPLAY_N __hadd(REPLAY_N a, REPLAY_N b) { return REPLAY_N::of(a.wide() + b.wide()); }
inline REPLAY_N __hsub(REPLAY_N a, REPLAY_N b) { return REPLAY_N::of(a.wide() - b.wide()); }
inline REPLAY_N __hmul(REPLAY_N a, REPLAY_N b) { return REPLAY_N::of(a.wide() * b.wide()); }
inline REPLAY_N __hdiv(REPLAY_N a, REPLAY_N b) { return REPLAY_N::of(a.wide() / b.wide()); }
inline REPLAY_N __hfma(REPLAY_N a, REPLAY_N b, REPLAY_N c) {
#ifdef REPLAY_SHADOW
  return REPLAY_N::of(::fma(a.value, b.value, c.value));
#else
  return REPLAY_N::of(replay_rt::fused_to_odd(a.wide(), b.wide(), c.wide()));
#endif
}
inline REPLAY_N __hadd_rn(REPLAY_N a, REPLAY_N b) { return __hadd(a, b); }
inline REPLAY_N __hsub_rn(REPLAY_N a, REPLAY_N b) { return __hsub(a, b); }
inline REPLAY_N __hmul_rn(REPLAY_N a, REPLAY_N b) { return __hmul(a, b); }

namespace replay_rt {
/// Clamped to [0, 1]; NaN becomes +0.
inline REPLAY_N saturate(REPLAY_N a) { return REPLAY_N::of(__saturatef(a.wide())); }
/// Clamped to 0 from below; NaN stays NaN.
inline REPLAY_N relu(REPLAY_N a) { return a.wide() < 0 ? REPLAY_N::of(replay_rt::real(0)) : a; }
}  // namespace replay_rt
inline REPLAY_N __hadd_sat(REPLAY_N a, REPLAY_N b) { return replay_rt::saturate(__hadd(a, b)); }
inline REPLAY_N __hsub_sat(REPLAY_N a, REPLAY_N b) { return replay_rt::saturate(__hsub(a, b)); }
inline REPLAY_N __hmul_sat(REPLAY_N a, REPLAY_N b) { return replay_rt::saturate(__hmul(a, b)); }
inline REPLAY_N __hfma_sat(REPLAY_N a, REPLAY_N b, REPLAY_N c) {
  return replay_rt::saturate(__hfma(a, b, c));
}
inline REPLAY_N __hfma_relu(REPLAY_N a, REPLAY_N b, REPLAY_N c) {
  return replay_rt::relu(__hfma(a, b, c));
}

// A NaN counts as missing, or wins (`_nan`); +0 is larger than -0.
inline bool __hisnan(REPLAY_N a) { return a.wide() != a.wide(); }
/// 1 for +infinity, -1 for -infinity, else 0.
inline int __hisinf(REPLAY_N a) {
  const bool infinite = replay_rt::exact<replay_rt::real>::is_infinite(a.wide());
  return !infinite ? 0 : a.wide() > 0 ? 1 : -1;
}
inline REPLAY_N __hmax(REPLAY_N a, REPLAY_N b) {
  return REPLAY_N::of(replay_rt::exact<replay_rt::real>::fmax(a.wide(), b.wide()));
}
inline REPLAY_N __hmin(REPLAY_N a, REPLAY_N b) {
  return REPLAY_N::of(replay_rt::exact<replay_rt::real>::fmin(a.wide(), b.wide()));
}
inline REPLAY_N __hmax_nan(REPLAY_N a, REPLAY_N b) {
  return __hisnan(a) || __hisnan(b) ? REPLAY_N::of(replay_rt::exact<replay_rt::real>::nan())
                                    : __hmax(a, b);
}
inline REPLAY_N __hmin_nan(REPLAY_N a, REPLAY_N b) {
  return __hisnan(a) || __hisnan(b) ? REPLAY_N::of(replay_rt::exact<replay_rt::real>::nan())
                                    : __hmin(a, b);
}

// Comparisons: false where one side is NaN; the forms with `u` are true there.
#define REPLAY_COMPARE(name, op)                                                             \
  inline bool __h##name(REPLAY_N a, REPLAY_N b) {                                            \
    return a.wide() op b.wide() && !__hisnan(a) && !__hisnan(b);                             \
  }                                                                                          \
  inline bool __h##name##u(REPLAY_N a, REPLAY_N b) {                                         \
    return a.wide() op b.wide() || __hisnan(a) || __hisnan(b);                               \
  }                                                                                          \
  inline REPLAY_N2 __h##name##2(REPLAY_N2 a, REPLAY_N2 b) {                                  \
    return REPLAY_N2(REPLAY_N((int)__h##name(a.x, b.x)), REPLAY_N((int)__h##name(a.y, b.y))); \
  }                                                                                          \
  inline REPLAY_N2 __h##name##u2(REPLAY_N2 a, REPLAY_N2 b) {                                 \
    return REPLAY_N2(REPLAY_N((int)__h##name##u(a.x, b.x)),                                  \
                     REPLAY_N((int)__h##name##u(a.y, b.y)));                                 \
  }                                                                                          \
  inline bool __hb##name##2(REPLAY_N2 a, REPLAY_N2 b) {                                      \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                       \
  }                                                                                          \
  inline bool __hb##name##u2(REPLAY_N2 a, REPLAY_N2 b) {                                     \
    return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y);                                 \
  }                                                                                          \
  inline unsigned __h##name##2_mask(REPLAY_N2 a, REPLAY_N2 b) {                              \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);  \
  }                                                                                          \
  inline unsigned __h##name##u2_mask(REPLAY_N2 a, REPLAY_N2 b) {                             \
    return (__h##name##u(a.x, b.x) ? 0xffffu : 0u) |                                         \
           (__h##name##u(a.y, b.y) ? 0xffff0000u : 0u);                                      \
  }
REPLAY_COMPARE(eq, ==)
REPLAY_COMPARE(ne, !=)
REPLAY_COMPARE(lt, <)
REPLAY_COMPARE(le, <=)
REPLAY_COMPARE(gt, >)
REPLAY_COMPARE(ge, >=)
#undef REPLAY_COMPARE

// Functions: the correctly rounded float result, rounded once more.
#define REPLAY_FUNCTION(name, expression)                                          \
  inline REPLAY_N h##name(REPLAY_N a) {                                            \
    const replay_rt::real x = a.wide();                                            \
    return REPLAY_N::of(replay_rt::real(expression));                              \
  }                                                                                \
  inline REPLAY_N2 h2##name(REPLAY_N2 a) { return REPLAY_N2(h##name(a.x), h##name(a.y)); }
REPLAY_FUNCTION(ceil, ::ceil(x))
REPLAY_FUNCTION(floor, ::floor(x))
REPLAY_FUNCTION(trunc, ::trunc(x))
REPLAY_FUNCTION(rint, ::rint(x))
REPLAY_FUNCTION(sqrt, replay_rt::square_root(x))
REPLAY_FUNCTION(rsqrt, ::rsqrt(x))
REPLAY_FUNCTION(rcp, 1 / x)
REPLAY_FUNCTION(exp, ::exp(x))
REPLAY_FUNCTION(exp2, ::exp2(x))
REPLAY_FUNCTION(exp10, ::exp10(x))
REPLAY_FUNCTION(log, ::log(x))
REPLAY_FUNCTION(log2, ::log2(x))
REPLAY_FUNCTION(log10, ::log10(x))
REPLAY_FUNCTION(sin, ::sin(x))
REPLAY_FUNCTION(cos, ::cos(x))
REPLAY_FUNCTION(tanh, ::tanh(x))
REPLAY_FUNCTION(tanh_approx, ::tanh(x))
#undef REPLAY_FUNCTION

// Pairs, member by member.
#define REPLAY_PAIR_1(name2, name) \
  inline REPLAY_N2 name2(REPLAY_N2 a) { return REPLAY_N2(name(a.x), name(a.y)); }
#define REPLAY_PAIR_2(name2, name)                                             \
  inline REPLAY_N2 name2(REPLAY_N2 a, REPLAY_N2 b) {                           \
    return REPLAY_N2(name(a.x, b.x), name(a.y, b.y));                          \
  }
#define REPLAY_PAIR_3(name2, name)                                             \
  inline REPLAY_N2 name2(REPLAY_N2 a, REPLAY_N2 b, REPLAY_N2 c) {              \
    return REPLAY_N2(name(a.x, b.x, c.x), name(a.y, b.y, c.y));                \
  }
REPLAY_PAIR_1(__hneg2, __hneg)
REPLAY_PAIR_1(__habs2, __habs)
REPLAY_PAIR_2(__hadd2, __hadd)
REPLAY_PAIR_2(__hsub2, __hsub)
REPLAY_PAIR_2(__hmul2, __hmul)
REPLAY_PAIR_2(__h2div, __hdiv)
REPLAY_PAIR_2(__hadd2_rn, __hadd)
REPLAY_PAIR_2(__hsub2_rn, __hsub)
REPLAY_PAIR_2(__hmul2_rn, __hmul)
REPLAY_PAIR_2(__hadd2_sat, __hadd_sat)
REPLAY_PAIR_2(__hsub2_sat, __hsub_sat)
REPLAY_PAIR_2(__hmul2_sat, __hmul_sat)
REPLAY_PAIR_2(__hmax2, __hmax)
REPLAY_PAIR_2(__hmin2, __hmin)
REPLAY_PAIR_2(__hmax2_nan, __hmax_nan)
REPLAY_PAIR_2(__hmin2_nan, __hmin_nan)
REPLAY_PAIR_3(__hfma2, __hfma)
REPLAY_PAIR_3(__hfma2_sat, __hfma_sat)
REPLAY_PAIR_3(__hfma2_relu, __hfma_relu)
/// a * b + c of complex numbers.
inline REPLAY_N2 __hcmadd(REPLAY_N2 a, REPLAY_N2 b, REPLAY_N2 c) {
  const REPLAY_N re = __hfma(a.x, b.x, c.x), im = __hfma(a.x, b.y, c.y);
  return REPLAY_N2(__hfma(__hneg(a.y), b.y, re), __hfma(a.y, b.x, im));
}
inline REPLAY_N2 __hisnan2(REPLAY_N2 a) {
  return REPLAY_N2(REPLAY_N((int)__hisnan(a.x)), REPLAY_N((int)__hisnan(a.y)));
}

// Operators.
#define REPLAY_OPERATOR(op, name)                                                             \
  inline REPLAY_N operator op(const REPLAY_N& a, const REPLAY_N& b) { return name(a, b); }    \
  inline REPLAY_N& operator op##=(REPLAY_N& a, const REPLAY_N& b) { return a = name(a, b); }  \
  inline REPLAY_N2 operator op(const REPLAY_N2& a, const REPLAY_N2& b) {                      \
    return REPLAY_N2(name(a.x, b.x), name(a.y, b.y));                                         \
  }                                                                                           \
  inline REPLAY_N2& operator op##=(REPLAY_N2& a, const REPLAY_N2& b) { return a = a op b; }
REPLAY_OPERATOR(+, __hadd)
REPLAY_OPERATOR(-, __hsub)
REPLAY_OPERATOR(*, __hmul)
REPLAY_OPERATOR(/, __hdiv)
#undef REPLAY_OPERATOR
#define REPLAY_OPERATOR(op, name)                                                           \
  inline bool operator op(const REPLAY_N& a, const REPLAY_N& b) { return name(a, b); }      \
  inline bool operator op(const REPLAY_N2& a, const REPLAY_N2& b) {                         \
    return name(a.x, b.x) && name(a.y, b.y);                                                \
  }
REPLAY_OPERATOR(==, __heq)
REPLAY_OPERATOR(!=, __hneu)
REPLAY_OPERATOR(<, __hlt)
REPLAY_OPERATOR(<=, __hle)
REPLAY_OPERATOR(>, __hgt)
REPLAY_OPERATOR(>=, __hge)
#undef REPLAY_OPERATOR
inline REPLAY_N operator+(const REPLAY_N& a) { return a; }
inline REPLAY_N operator-(const REPLAY_N& a) { return __hneg(a); }
inline REPLAY_N2 operator+(const REPLAY_N2& a) { return a; }
inline REPLAY_N2 operator-(const REPLAY_N2& a) { return __hneg2(a); }
inline REPLAY_N& operator++(REPLAY_N& a) { return a = __hadd(a, REPLAY_N(1)); }
inline REPLAY_N& operator--(REPLAY_N& a) { return a = __hsub(a, REPLAY_N(1)); }
inline REPLAY_N operator++(REPLAY_N& a, int) {
  REPLAY_N before = a;
  ++a;
  return before;
}
inline REPLAY_N operator--(REPLAY_N& a, int) {
  REPLAY_N before = a;
  --a;
  return before;
}

// Warps, atomics and cache hints.
REPLAY_SHUFFLES(REPLAY_N)
REPLAY_SHUFFLES(REPLAY_N2)
REPLAY_CACHE_HINTS(REPLAY_N)
REPLAY_CACHE_HINTS(REPLAY_N2)
REPLAY_ATOMIC_1(REPLAY_N, atomicAdd, __hadd(old, value))
#ifdef REPLAY_SHADOW
inline replay_rt::found_pair<REPLAY_N2> atomicAdd(REPLAY_N2* address, REPLAY_N2 value) {
  return replay_rt::add_pair(address, value);
}
#else
inline REPLAY_N2 atomicAdd(REPLAY_N2* address, REPLAY_N2 value) {
  return replay_rt::atomic_change_each(address, [=](REPLAY_N2 old) { return __hadd2(old, value); });
}
#endif

#undef REPLAY_API
#undef REPLAY_API2
#undef REPLAY_BOTH
#undef REPLAY_FORMAT
#undef REPLAY_HALVES
#undef REPLAY_N
#undef REPLAY_N2
#undef REPLAY_PAIR_1
#undef REPLAY_PAIR_2
#undef REPLAY_PAIR_3
#undef REPLAY_RAW
