//! Parts of both kinds of search: threads for tests, sources by commit number, and marks of earlier tests in
//! the cache.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::plan::Plan;
use super::probe::{Base, CommitProbe, GoodSide, Seen, Sources, TestEffort};
use super::symptom::{Symptom, ask_for_orders};
use super::{BisectError, Bisection, GoodEnds, Trusted};
use replay_base::cache::CacheKind;
use replay_engine::backend::ReplayError;
use replay_engine::environment::hash_environment;
use replay_engine::trial::Lab;
use replay_history::Commit;

/// Threads with one task and one result each.
///
/// Nobody waits for them. Needless work goes on until the process ends; its results are in the cache for the
/// next search.
pub(super) struct TestThreads<T> {
    sender: Sender<(u32, WorkEnd<T>)>,
    receiver: Receiver<(u32, WorkEnd<T>)>,
    running: usize,
}

/// How the work of a thread ends.
enum WorkEnd<T> {
    Returned(Result<T, ReplayError>),
    Panicked(Box<dyn Any + Send>),
}

impl<T: Send + 'static> TestThreads<T> {
    pub(super) fn new() -> TestThreads<T> {
        let (sender, receiver) = channel();
        TestThreads { sender, receiver, running: 0 }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Does `work` for `commit` on a thread of its own.
    pub(super) fn start(
        &mut self,
        commit: u32,
        work: impl FnOnce() -> Result<T, ReplayError> + Send + 'static,
    ) {
        let sender = self.sender.clone();
        self.running += 1;
        let work = Arc::new(Mutex::new(Some(work)));
        let run_work = {
            let work = work.clone();
            move || {
                let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(work) = work else { return };
                let end = match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(result) => WorkEnd::Returned(result),
                    Err(panic) => WorkEnd::Panicked(panic),
                };
                // Nobody listens any more once the search has its answer.
                let _ = sender.send((commit, end));
            }
        };
        // If the system has no thread for it, this one does the work.
        if thread::Builder::new().spawn(run_work.clone()).is_err() {
            run_work();
        }
    }

    /// Waits for the next result; none if nothing runs.
    pub(super) fn wait(&mut self) -> Result<Option<(u32, T)>, ReplayError> {
        if self.running == 0 {
            return Ok(None);
        }
        let (commit, end) = self.receiver.recv().expect("the workers hold a sender themselves");
        self.running -= 1;
        match end {
            WorkEnd::Returned(result) => Ok(Some((commit, result?))),
            WorkEnd::Panicked(panic) => resume_unwind(panic),
        }
    }
}

/// A planned search: its commits, and the probes for them.
pub(super) struct PlannedSearch<'a> {
    pub bisection: &'a Bisection<'a>,
    pub plan: Plan,
    pub probes: Arc<Vec<CommitProbe>>,
    /// Whether commits are replayed in other orders of blocks and threads: until the bad ends were
    /// tested, and afterwards if such a dependence makes them bad.
    pub orders: Cell<bool>,
    /// Whether one run does for a program where its bits are known: once the bad ends show values, not failures.
    pub accepts_one_run: Cell<bool>,
    /// Whether it may ever do.
    may_accept_one_run: Cell<bool>,
    commits: RefCell<HashMap<u32, Commit>>,
    marked: RefCell<HashMap<(&'static str, u32), bool>>,
}

