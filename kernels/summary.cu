// Checksum, statistics and sketch of a tensor in one pass, as docs/checksum.md specifies them.
// The checksum is the CPU's for equal bytes; sums in float64 are added in another order.
//
// A warp takes a chunk of 1024 units of 16 bytes, sixteen runs of 64; which thread takes which two
// units of a run depends on the run, so that a thread has the same four buckets all the time. A
// thread takes two runs at a time, a batch; batches come through shared memory, one ahead. What is
// rare (elements that are NaN or infinite, the end of the tensor) is looked at once more, element
// by element. Where instructions are written out, the compiler makes more of them for the same.
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

// Two units of a run and two of the next, and their words one after the other.
const int UNITS = 4, WORDS = 4 * UNITS;
struct Batch {
    Unit units[UNITS];
    __device__ u32 word(int at) const { return units[at / 4].words[at % 4]; }
    // The bits of element `at` of all.
    template <class Raw>
    __device__ Raw get(int at) const {
        const int count = 16 / sizeof(Raw);
        return units[at / count].get<Raw>(at % count);
    }
};

// Sums of squares, and of elements by the word of 32 bits in which they begin: those that have the
// sign + in the sketch, and those that have the sign -.
struct Sums {
    double squares, positive[4], negative[4];
    // Adds an element that begins in word `word`; its sign is - where bit `at` of `signs` is set.
    __device__ void add(double value, int word, u32 signs, int at) {
        squares += value * value;
        // Branches become predicates; of an `if` or a predicate the compiler makes four selections.
        asm volatile("{ .reg .pred negated; .reg .b32 bit;"
                     "  and.b32 bit, %3, %4; setp.ne.u32 negated, bit, 0;"
                     "  @negated bra NEGATED; add.f64 %0, %0, %2; bra ADDED;"
                     "  NEGATED: add.f64 %1, %1, %2; ADDED: }"
                     : "+d"(positive[word]), "+d"(negative[word])
                     : "d"(value), "r"(signs), "r"(1u << at));
    }
};

// The same of whole numbers, on their way to be `Sums`.
struct Counts {
    int totals[4], negated[4];
    u64 squares;
    __device__ void flush(Sums& sums) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            sums.positive[at] += (double)(totals[at] - negated[at]);
            sums.negative[at] += (double)negated[at];
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
//   Range                    what bounds elements: none, of a batch, of one; joined with another;
//                            whether special ones lie within; the least, the greatest; and marks,
//                            some lane of which is zero where a zero, or poison, may lie within
//   zeros, equal             how many elements of a batch are zero, or those of `poison`

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
    static const u32 TOP = 0x80008000, UNIT = 0x00010001;
};
struct One {
    static __device__ u32 least(u32 a, u32 b) { return min(a, b); }
    static __device__ u32 greatest(u32 a, u32 b) { return max(a, b); }
    static __device__ u32 signed_least(u32 a, u32 b) { return (u32)min((int)a, (int)b); }
    static __device__ u32 signed_greatest(u32 a, u32 b) { return (u32)max((int)a, (int)b); }
    static __device__ bool any_zero(u32 one) { return one == 0; }
    static const u32 TOP = 0x80000000, UNIT = 1;
};

