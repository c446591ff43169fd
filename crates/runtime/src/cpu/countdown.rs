//! A small number for each lane of a warp, counted down for many lanes at once.

/// A number from 0 to 7 for each of 32 lanes: bit by bit, a word for each bit of the number.
#[derive(Clone, Copy, Default)]
pub(super) struct Countdown([u32; 3]);

impl Countdown {
    /// Gives `lanes` the number `count`.
    pub(super) fn set(&mut self, lanes: u32, count: u32) {
        for (bit, word) in self.0.iter_mut().enumerate() {
            *word = *word & !lanes | if count >> bit & 1 == 1 { lanes } else { 0 };
        }
    }

    /// The lanes whose number is not 0.
    #[inline(always)]
    pub(super) fn any(&self) -> u32 {
        self.0[0] | self.0[1] | self.0[2]
    }

    /// Takes 1 from the numbers of `lanes`; none is 0.
    #[inline(always)]
    pub(super) fn decrease(&mut self, lanes: u32) {
        let mut borrow = lanes;
        for word in &mut self.0 {
            *word ^= borrow;
            borrow &= *word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_is_counted_down_by_itself() {
        let mut counts = Countdown::default();
        for lane in 0..8 {
            counts.set(1 << lane, lane);
        }
        for gone in 1..=7 {
            let positive = counts.any();
            assert_eq!(positive, 0xff << gone & 0xff);
            counts.decrease(positive);
        }
        assert_eq!(counts.any(), 0);
    }
}
