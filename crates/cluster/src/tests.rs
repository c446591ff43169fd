use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::*;

/// What becomes of a try.
#[derive(Clone, Copy)]
enum Fate {
    /// It is made on a device of this class.
    Made(&'static str),
    /// The node cannot make it.
    Failed(&'static str),
    /// It ends in this state, without a result.
    Lost(&'static str, &'static str),
    /// Somebody cancels it.
    Cancelled,
    /// It never ends.
    Endless,
}

/// A cluster in memory: time passes when somebody rests, and then whatever runs ends.
#[derive(Default)]
struct World {
    nodes: Vec<String>,
    /// By task: the fates of its tries, in turn; made on `cpu` where nothing is said.
    fates: BTreeMap<String, Vec<Fate>>,
    arrays: Vec<Jobs>,
    /// How often each task was made.
    made: BTreeMap<String, usize>,
    polls: usize,
    most: usize,
    excluded: Vec<Vec<String>>,
    /// How many questions from now on it does not answer.
    silent: usize,
    /// Whether it takes the next array and does not say so.
    is_mute: bool,
    /// The most tasks of an array.
    size: Option<usize>,
}

struct Jobs {
    name: String,
    folder: PathBuf,
    width: usize,
    without: BTreeSet<String>,
    tasks: Vec<TaskStanding>,
}

impl World {
    fn answers(&mut self) -> Result<(), ClusterError> {
        let is_silent = self.silent > 0;
        self.silent = self.silent.saturating_sub(1);
        let words = "Unable to contact slurm controller".to_owned();
        if is_silent { Err(ClusterError::Silent { scheduler: "fake", words }) } else { Ok(()) }
    }

    fn pass(&mut self) {
        for array in 0..self.arrays.len() {
            for number in 0..self.arrays[array].tasks.len() {
                if let TaskStanding::Running { node } = &self.arrays[array].tasks[number] {
                    let node = node.clone();
                    self.end(array, number, &node);
                }
            }
            self.begin(array);
        }
        let runs = |s: &&TaskStanding| matches!(s, TaskStanding::Running { .. });
        let all = self.arrays.iter().flat_map(|jobs| &jobs.tasks).filter(runs).count();
        self.most = self.most.max(all);
    }

    fn begin(&mut self, array: usize) {
        let jobs = &mut self.arrays[array];
        let free: Vec<&String> =
            self.nodes.iter().filter(|node| !jobs.without.contains(*node)).collect();
        let running = |s: &&TaskStanding| matches!(s, TaskStanding::Running { .. });
        let mut running = jobs.tasks.iter().filter(running).count();
        for (number, task) in jobs.tasks.iter_mut().enumerate() {
            if running < jobs.width
                && matches!(task, TaskStanding::Waiting { .. })
                && let Some(node) = free.get(number % free.len().max(1))
            {
                *task = TaskStanding::Running { node: (*node).clone() };
                running += 1;
            }
        }
    }

    fn end(&mut self, array: usize, number: usize, node: &str) {
        let mut key = String::new();
        let folder = self.arrays[array].folder.clone();
        let mut fate = Fate::Made("cpu");
        let fates = &mut self.fates;
        let made = perform_array_task(&folder, number, |work: String| {
            key.clone_from(&work);
            fate = match fates.get_mut(&work) {
                Some(fates) if !fates.is_empty() => fates.remove(0),
                _ => Fate::Made("cpu"),
            };
            let device = if let Fate::Made(device) = fate { device } else { "" };
            let found = match fate {
                Fate::Failed(message) => {
                    Err(TaskFailure { message: message.to_owned(), hint: None })
                }
                _ => Ok(format!("found {work}")),
            };
            TaskReport { node: node.to_owned(), device: device.to_owned(), found }
        });
        made.unwrap();
        let result = task_array::task_result_path(&folder.parent().unwrap().join("results"), &key);
        let (state, reason) = match fate {
            Fate::Cancelled => {
                std::fs::remove_file(&result).unwrap();
                self.arrays[array].tasks[number] = TaskStanding::Cancelled;
                return;
            }
            Fate::Endless => {
                std::fs::remove_file(&result).unwrap();
                self.fates.get_mut(&key).unwrap().push(Fate::Endless);
                return;
            }
            Fate::Lost(state, reason) => {
                std::fs::remove_file(&result).unwrap();
                (state, reason)
            }
            _ => ("COMPLETED", "None"),
        };
        *self.made.entry(key).or_default() += 1;
        let state = state.to_owned();
        let reason = reason.to_owned();
        let node = node.to_owned();
        self.arrays[array].tasks[number] = TaskStanding::Ended { state, reason, node };
    }
}

struct Fake(Rc<RefCell<World>>);

impl Scheduler for Fake {
    fn submit(&mut self, array: &Array<'_>) -> Result<String, ClusterError> {
        let mut world = self.0.borrow_mut();
        world.answers()?;
        if world.nodes.iter().all(|node| array.without.contains(node)) {
            let words = "Requested node configuration is not available".to_owned();
            return Err(ClusterError::Refused { scheduler: "fake", words });
        }
        let waiting = TaskStanding::Waiting { reason: "Priority".to_owned() };
        world.excluded.push(array.without.to_vec());
        world.arrays.push(Jobs {
            name: array.name.to_owned(),
            folder: array.folder.to_owned(),
            width: array.width,
            without: array.without.iter().cloned().collect(),
            tasks: vec![waiting; array.tasks],
        });
        if std::mem::take(&mut world.is_mute) {
            world.silent = 1;
            world.answers()?;
        }
        Ok((world.arrays.len() - 1).to_string())
    }

    fn find(&mut self, name: &str) -> Result<Option<String>, ClusterError> {
        self.0.borrow_mut().answers()?;
        let place = self.0.borrow().arrays.iter().position(|jobs| jobs.name == name);
        Ok(place.map(|place| place.to_string()))
    }

    fn poll(&mut self, id: &str, _: usize) -> Result<Vec<Option<TaskStanding>>, ClusterError> {
        let mut world = self.0.borrow_mut();
        world.polls += 1;
        world.answers()?;
        let jobs = id.parse::<usize>().ok().and_then(|id| world.arrays.get(id));
        Ok(jobs.map(|jobs| jobs.tasks.iter().cloned().map(Some).collect()).unwrap_or_default())
    }

    fn cancel(&mut self, id: &str, tasks: &[usize]) -> Result<(), ClusterError> {
        let mut world = self.0.borrow_mut();
        world.answers()?;
        for &task in tasks {
            let standing = &mut world.arrays[id.parse::<usize>().unwrap()].tasks[task];
            if !standing.is_over() {
                *standing = TaskStanding::Cancelled;
            }
        }
        Ok(())
    }

    fn most(&mut self) -> usize {
        self.0.borrow().size.unwrap_or(usize::MAX)
    }

    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    fn pause_for(&mut self, _: Duration) {
        self.0.borrow_mut().pass();
    }
}

fn world(nodes: usize) -> Rc<RefCell<World>> {
    let nodes = (0..nodes).map(|number| format!("n{number}")).collect();
    Rc::new(RefCell::new(World { nodes, ..World::default() }))
}

fn task_pool<'s>(
    folder: &Path,
    world: &Rc<RefCell<World>>,
    width: usize,
    interrupted: &'s dyn Fn() -> bool,
) -> TaskPool<'s, String> {
    let folder = Folder::open(&folder.join("replay-1")).unwrap();
    let worker = vec![OsString::from("replay")];
    TaskPool::open(folder, Box::new(Fake(world.clone())), worker, width, interrupted).unwrap()
}

