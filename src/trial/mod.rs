//! Trials: one source set on one fixture, and all measurements of it.
//!
//! A [`Trial`] compiles, runs and measures on demand, each thing once, and caches by content whatever
//! the next process may ask for too. A [`Lab`] holds what trials share: a backend, the cache, memory
//! for numbers. Nothing here compares trials; `judge` does.

mod ahead;
mod both;
mod checked;
mod imprints;
mod lab;
mod measurement;
mod once;
mod order;
mod outcome;
mod plain;
mod steps;
mod subject;
mod twin;
mod unsteady;

pub(crate) use self::ahead::measured_ahead;
pub(crate) use self::both::both;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::checked::{Check, Checked};
pub use self::imprints::OutputImprint;
pub use self::lab::Lab;
pub use self::measurement::{Measurement, Nondeterminism, OutputNoise, Probe};
pub(crate) use self::measurement::{ORDERS, room};
pub use self::order::OrderDependence;
pub use self::outcome::{Failure, Outcome, OutputRecord, Slices, Status};
use self::steps::OutputSteps;
pub(crate) use self::steps::{Reach, steps_between};
pub use self::subject::Subject;
pub(crate) use self::twin::why_unfinished;

use self::ahead::Ahead;
use self::once::Once;
use self::plain::Plain;
use crate::backend::{Held, Mode, Refusal, ReplayError, Variant};
use crate::cache::Kind;
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::numerics::noise::{Noise, Spread};
use crate::summary::POISON_A;
use crate::worker::{Run, tensor_bytes};

