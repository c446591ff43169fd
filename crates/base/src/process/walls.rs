//! Walls around replayed code, of Landlock: what a process and all below it may read and write, whether it may connect,
//! and that its signals stay within. They need no privilege, and nobody behind them can take them down.
//!
//! On a system without Landlock there are none; [`WallOffer`] says what this one has.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use rustix::fs::{Access, access};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};
use serde::{Deserialize, Serialize};

/// The first version of Landlock with all that is asked for: files, connections by TCP, devices, signals and abstract
/// sockets. Of an earlier one as much is taken as it has.
const VERSION: ABI = ABI::V6;

/// Where a system keeps programs, libraries and headers, and tells of its devices.
const SYSTEM_FOLDERS: [&str; 12] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu",
    "/snap", "/sys",
];

/// Its settings that loaders and compilers read.
const SETTINGS: [&str; 15] = [
    "/etc/alternatives",
    "/etc/ccache.conf",
    "/etc/clang",
    "/etc/env.d",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/timezone",
];

/// What is secret among all settings. Permissions keep it from all users but root.
const SYSTEM_SECRETS: [&str; 14] = [
    "/etc/NetworkManager/system-connections",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/pki/tls/private",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
];

/// Folders of programs in an installation.
const PROGRAM_FOLDERS: [&str; 2] = ["bin", "shims"];

/// The parts of an installation.
const PROGRAM_PARTS: [&str; 6] = ["bin", "include", "lib", "lib32", "lib64", "libexec"];

/// What only the folder of an environment holds.
const ENVIRONMENT_MARKS: [&str; 2] = ["pyvenv.cfg", "conda-meta"];

/// Devices that hold nothing.
pub const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Beginnings of the names of devices that compute.
const COMPUTING_DEVICES: [&str; 3] = ["nvidia", "dri", "kfd"];

/// The library of CUDA's driver.
const DRIVER: &str = "libcuda.so.1";

/// The beginnings of the names of the driver's libraries.
const DRIVER_LIBRARIES: [&str; 3] = ["libcuda.so", "libcudadebugger.so", "libnvidia-"];

/// Where a driver puts its libraries.
const DRIVER_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
];

/// Where libraries for several processes have their locks and their common memory.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Where a system tells of its processes: of those behind walls to one behind the same, and of its own process to each
/// thread. CUDA's driver writes the names of its threads there, `/proc/self/task/TID/comm`; without that `cuInit` fails.
/// Processes below have other numbers, so no narrower folder will do.
pub const PROCESSES: &str = "/proc";

/// What a thread behind walls of its own may need of its stack: compilers recurse.
const STACK_BYTES: usize = 64 << 20;

/// Advice where the system refuses walls.
pub const WALLS_HINT: &str =
    "`replay doctor` says what this system has; --sandbox=off does without";

/// How closely replayed code is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// Without walls.
    Off,
    /// Behind what the system has of them.
    #[default]
    AsOffered,
}

/// The connections that a process may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// None but those that it was started with, and pairs of sockets of its own.
    #[default]
    None,
    /// Within this machine: what a driver needs.
    Local,
    /// All.
    All,
}

impl Connections {
    pub(super) const ALL: [Connections; 3] =
        [Connections::None, Connections::Local, Connections::All];

    fn name(self) -> &'static str {
        match self {
            Connections::None => "none",
            Connections::Local => "local",
            Connections::All => "all",
        }
    }
}

/// What is behind the walls of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walls {
    /// Files and folders to read and to execute, besides those of the system.
    pub readable: Vec<PathBuf>,
    /// Everything but these may be read, too; none if there is no such permission.
    pub readable_but: Option<Vec<PathBuf>>,
    /// Files and folders to write, besides devices that hold nothing.
    pub writable: Vec<PathBuf>,
    /// The connections that it may make.
    pub connections: Connections,
}