// Bounds of the bits of words, taken with and without a sign: they tell everything of floats, whose
// bits without the sign have the order of the magnitudes.
template <class Lanes>
struct Bounds {
    u32 signed_least, signed_greatest, least, greatest;
    static __device__ Bounds none() { return {~Lanes::TOP, Lanes::TOP, ~0u, 0}; }
    static __device__ Bounds of(u32 word) { return {word, word, word, word}; }
    static __device__ Bounds of(const Batch& batch) {
        Bounds bounds = of(batch.word(0));
#pragma unroll
        for (int at = 1; at < WORDS; at++) {
            u32 word = batch.word(at);
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
    // Whether a float is a NaN or infinite; the bits of infinity are `infinite`.
    __device__ bool any_special(u32 infinite) const {
        u32 below = infinite - Lanes::UNIT;
        u32 magnitude = Lanes::signed_greatest(signed_greatest, greatest & ~Lanes::TOP);
        return Lanes::signed_greatest(magnitude, below) != below;
    }
    // A mark of floats that are 0 or -0.
    __device__ u32 zero_float() const { return Lanes::least(least, signed_least ^ Lanes::TOP); }
    // A mark of elements that are not below all of `pattern`, taken with or without a sign.
    template <bool Signed>
    __device__ u32 reaches(u64 pattern) const {
        u32 a = (u32)pattern, b = (u32)(pattern >> 32);
        if (Signed) {
            u32 floor = Lanes::signed_least(a, b);
            return Lanes::signed_greatest(signed_greatest, floor) ^ signed_greatest;
        }
        u32 floor = Lanes::least(a, b);
        return Lanes::greatest(greatest, floor) ^ greatest;
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
            sums.add((double)wide(unit, at), at * 4 / COUNT, signs, 32 - COUNT + at);
        }
    }
    static __device__ u32 zeros(const Batch& batch) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < UNITS * COUNT; at++) {
            count += wide(batch.units[at / COUNT], at % COUNT) == 0;
        }
        return count;
    }
    static __device__ u32 equal(const Batch& batch, const Unit& poison) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < UNITS * COUNT; at++) {
            count += batch.get<Raw>(at) == poison.get<Raw>(at % COUNT);
        }
        return count;
    }
};

// The range of the elements of 64 bits of a batch.
template <class Range>
__device__ Range of_all(const Batch& batch) {
    Range range = Range::of_one(batch.get<u64>(0));
#pragma unroll
    for (int at = 1; at < 2 * UNITS; at++) range.join(Range::of_one(batch.get<u64>(at)));
    return range;
}

// Whole numbers of 64 bits.
template <class Wide>
struct LongRange {
    typedef One Lanes;
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
    static __device__ LongRange of(const Batch& batch) { return of_all<LongRange>(batch); }
    __device__ void join(const LongRange& other) {
        low = lesser(low, other.low);
        high = greater(high, other.high);
        filled = min(filled, other.filled);
    }
    __device__ bool any_special() const { return false; }
    __device__ u32 zero_mark() const { return filled; }
    __device__ u32 poison_mark(u64 pattern) const { return high < (Wide)pattern; }
    __device__ double least() const { return (double)low; }
    __device__ double greatest() const { return (double)high; }
};

// Whole numbers of 32 bits.
template <bool Signed>
struct WordRange {
    typedef One Lanes;
    Bounds<One> bounds;
    static __device__ WordRange none() { return {Bounds<One>::none()}; }
    static __device__ WordRange of_one(u32 raw) { return {Bounds<One>::of(raw)}; }
    static __device__ WordRange of(const Batch& batch) { return {Bounds<One>::of(batch)}; }
    __device__ void join(const WordRange& other) { bounds.join(other.bounds); }
    __device__ bool any_special() const { return false; }
    __device__ u32 zero_mark() const { return bounds.least; }
    __device__ u32 poison_mark(u64 pattern) const { return bounds.reaches<Signed>(pattern); }
    __device__ double least() const {
        return Signed ? (double)(int)bounds.signed_least : (double)bounds.least;
    }
    __device__ double greatest() const {
        return Signed ? (double)(int)bounds.signed_greatest : (double)bounds.greatest;
    }
};

struct FloatRange {
    typedef One Lanes;
    Bounds<One> bounds;
    static __device__ FloatRange none() { return {Bounds<One>::none()}; }
    static __device__ FloatRange of_one(u32 raw) { return {Bounds<One>::of(raw)}; }
    static __device__ FloatRange of(const Batch& batch) { return {Bounds<One>::of(batch)}; }
    __device__ void join(const FloatRange& other) { bounds.join(other.bounds); }
    __device__ bool any_special() const { return bounds.any_special(0x7F800000); }
    __device__ u32 zero_mark() const { return bounds.zero_float(); }
    __device__ u32 poison_mark(u64 pattern) const { return bounds.reaches<true>(pattern); }
    // The negative number of the largest bits, or the positive one of the smallest.
    __device__ double least() const {
        if (bounds.least > bounds.greatest) return top();
        bool any_negative = (int)bounds.greatest < 0;
        return (double)__uint_as_float(any_negative ? bounds.greatest : bounds.least);
    }
    __device__ double greatest() const {
        if (bounds.least > bounds.greatest) return -top();
        bool any_positive = (int)bounds.signed_greatest >= 0;
        return (double)__uint_as_float(any_positive ? bounds.signed_greatest : bounds.least);
    }
};

