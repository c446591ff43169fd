//! Blocks alive at the same time take turns on one operating-system thread: those of a
//! cooperative launch, or of a cluster.
//!
//! A block runs until all its threads wait for the grid, the cluster or an action of another block, or have ended;
//! then the next one runs. So the order depends on nothing but the code.
#![allow(unsafe_code)]

use super::block::{BlockRunner, Pause};
use super::check;
use super::fiber::{STACK_BYTES, Stacks};
use super::grid::{Core, GridJob, run_as_first_block};
use super::shared::SharedMemory;
use crate::{end_replay, lack_of_memory};

/// How often a block of a checked replay gives up its turn in a row before it counts as waiting for another
/// one: a loop of atomics gives it up as well.
const MOST_YIELDS: u32 = 1 << 10;

/// The resources of one block alive while others run.
pub(super) struct BlockResources {
    pub runner: BlockRunner,
    /// Its shared memory.
    pub shared: SharedMemory,
}

/// A block among those alive.
struct Alive<'b> {
    block: &'b mut BlockResources,
    index: [u32; 3],
    linear: u64,
    /// Its rank in its cluster.
    rank: u64,
    pause: Pause,
    has_begun: bool,
}

/// Runs all blocks of `job` together.
pub(super) fn run_grid(core: &mut Core, job: &GridJob) {
    let count = job.clusters.count();
    let clusters = (0..count).map(|position| job.order.block(position, count)).collect();
    run_as_first_block(core, |core| run_coresident(core, job, clusters));
}

/// Runs the blocks of the cluster at `position` together.
pub(super) fn run_cluster(core: &mut Core, job: &GridJob, position: u64) {
    run_coresident(core, job, vec![job.order.block(position, job.clusters.count())]);
}

fn run_coresident(core: &mut Core, job: &GridJob, clusters: Vec<u64>) {
    let size = job.clusters.size();
    let count = clusters.len() * size as usize;
    while core.together.len() < count {
        core.together.push(Box::new((core.make)()));
    }
    let mut stacks = core.runner.lend_stacks(job.shape.threads()).unwrap_or_else(|error| {
        lack_of_memory("the stacks of a block", job.shape.threads() * STACK_BYTES, &error)
    });
    let places = clusters
        .into_iter()
        .flat_map(|cluster| (0..size).map(move |place| (cluster, job.order.block(place, size))));
    let mut blocks: Vec<Alive> = places
        .zip(&mut core.together)
        .map(|((cluster, rank), block)| begin_coresident(block, job, cluster, rank))
        .collect();
    blocks.chunks_mut(size as usize).for_each(connect_cluster);
    check::begin_together();
    take_turns(job, &mut blocks, &mut stacks);
    check::end_together();
    for alive in &mut blocks {
        alive.block.shared.close(false);
    }
    core.runner.take_back(stacks);
}

fn begin_coresident<'b>(
    block: &'b mut BlockResources,
    job: &GridJob,
    cluster: u64,
    rank: u64,
) -> Alive<'b> {
    let index = job.clusters.block_index(cluster, rank);
    block.runner.begin_together((job.kernel, job.shape, job.order), index, job.cooperative);
    block.shared.begin_launch(job.shared_bytes, job.shared_limit, block.runner.state());
    block.shared.begin_block();
    let linear = job.clusters.linear(index);
    Alive { block, index, linear, rank, pause: Pause::Yielded, has_begun: false }
}

/// Tells the blocks of one cluster of each other.
fn connect_cluster(cluster: &mut [Alive]) {
    let mut peers: Vec<(u64, *mut SharedMemory)> =
        cluster.iter_mut().map(|alive| (alive.rank, &raw mut alive.block.shared)).collect();
    peers.sort_unstable_by_key(|&(rank, _)| rank);
    let peers: Vec<*mut SharedMemory> =
        peers.into_iter().map(|(_, shared_memory)| shared_memory).collect();
    for &peer in &peers {
        // SAFETY: they lie in the core, and nobody else uses it while the blocks run.
        unsafe { (*peer).join(&peers) };
    }
}

