//! Takes the numbers of one step from its tensors. The tensors are dropped afterwards.

use std::borrow::Cow;
use std::path::Path;

use super::TensorCatalogue;
use super::adam::{AdamSetting, DEFAULT, measure_adam};
use super::alignment::{Alignment, measure_alignment};
use super::catalogue::infer_metric_role;
use super::numbers::{ParameterUpdate, Scalars, StepNumbers, TensorNumbers};
use replay_base::cache::{Cache, CacheKind};
use replay_base::summary::{Summary, summarize_tensor};
use replay_base::tensor::{DType, TensorView};
use replay_engine::trial::Outcome;
use replay_engine::worker::Run;
use replay_fixture::fixture::{Fixture, FixtureError, Input};
use replay_fixture::harness::Role;

/// A tensor of a step.
struct StepElements<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl StepElements<'_> {
    fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }
}

/// Where the outputs of a step come from.
pub(super) enum OutputSource<'a> {
    Captured,
    /// A replay; its elements only where they were asked for.
    Replayed(&'a Outcome, Option<&'a Run>),
}

/// The tensors of one step.
struct StepTensors<'a> {
    fixture: &'a Fixture,
    outputs: &'a OutputSource<'a>,
}

impl StepTensors<'_> {
    fn input(&self, name: &str) -> Option<&Input> {
        self.fixture.inputs.iter().find(|input| input.name == name && input.present)
    }

    /// The elements of `name`, if they are there.
    fn elements(&self, name: &str) -> Result<Option<StepElements<'_>>, FixtureError> {
        if let Some(input) = self.input(name) {
            let dtype = input.dtype;
            let shape = input.shape();
            let bytes = input.packed()?;
            return Ok(Some(StepElements { dtype, shape, bytes }));
        }
        Ok(match self.outputs {
            OutputSource::Captured => {
                let captured_output =
                    self.fixture.captured.iter().find(|output| output.name == name);
                captured_output.map(|output| StepElements {
                    dtype: output.dtype,
                    shape: output.shape(),
                    bytes: output.bytes().into(),
                })
            }
            OutputSource::Replayed(_, run) => {
                run.and_then(|run| run.output(name)).map(|view| StepElements {
                    dtype: view.dtype,
                    shape: view.shape.to_vec(),
                    bytes: view.bytes.into(),
                })
            }
        })
    }

    /// The summary of `name`, if it is there.
    fn summary(&self, name: &str) -> Result<Option<Cow<'_, Summary>>, FixtureError> {
        if let OutputSource::Replayed(outcome, _) = self.outputs
            && self.input(name).is_none()
        {
            let record = outcome.outputs.iter().find(|record| record.name == name);
            return Ok(record.map(|record| Cow::Borrowed(&record.summary)));
        }
        Ok(self.elements(name)?.map(|tensor| Cow::Owned(summarize_tensor(&tensor.view(), None))))
    }

    /// The one number of the tensor with `role`, or the mean of its elements; without one, the metric.
    fn read_scalar(
        &self,
        catalogue: &TensorCatalogue,
        role: &Role,
    ) -> Result<Option<f64>, FixtureError> {
        let Some(name) = catalogue.scalar(role) else { return Ok(self.find_metric(role)) };
        let summary = self.summary(name)?;
        Ok(summary.map(|summary| match &*summary {
            Summary { nan, unwritten, .. } if nan + unwritten > 0 => f64::NAN,
            Summary { inf, .. } if *inf > 0 => f64::INFINITY,
            Summary { mean, .. } => mean.unwrap_or(f64::NAN),
        }))
    }

    /// The metric of the captured step with `role`. Its loss is not that of a replay.
    fn find_metric(&self, role: &Role) -> Option<f64> {
        if *role == Role::Loss && matches!(self.outputs, OutputSource::Replayed(..)) {
            return None;
        }
        let mut metrics = self.fixture.metrics.iter();
        metrics.find(|(name, _)| infer_metric_role(name) == *role).map(|(_, value)| *value)
    }

    fn scalars(&self, catalogue: &TensorCatalogue) -> Result<Scalars, FixtureError> {
        Ok(Scalars {
            loss: self.read_scalar(catalogue, &Role::Loss)?,
            grad_norm: self.read_scalar(catalogue, &Role::GradNorm)?,
            max_norm: self.read_scalar(catalogue, &Role::MaxNorm)?,
            lr: self.read_scalar(catalogue, &Role::LearningRate)?,
            beta1: self.read_scalar(catalogue, &Role::Beta1)?,
            beta2: self.read_scalar(catalogue, &Role::Beta2)?,
            eps: self.read_scalar(catalogue, &Role::Epsilon)?,
            adam_step: self.read_scalar(catalogue, &Role::AdamStep)?,
        })
    }

    /// Two tensors; none if one is missing.
    fn read_pair(
        &self,
        names: [&Option<String>; 2],
    ) -> Result<Option<[StepElements<'_>; 2]>, FixtureError> {
        let [Some(first), Some(second)] = names else { return Ok(None) };
        let first = self.elements(first)?;
        let second = self.elements(second)?;
        Ok(first.zip(second).map(|(first, second)| [first, second]))
    }
}

