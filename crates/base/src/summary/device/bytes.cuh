// Elements of one byte.

// Floats of one byte: `E::value` widens one, and codes from `E::SPECIAL` on are no finite numbers.
template <class E>
struct ByteFloat {
    typedef u8 Raw;
    typedef NoCounts Added;
    static const int COUNT = 16;
    static __device__ void add(const Unit& unit, u32 signs, Sums& sums, Added&) {
#pragma unroll
        for (int at = 0; at < 16; at++) {
            sums.add(E::value(unit.get<u8>(at)), at / 4, signs, 16 + at);
        }
    }
    // Bounds of the codes as numbers with a sign. Zeros and poison are looked for in every batch.
    struct Range {
        typedef One Lanes;
        int low, high;
        static __device__ Range none() { return {128, -128}; }
        static __device__ Range of_one(u8 raw) {
            int magnitude = raw & 0x7F, code = raw & 0x80 ? -magnitude : magnitude;
            return {code, code};
        }
        static __device__ Range of(const Batch& batch) {
            Range range = none();
#pragma unroll
            for (int at = 0; at < 16 * UNITS; at++) range.join(of_one(batch.get<u8>(at)));
            return range;
        }
        __device__ void join(const Range& other) {
            low = min(low, other.low);
            high = max(high, other.high);
        }
        __device__ bool any_special() const { return max(-low, high) >= E::SPECIAL; }
        __device__ u32 zero_mark() const { return 0; }
        __device__ u32 poison_mark(u64) const { return 0; }
        static __device__ double number(int code) {
            return E::value((u8)(code < 0 ? 0x80 | -code : code));
        }
        __device__ double least() const { return low > high ? top() : number(low); }
        __device__ double greatest() const { return low > high ? -top() : number(high); }
    };
    static __device__ u32 zeros(const Batch& batch) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < WORDS; at++) {
            count += __popc(__vcmpeq4(batch.word(at) & 0x7F7F7F7F, 0)) / 8;
        }
        return count;
    }
    static __device__ u32 equal(const Batch& batch, const Unit& poison) {
        u32 count = 0;
#pragma unroll
        for (int at = 0; at < WORDS; at++) {
            count += __popc(__vcmpeq4(batch.word(at), poison.words[at % 4])) / 8;
        }
        return count;
    }
};

// Integers of one byte.
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
