//! `--dump DIR`: the outputs of a replay, its float64 twin and its noise, as files of tensors.
//!
//! Each replay has a folder of its own below `DIR`. Files that are there already are never replaced.

use std::path::{Path, PathBuf};

use ::replay::fixture::{NewTensor, write_file};
use ::replay::numerics::noise::Spread;
use ::replay::report::ReportLine;
use ::replay::tensor::DType;
use ::replay::trial::{Measurement, Shadow, Trial};
use ::replay::worker::Run;

use super::error::{CliResult, CommandError, ErrorContext};
use super::progress::Progress;
use super::project::RequestedRevision;

/// The outputs as the call wrote them.
const OUTPUTS: &str = "outputs";
/// The outputs of the float64 twin.
const TWIN: &str = "twin";
/// The noise of each element of the outputs.
const NOISE: &str = "noise";

/// The folder for the tensors of one replay.
pub struct DumpFolder {
    path: PathBuf,
    /// The metadata of its files.
    origin: Vec<(&'static str, String)>,
}

impl DumpFolder {
    /// The folder below `root` for `trial`, a replay of `target`; none without a `root`.
    ///
    /// # Errors
    /// If it holds such files already: nothing is replaced.
    pub fn plan(
        root: Option<&Path>,
        target: &RequestedRevision,
        trial: &Trial,
    ) -> CliResult<Option<DumpFolder>> {
        let Some(root) = root else { return Ok(None) };
        let fixture = &trial.fixture().name;
        let commit = target.commit.as_ref();
        let revision = commit.map_or("working-tree", |commit| commit.short.as_str());
        let device = trial.lab().backend().device().class;
        let path = root.join(fixture).join(format!("{revision}.{device}"));
        [OUTPUTS, TWIN, NOISE]
            .iter()
            .try_for_each(|name| refuse_taken_file(&name_file(&path, name)))?;
        let commit_name =
            commit.map_or("the working tree".to_owned(), |commit| commit.id.to_string());
        let origin = vec![
            ("fixture", fixture.clone()),
            ("content", trial.content()?.to_owned()),
            ("commit", commit_name),
            ("device", device),
        ];
        Ok(Some(DumpFolder { path, origin }))
    }

    /// Writes what there is of `trial`, and says what there is none of.
    pub fn write(&self, trial: &Trial, progress: &Progress) -> CliResult<()> {
        progress.say(format!("dumping {}", self.path.display()));
        let measurement = match trial.outcome()? {
            outcome if outcome.outputs.is_empty() => None,
            _ => trial.measurement()?.filter(|measurement| measurement.run.outputs().count() > 0),
        };
        let Some(measurement) = measurement else {
            let reason = "the replay has no outputs";
            progress
                .note(&ReportLine::from(format!("no dump in {}: {reason}", self.path.display())));
            return Ok(());
        };
        std::fs::create_dir_all(&self.path)
            .context(|| format!("cannot make the folder {}", self.path.display()))?;
        self.write_tensors(OUTPUTS, &list_outputs(&measurement.run))?;
        let mut absences = match trial.shadow_run()? {
            Shadow::Present(run) => {
                self.write_tensors(TWIN, &list_outputs(run))?;
                list_missing_twins(&measurement.run, run)
            }
            Shadow::Missing { reason } => vec![format!("no {TWIN}: {reason}")],
        };
        absences.extend(self.write_noise(measurement)?);
        let absence_text: String = absences.iter().map(|absence| format!("; {absence}")).collect();
        progress.note(&ReportLine::from(format!("dumped {}{absence_text}", self.path.display())));
        Ok(())
    }

    /// Writes the noise of the outputs, and returns which have none.
    fn write_noise(&self, measurement: &Measurement) -> CliResult<Vec<String>> {
        let mut absences = Vec::new();
        let mut elements = Vec::new();
        for (output, view) in measurement.run.outputs() {
            match measurement.noise_of(&output.name) {
                Some(spread) => {
                    let (dtype, bytes) = spread_elements(spread);
                    elements.push((output.name.as_str(), dtype, view.shape, bytes));
                }
                None => absences.push(format!("no {NOISE} of {}", output.name)),
            }
        }
        let tensors: Vec<NewTensor<'_>> = elements
            .iter()
            .map(|(name, dtype, shape, bytes)| (*name, *dtype, *shape, bytes.as_slice()))
            .collect();
        if !tensors.is_empty() {
            self.write_tensors(NOISE, &tensors)?;
        }
        Ok(absences)
    }

    fn write_tensors(&self, name: &str, tensors: &[NewTensor<'_>]) -> CliResult<()> {
        let path = name_file(&self.path, name);
        // Two fixtures of one name share a folder.
        refuse_taken_file(&path)?;
        let mut metadata = vec![("tensors", name)];
        metadata.extend(self.origin.iter().map(|(key, value)| (*key, value.as_str())));
        Ok(write_file(&path, tensors, &metadata)?)
    }
}

fn name_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.safetensors"))
}

fn refuse_taken_file(path: &Path) -> CliResult<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let message = format!("{} is there already, and a dump replaces no file", path.display());
    Err(CommandError::new(message).with_hint("remove it, or name another folder with --dump"))
}

fn list_outputs(run: &Run) -> Vec<NewTensor<'_>> {
    let outputs = run.outputs();
    outputs
        .map(|(output, view)| (output.name.as_str(), view.dtype, view.shape, view.bytes))
        .collect()
}

/// The outputs of `run` without a float64 twin in `twin`, each with the reason.
fn list_missing_twins(run: &Run, twin: &Run) -> Vec<String> {
    let missing = run.outputs().filter(|(output, _)| twin.output(&output.name).is_none());
    let absences = missing.map(|(output, _)| {
        let reason = twin.why_narrow(&output.name).map(|reason| format!(": {reason}"));
        format!("no {TWIN} of {}{}", output.name, reason.unwrap_or_default())
    });
    absences.collect()
}

/// The numbers of `spread` as the elements of a tensor.
fn spread_elements(spread: &Spread) -> (DType, Vec<u8>) {
    match spread {
        Spread::Single(numbers) => {
            (DType::F32, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        }
        Spread::Double(numbers) => {
            (DType::F64, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        }
    }
}
