//! A harness's program as it is on this machine.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::environment::{is_deciding_variable, program_environment, set_variable};
use super::error::{PrintedTail, last_line};
use super::image::ProgramImage;
use super::request::ProgramDevice;
use super::runner::{ProgramSettings, name_series_folder};
use super::server::Servers;
use super::walls::WalledProgram;
use super::{ProgramError, find};
use replay_base::cache::WorkFolder;
use replay_base::files;
use replay_base::foreign::{
    Finished, ForeignProgram, Keeper, KeeperError, ProgramBounds, ProgramEnd,
};
use replay_base::process::tree::End;
use replay_base::process::walls::{DEVICES, Sandbox};
use replay_fixture::harness::{Harness, ProgramSpec};

/// The most bytes of a program's file.
const FILE_BYTES: u64 = 256 << 20;
/// Variables with the folders in which libraries keep what they compile, by default in the user's home.
const COMPILER_CACHES: [&str; 6] = [
    "CUDA_CACHE_PATH",
    "CUPY_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR",
];

/// A harness's program: its place, its files and its environment.
#[derive(Debug)]
pub struct HarnessProgram {
    /// The program in the words of the harness.
    pub spec: ProgramSpec,
    /// The harness's folder. Commands run in it.
    pub(super) folder: PathBuf,
    /// The program and its arguments; the first is a path.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) identity: String,
    /// The image that its commands start in, if there is one.
    image: Option<ProgramImage>,
    /// The staying processes, if the harness wants them.
    pub(super) servers: Servers,
    device: ProgramDevice,
    pub(super) folders: ProgramFolders,
    /// Whether a replay has told before its call that its arithmetic does not round in other directions.
    ignores_roundings: AtomicBool,
}

/// The folders of replay in which a program's commands find and leave their files.
#[derive(Debug)]
pub(super) struct ProgramFolders {
    /// Where they may write: in a folder for each replay or series, and in those of compilers. This process writes no file
    /// there: the path may be made to lead anywhere.
    pub scratch: WorkFolder,
    /// What they get to read, by replay.
    pub handed: WorkFolder,
    /// All trees, to read.
    pub trees: PathBuf,
}

impl HarnessProgram {
    /// Resolves the program of `harness`, in `image` if there is one, and asks it who it is if the harness says how.
    pub(super) fn open(
        (harness, image): (&Harness, Option<&ProgramImage>),
        ProgramSettings { device, environment: user, processes, .. }: &ProgramSettings,
        (keeper, bounds): (&Keeper, &ProgramBounds),
        folders: ProgramFolders,
    ) -> Result<HarnessProgram, ProgramError> {
        let device = *device;
        let processes = *processes;
        let spec = harness.program.clone().expect("the harness names a program");
        let folder = harness
            .folder()
            .canonicalize()
            .map_err(super::error::program_system_error("find the folder"))?;
        let environment = match image {
            None => program_environment(user, &spec.sandbox.env, spec.env.iter(), device),
            Some(image) => {
                let user = image.leave_places(user);
                let own = image.variables.iter().map(|(name, value)| (name, value));
                let own = own.chain(&spec.env);
                let mut environment = program_environment(&user, &spec.sandbox.env, own, device);
                image.add_search_paths(&mut environment, device);
                environment
            }
        };
        let image = image.cloned();
        let (words, identity) = Default::default();
        let servers = Servers::new(processes);
        let mut project = HarnessProgram {
            spec,
            folder,
            words,
            environment,
            identity,
            image,
            servers,
            device,
            folders,
            ignores_roundings: AtomicBool::new(false),
        };
        if project.image.is_some() {
            project.keep_cache_folder(user);
        }
        for (_, cache) in project.compiler_caches() {
            std::fs::create_dir(cache)
                .map_err(super::error::program_system_error("make a folder"))?;
        }
        project.words = project.resolve_words(&project.spec.words)?;
        project.identity = project.identify(user, device, keeper, bounds)?;
        Ok(project)
    }

    /// Adds the program's own words to its identity.
    pub(super) fn extend_identity(&mut self, reported_identity: &str) {
        let joined_identity = format!("{} {reported_identity}", self.identity);
        self.identity = blake3::hash(joined_identity.as_bytes()).to_hex().to_string();
    }

    /// A name for a series of replays of one revision on one fixture: one process may make them in turn. None if each
    /// has a process of its own.
    pub fn name_series(&self) -> Option<u64> {
        self.spec.preload.is_some().then(|| self.servers.name_series())
    }

    /// Ends the staying processes of `series`, and removes what they left in its folder.
    pub fn end_series(&self, series: u64) {
        self.servers.end_series(series);
        // It may be missing, and goes with the scratch folder in the end.
        let _ = std::fs::remove_dir_all(name_series_folder(self.folders.scratch.path(), series));
    }

    /// Whether its arithmetic is known to ignore the rounding mode of the processor, at every revision.
    pub fn ignores_roundings(&self) -> bool {
        self.ignores_roundings.load(Ordering::Relaxed)
    }

