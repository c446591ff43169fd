//! `replay bisect --good snapshot`: the recorded outcomes to compare with, and the commits to go back to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::replay::bisect::SearchTarget;
use ::replay::history::{Commit, History};
use ::replay::snapshot::{Snapshot, Store};
use ::replay::trial::Lab;

use super::error::{CliResult, CommandError};
use super::snapshot::relative_path;

/// The word for the accepted snapshot among good revisions.
pub const SNAPSHOT: &str = "snapshot";

/// Accepted snapshots, one for each fixture.
pub struct AcceptedSnapshots {
    pub snapshots: Vec<Arc<Snapshot>>,
    paths: Vec<PathBuf>,
}

impl AcceptedSnapshots {
    /// The accepted snapshots of `targets` for the lab's device; none may be missing or stale.
    pub fn open(
        targets: &[SearchTarget],
        lab: &Lab,
        folder: Option<&Path>,
    ) -> CliResult<AcceptedSnapshots> {
        let mut recorded = AcceptedSnapshots { snapshots: Vec::new(), paths: Vec::new() };
        let device = lab.backend().device().class;
        for target in targets {
            let fixture = &target.subject.fixture;
            let store = Store::find(&fixture.dir, folder);
            let store = store.unwrap_or_else(|| Store::beside(&fixture.dir));
            let path = store.path(&device);
            let shown_path = relative_path(&path).display().to_string();
            let Some(file) = store.accepted(&device)? else {
                return Err(CommandError::new(format!(
                    "there is no accepted snapshot {shown_path}"
                ))
                .with_hint(
                    "name a good revision, or accept a snapshot: `REPLAY_UPDATE=new replay \
                         FIXTURE`, then `replay accept`",
                ));
            };
            if file.snapshot.content != lab.content(&target.subject)? {
                return Err(CommandError::new(format!(
                    "{shown_path} is of another content of {}",
                    fixture.name
                ))
                .with_hint("name a good revision: a stale snapshot tells nothing"));
            }
            recorded.snapshots.push(file.snapshot.into());
            recorded.paths.push(path);
        }
        Ok(recorded)
    }

    /// The beginning of the search for each bad end, and the reason: the last commits to touch the snapshots, if they lie
    /// in the history of the sources; else the first commit with sources.
    pub fn lower_ends(
        &self,
        history: &History,
        targets: &[SearchTarget],
        bad_ends: &[Commit],
    ) -> CliResult<Vec<(Commit, String)>> {
        let mut ends: Vec<(Commit, String)> = Vec::new();
        let specs: Vec<_> = targets.iter().map(|target| &target.spec).collect();
        for bad_end in bad_ends {
            for path in &self.paths {
                let end = match self.touched(history, bad_end, path)? {
                    Some(commit) => {
                        (commit, format!("which last touched {}", relative_path(path).display()))
                    }
                    None => match history.first_with_sources(bad_end, &specs)? {
                        Some(commit) => (commit, "the first with the sources".to_owned()),
                        None => continue,
                    },
                };
                if ends.iter().all(|(known_commit, _)| known_commit.id != end.0.id) {
                    ends.push(end);
                }
            }
        }
        if ends.is_empty() {
            Err(CommandError::new("no commit behind the bad end has the sources")
                .with_hint("check `sources` and `include` of the harness"))
        } else {
            Ok(ends)
        }
    }

    fn touched(
        &self,
        history: &History,
        bad_end: &Commit,
        path: &Path,
    ) -> CliResult<Option<Commit>> {
        let root = history.working_tree_root().and_then(|root| root.canonicalize().ok());
        let real = path.canonicalize()?;
        match root.as_deref().and_then(|root| real.strip_prefix(root).ok()) {
            Some(relative_path) => Ok(history.last_change(bad_end, relative_path)?),
            None => Ok(None),
        }
    }

    /// The files, as people write them.
    pub fn names(&self) -> String {
        let names: Vec<String> =
            self.paths.iter().map(|path| relative_path(path).display().to_string()).collect();
        names.join(", ")
    }
}
