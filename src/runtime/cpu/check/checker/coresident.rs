//! Blocks that are alive at once: each remembers what it has learned while others run, and a barrier of the grid
//! or of a cluster lets all that meet there know what each of them did before.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::super::clocks::Learned;
use super::{Checker, SharedVariable};

/// What is known of the blocks that are alive.
#[derive(Default)]
pub(super) struct CoresidentBlocks {
    /// By block: what it had learned when it paused.
    paused: HashMap<u32, Learned>,
    /// By block: what all knew that it met last.
    met: HashMap<u32, Rc<Learned>>,
    /// Where the variables in shared memory begin.
    variables: Vec<usize>,
    /// The first phase of them.
    first: u32,
}

impl Checker {
    /// Blocks that are alive at once begin.
    pub(crate) fn begin_together(&mut self) {
        let first = self.clocks.phase() + 1;
        self.together = Some(CoresidentBlocks { first, ..CoresidentBlocks::default() });
    }

    /// One of them begins, with dynamic shared memory at `dynamic` in what is all its own.
    pub(crate) fn begin_block_among(
        &mut self,
        block: u32,
        index: [u32; 3],
        dynamic: Range<usize>,
        reach: Range<usize>,
    ) {
        self.settle_all();
        self.enter_block(block, index);
        self.share_among(SharedVariable::dynamic(dynamic), reach);
        self.follow_clocks();
    }

    /// All of them have ended.
    pub(crate) fn end_together(&mut self) {
        self.settle_all();
        for variable_address in
            self.together.take().map(|together| together.variables).unwrap_or_default()
        {
            self.remove(variable_address);
        }
    }

    /// The block that runs has `variable` in shared memory of its own, whose surroundings are `reach`.
    pub(super) fn share_among(&mut self, variable: SharedVariable, reach: Range<usize>) {
        let Some(together) = &mut self.together else { return };
        let range = &variable.range;
        if !range.is_empty() {
            together.variables.push(range.start);
            self.add(range.start, range.len(), &variable.label(), false, reach);
        }
    }

    /// The block that runs has paused.
    pub(crate) fn pause_block(&mut self, block: u32) {
        self.settle_all();
        let learned = self.clocks.learned_so_far();
        if let Some(together) = &mut self.together {
            together.paused.insert(block, learned);
        }
    }

    /// These blocks have all come to a barrier.
    pub(crate) fn meet(&mut self, blocks: impl Iterator<Item = u32>) {
        let Some(together) = &mut self.together else { return };
        let blocks: Vec<u32> = blocks.collect();
        let mut all_learned = Learned::default();
        for block in &blocks {
            if let Some(learned) = together.paused.get(block) {
                all_learned.join(learned);
            }
        }
        // Whoever else is alive has not come to a barrier of these: what it did is taken for known.
        all_learned.learn_all(together.first..self.clocks.phase() + 1);
        let shared_learned = Rc::new(all_learned);
        for block in blocks {
            together.met.insert(block, Rc::clone(&shared_learned));
        }
    }

    /// The block goes on behind the barrier at which it met others.
    pub(crate) fn resume_block(&mut self, block: u32, index: [u32; 3]) {
        self.settle_all();
        let met = self.together.as_ref().and_then(|together| together.met.get(&block).cloned());
        self.enter_block(block, index);
        if let Some(met) = met {
            self.clocks.adopt_knowledge(met);
        }
        self.follow_clocks();
    }
}
