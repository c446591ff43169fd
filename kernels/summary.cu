// Checksum, statistics and sketch of a tensor in one pass, as docs/checksum.md specifies them.
// The checksum is the CPU's for equal bytes; sums in float64 are added in another order.
//
// A warp takes 1024 units of 16 bytes, sixteen runs of 64; which thread takes which two units of a
// run depends on the run, so that a thread has the same four buckets all the time. Units come
// through shared memory, a few runs ahead. What is rare (elements that are NaN or infinite, the end
// of the tensor) is looked at once more, element by element.
// ELEMENT is the element type: F64, F32, F16, BF16, I64 to I8, U64 to U8.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// What a block adds to a summary; src/summary/device.rs has the same.
struct Part {
    u64 x, y;
    double buckets[16];
    double sum, squares, min, max;
    u64 zeros, nan, inf, unwritten;
};

struct Unit {
    u32 words[4];

    // The bits of element `at`.
    template <class Raw>
    __device__ Raw get(int at) const {
        const int size = sizeof(Raw);
        if (size == 8) return (Raw)(words[2 * at % 4] | (u64)words[(2 * at + 1) % 4] << 32);
        return (Raw)(words[at * size / 4] >> (at * size % 4 * 8));
    }
};

// The number, negated where bit `at` is set.
__device__ double with_sign(double value, u32 bits, int at) {
    int high = __double2hiint(value) ^ (int)(bits << (31 - at) & 0x80000000);
    return __hiloint2double(high, __double2loint(value));
}

// Two units of a run, and their words one after the other.
struct Pair {
    Unit units[2];
    __device__ u32 word(int at) const { return units[at / 4].words[at % 4]; }
};

// Sums of elements, of their squares, and, with the sketch's signs, by the word of 32 bits in which
// an element begins.
struct Sums {
    double total, squares, buckets[4];
};

// The same of whole numbers, on their way to be `Sums`.
struct Counts {
    int totals[4], negated[4];
    u64 squares;
    __device__ void flush(Sums& sums) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            sums.total += (double)totals[at];
            sums.buckets[at] += (double)(totals[at] - 2 * negated[at]);
        }
        sums.squares += (double)squares;
        *this = Counts();
    }
    __device__ void finish(Sums&) {}
};

struct NoCounts {
    __device__ void flush(Sums&) {}
    __device__ void finish(Sums&) {}
};

// An element type is one of the four families below, which all have
//   Raw, COUNT, value        its bits, how many are in a unit, what they stand for
//   is_special, is_nan, nan  which bits are no finite number, and the one NaN that stands for all
//   Added, add               what it goes into besides `Sums`; signs are those of `signs_of`
//   Range                    what bounds elements: none, of a pair, of one; joined with another;
//                            whether special ones or a zero lie within; the least, the greatest
//   zeros, equal             how many elements of a pair are zero, or those of `poison`

struct AlwaysFinite {
    template <class Raw> static __device__ bool is_special(Raw) { return false; }
    template <class Raw> static __device__ bool is_nan(Raw) { return false; }
    static __device__ u8 nan() { return 0; }
};

template <class Raw_, Raw_ Exponent, Raw_ Fraction, Raw_ Nan>
struct Ieee {
    static __device__ bool is_special(Raw_ raw) { return (raw & Exponent) == Exponent; }
    static __device__ bool is_nan(Raw_ raw) { return is_special(raw) && (raw & Fraction) != 0; }
    static __device__ Raw_ nan() { return Nan; }
};

template <class Wide> __device__ Wide lesser(Wide a, Wide b) { return b < a ? b : a; }
template <class Wide> __device__ Wide greater(Wide a, Wide b) { return b > a ? b : a; }

__device__ float from_bits(u32 raw, float) { return __uint_as_float(raw); }
__device__ double from_bits(u64 raw, double) { return __longlong_as_double((long long)raw); }
template <class Raw, class Wide> __device__ Wide from_bits(Raw raw, Wide) { return (Wide)raw; }

