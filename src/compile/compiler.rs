//! The system's C++ compiler: which one, which version, how to run it.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::output;

/// Why the compiler cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// None of the usual ones is there.
    #[error("no C++ compiler: neither g++ nor clang++ is in PATH")]
    Missing,
    /// `CXX` names one that does not run.
    #[error("cannot run the C++ compiler `{command}`")]
    Run {
        /// What was run.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// `CXX` names something else.
    #[error("`{command} --version` failed: {message}")]
    NotACompiler {
        /// What was run.
        command: String,
        /// What it said.
        message: String,
    },
    /// It does not compile what every artifact needs.
    #[error("the C++ compiler `{command}` is not suitable: {first_error}")]
    Unsuitable {
        /// What was run.
        command: String,
        /// Its first error.
        first_error: String,
    },
    /// It failed for reasons that lie in the machine, not in what it compiled.
    #[error("the C++ compiler `{command}` cannot work here: {message}")]
    Exhausted {
        /// What was run.
        command: String,
        /// What it said, or how it ended.
        message: String,
    },
    /// The folder in which it works cannot be used.
    #[error("cannot use {path} for compiling")]
    Scratch {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl CompilerError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CompilerError::Missing => {
                Some("install g++ (Debian: apt install g++) or set CXX".to_owned())
            }
            CompilerError::Unsuitable { .. } => {
                Some("g++ 9 or later and clang++ 11 or later are known to work".to_owned())
            }
            CompilerError::Run { .. } | CompilerError::NotACompiler { .. } => {
                Some("CXX must name g++ or clang++, or a command that behaves like one".to_owned())
            }
            CompilerError::Exhausted { .. } => {
                Some("free disk space (TMPDIR, the cache) or memory, and try again".to_owned())
            }
            CompilerError::Scratch { .. } => None,
        }
    }
}

/// A C++ compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    words: Vec<String>,
    version: String,
}

impl Compiler {
    /// The compiler that `cxx` (the value of `CXX`) names, else g++ or clang++ in PATH.
    ///
    /// # Errors
    /// [`CompilerError`] if there is none, or it does not tell its version.
    pub fn find(cxx: Option<&str>) -> Result<Compiler, CompilerError> {
        if let Some(words) = cxx.map(|cxx| cxx.split_whitespace().map(str::to_owned).collect()) {
            let words: Vec<String> = words;
            if !words.is_empty() {
                return Compiler::ask(words);
            }
        }
        for name in ["g++", "clang++"] {
            match Compiler::ask(vec![name.to_owned()]) {
                Err(CompilerError::Run { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                found => return found,
            }
        }
        Err(CompilerError::Missing)
    }

    fn ask(words: Vec<String>) -> Result<Compiler, CompilerError> {
        let compiler = Compiler { words, version: String::new() };
        let answer = compiler.run(compiler.command().arg("--version"))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        match text.lines().next() {
            Some(line) if answer.status.success() && !line.trim().is_empty() => {
                Ok(Compiler { version: line.trim().to_owned(), ..compiler })
            }
            _ => Err(CompilerError::NotACompiler {
                command: compiler.name(),
                message: String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
            }),
        }
    }

    /// The first line of what it says of itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The command, as the user would type it.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }

    /// What an artifact's key holds of it.
    pub(super) fn identity(&self) -> String {
        format!("{}\n{}\n{}", self.name(), self.version, std::env::consts::ARCH)
    }

    /// A command that runs it, in English, whatever the user's language.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env("LC_ALL", "C");
        command
    }

    pub(super) fn run(&self, command: &mut Command) -> Result<Output, CompilerError> {
        let output = output(command)
            .map_err(|source| CompilerError::Run { command: self.name(), source })?;
        match exhaustion(&output) {
            Some(message) => Err(CompilerError::Exhausted { command: self.name(), message }),
            None => Ok(output),
        }
    }
}

/// What kept a compiler from its work, if the code that it compiled is not to blame.
fn exhaustion(output: &Output) -> Option<String> {
    const SIGNS: [&str; 6] = [
        "No space left on device",
        "File too large",
        "Disk quota exceeded",
        "Cannot allocate memory",
        "out of memory allocating",
        "Killed signal",
    ];
    if output.status.success() {
        return None;
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let told = log.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    let told = told.map(|line| line.trim().to_owned());
    told.or_else(|| output.status.code().is_none().then(|| output.status.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_the_fault_of_the_code() {
        let script = "echo 'cc1plus: fatal error: error writing to t.s: No space left on device' >&2; exit 1";
        let output = output(Command::new("sh").args(["-c", script])).unwrap();
        insta::assert_snapshot!(exhaustion(&output).unwrap(), @"cc1plus: fatal error: error writing to t.s: No space left on device");
        let killed = super::output(Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        insta::assert_snapshot!(exhaustion(&killed).unwrap(), @"signal: 9 (SIGKILL)");
        let wrong =
            super::output(Command::new("sh").args(["-c", "echo 'a.cu:1: error: no'; exit 1"]));
        assert_eq!(exhaustion(&wrong.unwrap()), None);
    }

    #[test]
    fn a_compiler_that_does_not_exist_is_named() {
        let error = Compiler::find(Some("no-such-compiler -v")).unwrap_err();
        insta::assert_snapshot!(error, @"cannot run the C++ compiler `no-such-compiler -v`");
    }

    #[test]
    fn a_program_that_is_no_compiler_is_refused() {
        let error = Compiler::find(Some("false")).unwrap_err();
        insta::assert_snapshot!(error, @"`false --version` failed:");
    }
}