fn task(key: &str) -> Task<String> {
    let what = format!("the test of {key}");
    Task { key: key.to_owned(), what, work: key.to_owned(), after: None }
}

fn never() -> bool {
    false
}

/// What all tasks that are waited for have found.
fn all(task_pool: &mut TaskPool<'_, String>) -> Result<BTreeMap<String, String>, ClusterError> {
    let mut found = BTreeMap::new();
    while let Some(done) = task_pool.wait::<String>(&mut |_| {})? {
        assert!(found.insert(done.key, done.found).is_none(), "each result is told once");
    }
    Ok(found)
}

#[test]
fn a_thousand_workers_make_thousands_of_tasks_in_one_array_once_each() {
    // A disk takes seconds to make thousands of files durable.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let world = world(1000);
    let mut task_pool = task_pool(folder.path(), &world, 1000, &never);
    let keys: Vec<String> = (0..2500).map(|number| format!("t{number}")).collect();
    task_pool.start(keys.iter().map(|key| task(key)).collect()).unwrap();
    let found = all(&mut task_pool).unwrap();
    assert_eq!(found.len(), keys.len());
    assert!(found.iter().all(|(key, found)| *found == format!("found {key}")));
    let world = world.borrow();
    assert_eq!((world.arrays.len(), world.most), (1, 1000));
    assert!(world.made.values().all(|times| *times == 1));
    assert!(world.polls <= 2500, "{} questions", world.polls);
    task_pool.finish();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder goes");
}

