//! Pictures of the outputs of a trial, beside those of a trusted one: made while both still have their
//! outputs, and remembered by content like judgements.

use serde::{Deserialize, Serialize};

use super::gradcheck::has_differentiable_loss;
use super::known::RoundedOutput;
use super::side::MeasuredTrial;
use crate::backend::{Ability, Mode, ReplayError};
use crate::trial::{Failure, Status, Trial, digest_key_parts};
use crate::worker::Run;
use replay_base::summary::POISON_B;
use replay_base::tensor::TensorView;
use replay_numerics::noise::NoiseRef;
use replay_numerics::picture::{Picture, Scene};

/// The picture of one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputPicture {
    pub name: String,
    pub picture: Picture,
}

/// A picture of each output of `got` beside that of the trusted `base`. Without `base`,
/// outputs are held against the captured ones of the fixture, and against the oracle, or their shadow where there are
/// gradients to check; an output without any of these has none.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn draw_output_pictures(
    base: Option<&Trial>,
    got: &Trial,
) -> Result<Vec<OutputPicture>, ReplayError> {
    for trial in [base, Some(got)].into_iter().flatten() {
        let outcome = trial.outcome()?;
        if trial.variant()?.is_none() || outcome.outputs.is_empty() || outcome.is_late() {
            return Ok(Vec::new());
        }
    }
    // Beside a failed side nothing is learned of the other's place.
    if let Some(base) = base
        && !base.outcome()?.can_be_compared_with(got.outcome()?)
    {
        return Ok(Vec::new());
    }
    let fixture = got.fixture();
    let shows = base.is_some()
        || !fixture.captured.is_empty()
        || !fixture.oracle.is_empty()
        || fixture.outputs.iter().any(has_differentiable_loss)
        || matches!(got.outcome()?.status, Status::Failed(_));
    if !shows {
        return Ok(Vec::new());
    }
    let trusted = base.map_or(Ok(""), Trial::key)?;
    let key = digest_key_parts(["pictures", trusted, got.key()?]);
    got.lab().remember(&key, || match base {
        Some(base) => draw_beside_trusted(base, got),
        None => draw_beside_captured(got),
    })
}

/// The outputs of `got` beside those of `base`.
fn draw_beside_trusted(base: &Trial, got: &Trial) -> Result<Vec<OutputPicture>, ReplayError> {
    let (Some(base), Some(side)) = (MeasuredTrial::measure(base)?, MeasuredTrial::measure(got)?)
    else {
        return Ok(Vec::new());
    };
    let repoisoned_run = rerun_with_poison(got)?;
    let mut drawn_pictures = Vec::new();
    for (output, view) in side.measured.run.outputs() {
        let name = output.name.as_str();
        let Some(old) = base.measured.run.output(name) else { continue };
        let noise =
            NoiseRef { base: base.measured.noise_of(name), got: side.measured.noise_of(name) };
        let oracle = base.shadow_of(name);
        let again = repoisoned_run.as_ref().and_then(|run| run.output(name));
        drawn_pictures.push(draw_scene(
            got,
            name,
            Scene { got: view, again, base: Some((old, noise)), oracle },
        ));
    }
    Ok(drawn_pictures)
}

/// The outputs of `got` beside the captured ones.
fn draw_beside_captured(got: &Trial) -> Result<Vec<OutputPicture>, ReplayError> {
    let (Some(measurement), fixture) = (got.measurement()?, got.fixture()) else {
        return Ok(Vec::new());
    };
    let shadow = if fixture.outputs.iter().any(has_differentiable_loss) {
        got.shadow_run()?.present().copied()
    } else {
        None
    };
    let repoisoned_run = rerun_with_poison(got)?;
    let captured: Vec<RoundedOutput> =
        fixture.captured.iter().map(|output| RoundedOutput::new(fixture, output)).collect();
    let mut drawn_pictures = Vec::new();
    for (output, view) in measurement.run.outputs() {
        let name = output.name.as_str();
        let noise = measurement.noise_of(name);
        let noise = NoiseRef { base: noise, got: noise };
        let base = captured.iter().find(|known_output| known_output.name == name);
        let base = base.map(|known_output| (known_output.view(), noise));
        let oracle = shadow.and_then(|shadow| shadow.output(name));
        let again = repoisoned_run.as_ref().and_then(|run| run.output(name));
        drawn_pictures.push(draw_scene(got, name, Scene { got: view, again, base, oracle }));
    }
    Ok(drawn_pictures)
}

/// The picture of output `name`; its truth is the declared oracle, if there is one.
fn draw_scene(trial: &Trial, name: &str, scene: Scene<'_>) -> OutputPicture {
    let declared_oracle = trial.fixture().oracle.iter().find(|output| output.name == name);
    let shape = declared_oracle.map(|output| output.shape());
    let truth = declared_oracle.zip(shape.as_deref()).map(|(output, shape)| TensorView {
        dtype: output.dtype,
        shape,
        bytes: output.bytes(),
    });
    let scene = Scene { oracle: truth.or(scene.oracle), ..scene };
    OutputPicture { name: name.to_owned(), picture: Picture::draw(&scene) }
}

/// Whether unwritten memory shows in `failure`.
fn is_by_memory(failure: &Failure) -> bool {
    matches!(failure, Failure::Unwritten { .. } | Failure::PoisonDependent { .. })
}

/// A replay on other poison, where unwritten memory shows in the outcome.
fn rerun_with_poison(trial: &Trial) -> Result<Option<Run>, ReplayError> {
    match (&trial.outcome()?.status, trial.variant()?) {
        (Status::Failed(failures), Some(variant))
            if failures.iter().any(is_by_memory) && variant.can(Ability::Poison) =>
        {
            variant.run(&Mode::plain(POISON_B)).map(Some)
        }
        _ => Ok(None),
    }
}
