//! Spare tasks: made where the tasks that are waited for leave room, for tasks that may come.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::crew::{Live, Place};
use super::{Crew, Standing, Task};

impl<W: Serialize + DeserializeOwned + Clone> Crew<'_, W> {
    /// How many spare tasks there is room for.
    pub fn room(&self) -> usize {
        self.width.saturating_sub(self.waiting() + self.spare.len())
    }

    /// Starts as many of `tasks` as there is room for, each of them once. Nobody waits for them, and one that fails
    /// is not tried again.
    pub fn start_spare(&mut self, tasks: Vec<Task<W>>) {
        let (there, mut room, mut new) = (self.folder.there(), self.room(), Vec::new());
        for task in tasks {
            if room == 0 {
                break;
            }
            if there.contains(&task.key) || !self.spared.insert(task.key.clone()) {
                continue;
            }
            room -= 1;
            match self.left.remove(&task.key) {
                Some(place) => drop(self.spare.insert(task.key, place)),
                None => new.push(task),
            }
        }
        if new.is_empty() {
            return;
        }
        match self.array(&new, new.len(), true) {
            Ok(array) => {
                let places = new.into_iter().enumerate().map(|(at, task)| (task.key, (array, at)));
                self.spare.extend(places);
            }
            Err(error) => {
                tracing::info!(%error, "no spare tasks");
                let folder = self.folder.array(self.live.len());
                self.live.push(Live { id: String::new(), folder, keys: Vec::new() });
            }
        }
    }

    /// Ends spare tasks, but for those that run and that one of `tasks` comes after: their keys.
    pub(super) fn make_room(&mut self, tasks: &[Task<W>]) -> BTreeSet<String> {
        let wanted: BTreeSet<&String> = tasks.iter().filter_map(|t| t.after.as_ref()).collect();
        for &key in &wanted {
            if let Some(place) = self.left.remove(key) {
                self.spare.insert(key.clone(), place);
            }
        }
        let there = self.folder.there();
        self.spare.retain(|key, _| !there.contains(key));
        let arrays: BTreeSet<usize> = self.spare.values().map(|place| place.0).collect();
        let mut standings: BTreeMap<Place, Standing> = BTreeMap::new();
        let mut silent = BTreeSet::new();
        for array in arrays {
            let Live { id, keys, .. } = &self.live[array];
            match self.scheduler.poll(id, keys.len()) {
                Ok(found) => {
                    let found = found.into_iter().enumerate();
                    standings.extend(found.filter_map(|(at, found)| Some(((array, at), found?))));
                }
                Err(_) => drop(silent.insert(array)),
            }
        }
        let runs = |key: &String, place: &Place| {
            let running = matches!(standings.get(place), Some(Standing::Running { .. }));
            wanted.contains(key) && (running || silent.contains(&place.0))
        };
        let (kept, ended) =
            std::mem::take(&mut self.spare).into_iter().partition(|(key, place)| runs(key, place));
        self.spare = kept;
        self.cancel_at(BTreeMap::into_values(ended).collect());
        self.spare.keys().cloned().collect()
    }

    /// Learns how spare tasks of `array` stand. One that is put back and that a task comes after is ended.
    pub(super) fn take_in_spare(&mut self, array: usize, found: &[Option<Standing>]) {
        let held: BTreeSet<&String> = self.held.iter().filter_map(|t| t.after.as_ref()).collect();
        let mut put_back = Vec::new();
        self.spare.retain(|key, place| {
            if place.0 != array {
                return true;
            }
            match found.get(place.1).and_then(Option::as_ref) {
                Some(Standing::Running { .. }) => true,
                Some(Standing::Waiting { .. }) if held.contains(key) => {
                    put_back.push(*place);
                    false
                }
                Some(Standing::Waiting { .. }) => true,
                _ => false,
            }
        });
        self.cancel_at(put_back);
    }

    /// Lets go of tasks that no spare task holds up any more.
    pub(super) fn release(&mut self) {
        let spare = &self.spare;
        let is_held =
            |task: &Task<W>| task.after.as_ref().is_some_and(|key| spare.contains_key(key));
        let (held, free): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(is_held);
        self.held = held;
        self.queue.extend(free);
    }
}
