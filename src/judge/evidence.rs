//! Everything that is measured about one revision on one fixture: the plain run, its noise, its
//! float64 shadow.

use rayon::prelude::*;

use super::Nondeterminism;
use crate::compile::{Artifact, CompileError, DeviceModule};
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::replay::{Mode, ReplayError, Replayer, Subject};
use crate::runtime::cpu::Rounding;
use crate::summary::POISON_A;
use crate::tensor::TensorView;
use crate::verdict::compare::compare;
use crate::verdict::noise::{Noise, NoiseAccumulator, NoiseRef, NoiseSummary};
use crate::worker::{Ending, Run};

/// The orders, besides that of the indices, in which blocks and threads are replayed.
const ORDERS: [u64; 3] = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003];

/// Child processes of one revision that run at a time.
const AT_ONCE: usize = 4;

/// The replays that noise is measured by.
fn noise_modes() -> Vec<Mode> {
    let rounded = [Rounding::Down, Rounding::Up, Rounding::TowardZero]
        .map(|rounding| Mode { rounding, ..Mode::plain(POISON_A) });
    let ordered = ORDERS.map(|order| Mode { order, ..Mode::plain(POISON_A) });
    rounded.into_iter().chain(ordered).collect()
}

/// One revision on one fixture.
pub struct Side {
    /// The plain run.
    pub run: Run,
    /// By output.
    pub noise: Vec<(String, Noise)>,
    nondeterminism: Vec<(String, Nondeterminism)>,
    shadow: Option<Run>,
    /// Why there is no shadow.
    pub without_shadow: Option<String>,
}

impl Side {
    /// The noise of output `name`, per element.
    pub fn noise_of(&self, name: &str) -> Option<&[f64]> {
        self.noise.iter().find(|(of, _)| of == name).map(|(_, noise)| noise.per_element.as_slice())
    }

    /// The noise of output `name` in short.
    pub fn noise_summary(&self, name: &str) -> NoiseSummary {
        let found = self.noise.iter().find(|(of, _)| of == name);
        found.map(|(_, noise)| noise.summary.clone()).unwrap_or_default()
    }

    /// How two identical replays differ in output `name`.
    pub fn nondeterminism_of(&self, name: &str) -> Option<Nondeterminism> {
        let found = self.nondeterminism.iter().find(|(of, _)| of == name);
        found.map(|(_, found)| found.clone())
    }

    /// The float64 shadow of output `name`.
    pub fn shadow_of(&self, name: &str) -> Option<TensorView<'_>> {
        self.shadow.as_ref()?.output(name)
    }
}

impl Replayer {
    /// The artifact of `sources`; none if they cannot be tested.
    pub(super) fn artifact(
        &self,
        subject: &Subject,
        sources: &SourceSet,
    ) -> Result<Option<Artifact>, ReplayError> {
        match self.compile(subject, sources, Precision::Native) {
            Ok(artifact) => Ok(Some(artifact)),
            Err(error) if error.is_revision_fault() => Ok(None),
            Err(error) => Err(ReplayError::Compile(error)),
        }
    }

    /// Measures everything about `sources`; compiles the shadow while the noise is measured.
    pub(super) fn side(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        artifact: Artifact,
    ) -> Result<Side, ReplayError> {
        let (native, shadow) = rayon::join(
            || self.native_side(subject, artifact),
            || self.shadow_run(subject, sources),
        );
        let mut side = native?;
        match shadow? {
            Ok(run) => side.shadow = Some(run),
            Err(reason) => side.without_shadow = Some(reason),
        }
        Ok(side)
    }

