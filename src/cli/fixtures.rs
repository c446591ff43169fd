//! The fixtures that a command is about: those that were named, and those in named folders.

use std::path::{Path, PathBuf};

use ::replay::series::by_name;

use super::out::eprintln;

/// The fixtures that `named` stands for, in its order. A folder that is no fixture stands for all
/// below it, as runs of a training lie in folders of their own, by name, `step9` before `step10`; the
/// folders that hold none are printed, but for those of harnesses.
pub fn expand<P: AsRef<Path>>(named: &[P]) -> Vec<PathBuf> {
    let mut fixtures = Vec::new();
    for path in named {
        let path = path.as_ref();
        let (mut inside, mut without) = (Vec::new(), Vec::new());
        if !is_fixture(path) {
            folders(path).iter().for_each(|path| collect(path, DEPTH, &mut inside, &mut without));
        }
        if inside.is_empty() {
            // Loading it says what is wrong.
            fixtures.push(path.to_owned());
            continue;
        }
        for other in without {
            eprintln!("skipped {}: it holds no fixture.toml", other.display());
        }
        fixtures.extend(inside);
    }
    fixtures
}

/// Folders that deep below a named one are looked into: a run, its ranks, their steps.
const DEPTH: usize = 4;

/// Adds the fixtures at and below `path` to `fixtures`, and to `without` the folder if it holds none.
fn collect(path: &Path, depth: usize, fixtures: &mut Vec<PathBuf>, without: &mut Vec<PathBuf>) {
    if is_fixture(path) {
        return fixtures.push(path.to_owned());
    }
    let (mut inside, mut others) = (Vec::new(), Vec::new());
    if depth > 0 {
        folders(path).iter().for_each(|path| collect(path, depth - 1, &mut inside, &mut others));
    }
    match inside.is_empty() {
        true => without.push(path.to_owned()),
        false => {
            fixtures.append(&mut inside);
            without.append(&mut others);
        }
    }
}

fn is_fixture(path: &Path) -> bool {
    path.join("fixture.toml").exists()
}

/// Whether a folder holds what fixtures beside it fit, as capturing drafts it.
fn is_harness(path: &Path) -> bool {
    path.join("replay.toml").exists()
}

/// The folders in `path`, sorted; hidden ones and those of harnesses are left out.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut inside: Vec<PathBuf> = visible.map(|entry| path.join(entry.file_name())).collect();
    inside.retain(|path| path.is_dir() && (is_fixture(path) || !is_harness(path)));
    inside.sort_by_cached_key(|path| by_name(path));
    inside
}
