//! Why tasks cannot be made on other machines.

use std::io;
use std::path::PathBuf;

/// An error of a cluster, never of a tested commit.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A program of the scheduler's is not there.
    #[error("cannot start `{program}`")]
    Missing {
        program: String,
        #[source]
        source: io::Error,
    },
    /// The scheduler refuses an array.
    #[error("{scheduler} refuses the tasks: {words}")]
    Refused { scheduler: &'static str, words: String },
    /// The scheduler does not answer.
    #[error("{scheduler} does not answer: {words}")]
    Silent { scheduler: &'static str, words: String },
    /// A task ended without a result each time it was tried.
    #[error(
        "{what} is unavailable: {tries} tries ended without a result, the last one with {reason}"
    )]
    Unavailable {
        /// The task, for people.
        what: String,
        /// How often it was tried.
        tries: usize,
        /// How the last try ended, in the scheduler's words.
        reason: String,
        /// The end of the last try's standard error.
        printed: String,
    },
    /// Somebody has cancelled a task.
    #[error("{what} is unavailable: somebody has cancelled it")]
    Cancelled {
        /// The task, for people.
        what: String,
    },
    /// A task could not be made, and another node would not help.
    #[error("{what} could not be made on {node}: {message}")]
    Failed {
        /// The task, for people.
        what: String,
        node: String,
        message: String,
        /// Advice to the user.
        hint: Option<String>,
    },
    /// Another process watches the same tasks.
    #[error("another replay is at work on the same command: it holds {}", path.display())]
    Watched {
        /// The locked file.
        path: PathBuf,
    },
    /// The shared folder cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    Folder {
        /// The failed action.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The user wants it to end.
    #[error("interrupted: what was under way on the cluster {}, what was done is kept",
            if *cancelled { "is cancelled" } else { "goes on" })]
    Interrupted {
        /// Whether the scheduler has ended the tasks under way.
        cancelled: bool,
    },
}

impl ClusterError {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClusterError::Missing { program, .. } => Some(format!(
                "`{program}` is part of the scheduler: run this where jobs are submitted from"
            )),
            ClusterError::Silent { .. } => {
                Some("run the same command again: it goes on where this one ended".to_owned())
            }
            ClusterError::Cancelled { .. } => Some(
                "what else was under way is cancelled too; the same command goes on with the rest"
                    .to_owned(),
            ),
            ClusterError::Unavailable { reason, .. } if reason.starts_with("TIMEOUT") => Some(
                "the queue's time limit ended it, which is no finding: --cluster-arg=--time=MINUTES \
                 asks for more"
                    .to_owned(),
            ),
            ClusterError::Unavailable { reason, .. } if reason.starts_with("OUT_OF_ME") => {
                Some("--cluster-arg=--mem=SIZE asks for more memory".to_owned())
            }
            ClusterError::Unavailable { printed, .. } if !printed.is_empty() => {
                Some(format!("it printed: {printed}"))
            }
            ClusterError::Unavailable { .. } => Some(
                "its nodes may not see the folder that --cluster-dir names, or may not start this \
                 program; what was done is kept, and the same command goes on"
                    .to_owned(),
            ),
            ClusterError::Failed { hint, .. } => hint.clone(),
            ClusterError::Watched { .. } => Some("wait for it, or end it".to_owned()),
            ClusterError::Folder { .. } => {
                Some("--cluster-dir names a folder that all nodes can read and write".to_owned())
            }
            ClusterError::Interrupted { cancelled: false } => Some(
                "the scheduler did not answer: the same command takes over what goes on".to_owned(),
            ),
            ClusterError::Refused { .. } | ClusterError::Interrupted { .. } => None,
        }
    }
}
