//! The fixtures that a command is about: those that were named, and those in named folders.

use std::path::{Path, PathBuf};

use ::replay::series::natural_sort_key;

use super::out::eprintln;

/// The fixtures that `named_paths` stands for, in its order. A folder that is no fixture stands for all
/// below it, as runs of a training lie in folders of their own, by name, `step9` before `step10`; the
/// folders that hold none are printed, but for those of harnesses.
pub fn expand_fixtures<P: AsRef<Path>>(named_paths: &[P]) -> Vec<PathBuf> {
    let mut fixtures = Vec::new();
    for path in named_paths {
        let path = path.as_ref();
        let mut inner_fixtures = Vec::new();
        let mut without = Vec::new();
        if !is_fixture(path) {
            list_fixture_folders(path)
                .iter()
                .for_each(|path| collect_fixtures(path, DEPTH, &mut inner_fixtures, &mut without));
        }
        if inner_fixtures.is_empty() {
            // Loading it says what is wrong.
            fixtures.push(path.to_owned());
            continue;
        }
        for skipped_folder in without {
            eprintln!("skipped {}: it holds no fixture.toml", skipped_folder.display());
        }
        fixtures.extend(inner_fixtures);
    }
    fixtures
}

/// Folders that deep below a named one are looked into: a run, its ranks, their steps.
const DEPTH: usize = 4;

/// Adds the fixtures at and below `path` to `fixtures`, and to `without` the folder if it holds none.
fn collect_fixtures(
    path: &Path,
    depth: usize,
    fixtures: &mut Vec<PathBuf>,
    without: &mut Vec<PathBuf>,
) {
    if is_fixture(path) {
        return fixtures.push(path.to_owned());
    }
    let mut inner_fixtures = Vec::new();
    let mut folders_without = Vec::new();
    if depth > 0 {
        list_fixture_folders(path).iter().for_each(|path| {
            collect_fixtures(path, depth - 1, &mut inner_fixtures, &mut folders_without)
        });
    }
    if inner_fixtures.is_empty() {
        without.push(path.to_owned())
    } else {
        fixtures.append(&mut inner_fixtures);
        without.append(&mut folders_without);
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
fn list_fixture_folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut subfolders: Vec<PathBuf> = visible.map(|entry| path.join(entry.file_name())).collect();
    subfolders.retain(|path| path.is_dir() && (is_fixture(path) || !is_harness(path)));
    subfolders.sort_by_cached_key(|path| natural_sort_key(path));
    subfolders
}
