// Checksum, statistics and sketch of a tensor in one pass, as docs/checksum.md specifies them.
// The checksum is the CPU's for equal bytes; sums in float64 are added in another order.
//
// A warp takes 1024 units of 16 bytes, one row of 32 after the other; which thread takes which unit
// of a row depends on the run, so that a thread has the same four buckets all the time.
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
    template <class Raw>
    __device__ void set(int at, Raw raw) {
        u8* bytes = (u8*)words + at * sizeof(Raw);
        for (int k = 0; k < (int)sizeof(Raw); k++) bytes[k] = (u8)((u64)raw >> (8 * k));
    }
};

// Sums of elements, of their squares, and, with the sketch's signs, by the word of 32 bits in which
// an element begins.
struct Sums {
    double total, squares;
    double buckets[4];
};

// Sums of whole numbers by word, on their way to be `Sums`: of all, and of those that are negated.
template <class Square>
struct Counts {
    int total[4], negated[4];
    Square squares;
    __device__ void flush(Sums& sums) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            sums.total += (double)total[at];
            sums.buckets[at] += (double)(total[at] - 2 * negated[at]);
        }
        sums.squares += (double)squares;
        *this = Counts();
    }
};

struct NoCounts {
    __device__ void flush(Sums&) {}
};

// The number, negated where bit `at` is set.
__device__ double with_sign(double value, u32 bits, int at) {
    int high = __double2hiint(value) ^ (int)(bits << (31 - at) & 0x80000000);
    return __hiloint2double(high, __double2loint(value));
}

// An element type is one of the four families below, which all have
//   Raw, COUNT, value       its bits, how many are in a unit, what they stand for
//   is_special, is_nan, nan which bits are no finite number, and the one NaN that stands for all
//   Added, add              what it goes into besides `Sums`; signs are those of `signs_of`
//   Extreme, least, ...     one or two elements side by side
//   zeros, equal            how many elements are zero, or are those of a unit `poison`

struct AlwaysFinite {
    static __device__ bool any_special(const Unit (&)[4]) { return false; }
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

__device__ float lesser(float a, float b) { return fminf(a, b); }
__device__ float greater(float a, float b) { return fmaxf(a, b); }
template <class Wide> __device__ Wide lesser(Wide a, Wide b) { return b < a ? b : a; }
template <class Wide> __device__ Wide greater(Wide a, Wide b) { return b > a ? b : a; }

__device__ float magnitude(float value) { return fabsf(value); }
__device__ double magnitude(double value) { return fabs(value); }
template <class Wide> __device__ Wide magnitude(Wide value) { return value < 0 ? -value : value; }

__device__ float from_bits(u32 raw, float) { return __uint_as_float(raw); }
__device__ double from_bits(u64 raw, double) { return __longlong_as_double((long long)raw); }
template <class Raw, class Wide> __device__ Wide from_bits(Raw raw, Wide) { return (Wide)raw; }

__device__ float top_of(float) { return __uint_as_float(0x7F800000); }
__device__ double top_of(double) { return __longlong_as_double(0x7FF0000000000000ll); }
__device__ int top_of(int) { return 0x7FFFFFFF; }
__device__ long long top_of(long long) { return 0x7FFFFFFFFFFFFFFFll; }
__device__ u32 top_of(u32) { return ~0u; }
__device__ u64 top_of(u64) { return ~0ull; }
__device__ float bottom_of(float zero) { return -top_of(zero); }
__device__ double bottom_of(double zero) { return -top_of(zero); }
template <class Wide> __device__ Wide bottom_of(Wide zero) { return ~top_of(zero); }

// Elements of four or eight bytes, which `Wide` holds.
template <class Raw_, class Wide>
struct Words {
    typedef Raw_ Raw;
    typedef NoCounts Added;
    typedef Wide Extreme;
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
    static __device__ Wide least(Wide so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < COUNT; at++) so_far = lesser(so_far, wide(unit, at));
        return so_far;
    }
    static __device__ Wide greatest(Wide so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < COUNT; at++) so_far = greater(so_far, wide(unit, at));
        return so_far;
    }
    static __device__ Wide top() { return top_of(Wide()); }
    static __device__ Wide bottom() { return bottom_of(Wide()); }
    static __device__ double low(Wide least) { return (double)least; }
    static __device__ double high(Wide greatest) { return (double)greatest; }
    // Zeros are rare: the least magnitude tells whether there is one to be counted.
    static __device__ u32 zeros(const Unit (&units)[4]) {
        Wide least = magnitude(wide(units[0], 0));
        u32 count = 0;
#pragma unroll
        for (int at = 1; at < 4 * COUNT; at++) {
            least = lesser(least, magnitude(wide(units[at / COUNT], at % COUNT)));
        }
        if (least == 0) {
#pragma unroll
            for (int at = 0; at < 4 * COUNT; at++) count += wide(units[at / COUNT], at % COUNT) == 0;
        }
        return count;
    }
    static __device__ u32 equal(const Unit& unit, const Unit& poison) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < COUNT; at++) count += unit.get<Raw>(at) == poison.get<Raw>(at);
        return count;
    }
};

