//! Everything that is measured about one revision on one fixture: the plain run, its noise, its
//! float64 shadow.

use super::Nondeterminism;
use super::order::OrderDependence;
use crate::compile::{Artifact, CompileError, DeviceModule};
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::replay::{Mode, Plain, ReplayError, Replayer, Subject};
use crate::runtime::cpu::Rounding;
use crate::summary::POISON_A;
use crate::tensor::TensorView;
use crate::verdict::VerdictError;
use crate::verdict::compare::compare;
use crate::verdict::noise::{
    Moved, Noise, NoiseAccumulator, NoiseRef, NoiseSummary, Ordered, Spread,
};
use crate::worker::{Ending, Run};

/// The orders, besides that of the indices, in which blocks and threads are replayed.
pub(super) const ORDERS: [u64; 3] = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003];

/// The replays that noise is measured by.
fn noise_modes() -> Vec<(Moved, Mode)> {
    let rounded = [Rounding::Down, Rounding::Up, Rounding::TowardZero]
        .map(|rounding| (Moved::Rounding, Mode { rounding, ..Mode::plain(POISON_A) }));
    let ordered = ORDERS.map(|order| (Moved::Order, Mode { order, ..Mode::plain(POISON_A) }));
    rounded.into_iter().chain(ordered).collect()
}

/// One revision on one fixture.
pub struct Side {
    /// The plain run.
    pub run: Run,
    /// By output.
    pub noise: Vec<(String, Noise)>,
    nondeterminism: Vec<(String, Nondeterminism)>,
    /// The outputs that depend on the order of blocks and threads.
    pub ordered: Vec<OrderDependence>,
    shadow: Option<Run>,
    /// Why there is no shadow.
    pub without_shadow: Option<String>,
}

impl Side {
    /// The noise of output `name`, per element.
    pub fn noise_of(&self, name: &str) -> Option<&Spread> {
        self.noise.iter().find(|(of, _)| of == name).map(|(_, noise)| &noise.per_element)
    }

    /// The noise of output `name` in short.
    pub fn noise_summary(&self, name: &str) -> NoiseSummary {
        let found = self.noise.iter().find(|(of, _)| of == name);
        found.map(|(_, noise)| noise.summary.clone()).unwrap_or_default()
    }

    /// Makes the noise of every output `factor` times as large.
    pub fn scale_noise(&mut self, factor: f64) {
        let all = std::mem::take(&mut self.noise).into_iter();
        self.noise = all.map(|(name, noise)| (name, noise.scaled(factor))).collect();
    }

    /// How two identical replays differ in output `name`.
    pub fn nondeterminism_of(&self, name: &str) -> Option<Nondeterminism> {
        let found = self.nondeterminism.iter().find(|(of, _)| of == name);
        found.map(|(_, found)| found.clone())
    }

    /// How output `name` depends on the order of blocks and threads.
    pub fn ordered_of(&self, name: &str) -> Option<OrderDependence> {
        self.ordered.iter().find(|found| found.output == name).cloned()
    }

    /// The float64 shadow of output `name`.
    pub fn shadow_of(&self, name: &str) -> Option<TensorView<'_>> {
        self.shadow.as_ref()?.output(name)
    }
}

/// The noise around one run.
struct Around {
    accumulators: Vec<(String, NoiseAccumulator)>,
    ordered: Vec<(Ordered, OrderDependence)>,
}

