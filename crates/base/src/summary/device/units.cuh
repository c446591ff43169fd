// Units of 16 bytes, batches of them, and the sums that elements go into.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// A block's share of a summary; DevicePart is the same on the host.
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

// Sums of squares, and of elements by the 32-bit word in which they begin: those with the sign + in
// the sketch, and those with the sign -.
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

// The same for integers, before they go into `Sums`.
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