// How many of a word's two halves are zero, without a branch.
__device__ u32 zero_halves(u32 word) {
    u32 filled = ((word & 0x7FFF7FFF) + 0x7FFF7FFF) | word;
    return __popc(~filled & 0x80008000);
}

// Elements of two bytes, two to a word.
template <class Raw_>
struct Halves {
    typedef Raw_ Raw;
    typedef u32 Extreme;
    static const int COUNT = 8;
    static __device__ u32 equal(const Unit& unit, const Unit& poison) {
        u32 any = 0, count = 0;
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 other = unit.words[at] ^ poison.words[at];
            any |= (other - 0x00010001) & ~other;
        }
        if (any & 0x80008000) {
#pragma unroll
            for (int at = 0; at < 4; at++) count += zero_halves(unit.words[at] ^ poison.words[at]);
        }
        return count;
    }
};

template <class E>
struct HalfFloat : Halves<u16> {
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
    // Zero times anything finite is zero, of either sign; all else is NaN.
    static __device__ bool any_special(const Unit (&units)[4]) {
        u32 sums[4] = {};
#pragma unroll
        for (int at = 0; at < 16; at++) {
            sums[at % 4] = E::times_zero(units[at / 4].words[at % 4], sums[at % 4]);
        }
        return ((sums[0] | sums[1] | sums[2] | sums[3]) & 0x7FFF7FFF) != 0;
    }
    static __device__ u32 least(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 4; at++) so_far = E::lesser_halves(so_far, unit.words[at]);
        return so_far;
    }
    static __device__ u32 greatest(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 4; at++) so_far = E::greater_halves(so_far, unit.words[at]);
        return so_far;
    }
    static __device__ double low(u32 least) {
        return fmin(value((u16)least), value((u16)(least >> 16)));
    }
    static __device__ double high(u32 greatest) {
        return fmax(value((u16)greatest), value((u16)(greatest >> 16)));
    }
    // A zero of either type has the bits of a zero of float16: comparing gives 1 or 0 of that.
    static __device__ u32 zeros(const Unit (&units)[4]) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < 16; at++) {
            u32 word = units[at / 4].words[at % 4], is_zero;
            asm("set.eq.f16x2.f16x2 %0, %1, %2;" : "=r"(is_zero) : "r"(word), "r"(0));
            asm("add.f16x2 %0, %0, %1;" : "+r"(count) : "r"(is_zero));
        }
        asm("{ .reg .b16 a, b; .reg .u32 c, d;\n"
            "mov.b32 {a, b}, %0; cvt.rzi.u32.f16 c, a; cvt.rzi.u32.f16 d, b; add.u32 %0, c, d; }"
            : "+r"(count));
        return count;
    }
};

