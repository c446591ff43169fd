//! Where in the sources an instruction of an artifact stands, by its tables of lines.

use std::path::Path;

use addr2line::Loader;

use super::image;

/// The tables of one artifact.
pub(super) struct Lines {
    loader: Loader,
    base: usize,
}

impl Lines {
    /// Those of the artifact at `path`, which is loaded.
    pub(super) fn of(path: &Path) -> Option<Lines> {
        let base = image::base(path)?;
        Some(Lines { loader: Loader::new(path).ok()?, base })
    }

    /// `file:line` of the call that returns to `address`: the innermost of the user's functions.
    pub(super) fn site(&self, address: usize) -> Option<String> {
        // The call ends before the address that it returns to.
        let probe = address.checked_sub(1)?.checked_sub(self.base)? as u64;
        let mut frames = self.loader.find_frames(probe).ok()?;
        let mut found = None;
        while let Ok(Some(frame)) = frames.next() {
            let Some(location) = frame.location else { continue };
            let (Some(file), Some(line)) = (location.file, location.line) else { continue };
            if let Some(file) = of_the_user(file) {
                found = Some(format!("{file}:{line}"));
                break;
            }
        }
        found
    }
}

/// The name that the user knows `file` by; none for our headers and the system's, which lie elsewhere.
fn of_the_user(file: &str) -> Option<&str> {
    (!file.starts_with('/')).then(|| file.trim_start_matches("./").trim_start_matches("tree/"))
}
