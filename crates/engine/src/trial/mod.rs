//! Trials: one source set on one fixture, and all measurements of it.
//!
//! A [`Trial`] compiles, runs and measures on demand, each thing once, and caches by content whatever
//! the next process may ask for too. A [`Lab`] holds what trials share: a backend, the cache, memory
//! for numbers. Nothing here compares trials; `judge` does.

mod build;
mod checked_replay;
mod early_noise;
mod gradient_effort;
mod imprints;
mod lab;
mod lazy_value;
mod measurement;
mod nondeterminism;
mod one_run;
mod opened;
mod order;
mod outcome;
mod plain_replay;
mod steps;
mod subject;
mod twin;

pub(crate) use self::early_noise::measured_ahead;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::build::{Shadow, VariantBuild};
pub use self::checked_replay::{AccessCheck, CheckedReplay, RaceScope, TensorReach, TensorTraces};
pub(crate) use self::gradient_effort::SlopeEffort;
pub use self::gradient_effort::{GradientEffort, GradientWatcher, GradientWork};
pub use self::imprints::OutputImprint;
pub use self::lab::{Lab, PlacedSources};
pub use self::measurement::{Measurement, Nondeterminism, OutputNoise, Probe};
pub(crate) use self::measurement::{ORDERS, convert_numerics_error, list_noise_modes};
pub use self::order::OrderDependence;
pub(crate) use self::outcome::failure_of;
pub use self::outcome::{Failure, Outcome, OutputRecord, Slices, Status};
use self::steps::OutputSteps;
pub(crate) use self::steps::{StepReach, steps_between};
pub use self::subject::Subject;
pub(crate) use self::twin::why_unfinished;

use self::early_noise::Ahead;
use self::lazy_value::LazyValue;
use self::plain_replay::Plain;
use crate::backend::{Held, Mode, Refusal, ReplayError, Variant};
use crate::worker::{Run, tensor_bytes};
use replay_base::cache::CacheKind;
use replay_base::summary::POISON_A;
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;
use replay_history::SourceSet;
use replay_numerics::noise::{Noise, Spread};

/// A source set on a fixture, with its results so far. Each is made on first demand and kept as
/// long as the trial.
///
/// Several threads may ask at once, but not work that rayon schedules: one thread waits for the
/// result of another.
pub struct Trial {
    lab: Arc<Lab>,
    subject: Arc<Subject>,
    sources: Arc<SourceSet>,
    native: LazyValue<VariantBuild>,
    shadow: LazyValue<Shadow<Arc<dyn Variant>>>,
    key: LazyValue<String>,
    outcome: LazyValue<Outcome>,
    /// Whether the outcome was in the cache.
    is_recalled: AtomicBool,
    /// Whether the outcome rests on one run.
    has_one_run: AtomicBool,
    /// The plain run behind the outcome, until it is measured.
    plain: Mutex<Option<Plain>>,
    measurement: LazyValue<Measurement>,
    /// Whether a measurement is to follow the outcome.
    is_to_be_measured: AtomicBool,
    /// The noise of the reference, where it is measured ahead.
    ahead: Mutex<Ahead>,
    shadow_run: LazyValue<Shadow<Run>>,
    /// The shadow's run on the reference machine, where it runs elsewhere.
    reference_run: LazyValue<Shadow<Run>>,
    /// Why a completed shadow is none, if it is.
    shadow_fault: LazyValue<Option<String>>,
    /// The noise of the shadow, by output.
    shadow_noise: LazyValue<Vec<(String, Noise)>>,
    /// The steps of the shadow at the distances of [`StepReach`], by output.
    shadow_steps: [LazyValue<Vec<OutputSteps>>; 2],
    /// The processor time of the call of a plain run, once there was one.
    call: LazyValue<Duration>,
    checked: LazyValue<CheckedReplay>,
}

/// From this size of all tensors on, one measurement keeps all cores busy, and of orders the opposite one is taken, which
/// turns every pair of blocks and threads around.
const IN_TURN_BYTES: u64 = 128 << 20;
/// The name of noise in keys of the cache.
const NOISE: &str = "noise and orders";

impl Trial {
    fn new(lab: Arc<Lab>, subject: Arc<Subject>, sources: Arc<SourceSet>) -> Trial {
        Trial {
            lab,
            subject,
            sources,
            native: LazyValue::default(),
            shadow: LazyValue::default(),
            key: LazyValue::default(),
            outcome: LazyValue::default(),
            is_recalled: AtomicBool::new(false),
            has_one_run: AtomicBool::new(false),
            plain: Mutex::new(None),
            measurement: LazyValue::default(),
            is_to_be_measured: AtomicBool::new(false),
            ahead: Mutex::default(),
            shadow_run: LazyValue::default(),
            reference_run: LazyValue::default(),
            shadow_fault: LazyValue::default(),
            shadow_noise: LazyValue::default(),
            shadow_steps: Default::default(),
            call: LazyValue::default(),
            checked: LazyValue::default(),
        }
    }