// Whole numbers of two bytes; `Two` compares them in pairs.
template <class Raw, class Wide, bool Signed>
struct Shorts : Halves<Raw>, AlwaysFinite {
    typedef Counts<u64> Added;
    static __device__ double value(Raw raw) { return (double)(Wide)raw; }
    static __device__ u32 top() { return Signed ? 0x7FFF7FFF : 0xFFFFFFFF; }
    static __device__ u32 bottom() { return Signed ? 0x80008000 : 0; }
    static __device__ void add(const Unit& unit, u32 signs, Sums&, Added& counts) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            // Ones where a half is negated, as bytes.
            u32 ones = ((signs >> (24 + 2 * at) & 3) * 0x81) & 0x0101;
            if (Signed) {
                counts.total[at] = __dp2a_lo((int)word, 0x0101, counts.total[at]);
                counts.negated[at] = __dp2a_lo((int)word, (int)ones, counts.negated[at]);
            } else {
                counts.total[at] = (int)__dp2a_lo(word, 0x0101u, (u32)counts.total[at]);
                counts.negated[at] = (int)__dp2a_lo(word, ones, (u32)counts.negated[at]);
            }
            Wide low = (Wide)(Raw)word, high = (Wide)(Raw)(word >> 16);
            counts.squares += (u32)(low * low);
            counts.squares += (u32)(high * high);
        }
    }
    static __device__ u32 least(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            so_far = Signed ? __vmins2(so_far, word) : __vminu2(so_far, word);
        }
        return so_far;
    }
    static __device__ u32 greatest(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            so_far = Signed ? __vmaxs2(so_far, word) : __vmaxu2(so_far, word);
        }
        return so_far;
    }
    static __device__ double low(u32 least) {
        return fmin(value((Raw)least), value((Raw)(least >> 16)));
    }
    static __device__ double high(u32 greatest) {
        return fmax(value((Raw)greatest), value((Raw)(greatest >> 16)));
    }
    static __device__ u32 zeros(const Unit (&units)[4]) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < 16; at++) count += zero_halves(units[at / 4].words[at % 4]);
        return count;
    }
};

// Whole numbers of one byte.
template <class Raw_, bool Signed>
struct Bytes : AlwaysFinite {
    typedef Raw_ Raw;
    typedef Counts<u32> Added;
    typedef u32 Extreme;
    static const int COUNT = 16;
    static __device__ double value(Raw raw) { return (double)raw; }
    static __device__ u32 top() { return 0x7FFF7FFF; }
    static __device__ u32 bottom() { return 0x80008000; }
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
            counts.total[at] = dot(word, 0x01010101, counts.total[at]);
            counts.negated[at] = dot(word, ones, counts.negated[at]);
            counts.squares = (u32)dot(word, word, (int)counts.squares);
        }
    }
    // Bytes 0 and 2, or 1 and 3, of a word as numbers of two bytes.
    static __device__ u32 halves(u32 word, bool odd) {
        // A selector of 8 and more gives copies of a byte's sign; byte 4 is zero.
        u32 selector = Signed ? (odd ? 0xB391 : 0xA280) : (odd ? 0x4341 : 0x4240), two;
        asm("prmt.b32 %0, %1, 0, %2;" : "=r"(two) : "r"(word), "r"(selector));
        return two;
    }
    static __device__ u32 least(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 8; at++) {
            u32 two = halves(unit.words[at / 2], at % 2 == 1);
            so_far = __vmins2(so_far, two);
        }
        return so_far;
    }
    static __device__ u32 greatest(u32 so_far, const Unit& unit) {
#pragma unroll
        for (int at = 0; at < 8; at++) {
            u32 two = halves(unit.words[at / 2], at % 2 == 1);
            so_far = __vmaxs2(so_far, two);
        }
        return so_far;
    }
    static __device__ double low(u32 least) {
        return fmin((double)(short)least, (double)(short)(least >> 16));
    }
    static __device__ double high(u32 greatest) {
        return fmax((double)(short)greatest, (double)(short)(greatest >> 16));
    }
    static __device__ u32 zeros(const Unit (&units)[4]) {
        return zeros(units[0]) + zeros(units[1]) + zeros(units[2]) + zeros(units[3]);
    }
    static __device__ u32 zeros(const Unit& unit) {
        u32 filled = 0;
#pragma unroll
        for (int at = 0; at < 4; at++) {
            u32 word = unit.words[at];
            u32 bits = (((word & 0x7F7F7F7F) + 0x7F7F7F7F) | word) & 0x80808080;
            filled = __dp4a(bits, 0x01010101u, filled);
        }
        return 16 - filled / 128;
    }
    static __device__ u32 equal(const Unit& unit, const Unit& poison) {
        Unit other;
#pragma unroll
        for (int at = 0; at < 4; at++) other.words[at] = unit.words[at] ^ poison.words[at];
        return zeros(other);
    }
};

