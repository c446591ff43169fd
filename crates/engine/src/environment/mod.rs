//! What trials run in besides their sources: compilers, macros, variables and packages, where a search or a comparison
//! takes others than the session has.
//!
//! A [`Workshop`] makes an [`Environment`] of an axis of the harness and one of its values. A backend runs
//! [in one](crate::backend::Backend::in_environment); what an environment changes is part of the keys of what it changes.

mod command;
mod error;
mod image;
mod installer;
mod nightly;
mod nvrtc;
mod packages;
mod recorded;
mod versions;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::error::EnvironmentError;
pub use self::image::ContainerRuntime;
use self::nightly::Nightly;
pub use self::packages::Python;
use self::packages::{Requirement, Scope};
pub use self::recorded::{
    RecordedEnvironment, RecordedSetting, RecordedVersion, SettingRelation, VersionRelation,
};
pub use self::versions::begins_like;
use crate::compile::Compiler;
use crate::program::ProgramImage;
use replay_base::cache::Cache;
use replay_base::foreign::{Finished, ForeignProgram, Keeper, KeeperError, ProgramBounds};
use replay_cuda::Nvrtc;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::{Axis, AxisKind, AxisValues, Harness, ON, VALUE, is_nvrtc_path};

/// An environment other than the session's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The name of the axis, such as `triton`.
    pub axis: String,
    /// The value on it, such as `3.4.0`.
    pub value: String,
    pub change: EnvironmentChange,
}

/// What is other than in the session's own environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentChange {
    /// The C++ compiler of kernels.
    Compiler(Compiler),
    /// The compiler of kernels for GPUs.
    Nvrtc {
        nvrtc: Nvrtc,
        /// Where it comes from, a line of each.
        lines: Vec<String>,
    },
    /// This macro of kernels, as `NAME=VALUE`.
    Define(String),
    /// This option of NVRTC.
    NvrtcOption {
        option: String,
        /// Whether NVRTC gets it.
        is_given: bool,
    },
    /// These variables of a program.
    Variables(Vec<(String, String)>),
    /// Packages of a program.
    Packages {
        /// They lead the interpreter to them, and are another for each set of packages.
        variables: Vec<(String, String)>,
        /// All that the interpreter then has, in their order.
        packages: Vec<String>,
    },
    /// The files that a program starts in.
    Image(ProgramImage),
}

impl Environment {
    /// As reports name it: `triton 3.4.0`.
    pub fn name(&self) -> String {
        format!("{} {}", self.axis, self.value)
    }

    /// What it sets, a line of each.
    pub fn lines(&self) -> Vec<String> {
        match &self.change {
            EnvironmentChange::Compiler(compiler) => {
                vec![format!("{}: {}", compiler.name(), compiler.version())]
            }
            EnvironmentChange::Nvrtc { lines, .. } => lines.clone(),
            EnvironmentChange::Define(define) => vec![define.clone()],
            EnvironmentChange::NvrtcOption { option, is_given: true } => vec![option.clone()],
            EnvironmentChange::NvrtcOption { option, is_given: false } => {
                vec![format!("without {option}")]
            }
            EnvironmentChange::Variables(variables) => {
                variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
            }
            EnvironmentChange::Packages { packages, .. } => packages.clone(),
            EnvironmentChange::Image(image) => image.lines(),
        }
    }

    /// The compiler of kernels in it, if it is another one.
    pub(crate) fn compiler(&self) -> Option<&Compiler> {
        match &self.change {
            EnvironmentChange::Compiler(compiler) => Some(compiler),
            _ => None,
        }
    }

    /// NVRTC in it, if it is another one.
    pub(crate) fn nvrtc(&self) -> Option<&Nvrtc> {
        match &self.change {
            EnvironmentChange::Nvrtc { nvrtc, .. } => Some(nvrtc),
            _ => None,
        }
    }

    /// The image that programs start in, if there is one.
    pub(crate) fn image(&self) -> Option<&ProgramImage> {
        match &self.change {
            EnvironmentChange::Image(image) => Some(image),
            _ => None,
        }
    }

    /// Makes `harness` as this environment has it.
    pub(crate) fn change_harness(&self, harness: &mut Harness) {
        match (&self.change, &mut harness.program) {
            (EnvironmentChange::Define(define), _) => {
                let name = name_without_value(define);
                harness.defines.retain(|known| name_without_value(known) != name);
                harness.defines.push(define.clone());
            }
            (EnvironmentChange::NvrtcOption { option, is_given }, _) => {
                let name = name_without_value(option);
                harness.nvrtc_options.retain(|known| name_without_value(known) != name);
                harness.nvrtc_options.extend(is_given.then(|| option.clone()));
            }
            (
                EnvironmentChange::Variables(variables)
                | EnvironmentChange::Packages { variables, .. },
                Some(program),
            ) => program.env.extend(variables.iter().cloned()),
            _ => {}
        }
    }
}