struct DoubleRange {
    typedef One Lanes;
    double low, high;
    u32 least_word, greatest_word;
    static __device__ DoubleRange none() { return {top(), -top(), ~0u, 0}; }
    static __device__ DoubleRange of_one(u64 raw) {
        double value = __longlong_as_double((long long)raw);
        u32 word = (u32)(raw >> 32) & 0x7FFFFFFF;
        return {value, value, word, word};
    }
    static __device__ DoubleRange of(const Batch& batch) { return of_all<DoubleRange>(batch); }
    __device__ void join(const DoubleRange& other) {
        low = lesser(low, other.low);
        high = greater(high, other.high);
        least_word = min(least_word, other.least_word);
        greatest_word = max(greatest_word, other.greatest_word);
    }
    __device__ bool any_special() const { return greatest_word >= 0x7FF00000; }
    __device__ u32 zero_mark() const { return least_word; }
    __device__ u32 poison_mark(u64 pattern) const {
        return greatest_word < ((u32)(pattern >> 32) & 0x7FFFFFFF);
    }
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
    static __device__ u32 zeros(const Batch& batch) {
        u32 filled = 0;
#pragma unroll
        for (int at = 0; at < WORDS; at++) {
            filled = filled >> 1 | filled_halves(batch.word(at) & Magnitude);
        }
        return 2 * WORDS - __popc(filled);
    }
    static __device__ u32 equal(const Batch& batch, const Unit& poison) {
        u32 filled = 0;
#pragma unroll
        for (int at = 0; at < WORDS; at++) {
            filled = filled >> 1 | filled_halves(batch.word(at) ^ poison.words[at % 4]);
        }
        return 2 * WORDS - __popc(filled);
    }
};
static_assert(WORDS == 16, "the halves of a batch have a bit each");

