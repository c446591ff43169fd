//! The file of `--log`. It replaces an earlier log and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::replay::files;

use super::error::{CliResult, CommandError, ErrorContext};

/// The first words of a log: a comment to git, and the mark of a replaceable file.
const HEAD: &str = "# replay ";

/// A log under way.
pub struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
    failure: Mutex<Option<io::Error>>,
}

impl LogFile {
    /// Makes the file at `path`, with `about` in its first line. An existing terminal or pipe is
    /// written to; an existing file must be an earlier log.
    pub fn create(path: &Path, about: &str) -> CliResult<LogFile> {
        let head = format!("{HEAD}{about}\n");
        if let Some(stream) = open_existing_stream(path)? {
            let log = LogFile::new(path, stream);
            log.write(&head);
            return Ok(log);
        }
        files::replace_file(path, head.as_bytes()).context(|| log_write_error(path))?;
        // The path may lead to something else by now: a pipe must not block.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(path);
        Ok(LogFile::new(path, file.context(|| log_write_error(path))?))
    }

    fn new(path: &Path, file: File) -> LogFile {
        LogFile { path: path.to_owned(), file: Mutex::new(file), failure: Mutex::default() }
    }

    /// Adds `text`. A failure to write it is reported by [`LogFile::finish`].
    pub fn write(&self, text: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(text.as_bytes()) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first failure to write it.
    pub fn finish(&self) -> CliResult<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err).context(|| log_write_error(&self.path))
    }
}

/// The terminal or the pipe at `path`; none where a file may be put.
fn open_existing_stream(path: &Path) -> CliResult<Option<File>> {
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return require_log_folder(path),
        result => result.context(|| log_write_error(path))?,
    };
    let kind = metadata.file_type();
    if kind.is_char_device() || kind.is_fifo() {
        return open_log_stream(path).map(Some);
    }
    if !is_log(path).context(|| log_write_error(path))? {
        return Err(CommandError::new(format!(
            "{} is no log of replay and is left as it is",
            path.display()
        ))
        .with_hint("name another file with --log"));
    }
    Ok(None)
}

fn open_log_stream(path: &Path) -> CliResult<File> {
    // Refuses a pipe without a reader; the other one waits for a slow reader.
    let probe = open_with_flags(path, libc::O_NONBLOCK | libc::O_NOCTTY);
    if probe.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO)) {
        let message = format!("nobody reads the pipe {}", path.display());
        return Err(CommandError::new(message));
    }
    let _probe = probe.context(|| log_write_error(path))?;
    open_with_flags(path, libc::O_NOCTTY).context(|| log_write_error(path))
}

fn open_with_flags(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

/// Whether the file is empty or a log.
fn is_log(path: &Path) -> io::Result<bool> {
    let (file, _) = files::open_regular_file(path)?;
    let mut head = Vec::new();
    file.take(HEAD.len() as u64).read_to_end(&mut head)?;
    Ok(head.is_empty() || head == HEAD.as_bytes())
}

fn require_log_folder(path: &Path) -> CliResult<Option<File>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(CommandError::new(format!("there is no folder {} for the log", folder.display()))
                .with_hint("make it, or name another file with --log"))
        }
        _ => Ok(None),
    }
}

fn log_write_error(path: &Path) -> String {
    format!("cannot write the log to {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel.cu");
        std::fs::write(&path, "__global__ void k() {}\n").expect("a file");
        let error = LogFile::create(&path, "1").map(drop).expect_err("it is a source");
        let text = error.message();
        assert!(text.ends_with("kernel.cu is no log of replay and is left as it is"), "{text}");
        assert_eq!(std::fs::read(&path).expect("a file"), b"__global__ void k() {}\n");
    }

    #[test]
    fn a_log_is_written_anew_and_as_it_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        for text in ["# one\n", "# other\n"] {
            let log = LogFile::create(&path, "1: bisect").expect("a log");
            log.write(text);
            let written = std::fs::read_to_string(&path).expect("a file");
            assert_eq!(written, format!("# replay 1: bisect\n{text}"));
            log.finish().expect("a log");
        }
    }
}
