//! Container images as an axis: a runtime exports the files of an image to the cache, once, and replays start in them
//! without it. The path of a folder or an archive needs no runtime at all.

mod archive;
mod runtime;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::archive::unpack_archive;
pub use self::runtime::ContainerRuntime;
pub(super) use self::runtime::find_runtime;
use super::{EnvironmentError, Workshop, harness_folder};
use crate::program::ProgramImage;
use replay_base::cache::{CacheKind, FolderKind};
use replay_base::foreign::{ForeignProgram, KeeperError};
use replay_base::process::root::Root;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::is_image_path;

/// The image's files, in its folder of the cache.
const FILES: &str = "root";
/// What else is known of it, beside them.
const CONFIGURATION: &str = "image.json";
/// The folders of programs where an image names none.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The home in an image where it names none.
const USUAL_HOME: &str = "/root";
/// Nobody has a program of this name: it is looked for in a root that is tried.
const NO_PROGRAM: &str = "/.replay-no-program";

/// An image as it lies in the cache or in a folder of the user's.
struct KeptImage {
    /// The folder with its files.
    root: PathBuf,
    /// A hash of what it is.
    id: String,
    configuration: ImageConfiguration,
}

/// What an image says of the programs in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ImageConfiguration {
    /// Environment variables, as `NAME=VALUE`.
    variables: Vec<String>,
    /// A hash of its files, where the key does not tell them.
    content: Option<String>,
}

/// What is remembered of a reference.
#[derive(Serialize, Deserialize)]
struct KnownReference {
    /// The key of its folder.
    key: String,
}

impl KeptImage {
    /// The image in `folder` of the cache, behind `key`.
    fn new(folder: &Path, key: &str, configuration: ImageConfiguration) -> KeptImage {
        let id = configuration.content.clone().unwrap_or_else(|| key.to_owned());
        KeptImage { root: folder.join(FILES), id, configuration }
    }
}

impl ImageConfiguration {
    /// The variables of a program in the image.
    fn list_variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("PATH".to_owned(), USUAL_PATH.to_owned()),
            ("HOME".to_owned(), USUAL_HOME.to_owned()),
        ];
        for (name, value) in self.variables.iter().filter_map(|variable| variable.split_once('=')) {
            variables.retain(|(known_name, _)| known_name != name);
            variables.push((name.to_owned(), value.to_owned()));
        }
        variables
    }
}

/// The image that `value` names, for the program of `fixture`.
pub(super) fn provide_image(
    workshop: &Workshop<'_>,
    value: &str,
    fixture: &Fixture,
) -> Result<ProgramImage, EnvironmentError> {
    let kept = if is_image_path(value) {
        provide_path(workshop, value, &harness_folder(&fixture.harness).join(value))?
    } else {
        provide_reference(workshop, value)?
    };
    let package = workshop.package_folder(&fixture.harness);
    let variables = kept.configuration.list_variables();
    let KeptImage { root, id, .. } = kept;
    check_root(workshop, &root)?;
    Ok(ProgramImage { id, root, variables, package })
}

/// Whether the image behind the reference `value` is in the cache.
pub(super) fn is_known_image(workshop: &Workshop<'_>, value: &str) -> bool {
    is_image_path(value) || recall_reference(workshop, value).is_some()
}

/// Complains if programs cannot be started in the files of `image` here.
fn check_root(workshop: &Workshop<'_>, image: &Path) -> Result<(), EnvironmentError> {
    match workshop.shell.try_root(image) {
        Some(reason) => Err(EnvironmentError::NoRoot { reason }),
        None => Ok(()),
    }
}

impl super::UserShell {
    /// The container runtime that exports images here.
    ///
    /// # Errors
    /// [`EnvironmentError`] if there is none that works.
    pub fn find_container_runtime(&self) -> Result<ContainerRuntime, EnvironmentError> {
        find_runtime(self)
    }