    /// The lab shared with other trials.
    pub fn lab(&self) -> &Arc<Lab> {
        &self.lab
    }

    /// The fixture.
    pub fn fixture(&self) -> &Fixture {
        &self.subject.fixture
    }

    /// Whether its tensors are large: their measurements would not fit in memory side by side, and are made in turn.
    pub(crate) fn is_large(&self) -> bool {
        let (inputs, outputs) = tensor_bytes(self.fixture(), false);
        inputs.saturating_add(outputs) >= IN_TURN_BYTES
    }

    /// A trial of the same sources on another fixture.
    pub(crate) fn with_fixture(&self, fixture: Fixture) -> Trial {
        Trial::new(self.lab.clone(), Arc::new(Subject::new(fixture)), self.sources.clone())
    }

    /// The source set.
    pub fn sources(&self) -> &SourceSet {
        &self.sources
    }

    /// Whether `other` is of the same sources in the same environment.
    pub fn is_of_same_sources(&self, other: &Trial) -> bool {
        self.sources.id == other.sources.id && Arc::ptr_eq(&self.lab, &other.lab)
    }

    /// The hash of the fixture's content.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content(&self) -> Result<&str, ReplayError> {
        self.lab.content(&self.subject)
    }

    /// The sources made ready to run, or why they cannot be run.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine is at fault.
    pub fn native(&self) -> Result<&VariantBuild, ReplayError> {
        self.native_while(&|| ())
    }

    /// The same; calls `meanwhile` while the compiler runs, if it has to.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn native_while(
        &self,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<&VariantBuild, ReplayError> {
        self.native.get(|| self.prepare(Precision::Native, meanwhile))
    }

    /// The sources made ready to run, or none if they cannot be run.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn variant(&self) -> Result<Option<&dyn Variant>, ReplayError> {
        Ok(match self.native()? {
            VariantBuild::Ready(variant) => Some(&**variant),
            VariantBuild::Refused(_) => None,
        })
    }

    /// The float64 shadow made ready to run, or why there is none.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn shadow(&self) -> Result<Shadow<&dyn Variant>, ReplayError> {
        self.shadow_while(&|| ())
    }

    /// The same; calls `meanwhile` while the compiler runs, if it has to.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn shadow_while(
        &self,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Shadow<&dyn Variant>, ReplayError> {
        let shadow_build = self.shadow.get(|| {
            let reason = match self.prepare(Precision::Shadow, meanwhile)? {
                VariantBuild::Ready(shadow) if shadow.obstacles().is_empty() => {
                    return Ok::<_, ReplayError>(Shadow::Present(shadow));
                }
                VariantBuild::Ready(shadow) => cannot_mean_double(&shadow.obstacles().join("; ")),
                VariantBuild::Refused(Refusal { first_error: Some(error), .. }) => {
                    format!("the float64 shadow does not compile: {error}")
                }
                VariantBuild::Refused(refusal) => refusal.reason,
            };
            Ok(Shadow::Missing { reason })
        })?;
        Ok(match shadow_build.as_ref() {
            Shadow::Present(shadow) => Shadow::Present(&**shadow),
            Shadow::Missing { reason } => Shadow::Missing { reason },
        })
    }

    /// Whether there is room for what is `held_evidence` of it at a time; asked before anything is compiled.
    ///
    /// # Errors
    /// [`ReplayError`] if there is too little.
    pub(crate) fn room_for(&self, held_evidence: Held) -> Result<(), ReplayError> {
        self.lab.room_for(self.fixture(), held_evidence)
    }

    /// Whether there is room for the float64 shadow.
    pub(crate) fn has_room_for_shadow(&self) -> bool {
        self.lab.backend().room(self.fixture(), Precision::Shadow, Held::Outcome).is_ok()
    }

    pub(super) fn prepare(
        &self,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<VariantBuild, ReplayError> {
        let backend = self.lab.backend();
        match (backend.room(self.fixture(), precision, Held::Outcome), precision) {
            (Ok(()), _) => {}
            (Err(error), Precision::Native) => return Err(error.into()),
            (Err(error), _) => {
                let reason = error.to_string();
                let hint = error.hint();
                let causes = Vec::new();
                let refusal = Refusal { reason, causes, hint, first_error: None };
                return Ok(VariantBuild::Refused(refusal));
            }
        }
        match backend.prepare(&self.subject.fixture, &self.sources, precision, meanwhile) {
            Ok(variant) => Ok(VariantBuild::Ready(variant)),
            Err(error) => error.refusal().map(VariantBuild::Refused).ok_or(error),
        }
    }

    /// The outcome of a replay, the revision's faults included.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn outcome(&self) -> Result<&Outcome, ReplayError> {
        self.outcome.get(|| match self.native()? {
            VariantBuild::Ready(variant) => self.sanitized(&**variant, self.replayed(&**variant)?),
            VariantBuild::Refused(refusal) => Ok(self.untestable(refusal.clone())),
        })
    }

    /// The plain run with all measurements around it, or none where the sources cannot be run.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn measurement(&self) -> Result<Option<&Measurement>, ReplayError> {
        let Some(variant) = self.variant()? else { return Ok(None) };
        let cached_measurement = self.measurement.get(|| {
            let timeouts = self.lab.backend().timeouts();
            let measurement = self.measure(variant)?;
            if self.lab.backend().timeouts() == timeouts {
                self.lab.keep_judgement(&self.key_of(NOISE)?, &measurement.noises())?;
            }
            Ok::<_, ReplayError>(measurement)
        });
        cached_measurement.map(Some)
    }

    /// The noise of every output; empty where the sources cannot be run to their end.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn noise(&self) -> Result<Vec<OutputNoise>, ReplayError> {
        match self.known_noise()? {
            Some(known_noise) => Ok(known_noise),
            None => Ok(self.measurement()?.map_or(Vec::new(), Measurement::noises)),
        }
    }

    /// The noise, if it was measured before.
    pub(crate) fn known_noise(&self) -> Result<Option<Vec<OutputNoise>>, ReplayError> {
        if let Some(measurement) = self.measurement.peek() {
            return Ok(Some(measurement.noises()));
        }
        match self.variant()? {
            Some(_) => Ok(self.lab.recall(CacheKind::Judgement, &self.key_of(NOISE)?)),
            None => Ok(None),
        }
    }

    /// The shadow's run, or why there is none.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn shadow_run(&self) -> Result<Shadow<&Run>, ReplayError> {
        let cached_run = self.shadow_run.get(|| match self.shadow()? {
            Shadow::Present(shadow) => self.run_shadow(shadow),
            Shadow::Missing { reason } => Ok(Shadow::Missing { reason }),
        })?;
        Ok(cached_run.as_ref())
    }

    /// The shadow on the reference machine and its run there, or why there is none. Its bits are the same on
    /// every machine, and it can round in another direction.
    pub(super) fn shadow_on_reference(&self) -> Result<Shadow<(&dyn Variant, &Run)>, ReplayError> {
        let shadow = match self.shadow()? {
            Shadow::Present(shadow) => shadow,
            Shadow::Missing { reason } => return Ok(Shadow::Missing { reason }),
        };
        let (variant, shadow_run) = match shadow.reference() {
            None => (shadow, self.shadow_run()?),
            Some(reference) => {
                let cached_run = self.reference_run.get(|| self.run_shadow(reference))?;
                (reference, cached_run.as_ref())
            }
        };
        Ok(match shadow_run {
            Shadow::Present(run) => Shadow::Present((variant, run)),
            Shadow::Missing { reason } => Shadow::Missing { reason },
        })
    }

    fn run_shadow(&self, shadow: &dyn Variant) -> Result<Shadow<Run>, ReplayError> {
        let _span = tracing::info_span!("shadow", message = self.fixture().name);
        let run = shadow.run(&Mode::plain(POISON_A))?;
        Ok(match self.why_no_shadow(shadow, &run)? {
            None => Shadow::Present(run),
            Some(reason) => Shadow::Missing { reason },
        })
    }

    /// How far rounding in float64 moves each element of the shadow of output `name`; none without a
    /// shadow, or where it cannot round in another direction.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn shadow_noise(&self, name: &str) -> Result<Option<&Spread>, ReplayError> {
        let noise = self.shadow_noise.get(|| self.measure_shadow())?;
        Ok(noise
            .iter()
            .find(|(output_name, _)| output_name == name)
            .map(|(_, noise)| &noise.per_element))
    }

    /// The findings of a checked run. No such run is made if the call of a plain run takes more processor
    /// time than `time_limit`.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn checked(&self, time_limit: Option<Duration>) -> Result<&CheckedReplay, ReplayError> {
        self.checked.get(|| self.check_accesses(time_limit))
    }

    /// The key of the outcome in the cache. It covers the compiled variant, the tensors, the harness's
    /// declarations, this program and its backend.
    ///
    /// # Panics
    /// If the sources cannot be run.
    pub(crate) fn key(&self) -> Result<&str, ReplayError> {
        let cached_key = self.key.get(|| {
            let variant = self.variant()?.expect("what cannot be run has no key");
            let subject = self.lab.identity_of(&self.subject)?;
            let backend = self.lab.backend().identity();
            Ok::<_, ReplayError>(digest_key_parts([&variant.key(), &subject, &backend]))
        })?;
        Ok(cached_key)
    }

    /// The key of another result of this trial, by the name `evidence_kind`.
    pub fn key_of(&self, evidence_kind: &str) -> Result<String, ReplayError> {
        Ok(digest_key_parts([evidence_kind, self.key()?]))
    }
}

fn cannot_mean_double(obstacle: &str) -> String {
    format!("float cannot mean double: {obstacle}")
}

/// A key made of `parts`.
pub(crate) fn digest_key_parts<const N: usize>(parts: [&str; N]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..40].to_owned()
}