/// `fixture` with its harness as `environment` has it; as it is in the session's own.
pub(crate) fn place_fixture(
    environment: Option<&Environment>,
    fixture: &Arc<Fixture>,
) -> Arc<Fixture> {
    let mut placed_fixture = fixture.clone();
    if let Some(environment) = environment
        && environment.compiler().is_none()
        && environment.nvrtc().is_none()
    {
        environment.change_harness(&mut Arc::make_mut(&mut placed_fixture).harness);
    }
    placed_fixture
}

/// An id for the environment with `value` on `axis`, 40 digits like those of a commit.
pub fn hash_environment(axis: &str, value: &str) -> String {
    let text = format!("{:?}", (axis, value));
    blake3::hash(text.as_bytes()).to_hex()[..40].to_owned()
}

/// The variable with Python's folders of packages.
const SEARCH_PATH: &str = "PYTHONPATH";

/// The name in `NAME` or `NAME=VALUE`.
fn name_without_value(define: &str) -> &str {
    define.split_once('=').map_or(define, |(name, _)| name)
}

/// How long a command of an axis may take, and an installation.
const TIME: Duration = Duration::from_secs(60 * 60);

/// What a command of an axis may have.
const BOUNDS: ProgramBounds = ProgramBounds {
    timeout: TIME,
    address_space_bytes: u64::MAX,
    tree_memory_bytes: u64::MAX,
    file_bytes: u64::MAX,
};

/// Runs commands with the user's rights, in his environment.
#[derive(Debug)]
pub struct UserShell {
    pub keeper: Keeper,
    /// The user's environment.
    pub variables: Vec<(OsString, OsString)>,
}

/// Finds a C++ compiler by its words.
pub type FindCompiler<'w> = dyn Fn(&str) -> Result<Compiler, EnvironmentError> + 'w;

/// Makes environments.
pub struct Workshop<'w> {
    shell: UserShell,
    cache: Cache,
    find_compiler: Box<FindCompiler<'w>>,
    tell: Box<dyn Fn(&str) + 'w>,
    /// By the path of a harness, the interpreter of its program.
    pythons: RefCell<HashMap<PathBuf, Python>>,
    /// By the path of a harness, where the package of this program for Python lies.
    package_folders: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
}

