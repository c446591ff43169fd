//! Packages for Python beside the user's own: each set of them in a folder of the cache, to be searched before the
//! interpreter's own folders.
//!
//! pip resolves a version against what the interpreter has, so the folder holds this version and what it needs in other
//! versions, and nothing else. The interpreter's own environment is read, and never written. A folder works with any
//! interpreter that the harness names, one of a virtual environment too; an environment of its own would see the packages
//! of the interpreter behind that, and not those of the user's.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::tail_of;
use super::installer::{Installer, parse_uv_plan};
use super::{EnvironmentChange, EnvironmentError, SEARCH_PATH, UserShell, Workshop};
use replay_base::cache::{CacheKind, FolderKind};
use replay_base::foreign::Finished;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::Harness;

/// A package in a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct InstalledPackage {
    name: String,
    version: String,
    /// The hash of the file that it was installed from, or where this lies.
    source: String,
}

impl fmt::Display for InstalledPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// An interpreter with its packages.
#[derive(Clone, Debug)]
pub struct Python {
    word: OsString,
    folder: PathBuf,
    /// What it is, and its packages, a line of each.
    pub description: String,
}

/// Prints what an interpreter is, and its packages.
const DESCRIBE: &str = "
import importlib.metadata, platform, sys
print(sys.executable)
print('python', platform.python_version(), sys.implementation.cache_tag, platform.platform())
known = {}
for found in importlib.metadata.distributions():
    name = found.metadata['Name']
    if name:
        known.setdefault(name, found.version)
for name in sorted(known):
    print(name, known[name])
";
/// Prints where the package of this program lies.
const FIND_PACKAGE: &str = "
import importlib.util
found = importlib.util.find_spec('gradreplay')
print(*(found.submodule_search_locations[:1] if found else []))
";
/// The lines about the interpreter itself in what it prints.
const OWN_LINES: usize = 2;
/// Makes environments with other packages different programs; the program itself does not need it.
const IDENTITY: &str = "REPLAY_ENVIRONMENT";
/// Tells the package for Python that a folder of packages is one.
const FOLDER: &str = "REPLAY_PACKAGES";
/// How the interpreter of a program may be called.
const PYTHON: &str = "python";
/// The beginnings of the variables that configure pip and uv.
const SETTINGS: [&str; 2] = ["PIP_", "UV_"];
/// Signs of an index out of reach, in the words of pip and of uv, and of a machine at fault.
const UNREACHABLE: [&str; 7] = [
    "(from versions: none)",
    "Retrying (Retry",
    "Could not fetch URL",
    "Failed to fetch",
    "was not found in the",
    "No space left on device",
    "Permission denied",
];

impl Python {
    /// The interpreter of the program of `harness`, or `python3` where another program starts.
    ///
    /// # Errors
    /// [`EnvironmentError`] if it does not tell its packages.
    pub fn of_program(shell: &UserShell, harness: &Harness) -> Result<Python, EnvironmentError> {
        let folder = super::harness_folder(harness);
        let word = Python::name_of_program(harness).unwrap_or_else(|| format!("{PYTHON}3").into());
        let mut python = Python { word, folder, description: String::new() };
        let finished = python.run(shell, ["-c", DESCRIBE].map(OsString::from).into())?;
        python.description = String::from_utf8_lossy(&finished.stdout).into_owned();
        if !finished.success() {
            let python = python.name();
            return Err(EnvironmentError::NoPython { python, tail: tail_of(&finished) });
        }
        Ok(python)
    }

    /// Where the package of this program for Python lies, by the interpreter of the program of `harness` or by `python3`.
    pub(super) fn find_package_folder(shell: &UserShell, harness: &Harness) -> Option<PathBuf> {
        let words = [Python::name_of_program(harness), Some(format!("{PYTHON}3").into())];
        words.into_iter().flatten().find_map(|word| {
            let folder = super::harness_folder(harness);
            let python = Python { word, folder, description: String::new() };
            let finished =
                python.run(shell, ["-c", FIND_PACKAGE].map(OsString::from).into()).ok()?;
            let path = PathBuf::from(String::from_utf8_lossy(&finished.stdout).trim());
            (finished.success() && path.is_absolute()).then_some(path)
        })
    }