    /// Notes that it does.
    pub(super) fn note_ignored_roundings(&self) {
        self.ignores_roundings.store(true, Ordering::Relaxed);
    }

    /// A hash of everything behind the results, besides tree and inputs.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    fn identify(
        &self,
        user: &[(OsString, OsString)],
        device: ProgramDevice,
        keeper: &Keeper,
        bounds: &ProgramBounds,
    ) -> Result<String, ProgramError> {
        let mut hasher = blake3::Hasher::new_derive_key("replay program 1");
        let spec_text = format!("{:?} {}", self.spec, device.name());
        hash_identity_part(&mut hasher, spec_text.as_bytes());
        let executable = Path::new(&self.words[0]);
        match &self.image {
            Some(image) if !executable.starts_with(&self.folder) => {
                hash_identity_part(&mut hasher, executable.as_os_str().as_encoded_bytes());
                hash_identity_part(&mut hasher, image.id.as_bytes());
            }
            image => {
                hash_identity_part(&mut hasher, executable_state(executable).as_bytes());
                image.iter().for_each(|image| {
                    hash_identity_part(&mut hasher, image.id.as_bytes());
                });
            }
        }
        for file in find::find_command_files(&self.spec.words, &self.folder)? {
            let content = files::read_regular_file(&file, FILE_BYTES)
                .map_err(|source| ProgramError::File { path: file.clone(), source })?;
            let path = file.strip_prefix(&self.folder).unwrap_or(&file);
            hash_identity_part(&mut hasher, path.as_os_str().as_encoded_bytes());
            hash_identity_part(&mut hasher, &content);
        }
        let deciding =
            user.iter().filter(|(name, _)| is_deciding_variable(name, &self.spec.sandbox.env));
        let mut deciding: Vec<_> = deciding.collect();
        deciding.sort();
        for (name, value) in deciding {
            hash_identity_part(&mut hasher, name.as_encoded_bytes());
            hash_identity_part(&mut hasher, value.as_encoded_bytes());
        }
        if keeper.sandbox() == Sandbox::Off {
            // What such a program reached is no outcome behind walls.
            hash_identity_part(&mut hasher, b"without walls");
        }
        if let Some(command) = &self.spec.identity {
            let printed = self.run_identity_command(command, keeper, bounds)?;
            hash_identity_part(&mut hasher, &printed);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// The output of the command `identity`.
    fn run_identity_command(
        &self,
        command: &[String],
        keeper: &Keeper,
        bounds: &ProgramBounds,
    ) -> Result<Vec<u8>, ProgramError> {
        let words = self.resolve_words(command)?;
        let finished = run_program(keeper, bounds, self.command(words, &[], None))?;
        if finished.success() {
            return Ok(finished.stdout);
        }
        let error_text = String::from_utf8_lossy(&finished.stderr).into_owned();
        let message = match finished.ending {
            ProgramEnd::TimedOut => "`identity` does not end".to_owned(),
            ProgramEnd::TookMemory(excess) => format!("`identity` {excess}"),
            ProgramEnd::Ended(end) => match (last_line(&error_text), end) {
                (Some(line), _) => format!("`identity` fails: {line}"),
                (None, End::Exited(code)) => format!("`identity` fails with exit status {code}"),
                (None, End::Killed(signal)) => format!("`identity` was ended by signal {signal}"),
            },
        };
        let source = PrintedTail::beside(last_line(&error_text).as_deref(), &error_text);
        Err(ProgramError::Environment { message, source, hint: None })
    }

    /// The folders in which compilers keep what they compile, each with its variable, but for those of the harness.
    fn compiler_caches(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        let names = COMPILER_CACHES.into_iter().filter(|name| !self.spec.env.contains_key(*name));
        names.map(|name| (name, self.folders.scratch.path().join(name)))
    }

    /// The folders of scratch that code of one revision may write, with `work` for its own files; all of it without.
    fn scratch_folders(&self, work: Option<&Path>) -> Vec<PathBuf> {
        let Some(work) = work else { return vec![self.folders.scratch.path().to_owned()] };
        let caches = self.compiler_caches().map(|(_, cache)| cache);
        std::iter::once(work.to_owned()).chain(caches).collect()
    }

    /// All that a replay may write with `work` for its own files.
    pub(super) fn list_writable_paths(&self, work: &Path) -> Vec<PathBuf> {
        let program = self.walled(&self.words, &self.environment);
        let mut writable = program.list_writable_paths(&self.scratch_folders(Some(work)));
        writable.extend(DEVICES.map(PathBuf::from));
        writable
    }

    fn walled<'p>(
        &'p self,
        words: &'p [OsString],
        environment: &'p [(OsString, OsString)],
    ) -> WalledProgram<'p> {
        WalledProgram {
            commands: [words, &self.words],
            folder: &self.folder,
            environment,
            device: self.device,
            sandbox: &self.spec.sandbox,
        }
    }

    /// A command of the harness, in its folder, with `more_variables` variables. If it runs code of one revision, it has
    /// the folder `work` for its own files; without, it writes in all of scratch.
    pub(super) fn command(
        &self,
        words: Vec<OsString>,
        more_variables: &[(OsString, OsString)],
        work: Option<&Path>,
    ) -> ForeignProgram {
        let ProgramFolders { scratch, handed, trees } = &self.folders;
        let mut environment = self.environment.clone();
        // Of two with one name the last counts.
        environment.push(("TMPDIR".into(), scratch.path().into()));
        environment.extend(self.compiler_caches().map(|(name, cache)| (name.into(), cache.into())));
        environment.extend_from_slice(more_variables);
        let walled_program = self.walled(&words, &environment);
        let scratch_folders = self.scratch_folders(work);
        let handed = [trees.clone(), handed.path().to_owned()];
        let (root, walls) = match &self.image {
            Some(image) => {
                let (root, walls) = walled_program.enclose(image, &handed, &scratch_folders);
                (Some(root), walls)
            }
            None => {
                let mut walls = walled_program.walls(&scratch_folders);
                walls.readable.extend(handed);
                (None, walls)
            }
        };
        let folder = Some(self.folder.clone());
        let temporary_folders = Vec::new();
        ForeignProgram {
            words,
            environment,
            folder,
            temporary_folders,
            walls: Some(walls),
            root,
            is_trusted: false,
        }
    }

    /// The words of the harness's command `build`, if it has one. It runs in `tree`.
    pub(super) fn build_words(&self, tree: &Path) -> Option<Result<Vec<OsString>, ProgramError>> {
        let words = self.spec.build.as_ref()?;
        Some(self.find_executable(&words[0], tree).map(|file| with_file(file, words)))
    }

    /// `words`, with the path of the executable in the first place.
    fn resolve_words(&self, words: &[String]) -> Result<Vec<OsString>, ProgramError> {
        let file = self.find_executable(&words[0], &self.folder)?;
        // A missing script would look like a failure of each revision.
        find::find_command_files(words, &self.folder)?;
        Ok(with_file(file, words))
    }

    /// The executable behind `word`: a path is relative to `folder`, a bare name is searched in the folders of `PATH`, of
    /// the image if there is one.
    fn find_executable(&self, word: &str, folder: &Path) -> Result<PathBuf, ProgramError> {
        let search_path = executable_search_path(&self.environment);
        let is_path_here =
            word.contains('/') && (!word.starts_with('/') || Path::new(word).starts_with(folder));
        match &self.image {
            Some(image) if !is_path_here => image.find_executable(word, search_path),
            _ => find::find_program_executable(word, folder, search_path),
        }
    }

    /// Tells a program in an image where the package for Python keeps its files: its home is another one.
    fn keep_cache_folder(&mut self, user: &[(OsString, OsString)]) {
        let value = |name: &str| {
            user.iter().find(|(known_name, _)| known_name == name).map(|(_, value)| value)
        };
        let around = ["REPLAY_CACHE_DIR", "XDG_CACHE_HOME"].into_iter().find_map(value);
        let home = || Some(PathBuf::from(value("HOME")?).join(".cache"));
        if let Some(around) = around.map(PathBuf::from).or_else(home) {
            let around = self.folder.join(around);
            set_variable(&mut self.environment, "REPLAY_CACHE_DIR", around.as_os_str());
        }
    }
}

