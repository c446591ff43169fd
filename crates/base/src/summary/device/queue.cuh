// Batches on their way through shared memory.

const u32 THREADS = 128;
// Four blocks on a multiprocessor: with more, the registers do not suffice.
const u32 BLOCKS_OF_ONE = 4;
// Batches that are on their way, and the runs that they are of.
const u32 DEPTH = 2, RUNS = 2 * DEPTH;

// A block's shared memory while it takes chunks.
struct Shared {
    uint4 queue[DEPTH][UNITS][THREADS];
    // The difference of each unit's key from that of the chunk's first unit.
    ulonglong2 steps[1024];
};

// Addresses in shared memory are given as sums, so that they need one register.

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
    // The key of the unit `more` behind the one at `place`; the chunk's first unit has key `first`.
    __device__ Key at(const Key& first, u32 place, u32 more) const {
        u64 x, y;
        asm("{ .reg .b32 at; mad.lo.u32 at, %2, 16, %3; add.u32 at, at, %4;"
            "  ld.shared.v2.u64 {%0, %1}, [at]; }"
            : "=l"(x), "=l"(y)
            : "r"(place), "r"(steps), "r"(more * 16));
        return Key(first.x + x, first.y + y);
    }
};
