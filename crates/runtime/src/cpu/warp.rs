//! The collectives of one warp: its lanes' offers and results.
#![allow(unsafe_code)]

use crate::abi::{FoldFn, WarpOp};

/// The lanes of a warp.
pub(crate) const LANES: usize = 32;

/// The state of the collectives of one warp.
#[derive(Clone, Copy, Default)]
pub(super) struct Lanes {
    /// The lanes whose thread exists and has not ended.
    pub live: u32,
    /// The lanes waiting in a collective.
    pub arrived: u32,
    /// The offer of each waiting lane.
    pub offers: [Offer; 32],
    /// The result of each lane's last collective.
    pub results: [u64; 32],
    /// The lanes that read a lane outside of the last shuffle.
    pub strays: u32,
    /// Whether waiting lanes may differ in their operation or mask.
    is_mixed: bool,
    /// The collectives that the last completed one stands for: the shuffles of a chain.
    pub last_steps: u32,
    /// The chain of the lanes in `folding`; they wait at its first shuffle.
    fold: Option<WarpReduction>,
    folding: u32,
    /// The lanes with the result of a whole chain.
    pub whole: u32,
}

/// A chain of shuffles: at each a lane combines its value with another lane's.
#[derive(Clone, Copy)]
pub(super) struct WarpReduction {
    steps: u64,
    run: FoldFn,
}

impl WarpReduction {
    /// The chain of `steps`; `run` does them.
    pub(super) fn new(steps: u64, run: FoldFn) -> WarpReduction {
        WarpReduction { steps, run }
    }

    /// The number of its shuffles, from 1 to 8.
    fn count(self) -> u32 {
        (self.steps >> 48 & 15) as u32
    }

    fn is_same(self, other: WarpReduction) -> bool {
        self.steps == other.steps && std::ptr::fn_addr_eq(self.run, other.run)
    }
}

/// One lane's part in a collective.
#[derive(Clone, Copy, Default)]
pub(super) struct Offer {
    /// The number of a [`WarpOp`].
    pub op: u32,
    /// The lanes named by the caller.
    pub mask: u32,
    /// The lane's value.
    pub value: u64,
    /// The lane to read, in a shuffle.
    pub argument: u32,
}

impl Lanes {
    /// A warp with threads in its first `count` lanes.
    pub(super) fn reset(&mut self, count: usize) {
        self.live = u32::MAX >> (LANES - count.min(LANES));
        self.arrived = 0;
        self.folding = 0;
    }

    /// Has `lane` wait with `offer`.
    #[inline(always)]
    pub(super) fn arrive(&mut self, lane: usize, offer: Offer) {
        let lane = lane % LANES;
        // The lanes already here agree, so one of them stands for all.
        let arrived_offer = &self.offers[self.arrived.trailing_zeros() as usize % LANES];
        let differs = arrived_offer.op != offer.op || arrived_offer.mask != offer.mask;
        self.is_mixed = self.arrived != 0 && (self.is_mixed || differs);
        self.offers[lane] = offer;
        self.arrived |= 1 << lane;
        self.folding &= !(1 << lane);
    }

    /// Has `lane` wait with `offer`, the first shuffle of `fold`.
    #[inline(always)]
    pub(super) fn arrive_with(&mut self, lane: usize, offer: Offer, fold: WarpReduction) {
        self.arrive(lane, offer);
        if self.folding == 0 {
            self.fold = Some(fold);
        }
        if self.fold.is_some_and(|first| first.is_same(fold)) {
            self.folding |= 1 << (lane % LANES);
        }
    }

    /// The same for as many lanes from `lane` on as there are `values`, one after the other; each value has its
    /// argument.
    #[inline(always)]
    pub(super) fn arrive_in_turn(
        &mut self,
        lane: usize,
        mask: u32,
        values: &[u64],
        arguments: &[u32],
        fold: WarpReduction,
    ) {
        let offer = |index: usize| {
            let value = values[index];
            let argument = arguments[index];
            Offer { op: WarpOp::Shuffle as u32, mask, value, argument }
        };
        self.arrive_with(lane, offer(0), fold);
        // The others join if the first one does.
        let joins = self.folding >> (lane % LANES) & 1 == 1;
        let mut other_lanes = 0;
        for index in 1..values.len() {
            let other_lane = (lane + index) % LANES;
            self.offers[other_lane] = offer(index);
            other_lanes |= 1 << other_lane;
        }
        self.arrived |= other_lanes;
        self.folding = self.folding & !other_lanes | if joins { other_lanes } else { 0 };
    }

    /// Whether every live lane of the mask of `offer` has come.
    #[inline(always)]
    pub(super) fn can_complete(&self, offer: &Offer) -> bool {
        offer.mask & self.live & !self.arrived == 0
    }

    /// Completes the collective of `offer` if every live lane of its mask has come with the same
    /// operation and mask, and returns the lanes that can go on. Who reads a lane that takes no part gets `undefined`.
    pub(super) fn complete(&mut self, offer: &Offer, undefined: u64) -> u32 {
        let members = offer.mask & self.live;
        let agrees =
            |lane: usize| self.offers[lane].mask == offer.mask && self.offers[lane].op == offer.op;
        if !self.can_complete(offer) || self.is_mixed && !bit_positions(members).all(agrees) {
            return 0;
        }
        self.last_steps = 1;
        match WarpOp::from_number(offer.op) {
            WarpOp::Shuffle => match self.fold {
                Some(fold) if members & !self.folding == 0 => self.run(fold, members, undefined),
                _ => self.shuffle(members, undefined),
            },
            op => self.combine(op, members),
        }
        self.arrived &= !members;
        members
    }

