//! Unpacks a bundle file into a bare repository, in a temporary folder or in a cache.
//!
//! A bundle is a text header (git's `gitformat-bundle`) and a pack. The bundle itself is never
//! written to. A cached repository carries a manifest of its files: if one is damaged, the
//! repository is unpacked again. It appears under its name by one rename, complete.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use git2::{ErrorClass, ObjectType, Reference, Repository, RepositoryInitOptions};
use tempfile::TempDir;

use super::{HistoryError, bundle_header::BundleHeader};
use replay_base::files;

const REPOSITORY: &str = "repo.git";
const MANIFEST: &str = "manifest";
/// The first words of a manifest, before the key of the bundle: the version of the unpacking.
const LAYOUT: &str = "replay bundle 1";

/// Whether the file begins like a bundle of any version, or is a truncated beginning.
pub(super) fn is_bundle_file(path: &Path) -> Result<bool, HistoryError> {
    let mut start = Vec::new();
    let (file, _) = files::open_regular_file(path).map_err(bundle_open_error(path))?;
    file.take(64).read_to_end(&mut start).map_err(bundle_io_error("read", path))?;
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if start.starts_with(files::LFS_SIGNATURE) {
        return Err(HistoryError::LfsPointer { path: path.to_owned() });
    }
    let is_beginning = start.len() > 2
        && (b"# v2 git bundle".starts_with(&start) || b"# v3 git bundle".starts_with(&start));
    Ok(is_beginning || line.starts_with(b"# v") && line.ends_with(b" git bundle"))
}

/// Unpacks the bundle into a temporary folder.
pub(super) fn open_temporary(bundle: &Path) -> Result<(Repository, TempDir), HistoryError> {
    let folder = TempDir::with_prefix("replay-bundle-")
        .map_err(bundle_io_error("create a folder in", &std::env::temp_dir()))?;
    let repo = unpack_bundle(bundle, &folder.path().join(REPOSITORY))?;
    Ok((repo, folder))
}

/// Opens the repository unpacked below `cache`, or unpacks the bundle there.
pub(super) fn open_cached(bundle: &Path, cache: &Path) -> Result<Repository, HistoryError> {
    let shelf = cache.join("bundles");
    fs::create_dir_all(&shelf).map_err(bundle_io_error("create", &shelf))?;
    let key = content_key(bundle)?;
    let home = shelf.join(&key);
    if let Some(repo) = open_intact(&home, &key) {
        return Ok(repo);
    }
    let fresh =
        TempDir::with_prefix_in(".new-", &shelf).map_err(bundle_io_error("write to", &shelf))?;
    drop(unpack_bundle(bundle, &fresh.path().join(REPOSITORY))?);
    write_manifest(fresh.path(), &key)?;
    install_unpacked_bundle(fresh, &home, &key)?;
    open_intact(&home, &key).ok_or_else(|| HistoryError::Io {
        doing: "keep the unpacked bundle in",
        path: home,
        source: io::Error::other("its files changed while they were written"),
    })
}

/// blake3 of the bundle's bytes, in hex.
fn content_key(bundle: &Path) -> Result<String, HistoryError> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_mmap_rayon(bundle).map_err(bundle_io_error("read", bundle))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The repository in `home`, if it is whole and of the bundle with this key.
fn open_intact(home: &Path, key: &str) -> Option<Repository> {
    let expected = fs::read_to_string(home.join(MANIFEST)).ok()?;
    let actual_manifest = list_bundle_files(&home.join(REPOSITORY), key, false).ok()?;
    if expected != actual_manifest {
        return None;
    }
    Repository::open_bare(home.join(REPOSITORY)).ok()
}

