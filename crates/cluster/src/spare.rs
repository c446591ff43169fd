//! Spare tasks: early parts of likely tasks, made where the open ones leave room.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::task_pool::{ArrayPosition, Live};
use super::{Task, TaskPool, TaskStanding};

impl<W: Serialize + DeserializeOwned + Clone> TaskPool<'_, W> {
    /// How many spare tasks there is room for.
    pub fn room(&self) -> usize {
        self.width.saturating_sub(self.waiting() + self.spare.len())
    }

    /// Starts as many of `tasks` as there is room for, each of them once. Nobody waits for them. A failed one is not
    /// tried again.
    pub fn start_spare(&mut self, tasks: Vec<Task<W>>) {
        let result_keys = self.folder.there();
        let mut room = self.room();
        let mut new_tasks = Vec::new();
        for task in tasks {
            if room == 0 {
                break;
            }
            if result_keys.contains(&task.key) || !self.spared.insert(task.key.clone()) {
                continue;
            }
            room -= 1;
            match self.left.remove(&task.key) {
                Some(place) => drop(self.spare.insert(task.key, place)),
                None => new_tasks.push(task),
            }
        }
        if new_tasks.is_empty() {
            return;
        }
        match self.array(&new_tasks, new_tasks.len(), true) {
            Ok(array) => {
                let places = new_tasks
                    .into_iter()
                    .enumerate()
                    .map(|(task_number, task)| (task.key, (array, task_number)));
                self.spare.extend(places);
            }
            Err(error) => {
                tracing::info!(%error, "no spare tasks");
                let folder = self.folder.array(self.live.len());
                self.live.push(Live { id: String::new(), folder, keys: Vec::new() });
            }
        }
    }

    /// Ends spare tasks. A running one stays if one of `tasks` comes after it. Returns the keys of the staying ones.
    pub(super) fn make_room(&mut self, tasks: &[Task<W>]) -> BTreeSet<String> {
        let wanted_keys: BTreeSet<&String> =
            tasks.iter().filter_map(|t| t.after.as_ref()).collect();
        for &key in &wanted_keys {
            if let Some(place) = self.left.remove(key) {
                self.spare.insert(key.clone(), place);
            }
        }
        let result_keys = self.folder.there();
        self.spare.retain(|key, _| !result_keys.contains(key));
        let arrays: BTreeSet<usize> = self.spare.values().map(|place| place.0).collect();
        let mut standings: BTreeMap<ArrayPosition, TaskStanding> = BTreeMap::new();
        let mut silent = BTreeSet::new();
        for array in arrays {
            let Live { id, keys, .. } = &self.live[array];
            match self.scheduler.poll(id, keys.len()) {
                Ok(array_standings) => {
                    let numbered_standings = array_standings.into_iter().enumerate();
                    standings.extend(numbered_standings.filter_map(
                        |(task_number, optional_standing)| {
                            Some(((array, task_number), optional_standing?))
                        },
                    ));
                }
                Err(_) => drop(silent.insert(array)),
            }
        }
        let (kept_places, ended) =
            std::mem::take(&mut self.spare).into_iter().partition(|(key, place)| {
                let running = matches!(standings.get(place), Some(TaskStanding::Running { .. }));
                wanted_keys.contains(key) && (running || silent.contains(&place.0))
            });
        self.spare = kept_places;
        self.cancel_at(BTreeMap::into_values(ended).collect());
        self.spare.keys().cloned().collect()
    }

    /// Learns how spare tasks of `array` stand. A requeued one ends if a task comes after it.
    pub(super) fn take_in_spare(&mut self, array: usize, array_standings: &[Option<TaskStanding>]) {
        let held_keys: BTreeSet<&String> =
            self.held.iter().filter_map(|t| t.after.as_ref()).collect();
        let mut put_back = Vec::new();
        self.spare.retain(|key, place| {
            if place.0 != array {
                return true;
            }
            match array_standings.get(place.1).and_then(Option::as_ref) {
                Some(TaskStanding::Running { .. }) => true,
                Some(TaskStanding::Waiting { .. }) if held_keys.contains(key) => {
                    put_back.push(*place);
                    false
                }
                Some(TaskStanding::Waiting { .. }) => true,
                _ => false,
            }
        });
        self.cancel_at(put_back);
    }

    /// Queues held tasks without a running spare task before them.
    pub(super) fn release(&mut self) {
        for task in std::mem::take(&mut self.held) {
            if task.after.as_ref().is_some_and(|key| self.spare.contains_key(key)) {
                self.held.push(task);
            } else {
                self.queue.push_back(task);
            }
        }
    }
}
