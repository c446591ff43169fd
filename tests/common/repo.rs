//! Real repositories for tests, made by the git command line with nothing of the user's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// A repository in a temporary folder, with its own HOME and a clock that ticks once a commit.
pub struct TestRepo {
    folder: TempDir,
    clock: std::cell::Cell<u64>,
}

impl TestRepo {
    pub fn new() -> TestRepo {
        Self::with_options(&[])
    }

    /// `git init` with further options.
    pub fn with_options(options: &[&str]) -> TestRepo {
        let folder = TempDir::new().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("repo")).expect("a folder");
        fs::create_dir_all(folder.path().join("home")).expect("a folder");
        let repo = TestRepo { folder, clock: std::cell::Cell::new(1_700_000_000) };
        // A template has hooks that nobody runs, a dozen files for each repository.
        let mut arguments = vec!["init", "-q", "-b", "main", "--template="];
        arguments.extend(options);
        repo.git(&arguments);
        repo
    }

    /// The working tree.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// A path beside the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs git in the repository, expects success, and returns stdout without the last newline.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.root(), arguments)
    }

    pub fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.try_git(folder, arguments);
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn try_git(&self, folder: &Path, arguments: &[&str]) -> Output {
        self.command(folder).args(arguments).output().expect("git runs")
    }

    /// git with fixed dates and nothing of the user's own, for `folder`.
    pub fn command(&self, folder: &Path) -> Command {
        let date = format!("{} +0000", self.clock.get());
        let mut command = Command::new("git");
        command
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "A U Thor")
            .env("GIT_AUTHOR_EMAIL", "author@example.com")
            .env("GIT_COMMITTER_NAME", "C O Mitter")
            .env("GIT_COMMITTER_EMAIL", "committer@example.com")
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date)
            .args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"])
            // Nothing is so large that git has to start another git after each commit.
            .args(["-c", "maintenance.auto=false"]);
        command
    }

    /// Writes a file of the working tree.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// Commits everything, also if nothing changed, and returns the id.
    pub fn commit(&self, message: &str) -> String {
        self.tick();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.committed_id()
    }

    /// The id of the commit that was made last.
    fn committed_id(&self) -> String {
        let read_line = |name: &str| {
            let path = self.root().join(".git").join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
        };
        let head = read_line("HEAD");
        let id = head.strip_prefix("ref: ").map(|name| read_line(name.trim_end()));
        id.unwrap_or(head).trim_end().to_owned()
    }

    /// Writes one file and commits.
    pub fn commit_file(&self, path: &str, content: &str, message: &str) -> String {
        self.write(path, content);
        self.commit(message)
    }

    /// Merges `branches` into what is checked out, by the `ours` strategy where they conflict.
    pub fn merge(&self, branches: &[&str], message: &str) -> String {
        self.tick();
        let mut arguments = vec!["merge", "-q", "--no-ff", "--allow-unrelated-histories", "-m"];
        arguments.push(message);
        arguments.extend(branches);
        self.git(&arguments);
        self.committed_id()
    }

    pub fn tick(&self) {
        self.clock.set(self.clock.get() + 60);
    }
}
