// Checksum, statistics and sketch of a tensor in one pass, as docs/checksum.md specifies them.
// The checksum is the CPU's for equal bytes; sums in float64 are added in another order.
//
// A group of 128 elements, sixteen rows of eight, belongs to eight threads. Each transforms one
// column of it for the sketch, and mixes the words of the checksum that lie in its column of the
// group's chunks. ELEMENT is the element type: F64, F32, F16, BF16, I64 to I8, U64 to U8.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// What a block adds to a summary; src/summary/device.rs has the same.
struct Part {
    u64 x, y;
    double sketch[16];
    double sum, squares, min, max;
    u64 finite, zeros, nan, inf, unwritten;
};

template <class Wide> __device__ Wide lesser(Wide a, Wide b) { return b < a ? b : a; }
template <class Wide> __device__ Wide greater(Wide a, Wide b) { return b > a ? b : a; }
template <> __device__ float lesser(float a, float b) { return fminf(a, b); }
template <> __device__ float greater(float a, float b) { return fmaxf(a, b); }
__device__ float magnitude(float value) { return fabsf(value); }
__device__ double magnitude(double value) { return fabs(value); }

// An element type: its bits, a type that holds every value and is cheap to compare, and for
// floating-point types where their exponent lies and which NaN stands for all.
template <class Raw_, class Wide_>
struct Integer {
    typedef Raw_ Raw;
    typedef Wide_ Wide;
    static __device__ Wide wide(Raw raw) { return (Wide)raw; }
    static __device__ bool special(Raw) { return false; }
    static __device__ bool any_special(const Raw (&)[16]) { return false; }
    static __device__ u32 zeros(const Raw (&raw)[16]) {
        u32 count = 0;
#pragma unroll
        for (int j = 0; j < 16; j++) count += raw[j] == 0;
        return count;
    }
    static __device__ bool is_nan(Raw) { return false; }
    static __device__ Raw nan() { return 0; }
};

template <class Type, class Raw_, class Wide_, Raw_ Exponent, Raw_ Fraction, Raw_ Nan>
struct Float {
    typedef Raw_ Raw;
    typedef Wide_ Wide;
    // Zero times anything finite is zero, of either sign.
    static __device__ bool any_special(const Raw (&raw)[16]) {
        Wide products = 0;
#pragma unroll
        for (int j = 0; j < 16; j++) products += Type::wide(raw[j]) * (Wide)0;
        return !(products == 0);
    }
    // Zeros are rare: the least magnitude tells whether there is one to be counted.
    static __device__ u32 zeros(const Raw (&raw)[16]) {
        Wide least = magnitude(Type::wide(raw[0]));
#pragma unroll
        for (int j = 1; j < 16; j++) least = lesser(least, magnitude(Type::wide(raw[j])));
        u32 count = 0;
        if (least == 0) {
#pragma unroll
            for (int j = 0; j < 16; j++) count += Type::wide(raw[j]) == 0;
        }
        return count;
    }
    static __device__ bool special(Raw raw) { return (raw & Exponent) == Exponent; }
    static __device__ bool is_nan(Raw raw) { return special(raw) && (raw & Fraction) != 0; }
    static __device__ Raw nan() { return Nan; }
};

typedef Integer<long long, long long> I64;
typedef Integer<int, int> I32;
typedef Integer<short, int> I16;
typedef Integer<signed char, int> I8;
typedef Integer<u64, u64> U64;
typedef Integer<u32, u32> U32;
typedef Integer<u16, u32> U16;
typedef Integer<u8, u32> U8;
struct F64 : Float<F64, u64, double, 0x7FF0000000000000ull, 0x000FFFFFFFFFFFFFull, 0x7FF8000000000000ull> {
    static __device__ double wide(u64 raw) { return __longlong_as_double((long long)raw); }
};
struct F32 : Float<F32, u32, float, 0x7F800000u, 0x007FFFFFu, 0x7FC00000u> {
    static __device__ float wide(u32 raw) { return __uint_as_float(raw); }
};
struct F16 : Float<F16, u16, float, 0x7C00, 0x03FF, 0x7E00> {
    static __device__ float wide(u16 raw) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(raw));
        return value;
    }
};
struct BF16 : Float<BF16, u16, float, 0x7F80, 0x007F, 0x7FC0> {
    static __device__ float wide(u16 raw) { return __uint_as_float((u32)raw << 16); }
};

