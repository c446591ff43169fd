//! The files of `--log` and `--trace`, written while the work goes on. Each replaces an earlier one of its kind and
//! nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::replay::files;

use super::error::{CliResult, CommandError, ErrorContext};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowingKind {
    Log,
    Trace,
}

impl GrowingKind {
    fn noun(self) -> &'static str {
        match self {
            GrowingKind::Log => "log",
            GrowingKind::Trace => "trace",
        }
    }

    fn option(self) -> &'static str {
        match self {
            GrowingKind::Log => "--log",
            GrowingKind::Trace => "--trace",
        }
    }

    /// The first words of a file, the mark of a replaceable one. Those of a log are a comment to git.
    fn mark(self) -> &'static str {
        match self {
            GrowingKind::Log => "# replay ",
            GrowingKind::Trace => "[{\"name\":\"process_name\"",
        }
    }
}

/// A file under way.
pub struct GrowingFile {
    kind: GrowingKind,
    path: PathBuf,
    file: Mutex<File>,
    failure: Mutex<Option<io::Error>>,
}

impl GrowingFile {
    /// Makes the file at `path`, with `head` behind its mark. An existing terminal or pipe is
    /// written to; an existing file must be an earlier one of this kind.
    pub fn create(kind: GrowingKind, path: &Path, head: &str) -> CliResult<GrowingFile> {
        let head = format!("{}{head}\n", kind.mark());
        if let Some(stream) = open_existing_stream(kind, path)? {
            let file = GrowingFile::new(kind, path, stream);
            file.write(&head);
            return Ok(file);
        }
        files::replace_file(path, head.as_bytes()).context(|| write_error(kind, path))?;
        // The path may lead to something else by now: a pipe must not block.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(path);
        Ok(GrowingFile::new(kind, path, file.context(|| write_error(kind, path))?))
    }

    fn new(kind: GrowingKind, path: &Path, file: File) -> GrowingFile {
        let (file, failure) = (Mutex::new(file), Mutex::default());
        GrowingFile { kind, path: path.to_owned(), file, failure }
    }

    /// Adds `text`. A failure to write it is reported by [`GrowingFile::finish`].
    pub fn write(&self, text: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(text.as_bytes()) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first failure to write it.
    pub fn finish(&self) -> CliResult<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err).context(|| write_error(self.kind, &self.path))
    }
}

/// The terminal or the pipe at `path`; none where a file may be put.
fn open_existing_stream(kind: GrowingKind, path: &Path) -> CliResult<Option<File>> {
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return require_folder(kind, path).map(|()| None);
        }
        result => result.context(|| write_error(kind, path))?,
    };
    let file_type = metadata.file_type();
    if file_type.is_char_device() || file_type.is_fifo() {
        return open_stream(kind, path).map(Some);
    }
    if !has_mark(kind, path).context(|| write_error(kind, path))? {
        return Err(CommandError::new(format!(
            "{} is no {} of replay and is left as it is",
            path.display(),
            kind.noun()
        ))
        .with_hint(format!("name another file with {}", kind.option())));
    }
    Ok(None)
}

fn open_stream(kind: GrowingKind, path: &Path) -> CliResult<File> {
    // Refuses a pipe without a reader; the other one waits for a slow reader.
    let probe = open_with_flags(path, libc::O_NONBLOCK | libc::O_NOCTTY);
    if probe.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO)) {
        let message = format!("nobody reads the pipe {}", path.display());
        return Err(CommandError::new(message));
    }
    let _probe = probe.context(|| write_error(kind, path))?;
    open_with_flags(path, libc::O_NOCTTY).context(|| write_error(kind, path))
}

fn open_with_flags(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

/// Whether the file is empty or one of this kind.
fn has_mark(kind: GrowingKind, path: &Path) -> io::Result<bool> {
    let (file, _) = files::open_regular_file(path)?;
    let mut head = Vec::new();
    file.take(kind.mark().len() as u64).read_to_end(&mut head)?;
    Ok(head.is_empty() || head == kind.mark().as_bytes())
}

fn require_folder(kind: GrowingKind, path: &Path) -> CliResult<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(CommandError::new(format!(
            "there is no folder {} for the {}",
            folder.display(),
            kind.noun()
        ))
        .with_hint(format!("make it, or name another file with {}", kind.option()))),
        _ => Ok(()),
    }
}

fn write_error(kind: GrowingKind, path: &Path) -> String {
    format!("cannot write the {} to {}", kind.noun(), path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel.cu");
        std::fs::write(&path, "__global__ void k() {}\n").expect("a file");
        let error = GrowingFile::create(GrowingKind::Log, &path, "1")
            .map(drop)
            .expect_err("it is a source");
        let text = error.message();
        assert!(text.ends_with("kernel.cu is no log of replay and is left as it is"), "{text}");
        assert_eq!(std::fs::read(&path).expect("a file"), b"__global__ void k() {}\n");
    }

    #[test]
    fn a_log_is_written_anew_and_as_it_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        for text in ["# one\n", "# other\n"] {
            let log = GrowingFile::create(GrowingKind::Log, &path, "1: bisect").expect("a log");
            log.write(text);
            let written = std::fs::read_to_string(&path).expect("a file");
            assert_eq!(written, format!("# replay 1: bisect\n{text}"));
            log.finish().expect("a log");
        }
    }
}
