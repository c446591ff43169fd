//! Tasks in arrays: started once, waited for, tried again elsewhere, cancelled, taken over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::folder::{Folder, task_folder_error};
use super::task_array::{
    ArrayPlan, ArrayTask, TaskFailure, TaskReport, array_plan_path, read_shared_value,
    read_task_stderr, task_command_words, task_result_path, write_shared_value,
};
use super::{Array, ClusterError, Scheduler, TaskStanding};

/// How often a task is tried.
const TRIES: usize = 3;
/// How long a result may take to show in the shared folder when its task has ended.
const SETTLING: Duration = Duration::from_secs(10);
/// How long a scheduler may be silent.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the folder is looked into.
const GLANCE: Duration = Duration::from_millis(200);

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<W> {
    /// Names it, and its result: letters, digits and `-`.
    pub key: String,
    /// The task for people, such as `the test of 396b00e`.
    pub what: String,
    /// The work.
    pub work: W,
    /// The key of a spare task with a part of the work. While it runs, this task waits.
    pub after: Option<String>,
}

/// A finished task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<R> {
    pub key: String,
    /// Its finding.
    pub found: R,
}

/// A submitted array.
pub(super) struct Live {
    pub id: String,
    pub folder: PathBuf,
    /// The keys of its tasks, by number.
    pub keys: Vec<String>,
}

/// The array of a task, and its number there.
pub(super) type ArrayPosition = (usize, usize);

/// A started task without a result yet.
pub(super) struct Open<W> {
    task: Task<W>,
    /// Where it is; none if its result was there before.
    at: Option<ArrayPosition>,
    tries: usize,
    /// Since when it has ended, by the scheduler's word.
    ended: Option<Instant>,
    /// Whether an earlier task pool has started it.
    is_adopted: bool,
}

/// Tasks of one command.
pub struct TaskPool<'s, W> {
    pub(super) scheduler: Box<dyn Scheduler + 's>,
    pub(super) folder: Folder,
    worker: Vec<OsString>,
    pub(super) width: usize,
    interrupted: &'s dyn Fn() -> bool,
    pub(super) live: Vec<Live>,
    pub(super) open: BTreeMap<String, Open<W>>,
    /// Tasks outside of arrays: an array takes a limited number.
    pub(super) queue: VecDeque<Task<W>>,
    /// Tasks held until a running spare task ends.
    pub(super) held: Vec<Task<W>>,
    /// Where spare tasks wait or run.
    pub(super) spare: BTreeMap<String, ArrayPosition>,
    /// The spare tasks of this task pool.
    pub(super) spared: BTreeSet<String>,
    /// Seen results, not yet taken.
    ready: Vec<String>,
    /// The places of unfinished tasks of an earlier task pool.
    pub(super) left: BTreeMap<String, ArrayPosition>,
    /// The device class of all results.
    device: Option<String>,
    /// Nodes with failed tasks, or with a device of another class.
    avoided: BTreeSet<String>,
    asked: Option<Instant>,
    silent_since: Option<Instant>,
    standing: BTreeMap<String, TaskStanding>,
}

