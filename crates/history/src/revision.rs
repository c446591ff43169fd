//! Finds the commit of a revision, in git's own syntax.
//!
//! Where git2 reports only "ambiguous" or "not found", this names the candidates or the missing part.

use git2::{Error, ErrorCode, ObjectType, Oid, Sort};

use super::{Commit, CommitCandidate, CommitId, History, HistoryError, recorded_parents, suggest};

const MAX_CANDIDATES: usize = 10;
/// The most commits to examine for a missing revision.
const MOST_PARENTS: usize = 10_000;

impl History {
    /// The commit of `rev`: anything `git rev-parse` understands, tags peeled.
    ///
    /// An abbreviated id of one commit and of other objects means the commit.
    ///
    /// # Errors
    /// [`HistoryError::UnknownRevision`], [`HistoryError::AmbiguousRevision`],
    /// [`HistoryError::NotACommit`], [`HistoryError::NoCommits`], and
    /// [`HistoryError::Shallow`] if the clone ends before the commit.
    pub fn resolve(&self, rev: &str) -> Result<Commit, HistoryError> {
        let object = match self.repo.revparse_single(rev) {
            Ok(object) => object,
            Err(error) if error.code() == ErrorCode::Ambiguous => return self.disambiguate(rev),
            Err(error) => return Err(self.unknown(rev, error)),
        };
        let kind = object.kind().map_or("object", |kind| kind.str());
        match object.peel(ObjectType::Commit).ok().and_then(|object| object.into_commit().ok()) {
            Some(commit) => self.describe(&commit),
            None => Err(HistoryError::NotACommit { rev: rev.to_owned(), kind }),
        }
    }

    /// Replaces the abbreviated id at the beginning of `rev` by its only possible commit.
    fn disambiguate(&self, rev: &str) -> Result<Commit, HistoryError> {
        let end = rev.find(['^', '~', '@', ':']).unwrap_or(rev.len());
        let (prefix, suffix) = rev.split_at(end);
        let commits = self.commits_beginning_with(prefix)?;
        match commits[..] {
            [] => Err(HistoryError::NotACommit { rev: rev.to_owned(), kind: "tree or blob" }),
            [only] => self.resolve(&format!("{only}{suffix}")),
            _ => Err(HistoryError::AmbiguousRevision {
                prefix: prefix.to_owned(),
                candidates: self.candidates(&commits)?,
                total: commits.len(),
            }),
        }
    }

    /// The commits, and tags of commits, whose ids begin with `prefix`; sorted.
    fn commits_beginning_with(&self, prefix: &str) -> Result<Vec<Oid>, HistoryError> {
        let prefix = prefix.to_ascii_lowercase();
        let mut ids = Vec::new();
        let listing = self.repo.odb().and_then(|odb| {
            odb.foreach(|id| {
                if id.to_string().starts_with(&prefix) {
                    ids.push(*id);
                }
                true
            })
        });
        listing.map_err(|source| HistoryError::Git {
            doing: "list the objects".into(),
            source: source.into(),
        })?;
        ids.sort();
        ids.dedup();
        ids.retain(|id| {
            let object = self.repo.find_object(*id, None);
            object.and_then(|object| object.peel(ObjectType::Commit)).is_ok()
        });
        Ok(ids)
    }

    fn candidates(&self, ids: &[Oid]) -> Result<Vec<CommitCandidate>, HistoryError> {
        ids.iter()
            .take(MAX_CANDIDATES)
            .map(|id| {
                let Commit { subject, .. } = self.resolve(&id.to_string())?;
                Ok(CommitCandidate { short: self.short(*id), subject })
            })
            .collect()
    }

    fn unknown(&self, rev: &str, source: Error) -> HistoryError {
        match source.code() {
            ErrorCode::UnbornBranch => HistoryError::NoCommits { path: self.path.clone() },
            ErrorCode::NotFound | ErrorCode::InvalidSpec => {
                let known_reason = self.cut_off(rev).or_else(|| self.lost(rev));
                known_reason.unwrap_or_else(|| self.unknown_name(rev))
            }
            _ => HistoryError::Git {
                doing: format!("resolve revision `{rev}`"),
                source: source.into(),
            },
        }
    }

    /// The error for a revision of a missing object.
    pub(super) fn lost(&self, rev: &str) -> Option<HistoryError> {
        let name = &rev[..rev.find(['^', '~', '@', ':']).unwrap_or(rev.len())];
        let name = if name.is_empty() { "HEAD" } else { name };
        let reference = self.repo.resolve_reference_from_short_name(name).ok()?;
        let mut id = reference.resolve().ok()?.target()?;
        let database = self.repo.odb().ok()?;
        // Its first parents, as far as they exist: `NAME~3` may ask for one of them.
        for _ in 0..MOST_PARENTS {
            if !database.exists(id) {
                let source = database.read(id).err()?;
                let doing = format!("read {id}, which `{rev}` leads to");
                return Some(HistoryError::Git { doing, source: source.into() });
            }
            id = self.repo.find_object(id, None).ok()?.peel_to_commit().ok()?.parent_id(0).ok()?;
        }
        None
    }

    fn unknown_name(&self, rev: &str) -> HistoryError {
        if matches!(rev, "HEAD" | "@") {
            return HistoryError::NoCommits { path: self.path.clone() };
        }
        let end = rev.find(['^', '~', '@', ':']).unwrap_or(rev.len());
        let similar = suggest::similar_references(&self.repo, &rev[..end]);
        let shallow = self.repo.is_shallow();
        HistoryError::UnknownRevision { rev: rev.to_owned(), similar, shallow }
    }

    /// The end of a shallow clone, if `rev` asks for an ancestor of an existing commit.
    fn cut_off(&self, rev: &str) -> Option<HistoryError> {
        let (base, _) = rev.split_at(rev.find(['^', '~'])?);
        if !self.repo.is_shallow() {
            return None;
        }
        let base = self.repo.revparse_single(base).ok()?.peel_to_commit().ok()?;
        let mut walk = self.repo.revwalk().ok()?;
        walk.set_sorting(Sort::TIME).ok()?;
        walk.push(base.id()).ok()?;
        walk.filter_map(Result::ok)
            .find_map(|id| self.missing_parent(&self.repo.find_commit(id).ok()?))
    }

    /// The error for a commit whose parent the shallow clone lacks, if it is one.
    pub(super) fn missing_parent(&self, commit: &git2::Commit<'_>) -> Option<HistoryError> {
        let recorded = recorded_parents(commit);
        let CommitId(parent) = *recorded.get(commit.parent_count())?;
        Some(HistoryError::Shallow { commit: self.short(commit.id()), parent: parent.to_string() })
    }
}
