//! Where snapshots lie, and how one becomes pending, accepted or rejected.
//!
//! A complete file is renamed onto the old one: a killed run, or two at once, leave one whole version.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use super::{Meta, SnapshotError, SnapshotFile, Write, flatten_text};
use replay_base::files;

/// The folder's name.
const FOLDER: &str = "snapshots";
/// The extension of an accepted snapshot.
const ACCEPTED: &str = ".snap";
/// The extension of a pending snapshot.
const PENDING: &str = ".snap.new";

/// The place of the snapshots of one fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The folder of snapshots.
    pub folder: PathBuf,
    /// The fixture's name below the folder.
    pub name: PathBuf,
    /// The fixture, relative to the folder beside the snapshots.
    source: String,
}

/// A snapshot before its review.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingSnapshot {
    /// Where the accepted snapshot lies, or will.
    pub path: PathBuf,
    /// The snapshot to review.
    pub new: SnapshotFile,
    /// The accepted file in its place.
    pub old: Before,
    text: String,
}

/// The accepted file in the place of a pending snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    Nothing,
    /// An accepted snapshot.
    Accepted(Box<SnapshotFile>),
    /// A snapshot beyond reading, and why.
    Damaged(String),
}

impl Store {
    /// The store of the fixture in `fixture`: in `folder`, else in the nearest folder `snapshots`
    /// above the fixture, up to the root of the repository; none if there is none.
    pub fn find(fixture: &Path, folder: Option<&Path>) -> Option<Store> {
        let fixture = normalise_snapshot_path(fixture);
        if let Some(folder) = folder {
            return Some(Store::in_folder(normalise_snapshot_path(folder), &fixture));
        }
        let folder = find_snapshot_folder(fixture.parent()?)?;
        Some(Store::in_folder(folder, &fixture))
    }

    /// The store to make for the fixture in `fixture` where none is found: beside the folder around it.
    pub fn beside(fixture: &Path) -> Store {
        let fixture = normalise_snapshot_path(fixture);
        let root = fixture.ancestors().nth(2).unwrap_or(&fixture);
        Store::in_folder(root.join(FOLDER), &fixture)
    }

    fn in_folder(folder: PathBuf, fixture: &Path) -> Store {
        let root = folder.parent().unwrap_or(&folder);
        let relative_path = fixture.strip_prefix(root).ok();
        // `fixtures/a/b` becomes `a/b`: two fixtures of one name do not share a snapshot.
        let name = relative_path.map(|path| path.components().skip(1).collect::<PathBuf>());
        let name = name
            .filter(|name| !name.as_os_str().is_empty())
            .unwrap_or_else(|| PathBuf::from(fixture.file_name().unwrap_or_default()));
        let source = relative_path.unwrap_or(fixture).to_string_lossy().into_owned();
        Store { name, source, folder }
    }

    /// The file of the accepted snapshot for `device`.
    pub fn path(&self, device: &str) -> PathBuf {
        with_suffix(&self.folder.join(&self.name), &format!(".{device}{ACCEPTED}"))
    }

    /// The accepted snapshot for `device`, if there is one.
    ///
    /// # Errors
    /// [`SnapshotError`] if it cannot be read or is of another device.
    pub fn accepted(&self, device: &str) -> Result<Option<SnapshotFile>, SnapshotError> {
        let path = self.path(device);
        match read_for_device(&path) {
            Err(error) if is_missing(&error) => Ok(None),
            file => file.map(Some),
        }
    }

    /// The front matter of a new snapshot.
    pub fn meta(&self) -> Meta {
        let expression = format!("replay {}", self.source);
        Meta { source: self.source.clone(), description: None, expression }
    }
}

/// The nearest folder `snapshots` beside or above `start`, up to the root of the repository.
pub fn find_snapshot_folder(start: &Path) -> Option<PathBuf> {
    let absolute_start = normalise_snapshot_path(start);
    let mut ancestors = absolute_start.ancestors();
    let snapshot_folder =
        ancestors.find(|dir| dir.join(FOLDER).is_dir() || is_root(dir))?.join(FOLDER);
    snapshot_folder.is_dir().then_some(snapshot_folder)
}

