//! The collectives of one warp: what its lanes offer, and what they get.

use crate::runtime::abi::WarpOp;

/// The lanes of a warp.
pub(crate) const LANES: usize = 32;

/// The state of the collectives of one warp.
#[derive(Clone, Copy, Default)]
pub(super) struct Lanes {
    /// The lanes whose thread exists and has not ended.
    pub live: u32,
    /// The lanes that wait in a collective.
    pub arrived: u32,
    /// The offer of each lane that waits.
    pub offers: [Offer; 32],
    /// The result of each lane's last collective.
    pub results: [u64; 32],
    /// The lanes that read a lane which takes no part, in the last shuffle.
    pub strays: u32,
}

/// One lane's part in a collective.
#[derive(Clone, Copy, Default)]
pub(super) struct Offer {
    /// The number of a [`WarpOp`].
    pub op: u32,
    /// The lanes that the caller names.
    pub mask: u32,
    /// The lane's value.
    pub value: u64,
    /// The lane that a shuffle reads.
    pub argument: u32,
}

impl Lanes {
    /// A warp of which the first `count` lanes have a thread.
    pub(super) fn reset(&mut self, count: usize) {
        self.live = u32::MAX >> (LANES - count.min(LANES));
        self.arrived = 0;
    }

    /// Completes the collective of `offer` if every live lane of its mask has come with the same
    /// operation and mask, and returns the lanes that can go on.
    pub(super) fn complete(&mut self, offer: Offer) -> u32 {
        let members = offer.mask & self.live;
        let complete = members & !self.arrived == 0
            && bits(members).all(|lane| {
                self.offers[lane].mask == offer.mask && self.offers[lane].op == offer.op
            });
        if !complete {
            return 0;
        }
        self.combine(WarpOp::from_number(offer.op), members);
        self.arrived &= !members;
        members
    }

    /// Computes the result of every member from what the members offered.
    fn combine(&mut self, op: WarpOp, members: u32) {
        let value = |lane: usize| self.offers[lane].value;
        let words = || bits(members).map(|lane| value(lane) as u32);
        let all: u64 = match op {
            WarpOp::Sync | WarpOp::Shuffle | WarpOp::MatchAny => 0,
            WarpOp::Ballot => {
                bits(members).filter(|&lane| value(lane) != 0).fold(0, |set, lane| set | 1 << lane)
            }
            WarpOp::MatchAll => {
                let first = bits(members).next().map(value);
                let equal = bits(members).all(|lane| Some(value(lane)) == first);
                if equal { u64::from(members) } else { 0 }
            }
            WarpOp::ReduceAdd => words().fold(0u32, u32::wrapping_add).into(),
            WarpOp::ReduceMinU => words().min().unwrap_or(0).into(),
            WarpOp::ReduceMaxU => words().max().unwrap_or(0).into(),
            WarpOp::ReduceMinS => (words().map(|w| w as i32).min().unwrap_or(0) as u32).into(),
            WarpOp::ReduceMaxS => (words().map(|w| w as i32).max().unwrap_or(0) as u32).into(),
            WarpOp::ReduceAnd => words().fold(u32::MAX, |a, b| a & b).into(),
            WarpOp::ReduceOr => words().fold(0, |a, b| a | b).into(),
            WarpOp::ReduceXor => words().fold(0, |a, b| a ^ b).into(),
        };
        self.strays = 0;
        for lane in bits(members) {
            self.results[lane] = match op {
                WarpOp::Shuffle => {
                    // A lane outside the mask has no defined value; the caller's own stands in.
                    let mut source = self.offers[lane].argument as usize % LANES;
                    if members >> source & 1 == 0 {
                        self.strays |= 1 << lane;
                        source = lane;
                    }
                    self.offers[source].value
                }
                WarpOp::MatchAny => bits(members)
                    .filter(|&other| self.offers[other].value == self.offers[lane].value)
                    .fold(0, |set, other| set | 1 << other),
                _ => all,
            };
        }
    }
}

/// The positions of the bits that are set.
pub(super) fn bits(mut set: u32) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        let bit = set.checked_ilog2().map(|_| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_from_a_lane_outside_the_mask_keeps_the_own_value() {
        let mut lanes = Lanes { live: u32::MAX, ..Lanes::default() };
        for lane in 0..32 {
            let argument = (lane as u32 + 1) % 32;
            lanes.offers[lane] = Offer { op: 1, mask: 0xf, value: lane as u64, argument };
        }
        lanes.combine(WarpOp::Shuffle, 0xf);
        assert_eq!(lanes.results[..4], [1, 2, 3, 3]);
        assert_eq!(lanes.strays, 1 << 3);
    }
}
