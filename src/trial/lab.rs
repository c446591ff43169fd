//! What trials share.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Subject, Trial};
use crate::backend::{Backend, ReplayError};
use crate::cache::{Cache, Kind};
use crate::history::SourceSet;
use crate::scratch::{HEAP_BYTES, Scratch};

/// A backend, a cache, and room for numbers.
pub struct Lab {
    backend: Arc<dyn Backend>,
    cache: Cache,
    fresh: bool,
    scratch: Scratch,
}

impl Lab {
    /// A lab that runs trials on `backend` and remembers in `cache`; with `fresh` it passes over what
    /// the cache knows of outcomes, noise and judgements.
    pub fn new(backend: Arc<dyn Backend>, cache: Cache, fresh: bool) -> Arc<Lab> {
        let scratch = Scratch::in_folder(&cache.temporary(), HEAP_BYTES);
        Arc::new(Lab { backend, cache, fresh, scratch })
    }

    /// The trial of `sources` on `subject`.
    pub fn trial(self: &Arc<Lab>, subject: &Arc<Subject>, sources: &Arc<SourceSet>) -> Trial {
        Trial::new(self.clone(), subject.clone(), sources.clone())
    }

    /// What runs the trials.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// What was found before.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Where what is measured of each element is kept.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The hash of what a fixture holds.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content<'s>(&self, subject: &'s Subject) -> Result<&'s str, ReplayError> {
        subject.content(&self.cache)
    }

    /// Tells subjects apart: by their tensors, and by what their harnesses say of them.
    ///
    /// # Errors
    /// As [`Lab::content`].
    pub(crate) fn identity_of(&self, subject: &Subject) -> Result<String, ReplayError> {
        subject.identity(&self.cache)
    }

    /// What the cache holds, if it may be asked.
    pub(crate) fn recall<T: DeserializeOwned>(&self, kind: Kind, key: &str) -> Option<T> {
        if self.fresh {
            return None;
        }
        serde_json::from_slice(&self.cache.read(kind, key)?).ok()
    }

    /// Puts `made` into the cache.
    pub(crate) fn keep(
        &self,
        kind: Kind,
        key: &str,
        made: &impl Serialize,
    ) -> Result<(), ReplayError> {
        let text = serde_json::to_vec(made).expect("what is found is plain data");
        self.cache.write(kind, key, &text)?;
        Ok(())
    }

    /// The same for a judgement, unless one that is made without all that was asked for may come out
    /// otherwise on a faster machine.
    pub(crate) fn keep_judgement(
        &self,
        key: &str,
        made: &impl Serialize,
    ) -> Result<(), ReplayError> {
        if self.backend.has_given_up() {
            return Ok(());
        }
        self.keep(Kind::Judgement, key, made)
    }

    /// The judgement with this key, from the cache if it was made before. One that rests on a run that
    /// was out of time is not remembered.
    pub(crate) fn remember<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, ReplayError>,
    ) -> Result<T, ReplayError> {
        if let Some(found) = self.recall(Kind::Judgement, key) {
            return Ok(found);
        }
        let timeouts = self.backend.timeouts();
        let made = make()?;
        if self.backend.timeouts() == timeouts {
            self.keep_judgement(key, &made)?;
        }
        Ok(made)
    }
}