/// Renames `fresh` to `home`. An intact repository there stays, a damaged one is replaced.
fn install_unpacked_bundle(fresh: TempDir, home: &Path, key: &str) -> Result<(), HistoryError> {
    if fs::rename(fresh.path(), home).is_ok() {
        // Nothing is left at the temporary name.
        let _ = fresh.keep();
        return Ok(());
    }
    if open_intact(home, key).is_some() {
        return Ok(());
    }
    let shelf = home.parent().unwrap_or(home);
    let damaged =
        TempDir::with_prefix_in(".old-", shelf).map_err(bundle_io_error("write to", shelf))?;
    // Another process may have replaced the damaged one first: the last rename decides.
    let _ = fs::rename(home, damaged.path().join("damaged"));
    match fs::rename(fresh.path(), home) {
        Ok(()) => {
            let _ = fresh.keep();
            Ok(())
        }
        Err(_) if open_intact(home, key).is_some() => Ok(()),
        Err(source) => Err(HistoryError::Io {
            doing: "replace the unpacked bundle",
            path: home.into(),
            source,
        }),
    }
}

fn write_manifest(folder: &Path, key: &str) -> Result<(), HistoryError> {
    let path = folder.join(MANIFEST);
    write_manifest_file(folder, &path, key).map_err(bundle_io_error("write", &path))
}

