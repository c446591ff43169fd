//! The fixtures that a command is about: those that were named, and those in named folders.

use std::path::{Path, PathBuf};

use ::replay::series::by_name;

use super::out::eprintln;

/// The fixtures that `named` stands for, in its order. A folder that is no fixture stands for all
/// in it, by name, `step9` before `step10`; the folders in it that are skipped are printed, but for those of harnesses.
pub fn expand<P: AsRef<Path>>(named: &[P]) -> Vec<PathBuf> {
    let mut fixtures = Vec::new();
    for path in named {
        let path = path.as_ref();
        let (inside, others) = if is_fixture(path) { Default::default() } else { folders(path) };
        if inside.is_empty() {
            // Loading it says what is wrong.
            fixtures.push(path.to_owned());
            continue;
        }
        for other in others {
            eprintln!("skipped {}: it holds no fixture.toml", other.display());
        }
        fixtures.extend(inside);
    }
    fixtures
}

fn is_fixture(path: &Path) -> bool {
    path.join("fixture.toml").exists()
}

/// Whether a folder holds what fixtures beside it fit, as capturing drafts it.
fn is_harness(path: &Path) -> bool {
    path.join("replay.toml").exists()
}

/// The folders in `path`: fixtures and others, sorted; hidden ones and those of harnesses are left out.
fn folders(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut inside: Vec<PathBuf> = visible.map(|entry| path.join(entry.file_name())).collect();
    inside.retain(|path| path.is_dir() && (is_fixture(path) || !is_harness(path)));
    inside.sort_by_cached_key(|path| by_name(path));
    inside.into_iter().partition(|path| is_fixture(path))
}
