//! Tasks in arrays: started once, waited for, tried again elsewhere, cancelled, taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::batch::{
    Failed, Plan, Planned, Report, plan_of, printed, read, result_of, words, write,
};
use super::{Array, ClusterError, Scheduler, Standing};

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
    /// What is to be done.
    pub work: W,
}

/// A task that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<R> {
    /// Its key.
    pub key: String,
    /// What was found.
    pub found: R,
}

/// The folder of one command's tasks, which no other process uses.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder at `path`.
    ///
    /// # Errors
    /// [`ClusterError::Watched`] if another process has it open; [`ClusterError::Folder`].
    pub fn open(path: &Path) -> Result<Folder, ClusterError> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| ClusterError::Folder { doing, path, source }
        };
        let results = path.join("results");
        fs::create_dir_all(&results).map_err(failed("make", &results))?;
        let name = path.join("lock");
        let lock = File::create(&name).map_err(failed("open", &name))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ClusterError::Watched { path: name }),
            Err(TryLockError::Error(source)) => Err(failed("lock", &name)(source)),
        }
    }

    fn results(&self) -> PathBuf {
        self.path.join("results")
    }

    /// The keys of `open` whose results are there, the first one last.
    fn ready<T>(&self, open: &BTreeMap<String, T>) -> Vec<String> {
        let entries = fs::read_dir(self.results()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let keys = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
        let mut keys: Vec<String> = keys.filter(|key| open.contains_key(key)).collect();
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys
    }
}

/// An array that was submitted.
struct Live {
    id: String,
    folder: PathBuf,
    /// The keys of its tasks, by number.
    keys: Vec<String>,
}

/// A task that was started and is waited for.
struct Open<W> {
    task: Task<W>,
    /// The array that it is in, and its number there; none if its result was there before.
    at: Option<(usize, usize)>,
    tries: usize,
    /// Since when the scheduler says that it has ended.
    ended: Option<Instant>,
}

/// Tasks of one command.
pub struct Crew<'s, W> {
    scheduler: Box<dyn Scheduler + 's>,
    folder: Folder,
    worker: Vec<OsString>,
    width: usize,
    interrupted: &'s dyn Fn() -> bool,
    live: Vec<Live>,
    open: BTreeMap<String, Open<W>>,
    /// Results that were seen and not yet taken.
    ready: Vec<String>,
    /// Where tasks wait or run that an earlier crew has started.
    left: BTreeMap<String, (usize, usize)>,
    /// The class of device on which all results were made.
    device: Option<String>,
    /// Nodes on which tasks ended without a result, or whose device is of another class.
    avoided: BTreeSet<String>,
    asked: Option<Instant>,
    silent_since: Option<Instant>,
    standing: BTreeMap<String, Standing>,
}