#[test]
fn a_task_whose_node_died_is_made_on_another_node() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    let lost = Fate::Lost("NODE_FAIL", "NodeDown");
    world.borrow_mut().fates.insert("a".to_owned(), vec![lost, Fate::Failed("no space left")]);
    let mut task_pool = task_pool(folder.path(), &world, 4, &never);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    let found = all(&mut task_pool).unwrap();
    assert_eq!(found.into_values().collect::<Vec<_>>(), ["found a", "found b"]);
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(world.borrow().excluded[..2], [own(&[]), own(&["n0"])]);
}

#[test]
fn a_task_without_a_result_is_unavailable_and_never_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(5);
    let lost = Fate::Lost("TIMEOUT", "TimeLimit");
    world.borrow_mut().fates.insert("a".to_owned(), vec![lost; 3]);
    let mut failing = task_pool(folder.path(), &world, 4, &never);
    failing.start(vec![task("a")]).unwrap();
    let error = all(&mut failing).unwrap_err();
    insta::assert_snapshot!(error, @"the test of a is unavailable: 3 tries ended without a result, the last one with TIMEOUT (TimeLimit)");
    insta::assert_snapshot!(error.hint().unwrap(), @"the queue's time limit ended it, which is no finding: --cluster-arg=--time=MINUTES asks for more");
    drop(failing);
    let lost = Fate::Lost("NODE_FAIL", "NodeDown");
    world.borrow_mut().fates.insert("a".to_owned(), vec![lost; 3]);
    let mut failing = task_pool(folder.path(), &world, 4, &never);
    failing.start(vec![task("a")]).unwrap();
    let error = all(&mut failing).unwrap_err();
    insta::assert_snapshot!(error.hint().unwrap(), @"its nodes may not see the folder that --cluster-dir names, or may not start this program; what was done is kept, and the same command goes on");
    drop(failing);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Failed("no compiler"); 3]);
    let mut failing = task_pool(folder.path(), &world, 4, &never);
    failing.start(vec![task("b")]).unwrap();
    insta::assert_snapshot!(all(&mut failing).unwrap_err(), @"the test of b could not be made on n2: no compiler");
}

#[test]
fn what_an_earlier_crew_has_started_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    let mut first = task_pool(folder.path(), &world, 2, &never);
    let tasks = || ["a", "b", "c", "d"].map(task).to_vec();
    first.start(tasks()).unwrap();
    first.wait::<String>(&mut |_| {}).unwrap().unwrap();
    drop(first);
    // It was ended between submitting an array and writing down its id.
    std::fs::remove_file(folder.path().join("replay-1/array-0/id.json")).unwrap();
    let mut second = task_pool(folder.path(), &world, 2, &never);
    second.start(tasks()).unwrap();
    assert_eq!(all(&mut second).unwrap().len(), 4);
    let world = world.borrow();
    assert_eq!(world.arrays.len(), 1);
    assert!(world.made.values().all(|times| *times == 1));
}

