//! What a capture ran on, as it has recorded it, beside what is here: packages, compilers and settings.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::{EnvironmentError, Python, UserShell};
use crate::program::{ProgramDevice, program_environment};
use replay_fixture::fixture::{FactTable, Fixture, Provenance};

/// What a capture ran on, beside what is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedEnvironment {
    pub versions: Vec<RecordedVersion>,
    pub settings: Vec<RecordedSetting>,
}

/// A package or a tool, as a capture had it and as it is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RecordedVersion {
    /// The package, or `python`, `cuda`, `cudnn`, `driver`, `cxx` or `nvcc`.
    pub name: String,
    /// Its version when the tensors were captured.
    pub captured: String,
    /// Its version here; null if it is not installed, or not known.
    pub here: Option<String>,
    /// Digits of a hash of its files when the tensors were captured, or `editable`; null if not recorded.
    pub captured_contents: Option<String>,
    /// The same here; null if not known.
    pub contents_here: Option<String>,
    pub relation: VersionRelation,
}

/// How a recorded version and that here are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionRelation {
    /// They are the same, as far as is known.
    Same,
    OtherVersion,
    /// The version is the same, and the files are others.
    OtherContents,
    NotInstalled,
    /// Nothing here tells this version.
    NotCompared,
}

/// A flag of a framework, or a variable, as a capture had it and as it is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RecordedSetting {
    /// The variable, or the expression that gives the flag.
    pub name: String,
    /// Its value when the tensors were captured; null if it was not set.
    pub captured: Option<String>,
    /// Its value here; null if it is not set, or not known.
    pub here: Option<String>,
    pub relation: SettingRelation,
}

/// How a recorded setting and that here are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingRelation {
    Same,
    Other,
    /// The program sets it, or replays choose it themselves.
    NotCompared,
}

impl RecordedVersion {
    /// Whether it is known to be another one here.
    pub fn is_other(&self) -> bool {
        !matches!(self.relation, VersionRelation::Same | VersionRelation::NotCompared)
    }

    /// Whether its files change without an installation, on one side at least.
    pub fn is_editable(&self) -> bool {
        let contents = [&self.captured_contents, &self.contents_here];
        contents.into_iter().flatten().any(|text| text == EDITABLE)
    }
}

impl RecordedSetting {
    /// Whether it is known to be another one here.
    pub fn is_other(&self) -> bool {
        self.relation == SettingRelation::Other
    }
}

/// What lies around the packages of an interpreter.
const TOOLS: [&str; 5] = ["cuda", "cudnn", "cxx", "driver", "nvcc"];
/// The version of CUDA that a framework was built for. Here that of PyTorch is known alone.
const CUDA: &str = "cuda";
const TORCH: &str = "torch";
/// In the place of a hash: the files change without an installation.
const EDITABLE: &str = "editable";
/// What replays choose themselves: one thread, a fixed order of hashes, the interpreter of Triton on the CPU.
const CHOSEN: [&str; 6] = [
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "TRITON_INTERPRET",
    "torch.get_num_threads()",
];
/// The module of the package for Python that tells the rest of what an interpreter has.
const INSTALLED: &str = "gradreplay.installed";

/// What an interpreter has besides versions of packages, as the package for Python tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Installed {
    /// By package, digits of a hash of its files.
    contents: BTreeMap<String, String>,
    /// By tool, its version.
    tools: BTreeMap<String, String>,
    /// The variables that change numbers, as a program has them.
    variables: BTreeMap<String, String>,
}

impl Installed {
    /// Asks `python` for `names` in the environment of the program of `fixture`; none if it does not answer.
    fn ask(
        shell: &UserShell,
        fixture: &Fixture,
        python: &Python,
        names: Vec<&String>,
    ) -> Option<Installed> {
        let spec = fixture.harness.program.as_ref()?;
        let named_variables = &spec.sandbox.env;
        let device = ProgramDevice::Cpu;
        let variables =
            program_environment(&shell.variables, named_variables, spec.env.iter(), device);
        let shell = UserShell { keeper: shell.keeper.clone(), variables };
        let arguments = ["-m", INSTALLED].into_iter().map(OsString::from);
        let arguments = arguments.chain(names.into_iter().map(OsString::from)).collect();
        let finished = python.run(&shell, arguments).ok().filter(|finished| finished.success())?;
        serde_json::from_slice(&finished.stdout).ok()
    }
}

