//! Ends the replay when threads of a block wait for others forever, and says who waits where.
#![allow(unsafe_code)]

use super::{BlockRunner, Wait};
use crate::abi::CallSite;
use crate::cpu::waiting::{WaitingGroup, group_waiting_threads};
use crate::cpu::warp::LANES;

impl BlockRunner {
    /// Ends the replay; `sites` is as for [`barriers_differ`](super::calls::barriers_differ).
    ///
    /// # Safety
    /// `sites` must have a site for each thread.
    pub(super) unsafe fn report_sites(&self, sites: *const CallSite) -> ! {
        let place = |linear: usize| {
            // SAFETY: passed on to the caller.
            let site = unsafe { *sites.add(usize::from(self.launch.tables.position_of[linear])) };
            if site.file.is_null() {
                "ended".to_owned()
            } else {
                format!("at the barrier at {}", site.describe())
            }
        };
        (self.deadlock)(&group_waiting_threads((0..self.launch.thread_count).map(place)))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn report_deadlock(&self) -> ! {
        (self.deadlock)(&self.waiting_groups())
    }

    /// The threads of the block, grouped by where they wait, in the order of their first thread.
    fn waiting_groups(&self) -> Vec<WaitingGroup> {
        group_waiting_threads(
            (0..self.launch.thread_count).map(|linear| self.waiting_place(linear)),
        )
    }

    fn waiting_place(&self, linear: usize) -> String {
        let warp = linear / LANES;
        let lane = linear % LANES;
        let thread = &self.threads[usize::from(self.launch.tables.position_of[linear])];
        let site = thread.site.describe();
        match thread.wait {
            _ if self.warps[warp].live >> lane & 1 == 0 => "ended".to_owned(),
            Wait::Nothing => "did not wait".to_owned(),
            Wait::Barrier => format!("at the barrier at {site}"),
            Wait::Grid => format!("for the grid at {site}"),
            Wait::Cluster => format!("for its cluster at {site}"),
            Wait::Warp => {
                let mask = self.warps[warp].offers[lane].mask;
                format!("for the lanes {mask:#010x} of its warp at {site}")
            }
        }
    }
}
