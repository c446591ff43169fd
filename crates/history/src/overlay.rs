//! A folder of stand-in headers outside of every revision.

use std::path::Path;
use std::sync::Arc;

use super::source_set::{
    NamedPath, SourceFile, SourceRole, hash_bytes, read_files, unreadable_sources,
};
use super::tree::DiskTree;
use super::{HistoryError, SourceFault, SourceKey, SourceOrigin};

/// The folder for the files of an overlay beside those of a revision.
pub const OVERLAY: &str = "(overlay)";

/// The files of a harness's `overlay`, the same at every revision. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    files: Arc<[SourceFile]>,
    /// blake3 over paths and content; zeros where there is no overlay.
    id: [u8; 32],
}

impl PartialEq for Overlay {
    fn eq(&self, other: &Overlay) -> bool {
        self.id == other.id
    }
}

impl Eq for Overlay {}

impl std::hash::Hash for Overlay {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Overlay {
    /// Reads the folder at `path`. Symlinks are followed within it.
    ///
    /// # Errors
    /// [`HistoryError::NoOverlay`] if it is no folder; [`HistoryError::Unusable`] for a symlink that leads
    /// out of it, and the other faults of files.
    pub fn read(path: &Path) -> Result<Overlay, HistoryError> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(HistoryError::NoOverlay { path: path.to_owned(), source: None }),
            Err(error) => {
                return Err(HistoryError::NoOverlay { path: path.to_owned(), source: Some(error) });
            }
        }
        let tree = DiskTree::new(path, None);
        let named_paths =
            [NamedPath { role: SourceRole::Include, names: vec![String::new()], optional: false }];
        let read_result = read_files(&tree, &named_paths, "");
        let read_result = read_result.and_then(|read| match read.submodules.into_iter().next() {
            Some(path) => Err(SourceFault::Submodule { path }.into()),
            None => Ok(read.files),
        });
        let mut files = read_result.map_err(|stop| {
            unreadable_sources(&tree, stop, || SourceOrigin::Overlay(path.to_owned()))
        })?;
        let mut hasher = blake3::Hasher::new();
        for file in &mut files {
            file.path = format!("{OVERLAY}/{}", file.path);
            hash_bytes(&mut hasher, file.path.as_bytes());
            hash_bytes(&mut hasher, &file.content);
        }
        Ok(Overlay { files: files.into(), id: *hasher.finalize().as_bytes() })
    }

    /// Its files, as they stand beside those of a revision.
    pub(super) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The key of a revision's files together with these.
    pub(super) fn with(&self, key: SourceKey) -> SourceKey {
        if *self == Overlay::default() {
            return key;
        }
        let mut hasher = blake3::Hasher::new();
        hash_bytes(&mut hasher, key.as_bytes());
        hash_bytes(&mut hasher, &self.id);
        SourceKey::new(*hasher.finalize().as_bytes())
    }
}
