//! The running order of blocks, and of the threads of a block.
//!
//! The default is their linear index. Noise replays permute both, from a seed: the order
//! of float atomics and the winners of races move.

/// An order, as a seed; 0 is the order of the linear indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order(pub u64);

impl Order {
    /// The order of the linear indices.
    pub const LINEAR: Order = Order(0);
    /// The opposite order: it turns every pair of blocks and of threads around.
    pub const REVERSED: Order = Order(u64::MAX);

    /// The linear index of the thread at each position.
    pub fn threads(self, count: usize) -> Vec<u16> {
        let mut threads: Vec<u16> = (0..count as u32).map(|thread| thread as u16).collect();
        if self == Order::REVERSED {
            threads.reverse();
        } else if self != Order::LINEAR {
            let mut state = self.0;
            for last in (1..count).rev() {
                state = mix_bits(state.wrapping_add(last as u64));
                threads.swap(last, (state % (last as u64 + 1)) as usize);
            }
        }
        threads
    }

    /// The linear index of the block at `position` of `count`, a bijection without a table.
    ///
    /// A four-round Feistel network on the next even number of bits, walked until the value falls
    /// into range (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains", section 3).
    pub fn block(self, position: u64, count: u64) -> u64 {
        if self == Order::LINEAR || count < 2 {
            return position;
        }
        if self == Order::REVERSED {
            return count - 1 - position;
        }
        let half_bits = (64 - (count - 1).leading_zeros()).div_ceil(2);
        let mask = (1u64 << half_bits) - 1;
        let mut value = position;
        loop {
            let mut left = value >> half_bits;
            let mut right = value & mask;
            for round in 0..4u64 {
                let keyed = mix_bits(right ^ self.0.wrapping_add(round << 56));
                (left, right) = (right, left ^ (keyed & mask));
            }
            value = left << half_bits | right;
            if value < count {
                return value;
            }
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mix_bits(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_a_permutation() {
        for seed in [0, 1, 2, 77, Order::REVERSED.0] {
            for count in [1u64, 2, 3, 5, 34, 256, 1000] {
                let order = Order(seed);
                let mut blocks: Vec<u64> = (0..count).map(|p| order.block(p, count)).collect();
                blocks.sort_unstable();
                assert!(blocks.into_iter().eq(0..count), "blocks, seed {seed}, count {count}");
                let mut threads = order.threads(count as usize);
                threads.sort_unstable();
                assert!(threads.into_iter().map(u64::from).eq(0..count), "threads, seed {seed}");
            }
        }
    }

    #[test]
    fn the_opposite_order_turns_every_pair_around() {
        assert_eq!(Order::REVERSED.threads(4), [3, 2, 1, 0]);
        assert_eq!([0, 1, 2].map(|position| Order::REVERSED.block(position, 3)), [2, 1, 0]);
    }

    #[test]
    fn a_seed_moves_blocks_and_threads() {
        assert_ne!(Order(1).threads(64), Order::LINEAR.threads(64));
        assert!((0..64).any(|p| Order(1).block(p, 64) != p));
        assert_eq!(Order::LINEAR.block(7, 64), 7);
    }
}
