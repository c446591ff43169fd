//! Pictures of the outputs of a trial, beside those of a trusted one: made while both still have their
//! outputs, and remembered by content like judgements.

use serde::{Deserialize, Serialize};

use super::gradcheck::has_loss;
use super::known::Known;
use super::side::Side;
use crate::backend::{Mode, ReplayError};
use crate::numerics::noise::NoiseRef;
use crate::numerics::picture::{Picture, Scene};
use crate::summary::POISON_B;
use crate::tensor::TensorView;
use crate::trial::{Failure, Status, Trial, digest};
use crate::worker::Run;

/// The picture of one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputPicture {
    pub name: String,
    pub picture: Picture,
}

/// A picture of each output of `got` that has the same name in `base`, which is trusted. Without `base`,
/// outputs are held against the captured ones of the fixture, and against the oracle, or their shadow where there are
/// gradients to check; there is none of an output that could be held against nothing.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn pictures(base: Option<&Trial>, got: &Trial) -> Result<Vec<OutputPicture>, ReplayError> {
    for trial in [base, Some(got)].into_iter().flatten() {
        let outcome = trial.outcome()?;
        if trial.variant()?.is_none() || outcome.outputs.is_empty() || outcome.is_late() {
            return Ok(Vec::new());
        }
    }
    // Beside a side that failed by itself nothing is learned of where the other lies off.
    if let Some(base) = base
        && !base.outcome()?.can_be_compared_with(got.outcome()?)
    {
        return Ok(Vec::new());
    }
    let fixture = got.fixture();
    let shows = base.is_some()
        || !fixture.captured.is_empty()
        || !fixture.oracle.is_empty()
        || fixture.outputs.iter().any(has_loss)
        || matches!(got.outcome()?.status, Status::Failed(_));
    if !shows {
        return Ok(Vec::new());
    }
    let trusted = base.map_or(Ok(""), Trial::key)?;
    let key = digest(["pictures", trusted, got.key()?]);
    got.lab().remember(&key, || match base {
        Some(base) => beside(base, got),
        None => alone(got),
    })
}

/// The outputs of `got` beside those of `base`.
fn beside(base: &Trial, got: &Trial) -> Result<Vec<OutputPicture>, ReplayError> {
    let (Some(base), Some(side)) = (Side::of(base)?, Side::of(got)?) else {
        return Ok(Vec::new());
    };
    let again = repoisoned(got)?;
    let mut made = Vec::new();
    for (output, view) in side.measured.run.outputs() {
        let name = output.name.as_str();
        let Some(old) = base.measured.run.output(name) else { continue };
        let noise =
            NoiseRef { base: base.measured.noise_of(name), got: side.measured.noise_of(name) };
        let oracle = base.shadow_of(name);
        let again = again.as_ref().and_then(|run| run.output(name));
        made.push(picture(got, name, Scene { got: view, again, base: Some((old, noise)), oracle }));
    }
    Ok(made)
}

/// The outputs of `got` beside the captured ones.
fn alone(got: &Trial) -> Result<Vec<OutputPicture>, ReplayError> {
    let (Some(measured), fixture) = (got.measurement()?, got.fixture()) else {
        return Ok(Vec::new());
    };
    let shadow = match fixture.outputs.iter().any(has_loss) {
        true => got.shadow_run()?.ok(),
        false => None,
    };
    let again = repoisoned(got)?;
    let captured: Vec<Known> =
        fixture.captured.iter().map(|output| Known::of(fixture, output)).collect();
    let mut made = Vec::new();
    for (output, view) in measured.run.outputs() {
        let name = output.name.as_str();
        let noise = measured.noise_of(name);
        let noise = NoiseRef { base: noise, got: noise };
        let base = captured.iter().find(|one| one.name == name);
        let base = base.map(|one| (one.view(), noise));
        let oracle = shadow.and_then(|shadow| shadow.output(name));
        let again = again.as_ref().and_then(|run| run.output(name));
        made.push(picture(got, name, Scene { got: view, again, base, oracle }));
    }
    Ok(made)
}

/// The picture of output `name`; its truth is the declared oracle, if there is one.
fn picture(trial: &Trial, name: &str, scene: Scene<'_>) -> OutputPicture {
    let declared = trial.fixture().oracle.iter().find(|output| output.name == name);
    let shape = declared.map(|output| output.shape());
    let truth = declared.zip(shape.as_deref()).map(|(output, shape)| TensorView {
        dtype: output.dtype,
        shape,
        bytes: output.bytes(),
    });
    let scene = Scene { oracle: truth.or(scene.oracle), ..scene };
    OutputPicture { name: name.to_owned(), picture: Picture::of(&scene) }
}

/// A replay on other poison, where the outcome says that memory which nobody wrote shows.
fn repoisoned(trial: &Trial) -> Result<Option<Run>, ReplayError> {
    let by_memory = |failure: &Failure| {
        matches!(failure, Failure::Unwritten { .. } | Failure::PoisonDependent { .. })
    };
    match (&trial.outcome()?.status, trial.variant()?) {
        (Status::Failed(failures), Some(variant))
            if failures.iter().any(by_memory) && variant.abilities().poison =>
        {
            variant.run(&Mode::plain(POISON_B)).map(Some)
        }
        _ => Ok(None),
    }
}
