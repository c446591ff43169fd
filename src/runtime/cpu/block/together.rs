//! A block of a cooperative launch: it pauses where it waits for other blocks, and goes on later.
#![allow(unsafe_code)]

use std::io;

use super::running::current;
use super::{BlockRunner, Handover, Kernel, Wait};
use crate::runtime::abi::Site;
use crate::runtime::cpu::fiber::switch;
use crate::runtime::cpu::order::Order;
use crate::runtime::cpu::shape::Shape;
use crate::runtime::{cpu, end};

/// Why a block no longer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) enum Pause {
    /// A thread may wait for something that another block does.
    Yielded,
    /// All threads wait for the grid.
    AtGrid,
    /// All threads have ended.
    Ended,
}

/// What a runner knows of a cooperative launch.
pub(super) struct Together {
    /// The threads that wait for the grid.
    arrived: u32,
    site: Site,
    /// The thread that goes on first, by its position.
    next: usize,
    pause: Pause,
    block: [u32; 3],
}

impl BlockRunner {
    /// Gets ready to run the block with index `block` among others, in turns.
    ///
    /// # Errors
    /// If no memory can be had for the stacks.
    pub(in crate::runtime::cpu) fn begin_together(
        &mut self,
        kernel: Kernel,
        shape: Shape,
        order: Order,
        block: [u32; 3],
    ) -> io::Result<()> {
        self.least_stacks = 1;
        self.begin_launch(kernel, shape, order)?;
        self.begin_block();
        let site = Site { file: std::ptr::null(), line: 0 };
        let pause = Pause::Yielded;
        self.together = Some(Together { arrived: 0, site, next: 0, pause, block });
        Ok(())
    }

    /// Runs the block until it pauses.
    pub(in crate::runtime::cpu) fn run_on(&mut self) -> Pause {
        let Some(Together { next, block, .. }) = self.together else { return Pause::Ended };
        let state = self.state();
        state.in_kernel = 1;
        state.has_turn = 1;
        state.running = std::ptr::null();
        state.restless = 0;
        // SAFETY: thread-local storage of the artifact.
        unsafe { *self.pointers.block_idx = block };
        let next = self.advance(next);
        let context = match self.threads[next].context {
            _ if self.turns => self.paused,
            0 => self.start(next),
            context => context,
        };
        self.enter(next);
        self.announce(true);
        // SAFETY: the context was saved or prepared; whoever pauses the block comes back here.
        unsafe { switch(&raw mut self.caller, context) };
        self.announce(false);
        self.state().in_kernel = 0;
        if self.live_count == 0 || self.whole && !self.turns {
            let last = self.threads[self.position].stack;
            self.free_stacks.push(last);
            self.together = None;
            return Pause::Ended;
        }
        self.together.as_ref().map_or(Pause::Ended, |together| together.pause)
    }

    /// Lets the threads go on that waited for the grid.
    pub(in crate::runtime::cpu) fn release_grid(&mut self) {
        let words = self.words;
        self.ready.0[..words].copy_from_slice(&self.live.0[..words]);
        let next = self.ready.next_after(super::MAX_THREADS - 1, words).unwrap_or(0);
        if let Some(together) = &mut self.together {
            together.arrived = 0;
            together.next = next;
        }
    }

    /// Where a thread waits for the grid.
    pub(in crate::runtime::cpu) fn grid_site(&self) -> Site {
        self.together.as_ref().map_or(Site { file: std::ptr::null(), line: 0 }, |t| t.site)
    }

    /// Whether every thread that has not ended waits for the grid.
    pub(super) fn all_at_grid(&self) -> bool {
        self.together.as_ref().is_some_and(|t| t.arrived > 0 && t.arrived == self.live_count)
    }

    /// From the current thread to whoever runs the blocks. The thread at `next` goes on first.
    pub(super) fn pause(&mut self, pause: Pause, next: usize) -> Handover {
        if let Some(together) = &mut self.together {
            together.pause = pause;
            together.next = next;
        }
        Handover { save: &raw mut self.threads[self.position].context, to: self.caller }
    }

    fn arrive_at_grid(&mut self, site: Site) -> Option<Handover> {
        if self.whole {
            self.report_deadlock();
        }
        let position = self.position;
        let Some(together) = &mut self.together else {
            let detail = match site.describe() {
                place if place.is_empty() => "grid.sync()".to_owned(),
                place => format!("grid.sync() at {place}"),
            };
            end("launch is not cooperative", detail, cpu::place());
        };
        together.arrived += 1;
        together.site = site;
        self.threads[position].site = site;
        self.threads[position].wait = Wait::Grid;
        self.ready.remove(position);
        if self.all_at_grid() {
            return Some(self.pause(Pause::AtGrid, position));
        }
        self.hand_over()
    }

    /// From a thread that may wait for another one: to the next of its block, or to another block
    /// where all of this one have had their turn.
    pub(super) fn yield_thread(&mut self) -> Option<Handover> {
        if self.turns {
            return None;
        }
        if self.together.is_none() || self.whole {
            return self.hand_over();
        }
        let next = self.ready.next_after(self.position, self.words)?;
        if next > self.position { self.hand_over() } else { Some(self.pause(Pause::Yielded, next)) }
    }
}

/// `grid.sync()`: returns once every thread of the grid has come.
///
/// # Safety
/// Must be called from a thread of a kernel that runs.
pub(crate) unsafe extern "C" fn grid_barrier(site: Site) {
    // SAFETY: passed on to the caller; no reference lives across the switch.
    unsafe {
        if let Some(Handover { save, to }) = current().arrive_at_grid(site) {
            switch(save, to);
        }
    }
}

/// Whether the launch that runs is a cooperative one.
///
/// # Safety
/// Must be called from a thread of a kernel that runs.
pub(crate) unsafe extern "C" fn is_cooperative() -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { current() }.together.is_some().into()
}