impl Around {
    /// The side whose plain run is `run`, with `factor` times this noise.
    fn side(
        mut self,
        run: Run,
        nondeterminism: Vec<(String, Nondeterminism)>,
        factor: f64,
    ) -> Result<Side, ReplayError> {
        let (mut noise, mut ordered) = (Vec::new(), Vec::new());
        for (name, accumulator) in self.accumulators {
            let Some(view) = run.output(&name) else { continue };
            let at = self.ordered.iter().position(|(_, found)| found.output == name);
            let (elements, told) = at.map(|at| self.ordered.swap_remove(at)).unzip();
            let finished = room(accumulator.finish(&view, elements))?;
            noise.push((name, finished.scaled(factor)));
            ordered.extend(told);
        }
        Ok(Side { run, noise, nondeterminism, ordered, shadow: None, without_shadow: None })
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
    pub(super) fn native_side(
        &self,
        subject: &Subject,
        artifact: Artifact,
    ) -> Result<Side, ReplayError> {
        let timeouts = self.timeouts();
        let side = match &artifact.module {
            None => self.side_on_cpu(subject, &artifact)?,
            Some(module) => self.side_on_gpu(subject, &artifact, module)?,
        };
        if self.timeouts() == timeouts {
            self.keep_noise(subject, &artifact, &side)?;
        }
        Ok(side)
    }

    fn side_on_cpu(&self, subject: &Subject, artifact: &Artifact) -> Result<Side, ReplayError> {
        let key = self.outcome_key(subject, artifact)?;
        let (base, again) = match self.take_plain(&key) {
            Some(Plain { run, repeats: true }) => (run, None),
            Some(Plain { run, repeats: false }) => {
                let mode = Mode::plain(POISON_A);
                (run, Some(self.run(subject, artifact, Precision::Native, &mode)?))
            }
            None => {
                let (base, again) = self.run_pair(subject, artifact, [POISON_A; 2])?;
                (base, Some(again))
            }
        };
        // Two replays that differ are no noise here, but worth a finding.
        let nondeterminism = again.map_or(Vec::new(), |again| differences(&base, &again));
        let noise = self.noise_around(subject, artifact, &base)?;
        noise.side(base, nondeterminism, 1.0)
    }

    /// A GPU rounds one way and orders as it likes. Its noise is that of the CPU, around the
    /// CPU's own result, or how far the GPU's repetition lies off where that is more; times the
    /// greatest error of the functions that its kernels call, for the CPU's replays err by one
    /// unit in the last place of each.
    fn side_on_gpu(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        module: &DeviceModule,
    ) -> Result<Side, ReplayError> {
        let plain = Mode::plain(POISON_A);
        let host = artifact.without_module();
        let on_cpu = || {
            let centre = self.run(subject, &host, Precision::Native, &plain)?;
            self.noise_around(subject, &host, &centre)
        };
        let twice = [plain.clone(), plain.clone()];
        let (runs, noise) = rayon::join(|| self.run_on_gpus(subject, artifact, &twice), on_cpu);
        let ((base, again), mut noise) = (runs?, noise?);
        if noise.accumulators.is_empty() {
            // It does not run to its end on the CPU.
            noise.accumulators = self.accumulators(&base, |_| true)?;
        }
        accumulate(&mut noise.accumulators, &base, &again, Moved::Order);
        let nondeterminism = differences(&base, &again);
        noise.side(base, nondeterminism, module.math_ulps())
    }

    /// How other roundings and orders on the CPU move what `centre` gives.
    fn noise_around(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        centre: &Run,
    ) -> Result<Around, ReplayError> {
        let _span = tracing::info_span!("noise", message = subject.fixture.name);
        let mut accumulators = self.accumulators(centre, |_| true)?;
        let (moved, modes): (Vec<Moved>, Vec<Mode>) = noise_modes().into_iter().unzip();
        let at_once = self.at_once(centre);
        self.run_each(subject, artifact, Precision::Native, &modes, at_once, |index, replay| {
            accumulate(&mut accumulators, centre, &replay, moved[index]);
            Ok(())
        })?;
        let ordered = self.ordered(subject, artifact, centre, &accumulators)?;
        Ok(Around { accumulators, ordered })
    }

    /// An accumulator for each output of `run` that is `wanted`.
    pub(super) fn accumulators(
        &self,
        run: &Run,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, NoiseAccumulator)>, ReplayError> {
        let scratch = self.scratch();
        let outputs = run.outputs().filter(|(output, _)| wanted(&output.name));
        outputs
            .map(|(output, view)| Ok((output.name.clone(), NoiseAccumulator::new(&view, scratch)?)))
            .collect()
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
        let _span = tracing::info_span!("shadow", message = subject.fixture.name);
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

/// What was computed of outputs that belong together, or why there was no room for it.
pub(super) fn room<T>(made: Result<T, VerdictError>) -> Result<T, ReplayError> {
    made.map_err(|error| match error {
        VerdictError::Scratch(error) => error.into(),
        VerdictError::Compare(error) => unreachable!("two runs of one fixture: {error}"),
    })
}

/// Adds how far each output of `replay` lies off that of `centre`.
pub(super) fn accumulate(
    accumulators: &mut [(String, NoiseAccumulator)],
    centre: &Run,
    replay: &Run,
    moved: Moved,
) {
    if replay.ending != Ending::Completed {
        return;
    }
    for (name, accumulator) in accumulators {
        if let (Some(base), Some(view)) = (centre.output(name), replay.output(name)) {
            accumulator.add(&base, &view, moved).expect("two runs of one variant");
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

/// The elements of output `name`, for sums over them.
pub(super) fn elements<'r>(run: &'r Run, name: &str) -> Option<Elements<'r>> {
    run.output(name).map(Elements)
}

/// The elements of a tensor as float64, each read when it is asked for.
#[derive(Clone, Copy)]
pub(super) struct Elements<'t>(pub TensorView<'t>);

impl Elements<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = f64> {
        (0..self.0.len()).map(|index| self.0.get_f64(index))
    }
}