template <class E>
struct HalfFloat : Halves<u16, 0x7FFF7FFF> {
    typedef NoCounts Added;
    static __device__ double value(u16 raw) { return E::low_half(raw); }
    static __device__ void add(const Unit& unit, u32 signs, Sums& sums, Added&) {
#pragma unroll
        for (int at = 0; at < 8; at++) {
            u32 word = unit.words[at / 2];
            double value = at % 2 == 0 ? E::low_half(word) : E::high_half(word);
            sums.add(value, at / 2, signs, 24 + at);
        }
    }
    struct Range {
        typedef Two Lanes;
        Bounds<Two> bounds;
        static __device__ Range none() { return {Bounds<Two>::none()}; }
        static __device__ Range of_one(u16 raw) { return {Bounds<Two>::of(raw * 0x00010001u)}; }
        static __device__ Range of(const Batch& batch) { return {Bounds<Two>::of(batch)}; }
        __device__ void join(const Range& other) { bounds.join(other.bounds); }
        __device__ bool any_special() const { return bounds.any_special(E::INFINITE); }
        __device__ u32 zero_mark() const { return bounds.zero_float(); }
        __device__ u32 poison_mark(u64 pattern) const { return bounds.reaches<true>(pattern); }
        static __device__ double half(u32 two, int at) { return value((u16)(two >> 16 * at)); }
        __device__ double least(int at) const {
            if (bounds.least > bounds.greatest) return top();
            bool any_negative = (short)(bounds.greatest >> 16 * at) < 0;
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
        typedef Two Lanes;
        Bounds<Two> bounds;
        static __device__ Range none() { return {Bounds<Two>::none()}; }
        static __device__ Range of_one(Raw raw) {
            return {Bounds<Two>::of((u16)raw * 0x00010001u)};
        }
        static __device__ Range of(const Batch& batch) { return {Bounds<Two>::of(batch)}; }
        __device__ void join(const Range& other) { bounds.join(other.bounds); }
        __device__ bool any_special() const { return false; }
        __device__ u32 zero_mark() const { return bounds.least; }
        __device__ u32 poison_mark(u64 pattern) const { return bounds.reaches<Signed>(pattern); }
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
                sums.positive[at] += (double)totals[at] - (double)negated[at];
                sums.negative[at] += (double)negated[at];
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
        typedef One Lanes;
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
        static __device__ Range of(const Batch& batch) {
            Range range = {batch.word(0), batch.word(0)};
#pragma unroll
            for (int at = 0; at < WORDS; at++) {
                u32 odd = batch.word(at), even = batch.word(at) << 8;
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
        __device__ u32 zero_mark() const { return 0; }
        __device__ u32 poison_mark(u64) const { return 0; }
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
    static __device__ u32 zeros(const Batch& batch) {
        Nearness sums = {};
#pragma unroll
        for (int at = 0; at < WORDS; at++) sums.add(batch.word(at));
        return sums.zeros(4 * WORDS);
    }
    static __device__ u32 equal(const Batch& batch, const Unit& poison) {
        Nearness sums = {};
#pragma unroll
        for (int at = 0; at < WORDS; at++) sums.add(batch.word(at) ^ poison.words[at % 4]);
        return sums.zeros(4 * WORDS);
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

typedef ELEMENT E;
typedef E::Raw Raw;
typedef E::Added Added;

__device__ u64 swapped(u64 word) { return (word << 32) | (word >> 32); }

// The product of the halves of `word`, plus `other`.
__device__ u64 product(u64 word, u64 other) {
    u64 sum;
    asm("mad.wide.u32 %0, %1, %2, %3;"
        : "=l"(sum)
        : "r"((u32)word), "r"((u32)(word >> 32)), "l"(other));
    return sum;
}

// The sum of `word`, its halves swapped, and `other`.
__device__ u64 swapped_sum(u64 word, u64 other) {
    u64 sum;
    asm("{ .reg .b32 low, high, a, b; mov.b64 {low, high}, %1; mov.b64 {a, b}, %2;"
        "  add.cc.u32 a, a, high; addc.u32 b, b, low; mov.b64 %0, {a, b}; }"
        : "=l"(sum)
        : "l"(word), "l"(other));
    return sum;
}

const u64 STEP_X = 0x9E3779B97F4A7C15ull, STEP_Y = 0xD1B54A32D192ED03ull;

// What is added to the words of a unit.
struct Key {
    u64 x, y;
    __device__ Key(u64 x, u64 y) : x(x), y(y) {}
    __device__ Key(u64 unit)
        : Key(0x243F6A8885A308D3ull + unit * STEP_X, 0x13198A2E03707344ull + unit * STEP_Y) {}
};

// What a mixed unit is in the checksum's sums, but for the last product of `y`.
struct Mixed {
    u64 x, y;
    // That product is added to `products`.
    __device__ Mixed(const Unit& unit, const Key& key, u64& products) {
        u64 a = unit.get<u64>(0) + key.x, b = unit.get<u64>(1) + key.y;
        a = product(b, swapped(a));
        b = product(a, swapped(b));
        x = swapped_sum(a, product(b, 0));
        y = swapped(b);
        products = product(x, products);
    }
};

// The checksum's sums over units; the second one is that of `y` and `products`.
struct Checksum {
    u64 x, y, products;
};

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

// Where the first unit of a thread lies in its chunk; `lane` is turned as the chunk's `Draw` says.
__device__ u32 place_in(u32 run, u32 lane) { return run * 64 + (lane ^ (run * 5 & 15)); }
// The same of a run that is `more` behind `run`, a multiple of four: four times five is four there.
__device__ u32 place_in(u32 run, u32 more, u32 lane) {
    return (lane ^ ((run + 5 * more) & 15)) + run * 64 + more * 64;
}

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
                tally.sums.add(value, word, signs, 32 - E::COUNT + at);
            }
            u64 bits = (u64)raw & (~0ull >> (64 - 8 * sizeof(Raw)));
            words[word / 2] |= bits << (at * (int)sizeof(Raw) % 8 * 8);
        }
    }
    Unit canonical = {{(u32)words[0], (u32)(words[0] >> 32), (u32)words[1], (u32)(words[1] >> 32)}};
    Mixed mixed(canonical, Key(unit), tally.checksum.products);
    tally.checksum.x += mixed.x;
    tally.checksum.y += mixed.y;
}

const u32 THREADS = 128;
// Four blocks on a multiprocessor: with more, the registers do not suffice.
const u32 BLOCKS_OF_ONE = 4;
// Batches that are on their way, and the runs that they are of.
const u32 DEPTH = 2, RUNS = 2 * DEPTH;

// What a block has in shared memory while it takes chunks.
struct Shared {
    uint4 queue[DEPTH][UNITS][THREADS];
    // How far the keys of a chunk's units are from that of its first.
    ulonglong2 steps[1024];
};

// Addresses in shared memory are told as sums, so that they need one register.

// Batches on their way: each thread fills and reads what is its own.
struct Queue {
    u32 base;
    static __device__ u32 offset(u32 slot, u32 unit) {
        return (slot * UNITS + unit) * THREADS * 16;
    }
    // Asks for the units at `one` and `other`, and those 32 behind each.
    __device__ void ask(u32 slot, const uint4* one, const uint4* other) {
#pragma unroll
        for (u32 t = 0; t < UNITS; t++) {
            const uint4* from = (t < 2 ? one : other) + t % 2 * 32;
            asm volatile("{ .reg .b32 to; add.u32 to, %0, %1;"
                         "  cp.async.cg.shared.global [to], [%2], 16; }" ::"r"(base),
                         "r"(offset(slot, t)), "l"(from)
                         : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    __device__ Batch next(u32 slot) {
        asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 1) : "memory");
        Batch batch;
#pragma unroll
        for (u32 t = 0; t < UNITS; t++) {
            u32* words = batch.units[t].words;
            asm volatile("{ .reg .b32 at; add.u32 at, %4, %5;"
                         "  ld.shared.v4.u32 {%0, %1, %2, %3}, [at]; }"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "r"(base), "r"(offset(slot, t))
                         : "memory");
        }
        return batch;
    }
};

// The keys of a chunk's units.
struct Keys {
    u32 steps;
    // That of the unit `more` behind the one at `place`, where the first unit has `first`.
    __device__ Key at(const Key& first, u32 place, u32 more) const {
        u64 x, y;
        asm("{ .reg .b32 at; mad.lo.u32 at, %2, 16, %3; add.u32 at, at, %4;"
            "  ld.shared.v2.u64 {%0, %1}, [at]; }"
            : "=l"(x), "=l"(y)
            : "r"(place), "r"(steps), "r"(more * 16));
        return Key(first.x + x, first.y + y);
    }
};

// Adds a batch of finite elements at these places of its chunk. `poison` is finite as well.
template <bool Poisoned>
__device__ void take(Tally& tally, Added& added, const Batch& batch, const E::Range& range,
                     const Key& first, const Keys& keys, const u32 (&places)[2], u32 sign_key,
                     const Unit& poison) {
    tally.range.join(range);
#pragma unroll
    for (int t = 0; t < UNITS; t += 2) {
        u64& products = tally.checksum.products;
        Mixed one(batch.units[t], keys.at(first, places[t / 2], 0), products);
        Mixed other(batch.units[t + 1], keys.at(first, places[t / 2], 32), products);
        tally.checksum.x += one.x + other.x;
        tally.checksum.y += one.y + other.y;
    }
#pragma unroll
    for (int t = 0; t < UNITS; t++) {
        u32 key = sign_key + places[t / 2] * SIGN_STEP + t % 2 * 32 * SIGN_STEP;
        E::add(batch.units[t], signs_of(key), tally.sums, added);
    }
    typedef E::Range::Lanes Lanes;
    u32 zero = range.zero_mark(), poisoned = range.poison_mark(poison.get<u64>(0));
    if (Lanes::any_zero(Poisoned ? Lanes::least(zero, poisoned) : zero)) {
        if (Lanes::any_zero(zero)) tally.zeros += E::zeros(batch);
        if (Poisoned && Lanes::any_zero(poisoned)) tally.unwritten += E::equal(batch, poison);
    }
}

// Takes all whole chunks that are this warp's.
template <bool Poisoned>
__device__ void take_chunks(Tally& tally, Added& added, const u8* bytes, u64 whole,
                            const Poison& poison, Queue queue, const Keys& keys) {
    u32 lane = threadIdx.x % 32;
    u64 number = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    if (number >= whole) return;
    Draw draw(number);
    // What is asked for next; after the last chunk its first units once more, which nobody reads.
    const uint4* asked = (const uint4*)bytes + number * 1024;
    u32 asked_lane = lane ^ draw.turn;
    // Where the batches on their way lie in their chunk.
    u32 places[DEPTH][2];
#pragma unroll
    for (u32 slot = 0; slot < DEPTH; slot++) {
        places[slot][0] = place_in(2 * slot, asked_lane);
        places[slot][1] = place_in(2 * slot + 1, asked_lane);
        queue.ask(slot, asked + places[slot][0], asked + places[slot][1]);
    }
#pragma unroll 1
    for (; number < whole; number += warps) {
        Draw next(number + warps);
        Key first(number * 1024);
        // A bit for each batch with elements that are not finite.
        u32 special = 0;
#pragma unroll 1
        for (u32 begin = 0; begin < 16; begin += RUNS) {
            if (begin == 16 - RUNS) {
                asked += number + warps < whole ? warps * 1024 : 0;
                asked_lane = lane ^ next.turn;
            }
            u32 ahead = (begin + RUNS) % 16, found = 0;
#pragma unroll
            for (u32 slot = 0; slot < DEPTH; slot++) {
                Batch batch = queue.next(slot);
                u32 here[2] = {places[slot][0], places[slot][1]};
                places[slot][0] = place_in(ahead, 2 * slot, asked_lane);
                places[slot][1] = place_in(ahead, 2 * slot + 1, asked_lane);
                queue.ask(slot, asked + places[slot][0], asked + places[slot][1]);
                E::Range range = E::Range::of(batch);
                if (range.any_special()) {
                    found |= 1u << slot;
                    continue;
                }
                take<Poisoned>(tally, added, batch, range, first, keys, here, draw.key,
                               poison.unit);
            }
            special |= found << begin / 2;
        }
        added.flush(tally.sums);
#pragma unroll 1
        for (; special != 0; special &= special - 1) {
            u32 run = 2 * (__ffs(special) - 1);
#pragma unroll 1
            for (u32 t = 0; t < UNITS; t++) {
                u32 place = place_in(run + t / 2, lane ^ draw.turn) + t % 2 * 32;
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
    __shared__ Shared shared;
    for (u32 i = threadIdx.x; i < 1024; i += THREADS) shared.steps[i] = {i * STEP_X, i * STEP_Y};
    __syncthreads();
    Queue queue = {(u32)__cvta_generic_to_shared(&shared.queue[0][0][threadIdx.x])};
    // Nothing is added, which the compiler does not know, and so keeps the sum. What reads there
    // does so after the barrier.
    Keys keys = {(u32)__cvta_generic_to_shared(shared.steps) + (u32)(count >> 63)};
    asm volatile("" : "+r"(keys.steps)::"memory");
    // Poison that is a NaN is never among finite elements.
    bool is_finite = false;
    for (int at = 0; at < E::COUNT; at++) is_finite |= !E::is_special(poison.unit.get<Raw>(at));
    if (poison.counts && is_finite) {
        take_chunks<true>(tally, added, bytes, whole, poison, queue, keys);
    } else {
        take_chunks<false>(tally, added, bytes, whole, poison, queue, keys);
    }
    u32 lane = threadIdx.x % 32;
    u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    if (whole % warps == warp && count > whole * 1024 * E::COUNT) {
        take_rest(tally, bytes, count, whole * 1024, poison);
    }
    Sums& sums = tally.sums;
    added.finish(sums);
    __shared__ double doubles[32];
    __shared__ u64 integers[32];
    Part part;
    part.x = total(tally.checksum.x, integers);
    part.y = total(tally.checksum.y + tally.checksum.products, integers);
    for (u32 k = 0; k < 16; k++) {
        double bucket = 0;
        for (u32 word = 0; word < 4; word++) {
            double signed_sum = sums.positive[word] - sums.negative[word];
            if ((lane % 16 ^ 4 * word) == k) bucket += signed_sum;
        }
        part.buckets[k] = total(bucket, doubles);
    }
    double sum = 0;
    for (u32 word = 0; word < 4; word++) sum += sums.positive[word] + sums.negative[word];
    part.sum = total(sum, doubles);
    part.squares = total(sums.squares, doubles);
    part.min = extreme(tally.range.least(), -1, doubles);
    part.max = extreme(tally.range.greatest(), 1, doubles);
    part.zeros = total((u64)tally.zeros, integers);
    part.nan = total((u64)tally.nan, integers);
    part.inf = total((u64)tally.inf, integers);
    part.unwritten = total((u64)tally.unwritten, integers);
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
}