    /// Gives every member its value after all steps of `fold`, in which all other lanes pass `undefined`.
    fn run(&mut self, fold: WarpReduction, members: u32, undefined: u64) {
        self.strays = 0;
        self.whole |= members;
        self.folding &= !members;
        self.last_steps = fold.count();
        let mut values = self.offers.map(|offer| offer.value);
        bit_positions(!members).for_each(|lane| values[lane] = undefined);
        // SAFETY: the artifact that made the offers made `run` for their values.
        unsafe { (fold.run)(values.as_mut_ptr(), fold.steps, members) };
        for lane in bit_positions(members) {
            self.results[lane] = values[lane];
        }
    }

    /// Gives every member the value of the lane that it reads: `undefined` where that is no member.
    fn shuffle(&mut self, members: u32, undefined: u64) {
        self.strays = 0;
        self.whole &= !members;
        self.folding &= !members;
        for lane in 0..LANES {
            let source = self.offers[lane].argument as usize % LANES;
            let is_stray = members >> source & 1 == 0;
            if members >> lane & 1 == 1 {
                self.strays |= u32::from(is_stray) << lane;
                self.results[lane] = if is_stray { undefined } else { self.offers[source].value };
            }
        }
    }

    /// Computes the result of every member from what the members offered; for all but shuffles.
    fn combine(&mut self, op: WarpOp, members: u32) {
        let value = |lane: usize| self.offers[lane].value;
        let words = || bit_positions(members).map(|lane| value(lane) as u32);
        let common_result: u64 = match op {
            WarpOp::Sync | WarpOp::Shuffle | WarpOp::MatchAny => 0,
            WarpOp::Ballot => bit_positions(members)
                .filter(|&lane| value(lane) != 0)
                .fold(0, |set, lane| set | 1 << lane),
            WarpOp::MatchAll => {
                let first = bit_positions(members).next().map(value);
                let equal = bit_positions(members).all(|lane| Some(value(lane)) == first);
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
        for lane in bit_positions(members) {
            self.results[lane] = match op {
                WarpOp::MatchAny => bit_positions(members)
                    .filter(|&other_lane| self.offers[other_lane].value == self.offers[lane].value)
                    .fold(0, |set, other_lane| set | 1 << other_lane),
                _ => common_result,
            };
        }
    }
}

/// The positions of the set bits.
pub(super) fn bit_positions(mut set: u32) -> impl Iterator<Item = usize> + Clone {
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
    fn a_shuffle_from_a_lane_outside_the_mask_gives_what_is_undefined() {
        let mut lanes = Lanes { live: u32::MAX, ..Lanes::default() };
        for lane in 0..32 {
            let argument = (lane as u32 + 1) % 32;
            lanes.offers[lane] = Offer { op: 1, mask: 0xf, value: lane as u64, argument };
        }
        lanes.shuffle(0xf, 77);
        assert_eq!(lanes.results[..4], [1, 2, 3, 77]);
        assert_eq!(lanes.strays, 1 << 3);
    }

    #[test]
    fn lanes_that_come_in_turn_come_as_one_by_one() {
        unsafe extern "C" fn nothing(_: *mut u64, _: u64, _: u32) {}
        let fold = |steps| WarpReduction::new(steps, nothing);
        let values = [7, 8, 9];
        let arguments = [1, 2, 3];
        for before in 0..4 {
            let start = || {
                let mut lanes = Lanes { live: u32::MAX, ..Lanes::default() };
                match before {
                    0 => {}
                    1 => lanes.arrive_with(
                        9,
                        Offer { op: 1, mask: 0xff, ..Offer::default() },
                        fold(1),
                    ),
                    2 => lanes.arrive_with(
                        0,
                        Offer { op: 1, mask: 0xff, ..Offer::default() },
                        fold(2),
                    ),
                    _ => lanes.arrive(1, Offer { op: 1, mask: 0xf, ..Offer::default() }),
                }
                lanes
            };
            let mut at_once = start();
            let mut one_by_one = start();
            at_once.arrive_in_turn(4, 0xff, &values, &arguments, fold(1));
            for (index, &value) in values.iter().enumerate() {
                let offer = Offer { op: 1, mask: 0xff, value, argument: arguments[index] };
                one_by_one.arrive_with(4 + index, offer, fold(1));
            }
            let seen = |lanes: &Lanes| {
                let offers = lanes.offers.map(|offer| (offer.mask, offer.value, offer.argument));
                (lanes.arrived, lanes.folding, lanes.is_mixed, offers)
            };
            assert_eq!(seen(&at_once), seen(&one_by_one), "{before}");
        }
    }

    #[test]
    fn lanes_that_name_other_masks_or_operations_wait_for_their_own() {
        let offer = |op, mask| Offer { op, mask, value: 1, argument: 0 };
        let mut lanes = Lanes { live: 0xf, ..Lanes::default() };
        lanes.arrive(0, offer(2, 0x3));
        lanes.arrive(2, offer(2, 0xc));
        assert_eq!(lanes.complete(&offer(2, 0xc), 0), 0);
        lanes.arrive(3, offer(2, 0xc));
        assert_eq!(lanes.complete(&offer(2, 0xc), 0), 0xc);
        // It has come with another operation than the lane that waits for it.
        lanes.arrive(1, offer(0, 0x3));
        assert_eq!(lanes.complete(&offer(0, 0x3), 0), 0);
        lanes.live = 0x1;
        assert_eq!(lanes.complete(&offer(2, 0x3), 0), 0x1);
        assert_eq!(lanes.results[..4], [1, 0, 12, 12]);
    }
}