#[test]
fn results_of_two_classes_of_devices_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(3);
    world.borrow_mut().fates.insert("a".to_owned(), vec![Fate::Made("sm_90")]);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Made("sm_80"), Fate::Made("sm_90")]);
    let mut task_pool = task_pool(folder.path(), &world, 2, &never);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(all(&mut task_pool).unwrap().len(), 2);
    let world = world.borrow();
    assert_eq!(world.made["b"], 2);
    assert_eq!(world.excluded[1], ["n1"]);
}

#[test]
fn results_of_two_classes_are_not_mixed_by_the_crew_that_takes_over_either() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(3);
    world.borrow_mut().fates.insert("a".to_owned(), vec![Fate::Made("sm_90")]);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Made("sm_80"), Fate::Made("sm_90")]);
    let mut first = task_pool(folder.path(), &world, 2, &never);
    first.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(first.wait::<String>(&mut |_| {}).unwrap().unwrap().key, "a");
    drop(first);
    let mut second = task_pool(folder.path(), &world, 2, &never);
    second.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(all(&mut second).unwrap().len(), 2);
    assert_eq!((world.borrow().made["a"], world.borrow().made["b"]), (1, 2));
}

#[test]
fn a_task_that_fails_first_does_not_decide_what_device_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(3);
    world.borrow_mut().fates.insert("a".to_owned(), vec![Fate::Failed("no space left")]);
    let mut task_pool = task_pool(folder.path(), &world, 2, &never);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(all(&mut task_pool).unwrap().len(), 2);
    assert_eq!(world.borrow().made["b"], 1);
}

#[test]
fn a_result_that_cannot_be_read_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(3);
    let mut task_pool = task_pool(folder.path(), &world, 2, &never);
    std::fs::write(folder.path().join("replay-1/results/a.json"), "{").unwrap();
    task_pool.start(vec![task("a")]).unwrap();
    assert_eq!(all(&mut task_pool).unwrap()["a"], "found a");
    assert_eq!(world.borrow().made["a"], 1);
}

#[test]
fn an_interruption_cancels_what_is_under_way_and_keeps_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Endless]);
    let is_over = Cell::new(false);
    let interrupted = || is_over.get();
    let mut task_pool = task_pool(folder.path(), &world, 2, &interrupted);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    task_pool.wait::<String>(&mut |_| {}).unwrap().unwrap();
    is_over.set(true);
    let error = task_pool.wait::<String>(&mut |_| {}).unwrap_err();
    insta::assert_snapshot!(error, @"interrupted: what was under way on the cluster is cancelled, what was done is kept");
    assert!(world.borrow().arrays[0].tasks.iter().all(TaskStanding::is_over));
    assert!(folder.path().join("replay-1/results/a.json").exists());
}

#[test]
fn a_test_that_nobody_needs_any_more_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Endless]);
    let mut task_pool = task_pool(folder.path(), &world, 2, &never);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    task_pool.wait::<String>(&mut |_| {}).unwrap().unwrap();
    task_pool.cancel(&["b".to_owned()]);
    assert!(task_pool.wait::<String>(&mut |_| {}).unwrap().is_none());
    assert_eq!(world.borrow().arrays[0].tasks[1], TaskStanding::Cancelled);
}

#[test]
fn two_processes_do_not_watch_the_same_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay-1");
    let _first = Folder::open(&path).unwrap();
    let error = Folder::open(&path).err().unwrap();
    let text = error.to_string().replace(&folder.path().display().to_string(), "DIR");
    insta::assert_snapshot!(text, @"another replay is at work on the same command: it holds DIR/replay-1/lock");
}

#[test]
fn what_a_killed_process_leaves_behind_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay-1");
    let left = Folder::open(&path).unwrap();
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(left);
    });
    Folder::open(&path).unwrap();
    leaving.join().unwrap();
}