    /// The interpreter that the program of `harness` names, if it is one.
    fn name_of_program(harness: &Harness) -> Option<OsString> {
        let word = harness.program.as_ref()?.words.first()?;
        let name = Path::new(word).file_name()?.to_string_lossy().into_owned();
        if !name.starts_with(PYTHON) {
            return None;
        }
        let is_path = word.contains('/');
        Some(if is_path { super::harness_folder(harness).join(word).into() } else { word.into() })
    }

    /// The version of `name`, a package or `python` itself, if it has one.
    pub fn version_of(&self, name: &str) -> Option<&str> {
        let own = self.description.lines().skip(1).take(1);
        let mut known = own.chain(self.packages()).filter_map(|line| line.split_once(' '));
        let (_, version) = known.find(|(known, _)| plain_name(known) == plain_name(name))?;
        version.split(' ').next()
    }

    /// Its packages, as `name version`.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.description.lines().skip(OWN_LINES)
    }

    /// One that was not asked.
    #[cfg(test)]
    pub(super) fn described(description: &str) -> Python {
        let folder = PathBuf::new();
        Python { word: "python3".into(), folder, description: description.to_owned() }
    }

    /// What installs packages for it, such as `pip 23.2.1 from ...`.
    ///
    /// # Errors
    /// [`EnvironmentError`] if there is nothing.
    pub fn describe_installer(&self, shell: &UserShell) -> Result<String, EnvironmentError> {
        let finished = match Installer::find(shell, self) {
            Installer::Pip => {
                self.run(shell, ["-m", "pip", "--version"].map(OsString::from).into())?
            }
            Installer::Uv(uv) => {
                shell.run(vec![uv.into(), "--version".into()], Some(self.folder.clone()), &[])?
            }
        };
        let printed = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        if finished.success() {
            Ok(printed)
        } else {
            Err(EnvironmentError::NoPip { python: self.name() })
        }
    }

    /// Its file.
    pub(super) fn executable(&self) -> &str {
        self.description.lines().next().unwrap_or_default()
    }

    /// Where it runs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn name(&self) -> String {
        self.word.to_string_lossy().into_owned()
    }

    pub(super) fn run(
        &self,
        shell: &UserShell,
        arguments: Vec<OsString>,
    ) -> Result<Finished, EnvironmentError> {
        let words = [vec![self.word.clone()], arguments].concat();
        let quiet = [("PIP_DISABLE_PIP_VERSION_CHECK", "1"), ("PIP_NO_INPUT", "1")];
        shell.run(words, Some(self.folder.clone()), &quiet)
    }
}

/// A resolved version: what is installed beside the interpreter's own packages.
#[derive(Serialize, Deserialize)]
struct Resolved {
    packages: Vec<InstalledPackage>,
}

/// What `requirement` needs, for the program of `fixture`.
pub(super) fn install_packages(
    requirement: &Requirement<'_>,
    fixture: &Fixture,
) -> Result<EnvironmentChange, EnvironmentError> {
    let Requirement { workshop, python, .. } = requirement;
    let packages = requirement.resolve_known()?;
    let digest = blake3::hash(format!("{:?}", (&python.description, &packages)).as_bytes());
    let mut variables = vec![(IDENTITY.to_owned(), digest.to_hex()[..40].to_owned())];
    if !packages.is_empty() {
        let folder = requirement.provide(&packages)?;
        let program = fixture.harness.program.as_ref();
        let own = program.and_then(|program| program.env.get(SEARCH_PATH)).cloned();
        let own = own
            .or_else(|| Some(workshop.shell.variable(SEARCH_PATH)?.to_string_lossy().into_owned()));
        let search_path = match own.filter(|own| !own.is_empty()) {
            Some(own) => format!("{}:{own}", folder.display()),
            None => folder.display().to_string(),
        };
        variables.push((SEARCH_PATH.to_owned(), search_path));
        variables.push((FOLDER.to_owned(), folder.display().to_string()));
    }
    let packages = replace_packages(python, &packages);
    Ok(EnvironmentChange::Packages { variables, packages })
}

