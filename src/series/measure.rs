//! Takes the numbers of one step from its tensors, which are dropped afterwards.

use std::borrow::Cow;
use std::path::Path;

use super::Roster;
use super::adam::{DEFAULT, Setting, adam};
use super::alignment::{Alignment, alignment};
use super::numbers::{Measured, Numbers, Scalars, Update};
use crate::cache::{Cache, Kind};
use crate::fixture::{Fixture, FixtureError, Input};
use crate::harness::Role;
use crate::summary::{Summary, summarize};
use crate::tensor::{DType, TensorView};
use crate::trial::Outcome;
use crate::worker::Run;

/// A tensor of a step.
struct Elements<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl Elements<'_> {
    fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }
}

/// Where the outputs of a step come from.
pub(super) enum Outputs<'a> {
    Captured,
    /// A replay; its elements only where they were asked for.
    Replayed(&'a Outcome, Option<&'a Run>),
}

/// The tensors of one step.
struct Tensors<'a> {
    fixture: &'a Fixture,
    outputs: &'a Outputs<'a>,
}

impl Tensors<'_> {
    fn input(&self, name: &str) -> Option<&Input> {
        self.fixture.inputs.iter().find(|input| input.name == name && input.present)
    }

    /// The elements of `name`, if they are there.
    fn elements(&self, name: &str) -> Result<Option<Elements<'_>>, FixtureError> {
        if let Some(input) = self.input(name) {
            let (dtype, shape, bytes) = (input.dtype, input.shape(), input.packed()?);
            return Ok(Some(Elements { dtype, shape, bytes }));
        }
        Ok(match self.outputs {
            Outputs::Captured => {
                let found = self.fixture.captured.iter().find(|one| one.name == name);
                found.map(|one| Elements {
                    dtype: one.dtype,
                    shape: one.shape(),
                    bytes: one.bytes().into(),
                })
            }
            Outputs::Replayed(_, run) => run.and_then(|run| run.output(name)).map(|view| {
                Elements { dtype: view.dtype, shape: view.shape.to_vec(), bytes: view.bytes.into() }
            }),
        })
    }

    /// The summary of `name`, if it is there.
    fn summary(&self, name: &str) -> Result<Option<Cow<'_, Summary>>, FixtureError> {
        if let Outputs::Replayed(outcome, _) = self.outputs
            && self.input(name).is_none()
        {
            let record = outcome.outputs.iter().find(|record| record.name == name);
            return Ok(record.map(|record| Cow::Borrowed(&record.summary)));
        }
        Ok(self.elements(name)?.map(|tensor| Cow::Owned(summarize(&tensor.view(), None))))
    }

    /// The one number that `name` is, or the mean of its elements.
    fn scalar(&self, name: Option<&str>) -> Result<Option<f64>, FixtureError> {
        let Some(name) = name else { return Ok(None) };
        let summary = self.summary(name)?;
        Ok(summary.map(|summary| match &*summary {
            Summary { nan, unwritten, .. } if nan + unwritten > 0 => f64::NAN,
            Summary { inf, .. } if *inf > 0 => f64::INFINITY,
            Summary { mean, .. } => mean.unwrap_or(f64::NAN),
        }))
    }

    fn scalars(&self, roster: &Roster) -> Result<Scalars, FixtureError> {
        let one = |role| self.scalar(roster.scalar(&role));
        Ok(Scalars {
            loss: one(Role::Loss)?,
            grad_norm: one(Role::GradNorm)?,
            max_norm: one(Role::MaxNorm)?,
            lr: one(Role::LearningRate)?,
            beta1: one(Role::Beta1)?,
            beta2: one(Role::Beta2)?,
            eps: one(Role::Epsilon)?,
            adam_step: one(Role::AdamStep)?,
        })
    }

    /// Two tensors that may be missing.
    fn both(&self, names: [&Option<String>; 2]) -> Result<Option<[Elements<'_>; 2]>, FixtureError> {
        let [Some(first), Some(second)] = names else { return Ok(None) };
        let (first, second) = (self.elements(first)?, self.elements(second)?);
        Ok(first.zip(second).map(|(first, second)| [first, second]))
    }
}