// Two numbers of 16 bits, side by side, with or without a sign; or one of 32.
struct Two {
    static __device__ u32 least(u32 a, u32 b) { return __vminu2(a, b); }
    static __device__ u32 greatest(u32 a, u32 b) { return __vmaxu2(a, b); }
    static __device__ u32 signed_least(u32 a, u32 b) { return __vmins2(a, b); }
    static __device__ u32 signed_greatest(u32 a, u32 b) { return __vmaxs2(a, b); }
    static __device__ bool any_zero(u32 two) {
        return ((two - 0x00010001) & ~two & 0x80008000) != 0;
    }
    static const u32 TOP = 0x80008000;
};
struct One {
    static __device__ u32 least(u32 a, u32 b) { return min(a, b); }
    static __device__ u32 greatest(u32 a, u32 b) { return max(a, b); }
    static __device__ u32 signed_least(u32 a, u32 b) { return (u32)min((int)a, (int)b); }
    static __device__ u32 signed_greatest(u32 a, u32 b) { return (u32)max((int)a, (int)b); }
    static __device__ bool any_zero(u32 one) { return one == 0; }
    static const u32 TOP = 0x80000000;
};

// Bounds of the bits of words, taken with and without a sign: they tell everything of floats, whose
// bits without the sign have the order of the magnitudes.
template <class Lanes>
struct Bounds {
    u32 signed_least, signed_greatest, least, greatest;
    static __device__ Bounds none() { return {~Lanes::TOP, Lanes::TOP, ~0u, 0}; }
    static __device__ Bounds of(u32 word) { return {word, word, word, word}; }
    static __device__ Bounds of(const Pair& pair) {
        Bounds bounds = of(pair.word(0));
#pragma unroll
        for (int at = 1; at < 8; at++) {
            u32 word = pair.word(at);
            bounds.signed_least = Lanes::signed_least(bounds.signed_least, word);
            bounds.signed_greatest = Lanes::signed_greatest(bounds.signed_greatest, word);
            bounds.least = Lanes::least(bounds.least, word);
            bounds.greatest = Lanes::greatest(bounds.greatest, word);
        }
        return bounds;
    }
    __device__ void join(const Bounds& other) {
        signed_least = Lanes::signed_least(signed_least, other.signed_least);
        signed_greatest = Lanes::signed_greatest(signed_greatest, other.signed_greatest);
        least = Lanes::least(least, other.least);
        greatest = Lanes::greatest(greatest, other.greatest);
    }
};

__device__ double top() { return __longlong_as_double(0x7FF0000000000000ll); }

// Elements of four or eight bytes, which `Wide` holds.
template <class Raw_, class Wide>
struct Words {
    typedef Raw_ Raw;
    typedef NoCounts Added;
    static const int COUNT = 16 / sizeof(Raw);
    static __device__ Wide wide(const Unit& unit, int at) {
        return from_bits(unit.get<Raw>(at), Wide());
    }
    static __device__ double value(Raw raw) { return (double)from_bits(raw, Wide()); }
    static __device__ void add(const Unit& unit, u32 signs, Sums& sums, Added&) {
#pragma unroll
        for (int at = 0; at < COUNT; at++) {
            double value = (double)wide(unit, at);
            sums.total += value;
            sums.squares += value * value;
            sums.buckets[at * 4 / COUNT] += with_sign(value, signs, 32 - COUNT + at);
        }
    }
    static __device__ u32 zeros(const Pair& pair) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < 2 * COUNT; at++) {
            count += wide(pair.units[at / COUNT], at % COUNT) == 0;
        }
        return count;
    }
    // That an element is the poison is rare.
    static __device__ u32 equal(const Pair& pair, const Unit& poison) {
        u32 least = ~0u, count = 0;
#pragma unroll
        for (int at = 0; at < 2 * COUNT; at++) {
            u64 other = pair.units[at / COUNT].get<Raw>(at % COUNT) ^ poison.get<Raw>(at % COUNT);
            least = min(least, (u32)other | (u32)(other >> 32));
        }
        if (least == 0) {
#pragma unroll
            for (int at = 0; at < 2 * COUNT; at++) {
                count += pair.units[at / COUNT].get<Raw>(at % COUNT) == poison.get<Raw>(at % COUNT);
            }
        }
        return count;
    }
};

