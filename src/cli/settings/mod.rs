//! The settings in force: the one place where options, environment, files and defaults become what the rest of the
//! program reads. `docs/configuration.md` describes the keys.

mod files;
mod key;
mod layer;
pub mod values;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ::replay::harness::find_nearest_word;
use ::replay::tensor::count_cores;
use ::replay::trial::GradientEffort;
use ::replay::worker::Limits;

use self::files::ConfigFiles;
pub use self::key::Key;
pub use self::layer::Layer;
use self::values::{
    ColorArg, DeviceArg, SandboxArg, format_bytes, format_choice, format_devices, format_seconds,
};
use super::error::{CliResult, CommandError, ErrorContext};

/// Set, it keeps all files from being read, as `--no-config` does.
pub const NO_CONFIG: &str = "REPLAY_NO_CONFIG";
/// More tests at a time hardly save rounds of a search.
const MOST_USUAL_JOBS: NonZeroUsize = NonZeroUsize::new(8).expect("more than 0");

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line, by its name.
    Flag(&'static str),
    /// An environment variable, by its name.
    Variable(&'static str),
    /// A file of the repository.
    Repository(FileLine),
    /// The user's file.
    User(FileLine),
    /// Nobody has set it.
    Default,
}

impl Origin {
    /// Advice on a setting that does not fit a command and that the command line does not show.
    pub fn hint(&self) -> Option<String> {
        match self {
            Origin::Flag(_) | Origin::Default => None,
            Origin::Variable(_) | Origin::Repository(_) | Origin::User(_) => {
                Some(format!("it is set by {self}; an option has the last word"))
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) | Origin::Variable(name) => f.write_str(name),
            Origin::Repository(place) | Origin::User(place) => {
                write!(f, "{}:{}", place.path.display(), place.line)
            }
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLine {
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

/// A value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// `value`, set by `origin`.
    pub fn new(value: T, origin: Origin) -> Setting<T> {
        Setting { value, origin }
    }

    /// `value`, an option of the command line, if it is there.
    pub fn from_flag(value: Option<T>, flag: &'static str) -> Option<Setting<T>> {
        value.map(|value| Setting::new(value, Origin::Flag(flag)))
    }
}

/// The settings in force. None is a value that the machine or the command decides about.
#[derive(Clone, Debug)]
pub struct Settings {
    pub backend: Setting<Vec<DeviceArg>>,
    pub timeout: Setting<Duration>,
    pub memory: Setting<Option<u64>>,
    threads: Setting<Option<NonZeroUsize>>,
    jobs: Setting<Option<NonZeroUsize>>,
    pub gradients: Setting<GradientEffort>,
    pub sandbox: Setting<SandboxArg>,
    pub color: Setting<ColorArg>,
    pub cxx: Setting<Option<OsString>>,
    cache_dir: Setting<Option<PathBuf>>,
    cache_shared: Setting<Option<PathBuf>>,
    pub cache_size: Setting<Option<u64>>,
    /// The files that were read.
    pub files: ConfigFiles,
}

/// The sources of settings, the first with the last word.
#[derive(Default)]
struct Layers {
    flags: Layer,
    environment: Layer,
    repository: Layer,
    user: Layer,
}

impl Layers {
    /// The first setting in the order of the sources.
    fn find<T: Clone>(&self, get: impl Fn(&Layer) -> &Option<Setting<T>>) -> Option<Setting<T>> {
        let layers = [&self.flags, &self.environment, &self.repository, &self.user];
        layers.into_iter().find_map(|layer| get(layer).clone())
    }

    /// The same of a limit: the repository's counts up to the user's own.
    fn find_limit<T: Clone + PartialOrd>(
        &self,
        get: impl Fn(&Layer) -> &Option<Setting<T>>,
    ) -> Option<Setting<T>> {
        let found = self.find(&get)?;
        match (&found.origin, get(&self.user)) {
            (Origin::Repository(_), Some(own)) if found.value > own.value => Some(own.clone()),
            _ => Some(found),
        }
    }
}

/// `found`, where nobody has to have set it.
fn or_undecided<T>(found: Option<Setting<T>>) -> Setting<Option<T>> {
    match found {
        Some(Setting { value, origin }) => Setting::new(Some(value), origin),
        None => Setting::new(None, Origin::Default),
    }
}

/// `found`, or the default `value`.
fn or_default<T>(found: Option<Setting<T>>, value: T) -> Setting<T> {
    found.unwrap_or_else(|| Setting::new(value, Origin::Default))
}

/// One setting for `replay config`.
pub struct SettingLine {
    pub key: Key,
    /// As a variable or a file would say it; none if nothing is decided yet.
    pub value: Option<String>,
    pub origin: Origin,
}

impl Settings {
    /// The settings of a command with these options, in this environment and in the current folder. `reads_files` is
    /// what its options say about files.
    ///
    /// # Errors
    /// A variable or a file that is not understood, or a repository that sets what it may not.
    pub fn load(flags: Layer, reads_files: bool) -> CliResult<Settings> {
        let read = |name: &str| std::env::var_os(name);
        let folder = std::env::current_dir().context(|| "cannot find the working directory")?;
        Settings::load_from(flags, reads_files, &read, &folder)
    }

    /// The same in the environment that `read` gives, and in `folder`.
    fn load_from(
        flags: Layer,
        reads_files: bool,
        read: &dyn Fn(&str) -> Option<OsString>,
        folder: &Path,
    ) -> CliResult<Settings> {
        let environment = Layer::from_environment(read)?;
        let (files, repository, user) = if reads_files && !is_set(read(NO_CONFIG)) {
            files::read_config_files(read, folder)?
        } else {
            Default::default()
        };
        let layers = Layers { flags, environment, repository, user };
        Ok(Settings::from_layers(&layers, files, read))
    }

    /// The defaults, for a look at a machine whose settings cannot be read.
    pub fn without_sources() -> Settings {
        let read = |name: &str| std::env::var_os(name);
        Settings::from_layers(&Layers::default(), ConfigFiles::default(), &read)
    }

    fn from_layers(
        layers: &Layers,
        files: ConfigFiles,
        read: &dyn Fn(&str) -> Option<OsString>,
    ) -> Settings {
        let cache_dir = layers.find(|layer| &layer.cache_dir).or_else(|| usual_cache_place(read));
        Settings {
            backend: or_default(layers.find(|layer| &layer.backend), vec![DeviceArg::Cpu]),
            timeout: or_default(layers.find_limit(|layer| &layer.timeout), Limits::TIMEOUT),
            memory: or_undecided(layers.find_limit(|layer| &layer.memory)),
            threads: or_undecided(layers.find(|layer| &layer.threads)),
            jobs: or_undecided(layers.find_limit(|layer| &layer.jobs)),
            gradients: or_default(layers.find(|layer| &layer.gradients), GradientEffort::default()),
            sandbox: or_default(layers.find(|layer| &layer.sandbox), SandboxArg::default()),
            color: or_default(layers.find(|layer| &layer.color), ColorArg::default()),
            cxx: or_undecided(layers.find(|layer| &layer.cxx)),
            cache_dir: or_undecided(cache_dir),
            cache_shared: or_undecided(layers.find(|layer| &layer.cache_shared)),
            cache_size: or_undecided(layers.find(|layer| &layer.cache_size)),
            files,
        }
    }

    /// The limits of one child process.
    pub fn limits(&self) -> Limits {
        let memory_limit_bytes = self.memory.value.unwrap_or(Limits::MEMORY_LIMIT_BYTES);
        Limits { timeout: self.timeout.value, memory_limit_bytes }
    }

    /// Cores for thread blocks.
    pub fn threads(&self) -> usize {
        self.threads.value.map_or_else(count_cores, NonZeroUsize::get)
    }

    /// The number of concurrent tests on this machine.
    pub fn jobs(&self) -> NonZeroUsize {
        let cores = NonZeroUsize::new(self.threads()).unwrap_or(NonZeroUsize::MIN);
        self.jobs.value.unwrap_or(cores.min(MOST_USUAL_JOBS))
    }

    /// The number of concurrent tests that an option or a variable asks for: files speak of this machine, not of a
    /// cluster.
    pub fn jobs_on_cluster(&self) -> Option<usize> {
        match self.jobs.origin {
            Origin::Flag(_) | Origin::Variable(_) => self.jobs.value.map(NonZeroUsize::get),
            Origin::Repository(_) | Origin::User(_) | Origin::Default => None,
        }
    }

    /// The folder around the cache's own.
    ///
    /// # Errors
    /// If nobody has named one, and there is no home.
    pub fn cache_folder(&self) -> CliResult<PathBuf> {
        let chosen_folder = self.cache_dir.value.as_deref().ok_or_else(|| {
            CommandError::new("no place for the cache: neither REPLAY_CACHE_DIR nor HOME is set")
                .with_hint("set REPLAY_CACHE_DIR to a folder that can be written")
        })?;
        Ok(resolve_parents(&std::path::absolute(chosen_folder)?))
    }

    /// The folder of a shared cache behind the cache, if there is one.
    pub fn shared_cache_folder(&self) -> CliResult<Option<PathBuf>> {
        Ok(self.cache_shared.value.as_deref().map(std::path::absolute).transpose()?)
    }

    /// The folder around the cache's own, where a file names it: what is started beside the cache has it from a variable.
    pub fn cache_folder_of_file(&self) -> Option<&Path> {
        match self.cache_dir.origin {
            Origin::Repository(_) | Origin::User(_) => self.cache_dir.value.as_deref(),
            Origin::Flag(_) | Origin::Variable(_) | Origin::Default => None,
        }
    }

    /// Variables that give another process of this program these settings, besides its options, its colours and the place
    /// of its cache.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![(NO_CONFIG, OsString::from("1"))];
        for line in self.lines() {
            let is_passed_otherwise = matches!(line.key, Key::Color | Key::CacheDir | Key::Cxx);
            let is_told = !matches!(line.origin, Origin::Flag(_) | Origin::Default);
            if let (false, true, Some(value)) = (is_passed_otherwise, is_told, line.value) {
                variables.push((line.key.variable(), value.into()));
            }
        }
        variables.extend(self.cxx.value.clone().map(|cxx| (Key::Cxx.variable(), cxx)));
        variables
    }

    /// Each setting, in the order of the keys.
    pub fn lines(&self) -> Vec<SettingLine> {
        Key::ALL.into_iter().map(|key| self.line(key)).collect()
    }

    /// The setting `key`.
    pub fn line(&self, key: Key) -> SettingLine {
        let path_words = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
        let (value, origin) = match key {
            Key::Backend => (Some(format_devices(&self.backend.value)), &self.backend.origin),
            Key::Timeout => (Some(format_seconds(self.timeout.value)), &self.timeout.origin),
            Key::Memory => {
                (Some(format_bytes(self.limits().memory_limit_bytes)), &self.memory.origin)
            }
            Key::Threads => (Some(self.threads().to_string()), &self.threads.origin),
            Key::Jobs => (Some(self.jobs().to_string()), &self.jobs.origin),
            Key::Gradients => (Some(self.gradients.value.to_string()), &self.gradients.origin),
            Key::Sandbox => (Some(format_choice(self.sandbox.value)), &self.sandbox.origin),
            Key::Color => (Some(format_choice(self.color.value)), &self.color.origin),
            Key::Cxx => {
                let words = self.cxx.value.as_ref().map(|cxx| cxx.display().to_string());
                (words, &self.cxx.origin)
            }
            Key::CacheDir => (path_words(&self.cache_dir.value), &self.cache_dir.origin),
            Key::CacheShared => (path_words(&self.cache_shared.value), &self.cache_shared.origin),
            Key::CacheSize => (self.cache_size.value.map(format_bytes), &self.cache_size.origin),
        };
        SettingLine { key, value, origin: origin.clone() }
    }
}

/// The key whose name is nearly `name`, if there is one.
pub fn nearest_key(name: &str) -> Option<String> {
    find_nearest_word(name, Key::ALL.iter().map(|key| key.name()))
}

/// Whether a variable of this value says yes.
fn is_set(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|no| value == *no))
}

/// The folder for caches in the XDG Base Directory Specification.
fn usual_cache_place(read: &dyn Fn(&str) -> Option<OsString>) -> Option<Setting<PathBuf>> {
    const CACHES: &str = "XDG_CACHE_HOME";
    let named = read(CACHES).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = named.map(|path| Setting::new(path, Origin::Variable(CACHES)));
    named.or_else(|| Some(Setting::new(find_home(read)?.join(".cache"), Origin::Default)))
}

/// The user's home.
fn find_home(read: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    read("HOME").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty())
}

/// `path` without `..`: a compiler names its files without them, and the paths of a cache are compared with those. What
/// stands before the last `..` is resolved as the system does it, links included.
fn resolve_parents(path: &Path) -> PathBuf {
    let components: Vec<Component> = path.components().collect();
    let Some(last) = components.iter().rposition(|part| *part == Component::ParentDir) else {
        return path.to_owned();
    };
    let (before, behind) = components.split_at(last + 1);
    match before.iter().collect::<PathBuf>().canonicalize() {
        Ok(folder) => folder.join(behind.iter().collect::<PathBuf>()),
        // Making the folder says what is wrong with it.
        Err(_) => path.to_owned(),
    }
}
