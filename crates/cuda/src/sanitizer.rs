//! NVIDIA's compute-sanitizer: finds it, starts a child process under it, and holds its findings.
//!
//! Knows its command line and its output, nothing of replays; `transcript` reads the output.

mod transcript;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::SearchPath;
use super::library::format_searched_places;

pub use self::transcript::{Transcript, parse_transcript};

/// A tool of compute-sanitizer for one kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// Accesses out of bounds and misaligned ones.
    Memcheck,
    /// Races on shared memory.
    Racecheck,
    /// Reads of device memory that nobody wrote.
    Initcheck,
    /// Wrong uses of barriers.
    Synccheck,
}

impl Tool {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Memcheck => "memcheck",
            Tool::Racecheck => "racecheck",
            Tool::Initcheck => "initcheck",
            Tool::Synccheck => "synccheck",
        }
    }

    /// Whether memory must have the requested size, without room around it: all bytes of an allocation
    /// are in bounds.
    pub fn forbids_margins(self) -> bool {
        matches!(self, Tool::Memcheck | Tool::Initcheck)
    }

    /// Whether memory must stay as the device gives it: filling it counts as writing.
    pub fn forbids_filling(self) -> bool {
        self == Tool::Initcheck
    }
}

/// A finding of compute-sanitizer. Equal findings at one place are one, with their count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "SanitizerFinding")]
pub struct SanitizerFinding {
    /// The error, in compute-sanitizer's words: `Invalid __global__ write of size 4 bytes`.
    pub what: String,
    /// The kernel, without its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `file:line`; for a race of both accesses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// The block along x, y, z, the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// The thread along x, y, z, the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
    /// The address, the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Further details of the first time, in its words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often it happened; compute-sanitizer prints at most 10,000 findings of a run.
    pub count: u64,
}

/// The most findings in the output of a run.
pub(crate) const MOST_PRINTED: u64 = 10_000;

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SanitizerError {
    /// It was found nowhere.
    #[error("no compute-sanitizer: looked in {}", format_searched_places(.looked))]
    Missing {
        /// The searched places.
        looked: Vec<String>,
    },
    /// It does not work with the device.
    #[error("compute-sanitizer gives no result: {message}")]
    Unsupported {
        /// In its words.
        message: String,
    },
    /// It ended without a result.
    #[error("compute-sanitizer gives no result: {message}")]
    Failed {
        /// In its words.
        message: String,
    },
    /// It was still at work when the replay's time was over.
    #[error("compute-sanitizer was still at work after {seconds} s")]
    TimedOut { seconds: f64 },
}

impl SanitizerError {
    /// The error of a run without a result, with `message` as its last words. Only they
    /// tell whether it works with the device.
    pub fn without_result(message: String) -> SanitizerError {
        if message.contains("not supported") {
            SanitizerError::Unsupported { message }
        } else {
            SanitizerError::Failed { message }
        }
    }

    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            SanitizerError::Missing { .. } => Some(
                "CUDA's toolkit holds it; put its folder into PATH, or name CUDA's in CUDA_HOME"
                    .to_owned(),
            ),
            SanitizerError::Unsupported { .. } => {
                Some("some virtual machines and containers keep it from the device".to_owned())
            }
            SanitizerError::Failed { .. } => None,
            SanitizerError::TimedOut { .. } => Some(
                "it makes kernels many times slower: raise --timeout, or use a smaller fixture"
                    .to_owned(),
            ),
        }
    }
}

/// The program, and its tool.
#[derive(Clone, Debug)]
pub struct Sanitizer {
    program: PathBuf,
    tool: Tool,
}

/// A program to start another one.
#[derive(Clone, Debug)]
pub struct Wrapper {
    pub program: PathBuf,
    /// Its own arguments; the other program and its arguments follow.
    pub arguments: Vec<OsString>,
}

impl Sanitizer {
    /// Looks for it in `path`, the folders of `PATH`, then in CUDA's folders by `search`.
    ///
    /// # Errors
    /// [`SanitizerError::Missing`] with every searched place.
    pub fn find(
        path: &[PathBuf],
        search: &SearchPath,
        tool: Tool,
    ) -> Result<Sanitizer, SanitizerError> {
        let mut looked = Vec::new();
        for folder in path.iter().cloned().chain(search.program_folders()) {
            let program = folder.join("compute-sanitizer");
            if program.is_file() {
                return Ok(Sanitizer { program, tool });
            }
            looked.push(folder.display().to_string());
        }
        Err(SanitizerError::Missing { looked })
    }

    /// Its file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its tool.
    pub fn tool(&self) -> Tool {
        self.tool
    }

    /// Its version in its own words; none if it does not say.
    pub fn version(&self) -> Option<String> {
        let mut command = Command::new(&self.program);
        let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("Version"))?;
        Some(line.trim_start_matches("Version").trim().to_owned())
    }

    /// The wrapper for a program under it; its findings go to the file `log`.
    pub fn wrapper(&self, log: &Path) -> Wrapper {
        let printed = MOST_PRINTED.to_string();
        let plain_arguments = [
            "--tool",
            self.tool.name(),
            "--show-backtrace",
            "no",
            // The replay itself reports the driver's errors.
            "--report-api-errors",
            "no",
            "--print-limit",
            &printed,
            "--log-file",
        ];
        let mut arguments: Vec<OsString> = plain_arguments.iter().map(OsString::from).collect();
        arguments.push(log.into());
        Wrapper { program: self.program.clone(), arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_in_the_first_folder_that_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(place("cuda/bin")).unwrap();
        std::fs::create_dir_all(place("bin")).unwrap();
        std::fs::write(place("cuda/bin/compute-sanitizer"), "").unwrap();
        let search = SearchPath { roots: vec![place("cuda")], ..SearchPath::default() };
        let find = || Sanitizer::find(&[place("bin")], &search, Tool::Memcheck);
        let found = find().unwrap();
        assert_eq!(found.program(), place("cuda/bin/compute-sanitizer"));
        std::fs::write(place("bin/compute-sanitizer"), "").unwrap();
        let found = find().unwrap();
        assert_eq!(found.program(), place("bin/compute-sanitizer"));
    }

    #[test]
    fn its_lack_names_the_places_and_the_way_out() {
        let looked = vec!["/usr/bin".to_owned(), "/usr/local/cuda/bin".to_owned()];
        let missing = SanitizerError::Missing { looked };
        insta::assert_snapshot!(missing, @"no compute-sanitizer: looked in /usr/bin, /usr/local/cuda/bin");
        insta::assert_snapshot!(missing.hint().unwrap(), @"CUDA's toolkit holds it; put its folder into PATH, or name CUDA's in CUDA_HOME");
        let slow = SanitizerError::TimedOut { seconds: 60.0 };
        insta::assert_snapshot!(slow, @"compute-sanitizer was still at work after 60 s");
        insta::assert_snapshot!(slow.hint().unwrap(), @"it makes kernels many times slower: raise --timeout, or use a smaller fixture");
        let refused = SanitizerError::without_result("Device not supported".to_owned());
        insta::assert_snapshot!(refused, @"compute-sanitizer gives no result: Device not supported");
        insta::assert_snapshot!(refused.hint().unwrap(), @"some virtual machines and containers keep it from the device");
    }
}