/// Adds `bytes` after their number, so that no two lists of parts hash alike.
fn hash_identity_part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Runs `program` to its end.
pub(super) fn run_program(
    keeper: &Keeper,
    bounds: &ProgramBounds,
    program: ForeignProgram,
) -> Result<Finished, ProgramError> {
    keeper.run(&program, bounds).map_err(|error| match error {
        KeeperError::Keeper(source) => {
            ProgramError::System { doing: "start a process that watches over it", source }
        }
        KeeperError::Program(source) => {
            ProgramError::Start { program: program.words[0].to_string_lossy().into_owned(), source }
        }
        KeeperError::Root(reason) => ProgramError::Root { reason },
    })
}

/// Whether a command ended as a shell does without its program.
pub(super) fn is_lacking(end: End) -> bool {
    matches!(end, End::Exited(126 | 127))
}

/// `words` with `file` in the place of the first.
fn with_file(file: PathBuf, words: &[String]) -> Vec<OsString> {
    let arguments = words[1..].iter().map(OsString::from);
    std::iter::once(file.into_os_string()).chain(arguments).collect()
}

fn executable_search_path(environment: &[(OsString, OsString)]) -> Option<&std::ffi::OsStr> {
    environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str())
}

/// The path of an executable, the file behind its links, and the state of this file.
fn executable_state(file: &Path) -> String {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let state = std::fs::metadata(&real);
    let state =
        state.map(|metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec())).ok();
    format!("{} {} {state:?}", file.display(), real.display())
}