fn write_manifest_file(folder: &Path, path: &Path, key: &str) -> io::Result<()> {
    let text = list_bundle_files(&folder.join(REPOSITORY), key, true)?;
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// The key of the bundle, then one line for each file below `root`: blake3 and relative path, sorted by
/// path.
fn list_bundle_files(root: &Path, key: &str, sync: bool) -> io::Result<String> {
    let mut files = Vec::new();
    list_files(root, &mut files)?;
    files.sort();
    let mut text = format!("{LAYOUT} {key}\n");
    for path in files {
        if sync {
            File::open(&path)?.sync_all()?;
        }
        let hash = blake3::Hasher::new().update_mmap(&path)?.finalize();
        let relative = path.strip_prefix(root).unwrap_or(&path);
        text += &format!("{} {}\n", hash.to_hex(), relative.display());
    }
    Ok(text)
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn unpack_bundle(bundle: &Path, folder: &Path) -> Result<Repository, HistoryError> {
    let (file, status) = files::open_regular_file(bundle).map_err(bundle_open_error(bundle))?;
    let size_bytes = status.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let header = BundleHeader::read(bundle, &mut reader)?;
    let repo = create_bare(folder)?;
    copy_pack(bundle, &mut reader, size_bytes.saturating_sub(header.size_bytes), &repo)?;
    create_references(bundle, &header, &repo)?;
    Ok(repo)
}

fn create_bare(folder: &Path) -> Result<Repository, HistoryError> {
    let mut options = RepositoryInitOptions::new();
    options.bare(true).mkpath(true).external_template(false).initial_head("main");
    Repository::init_opts(folder, &options).map_err(|source| HistoryError::Git {
        doing: format!("create a repository in `{}`", folder.display()),
        source: source.into(),
    })
}

fn copy_pack(
    bundle: &Path,
    reader: &mut BufReader<File>,
    pack_bytes: u64,
    repo: &Repository,
) -> Result<(), HistoryError> {
    check_object_count(bundle, reader, pack_bytes)?;
    let odb = repo.odb().map_err(|source| unpack_error(bundle, source))?;
    let mut pack = odb.packwriter().map_err(|source| unpack_error(bundle, source))?;
    loop {
        let chunk = reader.fill_buf().map_err(bundle_io_error("read", bundle))?;
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len();
        // The writer's own error says nothing; libgit2 keeps the reason.
        pack.write_all(chunk).map_err(|_| unpack_error(bundle, git2::Error::last_error(-1)))?;
        reader.consume(length);
    }
    pack.commit().map(drop).map_err(|source| unpack_error(bundle, source))
}

fn unpack_error(bundle: &Path, source: git2::Error) -> HistoryError {
    match source.class() {
        ErrorClass::Os => git_error(bundle, source),
        _ => HistoryError::BundlePack { path: bundle.to_owned(), source: source.into() },
    }
}

/// Refuses a count of objects beyond the size of the pack, before memory is allocated for them.
///
/// An object takes at least 9 bytes: one of header and eight of zlib stream.
fn check_object_count(
    bundle: &Path,
    reader: &mut BufReader<File>,
    pack_bytes: u64,
) -> Result<(), HistoryError> {
    let start = reader.fill_buf().map_err(bundle_io_error("read", bundle))?;
    let Some(start) = start.first_chunk::<12>() else {
        return Err(corrupt_bundle(bundle, "it ends before its pack"));
    };
    if !start.starts_with(b"PACK") {
        return Err(corrupt_bundle(bundle, "no pack follows its header"));
    }
    let count = u32::from_be_bytes([start[8], start[9], start[10], start[11]]);
    if u64::from(count) * 9 > pack_bytes {
        let complaint = "its pack is shorter than the number of its objects allows";
        return Err(corrupt_bundle(bundle, complaint));
    }
    Ok(())
}

fn create_references(
    bundle: &Path,
    header: &BundleHeader,
    repo: &Repository,
) -> Result<(), HistoryError> {
    let odb = repo.odb().map_err(|source| git_error(bundle, source))?;
    let mut packed = BTreeMap::new();
    for (id, name) in &header.references {
        if !odb.exists(*id) {
            let complaint = format!("`{name}` is at {id}, which its pack does not hold");
            return Err(corrupt_bundle(bundle, complaint));
        }
        // `git bundle create --all` writes the HEADs of other worktrees, too; they name no branch.
        if name.starts_with("worktrees/") {
            continue;
        }
        if name != "HEAD" && !(name.starts_with("refs/") && Reference::is_valid_name(name)) {
            return Err(corrupt_bundle(bundle, format!("`{name}` is no name of a reference")));
        }
        if name != "HEAD" {
            packed.insert(name, id);
        }
    }
    // A file for each takes milliseconds a reference, and there may be thousands.
    let text: String = packed.into_iter().map(|(name, id)| format!("{id} {name}\n")).collect();
    let path = repo.path().join("packed-refs");
    fs::write(&path, text).map_err(bundle_io_error("write", &path))?;
    set_head(header, repo).map_err(|source| git_error(bundle, source))
}

/// Points HEAD where `git clone` would: at a branch where one fits, else at a commit.
fn set_head(header: &BundleHeader, repo: &Repository) -> Result<(), git2::Error> {
    let head = header.references.iter().find(|(_, name)| name == "HEAD").map(|(id, _)| *id);
    let mut branches: Vec<&String> = Vec::new();
    for (id, name) in &header.references {
        let fits_head = head.is_none_or(|head| head == *id);
        if fits_head && name.starts_with("refs/heads/") {
            branches.push(name);
        }
    }
    let usual = ["refs/heads/main", "refs/heads/master"];
    let branch = usual.iter().find_map(|usual| branches.iter().find(|name| **name == usual));
    if let Some(branch) = branch.or(branches.first()) {
        return repo.set_head(branch);
    }
    let commits = head.into_iter().chain(header.references.iter().map(|(id, _)| *id));
    for id in commits {
        let commit = repo.find_object(id, None)?.peel(ObjectType::Commit);
        if let Ok(commit) = commit {
            return repo.set_head_detached(commit.id());
        }
    }
    Ok(())
}

fn corrupt_bundle(bundle: &Path, complaint: impl Into<String>) -> HistoryError {
    HistoryError::BundleHeader { path: bundle.into(), what: complaint.into() }
}

fn git_error(bundle: &Path, source: git2::Error) -> HistoryError {
    HistoryError::Git {
        doing: format!("unpack bundle `{}`", bundle.display()),
        source: source.into(),
    }
}

fn bundle_open_error(path: &Path) -> impl Fn(io::Error) -> HistoryError + '_ {
    move |source| HistoryError::Open { path: path.to_owned(), source }
}

fn bundle_io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> HistoryError + 'a {
    move |source| HistoryError::Io { doing, path: path.to_owned(), source }
}
