//! Sets of the threads of a block, by their position in the running order.

use super::shape::MAX_THREADS;

const WORDS: usize = MAX_THREADS / 64;

/// A set of positions in the running order of a block's threads.
#[derive(Clone, Copy, Default)]
pub(super) struct Positions(pub [u64; WORDS]);

impl Positions {
    /// Makes the first `count` positions the members.
    pub(super) fn fill(&mut self, count: usize) {
        for (word, bits) in self.0[..count.div_ceil(64)].iter_mut().enumerate() {
            *bits = u64::MAX >> (64 - (count - word * 64).min(64));
        }
    }

    /// Adds one.
    pub(super) fn insert(&mut self, position: usize) {
        self.0[position / 64 % WORDS] |= 1 << (position % 64);
    }

    /// Adds the positions of `lanes` of `warp`, where threads stand in the order of their indices.
    pub(super) fn insert_lanes(&mut self, warp: usize, lanes: u32) {
        self.0[warp / 2 % WORDS] |= u64::from(lanes) << (warp % 2 * 32);
    }

    /// The lanes of `warp` among the members, where threads stand in the order of their indices.
    pub(super) fn lanes(&self, warp: usize) -> u32 {
        (self.0[warp / 2 % WORDS] >> (warp % 2 * 32)) as u32
    }

    /// Takes the `lanes` of `warp` out, where threads stand in the order of their indices.
    pub(super) fn remove_lanes(&mut self, warp: usize, lanes: u32) {
        self.0[warp / 2 % WORDS] &= !(u64::from(lanes) << (warp % 2 * 32));
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, position: usize) {
        self.0[position / 64 % WORDS] &= !(1 << (position % 64));
    }

    /// The first member after `position`, else the first of all; `words` bounds the search.
    #[inline(always)]
    pub(crate) fn next_after(&self, position: usize, words: usize) -> Option<usize> {
        let word = position / 64 % WORDS;
        let later = self.0[word] & (!1u64 << (position % 64));
        if later != 0 {
            return Some(word * 64 + later.trailing_zeros() as usize);
        }
        self.next_in_words(word, words)
    }

    fn next_in_words(&self, word: usize, words: usize) -> Option<usize> {
        (word + 1..words)
            .chain(0..=word)
            .find(|&word| self.0[word] != 0)
            .map(|word| word * 64 + self.0[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lanes_of_a_warp_are_its_threads() {
        let mut set = Positions::default();
        set.insert_lanes(3, 1 << 31 | 1);
        assert_eq!(set.next_after(0, 2), Some(96));
        assert_eq!(set.next_after(96, 2), Some(127));
        assert_eq!(set.next_after(127, 2), Some(96));
        assert_eq!((set.lanes(3), set.lanes(2)), (1 << 31 | 1, 0));
        set.remove_lanes(3, 1);
        assert_eq!(set.lanes(3), 1 << 31);
    }

    #[test]
    fn the_next_position_wraps_around() {
        let mut set = Positions::default();
        for position in [3, 64, 130] {
            set.insert(position);
        }
        let words = 3;
        assert_eq!(set.next_after(3, words), Some(64));
        assert_eq!(set.next_after(64, words), Some(130));
        assert_eq!(set.next_after(130, words), Some(3));
        set.remove(3);
        set.remove(64);
        assert_eq!(set.next_after(130, words), Some(130));
        set.remove(130);
        assert_eq!(set.next_after(0, words), None);
    }
}