    /// The plain run and its noise, without a shadow.
    ///
    /// A GPU rounds one way and orders as it likes. Its noise is that of the CPU, around the
    /// CPU's own result, or how far the GPU's repetition lies off where that is more; times the
    /// greatest error of the functions that its kernels call, for the CPU's replays err by one
    /// unit in the last place of each.
    pub(super) fn native_side(
        &self,
        subject: &Subject,
        artifact: Artifact,
    ) -> Result<Side, ReplayError> {
        let run = |mode: &Mode| self.run(subject, &artifact, Precision::Native, mode);
        let base = run(&Mode::plain(POISON_A))?;
        let mut accumulators: Vec<(String, NoiseAccumulator)> = base
            .outputs()
            .map(|(output, view)| (output.name.clone(), NoiseAccumulator::new(&view)))
            .collect();
        let again = run(&Mode::plain(POISON_A))?;
        let on_cpu = match artifact.module {
            Some(_) => {
                let artifact = artifact.without_module();
                Some(self.run(subject, &artifact, Precision::Native, &Mode::plain(POISON_A))?)
            }
            None => None,
        };
        let centre = on_cpu.as_ref().unwrap_or(&base);
        // A few at a time: the outputs of each stay in memory until they are counted.
        for modes in noise_modes().chunks(AT_ONCE) {
            let replays: Vec<Run> = modes.par_iter().map(run).collect::<Result<_, _>>()?;
            let pairs = replays.iter().map(|replay| (centre, replay));
            for (centre, replay) in pairs.chain(on_cpu.as_ref().map(|_| (&base, &again))) {
                accumulate(&mut accumulators, centre, replay);
            }
        }
        let factor = artifact.module.as_ref().map_or(1.0, DeviceModule::math_ulps);
        let noise = accumulators
            .into_iter()
            .filter_map(|(name, accumulator)| {
                let noise = accumulator.finish(&base.output(&name)?);
                let noise = noise.expect("the accumulator was made for this output");
                Some((name, noise.scaled(factor)))
            })
            .collect();
        let nondeterminism = differences(&base, &again);
        Ok(Side { run: base, noise, nondeterminism, shadow: None, without_shadow: None })
    }

    /// The shadow's run, or why there is none.
    pub(super) fn shadow_run(
        &self,
        subject: &Subject,
        sources: &SourceSet,
    ) -> Result<Result<Run, String>, ReplayError> {
        let artifact = match self.shadow_artifact(subject, sources)? {
            Ok(artifact) => artifact,
            Err(reason) => return Ok(Err(reason)),
        };
        let run = self.run(subject, &artifact, Precision::Shadow, &Mode::plain(POISON_A))?;
        Ok(match run.ending {
            Ending::Completed => Ok(run),
            _ => Err("the float64 shadow does not run to its end".to_owned()),
        })
    }

    /// The shadow's artifact, or why there is none.
    pub(super) fn shadow_artifact(
        &self,
        subject: &Subject,
        sources: &SourceSet,
    ) -> Result<Result<Artifact, String>, ReplayError> {
        match self.compile(subject, sources, Precision::Shadow) {
            Ok(artifact) => Ok(match artifact.shadow_obstacles.first() {
                Some(obstacle) => Err(format!("float cannot mean double: {obstacle}")),
                None => Ok(artifact),
            }),
            Err(CompileError::Refused { first_error, .. }) => {
                Ok(Err(format!("the float64 shadow does not compile: {first_error}")))
            }
            Err(error) if error.is_revision_fault() => Ok(Err(error.to_string())),
            Err(error) => Err(ReplayError::Compile(error)),
        }
    }
}

/// Adds how far each output of `replay` lies off that of `centre`.
fn accumulate(accumulators: &mut [(String, NoiseAccumulator)], centre: &Run, replay: &Run) {
    if replay.ending != Ending::Completed {
        return;
    }
    for (name, accumulator) in accumulators {
        if let (Some(base), Some(view)) = (centre.output(name), replay.output(name)) {
            accumulator.add(&base, &view).expect("two runs of one variant");
        }
    }
}

/// The outputs in which two identical replays differ.
fn differences(one: &Run, other: &Run) -> Vec<(String, Nondeterminism)> {
    let none = NoiseRef { base: None, got: None };
    one.outputs()
        .filter_map(|(output, view)| {
            let compared = compare(&view, &other.output(&output.name)?, &none).ok()?;
            (compared.differing > 0).then(|| {
                let found =
                    Nondeterminism { differing: compared.differing, max_abs: compared.max_abs };
                (output.name.clone(), found)
            })
        })
        .collect()
}

/// The elements of output `name` as float64, for sums over them.
pub(super) fn elements(run: &Run, name: &str) -> Option<Vec<f64>> {
    let view = run.output(name)?;
    Some((0..view.len()).map(|index| view.get_f64(index)).collect())
}
