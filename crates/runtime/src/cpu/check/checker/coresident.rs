//! Blocks alive at once. Each keeps its knowledge while others run; a barrier of the grid or of a cluster gives all
//! its blocks the knowledge of each.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::super::clocks::Learned;
use super::{Checker, SharedVariable};

/// The knowledge of the blocks alive.
#[derive(Default)]
pub(super) struct CoresidentBlocks {
    /// By block: its knowledge at its last pause.
    paused: HashMap<u32, Learned>,
    /// By block: the common knowledge from its last barrier.
    met: HashMap<u32, Rc<Learned>>,
    /// Where the variables in shared memory begin.
    variables: Vec<usize>,
    /// The first phase of them.
    first: u32,
}

impl Checker {
    /// Blocks alive at once begin.
    pub(crate) fn begin_together(&mut self) {
        let first = self.clocks.phase() + 1;
        self.together = Some(CoresidentBlocks { first, ..CoresidentBlocks::default() });
    }

    /// One of them begins, with dynamic shared memory at `dynamic` in its own shared memory at `reach`.
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

    /// The running block has `variable` in shared memory of its own, whose surroundings are `reach`.
    pub(super) fn share_among(&mut self, variable: SharedVariable, reach: Range<usize>) {
        let Some(together) = &mut self.together else { return };
        let range = &variable.range;
        if !range.is_empty() {
            together.variables.push(range.start);
            self.add(range.start, range.len(), &variable.label(), false, reach);
        }
    }

    /// The running block has paused.
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
        // The other live blocks have not come to this barrier: their accesses are taken for known.
        all_learned.learn_all(together.first..self.clocks.phase() + 1);
        let shared_learned = Rc::new(all_learned);
        for block in blocks {
            together.met.insert(block, Rc::clone(&shared_learned));
        }
    }

    /// The block goes on behind its barrier with others.
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
