//! Fixtures that are made of another one: in a new folder, with the harness of the other.

use std::path::Path;
use std::{fs, io};

use ::replay::fixture::{Fixture, harness_from};

use super::draft::quote_toml;
use super::error::{CliResult, CommandError, ErrorContext};

/// Refuses a folder where something is; `hint` says what to do.
///
/// Refused as well where no folder can be made: what is found out in minutes is not to be lost then.
pub fn check_is_new(folder: &Path, hint: &str) -> CliResult<()> {
    if folder.symlink_metadata().is_err() {
        return check_can_be_made(folder, hint);
    }
    let message = format!("{} exists and is left as it is", folder.display());
    Err(CommandError::new(message).with_hint(hint))
}

fn check_can_be_made(folder: &Path, hint: &str) -> CliResult<()> {
    let above = folder.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
    let above = above.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name of the folder that is tried says nothing.
    let made = tempfile::tempdir_in(above).map(drop).map_err(|error| io::Error::from(error.kind()));
    let message = || format!("cannot make the folder {}", folder.display());
    made.context(message).map_err(|error| error.with_hint(hint))
}

/// Makes `folder` and lets `fill` write to it, as a whole or not at all.
pub fn write_new_folder<T>(folder: &Path, fill: impl FnOnce() -> CliResult<T>) -> CliResult<T> {
    let parent = folder.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(parent)
        .and_then(|()| fs::create_dir(folder))
        .context(|| format!("cannot make the folder {}", folder.display()))?;
    fill().inspect_err(|_| {
        // What was begun is of no use.
        let _ = fs::remove_dir_all(folder);
    })
}

/// The beginning of `fixture.toml` in `folder`, with the harness and the description of `source`.
pub fn begin_manifest(source: &Fixture, folder: &Path) -> CliResult<String> {
    let harness = harness_from(folder, &source.harness)
        .context(|| format!("cannot read {}", source.harness.path.display()))?;
    let mut manifest = format!("harness = {}\n", quote_toml(&harness.display().to_string()));
    if let Some(description) = &source.description {
        manifest.push_str(&format!("description = {}\n", quote_toml(description)));
    }
    Ok(manifest)
}

/// What `fixture.toml` of `source` says.
pub fn read_manifest(source: &Fixture) -> CliResult<toml::Table> {
    let path = source.dir.join("fixture.toml");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    Ok(text.parse().unwrap_or_default())
}