impl<'s, W: Serialize + DeserializeOwned + Clone> Crew<'s, W> {
    /// A crew in `folder` whose tasks `worker` makes, `width` at a time; it ends when `interrupted` says so.
    /// Takes over what an earlier crew has left there.
    ///
    /// # Errors
    /// As [`Scheduler::find`].
    pub fn open(
        folder: Folder,
        scheduler: Box<dyn Scheduler + 's>,
        worker: Vec<OsString>,
        width: usize,
        interrupted: &'s dyn Fn() -> bool,
    ) -> Result<Crew<'s, W>, ClusterError> {
        let mut crew = Crew {
            scheduler,
            folder,
            worker,
            width,
            interrupted,
            live: Vec::new(),
            open: BTreeMap::new(),
            ready: Vec::new(),
            left: BTreeMap::new(),
            device: None,
            avoided: BTreeSet::new(),
            asked: None,
            silent_since: None,
            standing: BTreeMap::new(),
        };
        crew.take_over()?;
        Ok(crew)
    }

    /// Learns of the arrays that an earlier crew has submitted.
    fn take_over(&mut self) -> Result<(), ClusterError> {
        for number in 0.. {
            let folder = self.array_folder(number);
            if !folder.exists() {
                break;
            }
            let plan: Option<Plan<W>> = read(&plan_of(&folder));
            let keys: Vec<String> =
                plan.iter().flat_map(|plan| &plan.tasks).map(|task| task.key.clone()).collect();
            let id = match (read(&folder.join("id.json")), &plan) {
                (Some(id), _) => id,
                // It ended between submitting the array and writing down its id.
                (None, Some(plan)) => self.scheduler.find(&plan.name)?.unwrap_or_default(),
                (None, None) => String::new(),
            };
            let standings = match id.as_str() {
                "" => Vec::new(),
                id => self.scheduler.poll(id, keys.len())?,
            };
            for (at, (key, standing)) in keys.iter().zip(standings).enumerate() {
                let ended = matches!(standing, None | Some(Standing::Ended { .. }));
                if !ended {
                    self.left.insert(key.clone(), (number, at));
                }
            }
            self.live.push(Live { id, folder, keys });
        }
        Ok(())
    }

    fn array_folder(&self, number: usize) -> PathBuf {
        self.folder.path.join(format!("array-{number}"))
    }

    /// Starts `tasks`, but for those whose results are there or that run already.
    ///
    /// # Errors
    /// As [`Scheduler::submit`]; [`ClusterError::Folder`].
    pub fn start(&mut self, tasks: Vec<Task<W>>) -> Result<(), ClusterError> {
        let mut new = Vec::new();
        for task in tasks {
            let is_there = result_of(&self.folder.results(), &task.key).exists();
            let at = self.left.remove(&task.key).filter(|_| !is_there);
            if !is_there && at.is_none() {
                new.push((task, 1));
                continue;
            }
            self.open.insert(task.key.clone(), Open { task, at, tries: 1, ended: None });
        }
        self.submit(new)
    }

    /// Submits one array of `tasks`, each with the number of the try that it is.
    fn submit(&mut self, tasks: Vec<(Task<W>, usize)>) -> Result<(), ClusterError> {
        if tasks.is_empty() {
            return Ok(());
        }
        let number = self.live.len();
        let folder = self.array_folder(number);
        let made = |source| ClusterError::Folder { doing: "make", path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(made)?;
        let own = self.folder.path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{own}-{number}");
        let planned = |(task, _): &(Task<W>, usize)| Planned {
            key: task.key.clone(),
            work: task.work.clone(),
        };
        let plan = Plan {
            name: name.clone(),
            results: self.folder.results(),
            tasks: tasks.iter().map(planned).collect(),
        };
        write(&plan_of(&folder), &plan)?;
        let without: Vec<String> = self.avoided.iter().cloned().collect();
        let id = self.scheduler.submit(&Array {
            name: &name,
            folder: &folder,
            tasks: tasks.len(),
            width: self.width,
            worker: &words(&self.worker, &folder),
            without: &without,
        })?;
        write(&folder.join("id.json"), &id)?;
        let keys = tasks.iter().map(|(task, _)| task.key.clone()).collect();
        for (at, (task, tries)) in tasks.into_iter().enumerate() {
            let open = Open { task, at: Some((number, at)), tries, ended: None };
            self.open.insert(open.task.key.clone(), open);
        }
        self.live.push(Live { id, folder, keys });
        self.asked = Some(Instant::now());
        Ok(())
    }

    /// Tasks that are waited for.
    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// How the tasks that are waited for stood when the scheduler was last asked: those that run, those that wait,
    /// and why one of them waits.
    pub fn standing(&self) -> (usize, usize, Option<&str>) {
        let running = |s: &&Standing| matches!(s, Standing::Running { .. });
        let reasons: Vec<&str> = (self.standing.values())
            .filter_map(|s| match s {
                Standing::Waiting { reason } => Some(reason.as_str()),
                _ => None,
            })
            .collect();
        (self.standing.values().filter(running).count(), reasons.len(), reasons.first().copied())
    }

    /// Waits for the next result; none if nothing is waited for. `glance` is called now and then.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] or [`ClusterError::Failed`] for a task that has none;
    /// [`ClusterError::Interrupted`] after everything was cancelled.
    pub fn wait<R: DeserializeOwned>(
        &mut self,
        glance: &mut dyn FnMut(&Crew<'s, W>),
    ) -> Result<Option<Done<R>>, ClusterError> {
        while !self.open.is_empty() {
            if (self.interrupted)() {
                self.cancel_all();
                return Err(ClusterError::Interrupted);
            }
            if self.ready.is_empty() {
                self.ready = self.folder.ready(&self.open);
            }
            while let Some(key) = self.ready.pop() {
                if let Some(done) = self.take(&key)? {
                    return Ok(Some(done));
                }
            }
            if self.asked.is_none_or(|asked| asked.elapsed() >= self.scheduler.interval()) {
                self.ask()?;
                self.asked = Some(Instant::now());
            }
            glance(self);
            self.scheduler.rest(GLANCE);
        }
        Ok(None)
    }

    /// The result of `key`; none if it has to be made again.
    fn take<R: DeserializeOwned>(&mut self, key: &str) -> Result<Option<Done<R>>, ClusterError> {
        let path = result_of(&self.folder.results(), key);
        let Some(open) = self.open.remove(key) else { return Ok(None) };
        self.standing.remove(key);
        let (node, reason) = match read::<Report<R>>(&path) {
            None => (String::new(), "a result that cannot be read".to_owned()),
            Some(Report { node, device, found: Ok(found) }) => {
                // The first finding decides; a task that failed says nothing of its device.
                let wanted = self.device.get_or_insert_with(|| device.clone());
                if *wanted == device {
                    return Ok(Some(Done { key: key.to_owned(), found }));
                }
                let reason = format!("{device} on {node}, where {wanted} was wanted");
                (node, reason)
            }
            Some(Report { node, found: Err(failed), .. }) if open.tries >= TRIES => {
                let _ = fs::remove_file(&path);
                let (what, Failed { message, hint }) = (open.task.what, failed);
                return Err(ClusterError::Failed { what, node, message, hint });
            }
            Some(Report { node, found: Err(failed), .. }) => (node, failed.message),
        };
        let gone = |source| ClusterError::Folder { doing: "remove", path: path.clone(), source };
        fs::remove_file(&path).map_err(gone)?;
        self.try_again(open, &node, reason)?;
        Ok(None)
    }

    /// Hands a task out again, elsewhere.
    fn try_again(&mut self, open: Open<W>, node: &str, reason: String) -> Result<(), ClusterError> {
        let Open { task, at, tries, .. } = open;
        if tries >= TRIES {
            let printed = at.map(|(array, number)| printed(&self.live[array].folder, number));
            let printed = printed.unwrap_or_default();
            return Err(ClusterError::Unavailable { what: task.what, tries, reason, printed });
        }
        if !node.is_empty() {
            self.avoided.insert(node.to_owned());
        }
        let again = vec![(task, tries + 1)];
        match self.submit(again.clone()) {
            // There may be no other node.
            Err(ClusterError::Refused { .. }) if !self.avoided.is_empty() => {
                self.avoided.clear();
                self.submit(again)
            }
            other => other,
        }
    }

    /// Asks the scheduler how tasks stand, and hands those out again that ended without a result.
    fn ask(&mut self) -> Result<(), ClusterError> {
        let places = self.open.values().filter_map(|open| open.at);
        let arrays: BTreeSet<usize> = places.map(|(array, _)| array).collect();
        for array in arrays {
            let (id, tasks) = (self.live[array].id.clone(), self.live[array].keys.len());
            let found = match self.scheduler.poll(&id, tasks) {
                Err(error @ ClusterError::Silent { .. }) => {
                    let since = *self.silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    continue;
                }
                found => found?,
            };
            self.silent_since = None;
            self.take_in(array, found)?;
        }
        Ok(())
    }

    fn take_in(&mut self, array: usize, found: Vec<Option<Standing>>) -> Result<(), ClusterError> {
        let mut lost = Vec::new();
        for open in self.open.values_mut() {
            let Some((_, number)) = open.at.filter(|at| at.0 == array) else { continue };
            let standing = found.get(number).cloned().flatten().unwrap_or(Standing::Ended {
                state: "no trace of it".to_owned(),
                reason: String::new(),
                node: String::new(),
            });
            match &standing {
                Standing::Ended { state, reason, node } => {
                    let since = *open.ended.get_or_insert_with(Instant::now);
                    if since.elapsed() >= SETTLING.min(self.scheduler.interval() * 2) {
                        lost.push((open.task.key.clone(), told(state, reason), node.clone()));
                    }
                }
                _ => open.ended = None,
            }
            self.standing.insert(open.task.key.clone(), standing);
        }
        for (key, reason, node) in lost {
            if result_of(&self.folder.results(), &key).exists() {
                continue;
            }
            if let Some(open) = self.open.remove(&key) {
                self.try_again(open, &node, reason)?;
            }
        }
        Ok(())
    }

    /// Ends the tasks with these keys; nobody waits for them any more.
    pub fn cancel(&mut self, keys: &[String]) {
        let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for key in keys {
            self.standing.remove(key);
            if let Some((array, number)) = self.open.remove(key).and_then(|open| open.at) {
                places.entry(array).or_default().push(number);
            }
        }
        for (array, tasks) in places {
            // What is not cancelled ends by itself, and its result is kept.
            let _ = self.scheduler.cancel(&self.live[array].id, &tasks);
        }
    }

    fn cancel_all(&mut self) {
        let keys: Vec<String> = self.open.keys().cloned().collect();
        self.cancel(&keys);
        for (array, number) in std::mem::take(&mut self.left).into_values() {
            let _ = self.scheduler.cancel(&self.live[array].id, &[number]);
        }
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

fn told(state: &str, reason: &str) -> String {
    match reason {
        "" | "None" => state.to_owned(),
        reason => format!("{state} ({reason})"),
    }
}
