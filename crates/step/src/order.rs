//! `step.toml`: the calls of a step in the order of the computation.

use std::path::{Component, Path, PathBuf};

use replay_base::files;
use serde::Deserialize;

/// The file that makes a folder a step.
pub const STEP_FILE: &str = "step.toml";
/// The most bytes of it: a line for each of a million modules.
const MOST_BYTES: u64 = 64 << 20;

/// A step of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOrder {
    /// The name of the model.
    pub model: String,
    /// The number of the step.
    pub step: i64,
    /// The calls, in the order in which they began.
    #[serde(default)]
    pub parts: Vec<StepPart>,
    /// The modules without a fixture.
    #[serde(default)]
    pub left_out: Vec<LeftOutModule>,
}

/// One call of a module.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepPart {
    /// The folder of its fixture, in that of the step.
    pub folder: String,
    /// The path of the module in the model; that of the model is empty.
    pub module: String,
    /// Its class.
    pub kind: String,
    /// The call around it, by its place among the parts.
    pub inside: Option<usize>,
    /// The outputs of its harness that are gradients.
    #[serde(default)]
    pub gradients: Vec<String>,
    /// Whether a gradient reached its outputs, or none can.
    #[serde(default = "is_reached")]
    pub reached: bool,
}

fn is_reached() -> bool {
    true
}

/// A module without a fixture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutModule {
    pub module: String,
    pub reason: String,
}

/// Why a folder is no step.
#[derive(Debug, thiserror::Error)]
pub enum StepFileError {
    #[error("there is no folder {path}")]
    NoFolder { path: PathBuf },
    #[error("{path} is not a step: it holds no step.toml")]
    NoStep { path: PathBuf },
    #[error("failed to read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not the order of a step")]
    Toml { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{path} names no call of a module")]
    Empty { path: PathBuf },
    #[error("{path} names the folder `{folder}` twice")]
    FolderTwice { path: PathBuf, folder: String },
    #[error("{path} names `{folder}`, which is no folder in that of the step")]
    Outside { path: PathBuf, folder: String },
    #[error("{path} has `{folder}` inside of part {inside}, which does not come before it")]
    Inside { path: PathBuf, folder: String, inside: usize },
}

impl StepFileError {
    /// Advice to the user, where the message does not imply it.
    pub fn hint(&self) -> Option<String> {
        match self {
            StepFileError::NoStep { path } if path.join("fixture.toml").exists() => {
                Some(format!("it is a fixture: replay {}", path.display()))
            }
            StepFileError::NoStep { .. } => {
                Some("capture.model writes steps; `replay help page step` says how".to_owned())
            }
            StepFileError::NoFolder { .. } => {
                Some("name the folder of a step, with step.toml in it".to_owned())
            }
            StepFileError::Read { .. } => None,
            StepFileError::Toml { .. }
            | StepFileError::Empty { .. }
            | StepFileError::FolderTwice { .. }
            | StepFileError::Outside { .. }
            | StepFileError::Inside { .. } => Some(
                "capture.model writes it; `replay help page step` says what it holds".to_owned(),
            ),
        }
    }
}

impl StepOrder {
    /// The order of the step in the folder `dir`.
    ///
    /// # Errors
    /// [`StepFileError`] if it is none.
    pub fn load(dir: &Path) -> Result<StepOrder, StepFileError> {
        let path = dir.join(STEP_FILE);
        if !dir.exists() {
            return Err(StepFileError::NoFolder { path: dir.to_owned() });
        }
        if !path.is_file() {
            return Err(StepFileError::NoStep { path: dir.to_owned() });
        }
        let text = files::read_text(&path, MOST_BYTES)
            .map_err(|source| StepFileError::Read { path: path.clone(), source })?;
        let order: StepOrder = toml::from_str(&text)
            .map_err(|source| StepFileError::Toml { path: path.clone(), source: source.into() })?;
        order.check(&path)?;
        Ok(order)
    }

