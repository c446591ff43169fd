//! An array of tasks in the shared folder, and how a node makes one of them.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ClusterError;
use super::folder::task_folder_error;
use replay_base::files;

/// The most bytes of a file of the shared folder.
const LIMIT: u64 = 64 << 20;

/// The plan of an array, written before its submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArrayPlan<W> {
    /// Its name for the scheduler.
    pub name: String,
    /// The folder of results.
    pub results: PathBuf,
    /// The tasks, by number.
    pub tasks: Vec<ArrayTask<W>>,
}

/// One task of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArrayTask<W> {
    /// Names its result.
    pub key: String,
    /// The work.
    pub work: W,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport<R> {
    /// Its node.
    pub node: String,
    /// The class of its device. Verdicts of two classes are not mixed.
    pub device: String,
    /// The finding, or why there is none.
    pub found: Result<R, TaskFailure>,
}

/// Why a node could not make a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailure {
    /// The error with its causes, in a line.
    pub message: String,
    /// Advice to the user.
    pub hint: Option<String>,
}

pub(super) fn array_plan_path(folder: &Path) -> PathBuf {
    folder.join("tasks.json")
}

pub(super) fn task_result_path(results: &Path, key: &str) -> PathBuf {
    results.join(format!("{key}.json"))
}

/// The value in a file of the shared folder; none if there is no file, or not yet a whole one.
pub(super) fn read_shared_value<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&files::read_regular_file(path, LIMIT).ok()?).ok()
}

pub(super) fn write_shared_value(path: &Path, value: &impl Serialize) -> Result<(), ClusterError> {
    let text = serde_json::to_vec(value).expect("what is written is plain data");
    files::replace_file(path, &text).map_err(task_folder_error("write", path))
}

/// Makes task `number` of the array in `folder`, unless its result is there, and leaves the result.
///
/// # Errors
/// If the array cannot be read or the result cannot be written: the task then has no result.
pub fn perform_array_task<W: DeserializeOwned, R: Serialize>(
    folder: &Path,
    number: usize,
    make: impl FnOnce(W) -> TaskReport<R>,
) -> Result<(), ClusterError> {
    let plan: Option<ArrayPlan<W>> = read_shared_value(&array_plan_path(folder));
    let plan = plan.ok_or_else(|| unplanned_task_error(folder, number))?;
    let task = plan.tasks.into_iter().nth(number);
    let task = task.ok_or_else(|| unplanned_task_error(folder, number))?;
    let result = task_result_path(&plan.results, &task.key);
    if result.exists() {
        return Ok(());
    }
    write_shared_value(&result, &make(task.work))
}

fn unplanned_task_error(folder: &Path, number: usize) -> ClusterError {
    let message = format!("no task {number} is planned there");
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, message);
    task_folder_error("read", &array_plan_path(folder))(source)
}

/// The end of a task's standard error, for people.
pub(super) fn read_task_stderr(folder: &Path, number: usize) -> String {
    const KEPT: usize = 600;
    let text = files::read_regular_file(&task_log_path(folder, number), LIMIT).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    let start = text.char_indices().rev().nth(KEPT).map_or(0, |(byte_offset, _)| byte_offset);
    text[start..].to_owned()
}

/// The file for the output of task `number`. A scheduler's word may stand for the number.
pub(super) fn task_log_path(folder: &Path, number: impl Display) -> PathBuf {
    folder.join(format!("{number}.log"))
}

/// The worker's words for a task of the array in `folder`: its number follows.
pub(super) fn task_command_words(worker: &[OsString], folder: &Path) -> Vec<OsString> {
    worker.iter().cloned().chain([folder.as_os_str().to_owned()]).collect()
}
