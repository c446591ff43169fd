//! Unpacks the archive of an image: its files as a runtime exports them, or its layers as a runtime saves them.
//!
//! An archive is a stranger's: nothing of it comes to lie outside of the folder that it is unpacked to. Devices and pipes
//! are left out, as are owners and the bits of `setuid`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use tar::{Archive, Entry, EntryType};

/// The list of layers in an archive of docker's format.
const DOCKER_LIST: &str = "manifest.json";
/// The list of images in an archive of the format of the Open Container Initiative.
const OCI_LIST: &str = "index.json";
/// The beginning of a name that takes away a file of a lower layer.
const WHITEOUT: &str = ".wh.";
/// The name that takes away all that lower layers have in its folder.
const OPAQUE: &str = ".wh..wh..opq";
/// How a gzipped file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How a file compressed by zstd begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Its owner enters a folder, writes in it and removes it.
const OWN_FOLDER: u32 = 0o700;
/// Its owner reads a file.
const OWN_FILE: u32 = 0o400;

/// The layers of one image in docker's format.
#[derive(Deserialize)]
struct DockerImage {
    #[serde(rename = "Config")]
    configuration: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

/// A list of images, or the layers of one, in the format of the Open Container Initiative.
#[derive(Deserialize)]
struct OciList {
    #[serde(default)]
    manifests: Vec<OciBlob>,
    config: Option<OciBlob>,
    #[serde(default)]
    layers: Vec<OciBlob>,
}

#[derive(Deserialize)]
struct OciBlob {
    digest: String,
}

/// What both formats say of the programs in an image.
#[derive(Deserialize)]
struct ImageDescription {
    config: Option<DescribedConfiguration>,
}

#[derive(Deserialize)]
struct DescribedConfiguration {
    #[serde(rename = "Env", default)]
    variables: Option<Vec<String>>,
}

/// Unpacks `file` to the folder `target`, and returns the variables of its image, as `NAME=VALUE`: none of an archive that
/// holds files alone.
pub(super) fn unpack_archive(file: &Path, target: &Path) -> io::Result<Vec<String>> {
    if !is_saved_image(file)? {
        unpack_layer(file, target)?;
        return Ok(Vec::new());
    }
    let around = target.parent().unwrap_or(target);
    let parts = tempfile::tempdir_in(around)?;
    unpack_layer(file, parts.path())?;
    let parts = parts.path();
    let (configuration, layers) = if parts.join(DOCKER_LIST).is_file() {
        let images: Vec<DockerImage> = read_description(parts, DOCKER_LIST)?;
        let [image] = <[DockerImage; 1]>::try_from(images)
            .map_err(|images| invalid(format!("it holds {} images, and not one", images.len())))?;
        (image.configuration, image.layers)
    } else {
        let list: OciList = read_description(parts, OCI_LIST)?;
        let [manifest] = &list.manifests[..] else {
            return Err(invalid(format!("it holds {} images, and not one", list.manifests.len())));
        };
        let image: OciList = read_description(parts, &manifest.path())?;
        let configuration =
            image.config.ok_or_else(|| invalid("its image has no configuration"))?;
        (configuration.path(), image.layers.iter().map(OciBlob::path).collect())
    };
    for layer in layers {
        unpack_layer(&find_part(parts, &layer)?, target)?;
    }
    let description: ImageDescription = read_description(parts, &configuration)?;
    Ok(description.config.and_then(|config| config.variables).unwrap_or_default())
}

impl OciBlob {
    /// Its file in the archive.
    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// Whether `file` holds an image's layers, and not its files.
fn is_saved_image(file: &Path) -> io::Result<bool> {
    let mut archive = Archive::new(open_plain(file)?);
    let mut has_list = false;
    for entry in archive.entries()? {
        let entry = entry.map_err(tell_broken_archive)?;
        let path = entry.path()?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path);
        has_list |= path == Path::new(DOCKER_LIST) || path == Path::new(OCI_LIST);
        let is_folder = entry.header().entry_type().is_dir();
        if path.components().count() == 1 && is_folder && path != Path::new("blobs") {
            let name = path.to_string_lossy();
            // Older docker has a folder for each layer, named by its hash.
            if name.len() < 64 {
                return Ok(false);
            }
        }
    }
    Ok(has_list)
}

/// Reads `name` of the unpacked `parts`.
fn read_description<D: for<'de> Deserialize<'de>>(parts: &Path, name: &str) -> io::Result<D> {
    let text = fs::read(find_part(parts, name)?)?;
    serde_json::from_slice(&text).map_err(|error| invalid(format!("{name}: {error}")))
}

/// The file `name` of the unpacked `parts`, which are a stranger's: within them, and no link out of them.
fn find_part(parts: &Path, name: &str) -> io::Result<PathBuf> {
    let file = parts.join(plain_path(Path::new(name))?);
    let real = file.canonicalize().map_err(|_| invalid(format!("it lacks {name}")))?;
    if real.starts_with(parts.canonicalize()?) && real.is_file() {
        Ok(real)
    } else {
        Err(invalid(format!("{name} leads out of it")))
    }
}

/// The content of `file`, unpacked if it is gzipped.
fn open_plain(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut opened = File::open(file)?;
    let mut beginning = [0; 4];
    let count = opened.read(&mut beginning)?;
    opened.rewind()?;
    let opened = BufReader::new(opened);
    if beginning[..count].starts_with(&GZIP) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(opened))));
    }
    if beginning[..count] == ZSTD {
        return Err(invalid("it is compressed by zstd: save it without compression, or by gzip"));
    }
    Ok(Box::new(opened))
}

