//! What installs packages for an interpreter: its pip, or uv where it has none.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{EnvironmentError, Python, UserShell};
use replay_base::foreign::Finished;

/// What installs packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Installer {
    /// The interpreter's own pip.
    Pip,
    /// This uv.
    Uv(PathBuf),
}

/// uv, as it is called.
const UV: &str = "uv";

impl Installer {
    /// That of `python`: uv if it has no pip and there is one in the user's PATH.
    pub(super) fn find(shell: &UserShell, python: &Python) -> Installer {
        if python.version_of("pip").is_some() {
            return Installer::Pip;
        }
        let path = shell.variable("PATH").cloned().unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(UV));
        places.find(|file| file.is_file()).map_or(Installer::Pip, Installer::Uv)
    }

    /// As messages name it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Installer::Pip => "pip",
            Installer::Uv(_) => UV,
        }
    }

    /// Options for the newest versions of the index at `url`, early ones too.
    pub(super) fn index_options(&self, url: &str) -> Vec<String> {
        let early: &[&str] = match self {
            Installer::Pip => &["--pre"],
            Installer::Uv(_) => &["--prerelease", "allow"],
        };
        early.iter().copied().chain(["--index-url", url]).map(str::to_owned).collect()
    }

    /// Runs its `command`, such as `install`, for `python`, as the user has configured it.
    pub(super) fn run(
        &self,
        shell: &UserShell,
        python: &Python,
        command: &str,
        arguments: &[String],
    ) -> Result<Finished, EnvironmentError> {
        let arguments = arguments.iter().map(OsString::from);
        match self {
            Installer::Pip => {
                let words = ["-m", "pip", command].map(OsString::from).into_iter();
                let finished = python.run(shell, words.chain(arguments).collect())?;
                if String::from_utf8_lossy(&finished.stderr).contains("No module named pip") {
                    return Err(EnvironmentError::NoPip { python: python.name() });
                }
                Ok(finished)
            }
            Installer::Uv(uv) => {
                let words = [uv.as_os_str().to_owned()].into_iter();
                let words = words.chain(["pip", command, "--python"].map(OsString::from));
                let words = words.chain([python.executable().into()]).chain(arguments);
                let quiet = [("UV_NO_PROGRESS", "1"), ("NO_COLOR", "1")];
                shell.run(words.collect(), Some(python.folder().to_owned()), &quiet)
            }
        }
    }
}

/// What uv would install, as `name==version`, by its words.
pub(super) fn parse_uv_plan(printed: &str) -> Vec<String> {
    let come = printed.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("+ ").or(line.strip_prefix("~ "))?.split(' ').next()
    });
    come.filter(|pin| pin.contains("==")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_uv_would_install_is_what_comes_and_not_what_goes() {
        let printed = "Using Python 3.11.7 environment at: x\nResolved 2 packages in 5.48s\n\
                       Would download 1 package\n - numpy==2.4.6\n + numpy==2.0.2 (from file:///x.whl)\n \
                       ~ ml-dtypes==0.4.1\nwarning: a+b == c\n";
        assert_eq!(parse_uv_plan(printed), ["numpy==2.0.2", "ml-dtypes==0.4.1"]);
        assert!(parse_uv_plan("Would make no changes\n").is_empty());
    }
}
