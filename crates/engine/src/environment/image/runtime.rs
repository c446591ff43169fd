//! What exports images: podman, docker or apptainer, as the user has configured it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::error::tail_of;
use super::super::{EnvironmentError, UserShell, Workshop};
use super::archive::unpack_archive;
use super::{ImageConfiguration, hash_folder, image_file_error};
use replay_base::foreign::Finished;

/// The runtimes, the first that works is taken.
const RUNTIMES: [&str; 3] = ["podman", "docker", "apptainer"];
/// Signs of a registry out of reach, and of a machine at fault, in the words of the runtimes.
const UNREACHABLE: [&str; 12] = [
    "dial tcp",
    "no such host",
    "i/o timeout",
    "Client.Timeout",
    "TLS handshake",
    "x509:",
    "connection refused",
    "network is unreachable",
    "Cannot connect to the Docker daemon",
    "no space left on device",
    "permission denied",
    "toomanyrequests",
];
/// Where apptainer keeps the variables of an image that comes from a registry.
const APPTAINER_VARIABLES: &str = ".singularity.d/env/10-docker2singularity.sh";

/// A runtime that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRuntime {
    pub name: &'static str,
}

/// What a runtime says of an image.
#[derive(Debug, Deserialize)]
pub(super) struct Inspected {
    #[serde(rename = "Id")]
    pub id: String,
    #[serde(rename = "Config", default)]
    configuration: InspectedConfiguration,
}

#[derive(Debug, Default, Deserialize)]
struct InspectedConfiguration {
    #[serde(rename = "Env", default)]
    variables: Option<Vec<String>>,
}

/// The first runtime that works.
pub(in super::super) fn find_runtime(
    shell: &UserShell,
) -> Result<ContainerRuntime, EnvironmentError> {
    let path = shell.variable("PATH").cloned().unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut failure = None;
    for name in RUNTIMES {
        if !folders.iter().any(|folder| folder.join(name).is_file()) {
            continue;
        }
        let finished = shell.run_trusted(vec![name.into(), "version".into()])?;
        if finished.success() {
            return Ok(ContainerRuntime { name });
        }
        let idle = EnvironmentError::IdleRuntime { runtime: name, tail: tail_of(&finished) };
        failure.get_or_insert(idle);
    }
    Err(failure.unwrap_or(EnvironmentError::NoRuntime))
}

impl ContainerRuntime {
    fn run(&self, shell: &UserShell, words: &[&str]) -> Result<Finished, EnvironmentError> {
        let words = std::iter::once(self.name).chain(words.iter().copied());
        shell.run_trusted(words.map(OsString::from).collect())
    }

    /// The same; `image` has to be there.
    fn run_for(
        &self,
        shell: &UserShell,
        words: &[&str],
        image: &str,
    ) -> Result<Finished, EnvironmentError> {
        let finished = self.run(shell, words)?;
        if finished.success() { Ok(finished) } else { Err(self.failure(image, &finished)) }
    }

    fn failure(&self, image: &str, finished: &Finished) -> EnvironmentError {
        let printed =
            [&finished.stderr, &finished.stdout].map(|text| String::from_utf8_lossy(text));
        let is_unreachable =
            UNREACHABLE.iter().any(|sign| printed.iter().any(|text| text.contains(sign)));
        EnvironmentError::Runtime {
            runtime: self.name,
            image: image.to_owned(),
            tail: tail_of(finished),
            is_value_fault: !is_unreachable,
        }
    }

    /// What it says of `image`; none if it does not have it. apptainer keeps no images.
    pub(super) fn inspect(
        &self,
        shell: &UserShell,
        image: &str,
    ) -> Result<Option<Inspected>, EnvironmentError> {
        if self.is_apptainer() {
            return Ok(None);
        }
        let finished = self.run(shell, &["image", "inspect", image])?;
        if !finished.success() {
            return Ok(None);
        }
        let described: Vec<Inspected> =
            serde_json::from_slice(&finished.stdout).unwrap_or_default();
        Ok(described.into_iter().next())
    }

