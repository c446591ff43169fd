//! Chains of shuffles as one wait: at each shuffle a lane combines its value with another lane's.
//!
//! When the last lane comes to the first shuffle, the values after all of them are known. The lanes still wait
//! at each of the others, as if they had come to it themselves: all threads of the block then run in the same order
//! as without chains. Only their stacks are left alone until the last shuffle is done.

use super::{BlockRunner, Handover};
use crate::abi::CallSite;
use crate::cpu::warp::{LANES, Offer, WarpReduction};

impl BlockRunner {
    pub(super) fn arrive_at_fold(
        &mut self,
        offer: Offer,
        fold: WarpReduction,
        site: CallSite,
    ) -> Option<Handover> {
        let (warp, lane) = self.wait_for_warp(site);
        let lanes = &mut self.warps[warp];
        lanes.arrive_with(lane, offer, fold);
        let freed = if lanes.can_complete(&offer) { self.complete(warp, offer) } else { 0 };
        let next = match freed >> lane & 1 {
            1 => self.position,
            _ => match self.schedule.next_ready_after(self.position) {
                Some(next) => next,
                None => return Some(self.wait_for_cluster()),
            },
        };
        let next_position = self.advance(next);
        self.hand_over_to(next_position)
    }

    /// The result of the current thread's last chain, and whether it covers the whole chain.
    pub(super) fn fold_result(&self) -> (u64, bool) {
        let (warp, lane) = self.warp_and_lane();
        let lanes = &self.warps[warp];
        (lanes.results[lane], lanes.whole >> lane & 1 == 1)
    }

    /// The thread to run at the turn of the one at `position`: the same one, unless it is inside a chain.
    #[inline(always)]
    pub(super) fn advance(&mut self, position: usize) -> usize {
        if self.schedule.in_folds == 0 { position } else { self.pass_folds(position) }
    }

    #[inline(never)]
    fn pass_folds(&mut self, mut position: usize) -> usize {
        while self.schedule.in_folds > 0 {
            let linear = if self.launch.tables.is_linear {
                position
            } else {
                self.threads[position].linear as usize
            };
            let warp = linear / LANES;
            let lane = linear % LANES;
            let lanes = &self.warps[warp];
            if lanes.left.any() >> lane & 1 == 0 {
                break;
            }
            let alone =
                self.launch.tables.is_linear && lanes.offers[lane].mask & lanes.live == lanes.live;
            position = if alone {
                self.pass_warp(warp, lane)
            } else {
                self.pass_lane(warp, lane, position)
            };
        }
        position
    }

    /// Has the lane, at `position`, come to the next shuffle of its chain. Returns the position of the next turn.
    fn pass_lane(&mut self, warp: usize, lane: usize, position: usize) -> usize {
        let lanes = &mut self.warps[warp];
        let offer = lanes.offers[lane];
        lanes.left.decrease(1 << lane);
        self.schedule.in_folds -= u32::from(lanes.left.any() >> lane & 1 == 0);
        lanes.arrive(lane, offer);
        self.schedule.ready.remove(position);
        if !lanes.can_complete(&offer) {
            return self.next_after(position);
        }
        let members = offer.mask & lanes.live;
        lanes.arrived &= !members;
        self.make_ready(warp, members);
        position
    }

    /// The same for `lane` and the lanes behind it, if all lanes of the warp are in the chain and in their order: the
    /// ready ones are at one shuffle, the others wait at the next.
    fn pass_warp(&mut self, warp: usize, lane: usize) -> usize {
        let lanes = &mut self.warps[warp];
        let ready = self.schedule.ready.lanes(warp);
        let later = ready & ((1 << lane) - 1);
        let now = ready & !later;
        lanes.left.decrease(now);
        self.schedule.in_folds -= (now & !lanes.left.any()).count_ones();
        let last = warp * LANES + now.ilog2() as usize;
        if later == 0 {
            // The last of them completes the shuffle, and goes on.
            lanes.arrived = 0;
            self.schedule.ready.insert_lanes(warp, lanes.live);
            last
        } else {
            lanes.arrived |= now;
            self.schedule.ready.remove_lanes(warp, now);
            self.next_after(last)
        }
    }
}
