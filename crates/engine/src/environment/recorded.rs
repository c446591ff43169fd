//! The versions that a capture has recorded, beside those here.

use serde::Serialize;

use super::Python;

/// A package, as a capture had it and as it is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RecordedVersion {
    /// The package, or `python`.
    pub name: String,
    /// Its version when the tensors were captured.
    pub captured: String,
    /// Its version here; null if it is not installed.
    pub here: Option<String>,
}

impl RecordedVersion {
    /// Whether both are the same.
    pub fn is_same(&self) -> bool {
        self.here.as_ref() == Some(&self.captured)
    }
}

/// What lies below the packages of an interpreter: it does not tell their versions.
const BELOW: [&str; 2] = ["cuda", "driver"];

/// The `versions` of a provenance, as `numpy 2.3.5, python 3.11.4`, beside those of `python`.
pub fn compare_recorded_versions(versions: &str, python: &Python) -> Vec<RecordedVersion> {
    let recorded = versions.split(", ").filter_map(|entry| entry.split_once(' '));
    recorded
        .filter(|(name, _)| !BELOW.contains(name))
        .map(|(name, captured)| RecordedVersion {
            name: name.to_owned(),
            captured: captured.to_owned(),
            here: python.version_of(name).map(str::to_owned),
        })
        .collect()
}
