//! From a fixture and a revision to sources: opens the harness's repository.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use ::replay::cache::Cache;
use ::replay::fixture::Fixture;
use ::replay::harness::Harness;
use ::replay::history::{
    Commit, CommitId, History, HistoryError, Overlay, SourceSet, SourceSpec, source_set_from_dir,
};
use ::replay::report::{CaptureRevision, ReportLine, format_noun_count};
use ::replay::trial::Subject;

use crate::cli::error::{CliResult, CommandError};
use crate::cli::other_checkout;
use crate::cli::progress::Progress;

/// A fixture with the history of its kernels.
pub struct Project {
    pub subject: Arc<Subject>,
    /// Where its kernels come from.
    pub origin: HarnessSources,
}

/// Where the sources of a harness come from.
pub struct HarnessSources {
    /// The repository or bundle.
    pub history: History,
    /// The compiled files of a revision.
    pub spec: SourceSpec,
    /// Where the files of the working tree lie, if there is one.
    root: Option<PathBuf>,
}

/// A requested revision, with its sources.
pub struct RequestedRevision {
    /// The commit; none for the working tree.
    pub commit: Option<Commit>,
    pub sources: Arc<SourceSet>,
}

/// The sources of a harness at a trusted revision.
pub enum TrustedSources {
    Found(RequestedRevision),
    /// It has no such files under any name.
    Absent {
        reason: String,
    },
}

impl Project {
    /// Loads the fixture at `path` and opens the repository of its harness.
    pub fn open(path: &Path, cache: &Cache) -> CliResult<Project> {
        Project::from_fixture(other_checkout::load_fixture(path)?, cache)
    }

    /// Opens the repository of the harness of `fixture`.
    pub fn from_fixture(fixture: Fixture, cache: &Cache) -> CliResult<Project> {
        let origin = HarnessSources::open(&fixture.harness, cache)?;
        Ok(Project { subject: Arc::new(Subject::new(fixture)), origin })
    }

    /// The harness of the fixture.
    pub fn harness(&self) -> &Harness {
        &self.subject.fixture.harness
    }

    /// The sources of `rev`, or of the working tree.
    pub fn target(&self, rev: Option<&str>) -> CliResult<RequestedRevision> {
        self.origin.target(rev)
    }

    /// The revision behind the captured outputs, beside the replayed `sources`; none if the fixture does not name it.
    pub fn capture_revision(&self, sources: &SourceSet) -> CliResult<Option<CaptureRevision>> {
        let provenance = &self.subject.fixture.provenance;
        let Some(named) = provenance.commit.clone() else { return Ok(None) };
        let dirty = provenance.dirty.as_deref() == Some("true");
        let Ok(commit) = self.origin.history.resolve(&named) else {
            return Ok(Some(CaptureRevision { named, commit: None, dirty, same_sources: false }));
        };
        let own = self.origin.history.source_set(CommitId::from(&commit), &self.origin.spec);
        let same_sources = match own {
            Ok(captured_sources) => captured_sources.id == sources.id,
            Err(error) if error.is_revision_fault() => false,
            Err(error) => return Err(error.into()),
        };
        let commit = Some(commit.into());
        Ok(Some(CaptureRevision { named, commit, dirty, same_sources }))
    }
}

impl HarnessSources {
    /// Opens the repository of `harness`.
    pub fn open(harness: &Harness, cache: &Cache) -> CliResult<HarnessSources> {
        let history = open_harness_history(harness, Some(cache))?;
        note_replaced_history(&history);
        if let Some(folder) = harness.system_include.iter().find(|folder| !folder.is_dir()) {
            let message =
                format!("{}, which `system_include` names, is no folder", folder.display());
            return Err(CommandError::new(message)
                .with_hint(format!("check it out there, or edit {}", harness.path.display())));
        }
        let overlay = harness.overlay.as_deref().map(Overlay::read).transpose()?;
        let spec = SourceSpec {
            sources: harness.sources.clone(),
            include: harness.include.clone(),
            tree: harness.tree().to_vec(),
            prefix: String::new(),
            overlay: overlay.unwrap_or_default(),
        };
        // Beside a bundle the files of its tip may lie, next to the harness.
        let root = if history.is_bundle() {
            harness.path.parent().map(Path::to_owned)
        } else {
            history.working_tree_root().map(Path::to_owned)
        };
        Ok(HarnessSources { history, spec, root })
    }

    /// The sources of `rev`, or of the working tree.
    pub fn target(&self, rev: Option<&str>) -> CliResult<RequestedRevision> {
        match rev {
            Some(rev) => {
                let commit = self.history.resolve(rev)?;
                self.commit_target(commit)
            }
            None => Ok(RequestedRevision { commit: None, sources: self.working_tree()?.into() }),
        }
    }

    /// The sources of the trusted `rev`.
    pub fn trusted(&self, rev: &str) -> CliResult<TrustedSources> {
        let commit = self.history.resolve(rev)?;
        match self.history.source_set(CommitId::from(&commit), &self.spec) {
            Ok(sources) => Ok(TrustedSources::Found(RequestedRevision {
                commit: Some(commit),
                sources: sources.into(),
            })),
            Err(error) if error.is_absence() => {
                Ok(TrustedSources::Absent { reason: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The sources of a resolved commit.
    pub fn commit_target(&self, commit: Commit) -> CliResult<RequestedRevision> {
        let sources = self.history.source_set(CommitId::from(&commit), &self.spec)?;
        Ok(RequestedRevision { commit: Some(commit), sources: sources.into() })
    }

    fn working_tree(&self) -> CliResult<SourceSet> {
        let Some(root) = &self.root else {
            return Err(CommandError::new(format!(
                "{} has no working tree",
                self.history.path().display()
            ))
            .with_hint("name a revision with --rev"));
        };
        if self.history.is_bundle() {
            Ok(source_set_from_dir(root, &self.spec)?)
        } else {
            Ok(self.history.working_tree(&self.spec)?)
        }
    }
}

/// The repository that `harness` names, or the one around it. A bundle is unpacked below the `cache`, else for a while.
pub fn open_harness_history(
    harness: &Harness,
    cache: Option<&Cache>,
) -> Result<History, HistoryError> {
    match (&harness.repository, cache) {
        (Some(repository), Some(cache)) => History::open_with_cache(repository, cache.root()),
        (Some(repository), None) => History::open(repository),
        (None, _) => History::discover(&harness.path),
    }
}

/// Says once that a history differs from git's view of it.
fn note_replaced_history(history: &History) {
    static ONCE: Once = Once::new();
    if let Some(notice) = replaced_words(history) {
        ONCE.call_once(|| Progress::start().note(&ReportLine::from(notice)));
    }
}

/// The notice on a history with replaced objects; none if git replaces none.
pub fn replaced_words(history: &History) -> Option<String> {
    let replaced = history.replaced() as u64;
    let notice = format!(
        "{} replaces {} (refs/replace): replay reads what was recorded, as `git --no-replace-objects` does",
        history.path().display(),
        format_noun_count(replaced, "object")
    );
    (replaced > 0).then_some(notice)
}
