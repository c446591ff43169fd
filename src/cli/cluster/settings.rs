//! The place and the needs of tasks: options, and `replay.cluster.toml` for a team's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::replay::cluster::{Local, Scheduler, Slurm};
use ::replay::files;
use ::replay::harness::TextSpot;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::super::error::{CliResult, CommandError, ErrorContext};
use super::super::settings::Settings;

/// The file of a team's settings, in this folder or one above it.
const FILE: &str = "replay.cluster.toml";
/// The most bytes of it.
const LIMIT: u64 = 1 << 20;
/// Tasks at a time, if nobody says otherwise.
const WIDTH: usize = 16;
/// Seconds between two questions to a scheduler.
const INTERVAL: f64 = 5.0;

/// The options of commands whose work can be spread over a cluster.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Clusters")]
pub struct ClusterArgs {
    /// Make tests and replays as tasks of a scheduler; docs/cluster.md says what it needs
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub on_cluster: Option<Engine>,
    /// The partition of the tasks
    #[arg(long, value_name = "NAME", requires = "on_cluster")]
    partition: Option<String>,
    /// What a task needs of a node, such as gpu:1
    #[arg(long, value_name = "LIST", requires = "on_cluster")]
    gres: Option<String>,
    /// A further option for sbatch, as one word: --cluster-arg=--account=physics
    #[arg(long, value_name = "OPTION", requires = "on_cluster", allow_hyphen_values = true)]
    cluster_arg: Vec<String>,
    /// The folder for tasks and their results, which all nodes share [default: in the cache]
    #[arg(long, value_name = "DIR", requires = "on_cluster")]
    cluster_dir: Option<PathBuf>,
}

/// The scheduler of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Slurm: job arrays
    Slurm,
    /// Processes of this machine
    Local,
}

/// The options about the cluster, each with a value.
const OPTIONS: [&str; 5] =
    ["--on-cluster", "--partition", "--gres", "--cluster-arg", "--cluster-dir"];

/// The option for the working folder of a command. A task works there in any case.
const FOLDER: &str = "-C";

/// The words of a command without those about the cluster.
pub(super) fn without_cluster(words: impl Iterator<Item = OsString>) -> CliResult<Vec<String>> {
    let mut kept_words = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        let word = word.into_string().map_err(|word| {
            CommandError::new(format!("{} is no text", word.display()))
                .with_hint("tasks on a cluster are told their words in UTF-8")
        })?;
        match word.split_once('=') {
            _ if word == FOLDER || OPTIONS.contains(&word.as_str()) => drop(words.next()),
            _ if word.starts_with(FOLDER) => {}
            Some((name, _)) if OPTIONS.contains(&name) => {}
            _ => kept_words.push(word),
        }
    }
    Ok(kept_words)
}

/// Options of `sbatch` with a value from replay itself, or at odds with its tasks.
const OWN: [&str; 8] =
    ["--array", "-a", "--wait", "-W", "--wrap", "--parsable", "--job-name", "-J"];

fn is_own(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or_default();
    let is_short_option = OWN
        .iter()
        .any(|option| option.len() == 2 && !name.starts_with("--") && name.starts_with(option));
    is_short_option || OWN.contains(&name)
}

/// A team's settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    partition: Option<String>,
    gres: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    folder: Option<PathBuf>,
    cache: Option<String>,
    jobs: Option<usize>,
    interval: Option<f64>,
}

/// The settings from options and file.
pub(super) struct ClusterSettings {
    engine: Engine,
    slurm: Slurm,
    pub folder: PathBuf,
    /// The folder of a node's own cache, with variables of the node's; none if all share one.
    pub cache: Option<String>,
    pub width: usize,
    /// The settings of the command, which its tasks have as well.
    pub in_force: Settings,
}

impl ClusterArgs {
    /// The settings of these options and the team's file, beside those `in_force` for the command.
    pub(super) fn settings(&self, in_force: &Settings) -> CliResult<ClusterSettings> {
        let working_folder =
            std::env::current_dir().context(|| "cannot find the working directory")?;
        let file =
            match working_folder.ancestors().map(|folder| folder.join(FILE)).find(|p| p.exists()) {
                Some(path) => read_cluster_file(&path)?,
                None => ClusterFile::default(),
            };
        let folder = match (&self.cluster_dir, &file.folder) {
            (Some(folder), _) | (None, Some(folder)) => folder.clone(),
            (None, None) => in_force.cache_folder()?.join("cluster"),
        };
        let mut arguments = file.arguments;
        arguments.extend(self.cluster_arg.iter().cloned());
        if let Some(own_argument) = arguments.iter().find(|argument| is_own(argument)) {
            return Err(CommandError::new(format!(
                "{own_argument} is not for the user of --cluster-arg"
            ))
            .with_hint("which tasks there are, and how they are waited for, says replay"));
        }
        Ok(ClusterSettings {
            engine: self.on_cluster.unwrap_or(Engine::Local),
            slurm: Slurm::new(
                self.partition.clone().or(file.partition),
                self.gres.clone().or(file.gres),
                arguments,
                Duration::from_secs_f64(file.interval.unwrap_or(INTERVAL)),
            ),
            folder: std::path::absolute(&folder)?,
            cache: file.cache,
            width: in_force.jobs_on_cluster().or(file.jobs).unwrap_or(WIDTH),
            in_force: in_force.clone(),
        })
    }
}

