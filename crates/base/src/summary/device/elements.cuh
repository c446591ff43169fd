// Every element type; ELEMENT is the one that is summarised.

struct F64 : Words<u64, double>,
             Ieee<u64, 0x7FF0000000000000ull, 0x000FFFFFFFFFFFFFull, 0x7FF8000000000000ull> {
    typedef DoubleRange Range;
};
struct F32 : Words<u32, float>, Ieee<u32, 0x7F800000, 0x007FFFFF, 0x7FC00000> {
    typedef FloatRange Range;
};
struct I64 : Words<u64, long long>, AlwaysFinite { typedef LongRange<long long> Range; };
struct I32 : Words<u32, int>, AlwaysFinite { typedef WordRange<true> Range; };
struct U64 : Words<u64, u64>, AlwaysFinite { typedef LongRange<u64> Range; };
struct U32 : Words<u32, u32>, AlwaysFinite { typedef WordRange<false> Range; };
struct I16 : Shorts<short, int, true> {};
struct U16 : Shorts<u16, u32, false> {};
struct I8 : Bytes<signed char, true> {};
struct U8 : Bytes<u8, false> {};

struct F16 : HalfFloat<F16>, Ieee<u16, 0x7C00, 0x03FF, 0x7E00> {
    static const u32 INFINITE = 0x7C007C00;
    static __device__ double low_half(u32 word) {
        double value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f64.f16 %0, a; }" : "=d"(value) : "r"(word));
        return value;
    }
    static __device__ double high_half(u32 word) {
        double value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f64.f16 %0, b; }" : "=d"(value) : "r"(word));
        return value;
    }
};

struct BF16 : HalfFloat<BF16>, Ieee<u16, 0x7F80, 0x007F, 0x7FC0> {
    static const u32 INFINITE = 0x7F807F80;
#if __CUDA_ARCH__ >= 900
    static __device__ double low_half(u32 word) {
        double value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f64.bf16 %0, a; }"
            : "=d"(value)
            : "r"(word));
        return value;
    }
    static __device__ double high_half(u32 word) {
        double value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f64.bf16 %0, b; }"
            : "=d"(value)
            : "r"(word));
        return value;
    }
#else
    static __device__ double low_half(u32 word) { return (double)__uint_as_float(word << 16); }
    static __device__ double high_half(u32 word) {
        return (double)__uint_as_float(word & 0xFFFF0000);
    }
#endif
};

// Both formats of 8 bits are read as binary16: E5M2 is its upper half, E4M3 has another bias.
struct E5M2 : ByteFloat<E5M2>, Ieee<u8, 0x7C, 0x03, 0x7E> {
    static const int SPECIAL = 0x7C;
    static __device__ double value(u8 raw) { return F16::low_half((u32)raw << 8); }
};
struct E4M3 : ByteFloat<E4M3> {
    static const int SPECIAL = 0x7F;
    static __device__ double value(u8 raw) {
        return 256 * F16::low_half((raw & 0x80u) << 8 | (raw & 0x7Fu) << 7);
    }
    static __device__ bool is_special(u8 raw) { return (raw & 0x7F) == 0x7F; }
    static __device__ bool is_nan(u8 raw) { return is_special(raw); }
    static __device__ u8 nan() { return 0x7F; }
};

typedef ELEMENT E;
typedef E::Raw Raw;
typedef E::Added Added;