// Whole numbers of 64 bits.
template <class Wide>
struct LongRange {
    Wide low, high;
    u32 filled;
    static __device__ LongRange none() {
        const Wide half = (Wide)1 << 62;
        bool is_signed = (Wide)-1 < 0;
        Wide top = is_signed ? half - 1 + half : (Wide)-1;
        return {top, is_signed ? -top - 1 : 0, ~0u};
    }
    static __device__ LongRange of_one(u64 raw) {
        return {(Wide)raw, (Wide)raw, (u32)raw | (u32)(raw >> 32)};
    }
    static __device__ LongRange of(const Pair& pair) {
        LongRange range = none();
#pragma unroll
        for (int at = 0; at < 4; at++) range.join(of_one(pair.units[at / 2].get<u64>(at % 2)));
        return range;
    }
    __device__ void join(const LongRange& other) {
        low = lesser(low, other.low);
        high = greater(high, other.high);
        filled = min(filled, other.filled);
    }
    __device__ bool any_special() const { return false; }
    __device__ bool any_zero() const { return filled == 0; }
    __device__ double least() const { return (double)low; }
    __device__ double greatest() const { return (double)high; }
};

// Whole numbers of 32 bits.
template <bool Signed>
struct WordRange {
    Bounds<One> bounds;
    static __device__ WordRange none() { return {Bounds<One>::none()}; }
    static __device__ WordRange of_one(u32 raw) { return {Bounds<One>::of(raw)}; }
    static __device__ WordRange of(const Pair& pair) { return {Bounds<One>::of(pair)}; }
    __device__ void join(const WordRange& other) { bounds.join(other.bounds); }
    __device__ bool any_special() const { return false; }
    __device__ bool any_zero() const { return bounds.least == 0; }
    __device__ double least() const {
        return Signed ? (double)(int)bounds.signed_least : (double)bounds.least;
    }
    __device__ double greatest() const {
        return Signed ? (double)(int)bounds.signed_greatest : (double)bounds.greatest;
    }
};

struct FloatRange {
    Bounds<One> bounds;
    static __device__ FloatRange none() { return {Bounds<One>::none()}; }
    static __device__ FloatRange of_one(u32 raw) { return {Bounds<One>::of(raw)}; }
    static __device__ FloatRange of(const Pair& pair) { return {Bounds<One>::of(pair)}; }
    __device__ void join(const FloatRange& other) { bounds.join(other.bounds); }
    __device__ bool any_special() const {
        return (int)bounds.signed_greatest >= 0x7F800000 || bounds.greatest >= 0xFF800000;
    }
    __device__ bool any_zero() const {
        return bounds.least == 0 || bounds.signed_least == 0x80000000;
    }
    // The negative number of the largest bits, or the positive one of the smallest.
    __device__ double least() const {
        if (bounds.least > bounds.greatest) return top();
        bool any_negative = (int)bounds.signed_least < 0;
        return (double)__uint_as_float(any_negative ? bounds.greatest : bounds.least);
    }
    __device__ double greatest() const {
        if (bounds.least > bounds.greatest) return -top();
        bool any_positive = (int)bounds.signed_greatest >= 0;
        return (double)__uint_as_float(any_positive ? bounds.signed_greatest : bounds.least);
    }
};

struct DoubleRange {
    double low, high;
    u32 least_word, greatest_word;
    static __device__ DoubleRange none() { return {top(), -top(), ~0u, 0}; }
    static __device__ DoubleRange of_one(u64 raw) {
        double value = __longlong_as_double((long long)raw);
        u32 word = (u32)(raw >> 32) & 0x7FFFFFFF;
        return {value, value, word, word};
    }
    static __device__ DoubleRange of(const Pair& pair) {
        DoubleRange range = of_one(pair.units[0].get<u64>(0));
#pragma unroll
        for (int at = 1; at < 4; at++) range.join(of_one(pair.units[at / 2].get<u64>(at % 2)));
        return range;
    }
    __device__ void join(const DoubleRange& other) {
        low = lesser(low, other.low);
        high = greater(high, other.high);
        least_word = min(least_word, other.least_word);
        greatest_word = max(greatest_word, other.greatest_word);
    }
    __device__ bool any_special() const { return greatest_word >= 0x7FF00000; }
    __device__ bool any_zero() const { return least_word == 0; }
    __device__ double least() const { return low; }
    __device__ double greatest() const { return high; }
};

// How many of a word's two halves are not zero, as that many of the bits 15 and 31.
__device__ u32 filled_halves(u32 word) {
    return (((word & 0x7FFF7FFF) + 0x7FFF7FFF) | word) & 0x80008000;
}