#[test]
fn a_task_that_a_person_cancels_is_unavailable_and_not_handed_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    world.borrow_mut().fates.insert("a".to_owned(), vec![Fate::Cancelled]);
    world.borrow_mut().fates.insert("b".to_owned(), vec![Fate::Endless]);
    let mut failing = task_pool(folder.path(), &world, 2, &never);
    failing.start(vec![task("a"), task("b")]).unwrap();
    let error = all(&mut failing).unwrap_err();
    insta::assert_snapshot!(error, @"the test of a is unavailable: somebody has cancelled it");
    insta::assert_snapshot!(error.hint().unwrap(), @"what else was under way is cancelled too; the same command goes on with the rest");
    assert!(world.borrow().arrays[0].tasks.iter().all(TaskStanding::is_over));
    drop(failing);
    world.borrow_mut().fates.clear();
    let mut again = task_pool(folder.path(), &world, 2, &never);
    again.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(all(&mut again).unwrap().len(), 2);
    assert!(world.borrow().made.values().all(|times| *times == 1));
}

#[test]
fn what_an_earlier_crew_has_cancelled_and_not_seen_end_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    world.borrow_mut().fates.insert("a".to_owned(), vec![Fate::Cancelled]);
    let mut first = task_pool(folder.path(), &world, 2, &never);
    first.start(vec![task("a")]).unwrap();
    drop(first);
    let mut second = task_pool(folder.path(), &world, 2, &never);
    second.start(vec![task("a")]).unwrap();
    assert_eq!(all(&mut second).unwrap()["a"], "found a");
}

#[test]
fn a_scheduler_that_says_nothing_for_a_while_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    let mut first = task_pool(folder.path(), &world, 2, &never);
    world.borrow_mut().silent = 3;
    first.start(vec![task("a"), task("b"), task("c")]).unwrap();
    world.borrow_mut().silent = 3;
    first.wait::<String>(&mut |_| {}).unwrap().unwrap();
    drop(first);
    world.borrow_mut().silent = 3;
    let mut second = task_pool(folder.path(), &world, 2, &never);
    second.start(vec![task("a"), task("b"), task("c")]).unwrap();
    assert_eq!(all(&mut second).unwrap().len(), 3);
    assert_eq!(world.borrow().arrays.len(), 1);
}

#[test]
fn an_array_that_was_taken_without_a_word_is_not_submitted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    world.borrow_mut().is_mute = true;
    let mut task_pool = task_pool(folder.path(), &world, 2, &never);
    task_pool.start(vec![task("a"), task("b")]).unwrap();
    assert_eq!(all(&mut task_pool).unwrap().len(), 2);
    assert_eq!(world.borrow().arrays.len(), 1);
}

#[test]
fn an_interruption_that_the_scheduler_does_not_hear_says_that_its_tasks_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    let mut task_pool = task_pool(folder.path(), &world, 2, &|| true);
    task_pool.start(vec![task("a")]).unwrap();
    world.borrow_mut().silent = 9;
    let error = task_pool.wait::<String>(&mut |_| {}).unwrap_err();
    insta::assert_snapshot!(error, @"interrupted: what was under way on the cluster goes on, what was done is kept");
    insta::assert_snapshot!(error.hint().unwrap(), @"the scheduler did not answer: the same command takes over what goes on");
}

#[test]
fn more_tasks_than_an_array_takes_are_made_array_after_array_and_never_too_many_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(20);
    world.borrow_mut().size = Some(10);
    let tasks = |count: usize| (0..count).map(|number| task(&format!("t{number}"))).collect();
    let mut task_pool = task_pool(folder.path(), &world, 12, &never);
    task_pool.start(tasks(35)).unwrap();
    assert_eq!(task_pool.waiting(), 35);
    assert_eq!(all(&mut task_pool).unwrap().len(), 35);
    let arrays = world.borrow().arrays.iter().map(|jobs| jobs.tasks.len()).collect::<Vec<_>>();
    assert_eq!(arrays, [10, 10, 10, 5]);
    assert!(world.borrow().most <= 12);
    // What may run at a time is submitted at once, in as many arrays as that takes.
    let begun = world.borrow().arrays.len();
    task_pool.start((0..12).map(|number| task(&format!("u{number}"))).collect()).unwrap();
    assert_eq!(world.borrow().arrays.len() - begun, 2);
    assert_eq!(all(&mut task_pool).unwrap().len(), 12);
}