/// The numbers of the step in `fixture`.
///
/// # Errors
/// [`FixtureError`] if a widened tensor cannot be narrowed.
pub(super) fn measure_step(
    catalogue: &TensorCatalogue,
    fixture: &Fixture,
    outputs: &OutputSource<'_>,
) -> Result<StepNumbers, FixtureError> {
    let tensors = StepTensors { fixture, outputs };
    let scalars = tensors.scalars(catalogue)?;
    let setting = AdamSetting {
        beta1: scalars.beta1.unwrap_or(DEFAULT.beta1),
        beta2: scalars.beta2.unwrap_or(DEFAULT.beta2),
        epsilon: scalars.eps.unwrap_or(DEFAULT.epsilon),
        step: scalars.adam_step,
    };
    let mut measured = StepNumbers { scalars, ..StepNumbers::default() };
    for tracked in &catalogue.tensors {
        let summary = tensors.summary(&tracked.name)?;
        measured.tensors.push(summary.map(|summary| TensorNumbers::from(&*summary)));
    }
    for parameter in &catalogue.parameters {
        let moments = tensors.read_pair([&parameter.exp_avg, &parameter.exp_avg_sq])?;
        let adam_statistics =
            moments.and_then(|[m, v]| measure_adam(&m.view(), &v.view(), &setting));
        measured.adam.push(adam_statistics);
        let weight = [&parameter.weight, &parameter.after];
        let weight_and_change = match tensors.read_pair([&parameter.weight, &parameter.update])? {
            Some([weight, update]) => {
                Some((tensor_l2_norm(&weight.view()), tensor_l2_norm(&update.view())))
            }
            None => tensors.read_pair(weight)?.and_then(|[before, after]| {
                let distance = measure_tensor_distance(&before.view(), &after.view())?;
                Some((tensor_l2_norm(&before.view()), distance))
            }),
        };
        measured
            .updates
            .push(weight_and_change.map(|(weight, norm)| ParameterUpdate { norm, weight }));
    }
    measured.alignment = measure_step_alignment(catalogue, &tensors)?;
    Ok(measured)
}

fn tensor_l2_norm(view: &TensorView) -> f64 {
    summarize_tensor(view, None).norm
}

/// `||after - before||`; none where the shapes differ.
fn measure_tensor_distance(before: &TensorView, after: &TensorView) -> Option<f64> {
    /// Elements in one read.
    const BLOCK: usize = 1 << 10;
    if before.shape != after.shape {
        return None;
    }
    let mut a = [0.0; BLOCK];
    let mut b = [0.0; BLOCK];
    let mut sum = 0.0;
    for block_start in (0..before.len()).step_by(BLOCK) {
        let length = BLOCK.min(before.len() - block_start);
        before.read(block_start, &mut a[..length]);
        after.read(block_start, &mut b[..length]);
        sum += a[..length].iter().zip(&b[..length]).map(|(a, b)| (b - a) * (b - a)).sum::<f64>();
    }
    Some(sum.sqrt())
}

fn measure_step_alignment(
    catalogue: &TensorCatalogue,
    tensors: &StepTensors<'_>,
) -> Result<Option<Alignment>, FixtureError> {
    let Some(language) = &catalogue.language else { return Ok(None) };
    let tokens = tensors.elements(&language.tokens)?;
    let targets = tensors.elements(&language.targets)?;
    let mask = language.mask.as_ref().map(|mask| tensors.elements(mask)).transpose()?.flatten();
    let (Some(tokens), Some(targets)) = (tokens, targets) else { return Ok(None) };
    let mask = mask.as_ref().map(StepElements::view);
    Ok(measure_alignment(&tokens.view(), &targets.view(), mask.as_ref()))
}

/// The captured numbers of the fixture in the folder `dir`. The cache keeps them until its files change.
///
/// # Errors
/// [`FixtureError`] with the file, the tensor and the size.
pub fn load_captured_numbers(
    dir: &Path,
    cache: &Cache,
) -> Result<(StepNumbers, String), FixtureError> {
    let trusted = Fixture::load_trusted(dir);
    let key = trusted.as_ref().ok().map(numbers_cache_key);
    let cached_bytes = key.as_ref().and_then(|key| cache.read(CacheKind::Fact, key));
    if let Some((measured, Ok(fixture))) =
        cached_bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).zip(Some(trusted))
    {
        return Ok((measured, fixture.name));
    }
    let fixture = Fixture::load(dir)?;
    let measured = captured_in(&fixture)?;
    let bytes = serde_json::to_vec(&measured).expect("numbers are plain data");
    // A full cache costs time alone.
    let _ = cache.write(CacheKind::Fact, &self::numbers_cache_key(&fixture), &bytes);
    Ok((measured, fixture.name))
}

/// The same of a loaded fixture.
///
/// # Errors
/// [`FixtureError`] if a widened tensor cannot be narrowed.
pub fn captured_in(fixture: &Fixture) -> Result<StepNumbers, FixtureError> {
    let _span = tracing::debug_span!("measure", message = fixture.name).entered();
    measure_step(&TensorCatalogue::from_harness(&fixture.harness), fixture, &OutputSource::Captured)
}

/// The key of a fixture's numbers in the cache.
fn numbers_cache_key(fixture: &Fixture) -> String {
    let identity = fixture.stat_identity();
    let text = format!("series, {}\n{identity}", env!("CARGO_PKG_VERSION"));
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