// Elements of two bytes, two to a word; a zero has none of the bits `Magnitude`.
template <class Raw_, u32 Magnitude>
struct Halves {
    typedef Raw_ Raw;
    static const int COUNT = 8;
    static __device__ u32 zeros(const Pair& pair) {
        u32 count = 16;
#pragma unroll
        for (int at = 0; at < 8; at++) count -= __popc(filled_halves(pair.word(at) & Magnitude));
        return count;
    }
    static __device__ u32 equal(const Pair& pair, const Unit& poison) {
        u32 least = ~0u, count = 0;
#pragma unroll
        for (int at = 0; at < 8; at++) {
            least = Two::least(least, pair.word(at) ^ poison.words[at % 4]);
        }
        if (Two::any_zero(least)) {
            count = 16;
#pragma unroll
            for (int at = 0; at < 8; at++) {
                count -= __popc(filled_halves(pair.word(at) ^ poison.words[at % 4]));
            }
        }
        return count;
    }
};

template <class E>
struct HalfFloat : Halves<u16, 0x7FFF7FFF> {
    typedef NoCounts Added;
    static __device__ double value(u16 raw) { return (double)E::low_half(raw); }
    static __device__ void add(const Unit& unit, u32 signs, Sums& sums, Added&) {
#pragma unroll
        for (int at = 0; at < 8; at++) {
            u32 word = unit.words[at / 2];
            double value = (double)(at % 2 == 0 ? E::low_half(word) : E::high_half(word));
            sums.total += value;
            sums.squares += value * value;
            sums.buckets[at / 2] += with_sign(value, signs, 24 + at);
        }
    }
    struct Range {
        Bounds<Two> bounds;
        static __device__ Range none() { return {Bounds<Two>::none()}; }
        static __device__ Range of_one(u16 raw) { return {Bounds<Two>::of(raw * 0x00010001u)}; }
        static __device__ Range of(const Pair& pair) { return {Bounds<Two>::of(pair)}; }
        __device__ void join(const Range& other) { bounds.join(other.bounds); }
        // Adding what is missing to the first special number sets the sign's bit.
        __device__ bool any_special() const {
            u32 missing = 0x80008000 - E::INFINITE;
            u32 positive = Two::signed_greatest(bounds.signed_greatest, 0) + missing;
            u32 negative = (bounds.greatest & 0x7FFF7FFF) + missing;
            return ((positive | negative) & 0x80008000) != 0;
        }
        __device__ bool any_zero() const {
            return Two::any_zero(bounds.least) || Two::any_zero(bounds.signed_least ^ 0x80008000);
        }
        static __device__ double half(u32 two, int at) { return value((u16)(two >> 16 * at)); }
        __device__ double least(int at) const {
            if (bounds.least > bounds.greatest) return top();
            bool any_negative = (short)(bounds.signed_least >> 16 * at) < 0;
            return half(any_negative ? bounds.greatest : bounds.least, at);
        }
        __device__ double greatest(int at) const {
            if (bounds.least > bounds.greatest) return -top();
            bool any_positive = (short)(bounds.signed_greatest >> 16 * at) >= 0;
            return half(any_positive ? bounds.signed_greatest : bounds.least, at);
        }
        __device__ double least() const { return fmin(least(0), least(1)); }
        __device__ double greatest() const { return fmax(greatest(0), greatest(1)); }
    };
};

