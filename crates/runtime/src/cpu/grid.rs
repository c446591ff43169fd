//! Spreads the blocks of a grid over the cores, in the same order for any number of cores.
//!
//! Blocks are handed out in order. Before its first atomic operation a block waits until every earlier block has
//! ended, so atomics happen in the order of blocks.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::block::{BlockKernel, BlockRunner};
use super::check;
use super::clusters::Clusters;
use super::coresident::{BlockResources, run_cluster, run_grid};
use super::fiber::STACK_BYTES;
use super::order::Order;
use super::shape::LaunchShape;
use super::shared::SharedMemory;
use crate::{lack_of_memory, no_thread};

/// The longest wait of a failing block for earlier ones, since they may wait for it.
const PATIENCE_MS: u32 = 500;

/// Fewer CUDA threads than this are not worth waking other cores for.
const PARALLEL_THREADS: u64 = 2048;

/// One launch, as every operating-system thread needs it.
#[derive(Clone, Copy)]
pub(super) struct GridJob {
    /// Grid and block.
    pub shape: LaunchShape,
    /// The order of blocks and threads.
    pub order: Order,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// The limit of a block's shared memory, dynamic and static.
    pub shared_limit: usize,
    /// How the blocks are grouped.
    pub clusters: Clusters,
    /// Whether all blocks are alive at once.
    pub cooperative: bool,
    /// The kernel and its arguments.
    pub kernel: BlockKernel,
}

// SAFETY: the arguments are only read. The launch is waited for, so they outlive it.
unsafe impl Send for GridJob {}
// SAFETY: as above.
unsafe impl Sync for GridJob {}

/// How far the blocks of a launch have come.
struct GridProgress {
    next: AtomicU64,
    /// By operating-system thread: its block, or one before it; the largest number if the
    /// thread has not begun or is done. A beginning thread takes a later block than all before it.
    at: Box<[Padded]>,
}

/// On a cache line of its own.
#[repr(align(128))]
struct Padded(AtomicU64);

impl GridProgress {
    fn new(threads: usize) -> GridProgress {
        let at = (0..threads).map(|_| Padded(u64::MAX.into())).collect();
        GridProgress { next: AtomicU64::new(0), at }
    }

    /// The next block for `thread`, or none if all `count` are taken.
    fn claim_block(&self, thread: usize, count: u64) -> Option<u64> {
        // Until its block is known, the thread counts as being at its earliest possible one.
        self.at[thread].0.store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        let block = self.next.fetch_add(1, Ordering::SeqCst);
        let block = if block < count { block } else { u64::MAX };
        self.at[thread].0.store(block, Ordering::SeqCst);
        (block != u64::MAX).then_some(block)
    }

    fn all_before_ended(&self, thread: usize, block: u64) -> bool {
        let other_threads =
            self.at.iter().enumerate().filter(|&(other_thread, _)| other_thread != thread);
        other_threads
            .into_iter()
            .all(|(_, thread_block)| thread_block.0.load(Ordering::SeqCst) >= block)
    }
}

/// The state of one operating-system thread for running blocks.
pub(super) struct Core {
    /// Runs one block after the other.
    pub runner: BlockRunner,
    /// The shared memory of the running block.
    pub shared: SharedMemory,
    /// The blocks alive at once, each where it stays.
    #[allow(clippy::vec_box)] // Their shared memory is known by its address.
    pub together: Vec<Box<BlockResources>>,
    /// Makes the resources of one of them.
    pub make: Box<dyn Fn() -> BlockResources>,
}

struct BlockTurn {
    progress: *const GridProgress,
    thread: usize,
    block: u64,
    runner: *mut BlockRunner,
}

thread_local! {
    static TURN: Cell<*const BlockTurn> = const { Cell::new(std::ptr::null()) };
}