/// Writes `file` to where `path` is accepted, as `mode` says. Returns the path written, if any.
///
/// # Errors
/// [`SnapshotError::Io`] if the folder cannot be written.
pub fn write_snapshot(
    path: &Path,
    file: &SnapshotFile,
    mode: Write,
) -> Result<Option<PathBuf>, SnapshotError> {
    let (target, over) = match mode {
        Write::Nothing => return Ok(None),
        Write::Accepted { over } => (path.to_owned(), over),
        Write::Pending { over } => (pending_path(path), over),
    };
    let is_written = replace_snapshot_file(&target, &file.to_string(), over)?;
    if is_written && target == path {
        remove_snapshot_file(&pending_path(path))?;
    }
    Ok(is_written.then_some(target))
}

/// The accepted paths of the pending snapshots in `folder` and below, sorted.
///
/// # Errors
/// [`SnapshotError::Io`] if a folder cannot be read.
pub fn list_pending_snapshots(folder: &Path) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut pending_paths = Vec::new();
    collect_snapshot_files(folder, PENDING, &mut pending_paths)?;
    pending_paths.sort();
    Ok(pending_paths.iter().map(|pending_file| accepted_path(pending_file)).collect())
}

/// An accepted snapshot whose fixture is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The accepted snapshot.
    pub path: PathBuf,
    /// The fixture, as the snapshot names it.
    pub source: String,
}

/// The accepted snapshots without their fixtures in `folder` and below, sorted. Snapshots of other tools and unreadable
/// ones do not count.
///
/// # Errors
/// [`SnapshotError::Io`] if a folder cannot be read.
pub fn list_orphan_snapshots(folder: &Path) -> Result<Vec<Orphan>, SnapshotError> {
    let mut paths = Vec::new();
    collect_snapshot_files(folder, ACCEPTED, &mut paths)?;
    paths.sort();
    let root = folder.parent().unwrap_or(folder);
    let mut orphans = Vec::new();
    for path in paths {
        let Ok(file) = SnapshotFile::read(&path) else { continue };
        let source = file.meta.source;
        if !root.join(&source).exists() {
            orphans.push(Orphan { path, source });
        }
    }
    Ok(orphans)
}

/// The pending snapshot for `path`; none if it is gone, or is insta's own.
///
/// # Errors
/// [`SnapshotError`] if it cannot be read, or would replace a file of another tool.
pub fn open_pending(path: &Path) -> Result<Option<PendingSnapshot>, SnapshotError> {
    let file = pending_path(path);
    let text = match files::read_text(&file, files::TEXT_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(snapshot_io_error("read", &file))?,
    };
    let new = match SnapshotFile::parse(&text, &file) {
        Err(SnapshotError::Foreign { .. }) => return Ok(None),
        result => result?,
    };
    if device_in(path) != new.snapshot.device {
        return Err(wrong_device(&file, device_in(path), &new));
    }
    let old = match read_for_device(path) {
        Ok(old) => Before::Accepted(old.into()),
        Err(error) if is_missing(&error) => Before::Nothing,
        // A file of another program is not replaced, even on request.
        Err(error @ SnapshotError::Foreign { .. }) => return Err(error),
        // A damaged snapshot must not be in the way of its replacement.
        Err(error) => Before::Damaged(error.to_string()),
    };
    Ok(Some(PendingSnapshot { path: path.to_owned(), new, old, text }))
}

/// Removes the pending file for `path`, whatever it holds.
///
/// # Errors
/// [`SnapshotError::Io`] if the folder cannot be written.
pub fn discard_pending(path: &Path) -> Result<(), SnapshotError> {
    remove_snapshot_file(&pending_path(path))
}