// Zero times anything finite is zero, of either sign; all else is NaN.
template <class E>
__device__ bool any_product_with_zero(const Unit (&units)[4]) {
    typename E::Extreme products[4] = {};
#pragma unroll
    for (int at = 0; at < 4 * E::COUNT; at++) {
        products[at % 4] += E::wide(units[at / E::COUNT], at % E::COUNT) * 0;
    }
    return !((products[0] + products[1]) + (products[2] + products[3]) == 0);
}

struct F64 : Words<u64, double>,
             Ieee<u64, 0x7FF0000000000000ull, 0x000FFFFFFFFFFFFFull, 0x7FF8000000000000ull> {
    static __device__ bool any_special(const Unit (&units)[4]) {
        return any_product_with_zero<F64>(units);
    }
};
struct F32 : Words<u32, float>, Ieee<u32, 0x7F800000, 0x007FFFFF, 0x7FC00000> {
    static __device__ bool any_special(const Unit (&units)[4]) {
        return any_product_with_zero<F32>(units);
    }
};
struct I64 : Words<u64, long long>, AlwaysFinite {};
struct I32 : Words<u32, int>, AlwaysFinite {};
struct U64 : Words<u64, u64>, AlwaysFinite {};
struct U32 : Words<u32, u32>, AlwaysFinite {};
struct I16 : Shorts<short, int, true> {};
struct U16 : Shorts<u16, u32, false> {};
struct I8 : Bytes<signed char, true> {};
struct U8 : Bytes<u8, false> {};

struct F16 : HalfFloat<F16>, Ieee<u16, 0x7C00, 0x03FF, 0x7E00> {
    static __device__ u32 top() { return 0x7C007C00; }
    static __device__ u32 bottom() { return 0xFC00FC00; }
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
    static __device__ u32 times_zero(u32 a, u32 sum) {
        asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(0));
        return sum;
    }
    static __device__ u32 lesser_halves(u32 a, u32 b) {
        asm("min.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
        return a;
    }
    static __device__ u32 greater_halves(u32 a, u32 b) {
        asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
        return a;
    }
};

struct BF16 : HalfFloat<BF16>, Ieee<u16, 0x7F80, 0x007F, 0x7FC0> {
    static __device__ u32 top() { return 0x7F807F80; }
    static __device__ u32 bottom() { return 0xFF80FF80; }
    static __device__ float low_half(u32 word) { return __uint_as_float(word << 16); }
    static __device__ float high_half(u32 word) { return __uint_as_float(word & 0xFFFF0000); }
    static __device__ u32 times_zero(u32 a, u32 sum) {
        asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(0));
        return sum;
    }
    static __device__ u32 lesser_halves(u32 a, u32 b) {
        asm("min.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
        return a;
    }
    static __device__ u32 greater_halves(u32 a, u32 b) {
        asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
        return a;
    }
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
    __device__ void advance(u32 units) {
        x += units * STEP_X;
        y += units * STEP_Y;
    }
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
    // What the place of a unit of a run is combined with to find its bucket.
    __device__ u32 turn_of(u32 run) const { return (run * 5 & 15) ^ turn; }
};

// The statistics of one thread.
struct Tally {
    u64 x, y;
    Sums sums;
    E::Extreme least, greatest;
    u32 zeros, nan, inf, unwritten;

