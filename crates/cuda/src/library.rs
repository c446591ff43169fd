//! Finds CUDA's libraries and headers outside of the default search path.
//!
//! Looks at files and asks Python for its folders; loads nothing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Searched places in an error; those of the user come first.
const NAMED_PLACES: usize = 4;

/// The folders of the user's environment, most important first.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// Folders with libraries, as in `LD_LIBRARY_PATH`.
    pub libraries: Vec<PathBuf>,
    /// Roots of CUDA installations, as in `CUDA_HOME`.
    pub roots: Vec<PathBuf>,
    /// The command for finding Python's packages; none to leave Python alone.
    pub python: Option<String>,
}

impl SearchPath {
    /// The existing ones of the usual roots of installations, those of the environment first.
    fn roots(&self) -> Vec<PathBuf> {
        let mut versions = list_prefixed_paths("/usr/local", "cuda-");
        versions.reverse();
        let usual = [PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")];
        self.roots.iter().cloned().chain(usual).chain(versions).collect()
    }

    /// Possible folders of programs of CUDA's toolkit, whether or not they exist.
    pub(crate) fn program_folders(&self) -> impl Iterator<Item = PathBuf> {
        self.roots().into_iter().map(|root| root.join("bin"))
    }

    /// Possible folders of CUDA's libraries, whether or not they exist; Python's last.
    pub(crate) fn library_folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let installed = self.roots().into_iter().flat_map(|root| list_library_folders(&root));
        let python = std::iter::once_with(|| {
            self.packages().into_iter().flat_map(|site| {
                let nvidia = site.join("nvidia");
                let packages = ["cu13", "cuda_nvrtc", "cublas", "curand", "cu12"];
                packages.map(|package| nvidia.join(package).join("lib"))
            })
        });
        self.libraries.iter().cloned().chain(installed).chain(python.flatten())
    }

    /// The same folders, each once, and the system's own.
    pub fn folders(&self) -> Vec<PathBuf> {
        let system = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
        let mut seen_folders = BTreeSet::new();
        self.library_folders()
            .chain(system.map(PathBuf::from))
            .filter(|folder| seen_folders.insert(folder.clone()))
            .collect()
    }

    /// Folders of CUDA's headers for the libnvrtc in `library`.
    pub fn header_folders(&self, library: &Path) -> Vec<PathBuf> {
        let nearby_roots = [1, 2].into_iter().filter_map(|up| library.ancestors().nth(up + 1));
        let packages = ["cuda_runtime", "cuda_cccl", "cu13", "cuda_nvrtc"];
        let nearby_folders: Vec<PathBuf> = nearby_roots
            .flat_map(|root| {
                let targets = list_sorted_entries(&root.join("targets"));
                let siblings = packages.iter().map(|package| root.join(package));
                [root.to_owned()].into_iter().chain(targets).chain(siblings).collect::<Vec<_>>()
            })
            .collect();
        let mut seen_folders = BTreeSet::new();
        nearby_folders
            .into_iter()
            .chain(self.roots())
            .map(|root| root.join("include"))
            .flat_map(|include| [include.join("cccl"), include])
            .filter(|include| {
                include.join("cuda_fp16.h").is_file() || include.join("cuda").is_dir()
            })
            .filter(|include| {
                seen_folders.insert(include.canonicalize().unwrap_or(include.clone()))
            })
            .collect()
    }

    /// The folders of Python's packages.
    fn packages(&self) -> Vec<PathBuf> {
        static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
        let Some(python) = &self.python else { return Vec::new() };
        FOUND.get_or_init(|| site_packages(python).unwrap_or_default()).clone()
    }
}

/// Possible folders of the libraries of the installation at `root`.
fn list_library_folders(root: &Path) -> Vec<PathBuf> {
    let targets = list_sorted_entries(&root.join("targets"));
    let targets = targets.into_iter().map(|target| target.join("lib"));
    [root.join("lib64"), root.join("lib")].into_iter().chain(targets).collect()
}

/// Possible folders of NVRTC where a user names `place`: itself, those of an installation, and those of Python's packages.
pub(super) fn list_installation_folders(place: &Path) -> Vec<PathBuf> {
    let packages = list_sorted_entries(&place.join("nvidia"));
    let packages = packages.into_iter().map(|package| package.join("lib"));
    [place.to_owned()].into_iter().chain(list_library_folders(place)).chain(packages).collect()
}

/// Asks Python where its packages are; nothing if there is no Python.
fn site_packages(python: &str) -> Option<Vec<PathBuf>> {
    const QUESTION: &str =
        "import site; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))";
    let mut command = Command::new(python);
    command.args(["-c", QUESTION]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect())
}

/// Path, size and time of the library at `path`: results may depend on them.
pub fn identify_library(path: &Path) -> String {
    let state = fs::metadata(path).ok();
    let state = state.map(|state| (state.len(), state.mtime(), state.mtime_nsec()));
    format!("{} {state:?}", path.display())
}

/// A library of NVIDIA's for host code.
#[derive(Debug, PartialEq, Eq)]
pub struct Called {
    /// As its files are called.
    pub(super) file: &'static str,
    /// Its package on PyPI, for CUDA 13.
    pub(super) package: &'static str,
    /// The versions known to work, in words.
    pub(super) known: &'static str,
}