    /// Why programs cannot be started in the files of `image` here; none if they can.
    pub fn try_root(&self, image: &Path) -> Option<String> {
        let program = ForeignProgram {
            words: vec![NO_PROGRAM.into()],
            environment: Vec::new(),
            folder: Some("/".into()),
            temporary_folders: Vec::new(),
            walls: None,
            root: Some(Root::of_image(image)),
            is_trusted: false,
        };
        match self.keeper.run(&program, &super::BOUNDS) {
            Err(KeeperError::Root(reason)) => Some(reason),
            // The root was entered: only the program is not there.
            Err(KeeperError::Program(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(KeeperError::Program(error) | KeeperError::Keeper(error)) => {
                Some(error.to_string())
            }
            Ok(_) => None,
        }
    }
}

/// The image in the folder or the archive at `path`, which `value` names.
fn provide_path(
    workshop: &Workshop<'_>,
    value: &str,
    path: &Path,
) -> Result<KeptImage, EnvironmentError> {
    let Ok(path) = path.canonicalize() else {
        return Err(EnvironmentError::NoImage { image: value.to_owned() });
    };
    if path.is_dir() {
        let id = hash_folder(&path).map_err(image_file_error("read the image's folder"))?;
        return Ok(KeptImage { root: path, id, configuration: ImageConfiguration::default() });
    }
    let mut hasher = blake3::Hasher::new_derive_key("replay image archive 1");
    hasher.update_mmap_rayon(&path).map_err(image_file_error("read the image's archive"))?;
    let key = hasher.finalize().to_hex()[..40].to_owned();
    if let Some(kept) = recall_image(workshop, &key) {
        return Ok(kept);
    }
    (workshop.tell)(&format!("unpacking {value}"));
    keep_image(workshop, &key, |target| {
        let variables = unpack_archive(&path, target)
            .map_err(|source| EnvironmentError::Archive { image: value.to_owned(), source })?;
        Ok(ImageConfiguration { variables, content: None })
    })
}

/// The image behind the reference `value`, as a runtime knows it now. Without a runtime, or where the runtime has it no
/// more, it is the one in the cache.
fn provide_reference(workshop: &Workshop<'_>, value: &str) -> Result<KeptImage, EnvironmentError> {
    let runtime = match find_runtime(&workshop.shell) {
        Ok(runtime) => runtime,
        Err(error) => return recall_reference(workshop, value).ok_or(error),
    };
    let inspected = runtime.inspect(&workshop.shell, value)?;
    let inspected = match (inspected, recall_reference(workshop, value)) {
        (Some(inspected), _) => inspected,
        (None, Some(kept)) => return Ok(kept),
        (None, None) => {
            (workshop.tell)(&format!("pulling {value}"));
            runtime.pull(&workshop.shell, value)?
        }
    };
    let key = hash_reference(&inspected.id);
    let kept = match recall_image(workshop, &key) {
        Some(kept) => kept,
        None => {
            (workshop.tell)(&format!("exporting {value}"));
            keep_image(workshop, &key, |target| {
                runtime.export(workshop, value, &inspected, target)
            })?
        }
    };
    let text = serde_json::to_vec(&KnownReference { key }).expect("a key is plain data");
    workshop.cache.write(CacheKind::Fact, &hash_reference(value), &text)?;
    Ok(kept)
}

/// A key for a reference, or for the id of an image.
fn hash_reference(text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("replay image 1");
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex()[..40].to_owned()
}

/// The image that the reference `value` was before, if the cache has it.
fn recall_reference(workshop: &Workshop<'_>, value: &str) -> Option<KeptImage> {
    let bytes = workshop.cache.read(CacheKind::Fact, &hash_reference(value))?;
    let known: KnownReference = serde_json::from_slice(&bytes).ok()?;
    recall_image(workshop, &known.key)
}

/// The image behind `key`, if the cache has it.
fn recall_image(workshop: &Workshop<'_>, key: &str) -> Option<KeptImage> {
    let folder = workshop.cache.use_folder(FolderKind::Image, key)?;
    let configuration = fs::read(folder.join(CONFIGURATION)).ok()?;
    let configuration = serde_json::from_slice(&configuration).ok()?;
    Some(KeptImage::new(&folder, key, configuration))
}

/// Keeps the image that `fill` puts into a folder, behind `key`.
fn keep_image(
    workshop: &Workshop<'_>,
    key: &str,
    fill: impl FnOnce(&Path) -> Result<ImageConfiguration, EnvironmentError>,
) -> Result<KeptImage, EnvironmentError> {
    let scratch = workshop.cache.scratch()?;
    let made = scratch.path().join("image");
    let root = made.join(FILES);
    fs::create_dir_all(&root).map_err(image_file_error("make a folder for the image"))?;
    let configuration = fill(&root)?;
    let text = serde_json::to_vec(&configuration).expect("variables are plain data");
    fs::write(made.join(CONFIGURATION), text).map_err(image_file_error("keep the image"))?;
    let folder = workshop.cache.keep_folder(FolderKind::Image, &made, key)?;
    Ok(KeptImage::new(&folder, key, configuration))
}

/// A hash of the names in `folder` and below, with their kinds, sizes and times.
fn hash_folder(folder: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new_derive_key("replay image folder 1");
    let mut folders = vec![folder.to_owned()];
    while let Some(around) = folders.pop() {
        let mut entries = fs::read_dir(&around)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let state = entry.metadata()?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let target = if state.is_symlink() { fs::read_link(&path)? } else { PathBuf::new() };
            let times = (state.mtime(), state.mtime_nsec());
            let size = if state.is_dir() { 0 } else { state.len() };
            let times = if state.is_dir() { (0, 0) } else { times };
            hasher.update(format!("{:?}", (name, state.mode(), size, times, target)).as_bytes());
            if state.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(hasher.finalize().to_hex()[..40].to_owned())
}

fn image_file_error(doing: &'static str) -> impl FnOnce(io::Error) -> EnvironmentError {
    move |source| EnvironmentError::File { doing, source }
}
