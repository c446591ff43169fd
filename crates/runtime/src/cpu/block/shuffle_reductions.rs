//! Chains of shuffles as one wait: at each shuffle a lane combines its value with another lane's.
//!
//! When the last lane comes to the first shuffle, the values after all of them are known. Lanes freed by a collective
//! come before all other threads, so between the shuffles of a chain nobody else runs: all threads of the block run in
//! the same order as without chains.

use super::{BlockRunner, Handover};
use crate::abi::CallSite;
use crate::cpu::warp::{Offer, WarpReduction};

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
        if lanes.can_complete(&offer) {
            self.complete(warp, offer);
        }
        self.hand_over()
    }

    /// The result of the current thread's last chain, and whether it covers the whole chain.
    pub(super) fn fold_result(&self) -> (u64, bool) {
        let (warp, lane) = self.warp_and_lane();
        let lanes = &self.warps[warp];
        (lanes.results[lane], lanes.whole >> lane & 1 == 1)
    }
}