/// Unpacks the layer in `file` over what `target` has.
fn unpack_layer(file: &Path, target: &Path) -> io::Result<()> {
    let mut archive = Archive::new(open_plain(file)?);
    for entry in archive.entries()? {
        unpack_entry(&mut entry.map_err(tell_broken_archive)?, target)?;
    }
    Ok(())
}

fn unpack_entry(entry: &mut Entry<'_, Box<dyn Read>>, target: &Path) -> io::Result<()> {
    let path = plain_path(&entry.path()?)?;
    let Some(name) = path.file_name() else { return Ok(()) };
    let place = find_place(target, &path);
    if let Some(hidden_name) = name.to_str().and_then(|name| name.strip_prefix(WHITEOUT)) {
        return match place {
            Some(place) if name == OPAQUE => empty_folder(place.parent().unwrap_or(target)),
            Some(place) => remove_entry(&place.with_file_name(hidden_name)),
            None => Ok(()),
        };
    }
    let kind = entry.header().entry_type();
    let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse);
    if !is_file && !matches!(kind, EntryType::Directory | EntryType::Symlink | EntryType::Link) {
        return Ok(());
    }
    if let Some(place) = &place {
        let is_folder = fs::symlink_metadata(place).is_ok_and(|state| state.is_dir());
        if !(is_folder && kind == EntryType::Directory) {
            remove_entry(place)?;
        }
    }
    entry.set_preserve_mtime(true);
    if !entry.unpack_in(target)? {
        return Err(invalid(format!("{} leads out of it", path.display())));
    }
    let own = if kind == EntryType::Directory { OWN_FOLDER } else { OWN_FILE };
    match place {
        Some(place) if is_file || kind == EntryType::Directory => {
            let mode = fs::symlink_metadata(&place)?.permissions().mode();
            fs::set_permissions(&place, fs::Permissions::from_mode(mode & 0o777 | own))
        }
        _ => Ok(()),
    }
}

/// `path` without what leads to the root. One that leads up is refused.
fn plain_path(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(invalid(format!("{} leads out of it", path.display()))),
        }
    }
    Ok(plain)
}

/// The place of `path` in `target`; none if a link lies on the way.
fn find_place(target: &Path, path: &Path) -> Option<PathBuf> {
    let mut around = target.to_owned();
    for name in path.parent()?.components() {
        around.push(name);
        if fs::symlink_metadata(&around).is_ok_and(|state| !state.is_dir()) {
            return None;
        }
    }
    Some(target.join(path))
}

/// Removes the file, link or folder `path`, if it is there.
fn remove_entry(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(state) if state.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Removes what lies in `folder`, if it is there.
fn empty_folder(folder: &Path) -> io::Result<()> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().try_for_each(|entry| remove_entry(&entry.path()))
}

/// `error` of a reader of archives, in own words unless the system refused something.
fn tell_broken_archive(error: io::Error) -> io::Error {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    match error.kind() {
        InvalidData | InvalidInput | Other | UnexpectedEof => invalid("it is no whole tar archive"),
        _ => error,
    }
}

