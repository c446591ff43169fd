// Elements of four and of eight bytes, and the members that all families of elements have.

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

// Integers of 64 bits.
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

// Integers of 32 bits.
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