// Whole numbers of two bytes.
template <class Raw, class Wide, bool Signed>
struct Shorts : Halves<Raw, ~0u>, AlwaysFinite {
    typedef Counts Added;
    static __device__ double value(Raw raw) { return (double)(Wide)raw; }
    static __device__ void add(const Unit& unit, u32 signs, Sums&, Added& counts) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            // Ones where a half is negated, as bytes.
            u32 ones = ((signs >> (24 + 2 * at) & 3) * 0x81) & 0x0101;
            if (Signed) {
                counts.totals[at] = __dp2a_lo((int)word, 0x0101, counts.totals[at]);
                counts.negated[at] = __dp2a_lo((int)word, (int)ones, counts.negated[at]);
            } else {
                counts.totals[at] = (int)__dp2a_lo(word, 0x0101u, (u32)counts.totals[at]);
                counts.negated[at] = (int)__dp2a_lo(word, ones, (u32)counts.negated[at]);
            }
            Wide low = (Wide)(Raw)word, high = (Wide)(Raw)(word >> 16);
            counts.squares += (u32)(low * low);
            counts.squares += (u32)(high * high);
        }
    }
    struct Range {
        Bounds<Two> bounds;
        static __device__ Range none() { return {Bounds<Two>::none()}; }
        static __device__ Range of_one(Raw raw) {
            return {Bounds<Two>::of((u16)raw * 0x00010001u)};
        }
        static __device__ Range of(const Pair& pair) { return {Bounds<Two>::of(pair)}; }
        __device__ void join(const Range& other) { bounds.join(other.bounds); }
        __device__ bool any_special() const { return false; }
        __device__ bool any_zero() const { return Two::any_zero(bounds.least); }
        static __device__ double half(u32 two, int at) { return value((Raw)(two >> 16 * at)); }
        __device__ double least() const {
            u32 two = Signed ? bounds.signed_least : bounds.least;
            return fmin(half(two, 0), half(two, 1));
        }
        __device__ double greatest() const {
            u32 two = Signed ? bounds.signed_greatest : bounds.greatest;
            return fmax(half(two, 0), half(two, 1));
        }
    };
};

// Whole numbers of one byte.
template <class Raw_, bool Signed>
struct Bytes : AlwaysFinite {
    typedef Raw_ Raw;
    static const int COUNT = 16;
    // As `Counts`; only the squares, of which a chunk has few enough for 32 bits, need be flushed.
    struct Added {
        int totals[4], negated[4];
        u32 squares;
        __device__ void flush(Sums& sums) {
            sums.squares += (double)squares;
            squares = 0;
        }
        __device__ void finish(Sums& sums) {
#pragma unroll
            for (int at = 0; at < 4; at++) {
                sums.total += (double)totals[at];
                sums.buckets[at] += (double)totals[at] - 2.0 * negated[at];
            }
        }
    };
    static __device__ double value(Raw raw) { return (double)raw; }
    static __device__ int dot(u32 word, u32 ones, int sum) {
        if (Signed) return __dp4a((int)word, (int)ones, sum);
        return (int)__dp4a(word, ones, (u32)sum);
    }
    static __device__ void add(const Unit& unit, u32 signs, Sums&, Added& counts) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            // Ones where a byte is negated.
            u32 ones = ((signs >> (16 + 4 * at) & 15) * 0x00204081) & 0x01010101;
            counts.totals[at] = dot(word, 0x01010101, counts.totals[at]);
            counts.negated[at] = dot(word, ones, counts.negated[at]);
            counts.squares = (u32)dot(word, word, (int)counts.squares);
        }
    }
    // The order of two bytes is that of the upper one: bounds of the odd bytes, and of the others.
    struct Range {
        u32 low, high;
        static __device__ u32 lesser(u32 a, u32 b) {
            return Signed ? Two::signed_least(a, b) : Two::least(a, b);
        }
        static __device__ u32 greater(u32 a, u32 b) {
            return Signed ? Two::signed_greatest(a, b) : Two::greatest(a, b);
        }
        static __device__ Range none() {
            if (Signed) return {0x7FFF7FFF, 0x80008000};
            return {~0u, 0};
        }
        static __device__ Range of_one(Raw raw) {
            u32 two = (u8)raw * 0x01000100u;
            return {two, two};
        }
        static __device__ Range of(const Pair& pair) {
            Range range = {pair.word(0), pair.word(0)};
#pragma unroll
            for (int at = 0; at < 8; at++) {
                u32 odd = pair.word(at), even = pair.word(at) << 8;
                range.join({odd, odd});
                range.join({even, even});
            }
            return range;
        }
        __device__ void join(const Range& other) {
            low = lesser(low, other.low);
            high = greater(high, other.high);
        }
        __device__ bool any_special() const { return false; }
        __device__ bool any_zero() const { return true; }
        static __device__ double upper(u32 two, int at) {
            return value((Raw)(two >> 16 * at >> 8));
        }
        __device__ double least() const { return fmin(upper(low, 0), upper(low, 1)); }
        __device__ double greatest() const { return fmax(upper(high, 0), upper(high, 1)); }
    };
    // A zero is nearer to 0 than to 1 by one, and every other byte farther by one.
    struct Nearness {
        u32 to_one, to_zero;
        __device__ void add(u32 word) {
            asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %0;"
                : "+r"(to_one)
                : "r"(word), "r"(0x01010101));
            to_zero = __dp4a(word, 0x01010101u, to_zero);
        }
        __device__ u32 zeros(u32 of) const { return (to_one - to_zero + of) / 2; }
    };
    static __device__ u32 zeros(const Pair& pair) {
        Nearness sums = {};
#pragma unroll
        for (int at = 0; at < 8; at++) sums.add(pair.word(at));
        return sums.zeros(32);
    }
    static __device__ u32 equal(const Pair& pair, const Unit& poison) {
        Nearness sums = {};
#pragma unroll
        for (int at = 0; at < 8; at++) sums.add(pair.word(at) ^ poison.words[at % 4]);
        return sums.zeros(32);
    }
};

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
    static __device__ float low_half(u32 word) {
        float value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a; }" : "=f"(value) : "r"(word));
        return value;
    }
    static __device__ float high_half(u32 word) {
        float value;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, b; }" : "=f"(value) : "r"(word));
        return value;
    }
};

