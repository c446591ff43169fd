//! Finds similar names, for advice, and names that begin like a word, for completions.

use git2::{Oid, Repository, Sort};

use super::{
    CommitId, History, SourceFault,
    tree::{Node, Tree, join_tree_path},
    walk::MAX_DEPTH,
};

/// Names less alike than this (Jaro-Winkler) would only puzzle.
const MIN_LIKENESS: f64 = 0.8;
const MAX_SHOWN: usize = 3;
/// A hint is not worth walking a huge tree for.
const MAX_PATHS: usize = 20_000;

/// Commits this far behind HEAD are completed by their ids.
const MAX_COMPLETED_COMMITS: usize = 2_000;

/// A name of a commit, with the subject of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionName {
    pub name: String,
    pub subject: String,
}

impl History {
    /// The names that begin with `prefix`: HEAD, branches and tags; after one digit of an id also the last commits of
    /// HEAD. What cannot be read is left out.
    pub fn complete_revision(&self, prefix: &str) -> Vec<RevisionName> {
        let mut names = vec!["HEAD".to_owned()];
        names.extend(list_reference_names(&self.repo));
        names.retain(|name| name.starts_with(prefix));
        let mut completed: Vec<RevisionName> = names
            .into_iter()
            .filter_map(|name| {
                let commit = self.resolve(&name).ok()?;
                Some(RevisionName { name, subject: commit.subject })
            })
            .collect();
        if !prefix.is_empty() {
            completed.extend(self.recent_commits_like(prefix).into_iter().filter_map(|id| {
                let commit = self.commit(CommitId(id)).ok()?;
                // A prefix longer than the abbreviation is completed to the whole id.
                let name =
                    if commit.short.starts_with(prefix) { commit.short } else { id.to_string() };
                Some(RevisionName { name, subject: commit.subject })
            }));
        }
        completed
    }

    /// The last commits of HEAD whose ids begin with `prefix`, newest first.
    fn recent_commits_like(&self, prefix: &str) -> Vec<Oid> {
        let Ok(mut walk) = self.repo.revwalk() else { return Vec::new() };
        if walk.push_head().and_then(|()| walk.set_sorting(Sort::TIME)).is_err() {
            return Vec::new();
        }
        walk.flatten()
            .take(MAX_COMPLETED_COMMITS)
            .filter(|id| id.to_string().starts_with(prefix))
            .collect()
    }
}

/// Branches and tags whose names resemble `name`, nearest first.
pub(super) fn similar_references(repo: &Repository, name: &str) -> Vec<String> {
    select_nearest_names(list_reference_names(repo), |candidate| {
        strsim::jaro_winkler(candidate, name)
    })
}

/// Branches, tags and remote branches, by the names that people give.
fn list_reference_names(repo: &Repository) -> Vec<String> {
    let Ok(mut references) = repo.references() else { return Vec::new() };
    references
        .names()
        .filter_map(|name_result| {
            let full_name = name_result.ok()?;
            let short_name = ["refs/heads/", "refs/tags/", "refs/remotes/"]
                .iter()
                .find_map(|folder| full_name.strip_prefix(folder))?;
            Some(short_name.to_owned())
        })
        .collect()
}

/// Adds to a missing path the similar ones of the same tree.
pub(super) fn complete_fault(tree: &impl Tree, fault: SourceFault) -> SourceFault {
    match fault {
        SourceFault::Missing { path, names, .. } => {
            let similar = similar_paths(tree, &path);
            SourceFault::Missing { path, names, similar }
        }
        other_fault => other_fault,
    }
}

fn similar_paths(tree: &impl Tree, path: &str) -> Vec<String> {
    let mut paths = Vec::new();
    list_tree_paths(tree, "", 0, &mut paths);
    select_nearest_names(paths, |candidate| {
        // A moved file keeps its name: this is worth more than a similar folder.
        let name_bonus = if base_name(candidate) == base_name(path) { 1.0 } else { 0.0 };
        name_bonus + strsim::jaro_winkler(candidate, path)
    })
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The files and folders below `folder`. Unreadable ones are left out, as this is only a hint.
fn list_tree_paths(tree: &impl Tree, folder: &str, depth: usize, paths: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(children) = tree.children(folder) else { return };
    for (name, node) in children {
        if paths.len() >= MAX_PATHS {
            return;
        }
        let Ok(name) = name else { continue };
        let path = join_tree_path(folder, &name);
        paths.push(path.clone());
        if let Node::Folder(_) = node {
            list_tree_paths(tree, &path, depth + 1, paths);
        }
    }
}

fn select_nearest_names(names: Vec<String>, likeness: impl Fn(&str) -> f64) -> Vec<String> {
    let mut scored: Vec<(f64, String)> =
        names.into_iter().map(|name| (likeness(&name), name)).collect();
    scored.retain(|(score, _)| *score >= MIN_LIKENESS);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(MAX_SHOWN).map(|(_, name)| name).collect()
}
