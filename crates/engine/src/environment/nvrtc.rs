//! NVRTC as an axis: an installation, or NVIDIA's packages for Python with the library and the headers of its version.

use super::packages::{Requirement, Scope};
use super::versions::{list_known_versions, select_between};
use super::{EnvironmentChange, EnvironmentError, Python, Workshop, harness_folder};
use replay_cuda::Nvrtc;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::{is_nvrtc_path, parse_nvrtc_release};

/// The first version whose packages have no CUDA version in their names.
const FIRST_PLAIN: u32 = 13;

/// The package `name` of NVIDIA's for CUDA `major`.
fn name_package(name: &str, major: u32) -> String {
    if major < FIRST_PLAIN { format!("nvidia-{name}-cu{major}") } else { format!("nvidia-{name}") }
}

/// NVRTC's package for CUDA `major`.
fn name_nvrtc(major: u32) -> String {
    name_package("cuda-nvrtc", major)
}

/// NVRTC at `value`, a version or a path.
pub(super) fn provide_nvrtc(
    workshop: &Workshop<'_>,
    value: &str,
    fixture: &Fixture,
) -> Result<EnvironmentChange, EnvironmentError> {
    if is_nvrtc_path(value) {
        let nvrtc = Nvrtc::open(&harness_folder(&fixture.harness).join(value))?;
        let (major, minor) = nvrtc.version();
        let line = format!("NVRTC {major}.{minor}: {}", nvrtc.path().display());
        return Ok(EnvironmentChange::Nvrtc { nvrtc, lines: vec![line] });
    }
    let requirement = require_nvrtc(workshop, workshop.python(&fixture.harness)?, value);
    let packages = requirement.resolve_known()?;
    let nvrtc = Nvrtc::open(&requirement.provide(&packages)?)?;
    let lines = packages.iter().map(ToString::to_string).collect();
    Ok(EnvironmentChange::Nvrtc { nvrtc, lines })
}

/// The packages for `value`, a version, by what `python` has to install them.
pub(super) fn require_nvrtc<'w>(
    workshop: &'w Workshop<'w>,
    python: Python,
    value: &str,
) -> Requirement<'w> {
    let (major, minor) = parse_nvrtc_release(value).expect("a harness names a version or a path");
    let release = format!("{major}.{minor}");
    let package = name_nvrtc(major);
    // Without a patch the newest one is meant.
    let wanted = if value == release { format!("{release}.*") } else { value.to_owned() };
    let headers = name_package("cuda-runtime", major);
    Requirement {
        workshop,
        python,
        wanted: vec![format!("{package}=={wanted}"), format!("{headers}=={release}.*")],
        package,
        version: value.to_owned(),
        index: None,
        scope: Scope::Alone,
    }
}

/// The versions of NVRTC from `ends[0]` to `ends[1]`, the oldest first, each without its patch.
pub(super) fn list_nvrtc_versions(
    workshop: &Workshop<'_>,
    python: &Python,
    ends: [&String; 2],
) -> Result<Vec<String>, EnvironmentError> {
    let [first, last] = ends.map(|end| parse_nvrtc_release(end).expect("ends are versions"));
    let mut known = Vec::new();
    for major in first.0..=last.0 {
        let of_major = list_known_versions(workshop, python, &name_nvrtc(major), None)?;
        // The newest first, as in the answer for one package.
        known.splice(0..0, of_major);
    }
    let chosen = select_between(&name_nvrtc(last.0), &known, ends)?;
    let mut releases: Vec<String> = Vec::new();
    for version in chosen {
        let Some((major, minor)) = parse_nvrtc_release(&version) else { continue };
        let release = format!("{major}.{minor}");
        if releases.last() != Some(&release) {
            releases.push(release);
        }
    }
    Ok(releases)
}