__device__ u64 fold(u64 word) {
    u64 product = (u64)(u32)word * (u32)(word >> 32);
    return (product << 32) | (product >> 32);
}

// What is added to the words of unit `unit`.
struct Key {
    u64 x, y;
    __device__ Key(u64 unit)
        : x(0x243F6A8885A308D3ull + unit * 0x9E3779B97F4A7C15ull),
          y(0x13198A2E03707344ull + unit * 0xD1B54A32D192ED03ull) {}
    // Goes on to the next chunk.
    __device__ void advance() {
        x += 8 * 0x9E3779B97F4A7C15ull;
        y += 8 * 0xD1B54A32D192ED03ull;
    }
};

__device__ void mix(u64& sum_x, u64& sum_y, Key& key, u64 first, u64 second) {
    u64 x = first + key.x;
    u64 y = second + key.y;
    key.advance();
    x += fold(y);
    y += fold(x);
    x += fold(y);
    y += fold(x);
    sum_x += x;
    sum_y += y;
}

__device__ u64 splitmix64(u64 n) {
    u64 z = (n + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// The statistics of one thread, in types that are cheap to add to.
template <class E>
struct Tally {
    double sketch[16];
    double sum, squares;
    typename E::Wide min, max;
    bool any;
    u64 x, y, finite;
    u32 zeros, nan, inf, unwritten;
};

// What an element of one column holds that was never written.
template <class E>
struct Poison {
    typename E::Raw bits;
    bool counts;
};

// Adds one transformed column, row k with the sign in bit k of `signs`.
template <class E>
__device__ void project(Tally<E>& tally, double (&v)[16], u32 signs) {
    // The rows at which the bent function j0 j1 + j2 j3 is odd.
#pragma unroll
    for (int j = 0; j < 16; j++) {
        if (((j & (j >> 1)) ^ ((j >> 2) & (j >> 3))) & 1) v[j] = -v[j];
    }
#pragma unroll
    for (int half = 1; half < 16; half *= 2) {
#pragma unroll
        for (int j = 0; j < 16; j++) {
            if ((j & half) == 0) {
                double upper = v[j], lower = v[j + half];
                v[j] = upper + lower;
                v[j + half] = upper - lower;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 16; k++) {
        u32 sign = (signs << (31 - k)) & 0x80000000u;
        int high = __double2hiint(v[k]) ^ (int)sign;
        tally.sketch[k] += __hiloint2double(high, __double2loint(v[k]));
    }
}

// Takes finite elements: their statistics, and their column of the sketch.
template <class E>
__device__ void plain(Tally<E>& tally, const typename E::Raw (&raw)[16], Poison<E> poison,
                      u32 signs) {
    double v[16];
    typename E::Wide min = E::wide(raw[0]), max = min;
    // Four sums side by side: one after the other would wait for each addition.
    double sum[4], squares[4];
#pragma unroll
    for (int j = 0; j < 16; j++) {
        typename E::Wide value = E::wide(raw[j]);
        min = lesser(min, value);
        max = greater(max, value);
        v[j] = (double)value;
        sum[j % 4] = j < 4 ? v[j] : sum[j % 4] + v[j];
        squares[j % 4] = j < 4 ? v[j] * v[j] : squares[j % 4] + v[j] * v[j];
    }
    tally.sum += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    tally.squares += (squares[0] + squares[1]) + (squares[2] + squares[3]);
    tally.min = tally.any ? lesser(tally.min, min) : min;
    tally.max = tally.any ? greater(tally.max, max) : max;
    tally.zeros += E::zeros(raw);
    tally.any = true;
    tally.finite += 16;
    // Poison that is a NaN is never among finite elements.
    if (poison.counts && !E::special(poison.bits)) {
#pragma unroll
        for (int j = 0; j < 16; j++) tally.unwritten += raw[j] == poison.bits;
    }
    project(tally, v, signs);
}

// Takes elements of any kind, of which the first `present` exist.
template <class E>
__device__ void careful(Tally<E>& tally, const typename E::Raw (&raw)[16], int present,
                        Poison<E> poison, u32 signs) {
    double v[16];
#pragma unroll
    for (int j = 0; j < 16; j++) {
        v[j] = 0;
        if (j >= present) continue;
        tally.unwritten += poison.counts && raw[j] == poison.bits;
        if (E::special(raw[j])) {
            if (E::is_nan(raw[j])) tally.nan++;
            else tally.inf++;
            continue;
        }
        typename E::Wide value = E::wide(raw[j]);
        tally.min = tally.any ? lesser(tally.min, value) : value;
        tally.max = tally.any ? greater(tally.max, value) : value;
        tally.any = true;
        tally.finite++;
        tally.zeros += value == 0;
        v[j] = (double)value;
        tally.sum += v[j];
        tally.squares += v[j] * v[j];
    }
    project(tally, v, signs);
}

// A word with every NaN in it replaced by the one of its type.
template <class E>
__device__ u64 canonical(u64 word) {
    const int size = sizeof(typename E::Raw);
    u64 all = size == 8 ? ~0ull : (1ull << (8 * size % 64)) - 1;
#pragma unroll
    for (int at = 0; at < 64; at += 8 * size) {
        typename E::Raw raw = (typename E::Raw)(word >> at);
        if (E::is_nan(raw)) word = (word & ~(all << at)) | ((u64)E::nan() << at);
    }
    return word;
}

// The eight bytes at `offset`, zero where the tensor has ended.
__device__ u64 word_at(const u8* bytes, u64 offset, u64 end) {
    u64 word = 0;
    for (int k = 0; k < 8; k++) {
        if (offset + k < end) word |= (u64)bytes[offset + k] << (8 * k);
    }
    return word;
}

// The groups of four columns of a warp at a time, on their way through shared memory: the next
// ones arrive while these are worked on. Groups lie eight words more than their size apart, so
// that the four of a warp are in different banks.
template <class E>
struct Stage {
    static const int group_bytes = 128 * sizeof(typename E::Raw);
    static const int stride = group_bytes + 32;
    u8 bytes[2][4 * stride];

    // Asks for the group at `from`; each of its eight threads takes a part.
    __device__ void fetch(int which, const u8* from, u32 slot, u32 lane) {
        u32 to = (u32)__cvta_generic_to_shared(bytes[which] + slot * stride + lane * 16);
#pragma unroll
        for (int at = 0; at < group_bytes; at += 128) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + at),
                         "l"(from + lane * 16 + at));
        }
    }
};

// A group all of whose elements exist, as do those of the other groups of this warp.
template <class E>
__device__ void group(Tally<E>& tally, const u8* bytes, u64 number, u32 lane, Poison<E> poison,
                      u32 signs) {
    typedef typename E::Raw Raw;
    const int size = sizeof(Raw);
    const Raw* column = (const Raw*)bytes + lane;
    const u64* words = (const u64*)bytes + lane;
    Raw raw[16];
#pragma unroll
    for (int j = 0; j < 16; j++) raw[j] = column[8 * j];
    bool special = E::any_special(raw);
    // The words of this thread hold elements of the other threads of the group.
    special = __any_sync(0xFFFFFFFF, special);
    Key key(number * 8 * size + lane);
#pragma unroll
    for (int q = 0; q < size; q++) {
        u64 first = words[16 * q], second = words[16 * q + 8];
        if (special) first = canonical<E>(first), second = canonical<E>(second);
        mix(tally.x, tally.y, key, first, second);
    }
    if (special) careful<E>(tally, raw, 16, poison, signs);
    else plain<E>(tally, raw, poison, signs);
}

// A group near the end of the tensor.
template <class E>
__device__ void ragged(Tally<E>& tally, const u8* bytes, u64 count, u64 number, u32 lane,
                       Poison<E> poison, u32 signs) {
    const int size = sizeof(typename E::Raw);
    const typename E::Raw* elements = (const typename E::Raw*)bytes;
    typename E::Raw raw[16];
    int present = 0;
    for (int j = 0; j < 16; j++) {
        u64 index = number * 128 + 8 * j + lane;
        raw[j] = index < count ? elements[index] : 0;
        if (index < count) present = j + 1;
    }
    careful<E>(tally, raw, present, poison, signs);
    u64 end = count * size;
    Key key(number * 8 * size + lane);
    for (int q = 0; q < size; q++) {
        u64 chunk = (number * size + q) * 128;
        if (chunk >= end) break;
        u64 first = canonical<E>(word_at(bytes, chunk + 8 * lane, end));
        u64 second = canonical<E>(word_at(bytes, chunk + 64 + 8 * lane, end));
        mix(tally.x, tally.y, key, first, second);
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
typedef ELEMENT E;
const u32 THREADS = 128;
extern "C" __global__ void __launch_bounds__(THREADS, 4)
summarize(const u8* bytes, u64 count, u64 pattern, int poisoned, Part* parts) {
    const double infinity = __longlong_as_double(0x7FF0000000000000ll);
    const int size = sizeof(E::Raw);
    Tally<E> tally = {};
    u32 lane = threadIdx.x % 8;
    Poison<E> poison = {(E::Raw)(pattern >> (lane * size % 8 * 8)), poisoned != 0};
    // A warp takes a set of sixteen groups, four at a time, and then the next set that is its own.
    u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u64 warps = (u64)gridDim.x * blockDim.x / 32;
    u32 slot = threadIdx.x % 32 / 8;
    u64 whole_sets = count / 2048;
    u64 rounds = warp < whole_sets ? ((whole_sets - 1 - warp) / warps + 1) * 4 : 0;
    __shared__ __align__(16) Stage<E> stages[THREADS / 32];
    Stage<E>& stage = stages[threadIdx.x / 32];
    u64 number = (warp * 4 + slot) * 4;
    u64 jump = warps * 16 - 3;
    const u8* from = bytes + number * Stage<E>::group_bytes;
    if (rounds > 0) stage.fetch(0, from, slot, lane);
    asm volatile("cp.async.commit_group;");
    u64 word = 0;
#pragma unroll 1
    for (u64 round = 0; round < rounds; round++) {
        bool last_of_set = (round & 3) == 3;
        u64 next = number + (last_of_set ? jump : 1);
        if (round + 1 < rounds) {
            stage.fetch((round + 1) & 1, bytes + next * Stage<E>::group_bytes, slot, lane);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncwarp();
        word = (round & 3) == 0 ? splitmix64(number / 4 * 8 + lane) : word >> 16;
        const u8* here = stage.bytes[round & 1] + slot * Stage<E>::stride;
        group<E>(tally, here, number, lane, poison, (u32)word);
        __syncwarp();
        number = next;
    }
    // What is left fills no set.
    if (whole_sets % warps == warp && count % 2048 != 0) {
        u64 four = whole_sets * 4 + slot;
        word = splitmix64(four * 8 + lane);
        for (int t = 0; t < 4; t++) {
            ragged<E>(tally, bytes, count, four * 4 + t, lane, poison, (u32)(word >> (16 * t)));
        }
    }
    __shared__ double doubles[32];
    __shared__ u64 integers[32];
    Part part;
    part.x = total(tally.x, integers);
    part.y = total(tally.y, integers);
    for (int k = 0; k < 16; k++) part.sketch[k] = total(tally.sketch[k], doubles);
    part.sum = total(tally.sum, doubles);
    part.squares = total(tally.squares, doubles);
    part.min = extreme(tally.any ? (double)tally.min : infinity, -1, doubles);
    part.max = extreme(tally.any ? (double)tally.max : -infinity, 1, doubles);
    part.finite = total(tally.finite, integers);
    part.zeros = total((u64)tally.zeros, integers);
    part.nan = total((u64)tally.nan, integers);
    part.inf = total((u64)tally.inf, integers);
    part.unwritten = total((u64)tally.unwritten, integers);
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
}
