//! The files with settings: where they lie, and what they may say.
//!
//! A repository's file comes with a checkout, perhaps a stranger's. It is read without following a link out of the
//! repository, and may ask for less than the user does, never for more.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::replay::files;
use ::replay::harness::{Table, TomlDocument, TomlError, TomlNumber, TomlValue};
use ::replay::trial::GradientEffort;
use ::replay::worker::Limits;

use super::super::error::{CliResult, CommandError};
use super::key::{Key, KeyShape};
use super::layer::Layer;
use super::values::{SandboxArg, format_bytes, format_seconds};
use super::{FileLine, MOST_USUAL_JOBS, Origin, Setting, find_home};

/// A repository's file of settings, in this folder or one above it.
const REPOSITORY_FILE: &str = "replay.config.toml";
/// The file of a project in Python; settings may stand in its table `tool.replay`.
const PROJECT_FILE: &str = "pyproject.toml";
/// The user's file, in the folder for configuration.
const USER_FILE: &str = "replay/config.toml";
/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 20;
/// The longest time that a repository may ask for: of a replay, and of the gradients of a fixture.
const LONGEST_OF_REPOSITORY: Duration = Duration::from_secs(600);

/// The files that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    /// The repository's.
    pub repository: Option<PathBuf>,
    /// The user's.
    pub user: Option<PathBuf>,
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    Repository,
    User,
}

/// Reads the files for a command in `folder`: their names, then the repository's settings and the user's.
pub fn read_config_files(
    read: &dyn Fn(&str) -> Option<OsString>,
    folder: &Path,
) -> CliResult<(ConfigFiles, Layer, Layer)> {
    let mut files = ConfigFiles::default();
    let mut user_layer = Layer::default();
    let user_file = user_file_place(read);
    if let Some(path) = user_file.as_deref().filter(|path| is_there(path)) {
        let text = read_config_text(path)?;
        let reader = ConfigReader { author: Author::User, home: find_home(read), user_file: None };
        user_layer = reader.read_root(TomlDocument { path, text: &text })?;
        files.user = Some(path.to_owned());
    }
    let mut repository_layer = Layer::default();
    let reader = ConfigReader { author: Author::Repository, home: None, user_file };
    if let Some((path, layer)) = reader.find_repository_layer(folder)? {
        repository_layer = layer;
        files.repository = Some(path);
    }
    Ok((files, repository_layer, user_layer))
}

/// The place of the user's file; none without a home.
fn user_file_place(read: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = read("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named.or_else(|| Some(find_home(read)?.join(".config")))?;
    Some(folder.join(USER_FILE))
}

/// Whether anything has this name, a link to nothing, too.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn read_config_text(path: &Path) -> Result<String, TomlError> {
    files::read_text(path, MOST_BYTES)
        .map_err(|source| TomlError::Read { path: path.to_owned(), source })
}

/// The root of the repository around `folder`.
fn find_repository_root(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| is_there(&folder.join(".git")))
}

