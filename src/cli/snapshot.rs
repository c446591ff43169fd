//! Common parts of the commands about snapshots: settings from the environment, one comparison, and the pending
//! snapshots.

use std::path::{Path, PathBuf};

use ::replay::fixture::Fixture;
use ::replay::report::SnapshotCheck;
use ::replay::snapshot::{
    self, Meta, PendingSnapshot, Snapshot, SnapshotComparison, SnapshotError, SnapshotFile,
    SnapshotUpdate, Store, Write,
};
use ::replay::trial::{Status, Trial};

use super::error::{CliResult, CommandError};
use super::exit;
use super::patterns::compile_patterns;

/// How snapshots are compared and written in this run.
pub struct SnapshotSettings {
    /// The named folder, if there is one.
    pub folder: Option<PathBuf>,
    update: SnapshotUpdate,
    ci: bool,
}

impl SnapshotSettings {
    /// From `REPLAY_UPDATE` and `CI`.
    pub fn from_environment(folder: Option<PathBuf>) -> CliResult<SnapshotSettings> {
        let text = std::env::var("REPLAY_UPDATE").unwrap_or_default();
        let update: SnapshotUpdate = text.parse().map_err(|message: String| {
            CommandError::new(format!("REPLAY_UPDATE is not understood: {message}"))
        })?;
        if let Some(folder) = folder.as_deref().filter(|_| !update.asks_for_new()) {
            must_be_there(folder)?;
        }
        Ok(SnapshotSettings { folder, update, ci: is_ci() })
    }

    fn store(&self, fixture: &Fixture, is_asked: bool) -> Option<Store> {
        let wants_snapshot = is_asked || fixture.snapshot || self.update.asks_for_new();
        Store::find(&fixture.dir, self.folder.as_deref())
            .or_else(|| wants_snapshot.then(|| Store::beside(&fixture.dir)))
    }

    /// Compares the outcome of `trial` with its accepted snapshot and writes a snapshot to review. None if it is
    /// untestable, or if neither a folder, the fixture nor the user (`is_asked`) asks for snapshots.
    pub fn check(&self, trial: &Trial, is_asked: bool) -> CliResult<Option<SnapshotCheck>> {
        let outcome = trial.outcome()?;
        if matches!(outcome.status, Status::Untestable { .. }) {
            return Ok(None);
        }
        let fixture = trial.fixture();
        let Some(store) = self.store(fixture, is_asked) else { return Ok(None) };
        let path = store.path(&outcome.device);
        let file = store.accepted(&outcome.device)?;
        let (meta, accepted) = file.map(|file| (file.meta, file.snapshot)).unzip();
        let content = trial.content()?;
        let fresh = accepted.as_ref().is_none_or(|accepted| accepted.content != content);
        let same_bits = !fresh && accepted.as_ref().is_some_and(|a| a.has_bits_of(outcome));
        if let (true, Some(accepted)) = (same_bits, &accepted)
            && let Some(found) = snapshot::find_contradiction(accepted, outcome)
        {
            return Err(SnapshotError::Edited { path, found }.into());
        }
        let write_mode = self.update.write(accepted.is_some(), self.ci);
        // Noise and shadows take a few replays more: they are measured only where they say something.
        let is_known = same_bits && self.update != SnapshotUpdate::Force;
        let (noise, shadows) = if is_known || (accepted.is_none() && write_mode == Write::Nothing) {
            (Vec::new(), Vec::new())
        } else {
            (trial.noise()?, trial.imprints()?)
        };
        let name = &fixture.name;
        let got =
            Snapshot::from_outcome(outcome, name, content, &noise, &shadows, accepted.as_ref());
        // In CI nobody reviews: a missing snapshot must not pass for an equal one.
        let needed = self.ci && !matches!(write_mode, Write::Accepted { .. });
        let comparison = match &accepted {
            Some(old) => snapshot::compare_snapshots(old, &got),
            None => SnapshotComparison::unseen(needed),
        };
        let is_exact = same_bits && accepted.as_ref().is_some_and(|a| a.is_exactly(outcome));
        let written_path = match write_mode {
            Write::Nothing => None,
            _ if is_exact && self.update != SnapshotUpdate::Force => {
                if !self.ci {
                    snapshot::discard_pending(&path)?;
                }
                None
            }
            writing_mode => {
                // The reason for these bits still holds.
                let description = meta.filter(|_| same_bits).and_then(|meta| meta.description);
                let meta = Meta { description, ..store.meta() };
                let file = SnapshotFile { meta, snapshot: got };
                snapshot::write_snapshot(&path, &file, writing_mode)?
            }
        };
        let path = relative_path(&path);
        let written = written_path.as_deref().map(relative_path);
        Ok(Some(SnapshotCheck { path, comparison, written }))
    }
}