/// A source set on a fixture, with its results so far. Each is made on first demand and kept as
/// long as the trial.
///
/// Several threads may ask at once, but not work that rayon schedules: one thread waits for the
/// result of another.
pub struct Trial {
    lab: Arc<Lab>,
    subject: Arc<Subject>,
    sources: Arc<SourceSet>,
    native: Once<Result<Arc<dyn Variant>, Refusal>>,
    shadow: Once<Result<Arc<dyn Variant>, String>>,
    key: Once<String>,
    outcome: Once<Outcome>,
    /// The plain run behind the outcome, until it is measured.
    plain: Mutex<Option<Plain>>,
    measurement: Once<Measurement>,
    /// Whether a measurement is to follow the outcome.
    is_to_be_measured: AtomicBool,
    /// The noise of the reference, where it is measured ahead.
    ahead: Mutex<Ahead>,
    shadow_run: Once<Result<Run, String>>,
    /// The shadow's run on the reference machine, where it runs elsewhere.
    reference_run: Once<Result<Run, String>>,
    /// Why a shadow that runs to its end is none, if it is.
    shadow_fault: Once<Option<String>>,
    /// The noise of the shadow, by output.
    shadow_noise: Once<Vec<(String, Noise)>>,
    /// The steps of the shadow at the distances of [`Reach`], by output.
    shadow_steps: [Once<Vec<OutputSteps>>; 2],
    /// The processor time that the call of a plain run took, once there was one.
    call: Once<Duration>,
    checked: Once<Checked>,
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
            native: Once::default(),
            shadow: Once::default(),
            key: Once::default(),
            outcome: Once::default(),
            plain: Mutex::new(None),
            measurement: Once::default(),
            is_to_be_measured: AtomicBool::new(false),
            ahead: Mutex::default(),
            shadow_run: Once::default(),
            reference_run: Once::default(),
            shadow_fault: Once::default(),
            shadow_noise: Once::default(),
            shadow_steps: Default::default(),
            call: Once::default(),
            checked: Once::default(),
        }
    }

    /// The lab that it shares with other trials.
    pub fn lab(&self) -> &Arc<Lab> {
        &self.lab
    }

    /// The fixture.
    pub fn fixture(&self) -> &Fixture {
        &self.subject.fixture
    }

    /// Whether its tensors take so much memory that what is measured of them is measured in turn.
    pub(crate) fn is_large(&self) -> bool {
        let (inputs, outputs) = tensor_bytes(self.fixture(), false);
        inputs.saturating_add(outputs) >= IN_TURN_BYTES
    }

    /// A trial of the same sources on another fixture.
    pub(crate) fn on(&self, fixture: Fixture) -> Trial {
        Trial::new(self.lab.clone(), Arc::new(Subject::new(fixture)), self.sources.clone())
    }

    /// The source set.
    pub fn sources(&self) -> &SourceSet {
        &self.sources
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
    pub fn native(&self) -> Result<&Result<Arc<dyn Variant>, Refusal>, ReplayError> {
        self.native_while(&|| ())
    }

    /// The same; calls `meanwhile` while the compiler runs, if it has to.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn native_while(
        &self,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<&Result<Arc<dyn Variant>, Refusal>, ReplayError> {
        self.native.get(|| self.prepare(Precision::Native, meanwhile))
    }

    /// The sources made ready to run, or none if they cannot be run.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn variant(&self) -> Result<Option<&dyn Variant>, ReplayError> {
        Ok(self.native()?.as_deref().ok())
    }

    /// The float64 shadow made ready to run, or why there is none.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn shadow(&self) -> Result<Result<&dyn Variant, &str>, ReplayError> {
        self.shadow_while(&|| ())
    }

    /// The same; calls `meanwhile` while the compiler runs, if it has to.
    ///
    /// # Errors
    /// As [`Trial::native`].
    pub fn shadow_while(
        &self,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Result<&dyn Variant, &str>, ReplayError> {
        let made = self.shadow.get(|| {
            Ok::<_, ReplayError>(match self.prepare(Precision::Shadow, meanwhile)? {
                Ok(shadow) => match shadow.obstacle() {
                    Some(obstacle) => Err(cannot_mean_double(obstacle)),
                    None => Ok(shadow),
                },
                Err(Refusal { first_error: Some(error), .. }) => {
                    Err(format!("the float64 shadow does not compile: {error}"))
                }
                Err(refusal) => Err(refusal.reason),
            })
        })?;
        Ok(made.as_deref().map_err(String::as_str))
    }

    /// Whether there is room for what is `held` of it at a time; asked before anything is compiled.
    ///
    /// # Errors
    /// [`ReplayError`] if there is too little.
    pub(crate) fn room_for(&self, held: Held) -> Result<(), ReplayError> {
        self.lab.room_for(self.fixture(), held)
    }

    /// Whether there is room for the float64 shadow.
    pub(crate) fn has_room_for_shadow(&self) -> bool {
        self.lab.backend().room(self.fixture(), Precision::Shadow, Held::Outcome).is_ok()
    }

    pub(super) fn prepare(
        &self,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Result<Arc<dyn Variant>, Refusal>, ReplayError> {
        let backend = self.lab.backend();
        match (backend.room(self.fixture(), precision, Held::Outcome), precision) {
            (Ok(()), _) => {}
            (Err(error), Precision::Native) => return Err(error.into()),
            (Err(error), _) => {
                let (reason, hint) = (error.to_string(), error.hint());
                return Ok(Err(Refusal { reason, causes: Vec::new(), hint, first_error: None }));
            }
        }
        match backend.prepare(&self.subject.fixture, &self.sources, precision, meanwhile) {
            Ok(variant) => Ok(Ok(variant)),
            Err(error) => error.refusal().map(Err).ok_or(error),
        }
    }

    /// The outcome of a replay, which includes the revision's faults.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn outcome(&self) -> Result<&Outcome, ReplayError> {
        self.outcome.get(|| match self.native()? {
            Ok(variant) => self.sanitized(&**variant, self.replayed(&**variant)?),
            Err(refusal) => Ok(self.untestable(refusal.clone())),
        })
    }

    /// The plain run with all measurements around it, or none where the sources cannot be run.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn measurement(&self) -> Result<Option<&Measurement>, ReplayError> {
        let Some(variant) = self.variant()? else { return Ok(None) };
        let measured = self.measurement.get(|| {
            let timeouts = self.lab.backend().timeouts();
            let measured = self.measure(variant)?;
            if self.lab.backend().timeouts() == timeouts {
                self.lab.keep_judgement(&self.key_of(NOISE)?, &measured.noises())?;
            }
            Ok::<_, ReplayError>(measured)
        });
        measured.map(Some)
    }

    /// The noise of every output; empty where the sources cannot be run to their end.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn noise(&self) -> Result<Vec<OutputNoise>, ReplayError> {
        match self.known_noise()? {
            Some(known) => Ok(known),
            None => Ok(self.measurement()?.map_or(Vec::new(), Measurement::noises)),
        }
    }

    /// The noise, if it was measured before.
    pub(crate) fn known_noise(&self) -> Result<Option<Vec<OutputNoise>>, ReplayError> {
        if let Some(measured) = self.measurement.known() {
            return Ok(Some(measured.noises()));
        }
        match self.variant()? {
            Some(_) => Ok(self.lab.recall(Kind::Judgement, &self.key_of(NOISE)?)),
            None => Ok(None),
        }
    }

    /// The shadow's run, or why there is none.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn shadow_run(&self) -> Result<Result<&Run, &str>, ReplayError> {
        let made = self.shadow_run.get(|| {
            let shadow = match self.shadow()? {
                Ok(shadow) => shadow,
                Err(reason) => return Ok::<_, ReplayError>(Err(reason.to_owned())),
            };
            self.run_shadow(shadow)
        })?;
        Ok(made.as_ref().map_err(String::as_str))
    }

    /// The shadow on the reference machine and its run there, or why there is none. Its bits are the same on
    /// every machine, and it can round in another direction.
    pub(super) fn shadow_on_reference(
        &self,
    ) -> Result<Result<(&dyn Variant, &Run), &str>, ReplayError> {
        let shadow = match self.shadow()? {
            Ok(shadow) => shadow,
            Err(reason) => return Ok(Err(reason)),
        };
        let Some(reference) = shadow.reference() else {
            return Ok(self.shadow_run()?.map(|run| (shadow, run)));
        };
        let made = self.reference_run.get(|| self.run_shadow(reference))?;
        Ok(made.as_ref().map(|run| (reference, run)).map_err(String::as_str))
    }

    fn run_shadow(&self, shadow: &dyn Variant) -> Result<Result<Run, String>, ReplayError> {
        let _span = tracing::info_span!("shadow", message = self.fixture().name);
        let run = shadow.run(&Mode::plain(POISON_A))?;
        Ok(match self.why_no_shadow(shadow, &run)? {
            None => Ok(run),
            Some(reason) => Err(reason),
        })
    }

    /// How far rounding in float64 moves each element of the shadow of output `name`; none without a
    /// shadow, or where it cannot round in another direction.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn shadow_noise(&self, name: &str) -> Result<Option<&Spread>, ReplayError> {
        let noise = self.shadow_noise.get(|| self.measure_shadow())?;
        Ok(noise.iter().find(|(of, _)| of == name).map(|(_, noise)| &noise.per_element))
    }

    /// The findings of a checked run. No such run is made if the call of a plain run takes more processor
    /// time than `most`.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub fn checked(&self, most: Option<Duration>) -> Result<&Checked, ReplayError> {
        self.checked.get(|| self.check_accesses(most))
    }

    /// The key of the outcome in the cache. It covers the compiled variant, the tensors, the harness's
    /// declarations, this program and its backend.
    ///
    /// # Panics
    /// If the sources cannot be run.
    pub(crate) fn key(&self) -> Result<&str, ReplayError> {
        let made = self.key.get(|| {
            let variant = self.variant()?.expect("what cannot be run has no key");
            let subject = self.lab.identity_of(&self.subject)?;
            let backend = self.lab.backend().identity();
            Ok::<_, ReplayError>(digest([&variant.key(), &subject, &backend]))
        })?;
        Ok(made)
    }

    /// The key of another result of this trial, by the name `what`.
    pub(crate) fn key_of(&self, what: &str) -> Result<String, ReplayError> {
        Ok(digest([what, self.key()?]))
    }
}

fn cannot_mean_double(obstacle: &str) -> String {
    format!("float cannot mean double: {obstacle}")
}

/// A key made of `parts`.
pub(crate) fn digest<const N: usize>(parts: [&str; N]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..40].to_owned()
}