/// Waits until every block before the current one has ended.
///
/// # Safety
/// Must be called from a thread of a running kernel.
pub(crate) unsafe extern "C" fn atomic_turn() {
    // SAFETY: set by `run_blocks` on this operating-system thread for the time of the block.
    unsafe {
        let turn = &*TURN.get();
        let mut spins = 0u32;
        while !(*turn.progress).all_before_ended(turn.thread, turn.block) {
            spins += 1;
            if spins < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        (*turn.runner).state().has_turn = 1;
    }
}

/// Waits until every block before this operating-system thread's has ended, or until `PATIENCE_MS` is over. So the
/// first of several failing blocks is reported, on any number of cores. May be called from a signal handler.
pub(crate) fn wait_for_blocks_before() {
    let turn = TURN.get();
    if turn.is_null() {
        return;
    }
    for _ in 0..PATIENCE_MS {
        // SAFETY: set by `run_blocks` on this operating-system thread for the time of the block.
        let is_first =
            unsafe { (*(*turn).progress).all_before_ended((*turn).thread, (*turn).block) };
        if is_first {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn run_blocks(core: &mut Core, job: &GridJob, progress: &GridProgress, thread: usize) {
    if job.clusters.size() > 1 {
        return run_clusters(core, job, progress, thread);
    }
    let Core { runner, shared, .. } = core;
    if let Err(error) = runner.begin_launch(job.kernel, job.shape, job.order) {
        let threads = job.shape.threads();
        let purpose = "the stacks of a block";
        lack_of_memory(purpose, threads * STACK_BYTES, &error);
    }
    shared.begin_launch(job.shared_bytes, job.shared_limit, runner.state());
    (runner.state().cluster, runner.state().cluster_rank) = ([1; 3], 0);
    let count = job.shape.blocks();
    let mut turn = BlockTurn { progress, thread, block: 0, runner };
    while let Some(position) = progress.claim_block(thread, count) {
        turn.block = position;
        TURN.set(&raw const turn);
        // SAFETY: the runner outlives the loop; nobody else uses it meanwhile.
        let runner = unsafe { &mut *turn.runner };
        runner.state().has_turn = u32::from(progress.at.len() == 1);
        runner.state().restless = 0;
        shared.begin_block();
        let block = job.order.block(position, count);
        let index = job.shape.block_index(block);
        check::begin_block(block, index, shared.dynamic());
        runner.run(index);
    }
    TURN.set(std::ptr::null());
}

/// Runs the clusters of a launch as `run_blocks` runs blocks: those of one are alive at once.
fn run_clusters(core: &mut Core, job: &GridJob, progress: &GridProgress, thread: usize) {
    let mut turn = BlockTurn { progress, thread, block: 0, runner: &raw mut core.runner };
    while let Some(position) = progress.claim_block(thread, job.clusters.count()) {
        turn.block = position;
        TURN.set(&raw const turn);
        core.runner.state().has_turn = u32::from(progress.at.len() == 1);
        run_cluster(core, job, position);
    }
    TURN.set(std::ptr::null());
}

/// Does `work` with `core` as the one whose blocks run; none is before them.
pub(super) fn run_as_first_block(core: &mut Core, work: impl FnOnce(&mut Core)) {
    let progress = GridProgress::new(1);
    let runner = &raw mut core.runner;
    let turn = BlockTurn { progress: &raw const progress, thread: 0, block: 0, runner };
    TURN.set(&raw const turn);
    core.runner.state().has_turn = 1;
    work(core);
    TURN.set(std::ptr::null());
}

/// The operating-system threads for blocks; the launching one is the first of them.
pub(super) struct CorePool {
    shared: Arc<CorePoolShared>,
    helpers: usize,
}

struct CorePoolShared {
    work: Mutex<GridWork>,
    begun: Condvar,
    ended: Condvar,
}

struct GridWork {
    job: Option<(GridJob, Arc<GridProgress>)>,
    number: u64,
    /// Helpers at work on the job.
    running: usize,
}

impl CorePool {
    /// A pool of `threads`, the caller included; each makes its state by `core`.
    pub(super) fn new(threads: usize, core: impl Fn() -> Core + Send + Sync + 'static) -> CorePool {
        let work = GridWork { job: None, number: 0, running: 0 };
        let shared = Arc::new(CorePoolShared {
            work: Mutex::new(work),
            begun: Condvar::new(),
            ended: Condvar::new(),
        });
        let core = Arc::new(core);
        let helpers = threads.saturating_sub(1);
        for helper in 1..=helpers {
            let shared = Arc::clone(&shared);
            let core = Arc::clone(&core);
            let started = std::thread::Builder::new()
                .spawn(move || run_helper_thread(&shared, helper, &mut core()));
            if let Err(error) = started {
                no_thread(&error);
            }
        }
        CorePool { shared, helpers }
    }

    /// Runs all blocks of `job`; `core` is the calling thread's.
    pub(super) fn run(&self, core: &mut Core, job: &GridJob) {
        if job.cooperative {
            return run_grid(core, job);
        }
        let threads = job.shape.blocks().saturating_mul(job.shape.threads() as u64);
        if self.helpers == 0 || job.clusters.count() == 1 || threads < PARALLEL_THREADS {
            return run_blocks(core, job, &GridProgress::new(1), 0);
        }
        let progress = Arc::new(GridProgress::new(self.helpers + 1));
        {
            let mut work = self.shared.work.lock().expect("no helper panics while it holds this");
            work.job = Some((*job, Arc::clone(&progress)));
            work.number += 1;
        }
        self.shared.begun.notify_all();
        run_blocks(core, job, &progress, 0);
        let mut work = self.shared.work.lock().expect("no helper panics while it holds this");
        // Every block is taken: a helper still asleep need not wake up.
        work.job = None;
        while work.running > 0 {
            work = self.shared.ended.wait(work).expect("no helper panics while it holds this");
        }
    }
}

fn run_helper_thread(shared: &CorePoolShared, helper: usize, core: &mut Core) {
    let mut finished_number = 0;
    loop {
        let mut work = shared.work.lock().expect("nobody panics while holding this");
        let (job, progress) = loop {
            match &work.job {
                Some((job, progress)) if work.number != finished_number => {
                    break (*job, Arc::clone(progress));
                }
                _ => work = shared.begun.wait(work).expect("nobody panics while holding this"),
            }
        };
        finished_number = work.number;
        work.running += 1;
        drop(work);
        run_blocks(core, &job, &progress, helper);
        shared.work.lock().expect("nobody panics while holding this").running -= 1;
        shared.ended.notify_one();
    }
}
