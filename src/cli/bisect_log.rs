//! The file that `bisect --log` writes: another log is replaced, nothing else is.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ::replay::bisect::{Answer, Conclusion, LOG_TITLE, LogEntry, LogMark, git_bisect_log};
use ::replay::files;
use ::replay::hunt::Report;
use anyhow::Context;

use super::error::Complaint;

/// Where the log goes.
pub enum LogFile {
    /// A file, which is replaced when the search has ended.
    File(PathBuf),
    /// A terminal or a pipe.
    Stream(File),
}

impl LogFile {
    /// Looks at what lies at `path` before the search, so that none is made in vain.
    pub fn check(path: &Path) -> anyhow::Result<LogFile> {
        let found = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return absent(path),
            found => found.with_context(|| failed(path))?,
        };
        let kind = found.file_type();
        if kind.is_char_device() || kind.is_fifo() {
            let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
            // Refuses a pipe that nobody reads; the other one waits for a slow reader.
            let probe = open(libc::O_NONBLOCK | libc::O_NOCTTY);
            if probe.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO)) {
                let message = format!("nobody reads the pipe {}", path.display());
                return Err(Complaint { message, hint: None }.into());
            }
            let probe = probe.with_context(|| failed(path))?;
            let stream = open(libc::O_NOCTTY).with_context(|| failed(path))?;
            drop(probe);
            return Ok(LogFile::Stream(stream));
        }
        let text = files::read(path, files::TEXT_BYTES).with_context(|| failed(path))?;
        if !text.is_empty() && !text.starts_with(LOG_TITLE.as_bytes()) {
            return Err(Complaint {
                message: format!(
                    "{} is no log of `replay bisect` and is left as it is",
                    path.display()
                ),
                hint: Some("name another file with --log".to_owned()),
            }
            .into());
        }
        Ok(LogFile::File(path.to_owned()))
    }

    /// Writes the tests in the form of `git bisect log`.
    pub fn write(self, report: &Report, first_parent: bool) -> anyhow::Result<()> {
        let text = text(report, first_parent);
        match self {
            LogFile::Stream(mut stream) => {
                stream.write_all(text.as_bytes()).context("failed to write the log")
            }
            LogFile::File(path) => {
                // What lies there may be another file than before the search.
                LogFile::check(&path)?;
                files::replace(&path, text.as_bytes()).with_context(|| failed(&path))
            }
        }
    }
}

fn absent(path: &Path) -> anyhow::Result<LogFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Complaint {
            message: format!("there is no folder {} for the log", folder.display()),
            hint: Some("make it, or name another file with --log".to_owned()),
        }
        .into()),
        _ => Ok(LogFile::File(path.to_owned())),
    }
}

fn failed(path: &Path) -> String {
    format!("cannot write the log to {}", path.display())
}

fn text(report: &Report, first_parent: bool) -> String {
    let ids: Vec<(LogMark, String, String)> = report
        .tested
        .iter()
        .filter_map(|tested| {
            let commit = report.commit(tested.commit)?;
            let mark = match tested.answer {
                Answer::Good => LogMark::Good,
                Answer::Bad => LogMark::Bad,
                Answer::Skip | Answer::Other => LogMark::Skip,
            };
            Some((mark, commit.id.to_string(), commit.subject.clone()))
        })
        .collect();
    let entries: Vec<LogEntry> =
        ids.iter().map(|(mark, id, subject)| LogEntry { mark: *mark, id, subject }).collect();
    let culprit = match report.conclusion {
        Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. } => {
            report.commit(culprit).map(|commit| (commit.id.to_string(), commit.subject.as_str()))
        }
        _ => None,
    };
    let culprit = culprit.as_ref().map(|(id, subject)| (id.as_str(), *subject));
    git_bisect_log(&entries, culprit, first_parent)
}