impl ClusterSettings {
    pub(super) fn scheduler(&self) -> Box<dyn Scheduler> {
        match self.engine {
            Engine::Slurm => Box::new(self.slurm.clone()),
            Engine::Local => Box::new(Local::default()),
        }
    }
}

fn read_cluster_file(path: &Path) -> CliResult<ClusterFile> {
    let text =
        files::read_text(path, LIMIT).context(|| format!("cannot use {}", path.display()))?;
    let file: ClusterFile = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let spot = TextSpot::of_text(path, &text, error.span().unwrap_or(0..0));
        CommandError::new(format!("{} at {spot}", error.message()))
            .with_hint("its keys are partition, gres, arguments, folder, cache, jobs and interval")
            .with_spot(Some(&spot))
    })?;
    if file.jobs.is_some_and(|jobs| !(1..=1024).contains(&jobs)) {
        return Err(cluster_key_error(path, &text, "jobs", "is not 1 to 1024"));
    }
    if let Some(cache) = &file.cache
        && !is_absolute_cache_path(cache)
    {
        let complaint = "is no absolute path, which may hold variables as $NAME and ${NAME},";
        return Err(cluster_key_error(path, &text, "cache", complaint));
    }
    let interval = file.interval.unwrap_or(INTERVAL);
    if !(0.05..=3600.0).contains(&interval) {
        return Err(cluster_key_error(path, &text, "interval", "is not 0.05 to 3600 seconds"));
    }
    Ok(file)
}

/// Whether `cache` is an absolute path for a shell between double quotes: variables are its only expansions.
fn is_absolute_cache_path(cache: &str) -> bool {
    let is_absolute = cache.starts_with('/') || cache.starts_with('$');
    is_absolute && !["\"", "`", "\\", "$(", "\n"].iter().any(|part| cache.contains(part))
}

/// The complaint about `key` in the settings `text` of the file `path`.
fn cluster_key_error(path: &Path, text: &str, key: &str, complaint: &str) -> CommandError {
    let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some(*end - line.len()..*end - line.len() + line.trim_end().len())
    });
    let range = lines.find(|range| text[range.clone()].starts_with(key));
    let spot = TextSpot::of_text(path, text, range.unwrap_or(0..0));
    CommandError::new(format!("{key} {complaint} at {spot}")).with_spot(Some(&spot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_hears_all_words_but_those_about_the_cluster() {
        let words = "bisect fixtures/a --good x --on-cluster slurm --bad y --gres=gpu:1 \
                     --cluster-arg --account=physics --jobs 4 --cluster-dir /shared -C there";
        let kept = without_cluster(words.split_whitespace().map(OsString::from)).unwrap();
        assert_eq!(kept.join(" "), "bisect fixtures/a --good x --bad y --jobs 4");
    }

    #[test]
    fn options_that_replay_gives_itself_are_not_for_users() {
        for own in ["--array=0-9", "-a0-9", "--wait", "-W", "--wrap=true", "--job-name=x"] {
            assert!(is_own(own), "{own}");
        }
        for other in ["--account=physics", "-A", "-t30", "--wait-all-nodes=1", "--mem=4G"] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn wrong_settings_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = read_cluster_file(&path).unwrap_err();
            let text = error.text().words().join("\n");
            text.replace(&path.display().to_string(), FILE)
        };
        insta::assert_snapshot!(refused("jobs = 4\npartitions = 'gpu'\n"), @"
        error: unknown field `partitions`, expected one of `partition`, `gres`, `arguments`, `folder`, `cache`, `jobs`, `interval` at replay.cluster.toml:2:1
          |
        2 | partitions = 'gpu'
          | ^^^^^^^^^^
        hint: its keys are partition, gres, arguments, folder, cache, jobs and interval
        ");
        insta::assert_snapshot!(refused("jobs = 0"), @"
        error: jobs is not 1 to 1024 at replay.cluster.toml:1:1
          |
        1 | jobs = 0
          | ^^^^^^^^
        ");
        for cache in ["~/x", "x", "/x/$(id)", "/x/`id`", "/x/\\\"; id"] {
            let told = refused(&format!("cache = '{cache}'"));
            let message = "error: cache is no absolute path, which may hold variables as $NAME and \
                           ${NAME}, at replay.cluster.toml:1:1\n";
            assert!(told.starts_with(message) && told.contains(&format!("'{cache}'\n")), "{told}");
        }
        insta::assert_snapshot!(refused("interval = 0"), @"
        error: interval is not 0.05 to 3600 seconds at replay.cluster.toml:1:1
          |
        1 | interval = 0
          | ^^^^^^^^^^^^
        ");
    }
}
