//! A container image as the place of a program: the program starts in its files, and sees of this machine what a replay
//! needs, at the same paths.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::ProgramError;
use super::request::ProgramDevice;
use super::walls::WalledProgram;
use replay_base::process::environment::begins_with_any;
use replay_base::process::root::{Root, has_executable};
use replay_base::process::walls::{Walls, list_driver_libraries};

/// The folders of what is put into an image: there is none of this name in any.
const PACKAGE_FOLDER: &str = "/run/replay/python";
const DRIVER_FOLDER: &str = "/run/replay/driver";
/// The package for Python, which belongs to this program and not to an image.
const PACKAGE: &str = "gradreplay";
/// The beginnings of the user's variables that name places of this machine.
const PLACES: [&str; 12] = [
    "PATH",
    "HOME",
    "SHELL",
    "LD_",
    "PYTHON",
    "VIRTUAL_ENV",
    "CONDA_",
    "CC",
    "CXX",
    "CPATH",
    "CUDA_HOME",
    "CUDA_PATH",
];
/// What connects to other machines reads.
const NETWORK_SETTINGS: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// The image that a program starts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramImage {
    /// A hash of its content.
    pub id: String,
    /// The folder with its files.
    pub root: PathBuf,
    /// The variables that it sets.
    pub variables: Vec<(String, String)>,
    /// The folder of the package for Python on this machine, if it is here.
    pub package: Option<PathBuf>,
}

impl ProgramImage {
    /// What it is, in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        std::iter::once(format!("image {}", self.id)).chain(variables).collect()
    }

    /// The executable `word` in it: a bare name is searched in `search_path`.
    pub(super) fn find_executable(
        &self,
        word: &str,
        search_path: Option<&OsStr>,
    ) -> Result<PathBuf, ProgramError> {
        let not_found = |looked| ProgramError::NotFound { program: word.to_owned(), looked };
        if word.contains('/') {
            let path = PathBuf::from(word);
            return if has_executable(&self.root, &path) { Ok(path) } else { Err(not_found(None)) };
        }
        let search_path = search_path.map(OsString::from).unwrap_or_default();
        let folders = std::env::split_paths(&search_path).filter(|folder| folder.is_absolute());
        let found =
            folders.map(|folder| folder.join(word)).find(|path| has_executable(&self.root, path));
        found.ok_or_else(|| {
            not_found(Some(format!("{} of the image", search_path.to_string_lossy())))
        })
    }

    /// The `user`'s variables but those that name places of this machine.
    pub(super) fn leave_places(&self, user: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let stays = |name: &OsStr| !begins_with_any(name, &PLACES);
        user.iter().filter(|(name, _)| stays(name)).cloned().collect()
    }

    /// Adds the folders of what is put into it to `environment` of a program on `device`.
    pub(super) fn add_search_paths(
        &self,
        environment: &mut Vec<(OsString, OsString)>,
        device: ProgramDevice,
    ) {
        let mut put_first = |name: &str, folder: &str| {
            let known = environment.iter().rfind(|(known_name, _)| known_name == name);
            let mut value = OsString::from(folder);
            if let Some((_, known_value)) = known.filter(|(_, value)| !value.is_empty()) {
                value.push(":");
                value.push(known_value);
            }
            environment.retain(|(known_name, _)| known_name != name);
            environment.push((name.into(), value));
        };
        if self.package.is_some() {
            put_first("PYTHONPATH", PACKAGE_FOLDER);
        }
        if let ProgramDevice::Cuda(_) = device {
            put_first("LD_LIBRARY_PATH", DRIVER_FOLDER);
        }
    }

    /// The root of `program`, which reads `readable` and writes `writable`, and its walls.
    pub(super) fn enclose(
        &self,
        program: &WalledProgram<'_>,
        readable: &[PathBuf],
        writable: &[PathBuf],
    ) -> (Root, Walls) {
        let mut root = Root::of_image(&self.root);
        if let Some(package) = &self.package {
            root.show_at(package, &Path::new(PACKAGE_FOLDER).join(PACKAGE));
        }
        if let ProgramDevice::Cuda(_) = program.device {
            for library in list_driver_libraries() {
                let name = library.file_name().unwrap_or_default();
                root.show_at(&library, &Path::new(DRIVER_FOLDER).join(name));
            }
        }
        if program.sandbox.network {
            NETWORK_SETTINGS.iter().for_each(|file| root.show(Path::new(file), false));
        }
        readable.iter().for_each(|path| root.show(path, false));
        writable.iter().for_each(|path| root.show(path, true));
        // There is nothing in this root but the image and what was put there.
        let walls = Walls {
            readable: vec!["/".into()],
            readable_but: None,
            writable: writable.to_vec(),
            connections: program.connections(),
        };
        (root, walls)
    }
}