impl<'a> PlannedSearch<'a> {
    pub(super) fn new(
        bisection: &'a Bisection<'a>,
        plan: Plan,
    ) -> Result<PlannedSearch<'a>, BisectError> {
        bisection.has_room()?;
        let mut planned = PlannedSearch {
            bisection,
            plan,
            probes: Arc::new(Vec::new()),
            orders: Cell::new(true),
            accepts_one_run: Cell::new(false),
            may_accept_one_run: Cell::new(!bisection.has_cheap_replays()),
            commits: RefCell::default(),
            marked: RefCell::default(),
        };
        let base: Vec<Base> = match &bisection.trusted {
            Trusted::GoodEnd(_) => {
                planned.sources(planned.plan.trusted())?.into_iter().map(Base::Sources).collect()
            }
            Trusted::Snapshots(snapshots) => {
                let good_sources = planned.sources(planned.plan.trusted())?;
                let pairs = snapshots.iter().cloned().zip(good_sources);
                pairs.map(|(snapshot, sources)| Base::Snapshot(snapshot, sources)).collect()
            }
        };
        let good_name: Arc<str> = planned.name_good_side()?.into();
        let probes = bisection.targets.iter().zip(base).map(|(target, base)| {
            let subject = target.subject.clone();
            let output = bisection.output.clone();
            let good_side = GoodSide { base, name: good_name.clone() };
            CommitProbe::new(&bisection.lab, subject, bisection.on, good_side, output)
        });
        planned.probes = Arc::new(probes.collect());
        Ok(planned)
    }

    /// The good side in words.
    fn name_good_side(&self) -> Result<String, BisectError> {
        Ok(match self.bisection.trusted {
            Trusted::GoodEnd(GoodEnds::Parent) => {
                format!("the parent {}", self.commit(self.plan.trusted())?.short)
            }
            Trusted::GoodEnd(GoodEnds::Unclaimed) => "the old end".to_owned(),
            Trusted::GoodEnd(GoodEnds::Named | GoodEnds::Oldest) | Trusted::Snapshots(_) => {
                "the good end".to_owned()
            }
        })
    }

    /// The commit with number `commit`, as reports show it.
    pub(super) fn commit(&self, commit: u32) -> Result<Commit, BisectError> {
        if let Some(known_commit) = self.commits.borrow().get(&commit) {
            return Ok(known_commit.clone());
        }
        let loaded_commit = self.bisection.commit(self.plan.ids[commit as usize])?;
        self.commits.borrow_mut().insert(commit, loaded_commit.clone());
        Ok(loaded_commit)
    }

    /// The sources of commit number `commit`, one for each fixture.
    pub(super) fn sources(&self, commit: u32) -> Result<Vec<Sources>, BisectError> {
        let id = self.plan.ids[commit as usize];
        let targets = 0..self.bisection.targets.len();
        targets.map(|target| self.bisection.sources(id, target)).collect()
    }

    /// The variant of a commit of the graph.
    pub(super) fn variant(&self, commit: u32) -> u32 {
        self.plan.variant(commit)
    }

    /// Whether `commit` has the sources of an end.
    fn is_end(&self, commit: u32) -> bool {
        let ends = self.plan.old.iter().chain(&self.plan.new);
        let mut end_variants = ends.map(|&end| self.variant(end));
        end_variants.any(|variant| variant == self.variant(commit))
    }

    /// Takes how much a test does from the `wanted_symptoms` of the bad ends.
    pub(super) fn learn(&self, wanted_symptoms: &BTreeSet<Symptom>) {
        self.orders.set(ask_for_orders(wanted_symptoms));
        // One run may miss a failure.
        let is_of_values =
            !wanted_symptoms.iter().any(|symptom| matches!(symptom, Symptom::Failed { .. }));
        self.accepts_one_run.set(self.may_accept_one_run.get() && is_of_values);
    }

    /// Forgets what it learnt, and asks for two runs from now on. Returns whether one did before.
    pub(super) fn ask_for_two_runs(&self) -> bool {
        self.orders.set(true);
        self.may_accept_one_run.set(false);
        self.accepts_one_run.take()
    }

    /// How much a test does.
    pub(super) fn effort(&self) -> TestEffort {
        TestEffort { orders: self.orders.get(), accepts_one_run: self.accepts_one_run.get() }
    }

    /// Tests `commit` on every fixture in `lab`.
    pub(super) fn test(
        &self,
        commit: u32,
        lab: &Arc<Lab>,
    ) -> Result<impl FnOnce() -> Result<Seen, ReplayError> + Send + 'static + use<>, BisectError>
    {
        Ok(self.test_sources(self.sources(commit)?, lab, self.is_end(commit)))
    }

    /// Tests `sources`, one for each fixture, in `lab`. What an end imports, this machine has to have.
    pub(super) fn test_sources(
        &self,
        sources: Vec<Sources>,
        lab: &Arc<Lab>,
        is_end: bool,
    ) -> impl FnOnce() -> Result<Seen, ReplayError> + Send + 'static + use<> {
        let probes = self.probes.clone();
        let lab = lab.clone();
        let effort = self.effort();
        let has_axis = !self.bisection.along.is_history();
        move || {
            let pairs = probes.iter().zip(&sources);
            let observations = pairs.map(|(probe, sources)| {
                probe.test(&lab, sources, effort).or_else(|error| {
                    // The ends show what this machine can run, and in which environments the program.
                    let is_its_own =
                        !is_end && (error.lacks_module() || has_axis && error.blames_environment());
                    if is_its_own { Ok(probe.without_module(&error)) } else { Err(error) }
                })
            });
            Ok(Seen { observations: observations.collect::<Result<_, _>>()? })
        }
    }

    /// Whether `mark_name` was noted of the variant of `commit`, now or in an earlier search.
    pub(super) fn is_marked(&self, mark_name: &'static str, commit: u32) -> bool {
        let variant = self.variant(commit);
        if let Some(known_mark) = self.marked.borrow().get(&(mark_name, variant)) {
            return *known_mark;
        }
        let key = self.mark_key(mark_name, commit);
        let has_mark =
            key.is_some_and(|key| self.bisection.lab.cache().find(CacheKind::Fact, &key).is_some());
        self.marked.borrow_mut().insert((mark_name, variant), has_mark);
        has_mark
    }

    /// Notes `mark_name` of the variant of `commit`.
    pub(super) fn mark(&self, mark_name: &'static str, commit: u32) -> Result<(), BisectError> {
        if let Some(key) = self.mark_key(mark_name, commit) {
            let cache = self.bisection.lab.cache();
            cache.write(CacheKind::Fact, &key, mark_name.as_bytes()).map_err(ReplayError::from)?;
            self.marked.borrow_mut().insert((mark_name, self.variant(commit)), true);
        }
        Ok(())
    }

    /// The key of a mark: a hash of everything behind the verdict on a commit.
    fn mark_key(&self, mark_name: &str, commit: u32) -> Option<String> {
        let backend = self.bisection.lab.backend();
        let identity = backend.identity();
        let checker = backend.checker().unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        for part in ["mark", mark_name, &identity, &checker] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        hasher.update(&[self.bisection.on as u8]);
        for probe in self.probes.iter() {
            hasher.update(self.bisection.lab.identity_of(probe.subject()).ok()?.as_bytes());
            let harness = &probe.subject().fixture.harness;
            hasher.update(
                format!("{:?}", (&harness.sources, &harness.defines, &harness.undefine)).as_bytes(),
            );
            hasher.update(format!("{:?}", harness.include).as_bytes());
            hasher.update(backend.identity_with(harness).ok()?.as_bytes());
        }
        let base = match &self.bisection.trusted {
            Trusted::GoodEnd(_) => self.plan.keys(self.plan.trusted())?,
            Trusted::Snapshots(snapshots) => {
                for snapshot in snapshots {
                    hasher.update(snapshot.to_string().as_bytes());
                }
                &[]
            }
        };
        if let Some(environment) = self.bisection.along.environment() {
            let id = hash_environment(&environment.axis, &environment.value);
            hasher.update(id.as_bytes());
        }
        for key in base.iter().chain(self.plan.keys(commit)?) {
            hasher.update(key.as_bytes());
        }
        Some(hasher.finalize().to_hex()[..40].to_owned())
    }
}