impl Walls {
    /// Puts this thread and its later children behind the walls. Files that are missing stay behind them.
    ///
    /// # Errors
    /// Where the system has walls and refuses these.
    pub fn enter(&self) -> io::Result<()> {
        self.try_enter().map_err(io::Error::other)?;
        // Last: files of the process above have been named by its descriptors.
        give_up_privileges()
    }

    /// Does `work` behind the walls, on a thread that ends with it. The other threads of this process stay as they are,
    /// and so does what they start.
    ///
    /// # Errors
    /// As for [`Walls::enter`], and where the system has no room for a thread.
    pub fn work_behind<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, || self.enter().map(|()| work()))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn try_enter(&self) -> Result<(), RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(VERSION))?
            .scope(Scope::from_all(VERSION))?;
        if self.connections != Connections::All {
            ruleset = ruleset.handle_access(AccessNet::from_all(VERSION))?;
        }
        let read = AccessFs::from_read(VERSION);
        let all = AccessFs::from_all(VERSION);
        let mut ruleset = ruleset
            .create()?
            .add_rules(path_beneath_rules(SYSTEM_FOLDERS, read))?
            .add_rules(path_beneath_rules(SETTINGS, read))?
            .add_rules(path_beneath_rules(DEVICES, all))?
            .add_rules(path_beneath_rules(&self.readable, read))?
            .add_rules(path_beneath_rules(&self.writable, all))?;
        if let Some(hidden_paths) = &self.readable_but {
            // The name of a file tells nothing of what it holds.
            let names: BitFlags<AccessFs> = AccessFs::ReadDir.into();
            let mut hidden_paths = [&hidden_paths[..], &list_readable_secrets()].concat();
            // A folder that hides nothing has one rule.
            hidden_paths.retain(|path| path.symlink_metadata().is_ok());
            ruleset = ruleset
                .add_rules(path_beneath_rules(["/"], names))?
                .add_rules(path_beneath_rules(list_all_but(Path::new("/"), &hidden_paths), read))?;
        }
        ruleset.restrict_self()?;
        Ok(())
    }

    /// These walls as words of a command line, [`Walls::from_words`] reads them.
    pub(crate) fn to_words(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from(self.connections.name())];
        let lists = [Some(&self.readable), Some(&self.writable), self.readable_but.as_ref()];
        for list in lists.into_iter().flatten() {
            words.push(list.len().to_string().into());
            words.extend(list.iter().map(|path| path.clone().into_os_string()));
        }
        words
    }

    /// The walls of `words`, all of them; none if they describe none.
    pub(crate) fn from_words(words: Vec<OsString>) -> Option<Walls> {
        let mut words = words.into_iter();
        let name = words.next()?;
        let connections = Connections::ALL.into_iter().find(|known| name == known.name())?;
        let mut lists = Vec::new();
        while let Some(count) = words.next() {
            let count = count.to_str()?.parse().ok()?;
            let paths: Vec<PathBuf> = words.by_ref().take(count).map(PathBuf::from).collect();
            lists.push((paths.len() == count).then_some(paths)?);
        }
        let mut lists = lists.into_iter();
        let readable = lists.next()?;
        let writable = lists.next()?;
        Some(Walls { readable, writable, readable_but: lists.next(), connections })
    }
}

