//! What a program may reach. It writes in folders of its own alone. It reads everything but what a user keeps for himself:
//! real environments of Python lie anywhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::image::ProgramImage;
use super::request::ProgramDevice;
use replay_base::process::root::Root;
use replay_base::process::walls::{
    Connections, SHARED_MEMORY, Walls, list_all_but, list_driver_paths, list_entries,
    list_program_folders,
};
use replay_fixture::harness::ProgramSandbox;

/// Of what is hidden in a home, by a name that begins with a dot, programs, packages and data live in these.
const ENVIRONMENTS: [&str; 37] = [
    ".asdf",
    ".cache",
    ".conda",
    ".config/matplotlib",
    ".cupy",
    ".guix-profile",
    ".jax",
    ".julia",
    ".keras",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/lib64",
    ".local/pipx",
    ".local/share/hatch",
    ".local/share/mamba",
    ".local/share/mise",
    ".local/share/pdm",
    ".local/share/pipx",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".mamba",
    ".matplotlib",
    ".micromamba",
    ".nix-profile",
    ".nv",
    ".pixi",
    ".pyenv",
    ".rustup",
    ".rye",
    ".spack",
    ".theano",
    ".torch",
    ".triton",
    ".venv",
    ".venvs",
    ".virtualenvs",
];

/// What is secret within them.
const SECRETS: [&str; 6] = [
    ".cache/chromium",
    ".cache/google-chrome",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".cache/mozilla",
    ".cache/thunderbird",
];

/// Folders outside of homes with sockets, keys and devices.
const HIDDEN_FOLDERS: [&str; 4] = ["/dev", "/run/secrets", "/run/user", "/var/lib/kubelet"];

/// The beginning of the names of tickets in the folder of temporary files.
const TICKETS: &str = "krb5cc";

/// The program, as its walls depend on it.
pub(super) struct WalledProgram<'p> {
    /// The command to start, and the program's own, which it may start.
    pub commands: [&'p [OsString]; 2],
    /// The harness's folder.
    pub folder: &'p Path,
    pub environment: &'p [(OsString, OsString)],
    pub device: ProgramDevice,
    /// What the harness adds.
    pub sandbox: &'p ProgramSandbox,
}

impl WalledProgram<'_> {
    /// Its walls. It may write in `scratch_folders` and in what the harness names.
    pub(super) fn walls(&self, scratch_folders: &[PathBuf]) -> Walls {
        let homes = self.homes();
        let mut readable = self.list_own_folders(&homes);
        readable.extend(homes.iter().flat_map(|home| list_environments(home)));
        readable.extend(self.sandbox.read.iter().cloned());
        Walls {
            readable,
            readable_but: Some(list_hidden_paths(&homes)),
            writable: self.list_writable_paths(scratch_folders),
            connections: self.connections(),
        }
    }

    /// What it may write: `scratch_folders`, and what others share with it.
    pub(super) fn list_writable_paths(&self, scratch_folders: &[PathBuf]) -> Vec<PathBuf> {
        let mut writable = scratch_folders.to_vec();
        writable.push(SHARED_MEMORY.into());
        writable.extend(self.make_kept_folder());
        if let ProgramDevice::Cuda(_) = self.device {
            writable.extend(list_driver_paths());
        }
        writable.extend(self.sandbox.write.iter().cloned());
        writable
    }

    /// The connections that it may make.
    pub(super) fn connections(&self) -> Connections {
        match self.device {
            _ if self.sandbox.network => Connections::All,
            ProgramDevice::Cpu => Connections::None,
            ProgramDevice::Cuda(_) => Connections::Local,
        }
    }

    /// Its root in `image`, and its walls there. It reads `handed` and what the harness names, and writes in
    /// `scratch_folders`.
    pub(super) fn enclose(
        &self,
        image: &ProgramImage,
        handed: &[PathBuf],
        scratch_folders: &[PathBuf],
    ) -> (Root, Walls) {
        let homes = self.homes();
        let mut hidden_paths = list_hidden_paths(&homes);
        // The folder itself is the harness's, wherever it lies.
        hidden_paths.retain(|path| path.starts_with(self.folder) && path != self.folder);
        let mut readable = list_all_but(self.folder, &hidden_paths);
        readable.extend(handed.iter().chain(&self.sandbox.read).cloned());
        image.enclose(self, &readable, &self.list_writable_paths(scratch_folders))
    }

    fn value(&self, name: &str) -> Option<&OsString> {
        let variable = self.environment.iter().find(|(known_name, _)| known_name == name);
        variable.map(|(_, value)| value)
    }

    /// The home that it is told, and the user's own.
    fn homes(&self) -> Vec<PathBuf> {
        let told_home = self.value("HOME").map(PathBuf::from);
        let homes = [told_home, std::env::home_dir()].into_iter().flatten();
        homes.map(|home| home.canonicalize().unwrap_or(home)).collect()
    }

    /// The folders that its own words and variables name.
    fn list_own_folders(&self, homes: &[PathBuf]) -> Vec<PathBuf> {
        let home = homes.first().cloned().unwrap_or_default();
        let executables = self.commands.into_iter().filter_map(|words| words.first());
        let executables = executables.map(Path::new);
        let files = executables.flat_map(|file| [Some(file.to_owned()), file.canonicalize().ok()]);
        let mut folders: Vec<PathBuf> =
            files.flatten().flat_map(|file| list_program_folders(&file, &home)).collect();
        folders.push(self.folder.to_owned());
        // Scripts, among others.
        folders.extend(self.commands.into_iter().flatten().map(PathBuf::from));
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"] {
            folders.extend(self.value(name).into_iter().flat_map(std::env::split_paths));
        }
        // Whoever has the whole of a home has its secrets.
        folders.retain(|folder| {
            folder.is_absolute() && !homes.iter().any(|home| home.starts_with(folder))
        });
        folders
    }

    /// The folder that the package for Python keeps between replays, made if it can be.
    fn make_kept_folder(&self) -> Option<PathBuf> {
        let around =
            ["REPLAY_CACHE_DIR", "XDG_CACHE_HOME"].into_iter().find_map(|name| self.value(name));
        let around =
            around.map(PathBuf::from).or_else(|| Some(self.homes().first()?.join(".cache")))?;
        let folder = self.folder.join(around).join("gradreplay");
        std::fs::create_dir_all(&folder).ok().map(|()| folder)
    }
}

