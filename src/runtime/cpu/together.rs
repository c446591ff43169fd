//! Cooperative launches: all blocks of a grid are alive at the same time, and take turns on one
//! operating-system thread.
//!
//! A block runs until all its threads wait for the grid, wait for something that another block
//! does, or have ended; then the next one runs. So the order depends on nothing but the code.
#![allow(unsafe_code)]

use super::block::{BlockRunner, Pause};
use super::check;
use super::grid::{Core, Job, alone};
use super::shared::SharedMemory;
use crate::runtime::{end, lack_of_memory, refuse};

/// The most threads that are alive at once: each has a stack and a guard below it, which are two of
/// the 65,530 maps that Linux gives a process.
const MOST_THREADS: u64 = 24 << 10;

/// What one block needs to stay alive while others run.
pub(super) struct Block {
    /// Its threads.
    pub runner: BlockRunner,
    /// Its shared memory.
    pub shared: SharedMemory,
}

/// Runs all blocks of `job` together.
pub(super) fn run(core: &mut Core, job: &Job) {
    let (count, threads) = (job.shape.blocks(), job.shape.threads());
    if check::runs() {
        let detail = format!("{} runs its blocks in turns", job.kernel.name);
        end("a cooperative launch cannot be checked", detail, None);
    }
    if let Some(message) = beyond(job.kernel.name, count, threads) {
        refuse(message, Some("launch fewer blocks".to_owned()));
    }
    while (core.together.len() as u64) < count {
        core.together.push((core.make)());
    }
    let blocks = &mut core.together[..count as usize];
    for (position, block) in blocks.iter_mut().enumerate() {
        let index = job.shape.block_index(job.order.block(position as u64, count));
        if let Err(error) = block.runner.begin_together(job.kernel, job.shape, job.order, index) {
            let bytes = threads * super::fiber::STACK_BYTES;
            lack_of_memory("the stacks of a block", bytes, &error);
        }
        block.shared.begin_launch(job.shared_bytes, job.shared_limit, block.runner.state());
        block.shared.begin_block();
    }
    let mut pauses: Vec<Pause> = vec![Pause::Yielded; blocks.len()];
    loop {
        for (block, pause) in blocks.iter_mut().zip(&mut pauses) {
            if *pause == Pause::Yielded {
                block.shared.begin_launch(job.shared_bytes, job.shared_limit, block.runner.state());
                *pause = alone(&mut block.runner, BlockRunner::run_on);
            }
        }
        let any = |pause| pauses.contains(&pause);
        if any(Pause::Yielded) {
            continue;
        }
        if !any(Pause::AtGrid) {
            return;
        }
        if any(Pause::Ended) {
            deadlock(job, &pauses, blocks);
        }
        for (block, pause) in blocks.iter_mut().zip(&mut pauses) {
            block.runner.release_grid();
            *pause = Pause::Yielded;
        }
    }
}

/// Why so many threads cannot be alive at once, if they cannot.
fn beyond(kernel: &str, blocks: u64, threads: usize) -> Option<String> {
    (blocks.saturating_mul(threads as u64) > MOST_THREADS).then(|| {
        format!(
            "a cooperative launch of {kernel} with {blocks} blocks of {threads} threads, where the \
             CPU runs {MOST_THREADS} threads together"
        )
    })
}

/// Ends the replay: some blocks wait for the grid, and others have ended.
fn deadlock(job: &Job, pauses: &[Pause], blocks: &[Block]) -> ! {
    let count = pauses.len();
    let ended = pauses.iter().filter(|&&pause| pause == Pause::Ended).count();
    let waiting = pauses.iter().position(|&pause| pause == Pause::AtGrid).unwrap_or(0);
    let place = blocks[waiting].runner.grid_site().describe();
    let detail = format!(
        "{} of {count} blocks wait for the grid at {place}; {ended} have ended",
        count - ended
    );
    let index = job.shape.block_index(job.order.block(waiting as u64, count as u64));
    end("barrier never reached", detail, Some((job.kernel.name, index, [0; 3])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_can_be_alive_at_once_are_refused_with_their_number() {
        assert_eq!(beyond("normalize", 96, 256), None);
        insta::assert_snapshot!(beyond("normalize", 264, 1024).unwrap(), @"a cooperative launch of normalize with 264 blocks of 1024 threads, where the CPU runs 24576 threads together");
    }
}