/// `path` as a user in `folder` writes it.
fn shorten_path(path: &Path, folder: &Path) -> PathBuf {
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

/// Where `path` leads to, if it leads out of the folder `root`.
fn find_way_out(path: &Path, root: &Path) -> io::Result<Option<PathBuf>> {
    let target = path.canonicalize()?;
    Ok((!target.starts_with(root.canonicalize()?)).then_some(target))
}

/// Reads the settings of one file.
struct ConfigReader {
    author: Author,
    /// What `~` stands for.
    home: Option<PathBuf>,
    /// The file to name in hints.
    user_file: Option<PathBuf>,
}

impl ConfigReader {
    /// The nearest file with settings in `folder` or above, up to the root of its repository.
    fn find_repository_layer(&self, folder: &Path) -> CliResult<Option<(PathBuf, Layer)>> {
        let Some(root) = find_repository_root(folder) else { return Ok(None) };
        for place in folder.ancestors().take_while(|place| place.starts_with(root)) {
            let project_layer = self.read_project_file(place, root, folder)?;
            let own_path = place.join(REPOSITORY_FILE);
            if !is_there(&own_path) {
                match project_layer {
                    Some(layer) => {
                        let path = shorten_path(&place.join(PROJECT_FILE), folder);
                        return Ok(Some((path, layer)));
                    }
                    None => continue,
                }
            }
            let path = shorten_path(&own_path, folder);
            if project_layer.is_some() {
                return Err(CommandError::new(format!(
                    "there are settings in {} and in [tool.replay] of {PROJECT_FILE} beside it",
                    path.display()
                ))
                .with_hint("keep one of them"));
            }
            self.refuse_way_out(&own_path, root, &path)?;
            let text = read_config_text(&own_path).map_err(|error| rename_file(error, &path))?;
            let layer = self.read_root(TomlDocument { path: &path, text: &text })?;
            return Ok(Some((path, layer)));
        }
        Ok(None)
    }

    /// Refuses a file that lies elsewhere: its lines are shown in messages.
    fn refuse_way_out(&self, path: &Path, root: &Path, shown_path: &Path) -> CliResult<()> {
        let way_out = find_way_out(path, root)
            .map_err(|source| TomlError::Read { path: shown_path.to_owned(), source })?;
        match way_out {
            None => Ok(()),
            Some(target) => Err(CommandError::new(format!(
                "{} leads out of the repository, to {}",
                shown_path.display(),
                target.display()
            ))
            .with_hint("settings of a repository lie in it: put the file itself there")),
        }
    }

    /// The settings in `[tool.replay]` of the project's file in `place`, if there are any. A file of other tools is
    /// none of ours, whatever is wrong with it.
    fn read_project_file(
        &self,
        place: &Path,
        root: &Path,
        folder: &Path,
    ) -> CliResult<Option<Layer>> {
        let own_path = place.join(PROJECT_FILE);
        if !own_path.is_file() || !matches!(find_way_out(&own_path, root), Ok(None)) {
            return Ok(None);
        }
        let path = shorten_path(&own_path, folder);
        let bytes = files::read_regular_file(&own_path, MOST_BYTES)
            .map_err(|source| TomlError::Read { path: path.clone(), source })?;
        let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
        if !text.contains("replay") {
            return Ok(None);
        }
        let document = TomlDocument { path: &path, text: &text };
        let table = document.parse()?;
        let Some(tools) = document.root(&table).get("tool") else { return Ok(None) };
        match tools.table()?.get("replay") {
            Some(own_table) => Ok(Some(self.read_layer(&own_table.table()?)?)),
            None => Ok(None),
        }
    }

    /// The settings in a file of our own.
    fn read_root(&self, document: TomlDocument<'_>) -> CliResult<Layer> {
        self.read_layer(&document.root(&document.parse()?))
    }

    fn read_layer(&self, table: &Table<'_>) -> CliResult<Layer> {
        let (in_tables, plain): (Vec<&str>, Vec<&str>) =
            Key::ALL.iter().map(|key| key.name()).partition(|name| name.contains('.'));
        let split_names = in_tables.iter().filter_map(|name| name.split_once('.'));
        let (mut tables, inner_names): (Vec<&str>, Vec<&str>) = split_names.unzip();
        tables.dedup();
        table.only(&[plain, tables.clone()].concat())?;
        let mut layer = Layer::default();
        for entry in table.entries() {
            if !tables.contains(&entry.name) {
                self.read_value(&mut layer, entry.name, &entry)?;
                continue;
            }
            let inner_table = entry.table()?;
            inner_table.only(&inner_names)?;
            for inner_entry in inner_table.entries() {
                let name = format!("{}.{}", entry.name, inner_entry.name);
                self.read_value(&mut layer, &name, &inner_entry)?;
            }
        }
        Ok(layer)
    }

    /// Reads the value of the key with this name into `layer`.
    fn read_value(&self, layer: &mut Layer, name: &str, value: &TomlValue<'_>) -> CliResult<()> {
        let key = Key::from_name(name).expect("unknown keys were refused");
        if self.author == Author::Repository
            && let Some(reason) = key.why_not_for_repositories()
        {
            return Err(self.refuse_key(key, reason, value));
        }
        let text = read_text_of_value(key, value)?;
        let spot = value.spot();
        let line = FileLine { path: spot.path.clone(), line: spot.line };
        let origin = match self.author {
            Author::Repository => Origin::Repository(line),
            Author::User => Origin::User(line),
        };
        let set = self.settle_path(key, text).and_then(|text| layer.set(key, &text, origin));
        let set = match self.author {
            Author::Repository => set.and_then(|()| refuse_more_than_safe(key, layer)),
            Author::User => set,
        };
        set.map_err(|problem| {
            CommandError::new(format!("`{}` at {spot}: {problem}", value.key))
                .with_spot(Some(&spot))
        })
    }

    fn refuse_key(&self, key: Key, reason: &str, value: &TomlValue<'_>) -> CommandError {
        let spot = value.key_spot();
        let variable = key.variable();
        let hint = match &self.user_file {
            Some(file) => format!("set it in {}, or by {variable}", file.display()),
            None => format!("set it by {variable}"),
        };
        CommandError::new(format!("`{}` at {spot} is not for a repository: {reason}", value.key))
            .with_spot(Some(&spot))
            .with_hint(hint)
    }

    /// `text` as a value of `key`: a path must begin somewhere.
    fn settle_path(&self, key: Key, text: String) -> Result<OsString, String> {
        if !matches!(key, Key::CacheDir | Key::CacheShared) || Path::new(&text).is_absolute() {
            return Ok(text.into());
        }
        match (text.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => Ok(home.join(rest).into()),
            (Some(_), None) => Err("there is no home: HOME is not set".to_owned()),
            (None, _) => Err("it must be an absolute path, or begin with ~/".to_owned()),
        }
    }
}

/// `error`, about the file as the user writes it.
fn rename_file(error: TomlError, path: &Path) -> TomlError {
    match error {
        TomlError::Read { source, .. } => TomlError::Read { path: path.to_owned(), source },
        error => error,
    }
}

/// `value` as a variable would say it.
fn read_text_of_value(key: Key, value: &TomlValue<'_>) -> Result<String, TomlError> {
    let shape = key.shape();
    let number = value.number().ok();
    match (shape, number) {
        (KeyShape::Words, _) if value.is_list() => {
            let items = value.list(shape.expected())?;
            let words: Result<Vec<String>, TomlError> =
                items.iter().map(TomlValue::string).collect();
            Ok(words?.join(","))
        }
        (KeyShape::Text | KeyShape::Words | KeyShape::Size | KeyShape::Effort, _)
            if value.is_string() =>
        {
            value.string()
        }
        (
            KeyShape::Count | KeyShape::Number | KeyShape::Size | KeyShape::Effort,
            Some(TomlNumber::Integer(number)),
        ) => Ok(number.to_string()),
        (KeyShape::Number | KeyShape::Effort, Some(TomlNumber::Float(number))) => {
            Ok(number.to_string())
        }
        _ => Err(value.wrong_type(shape.expected())),
    }
}

/// Refuses what a repository sets `key` to in `layer`, if that could harm: a limit above the usual ones, a sandbox with
/// fewer walls.
fn refuse_more_than_safe(key: Key, layer: &Layer) -> Result<(), String> {
    let at_most = |most: String| Err(format!("a repository may ask for at most {most}"));
    let effort = layer.gradients.as_ref().map(|gradients| gradients.value);
    let sandbox = layer.sandbox.as_ref().map(|sandbox| sandbox.value);
    match (key, effort) {
        (Key::Timeout, _) if is_above(&layer.timeout, LONGEST_OF_REPOSITORY) => {
            at_most(format_seconds(LONGEST_OF_REPOSITORY))
        }
        (Key::Memory, _) if is_above(&layer.memory, Limits::MEMORY_LIMIT_BYTES) => {
            at_most(format_bytes(Limits::MEMORY_LIMIT_BYTES))
        }
        (Key::Jobs, _) if is_above(&layer.jobs, MOST_USUAL_JOBS) => {
            at_most(MOST_USUAL_JOBS.to_string())
        }
        (Key::Gradients, Some(GradientEffort::Full)) => {
            at_most(format_seconds(LONGEST_OF_REPOSITORY))
        }
        (Key::Gradients, Some(GradientEffort::Within(time))) if time > LONGEST_OF_REPOSITORY => {
            at_most(format_seconds(LONGEST_OF_REPOSITORY))
        }
        (Key::Sandbox, _) if sandbox != Some(SandboxArg::Strict) => {
            Err("a repository may ask for \"strict\" alone".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether a setting is above `most`.
fn is_above<T: PartialOrd>(setting: &Option<Setting<T>>, most: T) -> bool {
    setting.as_ref().is_some_and(|setting| setting.value > most)
}
