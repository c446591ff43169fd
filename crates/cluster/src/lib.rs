//! Tasks on other machines: requests to a scheduler, and results in a shared folder.
//!
//! A [`TaskPool`] hands tasks to a [`Scheduler`] as arrays and waits for their results. A task without a result goes out
//! again, to another node. A result is one file, written whole. A missing result is a fault of the machines, never a
//! finding.
//!
//! The folder holds the state: a task pool takes over the results and arrays of an earlier one there.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod error;
mod folder;
mod local;
mod slurm;
mod spare;
mod task_array;
mod task_pool;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use error::ClusterError;
pub use folder::Folder;
pub use local::{Local, end_with_parent};
pub use slurm::Slurm;
pub use task_array::{TaskFailure, TaskReport, perform_array_task};
pub use task_pool::{Done, Task, TaskPool};

/// An array of tasks as a scheduler is asked for it.
#[derive(Debug)]
pub struct Array<'a> {
    /// Its name, by which it is found again.
    pub name: &'a str,
    /// Its folder, for what its tasks print.
    pub folder: &'a Path,
    /// The tasks, numbered from 0.
    pub tasks: usize,
    /// Tasks that may run at a time.
    pub width: usize,
    /// The program that makes a task, and its arguments; the task's number comes last.
    pub worker: &'a [OsString],
    /// Nodes that the tasks must not run on.
    pub without: &'a [String],
    /// Whether all other tasks come first.
    pub is_spare: bool,
}

/// How a task stands with its scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStanding {
    /// It waits for its turn, for this reason.
    Waiting {
        /// The scheduler's word for why.
        reason: String,
    },
    Running {
        node: String,
    },
    /// It has ended.
    Ended {
        /// The scheduler's word for how, such as `NODE_FAIL`.
        state: String,
        /// Why, in the scheduler's words; empty if it says nothing.
        reason: String,
        /// The node; empty if it never ran.
        node: String,
    },
    /// Somebody has cancelled it.
    Cancelled,
}

impl TaskStanding {
    /// Whether it neither waits nor runs.
    pub fn is_over(&self) -> bool {
        matches!(self, TaskStanding::Ended { .. } | TaskStanding::Cancelled)
    }
}

/// What starts tasks on machines.
pub trait Scheduler {
    /// Starts an array, and returns its id.
    ///
    /// # Errors
    /// If it refuses the array; [`ClusterError::Silent`] if it may not have heard of it.
    fn submit(&mut self, array: &Array<'_>) -> Result<String, ClusterError>;

    /// The id of the array called `name` that it still knows, if there is one.
    ///
    /// # Errors
    /// [`ClusterError::Silent`] if it does not answer now.
    fn find(&mut self, name: &str) -> Result<Option<String>, ClusterError>;

    /// How each of the `tasks` of the array `id` stands; none for a task that it has forgotten.
    ///
    /// # Errors
    /// [`ClusterError::Silent`] if it does not answer now.
    fn poll(&mut self, id: &str, tasks: usize) -> Result<Vec<Option<TaskStanding>>, ClusterError>;

    /// Ends tasks of the array `id`, as far as they have not ended.
    ///
    /// # Errors
    /// If it does not answer.
    fn cancel(&mut self, id: &str, tasks: &[usize]) -> Result<(), ClusterError>;

    /// The most tasks that one array may have.
    fn most(&mut self) -> usize {
        usize::MAX
    }

    /// How long it may be left in peace between two questions.
    fn interval(&self) -> Duration;

    /// Lets time pass.
    fn pause_for(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}
