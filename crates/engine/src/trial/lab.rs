//! The shared resources of trials.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{GradientEffort, GradientWatcher, GradientWork, Subject, Trial};
use crate::backend::{Backend, Held, ReplayError};
use crate::environment::Environment;
use replay_base::cache::{Cache, CacheKind};
use replay_base::scratch::Scratch;
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;
use replay_history::SourceSet;

/// A source set in an environment: all that a trial is made of besides its subject.
#[derive(Clone, Debug)]
pub struct PlacedSources {
    pub set: Arc<SourceSet>,
    /// None for the session's own.
    pub environment: Option<Arc<Environment>>,
}

impl From<Arc<SourceSet>> for PlacedSources {
    fn from(set: Arc<SourceSet>) -> PlacedSources {
        PlacedSources { set, environment: None }
    }
}

/// A backend, a cache, and room for numbers.
pub struct Lab {
    backend: Arc<dyn Backend>,
    cache: Cache,
    fresh: bool,
    scratch: Scratch,
    gradient_effort: GradientEffort,
    gradient_watcher: Option<GradientWatcher>,
    /// Those with the same resources in other environments, made so far.
    elsewhere: Mutex<Vec<(Arc<Environment>, Arc<Lab>)>>,
}

impl Lab {
    /// A lab that runs trials on `backend` and remembers in `cache`. With `fresh` it ignores the
    /// outcomes, noise and judgements in the cache.
    pub fn new(backend: Arc<dyn Backend>, cache: Cache, fresh: bool) -> Arc<Lab> {
        Lab::with_gradient_effort(backend, cache, fresh, GradientEffort::Usual, None)
    }

    /// The same with an effort for gradients, and with word of their progress to `gradient_watcher`.
    pub fn with_gradient_effort(
        backend: Arc<dyn Backend>,
        cache: Cache,
        fresh: bool,
        gradient_effort: GradientEffort,
        gradient_watcher: Option<GradientWatcher>,
    ) -> Arc<Lab> {
        let scratch = Scratch::of_process(&cache.temporary());
        let elsewhere = Mutex::default();
        Arc::new(Lab {
            backend,
            cache,
            fresh,
            scratch,
            gradient_effort,
            gradient_watcher,
            elsewhere,
        })
    }

    /// The lab for trials in `environment`; this one without an environment.
    pub fn in_environment(self: &Arc<Lab>, environment: Option<&Arc<Environment>>) -> Arc<Lab> {
        let Some(environment) = environment else { return self.clone() };
        let mut labs = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lab)) = labs.iter().find(|(known, _)| known == environment) {
            return lab.clone();
        }
        let lab = Lab::with_gradient_effort(
            self.backend.in_environment(environment),
            self.cache.clone(),
            self.fresh,
            self.gradient_effort,
            self.gradient_watcher.clone(),
        );
        labs.push((environment.clone(), lab.clone()));
        lab
    }

    /// How much work the check of gradients may be.
    pub(crate) fn gradient_effort(&self) -> GradientEffort {
        self.gradient_effort
    }

    /// Tells of the work on a gradient.
    pub(crate) fn tell_gradient_work(&self, work: &GradientWork) {
        if let Some(watcher) = &self.gradient_watcher {
            watcher(work);
        }
    }

    /// The trial of `sources` on `subject`.
    pub fn trial(self: &Arc<Lab>, subject: &Arc<Subject>, sources: &Arc<SourceSet>) -> Trial {
        Trial::new(self.clone(), subject.clone(), sources.clone())
    }

    /// The trial of `sources` where they are placed.
    pub fn placed_trial(self: &Arc<Lab>, subject: &Arc<Subject>, sources: &PlacedSources) -> Trial {
        self.in_environment(sources.environment.as_ref()).trial(subject, &sources.set)
    }

    /// The backend of the trials.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Whether there is room for what is `held_evidence` of the replays of `fixture` at a time; asked before anything is
    /// compiled.
    ///
    /// # Errors
    /// [`ReplayError`] if there is too little.
    pub fn room_for(&self, fixture: &Fixture, held_evidence: Held) -> Result<(), ReplayError> {
        Ok(self.backend.room(fixture, Precision::Native, held_evidence)?)
    }

    /// The cache of earlier results.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The memory for per-element results.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The hash of the fixture's content.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content<'s>(&self, subject: &'s Subject) -> Result<&'s str, ReplayError> {
        subject.content(&self.cache)
    }

    /// Identifies a subject by its tensors and by its harness's declarations.
    ///
    /// # Errors
    /// As [`Lab::content`].
    pub fn identity_of(&self, subject: &Subject) -> Result<String, ReplayError> {
        subject.identity(&self.cache)
    }

    /// The entry of the cache, unless the lab is `fresh`.
    pub(crate) fn recall<T: DeserializeOwned>(&self, kind: CacheKind, key: &str) -> Option<T> {
        if self.fresh {
            return None;
        }
        serde_json::from_slice(&self.cache.read(kind, key)?).ok()
    }

    /// Puts `value` into the cache.
    pub(crate) fn keep(
        &self,
        kind: CacheKind,
        key: &str,
        value: &impl Serialize,
    ) -> Result<(), ReplayError> {
        let text = serde_json::to_vec(value).expect("what is found is plain data");
        self.cache.write(kind, key, &text)?;
        Ok(())
    }

    /// Puts a judgement into the cache, unless the backend has given something up: the judgement may
    /// come out otherwise on a faster machine.
    pub(crate) fn keep_judgement(
        &self,
        key: &str,
        value: &impl Serialize,
    ) -> Result<(), ReplayError> {
        if self.backend.has_given_up() {
            return Ok(());
        }
        self.keep(CacheKind::Judgement, key, value)
    }

    /// The judgement with this key, from the cache or made now. One that rests on a run that timed out
    /// is not cached.
    pub fn remember<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, ReplayError>,
    ) -> Result<T, ReplayError> {
        if let Some(recalled_value) = self.recall(CacheKind::Judgement, key) {
            return Ok(recalled_value);
        }
        let timeouts = self.backend.timeouts();
        let new_value = make()?;
        if self.backend.timeouts() == timeouts {
            self.keep_judgement(key, &new_value)?;
        }
        Ok(new_value)
    }
}
