//! Why there is no such environment.

use std::io;

use crate::compile::CompilerError;
use crate::program::ROOT_ADVICE;
use replay_base::cache::CacheError;
use replay_base::foreign::Finished;
use replay_cuda::NvrtcError;

/// Why an environment cannot be made. The machine or the user is at fault, unless it
/// [is the value](EnvironmentError::is_value_fault).
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A program cannot be started.
    #[error("cannot start {program}")]
    Start {
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The interpreter does not say what it is.
    #[error("{python} does not tell its packages")]
    NoPython {
        python: String,
        /// Its last words.
        #[source]
        tail: LastWords,
    },
    /// The interpreter has no pip.
    #[error("{python} has no pip")]
    NoPip { python: String },
    /// pip or uv fails.
    #[error("{installer} cannot install {package} {version}")]
    Installer {
        installer: &'static str,
        package: String,
        version: String,
        /// Its last words.
        #[source]
        tail: LastWords,
        /// Whether this version is at fault, and not the index or the machine.
        is_value_fault: bool,
    },
    /// The version was taken back.
    #[error("{package} {version} is yanked")]
    Yanked {
        package: String,
        version: String,
        /// The installer's last words.
        #[source]
        tail: LastWords,
    },
    /// uv is asked for something that only pip does.
    #[error("uv lists no versions of {package}, and {python} has no pip")]
    NoListing { package: String, python: String },
    /// A day has no version.
    #[error("{package} has no version of {day}; the index has {known}")]
    NoNightly {
        package: String,
        day: String,
        /// The first and the last day.
        known: String,
    },
    /// pip does not know any version.
    #[error("pip finds no versions of {package}")]
    NoVersions {
        package: String,
        /// Its last words.
        #[source]
        tail: LastWords,
    },
    /// No known version lies in the range.
    #[error("no version of {package} lies in {first}..{last}; pip finds {known}")]
    EmptyRange {
        package: String,
        first: String,
        last: String,
        /// The first and the last known versions.
        known: String,
    },
    /// A command of the user's fails.
    #[error("`{command}` fails")]
    Command {
        command: String,
        /// Its last words.
        #[source]
        tail: LastWords,
        /// Whether it says that the value cannot be used here.
        is_value_fault: bool,
    },
    /// A command of the user's prints something else than variables.
    #[error("`{command}` prints a line that is no NAME=VALUE: {line}")]
    NoVariable { command: String, line: String },
    /// No container runtime is there.
    #[error("there is no container runtime: podman, docker or apptainer")]
    NoRuntime,
    /// A container runtime is there and does not work.
    #[error("{runtime} does not work here")]
    IdleRuntime {
        runtime: &'static str,
        /// Its last words.
        #[source]
        tail: LastWords,
    },
    /// A container runtime has no such image, or cannot get it.
    #[error("{runtime} cannot get the image {image}")]
    Runtime {
        runtime: &'static str,
        image: String,
        /// Its last words.
        #[source]
        tail: LastWords,
        /// Whether this image is at fault, and not the registry or the machine.
        is_value_fault: bool,
    },
    /// The path of an image leads to nothing.
    #[error("there is no image {image}")]
    NoImage { image: String },
    /// An archive is no image.
    #[error("cannot unpack the image {image}")]
    Archive {
        image: String,
        /// What is wrong with it, or the system's reason.
        source: io::Error,
    },
    /// The system does not let a program have another root.
    #[error("programs cannot be started in an image here: {reason}")]
    NoRoot { reason: String },
    /// A compiler cannot be used.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// NVRTC cannot be used.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The system refuses a file.
    #[error("cannot {doing}")]
    File {
        /// The failed action.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// The end of what a program printed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LastWords(String);

impl EnvironmentError {
    /// Whether the value cannot be used here, and others may be.
    pub fn is_value_fault(&self) -> bool {
        match self {
            EnvironmentError::Yanked { .. }
            | EnvironmentError::NoNightly { .. }
            | EnvironmentError::NoImage { .. } => true,
            EnvironmentError::Archive { source, .. } => source.kind() == io::ErrorKind::InvalidData,
            EnvironmentError::Installer { is_value_fault, .. }
            | EnvironmentError::Runtime { is_value_fault, .. }
            | EnvironmentError::Command { is_value_fault, .. } => *is_value_fault,
            EnvironmentError::Compiler(error) => matches!(
                error,
                CompilerError::Run { .. }
                    | CompilerError::NotACompiler { .. }
                    | CompilerError::Unsuitable { .. }
            ),
            EnvironmentError::Nvrtc(error) => {
                matches!(error, NvrtcError::Missing { .. } | NvrtcError::Load { .. })
            }
            _ => false,
        }
    }

    /// It and its cause, in a line.
    pub fn in_a_line(&self) -> String {
        let cause = std::error::Error::source(self).map(ToString::to_string);
        let text = cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"));
        text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
    }

    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            EnvironmentError::NoPip { .. } => {
                "`python3 -m ensurepip` brings it, or the system's python3-pip; uv in PATH does as well"
            }
            EnvironmentError::NoListing { .. } => {
                "name the versions in a list, or install pip there: `python3 -m ensurepip`"
            }
            EnvironmentError::Installer { is_value_fault: true, .. }
            | EnvironmentError::Yanked { .. }
            | EnvironmentError::NoNightly { .. } => {
                "name another version, or one that has wheels for this interpreter"
            }
            EnvironmentError::Installer { installer: "uv", .. } => {
                "uv is asked as you have configured it: uv.toml, UV_INDEX_URL, UV_FIND_LINKS; \
                 what is in the cache needs no index"
            }
            EnvironmentError::Installer { .. } | EnvironmentError::NoVersions { .. } => {
                "pip is asked as you have configured it: `pip config list`, PIP_INDEX_URL, PIP_FIND_LINKS; \
                 what is in the cache needs no index"
            }
            EnvironmentError::NoRuntime | EnvironmentError::IdleRuntime { .. } => {
                "install or start one; the path of a folder or of a saved archive needs none, nor does \
                 what is in the cache"
            }
            EnvironmentError::Runtime { is_value_fault: false, runtime, .. } => {
                return Some(format!(
                    "{runtime} is asked as you have configured it; what is in the cache needs no registry"
                ));
            }
            EnvironmentError::NoImage { .. } => {
                "a path counts from the harness's folder, and leads to a folder with an image's files, or \
                 to an archive of an image"
            }
            EnvironmentError::NoRoot { .. } => ROOT_ADVICE,
            EnvironmentError::EmptyRange { .. } => "widen the range in `[axes]`",
            EnvironmentError::Command { is_value_fault: false, .. } => {
                "a value that cannot be used here is told by exit status 125"
            }
            EnvironmentError::NoVariable { .. } => "what it says to people goes to standard error",
            EnvironmentError::Compiler(error) => return error.hint(),
            EnvironmentError::Nvrtc(NvrtcError::Missing { .. } | NvrtcError::Load { .. }) => {
                "a path names an installation of CUDA, a folder with libnvrtc.so, or this file"
            }
            EnvironmentError::Nvrtc(error) => return error.hint(),
            EnvironmentError::Cache(error) => return error.hint(),
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

/// How many lines of a failed program are shown.
const SHOWN_LINES: usize = 4;

/// The last lines of `finished` that say something, its errors if it printed some.
pub(super) fn tail_of(finished: &Finished) -> LastWords {
    let streams = [&finished.stderr, &finished.stdout];
    let texts = streams.map(|stream| String::from_utf8_lossy(stream).into_owned());
    let text = texts.iter().find(|text| !text.trim().is_empty());
    let lines: Vec<&str> = text.map_or(Vec::new(), |text| {
        text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect()
    });
    let first = lines.len().saturating_sub(SHOWN_LINES);
    LastWords(match lines[first..].join("\n") {
        nothing if nothing.is_empty() => "it printed nothing".to_owned(),
        last_lines => last_lines,
    })
}