    fn check(&self, path: &Path) -> Result<(), StepFileError> {
        let path = || path.to_owned();
        if self.parts.is_empty() {
            return Err(StepFileError::Empty { path: path() });
        }
        for (place, part) in self.parts.iter().enumerate() {
            let folder = part.folder.clone();
            let mut components = Path::new(&folder).components();
            if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
            {
                return Err(StepFileError::Outside { path: path(), folder });
            }
            if self.parts[..place].iter().any(|other| other.folder == folder) {
                return Err(StepFileError::FolderTwice { path: path(), folder });
            }
            if let Some(inside) = part.inside.filter(|inside| *inside >= place) {
                return Err(StepFileError::Inside { path: path(), folder, inside });
            }
        }
        Ok(())
    }

    /// Whether the part at `inner` lies in that at `outer`, at any depth.
    pub fn holds(&self, outer: usize, inner: usize) -> bool {
        self.around(inner).any(|place| place == outer)
    }

    /// The parts around that at `place`, the nearest first.
    fn around(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parts[place].inside, |around| self.parts[*around].inside)
    }

    /// How many parts lie around that at `place`.
    pub fn depth(&self, place: usize) -> usize {
        self.around(place).count()
    }

    /// The place of the part in `folder`.
    pub fn find(&self, folder: &str) -> Option<usize> {
        self.parts.iter().position(|part| part.folder == folder)
    }

    /// The name of the part at `place`, as reports have it.
    pub fn name(&self, place: usize) -> &str {
        &self.parts[place].folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<StepOrder, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(STEP_FILE), text).unwrap();
        StepOrder::load(dir.path())
            .map_err(|error| error.to_string().replace(&dir.path().display().to_string(), "step0"))
    }

    fn part(folder: &str, inside: &str) -> String {
        format!("[[parts]]\nfolder = {folder:?}\nmodule = \"\"\nkind = \"\"\n{inside}\n")
    }

    const HEAD: &str = "model = \"lm\"\nstep = 3\n";

    #[test]
    fn parts_know_what_holds_them() {
        let parts = [part("m", ""), part("a", "inside = 0"), part("b", "inside = 1")].concat();
        let order = load(&format!("{HEAD}{parts}{}", part("c", "inside = 0"))).unwrap();
        let depths: Vec<usize> = (0..4).map(|place| order.depth(place)).collect();
        assert_eq!(depths, [0, 1, 2, 1]);
        assert!(order.holds(0, 2) && !order.holds(2, 0) && !order.holds(1, 3));
    }

    #[test]
    fn each_fault_of_the_order_is_told() {
        let twice = [part("a", ""), part("a", "")].concat();
        let faults = [
            HEAD.to_owned(),
            format!("{HEAD}{twice}"),
            format!("{HEAD}{}", part("../a", "")),
            format!("{HEAD}{}", part("a/b", "")),
            format!("{HEAD}{}", part("a", "inside = 0")),
            "model = 3".to_owned(),
            format!("{HEAD}colour = 3"),
        ];
        let told: Vec<String> = faults.iter().map(|text| load(text).unwrap_err()).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(STEP_FILE), HEAD).unwrap();
        let hint = StepOrder::load(dir.path()).unwrap_err().hint();
        assert!(hint.is_some_and(|hint| hint.starts_with("capture.model writes it")));
        insta::assert_snapshot!(told.join("\n"), @r"
        step0/step.toml names no call of a module
        step0/step.toml names the folder `a` twice
        step0/step.toml names `../a`, which is no folder in that of the step
        step0/step.toml names `a/b`, which is no folder in that of the step
        step0/step.toml has `a` inside of part 0, which does not come before it
        step0/step.toml is not the order of a step
        step0/step.toml is not the order of a step
        ");
    }

    #[test]
    fn a_folder_without_the_file_is_no_step_and_a_fixture_is_told_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = StepOrder::load(&dir.path().join("absent")).unwrap_err();
        assert!(error.to_string().starts_with("there is no folder "), "{error}");
        let error = StepOrder::load(dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("is not a step: it holds no step.toml"));
        assert!(error.hint().unwrap().starts_with("capture.model writes steps"));
        std::fs::write(dir.path().join("fixture.toml"), "").unwrap();
        let hint = StepOrder::load(dir.path()).unwrap_err().hint().unwrap();
        assert!(hint.starts_with("it is a fixture: replay "), "{hint}");
    }
}
