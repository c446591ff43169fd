// Checksum, statistics and sketch of a tensor in one pass, as docs/checksum.md specifies them.
// The checksum is the CPU's for equal bytes; sums in float64 are added in another order.
//
// A warp takes a chunk of 1024 units of 16 bytes: sixteen runs of 64. Which thread takes which two
// units of a run depends on the run, so that a thread has the same four buckets all the time. A
// thread takes two runs at a time, a batch; batches come through shared memory, one ahead. Rare
// cases (elements that are NaN or infinite, the end of the tensor) are looked at once more, element
// by element. Instructions are written out where the compiler would make more of them.
// ELEMENT is the element type: F64, F32, F16, BF16, E4M3, E5M2, I64 to I8, U64 to U8.

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
    // The next units to ask for; after the last chunk, its first units once more, which nobody reads.
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
    // Adds zero, which the compiler does not know, and so keeps the sum. All reads there come after
    // the barrier.
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