#[test]
fn a_folder_that_its_last_user_removed_is_not_locked_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay-1");
    let first = Folder::open(&path).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let second = Folder::open(&path).unwrap();
    assert!(Folder::open(&path).is_err());
    drop((first, second));
    Folder::open(&path).unwrap();
}

/// A task that comes after the spare task `first`.
fn after(first: &str, key: &str) -> Task<String> {
    Task { after: Some(first.to_owned()), ..task(key) }
}

#[test]
fn spare_tasks_have_the_room_that_others_leave_and_are_started_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(9);
    let mut task_pool = task_pool(folder.path(), &world, 3, &never);
    task_pool.start(vec![task("a")]).unwrap();
    let spare = || ["s1", "s2", "s3"].map(task).to_vec();
    task_pool.start_spare(spare());
    assert_eq!((task_pool.room(), task_pool.waiting()), (0, 1));
    assert_eq!(all(&mut task_pool).unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
    task_pool.start_spare(spare());
    task_pool.start(vec![after("s1", "b")]).unwrap();
    assert_eq!(all(&mut task_pool).unwrap()["b"], "found b");
    let world = world.borrow();
    assert!(world.made.values().all(|times| *times == 1), "{:?}", world.made);
    assert!(world.most <= 3);
}

#[test]
fn a_task_waits_for_the_spare_task_that_does_a_part_of_it_and_ends_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(9);
    for key in ["s1", "s2"] {
        world.borrow_mut().fates.insert(key.to_owned(), vec![Fate::Endless]);
    }
    let mut task_pool = task_pool(folder.path(), &world, 5, &never);
    task_pool.start(vec![task("a")]).unwrap();
    task_pool.start_spare(["s1", "s2"].map(task).to_vec());
    all(&mut task_pool).unwrap();
    task_pool.start(vec![after("s1", "b"), after("s2", "c"), task("d")]).unwrap();
    let first = task_pool.wait::<String>(&mut |_| {}).unwrap().unwrap();
    assert_eq!((first.key.as_str(), task_pool.waiting()), ("d", 2), "the others wait");
    // One ends, the other is lost: neither keeps its task waiting.
    std::fs::write(folder.path().join("replay-1/results/s1.json"), "{}").unwrap();
    let state = "NODE_FAIL".to_owned();
    let node = "n1".to_owned();
    let lost = TaskStanding::Ended { state, reason: String::new(), node };
    world.borrow_mut().arrays[1].tasks[1] = lost;
    assert_eq!(all(&mut task_pool).unwrap().len(), 2);
    task_pool.start_spare(vec![task("s3")]);
    task_pool.start(vec![task("e")]).unwrap();
    let world = world.borrow();
    let cancelled = |jobs: &Jobs| jobs.tasks.iter().all(|s| *s == TaskStanding::Cancelled);
    assert!(world.arrays.iter().any(cancelled), "nobody wants s3");
}

#[test]
fn spare_tasks_that_cannot_be_started_disturb_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(2);
    let mut first = task_pool(folder.path(), &world, 3, &never);
    first.start(vec![task("a")]).unwrap();
    world.borrow_mut().silent = 1;
    first.start_spare(vec![task("s")]);
    first.start(vec![after("s", "b")]).unwrap();
    drop(first);
    let mut second = task_pool(folder.path(), &world, 3, &never);
    second.start(vec![task("a"), after("s", "b")]).unwrap();
    assert_eq!(all(&mut second).unwrap().len(), 2);
    assert!(world.borrow().made.values().all(|times| *times == 1));
}