fn invalid(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    /// A part of an archive: its path, its kind, and its content or where it leads.
    type Part<'p> = (&'p str, EntryType, &'p [u8]);

    const FILE: EntryType = EntryType::Regular;
    const FOLDER: EntryType = EntryType::Directory;

    fn build_archive(parts: &[Part<'_>]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, kind, content) in parts {
            let mut header = Header::new_gnu();
            // Nobody checks names as they are written here.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(if *kind == FOLDER { 0o555 } else { 0o4755 });
            let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
            if is_link {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content);
            }
            let content = if is_link { &[][..] } else { *content };
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Unpacks `archive` below `folder`, to `image`.
    fn unpack(folder: &Path, archive: &[u8]) -> io::Result<Vec<String>> {
        fs::write(folder.join("archive"), archive).unwrap();
        fs::create_dir_all(folder.join("image")).unwrap();
        unpack_archive(&folder.join("archive"), &folder.join("image"))
    }

    #[test]
    fn nothing_of_an_archive_lies_outside_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "kept").unwrap();
        let outside_path = outside.to_str().unwrap();
        let secret_path = outside.join("secret");
        let link: Part<'_> = ("out", EntryType::Symlink, outside_path.as_bytes());
        for hostile in [
            ("out/new", FILE, &b"x"[..]),
            ("out/.wh.secret", FILE, b""),
            ("out/.wh..wh..opq", FILE, b""),
            ("../outside/new", FILE, b"x"),
            ("hard", EntryType::Link, secret_path.as_os_str().as_encoded_bytes()),
            ("hard", EntryType::Link, b"out/secret"),
        ] {
            let unpacked = unpack(folder.path(), &build_archive(&[link, hostile]));
            assert!(unpacked.is_err() || hostile.0.contains(".wh."), "{}", hostile.0);
            assert_eq!(fs::read_to_string(&secret_path).unwrap(), "kept");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{}", hostile.0);
        }
        let error = unpack(folder.path(), &build_archive(&[("../x", FILE, b"")])).unwrap_err();
        assert_eq!(error.to_string(), "../x leads out of it");
    }

    #[test]
    fn files_are_the_users_own_and_devices_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let archive = build_archive(&[
            ("./", FOLDER, b""),
            ("/etc", FOLDER, b""),
            ("/etc/name", FILE, b"x"),
            ("disk", EntryType::Block, b""),
            ("pipe", EntryType::Fifo, b""),
            ("etc", FOLDER, b""),
            ("link", EntryType::Symlink, b"/etc/name"),
            ("link", FOLDER, b""),
        ]);
        assert_eq!(unpack(folder.path(), &compress(&archive)).unwrap(), [""; 0]);
        let image = folder.path().join("image");
        let mode =
            |name: &str| fs::symlink_metadata(image.join(name)).unwrap().permissions().mode();
        assert_eq!(mode("etc/name") & 0o7777, 0o755, "without setuid");
        assert_eq!(mode("etc") & 0o7777, 0o755, "its owner removes it");
        assert!(fs::symlink_metadata(image.join("link")).unwrap().is_dir());
        assert!(!image.join("disk").exists() && !image.join("pipe").exists());
    }

    #[test]
    fn layers_lie_over_each_other_in_both_formats() {
        let lower = build_archive(&[
            ("opt", FOLDER, b""),
            ("opt/gone", FILE, b"1"),
            ("opt/stays", FILE, b"1"),
            ("var", FOLDER, b""),
            ("var/gone", FILE, b"1"),
            ("changed", FILE, b"1"),
        ]);
        let upper = build_archive(&[
            ("opt/.wh.gone", FILE, b""),
            ("var/.wh..wh..opq", FILE, b""),
            ("var/new", FILE, b"2"),
            ("changed", FOLDER, b""),
        ]);
        let description = br#"{"config": {"Env": ["A=1"]}}"#;
        let docker_list = br#"[{"Config": "c.json", "Layers": ["1/layer.tar", "2/layer.tar"]}]"#;
        let docker = build_archive(&[
            ("1/layer.tar", FILE, &lower),
            ("2/layer.tar", FILE, &upper),
            ("c.json", FILE, description),
            (DOCKER_LIST, FILE, docker_list),
        ]);
        let oci = build_archive(&[
            ("blobs", FOLDER, b""),
            (OCI_LIST, FILE, br#"{"manifests": [{"digest": "sha256:m"}]}"#),
            (
                "blobs/sha256/m",
                FILE,
                br#"{"config": {"digest": "sha256:c"},
                     "layers": [{"digest": "sha256:1"}, {"digest": "sha256:2"}]}"#,
            ),
            ("blobs/sha256/c", FILE, description),
            ("blobs/sha256/1", FILE, &compress(&lower)),
            ("blobs/sha256/2", FILE, &upper),
        ]);
        for archive in [docker, oci] {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(unpack(folder.path(), &archive).unwrap(), ["A=1"]);
            let image = folder.path().join("image");
            assert!(!image.join("opt/gone").exists() && image.join("opt/stays").exists());
            assert!(!image.join("var/gone").exists() && image.join("var/new").exists());
            assert!(image.join("changed").is_dir());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "parts are gone");
        }
    }

    #[test]
    fn what_is_no_image_is_told() {
        let told = |archive: &[u8]| {
            let folder = tempfile::tempdir().unwrap();
            unpack(folder.path(), archive).unwrap_err().to_string()
        };
        let listed = |text: &[u8]| told(&build_archive(&[(DOCKER_LIST, FILE, text)]));
        assert_eq!(listed(b"[]"), "it holds 0 images, and not one");
        let layers = br#"[{"Config": "c.json", "Layers": ["../outside"]}]"#;
        assert_eq!(listed(layers), "../outside leads out of it");
        let layers = br#"[{"Config": "c.json", "Layers": []}]"#;
        assert_eq!(listed(layers), "it lacks c.json");
        let oci = |text: &[u8]| told(&build_archive(&[(OCI_LIST, FILE, text)]));
        assert_eq!(oci(br#"{"manifests": []}"#), "it holds 0 images, and not one");
        assert_eq!(told(&[b'x'; 2048]), "it is no whole tar archive");
        let compressed = told(&[&ZSTD[..], b"..."].concat());
        assert_eq!(compressed, "it is compressed by zstd: save it without compression, or by gzip");
    }
}