    // Adds a unit to the checksum.
    __device__ void mix(const Unit& unit, const Key& key) {
        u64 a = unit.get<u64>(0) + key.x, b = unit.get<u64>(1) + key.y;
        a = round(a, b);
        b = round(b, a);
        a = round(a, b);
        b = round(b, a);
        x += a;
        y += b;
    }
    __device__ void extremes(const Unit& unit) {
        least = E::least(least, unit);
        greatest = E::greatest(greatest, unit);
    }
};

struct Poison {
    Unit unit;
    bool counts;
};

// The elements of a unit told apart.
struct Sorted {
    Unit canonical;  // each NaN is the one of its type
    Unit finite;     // what is not finite is zero
    Unit filled;     // what is not finite, or does not exist, is an element that is
    u32 count, zeros, nan, inf, unwritten;
};

// Sorts the first `present` elements of a unit; the others are zero.
__device__ Sorted sort(Unit unit, int present, Poison poison) {
    Sorted sorted = {unit, unit, unit, 0, 0, 0, 0, 0};
    Raw some = 0;
    for (int at = 0; at < present; at++) {
        Raw raw = unit.get<Raw>(at);
        sorted.unwritten += poison.counts && raw == poison.unit.get<Raw>(at);
        if (!E::is_special(raw)) {
            some = raw;
            sorted.count++;
            sorted.zeros += E::value(raw) == 0;
            continue;
        }
        sorted.finite.set<Raw>(at, 0);
        if (E::is_nan(raw)) {
            sorted.canonical.set<Raw>(at, E::nan());
            sorted.nan++;
        } else {
            sorted.inf++;
        }
    }
    for (int at = 0; at < E::COUNT; at++) {
        if (at >= present || E::is_special(unit.get<Raw>(at))) sorted.filled.set<Raw>(at, some);
    }
    return sorted;
}

// Adds a unit of elements of any kind, of which the first `present` exist.
__device__ void careful(Tally& tally, Added& added, const Unit& unit, int present, const Key& key,
                        u32 signs, const Poison& poison) {
    Sorted sorted = sort(unit, present, poison);
    tally.mix(sorted.canonical, key);
    E::add(sorted.finite, signs, tally.sums, added);
    if (sorted.count > 0) tally.extremes(sorted.filled);
    tally.zeros += sorted.zeros;
    tally.nan += sorted.nan;
    tally.inf += sorted.inf;
    tally.unwritten += sorted.unwritten;
}

// Four units of a thread: two of each of two runs.
struct Batch {
    Unit units[4];
    Key keys[2];
    u32 sign_keys[2];
    __device__ Key key(int t) const {
        Key result = keys[t / 2];
        if (t % 2 == 1) result.advance(32);
        return result;
    }
    __device__ u32 signs(int t) const { return signs_of(sign_keys[t / 2] + t % 2 * 32 * SIGN_STEP); }
};

// Takes units of elements of any kind. Not inlined: it is rare, and would take registers.
__device__ __noinline__ Tally take_any(Tally tally, Batch batch, Poison poison) {
    Added added = {};
    for (int t = 0; t < 4; t++) {
        careful(tally, added, batch.units[t], E::COUNT, batch.key(t), batch.signs(t), poison);
    }
    added.flush(tally.sums);
    return tally;
}

// Takes units of finite elements. `poison` counts only where it is finite.
__device__ void take_finite(Tally& tally, Added& added, const Batch& batch, const Poison& poison) {
#pragma unroll
    for (int t = 0; t < 4; t++) {
        tally.mix(batch.units[t], batch.key(t));
        tally.extremes(batch.units[t]);
        E::add(batch.units[t], batch.signs(t), tally.sums, added);
    }
    tally.zeros += E::zeros(batch.units);
    if (poison.counts) {
#pragma unroll
        for (int t = 0; t < 4; t++) tally.unwritten += E::equal(batch.units[t], poison.unit);
    }
}