/// What `python` has with `replaced` in the place of its own, a line of each.
fn replace_packages(python: &Python, replaced: &[InstalledPackage]) -> Vec<String> {
    let is_replaced = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        replaced.iter().any(|package| plain_name(&package.name) == plain_name(name))
    };
    let kept = python.packages().filter(|line| !is_replaced(line)).map(str::to_owned);
    let mut lines: Vec<String> = kept.chain(replaced.iter().map(ToString::to_string)).collect();
    lines.sort_by_key(|line| line.to_lowercase());
    lines
}

/// The name of a package in the one form for all ways to write it.
fn plain_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// Which packages are installed for a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// What the interpreter lacks, with all that this needs.
    Lacking,
    /// Those that are named, whatever the interpreter has.
    Alone,
}

/// A version of a package for an interpreter.
pub(super) struct Requirement<'r> {
    pub workshop: &'r Workshop<'r>,
    pub python: Python,
    /// The package that is another one, as messages name it.
    pub package: String,
    pub version: String,
    /// What is asked for: `triton==3.6.0`.
    pub wanted: Vec<String>,
    /// The index, if it is not the user's.
    pub index: Option<String>,
    pub scope: Scope,
}

impl Requirement<'_> {
    /// Whether it needs no index.
    pub(super) fn is_known(&self) -> bool {
        self.recall().is_some_and(|packages| {
            let key = self.set_key(&packages);
            packages.is_empty()
                || self.workshop.cache.use_folder(FolderKind::Packages, &key).is_some()
        })
    }

    /// Resolves it, if need be again: an index out of reach is met here.
    pub(super) fn reach(&self) -> Result<(), EnvironmentError> {
        self.resolve().map(|_| ())
    }

    /// What was resolved for it before.
    fn recall(&self) -> Option<Vec<InstalledPackage>> {
        let bytes = self.workshop.cache.read(CacheKind::Fact, &self.key())?;
        let resolved: Resolved = serde_json::from_slice(&bytes).ok()?;
        Some(resolved.packages)
    }

    /// What is installed for it, the first time or remembered.
    pub(super) fn resolve_known(&self) -> Result<Vec<InstalledPackage>, EnvironmentError> {
        if let Some(packages) = self.recall() {
            return Ok(packages);
        }
        let resolved = self.resolve()?;
        let text = serde_json::to_vec(&resolved).expect("packages are plain data");
        self.workshop.cache.write(CacheKind::Fact, &self.key(), &text)?;
        Ok(resolved.packages)
    }

    /// The key of what is resolved: the interpreter with its packages, the user's configuration by variables, what is asked.
    fn key(&self) -> String {
        let Requirement { workshop, python, wanted, index, scope, .. } = self;
        let mut hasher = blake3::Hasher::new_derive_key("replay resolved packages 2");
        let is_of_installer = |name: &OsString| {
            let name = name.to_string_lossy();
            SETTINGS.iter().any(|prefix| name.starts_with(prefix))
        };
        let mut configuration: Vec<_> =
            workshop.shell.variables.iter().filter(|(name, _)| is_of_installer(name)).collect();
        configuration.sort();
        let asked = format!("{:?}", (&python.description, configuration, wanted, index, scope));
        hasher.update(asked.as_bytes());
        hasher.finalize().to_hex()[..40].to_owned()
    }

    fn installer(&self) -> Installer {
        Installer::find(&self.workshop.shell, &self.python)
    }

    /// Runs `command` of `installer` with `options` and `requirements`.
    fn run(
        &self,
        installer: &Installer,
        command: &str,
        options: &[&str],
        requirements: &[String],
    ) -> Result<Finished, EnvironmentError> {
        let index = self.index.iter().flat_map(|url| installer.index_options(url));
        let options = options.iter().map(|&option| option.to_owned());
        let arguments: Vec<String> =
            options.chain(index).chain(requirements.iter().cloned()).collect();
        installer.run(&self.workshop.shell, &self.python, command, &arguments)
    }

    /// Asks what would be installed.
    fn resolve(&self) -> Result<Resolved, EnvironmentError> {
        let installer = self.installer();
        let name = installer.name();
        let Requirement { workshop, package, version, .. } = self;
        (workshop.tell)(&format!("asking {name} for {package} {version}"));
        match installer {
            Installer::Pip => self.resolve_by_pip(&installer),
            Installer::Uv(_) => self.resolve_by_uv(&installer),
        }
    }

    fn resolve_by_pip(&self, pip: &Installer) -> Result<Resolved, EnvironmentError> {
        let scratch = self.workshop.cache.scratch()?;
        let report = scratch.path().join("report.json");
        let report_word = report.to_string_lossy();
        let mut options = vec!["--quiet", "--dry-run", "--report", &*report_word];
        if self.scope == Scope::Alone {
            options.extend(["--ignore-installed", "--no-deps"]);
        }
        let finished = self.run(pip, "install", &options, &self.wanted)?;
        let text = fs::read(&report).unwrap_or_default();
        match serde_json::from_slice::<PipReport>(&text) {
            Ok(_) if self.is_yanked(&finished) => Err(self.yanked(&finished)),
            Ok(report) if finished.success() => Ok(report.resolved()),
            _ => Err(self.failure(pip, &finished)),
        }
    }

    /// uv tells names and versions; the hashes of these it tells when it compiles requirements.
    fn resolve_by_uv(&self, uv: &Installer) -> Result<Resolved, EnvironmentError> {
        let mut options = vec!["--dry-run", "--break-system-packages"];
        if self.scope == Scope::Alone {
            options.extend(["--reinstall", "--no-deps"]);
        }
        let finished = self.run(uv, "install", &options, &self.wanted)?;
        if !finished.success() {
            return Err(self.failure(uv, &finished));
        }
        let printed = String::from_utf8_lossy(&finished.stderr).into_owned();
        if self.is_yanked(&finished) {
            return Err(self.yanked(&finished));
        }
        let pins = parse_uv_plan(&printed);
        if pins.is_empty() {
            return Ok(Resolved { packages: Vec::new() });
        }
        let scratch = self.workshop.cache.scratch()?;
        let file = scratch.path().join("requirements.txt");
        let text = format!("{}\n", pins.join("\n"));
        fs::write(&file, text)
            .map_err(|source| EnvironmentError::File { doing: "write requirements", source })?;
        let options = ["--quiet", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"];
        let file = [file.display().to_string()];
        let hashed = self.run(uv, "compile", &options, &file)?;
        if !hashed.success() {
            return Err(self.failure(uv, &hashed));
        }
        let source = blake3::hash(&hashed.stdout).to_hex().to_string();
        let packages = pins.iter().filter_map(|pin| pin.split_once("=="));
        let mut packages: Vec<InstalledPackage> = packages
            .map(|(name, version)| InstalledPackage {
                name: name.to_owned(),
                version: version.to_owned(),
                source: source.clone(),
            })
            .collect();
        packages.sort();
        Ok(Resolved { packages })
    }

    /// The key of the folder with `packages`.
    fn set_key(&self, packages: &[InstalledPackage]) -> String {
        let interpreter = self.python.description.lines().nth(1).unwrap_or_default();
        let content = format!("{:?}", (interpreter, packages));
        blake3::hash(content.as_bytes()).to_hex()[..40].to_owned()
    }

    /// The folder with `packages`, made if the cache lacks it.
    pub(super) fn provide(
        &self,
        packages: &[InstalledPackage],
    ) -> Result<PathBuf, EnvironmentError> {
        let Requirement { workshop, package, version, .. } = self;
        let key = self.set_key(packages);
        if let Some(folder) = workshop.cache.use_folder(FolderKind::Packages, &key) {
            return Ok(folder);
        }
        (workshop.tell)(&format!("installing {package} {version}"));
        let scratch = workshop.cache.scratch()?;
        let made = scratch.path().join("packages");
        let requirements: Vec<String> = packages
            .iter()
            .map(|package| format!("{}=={}", package.name, package.version))
            .collect();
        let target = made.to_string_lossy();
        let options = ["--quiet", "--no-deps", "--target", &*target];
        let installer = self.installer();
        let finished = self.run(&installer, "install", &options, &requirements)?;
        if !finished.success() || !made.is_dir() {
            return Err(self.failure(&installer, &finished));
        }
        Ok(workshop.cache.keep_folder(FolderKind::Packages, &made, &key)?)
    }

    /// Whether the installer warns that the version was taken back. One that is named in full is installed all the same.
    fn is_yanked(&self, finished: &Finished) -> bool {
        let printed = String::from_utf8_lossy(&finished.stderr).into_owned();
        let name = plain_name(&self.package);
        let signs = [
            format!("is a yanked version: '{name}'"),
            format!("`{name}=={}` is yanked", self.version),
        ];
        printed
            .lines()
            .any(|line| signs.iter().any(|sign| plain_name(line).contains(&plain_name(sign))))
    }

    fn yanked(&self, finished: &Finished) -> EnvironmentError {
        EnvironmentError::Yanked {
            package: self.package.clone(),
            version: self.version.clone(),
            tail: tail_of(finished),
        }
    }

    fn failure(&self, installer: &Installer, finished: &Finished) -> EnvironmentError {
        let printed =
            [&finished.stderr, &finished.stdout].map(|text| String::from_utf8_lossy(text));
        let is_unreachable =
            UNREACHABLE.iter().any(|sign| printed.iter().any(|text| text.contains(sign)));
        EnvironmentError::Installer {
            installer: installer.name(),
            package: self.package.clone(),
            version: self.version.clone(),
            tail: tail_of(finished),
            is_value_fault: !is_unreachable,
        }
    }
}

