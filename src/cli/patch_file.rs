//! The file of `--patch`: the hunks that carry a defect, reversed.

use std::path::{Path, PathBuf};

use ::replay::bisect::SearchReport;
use ::replay::files;

use super::error::{CliResult, ErrorContext};
use super::out::eprintln;
use super::report_file::refuse_unwritable_path;

/// A file for a patch.
pub struct PatchFile {
    path: PathBuf,
}

impl PatchFile {
    /// The file at `path`.
    ///
    /// # Errors
    /// If it cannot be written: before anything is replayed.
    pub fn named(path: &Path) -> CliResult<PatchFile> {
        refuse_unwritable_path(path, "patch")?;
        Ok(PatchFile { path: path.to_owned() })
    }

    /// Writes the patch of `report`, in the place of an earlier one. Where there is none, says so.
    pub fn write(&self, report: &SearchReport) -> CliResult<()> {
        let path = self.path.display();
        match report.patch() {
            Some(patch) => files::replace_entry(&self.path, patch)
                .context(|| format!("cannot write the patch to {path}")),
            None => {
                eprintln!("warning: {path} is not written: there is nothing that can be reversed");
                Ok(())
            }
        }
    }
}