    /// Gets `image` from its registry.
    pub(super) fn pull(
        &self,
        shell: &UserShell,
        image: &str,
    ) -> Result<Inspected, EnvironmentError> {
        if self.is_apptainer() {
            // It says nothing of an image before it is built; a digest in the reference tells versions apart.
            let configuration = InspectedConfiguration::default();
            return Ok(Inspected { id: format!("apptainer {image}"), configuration });
        }
        let finished = self.run_for(shell, &["pull", "--quiet", image], image)?;
        let inspected = self.inspect(shell, image)?;
        inspected.ok_or_else(|| self.failure(image, &finished))
    }

    /// Puts the files of `image` into the folder `target`.
    pub(super) fn export(
        &self,
        workshop: &Workshop<'_>,
        image: &str,
        inspected: &Inspected,
        target: &Path,
    ) -> Result<ImageConfiguration, EnvironmentError> {
        if self.is_apptainer() {
            return self.build_sandbox(&workshop.shell, image, target);
        }
        let shell = &workshop.shell;
        // The command is never run; some images have none of their own.
        let created = self.run_for(shell, &["create", &inspected.id, "true"], image)?;
        let created = String::from_utf8_lossy(&created.stdout).into_owned();
        let container = created.lines().last().unwrap_or_default().trim();
        let scratch = workshop.cache.scratch()?;
        let file = scratch.path().join("image.tar");
        let file_word = file.to_string_lossy();
        let exported = self.run_for(shell, &["export", "--output", &file_word, container], image);
        // A container that stays behind takes no room and does no harm.
        let _ = self.run(shell, &["rm", container]);
        exported?;
        unpack_archive(&file, target)
            .map_err(|source| EnvironmentError::Archive { image: image.to_owned(), source })?;
        let variables = inspected.configuration.variables.clone().unwrap_or_default();
        Ok(ImageConfiguration { variables, content: None })
    }

    fn is_apptainer(&self) -> bool {
        self.name == "apptainer"
    }

    /// Has apptainer unpack `image`, of a registry unless it says otherwise.
    fn build_sandbox(
        &self,
        shell: &UserShell,
        image: &str,
        target: &Path,
    ) -> Result<ImageConfiguration, EnvironmentError> {
        let source = match image.contains("://") {
            true => image.to_owned(),
            false => format!("docker://{image}"),
        };
        let target_word = target.to_string_lossy();
        let words = ["build", "--force", "--fix-perms", "--sandbox", &*target_word, &source];
        self.run_for(shell, &words, image)?;
        let script = fs::read_to_string(target.join(APPTAINER_VARIABLES)).unwrap_or_default();
        let content = hash_folder(target).map_err(image_file_error("read the image's files"))?;
        Ok(ImageConfiguration { variables: parse_exports(&script), content: Some(content) })
    }
}

/// The variables in apptainer's `script`: `export NAME="VALUE"`, or `export NAME="${NAME:-"VALUE"}"`.
fn parse_exports(script: &str) -> Vec<String> {
    let exports = script.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    exports
        .filter_map(|(name, text)| {
            let text = text.strip_prefix('"')?.strip_suffix('"')?;
            let default = text.strip_prefix(&format!("${{{name}:-"));
            let value = match default {
                Some(default) => default.strip_suffix('}')?.trim_matches('"'),
                None => text,
            };
            Some(format!("{name}={value}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_an_image_are_read_from_apptainers_script() {
        let script = "#!/bin/sh\nexport PATH=\"/opt/bin:/bin\"\nexport CUDA=\"${CUDA:-\"12.4\"}\"\nexport NONE=\"${NONE:-}\"\n";
        assert_eq!(parse_exports(script), ["PATH=/opt/bin:/bin", "CUDA=12.4", "NONE="]);
    }

    #[test]
    fn what_a_runtime_says_of_an_image_is_read() {
        let text = r#"[{"Id": "sha256:ab", "Config": {"Env": ["A=1"], "Cmd": null}, "Size": 3}]"#;
        let inspected: Vec<Inspected> = serde_json::from_str(text).unwrap();
        assert_eq!(inspected[0].id, "sha256:ab");
        assert_eq!(inspected[0].configuration.variables.as_deref(), Some(&["A=1".to_owned()][..]));
        let bare: Vec<Inspected> =
            serde_json::from_str(r#"[{"Id": "x", "Config": {"Env": null}}]"#).unwrap();
        assert_eq!(bare[0].configuration.variables, None);
    }
}
