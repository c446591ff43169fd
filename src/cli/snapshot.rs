//! What the commands about snapshots share: settings from the environment, one comparison, and
//! what is pending.

use std::path::{Path, PathBuf};

use ::replay::history::SourceSet;
use ::replay::replay::{Outcome, Replayer, Status};
use ::replay::report::SnapshotCheck;
use ::replay::snapshot::{
    self, Comparison, Pending, Snapshot, SnapshotError, SnapshotFile, SnapshotVerdict, Store,
    Update, Write,
};
use globset::{Glob, GlobSet, GlobSetBuilder};

use super::error::{self, Complaint};
use super::exit;
use super::project::Project;

/// How snapshots are compared and written in this run.
pub struct Settings {
    /// The folder that was named, if one was.
    pub folder: Option<PathBuf>,
    update: Update,
    ci: bool,
}

impl Settings {
    /// From `REPLAY_UPDATE` and `CI`.
    pub fn from_environment(folder: Option<PathBuf>) -> anyhow::Result<Settings> {
        let text = std::env::var("REPLAY_UPDATE").unwrap_or_default();
        let update = text.parse().map_err(|message: String| Complaint {
            message: format!("REPLAY_UPDATE is not understood: {message}"),
            hint: None,
        })?;
        Ok(Settings { folder, update, ci: is_ci() })
    }

    fn store(&self, fixture: &Path) -> Option<Store> {
        let asked = || self.update.asks_for_new().then(|| Store::beside(fixture));
        Store::find(fixture, self.folder.as_deref()).or_else(asked)
    }

    /// Compares `outcome` with its accepted snapshot and writes what is to be reviewed; none
    /// where there are no snapshots, or nothing to keep.
    pub fn check(
        &self,
        replayer: &Replayer,
        project: &Project,
        sources: &SourceSet,
        outcome: &Outcome,
    ) -> anyhow::Result<Option<SnapshotCheck>> {
        if matches!(outcome.status, Status::Untestable { .. }) {
            return Ok(None);
        }
        let fixture = &project.subject.fixture;
        let Some(store) = self.store(&fixture.dir) else { return Ok(None) };
        let path = store.path(&outcome.device);
        let accepted = store.accepted(&outcome.device)?.map(|file| file.snapshot);
        let content = replayer.content(&project.subject)?;
        let fresh = accepted.as_ref().is_none_or(|accepted| accepted.content != content);
        let same_bits = !fresh && accepted.as_ref().is_some_and(|a| a.has_bits_of(outcome));
        if let (true, Some(accepted)) = (same_bits, &accepted)
            && let Some(found) = snapshot::contradiction(accepted, outcome)
        {
            return Err(SnapshotError::Edited { path, found }.into());
        }
        let how = self.update.write(accepted.is_some(), self.ci);
        // Noise takes a few replays more: it is measured only where it says something.
        let noise = if same_bits || (accepted.is_none() && how == Write::Nothing) {
            Vec::new()
        } else {
            replayer.noise(&project.subject, sources)?
        };
        let got = Snapshot::of(outcome, &fixture.name, content, &noise, accepted.as_ref());
        let comparison =
            accepted.as_ref().map_or_else(Comparison::unseen, |old| snapshot::compare(old, &got));
        let same = same_bits && accepted.as_ref().is_some_and(|a| a.is_exactly(outcome));
        let written = match how {
            Write::Nothing => None,
            _ if same && self.update != Update::Force => {
                if !self.ci {
                    snapshot::discard(&path)?;
                }
                None
            }
            how => {
                let file = SnapshotFile { meta: store.meta(), snapshot: got };
                snapshot::write(&path, &file, how)?
            }
        };
        let (path, written) = (shown(&path), written.as_deref().map(shown));
        Ok(Some(SnapshotCheck { path, comparison, written }))
    }
}

/// The exit code that a comparison stands for: what is stale could not be compared.
pub fn code_of(check: &SnapshotCheck) -> u8 {
    match check.comparison.verdict {
        SnapshotVerdict::Matches | SnapshotVerdict::Equivalent | SnapshotVerdict::New => {
            exit::SUCCESS
        }
        SnapshotVerdict::Stale => exit::UNTESTABLE,
        SnapshotVerdict::Diverged => exit::FAILED,
    }
}

/// Which pending snapshots a command is about.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Names such as `step0.cpu`, paths, or patterns of either [default: all]
    #[arg(value_name = "GLOB")]
    globs: Vec<String>,
    /// The folder of snapshots [default: the nearest `snapshots` here or above]
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
}

/// What a command about pending snapshots found.
pub struct Selected {
    /// What can be read.
    pub pending: Vec<Pending>,
    /// Where something is pending that cannot, and why.
    pub damaged: Vec<(PathBuf, SnapshotError)>,
}

impl Selected {
    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.damaged.is_empty()
    }

    /// Complains about what could not be read; the exit code of the command.
    pub fn complain(self) -> u8 {
        let code = if self.damaged.is_empty() { exit::SUCCESS } else { exit::NOT_ABOUT_THE_KERNEL };
        self.damaged.into_iter().for_each(|(_, error)| error::print(&error.into()));
        code
    }
}

impl Selection {
    /// What is pending, of what was selected.
    pub fn pending(&self) -> anyhow::Result<Selected> {
        let folder = match &self.snapshots {
            Some(folder) => folder.clone(),
            None => snapshot::nearest(Path::new(".")).ok_or_else(|| Complaint {
                message: "there is no folder `snapshots` here or above".to_owned(),
                hint: Some(
                    "`REPLAY_UPDATE=new replay FIXTURE` makes one, or name one with --snapshots"
                        .to_owned(),
                ),
            })?,
        };
        let mut paths = snapshot::pending(&folder)?;
        if !self.globs.is_empty() {
            let set = self.set()?;
            paths.retain(|path| {
                let below = path.strip_prefix(&folder).unwrap_or(path).with_extension("");
                set.is_match(shown(path)) || set.is_match(below)
            });
        }
        let mut selected = Selected { pending: Vec::new(), damaged: Vec::new() };
        for path in paths {
            match snapshot::open(&path) {
                Ok(pending) => selected.pending.extend(pending),
                Err(error) => selected.damaged.push((path, error)),
            }
        }
        if selected.is_empty() && !self.globs.is_empty() {
            let message = format!("nothing that is pending matches {}", self.globs.join(", "));
            let hint =
                Some(format!("`replay review` shows what is pending in {}", folder.display()));
            return Err(Complaint { message, hint }.into());
        }
        Ok(selected)
    }

    fn set(&self) -> anyhow::Result<GlobSet> {
        let mut set = GlobSetBuilder::new();
        for glob in &self.globs {
            set.add(Glob::new(glob)?);
        }
        Ok(set.build()?)
    }
}

/// A path as people write it: relative to the current folder where it lies below it.
pub fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let below = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

/// Whether this is a CI job, as insta tells.
fn is_ci() -> bool {
    match std::env::var("CI").ok().as_deref() {
        Some("false" | "0" | "") => false,
        None => std::env::var_os("TF_BUILD").is_some(),
        Some(_) => true,
    }
}