fn take_turns(job: &GridJob, blocks: &mut [Alive], stacks: &mut Option<Stacks>) {
    let size = job.clusters.size() as usize;
    loop {
        let mut any_ran = false;
        for position in 0..blocks.len() {
            if blocks[position].pause == Pause::Yielded {
                any_ran = true;
                run_until_pause(job, &mut blocks[position], stacks);
                let first = position - position % size;
                release_cluster_waiters(&mut blocks[first..first + size], position % size);
            }
        }
        if any_ran {
            continue;
        }
        if blocks.iter().all(|alive| alive.pause == Pause::Ended) {
            return;
        }
        if !blocks.iter().all(|alive| alive.pause == Pause::AtGrid) {
            report_grid_deadlock(job, blocks);
        }
        check::meet_blocks(blocks.iter().map(|alive| alive.linear as u32));
        for alive in &mut *blocks {
            alive.block.runner.release_grid();
            alive.pause = Pause::Yielded;
        }
    }
}

/// Runs one block until it pauses.
fn run_until_pause(job: &GridJob, alive: &mut Alive, stacks: &mut Option<Stacks>) {
    let BlockResources { runner, shared } = &mut *alive.block;
    shared.begin_launch(job.shared_bytes, job.shared_limit, runner.state());
    let state = runner.state();
    (state.cluster, state.cluster_rank) = (job.clusters.sides, alive.rank as u32);
    let linear = alive.linear as u32;
    if alive.has_begun {
        check::resume_block(linear, alive.index);
    } else {
        alive.has_begun = true;
        check::begin_block_among(linear, alive.index, shared.dynamic(), shared.range());
    }
    alive.pause = runner.run_on(stacks);
    let mut yields = 0;
    while alive.pause == Pause::Yielded && check::is_checking() {
        yields += 1;
        if yields == MOST_YIELDS {
            let detail = format!("a block of {} waits in a loop for another one", job.kernel.name);
            end_replay("blocks that wait in a loop cannot be checked", detail, None);
        }
        alive.pause = runner.run_on(stacks);
    }
    check::pause_block(linear);
}

/// The block at `position` of `cluster` has paused: if the others waited for it, they go on.
fn release_cluster_waiters(cluster: &mut [Alive], position: usize) {
    if cluster[position].pause == Pause::Ended && cluster.len() > 1 {
        let others_run = cluster.iter().any(|alive| alive.pause != Pause::Ended);
        cluster[position].block.shared.close(others_run);
    }
    let any_came = cluster.iter().any(|alive| alive.block.runner.has_come_to_cluster());
    if !any_came || !cluster.iter().all(|alive| alive.block.runner.all_at_cluster()) {
        return;
    }
    check::meet_blocks(cluster.iter().map(|alive| alive.linear as u32));
    for alive in cluster {
        if alive.block.runner.release_cluster() && alive.pause == Pause::AtCluster {
            alive.pause = Pause::Yielded;
        }
    }
}

/// Ends the replay: no block can go on, and not all have ended.
fn report_grid_deadlock(job: &GridJob, blocks: &mut [Alive]) -> ! {
    if let Some(stuck) = blocks
        .iter_mut()
        .find(|alive| alive.pause == Pause::AtCluster && !alive.block.runner.all_at_cluster())
    {
        stuck.block.runner.report_stuck();
    }
    let count = blocks.len();
    let ended = blocks.iter().filter(|alive| alive.pause == Pause::Ended).count();
    let Some(waiting) = blocks.iter().find(|alive| alive.pause == Pause::AtGrid) else {
        let stuck = blocks.iter_mut().find(|alive| alive.pause == Pause::AtCluster);
        stuck.expect("a block has neither ended nor come to the grid").block.runner.report_stuck();
    };
    let place = waiting.block.runner.grid_site().describe();
    let elsewhere = match ended {
        0 => format!("{} wait for their cluster", count - at_grid(blocks)),
        ended => format!("{ended} have ended"),
    };
    let detail =
        format!("{} of {count} blocks wait for the grid at {place}; {elsewhere}", at_grid(blocks));
    end_replay("barrier never reached", detail, Some((job.kernel.name, waiting.index, [0; 3])))
}

fn at_grid(blocks: &[Alive]) -> usize {
    blocks.iter().filter(|alive| alive.pause == Pause::AtGrid).count()
}