/// What pip would install.
#[derive(Deserialize)]
struct PipReport {
    #[serde(default)]
    install: Vec<PipItem>,
}

#[derive(Deserialize)]
struct PipItem {
    metadata: PipMetadata,
    #[serde(default)]
    download_info: PipSource,
}

#[derive(Deserialize)]
struct PipMetadata {
    name: String,
    version: String,
}

#[derive(Default, Deserialize)]
struct PipSource {
    #[serde(default)]
    url: String,
    #[serde(default)]
    archive_info: PipArchive,
}

#[derive(Default, Deserialize)]
struct PipArchive {
    #[serde(default)]
    hash: Option<String>,
}

impl PipReport {
    fn resolved(self) -> Resolved {
        let packages = self.install.into_iter().map(|item| InstalledPackage {
            name: item.metadata.name,
            version: item.metadata.version,
            source: item.download_info.archive_info.hash.unwrap_or(item.download_info.url),
        });
        let mut packages: Vec<InstalledPackage> = packages.collect();
        packages.sort();
        Resolved { packages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_take_the_place_of_those_with_their_name_however_it_is_written() {
        let description =
            "/usr/bin/python3\npython 3.11\nJinja2 3.1\nml_dtypes 0.6.0\nnumpy 2.3.5\n";
        let python = Python::described(description);
        let replaced = InstalledPackage {
            name: "ml-dtypes".to_owned(),
            version: "0.4.1".to_owned(),
            source: String::new(),
        };
        let lines = replace_packages(&python, &[replaced]);
        assert_eq!(lines, ["Jinja2 3.1", "ml-dtypes 0.4.1", "numpy 2.3.5"]);
    }

    #[test]
    fn what_pip_would_install_is_read_with_its_hashes() {
        let report = r#"{"version": "1", "install": [
            {"metadata": {"name": "numpy", "version": "2.0.1"}, "download_info": {"url": "file:///x/numpy.whl"}},
            {"metadata": {"name": "ml_dtypes", "version": "0.4.1"},
             "download_info": {"url": "u", "archive_info": {"hash": "sha256=ab", "hashes": {"sha256": "ab"}}}}]}"#;
        let resolved = serde_json::from_str::<PipReport>(report).unwrap().resolved();
        let told: Vec<String> = resolved.packages.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["ml_dtypes 0.4.1", "numpy 2.0.1"]);
        assert_eq!(resolved.packages[0].source, "sha256=ab");
        assert_eq!(resolved.packages[1].source, "file:///x/numpy.whl");
        assert!(serde_json::from_str::<PipReport>("{}").unwrap().resolved().packages.is_empty());
    }
}