/// Complains about a missing folder of snapshots.
pub fn must_be_there(folder: &Path) -> CliResult<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let shown_folder = folder.display();
    let (message, hint) = if folder.exists() {
        (format!("{shown_folder} is no folder of snapshots"), None)
    } else {
        (format!("there is no folder of snapshots {shown_folder}"), nearest_folder(folder))
    };
    let hint = hint.map_or_else(
        || "`REPLAY_UPDATE=new replay FIXTURE --snapshots DIR` makes one".to_owned(),
        |nearest| format!("did you mean {}?", nearest.display()),
    );
    Err(CommandError::new(message).with_hint(hint))
}

/// The folder beside `folder` with the nearest name.
fn nearest_folder(folder: &Path) -> Option<PathBuf> {
    let word = folder.file_name()?.to_str()?;
    let parent_folder = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent_folder.unwrap_or(Path::new("."))).ok()?.flatten();
    let near_names = entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let distance = strsim::damerau_levenshtein(word, &name);
        (distance <= 2 && distance < word.len()).then_some((distance, name))
    });
    let (_, name) = near_names.min()?;
    Some(folder.with_file_name(name))
}

/// Which pending snapshots a command is about.
#[derive(Debug, clap::Args)]
pub struct SnapshotSelection {
    /// Names such as `step0.cpu`, paths, or patterns of either [default: all]
    #[arg(value_name = "GLOB")]
    globs: Vec<String>,
    /// The folder of snapshots [default: the nearest `snapshots` here or above]
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
}

/// The found pending snapshots.
pub struct Selected {
    /// The readable ones.
    pub pending: Vec<PendingSnapshot>,
    /// The places of the unreadable ones, and why.
    pub damaged: Vec<(PathBuf, SnapshotError)>,
}

impl Selected {
    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.damaged.is_empty()
    }

    /// Prints why snapshots could not be read. Returns the exit code of the command.
    pub fn complain(self) -> u8 {
        let code = if self.damaged.is_empty() { exit::SUCCESS } else { exit::NOT_ABOUT_THE_KERNEL };
        self.damaged.into_iter().for_each(|(_, error)| CommandError::from(error).print());
        code
    }
}

impl SnapshotSelection {
    /// The folder of snapshots.
    fn folder(&self) -> CliResult<PathBuf> {
        Ok(match &self.snapshots {
            Some(folder) => {
                must_be_there(folder)?;
                folder.clone()
            }
            None => snapshot::find_snapshot_folder(Path::new(".")).ok_or_else(|| {
                CommandError::new("there is no folder `snapshots` here or above").with_hint(
                    "`REPLAY_UPDATE=new replay FIXTURE` makes one, or name one with --snapshots",
                )
            })?,
        })
    }

    /// The accepted snapshots whose fixtures are gone.
    pub fn orphans(&self) -> CliResult<Vec<snapshot::Orphan>> {
        Ok(snapshot::list_orphan_snapshots(&self.folder()?)?)
    }

    /// The pending snapshots among those selected.
    pub fn pending(&self) -> CliResult<Selected> {
        let folder = self.folder()?;
        let mut paths = snapshot::list_pending_snapshots(&folder)?;
        if !self.globs.is_empty() {
            let patterns = compile_patterns(&self.globs, "snapshots")?;
            let is_selected =
                |path: &Path| patterns.iter().any(|pattern| pattern.matches_path(path));
            paths.retain(|path| {
                let bare_path = path.strip_prefix(&folder).unwrap_or(path).with_extension("");
                is_selected(&relative_path(path)) || is_selected(&bare_path)
            });
        }
        let mut selected = Selected { pending: Vec::new(), damaged: Vec::new() };
        for path in paths {
            match snapshot::open_pending(&path) {
                Ok(pending) => selected.pending.extend(pending),
                Err(error) => selected.damaged.push((path, error)),
            }
        }
        if selected.is_empty() && !self.globs.is_empty() {
            let message = format!("nothing that is pending matches {}", self.globs.join(", "));
            let hint =
                Some(format!("`replay review` shows what is pending in {}", folder.display()));
            return Err(CommandError::new(message).with_hints(hint));
        }
        Ok(selected)
    }
}

/// A path as people write it: relative to the current folder where it lies below it.
pub fn relative_path(path: &Path) -> PathBuf {
    let working_folder = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let relative_path =
        working_folder.ok().and_then(|folder| path.strip_prefix(folder).ok().map(Path::to_owned));
    relative_path.unwrap_or_else(|| path.to_owned())
}

/// Whether this is a CI job, as insta tells.
fn is_ci() -> bool {
    match std::env::var("CI").ok().as_deref() {
        Some("false" | "0" | "") => false,
        None => std::env::var_os("TF_BUILD").is_some(),
        Some(_) => true,
    }
}
