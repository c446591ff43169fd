// The checksum of units, and the signs that the sketch gives their elements.

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

// The key of a unit, which is added to its words.
struct Key {
    u64 x, y;
    __device__ Key(u64 x, u64 y) : x(x), y(y) {}
    __device__ Key(u64 unit)
        : Key(0x243F6A8885A308D3ull + unit * STEP_X, 0x13198A2E03707344ull + unit * STEP_Y) {}
};

// A mixed unit as it enters the checksum's sums, without the last product of `y`.
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

// The key and the turn that 1024 units, sixteen runs, have in common.
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
