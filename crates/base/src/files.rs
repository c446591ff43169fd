//! Reads and writes regular files only. Reading never blocks and never fills memory; writing is
//! atomic.
//!
//! Opening a pipe without a writer blocks, and `/dev/zero` never ends. Users name files, and
//! archives and checkouts hold anything, so all files named by users are opened here.

use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The largest text written by people: `replay.toml`, `fixture.toml`, a snapshot.
pub const TEXT_BYTES: u64 = 64 << 20;

/// The largest source or header. Generated tables of constants are far smaller.
pub const SOURCE_BYTES: u64 = 256 << 20;

/// The beginning of a Git LFS pointer. It stands in the place of a file stored elsewhere.
pub const LFS_SIGNATURE: &[u8] = b"version https://git-lfs";

/// Opens the regular file at `path`, through symbolic links, without ever waiting.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::InvalidInput`] for a folder, pipe, socket or device.
pub fn open_regular_file(path: &Path) -> io::Result<(File, Metadata)> {
    require_regular_file(&std::fs::metadata(path)?)?;
    open_checked_file(path, 0)
}

/// Opens the regular file at `path` that code from strangers has left there. A link would lead to what this process may
/// read, and the code may not.
///
/// # Errors
/// As [`open_regular_file`], and for a link.
pub fn open_foreign_file(path: &Path) -> io::Result<(File, Metadata)> {
    require_regular_file(&std::fs::symlink_metadata(path)?)?;
    open_checked_file(path, libc::O_NOFOLLOW)
}

fn open_checked_file(path: &Path, more_flags: i32) -> io::Result<(File, Metadata)> {
    // The file may have been replaced since: a pipe must not block, a terminal not become the
    // controlling one.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | more_flags;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let status = file.metadata()?;
    require_regular_file(&status)?;
    Ok((file, status))
}

/// Opens the regular file at `path`, if there is one, without ever waiting; a link there is not followed.
pub fn open_unlinked_file(path: &Path) -> Option<(File, Metadata)> {
    // The open must not wait for a pipe without a writer.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((file, metadata))
}

/// The bytes of the regular file at `path`, at most `limit` of them.
///
/// # Errors
/// As [`open_regular_file`]; [`io::ErrorKind::FileTooLarge`] beyond the limit.
pub fn read_regular_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened_file(open_regular_file(path)?, limit)
}

/// The same of a file as [`open_foreign_file`] opens it.
///
/// # Errors
/// As [`open_foreign_file`]; [`io::ErrorKind::FileTooLarge`] beyond the limit.
pub fn read_foreign_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened_file(open_foreign_file(path)?, limit)
}

fn read_opened_file((file, status): (File, Metadata), limit: u64) -> io::Result<Vec<u8>> {
    if status.len() > limit {
        return Err(too_large(status.len(), limit));
    }
    let mut bytes = Vec::with_capacity(status.len() as usize);
    // It may grow while it is read.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large(bytes.len() as u64, limit)) } else { Ok(bytes) }
}

/// The text of the regular file at `path`, of at most `limit` bytes.
///
/// # Errors
/// As [`read_regular_file`]; [`io::ErrorKind::InvalidData`] with the place of the first byte outside of UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_regular_file(path, limit)?).map_err(|error| {
        let valid_length = error.utf8_error().valid_up_to();
        let line =
            1 + error.as_bytes()[..valid_length].iter().filter(|&&byte| byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// Writes a file with these bytes to `path`; an existing file is replaced atomically.
///
/// A new file has the default permissions, a replaced one keeps its own. Behind a symbolic link the
/// file is replaced, not the link.
///
/// # Errors
/// Those of the system.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let real = path.canonicalize();
    replace_entry(real.as_deref().unwrap_or(path), bytes)
}

/// Writes a file with these bytes to `path`, as [`replace_file`] does; a symbolic link there is replaced itself.
///
/// # Errors
/// Those of the system.
pub fn replace_entry(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = std::fs::metadata(path).ok().map(|status| status.permissions().mode());
    let file = write_temporary_file(path, bytes, mode)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Creates a file with these bytes at `path`, where nothing may be.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::AlreadyExists`] if something is there.
pub fn create_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_temporary_file(path, bytes, None)?
        .persist_noclobber(path)
        .map_err(|error| error.error)?;
    Ok(())
}

/// A temporary file beside `path` with these bytes, on the disk.
fn write_temporary_file(
    path: &Path,
    bytes: &[u8],
    mode: Option<u32>,
) -> io::Result<tempfile::NamedTempFile> {
    /// The mode for open(2). The system removes the bits of the user's umask from it.
    const USUAL: u32 = 0o666;
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let usual = Permissions::from_mode(USUAL);
    let mut file = tempfile::Builder::new().permissions(usual).tempfile_in(folder)?;
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// The name of a file type.
pub fn file_type_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a file",
    }
}

fn require_regular_file(status: &Metadata) -> io::Result<()> {
    if status.is_file() {
        return Ok(());
    }
    let message = format!("it is {}, not a file", file_type_name(status.file_type()));
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn too_large(bytes: u64, limit: u64) -> io::Error {
    let message = format!("it has {bytes} bytes, more than the {limit} that are read");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn what_is_no_file_is_refused_at_once_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        pipe(&path("pipe"));
        symlink(path("pipe"), path("link")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        let refused = |path: &Path| open_regular_file(path).unwrap_err().to_string();
        assert_eq!(refused(&path("pipe")), "it is a pipe, not a file");
        assert_eq!(refused(&path("link")), "it is a pipe, not a file");
        assert_eq!(refused(&path("socket")), "it is a socket, not a file");
        assert_eq!(refused(folder.path()), "it is a folder, not a file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device, not a file");
    }

    #[test]
    fn a_link_that_a_stranger_left_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read_foreign_file(&file, 4).unwrap(), b"text");
        let refused = [read_foreign_file(&link, 4), read_foreign_file(folder.path(), 4)];
        let refused = refused.map(|refused| refused.unwrap_err().to_string());
        assert_eq!(refused, ["it is a symbolic link, not a file", "it is a folder, not a file"]);
        assert_eq!(read_foreign_file(&file, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_link_to_a_file_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        std::fs::write(&file, "four").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read_regular_file(&link, 4).unwrap(), b"four");
        let error = read_regular_file(&link, 3).unwrap_err();
        assert_eq!(error.to_string(), "it has 4 bytes, more than the 3 that are read");
    }

    #[test]
    fn a_file_that_gives_no_length_is_read_up_to_the_limit_too() {
        let path = Path::new("/proc/self/status");
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
        assert!(read_regular_file(path, 10).is_err());
        assert!(!read_regular_file(path, 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, b"one\ntwo \xff\n").unwrap();
        assert_eq!(read_text(&path, 100).unwrap_err().to_string(), "line 2 is not UTF-8");
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn what_is_there_is_not_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        create_new_file(&path, b"one").unwrap();
        assert_eq!(
            create_new_file(&path, b"two").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
