//! This machine as a cluster: each task is a process, `width` of them at a time.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::task_array::task_log_path;
use super::{Array, ClusterError, Scheduler, TaskStanding};
use replay_base::process::tree;

/// The name of the only node.
const NODE: &str = "localhost";

/// Tells a task its parent: the task ends with it.
const PARENT: &str = "REPLAY_TASK_PARENT";

/// Has this process, a task, end with its parent on this machine, if it has one. False if the parent is gone: a later
/// process of the same command may then make the task again, and two must not make it at a time.
pub fn end_with_parent() -> bool {
    let parent = std::env::var(PARENT).ok().and_then(|parent| parent.parse().ok());
    parent.is_none_or(tree::die_with_parent)
}

/// Starts tasks as processes of its own. They end with it.
#[derive(Default)]
pub struct Local {
    arrays: Vec<Processes>,
}

struct Processes {
    name: String,
    folder: PathBuf,
    worker: Vec<OsString>,
    width: usize,
    waiting: VecDeque<usize>,
    running: Vec<(usize, Child)>,
    ended: Vec<Option<String>>,
}

impl Processes {
    /// Notes the ends of processes, and starts others in their places.
    fn turn(&mut self) {
        self.running.retain_mut(|(number, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                self.ended[*number] = Some(status.to_string());
                false
            }
            Err(error) => {
                self.ended[*number] = Some(error.to_string());
                false
            }
        });
        while self.running.len() < self.width {
            let Some(number) = self.waiting.pop_front() else { return };
            match self.start(number) {
                Ok(child) => self.running.push((number, child)),
                Err(error) => self.ended[number] = Some(error.to_string()),
            }
        }
    }

    fn start(&self, number: usize) -> std::io::Result<Child> {
        let log = File::create(task_log_path(&self.folder, number))?;
        Command::new(&self.worker[0])
            .args(&self.worker[1..])
            .arg(number.to_string())
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
    }

    fn standing(&self, number: usize) -> TaskStanding {
        match &self.ended[number] {
            Some(state) => TaskStanding::Ended {
                state: state.clone(),
                reason: String::new(),
                node: String::new(),
            },
            None if self.waiting.contains(&number) => {
                TaskStanding::Waiting { reason: "other tasks run".to_owned() }
            }
            None => TaskStanding::Running { node: NODE.to_owned() },
        }
    }
}

impl Local {
    /// The array with this id: its place. Arrays of other processes are unknown here.
    fn array(&mut self, id: &str) -> Option<&mut Processes> {
        let (owner, place) = id.split_once('-')?;
        if owner != std::process::id().to_string() {
            return None;
        }
        self.arrays.get_mut(place.parse::<usize>().ok()?)
    }
}

impl Scheduler for Local {
    fn submit(&mut self, array: &Array<'_>) -> Result<String, ClusterError> {
        let mut processes = Processes {
            name: array.name.to_owned(),
            folder: array.folder.to_owned(),
            worker: array.worker.to_owned(),
            width: array.width,
            waiting: (0..array.tasks).collect(),
            running: Vec::new(),
            ended: vec![None; array.tasks],
        };
        processes.turn();
        self.arrays.push(processes);
        Ok(format!("{}-{}", std::process::id(), self.arrays.len() - 1))
    }

    fn find(&mut self, name: &str) -> Result<Option<String>, ClusterError> {
        let place = self.arrays.iter().position(|array| array.name == name);
        Ok(place.map(|place| format!("{}-{place}", std::process::id())))
    }

    fn poll(&mut self, id: &str, tasks: usize) -> Result<Vec<Option<TaskStanding>>, ClusterError> {
        let Some(array) = self.array(id) else { return Ok(vec![None; tasks]) };
        array.turn();
        Ok((0..tasks).map(|number| Some(array.standing(number))).collect())
    }

    fn cancel(&mut self, id: &str, tasks: &[usize]) -> Result<(), ClusterError> {
        let Some(array) = self.array(id) else { return Ok(()) };
        array.waiting.retain(|number| !tasks.contains(number));
        for (number, child) in &mut array.running {
            if tasks.contains(number) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        array.turn();
        Ok(())
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(100)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        for (_, child) in self.arrays.iter_mut().flat_map(|array| &mut array.running) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
