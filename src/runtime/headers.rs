//! The C++ headers that artifacts and modules are compiled against, embedded in the binary.

use std::path::Path;
use std::sync::LazyLock;
use std::{fs, io};

use include_dir::{Dir, include_dir};

static INCLUDE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/runtime/include");
static NVRTC: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/runtime/nvrtc");

/// A hash over the names and contents of the headers for the host compiler.
pub(crate) fn identity() -> blake3::Hash {
    static IDENTITY: LazyLock<blake3::Hash> = LazyLock::new(|| identity_of(&INCLUDE));
    *IDENTITY
}

/// A hash over the names and contents of the headers for NVRTC.
pub(crate) fn device_identity() -> blake3::Hash {
    static IDENTITY: LazyLock<blake3::Hash> = LazyLock::new(|| identity_of(&NVRTC));
    *IDENTITY
}

fn identity_of(dir: &Dir<'_>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for_each(dir, &mut |path, content| {
        hasher.update(path.to_string_lossy().as_bytes());
        hasher.update(&(content.len() as u64).to_le_bytes());
        hasher.update(content);
        Ok(())
    })
    .expect("hashing does not fail");
    hasher.finalize()
}

/// Writes the headers for the host compiler into `folder`.
///
/// # Errors
/// The error of the file system.
pub fn write(folder: &Path) -> io::Result<()> {
    write_all(&INCLUDE, folder)
}

/// Writes the headers for NVRTC into `replay_nvrtc` in `folder`.
///
/// # Errors
/// The error of the file system.
pub(crate) fn write_device(folder: &Path) -> io::Result<()> {
    write_all(&NVRTC, &folder.join("replay_nvrtc"))
}

fn write_all(dir: &Dir<'_>, folder: &Path) -> io::Result<()> {
    for_each(dir, &mut |path, content| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a header lies in a folder"))?;
        fs::write(path, content)
    })
}

fn for_each(
    dir: &Dir<'_>,
    visit: &mut impl FnMut(&Path, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    for file in dir.files() {
        visit(file.path(), file.contents())?;
    }
    dir.dirs().try_for_each(|dir| for_each(dir, visit))
}