impl RecordedEnvironment {
    /// What `fixture` has recorded, beside what the interpreter of its program has; nothing if it records nothing, or has no
    /// program.
    ///
    /// # Errors
    /// [`EnvironmentError`] if the interpreter does not tell its packages.
    pub fn read(
        shell: &UserShell,
        fixture: &Fixture,
    ) -> Result<RecordedEnvironment, EnvironmentError> {
        let provenance = &fixture.provenance;
        let records_nothing = provenance.versions.is_none() && provenance.settings.is_none();
        if records_nothing || fixture.harness.program.is_none() {
            return Ok(RecordedEnvironment::default());
        }
        let python = Python::of_program(shell, &fixture.harness)?;
        let is_torch = provenance.framework.as_deref() == Some(TORCH);
        let recorded = provenance.versions.iter().flat_map(|versions| versions.0.keys());
        let names = recorded.filter(|name| is_torch || *name != CUDA).collect();
        let installed = Installed::ask(shell, fixture, &python, names);
        Ok(RecordedEnvironment::compare(provenance, &python, installed.as_ref()))
    }

    fn compare(
        provenance: &Provenance,
        python: &Python,
        installed: Option<&Installed>,
    ) -> RecordedEnvironment {
        let versions = provenance.versions.iter().flat_map(|versions| &versions.0);
        let versions = versions.map(|(name, captured)| {
            let hashes = provenance.hashes.as_ref();
            let captured_contents = hashes.and_then(|hashes| hashes.0.get(name)).cloned();
            let contents_here = installed.and_then(|here| here.contents.get(name)).cloned();
            let here = if TOOLS.contains(&name.as_str()) {
                installed.and_then(|here| here.tools.get(name)).cloned()
            } else {
                python.version_of(name).map(str::to_owned)
            };
            let contents = [&captured_contents, &contents_here].map(|known| known.as_deref());
            let relation = relate_versions(name, captured, here.as_deref(), contents);
            let (name, captured) = (name.clone(), captured.clone());
            RecordedVersion { name, captured, here, captured_contents, contents_here, relation }
        });
        let settings = provenance.settings.as_ref();
        RecordedEnvironment {
            versions: versions.collect(),
            settings: settings.map_or_else(Vec::new, |settings| {
                compare_settings(settings, installed.map(|here| &here.variables))
            }),
        }
    }

    /// Takes the settings that the program of `fixture` had in a replay, if it has told any.
    pub fn take_settings(&mut self, fixture: &Fixture, replayed: &BTreeMap<String, String>) {
        if let Some(captured) = &fixture.provenance.settings
            && !replayed.is_empty()
        {
            self.settings = compare_settings(captured, Some(replayed));
        }
    }
}

/// How `captured` and `here` are related, two versions of `name` with the known contents of both sides.
fn relate_versions(
    name: &str,
    captured: &str,
    here: Option<&str>,
    contents: [Option<&str>; 2],
) -> VersionRelation {
    match here {
        None if TOOLS.contains(&name) => VersionRelation::NotCompared,
        None => VersionRelation::NotInstalled,
        Some(here) if here != captured => VersionRelation::OtherVersion,
        Some(_) => match contents {
            [Some(captured), Some(here)]
                if captured != here && captured != EDITABLE && here != EDITABLE =>
            {
                VersionRelation::OtherContents
            }
            _ => VersionRelation::Same,
        },
    }
}

/// The `captured` settings beside those `here`, and the variables that are set here alone.
fn compare_settings(
    captured: &FactTable,
    here: Option<&BTreeMap<String, String>>,
) -> Vec<RecordedSetting> {
    let recorded = captured.0.iter().map(|(name, value)| {
        let value_here = here.and_then(|here| here.get(name));
        let relation = match value_here {
            _ if CHOSEN.contains(&name.as_str()) => SettingRelation::NotCompared,
            Some(value_here) if value_here == value => SettingRelation::Same,
            Some(_) => SettingRelation::Other,
            None if here.is_some() && is_variable(name) => SettingRelation::Other,
            None => SettingRelation::NotCompared,
        };
        let (name, captured, here) = (name.clone(), Some(value.clone()), value_here.cloned());
        RecordedSetting { name, captured, here, relation }
    });
    let set_here_alone = here.into_iter().flatten().filter(|(name, _)| {
        let is_recorded = captured.0.contains_key(*name);
        !is_recorded && is_variable(name) && !CHOSEN.contains(&name.as_str())
    });
    let set_here_alone = set_here_alone.map(|(name, value)| RecordedSetting {
        name: name.clone(),
        captured: None,
        here: Some(value.clone()),
        relation: SettingRelation::Other,
    });
    recorded.chain(set_here_alone).collect()
}