impl<'w> Workshop<'w> {
    /// Makes them with `shell`, and keeps packages in `cache`. `find_compiler` finds a C++ compiler as `CXX` names it;
    /// `tell` hears of work that takes long.
    pub fn new(
        shell: UserShell,
        cache: Cache,
        find_compiler: Box<FindCompiler<'w>>,
        tell: Box<dyn Fn(&str) + 'w>,
    ) -> Workshop<'w> {
        let (pythons, package_folders) = Default::default();
        Workshop { shell, cache, find_compiler, tell, pythons, package_folders }
    }

    /// The interpreter of the program of `harness`, asked at the first use.
    fn python(&self, harness: &Harness) -> Result<Python, EnvironmentError> {
        if let Some(python) = self.pythons.borrow().get(&harness.path) {
            return Ok(python.clone());
        }
        let python = Python::of_program(&self.shell, harness)?;
        self.pythons.borrow_mut().insert(harness.path.clone(), python.clone());
        Ok(python)
    }

    /// Where the package of this program for Python lies, looked for at the first use.
    fn package_folder(&self, harness: &Harness) -> Option<PathBuf> {
        let mut known_folders = self.package_folders.borrow_mut();
        let folder = known_folders
            .entry(harness.path.clone())
            .or_insert_with(|| Python::find_package_folder(&self.shell, harness));
        folder.clone()
    }

    /// The values of `axis` on `fixture`, in their order.
    ///
    /// # Errors
    /// [`EnvironmentError`] if the package index does not tell versions.
    pub fn list_values(
        &self,
        axis: &Axis,
        fixture: &Fixture,
    ) -> Result<Vec<String>, EnvironmentError> {
        match (&axis.values, &axis.kind) {
            (AxisValues::Listed(values), _) => Ok(values.clone()),
            (AxisValues::Between { first, last }, AxisKind::Package(package)) => {
                let python = self.python(&fixture.harness)?;
                versions::list_versions(self, &python, package, [first, last])
            }
            (AxisValues::Between { first, last }, AxisKind::Nightly { package, index }) => {
                let python = self.python(&fixture.harness)?;
                Nightly { package, index }.list_days(self, &python, [first, last])
            }
            (AxisValues::Between { first, last }, AxisKind::Nvrtc) => {
                let python = self.python(&fixture.harness)?;
                nvrtc::list_nvrtc_versions(self, &python, [first, last])
            }
            (AxisValues::Between { .. }, _) => unreachable!("only versions have ranges"),
        }
    }

    /// What has to be installed for `value` of `axis`; none if that is nothing.
    fn require<'r>(
        &'r self,
        axis: &Axis,
        value: &str,
        harness: &Harness,
    ) -> Result<Option<Requirement<'r>>, EnvironmentError> {
        let (package, version, index) = match &axis.kind {
            AxisKind::Package(package) => (package, value.to_owned(), None),
            AxisKind::Nightly { package, index } => {
                let python = self.python(harness)?;
                let version = Nightly { package, index }.find_version(self, &python, value)?;
                (package, version, Some(index.clone()))
            }
            AxisKind::Nvrtc if !is_nvrtc_path(value) => {
                return Ok(Some(nvrtc::require_nvrtc(self, self.python(harness)?, value)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Requirement {
            workshop: self,
            python: self.python(harness)?,
            package: package.clone(),
            wanted: vec![format!("{package}=={version}")],
            version,
            index,
            scope: Scope::Lacking,
        }))
    }

    /// Asks for the first of `values` that is not in the cache: what cannot be had because of the index is met before anything is
    /// replayed.
    ///
    /// # Errors
    /// [`EnvironmentError`] if something else than the value is at fault.
    pub fn check_reach(
        &self,
        axis: &Axis,
        values: &[String],
        fixture: &Fixture,
    ) -> Result<(), EnvironmentError> {
        if axis.kind == AxisKind::Image {
            let all_known = values.iter().all(|value| image::is_known_image(self, value));
            return if all_known { Ok(()) } else { image::find_runtime(&self.shell).map(drop) };
        }
        for value in values {
            let asked = match self.require(axis, value, &fixture.harness) {
                Ok(None) => continue,
                Ok(Some(requirement)) if requirement.is_known() => continue,
                Ok(Some(requirement)) => requirement.reach(),
                Err(error) => Err(error),
            };
            return match asked {
                Err(error) if !error.is_value_fault() => Err(error),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// The environment with `value` of `axis` for `fixture`.
    ///
    /// # Errors
    /// [`EnvironmentError`]; it tells whether the value is at fault.
    pub fn make(
        &self,
        axis: &Axis,
        value: &str,
        fixture: &Fixture,
    ) -> Result<Environment, EnvironmentError> {
        let change = match &axis.kind {
            AxisKind::Compiler => EnvironmentChange::Compiler((self.find_compiler)(value)?),
            AxisKind::Nvrtc => nvrtc::provide_nvrtc(self, value, fixture)?,
            AxisKind::Define(name) => EnvironmentChange::Define(format!("{name}={value}")),
            AxisKind::NvrtcOption(option) => EnvironmentChange::NvrtcOption {
                option: option.replace(VALUE, value),
                is_given: option.contains(VALUE) || value == ON,
            },
            AxisKind::Variable(name) => {
                EnvironmentChange::Variables(vec![(name.clone(), value.to_owned())])
            }
            AxisKind::Image => {
                EnvironmentChange::Image(image::provide_image(self, value, fixture)?)
            }
            AxisKind::Command(words) => {
                let folder = harness_folder(&fixture.harness);
                EnvironmentChange::Variables(command::ask_command(self, words, value, &folder)?)
            }
            AxisKind::Package(_) | AxisKind::Nightly { .. } => {
                let requirement = self.require(axis, value, &fixture.harness)?;
                packages::install_packages(&requirement.expect("an axis of packages"), fixture)?
            }
        };
        Ok(Environment { axis: axis.name.clone(), value: value.to_owned(), change })
    }
}

impl UserShell {
    /// The user's variable `name`.
    fn variable(&self, name: &str) -> Option<&OsString> {
        let variable = self.variables.iter().find(|(known_name, _)| known_name == name);
        variable.map(|(_, value)| value)
    }

    /// Runs `words` in the user's environment with `more_variables`, to their end.
    fn run(
        &self,
        words: Vec<OsString>,
        folder: Option<PathBuf>,
        more_variables: &[(&str, &str)],
    ) -> Result<Finished, EnvironmentError> {
        self.run_program(self.program(words, folder, more_variables))
    }

    /// Runs the program `words` of the user's with all system calls, to its end.
    fn run_trusted(&self, words: Vec<OsString>) -> Result<Finished, EnvironmentError> {
        self.run_program(ForeignProgram { is_trusted: true, ..self.program(words, None, &[]) })
    }

    fn program(
        &self,
        words: Vec<OsString>,
        folder: Option<PathBuf>,
        more_variables: &[(&str, &str)],
    ) -> ForeignProgram {
        let mut environment = self.variables.clone();
        let more = more_variables.iter().map(|(name, value)| (name.into(), value.into()));
        environment.extend(more);
        let temporary_folders = Vec::new();
        ForeignProgram {
            words,
            environment,
            folder,
            temporary_folders,
            walls: None,
            root: None,
            is_trusted: false,
        }
    }

    fn run_program(&self, program: ForeignProgram) -> Result<Finished, EnvironmentError> {
        let name = program.words[0].to_string_lossy().into_owned();
        self.keeper.run(&program, &BOUNDS).map_err(|error| match error {
            KeeperError::Keeper(source) | KeeperError::Program(source) => {
                EnvironmentError::Start { program: name, source }
            }
            KeeperError::Root(reason) => EnvironmentError::NoRoot { reason },
        })
    }
}

/// The folder of `harness`.
fn harness_folder(harness: &Harness) -> PathBuf {
    let folder = harness.folder();
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
