// Elements of two bytes.

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

// Integers of two bytes.
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
