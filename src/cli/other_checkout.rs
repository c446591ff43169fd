//! Finds the fixtures and harnesses of other revisions: the checked-out commit lacks them or has others. `git bisect run`
//! meets this before the commit with a new fixture.

use std::path::{Path, PathBuf};

use ::replay::fixture::{FileError, Fixture, FixtureError};
use ::replay::harness::{HarnessError, TomlError};
use ::replay::history::{History, OtherRevisionPath};

use super::error::{CliResult, CommandError, ErrorOwner};

/// A fixture younger than the checked-out commit, or of another time.
#[derive(Debug, thiserror::Error)]
#[error("the checkout at {} {}", .elsewhere.head, describe_other_checkout(.path, .elsewhere))]
struct Younger {
    /// The fixture, as the user named it.
    fixture: PathBuf,
    /// The fixture or the harness.
    path: PathBuf,
    elsewhere: OtherRevisionPath,
    source: FixtureError,
}

fn describe_other_checkout(path: &Path, elsewhere: &OtherRevisionPath) -> String {
    let path = path.display();
    let name = &elsewhere.name;
    if elsewhere.here {
        format!("cannot be replayed with its own {path}; {name} has another")
    } else {
        format!("lacks {path}, which {name} has")
    }
}

impl From<Younger> for CommandError {
    fn from(error: Younger) -> CommandError {
        let command_error =
            CommandError::from_error(&error).with_hint(error.hint()).of_kind(ErrorOwner::Revision);
        command_error.with_spot(error.source.spot())
    }
}

impl Younger {
    /// How to test commits older than the fixture.
    fn hint(&self) -> String {
        format!(
            "`replay bisect {} --good REV --bad REV` needs no checkout; for `git bisect run`, keep \
             a copy of the fixture and of its replay.toml outside of the repository, with \
             repository = {:?} in replay.toml",
            self.fixture.display(),
            self.elsewhere.root
        )
    }
}

/// Loads the fixture at `path`; an error tells where the checkout is at fault.
pub fn load_fixture(path: &Path) -> CliResult<Fixture> {
    Fixture::load(path).map_err(|error| explain_checkout_fault(path, error))
}

fn explain_checkout_fault(fixture: &Path, error: FixtureError) -> CommandError {
    let absent = missing_fixture_path(&error).map(Path::to_owned);
    let suspects: Vec<PathBuf> = match &absent {
        Some(path) => vec![path.clone()],
        None => {
            std::iter::once(fixture.to_owned()).chain(Fixture::harness_path(fixture).ok()).collect()
        }
    };
    for path in suspects {
        let moved_path =
            discover_history_around(&path).and_then(|history| history.elsewhere(&path));
        let Some(elsewhere) = moved_path else { continue };
        // A broken fixture is the user's to mend, unless a bisection checked it out.
        let is_checkout_at_fault =
            if absent.is_some() { !elsewhere.here } else { elsewhere.bisecting && path.exists() };
        if is_checkout_at_fault {
            return Younger { fixture: fixture.to_owned(), path, elsewhere, source: error }.into();
        }
    }
    error.into()
}

/// The missing path in `error`.
fn missing_fixture_path(error: &FixtureError) -> Option<&Path> {
    match error {
        FixtureError::NoFolder { path, .. } | FixtureError::NoManifest { path } => Some(path),
        FixtureError::Toml(TomlError::Read { path, source })
        | FixtureError::Harness(HarnessError::Toml(TomlError::Read { path, source }))
        | FixtureError::File(FileError::Open { path, source })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Some(path)
        }
        _ => None,
    }
}

/// The repository around `path`. The path need not exist.
fn discover_history_around(path: &Path) -> Option<History> {
    let absolute_path = std::path::absolute(path).ok()?;
    let existing_folder = absolute_path.ancestors().find(|folder| folder.exists())?;
    History::discover(existing_folder).ok()
}