/// The numbers of the step that `fixture` holds.
///
/// # Errors
/// [`FixtureError`] if a widened tensor cannot be narrowed.
pub(super) fn measure(
    roster: &Roster,
    fixture: &Fixture,
    outputs: &Outputs<'_>,
) -> Result<Measured, FixtureError> {
    let tensors = Tensors { fixture, outputs };
    let scalars = tensors.scalars(roster)?;
    let setting = Setting {
        beta1: scalars.beta1.unwrap_or(DEFAULT.beta1),
        beta2: scalars.beta2.unwrap_or(DEFAULT.beta2),
        epsilon: scalars.eps.unwrap_or(DEFAULT.epsilon),
        step: scalars.adam_step,
    };
    let mut measured = Measured { scalars, ..Measured::default() };
    for tracked in &roster.tensors {
        let summary = tensors.summary(&tracked.name)?;
        measured.tensors.push(summary.map(|summary| Numbers::from(&*summary)));
    }
    for parameter in &roster.parameters {
        let moments = tensors.both([&parameter.exp_avg, &parameter.exp_avg_sq])?;
        let told = moments.and_then(|[m, v]| adam(&m.view(), &v.view(), &setting));
        measured.adam.push(told);
        let weight = [&parameter.weight, &parameter.after];
        let moved = match tensors.both([&parameter.weight, &parameter.update])? {
            Some([weight, update]) => Some((norm(&weight.view()), norm(&update.view()))),
            None => tensors.both(weight)?.and_then(|[before, after]| {
                let distance = distance(&before.view(), &after.view())?;
                Some((norm(&before.view()), distance))
            }),
        };
        measured.updates.push(moved.map(|(weight, norm)| Update { norm, weight }));
    }
    measured.alignment = aligned(roster, &tensors)?;
    Ok(measured)
}

fn norm(view: &TensorView) -> f64 {
    summarize(view, None).norm
}

/// `||after - before||`; none where the shapes differ.
fn distance(before: &TensorView, after: &TensorView) -> Option<f64> {
    /// Elements that are read at a time.
    const BLOCK: usize = 1 << 10;
    if before.shape != after.shape {
        return None;
    }
    let (mut a, mut b) = ([0.0; BLOCK], [0.0; BLOCK]);
    let mut sum = 0.0;
    for begin in (0..before.len()).step_by(BLOCK) {
        let length = BLOCK.min(before.len() - begin);
        before.read(begin, &mut a[..length]);
        after.read(begin, &mut b[..length]);
        sum += a[..length].iter().zip(&b[..length]).map(|(a, b)| (b - a) * (b - a)).sum::<f64>();
    }
    Some(sum.sqrt())
}

fn aligned(roster: &Roster, tensors: &Tensors<'_>) -> Result<Option<Alignment>, FixtureError> {
    let Some(language) = &roster.language else { return Ok(None) };
    let tokens = tensors.elements(&language.tokens)?;
    let targets = tensors.elements(&language.targets)?;
    let mask = language.mask.as_ref().map(|mask| tensors.elements(mask)).transpose()?.flatten();
    let (Some(tokens), Some(targets)) = (tokens, targets) else { return Ok(None) };
    let mask = mask.as_ref().map(Elements::view);
    Ok(alignment(&tokens.view(), &targets.view(), mask.as_ref()))
}

/// The captured numbers of the fixture in the folder `dir`. They are remembered for as long as its files
/// do not change: what is known is not read again.
///
/// # Errors
/// [`FixtureError`], which names the file, the tensor and the size.
pub fn captured(dir: &Path, cache: &Cache) -> Result<(Measured, String), FixtureError> {
    let trusted = Fixture::load_trusted(dir);
    let key = trusted.as_ref().ok().map(key);
    let known = key.as_ref().and_then(|key| cache.read(Kind::Fact, key));
    if let Some((measured, Ok(fixture))) =
        known.and_then(|bytes| serde_json::from_slice(&bytes).ok()).zip(Some(trusted))
    {
        return Ok((measured, fixture.name));
    }
    let fixture = Fixture::load(dir)?;
    let measured = captured_in(&fixture)?;
    let bytes = serde_json::to_vec(&measured).expect("numbers are plain data");
    // A cache that takes nothing costs time alone.
    let _ = cache.write(Kind::Fact, &self::key(&fixture), &bytes);
    Ok((measured, fixture.name))
}

/// The same of a fixture that was loaded.
///
/// # Errors
/// [`FixtureError`] if a widened tensor cannot be narrowed.
pub fn captured_in(fixture: &Fixture) -> Result<Measured, FixtureError> {
    let _span = tracing::debug_span!("measure", message = fixture.name).entered();
    measure(&Roster::of(&fixture.harness), fixture, &Outputs::Captured)
}

/// The key of a fixture's numbers in the cache.
fn key(fixture: &Fixture) -> String {
    let identity = fixture.stat_identity();
    let text = format!("series, {}\n{identity}", env!("CARGO_PKG_VERSION"));
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