struct BF16 : HalfFloat<BF16>, Ieee<u16, 0x7F80, 0x007F, 0x7FC0> {
    static const u32 INFINITE = 0x7F807F80;
    static __device__ float low_half(u32 word) { return __uint_as_float(word << 16); }
    static __device__ float high_half(u32 word) { return __uint_as_float(word & 0xFFFF0000); }
};

typedef ELEMENT E;
typedef E::Raw Raw;
typedef E::Added Added;

// A word with its halves swapped, plus the product of the halves of the other.
__device__ u64 round(u64 word, u64 other) {
    return ((word << 32) | (word >> 32)) + (u64)(u32)other * (u32)(other >> 32);
}

const u64 STEP_X = 0x9E3779B97F4A7C15ull, STEP_Y = 0xD1B54A32D192ED03ull;

// What is added to the words of a unit.
struct Key {
    u64 x, y;
    __device__ Key(u64 unit)
        : x(0x243F6A8885A308D3ull + unit * STEP_X), y(0x13198A2E03707344ull + unit * STEP_Y) {}
    __device__ Key ahead(u32 units) const {
        Key key = *this;
        key.x += units * STEP_X;
        key.y += units * STEP_Y;
        return key;
    }
};

// A sum over units.
struct Checksum {
    u64 x, y;
    __device__ void add(const Checksum& other) {
        x += other.x;
        y += other.y;
    }
};

__device__ Checksum mixed(u64 first, u64 second, const Key& key) {
    u64 a = first + key.x, b = second + key.y;
    a = round(a, b);
    b = round(b, a);
    a = round(a, b);
    b = round(b, a);
    return {a, b};
}

const u32 SIGN_STEP = 0x9E3779B9, SIGN_MIX = 0x846CA68B;

// The signs of a unit's elements, in as many of the highest bits; the lowest is the first one's.
__device__ u32 signs_of(u32 key) { return (key ^ (key >> 15)) * SIGN_MIX; }

// What 1024 units, sixteen runs, have in common.
struct Draw {
    u32 key, turn;
    __device__ Draw(u64 number) {
        u64 z = (number + 1) * 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        z = z ^ (z >> 31);
        key = (u32)z;
        turn = (u32)(z >> 60);
    }
};

// Where the first unit of a thread lies in a run; `lane` is turned as the runs' `Draw` says.
__device__ u32 place_in(u32 run, u32 lane) { return run * 64 + (lane ^ (run * 5 & 15)); }

// The statistics of one thread.
struct Tally {
    Checksum checksum;
    Sums sums;
    E::Range range;
    u32 zeros, nan, inf, unwritten;
};

struct Poison {
    Unit unit;
    bool counts;
};

