//! The fixtures of a command: the named ones, those in named folders, and the runs among these.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::replay::fixture::Fixture;
use ::replay::series::{natural_sort_key, parse_step_number};

use super::out::eprintln;

/// The fixtures at and below `named_paths`, in their order. A folder other than a fixture stands for all below it, by name,
/// `step9` before `step10`: runs of a training lie in folders of their own. Folders without fixtures are printed, but for
/// those of harnesses.
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
            // Loading it gives the error.
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

/// Fixtures with a common report.
pub enum FixtureGroup {
    /// A fixture by itself.
    Single(PathBuf),
    /// The steps of a run.
    Run {
        /// The folder of the steps, below the named one.
        name: String,
        steps: Vec<PathBuf>,
    },
}

impl FixtureGroup {
    /// The fixtures, in their order.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            FixtureGroup::Single(path) => std::slice::from_ref(path),
            FixtureGroup::Run { steps, .. } => steps,
        }
    }
}

/// The fixtures of [`expand_fixtures`], with the steps of runs in named folders brought together. Named fixtures stay
/// single.
pub fn group_fixtures<P: AsRef<Path>>(named_paths: &[P]) -> Vec<FixtureGroup> {
    let mut groups = Vec::new();
    for named_path in named_paths {
        let named_path = named_path.as_ref();
        let fixtures = expand_fixtures(&[named_path]);
        for siblings in fixtures.chunk_by(|one, next| one.parent() == next.parent()) {
            if !is_fixture(named_path) && are_steps_of_a_run(siblings) {
                let name = name_run(named_path, siblings);
                groups.push(FixtureGroup::Run { name, steps: siblings.to_vec() });
            } else {
                groups.extend(siblings.iter().cloned().map(FixtureGroup::Single));
            }
        }
    }
    groups
}

/// The name of the run whose steps are `siblings`, below `named_path`.
fn name_run(named_path: &Path, siblings: &[PathBuf]) -> String {
    let folder = siblings.first().and_then(|step| step.parent()).unwrap_or(named_path);
    let below = folder.strip_prefix(named_path).unwrap_or(folder);
    let name = if below.as_os_str().is_empty() {
        named_path.file_name().map_or(named_path, Path::new)
    } else {
        below
    };
    name.display().to_string()
}

/// Whether fixtures of one folder are steps of one run: they fit one harness, and each has a step number of its own.
fn are_steps_of_a_run(siblings: &[PathBuf]) -> bool {
    let mut numbers = BTreeSet::new();
    let mut harnesses = BTreeSet::new();
    for path in siblings {
        let (Ok(provenance), Ok(harness)) =
            (Fixture::provenance_of(path), Fixture::harness_path(path))
        else {
            return false;
        };
        let number = parse_step_number(provenance.step.as_deref());
        if !number.is_some_and(|number| numbers.insert(number)) {
            return false;
        }
        harnesses.insert(harness.canonicalize().unwrap_or(harness));
    }
    siblings.len() > 1 && harnesses.len() == 1
}

/// The searched depth below a named folder: a run, its ranks, their steps.
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

/// Whether the folder `path` has the file that makes it a fixture.
pub fn is_fixture(path: &Path) -> bool {
    path.join("fixture.toml").exists()
}

/// Whether a folder holds a harness, or those of a model, as capturing drafts them beside fixtures.
fn is_harness(path: &Path) -> bool {
    path.join("replay.toml").exists() || path.join("replay_step.py").exists()
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