impl<'s, W: Serialize + DeserializeOwned + Clone> TaskPool<'s, W> {
    /// A task pool in `folder`. `worker` makes its tasks, `width` at a time. It ends once `interrupted` returns true.
    /// Takes over the tasks and results of an earlier task pool there.
    ///
    /// # Errors
    /// As [`Scheduler::find`]. A silent scheduler is asked again for a while.
    pub fn open(
        folder: Folder,
        scheduler: Box<dyn Scheduler + 's>,
        worker: Vec<OsString>,
        width: usize,
        interrupted: &'s dyn Fn() -> bool,
    ) -> Result<TaskPool<'s, W>, ClusterError> {
        let mut task_pool = TaskPool {
            scheduler,
            folder,
            worker,
            width,
            interrupted,
            live: Vec::new(),
            open: BTreeMap::new(),
            queue: VecDeque::new(),
            held: Vec::new(),
            spare: BTreeMap::new(),
            spared: BTreeSet::new(),
            ready: Vec::new(),
            left: BTreeMap::new(),
            device: None,
            avoided: BTreeSet::new(),
            asked: None,
            silent_since: None,
            standing: BTreeMap::new(),
        };
        task_pool.take_over()?;
        Ok(task_pool)
    }

    /// Learns of the arrays of an earlier task pool.
    fn take_over(&mut self) -> Result<(), ClusterError> {
        for number in 0.. {
            let folder = self.folder.array(number);
            if !folder.exists() {
                break;
            }
            let plan: Option<ArrayPlan<W>> = read_shared_value(&array_plan_path(&folder));
            let keys: Vec<String> =
                plan.iter().flat_map(|plan| &plan.tasks).map(|task| task.key.clone()).collect();
            let id = match (read_shared_value(&folder.join("id.json")), &plan) {
                (Some(id), _) => id,
                // It ended between submitting the array and writing down its id.
                (None, Some(plan)) => self.patiently(|s| s.find(&plan.name))?.unwrap_or_default(),
                (None, None) => String::new(),
            };
            let standings = match id.as_str() {
                "" => Vec::new(),
                id => self.patiently(|s| s.poll(id, keys.len()))?,
            };
            for (task_number, (key, standing)) in keys.iter().zip(standings).enumerate() {
                if standing.is_some_and(|standing| !standing.is_over()) {
                    self.left.insert(key.clone(), (number, task_number));
                }
            }
            self.live.push(Live { id, folder, keys });
        }
        Ok(())
    }

    /// The scheduler's answer to `ask`. Asks a silent one again for a while.
    fn patiently<T>(
        &mut self,
        ask: impl Fn(&mut dyn Scheduler) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        let since = Instant::now();
        loop {
            match ask(&mut *self.scheduler) {
                Err(error @ ClusterError::Silent { .. }) => self.bide(error, since)?,
                answer => return answer,
            }
        }
    }

    /// Lets time pass after `error`, unless it is time to give up.
    fn bide(&mut self, error: ClusterError, since: Instant) -> Result<(), ClusterError> {
        if (self.interrupted)() {
            return Err(ClusterError::Interrupted { cancelled: false });
        }
        if since.elapsed() > PATIENCE {
            return Err(error);
        }
        let time = self.scheduler.interval();
        self.scheduler.pause_for(time);
        Ok(())
    }

    /// Starts `tasks`, but for running ones and those with results. They take the place of spare tasks.
    ///
    /// # Errors
    /// As [`Scheduler::submit`]; [`ClusterError::Folder`].
    pub fn start(&mut self, tasks: Vec<Task<W>>) -> Result<(), ClusterError> {
        let spare = self.make_room(&tasks);
        for task in tasks {
            let is_there = task_result_path(&self.folder.results(), &task.key).exists();
            let at = self.left.remove(&task.key).filter(|_| !is_there);
            if !is_there && at.is_none() {
                if task.after.as_ref().is_some_and(|key| spare.contains(key)) {
                    self.held.push(task)
                } else {
                    self.queue.push_back(task)
                }
                continue;
            }
            self.open.insert(
                task.key.clone(),
                Open { task, at, tries: 1, ended: None, is_adopted: true },
            );
        }
        self.submit_queue()
    }

    /// Submits the queue. If one array does not take all of it, the rest waits for its end: tasks of two arrays would
    /// exceed the width together.
    fn submit_queue(&mut self) -> Result<(), ClusterError> {
        while !self.queue.is_empty() {
            let size = self.queue.len().min(self.scheduler.most().max(1));
            let under_way = self.open.values().filter(|open_task| open_task.at.is_some()).count();
            if under_way > 0 && under_way + size > self.width {
                break;
            }
            let tasks: Vec<Task<W>> = self.queue.drain(..size).collect();
            self.submit(tasks, 1)?;
        }
        Ok(())
    }

    /// Submits one array of `tasks`, each of them the try with this number.
    fn submit(&mut self, tasks: Vec<Task<W>>, tries: usize) -> Result<(), ClusterError> {
        let number = self.array(&tasks, self.width, false)?;
        for (task_number, task) in tasks.into_iter().enumerate() {
            let at = Some((number, task_number));
            let open_task = Open { task, at, tries, ended: None, is_adopted: false };
            self.open.insert(open_task.task.key.clone(), open_task);
        }
        self.asked = Some(Instant::now());
        Ok(())
    }

    /// Submits an array of `tasks`; returns its number.
    pub(super) fn array(
        &mut self,
        tasks: &[Task<W>],
        width: usize,
        is_spare: bool,
    ) -> Result<usize, ClusterError> {
        let number = self.live.len();
        let folder = self.folder.make_array(number)?;
        let run_name = self.folder.path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{run_name}-{number}{}", if is_spare { "-spare" } else { "" });
        let planned_tasks =
            tasks.iter().map(|task| ArrayTask { key: task.key.clone(), work: task.work.clone() });
        let plan = ArrayPlan {
            name: name.clone(),
            results: self.folder.results(),
            tasks: planned_tasks.collect(),
        };
        write_shared_value(&array_plan_path(&folder), &plan)?;
        let worker = task_command_words(&self.worker, &folder);
        let without = self.avoided.clone();
        let array = Array {
            name: &name,
            folder: &folder,
            tasks: tasks.len(),
            width,
            worker: &worker,
            without: &without.into_iter().collect::<Vec<_>>(),
            is_spare,
        };
        let id = if is_spare { self.scheduler.submit(&array)? } else { self.submitted(&array)? };
        write_shared_value(&folder.join("id.json"), &id)?;
        let keys = tasks.iter().map(|task| task.key.clone()).collect();
        self.live.push(Live { id, folder, keys });
        Ok(number)
    }

    /// Submits `array` once, however long the scheduler is silent. Returns its id.
    fn submitted(&mut self, array: &Array<'_>) -> Result<String, ClusterError> {
        let since = Instant::now();
        loop {
            match self.scheduler.submit(array) {
                Err(error @ ClusterError::Silent { .. }) => self.bide(error, since)?,
                answer => return answer,
            }
            // It may have taken the array without saying so.
            if let Some(id) = self.patiently(|s| s.find(array.name))? {
                return Ok(id);
            }
        }
    }

    /// The number of tasks without a result.
    pub fn waiting(&self) -> usize {
        self.open.len() + self.queue.len() + self.held.len()
    }

    /// How open tasks stand by the scheduler's last answer: how many run, how many wait, and why one of them waits.
    pub fn standing(&self) -> (usize, usize, Option<&str>) {
        let mut running = 0;
        let mut reasons = Vec::new();
        for standing in self.standing.values() {
            match standing {
                TaskStanding::Running { .. } => running += 1,
                TaskStanding::Waiting { reason } => reasons.push(reason.as_str()),
                _ => {}
            }
        }
        let waiting = reasons.len() + self.queue.len() + self.held.len();
        (running, waiting, reasons.first().copied())
    }

    /// Waits for the next result; none if no task is open. Calls `glance` now and then.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`], [`ClusterError::Cancelled`] or [`ClusterError::Failed`] for a task without a
    /// result; [`ClusterError::Interrupted`]. Open tasks are cancelled then, if the scheduler answers.
    pub fn wait<R: DeserializeOwned>(
        &mut self,
        glance: &mut dyn FnMut(&TaskPool<'s, W>),
    ) -> Result<Option<Done<R>>, ClusterError> {
        let next = self.next(glance);
        if let Err(error) = &next
            && !matches!(error, ClusterError::Silent { .. })
        {
            let cancelled = self.cancel_all();
            if matches!(error, ClusterError::Interrupted { .. }) {
                return Err(ClusterError::Interrupted { cancelled });
            }
        }
        next
    }

    fn next<R: DeserializeOwned>(
        &mut self,
        glance: &mut dyn FnMut(&TaskPool<'s, W>),
    ) -> Result<Option<Done<R>>, ClusterError> {
        while self.waiting() > 0 {
            if (self.interrupted)() {
                return Err(ClusterError::Interrupted { cancelled: false });
            }
            if self.ready.is_empty() {
                let result_keys = self.folder.there();
                self.spare.retain(|key, _| !result_keys.contains(key));
                self.ready = result_keys
                    .into_iter()
                    .rev()
                    .filter(|key| self.open.contains_key(key))
                    .collect();
            }
            while let Some(key) = self.ready.pop() {
                if let Some(done_task) = self.take_result(&key)? {
                    return Ok(Some(done_task));
                }
            }
            self.release();
            self.submit_queue()?;
            if self.asked.is_none_or(|last_asked| last_asked.elapsed() >= self.scheduler.interval())
            {
                self.poll_scheduler()?;
                self.asked = Some(Instant::now());
            }
            glance(self);
            self.scheduler.pause_for(GLANCE);
        }
        Ok(None)
    }

    /// The result of `key`; none if it has to be made again.
    fn take_result<R: DeserializeOwned>(
        &mut self,
        key: &str,
    ) -> Result<Option<Done<R>>, ClusterError> {
        let path = task_result_path(&self.folder.results(), key);
        let Some(open_task) = self.open.remove(key) else { return Ok(None) };
        self.standing.remove(key);
        let mut report: Option<TaskReport<R>> = read_shared_value(&path);
        if report.is_none() {
            // A handle of a file server's may be stale for a moment.
            self.scheduler.pause_for(GLANCE);
            report = read_shared_value(&path);
        }
        let (node, reason) = match report {
            None => (String::new(), "a result that cannot be read".to_owned()),
            Some(TaskReport { node, device, found: Ok(found) }) => {
                // The first finding decides. A failed task says nothing of its device.
                let wanted_device = self.device.get_or_insert_with(|| device.clone());
                if *wanted_device == device {
                    return Ok(Some(Done { key: key.to_owned(), found }));
                }
                let reason = format!("{device} on {node}, where {wanted_device} was wanted");
                (node, reason)
            }
            Some(TaskReport { node, found: Err(task_failure), .. }) if open_task.tries >= TRIES => {
                let _ = fs::remove_file(&path);
                let (what, TaskFailure { message, hint }) = (open_task.task.what, task_failure);
                return Err(ClusterError::Failed { what, node, message, hint });
            }
            Some(TaskReport { node, found: Err(task_failure), .. }) => (node, task_failure.message),
        };
        fs::remove_file(&path).map_err(task_folder_error("remove", &path))?;
        self.try_again(open_task, &node, reason)?;
        Ok(None)
    }

    /// Hands a task out again, elsewhere.
    fn try_again(
        &mut self,
        open_task: Open<W>,
        node: &str,
        reason: String,
    ) -> Result<(), ClusterError> {
        let Open { task, at, tries, .. } = open_task;
        if tries >= TRIES {
            let printed =
                at.map(|(array, number)| read_task_stderr(&self.live[array].folder, number));
            let printed = printed.unwrap_or_default();
            return Err(ClusterError::Unavailable { what: task.what, tries, reason, printed });
        }
        if !node.is_empty() {
            self.avoided.insert(node.to_owned());
        }
        let same_tasks = vec![task];
        match self.submit(same_tasks.clone(), tries + 1) {
            // There may be no other node.
            Err(ClusterError::Refused { .. }) if !self.avoided.is_empty() => {
                self.avoided.clear();
                self.submit(same_tasks, tries + 1)
            }
            other_result => other_result,
        }
    }

    /// Asks the scheduler how tasks stand. Tasks ended without a result go out again.
    fn poll_scheduler(&mut self) -> Result<(), ClusterError> {
        let places = self.open.values().filter_map(|open_task| open_task.at);
        let places = places.chain(self.spare.values().copied());
        let arrays: BTreeSet<usize> = places.map(|(array, _)| array).collect();
        for array in arrays {
            let id = self.live[array].id.clone();
            let tasks = self.live[array].keys.len();
            let array_standings = match self.scheduler.poll(&id, tasks) {
                Err(error @ ClusterError::Silent { .. }) => {
                    let since = *self.silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    continue;
                }
                poll_result => poll_result?,
            };
            self.silent_since = None;
            self.take_in_spare(array, &array_standings);
            self.take_in(array, &array_standings)?;
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        array: usize,
        array_standings: &[Option<TaskStanding>],
    ) -> Result<(), ClusterError> {
        let settling = SETTLING.min(self.scheduler.interval() * 2);
        let mut lost = Vec::new();
        for open_task in self.open.values_mut() {
            let Some((_, number)) = open_task.at.filter(|place| place.0 == array) else { continue };
            let standing =
                array_standings.get(number).cloned().flatten().unwrap_or(TaskStanding::Ended {
                    state: "no trace of it".to_owned(),
                    reason: String::new(),
                    node: String::new(),
                });
            if standing.is_over() {
                let since = *open_task.ended.get_or_insert_with(Instant::now);
                if since.elapsed() >= settling {
                    lost.push((open_task.task.key.clone(), standing.clone()));
                }
            } else {
                open_task.ended = None
            }
            self.standing.insert(open_task.task.key.clone(), standing);
        }
        for (key, standing) in lost {
            if task_result_path(&self.folder.results(), &key).exists() {
                continue;
            }
            let Some(open_task) = self.open.remove(&key) else { continue };
            self.standing.remove(&key);
            match standing {
                TaskStanding::Ended { state, reason, node } => {
                    // A scheduler may keep it for a later try of its own.
                    self.cancel_at(open_task.at.into_iter().collect());
                    self.try_again(open_task, &node, describe_task_state(&state, &reason))?;
                }
                // The earlier task pool has cancelled it at its end.
                _ if open_task.is_adopted => {
                    self.try_again(open_task, "", "CANCELLED".to_owned())?
                }
                _ => return Err(ClusterError::Cancelled { what: open_task.task.what }),
            }
        }
        Ok(())
    }

    /// Ends the tasks with these keys; nobody waits for them any more.
    pub fn cancel(&mut self, keys: &[String]) {
        let mut places = Vec::new();
        for key in keys {
            self.standing.remove(key);
            places.extend(self.open.remove(key).and_then(|open_task| open_task.at));
        }
        self.queue.retain(|task| !keys.contains(&task.key));
        self.held.retain(|task| !keys.contains(&task.key));
        // A task beyond cancelling ends by itself, and its result is kept.
        self.cancel_at(places);
    }

    /// Ends the tasks in these places. False if the scheduler fails to.
    pub(super) fn cancel_at(&mut self, places: Vec<ArrayPosition>) -> bool {
        let mut arrays: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (array, number) in places {
            arrays.entry(array).or_default().push(number);
        }
        let mut all_cancelled = true;
        for (array, tasks) in arrays {
            all_cancelled &= self.scheduler.cancel(&self.live[array].id, &tasks).is_ok();
        }
        all_cancelled
    }

    /// Ends all tasks. False if the scheduler fails to.
    fn cancel_all(&mut self) -> bool {
        self.queue.clear();
        self.held.clear();
        self.standing.clear();
        let open_places =
            std::mem::take(&mut self.open).into_values().filter_map(|open_task| open_task.at);
        let other_places = [&mut self.left, &mut self.spare].map(std::mem::take);
        let places =
            open_places.chain(other_places.into_iter().flat_map(BTreeMap::into_values)).collect();
        self.cancel_at(places)
    }

    /// Ends everything, and removes the folder: the command has its answer.
    pub fn finish(mut self) {
        self.cancel_all();
        let _ = fs::remove_dir_all(self.folder());
    }

    /// The folder of the command's tasks.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }
}

fn describe_task_state(state: &str, reason: &str) -> String {
    match reason {
        "" | "None" => state.to_owned(),
        reason => format!("{state} ({reason})"),
    }
}