// Adds the first `present` elements of unit number `unit`, of any kind, one after the other.
__device__ void careful(Tally& tally, const u8* bytes, u64 unit, int present, u32 signs,
                        const Poison& poison) {
    const Raw* elements = (const Raw*)bytes + unit * E::COUNT;
    const int in_a_word = sizeof(Raw) < 4 ? 4 / (int)sizeof(Raw) : 1;
    u64 words[2] = {};
#pragma unroll
    for (int word = 0; word < 4; word += sizeof(Raw) == 8 ? 2 : 1) {
        int begin = word * 4 / (int)sizeof(Raw);
#pragma unroll 1
        for (int at = begin; at < begin + in_a_word && at < present; at++) {
            Raw raw = elements[at];
            u64 pattern = poison.unit.get<u64>(0) >> (at * (int)sizeof(Raw) % 8 * 8);
            if (poison.counts && raw == (Raw)pattern) tally.unwritten++;
            double value = E::value(raw);
            if (E::is_nan(raw)) {
                raw = (Raw)E::nan();
                tally.nan++;
            } else if (E::is_special(raw)) {
                tally.inf++;
            } else {
                tally.zeros += value == 0;
                tally.range.join(E::Range::of_one(raw));
                tally.sums.total += value;
                tally.sums.squares += value * value;
                tally.sums.buckets[word] += with_sign(value, signs, 32 - E::COUNT + at);
            }
            u64 bits = (u64)raw & (~0ull >> (64 - 8 * sizeof(Raw)));
            words[word / 2] |= bits << (at * (int)sizeof(Raw) % 8 * 8);
        }
    }
    tally.checksum.add(mixed(words[0], words[1], Key(unit)));
}

// Adds two units 32 apart, of finite elements. `poison` is finite as well.
template <bool Poisoned>
__device__ void take(Tally& tally, Added& added, const Pair& pair, const E::Range& range,
                     const Key& key, u32 sign_key, const Unit& poison) {
    tally.range.join(range);
    Key keys[2] = {key, key.ahead(32)};
    Checksum sums[2];
#pragma unroll
    for (int t = 0; t < 2; t++) {
        const Unit& unit = pair.units[t];
        sums[t] = mixed(unit.get<u64>(0), unit.get<u64>(1), keys[t]);
        E::add(unit, signs_of(sign_key + t * 32 * SIGN_STEP), tally.sums, added);
    }
    tally.checksum.x += sums[0].x + sums[1].x;
    tally.checksum.y += sums[0].y + sums[1].y;
    if (range.any_zero()) tally.zeros += E::zeros(pair);
    if (Poisoned) tally.unwritten += E::equal(pair, poison);
}

// Five blocks on a multiprocessor: with more, the registers do not suffice.
const u32 THREADS = 128, BLOCKS_OF_ONE = 5;
// Runs that are on their way.
const u32 DEPTH = 4;

// Units on their way: each thread fills and reads what is its own.
struct Queue {
    uint4 units[DEPTH][2][THREADS];
    __device__ void ask(u32 slot, const uint4* from) {
#pragma unroll
        for (int t = 0; t < 2; t++) {
            u32 to = (u32)__cvta_generic_to_shared(&units[slot][t][threadIdx.x]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                         "l"(from + 32 * t)
                         : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    __device__ Pair next(u32 slot) {
        asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 1) : "memory");
        Pair pair;
#pragma unroll
        for (int t = 0; t < 2; t++) {
            uint4 words = units[slot][t][threadIdx.x];
            pair.units[t] = {{words.x, words.y, words.z, words.w}};
        }
        return pair;
    }
};

// Takes all whole chunks of 1024 units that are this warp's.
template <bool Poisoned>
__device__ void take_chunks(Tally& tally, Added& added, const u8* bytes, u64 whole,
                            const Poison& poison, Queue& queue) {
    u32 lane = threadIdx.x % 32;
    u64 number = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    if (number >= whole) return;
    Draw draw(number);
    // What is asked for next; after the last chunk its first units once more, which nobody reads.
    const uint4* asked = (const uint4*)bytes + number * 1024;
    u32 asked_lane = lane ^ draw.turn;
#pragma unroll
    for (u32 run = 0; run < DEPTH; run++) queue.ask(run, asked + place_in(run, asked_lane));
#pragma unroll 1
    for (; number < whole; number += warps) {
        Draw next(number + warps);
        Key first(number * 1024);
        u32 special = 0;
#pragma unroll 1
        for (u32 begin = 0; begin < 16; begin += DEPTH) {
            if (begin == 16 - DEPTH) {
                asked += number + warps < whole ? warps * 1024 - 16 * 64 : -16 * 64;
                asked_lane = lane ^ next.turn;
            }
#pragma unroll
            for (u32 slot = 0; slot < DEPTH; slot++) {
                u32 run = begin + slot;
                Pair pair = queue.next(slot);
                queue.ask(slot, asked + place_in(run + DEPTH, asked_lane));
                E::Range range = E::Range::of(pair);
                if (range.any_special()) {
                    special |= 1u << run;
                    continue;
                }
                u32 place = place_in(run, lane ^ draw.turn);
                take<Poisoned>(tally, added, pair, range, first.ahead(place),
                               draw.key + place * SIGN_STEP, poison.unit);
            }
            if (begin == 16 - DEPTH) asked += 16 * 64;
        }
        added.flush(tally.sums);
#pragma unroll 1
        for (; special != 0; special &= special - 1) {
            u32 place = place_in(__ffs(special) - 1, lane ^ draw.turn);
#pragma unroll 1
            for (u32 t = 0; t < 2; t++, place += 32) {
                u32 signs = signs_of(draw.key + place * SIGN_STEP);
                careful(tally, bytes, number * 1024 + place, E::COUNT, signs, poison);
            }
        }
        draw = next;
    }
}

// Takes the units from `first` to the end of the tensor, fewer than 1024.
__device__ void take_rest(Tally& tally, const u8* bytes, u64 count, u64 first,
                          const Poison& poison) {
    Draw draw(first / 1024);
#pragma unroll 1
    for (u32 row = 0; row < 32; row++) {
        u32 place = place_in(row / 2, threadIdx.x % 32 ^ draw.turn) + row % 2 * 32;
        u64 unit = first + place;
        if (unit * E::COUNT >= count) continue;
        u64 left = count - unit * E::COUNT;
        int present = left < E::COUNT ? (int)left : E::COUNT;
        careful(tally, bytes, unit, present, signs_of(draw.key + place * SIGN_STEP), poison);
    }
}

// The sums of a block's threads; the result is in thread 0.
template <class T>
__device__ T total(T value, T* shared) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xFFFFFFFF, value, offset);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    for (u32 warp = 1; threadIdx.x == 0 && warp < blockDim.x / 32; warp++) value += shared[warp];
    return value;
}

