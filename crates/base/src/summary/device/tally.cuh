// The statistics of a thread's elements; and elements taken one after the other.

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