/// Makes `pending` the accepted snapshot, and keeps `reason` with it.
///
/// # Errors
/// [`SnapshotError::Io`] if the folder cannot be written.
pub fn accept_snapshot(
    pending: &PendingSnapshot,
    reason: Option<&str>,
) -> Result<(), SnapshotError> {
    let mut file = pending.new.clone();
    let reason = reason.map(flatten_text).filter(|reason| !reason.is_empty());
    file.meta.description = reason.or(file.meta.description);
    replace_snapshot_file(&pending.path, &file.to_string(), true)?;
    reject_snapshot(pending)
}

/// Removes `pending`, unless another run has put something else in its place.
///
/// # Errors
/// [`SnapshotError::Io`] if the folder cannot be written.
pub fn reject_snapshot(pending: &PendingSnapshot) -> Result<(), SnapshotError> {
    let path = pending_path(&pending.path);
    match files::read_text(&path, files::TEXT_BYTES) {
        Ok(text) if text == pending.text => remove_snapshot_file(&path),
        _ => Ok(()),
    }
}

/// Replaces `path` by `text`, whole or not at all. Returns whether it did.
fn replace_snapshot_file(path: &Path, text: &str, over: bool) -> Result<bool, SnapshotError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(snapshot_io_error("make", folder))?;
    let write_error = snapshot_io_error("write", path);
    let creation = (|| {
        let mut file = tempfile::Builder::new().prefix(".replay-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        make_readable(file.as_file())?;
        file.as_file().sync_all()?;
        if over {
            return file.persist(path).map(|_| true).map_err(|error| error.error);
        }
        match file.persist_noclobber(path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    })();
    creation.map_err(write_error)
}

/// Gives a private temporary file the permissions of a committed one.
#[cfg(unix)]
fn make_readable(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_: &fs::File) -> io::Result<()> {
    Ok(())
}

fn remove_snapshot_file(path: &Path) -> Result<(), SnapshotError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(snapshot_io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn collect_snapshot_files(
    folder: &Path,
    ending: &str,
    paths: &mut Vec<PathBuf>,
) -> Result<(), SnapshotError> {
    let read_error = snapshot_io_error("read", folder);
    for entry in fs::read_dir(folder).map_err(&read_error)? {
        let entry = entry.map_err(&read_error)?;
        let kind = entry.file_type().map_err(&read_error)?;
        if kind.is_dir() {
            collect_snapshot_files(&entry.path(), ending, paths)?;
        } else if entry.file_name().to_string_lossy().ends_with(ending) {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Reads an accepted snapshot. Its device must be the one in its file's name.
fn read_for_device(path: &Path) -> Result<SnapshotFile, SnapshotError> {
    let file = SnapshotFile::read(path)?;
    match device_in(path) {
        device if device == file.snapshot.device => Ok(file),
        device => Err(wrong_device(path, device, &file)),
    }
}

fn wrong_device(path: &Path, expected: String, file: &SnapshotFile) -> SnapshotError {
    let found = file.snapshot.device.clone();
    SnapshotError::Device { path: path.to_owned(), expected, found }
}

/// The device in the name of an accepted snapshot.
fn device_in(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let device = name.strip_suffix(ACCEPTED).and_then(|name| name.rsplit('.').next());
    device.unwrap_or_default().to_owned()
}

fn is_missing(error: &SnapshotError) -> bool {
    matches!(error, SnapshotError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Whether a search for snapshots ends at `folder`: the root of a repository or of the machine.
fn is_root(folder: &Path) -> bool {
    folder.join(".git").exists() || folder.parent().is_none()
}

fn pending_path(accepted: &Path) -> PathBuf {
    with_suffix(accepted, ".new")
}

fn accepted_path(pending: &Path) -> PathBuf {
    pending.with_extension("")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The absolute path, without `.` and `..`.
fn normalise_snapshot_path(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn snapshot_io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> SnapshotError + use<'a> {
    move |source| SnapshotError::Io { doing, path: path.to_owned(), source }
}