/// Whether the setting `name` is a variable: a flag's name is an expression.
fn is_variable(name: &str) -> bool {
    !name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(entries: &[(&str, &str)]) -> Option<FactTable> {
        let entries = entries.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Some(FactTable(entries.collect()))
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        facts(entries).into_iter().flat_map(|table| table.0).collect()
    }

    fn shown(settings: &[RecordedSetting]) -> Vec<String> {
        let lines = settings.iter().map(|RecordedSetting { name, captured, here, relation }| {
            let [captured, here] =
                [captured, here].map(|value| value.as_deref().unwrap_or("-").to_owned());
            format!("{name}: {captured} | {here}: {relation:?}")
        });
        lines.collect()
    }

    #[test]
    fn a_version_is_told_apart_from_its_contents_and_from_what_cannot_be_known() {
        let versions =
            [("python", "3.11.7"), ("numpy", "2.3.5"), ("torch", "2.11.0"), ("mine", "0.1")];
        let more = [("ours", "0.1"), ("gone", "1.0"), ("jax", "0.9.0"), ("driver", "580.1")];
        let last = [("cudnn", "91002"), ("cxx", "g++ 12")];
        let hashes = [("numpy", "aa"), ("torch", "bb"), ("mine", "editable"), ("ours", "cc")];
        let provenance = Provenance {
            versions: facts(&[&versions[..], &more, &last].concat()),
            hashes: facts(&hashes),
            ..Provenance::default()
        };
        let description = "/usr/bin/python3\npython 3.11.7 cpython-311\njax 0.10.2\nmine 0.1\n\
                           numpy 2.3.5\nours 0.1\ntorch 2.11.0\n";
        let python = Python::described(description);
        let installed = Installed {
            contents: map(&[("numpy", "ab"), ("torch", "bb"), ("mine", "dd")]),
            tools: map(&[("driver", "570.3"), ("cxx", "g++ 12")]),
            ..Installed::default()
        };
        let relations = |installed: Option<&Installed>| -> Vec<String> {
            let recorded = RecordedEnvironment::compare(&provenance, &python, installed);
            let versions = recorded.versions.iter();
            versions.map(|version| format!("{} {:?}", version.name, version.relation)).collect()
        };
        insta::assert_snapshot!(relations(Some(&installed)).join("\n"), @"
        python Same
        numpy OtherContents
        torch Same
        mine Same
        ours Same
        gone NotInstalled
        jax OtherVersion
        driver OtherVersion
        cudnn NotCompared
        cxx Same
        ");
        // An interpreter without the package for Python tells versions alone.
        let without = relations(None);
        assert_eq!(without[1], "numpy Same");
        assert_eq!(without[7..], ["driver NotCompared", "cudnn NotCompared", "cxx NotCompared"]);
    }

    #[test]
    fn variables_are_compared_without_the_program_and_flags_with_it() {
        let captured = facts(&[
            ("torch.backends.cudnn.benchmark", "true"),
            ("torch.get_num_threads()", "8"),
            ("NVIDIA_TF32_OVERRIDE", "0"),
            ("OMP_NUM_THREADS", "8"),
            ("XLA_FLAGS", "--a=1, --b"),
        ])
        .unwrap();
        let variables =
            map(&[("XLA_FLAGS", "--a=1, --b"), ("OMP_NUM_THREADS", "1"), ("MKL_CBWR", "AVX2")]);
        insta::assert_snapshot!(shown(&compare_settings(&captured, Some(&variables))).join("\n"), @"
        torch.backends.cudnn.benchmark: true | -: NotCompared
        torch.get_num_threads(): 8 | -: NotCompared
        NVIDIA_TF32_OVERRIDE: 0 | -: Other
        OMP_NUM_THREADS: 8 | 1: NotCompared
        XLA_FLAGS: --a=1, --b | --a=1, --b: Same
        MKL_CBWR: - | AVX2: Other
        ");
        let replayed = map(&[
            ("torch.backends.cudnn.benchmark", "false"),
            ("torch.get_num_threads()", "1"),
            ("torch.get_default_dtype()", "torch.float32"),
            ("PYTHONHASHSEED", "0"),
        ]);
        insta::assert_snapshot!(shown(&compare_settings(&captured, Some(&replayed))).join("\n"), @"
        torch.backends.cudnn.benchmark: true | false: Other
        torch.get_num_threads(): 8 | 1: NotCompared
        NVIDIA_TF32_OVERRIDE: 0 | -: Other
        OMP_NUM_THREADS: 8 | -: NotCompared
        XLA_FLAGS: --a=1, --b | -: Other
        ");
        let unknown = compare_settings(&captured, None);
        assert!(unknown.iter().all(|setting| !setting.is_other()), "{unknown:?}");
    }
}