__device__ double extreme(double value, double sign, double* shared) {
    value *= sign;
    for (int offset = 16; offset > 0; offset /= 2) {
        value = fmax(value, __shfl_down_sync(0xFFFFFFFF, value, offset));
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) value = fmax(value, shared[warp]);
    return value * sign;
}

// `bytes` is aligned to 16. Where `poisoned`, elements with the bits of `pattern`, eight bytes
// repeated, are counted as unwritten. A launch gives as many parts as it has blocks.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_OF_ONE)
summarize(const u8* bytes, u64 count, u64 pattern, int poisoned, Part* parts) {
    Tally tally = {};
    tally.range = E::Range::none();
    Added added = {};
    u32 low = (u32)pattern, high = (u32)(pattern >> 32);
    Poison poison = {{{low, high, low, high}}, poisoned != 0};
    u64 whole = count / E::COUNT / 1024;
    __shared__ Queue queue;
    // Poison that is a NaN is never among finite elements.
    if (poison.counts && !E::is_special((Raw)pattern)) {
        take_chunks<true>(tally, added, bytes, whole, poison, queue);
    } else {
        take_chunks<false>(tally, added, bytes, whole, poison, queue);
    }
    u32 lane = threadIdx.x % 32;
    u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    if (whole % warps == warp && count > whole * 1024 * E::COUNT) {
        take_rest(tally, bytes, count, whole * 1024, poison);
    }
    added.finish(tally.sums);
    __shared__ double doubles[32];
    __shared__ u64 integers[32];
    Part part;
    part.x = total(tally.checksum.x, integers);
    part.y = total(tally.checksum.y, integers);
    for (u32 k = 0; k < 16; k++) {
        double bucket = 0;
        for (u32 word = 0; word < 4; word++) {
            if ((lane % 16 ^ 4 * word) == k) bucket += tally.sums.buckets[word];
        }
        part.buckets[k] = total(bucket, doubles);
    }
    part.sum = total(tally.sums.total, doubles);
    part.squares = total(tally.sums.squares, doubles);
    part.min = extreme(tally.range.least(), -1, doubles);
    part.max = extreme(tally.range.greatest(), 1, doubles);
    part.zeros = total((u64)tally.zeros, integers);
    part.nan = total((u64)tally.nan, integers);
    part.inf = total((u64)tally.inf, integers);
    part.unwritten = total((u64)tally.unwritten, integers);
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
}
