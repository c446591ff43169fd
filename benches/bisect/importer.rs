//! Writes a history into a new repository through one `git fast-import`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::Result;

/// A history under way, on the branch `main`; commits are numbered from 1.
pub struct Importer {
    git: Child,
    stream: BufWriter<ChildStdin>,
    commits: u32,
}

/// A git command in `repository` that reads no configuration but its own.
pub fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("LC_ALL", "C");
    command
}

/// Runs a git command to its end.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

impl Importer {
    /// Makes the repository.
    pub fn new(repository: &Path) -> Result<Importer> {
        std::fs::create_dir_all(repository)?;
        run(git(repository).args(["init", "-q", "-b", "main", "."]))?;
        let mut git = git(repository);
        let mut git = git.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
        let stream = BufWriter::new(git.stdin.take().ok_or("git has no stdin")?);
        Ok(Importer { git, stream, commits: 0 })
    }

    /// A commit behind `parents` that writes `files`; the rest is as in the first parent.
    pub fn commit(&mut self, parents: &[u32], files: &[(&str, &str)]) -> Result<u32> {
        self.commits += 1;
        let mark = self.commits;
        let date = 1_700_000_000 + 60 * self.commits;
        let message = format!("Commit {mark}");
        let out = &mut self.stream;
        write!(out, "reset refs/heads/main\n\ncommit refs/heads/main\nmark :{mark}\n")?;
        writeln!(out, "committer C O Mitter <committer@example.com> {date} +0000")?;
        write!(out, "data {}\n{message}\n", message.len())?;
        for (number, parent) in parents.iter().enumerate() {
            writeln!(out, "{} :{parent}", if number == 0 { "from" } else { "merge" })?;
        }
        for (path, text) in files {
            write!(out, "M 644 inline {path}\ndata {}\n{text}\n", text.len())?;
        }
        writeln!(out)?;
        Ok(mark)
    }

    /// Waits until everything is written; the last commit is `main`.
    pub fn finish(mut self) -> Result<()> {
        self.stream.flush()?;
        drop(self.stream);
        if self.git.wait()?.success() { Ok(()) } else { Err("git fast-import failed".into()) }
    }
}