/// Gives up what root may do beyond its own files: with some of it the memory of all processes can be read.
pub(super) fn give_up_privileges() -> io::Result<()> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER;
    let held = capabilities(None)?;
    if kept.contains(held.permitted) {
        return Ok(());
    }
    for capability in CapabilitySet::all().difference(kept).iter() {
        // Who may not do so cannot get it by another program either; the system may not know it.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let sets = [held.effective, held.permitted, held.inheritable].map(|set| set & kept);
    let [effective, permitted, inheritable] = sets;
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

/// The system's secrets that this process could read.
fn list_readable_secrets() -> Vec<PathBuf> {
    let secrets = SYSTEM_SECRETS.into_iter().filter(|path| access(*path, Access::READ_OK).is_ok());
    secrets.map(PathBuf::from).collect()
}

/// The files and folders below `folder` that hold all of it but `hidden_paths`. Links are left out: what they lead to has a
/// place of its own.
pub fn list_all_but(folder: &Path, hidden_paths: &[PathBuf]) -> Vec<PathBuf> {
    if hidden_paths.iter().any(|hidden_path| folder.starts_with(hidden_path)) {
        return Vec::new();
    }
    if !hidden_paths.iter().any(|hidden_path| hidden_path.starts_with(folder)) {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    entries.flat_map(|entry| list_all_but(&entry.path(), hidden_paths)).collect()
}

/// The folders that a program, its libraries and its packages lie in: `/opt/gcc` of `/opt/gcc/bin/g++`. They hold neither
/// `home` nor, where a folder such as `~/.local` holds more than one program, what else is in it.
pub fn list_program_folders(program: &Path, home: &Path) -> Vec<PathBuf> {
    let Some(folder) = program.parent() else { return Vec::new() };
    let holds_home = |folder: &Path| home.starts_with(folder);
    let is_among_programs = PROGRAM_FOLDERS.iter().any(|name| folder.ends_with(name));
    let around = folder
        .parent()
        .filter(|around| is_among_programs && around.parent().is_some() && !holds_home(around));
    let prefix = around.unwrap_or(folder);
    if holds_home(prefix) {
        return vec![program.to_owned()];
    }
    let is_hidden = prefix.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
    let is_mixed = prefix.parent() == Some(home)
        && is_hidden
        && !ENVIRONMENT_MARKS.iter().any(|mark| prefix.join(mark).exists());
    if is_mixed {
        return PROGRAM_PARTS.iter().map(|part| prefix.join(part)).collect();
    }
    vec![prefix.to_owned()]
}

/// What the driver of a GPU writes.
pub fn list_driver_paths() -> Vec<PathBuf> {
    let is_computing = |name: &[u8]| {
        COMPUTING_DEVICES.iter().any(|beginning| name.starts_with(beginning.as_bytes()))
    };
    let mut paths = list_entries(Path::new("/dev"), is_computing);
    paths.extend([SHARED_MEMORY, PROCESSES].map(PathBuf::from));
    paths
}

/// The libraries of the driver of a GPU: an image has none that fit this machine's.
pub fn list_driver_libraries() -> Vec<PathBuf> {
    let mut folders = DRIVER_FOLDERS.map(Path::new).into_iter();
    let Some(folder) = folders.find(|folder| folder.join(DRIVER).exists()) else {
        return Vec::new();
    };
    let is_driver = |name: &[u8]| {
        DRIVER_LIBRARIES.iter().any(|beginning| name.starts_with(beginning.as_bytes()))
    };
    list_entries(folder, is_driver)
}

/// The entries of `folder` with names as `is_wanted` says; none of a folder that cannot be read.
pub fn list_entries(folder: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted_entries = entries.filter(|entry| is_wanted(entry.file_name().as_encoded_bytes()));
    wanted_entries.map(|entry| entry.path()).collect()
}

/// What the walls of this system keep apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallOffer {
    /// Files.
    pub files: bool,
    /// Connections by TCP.
    pub connections: bool,
    /// Signals and abstract sockets.
    pub signals: bool,
}

impl WallOffer {
    /// What this system has.
    pub fn of_this_system() -> WallOffer {
        let offers = |version| {
            let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
            let ruleset = ruleset.handle_access(AccessFs::from_all(version));
            let ruleset = ruleset.and_then(|ruleset| match version {
                ABI::V4 => ruleset.handle_access(AccessNet::from_all(version)),
                ABI::V6 => ruleset.scope(Scope::from_all(version)),
                _ => Ok(ruleset),
            });
            ruleset.and_then(Ruleset::create).is_ok()
        };
        let [files, connections, signals] = [ABI::V1, ABI::V4, ABI::V6].map(offers);
        WallOffer { files, connections, signals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walls_come_back_from_a_command_line() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for walls in [
            Walls::default(),
            Walls { readable: paths(&["/a b", "/2"]), ..Walls::default() },
            Walls {
                writable: paths(&["", "all"]),
                readable_but: Some(paths(&["/root"])),
                connections: Connections::Local,
                ..Walls::default()
            },
            Walls { readable_but: Some(Vec::new()), ..Walls::default() },
        ] {
            assert_eq!(Walls::from_words(walls.to_words()), Some(walls));
        }
        for words in [&[][..], &["none"], &["wide", "0", "0"], &["none", "3", "/a", "0"]] {
            let words = words.iter().map(OsString::from).collect();
            assert_eq!(Walls::from_words(words), None);
        }
    }

    #[test]
    fn work_behind_walls_leaves_other_threads_and_their_children_before_them() {
        if !WallOffer::of_this_system().files {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let names = ["open", "hidden"].map(|name| folder.path().join(name));
        for name in &names {
            fs::write(name, "").unwrap();
        }
        let [open_file, hidden_file] = &names;
        let are_readable = || names.each_ref().map(|name| fs::read(name).is_ok());
        let walls = Walls { readable: vec![open_file.clone()], ..Walls::default() };
        let environment = || fs::read("/proc/self/environ").is_ok();
        let read_by_child = || {
            let mut cat = std::process::Command::new("cat");
            cat.arg(hidden_file).stderr(std::process::Stdio::null()).status().unwrap().success()
        };
        let behind = walls.work_behind(|| {
            let below = std::thread::scope(|scope| scope.spawn(are_readable).join().unwrap());
            (are_readable(), below, environment(), read_by_child())
        });
        assert_eq!(behind.unwrap(), ([true, false], [true, false], false, false));
        assert_eq!(are_readable(), [true, true]);
        assert!(environment() && read_by_child());
    }

    #[test]
    fn what_is_hidden_is_left_out_with_links_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in ["work/src", ".ssh", ".cache/hub", ".cache/token"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(home.join(".ssh"), home.join("link")).unwrap();
        let hidden_paths = [home.join(".ssh"), home.join(".cache/token"), home.join("none")];
        let mut listed = list_all_but(&home, &hidden_paths);
        listed.sort();
        assert_eq!(listed, [home.join(".cache/hub"), home.join("work")]);
        assert_eq!(list_all_but(&home.join("work"), &hidden_paths), [home.join("work")]);
        assert_eq!(
            list_all_but(&home.join(".ssh/keys"), &hidden_paths),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn the_folders_of_a_program_hold_no_home_and_no_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        fs::create_dir_all(home.join(".venv")).unwrap();
        fs::write(home.join(".venv/pyvenv.cfg"), "").unwrap();
        let listed = |program: &Path| list_program_folders(program, &home);
        assert_eq!(listed(Path::new("/opt/gcc/bin/g++")), [Path::new("/opt/gcc")]);
        assert_eq!(listed(Path::new("/bin/sh")), [Path::new("/bin")]);
        assert_eq!(
            listed(&home.parent().unwrap().join("bin/sh")),
            [home.parent().unwrap().join("bin")]
        );
        assert_eq!(listed(&home.join("env/bin/python")), [home.join("env")]);
        assert_eq!(listed(&home.join(".venv/bin/python")), [home.join(".venv")]);
        assert_eq!(
            listed(&home.join(".pyenv/versions/3/bin/python")),
            [home.join(".pyenv/versions/3")]
        );
        assert_eq!(
            listed(&home.join(".cargo/bin/sccache")),
            PROGRAM_PARTS.map(|part| home.join(".cargo").join(part))
        );
        assert_eq!(listed(&home.join("bin/python")), [home.join("bin")]);
        assert_eq!(listed(&home.join("speaker")), [home.join("speaker")]);
        assert_eq!(listed(&home.join("work/speaker")), [home.join("work")]);
    }
}
