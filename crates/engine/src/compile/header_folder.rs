//! The folder with this program's headers for host compilers. The cache keeps it for the processes to come.

use std::path::{Path, PathBuf};

use super::{CompileError, KeyHasher, scratch_failed};
use replay_base::cache::{Cache, CacheKind, FolderKind, WorkFolder};
use replay_runtime::headers;

/// A folder with this program's headers.
pub(super) enum HeaderFolder {
    /// In the cache, where it stays.
    Kept(PathBuf),
    /// Where the cache's is damaged, one that goes with this process.
    OfThisProcess(WorkFolder),
}

impl HeaderFolder {
    /// The folder of the cache, which is made if it has none.
    pub(super) fn provide(cache: &Cache) -> Result<HeaderFolder, CompileError> {
        let mut hasher = KeyHasher::new("this program's headers as written");
        hasher.part(headers::hash_headers().as_bytes());
        let fact_key = hasher.finish();
        let known_hash = cache.read(CacheKind::Fact, &fact_key);
        let known_hash = known_hash.and_then(|hash| String::from_utf8(hash).ok());
        if let Some(folder) = known_hash.and_then(|hash| find_whole_folder(cache, &hash)) {
            return Ok(HeaderFolder::Kept(folder));
        }
        let work = cache.scratch()?;
        headers::write_headers(work.path()).map_err(scratch_failed(work.path()))?;
        let hash =
            headers::hash_written_headers(work.path()).map_err(scratch_failed(work.path()))?;
        let hash = hash.to_hex();
        // Both only save time.
        let _ = cache.write(CacheKind::Fact, &fact_key, hash.as_bytes());
        let _ = cache.keep_folder(FolderKind::Headers, work.path(), &hash);
        Ok(match find_whole_folder(cache, &hash) {
            Some(folder) => HeaderFolder::Kept(folder),
            None => HeaderFolder::OfThisProcess(work),
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        match self {
            HeaderFolder::Kept(folder) => folder,
            HeaderFolder::OfThisProcess(work) => work.path(),
        }
    }
}

/// The kept folder whose headers have this hash, if they still have it.
fn find_whole_folder(cache: &Cache, hash: &str) -> Option<PathBuf> {
    let folder = cache.use_folder(FolderKind::Headers, hash)?;
    let found_hash = headers::hash_written_headers(&folder).ok()?;
    (found_hash.to_hex().as_str() == hash).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_runtime::flags::PRELUDE;

    fn open_cache(folder: &tempfile::TempDir) -> Cache {
        Cache::open(folder.path()).expect("a cache")
    }

    #[test]
    fn the_next_process_finds_the_headers_of_this_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = HeaderFolder::provide(&open_cache(&folder)).expect("headers");
        let next = HeaderFolder::provide(&open_cache(&folder)).expect("headers");
        assert!(matches!(next, HeaderFolder::Kept(_)));
        assert_eq!(next.path(), first.path());
        assert!(next.path().join(PRELUDE).is_file());
    }

    #[test]
    fn headers_that_were_changed_in_the_cache_are_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = HeaderFolder::provide(&open_cache(&folder)).expect("headers");
        let header = kept.path().join(PRELUDE);
        let text = std::fs::read(&header).expect("a header");
        std::fs::write(&header, "int changed;").expect("written");
        let next = HeaderFolder::provide(&open_cache(&folder)).expect("headers");
        assert!(matches!(next, HeaderFolder::OfThisProcess(_)));
        assert_eq!(std::fs::read(next.path().join(PRELUDE)).expect("a header"), text);
    }
}