/// Why a library for host code cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It was found nowhere.
    #[error("no {}: looked in {}", .library.file, format_searched_places(.looked))]
    Missing {
        library: &'static Called,
        /// The searched folders.
        looked: Vec<String>,
    },
    /// It was found, and cannot be used.
    #[error("cannot use {path}: {message}")]
    Unusable {
        library: &'static Called,
        path: String,
        /// The reason, in the loader's or in its own words.
        message: String,
    },
}

impl LibraryError {
    /// A hint for the user.
    pub fn hint(&self) -> String {
        match self {
            LibraryError::Missing { library: Called { package, .. }, .. } => format!(
                "install it with `pip install {package}` for CUDA 13, \
                 `pip install {package}-cu12` for CUDA 12, or name CUDA's folder in CUDA_HOME"
            ),
            LibraryError::Unusable { library, .. } => {
                format!("{}, with a driver that is as new", library.known)
            }
        }
    }
}

impl Called {
    pub(super) fn missing(&'static self, folders: &[PathBuf]) -> LibraryError {
        let looked = folders.iter().map(|folder| folder.display().to_string()).collect();
        LibraryError::Missing { library: self, looked }
    }

    /// The error of a library at `path` without something that a call needs.
    pub fn unusable(&'static self, path: &Path, message: String) -> LibraryError {
        LibraryError::Unusable { library: self, path: path.display().to_string(), message }
    }
}

/// The first of the places `looked`, and the number of the others.
pub(super) fn format_searched_places(looked: &[String]) -> String {
    let named = &looked[..looked.len().min(NAMED_PLACES)];
    let places = named.join(", ");
    match looked.len() - named.len() {
        0 => places,
        1 => format!("{places} and 1 more folder"),
        more => format!("{places} and {more} more folders"),
    }
}

/// The files called `name.so` or `name.so.N` in `folder`, the newest version first.
pub(super) fn files_in(folder: &Path, name: &str) -> Vec<PathBuf> {
    let stem = format!("{name}.so");
    let mut versioned_files: Vec<(u32, PathBuf)> = list_prefixed_paths(folder, &stem)
        .into_iter()
        .filter_map(|path| Some((parse_library_version(&path, &stem)?, path)))
        .collect();
    versioned_files.sort_by(|a, b| b.cmp(a));
    versioned_files.into_iter().map(|(_, path)| path).collect()
}

/// The `N` of a file called `STEM.N`; 0 of one called `stem`.
fn parse_library_version(path: &Path, stem: &str) -> Option<u32> {
    let version_suffix = path.file_name()?.to_str()?.strip_prefix(stem)?;
    if version_suffix.is_empty() { Some(0) } else { version_suffix.strip_prefix('.')?.parse().ok() }
}

fn list_prefixed_paths(folder: impl AsRef<Path>, prefix: &str) -> Vec<PathBuf> {
    let mut paths = list_sorted_entries(folder.as_ref());
    paths.retain(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    });
    paths
}

/// The entries of `folder`, sorted; none if it does not exist.
fn list_sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_newest_libnvrtc_of_a_folder_comes_first_and_its_parts_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"] {
            touch(&folder.path().join(name));
        }
        touch(&folder.path().join("libnvrtc.alt.so.12"));
        let found = files_in(folder.path(), "libnvrtc");
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["libnvrtc.so.13", "libnvrtc.so.12"]);
    }

    #[test]
    fn the_headers_of_a_python_package_are_found_beside_its_library() {
        let site = tempfile::tempdir().unwrap();
        let nvidia = site.path().join("nvidia");
        touch(&nvidia.join("cuda_runtime/include/cuda_fp16.h"));
        touch(&nvidia.join("cuda_cccl/include/cuda/std/limits"));
        let library = nvidia.join("cuda_nvrtc/lib/libnvrtc.so.12");
        let found = SearchPath::default().header_folders(&library);
        assert_eq!(
            found[..2],
            [nvidia.join("cuda_runtime/include"), nvidia.join("cuda_cccl/include")]
        );
    }

    #[test]
    fn the_headers_of_an_installation_are_found_from_a_target_s_library() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("targets/x86_64-linux");
        touch(&target.join("include/cuda_fp16.h"));
        touch(&target.join("include/cccl/cuda/std/limits"));
        let found = SearchPath::default().header_folders(&target.join("lib/libnvrtc.so.13"));
        assert_eq!(found[..2], [target.join("include/cccl"), target.join("include")]);
    }

    #[test]
    fn an_error_names_a_few_places_and_counts_the_others() {
        let places = |count: u32| {
            let places: Vec<String> = (1..=count).map(|number| format!("/{number}")).collect();
            format_searched_places(&places)
        };
        assert_eq!(places(4), "/1, /2, /3, /4");
        assert_eq!(places(5), "/1, /2, /3, /4 and 1 more folder");
        assert_eq!(places(22), "/1, /2, /3, /4 and 18 more folders");
    }

    #[test]
    fn folders_of_the_environment_are_looked_at_first() {
        let search = SearchPath {
            libraries: vec!["/somewhere".into()],
            roots: vec!["/elsewhere".into()],
            ..SearchPath::default()
        };
        let folders: Vec<PathBuf> = search.library_folders().take(3).collect();
        let expected = ["/somewhere", "/elsewhere/lib64", "/elsewhere/lib"];
        assert_eq!(folders, expected.map(PathBuf::from));
    }
}