/// What programs need of what is hidden in `home`.
fn list_environments(home: &Path) -> Vec<PathBuf> {
    let secrets = SECRETS.map(|name| home.join(name));
    ENVIRONMENTS.iter().flat_map(|name| list_all_but(&home.join(name), &secrets)).collect()
}

/// What a user with these `homes` keeps for himself, and others for themselves.
fn list_hidden_paths(homes: &[PathBuf]) -> Vec<PathBuf> {
    let mut hidden_paths: Vec<PathBuf> = HIDDEN_FOLDERS.map(PathBuf::from).into();
    let root_home = PathBuf::from("/root");
    if !homes.iter().any(|home| home.starts_with(&root_home)) {
        hidden_paths.push(root_home);
    }
    let other_homes = list_entries(Path::new("/home"), |_| true);
    for home in homes.iter().chain(&other_homes) {
        hidden_paths.extend(list_entries(home, |name| name.starts_with(b".")));
    }
    let is_ticket = |name: &[u8]| name.starts_with(TICKETS.as_bytes());
    hidden_paths.extend(list_entries(Path::new("/tmp"), is_ticket));
    hidden_paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_reads_environments_and_no_secret_of_a_home() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in ["work", ".ssh", ".local/lib", ".local/share/keyrings", ".myenv/bin"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in [".cache/hub", ".cache/huggingface/hub", ".cache/huggingface/token", ".netrc"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let environment = [
            ("HOME".into(), home.clone().into()),
            ("PYTHONPATH".into(), format!("{0}:{0}/work:lib", home.display()).into()),
        ];
        let sandbox = ProgramSandbox { write: vec!["/data".into()], ..ProgramSandbox::default() };
        let python = home.join(".myenv/bin/python");
        std::fs::write(home.join(".myenv/pyvenv.cfg"), "").unwrap();
        let command = [python.clone().into(), "-u".into(), home.join(".tools/step.py").into()];
        let program = WalledProgram {
            commands: [&command, &["/none/tool".into()]],
            folder: &home,
            environment: &environment,
            device: ProgramDevice::Cpu,
            sandbox: &sandbox,
        };
        let own_folders = program.list_own_folders(std::slice::from_ref(&home));
        let script = home.join(".tools/step.py");
        let expected = [home.join(".myenv"), "/none".into(), python, script, "/none/tool".into()];
        assert_eq!(own_folders, [&expected[..], &[home.join("work")]].concat());
        let mut environments = list_environments(&home);
        environments.retain(|path| path.exists());
        environments.sort();
        let expected = [".cache/hub", ".cache/huggingface/hub", ".local/lib"];
        assert_eq!(environments, expected.map(|name| home.join(name)));
        let walls = program.walls(&["/scratch".into()]);
        let kept = home.join(".cache/gradreplay");
        assert_eq!(walls.writable, ["/scratch".into(), SHARED_MEMORY.into(), kept, "/data".into()]);
        assert_eq!(walls.connections, Connections::None);
        let on_gpu = WalledProgram { device: ProgramDevice::Cuda(None), ..program };
        assert!(on_gpu.walls(&["/scratch".into()]).writable.contains(&"/proc".into()));
        let hidden_paths = walls.readable_but.unwrap();
        for name in [".ssh", ".netrc", ".local", ".cache"] {
            assert!(hidden_paths.contains(&home.join(name)), "{name}");
        }
        assert!(!hidden_paths.contains(&home.join("work")));
    }
}