// Sixteen bytes, zero where the tensor has ended.
__device__ Unit unit_at(const u8* bytes, u64 unit, u64 end) {
    Unit result = {};
    for (int k = 0; k < 16; k++) {
        if (unit * 16 + k < end) result.set<u8>(k, bytes[unit * 16 + k]);
    }
    return result;
}

// Takes the units from `first` to the end of the tensor, fewer than 1024.
__device__ void take_rest(Tally& tally, const u8* bytes, u64 count, u64 first, u32 lane,
                          const Poison& poison) {
    u64 end = count * sizeof(Raw);
    Draw draw(first / 1024);
    for (u32 row = 0; row < 32; row++) {
        u32 place = row * 32 + (lane ^ draw.turn_of(row / 2));
        u64 unit = first + place;
        if (unit * 16 >= end) continue;
        u64 left = count - unit * E::COUNT;
        int present = left < E::COUNT ? (int)left : E::COUNT;
        u32 signs = signs_of(draw.key + place * SIGN_STEP);
        Added added = {};
        careful(tally, added, unit_at(bytes, unit, end), present, Key(unit), signs, poison);
        added.flush(tally.sums);
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
const u32 THREADS = 128;
extern "C" __global__ void __launch_bounds__(THREADS, 5)
summarize(const u8* bytes, u64 count, u64 pattern, int poisoned, Part* parts) {
    Tally tally = {};
    tally.least = E::top();
    tally.greatest = E::bottom();
    u32 lane = threadIdx.x % 32;
    u32 low = (u32)pattern, high = (u32)(pattern >> 32);
    Poison any_poison = {{{low, high, low, high}}, poisoned != 0};
    // Poison that is a NaN is never among finite elements.
    Poison poison = {any_poison.unit, any_poison.counts && !E::is_special((Raw)pattern)};
    // A warp takes 1024 units, and then the next ones that are its own.
    u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    u64 whole = count / E::COUNT / 1024;
    for (u64 number = warp; number < whole; number += warps) {
        Draw draw(number);
        Key first(number * 1024);
        const uint4* from = (const uint4*)bytes + number * 1024;
        Added added = {};
#pragma unroll 1
        for (u32 run = 0; run < 16; run += 2) {
            Batch batch = {{}, {first, first}, {}};
#pragma unroll
            for (u32 t = 0; t < 4; t++) {
                u32 place = (run + t / 2) * 64 + (lane ^ draw.turn_of(run + t / 2));
                uint4 words = __ldcs(from + place + t % 2 * 32);
                batch.units[t] = {{words.x, words.y, words.z, words.w}};
                if (t % 2 == 1) continue;
                batch.keys[t / 2].advance(place);
                batch.sign_keys[t / 2] = draw.key + place * SIGN_STEP;
            }
            if (E::any_special(batch.units)) tally = take_any(tally, batch, any_poison);
            else take_finite(tally, added, batch, poison);
        }
        added.flush(tally.sums);
    }
    if (whole % warps == warp && count > whole * 1024 * E::COUNT) {
        take_rest(tally, bytes, count, whole * 1024, lane, any_poison);
    }
    __shared__ double doubles[32];
    __shared__ u64 integers[32];
    Part part;
    part.x = total(tally.x, integers);
    part.y = total(tally.y, integers);
    for (u32 k = 0; k < 16; k++) {
        double bucket = 0;
        for (u32 word = 0; word < 4; word++) {
            if ((lane % 16 ^ 4 * word) == k) bucket += tally.sums.buckets[word];
        }
        part.buckets[k] = total(bucket, doubles);
    }
    part.sum = total(tally.sums.total, doubles);
    part.squares = total(tally.sums.squares, doubles);
    part.min = extreme(E::low(tally.least), -1, doubles);
    part.max = extreme(E::high(tally.greatest), 1, doubles);
    part.zeros = total((u64)tally.zeros, integers);
    part.nan = total((u64)tally.nan, integers);
    part.inf = total((u64)tally.inf, integers);
    part.unwritten = total((u64)tally.unwritten, integers);
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
}
